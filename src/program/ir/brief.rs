//! Short one-line texts of expressions, regions and statements, for messages.
//!
//! They resemble TVMScript but cannot be parsed: names are hints and may repeat. The printer of `script` writes
//! programs.

use super::buffer::BufferRegion;
use super::dtype::DType;
use super::expr::{Arena, Expr, ExprId, ExprList};
use super::func::Func;
use super::op::{BinOp, Typing};
use super::stmt::{LoopKind, Stmt, StmtId};
use std::fmt::{self, Display, Formatter};

/// Precedence levels of operators, as in Python; operands with a lower level are put in brackets.
mod precedence {
    pub(super) const ANY: u8 = 0;
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const ADD: u8 = 5;
    pub(super) const MUL: u8 = 6;
    pub(super) const ATOM: u8 = 7;
}

/// An expression as text; see [`Arena::brief`].
pub struct Brief<'a> {
    arena: &'a Arena,
    expr: ExprId,
    at_least: u8,
}

/// A list of expressions as text, separated by commas; see [`Arena::brief_list`].
pub struct BriefList<'a> {
    arena: &'a Arena,
    list: ExprList,
}

impl Arena {
    /// The expression as a short text for messages.
    pub fn brief(&self, expr: ExprId) -> Brief<'_> {
        Brief { arena: self, expr, at_least: precedence::ANY }
    }

    /// The expressions of a list as a short text for messages.
    pub fn brief_list(&self, list: ExprList) -> BriefList<'_> {
        BriefList { arena: self, list }
    }

    /// The region as a short text for messages: `A[vi, 0:128]`.
    pub fn brief_region(&self, region: &BufferRegion) -> String {
        let ranges: Vec<String> = region
            .ranges(self)
            .map(|(min, extent)| match (self.as_int(min), self.as_int(extent)) {
                (_, Some(1)) => self.brief(min).to_string(),
                (Some(lo), Some(n)) => format!("{lo}:{}", lo.wrapping_add(n)),
                _ => format!("{0}:{0} + {1}", self.brief(min), self.brief(extent)),
            })
            .collect();
        format!("{}[{}]", self.buffer(region.buffer).name, ranges.join(", "))
    }
}

impl Display for BriefList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, &e) in self.arena.list(self.list).iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            Display::fmt(&self.arena.brief(e), f)?;
        }
        Ok(())
    }
}

fn operator(op: BinOp, dtype: DType) -> Option<(&'static str, u8)> {
    match op {
        BinOp::Add => Some(("+", precedence::ADD)),
        BinOp::Sub => Some(("-", precedence::ADD)),
        BinOp::Mul => Some(("*", precedence::MUL)),
        BinOp::Div if dtype.is_float() => Some(("/", precedence::MUL)),
        BinOp::FloorDiv => Some(("//", precedence::MUL)),
        BinOp::FloorMod => Some(("%", precedence::MUL)),
        BinOp::And => Some(("and", precedence::AND)),
        BinOp::Or => Some(("or", precedence::OR)),
        BinOp::Div | BinOp::Mod | BinOp::Min | BinOp::Max => None,
    }
}

impl Brief<'_> {
    fn infix(&self, f: &mut Formatter<'_>, a: ExprId, token: &str, b: ExprId, level: u8) -> fmt::Result {
        let open = level < self.at_least;
        if open {
            f.write_str("(")?;
        }
        // All operators are left-associative; comparisons do not chain.
        let left = if level == precedence::COMPARE { level + 1 } else { level };
        let (left, right) = (self.operand(a, left), self.operand(b, level + 1));
        write!(f, "{left} {token} {right}")?;
        if open {
            f.write_str(")")?;
        }
        Ok(())
    }

    fn operand(&self, expr: ExprId, at_least: u8) -> Self {
        Brief { arena: self.arena, expr, at_least }
    }
}

