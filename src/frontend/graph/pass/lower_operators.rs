//! Replaces operators by calls of prim_funcs.
//!
//! ```text
//! lv = R.nn.relu(x)    →    lv = R.call_tir(cls.relu, (x,), out_ty=R.Tensor(…))
//! ```
//!
//! Operators that only change a shape stay, and concatenations without a kernel. See [`crate::graph::lower`].

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::lower;

pub(super) const PASS: Pass =
    Pass { name: "lower_operators", doc: "Replaces operators by calls of prim_funcs.", is_optional: false, run };

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let mut errors = Vec::new();
    for function in functions {
        if let Err(failed) = lower::to_prim_funcs(function, module) {
            errors.extend(
                failed.into_iter().map(|(span, error)| {
                    Diagnostic::error_at("operator", span, error.to_string()).maybe_help(error.help)
                }),
            );
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
