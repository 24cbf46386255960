//! Runs a kernel step by step: the definition of the loop IR, and the oracle of passes and back ends.

use super::expr::{Expr, ExprId};
use super::kernel::{BufferId, Kernel};
use super::operators::{bits_of_float, dot4, float_of_bits, int_to_float};
use super::stmt::{Body, Failure, For, Stmt};
use crate::ir::operators::fold_ints;
use crate::ir::{BinOp, Const, DType, Intrinsic};

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Stopped {
    /// A check failed, or a division.
    Failure(Failure),
    /// An access outside of a buffer: the kernel breaks its invariant.
    Access {
        /// The buffer.
        buffer: BufferId,
        /// The index of the first element accessed.
        index: i64,
    },
    /// A read of something that nothing has written: the kernel breaks its invariant.
    Undefined,
}

/// The contents of a buffer; `None` is undefined.
pub(crate) type Memory = Vec<Option<Const>>;

/// The values of lanes.
type Lanes = Vec<Const>;

/// Runs `kernel` on the contents of its parameters, which are checked for number and length only by the accesses.
/// Parallel loops run in order.
pub(crate) fn run(kernel: &Kernel, params: &mut [Memory]) -> Result<(), Stopped> {
    let mut memory: Vec<Memory> = params.iter_mut().map(std::mem::take).collect();
    for (_, b) in kernel.buffers().skip(memory.len()) {
        memory.push(vec![None; b.len as usize]);
    }
    let mut machine = Machine {
        kernel,
        memory,
        vars: vec![None; kernel.arena.n_vars()],
        locals: vec![None; kernel.arena.n_locals()],
    };
    let result = machine.body(kernel.body);
    for (to, from) in params.iter_mut().zip(machine.memory) {
        *to = from;
    }
    result
}

struct Machine<'a> {
    kernel: &'a Kernel,
    memory: Vec<Memory>,
    vars: Vec<Option<Lanes>>,
    locals: Vec<Option<Lanes>>,
}

