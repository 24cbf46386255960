//! Attention, and what belongs to it: rotations by position, caches, linear recurrences.

use super::*;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    many("Attention", 23, attention),
    one("RotaryEmbedding", 23, rotary),
    one("SwiGLU", 28, |n| {
        let (a, b, alpha) = (n.value(0)?, n.value(1)?, n.float("alpha", 1.0));
        let scaled = n.with_number("multiply", a, alpha)?;
        let s = n.unary("sigmoid", scaled)?;
        let gate = n.binary("multiply", a, s)?;
        n.binary("multiply", gate, b)
    }),
    one("TensorScatter", 24, |n| {
        let (past, update) = (n.value(0)?, n.value(1)?);
        let (axis, mode) = (n.int("axis", -2), n.text("mode", "linear"));
        let shape = n.shape(update)?;
        let rank = shape.len();
        let axis = n.axis(axis, rank)?;
        if axis == 0 {
            return n.fail("`TensorScatter` along the batch is not supported");
        }
        let one = n.index(1);
        let positions = n.iota(shape[axis])?;
        let mut along = vec![one; rank];
        along[axis] = shape[axis];
        let mut positions = n.reshape(positions, along)?;
        if let Some(first) = n.opt_value(2)? {
            let mut batch = vec![one; rank];
            batch[0] = shape[0];
            let first = n.reshape(first, batch)?;
            let first = n.cast(first, DType::Int64)?;
            positions = n.binary("add", positions, first)?;
        }
        if mode == "circular" {
            let length = n.known_extent(past, axis)?;
            positions = n.with_number("floor_mod", positions, length as f64)?;
        }
        let indices = n.broadcast(positions, shape)?;
        let args = vec![
            ("data", Arg::Value(past)),
            ("indices", Arg::Value(indices)),
            ("updates", Arg::Value(update)),
            ("axis", int(axis as i64)),
            ("reduction", text("update")),
        ];
        n.call("scatter_elements", args)
    }),
    many("CausalConvWithState", 27, |n| {
        let (x, w) = (n.value(0)?, n.value(1)?);
        let (shape, dtype) = (n.shape(x)?, n.dtype(x)?);
        let (channels, kernel) = (n.known_extent(w, 0)?, n.known_extent(w, 2)?);
        let [batch, rows, _] = shape[..] else { return n.fail("`CausalConvWithState` needs 3 dimensions") };
        if kernel < 1 {
            return n.fail("`CausalConvWithState` has an empty kernel");
        }
        let before = n.index(kernel - 1);
        let past = match n.opt_value(3)? {
            Some(past) => past,
            None => n.full(vec![batch, rows, before], 0.0, dtype)?,
        };
        let all = if kernel == 1 { x } else { n.concat(vec![past, x], 2)? };
        let args = vec![("data", Arg::Value(all)), ("weight", Arg::Value(w)), ("groups", int(channels))];
        let mut y = n.call("nn.conv1d", args)?;
        if let Some(bias) = n.opt_value(2)? {
            let bias = n.reshape_to(bias, &[channels, 1])?;
            y = n.binary("add", y, bias)?;
        }
        let y = match n.text("activation", "none").as_str() {
            "none" => y,
            "silu" | "swish" => n.unary("nn.silu", y)?,
            other => return n.fail(format!("`CausalConvWithState` has the activation `{other}`")),
        };
        if kernel == 1 {
            return Ok(vec![Operand::Value(y), Operand::Value(past)]);
        }
        let length = n.known_extent(all, 2)?;
        let present = n.part(all, 2, (length - kernel + 1, length), 1)?;
        Ok(vec![Operand::Value(y), Operand::Value(present)])
    }),
    many("LinearAttention", 27, linear_attention),
    Operator {
        domain: "ai.onnx.preview",
        name: "FlexAttention",
        versions: (1, 1),
        rule: Rule::One(|n| {
            let (q, k, v) = (n.value(0)?, n.value(1)?, n.value(2)?);
            let dtype = n.dtype(q)?;
            let default = if dtype == DType::Float64 { dtype } else { DType::Float32 };
            let precision = n.dtype_attr("softmax_precision", default)?;
            let scale = n.opt_float("scale");
            let (score, probability) = (n.graph("score_mod"), n.graph("prob_mod"));
            let (q, k) = (n.cast(q, precision)?, n.cast(k, precision)?);
            let (k, v) = (grouped(n, q, k)?, grouped(n, q, v)?);
            let scale = scale.unwrap_or(1.0 / (n.last_extent(q)? as f64).sqrt());
            let k = n.permute(k, &[0, 1, 3, 2])?;
            let scores = n.matmul(q, k)?;
            let mut scores = n.with_number("multiply", scores, scale)?;
            if let Some(graph) = score {
                scores = n.inlined(graph, scores)?;
            }
            let mut weights = n.call("nn.softmax", vec![("data", Arg::Value(scores)), ("axis", int(-1))])?;
            if let Some(graph) = probability {
                weights = n.inlined(graph, weights)?;
            }
            let v = n.cast(v, precision)?;
            let y = n.matmul(weights, v)?;
            n.cast(y, dtype)
        }),
    },
];

