//! # `reindex`
//!
//! Redirects a block to a new buffer that it accesses at its plain iteration variables.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(34), w: T.Buffer(3), C: T.Buffer(32)):
//!     for i, k in T.grid(32, 3):
//!         with T.sblock("C"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = 0.0
//!             C[vi] = C[vi] + A[vi + vk] * w[vk]
//!
//! def steps(sch):
//!     sch.reindex("C", "A")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((34,)), w: T.Buffer((3,)), C: T.Buffer((32,))):
//!     A_reindex = T.sblock_alloc_buffer((32, 3))
//!     for ax0, ax1 in T.grid(32, 3):
//!         with T.sblock("A_reindex_reindex"):
//!             v0, v1 = T.axis.remap("SS", [ax0, ax1])
//!             A_reindex[v0, v1] = A[v0 + v1]
//!     for i, k in T.grid(32, 3):
//!         with T.sblock("C"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = T.float32(0.0)
//!             C[vi] = C[vi] + A_reindex[vi, vk] * w[vk]
//! ```
//!
//! * Requires: a leaf block that accesses the buffer at the same indices everywhere, in loops without branches.
//! * Errors: `NotStagePipelineError`, `BufferIndexOutOfRangeError`, `NotLeafBlockError`, `InvalidBufferAccessError`,
//!   `CopyOutOfBoundsError`, `CachedBufferIsReadError`.
//! * Handles: persists: all; created: the copy block, the block that fills, their loops.
//! * Unlike TVM: if another block in the nest accesses the buffer, the copy is placed next to the block, inside its
//!   loops. A buffer that the block both writes and reads is copied in first; with ("read", …) the block continues to
//!   write to the old one. Only the written part is copied back. A copy of elements read under a condition tests the
//!   bounds.
//! * Refused, though TVM accepts it: stores beyond the buffer; for ("read", …), several stores in a block that writes
//!   the buffer.
//!
//! # Implementation
//!
//! Makes a block access a buffer at its iteration variables, through a copy with that layout.
//!
//! ```text
//! for i, j in T.grid(8, 4):
//!     with T.block("B"): B[vi, vj] = A[vj, vi]
//! # becomes, with buffer=("read", 0)
//! for ax0, ax1 in T.grid(8, 4):
//!     with T.block("A_reindex_reindex"): A_reindex[v0, v1] = A[v1, v0]
//! for i, j in T.grid(8, 4):
//!     with T.block("B"): B[vi, vj] = A_reindex[vi, vj]
//! ```
//!
//! The new buffer has a dimension for each iteration variable in the indices. The copy is placed before the block's
//! nest, or directly after it for a written buffer, and copies the elements that all instances access.
//!
//! TVM is wrong in four cases, which tvmr handles correctly:
//! * another block in the nest stores to the buffer, or reads the written elements: the copy is placed next to the
//!   block, inside its loops, and copies the elements that one instance accesses;
//! * the block writes the buffer and also reads it, or leaves parts unwritten: for ("write", …) the new buffer is
//!   filled first, by a preceding block `B_reindex_fill`; if only a part of the domain is written, only that is copied
//!   back;
//! * the block reads the buffer and also writes it: for ("read", …) it continues to write to the old one;
//! * the block reads under a condition without which it would read outside the buffer: the copy tests the bounds
//!   (`T.if_then_else(1 <= v0, A[v0 - 1], 0)`).
//!
//! Requires: a stage pipeline; a leaf block that accesses the buffer at the same indices everywhere; loops around it
//! without branches. Preserves: all loops and blocks. Returns: the copy block.
//!
//! TVM also accepts cases that change the result, which are refused here: stores outside the buffer; reading a copy of
//! elements that the block itself has stored, if it has more than one store.
//!
//! Handles: all persist; created, the copy block, the block that fills the new buffer, and their loops.