impl Machine<'_> {
    fn body(&mut self, body: Body) -> Result<(), Stopped> {
        for i in 0..body.len() {
            self.stmt(self.kernel.stmts.get(self.kernel.stmts.list(body)[i]))?;
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: Stmt) -> Result<(), Stopped> {
        match stmt {
            Stmt::For(For { var, extent, body, .. }) => {
                for i in 0..self.int(extent)? {
                    self.vars[var.index()] = Some(vec![Const::Int(i)]);
                    self.body(body)?;
                }
                self.vars[var.index()] = None;
                Ok(())
            }
            Stmt::If { condition, then, otherwise } => {
                let body = if self.int(condition)? != 0 { then } else { otherwise };
                self.body(body)
            }
            Stmt::While { running, body } => {
                while self.locals[running.index()].as_ref().is_some_and(|v| int_of(v[0]) != 0) {
                    self.body(body)?;
                }
                Ok(())
            }
            Stmt::Store { buffer, index, value } => {
                let index = self.int(index)?;
                let value = self.expr(value)?;
                for (lane, v) in value.into_iter().enumerate() {
                    let at = index.wrapping_add(lane as i64);
                    match usize::try_from(at).ok().and_then(|i| self.memory[buffer.index()].get_mut(i)) {
                        Some(element) => *element = Some(v),
                        None => return Err(Stopped::Access { buffer, index }),
                    }
                }
                Ok(())
            }
            Stmt::Let { var, value } => {
                self.vars[var.index()] = Some(self.expr(value)?);
                Ok(())
            }
            Stmt::Set { local, value } => {
                self.locals[local.index()] = Some(self.expr(value)?);
                Ok(())
            }
            Stmt::Check { condition, failure } => {
                if self.int(condition)? != 0 {
                    Ok(())
                } else {
                    Err(Stopped::Failure(failure))
                }
            }
        }
    }

    fn int(&mut self, e: ExprId) -> Result<i64, Stopped> {
        Ok(int_of(self.expr(e)?[0]))
    }

    fn element(&self, buffer: BufferId, index: i64) -> Result<Const, Stopped> {
        match usize::try_from(index).ok().and_then(|i| self.memory[buffer.index()].get(i)) {
            Some(v) => v.ok_or(Stopped::Undefined),
            None => Err(Stopped::Access { buffer, index }),
        }
    }

    fn expr(&mut self, e: ExprId) -> Result<Lanes, Stopped> {
        let arena = &self.kernel.arena;
        let ty = arena.ty(e);
        Ok(match arena.expr(e) {
            Expr::Int(v) => vec![Const::Int(v)],
            Expr::Float(bits) => vec![Const::Float(f64::from_bits(bits))],
            Expr::Var(v) => self.vars[v.index()].clone().ok_or(Stopped::Undefined)?,
            Expr::Local(l) => self.locals[l.index()].clone().ok_or(Stopped::Undefined)?,
            Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) if ty.lanes == 1 => {
                let left = self.expr(a)?;
                if (int_of(left[0]) != 0) == (op == BinOp::And) { self.expr(b)? } else { left }
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                zip(&a, &b, |x, y| binary(op, x, y, ty.dtype))?
            }
            Expr::Compare(op, a, b) => {
                let unsigned = arena.dtype(a) == DType::UInt64;
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                zip(&a, &b, |x, y| {
                    let holds = match (x, y) {
                        (Const::Int(x), Const::Int(y)) if unsigned => op.holds(x as u64, y as u64),
                        (Const::Int(x), Const::Int(y)) => op.holds(x, y),
                        (x, y) => op.holds(float_of(x), float_of(y)),
                    };
                    Ok(Const::Int(holds as i64))
                })?
            }
            Expr::Not(a) => self.expr(a)?.into_iter().map(|v| Const::Int((int_of(v) == 0) as i64)).collect(),
            Expr::Cast(a) => {
                let from = arena.dtype(a);
                self.expr(a)?.into_iter().map(|v| cast(v, from, ty.dtype)).collect()
            }
            Expr::Reinterpret(a) => {
                let from = arena.dtype(a);
                let lanes = self.expr(a)?;
                if from.bytes() == ty.dtype.bytes() {
                    lanes.into_iter().map(|v| reinterpret(v, from, ty.dtype)).collect()
                } else {
                    regroup(&lanes, from, ty.dtype)
                }
            }
            Expr::Dot4(acc, a, b) => {
                let (acc, a, b) = (self.expr(acc)?, self.expr(a)?, self.expr(b)?);
                let lane = |i: usize| Const::Int(dot4(int_of(acc[i]), int_of(a[i]), int_of(b[i])));
                (0..acc.len()).map(lane).collect()
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.expr(c)?, self.expr(t)?, self.expr(o)?);
                (0..c.len()).map(|i| if int_of(c[i]) != 0 { t[i] } else { o[i] }).collect()
            }
            Expr::IfThenElse(c, t, o) if arena.lanes(c) > 1 => {
                let Expr::Load(buffer, index) = arena.expr(t) else { return Err(Stopped::Undefined) };
                let (holds, index, mut lanes) = (self.expr(c)?, self.int(index)?, self.expr(o)?);
                for (i, lane) in lanes.iter_mut().enumerate().filter(|(i, _)| int_of(holds[*i]) != 0) {
                    *lane = self.element(buffer, index.wrapping_add(i as i64))?;
                }
                lanes
            }
            Expr::IfThenElse(c, t, o) => {
                let chosen = if self.int(c)? != 0 { t } else { o };
                self.expr(chosen)?
            }
            Expr::Load(buffer, index) => {
                let index = self.int(index)?;
                let element = |lane| self.element(buffer, index.wrapping_add(lane));
                (0..i64::from(ty.lanes)).map(element).collect::<Result<_, _>>()?
            }
            Expr::Call(function, list) => {
                let args: Vec<Lanes> = arena.list(list).iter().map(|&a| self.expr(a)).collect::<Result<_, _>>()?;
                let dtype = arena.dtype(arena.list(list)[0]);
                (0..ty.lanes as usize)
                    .map(|lane| {
                        let args: Vec<Const> = args.iter().map(|a| a[lane]).collect();
                        call(function, &args, dtype)
                    })
                    .collect()
            }
            Expr::Broadcast(a) => vec![self.expr(a)?[0]; ty.lanes as usize],
            Expr::Ramp(base, stride) => {
                let base = self.int(base)?;
                let at = |lane: i64| base.wrapping_add(lane.wrapping_mul(stride));
                (0..ty.lanes as i64).map(|lane| Const::Int(ty.dtype.wrap(at(lane)))).collect()
            }
            Expr::Pack(list) => arena.list(list).iter().map(|&a| Ok(self.expr(a)?[0])).collect::<Result<_, _>>()?,
            Expr::Lookup(index, table) => {
                let mut constants = Vec::new();
                for &c in arena.list(table) {
                    constants.push(self.expr(c)?[0]);
                }
                let low = constants.len() - 1;
                self.expr(index)?.into_iter().map(|i| constants[int_of(i) as usize & low]).collect()
            }
            Expr::Extract(a, lane) => vec![self.expr(a)?[lane as usize]],
            Expr::Reduce(op, a) => {
                let lanes = self.expr(a)?;
                let mut result = lanes[0];
                for &v in &lanes[1..] {
                    result = binary(op, result, v, ty.dtype)?;
                }
                vec![result]
            }
        })
    }
}

