//! Rounding to bytes takes in the scales before it.
//!
//! ```text
//! R.quantize(R.astype(sums, "float32") * m + b, s, z)    →    R.quantize(R.astype(sums, "float32") * (m / s) + b / s, 1, z)
//! R.quantize(x, s, z)                                    →    R.quantize(x * (1 / s), 1, z)
//! ```
//!
//! `R.quantize` divides exactly. What follows from bytes by arithmetic of floats, or from a sum of products, has been rounded before: there
//! it is enough to multiply by the inverse, and the result differs by one where it is as close to both. Other numbers are divided as before.

use super::floats::is_single;
use crate::graph::function::{CallId, Callee, ValueDef, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::DType;

/// Scales that may be divided by without leaving `float32`.
const MODERATE: std::ops::Range<f64> = 1e-20..1e20;

pub(super) fn with_scale(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.name == "quantize")?;
    let (x, scale, zero) = (args.value("data")?, args.value("scale")?, args.value("zero_point")?);
    let dtype = rw.dtype(rw.function.call(c).result)?;
    let is_float = rw.dtype(x) == Some(DType::Float32) && rw.dtype(scale) == Some(DType::Float32);
    // The axis of zero points stays that of scales.
    if !is_float || !is_single(rw, scale) || !is_single(rw, zero) || rw.scalar(scale) == Some(1.0) {
        return None;
    }
    // Those of weights are assumed to be moderate, as everywhere.
    if rw.scalar(scale).is_some_and(|s| !MODERATE.contains(&s.abs())) || !rw.is_invariant(scale) || !is_rounded(rw, x) {
        return None;
    }
    let scale = rw.reshaped(scale, Vec::new())?;
    let scaled = divided(rw, x, scale)?;
    let one = rw.add_scalar(1.0, DType::Float32)?;
    rw.quantized(scaled, one, zero, -1, dtype)
}

/// A value divided by a scale, which joins a scale that the value has already.
fn divided(rw: &mut Rewriter<'_>, x: ValueId, scale: ValueId) -> Option<ValueId> {
    match within(rw, x, scale) {
        Some(scaled) => Some(scaled),
        None => {
            let inverse = match rw.scalar(scale) {
                Some(scale) => rw.add_scalar(1.0 / scale, DType::Float32)?,
                None => {
                    let one = rw.add_scalar(1.0, DType::Float32)?;
                    rw.add_binary("divide", one, scale)?
                }
            };
            rw.add_binary("multiply", x, inverse)
        }
    }
}

/// A value with its scale divided by another one; `None` if it has none.
fn within(rw: &mut Rewriter<'_>, x: ValueId, scale: ValueId) -> Option<ValueId> {
    if !rw.has_uses(x, 1) {
        return None;
    }
    if rw.scalar(scale).is_some_and(|s| s > 0.0)
        && let Some(inner) = rw.operand_of(x, "nn.relu")
    {
        let inner = within(rw, inner, scale)?;
        return rw.add_unary("nn.relu", inner);
    }
    let invariant_last = |(a, b)| if rw.is_invariant(a) { (b, a) } else { (a, b) };
    if let Some((data, bias)) = rw.operands_of(x, "add").map(invariant_last).filter(|&(_, b)| rw.is_invariant(b)) {
        let data = within(rw, data, scale)?;
        let bias = rw.add_binary("divide", bias, scale)?;
        return rw.add_binary("add", data, bias);
    }
    let (data, factor) =
        rw.operands_of(x, "multiply").map(invariant_last).filter(|&(_, factor)| rw.is_invariant(factor))?;
    let factor = rw.add_binary("divide", factor, scale)?;
    rw.add_binary("multiply", data, factor)
}

/// Values that are looked at.
const MOST_VALUES: usize = 64;

/// Whether a value follows from bytes by arithmetic of floats, or from a sum of products, which has been rounded as well.
fn is_rounded(rw: &Rewriter<'_>, v: ValueId) -> bool {
    let mut open = vec![v];
    for _ in 0..MOST_VALUES {
        let Some(v) = open.pop() else { return false };
        let ValueDef::Call(c) = rw.function.value(v).def else { continue };
        let call = rw.function.call(c);
        let Callee::Op(op) = call.callee else { continue };
        if rw.is_invariant(v) {
            continue;
        }
        if matches!(op.name, "dequantize" | "matmul") || op.name.starts_with("nn.conv") {
            return true;
        }
        open.extend(call.inputs());
    }
    false
}
