//! Strength-reduces integer divisions by constants to multiplications and shifts.
//!
//! ```text
//! Y[i] = (cast(int32, X[i]) * 3 + 127) // 255
//! // becomes, as bytes are at most 255
//! Y[i] = shift_right((cast(int32, X[i]) * 3 + 127) * 257, 16)
//! ```
//!
//! Vectors have no division instruction, and the scalar one takes as long as twenty other instructions. With `2^s = m *
//! d - e`, the product `x * m / 2^s` exceeds `x / d` by `x * e / (d * 2^s)`, which does not reach the next integer
//! while `x * e < 2^s`. So the smallest `s` is used for which this holds for the largest `x`; the product must not
//! overflow. A value that may be negative is first increased by a multiple of the divisor. Powers of two become shifts
//! and masks whatever the range. Division that rounds towards zero adds the divisor less one to negative values. Where no product of `int32` is exact, one of `float64` is, if there are vectors for it.
//!
//! This pass runs before vectorisation, so that vectors and remainder loops compute the same.

use super::divide_in_floats::quotient_by_product;
use super::machine::Machine;
use crate::ir::{BinOp, DType, Intrinsic};
use crate::loopir::rewrite::{ExprMap, map_expr, map_operands};
use crate::loopir::{Arena, Expr, ExprId, Kernel, Stmt};

/// Replaces divisions of integers of up to 32 bits by constants, where the operand's range is known.
pub(super) fn divide(kernel: &mut Kernel, machine: &Machine) {
    let body = kernel.body;
    let mut divided = |arena: &mut Arena, e| divided(arena, e, machine.vectors.has_regions());
    let mut memo = ExprMap::default();
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let new = match stmt {
            Stmt::For(_) => stmt,
            _ => map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut memo, &mut divided)),
        };
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
}

/// The division expressed by other operations.
fn divided(arena: &mut Arena, e: ExprId, has_regions: bool) -> Option<ExprId> {
    let Expr::Binary(op, a, b) = arena.expr(e) else { return None };
    if !matches!(op, BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod) || arena.lanes(e) != 1 {
        return None;
    }
    let (dtype, d) = (arena.dtype(e), arena.as_int(b).filter(|&d| d > 1)?);
    match dtype {
        DType::Int32 => {}
        // Computed in 32 bits, which hold all values of these types.
        DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16 => {
            let (wide, by) = (arena.cast(DType::Int32, a), arena.int(d, DType::Int32));
            let wide = arena.binary(op, wide, by);
            let result = divided(arena, wide, has_regions)?;
            return Some(arena.cast(dtype, result));
        }
        _ => return None,
    }
    let range = range(arena, a, 0)?;
    let is_rest = matches!(op, BinOp::Mod | BinOp::FloorMod);
    // Rounding towards zero rounds down only for non-negative values. It rounds up the others: `a / d` is `(a + d - 1) // d`.
    let truncates = matches!(op, BinOp::Div | BinOp::Mod) && range.0 < 0;
    if truncates && !has_regions {
        return None;
    }
    if d & (d - 1) == 0 && !truncates {
        return Some(if is_rest {
            let mask = arena.int(d - 1, DType::Int32);
            arena.call(Intrinsic::BitAnd, &[a, mask])
        } else {
            let by = arena.int(i64::from(d.ilog2()), DType::Int32);
            arena.call(Intrinsic::ShiftRight, &[a, by])
        });
    }
    let (dividend, range) = if truncates {
        let (sign_bit, most) = (arena.int(31, DType::Int32), arena.int(d - 1, DType::Int32));
        let sign = arena.call(Intrinsic::ShiftRight, &[a, sign_bit]);
        let up = arena.call(Intrinsic::BitAnd, &[sign, most]);
        (arena.add(a, up), (range.0, range.1.max(d - 2)))
    } else {
        (a, range)
    };
    let quotient = match d & (d - 1) {
        0 => {
            let by = arena.int(i64::from(d.ilog2()), DType::Int32);
            arena.call(Intrinsic::ShiftRight, &[dividend, by])
        }
        _ => match quotient(arena, dividend, d, range) {
            None if has_regions => quotient_by_product(arena, dividend, d),
            found => found?,
        },
    };
    if !is_rest {
        return Some(quotient);
    }
    let by = arena.int(d, DType::Int32);
    let whole = arena.mul(quotient, by);
    Some(arena.sub(a, whole))
}

/// `a // d` of an `int32` in a range, for a divisor that is not a power of two.
fn quotient(arena: &mut Arena, a: ExprId, d: i64, (lo, hi): (i64, i64)) -> Option<ExprId> {
    // Divide by the factor of two first, by a shift, which makes the operand smaller.
    let twos = d.trailing_zeros();
    if twos > 0 {
        let by = arena.int(i64::from(twos), DType::Int32);
        let half = arena.call(Intrinsic::ShiftRight, &[a, by]);
        return quotient(arena, half, d >> twos, (lo >> twos, hi >> twos));
    }
    let up = if lo < 0 { (d - 1 - lo) / d } else { 0 };
    let most = hi + up * d;
    let (factor, shift) = (1..31).find_map(|s| {
        let factor = (1i64 << s) / d + 1;
        let excess = factor * d - (1 << s);
        let fits = most.checked_mul(factor).is_some_and(|p| p <= i64::from(i32::MAX));
        (fits && most.checked_mul(excess).is_some_and(|p| p < 1 << s)).then_some((factor, s))
    })?;
    let int = |arena: &mut Arena, v| arena.int(v, DType::Int32);
    let (moved, factor, shift) = (int(arena, up * d), int(arena, factor), int(arena, shift));
    let x = if up == 0 { a } else { arena.add(a, moved) };
    let product = arena.mul(x, factor);
    let shifted = arena.call(Intrinsic::ShiftRight, &[product, shift]);
    Some(if up == 0 {
        shifted
    } else {
        let up = int(arena, up);
        arena.sub(shifted, up)
    })
}

