//! The walk of the verifier over a function.

use super::bounds::{Range, Ranges};
use super::{Checks, Role, Violation, ViolationKind as Kind};
use crate::ir::buffer::{BufferId, BufferRegion};
use crate::ir::dtype::{DType, Ty};
use crate::ir::expr::{Expr, ExprId, ExprList, VarId};
use crate::ir::func::Func;
use crate::ir::op::{BinOp, Builtin, Domain};
use crate::ir::stmt::{Block, BlockIter, Body, Loop, Stmt, StmtId};
use crate::ir::visit::uses_var;

/// State of a variable during the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VarState {
    Unbound,
    /// In scope; for a loop, the number of blocks with iteration variables around it.
    Loop(usize),
    Bound,
    /// The scope has ended.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BufferState {
    Unbound,
    Bound,
    Gone,
}

pub(super) struct Walk<'a> {
    func: &'a Func,
    checks: Checks,
    found: Vec<Violation>,
    visited: Vec<bool>,
    vars: Vec<VarState>,
    buffers: Vec<BufferState>,
    /// The source of each view; other buffers map to themselves.
    sources: Vec<BufferId>,
    /// Enclosing blocks that have iteration variables.
    enclosing: Vec<&'a Block>,
    /// Enclosing blocks, for the check of signatures.
    signatures: Vec<&'a Block>,
    ranges: Ranges,
    /// For each buffer, the number of blocks around its allocation: those need not list it.
    depths: Vec<usize>,
    /// Whether each buffer is another name for memory, whose shape is no bound.
    declared: Vec<bool>,
    /// Number of enclosing loops.
    n_loops: usize,
    /// Whether a statement after which execution may not continue was visited. Later statements are not known to run.
    jumps: bool,
    stmt: Option<StmtId>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(func: &'a Func, checks: Checks) -> Self {
        Walk {
            func,
            checks,
            found: Vec::new(),
            visited: vec![false; func.len()],
            vars: vec![VarState::Unbound; func.arena.n_vars()],
            buffers: vec![BufferState::Unbound; func.arena.n_buffers()],
            sources: func.arena.buffer_ids().collect(),
            enclosing: Vec::new(),
            signatures: Vec::new(),
            ranges: Ranges::default(),
            depths: vec![0; func.arena.n_buffers()],
            declared: vec![false; func.arena.n_buffers()],
            n_loops: 0,
            jumps: false,
            stmt: None,
        }
    }

    pub(super) fn run(mut self) -> Vec<Violation> {
        let func = self.func;
        for p in &func.params {
            self.bind_var(p.var, VarState::Bound);
        }
        let buffers = || func.params.iter().filter_map(|p| p.buffer);
        buffers().for_each(|b| self.bind_param_symbols(b));
        buffers().for_each(|b| self.bind_buffer(b));
        for (_, value) in func.attrs.iter() {
            value.for_each_expr(&mut |e| self.expr(e));
        }
        let root = func.block(func.root);
        let plain = root.iters.is_empty() && root.init.is_none() && func.arena.is_int(root.predicate, 1);
        if !plain {
            self.report_at(func.root.stmt(), None, Kind::RootSignature);
        }
        if func.parent(func.root.stmt()).is_some() {
            let recorded = func.parent(func.root.stmt());
            self.report_at(func.root.stmt(), None, Kind::WrongParent { recorded });
        }
        self.walk(func.root.stmt());
        self.found
    }

    fn report(&mut self, expr: Option<ExprId>, kind: Kind) {
        let violation = Violation { stmt: self.stmt, expr, kind };
        if !self.found.contains(&violation) {
            self.found.push(violation);
        }
    }

    fn report_at(&mut self, s: StmtId, expr: Option<ExprId>, kind: Kind) {
        let before = self.stmt.replace(s);
        self.report(expr, kind);
        self.stmt = before;
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn walk(&mut self, s: StmtId) {
        if std::mem::replace(&mut self.visited[s.index()], true) {
            return self.report_at(s, None, Kind::SharedStatement);
        }
        let func = self.func;
        let outside = self.stmt.replace(s);
        match func.get(s) {
            Stmt::Loop(l) => self.walk_loop(s, l),
            Stmt::Block(b) => self.walk_block(s, b),
            Stmt::Store { buffer, indices, value } => {
                self.access(*buffer, *indices, None, true);
                let expected = func.arena.accessed(*buffer, func.arena.list(*indices));
                // A copy whose source does not exist has no effect.
                let around = func.parent(s).and_then(|p| func.as_block(p));
                let is_copy = around.is_some_and(|b| func.copied(func.block(b)).is_some());
                let bounds = self.checks.bounds;
                self.checks.bounds &= !is_copy;
                self.expr_of_type(Role::StoredValue, *value, expected);
                self.checks.bounds = bounds;
            }
            Stmt::If { condition, then, otherwise } => {
                self.condition(*condition);
                self.under(*condition, true, |w| w.walk_body(s, then));
                self.under(*condition, false, |w| w.walk_body(s, otherwise));
            }
            Stmt::Let { var, value, body } => {
                self.expr_of_type(Role::LetValue, *value, func.arena.var(*var).ty());
                self.bind_var(*var, VarState::Bound);
                self.walk_body(s, body);
                self.vars[var.index()] = VarState::Gone;
            }
            Stmt::Evaluate(value) => self.expr(*value),
            Stmt::Alloc { buffer, annotations } => {
                for (_, value) in annotations.iter() {
                    value.for_each_expr(&mut |e| self.expr(e));
                }
                self.bind_buffer(*buffer);
                self.depths[buffer.index()] = self.signatures.len();
            }
            Stmt::Declare { buffer, data } => {
                self.expr_of_type(Role::Pointer, *data, DType::Handle);
                match func.arena.expr(*data) {
                    Expr::BufferData(b) => {
                        self.sources[buffer.index()] = self.sources[b.index()];
                        self.depths[buffer.index()] = self.depths[b.index()];
                    }
                    // No block can list this memory.
                    _ => self.depths[buffer.index()] = usize::MAX,
                }
                self.declared[buffer.index()] = true;
                self.bind_symbols(*buffer);
                self.bind_buffer(*buffer);
            }
            Stmt::While { condition, body } => {
                self.condition(*condition);
                self.n_loops += 1;
                let doubtful = std::mem::replace(&mut self.ranges.doubtful, true);
                self.walk_body(s, body);
                self.ranges.doubtful = doubtful;
                self.n_loops -= 1;
            }
            Stmt::Break | Stmt::Continue => {
                if self.n_loops == 0 {
                    self.report(None, Kind::JumpOutsideLoop);
                }
                self.jumps = true;
            }
            Stmt::Return(value) => {
                self.expr(*value);
                self.jumps = true;
            }
            Stmt::Assert(a) => {
                self.condition(a.condition);
                self.jumps = true;
            }
            Stmt::Attr(a) => {
                a.node.for_each_expr(&mut |e| self.expr(e));
                self.expr(a.value);
                self.walk_body(s, &a.body);
            }
        }
        self.stmt = outside;
    }

    fn walk_body(&mut self, parent: StmtId, body: &Body) {
        for &child in body {
            let recorded = self.func.parent(child);
            if recorded != Some(parent) {
                self.report_at(child, None, Kind::WrongParent { recorded });
            }
            self.walk(child);
        }
        for &child in body {
            if let Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } = self.func.get(child) {
                self.buffers[buffer.index()] = BufferState::Gone;
            }
        }
    }

    /// A condition: a boolean, or an integer that is not 0.
    fn condition(&mut self, e: ExprId) {
        if self.func.arena.dtype(e).is_integer() {
            return self.expr(e);
        }
        self.expr_of_type(Role::Condition, e, DType::Bool);
    }

    fn under(&mut self, condition: ExprId, holds: bool, inside: impl FnOnce(&mut Self)) {
        if !self.checks.bounds {
            return inside(self);
        }
        let before = self.ranges.clone();
        self.ranges.assume(&self.func.arena, condition, holds);
        inside(self);
        self.ranges = before;
    }

    fn walk_loop(&mut self, s: StmtId, l: &'a Loop) {
        let arena = &self.func.arena;
        let dtype = arena.var(l.var).dtype;
        if !dtype.is_integer() {
            self.report(None, Kind::VariableType { var: l.var, found: dtype });
        }
        self.expr_of_type(Role::FirstValue, l.min, dtype);
        self.expr_of_type(Role::Extent, l.extent, dtype);
        if let Some(step) = l.step {
            self.expr_of_type(Role::Step, step, dtype);
            if let Some(found) = arena.as_int(step).filter(|&n| n < 1) {
                self.report(Some(step), Kind::Step { var: l.var, found });
            }
        }
        for (_, value) in l.annotations.iter() {
            value.for_each_expr(&mut |e| self.expr(e));
        }
        self.bind_var(l.var, VarState::Loop(self.enclosing.len()));
        let step = l.step.map_or(Some(1), |step| arena.as_int(step)).filter(|&step| step > 0);
        let range = match (arena.as_int(l.min), self.func.n_iterations(l), step) {
            (Some(min), Some(n), Some(step)) if n > 0 => Range::stepped(min, n, step),
            _ => None,
        };
        self.ranges.set(l.var, range);
        let doubtful = self.ranges.doubtful;
        // A loop of unknown extent may have no iterations.
        self.ranges.doubtful |= range.is_none();
        self.n_loops += 1;
        self.walk_body(s, &l.body);
        self.n_loops -= 1;
        self.ranges.doubtful = doubtful;
        self.vars[l.var.index()] = VarState::Gone;
    }

    fn walk_block(&mut self, s: StmtId, b: &'a Block) {
        for iter in &b.iters {
            self.index_var(iter.var);
            let dtype = self.func.arena.var(iter.var).dtype;
            self.expr_of_type(Role::FirstValue, iter.min, dtype);
            self.expr_of_type(Role::Extent, iter.extent, dtype);
            if let Some(extent) = self.func.arena.as_int(iter.extent).filter(|&n| n < 0) {
                self.report(Some(iter.extent), Kind::NegativeExtent { var: iter.var, extent });
            }
        }
        self.expr_of_type(Role::Predicate, b.predicate, DType::Bool);
        let before = self.checks.bounds.then(|| self.ranges.clone());
        self.ranges.assume(&self.func.arena, b.predicate, true);
        b.iters.iter().for_each(|iter| self.scalar_integer(Role::Binding, iter.value));
        self.bind_iters(&b.iters);

        if !b.iters.is_empty() {
            self.enclosing.push(b);
        }
        for region in b.reads.iter().chain(&b.writes) {
            self.region(region);
        }
        for (_, value) in b.annotations.iter() {
            value.for_each_expr(&mut |e| self.expr(e));
        }
        for &a in &b.allocs {
            self.bind_buffer(a);
        }
        for m in &b.matches {
            self.region(&m.source);
            self.sources[m.buffer.index()] = self.sources[m.source.buffer.index()];
            self.bind_symbols(m.buffer);
            self.bind_buffer(m.buffer);
        }
        for region in b.reads.iter().chain(&b.writes) {
            let own = b.allocs.contains(&region.buffer) || b.matches.iter().any(|m| m.buffer == region.buffer);
            if own {
                self.report(None, Kind::OwnBufferInSignature { buffer: region.buffer });
            }
        }
        self.signatures.push(b);
        if let Some(init) = &b.init {
            self.walk_body(s, init);
        }
        self.walk_body(s, &b.body);
        self.signatures.pop();
        if !b.iters.is_empty() {
            self.enclosing.pop();
        }
        for &buffer in b.allocs.iter().chain(b.matches.iter().map(|m| &m.buffer)) {
            self.buffers[buffer.index()] = BufferState::Gone;
        }
        for iter in &b.iters {
            self.vars[iter.var.index()] = VarState::Gone;
        }
        if let Some(before) = before {
            self.ranges = before;
        }
    }

    /// Brings a block's iterations into scope, with the ranges of their bindings within their domains.
    fn bind_iters(&mut self, iters: &[BlockIter]) {
        let arena = &self.func.arena;
        let mut mentioned: Vec<VarId> = Vec::new();
        let mut reached = Vec::with_capacity(iters.len());
        let mut shares = false;
        let mut narrows = false;
        for iter in iters {
            // Iterations that share a variable are not independent.
            let mut own = Vec::new();
            uses_var(arena, iter.value, &mut |v| {
                own.push(v);
                false
            });
            let shared = own.iter().any(|v| mentioned.contains(v));
            shares |= shared;
            mentioned.extend(own);
            let range = self.ranges.of(arena, iter.value);
            let inside = range
                .zip(arena.as_int(iter.min))
                .zip(arena.as_int(iter.extent))
                .and_then(|((r, min), n)| r.intersect(min, min.checked_add(n)?.checked_sub(1)?));
            narrows |= inside != range || range.is_none();
            // If the range is unknown, it is unknown which instances run.
            self.ranges.doubtful |= inside.is_none() && range.is_some();
            reached.push(inside.filter(|_| !shared));
        }
        // Narrowing one domain also narrows iterations that share a variable.
        self.ranges.doubtful |= shares && narrows;
        for (iter, range) in iters.iter().zip(reached) {
            self.bind_var(iter.var, VarState::Bound);
            self.ranges.set(iter.var, range);
        }
        for v in mentioned {
            // Inside the block, these loop variables move together with the iterations.
            self.ranges.set(v, None);
        }
    }

    // ---- variables and buffers -----------------------------------------------------------------------------

    fn index_var(&mut self, var: VarId) {
        let found = self.func.arena.var(var).dtype;
        if !found.is_index() {
            self.report(None, Kind::VariableType { var, found });
        }
    }

    fn bind_var(&mut self, var: VarId, state: VarState) {
        if self.vars[var.index()] != VarState::Unbound {
            self.report(None, Kind::VariableBoundTwice { var });
        }
        self.vars[var.index()] = state;
    }

    /// Binds the symbols in extents, strides and offsets of parameters, which are in scope in the whole function, also
    /// if no extent is the symbol alone: `n + 1` determines `n`.
    fn bind_param_symbols(&mut self, b: BufferId) {
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        let lists = [Some(buffer.shape), buffer.strides].into_iter().flatten();
        for e in lists.flat_map(|l| arena.list(l)).copied().chain(buffer.elem_offset) {
            for v in crate::ir::visit::vars_of(arena, e) {
                if self.vars[v.index()] == VarState::Unbound {
                    self.vars[v.index()] = VarState::Bound;
                }
            }
        }
    }

    /// Binds the symbolic extents, strides and offsets of a view.
    fn bind_symbols(&mut self, b: BufferId) {
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        let lists = [Some(buffer.shape), buffer.strides].into_iter().flatten();
        for e in lists.flat_map(|l| arena.list(l)).copied().chain(buffer.elem_offset) {
            if let Some(v) = arena.as_var(e)
                && self.vars[v.index()] == VarState::Unbound
            {
                self.vars[v.index()] = VarState::Bound;
            }
        }
    }

    fn bind_buffer(&mut self, b: BufferId) {
        if self.buffers[b.index()] != BufferState::Unbound {
            self.report(None, Kind::BufferBoundTwice { buffer: b });
        }
        self.buffers[b.index()] = BufferState::Bound;
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        for (dim, &e) in arena.list(buffer.shape).iter().enumerate() {
            self.scalar_integer(Role::Dimension, e);
            if let Some(extent) = arena.as_int(e).filter(|&n| n < 0) {
                self.report(Some(e), Kind::NegativeDimension { buffer: b, dim, extent });
            }
        }
        if let Some(strides) = buffer.strides {
            let (expected, found) = (arena.list(buffer.shape).len(), arena.list(strides).len());
            // An empty list of strides means compact ones.
            if expected != found && found != 0 {
                self.report(None, Kind::StrideCount { buffer: b, expected, found });
            }
            arena.list(strides).iter().for_each(|&e| self.scalar_integer(Role::Stride, e));
        }
        if let Some(e) = buffer.elem_offset {
            self.scalar_integer(Role::Offset, e);
        }
    }

    fn in_scope(&mut self, buffer: BufferId, expr: Option<ExprId>) {
        if self.buffers[buffer.index()] != BufferState::Bound {
            self.report(expr, Kind::BufferOutOfScope { buffer });
        }
    }

    fn index_count(&mut self, buffer: BufferId, indices: ExprList, expr: Option<ExprId>) {
        let arena = &self.func.arena;
        let (expected, found) = (arena.list(arena.buffer(buffer).shape).len(), arena.list(indices).len());
        if expected != found {
            self.report(expr, Kind::IndexCount { buffer, expected, found });
        }
    }

    fn region(&mut self, r: &BufferRegion) {
        self.in_scope(r.buffer, None);
        self.index_count(r.buffer, r.mins, None);
        for (min, extent) in r.ranges(&self.func.arena) {
            self.scalar_integer(Role::RegionBound, min);
            self.scalar_integer(Role::RegionBound, extent);
        }
    }

    fn access(&mut self, buffer: BufferId, indices: ExprList, load: Option<ExprId>, is_store: bool) {
        let arena = &self.func.arena;
        self.in_scope(buffer, load);
        self.index_count(buffer, indices, load);
        let all = arena.list(indices);
        for (dim, &e) in all.iter().enumerate() {
            if dim + 1 < all.len() && arena.lanes(e) > 1 {
                self.report(Some(e), Kind::VectorIndex { buffer, dim });
            }
            self.integer(Role::Index, e);
        }
        if self.checks.signatures {
            self.check_signature(buffer, load, is_store);
        }
        if self.checks.bounds && !self.ranges.doubtful && !self.jumps && !self.declared[buffer.index()] {
            for (dim, (&e, &n)) in arena.list(indices).iter().zip(arena.list(arena.buffer(buffer).shape)).enumerate() {
                let (Some(mut extent), Some(range)) = (arena.as_int(n), self.ranges.of(arena, e)) else { continue };
                if arena.lanes(e) > 1 {
                    // The lanes of a vector continue in the next row.
                    let shape = arena.list(arena.buffer(buffer).shape);
                    extent = shape.iter().try_fold(1i64, |n, &e| n.checked_mul(arena.as_int(e)?)).unwrap_or(i64::MAX);
                }
                let outside = [range.lo, range.hi].into_iter().find(|&v| v < 0 || v >= extent);
                if let Some(reached) = outside {
                    self.report(Some(e), Kind::OutOfBounds { buffer, dim, reached, extent });
                }
            }
        }
    }

    fn check_signature(&mut self, buffer: BufferId, load: Option<ExprId>, is_store: bool) {
        let source = self.sources[buffer.index()];
        // From the innermost block outwards, up to the block that allocates the buffer.
        for i in (self.depths[source.index()].min(self.signatures.len())..self.signatures.len()).rev() {
            let b = self.signatures[i];
            if b.allocs.contains(&source) || b.allocs.contains(&buffer) {
                return;
            }
            if b.iters.is_empty() && b.reads.is_empty() && b.writes.is_empty() {
                continue;
            }
            let lists = |regions: &[BufferRegion]| {
                regions.iter().any(|r| r.buffer == buffer || self.sources[r.buffer.index()] == source)
            };
            let block = b.name;
            if is_store && !lists(&b.writes) {
                self.report(load, Kind::UnlistedWrite { buffer, block });
            } else if !is_store && !lists(&b.reads) && !lists(&b.writes) {
                self.report(load, Kind::UnlistedRead { buffer, block });
            }
        }
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    fn expr_of_type(&mut self, role: Role, e: ExprId, expected: impl Into<Ty>) {
        let (expected, found) = (expected.into(), self.func.arena.ty(e));
        if found != expected {
            self.report(Some(e), Kind::TypeMismatch { role, expected, found });
        }
        self.expr(e);
    }

    fn scalar_integer(&mut self, role: Role, e: ExprId) {
        let found = self.func.arena.ty(e);
        if found.is_vector() {
            self.report(Some(e), Kind::Vector { role, found });
        }
        self.integer(role, e);
    }

    fn integer(&mut self, role: Role, e: ExprId) {
        let found = self.func.arena.dtype(e);
        if !found.is_integer() {
            self.report(Some(e), Kind::WrongDomain { role, expected: Domain::Integer, found });
        }
        self.expr(e);
    }

    fn number(&mut self, e: ExprId) {
        let found = self.func.arena.dtype(e);
        if matches!(found, DType::Handle | DType::Str) {
            self.report(Some(e), Kind::WrongDomain { role: Role::Operand, expected: Domain::Number, found });
        }
        self.expr(e);
    }

    fn expr(&mut self, e: ExprId) {
        let arena = &self.func.arena;
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) => {}
            Expr::BufferData(b) => self.in_scope(b, Some(e)),
            Expr::Var(v) => self.use_var(v, e),
            Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                self.expr(a);
                self.under(a, op == BinOp::And, |w| w.expr(b));
            }
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
                self.number(a);
                self.number(b);
            }
            Expr::Not(a) => self.expr(a),
            Expr::Cast(a) => self.number(a),
            Expr::Select(c, t, o) => {
                self.expr(c);
                self.expr(t);
                self.expr(o);
            }
            Expr::IfThenElse(c, t, o) => {
                self.expr(c);
                self.under(c, true, |w| w.expr(t));
                self.under(c, false, |w| w.expr(o));
            }
            Expr::Load(b, indices) => self.access(b, indices, Some(e), false),
            Expr::Call(function, args) => {
                let args = arena.list(args);
                for &a in args {
                    let (found, first) = (arena.dtype(a), arena.dtype(args[0]));
                    if !function.domain().takes(found) {
                        self.report(Some(a), Kind::Argument { function, expected: function.domain(), found });
                    } else if found != first {
                        self.report(Some(a), Kind::ArgumentTypes { function, expected: first, found });
                    }
                    self.expr(a);
                }
            }
            Expr::Let(v, value, body) => {
                self.expr_of_type(Role::LetValue, value, arena.var(v).ty());
                let before = std::mem::replace(&mut self.vars[v.index()], VarState::Bound);
                let range = self.ranges.set(v, None);
                self.expr(body);
                self.vars[v.index()] = before;
                self.ranges.set(v, range);
            }
            Expr::Ramp(base, stride) => {
                self.number(base);
                self.number(stride);
            }
            Expr::Broadcast(value) => self.expr(value),
            Expr::Shuffle(vectors, indices) => {
                let lanes = arena.list(vectors).iter().map(|&v| i64::from(arena.lanes(v))).sum();
                for &i in arena.list(indices) {
                    if !arena.as_int(i).is_some_and(|i| (0..lanes).contains(&i)) {
                        self.report(Some(i), Kind::Lane { lanes });
                    }
                }
                arena.list(vectors).iter().for_each(|&v| self.number(v));
            }
            Expr::Builtin(function, args) => {
                let args = arena.list(args);
                if let (Builtin::Reinterpret, &[value]) = (function, args) {
                    let (expected, found) = (arena.ty(e), arena.ty(value));
                    if expected.bytes() != found.bytes() {
                        self.report(Some(e), Kind::Reinterpretation { expected, found });
                    }
                }
                args.iter().for_each(|&a| self.expr(a));
            }
        }
    }

    fn use_var(&mut self, var: VarId, e: ExprId) {
        match self.vars[var.index()] {
            VarState::Bound => {}
            VarState::Loop(depth) => {
                if let Some(b) = self.enclosing.get(depth) {
                    self.report(Some(e), Kind::LoopCrossesBlock { var, block: b.name });
                }
            }
            VarState::Unbound | VarState::Gone => self.report(Some(e), Kind::VariableOutOfScope { var }),
        }
    }
}
