//! Evaluates the expressions of a schedule function.

use super::code::{Clause, Expr, ExprKind, Item};
use super::failure::{FunctionError, type_error};
use super::lambda;
use super::run::{Result, Run};
use super::value::{Value, range_items, range_len, rv_binary};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::BinOp;
use crate::schedule::arg::RvValue;
use crate::script::python::{BinaryOp, CompareOp};
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

/// The length of a text at most.
const MAX_TEXT: usize = 100_000;

pub(super) fn index_error(span: Span, message: String) -> FunctionError {
    Diagnostic::error_at("index", span, message).into()
}

impl<'a> Run<'a> {
    /// Evaluates an expression.
    pub(super) fn eval(&mut self, e: &'a Expr) -> Result<Value> {
        self.step(1, e.span)?;
        self.enter(e.span)?;
        let value = self.eval_kind(e)?;
        self.leave();
        Ok(value)
    }

    fn eval_kind(&mut self, e: &'a Expr) -> Result<Value> {
        Ok(match &e.kind {
            ExprKind::None => Value::None,
            ExprKind::Bool(v) => Value::Bool(*v),
            ExprKind::Int(v) => Value::Int(*v),
            ExprKind::Float(v) => Value::Float(*v),
            ExprKind::Str(s) => Value::Str(s.clone()),
            ExprKind::Local(v) => self.local(*v, e.span)?,
            ExprKind::Global(v) => self.globals.get(*v).cloned().flatten().ok_or_else(|| {
                FunctionError::from(Diagnostic::error_at("unbound-variable", e.span, "the variable has no value yet"))
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
                self.item(&value, &at, index.span, of.span)?
            }
            ExprKind::Slice(of, parts) => self.slice(of, parts, e.span)?,
            ExprKind::Attribute(of, name) => self.attribute(of, name, e.span)?,
            ExprKind::Neg(a) => match self.eval(a)? {
                Value::Float(v) => Value::Float(-v),
                other => self.binary(BinaryOp::Sub, Value::Int(0), other, e.span, a.span)?,
            },
            ExprKind::Not(a) => Value::Bool(!self.eval(a)?.truth(self.schedule)),
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.eval(a)?, self.eval(b)?);
                self.binary(*op, x, y, a.span, b.span)?
            }
            ExprKind::And(parts) | ExprKind::Or(parts) => {
                let stop = matches!(e.kind, ExprKind::Or(_));
                let mut last = Value::Bool(!stop);
                for part in parts {
                    last = self.eval(part)?;
                    if last.truth(self.schedule) == stop {
                        break;
                    }
                }
                last
            }
            ExprKind::Compare(first, rest) => self.comparison(first, rest)?,
            ExprKind::Conditional(parts) => {
                let [test, then, otherwise] = &**parts;
                let taken = if self.eval(test)?.truth(self.schedule) { then } else { otherwise };
                self.eval(taken)?
            }
            ExprKind::Lambda(l) => Value::Lambda(Arc::new(lambda::evaluate(self, l)?)),
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
            ExprKind::Typed(dtype, value) => match self.eval(value)? {
                v @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) => Value::Typed(*dtype, Box::new(v)),
                other => {
                    let found = other.describe(self.schedule);
                    return Err(type_error(value.span, format!("expected a constant number, found {found}")));
                }
            },
            ExprKind::Arithmetic(op, parts) => {
                let [a, b] = &**parts;
                let (x, y) = (self.eval(a)?, self.eval(b)?);
                self.arithmetic(*op, x, y, e.span)?
            }
            ExprKind::Param(_) | ExprKind::IfThenElse(_) | ExprKind::AxisSeparator => {
                return Err(type_error(e.span, "only an index map can use this"));
            }
            ExprKind::Method(m) => self.method(m)?,
            ExprKind::Special(which, parts) => self.special(*which, parts, e.span)?,
            ExprKind::Change(variable, change, args) => self.change(*variable, *change, args, e.span)?,
            ExprKind::Call(function, args, keywords) => self.user_call(*function, args, keywords, e.span)?,
        })
    }

    /// The values of items; starred ones are spread.
    pub(super) fn items(&mut self, items: &'a [Item]) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(&item.value)?;
            if item.star {
                values.extend(self.iterate(value, item.value.span)?);
            } else {
                values.push(value);
            }
        }
        Ok(values)
    }

    fn dict(&mut self, items: &'a [(Expr, Expr)]) -> Result<Value> {
        let mut dict: Vec<(Arc<str>, Value)> = Vec::with_capacity(items.len());
        for (k, v) in items {
            let key = match self.eval(k)? {
                Value::Str(s) => s,
                other => {
                    let found = other.describe(self.schedule);
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
    pub(super) fn item(&mut self, value: &Value, at: &Value, at_span: Span, of: Span) -> Result<Value> {
        if let (Value::Dict(items), Value::Str(key)) = (value, at) {
            let found = items.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
            return found.ok_or_else(|| index_error(at_span, format!("the dictionary has no key `{key}`")));
        }
        let n = match value {
            Value::Sequence(s) => s.items.len(),
            Value::Range(a, b, step) => range_len(*a, *b, *step),
            _ => {
                let found = value.describe(self.schedule);
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
    pub(super) fn position(&self, at: &Value, n: usize, at_span: Span, of: Span) -> Result<usize> {
        let Some(i) = at.int(self.schedule) else {
            let found = at.describe(self.schedule);
            return Err(type_error(at_span, format!("expected an integer as the index, found {found}")));
        };
        let from_start = if i < 0 { i.checked_add(n as i64) } else { Some(i) };
        from_start.and_then(|i| usize::try_from(i).ok()).filter(|&i| i < n).ok_or_else(|| {
            let items = if n == 1 { "item" } else { "items" };
            let d = Diagnostic::error_at("index", at_span, format!("index {i} is out of range"));
            d.label(of, format!("has {n} {items}")).into()
        })
    }

    fn slice(&mut self, of: &'a Expr, parts: &'a [Option<Expr>; 3], span: Span) -> Result<Value> {
        let value = self.eval(of)?;
        let mut bounds = [None; 3];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                let v = self.eval(part)?;
                if !matches!(v, Value::None) {
                    let found = v.describe(self.schedule);
                    let error = || type_error(part.span, format!("expected an integer as the bound, found {found}"));
                    *bound = Some(v.int(self.schedule).ok_or_else(error)?);
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
                let found = value.describe(self.schedule);
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

    fn attribute(&mut self, of: &'a Expr, name: &'a str, span: Span) -> Result<Value> {
        let value = self.eval(of)?;
        let Value::View(rv) = value else {
            let found = value.describe(self.schedule);
            return Err(type_error(span, format!("{found} has no attribute `{name}`")));
        };
        let known = match self.schedule.value(rv) {
            Ok(RvValue::Loop(func, l)) => {
                let f = self.schedule.func(func);
                let l = f.loop_(l);
                let constant = |e| f.arena.as_int(e).map(Value::Int);
                match name {
                    "extent" => constant(l.extent),
                    "min" => constant(l.min),
                    _ => return Err(unknown_attribute(name, "loop", "`extent` and `min`", span)),
                }
            }
            Ok(RvValue::Block(func, b)) => match name {
                "name_hint" | "name" => Some(Value::Str(self.schedule.func(func).block(b).name.as_str().into())),
                _ => return Err(unknown_attribute(name, "block", "`name_hint`", span)),
            },
            _ => None,
        };
        known.ok_or_else(|| type_error(span, format!("`{name}` is not constant")))
    }

    fn comprehension(&mut self, element: &'a Expr, clauses: &'a [Clause], out: &mut Vec<Value>) -> Result<()> {
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
            Clause::If(test) => match self.eval(test)?.truth(self.schedule) {
                true => self.comprehension(element, rest, out),
                false => Ok(()),
            },
        }
    }

    fn comparison(&mut self, first: &'a Expr, rest: &'a [(CompareOp, Expr)]) -> Result<Value> {
        let mut left = self.eval(first)?;
        for (op, right) in rest {
            let value = self.eval(right)?;
            if !self.compare(*op, &left, &value, first.span.to(right.span))? {
                return Ok(Value::Bool(false));
            }
            left = value;
        }
        Ok(Value::Bool(true))
    }

    /// Does the comparison hold? A sampled number is compared by its present value.
    fn compare(&mut self, op: CompareOp, a: &Value, b: &Value, span: Span) -> Result<bool> {
        let same = |run: &mut Self| run.equal(a, b, span);
        Ok(match op {
            CompareOp::Eq => same(self)?,
            CompareOp::Ne => !same(self)?,
            CompareOp::Is | CompareOp::IsNot => {
                let identical = match (a, b) {
                    (Value::None, Value::None) => true,
                    (Value::None, _) | (_, Value::None) => false,
                    _ => same(self)?,
                };
                identical == (op == CompareOp::Is)
            }
            CompareOp::In | CompareOp::NotIn => {
                let found = match (a, b) {
                    (Value::Str(part), Value::Str(text)) => text.contains(&**part),
                    _ => {
                        let mut found = false;
                        for item in self.iterate(b.clone(), span)? {
                            found = found || self.equal(a, &item, span)?;
                        }
                        found
                    }
                };
                found == (op == CompareOp::In)
            }
            CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge => {
                let order = self.order(a, b, span)?;
                match op {
                    CompareOp::Lt => order == Some(Ordering::Less),
                    CompareOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    CompareOp::Gt => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }
            }
        })
    }

    pub(super) fn order(&self, a: &Value, b: &Value, span: Span) -> Result<Option<Ordering>> {
        if let (Some(x), Some(y)) = (a.int(self.schedule), b.int(self.schedule)) {
            return Ok(Some(x.cmp(&y)));
        }
        if let (Some(x), Some(y)) = (a.number(self.schedule), b.number(self.schedule)) {
            return Ok(x.partial_cmp(&y));
        }
        match (a, b) {
            (Value::Str(x), Value::Str(y)) => Ok(Some(x.cmp(y))),
            _ => {
                let (x, y) = (a.describe(self.schedule), b.describe(self.schedule));
                Err(type_error(span, format!("cannot order {x} and {y}")))
            }
        }
    }

    fn equal(&mut self, a: &Value, b: &Value, span: Span) -> Result<bool> {
        self.step(1, span)?;
        if let (Some(x), Some(y)) = (a.int(self.schedule), b.int(self.schedule)) {
            return Ok(x == y);
        }
        if let (Some(x), Some(y)) = (a.number(self.schedule), b.number(self.schedule)) {
            return Ok(x == y);
        }
        Ok(match (a, b) {
            (Value::None, Value::None) | (Value::Schedule, Value::Schedule) => true,
            (Value::Str(x), Value::Str(y)) => x == y,
            (Value::Rv(x), Value::Rv(y)) => self.schedule.value(*x).ok() == self.schedule.value(*y).ok(),
            (Value::Range(..), Value::Range(..)) => {
                let (x, y) = (self.iterate(a.clone(), span)?, self.iterate(b.clone(), span)?);
                self.all_equal(&x, &y, span)?
            }
            (Value::Sequence(x), Value::Sequence(y)) => {
                x.tuple == y.tuple && self.all_equal(&x.items, &y.items, span)?
            }
            (Value::Typed(t, x), Value::Typed(u, y)) => t == u && self.equal(x, y, span)?,
            _ => false,
        })
    }

    fn all_equal(&mut self, x: &[Value], y: &[Value], span: Span) -> Result<bool> {
        if x.len() != y.len() {
            return Ok(false);
        }
        for (a, b) in x.iter().zip(y) {
            if !self.equal(a, b, span)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `a op b`
    pub(super) fn binary(&mut self, op: BinaryOp, a: Value, b: Value, a_span: Span, b_span: Span) -> Result<Value> {
        let span = a_span.to(b_span);
        match (op, &a, &b) {
            (BinaryOp::Add, Value::Sequence(x), Value::Sequence(y)) if x.tuple == y.tuple => {
                let items = x.items.iter().chain(&y.items).cloned().collect();
                return self.list(items, x.tuple, span);
            }
            (BinaryOp::Mul, Value::Sequence(s), Value::Int(n)) | (BinaryOp::Mul, Value::Int(n), Value::Sequence(s)) => {
                let n = usize::try_from(*n).unwrap_or(0);
                self.step(s.items.len().saturating_mul(n), span)?;
                let items = std::iter::repeat_n(&s.items, n).flatten().cloned().collect();
                return self.list(items, s.tuple, span);
            }
            (BinaryOp::Add, Value::Str(x), Value::Str(y)) => return self.limited(format!("{x}{y}"), span),
            _ => {}
        }
        let ir_op = match op {
            BinaryOp::Add => Some(BinOp::Add),
            BinaryOp::Sub => Some(BinOp::Sub),
            BinaryOp::Mul => Some(BinOp::Mul),
            BinaryOp::FloorDiv => Some(BinOp::FloorDiv),
            BinaryOp::Mod => Some(BinOp::FloorMod),
            _ => None,
        };
        if let Some(ir_op) = ir_op
            && a.int(self.schedule).is_some()
            && b.int(self.schedule).is_some()
        {
            return self.arithmetic(ir_op, a, b, span);
        }
        if let (Value::Int(x), Value::Int(y)) = (&a, &b)
            && let Some(v) = integer_only(op, *x, *y)
        {
            return v.map(Value::Int).ok_or_else(|| undefined(op.token(), span));
        }
        if let (Value::Rv(_) | Value::Expr(_), _) | (_, Value::Rv(_) | Value::Expr(_)) = (&a, &b)
            && op == BinaryOp::Div
            && a.int(self.schedule).is_some()
            && b.int(self.schedule).is_some()
        {
            let d = Diagnostic::error_at("type", span, "a sampled number cannot be divided with `/`");
            return Err(d.help("divide integers with `//`").into());
        }
        if let (Some(x), Some(y)) = (a.number(self.schedule), b.number(self.schedule)) {
            let v = match op {
                BinaryOp::Add => Some(x + y),
                BinaryOp::Sub => Some(x - y),
                BinaryOp::Mul => Some(x * y),
                BinaryOp::Pow => Some(x.powf(y)),
                BinaryOp::Div if y != 0.0 => Some(x / y),
                BinaryOp::FloorDiv if y != 0.0 => Some((x / y).floor()),
                BinaryOp::Mod if y != 0.0 => Some(x - (x / y).floor() * y),
                BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod => return Err(undefined(op.token(), span)),
                _ => None,
            };
            if let Some(v) = v {
                return Ok(Value::Float(v));
            }
        }
        let (x, y) = (a.describe(self.schedule), b.describe(self.schedule));
        Err(type_error(span, format!("`{}` is not possible between {x} and {y}", op.token())))
    }

    /// Arithmetic on integers; with sampled numbers, the result is symbolic.
    pub(super) fn arithmetic(&mut self, op: BinOp, a: Value, b: Value, span: Span) -> Result<Value> {
        let (Some(x), Some(y)) = (a.as_rv_expr(self.schedule), b.as_rv_expr(self.schedule)) else {
            let (x, y) = (a.describe(self.schedule), b.describe(self.schedule));
            return Err(type_error(span, format!("expected integers, found {x} and {y}")));
        };
        let symbolic = matches!(a, Value::Rv(_) | Value::Expr(_)) || matches!(b, Value::Rv(_) | Value::Expr(_));
        let expr = rv_binary(op, x, y)
            .ok_or_else(|| Diagnostic::error_at("limit", span, "arithmetic on sampled numbers is nested too deep"))?;
        let value = expr.eval(&|rv| self.schedule.int_value(rv));
        match (value, symbolic) {
            (None, _) => Err(not_defined("the result", span)),
            (Some(v), false) => Ok(Value::Int(v)),
            (Some(_), true) => Ok(Value::Expr(Arc::new(expr))),
        }
    }

    /// The text of a value in an f-string or `str`.
    pub(super) fn text(&mut self, value: &Value, span: Span) -> Result<String> {
        Ok(match value {
            Value::Str(s) => s.to_string(),
            Value::Int(v) => v.to_string(),
            Value::Bool(v) => if *v { "True" } else { "False" }.to_string(),
            Value::None => "None".to_string(),
            Value::Float(v) => format!("{v:?}"),
            Value::Rv(_) | Value::Expr(_) if value.int(self.schedule).is_some() => {
                value.int(self.schedule).unwrap_or_default().to_string()
            }
            other => {
                let found = other.describe(self.schedule);
                return Err(type_error(span, format!("expected a number or text, found {found}")));
            }
        })
    }

    pub(super) fn limited(&mut self, text: String, span: Span) -> Result<Value> {
        if text.len() > MAX_TEXT {
            return Err(Diagnostic::error_at("limit", span, format!("the text is longer than {MAX_TEXT} bytes")).into());
        }
        self.step(text.len() / 16, span)?;
        Ok(Value::Str(text.into()))
    }
}

fn unknown_attribute(name: &str, what: &str, known: &str, span: Span) -> FunctionError {
    type_error(span, format!("a {what} shows {known} here, not `{name}`"))
}

pub(super) fn undefined(what: &str, span: Span) -> FunctionError {
    not_defined(&format!("the result of `{what}`"), span)
}

fn not_defined(result: &str, span: Span) -> FunctionError {
    Diagnostic::error_at("arithmetic", span, format!("{result} is not defined"))
        .help("it divides by zero, or does not fit 64 bits")
        .into()
}

/// Applies an operator that exists for integers only; the inner `None` is an undefined result.
fn integer_only(op: BinaryOp, x: i64, y: i64) -> Option<Option<i64>> {
    let shift = |y: i64| u32::try_from(y).ok().filter(|&n| n < 64);
    match op {
        BinaryOp::Pow if y >= 0 => Some(u32::try_from(y).ok().and_then(|y| x.checked_pow(y))),
        BinaryOp::Shl => Some(shift(y).and_then(|n| x.checked_mul(1i64.checked_shl(n)?)).filter(|_| y < 63)),
        BinaryOp::Shr => Some(shift(y).map(|n| x >> n)),
        BinaryOp::BitAnd => Some(Some(x & y)),
        BinaryOp::BitOr => Some(Some(x | y)),
        BinaryOp::BitXor => Some(Some(x ^ y)),
        _ => None,
    }
}
