//! Emits expressions.
//!
//! Operations without a vector instruction are done lane by lane. `float16` and `bfloat16` are computed as `f32`; with
//! strict floats each result is rounded to its type, otherwise only stored and cast values are.

use super::func::Emitter;
use super::value::{Parts, Val, scalar_type};
use crate::codegen::facts::{can_fail, is_speculable};
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::{BufferId, Expr, ExprId, Failure, Ty};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};

impl Emitter<'_, '_> {
    /// The value of an expression, computed now or cached.
    pub(super) fn expr(&mut self, e: ExprId) -> Val {
        let arena = &self.kernel.arena;
        match arena.expr(e) {
            Expr::Var(v) => return self.vars[v.index()].clone().expect("variables are read only inside their scope"),
            Expr::Local(l) => return self.local(l),
            _ => {}
        }
        if let Some(known) = self.remembered(e) {
            return known.clone();
        }
        let value = self.compute(e);
        self.remember(e, &value);
        value
    }

    fn compute(&mut self, e: ExprId) -> Val {
        let kernel = self.kernel;
        let arena = &kernel.arena;
        let ty = arena.ty(e);
        match arena.expr(e) {
            Expr::Var(_) | Expr::Local(_) => unreachable!("read by the caller"),
            Expr::Int(v) => Val::scalar(ty.dtype, self.int_like(scalar_type(ty.dtype), v)),
            Expr::Float(bits) => {
                let value = f64::from_bits(bits);
                Val::scalar(
                    ty.dtype,
                    if ty.dtype == DType::Float64 {
                        self.b.ins().f64const(value)
                    } else {
                        self.b.ins().f32const(value as f32)
                    },
                )
            }
            Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) if ty.lanes == 1 => self.lazy(op, a, b),
            Expr::Binary(op, a, b) => {
                let divisor = arena.as_const(b);
                let (x, y) = (self.expr(a), self.expr(b));
                let can_fail = can_fail(arena, e);
                self.binary(op, &x, &y, divisor, can_fail)
            }
            Expr::Compare(op, a, b) => {
                let (x, y) = (self.expr(a), self.expr(b));
                self.compare(op, &x, &y)
            }
            Expr::Not(a) => {
                let x = self.expr(a);
                if ty.lanes == 1 {
                    Val::scalar(ty.dtype, self.b.ins().bxor_imm_u(x.single(), 1))
                } else {
                    Val { parts: x.parts.iter().map(|&p| self.b.ins().bnot(p)).collect(), ..x }
                }
            }
            Expr::Cast(a) => {
                let x = self.expr(a);
                self.cast(&x, ty.dtype)
            }
            Expr::Reinterpret(a) => {
                let x = self.expr(a);
                self.reinterpret(&x, ty)
            }
            Expr::Dot4(acc, a, b) => {
                let (acc, a, b) = (self.expr(acc), self.expr(a), self.expr(b));
                self.dot4(&acc, &a, &b)
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.expr(c), self.expr(t), self.expr(o));
                self.select(&c, &t, &o)
            }
            Expr::IfThenElse(c, t, o) => self.if_then_else(c, t, o),
            Expr::Load(buffer, index) => self.load(buffer, index, ty),
            Expr::Call(function @ (Intrinsic::ShiftLeft | Intrinsic::ShiftRight), list)
                if ty.lanes > 1 && ty.dtype.bytes() == 4 && self.constant_shift(list).is_some() =>
            {
                let by = self.constant_shift(list).unwrap_or(0);
                let x = self.expr(arena.list(list)[0]);
                self.zip(&x, &x, |e, a, _| match function {
                    Intrinsic::ShiftLeft => e.b.ins().ishl_imm_u(a, by),
                    _ if ty.dtype.is_int() => e.b.ins().sshr_imm_u(a, by),
                    _ => e.b.ins().ushr_imm_u(a, by),
                })
            }
            Expr::Call(function, list) => {
                let args: Vec<Val> = arena.list(list).iter().map(|&a| self.expr(a)).collect();
                self.call(function, &args, ty)
            }
            Expr::Broadcast(a) => {
                if let Some(part) = self.constant_part(a) {
                    return Val::vector(ty, Parts::from_elem(part, super::value::n_parts(ty, ty.dtype.bytes() as u8)));
                }
                let x = self.expr(a);
                self.broadcast(&x, ty.lanes)
            }
            Expr::Ramp(base, stride) => {
                let base = self.expr(base);
                let scalar = base.single();
                let part = super::value::part_type(ty, base.lane_bytes);
                let per_part = part.lane_count() as usize;
                let splat = self.b.ins().splat(part, scalar);
                let mut parts = Parts::new();
                for first in (0..ty.lanes as usize).step_by(per_part) {
                    let steps = self.steps(part, first, stride);
                    parts.push(self.b.ins().iadd(splat, steps));
                }
                Val::vector(ty, parts)
            }
            Expr::Pack(list) => {
                let lanes: Vec<Value> = arena.list(list).iter().map(|&a| self.expr(a).single()).collect();
                self.pack(ty, &lanes)
            }
            Expr::Lookup(index, table) => self.lookup(index, table, ty),
            Expr::Extract(a, lane) => {
                let x = self.expr(a);
                Val::scalar(ty.dtype, self.lane(&x, lane))
            }
            Expr::Reduce(op, a) => {
                let x = self.expr(a);
                self.reduce(op, &x)
            }
        }
    }

    /// A 32- or 64-bit constant in every lane, loaded from memory where a scalar would have to be broadcast.
    fn constant_part(&mut self, e: ExprId) -> Option<Value> {
        let dtype = self.kernel.arena.dtype(e);
        let (part, bits) = match (self.kernel.arena.expr(e), dtype) {
            (Expr::Float(bits), DType::Float32) => (types::F32X4, i64::from((f64::from_bits(bits) as f32).to_bits())),
            (Expr::Float(bits), DType::Float64) => (types::F64X2, bits as i64),
            (Expr::Int(v), DType::Int32 | DType::UInt32) => (types::I32X4, v),
            (Expr::Int(v), DType::Int64 | DType::UInt64) => (types::I64X2, v),
            _ => return None,
        };
        Some(self.int_like(part, bits))
    }

    /// The part `stride * first, stride * (first + 1), …`.
    fn steps(&mut self, part: cranelift_codegen::ir::Type, first: usize, stride: i64) -> Value {
        let lane = part.lane_type().bytes() as usize;
        let mut bytes = [0; 16];
        for (i, chunk) in bytes.chunks_exact_mut(lane).enumerate() {
            let v = ((first + i) as i64).wrapping_mul(stride);
            chunk.copy_from_slice(&v.to_le_bytes()[..lane]);
        }
        let constant = self.b.func.dfg.constants.insert(cranelift_codegen::ir::immediates::V128Imm(bytes).into());
        self.b.ins().vconst(part, constant)
    }

    fn broadcast(&mut self, x: &Val, lanes: u16) -> Val {
        let ty = x.ty.with_lanes(lanes);
        if ty.dtype == DType::Bool {
            let byte = self.b.ins().ineg(x.single());
            let part = self.b.ins().splat(types::I8X16, byte);
            let n = super::value::n_parts(ty, 1);
            return Val::mask(lanes, 1, Parts::from_elem(part, n));
        }
        let part = self.b.ins().splat(super::value::part_type(ty, x.lane_bytes), x.single());
        Val::vector(ty, Parts::from_elem(part, super::value::n_parts(ty, x.lane_bytes)))
    }

    // ---- control -------------------------------------------------------------------------------------------

    /// Scalar `and` and `or`, with short-circuit evaluation of the right operand.
    fn lazy(&mut self, op: BinOp, a: ExprId, b: ExprId) -> Val {
        let is_and = op == BinOp::And;
        let x = self.expr(a).single();
        if is_speculable(&self.kernel.arena, b) {
            let y = self.expr(b).single();
            let both = if is_and { self.b.ins().band(x, y) } else { self.b.ins().bor(x, y) };
            return Val::scalar(DType::Bool, both);
        }
        let (right, after) = (self.b.create_block(), self.b.create_block());
        let result = self.b.append_block_param(after, types::I8);
        let known = [BlockArg::Value(x)];
        if is_and {
            self.b.ins().brif(x, right, &[], after, &known);
        } else {
            self.b.ins().brif(x, after, &known, right, &[]);
        }
        self.b.seal_block(right);
        self.b.switch_to_block(right);
        let scope = self.open();
        let y = self.expr(b).single();
        self.close(scope);
        self.b.ins().jump(after, &[BlockArg::Value(y)]);
        self.b.seal_block(after);
        self.b.switch_to_block(after);
        Val::scalar(DType::Bool, result)
    }

    fn if_then_else(&mut self, c: ExprId, t: ExprId, o: ExprId) -> Val {
        let arena = &self.kernel.arena;
        if is_speculable(arena, t) && is_speculable(arena, o) {
            let (c, t, o) = (self.expr(c), self.expr(t), self.expr(o));
            return self.select(&c, &t, &o);
        }
        if let Expr::Load(buffer, index) = arena.expr(t)
            && arena.lanes(c) > 1
        {
            return self.load_lanes(c, buffer, index, o);
        }
        if let Expr::Pack(list) = arena.expr(t)
            && arena.lanes(c) > 1
        {
            let items = arena.list(list).to_vec();
            return self.pack_lanes(c, &items, o);
        }
        let ty = arena.ty(t);
        let condition = self.expr(c).single();
        let (yes, no, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().brif(condition, yes, &[], no, &[]);
        let mut shape = None;
        for (block, e) in [(yes, t), (no, o)] {
            self.b.seal_block(block);
            self.b.switch_to_block(block);
            let scope = self.open();
            let mut value = self.expr(e);
            if ty.lanes > 1 && ty.dtype == DType::Bool {
                value = self.mask_to(&value, 1);
            }
            self.close(scope);
            let args: Vec<BlockArg> = value.parts.iter().map(|&p| BlockArg::Value(p)).collect();
            self.b.ins().jump(after, &args);
            shape = Some(value);
        }
        let shape = shape.expect("both sides were computed");
        let part = shape.part_type();
        let parts = shape.parts.iter().map(|_| self.b.append_block_param(after, part)).collect();
        self.b.seal_block(after);
        self.b.switch_to_block(after);
        Val { parts, ..shape }
    }

    /// Masked load: loads the lanes where a condition holds, and takes another value for the rest.
    fn load_lanes(&mut self, c: ExprId, buffer: BufferId, index: ExprId, o: ExprId) -> Val {
        let (holds, otherwise) = (self.expr(c), self.expr(o));
        let ty = self.kernel.arena.ty(o);
        if self.kernel.arena.lanes(index) > 1 {
            let indices = self.expr(index);
            return self.lanes_where(&holds, &otherwise, ty, |code, lane| code.element_at(buffer, &indices, lane, ty));
        }
        let (pointer, offset) = self.address(buffer, index);
        self.lanes_where(&holds, &otherwise, ty, |code, lane| {
            let at = offset + i32::from(lane) * ty.dtype.bytes() as i32;
            code.load_at(pointer, at, ty.with_lanes(1)).single()
        })
    }

    /// The lanes of a pack where a condition holds, and another value for the rest.
    fn pack_lanes(&mut self, c: ExprId, items: &[ExprId], o: ExprId) -> Val {
        let (holds, otherwise) = (self.expr(c), self.expr(o));
        let ty = self.kernel.arena.ty(o);
        self.lanes_where(&holds, &otherwise, ty, |code, lane| {
            let scope = code.open();
            let element = code.expr(items[usize::from(lane)]).single();
            code.close(scope);
            element
        })
    }

    /// Computes each lane where a condition holds, in a block of its own, and takes another value for the rest.
    fn lanes_where(
        &mut self,
        holds: &Val,
        otherwise: &Val,
        ty: Ty,
        mut element: impl FnMut(&mut Self, u16) -> Value,
    ) -> Val {
        let mut lanes = Vec::new();
        for lane in 0..ty.lanes {
            let (condition, other) = (self.lane(holds, lane), self.lane(otherwise, lane));
            let (yes, after) = (self.b.create_block(), self.b.create_block());
            let result = self.b.append_block_param(after, self.b.func.dfg.value_type(other));
            self.b.ins().brif(condition, yes, &[], after, &[BlockArg::Value(other)]);
            self.b.seal_block(yes);
            self.b.switch_to_block(yes);
            let value = element(self, lane);
            self.b.ins().jump(after, &[BlockArg::Value(value)]);
            self.b.seal_block(after);
            self.b.switch_to_block(after);
            lanes.push(result);
        }
        self.pack(ty, &lanes)
    }

    fn select(&mut self, c: &Val, t: &Val, o: &Val) -> Val {
        let lanes = t.ty.lanes;
        if lanes == 1 {
            return Val::scalar(t.ty.dtype, self.b.ins().select(c.single(), t.single(), o.single()));
        }
        if c.ty.lanes == 1 {
            let c = self.broadcast(c, lanes);
            return self.select(&c, t, o);
        }
        if t.ty.dtype == DType::Bool {
            let (t, o) = (self.mask_to(t, c.lane_bytes), self.mask_to(o, c.lane_bytes));
            let parts = (0..c.parts.len()).map(|i| self.choose(c.parts[i], t.parts[i], o.parts[i])).collect();
            return Val::mask(lanes, c.lane_bytes, parts);
        }
        let c = self.mask_to(c, t.lane_bytes);
        let parts = (0..t.parts.len()).map(|i| self.choose(c.parts[i], t.parts[i], o.parts[i])).collect();
        Val::vector(t.ty, parts)
    }

    // ---- arithmetic ----------------------------------------------------------------------------------------

    /// Applies `f` to each pair of parts.
    pub(super) fn zip(&mut self, x: &Val, y: &Val, mut f: impl FnMut(&mut Self, Value, Value) -> Value) -> Val {
        let parts = x.parts.iter().zip(&y.parts).map(|(&a, &b)| f(self, a, b)).collect();
        Val { parts, ..x.clone() }
    }

    fn binary(&mut self, op: BinOp, x: &Val, y: &Val, divisor: Option<Const>, can_fail: bool) -> Val {
        let dtype = x.ty.dtype;
        if dtype == DType::Bool {
            return self.bool_binary(op, x, y);
        }
        if dtype.is_float() {
            return self.float_binary(op, x, y);
        }
        let vector = x.ty.lanes > 1;
        match op {
            BinOp::Add => self.zip(x, y, |e, a, b| e.b.ins().iadd(a, b)),
            BinOp::Sub => self.zip(x, y, |e, a, b| e.b.ins().isub(a, b)),
            BinOp::Mul if vector && x.lane_bytes == 1 => {
                // There is no byte multiplication; the low bytes of 16-bit products are the same.
                let lanes = x.ty.lanes;
                let a = self.widen_ints(&x.parts, lanes, 1, 2, false);
                let b = self.widen_ints(&y.parts, lanes, 1, 2, false);
                let products: Parts = a.iter().zip(&b).map(|(&a, &b)| self.b.ins().imul(a, b)).collect();
                Val::vector(x.ty, self.narrow_ints(&products, lanes, 2, 1))
            }
            BinOp::Mul => self.zip(x, y, |e, a, b| e.b.ins().imul(a, b)),
            BinOp::Min | BinOp::Max if x.lane_bytes == 8 => {
                let less = if op == BinOp::Min { CmpOp::Lt } else { CmpOp::Gt };
                let c = self.compare(less, x, y);
                self.select(&c, x, y)
            }
            BinOp::Min if dtype.is_int() => self.zip(x, y, |e, a, b| e.b.ins().smin(a, b)),
            BinOp::Max if dtype.is_int() => self.zip(x, y, |e, a, b| e.b.ins().smax(a, b)),
            BinOp::Min => self.zip(x, y, |e, a, b| e.b.ins().umin(a, b)),
            BinOp::Max => self.zip(x, y, |e, a, b| e.b.ins().umax(a, b)),
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                let divisor = match divisor {
                    Some(Const::Int(d)) => Some(d),
                    Some(Const::Float(_)) | None => None,
                };
                self.by_lane_or_scalar(x.ty, &[x, y], |e, args| {
                    e.divide(op, dtype, args[0], args[1], divisor, can_fail)
                })
            }
            BinOp::And | BinOp::Or => unreachable!("types were checked: `and` and `or` take booleans"),
        }
    }

    pub(super) fn by_lane_or_scalar(
        &mut self,
        ty: Ty,
        args: &[&Val],
        mut f: impl FnMut(&mut Self, &[Value]) -> Value,
    ) -> Val {
        if ty.lanes > 1 {
            return self.by_lane(ty, args, f);
        }
        let scalars: Parts = args.iter().map(|a| a.single()).collect();
        Val::scalar(ty.dtype, f(self, &scalars))
    }

    fn bool_binary(&mut self, op: BinOp, x: &Val, y: &Val) -> Val {
        let y = if x.ty.lanes > 1 { self.mask_to(y, x.lane_bytes) } else { y.clone() };
        match op {
            BinOp::And | BinOp::Min | BinOp::Mul => self.zip(x, &y, |e, a, b| e.b.ins().band(a, b)),
            BinOp::Or | BinOp::Max => self.zip(x, &y, |e, a, b| e.b.ins().bor(a, b)),
            // A boolean is `!= 0`: a sum is if either operand is, a difference if they differ.
            BinOp::Add => self.zip(x, &y, |e, a, b| e.b.ins().bor(a, b)),
            BinOp::Sub => self.zip(x, &y, |e, a, b| e.b.ins().bxor(a, b)),
            BinOp::Div | BinOp::FloorDiv => x.clone(),
            BinOp::Mod | BinOp::FloorMod => self.zip(x, x, |e, a, b| e.b.ins().bxor(a, b)),
        }
    }

    fn float_binary(&mut self, op: BinOp, x: &Val, y: &Val) -> Val {
        let value = match op {
            BinOp::Add => self.zip(x, y, |e, a, b| e.b.ins().fadd(a, b)),
            BinOp::Sub => self.zip(x, y, |e, a, b| e.b.ins().fsub(a, b)),
            BinOp::Mul => self.zip(x, y, |e, a, b| e.b.ins().fmul(a, b)),
            BinOp::Div => self.zip(x, y, |e, a, b| e.b.ins().fdiv(a, b)),
            BinOp::Min => self.zip(x, y, |e, a, b| e.float_min(a, b)),
            BinOp::Max => self.zip(x, y, |e, a, b| e.float_max(a, b)),
            BinOp::Mod => self.call(Intrinsic::Fmod, &[x.clone(), y.clone()], x.ty),
            BinOp::FloorDiv | BinOp::FloorMod => {
                let quotient = self.zip(x, y, |e, a, b| e.b.ins().fdiv(a, b));
                let floor = self.zip(&quotient, &quotient, |e, a, _| e.b.ins().floor(a));
                if op == BinOp::FloorDiv {
                    floor
                } else {
                    let product = self.zip(&floor, y, |e, a, b| e.b.ins().fmul(a, b));
                    self.zip(x, &product, |e, a, b| e.b.ins().fsub(a, b))
                }
            }
            BinOp::And | BinOp::Or => unreachable!("types were checked: `and` and `or` take booleans"),
        };
        self.rounded(value)
    }

    /// The minimum, as `minps` defines it: the second operand if either is NaN. Cranelift matches this pattern.
    fn float_min(&mut self, a: Value, b: Value) -> Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, a, b);
        self.choose(less, a, b)
    }

    /// The maximum, as `maxps` defines it.
    fn float_max(&mut self, a: Value, b: Value) -> Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, b, a);
        self.choose(less, a, b)
    }

    /// Rounds a float result to its type, if strict floats require it.
    pub(super) fn rounded(&mut self, v: Val) -> Val {
        let dtype = v.ty.dtype;
        if self.is_strict() && dtype.is_half() {
            let parts = v.parts.iter().map(|&p| self.round_half(dtype, p)).collect();
            return Val { parts, ..v };
        }
        v
    }

    /// Scalar integer division. `divisor` is the divisor's value if constant; otherwise the kernel stops if the result
    /// is undefined.
    fn divide(&mut self, op: BinOp, dtype: DType, a: Value, b: Value, divisor: Option<i64>, can_fail: bool) -> Value {
        let ty = scalar_type(dtype);
        let signed = dtype.is_int();
        if can_fail {
            let ok = self.is_nonzero(b);
            self.fail_unless(ok, Failure::Division);
            if signed {
                let (lowest, minus_one) = (1i64 << (ty.bits() - 1), -1);
                let (lowest, minus_one) = (self.int_like(ty, lowest), self.int_like(ty, minus_one));
                let x = self.icmp_ne(a, lowest);
                let y = self.icmp_ne(b, minus_one);
                let ok = self.b.ins().bor(x, y);
                self.fail_unless(ok, Failure::Division);
            }
        }
        let is_quotient = matches!(op, BinOp::Div | BinOp::FloorDiv);
        let power = divisor.filter(|&d| d > 0 && (d as u64).is_power_of_two()).map(|d| d.trailing_zeros() as i64);
        if !signed {
            return match power {
                Some(p) if is_quotient => self.b.ins().ushr_imm_u(a, p),
                Some(p) => {
                    let mask = self.int_like(ty, (1 << p) - 1);
                    self.b.ins().band(a, mask)
                }
                None if is_quotient => self.b.ins().udiv(a, b),
                None => self.b.ins().urem(a, b),
            };
        }
        match (op, power) {
            (BinOp::FloorDiv, Some(p)) => self.b.ins().sshr_imm_u(a, p),
            (BinOp::FloorMod, Some(p)) => {
                let mask = self.int_like(ty, (1 << p) - 1);
                self.b.ins().band(a, mask)
            }
            (BinOp::Div, _) => self.b.ins().sdiv(a, b),
            (BinOp::Mod, _) => self.b.ins().srem(a, b),
            _ => {
                // Round towards minus infinity: subtract one if there is a remainder and the signs differ.
                let quotient = self.b.ins().sdiv(a, b);
                let product = self.b.ins().imul(quotient, b);
                let remainder = self.b.ins().isub(a, product);
                let zero = self.zero(ty);
                let inexact = self.icmp_ne(remainder, zero);
                let signs = self.b.ins().bxor(remainder, b);
                let differ = self.b.ins().icmp(IntCC::SignedLessThan, signs, zero);
                let adjust = self.b.ins().band(inexact, differ);
                if op == BinOp::FloorDiv {
                    let one_less = self.b.ins().iadd_imm_s(quotient, -1);
                    self.b.ins().select(adjust, one_less, quotient)
                } else {
                    let shifted = self.b.ins().iadd(remainder, b);
                    self.b.ins().select(adjust, shifted, remainder)
                }
            }
        }
    }

    fn compare(&mut self, op: CmpOp, x: &Val, y: &Val) -> Val {
        let dtype = x.ty.dtype;
        if dtype == DType::Bool && x.ty.lanes > 1 {
            let (x, y) = (self.cast(x, DType::UInt8), self.cast(y, DType::UInt8));
            return self.compare(op, &x, &y);
        }
        let parts: Parts = x
            .parts
            .iter()
            .zip(&y.parts)
            .map(|(&a, &b)| {
                if dtype.is_float() {
                    let (a, b) = (self.in_register(a), self.in_register(b));
                    self.b.ins().fcmp(float_condition(op), a, b)
                } else {
                    self.b.ins().icmp(int_condition(op, dtype.is_int()), a, b)
                }
            })
            .collect();
        if x.ty.lanes == 1 { Val::scalar(DType::Bool, parts[0]) } else { Val::mask(x.ty.lanes, x.lane_bytes, parts) }
    }

    /// A vector of floats that a comparison does not read from memory. Without AVX the instruction would need an aligned address there,
    /// which Cranelift 0.135 does not look at (`x64_cmpps`).
    fn in_register(&mut self, v: Value) -> Value {
        let ty = self.b.func.dfg.value_type(v);
        if !self.shared.options.any_cpu || !ty.is_vector() {
            return v;
        }
        let bits = self.recast(ty.as_int(), v);
        self.recast(ty, bits)
    }

    fn reduce(&mut self, op: BinOp, x: &Val) -> Val {
        // Combine parts as vectors first. A partial part has undefined lanes, so only full ones can be combined.
        let per_part = x.lanes_per_part();
        let lanes = x.ty.lanes as usize;
        let mut rest = x.clone();
        while rest.parts.len() > 1 && lanes.is_multiple_of(per_part) {
            let half = rest.parts.len().div_ceil(2);
            let high: Parts = rest.parts.drain(half..).collect();
            for (i, part) in high.into_iter().enumerate() {
                let part_ty = Ty::vector(x.ty.dtype, per_part as u16);
                let single = |v| Val { ty: part_ty, lane_bytes: x.lane_bytes, parts: Parts::from_elem(v, 1) };
                rest.parts[i] = self.binary(op, &single(rest.parts[i]), &single(part), None, false).parts[0];
            }
        }
        rest.ty.lanes = rest.ty.lanes.min((rest.parts.len() * per_part) as u16);
        let scalar = Ty::scalar(x.ty.dtype);
        let mut scalars: Vec<Val> =
            (0..rest.ty.lanes).map(|lane| Val::scalar(scalar.dtype, self.lane(&rest, lane))).collect();
        // Combine pairwise, to keep the dependence chain short.
        while scalars.len() > 1 {
            let half = scalars.len().div_ceil(2);
            for (i, high) in scalars.split_off(half).into_iter().enumerate() {
                scalars[i] = self.binary(op, &scalars[i].clone(), &high, None, false);
            }
        }
        scalars.swap_remove(0)
    }
}

