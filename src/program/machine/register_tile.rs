//! Register tiles: the part of an accumulating nest that stays in vector registers while its reduction runs.
//!
//! ```text
//! for i0: for j0:                      # around
//!   for k0: for k1:                    # the reductions right around the tile
//!     for i1 in rows: for j1 in vector # the tile: rows x vectors of sums in registers
//! ```
//!
//! The code generator arranges loops by this [`TilePlan`] (`codegen/opt/accumulate`), and the search predicts
//! candidates with it (`search/features/kernel`).

use super::{Core, VectorUnit};

/// A loop of an accumulating nest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestLevel {
    /// Iterations, if constant.
    pub extent: Option<i64>,
    /// Elements between the results of successive iterations; 0 for a reduction loop.
    pub stride: i64,
}

impl NestLevel {
    fn is_reduction(&self) -> bool {
        self.stride == 0
    }
}

/// An operand of the accumulation, beside the accumulated element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand<'a> {
    /// Element stride of the operand along each level; [`IRREGULAR`] where its index is no sum of counters.
    pub strides: &'a [i64],
    /// Bytes of an element.
    pub bytes: i64,
}

/// The stride of an operand along a loop that changes its index in another way than by a number in each iteration.
pub const IRREGULAR: i64 = i64::MAX;

/// Bytes of the elements that region code can load from any places.
const GATHERED_BYTES: i64 = 4;

/// An accumulating nest: every iteration of its spatial loops updates an element of its own.
#[derive(Clone, Copy, Debug)]
pub struct Accumulation<'a> {
    /// The loops, the outermost first; at least one is a reduction.
    pub levels: &'a [NestLevel],
    /// The operands.
    pub operands: &'a [Operand<'a>],
    /// Lanes of a vector of results.
    pub lanes: i64,
    /// Whether the order of the sums may change.
    pub reassociates: bool,
    /// Whether each step is one multiply-add of loaded elements.
    pub fuses: bool,
}

/// A loop of the tile, or the inner part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileLevel {
    /// Position of the loop in the nest.
    pub level: usize,
    /// Iterations in the tile.
    pub size: i64,
}

/// The arrangement of an accumulating nest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TilePlan {
    /// The loops around the tile's reduction, including the outer parts of split loops.
    pub outer: Vec<usize>,
    /// The reduction loops directly around the tile.
    pub reductions: Vec<usize>,
    /// The tile: rows first, the contiguous loop last.
    pub tile: Vec<TileLevel>,
    /// The loop whose iterations become lanes, the last one of the tile.
    pub vector: Option<usize>,
    /// Rows of the tile.
    pub n_rows: i64,
    /// Vectors of a row.
    pub n_vectors: i64,
}

/// Minimum iterations of the reduction for which loading and storing the tile is cheap: with 4, it took a third of the
/// time on an AVX-512 machine, with 16 the cost could not be measured.
pub const LONG_REDUCTION: i64 = 16;

/// Bytes of operands that stay in any first-level cache: a reduction over at most this many can move inward at no cost.
const CACHED_BYTES: i64 = 24 << 10;

/// Number of independent sums that hide the latency of multiply-add.
const BUSY: i64 = 8;

/// Registers reserved beside a tile for operands that are assembled by permutations.
const PICKING: usize = 6;

/// Registers that a step needs beside the sums and the vectors: one for a moved sum, one for its factor, and one that
/// must stay free: without it Cranelift's register allocator spills several.
const STEP: i64 = 3;

/// Registers that a multiply-add of region code needs beside the sums and the vectors: it updates sums in their places.
const FACTOR: i64 = 1;

/// Maximum stride in elements of operands that are assembled from contiguous vectors by permutations.
pub const MOST_APART: i64 = 4;

/// Vectors in the longest row that is computed by one operation.
pub const ROW: i64 = 4;

impl VectorUnit {
    /// Whether the sums of a tile of `rows` by `vectors` fit the registers together with the vectors that are added to
    /// them. With `fuses`, a step is one multiply-add of loaded elements.
    pub fn holds_tile(&self, rows: i64, vectors: i64, fuses: bool) -> bool {
        let loaded = if rows == 1 { vectors.min(ROW) } else { vectors };
        let beside = if rows > 1 && fuses && self.is_crowded() { FACTOR } else { STEP };
        rows.saturating_mul(vectors).saturating_add(loaded + beside) <= self.registers as i64
    }

    /// Whether region code has so few registers that those which a multiply-add can do without are worth having for
    /// sums: 12 sums instead of 10 in 16 registers.
    fn is_crowded(&self) -> bool {
        self.has_regions() && self.registers <= 16
    }

