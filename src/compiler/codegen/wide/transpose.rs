//! Transposes squares of lanes by shuffles.
//!
//! A vector packed from lane `p` of several vectors, as many as each has lanes, is row `p` of their transpose. With
//! four lanes per chunk of 128 bits, and rows `a`, `b`, `c`, `d`, …:
//!
//! ```text
//! in chunks:  a0 a1 a2 a3 | a4 …     low, high halves     a0 b0 c0 d0 | a4 b4 …
//!             b0 b1 b2 b3 | b4 …     of pairs, twice      a1 b1 c1 d1 | a5 b5 …
//! of chunks:  even and odd chunks of two, once or twice, bring together those of one row
//! ```
//!
//! Sixteen rows take 64 shuffles, instead of 256 loads and 256 insertions lane by lane.
//!
//! Rows that lie near each other in memory are loaded chunk by chunk, each to its place: register `k` gets the same columns of the
//! rows `k`, `k + 4`, `k + 8` and `k + 12`. Sixteen rows then take the 32 shuffles in chunks, and 48 insertions, which
//! more than one port executes. Four rows of the result need no others, and few registers. Where a core shuffles whole registers
//! of 512 bits on several ports ([`crate::machine::shuffles_are_cheap`]), the loads would take longer than the shuffles, and whole
//! rows are loaded.
//!
//! Elements that are only copied stay as narrow as they are in memory, and a tile need not be a square. A chunk holds `u` of them, and
//! `u` registers hold a tile of `u` columns: register `k` is loaded with the rows `k`, `k + u`, …, one in each chunk.
//! Then the squares in the chunks are transposed. A step takes the registers `k` and `k + u/2`, and interleaves their
//! low halves to register `2k`, their high halves to `2k + 1`: it rotates the bits of the register's number followed by
//! those of the lane's number by one place, so that after `log2(u)` steps the two are exchanged. With `u` of 4:
//!
//! ```text
//! a0 a1 a2 a3     a0 c0 a1 c1     a0 b0 c0 d0
//! b0 b1 b2 b3     a2 c2 a3 c3     a1 b1 c1 d1
//! c0 c1 c2 c3     b0 d0 b1 d1     a2 b2 c2 d2
//! d0 d1 d2 d3     b2 d2 b3 d3     a3 b3 c3 d3
//! ```

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Mem, Op2, VReg, Width};
use crate::loopir::{Arena, Expr, ExprId, Stmt, StmtId};
use smallvec::{SmallVec, smallvec};

/// The vectors of a square.
pub(super) type Square = SmallVec<[ExprId; 16]>;

/// The vectors and the lane, if the expression is a row of a transpose.
pub(super) fn row_of(arena: &Arena, e: ExprId) -> Option<(Square, u16)> {
    let Expr::Pack(list) = arena.expr(e) else { return None };
    let items = arena.list(list);
    let Expr::Extract(_, lane) = arena.expr(*items.first()?) else { return None };
    let square: Option<Square> = items
        .iter()
        .map(|&item| match arena.expr(item) {
            Expr::Extract(a, l) if l == lane && arena.lanes(a) as usize == items.len() => Some(a),
            _ => None,
        })
        .collect();
    square.map(|square| (square, lane))
}

/// Bytes of a chunk.
const CHUNK: usize = 16;

/// The loaded vectors and the lane, if the expression is a row of a transposed tile of elements that are only copied, and
/// each vector fills a chunk.
pub(super) fn copied_row(arena: &Arena, e: ExprId) -> Option<(Square, u16)> {
    let Expr::Pack(list) = arena.expr(e) else { return None };
    let items = arena.list(list);
    let Expr::Extract(_, lane) = arena.expr(*items.first()?) else { return None };
    let bytes = arena.dtype(e).bytes();
    if !matches!(bytes, 1 | 2 | 4 | 8) || !matches!(items.len() * bytes, 16 | 32 | 64) {
        return None;
    }
    let vectors: Option<Square> = items
        .iter()
        .map(|&item| match arena.expr(item) {
            Expr::Extract(a, l) if l == lane && arena.lanes(a) as usize * bytes == CHUNK => match arena.expr(a) {
                Expr::Load(_, index) if arena.lanes(index) == 1 => Some(a),
                _ => None,
            },
            _ => None,
        })
        .collect();
    vectors.map(|vectors| (vectors, lane))
}

/// Whether the expression is a row of a transposed square, or of another tile of elements that are only copied.
pub(in crate::codegen) fn is_transposed_row(arena: &Arena, e: ExprId) -> bool {
    row_of(arena, e).is_some() || copied_row(arena, e).is_some()
}

/// Maximum distance in bytes of rows that are loaded chunk by chunk: a line is used once for each of its chunks, and must
/// stay in the nearest cache between. Lines that are thousands of bytes apart share few of its sets.
const NEAR: u32 = 16 << 10;

