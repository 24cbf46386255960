//! Writes out loops whose variable decides how often loops inside run.
//!
//! ```text
//! for i in 3: for k in (i * 7 + 9) // 3 - i * 7 // 3: Y[i] = Y[i] + X[i * 7 // 3 + k]
//! // becomes, once simplified
//! for k in 3: Y[0] = Y[0] + X[k]
//! for k in 3: Y[1] = Y[1] + X[k + 2]
//! for k in 3: Y[2] = Y[2] + X[k + 4]
//! ```
//!
//! The windows of adaptive pooling differ in size. Written out, they have constant sizes and places, which later passes
//! need, and accesses that are in bounds need no check.

use super::machine::Machine;
use crate::loopir::rewrite::{Substitution, mentions_var};
use crate::loopir::{Body, For, Kernel, LoopKind, Stmt, StmtId};

/// Maximum number of copies of a statement.
const MAX_COPIES: i64 = 64;

/// Writes out loops in the whole kernel. Returns whether there are any.
pub(super) fn specialize(kernel: &mut Kernel, _: &Machine) -> bool {
    let old = kernel.body;
    kernel.body = body(kernel, old, MAX_COPIES);
    kernel.body != old
}

/// `left` is the number of copies of the statements that may still be made.
fn body(kernel: &mut Kernel, old: Body, left: i64) -> Body {
    let stmts = kernel.stmts.list(old).to_vec();
    let mut out: Vec<StmtId> = Vec::with_capacity(stmts.len());
    for &s in &stmts {
        let stmt = kernel.stmts.get(s);
        let new = match stmt {
            Stmt::For(l) => match kernel.arena.as_int(l.extent) {
                Some(n @ 1..) if n <= left && l.kind != LoopKind::Parallel && decides(kernel, &l) => {
                    for i in 0..n {
                        let at = kernel.arena.index(i);
                        let copy = Substitution::of(l.var, at).copy(kernel, l.body);
                        let copy = body(kernel, copy, left / n);
                        out.extend_from_slice(kernel.stmts.list(copy));
                    }
                    continue;
                }
                _ => Stmt::For(For { body: body(kernel, l.body, left), ..l }),
            },
            Stmt::If { condition, then, otherwise } => {
                Stmt::If { condition, then: body(kernel, then, left), otherwise: body(kernel, otherwise, left) }
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => stmt,
        };
        out.push(if new == stmt { s } else { kernel.stmts.push(new) });
    }
    if stmts == out { old } else { kernel.stmts.body(&out) }
}

/// Whether the variable of a loop occurs in the extent of a loop inside.
fn decides(kernel: &Kernel, l: &For) -> bool {
    let mut found = false;
    kernel.for_each_stmt(l.body, &mut |_, stmt| {
        if let Stmt::For(inner) = stmt {
            found |= mentions_var(&kernel.arena, inner.extent, &mut |v| v == l.var);
        }
    });
    found
}
