//! Gathers: vectors of strided or shared elements, by contiguous loads and permutations.
//!
//! A vector packed from loads of one buffer at constant offsets is assembled from registers that contain all elements
//! from its first to its last one, and none outside, which may belong to other memory:
//!
//! ```text
//! X[i], X[i + 2], X[i + 4], …     x0 x1 x2 x3 | x4 x5 x6 x7      every other lane of two registers
//! A[i], A[i], A[i], A[i + 1], …   a0 a1 a2 a3                    each lane three times
//! ```
//!
//! With EVEX, an instruction selects any lanes of two registers; with VEX, the lanes of one, and others are blended.
//! Packs of one body whose elements interleave, such as the even and the odd ones, read the same registers.

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, VReg, Width};
use super::strided::stride_of;
use crate::ir::DType;
use crate::loopir::rewrite::{Seen, for_each_expr};
use crate::loopir::{Affine, Arena, BufferId, Expr, ExprId, StmtId, Ty};
use smallvec::SmallVec;

/// Maximum number of loaded registers per assembled one: with more, it is better to load the elements one by one.
pub(in crate::codegen) const MOST_READ: i64 = 4;

/// A vector of elements at constant offsets.
#[derive(Debug)]
pub(super) struct Gather {
    pub buffer: BufferId,
    dtype: DType,
    /// The part of the indices that is not constant.
    pub base: ExprId,
    /// The constant offset of each lane.
    pub offsets: SmallVec<[i64; 16]>,
}

/// Elements that the statements of a body read unconditionally: from the first offset to the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    buffer: BufferId,
    base: ExprId,
    first: i64,
    last: i64,
}

/// Whether the expression is a vector that can be assembled.
pub(in crate::codegen) fn is_gather(arena: &Arena, e: ExprId) -> bool {
    offsets(arena, e).is_some_and(|(_, _, offsets)| is_dense(&offsets))
}

/// Whether the expression contains a vector that can be assembled.
pub(super) fn has_gathers(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| found |= is_gather(arena, e));
    found
}

/// The buffer, the index of the first lane, and the offsets of all lanes.
fn offsets(arena: &Arena, e: ExprId) -> Option<(BufferId, Affine, SmallVec<[i64; 16]>)> {
    let Expr::Pack(list) = arena.expr(e) else { return None };
    let items = arena.list(list);
    let Expr::Load(buffer, first) = arena.expr(*items.first()?) else { return None };
    let first = Affine::of(arena, first);
    let mut offsets = SmallVec::new();
    for &item in items {
        let Expr::Load(b, index) = arena.expr(item) else { return None };
        let affine = Affine::of(arena, index);
        if b != buffer || arena.lanes(item) != 1 || affine.terms != first.terms {
            return None;
        }
        offsets.push(affine.constant);
    }
    Some((buffer, first, offsets))
}

fn is_dense(offsets: &[i64]) -> bool {
    let (Some(first), Some(last)) = (offsets.iter().min(), offsets.iter().max()) else { return false };
    let lanes = offsets.len() as i64;
    last.checked_sub(*first).is_some_and(|span| span / MOST_READ < lanes)
}

/// The difference of the offsets of neighbouring lanes, if it is the same everywhere.
pub(super) fn regular_stride(arena: &Arena, e: ExprId) -> Option<i64> {
    regular(&offsets(arena, e)?.2)
}

fn regular(offsets: &[i64]) -> Option<i64> {
    let stride = offsets.get(1)?.checked_sub(offsets[0])?;
    offsets.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(stride)).then_some(stride)
}

impl Gather {
    pub(super) fn of(arena: &mut Arena, e: ExprId) -> Option<Gather> {
        let (buffer, mut base, offsets) = offsets(arena, e)?;
        if !is_dense(&offsets) {
            return None;
        }
        base.constant = 0;
        Some(Gather { buffer, dtype: arena.dtype(e), base: base.to_expr(arena), offsets })
    }

    /// The distance of neighbouring lanes, if it is the same everywhere; one otherwise.
    fn stride(&self) -> i64 {
        regular(&self.offsets).filter(|&stride| stride > 0).unwrap_or(1)
    }

    pub(super) fn span(&self) -> Span {
        let first = self.offsets.iter().copied().min().unwrap_or(0);
        let last = self.offsets.iter().copied().max().unwrap_or(0);
        Span { buffer: self.buffer, base: self.base, first, last }
    }

