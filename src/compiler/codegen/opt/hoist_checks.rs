//! Moves checks out of loops that do not change their conditions.
//!
//! ```text
//! for j in 128 {
//!   check I[i] >= 0 && I[i] < 30522 else out_of_bounds(A)
//!   C[i * 128 + j] = A[I[i] * 128 + j]
//! }
//! // becomes
//! check I[i] >= 0 && I[i] < 30522 else out_of_bounds(A)
//! for j in 128: C[i * 128 + j] = A[I[i] * 128 + j]
//! ```
//!
//! Loops without checks can be vectorised. The loop must have an iteration, and must not write what the condition reads.
//! If the check fails, stores that the loop made before it are missing, which nobody may rely on.

use super::walk::replace_loops;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Body, BufferId, Expr, ExprId, For, Kernel, Stmt, StmtId, VarId};
use hashbrown::HashSet;

/// Moves all such checks.
pub(super) fn hoist_checks(kernel: &mut Kernel) {
    kernel.body = body(kernel, kernel.body);
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    replace_loops(kernel, old, &mut for_loop)
}

fn for_loop(kernel: &mut Kernel, s: StmtId, l: For, out: &mut Vec<StmtId>) {
    let inner = body(kernel, l.body);
    let runs = kernel.arena.as_int(l.extent).is_some_and(|n| n > 0);
    let changed = Changed::in_loop(kernel, &l, inner);
    let is_moved = |s: &StmtId| match kernel.stmts.get(*s) {
        Stmt::Check { condition, .. } => runs && !changed.affects(kernel, condition),
        _ => false,
    };
    let (moved, kept): (Vec<StmtId>, Vec<StmtId>) = kernel.stmts.list(inner).iter().partition(|&s| is_moved(s));
    if moved.is_empty() && inner == l.body {
        return out.push(s);
    }
    let body = if moved.is_empty() { inner } else { kernel.stmts.body(&kept) };
    out.extend(moved);
    out.push(kernel.stmts.push(Stmt::For(For { body, ..l })));
}

/// What differs between the iterations of a loop.
struct Changed {
    vars: HashSet<VarId, FxBuild>,
    buffers: HashSet<BufferId, FxBuild>,
}

impl Changed {
    fn in_loop(kernel: &Kernel, l: &For, body: Body) -> Changed {
        let mut changed = Changed { vars: HashSet::from_iter([l.var]), buffers: HashSet::default() };
        kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
            Stmt::For(For { var, .. }) | Stmt::Let { var, .. } => {
                changed.vars.insert(var);
            }
            Stmt::Store { buffer, .. } => {
                changed.buffers.insert(buffer);
            }
            Stmt::Set { .. } | Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        });
        changed
    }

    fn affects(&self, kernel: &Kernel, e: ExprId) -> bool {
        let mut found = false;
        for_each_expr(&kernel.arena, e, &mut |e| {
            found |= match kernel.arena.expr(e) {
                Expr::Var(v) => self.vars.contains(&v),
                Expr::Load(buffer, _) => self.buffers.contains(&buffer),
                Expr::Local(_) => true,
                _ => false,
            };
        });
        found
    }
}
