//! Copies transposed elements in tiles whose rows are chunks of 128 bits, if a nest only copies, reads contiguously along one
//! loop and writes contiguously along another.
//!
//! ```text
//! for j in 32 independent: for i in 8 independent: B[i * 32 + j] = A[j * 8 + i]        of bfloat16
//! // becomes, with vectors of 32 lanes
//! B[0] = pack(A[0; 8][0], A[8; 8][0], …)
//! B[32] = pack(A[0; 8][1], A[8; 8][1], …)
//! …
//! ```
//!
//! A tile reads as many columns as fit in a chunk, of as many rows as there are lanes in a register; the wide back end
//! transposes it without conversions (`wide::transpose`). Loading chunks costs most, so that a tile costs as many chunks as
//! it has rows. Tiles that follow each other cover each loop; what remains of one takes tiles with fewer rows, and the last
//! tile ends where the loop ends, and so overlaps the one before; it stores only new columns. Words of 32 and 64 bits also have squares, whose rows are whole
//! registers, where both loops have room for them. No element that is read is written, so that writing some elements
//! twice changes nothing.
//!
//! ```text
//! rows 0 … 15, 15 … 18            of 19 float32
//! columns 0 … 3, …, 19 … 22       of 23
//! ```
//!
//! Rows of fewer columns than a chunk, but of more than strided loads assemble, are loaded with elements after or before them, where those are
//! elements of the buffer as well, and the rows of the result that they would become are left out.
//!
//! A loop around may continue the rows that are written, as that of `n` here, although what is read continues elsewhere. Tiles
//! then run over both loops, in blocks of some iterations of the outer one, which are written out, since each row has a place of its
//! own:
//!
//! ```text
//! for n in 13: for i in 23: for j in 19: B[i * 4199 + n * 19 + j] = A[n * 7429 + j * 23 + i]     247 rows instead of 13 times 19
//! ```
//!
//! Likewise, columns that are read continue in a loop around, if what is written does as well:
//!
//! ```text
//! for n in 40: for i in 40: for j in 96: B[n * 3840 + i * 96 + j] = A[n * 40 + i + j * 1600]     1600 columns
//! ```

use super::machine::Machine;
use super::transpose::{MOST, lane_type, stride};
use super::vectorize::largest_power;
use crate::ir::DType;
use crate::loopir;
use crate::loopir::rewrite::Substitution;
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Ranges, Stmt, StmtId, Ty};
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes of the elements of a row that are copied together.
const CHUNK: i64 = 16;
/// Maximum number of rows of a block that is written out: a tile takes an instruction for each row, and the code must fit
/// into the nearest cache.
const MOST_ROWS: i64 = 256;
/// Columns that vectors with a stride assemble from whole registers: more than those are worth a tile.
const STRIDED: i64 = 4;

/// A nest that copies transposed elements.
pub(super) struct TransposedCopy {
    /// The loop along which reads are contiguous.
    read: For,
    /// The loop along which writes are contiguous.
    written: For,
    /// A loop around both that continues the rows that are written.
    around: Option<Around>,
    /// Columns, and rows of an iteration of `around`.
    trips: [i64; 2],
    from: BufferId,
    to: BufferId,
    /// The index of the element that is read.
    source: ExprId,
    /// The index of the element that is written.
    target: ExprId,
    dtype: DType,
    /// Elements of a chunk: the columns of a tile.
    columns: i64,
    /// Elements of a register: the maximum number of rows of a tile.
    lanes: i64,
    /// Whether tiles may be squares of whole registers as well.
    has_squares: bool,
}

/// A loop that continues rows.
struct Around {
    r#loop: For,
    trips: i64,
    /// Iterations that tiles run over together.
    block: i64,
    /// Whether rows that are read continue as well.
    is_even: bool,
}

/// Tiles of one size that follow each other, along rows or columns.
struct Tiles {
    start: i64,
    /// Rows or columns of a tile.
    size: i64,
    n: i64,
    /// The first of them that the tile before has as well.
    overlap: i64,
}

/// The first iterations of a tile.
#[derive(Clone, Copy)]
struct First {
    around: ExprId,
    read: ExprId,
    written: ExprId,
    /// The row in the block.
    row: i64,
}

