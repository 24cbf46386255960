//! Operators on tensors of stages: what graphs compute by an operator, tensor expressions can compute, too.

use super::Constant;
use super::function::{Arg, Function, ValueId};
use super::infer::{Args, result_type};
use super::lower::{Lower, copy_between};
use super::op;
use super::operator::{Kind, OpError};
use super::ty::Type;
use crate::ir::{AttrValue, DType, ExprId};
use crate::te::{INDEX, Te, Tensor};
use std::collections::HashMap;

/// An argument of an operator.
#[derive(Clone, Debug)]
pub enum Given {
    /// A tensor.
    Tensor(Tensor),
    /// Several tensors.
    Tensors(Vec<Tensor>),
    /// A constant in the place of a tensor, of this type.
    Scalar(f64, DType),
    /// Extents or other integers, perhaps symbolic.
    Extents(Vec<ExprId>),
    /// A number.
    Number(ExprId),
    /// An attribute.
    Attr(AttrValue),
}

/// Adds the stages of an operator to others. Arguments are given by the names of parameters; those left out have their defaults.
///
/// # Errors
/// The arguments do not fit the operator.
///
/// # Panics
/// If there is no such operator, or it has no such parameter.
pub fn apply(te: &mut Te, operator: &'static str, given: Vec<(&'static str, Given)>) -> Result<Vec<Tensor>, OpError> {
    let op = op::find(operator).unwrap_or_else(|| panic!("there is an operator `{operator}`"));
    let mut function = Function::new("stages");
    let index = te.index_type();
    let mut symbols = HashMap::new();
    let mut values: Vec<(ValueId, Tensor)> = Vec::new();
    let mut args: Vec<Arg> = op.params.iter().map(|p| p.default.arg()).collect();
    for (name, given) in given {
        let at = op.position(name).unwrap_or_else(|| panic!("`{operator}` has a parameter `{name}`"));
        let mut number =
            |function: &mut Function, e| copy_between(&mut function.arena, INDEX, te, index, &mut symbols, e);
        let mut value = |function: &mut Function, t: Tensor| {
            if let Some(&(v, _)) = values.iter().find(|(_, known)| *known == t) {
                return v;
            }
            let shape = te.shape(t).iter().map(|&e| number(function, e)).collect();
            let v = function.add_param(te.buffer_name(t), Type::tensor(te.element_type(t), shape));
            values.push((v, t));
            v
        };
        args[at] = match given {
            Given::Tensor(t) => Arg::Value(value(&mut function, t)),
            Given::Tensors(all) => Arg::Values(all.into_iter().map(|t| value(&mut function, t)).collect()),
            Given::Scalar(v, dtype) => match Constant::scalar(v, dtype) {
                Some(constant) => Arg::Value(function.add_constant(constant)),
                None => {
                    let reason = format!("takes no constant of type {dtype}");
                    return Err(OpError { operator: op.name, reason, help: None });
                }
            },
            Given::Extents(all) => {
                let all = all.into_iter().map(|e| number(&mut function, e)).collect();
                if op.params[at].kind == Kind::Shape { Arg::Shape(all) } else { Arg::Prims(all) }
            }
            Given::Number(e) => Arg::Prim(number(&mut function, e)),
            Given::Attr(value) => Arg::Attr(value),
        };
    }
    let mut arena = std::mem::take(&mut function.arena);
    let result = result_type(op, &args, &function, &mut arena);
    function.arena = arena;
    let result = result?;
    let mut lower = Lower::new(Args { op, args: &args, function: &function }, &result, std::mem::take(te));
    for (v, t) in values {
        lower.provide(v, t);
    }
    let mut symbols: Vec<_> = symbols.into_iter().collect();
    symbols.sort();
    for (var, e) in symbols {
        if let Some(symbol) = function.arena.as_var(e) {
            let own = lower.te.var_expr(var);
            lower.provide_symbol(symbol, own);
        }
    }
    let stages = lower.stages();
    *te = std::mem::take(&mut lower.te);
    stages
}
