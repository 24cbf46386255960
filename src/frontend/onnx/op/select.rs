//! Elements by indices.

use super::*;
use crate::graph::Constant;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    one("Compress", 9, |n| {
        let x = n.value(0)?;
        let chosen = n.known_ints(1)?;
        let chosen: Vec<i64> = (0..chosen.len() as i64).filter(|&i| chosen[i as usize] != 0).collect();
        let indices = n.cx.function.add_constant(Constant::integers(&chosen));
        let mut args = vec![("x", Arg::Value(x)), ("indices", Arg::Value(indices))];
        if let Some(axis) = n.opt_int("axis") {
            args.push(("axis", int(n.axis(axis, n.rank(x)?)? as i64)));
        }
        n.call("take", args)
    }),
    one("Gather", 7, |n| {
        let axis = n.int("axis", 0);
        let x = n.value(0)?;
        let axis = n.axis(axis, n.rank(x)?)? as i64;
        // Indices from the end wrap around.
        let known = n.extents(1).and_then(|e| e.ints(n.arena()));
        let is_plain = known.is_some_and(|all| all.iter().all(|&i| i >= 0));
        let indices = n.value(1)?;
        let mode = if is_plain { "fast" } else { "wrap" };
        let args =
            vec![("x", Arg::Value(x)), ("indices", Arg::Value(indices)), ("axis", int(axis)), ("mode", text(mode))];
        n.call("take", args)
    }),
    one("GatherElements", 11, |n| {
        let x = n.value(0)?;
        let axis = n.int("axis", 0);
        let axis = n.axis(axis, n.rank(x)?)? as i64;
        // The operator counts negative indices from the end.
        let args = vec![("data", Arg::Value(x)), ("indices", Arg::Value(n.value(1)?)), ("axis", int(axis))];
        n.call("gather_elements", args)
    }),
    one("GatherND", 11, |n| {
        let (x, batch) = (n.value(0)?, n.int("batch_dims", 0));
        let indices = wrapped_lists(n, x, 1, batch)?;
        let args = vec![("data", Arg::Value(x)), ("indices", Arg::Value(indices)), ("batch_dims", int(batch))];
        n.call("gather_nd", args)
    }),
    one("GridSample", 16, |n| {
        let (x, grid) = (n.value(0)?, n.value(1)?);
        if n.rank(x)? != 4 {
            return n.fail("`GridSample` of other than 4 dimensions is not supported");
        }
        let method = match n.text("mode", "linear").as_str() {
            "linear" | "bilinear" => "bilinear",
            "cubic" | "bicubic" => "bicubic",
            "nearest" => "nearest",
            other => return n.fail(format!("`GridSample` has the mode `{other}`")),
        };
        let (padding, align) = (n.text("padding_mode", "zeros"), n.flag("align_corners", false));
        let grid = n.permute(grid, &[0, 3, 1, 2])?;
        let args = vec![
            ("data", Arg::Value(x)),
            ("grid", Arg::Value(grid)),
            ("method", text(method)),
            ("padding_mode", text(&padding)),
            ("align_corners", flag(align)),
        ];
        n.call("image.grid_sample", args)
    }),
    one("OneHot", 9, |n| {
        let indices = n.value(0)?;
        let (depth, values) = (n.known_floats(1)?, n.known_constant(2)?);
        let axis = n.int("axis", -1);
        let Some(&depth) = depth.first() else { return n.fail("`OneHot` lacks its depth") };
        let (Some(off), Some(on)) = (values.float(0), values.float(1)) else {
            return n.fail("`OneHot` lacks its values");
        };
        let depth = depth as i64;
        let indices = n.cast(indices, DType::Int64)?;
        // Indices from the end; those outside set nothing.
        let zero = n.scalar(0.0, DType::Int64)?;
        let count = n.scalar(depth as f64, DType::Int64)?;
        let moved = n.binary("add", indices, count)?;
        let is_negative = n.binary("less", indices, zero)?;
        let indices = n.select(is_negative, moved, indices)?;
        let dtype = values.dtype();
        let mut number = |v: f64| if dtype.is_float() { n.arena().float(v, dtype) } else { n.index(v as i64) };
        let (on, off) = (number(on), number(off));
        let args = vec![
            ("indices", Arg::Value(indices)),
            ("on_value", Arg::Prim(on)),
            ("off_value", Arg::Prim(off)),
            ("depth", int(depth)),
            ("axis", int(axis)),
        ];
        let y = n.call("one_hot", args)?;
        n.cast(y, dtype)
    }),
    one("ReverseSequence", 10, |n| {
        let (x, lengths) = (n.value(0)?, n.value(1)?);
        let (batch, time) = (n.int("batch_axis", 1), n.int("time_axis", 0));
        let args = vec![
            ("data", Arg::Value(x)),
            ("seq_lengths", Arg::Value(lengths)),
            ("seq_axis", int(time)),
            ("batch_axis", int(batch)),
        ];
        n.call("reverse_sequence", args)
    }),
    until(one("Scatter", 9, scatter_elements), 10),
    one("ScatterElements", 11, scatter_elements),
    one("ScatterND", 11, |n| {
        let (x, updates) = (n.value(0)?, n.value(2)?);
        let indices = wrapped_lists(n, x, 1, 0)?;
        let reduction = reduction(n);
        let args = vec![
            ("data", Arg::Value(x)),
            ("indices", Arg::Value(indices)),
            ("updates", Arg::Value(updates)),
            ("reduction", text(&reduction)),
        ];
        n.call("scatter_nd", args)
    }),
    one("Trilu", 14, |n| {
        let x = n.value(0)?;
        let upper = n.flag("upper", true);
        let k = if n.has(1) { n.known_ints(1)?.first().copied().unwrap_or(0) } else { 0 };
        let k = n.index(k);
        n.call(if upper { "triu" } else { "tril" }, vec![("x", Arg::Value(x)), ("k", Arg::Prim(k))])
    }),
];

