//! Represents 8-bit floats as bytes.
//!
//! Kernels have no 8-bit floats. A buffer of them becomes a buffer of `uint8`: loads decode to `float32`, stores
//! encode, and each operation is computed in `float32` and rounded by encoding and decoding its result, as
//! [`crate::ir::float8`] defines.
//!
//! This pass runs after [`lanes`](super::lanes), so all expressions are scalars.

use crate::ir::float8::Specials;
use crate::ir::visit::walk_rewrite;
use crate::ir::{
    Arena, BinOp, Buffer, BufferId, Builtin, CmpOp, DType, Expr, ExprId, Float8, Func, Intrinsic, Rewriter, Stmt, VarId,
};
use hashbrown::HashMap;
use std::borrow::Cow;

/// The function without 8-bit floats; the function itself if it has none.
pub(super) fn bytes(func: &Func) -> Cow<'_, Func> {
    let is_used = func.arena.buffer_ids().any(|b| matches!(func.arena.buffer(b).dtype, DType::Float8(_)))
        || func.arena.has_float8();
    if !is_used {
        return Cow::Borrowed(func);
    }
    let mut func = func.clone();
    let mut pass = Pass::default();
    for b in func.arena.buffer_ids() {
        let old = func.arena.buffer(b).clone();
        if let DType::Float8(_) = old.dtype {
            let new = func.arena.new_buffer(Buffer { dtype: DType::UInt8, ..old });
            pass.buffers.insert(b, new);
        }
    }
    for p in &mut func.params {
        p.buffer = p.buffer.map(|b| pass.buffers.get(&b).copied().unwrap_or(b));
    }
    let statements = func.subtree(func.root.stmt());
    for &s in &statements {
        // A let takes the type of its value, and a store encodes.
        if let Stmt::Let { var, .. } = *func.get(s) {
            pass.variable(&mut func.arena, var);
        }
    }
    for s in statements {
        let stored = match *func.get(s) {
            Stmt::Store { buffer, .. } => match func.arena.buffer(buffer).dtype {
                DType::Float8(t) => Some(t),
                _ => None,
            },
            _ => None,
        };
        func.rewrite_stmt(s, &mut pass);
        if let (Some(t), Stmt::Store { value, .. }) = (stored, func.get(s).clone()) {
            let bits = encode(&mut func.arena, t, value);
            if let Stmt::Store { value, .. } = func.stmt_mut(s) {
                *value = bits;
            }
        }
        if let Stmt::Let { var, .. } = func.stmt_mut(s) {
            *var = pass.vars.get(var).copied().unwrap_or(*var);
        }
    }
    Cow::Owned(func)
}

#[derive(Default)]
struct Pass {
    buffers: HashMap<BufferId, BufferId>,
    vars: HashMap<VarId, VarId>,
    done: HashMap<ExprId, ExprId>,
}

impl Pass {
    /// The `float32` variable that replaces an 8-bit variable.
    fn variable(&mut self, arena: &mut Arena, v: VarId) -> VarId {
        match arena.var(v).dtype {
            DType::Float8(_) => {
                let name = arena.var(v).name;
                *self.vars.entry(v).or_insert_with(|| arena.new_var(name, DType::Float32))
            }
            _ => v,
        }
    }
}

impl Rewriter for Pass {
    /// Rewrites an 8-bit expression to a `float32` expression with the same value.
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&known) = self.done.get(&e) {
            return known;
        }
        let float8 = match arena.dtype(e) {
            DType::Float8(t) => Some(t),
            _ => None,
        };
        let new = match (arena.expr(e), float8) {
            (Expr::Float(bits), Some(t)) => arena.float(DType::Float8(t).round(f64::from_bits(bits)), DType::Float32),
            (Expr::Var(v), Some(_)) => {
                let v = self.variable(arena, v);
                arena.var_expr(v)
            }
            (Expr::Load(..), Some(t)) => {
                let byte = walk_rewrite(self, arena, e);
                decode(arena, t, byte)
            }
            (Expr::Cast(a), Some(t)) => {
                let a = self.rewrite_expr(arena, a);
                let single = arena.cast(DType::Float32, a);
                round(arena, t, single)
            }
            (Expr::Builtin(Builtin::Reinterpret, args), Some(t)) => {
                let source = arena.list(args)[0];
                let a = self.rewrite_expr(arena, source);
                let byte = match arena.dtype(source) {
                    DType::Float8(from) => encode(arena, from, a),
                    _ => arena.cast(DType::UInt8, a),
                };
                decode(arena, t, byte)
            }
            (Expr::Builtin(Builtin::Reinterpret, args), None)
                if matches!(arena.dtype(arena.list(args)[0]), DType::Float8(_)) =>
            {
                let source = arena.list(args)[0];
                let a = self.rewrite_expr(arena, source);
                match arena.dtype(source) {
                    DType::Float8(t) => {
                        let byte = encode(arena, t, a);
                        let dtype = arena.dtype(e);
                        arena.cast(dtype, byte)
                    }
                    _ => a,
                }
            }
            (Expr::Let(v, value, body), _) => {
                let value = self.rewrite_expr(arena, value);
                let v = self.variable(arena, v);
                let body = self.rewrite_expr(arena, body);
                arena.let_(v, value, body)
            }
            (Expr::Binary(op, ..), Some(t)) => {
                let value = walk_rewrite(self, arena, e);
                if matches!(op, BinOp::Min | BinOp::Max) { value } else { round(arena, t, value) }
            }
            (Expr::Call(Intrinsic::NextAfter, args), Some(t)) => {
                let (x, y) = (arena.list(args)[0], arena.list(args)[1]);
                let (x, y) = (self.rewrite_expr(arena, x), self.rewrite_expr(arena, y));
                next_after(arena, t, x, y)
            }
            (Expr::Call(..), Some(t)) => {
                let value = walk_rewrite(self, arena, e);
                round(arena, t, value)
            }
            _ => walk_rewrite(self, arena, e),
        };
        self.done.insert(e, new);
        new
    }

    fn rewrite_buffer(&mut self, b: BufferId) -> BufferId {
        self.buffers.get(&b).copied().unwrap_or(b)
    }
}

