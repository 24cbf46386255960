//! Compiles what schedule functions have beside Python.

use super::code::{Code, Expr, Lambda, Method, Special};
use crate::diagnostic::{Span, nearest};
use crate::interpreter::Vocabulary;
use crate::interpreter::builtin::Builtin;
use crate::interpreter::code::ExprKind;
use crate::interpreter::compile::Compiler;
use crate::ir::{BinOp, DType, Symbol};
use crate::schedule::bind;
use crate::schedule::bind::mismatch;
use crate::schedule::primitive;
use crate::script::python;

/// Methods of TVM's schedules that are not supported, each with a help.
const OTHER_METHODS: [(&str, &str); 12] = [
    ("copy", "there is one schedule; sampling explores the others"),
    ("seed", "the seed is `--seed`"),
    ("fork_seed", "the seed is `--seed`"),
    ("show", "`tvmr apply` prints the program"),
    ("mod", "`tvmr apply` prints the program"),
    ("trace", "`tvmr print-trace` prints the trace"),
    ("state", "`tvmr apply` prints the program"),
    ("get_sref", "use `sch.get(…).extent`"),
    ("remove_rv", "random variables need not be removed"),
    ("can_decompose_padding", "call `decompose_padding` where it is possible"),
    ("func_working_on", "`sch.work_on` sets the function"),
    ("script", "`tvmr apply` prints the program"),
];

impl Vocabulary for Code {
    const WHAT: &'static str = "a schedule function";

