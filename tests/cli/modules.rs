//! Modules of several functions: attributes, calls between functions, functions that return values.

use super::{dir, fails, run, succeeds, text};
use std::fs;

const MODULE: &str = r#"@I.ir_module
class Module:
    I.module_attrs({"note": [1, "x"], "target": T.target({"kind": "llvm"})})
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global")]})
    @T.prim_func(s_tir=True)
    def scale(X: T.Buffer((32, 32), "float32"), Y: T.Buffer((32, 32), "float32"), by: T.float32):
        for i, j in T.grid(32, 32):
            with T.sblock("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * by

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 32), "float32"), C: T.Buffer((32, 32), "float32")):
        B = T.sblock_alloc_buffer((32, 32), "float32")
        Module.scale(A, B, T.float32(2))
        Module.scale(B, C, T.float32(3))
"#;

/// Module attributes are kept in all output.
#[test]
fn attributes_of_a_module_are_kept() {
    let dir = dir();
    let (file, schedule, db) = (dir.path().join("m.tir"), dir.path().join("s.py"), dir.path().join("db"));
    fs::write(&file, MODULE).expect("a file");
    fs::write(
        &schedule,
        "def f(sch):\n    b = sch.get_sblock(\"Y\", \"scale\")\n    sch.parallel(sch.get_loops(b)[0])\n",
    )
    .expect("a file");
    let lines = [
        r#"    I.module_attrs({"note": [1, "x"], "target": T.target({"kind": "llvm"})})"#,
        r#"    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global")]})"#,
    ];
    let file = text(&file);
    let all = |out: &str| lines.iter().all(|l| out.contains(l));
    let r = succeeds(&["fmt", file]);
    assert!(all(&r.out) && r.err.is_empty(), "{}\n{}", r.out, r.err);
    let r = succeeds(&["apply", file, "--trace", text(&schedule)]);
    assert!(all(&r.out) && r.out.contains("T.parallel(32)"), "{}", r.out);
    let r = succeeds(&["tune", file, "--trials", "2", "--work-dir", text(&db)]);
    assert!(!r.err.contains("`scale`"), "only `main` is a kernel: {}", r.err);
    let r = succeeds(&["apply-best", file, "--work-dir", text(&db)]);
    assert!(all(&r.out), "{}", r.out);
    // Calls are inlined; the called function itself stays.
    assert!(!r.out.contains("Module.scale(") && r.out.contains("def scale("), "{}", r.out);
    succeeds(&["check", text(&dir.path().join("m.tir"))]);
}

/// A returned value is compared like other results.
#[test]
fn functions_that_give_values_are_timed_and_checked() {
    let dir = dir();
    let (file, db) = (dir.path().join("r.tir"), dir.path().join("db"));
    let program = "@T.prim_func(s_tir=True)
def total(A: T.Buffer((64,), \"float32\"), unused: T.handle) -> T.float32:
    S = T.sblock_alloc_buffer((1,), \"float32\")
    for i in range(64):
        with T.sblock(\"S\"):
            vi = T.axis.reduce(64, i)
            with T.init():
                S[0] = T.float32(0)
            S[0] = S[0] + A[vi]
    return S[0]
";
    fs::write(&file, program).expect("a file");
    let r = succeeds(&["bench", text(&file)]);
    assert!(r.out.contains("total"), "{}", r.out);
    let r = run(&["tune", text(&file), "--trials", "4", "--work-dir", text(&db)]);
    assert_eq!(r.code, 0, "{}", r.err);
    let used = program
        .replace("    return S[0]", "    if not T.isnullptr(unused):\n        S[0] = T.float32(1)\n    return S[0]");
    fs::write(&file, used).expect("a file");
    fails(&["bench", text(&file)], 2, "the handle `unused` of `total` has no shape");
}
