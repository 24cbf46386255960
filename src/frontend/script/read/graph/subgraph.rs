//! Calls of other graphs of the module, whose types follow from what these return.
//!
//! ```text
//! def double(a: R.Tensor(("n", 4), "float32")): …       y = cls.double(x)    with x of shape (2, 4):
//!     return R.add(a, a)                           →    y: R.Tensor((2, 4), "float32")
//! ```
//!
//! The callee states what it returns (`-> R.Tensor(…)`), or its body tells. It may stand later in the text: it is then read once for
//! its callers, and once for itself, which reports its mistakes.

use super::{GraphReader, read};
use crate::diagnostic::{Diagnostic, Span};
use crate::graph::specialize::value;
use crate::graph::{Arg, Callee, Function, Output, TensorType, Type, ValueId, lower};
use crate::ir::visit::for_each_subexpr;
use crate::ir::{Arena, DType, Expr as IrExpr, ExprId, Symbol, VarId};
use crate::script::python::{self, Call};
use crate::script::read::Reader;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The types of a graph for its callers.
struct Signature {
    /// The extents of the types.
    arena: Arena,
    params: Vec<(Symbol, Type)>,
    result: Type,
}

impl Signature {
    /// Whether arguments give values to all symbols of the result.
    fn is_determined(&self) -> bool {
        let given = self.params.iter().flat_map(|(_, ty)| ty.tensors()).filter_map(|t| t.shape.as_ref()).flatten();
        let given: Vec<VarId> = given.filter_map(|&e| self.arena.as_var(e)).collect();
        let mut is_given = true;
        for &e in self.result.tensors().into_iter().filter_map(|t| t.shape.as_ref()).flatten() {
            for_each_subexpr(&self.arena, e, &mut |e| {
                is_given &= self.arena.as_var(e).is_none_or(|v| given.contains(&v));
            });
        }
        is_given
    }
}

/// What is known of the types of a graph.
#[derive(Clone)]
enum Known {
    /// They are not stated, and do not follow: the graph calls itself, or it is still being read for one that it calls.
    Open,
    /// It has mistakes, which are reported when it is read for itself.
    Wrong,
    /// Its types.
    Signature(Arc<Signature>),
}

/// The types of the graphs that others call.
#[derive(Default)]
pub(in crate::script::read) struct Signatures<'a> {
    known: BTreeMap<&'a str, Known>,
    /// How many graphs are being read for their callers, each for the one before.
    depth: usize,
    /// How often a type was left open.
    n_open: usize,
}

/// A chain of calls may be this long if no graph in it states what it returns.
const MAX_DEPTH: usize = 64;

