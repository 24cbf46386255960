//! Barriers of GPU threads, for machines that run one thread after the other.
//!
//! A loop that is bound to a thread axis runs its iterations one after the other here. That is the same as running them at
//! once unless they wait for each other (`T.tvm_storage_sync`). Then the loop is split: all threads run what stands before the
//! barrier, then all run what stands behind it.
//!
//! ```text
//! for t in T.thread_binding(64, thread="threadIdx.x"):      S = T.alloc_buffer((64,))
//!     S = T.alloc_buffer((64,), scope="shared")             x = T.alloc_buffer((64, 1))
//!     x = T.alloc_buffer((1,), scope="local")               for t in T.thread_binding(64, thread="threadIdx.x"):
//!     x[0] = A[t]                                               x[t, 0] = A[t]
//!     S[t] = x[0]                                    ->         S[t] = x[t, 0]
//!     T.tvm_storage_sync("shared")                          for t in T.thread_binding(64, thread="threadIdx.x"):
//!     B[t] = S[63 - t] + x[0]                                   B[t] = S[63 - t] + x[t, 0]
//! ```
//!
//! * Loops, conditions and values around a barrier must be the same for all threads, as GPUs require; they stay around the
//!   split loops.
//! * Memory of a thread that lives across a barrier gets one part for each thread; shared memory is allocated outside.
//! * A barrier of scope `global` is one of all blocks of threads.
//!
//! The idea is that of OpenCL on CPUs (Jääskeläinen et al., "pocl: A Performance-Portable OpenCL Implementation", 2015).

use super::buffer::{Buffer, BufferId, BufferRegion};
use super::expr::{Arena, Expr, ExprId};
use super::func::Func;
use super::op::Builtin;
use super::stmt::{Block, Body, Loop, LoopKind, Stmt, StmtId};
use super::symbol::Symbol;
use super::visit::{Rewriter, Substitution, for_each_own_expr, for_each_subexpr, walk_rewrite};
use hashbrown::HashMap;

/// A barrier at which the threads cannot be split.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BarrierError {
    /// The statement that prevents it.
    pub stmt: StmtId,
    /// What is wrong with it, as the rest of a sentence that begins with the statement.
    pub reason: &'static str,
}

/// Whether a thread axis counts blocks of threads. These run in any order, so that a CPU may run them in parallel.
pub fn is_of_blocks(axis: Symbol) -> bool {
    axis.as_str().starts_with("blockIdx")
}

/// The first loop that is bound to threads of a GPU.
pub fn first_bound_loop(func: &Func) -> Option<StmtId> {
    let is_bound = |&s: &StmtId| matches!(func.get(s), Stmt::Loop(l) if matches!(l.kind, LoopKind::ThreadBinding(_)));
    func.subtree(func.root.stmt()).into_iter().find(is_bound)
}

/// The function with all barriers replaced by splits of thread loops; `None` if it has no barrier.
///
/// # Errors
/// Not all threads reach a barrier in the same way, or memory of threads is used in ways that do not allow a copy for each.
pub fn without_barriers(func: &Func) -> Result<Option<Func>, BarrierError> {
    let barriers: Vec<StmtId> =
        func.subtree(func.root.stmt()).into_iter().filter(|&s| scope(func, s).is_some()).collect();
    if barriers.is_empty() {
        return Ok(None);
    }
    let mut func = func.clone();
    let is_global = barriers.iter().any(|&s| scope(&func, s) == Some("global".into()));
    for barrier in barriers {
        if !func.is_alive(barrier) {
            continue;
        }
        let outermost = func.ancestors(barrier).filter(|&s| thread_loop(&func, s, is_global).is_some()).last();
        match outermost {
            Some(nest) => split(&mut func, nest, is_global)?,
            // One thread waits for nobody.
            None => func.replace(barrier, &[]),
        }
    }
    Ok(Some(func))
}

/// The scope of a barrier; `None` for other statements.
fn scope(func: &Func, s: StmtId) -> Option<Symbol> {
    let Stmt::Evaluate(call) = *func.get(s) else { return None };
    let Expr::Builtin(Builtin::StorageSync, args) = func.arena.expr(call) else { return None };
    match func.arena.expr(*func.arena.list(args).first()?) {
        Expr::Str(scope) => Some(scope),
        _ => Some("shared".into()),
    }
}

