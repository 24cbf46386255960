//! Values of annotations and attributes.

use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{AttrValue, Symbol};
use crate::script::Dialect;
use crate::script::python::{Expr, ExprKind};

impl<'a> FuncReader<'a, '_> {
    /// `{"key": value}` as annotations; keys in the order of the text.
    pub(super) fn annotations(&mut self, e: &Expr<'a>) -> Option<Vec<(Symbol, AttrValue)>> {
        if let ExprKind::Dict(items) = &e.kind
            && items.iter().any(|(key, value)| key.is_some() && holds_slice(value))
        {
            let items: Vec<Option<(Symbol, AttrValue)>> = items
                .iter()
                .map(|(key, value)| {
                    let key = self.text(key.as_ref()?)?;
                    Some((self.key(key.as_str()), self.written_value(value)?))
                })
                .collect();
            return items.into_iter().collect();
        }
        match self.eval(e)? {
            Value::Dict(items) => {
                let items: Vec<Option<(Symbol, AttrValue)>> =
                    items.into_iter().map(|(k, v)| Some((self.key(&k), self.attr_value(v, e.span)?))).collect();
                items.into_iter().collect()
            }
            Value::None => Some(Vec::new()),
            other => {
                let message = format!("expected a dictionary, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message).help("write `{\"key\": value}`"))
            }
        }
    }

    /// A key in the current spelling. If the text is not purely classic, every key stays as it is, as in TVM.
    fn key(&mut self, key: &str) -> Symbol {
        if let Some(rest) = key.strip_prefix("tir.").filter(|_| self.file.meaning == Some(Dialect::Classic)) {
            self.file.vote(Dialect::Classic);
            return Symbol::new(&format!("tirx.{rest}"));
        }
        if key.starts_with("tirx.") {
            self.file.vote(Dialect::Current);
        }
        Symbol::new(key)
    }

    /// The value of an expression in an annotation, where `A[0:4]` is a region of a buffer, not a vector.
    fn written_value(&mut self, e: &Expr<'a>) -> Option<AttrValue> {
        match &e.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                let items: Vec<Option<AttrValue>> = items.iter().map(|e| self.written_value(e)).collect();
                items.into_iter().collect::<Option<_>>().map(AttrValue::List)
            }
            ExprKind::Subscript(owner, _) if holds_slice(e) && matches!(self.eval(owner)?, Value::Buffer(_)) => {
                let region = self.region(e)?;
                let data = self.func.arena.buffer_data(region.buffer);
                Some(AttrValue::Region { data, ranges: region.ranges(&self.func.arena).collect() })
            }
            _ => {
                let value = self.eval(e)?;
                self.attr_value(value, e.span)
            }
        }
    }

    pub(super) fn attr_value(&mut self, value: Value, span: Span) -> Option<AttrValue> {
        Some(match value {
            Value::Int(v) => match i64::try_from(v) {
                Ok(v) => AttrValue::Int(v),
                Err(_) => {
                    return self.fail(Diagnostic::error_at("literal-range", span, format!("{v} does not fit 64 bits")));
                }
            },
            Value::Float(v) => AttrValue::Float(v),
            Value::Bool(v) => AttrValue::Bool(v),
            Value::Str(v) => AttrValue::Str(Symbol::new(&v)),
            Value::None => AttrValue::None,
            Value::Expr(e) => AttrValue::Expr(e),
            Value::Buffer(b) => AttrValue::Buffer(self.func.arena.buffer_data(b)),
            Value::Type(t) => AttrValue::Str(t.to_string().as_str().into()),
            Value::Target(target) => AttrValue::Target(Box::new(self.attr_value(*target, span)?)),
            Value::Object(kind, items) => {
                let items: Vec<Option<AttrValue>> = items.into_iter().map(|v| self.attr_value(v, span)).collect();
                AttrValue::Object(kind, items.into_iter().collect::<Option<_>>()?)
            }
            Value::IndexMap(vars, results) => AttrValue::IndexMap(vars, results),
            Value::Seq(items) => {
                let items: Vec<Option<AttrValue>> = items.into_iter().map(|v| self.attr_value(v, span)).collect();
                AttrValue::List(items.into_iter().collect::<Option<_>>()?)
            }
            Value::Dict(items) => {
                let items: Vec<Option<(Symbol, AttrValue)>> =
                    items.into_iter().map(|(k, v)| Some((Symbol::new(&k), self.attr_value(v, span)?))).collect();
                let mut items: Vec<(Symbol, AttrValue)> = items.into_iter().collect::<Option<_>>()?;
                items.sort_by_key(|i| i.0);
                AttrValue::Dict(items)
            }
            other => {
                let message = format!("expected a number, text, list or dictionary, found {}", other.describe());
                return self.fail(Diagnostic::error_at("wrong-argument", span, message));
            }
        })
    }

    /// Merges annotations into others; a key in both must have the same value.
    pub(super) fn merge_annotations(
        &mut self,
        into: &mut Vec<(Symbol, AttrValue)>,
        new: Vec<(Symbol, AttrValue)>,
        at: &Expr<'a>,
    ) {
        for (key, value) in new {
            match into.iter().find(|x| x.0 == key) {
                Some((_, old)) if *old == value => {}
                Some(_) => {
                    let span = self.key_span(at, key);
                    self.error(Diagnostic::error_at("duplicate-name", span, format!("`{key}` is given twice")));
                }
                None => into.push((key, value)),
            }
        }
    }

    /// The place of a key in a dictionary.
    fn key_span(&self, e: &Expr<'a>, key: Symbol) -> Span {
        let ExprKind::Dict(items) = &e.kind else { return e.span };
        let found = items.iter().filter_map(|i| i.0.as_ref()).find(|k| match &k.kind {
            ExprKind::Str(s) => key == **s,
            _ => false,
        });
        found.map_or(e.span, |k| k.span)
    }
}

/// Whether an expression contains a subscript with a slice, outside of calls and operators.
fn holds_slice(e: &Expr<'_>) -> bool {
    match &e.kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().any(holds_slice),
        ExprKind::Subscript(_, index) => match &index.kind {
            ExprKind::Tuple(items) => items.iter().any(|i| matches!(i.kind, ExprKind::Slice(_))),
            kind => matches!(kind, ExprKind::Slice(_)),
        },
        _ => false,
    }
}
