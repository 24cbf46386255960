//! Elements of 16 bits alone, in lanes of 16 bits: the part of [`super::build`] for regions that only move such elements, and
//! take minima and maxima of them.
//!
//! A register has twice as many of them as lanes of 32 bits, and nothing is converted. Single elements are computed with as
//! everywhere else, in a lane of 32 bits.
//!
//! There are instructions for minima of integers, and of float16 with AVX512-FP16. Vectors of bfloat16 that are computed take two registers
//! of float32, one with the elements at even places and one with those at odd places ([`even_odd`](super::even_odd)). Only values that are
//! elements of the type are computed this way, which need no rounding.

use super::build::{Builder, Lanes, Pieces, Shape};
use super::code::{Elem, Inst, Op1, Op2, VReg, Width};
use super::narrow::is_exact;
use crate::codegen::facts::neutral;
use crate::ir::{BinOp, DType};
use crate::loopir::{Expr, ExprId};

impl Builder<'_> {
    /// Whether a vector takes lanes of 16 bits.
    pub(super) fn is_of_words(&self, e: ExprId) -> bool {
        self.features.lanes == Lanes::Words && self.kernel.arena.lanes(e) > 1
    }

    /// Whether a vector of bfloat16 is in two registers for each one in memory.
    pub(super) fn is_split(&self, e: ExprId) -> bool {
        let arena = &self.kernel.arena;
        self.is_of_words(e)
            && arena.dtype(e) == DType::BFloat16
            && matches!(arena.expr(e), Expr::Binary(..) | Expr::Local(_) | Expr::Var(_))
    }

    /// The elements at even and at odd places of each piece of a vector of bfloat16, as float32.
    pub(super) fn split(&mut self, e: ExprId) -> Option<Pieces> {
        if self.is_split(e) {
            return self.expr(e);
        }
        let Shape { width, n, .. } = self.shape(e)?;
        // Fewer elements fill one register with lanes of 32 bits.
        if width.bytes()? < self.vector_bytes {
            return None;
        }
        if let Expr::Broadcast(one) = self.kernel.arena.expr(e)
            && let Some(bits) = self.constant_bits(one, Elem::F32)
        {
            return Some(Pieces::from_elem(self.constant(bits, Elem::F32), 2 * n));
        }
        let mut out = Pieces::new();
        for words in self.expr(e)? {
            out.extend(self.even_and_odd(words, width));
        }
        Some(out)
    }

    /// The pieces of a value that is stored: of 16-bit lanes.
    pub(super) fn stored_lanes(&mut self, e: ExprId) -> Option<Pieces> {
        if !self.is_split(e) {
            return self.expr(e);
        }
        if !is_exact(&self.kernel.arena, &self.exact, e) {
            return None;
        }
        let Shape { width, .. } = self.shape(e)?;
        let mut out = Pieces::new();
        for pair in self.expr(e)?.chunks(2) {
            let &[even, odd] = pair else { return None };
            let low = self.shifted_down(even, width);
            out.push(self.halves_joined(low, odd, width));
        }
        Some(out)
    }

    /// The operation on 16-bit lanes, if there is an instruction for it.
    pub(super) fn operation_on_words(&self, op: BinOp, elem: Elem) -> Option<Op2> {
        let is_known = match elem {
            Elem::I16 | Elem::U16 => true,
            Elem::F16 => self.features.float16 && matches!(op, BinOp::Min | BinOp::Max),
            // In two registers.
            Elem::BF16 => matches!(op, BinOp::Min | BinOp::Max),
            _ => false,
        };
        Op2::of(op, elem).filter(|_| is_known)
    }

    /// An operation on vectors of 16-bit elements.
    pub(super) fn binary_of_words(&mut self, op: BinOp, a: ExprId, b: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        let op = self.operation_on_words(op, elem)?;
        if elem == Elem::BF16 {
            let (a, b) = (self.split(a)?, self.split(b)?);
            return Some(self.binary(op, &a, &b, Elem::F32, width));
        }
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        Some(self.binary(op, &a, &b, elem, width))
    }

    /// Reduces all lanes of a vector of 16-bit elements to a lane of 32 bits.
    pub(super) fn reduce_words(&mut self, op: BinOp, a: ExprId) -> Option<Pieces> {
        let shape = self.shape(a)?;
        let Shape { elem, width, n, last } = shape;
        let lane_op = self.operation_on_words(op, elem)?;
        if elem == Elem::BF16 {
            let mut pieces = self.split(a)?;
            if let Some(lanes) = last {
                let neutral = neutral(&mut self.kernel.arena, op, DType::BFloat16)?;
                let otherwise = self.bits_of(neutral, Elem::F32)?;
                for (half, lanes) in [(2 * n - 2, lanes.div_ceil(2)), (2 * n - 1, lanes / 2)] {
                    let (mask, dst) = (self.first_lanes(lanes, Elem::F32), self.fresh());
                    let then = pieces[half];
                    self.push(Inst::Select { dst, mask, then, otherwise, elem: Elem::F32, width });
                    pieces[half] = dst;
                }
            }
            return self.reduce_lanes(op, pieces, Elem::F32, width);
        }
        let pieces = self.with_neutral(op, a, &shape)?;
        let mut one = self.reduce_pieces(lane_op, pieces, elem, width)[0];
        let mut width = width;
        while width != Width::Scalar {
            let upper = self.unary(Op1::UpperHalf, &[one], Elem::I32, width);
            width = if width == Width::Half { Width::Scalar } else { width.half() };
            one = self.binary(lane_op, &[one], &upper, elem, width.max(Width::X))[0];
        }
        let upper = self.fresh();
        self.push(Inst::Shift { dst: upper, a: one, left: false, by: 16, width: Width::X });
        one = self.binary(lane_op, &[one], &[upper], elem, Width::X)[0];
        Some(Pieces::from_elem(self.widened_word(one, elem)?, 1))
    }

    /// The lowest lane of 16 bits in a lane of 32 bits.
    fn widened_word(&mut self, word: VReg, elem: Elem) -> Option<VReg> {
        match elem {
            Elem::F16 => Some(self.unary(Op1::FromF16, &[word], Elem::F32, Width::X)[0]),
            Elem::U16 => {
                let low = self.constant(0xffff, Elem::I32);
                Some(self.binary(Op2::And, &[word], &[low], Elem::I32, Width::X)[0])
            }
            Elem::I16 => {
                let (up, down) = (self.fresh(), self.fresh());
                self.push(Inst::Shift { dst: up, a: word, left: true, by: 16, width: Width::X });
                self.push(Inst::Shift { dst: down, a: up, left: false, by: 16, width: Width::X });
                Some(down)
            }
            _ => None,
        }
    }
}
