//! Scalarises vectors: rewrites a function with vectors into an equivalent one without, lane by lane.
//!
//! A statement that stores a vector becomes a loop over its lanes, marked as `T.vectorized`:
//!
//! ```text
//! B[0:4] = A[T.Ramp(0, 1, 4)] * T.Broadcast(x, 4)
//! # becomes
//! for lane in T.vectorized(4):
//!     B[0 + lane] = A[0 + lane] * x
//! ```
//!
//! If the value of a store may read elements that its first lanes write, the store goes through a scratch buffer. So
//! does the value of a let: a vector becomes a buffer of its lanes. The bodies of tensor intrinsics avoid this: if
//! names are used only by a single store, their values are substituted into it, so that each lane of the intrinsic is a
//! plain sum of products:
//!
//! ```text
//! x: T.let[T.int8x64] = B[0, T.Ramp(0, 1, 64)]
//! y: T.let[T.int32x16] = T.reinterpret("int32x16", x)
//! C[0:16] = T.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", C[T.Ramp(0, 1, 16)], …, y)
//! # becomes
//! for lane in T.vectorized(16):
//!     C[lane] = C[lane] + … * T.Cast("int32", B[lane, 0]) + … * T.Cast("int32", B[lane, 1]) + …
//! ```
//!
//! Lanes selected by constants (`T.Shuffle`) become separate statements instead of a loop, unless the constants are
//! equally spaced. A buffer of vectors becomes a buffer of scalars with an additional last dimension for the lanes;
//! callers pass the same bytes.
//!
//! This pass runs on the scheduled program, before [`blocks`](super::blocks), which supports only scalars.

use super::LowerError;
use super::alias::Aliases;
use crate::ir::op::Effect;
use crate::ir::visit::for_each_subexpr;
use crate::ir::{
    Arena, BinOp, BlockId, Body, Buffer, BufferId, BufferRegion, Builtin, CmpOp, DType, Expr, ExprId, ExprList, Func,
    Intrinsic, Loop, LoopKind, Stmt, StmtId, VarId,
};
use hashbrown::{HashMap, HashSet};
use std::borrow::Cow;

/// The function without vectors; the function itself if it has none.
pub(super) fn scalars(func: &Func) -> Result<Cow<'_, Func>, LowerError> {
    if func.arena.is_scalar_only() {
        return Ok(Cow::Borrowed(func));
    }
    let mut pass = Pass {
        func: func.with_builtins_expanded().into_owned(),
        buffers: HashMap::new(),
        aliases: Aliases::of(func),
        lanes_of: HashMap::new(),
        values: HashMap::new(),
        done: HashMap::new(),
        block: func.root,
    };
    pass.scalar_buffers();
    pass.stmt(func.root.stmt())?;
    Ok(Cow::Owned(pass.func))
}

struct Pass {
    func: Func,
    /// The scalar buffer that replaces each buffer of vectors.
    buffers: HashMap<BufferId, BufferId>,
    /// The buffers that share memory.
    aliases: Aliases,
    /// The scratch buffers with the lanes of variables.
    lanes_of: HashMap<VarId, BufferId>,
    /// Expressions that replace names.
    values: HashMap<Named, ExprId>,
    /// The known lanes of expressions, valid until `lanes_of` or `values` changes.
    done: HashMap<(ExprId, ExprId), ExprId>,
    /// The innermost enclosing block.
    block: BlockId,
}

/// The name of a vector: a variable, or a buffer of one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Named {
    Var(VarId),
    Buffer(BufferId),
}

/// A name, its value, and the statements that define it.
struct Name {
    name: Named,
    value: ExprId,
    stmts: Vec<StmtId>,
}

/// The reason why an expression has no lane.
enum Stop {
    /// The lane would have to be a constant.
    Symbolic,
    Error(LowerError),
}

impl From<LowerError> for Stop {
    fn from(error: LowerError) -> Stop {
        Stop::Error(error)
    }
}

impl Pass {
    // ---- buffers -------------------------------------------------------------------------------------------

    fn scalar_buffers(&mut self) {
        for b in self.func.arena.buffer_ids() {
            let old = self.func.arena.buffer(b).clone();
            if old.lanes == 1 {
                continue;
            }
            let arena = &mut self.func.arena;
            let index = crate::ir::buffer::index_type(arena, old.shape);
            let (lanes, one) = (arena.int(old.lanes.into(), index), arena.int(1, index));
            let shape = with_last(arena, old.shape, lanes);
            let strides = old.strides.map(|l| arena.map_list(l, |a, s| scaled(a, s, old.lanes)));
            let strides = strides.map(|l| with_last(arena, l, one));
            let elem_offset = old.elem_offset.map(|e| scaled(arena, e, old.lanes));
            let new = arena.new_buffer(Buffer { lanes: 1, shape, strides, elem_offset, ..old });
            self.buffers.insert(b, new);
        }
        for p in &mut self.func.params {
            p.buffer = p.buffer.map(|b| self.buffers.get(&b).copied().unwrap_or(b));
        }
    }

