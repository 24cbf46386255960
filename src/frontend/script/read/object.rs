//! Reads TVM objects in attributes, attributes of modules, and nodes by name.

use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::Diagnostic;
use crate::ir::{DType, ExprId, ModuleAttrs, ObjectKind};
use crate::script::python::{Call, ExprKind, Ident};

impl<'a> FuncReader<'a, '_> {
    /// `I.vdevice("llvm", 0, "global")`, `T.Range(0, 4)` and the like.
    pub(super) fn object(&mut self, kind: ObjectKind, call: &Call<'a>) -> Option<Value> {
        let (params, required) = kind.params();
        let args = self.args(kind.name(), call, params, required)?;
        let mut values = Vec::new();
        for arg in &args {
            values.push(match arg {
                Some(e) => Some(self.eval(e)?),
                None => None,
            });
        }
        if kind == ObjectKind::VDevice {
            // The target and default arguments are stored explicitly, as TVM prints them.
            let defaults = [Value::Dict(Vec::new()), Value::Int(0), Value::Str("global".into())];
            for (value, default) in values.iter_mut().zip(defaults) {
                value.get_or_insert(default);
            }
            if let Some(Some(target)) = values.first_mut()
                && let Value::Target(inner) = target
            {
                *target = (**inner).clone();
            }
        }
        Some(Value::Object(kind, values.into_iter().flatten().collect()))
    }

    /// `I.module_attrs({…})` and `I.module_global_infos({…})`, added to the existing ones.
    pub(super) fn module_attributes(
        mut self,
        name: Ident<'a>,
        call: &Call<'a>,
        mut attributes: ModuleAttrs,
    ) -> ModuleAttrs {
        self.func.arena = std::mem::take(&mut attributes.arena);
        let full = format!("I.{}", name.name);
        let args = self.args(&full, call, &["value"], 1);
        if let Some(at) = args.and_then(|args| args[0]) {
            let old = match name.name {
                "module_attrs" => &attributes.attrs,
                _ => &attributes.global_infos,
            };
            if !old.is_empty() {
                let d = Diagnostic::error_at("duplicate-name", name.span, format!("`{full}` is given twice"));
                self.error(d.help("put both into one dictionary"));
            } else if let Some(items) = self.annotations(at) {
                let items = items.into_iter().collect();
                match name.name {
                    "module_attrs" => attributes.attrs = items,
                    _ => attributes.global_infos = items,
                }
            }
        }
        attributes.arena = std::mem::take(&mut self.func.arena);
        attributes
    }

    /// `T.index_map(lambda i, j: (j, i))`
    pub(super) fn index_map(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["mapping", "*", "inverse_index_map", "index_dtype"], 1)?;
        if let Some(e) = args[2].filter(|e| !matches!(e.kind, ExprKind::None)) {
            return self.unsupported(e.span, "the inverse of an index map");
        }
        let dtype = match args[3] {
            Some(e) => self.dtype(e)?,
            None => DType::Int64,
        };
        let at = args[0]?;
        let (params, body) = match &at.kind {
            ExprKind::Lambda(l) if l.rest.is_none() => (&l.params, &l.body),
            _ => {
                let message = "expected a function such as `lambda i, j: (j, i)`";
                return self.fail(Diagnostic::error_at("wrong-argument", at.span, message));
            }
        };
        self.scope.push_frame();
        let mut vars = Vec::new();
        for param in params {
            let (_, var) = self.func.arena.new_var_expr(param.name, dtype);
            vars.push(var);
            self.scope.define(param.name, Value::Expr(var), param.span);
        }
        let results = match self.eval(body) {
            Some(Value::Seq(items)) => {
                items.into_iter().map(|v| self.expr_of(v, body.span)).collect::<Option<Vec<ExprId>>>()
            }
            Some(value) => self.expr_of(value, body.span).map(|e| vec![e]),
            None => None,
        };
        self.scope.pop_frame();
        Some(Value::IndexMap(vars, results?))
    }

    /// `T.BufferLoad(A, [i, j])`
    pub(super) fn buffer_load(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["buffer", "indices"], 2)?;
        let (buffer, list) = (args[0]?, args[1]?);
        let (b, items) = match (self.eval(buffer)?, &list.kind) {
            (Value::Buffer(b), ExprKind::List(items) | ExprKind::Tuple(items)) => (b, items),
            (Value::Buffer(_), _) => {
                let message = "expected a list of indices";
                return self.fail(Diagnostic::error_at("wrong-argument", list.span, message));
            }
            (other, _) => {
                let message = format!("expected a buffer, found {}", other.describe());
                return self.fail(Diagnostic::error_at("wrong-argument", buffer.span, message));
            }
        };
        if items.len() != self.rank(b) {
            return self.wrong_rank(b, items.len(), list.span);
        }
        let indices = self.index_items(b, items)?;
        Some(Value::Expr(self.func.arena.load(b, &indices)))
    }

    /// `T.IntImm("int32", 1)`, `T.FloatImm("float32", 1.5)`
    pub(super) fn immediate(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["dtype", "value", "span"], 2)?;
        let dtype = self.dtype(args[0]?)?;
        let at = args[1]?;
        match self.eval(at)? {
            value @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                self.literal(value, dtype, at.span).map(Value::Expr)
            }
            other => {
                let message = format!("expected a number, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", at.span, message))
            }
        }
    }

    /// `T.Var("x", "int32")`: a new variable, named by its assignment.
    pub(super) fn fresh_var(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["name", "dtype", "span"], 2)?;
        match self.eval(args[1]?)? {
            fresh @ Value::FreshPointer(_) => Some(fresh),
            Value::Type(ty) | Value::Fresh(ty) => Some(Value::Fresh(ty)),
            Value::Str(name) => Some(Value::Fresh(self.type_named(&name, args[1]?.span)?)),
            other => {
                let message = format!("expected a data type, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", args[1]?.span, message))
            }
        }
    }
}
