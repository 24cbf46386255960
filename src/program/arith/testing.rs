//! Helpers of this module's tests: expressions as text, operator first, and their evaluation.
//!
//! `+ * a 8 b` is `a * 8 + b`; see tests/data/arith/generate.py.

use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp, Intrinsic};
use crate::ir::scalar::int;
use std::collections::HashMap;

const BINARY: [(&str, BinOp); 11] = [
    ("+", BinOp::Add),
    ("-", BinOp::Sub),
    ("*", BinOp::Mul),
    ("/", BinOp::FloorDiv),
    ("%", BinOp::FloorMod),
    ("div", BinOp::Div),
    ("mod", BinOp::Mod),
    ("min", BinOp::Min),
    ("max", BinOp::Max),
    ("&", BinOp::And),
    ("or", BinOp::Or),
];

const COMPARE: [(&str, CmpOp); 6] =
    [("==", CmpOp::Eq), ("!=", CmpOp::Ne), ("<", CmpOp::Lt), ("<=", CmpOp::Le), (">", CmpOp::Gt), (">=", CmpOp::Ge)];

/// An arena whose variables have single letters for names, upper-case ones of type int64.
#[derive(Default)]
pub(super) struct World {
    pub(super) arena: Arena,
    vars: HashMap<String, VarId>,
}

impl World {
    /// The variable of that name.
    pub(super) fn var(&mut self, name: &str) -> VarId {
        let dtype = if name.starts_with(|c: char| c.is_ascii_uppercase()) { DType::Int64 } else { DType::Int32 };
        *self.vars.entry(name.into()).or_insert_with(|| self.arena.new_var(name, dtype))
    }

    /// Parses an expression.
    pub(super) fn parse(&mut self, text: &str) -> ExprId {
        let mut tokens = text.split_whitespace();
        let e = self.parse_tokens(&mut tokens);
        assert_eq!(tokens.next(), None, "text after the expression in `{text}`");
        e
    }

    fn parse_tokens<'t>(&mut self, tokens: &mut impl Iterator<Item = &'t str>) -> ExprId {
        let token = tokens.next().expect("an expression goes on");
        if let Some(&(_, op)) = BINARY.iter().find(|(t, _)| *t == token) {
            let x = self.parse_tokens(tokens);
            let y = self.parse_tokens(tokens);
            return self.arena.binary_unfolded(op, x, y);
        }
        if let Some(&(_, op)) = COMPARE.iter().find(|(t, _)| *t == token) {
            let x = self.parse_tokens(tokens);
            let y = self.parse_tokens(tokens);
            return self.arena.compare_unfolded(op, x, y);
        }
        match token {
            "!" => {
                let x = self.parse_tokens(tokens);
                self.arena.not(x)
            }
            "sel" | "ite" => {
                let c = self.parse_tokens(tokens);
                let t = self.parse_tokens(tokens);
                let o = self.parse_tokens(tokens);
                if token == "sel" { self.arena.select(c, t, o) } else { self.arena.if_then_else(c, t, o) }
            }
            "castint32" | "castint64" => {
                let x = self.parse_tokens(tokens);
                self.arena.cast_unfolded(if token == "castint32" { DType::Int32 } else { DType::Int64 }, x)
            }
            "T" => self.arena.bool(true),
            "F" => self.arena.bool(false),
            _ if token.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let v = self.var(token);
                self.arena.var_expr(v)
            }
            _ => match token.strip_suffix('l') {
                Some(v) => self.arena.int(v.parse().expect("an integer"), DType::Int64),
                None => self.arena.int32(token.parse().unwrap_or_else(|_| panic!("an integer, found `{token}`"))),
            },
        }
    }

    /// The text of an expression.
    pub(super) fn show(&self, e: ExprId) -> String {
        let a = &self.arena;
        match a.expr(e) {
            Expr::Int(v) => match a.dtype(e) {
                DType::Bool => (if v != 0 { "T" } else { "F" }).into(),
                DType::Int64 => format!("{v}l"),
                _ => v.to_string(),
            },
            Expr::Var(v) => a.var(v).name.to_string(),
            Expr::Binary(op, x, y) => {
                let token = BINARY.iter().find(|b| b.1 == op).expect("every operator has a token").0;
                format!("{token} {} {}", self.show(x), self.show(y))
            }
            Expr::Compare(op, x, y) => format!("{} {} {}", op.token(), self.show(x), self.show(y)),
            Expr::Not(x) => format!("! {}", self.show(x)),
            Expr::Cast(x) => format!("cast{} {}", a.dtype(e), self.show(x)),
            Expr::Select(c, t, o) => format!("sel {} {} {}", self.show(c), self.show(t), self.show(o)),
            Expr::IfThenElse(c, t, o) => format!("ite {} {} {}", self.show(c), self.show(t), self.show(o)),
            other => format!("{other:?}"),
        }
    }

    /// The ranges of a text such as `a0:16 b-3:4`: variable, first value, number of values.
    pub(super) fn ranges(&mut self, text: &str) -> Vec<(VarId, i64, i64)> {
        text.split_whitespace()
            .map(|item| {
                let v = self.var(&item[..1]);
                let (first, count) = item[1..].split_once(':').expect("a range has a colon");
                (v, first.parse().expect("an integer"), count.parse().expect("an integer"))
            })
            .collect()
    }
}

