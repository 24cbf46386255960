//! A traversal that passes over loops share.

use crate::loopir::{Body, For, Kernel, Stmt, StmtId};

/// Emits the replacement of a loop, which is given with its statement.
pub(super) type OnLoop<'a> = dyn FnMut(&mut Kernel, StmtId, For, &mut Vec<StmtId>) + 'a;

/// Replaces each outermost loop of a body by what `on_loop` emits. The traversal enters `if`s; unchanged statements
/// keep their ids.
pub(super) fn replace_loops(kernel: &mut Kernel, old: Body, on_loop: &mut OnLoop<'_>) -> Body {
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    for i in 0..old.len() {
        let s = kernel.stmts.list(old)[i];
        match kernel.stmts.get(s) {
            Stmt::For(l) => on_loop(kernel, s, l, &mut out),
            Stmt::If { condition, then, otherwise } => {
                let (yes, no) = (replace_loops(kernel, then, on_loop), replace_loops(kernel, otherwise, on_loop));
                let same = (yes, no) == (then, otherwise);
                let new = Stmt::If { condition, then: yes, otherwise: no };
                out.push(if same { s } else { kernel.stmts.push(new) });
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {
                out.push(s)
            }
        }
    }
    if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
}
