//! Puts the calls of a graph in the place of its call.
//!
//! ```text
//! def fused(a, b): return R.nn.relu(R.add(a, b))
//! def main(x, y): return cls.fused(x, y)           →   def main(x, y): return R.nn.relu(R.add(x, y))
//! ```
//!
//! Graphs that are marked `private`, such as those that TVM's `FuseOps` makes, are removed once they are inlined.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::function::{Arg, CallId, Callee, Function, Output, ValueDef, ValueId};
use crate::graph::ty::{TensorType, Type};
use crate::ir::graft::Graft;
use crate::ir::{Annotations, Expr, ExprId, Func, Symbol};
use std::collections::HashMap;

pub(super) const PASS: Pass =
    Pass { name: "inline", doc: "Puts the calls of a graph in the place of its call.", is_optional: false, run };

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let has_calls = |f: &Function| f.order.iter().any(|&c| called(f, c).is_some());
    if !module.functions.iter().any(has_calls) {
        return Ok(());
    }
    let mut mistakes = Vec::new();
    // A callee is inlined with what it calls itself; only a cycle takes more rounds than there are functions.
    for _ in 0..=module.functions.len() {
        let known = module.functions.clone();
        for function in &mut module.functions {
            mistakes.extend(inline_calls(function, &known));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        if !module.functions.iter().any(has_calls) {
            let is_all_private = module.functions.iter().all(|f| f.private);
            module.functions.retain(|f| !f.private || is_all_private);
            return Ok(());
        }
    }
    let name = module.functions.iter().find(|f| has_calls(f)).map(|f| f.name);
    let name = name.map_or_else(String::new, |n| n.to_string());
    Err(vec![Diagnostic::error("recursion", format!("`{name}` calls itself, which no graph may"))])
}

/// The graph that a call calls.
fn called(function: &Function, c: CallId) -> Option<Symbol> {
    match function.call(c).callee {
        Callee::CallGraph(name) => Some(name),
        _ => None,
    }
}

fn inline_calls(function: &mut Function, known: &[Function]) -> Vec<Diagnostic> {
    let mut mistakes = Vec::new();
    let mut results: HashMap<ValueId, ValueId> = HashMap::new();
    for c in std::mem::take(&mut function.order) {
        for v in function.calls[c.index()].args.iter_mut().flat_map(Arg::values_mut) {
            *v = results.get(v).copied().unwrap_or(*v);
        }
        if let Some(item) = known_item(function, c) {
            results.insert(function.call(c).result, item);
            continue;
        }
        let Some(name) = called(function, c) else {
            function.order.push(c);
            continue;
        };
        let span = function.call(c).span;
        match known.iter().find(|f| f.name == name) {
            None => {
                let message = format!("the module has no graph function `{name}`");
                mistakes.push(Diagnostic::error_at("unknown-function", span, message));
            }
            Some(callee) if callee.params.len() != function.call(c).inputs().count() => {
                let (expected, found) = (callee.params.len(), function.call(c).inputs().count());
                let message = format!("`{name}` takes {expected} arguments, found {found}");
                mistakes.push(Diagnostic::error_at("argument-count", span, message));
            }
            Some(callee) => {
                let result = inline(function, c, callee);
                results.insert(function.call(c).result, result);
            }
        }
    }
    function.output.map(&mut |v| results.get(&v).copied().unwrap_or(v));
    mistakes
}

/// The value that a call takes out of a tuple, if that lists its items, as those of inlined graphs do.
fn known_item(function: &Function, c: CallId) -> Option<ValueId> {
    let call = function.call(c);
    let Callee::Item(i) = call.callee else { return None };
    let tuple = function.definition(call.inputs().next()?)?;
    match tuple.callee {
        Callee::Tuple => tuple.inputs().nth(i),
        _ => None,
    }
}

/// Adds the calls of `callee` to the end of a function, with the arguments of the call. Returns the value of their result.
fn inline(function: &mut Function, c: CallId, callee: &Function) -> ValueId {
    let inputs: Vec<ValueId> = function.call(c).inputs().collect();
    let mut source = Func::new(callee.name);
    source.arena = callee.arena.clone();
    let mut copy = Copy { function, callee, graft: Graft::new(&source), values: HashMap::new() };
    for (&param, &value) in callee.params.iter().zip(&inputs) {
        copy.bind(param, value);
    }
    for &inner in &callee.order {
        copy.call(inner);
    }
    copy.output(&callee.output)
}

