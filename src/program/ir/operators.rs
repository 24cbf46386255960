//! Expressions from their operands: checked, folded where they are constant, and interned.
//!
//! The constructors fold where TVM's do (`src/arith/const_fold.h`): constants with constants, neutral and absorbing
//! constants; [`scalar`] defines the values. They never reorder operands: text stays as written, and `arith`
//! simplifies. Vectors do not fold, as in TVM. A scalar operand beside a vector is broadcast to its lanes.
//!
//! Loops and shapes of one program may be `int32` and `int64`. If one operand of an operator or comparison is an
//! `int32` and the other one an `int64`, the `int32` is converted, as TVM's operators do. All other operands must have
//! the same type.

use super::buffer::BufferId;
use super::dtype::{DType, Ty};
use super::expr::{Arena, Const, Expr, ExprId, Pointee, VarId};
use super::op::{BinOp, Builtin, CmpOp, Intrinsic, ResultType};
use super::scalar::{self, Exact, Rounding, Trap, float, int};

impl Arena {
    /// Gives both operands the same type: an `int32` beside an `int64` is converted, and a scalar beside a vector is
    /// broadcast.
    fn matched(&mut self, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
        let (a, b) = self.with_equal_lanes(a, b);
        match (self.dtype(a), self.dtype(b)) {
            (DType::Int32, DType::Int64) => (self.cast(DType::Int64, a), b),
            (DType::Int64, DType::Int32) => (a, self.cast(DType::Int64, b)),
            _ => (a, b),
        }
    }

    /// `a op b`, folded as the module's documentation says. Division by a constant zero is not folded.
    pub fn binary(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let (a, b) = self.matched(a, b);
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of {op:?} differ in type");
        if matches!(op, BinOp::And | BinOp::Or) {
            assert_eq!(ty.dtype, DType::Bool, "operands of {op:?} must be booleans");
        }
        match self.fold_binary(op, a, b, ty.dtype) {
            Some(folded) => folded,
            None => self.intern(Expr::Binary(op, a, b), ty),
        }
    }

    /// The operands with equal lanes: a scalar operand is broadcast to the lanes of the other one.
    pub fn with_equal_lanes(&mut self, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
        match (self.lanes(a), self.lanes(b)) {
            (x, y) if x == y => (a, b),
            (1, lanes) => (self.broadcast(a, lanes), b),
            (lanes, 1) => (a, self.broadcast(b, lanes)),
            _ => (a, b),
        }
    }

    /// `T.Ramp(base, stride, lanes)`; the base itself for one lane.
    pub fn ramp(&mut self, base: ExprId, stride: ExprId, lanes: u16) -> ExprId {
        assert_eq!(self.dtype(base), self.dtype(stride), "base and stride of a ramp differ in type");
        assert!(self.lanes(base) == 1 && self.lanes(stride) == 1, "base and stride of a ramp are scalars");
        if lanes == 1 { base } else { self.intern(Expr::Ramp(base, stride), self.ty(base).with_lanes(lanes)) }
    }

    /// `T.Broadcast(value, lanes)`; the value itself for one lane.
    pub fn broadcast(&mut self, value: ExprId, lanes: u16) -> ExprId {
        assert_eq!(self.lanes(value), 1, "a scalar is broadcast");
        if lanes == 1 { value } else { self.intern(Expr::Broadcast(value), self.ty(value).with_lanes(lanes)) }
    }

    /// `T.Shuffle(vectors, indices)` of vectors of one scalar type.
    pub fn shuffle(&mut self, vectors: &[ExprId], indices: &[ExprId]) -> ExprId {
        let ty = self.ty(vectors[0]).with_lanes(indices.len() as u16);
        let (vectors, indices) = (self.new_list(vectors), self.new_list(indices));
        self.intern(Expr::Shuffle(vectors, indices), ty)
    }

    /// A call of a builtin with a value of type `ty`. The verifier checks the arguments.
    pub fn builtin(&mut self, function: Builtin, args: &[ExprId], ty: impl Into<Ty>) -> ExprId {
        let list = self.new_list(args);
        self.intern(Expr::Builtin(function, list), ty)
    }

    /// A buffer as an argument of a call, by its name.
    pub fn whole_buffer_expr(&mut self, b: BufferId) -> ExprId {
        let data = self.buffer_data(b);
        self.builtin(Builtin::WholeBuffer, &[data], DType::Handle)
    }

