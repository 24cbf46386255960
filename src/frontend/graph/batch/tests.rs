use crate::graph::pass::{Context, GraphModule, run_until};
use crate::script::{ParseOptions, parse};

/// What the check says of a graph of a function's body. `x` has `n` samples, `w` is a weight of 4 x 4.
fn checked(shape: &str, body: &str) -> Result<(), String> {
    checked_text(&format!(
        r#"
@R.function
def main(x: R.Tensor({shape}, "float32"), w: R.Tensor((4, 4), "float32")):
    R.func_attr({{"num_input": 1}})
    with R.dataflow():
        {}
        R.output(y)
    return y
"#,
        body.replace('\n', "\n        ")
    ))
}

fn checked_text(text: &str) -> Result<(), String> {
    let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{}", e.render(false)));
    let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let lowered = run_until(&mut module, &Context::default(), "lower_operators");
    assert!(lowered.unwrap_or_else(|e| panic!("{e:?}")));
    let main = module.functions.iter().find(|f| f.name == "main").expect("a graph");
    super::check(&module, main, "n").map_err(|e| e.to_string())
}

#[test]
fn operators_within_samples_are_independent() {
    for (shape, body) in [
        (r#"("n", 4)"#, "y = R.nn.relu(R.add(R.matmul(x, w), R.const(1.0, \"float32\")))"),
        (r#"("n", 4)"#, "y = R.nn.softmax(x, axis=-1)"),
        (r#"("n", 4)"#, "y = R.argmax(x, axis=1)"),
        (r#"("n", 4)"#, "y = x"),
        (r#"("n", 3, 4)"#, "y = R.matmul(R.reshape(x, (n, 12)), R.reshape(R.tile(w, (3, 1)), (12, 4)))"),
        (
            r#"("n", 2, 8, 8)"#,
            "y = R.nn.max_pool2d(R.nn.conv2d(x, R.reshape(w, (2, 2, 2, 2)), padding=[1, 1]), pool_size=[2, 2])",
        ),
        (r#"("n", 3, 4)"#, "y = R.matmul(x, R.permute_dims(x, axes=[0, 2, 1]))"),
        (r#"("n", 3, 4)"#, "y = R.subtract(x, R.mean(x, axis=[1, 2], keepdims=True))"),
        // The batch is not the leading dimension in between.
        (r#"("n", 3, 4)"#, "y = R.permute_dims(R.exp(R.permute_dims(x, axes=[1, 0, 2])), axes=[1, 0, 2])"),
        (r#"("n", 3, 4)"#, "a = R.split(x, 3, axis=1)\ny = R.concat((a[2], a[0]), axis=1)"),
    ] {
        assert_eq!(checked(shape, body), Ok(()), "{body}");
    }
}

#[test]
fn operators_across_samples_are_refused_by_name() {
    for (shape, body, why) in [
        (r#"("n", 4)"#, "y = R.subtract(x, R.mean(x, axis=[0], keepdims=True))", "`mean` "),
        (r#"("n", 4)"#, "y = R.nn.softmax(x, axis=0)", "`softmax` reduces over the batch"),
        (r#"("n", 4)"#, "y = R.cumsum(x, axis=0)", "`cumsum` "),
        (r#"("n", 4)"#, "y = R.flip(x, axis=0)", "`flip` "),
        (r#"("n", 4)"#, "y = R.sum(x, axis=[0])", "`y` is a result of type"),
        (r#"("n", 4)"#, "y = R.concat((x, w), axis=0)", "`y` is a result of type"),
        (r#"("n", 4)"#, "y = R.permute_dims(x)", "`y` is a result of type"),
        (
            r#"("n", 4)"#,
            "a = R.matmul(x, R.permute_dims(x))\ny = R.matmul(a, x)",
            "`matmul` has a tensor whose shape depends on `n` by more",
        ),
        (r#"(4, "n")"#, "y = R.matmul(w, x)", "`x` is an input of type"),
        (r#"("n", 4)"#, "a = R.reshape(x, (4, n))\ny = R.permute_dims(a)", "`reshape` moves elements"),
        (
            r#"("n", 4)"#,
            "a = R.reshape(x, (n * 4,))\ny = R.reshape(R.exp(a), (n, 4))",
            "has a tensor whose shape depends on `n`",
        ),
        (r#"("n", 4)"#, "y = R.take(x, R.arange(0, n, dtype=\"int64\"), axis=0)", "`arange` "),
    ] {
        let found = checked(shape, body);
        assert!(found.as_ref().is_err_and(|e| e.contains(why)), "{body}: {found:?}");
    }
}

#[test]
fn what_runs_for_each_pair_of_samples_depends_on_their_number() {
    let text = r#"
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        m = T.int64()
        A = T.match_buffer(a, (m, 4), "float32")
        B = T.match_buffer(b, (m, 4), "float32")
        for i, j, k in T.grid(m, m, 4):
            with T.block("B"):
                v, u = T.axis.remap("SS", [i, k])
                B[v, u] = B[v, u] + A[v, u]

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = R.call_tir(Module.f, (x,), out_ty=R.Tensor((n, 4), "float32"))
            R.output(y)
        return y
"#;
    assert_eq!(checked_text(text), Err("`f` runs over the batch for each sample".to_owned()));
}

/// A prim_func that a graph calls, with the statements of its only block.
fn prim_func(axes: &str, statement: &str) -> Result<(), String> {
    checked_text(&format!(
        r#"
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        m = T.int64()
        A = T.match_buffer(a, (m, 4), "float32")
        B = T.match_buffer(b, (m, 4), "float32")
        for i, j in T.grid(m, 4):
            with T.block("B"):
                v, u = T.axis.remap("{axes}", [i, j])
                {statement}

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = R.call_tir(Module.f, (x,), out_ty=R.Tensor((n, 4), "float32"))
            R.output(y)
        return y
"#
    ))
}

#[test]
fn prim_funcs_know_neither_the_position_nor_the_number_of_samples() {
    for (axes, statement, found) in [
        ("SS", "B[v, u] = A[v, 3 - u] * T.float32(2)", None),
        ("SS", "B[v, u] = T.if_then_else(A[v, 0] > T.float32(0), A[v, u], T.float32(0))", None),
        ("SS", "B[v, u] = A[v, u] + T.Cast(\"float32\", v)", Some("depends on the position of a sample")),
        ("SS", "B[v, u] = A[v, u] / T.Cast(\"float32\", m)", Some("depends on the size of the batch")),
        ("SS", "B[v, u] = A[T.max(v - 1, 0), u]", Some("accesses `A` at other samples")),
        ("SS", "B[v, u] = A[0, u]", Some("accesses `A` at other samples")),
        ("SS", "B[m - 1 - v, u] = A[v, u]", Some("accesses `B` at other samples")),
        ("RS", "B[0, u] = B[0, u] + A[v, u]", Some("reduces over the batch")),
    ] {
        let result = prim_func(axes, statement);
        match found {
            None => assert_eq!(result, Ok(()), "{statement}"),
            Some(why) => assert!(result.as_ref().is_err_and(|e| e.contains(why)), "{statement}: {result:?}"),
        }
    }
}
