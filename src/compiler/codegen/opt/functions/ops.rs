//! A small language for expansions: operations on vectors of `float32` and `int32`.

use crate::codegen::opt::machine::Machine;
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::{Arena, Expr, ExprId, Stmt, Ty};

/// Builds expressions with a fixed number of lanes.
pub(super) struct Ops<'a> {
    arena: &'a mut Arena,
    lanes: u16,
    /// Whether the machine has fused multiply-add.
    has_fma: bool,
    /// Number of lanes in a table register, if there is an instruction that looks up 32-bit lanes.
    pub looks_up: Option<usize>,
    /// Whether subnormal numbers are kept rather than flushed to zero.
    pub keeps_subnormals: bool,
    /// Receives let bindings; `None` where there must be none.
    names: Option<&'a mut Vec<Stmt>>,
}

impl<'a> Ops<'a> {
    /// Operations on `lanes` lanes.
    pub(super) fn new(
        arena: &'a mut Arena,
        lanes: u16,
        machine: &Machine,
        names: Option<&'a mut Vec<Stmt>>,
    ) -> Ops<'a> {
        // Strict floats are those that may not be reassociated.
        let Machine { has_fma, reassociates, .. } = *machine;
        Ops { arena, lanes, has_fma, looks_up: machine.vectors.lookup_lanes(), keeps_subnormals: !reassociates, names }
    }

    /// Binds a value by `let`, so that it is computed once however often it is used.
    pub(super) fn named(&mut self, name: &str, value: ExprId) -> ExprId {
        let Some(names) = &mut self.names else { return value };
        if matches!(self.arena.expr(value), Expr::Var(_)) || self.arena.as_const(value).is_some() {
            return value;
        }
        let var = self.arena.new_var(name, self.arena.ty(value));
        names.push(Stmt::Let { var, value });
        self.arena.var_expr(var)
    }

    // ---- floats --------------------------------------------------------------------------------------------

    /// A constant.
    pub(super) fn c(&mut self, value: f32) -> ExprId {
        let c = self.arena.float(f64::from(value), DType::Float32);
        self.arena.broadcast(c, self.lanes)
    }

    pub(super) fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.add(a, b)
    }

    pub(super) fn sub(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.sub(a, b)
    }

    pub(super) fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.mul(a, b)
    }

    pub(super) fn div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.binary(BinOp::Div, a, b)
    }

    /// `a * b + c`, rounded once or twice: the result must not depend on which.
    pub(super) fn fma(&mut self, a: ExprId, b: ExprId, c: ExprId) -> ExprId {
        if self.has_fma {
            self.arena.call(Intrinsic::Fma, &[a, b, c])
        } else {
            let product = self.arena.mul(a, b);
            self.arena.add(product, c)
        }
    }

    /// `a * b + c` with a constant.
    pub(super) fn fma_c(&mut self, a: ExprId, b: ExprId, c: f32) -> ExprId {
        let c = self.c(c);
        self.fma(a, b, c)
    }

    /// Horner's scheme: `start`, then `sum * x + c` for each coefficient, highest power first.
    pub(super) fn horner(&mut self, x: ExprId, coefficients: &[f32]) -> ExprId {
        let (&first, rest) = coefficients.split_first().expect("a polynomial has coefficients");
        let first = self.c(first);
        rest.iter().fold(first, |sum, &c| self.fma_c(sum, x, c))
    }

    /// The minimum of two integers.
    pub(super) fn min(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.binary(BinOp::Min, a, b)
    }

    /// The minimum; NaN if `x` is NaN.
    pub(super) fn at_most(&mut self, limit: f32, x: ExprId) -> ExprId {
        let limit = self.c(limit);
        self.arena.binary(BinOp::Min, limit, x)
    }

    /// The maximum; NaN if `x` is NaN.
    pub(super) fn at_least(&mut self, limit: f32, x: ExprId) -> ExprId {
        let limit = self.c(limit);
        self.arena.binary(BinOp::Max, limit, x)
    }

    pub(super) fn neg(&mut self, x: ExprId) -> ExprId {
        let zero = self.c(-0.0);
        self.arena.sub(zero, x)
    }

    pub(super) fn floor(&mut self, x: ExprId) -> ExprId {
        self.arena.call(Intrinsic::Floor, &[x])
    }

    pub(super) fn abs(&mut self, x: ExprId) -> ExprId {
        self.arena.call(Intrinsic::Abs, &[x])
    }

    pub(super) fn sqrt(&mut self, x: ExprId) -> ExprId {
        self.arena.call(Intrinsic::Sqrt, &[x])
    }

    // ---- choices -------------------------------------------------------------------------------------------

    pub(super) fn compare(&mut self, op: CmpOp, a: ExprId, b: ExprId) -> ExprId {
        self.arena.compare(op, a, b)
    }

    pub(super) fn select(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        self.arena.select(condition, then, otherwise)
    }

    // ---- bits ----------------------------------------------------------------------------------------------

    /// An `int32` constant.
    pub(super) fn i(&mut self, value: i32) -> ExprId {
        self.arena.constant(i64::from(value), Ty::vector(DType::Int32, self.lanes))
    }

    /// The bits of a float as an integer.
    pub(super) fn bits(&mut self, x: ExprId) -> ExprId {
        self.arena.reinterpret(DType::Int32, x)
    }

    /// The float with these bits.
    pub(super) fn float(&mut self, bits: ExprId) -> ExprId {
        self.arena.reinterpret(DType::Float32, bits)
    }

    /// Converts an integer to a float.
    pub(super) fn convert(&mut self, x: ExprId) -> ExprId {
        self.arena.cast(DType::Float32, x)
    }

    /// Rounds a float towards zero to an integer. It must not be NaN or too large.
    pub(super) fn truncate(&mut self, x: ExprId) -> ExprId {
        self.arena.cast(DType::Int32, x)
    }

    /// Logical shift right.
    pub(super) fn shift_right_zeros(&mut self, x: ExprId, by: i32) -> ExprId {
        let shifted = self.shift_right(x, by);
        let mask = self.i((u32::MAX >> by) as i32);
        self.and(shifted, mask)
    }

    pub(super) fn shift_left(&mut self, x: ExprId, by: i32) -> ExprId {
        let by = self.i(by);
        self.arena.call(Intrinsic::ShiftLeft, &[x, by])
    }

    /// Arithmetic shift right.
    pub(super) fn shift_right(&mut self, x: ExprId, by: i32) -> ExprId {
        let by = self.i(by);
        self.arena.call(Intrinsic::ShiftRight, &[x, by])
    }

    /// The wrapping sum of integers.
    pub(super) fn plus(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.add(a, b)
    }

    /// Looks up table entries by the low bits of `index`.
    pub(super) fn lookup(&mut self, table: &[i32], index: ExprId) -> ExprId {
        let table: Vec<ExprId> = table.iter().map(|&v| self.arena.int(i64::from(v), DType::Int32)).collect();
        self.arena.lookup(&table, index)
    }

    pub(super) fn and(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.call(Intrinsic::BitAnd, &[a, b])
    }

    pub(super) fn xor(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.call(Intrinsic::BitXor, &[a, b])
    }

    pub(super) fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.arena.call(Intrinsic::BitOr, &[a, b])
    }

    /// A non-negative value with the sign of `sign`.
    pub(super) fn with_sign(&mut self, value: ExprId, sign: ExprId) -> ExprId {
        let (value, sign, mask) = (self.bits(value), self.bits(sign), self.i(i32::MIN));
        let sign = self.and(sign, mask);
        let both = self.or(value, sign);
        self.float(both)
    }
}
