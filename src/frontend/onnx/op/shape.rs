//! Shapes: elements stay as they are, or are repeated, or cut off.

use super::super::extents::simplified;
use super::super::model::constant_of;
use super::*;
use crate::graph::Constant;
use crate::ir::{DType, ExprId};

pub(super) static OPERATORS: &[Operator] = &[
    one("Concat", 7, |n| {
        let axis = n.int("axis", 0);
        let all = n.values()?;
        n.call("concat", vec![("tensors", Arg::Values(all)), ("axis", int(axis))])
    }),
    many("Constant", 7, |n| {
        if let Some(tensor) = constant_of(n.proto) {
            n.ignore("value");
            return Ok(vec![Operand::Tensor(tensor)]);
        }
        let constant = if let Some(v) = n.opt_int("value_int") {
            Constant::integer(v, DType::Int64)
        } else if let Some(v) = n.opt_float("value_float") {
            Constant::scalar(v, DType::Float32)
        } else if let Some(all) = n.ints("value_ints") {
            Some(Constant::integers(&all))
        } else if let Some(all) = n.floats("value_floats") {
            let data = all.iter().flat_map(|v| v.to_le_bytes()).collect();
            Constant::new(DType::Float32, &[all.len() as i64], data)
        } else {
            return n.fail("this kind of `Constant` is not supported");
        };
        match constant {
            Some(constant) => Ok(vec![Operand::Value(n.cx.function.add_constant(constant))]),
            None => n.fail("`Constant` has no elements"),
        }
    }),
    one("ConstantOfShape", 9, |n| {
        let shape = n.known_extents(0)?;
        let value = match n.tensor("value") {
            Some(tensor) => n.constant_of(tensor)?,
            None => match Constant::scalar(0.0, DType::Float32) {
                Some(zero) => zero,
                None => return n.fail("`ConstantOfShape` has no value"),
            },
        };
        if value.len() != 1 {
            return n.fail(format!("`ConstantOfShape` has {} values, expected 1", value.len()));
        }
        let scalar = Constant::new(value.dtype(), &[], value.data().to_vec());
        let Some(scalar) = scalar else { return n.fail("`ConstantOfShape` has no value") };
        let fill = n.cx.function.add_constant(scalar);
        n.call("full", vec![("shape", Arg::Shape(shape)), ("fill_value", Arg::Value(fill))])
    }),
    one("DepthToSpace", 7, |n| {
        let (x, block) = (n.value(0)?, n.int("blocksize", 1));
        let mode = n.text("mode", "DCR");
        let shape = n.shape(x)?;
        let ([batch, channels, height, width], true) = (&shape[..], block > 0) else {
            return n.fail("`DepthToSpace` needs 4 dimensions");
        };
        let (batch, height, width) = (*batch, *height, *width);
        let channels = n.known(*channels)? / (block * block);
        let (b, c) = (n.index(block), n.index(channels));
        let (parts, order) = match mode.as_str() {
            "CRD" => (vec![batch, c, b, b, height, width], [0, 1, 4, 2, 5, 3]),
            _ => (vec![batch, b, b, c, height, width], [0, 3, 4, 1, 5, 2]),
        };
        let x = n.reshape(x, parts)?;
        let x = n.permute(x, &order)?;
        let (height, width) = (n.arena().mul(height, b), n.arena().mul(width, b));
        n.reshape(x, vec![batch, c, height, width])
    }),
    one("Expand", 8, |n| {
        let (x, wanted) = (n.value(0)?, n.known_extents(1)?);
        let shape = n.shape(x)?;
        let rank = shape.len().max(wanted.len());
        let at = |all: &[ExprId], d: usize| (d + all.len()).checked_sub(rank).map(|d| all[d]);
        let mut to = Vec::new();
        for d in 0..rank {
            let (from, wanted) = (at(&shape, d), at(&wanted, d));
            to.push(match (from, wanted) {
                (Some(e), Some(w)) if n.arena().is_int(w, 1) => e,
                (_, Some(w)) => w,
                (Some(e), None) => e,
                (None, None) => n.index(1),
            });
        }
        n.call("broadcast_to", vec![("x", Arg::Value(x)), ("shape", Arg::Shape(to))])
    }),
    one("EyeLike", 9, |n| {
        let x = n.value(0)?;
        let k = n.int("k", 0);
        let dtype = match n.opt_int("dtype") {
            Some(t) => super::super::types::dtype(i32::try_from(t).unwrap_or(0)).map_err(Refusal::from)?,
            None => n.dtype(x)?,
        };
        let k = n.index(k);
        let args = vec![("x", Arg::Value(x)), ("k", Arg::Prim(k)), ("dtype", text(&dtype.to_string()))];
        n.call("eye_like", args)
    }),
    one("Flatten", 7, |n| {
        let x = n.value(0)?;
        let shape = n.shape(x)?;
        let rank = shape.len() as i64;
        let axis = n.int("axis", 1);
        let axis = if axis < 0 { axis + rank } else { axis };
        if !(0..=rank).contains(&axis) {
            return n.fail(format!("the axis {axis} of `Flatten` is outside of {rank} dimensions"));
        }
        let (front, back) = shape.split_at(axis as usize);
        let shape = vec![n.product(front), n.product(back)];
        n.reshape(x, shape)
    }),
    one("Pad", 7, |n| {
        let mode = n.text("mode", "constant");
        let x = n.value(0)?;
        let rank = n.rank(x)?;
        let (pads, value) = if n.version < 11 {
            (n.ints("pads").unwrap_or_default(), n.float("value", 0.0))
        } else {
            let value = if n.has(2) { n.known_floats(2)?.first().copied().unwrap_or(0.0) } else { 0.0 };
            (n.known_ints(1)?, value)
        };
        let axes = match n.has(3) {
            true => n.known_ints(3)?.iter().map(|&a| n.axis(a, rank)).collect::<Result<Vec<_>>>()?,
            false => (0..rank).collect(),
        };
        if pads.len() != 2 * axes.len() {
            return n.fail(format!("`Pad` has {} integers, expected two for each axis", pads.len()));
        }
        let mut widths = vec![0; 2 * rank];
        for (i, &d) in axes.iter().enumerate() {
            (widths[2 * d], widths[2 * d + 1]) = (pads[i], pads[axes.len() + i]);
        }
        let mode = match mode.as_str() {
            "constant" => "constant",
            "reflect" => "reflect",
            "edge" => "replicate",
            "wrap" => "circular",
            other => return n.fail(format!("`Pad` has the mode `{other}`")),
        };
        let args = vec![
            ("data", Arg::Value(x)),
            ("pad_width", ints(&widths)),
            ("pad_mode", text(mode)),
            ("pad_value", float(value)),
        ];
        n.call("nn.pad", args)
    }),
    one("Range", 11, |n| {
        let dtype = {
            let start = n.value(0)?;
            n.dtype(start)?
        };
        let mut numbers = Vec::new();
        for i in 0..3 {
            numbers.push(match dtype.is_float() {
                true => {
                    let all = n.known_floats(i)?;
                    let Some(&v) = all.first() else { return n.fail("`Range` lacks a number") };
                    n.arena().float(v, dtype)
                }
                false => match n.known_extents(i)?.first() {
                    Some(&e) => e,
                    None => return n.fail("`Range` lacks a number"),
                },
            });
        }
        let args = vec![
            ("start", Arg::Prim(numbers[0])),
            ("end", Arg::Prim(numbers[1])),
            ("step", Arg::Prim(numbers[2])),
            ("dtype", text(&dtype.to_string())),
        ];
        n.call("arange", args)
    }),
    one("Reshape", 7, |n| {
        let (x, mut wanted) = (n.value(0)?, n.known_extents(1)?);
        let shape = n.shape(x)?;
        let keeps_zero = n.flag("allowzero", false);
        let mut open = None;
        for (d, extent) in wanted.iter_mut().enumerate() {
            match n.arena().as_int(*extent) {
                Some(0) if !keeps_zero => match shape.get(d) {
                    Some(&e) => *extent = e,
                    None => return n.fail(format!("dimension {d} of `Reshape` is that of an argument without it")),
                },
                Some(-1) if open.is_none() => open = Some(d),
                Some(v) if v < 0 => return n.fail(format!("`Reshape` has the extent {v}")),
                _ => {}
            }
        }
        if let Some(open) = open {
            wanted[open] = rest(n, &shape, &wanted, open)?;
        }
        n.reshape(x, wanted)
    }),
    many("Shape", 7, |n| n.fail("the shape is not known")),
    many("Size", 7, |n| n.fail("the shape is not known")),
    one("Slice", 7, |n| {
        let x = n.value(0)?;
        let shape = n.shape(x)?;
        let has_attributes = n.version < 10;
        let mut given = |i: usize, name: &str| {
            if has_attributes {
                return match n.ints(name) {
                    Some(all) => Ok(Some(all.into_iter().map(|v| n.index(v)).collect())),
                    None => Ok(None),
                };
            }
            if n.has(i) { n.known_extents(i).map(Some) } else { Ok(None) }
        };
        let (starts, ends): (Option<Vec<ExprId>>, Option<Vec<ExprId>>) = (given(1, "starts")?, given(2, "ends")?);
        let (axes, steps) = (given(3, "axes")?, given(4, "steps")?);
        let (Some(starts), Some(ends)) = (starts, ends) else { return n.fail("`Slice` lacks its bounds") };
        let axes = match axes {
            Some(axes) => axes.into_iter().map(|a| n.known(a)).collect::<Result<Vec<_>>>()?,
            None => (0..starts.len() as i64).collect(),
        };
        let steps = match steps {
            Some(steps) => steps.into_iter().map(|a| n.known(a)).collect::<Result<Vec<_>>>()?,
            None => vec![1; starts.len()],
        };
        if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] || steps.contains(&0) {
            return n.fail("the bounds of `Slice` do not fit");
        }
        let (mut begin, mut end, mut dims) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..starts.len() {
            let d = n.axis(axes[i], shape.len())?;
            dims.push(n.index(d as i64));
            begin.push(bound(n, starts[i], shape[d], steps[i], false));
            end.push(bound(n, ends[i], shape[d], steps[i], true));
        }
        let steps = steps.iter().map(|&s| n.index(s)).collect();
        let args = vec![
            ("x", Arg::Value(x)),
            ("axes", Arg::Prims(dims)),
            ("begin", Arg::Prims(begin)),
            ("end", Arg::Prims(end)),
            ("strides", Arg::Prims(steps)),
        ];
        n.call("strided_slice", args)
    }),
    one("SpaceToDepth", 7, |n| {
        let (x, block) = (n.value(0)?, n.int("blocksize", 1));
        let mode = n.text("mode", "DCR");
        let shape = n.known_shape(x)?;
        let ([batch, channels, height, width], true) = (&shape[..], block > 0) else {
            return n.fail("`SpaceToDepth` needs 4 dimensions");
        };
        let (height, width) = (height / block, width / block);
        let parts = [*batch, *channels, height, block, width, block].map(|v| n.index(v)).to_vec();
        let x = n.reshape(x, parts)?;
        let order = if mode == "CRD" { [0, 1, 3, 5, 2, 4] } else { [0, 3, 5, 1, 2, 4] };
        let x = n.permute(x, &order)?;
        let shape = [*batch, channels * block * block, height, width].map(|v| n.index(v)).to_vec();
        n.reshape(x, shape)
    }),
    many("Split", 7, |n| {
        let x = n.value(0)?;
        let axis = n.int("axis", 0);
        let axis = n.axis(axis, n.rank(x)?)?;
        let parts = n.proto.output.len() as i64;
        let sizes = if n.version < 13 {
            n.ints("split")
        } else if n.has(1) {
            Some(n.known_ints(1)?)
        } else {
            None
        };
        n.ignore("num_outputs");
        let sizes = match sizes {
            Some(sizes) => sizes,
            None => {
                let extent = n.shape(x)?[axis];
                let extent = n.known(extent)?;
                // The last part may be smaller.
                let each = (extent + parts - 1) / parts.max(1);
                (0..parts).map(|i| each.min((extent - i * each).max(0))).collect()
            }
        };
        if sizes.len() as i64 != parts {
            return n.fail(format!("`Split` has {} sizes for {parts} results", sizes.len()));
        }
        if parts == 1 {
            return Ok(vec![Operand::Value(x)]);
        }
        let mut at = 0;
        let mut bounds = Vec::new();
        for size in &sizes[..sizes.len() - 1] {
            at += size;
            bounds.push(at);
        }
        let args = vec![("x", Arg::Value(x)), ("indices_or_sections", ints(&bounds)), ("axis", int(axis as i64))];
        let all = n.call("split", args)?;
        (0..sizes.len()).map(|i| Ok(Operand::Value(n.item(all, i)?))).collect()
    }),
    one("Squeeze", 7, |n| {
        let x = n.value(0)?;
        match n.axes(13, 1)? {
            Some(axes) if axes.is_empty() => Ok(x),
            Some(axes) => n.call("squeeze", vec![("x", Arg::Value(x)), ("axis", ints(&axes))]),
            None => n.call("squeeze", vec![("x", Arg::Value(x))]),
        }
    }),
    one("Tile", 7, |n| {
        let (x, repeats) = (n.value(0)?, n.known_ints(1)?);
        n.call("tile", vec![("data", Arg::Value(x)), ("repeats", ints(&repeats))])
    }),
    one("Transpose", 7, |n| {
        let x = n.value(0)?;
        let rank = n.rank(x)? as i64;
        let order = n.ints("perm").unwrap_or_else(|| (0..rank).rev().collect());
        n.permute(x, &order)
    }),
    one("Unsqueeze", 7, |n| {
        let x = n.value(0)?;
        match n.axes(13, 1)? {
            Some(axes) => n.expand_dims(x, &axes),
            None => n.fail("`Unsqueeze` lacks its axes"),
        }
    }),
];