use super::super::analysis::affine::domain;
use super::super::analysis::dependence::Scope;
use super::super::analysis::filled::fills_its_region;
use super::super::analysis::guard::with_domains;
use super::super::analysis::region_bound::{Ranges, strict_bound};
use super::super::analysis::tree::require_scope;
use super::super::arg::RvValue;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::access::{Redirected, redirect_to, require_in_bounds, require_readable, the_indices};
use super::cache::output::{reads_before_it_writes, runs_in_parallel};
use super::cache::reindexed::are_apart;
use super::cache::site::{Site, Touch, body, touches};
use super::cache::stage::{fill_name, set_copy_info};
use crate::arith::int_set::IntSet;
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map};
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, BufferId, BufferRegion, ExprId, Func, IterKind, Stmt, StmtId, Substitution,
    Symbol, VarId,
};
use smallvec::SmallVec;

/// `reindex(block, buffer)`.
pub(crate) static REINDEX: Kind = Kind {
    name: "ReIndex",
    method: "reindex",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::attr("buffer", Ty::Buffer)],
    outputs: Outputs::Block,
    samples: false,
    run,
};

/// The result of the checks.
struct ReindexPlan {
    block: BlockId,
    scope: BlockId,
    access: Access,
    buffer: BufferId,
    /// The block's indices of the buffer, simplified.
    indices: SmallVec<[ExprId; 4]>,
    /// The iteration variables that the indices use.
    iters: Vec<BlockIter>,
    place: Place,
    redirected: Redirected,
    /// Whether the new buffer is filled first.
    filled: bool,
}

/// The position of the copy.
enum Place {
    /// Before or after the nest in the scope, with its own loops over these ranges of the iteration variables.
    Nest(StmtId, Ranges),
    /// Before or after the block, inside its loops.
    Block,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let (access, index) = call.buffer_access(1, func, block)?;
    let state = call.state(func);
    let plan = check(state, block, access, index)?;
    let copy = apply(state, plan);
    Ok(Outcome { outputs: vec![RvValue::Block(func, copy)], decision: None })
}

fn check(state: &mut State, block: BlockId, access: Access, index: usize) -> Result<ReindexPlan, ScheduleError> {
    let buffer = access.regions(state.func.block(block))[index].buffer;
    let scope = require_scope(state, block, true)?;
    let indices = the_indices(state, block, buffer)?;
    let all_iters = state.func.block(block).iters.clone();
    let mut analyzer = Analyzer::new();
    let a = &mut state.func.arena;
    for i in &all_iters {
        analyzer.bind(a, i.var, i.min, i.extent);
    }
    let simplified = |a: &mut Arena, e: ExprId, analyzer: &mut Analyzer| {
        let simple = analyzer.simplify(a, e);
        // A variable with one value stays, so that the copy has its dimension.
        if a.as_int(simple).is_some() { e } else { simple }
    };
    let indices: SmallVec<[ExprId; 4]> = indices.into_iter().map(|e| simplified(a, e, &mut analyzer)).collect();
    let is_used = |i: &BlockIter| indices.iter().any(|&e| uses_var(a, e, &mut |v| v == i.var));
    let iters: Vec<BlockIter> = all_iters.iter().filter(|i| is_used(i)).copied().collect();

    let nest = require_nest(state, block, scope)?;
    let whole = iters.iter().map(|i| (i.min, i.extent)).collect();
    let (place, redirected) = (Place::Nest(nest, whole), Redirected::All);
    let mut plan = ReindexPlan { block, scope, access, buffer, indices, iters, place, redirected, filled: false };
    match access {
        Access::Read => {
            require_readable(state, block, buffer, &plan.indices)?;
            plan.place_copy_in(state, nest)?;
        }
        Access::Write => {
            require_in_bounds(state, block, buffer, &plan.indices)?;
            plan.place_copy_back(state, nest);
        }
    }
    Ok(plan)
}

/// The statement of the scope that contains the block: loops that contain only the next inner one, except for the
/// innermost.
fn require_nest(state: &State, block: BlockId, scope: BlockId) -> Result<StmtId, ScheduleError> {
    let func = &state.func;
    let error = || state.error(ErrorKind::NotALoopNest { block: func.block(block).name }, block);
    let mut nest = func.parent(block.stmt()).filter(|&p| func.as_loop(p).is_some()).ok_or_else(error)?;
    loop {
        let parent = func.parent(nest).ok_or_else(error)?;
        if parent == scope.stmt() {
            return Ok(nest);
        }
        if func.as_loop(parent).is_none() || body(func, parent).len() != 1 {
            return Err(error());
        }
        nest = parent;
    }
}

