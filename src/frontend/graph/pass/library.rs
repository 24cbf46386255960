//! Finds the functions that a graph calls by name.
//!
//! ```text
//! lv = R.call_dps_packed("relu0", (x,), out_ty=…)    →    lv = R.call_tir(cls.relu0, (x,), out_ty=…)
//! ```
//!
//! A name is looked up among the prim_funcs of the module, then in the libraries that the user names: first in texts, then in shared
//! libraries. Last come the built-in functions: `env.linear(x, w, b)`, which is `x @ w.T + b`, and `env.relu(x)`. The call of a
//! function of a shared library stays, and later passes leave it alone. `R.call_pure_packed` expects a function that returns its
//! result, which only shared libraries have.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::{Diagnostic, nearest};
use crate::graph::function::{Arg, CallId, Callee, Function};
use crate::graph::libraries::is_called;
use crate::graph::lower::Library;
use crate::graph::specialize::{Passed, passed};
use crate::ir::{DType, ExprId, Func, Module, Symbol, identifier};
use crate::te::{Reducer, Te, Tensor};

pub(super) const PASS: Pass =
    Pass { name: "library", doc: "Finds the functions that are called by name.", is_optional: false, run };

/// The names of the built-in functions.
const BUILT_IN: [&str; 2] = ["env.linear", "env.relu"];