    /// The target of an address, as the last argument of the call that returns the address.
    pub fn pointer_type(&mut self, pointee: Pointee) -> ExprId {
        let scope = self.str(pointee.scope);
        self.builtin(Builtin::PointerType, &[scope], pointee.ty)
    }

    /// The stated target in the last argument of a call that returns an address.
    pub fn as_pointer_type(&self, e: ExprId) -> Option<Pointee> {
        let Expr::Builtin(Builtin::PointerType, args) = self.expr(e) else { return None };
        match *self.list(args) {
            [scope] => match self.expr(scope) {
                Expr::Str(scope) => Some(Pointee { ty: self.ty(e), scope }),
                _ => None,
            },
            _ => None,
        }
    }

    /// The buffer that an argument of a call names.
    pub fn whole_buffer(&self, e: ExprId) -> Option<BufferId> {
        match self.expr(e) {
            Expr::Builtin(Builtin::WholeBuffer, args) => match self.list(args) {
                &[data] => match self.expr(data) {
                    Expr::BufferData(b) => Some(b),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// The node `a op b`, even if [`Arena::binary`] would fold it: the meaning of `T.Add(i, 0)` in a text.
    pub fn binary_unfolded(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let (a, b) = self.matched(a, b);
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of {op:?} differ in type");
        self.intern(Expr::Binary(op, a, b), ty)
    }

    fn fold_binary(&mut self, op: BinOp, a: ExprId, b: ExprId, dtype: DType) -> Option<ExprId> {
        Some(match self.folding(op, a, b)? {
            Folding::Int(v) => self.int(v, dtype),
            Folding::Float(v) => self.float(v, dtype),
            Folding::Operand(e) => e,
        })
    }

    /// Whether [`Arena::binary`] would return anything but the node `a op b`.
    pub fn folds(&self, op: BinOp, a: ExprId, b: ExprId) -> bool {
        self.folding(op, a, b).is_some()
    }

    fn folding(&self, op: BinOp, a: ExprId, b: ExprId) -> Option<Folding> {
        let dtype = self.dtype(a);
        // Remainders are folded in index types only.
        let stays = !dtype.is_index() && (op == BinOp::Mod || op == BinOp::FloorMod && !dtype.is_uint());
        if stays || self.lanes(a) > 1 {
            return None;
        }
        if let (Some(x), Some(y)) = (self.as_int(a), self.as_int(b)) {
            return fold_ints(op, dtype, x, y).map(Folding::Int);
        }
        if let (Some(x), Some(y)) = (self.as_float(a), self.as_float(b))
            && let Some(v) = fold_floats(op, dtype, x, y)
        {
            return Some(Folding::Float(v));
        }
        let is = |e: ExprId, value: i64| match self.as_const(e) {
            Some(Const::Int(v)) => v == value,
            Some(Const::Float(v)) => v == value as f64,
            None => false,
        };
        match op {
            BinOp::Add if is(a, 0) => Some(Folding::Operand(b)),
            BinOp::Add | BinOp::Sub if is(b, 0) => Some(Folding::Operand(a)),
            BinOp::Mul if is(a, 1) || is(b, 0) => Some(Folding::Operand(b)),
            BinOp::Mul if is(b, 1) || is(a, 0) => Some(Folding::Operand(a)),
            BinOp::Div | BinOp::FloorDiv if is(b, 1) || is(a, 0) => Some(Folding::Operand(a)),
            BinOp::Mod | BinOp::FloorMod if dtype.is_index() && is(a, 0) => Some(Folding::Operand(a)),
            BinOp::Mod | BinOp::FloorMod if dtype.is_index() && is(b, 1) => Some(Folding::Int(0)),
            BinOp::Min | BinOp::Max if a == b => Some(Folding::Operand(a)),
            BinOp::And if is(a, 1) || is(b, 0) => Some(Folding::Operand(b)),
            BinOp::And if is(a, 0) || is(b, 1) => Some(Folding::Operand(a)),
            BinOp::Or if is(a, 0) || is(b, 1) => Some(Folding::Operand(b)),
            BinOp::Or if is(a, 1) || is(b, 0) => Some(Folding::Operand(a)),
            _ => None,
        }
    }

    /// `a + b`.
    pub fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::Sub, a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::Mul, a, b)
    }

    /// `a // b`.
    pub fn floor_div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::FloorDiv, a, b)
    }

