//! Values under a condition that all lanes share: rows of padding.
//!
//! ```text
//! if_then_else(1 <= h + r && h + r < 57, X[(h + r) * 56 - 56; 56], splat(0.0, 56))
//! ```
//!
//! Region code has no branches. The operands of a comparison of indices are counted in a general register, like an
//! address; its sign becomes a mask of all lanes or none, under which all loads inside run. Memory of masked lanes is
//! not accessed, and these lanes are zero.

use super::RegionArg;
use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, LoopId, Op2, Stream, StreamId, VReg, Width};
use super::scattered::is_partly_scattered;
use super::window::is_windowed;
use crate::codegen::facts::{Reads, fails};
use crate::ir::{BinOp, CmpOp};
use crate::loopir::rewrite::{mentions_var, reads_memory};
use crate::loopir::{Affine, Arena, Expr, ExprId, Ty};
use smallvec::SmallVec;

/// Whether the expression is a selection by comparisons of indices that reads no memory if they do not hold.
pub(super) fn is_guarded(arena: &Arena, e: ExprId) -> bool {
    let Expr::IfThenElse(c, t, o) = arena.expr(e) else { return false };
    if arena.lanes(c) > 1 {
        return is_windowed(arena, e) || is_partly_scattered(arena, e);
    }
    is_condition(arena, c) && !reads_memory(arena, o) && !fails(arena, t) && !fails(arena, o)
}

/// Whether the condition consists of comparisons of indices.
pub(super) fn is_condition(arena: &Arena, c: ExprId) -> bool {
    match arena.expr(c) {
        Expr::Binary(BinOp::And, a, b) => is_condition(arena, a) && is_condition(arena, b),
        Expr::Compare(CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge, a, _) => {
            arena.ty(a) == Ty::INDEX && !reads_memory(arena, c)
        }
        _ => false,
    }
}

/// An expression that is negative exactly where an order comparison holds.
pub(super) fn negative_where(arena: &Arena, op: CmpOp, a: ExprId, b: ExprId) -> Option<Affine> {
    let (a, b) = (Affine::of(arena, a), Affine::of(arena, b));
    let mut difference = match op {
        CmpOp::Lt | CmpOp::Le => a.minus(&b),
        _ => b.minus(&a),
    };
    if matches!(op, CmpOp::Le | CmpOp::Ge) {
        difference.constant = difference.constant.checked_sub(1)?;
    }
    Some(difference)
}

