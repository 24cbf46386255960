//! # `read_at`
//!
//! Copies, under a loop, the region of a buffer that the blocks there read.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((32, 8)), C: T.Buffer((32, 8))):
//!     for i_0, i_1, j in T.grid(4, 8, 8):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i_0 * 8 + i_1)
//!             vj = T.axis.spatial(8, j)
//!             C[vi, vj] = A[vi, vj] * 2.0
//!
//! def steps(sch):
//!     i_0, i_1, j = sch.get_loops("C")
//!     sch.read_at(i_0, "C", 0, "shared")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32, 8)), C: T.Buffer((32, 8))):
//!     A_shared = T.sblock_alloc_buffer((32, 8), scope="shared")
//!     for i_0 in range(4):
//!         with T.sblock("A_shared"):
//!             v0 = T.axis.spatial(4, i_0)
//!             T.sblock_attr({"auto_copy": True})
//!             for ax0, ax1 in T.grid(8, 8):
//!                 A_shared[v0 * 8 + ax0, ax1] = A[v0 * 8 + ax0, ax1]
//!         for i_1, j in T.grid(8, 8):
//!             with T.sblock("C"):
//!                 vi = T.axis.spatial(32, i_0 * 8 + i_1)
//!                 vj = T.axis.spatial(8, j)
//!                 C[vi, vj] = A_shared[vi, vj] * T.float32(2.0)
//! ```
//!
//! * Requires: the block is under the loop; nothing there writes the buffer; the region lies inside it.
//! * Errors: `BufferIndexOutOfRangeError`, `InvalidStorageScopeError`, `InternalError`.
//! * Handles: persists: all; created: the copy block, its loops.
//! * Refused, though TVM accepts it: regions beyond the buffer.
//!
//! # Implementation
//!
//! Copies, under a loop, the part of a buffer that the blocks there read, and makes them read the copy.
//!
//! ```text
//! for i_0 in range(4):
//!     for i_1, j in T.grid(8, 32):
//!         with T.block("C"): C[vi, vj] = A[vi, vj]          # vi = i_0 * 8 + i_1
//! # becomes, with sch.read_at(loop=i_0, block=C, read_buffer_index=0, storage_scope="shared")
//! for i_0 in range(4):
//!     with T.block("A_shared"):
//!         T.reads(A[v0 * 8:v0 * 8 + 8, 0:32]); T.writes(A_shared[…])
//!         T.block_attr({"auto_copy": True})
//!         for ax0, ax1 in T.grid(8, 32):
//!             A_shared[v0 * 8 + ax0, ax1] = A[v0 * 8 + ax0, ax1]
//!     for i_1, j in T.grid(8, 32):
//!         with T.block("C"): C[vi, vj] = A_shared[vi, vj]
//! ```
//!
//! The block has one iteration variable for each loop on which the part depends. The copy's buffer has the shape of the
//! whole.
//!
//! Requires: the block is under the loop; nothing under the loop writes the buffer; the part is a box inside the
//! buffer, with bounds linear in the loops. (TVM copies elements outside the buffer.) Preserves: the values that blocks
//! read. Returns: the copy.
//!
//! Handles: persist; created, the copying block and its loops.

use super::super::analysis::affine::domain;
use super::super::analysis::alloc_site::require_storage_scope;
use super::super::analysis::guard::{predicate_follows, with_domains};
use super::super::analysis::region_cover::region_under;
use super::super::analysis::tree::{self, require_scope};
use super::super::analysis::update_scope_info;
use super::super::arg::RvValue;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::cache::output::reads_before_it_writes;
use super::compute_inline::require_no_view;
use crate::arith::Analyzer;
use crate::arith::implication::conjuncts;
use crate::arith::int_set;
use crate::ir::visit::{uses_var, vars_of};
use crate::ir::{
    AttrValue, Block, BlockId, BlockIter, Body, Buffer, BufferId, BufferRegion, CmpOp, ExprId, Func, IterKind, LoopId,
    Stmt, StmtId, Substitution, Symbol, VarId,
};
use smallvec::SmallVec;

