//! Models on arrays.

use super::{Agreement, Model, Reference};
use crate::arrays::Array;
use crate::graph::libraries::Libraries;
use crate::graph::pass::{self, Context, GraphModule};
use crate::graph::program::Place;
use crate::script::{ParseOptions, parse};
use crate::stop::StopFlag;
use crate::workload::Setting;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

fn floats(shape: &[i64], values: &[f32]) -> Array {
    Array::from(values).with_shape(shape).expect("an array")
}

/// Runs `main` of a text, compares its outputs, and gives the model.
#[track_caller]
fn check(text: &str, inputs: &[Array], expected: &[Array]) -> Model {
    let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let model = Model::compile(module, "main", &Context::default(), &Setting::native());
    let model = model.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(model.run(inputs).unwrap_or_else(|e| panic!("{e}")), expected);
    model
}

const LAYERS: &str = r#"
@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        Y = T.alloc_buffer((1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, n):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(x: R.Tensor((1, 2), "float32"), w0: R.Tensor((3, 2), "float32"), b0: R.Tensor((3,), "float32")):
        with R.dataflow():
            lv0 = R.call_dps_packed("linear0", (x, w0, b0), R.Tensor((1, 3), dtype="float32"))
            lv1 = R.call_dps_packed("relu0", (lv0,), R.Tensor((1, 3), dtype="float32"))
            R.output(lv1)
        return lv1
"#;

#[test]
fn prim_funcs_with_symbols_are_called_by_name() {
    let (x, w) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[3, 2], &[1.0, 1.0, -1.0, -1.0, 0.5, 0.25]));
    check(LAYERS, &[x, w, floats(&[3], &[0.5, 0.0, 1.0])], &[floats(&[1, 3], &[3.5, 0.0, 2.0])]);
}

#[test]
fn library_functions_are_built_in() {
    let text = r#"
@R.function
def main(x: R.Tensor((1, 2), "float32"), w: R.Tensor((1, 2), "float32"), b: R.Tensor((1,), "float32")):
    with R.dataflow():
        lv = R.call_dps_packed("env.linear", (x, w, b), R.Tensor((1, 1), dtype="float32"))
        gv = R.call_dps_packed("env.relu", (lv,), R.Tensor((1, 1), dtype="float32"))
        R.output(gv)
    return gv
"#;
    let (x, w) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[1, 2], &[3.0, 4.0]));
    check(text, &[x, w, floats(&[1], &[0.5])], &[floats(&[1, 1], &[11.5])]);
}

#[test]
fn outputs_may_be_inputs_constants_and_the_same_value() {
    let text = r#"
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        y = R.add(x, R.const(1.0, "float32"))
        z = R.reshape(y, R.shape([1, 2]))
        R.output(y, z)
    return (y, x, R.const(3.0, "float32"), y, z)
"#;
    let (x, y) = (floats(&[2], &[1.0, 2.0]), floats(&[2], &[2.0, 3.0]));
    let outputs = [y.clone(), x.clone(), floats(&[], &[3.0]), y, floats(&[1, 2], &[2.0, 3.0])];
    check(text, &[x], &outputs);
}

#[test]
fn tensors_without_elements_run() {
    let text = r#"
@R.function
def main(x: R.Tensor((0, 2), "float32"), y: R.Tensor((1, 2), "float32")):
    with R.dataflow():
        a = R.nn.relu(x)
        b = R.concat((a, y), axis=0)
        R.output(a, b)
    return (a, b)
"#;
    let (x, y) = (floats(&[0, 2], &[]), floats(&[1, 2], &[1.0, 2.0]));
    check(text, &[x.clone(), y.clone()], &[x, y]);
}

