//! Reads graph functions.
//!
//! [`read`] reads the signature and the statements; types are in [`mod@types`], calls of operators in [`operator`], those of other
//! graphs in [`subgraph`]. Values have names of their own here; whatever is no value (extents, attributes) is read as in prim_funcs.

mod operator;
pub(super) mod subgraph;
mod types;

use super::Reader;
use super::func::FuncReader;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::graph::{self, Arg, Callee, Constant, Function, Output, Type, ValueId};
use crate::ir::{AttrValue, DType, Symbol};
use crate::script::python::{self, Call, Expr, ExprKind, Ident, Stmt, StmtKind};
use std::collections::BTreeMap;

/// The state of reading one function.
struct GraphReader<'a, 'r> {
    /// Reads extents and attributes. Its arena becomes that of the function.
    r: FuncReader<'a, 'r>,
    graph: Function,
    names: BTreeMap<&'a str, ValueId>,
    /// Symbolic extents, by name.
    symbols: BTreeMap<&'a str, Value>,
    output: Option<Output>,
    /// The type that an assignment states for the call of a graph.
    stated: Option<Type>,
}

/// Reads a function.
pub(super) fn read<'a>(file: &mut Reader<'a>, f: &python::Function<'a>, private: bool) -> Option<Function> {
    let before = file.diagnostics.len();
    let mut reader = GraphReader::new(file, f.name.name);
    reader.graph.private = private;
    reader.signature(f);
    reader.body(&f.body);
    if reader.output.is_none() && reader.r.file.diagnostics.len() == before {
        let d = Diagnostic::error_at("no-return", f.name.span, format!("`{}` returns nothing", f.name.name));
        reader.r.error(d.help("end it with `return`"));
    }
    let GraphReader { mut r, mut graph, output, .. } = reader;
    graph.output = output.unwrap_or(graph.output);
    graph.arena = std::mem::take(&mut r.func.arena);
    graph.attrs = std::mem::take(&mut r.func.attrs);
    (file.diagnostics.len() == before).then_some(graph)
}

impl<'a, 'r> GraphReader<'a, 'r> {
    fn new(file: &'r mut Reader<'a>, name: &'a str) -> GraphReader<'a, 'r> {
        let mut r = FuncReader::new(file, name);
        r.is_graph = true;
        let graph = Function::new(name);
        GraphReader { r, graph, names: BTreeMap::new(), symbols: BTreeMap::new(), output: None, stated: None }
    }
}

