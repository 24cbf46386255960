//! Elements of 8 and 16 bits, and conversions: the part of [`super::build`] that computes with such elements in 32-bit
//! lanes.
//!
//! Integers are represented by the equal `int32`, half-precision floats by the equal `float32`. Stores narrow them
//! again; operations that leave the range of a type wrap around. Booleans are bytes 0 and 1 in memory, and masks where they are
//! computed ([`lanes`](super::lanes)).

use super::bounds::{Bounds, bounds};
use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Mem, Memory, Op1, Op2, VReg, Width};
use super::even_odd::UPPER_HALF;
use crate::codegen::facts::is_index_sum;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::{Arena, BufferId, Expr, ExprId, Kernel, LocalId, Stmt, StmtId};
use half::{bf16, f16};
use hashbrown::HashSet;
use smallvec::SmallVec;

/// Whether elements of the type are narrower in memory than in registers.
pub(super) fn is_narrow(dtype: DType) -> bool {
    Memory::of(dtype).is_some()
}

/// Whether region code can convert lanes from one type to another.
pub(super) fn is_conversion(from: DType, to: DType) -> bool {
    let (Some(a), Some(b)) = (Elem::of(from), Elem::of(to)) else { return false };
    let is_wide = |e: Elem| e.bytes() == 8;
    match (from, to) {
        (DType::Int64, DType::Float32 | DType::Int32) | (DType::Float32 | DType::Int32, DType::Int64) => true,
        (DType::Float64, DType::Float32 | DType::Int32) => true,
        (_, DType::Float64) => !is_wide(a) && from != DType::Bool,
        _ => !is_wide(a) && !is_wide(b),
    }
}

/// The registers of bfloat16 that are only set to values of that type, such as maxima of elements.
pub(super) fn exact_locals(kernel: &Kernel, stmts: &[StmtId]) -> HashSet<LocalId, FxBuild> {
    let mut values: SmallVec<[(LocalId, ExprId); 16]> = SmallVec::new();
    for &s in stmts {
        kernel.for_each_within(s, &mut |_, stmt| match stmt {
            Stmt::Set { local, value } if kernel.arena.dtype(value) == DType::BFloat16 => values.push((local, value)),
            _ => {}
        });
    }
    let mut exact: HashSet<LocalId, FxBuild> = values.iter().map(|&(local, _)| local).collect();
    // As long as one is not, those that are set to it may not be.
    while let Some(&(local, _)) =
        values.iter().find(|(local, value)| exact.contains(local) && !is_exact(&kernel.arena, &exact, *value))
    {
        exact.remove(&local);
    }
    exact
}

/// Whether a value is one of the elements of its type from which it follows: loaded, selected, or moved between lanes.
pub(super) fn is_exact(arena: &Arena, locals: &HashSet<LocalId, FxBuild>, e: ExprId) -> bool {
    let is_exact = |e| is_exact(arena, locals, e);
    match arena.expr(e) {
        Expr::Load(..) | Expr::Float(_) => true,
        Expr::Local(local) => locals.contains(&local),
        // Rounded where it is converted.
        Expr::Cast(_) => arena.dtype(e) == DType::BFloat16,
        Expr::Broadcast(a) | Expr::Extract(a, _) => is_exact(a),
        Expr::Binary(BinOp::Min | BinOp::Max, a, b) | Expr::Select(_, a, b) | Expr::IfThenElse(_, a, b) => {
            is_exact(a) && is_exact(b)
        }
        Expr::Pack(list) => arena.list(list).iter().all(|&item| is_exact(item)),
        _ => false,
    }
}

/// How floats become bfloat16.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bf16Rounding {
    /// They have no more digits.
    None,
    /// NaNs need no care.
    Numbers,
    /// Any float.
    All,
    /// By an instruction, which makes subnormal numbers zero.
    Instruction,
}

/// Number of operations of a value that are looked through.
const NAN_DEPTH: usize = 8;

