//! Computes reciprocals of divisors once that several iterations of an outer loop share.
//!
//! ```text
//! for i in 64: for j in 1024: Y[i * 1024 + j] = X[i * 1024 + j] / S[j]
//! // becomes
//! for j in 1024: T[j] = 1.0 / S[j]
//! for i in 64: for j in 1024: Y[i * 1024 + j] = X[i * 1024 + j] * T[j]
//! ```
//!
//! A softmax over an outer axis and a normalization of the innermost one divide all rows by the same vector. The innermost loop
//! changes the divisor, so that no loop has one reciprocal ([`reciprocal`](super::reciprocal)); a table has those of a row. It is
//! filled before the outermost loop that leaves the divisors alone. A division of a vector takes as long as about ten
//! multiplications. As with [`reciprocal`](super::reciprocal), this is not done if floats must be computed as written.

use super::machine::Machine;
use super::reciprocal::is_quotient_of_integers;
use super::tabulate::Table;
use super::walk::{map_body, placement_inside, replace_loops};
use crate::codegen::facts::{fails, note_stores};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, map_operands, mentions_var};
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, For, Kernel, Placement, Stmt, StmtId, Ty, VarId};
use hashbrown::HashSet;

/// Minimum number of uses of each reciprocal: computing, storing and loading it should take no longer than the divisions.
const REPEATED: i64 = 3;

/// Maximum number of reciprocals of a table. They are read like the divisors, so no cache need hold them.
const MAX_TABLE: i64 = 65536;

/// Tabulates shared reciprocals in the whole kernel. Returns whether there are any.
pub(super) fn shared_divisors(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.reassociates {
        return false;
    }
    let before = kernel.body;
    kernel.body = in_body(kernel, before, Placement::Shared);
    kernel.body != before
}

fn in_body(kernel: &mut Kernel, old: Body, placement: Placement) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        let Some(extent) = kernel.arena.as_int(l.extent) else {
            out.push(s);
            return;
        };
        let mut tables = Tables::before(kernel, s, (l.var, extent), placement);
        let body = tables.body(kernel, l.body);
        out.extend(tables.made);
        let inside = placement_inside(&l, placement);
        let body = in_body(kernel, body, inside);
        out.push(if body == l.body { s } else { kernel.stmts.push(Stmt::For(For { body, ..l })) });
    })
}

/// The tables before a loop.
struct Tables {
    placement: Placement,
    /// The buffers that the loop writes.
    written: HashSet<BufferId, FxBuild>,
    /// The variables that the loop and statements inside it bind.
    bound: HashSet<VarId, FxBuild>,
    /// The loop, and those inside it around a statement, with their extents.
    around: Vec<(VarId, i64)>,
    /// The replacements of expressions in the loops around.
    memo: ExprMap,
    /// Divisors, each with its table and the index of its reciprocal there.
    known: Vec<(ExprId, BufferId, ExprId)>,
    /// The loops that fill the tables.
    made: Vec<StmtId>,
}

impl Tables {
    fn before(kernel: &Kernel, s: StmtId, outer: (VarId, i64), placement: Placement) -> Tables {
        let (mut written, mut bound) = (HashSet::default(), HashSet::default());
        note_stores(kernel, s, &mut written);
        kernel.for_each_within(s, &mut |_, stmt| {
            if let Stmt::For(For { var, .. }) | Stmt::Let { var, .. } = stmt {
                bound.insert(var);
            }
        });
        let (around, memo) = (vec![outer], ExprMap::default());
        Tables { placement, written, bound, around, memo, known: Vec::new(), made: Vec::new() }
    }