impl TransposedCopy {
    /// The copy that a nest of two or three loops makes; `None` if tiles of chunks would not suit it.
    pub(super) fn of(kernel: &mut Kernel, outer: &For, machine: &Machine) -> Option<TransposedCopy> {
        let loops = loops_of(kernel, outer)?;
        let [.., first, second] = *loops.as_slice() else { return None };
        let &[s] = kernel.stmts.list(second.body) else { return None };
        let Stmt::Store { buffer: to, mut index, value } = kernel.stmts.get(s) else { return None };
        let Expr::Load(from, mut source) = kernel.arena.expr(value) else { return None };
        let dtype = kernel.buffer(to).dtype;
        if from == to || kernel.buffer(from).dtype != dtype || kernel.arena.lanes(value) != 1 {
            return None;
        }
        lane_type(dtype)?;
        let along = |kernel: &Kernel, index, l: &For| stride(&kernel.arena, index, l.var);
        let trips = |l: &For| kernel.arena.as_int(l.extent);
        let (mut read, written) = match (along(kernel, index, &first)?, along(kernel, index, &second)?) {
            (_, 1) => (first, second),
            (1, _) => (second, first),
            _ => return None,
        };
        let (mut n_read, n_written) = (trips(&read)?, trips(&written)?);
        let far = along(kernel, source, &written)?;
        if along(kernel, source, &read)? != 1 || matches!(far, 0 | 1) || n_read.saturating_mul(n_written) > MOST {
            return None;
        }
        let bytes = dtype.bytes() as i64;
        let (columns, lanes) = (CHUNK / bytes, machine.vectors.bytes as i64 / bytes);
        // In between, there are as many values in registers as columns, and one more.
        if columns >= machine.vectors.registers as i64 {
            return None;
        }
        let mut around = None;
        if let [r#loop, _, _] = *loops.as_slice() {
            let trips = trips(&r#loop)?;
            let of_source = along(kernel, source, &r#loop)?;
            let of_target = along(kernel, index, &r#loop)?;
            let of_columns = along(kernel, index, &read)?;
            if of_target == n_written {
                let block = best_block(trips, n_written, columns, lanes)?;
                around = Some(Around { r#loop, trips, block, is_even: of_source == n_written * far });
            } else if of_source == n_read && of_target == n_read.checked_mul(of_columns)? && n_read % columns != 0 {
                // One loop over the columns of both.
                let zero = kernel.arena.index(0);
                let mut in_first = Substitution::of(r#loop.var, zero);
                (index, source) = (in_first.expr(&mut kernel.arena, index), in_first.expr(&mut kernel.arena, source));
                n_read = n_read.checked_mul(trips)?;
                read.extent = kernel.arena.index(n_read);
            } else {
                return None;
            }
        }
        let rows = around.as_ref().map_or(n_written, |a| n_written * a.block.min(a.trips));
        // What remains of the iterations around must fill a tile as well.
        let rest = around.as_ref().map_or(0, |a| a.trips % a.block * n_written);
        let is_short = bytes <= 2 && (STRIDED + 1..columns).contains(&n_read);
        if n_read < columns && !is_short || rows < columns || (1..columns).contains(&rest) {
            return None;
        }
        // Where squares divide both loops, there is nothing else.
        let has_squares = bytes > 2;
        if has_squares && n_read % lanes == 0 && n_written % lanes == 0 {
            return None;
        }
        let trips = [n_read, n_written];
        Some(TransposedCopy {
            read,
            written,
            around,
            trips,
            from,
            to,
            source,
            target: index,
            dtype,
            columns,
            lanes,
            has_squares,
        })
    }

    /// The copy as loops over tiles.
    /// `None` if rows are shorter than a chunk and what is around them is no part of their buffer.
    pub(super) fn tiles(&self, kernel: &mut Kernel, ranges: &mut Ranges) -> Option<SmallVec<[StmtId; 4]>> {
        let zero = kernel.arena.index(0);
        let [_, n_written] = self.trips;
        let Some(around) = &self.around else { return self.columns_of(kernel, ranges, zero, n_written, true) };
        let mut made = SmallVec::new();
        let rest = around.trips % around.block;
        for (n, from, block) in [(around.trips / around.block, 0, around.block), (1, around.trips - rest, rest)] {
            if n == 0 || block == 0 {
                continue;
            }
            let (block_loop, first) = tile_loop(&mut kernel.arena, around.r#loop, n, from, block);
            ranges.set_loop(&kernel.arena, block_loop.var, block_loop.extent);
            let body = self.columns_of(kernel, ranges, first, n_written * block, around.is_even)?;
            let body = kernel.stmts.body(&body);
            made.push(kernel.stmts.push(Stmt::For(For { body, ..block_loop })));
        }
        Some(made)
    }

    /// Loops over the columns of a block with as many rows.
    fn columns_of(
        &self,
        kernel: &mut Kernel,
        ranges: &mut Ranges,
        around: ExprId,
        n_rows: i64,
        is_even: bool,
    ) -> Option<SmallVec<[StmtId; 4]>> {
        let [n_read, _] = self.trips;
        let mut made = SmallVec::new();
        for columns in column_tiles(n_read, self.columns, if self.has_squares { self.lanes } else { self.columns }) {
            let (read_loop, read) = tile_loop(&mut kernel.arena, self.read, columns.n, columns.start, columns.size);
            ranges.set_loop(&kernel.arena, read_loop.var, read_loop.extent);
            let mut body = Vec::new();
            for rows in row_tiles(n_rows, self.columns, self.lanes) {
                // What remains of the rows takes no squares.
                let size = if rows.size == columns.size { columns.size } else { self.columns.min(columns.size) };
                for from in (0..columns.size).step_by(size as usize) {
                    let read = kernel.arena.add_const(read, from);
                    let new = (columns.overlap - from).max(0)..size;
                    if !new.is_empty() {
                        body.extend(self.rows_of(kernel, ranges, [around, read], new, &rows, is_even)?);
                    }
                }
            }
            let body = kernel.stmts.body(&body);
            made.push(kernel.stmts.push(Stmt::For(For { body, ..read_loop })));
        }
        Some(made)
    }

    /// Tiles of some rows, as in `rows_of_size`; smaller ones if these do not suit.
    fn rows_of(
        &self,
        kernel: &mut Kernel,
        ranges: &mut Ranges,
        place: [ExprId; 2],
        columns: Range<i64>,
        rows: &Tiles,
        is_even: bool,
    ) -> Option<Vec<StmtId>> {
        if let Some(made) = self.rows_of_size(kernel, ranges, place, columns.clone(), rows, is_even) {
            return Some(made);
        }
        // What follows the last rows, or comes before the first, may be no part of the buffer.
        let &Tiles { start, size, n, .. } = rows;
        let (size, first, second) = match () {
            () if n > 1 => (size, n - 1, 1),
            () if size > self.columns => (size / 2, 1, 1),
            () => return None,
        };
        let first = Tiles { start, size, n: first, overlap: 0 };
        let second = Tiles { start: start + first.n * size, size, n: second, overlap: 0 };
        let mut made = self.rows_of(kernel, ranges, place, columns.clone(), &first, is_even)?;
        made.extend(self.rows_of(kernel, ranges, place, columns, &second, is_even)?);
        Some(made)
    }

    /// Tiles of some rows, which end with the last of the columns and store some of them.
    fn rows_of_size(
        &self,
        kernel: &mut Kernel,
        ranges: &mut Ranges,
        [around, read]: [ExprId; 2],
        columns: Range<i64>,
        rows: &Tiles,
        is_even: bool,
    ) -> Option<Vec<StmtId>> {
        if is_even {
            let (written_loop, written) = tile_loop(&mut kernel.arena, self.written, rows.n, rows.start, rows.size);
            ranges.set_loop(&kernel.arena, written_loop.var, written_loop.extent);
            let first = First { around, read, written, row: 0 };
            let tile = self.tile(kernel, ranges, first, columns, rows.size, is_even)?;
            let body = kernel.stmts.body(&tile);
            return Some(vec![kernel.stmts.push(Stmt::For(For { body, ..written_loop }))]);
        }
        let mut made = Vec::new();
        for t in 0..rows.n {
            let row = rows.start + t * rows.size;
            let written = kernel.arena.index(row);
            let first = First { around, read, written, row };
            made.extend(self.tile(kernel, ranges, first, columns.clone(), rows.size, is_even)?);
        }
        Some(made)
    }

    /// The stores of a tile's columns.
    fn tile(
        &self,
        kernel: &mut Kernel,
        ranges: &mut Ranges,
        first: First,
        columns: Range<i64>,
        lanes: i64,
        is_even: bool,
    ) -> Option<Vec<StmtId>> {
        let len = kernel.buffer(self.from).len;
        let arena = &mut kernel.arena;
        let mut starts = SmallVec::<[ExprId; 64]>::new();
        for lane in 0..lanes {
            let mut place = Substitution::of(self.read.var, first.read);
            self.set_row(arena, &mut place, first, lane, is_even);
            starts.push(place.expr(arena, self.source));
        }
        let wide = columns.end.max(self.columns);
        // A row that is shorter than a chunk is its first part, or its last.
        let mut exist = |shift: i64| {
            let within = loopir::Range { lo: shift, hi: len - wide + shift };
            starts.iter().all(|&e| ranges.of(arena, e).within(within))
        };
        let skipped = [0, wide - columns.end].into_iter().find(|&shift| wide == columns.end || exist(shift))?;
        let mut vectors = SmallVec::<[ExprId; 64]>::new();
        for start in starts {
            let index = arena.add_const(start, -skipped);
            vectors.push(arena.load(self.from, index, Ty::vector(self.dtype, wide as u16)));
        }
        let mut stores = Vec::new();
        for column in columns {
            let read = arena.add_const(first.read, column);
            let mut place = Substitution::of(self.read.var, read);
            self.set_row(arena, &mut place, first, 0, is_even);
            let index = place.expr(arena, self.target);
            let items: SmallVec<[ExprId; 64]> =
                vectors.iter().map(|&v| arena.extract(v, (skipped + column) as u16)).collect();
            let value = arena.pack(&items);
            stores.push(kernel.stmts.push(Stmt::Store { buffer: self.to, index, value }));
        }
        Some(stores)
    }

    /// Sets the iterations of a row of a tile.
    fn set_row(&self, arena: &mut Arena, place: &mut Substitution, first: First, lane: i64, is_even: bool) {
        let [_, n_written] = self.trips;
        let (around, written) = match is_even {
            true => (first.around, arena.add_const(first.written, lane)),
            false => {
                let row = first.row + lane;
                (arena.add_const(first.around, row / n_written), arena.index(row % n_written))
            }
        };
        place.set(self.written.var, written);
        if let Some(a) = &self.around {
            place.set(a.r#loop.var, around);
        }
    }
}

/// The loops of a nest of two or three around a single store, if their iterations may run in any order on this thread.
fn loops_of(kernel: &Kernel, outer: &For) -> Option<SmallVec<[For; 3]>> {
    let mut loops: SmallVec<[For; 3]> = SmallVec::from_elem(*outer, 1);
    let inner = |body: Body| match *kernel.stmts.list(body) {
        [s] => match kernel.stmts.get(s) {
            Stmt::For(l) => Some(l),
            _ => None,
        },
        _ => None,
    };
    while let Some(l) = inner(loops.last()?.body) {
        loops.push(l);
    }
    let is_free = |l: &For| {
        let is_counted = kernel.arena.as_int(l.extent).is_some_and(|n| n > 0);
        is_counted && l.iterations == Iterations::Independent && l.kind != LoopKind::Parallel
    };
    (matches!(loops.len(), 2 | 3) && loops.iter().all(is_free)).then_some(loops)
}

/// A loop over so many tiles of some iterations, and the first of these, counted from `from`.
fn tile_loop(arena: &mut Arena, old: For, n: i64, from: i64, tile: i64) -> (For, ExprId) {
    let (var, e) = arena.new_index(arena.var(old.var).name);
    let (extent, steps) = (arena.index(n), arena.mul_const(e, tile));
    let first = if from == 0 { steps } else { arena.add_const(steps, from) };
    (For { var, extent, kind: LoopKind::Serial, ..old }, first)
}

/// The tiles of so many columns: squares, if there are any, and chunks for what remains. The last one ends with the columns.
fn column_tiles(n_columns: i64, chunk: i64, square: i64) -> SmallVec<[Tiles; 4]> {
    if n_columns < chunk {
        return SmallVec::from_iter([Tiles { start: 0, size: n_columns, n: 1, overlap: 0 }]);
    }
    let mut tiles = SmallVec::new();
    let squares = n_columns / square;
    if squares > 0 {
        tiles.push(Tiles { start: 0, size: square, n: squares, overlap: 0 });
    }
    let (mut start, mut rest) = (squares * square, n_columns % square);
    if squares > 0 && 2 * rest > square {
        tiles.push(Tiles { start: n_columns - square, size: square, n: 1, overlap: square - rest });
        rest = 0;
    }
    if rest >= chunk {
        tiles.push(Tiles { start, size: chunk, n: rest / chunk, overlap: 0 });
        start += rest / chunk * chunk;
        rest %= chunk;
    }
    if rest > 0 {
        debug_assert!(start + rest >= chunk, "there is a whole chunk of columns");
        tiles.push(Tiles { start: n_columns - chunk, size: chunk, n: 1, overlap: chunk - rest });
    }
    tiles
}

/// The tiles of so many rows: the largest, then smaller ones for what remains. The last one ends with the rows.
fn row_tiles(n_rows: i64, columns: i64, most: i64) -> SmallVec<[Tiles; 4]> {
    let mut tiles = SmallVec::new();
    let largest = largest_power(n_rows).clamp(columns, most);
    let mut start = n_rows / largest * largest;
    if start > 0 {
        tiles.push(Tiles { start: 0, size: largest, n: n_rows / largest, overlap: 0 });
    }
    let covering = |rest: i64| largest_power(2 * rest - 1).clamp(columns, largest);
    while start < n_rows {
        let rest = n_rows - start;
        let (all, half) = (covering(rest), largest_power(rest).max(columns));
        // Two smaller tiles, if together they load fewer chunks.
        if half < rest && half + covering(rest - half) < all {
            tiles.push(Tiles { start, size: half, n: 1, overlap: 0 });
            start += half;
        } else {
            tiles.push(Tiles { start: n_rows - all, size: all, n: 1, overlap: all - rest });
            start = n_rows;
        }
    }
    tiles
}

/// The number of iterations of a loop around that tiles run over together, so that the fewest chunks are loaded; `None` if
/// more than one does not load fewer.
fn best_block(trips: i64, n_rows: i64, columns: i64, lanes: i64) -> Option<i64> {
    let chunks = |n: i64| -> i64 { row_tiles(n * n_rows, columns, lanes).iter().map(|r| r.size * r.n).sum() };
    let cost = |block: i64| {
        let rest = if trips % block == 0 { 0 } else { chunks(trips % block) };
        trips / block * chunks(block) + rest
    };
    let most = (MOST_ROWS / n_rows).min(trips);
    // Tiles of fewer rows than lanes take as many shuffles and stores.
    let n_tiles = |block: i64| -> i64 {
        let tiles = |n: i64| -> i64 { row_tiles(n * n_rows, columns, lanes).iter().map(|r| r.n).sum() };
        trips / block * tiles(block) + if trips % block == 0 { 0 } else { tiles(trips % block) }
    };
    let block = (1..=most).min_by_key(|&block| (cost(block) + columns * n_tiles(block), block))?;
    (block > 1).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_all_rows_and_columns_and_no_others() {
        let check = |n: i64, tiles: &[Tiles], sizes: std::ops::RangeInclusive<i64>| {
            let mut covered = vec![false; n as usize];
            for t in tiles {
                assert!(sizes.contains(&t.size), "{n} in tiles of {}", t.size);
                covered[t.start as usize..(t.start + t.size * t.n) as usize].fill(true);
            }
            assert!(covered.iter().all(|&c| c), "{n} in tiles of {sizes:?}");
        };
        for columns in [2, 4, 8, 16] {
            for most in [columns, 2 * columns, 4 * columns] {
                for n in columns..300 {
                    check(n, &row_tiles(n, columns, most), columns..=most);
                    check(n, &column_tiles(n, columns, most), columns..=most);
                }
            }
        }
    }

    #[test]
    fn blocks_fill_tiles() {
        // 247 rows take four tiles of 64 bytes, 13 times 19 take two of 16 each.
        assert_eq!(best_block(13, 19, 16, 64), Some(13));
        // Whole tiles need no block.
        assert_eq!(best_block(100, 64, 16, 64), None);
    }
}