    /// The span of the lanes that exist, if there are any.
    pub(super) fn existing(&self, exists: &[bool]) -> Option<Span> {
        let some = self.offsets.iter().zip(exists).filter(|(_, exists)| **exists).map(|(&offset, _)| offset);
        Some(Span { buffer: self.buffer, base: self.base, first: some.clone().min()?, last: some.max()? })
    }
}

/// Notes the packs of an expression, and the windows of packs.
fn note_packs(arena: &Arena, e: ExprId, seen: &mut Seen, packs: &mut Vec<ExprId>) {
    if !seen.insert(e) {
        return;
    }
    match arena.expr(e) {
        Expr::Pack(_) => packs.push(e),
        // An element that is read under a condition may not exist.
        Expr::IfThenElse(_, then, _) if arena.lanes(e) > 1 && stride_of(arena, then).is_some() => packs.push(e),
        Expr::IfThenElse(..) => {}
        _ => arena.for_each_child(e, |c| note_packs(arena, c, seen, packs)),
    }
}

/// A register with contiguous elements.
pub(super) struct Chunk {
    /// The offset of the first one.
    pub start: i64,
    pub register: VReg,
}

/// The lanes that a permutation of the register so far (`0..table`) and of another one (from `table`) takes: those from that register,
/// the rest as they are.
fn merged(sources: &[(usize, u8)], number: usize, table: u8) -> impl Iterator<Item = u8> {
    sources.iter().enumerate().map(move |(lane, &(source, at))| match source {
        _ if source == number => table + at,
        // Only the lanes of the first register are not in place yet.
        0 if number == 1 => at,
        _ => lane as u8,
    })
}

