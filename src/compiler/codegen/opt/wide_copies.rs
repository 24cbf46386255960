//! Keeps copies of 16-bit floats in `float32`, if they are converted more often than they are stored.
//!
//! ```text
//! for c in 64: for i in 58: for j in 58: P[c * 3364 + i * 58 + j] = if_then_else(inside(i, j), X[…], 0.0)
//! for …: S[…] = S[…] + cast(float32, P[…]) * W[…]
//! // becomes
//! for c in 64: for i in 58: for j in 58: Q[c * 3364 + i * 58 + j] = cast(float32, if_then_else(inside(i, j), X[…], 0.0))
//! for …: S[…] = S[…] + Q[…] * W[…]
//! ```
//!
//! So a convolution converts its padded data once, instead of for each group of its results. The values are the same.

use super::machine::Machine;
use crate::ir::DType;
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, map_operands};
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, Kernel, Stmt, Storage, Ty};

/// Minimum number of conversions for each store.
const OFTEN: i64 = 4;

/// Maximum size in bytes of a copy: what a second-level cache holds.
const MAX_COPY: i64 = 2 << 20;

/// Widens all such copies of the kernel. Returns whether there are any.
pub(super) fn wide_copies(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let is_copy = |dtype: DType| matches!(dtype, DType::Float16 | DType::BFloat16);
    let halves = kernel.buffers().filter(|(_, b)| is_copy(b.dtype) && !b.is_param() && b.len <= MAX_COPY / 4);
    let mut changed = false;
    for copy in halves.map(|(id, _)| id).collect::<Vec<_>>() {
        let mut uses = Uses { copy, stores: 0, conversions: 0, are_plain: true };
        uses.body(kernel, kernel.body, 1);
        if uses.are_plain && uses.stores > 0 && uses.conversions >= uses.stores.saturating_mul(OFTEN) {
            widen(kernel, copy);
            changed = true;
        }
    }
    changed
}

/// How a kernel uses a copy.
struct Uses {
    copy: BufferId,
    /// How many elements are stored.
    stores: i64,
    /// How many elements are converted to `float32`.
    conversions: i64,
    /// Whether what is stored are other elements of the type, and nothing else is done with them than to convert them.
    are_plain: bool,
}

impl Uses {
    fn body(&mut self, kernel: &Kernel, body: Body, times: i64) {
        for &s in kernel.stmts.list(body) {
            self.stmt(kernel, kernel.stmts.get(s), times);
        }
    }

    fn stmt(&mut self, kernel: &Kernel, stmt: Stmt, times: i64) {
        let arena = &kernel.arena;
        for_each_operand(stmt, |e| {
            self.are_plain &= !self.is_element(arena, e);
            for_each_expr(arena, e, &mut |e| match arena.expr(e) {
                Expr::Cast(a) if self.is_element(arena, a) && arena.ty(e) == Ty::scalar(DType::Float32) => {
                    self.conversions = self.conversions.saturating_add(times);
                }
                _ => arena.for_each_child(e, |child| self.are_plain &= !self.is_element(arena, child)),
            });
        });
        match stmt {
            Stmt::Store { buffer, value, .. } if buffer == self.copy => {
                self.stores = self.stores.saturating_add(times);
                self.are_plain &= is_element_of(arena, value, kernel.buffer(buffer).dtype);
            }
            Stmt::For(l) => {
                let n = arena.as_int(l.extent).unwrap_or(1);
                self.body(kernel, l.body, times.saturating_mul(n));
            }
            Stmt::If { then, otherwise, .. } => {
                self.body(kernel, then, times);
                self.body(kernel, otherwise, times);
            }
            Stmt::While { body, .. } => self.body(kernel, body, times),
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
        }
    }

    fn is_element(&self, arena: &Arena, e: ExprId) -> bool {
        matches!(arena.expr(e), Expr::Load(buffer, _) if buffer == self.copy)
    }
}

/// Whether a value is a scalar of a type that was not computed: loaded, a constant, or one of two such values.
fn is_element_of(arena: &Arena, e: ExprId, dtype: DType) -> bool {
    arena.ty(e) == Ty::scalar(dtype)
        && match arena.expr(e) {
            Expr::Load(..) | Expr::Float(_) => true,
            Expr::Select(_, a, b) | Expr::IfThenElse(_, a, b) => {
                is_element_of(arena, a, dtype) && is_element_of(arena, b, dtype)
            }
            _ => false,
        }
}

/// Replaces a copy by one of `float32`.
fn widen(kernel: &mut Kernel, copy: BufferId) {
    let old = *kernel.buffer(copy);
    let Storage::Scratch(placement) = old.storage else { return };
    let wide = kernel.add_scratch(format!("{}_wide", old.name).as_str(), DType::Float32, old.len, placement);
    let mut memo = ExprMap::default();
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let arena = &mut kernel.arena;
        let stmt = match stmt {
            Stmt::Store { buffer, index, value } if buffer == copy => {
                Stmt::Store { buffer: wide, index, value: arena.cast(DType::Float32, value) }
            }
            _ => stmt,
        };
        let mut element = |arena: &mut Arena, e| match arena.expr(e) {
            Expr::Cast(a) => match arena.expr(a) {
                Expr::Load(buffer, index) if buffer == copy => {
                    Some(arena.load(wide, index, Ty::scalar(DType::Float32)))
                }
                _ => None,
            },
            _ => None,
        };
        let new = map_operands(stmt, |e| map_expr(arena, e, &mut memo, &mut element));
        out.push(if new == kernel.stmts.get(id) { id } else { kernel.stmts.push(new) });
    });
}
