//! Evaluates calls of Python's built-in functions while reading.

use super::args::plural;
use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::script::python::Call;

impl<'a> FuncReader<'a, '_> {
    /// Python's built-in functions, on constants.
    pub(super) fn builtin(&mut self, name: &'a str, call: &Call<'a>, span: Span) -> Option<Value> {
        if !matches!(name, "int" | "float" | "bool" | "min" | "max" | "abs" | "len") {
            if name == "range" {
                let d = Diagnostic::error_at("unsupported", span, "`range` stands only in a `for`");
                return self.fail(d);
            }
            let value = self.lookup(name, call.callee.span)?;
            let message = format!("{} can't be called", value.describe());
            return self.fail(Diagnostic::error_at("wrong-argument", call.callee.span, message));
        }
        let values: Vec<Option<Value>> = call.args.iter().map(|a| self.eval(a)).collect();
        let values: Vec<Value> = values.into_iter().collect::<Option<_>>()?;
        let float = |v: &Value| match v {
            Value::Int(v) => Some(*v as f64),
            Value::Float(v) => Some(*v),
            Value::Bool(v) => Some(*v as i128 as f64),
            _ => None,
        };
        let result = match (name, values.as_slice()) {
            ("len", [Value::Seq(items)]) => Some(Value::Int(items.len() as i128)),
            ("int", [Value::Int(v)]) => Some(Value::Int(*v)),
            ("int", [Value::Float(v)]) if v.abs() < 1e18 => Some(Value::Int(*v as i128)),
            ("float", [v]) => float(v).map(Value::Float),
            ("bool", [v]) => self.truth(v).map(Value::Bool),
            ("abs", [Value::Int(v)]) => Some(Value::Int(v.saturating_abs())),
            ("abs", [Value::Float(v)]) => Some(Value::Float(v.abs())),
            ("min" | "max", [first, rest @ ..]) if !rest.is_empty() => {
                let mut best = Some(first.clone());
                for v in rest {
                    let (Some(b), Some(x)) = (best.as_ref().and_then(float), float(v)) else {
                        best = None;
                        break;
                    };
                    if if name == "min" { x < b } else { x > b } {
                        best = Some(v.clone());
                    }
                }
                best
            }
            _ => None,
        };
        match result {
            Some(value) => Some(value),
            None => {
                let d = Diagnostic::error_at(
                    "wrong-argument",
                    span,
                    format!("`{name}` is evaluated while reading and takes constants only"),
                );
                let n = values.len();
                let help = match name {
                    "min" | "max" | "abs" => {
                        Some(format!("write `T.{name}` for {} of the program", plural(n, "value")))
                    }
                    "int" => Some("write `T.Cast(\"int32\", …)`".to_string()),
                    "float" => Some("write `T.Cast(\"float32\", …)`".to_string()),
                    _ => None,
                };
                self.fail(d.maybe_help(help))
            }
        }
    }
}
