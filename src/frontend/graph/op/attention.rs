//! Attention: means of values, weighted by how well their keys fit to a query.

use super::normalize::softmax;
use super::*;
use crate::te::Reducer;

const PARAMS: &[Param] = &[
    required("query", Kind::Tensor),
    required("key", Kind::Tensor),
    required("value", Kind::Tensor),
    optional("bias", Kind::OptTensor, Default::Absent),
    optional("scale", Kind::OptFloat, Default::None),
    optional("causal_mask", Kind::OptStr, Default::None),
    optional("window_size", Kind::OptInt, Default::None),
];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "nn.attention",
        params: PARAMS,
        infer: result,
        lower: Lowering::Stages(stages),
        doc: "softmax(query * key * scale + bias) * value for each head, of tensors [batch, position, head, feature].",
    },
    Operator {
        name: "nn.attention_bias",
        params: PARAMS,
        infer: result,
        lower: Lowering::Stages(stages),
        doc: "Attention with a bias, as `nn.attention` with one.",
    },
];

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let (query, key, value) = (cx.tensor("query")?, cx.tensor("key")?, cx.tensor("value")?);
    expect_float(cx, "query", query.dtype)?;
    for (name, tensor) in [("query", &query), ("key", &key), ("value", &value)] {
        cx.expect_rank(name, tensor, 4)?;
        expect_same_type(cx, ("query", query.dtype), (name, tensor.dtype))?;
    }
    for dim in [0, 2, 3] {
        cx.expect_equal(("query", &query, dim), ("key", &key, dim))?;
    }
    for dim in [0, 1, 2] {
        cx.expect_equal(("key", &key, dim), ("value", &value, dim))?;
    }
    if let Some(bias) = cx.opt_tensor("bias")? {
        cx.expect_rank("bias", &bias, 4)?;
        let scores = [query.shape[0], query.shape[2], query.shape[1], key.shape[1]];
        for (d, &extent) in scores.iter().enumerate() {
            if !cx.arena.is_int(bias.shape[d], 1) && cx.differ(bias.shape[d], extent) {
                let (bias, scores) = (cx.extents(&bias.shape), cx.extents(&scores));
                return cx.fail(format!("`bias` {bias} does not fit to the scores {scores}"));
            }
        }
    }
    if let Some(mask) = cx.opt_text("causal_mask")
        && !matches!(mask, "TopLeft" | "BottomRight")
    {
        return cx.fail(format!("`causal_mask` must be TopLeft or BottomRight, found `{mask}`"));
    }
    if let Some(size) = cx.opt_int("window_size")
        && size < 1
    {
        return cx.fail(format!("`window_size` must be positive, found {size}"));
    }
    let shape = vec![query.shape[0], query.shape[1], query.shape[2], value.shape[3]];
    Ok(Type::tensor(query.dtype, shape))
}

fn stages(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (query, key, value) = (cx.input("query")?, cx.input("key")?, cx.input("value")?);
    let bias = cx.opt_input("bias")?;
    let scale = cx.opt_float("scale");
    let (mask, window) = (cx.opt_text("causal_mask"), cx.opt_int("window_size"));
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let (of_query, of_key) = (cx.shape_of(query), cx.shape_of(key));
    let te = &mut cx.te;
    let wide = accumulator(dtype);
    let (positions, keys, features) = (of_query[1], of_key[1], of_query[3]);
    let of_scores = [of_query[0], of_query[2], positions, keys];

    let products = te.reduce("T_batch_matmul_NT", &of_scores, &[features], Reducer::Sum, |te, i, k| {
        let (x, y) = (te.at(query, &[i[0], i[2], i[1], k[0]]), te.at(key, &[i[0], i[3], i[1], k[0]]));
        let (x, y) = (te.cast(wide, x), te.cast(wide, y));
        te.mul(x, y)
    });
    let scores = te.compute("T_attention_scores", &of_scores, |te, i| {
        let mut score = te.at(products, i);
        score = match scale {
            Some(scale) => {
                let scale = te.float(scale, wide);
                te.mul(score, scale)
            }
            None => {
                let n = te.cast(wide, features);
                let root = te.call(Intrinsic::Sqrt, &[n]);
                te.binary(BinOp::Div, score, root)
            }
        };
        if let Some(bias) = bias {
            let bias = te.broadcast_at(bias, i);
            let bias = te.cast(wide, bias);
            score = te.add(score, bias);
        }
        match is_seen(te, i, positions, keys, mask, window) {
            Some(is_seen) => {
                let never = te.float(f64::NEG_INFINITY, wide);
                te.if_then_else(is_seen, score, never)
            }
            None => score,
        }
    });
    let weights = softmax(te, scores, 3);
    let mean = te.reduce("T_batch_matmul_NN", &shape, &[keys], Reducer::Sum, |te, i, k| {
        let (weight, x) = (te.at(weights, &[i[0], i[2], i[1], k[0]]), te.at(value, &[i[0], k[0], i[2], i[3]]));
        let x = te.cast(wide, x);
        te.mul(weight, x)
    });
    Ok(vec![match wide == dtype {
        true => mean,
        false => te.compute("T_cast", &shape, |te, i| {
            let mean = te.at(mean, i);
            te.cast(dtype, mean)
        }),
    }])
}

