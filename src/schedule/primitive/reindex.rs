//! Lets a block access a buffer at its iteration variables, through a copy that is laid out so.
//!
//!     for i, j in T.grid(8, 4):
//!         with T.block("B"): B[vi, vj] = A[vj, vi]
//!     # becomes, with buffer=("read", 0)
//!     for ax0, ax1 in T.grid(8, 4):
//!         with T.block("A_reindex_reindex"): A_reindex[v0, v1] = A[v1, v0]
//!     for i, j in T.grid(8, 4):
//!         with T.block("B"): B[vi, vj] = A_reindex[vi, vj]
//!
//! The new buffer has a dimension for each iteration variable that the indices use. The copy goes in front of the
//! block's nest, or right behind it for a buffer that is written.
//!
//! Requires: a stage pipeline; a leaf block that accesses the buffer at the same indices everywhere; loops around it
//! without branches. Preserves: all loops and blocks. Returns: the copy block.
//!
//! TVM also accepts, and we refuse, what changes the result: a block that both reads and writes the buffer; another
//! block in the nest that accesses the buffer; a copy that reaches beyond the buffer; a block that leaves parts
//! unwritten of what is copied back.
//!
//! Handles: all persist; created, the copy block and its loops.

use super::super::analysis::affine::domain;
use super::super::analysis::dependence::Scope;
use super::super::analysis::filled::fills_its_region;
use super::super::analysis::region_bound::strict_bound;
use super::super::analysis::tree::require_scope;
use super::super::arg::RvValue;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::access::{redirect_to, require_in_bounds, the_indices};
use super::cache::site::{Site, body, out_of_order, touches};
use super::cache::stage::set_copy_info;
use crate::arith::{Analyzer, VarRange};
use crate::ir::visit::uses_var;
use crate::ir::{
    Block, BlockId, BlockIter, Body, BufferId, BufferRegion, ExprId, Func, IterKind, Stmt, StmtId, Substitution, VarId,
};
use smallvec::SmallVec;

/// `reindex(block, buffer)`.
pub static REINDEX: Kind = Kind {
    name: "ReIndex",
    method: "reindex",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::attr("buffer", Ty::Buffer)],
    outputs: Outputs::Block,
    samples: false,
    run,
};

/// What the checks found.
struct Plan {
    block: BlockId,
    scope: BlockId,
    /// The statement of the scope that holds the block.
    nest: StmtId,
    access: Access,
    buffer: BufferId,
    /// Where the block accesses the buffer, simplified.
    indices: SmallVec<[ExprId; 4]>,
    /// The iteration variables that the indices use.
    iters: Vec<BlockIter>,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let (access, index) = call.buffer_access(1, func, block)?;
    let state = call.state(func);
    let plan = check(state, block, access, index)?;
    let copy = apply(state, plan);
    Ok(Outcome { outputs: vec![RvValue::Block(func, copy)], decision: None })
}

fn check(state: &mut State, block: BlockId, access: Access, index: usize) -> Result<Plan, ScheduleError> {
    let buffer = access.regions(state.func.block(block))[index].buffer;
    let scope = require_scope(state, block, true)?;
    let indices = the_indices(state, block, buffer)?;
    let node = state.func.block(block);
    let iters = node.iters.clone();
    let reads_and_writes = |r: &BufferRegion| r.buffer == buffer;
    if node.reads.iter().any(reads_and_writes) && node.writes.iter().any(reads_and_writes) {
        let buffer = state.func.arena.buffer(buffer).name;
        return Err(state.error(ErrorKind::CachedBufferIsRead { buffer }, block));
    }
    let mut analyzer = Analyzer::new();
    let a = &mut state.func.arena;
    for i in &iters {
        analyzer.bind(a, i.var, i.min, i.extent);
    }
    let simplified = |a: &mut crate::ir::Arena, e: ExprId, analyzer: &mut Analyzer| {
        let simple = analyzer.simplify(a, e);
        // A variable of one value stays, so that the copy has its dimension.
        if a.as_int(simple).is_some() { e } else { simple }
    };
    let indices: SmallVec<[ExprId; 4]> = indices.into_iter().map(|e| simplified(a, e, &mut analyzer)).collect();
    let is_used = |i: &BlockIter| indices.iter().any(|&e| uses_var(a, e, &mut |v| v == i.var));
    let iters: Vec<BlockIter> = iters.iter().filter(|i| is_used(i)).copied().collect();

    let nest = require_nest(state, block, scope)?;
    let plan = Plan { block, scope, nest, access, buffer, indices, iters };
    require_in_bounds(state, block, buffer, &plan.indices)?;
    plan.require_alone(state)?;
    if access == Access::Write {
        plan.require_all_written(state)?;
    }
    Ok(plan)
}

/// The statement of the scope that holds the block: loops with nothing beside the next inner one, except for the
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

impl Plan {
    /// Nothing else in the nest may store what is copied before, or access what is copied behind it.
    fn require_alone(&self, state: &State) -> Result<(), ScheduleError> {
        let func = &state.func;
        let disturbs = touches(func, self.nest, self.buffer)
            .into_iter()
            .find(|t| (t.stores || self.access == Access::Write) && !func.contains(self.block.stmt(), t.stmt));
        match disturbs {
            Some(touch) => Err(out_of_order(state, touch.stmt, self.buffer)),
            None => Ok(()),
        }
    }