fn int_of(v: Const) -> i64 {
    match v {
        Const::Int(v) => v,
        Const::Float(_) => unreachable!("types were checked: an integer was expected"),
    }
}

fn float_of(v: Const) -> f64 {
    match v {
        Const::Float(v) => v,
        Const::Int(_) => unreachable!("types were checked: a float was expected"),
    }
}

fn zip(a: &[Const], b: &[Const], mut f: impl FnMut(Const, Const) -> Result<Const, Stopped>) -> Result<Lanes, Stopped> {
    a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect()
}

/// The precision in which operations of a float type are computed, before the result is rounded to the type.
fn computed_in(dtype: DType, value: f64) -> f64 {
    if dtype == DType::Float64 { value } else { value as f32 as f64 }
}

fn binary(op: BinOp, x: Const, y: Const, dtype: DType) -> Result<Const, Stopped> {
    let (x, y) = match (x, y) {
        (Const::Int(x), Const::Int(y)) => {
            // The smallest 64-bit integer has no negation; `fold_ints` gives nothing there, and wraps for the others.
            let overflows = matches!(op, BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod)
                && dtype.is_int()
                && y == -1
                && dtype.min_value() == Ok(x);
            let value = if overflows { None } else { fold_ints(op, x, y, dtype) };
            return value.map(Const::Int).ok_or(Stopped::Failure(Failure::Division));
        }
        (x, y) => (float_of(x), float_of(y)),
    };
    // Sums, products and quotients of two float32 values, rounded to float64 first, still round correctly to float32.
    let value = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div => x / y,
        BinOp::Mod => x % y,
        BinOp::FloorDiv => computed_in(dtype, x / y).floor(),
        BinOp::FloorMod => x - computed_in(dtype, computed_in(dtype, x / y).floor() * y),
        BinOp::Min => {
            if x < y {
                x
            } else {
                y
            }
        }
        BinOp::Max => {
            if x > y {
                x
            } else {
                y
            }
        }
        BinOp::And | BinOp::Or => unreachable!("types were checked: `and` and `or` take booleans"),
    };
    Ok(Const::Float(dtype.round(computed_in(dtype, value))))
}

fn cast(v: Const, from: DType, to: DType) -> Const {
    match (v, to) {
        (Const::Int(v), DType::Bool) => Const::Int((v != 0) as i64),
        (Const::Float(v), DType::Bool) => Const::Int((v != 0.0) as i64),
        (Const::Int(v), to) if to.is_float() => Const::Float(to.round(int_to_float(v, from, to))),
        (Const::Int(v), to) => Const::Int(to.wrap(v)),
        (Const::Float(v), to) if to.is_float() => Const::Float(to.round(v)),
        (Const::Float(v), to) => Const::Int(match to {
            DType::Int8 => v as i8 as i64,
            DType::Int16 => v as i16 as i64,
            DType::Int32 => v as i32 as i64,
            DType::UInt8 => v as u8 as i64,
            DType::UInt16 => v as u16 as i64,
            DType::UInt32 => v as u32 as i64,
            DType::UInt64 => v as u64 as i64,
            _ => v as i64,
        }),
    }
}

