//! Annotations and attributes.

use super::Printer;
use super::number;
use crate::ir::{AttrValue, Symbol};
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

    fn key(&self, key: &str) -> String {
        match (self.dialect, key.strip_prefix("tirx.")) {
            (Dialect::Classic, Some(rest)) => format!("tir.{rest}"),
            _ => key.to_string(),
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
            AttrValue::Expr(e) => self.expr(*e),
            AttrValue::Target(target) => {
                self.put("T.target(");
                self.attr_value(target);
                self.put(")");
            }
        }
    }
}
