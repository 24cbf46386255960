//! Losses and gradients.

use super::index::expect_integers;
use super::*;
use crate::te::{INDEX, Reducer};

pub(super) static OPERATORS: &[Operator] = &[
    identity("grad.end_checkpoint", "The tensor itself; for gradients, the end of a part that is computed again."),
    identity("grad.no_grad", "The tensor itself, without a gradient."),
    identity("grad.start_checkpoint", "The tensor itself; for gradients, the start of a part that is computed again."),
    Operator {
        name: "grad.nll_loss_backward",
        params: &[
            required("output_grad", Kind::Tensor),
            required("predictions", Kind::Tensor),
            required("targets", Kind::Tensor),
            optional("weights", Kind::OptTensor, Default::Absent),
            optional("reduction", Kind::Str, Default::Str("mean")),
            optional("ignore_index", Kind::Int, Default::Int(-100)),
        ],
        infer: |cx| {
            infer_nll(cx)?;
            Ok(cx.tensor("predictions")?.into())
        },
        lower: Lowering::Stages(nll_backward),
        doc: "The gradient of `nn.nll_loss` with respect to the predictions.",
    },
    Operator {
        name: "grad.take_backward",
        params: &[
            required("output_grad", Kind::Tensor),
            required("x", Kind::Tensor),
            required("indices", Kind::Tensor),
            optional("axis", Kind::OptInt, Default::None),
            // TVM prints it, though its own reader does not know it.
            optional("mode", Kind::OptStr, Default::Absent),
        ],
        infer: |cx| {
            let (grad, x, indices) = (cx.tensor("output_grad")?, cx.tensor("x")?, cx.tensor("indices")?);
            expect_integers(cx, "indices", indices.dtype)?;
            cx.expect_rank("indices", &indices, 1)?;
            expect_same_type(cx, ("output_grad", grad.dtype), ("x", x.dtype))?;
            cx.expect_rank("output_grad", &grad, x.rank())?;
            let axis = match cx.opt_int("axis") {
                Some(axis) => cx.axis(axis, x.rank())?,
                None => {
                    cx.expect_rank("x", &x, 1)?;
                    0
                }
            };
            for d in 0..x.rank() {
                match d == axis {
                    true => cx.expect_equal(("output_grad", &grad, d), ("indices", &indices, 0))?,
                    false => cx.expect_equal(("output_grad", &grad, d), ("x", &x, d))?,
                }
            }
            Ok(x.into())
        },
        lower: Lowering::Stages(|cx| {
            let (grad, indices) = (cx.input("output_grad")?, cx.input("indices")?);
            let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
            let axis = cx.axis(cx.opt_int("axis").unwrap_or(0), shape.len())?;
            let of_grad = cx.shape_of(grad);
            let zeros = cx.te.compute("T_full", &shape, |te, _| te.constant(0, dtype));
            Ok(vec![cx.te.update("take_backward", zeros, &of_grad, |te, out, k| {
                let mut at = k.to_vec();
                at[axis] = te.at(indices, &k[axis..=axis]);
                let (before, more) = (te.at(out, &at), te.at(grad, k));
                let sum = te.add(before, more);
                (at, sum)
            })])
        }),
        doc: "The gradient of `take`: the sums of the gradients of all elements that an element was taken for.",
    },
    Operator {
        name: "nn.cross_entropy_with_logits",
        params: &[required("predictions", Kind::Tensor), required("labels", Kind::Tensor)],
        infer: |cx| {
            let (a, b) = (cx.tensor("predictions")?, cx.tensor("labels")?);
            expect_float(cx, "predictions", a.dtype)?;
            expect_same_type(cx, ("predictions", a.dtype), ("labels", b.dtype))?;
            cx.expect_rank("labels", &b, a.rank())?;
            for d in 0..a.rank() {
                cx.expect_equal(("predictions", &a, d), ("labels", &b, d))?;
            }
            Ok(Type::tensor(a.dtype, Vec::new()))
        },
        lower: Lowering::Stages(|cx| {
            let (a, b) = (cx.input("predictions")?, cx.input("labels")?);
            let shape = cx.shape_of(a);
            let product = cx.te.compute("T_multiply", &shape, |te, i| {
                let (x, y) = (te.at(a, i), te.at(b, i));
                te.mul(x, y)
            });
            let sum = sum_of_all(&mut cx.te, product);
            let batch = if shape.len() > 1 { shape[0] } else { cx.te.extent(1) };
            Ok(vec![cx.te.compute("T_divide", &[], |te, i| {
                let sum = te.at(sum, i);
                let dtype = te.dtype(sum);
                let (minus_one, batch) = (like(te, sum, -1.0), te.cast(dtype, batch));
                let negative = te.mul(sum, minus_one);
                te.binary(BinOp::Div, negative, batch)
            })])
        }),
        doc: "Minus the sum of predictions times labels, divided by the number of items.",
    },
    Operator {
        name: "nn.nll_loss",
        params: &[
            required("predictions", Kind::Tensor),
            required("targets", Kind::Tensor),
            optional("weights", Kind::OptTensor, Default::Absent),
            optional("reduction", Kind::Str, Default::Str("mean")),
            optional("ignore_index", Kind::Int, Default::Int(-100)),
        ],
        infer: |cx| {
            let (dtype, targets) = infer_nll(cx)?;
            let shape = if cx.text("reduction") == "none" { targets.shape } else { Vec::new() };
            Ok(Type::tensor(dtype, shape))
        },
        lower: Lowering::Stages(nll),
        doc: "Minus the prediction of the target's class times its weight: for each item, their sum, or their weighted mean.",
    },
];

