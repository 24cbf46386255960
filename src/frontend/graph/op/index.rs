//! Elements by indices: slices, gathering, scattering.
//!
//! Indices are those of existing elements; `gather_elements`, `gather_nd` and the scattering operators also count from the end where
//! an index is negative. Compiled code checks every index that is data.

use super::*;
use crate::graph::infer::Args;
use crate::ir::Arena;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "take",
        params: &[
            required("x", Kind::Tensor),
            required("indices", Kind::Tensor),
            optional("axis", Kind::OptInt, Default::None),
            optional("mode", Kind::Str, Default::Str("fast")),
        ],
        infer: |cx| {
            let (x, indices) = (cx.tensor("x")?, cx.tensor("indices")?);
            expect_integers(cx, "indices", indices.dtype)?;
            let shape = match cx.opt_int("axis") {
                Some(axis) => {
                    let axis = cx.axis(axis, x.rank())?;
                    let mut shape = x.shape[..axis].to_vec();
                    shape.extend(&indices.shape);
                    shape.extend(&x.shape[axis + 1..]);
                    shape
                }
                None => indices.shape,
            };
            match cx.text("mode") {
                "fast" | "wrap" | "clip" => Ok(Type::tensor(x.dtype, shape)),
                "nan" => {
                    expect_float(cx, "x", x.dtype)?;
                    Ok(Type::tensor(x.dtype, shape))
                }
                mode => {
                    cx.fail(format!("the mode `{mode}` is not supported: expected `fast`, `wrap`, `clip` or `nan`"))
                }
            }
        },
        lower: Lowering::Stages(|cx| {
            let (mut x, indices) = (cx.input("x")?, cx.operand("indices")?);
            let mode = cx.text("mode");
            let rank = match indices {
                crate::graph::lower::Operand::Tensor(t) => cx.te.shape(t).len(),
                crate::graph::lower::Operand::Scalar(_) => 0,
            };
            let axis = match cx.opt_int("axis") {
                Some(axis) => cx.axis(axis, cx.te.shape(x).len())?,
                None => {
                    let mut n = cx.te.extent(1);
                    for e in cx.shape_of(x) {
                        n = cx.te.mul(n, e);
                    }
                    x = cx.te.reshaped("T_reshape", x, &[n]);
                    0
                }
            };
            let (from, shape) = (cx.shape_of(x), cx.out_shape(0)?);
            Ok(vec![cx.te.compute("T_take", &shape, |te, i| {
                let index = te.element(indices, &i[axis..axis + rank]);
                let index = te.cast(DType::Int64, index);
                let index = match mode {
                    "wrap" => te.floor_mod(index, from[axis]),
                    "clip" => {
                        let (zero, last) = (te.extent(0), te.add_const(from[axis], -1));
                        let index = te.min(index, last);
                        te.max(index, zero)
                    }
                    _ => index,
                };
                let mut at = i[..axis].to_vec();
                at.push(index);
                at.extend(&i[axis + rank..]);
                let value = te.at(x, &at);
                if mode != "nan" {
                    return value;
                }
                let (zero, dtype) = (te.extent(0), te.dtype(value));
                let (is_behind, is_before) = (te.compare(CmpOp::Le, zero, index), te.lt(index, from[axis]));
                let (inside, nan) = (te.and(is_behind, is_before), te.float(f64::NAN, dtype));
                te.if_then_else(inside, value, nan)
            })])
        }),
        doc: "The elements at indices along an axis; of the flattened tensor without one.",
    },
    Operator {
        name: "strided_slice",
        params: &[
            required("x", Kind::Tensor),
            required("axes", Kind::Prims),
            required("begin", Kind::Prims),
            required("end", Kind::Prims),
            optional("strides", Kind::Prims, Default::Absent),
            optional("assume_inbound", Kind::Bool, Default::Bool(false)),
        ],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let mut shape = x.shape.clone();
            for Slice { axis, begin, end, stride } in slices(cx, &x.shape)? {
                let room = match stride > 0 {
                    true => cx.arena.sub(end, begin),
                    false => cx.arena.sub(begin, end),
                };
                let step = stride.abs();
                let room = cx.arena.add_const(room, step - 1);
                let step = cx.extent(step);
                let n = cx.arena.floor_div(room, step);
                let n = cx.simplified(n);
                shape[axis] = match cx.known_extent(n) {
                    Some(n) => cx.extent(n.max(0)),
                    None => n,
                };
            }
            Ok(Type::tensor(x.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let shape = cx.out_shape(0)?;
            let from = match cx.value("x").map(|v| cx.function.ty(v).clone()) {
                Some(Type::Tensor(t)) => t.shape.unwrap_or_default(),
                _ => Vec::new(),
            };
            // The bounds are computed in a copy of the function's extents.
            let mut arena = cx.function.arena.clone();
            let mut rule = crate::graph::infer::rule(cx.op, cx.args, cx.function, &mut arena);
            let slices = slices(&mut rule, &from)?;
            let begins: Vec<(usize, ExprId, i64)> =
                slices.into_iter().map(|s| (s.axis, cx.number_of(&arena, s.begin), s.stride)).collect();
            Ok(vec![cx.te.compute("T_strided_slice", &shape, |te, i| {
                let mut at = i.to_vec();
                for &(axis, begin, stride) in &begins {
                    let offset = te.mul_const(i[axis], stride);
                    at[axis] = te.add(offset, begin);
                }
                te.at(x, &at)
            })])
        }),
        doc: "The elements from begin to end along axes, at distances.",
    },
    Operator {
        name: "dynamic_strided_slice",
        params: &[
            required("x", Kind::Tensor),
            required("begin", Kind::Constant),
            required("end", Kind::Constant),
            required("strides", Kind::Constant),
        ],
        infer: |cx| {
            let x = cx.tensor("x")?;
            let slices = known_slices(cx, cx.arena, x.rank())?;
            let mut shape = Vec::with_capacity(x.rank());
            for ([begin, end, stride], &extent) in slices.into_iter().zip(&x.shape) {
                let Some(n) = cx.known_extent(extent) else { return cx.fail("needs constant extents here") };
                let (first, last) = bounds(begin, end, stride, n);
                let (step, room) = (stride.abs(), if stride > 0 { last - first } else { first - last });
                shape.push(cx.extent((room.saturating_add(step - 1) / step).max(0)));
            }
            Ok(Type::tensor(x.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let (from, shape) = (cx.constant_shape(x)?, cx.out_shape(0)?);
            let slices = known_slices(cx, &cx.function.arena, from.len())?;
            Ok(vec![cx.te.compute("T_strided_slice", &shape, |te, i| {
                let mut at = i.to_vec();
                for (d, &[begin, end, stride]) in slices.iter().enumerate() {
                    let (first, _) = bounds(begin, end, stride, from[d]);
                    let offset = te.mul_const(i[d], stride);
                    at[d] = te.add_const(offset, first);
                }
                te.at(x, &at)
            })])
        }),
        doc: "The elements from begin to end along all axes, at distances, where all of them follow from constants.",
    },
    Operator {
        name: "gather_elements",
        params: &[
            required("data", Kind::Tensor),
            required("indices", Kind::Tensor),
            optional("axis", Kind::Int, Default::Int(0)),
        ],
        infer: |cx| {
            let (data, indices) = (cx.tensor("data")?, cx.tensor("indices")?);
            expect_integers(cx, "indices", indices.dtype)?;
            cx.expect_rank("indices", &indices, data.rank())?;
            cx.axis(cx.int("axis"), data.rank())?;
            Ok(Type::tensor(data.dtype, indices.shape))
        },
        lower: Lowering::Stages(|cx| {
            let (data, indices) = (cx.input("data")?, cx.input("indices")?);
            let (from, shape) = (cx.shape_of(data), cx.out_shape(0)?);
            let axis = cx.axis(cx.int("axis"), from.len())?;
            Ok(vec![cx.te.compute("T_gather", &shape, |te, i| {
                let index = te.at(indices, i);
                let mut at = i.to_vec();
                at[axis] = from_either_end(te, index, from[axis]);
                te.at(data, &at)
            })])
        }),
        doc: "For each element, the element of the data whose index along an axis is given.",
    },
    Operator {
        name: "gather_nd",
        params: &[
            required("data", Kind::Tensor),
            required("indices", Kind::Tensor),
            optional("batch_dims", Kind::Int, Default::Int(0)),
        ],
        infer: |cx| {
            let (data, indices) = (cx.tensor("data")?, cx.tensor("indices")?);
            expect_integers(cx, "indices", indices.dtype)?;
            let batch = usize::try_from(cx.int("batch_dims")).unwrap_or(usize::MAX);
            let depth = indices.shape.last().and_then(|&e| cx.known_extent(e)).and_then(|n| usize::try_from(n).ok());
            match depth {
                Some(depth) if batch < indices.rank() && batch.saturating_add(depth) <= data.rank() => {
                    let mut shape = indices.shape[..indices.rank() - 1].to_vec();
                    shape.extend(&data.shape[batch + depth..]);
                    Ok(Type::tensor(data.dtype, shape))
                }
                _ => {
                    let (a, b) = (cx.extents(&data.shape), cx.extents(&indices.shape));
                    cx.fail(format!("the last extent of `indices` {b} must be the number of indices into `data` {a}"))
                }
            }
        },
        lower: Lowering::Stages(|cx| {
            let (data, indices) = (cx.input("data")?, cx.input("indices")?);
            let (from, of_indices, shape) = (cx.shape_of(data), cx.constant_last(indices)?, cx.out_shape(0)?);
            let batch = usize::try_from(cx.int("batch_dims")).unwrap_or(0);
            let outer = cx.te.shape(indices).len() - 1;
            Ok(vec![cx.te.compute("T_gather_nd", &shape, |te, i| {
                let mut at = i[..batch].to_vec();
                for d in 0..of_indices {
                    let mut which = i[..outer].to_vec();
                    which.push(te.extent(d));
                    let index = te.at(indices, &which);
                    let extent = from[at.len()];
                    at.push(from_either_end(te, index, extent));
                }
                at.extend(&i[outer..]);
                te.at(data, &at)
            })])
        }),
        doc: "For each list of indices, the part of the data that they name.",
    },
    Operator {
        name: "index_tensor",
        params: &[required("data", Kind::Tensor), required("indices", Kind::Tensors)],
        infer: |cx| {
            let (data, indices) = (cx.tensor("data")?, cx.tensors("indices")?);
            let Some((first, rest)) = indices.split_first() else { return cx.fail("has no indices") };
            let mut shape = first.shape.clone();
            for index in rest {
                shape = cx.broadcast(&shape, &index.shape)?;
            }
            for index in &indices {
                expect_integers(cx, "indices", index.dtype)?;
            }
            if indices.len() > data.rank() {
                let found = cx.extents(&data.shape);
                return cx.fail(format!("{} indices are too many for the shape {found}", indices.len()));
            }
            shape.extend(&data.shape[indices.len()..]);
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let (data, indices) = (cx.input("data")?, cx.inputs("indices")?);
            let (from, shape) = (cx.shape_of(data), cx.out_shape(0)?);
            let outer = shape.len() - (from.len() - indices.len());
            Ok(vec![cx.te.compute("T_index", &shape, |te, i| {
                let mut at = Vec::with_capacity(from.len());
                for (d, &index) in indices.iter().enumerate() {
                    let index = te.broadcast_at(index, &i[..outer]);
                    at.push(from_either_end(te, index, from[d]));
                }
                at.extend(&i[outer..]);
                te.at(data, &at)
            })])
        }),
        doc: "The elements at indices into the first dimensions, one tensor of indices for each.",
    },
    Operator {
        name: "index_put",
        params: &[
            required("data", Kind::Tensor),
            required("indices", Kind::Tensors),
            required("values", Kind::Tensor),
            optional("accumulate", Kind::Bool, Default::Bool(false)),
        ],
        infer: |cx| {
            let (data, indices, values) = (cx.tensor("data")?, cx.tensors("indices")?, cx.tensor("values")?);
            expect_same_type(cx, ("data", data.dtype), ("values", values.dtype))?;
            if indices.is_empty() || indices.len() > data.rank() {
                let found = cx.extents(&data.shape);
                return cx.fail(format!("{} indices do not fit the shape {found}", indices.len()));
            }
            let mut domain = Vec::new();
            for index in &indices {
                expect_integers(cx, "indices", index.dtype)?;
                domain = cx.broadcast(&domain, &index.shape)?;
            }
            domain.extend(&data.shape[indices.len()..]);
            if !is_broadcast(cx.arena, &values.shape, &domain) {
                let (n, m) = (cx.product(&domain), cx.product(&values.shape));
                if !cx.are_equal(n, m) {
                    let (a, b) = (cx.extents(&values.shape), cx.extents(&domain));
                    return cx.fail(format!("`values` {a} do not fill the shape {b} of what the indices name"));
                }
            }
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, indices, values) = (cx.input("data")?, cx.inputs("indices")?, cx.input("values")?);
            let from = cx.shape_of(data);
            let accumulate = cx.flag("accumulate");
            let mut outer: Vec<ExprId> = Vec::new();
            for &index in &indices {
                let shape = cx.shape_of(index);
                let rank = outer.len().max(shape.len());
                let at = |s: &[ExprId], d: usize| (d + s.len()).checked_sub(rank).map(|d| s[d]);
                outer = (0..rank)
                    .filter_map(|d| match (at(&outer, d), at(&shape, d)) {
                        (Some(a), Some(b)) => Some(if cx.te.is_int(a, 1) { b } else { a }),
                        (a, b) => a.or(b),
                    })
                    .collect();
            }
            let n_outer = outer.len();
            let mut domain = outer;
            domain.extend(&from[indices.len()..]);
            let of_values = cx.shape_of(values);
            let broadcasts = is_broadcast(&cx.te, &of_values, &domain);
            Ok(vec![cx.te.update("T_index_put", data, &domain, |te, out, k| {
                let mut at = Vec::with_capacity(from.len());
                for (d, &index) in indices.iter().enumerate() {
                    let index = te.broadcast_at(index, &k[..n_outer]);
                    at.push(from_either_end(te, index, from[d]));
                }
                at.extend(&k[n_outer..]);
                let new = match broadcasts {
                    true => te.broadcast_at(values, k),
                    // So many values in another shape, in their order.
                    false => {
                        let from = te.reshaped_indices(&domain, k, &of_values);
                        te.at(values, &from)
                    }
                };
                let value = match accumulate {
                    true => {
                        let old = te.at(out, &at);
                        te.add(old, new)
                    }
                    false => new,
                };
                (at, value)
            })])
        }),
        doc: "The data in which elements at indices are replaced, or increased.",
    },
    Operator {
        name: "scatter_elements",
        params: &[
            required("data", Kind::Tensor),
            required("indices", Kind::Tensor),
            required("updates", Kind::Tensor),
            optional("axis", Kind::Int, Default::Int(0)),
            optional("reduction", Kind::Str, Default::Str("update")),
        ],
        infer: |cx| {
            let (data, indices, updates) = (cx.tensor("data")?, cx.tensor("indices")?, cx.tensor("updates")?);
            expect_integers(cx, "indices", indices.dtype)?;
            cx.expect_rank("indices", &indices, data.rank())?;
            cx.expect_rank("updates", &updates, data.rank())?;
            cx.axis(cx.int("axis"), data.rank())?;
            for d in 0..data.rank() {
                cx.expect_equal(("indices", &indices, d), ("updates", &updates, d))?;
            }
            known_reduction(cx)?;
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, indices, updates) = (cx.input("data")?, cx.input("indices")?, cx.input("updates")?);
            let (from, domain) = (cx.shape_of(data), cx.shape_of(indices));
            let axis = cx.axis(cx.int("axis"), from.len())?;
            let reduction = cx.text("reduction");
            scattered(cx, "T_scatter_elements", data, &domain, reduction, |te, k| {
                let index = te.at(indices, k);
                let mut at = k.to_vec();
                at[axis] = from_either_end(te, index, from[axis]);
                (at, te.at(updates, k))
            })
        }),
        doc: "The data in which for each update the element whose index along an axis is given is replaced, or combined with it.",
    },
    Operator {
        name: "scatter_nd",
        params: &[
            required("data", Kind::Tensor),
            required("indices", Kind::Tensor),
            required("updates", Kind::Tensor),
            optional("reduction", Kind::Str, Default::Str("update")),
        ],
        infer: |cx| {
            let (data, indices, updates) = (cx.tensor("data")?, cx.tensor("indices")?, cx.tensor("updates")?);
            expect_integers(cx, "indices", indices.dtype)?;
            expect_same_type(cx, ("data", data.dtype), ("updates", updates.dtype))?;
            let depth = indices.shape.last().and_then(|&e| cx.known_extent(e)).unwrap_or(-1);
            match usize::try_from(depth) {
                Ok(depth) if depth <= data.rank() => {
                    let rank = indices.rank() - 1 + data.rank() - depth;
                    cx.expect_rank("updates", &updates, rank)?;
                    known_reduction(cx)?;
                    Ok(data.into())
                }
                _ => {
                    let (a, b) = (cx.extents(&data.shape), cx.extents(&indices.shape));
                    cx.fail(format!("the last extent of `indices` {b} must be the number of indices into `data` {a}"))
                }
            }
        },
        lower: Lowering::Stages(|cx| {
            let (data, indices, updates) = (cx.input("data")?, cx.input("indices")?, cx.input("updates")?);
            let (from, domain, depth) = (cx.shape_of(data), cx.shape_of(updates), cx.constant_last(indices)?);
            let outer = cx.te.shape(indices).len() - 1;
            let reduction = cx.text("reduction");
            scattered(cx, "T_scatter_nd", data, &domain, reduction, |te, k| {
                let mut at = Vec::with_capacity(from.len());
                for d in 0..depth {
                    let mut which = k[..outer].to_vec();
                    which.push(te.extent(d));
                    let index = te.at(indices, &which);
                    at.push(from_either_end(te, index, from[d as usize]));
                }
                at.extend(&k[outer..]);
                (at, te.at(updates, k))
            })
        }),
        doc: "The data in which for each list of indices the part that they name is replaced, or combined with an update.",
    },
    Operator {
        name: "slice_scatter",
        params: &[
            required("input_tensor", Kind::Tensor),
            required("src", Kind::Tensor),
            required("start", Kind::Prim),
            required("end", Kind::Prim),
            required("step", Kind::Prim),
            optional("axis", Kind::Int, Default::Int(0)),
        ],
        infer: |cx| {
            let (data, src) = (cx.tensor("input_tensor")?, cx.tensor("src")?);
            expect_same_type(cx, ("input_tensor", data.dtype), ("src", src.dtype))?;
            cx.expect_rank("src", &src, data.rank())?;
            let axis = cx.axis(cx.int("axis"), data.rank())?;
            for d in (0..data.rank()).filter(|&d| d != axis) {
                cx.expect_equal(("input_tensor", &data, d), ("src", &src, d))?;
            }
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, src) = (cx.input("input_tensor")?, cx.input("src")?);
            let shape = cx.out_shape(0)?;
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            let part = cx.te.shape(src)[axis];
            let (Some(start), Some(step)) = (cx.prim("start"), cx.prim("step")) else {
                return cx.fail("needs a start and a step");
            };
            Ok(vec![cx.te.compute("T_slice_scatter", &shape, |te, i| {
                let offset = te.sub(i[axis], start);
                let (index, rest) = (te.floor_div(offset, step), te.floor_mod(offset, step));
                let zero = te.extent(0);
                let is_step = te.compare(CmpOp::Eq, rest, zero);
                let (is_behind, is_before) = (te.compare(CmpOp::Le, zero, index), te.lt(index, part));
                let inside = te.and(is_behind, is_before);
                let is_hit = te.and(inside, is_step);
                let mut at = i.to_vec();
                at[axis] = index;
                let (new, old) = (te.at(src, &at), te.at(data, i));
                te.if_then_else(is_hit, new, old)
            })])
        }),
        doc: "The data in which the elements of a slice along an axis are replaced.",
    },
    Operator {
        name: "reverse_sequence",
        params: &[
            required("data", Kind::Tensor),
            required("seq_lengths", Kind::Tensor),
            optional("seq_axis", Kind::Int, Default::Int(1)),
            optional("batch_axis", Kind::Int, Default::Int(0)),
        ],
        infer: |cx| {
            let (data, lengths) = (cx.tensor("data")?, cx.tensor("seq_lengths")?);
            expect_integers(cx, "seq_lengths", lengths.dtype)?;
            cx.expect_rank("seq_lengths", &lengths, 1)?;
            cx.axis(cx.int("seq_axis"), data.rank())?;
            let batch = cx.axis(cx.int("batch_axis"), data.rank())?;
            cx.expect_equal(("data", &data, batch), ("seq_lengths", &lengths, 0))?;
            Ok(data.into())
        },
        lower: Lowering::Stages(|cx| {
            let (data, lengths) = (cx.input("data")?, cx.input("seq_lengths")?);
            let shape = cx.out_shape(0)?;
            let (seq, batch) = (cx.axis(cx.int("seq_axis"), shape.len())?, cx.axis(cx.int("batch_axis"), shape.len())?);
            Ok(vec![cx.te.compute("T_reverse_sequence", &shape, |te, i| {
                let length = te.at(lengths, &[i[batch]]);
                let length = te.cast(DType::Int64, length);
                // A length beyond the axis means all of it.
                let length = te.min(length, shape[seq]);
                let is_inside = te.lt(i[seq], length);
                let last = te.add_const(length, -1);
                let mirrored = te.sub(last, i[seq]);
                let mut at = i.to_vec();
                at[seq] = te.select(is_inside, mirrored, i[seq]);
                te.at(data, &at)
            })])
        }),
        doc: "The first elements along an axis in reverse order, as many as a length for each item of the batch says.",
    },
];