impl Builder<'_> {
    /// Copies a transposed tile, if the first statements store its rows, or some of them: rows that a tile that overlaps this one
    /// stores again may be missing. The result is the number of these statements; `None`, without any code, if there is no
    /// such tile.
    pub(super) fn copied_square(&mut self, stmts: &[StmtId]) -> Option<usize> {
        let Stmt::Store { buffer, value, .. } = self.kernel.stmts.get(*stmts.first()?) else { return None };
        let arena = &self.kernel.arena;
        let (vectors, _) = copied_row(arena, value)?;
        let dtype = arena.dtype(value);
        let columns = CHUNK / dtype.bytes();
        let width = Width::of_bytes(vectors.len() * dtype.bytes())?;
        // A step needs one register more than there are columns.
        let has_registers = columns < 16 || self.features.masks;
        let is_free = self.guard.is_none() && width.bytes()? <= self.vector_bytes;
        if dtype != self.kernel.buffer(buffer).dtype || !has_registers || !is_free {
            return None;
        }
        let mut places: SmallVec<[(usize, ExprId); 16]> = SmallVec::new();
        for &s in stmts {
            let Stmt::Store { buffer: b, index, value } = self.kernel.stmts.get(s) else { break };
            let Some((of_row, lane)) = copied_row(arena, value) else { break };
            let lane = usize::from(lane);
            if b != buffer || of_row != vectors || places.last().is_some_and(|&(before, _)| lane <= before) {
                break;
            }
            places.push((lane, index));
        }
        let mut loads = SmallVec::<[_; 64]>::new();
        for &vector in &vectors {
            match arena.expr(vector) {
                Expr::Load(b, index) if b != buffer => loads.push((b, index)),
                _ => return None,
            }
        }
        let mut sources = SmallVec::<[_; 64]>::new();
        for (b, index) in loads {
            sources.push(self.address(b, index)?);
        }
        let mut targets = SmallVec::<[_; 16]>::new();
        for (lane, index) in places {
            targets.push((lane, self.address(buffer, index)?));
        }
        // From here on there is code.
        let mut rows = Pieces::new();
        for k in 0..columns {
            let mut row = self.fresh();
            self.push(Inst::Load { dst: row, mem: sources[k], elem: Elem::F32, width: Width::X });
            for (chunk, &mem) in sources.iter().skip(k).step_by(columns).enumerate().skip(1) {
                let dst = self.fresh();
                self.push(Inst::InsertChunk { dst, a: row, mem, chunk: chunk as u8, width });
                row = dst;
            }
            rows.push(row);
        }
        let (low, high, elem) = match dtype.bytes() {
            1 => (Op2::LowLanes, Op2::HighLanes, Elem::U8),
            2 => (Op2::LowWords, Op2::HighWords, Elem::I32),
            4 => (Op2::LowLanes, Op2::HighLanes, Elem::F32),
            _ => (Op2::LowLanes, Op2::HighLanes, Elem::F64),
        };
        let n_steps = columns.ilog2();
        for step in 1..=n_steps {
            let (first, second) = rows.split_at(columns / 2);
            let is_needed = |row: usize| step < n_steps || targets.iter().any(|&(lane, _)| lane == row);
            let mut mixed = Pieces::new();
            for (pair, (&a, &b)) in first.iter().zip(second).enumerate() {
                for (op, row) in [(low, 2 * pair), (high, 2 * pair + 1)] {
                    mixed.push(if is_needed(row) { self.shuffle(op, a, b, elem, width) } else { a });
                }
            }
            rows = mixed;
        }
        let n_stored = targets.len();
        for (lane, mem) in targets {
            self.push(Inst::Store { src: rows[lane], mem, elem: Elem::F32, width });
        }
        self.forget_buffer(buffer);
        Some(n_stored)
    }

    /// A row of a transposed square. All rows of the square are computed at once, and kept.
    pub(super) fn row(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let (square, lane) = row_of(&self.kernel.arena, e)?;
        let Shape { elem, width, n, last } = *shape;
        let (in_chunk, chunks) = match width {
            Width::Y => (16 / elem.bytes(), 2),
            Width::Z => (16 / elem.bytes(), 4),
            Width::Scalar | Width::Half | Width::X => return None,
        };
        if n != 1 || last.is_some() || square.len() != in_chunk * chunks {
            return None;
        }
        if let Some(row) = self.row_of_chunks(&square, lane, shape, in_chunk) {
            return Some(row);
        }
        // By position in the chunk, then by group of rows.
        let mut groups: Vec<Pieces> = vec![Pieces::new(); in_chunk];
        for group in square.chunks(in_chunk) {
            let mut rows = Pieces::new();
            for &vector in group {
                rows.push(self.expr(vector)?[0]);
            }
            for (e, mixed) in self.in_chunks(&rows, elem, width).into_iter().enumerate() {
                groups[e].push(mixed);
            }
        }
        let mut found = None;
        for (e, groups) in groups.iter().enumerate() {
            for (chunk, row) in self.of_chunks(groups, elem, width).into_iter().enumerate() {
                let number = (chunk * in_chunk + e) as u16;
                if number == lane {
                    found = Some(Pieces::from_elem(row, 1));
                } else {
                    let items: Square = square.iter().map(|&v| self.kernel.arena.extract(v, number)).collect();
                    let other = self.kernel.arena.pack(&items);
                    self.remember(other, Pieces::from_elem(row, 1));
                }
            }
        }
        found
    }

    /// A row of a transposed square whose vectors are loaded chunk by chunk; `None`, without any code, if they are not all
    /// in memory as they are, near each other. The rows from the same chunks are kept.
    fn row_of_chunks(&mut self, square: &Square, lane: u16, shape: &Shape, in_chunk: usize) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        let first = usize::from(lane) / in_chunk * in_chunk;
        let shuffles_are_cheap = self.features.cheap_shuffles && width == Width::Z;
        if self.guard.is_some() || shuffles_are_cheap {
            return None;
        }
        let mut sources = SmallVec::<[Mem; 16]>::new();
        for &vector in square {
            let Expr::Load(buffer, index) = self.kernel.arena.expr(vector) else { return None };
            if self.kernel.arena.lanes(index) != 1 || self.kernel.buffer(buffer).dtype.bytes() != elem.bytes() {
                return None;
            }
            let index = self.kernel.arena.add_const(index, first as i64);
            sources.push(self.address(buffer, index)?);
        }
        let first_source = *sources.first()?;
        let is_near = |mem: &Mem| mem.stream == first_source.stream && mem.disp.abs_diff(first_source.disp) <= NEAR;
        if !sources.iter().all(is_near) {
            return None;
        }
        // From here on there is code.
        let mut rows = Pieces::new();
        for k in 0..in_chunk {
            let mut row = self.fresh();
            self.push(Inst::Load { dst: row, mem: sources[k], elem: Elem::F32, width: Width::X });
            for (chunk, &mem) in sources.iter().skip(k).step_by(in_chunk).enumerate().skip(1) {
                let dst = self.fresh();
                self.push(Inst::InsertChunk { dst, a: row, mem, chunk: chunk as u8, width });
                row = dst;
            }
            rows.push(row);
        }
        let mut found = None;
        for (e, row) in self.in_chunks(&rows, elem, width).into_iter().enumerate() {
            let number = (first + e) as u16;
            let row = Pieces::from_elem(row, 1);
            if number == lane {
                found = Some(row);
            } else {
                let items: Square = square.iter().map(|&v| self.kernel.arena.extract(v, number)).collect();
                let other = self.kernel.arena.pack(&items);
                self.remember(other, row);
            }
        }
        found
    }

    fn shuffle(&mut self, op: Op2, a: VReg, b: VReg, elem: Elem, width: Width) -> VReg {
        let dst = self.fresh();
        self.push(Inst::Binary { op, dst, a, b, elem, width });
        dst
    }

    /// Transposes small squares, one in each chunk.
    fn in_chunks(&mut self, rows: &[VReg], elem: Elem, width: Width) -> Pieces {
        use Op2::{HighLanes, LowLanes};
        match *rows {
            [a, b, c, d] => {
                let low = [self.shuffle(LowLanes, a, b, elem, width), self.shuffle(LowLanes, c, d, elem, width)];
                let high = [self.shuffle(HighLanes, a, b, elem, width), self.shuffle(HighLanes, c, d, elem, width)];
                // Pairs of lanes move together.
                let mut pairs = Pieces::new();
                for [x, y] in [low, high] {
                    pairs.push(self.shuffle(LowLanes, x, y, Elem::F64, width));
                    pairs.push(self.shuffle(HighLanes, x, y, Elem::F64, width));
                }
                pairs
            }
            [a, b] => smallvec![self.shuffle(LowLanes, a, b, elem, width), self.shuffle(HighLanes, a, b, elem, width)],
            _ => rows.into(),
        }
    }

    /// Transposes a square of chunks.
    fn of_chunks(&mut self, rows: &[VReg], elem: Elem, width: Width) -> Pieces {
        use Op2::{EvenChunks, OddChunks};
        match *rows {
            [a, b, c, d] => {
                let even = [self.shuffle(EvenChunks, a, b, elem, width), self.shuffle(EvenChunks, c, d, elem, width)];
                let odd = [self.shuffle(OddChunks, a, b, elem, width), self.shuffle(OddChunks, c, d, elem, width)];
                smallvec![
                    self.shuffle(EvenChunks, even[0], even[1], elem, width),
                    self.shuffle(EvenChunks, odd[0], odd[1], elem, width),
                    self.shuffle(OddChunks, even[0], even[1], elem, width),
                    self.shuffle(OddChunks, odd[0], odd[1], elem, width),
                ]
            }
            [a, b] => {
                smallvec![self.shuffle(EvenChunks, a, b, elem, width), self.shuffle(OddChunks, a, b, elem, width)]
            }
            _ => rows.into(),
        }
    }
}
