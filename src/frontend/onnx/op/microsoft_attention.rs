//! Attention as ONNX Runtime fuses it (`com.microsoft`).

use super::attention::{Rotation, grouped};
use super::microsoft::{fused, plain};
use super::quantize::centred_product;
use super::*;
use crate::ir::{DType, ExprId};

pub(super) static OPERATORS: &[Operator] = &[
    fused("Attention", attention),
    fused("GroupQueryAttention", group_query),
    fused("MultiHeadAttention", multi_head),
    fused("QAttention", quantised_attention),
    plain("RotaryEmbedding", rotary),
];

impl Node<'_, '_> {
    /// A matrix, or several, with its last two dimensions exchanged.
    pub(super) fn swapped(&mut self, x: ValueId) -> Result<ValueId> {
        let rank = self.rank(x)? as i64;
        if rank < 2 {
            return self.fail(format!("`{}` transposes what is no matrix", self.op_type()));
        }
        let order: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        self.permute(x, &order)
    }
}

/// Heads of a tensor `[batch, position, heads * size]`: `[batch, heads, position, size]`.
fn split_heads(n: &mut Node<'_, '_>, x: ValueId, heads: i64) -> Result<ValueId> {
    let shape = n.shape(x)?;
    let width = n.last_extent(x)?;
    let [batch, rows, _] = shape[..] else { return n.fail(format!("`{}` needs 3 dimensions", n.op_type())) };
    let Some(size) = width.checked_div(heads).filter(|size| heads > 0 && size * heads == width) else {
        return n.fail(format!("`{}` has {heads} heads for {width} elements", n.op_type()));
    };
    let (heads, size) = (n.index(heads), n.index(size));
    let x = n.reshape(x, vec![batch, rows, heads, size])?;
    n.permute(x, &[0, 2, 1, 3])
}

/// How scores become weights.
struct Scores {
    scale: Option<f64>,
    /// Added to scores, each of them.
    biases: Vec<ValueId>,
    is_causal: bool,
    /// What is added where a key is not attended.
    filter: f64,
    /// The number of keys before the first query.
    before: Option<ExprId>,
    /// Scores are kept between this and its negative by a hyperbolic tangent; 0 where they are not.
    cap: f64,
    /// The number of keys up to its own that a query attends.
    window: Option<i64>,
}

/// Attention of heads `[batch, heads, position, size]`, as `[batch, position, heads * size]`.
fn attend(n: &mut Node<'_, '_>, q: ValueId, k: ValueId, v: ValueId, how: &Scores) -> Result<ValueId> {
    let (size, dtype) = (n.last_extent(q)?, n.dtype(q)?);
    let keys = n.swapped(k)?;
    let scores = n.matmul(q, keys)?;
    let mut scores = n.with_number("multiply", scores, how.scale.unwrap_or(1.0 / (size as f64).sqrt()))?;
    if how.cap > 0.0 {
        scores = n.with_number("divide", scores, how.cap)?;
        scores = n.unary("tanh", scores)?;
        scores = n.with_number("multiply", scores, how.cap)?;
    }
    for &bias in &how.biases {
        scores = n.binary("add", scores, bias)?;
    }
    if how.is_causal {
        let shape = n.shape(scores)?;
        let one = n.index(1);
        let (key, query) = (n.iota(shape[3])?, n.iota(shape[2])?);
        let mut query = n.reshape(query, vec![shape[2], one])?;
        if let Some(before) = how.before {
            let Some(before) = n.arena().as_int(before) else {
                return n.fail(format!("`{}` needs a number of past keys", n.op_type()));
            };
            query = n.with_number("add", query, before as f64)?;
        }
        let mut is_seen = n.binary("less_equal", key, query)?;
        if let Some(window) = how.window {
            let first = n.with_number("subtract", query, window as f64)?;
            let is_near = n.binary("greater", key, first)?;
            is_seen = n.binary("logical_and", is_seen, is_near)?;
        }
        let out = n.scalar(how.filter, dtype)?;
        scores = n.select(is_seen, scores, out)?;
    }
    let weights = n.call("nn.softmax", vec![("data", Arg::Value(scores)), ("axis", int(-1))])?;
    let y = n.matmul(weights, v)?;
    let y = n.permute(y, &[0, 2, 1, 3])?;
    let shape = n.shape(y)?;
    let width = n.product(&shape[2..]);
    n.reshape(y, vec![shape[0], shape[1], width])
}

