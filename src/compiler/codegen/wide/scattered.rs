//! Elements at any indices: hardware gathers.
//!
//! ```text
//! X[idx[j; 16]]                                        all lanes
//! if_then_else(ok, X[idx[j; 16]], splat(0.0, 16))      the lanes of a mask
//! ```
//!
//! Indices are lanes of `int32`. An instruction takes 256 bits at most: on AMD's processors up to Zen 4, one of 512 bits takes more than
//! twice as long as two of 256 (measured: 0.82 and 0.40 ns for each element on Zen 4).

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Mem, Op1, Op2, VReg, Width};
use super::narrow::is_narrow;
use crate::codegen::facts::fails;
use crate::ir::DType;
use crate::loopir::rewrite::reads_memory;
use crate::loopir::{Arena, BufferId, Expr, ExprId};
use smallvec::SmallVec;

/// Whether region code can load elements of this type at any indices.
pub(in crate::codegen) fn is_scatterable(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Int32)
}

/// Whether the expression loads the elements at the indices of some lanes, and takes a value that reads no memory in the others.
pub(super) fn is_partly_scattered(arena: &Arena, e: ExprId) -> bool {
    let Expr::IfThenElse(c, t, o) = arena.expr(e) else { return false };
    let Expr::Load(_, index) = arena.expr(t) else { return false };
    arena.lanes(c) > 1
        && arena.ty(index).dtype == DType::Int32
        && arena.lanes(index) > 1
        && is_scatterable(arena.dtype(t))
        && !reads_memory(arena, o)
        && !fails(arena, o)
}

impl Builder<'_> {
    /// Loads the elements at the indices where a condition holds.
    pub(super) fn partly_scattered(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Expr::IfThenElse(c, t, o) = self.kernel.arena.expr(e) else { return None };
        let Expr::Load(buffer, index) = self.kernel.arena.expr(t) else { return None };
        let otherwise = self.expr(o)?;
        self.expr(index)?;
        let from = self.condition_shape(c)?;
        let masks = self.expr(c)?;
        let masks = self.masks_for(masks, &from, shape)?;
        self.scattered(buffer, index, Some((&masks, &otherwise)), shape)
    }

    /// Loads the elements at the indices in all lanes, or in those of masks; then the others have another value.
    pub(super) fn scattered(
        &mut self,
        buffer: BufferId,
        index: ExprId,
        some: Option<(&[VReg], &[VReg])>,
        shape: &Shape,
    ) -> Option<Pieces> {
        let Shape { elem, width, n, last } = *shape;
        let dtype = self.kernel.buffer(buffer).dtype;
        let fits = elem.bytes() == 4 && !is_narrow(dtype) && self.kernel.arena.dtype(index) == DType::Int32;
        if !fits || self.guard.is_some() {
            return None;
        }
        let indices = self.expr(index)?;
        let first = self.kernel.arena.index(0);
        let at = self.address(buffer, first)?;
        let zero = self.constant(0, elem);
        let most = width.bytes()? / 4;
        let mut out = Pieces::new();
        for i in 0..n {
            let lanes = last.filter(|_| i + 1 == n).map_or(most, usize::from);
            let present = self.lane_mask((1 << lanes) - 1, Elem::I32);
            let (mask, old) = match some {
                Some((masks, _)) if lanes < most || width == Width::Half => (self.both(masks[i], present), zero),
                Some((masks, _)) => (masks[i], zero),
                None => (present, zero),
            };
            let old = some.map_or(old, |(_, others)| others[i]);
            let loaded = match width {
                Width::Z => self.two_halves(at, mask, indices[i], old, lanes)?,
                Width::Half => self.gathered_part(at, mask, indices[i], old, Width::X),
                _ => self.gathered_part(at, mask, indices[i], old, width),
            };
            out.push(loaded);
        }
        Some(out)
    }

    /// Loads the lower and the upper half of a register.
    fn two_halves(&mut self, at: Mem, mask: VReg, indices: VReg, old: VReg, lanes: usize) -> Option<VReg> {
        let low = self.gathered_part(at, mask, indices, old, Width::Y);
        if lanes <= 8 {
            return Some(low);
        }
        let halves = self.unary(Op1::UpperHalf, &[indices, old], Elem::I32, Width::Z);
        let upper_mask = self.fresh_mask();
        self.push(Inst::UpperMask { dst: upper_mask, a: mask });
        let high = self.gathered_part(at, upper_mask, halves[0], halves[1], Width::Y);
        let both: SmallVec<[u32; 16]> = (0..8).chain(16..24).collect();
        let table = self.table(both);
        self.push(Inst::Permute2 { acc: low, indices: table, b: high, width: Width::Z });
        Some(low)
    }

    fn gathered_part(&mut self, mem: Mem, mask: VReg, indices: VReg, old: VReg, width: Width) -> VReg {
        let acc = self.fresh();
        self.push(Inst::Move { dst: acc, src: old });
        // The instruction clears the mask.
        let own = self.fresh_mask();
        if self.features.masks {
            self.push(Inst::MaskBinary { op: Op2::And, dst: own, a: mask, b: mask });
        } else {
            self.push(Inst::Move { dst: own, src: mask });
        }
        self.push(Inst::Gather { acc, mask: own, indices, mem, width });
        acc
    }
}
