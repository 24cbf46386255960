//! Is every buffer that is used also declared: a parameter, allocated by a block around, or a view of one?
//!
//! No primitive should break this. It is asked after each one nevertheless, in release builds too, since what it would cost
//! to be wrong is a kernel that reads memory of something else. It is one pass over the statements; into expressions it
//! only looks where they load from something that is not declared.

use crate::ir::expr::BufferBits;
use crate::ir::visit::for_each_subexpr;
use crate::ir::{Body, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, Stmt, StmtId};
use smallvec::SmallVec;

/// The first use of a buffer that nothing around it declares, if there is one.
pub fn undeclared_use(func: &Func) -> Option<(BufferId, StmtId)> {
    let mut walk =
        Walk { func, bits: BufferBits::default(), declared: SmallVec::from_elem(false, func.arena.n_buffers()) };
    for buffer in func.params.iter().filter_map(|p| p.buffer) {
        walk.declare(buffer);
    }
    walk.stmt(func.root.stmt())
}

struct Walk<'a> {
    func: &'a Func,
    /// What is declared here, as a set and by number.
    bits: BufferBits,
    declared: SmallVec<[bool; 64]>,
}

impl Walk<'_> {
    fn declare(&mut self, buffer: BufferId) {
        self.bits.add(buffer);
        self.declared[buffer.index()] = true;
    }

    fn stmt(&mut self, s: StmtId) -> Option<(BufferId, StmtId)> {
        let func = self.func;
        let outside = self.bits;
        let at = |buffer| Some((buffer, s));
        let wrong = match func.get(s) {
            Stmt::Loop(l) => self.expr(l.min).or_else(|| self.expr(l.extent)),
            Stmt::Block(b) => {
                let bindings = b
                    .iters
                    .iter()
                    .find_map(|i| self.expr(i.value).or_else(|| self.expr(i.min)).or_else(|| self.expr(i.extent)));
                let outer = bindings.or_else(|| self.expr(b.predicate));
                b.allocs.iter().for_each(|&buffer| self.declare(buffer));
                let views = b.matches.iter().find_map(|m| {
                    let source = self.region(&m.source);
                    self.declare(m.buffer);
                    source
                });
                outer.or(views).or_else(|| b.reads.iter().chain(&b.writes).find_map(|r| self.region(r)))
            }
            Stmt::Store { buffer, indices, value } => {
                self.buffer(*buffer).or_else(|| self.list(*indices)).or_else(|| self.expr(*value))
            }
            Stmt::If { condition, .. } | Stmt::While { condition, .. } => self.expr(*condition),
            Stmt::Let { value, .. } | Stmt::Evaluate(value) | Stmt::Return(value) => self.expr(*value),
            Stmt::Alloc { buffer, .. } => {
                self.declare(*buffer);
                None
            }
            Stmt::Declare { buffer, data } => {
                let wrong = self.expr(*data);
                self.declare(*buffer);
                wrong
            }
            Stmt::Assert(assert) => self.expr(assert.condition),
            Stmt::Attr(attr) => self.expr(attr.value),
            Stmt::Break | Stmt::Continue => None,
        };
        let wrong = wrong.and_then(at).or_else(|| func.get(s).bodies().into_iter().find_map(|body| self.body(body)));
        if let Stmt::Block(b) = func.get(s) {
            let inner = b.allocs.iter().copied().chain(b.matches.iter().map(|m| m.buffer));
            inner.for_each(|buffer| self.declared[buffer.index()] = false);
        }
        // What a statement of a list declares is known in the rest of it.
        if !matches!(func.get(s), Stmt::Alloc { .. } | Stmt::Declare { .. }) {
            self.bits = outside;
        }
        wrong
    }

    fn body(&mut self, body: &Body) -> Option<(BufferId, StmtId)> {
        let func = self.func;
        let outside = self.bits;
        let wrong = body.iter().find_map(|&child| self.stmt(child));
        for &child in body {
            if let Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } = func.get(child) {
                self.declared[buffer.index()] = false;
            }
        }
        self.bits = outside;
        wrong
    }

    fn buffer(&self, buffer: BufferId) -> Option<BufferId> {
        (!self.declared[buffer.index()]).then_some(buffer)
    }

    fn region(&self, r: &BufferRegion) -> Option<BufferId> {
        self.buffer(r.buffer).or_else(|| self.list(r.mins)).or_else(|| self.list(r.extents))
    }

    fn list(&self, list: ExprList) -> Option<BufferId> {
        self.func.arena.list(list).iter().find_map(|&e| self.expr(e))
    }

    fn expr(&self, e: ExprId) -> Option<BufferId> {
        let a = &self.func.arena;
        let inside = a.buffers_inside(e);
        // The sets tell buffers apart as long as there are no more than they have bits.
        if inside.is_empty() || inside.is_within(self.bits) && a.n_buffers() <= BufferBits::EXACT {
            return None;
        }
        let mut wrong = None;
        for_each_subexpr(a, e, &mut |e| {
            if let Expr::Load(buffer, _) | Expr::BufferData(buffer) = a.expr(e) {
                wrong = wrong.or(self.buffer(buffer));
            }
        });
        wrong
    }
}
