//! Expressions from their operands: checked, folded where they are constant, and interned.
//!
//! The constructors fold where TVM's do (`src/arith/const_fold.h`): constants with constants, neutral and absorbing
//! constants. They never reorder: text stays as written, simplification is the business of `arith`. Vectors do not fold,
//! as they do not in TVM; a scalar operand beside a vector becomes a broadcast of as many lanes.
//!
//! Loops and shapes of one program may count in `int32` and in `int64`. So where one operand of an operator or comparison
//! is an `int32` and the other one an `int64`, the `int32` is converted, as TVM's operators do. All other operands must be
//! of one type.

use super::buffer::BufferId;
use super::dtype::{DType, Ty};
use super::expr::{Arena, Const, Expr, ExprId, Pointee, VarId};
use super::op::{BinOp, Builtin, CmpOp, Intrinsic, ResultType};

impl Arena {
    /// The operands in one type: of an `int32` and an `int64`, the former is converted, and of a scalar and a vector, the
    /// former is broadcast.
    fn matched(&mut self, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
        let (a, b) = self.with_equal_lanes(a, b);
        match (self.dtype(a), self.dtype(b)) {
            (DType::Int32, DType::Int64) => (self.cast(DType::Int64, a), b),
            (DType::Int64, DType::Int32) => (a, self.cast(DType::Int64, b)),
            _ => (a, b),
        }
    }

    /// `a op b`, folded as the module says. Division by a constant zero stays.
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

    /// The operands, a scalar one broadcast to the lanes of the other one.
    pub fn with_equal_lanes(&mut self, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
        match (self.lanes(a), self.lanes(b)) {
            (x, y) if x == y => (a, b),
            (1, lanes) => (self.broadcast(a, lanes), b),
            (lanes, 1) => (a, self.broadcast(b, lanes)),
            _ => (a, b),
        }
    }

    /// `T.Ramp(base, stride, lanes)`: of one lane, the base.
    pub fn ramp(&mut self, base: ExprId, stride: ExprId, lanes: u16) -> ExprId {
        assert_eq!(self.dtype(base), self.dtype(stride), "base and stride of a ramp differ in type");
        assert!(self.lanes(base) == 1 && self.lanes(stride) == 1, "base and stride of a ramp are scalars");
        if lanes == 1 { base } else { self.intern(Expr::Ramp(base, stride), self.ty(base).with_lanes(lanes)) }
    }

    /// `T.Broadcast(value, lanes)`: in one lane, the value.
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

    /// A call of a builtin that gives a value of type `ty`. Number and types of arguments are the verifier's business.
    pub fn builtin(&mut self, function: Builtin, args: &[ExprId], ty: impl Into<Ty>) -> ExprId {
        let list = self.new_list(args);
        self.intern(Expr::Builtin(function, list), ty)
    }

    /// A buffer as an argument of a call, by its name.
    pub fn whole_buffer_expr(&mut self, b: BufferId) -> ExprId {
        let data = self.buffer_data(b);
        self.builtin(Builtin::WholeBuffer, &[data], DType::Handle)
    }

    /// What an address points to, as the last argument of the call that gives it.
    pub fn pointer_type(&mut self, pointee: Pointee) -> ExprId {
        let scope = self.str(pointee.scope);
        self.builtin(Builtin::PointerType, &[scope], pointee.ty)
    }

    /// What an argument says of the address that its call gives.
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

    /// `a op b` as a node even where [`Arena::binary`] would fold: what `T.Add(i, 0)` in a text stands for.
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

    /// Would [`Arena::binary`] make anything but the node `a op b`?
    pub fn folds(&self, op: BinOp, a: ExprId, b: ExprId) -> bool {
        self.folding(op, a, b).is_some()
    }

    fn folding(&self, op: BinOp, a: ExprId, b: ExprId) -> Option<Folding> {
        let dtype = self.dtype(a);
        // Remainders are folded in the types of indices only.
        let stays = !dtype.is_index() && (op == BinOp::Mod || op == BinOp::FloorMod && !dtype.is_uint());
        if stays || self.lanes(a) > 1 {
            return None;
        }
        if let (Some(x), Some(y)) = (self.as_int(a), self.as_int(b)) {
            return fold_ints(op, x, y, dtype).map(Folding::Int);
        }
        if let (Some(x), Some(y)) = (self.as_float(a), self.as_float(b))
            && let Some(v) = fold_floats(op, x, y, dtype)
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
        match (self.as_const(a), self.as_const(b)) {
            (Some(Const::Int(x)), Some(Const::Int(y))) => {
                let holds = if self.dtype(a) == DType::UInt64 { op.holds(x as u64, y as u64) } else { op.holds(x, y) };
                self.bool(holds)
            }
            (Some(Const::Float(x)), Some(Const::Float(y))) => self.bool(op.holds(x, y)),
            _ => self.intern(Expr::Compare(op, a, b), self.ty(a).with_dtype(DType::Bool)),
        }
    }

    /// `a < b`.
    pub fn lt(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(CmpOp::Lt, a, b)
    }

    /// A comparison as a node even where [`Arena::compare`] would fold.
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

    /// `not a` as a node even where [`Arena::not`] would fold.
    pub fn not_unfolded(&mut self, a: ExprId) -> ExprId {
        assert_eq!(self.dtype(a), DType::Bool, "the operand of `not` must be a boolean");
        self.intern(Expr::Not(a), self.ty(a))
    }