fn reinterpret(v: Const, from: DType, to: DType) -> Const {
    let bits = match v {
        Const::Int(v) => v as u64,
        Const::Float(v) => bits_of_float(v, from),
    };
    if to.is_float() { Const::Float(float_of_bits(bits, to)) } else { Const::Int(to.wrap(bits as i64)) }
}

/// The bytes of integers as integers of another size.
fn regroup(lanes: &[Const], from: DType, to: DType) -> Lanes {
    let bytes: Vec<u8> = lanes.iter().flat_map(|&v| int_of(v).to_le_bytes().into_iter().take(from.bytes())).collect();
    let value = |lane: &[u8]| lane.iter().rev().fold(0, |v, &byte| v << 8 | i64::from(byte));
    bytes.chunks(to.bytes()).map(|lane| Const::Int(to.wrap(value(lane)))).collect()
}

/// An intrinsic of scalars whose arguments are of type `dtype`.
fn call(function: Intrinsic, args: &[Const], dtype: DType) -> Const {
    let value = match args[0] {
        Const::Int(x) => {
            let y = args.get(1).map_or(0, |&y| int_of(y));
            let bits = dtype.bits() as i64;
            let unsigned = (x as u64) & (u64::MAX >> (64 - bits));
            Const::Int(match function {
                Intrinsic::Abs if dtype.is_int() => dtype.wrap(x.wrapping_abs()),
                Intrinsic::Abs => x,
                Intrinsic::PopCount => unsigned.count_ones() as i64,
                Intrinsic::Clz => unsigned.leading_zeros() as i64 - (64 - bits),
                Intrinsic::BitAnd => x & y,
                Intrinsic::BitOr => x | y,
                Intrinsic::BitXor => x ^ y,
                Intrinsic::BitNot if dtype == DType::Bool => (x == 0) as i64,
                Intrinsic::BitNot => dtype.wrap(!x),
                Intrinsic::ShiftLeft if (0..bits).contains(&y) => dtype.wrap(x << y),
                Intrinsic::ShiftLeft => 0,
                Intrinsic::ShiftRight if (0..bits).contains(&y) && dtype == DType::UInt64 => ((x as u64) >> y) as i64,
                Intrinsic::ShiftRight if (0..bits).contains(&y) => x >> y,
                Intrinsic::ShiftRight => {
                    if dtype.is_int() && x < 0 {
                        -1
                    } else {
                        0
                    }
                }
                Intrinsic::Likely | Intrinsic::Assume => x,
                _ => unreachable!("types were checked: {function} takes no integers"),
            })
        }
        Const::Float(x) => {
            let y = args.get(1).map_or(0.0, |&y| float_of(y));
            let z = args.get(2).map_or(0.0, |&z| float_of(z));
            match function {
                Intrinsic::IsNan => Const::Int(x.is_nan() as i64),
                Intrinsic::IsInf => Const::Int(x.is_infinite() as i64),
                Intrinsic::IsFinite => Const::Int(x.is_finite() as i64),
                Intrinsic::Fma if dtype != DType::Float64 => {
                    Const::Float((x as f32).mul_add(y as f32, z as f32) as f64)
                }
                Intrinsic::NextAfter => Const::Float(crate::ir::math::next_after(dtype, x, y)),
                _ => Const::Float(computed_in(dtype, float_call(function, x, y, z))),
            }
        }
    };
    match value {
        Const::Float(v) => Const::Float(dtype.round(v)),
        Const::Int(v) => Const::Int(v),
    }
}