    /// What is copied back must have been written, if the buffer can hold anything else.
    fn require_all_written(&self, state: &mut State) -> Result<(), ScheduleError> {
        let func = &state.func;
        let is_local = func.block(self.scope).allocs.contains(&self.buffer);
        if is_local && Scope::of(func, self.scope).writers(func, self.buffer).len() == 1 {
            return Ok(());
        }
        let loops = func.loops_above(self.block.stmt());
        let domains: SmallVec<[VarRange; 8]> = loops.into_iter().map(|l| domain(func, l)).collect();
        let predicate = func.block(self.block).predicate;
        let a = &mut state.func.arena;
        let one = |a: &mut crate::ir::Arena, e: ExprId| (e, a.int(1, a.dtype(e)));
        let values: SmallVec<[(ExprId, ExprId); 4]> = self.iters.iter().map(|i| one(a, i.value)).collect();
        let runs_all = strict_bound(a, &values, &domains, predicate)
            .is_some_and(|sets| sets.iter().zip(&self.iters).all(|(set, i)| set.match_range(a, i.min, i.extent)));
        if runs_all && fills_its_region(&mut state.func, self.block, self.buffer) {
            return Ok(());
        }
        let (block, buffer) = (state.func.block(self.block).name, state.func.arena.buffer(self.buffer).name);
        Err(state.error(ErrorKind::UncoveredCopy { block, buffer }, self.block))
    }
}

fn apply(state: &mut State, plan: Plan) -> BlockId {
    let Plan { block, scope, nest, access, buffer, indices, iters } = plan;
    let func = &mut state.func;
    let a = &mut func.arena;
    let mut new = a.buffer(buffer).clone();
    new.name = new.name.with_suffix("_reindex");
    let shape: SmallVec<[ExprId; 4]> = iters.iter().map(|i| a.add(i.min, i.extent)).collect();
    let shape = a.new_list(&shape);
    new = new.with_shape(a, shape);
    new.strides = None;
    let new = a.new_buffer(new);
    let at: SmallVec<[ExprId; 4]> = iters.iter().map(|i| a.var_expr(i.var)).collect();
    redirect_to(func, block, buffer, new, &at);
    let (copy, stage) = copy_nest(func, access, (buffer, &indices), new, &iters);
    let position = body(func, scope.stmt()).iter().position(|&s| s == nest).expect("the nest stands in the scope");
    let position = if access == Access::Write { position + 1 } else { position };
    Site { parent: scope.stmt(), position }.insert(func, stage);
    func.block_mut(scope).allocs.push(new);
    set_copy_info(state, copy);
    copy
}

/// The nest that copies between the buffer, at `indices` over the block's iteration variables, and the new one.
fn copy_nest(
    func: &mut Func,
    access: Access,
    (buffer, indices): (BufferId, &[ExprId]),
    new: BufferId,
    iters: &[BlockIter],
) -> (BlockId, StmtId) {
    let a = &mut func.arena;
    let mut renamed = Substitution::default();
    let mut loops: SmallVec<[(VarId, ExprId); 4]> = SmallVec::new();
    let mut copies: Vec<BlockIter> = Vec::with_capacity(iters.len());
    let mut plain: SmallVec<[ExprId; 4]> = SmallVec::new();
    for (n, iter) in iters.iter().enumerate() {
        let dtype = a.var(iter.var).dtype;
        let (var, v) = a.new_var_expr(format!("v{n}").as_str(), dtype);
        let (loop_var, at) = a.new_var_expr(format!("ax{n}").as_str(), dtype);
        renamed.add_var(iter.var, v);
        loops.push((loop_var, iter.extent));
        let value = a.add(iter.min, at);
        copies.push(BlockIter { var, value, kind: IterKind::Spatial, ..*iter });
        plain.push(v);
    }
    let mapped: SmallVec<[ExprId; 4]> = indices.iter().map(|&e| renamed.apply(a, e)).collect();
    let ((from, read_at), (to, write_at)) = match access {
        Access::Read => ((buffer, mapped), (new, plain)),
        Access::Write => ((new, plain), (buffer, mapped)),
    };
    let value = a.load(from, &read_at);
    let (read_at, indices) = (a.new_list(&read_at), a.new_list(&write_at));
    let reads = vec![BufferRegion::point(a, from, read_at)];
    let writes = vec![BufferRegion::point(a, to, indices)];
    let (name, always) = (a.buffer(to).name.with_suffix("_reindex"), a.bool(true));
    let store = func.add(Stmt::Store { buffer: to, indices, value });
    let body = Body::from_slice(&[store]);
    let block = func.add_block(Block { iters: copies, reads, writes, body, ..Block::new(name, always) });
    let mut nest = block.stmt();
    for &(var, extent) in loops.iter().rev() {
        nest = func.make_loop(var, extent, Body::from_slice(&[nest])).stmt();
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
        refuse(&CONV.replace("vi + vk]", "vi + vk * 4]"), reindex("read", 0), "CopyOutOfBoundsError");
        let guarded = CONV.replace(
            "vi, vk = T.axis.remap(\"SR\", [i, k])",
            "vi, vk = T.axis.remap(\"SR\", [i, k])\n            T.where(i < 7)",
        );
        refuse(&guarded, reindex("write", 0), "UncoveredCopyError");
        let updates = CONV.replace("            with T.init():\n                B[7 - vi] = T.float32(0)\n", "");
        refuse(&updates, reindex("write", 0), "CachedBufferIsReadError");
    }
}
