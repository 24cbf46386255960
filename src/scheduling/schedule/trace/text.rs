//! Writes arguments as Python expressions, in the form of TVM's traces.

use super::names::Names;
use crate::ir::{BinOp, CmpOp, Symbol};
use crate::schedule::arg::{Arg, Lambda, LambdaExpr, RvExpr};
use std::fmt::Write;

/// Precedence of Python's operators, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Compare,
    Sum,
    Product,
    Atom,
}

/// An expression's text with the level of its outermost operator.
struct Text {
    text: String,
    level: Level,
}

impl Text {
    fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), level: Level::Atom }
    }

    /// The text, in parentheses if its precedence is lower than required.
    fn at(self, level: Level) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text }
    }
}

fn binary(op: BinOp, a: Text, b: Text) -> Text {
    let (token, level) = match op {
        BinOp::Add => ("+", Level::Sum),
        BinOp::Sub => ("-", Level::Sum),
        BinOp::Mul => ("*", Level::Product),
        BinOp::FloorDiv => ("//", Level::Product),
        BinOp::FloorMod => ("%", Level::Product),
        BinOp::And => ("and", Level::And),
        BinOp::Or => ("or", Level::Or),
        BinOp::Div | BinOp::Mod | BinOp::Min | BinOp::Max => {
            let function = match op {
                BinOp::Min => "min",
                BinOp::Max => "max",
                BinOp::Div => "truncdiv",
                _ => "truncmod",
            };
            return Text::atom(format!("T.{function}({}, {})", a.text, b.text));
        }
    };
    // All of these are left-associative, so an equal level on the right needs parentheses.
    let right = match level {
        Level::Or => Level::And,
        Level::And => Level::Not,
        Level::Sum => Level::Product,
        _ => Level::Atom,
    };
    Text { text: format!("{} {token} {}", a.at(level), b.at(right)), level }
}

fn compare(op: CmpOp, a: Text, b: Text) -> Text {
    Text { text: format!("{} {} {}", a.at(Level::Sum), op.token(), b.at(Level::Sum)), level: Level::Compare }
}

fn rv_expr(e: &RvExpr, names: &Names) -> Text {
    match e {
        RvExpr::Rv(rv) => Text::atom(names.of(*rv)),
        RvExpr::Int(v) => Text::atom(v.to_string()),
        RvExpr::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
            let function = if *op == BinOp::Min { "min" } else { "max" };
            Text::atom(format!("{function}({}, {})", rv_expr(a, names).text, rv_expr(b, names).text))
        }
        RvExpr::Binary(op, a, b) => binary(*op, rv_expr(a, names), rv_expr(b, names)),
    }
}

/// A float with the fewest digits that Python reads back exactly.
fn float(v: f64) -> String {
    if v.is_finite() { format!("{v:?}") } else { format!("float(\"{}\")", non_finite(v)) }
}

fn non_finite(v: f64) -> &'static str {
    match (v.is_nan(), v > 0.0) {
        (true, _) => "nan",
        (_, true) => "inf",
        (_, false) => "-inf",
    }
}

/// A float as C's `%.17g` prints it.
pub(super) fn float_17g(v: f64) -> String {
    if !v.is_finite() {
        return float(v);
    }
    let scientific = format!("{v:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let fixed = format!("{v:.*}", (16 - exponent) as usize);
        trim_zeros(&fixed).to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.unsigned_abs())
    }
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// A text as a Python literal.
pub(super) fn quoted(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn bool(v: bool) -> &'static str {
    if v { "True" } else { "False" }
}

fn typed(dtype: Symbol, value: &str) -> String {
    format!("T.{dtype}({value})")
}

/// An argument as a Python expression.
pub(super) fn arg(a: &Arg, names: &Names) -> String {
    match a {
        Arg::None => "None".to_string(),
        Arg::Rv(rv) => names.of(*rv),
        Arg::Expr(e) => rv_expr(e, names).text,
        Arg::Int(v) => v.to_string(),
        Arg::Float(v) => float(*v),
        Arg::Bool(v) => bool(*v).to_string(),
        Arg::Str(s) => quoted(s.as_str()),
        Arg::List(items) => format!("[{}]", list(items, names)),
        Arg::Dict(items) => {
            let items: Vec<String> =
                items.iter().map(|(k, v)| format!("{}: {}", quoted(k.as_str()), arg(v, names))).collect();
            format!("{{{}}}", items.join(", "))
        }
        Arg::Lambda(l) => lambda(l, names),
        Arg::Typed(dtype, value) => typed(*dtype, &arg(value, names)),
    }
}

/// Arguments with commas between them.
pub(super) fn list(items: &[Arg], names: &Names) -> String {
    let items: Vec<String> = items.iter().map(|a| arg(a, names)).collect();
    items.join(", ")
}