pub(super) fn expect_integers(cx: &Infer<'_>, name: &str, dtype: DType) -> Result<(), OpError> {
    match dtype.is_integer() {
        true => Ok(()),
        false => cx.fail(format!("`{name}` must have integers, found {dtype}")),
    }
}

/// An index that counts from the end where it is negative.
fn from_either_end(te: &mut Te, index: ExprId, extent: ExprId) -> ExprId {
    let index = te.cast(DType::Int64, index);
    if te.as_int(index).is_some_and(|i| i >= 0) {
        return index;
    }
    let zero = te.extent(0);
    let (is_negative, from_end) = (te.lt(index, zero), te.add(index, extent));
    te.select(is_negative, from_end, index)
}

/// A slice along an axis: the first index, and the one after the last in the direction of the stride.
struct Slice {
    axis: usize,
    begin: ExprId,
    end: ExprId,
    stride: i64,
}

/// The first index and the one behind the last of a slice of `n` elements.
fn bounds(begin: i64, end: i64, stride: i64, n: i64) -> (i64, i64) {
    let from_end = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
    match stride > 0 {
        true => (from_end(begin).clamp(0, n), from_end(end).clamp(0, n)),
        false => (from_end(begin).clamp(-1, n - 1), from_end(end).clamp(-1, n - 1)),
    }
}