const INPUT: &[Param] = &[required("input", Kind::Tensor)];

const fn identity(name: &'static str, doc: &'static str) -> Operator {
    let infer = |cx: &mut Infer<'_>| -> Result<Type, OpError> { Ok(cx.tensor("input")?.into()) };
    Operator { name, params: INPUT, infer, lower: Lowering::Reshape, doc }
}

/// The type of the predictions, and the targets.
fn infer_nll(cx: &mut Infer<'_>) -> Result<(DType, Known), OpError> {
    let (predictions, targets) = (cx.tensor("predictions")?, cx.tensor("targets")?);
    expect_float(cx, "predictions", predictions.dtype)?;
    expect_integers(cx, "targets", targets.dtype)?;
    let rank = predictions.rank();
    if rank == 0 {
        return cx.fail("`predictions` has no dimensions");
    }
    // The classes are the second dimension, or the only one.
    let class = usize::from(rank > 1);
    cx.expect_rank("targets", &targets, rank - 1)?;
    for (of_targets, d) in (0..rank).filter(|&d| d != class).enumerate() {
        cx.expect_equal(("predictions", &predictions, d), ("targets", &targets, of_targets))?;
    }
    if let Some(weights) = cx.opt_tensor("weights")? {
        cx.expect_rank("weights", &weights, 1)?;
        expect_same_type(cx, ("predictions", predictions.dtype), ("weights", weights.dtype))?;
        cx.expect_equal(("predictions", &predictions, class), ("weights", &weights, 0))?;
    }
    match cx.text("reduction") {
        "mean" | "sum" | "none" => Ok((predictions.dtype, targets)),
        other => cx.fail(format!("`reduction` must be mean, sum or none, found `{other}`")),
    }
}