    /// The fraction of its speed that a tile keeps: with few registers, Cranelift spills one sum, and dependent
    /// operations wait (0.70 instead of 0.84 of the peak for 2 rows of 4 vectors). Multiply-adds of region code do neither.
    pub fn ease_of_tile(&self, rows: i64, vectors: i64, fuses: bool) -> f64 {
        let is_tight = rows > 1 && rows * vectors + vectors + 5 > self.registers as i64;
        if is_tight && !(fuses && self.is_crowded()) { 0.8 } else { 1.0 }
    }

    /// Possible row counts of a tile, given the extents of its row loops, the innermost first: products of whole inner
    /// loops and a divisor of the next one.
    fn row_counts(&self, extents: impl Iterator<Item = Option<i64>>) -> Vec<i64> {
        let fits = self.registers as i64;
        let mut counts = vec![1];
        let mut inner = 1i64;
        for extent in extents {
            let Some(n) = extent else { break };
            counts.extend((2..=fits / inner).filter(|d| n % d == 0).map(|d| d * inner));
            inner = inner.saturating_mul(n);
            if inner > fits {
                break;
            }
        }
        counts
    }

    /// The rows and vectors of the tile that keeps the core busiest, for these row counts and up to `parts` vectors.
    fn best_tile(&self, row_counts: &[i64], parts: i64, fuses: bool) -> (i64, i64) {
        let mut best = (1, 1);
        let mut best_score = (0.0, 0.0);
        for &rows in row_counts {
            for vectors in (1..=parts).take_while(|&v| self.holds_tile(rows, v, fuses)) {
                let n = (rows * vectors) as f64;
                let work = n / Core::VECTOR_PORTS;
                let cycles = work.max((rows + vectors) as f64 / Core::LOAD_PORTS).max(Core::LATENCY);
                let rounds = (parts as u64).div_ceil(vectors as u64) as i64;
                let filled = parts as f64 / (rounds * vectors) as f64;
                let speed = work / cycles * filled * self.ease_of_tile(rows, vectors, fuses);
                let score = (speed, n / (rows + vectors) as f64);
                if score > best_score {
                    (best, best_score) = ((rows, vectors), score);
                }
            }
        }
        best
    }
}

impl TilePlan {
    /// The plan for a nest, on a core with these vectors.
    pub fn new(nest: &Accumulation<'_>, vectors: &VectorUnit) -> TilePlan {
        let levels = nest.levels;
        let last = levels.iter().rposition(NestLevel::is_reduction).expect("a nest that accumulates has a reduction");
        let first_of_group = |end: usize| {
            let mut first = end;
            while first > 0 && levels[first - 1].is_reduction() {
                first -= 1;
            }
            first
        };
        let vector = nest.vector_level(last, vectors);
        // Vectors that are assembled from others, or from elements at any places, need registers for those.
        let is_picked = |stride: i64| stride == IRREGULAR || (2..=MOST_APART).contains(&stride.abs());
        let picks = vector.is_some_and(|v| nest.operands.iter().any(|o| is_picked(o.strides[v])));
        let fuses = nest.fuses && !picks && vector.is_some_and(|v| nest.has_factor(v));
        let left = if picks { vectors.registers.saturating_sub(PICKING) } else { vectors.registers };
        let vectors = &VectorUnit { registers: left, ..*vectors };

        // Start with the loops inside the reduction: they become the rows.
        let group = first_of_group(last);
        let inside = levels[..group].iter().rposition(NestLevel::is_reduction).unwrap_or(last);
        let rows = (inside + 1..levels.len()).filter(|&i| !levels[i].is_reduction() && Some(i) != vector);
        let rows: Vec<usize> = rows.collect();
        let lanes = nest.lanes;
        let parts = vector.and_then(|v| levels[v].extent).map_or(1, |n| (n as u64).div_ceil(lanes as u64) as i64);
        let counts = vectors.row_counts(rows.iter().rev().map(|&i| levels[i].extent));
        let (mut n_rows, n_vectors) = vectors.best_tile(&counts, parts, fuses);
        let mut tile: Vec<TileLevel> = Vec::new();
        let mut left = n_rows;
        let mut whole = true;
        for &i in rows.iter().rev() {
            let n = levels[i].extent.unwrap_or(i64::MAX);
            let size = if left >= n { n } else { left };
            whole &= size == n;
            if size > 1 {
                tile.push(TileLevel { level: i, size });
                left /= size;
            }
        }
        tile.reverse();
        whole &= n_vectors == parts;
        // Add whole surrounding loops while there are too few sums to keep the core busy.
        for i in (0..group).rev().take_while(|&i| !levels[i].is_reduction()) {
            match levels[i].extent {
                _ if Some(i) == vector => {}
                _ if inside != last => break,
                Some(n)
                    if whole
                        && n_rows * n_vectors < BUSY
                        && vectors.holds_tile(n_rows.saturating_mul(n), n_vectors, fuses)
                        && last + 1 < levels.len() =>
                {
                    tile.insert(0, TileLevel { level: i, size: n });
                    n_rows *= n;
                }
                _ => break,
            }
        }
        if let Some(v) = vector {
            let n = levels[v].extent.unwrap_or(0);
            tile.push(TileLevel { level: v, size: if n_vectors == parts { n } else { n_vectors * lanes } });
        }

        // Find the reduction loops that move inside.
        let mut from = group;
        loop {
            let trips = levels[from..]
                .iter()
                .filter(|l| l.is_reduction())
                .map(|l| l.extent.unwrap_or(LONG_REDUCTION))
                .fold(1, i64::saturating_mul);
            let Some(end) = levels[..from].iter().rposition(NestLevel::is_reduction) else { break };
            let next = first_of_group(end);
            if trips >= LONG_REDUCTION && nest.footprint(next) > CACHED_BYTES {
                break;
            }
            from = next;
        }
        let is_whole = |i: usize| tile.iter().any(|t| t.level == i && levels[i].extent == Some(t.size));
        let sinks = |i: usize| i >= from && levels[i].is_reduction();
        TilePlan {
            outer: (0..levels.len()).filter(|&i| !is_whole(i) && !sinks(i)).collect(),
            reductions: (0..levels.len()).filter(|&i| sinks(i)).collect(),
            vector,
            tile,
            n_rows,
            n_vectors,
        }
    }
}

