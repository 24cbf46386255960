//! Other shapes and orders of elements.

use super::broadcast::{broadcast, side};
use super::call::{Argument, Call, TopiError, int, ints, opt_ints};
use super::{Operator, by};
use crate::graph::apply::Given;
use crate::ir::{CmpOp, DType, ExprId};
use crate::te::{Reducer, Te, Tensor};

pub(super) static OPERATORS: &[Operator] = &[
    by("arange", "start, stop=None, step=1, dtype='float32'", arange),
    by("concatenate", "a_tuple, axis=0", |call| {
        let (all, axis) = (call.tensors("a_tuple")?, call.int("axis")?);
        call.operator("concat", vec![("tensors", Given::Tensors(all)), ("axis", int(axis))])
    }),
    by("expand_dims", "a, axis, num_newaxis=1", |call| {
        let (x, axis, n) = (call.tensor("a")?, call.int("axis")?, call.int("num_newaxis")?);
        let rank = call.rank(x) as i64;
        // A negative axis counts from behind the last one.
        let first = if axis < 0 { axis + rank + 1 } else { axis };
        if !(0..=rank).contains(&first) || !(0..=30).contains(&n) {
            return call.wrong("axis", "an axis of the tensor");
        }
        Ok(vec![with_ones(call.te, x, first as usize, n as usize)])
    }),
    by("flip", "a, axis=0", |call| {
        let (x, axis) = (call.tensor("a")?, call.int("axis")?);
        let d = dimension(call, x, axis)?;
        let shape = call.te.shape(x).to_vec();
        Ok(vec![call.te.compute("T_reverse_sequence", &shape, |te, i| {
            let mut at = i.to_vec();
            let last = te.add_const(shape[d], -1);
            at[d] = te.sub(last, i[d]);
            te.at(x, &at)
        })])
    }),
    by("gather", "data, axis, indices", |call| {
        let (data, axis, indices) = (call.tensor("data")?, call.int("axis")?, call.tensor("indices")?);
        let d = dimension(call, data, axis)?;
        let shape = call.te.shape(indices).to_vec();
        if shape.len() != call.rank(data) || !call.type_of(indices).is_index() {
            return call.wrong("indices", "integers of as many dimensions as `data` has");
        }
        Ok(vec![call.te.compute("T_gather", &shape, |te, i| {
            let mut at = i.to_vec();
            at[d] = te.at(indices, i);
            te.at(data, &at)
        })])
    }),
    by("matmul", "a, b, transp_a=False, transp_b=False", matmul),
    by("one_hot", "indices, on_value, off_value, depth, axis, dtype", |call| {
        let (indices, dtype) = (call.tensor("indices")?, call.dtype("dtype")?);
        let (depth, axis) = (call.int("depth")?, call.int("axis")?);
        let mut value = |name: &'static str| -> Result<ExprId, TopiError> {
            let v = call.float(name)?;
            Ok(if dtype.is_float() { call.te.float(v, dtype) } else { call.te.int(v as i64, dtype) })
        };
        let (on, off) = (value("on_value")?, value("off_value")?);
        let mut shape = call.te.shape(indices).to_vec();
        let d = if axis == -1 { shape.len() as i64 } else { axis };
        if !(0..=shape.len() as i64).contains(&d) || !(1..=1 << 30).contains(&depth) {
            return call.wrong("axis", "an axis of the result");
        }
        let d = d as usize;
        shape.insert(d, call.te.extent(depth));
        Ok(vec![call.te.compute("T_one_hot", &shape, |te, i| {
            let mut at = i.to_vec();
            let own = at.remove(d);
            let index = te.at(indices, &at);
            let common = te.dtype(index).common(te.dtype(own));
            let (index, own) = (te.converted(common, index), te.converted(common, own));
            let is_it = te.compare(CmpOp::Eq, index, own);
            te.select(is_it, on, off)
        })])
    }),
    by("repeat", "a, repeats, axis", |call| {
        let (x, n, axis) = (call.tensor("a")?, call.int("repeats")?, call.int("axis")?);
        call.operator("repeat", vec![("data", Given::Tensor(x)), ("repeats", int(n)), ("axis", int(axis))])
    }),
    by("reshape", "a, newshape", |call| {
        let (x, shape) = (call.tensor("a")?, call.extents("newshape")?);
        if shape.iter().any(|&e| call.te.as_int(e).is_some_and(|n| n < 0)) {
            return call.wrong("newshape", "extents that are not negative");
        }
        let n = |te: &Te, all: &[ExprId]| -> Option<i64> {
            all.iter().try_fold(1i64, |n, &e| n.checked_mul(te.as_int(e)?))
        };
        let from = call.te.shape(x).to_vec();
        if let (Some(a), Some(b)) = (n(call.te, &from), n(call.te, &shape))
            && a != b
        {
            return Err(TopiError::new(format!("`a` has {a} elements, and `newshape` has {b}")));
        }
        Ok(vec![reshaped(call.te, x, &shape)])
    }),
    by("split", "ary, indices_or_sections, axis=0", |call| {
        let (x, axis) = (call.tensor("ary")?, call.int("axis")?);
        let at = match call.get("indices_or_sections") {
            Argument::List(_) => ints(&call.ints("indices_or_sections")?),
            _ => int(call.int("indices_or_sections")?),
        };
        call.operator("split", vec![("x", Given::Tensor(x)), ("indices_or_sections", at), ("axis", int(axis))])
    }),
    by("squeeze", "a, axis=None", |call| {
        let (x, axes) = (call.tensor("a")?, call.opt_ints("axis")?);
        let from = call.te.shape(x).to_vec();
        let mut dropped: Vec<bool> = from.iter().map(|&e| axes.is_none() && call.te.is_int(e, 1)).collect();
        for axis in axes.into_iter().flatten() {
            let d = dimension(call, x, axis)?;
            if !call.te.is_int(from[d], 1) {
                return call.wrong("axis", "axes of extent 1");
            }
            dropped[d] = true;
        }
        let shape: Vec<ExprId> = from.iter().zip(&dropped).filter(|(_, d)| !**d).map(|(&e, _)| e).collect();
        Ok(vec![call.te.compute("T_squeeze", &shape, |te, i| {
            let mut rest = i.iter().copied();
            let at: Vec<ExprId> =
                (dropped.iter()).map(|&d| if d { te.extent(0) } else { rest.next().unwrap_or(from[0]) }).collect();
            te.at(x, &at)
        })])
    }),
    by("stack", "tensors, axis=0", |call| {
        let (all, axis) = (call.tensors("tensors")?, call.int("axis")?);
        call.operator("stack", vec![("tensors", Given::Tensors(all)), ("axis", int(axis))])
    }),
    by("strided_slice", "a, begin, end, strides=None, axes=None, slice_mode='end', assume_inbound=True", strided_slice),
    by("take", "a, indices, axis=None, batch_dims=0, mode='fast'", take),
    by("tile", "a, reps", |call| {
        let (x, mut reps) = (call.tensor("a")?, call.ints("reps")?);
        let mut from = call.te.shape(x).to_vec();
        if reps.iter().any(|n| !(0..=1 << 30).contains(n)) || reps.len() > 30 {
            return call.wrong("reps", "integers from 0 on");
        }
        // TVM counts repetitions by `int64`, so that such are the extents.
        call.te.set_index_type(DType::Int64);
        let added = reps.len().saturating_sub(from.len());
        for _ in 0..added {
            let one = call.te.extent(1);
            from.insert(0, one);
        }
        while reps.len() < from.len() {
            reps.insert(0, 1);
        }
        let te = &mut *call.te;
        let from: Vec<ExprId> = from.into_iter().map(|e| te.converted(DType::Int64, e)).collect();
        let shape: Vec<ExprId> = from.iter().zip(&reps).map(|(&e, &n)| te.mul_const(e, n)).collect();
        Ok(vec![te.compute("T_tile", &shape, |te, i| {
            let at: Vec<ExprId> = (added..i.len()).map(|d| te.floor_mod(i[d], from[d])).collect();
            te.at(x, &at)
        })])
    }),
    by("transpose", "a, axes=None", |call| {
        let (x, axes) = (call.tensor("a")?, call.opt_ints("axes")?);
        call.operator("permute_dims", vec![("x", Given::Tensor(x)), ("axes", opt_ints(axes.as_deref()))])
    }),
    by("where", "condition, x, y", |call| {
        let sides = [side(call, "condition")?, side(call, "x")?, side(call, "y")?];
        broadcast(call.te, "T_where", &sides, |te, x| {
            // Truth values are compared as integers, like all others.
            let dtype = te.dtype(x[0]).common(DType::Int32);
            let (condition, zero) = (te.converted(dtype, x[0]), te.constant(0, dtype));
            let condition = te.compare(CmpOp::Ne, condition, zero);
            let common = te.dtype(x[1]).common(te.dtype(x[2]));
            let (a, b) = (te.converted(common, x[1]), te.converted(common, x[2]));
            te.select(condition, a, b)
        })
    }),
];