#[test]
fn parts_of_concatenations_are_written_in_place() {
    // `z` starts as `y` does, `r` is read apart from it, and `t` takes the place of no part.
    let text = r#"
@R.function
def main(x: R.Tensor((1, 2, 8), "float32")):
    with R.dataflow():
        a = R.add(x, x)
        b = R.negative(x)
        r = R.permute_dims(b, (0, 2, 1))
        y = R.concat((a, b), axis=1)
        c = R.matmul(y, r)
        d = R.concat((c, c), axis=2)
        e = R.concat((d, d, d, d), axis=2)
        f = R.reshape(e, (1, 8, 8))
        z = R.concat((a, b, f), axis=1)
        s = R.sum(z, axis=2)
        t = R.max(y, axis=2)
        R.output(s, t)
    return (s, t)
"#;
    let x: Vec<f32> = (1..=16).map(|i| i as f32).collect();
    let (squares, mixed): (f32, f32) =
        ((1..=8).map(|i| (i * i) as f32).sum(), (1..=8).map(|i| (i * (i + 8)) as f32).sum());
    let others: f32 = (9..=16).map(|i| (i * i) as f32).sum();
    // The rows of `c` are a times b and b times b, of both rows of b; `f` has the elements of each row of `c` eight times.
    let c = [[-2.0 * squares, -2.0 * mixed], [-2.0 * mixed, -2.0 * others], [squares, mixed], [mixed, others]];
    let mut sums = vec![72.0, 200.0, -36.0, -100.0];
    sums.extend(c.iter().flat_map(|row| [4.0 * (row[0] + row[1]); 2]));
    let maxima = [16.0, 32.0, -1.0, -9.0];
    let outputs = [floats(&[1, 12], &sums), floats(&[1, 4], &maxima)];
    let model = check(text, &[floats(&[1, 2, 8], &x)], &outputs);
    // `a`, `b`, `c` and what reads them; `d` and `e` repeat values along another axis.
    assert!(model.program().steps.iter().all(|s| s.copies.is_empty()));
    let pieces = model.program().temporaries.iter().filter(|t| t.piece.is_some()).count();
    assert_eq!(pieces, 5, "{:?}", model.program().temporaries);
}

#[test]
fn operators_compute_layers() {
    let text = r#"
@R.function
def main(x: R.Tensor((1, 2), "float32"), w: R.Tensor((3, 2), "float32"), b: R.Tensor((3,), "float32")):
    with R.dataflow():
        t = R.permute_dims(w)
        m = R.matmul(x, t)
        a = R.add(m, b)
        r = R.nn.relu(a)
        s = R.nn.softmax(r, axis=-1)
        p = R.split(s, 3, axis=1)
        gv = R.add(p[0], R.add(p[1], p[2]))
        R.output(gv, r)
    return (gv, r)
"#;
    let (x, w) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[3, 2], &[1.0, 1.0, -1.0, -1.0, 0.5, 0.25]));
    let outputs = [floats(&[1, 1], &[1.0]), floats(&[1, 3], &[3.5, 0.0, 2.0])];
    check(text, &[x, w, floats(&[3], &[0.5, 0.0, 1.0])], &outputs);
}

