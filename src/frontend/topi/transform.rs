//! Other shapes and orders of elements.

use super::broadcast::{broadcast, side};
use super::call::{Argument, Call, TopiError, int, ints, opt_ints, text};
use super::{Operator, by};
use crate::graph::apply::Given;
use crate::ir::{AttrValue, CmpOp, DType};
use crate::te::{Reducer, Tensor};

pub(super) const OPERATORS: &[Operator] = &[
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
        let axes: Vec<i64> = (first..first + n).collect();
        call.operator("expand_dims", vec![("x", Given::Tensor(x)), ("axis", ints(&axes))])
    }),
    by("flip", "a, axis=0", |call| {
        let (x, axis) = (call.tensor("a")?, call.int("axis")?);
        call.operator("flip", vec![("data", Given::Tensor(x)), ("axis", int(axis))])
    }),
    by("gather", "data, axis, indices", |call| {
        let (data, axis, indices) = (call.tensor("data")?, call.int("axis")?, call.tensor("indices")?);
        let given = vec![("data", Given::Tensor(data)), ("indices", Given::Tensor(indices)), ("axis", int(axis))];
        call.operator("gather_elements", given)
    }),
    by("gather_nd", "a, indices, batch_dims=0", |call| {
        let (data, indices, batch) = (call.tensor("a")?, call.tensor("indices")?, call.int("batch_dims")?);
        let given =
            vec![("data", Given::Tensor(data)), ("indices", Given::Tensor(indices)), ("batch_dims", int(batch))];
        call.operator("gather_nd", given)
    }),
    by("matmul", "a, b, transp_a=False, transp_b=False", matmul),
    by("one_hot", "indices, on_value, off_value, depth, axis, dtype", |call| {
        let (indices, dtype) = (call.tensor("indices")?, call.dtype("dtype")?);
        let (depth, axis) = (call.int("depth")?, call.int("axis")?);
        let mut value = |name: &'static str| -> Result<Given, TopiError> {
            let v = call.float(name)?;
            let e = if dtype.is_float() { call.te.float(v, dtype) } else { call.te.int(v as i64, dtype) };
            Ok(Given::Number(e))
        };
        let (on, off) = (value("on_value")?, value("off_value")?);
        let given = vec![
            ("indices", Given::Tensor(indices)),
            ("on_value", on),
            ("off_value", off),
            ("depth", int(depth)),
            ("axis", int(axis)),
        ];
        call.operator("one_hot", given)
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
        let n = |te: &crate::te::Te, all: &[crate::ir::ExprId]| -> Option<i64> {
            all.iter().try_fold(1i64, |n, &e| n.checked_mul(te.as_int(e)?))
        };
        let from = call.te.shape(x).to_vec();
        if let (Some(a), Some(b)) = (n(call.te, &from), n(call.te, &shape))
            && a != b
        {
            return Err(TopiError::new(format!("`a` has {a} elements, and `newshape` has {b}")));
        }
        Ok(vec![call.te.reshaped("T_reshape", x, &shape)])
    }),
    by("reverse_sequence", "a, seq_lengths, seq_axis=1, batch_axis=0", |call| {
        let (x, lengths) = (call.tensor("a")?, call.tensor("seq_lengths")?);
        let (seq, batch) = (call.int("seq_axis")?, call.int("batch_axis")?);
        let given = vec![
            ("data", Given::Tensor(x)),
            ("seq_lengths", Given::Tensor(lengths)),
            ("seq_axis", int(seq)),
            ("batch_axis", int(batch)),
        ];
        call.operator("reverse_sequence", given)
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
        call.operator("squeeze", vec![("x", Given::Tensor(x)), ("axis", opt_ints(axes.as_deref()))])
    }),
    by("stack", "tensors, axis=0", |call| {
        let (all, axis) = (call.tensors("tensors")?, call.int("axis")?);
        call.operator("stack", vec![("tensors", Given::Tensors(all)), ("axis", int(axis))])
    }),
    by("strided_slice", "a, begin, end, strides=None, axes=None, slice_mode='end', assume_inbound=True", strided_slice),
    by("take", "a, indices, axis=None, batch_dims=0, mode='fast'", |call| {
        let (x, indices, mode) = (call.tensor("a")?, call.tensor("indices")?, call.text("mode")?);
        if call.int("batch_dims")? != 0 {
            return call.wrong("batch_dims", "0");
        }
        let axis = call.opt_int("axis")?.map_or(Given::Attr(AttrValue::None), int);
        let given = vec![
            ("x", Given::Tensor(x)),
            ("indices", Given::Tensor(indices)),
            ("axis", axis),
            ("mode", text(mode.as_str())),
        ];
        call.operator("take", given)
    }),
    by("tile", "a, reps", |call| {
        let (x, reps) = (call.tensor("a")?, call.ints("reps")?);
        call.operator("tile", vec![("data", Given::Tensor(x)), ("repeats", ints(&reps))])
    }),
    by("transpose", "a, axes=None", |call| {
        let (x, axes) = (call.tensor("a")?, call.opt_ints("axes")?);
        call.operator("permute_dims", vec![("x", Given::Tensor(x)), ("axes", opt_ints(axes.as_deref()))])
    }),
    by("where", "condition, x, y", |call| {
        let sides = [side(call, "condition")?, side(call, "x")?, side(call, "y")?];
        broadcast(call.te, "T_where", &sides, |te, x| {
            let condition = match te.dtype(x[0]) {
                DType::Bool => x[0],
                dtype => {
                    let zero = te.constant(0, dtype);
                    te.compare(CmpOp::Ne, x[0], zero)
                }
            };
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
        let value = |te: &mut crate::te::Te, v: f64| {
            if dtype.is_float() { te.float(v, dtype) } else { te.int(v as i64, dtype) }
        };
        let (start, step) = (value(te, start), value(te, step));
        let at = te.converted(dtype, i[0]);
        let distance = te.mul(step, at);
        te.add(start, distance)
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
pub(super) fn expect_equal(call: &Call<'_>, a: crate::ir::ExprId, b: crate::ir::ExprId) -> Result<(), TopiError> {
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
    let number = |call: &mut Call<'_>, all: &[i64]| Given::Extents(call.te.extents(all));
    let given = vec![
        ("x", Given::Tensor(x)),
        ("axes", number(call, &axes)),
        ("begin", number(call, &begin)),
        ("end", number(call, &end)),
        ("strides", number(call, &strides)),
    ];
    call.operator("strided_slice", given)
}
