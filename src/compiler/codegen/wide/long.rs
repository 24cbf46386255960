//! Lanes of 64 bits: their conversion from and to lanes of 32 bits, which take half as many registers.

use super::bounds::{Bounds, bounds};
use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Op1, Op2, VReg, Width};
use super::gather::Chunk;
use crate::ir::{CmpOp, DType};
use crate::loopir::ExprId;
use smallvec::SmallVec;

impl Builder<'_> {
    /// Converts int64 or float64 to int32 or float32, or back; all registers of int64 must be whole.
    pub(super) fn resized(&mut self, a: ExprId, to: DType, shape: &Shape) -> Option<Pieces> {
        let from = self.shape(a)?;
        let whole = Width::of_bytes(self.vector_bytes)?;
        let of_wide = if from.elem.bytes() == 8 { &from } else { shape };
        let is_whole = of_wide.last.is_none() || of_wide.elem == Elem::F64;
        if !is_whole || of_wide.width == Width::Scalar {
            return None;
        }
        let value = self.expr(a)?;
        match (self.kernel.arena.dtype(a), to) {
            (DType::Int64, DType::Int32) => self.low_halves(&value, &from, shape),
            (DType::Int64, _) => {
                let floats = self.unary(Op1::LongToFloat, &value, Elem::I64, from.width);
                self.joined(&floats, shape)
            }
            (DType::Float64, DType::Int32) => {
                let limited = self.within_int32(&value, bounds(&self.kernel.arena, a), &from);
                let ints = self.unary(Op1::DoubleToInt, &limited, Elem::F64, from.width);
                self.joined(&ints, shape)
            }
            (DType::Float64, _) => {
                let floats = self.unary(Op1::DoubleToFloat, &value, Elem::F64, from.width);
                self.joined(&floats, shape)
            }
            (_, DType::Float64) => {
                let halves = self.halves(&value, shape)?;
                let op = if from.elem.is_int() { Op1::IntToDouble } else { Op1::FloatToDouble };
                Some(self.unary(op, &halves, Elem::F64, shape.width))
            }
            (DType::Int32, _) => {
                let halves = self.halves(&value, shape)?;
                Some(self.unary(Op1::Widen, &halves, Elem::I64, shape.width))
            }
            (DType::Float32, _) if self.features.masks && shape.width == whole => {
                let halves = self.halves(&value, shape)?;
                let longs = self.unary(Op1::FloatToLong, &halves, Elem::I64, shape.width);
                self.saturated(&halves, &longs, shape)
            }
            _ => None,
        }
    }

    /// The floats that become the largest int32 limited to it, and NaN to 0: what is too small becomes the smallest int32 by itself.
    fn within_int32(&mut self, value: &[VReg], known: Option<Bounds>, from: &Shape) -> Pieces {
        let (width, elem) = (from.width, Elem::F64);
        let largest = f64::from(i32::MAX);
        let mut out = Pieces::new();
        for &a in value {
            let mut a = a;
            if known.is_none() {
                let zero = self.constant(0, elem);
                let (mask, dst) = (self.fresh_mask(), self.fresh());
                self.push(Inst::Compare { op: CmpOp::Eq, dst: mask, a, b: a, elem, width });
                self.push(Inst::Select { dst, mask, then: a, otherwise: zero, elem, width });
                a = dst;
            }
            if known.is_none_or(|b| b.high > largest) {
                let limit = self.constant(largest.to_bits(), elem);
                a = self.binary(Op2::Min, &[a], &[limit], elem, width)[0];
            }
            out.push(a);
        }
        out
    }

    /// The low 32 bits of lanes.
    fn low_halves(&mut self, value: &[VReg], from: &Shape, shape: &Shape) -> Option<Pieces> {
        let words = from.width.bytes()? / 4;
        let per_piece = self.vector_bytes / 4;
        let lanes = value.len() * words / 2;
        let mut out = Pieces::new();
        for first in (0..lanes).step_by(per_piece) {
            let last = (first + per_piece).min(lanes);
            let mut chunks: SmallVec<[Chunk; 4]> = SmallVec::new();
            let mut sources: SmallVec<[(usize, u8); 16]> = SmallVec::new();
            for lane in first..last {
                let (register, word) = (2 * lane / words, 2 * lane % words);
                let known = chunks.iter().position(|c| c.start == register as i64);
                let chunk = known.unwrap_or_else(|| {
                    chunks.push(Chunk { start: register as i64, register: value[register] });
                    chunks.len() - 1
                });
                sources.push((chunk, word as u8));
            }
            out.push(self.selected(&chunks, &sources, &Shape { elem: Elem::I32, ..*shape })?);
        }
        Some(out)
    }

    /// The lower and the upper halves of registers with twice as many lanes as those of the shape.
    fn halves(&mut self, value: &[VReg], shape: &Shape) -> Option<Pieces> {
        if shape.width < Width::X {
            return None;
        }
        let mut out = Pieces::new();
        for i in 0..shape.n {
            let register = *value.get(i / 2)?;
            out.push(match i % 2 {
                0 => register,
                _ => self.unary(Op1::UpperHalf, &[register], Elem::I32, shape.width)[0],
            });
        }
        Some(out)
    }

    /// Pairs of half registers, each in one register.
    fn joined(&mut self, halves: &[VReg], shape: &Shape) -> Option<Pieces> {
        let lanes = self.vector_bytes / 8;
        let mut out = Pieces::new();
        for pair in halves.chunks(2) {
            let &[low, high] = pair else {
                out.push(pair[0]);
                continue;
            };
            let chunks = [Chunk { start: 0, register: low }, Chunk { start: 1, register: high }];
            let sources: SmallVec<[(usize, u8); 16]> =
                (0..2 * lanes).map(|lane| (lane / lanes, (lane % lanes) as u8)).collect();
            out.push(self.selected(&chunks, &sources, shape)?);
        }
        Some(out)
    }

    /// The largest int64 where floats are too large for it, and 0 where they are NaN.
    fn saturated(&mut self, floats: &[VReg], longs: &[VReg], shape: &Shape) -> Option<Pieces> {
        let width = shape.width.half();
        let limit = self.constant(u64::from(2f32.powi(63).to_bits()), Elem::F32);
        let largest = self.constant(i64::MAX as u64, Elem::I64);
        let zero = self.constant(0, Elem::I64);
        let mut out = Pieces::new();
        for (&float, &long) in floats.iter().zip(longs) {
            let (large, nan) = (self.fresh_mask(), self.fresh_mask());
            let (clamped, dst) = (self.fresh(), self.fresh());
            let elem = Elem::I64;
            self.push(Inst::Compare { op: CmpOp::Ge, dst: large, a: float, b: limit, elem: Elem::F32, width });
            self.push(Inst::Select {
                dst: clamped,
                mask: large,
                then: largest,
                otherwise: long,
                elem,
                width: shape.width,
            });
            self.push(Inst::Compare { op: CmpOp::Ne, dst: nan, a: float, b: float, elem: Elem::F32, width });
            self.push(Inst::Select { dst, mask: nan, then: zero, otherwise: clamped, elem, width: shape.width });
            out.push(dst);
        }
        Some(out)
    }

    /// The masks of a condition on lanes of one size, for lanes of another size.
    pub(super) fn masks_for(&mut self, masks: Pieces, from: &Shape, shape: &Shape) -> Option<Pieces> {
        if from.elem.bytes() == shape.elem.bytes() {
            return (from.n == shape.n).then_some(masks);
        }
        // Other instruction sets have lanes of all ones, which would have to be converted.
        if !self.features.masks {
            return None;
        }
        let mut out = Pieces::new();
        if from.n == shape.n {
            return Some(masks);
        }
        if from.n == 2 * shape.n && self.vector_bytes == 64 {
            for pair in masks.chunks(2) {
                let dst = self.fresh_mask();
                self.push(Inst::JoinMasks { dst, low: pair[0], high: *pair.get(1)? });
                out.push(dst);
            }
            return Some(out);
        }
        if 2 * from.n == shape.n && self.vector_bytes == 64 {
            for a in masks {
                let dst = self.fresh_mask();
                self.push(Inst::UpperMask { dst, a });
                out.extend([a, dst]);
            }
            return Some(out);
        }
        None
    }
}