impl<'a> GraphReader<'a, '_> {
    fn fail<T>(&mut self, d: Diagnostic) -> Option<T> {
        self.r.fail(d)
    }

    fn signature(&mut self, f: &python::Function<'a>) {
        if let Some(span) = f.odd_param {
            self.r.error(
                Diagnostic::error_at("unsupported", span, "variable and keyword-only parameters are not supported")
                    .help("list all parameters by name"),
            );
        }
        for param in &f.params {
            let Some(annotation) = &param.annotation else {
                let name = param.name.name;
                let d = Diagnostic::error_at("no-type", param.name.span, format!("parameter `{name}` has no type"));
                self.r.error(d.help(format!("write `{name}: R.Tensor((16, 16), \"float32\")`, for example")));
                continue;
            };
            let Some(ty) = self.ty(annotation) else { continue };
            let v = self.graph.add_param(param.name.name, ty);
            if self.names.insert(param.name.name, v).is_some() {
                let message = format!("parameter `{}` is declared twice", param.name.name);
                self.r.error(Diagnostic::error_at("duplicate-name", param.name.span, message));
            }
        }
    }

    fn body(&mut self, body: &[Stmt<'a>]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt<'a>) {
        match &stmt.kind {
            StmtKind::Pass | StmtKind::Expr(Expr { kind: ExprKind::Str(_), .. }) => {}
            StmtKind::With(items, body) => {
                let is_dataflow = |e: &Expr<'a>| match &e.kind {
                    ExprKind::Call(call) => self.relax_path(&call.callee).as_deref() == Some("dataflow"),
                    _ => false,
                };
                if items.iter().all(|(e, _)| is_dataflow(e)) {
                    self.body(body);
                } else {
                    self.unsupported(stmt.span, "this `with`");
                }
            }
            StmtKind::Assign(targets, value) => self.assign(targets, None, value),
            StmtKind::AnnAssign(target, ty, Some(value)) => self.assign(std::slice::from_ref(target), Some(ty), value),
            StmtKind::Return(Some(value)) => {
                self.output = self.returned(value);
                // A mistake has been reported.
                self.output.get_or_insert_with(|| Output::Tuple(Vec::new()));
            }
            StmtKind::Expr(Expr { kind: ExprKind::Call(call), .. }) => match self.relax_path(&call.callee).as_deref() {
                Some("output") => {}
                Some("func_attr") => {
                    if let [attrs] = &call.args[..]
                        && let Some(attrs) = self.r.annotations(attrs)
                    {
                        for (key, value) in attrs {
                            self.r.func.attrs.insert(key, value);
                        }
                        self.note_weights();
                    }
                }
                _ => self.unsupported(stmt.span, "a call without a result"),
            },
            StmtKind::If(branches) => {
                let span = branches.first().map_or(stmt.span, |b| self.r.first_line(b.span));
                let d = Diagnostic::error_at("unsupported", span, "branches in graph functions are not supported");
                self.r.error(d.help("choose a branch before, or select elements by `R.where`"));
            }
            _ => self.unsupported(stmt.span, "this statement"),
        }
    }

    /// Notes the elements of the parameters behind the inputs, as far as they are given.
    fn note_weights(&mut self) {
        let n_inputs = self.r.func.attrs.get("num_input").and_then(AttrValue::as_int);
        let Some(n_inputs) = n_inputs.and_then(|n| usize::try_from(n).ok()) else { return };
        for &v in self.graph.params.iter().skip(n_inputs) {
            let value = self.graph.value(v);
            if let Some(ty) = value.ty.as_tensor()
                && let Some(weight) = self.r.file.options.weights.get(value.name.as_str())
                && ty.dtype == Some(weight.dtype())
                && ty.constant_shape(&self.r.func.arena).as_deref() == Some(weight.shape())
            {
                self.graph.known_weights.insert(v, weight.clone());
            }
        }
    }

    fn unsupported(&mut self, span: Span, what: &str) {
        let span = self.r.first_line(span);
        self.r.error(Diagnostic::error_at("unsupported", span, format!("{what} is not supported in a graph function")));
    }

    fn assign(&mut self, targets: &[Expr<'a>], annotation: Option<&Expr<'a>>, value: &Expr<'a>) {
        let [target] = targets else {
            self.unsupported(value.span, "an assignment to several names");
            return;
        };
        match &target.kind {
            ExprKind::Name(name) => self.define(Ident { name, span: target.span }, annotation, value),
            // `m, n = T.int64(), T.int64()`
            ExprKind::Tuple(items) if matches!(&value.kind, ExprKind::Tuple(values) if values.len() == items.len()) => {
                let ExprKind::Tuple(values) = &value.kind else { return };
                for (item, value) in items.iter().zip(values) {
                    self.assign(std::slice::from_ref(item), None, value);
                }
            }
            ExprKind::Tuple(items) => {
                let Some(tuple) = self.value(value, "lv") else { return };
                for (i, item) in items.iter().enumerate() {
                    let ExprKind::Name(name) = item.kind else {
                        self.unsupported(item.span, "this target");
                        continue;
                    };
                    if let Some(v) = self.item(tuple, i as i64, name, value.span) {
                        self.names.insert(name, v);
                    }
                }
            }
            _ => self.unsupported(target.span, "this target"),
        }
    }

    fn define(&mut self, name: Ident<'a>, annotation: Option<&Expr<'a>>, value: &Expr<'a>) {
        // `cls = Module`
        if let Some(ns) = self.r.namespace(value) {
            self.r.define(name.name, Value::Namespace(ns), name.span);
            return;
        }
        // `n = T.int64()`
        if let ExprKind::Call(call) = &value.kind
            && let ExprKind::Attribute(owner, _) = &call.callee.kind
            && self.r.namespace(owner) == Some(Namespace::Tir)
            && call.args.is_empty()
        {
            match self.r.eval(value) {
                Some(Value::Fresh(ty)) if ty.dtype.is_integer() => {
                    self.symbol(name.name, name.span);
                }
                Some(_) => self.unsupported(value.span, "this value"),
                None => {}
            }
            return;
        }
        if matches!(&value.kind, ExprKind::Call(call) if self.is_of_module(&call.callee)) {
            self.stated = annotation.and_then(|annotation| self.ty(annotation));
        }
        let Some(v) = self.value(value, name.name) else {
            // Its uses are not reported.
            self.r.define(name.name, Value::Poison, name.span);
            return;
        };
        if let Some(annotation) = annotation
            && let Some(stated) = self.ty(annotation)
        {
            self.check_type(v, &stated, annotation.span);
        }
        self.names.insert(name.name, v);
    }

    /// Whether it is a function of the module: `cls.func`.
    fn is_of_module(&self, e: &Expr<'a>) -> bool {
        matches!(&e.kind, ExprKind::Attribute(owner, _) if self.r.namespace(owner) == Some(Namespace::Module))
    }

    /// Checks that a stated type does not contradict what was inferred.
    fn check_type(&mut self, v: ValueId, stated: &Type, span: Span) {
        let found = self.graph.ty(v).clone();
        if !self.may_be_equal(stated, &found) {
            let arena = &self.r.func.arena;
            let (stated, found) = (stated.describe(arena), found.describe(arena));
            let d = Diagnostic::error_at("type-mismatch", span, format!("the value is {found}, not {stated}"));
            self.r.error(d.help("leave out the type: it follows from the operator"));
        }
    }

    fn may_be_equal(&self, a: &Type, b: &Type) -> bool {
        let arena = &self.r.func.arena;
        let extents = |a: &[crate::ir::ExprId], b: &[crate::ir::ExprId]| {
            let fits = |(&x, &y)| match (arena.as_int(x), arena.as_int(y)) {
                (Some(x), Some(y)) => x == y,
                _ => true,
            };
            a.len() == b.len() && a.iter().zip(b).all(fits)
        };
        match (a, b) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                let dtypes = a.dtype.is_none() || b.dtype.is_none() || a.dtype == b.dtype;
                let ranks = a.rank.is_none() || b.rank.is_none() || a.rank == b.rank;
                let shapes = match (&a.shape, &b.shape) {
                    (Some(a), Some(b)) => extents(a, b),
                    _ => true,
                };
                dtypes && ranks && shapes
            }
            (Type::Tuple(a), Type::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.may_be_equal(a, b))
            }
            (Type::Shape(Some(a)), Type::Shape(Some(b))) => extents(a, b),
            (Type::Shape(_), Type::Shape(_)) | (Type::Object, _) | (_, Type::Object) => true,
            (Type::Prim(a), Type::Prim(b)) => a == b,
            (Type::Tensor(_) | Type::Tuple(_) | Type::Shape(_) | Type::Prim(_), _) => false,
        }
    }

    /// A symbolic extent, which `--bind` may make a number.
    fn symbol(&mut self, name: &'a str, span: Span) -> Value {
        if let Some(known) = self.symbols.get(name) {
            return known.clone();
        }
        let symbol = self.r.symbol(name, DType::Int64, span);
        self.symbols.insert(name, symbol.clone());
        self.r.scope.define_outside(name, symbol.clone(), span);
        symbol
    }

    fn returned(&mut self, e: &Expr<'a>) -> Option<Output> {
        match &e.kind {
            ExprKind::Tuple(items) => {
                let items: Vec<Option<Output>> = items.iter().map(|e| self.returned(e)).collect();
                items.into_iter().collect::<Option<_>>().map(Output::Tuple)
            }
            _ => self.value(e, "gv").map(Output::Value),
        }
    }

    /// The name behind `R.`, such as `nn.conv2d`.
    fn relax_path(&self, e: &Expr<'a>) -> Option<String> {
        match &e.kind {
            ExprKind::Attribute(owner, name) if self.r.namespace(owner) == Some(Namespace::Relax) => {
                Some(name.name.to_owned())
            }
            ExprKind::Attribute(owner, name) => Some(format!("{}.{}", self.relax_path(owner)?, name.name)),
            _ => None,
        }
    }

    /// A value. New ones get the name.
    fn value(&mut self, e: &Expr<'a>, name: &str) -> Option<ValueId> {
        match &e.kind {
            ExprKind::Name(used) => match self.names.get(used) {
                // `gv = lv` makes another name for a value, which is not needed.
                Some(&v) => Some(v),
                None => self.undefined(used, e.span),
            },
            ExprKind::Tuple(items) | ExprKind::List(items) => self.tuple(items, name, e.span),
            ExprKind::Subscript(owner, index) => {
                if let Some(constant) = self.of_metadata(owner, index, e.span) {
                    return constant.map(|c| self.constant(c));
                }
                let tuple = self.value(owner, "lv")?;
                match self.r.eval(index)? {
                    Value::Int(i) => self.item(tuple, i64::try_from(i).unwrap_or(i64::MAX), name, e.span),
                    other => {
                        let message = format!("expected the number of an item, found {}", other.describe());
                        self.fail(Diagnostic::error_at("wrong-argument", index.span, message))
                    }
                }
            }
            ExprKind::Call(call) => self.call(call, name, e.span),
            ExprKind::Binary(op, a, b) => {
                let operator = match op {
                    python::BinaryOp::Add => "add",
                    python::BinaryOp::Sub => "subtract",
                    python::BinaryOp::Mul => "multiply",
                    python::BinaryOp::Div => "divide",
                    _ => {
                        return self.fail(Diagnostic::error_at(
                            "unsupported",
                            e.span,
                            "this operator is no operator of tensors",
                        ));
                    }
                };
                let (a, b) = (self.value(a, "lv"), self.value(b, "lv"));
                let args = vec![Arg::Value(a?), Arg::Value(b?)];
                self.apply(graph::op::find(operator)?, args, name, e.span)
            }
            _ => self.fail(Diagnostic::error_at("no-value", e.span, "expected a tensor or a call of an operator")),
        }
    }

    fn undefined(&mut self, name: &'a str, span: Span) -> Option<ValueId> {
        if let Some(value) = self.r.scope.get(name) {
            let message = format!("`{name}` is {}, not a tensor", value.describe());
            return match value {
                Value::Poison => None,
                _ => self.fail(Diagnostic::error_at("no-value", span, message)),
            };
        }
        let near = nearest(name, self.names.keys().copied()).map(|n| format!("did you mean `{n}`?"));
        let d = Diagnostic::error_at("undefined-name", span, format!("`{name}` is not defined"));
        self.fail(d.mark("not found in this function").maybe_help(near))
    }

    fn tuple(&mut self, items: &[Expr<'a>], name: &str, span: Span) -> Option<ValueId> {
        let items: Vec<Option<ValueId>> = items.iter().map(|e| self.value(e, "lv")).collect();
        let items = items.into_iter().collect::<Option<Vec<_>>>()?;
        let ty = Type::Tuple(items.iter().map(|&v| self.graph.ty(v).clone()).collect());
        Some(self.graph.add_call(name, Callee::Tuple, vec![Arg::Values(items)], ty, span))
    }

    /// An item of a tuple.
    fn item(&mut self, tuple: ValueId, i: i64, name: &str, span: Span) -> Option<ValueId> {
        // The items of a tuple that was written out are known.
        if let Some(graph::Call { callee: Callee::Tuple, args, .. }) = self.graph.definition(tuple)
            && let Some(&v) = args.first().and_then(|a| a.values().get(usize::try_from(i).ok()?))
        {
            return Some(v);
        }
        let ty = self.graph.ty(tuple);
        let Type::Tuple(items) = ty else {
            let message = format!("expected a tuple, found {}", ty.describe(&self.r.func.arena));
            return self.fail(Diagnostic::error_at("no-tuple", span, message));
        };
        let n = items.len();
        match usize::try_from(i).ok().and_then(|i| Some((i, items.get(i)?.clone()))) {
            Some((i, ty)) => Some(self.graph.add_call(name, Callee::Item(i), vec![Arg::Value(tuple)], ty, span)),
            None => {
                self.fail(Diagnostic::error_at("no-item", span, format!("the tuple has {n} items, and no item {i}")))
            }
        }
    }

    fn constant(&mut self, constant: Constant) -> ValueId {
        self.graph.add_constant_in(&mut self.r.func.arena, constant)
    }

    /// `metadata["ir.GenericConst"][0]`; `None` if it is something else.
    fn of_metadata(&mut self, owner: &Expr<'a>, index: &Expr<'a>, span: Span) -> Option<Option<Constant>> {
        let ExprKind::Subscript(inner, _) = &owner.kind else { return None };
        if !matches!(inner.kind, ExprKind::Name("metadata")) {
            return None;
        }
        let i = match &index.kind {
            ExprKind::Int(Some(i)) => usize::try_from(*i).ok(),
            _ => None,
        };
        let found = i.and_then(|i| self.r.file.metadata.get(i).cloned());
        if found.is_none() {
            let n = self.r.file.metadata.len();
            let d = Diagnostic::error_at("no-constant", span, format!("the text has {n} constants, and not this one"));
            self.r.error(d.help("print the module by `script(show_meta=True)`"));
        }
        Some(found)
    }

    /// The type that the operator gives, and the call.
    fn apply(&mut self, op: &'static graph::Operator, args: Vec<Arg>, name: &str, span: Span) -> Option<ValueId> {
        match graph::infer::result_type(op, &args, &self.graph, &mut self.r.func.arena) {
            Ok(ty) => Some(self.graph.add_call(name, Callee::Op(op), completed(args, &ty), ty, span)),
            Err(error) => self.fail(Diagnostic::error_at("operator", span, error.to_string()).maybe_help(error.help)),
        }
    }

    /// `R.const(1.0, "float32")`
    fn const_(&mut self, call: &Call<'a>, span: Span) -> Option<ValueId> {
        let args = self.r.args("R.const", call, &["value", "dtype"], 1)?;
        let dtype = match args[1] {
            Some(e) => Some(self.dtype(e)?),
            None => None,
        };
        let value = self.r.eval(args[0]?)?;
        match constant_of(&value, dtype) {
            Some(constant) => Some(self.constant(constant)),
            None => {
                let message = format!("expected numbers, found {}", value.describe());
                self.fail(Diagnostic::error_at("wrong-argument", span, message))
            }
        }
    }
}