fn run(module: &mut GraphModule, cx: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let mut errors = Vec::new();
    let mut known = Library::of(module);
    for function in functions {
        for c in function.order.clone() {
            let found = match function.call(c).callee {
                Callee::CallDpsPacked(name) => find(name, function, c, module, &mut known, cx),
                Callee::CallPurePacked(name) => match cx.libraries.shared(name) {
                    Some(_) => foreign(name, function, c),
                    None => Err(unknown(name, function, c, module, cx)),
                },
                Callee::Op(_)
                | Callee::CallTir(_)
                | Callee::CallTirInplace(_)
                | Callee::CallGraph(_)
                | Callee::Tuple
                | Callee::Item(_)
                | Callee::Alias
                | Callee::Shape => continue,
            };
            match found {
                Ok(callee) => function.calls[c.index()].callee = callee,
                Err(mistake) => errors.push(mistake),
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// What a call of a name calls. Functions of texts and built-in ones are added to the module.
fn find(
    name: Symbol,
    function: &Function,
    c: CallId,
    module: &mut Module,
    known: &mut Library,
    cx: &Context,
) -> Result<Callee, Diagnostic> {
    if let Some(func) = module.funcs.iter().find(|f| is_called(f, name)) {
        return Ok(Callee::CallTir(func.name));
    }
    if let Some(func) = cx.libraries.prim_func(name) {
        let mut func = func.clone();
        func.name = Symbol::new(&identifier(name.as_str()));
        return Ok(Callee::CallTir(known.add(module, func)));
    }
    if cx.libraries.shared(name).is_some() {
        return foreign(name, function, c);
    }
    match passed(function, c).and_then(|args| built_in(name.as_str(), &args)) {
        Some(func) => Ok(Callee::CallTir(known.add(module, func))),
        None => Err(unknown(name, function, c, module, cx)),
    }
}

/// The call of a function of a shared library, which takes and gives tensors.
fn foreign(name: Symbol, function: &Function, c: CallId) -> Result<Callee, Diagnostic> {
    let call = function.call(c);
    let mistake = |message: String| Err(Diagnostic::error_at("library-call", call.span, message));
    if let Some(v) = call.inputs().find(|&v| function.ty(v).as_tensor().is_none()) {
        let found = function.ty(v).describe(&function.arena);
        return mistake(format!("`{name}` is a function of a shared library, which takes tensors, found {found}"));
    }
    if call.args.iter().any(|arg| !matches!(arg, Arg::Value(_) | Arg::Values(_))) {
        return mistake(format!("`{name}` is a function of a shared library, which takes no `tir_vars`"));
    }
    let n_results = function.ty(call.result).tensors().len();
    match call.callee {
        Callee::CallPurePacked(_) if function.ty(call.result).as_tensor().is_none() => {
            let found = function.ty(call.result).describe(&function.arena);
            mistake(format!("`R.call_pure_packed` of `{name}` has to give one tensor, found {found}"))
        }
        _ if n_results == 0 => mistake(format!("the type of the result of `{name}` has no tensor")),
        callee => Ok(callee),
    }
}

/// The mistake of a name under which there is no function.
fn unknown(name: Symbol, function: &Function, c: CallId, module: &Module, cx: &Context) -> Diagnostic {
    let call = function.call(c);
    let returns = matches!(call.callee, Callee::CallPurePacked(_));
    let message = match BUILT_IN.contains(&name.as_str()) && !returns {
        true => format!("the built-in function `{name}` does not take these arguments"),
        false if returns => format!("no shared library has a function `{name}`, which returns its result"),
        false => format!("no function `{name}` is known"),
    };
    let mut places: Vec<String> = Vec::new();
    if !returns {
        places.push("the prim_funcs of the module".to_owned());
    }
    places.extend(cx.libraries.paths().map(|path| format!("`{}`", path.display())));
    if !returns {
        places.push(format!("the built-in functions (`{}`)", BUILT_IN.join("`, `")));
    }
    let names = module.funcs.iter().map(|f| f.name.as_str()).chain(cx.libraries.names()).chain(BUILT_IN);
    let near = nearest(name.as_str(), names).filter(|near| *near != name.as_str());
    let near = near.map_or(String::new(), |near| format!("there is `{near}`; "));
    let looked = match places.is_empty() {
        true => String::new(),
        false => format!("looked in {}; ", places.join(", ")),
    };
    let mend = match returns {
        true => "name a shared library with it by `--library`",
        false => "define it as a prim_func in the module, or name a file with it by `--library`",
    };
    Diagnostic::error_at("unknown-function", call.span, message).help(format!("{near}{looked}{mend}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::libraries::{Libraries, SharedLibrary, TextLibrary};
    use crate::script::{Dialect, ParseOptions, parse, print_graph_module};

    /// The lines of `main` that call something by name, after the pass; or the first mistake, with its help.
    fn found(calls: &[&str], libraries: Libraries) -> Result<Vec<String>, String> {
        let mut text = "@R.function\ndef main(x: R.Tensor((2,), \"float32\")):\n    with R.dataflow():\n".to_owned();
        for (i, call) in calls.iter().enumerate() {
            let from = if i == 0 { "x".to_owned() } else { format!("v{}", i - 1) };
            text += &format!("        v{i} = R.{}\n", call.replace('X', &from));
        }
        text += &format!("        R.output(v{0})\n    return v{0}\n", calls.len() - 1);
        let parsed = parse(&text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
        run(&mut module, &Context { libraries, ..Context::default() })
            .map_err(|e| format!("{}; {}", e[0].message, e[0].help.clone().unwrap_or_default()))?;
        let printed = print_graph_module(&module, Dialect::Current);
        let calls = printed.lines().filter_map(|l| Some(l.split_once("R.call_")?.1.split_once(',')?.0.to_owned()));
        Ok(calls.collect())
    }

    fn libraries() -> Libraries {
        let text = "@T.prim_func\ndef env_exp(x: T.Buffer((2,), \"float32\"), y: T.Buffer((2,), \"float32\")):\n    T.func_attr({\"global_symbol\": \"env.exp\"})\n    for i in range(2):\n        y[i] = x[i]\n";
        let funcs = parse(text, "l.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module.funcs;
        let functions = ["env.exp", "env.log", "env_relu"].map(str::to_owned).to_vec();
        Libraries {
            texts: vec![TextLibrary { path: "l.tir".into(), funcs }],
            shared: vec![SharedLibrary { path: "l.so".into(), functions }],
        }
    }

    const OUT: &str = "out_ty=R.Tensor((2,), \"float32\"))";

    #[test]
    fn texts_come_before_shared_libraries_and_these_before_built_in_functions() {
        let dps = |name: &str| format!("call_dps_packed(\"{name}\", (X,), {OUT}");
        let tir = format!("call_tir(\"env.log\", (X,), {OUT}");
        let pure = "call_pure_packed(\"env.exp\", X, ty_args=(R.Tensor((2,), \"float32\"),))";
        let calls = [&dps("env.exp"), &dps("env.log"), &dps("env.relu"), &tir, pure];
        let lines = found(&calls, libraries());
        let expected = [
            "tir(cls.env_exp",
            "dps_packed(\"env.log\"",
            "dps_packed(\"env.relu\"",
            "dps_packed(\"env.log\"",
            "pure_packed(\"env.exp\"",
        ];
        assert_eq!(lines, Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(found(&[&dps("env.relu")], Libraries::default()), Ok(vec!["tir(cls.env_relu".to_owned()]));
    }

    #[test]
    fn unknown_names_tell_where_they_were_looked_up() {
        let message = |call: &str| found(&[call], libraries()).expect_err(call);
        let near = message(&format!("call_dps_packed(\"env.lag\", (X,), {OUT}"));
        let expected = "no function `env.lag` is known; there is `env.log`; looked in the prim_funcs of the module, `l.tir`, `l.so`, the built-in";
        assert!(near.starts_with(expected), "{near}");
        let unfit = message(&format!("call_dps_packed(\"env.linear\", (X,), {OUT}"));
        assert!(unfit.starts_with("the built-in function `env.linear` does not take these arguments"), "{unfit}");
        let pure = message("call_pure_packed(\"env.abs\", X, ty_args=(R.Tensor((2,), \"float32\"),))");
        assert!(pure.starts_with("no shared library has a function `env.abs`, which returns its result"), "{pure}");
        let vars = message(&format!("call_tir(\"env.log\", (X,), tir_vars=R.shape([2]), {OUT}"));
        assert!(vars.contains("takes no `tir_vars`"), "{vars}");
        let two = message("call_pure_packed(\"env.log\", X, ty_args=(R.Tuple(R.Tensor((2,), \"float32\")),))");
        assert!(two.contains("has to give one tensor"), "{two}");
    }
}