impl Node<'_, '_> {
    /// An extent that must be a number.
    fn known(&mut self, e: ExprId) -> Result<i64> {
        match self.arena().as_int(e) {
            Some(n) => Ok(n),
            None => Err(Refusal {
                reason: format!("`{}` needs sizes that are numbers", self.op_type()),
                help: Some("make the sizes numbers in the model".to_owned()),
            }),
        }
    }
}

/// The extent that is left for one dimension.
fn rest(n: &mut Node<'_, '_>, shape: &[ExprId], wanted: &[ExprId], open: usize) -> Result<ExprId> {
    // Factors on both sides are left out, since quotients of symbols are hard to simplify.
    let mut over: Vec<ExprId> = shape.to_vec();
    let mut under = Vec::new();
    for (d, &e) in wanted.iter().enumerate() {
        match over.iter().position(|&o| o == e) {
            _ if d == open => {}
            Some(i) => _ = over.swap_remove(i),
            None => under.push(e),
        }
    }
    let (over, under) = (n.product(&over), n.product(&under));
    match n.arena().as_int(under) {
        Some(0) => return n.fail("`Reshape` has an extent of 0, so that -1 is not known"),
        Some(1) => return Ok(over),
        _ => {}
    }
    let quotient = n.arena().floor_div(over, under);
    Ok(simplified(n.arena(), quotient))
}

/// A bound of a slice, as relax counts: within the dimension, or one before it.
fn bound(n: &mut Node<'_, '_>, at: ExprId, extent: ExprId, step: i64, is_end: bool) -> ExprId {
    let known = (n.arena().as_int(at), n.arena().as_int(extent));
    match known {
        (Some(v), Some(extent)) => {
            let v = if v < 0 { v.saturating_add(extent) } else { v };
            let v = match (step > 0, is_end) {
                (true, _) => v.clamp(0, extent),
                (false, false) => v.clamp(0, (extent - 1).max(0)),
                // Before the first element; -1 would be the last one.
                (false, true) if v < 0 => -extent - 1,
                (false, true) => v.min(extent - 1),
            };
            n.index(v)
        }
        // As far as there are elements.
        (Some(v), None) if v >= i64::from(i32::MAX) && step > 0 => extent,
        (Some(v), None) if v < 0 && step > 0 => {
            let from_end = n.add_extents(extent, at);
            let zero = n.index(0);
            let bound = n.arena().max(from_end, zero);
            simplified(n.arena(), bound)
        }
        _ => at,
    }
}
