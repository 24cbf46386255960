//! Reductions along axes.

use super::normalize::{divided_by_extents, joined, split_axes};
use super::*;
use crate::te::Reducer;

const X_AXES: &[Param] = &[
    required("x", Kind::Tensor),
    optional("axis", Kind::OptInts, Default::None),
    optional("keepdims", Kind::Bool, Default::Bool(false)),
];
const X_AXIS: &[Param] = &[
    required("x", Kind::Tensor),
    optional("axis", Kind::OptInt, Default::None),
    optional("keepdims", Kind::Bool, Default::Bool(false)),
];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "argmax",
        params: X_AXIS,
        infer: to_index,
        lower: Lowering::Stages(|cx| position(cx, Reducer::ArgMax)),
        doc: "The index of the largest element along an axis, the first of several; of the flattened tensor without one.",
    },
    Operator {
        name: "argmin",
        params: X_AXIS,
        infer: to_index,
        lower: Lowering::Stages(|cx| position(cx, Reducer::ArgMin)),
        doc: "The index of the smallest element along an axis, the first of several; of the flattened tensor without one.",
    },
    Operator {
        name: "max",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| Ok(vec![reduced(cx, Reducer::Supremum)?])),
        doc: "The largest element along axes; of all elements without axes.",
    },
    Operator {
        name: "mean",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let axes = axes(cx, cx.te.shape(x).len())?;
            let mean = mean(&mut cx.te, x, &axes, |te, i| te.at(x, i));
            finished(cx, mean, &axes, |_, v| v)
        }),
        doc: "The mean of the elements along axes; of all elements without axes.",
    },
    Operator {
        name: "min",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| Ok(vec![reduced(cx, Reducer::Infimum)?])),
        doc: "The smallest element along axes; of all elements without axes.",
    },
    Operator {
        name: "prod",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| Ok(vec![reduced(cx, Reducer::Prod)?])),
        doc: "The product of the elements along axes; of all elements without axes.",
    },
    Operator {
        name: "std",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| {
            let (variance, axes) = variance(cx)?;
            finished(cx, variance, &axes, |te, v| te.call(Intrinsic::Sqrt, &[v]))
        }),
        doc: "The standard deviation of the elements along axes; of all elements without axes.",
    },
    Operator {
        name: "sum",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| Ok(vec![reduced(cx, Reducer::Sum)?])),
        doc: "The sum of the elements along axes; of all elements without axes.",
    },
    Operator {
        name: "variance",
        params: X_AXES,
        infer: same_type,
        lower: Lowering::Stages(|cx| {
            let (variance, axes) = variance(cx)?;
            finished(cx, variance, &axes, |_, v| v)
        }),
        doc: "The variance of the elements along axes; of all elements without axes.",
    },
    Operator {
        name: "collapse_sum_to",
        params: &[required("data", Kind::Tensor), required("shape", Kind::Shape)],
        infer: |cx| {
            let (data, shape) = (cx.tensor("data")?, cx.shape("shape")?);
            let common = cx.broadcast(&shape, &data.shape)?;
            if common.len() != data.rank() || (0..common.len()).any(|d| cx.differ(common[d], data.shape[d])) {
                let (from, to) = (cx.extents(&data.shape), cx.extents(&shape));
                return cx.fail(format!("the shape {to} does not broadcast to {from}"));
            }
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(collapse),
        doc: "The sum over the dimensions that broadcasting of a shape would repeat.",
    },
    Operator {
        name: "collapse_sum_like",
        params: &[required("data", Kind::Tensor), required("collapse_target", Kind::Tensor)],
        infer: |cx| {
            let (data, target) = (cx.tensor("data")?, cx.tensor("collapse_target")?);
            cx.broadcast(&target.shape, &data.shape)?;
            Ok(Type::tensor(data.dtype, target.shape))
        },
        lower: Lowering::Stages(collapse),
        doc: "The sum over the dimensions that broadcasting of the shape of a tensor would repeat.",
    },
];

/// The axes of a call: all without the attribute.
fn axes(args: &crate::graph::infer::Args<'_>, rank: usize) -> Result<Vec<usize>, OpError> {
    match args.opt_ints("axis") {
        Some(axes) => {
            let mut axes = args.axes(&axes, rank)?;
            axes.sort_unstable();
            Ok(axes)
        }
        None => Ok((0..rank).collect()),
    }
}

fn reduced_shape(cx: &mut Infer<'_>, x: &Known) -> Result<Vec<ExprId>, OpError> {
    let axes = axes(cx, x.rank())?;
    let one = cx.extent(1);
    let keep = cx.flag("keepdims");
    let of = |d: usize| match (axes.contains(&d), keep) {
        (false, _) => Some(x.shape[d]),
        (true, true) => Some(one),
        (true, false) => None,
    };
    Ok((0..x.rank()).filter_map(of).collect())
}

fn same_type(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let x = cx.tensor("x")?;
    let shape = reduced_shape(cx, &x)?;
    Ok(Type::tensor(x.dtype, shape))
}

fn to_index(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let x = cx.tensor("x")?;
    let shape = reduced_shape(cx, &x)?;
    Ok(Type::tensor(DType::Int64, shape))
}

