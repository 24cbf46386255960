//! Sizes of register tiles: the candidates, and their order of promise.
//!
//! A register tile is a block of results that stays in vector registers while a reduction runs: several rows of several
//! vectors each. A step of the reduction loads the vectors once, and one value per row.

use crate::machine::Core;

/// The loops that a register tile is cut from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TileShape {
    /// Extent of the loop of rows; 1 if there is none.
    pub rows: i64,
    /// Extent of the vectorised loop.
    pub columns: i64,
    /// Total iterations of all reduction loops.
    pub reduction: i64,
    /// Elements per vector.
    pub lanes: i64,
    /// Whether each step is one multiply-add of loaded elements.
    pub fuses: bool,
    /// The window that slides over the rows, if there is one.
    pub window: Option<Window>,
}

/// A reduction loop along which a window slides over the rows: a loaded row serves several iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// Extent of the loop.
    pub extent: i64,
    /// Iterations of the loop from one row to the next.
    pub step: i64,
}

impl Window {
    /// Number of rows that are loaded for `rows` rows of results.
    fn loaded(&self, rows: i64) -> i64 {
        (rows - 1) * self.step + self.extent
    }
}

/// Candidate numbers of rows; larger ones leave no registers for a second vector.
const ROWS: [i64; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 28];
/// Maximum number of vectors per row: with several rows, and with one.
const VECTORS: [i64; 2] = [4, 8];
/// Cycles per tile besides its reduction: zeroing, storing, loop overhead.
const TILE_CYCLES: f64 = 20.0;
/// Slowdown of a tile that spills.
const SPILL: f64 = 3.0;
/// Relative cost of a vector that is alone and at most half full.
const HALF: f64 = 0.6;
/// Relative cost of loads that mostly cross a cache line.
const UNALIGNED: f64 = 1.5;
/// Maximum number of multiply-adds of rows that the code generator unrolls.
const WRITTEN_OUT: i64 = 200;
/// Maximum length of a sum whose wait for its own terms is hidden by the next tile.
const OVERLAPPED: i64 = 12;
/// Slowdown of tiles that do not divide a loop, besides the smaller tile at the end: more code, and bounds checks.
const UNEVEN: f64 = 1.03;

impl TileShape {
    /// Candidate numbers of rows.
    pub(crate) fn row_choices(&self) -> Vec<i64> {
        let mut choices: Vec<i64> = ROWS.into_iter().filter(|&r| r <= self.rows).collect();
        if self.rows <= ROWS[ROWS.len() - 1] && !choices.contains(&self.rows) {
            choices.push(self.rows);
        }
        choices
    }

    /// Candidate numbers of columns: whole vectors, or all columns.
    pub(crate) fn column_choices(&self) -> Vec<i64> {
        let most = VECTORS[usize::from(self.rows <= 1)];
        let mut choices: Vec<i64> = (1..=most).map(|n| n * self.lanes).filter(|&c| c < self.columns).collect();
        if self.columns <= most * self.lanes {
            choices.push(self.columns);
        }
        choices
    }

    /// Estimated cycles of all tiles of `rows` by `columns`, if operands are in near caches.
    pub(crate) fn cycles(&self, machine: &Core, rows: i64, columns: i64) -> f64 {
        let parts = |extent: i64, size: i64| [(extent / size, size), (1, extent % size)];
        let mut cycles = 0.0;
        for (n_rows, rows) in parts(self.rows, rows) {
            for (n_columns, columns) in parts(self.columns, columns) {
                if n_rows * n_columns * rows * columns > 0 {
                    cycles += (n_rows * n_columns) as f64 * self.tile_cycles(machine, rows, columns);
                }
            }
        }
        let uneven = |extent: i64, size: i64| if extent % size == 0 { 1.0 } else { UNEVEN };
        cycles * uneven(self.rows, rows) * uneven(self.columns, columns)
    }

    fn tile_cycles(&self, machine: &Core, rows: i64, columns: i64) -> f64 {
        let vectors = (columns + self.lanes - 1) / self.lanes;
        let cost = if columns * 2 <= self.lanes { HALF } else { vectors as f64 };
        let window = self.window.filter(|&window| self.is_written_out(machine, rows, vectors, window));
        let loads = match (window, self.window) {
            (Some(window), _) => window.loaded(rows) as f64 * cost / window.extent as f64 * UNALIGNED + 1.0,
            (None, Some(_)) => rows as f64 * cost * UNALIGNED + 1.0,
            (None, None) => rows as f64 + cost,
        };
        let work = loads.max(rows as f64 * cost) / Core::VECTOR_PORTS;
        let fits = machine.vectors.holds_tile(rows, vectors, self.fuses);
        // Unrolled short tiles overlap with the previous one.
        let wait = if window.is_some() && self.reduction <= OVERLAPPED { 0.0 } else { Core::LATENCY };
        let step = work.max(wait) * if fits { 1.0 } else { SPILL };
        step * self.reduction as f64 + TILE_CYCLES
    }

