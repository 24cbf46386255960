//! Compiles the expressions and calls of schedule functions.

use super::builtin::Builtin;
use super::code::{Change, Clause, Expr, ExprKind, Item, Lambda, Method, Special};
use super::compile::Compiler;
use super::scope::Meaning;
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::{BinOp, DType, Symbol};
use crate::schedule::bind;
use crate::schedule::bind::mismatch;
use crate::schedule::primitive;
use crate::script::python::{self, UnaryOp};

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

impl<'a> Compiler<'a, '_, '_> {
    /// Compiles an expression. If it is wrong, the error is reported, and `None` stands for it.
    pub(super) fn expr(&mut self, e: &python::Expr<'a>) -> Expr {
        Expr { kind: self.expr_kind(e), span: e.span }
    }

    fn boxed(&mut self, e: &python::Expr<'a>) -> Box<Expr> {
        Box::new(self.expr(e))
    }

    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.errors.push(Diagnostic::error_at(code, span, message));
        self.errors.last_mut().expect("one was just added")
    }

    /// Compiles an expression in which the parameters of the lambda around it are forbidden.
    fn value<R>(&mut self, compile: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.no_params, self.scope.lambda.is_some());
        let result = compile(self);
        self.no_params = before;
        result
    }

    fn expr_kind(&mut self, e: &python::Expr<'a>) -> ExprKind {
        match &e.kind {
            python::ExprKind::Name(name) => self.name(name, e.span),
            python::ExprKind::Int(v) => match v.and_then(|v| i64::try_from(v).ok()) {
                Some(v) => ExprKind::Int(v),
                None => {
                    self.error("literal", e.span, "the integer does not fit 64 bits");
                    ExprKind::None
                }
            },
            python::ExprKind::Float(v) => ExprKind::Float(*v),
            python::ExprKind::Str(s) => ExprKind::Str((&**s).into()),
            python::ExprKind::Bool(v) => ExprKind::Bool(*v),
            python::ExprKind::None => ExprKind::None,
            python::ExprKind::Tuple(items) => ExprKind::Tuple(self.value(|c| c.items(items))),
            python::ExprKind::List(items) => ExprKind::List(self.value(|c| c.items(items))),
            python::ExprKind::Dict(items) => self.value(|c| c.dict(items)),
            python::ExprKind::Attribute(..) => self.attribute(e),
            python::ExprKind::Call(call) => self.call(call, e.span),
            python::ExprKind::Subscript(of, index) => self.value(|c| match &index.kind {
                python::ExprKind::Slice(s) => {
                    let mut part = |p: &Option<python::Expr<'a>>| p.as_ref().map(|p| c.expr(p));
                    let parts = [part(&s.lower), part(&s.upper), part(&s.step)];
                    ExprKind::Slice(c.boxed(of), Box::new(parts))
                }
                _ => {
                    let of = c.boxed(of);
                    ExprKind::Index(of, c.boxed(index))
                }
            }),
            python::ExprKind::Unary(op, a) => match op {
                UnaryOp::Pos => self.expr_kind(a),
                UnaryOp::Neg => match &a.kind {
                    python::ExprKind::Int(Some(v)) if *v == 1 << 63 => ExprKind::Int(i64::MIN),
                    _ => match self.boxed(a) {
                        a if matches!(a.kind, ExprKind::Int(v) if v != i64::MIN) => match a.kind {
                            ExprKind::Int(v) => ExprKind::Int(-v),
                            _ => ExprKind::None,
                        },
                        a => ExprKind::Neg(a),
                    },
                },
                UnaryOp::Not => ExprKind::Not(self.boxed(a)),
                UnaryOp::Invert => {
                    self.unsupported(e.span, "`~`");
                    ExprKind::None
                }
            },
            python::ExprKind::Binary(op, a, b) => {
                let a = self.boxed(a);
                ExprKind::Binary(*op, a, self.boxed(b))
            }
            python::ExprKind::Logical(op, parts) => {
                let parts = parts.iter().map(|p| self.expr(p)).collect();
                match op {
                    python::LogicalOp::And => ExprKind::And(parts),
                    python::LogicalOp::Or => ExprKind::Or(parts),
                }
            }
            python::ExprKind::Compare(first, rest) => {
                let first = self.boxed(first);
                ExprKind::Compare(first, rest.iter().map(|(op, e)| (*op, self.expr(e))).collect())
            }
            python::ExprKind::Conditional(c) => {
                ExprKind::Conditional(Box::new([self.expr(&c.test), self.expr(&c.then), self.expr(&c.otherwise)]))
            }
            python::ExprKind::Lambda(params, body) => self.lambda(params, body, e.span),
            python::ExprKind::ListComp(c) => self.value(|s| s.comprehension(c)),
            python::ExprKind::Format(pieces) => {
                self.value(|c| ExprKind::Format(pieces.iter().map(|p| c.expr(p)).collect()))
            }
            python::ExprKind::Slice(_) => {
                self.error("syntax", e.span, "a slice stands only in brackets");
                ExprKind::None
            }
            python::ExprKind::Starred(_) => {
                self.error("syntax", e.span, "`*` stands only in lists and calls");
                ExprKind::None
            }
            python::ExprKind::Other(what) => {
                self.unsupported(e.span, what);
                ExprKind::None
            }
        }
    }

    fn name(&mut self, name: &'a str, span: Span) -> ExprKind {
        match self.scope.find(name) {
            Some(Meaning::Local(i)) => ExprKind::Local(i),
            Some(Meaning::Global(i)) => ExprKind::Global(i),
            Some(Meaning::Param(i)) => {
                if self.no_params {
                    let message = format!("this cannot depend on `{name}`, a parameter of the index map");
                    self.error("index-map", span, message).help =
                        Some("an index map may use `+`, `-`, `*`, `//`, `%`, comparisons and `T.if_then_else`".into());
                }
                ExprKind::Param(i)
            }
            Some(Meaning::Function(_) | Meaning::Builtin(_)) => {
                self.error("type", span, format!("`{name}` is a function, which is only called here"));
                ExprKind::None
            }
            Some(Meaning::Module) => {
                self.error("type", span, format!("`{name}` is a module, not a value"));
                ExprKind::None
            }
            None => {
                let known = self.scope.known();
                let near = nearest(name, known).map(|n| format!("did you mean `{n}`?"));
                self.error("undefined-name", span, format!("`{name}` is not defined")).help = near;
                ExprKind::None
            }
        }
    }

    fn items(&mut self, items: &[python::Expr<'a>]) -> Vec<Item> {
        items
            .iter()
            .map(|item| match &item.kind {
                python::ExprKind::Starred(inner) => Item { star: true, value: self.expr(inner) },
                _ => Item { star: false, value: self.expr(item) },
            })
            .collect()
    }

    fn dict(&mut self, items: &[(Option<python::Expr<'a>>, python::Expr<'a>)]) -> ExprKind {
        let mut pairs = Vec::with_capacity(items.len());
        for (key, value) in items {
            let Some(key) = key else {
                self.unsupported(value.span, "`**`");
                continue;
            };
            let key = self.expr(key);
            // TVM's traces print texts in dictionaries without quotes, so an undefined name is such a text.
            let value = match value.kind {
                python::ExprKind::Name(name) if self.scope.find(name).is_none() => {
                    Expr { kind: ExprKind::Str(name.into()), span: value.span }
                }
                _ => self.expr(value),
            };
            pairs.push((key, value));
        }
        ExprKind::Dict(pairs)
    }

    fn comprehension(&mut self, c: &python::Comprehension<'a>) -> ExprKind {
        let mark = self.scope.mark();
        let mut clauses = Vec::new();
        for clause in &c.clauses {
            let iter = self.expr(&clause.iter);
            self.scope.enter(&clause.target);
            clauses.push(Clause::For(self.target(&clause.target), iter));
            for test in &clause.conditions {
                let test = self.expr(test);
                clauses.push(Clause::If(test));
            }
        }
        let element = self.boxed(&c.element);
        self.scope.leave(mark);
        ExprKind::Comprehension(element, clauses)
    }

    fn lambda(&mut self, params: &[python::Ident<'a>], body: &python::Expr<'a>, span: Span) -> ExprKind {
        if self.scope.lambda.is_some() {
            self.unsupported(span, "a lambda inside another");
            return ExprKind::None;
        }
        for (i, p) in params.iter().enumerate() {
            if params[..i].iter().any(|q| q.name == p.name) {
                self.error("syntax", p.span, format!("parameter `{}` appears twice", p.name));
            }
        }
        self.scope.lambda = Some(params.iter().map(|p| p.name).collect());
        let no_params = std::mem::replace(&mut self.no_params, false);
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
                            firsts.push(self.expr(&range[0]));
                            lasts.push(Some(self.expr(&range[1])));
                        }
                        _ => {
                            firsts.push(self.expr(item));
                            lasts.push(None);
                        }
                    }
                }
                ends = Some(lasts);
                (firsts, false)
            }
            python::ExprKind::Tuple(items) | python::ExprKind::List(items) => {
                (items.iter().map(|i| self.expr(i)).collect(), false)
            }
            _ => (vec![self.expr(body)], true),
        };
        self.no_params = no_params;
        self.scope.lambda = None;
        let params = params.iter().map(|p| Symbol::new(p.name)).collect();
        ExprKind::Lambda(Box::new(Lambda { params, results, ends, scalar }))
    }

    /// The names of `a.b.c`, if the first one is a module.
    fn module_path<'x>(&self, e: &'x python::Expr<'a>) -> Option<Vec<&'x str>> {
        match &e.kind {
            python::ExprKind::Name(name) => (self.scope.find(name) == Some(Meaning::Module)).then(|| vec![*name]),
            python::ExprKind::Attribute(of, name) => {
                let mut path = self.module_path(of)?;
                path.push(name.name);
                Some(path)
            }
            _ => None,
        }
    }

    fn attribute(&mut self, e: &python::Expr<'a>) -> ExprKind {
        if let Some(path) = self.module_path(e) {
            if path.last() == Some(&"AXIS_SEPARATOR") {
                return ExprKind::AxisSeparator;
            }
            self.error("undefined-name", e.span, format!("`{}` is not known here", path.join(".")));
            return ExprKind::None;
        }
        let python::ExprKind::Attribute(of, name) = &e.kind else { return ExprKind::None };
        if let python::ExprKind::Name(sch) = of.kind
            && self.schedule == Some(sch)
        {
            let help = OTHER_METHODS.iter().find(|(m, _)| *m == name.name).map(|(_, help)| help.to_string());
            let method = primitive::by_method(name.name);
            let help = help.or_else(|| method.map(|k| format!("call it: `{}`", bind::signature(k))));
            self.error("unsupported", name.span, format!("`{sch}.{}` is no value", name.name)).help = help;
            return ExprKind::None;
        }
        let of = self.value(|c| c.boxed(of));
        ExprKind::Attribute(of, name.name.into())
    }

    fn call(&mut self, call: &python::Call<'a>, span: Span) -> ExprKind {
        for (name, value) in &call.keywords {
            if name.is_none() {
                self.unsupported(value.span, "`**`");
                return ExprKind::None;
            }
        }
        match &call.callee.kind {
            python::ExprKind::Name(name) => self.call_name(name, call, span),
            python::ExprKind::Attribute(of, method) => match self.module_path(&call.callee) {
                Some(path) => self.call_module(&path.join("."), path[path.len() - 1], call, span),
                None => self.value(|c| c.call_method(of, *method, call, span)),
            },
            _ => {
                self.unsupported(call.callee.span, "calling this");
                ExprKind::None
            }
        }
    }

    fn keywords(&mut self, call: &python::Call<'a>) -> Vec<(Box<str>, Span, Expr)> {
        call.keywords
            .iter()
            .map(|(name, value)| {
                let (name, span) = name.map_or(("", value.span), |n| (n.name, n.span));
                (name.into(), span, self.expr(value))
            })
            .collect()
    }

    fn call_name(&mut self, name: &'a str, call: &python::Call<'a>, span: Span) -> ExprKind {
        match self.scope.find(name) {
            Some(Meaning::Builtin(f)) => {
                // In an index map, `min` and `max` of two indices are TVM's.
                if self.scope.lambda.is_some() && matches!(f, Builtin::Min | Builtin::Max) && call.args.len() == 2 {
                    let op = if f == Builtin::Min { BinOp::Min } else { BinOp::Max };
                    return ExprKind::Arithmetic(op, Box::new([self.expr(&call.args[0]), self.expr(&call.args[1])]));
                }
                let args = self.value(|c| c.items(&call.args));
                let keywords = self.value(|c| c.keywords(call));
                if let Some((keyword, at, _)) = keywords.iter().find(|(k, ..)| !f.keywords().contains(&&**k)) {
                    let message = format!("`{name}` has no argument `{keyword}` here");
                    self.error("unknown-argument", *at, message);
                }
                if args.iter().all(|a| !a.star) && !f.arity().contains(&args.len()) {
                    let n = args.len();
                    let arguments = if n == 1 { "argument" } else { "arguments" };
                    let message = format!("`{name}` does not take {n} {arguments}");
                    self.error("argument-count", call.args_span, message);
                }
                ExprKind::Builtin(f, args, keywords)
            }
            Some(Meaning::Function(i)) => {
                let args = self.value(|c| c.items(&call.args));
                let keywords = self.value(|c| c.keywords(call));
                ExprKind::Call(i, args, keywords)
            }
            Some(Meaning::Module) => self.call_module(name, name, call, span),
            Some(Meaning::Local(_) | Meaning::Global(_) | Meaning::Param(_)) => {
                self.error("type", call.callee.span, format!("`{name}` is not a function"));
                ExprKind::None
            }
            None if name == "print" => {
                self.unsupported(call.callee.span, "`print`").help =
                    Some("`tvmr apply` shows the program, `tvmr print-trace` the trace".to_string());
                ExprKind::None
            }
            None => self.name(name, call.callee.span),
        }
    }

    /// A call of a function of a module: `T.float32(0)`, `T.if_then_else(…)`, `tir.IntImm("int64", 4)`.
    fn call_module(&mut self, path: &str, name: &str, call: &python::Call<'a>, span: Span) -> ExprKind {
        if name == "from_func" && (path == "IndexMap.from_func" || path.ends_with(".IndexMap.from_func")) {
            return self.index_map(call);
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
            args.push(self.expr(a));
        }
        let n = args.len();
        let mut take = |i: usize| std::mem::replace(&mut args[i], Expr { kind: ExprKind::None, span });
        let kind = match (operator, name) {
            (Some(op), _) if n == 2 => ExprKind::Arithmetic(op, Box::new([take(0), take(1)])),
            (None, "if_then_else" | "Select") if n == 3 => ExprKind::IfThenElse(Box::new([take(0), take(1), take(2)])),
            (None, "And" | "all") if n > 0 => ExprKind::And(args),
            (None, "Or" | "any") if n > 0 => ExprKind::Or(args),
            (None, "IntImm" | "FloatImm") if n == 2 => match (&take(0).kind, take(1)) {
                (ExprKind::Str(dtype), value) if dtype.parse::<DType>().is_ok() => {
                    ExprKind::Typed(Symbol::new(dtype), Box::new(value))
                }
                _ => {
                    self.error("type", call.args_span, "expected the name of a data type and a number");
                    ExprKind::None
                }
            },
            // A cast of an index is ignored: the index has the type of its buffer.
            (None, "Cast") if n == 2 => match (&take(0).kind, take(1)) {
                (ExprKind::Str(dtype), value) if dtype.parse::<DType>().is_ok_and(DType::is_index) => value.kind,
                _ => {
                    self.error("type", call.args_span, "expected the name of an integer type and a number");
                    ExprKind::None
                }
            },
            (None, _) if n == 1 && name.parse::<DType>().is_ok() => {
                ExprKind::Typed(Symbol::new(name), Box::new(take(0)))
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
                self.error("unsupported", call.callee.span, message).help = near;
                ExprKind::None
            }
        };
        if let (ExprKind::Typed(_, value), Some((_, keyword))) = (&kind, call.keywords.first()) {
            let _ = value;
            self.error("unknown-argument", keyword.span, format!("`{path}` takes no keywords here"));
        }
        kind
    }

    /// `IndexMap.from_func(lambda i: …, inverse_index_map=lambda i: …, index_dtype=…)`. The inverse is ignored, since it is
    /// computed from the map, and so is the type of the indices.
    fn index_map(&mut self, call: &python::Call<'a>) -> ExprKind {
        const OTHERS: [&str; 3] = ["ndim", "inverse_index_map", "index_dtype"];
        let mut map = call.args.first();
        for (name, value) in &call.keywords {
            match name.map(|n| (n.name, n.span)) {
                Some(("mapping_function", _)) => map = Some(value),
                Some((other, at)) if !OTHERS.contains(&other) => {
                    self.error("unknown-argument", at, format!("`IndexMap.from_func` has no argument `{other}`"));
                }
                _ => {}
            }
        }
        match map {
            Some(map) => self.expr_kind(map),
            None => {
                self.error("argument-count", call.args_span, "expected the function of the indices");
                ExprKind::None
            }
        }
    }

    fn call_method(
        &mut self,
        of: &python::Expr<'a>,
        method: python::Ident<'a>,
        call: &python::Call<'a>,
        span: Span,
    ) -> ExprKind {
        let of_schedule = matches!(of.kind, python::ExprKind::Name(n) if self.schedule == Some(n));
        if let (python::ExprKind::Name(name), false) = (&of.kind, of_schedule)
            && let Some(Meaning::Local(variable)) = self.scope.find(name)
            && let Some((_, change)) = Change::ALL.iter().find(|(n, _)| *n == method.name)
        {
            let args: Vec<Expr> = call.args.iter().map(|a| self.expr(a)).collect();
            if !change.arity().contains(&args.len()) || !call.keywords.is_empty() {
                let message = format!("`{}` is not called like this", method.name);
                self.error("argument-count", call.args_span, message);
                return ExprKind::None;
            }
            return ExprKind::Change(variable, *change, args);
        }
        let receiver = self.expr(of);
        if let Some(kind) = primitive::by_method(method.name) {
            let args = self.items(&call.args);
            let keywords = self.keywords(call);
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
                        self.errors.push(d);
                        return ExprKind::None;
                    }
                }
            }
            let (name, args_span) = (method.span, call.args_span);
            return ExprKind::Method(Box::new(Method { receiver, kind, args, keywords, bound, name, args_span }));
        }
        let special = match method.name {
            "get" => Some(Special::Get),
            "work_on" => Some(Special::WorkOn),
            _ => None,
        };
        if let (Some(special), [arg]) = (special, &call.args[..])
            && call.keywords.is_empty()
        {
            let arg = self.expr(arg);
            return ExprKind::Special(special, Box::new([receiver, arg]));
        }
        if let Some((_, help)) = OTHER_METHODS.iter().find(|(m, _)| *m == method.name) {
            self.unsupported(method.span, &format!("`sch.{}`", method.name)).help = Some(help.to_string());
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
        let _ = span;
        self.error("unknown-method", method.span, message).help = near;
        ExprKind::None
    }
}