/// What a mask of keys adds to scores: `[batch, keys]`, `[batch, queries, keys]`, or the numbers of keys `[batch]`.
fn key_mask(n: &mut Node<'_, '_>, mask: ValueId, keys: ExprId, filter: f64, dtype: DType) -> Result<ValueId> {
    let (shape, one) = (n.shape(mask)?, n.index(1));
    let is_seen = match shape[..] {
        [batch] => {
            let key = n.iota(keys)?;
            let length = n.reshape(mask, vec![batch, one, one, one])?;
            let length = n.cast(length, DType::Int64)?;
            n.binary("less", key, length)?
        }
        [batch, keys] => {
            let mask = n.reshape(mask, vec![batch, one, one, keys])?;
            n.cast(mask, DType::Bool)?
        }
        [batch, queries, keys] => {
            let mask = n.reshape(mask, vec![batch, one, queries, keys])?;
            n.cast(mask, DType::Bool)?
        }
        _ => return n.fail(format!("`{}` has a mask of {} dimensions", n.op_type(), shape.len())),
    };
    let (seen, out) = (n.scalar(0.0, dtype)?, n.scalar(filter, dtype)?);
    n.select(is_seen, seen, out)
}

/// Queries, keys and values by one product with their weights.
fn attention<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    let (x, w) = (n.value(0)?, n.value(1)?);
    let mut all = n.matmul(x, w)?;
    if let Some(bias) = n.opt_value(2)? {
        all = n.binary("add", all, bias)?;
    }
    attend_packed(n, all, (3, 5), 4)
}

/// The same on integers.
fn quantised_attention<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    let (x, w) = (n.value(0)?, n.value(1)?);
    let sum = centred_product(n, (x, 6), (w, 7))?;
    let sum = n.cast(sum, DType::Float32)?;
    let (scale_x, scale_w) = (n.value(3)?, n.value(4)?);
    let scale = n.binary("multiply", scale_x, scale_w)?;
    let all = n.binary("multiply", sum, scale)?;
    let bias = n.value(2)?;
    let all = n.binary("add", all, bias)?;
    attend_packed(n, all, (5, 9), 8)
}

/// Attention of queries, keys and values that stand side by side in one tensor. The mask of the keys, the bias of the scores and the
/// keys and values of earlier calls are inputs.
fn attend_packed<'m>(
    n: &mut Node<'_, 'm>,
    all: ValueId,
    masks: (usize, usize),
    past: usize,
) -> Result<Vec<Operand<'m>>> {
    let (heads, dtype, width) = (n.int("num_heads", 0), n.dtype(all)?, n.last_extent(all)?);
    let sizes = n.ints("qkv_hidden_sizes").unwrap_or_else(|| vec![width / 3; 3]);
    let &[queries, keys, values] = &sizes[..] else {
        return n.fail(format!("`{}` has other than 3 sizes", n.op_type()));
    };
    if queries + keys + values != width {
        return n.fail(format!("the sizes of `{}` are not those of {width} elements", n.op_type()));
    }
    let mut part = |from: i64, to: i64| {
        let x = n.part(all, 2, (from, to), 1)?;
        split_heads(n, x, heads)
    };
    let (q, mut k) = (part(0, queries)?, part(queries, queries + keys)?);
    let mut v = part(queries + keys, width)?;
    let mut before = None;
    if let Some(past) = n.opt_value(past)? {
        before = n.shape(past)?.get(3).copied();
        let (past_k, past_v) = (n.at(past, 0, 0)?, n.at(past, 0, 1)?);
        k = n.concat(vec![past_k, k], 2)?;
        v = n.concat(vec![past_v, v], 2)?;
    }
    let y = attend_masked(n, [q, k, v], masks, before, dtype)?;
    let present = n.call("stack", vec![("tensors", Arg::Values(vec![k, v])), ("axis", int(0))])?;
    Ok(vec![Operand::Value(y), Operand::Value(present)])
}