/// The loop, if its iterations are threads that wait for each other.
fn thread_loop(func: &Func, s: StmtId, is_global: bool) -> Option<&Loop> {
    match func.get(s) {
        Stmt::Loop(l) => match l.kind {
            LoopKind::ThreadBinding(axis) if is_global || !is_of_blocks(axis) => Some(l),
            _ => None,
        },
        _ => None,
    }
}

/// Splits the loops of threads from this one on.
fn split(func: &mut Func, nest: StmtId, is_global: bool) -> Result<(), BarrierError> {
    for s in func.subtree(nest) {
        if matches!(func.get(s), Stmt::Break | Stmt::Continue | Stmt::Return(_)) {
            return Err(BarrierError { stmt: s, reason: "leaves a loop of threads that have a barrier" });
        }
    }
    let place = func.cut(nest);
    let mut split = Split { func, is_global, threads: Vec::new(), private: HashMap::new(), allocated: Body::new() };
    let body = split.list(&[nest])?;
    let mut all = split.allocated;
    all.extend(body);
    func.insert_at(place, &all);
    Ok(())
}

/// A loop of threads around the current statements.
struct Thread {
    looped: Loop,
    extent: i64,
}

/// The memory of a thread, as one part of a larger buffer.
#[derive(Clone, Copy)]
struct Private {
    buffer: BufferId,
    /// The number of thread loops around the allocation.
    threads: usize,
}

struct Split<'a> {
    func: &'a mut Func,
    is_global: bool,
    /// Outermost first.
    threads: Vec<Thread>,
    private: HashMap<BufferId, Private>,
    /// Allocations of what lives across barriers.
    allocated: Body,
}