    /// `a % b`.
    pub fn floor_mod(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::FloorMod, a, b)
    }

    /// The smaller of two values.
    pub fn min(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::Min, a, b)
    }

    /// The larger of two values.
    pub fn max(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::Max, a, b)
    }

    /// `a and b`.
    pub fn and(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::And, a, b)
    }

    /// `a or b`.
    pub fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::Or, a, b)
    }

    /// `a + value`, with the constant in `a`'s type.
    pub fn add_const(&mut self, a: ExprId, value: i64) -> ExprId {
        let c = self.int(value, self.dtype(a));
        self.add(a, c)
    }

    /// `a * value`, with the constant in `a`'s type.
    pub fn mul_const(&mut self, a: ExprId, value: i64) -> ExprId {
        let c = self.int(value, self.dtype(a));
        self.mul(a, c)
    }

    /// A comparison, folded for constants.
    pub fn compare(&mut self, op: CmpOp, a: ExprId, b: ExprId) -> ExprId {
        let (a, b) = self.matched(a, b);
        assert_eq!(self.ty(a), self.ty(b), "operands of {op:?} differ in type");
        let dtype = self.dtype(a);
        let number = |e: ExprId| match self.as_const(e)? {
            // A constant may have more digits than its type.
            Const::Float(v) => Some(Const::Float(dtype.round(v))),
            v @ Const::Int(_) => Some(v),
        };
        match number(a).zip(number(b)).and_then(|(x, y)| scalar::compare(op, dtype, x, y).ok()) {
            Some(holds) => self.bool(holds),
            None => self.intern(Expr::Compare(op, a, b), self.ty(a).with_dtype(DType::Bool)),
        }
    }

    /// `a < b`.
    pub fn lt(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(CmpOp::Lt, a, b)
    }

    /// The comparison as a node, even if [`Arena::compare`] would fold it.
    pub fn compare_unfolded(&mut self, op: CmpOp, a: ExprId, b: ExprId) -> ExprId {
        let (a, b) = self.matched(a, b);
        assert_eq!(self.ty(a), self.ty(b), "operands of {op:?} differ in type");
        self.intern(Expr::Compare(op, a, b), self.ty(a).with_dtype(DType::Bool))
    }

    /// `not a`, folded for constants.
    pub fn not(&mut self, a: ExprId) -> ExprId {
        assert_eq!(self.dtype(a), DType::Bool, "the operand of `not` must be a boolean");
        match self.as_int(a) {
            Some(v) => self.bool(v == 0),
            None => self.intern(Expr::Not(a), self.ty(a)),
        }
    }

    /// The node `not a`, even if [`Arena::not`] would fold it.
    pub fn not_unfolded(&mut self, a: ExprId) -> ExprId {
        assert_eq!(self.dtype(a), DType::Bool, "the operand of `not` must be a boolean");
        self.intern(Expr::Not(a), self.ty(a))
    }

    /// `a` converted to `dtype`, lane by lane; `a` itself if it has that type, a constant if `a` is an integer
    /// constant.
    pub fn cast(&mut self, dtype: DType, a: ExprId) -> ExprId {
        let from = self.dtype(a);
        if from == dtype {
            return a;
        }
        match self.as_const(a) {
            // Floats are not folded to integers.
            Some(v @ Const::Int(_)) => self.number(fold_cast(from, dtype, v), dtype),
            Some(v @ Const::Float(_)) if dtype.is_float() => self.number(fold_cast(from, dtype, v), dtype),
            _ => self.intern(Expr::Cast(a), self.ty(a).with_dtype(dtype)),
        }
    }

    fn number(&mut self, value: Const, dtype: DType) -> ExprId {
        match value {
            Const::Int(v) => self.int(v, dtype),
            Const::Float(v) => self.float(v, dtype),
        }
    }

    /// A conversion, folded for constants as TVM's `cast` does: float constants become booleans, and integers if they fit.
    pub fn converted(&mut self, dtype: DType, e: ExprId) -> ExprId {
        let from = self.dtype(e);
        let Some(v) = self.as_float(e).map(|v| from.round(v)) else { return self.cast(dtype, e) };
        let as_int = |to| scalar::cast(from, to, Const::Float(v), &Exact).as_i64();
        match dtype {
            DType::Bool => self.int(as_int(dtype), dtype),
            _ if dtype.is_integer() && v.abs() < 9e18 && as_int(dtype) == as_int(DType::Int64) => {
                self.int(as_int(dtype), dtype)
            }
            _ => self.cast(dtype, e),
        }
    }

    /// The conversion as a node, even if [`Arena::cast`] would fold it.
    pub fn cast_unfolded(&mut self, dtype: DType, a: ExprId) -> ExprId {
        self.intern(Expr::Cast(a), self.ty(a).with_dtype(dtype))
    }

    /// `T.Select`; the condition is a scalar, or has as many lanes as the operands.
    pub fn select(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        assert_eq!(self.dtype(condition), DType::Bool, "a condition must be a boolean");
        let (then, otherwise) = self.matched(then, otherwise);
        assert_eq!(self.ty(then), self.ty(otherwise), "the sides of a select differ in type");
        self.intern(Expr::Select(condition, then, otherwise), self.ty(then))
    }

    /// `T.if_then_else`, folded for a constant condition.
    pub fn if_then_else(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        assert_eq!(self.dtype(condition), DType::Bool, "a condition must be a boolean");
        let (then, otherwise) = self.matched(then, otherwise);
        assert_eq!(self.ty(then), self.ty(otherwise), "the sides of a conditional differ in type");
        match self.as_int(condition) {
            Some(0) => otherwise,
            Some(_) => then,
            None => self.intern(Expr::IfThenElse(condition, then, otherwise), self.ty(then)),
        }
    }

    /// The element of `buffer` at `indices`, or one element per lane of the last index. The verifier checks the number
    /// of indices.
    pub fn load(&mut self, buffer: BufferId, indices: &[ExprId]) -> ExprId {
        let ty = self.accessed(buffer, indices);
        let list = self.new_list(indices);
        self.intern(Expr::Load(buffer, list), ty)
    }

    /// The type of the accessed elements.
    pub fn accessed(&self, buffer: BufferId, indices: &[ExprId]) -> Ty {
        let ty = self.buffer(buffer).ty();
        match indices.last() {
            Some(&last) => ty.with_lanes(ty.lanes.saturating_mul(self.lanes(last))),
            None => ty,
        }
    }

    /// A call of a scalar function with the right number of arguments. The verifier checks their types.
    pub fn call(&mut self, function: Intrinsic, args: &[ExprId]) -> ExprId {
        assert_eq!(args.len(), function.arity(), "number of arguments of {function}");
        let lanes = args.iter().map(|&a| self.lanes(a)).max().unwrap_or(1);
        let mut all = smallvec::SmallVec::<[ExprId; 3]>::new();
        for &a in args {
            all.push(if self.lanes(a) == 1 { self.broadcast(a, lanes) } else { a });
        }
        let first = self.ty(all[0]);
        let ty = match function.result() {
            ResultType::First => first,
            ResultType::Bool => first.with_dtype(DType::Bool),
            ResultType::Int32 => first.with_dtype(DType::Int32),
        };
        let list = self.new_list(&all);
        self.intern(Expr::Call(function, list), ty)
    }

    /// `body`, in which `var` is bound to `value`.
    pub fn let_(&mut self, var: VarId, value: ExprId, body: ExprId) -> ExprId {
        assert_eq!(self.var(var).ty(), self.ty(value), "the value of a let differs in type");
        self.intern(Expr::Let(var, value, body), self.ty(body))
    }
}

