//! Vectors of bfloat16 that are in registers by even and odd places: the part of [`super::build`] for regions in which the order of
//! lanes does not matter.
//!
//! A register of memory has twice as many elements as one of float32. Widening half of it at a time moves lanes between the parts of a
//! register. Its even and its odd elements are already in lanes of 32 bits, and a shift and a mask convert them:
//!
//! ```text
//! x0 x1 | x2 x3 | …      0 x0 | 0 x2 | …      even: the low halves of the lanes, shifted up
//!                        0 x1 | 0 x3 | …      odd: the high halves
//! ```
//!
//! A vector has the pieces that it has elsewhere; only which elements are in which lane differs, for as many pieces as fill registers of
//! memory. The others, of the end of a vector, are widened. So vectors with equally many lanes agree, and all that works lane by lane is
//! as elsewhere, and so are reductions. Packs of lanes take them from where they are: every second lane of a row, such as a window with a
//! stride needs, is a register already. A region with anything else ([`keeps_lanes`] decides) is built with lanes in their order.

use super::build::{Builder, Lanes, Shape};
use super::code::{Elem, Inst, Mem, Memory, Op2, VReg, Width};
use super::narrow::Bf16Rounding;
use super::{each, reduce, shuffle, values};
use crate::ir::DType;
use crate::loopir::{Expr, ExprId, Kernel, Stmt, StmtId};
use smallvec::SmallVec;

/// The bits of the upper 16-bit half of each lane of 32 bits.
pub(super) const UPPER_HALF: u64 = 0xffff_0000;
/// The lanes of 16 bits at odd places.
const ODD_LANES: u64 = 0xaaaa_aaaa;

/// Whether vectors of bfloat16 that fill a register of `vector_bytes` in memory are loaded or stored, and all statements work on such
/// vectors lane by lane, or reduce them.
pub(super) fn keeps_lanes(kernel: &Kernel, stmts: &[StmtId], vector_bytes: usize) -> bool {
    let arena = &kernel.arena;
    let is_long = |e: ExprId| usize::from(arena.lanes(e)) >= vector_bytes / 2;
    let (mut keeps, mut moves_any) = (true, false);
    let mut check = |e: ExprId| {
        let is_long_value = is_long(e);
        let is_lane = match arena.dtype(e) {
            DType::BFloat16 | DType::Float32 | DType::Int32 | DType::Bool => true,
            _ => !is_long_value,
        };
        keeps &= is_lane
            && match arena.expr(e) {
                Expr::Load(_, index) if is_long_value => {
                    moves_any = true;
                    arena.dtype(e) == DType::BFloat16 && arena.lanes(index) == 1
                }
                // The other conversions of bytes to lanes.
                Expr::Reinterpret(a) => arena.lanes(a) == arena.lanes(e),
                Expr::Pack(_) => {
                    !is_long_value && reduce::rows_of(arena, e).is_some() || shuffle::lanes_of(arena, e).is_some()
                }
                Expr::IfThenElse(..) => !is_long_value,
                Expr::Ramp(..) | Expr::Extract(..) | Expr::Lookup(..) | Expr::Dot4(..) => false,
                Expr::Int(_)
                | Expr::Float(_)
                | Expr::Var(_)
                | Expr::Local(_)
                | Expr::Load(..)
                | Expr::Broadcast(_)
                | Expr::Binary(..)
                | Expr::Call(..)
                | Expr::Cast(_)
                | Expr::Compare(..)
                | Expr::Not(_)
                | Expr::Select(..)
                | Expr::Reduce(..) => true,
            };
    };
    let mut stores = true;
    for &s in stmts {
        each(kernel, s, &mut |stmt| match stmt {
            Stmt::Store { buffer, index, value } => {
                let is_bf16 = kernel.buffer(buffer).dtype == DType::BFloat16 && arena.lanes(index) == 1;
                stores &= is_bf16 || !is_long(value);
                values(arena, value, &mut check);
            }
            Stmt::Let { value, .. } | Stmt::Set { value, .. } => values(arena, value, &mut check),
            Stmt::For(_) | Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        });
    }
    keeps && stores && moves_any
}

