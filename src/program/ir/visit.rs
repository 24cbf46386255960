//! Walking and rewriting functions.
//!
//! [`Visitor`] reads functions, [`Rewriter`] changes expressions in place. Both come with free `walk_*` functions that
//! visit the children in text order. The methods of [`Stmts`](super::stmt::Stmts) change the structure of statements,
//! and [`Func::copy_subtree`] copies them.

use super::buffer::{Buffer, BufferId, BufferRegion};
use super::expr::{Arena, Expr, ExprId, FxBuild, VarBits, VarId};
use super::func::Func;
use super::stmt::{Block, MatchBuffer, Stmt, StmtId};
use hashbrown::HashMap;

/// Reads a function. An implementation overrides some methods and calls the `walk_*` functions to visit the children.
pub trait Visitor {
    /// A statement.
    fn visit_stmt(&mut self, func: &Func, s: StmtId) {
        walk_stmt(self, func, s);
    }

    /// An expression used by a statement, or inside another one.
    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        walk_expr(self, func, e);
    }

    /// A region that a block reads or writes, or of which it has a view.
    fn visit_region(&mut self, func: &Func, r: &BufferRegion) {
        walk_region(self, func, r);
    }
}

/// Visits the direct children of a statement.
pub fn walk_stmt<V: Visitor + ?Sized>(v: &mut V, func: &Func, s: StmtId) {
    match func.get(s) {
        Stmt::Loop(l) => {
            v.visit_expr(func, l.min);
            v.visit_expr(func, l.extent);
            if let Some(step) = l.step {
                v.visit_expr(func, step);
            }
            for (_, value) in l.annotations.iter() {
                value.for_each_expr(&mut |e| v.visit_expr(func, e));
            }
        }
        Stmt::Block(b) => {
            for iter in &b.iters {
                v.visit_expr(func, iter.min);
                v.visit_expr(func, iter.extent);
                v.visit_expr(func, iter.value);
            }
            v.visit_expr(func, b.predicate);
            for region in b.reads.iter().chain(&b.writes) {
                v.visit_region(func, region);
            }
            for (_, value) in b.annotations.iter() {
                value.for_each_expr(&mut |e| v.visit_expr(func, e));
            }
            for m in &b.matches {
                v.visit_region(func, &m.source);
            }
        }
        Stmt::Store { indices, value, .. } => {
            for &i in func.arena.list(*indices) {
                v.visit_expr(func, i);
            }
            v.visit_expr(func, *value);
        }
        Stmt::If { condition, .. } => v.visit_expr(func, *condition),
        Stmt::Let { value, .. } => v.visit_expr(func, *value),
        Stmt::Evaluate(value) | Stmt::Return(value) => v.visit_expr(func, *value),
        Stmt::Alloc { buffer, annotations } => {
            visit_declaration(v, func, *buffer);
            for (_, value) in annotations.iter() {
                value.for_each_expr(&mut |e| v.visit_expr(func, e));
            }
        }
        Stmt::Declare { buffer, data } => {
            visit_declaration(v, func, *buffer);
            v.visit_expr(func, *data);
        }
        Stmt::While { condition, .. } => v.visit_expr(func, *condition),
        Stmt::Assert(a) => v.visit_expr(func, a.condition),
        Stmt::Attr(a) => {
            a.node.for_each_expr(&mut |e| v.visit_expr(func, e));
            v.visit_expr(func, a.value);
        }
        Stmt::Break | Stmt::Continue => {}
    }
    for child in func.get(s).children() {
        v.visit_stmt(func, child);
    }
}

/// Calls `f` with each expression that a statement itself evaluates, not with those of its children.
pub fn for_each_own_expr(func: &Func, s: StmtId, f: &mut impl FnMut(ExprId)) {
    struct Own<'a, F>(&'a mut F);
    impl<F: FnMut(ExprId)> Visitor for Own<'_, F> {
        fn visit_stmt(&mut self, _: &Func, _: StmtId) {}

        fn visit_expr(&mut self, _: &Func, e: ExprId) {
            self.0(e);
        }
    }
    walk_stmt(&mut Own(f), func, s);
}

/// Visits the expressions in the declaration of a buffer.
fn visit_declaration<V: Visitor + ?Sized>(v: &mut V, func: &Func, buffer: BufferId) {
    let buffer = func.arena.buffer(buffer);
    for list in [Some(buffer.shape), buffer.strides].into_iter().flatten() {
        func.arena.list(list).iter().for_each(|&e| v.visit_expr(func, e));
    }
    if let Some(e) = buffer.elem_offset {
        v.visit_expr(func, e);
    }
}

