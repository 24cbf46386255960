//! Caches with another layout, for one block: the common part of `reindex_cache_read` and `reindex_cache_write`.

use super::super::super::analysis::guard::beyond_domains;
use super::super::super::analysis::index_map::{self, IndexMap, Indices};
use super::super::super::arg::{Lambda, RvValue};
use super::super::super::call::{Access, Call};
use super::super::super::error::{ErrorKind, ScheduleError};
use super::super::super::kind::Outcome;
use super::super::super::state::State;
use super::access::{Redirected, redirect_to, require_in_bounds, require_readable, the_indices};
use super::site::Site;
use super::stage::{Way, fill_name, set_copy_info};
use crate::arith::Analyzer;
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, BufferId, BufferRegion, ExprId, Func, IterKind, Loop, LoopId, Stmt, StmtId,
    Substitution, Symbol,
};
use smallvec::SmallVec;

/// The checked layout of a cache.
pub(in super::super) struct Layout {
    /// The block whose accesses are redirected to the cache.
    block: BlockId,
    buffer: BufferId,
    /// The block's indices of the buffer, and its future indices of the cache.
    old: Indices,
    new: Indices,
    /// The iteration variables in both.
    iters: Vec<BlockIter>,
    /// The loops that drive these variables.
    loops: Vec<LoopId>,
    /// The shape of the cache.
    shape: Indices,
    /// The part of the block's predicate that the copy needs.
    predicate: Vec<ExprId>,
    /// For a written buffer, whether the cache is filled first.
    filled: bool,
}

impl Layout {
    /// # Errors
    ///
    /// If the block does not access a single element of the buffer, if the map uses other iteration variables than the
    /// buffer's indices or sends two elements to the same position, or if the loops cannot be copied.
    pub(crate) fn check(
        state: &mut State,
        block: BlockId,
        region: &BufferRegion,
        access: Access,
        map: &Lambda,
    ) -> Result<Layout, ScheduleError> {
        let func = &mut state.func;
        let node = func.stmts.block(block);
        let iters = node.iters.clone();
        let types: SmallVec<[_; 4]> = iters.iter().map(|i| func.arena.var(i.var).dtype).collect();
        let found = index_map::of_lambda(&mut func.arena, map, &types);
        let map = found.map_err(|kind| state.error(kind, block))?;
        let a = &mut state.func.arena;
        let vars: Indices = iters.iter().map(|i| a.var_expr(i.var)).collect();
        let new = map.apply(a, &mut Analyzer::new(), &vars);
        let old: Indices = a.list(region.mins).iter().copied().collect();
        let mut used: Vec<BlockIter> = Vec::new();
        for i in &iters {
            let uses = |list: &Indices| list.iter().any(|&e| uses_var(a, e, &mut |v| v == i.var));
            match (uses(&old), uses(&new)) {
                (true, true) => used.push(*i),
                (false, false) => {}
                _ => {
                    let kind = ErrorKind::ReindexCacheMismatch { iter: a.var(i.var).name };
                    return Err(state.error(kind, block));
                }
            }
        }
        let extents: Indices = iters.iter().map(|i| i.extent).collect();
        index_map::check_fits(&map, a, &extents).map_err(|kind| state.error(kind, block))?;
        let a = &mut state.func.arena;
        let shape = map.map_shape(a, &extents);
        // The variables that the map does not use must not distinguish elements.
        let unit = |i: &BlockIter, a: &mut crate::ir::Arena| match used.iter().any(|u| u.var == i.var) {
            true => i.extent,
            false => a.int(1, a.dtype(i.extent)),
        };
        let told_apart: Indices = iters.iter().map(|i| unit(i, a)).collect();
        let starts_at_0 = used.iter().all(|i| a.is_int(i.min, 0));
        let Some(shape) = shape.filter(|_| starts_at_0 && map.is_injective(a, &told_apart)) else {
            return Err(state.error(ErrorKind::ReindexCacheOverlap, block));
        };
        require_single_point(state, block, region, access)?;
        require_plain_access(state, block, region, &old)?;
        match access {
            Access::Read => require_readable(state, block, region.buffer, &old)?,
            Access::Write => require_in_bounds(state, block, region.buffer, &old)?,
        }
        let loops = copied_loops(state, block, &used)?;
        let (predicate, filled) = (Vec::new(), false);
        Ok(Layout { block, buffer: region.buffer, old, new, iters: used, loops, shape, predicate, filled })
    }

