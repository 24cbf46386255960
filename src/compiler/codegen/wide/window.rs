//! Padding along a vector: loads of the lanes where comparisons of indices hold.
//!
//! ```text
//! if_then_else(splat(1, 56) <= ramp(s, 1, 56), X[h * 56 + s - 1; 56], splat(0.0, 56))
//! ```
//!
//! From lane to lane the difference of the sides changes by one, so that a comparison holds in the first lanes or in
//! the last ones. If their number is constant, so is the mask; otherwise the difference is counted, and compared with
//! lane numbers.

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, VReg, Width};
use super::guard::{is_condition, negative_where};
use super::strided::stride_of;
use crate::codegen::facts::fails;
use crate::ir::{BinOp, CmpOp};
use crate::loopir::rewrite::{for_each_expr, reads_memory};
use crate::loopir::{Affine, Arena, Expr, ExprId, Ty};
use smallvec::SmallVec;

/// The lanes of a register where a condition holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    /// The bits of the lanes.
    Known(u64),
    /// A mask register.
    Mask(VReg),
}

/// The window of each register of a vector.
pub(super) type Windows = SmallVec<[Window; 4]>;

/// Whether the expression selects lane by lane between loads and a value that reads no memory, by comparisons of
/// indices.
pub(super) fn is_windowed(arena: &Arena, e: ExprId) -> bool {
    let Expr::IfThenElse(c, t, o) = arena.expr(e) else { return false };
    let stride = match arena.expr(t) {
        Expr::Load(_, index) if arena.lanes(index) > 1 => None,
        Expr::Load(..) if Elem::of(arena.dtype(t)).is_some() => Some(1),
        _ => stride_of(arena, t),
    };
    stride.is_some_and(|stride| is_window(arena, c, stride)) && !reads_memory(arena, o) && !fails(arena, o)
}

/// Whether the expression contains a partial load.
pub(super) fn has_windows(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| found |= matches!(arena.expr(e), Expr::IfThenElse(c, ..) if arena.lanes(c) > 1));
    found
}

fn is_window(arena: &Arena, c: ExprId, stride: i64) -> bool {
    match arena.expr(c) {
        Expr::Binary(BinOp::And, a, b) => is_window(arena, a, stride) && is_window(arena, b, stride),
        Expr::Broadcast(c) => is_condition(arena, c),
        Expr::Compare(CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge, a, b) => {
            let step = || Some(arena.first_and_step(a)?.1.checked_sub(arena.first_and_step(b)?.1)?.abs());
            arena.dtype(a) == Ty::INDEX.dtype
                && !reads_memory(arena, c)
                && step().is_some_and(|n| n == 0 || n == stride)
        }
        _ => false,
    }
}

/// An expression that is negative where an order comparison holds in the first lane, and its step per lane.
pub(super) fn negative_from(arena: &Arena, op: CmpOp, a: ExprId, b: ExprId) -> Option<(Affine, i64)> {
    let ((a, x), (b, y)) = (arena.first_and_step(a)?, arena.first_and_step(b)?);
    let step = if matches!(op, CmpOp::Lt | CmpOp::Le) { x - y } else { y - x };
    Some((negative_where(arena, op, a, b)?, step))
}

/// Limit of the window counters, to which sums of outer loops are clamped.
const FAR: i64 = 1 << 30;

