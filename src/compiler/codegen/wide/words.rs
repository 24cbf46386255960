//! Elements of 16 bits alone, in lanes of 16 bits: the part of [`super::build`] for regions that only move such elements, and
//! take minima and maxima of them.
//!
//! A register has twice as many of them as lanes of 32 bits, and nothing is converted. Single elements are computed with as
//! everywhere else, in a lane of 32 bits.
//!
//! There are instructions for minima of integers, and of float16 with AVX512-FP16. Limits of 16-bit floats that are constants, 0 or more,
//! are minima and maxima of their bits as integers. Other vectors of bfloat16 that are computed take two registers
//! of float32, one with the elements at even places and one with those at odd places ([`even_odd`](super::even_odd)). Only values that are
//! elements of the type are computed this way, which need no rounding.

use super::build::{Builder, Lanes, Pieces, Shape};
use super::code::{Elem, Inst, Op1, Op2, VReg, Width};
use super::narrow::is_exact;
use crate::codegen::facts::neutral;
use crate::ir::{BinOp, CmpOp, DType};
use crate::loopir::{Expr, ExprId};

/// The bits of an infinite float of 16 bits.
fn infinity(elem: Elem) -> u64 {
    if elem == Elem::BF16 { 0x7f80 } else { 0x7c00 }
}

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
            && self.limit(e).is_none()
    }

    /// The value, the operation and the bits of a limit that integers compute: a constant number, 0 or more, of vectors in lanes of 16
    /// bits.
    fn limit(&self, e: ExprId) -> Option<(ExprId, BinOp, u64)> {
        let arena = &self.kernel.arena;
        let Expr::Binary(op @ (BinOp::Min | BinOp::Max), a, b) = arena.expr(e) else { return None };
        let elem = Elem::of_words(arena.dtype(e))?;
        let has_instruction = elem == Elem::F16 && self.features.float16;
        let Expr::Broadcast(limit) = arena.expr(b) else { return None };
        let bits = self.constant_bits(limit, elem)?;
        // Of two zeros, the limit is the minimum, though -0 is less as an integer.
        let is_number = bits & 0xffff <= infinity(elem) && (op == BinOp::Max || bits != 0);
        let is_limit = !elem.is_int() && !has_instruction && is_number && !self.is_split(a);
        is_limit.then_some((a, op, bits))
    }

    /// A limit by integers. As integers, numbers below 0 are less than all others, and NaN is more than the numbers of its sign; but the
    /// result for it is the limit.
    fn limited(&mut self, a: ExprId, op: BinOp, bits: u64, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        let limit = self.constant(bits, Elem::I32);
        let value = self.expr(a)?;
        let limits = Pieces::from_elem(limit, value.len());
        let found = self.binary(Op2::of(op, Elem::I16)?, &value, &limits, Elem::I16, width);
        // A limit before has removed NaN.
        if self.limit(a).is_some() {
            return Some(found);
        }
        let (order, last) = match op {
            BinOp::Min => (Elem::U16, 0x8000 | infinity(elem)),
            _ => (Elem::I16, infinity(elem)),
        };
        let last = self.constant(last * 0x0001_0001, Elem::I32);
        let mut out = Pieces::new();
        for (&a, &otherwise) in value.iter().zip(&found) {
            let (mask, dst) = (self.fresh_mask(), self.fresh());
            self.push(Inst::Compare { op: CmpOp::Gt, dst: mask, a, b: last, elem: order, width });
            self.push(Inst::Select { dst, mask, then: limit, otherwise, elem, width });
            out.push(dst);
        }
        Some(out)
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
    pub(super) fn binary_of_words(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        if let Some((a, op, bits)) = self.limit(e) {
            return self.limited(a, op, bits, shape);
        }
        let Expr::Binary(op, a, b) = self.kernel.arena.expr(e) else { return None };
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
