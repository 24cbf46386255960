//! Padding along a vector of strided elements: the windows of pooling and convolution with a stride.
//!
//! ```text
//! if_then_else(splat(1, 28) <= ramp(s, 2, 28), pack(X[h * 56 + s - 1], X[h * 56 + s + 1], …), splat(0.0, 28))
//! ```
//!
//! As in a [gather], contiguous elements are loaded and permuted; as in a [window](super::window), those
//! outside are not accessed. An element between two lanes is loaded only if both exist, since it need not exist otherwise.
//!
//! If the same lanes exist in all iterations, whole registers between the first and the last of them are loaded, and those of
//! several vectors together: a masked load that crosses a cache line takes several cycles.

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, VReg, Width};
use super::gather::{self, Chunk, Gather, Starts};
use super::window::{Window, bits, negative_from};
use crate::ir::BinOp;
use crate::loopir::{Affine, Arena, Expr, ExprId};
use smallvec::SmallVec;

/// The elements between neighbouring lanes, if the expression is a vector of 32-bit elements with a constant stride of more
/// than one that can be assembled.
pub(super) fn stride_of(arena: &Arena, e: ExprId) -> Option<i64> {
    if arena.dtype(e).bytes() != 4 || !gather::is_gather(arena, e) {
        return None;
    }
    gather::regular_stride(arena, e).filter(|&stride| stride > 1)
}

/// Contiguous elements, counted from that of the first lane.
#[derive(Clone, Copy)]
struct Part {
    first: i64,
    n: i64,
    /// Elements from lane to lane.
    stride: i64,
}

impl Part {
    /// The lanes at or around an element.
    fn lanes_around(&self, i: i64) -> (i64, i64) {
        let at = self.first + i;
        (at.div_euclid(self.stride), (at + self.stride - 1).div_euclid(self.stride))
    }
}

