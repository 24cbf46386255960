//! Computes intermediate values of a result in the result's own memory.
//!
//! ```text
//! scratch E: float32[1024]
//! for i in 256:
//!   for k in 1024: E[k] = exp(A[i * 1024 + k])
//!   for k in 1024: S[0] = S[0] + E[k]
//!   for k in 1024: B[i * 1024 + k] = E[k] / S[0]
//! // becomes
//! for i in 256:
//!   for k in 1024: B[i * 1024 + k] = exp(A[i * 1024 + k])
//!   for k in 1024: S[0] = S[0] + B[i * 1024 + k]
//!   for k in 1024: B[i * 1024 + k] = B[i * 1024 + k] / S[0]
//! ```
//!
//! The result's cache lines are thus fetched during computation rather than during a final copy, and no scratch
//! occupies the cache. The conditions: all of the scratch is written first, then read, and then each element becomes
//! one of the result, at a fixed offset; nothing else accesses the result in between, and no value is kept from an
//! earlier iteration. Sums are excluded, since their tiles have a purpose of their own.

use crate::codegen::facts::may_stop;
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, map_operands};
use crate::loopir::{Access, Affine, Arena, BufferId, Expr, ExprId, For, Kernel, Stmt, StmtId, Storage};
use smallvec::SmallVec;

/// Replaces scratch buffers by results. Returns whether there were any.
pub(super) fn in_place(kernel: &mut Kernel) -> bool {
    let scratch: Vec<BufferId> =
        kernel.buffers().filter(|(_, b)| matches!(b.storage, Storage::Scratch(_))).map(|(id, _)| id).collect();
    let mut changed = false;
    for buffer in scratch {
        // A replaced buffer may in turn be the target of the next one.
        if let Some(place) = Place::of(kernel, buffer) {
            place.replace(kernel, buffer);
            changed = true;
        }
    }
    changed
}

/// The place of a scratch buffer in a result.
struct Place {
    /// The result.
    buffer: BufferId,
    /// Index in the result of the scratch buffer's first element.
    first: Affine,
}

/// A list of statements: its owner and which of the owner's bodies it is; `None` for the kernel's body.
type List = Option<(StmtId, usize)>;

/// A step from the root to a statement: the list, and the position in it.
type Step = (List, usize);

/// A statement that accesses the scratch buffer.
struct Toucher {
    path: SmallVec<[Step; 8]>,
    stmt: StmtId,
    loads: bool,
    stores: bool,
}

impl Place {
    fn of(kernel: &Kernel, scratch: BufferId) -> Option<Place> {
        let touchers = touchers(kernel, scratch);
        let (last, others) = touchers.split_last()?;
        let (first, readers) = others.split_first()?;
        let Stmt::Store { buffer, index, value } = kernel.stmts.get(last.stmt) else { return None };
        let (result, own) = (kernel.buffer(buffer), kernel.buffer(scratch));
        let arena = &kernel.arena;
        if buffer == scratch
            || result.storage != Storage::Param(Access::Out)
            || result.dtype != own.dtype
            || arena.lanes(value) != 1
            || readers.iter().any(|t| t.stores)
            || first.loads
            || is_touched_elsewhere(kernel, buffer, last.stmt)
        {
            return None;
        }
        let mut reads: SmallVec<[ExprId; 2]> = SmallVec::new();
        for_each_expr(arena, value, &mut |e| match arena.expr(e) {
            Expr::Load(b, i) if b == scratch && !reads.contains(&i) => reads.push(i),
            _ => {}
        });
        let &[read] = reads.as_slice() else { return None };
        // The list in which the buffer is completely written, then read, then copied to the result.
        let depth = common(&first.path, &last.path);
        let list = last.path.get(depth)?.0;
        let is_there = |t: &Toucher| common(&t.path, &last.path) >= depth;
        let place = |t: &Toucher| t.path.get(depth).filter(|s| is_there(t) && s.0 == list).map(|s| s.1);
        let (written, made) = (place(first)?, place(last)?);
        if !readers.iter().all(|t| place(t).is_some_and(|at| written < at && at < made)) {
            return None;
        }
        // If the kernel stops, results must hold what was stored until then.
        if stmts_of(kernel, list)[written..=made].iter().any(|&s| may_stop(kernel, kernel.stmts.get(s))) {
            return None;
        }
        // Elements that are not written would keep values of an earlier iteration.
        let Stmt::Store { index: own_index, .. } = kernel.stmts.get(first.stmt) else { return None };
        if !is_dense(kernel, &first.path[depth + 1..], &Affine::of(arena, own_index), own.len) {
            return None;
        }
        let read = Affine::of(arena, read);
        if !is_dense(kernel, &last.path[depth + 1..], &read, own.len) {
            return None;
        }
        let first = Affine::of(arena, index).minus(&read);
        let around = |v| last.path[..=depth].iter().filter_map(|s| loop_of(kernel, *s)).any(|l| l.var == v);
        let is_known = first.terms.iter().all(|t| arena.as_var(t.0).is_some_and(around));
        is_known.then_some(Place { buffer, first })
    }