    /// Whether loaded rows of a sliding window serve several steps of the reduction: this needs the whole window
    /// unrolled, and registers for the rows besides the results.
    fn is_written_out(&self, machine: &Core, rows: i64, vectors: i64, window: Window) -> bool {
        let loaded = window.loaded(rows) * vectors;
        rows * self.reduction <= WRITTEN_OUT && rows * vectors + loaded + 2 <= machine.vectors.registers as i64
    }

    /// Pairs of positions in the two candidate lists, most promising first.
    pub(crate) fn ranked(&self, machine: &Core) -> Vec<(usize, usize)> {
        let (rows, columns) = (self.row_choices(), self.column_choices());
        let mut all: Vec<(f64, usize, usize)> = Vec::with_capacity(rows.len() * columns.len());
        for (r, &n_rows) in rows.iter().enumerate() {
            for (c, &n_columns) in columns.iter().enumerate() {
                all.push((self.cycles(machine, n_rows, n_columns), r, c));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().map(|(_, r, c)| (r, c)).collect()
    }
}

/// Candidate lengths of the pieces of a strip-mined reduction axis: divisors of its extent, and the extent itself. Each
/// iteration takes `steps`, those of the other reduction axes.
pub(crate) fn reduction_choices(extent: i64, steps: i64) -> Vec<i64> {
    let (shortest, longest) = ((SHORTEST_REDUCTION + steps - 1) / steps, LONGEST_REDUCTION / steps);
    (shortest..=longest.min(extent - 1)).filter(|n| extent % n == 0).chain([extent]).collect()
}

/// Minimum number of steps of a piece: below it, loading and storing the tile of results costs more than a near panel
/// saves.
const SHORTEST_REDUCTION: i64 = 64;
/// Maximum number of steps: a panel of this many fills the second-level cache.
const LONGEST_REDUCTION: i64 = 2048;

/// The position of the largest size up to `wanted`, of the first one if all are larger.
pub(crate) fn largest(sizes: &[i64], wanted: i64) -> usize {
    sizes.iter().rposition(|&s| s <= wanted).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Isa;
    use crate::machine::cascade_lake;

    fn best(shape: TileShape) -> (i64, i64) {
        let (r, c) = shape.ranked(&Core::new(&cascade_lake(), Isa::Avx512, 1))[0];
        (shape.row_choices()[r], shape.column_choices()[c])
    }

    #[test]
    fn the_best_tile_keeps_the_multipliers_busy_and_fits_the_registers() {
        let (rows, columns) =
            best(TileShape { rows: 128, columns: 128, reduction: 128, lanes: 16, fuses: true, window: None });
        assert_eq!((128 % rows, columns % 16), (0, 0));
        assert!(rows * columns / 16 >= 8 && rows * columns / 16 + columns / 16 < 32);
    }

    #[test]
    fn a_row_that_is_no_whole_number_of_vectors_stays_whole() {
        let shape = TileShape { rows: 127, columns: 61, reduction: 93, lanes: 16, fuses: true, window: None };
        assert_eq!(shape.column_choices(), [16, 32, 48, 61]);
        assert_eq!(best(shape).1, 61);
    }

    #[test]
    fn rows_under_a_window_fit_the_registers_with_the_results() {
        let shape = TileShape {
            rows: 56,
            columns: 56,
            reduction: 9,
            lanes: 16,
            fuses: true,
            window: Some(Window { extent: 3, step: 1 }),
        };
        let (rows, columns) = best(shape);
        let vectors = (columns + 15) / 16;
        assert!(rows * vectors + (rows + 2) * vectors <= 32 && rows * vectors >= 8, "{rows} x {columns}");
    }

    #[test]
    fn pieces_of_a_reduction_divide_it() {
        assert_eq!(reduction_choices(1024, 1), [64, 128, 256, 512, 1024]);
        assert_eq!(reduction_choices(93, 1), [93]);
        assert_eq!(reduction_choices(64, 1), [64]);
        assert_eq!(reduction_choices(256, 9), [8, 16, 32, 64, 128, 256]);
    }
}
