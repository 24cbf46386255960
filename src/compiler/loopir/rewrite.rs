//! Walking, substitution and copying: the tools of passes over kernels.

use super::expr::{Arena, Expr, ExprId, LocalId, Ty, VarId};
use super::kernel::{BufferId, Kernel};
use super::stmt::{Body, For, LoopKind, Stmt, StmtId};
use crate::ir::expr::FxBuild;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// A map keyed by expressions.
pub(crate) type ExprMap = HashMap<ExprId, ExprId, FxBuild>;

impl Kernel {
    /// Calls `f` with each statement of `body`, outer before inner, in text order.
    pub fn for_each_stmt(&self, body: Body, f: &mut impl FnMut(StmtId, Stmt)) {
        self.stmts.list(body).iter().for_each(|&s| self.for_each_within(s, f));
    }

    /// Calls `f` with a statement and those inside, outer before inner, in text order.
    pub fn for_each_within(&self, s: StmtId, f: &mut impl FnMut(StmtId, Stmt)) {
        let stmt = self.stmts.get(s);
        f(s, stmt);
        match stmt {
            Stmt::For(l) => self.for_each_stmt(l.body, f),
            Stmt::While { body, .. } => self.for_each_stmt(body, f),
            Stmt::If { then, otherwise, .. } => {
                self.for_each_stmt(then, f);
                self.for_each_stmt(otherwise, f);
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
        }
    }

    /// Rebuilds `body`, after the sub-bodies of each statement. `f` gets the old id, the new id and the contents over
    /// the new sub-bodies, and pushes the replacement (the new id, to keep the statement).
    pub fn rebuild(
        &mut self,
        body: Body,
        f: &mut impl FnMut(&mut Kernel, StmtId, StmtId, Stmt, &mut Vec<StmtId>),
    ) -> Body {
        let mut out = Vec::with_capacity(body.len());
        let mut same = true;
        for i in 0..body.len() {
            let old_id = self.stmts.list(body)[i];
            let old = self.stmts.get(old_id);
            let stmt = match old {
                Stmt::For(l) => Stmt::For(For { body: self.rebuild(l.body, f), ..l }),
                Stmt::While { running, body } => Stmt::While { running, body: self.rebuild(body, f) },
                Stmt::If { condition, then, otherwise } => {
                    let then = self.rebuild(then, f);
                    let otherwise = self.rebuild(otherwise, f);
                    Stmt::If { condition, then, otherwise }
                }
                Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => old,
            };
            let id = if stmt == old { old_id } else { self.stmts.push(stmt) };
            let before = out.len();
            f(self, old_id, id, stmt, &mut out);
            same &= out.len() == before + 1 && out[before] == old_id;
        }
        if same { body } else { self.stmts.body(&out) }
    }
}

impl Kernel {
    /// As [`Arena::map_children`], where `f` may add buffers and statements.
    pub fn map_children(&mut self, e: ExprId, mut f: impl FnMut(&mut Kernel, ExprId) -> ExprId) -> ExprId {
        let mut old: SmallVec<[ExprId; 4]> = SmallVec::new();
        self.arena.for_each_child(e, |child| old.push(child));
        let new: SmallVec<[ExprId; 4]> = old.iter().map(|&child| f(self, child)).collect();
        let of = |child| old.iter().position(|&c| c == child).map_or(child, |at| new[at]);
        if old == new { e } else { self.arena.map_children(e, |_, child| of(child)) }
    }
}

/// The expressions that a statement itself evaluates, without its sub-bodies.
pub(crate) fn for_each_operand(stmt: Stmt, mut f: impl FnMut(ExprId)) {
    match stmt {
        Stmt::For(l) => f(l.extent),
        Stmt::While { .. } => {}
        Stmt::If { condition, .. } | Stmt::Check { condition, .. } => f(condition),
        Stmt::Store { index, value, .. } => {
            f(index);
            f(value);
        }
        Stmt::Let { value, .. } | Stmt::Set { value, .. } => f(value),
    }
}

/// The statement with each operand replaced by the result of `f`.
pub(crate) fn map_operands(stmt: Stmt, mut f: impl FnMut(ExprId) -> ExprId) -> Stmt {
    match stmt {
        Stmt::For(l) => Stmt::For(For { extent: f(l.extent), ..l }),
        Stmt::While { .. } => stmt,
        Stmt::If { condition, then, otherwise } => Stmt::If { condition: f(condition), then, otherwise },
        Stmt::Check { condition, failure } => Stmt::Check { condition: f(condition), failure },
        Stmt::Store { buffer, index, value } => Stmt::Store { buffer, index: f(index), value: f(value) },
        Stmt::Let { var, value } => Stmt::Let { var, value: f(value) },
        Stmt::Set { local, value } => Stmt::Set { local, value: f(value) },
    }
}

/// A set of visited nodes, optimised for walks: most expressions have few nodes.
#[derive(Default)]
pub(crate) struct Seen {
    few: SmallVec<[ExprId; 24]>,
    /// A bit for each number of a node, once there are more than fit the array.
    many: Vec<u64>,
}

impl Seen {
    /// Adds a node; `false` if it was present.
    pub(crate) fn insert(&mut self, e: ExprId) -> bool {
        if !self.many.is_empty() {
            return self.mark(e);
        }
        if self.few.contains(&e) {
            return false;
        }
        if self.few.len() < self.few.inline_size() {
            self.few.push(e);
        } else {
            for old in std::mem::take(&mut self.few) {
                self.mark(old);
            }
            self.mark(e);
        }
        true
    }

