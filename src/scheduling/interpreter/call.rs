//! Calls of the functions of a text.

use super::Library;
use super::code::{CallArgs, Function, Item};
use super::run::{Result, Run, ValueOf};
use super::value::{Closure, MAX_DEPTH, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::interpreter::type_error;
use std::rc::Rc;

/// The values of a call's arguments.
#[derive(Clone, Debug)]
pub(crate) struct Arguments<V> {
    /// Those by position, each with its place.
    pub positional: Vec<(Value<V>, Span)>,
    /// Those by name: the name, its place, the value and the place of that.
    pub keywords: Vec<(Box<str>, Span, Value<V>, Span)>,
}

impl<V> Arguments<V> {
    /// Arguments by position, which all have the place of the call.
    pub(crate) fn positional(values: Vec<Value<V>>, span: Span) -> Arguments<V> {
        Arguments { positional: values.into_iter().map(|v| (v, span)).collect(), keywords: Vec::new() }
    }
}

impl<'a, L: Library> Run<'a, L> {
    /// The values of arguments; starred ones are spread.
    pub(crate) fn arguments(&mut self, args: &'a CallArgs<L::Code>) -> Result<Arguments<L::Value>, L> {
        let (values, spans) = self.spread(&args.positional)?;
        let mut keywords = Vec::with_capacity(args.keywords.len());
        for (name, at, value) in &args.keywords {
            keywords.push((name.clone(), *at, self.eval(value)?, value.span));
        }
        Ok(Arguments { positional: values.into_iter().zip(spans).collect(), keywords })
    }

    /// The values of items, each with its place; starred ones are spread.
    pub(crate) fn spread(&mut self, items: &'a [Item<L::Code>]) -> Result<(Vec<ValueOf<L>>, Vec<Span>), L> {
        let mut values = Vec::with_capacity(items.len());
        let mut spans = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(&item.value)?;
            if item.star {
                values.extend(self.iterate(value, item.value.span)?);
            } else {
                values.push(value);
            }
            spans.resize(values.len(), item.value.span);
        }
        Ok((values, spans))
    }

    /// A function as a value, with the present values of variables around it.
    pub(super) fn closure(
        &mut self,
        function: usize,
        captured: &[(usize, usize)],
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        self.step(captured.len(), span)?;
        // A variable that has no value yet is one that the function itself may define later: it is missed where it is used.
        let captured: Vec<(usize, ValueOf<L>)> =
            captured.iter().filter_map(|&(there, here)| Some((here, self.locals[there].clone()?))).collect();
        let depth = 1 + captured.iter().map(|(_, v)| v.depth()).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(Diagnostic::error_at("limit", span, "functions are nested too deep").into());
        }
        Ok(Value::Function(Rc::new(Closure { function, captured, depth })))
    }

    /// Calls a value.
    pub(crate) fn call_value(
        &mut self,
        callee: &ValueOf<L>,
        args: Arguments<L::Value>,
        callee_span: Span,
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        match callee {
            Value::Function(f) => return self.call_function(f.function, &f.captured, args, span),
            Value::Own(own) => {
                if let Some(value) = L::call(self, own, &args, span)? {
                    return Ok(value);
                }
            }
            _ => {}
        }
        let found = callee.describe(&self.library);
        Err(type_error(callee_span, format!("expected a function to call, found {found}")))
    }

    /// The default value of a parameter.
    pub(crate) fn default_value(&mut self, default: &'a Function<L::Code>) -> Result<ValueOf<L>, L> {
        self.call(default, vec![None; default.locals.len()], default.span)
    }

    /// Calls a function of the text.
    pub(crate) fn call_function(
        &mut self,
        index: usize,
        captured: &[(usize, ValueOf<L>)],
        args: Arguments<L::Value>,
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        let functions = self.functions;
        let function = &functions[index];
        let n = function.params.len();
        let mut locals: Vec<Option<ValueOf<L>>> = vec![None; function.locals.len()];
        for (slot, value) in captured {
            locals[*slot] = Some(value.clone());
        }
        let mut positional = args.positional.into_iter();
        for (slot, (value, _)) in locals.iter_mut().zip(positional.by_ref().take(n)) {
            *slot = Some(value);
        }
        let more: Vec<(ValueOf<L>, Span)> = positional.collect();
        match (function.rest, more.first()) {
            (Some(slot), _) => {
                let items = more.into_iter().map(|(v, _)| v).collect();
                locals[slot] = Some(self.list(items, true, span)?);
            }
            (None, Some((_, at))) => {
                let found = n + more.len();
                let arguments = if n == 1 { "argument" } else { "arguments" };
                let message = format!("`{}` takes {n} {arguments}, found {found}", function.name);
                return Err(Diagnostic::error_at("argument-count", *at, message).into());
            }
            (None, None) => {}
        }
        for (name, at, value, _) in args.keywords {
            let Some(i) = function.params.iter().position(|(p, _)| *p == name) else {
                let message = format!("`{}` has no parameter `{name}`", function.name);
                let near = nearest(&name, function.params.iter().map(|(p, _)| &**p));
                let d = Diagnostic::error_at("unknown-argument", at, message);
                return Err(d.maybe_help(near.map(|n| format!("did you mean `{n}`?"))).into());
            };
            if locals[i].replace(value).is_some() {
                let message = format!("the argument `{name}` is given twice");
                return Err(Diagnostic::error_at("argument-count", at, message).into());
            }
        }
        for (i, (name, default)) in function.params.iter().enumerate() {
            if locals[i].is_none() {
                locals[i] = match default {
                    Some(default) => Some(self.default_value(default)?),
                    None => {
                        let message = format!("`{}` lacks the argument `{name}`", function.name);
                        return Err(Diagnostic::error_at("missing-argument", span, message).into());
                    }
                };
            }
        }
        self.call(function, locals, span)
    }
}
