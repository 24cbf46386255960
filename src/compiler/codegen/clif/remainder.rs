//! The remainder of a division of floats towards zero (`fmod`).
//!
//! With the quotient `q`, truncated, the remainder `|x| - q * |y|` is exact in one fused multiply-add, as long as `q` has fewer
//! bits than a significand. The division may round up to an integer, so that `q` is one too large: the remainder is then negative,
//! and adding `|y|` gives it exactly. It never is too small.
//!
//! Where a quotient is larger, a divisor so small that a negative remainder could be flushed to zero, or an operand infinite or NaN, a
//! function is called for each lane:
//!
//! ```text
//! fits = |x| < |y| * 2^22 and 2^-100 <= |y| < inf
//! r = fma(trunc(|x| / |y|), -|y|, |x|);  r = r < 0 ? r + |y| : r
//! result = all lanes fit ? r with the sign of x : [fmod(x[i], y[i]) for each lane i]
//! ```

use super::func::Emitter;
use super::value::{PART, Parts, Val, int_vector, lane_bytes, scalar_type};
use crate::codegen::runtime::functions::scalar_function;
use crate::ir::{DType, Intrinsic};
use crate::loopir::Ty;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, immediates::V128Imm};

impl Emitter<'_, '_> {
    /// The remainder of `x / y`, with the sign of `x`.
    pub(super) fn remainder(&mut self, x: &Val, y: &Val, ty: Ty) -> Val {
        if !self.has_fma() {
            return self.remainder_by_calls(x, y, ty);
        }
        let mut parts = Parts::new();
        let mut fit: Option<Value> = None;
        for (i, (&x, &y)) in x.parts.iter().zip(&y.parts).enumerate() {
            let (part, fits) = self.remainder_of_part(x, y, ty);
            let fits = self.or_absent(fits, i, ty);
            parts.push(part);
            fit = Some(fit.map_or(fits, |all| self.b.ins().band(all, fits)));
        }
        let Some(fit) = fit else { return self.remainder_by_calls(x, y, ty) };
        let fit = if ty.lanes == 1 { fit } else { self.b.ins().vall_true(fit) };
        let (calls, after) = (self.b.create_block(), self.b.create_block());
        let part = x.part_type();
        let results: Parts = parts.iter().map(|_| self.b.append_block_param(after, part)).collect();
        let known: Vec<BlockArg> = parts.iter().map(|&p| BlockArg::Value(p)).collect();
        self.b.ins().brif(fit, after, &known, calls, &[]);
        self.b.seal_block(calls);
        self.b.set_cold_block(calls);
        self.b.switch_to_block(calls);
        let called = self.remainder_by_calls(x, y, ty);
        let called: Vec<BlockArg> = called.parts.iter().map(|&p| BlockArg::Value(p)).collect();
        self.b.ins().jump(after, &called);
        self.b.seal_block(after);
        self.b.switch_to_block(after);
        Val { parts: results, ..x.clone() }
    }

    /// The remainder if the quotient is small, and whether it is.
    fn remainder_of_part(&mut self, x: Value, y: Value, ty: Ty) -> (Value, Value) {
        let (largest, least) = match ty.dtype {
            DType::Float64 => (2f64.powi(51), 2f64.powi(-960)),
            _ => (2f64.powi(22), 2f64.powi(-100)),
        };
        let [largest, least, infinity, zero, sign] =
            [largest, least, f64::INFINITY, 0.0, -0.0].map(|v| self.float_for(x, ty.dtype, v));
        let (a, b) = (self.b.ins().fabs(x), self.b.ins().fabs(y));
        let end = self.b.ins().fmul(b, largest);
        let is_small = self.b.ins().fcmp(FloatCC::LessThan, a, end);
        let is_finite = self.b.ins().fcmp(FloatCC::LessThan, b, infinity);
        let is_normal = self.b.ins().fcmp(FloatCC::GreaterThanOrEqual, b, least);
        let fits = self.b.ins().band(is_small, is_finite);
        let fits = self.b.ins().band(fits, is_normal);
        let quotient = self.b.ins().fdiv(a, b);
        let quotient = self.b.ins().trunc(quotient);
        let negated = self.b.ins().fneg(b);
        let rest = self.b.ins().fma(quotient, negated, a);
        let is_negative = self.b.ins().fcmp(FloatCC::LessThan, rest, zero);
        let added = self.b.ins().fadd(rest, b);
        let rest = self.choose(is_negative, added, rest);
        let signed =
            if ty.lanes == 1 { self.b.ins().fcopysign(rest, x) } else { self.b.ins().bitselect(sign, x, rest) };
        (signed, fits)
    }

    /// The mask of the `i`-th part with the lanes set that the vector does not have.
    fn or_absent(&mut self, mask: Value, i: usize, ty: Ty) -> Value {
        let lane = usize::from(lane_bytes(ty.dtype));
        let present = (usize::from(ty.lanes) * lane).saturating_sub(i * PART);
        if ty.lanes == 1 || present >= PART {
            return mask;
        }
        let mut bytes = [0xff; PART];
        bytes[..present].fill(0);
        let absent = self.b.func.dfg.constants.insert(V128Imm(bytes).into());
        let absent = self.b.ins().vconst(int_vector(lane as u8), absent);
        self.b.ins().bor(mask, absent)
    }

    fn remainder_by_calls(&mut self, x: &Val, y: &Val, ty: Ty) -> Val {
        let f = scalar_function(Intrinsic::Fmod, ty.dtype)
            .unwrap_or_else(|| unreachable!("types were checked: floats have remainders"));
        let result = scalar_type(ty.dtype);
        self.by_lane_or_scalar(ty, &[x, y], |e, lanes| e.call_function(f, lanes, result))
    }

    /// A constant in every lane of a part like `of`.
    fn float_for(&mut self, of: Value, dtype: DType, value: f64) -> Value {
        let part = self.b.func.dfg.value_type(of);
        let scalar =
            if dtype == DType::Float64 { self.b.ins().f64const(value) } else { self.b.ins().f32const(value as f32) };
        if part.is_vector() { self.b.ins().splat(part, scalar) } else { scalar }
    }

    /// Whether fused multiply-add is an instruction of the CPU that the code is for.
    fn has_fma(&self) -> bool {
        cfg!(target_arch = "aarch64")
            || self.module.isa().isa_flags().iter().any(|f| f.name == "has_fma" && f.as_bool() == Some(true))
    }
}
