//! Rewrites accesses to a buffer for another layout, and simplifies the indices in their context (TVM's
//! `TransformLayoutRewriter` and `BlockBufferAccessSimplifier`).

use super::access::accesses_of;
use super::index_map::{IndexMap, simplify_indices};
use crate::arith::{Analyzer, VarRange};
use crate::ir::{Arena, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, Stmt, StmtId};
use smallvec::SmallVec;

/// The change of accesses.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// Accesses of the first buffer become accesses of the second, at mapped indices.
    Layout(BufferId, BufferId, &'a IndexMap),
    /// The indices of all accesses are simplified.
    Simplify,
}

/// Rewrites accesses in a subtree. The simplification knows the loops and blocks of the subtree, including the
/// statement itself, but not the enclosing ones.
pub(crate) fn rewrite_accesses(func: &mut Func, s: StmtId, change: Change<'_>) {
    let always = func.arena.bool(true);
    let mut walk = Walk { change, analyzer: Analyzer::new(), domain: SmallVec::new(), condition: always };
    walk.stmt(func, s);
    if let Change::Layout(old, new, _) = change {
        restate_regions(func, s, old, new);
    }
}

struct Walk<'a> {
    change: Change<'a>,
    analyzer: Analyzer,
    /// The ranges of the enclosing variables.
    domain: SmallVec<[VarRange; 12]>,
    /// The condition that holds here.
    condition: ExprId,
}

