//! Elements of values that follow from constants, and from weights that are read with the text: where the shape of a result depends on them, they are computed while a text is read.
//!
//! The prim_func of each call is interpreted. This is for what shapes depend on, which is small; large tensors are not known.

use super::constant::Constant;
use super::function::{CallId, Callee, Function, ValueDef, ValueId};
use super::lower::{Lowered, lower_call};
use super::operator::Lowering;
use crate::graph::infer::Args;
use crate::ir::interp::{Arg, Options, Tensor, run};
use crate::ir::{Arena, Func};
use std::collections::{HashMap, HashSet};

/// Results of more elements are not computed, and weights of more are not read for this.
pub const MOST_ELEMENTS: i64 = 1 << 16;

/// Computations of more stores are given up.
const MOST_STORES: u64 = 1 << 20;

/// Values that follow from more calls are not computed.
const MOST_CALLS: usize = 256;

/// The elements of a tensor; `None` if they depend on other parameters, or take long to compute. `arena` owns the extents of the function's
/// types.
pub(crate) fn elements(function: &Function, arena: &Arena, v: ValueId) -> Option<Constant> {
    let v = function.resolved(v);
    if let Some(constant) = function.constant(v).or_else(|| function.known_weights.get(&v)) {
        return Some(constant.clone());
    }
    let needed = needed(function, v)?;
    // Prim_funcs are made from the function's own arena.
    let mut known = Known { function: function.clone(), tuples: HashMap::new() };
    known.function.arena = arena.clone();
    for (v, weight) in &function.known_weights {
        known.function.values[v.index()].def = ValueDef::Constant(weight.clone());
    }
    for &c in function.order.iter().filter(|c| needed.contains(c)) {
        let results = known.of_call(c)?;
        let result = function.call(c).result;
        match function.ty(result).as_tensor() {
            Some(_) => known.function.values[result.index()].def = ValueDef::Constant(results.into_iter().next()?),
            None => _ = known.tuples.insert(result, results),
        }
    }
    known.function.constant(v).cloned()
}

/// The calls from which a value follows; `None` if it depends on a parameter without known elements, or on what is no operator.
fn needed(function: &Function, v: ValueId) -> Option<HashSet<CallId>> {
    let mut needed = HashSet::new();
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        match function.value(v).def {
            ValueDef::Param if !function.known_weights.contains_key(&v) => return None,
            ValueDef::Param | ValueDef::Constant(_) => {}
            ValueDef::Call(c) if needed.contains(&c) => {}
            ValueDef::Call(_) if needed.len() == MOST_CALLS => return None,
            ValueDef::Call(c) => {
                needed.insert(c);
                open.extend(function.call(c).inputs());
            }
        }
    }
    Some(needed)
}

/// A function in which the tensors that were computed are constants.
struct Known {
    function: Function,
    /// The results that are tuples.
    tuples: HashMap<ValueId, Vec<Constant>>,
}

impl Known {
    /// The elements of the tensors of a value.
    fn of(&self, v: ValueId) -> Option<Vec<Constant>> {
        match self.function.constant(v) {
            Some(constant) => Some(vec![constant.clone()]),
            None => self.tuples.get(&v).cloned(),
        }
    }

    fn of_call(&self, c: CallId) -> Option<Vec<Constant>> {
        let call = self.function.call(c);
        let first = |v| self.of(v)?.into_iter().next();
        match call.callee {
            Callee::Op(op) => match op.lower {
                Lowering::Known(results) => {
                    results(&Args { op, args: &call.args, function: &self.function }, &self.function.arena).ok()
                }
                Lowering::Elementwise(..) | Lowering::Stages(_) | Lowering::Reshape => {
                    let Lowered { func, inputs } = lower_call(&self.function, c).ok()?;
                    interpreted(&func, &inputs.into_iter().map(first).collect::<Option<Vec<_>>>()?)
                }
            },
            Callee::Alias => self.of(call.inputs().next()?),
            Callee::Item(i) => Some(vec![self.of(call.inputs().next()?)?.into_iter().nth(i)?]),
            Callee::Tuple => call.inputs().map(first).collect(),
            Callee::CallTir(_)
            | Callee::CallDpsPacked(_)
            | Callee::CallPurePacked(_)
            | Callee::CallTirInplace(_)
            | Callee::CallGraph(_)
            | Callee::Shape => None,
        }
    }
}

/// The results of a prim_func on these inputs.
fn interpreted(func: &Func, inputs: &[Constant]) -> Option<Vec<Constant>> {
    let func = func.callable();
    let mut args = Vec::with_capacity(func.params.len());
    for (i, param) in func.params.iter().enumerate() {
        let buffer = func.arena.buffer(param.buffer?);
        let extents = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e));
        let shape = extents.collect::<Option<Vec<i64>>>()?;
        let n = shape.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent))?;
        if n > MOST_ELEMENTS {
            return None;
        }
        let mut tensor = Tensor::zeros(buffer.dtype, &shape);
        if let Some(input) = inputs.get(i) {
            tensor.data = input.data().to_vec();
        }
        args.push(Arg::Tensor(tensor));
    }
    run(&func, &mut args, Options { max_steps: MOST_STORES, ..Options::default() }).ok()?;
    let results = args[inputs.len()..].iter().map(Arg::tensor);
    results.map(|t| t.and_then(|t| Constant::new(t.dtype, &t.shape, t.data.clone()))).collect()
}