/// Begin, end and stride of a slice along each axis.
fn known_slices(args: &Args<'_>, arena: &Arena, rank: usize) -> Result<Vec<[i64; 3]>, OpError> {
    let mut slices = vec![[0; 3]; rank];
    for (i, name) in ["begin", "end", "strides"].into_iter().enumerate() {
        let numbers = args.elements(name, arena)?;
        if numbers.shape() != [rank as i64] || !numbers.dtype().is_integer() {
            let (dtype, shape) = (numbers.dtype(), numbers.shape());
            return args.fail(format!("`{name}` must have {rank} integers, found {dtype} {shape:?}"));
        }
        slices.iter_mut().enumerate().for_each(|(d, slice)| slice[i] = numbers.int(d).unwrap_or(0));
    }
    match slices.iter().any(|&[_, _, stride]| stride == 0 || stride == i64::MIN) {
        true => args.fail("`strides` must not be 0"),
        false => Ok(slices),
    }
}

/// The slices of a call.
fn slices(cx: &mut Infer<'_>, shape: &[ExprId]) -> Result<Vec<Slice>, OpError> {
    let numbers = |cx: &Infer<'_>, name: &str| match cx.get(name) {
        crate::graph::Arg::Prims(all) => all.clone(),
        _ => Vec::new(),
    };
    let (axes, begins, ends, strides) =
        (numbers(cx, "axes"), numbers(cx, "begin"), numbers(cx, "end"), numbers(cx, "strides"));
    if begins.len() != axes.len() || ends.len() != axes.len() || !strides.is_empty() && strides.len() != axes.len() {
        return cx.fail("`axes`, `begin`, `end` and `strides` must be equally many");
    }
    let mut found = Vec::with_capacity(axes.len());
    for (d, &axis) in axes.iter().enumerate() {
        let Some(axis) = cx.arena.as_int(axis) else { return cx.fail("`axes` must be constants") };
        let axis = cx.axis(axis, shape.len())?;
        let stride = match strides.get(d) {
            Some(&stride) => cx.arena.as_int(stride),
            None => Some(1),
        };
        let Some(stride) = stride.filter(|&s| s != 0) else {
            return cx.fail("`strides` must be constants that are not 0");
        };
        let extent = shape[axis];
        let known = (cx.arena.as_int(begins[d]), cx.arena.as_int(ends[d]), cx.known_extent(extent));
        let (begin, end) = match known {
            (Some(begin), Some(end), Some(n)) => {
                let (begin, end) = bounds(begin, end, stride, n);
                (cx.extent(begin), cx.extent(end))
            }
            // With symbols, bounds are taken as they are; those beyond every extent mean all.
            (begin, end, _) => {
                let mut of = |constant: Option<i64>, e: ExprId| match constant {
                    Some(v) if v < 0 => cx.arena.add_const(extent, v),
                    Some(v) if v >= i64::from(i32::MAX) => extent,
                    Some(v) => cx.arena.int(v, DType::Int64),
                    None => cx.arena.cast(DType::Int64, e),
                };
                (of(begin, begins[d]), of(end, ends[d]))
            }
        };
        found.push(Slice { axis, begin, end, stride });
    }
    Ok(found)
}

