//! Predicts the code of a store and the loops around it: the loop that becomes vector lanes, the results that stay in
//! registers over a reduction, and the cost of an iteration of the innermost loops.
//!
//! ```text
//! for i0: for j0: for k0:              # outside
//!   for k1:                            # the reductions around the tile
//!     for i1 in rows: for j1 in vector # the tile: rows x vectors sums in registers
//! ```
//!
//! Reductions are arranged by the same plan as in the code generator ([`TilePlan`]); other loops follow
//! `codegen/opt/vectorize.rs`. A wrong prediction makes an estimate worse, but never a result wrong.

use super::CodeModel;
use super::leaf::{Leaf, Piece};
use super::ops::Ops;
use crate::ir::DType;
use crate::ir::stmt::LoopKind;
use crate::machine::Core;
use crate::machine::register_tile::{Accumulation, NestLevel, Operand, TilePlan};
use smallvec::SmallVec;

/// The predicted code of a store.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Kernel {
    /// The kind of loop whose iterations fill the lanes.
    pub lanes_by: LanesBy,
    /// Lanes of a vector register for its type.
    pub lanes: f64,
    /// Share of the lanes that are used.
    pub filled: f64,
    /// Rows of the tile.
    pub rows: f64,
    /// Vectors in a row.
    pub vectors: f64,
    /// Iterations of the reductions around the tile.
    pub trips: f64,
    /// Number of tiles, each with its reduction.
    pub tiles: f64,
    /// Total number of arithmetic instructions.
    pub computing: f64,
    /// Total number of loads.
    pub loads: f64,
    /// Total number of stores.
    pub stores: f64,
    /// Total number of iterations of innermost loops.
    pub iterations: f64,
    /// Total number of cycles, without waiting for memory.
    pub cycles: f64,
    /// Lower bound of the cycles: the arithmetic instructions, if all are vector instructions.
    pub least_cycles: f64,
}

/// The kind of loop that becomes vector lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LanesBy {
    /// None: elements are computed one after the other.
    #[default]
    Scalar,
    /// A spatial loop.
    Space,
    /// The reduction, in partial sums.
    Reduction,
}

/// Cycles of a loop iteration for counting and branching.
const LOOP: f64 = 1.0;
/// Cycles to start a tile: addresses, enclosing loops, and calling a region.
const TILE: f64 = 6.0;
/// Number of partial sums of a reduction that fills lanes.
const PARTIAL: f64 = 4.0;

impl Kernel {
    /// The prediction for a store, and the order of its loops.
    pub(crate) fn of(leaf: &Leaf, machine: &CodeModel) -> (Kernel, Vec<Piece>) {
        let widest = leaf.accesses.iter().max_by_key(|a| machine.core.vectors.lane_bytes(a.dtype));
        let lanes = widest.map_or(1, |a| machine.core.lanes(a.dtype)) as f64;
        let reduces = leaf.updates && leaf.accesses[0].strides.contains(&0);
        let mut loops = leaf.pieces();
        let mut kernel = match reduces {
            true => reduction(leaf, machine, &mut loops),
            false if leaf.accesses.len() == 1 && leaf.ops == Ops::default() => fill(leaf, lanes),
            false => spatial(leaf, lanes),
        };
        kernel.lanes = lanes;
        let slow = leaf.ops.slow_cycles * Core::VECTOR_PORTS;
        kernel.least_cycles =
            leaf.executed * leaf.useful * (leaf.ops.instructions() + slow) / lanes / Core::VECTOR_PORTS;
        (kernel, loops)
    }

    /// Sums in registers.
    pub(crate) fn sums(&self) -> f64 {
        self.rows * self.vectors
    }
}

/// Predicts a store of a constant. It is usually the start of a reduction, which the code generator keeps in registers,
/// or a loop that it arranges freely.
fn fill(leaf: &Leaf, lanes: f64) -> Kernel {
    let along = leaf.levels.iter().zip(&leaf.accesses[0].strides).rfind(|(_, s)| **s == 1);
    let extent = along.map_or(1.0, |(l, _)| l.extent as f64);
    let vectors = (extent / lanes).ceil();
    let n = leaf.executed / extent * vectors;
    Kernel {
        lanes_by: LanesBy::Space,
        filled: extent / (vectors * lanes),
        rows: 1.0,
        vectors: 1.0,
        trips: 1.0,
        tiles: n,
        stores: n,
        iterations: n,
        cycles: n / Core::STORE_PORTS,
        ..Kernel::default()
    }
}

