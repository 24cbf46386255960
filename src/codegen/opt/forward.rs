//! Gives loads the value that was just stored, and drops stores that the next one overwrites.
//!
//!     C[i] = 0.0
//!     c = C[i]
//!     for k in 64: c = c + A[k]
//!     C[i] = c
//!     // becomes
//!     c = 0.0
//!     for k in 64: c = c + A[k]
//!     C[i] = c
//!
//! Looks at the statements of one body at a time. Scratch that nothing reads any more is not written either.

use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, Kernel, LocalId, Stmt, StmtId, Storage, Ty};
use hashbrown::{HashMap, HashSet};

/// Forwards stored values in all bodies of the kernel.
pub fn forward(kernel: &mut Kernel) {
    kernel.body = body(kernel, kernel.body);
    drop_unread(kernel);
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    let mut known = Known::default();
    for i in 0..old.len() {
        let s = kernel.stmts.list(old)[i];
        let stmt = kernel.stmts.get(s);
        let new = match stmt {
            Stmt::For(l) => {
                known.forget_written(kernel, l.body);
                let inner = body(kernel, l.body);
                Stmt::For(crate::loopir::For { body: inner, ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (body(kernel, then), body(kernel, otherwise));
                known.forget_written(kernel, then);
                known.forget_written(kernel, otherwise);
                Stmt::If { condition, then, otherwise }
            }
            Stmt::Store { buffer, index, value } => {
                known.store(&kernel.arena, buffer, index, value);
                stmt
            }
            Stmt::Set { local, value } => {
                let value = known.value(&kernel.arena, value);
                known.forget_local(&kernel.arena, local);
                Stmt::Set { local, value }
            }
            Stmt::Let { var, value } => Stmt::Let { var, value: known.value(&kernel.arena, value) },
            Stmt::Check { .. } => stmt,
        };
        out.push(if new == stmt { s } else { kernel.stmts.push(new) });
    }
    drop_overwritten(kernel, &mut out);
    if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
}

/// What elements hold.
#[derive(Default)]
struct Known {
    values: HashMap<(BufferId, ExprId, Ty), ExprId, FxBuild>,
}

impl Known {
    fn store(&mut self, arena: &Arena, buffer: BufferId, index: ExprId, value: ExprId) {
        self.values.retain(|&(b, i, ty), _| b != buffer || are_apart(arena, (i, ty), (index, arena.ty(value))));
        // Only what stays what it is: constants, names, registers until they change.
        let stays = match arena.expr(value) {
            Expr::Int(_) | Expr::Float(_) | Expr::Var(_) | Expr::Local(_) => true,
            Expr::Broadcast(a) => matches!(arena.expr(a), Expr::Int(_) | Expr::Float(_) | Expr::Var(_)),
            _ => false,
        };
        if stays {
            self.values.insert((buffer, index, arena.ty(value)), value);
        }
    }

    fn value(&self, arena: &Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Load(buffer, index) => self.values.get(&(buffer, index, arena.ty(e))).copied().unwrap_or(e),
            _ => e,
        }
    }

    fn forget_local(&mut self, arena: &Arena, local: LocalId) {
        self.values.retain(|_, &mut v| arena.expr(v) != Expr::Local(local));
    }

    fn forget_written(&mut self, kernel: &Kernel, body: Body) {
        if self.values.is_empty() {
            return;
        }
        kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
            Stmt::Store { buffer, .. } => self.values.retain(|k, _| k.0 != buffer),
            Stmt::Set { local, .. } => self.forget_local(&kernel.arena, local),
            Stmt::For(_) | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Check { .. } => {}
        });
    }
}

/// Have two runs of elements of a buffer none in common, for certain?
fn are_apart(arena: &Arena, a: (ExprId, Ty), b: (ExprId, Ty)) -> bool {
    let difference = Affine::of(arena, b.0).minus(&Affine::of(arena, a.0));
    difference.as_constant().is_some_and(|d| d >= a.1.lanes as i64 || -d >= b.1.lanes as i64)
}

/// Removes stores to elements that a later statement of the list writes again before anything reads them.
fn drop_overwritten(kernel: &Kernel, stmts: &mut Vec<StmtId>) {
    let mut overwritten = HashSet::<(BufferId, ExprId, Ty), FxBuild>::default();
    let mut keep = vec![true; stmts.len()];
    for (n, &s) in stmts.iter().enumerate().rev() {
        let stmt = kernel.stmts.get(s);
        if let Stmt::Store { buffer, index, value } = stmt {
            keep[n] = overwritten.is_empty() || !overwritten.contains(&(buffer, index, kernel.arena.ty(value)));
            if !keep[n] {
                continue;
            }
            overwritten.insert((buffer, index, kernel.arena.ty(value)));
        }
        if overwritten.is_empty() {
            continue;
        }
        if matches!(stmt, Stmt::Check { .. }) {
            // What was stored before the kernel stops stays stored.
            overwritten.clear();
        }
        for_each_read(kernel, stmt, &mut |b| overwritten.retain(|k| k.0 != b));
    }
    let mut keep = keep.into_iter();
    stmts.retain(|_| keep.next().unwrap_or(true));
}

/// Calls `f` with each buffer that a statement and those inside it read.
fn for_each_read(kernel: &Kernel, stmt: Stmt, f: &mut impl FnMut(BufferId)) {
    let arena = &kernel.arena;
    let mut operands = |stmt: Stmt| {
        for_each_operand(stmt, |e| {
            for_each_expr(arena, e, &mut |e| {
                if let Expr::Load(b, _) = arena.expr(e) {
                    f(b);
                }
            });
        });
    };
    operands(stmt);
    match stmt {
        Stmt::For(l) => kernel.for_each_stmt(l.body, &mut |_, s| operands(s)),
        Stmt::If { then, otherwise, .. } => {
            kernel.for_each_stmt(then, &mut |_, s| operands(s));
            kernel.for_each_stmt(otherwise, &mut |_, s| operands(s));
        }
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
    }
}

/// Removes stores to scratch that nothing reads.
fn drop_unread(kernel: &mut Kernel) {
    let mut unread: Vec<bool> = kernel.buffers().map(|(_, b)| matches!(b.storage, Storage::Scratch(_))).collect();
    if !unread.contains(&true) {
        return;
    }
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(b, _) = kernel.arena.expr(e) {
                    unread[b.index()] = false;
                }
            });
        });
    });
    if !unread.contains(&true) {
        return;
    }
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |_, _, id, stmt, out| match stmt {
        Stmt::Store { buffer, .. } if unread[buffer.index()] => {}
        Stmt::For(l) if l.body.is_empty() => {}
        Stmt::For(_)
        | Stmt::If { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Set { .. }
        | Stmt::Check { .. } => out.push(id),
    });
}