fn arange(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let dtype = call.dtype("dtype")?;
    let (first, second, step) = (call.float("start")?, call.get("stop").clone(), call.float("step")?);
    let (start, stop) = if second == Argument::None { (0.0, first) } else { (first, call.float("stop")?) };
    if step == 0.0 {
        return call.wrong("step", "a number that is not 0");
    }
    let n = ((stop - start) / step).ceil().max(0.0) as i64;
    let shape = [call.te.extent(n)];
    Ok(vec![call.te.compute("T_arange", &shape, |te, i| {
        let value = |te: &mut Te, v: f64| {
            if dtype.is_float() { te.float(v, dtype) } else { te.int(v as i64, dtype) }
        };
        let (start, step) = (value(te, start), value(te, step));
        let at = te.converted(dtype, i[0]);
        let distance = te.mul(step, at);
        te.add(start, distance)
    })])
}

/// A dimension of a tensor, counted from the end if it is negative.
fn dimension(call: &Call<'_>, x: Tensor, axis: i64) -> Result<usize, TopiError> {
    let rank = call.rank(x) as i64;
    let d = if axis < 0 { axis + rank } else { axis };
    match (0..rank).contains(&d) {
        true => Ok(d as usize),
        false => {
            let message = format!("axis {axis} is outside of the {rank} dimensions");
            Err(TopiError { argument: Some("axis"), message, help: None })
        }
    }
}

