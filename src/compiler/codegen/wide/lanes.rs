//! Translates functions, conditions and selections lane by lane: the part of [`super::build`] that handles masks.

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Memory, Op1, Op2, Rounding, Shift16, VReg, Width};
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::{Arena, Expr, ExprId, ExprList};
use crate::machine::Isa;
use smallvec::SmallVec;

/// Whether region code supports a call, given supported operands.
pub(super) fn is_call(arena: &Arena, e: ExprId) -> bool {
    let Expr::Call(f, list) = arena.expr(e) else { return false };
    let args = arena.list(list);
    let dtype = arena.dtype(args[0]);
    match f {
        Intrinsic::Fma
        | Intrinsic::Sqrt
        | Intrinsic::Abs
        | Intrinsic::Floor
        | Intrinsic::Ceil
        | Intrinsic::Trunc
        | Intrinsic::Round
        | Intrinsic::NearbyInt
        | Intrinsic::CopySign
        | Intrinsic::IsNan => dtype.is_float(),
        Intrinsic::BitAnd | Intrinsic::BitOr | Intrinsic::BitXor => dtype.is_integer() || dtype == DType::Bool,
        Intrinsic::BitNot | Intrinsic::ShiftLeft | Intrinsic::ShiftRight => dtype.is_integer(),
        _ => false,
    }
}

/// Whether the expression is a lookup in a table of 32-bit lanes that fills a register of the instruction set.
pub(super) fn is_lookup(arena: &Arena, e: ExprId, isa: Isa) -> bool {
    let Expr::Lookup(index, table) = arena.expr(e) else { return false };
    arena.dtype(e).bytes() == 4
        && arena.dtype(index) == DType::Int32
        && arena.list(table).len() * 4 == isa.vector_bits() as usize / 8
}

/// The operation of masks and the operands of a connective of conditions. All lanes are evaluated in any case.
pub(super) fn connective(arena: &Arena, e: ExprId) -> Option<(Op2, ExprId, ExprId)> {
    match arena.expr(e) {
        Expr::Binary(BinOp::And, a, b) => Some((Op2::And, a, b)),
        Expr::Binary(BinOp::Or, a, b) => Some((Op2::Or, a, b)),
        Expr::Call(f, list) => {
            let op = match f {
                Intrinsic::BitAnd => Op2::And,
                Intrinsic::BitOr => Op2::Or,
                Intrinsic::BitXor => Op2::Xor,
                _ => return None,
            };
            let &[a, b] = arena.list(list) else { return None };
            Some((op, a, b))
        }
        _ => None,
    }
}

/// The operand whose type gives the lanes of a condition, of which there may be one for all lanes.
pub(super) fn compared(arena: &Arena, e: ExprId) -> Option<ExprId> {
    if let Some((_, a, b)) = connective(arena, e) {
        let (a, b) = (compared(arena, a)?, compared(arena, b)?);
        return (Elem::of(arena.dtype(a))?.bytes() == Elem::of(arena.dtype(b))?.bytes()).then_some(a);
    }
    match arena.expr(e) {
        Expr::Compare(_, a, b) if arena.dtype(a) == DType::Bool => {
            let (a, b) = (compared(arena, a)?, compared(arena, b)?);
            (Elem::of(arena.dtype(a))?.bytes() == Elem::of(arena.dtype(b))?.bytes()).then_some(a)
        }
        Expr::Compare(_, a, _) => Some(a),
        Expr::Not(a) | Expr::Broadcast(a) => compared(arena, a),
        Expr::Call(Intrinsic::IsNan, list) => Some(arena.list(list)[0]),
        Expr::Cast(a) => Some(a),
        Expr::Load(..) => Some(e),
        _ => None,
    }
}