impl Walk<'_> {
    fn stmt(&mut self, func: &mut Func, s: StmtId) {
        let depth = self.domain.len();
        match func.get(s).clone() {
            Stmt::Loop(l) => {
                let (min, extent) = (self.expr(&mut func.arena, l.min), self.expr(&mut func.arena, l.extent));
                self.enter(&mut func.arena, VarRange { var: l.var, min, extent });
                if let Stmt::Loop(node) = func.stmt_mut(s) {
                    (node.min, node.extent) = (min, extent);
                }
            }
            Stmt::Block(b) => {
                let a = &mut func.arena;
                let mut b = *b;
                b.predicate = self.expr(a, b.predicate);
                for iter in &mut b.iters {
                    iter.value = self.expr(a, iter.value);
                }
                for iter in &b.iters {
                    self.enter(a, VarRange { var: iter.var, min: iter.min, extent: iter.extent });
                }
                for r in b.reads.iter_mut().chain(&mut b.writes) {
                    *r = match self.change {
                        Change::Simplify => self.region(a, r),
                        // Regions of the buffer itself are derived again; other regions may be indexed by its elements.
                        Change::Layout(..) => BufferRegion {
                            mins: a.map_list(r.mins, |a, e| self.expr(a, e)),
                            extents: a.map_list(r.extents, |a, e| self.expr(a, e)),
                            ..*r
                        },
                    };
                }
                *func.stmt_mut(s) = Stmt::Block(Box::new(b));
            }
            Stmt::Store { buffer, indices, value } => {
                let value = self.expr(&mut func.arena, value);
                let indices = func.arena.map_list(indices, |a, e| self.expr(a, e));
                let (buffer, indices) = self.access(&mut func.arena, buffer, indices);
                *func.stmt_mut(s) = Stmt::Store { buffer, indices, value };
            }
            Stmt::If { condition, then, otherwise } => {
                let new = self.expr(&mut func.arena, condition);
                if let Stmt::If { condition, .. } = func.stmt_mut(s) {
                    *condition = new;
                }
                self.under(func, new, |walk, func| then.iter().for_each(|&c| walk.stmt(func, c)));
                let not = func.arena.not(new);
                self.under(func, not, |walk, func| otherwise.iter().for_each(|&c| walk.stmt(func, c)));
                return;
            }
            Stmt::Let { value: old, .. } => {
                let new = self.expr(&mut func.arena, old);
                if let Stmt::Let { value, .. } = func.stmt_mut(s) {
                    *value = new;
                }
            }
            Stmt::Evaluate(old) => {
                let new = self.expr(&mut func.arena, old);
                *func.stmt_mut(s) = Stmt::Evaluate(new);
            }
            Stmt::While { condition: old, .. } => {
                let new = self.expr(&mut func.arena, old);
                if let Stmt::While { condition, .. } = func.stmt_mut(s) {
                    *condition = new;
                }
            }
            Stmt::Return(old) => {
                let new = self.expr(&mut func.arena, old);
                *func.stmt_mut(s) = Stmt::Return(new);
            }
            Stmt::Assert(mut a) => {
                a.condition = self.expr(&mut func.arena, a.condition);
                *func.stmt_mut(s) = Stmt::Assert(a);
            }
            Stmt::Attr(mut a) => {
                a.value = self.expr(&mut func.arena, a.value);
                *func.stmt_mut(s) = Stmt::Attr(a);
            }
            // Buffers with shared memory keep their layout.
            Stmt::Alloc { .. } | Stmt::Declare { .. } | Stmt::Break | Stmt::Continue => {}
        }
        for child in func.get(s).children() {
            self.stmt(func, child);
        }
        self.domain.truncate(depth);
    }

    fn enter(&mut self, a: &mut Arena, range: VarRange) {
        // A variable with one value stays a variable.
        if !a.is_int(range.extent, 1) && !self.analyzer.is_bound(range.var) {
            self.analyzer.bind(a, range.var, range.min, range.extent);
        }
        self.domain.push(range);
    }

    /// Rewrites statements under a condition. The analyzer helps only with expressions, where it matters.
    fn under(&mut self, func: &mut Func, condition: ExprId, f: impl FnOnce(&mut Self, &mut Func)) {
        let before = self.condition;
        self.condition = func.arena.and(before, condition);
        f(self, func);
        self.condition = before;
    }

    fn expr(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        match a.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) => e,
            Expr::IfThenElse(c, x, y) | Expr::Select(c, x, y) => {
                let new = self.expr(a, c);
                let before = self.condition;
                let not = a.not(new);
                self.condition = a.and(before, new);
                let p = self.expr(a, x);
                self.condition = a.and(before, not);
                let q = self.expr(a, y);
                self.condition = before;
                match a.expr(e) {
                    Expr::IfThenElse(..) => a.if_then_else(new, p, q),
                    _ => a.select(new, p, q),
                }
            }
            Expr::Load(buffer, indices) => {
                let indices = a.map_list(indices, |a, e| self.expr(a, e));
                let (buffer, indices) = self.access(a, buffer, indices);
                let indices = a.list(indices).to_vec();
                a.load(buffer, &indices)
            }
            _ => a.map_children(e, |a, c| self.expr(a, c)),
        }
    }

    fn access(&mut self, a: &mut Arena, buffer: BufferId, indices: ExprList) -> (BufferId, ExprList) {
        let at: SmallVec<[ExprId; 4]> = a.list(indices).iter().copied().collect();
        match self.change {
            Change::Layout(old, new, map) if buffer == old => {
                let condition = self.condition;
                // TVM's simplifier knows the condition, but not the ranges of variables.
                let mut analyzer = Analyzer::new();
                let mapped = analyzer.with_constraint(a, condition, |analyzer, a| map.apply(a, analyzer, &at));
                let simple = self.simplified(a, &mapped);
                (new, a.new_list(&simple))
            }
            Change::Layout(..) => (buffer, indices),
            Change::Simplify => {
                let simple = self.simplified(a, &at);
                (buffer, a.new_list(&simple))
            }
        }
    }

    fn simplified(&mut self, a: &mut Arena, indices: &[ExprId]) -> SmallVec<[ExprId; 4]> {
        simplify_indices(a, &mut self.analyzer, indices, &self.domain, self.condition)
    }

    fn region(&mut self, a: &mut Arena, region: &BufferRegion) -> BufferRegion {
        let (mins, extents): (Vec<ExprId>, Vec<ExprId>) = region.ranges(a).unzip();
        let mins = self.simplified(a, &mins);
        let extents: SmallVec<[ExprId; 4]> = extents.iter().map(|&e| self.analyzer.simplify(a, e)).collect();
        BufferRegion { buffer: region.buffer, mins: a.new_list(&mins), extents: a.new_list(&extents) }
    }
}

/// Replaces blocks' regions of the old buffer by their accesses of the new one, inner blocks first.
pub(crate) fn restate_regions(func: &mut Func, s: StmtId, old: BufferId, new: BufferId) {
    for s in func.subtree(s).into_iter().rev() {
        let Some(b) = func.as_block(s) else { continue };
        for alloc in func.block_mut(b).allocs.iter_mut().filter(|b| **b == old) {
            *alloc = new;
        }
        let node = func.block(b);
        if !node.reads.iter().chain(&node.writes).any(|r| r.buffer == old) {
            continue;
        }
        // If a block has an init, it does not read its outputs, unless it states so.
        let said_so = node.reads.iter().any(|r| r.buffer == old);
        let accesses = accesses_of(func, b);
        let whole = BufferRegion::full(&mut func.arena, new);
        let found = |list: &[BufferRegion]| list.iter().find(|r| r.buffer == new).copied();
        let written = found(&accesses.writes);
        let read = found(&accesses.reads).or(if said_so { written } else { None });
        let node = func.block_mut(b);
        for r in node.reads.iter_mut().filter(|r| r.buffer == old) {
            *r = read.unwrap_or(whole);
        }
        for r in node.writes.iter_mut().filter(|r| r.buffer == old) {
            *r = written.unwrap_or(whole);
        }
    }
}