/// A function of indices, `lambda i, j: (i // 4, j,)`. Its result is always a tuple, as TVM's index maps are.
pub(super) fn lambda(l: &Lambda, names: &Names) -> String {
    let params = parameter_names(l, names);
    if l.ranges {
        let text = |e: &LambdaExpr| lambda_expr(e, &params, names).text;
        let pairs: Vec<String> = l
            .results
            .chunks(2)
            .map(|pair| format!("({})", pair.iter().map(text).collect::<Vec<_>>().join(", ")))
            .collect();
        return format!("lambda {}: [{}]", params.join(", "), pairs.join(", "));
    }
    let mut text = format!("lambda {}: (", params.join(", "));
    if params.is_empty() {
        text = "lambda: (".to_string();
    }
    let results: Vec<String> = l.results.iter().map(|r| lambda_expr(r, &params, names).text).collect();
    text.push_str(&results.join(", "));
    text.push_str(",)");
    text
}

/// The parameters' names; a `_` is appended to one that would shadow a random variable used inside, or the module `T`.
pub(super) fn parameter_names(l: &Lambda, names: &Names) -> Vec<String> {
    let mut hidden = vec!["T".to_string()];
    l.results.iter().for_each(|r| r.for_each_rv(&mut |rv| hidden.push(names.of(rv))));
    let mut taken: Vec<String> = Vec::with_capacity(l.params.len());
    for p in &l.params {
        let mut name = p.as_str().to_string();
        while hidden.contains(&name) || taken.contains(&name) {
            name.push('_');
        }
        taken.push(name);
    }
    taken
}

fn lambda_expr(e: &LambdaExpr, params: &[String], names: &Names) -> Text {
    let part = |e: &LambdaExpr| lambda_expr(e, params, names);
    match e {
        LambdaExpr::Param(i) => Text::atom(params.get(*i).map_or("_", String::as_str)),
        LambdaExpr::Rv(rv) => Text::atom(names.of(*rv)),
        LambdaExpr::Int(v) => Text::atom(v.to_string()),
        LambdaExpr::Float(v) => Text::atom(float(*v)),
        LambdaExpr::Typed(dtype, value) => Text::atom(typed(*dtype, &part(value).text)),
        LambdaExpr::Binary(op, a, b) => binary(*op, part(a), part(b)),
        LambdaExpr::Compare(op, a, b) => compare(*op, part(a), part(b)),
        LambdaExpr::Not(a) => Text { text: format!("not {}", part(a).at(Level::Not)), level: Level::Not },
        LambdaExpr::IfThenElse(parts) => {
            let [c, a, b] = &**parts;
            Text::atom(format!("T.if_then_else({}, {}, {})", part(c).text, part(a).text, part(b).text))
        }
        LambdaExpr::AxisSeparator => Text::atom("IndexMap.AXIS_SEPARATOR"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_c_does() {
        for (v, expected) in [
            (0.25, "0.25"),
            (1.0, "1"),
            (0.0, "0"),
            (0.1, "0.10000000000000001"),
            (0.9, "0.90000000000000002"),
            (1e-20, "9.9999999999999995e-21"),
            (-1.5e30, "-1.4999999999999999e+30"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1e-5, "1.0000000000000001e-05"),
            (123456.75, "123456.75"),
        ] {
            assert_eq!(float_17g(v), expected);
        }
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a \"b\"\n\\"), r#""a \"b\"\n\\""#);
    }

    #[test]
    fn operators_get_the_parentheses_they_need() {
        let names = Names::default();
        let p = |i| Box::new(LambdaExpr::Param(i));
        let sub = |a, b| LambdaExpr::Binary(BinOp::Sub, a, b);
        let l = Lambda {
            params: vec!["i".into(), "j".into()],
            results: vec![
                sub(p(0), Box::new(sub(p(1), p(0)))),
                LambdaExpr::Binary(BinOp::Mul, Box::new(sub(p(0), p(1))), Box::new(LambdaExpr::Int(-3))),
                LambdaExpr::Binary(
                    BinOp::FloorMod,
                    Box::new(LambdaExpr::Binary(BinOp::FloorDiv, p(0), Box::new(LambdaExpr::Int(2)))),
                    Box::new(LambdaExpr::Int(3)),
                ),
                LambdaExpr::Binary(
                    BinOp::And,
                    Box::new(LambdaExpr::Compare(CmpOp::Lt, p(0), p(1))),
                    Box::new(LambdaExpr::Not(Box::new(LambdaExpr::Compare(CmpOp::Eq, p(0), p(1))))),
                ),
            ],
            scalar: false,
            ranges: false,
        };
        assert_eq!(lambda(&l, &names), "lambda i, j: (i - (j - i), (i - j) * -3, i // 2 % 3, i < j and not i == j,)");
    }
}
