//! Translates statements of the block tree into statements of the loop IR. Memory positions of accesses are still open.

use super::alias::Aliases;
use super::control::{Exits, Jumps};
use super::facts::Facts;
use super::init::{self, Hoists};
use super::{LowerError, Result};
use crate::ir;
use crate::ir::alignment::{DIM_ALIGN, DimAlign};
use crate::ir::barriers::is_of_blocks;
use crate::ir::expr::FxBuild;
use crate::ir::{BlockId, Func, IterKind, Symbol};
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{
    Access, Body, BufferId, ExprId, For, Hints, Iterations, Kernel, LocalId, LoopKind, Placement, Ranges, Stmt, StmtId,
    VarId,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Exclusive upper bound of a buffer's number of elements.
pub(super) const MAX_LEN: i64 = 1 << 40;

/// Indices of an access, one for each dimension: scalar `int64`.
pub(super) type Dims = SmallVec<[ExprId; 4]>;

/// An element of a buffer without a memory position yet. In the draft, a variable of its own represents its linear
/// index.
pub(super) struct Token {
    pub buffer: BufferId,
    pub dims: Dims,
}

/// The role of a loop for a store, from the iterations of the blocks around the store. Later variants take precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Role {
    /// The loop drives spatial iterations only.
    Spatial,
    /// It drives reduction iterations only.
    Reduce,
    /// The loop drives other iterations, or iterations of several kinds.
    Other,
}

/// The loops that drive the blocks around a store.
pub(super) type Roles = SmallVec<[(VarId, Role); 8]>;

/// Facts about a buffer that the kernel does not contain.
pub(super) struct Shape {
    /// Extents.
    pub extents: SmallVec<[i64; 4]>,
    /// Strides of a parameter, in elements.
    pub strides: SmallVec<[i64; 4]>,
    /// Offset of a parameter's first element from the pointer, in elements.
    pub offset: i64,
    /// The loops around its allocation, outermost first.
    pub loops: SmallVec<[VarId; 8]>,
    /// Alignment requests of the blocks for the strides of an allocation.
    pub aligned: Vec<DimAlign>,
}

impl Shape {
    /// The shape of memory with several names.
    fn flat(len: i64, loops: SmallVec<[VarId; 8]>) -> Shape {
        let one = SmallVec::from_slice(&[1]);
        Shape { extents: SmallVec::from_slice(&[len]), strides: one, offset: 0, loops, aligned: Vec::new() }
    }
}

/// A kernel whose accesses are tokens.
pub(super) struct Draft {
    pub kernel: Kernel,
    pub ranges: Ranges,
    pub tokens: Vec<Token>,
    pub token_vars: HashMap<VarId, usize, FxBuild>,
    /// Facts about each buffer of the kernel.
    pub shapes: Vec<Shape>,
    /// The roles of loops for each store inside blocks.
    pub roles: HashMap<StmtId, Roles, FxBuild>,
}

impl Draft {
    /// The token with this index.
    pub(super) fn token(&self, index: ExprId) -> Option<usize> {
        self.kernel.arena.as_var(index).and_then(|v| self.token_vars.get(&v).copied())
    }
}

/// The value of a variable of the function.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// An integer, converted to `int64`.
    Index(ExprId),
    /// A value of the variable's type.
    Typed(ExprId),
}

/// The representation of a buffer of the function.
#[derive(Clone)]
pub(super) enum Backing {
    /// A buffer of the kernel.
    Buffer(BufferId),
    /// Memory with several names: the element at the sum of the offset and the indices times the strides.
    Flat { buffer: BufferId, offset: ExprId, strides: Dims },
    /// A window into another buffer of the function, with the position of its first element.
    View { source: ir::BufferId, mins: Dims },
}

pub(super) struct Lowerer<'f> {
    pub func: &'f Func,
    pub draft: Draft,
    pub vars: Vec<Option<Value>>,
    pub backings: Vec<Option<Backing>>,
    pub token_of: HashMap<(BufferId, Dims), ExprId, FxBuild>,
    /// Values of expressions, while one around them is translated.
    pub known: HashMap<ir::ExprId, ExprId, FxBuild>,
    /// Expressions that are being translated, around one another.
    pub depth: usize,
    pub aliases: Aliases,
    /// The registers of the enclosing loops, innermost last.
    pub jumps: Vec<Jumps>,
    /// False once a `return` that is not the last statement was taken.
    pub alive: Option<LocalId>,
    /// The unroll limit for loops that do not state one.
    pub unroll: u32,
    hoists: Hoists,
    /// The predicates of the enclosing blocks.
    facts: Facts,
    /// Variables of the enclosing loops.
    loops: SmallVec<[VarId; 8]>,
    roles: Roles,
}