fn int_condition(op: CmpOp, signed: bool) -> IntCC {
    match (op, signed) {
        (CmpOp::Eq, _) => IntCC::Equal,
        (CmpOp::Ne, _) => IntCC::NotEqual,
        (CmpOp::Lt, true) => IntCC::SignedLessThan,
        (CmpOp::Le, true) => IntCC::SignedLessThanOrEqual,
        (CmpOp::Gt, true) => IntCC::SignedGreaterThan,
        (CmpOp::Ge, true) => IntCC::SignedGreaterThanOrEqual,
        (CmpOp::Lt, false) => IntCC::UnsignedLessThan,
        (CmpOp::Le, false) => IntCC::UnsignedLessThanOrEqual,
        (CmpOp::Gt, false) => IntCC::UnsignedGreaterThan,
        (CmpOp::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
    }
}

fn float_condition(op: CmpOp) -> FloatCC {
    match op {
        CmpOp::Eq => FloatCC::Equal,
        CmpOp::Ne => FloatCC::NotEqual,
        CmpOp::Lt => FloatCC::LessThan,
        CmpOp::Le => FloatCC::LessThanOrEqual,
        CmpOp::Gt => FloatCC::GreaterThan,
        CmpOp::Ge => FloatCC::GreaterThanOrEqual,
    }
}
