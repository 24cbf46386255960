//! Reductions of all lanes of vectors, by halves.
//!
//! ```text
//! s + reduce(add, a[0; 64]) + reduce(add, a[64; 36])
//! ```
//!
//! The four and three registers of both vectors are added up first, and the lanes of one register then: what lies in several vectors,
//! such as the last elements of a row, is added lane by lane as long as that is possible.
//!
//! As many vectors as each has lanes become a vector of their sums: two vectors are interleaved and added, which leaves half as many lanes
//! for each of them, until every lane belongs to another vector. With four lanes:
//!
//! ```text
//! a0 a1 a2 a3     a0+a2 b0+b2 a1+a3 b1+b3     a b c d
//! b0 b1 b2 b3
//! c0 c1 c2 c3     c0+c2 d0+d2 c1+c3 d1+d3
//! d0 d1 d2 d3
//! ```

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Op1, Op2, VReg, Width};
use crate::codegen::facts::neutral;
use crate::ir::{BinOp, DType};
use crate::loopir::{Arena, Expr, ExprId};
use smallvec::SmallVec;

/// The operands of a chain of equal operations.
type Operands = SmallVec<[ExprId; 4]>;

/// The vectors that a chain of an operation reduces, two or more, and its other operands.
pub(super) fn several(arena: &Arena, op: BinOp, e: ExprId) -> Option<(Operands, Operands)> {
    let (mut vectors, mut others) = (Operands::new(), Operands::new());
    let mut pending = Operands::from_slice(&[e]);
    while let Some(e) = pending.pop() {
        match arena.expr(e) {
            Expr::Binary(same, a, b) if same == op => pending.extend([b, a]),
            Expr::Reduce(same, a) if same == op => vectors.push(a),
            _ => others.push(e),
        }
    }
    let dtype = arena.dtype(e);
    // Floats of 16 bits have lanes of `float32`.
    let is_float = matches!(dtype, DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64);
    (vectors.len() > 1 && is_float).then_some((vectors, others))
}

/// The operation, and for each lane the vectors whose lanes it combines, if a vector of floats is packed from reductions by one
/// operation. Those of 16 bits have lanes of `float32`.
pub(super) fn rows_of(arena: &Arena, e: ExprId) -> Option<(BinOp, SmallVec<[Operands; 16]>)> {
    let Expr::Pack(list) = arena.expr(e) else { return None };
    let items = arena.list(list);
    let (Expr::Reduce(op, _) | Expr::Binary(op, ..)) = arena.expr(*items.first()?) else { return None };
    let row = |&item: &ExprId| match arena.expr(item) {
        Expr::Reduce(same, a) if same == op => Some(Operands::from_slice(&[a])),
        _ => several(arena, op, item).filter(|(_, others)| others.is_empty()).map(|(vectors, _)| vectors),
    };
    let rows = items.iter().map(row).collect::<Option<_>>()?;
    let dtype = arena.dtype(e);
    (dtype == DType::Float32 || dtype.is_half()).then_some((op, rows))
}