    fn buffer(&self, b: BufferId) -> BufferId {
        self.buffers.get(&b).copied().unwrap_or(b)
    }

    fn region(&mut self, r: &BufferRegion) -> BufferRegion {
        let arena = &mut self.func.arena;
        match self.buffers.get(&r.buffer) {
            None => *r,
            Some(&buffer) => {
                let lanes = *arena.list(arena.buffer(buffer).shape).last().expect("the dimension of the lanes");
                let zero = arena.int(0, arena.dtype(lanes));
                BufferRegion {
                    buffer,
                    mins: with_last(arena, r.mins, zero),
                    extents: with_last(arena, r.extents, lanes),
                }
            }
        }
    }

    /// A buffer of `lanes` elements, allocated in the innermost block.
    fn scratch(&mut self, name: &str, dtype: DType, lanes: u16) -> BufferId {
        let b = self.func.constant_buffer(name, dtype, &[lanes.into()]);
        let block = self.block;
        self.func.block_mut(block).allocs.push(b);
        b
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn stmt(&mut self, s: StmtId) -> Result<(), LowerError> {
        match self.func.get(s).clone() {
            Stmt::Block(b) => {
                let own = self.func.as_block(s).unwrap_or(self.block);
                let outer = std::mem::replace(&mut self.block, own);
                let block = self.block;
                let reads = b.reads.iter().map(|r| self.region(r)).collect();
                let writes = b.writes.iter().map(|r| self.region(r)).collect();
                let allocs = b.allocs.iter().map(|&a| self.buffer(a)).collect();
                let mut matches = b.matches.clone();
                for m in &mut matches {
                    (m.buffer, m.source) = (self.buffer(m.buffer), self.region(&m.source));
                }
                let node = self.func.block_mut(block);
                (node.reads, node.writes, node.allocs, node.matches) = (reads, writes, allocs, matches);
                self.exprs(s)?;
                self.put_names_into_store(&b.body);
                for child in self.func.get(s).children() {
                    self.stmt(child)?;
                }
                self.block = outer;
            }
            Stmt::Declare { buffer, .. } if self.func.arena.buffer(buffer).lanes > 1 => {
                let name = self.func.arena.buffer(buffer).name;
                return Err(LowerError::Unsupported(format!(
                    "buffer `{name}`, of vectors in memory of another buffer,"
                )));
            }
            Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } => {
                self.exprs(s)?;
                let new = self.buffer(buffer);
                if let Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } = self.func.stmt_mut(s) {
                    *buffer = new;
                }
            }
            // An undefined value may be the current contents, so the store can be dropped.
            Stmt::Store { value, .. } if self.func.arena.is_undefined(value) => self.func.replace(s, &[]),
            Stmt::Store { buffer, indices, value } if self.func.arena.lanes(value) > 1 => {
                self.vector_store(s, buffer, indices, value)?;
            }
            Stmt::Let { var, value, body } if self.func.arena.lanes(value) > 1 => {
                let (name, ty) = (self.func.arena.var(var).name, self.func.arena.ty(value));
                let lanes = self.scratch(name.as_str(), ty.dtype, ty.lanes);
                let mut new = self.lane_by_lane(ty.lanes, &mut |pass, lane| {
                    let value = pass.lane(value, lane)?;
                    let at = pass.func.arena.new_list(&[lane]);
                    Ok(Stmt::Store { buffer: lanes, indices: at, value })
                })?;
                self.lanes_of.insert(var, lanes);
                self.done.clear();
                for &child in &body {
                    self.func.cut(child);
                }
                new.extend(body.iter().copied());
                self.func.replace(s, &new);
                for &child in &body {
                    self.stmt(child)?;
                }
            }
            Stmt::Evaluate(value) if self.does_nothing(value) => self.func.replace(s, &[]),
            other => {
                self.exprs(s)?;
                if let Stmt::Loop(l) = &other {
                    self.put_names_into_store(&l.body);
                }
                for child in self.func.get(s).children() {
                    self.stmt(child)?;
                }
            }
        }
        Ok(())
    }

    /// Whether evaluating an expression has no visible effect.
    fn does_nothing(&self, e: ExprId) -> bool {
        match self.func.arena.expr(e) {
            Expr::Builtin(Builtin::StartProfile | Builtin::EndProfile, _) => true,
            Expr::Builtin(function, _) => function.effect() == Effect::Pure,
            _ => self.func.arena.lanes(e) > 1,
        }
    }

    /// Rewrites the expressions of a statement without vectors, which may still use lanes.
    fn exprs(&mut self, s: StmtId) -> Result<(), LowerError> {
        let mut failed = None;
        let mut rewriter = Scalars { pass: self, failed: &mut failed };
        rewriter.rewrite(s);
        failed.map_or(Ok(()), Err)
    }

    fn vector_store(
        &mut self,
        s: StmtId,
        buffer: BufferId,
        indices: ExprList,
        value: ExprId,
    ) -> Result<(), LowerError> {
        let ty = self.func.arena.ty(value);
        let new = if self.reads_what_it_writes(buffer, indices, value) {
            let scratch = self.scratch("lanes", ty.dtype, ty.lanes);
            let mut new = self.lane_by_lane(ty.lanes, &mut |pass, lane| {
                let value = pass.lane(value, lane)?;
                let at = pass.func.arena.new_list(&[lane]);
                Ok(Stmt::Store { buffer: scratch, indices: at, value })
            })?;
            new.extend(self.lane_by_lane(ty.lanes, &mut |pass, lane| {
                let value = pass.func.arena.load(scratch, &[lane]);
                let (buffer, indices) = pass.access(buffer, indices, lane)?;
                Ok(Stmt::Store { buffer, indices, value })
            })?);
            new
        } else {
            self.lane_by_lane(ty.lanes, &mut |pass, lane| {
                let value = pass.lane(value, lane)?;
                let (buffer, indices) = pass.access(buffer, indices, lane)?;
                Ok(Stmt::Store { buffer, indices, value })
            })?
        };
        self.func.replace(s, &new);
        Ok(())
    }

    /// Substitutes the values of names into the single store that uses them, if a list of statements consists only of
    /// definitions and that store. A value that takes more than moving bytes is not substituted if it would be computed
    /// twice.
    fn put_names_into_store(&mut self, list: &[StmtId]) {
        let Some((names, last)) = self.names_for_one_store(list) else { return };
        let func = &self.func;
        let arena = &func.arena;
        let Stmt::Store { indices, value, .. } = func.get(last) else { return };
        let readers: Vec<ExprId> =
            names.iter().map(|n| n.value).chain(arena.list(*indices).iter().copied()).chain([*value]).collect();
        if !readers.iter().any(|&e| is_wide(arena, e)) {
            return;
        }
        let mut uses: HashMap<Named, usize> = HashMap::new();
        let mut is_addressed = HashSet::new();
        for &e in &readers {
            for_each_subexpr(arena, e, &mut |e| match arena.expr(e) {
                Expr::Var(v) => *uses.entry(Named::Var(v)).or_default() += 1,
                Expr::Load(b, _) => *uses.entry(Named::Buffer(b)).or_default() += 1,
                Expr::BufferData(b) => {
                    is_addressed.insert(b);
                }
                _ => {}
            });
        }
        for Name { name, value, stmts } in names {
            let n = uses.get(&name).copied().unwrap_or(0);
            let is_known = matches!(name, Named::Buffer(b) if is_addressed.contains(&b));
            if is_known || (n > 1 && !only_moves(&self.func.arena, value)) {
                continue;
            }
            self.values.insert(name, value);
            for s in stmts {
                let body = match self.func.get(s) {
                    Stmt::Let { body, .. } => body.clone(),
                    _ => Body::new(),
                };
                for &child in &body {
                    self.func.cut(child);
                }
                self.func.replace(s, &body);
            }
        }
        self.done.clear();
    }

    /// Whether the buffer has its own memory, for one element.
    fn is_single(&self, b: BufferId) -> bool {
        let arena = &self.func.arena;
        self.aliases.owner(b) == b && arena.list(arena.buffer(b).shape).iter().all(|&n| arena.is_int(n, 1))
    }

    /// The definitions in a list of lets and scalar variables that ends in one store to other memory, and that store.
    fn names_for_one_store(&self, list: &[StmtId]) -> Option<(Vec<Name>, StmtId)> {
        let (mut names, mut fresh) = (Vec::new(), HashMap::new());
        let mut rest = list;
        loop {
            let (&s, others) = rest.split_first()?;
            rest = others;
            match self.func.get(s) {
                Stmt::Alloc { buffer, .. } if self.is_single(*buffer) => {
                    fresh.insert(*buffer, s);
                }
                &Stmt::Store { buffer, value, .. } if !rest.is_empty() => {
                    let alloc = fresh.remove(&buffer)?;
                    names.push(Name { name: Named::Buffer(buffer), value, stmts: vec![alloc, s] });
                }
                Stmt::Let { var, value, body } if rest.is_empty() => {
                    names.push(Name { name: Named::Var(*var), value: *value, stmts: vec![s] });
                    rest = body;
                }
                Stmt::Store { buffer, .. } => {
                    let is_name = names.iter().any(|n| n.name == Named::Buffer(*buffer));
                    return (!is_name && fresh.is_empty()).then_some((names, s));
                }
                _ => return None,
            }
        }
    }

    /// The value of a name, if it is substituted.
    fn value_of(&self, e: ExprId) -> Option<ExprId> {
        let name = match self.func.arena.expr(e) {
            Expr::Var(v) => Named::Var(v),
            // The buffer has one element, so the indices do not matter.
            Expr::Load(b, _) => Named::Buffer(b),
            _ => return None,
        };
        self.values.get(&name).copied()
    }

    /// Whether a lane of the value may depend on an element that another lane of the store writes.
    fn reads_what_it_writes(&self, buffer: BufferId, indices: ExprList, value: ExprId) -> bool {
        let arena = &self.func.arena;
        // If load and store use the same distinct positions, each lane reads only the element that it writes.
        let distinct = arena.list(indices).last().is_none_or(|&e| match arena.expr(e) {
            Expr::Ramp(_, stride) => arena.as_int(stride).is_some_and(|s| s != 0),
            _ => arena.lanes(e) == 1,
        });
        let memory = self.aliases.owner(buffer);
        let mut may = false;
        // Expressions to visit, and whether their lanes are permuted.
        let mut todo = vec![(value, false)];
        let mut seen: HashSet<(ExprId, bool)> = todo.iter().copied().collect();
        while let Some((top, moved)) = todo.pop() {
            for_each_subexpr(arena, top, &mut |e| {
                let mut add = |part: ExprId, moved: bool| {
                    if seen.insert((part, moved)) {
                        todo.push((part, moved));
                    }
                };
                match (self.value_of(e), arena.expr(e)) {
                    (Some(value), _) => add(value, moved),
                    (None, Expr::Load(b, at)) => {
                        let same_place = b == buffer && at == indices && distinct && !moved;
                        may |= self.aliases.owner(b) == memory && !same_place;
                    }
                    (None, Expr::Shuffle(parts, _) | Expr::Builtin(_, parts)) => {
                        arena.list(parts).iter().for_each(|&part| add(part, true));
                    }
                    _ => {}
                }
            });
        }
        may
    }

    /// A loop over lanes with a statement for each lane; a sequence of statements if lanes must be constants.
    fn lane_by_lane(
        &mut self,
        lanes: u16,
        make: &mut dyn FnMut(&mut Pass, ExprId) -> Result<Stmt, Stop>,
    ) -> Result<Vec<StmtId>, LowerError> {
        let (var, lane) = self.func.arena.new_var_expr("lane", DType::Int32);
        match make(self, lane) {
            Ok(stmt) => {
                let inner = self.func.stmts.add(stmt);
                let extent = self.func.arena.int32(lanes.into());
                let min = self.func.arena.int32(0);
                let l = self.func.stmts.add_loop(Loop {
                    var,
                    min,
                    extent,
                    step: None,
                    kind: LoopKind::Vectorized,
                    annotations: Default::default(),
                    body: Body::from_slice(&[inner]),
                });
                return Ok(vec![l.stmt()]);
            }
            Err(Stop::Error(error)) => return Err(error),
            Err(Stop::Symbolic) => {}
        }
        let mut all = Vec::with_capacity(lanes.into());
        for i in 0..i64::from(lanes) {
            let lane = self.func.arena.int32(i);
            match make(self, lane) {
                Ok(stmt) => all.push(self.func.stmts.add(stmt)),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Symbolic) => return Err(LowerError::Unsupported("a lane that is no constant".into())),
            }
        }
        Ok(all)
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    /// The element that a lane accesses.
    fn access(&mut self, buffer: BufferId, indices: ExprList, lane: ExprId) -> Result<(BufferId, ExprList), Stop> {
        let width = self.func.arena.buffer(buffer).lanes;
        let (outer, inner) = if width == 1 { (lane, None) } else { self.split(lane, width) };
        let mut at = Vec::new();
        for e in self.func.arena.list(indices).to_vec() {
            at.push(self.lane(e, outer)?);
        }
        self.next_rows(buffer, indices, &mut at);
        if let Some(inner) = inner {
            let last = at.last().map_or(DType::Int32, |&e| self.func.arena.dtype(e));
            at.push(self.func.arena.cast(last, inner));
        }
        Ok((self.buffer(buffer), self.func.arena.new_list(&at)))
    }

    /// Lanes that certainly exceed the end of a row continue in the next one.
    fn next_rows(&mut self, buffer: BufferId, indices: ExprList, at: &mut [ExprId]) {
        let arena = &mut self.func.arena;
        let Some(&last) = arena.list(indices).last() else { return };
        let Expr::Ramp(base, stride) = arena.expr(last) else { return };
        let reach = |a: &Arena| {
            let steps = a.as_int(stride)?.checked_mul(i64::from(a.lanes(last)) - 1)?;
            a.as_int(base)?.checked_add(steps.max(0))
        };
        let extents = arena.list(arena.buffer(buffer).shape).to_vec();
        let Some(mut reach) = reach(arena) else { return };
        for dim in (1..at.len().min(extents.len())).rev() {
            let Some(extent) = arena.as_int(extents[dim]).filter(|&n| n > 0 && reach >= n) else { return };
            let above = arena.dtype(at[dim - 1]);
            let (row, rest) = divided(arena, at[dim], extent);
            let row = arena.cast(above, row);
            (at[dim - 1], at[dim]) = (arena.add(at[dim - 1], row), rest);
            reach = match arena.as_int(arena.list(indices)[dim - 1]) {
                Some(v) => v.saturating_add(reach / extent),
                None => return,
            };
        }
    }

    /// Splits a lane of several concatenated vectors into the lane in one vector and the number of the vector.
    fn split(&mut self, lane: ExprId, width: u16) -> (ExprId, Option<ExprId>) {
        let (outer, inner) = divided(&mut self.func.arena, lane, width.into());
        (outer, Some(inner))
    }

    /// A lane of an expression, as a scalar. `lane` is an `int32`.
    fn lane(&mut self, e: ExprId, lane: ExprId) -> Result<ExprId, Stop> {
        let arena = &mut self.func.arena;
        let lane = if arena.lanes(e) == 1 { arena.int32(0) } else { lane };
        if let Some(&known) = self.done.get(&(e, lane)) {
            return Ok(known);
        }
        let new = self.new_lane(e, lane)?;
        self.done.insert((e, lane), new);
        Ok(new)
    }

    fn new_lane(&mut self, e: ExprId, lane: ExprId) -> Result<ExprId, Stop> {
        if let Some(value) = self.value_of(e) {
            return self.lane(value, lane);
        }
        let arena = &mut self.func.arena;
        let ty = arena.ty(e);
        Ok(match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) => e,
            Expr::BufferData(b) => {
                let b = self.buffer(b);
                self.func.arena.buffer_data(b)
            }
            Expr::Var(v) => match self.lanes_of.get(&v) {
                Some(&b) => arena.load(b, &[lane]),
                None if ty.lanes == 1 => e,
                None => return Err(LowerError::Unbound(arena.var(v).name.to_string()).into()),
            },
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.lane(a, lane)?, self.lane(b, lane)?);
                self.func.arena.binary(op, a, b)
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = (self.lane(a, lane)?, self.lane(b, lane)?);
                self.func.arena.compare(op, a, b)
            }
            Expr::Not(a) => {
                let a = self.lane(a, lane)?;
                self.func.arena.not(a)
            }
            Expr::Cast(a) => {
                let a = self.lane(a, lane)?;
                self.func.arena.cast(ty.dtype, a)
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.lane(c, lane)?, self.lane(t, lane)?, self.lane(o, lane)?);
                self.func.arena.select(c, t, o)
            }
            Expr::IfThenElse(c, t, o) => {
                let (c, t, o) = (self.lane(c, lane)?, self.lane(t, lane)?, self.lane(o, lane)?);
                self.func.arena.if_then_else(c, t, o)
            }
            Expr::Load(buffer, indices) => {
                let (buffer, indices) = self.access(buffer, indices, lane)?;
                let indices = self.func.arena.list(indices).to_vec();
                self.func.arena.load(buffer, &indices)
            }
            Expr::Call(function, args) => {
                let mut scalars = Vec::new();
                for a in arena.list(args).to_vec() {
                    scalars.push(self.lane(a, lane)?);
                }
                self.func.arena.call(function, &scalars)
            }
            Expr::Let(v, value, body) if arena.lanes(value) > 1 => {
                let before = self.values.insert(Named::Var(v), value);
                self.done.clear();
                let body = self.lane(body, lane);
                match before {
                    Some(before) => self.values.insert(Named::Var(v), before),
                    None => self.values.remove(&Named::Var(v)),
                };
                self.done.clear();
                body?
            }
            Expr::Let(v, value, body) => {
                let (value, body) = (self.lane(value, lane)?, self.lane(body, lane)?);
                self.func.arena.let_(v, value, body)
            }
            Expr::Ramp(base, stride) => {
                let (base, stride) = (self.lane(base, lane)?, self.lane(stride, lane)?);
                let arena = &mut self.func.arena;
                let step = arena.cast(ty.dtype, lane);
                let reach = arena.mul(step, stride);
                arena.add(base, reach)
            }
            Expr::Broadcast(value) => self.lane(value, lane)?,
            Expr::Shuffle(vectors, indices) => {
                if let (&[vector], Some((first, step))) = (arena.list(vectors), progression(arena, indices)) {
                    let reach = arena.mul_const(lane, step);
                    let picked = arena.add_const(reach, first);
                    return self.lane(vector, picked);
                }
                let Some(at) = arena.as_int(lane) else { return Err(Stop::Symbolic) };
                let picked = arena.list(indices).get(at as usize).and_then(|&i| arena.as_int(i));
                let mut rest = picked.unwrap_or(-1);
                for v in arena.list(vectors).to_vec() {
                    let lanes = i64::from(self.func.arena.lanes(v));
                    if (0..lanes).contains(&rest) {
                        let lane = self.func.arena.int32(rest);
                        return self.lane(v, lane);
                    }
                    rest -= lanes;
                }
                return Err(LowerError::Unsupported("a lane that `T.Shuffle` does not have".into()).into());
            }
            Expr::Builtin(Builtin::Reinterpret, args) => {
                let source = arena.list(args)[0];
                self.reinterpret(source, ty.dtype, lane)?
            }
            Expr::Builtin(function, args) => {
                return Err(LowerError::call(function, function.called(arena, args)).into());
            }
        })
    }

    /// A lane of the bits of `source` as type `to`.
    fn reinterpret(&mut self, source: ExprId, to: DType, lane: ExprId) -> Result<ExprId, Stop> {
        let from = self.func.arena.dtype(source);
        let (size, step) = (to.bytes(), from.bytes());
        if size == step {
            let value = self.lane(source, lane)?;
            return Ok(same_bits(&mut self.func.arena, value, to));
        }
        let arena = &mut self.func.arena;
        let bits = unsigned(size);
        if size < step {
            // A part of the bytes of one lane.
            let (outer, inner) = divided(&mut self.func.arena, lane, (step / size) as i64);
            if let Some((whole, picked)) = self.before_joining(source, outer, inner, (step / size) as i64) {
                let value = self.lane(whole, picked)?;
                return Ok(same_bits(&mut self.func.arena, value, to));
            }
            let value = self.lane(source, outer)?;
            let arena = &mut self.func.arena;
            let value = same_bits(arena, value, unsigned(step));
            let inner = arena.cast(unsigned(step), inner);
            let by = arena.mul_const(inner, size as i64 * 8);
            let shifted = arena.call(Intrinsic::ShiftRight, &[value, by]);
            let narrow = arena.cast(bits, shifted);
            return Ok(same_bits(arena, narrow, to));
        }
        let n = (size / step) as i64;
        let first = arena.mul_const(lane, n);
        let mut all = None;
        for i in 0..n {
            let part = self.func.arena.add_const(first, i);
            let part = self.lane(source, part)?;
            let arena = &mut self.func.arena;
            let part = same_bits(arena, part, unsigned(step));
            let part = arena.cast(bits, part);
            let by = arena.int(i * step as i64 * 8, bits);
            let part = if i == 0 { part } else { arena.call(Intrinsic::ShiftLeft, &[part, by]) };
            all = Some(match all {
                None => part,
                Some(all) => arena.call(Intrinsic::BitOr, &[all, part]),
            });
        }
        let arena = &mut self.func.arena;
        let all = all.unwrap_or_else(|| arena.int(0, bits));
        Ok(same_bits(arena, all, to))
    }
}

