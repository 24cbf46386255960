//! Gives computations one form: that of the operator for them, without operators that change nothing.
//!
//! Each rule is a file, whose head says what becomes what. Operands of additions and multiplications may be in any order; scalars are
//! constants with one element. A chain of operators becomes one operator only if nothing else reads the values between them, since they
//! would have to be computed all the same.

mod attention;
mod gelu;
mod gelu_tanh;
mod hard_sigmoid;
pub(super) mod identity;
mod layer_norm;
mod pad;
pub(super) mod permute;
mod product;
mod repeat;
mod reshape;
mod rms_norm;
mod root;
mod silu;

use super::rewrite::{Rule, rewrite};
use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;

pub(super) const PASS: Pass = Pass {
    name: "canonicalise",
    doc: "Removes operators that change nothing, and makes chains of operators that are one the operator.",
    is_optional: true,
    run,
};

const RULES: &[Rule] = &[
    identity::remove,
    permute::compose,
    reshape::compose,
    repeat::recognise,
    pad::into_convolution,
    gelu::recognise,
    gelu_tanh::recognise,
    silu::recognise,
    hard_sigmoid::recognise,
    attention::recognise,
    layer_norm::recognise,
];

/// Rules that wait for the others: a layer norm has an RMS norm of the differences inside.
const LAST_RULES: &[Rule] = &[rms_norm::recognise];

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    for function in &mut module.functions {
        rewrite(function, RULES);
        rewrite(function, LAST_RULES);
    }
    Ok(())
}
