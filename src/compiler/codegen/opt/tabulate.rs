//! Computes reciprocals of divisors that depend on indices alone once, where they repeat.
//!
//! ```text
//! for c in 192: for h in 35: for w in 35: Y[c * 1225 + h * 35 + w] = S[c * 1225 + h * 35 + w] / cast(float32, f(h, w))
//! // becomes
//! for h in 35: for w in 35: T[h * 35 + w] = 1.0 / cast(float32, f(h, w))
//! for c in 192: for h in 35: for w in 35: Y[c * 1225 + h * 35 + w] = S[c * 1225 + h * 35 + w] * T[h * 35 + w]
//! ```
//!
//! An average over a window counts the elements inside the image, which takes integer arithmetic and a division for each
//! result, but is the same for all channels. As with [`reciprocal`](super::reciprocal), this is not done if floats must be
//! computed as written.

use super::machine::Machine;
use crate::codegen::facts::{fails, reads_state};
use crate::ir::BinOp;
use crate::ir::DType;
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, map_expr, map_operands, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, Ty,
    VarId,
};

/// Minimum number of uses of each reciprocal.
const REPEATED: i64 = 4;

/// Maximum number of reciprocals of a table, which should stay in the nearest cache.
const MAX_TABLE: i64 = 8192;

/// Tabulates reciprocals in the outermost loops of the kernel. Returns whether there are any.
pub(super) fn tabulate(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.reassociates {
        return false;
    }
    let old = kernel.body;
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    for i in 0..old.len() {
        let s = kernel.stmts.list(old)[i];
        let mut tables = Tables::default();
        let new = tables.stmt(kernel, s, &mut Vec::new());
        out.extend(tables.made);
        out.push(new);
    }
    let changed = kernel.stmts.list(old) != out;
    if changed {
        kernel.body = kernel.stmts.body(&out);
    }
    changed
}

/// The tables before an outermost loop.
#[derive(Default)]
struct Tables {
    /// Divisors, each with its table and the index of its reciprocal there.
    known: Vec<(ExprId, BufferId, ExprId)>,
    /// The loops that fill the tables.
    made: Vec<StmtId>,
}

impl Tables {
    fn body(&mut self, kernel: &mut Kernel, body: Body, around: &mut Vec<For>) -> Body {
        let old = kernel.stmts.list(body).to_vec();
        let new: Vec<StmtId> = old.iter().map(|&s| self.stmt(kernel, s, around)).collect();
        if old == new { body } else { kernel.stmts.body(&new) }
    }

    fn stmt(&mut self, kernel: &mut Kernel, s: StmtId, around: &mut Vec<For>) -> StmtId {
        let stmt = kernel.stmts.get(s);
        let new = match stmt {
            Stmt::For(l) => {
                around.push(l);
                let body = self.body(kernel, l.body, around);
                around.pop();
                Stmt::For(For { body, ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let then = self.body(kernel, then, around);
                Stmt::If { condition, then, otherwise: self.body(kernel, otherwise, around) }
            }
            Stmt::Store { .. } => {
                let mut found: Vec<ExprId> = Vec::new();
                if let Stmt::Store { value, .. } = stmt {
                    for_each_expr(&kernel.arena, value, &mut |e| {
                        if let Expr::Binary(BinOp::Div, a, b) = kernel.arena.expr(e)
                            && kernel.arena.as_const(a).is_none()
                            && !found.contains(&b)
                        {
                            found.push(b);
                        }
                    });
                }
                for divisor in found {
                    self.fill(kernel, divisor, around);
                }
                let known = &self.known;
                let product = |arena: &mut Arena, e| {
                    let Expr::Binary(BinOp::Div, a, b) = arena.expr(e) else { return None };
                    let &(_, table, index) = known.iter().find(|k| k.0 == b)?;
                    let ty = arena.ty(e);
                    let inverse = arena.load(table, index, ty);
                    Some(arena.binary(BinOp::Mul, a, inverse))
                };
                let mut memo = ExprMap::default();
                map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut memo, &mut { product }))
            }
            Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => stmt,
        };
        if new == stmt { s } else { kernel.stmts.push(new) }
    }