const IN_PLACE: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def double(A: T.Buffer((2, 2), "float32")):
        for i, j in T.grid(2, 2):
            with T.sblock("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def add_to(A: T.handle, B: T.handle, C: T.handle):
        n = T.int64()
        X = T.match_buffer(A, (2, n), "float32")
        Y = T.match_buffer(B, (2, n), "float32")
        Z = T.match_buffer(C, (2, n), "float32")
        for i, j in T.grid(2, n):
            with T.sblock("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = X[vi, vj] - Y[vi, vj]
        for i, j in T.grid(2, n):
            with T.sblock("X"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = X[vi, vj] + Y[vi, vj]

    @R.function
    def main(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
        R.func_attr({"num_input": 1})
        cls = Module
BODY
"#;

fn in_place_text(body: &str) -> String {
    let ty = r#"R.Tensor((2, 2), "float32")"#;
    IN_PLACE.replace("BODY\n", &body.replace("=t)", &format!("={ty})")).replace("[t, t]", &format!("[{ty}, {ty}]")))
}

/// Runs a body on `x = [1, 2, 3, 4]` and `w = [5, 6, 7, 8]`, twice on the same memory, and compares all outputs, all of which are of
/// the shape of `x`. Gives the number of copies before kernels and the number of intermediate values.
#[track_caller]
fn in_place(body: &str, expected: &[[f32; 4]]) -> (usize, usize) {
    let body: String = body.trim().lines().map(|l| format!("        {}\n", l.trim())).collect();
    let parsed = parse(&in_place_text(&body), "model.tir", &ParseOptions::default());
    let parsed = parsed.unwrap_or_else(|e| panic!("{e}"));
    let module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let model = Model::compile(module, "main", &Context::default(), &Setting::native());
    let mut model = model.unwrap_or_else(|e| panic!("{e}"));
    let inputs = [floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), floats(&[2, 2], &[5.0, 6.0, 7.0, 8.0])];
    model.load_weights(&inputs[1..]).unwrap_or_else(|e| panic!("{e}"));
    let mut call = model.bind(&inputs[..1]).unwrap_or_else(|e| panic!("{e}"));
    let expected: Vec<Array> = expected.iter().map(|e| floats(&[2, 2], e)).collect();
    for _ in 0..2 {
        call.run().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(call.outputs().unwrap_or_else(|e| panic!("{e}")), expected);
    }
    (model.program().steps.iter().map(|s| s.copies.len()).sum(), model.program().temporaries.len())
}

#[test]
fn results_take_the_place_of_arguments_that_nothing_reads_later() {
    let body = r#"
        a = R.add(x, x)
        b = R.call_tir_inplace(cls.double, (a,), inplace_indices=[0], out_ty=t)
        c = R.call_tir_inplace(cls.double, (b,), inplace_indices=[0], out_ty=t)
        d = R.permute_dims(c)
        return d
    "#;
    assert_eq!(in_place(body, &[[8.0, 24.0, 16.0, 32.0]]), (0, 1));
}

#[test]
fn what_is_read_later_is_copied_and_inputs_are_never_overwritten() {
    // `a` is read later; `x` and `w` are the caller's; `x` is an output besides.
    let body = r#"
        a = R.permute_dims(x)
        b = R.call_tir_inplace(cls.double, (a,), inplace_indices=[0], out_ty=t)
        c = R.call_tir_inplace(cls.double, (x,), inplace_indices=[0], out_ty=t)
        d = R.call_tir_inplace(cls.double, (w,), inplace_indices=[0], out_ty=t)
        return (b, c, d, x, a)
    "#;
    let x = [1.0, 2.0, 3.0, 4.0];
    let outputs = [[2.0, 6.0, 4.0, 8.0], [2.0, 4.0, 6.0, 8.0], [10.0, 12.0, 14.0, 16.0], x, [1.0, 3.0, 2.0, 4.0]];
    assert_eq!(in_place(body, &outputs), (3, 0));
}

#[test]
fn values_that_are_the_same_in_every_call_are_not_overwritten() {
    let body = r#"
        s = R.permute_dims(w)
        p = R.call_tir_inplace(cls.add_to, (s, x), inplace_indices=[0, -1], out_ty=[t, t])
        a = R.permute_dims(p[0])
        return (a, p[1])
    "#;
    let (copies, _) = in_place(body, &[[6.0, 9.0, 9.0, 12.0], [4.0, 5.0, 3.0, 4.0]]);
    assert_eq!(copies, 1);
}

#[test]
fn an_argument_that_is_passed_twice_is_copied() {
    let body = r#"
        a = R.permute_dims(x)
        p = R.call_tir_inplace(cls.add_to, (a, a), inplace_indices=[0, -1], out_ty=[t, t])
        return (p[0], p[1])
    "#;
    assert_eq!(in_place(body, &[[2.0, 6.0, 4.0, 8.0], [0.0; 4]]).0, 1);
}

#[test]
fn indices_of_arguments_that_are_overwritten_are_checked() {
    for (indices, out, why) in [
        ("[1]", "t", "names argument 1 of a call with 1"),
        ("[0, 0]", "[t, t]", "names argument 0 twice"),
        ("[0, -1]", "t", "expected 1, found 2"),
        ("[0]", "R.Tensor((4,), \"float32\")", "whose memory it takes, is"),
    ] {
        let body = format!(
            "        a = R.call_tir_inplace(cls.double, (x,), inplace_indices={indices}, out_ty={out})\n        return a\n"
        );
        let parsed = parse(&in_place_text(&body), "model.tir", &ParseOptions::default());
        let parsed = parsed.unwrap_or_else(|e| panic!("{e}"));
        let module = GraphModule { module: parsed.module, functions: parsed.graphs };
        let model = Model::compile(module, "main", &Context::default(), &Setting::native());
        let message = model.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains(why), "{indices}: {message}");
    }
}

/// The compiled `main` of a text.
#[track_caller]
fn compiled(text: &str) -> Model {
    let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let model = Model::compile(module, "main", &Context::default(), &Setting::native());
    model.unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn what_follows_from_weights_is_computed_when_they_are_loaded() {
    let text = r#"
@R.function
def main(x: R.Tensor((1, 2), "float32"), w: R.Tensor((3, 2), "float32"), u: R.Tensor((2,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        t = R.permute_dims(w)
        s = R.nn.relu(R.multiply(t, R.const(2.0, "float32")))
        y = R.nn.relu(R.matmul(x, s))
        R.output(y)
    return y
"#;
    let mut model = compiled(text);
    let (program, w) = (model.program(), floats(&[3, 2], &[1.0, 1.0, -1.0, -1.0, 0.5, 0.25]));
    assert_eq!((program.preparation.len(), program.steps.len()), (1, 1), "{program:?}");
    let x = floats(&[1, 2], &[1.0, 2.0]);
    assert!(model.run(std::slice::from_ref(&x)).is_err_and(|e| e.to_string().contains("have no values")));
    assert!(model.load_weights(std::slice::from_ref(&w)).is_err_and(|e| e.to_string().contains("takes 2 weights")));
    model.load_weights(&[w.clone(), floats(&[2], &[0.0; 2])]).unwrap_or_else(|e| panic!("{e}"));
    // Neither `w`, which only the preparation reads, nor `u`, which nothing reads, is kept.
    let fixed = model.fixed().expect("loaded");
    let has = [Place::Input(1), Place::Input(2), Place::Prepared(0)].map(|p| fixed.has(p));
    assert_eq!(has, [false, false, true]);
    for _ in 0..2 {
        let outputs = model.run(std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outputs, [floats(&[1, 3], &[6.0, 0.0, 2.0])]);
    }
    // Other weights, other results.
    model.load_weights(&[floats(&[3, 2], &[1.0; 6]), floats(&[2], &[0.0; 2])]).unwrap_or_else(|e| panic!("{e}"));
    let outputs = model.run(&[x]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outputs, [floats(&[1, 3], &[6.0; 3])]);
}

#[test]
fn outputs_may_be_weights_and_what_follows_from_them() {
    let text = r#"
@R.function
def main(x: R.Tensor((1, 2), "float32"), w: R.Tensor((2, 2), "float32"), e: R.Tensor((0, 2), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        t = R.permute_dims(w)
        s = R.multiply(t, R.const(2.0, "float32"))
        f = R.nn.relu(e)
        r = R.reshape(s, R.shape([4]))
        z = R.zeros((1, 2), "float32")
        y = R.add(R.matmul(x, s), z)
        R.output(t, s, f, r, y)
    return (s, w, s, r, f, t, y, z, R.add(R.const(1.0, "float32"), R.const(2.0, "float32")), x)
"#;
    let mut model = compiled(text);
    assert_eq!(model.program().steps.len(), 1, "{:?}", model.program());
    let (x, w) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    model.load_weights(&[w.clone(), floats(&[0, 2], &[])]).unwrap_or_else(|e| panic!("{e}"));
    let s = floats(&[2, 2], &[2.0, 6.0, 4.0, 8.0]);
    let expected = [
        s.clone(),
        w,
        s,
        floats(&[4], &[2.0, 6.0, 4.0, 8.0]),
        floats(&[0, 2], &[]),
        floats(&[2, 2], &[1.0, 3.0, 2.0, 4.0]),
        floats(&[1, 2], &[10.0, 22.0]),
        floats(&[1, 2], &[0.0, 0.0]),
        floats(&[], &[3.0]),
        x.clone(),
    ];
    assert_eq!(model.run(&[x]).unwrap_or_else(|e| panic!("{e}")), expected);
}

/// The lowered module of a text, and the module as read.
fn modules(text: &str) -> (GraphModule, GraphModule) {
    let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let read = GraphModule { module: parsed.module, functions: parsed.graphs };
    let mut lowered = read.clone();
    pass::run_all(&mut lowered, &Context::default()).unwrap_or_else(|e| panic!("{e:?}"));
    (lowered, read)
}

const LAYER: &str = r#"
@R.function
def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((16, 8), "float32"), b: R.Tensor((16,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        y = R.add(R.matmul(x, R.permute_dims(w)), b)
        z = R.nn.relu(y)
        best = R.argmax(z, axis=1)
        R.output(z, best)
    return (z, best)
"#;

/// Numbers from -1 to 1 that repeat late.
fn numbers(shape: &[i64]) -> Array {
    let n: i64 = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    floats(shape, &values)
}

/// How far a model of [`LAYER`] is from the layer as it was read, with the first kernel from another text.
fn agreement_with(text: &str) -> Agreement {
    let setting = Setting::native();
    let ((lowered, read), (other, _)) = (modules(LAYER), modules(text));
    let first = lowered.functions[0].called_prim_funcs()[1];
    let replaced = other.functions[0].called_prim_funcs()[1];
    let model = Model::with_schedules(&lowered, "main", &Libraries::default(), &setting, |name| {
        (name == first).then(|| other.module.func(replaced.as_str()).expect("a function").clone())
    });
    let mut model = model.unwrap_or_else(|e| panic!("{e}"));
    let (x, weights) = (numbers(&[4, 8]), [numbers(&[16, 8]), numbers(&[16])]);
    model.load_weights(&weights).unwrap_or_else(|e| panic!("{e}"));
    let reference = Reference::new(read, "main", &Context::default(), &setting, StopFlag::new());
    let agreement = reference.and_then(|mut r| r.compare(&model, &weights, &[x]));
    agreement.unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_model_agrees_with_its_graph_as_read() {
    let agreement = agreement_with(LAYER);
    assert!(agreement.is_right() && agreement.relative() < 1e-6, "{agreement}");
    assert_eq!(agreement.outputs.iter().map(|o| o.elements).collect::<Vec<_>>(), [64, 4]);
}

#[test]
fn a_wrong_step_is_found() {
    let agreement = agreement_with(&LAYER.replace("R.add(R.matmul", "R.subtract(R.matmul"));
    assert!(!agreement.is_right());
    let told = agreement.to_string();
    assert!(told.starts_with("output `z`: relative difference ") && told.contains("allowed 1.0e-4"), "{told}");
}

#[test]
fn large_graphs_are_compiled_plainly_for_the_comparison() {
    // 2^24 multiplications are more than the interpreter is given.
    let text = r#"
@R.function
def main(x: R.Tensor((256, 256), "float32")):
    with R.dataflow():
        y = R.nn.softmax(R.matmul(x, R.permute_dims(x)), axis=1)
        R.output(y)
    return y
"#;
    let setting = Setting::native();
    let (lowered, read) = modules(text);
    let model = Model::of_lowered(&lowered, "main", &setting).unwrap_or_else(|e| panic!("{e}"));
    let reference = Reference::new(read, "main", &Context::default(), &setting, StopFlag::new());
    let agreement = reference.and_then(|mut r| r.compare(&model, &[], &[numbers(&[256, 256])]));
    let agreement = agreement.unwrap_or_else(|e| panic!("{e}"));
    assert!(agreement.is_right() && agreement.relative() > 0.0, "{agreement}");
}

/// A product as `apply-best` prints it: the schedule lays the weight out in columns.
const PREPARED: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def product(x: T.Buffer((1, 2), "float32"), w: T.Buffer((2, 2), "float32"), y: T.Buffer((1, 2), "float32")):
        T.func_attr({"layout_free_buffers": [1]})
        p = T.sblock_alloc_buffer((2, 2))
        for i, j in T.grid(2, 2):
            with T.sblock("p"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                p[vj, vi] = w[vi, vj]
        for i, j, k in T.grid(1, 2, 2):
            with T.sblock("y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * p[vj, vk]

    @R.function
    def main(x: R.Tensor((1, 2), "float32"), w: R.Tensor((2, 2), "float32"), v: R.Tensor((2, 2), "float32")):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.product, (x, w), out_ty=R.Tensor((1, 2), "float32"))
            b = R.call_tir(cls.product, (a, R.negative(v)), out_ty=R.Tensor((1, 2), "float32"))
            c = R.add(b, R.reshape(R.strided_slice(v, (0,), (0,), (1,)), (1, 2)))
            R.output(c)
        return c
"#;

#[test]
fn weights_are_laid_out_when_they_are_loaded() {
    let parsed = parse(PREPARED, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let cx = Context::default();
    let mut model = Model::compile(module.clone(), "main", &cx, &Setting::native()).unwrap_or_else(|e| panic!("{e}"));
    let mut reference =
        Reference::new(module, "main", &cx, &Setting::native(), StopFlag::new()).unwrap_or_else(|e| panic!("{e}"));
    let x = [floats(&[1, 2], &[1.0, 2.0])];
    for scale in [1.0, 2.0] {
        let w = floats(&[2, 2], &[1.0 * scale, 2.0, 3.0, 4.0]);
        let v = floats(&[2, 2], &[5.0, 6.0, 7.0, 8.0 * scale]);
        let weights = [w, v];
        model.load_weights(&weights).unwrap_or_else(|e| panic!("{e}"));
        let agreement = reference.compare(&model, &weights, &x).unwrap_or_else(|e| panic!("{e}"));
        assert!(agreement.is_right(), "{agreement}");
    }
    let fixed = model.fixed().expect("loaded");
    assert!(!fixed.has(Place::Input(1)) && !fixed.has(Place::Input(2)));
    let prepared = (0..model.program().prepared.len()).filter(|&i| fixed.has(Place::Prepared(i))).count();
    assert_eq!((prepared, model.fixed_bytes()), (3, 16 + 16 + 8));
}

/// Seeded random numbers between -1 and 1.
fn random(shape: &[i64], seed: u64) -> (Array, Vec<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n: i64 = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|_| (rng.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0).collect();
    (floats(shape, &values), values)
}

#[test]
fn a_raised_flag_ends_the_reference() {
    let text = r#"
@R.function
def main(x: R.Tensor((128, 128), "float32")):
    with R.dataflow():
        y = R.matmul(x, x)
        R.output(y)
    return y
"#;
    let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let (cx, setting) = (Context::default(), Setting::native());
    let model = Model::compile(module.clone(), "main", &cx, &setting).unwrap_or_else(|e| panic!("{e}"));
    let stop = StopFlag::new();
    let reference = Reference::new(module, "main", &cx, &setting, stop.clone());
    let mut reference = reference.unwrap_or_else(|e| panic!("{e}"));
    let x = [random(&[128, 128], 1).0];
    let mut compare = || reference.compare(&model, &[], &x).map(|agreement| agreement.is_right());
    assert_eq!(compare().map_err(|e| e.to_string()), Ok(true));
    stop.raise();
    assert_eq!(compare().map_err(|e| e.to_string()), Err("`matmul` failed: stopped".to_owned()));
    // The model has a flag of its own.
    assert!(model.run(&x).is_ok());
}

#[test]
fn convolutions_from_tiles_give_the_same_results() {
    let text = r#"
@R.function
def main(x: R.Tensor((2, 64, 30, 33), "float32"), w: R.Tensor((64, 64, 3, 3), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        y = R.nn.relu(R.nn.conv2d(x, w, padding=[1, 0, 2, 1]))
        R.output(y)
    return y
"#;
    let ((x, x_values), (w, w_values)) = (random(&[2, 64, 30, 33], 1), random(&[64, 64, 3, 3], 2));
    let results = |skipped: &[&str], strict_fp| {
        let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let module = GraphModule { module: parsed.module, functions: parsed.graphs };
        let cx = Context { skipped: skipped.iter().map(|&s| s.to_owned()).collect(), strict_fp, ..Context::default() };
        let mut model = Model::compile(module, "main", &cx, &Setting::native()).unwrap_or_else(|e| panic!("{e}"));
        let n_steps = model.program().steps.len();
        model.load_weights(std::slice::from_ref(&w)).unwrap_or_else(|e| panic!("{e}"));
        let outputs = model.run(std::slice::from_ref(&x)).unwrap_or_else(|e| panic!("{e}"));
        let words = outputs[0].data().as_chunks::<4>().0.to_vec();
        (n_steps, words.into_iter().map(f32::from_le_bytes).collect::<Vec<f32>>())
    };
    let (n_steps, from_tiles) = results(&[], false);
    let (n_plain, plain) = results(&["winograd"], false);
    assert_eq!((n_steps, n_plain, results(&[], true).0), (3, 1, 1));
    let exact = convolution(&x_values, &w_values);
    let largest = exact.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    // The largest difference, and the root of the mean square, relative to the largest result.
    let errors = |found: &[f32]| {
        assert_eq!(found.len(), exact.len());
        let apart = found.iter().zip(&exact).map(|(&a, b)| (f64::from(a) - b).abs() / largest);
        let (most, squares) = apart.fold((0.0f64, 0.0), |(most, sum), d| (most.max(d), sum + d * d));
        (most, (squares / exact.len() as f64).sqrt())
    };
    let (most, mean) = errors(&from_tiles);
    assert!(largest > 1.0 && most <= 1e-5 && mean <= 4e-7, "{most} at most, {mean} in the mean, of {largest}");
    let (most, mean) = errors(&plain);
    assert!(most <= 2e-6 && mean <= 2e-7, "{most} at most, {mean} in the mean, without tiles");
}

/// The results of the convolution above, in `float64`: 2 images of 64 channels, whose rows and columns are padded before and after.
fn convolution(x: &[f32], w: &[f32]) -> Vec<f64> {
    const CHANNELS: usize = 64;
    let ([rows, columns], [below, right]) = ([30, 33], [31, 32]);
    let mut results = Vec::with_capacity(2 * CHANNELS * below * right);
    for image in 0..2 {
        for feature in 0..CHANNELS {
            let mut sums = vec![0.0; below * right];
            for (channel, place) in (0..CHANNELS).flat_map(|c| (0..9).map(move |p| (c, p))) {
                let weight = f64::from(w[(feature * CHANNELS + channel) * 9 + place]);
                for (i, sum) in sums.iter_mut().enumerate() {
                    // One row of padding lies above, and no column on the left.
                    let (row, column) = (i / right + place / 3, i % right + place % 3);
                    if (1..=rows).contains(&row) && column < columns {
                        let at = ((image * CHANNELS + channel) * rows + row - 1) * columns + column;
                        *sum += weight * f64::from(x[at]);
                    }
                }
            }
            results.extend(sums.into_iter().map(|sum| f64::max(sum, 0.0)));
        }
    }
    results
}
