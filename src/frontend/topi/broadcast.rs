//! Functions of the elements of two tensors, which are broadcast to one shape. One of them may be a number.

use super::call::{Argument, Call, TopiError};
use super::{Compute, Operator, by};
use crate::graph::op;
use crate::graph::operator::Lowering;
use crate::ir::{DType, ExprId};
use crate::te::{Te, Tensor};

const fn same(name: &'static str) -> Operator {
    Operator { name, params: "lhs, rhs", compute: Compute::Broadcast(name) }
}

pub(super) static OPERATORS: &[Operator] = &[
    same("add"),
    same("bitwise_and"),
    same("bitwise_or"),
    same("bitwise_xor"),
    same("divide"),
    same("equal"),
    same("floor_divide"),
    same("floor_mod"),
    same("greater"),
    same("greater_equal"),
    same("left_shift"),
    same("less"),
    same("less_equal"),
    same("log_add_exp"),
    same("logical_and"),
    same("logical_or"),
    same("logical_xor"),
    same("maximum"),
    same("minimum"),
    same("mod"),
    same("multiply"),
    same("not_equal"),
    same("power"),
    same("right_shift"),
    same("subtract"),
    by("broadcast_to", "data, shape", |call| {
        let (x, shape) = (call.tensor("data")?, call.extents("shape")?);
        let from = call.te.shape(x).to_vec();
        let fits = from.len() <= shape.len()
            && (from.iter().rev().zip(shape.iter().rev())).all(|(&a, &b)| a == b || call.te.is_int(a, 1));
        if !fits {
            return Err(TopiError::new("the shape of `data` cannot be broadcast to `shape`"));
        }
        Ok(vec![call.te.compute("T_broadcast_to", &shape, |te, i| broadcast_element(te, x, i, &shape))])
    }),
];

/// An operand.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// A tensor.
    Tensor(Tensor),
    /// A number.
    Number(ExprId),
}

impl Side {
    fn shape(self, te: &Te) -> Vec<ExprId> {
        match self {
            Side::Tensor(t) => te.shape(t).to_vec(),
            Side::Number(_) => Vec::new(),
        }
    }
}

/// The element of a tensor at the indices of a shape to which it is broadcast. Dimensions of equal extents have equal indices, also
/// if that is 1.
fn broadcast_element(te: &mut Te, t: Tensor, i: &[ExprId], shape: &[ExprId]) -> ExprId {
    let own = te.shape(t).to_vec();
    let first = i.len() - own.len();
    let mut at = Vec::with_capacity(own.len());
    for (d, &extent) in own.iter().enumerate() {
        let repeats = te.is_int(extent, 1) && !te.is_int(shape[first + d], 1);
        at.push(if repeats { te.extent(0) } else { i[first + d] });
    }
    te.at(t, &at)
}

/// The operand of a parameter.
pub(super) fn side(call: &mut Call<'_>, name: &'static str) -> Result<Side, TopiError> {
    Ok(match *call.get(name) {
        Argument::Tensor(t) => Side::Tensor(t),
        Argument::Expr(e) => Side::Number(e),
        Argument::Bool(v) => Side::Number(call.te.bool(v)),
        Argument::Int(v) => {
            let dtype = if i32::try_from(v).is_ok() { DType::Int32 } else { DType::Int64 };
            Side::Number(call.te.int(v, dtype))
        }
        Argument::Float(v) => Side::Number(call.te.float(v, DType::Float32)),
        Argument::None | Argument::Str(_) | Argument::List(_) => return call.wrong(name, "a tensor or a number"),
    })
}

/// A function of graphs on the elements of `lhs` and `rhs`.
pub(super) fn compute(call: &mut Call<'_>, of: &'static str) -> Result<Vec<Tensor>, TopiError> {
    let (a, b) = (side(call, "lhs")?, side(call, "rhs")?);
    operation(call, of, a, b)
}

/// A function of graphs on the elements of two operands.
pub(super) fn operation(call: &mut Call<'_>, of: &'static str, a: Side, b: Side) -> Result<Vec<Tensor>, TopiError> {
    match op::find(of).map(|o| o.lower) {
        Some(Lowering::Elementwise(stage, element)) => binary(call, stage, a, b, element),
        _ => Err(TopiError::new(format!("`{of}` is no function of two elements"))),
    }
}

/// A tensor of the shape to which two operands are broadcast.
fn binary(
    call: &mut Call<'_>,
    stage: &str,
    a: Side,
    b: Side,
    element: impl FnOnce(&mut Te, &[ExprId]) -> ExprId,
) -> Result<Vec<Tensor>, TopiError> {
    broadcast(call.te, stage, &[a, b], |te, x| {
        // Elements are converted to a common type.
        let common = te.dtype(x[0]).common(te.dtype(x[1]));
        let x = [te.converted(common, x[0]), te.converted(common, x[1])];
        element(te, &x)
    })
}

/// A tensor of the shape to which operands are broadcast: an element is a function of theirs.
///
/// # Errors
/// The shapes do not fit.
pub fn broadcast(
    te: &mut Te,
    stage: &str,
    sides: &[Side],
    element: impl FnOnce(&mut Te, &[ExprId]) -> ExprId,
) -> Result<Vec<Tensor>, TopiError> {
    let shapes: Vec<Vec<ExprId>> = sides.iter().map(|s| s.shape(te)).collect();
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut shape = Vec::with_capacity(rank);
    for d in 0..rank {
        let mut extent = None;
        for own in &shapes {
            let Some(&e) = (own.len() + d).checked_sub(rank).and_then(|d| own.get(d)) else { continue };
            extent = match extent {
                None => Some(e),
                Some(known) if known == e || te.is_int(e, 1) => Some(known),
                Some(known) if te.is_int(known, 1) => Some(e),
                // A symbol that meets a constant has its value.
                Some(known) if te.as_int(known).is_none() => Some(e),
                Some(known) if te.as_int(e).is_none() => Some(known),
                Some(_) => {
                    let all: Vec<String> = shapes.iter().map(|s| crate::graph::ty::extents(te, s)).collect();
                    return Err(TopiError::new(format!("the shapes {} do not fit", all.join(" and "))));
                }
            };
        }
        shape.extend(extent);
    }
    Ok(vec![te.compute(stage, &shape, |te, i| {
        let elements: Vec<ExprId> = (sides.iter())
            .map(|&side| match side {
                Side::Number(e) => e,
                Side::Tensor(t) => broadcast_element(te, t, i, &shape),
            })
            .collect();
        element(te, &elements)
    })])
}
