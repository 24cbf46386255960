//! What the code generator makes of a store and the loops around it, foreseen: which loop becomes vector lanes, which
//! results stay in registers over a reduction, and what an iteration of the innermost loops costs.
//!
//! ```text
//! for i0: for j0: for k0:              # outside
//!   for k1:                            # the reductions around the tile
//!     for i1 in rows: for j1 in vector # the tile: rows x vectors sums in registers
//! ```
//!
//! Follows `codegen/opt/accumulate.rs` and `vectorize.rs`; where those change, estimates become worse, never wrong.

use super::leaf::{Leaf, Piece};
use super::machine::Machine;
use super::ops::Ops;
use crate::ir::stmt::LoopKind;

/// How a store is carried out.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Kernel {
    /// How lanes are filled.
    pub lanes_by: LanesBy,
    /// Lanes of a vector register for its type.
    pub lanes: f64,
    /// The share of lanes that do something.
    pub filled: f64,
    /// Rows of the tile.
    pub rows: f64,
    /// Vectors in a row.
    pub vectors: f64,
    /// Iterations of the reductions around the tile.
    pub trips: f64,
    /// Tiles, each with its reduction.
    pub tiles: f64,
    /// Instructions that compute, of all.
    pub computing: f64,
    /// Loads, of all.
    pub loads: f64,
    /// Stores, of all.
    pub stores: f64,
    /// Iterations of innermost loops, of all.
    pub iterations: f64,
    /// Cycles of all, without waiting for memory.
    pub cycles: f64,
    /// Cycles at least: the instructions that compute, as vectors.
    pub least_cycles: f64,
}

/// What becomes lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LanesBy {
    /// Nothing: one element after the other.
    #[default]
    Scalar,
    /// A spatial loop.
    Space,
    /// The reduction, in partial sums.
    Reduction,
}

/// Instructions on vectors that start in a cycle.
pub(super) const PORTS: f64 = 2.0;
/// The same, on scalars.
const SCALAR_PORTS: f64 = 3.0;
pub(super) const LOAD_PORTS: f64 = 2.0;
const STORE_PORTS: f64 = 1.0;
/// Cycles until a sum can be added to again.
const LATENCY: f64 = 4.0;
/// Cycles to count and branch.
const LOOP: f64 = 1.0;
/// Cycles to begin with a tile: addresses, loops around, calling a region.
const TILE: f64 = 6.0;
/// Iterations of a reduction that the code generator does not cut further.
const LONG_REDUCTION: f64 = 16.0;
/// Partial sums of a reduction that fills lanes.
const PARTIAL: f64 = 4.0;

impl Kernel {
    /// What is to be expected for a store, and the order that its loops run in.
    pub(crate) fn of(leaf: &Leaf, machine: &Machine) -> (Kernel, Vec<Piece>) {
        let bytes = leaf.accesses.iter().map(|a| a.bytes).fold(0.0, f64::max);
        let lanes = machine.lanes(bytes);
        let reduces = leaf.updates && leaf.accesses[0].strides.contains(&0);
        let mut loops = leaf.pieces();
        let mut kernel = match reduces {
            true => reduction(leaf, machine, lanes, &mut loops),
            false if leaf.accesses.len() == 1 && leaf.ops == Ops::default() => fill(leaf, lanes),
            false => spatial(leaf, lanes),
        };
        kernel.lanes = lanes;
        let slow = leaf.ops.slow_cycles * PORTS;
        kernel.least_cycles = leaf.executed * leaf.useful * (leaf.ops.instructions() + slow) / lanes / PORTS;
        (kernel, loops)
    }

    /// Sums in registers.
    pub(crate) fn sums(&self) -> f64 {
        self.rows * self.vectors
    }
}

/// A store of a constant: the start of a reduction mostly, which the code generator puts into registers, or a loop that it
/// arranges as it likes.
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
        cycles: n / STORE_PORTS,
        ..Kernel::default()
    }
}

