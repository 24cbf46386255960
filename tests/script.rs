//! Parsing and printing of many programs: the repository's workloads, TVM's own texts, and damaged texts.
//!
//! TVM's texts are those of the conformance cases, in the directory named by `TVMR_CONFORMANCE` (default:
//! `tests/conformance`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tvmr::ir::equal::Equality;
use tvmr::script::{Dialect, ParseOptions, Parsed, parse, print_module, print_module_mapped};

fn read(text: &str) -> Parsed {
    parse(text, "<text>", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Accepts everything that can be represented: TVM's texts include meaningless programs.
fn lax() -> ParseOptions {
    ParseOptions { checks: None, ..Default::default() }
}

fn workloads() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut all: Vec<(String, String)> = std::fs::read_dir(dir)
        .expect("the directory of the workloads")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "tir"))
        .map(|p| (p.display().to_string(), std::fs::read_to_string(p).expect("a readable workload")))
        .collect();
    all.sort();
    assert!(all.len() > 30, "{} workloads", all.len());
    all
}

/// Checks that printing, parsing and printing again gives the same text in both dialects, and that parsing gives an
/// equal module.
fn check_round_trip(name: &str, parsed: &Parsed, options: &ParseOptions) {
    let options = &ParseOptions { bind: BTreeMap::new(), ..options.clone() };
    for dialect in [Dialect::Classic, Dialect::Current] {
        let text = print_module(&parsed.module, dialect);
        let again = parse(&text, "<printed>", options).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        assert_eq!(print_module(&again.module, dialect), text, "{name}");
        let equality = Equality { block_names: true, fold: false };
        if let Err(difference) = equality.modules(&parsed.module, &again.module) {
            panic!("{name}: {difference}\n{text}");
        }
    }
}

#[test]
fn workloads_survive_printing() {
    for (name, text) in workloads() {
        let parsed = parse(&text, &name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        check_round_trip(&name, &parsed, &ParseOptions::default());
        let first = text.lines().next().unwrap_or_default();
        let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().to_string();
        assert!(first.starts_with(&format!("# {stem}: ")), "{name} begins with a line that says what it is");
    }
}

#[test]
fn symbols_become_constants() {
    let (name, text) = workloads().into_iter().find(|w| w.0.contains("symbolic")).expect("a symbolic workload");
    let bind = [("n", 64), ("m", 96), ("k", 128)].map(|(n, v)| (n.to_string(), v));
    let options = ParseOptions { bind: bind.into(), ..Default::default() };
    let parsed = parse(&text, &name, &options).unwrap_or_else(|e| panic!("{e}"));
    let printed = print_module(&parsed.module, Dialect::Classic);
    assert!(printed.contains("A: T.Buffer((64, 128), \"float32\")"), "{printed}");
    assert!(printed.contains("for i, j, l in T.grid(64, 96, 128):"), "{printed}");
    check_round_trip(&name, &parsed, &options);
}

/// The distinct program texts of the corpus, except those that TVM itself cannot read, or reads as another program.
fn corpus() -> BTreeSet<String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let dir = std::env::var_os("TVMR_CONFORMANCE").map_or(own, PathBuf::from);
    let mut texts = BTreeSet::new();
    for entry in std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("an entry").path();
        // Our own cases test oddities, some of which TVM prints as texts that it cannot read.
        if path.extension().is_none_or(|e| e != "jsonl") || path.ends_with("own.jsonl") {
            continue;
        }
        for line in std::fs::read_to_string(path).expect("a readable file of cases").lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("a case");
            let faithful = case["reparse"] == "same";
            texts.extend(case["input"].as_str().map(str::to_string));
            texts.extend(case["output"].as_str().filter(|_| faithful).map(str::to_string));
        }
    }
    assert!(texts.len() > 300, "{}: only {} texts", dir.display(), texts.len());
    texts
}

