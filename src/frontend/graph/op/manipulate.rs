//! Operators that rearrange elements.

use super::*;
use crate::ir::AttrValue;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "broadcast_to",
        params: &[required("x", Kind::Tensor), required("shape", Kind::Shape)],
        infer: |cx| {
            let (x, shape) = (cx.tensor("x")?, cx.shape("shape")?);
            let common = cx.broadcast(&x.shape, &shape)?;
            let is_same = common.len() == shape.len() && (0..shape.len()).all(|d| !cx.differ(common[d], shape[d]));
            match is_same {
                true => Ok(Type::tensor(x.dtype, shape)),
                false => {
                    let (from, to) = (cx.extents(&x.shape), cx.extents(&shape));
                    cx.fail(format!("the shape {from} cannot be broadcast to {to}"))
                }
            }
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.operand("x")?;
            let shape = cx.out_shape(0)?;
            Ok(vec![cx.te.compute("T_broadcast_to", &shape, |te, i| te.element(x, i))])
        }),
        doc: "The tensor repeated to a shape.",
    },
    Operator {
        name: "concat",
        params: &[required("tensors", Kind::Tensors), optional("axis", Kind::OptInt, Default::Int(0))],
        infer: |cx| {
            let mut all = cx.tensors("tensors")?;
            if cx.opt_int("axis").is_none() {
                for tensor in &mut all {
                    tensor.shape = vec![cx.product(&tensor.shape)];
                }
            }
            let Some((first, rest)) = all.split_first() else { return cx.fail("has no tensors") };
            let axis = cx.axis(cx.int("axis"), first.rank())?;
            let mut extent = first.shape[axis];
            for other in rest {
                expect_same_type(cx, ("tensors[0]", first.dtype), ("tensors", other.dtype))?;
                let fits = other.rank() == first.rank()
                    && (0..first.rank()).all(|d| d == axis || !cx.differ(first.shape[d], other.shape[d]));
                if !fits {
                    let (a, b) = (cx.extents(&first.shape), cx.extents(&other.shape));
                    return cx.fail(format!("the shapes {a} and {b} differ in other dimensions than axis {axis}"));
                }
                extent = cx.arena.add(extent, other.shape[axis]);
            }
            let mut shape = first.shape.clone();
            shape[axis] = cx.simplified(extent);
            Ok(Type::tensor(first.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let mut all = cx.inputs("tensors")?;
            let shape = cx.out_shape(0)?;
            let axis = match cx.opt_int("axis") {
                Some(axis) => cx.axis(axis, shape.len())?,
                None => {
                    for tensor in &mut all {
                        let mut n = cx.te.extent(1);
                        for e in cx.shape_of(*tensor) {
                            n = cx.te.mul(n, e);
                        }
                        *tensor = cx.te.reshaped("T_reshape", *tensor, &[n]);
                    }
                    0
                }
            };
            Ok(vec![cx.te.compute("T_concat", &shape, |te, i| {
                // From the last tensor to the first: if the index lies behind the start of the tensor, its element.
                let mut starts = vec![te.extent(0)];
                for &tensor in &all[..all.len() - 1] {
                    let extent = te.shape(tensor)[axis];
                    let start = te.add(starts[starts.len() - 1], extent);
                    starts.push(start);
                }
                let mut value = te.at(all[0], i);
                for (&tensor, &start) in all.iter().zip(&starts).skip(1) {
                    let mut at = i.to_vec();
                    at[axis] = te.sub(i[axis], start);
                    let here = te.at(tensor, &at);
                    let is_behind = te.compare(CmpOp::Le, start, i[axis]);
                    value = te.if_then_else(is_behind, here, value);
                }
                value
            })])
        }),
        doc: "Tensors one behind the other along an axis; flattened first, if the axis is `None`.",
    },
    Operator {
        name: "expand_dims",
        params: &[required("x", Kind::Tensor), required("axis", Kind::Ints)],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let new = cx.ints("axis");
            let rank = x.rank() + new.len();
            let new = cx.axes(&new, rank)?;
            let mut old = x.shape.iter();
            let one = cx.extent(1);
            let shape = (0..rank).map(|d| if new.contains(&d) { one } else { *old.next().unwrap_or(&one) }).collect();
            Ok(Type::tensor(x.dtype, shape))
        },
        lower: Lowering::Reshape,
        doc: "The tensor with new dimensions of extent 1.",
    },
    Operator {
        name: "flatten",
        params: &[required("x", Kind::Tensor)],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let n = cx.product(&x.shape);
            Ok(Type::tensor(x.dtype, vec![n]))
        },
        lower: Lowering::Reshape,
        doc: "All elements in one dimension.",
    },
    Operator {
        name: "flip",
        params: &[required("data", Kind::Tensor), required("axis", Kind::Int)],
        infer: |cx| {
            let data = cx.tensor("data")?;
            cx.axis(cx.int("axis"), data.rank())?;
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let shape = cx.out_shape(0)?;
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            Ok(vec![cx.te.compute("T_flip", &shape, |te, i| {
                let mut at = i.to_vec();
                let last = te.add_const(shape[axis], -1);
                at[axis] = te.sub(last, i[axis]);
                te.at(data, &at)
            })])
        }),
        doc: "The elements in reverse order along an axis.",
    },
    Operator {
        name: "nn.batch_flatten",
        params: &[required("data", Kind::Tensor)],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let Some((&batch, rest)) = data.shape.split_first() else { return cx.fail("`data` has no dimensions") };
            let n = cx.product(rest);
            Ok(Type::tensor(data.dtype, vec![batch, n]))
        },
        lower: Lowering::Reshape,
        doc: "All dimensions but the first in one.",
    },
    Operator {
        name: "permute_dims",
        params: &[required("x", Kind::Tensor), optional("axes", Kind::OptInts, Default::None)],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let axes = permutation(cx, x.rank())?;
            if axes.len() != x.rank() {
                let shape = cx.extents(&x.shape);
                return cx.fail(format!("`axes` names {} of the {} dimensions of {shape}", axes.len(), x.rank()));
            }
            Ok(Type::tensor(x.dtype, axes.iter().map(|&a| x.shape[a]).collect()))
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let shape = cx.out_shape(0)?;
            let axes = permutation(cx, shape.len())?;
            Ok(vec![cx.te.compute("T_transpose", &shape, |te, i| {
                let mut at = i.to_vec();
                for (d, &axis) in axes.iter().enumerate() {
                    at[axis] = i[d];
                }
                te.at(x, &at)
            })])
        }),
        doc: "The dimensions in another order; reversed without one.",
    },
    Operator {
        name: "repeat",
        params: &[
            required("data", Kind::Tensor),
            required("repeats", Kind::Int),
            optional("axis", Kind::OptInt, Default::None),
        ],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let repeats = cx.int("repeats");
            if repeats < 0 {
                return cx.fail(format!("`repeats` must not be negative, found {repeats}"));
            }
            let (mut shape, axis) = match cx.opt_int("axis") {
                Some(axis) => (data.shape.clone(), cx.axis(axis, data.rank())?),
                None => (vec![cx.product(&data.shape)], 0),
            };
            shape[axis] = cx.arena.mul_const(shape[axis], repeats);
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let (mut data, repeats) = (cx.input("data")?, cx.int("repeats"));
            let shape = cx.out_shape(0)?;
            let axis = match cx.opt_int("axis") {
                Some(axis) => cx.axis(axis, shape.len())?,
                None => {
                    let mut n = cx.te.extent(1);
                    for e in cx.shape_of(data) {
                        n = cx.te.mul(n, e);
                    }
                    data = cx.te.reshaped("T_reshape", data, &[n]);
                    0
                }
            };
            Ok(vec![cx.te.compute("T_repeat", &shape, |te, i| {
                let mut at = i.to_vec();
                let repeats = te.extent(repeats);
                at[axis] = te.floor_div(i[axis], repeats);
                te.at(data, &at)
            })])
        }),
        doc: "Each element several times along an axis; of the flattened tensor without one.",
    },
    Operator {
        name: "reshape",
        params: &[required("x", Kind::Tensor), required("shape", Kind::Shape)],
        infer: |cx| {
            let (x, shape) = (cx.tensor("x")?, cx.shape("shape")?);
            let shape = completed(cx, &x.shape, shape)?;
            let (before, after) = (cx.product(&x.shape), cx.product(&shape));
            if cx.differ(before, after) {
                let (from, to) = (cx.extents(&x.shape), cx.extents(&shape));
                return cx.fail(format!("the shape {from} has another number of elements than {to}"));
            }
            Ok(Type::tensor(x.dtype, shape))
        },
        lower: Lowering::Reshape,
        doc: "The elements in their order by another shape; -1 is what is left, 0 the extent before.",
    },
    Operator {
        name: "split",
        params: &[
            required("x", Kind::Tensor),
            required("indices_or_sections", Kind::IntOrInts),
            optional("axis", Kind::Int, Default::Int(0)),
        ],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let axis = cx.axis(cx.int("axis"), x.rank())?;
            let extent = x.shape[axis];
            let bounds = bounds(cx, extent)?;
            let parts = bounds.windows(2).map(|w| {
                let mut shape = x.shape.clone();
                let part = cx.arena.sub(w[1], w[0]);
                shape[axis] = cx.simplified(part);
                Type::tensor(x.dtype, shape)
            });
            Ok(Type::Tuple(parts.collect()))
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let axis = cx.axis(cx.int("axis"), cx.te.shape(x).len())?;
            let mut start = cx.te.extent(0);
            let mut parts = Vec::with_capacity(cx.n_results());
            for part in 0..cx.n_results() {
                let shape = cx.out_shape(part)?;
                parts.push(cx.te.compute("T_split_sections", &shape, |te, i| {
                    let mut at = i.to_vec();
                    at[axis] = te.add(i[axis], start);
                    te.at(x, &at)
                }));
                start = cx.te.add(start, shape[axis]);
            }
            Ok(parts)
        }),
        doc: "Parts of a tensor along an axis: so many equal ones, or those between indices.",
    },
    Operator {
        name: "squeeze",
        params: &[required("x", Kind::Tensor), optional("axis", Kind::OptInts, Default::None)],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let dropped = match cx.opt_ints("axis") {
                Some(axes) => cx.axes(&axes, x.rank())?,
                None => (0..x.rank()).filter(|&d| cx.arena.is_int(x.shape[d], 1)).collect(),
            };
            for &d in &dropped {
                let one = cx.extent(1);
                if cx.differ(x.shape[d], one) {
                    let shape = cx.extents(&x.shape);
                    return cx.fail(format!("dimension {d} of {shape} is not 1"));
                }
            }
            let shape = (0..x.rank()).filter(|d| !dropped.contains(d)).map(|d| x.shape[d]).collect();
            Ok(Type::tensor(x.dtype, shape))
        },
        lower: Lowering::Reshape,
        doc: "The tensor without dimensions of extent 1.",
    },
    Operator {
        name: "stack",
        params: &[required("tensors", Kind::Tensors), optional("axis", Kind::Int, Default::Int(0))],
        infer: |cx| {
            let all = cx.tensors("tensors")?;
            let Some((first, rest)) = all.split_first() else { return cx.fail("has no tensors") };
            for other in rest {
                expect_same_type(cx, ("tensors[0]", first.dtype), ("tensors", other.dtype))?;
                if other.rank() != first.rank() || (0..first.rank()).any(|d| cx.differ(first.shape[d], other.shape[d]))
                {
                    let (a, b) = (cx.extents(&first.shape), cx.extents(&other.shape));
                    return cx.fail(format!("the shapes {a} and {b} differ"));
                }
            }
            let axis = cx.axis(cx.int("axis"), first.rank() + 1)?;
            let mut shape = first.shape.clone();
            shape.insert(axis, cx.extent(all.len() as i64));
            Ok(Type::tensor(first.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let all = cx.inputs("tensors")?;
            let shape = cx.out_shape(0)?;
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            Ok(vec![cx.te.compute("T_stack", &shape, |te, i| {
                let mut at = i.to_vec();
                at.remove(axis);
                let mut value = te.at(all[0], &at);
                for (n, &tensor) in all.iter().enumerate().skip(1) {
                    let n = te.extent(n as i64);
                    let (is_it, here) = (te.compare(CmpOp::Eq, i[axis], n), te.at(tensor, &at));
                    value = te.if_then_else(is_it, here, value);
                }
                value
            })])
        }),
        doc: "Tensors side by side in a new dimension.",
    },
    Operator {
        name: "tile",
        params: &[required("data", Kind::Tensor), required("repeats", Kind::Ints)],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let repeats = cx.ints("repeats");
            if let Some(negative) = repeats.iter().find(|&&r| r < 0) {
                return cx.fail(format!("`repeats` must not be negative, found {negative}"));
            }
            let rank = data.rank().max(repeats.len());
            let one = cx.extent(1);
            let shape = (0..rank).map(|d| {
                let extent = (d + data.rank()).checked_sub(rank).map_or(one, |d| data.shape[d]);
                let times = (d + repeats.len()).checked_sub(rank).map_or(1, |d| repeats[d]);
                cx.arena.mul_const(extent, times)
            });
            Ok(Type::tensor(data.dtype, shape.collect()))
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let (from, shape) = (cx.shape_of(data), cx.out_shape(0)?);
            Ok(vec![cx.te.compute("T_tile", &shape, |te, i| {
                let first = i.len() - from.len();
                let at: Vec<ExprId> = (from.iter().zip(&i[first..]))
                    .map(
                        |(&extent, &index)| {
                            if te.is_int(extent, 1) { te.extent(0) } else { te.floor_mod(index, extent) }
                        },
                    )
                    .collect();
                te.at(data, &at)
            })])
        }),
        doc: "The whole tensor several times along each dimension.",
    },
];

