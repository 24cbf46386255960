//! Constructors of expressions: they check the operands, fold constants by [`scalar`] and intern the node.

use super::expr::{Arena, Expr, ExprId, ExprList, Ty};
use super::kernel::BufferId;
use super::rewrite::reads_memory;
use crate::ir::op::ResultType;
use crate::ir::scalar::{self, Exact, bits, float, int};
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};

impl Arena {
    /// `a op b` of operands of one type.
    pub fn binary(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of {op:?} differ in type");
        if matches!(op, BinOp::And | BinOp::Or) {
            assert_eq!(ty.dtype, DType::Bool, "operands of {op:?} must be booleans");
        }
        match self.fold_binary(op, a, b, ty) {
            Some(folded) => folded,
            None => self.intern(Expr::Binary(op, a, b), ty),
        }
    }

    fn fold_binary(&mut self, op: BinOp, a: ExprId, b: ExprId, ty: Ty) -> Option<ExprId> {
        if let (Expr::Broadcast(x), Expr::Broadcast(y)) = (self.expr(a), self.expr(b)) {
            // Both operands are uniform, and so is the result.
            let scalar = self.binary(op, x, y);
            return Some(self.broadcast(scalar, ty.lanes));
        }
        if let (Some(x), Some(y)) = (self.as_int(a), self.as_int(b)) {
            return int::binary(op, ty.dtype, x, y).ok().map(|v| self.int(v, ty.dtype));
        }
        if ty.dtype.is_float() {
            return self.fold_float_binary(op, a, b);
        }
        let (x, y) = (self.as_const(a), self.as_const(b));
        let (is_a, is_b) = (|v| x == Some(Const::Int(v)), |v| y == Some(Const::Int(v)));
        match op {
            BinOp::Add if is_a(0) => Some(b),
            BinOp::Add | BinOp::Sub if is_b(0) => Some(a),
            BinOp::Sub if a == b => Some(self.constant(0, ty)),
            BinOp::Mul if is_a(0) || is_b(1) => Some(a),
            BinOp::Mul if is_b(0) || is_a(1) => Some(b),
            BinOp::Div | BinOp::FloorDiv if is_b(1) => Some(a),
            BinOp::Mod | BinOp::FloorMod if is_b(1) => Some(self.constant(0, ty)),
            BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or if a == b => Some(a),
            BinOp::And if is_a(1) || is_b(0) => Some(b),
            BinOp::And if is_a(0) || is_b(1) => Some(a),
            BinOp::Or if is_a(0) || is_b(1) => Some(b),
            BinOp::Or if is_a(1) || is_b(0) => Some(a),
            // Constants go to the right; nested sums with constants are merged.
            BinOp::Add | BinOp::Mul if x.is_some() => Some(self.binary(op, b, a)),
            // A difference of booleans cannot be written as a sum.
            BinOp::Sub if y.is_some() && ty.lanes == 1 && ty.dtype != DType::Bool => {
                let negated = self.int(self.as_int(b)?.wrapping_neg(), ty.dtype);
                Some(self.binary(BinOp::Add, a, negated))
            }
            BinOp::Add | BinOp::Mul => {
                let c = self.as_int(b)?;
                let Expr::Binary(inner, p, q) = self.expr(a) else { return None };
                let d = self.as_int(q).filter(|_| inner == op)?;
                let sum = if op == BinOp::Add { d.wrapping_add(c) } else { d.wrapping_mul(c) };
                let sum = self.int(sum, ty.dtype);
                Some(self.binary(op, p, sum))
            }
            _ => None,
        }
    }

