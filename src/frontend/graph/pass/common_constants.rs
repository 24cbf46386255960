//! Makes equal constants one, and computes calls that become equal by this once.
//!
//! ```text
//! a = R.add(x, R.const([1, 2]))
//! b = R.add(x, R.const([1, 2]))    →    a = R.add(x, R.const([1, 2]))
//! return R.multiply(a, b)               return R.multiply(a, a)
//! ```
//!
//! Constants are equal if their types, shapes and elements are. Floats are compared by their bits: 0 and -0 differ. This runs behind the
//! passes that recognise operators: two of these often have constants in common, and would not be recognised if they shared calls.
//! What those passes wrote twice is shared as well, such as the scale of a batch normalisation that is called twice.

use super::common_calls::share_calls;
use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::Constant;
use crate::graph::function::{Function, ValueDef, ValueId};
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass {
    name: "common_constants",
    doc: "Makes equal constants one, and computes calls that become equal by this once.",
    is_optional: true,
    run,
};

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    for function in &mut module.functions {
        let replaced = equal_constants(function);
        share_calls(function, replaced);
    }
    Ok(())
}

/// For each constant that equals an earlier one, the first such.
fn equal_constants(function: &Function) -> HashMap<ValueId, ValueId> {
    let mut first: HashMap<&Constant, ValueId> = HashMap::new();
    let mut replaced = HashMap::new();
    for (v, value) in (0..).map(ValueId).zip(&function.values) {
        if let ValueDef::Constant(constant) = &value.def {
            let same = *first.entry(constant).or_insert(v);
            if same != v {
                replaced.insert(v, same);
            }
        }
    }
    replaced
}
