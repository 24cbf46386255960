//! Reductions, running sums, the largest elements.

use super::*;
use crate::ir::DType;

/// A reduction: what is computed before, the reduction, what is computed after.
macro_rules! reduction {
    ($name:literal, $since:literal, $rule:expr) => {
        one($name, 7, |n| {
            let axes = axes(n, $since)?;
            let x = n.value(0)?;
            let keep = n.flag("keepdims", true);
            let rule: fn(&mut Node<'_, '_>, ValueId, &[i64], bool) -> Result<ValueId> = $rule;
            match axes {
                Some(axes) => rule(n, x, &axes, keep),
                None => Ok(x),
            }
        })
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    one("ArgMax", 7, |n| extreme_index(n, "argmax")),
    one("ArgMin", 7, |n| extreme_index(n, "argmin")),
    one("CumSum", 11, |n| running(n, "cumsum")),
    one("CumProd", 26, |n| running(n, "cumprod")),
    reduction!("ReduceL1", 18, |n, x, axes, keep| {
        let x = n.unary("abs", x)?;
        n.reduce("sum", x, axes, keep)
    }),
    reduction!("ReduceL2", 18, |n, x, axes, keep| {
        let x = n.binary("multiply", x, x)?;
        let x = n.reduce("sum", x, axes, keep)?;
        n.unary("sqrt", x)
    }),
    reduction!("ReduceLogSum", 18, |n, x, axes, keep| {
        let x = n.reduce("sum", x, axes, keep)?;
        n.unary("log", x)
    }),
    reduction!("ReduceLogSumExp", 18, |n, x, axes, keep| {
        // The largest element is taken out, so that nothing overflows; an infinite one stays.
        let largest = n.reduce("max", x, axes, true)?;
        let is_finite = n.unary("isfinite", largest)?;
        let zero = n.call("zeros_like", vec![("x", Arg::Value(largest))])?;
        let shift = n.select(is_finite, largest, zero)?;
        let x = n.binary("subtract", x, shift)?;
        let x = n.unary("exp", x)?;
        let x = n.reduce("sum", x, axes, true)?;
        let x = n.unary("log", x)?;
        let x = n.binary("add", x, shift)?;
        if keep { Ok(x) } else { n.call("squeeze", vec![("x", Arg::Value(x)), ("axis", ints(axes))]) }
    }),
    reduction!("ReduceMax", 18, |n, x, axes, keep| extreme(n, "max", x, axes, keep)),
    reduction!("ReduceMean", 18, |n, x, axes, keep| n.reduce("mean", x, axes, keep)),
    reduction!("ReduceMin", 18, |n, x, axes, keep| extreme(n, "min", x, axes, keep)),
    reduction!("ReduceProd", 18, |n, x, axes, keep| n.reduce("prod", x, axes, keep)),
    reduction!("ReduceSum", 13, |n, x, axes, keep| n.reduce("sum", x, axes, keep)),
    reduction!("ReduceSumSquare", 18, |n, x, axes, keep| {
        let x = n.binary("multiply", x, x)?;
        n.reduce("sum", x, axes, keep)
    }),
    many("TopK", 7, |n| {
        let k = if n.version < 10 { n.int("k", 0) } else { n.known_ints(1)?.first().copied().unwrap_or(0) };
        let x = n.value(0)?;
        n.ignore("sorted");
        let (axis, largest) = (n.int("axis", -1), n.flag("largest", true));
        if k < 1 {
            return n.fail(format!("`TopK` of {k} elements is not supported"));
        }
        let both = n.call(
            "topk",
            vec![
                ("data", Arg::Value(x)),
                ("k", int(k)),
                ("axis", int(axis)),
                ("largest", flag(largest)),
                ("dtype", text("int64")),
            ],
        )?;
        Ok(vec![Operand::Value(n.item(both, 0)?), Operand::Value(n.item(both, 1)?)])
    }),
];

/// The axes of a reduction; all where none are given, `None` if that means that nothing is reduced.
fn axes(n: &mut Node<'_, '_>, since: i64) -> Result<Option<Vec<i64>>> {
    let given = n.axes(since, 1)?.filter(|axes| !axes.is_empty());
    let keeps = n.version >= since && n.flag("noop_with_empty_axes", false);
    let x = n.value(0)?;
    let rank = n.rank(x)?;
    match given {
        Some(axes) => axes.iter().map(|&a| Ok(n.axis(a, rank)? as i64)).collect::<Result<_>>().map(Some),
        None if keeps => Ok(None),
        None => Ok(Some((0..rank as i64).collect())),
    }
}

fn extreme(n: &mut Node<'_, '_>, op: &str, x: ValueId, axes: &[i64], keep: bool) -> Result<ValueId> {
    let dtype = n.dtype(x)?;
    let wide = if dtype == DType::Bool { DType::UInt8 } else { dtype };
    let x = n.cast(x, wide)?;
    let y = n.reduce(op, x, axes, keep)?;
    n.cast(y, dtype)
}

fn extreme_index(n: &mut Node<'_, '_>, op: &str) -> Result<ValueId> {
    let mut x = n.value(0)?;
    let rank = n.rank(x)?;
    let axis = n.int("axis", 0);
    let axis = n.axis(axis, rank)?;
    let (keep, last) = (n.flag("keepdims", true), n.flag("select_last_index", false));
    if last {
        x = n.call("flip", vec![("data", Arg::Value(x)), ("axis", int(axis as i64))])?;
    }
    let found = n.call(op, vec![("x", Arg::Value(x)), ("axis", int(axis as i64)), ("keepdims", flag(keep))])?;
    let found = n.cast(found, DType::Int64)?;
    if !last {
        return Ok(found);
    }
    let extent = n.known_shape(x)?[axis];
    let end = n.scalar((extent - 1) as f64, DType::Int64)?;
    n.binary("subtract", end, found)
}

fn running(n: &mut Node<'_, '_>, op: &str) -> Result<ValueId> {
    let mut x = n.value(0)?;
    let axis = n.known_ints(1)?.first().copied().unwrap_or(0);
    let axis = n.axis(axis, n.rank(x)?)? as i64;
    let (exclusive, reverse) = (n.flag("exclusive", false), n.flag("reverse", false));
    let flipped = |n: &mut Node<'_, '_>, x| n.call("flip", vec![("data", Arg::Value(x)), ("axis", int(axis))]);
    if reverse {
        x = flipped(n, x)?;
    }
    x = n.call(op, vec![("data", Arg::Value(x)), ("axis", int(axis)), ("exclusive", flag(exclusive))])?;
    if reverse { flipped(n, x) } else { Ok(x) }
}