/// The order of dimensions.
fn permutation(args: &crate::graph::infer::Args<'_>, rank: usize) -> Result<Vec<usize>, OpError> {
    match args.opt_ints("axes") {
        Some(axes) => args.axes(&axes, rank),
        None => Ok((0..rank).rev().collect()),
    }
}

/// A shape in which -1 and 0 have their meaning in `reshape`.
fn completed(cx: &mut Infer<'_>, from: &[ExprId], mut shape: Vec<ExprId>) -> Result<Vec<ExprId>, OpError> {
    let has_elements = !from.iter().any(|&e| cx.arena.is_int(e, 0));
    for (d, extent) in shape.iter_mut().enumerate() {
        if has_elements && cx.arena.is_int(*extent, 0) {
            *extent = match from.get(d) {
                Some(&before) => before,
                None => return cx.fail(format!("dimension {d} cannot stay: the tensor has {} dimensions", from.len())),
            };
        }
    }
    let open: Vec<usize> = (0..shape.len()).filter(|&d| cx.arena.is_int(shape[d], -1)).collect();
    match open[..] {
        [] => {}
        [d] => {
            let others: Vec<ExprId> = (0..shape.len()).filter(|&o| o != d).map(|o| shape[o]).collect();
            let (all, others) = (cx.product(from), cx.product(&others));
            if cx.arena.is_int(others, 0) {
                return cx.fail("one extent is 0, so that the one that is -1 does not follow");
            }
            if let (Some(all), Some(others)) = (cx.known_extent(all), cx.known_extent(others))
                && all % others != 0
            {
                let (from, to) = (cx.extents(from), cx.extents(&shape));
                return cx.fail(format!("the elements of {from} do not fill {to}"));
            }
            let rest = cx.arena.floor_div(all, others);
            shape[d] = cx.simplified(rest);
        }
        _ => return cx.fail("only one extent may be -1"),
    }
    Ok(shape)
}