impl Builder<'_> {
    /// The reductions of as many rows as there are lanes.
    pub(super) fn reduce_rows(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let (op, rows) = rows_of(&self.kernel.arena, e)?;
        let Shape { elem, width, n, last } = *shape;
        if n != 1 || last.is_some() || elem != Elem::F32 || !matches!(width, Width::Y | Width::Z) {
            return None;
        }
        let lane_op = Op2::of(op, elem)?;
        // Vectors of so many rows each, in their order, the largest first.
        let mut waiting: SmallVec<[(u32, VReg); 6]> = SmallVec::new();
        for row in rows {
            let mut pieces = Pieces::new();
            for a in row {
                let of = self.shape(a)?;
                if (of.width, of.elem) != (width, elem) {
                    return None;
                }
                pieces.extend(self.with_neutral(op, a, &of)?);
            }
            let mut one = (0, self.reduce_pieces(lane_op, pieces, elem, width)[0]);
            while let Some(&(rank, first)) = waiting.last().filter(|&&(rank, _)| rank == one.0) {
                waiting.pop();
                one = (rank + 1, self.merged_rows(lane_op, rank, [first, one.1], elem, width));
            }
            waiting.push(one);
        }
        match waiting[..] {
            [(_, all)] => Some(Pieces::from_elem(all, 1)),
            _ => None,
        }
    }

    /// Combines two vectors of `2^rank` rows each.
    fn merged_rows(&mut self, op: Op2, rank: u32, [a, b]: [VReg; 2], elem: Elem, width: Width) -> VReg {
        let (low, high, lanes) = match rank {
            0 => (Op2::LowLanes, Op2::HighLanes, elem),
            // Pairs of lanes move together.
            1 => (Op2::LowLanes, Op2::HighLanes, Elem::F64),
            _ => (Op2::EvenChunks, Op2::OddChunks, elem),
        };
        let low = self.binary(low, &[a], &[b], lanes, width)[0];
        let high = self.binary(high, &[a], &[b], lanes, width)[0];
        self.binary(op, &[low], &[high], elem, width)[0]
    }

    /// A chain of an operation whose vectors, of registers of one width, are reduced together.
    pub(super) fn reduce_with(&mut self, op: BinOp, vectors: &[ExprId], others: &[ExprId]) -> Option<Pieces> {
        let Shape { elem, width, .. } = self.shape(vectors[0])?;
        let mut rest: SmallVec<[_; 4]> = SmallVec::new();
        let mut together = Pieces::new();
        for &a in vectors {
            let shape = self.shape(a)?;
            match shape.width == width {
                true => together.extend(self.with_neutral(op, a, &shape)?),
                false => rest.extend(self.reduce(op, a)?),
            }
        }
        rest.extend(self.reduce_lanes(op, together, elem, width)?);
        let op = Op2::of(op, elem)?;
        // Those that are there first.
        let mut all: SmallVec<[_; 4]> = SmallVec::new();
        for &e in others {
            all.extend(self.expr(e)?);
        }
        all.extend(rest);
        let first = *all.first()?;
        let one = all[1..].iter().fold(first, |one, &next| self.binary(op, &[one], &[next], elem, Width::Scalar)[0]);
        Some(Pieces::from_elem(one, 1))
    }

    /// Reduces all lanes of a vector.
    pub(super) fn reduce(&mut self, op: BinOp, a: ExprId) -> Option<Pieces> {
        let shape = self.shape(a)?;
        let pieces = self.with_neutral(op, a, &shape)?;
        self.reduce_lanes(op, pieces, shape.elem, shape.width)
    }

    /// The pieces of a vector, whose lanes that do not exist change no result.
    pub(super) fn with_neutral(&mut self, op: BinOp, a: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, n, last } = *shape;
        let dtype = self.kernel.arena.dtype(a);
        let neutral = neutral(&mut self.kernel.arena, op, dtype)?;
        let mut pieces = self.expr(a)?;
        if let Some(lanes) = last {
            let (mask, otherwise) = (self.first_lanes(lanes, elem), self.bits_of(neutral, elem)?);
            let (dst, then) = (self.fresh(), pieces[n - 1]);
            self.push(Inst::Select { dst, mask, then, otherwise, elem, width });
            pieces[n - 1] = dst;
        }
        Some(pieces)
    }

    /// Reduces all lanes of registers.
    pub(super) fn reduce_lanes(
        &mut self,
        op: BinOp,
        mut pieces: Pieces,
        elem: Elem,
        mut width: Width,
    ) -> Option<Pieces> {
        let op = Op2::of(op, elem)?;
        pieces = self.reduce_pieces(op, pieces, elem, width);
        let mut lanes = width.bytes()? / elem.bytes();
        let mut one = pieces[0];
        while lanes > 1 {
            let upper = self.fresh();
            self.push(Inst::Unary { op: Op1::UpperHalf, dst: upper, a: one, elem, width });
            lanes /= 2;
            width = if lanes == 1 { Width::Scalar } else { width.half() };
            let dst = self.fresh();
            self.push(Inst::Binary { op, dst, a: one, b: upper, elem, width });
            one = dst;
        }
        Some(Pieces::from_elem(one, 1))
    }

    /// Combines registers to one.
    pub(super) fn reduce_pieces(&mut self, op: Op2, mut pieces: Pieces, elem: Elem, width: Width) -> Pieces {
        let mut left = pieces.len();
        while left > 1 {
            let half = left / 2;
            let merged = self.binary(op, &pieces[..half], &pieces[left - half..], elem, width);
            let middle: Pieces = pieces[half..left - half].into();
            pieces = merged.into_iter().chain(middle).collect();
            left = pieces.len();
        }
        pieces
    }

    /// Reduces all lanes of bytes by halving, down to the lowest one.
    pub(super) fn reduce_bytes(&mut self, op: BinOp, a: ExprId) -> Option<Pieces> {
        let shape = self.shape(a)?;
        let Shape { elem, mut width, .. } = shape;
        let pieces = self.with_neutral(op, a, &shape)?;
        let op = Op2::of(op, elem).filter(|&op| op != Op2::Mul)?;
        let mut one = pieces[0];
        for &piece in &pieces[1..] {
            one = self.binary(op, &[one], &[piece], elem, width)[0];
        }
        while width != Width::Scalar {
            let upper = self.unary(Op1::UpperHalf, &[one], Elem::I32, width);
            width = if width == Width::Half { Width::Scalar } else { width.half() };
            one = self.binary(op, &[one], &upper, elem, width)[0];
        }
        for by in [16, 8] {
            let dst = self.fresh();
            self.push(Inst::Shift { dst, a: one, left: false, by, width: Width::X });
            one = self.binary(op, &[one], &[dst], elem, Width::Scalar)[0];
        }
        Some(Pieces::from_elem(one, 1))
    }
}