fn nll(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (predictions, targets, weights) = (cx.input("predictions")?, cx.input("targets")?, cx.opt_input("weights")?);
    let (shape, dtype) = (cx.shape_of(targets), cx.te.element_type(predictions));
    let (ignored, reduction) = (cx.int("ignore_index"), cx.text("reduction"));
    let class = cx.te.shape(predictions).len().min(2) - 1;
    let te = &mut cx.te;
    // The value where the target counts, else 0. What an ignored target names is not read: it may lie outside.
    let counted = |te: &mut Te, i: &[ExprId], value: &dyn Fn(&mut Te, ExprId) -> ExprId| {
        let target = te.at(targets, i);
        let dtype_of_targets = te.dtype(target);
        let ignored = te.int(ignored, dtype_of_targets);
        let counts = te.compare(CmpOp::Ne, target, ignored);
        let (value, zero) = (value(te, target), te.float(0.0, dtype));
        te.if_then_else(counts, value, zero)
    };
    let weight = |te: &mut Te, target: ExprId| match weights {
        Some(weights) => te.at(weights, &[target]),
        None => te.float(1.0, dtype),
    };
    let losses = te.compute("nll_loss", &shape, |te, i| {
        counted(te, i, &|te, target| {
            let x = te.at(predictions, &with_index(i, class, target));
            let zero = te.float(0.0, dtype);
            let (negative, weight) = (te.sub(zero, x), weight(te, target));
            te.mul(negative, weight)
        })
    });
    if reduction == "none" {
        return Ok(vec![losses]);
    }
    let sum = match shape.is_empty() {
        true => losses,
        false => sum_of_all(te, losses),
    };
    if reduction == "sum" {
        return Ok(vec![sum]);
    }
    let all_weights = te.compute("nll_loss", &shape, |te, i| counted(te, i, &|te, target| weight(te, target)));
    let total = sum_of_all(te, all_weights);
    Ok(vec![te.compute("T_divide", &[], |te, i| {
        let (sum, total) = (te.at(sum, i), te.at(total, i));
        te.binary(BinOp::Div, sum, total)
    })])
}

fn nll_backward(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (grad, targets, weights) = (cx.input("output_grad")?, cx.input("targets")?, cx.opt_input("weights")?);
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let (ignored, reduction) = (cx.int("ignore_index"), cx.text("reduction"));
    let class = shape.len().min(2) - 1;
    let of_targets = cx.shape_of(targets);
    let te = &mut cx.te;
    let all_weights = te.compute("all_weights", &of_targets, |te, i| {
        let target = te.at(targets, i);
        let (zero, one) = (te.float(0.0, dtype), te.float(1.0, dtype));
        let dtype_of_targets = te.dtype(target);
        let ignored = te.int(ignored, dtype_of_targets);
        let counts = te.compare(CmpOp::Ne, target, ignored);
        let weight = weights.map_or(one, |weights| te.at(weights, &[target]));
        te.if_then_else(counts, weight, zero)
    });
    let total = (reduction == "mean").then(|| sum_of_all(te, all_weights));
    Ok(vec![te.compute("pred_grad", &shape, |te, i| {
        let mut at = i.to_vec();
        let index = at.remove(class);
        let (target, weight) = (te.at(targets, &at), te.at(all_weights, &at));
        let mut grad = if reduction == "none" { te.at(grad, &at) } else { te.broadcast_at(grad, &[]) };
        if let Some(total) = total {
            let total = te.at(total, &[]);
            grad = te.binary(BinOp::Div, grad, total);
        }
        let target = te.cast(INDEX, target);
        let is_target = te.compare(CmpOp::Eq, index, target);
        let (minus_one, zero) = (te.float(-1.0, dtype), te.float(0.0, dtype));
        let negative = te.mul(weight, minus_one);
        let value = te.mul(negative, grad);
        te.select(is_target, value, zero)
    })])
}

