//! Redirects the accesses of statements from one buffer to another.

use crate::arith::Analyzer;
use crate::ir::visit::{rewrite_region, walk_rewrite};
use crate::ir::{Arena, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, Rewriter, Stmt, StmtId};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Redirects accesses of a buffer to one of the same shape, or to one that contains a part of it.
pub(in super::super) struct Redirect {
    from: BufferId,
    to: BufferId,
    /// The start of the part.
    offsets: Option<SmallVec<[ExprId; 4]>>,
    analyzer: Analyzer,
    done: HashMap<ExprId, ExprId>,
}

impl Redirect {
    /// Redirects to a buffer of the same shape, or to one that begins at `offsets`, if given.
    pub(crate) fn new(from: BufferId, to: BufferId, offsets: Option<SmallVec<[ExprId; 4]>>) -> Redirect {
        Redirect { from, to, offsets, analyzer: Analyzer::new(), done: HashMap::new() }
    }

    /// Rewrites a statement and its subtree.
    pub(crate) fn subtree(&mut self, func: &mut Func, s: StmtId) {
        for s in func.subtree(s) {
            self.stmt(func, s);
        }
    }

    fn stmt(&mut self, func: &mut Func, s: StmtId) {
        // The steps below rewrite the buffers of stores and regions, together with the indices.
        func.rewrite_stmt(s, self);
        let Func { arena, stmts, .. } = func;
        match stmts.stmt_mut(s) {
            Stmt::Store { buffer, indices, .. } if *buffer == self.from => {
                *buffer = self.to;
                *indices = self.shifted(arena, *indices);
            }
            Stmt::Block(b) => {
                let b = &mut **b;
                for r in b.reads.iter_mut().chain(&mut b.writes).chain(b.matches.iter_mut().map(|m| &mut m.source)) {
                    *r = self.region(arena, r);
                }
            }
            Stmt::Store { .. }
            | Stmt::Loop(_)
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::While { .. }
            | Stmt::Attr(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => {}
        }
    }

    fn region(&mut self, arena: &mut Arena, r: &BufferRegion) -> BufferRegion {
        let r = rewrite_region(self, arena, r);
        match r.buffer == self.from {
            true => BufferRegion { buffer: self.to, mins: self.shifted(arena, r.mins), ..r },
            false => r,
        }
    }

    fn shifted(&mut self, arena: &mut Arena, indices: ExprList) -> ExprList {
        let Some(offsets) = &self.offsets else { return indices };
        let old: SmallVec<[ExprId; 4]> = arena.list(indices).iter().copied().collect();
        let mut new: SmallVec<[ExprId; 4]> = SmallVec::new();
        for (index, &offset) in old.into_iter().zip(offsets) {
            let offset = arena.cast(arena.dtype(index), offset);
            let difference = arena.sub(index, offset);
            new.push(self.analyzer.simplify(arena, difference));
        }
        arena.new_list(&new)
    }
}

impl Rewriter for Redirect {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) => return e,
            _ => {}
        }
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let mut new = walk_rewrite(self, arena, e);
        if let Expr::Load(buffer, indices) = arena.expr(new)
            && buffer == self.from
        {
            let indices = self.shifted(arena, indices);
            let indices: SmallVec<[ExprId; 4]> = arena.list(indices).iter().copied().collect();
            new = arena.load(self.to, &indices);
        }
        // A pointer to the first element can be redirected if the copy has all elements.
        let shape = |b: BufferId| arena.list(arena.buffer(b).shape);
        if arena.expr(new) == Expr::BufferData(self.from) && shape(self.from) == shape(self.to) {
            new = arena.buffer_data(self.to);
        }
        self.done.insert(e, new);
        new
    }
}