impl<'m> Node<'_, 'm> {
    /// The only result of a subgraph of one argument.
    fn inlined(&mut self, graph: &'m super::super::proto::GraphProto, x: ValueId) -> Result<ValueId> {
        let results = self.cx.inline(graph, vec![Operand::Value(x)])?;
        match (&results[..], graph.output.first()) {
            ([one], Some(output)) => self.cx.value_of(&output.name, one.clone()),
            _ => self.fail(format!("a graph of `{}` has {} results, expected 1", self.op_type(), results.len())),
        }
    }
}

/// Heads of keys or values, one for each head of the query.
pub(super) fn grouped(n: &mut Node<'_, '_>, q: ValueId, k: ValueId) -> Result<ValueId> {
    let (queries, keys) = (n.known_extent(q, 1)?, n.known_extent(k, 1)?);
    match queries.checked_rem(keys) {
        Some(0) => n.repeat(k, queries / keys, 1),
        _ => n.fail(format!("`{}` has {queries} heads for {keys} of keys", n.op_type())),
    }
}

/// A tensor `[batch, position, heads * size]` as `[batch, heads, position, size]`.
fn by_heads(n: &mut Node<'_, '_>, x: ValueId, heads: &str) -> Result<ValueId> {
    let count = n.int(heads, 0);
    let shape = n.shape(x)?;
    if shape.len() != 3 {
        return Ok(x);
    }
    let size = n.last_extent(x)?.checked_div(count).filter(|&size| size > 0);
    let Some(size) = size else { return n.fail(format!("`{}` lacks `{heads}`", n.op_type())) };
    let (count, size) = (n.index(count), n.index(size));
    let x = n.reshape(x, vec![shape[0], shape[1], count, size])?;
    n.permute(x, &[0, 2, 1, 3])
}

fn attention<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    let (q, k, v) = (n.value(0)?, n.value(1)?, n.value(2)?);
    let (is_flat, dtype) = (n.rank(q)? == 3, n.dtype(q)?);
    let (q, mut k) = (by_heads(n, q, "q_num_heads")?, by_heads(n, k, "kv_num_heads")?);
    let mut v = by_heads(n, v, "kv_num_heads")?;
    let mut before = n.index(0);
    if let (Some(past_k), Some(past_v)) = (n.opt_value(4)?, n.opt_value(5)?) {
        before = match n.shape(past_k)?.get(2) {
            Some(&before) => before,
            None => return n.fail("the past keys of `Attention` need 4 dimensions"),
        };
        k = n.concat(vec![past_k, k], 2)?;
        v = n.concat(vec![past_v, v], 2)?;
    }
    let present = [k, v].map(Operand::Value);
    let (k, v) = (grouped(n, q, k)?, grouped(n, q, v)?);
    let scale = n.opt_float("scale");
    let root = scale.unwrap_or(1.0 / (n.last_extent(q)? as f64).sqrt()).sqrt();
    let (scaled_q, scaled_k) = (n.with_number("multiply", q, root)?, n.with_number("multiply", k, root)?);
    let scaled_k = n.permute(scaled_k, &[0, 1, 3, 2])?;
    let raw = n.matmul(scaled_q, scaled_k)?;
    let cap = n.float("softcap", 0.0);
    let mut capped = raw;
    if cap > 0.0 {
        let x = n.with_number("divide", raw, cap)?;
        let x = n.unary("tanh", x)?;
        capped = n.with_number("multiply", x, cap)?;
    }
    let (masked, is_masked) = masked(n, capped, before)?;
    let precision = n.dtype_attr("softmax_precision", dtype)?;
    let wide = n.cast(masked, precision)?;
    let mut weights = n.call("nn.softmax", vec![("data", Arg::Value(wide)), ("axis", int(-1))])?;
    if is_masked {
        // A row without a key is 0.
        let is_out = n.with_number("equal", wide, f64::NEG_INFINITY)?;
        let is_out = n.cast(is_out, DType::UInt8)?;
        let are_all = n.reduce("min", is_out, &[-1], true)?;
        let are_all = n.cast(are_all, DType::Bool)?;
        let zero = n.zeros_like(weights)?;
        weights = n.select(are_all, zero, weights)?;
    }
    let weights = n.cast(weights, dtype)?;
    let value_type = n.dtype(v)?;
    let factors = n.cast(weights, value_type)?;
    let y = n.matmul(factors, v)?;
    let mut y = n.cast(y, dtype)?;
    if is_flat {
        y = n.permute(y, &[0, 2, 1, 3])?;
        let shape = n.shape(y)?;
        let size = n.product(&shape[2..]);
        y = n.reshape(y, vec![shape[0], shape[1], size])?;
    }
    let shown = match n.int("qk_matmul_output_mode", 0) {
        0 => raw,
        1 => capped,
        2 => masked,
        3 => weights,
        other => return n.fail(format!("`Attention` has the mode {other} of its last result")),
    };
    let [present_k, present_v] = present;
    Ok(vec![Operand::Value(y), present_k, present_v, Operand::Value(shown)])
}