    /// Ensures that the copy at `site` has exactly the instances of the block: if it would have more, it gets the
    /// block's predicate.
    ///
    /// # Errors
    ///
    /// If that depends on loops that the copy does not have.
    pub(crate) fn keep_predicate(&mut self, state: &mut State, site: Site) -> Result<(), ScheduleError> {
        let left = beyond_domains(&mut state.func, self.block, &self.iters);
        let func = &state.func;
        let inner: Vec<LoopId> = func
            .loops_above(self.block.stmt())
            .into_iter()
            .filter(|&l| !is_around(func, l, site) && !self.loops.contains(&l))
            .collect();
        let uses = |e: ExprId, loops: &[LoopId]| {
            uses_var(&func.arena, e, &mut |v| loops.iter().any(|&l| func.loop_(l).var == v))
        };
        let outer = |&l: &LoopId| !inner.contains(&l);
        let others: Vec<LoopId> = func.loops_above(self.block.stmt()).into_iter().filter(outer).collect();
        for e in left {
            match (uses(e, &others), uses(e, &inner)) {
                (true, true) => {
                    let kind = ErrorKind::GuardedBlock { block: func.block(self.block).name };
                    return Err(state.error(kind, self.block));
                }
                (true, false) => self.predicate.push(e),
                // The predicate excludes steps of a reduction, not elements.
                (false, _) => {}
            }
        }
        Ok(())
    }

    /// Requests that the cache is filled before the block runs.
    ///
    /// # Errors
    ///
    /// If several positions of the cache would contain the same element.
    pub(crate) fn require_filled(&mut self, state: &mut State) -> Result<(), ScheduleError> {
        if !are_apart(&mut state.func.arena, &self.iters, &self.old) {
            let buffer = state.func.arena.buffer(self.buffer).name;
            return Err(state.error(ErrorKind::CachedBufferIsRead { buffer }, self.block));
        }
        self.filled = true;
        Ok(())
    }

    /// Makes the cache and the copy; returns the copy block.
    pub(crate) fn apply(self, state: &mut State, scope: BlockId, site: Site, storage: Symbol, way: Way) -> BlockId {
        let Layout { block, buffer, old, new, iters, mut loops, shape, predicate, filled } = self;
        let func = &mut state.func;
        // Loops around the site are also around the copy.
        loops.retain(|&l| !is_around(func, l, site));
        let mut cache = func.arena.buffer(buffer).clone();
        cache.name = cache.name.with_suffix(&format!("_{storage}"));
        cache.scope = storage;
        let shape = func.arena.new_list(&shape);
        cache = cache.with_shape(&mut func.arena, shape);
        cache.strides = None;
        let name = cache.name;
        let cache = func.arena.new_buffer(cache);
        redirect_to(func, block, buffer, (cache, &new), Redirected::All, true);
        let instances = Instances { iters: &iters, loops: &loops, predicate: &predicate };
        let (outside, inside) = ((buffer, &old), (cache, &new));
        let ends = if way == Way::In { (outside, inside) } else { (inside, outside) };
        let (copy, nest) = copy_nest(func, name, ends, &instances);
        site.insert(func, nest);
        let fill = filled.then(|| {
            let (fill, nest) = copy_nest(func, fill_name(name), (outside, inside), &instances);
            site.in_front_of(func, block.stmt()).insert(func, nest);
            fill
        });
        func.block_mut(scope).allocs.push(cache);
        for copy in fill.into_iter().chain([copy]) {
            set_copy_info(state, copy);
        }
        copy
    }
}

/// Whether the indices distinguish all values of the iteration variables.
pub(in super::super) fn are_apart(a: &mut Arena, iters: &[BlockIter], indices: &[ExprId]) -> bool {
    let extents: Indices = iters.iter().map(|i| i.extent).collect();
    let params = iters.iter().map(|i| i.var).collect();
    let map = IndexMap { params, results: SmallVec::from_slice(indices), separators: Vec::new() };
    iters.iter().all(|i| a.is_int(i.min, 0)) && map.is_injective(a, &extents)
}

fn is_around(func: &Func, l: LoopId, site: Site) -> bool {
    l.stmt() == site.parent || func.contains(l.stmt(), site.parent)
}

/// # Errors
///
/// If the region has more than one element, or the block accesses other elements of the buffer.
fn require_plain_access(
    state: &State,
    block: BlockId,
    region: &BufferRegion,
    old: &Indices,
) -> Result<(), ScheduleError> {
    if the_indices(state, block, region.buffer)? == *old {
        return Ok(());
    }
    let how = "elsewhere than it states";
    let buffer = state.func.arena.buffer(region.buffer).name;
    Err(state.error(ErrorKind::InvalidBufferAccess { buffer, how }, block))
}