    fn mark(&mut self, e: ExprId) -> bool {
        let (word, bit) = (e.index() / 64, 1 << (e.index() % 64));
        if self.many.len() <= word {
            // The nodes of an expression are near to each other.
            self.many.resize(word + 1 + word / 8, 0);
        }
        let is_new = self.many[word] & bit == 0;
        self.many[word] |= bit;
        is_new
    }
}

fn is_leaf(arena: &Arena, e: ExprId) -> bool {
    matches!(arena.expr(e), Expr::Int(_) | Expr::Float(_) | Expr::Var(_) | Expr::Local(_))
}

/// Calls `f` with `e` and all subexpressions, operands first, each once.
pub(crate) fn for_each_expr(arena: &Arena, e: ExprId, f: &mut impl FnMut(ExprId)) {
    fn walk(arena: &Arena, e: ExprId, seen: &mut Seen, f: &mut impl FnMut(ExprId)) {
        if !seen.insert(e) {
            return;
        }
        arena.for_each_child(e, |c| walk(arena, c, seen, f));
        f(e);
    }
    if is_leaf(arena, e) { f(e) } else { walk(arena, e, &mut Seen::default(), f) }
}

/// Calls `f` with the subexpressions of a value, each once, without the indices of its loads.
pub(crate) fn for_each_value(arena: &Arena, e: ExprId, f: &mut impl FnMut(ExprId)) {
    fn walk(arena: &Arena, e: ExprId, seen: &mut Seen, f: &mut impl FnMut(ExprId)) {
        if !seen.insert(e) {
            return;
        }
        f(e);
        if !matches!(arena.expr(e), Expr::Load(..)) {
            arena.for_each_child(e, |c| walk(arena, c, seen, f));
        }
    }
    walk(arena, e, &mut Seen::default(), f);
}

/// Whether `e` mentions a variable for which `is` returns true.
pub(crate) fn mentions_var(arena: &Arena, e: ExprId, is: &mut impl FnMut(VarId) -> bool) -> bool {
    fn walk(arena: &Arena, e: ExprId, seen: &mut Seen, is: &mut impl FnMut(VarId) -> bool) -> bool {
        if is_leaf(arena, e) {
            return arena.as_var(e).is_some_and(&mut *is);
        }
        let mut found = false;
        if seen.insert(e) {
            arena.for_each_child(e, |c| found = found || walk(arena, c, seen, is));
        }
        found
    }
    walk(arena, e, &mut Seen::default(), is)
}

/// Whether evaluating `e` reads memory.
pub(crate) fn reads_memory(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |x| found |= matches!(arena.expr(x), Expr::Load(..)));
    found
}

/// Rebuilds `e` from its operands up; `f` returns a replacement for a rebuilt node, or `None` to keep it. `memo` stores
/// the results, and stays valid as long as `f` returns the same replacements.
pub(crate) fn map_expr(
    arena: &mut Arena,
    e: ExprId,
    memo: &mut ExprMap,
    f: &mut impl FnMut(&mut Arena, ExprId) -> Option<ExprId>,
) -> ExprId {
    if let Some(&done) = memo.get(&e) {
        return done;
    }
    let rebuilt = arena.map_children(e, |arena, c| map_expr(arena, c, memo, f));
    let result = f(arena, rebuilt).unwrap_or(rebuilt);
    memo.insert(e, result);
    result
}

/// A replacement of variables, registers and buffers by others, applied to expressions and to copies of statements.
#[derive(Clone, Default)]
pub(crate) struct Substitution {
    vars: HashMap<VarId, ExprId, FxBuild>,
    locals: HashMap<LocalId, LocalId, FxBuild>,
    buffers: HashMap<BufferId, BufferId, FxBuild>,
    memo: ExprMap,
}