    /// Folds of floats that are exact for all roundings, signed zeros and NaNs. Float constants are combined in the
    /// precision of their type.
    fn fold_float_binary(&mut self, op: BinOp, a: ExprId, b: ExprId) -> Option<ExprId> {
        if matches!(op, BinOp::Mul) && self.is_number(b, 1) || matches!(op, BinOp::Div) && self.is_number(b, 1) {
            return Some(a);
        }
        if matches!(op, BinOp::Mul) && self.is_number(a, 1) {
            return Some(b);
        }
        let (Expr::Float(x), Expr::Float(y)) = (self.expr(a), self.expr(b)) else { return None };
        let dtype = self.dtype(a);
        let (x, y) = (f64::from_bits(x), f64::from_bits(y));
        if matches!(op, BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod) {
            return None;
        }
        let value = float::binary(op, dtype, x, y, &Exact).ok()?;
        Some(self.float(value, dtype))
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

    /// `a + value`, with the constant in `a`'s type.
    pub fn add_const(&mut self, a: ExprId, value: i64) -> ExprId {
        let c = self.constant(value, self.ty(a));
        self.add(a, c)
    }

    /// `a * value`, with the constant in `a`'s type.
    pub fn mul_const(&mut self, a: ExprId, value: i64) -> ExprId {
        let c = self.constant(value, self.ty(a));
        self.mul(a, c)
    }

    /// `a and b` of scalars or vectors of booleans.
    pub fn and(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinOp::And, a, b)
    }

    /// A comparison of operands of one type.
    pub fn compare(&mut self, op: CmpOp, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(a);
        assert_eq!(ty, self.ty(b), "operands of {op:?} differ in type");
        if let (Expr::Broadcast(x), Expr::Broadcast(y)) = (self.expr(a), self.expr(b)) {
            let scalar = self.compare(op, x, y);
            return self.broadcast(scalar, ty.lanes);
        }
        let constants = (self.constant_of(a), self.constant_of(b));
        match constants.0.zip(constants.1).and_then(|(x, y)| scalar::compare(op, ty.dtype, x, y).ok()) {
            Some(holds) => self.bool(holds),
            None => self.intern(Expr::Compare(op, a, b), ty.with_dtype(DType::Bool)),
        }
    }

    /// The value of a scalar constant.
    fn constant_of(&self, e: ExprId) -> Option<Const> {
        match self.expr(e) {
            Expr::Int(v) => Some(Const::Int(v)),
            Expr::Float(bits) => Some(Const::Float(f64::from_bits(bits))),
            _ => None,
        }
    }

    /// A scalar constant, integer or float.
    fn number(&mut self, value: Const, dtype: DType) -> ExprId {
        match value {
            Const::Int(v) => self.int(v, dtype),
            Const::Float(v) => self.float(v, dtype),
        }
    }

    /// Negation of booleans.
    pub fn not(&mut self, a: ExprId) -> ExprId {
        let ty = self.ty(a);
        assert_eq!(ty.dtype, DType::Bool, "the operand of `not` must be a boolean");
        match self.expr(a) {
            Expr::Int(v) => self.bool(v == 0),
            Expr::Not(b) => b,
            Expr::Broadcast(b) => {
                let scalar = self.not(b);
                self.broadcast(scalar, ty.lanes)
            }
            _ => self.intern(Expr::Not(a), ty),
        }
    }

    /// `a` converted to `dtype`, lane by lane.
    pub fn cast(&mut self, dtype: DType, a: ExprId) -> ExprId {
        let from = self.ty(a);
        if from.dtype == dtype {
            return a;
        }
        match (self.expr(a), self.constant_of(a)) {
            // A conversion from float to integer is left to the kernel.
            (_, Some(value)) if !from.dtype.is_float() || dtype.is_float() => {
                self.number(scalar::cast(from.dtype, dtype, value, &Exact), dtype)
            }
            (Expr::Broadcast(b), _) => {
                let scalar = self.cast(dtype, b);
                self.broadcast(scalar, from.lanes)
            }
            (Expr::Cast(b), _) if self.dtype(b) == dtype && holds_all(from.dtype, dtype) => b,
            _ => self.intern(Expr::Cast(a), from.with_dtype(dtype)),
        }
    }

