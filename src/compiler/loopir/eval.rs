//! The evaluator: runs a kernel step by step. It defines the loop IR, and tests compare passes and back ends with it.

use super::expr::{Expr, ExprId};
use super::kernel::{BufferId, Kernel};
use super::operators::dot4;
use super::stmt::{Body, Failure, For, Stmt};
use crate::ir::scalar::{self, Exact, Trap, bits};
use crate::ir::{BinOp, Const, DType};
use smallvec::{SmallVec, smallvec};

/// The reason why a run ended early.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Stopped {
    /// A check failed, or a division had no result.
    Failure(Failure),
    /// An access outside of a buffer: the kernel breaks its invariant.
    Access {
        /// The buffer.
        buffer: BufferId,
        /// The index of the first element accessed.
        index: i64,
    },
    /// A read of an undefined value: the kernel breaks its invariant.
    Undefined,
}

/// The contents of a buffer; `None` is undefined.
pub type Memory = Vec<Option<Const>>;

/// The values of lanes; scalars are by far the most frequent.
type Lanes = SmallVec<[Const; 1]>;

/// Runs `kernel` on the contents of its parameters. Their number and lengths are checked only by the accesses. Parallel
/// loops run in order.
pub fn run(kernel: &Kernel, params: &mut [Memory]) -> Result<(), Stopped> {
    let mut memory: Vec<Memory> = params.iter_mut().map(std::mem::take).collect();
    for (_, b) in kernel.buffers().skip(memory.len()) {
        memory.push(vec![None; b.len as usize]);
    }
    let mut machine = Machine {
        kernel,
        memory,
        vars: vec![None; kernel.arena.n_vars()],
        locals: vec![None; kernel.arena.n_locals()],
        is_shared: shared(kernel),
        values: vec![None; kernel.arena.n_exprs()],
        n_steps: 0,
    };
    let result = machine.body(kernel.body);
    for (to, from) in params.iter_mut().zip(machine.memory) {
        *to = from;
    }
    result
}

/// Whether each expression is an operand in several places. If the values of those were not stored, a statement with
/// shared subexpressions would take time exponential in its depth.
fn shared(kernel: &Kernel) -> Vec<bool> {
    let arena = &kernel.arena;
    let mut n_uses = vec![0u32; arena.n_exprs()];
    for e in arena.exprs() {
        arena.for_each_child(e, |child| n_uses[child.index()] += 1);
    }
    n_uses.into_iter().map(|n| n > 1).collect()
}

struct Machine<'a> {
    kernel: &'a Kernel,
    memory: Vec<Memory>,
    vars: Vec<Option<Lanes>>,
    locals: Vec<Option<Lanes>>,
    is_shared: Vec<bool>,
    /// The last value of each shared expression, and the step in which it was computed.
    values: Vec<Option<(u64, Lanes)>>,
    /// Number of executed statements. During one statement, an expression has one value.
    n_steps: u64,
}

