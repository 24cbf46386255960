//! Bounds of floats. Where they are known, no lane needs care for NaN or overflow when floats become integers.

use crate::ir::{BinOp, Const, DType, Intrinsic};
use crate::loopir::{Arena, Expr, ExprId};

/// The ends of an interval that contains a value which is never NaN. They may be infinite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bounds {
    pub low: f64,
    pub high: f64,
}

/// Number of nodes of a value that are looked at.
const MOST_NODES: usize = 64;

/// The bounds of a float; `None` if it may be NaN.
pub(super) fn bounds(arena: &Arena, e: ExprId) -> Option<Bounds> {
    of(arena, e, &mut MOST_NODES.clone())
}

fn of(arena: &Arena, e: ExprId, left: &mut usize) -> Option<Bounds> {
    *left = left.checked_sub(1)?;
    if let Some(constant) = arena.as_const(e) {
        return match constant {
            Const::Float(v) if v.is_finite() => Some(Bounds { low: v, high: v }),
            Const::Int(v) => Some(Bounds { low: v as f64, high: v as f64 }),
            Const::Float(_) => None,
        };
    }
    let dtype = arena.dtype(e);
    match arena.expr(e) {
        Expr::Broadcast(a) => of(arena, a, left),
        // The second operand unless the first one is smaller, so that of a NaN and a number it is the number.
        Expr::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
            let b = of(arena, b, left)?;
            let a = of(arena, a, left).unwrap_or(Bounds { low: f64::NEG_INFINITY, high: f64::INFINITY });
            let pick = if op == BinOp::Min { f64::min } else { f64::max };
            Some(Bounds { low: pick(a.low, b.low), high: pick(a.high, b.high) })
        }
        Expr::Binary(BinOp::Add, a, b) => sum(of(arena, a, left)?, of(arena, b, left)?)?.rounded(dtype),
        Expr::Binary(BinOp::Sub, a, b) => sum(of(arena, a, left)?, of(arena, b, left)?.negated())?.rounded(dtype),
        Expr::Binary(BinOp::Mul, a, b) => product(of(arena, a, left)?, of(arena, b, left)?)?.rounded(dtype),
        Expr::Call(function, list) => match (function, arena.list(list)) {
            (Intrinsic::Fma, &[a, b, c]) => {
                let product = product(of(arena, a, left)?, of(arena, b, left)?)?;
                sum(product, of(arena, c, left)?)?.rounded(dtype)
            }
            (Intrinsic::Floor, &[a]) => Some(of(arena, a, left)?.map(f64::floor)),
            (Intrinsic::Ceil, &[a]) => Some(of(arena, a, left)?.map(f64::ceil)),
            (Intrinsic::Trunc, &[a]) => Some(of(arena, a, left)?.map(f64::trunc)),
            (Intrinsic::Round | Intrinsic::NearbyInt, &[a]) => Some(of(arena, a, left)?.map(f64::round_ties_even)),
            _ => None,
        },
        Expr::Select(_, t, o) => {
            let (t, o) = (of(arena, t, left)?, of(arena, o, left)?);
            Some(Bounds { low: t.low.min(o.low), high: t.high.max(o.high) })
        }
        Expr::Cast(a) if arena.dtype(a).is_float() => of(arena, a, left)?.rounded(dtype),
        Expr::Cast(a) if arena.dtype(a).is_integer() => {
            let (low, high) = (arena.dtype(a).min_value().ok()?, arena.dtype(a).max_value().ok()?);
            Bounds { low: low as f64, high: high as f64 }.rounded(dtype)
        }
        _ => None,
    }
}

impl Bounds {
    /// The bounds after a rounding to a type; `None` if a number may become infinite, so that later ones may be NaN.
    fn rounded(self, dtype: DType) -> Option<Bounds> {
        let (error, most) = match dtype {
            DType::Float64 => (f64::EPSILON, f64::MAX),
            DType::Float32 => (f64::from(f32::EPSILON), f64::from(f32::MAX)),
            // Intermediate results may be in `float32`.
            DType::BFloat16 => (1.0 / 128.0, f64::from(f32::MAX)),
            DType::Float16 => (1.0 / 1024.0, 65504.0),
            _ => return None,
        };
        let Bounds { low, high } = self;
        let (low, high) = (low - low.abs() * error, high + high.abs() * error);
        (-most < low && high < most).then_some(Bounds { low, high })
    }

    fn negated(self) -> Bounds {
        Bounds { low: -self.high, high: -self.low }
    }

    fn map(self, f: fn(f64) -> f64) -> Bounds {
        Bounds { low: f(self.low), high: f(self.high) }
    }

    fn is_finite(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

fn sum(a: Bounds, b: Bounds) -> Option<Bounds> {
    (a.is_finite() && b.is_finite()).then_some(Bounds { low: a.low + b.low, high: a.high + b.high })
}

fn product(a: Bounds, b: Bounds) -> Option<Bounds> {
    let all = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
    (a.is_finite() && b.is_finite()).then(|| Bounds {
        low: all.into_iter().fold(f64::INFINITY, f64::min),
        high: all.into_iter().fold(f64::NEG_INFINITY, f64::max),
    })
}