/// Predicts a store without reduction: element by element, or vectors along a loop that is contiguous in all accesses.
fn spatial(leaf: &Leaf, lanes: f64) -> Kernel {
    let serves = |i: usize| {
        leaf.accesses.iter().all(|a| match a.strides[i] {
            1 => true,
            0 => !a.is_store,
            _ => false,
        })
    };
    let innermost = leaf.levels.len().checked_sub(1);
    let marked = leaf.levels.iter().rposition(|l| l.kind == LoopKind::Vectorized);
    let vector = marked.or(innermost).filter(|&i| leaf.accesses[0].strides[i] == 1 && (serves(i) || marked.is_some()));
    let (ops, loads) = (leaf.ops, leaf.accesses.len() as f64 - 1.0 + f64::from(u8::from(leaf.updates)));
    let n = leaf.executed;
    let Some(v) = vector else {
        let computing = n * (ops.instructions() + ops.slow);
        let cycles = n
            * ((ops.instructions() / Core::SCALAR_PORTS).max(loads / Core::LOAD_PORTS).max(1.0)
                + ops.slow_cycles
                + LOOP);
        let (loads, stores) = (n * loads, n);
        let one = Kernel { filled: 1.0 / lanes, rows: 1.0, vectors: 1.0, trips: 1.0, ..Kernel::default() };
        return Kernel { tiles: n, computing, loads, stores, iterations: n, cycles, ..one };
    };
    let extent = leaf.levels[v].extent as f64;
    let vectors = (extent / lanes).ceil();
    let filled = extent / (vectors * lanes);
    let n = n / extent * vectors;
    // A load that is not contiguous along the lanes is assembled from single elements.
    let gathers = leaf.accesses.iter().filter(|a| !matches!(a.strides[v], 0 | 1)).count() as f64;
    let loads = loads + gathers * lanes;
    let per = ((ops.instructions() + gathers * lanes) / Core::VECTOR_PORTS)
        .max(loads / Core::LOAD_PORTS)
        .max(1.0 / Core::STORE_PORTS);
    let rows = vectors.min(4.0);
    let cycles = n * (per + ops.slow_cycles + LOOP / rows) + n / vectors * LOOP;
    Kernel {
        lanes_by: LanesBy::Space,
        filled,
        rows: 1.0,
        vectors: rows,
        trips: 1.0,
        tiles: n / vectors,
        computing: n * (ops.instructions() + ops.slow),
        loads: n * loads,
        stores: n,
        iterations: n / rows,
        cycles,
        ..Kernel::default()
    }
}

