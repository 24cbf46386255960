//! Evaluates the expressions of a text.

use super::Library;
use super::code::{Clause, Entry, Expr, ExprKind, Item};
use super::failure::{Failure, type_error};
use super::run::{Result, Run, ValueOf};
use super::value::{Value, range_items, range_len};
use crate::diagnostic::{Diagnostic, Span};
use std::rc::Rc;
use std::sync::Arc;

/// The length of a text at most.
const MAX_TEXT: usize = 100_000;

/// The error of an index that is out of range.
pub(crate) fn index_error<C>(span: Span, message: String) -> Failure<C> {
    Diagnostic::error_at("index", span, message).into()
}

impl<'a, L: Library> Run<'a, L> {
    /// Evaluates an expression.
    pub(crate) fn eval(&mut self, e: &'a Expr<L::Code>) -> Result<ValueOf<L>, L> {
        self.step(1, e.span)?;
        self.enter(e.span)?;
        let value = self.eval_kind(e)?;
        self.leave();
        Ok(value)
    }

    fn eval_kind(&mut self, e: &'a Expr<L::Code>) -> Result<ValueOf<L>, L> {
        Ok(match &e.kind {
            ExprKind::None => Value::None,
            ExprKind::Bool(v) => Value::Bool(*v),
            ExprKind::Int(v) => Value::Int(*v),
            ExprKind::Float(v) => Value::Float(*v),
            ExprKind::Str(s) => Value::Str(s.clone()),
            ExprKind::Local(v) => self.local(*v, e.span)?,
            ExprKind::Global(v) => self.globals.get(*v).cloned().flatten().ok_or_else(|| {
                Failure::from(Diagnostic::error_at("unbound-variable", e.span, "the variable has no value yet"))
            })?,
            ExprKind::List(items) => {
                let items = self.items(items)?;
                self.list(items, false, e.span)?
            }
            ExprKind::Tuple(items) => {
                let items = self.items(items)?;
                self.list(items, true, e.span)?
            }
            ExprKind::Dict(items) => self.dict(items)?,
            ExprKind::Index(of, index) => {
                let value = self.eval(of)?;
                let at = self.eval(index)?;
                match &value {
                    Value::Own(own) => match L::index(self, own, &at, e.span)? {
                        Some(item) => item,
                        None => self.item(&value, &at, index.span, of.span)?,
                    },
                    _ => self.item(&value, &at, index.span, of.span)?,
                }
            }
            ExprKind::Slice(of, parts) => self.slice(of, parts, e.span)?,
            ExprKind::Attribute(of, name) => self.attribute(of, name, e.span)?,
            ExprKind::Neg(a) => {
                let value = self.eval(a)?;
                self.negate(value, a.span, e.span)?
            }
            ExprKind::Invert(a) => {
                let value = self.eval(a)?;
                self.invert(value, e.span)?
            }
            ExprKind::Not(a) => Value::Bool(!self.test(a)?),
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.eval(a)?, self.eval(b)?);
                self.binary(*op, x, y, a.span, b.span)?
            }
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                let stop = matches!(e.kind, ExprKind::Or(_));
                let mut last = Value::Bool(!stop);
                for part in parts {
                    last = self.eval(part)?;
                    if self.truth(&last, part.span)? == stop {
                        break;
                    }
                }
                last
            }
            ExprKind::Compare(first, rest) => self.comparison(first, rest)?,
            ExprKind::Conditional(parts) => {
                let [test, then, otherwise] = &**parts;
                let taken = if self.test(test)? { then } else { otherwise };
                self.eval(taken)?
            }
            ExprKind::Closure(function, captured) => self.closure(*function, captured, e.span)?,
            ExprKind::Comprehension(element, clauses) => {
                let mut items = Vec::new();
                self.comprehension(element, clauses, &mut items)?;
                self.list(items, false, e.span)?
            }
            ExprKind::Format(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    let value = self.eval(piece)?;
                    text.push_str(&self.text(&value, piece.span)?);
                }
                self.limited(text, e.span)?
            }
            ExprKind::Builtin(f, args, keywords) => {
                let spans: Vec<Span> = args.iter().map(|a| a.value.span).collect();
                let args = self.items(args)?;
                let keyword = match keywords.first() {
                    Some((_, _, value)) => Some(self.eval(value)?),
                    None => None,
                };
                self.builtin(*f, args, keyword, &spans, e.span)?
            }
            ExprKind::Param(_) => return Err(type_error(e.span, "only a formula of indices can use this")),
            ExprKind::Own(code) => L::eval(self, code, e.span)?,
            ExprKind::Change(variable, change, args) => self.change(*variable, *change, args, e.span)?,
            ExprKind::Call(function, args) => {
                let args = self.arguments(args)?;
                self.call_function(*function, &[], args, e.span)?
            }
            ExprKind::CallValue(callee, args) => {
                let value = self.eval(callee)?;
                let args = self.arguments(args)?;
                self.call_value(&value, args, callee.span, e.span)?
            }
        })
    }

    /// Does the value of a condition count as true?
    pub(super) fn test(&mut self, e: &'a Expr<L::Code>) -> Result<bool, L> {
        let value = self.eval(e)?;
        self.truth(&value, e.span)
    }

    /// The values of items; starred ones are spread.
    pub(crate) fn items(&mut self, items: &'a [Item<L::Code>]) -> Result<Vec<ValueOf<L>>, L> {
        Ok(self.spread(items)?.0)
    }

    fn dict(&mut self, items: &'a [Entry<L::Code>]) -> Result<ValueOf<L>, L> {
        let mut dict: Vec<(Arc<str>, ValueOf<L>)> = Vec::with_capacity(items.len());
        for (k, v) in items {
            let key = match self.eval(k)? {
                Value::Str(s) => s,
                other => {
                    let found = other.describe(&self.library);
                    return Err(type_error(k.span, format!("expected a text as the key, found {found}")));
                }
            };
            let value = self.eval(v)?;
            match dict.iter_mut().find(|(old, _)| *old == key) {
                Some(entry) => entry.1 = value,
                None => dict.push((key, value)),
            }
        }
        let dict = Value::Dict(Rc::new(dict));
        match (dict.depth() > super::value::MAX_DEPTH, items.first()) {
            (true, Some((k, _))) => Err(Diagnostic::error_at("limit", k.span, "values are nested too deep").into()),
            _ => Ok(dict),
        }
    }

    /// `value[at]`
    pub(crate) fn item(
        &mut self,
        value: &ValueOf<L>,
        at: &ValueOf<L>,
        at_span: Span,
        of: Span,
    ) -> Result<ValueOf<L>, L> {
        if let (Value::Dict(items), Value::Str(key)) = (value, at) {
            let found = items.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
            return found.ok_or_else(|| index_error(at_span, format!("the dictionary has no key `{key}`")));
        }
        let n = match value {
            Value::Sequence(s) => s.items.len(),
            Value::Range(a, b, step) => range_len(*a, *b, *step),
            _ => {
                let found = value.describe(&self.library);
                return Err(type_error(of, format!("expected a list or tuple to take an item of, found {found}")));
            }
        };
        let i = self.position(at, n, at_span, of)?;
        Ok(match value {
            Value::Range(a, _, step) => Value::Int(a + i as i64 * step),
            Value::Sequence(s) => s.items[i].clone(),
            _ => Value::None,
        })
    }

    /// The position of an index among `n` items.
    pub(crate) fn position(&self, at: &ValueOf<L>, n: usize, at_span: Span, of: Span) -> Result<usize, L> {
        let Some(i) = at.int(&self.library) else {
            let found = at.describe(&self.library);
            return Err(type_error(at_span, format!("expected an integer as the index, found {found}")));
        };
        let from_start = if i < 0 { i.checked_add(n as i64) } else { Some(i) };
        from_start.and_then(|i| usize::try_from(i).ok()).filter(|&i| i < n).ok_or_else(|| {
            let items = if n == 1 { "item" } else { "items" };
            let d = Diagnostic::error_at("index", at_span, format!("index {i} is out of range"));
            d.label(of, format!("has {n} {items}")).into()
        })
    }

    fn slice(
        &mut self,
        of: &'a Expr<L::Code>,
        parts: &'a [Option<Expr<L::Code>>; 3],
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        let value = self.eval(of)?;
        let mut bounds = [None; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                let v = self.eval(part)?;
                if !matches!(v, Value::None) {
                    let found = v.describe(&self.library);
                    let error = || type_error(part.span, format!("expected an integer as the bound, found {found}"));
                    *bound = Some(v.int(&self.library).ok_or_else(error)?);
                }
            }
        }
        let (items, tuple) = match &value {
            Value::Sequence(s) => (s.items.clone(), s.tuple),
            Value::Range(a, b, step) => {
                self.step(range_len(*a, *b, *step), span)?;
                (range_items(*a, *b, *step).map(Value::Int).collect(), false)
            }
            _ => {
                let found = value.describe(&self.library);
                return Err(type_error(of.span, format!("expected a list or tuple to slice, found {found}")));
            }
        };
        let n = items.len() as i64;
        let step = bounds[2].unwrap_or(1);
        if step == 0 {
            return Err(index_error(span, "a slice cannot have the step 0".to_string()));
        }
        let clamp = |bound: i64, low: i64, high: i64| {
            let from_start = if bound < 0 { bound.saturating_add(n) } else { bound };
            from_start.clamp(low, high)
        };
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let start = bounds[0].map_or(if step > 0 { low } else { high }, |b| clamp(b, low, high));
        let stop = bounds[1].map_or(if step > 0 { high } else { low }, |b| clamp(b, low, high));
        let taken = range_items(start, stop, step).map(|i| items[i as usize].clone()).collect();
        self.list(taken, tuple, span)
    }

    fn attribute(&mut self, of: &'a Expr<L::Code>, name: &'a str, span: Span) -> Result<ValueOf<L>, L> {
        let value = self.eval(of)?;
        L::attribute(self, &value, name, span)
    }

    fn comprehension(
        &mut self,
        element: &'a Expr<L::Code>,
        clauses: &'a [Clause<L::Code>],
        out: &mut Vec<ValueOf<L>>,
    ) -> Result<(), L> {
        let Some((clause, rest)) = clauses.split_first() else {
            out.push(self.eval(element)?);
            return Ok(());
        };
        match clause {
            Clause::For(target, iter) => {
                let items = self.eval(iter)?;
                for item in self.iterate(items, iter.span)? {
                    self.step(1, iter.span)?;
                    self.assign(target, item, iter.span)?;
                    self.comprehension(element, rest, out)?;
                }
                Ok(())
            }
            Clause::If(test) => match self.test(test)? {
                true => self.comprehension(element, rest, out),
                false => Ok(()),
            },
        }
    }

    /// The text of a value in an f-string or `str`.
    pub(crate) fn text(&mut self, value: &ValueOf<L>, span: Span) -> Result<String, L> {
        Ok(match value {
            Value::Str(s) => s.to_string(),
            Value::Int(v) => v.to_string(),
            Value::Bool(v) => if *v { "True" } else { "False" }.to_string(),
            Value::None => "None".to_string(),
            Value::Float(v) => format!("{v:?}"),
            Value::Own(_) if value.int(&self.library).is_some() => {
                value.int(&self.library).unwrap_or_default().to_string()
            }
            other => {
                let found = other.describe(&self.library);
                return Err(type_error(span, format!("expected a number or text, found {found}")));
            }
        })
    }

    pub(crate) fn limited(&mut self, text: String, span: Span) -> Result<ValueOf<L>, L> {
        if text.len() > MAX_TEXT {
            return Err(Diagnostic::error_at("limit", span, format!("the text is longer than {MAX_TEXT} bytes")).into());
        }
        self.step(text.len() / 16, span)?;
        Ok(Value::Str(text.into()))
    }
}
