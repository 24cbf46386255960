//! Emits function calls: instructions where available, otherwise calls lane by lane.

use super::func::Emitter;
use super::value::{Parts, Val, scalar_type};
use crate::codegen::runtime::functions::scalar_function;
use crate::ir::{Const, DType, Intrinsic};
use crate::loopir::{ExprList, Ty};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};

impl Emitter<'_, '_> {
    pub(super) fn call(&mut self, function: Intrinsic, args: &[Val], ty: Ty) -> Val {
        let x = &args[0];
        let dtype = x.ty.dtype;
        if !dtype.is_float() {
            return self.int_call(function, args, ty);
        }
        let map = |e: &mut Self, f: &mut dyn FnMut(&mut Self, Value) -> Value| {
            let parts = x.parts.iter().map(|&p| f(e, p)).collect();
            Val { parts, ..x.clone() }
        };
        let value = match function {
            Intrinsic::Sqrt => map(self, &mut |e, p| e.b.ins().sqrt(p)),
            Intrinsic::Rsqrt => {
                let one = self.float_like(x, 1.0);
                map(self, &mut |e, p| {
                    let root = e.b.ins().sqrt(p);
                    e.b.ins().fdiv(one, root)
                })
            }
            Intrinsic::Abs => map(self, &mut |e, p| e.b.ins().fabs(p)),
            Intrinsic::Floor => map(self, &mut |e, p| e.b.ins().floor(p)),
            Intrinsic::Ceil => map(self, &mut |e, p| e.b.ins().ceil(p)),
            Intrinsic::Trunc => map(self, &mut |e, p| e.b.ins().trunc(p)),
            Intrinsic::Round | Intrinsic::NearbyInt => map(self, &mut |e, p| e.b.ins().nearest(p)),
            Intrinsic::CopySign if ty.lanes == 1 => self.zip(x, &args[1], |e, a, b| e.b.ins().fcopysign(a, b)),
            Intrinsic::CopySign => {
                let sign = self.float_like(x, -0.0);
                self.zip(x, &args[1], |e, a, b| e.b.ins().bitselect(sign, b, a))
            }
            Intrinsic::Fma => {
                let parts = (0..x.parts.len())
                    .map(|i| self.b.ins().fma(x.parts[i], args[1].parts[i], args[2].parts[i]))
                    .collect();
                Val { parts, ..x.clone() }
            }
            Intrinsic::Fmod => self.remainder(x, &args[1], ty),
            Intrinsic::IsNan => return self.compare_parts(x, |e, p| e.b.ins().fcmp(FloatCC::Unordered, p, p)),
            Intrinsic::IsInf | Intrinsic::IsFinite => {
                let infinity = self.float_like(x, f64::INFINITY);
                let condition = if function == Intrinsic::IsInf { FloatCC::Equal } else { FloatCC::LessThan };
                return self.compare_parts(x, |e, p| {
                    let magnitude = e.b.ins().fabs(p);
                    e.b.ins().fcmp(condition, magnitude, infinity)
                });
            }
            _ => {
                let f = scalar_function(function, dtype)
                    .unwrap_or_else(|| unreachable!("types were checked: {function} takes no floats"));
                let result = scalar_type(dtype);
                let args: Vec<&Val> = args.iter().collect();
                self.by_lane_or_scalar(ty, &args, |e, lanes| e.call_function(f, lanes, result))
            }
        };
        self.rounded(value)
    }

    fn compare_parts(&mut self, x: &Val, mut f: impl FnMut(&mut Self, Value) -> Value) -> Val {
        let parts: Parts = x.parts.iter().map(|&p| f(self, p)).collect();
        if x.ty.lanes == 1 { Val::scalar(DType::Bool, parts[0]) } else { Val::mask(x.ty.lanes, x.lane_bytes, parts) }
    }

    /// A float constant of a value's type, as a part.
    fn float_like(&mut self, x: &Val, value: f64) -> Value {
        let scalar = if x.ty.dtype == DType::Float64 {
            self.b.ins().f64const(value)
        } else {
            self.b.ins().f32const(value as f32)
        };
        if x.ty.lanes == 1 { scalar } else { self.b.ins().splat(x.part_type(), scalar) }
    }