impl Pass {
    /// If each lane of `source` was joined from `parts` lanes of another vector: that vector, and its lane for part
    /// `inner` of lane `outer`.
    fn before_joining(
        &mut self,
        mut source: ExprId,
        mut outer: ExprId,
        inner: ExprId,
        parts: i64,
    ) -> Option<(ExprId, ExprId)> {
        loop {
            if let Some(value) = self.value_of(source) {
                source = value;
                continue;
            }
            let arena = &mut self.func.arena;
            match arena.expr(source) {
                Expr::Broadcast(value) => (source, outer) = (value, arena.int32(0)),
                Expr::Builtin(Builtin::Reinterpret, args) => {
                    let from = arena.list(args)[0];
                    match (arena.dtype(source).bytes() as i64, arena.dtype(from).bytes() as i64) {
                        (joined, single) if single * parts == joined => {
                            let first = arena.mul_const(outer, parts);
                            return Some((from, arena.add(first, inner)));
                        }
                        (whole, same) if whole == same => source = from,
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
    }
}

/// The quotient and remainder of a lane by a number. Lanes are not negative.
fn divided(arena: &mut Arena, lane: ExprId, by: i64) -> (ExprId, ExprId) {
    // The lane as `x * scale + offset`, if it has that form.
    let (product, offset) = match arena.expr(lane) {
        Expr::Binary(BinOp::Add, x, y) => match arena.as_int(y) {
            Some(offset) => (x, offset),
            None => (lane, 0),
        },
        _ => (lane, 0),
    };
    if let Expr::Binary(BinOp::Mul, x, y) = arena.expr(product)
        && let Some(scale) = arena.as_int(y).filter(|scale| scale % by == 0)
    {
        let dtype = arena.dtype(lane);
        let outer = arena.mul_const(x, scale / by);
        let outer = arena.add_const(outer, offset.div_euclid(by));
        return (outer, arena.int(offset.rem_euclid(by), dtype));
    }
    let by = arena.int(by, arena.dtype(lane));
    (arena.floor_div(lane, by), arena.floor_mod(lane, by))
}

/// Rewrites the scalar expressions of one statement.
struct Scalars<'a> {
    pass: &'a mut Pass,
    failed: &'a mut Option<LowerError>,
}

impl Scalars<'_> {
    fn scalar(&mut self, e: ExprId) -> ExprId {
        let zero = self.pass.func.arena.int32(0);
        match self.pass.lane(e, zero) {
            Ok(new) => new,
            Err(stop) => {
                let error = match stop {
                    Stop::Error(error) => error,
                    Stop::Symbolic => LowerError::Unsupported("a lane that is no constant".into()),
                };
                self.failed.get_or_insert(error);
                e
            }
        }
    }

    fn rewrite(&mut self, s: StmtId) {
        struct Map<'m>(&'m HashMap<ExprId, ExprId>);
        impl crate::ir::Rewriter for Map<'_> {
            fn rewrite_expr(&mut self, _: &mut Arena, e: ExprId) -> ExprId {
                self.0.get(&e).copied().unwrap_or(e)
            }
        }
        let mut own = Own(Vec::new());
        own.collect(&self.pass.func, s);
        let map: HashMap<ExprId, ExprId> = own.0.into_iter().map(|e| (e, self.scalar(e))).collect();
        self.pass.func.rewrite_stmt(s, &mut Map(&map));
    }
}