/// Predicts a step of a reduction: the part of its results that stays in registers. Its loops are arranged as in the
/// code generator.
fn reduction(leaf: &Leaf, machine: &CodeModel, loops: &mut Vec<Piece>) -> Kernel {
    let levels = &leaf.levels;
    let store = &leaf.accesses[0];
    let operands = &leaf.accesses[1..];
    // The code generator arranges the loops inside a parallel loop.
    let outside = levels.iter().rposition(|l| l.kind == LoopKind::Parallel).map_or(0, |i| i + 1);
    let is_reduction = |i: usize| store.strides[i] == 0;
    let lanes = machine.core.lanes(store.dtype);
    let last = (0..levels.len()).rev().find(|&i| is_reduction(i)).unwrap_or(0);
    // Rows are not taken from the outer loop of an uneven split.
    let nest: SmallVec<[NestLevel; 16]> = (outside..levels.len())
        .map(|i| {
            let is_whole = is_reduction(i) || !levels[i].is_uneven;
            NestLevel { extent: is_whole.then_some(levels[i].extent), stride: store.strides[i] }
        })
        .collect();
    let sources: SmallVec<[Operand<'_>; 4]> =
        operands.iter().map(|a| Operand { strides: &a.strides[outside..], bytes: a.bytes as i64 }).collect();
    let reassociates = machine.reassociates || !store.dtype.is_float();
    let ops = leaf.ops;
    let adds_product = ops.float == 2.0 && ops.fused == 1.0 && ops.int + ops.slow + ops.selects == 0.0;
    let is_float = matches!(store.dtype, DType::Float32 | DType::Float64);
    let fuses = machine.reassociates && is_float && adds_product;
    let accumulation = Accumulation { levels: &nest, operands: &sources, lanes, reassociates, fuses };
    if last < outside {
        return spatial(leaf, lanes as f64);
    }
    let plan = TilePlan::new(&accumulation, &machine.core.vectors);
    let vector = plan.vector.map(|v| v + outside);
    if vector.is_none() && accumulation.sums_along(last - outside) && levels[last].extent >= 2 * lanes {
        return partial_sums(leaf, last, lanes as f64);
    }
    *loops = arranged(leaf, &plan, outside);
    let lanes = lanes as f64;
    let parts = vector.map_or(1.0, |v| (levels[v].extent as f64 / lanes).ceil());
    let trips: f64 = plan.reductions.iter().map(|&i| levels[i + outside].extent as f64).product();
    let rows: SmallVec<[usize; 8]> =
        plan.tile.iter().map(|t| t.level + outside).filter(|&i| Some(i) != vector).collect();
    let (n_rows, n_vectors) = (plan.n_rows as f64, plan.n_vectors as f64);
    let width = vector.map_or(1.0, |v| (levels[v].extent as f64).min(lanes));
    let extent = vector.map_or(1.0, |v| levels[v].extent as f64);
    let filled = if vector.is_some() { extent / (parts * lanes) } else { 1.0 / lanes };
    // The number of vectors, or single elements, that are summed.
    let sums = leaf.executed / extent * parts;
    let tiles = sums / (n_rows * n_vectors * trips);
    let ports = if vector.is_some() { Core::VECTOR_PORTS } else { Core::SCALAR_PORTS };
    let per_sum = ops.instructions() / ports + ops.slow_cycles;
    let loads: f64 = operands
        .iter()
        .map(|a| {
            let by_row = if rows.iter().any(|&r| a.strides[r] != 0) { n_rows } else { 1.0 };
            let by_lane = match vector.map(|v| a.strides[v]) {
                None | Some(0) => 1.0,
                Some(1) => n_vectors,
                // Single elements, assembled to a vector.
                Some(_) => n_vectors * width,
            };
            by_row * by_lane
        })
        .sum();
    let n = n_rows * n_vectors;
    let per_trip = (n * per_sum).max(loads / Core::LOAD_PORTS).max(Core::LATENCY);
    // The tile is loaded and stored before and after its reduction.
    let ends = TILE + n * (1.0 / Core::LOAD_PORTS + 1.0 / Core::STORE_PORTS);
    let cycles = tiles * (trips * (per_trip + LOOP / 2.0) + ends);
    Kernel {
        lanes_by: if vector.is_some() { LanesBy::Space } else { LanesBy::Scalar },
        filled,
        rows: n_rows,
        vectors: n_vectors,
        trips,
        tiles,
        computing: sums * (ops.instructions() + ops.slow),
        loads: tiles * (trips * loads + n),
        stores: tiles * n,
        iterations: tiles * trips,
        cycles,
        ..Kernel::default()
    }
}

/// The outer loops, the reductions directly around the tile, and the tile.
fn arranged(leaf: &Leaf, plan: &TilePlan, outside: usize) -> Vec<Piece> {
    let levels = &leaf.levels;
    let tile = plan.tile.iter().map(|t| part(t.level + outside, t.size as f64, leaf));
    let mut loops: Vec<Piece> = (0..outside).map(|i| Piece::whole(i, levels)).collect();
    for i in plan.outer.iter().map(|i| i + outside) {
        let inner = plan.tile.iter().find(|t| t.level + outside == i);
        let (size, share) = inner.map_or((1.0, 0.0), |t| (t.size as f64, part(i, t.size as f64, leaf).share));
        let extent = (levels[i].extent as f64 / size).ceil();
        if extent > 1.0 {
            loops.push(Piece { level: i, extent, share: 1.0 - share });
        }
    }
    loops.extend(plan.reductions.iter().map(|i| Piece::whole(i + outside, levels)));
    loops.extend(tile);
    loops
}

/// The inner `size` iterations of a level.
fn part(level: usize, size: f64, leaf: &Leaf) -> Piece {
    let all = leaf.levels[level].extent as f64;
    Piece { level, extent: size, share: if all > 1.0 { (size - 1.0) / (all - 1.0) } else { 1.0 } }
}

/// Predicts a reduction over contiguous elements: its lanes are partial sums, which are combined at the end.
fn partial_sums(leaf: &Leaf, last: usize, lanes: f64) -> Kernel {
    let extent = leaf.levels[last].extent as f64;
    let vectors = (extent / lanes).floor().clamp(1.0, PARTIAL);
    let steps = (extent / lanes).ceil();
    let tiles = leaf.executed / extent;
    let loads = leaf.accesses.len() as f64 - 1.0;
    let per = (leaf.ops.instructions() / Core::VECTOR_PORTS).max(loads / Core::LOAD_PORTS).max(Core::LATENCY / vectors);
    let around = TILE + 3.0 * (1.0 + lanes.log2() + vectors.log2());
    Kernel {
        lanes_by: LanesBy::Reduction,
        filled: extent / (steps * lanes),
        rows: 1.0,
        vectors,
        trips: steps / vectors,
        tiles,
        computing: tiles * steps * (leaf.ops.instructions() + leaf.ops.slow),
        loads: tiles * steps * loads,
        stores: tiles,
        iterations: tiles * steps / vectors,
        cycles: tiles * (steps * (per + leaf.ops.slow_cycles + LOOP / vectors) + around),
        ..Kernel::default()
    }
}