impl<'a> GraphReader<'a, '_> {
    /// `cls.func(a, b)`. The type is that which the callee returns for these arguments; where that leaves it open, the one that the
    /// assignment states.
    pub(super) fn call_graph(&mut self, func: &'a str, call: &Call<'a>, name: &str, span: Span) -> Option<ValueId> {
        let stated = self.stated.take();
        let values: Vec<Option<ValueId>> = call.args.iter().map(|e| self.value(e, "lv")).collect();
        let values = values.into_iter().collect::<Option<Vec<_>>>()?;
        let returned = match signature(self.r.file, func) {
            Some(Known::Signature(callee)) => Some(self.returned_type(func, &callee, &values, span)?),
            Some(Known::Wrong) => return None,
            Some(Known::Open) | None => None,
        };
        let Some(ty) = returned.clone().filter(is_complete).or(stated).or(returned) else {
            self.r.file.signatures.n_open += 1;
            let message = format!("the type of what `{func}` returns is not stated");
            let help = format!("write `lv: R.Tensor((16, 16), \"float32\") = cls.{func}(…)`, for example");
            return self.fail(Diagnostic::error_at("no-type", span, message).help(help));
        };
        Some(self.graph.add_call(name, Callee::CallGraph(Symbol::new(func)), vec![Arg::Values(values)], ty, span))
    }

    /// The type of what a graph returns for these arguments.
    fn returned_type(&mut self, func: &str, callee: &Signature, values: &[ValueId], span: Span) -> Option<Type> {
        if callee.params.len() != values.len() {
            let (expected, found) = (callee.params.len(), values.len());
            let message = format!("`{func}` takes {expected} arguments, found {found}");
            return self.fail(Diagnostic::error_at("argument-count", span, message));
        }
        // An extent that is a symbol gets the value of the first argument that has one there.
        let mut symbols: HashMap<VarId, ExprId> = HashMap::new();
        for ((_, stated), &v) in callee.params.iter().zip(values) {
            for (stated, found) in stated.tensors().into_iter().zip(self.graph.ty(v).tensors()) {
                let (Some(stated), Some(found)) = (&stated.shape, &found.shape) else { continue };
                for (&extent, &found) in stated.iter().zip(found) {
                    if let IrExpr::Var(symbol) = callee.arena.expr(extent) {
                        symbols.entry(symbol).or_insert(found);
                    }
                }
            }
        }
        for ((param, expected), &v) in callee.params.iter().zip(values) {
            let (expected, found) = (self.copied(&callee.arena, &symbols, expected), self.graph.ty(v).clone());
            if !self.may_be_equal(&expected, &found) {
                let arena = &self.r.func.arena;
                let (expected, found) = (expected.describe(arena), found.describe(arena));
                let message = format!("`{func}` takes {expected} as `{param}`, found {found}");
                return self.fail(Diagnostic::error_at("wrong-argument", span, message));
            }
        }
        Some(self.copied(&callee.arena, &symbols, &callee.result))
    }

    /// A type of another arena. Shapes with symbols that have no value stay open.
    fn copied(&mut self, from: &Arena, symbols: &HashMap<VarId, ExprId>, ty: &Type) -> Type {
        match ty {
            Type::Tensor(t) => {
                let shape = t.shape.as_ref().and_then(|shape| self.copied_shape(from, symbols, shape));
                Type::Tensor(TensorType { shape, ..t.clone() })
            }
            Type::Shape(shape) => Type::Shape(shape.as_ref().and_then(|shape| self.copied_shape(from, symbols, shape))),
            Type::Tuple(items) => Type::Tuple(items.iter().map(|t| self.copied(from, symbols, t)).collect()),
            Type::Prim(dtype) => Type::Prim(*dtype),
            Type::Object => Type::Object,
        }
    }

    fn copied_shape(
        &mut self,
        from: &Arena,
        symbols: &HashMap<VarId, ExprId>,
        shape: &[ExprId],
    ) -> Option<Vec<ExprId>> {
        let mut is_known = true;
        for &e in shape {
            for_each_subexpr(from, e, &mut |e| is_known &= from.as_var(e).is_none_or(|v| symbols.contains_key(&v)));
        }
        if !is_known {
            return None;
        }
        let arena = &mut self.r.func.arena;
        let mut symbols = symbols.clone();
        let copied = shape.iter().map(|&e| {
            let e = lower::copy(arena, from, &mut symbols, e);
            value(arena, &[], e).map_or(e, |n| arena.int(n, DType::Int64))
        });
        Some(copied.collect())
    }
}

/// Whether nothing of a type is open.
fn is_complete(ty: &Type) -> bool {
    match ty {
        Type::Tensor(t) => t.dtype.is_some() && t.shape.is_some(),
        Type::Tuple(items) => items.iter().all(is_complete),
        Type::Shape(shape) => shape.is_some(),
        Type::Prim(_) => true,
        Type::Object => false,
    }
}

/// What is known of the types of a graph of the module; `None` if there is none of this name.
fn signature<'a>(file: &mut Reader<'a>, name: &'a str) -> Option<Known> {
    if let Some(known) = file.signatures.known.get(name) {
        return Some(known.clone());
    }
    let definition = file.graphs.get(name)?.clone();
    file.signatures.known.insert(name, Known::Open);
    if file.signatures.depth >= MAX_DEPTH {
        return Some(Known::Open);
    }
    file.signatures.depth += 1;
    let (n_errors, n_warnings, n_open) = (file.diagnostics.len(), file.warnings.len(), file.signatures.n_open);
    let stated = stated(file, &definition);
    let signature = match stated {
        Some(signature) if is_complete(&signature.result) && signature.is_determined() => Some(signature),
        partly => {
            file.diagnostics.truncate(n_errors);
            read(file, &definition, false).map(|graph| of_body(graph, partly))
        }
    };
    file.diagnostics.truncate(n_errors);
    file.warnings.truncate(n_warnings);
    file.signatures.depth -= 1;
    let known = match signature {
        Some(signature) => Known::Signature(Arc::new(signature)),
        None if file.signatures.n_open > n_open => Known::Open,
        None => Known::Wrong,
    };
    file.signatures.known.insert(name, known.clone());
    Some(known)
}

/// The types that a graph states.
fn stated<'a>(file: &mut Reader<'a>, f: &python::Function<'a>) -> Option<Signature> {
    let returns = f.returns.as_ref()?;
    let before = file.diagnostics.len();
    let mut reader = GraphReader::new(file, f.name.name);
    reader.signature(f);
    let result = reader.ty(returns)?;
    let GraphReader { mut r, graph, .. } = reader;
    let is_right = r.file.diagnostics.len() == before;
    let params = params(&graph);
    is_right.then(|| Signature { arena: std::mem::take(&mut r.func.arena), params, result })
}

