//! Evaluation of expressions.

use super::fault::Fault;
use super::{Precision, Value};
use crate::ir::buffer::BufferId;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, Builtin, Intrinsic};
use crate::ir::scalar::bits::{bits_of, value_of};
use crate::ir::scalar::{Trap, binary, call, cast, compare, not};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Indices of an access.
pub(super) type Indices = SmallVec<[i64; 6]>;

/// The environment of expressions: the values of variables and buffers.
pub(super) trait Env {
    /// The reason why an evaluation stops.
    type Stop: From<Box<Fault>> + From<Trap>;

    /// The value of a variable.
    fn var(&self, v: VarId) -> Option<Value>;

    /// Sets or removes the value of a variable; returns the old value.
    fn set_var(&mut self, v: VarId, value: Option<Value>) -> Option<Value>;

    /// The values of the lanes of a variable of a vector type.
    fn vectors(&mut self) -> &mut HashMap<VarId, Vec<Value>>;

    /// Loads a lane of an element of a buffer.
    fn load(&mut self, buffer: BufferId, indices: &[i64], lane: Lane) -> Result<Value, Self::Stop>;
}

/// A lane of an access.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// Lane of the element, in a buffer of vectors.
    pub inside: usize,
    /// Whether the element itself is one of several that a vector index selects.
    pub of_vector: bool,
}

/// The value of a scalar expression.
pub(super) fn eval<E: Env>(arena: &Arena, env: &mut E, precision: Precision, e: ExprId) -> Result<Value, E::Stop> {
    eval_lane(arena, env, precision, e, 0)
}

/// The values of all lanes of an expression.
pub(super) fn eval_lanes<E: Env>(
    arena: &Arena,
    env: &mut E,
    precision: Precision,
    e: ExprId,
) -> Result<Vec<Value>, E::Stop> {
    (0..usize::from(arena.lanes(e))).map(|lane| eval_lane(arena, env, precision, e, lane)).collect()
}