impl Builder<'_> {
    /// The elements that the vectors of some statements read; overlapping ranges are united. Either all of the
    /// statements run, or none.
    pub(super) fn spans_of(&mut self, stmts: &[StmtId]) -> Vec<Span> {
        let mut packs: Vec<ExprId> = Vec::new();
        for &s in stmts {
            crate::loopir::rewrite::for_each_operand(self.kernel.stmts.get(s), |e| {
                note_packs(&self.kernel.arena, e, &mut Seen::default(), &mut packs);
            });
        }
        let mut spans: Vec<Span> = Vec::new();
        for e in packs {
            let Some(mut new) = self.span_of(e) else { continue };
            spans.retain(|old| {
                let touches = old.buffer == new.buffer
                    && old.base == new.base
                    && old.first <= new.last.saturating_add(1)
                    && new.first <= old.last.saturating_add(1);
                if touches {
                    new.first = new.first.min(old.first);
                    new.last = new.last.max(old.last);
                }
                !touches
            });
            spans.push(new);
        }
        spans
    }

    /// The elements that a pack, or a window of one whose lanes are known, certainly reads.
    fn span_of(&mut self, e: ExprId) -> Option<Span> {
        let Expr::IfThenElse(c, then, _) = self.kernel.arena.expr(e) else {
            return Gather::of(&mut self.kernel.arena, e).map(|g| g.span());
        };
        let gather = Gather::of(&mut self.kernel.arena, then)?;
        gather.existing(&self.known_window(c, gather.offsets.len())?)
    }

    /// Assembles a vector of strided elements.
    pub(super) fn gather(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let gather = Gather::of(&mut self.kernel.arena, e)?;
        let span = self.containing(gather.span());
        let per_piece = self.vector_bytes / shape.elem.bytes();
        let starts = starts(&span, &gather, per_piece as i64, self.features.masks);
        gather.offsets.chunks(per_piece).map(|lanes| self.permuted(&gather, lanes, &starts, shape)).collect()
    }

    /// A span that contains a vector's own one and is read by other statements too; its own one if there is none.
    pub(super) fn containing(&self, own: Span) -> Span {
        let holds =
            |s: &&Span| s.buffer == own.buffer && s.base == own.base && s.first <= own.first && own.last <= s.last;
        self.shared_spans().iter().find(holds).copied().unwrap_or(own)
    }

    /// The registers of a span from which these lanes of a window are taken: those that all vectors share, unless fewer
    /// suffice that start at the lanes. Many windows of a row, each a little further, would keep registers and take a
    /// permutation more each.
    pub(super) fn starts_for(
        &self,
        gather: &Gather,
        span: &Span,
        lanes: impl Iterator<Item = i64> + Clone,
        elem: Elem,
    ) -> Starts {
        let per_register = (self.vector_bytes / elem.bytes()) as i64;
        let shared = starts(span, gather, per_register, self.features.masks);
        let (Some(first), Some(last)) = (lanes.clone().min(), lanes.clone().max()) else { return shared };
        let mut registers: SmallVec<[i64; 4]> = lanes.filter_map(|lane| shared.of(lane)).collect();
        registers.sort_unstable();
        registers.dedup();
        // Vectors of neighbouring columns share these in turn.
        let first = first - (first - span.first) % gather.stride();
        let needed = (last - first) / per_register + 1;
        if needed < registers.len() as i64 {
            let end = span.last.min(first + needed * per_register - 1);
            return Starts { first, last: end - per_register + 1, lanes: per_register };
        }
        shared
    }

    /// Assembles one register of the result.
    fn permuted(&mut self, gather: &Gather, lanes: &[i64], starts: &Starts, shape: &Shape) -> Option<VReg> {
        // Find the registers to load, and for each lane its register and its position there.
        let mut chunks: SmallVec<[Chunk; 4]> = SmallVec::new();
        let mut sources: SmallVec<[(usize, u8); 16]> = SmallVec::new();
        for &offset in lanes {
            sources.push(self.source(gather, offset, starts, &mut chunks)?);
        }
        self.selected(&chunks, &sources, shape)
    }

    /// The number of the register with an element, which is loaded if it is not among those so far, and the element's
    /// position there.
    pub(super) fn source(
        &mut self,
        gather: &Gather,
        offset: i64,
        starts: &Starts,
        chunks: &mut SmallVec<[Chunk; 4]>,
    ) -> Option<(usize, u8)> {
        let start = starts.of(offset)?;
        let known = chunks.iter().position(|c| c.start == start);
        let chunk = match known {
            Some(chunk) => chunk,
            None => {
                let register = self.chunk(gather, start, starts.lanes)?;
                chunks.push(Chunk { start, register });
                chunks.len() - 1
            }
        };
        Some((chunk, u8::try_from(offset - start).ok()?))
    }

    /// A register whose lanes are those of other registers, given by the number of each and its lane.
    pub(super) fn selected(&mut self, chunks: &[Chunk], sources: &[(usize, u8)], shape: &Shape) -> Option<VReg> {
        let is_whole = chunks.len() == 1 && sources.iter().enumerate().all(|(i, s)| usize::from(s.1) == i);
        if is_whole {
            return Some(chunks[0].register);
        }
        match shape.elem.bytes() {
            1 => return self.selected_bytes(chunks, sources),
            2 => return self.selected_words(chunks, sources),
            _ => {}
        }
        let whole = Width::of_bytes(self.vector_bytes)?;
        if chunks.len() == 1 || !self.features.masks {
            return self.blended(chunks, sources, shape.elem, whole);
        }
        let table = (self.vector_bytes / shape.elem.bytes()) as u8;
        let acc = self.fresh();
        self.push(Inst::Move { dst: acc, src: chunks[0].register });
        for (number, chunk) in chunks.iter().enumerate().skip(1) {
            let indices = self.indices(merged(sources, number, table), shape.elem)?;
            self.push(Inst::Permute2 { acc, indices, b: chunk.register, width: whole });
        }
        Some(acc)
    }

    /// As [`selected`](Self::selected), for bytes.
    fn selected_bytes(&mut self, chunks: &[Chunk], sources: &[(usize, u8)]) -> Option<VReg> {
        let width = Width::of_bytes(self.vector_bytes)?;
        let table = self.vector_bytes as u8;
        if !self.features.byte_permutes {
            return None;
        }
        if chunks.len() == 1 {
            let indices = self.byte_indices(sources.iter().map(|&(_, at)| at));
            let dst = self.fresh();
            self.push(Inst::PermuteBytes { dst, indices, a: chunks[0].register, width });
            return Some(dst);
        }
        let acc = self.fresh();
        self.push(Inst::Move { dst: acc, src: chunks[0].register });
        for (number, chunk) in chunks.iter().enumerate().skip(1) {
            let indices = self.byte_indices(merged(sources, number, table));
            self.push(Inst::Permute2Bytes { acc, indices, b: chunk.register, width });
        }
        Some(acc)
    }

    /// As [`selected`](Self::selected), for 16-bit lanes.
    fn selected_words(&mut self, chunks: &[Chunk], sources: &[(usize, u8)]) -> Option<VReg> {
        let width = Width::of_bytes(self.vector_bytes)?;
        let table = (self.vector_bytes / 2) as u8;
        let acc = self.fresh();
        if chunks.len() == 1 {
            let indices = self.word_indices(sources.iter().map(|&(_, at)| at));
            self.push(Inst::PermuteWords { dst: acc, indices, a: chunks[0].register, width });
            return Some(acc);
        }
        self.push(Inst::Move { dst: acc, src: chunks[0].register });
        for (number, chunk) in chunks.iter().enumerate().skip(1) {
            let indices = self.word_indices(merged(sources, number, table));
            self.push(Inst::Permute2Words { acc, indices, b: chunk.register, width });
        }
        Some(acc)
    }

    /// A register of the numbers of 16-bit lanes.
    fn word_indices(&mut self, words: impl Iterator<Item = u8>) -> VReg {
        let mut all: SmallVec<[u8; 32]> = words.collect();
        all.resize(self.vector_bytes / 2, 0);
        self.table(all.chunks(2).map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16).collect())
    }

    /// A register of the numbers of bytes.
    fn byte_indices(&mut self, bytes: impl Iterator<Item = u8>) -> VReg {
        let mut all: SmallVec<[u8; 64]> = bytes.collect();
        all.resize(self.vector_bytes, 0);
        self.table(all.chunks(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// Permutes each register separately, and blends the results.
    fn blended(&mut self, chunks: &[Chunk], sources: &[(usize, u8)], elem: Elem, width: Width) -> Option<VReg> {
        let mut result = None;
        for (number, chunk) in chunks.iter().enumerate() {
            let at = |&(source, at): &(usize, u8)| if source == number { at } else { 0 };
            let indices = self.indices(sources.iter().map(at), elem)?;
            let permuted = self.fresh();
            self.push(Inst::Permute { dst: permuted, indices, a: chunk.register, width });
            let Some(others) = result.replace(permuted) else { continue };
            let words = elem.bytes() / 4;
            let mut mask = 0u32;
            for (lane, _) in sources.iter().enumerate().filter(|(_, s)| s.0 == number) {
                mask |= ((1 << words) - 1) << (lane * words);
            }
            let dst = self.fresh();
            self.push(Inst::Blend { dst, a: others, b: permuted, mask: u8::try_from(mask).ok()?, width });
            result = Some(dst);
        }
        result
    }

    /// A register of lane numbers. A 64-bit lane is two 32-bit lanes.
    fn indices(&mut self, lanes: impl Iterator<Item = u8>, elem: Elem) -> Option<VReg> {
        let words = (elem.bytes() / 4) as u8;
        let mut bytes = [0u8; 16];
        for (i, word) in lanes.flat_map(|lane| (0..words).map(move |w| lane * words + w)).enumerate() {
            *bytes.get_mut(i)? = word;
        }
        Some(self.index_register(u128::from_le_bytes(bytes)))
    }

    /// Loads contiguous elements.
    pub(super) fn chunk(&mut self, gather: &Gather, start: i64, lanes: i64) -> Option<VReg> {
        let arena = &mut self.kernel.arena;
        let index = arena.add_const(gather.base, start);
        let index = Affine::of(arena, index).to_expr(arena);
        let ty = Ty::vector(gather.dtype, u16::try_from(lanes).ok()?);
        let load = arena.load(gather.buffer, index, ty);
        let pieces = if self.features.shares { self.expr(load)? } else { self.unshared(load)? };
        pieces.first().copied()
    }
}

/// The starts of the registers that cover a span.
pub(super) struct Starts {
    first: i64,
    last: i64,
    /// Elements of each register.
    pub lanes: i64,
}

/// The registers of a span. The last one ends with the span, and may overlap the previous one.
pub(super) fn starts(span: &Span, gather: &Gather, lanes: i64, has_masks: bool) -> Starts {
    let n = span.last - span.first + 1;
    let lanes = match n {
        _ if n >= lanes => lanes,
        // If elements are narrower in memory and there are no masks for them, loads take the number of elements of a register, a half, or a quarter.
        _ if super::narrow::is_narrow(gather.dtype) && !has_masks => 1 << n.ilog2(),
        _ => n,
    };
    Starts { first: span.first, last: span.last - lanes + 1, lanes }
}

impl Starts {
    /// The start of the register that contains an element.
    pub(super) fn of(&self, offset: i64) -> Option<i64> {
        let inside = offset.checked_sub(self.first)?;
        Some((self.first + inside / self.lanes * self.lanes).min(self.last))
    }
}