/// A simple reduction.
fn reduced(cx: &mut Lower<'_>, reducer: Reducer) -> Result<Tensor, OpError> {
    let x = cx.input("x")?;
    let shape = cx.shape_of(x);
    let axes = axes(cx, shape.len())?;
    let dtype = cx.te.element_type(x);
    let (rest, domain) = split_axes(&shape, &axes);
    if domain.is_empty() {
        let out = cx.out_shape(0)?;
        return Ok(cx.te.compute("T_identity", &out, |te, i| te.at(x, i)));
    }
    let wide = if matches!(reducer, Reducer::Sum | Reducer::Prod) { accumulator(dtype) } else { dtype };
    let name = format!("{}_red", cx.te.buffer_name(x));
    let sum = cx.te.reduce(&name, &rest, &domain, reducer, |te, i, k| {
        let v = te.at(x, &joined(i, k, &axes));
        te.cast(wide, v)
    });
    Ok(finished(cx, sum, &axes, |_, v| v)?[0])
}

/// The reduced tensor in the shape and type of the result, after a function of its elements.
fn finished(
    cx: &mut Lower<'_>,
    reduced: Tensor,
    axes: &[usize],
    f: impl Fn(&mut Te, ExprId) -> ExprId,
) -> Result<Vec<Tensor>, OpError> {
    let (shape, dtype, keep) = (cx.out_shape(0)?, cx.out_dtype(0)?, cx.flag("keepdims"));
    let is_final = !keep && cx.te.element_type(reduced) == dtype && {
        let indices = cx.shape_of(reduced);
        let probe = cx.te.at(reduced, &indices);
        f(&mut cx.te, probe) == probe
    };
    if is_final {
        return Ok(vec![reduced]);
    }
    Ok(vec![cx.te.compute("T_reduced", &shape, |te, i| {
        let rest = if keep { split_axes(i, axes).0 } else { i.to_vec() };
        let v = te.at(reduced, &rest);
        let v = f(te, v);
        te.cast(dtype, v)
    })])
}

/// The mean of a function of the elements, in a type precise enough.
fn mean(te: &mut Te, x: Tensor, axes: &[usize], f: impl FnOnce(&mut Te, &[ExprId]) -> ExprId) -> Tensor {
    let shape = te.shape(x).to_vec();
    let wide = accumulator(te.element_type(x));
    let (rest, domain) = split_axes(&shape, axes);
    if domain.is_empty() {
        return te.compute("T_identity", &shape, |te, i| {
            let v = f(te, i);
            te.cast(wide, v)
        });
    }
    let name = format!("{}_red", te.buffer_name(x));
    let sum = te.reduce(&name, &rest, &domain, Reducer::Sum, |te, i, k| {
        let v = f(te, &joined(i, k, axes));
        te.cast(wide, v)
    });
    te.compute("T_divide", &rest, |te, i| {
        let sum = te.at(sum, i);
        divided_by_extents(te, sum, &domain)
    })
}

fn variance(cx: &mut Lower<'_>) -> Result<(Tensor, Vec<usize>), OpError> {
    let x = cx.input("x")?;
    let axes = axes(cx, cx.te.shape(x).len())?;
    let wide = accumulator(cx.te.element_type(x));
    let of_x = mean(&mut cx.te, x, &axes, |te, i| te.at(x, i));
    let squares = mean(&mut cx.te, x, &axes, |te, i| {
        let (v, mean) = (te.at(x, i), te.at(of_x, &split_axes(i, &axes).0));
        let v = te.cast(wide, v);
        let difference = te.sub(v, mean);
        te.mul(difference, difference)
    });
    Ok((squares, axes))
}

fn position(cx: &mut Lower<'_>, reducer: Reducer) -> Result<Vec<Tensor>, OpError> {
    let mut x = cx.input("x")?;
    let mut axes = axes(cx, cx.te.shape(x).len())?;
    let out = cx.out_shape(0)?;
    let keep = cx.flag("keepdims");
    if cx.opt_int("axis").is_none() {
        let mut n = cx.te.extent(1);
        for e in cx.shape_of(x) {
            n = cx.te.mul(n, e);
        }
        x = cx.te.reshaped("T_reshape", x, &[n]);
        axes = vec![0];
    }
    let shape = cx.shape_of(x);
    let (rest, domain) = split_axes(&shape, &axes);
    let name = format!("{}_red_temp", cx.te.buffer_name(x));
    let pair = cx.te.reduce_many(&name, &rest, &domain, reducer, |te, i, k| vec![k[0], te.at(x, &joined(i, k, &axes))]);
    let flat = cx.opt_int("axis").is_none();
    Ok(vec![cx.te.compute("T_argreduce", &out, |te, i| {
        let rest = match (flat, keep) {
            (true, _) => Vec::new(),
            (false, true) => split_axes(i, &axes).0,
            (false, false) => i.to_vec(),
        };
        te.at(pair[0], &rest)
    })])
}

fn collapse(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let data = cx.input("data")?;
    let (from, to) = (cx.shape_of(data), cx.out_shape(0)?);
    let first = from.len() - to.len();
    let is_summed = |te: &Te, d: usize| d < first || te.is_int(to[d - first], 1) && !te.is_int(from[d], 1);
    let axes: Vec<usize> = (0..from.len()).filter(|&d| is_summed(&cx.te, d)).collect();
    let (rest, domain) = split_axes(&from, &axes);
    if domain.is_empty() {
        return Ok(vec![cx.te.reshaped("T_reshape", data, &to)]);
    }
    let sum =
        cx.te.reduce("T_collapse_sum", &rest, &domain, Reducer::Sum, |te, i, k| te.at(data, &joined(i, k, &axes)));
    match rest.len() == to.len() {
        true => Ok(vec![sum]),
        false => Ok(vec![cx.te.reshaped("T_reshape", sum, &to)]),
    }
}