impl Display for Brief<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arena = self.arena;
        let (dtype, ty) = (arena.dtype(self.expr), arena.ty(self.expr));
        let of = |e| self.operand(e, precedence::ANY);
        match arena.expr(self.expr) {
            Expr::Int(v) => match dtype {
                DType::Bool => f.write_str(if v != 0 { "True" } else { "False" }),
                DType::Int32 => write!(f, "{v}"),
                DType::UInt64 => write!(f, "T.uint64({})", v as u64),
                _ => write!(f, "T.{dtype}({v})"),
            },
            Expr::Float(bits) => write!(f, "T.{dtype}({:?})", f64::from_bits(bits)),
            Expr::Str(text) => write!(f, "{text:?}"),
            Expr::Var(v) => write!(f, "{}", arena.var(v).name),
            Expr::Binary(op, a, b) => match operator(op, dtype) {
                Some((token, level)) => self.infix(f, a, token, b, level),
                None => {
                    let name = match op {
                        BinOp::Min => "min",
                        BinOp::Max => "max",
                        _ => op.node_name(),
                    };
                    write!(f, "T.{name}({}, {})", of(a), of(b))
                }
            },
            Expr::Compare(op, a, b) => self.infix(f, a, op.token(), b, precedence::COMPARE),
            Expr::Not(a) => {
                let open = precedence::NOT < self.at_least;
                let a = self.operand(a, precedence::ATOM);
                if open { write!(f, "(not {a})") } else { write!(f, "not {a}") }
            }
            Expr::Cast(a) => write!(f, "T.Cast(\"{ty}\", {})", of(a)),
            Expr::Select(c, t, o) => write!(f, "T.Select({}, {}, {})", of(c), of(t), of(o)),
            Expr::IfThenElse(c, t, o) => write!(f, "T.if_then_else({}, {}, {})", of(c), of(t), of(o)),
            Expr::Load(b, l) => write!(f, "{}[{}]", arena.buffer(b).name, arena.brief_list(l)),
            Expr::BufferData(b) => write!(f, "{}.data", arena.buffer(b).name),
            Expr::Call(function, l) => write!(f, "{function}({})", arena.brief_list(l)),
            Expr::Let(v, value, body) => {
                write!(f, "T.Let({}, where={{{}: {}}})", of(body), arena.var(v).name, of(value))
            }
            Expr::Ramp(base, stride) => {
                write!(f, "T.Ramp({}, {}, {})", of(base), of(stride), arena.lanes(self.expr))
            }
            Expr::Broadcast(value) => write!(f, "T.Broadcast({}, {})", of(value), arena.lanes(self.expr)),
            Expr::Shuffle(vectors, indices) => {
                write!(f, "T.Shuffle([{}], [{}])", arena.brief_list(vectors), arena.brief_list(indices))
            }
            Expr::Builtin(function, args) => {
                let list = arena.list(args);
                match (function.typing(), arena.whole_buffer(self.expr)) {
                    (_, Some(b)) => write!(f, "{}", arena.buffer(b).name),
                    (Typing::Stated, _) if list.is_empty() => write!(f, "{function}(\"{ty}\")"),
                    (Typing::Stated, _) => write!(f, "{function}(\"{ty}\", {})", arena.brief_list(args)),
                    (Typing::StatedLast, _) => write!(f, "{function}({}, \"{ty}\")", arena.brief_list(args)),
                    (Typing::Returned, _) => {
                        let rest: Vec<String> = list.iter().skip(1).map(|&a| of(a).to_string()).collect();
                        write!(f, "{}({})", function.called(arena, args), rest.join(", "))
                    }
                    (Typing::Int32 | Typing::Bool | Typing::Handle | Typing::Void | Typing::First, None) => {
                        write!(f, "{function}({})", arena.brief_list(args))
                    }
                }
            }
        }
    }
}

impl Func {
    /// A short description of a statement: ``loop `i` ``, ``block `C` ``, ``store to `C[vi, vj]` ``.
    pub fn brief_stmt(&self, s: StmtId) -> String {
        match self.get(s) {
            Stmt::Loop(l) => {
                let name = self.arena.var(l.var).name;
                if let Some(step) = l.step {
                    return format!("loop `{name}` (with the step {})", self.arena.brief(step));
                }
                match l.kind {
                    LoopKind::ThreadBinding(axis) => format!("loop `{name}` (bound to `{axis}`)"),
                    LoopKind::Serial | LoopKind::Parallel | LoopKind::Vectorized | LoopKind::Unrolled => {
                        format!("loop `{name}`")
                    }
                }
            }
            Stmt::Block(b) => format!("block `{}`", b.name),
            Stmt::Store { buffer, indices, .. } => {
                format!("store to `{}[{}]`", self.arena.buffer(*buffer).name, self.arena.brief_list(*indices))
            }
            Stmt::If { condition, .. } => format!("`if {}`", self.arena.brief(*condition)),
            Stmt::Let { var, .. } => format!("let `{}`", self.arena.var(*var).name),
            Stmt::Evaluate(value) => format!("`T.evaluate({})`", self.arena.brief(*value)),
            Stmt::Alloc { buffer, .. } => format!("allocation of `{}`", self.arena.buffer(*buffer).name),
            Stmt::Declare { buffer, .. } => format!("declaration of `{}`", self.arena.buffer(*buffer).name),
            Stmt::While { condition, .. } => format!("`while {}`", self.arena.brief(*condition)),
            Stmt::Break => "`break`".into(),
            Stmt::Continue => "`continue`".into(),
            Stmt::Return(value) => format!("`return {}`", self.arena.brief(*value)),
            Stmt::Assert(a) => format!("`assert {}`", self.arena.brief(a.condition)),
            Stmt::Attr(a) => format!("attribute `{}`", a.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::CmpOp;

    #[test]
    fn brackets_only_where_needed() {
        let mut a = Arena::new();
        let (_, i) = a.new_var_expr("i", DType::Int32);
        let (_, j) = a.new_var_expr("j", DType::Int32);
        let c4 = a.int32(4);
        let scaled = a.mul(i, c4);
        let sum = a.add(scaled, j);
        let q = a.floor_div(sum, c4);
        let r = a.sub(i, sum);
        let less = a.lt(r, q);
        let same = a.compare(CmpOp::Eq, i, j);
        let both = a.and(less, same);
        let not = a.not(both);
        let m = a.min(i, r);
        assert_eq!(a.brief(q).to_string(), "(i * 4 + j) // 4");
        assert_eq!(a.brief(r).to_string(), "i - (i * 4 + j)");
        assert_eq!(a.brief(not).to_string(), "not (i - (i * 4 + j) < (i * 4 + j) // 4 and i == j)");
        assert_eq!(a.brief(m).to_string(), "T.min(i, i - (i * 4 + j))");
    }
}
