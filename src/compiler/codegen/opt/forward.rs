//! Forwards stored values to loads, and eliminates stores that are overwritten (dead stores).
//!
//! ```text
//! C[i] = 0.0
//! c = C[i]
//! for k in 64: c = c + A[k]
//! C[i] = c
//! // becomes
//! c = 0.0
//! for k in 64: c = c + A[k]
//! C[i] = c
//! ```
//!
//! So are sums that begin with an element of another buffer, such as a bias.
//!
//! The pass handles the statements of one body at a time. It also removes stores to scratch that nothing reads.

use crate::codegen::facts::{loads, may_stop, reads_state};
use crate::ir::BinOp;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, reads_memory};
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, Kernel, LocalId, Stmt, StmtId, Storage, Ty};
use hashbrown::HashMap;

/// Maximum number of known element ranges: more than a register tile has, and few enough to compare pairwise.
const MAX_ROWS: usize = 48;

/// Forwards stored values in all bodies of the kernel.
pub(super) fn forward(kernel: &mut Kernel) {
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
                let value = known.value(&mut kernel.arena, value);
                known.store(&kernel.arena, buffer, index, value);
                Stmt::Store { buffer, index, value }
            }
            Stmt::Set { local, value } => {
                let value = known.value(&mut kernel.arena, value);
                known.forget_local(&kernel.arena, local);
                Stmt::Set { local, value }
            }
            Stmt::Let { var, value } => Stmt::Let { var, value: known.value(&mut kernel.arena, value) },
            Stmt::Check { .. } | Stmt::While { .. } => stmt,
        };
        out.push(if new == stmt { s } else { kernel.stmts.push(new) });
    }
    drop_overwritten(kernel, &mut out);
    if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
}

/// The known contents of elements.
#[derive(Default)]
struct Known {
    values: HashMap<(BufferId, ExprId, Ty), ExprId, FxBuild>,
}

impl Known {
    fn store(&mut self, arena: &Arena, buffer: BufferId, index: ExprId, value: ExprId) {
        self.values.retain(|&(b, i, ty), _| b != buffer || are_apart(arena, (i, ty), (index, arena.ty(value))));
        self.forget_reads(arena, buffer);
        // Only invariant values: constants, let-bound names, registers until they change, and what takes an element or two
        // of other buffers until these change. The index must be invariant as well: one that reads memory may later select
        // another element.
        let is_known = match arena.expr(value) {
            Expr::Local(_) => true,
            Expr::Broadcast(a) => is_cheap(arena, a, buffer, DEEPEST),
            _ => is_cheap(arena, value, buffer, DEEPEST),
        };
        if is_known && !reads_state(arena, index) && self.values.len() < MAX_ROWS {
            self.values.insert((buffer, index, arena.ty(value)), value);
        }
    }

    /// Replaces the loads in an expression by known values.
    fn value(&self, arena: &mut Arena, e: ExprId) -> ExprId {
        if self.values.is_empty() || !reads_memory(arena, e) {
            return e;
        }
        map_expr(arena, e, &mut ExprMap::default(), &mut |arena, e| match arena.expr(e) {
            Expr::Load(buffer, index) => self.element(arena, buffer, index, arena.ty(e)),
            _ => None,
        })
    }

    fn element(&self, arena: &mut Arena, buffer: BufferId, index: ExprId, ty: Ty) -> Option<ExprId> {
        if let Some(&value) = self.values.get(&(buffer, index, ty)) {
            return Some(value);
        }
        // A part of a range of equal elements.
        let at = Affine::of(arena, index);
        let scalar = self.values.iter().find_map(|(&(b, i, wide), &value)| {
            let Expr::Broadcast(scalar) = arena.expr(value) else { return None };
            let offset = if b == buffer { at.minus(&Affine::of(arena, i)).as_constant()? } else { return None };
            (offset >= 0 && offset + ty.lanes as i64 <= wide.lanes as i64).then_some(scalar)
        })?;
        Some(arena.broadcast(scalar, ty.lanes))
    }

    fn forget_reads(&mut self, arena: &Arena, buffer: BufferId) {
        self.values.retain(|_, &mut v| !loads(arena, v, buffer));
    }

