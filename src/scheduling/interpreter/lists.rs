//! Changes of lists.

use super::Library;
use super::code::{Change, Expr};
use super::eval::index_error;
use super::failure::type_error;
use super::run::{Result, Run, ValueOf};
use super::value::{Sequence, Value};
use crate::diagnostic::{Diagnostic, Span};
use std::rc::Rc;

impl<'a, L: Library> Run<'a, L> {
    /// The list in a variable, to be changed. Lists are values here, but objects in Python, where all holders of a list see
    /// a change. So a list with other holders is refused.
    fn changeable(&mut self, variable: usize, span: Span) -> Result<&mut Sequence<L::Value>, L> {
        let name = &self.function.locals[variable];
        match &self.locals[variable] {
            Some(Value::Sequence(s)) if !s.tuple && Rc::strong_count(s) == 1 => {}
            Some(Value::Sequence(s)) if !s.tuple => {
                let message = format!("the list `{name}` is also held elsewhere, so it cannot be changed");
                return Err(Diagnostic::error_at("shared-list", span, message)
                    .help(format!("make a new list, `{name} = {name} + […]`, or copy it, `{name} = list({name})`"))
                    .into());
            }
            Some(other) => {
                let found = other.describe(&self.library);
                return Err(type_error(span, format!("expected a list to change, found {found}")));
            }
            None => {
                let message = format!("variable `{name}` has no value yet");
                return Err(Diagnostic::error_at("unbound-variable", span, message).into());
            }
        }
        match &mut self.locals[variable] {
            Some(Value::Sequence(s)) => Ok(Rc::make_mut(s)),
            _ => Err(type_error(span, "expected a list to change")),
        }
    }

    pub(crate) fn change(
        &mut self,
        variable: usize,
        change: Change,
        args: &'a [Expr<L::Code>],
        span: Span,
    ) -> Result<ValueOf<L>, L> {
        let mut values = args.iter().map(|a| self.eval(a)).collect::<Result<Vec<ValueOf<L>>, L>>()?;
        let extra = match change {
            Change::Extend => self.iterate(values.swap_remove(0), args[0].span)?,
            Change::Append => vec![values.swap_remove(0)],
            Change::Insert => vec![values.pop().unwrap_or(Value::None)],
            Change::Pop | Change::Reverse => Vec::new(),
        };
        let at = match (change, values.first()) {
            (Change::Insert, Some(v)) | (Change::Pop, Some(v)) => {
                let found = v.describe(&self.library);
                let error = || type_error(args[0].span, format!("expected an integer, found {found}"));
                Some(v.int(&self.library).ok_or_else(error)?)
            }
            _ => None,
        };
        let depth = extra.iter().map(Value::depth).max().unwrap_or(0) + 1;
        if depth > super::value::MAX_DEPTH {
            return Err(Diagnostic::error_at("limit", span, "lists are nested too deep").into());
        }
        let list = self.changeable(variable, span)?;
        list.depth = list.depth.max(depth);
        let n = list.items.len() as i64;
        let from_start = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
        match change {
            Change::Append | Change::Extend => list.items.extend(extra),
            Change::Insert => {
                let i = from_start(at.unwrap_or(0)).clamp(0, n) as usize;
                list.items.splice(i..i, extra);
            }
            Change::Reverse => list.items.reverse(),
            Change::Pop => {
                let i = from_start(at.unwrap_or(-1));
                if !(0..n).contains(&i) {
                    return Err(index_error(span, format!("there is no such item: the list has {n}")));
                }
                return Ok(list.items.remove(i as usize));
            }
        }
        Ok(Value::None)
    }

    /// `variable[at] = value`
    pub(crate) fn assign_item(
        &mut self,
        variable: usize,
        at: &ValueOf<L>,
        at_span: Span,
        value: ValueOf<L>,
        span: Span,
    ) -> Result<(), L> {
        let n = self.changeable(variable, span)?.items.len();
        let i = self.position(at, n, at_span, span)?;
        let depth = value.depth() + 1;
        if depth > super::value::MAX_DEPTH {
            return Err(Diagnostic::error_at("limit", span, "lists are nested too deep").into());
        }
        let list = self.changeable(variable, span)?;
        list.depth = list.depth.max(depth);
        list.items[i] = value;
        Ok(())
    }
}