/// The expressions of one statement, not of those inside it.
struct Own(Vec<ExprId>);

impl Own {
    fn collect(&mut self, func: &Func, s: StmtId) {
        struct Top<'t>(&'t mut Vec<ExprId>);
        impl crate::ir::Visitor for Top<'_> {
            fn visit_stmt(&mut self, _: &Func, _: StmtId) {}
            fn visit_expr(&mut self, _: &Func, e: ExprId) {
                self.0.push(e);
            }
        }
        crate::ir::visit::walk_stmt(&mut Top(&mut self.0), func, s);
    }
}

/// The first number and the step of equally spaced constants.
fn progression(arena: &Arena, list: ExprList) -> Option<(i64, i64)> {
    let numbers: Vec<i64> = arena.list(list).iter().map(|&e| arena.as_int(e)).collect::<Option<_>>()?;
    let first = *numbers.first()?;
    let step = numbers.get(1).map_or(0, |second| second - first);
    numbers.windows(2).all(|w| w[1] - w[0] == step).then_some((first, step))
}

/// The unsigned integer type of a size in bytes.
fn unsigned(size: usize) -> DType {
    match size {
        1 => DType::UInt8,
        2 => DType::UInt16,
        4 => DType::UInt32,
        _ => DType::UInt64,
    }
}