impl Builder<'_> {
    /// Loads some lanes, and takes another value in the others.
    pub(super) fn windowed(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Expr::IfThenElse(c, t, o) = self.kernel.arena.expr(e) else { return None };
        let Expr::Load(buffer, index) = self.kernel.arena.expr(t) else { return self.strided_window(e, shape) };
        let narrow = shape.elem.bytes() < 4;
        if self.is_split(o) {
            return None;
        }
        if !is_windowed(&self.kernel.arena, e) || self.guard.is_some() || narrow && !self.features.masks {
            return None;
        }
        let Shape { elem, width, n, last } = *shape;
        let memory = match self.is_narrow(t) {
            true if self.features.masks => Some(self.memory_of(t)?),
            true => return None,
            false => None,
        };
        let windows = self.windows(c, shape)?;
        let at = self.address(buffer, index)?;
        let is_zero = self.constant_bits(o, elem) == Some(0);
        let otherwise = if is_zero { Pieces::new() } else { self.expr(o)? };
        let all = lanes_of(width, elem)?;
        let mut out = Pieces::new();
        for (i, window) in windows.into_iter().enumerate() {
            let present = last.filter(|_| i + 1 == n);
            let lanes = bits(present.unwrap_or(all));
            let mask = match window {
                Window::Known(known) if known & lanes == lanes => {
                    out.push(match memory {
                        Some(memory) => self.load_narrow_piece(at, i, memory, shape)?,
                        None => self.load_piece(buffer, at, i, shape)?,
                    });
                    continue;
                }
                Window::Known(known) => self.lane_mask(known & lanes, elem),
                Window::Mask(mask) if present.is_none() && width != Width::Half => mask,
                Window::Mask(mask) => {
                    let lanes = self.lane_mask(lanes, elem);
                    self.both(mask, lanes)
                }
            };
            let dst = self.fresh();
            // There is no masked load of 64 bits.
            let loaded = if width == Width::Half { Width::X } else { width };
            match memory {
                Some(memory) => {
                    let mem = self.narrow_piece(at, i, memory)?;
                    self.push(Inst::LoadNarrow { dst, mask: Some(mask), mem, memory, width: loaded });
                }
                None => {
                    let mem = self.piece(at, i)?;
                    self.push(Inst::LoadMasked { dst, mask, mem, elem, width: loaded });
                }
            }
            if is_zero {
                out.push(dst);
                continue;
            }
            let chosen = self.fresh();
            self.push(Inst::Select { dst: chosen, mask, then: dst, otherwise: otherwise[i], elem, width });
            out.push(chosen);
        }
        Some(out)
    }

    pub(super) fn windows(&mut self, c: ExprId, shape: &Shape) -> Option<Windows> {
        match self.kernel.arena.expr(c) {
            Expr::Binary(BinOp::And, a, b) => {
                let (a, b) = (self.windows(a, shape)?, self.windows(b, shape)?);
                Some(a.into_iter().zip(b).map(|(a, b)| self.overlap(a, b, shape.elem)).collect())
            }
            Expr::Broadcast(all) => {
                let mask = self.mask_of(all)?;
                Some(Windows::from_elem(Window::Mask(mask), shape.n))
            }
            Expr::Compare(op, a, b) => self.compared_with_lanes(c, op, a, b, shape),
            _ => None,
        }
    }

    pub(super) fn overlap(&mut self, a: Window, b: Window, elem: Elem) -> Window {
        match (a, b) {
            (Window::Known(a), Window::Known(b)) => Window::Known(a & b),
            (Window::Mask(a), Window::Mask(b)) => Window::Mask(self.both(a, b)),
            (Window::Known(u64::MAX), mask) | (mask, Window::Known(u64::MAX)) => mask,
            (Window::Known(0), _) | (_, Window::Known(0)) => Window::Known(0),
            (Window::Known(lanes), Window::Mask(mask)) | (Window::Mask(mask), Window::Known(lanes)) => {
                let lanes = self.lane_mask(lanes, elem);
                Window::Mask(self.both(mask, lanes))
            }
        }
    }

    fn compared_with_lanes(&mut self, c: ExprId, op: CmpOp, a: ExprId, b: ExprId, shape: &Shape) -> Option<Windows> {
        let (first, step) = negative_from(&self.kernel.arena, op, a, b)?;
        let per_register = i64::from(lanes_of(shape.width, shape.elem)?);
        let range = self.range_of(&first);
        // A mask depends on the size of the lane type.
        let known = self.known(c).filter(|known| shape.elem.bytes() == 4 && known.len() == shape.n);
        let mut masks = Pieces::new();
        let mut windows = Windows::new();
        for i in 0..shape.n {
            let before = i as i64 * per_register;
            if let Some(lanes) = range.and_then(|range| decided(range, step, before, per_register.max(MOST_WIDE))) {
                windows.push(Window::Known(lanes));
                masks.push(NOTHING);
                continue;
            }
            let mask = match (&known, step) {
                (Some(known), _) => known[i],
                (None, 0) => self.is_negative(&first)?,
                (None, _) => self.mask_from(&first, step, before, shape)?,
            };
            windows.push(Window::Mask(mask));
            masks.push(mask);
        }
        if known.is_none() && shape.elem.bytes() == 4 && masks.iter().any(|&m| m != NOTHING) {
            self.remember(c, masks);
        }
        Some(windows)
    }

    /// For each lane, whether a window contains it, if that is the same in all iterations.
    pub(super) fn known_window(&self, c: ExprId, lanes: usize) -> Option<SmallVec<[bool; 32]>> {
        match self.kernel.arena.expr(c) {
            Expr::Binary(BinOp::And, a, b) => {
                let (a, b) = (self.known_window(a, lanes)?, self.known_window(b, lanes)?);
                Some(a.into_iter().zip(b).map(|(a, b)| a && b).collect())
            }
            Expr::Compare(op, a, b) => {
                let (first, step) = negative_from(&self.kernel.arena, op, a, b)?;
                let (lo, hi) = self.range_of(&first)?;
                let holds =
                    |first: i64| (0..lanes as i64).map(move |lane| first.saturating_add(step.saturating_mul(lane)) < 0);
                holds(lo).eq(holds(hi)).then(|| holds(lo).collect())
            }
            _ => None,
        }
    }

    /// The range of a sum that only loops of the region change.
    pub(super) fn range_of(&self, sum: &Affine) -> Option<(i64, i64)> {
        sum.terms.iter().try_fold((sum.constant, sum.constant), |(lo, hi), &(atom, c)| {
            let change = c.checked_mul(self.extent(self.loop_of(atom)?) - 1)?;
            Some((lo.checked_add(change.min(0))?, hi.checked_add(change.max(0))?))
        })
    }

    /// The mask of the lanes `j` where `sum + step * (before + j)` is negative.
    fn mask_from(&mut self, sum: &Affine, step: i64, before: i64, shape: &Shape) -> Option<VReg> {
        let stride = u8::try_from(step.abs()).ok()?;
        let mut numbers = [0u8; 16];
        for (j, number) in (0..).zip(&mut numbers) {
            *number = stride.checked_mul(j)?;
        }
        let width = match (shape.elem.bytes(), shape.width) {
            // There are lane numbers for sixteen lanes only.
            (1 | 2, _) => return None,
            (4, Width::Half) => Width::X,
            (4, width) => width,
            // The lane numbers have half the size of the lanes.
            (_, width) if self.features.masks => width.half(),
            _ => return None,
        };
        self.mask_by_numbers(sum, step, before.checked_mul(i64::from(stride))?, numbers, width)
    }

    /// The mask of the lanes where a sum that `before` and their numbers are added to is negative, or that they are
    /// subtracted from if the step is negative.
    pub(super) fn mask_by_numbers(
        &mut self,
        sum: &Affine,
        step: i64,
        before: i64,
        numbers: [u8; 16],
        width: Width,
    ) -> Option<VReg> {
        let (counter, op) = match step {
            1.. => (Affine::default().minus(sum), CmpOp::Gt),
            _ => (sum.clone(), CmpOp::Lt),
        };
        let (stream, plus) = self.counter(&counter, Some(FAR))?;
        let counted = self.fresh();
        let plus = plus.checked_sub(i32::try_from(before).ok()?)?;
        self.push(Inst::Counted { dst: counted, stream, plus });
        let numbers = self.index_register(u128::from_le_bytes(numbers));
        let dst = self.fresh_mask();
        self.push(Inst::Compare { op, dst, a: counted, b: numbers, elem: Elem::I32, width });
        Some(dst)
    }
}

/// Most lanes of 32 bits or more in a register.
const MOST_WIDE: i64 = 16;

/// Stands for a mask that is not needed.
const NOTHING: VReg = VReg(u32::MAX);

/// Those of the first `n` lanes where a sum is negative, if they are the same for all its values in a range.
fn decided((lo, hi): (i64, i64), step: i64, before: i64, n: i64) -> Option<u64> {
    let lanes = |first: i64| {
        let holds = |j: i64| first.saturating_add(step * (before + j)) < 0;
        (0..n).fold(0u64, |lanes, j| lanes | u64::from(holds(j)) << j)
    };
    let known = lanes(lo);
    let all = bits(u8::try_from(n).ok()?);
    (known == lanes(hi)).then_some(if known == all { u64::MAX } else { known })
}

/// The lanes of a register.
fn lanes_of(width: Width, elem: Elem) -> Option<u8> {
    u8::try_from(width.bytes()? / elem.bytes()).ok()
}

/// The bits of the first lanes.
pub(super) fn bits(lanes: u8) -> u64 {
    u64::MAX.checked_shr(64 - u32::from(lanes)).unwrap_or(0)
}
