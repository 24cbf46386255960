//! Computes equal calls once.
//!
//! ```text
//! a = R.exp(x)
//! b = R.exp(x)        →    a = R.exp(x)
//! return R.add(a, b)       return R.add(a, a)
//! ```
//!
//! Other names for values are resolved too, as long as they do not state a type.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::{Callee, Function, ValueId};
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass { name: "common_calls", doc: "Computes equal calls once.", is_optional: true, run };

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    module.functions.iter_mut().for_each(|function| share_calls(function, HashMap::new()));
    Ok(())
}

/// Computes equal calls once, where the values of `replaced` are others already.
pub(super) fn share_calls(function: &mut Function, mut replaced: HashMap<ValueId, ValueId>) {
    let mut known: HashMap<String, ValueId> = HashMap::new();
    let mut kept = Vec::with_capacity(function.order.len());
    for c in std::mem::take(&mut function.order) {
        let call = &mut function.calls[c.index()];
        for arg in &mut call.args {
            for v in arg.values_mut() {
                *v = replaced.get(v).copied().unwrap_or(*v);
            }
        }
        // Relax takes library functions for pure.
        let is_pure = !matches!(call.callee, Callee::CallTirInplace(_));
        let key = format!("{:?} {:?}", call.callee, call.args);
        match known.get(&key) {
            Some(&same) if is_pure && function.ty(same) == function.ty(function.call(c).result) => {
                replaced.insert(function.call(c).result, same);
            }
            _ => {
                known.insert(key, function.call(c).result);
                kept.push(c);
            }
        }
    }
    function.order = kept;
    function.output.map(&mut |v| replaced.get(&v).copied().unwrap_or(v));
}
