//! Tests of floats, as TVM writes them: only `isnan` is a function, others are formulas.

use super::Te;
use crate::ir::{CmpOp, DType, ExprId, Intrinsic};

impl Te {
    /// Whether a number is NaN; integers are none.
    pub fn is_nan(&mut self, x: ExprId) -> ExprId {
        match self.dtype(x) {
            dtype if !dtype.is_float() => self.bool(false),
            dtype if dtype.is_half() => {
                let x = self.cast(DType::Float32, x);
                self.call(Intrinsic::IsNan, &[x])
            }
            _ => self.call(Intrinsic::IsNan, &[x]),
        }
    }

    /// Whether a number is infinite; integers are not.
    pub fn is_infinite(&mut self, x: ExprId) -> ExprId {
        let dtype = self.dtype(x);
        if !dtype.is_float() {
            return self.bool(false);
        }
        let (size, infinity) = (self.call(Intrinsic::Abs, &[x]), self.float(f64::INFINITY, dtype));
        let (is_large, is_nan) = (self.compare(CmpOp::Eq, size, infinity), self.is_nan(x));
        let is_number = self.not(is_nan);
        self.and(is_large, is_number)
    }

    /// Whether a number is neither infinite nor NaN.
    pub fn is_finite(&mut self, x: ExprId) -> ExprId {
        let (is_infinite, is_nan) = (self.is_infinite(x), self.is_nan(x));
        let (a, b) = (self.not(is_infinite), self.not(is_nan));
        self.and(a, b)
    }
}