    /// The body of the innermost loop around. What a condition guards stays: a table would compute it unguarded.
    fn body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        map_body(kernel, body, &mut |kernel, old| match old {
            Stmt::For(l) => {
                let Some(n) = kernel.arena.as_int(l.extent).filter(|&n| n > 0) else { return old };
                self.around.push((l.var, n));
                let outer = std::mem::take(&mut self.memo);
                let body = self.body(kernel, l.body);
                self.memo = outer;
                self.around.pop();
                Stmt::For(For { body, ..l })
            }
            Stmt::Store { .. } if self.around.len() > 1 => map_operands(old, |e| self.expr(kernel, e)),
            Stmt::Store { .. }
            | Stmt::Let { .. }
            | Stmt::Set { .. }
            | Stmt::If { .. }
            | Stmt::Check { .. }
            | Stmt::While { .. } => old,
        })
    }

    /// An expression whose shared divisors are looked up.
    fn expr(&mut self, kernel: &mut Kernel, e: ExprId) -> ExprId {
        if let Some(&known) = self.memo.get(&e) {
            return known;
        }
        let new = match kernel.arena.expr(e) {
            // The operands of a choice are not always evaluated.
            Expr::Select(..) | Expr::IfThenElse(..) => e,
            Expr::Binary(BinOp::Div, a, b) => {
                let a = self.expr(kernel, a);
                match self.reciprocal(kernel, a, b) {
                    Some(inverse) => kernel.arena.binary(BinOp::Mul, a, inverse),
                    None => kernel.arena.binary(BinOp::Div, a, b),
                }
            }
            _ => kernel.map_children(e, |kernel, child| self.expr(kernel, child)),
        };
        self.memo.insert(e, new);
        new
    }

    /// The element of a table that has the reciprocal of a divisor.
    fn reciprocal(&mut self, kernel: &mut Kernel, dividend: ExprId, divisor: ExprId) -> Option<ExprId> {
        // A quotient that is shared itself is no better as a product.
        if !self.changes(&kernel.arena, dividend) || is_quotient_of_integers(&kernel.arena, dividend, divisor) {
            return None;
        }
        let ty = kernel.arena.ty(divisor);
        if let Some(&(_, table, index)) = self.known.iter().find(|k| k.0 == divisor) {
            return Some(kernel.arena.load(table, index, ty));
        }
        let loops = self.loops_of(&kernel.arena, divisor)?;
        let one = kernel.arena.constant(1, ty);
        let inverse = kernel.arena.binary(BinOp::Div, one, divisor);
        let table = Table::of(kernel, "reciprocals", inverse, &loops, self.placement);
        self.made.push(table.fill);
        self.known.push((divisor, table.buffer, table.index));
        Some(kernel.arena.load(table.buffer, table.index, ty))
    }

    /// Whether a value may differ between iterations of the outer loop.
    fn changes(&self, arena: &Arena, e: ExprId) -> bool {
        let inner = self.around.get(1..).unwrap_or_default();
        let mut found = false;
        for_each_expr(arena, e, &mut |e| {
            found |= match arena.expr(e) {
                Expr::Var(v) => self.bound.contains(&v) && !inner.iter().any(|l| l.0 == v),
                Expr::Load(buffer, _) => self.written.contains(&buffer),
                Expr::Local(_) => true,
                _ => false,
            }
        });
        found
    }

    /// The inner loops that a divisor depends on, with their extents, if the outer loop repeats its values often enough.
    fn loops_of(&self, arena: &Arena, divisor: ExprId) -> Option<Vec<(VarId, i64)>> {
        let is_float = [DType::Float32, DType::Float64].iter().any(|&dtype| arena.ty(divisor) == Ty::scalar(dtype));
        if !is_float || self.changes(arena, divisor) || fails(arena, divisor) {
            return None;
        }
        let uses = |l: &(VarId, i64)| mentions_var(arena, divisor, &mut |v| v == l.0);
        // A divisor that the innermost loop shares needs no table.
        if !self.around.last().is_some_and(uses) {
            return None;
        }
        let (used, others): (Vec<_>, Vec<_>) = self.around.iter().copied().partition(uses);
        let product = |loops: &[(VarId, i64)]| loops.iter().fold(1i64, |all, l| all.saturating_mul(l.1));
        (product(&used) <= MAX_TABLE && product(&others) >= REPEATED).then_some(used)
    }
}