/// The copying of one callee.
struct Copy<'a> {
    function: &'a mut Function,
    callee: &'a Function,
    graft: Graft<'a>,
    /// The counterparts of the callee's values.
    values: HashMap<ValueId, ValueId>,
}

impl Copy<'_> {
    /// Makes an argument the counterpart of a parameter; symbols of its type stand for the argument's extents.
    fn bind(&mut self, param: ValueId, value: ValueId) {
        self.values.insert(param, value);
        let found = self.function.ty(value).tensors().into_iter().cloned().collect::<Vec<TensorType>>();
        for (stated, found) in self.callee.ty(param).tensors().into_iter().zip(&found) {
            let (Some(stated), Some(found)) = (&stated.shape, &found.shape) else { continue };
            for (&extent, &value) in stated.iter().zip(found) {
                if let Expr::Var(symbol) = self.callee.arena.expr(extent) {
                    self.graft.set_var(symbol, value);
                }
            }
        }
    }

    fn value(&mut self, v: ValueId) -> ValueId {
        if let Some(&known) = self.values.get(&v) {
            return known;
        }
        // What no call before has defined has known elements.
        let copy = match &self.callee.value(v).def {
            ValueDef::Constant(constant) => self.function.add_constant(constant.clone()),
            ValueDef::Param | ValueDef::Call(_) => v,
        };
        self.values.insert(v, copy);
        copy
    }

    fn call(&mut self, c: CallId) {
        let call = self.callee.call(c).clone();
        let args = call.args.iter().map(|arg| self.arg(arg)).collect();
        let value = self.callee.value(call.result).clone();
        let ty = self.ty(&value.ty);
        let result = self.function.add_call(value.name, call.callee, args, ty, call.span);
        self.values.insert(call.result, result);
    }

    fn arg(&mut self, arg: &Arg) -> Arg {
        match arg {
            Arg::Value(v) => Arg::Value(self.value(*v)),
            Arg::Values(all) => Arg::Values(all.iter().map(|&v| self.value(v)).collect()),
            Arg::Shape(shape) => Arg::Shape(self.exprs(shape)),
            Arg::Prim(e) => Arg::Prim(self.exprs(&[*e])[0]),
            Arg::Prims(all) => Arg::Prims(self.exprs(all)),
            Arg::Attr(value) => {
                let mut one = Annotations::new();
                one.insert("value", value.clone());
                let copied = self.with_arena(|graft, to| graft.annotations(to, &one));
                Arg::Attr(copied.get("value").cloned().unwrap_or_else(|| value.clone()))
            }
            Arg::Missing => Arg::Missing,
        }
    }

    fn ty(&mut self, ty: &Type) -> Type {
        match ty {
            Type::Tensor(t) => {
                let shape = t.shape.as_ref().map(|shape| self.exprs(shape));
                Type::Tensor(TensorType { shape, ..t.clone() })
            }
            Type::Tuple(items) => Type::Tuple(items.iter().map(|t| self.ty(t)).collect()),
            Type::Shape(shape) => Type::Shape(shape.as_ref().map(|shape| self.exprs(shape))),
            Type::Prim(dtype) => Type::Prim(*dtype),
            Type::Object => Type::Object,
        }
    }

    fn exprs(&mut self, all: &[ExprId]) -> Vec<ExprId> {
        self.with_arena(|graft, to| all.iter().map(|&e| graft.expr(to, e)).collect())
    }

    /// Grafts into the arena of the function.
    fn with_arena<T>(&mut self, f: impl FnOnce(&mut Graft<'_>, &mut Func) -> T) -> T {
        let mut target = Func::new(self.function.name);
        std::mem::swap(&mut target.arena, &mut self.function.arena);
        let done = f(&mut self.graft, &mut target);
        std::mem::swap(&mut target.arena, &mut self.function.arena);
        done
    }

    /// The value that the callee returns.
    fn output(&mut self, output: &Output) -> ValueId {
        match output {
            Output::Value(v) => self.value(*v),
            Output::Tuple(items) => {
                let items: Vec<ValueId> = items.iter().map(|o| self.output(o)).collect();
                let ty = Type::Tuple(items.iter().map(|&v| self.function.ty(v).clone()).collect());
                let span = Default::default();
                self.function.add_call("gv", Callee::Tuple, vec![Arg::Values(items)], ty, span)
            }
        }
    }
}