/// A tensor with `n` dimensions of extent 1 before dimension `first`.
pub(super) fn with_ones(te: &mut Te, x: Tensor, first: usize, n: usize) -> Tensor {
    let mut shape = te.shape(x).to_vec();
    for _ in 0..n {
        let one = te.extent(1);
        shape.insert(first, one);
    }
    te.compute("T_expand_dims", &shape, |te, i| {
        let mut at = i.to_vec();
        at.drain(first..first + n);
        te.at(x, &at)
    })
}

/// A tensor by another shape of as many elements, in the same order.
pub(super) fn reshaped(te: &mut Te, x: Tensor, shape: &[ExprId]) -> Tensor {
    let from = te.shape(x).to_vec();
    te.compute("T_reshape", shape, |te, i| {
        let mut flat = te.extent(0);
        for (&index, &extent) in i.iter().zip(shape) {
            flat = te.mul(flat, extent);
            flat = te.add(flat, index);
        }
        let at = unravelled(te, flat, &from);
        te.at(x, &at)
    })
}

/// The indices of the element at a position in row-major order.
fn unravelled(te: &mut Te, mut position: ExprId, shape: &[ExprId]) -> Vec<ExprId> {
    let mut at = Vec::with_capacity(shape.len());
    for &extent in shape.iter().rev() {
        at.push(te.floor_mod(position, extent));
        position = te.floor_div(position, extent);
    }
    at.reverse();
    at
}

/// Elements, or slices along an axis, at indices.
fn take(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let (x, indices) = (call.tensor("a")?, call.tensor("indices")?);
    if call.int("batch_dims")? != 0 {
        return call.wrong("batch_dims", "0");
    }
    if !call.type_of(indices).is_index() {
        return call.wrong("indices", "a tensor of `int32` or `int64`");
    }
    let is_clipped = match call.text("mode")?.as_str() {
        "fast" => false,
        "clip" => true,
        _ => return call.wrong("mode", "`\"fast\"` or `\"clip\"`"),
    };
    let (from, picked) = (call.te.shape(x).to_vec(), call.te.shape(indices).to_vec());
    let index = move |te: &mut Te, i: &[ExprId], extent: ExprId| {
        let index = te.at(indices, i);
        match is_clipped {
            true => {
                let (zero, last) = (te.extent(0), te.add_const(extent, -1));
                let index = te.max(zero, index);
                te.min(index, last)
            }
            false => index,
        }
    };
    let Some(axis) = call.opt_int("axis")? else {
        return Ok(vec![call.te.compute("T_take", &picked, |te, i| {
            let mut all = te.extent(1);
            for &extent in &from {
                all = te.mul(all, extent);
            }
            let position = index(te, i, all);
            let at = unravelled(te, position, &from);
            te.at(x, &at)
        })]);
    };
    let d = dimension(call, x, axis)?;
    let mut shape = from[..d].to_vec();
    shape.extend(&picked);
    shape.extend(&from[d + 1..]);
    Ok(vec![call.te.compute("T_take", &shape, |te, i| {
        let own = index(te, &i[d..d + picked.len()], from[d]);
        let mut at = i[..d].to_vec();
        at.push(own);
        at.extend(&i[d + picked.len()..]);
        te.at(x, &at)
    })])
}

