//! Tests of `apply`: intrinsics from files, steps, checks, and the display of refused instructions.

use super::{MATMUL, Ran, TILES, dir, fails, ran, run, succeeds, text, tvmr};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

/// A directory of files, and their paths.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let files_dir = Files(dir());
        for (name, content) in files {
            fs::write(files_dir.0.path().join(name), content).expect("a file");
        }
        files_dir
    }

    fn path(&self, name: &str) -> String {
        text(&self.0.path().join(name)).to_string()
    }
}

const CHAIN: &str = r#"@T.prim_func
def main(A: T.Buffer((6, 10), "float32"), C: T.Buffer((6, 10), "float32")):
    B = T.alloc_buffer((6, 10))
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(3)
    for i, j in T.grid(6, 10):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"#;

/// Two steps that change the program, and two that do not.
const SPLIT: &str = r#"def f(sch):
    b = sch.get_block("B")
    i, j = sch.get_loops(b)
    sch.split(i, [2, 3])
    sch.compute_inline(b)
"#;

/// A narrower buffer type changes the results.
const NARROW: &str = r#"def f(sch):
    b = sch.get_block("B")
    i, j = sch.get_loops(b)
    sch.parallel(i)
    sch.unsafe_set_dtype(b, 0, "float16")
    sch.vectorize(j)
"#;

// ---- intrinsics ------------------------------------------------------------------------------------------------

/// The files of docs/adding-an-intrinsic.md, by their names there.
fn guide() -> Files {
    let page = include_str!("../../docs/adding-an-intrinsic.md");
    let blocks: Vec<&str> =
        page.split("```python\n").skip(1).map(|b| b.split("```").next().expect("a closed block")).collect();
    let names = ["dot8.tir", "dense.tir", "dense.py", "bytes.tir", "bytes.py"];
    assert_eq!(names.len(), blocks.len(), "each block is a file");
    Files::new(&names.into_iter().zip(blocks).collect::<Vec<_>>())
}

#[test]
fn the_guide_to_intrinsics_runs() {
    let files = guide();
    let (program, schedule, intrinsics) = (files.path("dense.tir"), files.path("dense.py"), files.path("dot8.tir"));
    let page = include_str!("../../docs/adding-an-intrinsic.md");
    let commands: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("$ tvmr ")).collect();
    assert_eq!(commands.len(), 4);
    for command in commands {
        let mut command = tvmr(&command.split(' ').collect::<Vec<_>>());
        let r = ran(command.current_dir(files.0.path()).output().expect("an end"));
        assert_eq!(r.code, 0, "{}", r.err);
    }
    let r = succeeds(&["apply", &program, "--trace", &schedule, "--intrin", &intrinsics, "--check"]);
    assert!(r.err.contains("checked: same results (384 elements, max error "), "{}", r.err);
    assert!(r.out.contains("T.match_buffer(A[") && r.out.contains("with T.block(\"pairs\")"), "{}", r.out);
    let unknown = fails(&["apply", &program, "--trace", &schedule], 2, "there is no tensor intrinsic `dot8`");
    assert!(unknown.err.contains("`dot_16x4_vnni`") && unknown.err.contains("`--intrin FILE` registers more"));
    fails(&["bench", &program, "--trace", &schedule], 2, "there is no tensor intrinsic `dot8`");
}

#[test]
fn schedules_for_narrow_types_keep_results() {
    for name in ["matmul_u8s8", "matmul_int8", "matmul_bf16"] {
        let (program, schedule) = (format!("workloads/{name}.tir"), format!("workloads/schedules/{name}.py"));
        let r = succeeds(&["apply", &program, "--trace", &schedule, "--check"]);
        assert!(r.err.contains("checked: same results"), "{}", r.err);
    }
}

