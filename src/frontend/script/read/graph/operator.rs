//! Reads calls: of operators, of prim_funcs, of library functions.

use super::{GraphReader, int_of, text_of};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::graph::operator::Kind;
use crate::graph::{self, Arg, Callee, Type, ValueId};
use crate::ir::{AttrValue, DType, ExprId, Symbol};
use crate::script::python::{Call, Expr, ExprKind};
use crate::script::read::value::{Namespace, Value};

impl<'a> GraphReader<'a, '_> {
    pub(super) fn call(&mut self, call: &Call<'a>, name: &str, span: Span) -> Option<ValueId> {
        if let ExprKind::Attribute(owner, func) = &call.callee.kind
            && self.r.namespace(owner) == Some(Namespace::Module)
        {
            return self.call_graph(func.name, call, name, span);
        }
        let Some(path) = self.relax_path(&call.callee) else {
            let d = Diagnostic::error_at("no-value", call.callee.span, "expected an operator `R.…`");
            return self.fail(d.help("call a prim_func by `R.call_tir(cls.func, args, out_ty=…)`"));
        };
        match path.as_str() {
            "const" => self.const_(call, span),
            "call_tir" | "call_dps_packed" | "call_tir_inplace" => self.call_func(&path, call, name, span),
            "call_pure_packed" => self.call_pure_packed(call, name, span),
            "tuple" => self.tuple(&call.args, name, span),
            "shape" => {
                let Some(shape) = call.args.first() else {
                    return self.fail(Diagnostic::error_at("argument-count", span, "`R.shape` lacks its extents"));
                };
                let shape = self.extents(shape)?;
                let ty = Type::Shape(Some(shape.clone()));
                Some(self.graph.add_call(name, Callee::Shape, vec![Arg::Shape(shape)], ty, span))
            }
            "match_cast" => {
                let args = self.r.args("R.match_cast", call, &["value", "ty"], 2)?;
                let v = self.value(args[0]?, "lv")?;
                let stated = self.ty(args[1]?)?;
                self.check_type(v, &stated, args[1]?.span);
                Some(self.graph.add_call(name, Callee::Alias, vec![Arg::Value(v)], stated, span))
            }
            _ => match graph::op::find(&path) {
                Some(op) => {
                    let args = self.operator_args(op, call)?;
                    self.apply(op, args, name, span)
                }
                None => {
                    let near = nearest(&path, graph::op::all().map(|op| op.name));
                    let message = format!("operator `R.{path}` is not supported");
                    let help = match near {
                        Some(near) => format!("did you mean `R.{near}`? `tvmr ops` lists the operators"),
                        None => "`tvmr ops` lists the operators".to_owned(),
                    };
                    self.fail(Diagnostic::error_at("unknown-operator", call.callee.span, message).help(help))
                }
            },
        }
    }

    /// `R.call_tir(cls.func, args, out_ty=…)` and its relatives.
    fn call_func(&mut self, path: &str, call: &Call<'a>, name: &str, span: Span) -> Option<ValueId> {
        // Several generations of the interface name the types of the results differently.
        let params = ["func", "args", "out_ty", "out_sinfo", "tir_vars", "dtype", "inplace_indices", "*", "out_shape"];
        let mut call = call.clone();
        if path == "call_tir_inplace" && call.args.len() > 2 {
            let indices = call.args.remove(2);
            let key = crate::script::python::Ident { name: "inplace_indices", span: indices.span };
            call.keywords.push((Some(key), indices));
        }
        let args = self.r.args(&format!("R.{path}"), &call, &params, 2)?;
        let func = self.callee(args[0]?)?;
        let values = match &args[1]?.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                let items: Vec<Option<ValueId>> = items.iter().map(|e| self.value(e, "lv")).collect();
                items.into_iter().collect::<Option<Vec<_>>>()?
            }
            _ => self.items_of(args[1]?)?,
        };
        let dtype = match args[5] {
            Some(e) => Some(self.dtype(e)?),
            None => None,
        };
        let Some(out) = args[2].or(args[3]).or(args[8]) else {
            let d = Diagnostic::error_at(
                "argument-count",
                call.args_span,
                format!("`R.{path}` lacks the type of its result"),
            );
            return self.fail(d.help("add `out_ty=R.Tensor(…)`"));
        };
        let ty = self.result(out, dtype)?;
        let mut all = vec![Arg::Values(values)];
        if let Some(vars) = args[4].filter(|e| e.kind != ExprKind::None) {
            all.push(Arg::Shape(self.extents(vars)?));
        }
        let callee = match path {
            "call_tir" => {
                let is_module = matches!(&args[0]?.kind, ExprKind::Attribute(..) | ExprKind::Name(_));
                if is_module { Callee::CallTir(func) } else { Callee::CallDpsPacked(func) }
            }
            "call_dps_packed" => Callee::CallDpsPacked(func),
            _ => {
                let Some(indices) = args[6] else {
                    let message = "`R.call_tir_inplace` lacks its argument `inplace_indices`";
                    return self.fail(Diagnostic::error_at("argument-count", call.args_span, message));
                };
                let value = self.r.eval(indices)?;
                all.push(Arg::Attr(self.r.attr_value(value, indices.span)?));
                Callee::CallTirInplace(func)
            }
        };
        Some(self.graph.add_call(name, callee, all, ty, span))
    }

    /// `R.call_pure_packed("func", a, b, ty_args=(…,))`. Older texts write `sinfo_args`.
    fn call_pure_packed(&mut self, call: &Call<'a>, name: &str, span: Span) -> Option<ValueId> {
        let Some((func, args)) = call.args.split_first() else {
            let message = "`R.call_pure_packed` lacks its function";
            return self.fail(Diagnostic::error_at("argument-count", call.args_span, message));
        };
        let func = self.callee(func)?;
        let mut ty = None;
        for (key, value) in &call.keywords {
            match key.as_ref().map(|k| k.name) {
                Some("ty_args" | "sinfo_args") => ty = self.result(value, None),
                _ => {
                    let d =
                        Diagnostic::error_at("wrong-argument", value.span, "attributes are not passed to functions");
                    return self.fail(d.help("`R.call_pure_packed` takes tensors, and `ty_args`"));
                }
            }
        }
        let Some(ty) = ty else {
            let message = "`R.call_pure_packed` lacks the type of its result";
            let d = Diagnostic::error_at("argument-count", call.args_span, message);
            return self.fail(d.help("add `ty_args=(R.Tensor(…),)`"));
        };
        let args: Vec<Option<ValueId>> = args.iter().map(|e| self.value(e, "lv")).collect();
        let args = vec![Arg::Values(args.into_iter().collect::<Option<_>>()?)];
        Some(self.graph.add_call(name, Callee::CallPurePacked(func), args, ty, span))
    }

    /// The function of a call: `cls.linear0`, `linear0`, `"env.linear"`.
    fn callee(&mut self, e: &Expr<'a>) -> Option<Symbol> {
        let known = |name: &str, file: &super::Reader<'a>| file.functions.contains_key(name);
        match &e.kind {
            ExprKind::Attribute(owner, name) if self.r.namespace(owner) == Some(Namespace::Module) => {
                if !known(name.name, self.r.file) {
                    let near = nearest(name.name, self.r.file.functions.keys().copied());
                    let near = near.map(|n| format!("did you mean `{n}`?"));
                    let message = format!("the module has no function `{}`", name.name);
                    return self.fail(Diagnostic::error_at("unknown-function", name.span, message).maybe_help(near));
                }
                Some(Symbol::new(name.name))
            }
            ExprKind::Name(name) if known(name, self.r.file) => Some(Symbol::new(name)),
            ExprKind::Str(name) => Some(Symbol::new(name)),
            // `R.ExternFunc("env.relu")`
            ExprKind::Call(call) => match call.args.first() {
                Some(Expr { kind: ExprKind::Str(name), .. }) => Some(Symbol::new(name)),
                _ => self.fail(Diagnostic::error_at(
                    "no-function",
                    e.span,
                    "expected a function of the module or a name",
                )),
            },
            _ => self.fail(Diagnostic::error_at("no-function", e.span, "expected a function of the module or a name")),
        }
    }

    /// The type of the results of a call: a type, several of them, or a shape beside a type of elements.
    fn result(&mut self, e: &Expr<'a>, dtype: Option<DType>) -> Option<Type> {
        let is_type = |e: &Expr<'a>| {
            matches!(&e.kind, ExprKind::Call(_))
                && !matches!(&e.kind, ExprKind::Call(c) if self.relax_path(&c.callee).as_deref() == Some("shape"))
        };
        match &e.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) if !items.is_empty() && items.iter().all(is_type) => {
                let items: Vec<Option<Type>> = items.iter().map(|e| self.ty(e)).collect();
                let items = items.into_iter().collect::<Option<Vec<_>>>()?;
                Some(match <[Type; 1]>::try_from(items) {
                    Ok([only]) => only,
                    Err(items) => Type::Tuple(items),
                })
            }
            _ if is_type(e) => self.ty(e),
            _ => {
                let Some(dtype) = dtype else {
                    let d = Diagnostic::error_at("no-type", e.span, "the type of the elements is missing");
                    return self.fail(d.help("write `R.Tensor(shape, dtype)`, or add `dtype=`"));
                };
                Some(Type::tensor(dtype, self.extents(e)?))
            }
        }
    }

    /// The values of a tuple: one that was written out, or the items of a value.
    fn items_of(&mut self, e: &Expr<'a>) -> Option<Vec<ValueId>> {
        let v = self.value(e, "lv")?;
        let n = match self.graph.ty(v) {
            Type::Tuple(items) => items.len(),
            // A single value stands for a tuple of one.
            _ => return Some(vec![v]),
        };
        (0..n).map(|i| self.item(v, i as i64, "lv", e.span)).collect()
    }

    /// One argument for each parameter of an operator.
    fn operator_args(&mut self, op: &'static graph::Operator, call: &Call<'a>) -> Option<Vec<Arg>> {
        let names: Vec<&str> = op.params.iter().map(|p| p.name).collect();
        let given = self.r.args(&format!("R.{}", op.name), call, &names, 0)?;
        let mut args = Vec::with_capacity(op.params.len());
        let mut ok = true;
        for (param, e) in op.params.iter().zip(given) {
            let arg = match e {
                None => Some(param.default.arg()),
                Some(e) => self.operator_arg(op.name, param.name, param.kind, e),
            };
            ok &= arg.is_some();
            args.push(arg.unwrap_or(Arg::Missing));
        }
        ok.then_some(args)
    }

    fn operator_arg(&mut self, op: &str, param: &str, kind: Kind, e: &Expr<'a>) -> Option<Arg> {
        if kind.is_attribute() {
            return self.attribute(op, param, kind, e).map(Arg::Attr);
        }
        match kind {
            Kind::Tensor | Kind::Constant => self.value(e, "lv").map(Arg::Value),
            Kind::OptTensor if e.kind == ExprKind::None => Some(Arg::Missing),
            Kind::OptTensor => self.value(e, "lv").map(Arg::Value),
            Kind::Tensors => match &e.kind {
                ExprKind::Tuple(items) | ExprKind::List(items) => {
                    let items: Vec<Option<ValueId>> = items.iter().map(|e| self.value(e, "lv")).collect();
                    items.into_iter().collect::<Option<_>>().map(Arg::Values)
                }
                _ => self.items_of(e).map(Arg::Values),
            },
            Kind::Shape => match &e.kind {
                ExprKind::Name(name) if self.names.contains_key(name) => {
                    let v = self.names[name];
                    Some(match self.graph.ty(v) {
                        Type::Shape(Some(shape)) => Arg::Shape(shape.clone()),
                        _ => Arg::Value(v),
                    })
                }
                _ => self.extents(e).map(Arg::Shape),
            },
            Kind::Prim if e.kind == ExprKind::None => Some(Arg::Missing),
            Kind::Prim => self.number(e).map(Arg::Prim),
            Kind::Prims => {
                let items: &[Expr<'a>] = match &e.kind {
                    ExprKind::Tuple(items) | ExprKind::List(items) => items,
                    ExprKind::None => return Some(Arg::Missing),
                    _ => std::slice::from_ref(e),
                };
                let items: Vec<Option<ExprId>> = items.iter().map(|e| self.number(e)).collect();
                items.into_iter().collect::<Option<_>>().map(Arg::Prims)
            }
            kind => unreachable!("{kind:?} is an attribute, which was read above"),
        }
    }

    /// A number: a literal, a symbol, an expression of them.
    fn number(&mut self, e: &Expr<'a>) -> Option<ExprId> {
        // `R.prim_value(1)`
        if let ExprKind::Call(call) = &e.kind
            && let Some("prim_value" | "const") = self.relax_path(&call.callee).as_deref()
            && let Some(value) = call.args.first()
        {
            return self.number(value);
        }
        match self.r.eval(e)? {
            Value::Int(v) => self.r.literal(Value::Int(v), DType::Int64, e.span),
            Value::Bool(v) => Some(self.r.func.arena.bool(v)),
            Value::Float(v) => Some(self.r.func.arena.float(v, DType::Float64)),
            Value::Expr(id) => Some(id),
            other => {
                let message = format!("expected a number, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
        }
    }

    /// An attribute in the form that its kind has.
    fn attribute(&mut self, op: &str, param: &str, kind: Kind, e: &Expr<'a>) -> Option<AttrValue> {
        let value = self.r.eval(e)?;
        let found = value.describe();
        let plain = match (&value, kind) {
            (Value::Type(ty), Kind::DType | Kind::OptDType) => Some(AttrValue::Str(ty.dtype.name().into())),
            (Value::Str(text), Kind::OptDType) if matches!(&**text, "" | "void") => Some(AttrValue::None),
            (Value::Str(text), Kind::DType | Kind::OptDType) => {
                self.r.type_named(text, e.span).map(|ty| AttrValue::Str(ty.dtype.name().into()))
            }
            (Value::None, kind) => is_optional(kind).then_some(AttrValue::None),
            _ => {
                let text = text_of(&value);
                let attr = self.r.attr_value(value, e.span)?;
                self.converted(kind, attr, text)
            }
        };
        if plain.is_none() {
            let message = format!("`R.{op}` takes {} as `{param}`, found {found}", kind.describe());
            self.r.error(Diagnostic::error_at("wrong-argument", e.span, message));
        }
        plain
    }

    fn converted(&self, kind: Kind, attr: AttrValue, text: Option<Symbol>) -> Option<AttrValue> {
        let int = |a: &AttrValue| int_of(&self.r, a).map(AttrValue::Int);
        let float = |a: &AttrValue| match a {
            AttrValue::Float(v) => Some(AttrValue::Float(*v)),
            AttrValue::Int(v) => Some(AttrValue::Float(*v as f64)),
            AttrValue::Expr(e) => self.r.func.arena.as_const(*e).map(|c| AttrValue::Float(c.as_f64())),
            _ => None,
        };
        match kind {
            Kind::Int | Kind::OptInt => int(&attr),
            Kind::Ints | Kind::OptInts => match &attr {
                AttrValue::List(items) => items.iter().map(int).collect::<Option<_>>().map(AttrValue::List),
                one => int(one).map(|v| AttrValue::List(vec![v])),
            },
            Kind::IntOrInts => match &attr {
                AttrValue::List(items) => items.iter().map(int).collect::<Option<_>>().map(AttrValue::List),
                one => int(one),
            },
            Kind::Float | Kind::OptFloat => float(&attr),
            Kind::OptNumber => int(&attr).or_else(|| float(&attr)),
            Kind::OptFloats => match &attr {
                AttrValue::List(items) => items.iter().map(float).collect::<Option<_>>().map(AttrValue::List),
                one => float(one).map(|v| AttrValue::List(vec![v])),
            },
            Kind::Bool => match attr {
                AttrValue::Bool(_) => Some(attr),
                other => int_of(&self.r, &other).map(|v| AttrValue::Bool(v != 0)),
            },
            Kind::Str | Kind::OptStr => text.map(AttrValue::Str),
            Kind::IndexMap => matches!(attr, AttrValue::IndexMap(..)).then_some(attr),
            Kind::DType | Kind::OptDType => None,
            Kind::Tensor
            | Kind::Constant
            | Kind::OptTensor
            | Kind::Tensors
            | Kind::Shape
            | Kind::Prim
            | Kind::Prims => None,
        }
    }
}

fn is_optional(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::OptInt
            | Kind::OptInts
            | Kind::OptFloat
            | Kind::OptNumber
            | Kind::OptFloats
            | Kind::OptStr
            | Kind::OptDType
    )
}
