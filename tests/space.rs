//! Search spaces: the rules on every workload, and TVM's own spaces.
//!
//! The sketches of TVM's rules are compared with TVM's, and so are the results of our postprocessors on TVM's
//! candidates. The cases are those of `space.jsonl` in the directory that `TVMR_CONFORMANCE` names (default:
//! `tests/conformance`).

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tvmr::ir::Module;
use tvmr::ir::equal::Equality;
use tvmr::ir::verify::{Checks, verify};
use tvmr::machine::Core;
use tvmr::machine::Target;
use tvmr::schedule::{Schedule, Trace};
use tvmr::script::{self, ParseOptions};
use tvmr::search::survey::{Size, survey};
use tvmr::space::generate::{Rules, generate};
use tvmr::space::sample::{Sketch, stream};

fn parse(text: &str, name: &str) -> Module {
    let symbols: &[&str] = if name.starts_with("symbolic") { &["n", "m", "k"] } else { &[] };
    let bind = symbols.iter().map(|n| (n.to_string(), 96)).collect();
    match script::parse(text, name, &ParseOptions { bind, ..ParseOptions::default() }) {
        Ok(parsed) => parsed.module,
        Err(e) => panic!("{e}"),
    }
}

/// Every workload has a space; most candidates are accepted and well formed, and the others give a reason.
#[test]
fn every_workload_can_be_sampled() {
    let target = Target::native().target;
    let mut files: Vec<_> = std::fs::read_dir("workloads").expect("the folder exists").flatten().collect();
    files.retain(|f| f.path().extension().is_some_and(|e| e == "tir"));
    files.sort_by_key(|f| f.file_name());
    let mut failures = Vec::new();
    for (file, threads) in files.iter().flat_map(|f| [(f, 1), (f, 4)]) {
        let name = file.file_name().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(file.path()).expect("a workload is a text");
        let module = parse(&text, &name);
        for func in 0..module.funcs.len() {
            for (kind, rules) in
                [("auto", Rules::auto(Core::new(&target, target.best_isa(), threads))), ("tvm", Rules::tvm(threads))]
            {
                let space = match generate(&module, func, rules, &tvmr::stop::StopFlag::new()) {
                    Ok(space) => space,
                    Err(e) => {
                        failures.push(format!("{name}, {kind}: {e}"));
                        continue;
                    }
                };
                let base = Schedule::new(&module, 0);
                let mut accepted = 0;
                let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
                for i in 0..64 {
                    match space.sample(&base, stream(1, i)) {
                        Ok((sch, _)) => {
                            accepted += 1;
                            for f in &sch.module().funcs {
                                if let Some(v) = verify(f, Checks::ALL).first() {
                                    failures.push(format!("{name}, {kind}, candidate {i}: {v:?}"));
                                }
                            }
                        }
                        Err(r) => *reasons.entry(format!("{}: {}", r.by, r.message)).or_default() += 1,
                    }
                }
                if !reasons.is_empty() {
                    println!(
                        "{name}, {kind}: {accepted} of 64 accepted, {} sketches; {reasons:?}",
                        space.sketches().len()
                    );
                }
                if accepted < 32 {
                    failures.push(format!("{name}, {kind}: only {accepted} of 64 are accepted: {reasons:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The cases of a stage, of which there is at least one.
fn cases(stage: &str) -> Vec<Value> {
    let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let dir = std::env::var_os("TVMR_CONFORMANCE").map_or(own, std::path::PathBuf::from);
    let path = dir.join("space.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut cases: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("a line is a case")).collect();
    cases.retain(|c| c["stage"] == json!(stage));
    assert!(cases.len() > 20, "{}: only {} cases of stage `{stage}`", path.display(), cases.len());
    cases
}

/// A space that holds one program says why, unless it has no blocks.
#[test]
fn a_space_of_one_program_has_reasons() {
    let mut programs: BTreeMap<String, Module> = BTreeMap::new();
    for dir in ["workloads", "tests/filetests/space", "tests/filetests/print", "tests/filetests/schedule"] {
        for file in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{dir}: {e}")).flatten() {
            let name = format!("{dir}/{}", file.file_name().to_string_lossy());
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            // Some are not TIR, or have errors on purpose.
            if let Ok(parsed) = script::parse(&text, &name, &ParseOptions::default()) {
                programs.insert(name, parsed.module);
            }
        }
    }
    for case in cases("design") {
        programs.insert(text(&case, "id").to_owned(), parse(text(&case, "input"), "input"));
    }
    let target = Target::native().target;
    let (mut single, mut failures) = (0, Vec::new());
    for (name, module) in &programs {
        for func in 0..module.funcs.len() {
            for (kind, rules) in
                [("auto", Rules::auto(Core::new(&target, target.best_isa(), 1))), ("tvm", Rules::tvm(1))]
            {
                let Ok(space) = generate(module, func, rules, &tvmr::stop::StopFlag::new()) else { continue };
                let f = &module.funcs[func];
                let mut base = Schedule::new(module, 0);
                base.work_on(func);
                let is_one = space.sketches().len() == 1 && survey(&space, 0, &base, 8, 0, 1).size == Size::Exactly(1);
                if is_one && f.blocks().len() > 1 {
                    single += 1;
                    if space.no_choices().is_empty() {
                        failures.push(format!("{name}, `{}`, {kind}", f.name));
                    }
                }
            }
        }
    }
    println!("{single} spaces of one program, of {} modules", programs.len());
    assert!(single > 50, "only {single} spaces of one program");
    assert!(failures.is_empty(), "without a reason:\n{}", failures.join("\n"));
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_default()
}

/// Our postprocessors give the same programs as TVM's on TVM's candidates.
#[test]
fn postprocessors_agree_with_tvm() {
    let space = tvmr::space::sample::Space::new(Vec::new(), tvmr::space::postproc::tvm());
    let (mut agree, mut all) = (0, 0);
    let mut differences = Vec::new();
    for case in &cases("sampled") {
        let module = parse(text(case, "input"), "input");
        let trace = Trace::from_json(&case["trace_json"]).expect("the trace reads").without_postproc();
        let mut sch = Schedule::new(&module, 0);
        let result = trace.replay(&mut sch).map_err(|e| e.error.to_string());
        let result = result.and_then(|()| space.postprocess(&mut sch).map_err(|r| format!("{}: {}", r.by, r.message)));
        let expected = parse(text(case, "output"), "output");
        let equality = Equality { block_names: true, fold: true };
        let result = result.and_then(|()| equality.modules(&sch.module(), &expected).map_err(|d| d.to_string()));
        all += 1;
        match result {
            Ok(()) => agree += 1,
            Err(e) => differences.push(format!("{}: {e}", text(case, "id"))),
        }
    }
    println!("postprocessors: {agree} of {all} agree\n{}", differences.join("\n"));
    assert_eq!(agree, all);
}

/// TVM's rules give TVM's sketches, each once, in a different order.
#[test]
fn sketches_agree_with_tvm() {
    let mut groups: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for case in cases("design") {
        groups.entry((text(&case, "input").to_string(), case["target"].to_string())).or_default().push(case);
    }
    let (mut agree, mut all) = (0, 0);
    let mut differences = Vec::new();
    for ((input, target), cases) in &groups {
        let cores = cores(target);
        let module = parse(input, "input");
        let space = match generate(&module, 0, Rules::tvm(cores), &tvmr::stop::StopFlag::new()) {
            Ok(space) => space,
            Err(e) => {
                all += cases.len();
                differences.push(format!("{}: {e}", text(&cases[0], "id")));
                continue;
            }
        };
        let ours: Vec<Value> = space
            .sketches()
            .iter()
            .filter_map(|s| match s {
                Sketch::Trace(t) => Some(t.to_json()[0].clone()),
                Sketch::Function(_) => None,
            })
            .collect();
        let known: BTreeSet<String> = ours.iter().map(Value::to_string).collect();
        for case in cases {
            all += 1;
            let theirs = &case["trace_json"][0];
            if known.contains(&theirs.to_string())
                && case["n_spaces"] == json!(known.len())
                && known.len() == ours.len()
            {
                agree += 1;
            } else {
                differences.push(format!("{}: missing; {} of {}", text(case, "id"), ours.len(), case["n_spaces"]));
                if differences.len() == 1 {
                    differences.push(format!("  theirs {theirs}"));
                }
            }
        }
    }
    println!("sketches: {agree} of {all} agree\n{}", differences.join("\n"));
    assert_eq!(agree, all);
}

fn cores(target: &str) -> usize {
    let digits = target.split("num-cores").nth(1).unwrap_or_default();
    let digits: String = digits.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().expect("the target says its number of cores")
}

/// A convolution of `channels` to 32 channels on 14 x 14 elements, whose columns are the channels: its result is copied.
fn convolution(channels: usize) -> Module {
    let text = format!(
        "@T.prim_func
def main(X: T.Buffer(({channels}, 16, 16)), W: T.Buffer((32, {channels}, 3, 3)), Y: T.Buffer((32, 14, 14))):
    T.func_attr({{\"layout_free_buffers\": [1]}})
    for o, h, w, c, p, q in T.grid(32, 14, 14, {channels}, 3, 3):
        with T.sblock(\"Y\"):
            vo, vh, vw, vc, vp, vq = T.axis.remap(\"SSSRRR\", [o, h, w, c, p, q])
            with T.init():
                Y[vo, vh, vw] = 0.0
            Y[vo, vh, vw] = Y[vo, vh, vw] + X[vc, vh + vp, vw + vq] * W[vo, vc, vp, vq]
"
    );
    parse(&text, "convolution.tir")
}

#[test]
fn a_result_that_is_copied_is_summed_in_pieces_if_panels_exceed_the_nearest_cache() {
    let target = Target::native().target;
    for (channels, pieces) in [(8, false), (1024, true)] {
        let module = convolution(channels);
        let rules = Rules::auto(Core::new(&target, target.best_isa(), 1));
        let space = generate(&module, 0, rules, &tvmr::stop::StopFlag::new()).expect("a space");
        let base = Schedule::new(&module, 0);
        // In a program with pieces, the loop over them is outside that over rows.
        let split: BTreeSet<bool> = (0..64)
            .filter_map(|i| space.sample(&base, stream(1, i)).ok())
            .map(|(sch, _)| script::print_module(&sch.module(), script::Dialect::Current).contains("c_0, h, "))
            .collect();
        assert_eq!(split.contains(&true), pieces, "{channels} channels");
        assert!(split.contains(&false), "{channels} channels");
    }
}