#[test]
fn tuned_programs_use_intrinsics_of_files() {
    let files = guide();
    let (program, schedule, intrinsics) = (files.path("dense.tir"), files.path("dense.py"), files.path("dot8.tir"));
    let db = files.path("db");
    let with = |args: &[&str]| succeeds(&[args, &["--work-dir", &db, "--intrin", &intrinsics]].concat());
    fails(&["tune", &program, "--space", &schedule, "--work-dir", &db], 2, "there is no tensor intrinsic `dot8`");
    let r = with(&["tune", &program, "--space", &schedule]);
    assert!(r.out.contains("1 trial: 1 valid"), "{}", r.out);
    // The program as written may be as fast; the schedule is recorded in any case.
    let traces = ["1", "2"].map(|rank| with(&["print-trace", &program, "--rank", rank]).out);
    assert!(traces.iter().any(|t| t.contains("tensor_intrin=\"dot8\"")), "{traces:?}");
    with(&["apply-best", &program]);
    with(&["bench", &program, "--best"]);
    with(&["db", "verify"]);
    assert_eq!(run(&["db", "verify", "--work-dir", &db]).code, 1);
    let r = run(&["print-trace", &program, "--rank", "2", "--work-dir", &db]);
    assert_eq!(r.code, 1);
    assert!(r.err.contains("is skipped") && r.err.contains("there is no tensor intrinsic `dot8`"), "{}", r.err);
}

#[test]
fn wrong_intrinsics_are_told() {
    let files = guide();
    let (program, schedule) = (files.path("dense.tir"), files.path("dense.py"));
    let good = fs::read_to_string(files.path("dot8.tir")).expect("the intrinsic");
    let refused = |content: &str, expected: &[&str]| {
        let path = files.path("wrong.tir");
        fs::write(&path, content).expect("a file");
        for command in ["apply", "bench"] {
            let r = fails(&[command, &program, "--trace", &schedule, "--intrin", &path], 2, expected[0]);
            expected.iter().for_each(|e| assert!(r.err.contains(e), "expected `{e}` in\n{}", r.err));
        }
    };
    let half = ["error[intrin-half]: intrinsic `dot8` has no implementation", "wrong.tir:2:5", "call `dot9_impl`"];
    refused(&good.replace("dot8_impl", "dot9_impl"), &half);
    refused(&good.replace("dot8_", "fma_8_f32_"), &["there is an intrinsic `fma_8_f32` already", "wrong.tir:2:5"]);
    refused(&good.replace("a[vi + 4] * b[vi + 4]", "a[vi]"), &["intrin-results", "computes something else", "^^^^"]);
    refused(&good.replace("a[vk] * b[vk]", "a[vk] * b[wk]"), &["undefined", "wrong.tir:6:"]);
    refused("", &["error"]);
    let args = ["apply", &program, "--trace", &schedule, "--intrin"];
    fails(&[&args[..], &["nothing.tir"]].concat(), 2, "cannot read `nothing.tir`");
    fails(&[&args[..], &[text(files.0.path())]].concat(), 2, "is a directory");
    fails(&[&args[..], &["-"]].concat(), 2, "intrinsics cannot come from standard input");
    let twice = [files.path("dot8.tir"), files.path("dot8.tir")];
    fails(&[&args[..], &[&twice[0], "--intrin", &twice[1]]].concat(), 2, "there is an intrinsic `dot8` already");
}

// ---- steps -----------------------------------------------------------------------------------------------------

/// The programs printed by `--steps`.
fn programs(steps: &str) -> Vec<String> {
    let is_step =
        |l: &str| l == "# as written" || l.strip_prefix("# ").is_some_and(|l| l.starts_with(char::is_numeric));
    let mut programs = vec![String::new()];
    for line in steps.lines() {
        match is_step(line) {
            true => programs.push(String::new()),
            false => *programs.last_mut().expect("a program") += &format!("{line}\n"),
        }
    }
    programs.iter().map(|p| format!("{}\n", p.trim_end())).filter(|p| p.len() > 1).collect()
}