/// Visits the operands of an expression.
pub fn walk_expr<V: Visitor + ?Sized>(v: &mut V, func: &Func, e: ExprId) {
    func.arena.for_each_child(e, |c| v.visit_expr(func, c));
}

/// Visits the bounds of a region.
pub fn walk_region<V: Visitor + ?Sized>(v: &mut V, func: &Func, r: &BufferRegion) {
    for (min, extent) in r.ranges(&func.arena) {
        v.visit_expr(func, min);
        v.visit_expr(func, extent);
    }
}

/// Rewrites expressions, and the buffers in statements and regions. Expressions are shared: a rewriter must return the
/// same result for the same expression at all places.
pub trait Rewriter {
    /// The replacement of `e`.
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        walk_rewrite(self, arena, e)
    }

    /// The replacement of `b` in stores and regions.
    fn rewrite_buffer(&mut self, b: BufferId) -> BufferId {
        b
    }
}

/// Rewrites the operands of an expression, and the buffer if it is a load.
pub fn walk_rewrite<R: Rewriter + ?Sized>(r: &mut R, arena: &mut Arena, e: ExprId) -> ExprId {
    let new = arena.map_children(e, |a, c| r.rewrite_expr(a, c));
    rewrite_loaded(r, arena, new)
}

/// Rewrites the buffer of an expression if it is a load.
fn rewrite_loaded<R: Rewriter + ?Sized>(r: &mut R, arena: &mut Arena, new: ExprId) -> ExprId {
    match arena.expr(new) {
        Expr::Load(buffer, indices) => {
            let to = r.rewrite_buffer(buffer);
            if to != buffer {
                let indices = arena.list(indices).to_vec();
                return arena.load(to, &indices);
            }
            new
        }
        Expr::BufferData(buffer) => {
            let to = r.rewrite_buffer(buffer);
            arena.buffer_data(to)
        }
        _ => new,
    }
}

/// Replaces variables by expressions and buffers by buffers in expressions, and memoises the results.
#[derive(Default)]
pub struct Substitution {
    vars: HashMap<VarId, ExprId, FxBuild>,
    /// A superset of the variables in `vars`.
    bits: VarBits,
    buffers: HashMap<BufferId, BufferId, FxBuild>,
    done: HashMap<ExprId, ExprId, FxBuild>,
    unfolded: bool,
}

impl Substitution {
    /// The substitution of these variables.
    pub fn of_vars(vars: impl IntoIterator<Item = (VarId, ExprId)>) -> Self {
        let mut substitution = Substitution::default();
        for (var, value) in vars {
            substitution.add_var(var, value);
        }
        substitution
    }

    /// The substitution of these buffers.
    pub fn of_buffers(buffers: impl IntoIterator<Item = (BufferId, BufferId)>) -> Self {
        Substitution { buffers: buffers.into_iter().collect(), ..Default::default() }
    }

    /// Switches folding off: constants that replace variables are not folded with the surrounding expressions. TVM's
    /// `fuse` and `split` leave predicates in this form.
    pub fn unfolded(self) -> Self {
        Substitution { unfolded: true, ..self }
    }

    /// Also replaces a variable.
    pub fn add_var(&mut self, var: VarId, value: ExprId) {
        self.vars.insert(var, value);
        self.bits.add(var);
        self.done.clear();
    }

    /// Also replaces a buffer.
    pub fn add_buffer(&mut self, from: BufferId, to: BufferId) {
        self.buffers.insert(from, to);
        self.done.clear();
    }

    /// The replacement of a variable.
    pub fn var(&self, var: VarId) -> Option<ExprId> {
        self.vars.get(&var).copied()
    }

    /// Whether the substitution is empty.
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty() && self.buffers.is_empty()
    }

    /// The expression after replacement.
    pub fn apply(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        self.rewrite_expr(arena, e)
    }

    /// The region after replacement.
    pub fn apply_region(&mut self, arena: &mut Arena, r: &BufferRegion) -> BufferRegion {
        rewrite_region(self, arena, r)
    }
}

impl Rewriter for Substitution {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) => return e,
            Expr::Var(v) => return self.vars.get(&v).copied().unwrap_or(e),
            _ => {}
        }
        // Few expressions of a nest mention the replaced loop.
        if self.buffers.is_empty() && !arena.vars_inside(e).meets(self.bits) {
            return e;
        }
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let new = if self.unfolded {
            let new = arena.map_children_unfolded(e, |a, c| self.rewrite_expr(a, c));
            rewrite_loaded(self, arena, new)
        } else {
            walk_rewrite(self, arena, e)
        };
        self.done.insert(e, new);
        new
    }

    fn rewrite_buffer(&mut self, b: BufferId) -> BufferId {
        self.buffers.get(&b).copied().unwrap_or(b)
    }
}

