//! Removes calls whose results nothing reads.
//!
//! ```text
//! lv = R.add(x, y)
//! lv1 = R.exp(x)        →    lv = R.add(x, y)
//! return lv                  return lv
//! ```

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::Function;

pub(super) const PASS: Pass =
    Pass { name: "dead_code", doc: "Removes calls whose results nothing reads.", is_optional: false, run };

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    module.functions.iter_mut().for_each(remove_dead_code);
    Ok(())
}

/// Removes calls whose results nothing reads.
pub(crate) fn remove_dead_code(function: &mut Function) {
    let mut is_read = vec![false; function.values.len()];
    for v in function.output.values() {
        is_read[v.index()] = true;
    }
    let mut kept = Vec::with_capacity(function.order.len());
    for &c in function.order.iter().rev() {
        let call = function.call(c);
        if is_read[call.result.index()] {
            call.inputs().for_each(|v| is_read[v.index()] = true);
            kept.push(c);
        }
    }
    kept.reverse();
    function.order = kept;
}