/// `read_at(loop, block, read_buffer_index, storage_scope)`.
pub(crate) static READ_AT: Kind = Kind {
    name: "ReadAt",
    method: "read_at",
    classic: None,
    positional: false,
    params: &[
        Param::input("loop", Ty::Loop),
        Param::input("block", Ty::Block),
        Param::attr("read_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
    ],
    outputs: Outputs::Block,
    samples: false,
    run: |call| run(call, Access::Read),
};

/// The result of the checks.
struct CopyPlan {
    target: LoopId,
    scope: BlockId,
    buffer: BufferId,
    storage: Symbol,
    /// The copied part, over the enclosing loops.
    part: Vec<(ExprId, ExprId)>,
    position: usize,
    access: Access,
}

pub(super) fn run(call: &mut Call<'_>, access: Access) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.loop_(0)?;
    let block = call.block_in(1, func)?;
    let index = call.buffer_index(2, func, block, access)?;
    let storage = call.str(3)?;
    require_storage_scope(storage)?;
    let state = call.state(func);
    let buffer = access.regions(state.func.block(block))[index].buffer;
    let plan = check(state, target, block, buffer, storage, access)?;
    let copy = apply(state, plan);
    Ok(Outcome { outputs: vec![RvValue::Block(func, copy)], decision: None })
}

fn check(
    state: &mut State,
    target: LoopId,
    block: BlockId,
    buffer: BufferId,
    storage: Symbol,
    access: Access,
) -> Result<CopyPlan, ScheduleError> {
    let name = state.func.arena.buffer(buffer).name;
    let fail =
        |state: &State, problem: &'static str| Err(state.error(ErrorKind::CopyAt { buffer: name, problem }, target));
    let scope = require_scope(state, target, false)?;
    if !state.func.contains(target.stmt(), block.stmt()) || state.func.block_above(block.stmt()) != Some(scope) {
        return fail(state, "the block is not under the loop, in the same scope");
    }
    require_no_view(state, scope, buffer)?;
    let func = &state.func;
    let list = func.loop_(target).body.clone();
    let touches = |b: BlockId, access: Access| access.regions(func.block(b)).iter().any(|r| r.buffer == buffer);
    let mut users: Vec<BlockId> = Vec::new();
    let mut positions: SmallVec<[usize; 4]> = SmallVec::new();
    for (position, &s) in list.iter().enumerate() {
        let blocks = match func.as_block(s) {
            Some(b) => vec![b],
            None => func.child_blocks(s),
        };
        for b in blocks {
            let problem = match access {
                Access::Read => touches(b, Access::Write).then_some("a block under the loop writes it"),
                // A block that writes the buffer may read elements that its init has set: this is checked below.
                Access::Write => (touches(b, Access::Read) && !touches(b, Access::Write))
                    .then_some("a block under the loop reads it"),
            };
            if let Some(problem) = problem {
                return fail(state, problem);
            }
            if touches(b, access) {
                users.push(b);
                positions.push(position);
            }
        }
    }
    if access == Access::Write && users.iter().any(|&b| reads_before_it_writes(state, b, buffer)) {
        return fail(state, "a block under the loop reads it");
    }
    let mut sets: Vec<Vec<int_set::IntSet>> = Vec::new();
    for &b in &users {
        let sometimes = |state: &mut State| !predicate_follows(&mut state.func, b) || may_be_skipped(state, b, target);
        if access == Access::Write && sometimes(state) {
            return fail(state, "a writer under the loop has a predicate");
        }
        let regions: Vec<BufferRegion> =
            access.regions(state.func.block(b)).iter().filter(|r| r.buffer == buffer).copied().collect();
        for region in regions {
            // Elements that are copied back must have been written: exactly this region, by every writer.
            let exact = access == Access::Write;
            match region_under(&mut state.func, b, target.stmt(), &region, exact) {
                Some(set) => sets.push(set),
                None => return fail(state, "the region written there is not a box without gaps"),
            }
        }
    }
    let a = &mut state.func.arena;
    let shape: SmallVec<[ExprId; 4]> = a.list(a.buffer(buffer).shape).iter().copied().collect();
    let mut part: Vec<(ExprId, ExprId)> = Vec::with_capacity(shape.len());
    for (d, &extent) in shape.iter().enumerate() {
        let dims: SmallVec<[int_set::IntSet; 4]> = sets.iter().map(|s| s[d]).collect();
        let union = int_set::union(a, &dims);
        let zero = a.int(0, a.dtype(extent));
        part.push(union.cover_range(a, (zero, extent)));
        if access == Access::Write && dims.iter().any(|&x| x != dims[0]) {
            return fail(state, "its writers under the loop write different parts");
        }
    }
    let mut analyzer = Analyzer::new();
    for l in tree::loop_path(&state.func, target.stmt(), None, None) {
        let range = domain(&state.func, l);
        analyzer.bind(&mut state.func.arena, range.var, range.min, range.extent);
    }
    let a = &mut state.func.arena;
    for (&(min, extent), &size) in part.iter().zip(&shape) {
        let zero = a.int(0, a.dtype(min));
        let end = a.add(min, extent);
        let (starts, ends) = (a.compare(CmpOp::Ge, min, zero), a.compare(CmpOp::Le, end, size));
        if !analyzer.can_prove(a, starts) || !analyzer.can_prove(a, ends) {
            return fail(state, "the part may exceed the buffer");
        }
    }
    let position = match access {
        Access::Read => positions.first().copied().unwrap_or(0),
        Access::Write => positions.last().map_or(list.len(), |p| p + 1),
    };
    Ok(CopyPlan { target, scope, buffer, storage, part, position, access })
}

/// Whether the block may not run at all in some iteration of the loop and the enclosing ones.
fn may_be_skipped(state: &mut State, block: BlockId, target: LoopId) -> bool {
    let func = &mut state.func;
    let condition = with_domains(func, block);
    let below: SmallVec<[VarId; 4]> = func
        .loops_above(block.stmt())
        .into_iter()
        .filter(|&l| l != target && func.contains(target.stmt(), l.stmt()))
        .map(|l| func.loop_(l).var)
        .collect();
    let a = &func.arena;
    let is_about_others = |e: ExprId| !a.is_int(e, 1) && !uses_var(a, e, &mut |v| below.contains(&v));
    conjuncts(a, condition).into_iter().any(is_about_others)
}

fn apply(state: &mut State, plan: CopyPlan) -> BlockId {
    let CopyPlan { target, scope, buffer, storage, part, position, access } = plan;
    let func = &mut state.func;
    let old = func.arena.buffer(buffer).clone();
    let name = old.name.with_suffix(&format!("_{storage}"));
    let copy = func.arena.new_buffer(Buffer { name, scope: storage, strides: None, elem_offset: None, ..old });
    func.block_mut(scope).allocs.push(copy);
    let list = func.loop_(target).body.clone();
    let mut redirect = Substitution::of_buffers([(buffer, copy)]);
    for &s in &list {
        func.rewrite_subtree(s, &mut redirect);
    }
    let (from, to) = match access {
        Access::Read => (buffer, copy),
        Access::Write => (copy, buffer),
    };
    let block = copy_block(func, target, name, (from, to), &part);
    func.insert(target.stmt(), 0, position, &[block.stmt()]);
    let info = state.info(scope);
    update_scope_info(state, scope);
    state.update_info(scope, |new| new.affine_binding = info.affine_binding);
    block
}

fn copy_block(
    func: &mut Func,
    target: LoopId,
    name: Symbol,
    (from, to): (BufferId, BufferId),
    part: &[(ExprId, ExprId)],
) -> BlockId {
    let loops = tree::loop_path(func, target.stmt(), None, None);
    let mut iters: Vec<BlockIter> = Vec::new();
    let mut by = Substitution::default();
    for &(min, extent) in part {
        let vars: Vec<VarId> = [min, extent].iter().flat_map(|&e| vars_of(&func.arena, e)).collect();
        for v in vars {
            let Some(&l) = loops.iter().find(|&&l| func.loop_(l).var == v) else { continue };
            if by.var(v).is_some() {
                continue;
            }
            let range = domain(func, l);
            let a = &mut func.arena;
            let (var, e) = a.new_var_expr(format!("v{}", iters.len()).as_str(), a.var(v).dtype);
            by.add_var(v, e);
            let value = a.var_expr(v);
            iters.push(BlockIter { var, min: range.min, extent: range.extent, kind: IterKind::Spatial, value });
        }
    }
    let a = &mut func.arena;
    let part: Vec<(ExprId, ExprId)> = part.iter().map(|&(m, e)| (by.apply(a, m), by.apply(a, e))).collect();
    let mut indices: Vec<ExprId> = Vec::new();
    let mut inner: Vec<(VarId, ExprId)> = Vec::new();
    for (d, &(min, extent)) in part.iter().enumerate() {
        let (var, e) = a.new_var_expr(format!("ax{d}").as_str(), a.dtype(min));
        indices.push(a.add(min, e));
        inner.push((var, extent));
    }
    let value = a.load(from, &indices);
    let reads = vec![BufferRegion::new(a, from, &part)];
    let writes = vec![BufferRegion::new(a, to, &part)];
    let indices = a.new_list(&indices);
    let always = a.bool(true);
    let mut body: StmtId = func.add(Stmt::Store { buffer: to, indices, value });
    for &(var, extent) in inner.iter().rev() {
        body = func.make_loop(var, extent, Body::from_slice(&[body])).stmt();
    }
    let mut block = Block { iters, reads, writes, body: Body::from_slice(&[body]), ..Block::new(name, always) };
    block.annotations.insert("auto_copy", AttrValue::Bool(true));
    func.add_block(block)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const COPY: &str = r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i_0, i_1, j in T.grid(2, 4, 6):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(6, j)
            C[vi, vj] = A[vi, vj]
"#;

    #[test]
    fn a_part_is_copied() {
        check(
            COPY,
            |t| t.python("b = sch.get_block('C', 'main')\nsch.read_at(sch.get_loops(b)[0], b, 0, 'shared')"),
            r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    A_shared = T.alloc_buffer((8, 6), scope="shared")
    for i_0 in range(2):
        with T.block("A_shared"):
            v0 = T.axis.spatial(2, i_0)
            T.reads(A[v0 * 4:v0 * 4 + 4, 0:6])
            T.writes(A_shared[v0 * 4:v0 * 4 + 4, 0:6])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(4, 6):
                A_shared[v0 * 4 + ax0, ax1] = A[v0 * 4 + ax0, ax1]
        for i_1, j in T.grid(4, 6):
            with T.block("C"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1)
                vj = T.axis.spatial(6, j)
                C[vi, vj] = A_shared[vi, vj]
"#,
        );
    }

    #[test]
    fn a_part_beyond_the_buffer_is_refused() {
        refuse(
            &COPY.replace("= A[vi, vj]", "= T.if_then_else(vi < 7, A[vi + 1, vj], T.float32(0))"),
            |t| t.python("b = sch.get_block('C', 'main')\nsch.read_at(sch.get_loops(b)[0], b, 0, 'shared')"),
            "InternalError",
        );
    }
}