/// A `float32` rounded to an 8-bit type.
fn round(a: &mut Arena, t: Float8, value: ExprId) -> ExprId {
    if let Some(v) = a.as_float(value) {
        return a.float(DType::Float8(t).round(v), DType::Float32);
    }
    let byte = encode(a, t, value);
    decode(a, t, byte)
}

struct Bits<'a>(&'a mut Arena);

impl Bits<'_> {
    fn int(&mut self, v: u32) -> ExprId {
        self.0.int(v.into(), DType::UInt32)
    }

    fn and(&mut self, x: ExprId, mask: u32) -> ExprId {
        let mask = self.int(mask);
        self.0.call(Intrinsic::BitAnd, &[x, mask])
    }

    fn or(&mut self, x: ExprId, y: ExprId) -> ExprId {
        self.0.call(Intrinsic::BitOr, &[x, y])
    }

    fn left(&mut self, x: ExprId, by: u32) -> ExprId {
        let by = self.int(by);
        self.0.call(Intrinsic::ShiftLeft, &[x, by])
    }

    fn right(&mut self, x: ExprId, by: u32) -> ExprId {
        let by = self.int(by);
        self.0.call(Intrinsic::ShiftRight, &[x, by])
    }

    /// Selects `then` if `x op c` holds, else `otherwise`.
    fn choose(&mut self, x: ExprId, op: CmpOp, c: u32, then: ExprId, otherwise: ExprId) -> ExprId {
        let c = self.int(c);
        let holds = self.0.compare(op, x, c);
        self.0.select(holds, then, otherwise)
    }

    fn as_float(&mut self, x: ExprId) -> ExprId {
        self.0.builtin(Builtin::Reinterpret, &[x], DType::Float32)
    }

    fn of_float(&mut self, x: ExprId) -> ExprId {
        self.0.builtin(Builtin::Reinterpret, &[x], DType::UInt32)
    }
}

const NAN: u32 = 0x7fc0_0000;

/// The `float32` of a byte.
fn decode(a: &mut Arena, t: Float8, byte: ExprId) -> ExprId {
    let bits = a.cast(DType::UInt32, byte);
    let mut b = Bits(a);
    let nan = b.int(NAN);
    if t == Float8::E8M0FNU {
        // The smallest power is subnormal in `float32`.
        let power = b.left(bits, 23);
        let smallest = b.int(0x0040_0000);
        let power = b.choose(bits, CmpOp::Eq, 0, smallest, power);
        let all = b.choose(bits, CmpOp::Eq, 0xff, nan, power);
        return b.as_float(all);
    }
    let (m, bias) = (t.mantissa_bits(), t.bias());
    let sign = b.and(bits, 0x80);
    let sign = b.left(sign, 24);
    let magnitude = b.and(bits, 0x7f);
    let moved = b.left(magnitude, 23 - m);
    let rebias = b.int(((127 - bias) as u32) << 23);
    let normal = b.0.add(moved, rebias);
    // A subnormal number is a multiple of the smallest one.
    let count = b.0.cast(DType::Float32, magnitude);
    let smallest = b.0.float(2f64.powi(1 - bias - m as i32), DType::Float32);
    let subnormal = b.0.mul(count, smallest);
    let subnormal = b.of_float(subnormal);
    let mut value = b.choose(magnitude, CmpOp::Lt, 1 << m, subnormal, normal);
    let largest = u32::from(t.largest());
    match t.specials() {
        Specials::Ieee => {
            let infinity = b.int(0x7f80_0000);
            let special = b.choose(magnitude, CmpOp::Eq, largest + 1, infinity, nan);
            value = b.choose(magnitude, CmpOp::Gt, largest, special, value);
        }
        Specials::Nan => value = b.choose(magnitude, CmpOp::Gt, largest, nan, value),
        Specials::NanForNegativeZero => {}
    }
    let mut all = b.or(value, sign);
    if t.specials() == Specials::NanForNegativeZero {
        all = b.choose(bits, CmpOp::Eq, 0x80, nan, all);
    }
    b.as_float(all)
}