impl ReindexPlan {
    /// Chooses the position of the copy for reads: before the nest, if no block there stores to the buffer.
    ///
    /// # Errors
    ///
    /// If the block may read elements that it has stored itself in the same instance.
    fn place_copy_in(&mut self, state: &mut State, nest: StmtId) -> Result<(), ScheduleError> {
        let node = state.func.block(self.block);
        let mut is_disturbed = self.has_other_access(&state.func, nest, |t| t.stores);
        if node.writes.iter().any(|w| w.buffer == self.buffer) {
            let is_one_store = matches!(node.body[..], [s] if matches!(state.func.get(s), Stmt::Store { .. }));
            if node.init.is_some() || !is_one_store {
                let buffer = state.func.arena.buffer(self.buffer).name;
                return Err(state.error(ErrorKind::CachedBufferIsRead { buffer }, self.block));
            }
            self.redirected = Redirected::Loads;
            is_disturbed |= !self.runs_once_per_element(state);
        }
        if is_disturbed {
            self.place = Place::Block;
        }
        Ok(())
    }

    /// Chooses the position of the copy back, and of the fill if one is needed.
    fn place_copy_back(&mut self, state: &mut State, nest: StmtId) {
        let reads = reads_before_it_writes(state, self.block, self.buffer);
        let fills = fills_its_region(&mut state.func, self.block, self.buffer);
        let beside_block = |plan: &mut ReindexPlan| (plan.place, plan.filled) = (Place::Block, reads || !fills);
        if self.has_other_access(&state.func, nest, |_| true) {
            return beside_block(self);
        }
        let func = &mut state.func;
        let is_local = func.block(self.scope).allocs.contains(&self.buffer)
            && Scope::of(func, self.scope).writers(self.buffer).count() == 1;
        let is_apart = are_apart(&mut func.arena, &self.iters, &self.indices);
        if is_local && is_apart && !reads {
            // Elements that the block leaves unwritten were not written before either.
            return;
        }
        let written = if fills { self.written(func) } else { None };
        let is_exact = written.is_some();
        if let Some(ranges) = written {
            self.place = Place::Nest(nest, ranges);
        }
        if is_exact && !reads {
            return;
        }
        // Writing an old value back is harmless if no other thread writes the element, and if the new buffer has one
        // position for it.
        if is_apart && (is_exact || !runs_in_parallel(func, self.scope.stmt())) {
            self.filled = true;
        } else {
            beside_block(self);
        }
    }

    /// Whether there is such an access to the buffer in the nest, outside the block.
    fn has_other_access(&self, func: &Func, nest: StmtId, which: impl Fn(&Touch) -> bool) -> bool {
        touches(func, nest, self.buffer).iter().any(|t| which(t) && !func.contains(self.block.stmt(), t.stmt))
    }

    /// Whether each element is accessed by only one instance of the block, which runs once.
    fn runs_once_per_element(&self, state: &mut State) -> bool {
        let domains = self.loop_domains(&state.func);
        let predicate = with_domains(&mut state.func, self.block);
        let iters = state.func.block(self.block).iters.clone();
        let values: Vec<ExprId> = iters.iter().map(|i| i.value).collect();
        let a = &mut state.func.arena;
        let (level, analyzer) = (IterMapLevel::Bijective, &mut Analyzer::new());
        are_apart(a, &iters, &self.indices)
            && detect_iter_map(a, &values, &domains, predicate, level, analyzer, false).is_ok()
    }

    /// The values of the iteration variables, if these are all combinations from ranges.
    fn written(&self, func: &mut Func) -> Option<Ranges> {
        let domains = self.loop_domains(func);
        let runs = with_domains(func, self.block);
        let a = &mut func.arena;
        let values: Ranges = self.iters.iter().map(|i| (i.value, a.int(1, a.dtype(i.value)))).collect();
        let sets = strict_bound(a, &values, &domains, runs)?;
        let range = |(set, i): (IntSet, &BlockIter)| {
            if set.match_range(a, i.min, i.extent) {
                return Some((i.min, i.extent));
            }
            let (min, extent) = set.cover_range(a, (i.min, i.extent));
            (a.as_int(min).is_some() && a.as_int(extent).is_some()).then_some((min, extent))
        };
        sets.into_iter().zip(&self.iters).map(range).collect()
    }

