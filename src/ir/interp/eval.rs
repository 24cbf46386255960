//! Evaluation of expressions.

use super::Precision;
use super::fault::{Fault, Trap};
use super::value::{Value, binary, call, cast, compare};
use crate::ir::buffer::BufferId;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, Intrinsic};
use smallvec::SmallVec;

/// Indices of an access.
pub(super) type Indices = SmallVec<[i64; 6]>;

/// Where expressions find the values of variables and buffers.
pub(super) trait Env {
    /// What stops an evaluation.
    type Stop: From<Box<Fault>> + From<Trap>;

    /// The value of a variable.
    fn var(&self, v: VarId) -> Option<Value>;

    /// Gives a variable a value, or none; returns what it had.
    fn set_var(&mut self, v: VarId, value: Option<Value>) -> Option<Value>;

    /// An element of a buffer.
    fn load(&mut self, buffer: BufferId, indices: &[i64]) -> Result<Value, Self::Stop>;
}

/// The value of an expression.
pub(super) fn eval<E: Env>(arena: &Arena, env: &mut E, precision: Precision, e: ExprId) -> Result<Value, E::Stop> {
    let dtype = arena.dtype(e);
    let value = match arena.expr(e) {
        Expr::Int(v) => Value::Int(v),
        // A constant is a number of its type, however other floats are carried.
        Expr::Float(bits) => Value::Float(dtype.round(f64::from_bits(bits))),
        Expr::Str(_) => return Err(Trap::IllTyped.into()),
        Expr::Var(v) => env.var(v).ok_or_else(|| Box::new(Fault::Unbound { var: v }))?,
        Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
            let a = eval(arena, env, precision, a)?;
            let decided = (a != Value::Int(0)) == (op == BinOp::Or);
            if decided { a } else { eval(arena, env, precision, b)? }
        }
        Expr::Binary(op, a, b) => {
            let x = eval(arena, env, precision, a)?;
            let y = eval(arena, env, precision, b)?;
            binary(op, dtype, x, y, precision)?
        }
        Expr::Compare(op, a, b) => {
            let x = eval(arena, env, precision, a)?;
            let y = eval(arena, env, precision, b)?;
            compare(op, arena.dtype(a), x, y)?
        }
        Expr::Not(a) => match eval(arena, env, precision, a)? {
            Value::Int(v) => Value::Int((v == 0).into()),
            Value::Float(_) => return Err(Trap::IllTyped.into()),
        },
        Expr::Cast(a) => cast(arena.dtype(a), dtype, eval(arena, env, precision, a)?, precision),
        Expr::Select(c, t, o) => {
            let c = eval(arena, env, precision, c)?;
            let t = eval(arena, env, precision, t)?;
            let o = eval(arena, env, precision, o)?;
            if c == Value::Int(0) { o } else { t }
        }
        Expr::IfThenElse(c, t, o) => {
            let holds = eval(arena, env, precision, c)? != Value::Int(0);
            eval(arena, env, precision, if holds { t } else { o })?
        }
        Expr::Load(buffer, list) => {
            let indices = eval_indices(arena, env, precision, arena.list(list))?;
            env.load(buffer, &indices)?
        }
        Expr::Call(Intrinsic::Assume, _) => Value::Int(1),
        Expr::Call(function, list) => {
            let list = arena.list(list);
            let mut args = SmallVec::<[Value; 3]>::new();
            for &a in list {
                args.push(eval(arena, env, precision, a)?);
            }
            call(function, arena.dtype(list[0]), &args, precision)?
        }
        Expr::Let(v, value, body) => {
            let value = eval(arena, env, precision, value)?;
            let before = env.set_var(v, Some(value));
            let result = eval(arena, env, precision, body);
            env.set_var(v, before);
            result?
        }
    };
    Ok(value)
}

/// The value of an integer expression.
pub(super) fn eval_int<E: Env>(arena: &Arena, env: &mut E, precision: Precision, e: ExprId) -> Result<i64, E::Stop> {
    match eval(arena, env, precision, e)? {
        Value::Int(v) => Ok(v),
        Value::Float(_) => Err(Trap::IllTyped.into()),
    }
}

/// The values of integer expressions.
pub(super) fn eval_indices<E: Env>(
    arena: &Arena,
    env: &mut E,
    precision: Precision,
    list: &[ExprId],
) -> Result<Indices, E::Stop> {
    let mut indices = Indices::new();
    for &e in list {
        indices.push(eval_int(arena, env, precision, e)?);
    }
    Ok(indices)
}