impl Builder<'_> {
    /// The value of a selection whose condition all lanes share.
    pub(super) fn guarded(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Expr::IfThenElse(c, t, o) = self.kernel.arena.expr(e) else { return None };
        if self.kernel.arena.lanes(c) > 1 {
            return match is_partly_scattered(&self.kernel.arena, e) {
                true => self.partly_scattered(e, shape),
                false => self.windowed(e, shape),
            };
        }
        if !is_guarded(&self.kernel.arena, e) || self.guard.is_some() {
            return None;
        }
        let mask = self.mask_of(c)?;
        let otherwise = self.expr(o)?;
        self.guard = Some(mask);
        let pieces = self.unkept(t);
        self.guard = None;
        let pieces = pieces?;
        let Shape { elem, width, .. } = *shape;
        if elem.bytes() < 4 && (self.is_split(o) || !matches!(self.kernel.arena.expr(t), Expr::Load(..))) {
            return None;
        }
        let zero = match self.kernel.arena.expr(o) {
            Expr::Broadcast(a) => self.constant_bits(a, elem),
            _ => self.constant_bits(o, elem),
        };
        if zero == Some(0) && matches!(self.kernel.arena.expr(t), Expr::Load(..)) {
            return Some(pieces);
        }
        let mut out = Pieces::new();
        for (&then, &otherwise) in pieces.iter().zip(&otherwise) {
            let dst = self.fresh();
            self.push(Inst::Select { dst, mask, then, otherwise, elem, width });
            out.push(dst);
        }
        Some(out)
    }

    /// A mask of all lanes if the condition holds, of no lane otherwise.
    pub(super) fn mask_of(&mut self, c: ExprId) -> Option<VReg> {
        if let Some(known) = self.known(c) {
            return known.first().copied();
        }
        let mask = match self.kernel.arena.expr(c) {
            Expr::Binary(BinOp::And, a, b) => {
                let (a, b) = (self.mask_of(a)?, self.mask_of(b)?);
                self.both(a, b)
            }
            Expr::Compare(op, a, b) => {
                let difference = negative_where(&self.kernel.arena, op, a, b)?;
                self.is_negative(&difference)?
            }
            _ => return None,
        };
        self.remember(c, Pieces::from_elem(mask, 1));
        Some(mask)
    }

    /// The intersection of two masks.
    pub(super) fn both(&mut self, a: VReg, b: VReg) -> VReg {
        let dst = self.fresh_mask();
        if self.features.masks {
            self.push(Inst::MaskBinary { op: Op2::And, dst, a, b });
        } else {
            self.push(Inst::Binary { op: Op2::And, dst, a, b, elem: Elem::I32, width: Width::Y });
        }
        dst
    }

    /// A mask of all lanes if a sum is negative, of no lane otherwise.
    pub(super) fn is_negative(&mut self, sum: &Affine) -> Option<VReg> {
        let (stream, plus) = self.counter(sum, None)?;
        let dst = self.fresh_mask();
        self.push(Inst::Sign { dst, stream, plus });
        Some(dst)
    }

    /// The register that counts a sum, and a constant to add. With a limit, the part of the sum from outer loops is
    /// clamped to it, and the part that the region adds is much smaller: then the sum fits 32 bits, and a sum outside
    /// the lanes stays outside.
    pub(super) fn counter(&mut self, sum: &Affine, limit: Option<i64>) -> Option<(StreamId, i32)> {
        let mut outer = Affine::default();
        let mut steps: SmallVec<[(LoopId, i64); 4]> = SmallVec::new();
        for &(atom, c) in &sum.terms {
            match self.loop_of(atom) {
                Some(l) => steps.push((l, c)),
                None => {
                    let reads = self.reads_of(atom) != Reads::Nothing;
                    if reads || mentions_var(&self.kernel.arena, atom, &mut |v| self.is_inside(v)) {
                        return None;
                    }
                    outer.add_term(atom, c);
                }
            }
        }
        steps.sort_unstable();
        let arena = &mut self.kernel.arena;
        let mut origin = outer.to_expr(arena);
        if let Some(limit) = limit {
            let (least, most) = (arena.index(-limit), arena.index(limit));
            let low = arena.binary(BinOp::Max, origin, least);
            origin = arena.binary(BinOp::Min, low, most);
            let inside =
                |n: i64, &(l, c): &(LoopId, i64)| n.saturating_add(c.saturating_abs().saturating_mul(self.extent(l)));
            if steps.iter().fold(sum.constant.saturating_abs(), inside) > limit / 4 {
                return None;
            }
        }
        let slot = self.slot((None, origin), RegionArg::Value(origin));
        let stream = self.stream(Stream::of_argument(slot, steps))?;
        Some((stream, i32::try_from(sum.constant).ok()?))
    }

    /// The mask for loading this number of lanes of a register, and the width of the load.
    pub(super) fn guard_of_lanes(&mut self, shape: &Shape, lanes: Option<u8>) -> Option<(VReg, Width)> {
        let guard = self.guard?;
        let elem = shape.elem;
        let (lanes, width) = match shape.width {
            Width::Scalar => (Some(1), Width::X),
            Width::Half => (Some((8 / elem.bytes()) as u8), Width::X),
            width => (lanes, width),
        };
        let mask = match lanes {
            Some(lanes) => {
                let lanes = self.first_lanes(lanes, elem);
                self.both(guard, lanes)
            }
            None => guard,
        };
        Some((mask, width))
    }
}