/// Translates a function.
pub(super) fn draft(func: &Func) -> Result<Draft> {
    let mut lowerer = Lowerer {
        func,
        draft: Draft {
            kernel: Kernel::new(func.name),
            ranges: Ranges::default(),
            tokens: Vec::new(),
            token_vars: HashMap::default(),
            shapes: Vec::new(),
            roles: HashMap::default(),
        },
        vars: vec![None; func.arena.n_vars()],
        backings: vec![None; func.arena.n_buffers()],
        token_of: HashMap::default(),
        known: HashMap::default(),
        depth: 0,
        aliases: Aliases::of(func),
        jumps: Vec::new(),
        alive: None,
        unroll: 0,
        hoists: init::hoists(func),
        facts: Facts::default(),
        loops: SmallVec::new(),
        roles: SmallVec::new(),
    };
    for param in &func.params {
        match param.buffer {
            Some(b) => lowerer.param(b)?,
            None if func.arena.var(param.var).dtype == ir::DType::Handle => {
                let name = func.arena.var(param.var).name;
                return Err(LowerError::Unsupported(format!(
                    "parameter `{name}`, a handle to memory of unknown size,"
                )));
            }
            None => return Err(LowerError::ScalarParameter(func.arena.var(param.var).name.to_string())),
        }
    }
    let mut out = Vec::new();
    lowerer.enter_function(&mut out);
    lowerer.stmt(func.root.stmt(), &mut out)?;
    lowerer.draft.kernel.body = lowerer.draft.kernel.stmts.body(&out);
    Ok(lowerer.draft)
}

