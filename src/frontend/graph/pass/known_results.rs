//! Replaces operands and results that follow from constants by constants, for operators whose shapes depend on them.
//!
//! ```text
//! i = R.nonzero(R.const([0, 1, 2]))                        →    i = R.const([[1, 2]])
//! e = R.add(R.const([1]), R.const([2]))
//! y = R.dynamic_strided_slice(x, begin, e, strides)        →    y = R.dynamic_strided_slice(x, begin, R.const([3]), strides)
//! ```
//!
//! The elements are those from which the shapes were computed ([`known`]).

use super::dead_code::remove_dead_code;
use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::{Arg, CallId, Callee, Function, ValueId};
use crate::graph::infer::Args;
use crate::graph::known;
use crate::graph::operator::{Kind, Lowering, OpError, Operator};
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass {
    name: "known_results",
    doc: "Replaces operands and results that follow from constants by these, where shapes depend on them.",
    is_optional: false,
    run,
};

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    for function in &mut module.functions {
        let takes_constants = |c: &CallId| match function.call(*c).callee {
            Callee::Op(op) => op.params.iter().any(|p| p.kind == Kind::Constant),
            _ => false,
        };
        if function.order.iter().any(takes_constants) {
            let mut folding = Folding { function, replaced: HashMap::new(), tuples: HashMap::new() };
            for c in folding.function.order.clone() {
                if let Err(error) = folding.fold(c) {
                    let span = folding.function.call(c).span;
                    errors.push(Diagnostic::error_at("operator", span, error.to_string()).maybe_help(error.help));
                }
            }
            remove_dead_code(function);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

struct Folding<'a> {
    function: &'a mut Function,
    /// The constants that stand for results.
    replaced: HashMap<ValueId, ValueId>,
    /// The constants of results that are tuples.
    tuples: HashMap<ValueId, Vec<ValueId>>,
}

impl Folding<'_> {
    /// Replaces what is known of a call. Its result gets another definition, for the case that it is an output.
    fn fold(&mut self, c: CallId) -> Result<(), OpError> {
        let call = &mut self.function.calls[c.index()];
        for v in call.args.iter_mut().flat_map(Arg::values_mut) {
            *v = self.replaced.get(v).copied().unwrap_or(*v);
        }
        let result = call.result;
        match call.callee {
            Callee::Op(op) => {
                self.fold_operands(c, op);
                let Lowering::Known(results) = op.lower else { return Ok(()) };
                let args = Args { op, args: &self.function.call(c).args, function: self.function };
                let results = results(&args, &self.function.arena)?;
                let constants: Vec<ValueId> = results.into_iter().map(|r| self.function.add_constant(r)).collect();
                match (self.function.ty(result).as_tensor(), &constants[..]) {
                    (Some(_), &[constant]) => self.replace(c, constant),
                    _ => {
                        let call = &mut self.function.calls[c.index()];
                        (call.callee, call.args) = (Callee::Tuple, vec![Arg::Values(constants.clone())]);
                        self.tuples.insert(result, constants);
                    }
                }
            }
            Callee::Item(i) => {
                let tuple = call.inputs().next().and_then(|v| self.tuples.get(&v));
                if let Some(&constant) = tuple.and_then(|constants| constants.get(i)) {
                    self.replace(c, constant);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn fold_operands(&mut self, c: CallId, op: &'static Operator) {
        for (i, _) in op.params.iter().enumerate().filter(|(_, p)| p.kind == Kind::Constant) {
            if let Some(&v) = self.function.call(c).args[i].values().first()
                && self.function.constant(v).is_none()
                && let Some(constant) = known::elements(self.function, &self.function.arena, v)
            {
                let constant = self.function.add_constant(constant);
                self.function.calls[c.index()].args[i] = Arg::Value(constant);
            }
        }
    }

    fn replace(&mut self, c: CallId, constant: ValueId) {
        let call = &mut self.function.calls[c.index()];
        (call.callee, call.args) = (Callee::Alias, vec![Arg::Value(constant)]);
        self.replaced.insert(call.result, constant);
    }
}