/// The loops to which the iteration variables are bound.
///
/// # Errors
///
/// If their extents depend on other loops.
fn copied_loops(state: &State, block: BlockId, iters: &[BlockIter]) -> Result<Vec<LoopId>, ScheduleError> {
    let func = &state.func;
    let around = func.loops_above(block.stmt());
    let uses = |e: ExprId, l: LoopId| {
        let var = func.loop_(l).var;
        uses_var(&func.arena, e, &mut |v| v == var)
    };
    let (loops, others): (Vec<LoopId>, Vec<LoopId>) =
        around.into_iter().partition(|&l| iters.iter().any(|i| uses(i.value, l)));
    let depends = |&l: &LoopId| others.iter().any(|&o| uses(func.loop_(l).min, o) || uses(func.loop_(l).extent, o));
    if loops.iter().any(depends) {
        return Err(state.error(ErrorKind::GuardedBlock { block: func.block(block).name }, block));
    }
    Ok(loops)
}

type End<'a> = (BufferId, &'a Indices);

/// The instances of a copy, which are those of a block.
struct Instances<'a> {
    iters: &'a [BlockIter],
    loops: &'a [LoopId],
    predicate: &'a [ExprId],
}

fn copy_nest(
    func: &mut Func,
    name: Symbol,
    ((from, read_at), (to, write_at)): (End<'_>, End<'_>),
    &Instances { iters, loops, predicate }: &Instances<'_>,
) -> (BlockId, StmtId) {
    let mut renamed = Substitution::default();
    let mut copies: Vec<Loop> = Vec::with_capacity(loops.len());
    for &l in loops {
        let node = func.loop_(l);
        let (min, extent, old) = (node.min, node.extent, node.var);
        let known = func.arena.var(old).clone();
        let (var, e) = func.arena.new_var_expr(known.name, known.dtype);
        let (min, extent) = (renamed.apply(&mut func.arena, min), renamed.apply(&mut func.arena, extent));
        renamed.add_var(old, e);
        let plain = func.make_loop(var, extent, Body::new());
        copies.push(Loop { min, ..func.loop_(plain).clone() });
    }
    let a = &mut func.arena;
    let mut condition = a.bool(true);
    for &e in predicate {
        let e = renamed.apply(a, e);
        condition = a.and(condition, e);
    }
    let iters: Vec<BlockIter> = iters
        .iter()
        .map(|i| {
            let known = a.var(i.var).clone();
            let (var, e) = a.new_var_expr(known.name, known.dtype);
            let value = renamed.apply(a, i.value);
            renamed.add_var(i.var, e);
            BlockIter { var, value, kind: IterKind::Spatial, ..*i }
        })
        .collect();
    let read_at: Indices = read_at.iter().map(|&e| renamed.apply(a, e)).collect();
    let write_at: Indices = write_at.iter().map(|&e| renamed.apply(a, e)).collect();
    let value = a.load(from, &read_at);
    let (read_at, indices) = (a.new_list(&read_at), a.new_list(&write_at));
    let reads = vec![BufferRegion::point(a, from, read_at)];
    let writes = vec![BufferRegion::point(a, to, indices)];
    let store = func.add(Stmt::Store { buffer: to, indices, value });
    let body = Body::from_slice(&[store]);
    let block = func.add_block(Block { iters, reads, writes, body, ..Block::new(name, condition) });
    let mut nest = block.stmt();
    for node in copies.into_iter().rev() {
        nest = func.add_loop(Loop { body: Body::from_slice(&[nest]), ..node }).stmt();
    }
    (block, nest)
}

/// # Errors
///
/// If the block accesses more than one element.
pub(in super::super) fn require_single_point(
    state: &State,
    block: BlockId,
    region: &BufferRegion,
    access: Access,
) -> Result<(), ScheduleError> {
    let a = &state.func.arena;
    if region.ranges(a).all(|(_, extent)| a.is_int(extent, 1)) {
        return Ok(());
    }
    let kind = ErrorKind::NotSinglePointAccess { buffer: a.buffer(region.buffer).name, access: access.verb() };
    Err(state.error(kind, block))
}

/// The scope, the position of the copy, and the layout.
pub(in super::super) type Planned = (BlockId, Site, Layout);

/// Checks that a buffer of a block, as argument 1, can be cached in the scope of argument 2, with the layout of
/// argument 3.
type Check = fn(&mut State, BlockId, usize, Symbol, &Lambda) -> Result<Planned, ScheduleError>;

/// Executes `reindex_cache_read` or `reindex_cache_write`.
pub(in super::super) fn run(
    call: &mut Call<'_>,
    access: Access,
    way: Way,
    check: Check,
) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let index = call.buffer_index(1, func, block, access)?;
    let storage = call.str(2)?;
    let map = call.lambda(3)?;
    let state = call.state(func);
    let (scope, site, layout) = check(state, block, index, storage, &map)?;
    let copy = layout.apply(state, scope, site, storage, way);
    Ok(Outcome { outputs: vec![RvValue::Block(func, copy)], decision: None })
}
