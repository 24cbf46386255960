//! Losses of classes.

use super::*;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    one("NegativeLogLikelihoodLoss", 12, |n| {
        let x = n.value(0)?;
        loss(n, x)
    }),
    many("SoftmaxCrossEntropyLoss", 12, |n| {
        let x = n.value(0)?;
        let log = n.call("nn.log_softmax", vec![("data", Arg::Value(x)), ("axis", int(1))])?;
        Ok(vec![Operand::Value(loss(n, log)?), Operand::Value(log)])
    }),
];

/// The loss of log-probabilities `[n, class, …]` for the classes of argument 1, by weights of classes in argument 2.
fn loss(n: &mut Node<'_, '_>, log: ValueId) -> Result<ValueId> {
    let (classes, dtype) = (n.value(1)?, n.dtype(log)?);
    let mut classes = n.cast(classes, DType::Int64)?;
    let ignored = match n.opt_int("ignore_index") {
        Some(ignored) => {
            let is_ignored = n.with_number("equal", classes, ignored as f64)?;
            let zero = n.zeros_like(classes)?;
            classes = n.select(is_ignored, zero, classes)?;
            Some(is_ignored)
        }
        None => None,
    };
    let at = n.expand_dims(classes, &[1])?;
    let args = vec![("data", Arg::Value(log)), ("indices", Arg::Value(at)), ("axis", int(1))];
    let chosen = n.call("gather_elements", args)?;
    let chosen = n.squeeze(chosen, 1)?;
    let mut loss = n.unary("negative", chosen)?;
    let mut weight = match n.opt_value(2)? {
        Some(weights) => Some(n.take(weights, classes)?),
        None => None,
    };
    if let Some(is_ignored) = ignored {
        let shape = n.shape(classes)?;
        let ones = match weight {
            Some(weight) => weight,
            None => n.full(shape, 1.0, dtype)?,
        };
        let zeros = n.zeros_like(ones)?;
        weight = Some(n.select(is_ignored, zeros, ones)?);
    }
    if let Some(weight) = weight {
        loss = n.binary("multiply", loss, weight)?;
    }
    let axes: Vec<i64> = (0..n.rank(loss)? as i64).collect();
    match (n.text("reduction", "mean").as_str(), weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => n.reduce("sum", loss, &axes, false),
        ("mean", None) => n.reduce("mean", loss, &axes, false),
        ("mean", Some(weight)) => {
            let (sum, all) = (n.reduce("sum", loss, &axes, false)?, n.reduce("sum", weight, &axes, false)?);
            n.binary("divide", sum, all)
        }
        (other, _) => n.fail(format!("`{}` has the reduction `{other}`", n.op_type())),
    }
}