    fn loop_domains(&self, func: &Func) -> SmallVec<[VarRange; 8]> {
        func.loops_above(self.block.stmt()).into_iter().map(|l| domain(func, l)).collect()
    }
}

fn apply(state: &mut State, plan: ReindexPlan) -> BlockId {
    let func = &mut state.func;
    let a = &mut func.arena;
    let mut new = a.buffer(plan.buffer).clone();
    let old_name = new.name;
    new.name = old_name.with_suffix("_reindex");
    let shape: SmallVec<[ExprId; 4]> = plan.iters.iter().map(|i| a.add(i.min, i.extent)).collect();
    let shape = a.new_list(&shape);
    new = new.with_shape(a, shape);
    new.strides = None;
    let new_name = new.name;
    let new = a.new_buffer(new);
    let at: SmallVec<[ExprId; 4]> = plan.iters.iter().map(|i| a.var_expr(i.var)).collect();
    redirect_to(func, plan.block, plan.buffer, (new, &at), plan.redirected, false);
    let (parent, anchor) = match plan.place {
        Place::Nest(nest, _) => (plan.scope.stmt(), nest),
        Place::Block => (func.parent(plan.block.stmt()).expect("the block stands in a nest"), plan.block.stmt()),
    };
    let before = Site { parent, position: 0 }.in_front_of(func, anchor);
    let after = Site { position: before.position + 1, ..before };
    let mut copies: SmallVec<[BlockId; 2]> = SmallVec::new();
    let mut copy = |name: Symbol, access: Access, site: Site| {
        let (copy, stage) = copy_nest(func, &plan, name, access, new);
        site.insert(func, stage);
        copies.push(copy);
    };
    match plan.access {
        Access::Read => copy(new_name.with_suffix("_reindex"), Access::Read, before),
        Access::Write => {
            copy(new_name, Access::Write, after);
            if plan.filled {
                copy(fill_name(new_name), Access::Read, before);
            }
        }
    }
    func.block_mut(plan.scope).allocs.push(new);
    for &copy in &copies {
        set_copy_info(state, copy);
    }
    if plan.redirected == Redirected::Loads && matches!(plan.place, Place::Block) {
        // The copy reads elements that the block writes in other iterations, a dependence that the text order does not
        // show.
        state.update_info(plan.scope, |info| info.stage_pipeline = false);
    }
    copies[0]
}