/// Depth of the range analysis.
const DEPTH: usize = 12;

/// The minimum and maximum of an integer of up to 32 bits.
fn range(arena: &Arena, e: ExprId, depth: usize) -> Option<(i64, i64)> {
    let dtype = arena.dtype(e);
    if !(dtype.is_int() || dtype.is_uint()) || dtype.bytes() > 4 {
        return None;
    }
    let all = (dtype.min_value().ok()?, dtype.max_value().ok()?);
    if depth == DEPTH {
        return Some(all);
    }
    let of = |e| range(arena, e, depth + 1);
    let found = match arena.expr(e) {
        _ if depth == 0
            && let Some(range) = at_corners(arena, e) =>
        {
            Some(range)
        }
        Expr::Int(v) => Some((v, v)),
        Expr::Cast(a) => of(a),
        Expr::Broadcast(a) => of(a),
        Expr::Select(_, t, o) | Expr::IfThenElse(_, t, o) => match (of(t), of(o)) {
            (Some(t), Some(o)) => Some((t.0.min(o.0), t.1.max(o.1))),
            _ => None,
        },
        Expr::Binary(op, a, b) => match (of(a), of(b)) {
            (Some(a), Some(b)) => combined(op, a, b),
            _ => None,
        },
        Expr::Call(Intrinsic::BitAnd, list) => match (of(arena.list(list)[0]), of(arena.list(list)[1])) {
            (Some((0.., a)), Some((0.., b))) => Some((0, a.min(b))),
            (Some((0.., most)), Some(_)) | (Some(_), Some((0.., most))) => Some((0, most)),
            _ => None,
        },
        _ => None,
    };
    // A value that overflows wraps around, so nothing is known.
    Some(found.filter(|f| all.0 <= f.0 && f.1 <= all.1).unwrap_or(all))
}

/// Maximum number of values in a polynomial: all combinations of their ends are evaluated.
const MOST_VALUES: usize = 6;

/// The range of a polynomial in which no value is multiplied by itself. It is linear in each value, so its extremes are
/// at ends of their ranges: `a * t + b * (255 - t)` is at most the larger of `a` and `b`, times 255.
fn at_corners(arena: &Arena, e: ExprId) -> Option<(i64, i64)> {
    let mut values = Vec::new();
    note_values(arena, e, &mut values)?;
    let mut found: Option<(i64, i64)> = None;
    for corner in 0..1u32 << values.len() {
        let at = |e: ExprId| {
            let i = values.iter().position(|v| v.0 == e)?;
            let (lo, hi) = values[i].1;
            Some(if corner >> i & 1 == 0 { lo } else { hi })
        };
        let v = value_at(arena, e, &at)?;
        found = Some(found.map_or((v, v), |(lo, hi)| (lo.min(v), hi.max(v))));
    }
    found
}

/// Collects the values of a polynomial with their ranges; returns a bit mask of those that occur. `None` if a value may
/// be multiplied by itself, or if there are too many.
fn note_values(arena: &Arena, e: ExprId, values: &mut Vec<(ExprId, (i64, i64))>) -> Option<u32> {
    match arena.expr(e) {
        Expr::Int(_) => Some(0),
        Expr::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul), a, b) if arena.dtype(e) == DType::Int32 => {
            let (a, b) = (note_values(arena, a, values)?, note_values(arena, b, values)?);
            (op != BinOp::Mul || a & b == 0).then_some(a | b)
        }
        _ => {
            if let Some(i) = values.iter().position(|v| v.0 == e) {
                return Some(1 << i);
            }
            values.push((e, range(arena, e, 1)?));
            (values.len() <= MOST_VALUES).then(|| 1 << (values.len() - 1))
        }
    }
}

/// The polynomial's value at a corner; `None` if it overflows, since other corners then say nothing.
fn value_at(arena: &Arena, e: ExprId, at: &impl Fn(ExprId) -> Option<i64>) -> Option<i64> {
    let value = match arena.expr(e) {
        Expr::Int(v) => v,
        Expr::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul), a, b) if arena.dtype(e) == DType::Int32 => {
            let (a, b) = (value_at(arena, a, at)?, value_at(arena, b, at)?);
            match op {
                BinOp::Add => a + b,
                BinOp::Sub => a - b,
                _ => a * b,
            }
        }
        _ => at(e)?,
    };
    i32::try_from(value).is_ok().then_some(value)
}

/// The range of an operation on two values of known ranges, all of at most 32 bits.
fn combined(op: BinOp, a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    match op {
        BinOp::Add => Some((a.0 + b.0, a.1 + b.1)),
        BinOp::Sub => Some((a.0 - b.1, a.1 - b.0)),
        BinOp::Mul => {
            let ends = [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
            Some((ends.into_iter().min()?, ends.into_iter().max()?))
        }
        BinOp::Min => Some((a.0.min(b.0), a.1.min(b.1))),
        BinOp::Max => Some((a.0.max(b.0), a.1.max(b.1))),
        BinOp::FloorDiv if b.0 == b.1 && b.0 > 0 => Some((a.0.div_euclid(b.0), a.1.div_euclid(b.0))),
        BinOp::FloorMod if b.0 == b.1 && b.0 > 0 => Some((0, b.0 - 1)),
        _ => None,
    }
}