/// TVM's folded integer constant; `None` if TVM does not fold.
fn fold_ints(op: BinOp, dtype: DType, x: i64, y: i64) -> Option<i64> {
    match int::binary(op, dtype, x, y) {
        Ok(v) => Some(v),
        // The program is in error, but TVM divides in 64 bits and wraps.
        Err(Trap::DivisionOverflow) if x != i64::MIN => int::binary(op, DType::Int64, x, y).ok().map(|v| dtype.wrap(v)),
        Err(_) => None,
    }
}

/// TVM's folded float constant; `None` if TVM does not fold.
fn fold_floats(op: BinOp, dtype: DType, x: f64, y: f64) -> Option<f64> {
    // A constant may have more digits than its type.
    let rounded = (dtype.round(x), dtype.round(y));
    let folds = match op {
        BinOp::Min | BinOp::Max => true,
        // Constants of narrower types are not folded.
        BinOp::Add | BinOp::Sub | BinOp::Mul => dtype.is_single_or_double(),
        BinOp::Div | BinOp::FloorDiv => dtype.is_single_or_double() && rounded.1 != 0.0,
        BinOp::Mod | BinOp::FloorMod | BinOp::And | BinOp::Or => false,
    };
    if !folds {
        return None;
    }
    let value = float::binary(op, dtype, rounded.0, rounded.1, &Exact).ok()?;
    // Minima and maxima keep the constant as written.
    let is_choice = matches!(op, BinOp::Min | BinOp::Max);
    let same = |v: f64| v.to_bits() == value.to_bits();
    Some(match (is_choice && same(rounded.0), is_choice && same(rounded.1)) {
        (true, _) => x,
        (_, true) => y,
        (false, false) => value,
    })
}