/// The nest that copies between the buffer, at the plan's indices, and the new one: to the new one for
/// [`Access::Read`].
fn copy_nest(func: &mut Func, plan: &ReindexPlan, name: Symbol, access: Access, new: BufferId) -> (BlockId, StmtId) {
    let predicate = func.block(plan.block).predicate;
    let a = &mut func.arena;
    let mut renamed = Substitution::default();
    let mut loops: SmallVec<[(VarId, ExprId, ExprId); 4]> = SmallVec::new();
    let mut copies: Vec<BlockIter> = Vec::with_capacity(plan.iters.len());
    let mut plain: SmallVec<[ExprId; 4]> = SmallVec::new();
    for (n, iter) in plan.iters.iter().enumerate() {
        let dtype = a.var(iter.var).dtype;
        let (var, v) = a.new_var_expr(format!("v{n}").as_str(), dtype);
        renamed.add_var(iter.var, v);
        let copied = match &plan.place {
            Place::Nest(_, ranges) => {
                let (min, extent) = ranges[n];
                let (loop_var, value) = a.new_var_expr(format!("ax{n}").as_str(), dtype);
                // A part of the domain is counted from 0, so that its loop can be split.
                let (first, value) = match (min, extent) == (iter.min, iter.extent) {
                    true => (min, value),
                    false => (a.int(0, dtype), a.add(min, value)),
                };
                loops.push((loop_var, first, extent));
                BlockIter { var, min, extent, kind: IterKind::Spatial, value }
            }
            Place::Block => BlockIter { var, kind: IterKind::Spatial, ..*iter },
        };
        copies.push(copied);
        plain.push(v);
    }
    let mapped: SmallVec<[ExprId; 4]> = plan.indices.iter().map(|&e| renamed.apply(a, e)).collect();
    let ((from, read_at), (to, write_at)) = match access {
        Access::Read => ((plan.buffer, mapped), (new, plain)),
        Access::Write => ((new, plain), (plan.buffer, mapped)),
    };
    let value = a.load(from, &read_at);
    let (read_at, indices) = (a.new_list(&read_at), a.new_list(&write_at));
    let reads = vec![BufferRegion::point(a, from, read_at)];
    let writes = vec![BufferRegion::point(a, to, indices)];
    let predicate = if matches!(plan.place, Place::Block) { predicate } else { a.bool(true) };
    let store = func.add(Stmt::Store { buffer: to, indices, value });
    let body = Body::from_slice(&[store]);
    let block = func.add_block(Block { iters: copies, reads, writes, body, ..Block::new(name, predicate) });
    let mut nest = block.stmt();
    for &(var, min, extent) in loops.iter().rev() {
        let l = func.make_loop(var, extent, Body::from_slice(&[nest]));
        func.loop_mut(l).min = min;
        nest = l.stmt();
    }
    (block, nest)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::arg::Arg;
    use crate::schedule::error::ScheduleError;

    fn reindex(kind: &'static str, index: i64) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block("B");
            t.run("reindex", vec![block.into(), Arg::List(vec![kind.into(), index.into()])]).map(drop)
        }
    }

    const CONV: &str = r#"