impl Accumulation<'_> {
    /// The loop that becomes vector lanes: the innermost one along which the results are contiguous. `None` if the
    /// operands are contiguous along the innermost reduction instead, and sums may be reordered.
    fn vector_level(&self, last: usize, vectors: &VectorUnit) -> Option<usize> {
        let levels = self.levels;
        let v = levels.iter().rposition(|l| l.stride == 1 && l.extent.is_some_and(|n| n > 1))?;
        // Region code assembles strided elements, which is better than a reduction that fills no vectors.
        let is_near = |o: &Operand<'_>| o.strides[v].abs() <= MOST_APART;
        let is_short = levels[last].extent.is_some_and(|n| n < 2 * self.lanes);
        if vectors.has_regions() && is_short && self.operands.iter().all(is_near) {
            return Some(v);
        }
        // Elements at computed places are gathered where sums cannot be made of vectors either.
        let is_gathered = |o: &Operand<'_>| o.strides[v] == IRREGULAR && o.bytes == GATHERED_BYTES;
        if vectors.has_regions()
            && !self.sums_along(last)
            && self.operands.iter().any(is_gathered)
            && self.operands.iter().all(|o| is_near(o) || is_gathered(o))
        {
            return Some(v);
        }
        if !self.serves(v) && (self.sums_along(last) || v < last) {
            return None;
        }
        Some(v)
    }

    /// Whether a step multiplies vectors by one element: of two operands, one stays the same along the vector loop. Where
    /// both are vectors, as in depthwise convolutions, those of a window stay in registers beside the sums.
    fn has_factor(&self, vector: usize) -> bool {
        self.operands.len() == 2 && self.operands.iter().filter(|o| o.strides[vector] == 0).count() == 1
    }

    /// Whether all operands are contiguous or constant along a loop.
    fn serves(&self, level: usize) -> bool {
        self.operands.iter().all(|o| matches!(o.strides[level], 0 | 1))
    }

    /// Whether the innermost reduction, `last`, can be computed in partial sums, lane by lane.
    pub fn sums_along(&self, last: usize) -> bool {
        last + 1 == self.levels.len() && self.reassociates && self.serves(last)
    }

    /// Bytes that the loops from a level inward read.
    fn footprint(&self, from: usize) -> i64 {
        let bytes = |o: &Operand<'_>| {
            let moving = self.levels[from..].iter().zip(&o.strides[from..]).filter(|(_, s)| **s != 0);
            moving.map(|(l, _)| l.extent.unwrap_or(1 << 20)).fold(o.bytes, i64::saturating_mul)
        };
        self.operands.iter().map(bytes).fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Arch, Isa};

    fn level(extent: i64, stride: i64) -> NestLevel {
        NestLevel { extent: Some(extent), stride }
    }

    fn plan(levels: &[NestLevel], operands: &[&[i64]], isa: Isa) -> TilePlan {
        let vectors = VectorUnit::new(isa, Arch::X86_64);
        let operands: Vec<Operand<'_>> = operands.iter().map(|strides| Operand { strides, bytes: 4 }).collect();
        let lanes = vectors.lanes(crate::ir::DType::Float32);
        TilePlan::new(&Accumulation { levels, operands: &operands, lanes, reassociates: true, fuses: true }, &vectors)
    }

    /// `for i in 128: for j in 2: for k in 128: for i1 in 4: for j1 in 64` of a matmul.
    #[test]
    fn the_loops_inside_the_reduction_become_the_tile() {
        let levels = [level(32, 512), level(2, 64), level(128, 0), level(4, 128), level(64, 1)];
        let (a, b) = ([512, 0, 1, 128, 0], [0, 64, 128, 0, 1]);
        let p = plan(&levels, &[&a, &b], Isa::Avx512);
        assert_eq!((p.vector, p.n_rows, p.n_vectors), (Some(4), 4, 4));
        assert_eq!((p.outer, p.reductions), (vec![0, 1], vec![2]));
        assert_eq!(p.tile, [TileLevel { level: 3, size: 4 }, TileLevel { level: 4, size: 64 }]);
    }

    #[test]
    fn a_tile_that_does_not_fit_is_cut() {
        let levels = [level(128, 0), level(32, 128), level(128, 1)];
        let (a, b) = ([1, 128, 0], [128, 0, 1]);
        for isa in Isa::ALL {
            let p = plan(&levels, &[&a, &b], isa);
            let vectors = VectorUnit::new(isa, Arch::X86_64);
            assert!(vectors.holds_tile(p.n_rows, p.n_vectors, true), "{isa}: {p:?}");
            assert!(p.n_rows * p.n_vectors >= 8, "{isa}: {p:?}");
        }
    }

    #[test]
    fn a_reduction_over_contiguous_operands_fills_the_lanes_itself() {
        let levels = [level(16, 1), level(1024, 0)];
        let (a, b) = ([1024, 1], [1024, 1]);
        assert_eq!(plan(&levels, &[&a, &b], Isa::Avx2).vector, None);
    }

    /// `for j: for k` of sums over elements at computed places.
    #[test]
    fn results_become_lanes_where_operands_are_gathered() {
        let levels = [level(16, 1), level(64, 0)];
        assert_eq!(plan(&levels, &[&[IRREGULAR, IRREGULAR]], Isa::Avx512).vector, Some(0));
        // Rows at computed places are contiguous along the results.
        assert_eq!(plan(&levels, &[&[1, IRREGULAR], &[0, 1]], Isa::Avx512).vector, Some(0));
        // Elements that are contiguous along the reduction are summed lane by lane.
        assert_eq!(plan(&levels, &[&[IRREGULAR, 1]], Isa::Avx512).vector, None);
    }

    /// Tiles of 6 x 2 and 4 x 3 vectors, with the vectors of a row and a factor, fill 16 registers.
    #[test]
    fn multiply_adds_fill_few_registers() {
        for (rows, columns, vectors) in [(6, 16, 2), (4, 24, 3)] {
            let levels = [level(128, 0), level(rows, 128), level(columns, 1)];
            let (a, b) = ([1, 128, 0], [128, 0, 1]);
            let p = plan(&levels, &[&a, &b], Isa::Avx2);
            assert_eq!((p.n_rows, p.n_vectors), (rows, vectors), "{p:?}");
            let unit = VectorUnit::new(Isa::Avx2, Arch::X86_64);
            assert!(!unit.holds_tile(rows, vectors, false));
        }
    }

    #[test]
    fn tiles_that_fit_leave_registers_for_operands() {
        for isa in Isa::ALL {
            let v = VectorUnit::new(isa, Arch::X86_64);
            for (rows, vectors, fuses) in
                (1..40).flat_map(|r| (1..8).flat_map(move |v| [false, true].map(|fuses| (r, v, fuses))))
            {
                if v.holds_tile(rows, vectors, fuses) {
                    let loaded = if rows == 1 { 1 } else { vectors };
                    assert!(rows * vectors + loaded + FACTOR <= v.registers as i64);
                    assert!(v.ease_of_tile(rows, vectors, fuses) > 0.5);
                }
            }
        }
    }
}
