//! Tests of `run`: functions on arrays from files.

use super::{MATMUL, TILES, dir, fails, run, succeeds, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tvmr::arrays::{self, Array, ArrayFile};
use tvmr::ir::{DType, Float8};

/// Two outputs of two inputs: `S = A + B`, and `D = A - B` in another type.
const SUMS: &str = "@T.prim_func
def sums(A: T.Buffer((2, 3), \"int32\"), B: T.Buffer((2, 3), \"int32\"), S: T.Buffer((2, 3), \"int32\"), D: T.Buffer((2, 3), \"float32\")):
    for i, j in T.grid(2, 3):
        with T.block(\"S\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            S[vi, vj] = A[vi, vj] + B[vi, vj]
    for i, j in T.grid(2, 3):
        with T.block(\"D\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            D[vi, vj] = T.cast(A[vi, vj] - B[vi, vj], \"float32\")
";

/// A function that adds to its output.
const ADDS: &str = "@T.prim_func
def adds(X: T.Buffer((4,), \"float32\"), Y: T.Buffer((4,), \"float32\")):
    for i in range(4):
        with T.block(\"Y\"):
            v = T.axis.spatial(4, i)
            Y[v] = Y[v] + X[v]
";

fn ints(values: &[i32]) -> Array {
    shaped(&[2, values.len() as i64 / 2], values)
}

fn shaped(shape: &[i64], values: &[i32]) -> Array {
    let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::new(DType::Int32, shape, data).expect("an array")
}

fn floats(shape: &[i64], values: &[f32]) -> Array {
    let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::new(DType::Float32, shape, data).expect("an array")
}

/// A directory with a program, and files of arrays in it.
struct Workplace {
    dir: tempfile::TempDir,
}

impl Workplace {
    fn new(program: &str) -> Workplace {
        let dir = dir();
        fs::write(dir.path().join("program.tir"), program).expect("a program");
        Workplace { dir }
    }

    fn path(&self, name: &str) -> String {
        text(&self.dir.path().join(name)).to_owned()
    }

    fn save(&self, name: &str, arrays: &[(&str, &Array)]) -> String {
        let path = self.path(name);
        arrays::write(Path::new(&path), arrays).unwrap_or_else(|e| panic!("{e}"));
        path
    }

    fn load(&self, name: &str) -> Vec<(String, Array)> {
        arrays::read(Path::new(&self.path(name))).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Arguments that run the program.
    fn args<'a>(&'a self, program: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["run", program], more].concat()
    }
}

/// A workplace with `sums` and its inputs.
fn sums() -> (Workplace, String, Array, Array) {
    let place = Workplace::new(SUMS);
    let (a, b) = (ints(&[1, 2, 3, 4, 5, 6]), ints(&[10, 20, 30, 40, 50, 60]));
    place.save("a.npy", &[("", &a)]);
    place.save("b.npy", &[("", &b)]);
    place.save("in.npz", &[("A", &a), ("B", &b)]);
    let program = place.path("program.tir");
    (place, program, a, b)
}

#[test]
fn inputs_go_by_name_by_position_and_in_order() {
    let (place, program, a, b) = sums();
    let (file_a, file_b) = (place.path("a.npy"), place.path("b.npy"));
    let named = |name: &str, path: &str| format!("{name}={path}");
    let safetensors = place.save("in.safetensors", &[("B", &b), ("A", &a)]);
    let by_position = place.save("positions.npz", &[("arr_0", &a), ("arr_1", &b)]);
    let npz = place.path("in.npz");
    let ways: [&[&str]; 8] = [
        &["--input", &named("A", &file_a), "--input", &named("B", &file_b)],
        &["--input", &named("1", &file_b), "--input", &named("0", &file_a)],
        &["--input", &file_a, "--input", &file_b],
        &["--input", &file_b, "--input", &named("A", &file_a)],
        &["--inputs", &npz],
        &["--inputs", &safetensors],
        &["--inputs", &by_position],
        &["--inputs", &npz, "--input", &named("A", &npz)],
    ];
    let out = place.path("out.npz");
    for way in ways {
        let r = succeeds(&place.args(&program, &[way, &["--output", &out]].concat()));
        assert_eq!(r.out, format!("S: written to {out}\nD: written to {out}\n"), "{way:?}");
        let written = place.load("out.npz");
        let expected = [
            ("S".to_owned(), ints(&[11, 22, 33, 44, 55, 66])),
            ("D".to_owned(), floats(&[2, 3], &[-9.0, -18.0, -27.0, -36.0, -45.0, -54.0])),
        ];
        assert_eq!(written, expected, "{way:?}");
        fs::remove_file(&out).expect("the file");
    }
    // A file for one parameter counts more than one for many.
    let r = succeeds(&place.args(&program, &["--inputs", &npz, "--input", &named("A", &file_b)]));
    assert!(
        r.out.contains("S: int32 [2, 3], min 20, max 120, mean 70.000000: 20, 40, 60, 80, 100, 120\n"),
        "{}",
        r.out
    );
    assert!(r.out.contains("D: float32 [2, 3], min 0.0, max 0.0"), "{}", r.out);
}

#[test]
fn scalars_take_numbers_and_files() {
    let place = Workplace::new(
        "@T.prim_func
def axpy(alpha: T.float32, n: T.int8, A: T.Buffer((4,), \"float32\"), C: T.Buffer((4,), \"float32\")):
    for i in range(4):
        with T.block(\"C\"):
            v = T.axis.spatial(4, i)
            C[v] = alpha * A[v] + T.Cast(\"float32\", n)
",
    );
    let program = place.path("program.tir");
    let a = place.save("a.npy", &[("", &floats(&[4], &[1.0, 2.0, 3.0, 4.0]))]);
    let alpha = place.save("alpha.npy", &[("", &floats(&[], &[2.5]))]);
    let from_file = format!("alpha={alpha}");
    for value in ["alpha=2.5", "0=2.5", "2.5", &from_file] {
        let r = succeeds(&place.args(&program, &["--input", value, "--input", "n=-1", "--input", &a]));
        assert!(r.out.contains(": 1.5, 4.0, 6.5, 9.0"), "{value}: {}", r.out);
    }
    fails(&place.args(&program, &["--input", "n=200"]), 2, "`n` of `axpy` is int8, which `200` is not");
    fails(&place.args(&program, &["--input", "n=true"]), 2, "`n` of `axpy` is int8, which `true` is not");
    fails(&place.args(&program, &["--input", "A=1"]), 2, "`1` cannot be read");
    fails(&place.args(&program, &["--input", &a]), 2, "`alpha` of `axpy` is float32 []");
    let r = succeeds(&place.args(&program, &["--random", "--input", "alpha=0", "--input", "n=3"]));
    assert!(r.out.contains(": 3.0, 3.0, 3.0, 3.0"), "{}", r.out);
    // A value that is given when the program is read is no parameter.
    let r = succeeds(&place.args(&program, &["--bind", "n=-1", "--input", "alpha=2.5", "--input", &a]));
    assert!(r.out.contains(": 1.5, 4.0, 6.5, 9.0"), "{}", r.out);
}

#[test]
fn arrays_tell_symbolic_sizes() {
    let place = Workplace::new(
        "@T.prim_func
def outer(a: T.handle, b: T.handle, c: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 2), \"int32\")
    B = T.match_buffer(b, (m, n), \"int32\")
    C = T.match_buffer(c, (n, m), \"int32\")
    for i, j in T.grid(n, m):
        with T.block(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = A[vi, 0] * B[vj, vi] + A[vi, 1]
",
    );
    let program = place.path("program.tir");
    let (a, b) = (shaped(&[3, 2], &[1, 2, 3, 4, 5, 6]), shaped(&[1, 3], &[1, 2, 3]));
    let (file_a, file_b) = (place.save("a.npy", &[("", &a)]), place.save("b.npy", &[("", &b)]));
    let npz = place.save("in.npz", &[("A", &a), ("B", &b)]);
    let named_b = format!("B={file_b}");
    let ways: [&[&str]; 3] =
        [&["--input", &file_a, "--input", &file_b], &["--inputs", &npz], &["--input", &named_b, "--input", &file_a]];
    for way in ways {
        let r = succeeds(&place.args(&program, way));
        assert!(r.out.starts_with("C: int32 [3, 1]") && r.out.contains(": 3, 10, 21"), "{way:?}: {}", r.out);
    }
    let wide = place.save("wide.npy", &[("", &shaped(&[2, 2], &[1, 2, 3, 4]))]);
    let r = fails(
        &place.args(&program, &["--input", &file_a, "--input", &wide]),
        2,
        "`n` of `outer` is 3 by dimension 0 of `A`",
    );
    assert!(r.err.contains("and 2 by dimension 1 of `B`"), "{}", r.err);
    let flat = place.save("flat.npy", &[("", &shaped(&[2], &[1, 2]))]);
    fails(&place.args(&program, &["--input", &flat]), 2, "`A` of `outer` has 2 dimensions");
    fails(&place.args(&program, &["--input", &file_a]), 2, "no value for `m` of `outer`");
    // Values that are given count.
    fails(&place.args(&program, &["--bind", "n=4", "--inputs", &npz]), 2, "`A` of `outer` is int32 [4, 2]");
    let r = succeeds(&place.args(&program, &["--bind", "m=5", "--input", &file_a, "--random"]));
    assert!(r.out.starts_with("C: int32 [3, 5]"), "{}", r.out);
}

#[test]
fn outputs_go_to_files_of_each_format() {
    let (place, program, ..) = sums();
    let inputs = ["--inputs", &place.path("in.npz")];
    let (one, all) = (place.path("d.npy"), place.path("all.safetensors"));
    let d = format!("D={one}");
    let r = succeeds(&place.args(&program, &[&inputs[..], &["--output", &d, "--output", &all]].concat()));
    assert!(r.out.starts_with("S: written to ") && r.err.is_empty(), "{}{}", r.out, r.err);
    let d = place.load("d.npy").remove(0).1;
    assert_eq!(d.element(5).as_f64(), -54.0);
    let all = place.load("all.safetensors");
    assert!(all.iter().any(|(name, array)| name == "D" && *array == d) && all.len() == 2);

    let fail = |name: &str, code: i32, expected: &str| {
        fails(&place.args(&program, &[&inputs[..], &["--output", name]].concat()), code, expected);
    };
    fail(&place.path("all.npy"), 2, "is one array, and `sums` has 2 outputs");
    fail(&place.path("out.txt"), 2, "no extension `.npy`, `.npz` or `.safetensors`");
    fail(&format!("A={}", place.path("a2.npy")), 2, "`A` is no output of `sums`");
    fail(&format!("E={}", place.path("e.npy")), 2, "`sums` has no parameter `E`");
    fail(&place.path("none/out.npz"), 3, "cannot be written");
    // Existing files stay if one of several files cannot be written.
    let before = fs::read(&one).expect("the file");
    let (s, d) = (format!("S={one}"), format!("D={}", place.path("none/d.npy")));
    fails(&place.args(&program, &[&inputs[..], &["--output", &s, "--output", &d]].concat()), 3, "cannot be written");
    assert_eq!(fs::read(&one).expect("the file"), before);
    let left = fs::read_dir(place.dir.path()).expect("the directory").flatten();
    assert!(left.into_iter().all(|e| !e.file_name().to_string_lossy().ends_with(".tmp")), "nothing is left");
}

#[test]
fn missing_and_wrong_inputs_are_told() {
    let (place, program, a, _) = sums();
    let fail = |more: &[&str], expected: &str| fails(&place.args(&program, more), 2, expected);
    fail(&[], "no value for `A` (int32 [2, 3]), `B` (int32 [2, 3]) of `sums`");
    let r = fail(&["--input", &place.path("a.npy")], "no value for `B` (int32 [2, 3]) of `sums`");
    assert!(r.err.contains("--input B=FILE.npy") && r.err.contains("--random"), "{}", r.err);
    let other = place.save("other.npz", &[("a", &a), ("b", &a)]);
    fail(&["--inputs", &other], "the files also hold `a`, `b`");
    let r = succeeds(&place.args(&program, &["--inputs", &other, "--random"]));
    assert!(r.err.contains("`a` in") && r.err.contains("is no parameter of `sums`"), "{}", r.err);

    let wrong = place.save("wrong.npy", &[("", &floats(&[2, 3], &[0.0; 6]))]);
    fail(&["--input", &wrong], "`A` of `sums` is int32 [2, 3], and");
    fail(&["--input", &wrong], "is float32 [2, 3]");
    fail(&["--input", &wrong], "nothing is converted here");
    let wrong = place.save("wrong.npy", &[("", &ints(&[0; 4]))]);
    fail(&["--input", &wrong], "is int32 [2, 2]");
    let a = place.path("a.npy");
    let named = |name: &str| format!("{name}={a}");
    fail(&["--input", &named("S")], "`S` of `sums` is only written");
    fail(&["--input", &named("AA")], "`sums` has no parameter `AA`");
    fail(&["--input", &named("9")], "`sums` has 4 parameters, at positions from 0, and none at 9");
    fail(&["--input", &named("A"), "--input", &named("0")], "two files are given for `A`");
    fail(&["--input", &a, "--input", &a, "--input", &a], "one more than the inputs of `sums`");
    fail(&["--inputs", &a], "holds one array without a name");
    fail(&["--input", "A="], "expected a file");
    fail(&["--input", &place.path("c.npy")], "cannot be read: No such file");
    let damaged = place.path("damaged.npy");
    let whole = fs::read(&a).expect("the file");
    fs::write(&damaged, &whole[..whole.len() - 1]).expect("a file");
    fail(&["--input", &damaged], "states 24 bytes of elements, and has 23");
    fs::write(&damaged, b"nothing").expect("a file");
    fail(&["--input", &damaged], "is neither npy, npz nor safetensors");
    fail(&["--input", text(place.dir.path())], "is not a regular file");
}

#[test]
fn random_inputs_follow_from_the_seed() {
    let (place, program, ..) = sums();
    let out = |seed: &str| {
        let path = place.path("out.npz");
        succeeds(&place.args(&program, &["--random", "--seed", seed, "--output", &path]));
        place.load("out.npz")
    };
    assert_eq!(out("1"), out("1"));
    assert_ne!(out("1"), out("2"));
}

#[test]
fn outputs_are_compared_with_what_is_expected() {
    let (place, program, ..) = sums();
    let out = place.path("out.npz");
    let inputs = ["--inputs", &place.path("in.npz")];
    succeeds(&place.args(&program, &[&inputs[..], &["--output", &out]].concat()));
    let with = |more: &[&str]| run(&place.args(&program, &[&inputs[..], more].concat()));
    let r = with(&["--expect", &out]);
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(
        r.out.contains("S: equal to ") && r.out.contains("D: equal to ") && r.out.contains("(exactly)"),
        "{}",
        r.out
    );

    let wrong = place.save("wrong.npy", &[("", &ints(&[11, 22, 34, 44, 55, 60]))]);
    let s = format!("S={wrong}");
    let r = with(&["--expect", &s]);
    assert_eq!(r.code, 1);
    assert!(r.out.contains("in 2 of 6 elements (exactly); largest difference 6.000e0, relative 1.000e-1"), "{}", r.out);
    assert!(r.out.contains("\n  [0, 2]: expected 34, got 33\n  [1, 2]: expected 60, got 66\n"), "{}", r.out);
    assert!(r.err.contains("`S` differs from `") && r.err.contains("in 2 of 6 elements"), "{}", r.err);
    assert_eq!(with(&["--expect", &s, "--atol", "6"]).code, 0);
    assert_eq!(with(&["--expect", &s, "--rtol", "0.1"]).code, 0);
    assert_eq!(with(&["--expect", &s, "--rtol", "0.01", "--atol", "2"]).code, 1);

    let r = with(&["--expect", &s, "--format", "json"]);
    let json: Value = serde_json::from_str(&r.out).expect("one document");
    let expected = &json["expected"][0];
    assert_eq!((r.code, &expected["name"], &expected["equal"]), (1, &"S".into(), &false.into()));
    assert_eq!((&expected["different"], &expected["total"]), (&2.into(), &6.into()));
    assert_eq!(expected["first"][1], serde_json::json!({"index": [1, 2], "expected": 60, "found": 66}));

    // An output that cannot be compared is an error, not a success.
    let part = place.save("part.npz", &[("S", &ints(&[0; 6]))]);
    let r = with(&["--expect", &part]);
    assert!(r.code == 2 && r.err.contains("has no array `D` to compare with"), "{}", r.err);
    for (more, told) in [
        (&["--expect", &wrong][..], "is one array, and `sums` has 2 outputs"),
        (&["--expect", &format!("D={wrong}")], "`D` of `sums` is float32 [2, 3], and"),
        (&["--expect", &format!("A={wrong}")], "`A` is no output of `sums`"),
        (&["--expect", &s, "--expect", &s], "two files are given for `S`"),
        (&["--expect", &s, "--atol=-1"], "expected a number that is not negative"),
        (&["--rtol", "1"], "--expect"),
    ] {
        let r = with(more);
        assert!(r.code == 2 && r.err.contains(told), "{more:?}: {}", r.err);
    }
}

#[test]
fn an_output_that_is_read_needs_a_value() {
    let place = Workplace::new(ADDS);
    let program = place.path("program.tir");
    let (x, y) = (floats(&[4], &[1.0, 2.0, f32::NAN, 4.0]), floats(&[4], &[10.0; 4]));
    let (x, y) = (place.save("x.npy", &[("", &x)]), place.save("y.npy", &[("", &y)]));
    fails(&place.args(&program, &["--input", &x]), 2, "no value for `Y` (float32 [4])");
    let out = place.path("y2.npy");
    let r = succeeds(&place.args(&program, &["--input", &x, "--input", &y, "--output", &out, "--repeat", "5"]));
    assert!(r.out.contains("adds: median ") && r.out.contains(" of 5 calls (at least "), "{}", r.out);
    let written = ArrayFile::open(Path::new(&out)).expect("a file").read(0, None).expect("an array");
    let shown: Vec<String> = (0..4).map(|i| written.element(i).to_string()).collect();
    assert_eq!(shown, ["11.0", "12.0", "NaN", "14.0"], "each call starts from the same values");
    // NaN equals NaN.
    succeeds(&place.args(&program, &["--input", &x, "--input", &y, "--expect", &out, "--rtol", "0"]));
    let r = succeeds(&place.args(&program, &["--input", &x, "--input", &y]));
    assert!(r.out.contains("min 11.0, max 14.0, mean 12.333333, 1 NaN: 11.0, 12.0, NaN, 14.0"), "{}", r.out);
}

#[test]
fn the_document_has_its_fields() {
    let (place, program, ..) = sums();
    let r = succeeds(&place.args(&program, &["--inputs", &place.path("in.npz"), "--repeat", "2", "--format", "json"]));
    let json: Value = serde_json::from_str(&r.out).expect("one document");
    let fields = |v: &Value| v.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let expected = ["workload", "func", "inputs", "outputs", "expected", "calls", "us", "min_us", "isa", "threads"];
    assert_eq!(fields(&json), expected);
    assert_eq!(fields(&json["inputs"][0]), ["name", "dtype", "shape", "file"]);
    let output = &json["outputs"][0];
    assert_eq!(fields(output), ["name", "dtype", "shape", "file", "min", "max", "mean", "nan", "first"]);
    assert_eq!((&output["min"], &output["max"], &output["mean"]), (&11.into(), &66.into(), &38.5.into()));
    assert_eq!(output["first"], serde_json::json!([11, 22, 33, 44, 55, 66]));
    assert!(json["calls"] == 2 && json["us"].as_f64().is_some_and(|us| us > 0.0), "{json}");
    let r = run(&place.args(&program, &["--format", "json"]));
    let json: Value = serde_json::from_str(&r.out).expect("one document");
    assert_eq!((r.code, &json["exit_code"]), (2, &2.into()));
}

#[test]
fn every_version_gives_the_same_results() {
    let place = Workplace::new("");
    let out = place.path("out.npz");
    succeeds(&["run", MATMUL, "--random", "--output", &out]);
    let r = succeeds(&["run", MATMUL, "--random", "--trace", TILES, "--threads", "2", "--expect", &out]);
    assert!(r.out.contains("C: equal to ") && r.out.contains("16384 elements (rtol "), "{}", r.out);
    let db = place.path("db");
    fails(&["run", MATMUL, "--random", "--best", "--work-dir", &db], 1, "no record for `main`");
    succeeds(&["tune", MATMUL, "--trials", "4", "--work-dir", &db]);
    succeeds(&["run", MATMUL, "--random", "--best", "--work-dir", &db, "--expect", &out]);

    // Weights are prepared from the given arrays.
    let trace = place.path("trace.py");
    let copy = "def f(sch):
    dense = sch.get_block(\"dense\", \"main\")
    copy = sch.cache_read(dense, 1, \"global\")
    sch.annotate(copy, \"meta_schedule.layout_rewrite_preproc\", True)
    sch.transform_layout(dense, (\"read\", 1), lambda n, k: (n // 32, k, n % 32))
";
    fs::write(&trace, copy).expect("it can be written");
    let linear = ["run", "workloads/linear_weight.tir", "--random", "--seed", "3"];
    succeeds(&[&linear[..], &["--output", &out]].concat());
    succeeds(&[&linear[..], &["--trace", &trace, "--expect", &out]].concat());
    let r = run(&[&linear[..4], &["4", "--trace", &trace, "--expect", &out]].concat());
    assert_eq!(r.code, 1, "other weights: {}", r.out);
}

#[test]
fn narrow_types_and_truth_values_are_elements() {
    let place = Workplace::new(
        "@T.prim_func
def main(A: T.Buffer((4,), \"bfloat16\"), F: T.Buffer((4,), \"float8_e5m2\"), B: T.Buffer((4,), \"bool\"), C: T.Buffer((4,), \"float16\")):
    for i in range(4):
        with T.block(\"C\"):
            v = T.axis.spatial(4, i)
            C[v] = T.Select(B[v], T.cast(A[v], \"float16\"), T.cast(F[v], \"float16\"))
",
    );
    let program = place.path("program.tir");
    let array = |dtype, data: &[u8]| Array::new(dtype, &[4], data.to_vec()).expect("an array");
    // 1, 2, 3, 4 and 1/2 four times.
    let a = array(DType::BFloat16, &[0x80, 0x3f, 0, 0x40, 0x40, 0x40, 0x80, 0x40]);
    let f = array(DType::Float8(Float8::E5M2), &[0x38; 4]);
    let b = array(DType::Bool, &[1, 0, 0, 1]);
    let c = array(DType::Float16, &[0, 0x3c, 0, 0x38, 0, 0x38, 0, 0x44]);
    for extension in ["npz", "safetensors"] {
        let inputs = place.save(&format!("in.{extension}"), &[("A", &a), ("F", &f), ("B", &b)]);
        let expected = place.save(&format!("out.{extension}"), &[("C", &c)]);
        let r = succeeds(&place.args(&program, &["--inputs", &inputs, "--expect", &expected]));
        assert!(r.out.contains("C: float16 [4], min 0.5, max 4.0, mean 1.500000: 1.0, 0.5, 0.5, 4.0\n"), "{}", r.out);
    }
    // Elements without a type are no `float16`.
    let half = place.save("half.npy", &[("", &a)]);
    let named = format!("C={half}");
    let r = run(&place.args(&program, &["--random", "--expect", &named]));
    assert!(r.code == 2 && r.err.contains("is float16 [4], and") && r.err.contains("is V2 [4]"), "{}", r.err);
    assert!(r.err.contains("NumPy stores types that it does not know as `V2`"), "{}", r.err);
    succeeds(&["bench", &program]);
}

#[test]
fn one_function_of_several_is_chosen() {
    let place = Workplace::new(&format!("{SUMS}\n{ADDS}"));
    let program = place.path("program.tir");
    let r = fails(&place.args(&program, &["--random"]), 2, "has 2 functions: `sums`, `adds`");
    assert!(r.err.contains("--func sums"), "{}", r.err);
    let r = succeeds(&place.args(&program, &["--random", "--func", "adds"]));
    assert!(r.out.starts_with("Y: float32 [4]"), "{}", r.out);
    fails(&place.args(&program, &["--random", "--func", "add"]), 2, "there is `adds`");
    fails(&place.args("workloads/symbolic_matmul.tir", &["--random"]), 2, "give them values with `--bind`");
}

#[test]
fn a_scalar_may_have_its_value_from_bind() {
    let place = Workplace::new(
        "@T.prim_func
def main(n: T.int32, B: T.Buffer((2,), \"int32\")):
    for i in range(2):
        with T.block(\"B\"):
            v = T.axis.spatial(2, i)
            B[v] = n
",
    );
    let program = place.path("program.tir");
    let r = fails(&place.args(&program, &[]), 2, "no value for `n` (int32 []) of `main`");
    assert!(r.err.contains("--input n=1"), "{}", r.err);
    let r = succeeds(&place.args(&program, &["--bind", "n=7"]));
    assert!(r.out.contains("B: int32 [2], min 7, max 7"), "{}", r.out);
    fails(
        &place.args(&program, &["--bind", "n=7", "--input", "n=7"]),
        2,
        "`n` of `main` is a scalar, whose value `--bind` gives",
    );
}

#[test]
fn a_program_that_fails_on_its_data_is_told() {
    let place = Workplace::new(
        "@T.prim_func
def main(A: T.Buffer((2, 2), \"int32\"), I: T.Buffer((2, 2), \"int32\"), B: T.Buffer((2, 2), \"int32\")):
    for i, j in T.grid(2, 2):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[I[vi, vj], vj]
",
    );
    let program = place.path("program.tir");
    let i = place.save("i.npy", &[("", &ints(&[0, 1, 2, 0]))]);
    let named = format!("I={i}");
    let r = fails(&place.args(&program, &["--random", "--input", &named]), 1, "access out of bounds of `A`");
    assert!(r.err.contains("`main` failed"), "{}", r.err);
    let i = place.save("i.npy", &[("", &ints(&[0, 1, 1, 0]))]);
    succeeds(&place.args(&program, &["--random", "--input", &format!("I={i}")]));
}