    /// `a` converted to `dtype`, lane by lane; `a` itself where it is of that type, a constant where `a` is an integer
    /// constant.
    pub fn cast(&mut self, dtype: DType, a: ExprId) -> ExprId {
        let from = self.dtype(a);
        if from == dtype {
            return a;
        }
        match self.as_const(a) {
            Some(Const::Int(v)) if !dtype.is_float() => self.int(v, dtype),
            Some(Const::Int(v)) => {
                let v = if from == DType::UInt64 { v as u64 as f64 } else { v as f64 };
                self.float(v, dtype)
            }
            Some(Const::Float(v)) if dtype.is_float() => self.float(v, dtype),
            _ => self.intern(Expr::Cast(a), self.ty(a).with_dtype(dtype)),
        }
    }

    /// A conversion as a node even where [`Arena::cast`] would fold it.
    pub fn cast_unfolded(&mut self, dtype: DType, a: ExprId) -> ExprId {
        self.intern(Expr::Cast(a), self.ty(a).with_dtype(dtype))
    }

    /// `T.Select`; the condition is a scalar, or has as many lanes as the sides.
    pub fn select(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        assert_eq!(self.dtype(condition), DType::Bool, "a condition must be a boolean");
        let (then, otherwise) = self.matched(then, otherwise);
        assert_eq!(self.ty(then), self.ty(otherwise), "the sides of a select differ in type");
        self.intern(Expr::Select(condition, then, otherwise), self.ty(then))
    }

    /// `T.if_then_else`; a constant condition chooses.
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

    /// The element of `buffer` at `indices`, or the elements for the lanes of the last one. The number of indices is the
    /// verifier's business.
    pub fn load(&mut self, buffer: BufferId, indices: &[ExprId]) -> ExprId {
        let ty = self.accessed(buffer, indices);
        let list = self.new_list(indices);
        self.intern(Expr::Load(buffer, list), ty)
    }

    /// The type of what an access reads or writes.
    pub fn accessed(&self, buffer: BufferId, indices: &[ExprId]) -> Ty {
        let ty = self.buffer(buffer).ty();
        match indices.last() {
            Some(&last) => ty.with_lanes(ty.lanes.saturating_mul(self.lanes(last))),
            None => ty,
        }
    }

    /// A function of scalars. Types of arguments are the verifier's business, their number is fixed.
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

    /// `body` with `var` standing for `value`.
    pub fn let_(&mut self, var: VarId, value: ExprId, body: ExprId) -> ExprId {
        assert_eq!(self.var(var).ty(), self.ty(value), "the value of a let differs in type");
        self.intern(Expr::Let(var, value, body), self.ty(body))
    }
}

/// `x op y` of integer constants of a type; `None` where the operation is not defined.
pub(crate) fn fold_ints(op: BinOp, x: i64, y: i64, dtype: DType) -> Option<i64> {
    let unsigned = dtype == DType::UInt64;
    let value = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod if y == 0 => return None,
        BinOp::Div | BinOp::FloorDiv if unsigned => ((x as u64) / (y as u64)) as i64,
        BinOp::Mod | BinOp::FloorMod if unsigned => ((x as u64) % (y as u64)) as i64,
        BinOp::Div => x.checked_div(y)?,
        BinOp::Mod => x.checked_rem(y)?,
        BinOp::FloorDiv => floor_div(x, y)?,
        BinOp::FloorMod => floor_mod(x, y)?,
        BinOp::Min if unsigned => (x as u64).min(y as u64) as i64,
        BinOp::Max if unsigned => (x as u64).max(y as u64) as i64,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::And => ((x != 0) && (y != 0)) as i64,
        BinOp::Or => ((x != 0) || (y != 0)) as i64,
    };
    Some(dtype.wrap(value))
}

/// The quotient rounded towards minus infinity; `None` for a zero divisor or on overflow.
pub(crate) fn floor_div(x: i64, y: i64) -> Option<i64> {
    let q = x.checked_div(y)?;
    Some(if x % y != 0 && ((x < 0) != (y < 0)) { q - 1 } else { q })
}

/// What [`floor_div`] leaves.
pub(crate) fn floor_mod(x: i64, y: i64) -> Option<i64> {
    x.checked_sub(floor_div(x, y)?.checked_mul(y)?)
}

/// `x op y` on integers without bounds; `None` where the operator is not one of numbers, for a zero divisor, or where the
/// result has no place in `i64`.
pub(crate) fn checked(op: BinOp, x: i64, y: i64) -> Option<i64> {
    match op {
        BinOp::Add => x.checked_add(y),
        BinOp::Sub => x.checked_sub(y),
        BinOp::Mul => x.checked_mul(y),
        BinOp::FloorDiv => floor_div(x, y),
        BinOp::FloorMod => floor_mod(x, y),
        BinOp::Div => x.checked_div(y),
        BinOp::Mod => x.checked_rem(y),
        BinOp::Min => Some(x.min(y)),
        BinOp::Max => Some(x.max(y)),
        BinOp::And | BinOp::Or => None,
    }
}

fn fold_floats(op: BinOp, x: f64, y: f64, dtype: DType) -> Option<f64> {
    // TVM folds float32 and float64 only; narrower constants stay as written.
    if matches!(op, BinOp::Min) {
        return Some(x.min(y));
    }
    if matches!(op, BinOp::Max) {
        return Some(x.max(y));
    }
    if !matches!(dtype, DType::Float32 | DType::Float64) {
        return None;
    }
    let (x, y) = (dtype.round(x), dtype.round(y));
    let value = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div if y != 0.0 => x / y,
        BinOp::FloorDiv if y != 0.0 => dtype.round(x / y).floor(),
        _ => return None,
    };
    Some(dtype.round(value))
}

/// What becomes of an operator on these operands.
enum Folding {
    Int(i64),
    Float(f64),
    Operand(ExprId),
}