/// Attention by heads as the attributes of the fused operators say. The mask of the keys and the bias of the scores are inputs, and
/// `before` keys come from earlier calls.
fn attend_masked(
    n: &mut Node<'_, '_>,
    [q, k, v]: [ValueId; 3],
    (mask, bias): (usize, usize),
    before: Option<ExprId>,
    dtype: DType,
) -> Result<ValueId> {
    let filter = n.float("mask_filter_value", -10000.0);
    let (is_causal, scale) = (n.flag("unidirectional", false), n.opt_float("scale"));
    let mut biases = Vec::new();
    if let Some(mask) = n.opt_value(mask)? {
        let extent = n.shape(k)?[2];
        biases.push(key_mask(n, mask, extent, filter, dtype)?);
    }
    biases.extend(n.opt_value(bias)?);
    let how = Scores { scale: scale.filter(|&s| s != 0.0), biases, is_causal, filter, before, cap: 0.0, window: None };
    attend(n, q, k, v, &how)
}

/// Queries, keys and values `[batch, position, heads * size]`; keys and values may be by heads already.
fn multi_head<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    let heads = n.int("num_heads", 0);
    let (Some(k), Some(v)) = (n.opt_value(1)?, n.opt_value(2)?) else {
        return n.fail("`MultiHeadAttention` of packed queries, keys and values is not supported");
    };
    let q = n.value(0)?;
    let dtype = n.dtype(q)?;
    let mut given = [q, k, v];
    if let Some(bias) = n.opt_value(3)? {
        let mut at = 0;
        for x in &mut given {
            let width = n.last_extent(*x)?;
            let part = n.part(bias, 0, (at, at + width), 1)?;
            *x = n.binary("add", *x, part)?;
            at += width;
        }
    }
    let mut by_heads = |x: ValueId| if n.rank(x)? == 4 { Ok(x) } else { split_heads(n, x, heads) };
    let [q, mut k, mut v] = [by_heads(given[0])?, by_heads(given[1])?, by_heads(given[2])?];
    let mut before = None;
    if let (Some(past_k), Some(past_v)) = (n.opt_value(6)?, n.opt_value(7)?) {
        before = n.shape(past_k)?.get(2).copied();
        k = n.concat(vec![past_k, k], 2)?;
        v = n.concat(vec![past_v, v], 2)?;
    }
    let y = attend_masked(n, [q, k, v], (4, 5), before, dtype)?;
    Ok([y, k, v].map(Operand::Value).to_vec())
}