impl Split<'_> {
    fn has_barrier(&self, s: StmtId) -> bool {
        self.func.subtree(s).into_iter().any(|s| scope(self.func, s).is_some())
    }

    /// The statements of a list as all threads run them together.
    fn list(&mut self, list: &[StmtId]) -> Result<Body, BarrierError> {
        let mut out = Body::new();
        let mut alike = Vec::new();
        for &s in list {
            if self.has_barrier(s) {
                self.flush(&mut alike, &mut out)?;
                self.around_barrier(s, &mut out)?;
                continue;
            }
            match *self.func.get(s) {
                Stmt::Alloc { buffer, .. } => self.allocate(s, buffer)?,
                Stmt::Declare { .. } => {
                    return Err(BarrierError { stmt: s, reason: "names memory of threads that have a barrier" });
                }
                _ => alike.push(s),
            }
        }
        self.flush(&mut alike, &mut out)?;
        Ok(out)
    }

    /// A statement with a barrier inside.
    fn around_barrier(&mut self, s: StmtId, out: &mut Body) -> Result<(), BarrierError> {
        if let Some(l) = thread_loop(self.func, s, self.is_global) {
            let looped = l.clone();
            let inner = looped.body.clone();
            let fixed = looped.step.is_none();
            let Some(extent) = self.func.arena.as_int(looped.extent).filter(|_| fixed) else {
                return Err(BarrierError { stmt: s, reason: "is a loop of threads without a constant extent" });
            };
            self.threads.push(Thread { looped, extent });
            let inner = self.list(&inner);
            self.threads.pop();
            out.extend(inner?);
            return Ok(());
        }
        match self.func.get(s).clone() {
            Stmt::Evaluate(_) => {}
            Stmt::Block(b) => self.block(s, &b, out)?,
            Stmt::Let { var, value, body } if !self.is_uniform(value) => {
                let mut loads = false;
                for_each_subexpr(&self.func.arena, value, &mut |e| {
                    loads |= matches!(self.func.arena.expr(e), Expr::Load(..) | Expr::Builtin(..));
                });
                if loads {
                    let reason = "has a value that is read before a barrier, and that differs between threads; store it \
                                  in a buffer of scope `local`";
                    return Err(BarrierError { stmt: s, reason });
                }
                let mut known = Substitution::of_vars([(var, value)]);
                for &inner in &body {
                    self.func.rewrite_subtree(inner, &mut known);
                }
                out.extend(self.list(&body)?);
            }
            other => {
                let mut same = true;
                for_each_own_expr(self.func, s, &mut |e| same &= self.is_uniform(e));
                if !same {
                    return Err(BarrierError { stmt: s, reason: "has a barrier inside, and differs between threads" });
                }
                let lists: Vec<Body> = other.bodies().into_iter().cloned().collect();
                for (i, list) in lists.iter().enumerate() {
                    let new = self.list(list)?;
                    self.func.set_list(s, i, new);
                }
                out.push(s);
            }
        }
        Ok(())
    }

    /// The statements of a block with a barrier inside; its iterations become the values that they are bound to.
    fn block(&mut self, s: StmtId, b: &Block, out: &mut Body) -> Result<(), BarrierError> {
        if b.init.is_some() || !b.matches.is_empty() {
            return Err(BarrierError { stmt: s, reason: "is a block with an init or a view and a barrier inside" });
        }
        let mut values = Substitution::of_vars(b.iters.iter().map(|iter| (iter.var, iter.value)));
        for &inner in &b.body {
            self.func.rewrite_subtree(inner, &mut values);
        }
        for &buffer in &b.allocs {
            self.allocate(s, buffer)?;
        }
        let body = self.list(&b.body)?;
        if self.func.arena.is_int(b.predicate, 1) {
            out.extend(body);
            return Ok(());
        }
        if !self.is_uniform(b.predicate) {
            return Err(BarrierError { stmt: s, reason: "has a barrier inside, and differs between threads" });
        }
        let condition = b.predicate;
        out.push(self.func.stmts.add(Stmt::If { condition, then: body, otherwise: Body::new() }));
        Ok(())
    }

    /// Whether an expression is the same for all threads.
    fn is_uniform(&self, e: ExprId) -> bool {
        let arena = &self.func.arena;
        let mut same = true;
        for_each_subexpr(arena, e, &mut |e| match arena.expr(e) {
            Expr::Var(v) => same &= self.threads.iter().all(|t| t.looped.var != v),
            Expr::Load(b, _) | Expr::BufferData(b) => same &= !self.private.contains_key(&b),
            _ => {}
        });
        same
    }

    /// Allocates what a list around a barrier allocates: once if it is shared, else for each thread.
    fn allocate(&mut self, s: StmtId, buffer: BufferId) -> Result<(), BarrierError> {
        let arena = &mut self.func.arena;
        let old = arena.buffer(buffer).clone();
        let is_plain = old.strides.is_none() && old.elem_offset.is_none_or(|e| arena.is_int(e, 0));
        if !is_plain || arena.list(old.shape).iter().any(|&e| arena.as_int(e).is_none()) {
            let reason = "allocates memory of a computed shape around a barrier";
            return Err(BarrierError { stmt: s, reason });
        }
        let mut new = buffer;
        if !old.scope.as_str().starts_with("shared") && !self.threads.is_empty() {
            let dtype = super::buffer::index_type(arena, old.shape);
            let mut shape: Vec<ExprId> = self.threads.iter().map(|t| arena.int(t.extent, dtype)).collect();
            shape.extend(arena.list(old.shape));
            let shape = arena.new_list(&shape);
            let parts = Buffer { scalar: false, ..old }.with_shape(arena, shape);
            new = arena.new_buffer(parts);
            self.private.insert(buffer, Private { buffer: new, threads: self.threads.len() });
        }
        self.allocated.push(self.func.stmts.add(Stmt::Alloc { buffer: new, annotations: Default::default() }));
        Ok(())
    }

    /// Puts the loops of threads around statements without a barrier.
    fn flush(&mut self, alike: &mut Vec<StmtId>, out: &mut Body) -> Result<(), BarrierError> {
        if alike.is_empty() {
            return Ok(());
        }
        let mut own = Substitution::default();
        let mut vars = Vec::new();
        for t in &self.threads {
            let (name, dtype) = (self.func.arena.var(t.looped.var).name, self.func.arena.var(t.looped.var).dtype);
            let (var, e) = self.func.arena.new_var_expr(name, dtype);
            own.add_var(t.looped.var, e);
            // Threads are counted from 0 in their parts of buffers.
            let number = self.func.arena.sub(e, t.looped.min);
            vars.push((var, number));
        }
        let numbers: Vec<ExprId> = vars.iter().map(|v| v.1).collect();
        for &s in alike.iter() {
            self.func.rewrite_subtree(s, &mut own);
            self.use_parts(s, &numbers)?;
        }
        let mut body: Body = alike.drain(..).collect();
        for (t, (var, _)) in self.threads.iter().zip(vars).rev() {
            let looped = Loop { var, body, ..t.looped.clone() };
            body = Body::from_slice(&[self.func.stmts.add_loop(looped).stmt()]);
        }
        out.extend(body);
        Ok(())
    }

    /// Replaces accesses to memory of a thread by those to its part.
    fn use_parts(&mut self, s: StmtId, threads: &[ExprId]) -> Result<(), BarrierError> {
        let mut parts = Parts { private: &self.private, threads, has_address: false };
        for s in self.func.subtree(s) {
            self.func.rewrite_stmt(s, &mut parts);
            match self.func.get(s).clone() {
                Stmt::Store { buffer, indices, value } => {
                    let Some(p) = self.private.get(&buffer) else { continue };
                    let indices = self.func.arena.list(indices).to_vec();
                    let indices = parts.place(&mut self.func.arena, *p, &indices);
                    let indices = self.func.arena.new_list(&indices);
                    *self.func.stmt_mut(s) = Stmt::Store { buffer: p.buffer, indices, value };
                }
                Stmt::Block(mut b) => {
                    let arena = &mut self.func.arena;
                    let sources = b.matches.iter_mut().map(|m| &mut m.source);
                    for region in b.reads.iter_mut().chain(&mut b.writes).chain(sources) {
                        if let Some(&p) = self.private.get(&region.buffer) {
                            *region = parts.region(arena, p, region);
                        }
                    }
                    if let Some(block) = self.func.as_block(s) {
                        let (reads, writes, matches) = (b.reads, b.writes, b.matches);
                        let block = self.func.block_mut(block);
                        (block.reads, block.writes, block.matches) = (reads, writes, matches);
                    }
                }
                _ => {}
            }
        }
        match parts.has_address {
            true => Err(BarrierError { stmt: s, reason: "takes the address of memory of a thread that has a barrier" }),
            false => Ok(()),
        }
    }
}