#[test]
fn steps_are_programs_behind_their_instructions() {
    let files = Files::new(&[("chain.tir", CHAIN), ("split.py", SPLIT)]);
    let args = ["apply", &files.path("chain.tir"), "--trace", &files.path("split.py")];
    let plain = succeeds(&args);
    let steps = succeeds(&[&args[..], &["--steps"]].concat());
    let instructions: Vec<&str> = steps.out.lines().filter(|l| l.starts_with("# ") && l.contains("sch.")).collect();
    assert_eq!(
        instructions,
        [
            "# 0: b0 = sch.get_block(name=\"B\", func_name=\"main\")",
            "# 1: l1, l2 = sch.get_loops(block=b0)",
            "# 2: l3, l4 = sch.split(loop=l1, factors=[2, 3], preserve_unit_iters=True, disable_predication=False)",
            "# 3: sch.compute_inline(block=b0)",
        ]
    );
    let programs = programs(&steps.out);
    assert_eq!(programs.len(), 3, "{}", steps.out);
    assert_eq!(programs[0], succeeds(&["fmt", &files.path("chain.tir")]).out);
    assert_eq!(programs[2], plain.out);
    for program in &programs {
        fs::write(files.path("copied.tir"), program).expect("a file");
        succeeds(&["check", &files.path("copied.tir")]);
    }
    let out = files.path("steps.txt");
    let r = succeeds(&[&args[..], &["--steps", "-o", &out]].concat());
    assert_eq!((r.out.as_str(), fs::read_to_string(&out).expect("the output")), ("", steps.out));
    // With a schedule that draws its decisions, the last program is that of `apply`.
    let args = ["apply", MATMUL, "--trace", TILES, "--seed", "3"];
    let steps = succeeds(&[&args[..], &["--steps"]].concat());
    assert_eq!(self::programs(&steps.out).pop(), Some(succeeds(&args).out));
}

#[test]
fn steps_before_a_refused_one_are_shown() {
    let wrong = format!("{SPLIT}    sch.fuse(j, i)\n");
    let files = Files::new(&[("chain.tir", CHAIN), ("wrong.py", &wrong)]);
    let args = ["apply", &files.path("chain.tir"), "--trace", &files.path("wrong.py"), "--steps"];
    let r = run(&args);
    assert_eq!(r.code, 2, "{}", r.err);
    assert_eq!(programs(&r.out).len(), 3, "{}", r.out);
    assert!(r.err.contains("error[ValueError]: `fuse`: the loop no longer exists"), "{}", r.err);
    let out = files.path("steps.txt");
    let with_output = run(&[&args[..], &["-o", &out]].concat());
    assert_eq!((with_output.code, with_output.out.as_str()), (2, ""));
    assert_eq!(fs::read_to_string(&out).expect("the output"), r.out);
    // A closed pipe neither hides a failure nor is one.
    assert_eq!(into_closed_pipe(&args).code, 2);
    let fine = ["apply", MATMUL, "--trace", TILES, "--steps"];
    let r = into_closed_pipe(&fine);
    assert_eq!((r.code, r.err.as_str()), (0, ""));
}

