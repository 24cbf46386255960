//! docs/spaces.md: the search spaces, from the heads of `src/scheduling/space/mod.rs` and of the rules.

use super::head::{Section, rust_files, sections};
use super::{NOTICE, check_after, check_page, difference, part, parts, path, program};
use tvmr::ir::Module;
use tvmr::machine::{Core, Isa, Target};
use tvmr::schedule::{Schedule, Trace};
use tvmr::space::{Rules, Sketch, generate};
use tvmr::stop::StopFlag;

/// The section that is followed by those of the default rules.
const RULES: &str = "The rules of `auto`";

/// The default rules for a machine with AVX-512 and the caches of a common server, wherever the test runs.
fn rules(threads: usize) -> Rules {
    let features = ["fma", "avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"];
    let json = serde_json::json!({
        "format": 1, "arch": "x86_64", "cpu": "example", "mcpu": "x86-64-v4",
        "mtriple": "x86_64-unknown-linux-gnu", "features": features, "cores": 4, "line_bytes": 64,
        "l1d": {"bytes": 32 << 10, "shared_by": 1},
        "l2": {"bytes": 1 << 20, "shared_by": 1},
        "l3": {"bytes": 32 << 20, "shared_by": 4},
    });
    let target = Target::from_json(&json).unwrap_or_else(|e| panic!("{e}"));
    Rules::auto(Core::new(&target, Isa::Avx512, threads))
}

/// The sections of the rules in the order in which the space applies them.
fn of_rules() -> Vec<Section> {
    let files = rust_files(&path("src/scheduling/space/rule"));
    let mut found: Vec<Section> = files.iter().flat_map(|f| sections(f)).collect();
    rules(1)
        .rules
        .iter()
        .map(|rule| {
            let is_of = |s: &Section| s.name() == Some(rule.name());
            let i = found.iter().position(is_of);
            found.remove(i.unwrap_or_else(|| panic!("`{}` has no section in the head of its file", rule.name())))
        })
        .collect()
}

#[test]
fn the_page_is_made_from_the_heads_and_its_examples_are_true() {
    check_examples();
    let general = sections(&path("src/scheduling/space/mod.rs"));
    assert_eq!(general.iter().filter(|s| s.title == RULES).count(), 1, "a section `{RULES}`");
    let mut page = String::new();
    for (n, section) in general.iter().enumerate() {
        page += &match n {
            0 => format!("# {}\n\n{NOTICE}\n\n{}", section.title, section.text(1)),
            _ => format!("\n## {}\n\n{}", section.title, section.text(1)),
        };
        if section.title == RULES {
            for rule in of_rules() {
                let file = rule.file.strip_prefix(path("")).expect("a file of this package");
                page += &format!("\n### {}\n\n[Source](../{})\n\n{}", rule.title, file.display(), rule.text(3));
            }
        }
    }
    check_page("docs/spaces.md", &page);
}

/// Runs the example of each rule.
fn check_examples() {
    let mut failures = String::new();
    for section in of_rules() {
        let result = match section.example() {
            Some(example) => {
                run(example, section.name().unwrap_or_default()).and_then(|made| check_after(&parts(example), &made))
            }
            None => Err("the section has no example".to_string()),
        };
        match result {
            Ok(None) => (),
            Ok(Some((old, new))) => section.replace(&old, &new),
            Err(why) => failures += &format!("{}: {why}\n\n", section.file.display()),
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// How an example is made; `# becomes (with: a, b; threads: 4; candidate: 2)`, where every setting may be absent.
struct Settings {
    /// The rules that are applied: the one described and those named.
    rules: Vec<String>,
    threads: usize,
    /// Position among the seeds of the space, or among its sketches if there are no seeds.
    candidate: usize,
}

impl Settings {
    fn read(parts: &[String], rule: &str) -> Result<Settings, String> {
        let line = parts.iter().find_map(|p| p.strip_prefix("# becomes")).ok_or("the example has no `# becomes`")?;
        let mut settings = Settings { rules: vec![rule.to_string()], threads: 1, candidate: 0 };
        let list = line.trim().trim_start_matches('(').trim_end_matches(')');
        for setting in list.split("; ").filter(|s| !s.is_empty()) {
            let number = |v: &str| v.parse::<usize>().map_err(|e| format!("`{setting}`: {e}"));
            match setting.split_once(": ") {
                Some(("with", names)) => settings.rules.extend(names.split(", ").map(String::from)),
                Some(("threads", v)) => settings.threads = number(v)?,
                Some(("candidate", v)) => settings.candidate = number(v)?,
                _ => return Err(format!("`{setting}` is no setting of an example")),
            }
        }
        Ok(settings)
    }
}

/// A candidate of the space that the rule, and those named with it, make of `before`. The others must not make it.
fn run(example: &str, rule: &str) -> Result<Module, String> {
    let parts = parts(example);
    let settings = Settings::read(&parts, rule)?;
    let module = program(part(&parts, "before")?, "before")?;
    let mut made = candidates(&module, &settings.rules, settings.threads)?;
    let n = made.len();
    if settings.candidate >= n {
        return Err(format!("there are only {n} candidates"));
    }
    let made = made.swap_remove(settings.candidate);
    let others = candidates(&module, &settings.rules[1..], settings.threads)?;
    match others.iter().any(|other| difference(other, &made).is_none()) {
        true => Err(format!("the candidate is one without `{rule}` (there are {n})")),
        false => Ok(made),
    }
}

/// The programs of the seeds of a space that these rules make, or of its sketches if there are no seeds.
fn candidates(module: &Module, names: &[String], threads: usize) -> Result<Vec<Module>, String> {
    let mut rules = rules(threads);
    if let Some(unknown) = names.iter().find(|n| !rules.rules.iter().any(|r| r.name() == *n)) {
        return Err(format!("there is no rule `{unknown}`"));
    }
    for set in std::iter::once(&mut rules.rules).chain(rules.seeding.iter_mut().flatten()) {
        set.retain(|r| names.iter().any(|n| n == r.name()));
    }
    let space = generate(module, 0, rules, &StopFlag::new()).map_err(|e| e.to_string())?;
    let mut traces: Vec<_> = space.seeds().iter().map(|seed| &seed.trace).collect();
    if traces.is_empty() {
        traces.extend(space.sketches().iter().filter_map(|sketch| match sketch {
            Sketch::Trace(trace) => Some(trace),
            Sketch::Function(_) => None,
        }));
    }
    let program_of = |trace: &Trace| {
        let mut schedule = Schedule::new(module, 0);
        trace.replay(&mut schedule).map_err(|e| e.error.to_string())?;
        space.postprocess(&mut schedule).map_err(|r| r.message)?;
        Ok(schedule.module())
    };
    traces.into_iter().map(program_of).collect()
}