/// A store without reduction: element by element, or vectors along a loop that is contiguous in all accesses.
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
        let cycles =
            n * ((ops.instructions() / SCALAR_PORTS).max(loads / LOAD_PORTS).max(1.0) + ops.slow_cycles + LOOP);
        let (loads, stores) = (n * loads, n);
        let one = Kernel { filled: 1.0 / lanes, rows: 1.0, vectors: 1.0, trips: 1.0, ..Kernel::default() };
        return Kernel { tiles: n, computing, loads, stores, iterations: n, cycles, ..one };
    };
    let extent = leaf.levels[v].extent as f64;
    let vectors = (extent / lanes).ceil();
    let filled = extent / (vectors * lanes);
    let n = n / extent * vectors;
    // A load that does not follow the lanes is made of single elements.
    let gathers = leaf.accesses.iter().filter(|a| !matches!(a.strides[v], 0 | 1)).count() as f64;
    let loads = loads + gathers * lanes;
    let per = ((ops.instructions() + gathers * lanes) / PORTS).max(loads / LOAD_PORTS).max(1.0 / STORE_PORTS);
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

/// A step of a reduction: which of its results stay in registers. Its loops are arranged as the code generator will.
fn reduction(leaf: &Leaf, machine: &Machine, lanes: f64, loops: &mut Vec<Piece>) -> Kernel {
    let levels = &leaf.levels;
    let store = &leaf.accesses[0];
    let is_reduction = |i: usize| store.strides[i] == 0;
    let operands = &leaf.accesses[1..];
    let last = (0..levels.len()).rev().find(|&i| is_reduction(i)).unwrap_or(0);
    let serves = |i: usize| operands.iter().all(|a| matches!(a.strides[i], 0 | 1));
    let horizontal = last + 1 == levels.len() && machine.reassociates && serves(last);
    let vector = (0..levels.len()).rev().find(|&i| store.strides[i] == 1);
    let vector = vector.filter(|&v| serves(v) || !(horizontal || v < last));
    if vector.is_none() && horizontal && levels[last].extent as f64 >= 2.0 * lanes {
        return partial_sums(leaf, last, lanes);
    }
    // The loops inside the innermost group of reductions become the tile, as far as it fits.
    let group = (0..=last).rev().find(|&i| i == 0 || !is_reduction(i - 1)).unwrap_or(0);
    let inside = (0..group).rev().find(|&i| is_reduction(i)).unwrap_or(last);
    let parts = vector.map_or(1.0, |v| (levels[v].extent as f64 / lanes).ceil());
    let mut rows: Vec<usize> = (inside + 1..levels.len()).filter(|&i| !is_reduction(i) && Some(i) != vector).collect();
    let counts = row_counts(leaf, &rows, machine);
    let (mut n_rows, vectors) = best_tile(&counts, parts as i64, machine);
    // One row is extended by the loops around.
    if inside == last && last + 1 < levels.len() && vectors == parts as i64 {
        for i in (0..group).rev().take_while(|&i| !is_reduction(i) && Some(i) != vector) {
            let n = levels[i].extent;
            if n_rows * vectors >= 8 || !machine.holds_tile(n_rows.saturating_mul(n), vectors) {
                break;
            }
            n_rows *= n;
            rows.push(i);
        }
    }
    // Reductions further out join where those inside are short.
    let mut trips: f64 = (group..=last).filter(|&i| is_reduction(i)).map(|i| levels[i].extent as f64).product();
    let mut around: Vec<usize> = (0..group).filter(|&i| is_reduction(i)).collect();
    let mut sunk: Vec<usize> = (group..=last).filter(|&i| is_reduction(i)).collect();
    while trips < LONG_REDUCTION
        && let Some(i) = around.pop()
    {
        trips *= levels[i].extent as f64;
        sunk.insert(0, i);
    }
    *loops = arranged(leaf, &sunk, &rows, n_rows, vector.map(|v| (v, vectors as f64 * lanes)));
    let (n_rows, n_vectors) = (n_rows as f64, vectors as f64);
    let width = vector.map_or(1.0, |v| (levels[v].extent as f64).min(lanes));
    let extent = vector.map_or(1.0, |v| levels[v].extent as f64);
    let filled = if vector.is_some() { extent / (parts * lanes) } else { 1.0 / lanes };
    // Vectors, or single elements, that are added up.
    let sums = leaf.executed / extent * parts;
    let tiles = sums / (n_rows * n_vectors * trips);
    let ops = leaf.ops;
    let ports = if vector.is_some() { PORTS } else { SCALAR_PORTS };
    let per_sum = ops.instructions() / ports + ops.slow_cycles;
    let loads: f64 = operands
        .iter()
        .map(|a| {
            let by_row = if rows.iter().any(|&r| a.strides[r] != 0) { n_rows } else { 1.0 };
            let by_lane = match vector.map(|v| a.strides[v]) {
                None | Some(0) => 1.0,
                Some(1) => n_vectors,
                // Single elements, put together.
                Some(_) => n_vectors * width,
            };
            by_row * by_lane
        })
        .sum();
    let n = n_rows * n_vectors;
    let per_trip = (n * per_sum).max(loads / LOAD_PORTS).max(LATENCY);
    // The tile is loaded and stored around its reduction.
    let ends = TILE + n * (1.0 / LOAD_PORTS + 1.0 / STORE_PORTS);
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

/// The loops around, the reductions right around the tile, and the tile: its rows, as far as they are in it, and its
/// vectors.
fn arranged(leaf: &Leaf, sunk: &[usize], rows: &[usize], n_rows: i64, vector: Option<(usize, f64)>) -> Vec<Piece> {
    let levels = &leaf.levels;
    let mut inner: Vec<Piece> = Vec::new();
    let mut left = n_rows;
    for &i in rows.iter().rev() {
        let size = levels[i].extent.min(left);
        if size > 1 {
            inner.push(part(i, size as f64, leaf));
            left /= size;
        }
    }
    inner.reverse();
    if let Some((v, lanes)) = vector {
        inner.push(part(v, lanes.min(levels[v].extent as f64), leaf));
    }
    let mut loops = Vec::with_capacity(levels.len() + inner.len());
    for i in (0..levels.len()).filter(|i| !sunk.contains(i)) {
        let share = inner.iter().find(|p| p.level == i);
        let extent = (levels[i].extent as f64 / share.map_or(1.0, |p| p.extent)).ceil();
        if extent > 1.0 {
            loops.push(Piece { level: i, extent, share: 1.0 - share.map_or(0.0, |p| p.share) });
        }
    }
    loops.extend(sunk.iter().map(|&i| Piece::whole(i, levels)));
    loops.extend(inner);
    loops
}

/// The inner `size` iterations of a level.
fn part(level: usize, size: f64, leaf: &Leaf) -> Piece {
    let all = leaf.levels[level].extent as f64;
    Piece { level, extent: size, share: if all > 1.0 { (size - 1.0) / (all - 1.0) } else { 1.0 } }
}

/// A reduction over contiguous elements: its lanes are partial sums, which are added up at the end.
fn partial_sums(leaf: &Leaf, last: usize, lanes: f64) -> Kernel {
    let extent = leaf.levels[last].extent as f64;
    let vectors = (extent / lanes).floor().clamp(1.0, PARTIAL);
    let steps = (extent / lanes).ceil();
    let tiles = leaf.executed / extent;
    let loads = leaf.accesses.len() as f64 - 1.0;
    let per = (leaf.ops.instructions() / PORTS).max(loads / LOAD_PORTS).max(LATENCY / vectors);
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

/// The numbers of rows that a tile may have: whole inner loops, and divisors of the next.
fn row_counts(leaf: &Leaf, rows: &[usize], machine: &Machine) -> Vec<i64> {
    let mut counts = vec![1];
    let mut inner = 1i64;
    for &i in rows.iter().rev() {
        let n = leaf.levels[i].extent;
        counts.extend((2..=machine.registers / inner).filter(|d| n % d == 0).map(|d| d * inner));
        inner = inner.saturating_mul(n);
        if inner > machine.registers {
            break;
        }
    }
    counts
}

/// The rows and vectors that keep the machine busiest.
fn best_tile(counts: &[i64], parts: i64, machine: &Machine) -> (i64, i64) {
    let mut best = (1, 1);
    let mut best_score = (0.0, 0.0);
    for &rows in counts {
        for vectors in (1..=parts).take_while(|&v| machine.holds_tile(rows, v)) {
            let n = (rows * vectors) as f64;
            let cycles = (n / PORTS).max((rows + vectors) as f64 / LOAD_PORTS).max(LATENCY);
            let rounds = (parts as f64 / vectors as f64).ceil();
            let filled = parts as f64 / (rounds * vectors as f64);
            let score = (n / PORTS / cycles * filled, n / (rows + vectors) as f64);
            if score > best_score {
                (best, best_score) = ((rows, vectors), score);
            }
        }
    }
    best
}
