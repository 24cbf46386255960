//! Binds the arguments of a call to the parameters of a function of a module.
//!
//! A function states its parameters as Python does: `"shape, dtype='float32', name='placeholder'"`. Defaults are constants.

use super::library::{Result, Run};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::interpreter::call::Arguments;

/// The arguments of a call by the names of parameters.
pub(super) struct Bound {
    /// The name of the function.
    pub function: String,
    params: &'static str,
    values: Vec<(&'static str, Option<(Value, Span)>)>,
    /// The place of the call.
    pub span: Span,
}

/// The parameters of a signature, each with the text of its default.
pub(crate) fn parameters(signature: &'static str) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let mut depth = 0;
    let parts = signature.split(move |c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|p| !p.is_empty()).map(|p| match p.split_once('=') {
        Some((name, default)) => (name, Some(default)),
        None => (p, None),
    })
}

impl Bound {
    /// Binds arguments.
    ///
    /// # Errors
    /// There are too many, one is given twice, has no parameter, or lacks.
    pub(super) fn of(function: String, params: &'static str, args: &Arguments<Own>, span: Span) -> Result<Bound> {
        let help = || format!("its signature is `{function}({params})`");
        let fail = |code, at, message: String| Err(Diagnostic::error_at(code, at, message).help(help()).into());
        let mut values: Vec<(&'static str, Option<(Value, Span)>)> =
            parameters(params).map(|(name, _)| (name, None)).collect();
        // `*args` takes all that follow by position.
        let rest = values.iter().position(|(name, _)| name.starts_with('*'));
        let n = rest.unwrap_or(values.len());
        for (slot, value) in values.iter_mut().zip(&args.positional).take(n) {
            slot.1 = Some(value.clone());
        }
        match (rest, args.positional.get(n)) {
            (Some(slot), _) => {
                let items = args.positional.iter().skip(n).map(|(v, _)| v.clone()).collect();
                values[slot].1 = Value::sequence(items, true).map(|v| (v, span));
            }
            (None, Some((_, at))) => {
                let arguments = if n == 1 { "argument" } else { "arguments" };
                let found = args.positional.len();
                return fail("argument-count", *at, format!("`{function}` takes {n} {arguments}, found {found}"));
            }
            (None, None) => {}
        }
        for (name, at, value, value_span) in &args.keywords {
            let Some(slot) = values.iter_mut().find(|(n, _)| **n == **name) else {
                let near = nearest(name, parameters(params).map(|(n, _)| n));
                let message = format!("`{function}` has no parameter `{name}`");
                let d = Diagnostic::error_at("unknown-argument", *at, message);
                return Err(d.help(near.map_or_else(help, |n| format!("did you mean `{n}`?"))).into());
            };
            if slot.1.replace((value.clone(), *value_span)).is_some() {
                return fail("argument-count", *at, format!("the argument `{name}` is given twice"));
            }
        }
        for ((name, default), (_, value)) in parameters(params).zip(&values) {
            if default.is_none() && value.is_none() && !name.starts_with('*') {
                return fail("missing-argument", span, format!("`{function}` lacks the argument `{name}`"));
            }
        }
        Ok(Bound { function, params, values, span })
    }

    /// The argument of a parameter and its place; the default if it is not given.
    pub(super) fn get(&self, name: &str) -> (Value, Span) {
        let given = self.values.iter().find(|(n, _)| n.trim_start_matches('*') == name).and_then(|(_, v)| v.clone());
        given.unwrap_or_else(|| {
            let default = parameters(self.params).find(|(n, _)| *n == name).and_then(|(_, d)| d);
            (default.map_or(Value::None, constant), self.span)
        })
    }

    /// The arguments in the order of the parameters, each with its place; defaults for those that are not given.
    pub(super) fn all(&self) -> Vec<(&'static str, Value, Span)> {
        let one = |(name, _): &(&'static str, _)| {
            let (value, span) = self.get(name.trim_start_matches('*'));
            (*name, value, span)
        };
        self.values.iter().map(one).collect()
    }

    /// The error of an argument of the wrong type.
    pub(super) fn wrong<T>(&self, run: &Run<'_>, name: &str, expected: &str) -> Result<T> {
        let (value, span) = self.get(name);
        let found = value.describe(&run.library);
        let message = format!("`{}` expects {expected} for `{name}`, found {found}", self.function);
        Err(Diagnostic::error_at("type", span, message).into())
    }

    /// A text.
    pub(super) fn text(&self, run: &Run<'_>, name: &str) -> Result<String> {
        match self.get(name).0 {
            Value::Str(s) => Ok(s.to_string()),
            _ => self.wrong(run, name, "a text"),
        }
    }
}

/// The value of a default.
fn constant(text: &'static str) -> Value {
    match text {
        "None" => Value::None,
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        _ => {
            let bare = text.trim_matches(['\'', '"']);
            let items = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
            match (items, text.parse::<i64>(), text.parse::<f64>()) {
                _ if bare.len() < text.len() => Value::Str(bare.into()),
                (Some(items), ..) => {
                    let items = items.split(',').map(str::trim).filter(|t| !t.is_empty()).map(constant).collect();
                    Value::sequence(items, true).unwrap_or(Value::None)
                }
                (_, Ok(v), _) => Value::Int(v),
                (_, _, Ok(v)) => Value::Float(v),
                _ => Value::None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_have_names_and_constants() {
        let all: Vec<_> = parameters("x, axis=(-1, 2), name='a', *rest").collect();
        assert_eq!(all, [("x", None), ("axis", Some("(-1, 2)")), ("name", Some("'a'")), ("*rest", None)]);
        assert!(matches!(constant("(-1, 2)"), Value::Sequence(s) if s.items.len() == 2));
        assert!(matches!(constant("1e-5"), Value::Float(v) if v == 1e-5));
        assert!(matches!(constant("'a'"), Value::Str(s) if &*s == "a"));
    }
}
