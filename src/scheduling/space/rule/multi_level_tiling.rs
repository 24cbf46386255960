//! Tiles the loops of a block that reuses its inputs.
//!
//! *When*: a reduction whose bindings are plain loop variables over constant ranges, and that reads some buffer whose
//! indices do not use all spatial iteration variables: each of its elements serves several outputs. *What*: every loop
//! is split by sampled factors, four ways if spatial, two if a reduction, and the parts are ordered `S0 S1 R0 S2 R1
//! S3`; a write cache may be added and computed at the first or second spatial level. *Why*: with tiles, reuse hits
//! registers and caches; `S3` is the register tile.
//!
//! ```text
//! for i, j, k: C[i, j] += A[i, k] * B[k, j]
//! # becomes
//! for i0, j0, i1, j1, k0, i2, j2, k1, i3, j3: C[…] += …
//! ```
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/multi_level_tiling.cc`.

use super::super::analysis::{const_extent, is_spatial, is_trivial_binding, live_block, read_write_pattern};
use super::super::draft::Draft;
use super::Rule;
use crate::ir::visit::vars_of;
use crate::ir::{AttrValue, BlockId, Func, IterKind};
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct MultiLevelTiling {
    /// Order of the tile levels, one letter each: `S` for spatial, `R` for reduction.
    pub structure: &'static str,
    /// Maximum extent of the innermost tile.
    pub max_innermost_factor: i64,
    /// Levels of spatial tiles at which a write cache may be computed, 1 being the outermost; empty for no write cache.
    pub write_cache_levels: Vec<usize>,
    /// Memory scope of the write cache.
    pub write_cache_scope: &'static str,
}

/// The annotation that marks a block as tiled.
pub(crate) const TILED: &str = "meta_schedule.tiling_structure";

impl MultiLevelTiling {
    /// TVM's default CPU parameters.
    pub(crate) fn tvm() -> Self {
        MultiLevelTiling {
            structure: "SSRSRS",
            max_innermost_factor: 64,
            write_cache_levels: vec![1, 2],
            write_cache_scope: "global",
        }
    }

    fn levels(&self, letter: char) -> Vec<usize> {
        self.structure.char_indices().filter(|&(_, c)| c == letter).map(|(i, _)| i).collect()
    }
}

impl Rule for MultiLevelTiling {
    fn name(&self) -> &'static str {
        "multi_level_tiling"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl MultiLevelTiling {
    fn schedules(&self, mut sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        let Some((index, id)) = live_block(&sch, block) else { return Ok(vec![sch]) };
        let func = sch.func(index);
        let constant = func.loops_above(id.stmt()).into_iter().all(|l| const_extent(func, l).is_some());
        if !constant || !needs_tiling(func, id) {
            return Ok(vec![sch]);
        }
        sch.annotate(block, TILED, self.structure)?;
        let tiles = self.tile(&mut sch, block)?;
        self.add_write_cache(sch, block, &tiles)
    }
}

impl MultiLevelTiling {
    /// Splits and reorders the loops; returns the loops of each level.
    fn tile(&self, sch: &mut Schedule, block: Rv) -> Result<Vec<Vec<Rv>>, ScheduleError> {
        let loops = sch.get_loops(block)?;
        let kinds: Vec<IterKind> = live_block(sch, block)
            .map(|(f, b)| sch.func(f).block(b).iters.iter().map(|i| i.kind).collect())
            .unwrap_or_default();
        let (spatial, reduce) = (self.levels('S'), self.levels('R'));
        let mut tiles = vec![Vec::new(); self.structure.len()];
        for (&l, kind) in loops.iter().zip(kinds) {
            let levels = match kind {
                IterKind::Spatial => &spatial,
                IterKind::Reduce => &reduce,
                IterKind::Scan | IterKind::Opaque => continue,
            };
            if let [only] = levels[..] {
                tiles[only].push(l);
                continue;
            }
            let factors = sch.sample_perfect_tile(l, levels.len() as i64, self.max_innermost_factor)?;
            let parts = sch.split(l, factors.iter().map(Arg::from).collect())?;
            for (&level, part) in levels.iter().zip(parts) {
                tiles[level].push(part);
            }
        }
        sch.reorder(&tiles.concat())?;
        Ok(tiles)
    }

    /// Returns the schedule without a write cache, and with one at each level. A consumer that only copies serves as
    /// the cache.
    fn add_write_cache(&self, mut sch: Schedule, block: Rv, tiles: &[Vec<Rv>]) -> Result<Vec<Schedule>, ScheduleError> {
        if self.write_cache_levels.is_empty() {
            return Ok(vec![sch]);
        }
        let consumers = sch.get_consumers(block)?;
        let mut results = Vec::new();
        let existing = match consumers[..] {
            [one] if live_block(&sch, one).is_some_and(|(f, b)| is_write_cache(sch.func(f), b)) => Some(one),
            _ => None,
        };
        let cache = match existing {
            Some(one) => one,
            None => {
                results.push(sch.clone());
                match sch.cache_write(block, 0, self.write_cache_scope) {
                    Ok(cache) => cache,
                    // A block that cannot be cached is tiled without a cache.
                    Err(_) => return Ok(results),
                }
            }
        };
        for &level in &self.write_cache_levels {
            let spatial = self.levels('S');
            let Some(&innermost) = spatial.get(level - 1).and_then(|&l| tiles[l].last()) else { continue };
            let mut moved = sch.clone();
            moved.reverse_compute_at(cache, innermost, true)?;
            results.push(moved);
        }
        if existing.is_some() {
            results.push(sch);
        }
        Ok(results)
    }
}

/// Whether an element of some buffer read serves several outputs of the block (TVM's `NeedsMultiLevelTiling`).
pub(crate) fn needs_tiling(func: &Func, block: BlockId) -> bool {
    let node = func.block(block);
    let tiled = matches!(node.annotations.get(TILED), Some(AttrValue::Str(_)));
    let [write] = &node.writes[..] else { return false };
    let reads_its_output = node.reads.iter().any(|r| r.buffer == write.buffer);
    if tiled
        || node.reads.is_empty()
        || reads_its_output
        || is_spatial(func, block)
        || !is_trivial_binding(func, block)
        || func.root == block
    {
        return false;
    }
    let arena = &func.arena;
    let spatial: Vec<_> = node
        .iters
        .iter()
        .filter(|i| i.kind == IterKind::Spatial && !(arena.is_int(i.min, 0) && arena.is_int(i.extent, 1)))
        .map(|i| i.var)
        .collect();
    let mut unused = 0;
    for read in &node.reads {
        let mut used = Vec::new();
        for (min, extent) in read.ranges(arena) {
            if arena.as_int(extent).is_none() {
                return false;
            }
            used.extend(vars_of(arena, min));
        }
        unused += spatial.iter().filter(|v| !used.contains(v)).count();
    }
    unused >= 1
}

/// Whether the block only copies elements, each to its own place (TVM's `IsWriteCache`).
fn is_write_cache(func: &Func, block: BlockId) -> bool {
    let node = func.block(block);
    let [write] = &node.writes[..] else { return false };
    node.reads.iter().all(|read| read_write_pattern(func, read, write) == (true, true))
}
