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

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Op2, VReg, Width};
use crate::loopir::{Arena, Expr, ExprId};
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

impl Builder<'_> {
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
