//! Annotations and attributes.

use super::Printer;
use super::number;
use crate::ir::{AttrValue, DType, Expr, ExprId, Func, ModuleAttrs, Symbol};
use crate::script::Dialect;

impl Printer<'_> {
    /// `{"key": value}`, keys in the spelling of the dialect.
    pub(super) fn attrs<'v>(&mut self, items: impl IntoIterator<Item = (Symbol, &'v AttrValue)>) {
        let mut items: Vec<(String, &AttrValue)> = items.into_iter().map(|(k, v)| (self.key(k.as_str()), v)).collect();
        items.sort_by(|a, b| a.0.cmp(&b.0));
        self.put("{");
        self.list(items, |p, (key, value)| {
            p.string(&key);
            p.put(": ");
            p.attr_value(value);
        });
        self.put("}");
    }

    /// `T.index_map(lambda i, j: (j, i))`
    fn index_map(&mut self, vars: &[ExprId], results: &[ExprId]) {
        let func = self.func;
        let scope = self.names.enter();
        self.put("T.index_map(lambda ");
        self.list(vars, |p, &e| {
            if let Some(v) = func.arena.as_var(e) {
                let name = p.names.define_var(func, v);
                p.put(name.as_str());
            }
        });
        self.put(": ");
        self.tuple(results, |p, &e| p.expr(e));
        if let Some(dtype) = vars.first().map(|&e| func.arena.dtype(e)).filter(|&t| t != DType::Int64) {
            self.put(&format!(", index_dtype=\"{dtype}\""));
        }
        self.put(")");
        self.names.leave(scope);
    }

    fn key(&self, key: &str) -> String {
        match (self.dialect, key.strip_prefix("tirx.")) {
            (Dialect::Classic, Some(rest)) => format!("tir.{rest}"),
            _ => key.to_string(),
        }
    }

    /// The name of the buffer with this data handle.
    fn buffer_of(&mut self, data: ExprId) {
        match self.func.arena.expr(data) {
            Expr::BufferData(b) => {
                let name = self.names.buffer(self.func, b);
                self.put(name.as_str());
            }
            // The reader never produces this.
            _ => self.expr(data),
        }
    }

    pub(super) fn attr_value(&mut self, value: &AttrValue) {
        match value {
            AttrValue::Int(v) => self.put(&v.to_string()),
            AttrValue::Float(v) if v.is_finite() => self.put(&number::float(*v)),
            AttrValue::Float(v) => self.put(&format!("T.float64({})", number::float(*v))),
            AttrValue::Bool(v) => self.put(if *v { "True" } else { "False" }),
            AttrValue::Str(v) => self.string(v.as_str()),
            AttrValue::None => self.put("None"),
            AttrValue::List(items) => {
                self.put("[");
                self.list(items, |p, v| p.attr_value(v));
                self.put("]");
            }
            AttrValue::Dict(items) => {
                self.put("{");
                self.list(items, |p, (key, value)| {
                    p.string(key.as_str());
                    p.put(": ");
                    p.attr_value(value);
                });
                self.put("}");
            }
            // Without its type, the expression would be read as a plain number.
            AttrValue::Expr(e)
                if self.func.arena.ty(*e) == DType::Int32.into() && self.func.arena.as_int(*e).is_some() =>
            {
                self.put("T.int32(");
                self.expr(*e);
                self.put(")");
            }
            AttrValue::Expr(e) => self.expr(*e),
            AttrValue::Buffer(data) => self.buffer_of(*data),
            AttrValue::Region { data, ranges } => {
                self.buffer_of(*data);
                self.box_of(ranges);
            }
            AttrValue::Object(kind, items) => {
                self.put(kind.name());
                self.put("(");
                self.list(items, |p, v| p.attr_value(v));
                self.put(")");
            }
            AttrValue::IndexMap(vars, results) => self.index_map(vars, results),
            AttrValue::Target(target) => {
                self.put("T.target(");
                self.attr_value(target);
                self.put(")");
            }
        }
    }
}

/// The lines for a module's attributes, at the indentation of its class.
pub(super) fn module_attributes(attributes: &ModuleAttrs, dialect: Dialect) -> String {
    let ModuleAttrs { attrs, global_infos, arena } = attributes;
    let owner = Func { arena: arena.clone(), ..Func::new("") };
    let mut p = Printer::new(&owner, dialect, 1, false);
    for (word, values) in [("module_attrs", attrs), ("module_global_infos", global_infos)] {
        if !values.is_empty() {
            p.line();
            p.put(&format!("I.{word}("));
            p.attrs(values.iter().map(|(k, v)| (*k, v)));
            p.put(")\n");
        }
    }
    p.out
}
