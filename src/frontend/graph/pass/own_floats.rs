//! Computes the floats that bytes stand for anew for each reader.
//!
//! ```text
//! a = R.dequantize(x, s, z)                        a = R.dequantize(x, s, z)
//! b = R.add(a, R.dequantize(y, t, u))         →    b = R.add(a, R.dequantize(y, t, u))
//! c = R.nn.relu(a)                                 d = R.dequantize(x, s, z)
//!                                                  c = R.nn.relu(d)
//! ```
//!
//! Each then becomes part of its reader, which reads bytes, and no floats are stored. Products and convolutions read elements many times, and
//! share what there is.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::constness::invariant_values;
use crate::graph::function::{Arg, Callee, Function, ValueId};

pub(super) const PASS: Pass = Pass {
    name: "own_floats",
    doc: "Computes the floats that bytes stand for anew for each reader.",
    is_optional: true,
    run,
};

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    module.functions.iter_mut().for_each(own_floats);
    Ok(())
}

fn own_floats(function: &mut Function) {
    let invariant = invariant_values(function);
    let mut is_read = vec![false; function.values.len()];
    function.output.values().into_iter().for_each(|v| is_read[v.index()] = true);
    for c in std::mem::take(&mut function.order) {
        let mut inputs: Vec<ValueId> = function.call(c).inputs().filter(|v| v.index() < is_read.len()).collect();
        inputs.sort_unstable();
        inputs.dedup();
        for v in inputs {
            let again = is_read[v.index()] && !invariant[v.index()] && !shares(function.call(c).callee);
            is_read[v.index()] = true;
            if let Some(own) = if again { repeated(function, v) } else { None } {
                let args = &mut function.calls[c.index()].args;
                args.iter_mut().flat_map(Arg::values_mut).filter(|a| **a == v).for_each(|a| *a = own);
            }
        }
        function.order.push(c);
    }
}

/// Whether a call reads elements many times.
fn shares(callee: Callee) -> bool {
    matches!(callee, Callee::Op(op) if op.name == "matmul" || op.name.starts_with("nn.conv"))
}

/// The floats of another call of `R.dequantize`; `None` if the value is not the result of one.
fn repeated(function: &mut Function, v: ValueId) -> Option<ValueId> {
    let call =
        function.definition(v).filter(|c| matches!(c.callee, Callee::Op(op) if op.name == "dequantize"))?.clone();
    let ty = function.ty(v).clone();
    Some(function.add_call(function.value(v).name, call.callee, call.args, ty, call.span))
}