    /// The bits of `a` as lanes of another type. Constants of equal size are folded, except NaN, whose bits would be
    /// lost.
    pub fn reinterpret(&mut self, dtype: DType, a: ExprId) -> ExprId {
        let from = self.ty(a);
        if from.dtype == dtype {
            return a;
        }
        assert!(can_reinterpret(from, dtype), "the bits of {from} are no {dtype}");
        if from.dtype.bytes() != dtype.bytes() {
            return match self.expr(a) {
                Expr::Reinterpret(b) if self.dtype(b) == dtype => b,
                _ => {
                    let lanes = (from.bytes() / dtype.bytes()) as u16;
                    self.intern(Expr::Reinterpret(a), Ty::vector(dtype, lanes))
                }
            };
        }
        if let Some(value) = self.constant_of(a) {
            return match bits::reinterpret(from.dtype, dtype, value) {
                Const::Float(v) if v.is_nan() => self.intern(Expr::Reinterpret(a), from.with_dtype(dtype)),
                number => self.number(number, dtype),
            };
        }
        match self.expr(a) {
            Expr::Reinterpret(b) if self.dtype(b) == dtype => b,
            Expr::Broadcast(b) => {
                let scalar = self.reinterpret(dtype, b);
                self.broadcast(scalar, from.lanes)
            }
            _ => self.intern(Expr::Reinterpret(a), from.with_dtype(dtype)),
        }
    }

    /// `acc` plus the dot products of the bytes of `a` and `b`.
    pub fn dot4(&mut self, acc: ExprId, a: ExprId, b: ExprId) -> ExprId {
        let ty = self.ty(acc);
        assert!(ty.dtype == DType::Int32 && self.ty(a) == ty && self.ty(b) == ty, "dot products are of int32 lanes");
        self.intern(Expr::Dot4(acc, a, b), ty)
    }

    /// A table lookup: each lane selects a constant by the low bits of `index`.
    pub fn lookup(&mut self, table: &[ExprId], index: ExprId) -> ExprId {
        assert!(is_table(self, table), "a table has a power of two of constants of one type, of 32 or 64 bits");
        assert!(self.dtype(index).is_integer(), "a table is indexed by integers");
        let table = self.intern_list(table);
        self.lookup_in(table, index)
    }

    pub(super) fn lookup_in(&mut self, table: ExprList, index: ExprId) -> ExprId {
        let constants = self.list(table);
        let dtype = self.dtype(constants[0]);
        match self.expr(index) {
            Expr::Int(i) => constants[i as usize & (constants.len() - 1)],
            Expr::Broadcast(i) => {
                let (scalar, lanes) = (self.lookup_in(table, i), self.lanes(index));
                self.broadcast(scalar, lanes)
            }
            _ => self.intern(Expr::Lookup(index, table), self.ty(index).with_dtype(dtype)),
        }
    }

    /// A selection in each lane that evaluates both values. A scalar condition selects for all lanes.
    pub fn select(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        let ty = self.ty(then);
        assert_eq!(ty, self.ty(otherwise), "the sides of a select differ in type");
        assert_eq!(self.dtype(condition), DType::Bool, "a condition must be a boolean");
        let condition = self.broadcast_to(condition, ty.lanes);
        match self.as_const(condition) {
            Some(Const::Int(0)) => otherwise,
            Some(_) => then,
            None if then == otherwise => then,
            None => self.intern(Expr::Select(condition, then, otherwise), ty),
        }
    }

    /// A selection by a scalar condition that evaluates only one value; or, with one condition per lane, between a
    /// masked load, or a pack of which the lanes that are chosen are evaluated, and another value. (If the first value is
    /// neither, or reads no memory, the latter is a [`select`](Self::select).)
    pub fn if_then_else(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        let ty = self.ty(then);
        assert_eq!(self.dtype(condition), DType::Bool, "a condition must be a boolean");
        assert!([1, ty.lanes].contains(&self.lanes(condition)), "a condition is a scalar or has a value for each lane");
        assert_eq!(ty, self.ty(otherwise), "the sides of a conditional differ in type");
        let condition = match self.expr(condition) {
            Expr::Broadcast(scalar) => scalar,
            _ => condition,
        };
        match self.as_int(condition) {
            Some(0) => otherwise,
            Some(_) => then,
            None if then == otherwise => then,
            None if self.lanes(condition) > 1
                && !matches!(self.expr(then), Expr::Load(..))
                && !(matches!(self.expr(then), Expr::Pack(_)) && reads_memory(self, then)) =>
            {
                assert!(!reads_memory(self, then), "what lanes choose is a load, a pack, or reads nothing");
                self.select(condition, then, otherwise)
            }
            None => self.intern(Expr::IfThenElse(condition, then, otherwise), ty),
        }
    }

