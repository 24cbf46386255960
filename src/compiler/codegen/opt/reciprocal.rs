//! Replaces divisions by a loop-invariant value by multiplications with its reciprocal.
//!
//! ```text
//! for j in 64: Y[i * 64 + j] = X[i * 64 + j] / S[i]
//! // becomes
//! for j in 64: Y[i * 64 + j] = X[i * 64 + j] * (1.0 / S[i])
//! ```
//!
//! A division takes as long as several multiplications, and the reciprocal is hoisted. The result is rounded twice, so
//! this is not done if floats must be computed as written, or where integers are divided; a subnormal reciprocal becomes zero.
//! Reciprocals of 16-bit floats are computed and used in `float32`. This pass runs before vectorisation, so that vectors and
//! remainder loops compute the same.

use super::machine::Machine;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, map_expr, map_operands};
use crate::loopir::{Arena, BufferId, Expr, ExprId, For, Kernel, Stmt, Ty, VarId};
use hashbrown::HashSet;

/// Replaces divisions by constants, and by values that are invariant in an enclosing loop.
pub(super) fn reciprocal(kernel: &mut Kernel, machine: &Machine) {
    if !machine.reassociates {
        return;
    }
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let new = match stmt {
            Stmt::For(l) => in_loop(kernel, l),
            other => other,
        };
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
}

/// Variables, buffers and registers that change between iterations.
#[derive(Default)]
struct Changes {
    vars: HashSet<VarId, FxBuild>,
    buffers: HashSet<BufferId, FxBuild>,
}

impl Changes {
    fn touches(&self, arena: &Arena, e: ExprId) -> bool {
        let mut found = false;
        for_each_expr(arena, e, &mut |e| {
            found |= match arena.expr(e) {
                Expr::Var(v) => self.vars.contains(&v),
                Expr::Load(b, _) => self.buffers.contains(&b),
                Expr::Local(_) => true,
                _ => false,
            }
        });
        found
    }
}

fn in_loop(kernel: &mut Kernel, l: For) -> Stmt {
    let mut changes = Changes::default();
    changes.vars.insert(l.var);
    kernel.for_each_stmt(l.body, &mut |_, stmt| match stmt {
        Stmt::For(For { var, .. }) | Stmt::Let { var, .. } => {
            changes.vars.insert(var);
        }
        Stmt::Store { buffer, .. } => {
            changes.buffers.insert(buffer);
        }
        Stmt::If { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
    });
    let mut memo = ExprMap::default();
    let body = kernel.rebuild(l.body, &mut |kernel, _, id, stmt, out| {
        let new =
            map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut memo, &mut |a, e| product(a, e, &changes)));
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
    Stmt::For(For { body, ..l })
}

fn product(arena: &mut Arena, e: ExprId, changes: &Changes) -> Option<ExprId> {
    let Expr::Binary(BinOp::Div, a, b) = arena.expr(e) else { return None };
    let dtype = arena.dtype(e);
    let digits = match dtype {
        DType::Float32 | DType::Float64 => dtype,
        // Rounded to 16 bits, a reciprocal would lose too many digits.
        DType::Float16 | DType::BFloat16 => DType::Float32,
        _ => return None,
    };
    if arena.lanes(e) != 1 {
        return None;
    }
    let one = arena.constant(1, Ty::scalar(dtype));
    if is_quotient_of_integers(arena, a, b) {
        return None;
    }
    // A quotient that is completely invariant is hoisted unchanged.
    if a == one || changes.touches(arena, b) || !changes.touches(arena, a) {
        return None;
    }
    let one = arena.constant(1, Ty::scalar(digits));
    let [a, b] = [a, b].map(|operand| arena.cast(digits, operand));
    let inverse = arena.binary(BinOp::Div, one, b);
    let value = arena.binary(BinOp::Mul, a, inverse);
    Some(arena.cast(dtype, value))
}

/// Whether a dividend and a divisor are integers that were converted. Their quotient may be rounded to an integer, and must not be a little
/// less than a whole number ([`divide_in_floats`](super::divide_in_floats)).
pub(super) fn is_quotient_of_integers(arena: &Arena, dividend: ExprId, divisor: ExprId) -> bool {
    let is_integer = |e| matches!(arena.expr(e), Expr::Cast(x) if !arena.dtype(x).is_float());
    is_integer(dividend) && is_integer(divisor)
}
