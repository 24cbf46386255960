//! Runs the statements of a text.

use super::Library;
use super::builtin::Builtin;
use super::code::{Function, Stmt, StmtKind, Target, TargetKind};
use super::failure::{Failure, type_error};
use super::value::{Value, range_items, range_len};
use crate::diagnostic::{Diagnostic, Span};
use std::rc::Rc;

/// Steps of a run at most. An iteration of a loop, an operation and an item are one step each.
pub(super) const MAX_STEPS: usize = 5_000_000;

/// The nesting of calls at most.
const MAX_CALLS: usize = 40;

/// The nesting of expressions and bodies at most, over all open calls.
const MAX_NESTING: usize = 500;

/// A value of a run, or what stopped it.
pub(crate) type Result<T, L> = std::result::Result<T, Failure<<L as Library>::Cause>>;

/// The values of a library's runs.
pub(crate) type ValueOf<L> = Value<<L as Library>::Value>;

/// A running text.
pub(crate) struct Run<'a, L: Library> {
    /// The library.
    pub library: L,
    /// The functions of the text.
    pub functions: &'a [Function<L::Code>],
    /// Global variables.
    pub globals: Vec<Option<ValueOf<L>>>,
    /// Variables of the running function.
    pub locals: Vec<Option<ValueOf<L>>>,
    /// The running function.
    pub function: &'a Function<L::Code>,
    /// Steps left.
    pub steps: usize,
    /// The number of open calls.
    depth: usize,
    /// The number of open expressions and bodies, which limits the use of the stack.
    pub nesting: usize,
}

/// The way in which a statement ended.
enum Flow<V> {
    Next,
    Break,
    Continue,
    Return(Value<V>),
}