impl Builder<'_> {
    /// Number of pieces of a vector of bfloat16 that are apart: those that fill registers of memory.
    pub(super) fn n_apart(&self, memory: Memory, shape: &Shape) -> usize {
        if self.features.lanes != Lanes::EvenOdd || memory != Memory::BF16 {
            return 0;
        }
        let n_full = shape.n - usize::from(shape.last.is_some());
        if shape.width.bytes() == Some(self.vector_bytes) { n_full / 2 * 2 } else { 0 }
    }

    /// The piece of a vector of `n` lanes that has an element, and its lane there.
    pub(super) fn place_of(&self, n: usize, element: usize, per_piece: usize) -> (usize, usize) {
        let (pair, within) = (element / (2 * per_piece), element % (2 * per_piece));
        match self.is_apart(n, 2 * pair) {
            true => (2 * pair + within % 2, within / 2),
            false => (element / per_piece, element % per_piece),
        }
    }

    /// The element of a vector of `n` lanes that a lane of a piece has.
    pub(super) fn element_of(&self, n: usize, piece: usize, lane: usize, per_piece: usize) -> usize {
        match self.is_apart(n, piece) {
            true => piece / 2 * 2 * per_piece + 2 * lane + piece % 2,
            false => piece * per_piece + lane,
        }
    }

    /// Whether a piece of a vector of `n` lanes has elements at even or at odd places. So many lanes have 32 bits.
    fn is_apart(&self, n: usize, piece: usize) -> bool {
        self.features.lanes == Lanes::EvenOdd && piece / 2 < n / (self.vector_bytes / 2)
    }

    /// Loads the even and odd elements of a register of memory, from the `i`-th piece on.
    pub(super) fn load_apart(&mut self, at: Mem, i: usize, shape: &Shape) -> Option<[VReg; 2]> {
        // Elements that exist under a condition have an order.
        if self.guard.is_some() {
            return None;
        }
        let (words, mem) = (self.fresh(), self.narrow_piece(at, i, Memory::BF16)?);
        self.push(Inst::Load { dst: words, mem, elem: Elem::BF16, width: shape.width });
        Some(self.even_and_odd(words, shape.width))
    }

    /// Stores even and odd elements, from the `i`-th piece on.
    pub(super) fn store_apart(
        &mut self,
        at: Mem,
        i: usize,
        [even, odd]: [VReg; 2],
        rounding: Bf16Rounding,
        width: Width,
    ) -> Option<()> {
        let mem = self.narrow_piece(at, i, Memory::BF16)?;
        let src = match rounding {
            Bf16Rounding::Instruction => {
                let words = self.binary(Op2::PackBf16, &[odd], &[even], Elem::F32, width)[0];
                let (indices, dst) = (self.by_turns(), self.fresh());
                self.push(Inst::PermuteWords { dst, indices, a: words, width });
                dst
            }
            _ => {
                let [even, odd] = [even, odd].map(|a| self.rounded_to_bf16(a, rounding, width));
                let low = self.shifted_down(even, width);
                self.halves_joined(low, odd, width)
            }
        };
        self.push(Inst::Store { src, mem, elem: Elem::BF16, width });
        Some(())
    }

    /// The elements of bfloat16 at even and at odd places of a register, as float32.
    pub(super) fn even_and_odd(&mut self, words: VReg, width: Width) -> [VReg; 2] {
        let even = self.fresh();
        self.push(Inst::Shift { dst: even, a: words, left: true, by: 16, width });
        let upper = self.constant(UPPER_HALF, Elem::I32);
        let odd = self.binary(Op2::And, &[words], &[upper], Elem::I32, width)[0];
        [even, odd]
    }

    /// The places in two halves of a register from which its 16-bit lanes come, by turns.
    fn by_turns(&mut self) -> VReg {
        let lanes = (self.vector_bytes / 4) as u32;
        let indices: SmallVec<[u32; 16]> = (0..lanes).map(|i| i | (lanes + i) << 16).collect();
        self.table(indices)
    }

    /// The low 16 bits of the lanes of one register, and the high ones of the other.
    pub(super) fn halves_joined(&mut self, low: VReg, high: VReg, width: Width) -> VReg {
        if self.features.masks {
            let (mask, dst) = (self.lane_mask(ODD_LANES, Elem::BF16), self.fresh());
            self.push(Inst::Select { dst, mask, then: high, otherwise: low, elem: Elem::BF16, width });
            return dst;
        }
        let [upper, lower] = [UPPER_HALF, !UPPER_HALF & u64::from(u32::MAX)].map(|c| self.constant(c, Elem::I32));
        let high = self.binary(Op2::And, &[high], &[upper], Elem::I32, width);
        let low = self.binary(Op2::And, &[low], &[lower], Elem::I32, width);
        self.binary(Op2::Or, &low, &high, Elem::I32, width)[0]
    }
}