/// The neighbour of `x` in the direction of `y` among the 8-bit numbers, which are ordered like their bytes.
fn next_after(a: &mut Arena, t: Float8, x: ExprId, y: ExprId) -> ExprId {
    let byte = encode(a, t, x);
    let bits = a.cast(DType::UInt32, byte);
    let is_up = a.compare(CmpOp::Gt, y, x);
    let mut b = Bits(a);
    let one = b.int(1);
    let (more, less) = (b.0.add(bits, one), b.0.sub(bits, one));
    let next = if t == Float8::E8M0FNU {
        b.0.select(is_up, more, less)
    } else {
        let sign = b.and(bits, 0x80);
        let zero = b.int(0);
        let is_positive = b.0.compare(CmpOp::Eq, sign, zero);
        let is_outwards = b.0.compare(CmpOp::Eq, is_up, is_positive);
        let next = b.0.select(is_outwards, more, less);
        let negative = b.int(0x81);
        let from_zero = b.0.select(is_up, one, negative);
        let magnitude = b.and(bits, 0x7f);
        let next = b.choose(magnitude, CmpOp::Eq, 0, from_zero, next);
        match t.specials() {
            Specials::NanForNegativeZero => b.choose(next, CmpOp::Eq, 0x80, zero, next),
            Specials::Ieee | Specials::Nan => next,
        }
    };
    let next = decode(a, t, next);
    let is_equal = a.compare(CmpOp::Eq, x, y);
    let next = a.select(is_equal, y, next);
    let (no_x, no_y) = (a.call(Intrinsic::IsNan, &[x]), a.call(Intrinsic::IsNan, &[y]));
    let next = a.select(no_y, y, next);
    a.select(no_x, x, next)
}

/// The byte of a `float32`, rounded to nearest even.
fn encode(a: &mut Arena, t: Float8, value: ExprId) -> ExprId {
    let mut b = Bits(a);
    let bits = b.of_float(value);
    let nan = b.int(t.nan().into());
    if t == Float8::E8M0FNU {
        // Half of the next power rounds up to it; a value that is not positive has no power.
        let half = b.int(1 << 22);
        let sum = b.0.add(bits, half);
        let code = b.right(sum, 23);
        // The smallest power is subnormal in `float32`, and the value exceeds half of it.
        let zero = b.int(0);
        let code = b.choose(bits, CmpOp::Lt, 0x0060_0000, zero, code);
        let code = b.choose(bits, CmpOp::Eq, 0, nan, code);
        let code = b.choose(bits, CmpOp::Ge, 0x7f80_0000, nan, code);
        return b.0.cast(DType::UInt8, code);
    }
    let (m, bias) = (t.mantissa_bits(), t.bias());
    let magnitude = b.and(bits, 0x7fff_ffff);
    let sign = b.right(bits, 24);
    let sign = b.and(sign, 0x80);
    // Normal numbers: rounding may carry into the exponent.
    let rebias = b.int(((127 - bias) as u32) << 23);
    let rebased = b.0.sub(magnitude, rebias);
    let odd = b.right(rebased, 23 - m);
    let odd = b.and(odd, 1);
    let below_half = b.int((1 << (22 - m)) - 1);
    let sum = b.0.add(rebased, below_half);
    let sum = b.0.add(sum, odd);
    let normal = b.right(sum, 23 - m);
    // Subnormal numbers: multiples of the smallest one, up to the first normal number.
    let absolute = b.0.call(Intrinsic::Abs, &[value]);
    let per_unit = b.0.float(2f64.powi(bias - 1 + m as i32), DType::Float32);
    let count = b.0.mul(absolute, per_unit);
    let count = b.0.call(Intrinsic::NearbyInt, &[count]);
    let count = b.0.cast(DType::UInt32, count);
    let first_normal = ((128 - bias) as u32) << 23;
    let code = b.choose(magnitude, CmpOp::Lt, first_normal, count, normal);
    let too_large = b.int(t.too_large().into());
    let largest = u32::from(t.largest());
    let code = b.choose(code, CmpOp::Gt, largest, too_large, code);
    // Values beyond the range of the rebased exponent.
    let code = b.choose(magnitude, CmpOp::Ge, 0x7f80_0000, too_large, code);
    let code = b.choose(magnitude, CmpOp::Gt, 0x7f80_0000, nan, code);
    let signed = b.or(code, sign);
    let all = if t.specials() == Specials::NanForNegativeZero {
        let zero = b.int(0);
        let all = b.choose(code, CmpOp::Eq, 0x80, nan, signed);
        b.choose(code, CmpOp::Eq, 0, zero, all)
    } else {
        signed
    };
    b.0.cast(DType::UInt8, all)
}