#[test]
fn the_corpus_prints_as_tvm_prints_it() {
    let texts = corpus();
    let body = |text: &str| {
        let lines = text.lines().skip_while(|l| l.starts_with('#') || l.is_empty());
        lines.collect::<Vec<_>>().join("\n").trim_end().to_string()
    };
    let mut differ = Vec::new();
    for text in &texts {
        let parsed = parse(text, "<corpus>", &lax()).unwrap_or_else(|e| panic!("{e}"));
        let printed = print_module(&parsed.module, Dialect::Current);
        if body(&printed) != body(text) {
            differ.push(text);
        }
    }
    // The remaining ones have an `elem_offset=0` with a type other than the shape's, which is not kept.
    if let Some(text) = differ.iter().find(|t| !t.contains("elem_offset=0")) {
        panic!("printed in another way:\n{text}");
    }
    let share = differ.len() as f64 / texts.len() as f64;
    println!("{} of {} texts print as they are", texts.len() - differ.len(), texts.len());
    assert!(share < 0.006, "{share}");
}

#[test]
fn the_corpus_survives_printing() {
    let texts = corpus();
    // Every eighth text, from a varying start: all of them take seconds and find nothing more.
    for text in texts.iter().step_by(8) {
        let parsed = parse(text, "<corpus>", &lax()).unwrap_or_else(|e| panic!("{e}"));
        check_round_trip(text, &parsed, &lax());
    }
}

#[test]
fn printed_places_are_those_of_the_statements() {
    for (name, text) in workloads() {
        let parsed = read(&text);
        let printed = print_module_mapped(&parsed.module, Dialect::Current);
        assert_eq!(printed.text, print_module(&parsed.module, Dialect::Current));
        for (func, spans) in parsed.module.funcs.iter().zip(&printed.spans) {
            for s in func.subtree(func.root.stmt()) {
                let Some(span) = spans.stmt(s) else {
                    assert_eq!(s, func.root.stmt(), "{name}: only an implied root has no place");
                    continue;
                };
                let (whole, shown) = (&printed.text[span.whole.range()], &printed.text[span.name.range()]);
                assert!(whole.contains(shown), "{name}: {shown} in {whole}");
                match func.get(s) {
                    tvmr::ir::Stmt::Loop(l) => {
                        assert!(whole.starts_with("for "), "{whole}");
                        assert!(shown.starts_with(func.arena.var(l.var).name.as_str()), "{shown}");
                    }
                    tvmr::ir::Stmt::Block(b) => assert_eq!(shown, format!("\"{}\"", b.name)),
                    tvmr::ir::Stmt::Store { .. } => assert!(shown.ends_with(']'), "{shown}"),
                    _ => {}
                }
            }
        }
    }
}

// ---- texts that went wrong (`TVMR_SEED`, `TVMR_ROUNDS` for more of them) ---------------------------------------------------------------------------------

/// Marsaglia's xorshift: short, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Words that lead to corner cases.
const WORDS: &[&str] = &[
    "T.grid",
    "T.block",
    "T.sblock",
    "T.init()",
    "T.reads",
    "T.writes()",
    "T.where",
    "T.axis.remap",
    "T.axis.reduce",
    "T.alloc_buffer",
    "T.match_buffer",
    "T.Buffer",
    "T.let",
    "T.Let",
    "T.Select",
    "T.Add",
    "T.Cast",
    "T.float32",
    "T.int64",
    "T.handle",
    "T.evaluate",
    "T.exp",
    "T.if_then_else",
    "T.func_attr",
    "T.int8(300)",
    "range",
    "A",
    "B",
    "C",
    "vi",
    "i",
    "if",
    "else",
    "for",
    "with",
    "def",
    "class",
    "lambda",
    "and",
    "or",
    "not",
    "in",
    "is",
    "None",
    "True",
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "1e400",
    "\"float33\"",
    "\"\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    "=",
    "==",
    "//",
    "%",
    "/",
    "**",
    "<<",
    "*",
    "@",
    ".",
    "\n",
    "\n    ",
    "\t",
    "\\",
    "\0",
    "é",
    "\u{feff}",
    "\r\n",
    "'''",
    "f\"{A}\"",
    "#",
];