/// Rewrites an expression and keeps its type: if an `int64` replaces an `int32`, the result is converted back.
fn rewrite_typed<R: Rewriter + ?Sized>(r: &mut R, arena: &mut Arena, e: ExprId) -> ExprId {
    let (before, new) = (arena.dtype(e), r.rewrite_expr(arena, e));
    let mixed = before.is_index() && arena.dtype(new).is_index();
    if mixed { arena.cast(before, new) } else { new }
}

/// Rewrites buffer and bounds of a region.
pub fn rewrite_region<R: Rewriter + ?Sized>(r: &mut R, arena: &mut Arena, region: &BufferRegion) -> BufferRegion {
    BufferRegion {
        buffer: r.rewrite_buffer(region.buffer),
        mins: arena.map_list(region.mins, |a, e| r.rewrite_expr(a, e)),
        extents: arena.map_list(region.extents, |a, e| r.rewrite_expr(a, e)),
    }
}

impl Func {
    /// Rewrites the expressions of one statement, without its children.
    pub fn rewrite_stmt<R: Rewriter + ?Sized>(&mut self, s: StmtId, r: &mut R) {
        let Func { arena, stmts, .. } = self;
        match stmts.stmt_mut(s) {
            Stmt::Loop(l) => {
                l.min = r.rewrite_expr(arena, l.min);
                l.extent = r.rewrite_expr(arena, l.extent);
                l.step = l.step.map(|step| r.rewrite_expr(arena, step));
                for value in l.annotations.values_mut() {
                    value.map_exprs(&mut |e| r.rewrite_expr(arena, e));
                }
            }
            Stmt::Block(b) => rewrite_block(arena, b, r),
            Stmt::Store { buffer, indices, value } => {
                *buffer = r.rewrite_buffer(*buffer);
                *indices = arena.map_list(*indices, |a, e| r.rewrite_expr(a, e));
                *value = rewrite_typed(r, arena, *value);
            }
            Stmt::If { condition, .. } => *condition = r.rewrite_expr(arena, *condition),
            Stmt::Let { value, .. } => *value = rewrite_typed(r, arena, *value),
            Stmt::Evaluate(value) | Stmt::Return(value) => *value = r.rewrite_expr(arena, *value),
            Stmt::Alloc { buffer, annotations } => {
                rewrite_declaration(r, arena, *buffer);
                *buffer = r.rewrite_buffer(*buffer);
                for value in annotations.values_mut() {
                    value.map_exprs(&mut |e| r.rewrite_expr(arena, e));
                }
            }
            Stmt::Declare { buffer, data } => {
                rewrite_declaration(r, arena, *buffer);
                *buffer = r.rewrite_buffer(*buffer);
                *data = r.rewrite_expr(arena, *data);
            }
            Stmt::While { condition, .. } => *condition = r.rewrite_expr(arena, *condition),
            Stmt::Assert(a) => a.condition = r.rewrite_expr(arena, a.condition),
            Stmt::Attr(a) => {
                a.node.map_exprs(&mut |e| r.rewrite_expr(arena, e));
                a.value = r.rewrite_expr(arena, a.value);
            }
            Stmt::Break | Stmt::Continue => {}
        }
    }

    /// Rewrites the expressions of a statement and of its subtree.
    pub fn rewrite_subtree<R: Rewriter + ?Sized>(&mut self, s: StmtId, r: &mut R) {
        self.rewrite_stmt(s, r);
        for child in self.get(s).children() {
            self.rewrite_subtree(child, r);
        }
    }