/// Runs a command whose reader closes the pipe before anything is written.
fn into_closed_pipe(args: &[&str]) -> Ran {
    let mut child = tvmr(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    drop(child.stdout.take());
    let r = ran(child.wait_with_output().expect("an end"));
    assert!(!r.err.contains("panicked") && !r.err.contains("pipe"), "{args:?}: {}", r.err);
    r
}

// ---- checks ----------------------------------------------------------------------------------------------------

#[test]
fn results_are_compared() {
    let files = Files::new(&[
        ("chain.tir", CHAIN),
        ("split.py", SPLIT),
        ("narrow.py", NARROW),
        ("none.py", "def f(sch):\n    pass\n"),
    ]);
    let program = files.path("chain.tir");
    let args =
        |trace: &str| ["apply".to_string(), program.clone(), "--trace".into(), files.path(trace), "--check".into()];
    let apply = |trace: &str, more: &[&str]| {
        let args = args(trace);
        run(&[&args.each_ref().map(String::as_str)[..], more].concat())
    };
    let r = apply("split.py", &[]);
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(r.err.contains("checked: same results (60 elements, max error "), "{}", r.err);
    assert_eq!(apply("split.py", &["--quiet"]).err, "");
    assert!(apply("none.py", &[]).err.contains("checked: the program is as written"));
    let r = apply("narrow.py", &["-o", &files.path("out.tir")]);
    assert_eq!((r.code, r.out.as_str()), (1, ""), "{}", r.err);
    assert!(r.err.contains("the schedule changes the results: `C` is wrong at ["), "{}", r.err);
    assert!(!Path::new(&files.path("out.tir")).exists(), "a wrong program is not written");
    // The output names the first instruction that changes results, and ends with its program.
    let r = apply("narrow.py", &["--steps"]);
    assert_eq!(r.code, 1, "{}", r.err);
    let named =
        "instruction 3, `sch.unsafe_set_dtype(block=b0, buffer_index=0, dtype=\"float16\")`, changes the results";
    assert!(r.err.contains(named), "{}", r.err);
    let programs = programs(&r.out);
    assert_eq!(programs.len(), 3, "{}", r.out);
    assert!(programs[2].contains("float16") && !r.out.contains("# 4:"), "{}", r.out);
    assert_eq!(apply("split.py", &["--steps"]).err.matches("checked: same results").count(), 1);
}

#[test]
fn parameters_of_another_layout_are_compared() {
    let schedule =
        |layouts: &str| format!("def f(sch):\n    b, c = sch.get_block(\"B\"), sch.get_block(\"C\")\n{layouts}");
    let files = Files::new(&[
        ("chain.tir", CHAIN),
        (
            "tiled.py",
            &schedule(
                "    sch.transform_layout(b, ('read', 0), lambda i, j: (j // 5, i, j % 5))\n    \
                 sch.transform_layout(c, ('write', 0), lambda i, j: (j, i))\n    \
                 sch.transform_layout(c, ('write', 0), lambda j, i: (j // 2, i, j % 2))\n",
            ),
        ),
        (
            "padded.py",
            &schedule(
                "    sch.transform_layout(c, ('write', 0), lambda i, j: (i, j // 4, j % 4), pad_value=T.float32(7))\n",
            ),
        ),
    ]);
    for trace in ["tiled.py", "padded.py"] {
        let args = ["apply", &files.path("chain.tir"), "--trace", &files.path(trace), "--check"];
        let r = succeeds(&args);
        assert!(r.err.contains("checked: same results (60 elements"), "{}", r.err);
        succeeds(&[&args[..], &["--steps"]].concat());
        // Timing needs arguments in their original layout.
        let message = "the schedule changes the layout of the parameter `";
        fails(&["bench", &files.path("chain.tir"), "--trace", &files.path(trace)], 1, message);
        let db = files.path("db");
        let r = run(&["tune", &files.path("chain.tir"), "--space", &files.path(trace), "--work-dir", &db]);
        assert_eq!(r.code, 1, "{}", r.err);
        assert!(r.err.contains(message) && !r.err.contains("panicked"), "{}", r.err);
    }
}

#[test]
fn what_has_no_numbers_is_not_run() {
    let program = CHAIN
        .replace("A: T.Buffer((6, 10), \"float32\"), C: T.Buffer((6, 10), \"float32\")", "a: T.handle, c: T.handle");
    let program = program.replace(
        "    B = ",
        "    n = T.int64()\n    A = T.match_buffer(a, (n, 10))\n    C = T.match_buffer(c, (n, 10))\n    B = ",
    );
    let program = program.replace("(6, 10))\n    for", "(n, 10))\n    for").replace("grid(6, 10)", "grid(n, 10)");
    let files = Files::new(&[
        ("chain.tir", &program),
        ("inline.py", "def f(sch):\n    sch.compute_inline(sch.get_block(\"B\"))\n"),
    ]);
    let args = ["apply", &files.path("chain.tir"), "--trace", &files.path("inline.py")];
    succeeds(&args);
    fails(&[&args[..], &["--check"]].concat(), 2, "give it a value with `--bind`");
    let r = succeeds(&[&args[..], &["--check", "--bind", "n=7"]].concat());
    assert!(r.err.contains("same results (70 elements"), "{}", r.err);
}

// ---- refused instructions --------------------------------------------------------------------------------------

#[test]
fn refused_instructions_show_trace_and_program() {
    let files = Files::new(&[("chain.tir", CHAIN)]);
    let program = files.path("chain.tir");
    let write = |name: &str, content: &str| {
        fs::write(files.path(name), content).expect("a file");
        files.path(name)
    };
    let python =
        write("wrong.py", "def f(sch):\n    i, j = sch.get_loops(sch.get_block(\"B\"))\n    sch.split(j, [3, 3])\n");
    let json = write(
        "wrong.json",
        r#"[[["GetSBlock", [], ["B", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]], ["Split", ["l2", 3, 3], [1, 0], ["l3", "l4"]]], []]"#,
    );
    for (trace, line) in [(&python, "sch.split(j, [3, 3])"), (&json, "sch.split(loop=l2, factors=[3, 3]")] {
        let message = "error[WrongFactorError]: `split`: factors cover 9 of the 10 iterations";
        let r = fails(&["apply", &program, "--trace", trace], 2, message);
        for part in [line, "the program at this point:7:12", "for i, j in T.grid(6, 10):", "- this loop", "= help: "] {
            assert!(r.err.contains(part), "expected `{part}` in\n{}", r.err);
        }
        assert!(!r.err.contains('\x1b'), "no terminal, no colours");
        fails(&["bench", &program, "--trace", trace], 2, message);
        assert!(run(&["apply", &program, "--trace", trace, "--color", "always"]).err.contains('\x1b'));
    }
    fails(
        &["apply", &program, "--trace", &write("odd.json", "[[[\"Spilt\", [], [], []]], []]")],
        2,
        "did you mean `Split`?",
    );
    // The schedule names the function as the database does.
    let renamed = write("renamed.tir", &CHAIN.replace("def main", "def chain"));
    succeeds(&[
        "apply",
        &renamed,
        "--trace",
        &write("main.py", "def f(sch):\n    sch.compute_inline(sch.get_block(\"B\", \"main\"))\n"),
        "--check",
        "--steps",
    ]);
    let both = "def f(sch):\n    sch.fuse(*sch.get_loops(sch.get_block(\"D\", \"main\")))\n";
    fails(&["apply", &renamed, "--trace", &write("both.py", both)], 2, "has no block `D`");
}

// ---- recorded decisions ----------------------------------------------------------------------------------------

/// A split whose factors are recorded.
fn tiled(decisions: &str) -> String {
    format!(
        "# decisions: {decisions}\ndef f(sch):\n    i, j = sch.get_loops(\"B\")\n    sch.split(j, sch.sample_perfect_tile(j, n=2))\n"
    )
}

#[test]
fn recorded_decisions_are_applied_and_timed_but_not_searched() {
    let files = Files::new(&[("chain.tir", CHAIN), ("tiled.py", &tiled("[[2, 5]]"))]);
    let (program, schedule, db) = (files.path("chain.tir"), files.path("tiled.py"), files.path("db"));
    for seed in ["0", "1", "2"] {
        let r = succeeds(&["apply", &program, "--trace", &schedule, "--seed", seed]);
        assert!(r.out.contains("T.grid(6, 2, 5)"), "{}", r.out);
    }
    succeeds(&["bench", &program, "--trace", &schedule]);
    let r = succeeds(&["tune", &program, "--space", &schedule, "--work-dir", &db]);
    assert!(r.err.contains("4 of 4 distinct programs"), "{}", r.err);
}

#[test]
fn recorded_decisions_that_do_not_fit_are_told() {
    for (decisions, message) in [
        ("[[2, 5]", "expected `,` or `]`, found the end of the line"),
        ("[]", "expected a decision for every sampling instruction, found 0"),
        ("[[2, 5], 0]", "expected 1 decision, one for each sampling instruction, found 2"),
        ("[[2, 4]]", "expected tile sizes with the product 10, found 8"),
        ("[1]", "expected a list of tile sizes as the decision, found one number"),
    ] {
        let files = Files::new(&[("chain.tir", CHAIN), ("tiled.py", &tiled(decisions))]);
        let (program, schedule) = (files.path("chain.tir"), files.path("tiled.py"));
        for command in ["apply", "bench"] {
            let r = fails(&[command, &program, "--trace", &schedule], 2, message);
            assert!(r.err.contains("tiled.py:1:") && r.err.contains("help: "), "{}", r.err);
        }
    }
}

// ---- parameters ------------------------------------------------------------------------------------------------

const SCALAR: &str = r#"@T.prim_func(s_tir=True)
def main(A: T.Buffer(("n + 1",), "float32"), n: T.int32, B: T.Buffer((n + 1,), "float32")):
    for i in range(n + 1):
        with T.sblock("B"):
            vi = T.axis.spatial(n + 1, i)
            B[vi] = A[vi] * T.Cast("float32", n)
"#;

const STRIDED: &str = r#"@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle):
    s, t, off = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (6, 10), "float32", strides=(s, 1), elem_offset=off)
    B = T.match_buffer(b, (6, 10), "float32", strides=(t, 2), elem_offset=3)
    for i, j in T.grid(6, 10):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.Cast("float32", s + off)