/// The arguments with the extents of a shape that were left open, as `reshape` has them.
fn completed(mut args: Vec<Arg>, ty: &Type) -> Vec<Arg> {
    let result = ty.as_tensor().and_then(|t| t.shape.as_ref());
    for arg in &mut args {
        if let (Arg::Shape(shape), Some(result)) = (arg, result)
            && shape.len() == result.len()
        {
            shape.clone_from(result);
        }
    }
    args
}

/// A constant of a number or of lists of numbers.
fn constant_of(value: &Value, dtype: Option<DType>) -> Option<Constant> {
    match value {
        Value::Bool(v) => Constant::integer(i64::from(*v), dtype.unwrap_or(DType::Bool)),
        Value::Int(v) => match dtype.unwrap_or(DType::Int32) {
            t if t.is_float() => Constant::scalar(*v as f64, t),
            t => Constant::integer(i64::try_from(*v).or_else(|_| u64::try_from(*v).map(|v| v as i64)).ok()?, t),
        },
        Value::Float(v) => Constant::scalar(*v, dtype.unwrap_or(DType::Float32)),
        Value::Seq(items) => {
            let items: Vec<Constant> = items.iter().map(|v| constant_of(v, dtype)).collect::<Option<_>>()?;
            let first = items.first()?;
            let is_same = |c: &Constant| c.dtype() == first.dtype() && c.shape() == first.shape();
            if !items.iter().all(is_same) {
                return None;
            }
            let shape: Vec<i64> = [items.len() as i64].into_iter().chain(first.shape().iter().copied()).collect();
            Constant::new(first.dtype(), &shape, items.iter().flat_map(|c| c.data().to_vec()).collect())
        }
        _ => None,
    }
}

/// Whether a value is a text.
fn text_of(value: &Value) -> Option<Symbol> {
    match value {
        Value::Str(s) => Some(Symbol::new(s)),
        _ => None,
    }
}

/// The attribute as an integer; also that of an expression.
fn int_of(reader: &FuncReader<'_, '_>, value: &AttrValue) -> Option<i64> {
    match value {
        AttrValue::Int(v) => Some(*v),
        AttrValue::Bool(v) => Some(i64::from(*v)),
        AttrValue::Expr(e) => reader.func.arena.as_int(*e),
        _ => None,
    }
}