    /// `ty.lanes` elements of `buffer` from element `index` on; [`super::Kernel::load`] supplies the type of scalars. If the index
    /// has a lane for each element, they may lie anywhere ([`gather`](Self::gather)).
    pub fn load(&mut self, buffer: BufferId, index: ExprId, ty: Ty) -> ExprId {
        if self.lanes(index) > 1 {
            assert_eq!(self.lanes(index), ty.lanes, "each element has an index");
            return self.gather(buffer, index, ty.dtype);
        }
        assert_eq!(self.ty(index), Ty::INDEX, "an index must be a scalar int64");
        self.intern(Expr::Load(buffer, index), ty)
    }

    /// The elements of `buffer` at the indices that a vector of `int64` or `int32` has.
    pub fn gather(&mut self, buffer: BufferId, indices: ExprId, dtype: DType) -> ExprId {
        let ty = self.ty(indices);
        assert!(matches!(ty.dtype, DType::Int64 | DType::Int32), "indices must be int64 or int32");
        match self.expr(indices) {
            Expr::Broadcast(index) if ty.dtype == DType::Int64 => {
                let element = self.load(buffer, index, Ty::scalar(dtype));
                self.broadcast(element, ty.lanes)
            }
            Expr::Ramp(first, 1) if ty.dtype == DType::Int64 => self.load(buffer, first, ty.with_dtype(dtype)),
            _ => self.intern(Expr::Load(buffer, indices), ty.with_dtype(dtype)),
        }
    }

    /// A function of operands with the same number of lanes.
    pub fn call(&mut self, function: Intrinsic, args: &[ExprId]) -> ExprId {
        assert_eq!(args.len(), function.arity(), "number of arguments of {function}");
        let first = self.ty(args[0]);
        assert!(args.iter().all(|&a| self.ty(a) == first), "arguments of {function} differ in type");
        let dtype = match function.result() {
            ResultType::First => first.dtype,
            ResultType::Bool => DType::Bool,
            ResultType::Int32 => DType::Int32,
        };
        let list = self.intern_list(args);
        self.intern(Expr::Call(function, list), first.with_dtype(dtype))
    }

    // ---- vectors -------------------------------------------------------------------------------------------

    /// A scalar in each of `lanes` lanes; the scalar itself for one lane.
    pub fn broadcast(&mut self, a: ExprId, lanes: u16) -> ExprId {
        let ty = self.ty(a);
        assert_eq!(ty.lanes, 1, "only a scalar can be broadcast");
        if lanes == 1 { a } else { self.intern(Expr::Broadcast(a), ty.with_lanes(lanes)) }
    }

    /// `a` if it has `lanes` lanes already, else the scalar `a` broadcast.
    pub fn broadcast_to(&mut self, a: ExprId, lanes: u16) -> ExprId {
        if self.lanes(a) == lanes { a } else { self.broadcast(a, lanes) }
    }

    /// `base + lane * stride` in `lanes` lanes.
    pub fn ramp(&mut self, base: ExprId, stride: i64, lanes: u16) -> ExprId {
        let ty = self.ty(base);
        assert!(ty.lanes == 1 && ty.dtype.is_integer(), "a ramp starts at a scalar integer");
        if stride == 0 || lanes == 1 {
            return self.broadcast(base, lanes);
        }
        self.intern(Expr::Ramp(base, stride), ty.with_lanes(lanes))
    }

    /// The vector of these scalars of one type.
    pub fn pack(&mut self, items: &[ExprId]) -> ExprId {
        let ty = self.ty(items[0]);
        assert!(items.iter().all(|&i| self.ty(i) == ty) && ty.lanes == 1, "a vector is packed from scalars of a type");
        if items.iter().all(|&i| i == items[0]) {
            return self.broadcast(items[0], items.len() as u16);
        }
        let list = self.intern_list(items);
        self.intern(Expr::Pack(list), ty.with_lanes(items.len() as u16))
    }