    fn replace(&self, kernel: &mut Kernel, scratch: BufferId) {
        let body = kernel.body;
        let mut memo = ExprMap::default();
        kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
            let arena = &mut kernel.arena;
            let written = match stmt {
                Stmt::Store { buffer, index, value } if buffer == scratch => {
                    Stmt::Store { buffer: self.buffer, index: self.moved(arena, index), value }
                }
                other => other,
            };
            let new = map_operands(written, |e| {
                map_expr(arena, e, &mut memo, &mut |arena, e| match arena.expr(e) {
                    Expr::Load(b, index) if b == scratch => {
                        let (index, ty) = (self.moved(arena, index), arena.ty(e));
                        Some(arena.load(self.buffer, index, ty))
                    }
                    _ => None,
                })
            });
            out.push(if new == stmt { id } else { kernel.stmts.push(new) });
        });
    }

    /// The index in the result of an element of the scratch buffer.
    fn moved(&self, arena: &mut Arena, index: ExprId) -> ExprId {
        let mut sum = Affine::of(arena, index);
        self.first.terms.iter().for_each(|t| sum.add_term(t.0, t.1));
        sum.constant += self.first.constant;
        sum.to_expr(arena)
    }
}

/// The statements that access a buffer, in text order.
fn touchers(kernel: &Kernel, buffer: BufferId) -> Vec<Toucher> {
    fn walk(kernel: &Kernel, buffer: BufferId, list: List, path: &mut SmallVec<[Step; 8]>, found: &mut Vec<Toucher>) {
        for (at, &stmt) in stmts_of(kernel, list).iter().enumerate() {
            let node = kernel.stmts.get(stmt);
            path.push((list, at));
            let mut loads = false;
            for_each_operand(node, |e| {
                for_each_expr(&kernel.arena, e, &mut |e| {
                    loads |= matches!(kernel.arena.expr(e), Expr::Load(b, _) if b == buffer);
                });
            });
            let stores = matches!(node, Stmt::Store { buffer: b, .. } if b == buffer);
            if loads || stores {
                found.push(Toucher { path: path.clone(), stmt, loads, stores });
            }
            for body in 0..node.bodies().len() {
                walk(kernel, buffer, Some((stmt, body)), path, found);
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(kernel, buffer, None, &mut SmallVec::new(), &mut found);
    found
}

/// The statements of a list.
fn stmts_of(kernel: &Kernel, list: List) -> &[StmtId] {
    let body = list.map_or(kernel.body, |(owner, body)| kernel.stmts.get(owner).bodies()[body]);
    kernel.stmts.list(body)
}

/// Length of the common prefix of two paths.
fn common(a: &[Step], b: &[Step]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The loop that a list belongs to.
fn loop_of(kernel: &Kernel, step: Step) -> Option<For> {
    match kernel.stmts.get(step.0?.0) {
        Stmt::For(l) => Some(l),
        _ => None,
    }
}

/// Whether other statements access the buffer.
fn is_touched_elsewhere(kernel: &Kernel, buffer: BufferId, but: StmtId) -> bool {
    touchers(kernel, buffer).iter().any(|t| t.stmt != but || t.loads)
}

/// Whether the loops of these lists take an index exactly once through each value of `0..len`.
fn is_dense(kernel: &Kernel, path: &[Step], index: &Affine, len: i64) -> bool {
    let mut strides: SmallVec<[(i64, i64); 4]> = SmallVec::new();
    for &step in path {
        let Some(l) = loop_of(kernel, step) else { return false };
        let Some(n) = kernel.arena.as_int(l.extent) else { return false };
        let stride = index.coefficient_of(&kernel.arena, l.var);
        if n != 1 {
            strides.push((stride, n));
        }
    }
    let own = index.terms.iter().filter(|t| t.1 != 0).count();
    strides.sort_unstable();
    let mut reached = 1;
    for &(stride, n) in &strides {
        if stride != reached {
            return false;
        }
        reached *= n;
    }
    // Each term of the index is one of these loops.
    reached == len && index.constant == 0 && own == strides.len()
}
