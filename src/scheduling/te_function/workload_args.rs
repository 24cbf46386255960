//! The arguments of a workload, as a command is given them: `1024,1024,float32`.

use super::value::Value;
use super::vocabulary::Code;
use crate::diagnostic::Diagnostic;
use crate::interpreter::code::Function;
use crate::script::python::{self, Expr, ExprKind, StmtKind, UnaryOp};

/// The values of the arguments of a function; defaults follow where fewer are given.
pub(super) fn values(function: &Function<Code>, text: Option<&str>) -> Result<Vec<Value>, Vec<Diagnostic>> {
    let given = match text {
        Some(text) => read(text).map_err(|d| vec![d])?,
        None => Vec::new(),
    };
    let n_required = function.params.iter().filter(|(_, default)| default.is_none()).count();
    let n = function.params.len();
    let fits = given.len() >= n_required && (given.len() <= n || function.rest.is_some());
    if fits {
        return Ok(given);
    }
    let signature = signature(function);
    let count = |n: usize| if n == 1 { "1 argument".to_owned() } else { format!("{n} arguments") };
    let expected = if n == n_required { count(n) } else { format!("{n_required} to {}", count(n)) };
    let message = match text {
        None => format!("`{signature}` needs arguments"),
        Some(_) => format!("`{signature}` takes {expected}, and `--args` gives {}", given.len()),
    };
    let d = Diagnostic::error_at("workload-arguments", function.span, message);
    Err(vec![d.help(format!("pass them in this order, such as `--args {}`", example(function)))])
}

/// The function with its parameters: `matmul(N, L, M, dtype=…)`.
fn signature(function: &Function<Code>) -> String {
    let param = |(name, default): &(Box<str>, Option<_>)| match default {
        Some(_) => format!("{name}=…"),
        None => name.to_string(),
    };
    let params: Vec<String> = function.params.iter().map(param).collect();
    format!("{}({})", function.name, params.join(", "))
}

/// Arguments that such a function might take.
fn example(function: &Function<Code>) -> String {
    let required = function.params.iter().filter(|(_, default)| default.is_none());
    let one = |(name, _): &(Box<str>, _)| if name.contains("type") { "float32" } else { "1024" };
    required.map(one).collect::<Vec<_>>().join(",")
}

/// A note that says with what arguments a function was called.
pub(super) fn describe(function: &Function<Code>, values: &[Value]) -> Option<String> {
    let one = |((name, _), value): (&(Box<str>, _), &Value)| Some(format!("{name}={}", shown(value)?));
    let all: Vec<String> = function.params.iter().zip(values).filter_map(one).collect();
    (!all.is_empty()).then(|| format!("called as `{}({})`", function.name, all.join(", ")))
}

fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::None => "None".to_owned(),
        Value::Bool(v) => if *v { "True" } else { "False" }.to_owned(),
        Value::Int(v) => v.to_string(),
        Value::Float(v) => format!("{v:?}"),
        Value::Str(s) => format!("\"{s}\""),
        Value::Sequence(s) => {
            let items: Vec<String> = s.items.iter().map(shown).collect::<Option<_>>()?;
            format!("({})", items.join(", "))
        }
        Value::Range(..) | Value::Dict(_) | Value::Function(_) | Value::Own(_) => return None,
    })
}

/// Reads arguments: numbers, words, and lists of them in brackets. A word is a text, unless Python gives it another meaning.
fn read(text: &str) -> Result<Vec<Value>, Diagnostic> {
    let wrong = |what: &str| {
        Diagnostic::error("workload-arguments", format!("`--args {text}`: {what}"))
            .help("write numbers, words and lists such as `(1, 2)`, separated by commas: `--args 1024,1024,float32`")
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let list = format!("[{text}]");
    let stmts = python::parse_module(&list).map_err(|_| wrong("these are no arguments"))?;
    match &stmts[..] {
        [stmt] => match &stmt.kind {
            StmtKind::Expr(Expr { kind: ExprKind::List(items), .. }) => items
                .iter()
                .map(|e| value(e).ok_or_else(|| wrong(&format!("`{}` is no constant", &list[e.span.range()]))))
                .collect(),
            _ => Err(wrong("these are no arguments")),
        },
        _ => Err(wrong("these are no arguments")),
    }
}

fn value(e: &Expr<'_>) -> Option<Value> {
    Some(match &e.kind {
        ExprKind::Int(v) => Value::Int(i64::try_from((*v)?).ok()?),
        ExprKind::Float(v) => Value::Float(*v),
        ExprKind::Bool(v) => Value::Bool(*v),
        ExprKind::None => Value::None,
        ExprKind::Str(s) => Value::Str((&**s).into()),
        ExprKind::Name(name) => Value::Str((*name).into()),
        ExprKind::Unary(UnaryOp::Neg, a) => match value(a)? {
            Value::Int(v) => Value::Int(v.checked_neg()?),
            Value::Float(v) => Value::Float(-v),
            _ => return None,
        },
        ExprKind::Tuple(items) => Value::sequence(items.iter().map(value).collect::<Option<_>>()?, true)?,
        ExprKind::List(items) => Value::sequence(items.iter().map(value).collect::<Option<_>>()?, false)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers_words_and_lists() {
        let all = read("1024, -2,0.5,float32,None,True,(1, 2),[x]").unwrap_or_else(|d| panic!("{}", d.message));
        let all: Vec<String> = all.iter().filter_map(shown).collect();
        assert_eq!(all, ["1024", "-2", "0.5", "\"float32\"", "None", "True", "(1, 2)", "(\"x\")"]);
        for text in ["1,,2", "f(2)", "1]; x = [2", "a + b", "99999999999999999999"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