/// Whether the query at `i[2]` sees the key at `i[3]`; `None` if all see all.
///
/// With a causal mask a query sees no key after its own position, which counts from the first key or so that the last query has
/// the last key. With a window it sees that many keys up to its position.
fn is_seen(
    te: &mut Te,
    i: &[ExprId],
    positions: ExprId,
    keys: ExprId,
    mask: Option<&str>,
    window: Option<i64>,
) -> Option<ExprId> {
    let mut own = i[2];
    if mask == Some("BottomRight") {
        // As TVM has it, also if there are fewer keys than queries.
        let offset = te.sub(positions, keys);
        let offset = te.call(Intrinsic::Abs, &[offset]);
        own = te.add(own, offset);
    }
    let mut seen = mask.map(|_| te.compare(CmpOp::Le, i[3], own));
    if let Some(window) = window {
        let before = te.add_const(own, -window);
        let is_near = te.lt(before, i[3]);
        seen = Some(match seen {
            Some(seen) => te.and(seen, is_near),
            None => is_near,
        });
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Input, check, refused, type_of, varied};

    const PARAMS: &str = r#"q: R.Tensor(("n", 5, 3, 4), "float32"), k: R.Tensor(("n", 6, 3, 4), "float32"), v: R.Tensor(("n", 6, 3, 2), "float32")"#;

    #[test]
    fn shapes_are_those_of_queries_and_values() {
        assert_eq!(type_of(PARAMS, "R.nn.attention(q, k, v)"), "float32 [n, 5, 3, 2]");
    }

    #[test]
    fn mistakes_name_both_shapes() {
        refused(PARAMS, "R.nn.attention(q, v, v)", &["R.nn.attention", "[n, 5, 3, 4]", "[n, 6, 3, 2]"]);
        refused(PARAMS, r#"R.nn.attention(q, k, v, causal_mask="Upper")"#, &["TopLeft or BottomRight", "Upper"]);
        let bias = format!(r#"{PARAMS}, b: R.Tensor((1, 3, 5, 5), "float32")"#);
        refused(&bias, "R.nn.attention_bias(q, k, v, b)", &["[1, 3, 5, 5]", "[n, 3, 5, 6]"]);
    }

    /// One head, three queries, four keys of two features; `seen` says which keys a query sees.
    fn attended(attributes: &str, scale: f32, seen: impl Fn(i64, i64) -> bool) {
        let (q, k, v) = (varied(&[3, 2]), varied(&[4, 2]), varied(&[4, 2]));
        let mut expected = Vec::new();
        for i in 0..3 {
            let weights: Vec<f32> = (0..4)
                .map(|j| {
                    let product = q[2 * i] * k[2 * j] + q[2 * i + 1] * k[2 * j + 1];
                    if seen(i as i64, j as i64) { (product * scale).exp() } else { 0.0 }
                })
                .collect();
            let sum: f32 = weights.iter().sum();
            for f in 0..2 {
                expected.push((0..4).map(|j| weights[j] / sum * v[2 * j + f]).sum());
            }
        }
        let inputs: [Input<'_>; 3] = [("q", &[1, 3, 1, 2], &q), ("k", &[1, 4, 1, 2], &k), ("v", &[1, 4, 1, 2], &v)];
        check(&inputs, &format!("R.nn.attention(q, k, v{attributes})"), &expected);
    }

    #[test]
    fn queries_see_what_the_mask_lets_them() {
        let root = 0.5_f32.sqrt();
        attended("", root, |_, _| true);
        attended(", scale=2.0", 2.0, |_, _| true);
        attended(r#", causal_mask="TopLeft""#, root, |i, j| j <= i);
        attended(r#", causal_mask="BottomRight""#, root, |i, j| j <= i + 1);
        attended(r#", causal_mask="BottomRight", window_size=2"#, root, |i, j| j <= i + 1 && j > i - 1);
    }
}