/// The first number beyond `int32`.
const INT32_END: f64 = 2_147_483_648.0;

impl Builder<'_> {
    /// Loads elements that are narrower in memory.
    pub(super) fn load_narrow(
        &mut self,
        buffer: BufferId,
        index: ExprId,
        memory: Memory,
        shape: &Shape,
    ) -> Option<Pieces> {
        let at = self.address(buffer, index)?;
        let n_apart = self.n_apart(memory, shape);
        let mut out = Pieces::new();
        for i in (0..n_apart).step_by(2) {
            out.extend(self.load_apart(at, i, shape)?);
        }
        for i in n_apart..shape.n {
            out.push(self.load_narrow_piece(at, i, memory, shape)?);
        }
        Some(out)
    }

    /// Loads the `i`-th piece of a value.
    pub(super) fn load_narrow_piece(&mut self, at: Mem, i: usize, memory: Memory, shape: &Shape) -> Option<VReg> {
        self.has(memory, shape)?;
        let mem = self.narrow_piece(at, i, memory)?;
        let present = shape.last.filter(|_| i + 1 == shape.n);
        let (mask, width) = match (self.guard, present) {
            (Some(_), _) => {
                let (mask, width) = self.guard_of_lanes(shape, present)?;
                (Some(mask), width)
            }
            (None, Some(lanes)) => (Some(self.first_lanes(lanes, Elem::I32)), shape.width),
            (None, None) => (None, shape.width),
        };
        let dst = self.fresh();
        self.push(Inst::LoadNarrow { dst, mask, mem, memory, width });
        Some(dst)
    }

    /// Checks that there are instructions for this number of elements.
    fn has(&self, memory: Memory, shape: &Shape) -> Option<()> {
        let converts = memory != Memory::F16 || self.features.halves;
        (converts && (self.features.masks || shape.last.is_none() && self.guard.is_none())).then_some(())
    }

    pub(super) fn narrow_piece(&self, at: Mem, i: usize, memory: Memory) -> Option<Mem> {
        let bytes = self.vector_bytes / 4 * memory.bytes();
        Some(Mem { disp: at.disp.checked_add(i32::try_from(i * bytes).ok()?)?, ..at })
    }

    /// Stores 32-bit lanes as narrower elements. A `value` that has no more digits than they need not be rounded.
    pub(super) fn store_narrow(
        &mut self,
        at: Mem,
        value: ExprId,
        pieces: &[VReg],
        memory: Memory,
        shape: &Shape,
    ) -> Option<()> {
        let rounding = self.bf16_rounding(value);
        self.has(memory, shape)?;
        let width = shape.width;
        let (apart, others) = pieces.split_at(self.n_apart(memory, shape).min(pieces.len()));
        for (pair, &[even, odd]) in apart.as_chunks().0.iter().enumerate() {
            self.store_apart(at, 2 * pair, [even, odd], rounding, width)?;
        }
        for (i, &src) in (apart.len()..).zip(others) {
            let mem = self.narrow_piece(at, i, memory)?;
            let (mut src, mut memory) = (src, memory);
            if memory == Memory::BF16 && rounding == Bf16Rounding::Instruction {
                src = self.unary(Op1::ToBf16, &[src], Elem::F32, width.max(Width::X))[0];
            } else if memory == Memory::BF16 {
                let rounded = self.rounded_to_bf16(src, rounding, width);
                src = self.shifted_down(rounded, width);
                memory = Memory::I16;
            }
            let is_whole = !matches!(width, Width::Half | Width::Scalar);
            let present = shape.last.filter(|_| i + 1 == shape.n);
            let mask = present.map(|lanes| self.first_lanes(lanes, Elem::I32));
            if memory == Memory::F16 {
                if !is_whole {
                    let bits = self.fresh();
                    self.push(Inst::Unary { op: Op1::ToF16, dst: bits, a: src, elem: Elem::F32, width: Width::X });
                    self.push(Inst::StoreLow { src: bits, mem, bytes: if width == Width::Half { 4 } else { 2 } });
                    continue;
                }
                self.push(Inst::StoreNarrow { src, mask, mem, memory, width });
            } else if memory == Memory::BF16 && !is_whole {
                self.push(Inst::StoreLow { src, mem, bytes: if width == Width::Half { 4 } else { 2 } });
            } else if is_whole && self.features.masks {
                self.push(Inst::StoreNarrow { src, mask, mem, memory, width });
            } else {
                self.store_packed(src, mem, memory, width);
            }
        }
        Some(())
    }

    /// Stores the low bits of lanes by packing them, since there is no instruction for it.
    fn store_packed(&mut self, src: VReg, mem: Mem, memory: Memory, width: Width) {
        let lanes = match width {
            Width::Scalar => {
                return self.push(Inst::StoreLow { src, mem, bytes: memory.bytes() as u8 });
            }
            Width::Half => 2,
            Width::X => 4,
            Width::Y | Width::Z => 8,
        };
        let is_byte = memory.bytes() == 1;
        let keep = self.constant(if is_byte { 0xff } else { 0xffff }, Elem::I32);
        let low = self.binary(Op2::And, &[src], &[keep], Elem::I32, width)[0];
        let mut high = low;
        if lanes == 8 {
            high = self.unary(Op1::UpperHalf, &[low], Elem::I32, Width::Y)[0];
        }
        let mut packed = self.binary(Op2::Pack32, &[low], &[high], Elem::I32, Width::X)[0];
        if is_byte {
            packed = self.binary(Op2::Pack16, &[packed], &[packed], Elem::I32, Width::X)[0];
        }
        self.push(Inst::StoreLow { src: packed, mem, bytes: (lanes * memory.bytes()) as u8 });
    }

    /// Whether the low half of each NaN that a value can be is zero: it comes from bfloat16, or from an operation on numbers,
    /// which makes the default one. Rounding does not carry into the high half of such a NaN.
    fn has_short_nans(&self, e: ExprId, depth: usize) -> bool {
        let arena = &self.kernel.arena;
        let Some(depth) = depth.checked_sub(1) else { return false };
        let is_single = matches!(arena.dtype(e), DType::BFloat16 | DType::Float32);
        is_single
            && match arena.expr(e) {
                Expr::Load(..) => arena.dtype(e) == DType::BFloat16,
                Expr::Float(_) => true,
                Expr::Broadcast(a) | Expr::Extract(a, _) => self.has_short_nans(a, depth),
                Expr::Cast(a) => arena.dtype(a).is_integer() || self.has_short_nans(a, depth),
                Expr::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max, a, b)
                | Expr::Select(_, a, b)
                | Expr::IfThenElse(_, a, b) => self.has_short_nans(a, depth) && self.has_short_nans(b, depth),
                Expr::Pack(list) => arena.list(list).iter().all(|&item| self.has_short_nans(item, depth)),
                _ => false,
            }
    }

    /// How a value that is stored becomes bfloat16.
    fn bf16_rounding(&self, value: ExprId) -> Bf16Rounding {
        let arena = &self.kernel.arena;
        match arena.dtype(value) {
            DType::BFloat16 if is_exact(arena, &self.exact, value) => Bf16Rounding::None,
            _ if self.features.rounds_bf16 => Bf16Rounding::Instruction,
            _ if self.has_short_nans(value, NAN_DEPTH) => Bf16Rounding::Numbers,
            _ => Bf16Rounding::All,
        }
    }

    /// The high halves of lanes, in the low ones.
    pub(super) fn shifted_down(&mut self, a: VReg, width: Width) -> VReg {
        let dst = self.fresh();
        self.push(Inst::Shift { dst, a, left: false, by: 16, width });
        dst
    }

    /// The bits of floats rounded to bfloat16, in the high halves of lanes; the low halves may have any bits. NaN stays NaN, if its low
    /// half is zero or all floats may be rounded.
    pub(super) fn rounded_to_bf16(&mut self, a: VReg, rounding: Bf16Rounding, width: Width) -> VReg {
        if rounding == Bf16Rounding::None {
            return a;
        }
        let int = Elem::I32;
        let [one, half] = [1, 0x7fff].map(|c| self.constant(c, int));
        let high = self.shifted_down(a, width);
        let odd = self.binary(Op2::And, &[high], &[one], int, width)[0];
        let biased = self.binary(Op2::Add, &[a], &[half], int, width)[0];
        let sum = self.binary(Op2::Add, &[biased], &[odd], int, width)[0];
        if rounding == Bf16Rounding::Numbers {
            return sum;
        }
        let quiet = self.constant(0x0040_0000, int);
        let nan = self.binary(Op2::Or, &[a], &[quiet], int, width)[0];
        let (mask, dst) = (self.fresh_mask(), self.fresh());
        self.push(Inst::Compare { op: CmpOp::Ne, dst: mask, a, b: a, elem: Elem::F32, width });
        self.push(Inst::Select { dst, mask, then: nan, otherwise: sum, elem: int, width });
        dst
    }

    /// The value with lanes of another type.
    pub(super) fn convert(&mut self, a: ExprId, to: DType, shape: &Shape) -> Option<Pieces> {
        let from = self.kernel.arena.dtype(a);
        if from == DType::Int64 && to == DType::Int32 && is_index_sum(&self.kernel.arena, a) {
            return self.index(a, shape.n);
        }
        if !is_conversion(from, to) {
            return None;
        }
        if [from, to].iter().any(|t| matches!(t, DType::Int64 | DType::Float64)) {
            return self.resized(a, to, shape);
        }
        if from == DType::Bool {
            return self.numbers(a, to, shape);
        }
        if let Some(memory) = Memory::of(to) {
            self.has(memory, shape)?;
        }
        let width = shape.width;
        let (a, to_int) = match self.unrounded(a) {
            Some(exact) if to.is_integer() => (exact, Op1::RoundToInt),
            _ => (a, Op1::Truncate),
        };
        let value = self.expr(a)?;
        match (from.is_float(), to.is_float()) {
            (false, false) => Some(self.wrapped(value, from, to, width)),
            (false, true) => {
                let floats = self.unary(Op1::Convert, &value, Elem::F32, width);
                Some(self.rounded(floats, DType::Float32, to, width))
            }
            (true, true) => Some(self.rounded(value, from, to, width)),
            (true, false) => {
                let known = bounds(&self.kernel.arena, a);
                if to == DType::Int32 {
                    return Some(self.truncated(&value, known, to_int, shape));
                }
                self.truncated_to(&value, known, to, to_int, shape)
            }
        }
    }

    /// Booleans as 0 and 1 of another type.
    pub(super) fn numbers(&mut self, e: ExprId, to: DType, shape: &Shape) -> Option<Pieces> {
        if let Expr::Load(buffer, index) = self.kernel.arena.expr(e) {
            let bytes = self.load_narrow(buffer, index, Memory::U8, &Shape { elem: Elem::I32, ..*shape })?;
            return Some(if to.is_float() { self.unary(Op1::Convert, &bytes, Elem::F32, shape.width) } else { bytes });
        }
        let from = self.condition_shape(e)?;
        if from.elem.bytes() != shape.elem.bytes() || from.n != shape.n {
            return None;
        }
        let one = if to.is_float() { u64::from(1f32.to_bits()) } else { 1 };
        let (one, zero) = (self.constant(one, shape.elem), self.constant(0, shape.elem));
        let mut out = Pieces::new();
        for mask in self.expr(e)? {
            let dst = self.fresh();
            let Shape { elem, width, .. } = *shape;
            self.push(Inst::Select { dst, mask, then: one, otherwise: zero, elem, width });
            out.push(dst);
        }
        Some(out)
    }

    /// Wraps integers of one type, computed as `int32`, to another type.
    pub(super) fn wrapped(&mut self, value: Pieces, from: DType, to: DType, width: Width) -> Pieces {
        let fits = from.min_value() >= to.min_value() && from.max_value() <= to.max_value();
        if fits || to == DType::Int32 {
            return value;
        }
        let by = 32 - to.bits() as u8;
        if to.is_uint() {
            let keep = self.constant((1 << to.bits()) - 1, Elem::I32);
            let keep = Pieces::from_elem(keep, value.len());
            return self.binary(Op2::And, &value, &keep, Elem::I32, width);
        }
        let mut out = Pieces::new();
        for a in value {
            let (up, down) = (self.fresh(), self.fresh());
            self.push(Inst::Shift { dst: up, a, left: true, by, width });
            self.push(Inst::Shift { dst: down, a: up, left: false, by, width });
            out.push(down);
        }
        out
    }

    /// Rounds floats of one type, computed as `float32`, to another type.
    fn rounded(&mut self, value: Pieces, from: DType, to: DType, width: Width) -> Pieces {
        match to {
            DType::Float16 if from != to => {
                let width = if width < Width::X { Width::X } else { width };
                let bits = self.unary(Op1::ToF16, &value, Elem::F32, width);
                self.unary(Op1::FromF16, &bits, Elem::F32, width)
            }
            DType::BFloat16 if from != to && self.features.rounds_bf16 => {
                let width = width.max(Width::X);
                let bits = self.unary(Op1::ToBf16, &value, Elem::F32, width);
                self.unary(Op1::FromBf16, &bits, Elem::F32, width)
            }
            DType::BFloat16 if from != to => {
                let upper = self.constant(UPPER_HALF, Elem::I32);
                let mut out = Pieces::new();
                for a in value {
                    let rounded = self.rounded_to_bf16(a, Bf16Rounding::All, width);
                    out.extend(self.binary(Op2::And, &[rounded], &[upper], Elem::I32, width));
                }
                out
            }
            _ => value,
        }
    }

    /// The float whose nearest integer a value is, limited to integers or not: the conversion to integers can round it. Limits that are
    /// integers hold for the nearest one if they hold for the float.
    fn unrounded(&mut self, e: ExprId) -> Option<ExprId> {
        if self.known(e).is_some() {
            return None;
        }
        let arena = &mut self.kernel.arena;
        match arena.expr(e) {
            Expr::Call(Intrinsic::Round | Intrinsic::NearbyInt, list) => Some(arena.list(list)[0]),
            Expr::Binary(op @ (BinOp::Min | BinOp::Max), a, limit) => {
                let is_integer = matches!(arena.as_const(limit), Some(Const::Float(v)) if v.fract() == 0.0);
                let a = self.unrounded(a).filter(|_| is_integer)?;
                Some(self.kernel.arena.binary(op, a, limit))
            }
            _ => None,
        }
    }

    /// Floats converted to `int32`: saturated on overflow, 0 for NaN.
    fn truncated(&mut self, value: &[VReg], known: Option<Bounds>, to_int: Op1, shape: &Shape) -> Pieces {
        let (width, elem) = (shape.width, Elem::I32);
        let mut out = Pieces::new();
        for &a in value {
            // The result is the smallest integer for all that are too large, and for NaN.
            let mut ints = self.unary(to_int, &[a], Elem::F32, width)[0];
            if known.is_none_or(|b| b.high >= INT32_END) {
                let limit = self.constant(u64::from((INT32_END as f32).to_bits()), Elem::F32);
                let largest = self.constant(i32::MAX as u64, elem);
                let (mask, dst) = (self.fresh_mask(), self.fresh());
                self.push(Inst::Compare { op: CmpOp::Ge, dst: mask, a, b: limit, elem: Elem::F32, width });
                self.push(Inst::Select { dst, mask, then: largest, otherwise: ints, elem, width });
                ints = dst;
            }
            if known.is_none() {
                let zero = self.constant(0, elem);
                let (mask, dst) = (self.fresh_mask(), self.fresh());
                self.push(Inst::Compare { op: CmpOp::Ne, dst: mask, a, b: a, elem: Elem::F32, width });
                self.push(Inst::Select { dst, mask, then: zero, otherwise: ints, elem, width });
                ints = dst;
            }
            out.push(ints);
        }
        out
    }

    /// Floats converted to integers of less than 32 bits: saturated on overflow, 0 for NaN. They are limited before they are
    /// converted, as the limits are floats.
    fn truncated_to(
        &mut self,
        value: &[VReg],
        known: Option<Bounds>,
        to: DType,
        to_int: Op1,
        shape: &Shape,
    ) -> Option<Pieces> {
        let (Ok(low), Ok(high)) = (to.min_value(), to.max_value()) else { return None };
        let (width, elem) = (shape.width, Elem::F32);
        let [least, most] = [low, high].map(|v| self.constant(u64::from((v as f32).to_bits()), elem));
        let mut out = Pieces::new();
        for &a in value {
            let mut a = a;
            // A maximum with NaN is the other operand, which is what NaN becomes if it is 0.
            if known.is_none() && low != 0 {
                let zero = self.constant(0, elem);
                let (mask, dst) = (self.fresh_mask(), self.fresh());
                self.push(Inst::Compare { op: CmpOp::Eq, dst: mask, a, b: a, elem, width });
                self.push(Inst::Select { dst, mask, then: a, otherwise: zero, elem, width });
                a = dst;
            }
            if known.is_none_or(|b| b.low < low as f64) {
                a = self.binary(Op2::Max, &[a], &[least], elem, width)[0];
            }
            if known.is_none_or(|b| b.high > high as f64) {
                a = self.binary(Op2::Min, &[a], &[most], elem, width)[0];
            }
            out.extend(self.unary(to_int, &[a], elem, width));
        }
        Some(out)
    }

    /// The value to store as elements of a type: wrapping is omitted if only the low bits are stored, and rounding if the store
    /// does it.
    pub(super) fn low_bits(&mut self, value: ExprId) -> ExprId {
        let is_known = self.known(value).is_some();
        let arena = &mut self.kernel.arena;
        match arena.expr(value) {
            Expr::Cast(a) if arena.dtype(value).is_half() && !is_known => match arena.dtype(a) {
                DType::Float32 => a,
                // Floats of 16 bits are `float32` in registers.
                from if from.is_half() => a,
                from if from.is_integer() && from.bytes() <= 2 && from != DType::Bool => arena.cast(DType::Float32, a),
                _ => value,
            },
            Expr::Cast(a) if arena.dtype(value).is_integer() && arena.dtype(a) == DType::Int32 => a,
            _ => value,
        }
    }

    /// The bits of a scalar constant in a lane.
    pub(super) fn constant_bits(&self, e: ExprId, elem: Elem) -> Option<u64> {
        match (self.kernel.arena.as_const(e)?, elem) {
            (Const::Float(v), Elem::F32) => Some(u64::from((v as f32).to_bits())),
            (Const::Float(v), Elem::F64) => Some(v.to_bits()),
            (Const::Int(v), Elem::I64) => Some(v as u64),
            (Const::Int(v), Elem::I16 | Elem::U16) => Some(u64::from(v as u16) * 0x0001_0001),
            (Const::Float(v), Elem::F16) => Some(u64::from(f16::from_f64(v).to_bits()) * 0x0001_0001),
            (Const::Float(v), Elem::BF16) => Some(u64::from(bf16::from_f64(v).to_bits()) * 0x0001_0001),
            (Const::Int(v), Elem::I8 | Elem::U8) => Some(u64::from(v as u8) * 0x0101_0101),
            (Const::Int(v), Elem::I32) => Some(u64::from(v as i32 as u32)),
            _ => None,
        }
    }
}