/// The scores with minus infinity where a query attends no key, and whether there may be such places. `before` keys are from before the
/// first query.
fn masked(n: &mut Node<'_, '_>, scores: ValueId, before: crate::ir::ExprId) -> Result<(ValueId, bool)> {
    let (shape, dtype) = (n.shape(scores)?, n.dtype(scores)?);
    let [batch, _, queries, keys] = shape[..] else { return n.fail("`Attention` needs 3 or 4 dimensions") };
    let one = n.index(1);
    let mut scores = scores;
    let mut allowed: Vec<ValueId> = Vec::new();
    if let Some(mut mask) = n.opt_value(3)? {
        let is_bool = n.dtype(mask)? == DType::Bool;
        let rank = n.rank(mask)?;
        let width = n.shape(mask)?.last().copied();
        // A short mask ends before keys that are not attended.
        if let (Some(width), Some(all)) = (width.and_then(|e| n.arena().as_int(e)), n.arena().as_int(keys))
            && width < all
            && width != 1
        {
            let mut tail = n.shape(mask)?;
            tail[rank - 1] = n.index(all - width);
            let kind = if is_bool { DType::Bool } else { dtype };
            let tail = n.full(tail, if is_bool { 0.0 } else { f64::NEG_INFINITY }, kind)?;
            mask = n.concat(vec![mask, tail], rank - 1)?;
        }
        match is_bool {
            true => allowed.push(mask),
            false => {
                let mask = n.cast(mask, dtype)?;
                scores = n.binary("add", scores, mask)?;
            }
        }
    }
    let is_added = n.has(3) && allowed.is_empty();
    let key = n.iota(keys)?;
    let mut position = n.iota(queries)?;
    position = n.reshape(position, vec![queries, one])?;
    match n.opt_value(6)? {
        Some(valid) => {
            let valid = n.reshape(valid, vec![batch, one, one, one])?;
            allowed.push(n.binary("less", key, valid)?);
            let queries = match n.arena().as_int(queries) {
                Some(queries) => queries,
                None => return n.fail("`Attention` with `nonpad_kv_seqlen` needs a number of queries"),
            };
            let offset = n.with_number("subtract", valid, queries as f64)?;
            position = n.binary("add", position, offset)?;
        }
        None => {
            if !n.arena().is_int(before, 0) {
                let Some(before) = n.arena().as_int(before) else {
                    return n.fail("`Attention` needs a number of past keys");
                };
                position = n.with_number("add", position, before as f64)?;
            }
        }
    }
    if n.flag("is_causal", false) {
        allowed.push(n.binary("less_equal", key, position)?);
    }
    let (left, right) = (n.int("left_window_size", -1), n.int("right_window_size", -1));
    if left >= 0 {
        let first = n.with_number("subtract", position, left as f64)?;
        allowed.push(n.binary("greater_equal", key, first)?);
    }
    if right >= 0 {
        let last = n.with_number("add", position, right as f64)?;
        allowed.push(n.binary("less_equal", key, last)?);
    }
    let mut all = allowed.into_iter();
    let Some(first) = all.next() else { return Ok((scores, is_added)) };
    let allowed = all.try_fold(first, |a, b| n.binary("logical_and", a, b))?;
    let out = n.scalar(f64::NEG_INFINITY, dtype)?;
    Ok((n.select(allowed, scores, out)?, true))
}