    fn forget_local(&mut self, arena: &Arena, local: LocalId) {
        self.values.retain(|_, &mut v| arena.expr(v) != Expr::Local(local));
    }

    fn forget_written(&mut self, kernel: &Kernel, body: Body) {
        if self.values.is_empty() {
            return;
        }
        kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
            Stmt::Store { buffer, .. } => {
                self.values.retain(|k, _| k.0 != buffer);
                self.forget_reads(&kernel.arena, buffer);
            }
            Stmt::Set { local, .. } => self.forget_local(&kernel.arena, local),
            Stmt::For(_) | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        });
    }
}

/// Operations one inside the other that are rather done again than loaded.
const DEEPEST: usize = 1;

/// Whether a scalar is a constant, a name, an invariant element of another buffer, or a sum, a difference or a product of
/// such.
fn is_cheap(arena: &Arena, e: ExprId, written: BufferId, deepest: usize) -> bool {
    match arena.expr(e) {
        Expr::Int(_) | Expr::Float(_) | Expr::Var(_) => true,
        Expr::Load(buffer, index) => buffer != written && arena.lanes(e) == 1 && !reads_state(arena, index),
        // A store of narrower elements may round.
        Expr::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, a, b) if arena.dtype(e).bytes() >= 4 => {
            let inner = |e| deepest > 0 && is_cheap(arena, e, written, deepest - 1);
            arena.lanes(e) == 1 && inner(a) && inner(b)
        }
        _ => false,
    }
}

/// Whether two ranges of elements of a buffer are provably disjoint.
fn are_apart(arena: &Arena, a: (ExprId, Ty), b: (ExprId, Ty)) -> bool {
    let difference = Affine::of(arena, b.0).minus(&Affine::of(arena, a.0));
    difference.as_constant().is_some_and(|d| d >= a.1.lanes as i64 || -d >= b.1.lanes as i64)
}

/// Removes stores to elements that later statements of the list overwrite before anything reads them.
fn drop_overwritten(kernel: &Kernel, stmts: &mut Vec<StmtId>) {
    // The ranges that later statements overwrite.
    let mut overwritten: Vec<(BufferId, Affine, i64)> = Vec::new();
    let mut keep = vec![true; stmts.len()];
    for (n, &s) in stmts.iter().enumerate().rev() {
        let stmt = kernel.stmts.get(s);
        if let Stmt::Store { buffer, index, value } = stmt {
            let (row, lanes) = (Affine::of(&kernel.arena, index), kernel.arena.lanes(value) as i64);
            if covers(&overwritten, buffer, &row, lanes) && !may_stop(kernel, stmt) {
                keep[n] = false;
                continue;
            }
            // An index that reads memory may have selected another element before.
            if overwritten.len() < MAX_ROWS && !reads_state(&kernel.arena, index) {
                overwritten.push((buffer, row, lanes));
            }
        }
        if overwritten.is_empty() {
            continue;
        }
        if may_stop(kernel, stmt) {
            // If the kernel stops here, earlier stores must have happened.
            overwritten.clear();
        }
        for_each_read(kernel, stmt, &mut |b| overwritten.retain(|k| k.0 != b));
    }
    let mut keep = keep.into_iter();
    stmts.retain(|_| keep.next().unwrap_or(true));
}

/// Whether the union of ranges covers another one.
fn covers(rows: &[(BufferId, Affine, i64)], buffer: BufferId, index: &Affine, lanes: i64) -> bool {
    let mut reached = 0;
    loop {
        let next = rows.iter().filter(|r| r.0 == buffer).filter_map(|r| {
            let start = r.1.minus(index).as_constant()?;
            (start <= reached && start + r.2 > reached).then_some(start + r.2)
        });
        match next.max() {
            Some(end) if end >= lanes => return true,
            Some(end) => reached = end,
            None => return false,
        }
    }
}

/// Calls `f` with each buffer that a statement reads, including nested statements.
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
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
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
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| match stmt {
        Stmt::Store { buffer, .. } if unread[buffer.index()] && !may_stop(kernel, stmt) => {}
        Stmt::For(l) if l.body.is_empty() => {}
        Stmt::For(_)
        | Stmt::If { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Set { .. }
        | Stmt::Check { .. }
        | Stmt::While { .. } => out.push(id),
    });
}