/// Whether a shape broadcasts to another one as it stands.
fn is_broadcast(arena: &crate::ir::Arena, from: &[ExprId], to: &[ExprId]) -> bool {
    let fits = |(&a, &b): (&ExprId, &ExprId)| {
        a == b || arena.is_int(a, 1) || matches!((arena.as_int(a), arena.as_int(b)), (Some(a), Some(b)) if a == b)
    };
    from.len() <= to.len() && from.iter().zip(&to[to.len() - from.len()..]).all(fits)
}

fn known_reduction(cx: &Infer<'_>) -> Result<(), OpError> {
    match cx.text("reduction") {
        "update" | "none" | "add" | "mul" | "min" | "max" => Ok(()),
        "mean" if cx.op.name == "scatter_elements" => Ok(()),
        other => cx.fail(format!("the reduction `{other}` is not supported")),
    }
}

/// The data with updates.
fn scattered(
    cx: &mut Lower<'_>,
    name: &str,
    data: Tensor,
    domain: &[ExprId],
    reduction: &'static str,
    update: impl FnOnce(&mut Te, &[ExprId]) -> (Vec<ExprId>, ExprId),
) -> Result<Vec<Tensor>, OpError> {
    Ok(vec![cx.te.update(name, data, domain, |te, out, k| {
        let (at, new) = update(te, k);
        let old = te.at(out, &at);
        let value = match reduction {
            "add" => te.add(old, new),
            "mul" => te.mul(old, new),
            "mean" => {
                let (sum, two) = (te.add(old, new), like(te, new, 2.0));
                te.binary(BinOp::Div, sum, two)
            }
            "min" => te.min(old, new),
            "max" => te.max(old, new),
            _ => new,
        };
        (at, value)
    })])
}
