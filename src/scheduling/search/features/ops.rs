//! The operations of one execution of a store, without index arithmetic.

use crate::ir::Func;
use crate::ir::expr::{Expr, ExprId};
use crate::ir::op::{BinOp, Intrinsic};

/// Numbers of operations of one execution.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Ops {
    /// Float additions, multiplications, comparisons and similar.
    pub float: f64,
    /// Additions of a product, which are one instruction with the multiplication.
    pub fused: f64,
    /// Integer operations.
    pub int: f64,
    /// Function calls, divisions and square roots.
    pub slow: f64,
    /// Cycles of all slow operations, per vector.
    pub slow_cycles: f64,
    /// Conversions.
    pub casts: f64,
    /// Selections and conditional values.
    pub selects: f64,
}

impl Ops {
    /// Adds the operations of an expression.
    pub(super) fn add(&mut self, func: &Func, e: ExprId) {
        let arena = &func.arena;
        match arena.expr(e) {
            // Indices become addresses, which loops increment.
            Expr::Load(..) => return,
            Expr::Binary(op, a, b) => {
                let is_float = arena.dtype(e).is_float();
                match op {
                    BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                        self.slow += 1.0;
                        self.slow_cycles += if is_float { DIVISION } else { INT_DIVISION };
                    }
                    _ if is_float => self.float += 1.0,
                    _ => self.int += 1.0,
                }
                let is_product = |e| matches!(arena.expr(e), Expr::Binary(BinOp::Mul, ..));
                if is_float && matches!(op, BinOp::Add | BinOp::Sub) && (is_product(a) || is_product(b)) {
                    self.fused += 1.0;
                }
            }
            Expr::Compare(..) | Expr::Not(_) => self.int += 1.0,
            Expr::Cast(a) if arena.dtype(a) != arena.dtype(e) => self.casts += 1.0,
            Expr::Select(..) | Expr::IfThenElse(..) => self.selects += 1.0,
            Expr::Call(f, _) => {
                self.slow += 1.0;
                self.slow_cycles += call(f);
            }
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) | Expr::Cast(_) | Expr::Let(..) => {}
            Expr::Ramp(..) | Expr::Broadcast(_) | Expr::Shuffle(..) | Expr::Builtin(..) | Expr::BufferData(_) => {}
        }
        arena.for_each_child(e, |c| self.add(func, c));
    }

    /// Number of instructions, with fused multiplications counted once.
    pub(super) fn instructions(&self) -> f64 {
        self.float - self.fused + self.int + self.casts + self.selects
    }
}

const DIVISION: f64 = 8.0;
const INT_DIVISION: f64 = 40.0;

/// Cycles of a function per vector, from the length of its expansion (`codegen/opt/functions`).
fn call(f: Intrinsic) -> f64 {
    match f {
        Intrinsic::Abs | Intrinsic::Fma | Intrinsic::Likely | Intrinsic::Assume | Intrinsic::CopySign => 1.0,
        Intrinsic::Floor | Intrinsic::Ceil | Intrinsic::Trunc | Intrinsic::Round | Intrinsic::NearbyInt => 1.0,
        Intrinsic::BitAnd | Intrinsic::BitOr | Intrinsic::BitXor | Intrinsic::BitNot => 1.0,
        Intrinsic::ShiftLeft | Intrinsic::ShiftRight | Intrinsic::IsNan | Intrinsic::IsInf | Intrinsic::IsFinite => 2.0,
        Intrinsic::PopCount | Intrinsic::Clz => 8.0,
        Intrinsic::Sqrt => 10.0,
        Intrinsic::Rsqrt | Intrinsic::Exp | Intrinsic::Exp2 | Intrinsic::Exp10 => 12.0,
        Intrinsic::Log | Intrinsic::Log2 | Intrinsic::Log10 | Intrinsic::Log1p | Intrinsic::Sigmoid => 18.0,
        Intrinsic::Tanh | Intrinsic::Erf => 22.0,
        Intrinsic::Sin | Intrinsic::Cos | Intrinsic::Tan => 28.0,
        Intrinsic::Pow => 40.0,
        // One call per lane.
        Intrinsic::Asin
        | Intrinsic::Acos
        | Intrinsic::Atan
        | Intrinsic::Sinh
        | Intrinsic::Cosh
        | Intrinsic::Asinh
        | Intrinsic::Acosh
        | Intrinsic::Atanh
        | Intrinsic::Atan2
        | Intrinsic::Fmod
        | Intrinsic::NextAfter
        | Intrinsic::Hypot => 400.0,
    }
}