/// A scalar's bits as another type of the same size.
fn same_bits(arena: &mut Arena, value: ExprId, to: DType) -> ExprId {
    let from = arena.dtype(value);
    if from == to {
        value
    } else if from.is_float() && from.bytes() == 2 {
        let bits = half_bits(arena, value);
        same_bits(arena, bits, to)
    } else if to.is_float() && to.bytes() == 2 {
        let bits = same_bits(arena, value, DType::UInt16);
        half_of_bits(arena, bits, to)
    } else if from.is_float() || to.is_float() {
        arena.builtin(Builtin::Reinterpret, &[value], to)
    } else {
        arena.cast(to, value)
    }
}

/// The bits of a half-precision number, computed from those of the equal `float32`.
fn half_bits(arena: &mut Arena, value: ExprId) -> ExprId {
    let dtype = arena.dtype(value);
    let single = arena.cast(DType::Float32, value);
    let bits = arena.builtin(Builtin::Reinterpret, &[single], DType::UInt32);
    let int = |a: &mut Arena, v: i64| a.int(v, DType::UInt32);
    let shifted = |a: &mut Arena, e: ExprId, by: i64| {
        let by = a.int(by, DType::UInt32);
        a.call(Intrinsic::ShiftRight, &[e, by])
    };
    let all = if dtype == DType::BFloat16 {
        shifted(arena, bits, 16)
    } else {
        let (sign_bit, rest) = (int(arena, 0x8000), int(arena, 0x7fff_ffff));
        let high = shifted(arena, bits, 16);
        let sign = arena.call(Intrinsic::BitAnd, &[high, sign_bit]);
        let magnitude = arena.call(Intrinsic::BitAnd, &[bits, rest]);
        // The bias of the exponent shrinks by 112; infinity and NaN have the largest one.
        let bias = int(arena, 112 << 23);
        let normal = arena.sub(magnitude, bias);
        let special = arena.sub(normal, bias);
        let infinity = int(arena, 0x7f80_0000);
        let is_special = arena.compare(CmpOp::Ge, magnitude, infinity);
        let normal = arena.select(is_special, special, normal);
        let normal = shifted(arena, normal, 13);
        // A subnormal number is a multiple of the smallest one.
        let absolute = arena.call(Intrinsic::Abs, &[single]);
        let smallest = arena.float(f64::from(1 << 24), DType::Float32);
        let count = arena.mul(absolute, smallest);
        let count = arena.cast(DType::UInt32, count);
        let first_normal = int(arena, 113 << 23);
        let is_small = arena.compare(CmpOp::Lt, magnitude, first_normal);
        let magnitude = arena.select(is_small, count, normal);
        arena.call(Intrinsic::BitOr, &[magnitude, sign])
    };
    arena.cast(DType::UInt16, all)
}