impl<'a, L: Library> Run<'a, L> {
    /// A run of `function` without variables.
    pub(crate) fn new(library: L, functions: &'a [Function<L::Code>], function: &'a Function<L::Code>) -> Run<'a, L> {
        Run {
            library,
            functions,
            globals: Vec::new(),
            locals: vec![None; function.locals.len()],
            function,
            steps: MAX_STEPS,
            depth: 0,
            nesting: 0,
        }
    }

    /// Counts steps.
    pub(crate) fn step(&mut self, n: usize, span: Span) -> Result<(), L> {
        if let Some(failure) = self.library.stopped(span) {
            return Err(failure);
        }
        match self.steps.checked_sub(n) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err(Diagnostic::error_at("limit", span, format!("gave up after {MAX_STEPS} steps"))
                .help("look for a loop that does not end")
                .into()),
        }
    }

    /// Runs the body of the function, and returns its result.
    pub(crate) fn body(&mut self) -> Result<ValueOf<L>, L> {
        let function = self.function;
        match self.block(&function.body)? {
            Flow::Return(value) => Ok(value),
            Flow::Next | Flow::Break | Flow::Continue => Ok(Value::None),
        }
    }

    /// Calls another function of the text with these variables.
    pub(crate) fn call(
        &mut self,
        function: &'a Function<L::Code>,
        locals: Vec<Option<ValueOf<L>>>,
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        if self.depth == MAX_CALLS {
            let message = format!("functions call each other more than {MAX_CALLS} levels deep");
            return Err(Diagnostic::error_at("limit", span, message).into());
        }
        self.depth += 1;
        let caller = std::mem::replace(&mut self.function, function);
        let saved = std::mem::replace(&mut self.locals, locals);
        let result = self.body();
        self.function = caller;
        self.locals = saved;
        self.depth -= 1;
        result.map_err(|mut e| {
            // A recursive function fails at many levels of one place.
            if e.diagnostic.labels.iter().all(|l| l.span != span) {
                e.diagnostic.labels.push(crate::diagnostic::Label { span, text: "called from here".to_string() });
            }
            e
        })
    }

    /// Opens an expression or body; [`Run::leave`] closes it.
    pub(crate) fn enter(&mut self, span: Span) -> Result<(), L> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(Diagnostic::error_at("limit", span, "expressions and calls are nested too deep").into());
        }
        Ok(())
    }

    /// Closes what [`Run::enter`] opened.
    pub(crate) fn leave(&mut self) {
        self.nesting -= 1;
    }

    fn block(&mut self, body: &'a [Stmt<L::Code>]) -> Result<Flow<L::Value>, L> {
        for stmt in body {
            self.enter(stmt.span)?;
            let flow = self.stmt(stmt)?;
            self.leave();
            match flow {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn stmt(&mut self, stmt: &'a Stmt<L::Code>) -> Result<Flow<L::Value>, L> {
        self.step(1, stmt.span)?;
        match &stmt.kind {
            StmtKind::Expr(e) => {
                self.eval(e)?;
            }
            StmtKind::Assign(targets, value) => {
                let result = self.eval(value)?;
                for target in targets {
                    self.assign(target, result.clone(), value.span)?;
                }
            }
            StmtKind::Update(target, op, value) => {
                let old = match &target.kind {
                    TargetKind::Variable(v) => self.local(*v, target.span)?,
                    TargetKind::Item(v, index) => {
                        let list = self.local(*v, target.span)?;
                        let index_value = self.eval(index)?;
                        self.item(&list, &index_value, index.span, target.span)?
                    }
                    TargetKind::Unpack(..) => return Err(type_error(target.span, "cannot update several targets")),
                };
                let operand = self.eval(value)?;
                let new = self.binary(*op, old, operand, target.span, value.span)?;
                self.assign(target, new, value.span)?;
            }
            StmtKind::For(target, iter, body) => {
                let items = self.eval(iter)?;
                for item in self.iterate(items, iter.span)? {
                    self.step(1, stmt.span)?;
                    self.assign(target, item, iter.span)?;
                    match self.block(body)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::Return(value) => return Ok(Flow::Return(value)),
                    }
                }
            }
            StmtKind::If(branches) => {
                for (test, body) in branches {
                    let taken = match test {
                        Some(test) => self.test(test)?,
                        None => true,
                    };
                    if taken {
                        return self.block(body);
                    }
                }
            }
            StmtKind::Return(value) => {
                return Ok(Flow::Return(match value {
                    Some(value) => self.eval(value)?,
                    None => Value::None,
                }));
            }
            StmtKind::Assert(test) => {
                if !self.test(test)? {
                    let d = Diagnostic::error_at("assertion", test.span, "the assertion does not hold");
                    return Err(d.into());
                }
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// The value of a variable of the function.
    pub(crate) fn local(&self, index: usize, span: Span) -> Result<ValueOf<L>, L> {
        self.locals[index].clone().ok_or_else(|| {
            let message = format!("variable `{}` has no value yet", self.function.locals[index]);
            Diagnostic::error_at("unbound-variable", span, message).into()
        })
    }

    /// Assigns a value; `from` is the place of its expression.
    pub(crate) fn assign(&mut self, target: &'a Target<L::Code>, value: ValueOf<L>, from: Span) -> Result<(), L> {
        match &target.kind {
            TargetKind::Variable(v) => {
                self.locals[*v] = Some(value);
                Ok(())
            }
            TargetKind::Unpack(targets, star) => {
                let kind = value.describe(&self.library);
                let items = match &value {
                    Value::Sequence(_) | Value::Range(..) => self.iterate(value, from)?,
                    _ => {
                        let message = format!("expected {} values to unpack, found {kind}", targets.len());
                        return Err(Diagnostic::error_at("unpack", from, message)
                            .label(target.span, "the values go here")
                            .into());
                    }
                };
                self.unpack(targets, *star, items, target.span, from)
            }
            TargetKind::Item(v, index) => {
                let index_value = self.eval(index)?;
                self.assign_item(*v, &index_value, index.span, value, target.span)
            }
        }
    }

    fn unpack(
        &mut self,
        targets: &'a [Target<L::Code>],
        star: Option<usize>,
        items: Vec<ValueOf<L>>,
        span: Span,
        from: Span,
    ) -> Result<(), L> {
        let n = targets.len();
        let fits = if star.is_some() { items.len() + 1 >= n } else { items.len() == n };
        if !fits {
            let (least, n) = if star.is_some() { ("at least ", n - 1) } else { ("", n) };
            let values = |n: usize| if n == 1 { "value" } else { "values" };
            let message = format!("expected {least}{n} {} to unpack, found {}", values(n), items.len());
            return Err(Diagnostic::error_at("unpack", span, message)
                .mark(format!("{least}{n} {}", if n == 1 { "target" } else { "targets" }))
                .label(from, format!("gives {} {}", items.len(), values(items.len())))
                .into());
        }
        let Some(star) = star else {
            return targets.iter().zip(items).try_for_each(|(t, v)| self.assign(t, v, from));
        };
        let after = n - star - 1;
        let middle = star..items.len() - after;
        for (t, v) in targets[..star].iter().zip(&items) {
            self.assign(t, v.clone(), from)?;
        }
        let rest = self.list(items[middle.clone()].to_vec(), false, from)?;
        self.assign(&targets[star], rest, from)?;
        for (t, v) in targets[star + 1..].iter().zip(&items[middle.end..]) {
            self.assign(t, v.clone(), from)?;
        }
        Ok(())
    }

    /// The items of an iterable value.
    pub(crate) fn iterate(&mut self, value: ValueOf<L>, span: Span) -> Result<Vec<ValueOf<L>>, L> {
        match value {
            Value::Sequence(s) => {
                self.step(s.items.len(), span)?;
                Ok(Rc::try_unwrap(s).map_or_else(|s| s.items.clone(), |s| s.items))
            }
            Value::Range(a, b, step) => {
                self.step(range_len(a, b, step), span)?;
                Ok(range_items(a, b, step).map(Value::Int).collect())
            }
            Value::Dict(items) => {
                self.step(items.len(), span)?;
                Ok(items.iter().map(|(k, _)| Value::Str(k.clone())).collect())
            }
            Value::Str(text) => {
                self.step(text.len(), span)?;
                Ok(text.chars().map(|c| Value::Str(c.to_string().into())).collect())
            }
            other => {
                let message = format!("expected a list, tuple or range, found {}", other.describe(&self.library));
                let mut d = Diagnostic::error_at("type", span, message);
                if matches!(other, Value::Int(_)) {
                    d = d.help(format!("write `{}(…)` around it", Builtin::Range.name()));
                }
                Err(d.into())
            }
        }
    }

    /// A list or tuple of these items.
    pub(crate) fn list(&mut self, items: Vec<ValueOf<L>>, tuple: bool, span: Span) -> Result<ValueOf<L>, L> {
        self.step(items.len(), span)?;
        Value::sequence(items, tuple)
            .ok_or_else(|| Diagnostic::error_at("limit", span, "lists are nested too deep").into())
    }
}