fn rotary(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let (x, cos, sin) = (n.value(0)?, n.value(1)?, n.value(2)?);
    let positions = n.opt_value(3)?;
    let shape = n.shape(x)?;
    let heads = n.int("num_heads", 0);
    let is_interleaved = n.flag("interleaved", false);
    let (mut by_heads, mut axis) = (x, 1);
    if let [batch, rows, _] = shape[..] {
        let size = n.last_extent(x)?.checked_div(heads).filter(|&size| size > 0);
        let Some(size) = size else { return n.fail("`RotaryEmbedding` of 3 dimensions lacks `num_heads`") };
        by_heads = n.reshape_to_rest(x, &[batch, rows], size)?;
        axis = 2;
    }
    let turn = Rotation::of(n, (cos, sin), positions, axis, is_interleaved)?;
    let y = turn.apply(n, by_heads)?;
    n.reshape(y, shape)
}

/// Turns of pairs of elements by angles that depend on the position (Su et al., "RoFormer", 2021).
pub(super) struct Rotation {
    /// Cosines and sines, with a dimension for the heads.
    cos: ValueId,
    sin: ValueId,
    is_interleaved: bool,
}

impl Rotation {
    /// The turns by cosines and sines of each position of a batch; or of all positions, of which `positions` chooses. The heads are
    /// dimension `heads`. Pairs are neighbours, or elements of both halves.
    pub(super) fn of(
        n: &mut Node<'_, '_>,
        (mut cos, mut sin): (ValueId, ValueId),
        positions: Option<ValueId>,
        heads: i64,
        is_interleaved: bool,
    ) -> Result<Rotation> {
        if let Some(positions) = positions {
            (cos, sin) = (n.take(cos, positions)?, n.take(sin, positions)?);
        }
        let (wanted, found) = (n.int("rotary_embedding_dim", 0), n.last_extent(cos)?.saturating_mul(2));
        if wanted != 0 && wanted != found {
            return n.fail(format!("`{}` rotates {wanted} elements by the angles of {found}", n.op_type()));
        }
        let (cos, sin) = (n.expand_dims(cos, &[heads])?, n.expand_dims(sin, &[heads])?);
        Ok(Rotation { cos, sin, is_interleaved })
    }

    /// A tensor of 4 dimensions, of which the last has the elements of a head; those behind the pairs stay as they are.
    pub(super) fn apply(&self, n: &mut Node<'_, '_>, x: ValueId) -> Result<ValueId> {
        let Rotation { cos, sin, is_interleaved } = *self;
        let (size, half) = (n.last_extent(x)?, n.last_extent(cos)?);
        let rotated = 2 * half;
        if half < 1 || rotated > size {
            return n.fail(format!("`{}` rotates {rotated} of {size} elements", n.op_type()));
        }
        let (a, b) = if is_interleaved {
            (n.part(x, 3, (0, rotated), 2)?, n.part(x, 3, (1, rotated), 2)?)
        } else {
            (n.part(x, 3, (0, half), 1)?, n.part(x, 3, (half, rotated), 1)?)
        };
        let mut product = |x, y| n.binary("multiply", x, y);
        let (cos_a, sin_b, sin_a, cos_b) = (product(cos, a)?, product(sin, b)?, product(sin, a)?, product(cos, b)?);
        let (real, imaginary) = (n.binary("subtract", cos_a, sin_b)?, n.binary("add", sin_a, cos_b)?);
        let y = if is_interleaved {
            let (real, imaginary) = (n.expand_dims(real, &[4])?, n.expand_dims(imaginary, &[4])?);
            let both = n.concat(vec![real, imaginary], 4)?;
            let mut whole = n.shape(x)?;
            whole[3] = n.index(rotated);
            n.reshape(both, whole)?
        } else {
            n.concat(vec![real, imaginary], 3)?
        };
        if rotated == size {
            return Ok(y);
        }
        let rest = n.part(x, 3, (rotated, size), 1)?;
        n.concat(vec![y, rest], 3)
    }
}