    /// Copies a statement with its subtree, not inserted yet. Variables bound inside (loops, block iterations, let
    /// statements) and buffers allocated inside get fresh ids; `substitution` is applied to the others, and afterwards
    /// also maps the old ids to the fresh ones. Returns the copy.
    pub fn copy_subtree(&mut self, s: StmtId, substitution: &mut Substitution) -> StmtId {
        let mut node = self.get(s).clone();
        match &mut node {
            Stmt::Loop(l) => l.var = self.fresh(l.var, substitution),
            Stmt::Block(b) => {
                for iter in &mut b.iters {
                    iter.var = self.fresh(iter.var, substitution);
                }
                for buffer in b.allocs.iter_mut().chain(b.matches.iter_mut().map(|m| &mut m.buffer)) {
                    *buffer = self.fresh_buffer(*buffer, substitution);
                }
            }
            Stmt::Let { var, .. } => *var = self.fresh(*var, substitution),
            Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } => {
                *buffer = self.fresh_buffer(*buffer, substitution);
            }
            Stmt::Store { .. }
            | Stmt::If { .. }
            | Stmt::Evaluate(_)
            | Stmt::While { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_)
            | Stmt::Attr(_) => {}
        }
        let mut lists: Vec<super::stmt::Body> = node.bodies().into_iter().cloned().collect();
        for list in &mut lists {
            for child in list.iter_mut() {
                *child = self.copy_subtree(*child, substitution);
            }
        }
        node.replace_bodies(lists);
        let copy = self.stmts.add(node);
        self.rewrite_stmt(copy, substitution);
        copy
    }

    /// A copy of a buffer that is declared in the copied subtree.
    fn fresh_buffer(&mut self, buffer: BufferId, substitution: &mut Substitution) -> BufferId {
        let mut copy = self.arena.buffer(buffer).clone();
        copy.shape = self.arena.map_list(copy.shape, |a, e| substitution.rewrite_expr(a, e));
        copy.strides = copy.strides.map(|l| self.arena.map_list(l, |a, e| substitution.rewrite_expr(a, e)));
        copy.elem_offset = copy.elem_offset.map(|e| substitution.rewrite_expr(&mut self.arena, e));
        let copy = self.arena.new_buffer(copy);
        substitution.add_buffer(buffer, copy);
        copy
    }

    fn fresh(&mut self, var: VarId, substitution: &mut Substitution) -> VarId {
        let old = self.arena.var(var).clone();
        let (new, e) = self.arena.new_var_expr(old.name, old.ty());
        self.arena.set_pointee(new, old.pointee);
        substitution.add_var(var, e);
        new
    }
}

/// Rewrites the declaration of a block's buffer, which may depend on the iterations of the block.
fn rewrite_declaration<R: Rewriter + ?Sized>(r: &mut R, arena: &mut Arena, view: BufferId) {
    let Buffer { shape, strides, elem_offset, .. } = *arena.buffer(view);
    let shape = arena.map_list(shape, |a, e| r.rewrite_expr(a, e));
    let strides = strides.map(|list| arena.map_list(list, |a, e| r.rewrite_expr(a, e)));
    let elem_offset = elem_offset.map(|e| r.rewrite_expr(arena, e));
    arena.update_buffer(view, |b| (b.shape, b.strides, b.elem_offset) = (shape, strides, elem_offset));
}

fn rewrite_block<R: Rewriter + ?Sized>(arena: &mut Arena, b: &mut Block, r: &mut R) {
    for iter in &mut b.iters {
        iter.min = r.rewrite_expr(arena, iter.min);
        iter.extent = r.rewrite_expr(arena, iter.extent);
        iter.value = r.rewrite_expr(arena, iter.value);
    }
    b.predicate = r.rewrite_expr(arena, b.predicate);
    for region in b.reads.iter_mut().chain(b.writes.iter_mut()) {
        *region = rewrite_region(r, arena, region);
    }
    for MatchBuffer { source, .. } in &mut b.matches {
        *source = rewrite_region(r, arena, source);
    }
    for &buffer in b.allocs.iter().chain(b.matches.iter().map(|m| &m.buffer)) {
        rewrite_declaration(r, arena, buffer);
    }
    for buffer in b.allocs.iter_mut().chain(b.matches.iter_mut().map(|m| &mut m.buffer)) {
        *buffer = r.rewrite_buffer(*buffer);
    }
    for value in b.annotations.values_mut() {
        value.map_exprs(&mut |e| r.rewrite_expr(arena, e));
    }
}

/// Whether the expression mentions a variable for which `f` returns true.
pub fn uses_var(arena: &Arena, e: ExprId, f: &mut impl FnMut(VarId) -> bool) -> bool {
    if let Expr::Var(v) = arena.expr(e) {
        return f(v);
    }
    let mut found = false;
    arena.for_each_child(e, |c| found = found || uses_var(arena, c, f));
    found
}

/// The variables an expression mentions, each once, in order of appearance.
pub fn vars_of(arena: &Arena, e: ExprId) -> Vec<VarId> {
    let mut vars = Vec::new();
    uses_var(arena, e, &mut |v| {
        if !vars.contains(&v) {
            vars.push(v);
        }
        false
    });
    vars
}

/// Calls `f` for the expression and everything inside it, parents first.
pub fn for_each_subexpr(arena: &Arena, e: ExprId, f: &mut impl FnMut(ExprId)) {
    f(e);
    arena.for_each_child(e, |c| for_each_subexpr(arena, c, f));
}