/// The value of one lane of an expression.
fn eval_lane<E: Env>(
    arena: &Arena,
    env: &mut E,
    precision: Precision,
    e: ExprId,
    lane: usize,
) -> Result<Value, E::Stop> {
    let dtype = arena.dtype(e);
    // A scalar operand of a vector expression, such as the condition of a selection, has one lane for all.
    let lane = if arena.lanes(e) == 1 { 0 } else { lane };
    let eval = |arena: &Arena, env: &mut E, precision: Precision, e: ExprId| eval_lane(arena, env, precision, e, lane);
    let value = match arena.expr(e) {
        Expr::Int(v) => Value::Int(v),
        // A constant is rounded to its type in all modes.
        Expr::Float(bits) => Value::Float(dtype.round(f64::from_bits(bits))),
        Expr::Str(_) | Expr::BufferData(_) => return Err(Trap::IllTyped.into()),
        Expr::Var(v) if arena.lanes(e) > 1 => {
            let lanes = env.vectors().get(&v);
            lanes.and_then(|l| l.get(lane).copied()).ok_or_else(|| Box::new(Fault::Unbound { var: v }))?
        }
        Expr::Var(v) => env.var(v).ok_or_else(|| Box::new(Fault::Unbound { var: v }))?,
        Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
            let a = eval(arena, env, precision, a)?;
            let decided = (a != Value::Int(0)) == (op == BinOp::Or);
            if decided { a } else { eval(arena, env, precision, b)? }
        }
        Expr::Binary(op, a, b) => {
            let x = eval(arena, env, precision, a)?;
            let y = eval(arena, env, precision, b)?;
            binary(op, dtype, x, y, &precision)?
        }
        Expr::Compare(op, a, b) => {
            let x = eval(arena, env, precision, a)?;
            let y = eval(arena, env, precision, b)?;
            Value::Int(compare(op, arena.dtype(a), x, y)?.into())
        }
        Expr::Not(a) => not(eval(arena, env, precision, a)?)?,
        Expr::Cast(a) => cast(arena.dtype(a), dtype, eval(arena, env, precision, a)?, &precision),
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
            let width = usize::from(arena.buffer(buffer).lanes);
            let mut indices = Indices::new();
            for &i in arena.list(list) {
                match eval_lane(arena, env, precision, i, lane / width)? {
                    Value::Int(v) => indices.push(v),
                    Value::Float(_) => return Err(Trap::IllTyped.into()),
                }
            }
            let of_vector = usize::from(arena.lanes(e)) > width;
            env.load(buffer, &indices, Lane { inside: lane % width, of_vector })?
        }
        Expr::Call(Intrinsic::Assume, _) => Value::Int(1),
        Expr::Call(function, list) => {
            let list = arena.list(list);
            let mut args = SmallVec::<[Value; 3]>::new();
            for &a in list {
                if !function.domain().takes(arena.dtype(a)) {
                    return Err(Trap::IllTyped.into());
                }
                args.push(eval(arena, env, precision, a)?);
            }
            call(function, arena.dtype(list[0]), &args, &precision)?
        }
        Expr::Let(v, value, body) if arena.lanes(value) > 1 => {
            let value = eval_lanes(arena, env, precision, value)?;
            let before = env.vectors().insert(v, value);
            let result = eval(arena, env, precision, body);
            match before {
                Some(before) => env.vectors().insert(v, before),
                None => env.vectors().remove(&v),
            };
            result?
        }
        Expr::Ramp(base, stride) => {
            let base = eval(arena, env, precision, base)?;
            let stride = eval(arena, env, precision, stride)?;
            let step = if dtype.is_float() { Value::Float(lane as f64) } else { Value::Int(dtype.wrap(lane as i64)) };
            let reach = binary(BinOp::Mul, dtype, step, stride, &precision)?;
            binary(BinOp::Add, dtype, base, reach, &precision)?
        }
        Expr::Broadcast(value) => eval(arena, env, precision, value)?,
        Expr::Shuffle(vectors, indices) => {
            let mut rest = eval_int(arena, env, precision, arena.list(indices)[lane])?;
            let mut picked = None;
            for &v in arena.list(vectors) {
                let lanes = i64::from(arena.lanes(v));
                if (0..lanes).contains(&rest) {
                    picked = Some(eval_lane(arena, env, precision, v, rest as usize)?);
                    break;
                }
                rest -= lanes;
            }
            picked.ok_or(Trap::IllTyped)?
        }
        Expr::Builtin(Builtin::Reinterpret, list) => {
            let source = arena.list(list)[0];
            let (size, step) = (dtype.bytes(), arena.dtype(source).bytes());
            let mut bytes = [0u8; 8];
            for (i, slot) in bytes[..size].iter_mut().enumerate() {
                let at = lane * size + i;
                let value = eval_lane(arena, env, precision, source, at / step)?;
                *slot = bits_of(arena.dtype(source), value).to_le_bytes()[at % step];
            }
            value_of(dtype, u64::from_le_bytes(bytes))
        }
        Expr::Builtin(function, list) => {
            let name = function.called(arena, list);
            return Err(Box::new(Fault::Unknown { name }).into());
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

/// The indices of an access for each lane of its last index.
pub(super) fn eval_lane_indices<E: Env>(arena: &Arena, env: &mut E, list: &[ExprId]) -> Result<Vec<Indices>, E::Stop> {
    let lanes = list.last().map_or(1, |&e| arena.lanes(e));
    let mut all = Vec::with_capacity(lanes.into());
    for lane in 0..usize::from(lanes) {
        let mut indices = Indices::new();
        for &e in list {
            match eval_lane(arena, env, Precision::Exact, e, lane)? {
                Value::Int(v) => indices.push(v),
                Value::Float(_) => return Err(Trap::IllTyped.into()),
            }
        }
        all.push(indices);
    }
    Ok(all)
}
