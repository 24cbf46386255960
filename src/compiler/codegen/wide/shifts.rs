//! Shifts of integers: the part of [`super::build`] for shifts by counts of any size.
//!
//! A count outside the width of the type shifts all bits out, which is what the instructions do with a count outside the
//! width of a lane, taken as an unsigned number. Lanes of 32 bits that hold narrower integers are no exception: bits that
//! are shifted to the left out of the type are cut off afterwards, and to the right come copies of the sign.
//!
//! There are no shifts of bytes. Bytes at even and at odd places are shifted as parts of 16-bit lanes, in which a byte
//! that is to keep its sign stands in the upper half:
//!
//! ```text
//! x0 x1 | x2 x3 | …       0 x0 | 0 x2 | …      even: shifted by the even counts, then down
//!                        x0 x1 | x2 x3 | …     odd: shifted by the odd counts, the lower halves cut off
//! ```

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Op2, Shift16, VReg};
use super::narrow::is_narrow;
use crate::ir::{Const, DType, Intrinsic};
use crate::loopir::{Arena, ExprId};

/// The lower bytes of 16-bit lanes.
const LOWER_BYTES: u64 = 0x00ff_00ff;
/// The upper bytes of 16-bit lanes.
const UPPER_BYTES: u64 = 0xff00_ff00;

/// The count of a shift of 32-bit lanes, if it is a constant less than their width.
fn constant_count(arena: &Arena, e: ExprId) -> Option<u8> {
    match arena.as_const(e) {
        Some(Const::Int(n)) => u8::try_from(n).ok().filter(|&n| n < 32),
        Some(Const::Float(_)) | None => None,
    }
}

impl Builder<'_> {
    /// `a` shifted by the counts.
    pub(super) fn shift(&mut self, f: Intrinsic, a: ExprId, by: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        let dtype = self.kernel.arena.dtype(a);
        let left = f == Intrinsic::ShiftLeft;
        if elem.bytes() == 1 {
            return self.shift_bytes(left, a, by, shape);
        }
        let shifted = match constant_count(&self.kernel.arena, by).filter(|_| elem == Elem::I32) {
            Some(by) => {
                let mut out = Pieces::new();
                for a in self.expr(a)? {
                    let dst = self.fresh();
                    self.push(Inst::Shift { dst, a, left, by, width });
                    out.push(dst);
                }
                out
            }
            None => {
                let (a, by) = (self.expr(a)?, self.expr(by)?);
                let op = if left { Op2::ShiftLeft } else { Op2::ShiftRight };
                self.binary(op, &a, &by, elem, width)
            }
        };
        let leaves_range = left && elem == Elem::I32 && is_narrow(dtype);
        Some(if leaves_range { self.wrapped(shifted, DType::Int32, dtype, width) } else { shifted })
    }

    /// As [`shift`](Self::shift), for lanes of bytes.
    fn shift_bytes(&mut self, left: bool, a: ExprId, by: ExprId, shape: &Shape) -> Option<Pieces> {
        // Shifts of 16-bit lanes by different counts come with the masks of such lanes.
        if !self.features.masks {
            return None;
        }
        let is_signed = shape.elem == Elem::I8;
        let same = match self.kernel.arena.as_const(by) {
            Some(Const::Int(by)) => Some(self.constant(u64::from(by as u8) * 0x0001_0001, Elem::I32)),
            Some(Const::Float(_)) | None => None,
        };
        let counts = if same.is_none() { Some(self.expr(by)?) } else { None };
        let mut out = Pieces::new();
        for (i, a) in self.expr(a)?.into_iter().enumerate() {
            let (by_even, by_odd) = match (same, &counts) {
                (Some(same), _) => (same, same),
                (None, Some(counts)) => {
                    let by = *counts.get(i)?;
                    (self.part_of_bytes(by, LOWER_BYTES, shape), self.shift_by_byte(by, Shift16::Right, shape))
                }
                (None, None) => return None,
            };
            let (even, odd) = match (left, is_signed) {
                (true, _) => {
                    let even = self.shift_words(Op2::ShiftLeft, Elem::U16, a, by_even, shape);
                    let upper = self.part_of_bytes(a, UPPER_BYTES, shape);
                    let odd = self.shift_words(Op2::ShiftLeft, Elem::U16, upper, by_odd, shape);
                    (self.part_of_bytes(even, LOWER_BYTES, shape), odd)
                }
                (false, false) => {
                    let lower = self.part_of_bytes(a, LOWER_BYTES, shape);
                    let even = self.shift_words(Op2::ShiftRight, Elem::U16, lower, by_even, shape);
                    let odd = self.shift_words(Op2::ShiftRight, Elem::U16, a, by_odd, shape);
                    (even, self.part_of_bytes(odd, UPPER_BYTES, shape))
                }
                (false, true) => {
                    let up = self.shift_by_byte(a, Shift16::Left, shape);
                    let even = self.shift_words(Op2::ShiftRight, Elem::I16, up, by_even, shape);
                    let odd = self.shift_words(Op2::ShiftRight, Elem::I16, a, by_odd, shape);
                    let even = self.shift_by_byte(even, Shift16::Right, shape);
                    (even, self.part_of_bytes(odd, UPPER_BYTES, shape))
                }
            };
            out.extend(self.binary(Op2::Or, &[even], &[odd], shape.elem, shape.width));
        }
        Some(out)
    }

    fn shift_words(&mut self, op: Op2, elem: Elem, a: VReg, by: VReg, shape: &Shape) -> VReg {
        self.binary(op, &[a], &[by], elem, shape.width)[0]
    }

    fn shift_by_byte(&mut self, a: VReg, kind: Shift16, shape: &Shape) -> VReg {
        let dst = self.fresh();
        self.push(Inst::ShiftByte { dst, a, kind, width: shape.width });
        dst
    }

    fn part_of_bytes(&mut self, a: VReg, part: u64, shape: &Shape) -> VReg {
        let part = self.constant(part, Elem::I32);
        self.binary(Op2::And, &[a], &[part], shape.elem, shape.width)[0]
    }
}