/// Rewrites loads of memory of threads.
struct Parts<'a> {
    private: &'a HashMap<BufferId, Private>,
    threads: &'a [ExprId],
    has_address: bool,
}

impl Parts<'_> {
    /// The indices of an element in the buffer of all threads.
    fn place(&self, arena: &mut Arena, p: Private, indices: &[ExprId]) -> Vec<ExprId> {
        let shape = arena.buffer(p.buffer).shape;
        let dtype = super::buffer::index_type(arena, shape);
        let mut all: Vec<ExprId> = self.threads[..p.threads].iter().map(|&t| arena.cast(dtype, t)).collect();
        all.extend(indices);
        all
    }

    fn region(&self, arena: &mut Arena, p: Private, region: &BufferRegion) -> BufferRegion {
        let (mins, extents) = (arena.list(region.mins).to_vec(), arena.list(region.extents).to_vec());
        let mins = self.place(arena, p, &mins);
        let dtype = mins.first().map_or(super::DType::Int64, |&e| arena.dtype(e));
        let ones = vec![arena.int(1, dtype); p.threads];
        let extents: Vec<ExprId> = ones.into_iter().chain(extents).collect();
        let ranges: Vec<(ExprId, ExprId)> = mins.into_iter().zip(extents).collect();
        BufferRegion::new(arena, p.buffer, &ranges)
    }
}

impl Rewriter for Parts<'_> {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        let new = walk_rewrite(self, arena, e);
        match arena.expr(new) {
            Expr::Load(b, list) => {
                let Some(&p) = self.private.get(&b) else { return new };
                let indices = arena.list(list).to_vec();
                let indices = self.place(arena, p, &indices);
                arena.load(p.buffer, &indices)
            }
            Expr::BufferData(b) => {
                self.has_address |= self.private.contains_key(&b);
                new
            }
            _ => new,
        }
    }
}