/// A float function in double precision.
fn float_call(function: Intrinsic, x: f64, y: f64, z: f64) -> f64 {
    match function {
        Intrinsic::Exp => x.exp(),
        Intrinsic::Exp2 => x.exp2(),
        Intrinsic::Exp10 => 10f64.powf(x),
        Intrinsic::Log => x.ln(),
        Intrinsic::Log2 => x.log2(),
        Intrinsic::Log10 => x.log10(),
        Intrinsic::Log1p => x.ln_1p(),
        Intrinsic::Sqrt => x.sqrt(),
        Intrinsic::Rsqrt => 1.0 / x.sqrt(),
        Intrinsic::Tanh => x.tanh(),
        Intrinsic::Sin => x.sin(),
        Intrinsic::Cos => x.cos(),
        Intrinsic::Tan => x.tan(),
        Intrinsic::Asin => x.asin(),
        Intrinsic::Acos => x.acos(),
        Intrinsic::Atan => x.atan(),
        Intrinsic::Sinh => x.sinh(),
        Intrinsic::Cosh => x.cosh(),
        Intrinsic::Asinh => x.asinh(),
        Intrinsic::Acosh => x.acosh(),
        Intrinsic::Atanh => x.atanh(),
        Intrinsic::Atan2 => x.atan2(y),
        Intrinsic::Erf => crate::ir::math::erf(x),
        Intrinsic::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Intrinsic::Pow => x.powf(y),
        Intrinsic::Fmod => x % y,
        Intrinsic::Hypot => x.hypot(y),
        Intrinsic::CopySign => x.copysign(y),
        Intrinsic::Fma => x.mul_add(y, z),
        Intrinsic::Abs => x.abs(),
        Intrinsic::Floor => x.floor(),
        Intrinsic::Ceil => x.ceil(),
        Intrinsic::Trunc => x.trunc(),
        Intrinsic::Round | Intrinsic::NearbyInt => x.round_ties_even(),
        Intrinsic::NextAfter
        | Intrinsic::IsNan
        | Intrinsic::IsInf
        | Intrinsic::IsFinite
        | Intrinsic::PopCount
        | Intrinsic::Clz
        | Intrinsic::BitAnd
        | Intrinsic::BitOr
        | Intrinsic::BitXor
        | Intrinsic::BitNot
        | Intrinsic::ShiftLeft
        | Intrinsic::ShiftRight
        | Intrinsic::Likely
        | Intrinsic::Assume => unreachable!("{function} gives no float"),
    }
}

/// The contents of a buffer from numbers of its type.
pub(crate) fn memory_of(values: impl IntoIterator<Item = Const>) -> Memory {
    values.into_iter().map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn check(text: &str, input: &[f64], expected: Result<&[f64], Stopped>) {
        let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
        let out = kernel.params()[1].len as usize;
        let mut params = [memory_of(input.iter().map(|&v| Const::Float(v))), vec![Some(Const::Float(0.0)); out]];
        let result = run(&kernel, &mut params);
        match expected {
            Ok(values) => {
                assert_eq!(result, Ok(()));
                assert_eq!(params[1], memory_of(values.iter().map(|&v| Const::Float(v))));
            }
            Err(stopped) => assert_eq!(result, Err(stopped)),
        }
    }

    #[test]
    fn loops_vectors_and_registers() {
        check(
            "kernel @f(X: in float32[8], Y: out float32[2]) {
               register s: float32x4
               s = splat(0.0, 4)
               for i in 2 { s = s + X[i * 4; 4] }
               Y[0] = reduce(add, s)
               Y[1] = extract(select(ramp(0, 1, 4) < splat(2, 4), s, splat(-1.0, 4)), 2)
             }",
            &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            Ok(&[36.0, -1.0]),
        );
    }

    #[test]
    fn failures_stop_the_kernel() {
        let text = |body: &str| format!("kernel @f(X: in float32[1], Y: out float32[1]) {{ {body} }}");
        let failure = |f| Err(Stopped::Failure(f));
        check(&text("check X[0] < 0.0 else assertion(0)"), &[1.0], failure(Failure::Assertion { index: 0 }));
        check(&text("let z: int64 = cast(int64, X[0])\nY[7 // z] = 0.0"), &[0.0], failure(Failure::Division));
        let buffer = parse(&text("")).map(|k| k.buffers().nth(1).map(|b| b.0)).ok().flatten().expect("two buffers");
        check(&text("Y[3] = 1.0"), &[0.0], Err(Stopped::Access { buffer, index: 3 }));
    }
}
