//! Values between the elements of a tensor, as weighted sums of the elements around a position.

use super::*;
use crate::te::INDEX;

/// An element along one dimension: its index, and its weight; a single one has none.
#[derive(Clone, Copy)]
pub(super) struct Tap {
    pub index: ExprId,
    pub weight: Option<ExprId>,
}

/// The weighted sum over the taps of all given dimensions. `element` gives the element at some indices.
pub(super) fn weighted(
    te: &mut Te,
    taps: &[(usize, Vec<Tap>)],
    at: &mut Vec<ExprId>,
    element: &mut dyn FnMut(&mut Te, &[ExprId]) -> ExprId,
) -> ExprId {
    let Some(((dim, taps), rest)) = taps.split_first() else { return element(te, at) };
    let mut sum = None;
    for tap in taps {
        at[*dim] = tap.index;
        let mut value = weighted(te, rest, at, element);
        if let Some(weight) = tap.weight {
            value = te.mul(value, weight);
        }
        sum = Some(match sum {
            Some(sum) => te.add(sum, value),
            None => value,
        });
    }
    sum.expect("a dimension has taps")
}

/// The integer below a position, as an index, and the distance from it.
pub(super) fn below(te: &mut Te, position: ExprId) -> (ExprId, ExprId) {
    let floor = te.call(Intrinsic::Floor, &[position]);
    let fraction = te.sub(position, floor);
    (index_of(te, floor), fraction)
}

/// A float as an index. Vectors convert floats to 32 bits, which is enough: what they cannot hold lies outside of every tensor.
pub(super) fn index_of(te: &mut Te, x: ExprId) -> ExprId {
    let short = te.cast(DType::Int32, x);
    te.cast(INDEX, short)
}

/// The two taps of linear interpolation.
pub(super) fn linear(te: &mut Te, position: ExprId) -> Vec<Tap> {
    let (index, t) = below(te, position);
    let one = like(te, t, 1.0);
    let rest = te.sub(one, t);
    let next = te.add_const(index, 1);
    vec![Tap { index, weight: Some(rest) }, Tap { index: next, weight: Some(t) }]
}

/// The four taps of cubic interpolation by splines of a parameter.
pub(super) fn cubic(te: &mut Te, position: ExprId, alpha: f64) -> Vec<Tap> {
    let (index, t) = below(te, position);
    let t2 = te.mul(t, t);
    let t3 = te.mul(t2, t);
    // The coefficients of 1, t, t², t³.
    let weights = [
        [0.0, alpha, -2.0 * alpha, alpha],
        [1.0, 0.0, -(3.0 + alpha), alpha + 2.0],
        [0.0, -alpha, 3.0 + 2.0 * alpha, -(alpha + 2.0)],
        [0.0, 0.0, alpha, -alpha],
    ];
    let mut taps = Vec::with_capacity(4);
    for (i, [constant, linear, square, cube]) in weights.into_iter().enumerate() {
        let mut weight = like(te, t, constant);
        for (coefficient, power) in [(cube, t3), (square, t2), (linear, t)] {
            if coefficient != 0.0 {
                let coefficient = like(te, t, coefficient);
                let term = te.mul(coefficient, power);
                weight = te.add(weight, term);
            }
        }
        taps.push(Tap { index: te.add_const(index, i as i64 - 1), weight: Some(weight) });
    }
    taps
}

/// An index moved to the nearest one of an extent.
pub(super) fn clamped(te: &mut Te, index: ExprId, extent: ExprId) -> ExprId {
    let (zero, last) = (te.extent(0), te.add_const(extent, -1));
    let index = te.min(index, last);
    te.max(index, zero)
}

/// Whether an index lies in an extent.
pub(super) fn is_inside(te: &mut Te, index: ExprId, extent: ExprId) -> ExprId {
    let zero = te.extent(0);
    let (low, high) = (te.compare(CmpOp::Le, zero, index), te.lt(index, extent));
    te.and(low, high)
}