/// `topi.matmul` of matrices.
fn matmul(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let (a, b) = (call.tensor("a")?, call.tensor("b")?);
    let (of_a, of_b) = (call.flag("transp_a")?, call.flag("transp_b")?);
    if call.rank(a) != 2 || call.rank(b) != 2 {
        return Err(TopiError::new("expected two matrices"));
    }
    if call.type_of(a) != call.type_of(b) {
        return Err(TopiError::new("the matrices must have one type"));
    }
    let (sa, sb) = (call.te.shape(a).to_vec(), call.te.shape(b).to_vec());
    let (n, k) = if of_a { (sa[1], sa[0]) } else { (sa[0], sa[1]) };
    let (m, other) = if of_b { (sb[0], sb[1]) } else { (sb[1], sb[0]) };
    expect_equal(call, k, other)?;
    Ok(vec![call.te.reduce("T_matmul", &[n, m], &[k], Reducer::Sum, |te, i, k| {
        let x = te.at(a, &if of_a { [k[0], i[0]] } else { [i[0], k[0]] });
        let y = te.at(b, &if of_b { [i[1], k[0]] } else { [k[0], i[1]] });
        te.mul(x, y)
    })])
}

/// Refuses two known extents that differ.
pub(super) fn expect_equal(call: &Call<'_>, a: ExprId, b: ExprId) -> Result<(), TopiError> {
    match (call.te.as_int(a), call.te.as_int(b)) {
        (Some(x), Some(y)) if x != y => {
            Err(TopiError::new(format!("the extents over which is summed differ: {x} and {y}")))
        }
        _ => Ok(()),
    }
}

fn strided_slice(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let x = call.tensor("a")?;
    let (begin, mut end) = (call.ints("begin")?, call.ints("end")?);
    let mut strides = call.opt_ints("strides")?.unwrap_or_default();
    let axes = call.opt_ints("axes")?.unwrap_or_else(|| (0..begin.len() as i64).collect());
    if begin.len() != end.len() || axes.len() != begin.len() {
        return Err(TopiError::new("`begin`, `end` and `axes` have different lengths"));
    }
    match call.text("slice_mode")?.as_str() {
        "end" => {}
        "size" => {
            // The end is a number of elements; a negative one means all that follow.
            for (end, &begin) in end.iter_mut().zip(&begin) {
                *end = if *end < 0 { i64::from(i32::MAX) } else { begin.saturating_add(*end) };
            }
            strides = vec![1; begin.len()];
        }
        _ => return call.wrong("slice_mode", "`\"end\"` or `\"size\"`"),
    }
    strides.resize(begin.len(), 1);
    let from = call.te.shape(x).to_vec();
    let mut shape = from.clone();
    // For each dimension, its first index and the distance of its indices.
    let mut steps = vec![(0, 1); from.len()];
    for (i, &axis) in axes.iter().enumerate() {
        let d = dimension(call, x, axis)?;
        let (Some(n), stride) = (call.te.as_int(from[d]), strides[i]) else {
            return call.wrong("a", "a tensor with constant extents where it is sliced");
        };
        if stride == 0 {
            return call.wrong("strides", "integers that are not 0");
        }
        let (low, high) = if stride > 0 { (0, n) } else { (-1, n - 1) };
        let within = |v: i64| if v < 0 { v.saturating_add(n) } else { v }.clamp(low, high);
        let (first, last) = (within(begin[i]), within(end[i]));
        let count = if stride > 0 { last - first } else { first - last };
        let count = (count.max(0) + stride.abs() - 1) / stride.abs();
        if count == 0 {
            return Err(TopiError::new(format!("the slice of axis {axis} is empty")));
        }
        steps[d] = (first, stride);
        shape[d] = call.te.extent(count);
    }
    let name = if call.get("axes") == &Argument::None { "T_strided_slice" } else { "T_strided_slice_with_axes" };
    Ok(vec![call.te.compute(name, &shape, |te, i| {
        let at: Vec<ExprId> = (i.iter().zip(&steps))
            .map(|(&i, &(first, stride))| {
                let distance = te.mul_const(i, stride);
                te.add_const(distance, first)
            })
            .collect();
        te.at(x, &at)
    })])
}