impl Lowerer<'_> {
    // ---- buffers -------------------------------------------------------------------------------------------

    fn extents(&self, b: ir::BufferId) -> Result<SmallVec<[i64; 4]>> {
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        let extents: Option<SmallVec<[i64; 4]>> = arena.list(buffer.shape).iter().map(|&e| arena.as_int(e)).collect();
        extents.filter(|e| e.iter().all(|&n| n >= 0)).ok_or_else(|| LowerError::SymbolicShape(buffer.name.to_string()))
    }

    fn param(&mut self, b: ir::BufferId) -> Result<()> {
        let extents = self.extents(b)?;
        let buffer = self.func.arena.buffer(b);
        let layout = self.func.param_layout(b).ok_or_else(|| LowerError::SymbolicLayout(buffer.name.to_string()))?;
        let strides = SmallVec::from_vec(layout.strides.clone());
        let offset = layout.offset;
        let too_large = || LowerError::TooLarge(buffer.name.to_string());
        let len = layout.len().filter(|l| (0..MAX_LEN).contains(l)).ok_or_else(too_large)?;
        // A later step determines the kind of access.
        let id = self.draft.kernel.add_param(buffer.name, buffer.dtype, len, Access::InOut);
        self.give_home(b, id, &strides, offset);
        let flat = self.aliases.is_shared(b);
        let shape = match flat {
            true => Shape::flat(len, SmallVec::new()),
            false => Shape { extents, strides, offset, loops: SmallVec::new(), aligned: Vec::new() },
        };
        self.draft.shapes.push(shape);
        Ok(())
    }

    fn allocate(&mut self, b: ir::BufferId) -> Result<()> {
        let extents = self.extents(b)?;
        let buffer = self.func.arena.buffer(b);
        let len = extents.iter().try_fold(1i64, |l, &n| l.checked_mul(n)).filter(|&l| l < MAX_LEN);
        let len = len.ok_or_else(|| LowerError::TooLarge(buffer.name.to_string()))?;
        let id = self.draft.kernel.add_scratch(buffer.name, buffer.dtype, len, Placement::Shared);
        let strides = compact_strides(&extents);
        self.give_home(b, id, &strides, 0);
        let loops = self.loops.clone();
        let shape = match self.aliases.is_shared(b) {
            true => Shape::flat(len, loops),
            false => Shape { extents, strides, offset: 0, loops, aligned: Vec::new() },
        };
        self.draft.shapes.push(shape);
        Ok(())
    }

    fn give_home(&mut self, b: ir::BufferId, id: BufferId, strides: &[i64], offset: i64) {
        let arena = &mut self.draft.kernel.arena;
        self.backings[b.index()] = Some(match self.aliases.is_shared(b) {
            true => Backing::Flat {
                buffer: id,
                offset: arena.index(offset),
                strides: strides.iter().map(|&s| arena.index(s)).collect(),
            },
            false => Backing::Buffer(id),
        });
    }

    /// Records the alignment requests of a block for the buffers that it writes; the last request for an axis wins.
    /// Only allocations can be aligned; requests that cannot be read are ignored.
    fn align(&mut self, b: &ir::Block) {
        let Some(requests) = b.annotations.get(DIM_ALIGN).and_then(DimAlign::read) else { return };
        for request in requests {
            let written = usize::try_from(request.buffer).ok().and_then(|i| b.writes.get(i));
            let backing = written.and_then(|region| self.backings[region.buffer.index()].as_ref());
            if let Some(&Backing::Buffer(buffer)) = backing
                && !self.draft.kernel.buffer(buffer).is_param()
            {
                let aligned = &mut self.draft.shapes[buffer.index()].aligned;
                aligned.retain(|r| r.axis != request.axis);
                aligned.push(request);
            }
        }
    }

    fn show(&mut self, m: &ir::MatchBuffer) -> Result<()> {
        let arena = &self.func.arena;
        let mut mins = Dims::new();
        for &e in arena.list(m.source.mins) {
            mins.push(self.index(e)?);
        }
        // Symbolic extents of the view take the extents of the region.
        let extents = arena.list(m.source.extents);
        let shape = arena.list(arena.buffer(m.buffer).shape);
        let skipped = extents.len().checked_sub(shape.len()).ok_or_else(|| {
            LowerError::Unsupported(format!("view `{}` of more dimensions than it shows", arena.buffer(m.buffer).name))
        })?;
        for (&e, &n) in shape.iter().zip(&extents[skipped..]) {
            if let Some(v) = arena.as_var(e)
                && self.vars[v.index()].is_none()
            {
                let n = self.index(n)?;
                self.vars[v.index()] = Some(Value::Index(n));
            }
        }
        self.backings[m.buffer.index()] = Some(Backing::View { source: m.source.buffer, mins });
        Ok(())
    }

    // ---- statements ----------------------------------------------------------------------------------------

    pub(super) fn list(&mut self, list: &[ir::StmtId]) -> Result<Body> {
        let mut out = Vec::with_capacity(list.len());
        self.stmts(list, &mut out)?;
        Ok(self.draft.kernel.stmts.body(&out))
    }

    pub(super) fn stmt(&mut self, s: ir::StmtId, out: &mut Vec<StmtId>) -> Result<()> {
        let func = self.func;
        match func.get(s) {
            // The loop IR has no empty ranges.
            ir::Stmt::Loop(l) if func.n_iterations(l) == Some(0) => Ok(()),
            ir::Stmt::Loop(l) => {
                if let Some(blocks) = self.hoists.before(s) {
                    for b in blocks {
                        self.hoisted_init(s, b, out)?;
                    }
                }
                let kind = match l.kind {
                    ir::LoopKind::ThreadBinding(axis) if is_of_blocks(axis) => LoopKind::Parallel,
                    ir::LoopKind::Serial | ir::LoopKind::ThreadBinding(_) => LoopKind::Serial,
                    ir::LoopKind::Parallel => LoopKind::Parallel,
                    ir::LoopKind::Vectorized => LoopKind::Vector,
                    ir::LoopKind::Unrolled => LoopKind::Unroll,
                };
                let exits = Exits::of_list(func, &l.body);
                // If an iteration may end the loop, the iterations run serially.
                let kind = if exits == Exits::default() { kind } else { LoopKind::Serial };
                self.enter_loop(exits, false, out);
                let result = self.for_loop(l, kind, out, |this, out| this.iteration(exits, &l.body, out));
                self.leave_loop();
                result
            }
            ir::Stmt::Block(b) => {
                let hoisted = func.as_block(s).is_some_and(|b| self.hoists.is_hoisted(b));
                self.block(b, out, |this, first, out| {
                    if let Some(init) = b.init.as_ref().filter(|_| !hoisted) {
                        let init = this.list(init)?;
                        this.guarded(first, init, out);
                    }
                    let Some((source, indices)) = func.copied(b) else {
                        return this.stmts(&b.body, out);
                    };
                    let exists = this.in_buffer(source, func.arena.list(indices))?;
                    let copy = this.list(&b.body)?;
                    this.guarded(exists, copy, out);
                    Ok(())
                })
            }
            ir::Stmt::Store { buffer, indices, value } => {
                let value = self.value(*value)?;
                let (buffer, index) = self.access(*buffer, func.arena.list(*indices))?;
                let store = self.draft.kernel.store(buffer, index, value);
                if !self.roles.is_empty() {
                    self.draft.roles.insert(store, self.roles.clone());
                }
                out.push(store);
                Ok(())
            }
            ir::Stmt::If { condition, then, otherwise } => {
                let condition = self.truth(*condition)?;
                match self.decide(condition) {
                    Some(true) => self.stmts(then, out),
                    Some(false) => self.stmts(otherwise, out),
                    None => {
                        let then = self.list(then)?;
                        let otherwise = self.list(otherwise)?;
                        out.push(self.draft.kernel.stmts.push(Stmt::If { condition, then, otherwise }));
                        Ok(())
                    }
                }
            }
            // The target of a handle is known already.
            ir::Stmt::Let { var, body, .. } if func.arena.var(*var).dtype == ir::DType::Handle => self.stmts(body, out),
            ir::Stmt::Let { var, value, body } => {
                let value = self.value(*value)?;
                let arena = &mut self.draft.kernel.arena;
                // A constant needs no name; a value read from memory must be evaluated here.
                let named = if arena.as_const(value).is_some() {
                    value
                } else {
                    let name = func.arena.var(*var).name;
                    let new = arena.new_var(name, arena.ty(value));
                    let range = self.draft.ranges.of(arena, value);
                    self.draft.ranges.set(new, range);
                    out.push(self.draft.kernel.stmts.push(Stmt::Let { var: new, value }));
                    self.draft.kernel.arena.var_expr(new)
                };
                self.vars[var.index()] = Some(Value::Typed(named));
                self.stmts(body, out)?;
                self.vars[var.index()] = None;
                Ok(())
            }
            // Scalar functions have no effects.
            ir::Stmt::Evaluate(_) => Ok(()),
            ir::Stmt::Attr(a) => {
                // An unroll limit in an attribute applies to the loops inside that do not state one.
                let outside = self.unroll;
                if let (UNROLL, Some(steps)) = (a.key.as_str(), func.arena.as_int(a.value)) {
                    self.unroll = unroll_steps(steps);
                }
                let result = self.stmts(&a.body, out);
                self.unroll = outside;
                result
            }
            ir::Stmt::Alloc { buffer, .. } => self.allocate(*buffer),
            ir::Stmt::Declare { buffer, .. } => self.declare(*buffer),
            ir::Stmt::While { condition, body } => self.while_loop(*condition, body, out),
            ir::Stmt::Break => self.jump(true, out),
            ir::Stmt::Continue => self.jump(false, out),
            ir::Stmt::Return(_) => {
                self.return_(out);
                Ok(())
            }
            ir::Stmt::Assert(a) => self.assertion(a, out),
        }
    }

    /// A loop around the statements of `body`. If the loop has one iteration, only the statements.
    fn for_loop(
        &mut self,
        l: &ir::Loop,
        kind: LoopKind,
        out: &mut Vec<StmtId>,
        body: impl FnOnce(&mut Self, &mut Vec<StmtId>) -> Result<()>,
    ) -> Result<()> {
        let (min, extent) = (self.index(l.min)?, self.index(l.extent)?);
        let arena = &mut self.draft.kernel.arena;
        match arena.as_int(extent) {
            Some(n) if n <= 0 => return Ok(()),
            Some(1) => {
                self.vars[l.var.index()] = Some(Value::Index(min));
                body(self, out)?;
                self.vars[l.var.index()] = None;
                return Ok(());
            }
            _ => {}
        }
        let (var, counter) = arena.new_index(self.func.arena.var(l.var).name);
        self.draft.ranges.set_loop(arena, var, extent);
        let value = arena.add(min, counter);
        self.vars[l.var.index()] = Some(Value::Index(value));
        self.loops.push(var);
        let mut inner = Vec::new();
        body(self, &mut inner)?;
        self.loops.pop();
        self.vars[l.var.index()] = None;
        if inner.is_empty() {
            return Ok(());
        }
        let body = self.draft.kernel.stmts.body(&inner);
        let hints = hints(&l.annotations, self.unroll);
        let node = For { var, extent, kind, iterations: Iterations::Unknown, hints, body };
        out.push(self.draft.kernel.stmts.push(Stmt::For(node)));
        Ok(())
    }

    /// An instance of a block: the statements of `inside`, with the iterations bound, under the predicate and the
    /// condition that the bindings lie in their domains. `inside` gets the condition that all reductions are at their
    /// first value.
    fn block(
        &mut self,
        b: &ir::Block,
        out: &mut Vec<StmtId>,
        inside: impl FnOnce(&mut Self, ExprId, &mut Vec<StmtId>) -> Result<()>,
    ) -> Result<()> {
        let mut condition = self.value(b.predicate)?;
        let is_empty = |i: &ir::BlockIter| self.func.arena.as_int(i.extent).is_some_and(|n| n < 1);
        if self.decide(condition) == Some(false) || b.iters.iter().any(is_empty) {
            return Ok(());
        }
        let outside = self.facts.mark();
        self.facts.learn(&mut self.draft.kernel.arena, &mut self.draft.ranges, condition, true);
        let mut first = self.draft.kernel.arena.bool(true);
        let mut values = SmallVec::<[ExprId; 8]>::new();
        for iter in &b.iters {
            let value = self.index(iter.value)?;
            if iter.kind == IterKind::Reduce {
                let min = self.index(iter.min)?;
                let arena = &mut self.draft.kernel.arena;
                let at_min = arena.compare(ir::CmpOp::Eq, value, min);
                first = arena.and(first, at_min);
            }
            let inside = self.in_domain(iter, value)?;
            condition = self.draft.kernel.arena.and(condition, inside);
            values.push(value);
        }
        let outer_roles = self.roles.clone();
        for (iter, &value) in b.iters.iter().zip(&values) {
            self.vars[iter.var.index()] = Some(Value::Index(value));
            let role = match iter.kind {
                IterKind::Spatial => Role::Spatial,
                IterKind::Reduce => Role::Reduce,
                IterKind::Scan | IterKind::Opaque => Role::Other,
            };
            self.add_roles(value, role);
        }
        for &a in &b.allocs {
            self.allocate(a)?;
        }
        for m in &b.matches {
            self.show(m)?;
        }
        self.align(b);
        let mut body = Vec::new();
        inside(self, first, &mut body)?;
        self.roles = outer_roles;
        for &buffer in b.allocs.iter().chain(b.matches.iter().map(|m| &m.buffer)) {
            self.backings[buffer.index()] = None;
        }
        for iter in &b.iters {
            self.vars[iter.var.index()] = None;
        }
        self.facts.forget(outside);
        match self.decide(condition) {
            Some(_) => out.extend(body),
            None => {
                let body = self.draft.kernel.stmts.body(&body);
                self.guarded(condition, body, out);
            }
        }
        Ok(())
    }

    /// The condition that a binding lies in its domain, without the parts that follow from known facts. It is a fact
    /// from here on.
    fn in_domain(&mut self, iter: &ir::BlockIter, value: ExprId) -> Result<ExprId> {
        let (min, extent) = (self.index(iter.min)?, self.index(iter.extent)?);
        let Lowerer { draft: Draft { kernel, ranges, .. }, facts, .. } = self;
        let arena = &mut kernel.arena;
        let from_min = arena.sub(value, min);
        let condition = facts.unproved_bounds(arena, ranges, from_min, extent);
        facts.learn(arena, ranges, condition, true);
        Ok(condition)
    }

    /// The condition that an element exists, without the parts that follow from known facts.
    pub(super) fn in_buffer(&mut self, buffer: ir::BufferId, indices: &[ir::ExprId]) -> Result<ExprId> {
        let mut dims = Dims::new();
        for &e in indices {
            dims.push(self.index(e)?);
        }
        let extents = match self.backings[buffer.index()].clone() {
            // Memory with several names has no shape.
            Some(Backing::Flat { buffer, offset, strides }) => {
                dims = Dims::from_elem(self.linear(offset, &strides, &dims), 1);
                SmallVec::from_elem(self.draft.kernel.buffer(buffer).len, 1)
            }
            _ => self.extents(buffer)?,
        };
        let mut condition = self.draft.kernel.arena.bool(true);
        for (&index, &extent) in dims.iter().zip(&extents) {
            let Lowerer { draft: Draft { kernel, ranges, .. }, facts, .. } = self;
            let arena = &mut kernel.arena;
            let extent = arena.index(extent);
            let inside = facts.unproved_bounds(arena, ranges, index, extent);
            condition = arena.and(condition, inside);
        }
        Ok(condition)
    }

    fn add_roles(&mut self, value: ExprId, role: Role) {
        let Lowerer { draft, loops, roles, .. } = self;
        for_each_expr(&draft.kernel.arena, value, &mut |e| {
            let Some(v) = draft.kernel.arena.as_var(e).filter(|v| loops.contains(v)) else { return };
            match roles.iter_mut().find(|(w, _)| *w == v) {
                // A loop that drives spatial and reduction iterations has neither role.
                Some((_, known)) if *known != role => *known = Role::Other,
                Some(_) => {}
                None => roles.push((v, role)),
            }
        });
    }

    fn guarded(&mut self, condition: ExprId, then: Body, out: &mut Vec<StmtId>) {
        if then.is_empty() {
            return;
        }
        match self.decide(condition) {
            Some(true) => out.extend_from_slice(self.draft.kernel.stmts.list(then)),
            Some(false) => {}
            None => {
                let otherwise = Body::EMPTY;
                out.push(self.draft.kernel.stmts.push(Stmt::If { condition, then, otherwise }));
            }
        }
    }

    pub(super) fn decide(&mut self, condition: ExprId) -> Option<bool> {
        self.draft.ranges.decide(&self.draft.kernel.arena, condition)
    }

    /// The init of a block before the loop at which its reduction begins: a nest of the loops that its spatial
    /// iterations need, with the other loops at their first value.
    fn hoisted_init(&mut self, outermost: ir::StmtId, b: BlockId, out: &mut Vec<StmtId>) -> Result<()> {
        let func = self.func;
        let (needed, at_first) = init::loops_of_init(func, outermost, b);
        for l in at_first {
            let l = func.loop_(l);
            let min = self.index(l.min)?;
            self.vars[l.var.index()] = Some(Value::Index(min));
        }
        self.init_nest(&needed, b, out)
        // Loops set their variables anew when they are entered.
    }

    fn init_nest(&mut self, loops: &[ir::LoopId], b: BlockId, out: &mut Vec<StmtId>) -> Result<()> {
        let func = self.func;
        match loops.split_first() {
            Some((&l, rest)) => {
                let node = func.loop_(l);
                let kind = match node.kind {
                    ir::LoopKind::Vectorized => LoopKind::Vector,
                    ir::LoopKind::Unrolled => LoopKind::Unroll,
                    ir::LoopKind::Serial | ir::LoopKind::Parallel | ir::LoopKind::ThreadBinding(_) => LoopKind::Serial,
                };
                self.for_loop(node, kind, out, |this, out| this.init_nest(rest, b, out))
            }
            None => {
                let block = func.block(b);
                self.block(block, out, |this, _, out| {
                    for &s in block.init.iter().flatten() {
                        this.stmt(s, out)?;
                    }
                    Ok(())
                })
            }
        }
    }
}

/// Strides of a compact row-major buffer.
pub(super) fn compact_strides(extents: &[i64]) -> SmallVec<[i64; 4]> {
    let mut strides = SmallVec::from_elem(1, extents.len());
    for d in (1..extents.len()).rev() {
        strides[d - 1] = strides[d] * extents[d];
    }
    strides
}

/// The annotation with the unroll limit.
const UNROLL: &str = "pragma_auto_unroll_max_step";

fn unroll_steps(steps: i64) -> u32 {
    steps.clamp(0, 1 << 16) as u32
}

/// The hints in a loop's annotations; `unroll` is the limit of the attributes around it.
fn hints(annotations: &ir::Annotations, unroll: u32) -> Hints {
    let number = |key: &str| match annotations.get(Symbol::new(key)) {
        Some(ir::AttrValue::Int(v)) => Some(*v),
        Some(ir::AttrValue::Bool(v)) => Some(*v as i64),
        _ => None,
    };
    Hints { unroll: number(UNROLL).map_or(unroll, unroll_steps), stream: false }
}