impl Node<'_, '_> {
    /// A tensor with these first dimensions and a last one of `size` elements; one between them has the rest.
    pub(super) fn reshape_to_rest(&mut self, x: ValueId, first: &[crate::ir::ExprId], size: i64) -> Result<ValueId> {
        let count = self.last_extent(x)? / size;
        let (count, size) = (self.index(count), self.index(size));
        self.reshape(x, first.iter().copied().chain([count, size]).collect())
    }
}

/// The recurrence of linear attention, one step for each position: `S = exp(g) S + beta k (v - S k)`, `o = q S`.
fn linear_attention<'m>(n: &mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>> {
    n.ignore("chunk_size");
    let rule = n.text("update_rule", "gated_delta");
    let (is_gated, is_delta) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return n.fail(format!("`LinearAttention` has the rule `{other}`")),
    };
    let (q, k, v) = (n.value(0)?, n.value(1)?, n.value(2)?);
    let (heads, kv_heads) = (n.int("q_num_heads", 0), n.int("kv_num_heads", 0));
    let (result, shape) = (n.dtype(q)?, n.known_shape(q)?);
    let [batch, steps, width] = shape[..] else { return n.fail("`LinearAttention` needs 3 dimensions") };
    let values = n.last_extent(v)?.checked_div(kv_heads).unwrap_or(0);
    let fits = heads > 0 && kv_heads > 0 && values > 0 && heads % kv_heads.max(1) == 0;
    let Some(size) = width.checked_div(heads).filter(|_| fits) else {
        return n.fail("the numbers of heads of `LinearAttention` do not fit its arguments");
    };
    let scale = match n.float("scale", 0.0) {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale,
    };
    let past = n.opt_value(3)?;
    let kept = match past {
        Some(past) => n.dtype(past)?,
        None => result,
    };
    // Sums over all positions are kept as precise as those of products are.
    let dtype = if kept.bits() < 32 { DType::Float32 } else { kept };
    let mut state = match past {
        Some(past) => n.cast(past, dtype)?,
        None => {
            let shape = n.indices(&[batch, kv_heads, size, values]);
            n.full(shape, 0.0, dtype)?
        }
    };
    let (mut decay, mut beta) = (None, None);
    if is_gated {
        let g = n.value(4)?;
        let g = n.cast(g, dtype)?;
        decay = Some((n.unary("exp", g)?, n.last_extent(g)? / kv_heads));
    }
    if is_delta {
        let b = n.value(5)?;
        beta = Some((n.cast(b, dtype)?, n.last_extent(b)?));
    }
    let (q, k, v) = (n.cast(q, dtype)?, n.cast(k, dtype)?, n.cast(v, dtype)?);
    let mut results = Vec::new();
    for t in 0..steps {
        let step = |n: &mut Node<'_, '_>, x, shape: &[i64]| {
            let x = n.part(x, 1, (t, t + 1), 1)?;
            n.reshape_to(x, shape)
        };
        let k = step(n, k, &[batch, kv_heads, size, 1])?;
        let mut v = step(n, v, &[batch, kv_heads, 1, values])?;
        if let Some((decay, each)) = decay {
            let g = step(n, decay, &[batch, kv_heads, each, 1])?;
            state = n.binary("multiply", state, g)?;
        }
        if let Some((beta, each)) = beta {
            let row = n.permute(k, &[0, 1, 3, 2])?;
            let known = n.matmul(row, state)?;
            v = n.binary("subtract", v, known)?;
            let b = step(n, beta, &[batch, each, 1, 1])?;
            v = n.binary("multiply", v, b)?;
        }
        let update = n.binary("multiply", k, v)?;
        state = n.binary("add", state, update)?;
        let q = step(n, q, &[batch, heads, 1, size])?;
        let states = n.repeat(state, heads / kv_heads, 1)?;
        let y = n.matmul(q, states)?;
        results.push(n.reshape_to(y, &[batch, 1, heads * values])?);
    }
    let y = match results.is_empty() {
        true => return n.fail("`LinearAttention` of no positions is not supported"),
        false => n.concat(results, 1)?,
    };
    let y = n.with_number("multiply", y, scale)?;
    Ok(vec![Operand::Value(n.cast(y, result)?), Operand::Value(n.cast(state, kept)?)])
}
