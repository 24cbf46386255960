//! Checks that every used buffer is declared: a parameter, allocated by an enclosing block, or a view of one.
//!
//! No primitive should violate this. It is checked after each primitive nevertheless, also in release builds, because
//! the kernel would otherwise read foreign memory. The check must be cheap in programs with many nests: [`Uses`] stores
//! for each nest under the root the buffers that it uses without declaring them, and visits only nests that were
//! changed.

use crate::ir::expr::{BufferBits, FxBuild};
use crate::ir::{Body, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, Stmt, StmtId};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A list of distinct buffers.
type Buffers = SmallVec<[BufferId; 4]>;

/// For each statement directly under the root, the buffers that it uses without declaring them; and the buffers
/// declared there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    /// Undeclared buffers of each statement.
    nests: HashMap<StmtId, Buffers, FxBuild>,
    /// For each buffer, the nests that use it.
    users: Vec<SmallVec<[StmtId; 2]>>,
    /// For each buffer, whether it is a parameter or declared by the root block.
    declared: Vec<bool>,
    /// Whether a statement directly under the root declares a buffer for the following ones. Such functions are checked
    /// as a whole.
    is_sequential: bool,
}

impl Uses {
    /// The uses in a function, which records changed statements from now on.
    pub(crate) fn of(func: &mut Func) -> Uses {
        let mut uses = Uses::default();
        func.take_touched();
        uses.declare(func);
        for s in func.get(func.root.stmt()).children() {
            uses.look_at(func, s);
        }
        uses
    }

    /// A use of an undeclared buffer in the statements changed since the last call.
    pub(crate) fn update(&mut self, func: &mut Func) -> Option<BufferId> {
        let mut touched = func.take_touched();
        touched.sort_unstable();
        touched.dedup();
        let found = self.find(func, &touched);
        debug_assert_eq!(found.is_some(), undeclared_use(func).is_some(), "what is touched is noted");
        found
    }

    /// The nests that use a buffer; `None` if statements have been changed since the last update.
    pub(crate) fn nests_using(&self, func: &Func, buffer: BufferId) -> Option<Vec<StmtId>> {
        let is_known = !self.is_sequential && !func.is_touched();
        is_known.then(|| self.users.get(buffer.index()).map_or(Vec::new(), |nests| nests.to_vec()))
    }

    fn find(&mut self, func: &Func, touched: &[StmtId]) -> Option<BufferId> {
        if self.is_sequential {
            return undeclared_use(func);
        }
        let root = func.root.stmt();
        let mut undeclared = None;
        let mut is_declared_anew = false;
        let mut seen: BTreeSet<StmtId> = BTreeSet::new();
        for &s in touched {
            if s == root {
                is_declared_anew = true;
                continue;
            }
            // The statement may have moved into another nest, or may have been removed.
            if func.parent(s) != Some(root) {
                self.forget(s);
            }
            let path = std::iter::once(s).chain(func.ancestors(s));
            let Some(nest) = path.into_iter().find(|&p| func.parent(p) == Some(root)) else { continue };
            if seen.insert(nest) {
                self.look_at(func, nest);
            }
        }
        self.declared.resize(func.arena.n_buffers(), false);
        if is_declared_anew {
            self.declare(func);
            let is_used = |b: &BufferId| self.users.get(b.index()).is_some_and(|nests| !nests.is_empty());
            undeclared = func.arena.buffer_ids().find(|b| is_used(b) && !self.declared[b.index()]);
            let mut own = Walk::new(func);
            self.declared.iter().enumerate().filter(|d| *d.1).for_each(|(i, _)| own.declared[i] = true);
            own.own(root);
            undeclared = undeclared.or(own.missing.first().map(|m| m.0));
        }
        let of_nests = || seen.iter().flat_map(|nest| &self.nests[nest]).copied().filter(|b| !self.declared[b.index()]);
        if self.is_sequential {
            return undeclared_use(func);
        }
        undeclared.or_else(|| of_nests().min())
    }

    /// Records the declarations of the root block and the parameters.
    fn declare(&mut self, func: &Func) {
        self.declared.clear();
        self.declared.resize(func.arena.n_buffers(), false);
        let root = func.block(func.root);
        let params = func.params.iter().filter_map(|p| p.buffer);
        for buffer in params.chain(root.allocs.iter().copied()).chain(root.matches.iter().map(|m| m.buffer)) {
            self.declared[buffer.index()] = true;
        }
    }

    /// Records the uses in a statement directly under the root.
    fn look_at(&mut self, func: &Func, nest: StmtId) {
        self.forget(nest);
        self.is_sequential |= matches!(func.get(nest), Stmt::Alloc { .. } | Stmt::Declare { .. });
        let mut walk = Walk::new(func);
        walk.stmt(nest);
        let mut buffers: Buffers = walk.missing.iter().map(|m| m.0).collect();
        buffers.sort_unstable();
        buffers.dedup();
        self.users.resize(func.arena.n_buffers().max(self.users.len()), SmallVec::new());
        buffers.iter().for_each(|b| self.users[b.index()].push(nest));
        self.nests.insert(nest, buffers);
    }

