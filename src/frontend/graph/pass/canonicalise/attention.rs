//! Attention, as frameworks export it with products of matrices, becomes one operator.
//!
//! ```text
//! s = R.matmul(q, k) * scale + mask                                  q, v: [batch, head, position, feature]
//! p = R.nn.softmax(s, axis=-1)                                       k: [batch, head, feature, position]
//! R.permute_dims(R.matmul(p, v), axes=[0, 2, 1, 3])
//!     →    R.nn.attention(q', k', v', mask, scale=scale)             all: [batch, position, head, feature]
//! ```
//!
//! The operator takes permutations of the operands, which mostly cancel those that models have there. The scale may also stand on the
//! operands of the product, and the mask may be missing. With three dimensions and without the last permutation it is one head.
//!
//! Vaswani et al., "Attention Is All You Need", 2017.

use super::product::Product;
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::infer::Args;
use crate::graph::pass::canonicalise::permute::axes;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType, ExprId};

pub(super) fn recognise(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let call = rw.args(c)?;
    match call.op.name {
        "permute_dims" => {
            let mean = call.value("x").filter(|&v| axes(&call, 4) == Some(vec![0, 2, 1, 3]) && rw.has_uses(v, 1))?;
            let found = Attention::of(rw, &rw.defined_by(mean, "matmul")?, 4)?;
            found.of_heads(rw)
        }
        "matmul" => Attention::of(rw, &call, 3)?.of_one_head(rw),
        _ => None,
    }
}

/// `softmax(scale * q * k + mask) * v`.
struct Attention {
    q: ValueId,
    k: ValueId,
    v: ValueId,
    mask: Option<ValueId>,
    scale: f64,
}

impl Attention {
    /// What a product of matrices of so many dimensions computes, if all have the same number of matrices.
    fn of(rw: &Rewriter<'_>, mean: &Args<'_>, rank: usize) -> Option<Attention> {
        let (weights, v) = (mean.value("x1")?, mean.value("x2")?);
        let softmax = rw.only_use_of(weights, "nn.softmax")?;
        let scores = softmax.value("data")?;
        let shape = rw.shape(scores).filter(|s| s.len() == rank)?;
        if ![-1, rank as i64 - 1].contains(&softmax.int("axis")) || !rw.has_uses(scores, 1) {
            return None;
        }
        let (scaled, mask) = match rw.defined_by(scores, "add") {
            None => (Scaled::of(rw, scores)?, None),
            Some(sum) => {
                let (a, b) = (sum.value("x1")?, sum.value("x2")?);
                let with = |scores, mask| Some((Scaled::of(rw, scores)?, Some(mask)));
                with(a, b).or_else(|| with(b, a))?
            }
        };
        let Scaled { q, k, scale } = scaled;
        let matrices = |v: ValueId| rw.shape(v).filter(|s| s.len() == rank).map(|s| s[..rank - 2].to_vec());
        let all_equal = [q, k, v].into_iter().all(|v| matrices(v).as_deref() == Some(&shape[..rank - 2]));
        let is_float = rw.dtype(v).is_some_and(DType::is_float) && [q, k].iter().all(|&o| rw.dtype(o) == rw.dtype(v));
        (all_equal && is_float).then_some(Attention { q, k, v, mask, scale })
    }

    /// `[batch, head, position, feature]`, as `[batch, position, head, feature]`.
    fn of_heads(self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        let (q, v) = (permuted(rw, self.q, &[0, 2, 1, 3])?, permuted(rw, self.v, &[0, 2, 1, 3])?);
        let k = permuted(rw, self.k, &[0, 3, 1, 2])?;
        let bias = match self.mask {
            Some(mask) => {
                let shape = rw.shape(mask)?;
                Some(with_ones_before(rw, mask, shape, 4)?)
            }
            None => None,
        };
        operator(rw, [q, k, v], bias, self.scale)
    }

    /// `[batch, position, feature]`.
    fn of_one_head(self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        let k = permuted(rw, self.k, &[0, 2, 1])?;
        let mut operands = [self.q, k, self.v];
        for v in &mut operands {
            *v = with_one_at(rw, *v, 2)?;
        }
        let bias = match self.mask {
            Some(mask) => {
                let shape = rw.shape(mask)?;
                let mask = with_ones_before(rw, mask, shape, 3)?;
                Some(with_one_at(rw, mask, 1)?)
            }
            None => None,
        };
        let attended = operator(rw, operands, bias, self.scale)?;
        let mut shape = rw.shape(attended)?;
        shape.remove(2);
        rw.reshaped(attended, shape)
    }
}

/// `scale * q * k`.
struct Scaled {
    q: ValueId,
    k: ValueId,
    scale: f64,
}

impl Scaled {
    fn of(rw: &Rewriter<'_>, v: ValueId) -> Option<Scaled> {
        let whole = scaled(rw, v)?;
        let product = rw.only_use_of(whole.0, "matmul")?;
        let (q, k) = (product.value("x1")?, product.value("x2")?);
        let inner = |v| scaled(rw, v).unwrap_or((v, 1.0));
        let ((q, of_q), (k, of_k)) = (inner(q), inner(k));
        Some(Scaled { q, k, scale: whole.1 * of_q * of_k })
    }
}

/// The value and the scalar whose product a value is that one call reads.
fn scaled(rw: &Rewriter<'_>, v: ValueId) -> Option<(ValueId, f64)> {
    let product = Product::read_once(rw, v)?;
    match (&product.factors[..], &product.divisors[..]) {
        (&[x], []) if rw.shape(x) == rw.shape(v) => Some((x, product.coefficient)),
        _ => None,
    }
}

fn operator(rw: &mut Rewriter<'_>, [q, k, v]: [ValueId; 3], bias: Option<ValueId>, scale: f64) -> Option<ValueId> {
    let mut args = vec![
        ("query", Arg::Value(q)),
        ("key", Arg::Value(k)),
        ("value", Arg::Value(v)),
        ("scale", Arg::Attr(AttrValue::Float(scale))),
    ];
    args.extend(bias.map(|bias| ("bias", Arg::Value(bias))));
    rw.add_op("nn.attention", args)
}

fn permuted(rw: &mut Rewriter<'_>, v: ValueId, axes: &[i64]) -> Option<ValueId> {
    let axes = axes.iter().map(|&axis| AttrValue::Int(axis)).collect();
    rw.add_op("permute_dims", vec![("x", Arg::Value(v)), ("axes", Arg::Attr(AttrValue::List(axes)))])
}

/// A tensor with a dimension of extent 1 in this place.
fn with_one_at(rw: &mut Rewriter<'_>, v: ValueId, dim: usize) -> Option<ValueId> {
    let mut shape = rw.shape(v)?;
    shape.insert(dim, rw.function.arena.int(1, DType::Int64));
    rw.reshaped(v, shape)
}

/// A tensor with so many dimensions, those before its own of extent 1.
fn with_ones_before(rw: &mut Rewriter<'_>, v: ValueId, shape: Vec<ExprId>, rank: usize) -> Option<ValueId> {
    let one = rw.function.arena.int(1, DType::Int64);
    let ones = std::iter::repeat_n(one, rank.checked_sub(shape.len())?);
    rw.reshaped(v, ones.chain(shape).collect())
}