/// The types of a graph that was read. What it returns is what its body gives, unless that leaves more open than what it states.
fn of_body(graph: Function, stated: Option<Signature>) -> Signature {
    let result = output_type(&graph, &graph.output);
    match stated {
        Some(stated) if !is_complete(&result) => stated,
        _ => Signature { params: params(&graph), arena: graph.arena, result },
    }
}

fn params(graph: &Function) -> Vec<(Symbol, Type)> {
    graph.params.iter().map(|&p| (graph.value(p).name, graph.ty(p).clone())).collect()
}

fn output_type(graph: &Function, output: &Output) -> Type {
    match output {
        Output::Value(v) => graph.ty(*v).clone(),
        Output::Tuple(items) => Type::Tuple(items.iter().map(|o| output_type(graph, o)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use crate::script::{ParseOptions, parse};

    /// The type of `y` in `main`, which is `expression`; the first mistake, if there is one. `callees` stand behind `main`.
    fn type_of_y(expression: &str, callees: &str) -> Result<String, String> {
        let text = format!(
            "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((\"m\", 4), \"float32\"), i: R.Tensor((3, 4), \"int32\")):\n        cls = Module\n        with R.dataflow():\n            y = {expression}\n            R.output(y)\n        return y\n{callees}"
        );
        let parsed = parse(&text, "test.tir", &ParseOptions::default());
        let parsed = parsed.map_err(|e| e.items.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
        let main = &parsed.graphs[0];
        let y = main.output.values()[0];
        Ok(main.ty(y).describe(&main.arena))
    }

    fn graph(signature: &str, result: &str) -> String {
        format!(
            "\n    @R.function(private=True)\n    def {signature}:\n        cls = Module\n        return {result}\n"
        )
    }

    #[test]
    fn types_follow_from_what_callees_state() {
        let ty = |result: &str| graph(&format!("f(a: R.Tensor((\"n\", \"k\"), \"float32\")) -> {result}"), "a");
        let y = |result: &str| type_of_y("cls.f(x)", &ty(result));
        assert_eq!(y("R.Tensor((\"n\", \"k\"), \"float32\")").as_deref(), Ok("float32 [m, 4]"));
        assert_eq!(y("R.Tensor((\"n * 2\", \"k * k\"), \"float32\")").as_deref(), Ok("float32 [m * 2, 16]"));
        // A symbol that no argument gives a value leaves the shape open, and the body tells it.
        assert_eq!(y("R.Tensor((\"other\", 4), \"float32\")").as_deref(), Ok("float32 [m, 4]"));
    }

    #[test]
    fn types_follow_from_bodies() {
        let f = graph("f(a: R.Tensor((\"n\", 4), \"float32\"))", "(cls.g(R.exp(a)), a)");
        let g = graph("g(a: R.Tensor((\"n\", 4), \"float32\"))", "R.sum(a, axis=1)");
        let both = f + &g;
        assert_eq!(type_of_y("cls.f(x)[0]", &both).as_deref(), Ok("float32 [m]"));
        assert_eq!(type_of_y("R.add(cls.g(x), cls.g(x))", &both).as_deref(), Ok("float32 [m]"));
    }

    #[test]
    fn wrong_calls_are_told() {
        let f = graph("f(a: R.Tensor((\"n\", \"n\"), \"float32\"))", "a");
        let mistake = |expression: &str, callees: &str| type_of_y(expression, callees).expect_err(expression);
        assert_eq!(mistake("cls.f(x, x)", &f), "`f` takes 1 arguments, found 2");
        assert_eq!(mistake("cls.f(i)", &f), "`f` takes float32 [3, 3] as `a`, found int32 [3, 4]");
        // Mistakes of a callee are told once, and its callers are not blamed.
        let wrong = graph("f(a: R.Tensor((\"n\", 4), \"float32\"))", "R.add(a, b)");
        assert_eq!(mistake("cls.f(x)", &wrong), "`b` is not defined");
        // Recursion leaves the type open.
        let recursive = graph("f(a: R.Tensor((\"n\", 4), \"float32\"))", "cls.f(a)");
        assert!(mistake("cls.f(x)", &recursive).contains("the type of what `f` returns is not stated"));
    }

    #[test]
    fn long_chains_of_calls_have_an_end() {
        let link = |i: usize| {
            let name = format!("f{i}(a: R.Tensor((\"n\", 4), \"float32\"))");
            graph(&name, &if i == 199 { "a".to_owned() } else { format!("cls.f{}(a)", i + 1) })
        };
        let chain: String = (0..200).map(link).collect();
        let message = type_of_y("cls.f0(x)", &chain).expect_err("too long a chain");
        assert!(message.contains("the type of what `f0` returns is not stated"), "{message}");
        let short: String = (180..200).map(link).collect();
        assert_eq!(type_of_y("cls.f180(x)", &short).as_deref(), Ok("float32 [m, 4]"));
    }
}