/// Causal attention where several heads of queries share one of keys and values, which a cache holds for later calls. The numbers of
/// tokens must be known, and the same for the whole batch.
fn group_query<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    let (heads, shared) = (n.int("num_heads", 0), n.int("kv_num_heads", 0));
    for name in ["smooth_softmax", "qk_output"] {
        if n.flag(name, false) {
            return n.fail(format!("`GroupQueryAttention` with `{name}` is not supported"));
        }
    }
    let q = n.value(0)?;
    let [q, k, v] = match (n.opt_value(1)?, n.opt_value(2)?) {
        (Some(k), Some(v)) => [q, k, v],
        _ => {
            let (width, all) = (n.last_extent(q)?, heads.saturating_add(shared.saturating_mul(2)));
            let Some(size) = width.checked_div(all).filter(|&size| size > 0) else {
                return n.fail(format!("`GroupQueryAttention` has {all} heads for {width} elements"));
            };
            let (keys, values) = (heads * size, (heads + shared) * size);
            [n.part(q, 2, (0, keys), 1)?, n.part(q, 2, (keys, values), 1)?, n.part(q, 2, (values, width), 1)?]
        }
    };
    let [mut q, mut k, mut v] = [split_heads(n, q, heads)?, split_heads(n, k, shared)?, split_heads(n, v, shared)?];
    let rows = n.known_extent(q, 2)?;
    let last = n.known_ints(5)?;
    if n.has(6) {
        n.operand(6)?;
    }
    let Some(&first) = last.first().filter(|&&first| last.iter().all(|&v| v == first) && first >= rows - 1) else {
        let message =
            format!("`GroupQueryAttention` needs a number of tokens that all of a batch have, found {last:?}");
        return n.fail(message);
    };
    let (total, before) = (first + 1, first + 1 - rows);
    if n.flag("do_rotary", false) {
        let is_interleaved = n.flag("rotary_interleaved", false);
        let positions = match n.opt_value(9)? {
            Some(positions) => positions,
            None => positions(n, rows, before)?,
        };
        let (cos, sin) = (n.value(7)?, n.value(8)?);
        let turn = Rotation::of(n, (cos, sin), Some(positions), 1, is_interleaved)?;
        (q, k) = (turn.apply(n, q)?, turn.apply(n, k)?);
    }
    let mut present = [k, v];
    if let (Some(past_k), Some(past_v)) = (n.opt_value(3)?, n.opt_value(4)?) {
        let room = n.known_extent(past_k, 2)?;
        if before > room {
            return n.fail(format!("`GroupQueryAttention` has {before} tokens in a cache of {room}"));
        }
        for (now, (past, new)) in present.iter_mut().zip([(past_k, &mut k), (past_v, &mut v)]) {
            if before > 0 {
                let known = n.part(past, 2, (0, before), 1)?;
                *new = n.concat(vec![known, *new], 2)?;
            }
            *now = *new;
            if total < room {
                let rest = n.part(past, 2, (total, room), 1)?;
                let rest = n.zeros_like(rest)?;
                *now = n.concat(vec![*new, rest], 2)?;
            }
        }
    } else if before > 0 {
        return n.fail(format!("`GroupQueryAttention` of {total} tokens lacks the cache of {before}"));
    }
    let (scale, cap) = (n.opt_float("scale"), n.float("softcap", 0.0));
    let window = Some(n.int("local_window_size", -1)).filter(|&window| window > 0);
    let biases = n.opt_value(10)?.into_iter().collect();
    let how = Scores {
        scale: scale.filter(|&s| s != 0.0),
        biases,
        is_causal: true,
        filter: f64::NEG_INFINITY,
        before: Some(n.index(before)),
        cap,
        window,
    };
    let (k, v) = (grouped(n, q, k)?, grouped(n, q, v)?);
    let y = attend(n, q, k, v, &how)?;
    Ok([y, present[0], present[1]].map(Operand::Value).to_vec())
}

/// The positions of `rows` tokens behind others: `[1, rows]`.
fn positions(n: &mut Node<'_, '_>, rows: i64, before: i64) -> Result<ValueId> {
    let rows = n.index(rows);
    let all = n.iota(rows)?;
    let all = n.with_number("add", all, before as f64)?;
    n.expand_dims(all, &[0])
}

/// Queries or keys, turned by their positions: a first one for all of the batch, or one for each token.
fn rotary(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let (x, cos, sin) = (n.value(0)?, n.value(2)?, n.value(3)?);
    n.ignore("scale");
    if n.flag("is_packed_batching", false) {
        return n.fail("`RotaryEmbedding` with `is_packed_batching` is not supported");
    }
    let (heads, rotated) = (n.int("num_heads", 0), n.int("rotary_embedding_dim", 0));
    let is_interleaved = n.flag("interleaved", false);
    let shape = n.shape(x)?;
    let (by_heads, axis) = match shape[..] {
        [_, _, _, _] => (x, 1),
        [batch, rows, _] => {
            let size = if rotated > 0 { n.last_extent(x)?.checked_div(heads) } else { Some(2 * n.last_extent(cos)?) };
            let Some(size) = size.filter(|&size| size > 0) else {
                return n.fail("`RotaryEmbedding` of a part of the elements lacks `num_heads`");
            };
            (n.reshape_to_rest(x, &[batch, rows], size)?, 2)
        }
        _ => return n.fail(format!("`RotaryEmbedding` needs 3 or 4 dimensions, found {}", shape.len())),
    };
    let mut at = n.value(1)?;
    if n.rank(at)? == 1 {
        let along = if axis == 1 { shape[2] } else { shape[1] };
        let steps = n.iota(along)?;
        at = n.cast(at, DType::Int64)?;
        at = n.binary("add", steps, at)?;
        at = n.expand_dims(at, &[0])?;
    }
    let turn = Rotation::of(n, (cos, sin), Some(at), axis, is_interleaved)?;
    let y = turn.apply(n, by_heads)?;
    n.reshape(y, shape)
}
