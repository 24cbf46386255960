//! Removes operators that change nothing.
//!
//! ```text
//! R.nn.dropout(x)[0]                                               →    x
//! R.permute_dims(x, axes=[0, 1, 2])                                →    x
//! R.reshape(x, (2, 3)), R.astype(x, "float32") of such a tensor    →    x
//! R.multiply(x, R.const(1)), R.divide(x, R.const(1))               →    x
//! R.subtract(x, R.const(0)); R.add(x, R.const(0)) of integers      →    x
//! (x, y)[0]                                                        →    x
//! ```
//!
//! Adding 0 to a float stays: it makes 0 of -0.

use crate::graph::function::{Call, CallId, Callee, ValueId};
use crate::graph::infer::Args;
use crate::graph::pass::rewrite::Rewriter;

pub(in crate::graph::pass) fn remove(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let call = rw.function.call(c);
    match call.callee {
        Callee::Item(i) => item(rw, call, i),
        // Another name. One with another type is not replaced.
        Callee::Alias => call.inputs().next(),
        // Types without a shape may be equal where shapes are not.
        Callee::Op(_) => rw.shape(call.result).and_then(|_| unchanged(rw, &rw.args(c)?)),
        Callee::CallTir(_)
        | Callee::CallDpsPacked(_)
        | Callee::CallPurePacked(_)
        | Callee::CallTirInplace(_)
        | Callee::CallGraph(_)
        | Callee::Tuple
        | Callee::Shape => None,
    }
}

/// What an item of a tuple is: dropout leaves its data as it is where models do not learn.
fn item(rw: &Rewriter<'_>, call: &Call, i: usize) -> Option<ValueId> {
    let tuple = call.inputs().next()?;
    match rw.function.definition(tuple)? {
        Call { callee: Callee::Tuple, args, .. } => args.iter().flat_map(|a| a.values()).nth(i).copied(),
        _ if i == 0 => rw.defined_by(tuple, "nn.dropout")?.value("data"),
        _ => None,
    }
}

/// The operand that an operator gives unchanged, where its type is that of the result.
fn unchanged(rw: &Rewriter<'_>, args: &Args<'_>) -> Option<ValueId> {
    match args.op.name {
        "astype" | "broadcast_to" | "expand_dims" | "flatten" | "nn.batch_flatten" | "reshape" | "squeeze" => {
            args.args.first()?.values().first().copied()
        }
        "permute_dims" => {
            let x = args.value("x")?;
            let rank = rw.shape(x)?.len();
            let axes = super::permute::axes(args, rank)?;
            axes.iter().copied().eq(0..rank).then_some(x)
        }
        "nn.pad" => args.value("data").filter(|_| args.ints("pad_width").iter().all(|&width| width == 0)),
        "multiply" => either(args, |v| rw.scalar(v) == Some(1.0)),
        "add" => either(args, |v| rw.scalar(v) == Some(0.0) && rw.dtype(v).is_some_and(|t| !t.is_float())),
        "divide" => args.value("x1").filter(|_| args.value("x2").and_then(|v| rw.scalar(v)) == Some(1.0)),
        "subtract" => args.value("x1").filter(|_| args.value("x2").is_some_and(|v| is_positive_zero(rw, v))),
        _ => None,
    }
}

/// Subtracting -0 would make 0 of -0.
fn is_positive_zero(rw: &Rewriter<'_>, v: ValueId) -> bool {
    rw.scalar(v).is_some_and(|value| value == 0.0 && value.is_sign_positive())
}

/// The operand beside the one that is neutral.
fn either(args: &Args<'_>, is_neutral: impl Fn(ValueId) -> bool) -> Option<ValueId> {
    let (a, b) = (args.value("x1")?, args.value("x2")?);
    if is_neutral(b) { Some(a) } else { is_neutral(a).then_some(b) }
}
