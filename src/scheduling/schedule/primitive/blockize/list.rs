//! Wraps several adjacent blocks into one block.

use super::super::super::analysis::tree::{common_ancestor, require_scope};
use super::super::super::analysis::update_scope_info;
use super::super::super::error::{ErrorKind, ScheduleError};
use super::super::super::state::State;
use super::division::{BlockizePlan, divide};
use super::{make_inner, outer_iters};
use crate::arith::{IntSet, int_set};
use crate::ir::{Block, BlockId, Body, BufferId, BufferRegion, ExprId, Func, IterKind, StmtId};
use smallvec::SmallVec;

/// The result of the checks for several blocks.
pub(super) struct BlocksPlan {
    pub parts: Vec<BlockizePlan>,
    /// The common parent loop or block.
    pub at: StmtId,
    /// The statements below it that contain them.
    pub subtrees: Vec<StmtId>,
}

pub(super) fn check_blocks(
    state: &mut State,
    blocks: &[BlockId],
    preserve_unit_iters: bool,
) -> Result<BlocksPlan, ScheduleError> {
    let stmts: Vec<StmtId> = blocks.iter().map(|b| b.stmt()).collect();
    let at = common_ancestor(&state.func, &stmts).expect("there is a first block");
    let refuse = |state: &State, problem: &'static str, b: BlockId| {
        Err(state.error(ErrorKind::BlocksNotConsecutive { problem }, b))
    };
    if stmts.contains(&at) {
        return refuse(state, "one of the blocks holds the others", blocks[0]);
    }
    let scope = require_scope(state, blocks[0], false)?;
    let mut parts: Vec<BlockizePlan> = Vec::new();
    let mut subtrees: Vec<StmtId> = Vec::new();
    for &block in blocks {
        if require_scope(state, block, false)? != scope {
            return refuse(state, "the blocks are in different scopes", block);
        }
        let loops = state.func.loops_above(block.stmt());
        let first = loops.iter().position(|l| l.stmt() == at).map_or(0, |i| i + 1);
        let top = loops.get(first).map_or(block.stmt(), |l| l.stmt());
        let alone = top == block.stmt() || state.func.child_blocks(top)[..] == [block];
        if !alone || state.func.parent(top) != Some(at) {
            return refuse(state, "another statement stands in its loops", block);
        }
        if subtrees.contains(&top) {
            return refuse(state, "a block is named twice", block);
        }
        parts.push(divide(state, block, &loops, first, preserve_unit_iters)?);
        subtrees.push(top);
    }
    let positions: Vec<usize> = subtrees.iter().filter_map(|&s| state.func.place(s).map(|p| p.position)).collect();
    if positions.windows(2).any(|pair| pair[1] != pair[0] + 1) {
        return refuse(state, "the blocks do not follow each other directly, in the order given", blocks[0]);
    }
    let (head, rest) = parts.split_first().expect("there is a first block");
    for part in rest {
        let same = part.divisions.len() == head.divisions.len()
            && part
                .divisions
                .iter()
                .zip(&head.divisions)
                .all(|(a, b)| (a.outer, a.outer_extent) == (b.outer, b.outer_extent));
        if !same {
            return refuse(state, "their outer bindings differ", part.block);
        }
    }
    let func = &state.func;
    let reduces = |p: &BlockizePlan| {
        let iters = func.block(p.block).iters.iter().zip(&p.divisions);
        func.block(p.block).init.is_some()
            && iters.into_iter().any(|(i, d)| i.kind == IterKind::Reduce && !func.arena.is_int(d.outer_extent, 1))
    };
    if let Some(p) = parts.iter().find(|p| reduces(p)) {
        return refuse(state, "an outer loop is a reduction loop", p.block);
    }
    Ok(BlocksPlan { parts, at, subtrees })
}

pub(super) fn apply_blocks(state: &mut State, plan: BlocksPlan) -> BlockId {
    let BlocksPlan { parts, at, subtrees } = plan;
    let func = &mut state.func;
    let iters = outer_iters(func, &parts[0]);
    let mut name = "outer_".to_string();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for part in &parts {
        let inner = make_inner(func, part, &iters);
        func.set_init(part.block, inner.init);
        name += &format!("{}_", func.block(part.block).name);
        reads.extend(inner.reads);
        writes.extend(inner.writes);
    }
    let (reads, writes) = (united(func, &reads), united(func, &writes));
    let scope = func.block_above(subtrees[0]).expect("the blocks stand in a block");
    let place = func.place(subtrees[0]).expect("the blocks stand in the tree");
    for &s in &subtrees {
        func.cut(s);
    }
    let outer = func.add_block(Block {
        iters,
        reads,
        writes,
        body: Body::from_slice(&subtrees),
        ..Block::new(name.as_str(), parts[parts.len() - 1].outer_predicate)
    });
    func.insert_at(place, &[outer.stmt()]);
    debug_assert_eq!(place.parent, at, "the blocks stand directly below their common ancestor");
    update_scope_info(state, scope);
    outer
}

/// One region per buffer, which contains all of its regions, in order of appearance.
fn united(func: &mut Func, regions: &[BufferRegion]) -> Vec<BufferRegion> {
    let arena = &mut func.arena;
    let mut found: Vec<(BufferId, Vec<Vec<IntSet>>)> = Vec::new();
    for r in regions {
        let ranges: SmallVec<[(ExprId, ExprId); 4]> = r.ranges(arena).collect();
        let sets = ranges.into_iter().map(|(min, extent)| IntSet::from_range(arena, min, extent));
        let sets: Vec<IntSet> = sets.collect();
        match found.iter_mut().find(|f| f.0 == r.buffer) {
            None => found.push((r.buffer, sets.into_iter().map(|s| vec![s]).collect())),
            Some((_, dims)) => dims.iter_mut().zip(sets).for_each(|(all, s)| all.push(s)),
        }
    }
    found
        .into_iter()
        .map(|(buffer, dims)| {
            let shape: SmallVec<[ExprId; 4]> = arena.list(arena.buffer(buffer).shape).iter().copied().collect();
            let covers: SmallVec<[(ExprId, ExprId); 4]> = dims
                .iter()
                .zip(shape)
                .map(|(all, extent)| {
                    let zero = arena.int(0, arena.dtype(extent));
                    int_set::union(arena, all).cover_range(arena, (zero, extent))
                })
                .collect();
            BufferRegion::new(arena, buffer, &covers)
        })
        .collect()
}
