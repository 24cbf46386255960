//! Evaluates expressions of variables alone.

use super::eval::{Env, Lane, eval};
use super::fault::Fault;
use super::{Precision, Value};
use crate::ir::buffer::BufferId;
use crate::ir::expr::{Arena, ExprId, VarId};
use crate::ir::scalar::Trap;
use hashbrown::HashMap;

/// The value of a scalar expression for given values of variables; `None` if it reads memory, mentions another variable
/// or has no value.
pub fn value_at(arena: &Arena, e: ExprId, values: &[(VarId, i64)]) -> Option<Value> {
    let vars = values.iter().map(|&(v, value)| (v, Value::Int(value))).collect();
    let mut scalars = Scalars { vars, vectors: HashMap::new() };
    eval(arena, &mut scalars, Precision::Exact, e).ok()
}

struct Scalars {
    vars: HashMap<VarId, Value>,
    vectors: HashMap<VarId, Vec<Value>>,
}

/// The expression has no value.
struct NoValue;

impl From<Box<Fault>> for NoValue {
    fn from(_: Box<Fault>) -> NoValue {
        NoValue
    }
}

impl From<Trap> for NoValue {
    fn from(_: Trap) -> NoValue {
        NoValue
    }
}

impl Env for Scalars {
    type Stop = NoValue;

    fn var(&self, v: VarId) -> Option<Value> {
        self.vars.get(&v).copied()
    }

    fn set_var(&mut self, v: VarId, value: Option<Value>) -> Option<Value> {
        match value {
            Some(value) => self.vars.insert(v, value),
            None => self.vars.remove(&v),
        }
    }

    fn vectors(&mut self) -> &mut HashMap<VarId, Vec<Value>> {
        &mut self.vectors
    }

    fn load(&mut self, _: BufferId, _: &[i64], _: Lane) -> Result<Value, NoValue> {
        Err(NoValue)
    }
}