impl Machine<'_> {
    fn body(&mut self, body: Body) -> Result<(), Stopped> {
        for i in 0..body.len() {
            self.stmt(self.kernel.stmts.get(self.kernel.stmts.list(body)[i]))?;
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: Stmt) -> Result<(), Stopped> {
        self.n_steps += 1;
        match stmt {
            Stmt::For(For { var, extent, body, .. }) => {
                for i in 0..self.int(extent)? {
                    self.vars[var.index()] = Some(smallvec![Const::Int(i)]);
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
        if !self.is_shared[e.index()] {
            return self.compute(e);
        }
        match &self.values[e.index()] {
            Some((step, lanes)) if *step == self.n_steps => Ok(lanes.clone()),
            _ => {
                let lanes = self.compute(e)?;
                self.values[e.index()] = Some((self.n_steps, lanes.clone()));
                Ok(lanes)
            }
        }
    }

    fn compute(&mut self, e: ExprId) -> Result<Lanes, Stopped> {
        let arena = &self.kernel.arena;
        let ty = arena.ty(e);
        Ok(match arena.expr(e) {
            Expr::Int(v) => smallvec![Const::Int(v)],
            Expr::Float(bits) => smallvec![Const::Float(f64::from_bits(bits))],
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
                let dtype = arena.dtype(a);
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                zip(&a, &b, |x, y| Ok(Const::Int(typed(scalar::compare(op, dtype, x, y)).into())))?
            }
            Expr::Not(a) => self.expr(a)?.into_iter().map(|v| typed(scalar::not(v))).collect(),
            Expr::Cast(a) => {
                let from = arena.dtype(a);
                self.expr(a)?.into_iter().map(|v| scalar::cast(from, ty.dtype, v, &Exact)).collect()
            }
            Expr::Reinterpret(a) => {
                let from = arena.dtype(a);
                let lanes = self.expr(a)?;
                if from.bytes() == ty.dtype.bytes() {
                    lanes.into_iter().map(|v| bits::reinterpret(from, ty.dtype, v)).collect()
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
                let (holds, mut lanes) = (self.expr(c)?, self.expr(o)?);
                if let Expr::Pack(list) = arena.expr(t) {
                    for (i, &item) in arena.list(list).iter().enumerate().filter(|(i, _)| int_of(holds[*i]) != 0) {
                        lanes[i] = self.expr(item)?[0];
                    }
                    return Ok(lanes);
                }
                let Expr::Load(buffer, index) = arena.expr(t) else { return Err(Stopped::Undefined) };
                let index = self.expr(index)?;
                let at = |lane: usize| match index.len() {
                    1 => int_of(index[0]).wrapping_add(lane as i64),
                    _ => int_of(index[lane]),
                };
                for (i, lane) in lanes.iter_mut().enumerate().filter(|(i, _)| int_of(holds[*i]) != 0) {
                    *lane = self.element(buffer, at(i))?;
                }
                lanes
            }
            Expr::IfThenElse(c, t, o) => {
                let chosen = if self.int(c)? != 0 { t } else { o };
                self.expr(chosen)?
            }
            Expr::Load(buffer, indices) if arena.lanes(indices) > 1 => {
                let indices = self.expr(indices)?;
                indices.into_iter().map(|index| self.element(buffer, int_of(index))).collect::<Result<_, _>>()?
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
                        typed(scalar::call(function, dtype, &args, &Exact))
                    })
                    .collect()
            }
            Expr::Broadcast(a) => smallvec![self.expr(a)?[0]; ty.lanes as usize],
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
            Expr::Extract(a, lane) => smallvec![self.expr(a)?[lane as usize]],
            Expr::Reduce(op, a) => {
                let lanes = self.expr(a)?;
                let mut result = lanes[0];
                for &v in &lanes[1..] {
                    result = binary(op, result, v, ty.dtype)?;
                }
                smallvec![result]
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

fn typed<T>(result: Result<T, Trap>) -> T {
    result.unwrap_or_else(|trap| unreachable!("types were checked: {trap:?}"))
}

fn zip(a: &[Const], b: &[Const], mut f: impl FnMut(Const, Const) -> Result<Const, Stopped>) -> Result<Lanes, Stopped> {
    a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect()
}

fn binary(op: BinOp, x: Const, y: Const, dtype: DType) -> Result<Const, Stopped> {
    scalar::binary(op, dtype, x, y, &Exact).map_err(|trap| match trap {
        Trap::DivisionByZero | Trap::DivisionOverflow => Stopped::Failure(Failure::Division),
        Trap::IllTyped => unreachable!("types were checked: {op:?} of {dtype}"),
    })
}

/// Reinterprets integers as integers of another size.
fn regroup(lanes: &[Const], from: DType, to: DType) -> Lanes {
    let bytes: Vec<u8> = lanes.iter().flat_map(|&v| int_of(v).to_le_bytes().into_iter().take(from.bytes())).collect();
    let value = |lane: &[u8]| lane.iter().rev().fold(0, |v, &byte| v << 8 | i64::from(byte));
    bytes.chunks(to.bytes()).map(|lane| Const::Int(to.wrap(value(lane)))).collect()
}

/// The contents of a buffer with these values.
pub fn memory_of(values: impl IntoIterator<Item = Const>) -> Memory {
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