"#;

const NAMELESS: &str = r#"@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock(""):
            vi = T.axis.spatial(64, i)
            B[vi] = T.float32(0)
            with T.sblock(""):
                for k in range(vi + 1):
                    with T.sblock("sum"):
                        vj = T.axis.spatial((vi, vi + 1), vi)
                        vk = T.axis.reduce(vi + 1, k)
                        B[vj] = B[vj] + A[vj, vk]
"#;

/// Tunes a program and prints its best version.
fn best(files: &Files, program: &str, bind: &[&str]) -> String {
    let (program, db) = (files.path(program), files.path("db"));
    let with = |args: &[&str]| succeeds(&[args, &[&program, "--work-dir", &db], bind].concat());
    with(&["tune", "--trials", "2"]);
    with(&["bench", "--best"]);
    with(&["apply-best"]).out
}

#[test]
fn a_scalar_with_a_value_stays_in_the_signature() {
    let files = Files::new(&[("scalar.tir", SCALAR)]);
    let text = best(&files, "scalar.tir", &["--bind", "n=63"]);
    let head = "def main(A: T.Buffer((64,), \"float32\"), n: T.int32, B: T.Buffer((64,), \"float32\")):";
    assert!(text.contains(head), "{text}");
}

#[test]
fn parameters_with_strides_and_offsets_run() {
    let files = Files::new(&[("strided.tir", STRIDED)]);
    let text = best(&files, "strided.tir", &[]);
    assert!(text.contains("strides=(s, 1), elem_offset=off"), "{text}");
    let text = best(&files, "strided.tir", &["--bind", "s=17,off=5"]);
    assert!(text.contains("strides=(17, 1), elem_offset=5"), "{text}");
}

#[test]
fn nameless_blocks_and_loops_that_depend_on_others_are_measured() {
    let files = Files::new(&[("nameless.tir", NAMELESS)]);
    let text = best(&files, "nameless.tir", &[]);
    assert_eq!(text.matches("T.sblock(\"\")").count(), 2, "{text}");
}