impl Builder<'_> {
    /// Assembles the lanes that exist, and takes another value in the others.
    pub(super) fn strided_window(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Expr::IfThenElse(c, t, o) = self.kernel.arena.expr(e) else { return None };
        let stride = stride_of(&self.kernel.arena, t)?;
        if self.guard.is_some() {
            return None;
        }
        let gather = Gather::of(&mut self.kernel.arena, t)?;
        if let Some(exists) = self.known_window(c, gather.offsets.len()) {
            return self.existing_lanes(&gather, &exists, o, shape);
        }
        let per_piece = self.vector_bytes / shape.elem.bytes();
        let starts = gather::starts(&gather.span(), &gather, per_piece as i64, self.features.masks);
        let origin = *gather.offsets.first()?;
        let mut out = Pieces::new();
        for lanes in gather.offsets.chunks(per_piece) {
            let mut chunks: SmallVec<[Chunk; 4]> = SmallVec::new();
            let mut sources: SmallVec<[(usize, u8); 16]> = SmallVec::new();
            for &offset in lanes {
                let start = starts.of(offset)?;
                let known = chunks.iter().position(|chunk| chunk.start == start);
                let chunk = match known {
                    Some(chunk) => chunk,
                    None => {
                        let part = Part { first: start - origin, n: starts.lanes, stride };
                        let register = self.part(&gather, start, &starts, c, part, shape.elem)?;
                        chunks.push(Chunk { start, register });
                        chunks.len() - 1
                    }
                };
                sources.push((chunk, u8::try_from(offset - start).ok()?));
            }
            out.push(self.selected(&chunks, &sources, shape)?);
        }
        if self.constant_bits(o, shape.elem) == Some(0) {
            return Some(out);
        }
        let otherwise = self.expr(o)?;
        let Shape { elem, width, .. } = *shape;
        for (i, window) in self.windows(c, shape)?.into_iter().enumerate() {
            let mask = match window {
                Window::Known(u64::MAX) => continue,
                Window::Known(lanes) => self.lane_mask(lanes, elem),
                Window::Mask(mask) => mask,
            };
            let chosen = self.fresh();
            self.push(Inst::Select { dst: chosen, mask, then: out[i], otherwise: otherwise[i], elem, width });
            out[i] = chosen;
        }
        Some(out)
    }

    /// Assembles the lanes that exist in all iterations.
    fn existing_lanes(&mut self, gather: &Gather, exists: &[bool], o: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        let per_piece = self.vector_bytes / elem.bytes();
        let is_zero = self.constant_bits(o, elem) == Some(0);
        let otherwise = if is_zero { Pieces::new() } else { self.expr(o)? };
        let span = gather.existing(exists).map(|span| self.containing(span));
        let mut out = Pieces::new();
        for (i, (offsets, exists)) in gather.offsets.chunks(per_piece).zip(exists.chunks(per_piece)).enumerate() {
            let mut chunks: SmallVec<[Chunk; 4]> = SmallVec::new();
            let mut sources: SmallVec<[(usize, u8); 16]> = SmallVec::new();
            let all = offsets.iter().zip(exists);
            let existing = all.clone().filter(|(_, exists)| **exists).map(|(&offset, _)| offset);
            let starts = span.map(|span| self.starts_for(gather, &span, existing, elem));
            for (&offset, &exists) in all {
                sources.push(match &starts {
                    Some(starts) if exists => self.source(gather, offset, starts, &mut chunks)?,
                    _ => (0, 0),
                });
            }
            if chunks.is_empty() {
                out.push(if is_zero { self.constant(0, elem) } else { otherwise[i] });
                continue;
            }
            let selected = self.selected(&chunks, &sources, shape)?;
            if exists.iter().all(|&exists| exists) {
                out.push(selected);
                continue;
            }
            let lanes = (0..).zip(exists).fold(0, |lanes, (lane, &exists)| lanes | u64::from(exists) << lane);
            let mask = self.lane_mask(lanes, elem);
            if let Some(last) = self.code.insts.last_mut()
                && let Inst::Permute2 { acc, indices, b, width } = *last
                && is_zero
                && acc == selected
            {
                // The mask is set before.
                *last = Inst::Permute2Some { acc, mask, indices, b, width };
                out.push(selected);
                continue;
            }
            let otherwise = if is_zero { self.constant(0, elem) } else { otherwise[i] };
            let dst = self.fresh();
            self.push(Inst::Select { dst, mask, then: selected, otherwise, elem, width });
            out.push(dst);
        }
        Some(out)
    }

    /// Loads the elements of a part that exist.
    fn part(
        &mut self,
        gather: &Gather,
        start: i64,
        starts: &Starts,
        c: ExprId,
        part: Part,
        elem: Elem,
    ) -> Option<VReg> {
        let n = u8::try_from(part.n).ok()?;
        let bytes = (usize::from(n) * elem.bytes()).next_power_of_two().min(self.vector_bytes);
        let width = match Width::of_bytes(bytes) {
            // There is no masked load of 64 bits.
            Some(Width::Half) | None => Width::X,
            Some(width) => width,
        };
        let mask = match self.window_of_part(c, part, width)? {
            Window::Known(lanes) if lanes & bits(n) == bits(n) => return self.chunk(gather, start, starts.lanes),
            Window::Known(lanes) => self.lane_mask(lanes & bits(n), elem),
            Window::Mask(mask) if usize::from(n) * elem.bytes() == width.bytes()? => mask,
            Window::Mask(mask) => {
                let lanes = self.lane_mask(bits(n), elem);
                self.both(mask, lanes)
            }
        };
        let index = self.kernel.arena.add_const(gather.base, start);
        let mem = self.address(gather.buffer, index)?;
        let dst = self.fresh();
        self.push(Inst::LoadMasked { dst, mask, mem, elem, width });
        Some(dst)
    }

    /// The elements of a part for which a condition holds in the lanes around.
    fn window_of_part(&mut self, c: ExprId, part: Part, width: Width) -> Option<Window> {
        match self.kernel.arena.expr(c) {
            Expr::Binary(BinOp::And, a, b) => {
                let (a, b) = (self.window_of_part(a, part, width)?, self.window_of_part(b, part, width)?);
                Some(self.overlap(a, b, Elem::I32))
            }
            Expr::Broadcast(all) => Some(Window::Mask(self.mask_of(all)?)),
            Expr::Compare(op, a, b) => {
                let (first, step) = negative_from(&self.kernel.arena, op, a, b)?;
                if step == 0 {
                    return Some(Window::Mask(self.is_negative(&first)?));
                }
                if step.abs() != part.stride {
                    return None;
                }
                let exist = |value: i64| {
                    let holds = |lane: i64| value.saturating_add(step.saturating_mul(lane)) < 0;
                    (0..16).fold(0u64, |bits, i| {
                        let (low, high) = part.lanes_around(i);
                        bits | u64::from(holds(low) && holds(high)) << i
                    })
                };
                if let Some((lo, hi)) = self.range_of(&first)
                    && exist(lo) == exist(hi)
                {
                    return Some(Window::Known(exist(lo)));
                }
                self.mask_of_part(&first, step, part, width).map(Window::Mask)
            }
            _ => None,
        }
    }

    /// The mask of the elements for which `sum + step * lane` is negative in the lanes around.
    fn mask_of_part(&mut self, sum: &Affine, step: i64, part: Part, width: Width) -> Option<VReg> {
        // The sum falls or rises from lane to lane, so that one of the two lanes decides.
        let base = part.first.div_euclid(part.stride);
        let decides = |i: i64| {
            let (low, high) = part.lanes_around(i);
            (if step > 0 { high } else { low } - base) * part.stride
        };
        let mut numbers = [0u8; 16];
        for (i, number) in (0..).zip(&mut numbers) {
            *number = u8::try_from(decides(i)).ok()?;
        }
        self.mask_by_numbers(sum, step, base.checked_mul(part.stride)?, numbers, width)
    }
}