/// The number of half precision with these 16 bits.
fn half_of_bits(arena: &mut Arena, bits: ExprId, dtype: DType) -> ExprId {
    let bits = arena.cast(DType::UInt32, bits);
    let int = |a: &mut Arena, v: i64| a.int(v, DType::UInt32);
    let shifted = |a: &mut Arena, e: ExprId, by: i64| {
        let by = a.int(by, DType::UInt32);
        a.call(Intrinsic::ShiftLeft, &[e, by])
    };
    let single = if dtype == DType::BFloat16 {
        let bits = shifted(arena, bits, 16);
        arena.builtin(Builtin::Reinterpret, &[bits], DType::Float32)
    } else {
        let (sign_bit, rest) = (int(arena, 0x8000), int(arena, 0x7fff));
        let sign = arena.call(Intrinsic::BitAnd, &[bits, sign_bit]);
        let magnitude = arena.call(Intrinsic::BitAnd, &[bits, rest]);
        let moved = shifted(arena, magnitude, 13);
        let bias = int(arena, 112 << 23);
        let normal = arena.add(moved, bias);
        let special = arena.add(normal, bias);
        let infinity = int(arena, 0x7c00);
        let is_special = arena.compare(CmpOp::Ge, magnitude, infinity);
        let normal = arena.select(is_special, special, normal);
        let count = arena.cast(DType::Float32, magnitude);
        let smallest = arena.float(1.0 / f64::from(1 << 24), DType::Float32);
        let count = arena.mul(count, smallest);
        let count = arena.builtin(Builtin::Reinterpret, &[count], DType::UInt32);
        let first_normal = int(arena, 0x0400);
        let is_small = arena.compare(CmpOp::Lt, magnitude, first_normal);
        let magnitude = arena.select(is_small, count, normal);
        let sign = shifted(arena, sign, 16);
        let all = arena.call(Intrinsic::BitOr, &[magnitude, sign]);
        arena.builtin(Builtin::Reinterpret, &[all], DType::Float32)
    };
    arena.cast(dtype, single)
}

/// Whether an expression uses vectors.
fn is_wide(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_subexpr(arena, e, &mut |e| found |= arena.lanes(e) > 1);
    found
}

/// Whether a value only moves bytes.
fn only_moves(arena: &Arena, value: ExprId) -> bool {
    let mut moves = true;
    for_each_subexpr(arena, value, &mut |e| {
        moves &= matches!(
            arena.expr(e),
            Expr::Var(_)
                | Expr::Int(_)
                | Expr::Load(..)
                | Expr::Ramp(..)
                | Expr::Broadcast(_)
                | Expr::Shuffle(..)
                | Expr::Builtin(Builtin::Reinterpret, _)
        );
    });
    moves
}

fn scaled(arena: &mut Arena, e: ExprId, by: u16) -> ExprId {
    arena.mul_const(e, by.into())
}

fn with_last(arena: &mut Arena, list: ExprList, last: ExprId) -> ExprList {
    let mut items = arena.list(list).to_vec();
    items.push(last);
    arena.new_list(&items)
}