/// The sum of all elements, without dimensions.
fn sum_of_all(te: &mut Te, x: Tensor) -> Tensor {
    let shape = te.shape(x).to_vec();
    if shape.is_empty() {
        return x;
    }
    let name = format!("{}_red", te.buffer_name(x));
    te.reduce(&name, &[], &shape, Reducer::Sum, |te, _, k| te.at(x, k))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn gradients_have_the_shape_of_their_operand() {
        let params =
            r#"g: R.Tensor(("n", 4, 3), "float32"), x: R.Tensor(("n", 7, 3), "float32"), i: R.Tensor((4,), "int64")"#;
        assert_eq!(type_of(params, "R.grad.take_backward(g, x, i, axis=1)"), "float32 [n, 7, 3]");
        assert_eq!(type_of(params, "R.grad.no_grad(x)"), "float32 [n, 7, 3]");
        refused(params, "R.grad.take_backward(g, x, i, axis=0)", &["`R.grad.take_backward`", "[n, 4, 3]", "[n, 7, 3]"]);
        let params = r#"g: R.Tensor((), "float32"), x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n",), "int64"), w: R.Tensor((5,), "float32")"#;
        assert_eq!(type_of(params, "R.grad.nll_loss_backward(g, x, y)"), "float32 [n, 4]");
        refused(params, "R.grad.nll_loss_backward(g, x, y, w)", &["`weights` [5] is 5", "`predictions` [n, 4]"]);
        refused(params, r#"R.grad.nll_loss_backward(g, x, y, reduction="max")"#, &["mean, sum or none", "`max`"]);
    }

    #[test]
    fn gradients_of_elements_that_are_taken_twice_are_added() {
        let (grad, x) = (count(&[2, 3]), count(&[2, 4]));
        let call = r#"R.grad.take_backward(g, x, R.astype(i, "int64"), axis=1)"#;
        let inputs: [super::super::testing::Input<'_>; 3] =
            [("g", &[2, 3], &grad), ("x", &[2, 4], &x), ("i", &[3], &[2.0, 0.0, 2.0])];
        let mut expected = vec![0.0; 8];
        for r in 0..2 {
            for (k, at) in [2, 0, 2].into_iter().enumerate() {
                expected[4 * r + at] += grad[3 * r + k];
            }
        }
        check(&inputs, call, &expected);
    }

    #[test]
    fn losses_of_ignored_targets_have_no_gradient() {
        let inputs: [super::super::testing::Input<'_>; 4] =
            [("g", &[], &[6.0]), ("x", &[3, 2], &[0.0; 6]), ("y", &[3], &[1.0, 0.0, 1.0]), ("w", &[2], &[0.5, 2.0])];
        let call = r#"R.grad.nll_loss_backward(g, x, R.astype(y, "int64"), w, ignore_index=0)"#;
        check(&inputs, call, &[0.0, -3.0, 0.0, 0.0, 0.0, -3.0]);
        let call = r#"R.grad.nll_loss_backward(g, x, R.astype(y, "int64"), w, reduction="sum")"#;
        check(&inputs, call, &[0.0, -12.0, -3.0, 0.0, 0.0, -12.0]);
    }

    #[test]
    fn losses_are_means_sums_or_single_values() {
        let params =
            r#"x: R.Tensor(("n", 4, 5), "float32"), y: R.Tensor(("n", 5), "int64"), z: R.Tensor(("n", 4), "float32")"#;
        assert_eq!(type_of(params, "R.nn.nll_loss(x, y)"), "float32 []");
        assert_eq!(type_of(params, r#"R.nn.nll_loss(x, y, reduction="none")"#), "float32 [n, 5]");
        refused(params, "R.nn.cross_entropy_with_logits(x, z)", &["`labels` must have 3 dimensions", "[n, 4]"]);
        let inputs: [super::super::testing::Input<'_>; 2] =
            [("x", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), ("y", &[3], &[1.0, 0.0, 1.0])];
        let call = |attributes: &str| format!(r#"R.nn.nll_loss(x, R.astype(y, "int64"){attributes})"#);
        check(&inputs, &call(r#", reduction="none""#), &[-2.0, -3.0, -6.0]);
        check(&inputs, &call(r#", reduction="sum", ignore_index=0"#), &[-8.0]);
        check(&inputs, &call(", ignore_index=0"), &[-4.0]);
        let inputs: [super::super::testing::Input<'_>; 2] =
            [("x", &[2, 2], &[1.0, 2.0, 3.0, 4.0]), ("y", &[2, 2], &[0.5, 0.25, 1.0, 2.0])];
        check(&inputs, "R.nn.cross_entropy_with_logits(x, y)", &[-6.0]);
    }
}