    /// One lane of a vector.
    pub fn extract(&mut self, a: ExprId, lane: u16) -> ExprId {
        let ty = self.ty(a);
        assert!(lane < ty.lanes, "no lane {lane} in {ty}");
        match self.expr(a) {
            _ if ty.lanes == 1 => a,
            Expr::Broadcast(b) => b,
            Expr::Pack(list) => self.list(list)[lane as usize],
            Expr::Ramp(base, stride) => self.add_const(base, stride.wrapping_mul(lane as i64)),
            _ => self.intern(Expr::Extract(a, lane), ty.with_lanes(1)),
        }
    }

    /// All lanes combined by `op`.
    pub fn reduce(&mut self, op: BinOp, a: ExprId) -> ExprId {
        let ty = self.ty(a);
        assert!(op.is_commutative(), "lanes cannot be combined by {op:?}");
        if ty.lanes == 1 { a } else { self.intern(Expr::Reduce(op, a), ty.with_lanes(1)) }
    }
}

/// Whether the bits of a value of type `from` form lanes of type `to`.
pub(crate) fn can_reinterpret(from: Ty, to: DType) -> bool {
    if from.dtype.bytes() == to.bytes() {
        return matches!(to.bytes(), 4 | 8);
    }
    from.dtype.is_integer() && to.is_integer() && from.bytes().is_multiple_of(to.bytes())
}

/// Whether the low bits of an integer can select these constants: a power of two of constants with 32 or 64 bits.
pub(crate) fn is_table(arena: &Arena, constants: &[ExprId]) -> bool {
    let is_constant = |&c: &ExprId| matches!(arena.expr(c), Expr::Int(_) | Expr::Float(_));
    constants.len().is_power_of_two()
        && constants.iter().all(|c| is_constant(c) && arena.ty(*c) == arena.ty(constants[0]))
        && matches!(arena.dtype(constants[0]).bytes(), 4 | 8)
}

/// `acc` plus the products of the four bytes of `a`, unsigned, and of `b`, signed.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn dot4(acc: i64, a: i64, b: i64) -> i64 {
    let bytes = |v: i64| (v as u32).to_le_bytes();
    let products = bytes(a).into_iter().zip(bytes(b)).map(|(x, y)| i32::from(x) * i32::from(y as i8));
    i64::from((acc as i32).wrapping_add(products.sum()))
}

/// Whether a float has the value of every number of another type.
fn holds_all(float: DType, dtype: DType) -> bool {
    let digits = match float {
        DType::Float64 => 53,
        DType::Float32 => 24,
        DType::Float16 => 11,
        DType::BFloat16 => 8,
        _ => return false,
    };
    match dtype {
        DType::Float16 | DType::BFloat16 | DType::Float32 => float.bytes() > dtype.bytes(),
        _ => dtype.is_integer() && dtype.bytes() * 8 <= digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_without_a_result_stay() {
        for dtype in [DType::Int8, DType::Int16, DType::Int32, DType::Int64] {
            let mut a = Arena::default();
            let least = a.int(dtype.min_value().expect("an integer"), dtype);
            let (minus, zero) = (a.int(-1, dtype), a.int(0, dtype));
            for op in [BinOp::Div, BinOp::Mod, BinOp::FloorDiv, BinOp::FloorMod] {
                for divisor in [minus, zero] {
                    let e = a.binary(op, least, divisor);
                    assert_eq!(a.expr(e), Expr::Binary(op, least, divisor), "{dtype}");
                }
            }
        }
    }

    #[test]
    fn a_difference_of_booleans_is_no_sum() {
        let mut a = Arena::default();
        let v = a.new_var("x", Ty::scalar(DType::Bool));
        let (x, one) = (a.var_expr(v), a.bool(true));
        let difference = a.sub(x, one);
        assert_eq!(a.expr(difference), Expr::Binary(BinOp::Sub, x, one));
    }
}
