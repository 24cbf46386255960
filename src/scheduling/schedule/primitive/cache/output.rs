//! Checks whether a block can write to a cache instead of its buffer, and finds the position of the copy back.

use super::site::{Site, body, out_of_order, require_no_store, touches};
use super::stage::require_only_writer;
use crate::ir::{BlockId, BufferId, BufferRegion, Func, LoopKind, StmtId};
use crate::schedule::analysis::access::{Part, accesses_below, accesses_of};
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::analysis::guard::init_comes_first;
use crate::schedule::error::ScheduleError;
use crate::schedule::state::State;

/// The result of the checks.
pub(in super::super) struct Output {
    /// The position of the copy back.
    pub site: Site,
    /// The statements whose accesses are redirected to the cache: the block, and the consumers.
    pub redirected: Vec<StmtId>,
    /// Whether the block uses old values of the buffer, which the cache must then contain.
    pub reads: bool,
}

/// # Errors
///
/// If another block stores to the buffer, or accesses it before the copy.
pub(in super::super) fn check_output(
    state: &mut State,
    scope: BlockId,
    block: BlockId,
    region: &BufferRegion,
    consumers: &[BlockId],
) -> Result<Output, ScheduleError> {
    let buffer = region.buffer;
    require_only_writer(state, scope, buffer)?;
    require_no_store(state, scope, buffer, &[block])?;
    let reads = reads_before_it_writes(state, block, buffer);
    let func = &state.func;
    let mut readers = Scope::of(func, scope).later_readers(func, block);
    readers.retain(|reader| !consumers.contains(reader));
    let site = match Site::between(func, scope, block, &readers) {
        Some(site) => site,
        None => Site::last(func, scope),
    };
    let redirected: Vec<StmtId> = std::iter::once(block).chain(consumers.iter().copied()).map(|b| b.stmt()).collect();
    require_in_order(state, scope, (block, buffer), site, &redirected)?;
    Ok(Output { site, redirected, reads })
}

/// Whether the block uses old values of the buffer. Elements that its init has set do not count.
pub(in super::super) fn reads_before_it_writes(state: &mut State, block: BlockId, buffer: BufferId) -> bool {
    let func = &mut state.func;
    let stated = func.block(block).reads.iter().find(|r| r.buffer == buffer).copied();
    let of_buffer = |regions: Vec<BufferRegion>| regions.into_iter().find(|r| r.buffer == buffer);
    if func.block(block).init.is_none() {
        let is_read = stated.is_some() || of_buffer(accesses_of(func, block).reads).is_some();
        return is_read && !inner_blocks_write_first(state, block, buffer);
    }
    let set = of_buffer(accesses_below(func, block, Part::Init).writes);
    let loaded = of_buffer(accesses_below(func, block, Part::Body).reads);
    match loaded.or(stated) {
        None => false,
        loaded => loaded != set || !init_comes_first(func, block),
    }
}

/// Whether the inner blocks of a block read only elements of the buffer that an earlier inner block has written.
fn inner_blocks_write_first(state: &mut State, block: BlockId, buffer: BufferId) -> bool {
    let inner = state.func.child_blocks(block.stmt());
    let func = &state.func;
    let is_inside = |s: StmtId| inner.iter().any(|b| func.contains(b.stmt(), s));
    if !touches(func, block.stmt(), buffer).iter().all(|t| is_inside(t.stmt)) {
        return false;
    }
    let mut is_written = false;
    for b in inner {
        let node = state.func.block(b);
        let reads = node.reads.iter().any(|r| r.buffer == buffer);
        let writes = node.writes.iter().any(|r| r.buffer == buffer);
        let is_covered = is_written && state.has_info(b) && state.info(b).region_cover;
        if reads && !is_covered && (!writes || reads_before_it_writes(state, b, buffer)) {
            return false;
        }
        is_written |= writes;
    }
    is_written
}

/// Whether iterations of a loop around the statement may run at the same time.
pub(in super::super) fn runs_in_parallel(func: &Func, s: StmtId) -> bool {
    func.ancestors(s).filter_map(|p| func.as_loop(p)).any(|l| match func.loop_(l).kind {
        LoopKind::Serial | LoopKind::Unrolled => false,
        LoopKind::Parallel | LoopKind::Vectorized | LoopKind::ThreadBinding(_) => true,
    })
}

/// # Errors
///
/// If a block reads the buffer before the copy back, or the cache before it is filled.
fn require_in_order(
    state: &State,
    scope: BlockId,
    (block, buffer): (BlockId, BufferId),
    site: Site,
    redirected: &[StmtId],
) -> Result<(), ScheduleError> {
    let func = &state.func;
    let first = body(func, site.parent).iter().position(|&s| func.contains(s, block.stmt())).unwrap_or(0);
    let waiting = &body(func, site.parent)[first..site.position];
    for touch in touches(func, scope.stmt(), buffer) {
        let by = |s: &StmtId| func.contains(*s, touch.stmt);
        if !redirected.iter().any(by) && waiting.iter().any(by) {
            return Err(out_of_order(state, touch.stmt, buffer));
        }
    }
    let is_covered = |b: BlockId| !state.has_info(b) || state.info(b).region_cover;
    for &s in &redirected[1..] {
        let consumer = func.as_block(s).unwrap_or(block);
        let behind = func.subtree(scope.stmt()).into_iter().skip_while(|&x| x != block.stmt()).any(|x| x == s);
        if !behind || !is_covered(consumer) {
            return Err(out_of_order(state, s, buffer));
        }
    }
    Ok(())
}