/// The text with one random error.
fn damaged(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.is_empty() {
        return WORDS[random.below(WORDS.len())].to_string();
    }
    let at = random.below(bytes.len());
    let word = |random: &mut Random| WORDS[random.below(WORDS.len())].as_bytes().to_vec();
    // The word around a position.
    let token = |bytes: &[u8], at: usize| {
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let start = bytes[..at].iter().rev().take_while(|b| is_word(b)).count();
        let end = bytes[at..].iter().take_while(|b| is_word(b)).count().max(1);
        at - start..at + end
    };
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => {
            let end = (at + 1 + random.below(12)).min(bytes.len());
            bytes.drain(at..end);
        }
        2 => bytes[at] = random.next() as u8,
        3 => drop(bytes.splice(at..at, word(random))),
        4 => drop(bytes.splice(token(text.as_bytes(), at), word(random))),
        5 => {
            let other = token(text.as_bytes(), random.below(bytes.len()));
            let copied = text.as_bytes()[other].to_vec();
            drop(bytes.splice(token(text.as_bytes(), at), copied));
        }
        6 => {
            let lines: Vec<&[u8]> = text.as_bytes().split_inclusive(|b| *b == b'\n').collect();
            let (from, to) = (random.below(lines.len()), random.below(lines.len()));
            let mut moved = lines.clone();
            if from < lines.len() {
                let line = moved.remove(from);
                moved.insert(to.min(moved.len()), line);
            }
            bytes = moved.concat();
        }
        _ => drop(bytes.splice(token(text.as_bytes(), at), random.below(100_000).to_string().into_bytes())),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn damaged_texts_do_not_panic() {
    let setting = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (seed, rounds) = (setting("TVMR_SEED", 1), setting("TVMR_ROUNDS", 4000) as usize);
    let texts = workloads();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut accepted = 0;
    for round in 0..rounds {
        let mut text = texts[round % texts.len()].1.clone();
        for _ in 0..=random.below(3) {
            text = damaged(&text, &mut random);
        }
        let result = std::panic::catch_unwind(|| match parse(&text, "<damaged>", &ParseOptions::default()) {
            Ok(parsed) => {
                check_round_trip("<damaged>", &parsed, &ParseOptions::default());
                true
            }
            Err(errors) => {
                assert!(!errors.items.is_empty(), "refused without a reason");
                assert!(!errors.render(true).is_empty());
                false
            }
        });
        match result {
            Ok(ok) => accepted += usize::from(ok),
            Err(_) => panic!("round {round} of seed {seed}:\n{text}"),
        }
    }
    assert!(
        accepted > rounds / 20,
        "only {accepted} texts were read: the damage is too great to reach the later stages"
    );
}

#[test]
fn the_programs_of_the_reference_read_and_print() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ir.md")).expect("the reference");
    let programs: Vec<&str> = text.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(programs.len() >= 2, "{}", programs.len());
    for program in programs {
        check_round_trip("docs/ir.md", &read(program), &ParseOptions::default());
    }
}

/// Every name of TVM's namespace is either supported or refused with a specific error; none is unknown.
#[test]
fn every_name_of_tvm_is_known() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tvm_members.txt");
    let names = std::fs::read_to_string(path).expect("the names of TVM 0.27");
    let names: Vec<&str> = names.lines().collect();
    assert!(names.len() > 300, "{} names", names.len());
    let uses =
        |name: &str| [format!("T.{name}()"), format!("T.evaluate(T.{name}())"), format!("with T.{name}(): pass")];
    // The only namespace among the functions.
    for name in names.into_iter().filter(|&n| n != "axis") {
        let known = uses(name).iter().any(|line| {
            let text = format!("@T.prim_func\ndef main(A: T.Buffer((16,), \"float32\")):\n    {line}\n");
            match parse(&text, "test", &ParseOptions::default()) {
                Ok(_) => true,
                Err(e) => ["unknown-function", "unknown-context"].iter().all(|code| !e.to_string().contains(code)),
            }
        });
        assert!(known, "`T.{name}` is an unknown name");
    }
    let text = "@T.prim_func\ndef main(A: T.Buffer((16,), \"float32\")):\n    T.evaluate(T.tvm_nothing())\n";
    let e = parse(text, "test", &ParseOptions::default()).err().expect("refused");
    assert!(e.to_string().contains("error[unknown-function]"), "{e}");
}