/// A float constant converted. Digits beyond the precision of both types stay, because TVM prints them.
fn fold_cast(from: DType, to: DType, value: Const) -> Const {
    let exact = match value {
        Const::Int(_) => scalar::cast(from, to, value, &Exact),
        Const::Float(v) => scalar::cast(from, to, Const::Float(from.round(v)), &Exact),
    };
    let Const::Float(number) = exact else { return exact };
    let written = match value {
        Const::Int(v) => Exact.of_int(from, DType::Float64, v),
        Const::Float(v) => v,
    };
    Const::Float(if to.round(written).to_bits() == number.to_bits() { written } else { number })
}

/// The way in which an operator on these operands folds.
enum Folding {
    Int(i64),
    Float(f64),
    Operand(ExprId),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(a: &Arena, e: ExprId) -> Const {
        a.as_const(e).unwrap_or_else(|| panic!("{} is no constant", a.brief(e)))
    }

    #[test]
    fn constants_are_numbers_of_their_type() {
        let mut a = Arena::new();
        // 0.1 is not a `float16`; 0.1 and 0.100001 round to the same one.
        let (x, y) = (a.float(0.1, DType::Float16), a.float(0.100001, DType::Float16));
        let less = a.lt(x, y);
        assert_eq!(value(&a, less), Const::Int(0));
        let wide = a.cast(DType::Float64, x);
        assert_eq!(value(&a, wide), Const::Float(0.0999755859375));
        // Constants that round to the same number keep the spelling of TVM.
        let tenth = a.float(0.1, DType::Float32);
        let narrow = a.cast(DType::Float16, tenth);
        assert_eq!(value(&a, narrow), Const::Float(0.1));
    }

    #[test]
    fn integers_become_floats_by_one_rounding() {
        let mut a = Arena::new();
        let (big, odd) = (a.int((1 << 54) + (1 << 30) + 1, DType::Int64), a.int32(16777217));
        let (big, odd) = (a.cast(DType::Float32, big), a.cast(DType::Float32, odd));
        assert_eq!(value(&a, big), Const::Float(18014400656965632.0));
        assert_eq!(value(&a, odd), Const::Float(16777217.0), "as TVM writes it");
    }

    #[test]
    fn minima_take_the_second_operand_of_nan_and_of_zeros() {
        let mut a = Arena::new();
        let [nan, one, zero, minus] = [f64::NAN, 1.0, 0.0, -0.0].map(|v| a.float(v, DType::Float32));
        assert_eq!((a.min(nan, one), a.max(nan, one)), (one, one));
        let second = a.min(one, nan);
        assert!(a.as_float(second).is_some_and(f64::is_nan));
        assert_eq!((a.min(zero, minus), a.min(minus, zero)), (minus, zero));
        assert_eq!((a.max(zero, minus), a.max(minus, zero)), (minus, zero));
    }

    #[test]
    fn the_smallest_integer_by_minus_one_folds_as_in_tvm() {
        let mut a = Arena::new();
        let (least, minus) = (a.int32(i32::MIN.into()), a.int32(-1));
        assert_eq!(a.floor_div(least, minus), least);
        let (least, minus) = (a.int(i64::MIN, DType::Int64), a.int(-1, DType::Int64));
        let quotient = a.floor_div(least, minus);
        assert_eq!(a.as_const(quotient), None);
    }
}