    // Printed traces use these names without imports.
    const MODULES: &'static [(&'static str, &'static str)] = &[
        ("T", "T"),
        ("tir", "tir"),
        ("tirx", "tirx"),
        ("s_tir", "s_tir"),
        ("tvm", "tvm"),
        ("te", "te"),
        ("IndexMap", "IndexMap"),
    ];

    const CLOSURES: bool = false;

    const FIXED_FIRST_PARAMETER: bool = true;

    fn help_on_function(name: &str) -> Option<&'static str> {
        (name == "print").then_some("`tvmr apply` shows the program, `tvmr print-trace` the trace")
    }

    fn module_value<'a>(compiler: &mut Compiler<'a, '_, '_, Code>, path: &str, span: Span) -> ExprKind<Code> {
        if path.ends_with(".AXIS_SEPARATOR") {
            return ExprKind::Own(Code::AxisSeparator);
        }
        compiler.error("undefined-name", span, format!("`{path}` is not known here"));
        ExprKind::None
    }

    fn attribute_of_first(name: &str) -> Option<Option<String>> {
        let help = OTHER_METHODS.iter().find(|(m, _)| *m == name).map(|(_, help)| help.to_string());
        let method = primitive::by_method(name);
        Some(help.or_else(|| method.map(|k| format!("call it: `{}`", bind::signature(k)))))
    }

    /// In an index map, `min` and `max` of two indices are TVM's.
    fn builtin_in_formula<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        function: Builtin,
        call: &python::Call<'a>,
    ) -> Option<ExprKind<Code>> {
        let op = match (function, call.args.len()) {
            (Builtin::Min, 2) => BinOp::Min,
            (Builtin::Max, 2) => BinOp::Max,
            _ => return None,
        };
        let parts = [compiler.expr(&call.args[0]), compiler.expr(&call.args[1])];
        Some(ExprKind::Own(Code::Arithmetic(op, Box::new(parts))))
    }

    /// A lambda is an index map: a formula of its parameters.
    fn lambda<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        lambda: &python::Lambda<'a>,
        span: Span,
    ) -> ExprKind<Code> {
        let python::Lambda { params, rest, body } = lambda;
        if rest.is_some() {
            compiler.unsupported(span, "a lambda with defaults or variable arguments");
            return ExprKind::None;
        }
        if compiler.scope().lambda.is_some() {
            compiler.unsupported(span, "a lambda inside another");
            return ExprKind::None;
        }
        for (i, p) in params.iter().enumerate() {
            if params[..i].iter().any(|q| q.name == p.name) {
                compiler.error("syntax", p.span, format!("parameter `{}` appears twice", p.name));
            }
        }
        compiler.scope().lambda = Some(params.iter().map(|p| p.name).collect());
        let no_params = std::mem::replace(&mut compiler.no_params, false);
        let pair = |e: &python::Expr<'a>| match &e.kind {
            python::ExprKind::Tuple(items) | python::ExprKind::List(items) => items.len() == 2,
            _ => false,
        };
        let mut ends = None;
        let (results, scalar) = match &body.kind {
            python::ExprKind::Tuple(items) | python::ExprKind::List(items) if items.iter().any(pair) => {
                let mut firsts = Vec::with_capacity(items.len());
                let mut lasts = Vec::with_capacity(items.len());
                for item in items {
                    match &item.kind {
                        python::ExprKind::Tuple(range) | python::ExprKind::List(range) if range.len() == 2 => {
                            firsts.push(compiler.expr(&range[0]));
                            lasts.push(Some(compiler.expr(&range[1])));
                        }
                        _ => {
                            firsts.push(compiler.expr(item));
                            lasts.push(None);
                        }
                    }
                }
                ends = Some(lasts);
                (firsts, false)
            }
            python::ExprKind::Tuple(items) | python::ExprKind::List(items) => {
                (items.iter().map(|i| compiler.expr(i)).collect(), false)
            }
            _ => (vec![compiler.expr(body)], true),
        };
        compiler.no_params = no_params;
        compiler.scope().lambda = None;
        let params = params.iter().map(|p| Symbol::new(p.name)).collect();
        ExprKind::Own(Code::Lambda(Box::new(Lambda { params, results, ends, scalar })))
    }

    /// A call of a function of a module: `T.float32(0)`, `T.if_then_else(…)`, `tir.IntImm("int64", 4)`.
    fn module_call<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        path: &str,
        call: &python::Call<'a>,
        span: Span,
    ) -> ExprKind<Code> {
        let name = path.rsplit('.').next().unwrap_or(path);
        if name == "from_func" && (path == "IndexMap.from_func" || path.ends_with(".IndexMap.from_func")) {
            return index_map(compiler, call);
        }
        let mut args: Vec<Expr> = Vec::with_capacity(call.args.len());
        let operator = match name {
            "min" => Some(BinOp::Min),
            "max" => Some(BinOp::Max),
            "floordiv" | "indexdiv" | "FloorDiv" => Some(BinOp::FloorDiv),
            "floormod" | "indexmod" | "FloorMod" => Some(BinOp::FloorMod),
            "truncdiv" | "Div" => Some(BinOp::Div),
            "truncmod" | "Mod" => Some(BinOp::Mod),
            "Add" => Some(BinOp::Add),
            "Sub" => Some(BinOp::Sub),
            "Mul" => Some(BinOp::Mul),
            _ => None,
        };
        for a in &call.args {
            args.push(compiler.expr(a));
        }
        let n = args.len();
        let mut take = |i: usize| std::mem::replace(&mut args[i], Expr { kind: ExprKind::None, span });
        let kind = match (operator, name) {
            (Some(op), _) if n == 2 => ExprKind::Own(Code::Arithmetic(op, Box::new([take(0), take(1)]))),
            (None, "if_then_else" | "Select") if n == 3 => {
                ExprKind::Own(Code::IfThenElse(Box::new([take(0), take(1), take(2)])))
            }
            (None, "And" | "all") if n > 0 => ExprKind::And(args),
            (None, "Or" | "any") if n > 0 => ExprKind::Or(args),
            (None, "IntImm" | "FloatImm") if n == 2 => match (&take(0).kind, take(1)) {
                (ExprKind::Str(dtype), value) if dtype.parse::<DType>().is_ok() => {
                    ExprKind::Own(Code::Typed(Symbol::new(dtype), Box::new(value)))
                }
                _ => {
                    compiler.error("type", call.args_span, "expected the name of a data type and a number");
                    ExprKind::None
                }
            },
            // A cast of an index is ignored: the index has the type of its buffer.
            (None, "Cast") if n == 2 => match (&take(0).kind, take(1)) {
                (ExprKind::Str(dtype), value) if dtype.parse::<DType>().is_ok_and(DType::is_index) => value.kind,
                _ => {
                    compiler.error("type", call.args_span, "expected the name of an integer type and a number");
                    ExprKind::None
                }
            },
            (None, _) if n == 1 && name.parse::<DType>().is_ok() => {
                ExprKind::Own(Code::Typed(Symbol::new(name), Box::new(take(0))))
            }
            _ => {
                let known =
                    ["min", "max", "floordiv", "floormod", "truncdiv", "truncmod", "if_then_else", "float32", "int32"];
                let arity = operator.is_some() || name == "if_then_else" || name.parse::<DType>().is_ok();
                let message = match arity {
                    true => format!("`{path}` does not take {n} arguments"),
                    false => format!("`{path}` cannot be called here"),
                };
                let near = nearest(name, known).map(|n| format!("did you mean `T.{n}`?"));
                compiler.error("unsupported", call.callee.span, message).help = near;
                ExprKind::None
            }
        };
        if let (ExprKind::Own(Code::Typed(..)), Some((_, keyword))) = (&kind, call.keywords.first()) {
            compiler.error("unknown-argument", keyword.span, format!("`{path}` takes no keywords here"));
        }
        kind
    }

    fn method_call<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        of: &python::Expr<'a>,
        method: python::Ident<'a>,
        call: &python::Call<'a>,
    ) -> ExprKind<Code> {
        let of_schedule = matches!(of.kind, python::ExprKind::Name(n) if compiler.first_parameter == Some(n));
        let receiver = compiler.expr(of);
        if let Some(kind) = primitive::by_method(method.name) {
            let args = compiler.items(&call.args);
            let keywords = compiler.keywords(call);
            let mut bound = None;
            if args.iter().all(|a| !a.star) {
                let names: Vec<&str> = keywords.iter().map(|k| &*k.0).collect();
                match bind::bind_args(kind, args.len(), &names) {
                    Ok(found) => bound = Some(found),
                    Err(error) => {
                        let keyword_spans: Vec<Span> = keywords.iter().map(|k| k.1).collect();
                        let extra = match &error {
                            bind::Mismatch::TooMany { at_most } => args.get(*at_most).map(|a| a.value.span),
                            _ => None,
                        };
                        let d = mismatch(kind, error, method.span, call.args_span, extra, &keyword_spans);
                        compiler.errors.push(d);
                        return ExprKind::None;
                    }
                }
            }
            let (name, args_span) = (method.span, call.args_span);
            return ExprKind::Own(Code::Method(Box::new(Method {
                receiver,
                kind,
                args,
                keywords,
                bound,
                name,
                args_span,
            })));
        }
        let special = match method.name {
            "get" => Some(Special::Get),
            "work_on" => Some(Special::WorkOn),
            _ => None,
        };
        if let (Some(special), [arg]) = (special, &call.args[..])
            && call.keywords.is_empty()
        {
            let arg = compiler.expr(arg);
            return ExprKind::Own(Code::Special(special, Box::new([receiver, arg])));
        }
        if let Some((_, help)) = OTHER_METHODS.iter().find(|(m, _)| *m == method.name) {
            compiler.unsupported(method.span, &format!("`sch.{}`", method.name)).help = Some(help.to_string());
            return ExprKind::None;
        }
        let known = primitive::ALL.iter().flat_map(|k| [Some(k.method), k.classic.map(|(_, m)| m)]).flatten();
        let known = known.chain(["get", "work_on"]);
        let near = nearest(method.name, known).map(|n| format!("did you mean `{n}`?"));
        let message = if of_schedule || special.is_some() {
            format!("the schedule has no method `{}`", method.name)
        } else {
            format!("there is no method `{}`", method.name)
        };
        let message = if special.is_some() { format!("`sch.{}` takes one argument", method.name) } else { message };
        compiler.error("unknown-method", method.span, message).help = near;
        ExprKind::None
    }
}

/// `IndexMap.from_func(lambda i: …, inverse_index_map=lambda i: …, index_dtype=…)`. The inverse is ignored, since it is
/// computed from the map, and so is the type of the indices.
fn index_map<'a>(compiler: &mut Compiler<'a, '_, '_, Code>, call: &python::Call<'a>) -> ExprKind<Code> {
    const OTHERS: [&str; 3] = ["ndim", "inverse_index_map", "index_dtype"];
    let mut map = call.args.first();
    for (name, value) in &call.keywords {
        match name.map(|n| (n.name, n.span)) {
            Some(("mapping_function", _)) => map = Some(value),
            Some((other, at)) if !OTHERS.contains(&other) => {
                compiler.error("unknown-argument", at, format!("`IndexMap.from_func` has no argument `{other}`"));
            }
            _ => {}
        }
    }
    match map {
        Some(map) => compiler.expr(map).kind,
        None => {
            compiler.error("argument-count", call.args_span, "expected the function of the indices");
            ExprKind::None
        }
    }
}
