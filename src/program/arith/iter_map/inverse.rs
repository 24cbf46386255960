//! Inverts iterator maps: computes the iterators as expressions of the indices.

use super::{IterMap, IterSplit, IterSum, MarkId, MarkSource};
use crate::arith::analyzer::Analyzer;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::BinOp;

/// The reason why an iterator map has no inverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InverseError {
    /// The scales of a sum are not those of a number's digits, or the scale of a single split is neither 1 nor -1.
    #[error("the scales of an index are not those of a fusion")]
    NotFused,
    /// The domain of an iterator does not start at 0.
    #[error("the range of an iterator does not start at 0")]
    ShiftedIterator,
    /// The number of outputs differs from the number of indices.
    #[error("expected one output for each of {expected} indices, found {found}")]
    Count {
        /// The number of indices.
        expected: usize,
        /// The number of outputs.
        found: usize,
    },
}

/// A part of the map to which the inversion carries a value back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Index(usize),
    Mark(MarkId),
}

/// The variables of the domain as expressions of `outputs`, which stand for the values of the indices.
///
/// # Errors
///
/// If the map is not made of splits and fusions alone.
pub fn inverse_affine_iter_map(
    a: &mut Arena,
    map: &IterMap,
    outputs: &[ExprId],
) -> Result<Vec<(VarId, ExprId)>, InverseError> {
    if outputs.len() != map.indices.len() {
        return Err(InverseError::Count { expected: map.indices.len(), found: outputs.len() });
    }
    let mut analyzer = Analyzer::new();
    let mut order = Vec::new();
    for i in 0..map.indices.len() {
        visit(map, Node::Index(i), &mut order);
    }
    // From the indices inwards: a sum before the iterators that it is made of.
    order.reverse();
    let mut carried: Vec<(Node, ExprId)> = outputs.iter().enumerate().map(|(i, &e)| (Node::Index(i), e)).collect();
    let mut inverse: Vec<(VarId, ExprId)> = Vec::new();
    for node in order {
        let value = carried.iter().find(|c| c.0 == node).map(|c| c.1);
        let Some(sum) = sum_of(map, node) else { continue };
        let value = match value {
            // The type of loops may differ from the type of the iterations that they drive.
            Some(value) => a.cast(a.dtype(sum.base), value),
            None => a.int(0, a.dtype(sum.base)),
        };
        let input = a.sub(value, sum.base);
        for (split, part) in parts(a, &mut analyzer, sum, input)? {
            let part = a.mul(part, split.lower_factor);
            match &map.mark(split.mark).source {
                MarkSource::Sum(_) => accumulate(a, &mut carried, Node::Mark(split.mark), part),
                MarkSource::Expr(e) => {
                    let Expr::Var(v) = a.expr(*e) else { return Err(InverseError::ShiftedIterator) };
                    accumulate(a, &mut inverse, v, part);
                }
            }
        }
    }
    Ok(inverse)
}

fn accumulate<K: PartialEq>(a: &mut Arena, list: &mut Vec<(K, ExprId)>, key: K, value: ExprId) {
    match list.iter_mut().find(|x| x.0 == key) {
        Some(known) => known.1 = a.add(known.1, value),
        None => list.push((key, value)),
    }
}

fn sum_of(map: &IterMap, node: Node) -> Option<&IterSum> {
    match node {
        Node::Index(i) => Some(&map.indices[i]),
        Node::Mark(m) => match &map.mark(m).source {
            MarkSource::Sum(sum) => Some(sum),
            MarkSource::Expr(_) => None,
        },
    }
}

fn visit(map: &IterMap, node: Node, order: &mut Vec<Node>) {
    if order.contains(&node) {
        return;
    }
    if let Some(sum) = sum_of(map, node) {
        for split in &sum.args {
            visit(map, Node::Mark(split.mark), order);
        }
    }
    order.push(node);
}

/// The values of the splits of a sum, given the value of the sum.
fn parts(
    a: &mut Arena,
    analyzer: &mut Analyzer,
    sum: &IterSum,
    input: ExprId,
) -> Result<Vec<(IterSplit, ExprId)>, InverseError> {
    if let &[split] = sum.args.as_slice() {
        // The scale is its own inverse: 1 or -1.
        let square = a.mul(split.scale, split.scale);
        let one = a.int(1, a.dtype(square));
        if !analyzer.can_prove_equal(a, square, one) {
            return Err(InverseError::NotFused);
        }
        return Ok(vec![(split, a.mul(input, split.scale))]);
    }
    if let Some(last) = sum.args.last() {
        let mut expected = last.scale;
        for split in sum.args.iter().rev() {
            if !analyzer.can_prove_equal(a, split.scale, expected) {
                return Err(InverseError::NotFused);
            }
            expected = a.binary(BinOp::Mul, expected, split.extent);
        }
    }
    let mut found = Vec::with_capacity(sum.args.len());
    for (i, split) in sum.args.iter().enumerate().rev() {
        let mut part = a.floor_div(input, split.scale);
        // No digit precedes the outermost one.
        if i > 0 {
            part = a.floor_mod(part, split.extent);
        }
        found.push((*split, part));
    }
    Ok(found)
}