/// Whether region code can compute vectors of a condition: as masks, which need the lanes of what is compared, or as bytes
/// where all lanes of the region are bytes.
pub(super) fn is_condition(arena: &Arena, e: ExprId) -> bool {
    if compared(arena, e).is_some() {
        return true;
    }
    if let Some((_, a, b)) = connective(arena, e) {
        return arena.lanes(e) > 1 && is_condition(arena, a) && is_condition(arena, b);
    }
    match arena.expr(e) {
        Expr::Local(_) | Expr::Broadcast(_) => arena.lanes(e) > 1,
        Expr::Int(_) => true,
        _ => false,
    }
}

impl Builder<'_> {
    /// A call of a function.
    pub(super) fn call(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, .. } = *shape;
        let arena = &self.kernel.arena;
        let Expr::Call(f, list) = arena.expr(e) else { return None };
        if !is_call(arena, e) {
            return None;
        }
        let args: Pieces3 = arena.list(list).into();
        let round = |to| Some(Op1::Round(to));
        let op = match f {
            Intrinsic::Sqrt => Some(Op1::Sqrt),
            Intrinsic::Floor => round(Rounding::Down),
            Intrinsic::Ceil => round(Rounding::Up),
            Intrinsic::Trunc => round(Rounding::Truncate),
            Intrinsic::Round | Intrinsic::NearbyInt => round(Rounding::Nearest),
            _ => None,
        };
        if let Some(op) = op {
            let a = self.expr(args[0])?;
            return Some(self.unary(op, &a, elem, width));
        }
        match f {
            Intrinsic::Fma => self.mul_add(args[0], args[1], args[2], shape),
            Intrinsic::Abs => {
                let a = self.expr(args[0])?;
                let magnitude = self.all_but_sign(elem);
                Some(self.with_all(Op2::And, &a, magnitude, shape))
            }
            Intrinsic::CopySign => {
                let (a, b) = (self.expr(args[0])?, self.expr(args[1])?);
                let (magnitude, sign) = (self.all_but_sign(elem), self.sign(elem));
                let a = self.with_all(Op2::And, &a, magnitude, shape);
                let b = self.with_all(Op2::And, &b, sign, shape);
                Some(self.binary(Op2::Or, &a, &b, elem, width))
            }
            Intrinsic::BitAnd | Intrinsic::BitOr | Intrinsic::BitXor => {
                let op = match f {
                    Intrinsic::BitAnd => Op2::And,
                    Intrinsic::BitOr => Op2::Or,
                    _ => Op2::Xor,
                };
                let (a, b) = (self.expr(args[0])?, self.expr(args[1])?);
                Some(self.binary(op, &a, &b, elem, width))
            }
            Intrinsic::BitNot => {
                let a = self.expr(args[0])?;
                let ones = self.all_ones(self.kernel.arena.dtype(args[0]), elem);
                Some(self.with_all(Op2::Xor, &a, ones, shape))
            }
            Intrinsic::ShiftLeft | Intrinsic::ShiftRight => self.shift(f, args[0], args[1], shape),
            _ => None,
        }
    }

    /// The table entries selected by the low bits of an index.
    pub(super) fn lookup(&mut self, index: ExprId, table: ExprList) -> Option<Pieces> {
        let constants: SmallVec<[ExprId; 16]> = self.kernel.arena.list(table).into();
        let whole = Width::of_bytes(self.vector_bytes)?;
        let elem = Elem::of(self.kernel.arena.dtype(constants[0]))?;
        let mut lanes = SmallVec::new();
        for c in constants {
            lanes.push(u32::try_from(self.constant_bits(c, elem)?).ok()?);
        }
        let a = self.table(lanes);
        let mut out = Pieces::new();
        for indices in self.expr(index)? {
            let dst = self.fresh();
            self.push(Inst::Permute { dst, indices, a, width: whole });
            out.push(dst);
        }
        Some(out)
    }

    /// `acc` plus dot products of four bytes.
    pub(super) fn dot4(&mut self, acc: ExprId, a: ExprId, b: ExprId, shape: &Shape) -> Option<Pieces> {
        let (elem, width) = (shape.elem, shape.width);
        let (acc, a, b) = (self.expr(acc)?, self.expr(a)?, self.expr(b)?);
        if self.features.dots {
            let sums: Pieces = acc.iter().map(|_| self.fresh()).collect();
            for (&dst, &src) in sums.iter().zip(&acc) {
                self.push(Inst::Move { dst, src });
            }
            self.add_dots(&sums, &a, &b, width);
            return Some(sums);
        }
        // Computes with 16-bit products and sums, which cannot overflow or saturate.
        let mut out = Pieces::new();
        for ((&acc, &a), &b) in acc.iter().zip(&a).zip(&b) {
            let low = self.constant(0x00ff_00ff, elem);
            let even_a = self.binary(Op2::And, &[a], &[low], elem, width)[0];
            let odd_a = self.shift16(a, Shift16::Right, width);
            let even_b = self.shift16(b, Shift16::Left, width);
            let even_b = self.shift16(even_b, Shift16::Signed, width);
            let odd_b = self.shift16(b, Shift16::Signed, width);
            let even = self.binary(Op2::MulPairs, &[even_a], &[even_b], elem, width);
            let odd = self.binary(Op2::MulPairs, &[odd_a], &[odd_b], elem, width);
            let sum = self.binary(Op2::Add, &even, &odd, elem, width);
            out.extend(self.binary(Op2::Add, &[acc], &sum, elem, width));
        }
        Some(out)
    }

    /// Adds dot products to sums in place.
    pub(super) fn add_dots(&mut self, accs: &[VReg], a: &[VReg], b: &[VReg], width: Width) {
        for ((&acc, &a), &b) in accs.iter().zip(a).zip(b) {
            self.push(Inst::Dot4 { acc, a, b, width });
        }
    }

    fn shift16(&mut self, a: VReg, kind: Shift16, width: Width) -> VReg {
        let dst = self.fresh();
        self.push(Inst::ShiftByte { dst, a, kind, width });
        dst
    }

    fn all_but_sign(&mut self, elem: Elem) -> VReg {
        self.constant(if elem == Elem::F64 { u64::MAX >> 1 } else { u64::from(u32::MAX >> 1) }, elem)
    }

    /// The bits that integers of a type have, all set.
    fn all_ones(&mut self, dtype: DType, elem: Elem) -> VReg {
        let bits = match (elem.bytes(), dtype) {
            (4, DType::UInt8) => 0xff,
            (4, DType::UInt16) => 0xffff,
            (8, _) => u64::MAX,
            _ => u64::from(u32::MAX),
        };
        self.constant(bits, elem)
    }

    fn sign(&mut self, elem: Elem) -> VReg {
        self.constant(1 << (elem.bytes() * 8 - 1), elem)
    }

    pub(super) fn with_all(&mut self, op: Op2, pieces: &[VReg], all: VReg, shape: &Shape) -> Pieces {
        let all = Pieces::from_elem(all, pieces.len());
        self.binary(op, pieces, &all, shape.elem, shape.width)
    }

    /// Selects between two values by lane.
    pub(super) fn select(&mut self, c: ExprId, t: ExprId, o: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, n, .. } = *shape;
        let from = self.condition_shape(c)?;
        // There are few mask registers: those of the sides are free again before this condition needs some.
        let (t, o) = (self.expr(t)?, self.expr(o)?);
        if let Some(known) = self.known_lanes(c, shape) {
            let mut out = Pieces::new();
            for (i, (holds, all)) in known.into_iter().enumerate() {
                out.push(match holds {
                    0 => o[i],
                    _ if holds == all => t[i],
                    _ => {
                        let (mask, dst) = (self.lane_mask(holds, elem), self.fresh());
                        self.push(Inst::Select { dst, mask, then: t[i], otherwise: o[i], elem, width });
                        dst
                    }
                });
            }
            return Some(out);
        }
        let masks = self.expr(c)?;
        let masks = self.masks_for(masks, &from, shape)?;
        let mut out = Pieces::new();
        for i in 0..n {
            let dst = self.fresh();
            self.push(Inst::Select { dst, mask: masks[i], then: t[i], otherwise: o[i], elem, width });
            out.push(dst);
        }
        Some(out)
    }

    /// The division of what a condition compares into registers.
    pub(super) fn condition_shape(&self, e: ExprId) -> Option<Shape> {
        let arena = &self.kernel.arena;
        let source = compared(arena, e)?;
        self.shape_of(arena.ty(source).with_lanes(arena.lanes(e)))
    }

    /// The masks of a comparison of scalars, for all lanes.
    fn shared_condition(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        if let Expr::Not(a) = self.kernel.arena.expr(e) {
            let masks = self.shared_condition(a, shape)?;
            return Some(self.negated(&masks, shape));
        }
        let Expr::Compare(op, a, b) = self.kernel.arena.expr(e) else { return None };
        let is_negated = !self.features.masks && shape.elem.is_int();
        if self.kernel.arena.dtype(a) == DType::Bool || is_negated && !matches!(op, CmpOp::Eq | CmpOp::Gt | CmpOp::Lt) {
            return None;
        }
        let (a, b) = (self.in_all_lanes(a, shape)?, self.in_all_lanes(b, shape)?);
        let mask = self.compare_pieces(op, &[a], &[b], shape);
        Some(Pieces::from_elem(mask[0], shape.n))
    }

    /// A condition as masks.
    pub(super) fn condition(&mut self, e: ExprId) -> Option<Pieces> {
        let shape = self.condition_shape(e)?;
        match self.kernel.arena.expr(e) {
            Expr::Compare(op @ (CmpOp::Eq | CmpOp::Ne), a, b) if self.kernel.arena.dtype(a) == DType::Bool => {
                let differ = self.mask_pieces(Op2::Xor, a, b, &shape)?;
                Some(if op == CmpOp::Ne { differ } else { self.negated(&differ, &shape) })
            }
            Expr::Compare(_, a, _) if self.kernel.arena.dtype(a) == DType::Bool => None,
            Expr::Compare(op, a, b) => {
                // Without mask registers, few comparisons of integers exist.
                let negated = !self.features.masks && shape.elem.is_int();
                match op {
                    CmpOp::Ne if negated => self.negated_compare(CmpOp::Eq, a, b, &shape),
                    CmpOp::Le if negated => self.negated_compare(CmpOp::Gt, a, b, &shape),
                    CmpOp::Ge if negated => self.negated_compare(CmpOp::Lt, a, b, &shape),
                    _ => self.compare(op, a, b, &shape),
                }
            }
            Expr::Call(Intrinsic::IsNan, list) => {
                let a = self.kernel.arena.list(list)[0];
                self.compare(CmpOp::Ne, a, a, &shape)
            }
            Expr::Not(a) => {
                let masks = self.expr(a)?;
                Some(self.negated(&masks, &shape))
            }
            Expr::Broadcast(a) => self.shared_condition(a, &shape),
            Expr::Load(buffer, index) => {
                let bytes = self.load_narrow(buffer, index, Memory::U8, &shape)?;
                let zeros = Pieces::from_elem(self.constant(0, shape.elem), bytes.len());
                Some(self.compare_pieces(CmpOp::Gt, &bytes, &zeros, &shape))
            }
            Expr::Cast(a) => {
                let value = self.expr(a)?;
                let zeros = Pieces::from_elem(self.constant(0, shape.elem), value.len());
                if !self.features.masks && shape.elem.is_int() {
                    let masks = self.compare_pieces(CmpOp::Eq, &value, &zeros, &shape);
                    return Some(self.negated(&masks, &shape));
                }
                Some(self.compare_pieces(CmpOp::Ne, &value, &zeros, &shape))
            }
            _ => {
                let (op, a, b) = connective(&self.kernel.arena, e)?;
                self.mask_pieces(op, a, b, &shape)
            }
        }
    }

    /// An operation on the masks of two conditions.
    fn mask_pieces(&mut self, op: Op2, a: ExprId, b: ExprId, shape: &Shape) -> Option<Pieces> {
        if let (Some(of_a), Some(of_b)) = (self.numeric_comparison(a), self.numeric_comparison(b)) {
            return self.compared_pairs(op, of_a, of_b, shape);
        }
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        if !self.features.masks {
            return Some(self.binary(op, &a, &b, shape.elem, shape.width));
        }
        let mut out = Pieces::new();
        for (&a, &b) in a.iter().zip(&b) {
            let dst = self.fresh_mask();
            self.push(Inst::MaskBinary { op, dst, a, b });
            out.push(dst);
        }
        Some(out)
    }

    /// A comparison of numbers, where there are mask registers.
    fn numeric_comparison(&self, e: ExprId) -> Option<(CmpOp, ExprId, ExprId)> {
        match self.kernel.arena.expr(e) {
            Expr::Compare(op, a, b) if self.features.masks && self.kernel.arena.dtype(a) != DType::Bool => {
                Some((op, a, b))
            }
            _ => None,
        }
    }

    /// An operation on the masks of two comparisons, one register after the other: there are few mask registers, and the masks of long vectors
    /// would take all of them.
    fn compared_pairs(
        &mut self,
        op: Op2,
        (of_a, a0, a1): (CmpOp, ExprId, ExprId),
        (of_b, b0, b1): (CmpOp, ExprId, ExprId),
        shape: &Shape,
    ) -> Option<Pieces> {
        let shape_b = self.shape(b0)?;
        let (a0, a1) = (self.expr(a0)?, self.expr(a1)?);
        let (b0, b1) = (self.expr(b0)?, self.expr(b1)?);
        let mut out = Pieces::new();
        for i in 0..a0.len() {
            let a = self.compare_pieces(of_a, &a0[i..=i], &a1[i..=i], shape)[0];
            let b = self.compare_pieces(of_b, &b0[i..=i], &b1[i..=i], &shape_b)[0];
            let dst = self.fresh_mask();
            self.push(Inst::MaskBinary { op, dst, a, b });
            out.push(dst);
        }
        Some(out)
    }

    fn compare(&mut self, op: CmpOp, a: ExprId, b: ExprId, shape: &Shape) -> Option<Pieces> {
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        Some(self.compare_pieces(op, &a, &b, shape))
    }

    fn compare_pieces(&mut self, op: CmpOp, a: &[VReg], b: &[VReg], shape: &Shape) -> Pieces {
        let mut out = Pieces::new();
        for (&a, &b) in a.iter().zip(b) {
            let dst = self.fresh_mask();
            self.push(Inst::Compare { op, dst, a, b, elem: shape.elem, width: shape.width });
            out.push(dst);
        }
        out
    }

    fn negated_compare(&mut self, op: CmpOp, a: ExprId, b: ExprId, shape: &Shape) -> Option<Pieces> {
        let masks = self.compare(op, a, b, shape)?;
        Some(self.negated(&masks, shape))
    }

    fn negated(&mut self, masks: &[VReg], shape: &Shape) -> Pieces {
        if !self.features.masks {
            let bits = if shape.elem.bytes() == 8 { u64::MAX } else { u64::from(u32::MAX) };
            let ones = self.constant(bits, shape.elem);
            return self.with_all(Op2::Xor, masks, ones, shape);
        }
        let mut out = Pieces::new();
        for &a in masks {
            let dst = self.fresh_mask();
            self.push(Inst::MaskNot { dst, a });
            out.push(dst);
        }
        out
    }
}

/// Operands of a call.
type Pieces3 = smallvec::SmallVec<[ExprId; 3]>;