    /// Makes a table for a divisor if its values repeat in the loops around.
    fn fill(&mut self, kernel: &mut Kernel, divisor: ExprId, around: &[For]) {
        if self.known.iter().any(|k| k.0 == divisor) {
            return;
        }
        let Some(loops) = table_loops(kernel, divisor, around) else { return };
        let one = kernel.arena.constant(1, kernel.arena.ty(divisor));
        let inverse = kernel.arena.binary(BinOp::Div, one, divisor);
        let table = Table::of(kernel, "reciprocals", inverse, &loops, Placement::Shared);
        self.made.push(table.fill);
        self.known.push((divisor, table.buffer, table.index));
    }
}

/// The values of an expression in all iterations of some loops.
pub(super) struct Table {
    pub buffer: BufferId,
    /// The element of the current iterations.
    pub index: ExprId,
    /// The loops that compute the values.
    pub fill: StmtId,
}

impl Table {
    /// The table of an expression over the iterations of loops, given with their extents. What else it depends on must be the same
    /// where the table is filled.
    pub(super) fn of(
        kernel: &mut Kernel,
        name: &str,
        value: ExprId,
        loops: &[(VarId, i64)],
        placement: Placement,
    ) -> Table {
        let mut left: i64 = loops.iter().map(|l| l.1).product();
        let buffer = kernel.add_scratch(name, kernel.arena.dtype(value), left, placement);
        let (mut index, mut own) = (Affine::default(), Affine::default());
        let mut substitution = Substitution::default();
        let mut vars = Vec::new();
        for &(old, n) in loops {
            left /= n;
            let (var, e) = kernel.arena.new_index(kernel.arena.var(old).name);
            substitution.set(old, e);
            own.add_term(e, left);
            let old = kernel.arena.var_expr(old);
            index.add_term(old, left);
            vars.push((var, n));
        }
        let value = substitution.expr(&mut kernel.arena, value);
        let own = own.to_expr(&mut kernel.arena);
        let mut fill = kernel.store(buffer, own, value);
        for (var, n) in vars.into_iter().rev() {
            let (extent, body) = (kernel.arena.index(n), kernel.stmts.body(&[fill]));
            let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
            fill = kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints: Hints::default(), body }));
        }
        Table { buffer, index: index.to_expr(&mut kernel.arena), fill }
    }
}

/// The loops that a divisor depends on, with their extents, if it is made of indices and repeats often enough in the other
/// loops.
fn table_loops(kernel: &Kernel, divisor: ExprId, around: &[For]) -> Option<Vec<(VarId, i64)>> {
    let arena = &kernel.arena;
    let ty = arena.ty(divisor);
    let is_float = ty == Ty::scalar(DType::Float32) || ty == Ty::scalar(DType::Float64);
    if !is_float || reads_state(arena, divisor) || fails(arena, divisor) {
        return None;
    }
    // Arguments and names of values are not loops.
    let is_loop = |v: VarId| around.iter().any(|l| l.var == v);
    if mentions_var(arena, divisor, &mut |v| !is_loop(v)) {
        return None;
    }
    let uses = |l: &For| mentions_var(arena, divisor, &mut |v| v == l.var);
    // A divisor that the innermost loop shares needs no table.
    if !around.last().is_some_and(uses) {
        return None;
    }
    let (mut loops, mut len, mut repeats) = (Vec::new(), 1i64, 1i64);
    for l in around {
        let n = arena.as_int(l.extent).filter(|&n| n > 0)?;
        if uses(l) {
            loops.push((l.var, n));
            len = len.saturating_mul(n);
        } else {
            repeats = repeats.saturating_mul(n);
        }
    }
    (len <= MAX_TABLE && repeats >= REPEATED).then_some(loops)
}
