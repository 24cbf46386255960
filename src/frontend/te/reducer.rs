//! The operations by which reductions combine values.

use super::Te;
use crate::ir::{CmpOp, DType, ExprId};

/// An associative and commutative operation with a neutral element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reducer {
    /// `a + b`; of booleans, `a or b`.
    Sum,
    /// `a * b`; of booleans, `a and b`.
    Prod,
    /// The larger value.
    Max,
    /// The smaller value.
    Min,
    /// The larger value, beginning with minus infinity where there is one: that of infinities is infinite.
    Supremum,
    /// The smaller value, beginning with infinity where there is one.
    Infimum,
    /// Of pairs (index, value), the one with the largest value; the first such index.
    ArgMax,
    /// Of pairs (index, value), the one with the smallest value; the first such index.
    ArgMin,
}

impl Reducer {
    /// The number of values that are combined together.
    pub fn n_values(self) -> usize {
        match self {
            Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min | Reducer::Supremum | Reducer::Infimum => 1,
            Reducer::ArgMax | Reducer::ArgMin => 2,
        }
    }

    /// The neutral element, of the types of `values`.
    pub(super) fn neutral(self, te: &mut Te, values: &[ExprId]) -> Vec<ExprId> {
        let types: Vec<DType> = values.iter().map(|&v| te.dtype(v)).collect();
        let value = types[types.len() - 1];
        match self {
            Reducer::Sum => vec![te.constant(0, value)],
            Reducer::Prod => vec![te.constant(1, value)],
            Reducer::Max => vec![least(te, value)],
            Reducer::Min => vec![greatest(te, value)],
            Reducer::Supremum if value.is_float() => vec![te.float(f64::NEG_INFINITY, value)],
            Reducer::Infimum if value.is_float() => vec![te.float(f64::INFINITY, value)],
            Reducer::Supremum => vec![least(te, value)],
            Reducer::Infimum => vec![greatest(te, value)],
            Reducer::ArgMax => vec![te.constant(-1, types[0]), least(te, value)],
            Reducer::ArgMin => vec![te.constant(-1, types[0]), greatest(te, value)],
        }
    }

    /// The combination of what was combined so far with new values.
    pub(super) fn combine(self, te: &mut Te, so_far: &[ExprId], new: &[ExprId]) -> Vec<ExprId> {
        let is_bool = te.dtype(new[new.len() - 1]) == DType::Bool;
        match self {
            Reducer::Sum if is_bool => vec![te.or(so_far[0], new[0])],
            Reducer::Sum => vec![te.add(so_far[0], new[0])],
            Reducer::Prod if is_bool => vec![te.and(so_far[0], new[0])],
            Reducer::Prod => vec![te.mul(so_far[0], new[0])],
            Reducer::Max | Reducer::Supremum => vec![te.max(so_far[0], new[0])],
            Reducer::Min | Reducer::Infimum => vec![te.min(so_far[0], new[0])],
            Reducer::ArgMax => first_of_best(te, CmpOp::Gt, so_far, new),
            Reducer::ArgMin => first_of_best(te, CmpOp::Lt, so_far, new),
        }
    }
}

/// The pair whose value is better; of two equally good ones, the pair with the smaller index.
fn first_of_best(te: &mut Te, better: CmpOp, so_far: &[ExprId], new: &[ExprId]) -> Vec<ExprId> {
    let is_better = te.compare(better, so_far[1], new[1]);
    let is_equal = te.compare(CmpOp::Eq, so_far[1], new[1]);
    let is_before = te.lt(so_far[0], new[0]);
    let is_first = te.and(is_equal, is_before);
    let stays = te.or(is_better, is_first);
    vec![te.select(stays, so_far[0], new[0]), te.select(is_better, so_far[1], new[1])]
}

/// The least finite value of a type.
pub fn least(te: &mut Te, dtype: DType) -> ExprId {
    match dtype.min_value() {
        Ok(v) => te.int(v, dtype),
        Err(v) => te.float(v, dtype),
    }
}

/// The greatest finite value of a type.
pub fn greatest(te: &mut Te, dtype: DType) -> ExprId {
    match dtype.max_value() {
        Ok(v) => te.int(v, dtype),
        Err(v) => te.float(v, dtype),
    }
}
