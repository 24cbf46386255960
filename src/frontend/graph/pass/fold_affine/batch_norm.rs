//! Batch normalisation where models do not learn becomes a scale and a shift, which are computed once.
//!
//! ```text
//! R.nn.batch_norm(x, gamma, beta, mean, var, axis=1, training=False)[0]
//!
//! // becomes
//! scale = gamma / sqrt(var + epsilon)
//! shift = beta - mean * scale
//! x * R.reshape(scale, …) + R.reshape(shift, …)
//! ```
//!
//! The other items of the result are the mean and the variance as they are. A convolution before takes the scale into its weight
//! ([`scale`](super::scale)). Ioffe and Szegedy, "Batch Normalization", 2015; TVM: `DecomposeOpsForInference`.

use super::is_precise;
use crate::graph::function::{CallId, Callee, ValueId};
use crate::graph::infer::Args;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::DType;

pub(super) fn to_scale_and_shift(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let call = rw.function.call(c).clone();
    let (Callee::Item(item), tuple) = (call.callee, call.inputs().next()?) else { return None };
    let args = rw.defined_by(tuple, "nn.batch_norm").filter(|args| !args.flag("training"))?;
    match item {
        0 if rw.has_uses(tuple, 1) => BatchNorm::of(rw, &args)?.scaled_and_shifted(rw),
        1 => Some(as_result(rw, call.result, args.value("moving_mean")?)),
        2 => Some(as_result(rw, call.result, args.value("moving_var")?)),
        _ => None,
    }
}

/// A value in place of a result. A weight that becomes an output needs another name.
fn as_result(rw: &mut Rewriter<'_>, result: ValueId, v: ValueId) -> ValueId {
    if rw.is_output(result) { rw.add_alias(v) } else { v }
}

/// A batch normalisation of which only the data depend on the inputs.
struct BatchNorm {
    data: ValueId,
    /// `None` if the result is not scaled.
    gamma: Option<ValueId>,
    /// `None` if the result is not shifted.
    beta: Option<ValueId>,
    mean: ValueId,
    variance: ValueId,
    epsilon: f64,
    dtype: DType,
    /// The number of the data's dimensions behind the channels.
    n_behind: usize,
}

impl BatchNorm {
    fn of(rw: &Rewriter<'_>, args: &Args<'_>) -> Option<BatchNorm> {
        let data = args.value("data")?;
        let (rank, dtype) = (rw.shape(data)?.len(), rw.dtype(data)?);
        let axis = args.axis(args.int("axis"), rank).ok()?;
        let weight = |name| args.value(name).filter(|&v| rw.is_invariant(v) && rw.dtype(v) == Some(dtype));
        let weight_if = |flag, name| if args.flag(flag) { weight(name).map(Some) } else { Some(None) };
        let norm = BatchNorm {
            data,
            gamma: weight_if("scale", "gamma")?,
            beta: weight_if("center", "beta")?,
            mean: weight("moving_mean")?,
            variance: weight("moving_var")?,
            epsilon: args.float("epsilon"),
            dtype,
            n_behind: rank - 1 - axis,
        };
        (is_precise(rw, data) && !rw.is_invariant(data)).then_some(norm)
    }

    fn scaled_and_shifted(&self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        let scale = self.scale(rw)?;
        let product = rw.add_binary("multiply", self.mean, scale)?;
        let (shift, step) = match self.beta {
            Some(beta) => (rw.add_binary("subtract", beta, product)?, "add"),
            None => (product, "subtract"),
        };
        let (scale, shift) = (self.beside_data(rw, scale)?, self.beside_data(rw, shift)?);
        let scaled = rw.add_binary("multiply", self.data, scale)?;
        rw.add_binary(step, scaled, shift)
    }

    /// `gamma / sqrt(variance + epsilon)`
    fn scale(&self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        let epsilon = rw.add_scalar(self.epsilon, self.dtype)?;
        let variance = rw.add_binary("add", self.variance, epsilon)?;
        let deviation = rw.add_unary("sqrt", variance)?;
        let gamma = match self.gamma {
            Some(gamma) => gamma,
            None => rw.add_scalar(1.0, self.dtype)?,
        };
        rw.add_binary("divide", gamma, deviation)
    }

    /// A value for each channel by a shape that is broadcast to the data.
    fn beside_data(&self, rw: &mut Rewriter<'_>, v: ValueId) -> Option<ValueId> {
        let channels = rw.shape(v)?;
        rw.reshaped_with_ones(v, channels, self.n_behind)
    }
}
