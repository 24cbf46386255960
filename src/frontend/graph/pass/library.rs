//! Finds the functions that a graph calls by name.
//!
//! ```text
//! lv = R.call_dps_packed("relu0", (x,), out_ty=…)    →    lv = R.call_tir(cls.relu0, (x,), out_ty=…)
//! ```
//!
//! A name is looked up among the prim_funcs of the module, then in the library that the user names, then among the built-in
//! functions: `env.linear(x, w, b)`, which is `x @ w.T + b`, and `env.relu(x)`.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::{Diagnostic, nearest};
use crate::graph::function::Callee;
use crate::graph::lower::Library;
use crate::graph::specialize::Passed;
use crate::ir::{AttrValue, DType, ExprId, Func, Symbol};
use crate::te::{Reducer, Te, Tensor};

pub(super) const PASS: Pass = Pass { name: "library", doc: "Finds the functions that are called by name.", run };

/// The names of the built-in functions.
const BUILT_IN: [&str; 2] = ["env.linear", "env.relu"];

fn run(module: &mut GraphModule, cx: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let mut errors = Vec::new();
    let mut known = Library::of(module);
    for function in functions {
        for c in function.order.clone() {
            let Callee::CallDpsPacked(name) = function.call(c).callee else { continue };
            let span = function.call(c).span;
            let is_it = |f: &&Func| f.name == name || f.attrs.get("global_symbol") == Some(&AttrValue::Str(name));
            let found = match module.funcs.iter().find(is_it) {
                Some(func) => Some(func.name),
                None => match cx.library.iter().find(is_it) {
                    Some(func) => {
                        let mut func = func.clone();
                        func.name = identifier(name);
                        Some(known.add(module, func))
                    }
                    None => passed(function, c)
                        .and_then(|args| built_in(name.as_str(), &args))
                        .map(|f| known.add(module, f)),
                },
            };
            match found {
                Some(name) => function.calls[c.index()].callee = Callee::CallTir(name),
                None => {
                    let names = module.funcs.iter().chain(&cx.library).map(|f| f.name.as_str()).chain(BUILT_IN);
                    let help = match nearest(name.as_str(), names) {
                        Some(near) => format!("there is `{near}`"),
                        None => "define it as a prim_func in the module, or name a file with it by `--library`".into(),
                    };
                    let message = format!("no function `{name}` is known that takes these arguments");
                    errors.push(Diagnostic::error_at("unknown-function", span, message).help(help));
                }
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A name that can be defined in Python.
fn identifier(name: Symbol) -> Symbol {
    let text: String = name.as_str().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    Symbol::new(&text)
}

/// What a call passes to a prim_func: its arguments, then its results that have memory of their own. `None` if an extent has no
/// value.
pub(super) fn passed(function: &crate::graph::Function, c: crate::graph::CallId) -> Option<Vec<Passed>> {
    let call = function.call(c);
    let indices = call.inplace_indices();
    let results = function.ty(call.result).tensors().into_iter().enumerate();
    let results = results.filter(|(i, _)| indices.get(*i).is_none_or(|index| index.is_none())).map(|(_, t)| t);
    let types = call.inputs().flat_map(|v| function.ty(v).tensors()).chain(results);
    let of = |t: &crate::graph::TensorType| Some(Passed { dtype: t.dtype?, shape: t.constant_shape(&function.arena)? });
    types.map(of).collect()
}

/// The built-in library function of a name for these arguments; `None` if there is none.
pub fn built_in(name: &str, args: &[Passed]) -> Option<Func> {
    let mut te = Te::new();
    let placeholder = |te: &mut Te, name: &str, arg: &Passed| {
        let shape = te.extents(&arg.shape);
        te.placeholder(name, arg.dtype, &shape)
    };
    match (name, args) {
        ("env.relu", [x, out]) if x == out => {
            let input = placeholder(&mut te, "x", x);
            let relu = elements(&mut te, "relu", input, |te, v| {
                let dtype = te.dtype(v);
                let zero = te.constant(0, dtype);
                te.max(v, zero)
            });
            Some(te.prim_func("env_relu", &[input], &[relu]))
        }
        ("env.linear", [x, w, b, out]) => {
            let ([m, k], [n, wk], [bn]) = (&x.shape[..], &w.shape[..], &b.shape[..]) else { return None };
            let is_float = args.iter().all(|a| a.dtype == DType::Float32);
            if wk != k || bn != n || out.shape != [*m, *n] || !is_float {
                return None;
            }
            let (x, w, b) = (placeholder(&mut te, "x", x), placeholder(&mut te, "w", w), placeholder(&mut te, "b", b));
            let (shape, domain) = (te.extents(&[*m, *n]), te.extents(&[*k]));
            let product = te.reduce("matmul", &shape, &domain, Reducer::Sum, |te, i, k| {
                let (x, w) = (te.at(x, &[i[0], k[0]]), te.at(w, &[i[1], k[0]]));
                te.mul(x, w)
            });
            let sum = te.compute("add", &shape, |te, i| {
                let (product, b) = (te.at(product, i), te.at(b, &i[1..]));
                te.add(product, b)
            });
            Some(te.prim_func("env_linear", &[x, w, b], &[sum]))
        }
        _ => None,
    }
}

fn elements(te: &mut Te, name: &str, x: Tensor, f: impl FnOnce(&mut Te, ExprId) -> ExprId) -> Tensor {
    let shape = te.shape(x).to_vec();
    te.compute(name, &shape, |te, i| {
        let v = te.at(x, i);
        f(te, v)
    })
}