    fn int_call(&mut self, function: Intrinsic, args: &[Val], ty: Ty) -> Val {
        let x = &args[0];
        let dtype = x.ty.dtype;
        let is_bool = dtype == DType::Bool;
        match function {
            Intrinsic::Likely | Intrinsic::Assume => x.clone(),
            Intrinsic::Abs if dtype.is_int() && x.lane_bytes < 8 => self.zip(x, x, |e, a, _| e.b.ins().iabs(a)),
            Intrinsic::Abs if dtype.is_int() => self.by_lane_or_scalar(ty, &[x], |e, a| e.b.ins().iabs(a[0])),
            Intrinsic::Abs => x.clone(),
            Intrinsic::BitAnd | Intrinsic::BitOr | Intrinsic::BitXor => {
                let y = if is_bool && ty.lanes > 1 { self.mask_to(&args[1], x.lane_bytes) } else { args[1].clone() };
                self.zip(x, &y, |e, a, b| match function {
                    Intrinsic::BitAnd => e.b.ins().band(a, b),
                    Intrinsic::BitOr => e.b.ins().bor(a, b),
                    _ => e.b.ins().bxor(a, b),
                })
            }
            Intrinsic::BitNot if is_bool && ty.lanes == 1 => Val::scalar(dtype, self.b.ins().bxor_imm_u(x.single(), 1)),
            Intrinsic::BitNot => self.zip(x, x, |e, a, _| e.b.ins().bnot(a)),
            Intrinsic::PopCount => self.by_lane_or_scalar(ty, &[x], |e, a| e.b.ins().popcnt(a[0])),
            // A boolean has one bit.
            Intrinsic::Clz if is_bool => self.by_lane_or_scalar(ty, &[x], |e, a| {
                let is_zero = e.b.ins().bxor_imm_u(a[0], 1);
                e.b.ins().uextend(types::I32, is_zero)
            }),
            Intrinsic::Clz => self.by_lane_or_scalar(ty, &[x], |e, a| {
                let zeros = e.b.ins().clz(a[0]);
                match e.b.func.dfg.value_type(zeros) {
                    types::I32 => zeros,
                    types::I64 => e.b.ins().ireduce(types::I32, zeros),
                    _ => e.b.ins().uextend(types::I32, zeros),
                }
            }),
            Intrinsic::ShiftLeft | Intrinsic::ShiftRight => {
                self.by_lane_or_scalar(ty, &[x, &args[1]], |e, a| e.shift(function, dtype, a[0], a[1]))
            }
            _ => unreachable!("types were checked: {function} takes no integers"),
        }
    }

    /// The count of a shift of 32-bit lanes, if all lanes have the same constant less than the width.
    pub(super) fn constant_shift(&self, args: ExprList) -> Option<i64> {
        let arena = &self.kernel.arena;
        match arena.as_const(arena.list(args)[1]) {
            Some(Const::Int(by)) => Some(by).filter(|by| (0..32).contains(by)),
            Some(Const::Float(_)) | None => None,
        }
    }

    /// A scalar shift whose count may exceed the width.
    fn shift(&mut self, function: Intrinsic, dtype: DType, a: Value, count: Value) -> Value {
        let ty = scalar_type(dtype);
        let zero = self.zero(ty);
        if dtype == DType::Bool {
            // Any shift of the one bit by another one is beyond the width.
            let stays = self.b.ins().icmp(IntCC::Equal, count, zero);
            return self.b.ins().select(stays, a, zero);
        }
        let width = ty.bits() as i64;
        let limit = self.int_like(ty, width);
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, count, limit);
        if function == Intrinsic::ShiftLeft {
            let shifted = self.b.ins().ishl(a, count);
            return self.b.ins().select(inside, shifted, zero);
        }
        if dtype.is_int() {
            // Beyond the width, all bits are copies of the sign.
            let most = self.int_like(ty, width - 1);
            let count = self.b.ins().select(inside, count, most);
            return self.b.ins().sshr(a, count);
        }
        let shifted = self.b.ins().ushr(a, count);
        self.b.ins().select(inside, shifted, zero)
    }
}