fn scatter_elements(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let (x, updates) = (n.value(0)?, n.value(2)?);
    let axis = n.int("axis", 0);
    let axis = n.axis(axis, n.rank(x)?)?;
    let indices = wrapped(n, x, 1, axis)?;
    let reduction = reduction(n);
    let args = vec![
        ("data", Arg::Value(x)),
        ("indices", Arg::Value(indices)),
        ("updates", Arg::Value(updates)),
        ("axis", int(axis as i64)),
        ("reduction", text(&reduction)),
    ];
    n.call("scatter_elements", args)
}

/// How several updates of an element are combined, by relax's names.
fn reduction(n: &mut Node<'_, '_>) -> String {
    match n.text("reduction", "none").as_str() {
        "none" => "update".to_owned(),
        other => other.to_owned(),
    }
}

/// Indices along an axis; negative ones count from the end.
fn wrapped(n: &mut Node<'_, '_>, x: ValueId, argument: usize, axis: usize) -> Result<ValueId> {
    let indices = n.value(argument)?;
    let extent = n.known_shape(x)?[axis];
    let dtype = n.dtype(indices)?;
    let extent = n.scalar(extent as f64, dtype)?;
    let moved = n.binary("add", indices, extent)?;
    let is_negative = n.with_number("less", indices, 0.0)?;
    n.select(is_negative, moved, indices)
}

/// Lists of indices into the dimensions behind those of the batch.
fn wrapped_lists(n: &mut Node<'_, '_>, x: ValueId, argument: usize, batch: i64) -> Result<ValueId> {
    let indices = n.value(argument)?;
    let (shape, lists) = (n.known_shape(x)?, n.known_shape(indices)?);
    let batch = usize::try_from(batch).unwrap_or(0);
    let count = lists.last().copied().unwrap_or(0);
    let extents = usize::try_from(count).ok().and_then(|count| shape.get(batch..batch + count));
    let Some(extents) = extents else {
        return n.fail(format!("`{}` has lists of {count} indices into {} dimensions", n.op_type(), shape.len()));
    };
    let extents = n.cx.function.add_constant(Constant::integers(extents));
    let indices = n.cast(indices, DType::Int64)?;
    let moved = n.binary("add", indices, extents)?;
    let is_negative = n.with_number("less", indices, 0.0)?;
    n.select(is_negative, moved, indices)
}