/// The value of an expression; `None` where it divides by zero or leaves its type, which the analysis takes not to
/// happen.
pub(super) fn eval(a: &Arena, e: ExprId, values: &[(VarId, i64)]) -> Option<i64> {
    let dtype = a.dtype(e);
    let value = match a.expr(e) {
        Expr::Int(v) => v,
        Expr::Var(v) => values.iter().find(|x| x.0 == v).map(|x| x.1)?,
        Expr::Binary(BinOp::And, x, y) => {
            if eval(a, x, values)? == 0 {
                0
            } else {
                eval(a, y, values)?
            }
        }
        Expr::Binary(BinOp::Or, x, y) => {
            if eval(a, x, values)? != 0 {
                1
            } else {
                eval(a, y, values)?
            }
        }
        Expr::Binary(op, x, y) => {
            let (x, y) = (eval(a, x, values)?, eval(a, y, values)?);
            int::binary(op, if dtype.is_index() { DType::Int64 } else { dtype }, x, y).ok()?
        }
        Expr::Compare(op, x, y) => op.holds(eval(a, x, values)?, eval(a, y, values)?) as i64,
        Expr::Not(x) => (eval(a, x, values)? == 0) as i64,
        Expr::Cast(x) => dtype.wrap(eval(a, x, values)?),
        Expr::Select(c, t, o) | Expr::IfThenElse(c, t, o) => {
            if eval(a, c, values)? != 0 {
                eval(a, t, values)?
            } else {
                eval(a, o, values)?
            }
        }
        Expr::Call(Intrinsic::BitAnd, args) => {
            let args = a.list(args);
            eval(a, args[0], values)? & eval(a, args[1], values)?
        }
        Expr::Call(Intrinsic::ShiftRight, args) => {
            let args = a.list(args);
            eval(a, args[0], values)? >> eval(a, args[1], values)?
        }
        _ => return None,
    };
    (dtype.wrap(value) == value).then_some(value)
}

/// Calls `f` with assignments of values in the ranges: all if there are not more than `limit`, else a sample of them.
pub(super) fn for_points(ranges: &[(VarId, i64, i64)], limit: usize, mut f: impl FnMut(&[(VarId, i64)])) {
    let total = ranges.iter().fold(1usize, |n, r| n.saturating_mul(r.2 as usize));
    let mut values: Vec<(VarId, i64)> = ranges.iter().map(|r| (r.0, r.1)).collect();
    let step = total.div_ceil(limit).max(1);
    // An odd step visits every value of every variable in turn.
    let step = if step > 1 { step | 1 } else { 1 };
    let mut k = 0;
    while k < total {
        let mut rest = k;
        for (value, r) in values.iter_mut().zip(ranges) {
            value.1 = r.1 + (rest % r.2 as usize) as i64;
            rest /= r.2 as usize;
        }
        f(&values);
        k += step;
    }
}