/// The bounds of the parts of a split, from 0 to the extent.
fn bounds(cx: &mut Infer<'_>, extent: ExprId) -> Result<Vec<ExprId>, OpError> {
    let zero = cx.extent(0);
    match cx.attr("indices_or_sections").clone() {
        AttrValue::Int(n) if n > 0 => {
            let whole = cx.known_extent(extent);
            // The last part may be smaller.
            let part = match whole {
                Some(whole) => cx.extent((whole + n - 1) / n),
                None => {
                    let n = cx.extent(n);
                    cx.arena.floor_div(extent, n)
                }
            };
            let mut bounds = vec![zero];
            for i in 1..n {
                let at = cx.arena.mul_const(part, i);
                bounds.push(match whole {
                    Some(_) => cx.arena.min(at, extent),
                    None => at,
                });
            }
            bounds.push(extent);
            Ok(bounds)
        }
        AttrValue::List(items) => {
            let mut bounds = vec![zero];
            for item in items {
                let Some(at) = item.as_int() else { return cx.fail("its indices must be constants") };
                let at = match cx.known_extent(extent) {
                    Some(whole) => (if at < 0 { at + whole } else { at }).clamp(0, whole),
                    None => at,
                };
                bounds.push(cx.extent(at));
            }
            bounds.push(extent);
            let constant: Option<Vec<i64>> = bounds.iter().map(|&b| cx.known_extent(b)).collect();
            if let Some(all) = constant
                && !all.is_sorted()
            {
                return cx.fail(format!("its indices must ascend, found {:?}", &all[1..all.len() - 1]));
            }
            Ok(bounds)
        }
        _ => cx.fail("`indices_or_sections` must be a positive integer, or indices"),
    }
}