    fn forget(&mut self, nest: StmtId) {
        for b in self.nests.remove(&nest).unwrap_or_default() {
            let users = &mut self.users[b.index()];
            if let Some(at) = users.iter().position(|&user| user == nest) {
                users.swap_remove(at);
            }
        }
    }
}

/// The first use of an undeclared buffer, if there is one, by a visit of the whole function.
pub fn undeclared_use(func: &Func) -> Option<BufferId> {
    let mut walk = Walk::new(func);
    func.params.iter().filter_map(|p| p.buffer).for_each(|buffer| walk.declare(buffer));
    walk.stmt(func.root.stmt());
    walk.missing.first().map(|m| m.0)
}

struct Walk<'a> {
    func: &'a Func,
    /// For each buffer, whether it is declared here.
    declared: SmallVec<[bool; 64]>,
    /// Buffers that are used and not declared, in text order, with the statements that use them.
    missing: Vec<(BufferId, StmtId)>,
    /// Visited expressions, used in large programs.
    seen: HashSet<ExprId, FxBuild>,
    at: StmtId,
}

impl<'a> Walk<'a> {
    fn new(func: &'a Func) -> Walk<'a> {
        let declared = SmallVec::from_elem(false, func.arena.n_buffers());
        Walk { func, declared, missing: Vec::new(), seen: HashSet::default(), at: func.root.stmt() }
    }

    fn declare(&mut self, buffer: BufferId) {
        self.declared[buffer.index()] = true;
        // The visited expressions belong to the buffers declared at the time of the visit.
        self.seen.clear();
    }

    fn undeclare(&mut self, buffer: BufferId) {
        self.declared[buffer.index()] = false;
        self.seen.clear();
    }

    /// Records the uses of a statement itself, without its children; returns with its declarations for them in scope.
    fn own(&mut self, s: StmtId) {
        self.at = s;
        match self.func.get(s) {
            Stmt::Loop(l) => {
                [Some(l.min), Some(l.extent), l.step].into_iter().flatten().for_each(|e| self.expr(e));
            }
            Stmt::Block(b) => {
                for i in &b.iters {
                    [i.value, i.min, i.extent].into_iter().for_each(|e| self.expr(e));
                }
                self.expr(b.predicate);
                b.allocs.iter().for_each(|&buffer| self.declare(buffer));
                for m in &b.matches {
                    self.region(&m.source);
                    self.declare(m.buffer);
                }
                b.reads.iter().chain(&b.writes).for_each(|r| self.region(r));
            }
            Stmt::Store { buffer, indices, value } => {
                self.buffer(*buffer);
                self.list(*indices);
                self.expr(*value);
            }
            Stmt::If { condition, .. } | Stmt::While { condition, .. } => self.expr(*condition),
            Stmt::Let { value, .. } | Stmt::Evaluate(value) | Stmt::Return(value) => self.expr(*value),
            Stmt::Alloc { buffer, .. } => self.declare(*buffer),
            Stmt::Declare { buffer, data } => {
                self.expr(*data);
                self.declare(*buffer);
            }
            Stmt::Assert(assert) => self.expr(assert.condition),
            Stmt::Attr(attr) => self.expr(attr.value),
            Stmt::Break | Stmt::Continue => {}
        }
    }

    fn stmt(&mut self, s: StmtId) {
        let func = self.func;
        self.own(s);
        func.get(s).bodies().into_iter().for_each(|body| self.body(body));
        if let Stmt::Block(b) = func.get(s) {
            let inner = b.allocs.iter().copied().chain(b.matches.iter().map(|m| m.buffer));
            inner.for_each(|buffer| self.undeclare(buffer));
        }
    }

    fn body(&mut self, body: &Body) {
        body.iter().for_each(|&child| self.stmt(child));
        for &child in body {
            // A declaration in a list is in scope in the rest of it.
            if let Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } = self.func.get(child) {
                self.undeclare(*buffer);
            }
        }
    }

    fn buffer(&mut self, buffer: BufferId) {
        if !self.declared[buffer.index()] {
            self.missing.push((buffer, self.at));
        }
    }

    fn region(&mut self, r: &BufferRegion) {
        self.buffer(r.buffer);
        self.list(r.mins);
        self.list(r.extents);
    }

    fn list(&mut self, list: ExprList) {
        self.func.arena.list(list).iter().for_each(|&e| self.expr(e));
    }

    fn expr(&mut self, e: ExprId) {
        let a = &self.func.arena;
        let inside = a.buffers_inside(e);
        if inside.is_empty() {
            return;
        }
        // The sets are exact as long as the number of buffers does not exceed their bits.
        if a.n_buffers() <= BufferBits::EXACT {
            inside.members().for_each(|b| self.buffer(b));
            return;
        }
        let mut open: SmallVec<[ExprId; 16]> = SmallVec::from_slice(&[e]);
        while let Some(e) = open.pop() {
            if a.buffers_inside(e).is_empty() || !self.seen.insert(e) {
                continue;
            }
            if let Expr::Load(buffer, _) | Expr::BufferData(buffer) = a.expr(e) {
                self.buffer(buffer);
            }
            a.for_each_child(e, |c| open.push(c));
        }
    }
}