impl Substitution {
    /// The substitution of one variable.
    pub(crate) fn of(var: VarId, value: ExprId) -> Substitution {
        let mut s = Substitution::default();
        s.set(var, value);
        s
    }

    /// Replaces `var` by `value` from now on.
    pub(crate) fn set(&mut self, var: VarId, value: ExprId) {
        self.vars.insert(var, value);
        self.memo.clear();
    }

    /// Replaces register `from` by `to` from now on.
    pub(crate) fn set_local(&mut self, from: LocalId, to: LocalId) {
        self.locals.insert(from, to);
        self.memo.clear();
    }

    /// Replaces the registers that statements set by new ones from now on: parallel loops must not share registers.
    pub(crate) fn own_registers(&mut self, kernel: &mut Kernel, body: Body) {
        let mut set: SmallVec<[LocalId; 8]> = SmallVec::new();
        kernel.for_each_stmt(body, &mut |_, stmt| {
            if let Stmt::Set { local, .. } = stmt
                && !set.contains(&local)
            {
                set.push(local);
            }
        });
        for local in set {
            let like = kernel.arena.local(local);
            let (name, ty) = (like.name, like.ty);
            let own = kernel.arena.new_local(name, ty);
            self.set_local(local, own);
        }
    }

    /// The expression after replacement.
    pub(crate) fn expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        let Substitution { vars, locals, buffers, memo } = self;
        map_expr(arena, e, memo, &mut |arena, e| match arena.expr(e) {
            Expr::Var(v) => vars.get(&v).copied(),
            Expr::Local(l) => locals.get(&l).map(|&l| arena.local_expr(l)),
            Expr::Load(b, index) => {
                let ty = arena.ty(e);
                buffers.get(&b).map(|&b| arena.load(b, index, ty))
            }
            _ => None,
        })
    }

    /// A copy of `body` after replacement. Variables bound in it become fresh ones, so that every variable has one
    /// binding; so do registers that parallel loops in it set, so that no two such loops share one.
    pub(crate) fn copy(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        let mut out = Vec::with_capacity(body.len());
        for i in 0..body.len() {
            let stmt = kernel.stmts.get(kernel.stmts.list(body)[i]);
            let copy = self.copy_stmt(kernel, stmt);
            out.push(kernel.stmts.push(copy));
        }
        kernel.stmts.body(&out)
    }

    /// A copy of a statement, like [`Substitution::copy`]. If it binds a variable for the following statements, later
    /// calls replace that variable there.
    pub(crate) fn copy_stmt(&mut self, kernel: &mut Kernel, stmt: Stmt) -> Stmt {
        let stmt = map_operands(stmt, |e| self.expr(&mut kernel.arena, e));
        match stmt {
            Stmt::For(l) => {
                let var = self.fresh(&mut kernel.arena, l.var);
                if l.kind == LoopKind::Parallel {
                    self.own_registers(kernel, l.body);
                }
                let body = self.copy(kernel, l.body);
                Stmt::For(For { var, body, ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let then = self.copy(kernel, then);
                let otherwise = self.copy(kernel, otherwise);
                Stmt::If { condition, then, otherwise }
            }
            Stmt::While { running, body } => {
                let running = self.locals.get(&running).copied().unwrap_or(running);
                Stmt::While { running, body: self.copy(kernel, body) }
            }
            Stmt::Let { var, value } => {
                let ty = kernel.arena.ty(value);
                Stmt::Let { var: self.fresh_of(&mut kernel.arena, var, ty), value }
            }
            Stmt::Set { local, value } => Stmt::Set { local: self.locals.get(&local).copied().unwrap_or(local), value },
            Stmt::Store { buffer, index, value } => {
                Stmt::Store { buffer: self.buffers.get(&buffer).copied().unwrap_or(buffer), index, value }
            }
            Stmt::Check { .. } => stmt,
        }
    }

    /// A new variable of the same type, which replaces `var` from now on.
    pub(crate) fn fresh(&mut self, arena: &mut Arena, var: VarId) -> VarId {
        let ty = arena.var(var).ty;
        self.fresh_of(arena, var, ty)
    }

    fn fresh_of(&mut self, arena: &mut Arena, var: VarId, ty: Ty) -> VarId {
        let new = arena.new_var(arena.var(var).name, ty);
        let e = arena.var_expr(new);
        self.set(var, e);
        new
    }
}