def main(A: T.Buffer((10,)), W: T.Buffer((3,)), B: T.Buffer((8,))):
    for i, k in T.grid(8, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[7 - vi] = T.float32(0)
            B[7 - vi] = B[7 - vi] + A[vi + vk] * W[vk]
"#;

    #[test]
    fn a_window_is_laid_out() {
        check(
            CONV,
            reindex("read", 0),
            r#"
def main(A: T.Buffer((10,)), W: T.Buffer((3,)), B: T.Buffer((8,))):
    A_reindex = T.alloc_buffer((8, 3))
    for ax0, ax1 in T.grid(8, 3):
        with T.block("A_reindex_reindex"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            A_reindex[v0, v1] = A[v0 + v1]
    for i, k in T.grid(8, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[7 - vi] = T.float32(0)
            B[7 - vi] = B[7 - vi] + A_reindex[vi, vk] * W[vk]
"#,
        );
    }

    #[test]
    fn an_output_is_copied_back() {
        check(
            CONV,
            reindex("write", 0),
            r#"
def main(A: T.Buffer((10,)), W: T.Buffer((3,)), B: T.Buffer((8,))):
    B_reindex = T.alloc_buffer((8,))
    for i, k in T.grid(8, 3):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B_reindex[vi] = T.float32(0)
            B_reindex[vi] = B_reindex[vi] + A[vi + vk] * W[vk]
    for ax0 in range(8):
        with T.block("B_reindex"):
            v0 = T.axis.spatial(8, ax0)
            B[7 - v0] = B_reindex[v0]
"#,
        );
    }

    #[test]
    fn refusals() {
        refuse(CONV, reindex("read", 2), "BufferIndexOutOfRangeError");
        refuse(&CONV.replace("W[vk]", "A[vi]"), reindex("read", 0), "InvalidBufferAccessError");
        refuse(&CONV.replace("B[7 - vi]", "B[vi + 2]"), reindex("write", 0), "CopyOutOfBoundsError");
        let twice = UPDATE.replace("B[7 - vi] =", "B[7 - vi] = B[7 - vi] * T.float32(2)\n            B[7 - vi] =");
        refuse(&twice, reindex("read", 0), "CachedBufferIsReadError");
    }

    const UPDATE: &str = r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[7 - vi] = B[7 - vi] + A[vi]
"#;

    #[test]
    fn an_update_reads_a_copy_and_writes_the_buffer() {
        check(
            UPDATE,
            reindex("read", 0),
            r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    B_reindex = T.alloc_buffer((8,))
    for ax0 in range(8):
        with T.block("B_reindex_reindex"):
            v0 = T.axis.spatial(8, ax0)
            B_reindex[v0] = B[7 - v0]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[7 - vi] = B_reindex[vi] + A[vi]
"#,
        );
    }

    #[test]
    fn an_update_writes_to_a_filled_buffer() {
        check(
            UPDATE,
            reindex("write", 0),
            r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    B_reindex = T.alloc_buffer((8,))
    for ax0 in range(8):
        with T.block("B_reindex_fill"):
            v0 = T.axis.spatial(8, ax0)
            B_reindex[v0] = B[7 - v0]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B_reindex[vi] = B_reindex[vi] + A[vi]
    for ax0 in range(8):
        with T.block("B_reindex"):
            v0 = T.axis.spatial(8, ax0)
            B[7 - v0] = B_reindex[v0]
"#,
        );
    }

    #[test]
    fn a_sum_reads_what_it_has_summed() {
        let before = CONV.replace("            with T.init():\n                B[7 - vi] = T.float32(0)\n", "");
        check(
            &before,
            reindex("read", 0),
            r#"
def main(A: T.Buffer((10,)), W: T.Buffer((3,)), B: T.Buffer((8,))):
    B_reindex = T.alloc_buffer((8,))
    for i, k in T.grid(8, 3):
        with T.block("B_reindex_reindex"):
            v0 = T.axis.spatial(8, i)
            B_reindex[v0] = B[7 - v0]
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[7 - vi] = B_reindex[vi] + A[vi + vk] * W[vk]
"#,
        );
    }

    #[test]
    fn only_what_is_written_is_copied_back() {
        let part = |name: &str, from: &str, to: &str| {
            let (loops, domain, value) = match name {
                "B" => ("i in range(2, 8)", "8", "i"),
                _ => ("ax0 in range(6)", "(2, 8)", "2 + ax0"),
            };
            format!(
                "    for {loops}:\n        with T.block(\"{name}\"):\n            vi = T.axis.spatial({domain}, {value})\n            {to} = {from}\n"
            )
        };
        let head = "def main(A: T.Buffer((8,)), B: T.Buffer((8,))):\n";
        check(
            &format!("{head}{}", part("B", "A[vi]", "B[7 - vi]")),
            reindex("write", 0),
            &format!(
                "{head}    B_reindex = T.alloc_buffer((8,))\n{}{}",
                part("B", "A[vi]", "B_reindex[vi]"),
                part("B_reindex", "B_reindex[vi]", "B[7 - vi]")
            ),
        );
    }

    #[test]
    fn a_reader_in_the_same_loop_finds_the_copy() {
        let program = |alloc: &str, to: &str, copy: &str| {
            format!(
                r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    X = T.alloc_buffer((8,))
{alloc}
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            {to}[vi] = A[vi]
{copy}
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = X[vi]
"#
            )
        };
        let copy = "        with T.block(\"X_reindex\"):\n            v0 = T.axis.spatial(8, i)\n            X[v0] = X_reindex[v0]";
        check(
            &program("", "X", ""),
            reindex("write", 0),
            &program("    X_reindex = T.alloc_buffer((8,))", "X_reindex", copy),
        );
    }

    #[test]
    fn a_padded_read_is_copied_where_it_exists() {
        let padded = |load: &str| format!("T.if_then_else(0 < vi, {load}, T.float32(0))");
        check(
            &UPDATE.replace("B[7 - vi] + A[vi]", &padded("A[vi - 1]")),
            reindex("read", 0),
            &format!(
                r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    A_reindex = T.alloc_buffer((8,))
    for ax0 in range(8):
        with T.block("A_reindex_reindex"):
            v0 = T.axis.spatial(8, ax0)
            A_reindex[v0] = A[v0 - 1]
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[7 - vi] = {}
"#,
                padded("A_reindex[vi]")
            ),
        );
    }
}
