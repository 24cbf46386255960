//! Caches with the layout of a buffer: the common part of `cache_read` and `cache_write`.

use super::super::super::analysis::affine::is_affine_binding;
use super::super::super::analysis::dependence::Scope;
use super::super::super::analysis::guard::bound_around;
use super::super::super::analysis::region_bound::Ranges;
use super::super::super::arg::RvValue;
use super::super::super::call::{Access, Call};
use super::super::super::error::{ErrorKind, ScheduleError};
use super::super::super::kind::Outcome;
use super::super::super::state::{BlockInfo, State};
use super::nest::{CopyBox, copy_nest};
use super::redirect::Redirect;
use super::site::Site;
use crate::arith::Analyzer;
use crate::arith::int_set::{IntSet, intersect};
use crate::ir::{Arena, BlockId, BufferId, CmpOp, DType, ExprId, StmtId, Symbol};

/// Direction of the copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Way {
    /// From the buffer to its cache.
    In,
    /// From the cache to its buffer.
    Out,
}

/// A checked copy.
pub(in super::super) struct Stage {
    /// The block that allocates the cache.
    pub scope: BlockId,
    /// Position of the copy.
    pub site: Site,
    /// The buffer.
    pub buffer: BufferId,
    /// The copied region, over the variables around the site.
    pub ranges: Ranges,
    /// The cache's storage scope.
    pub storage: Symbol,
    /// Direction of the copy.
    pub way: Way,
    /// The statements whose accesses are redirected to the cache.
    pub redirected: Vec<StmtId>,
    /// For a copy out, the block before which the cache is filled, because that block reads it or leaves parts
    /// unwritten.
    pub filled: Option<BlockId>,
}

impl Stage {
    /// Intersects the copied region with the buffer, if the cache has only the size of the region. Otherwise the copy's
    /// iteration variables have the whole buffer as domain, and no instances outside it exist.
    ///
    /// # Errors
    ///
    /// If the intersection is not known.
    pub(crate) fn keep_in_bounds(&mut self, state: &mut State) -> Result<(), ScheduleError> {
        if state.func.as_loop(self.site.parent).is_some() {
            return Ok(());
        }
        let mut analyzer = bound_around(&mut state.func, self.site.parent);
        let a = &mut state.func.arena;
        let shape = a.list(a.buffer(self.buffer).shape).to_vec();
        for (range, dim) in self.ranges.iter_mut().zip(shape) {
            if is_inside(a, &mut analyzer, *range, dim) {
                continue;
            }
            let zero = a.int(0, a.dtype(dim));
            let parts = [IntSet::from_range(a, range.0, range.1), IntSet::from_range(a, zero, dim)];
            *range = intersect(a, &parts).cover_range(a, (zero, dim));
            if !is_inside(a, &mut analyzer, *range, dim) {
                let kind = ErrorKind::CopyOutOfBounds { buffer: a.buffer(self.buffer).name };
                return Err(state.error(kind, self.site.parent));
            }
        }
        Ok(())
    }

    /// Makes the cache and the copy; returns the copy block.
    pub(crate) fn apply(self, state: &mut State) -> BlockId {
        let Stage { scope, site, buffer, ranges, storage, way, redirected, filled } = self;
        let func = &mut state.func;
        // Directly under the scope, the cache has only the size of the box.
        let compact = func.as_block(site.parent).is_some();
        let mut cache = func.arena.buffer(buffer).clone();
        cache.name = cache.name.with_suffix(&format!("_{storage}"));
        cache.scope = storage;
        if compact {
            let extents: Vec<_> = ranges.iter().map(|r| r.1).collect();
            let shape = func.arena.new_list(&extents);
            cache = cache.with_shape(&mut func.arena, shape);
        }
        let name = cache.name;
        let cache = func.arena.new_buffer(cache);
        let offsets = compact.then(|| ranges.iter().map(|r| r.0).collect());
        let mut redirect = Redirect::new(buffer, cache, offsets);
        for s in redirected {
            redirect.subtree(func, s);
        }
        let (from, to) = if way == Way::In { (buffer, cache) } else { (cache, buffer) };
        let (copy, nest) = copy_nest(func, &CopyBox { name, from, to, buffer, ranges: &ranges, compact });
        site.insert(func, nest);
        let fill = filled.map(|block| {
            let name = fill_name(name);
            let fill = CopyBox { name, from: buffer, to: cache, buffer, ranges: &ranges, compact };
            let (fill, nest) = copy_nest(func, &fill);
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

fn is_inside(a: &mut Arena, analyzer: &mut Analyzer, (min, extent): (ExprId, ExprId), dim: ExprId) -> bool {
    let wide = [min, extent, dim].map(|e| a.dtype(e)).into_iter().max_by_key(|t| t.bits());
    let wide = wide.unwrap_or(DType::Int32);
    let (min, extent, dim) = (a.cast(wide, min), a.cast(wide, extent), a.cast(wide, dim));
    let zero = a.int(0, wide);
    let starts = a.compare(CmpOp::Ge, min, zero);
    let end = a.add(min, extent);
    let ends = a.compare(CmpOp::Le, end, dim);
    analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
}

/// The name of the block that fills a cache, given the name of the copy back. It differs from that name: TVM has no
/// such block, and later instructions in traces ask for the copy back by name.
pub(in super::super) fn fill_name(copy: Symbol) -> Symbol {
    copy.with_suffix("_fill")
}

/// Sets the properties of a copy block.
pub(in super::super) fn set_copy_info(state: &mut State, copy: BlockId) {
    let loops = state.func.loops_above(copy.stmt());
    let affine_binding = is_affine_binding(&mut state.func, copy, &loops);
    state.set_info(copy, BlockInfo { affine_binding, region_cover: true, stage_pipeline: true });
}

/// The only block of the scope that writes the buffer, if there is one.
///
/// # Errors
///
/// If there are several.
pub(in super::super) fn require_only_writer(
    state: &State,
    scope: BlockId,
    buffer: BufferId,
) -> Result<Option<BlockId>, ScheduleError> {
    let func = &state.func;
    match Scope::of(func, scope).writers(buffer).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [writer] => Ok(Some(writer)),
        ref writers => {
            let buffer = func.arena.buffer(buffer).name;
            Err(state.error(ErrorKind::NotSingleWriteBlock { buffer, count: writers.len() }, scope))
        }
    }
}

/// Checks that a buffer of a block, as argument 1, can be cached in the scope of argument 2. Argument 3 has the blocks
/// that will read the cache.
type Check = fn(&mut State, BlockId, usize, Symbol, &[BlockId]) -> Result<Stage, ScheduleError>;

/// Executes `cache_read` or `cache_write`.
pub(in super::super) fn run(call: &mut Call<'_>, access: Access, check: Check) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let index = call.buffer_index(1, func, block, access)?;
    let storage = call.str(2)?;
    let consumers = call.blocks_in(3, func)?;
    let state = call.state(func);
    let stage = check(state, block, index, storage, &consumers)?;
    let copy = stage.apply(state);
    Ok(Outcome { outputs: vec![RvValue::Block(func, copy)], decision: None })
}
