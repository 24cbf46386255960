//! Prints expressions, with the parentheses that Python's precedence requires.

use super::Printer;
use super::number;
use crate::ir::op::Typing;
use crate::ir::{BinOp, BufferId, BufferRegion, Builtin, CmpOp, DType, Expr, ExprId, ExprList, Intrinsic};
use crate::script::Dialect;

/// Precedence of the outermost operator of a text (Python's order).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Or,
    And,
    Not,
    Compare,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Add,
    Mul,
    Unary,
    Atom,
}

impl Printer<'_> {
    /// An expression.
    pub(super) fn expr(&mut self, e: ExprId) {
        let start = self.out.len();
        self.node(e);
        let owner = self.owner;
        let span = self.span_from(start);
        if let (Some(spans), Some(owner)) = (&mut self.spans, owner) {
            spans.add_expr_of(owner, e, span);
        }
    }

    fn node(&mut self, e: ExprId) {
        let arena = &self.func.arena;
        let dtype = arena.dtype(e);
        match arena.expr(e) {
            Expr::Int(v) => self.int(v, dtype),
            Expr::Float(bits) => {
                let v = number::float(f64::from_bits(bits));
                self.put(&format!("T.{dtype}({v})"));
            }
            Expr::Str(s) => self.string(s.as_str()),
            Expr::Var(v) => {
                let name = self.names.var(self.func, v);
                self.put(name.as_str());
            }
            Expr::Binary(op, a, b) => match self.infix(e) {
                Some((token, precedence)) => self.operator(token, precedence, a, b),
                None => self.call(self.node_name(op, a, b), &[a, b]),
            },
            Expr::Compare(op, a, b) => match self.infix(e) {
                // Python would read `a < b < c` as a chain, so both sides of a comparison are parenthesised.
                Some((token, _)) => {
                    self.child(a, Precedence::BitOr);
                    self.put(&format!(" {token} "));
                    self.child(b, Precedence::BitOr);
                }
                None => self.call(op.node_name(), &[a, b]),
            },
            Expr::Not(a) => {
                self.put("not ");
                self.child(a, Precedence::Not);
            }
            Expr::Cast(a) => {
                self.put(&format!("T.Cast(\"{}\", ", arena.ty(e)));
                self.expr(a);
                self.put(")");
            }
            Expr::Select(c, t, o) => self.call("Select", &[c, t, o]),
            Expr::IfThenElse(c, t, o) => self.call("if_then_else", &[c, t, o]),
            Expr::Load(b, indices) => {
                self.element(b, indices, false);
            }
            Expr::BufferData(b) => {
                let name = self.names.buffer(self.func, b);
                self.put(&format!("{name}.data"));
            }
            Expr::Call(function, args) => {
                let args = arena.list(args);
                match (self.infix(e), args) {
                    // `~3` would be read as the number -4.
                    (Some(_), &[a]) if arena.as_int(a).is_some() && dtype == DType::Int32 => {
                        self.call(function.name(), args);
                    }
                    (Some((token, _)), &[a]) => {
                        self.put(token);
                        self.child(a, Precedence::Unary);
                    }
                    (Some((token, precedence)), &[a, b]) => self.operator(token, precedence, a, b),
                    _ => {
                        let name = match function {
                            Intrinsic::Abs if dtype.is_float() => "fabs",
                            other => other.name(),
                        };
                        self.call(name, args);
                    }
                }
            }
            Expr::Let(v, value, body) => {
                self.put("T.Let(");
                self.expr(body);
                let name = self.names.var(self.func, v);
                self.put(&format!(", where={{{name}: "));
                self.expr(value);
                self.put("})");
            }
            Expr::Ramp(base, stride) => {
                self.put("T.Ramp(");
                self.list([base, stride], |p, e| p.expr(e));
                self.put(&format!(", {})", arena.lanes(e)));
            }
            Expr::Broadcast(value) => {
                self.put("T.Broadcast(");
                self.expr(value);
                self.put(&format!(", {})", arena.lanes(e)));
            }
            Expr::Shuffle(vectors, indices) => {
                self.put("T.Shuffle([");
                self.list(arena.list(vectors).iter().copied(), |p, e| p.expr(e));
                self.put("], [");
                self.list(arena.list(indices).iter().copied(), |p, e| p.expr(e));
                self.put("])");
            }
            Expr::Builtin(function, args) => self.builtin(e, function, args),
        }
    }

    fn builtin(&mut self, e: ExprId, function: Builtin, list: ExprList) {
        let arena = &self.func.arena;
        if let Some(b) = arena.whole_buffer(e) {
            let name = self.names.buffer(self.func, b);
            return self.put(name.as_str());
        }
        let mut args = arena.list(list);
        let pointee = args.last().and_then(|&last| arena.as_pointer_type(last));
        if pointee.is_some() {
            args = &args[..args.len() - 1];
        }
        let ty = match pointee {
            Some(pointee) => format!("{}.ty", super::control::handle_type(pointee)),
            None => format!("\"{}\"", arena.ty(e)),
        };
        match function.typing() {
            Typing::Returned => {
                args = args.get(1..).unwrap_or_default();
                self.put(&format!("{}.{}(", self.module, function.called(arena, list)));
            }
            Typing::Stated => {
                self.put(&format!("{function}({ty}"));
                self.put(if args.is_empty() { "" } else { ", " });
            }
            Typing::StatedLast | Typing::Int32 | Typing::Bool | Typing::Handle | Typing::Void | Typing::First => {
                self.put(&format!("{function}("))
            }
        }
        self.list(args.iter().copied(), |p, e| p.expr(e));
        if function.typing() == Typing::StatedLast {
            self.put(&format!(", {ty}"));
        }
        self.put(")");
    }

    fn int(&mut self, v: i64, dtype: DType) {
        match dtype {
            DType::Int32 => self.put(&v.to_string()),
            DType::Bool => self.put(if v != 0 { "T.bool(True)" } else { "T.bool(False)" }),
            DType::UInt64 => self.put(&format!("T.uint64({})", v as u64)),
            _ => self.put(&format!("T.{dtype}({v})")),
        }
    }

    /// `T.name(args)`
    fn call(&mut self, name: &str, args: &[ExprId]) {
        self.put(&format!("T.{name}("));
        self.list(args.iter().copied(), |p, a| p.expr(a));
        self.put(")");
    }

    fn operator(&mut self, token: &str, precedence: Precedence, a: ExprId, b: ExprId) {
        self.child(a, precedence);
        self.put(&format!(" {token} "));
        self.tighter_child(b, precedence);
    }

    /// An operand whose precedence must be at least that of its surroundings.
    fn child(&mut self, e: ExprId, around: Precedence) {
        let parenthesised = self.precedence(e) < around;
        self.parenthesised(e, parenthesised);
    }

    /// An operand whose precedence must be higher than that of its surroundings.
    fn tighter_child(&mut self, e: ExprId, around: Precedence) {
        let parenthesised = self.precedence(e) <= around;
        self.parenthesised(e, parenthesised);
    }

    fn parenthesised(&mut self, e: ExprId, yes: bool) {
        if yes {
            self.put("(");
        }
        self.expr(e);
        if yes {
            self.put(")");
        }
    }

    fn precedence(&self, e: ExprId) -> Precedence {
        match self.func.arena.expr(e) {
            Expr::Not(_) => Precedence::Not,
            Expr::Binary(..) | Expr::Compare(..) | Expr::Call(..) => self.infix(e).map_or(Precedence::Atom, |i| i.1),
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) | Expr::Cast(_) | Expr::Select(..) => {
                Precedence::Atom
            }
            Expr::IfThenElse(..) | Expr::Load(..) | Expr::BufferData(_) | Expr::Let(..) => Precedence::Atom,
            Expr::Ramp(..) | Expr::Broadcast(_) | Expr::Shuffle(..) | Expr::Builtin(..) => Precedence::Atom,
        }
    }

    /// The infix operator of the node, unless the reader would produce another node for it.
    fn infix(&self, e: ExprId) -> Option<(&'static str, Precedence)> {
        let arena = &self.func.arena;
        match arena.expr(e) {
            Expr::Binary(op, a, b) => {
                let infix = match op {
                    BinOp::Add => ("+", Precedence::Add),
                    BinOp::Sub => ("-", Precedence::Add),
                    BinOp::Mul => ("*", Precedence::Mul),
                    BinOp::Div if arena.dtype(e).is_float() => ("/", Precedence::Mul),
                    BinOp::FloorDiv => ("//", Precedence::Mul),
                    BinOp::FloorMod => ("%", Precedence::Mul),
                    BinOp::And => ("and", Precedence::And),
                    BinOp::Or => ("or", Precedence::Or),
                    BinOp::Div | BinOp::Mod | BinOp::Min | BinOp::Max => return None,
                };
                // Between vectors, `and` reads as `&`.
                let bitwise = matches!(op, BinOp::And | BinOp::Or) && arena.lanes(e) > 1;
                (!bitwise && !arena.folds(op, a, b)).then_some(infix)
            }
            Expr::Compare(op, a, b) => {
                let constants = arena.as_const(a).is_some() && arena.as_const(b).is_some();
                (!constants).then_some((CmpOp::token(op), Precedence::Compare))
            }
            Expr::Call(function, _) => Some(match function {
                Intrinsic::BitAnd => ("&", Precedence::BitAnd),
                Intrinsic::BitOr => ("|", Precedence::BitOr),
                Intrinsic::BitXor => ("^", Precedence::BitXor),
                Intrinsic::BitNot => ("~", Precedence::Unary),
                Intrinsic::ShiftLeft => ("<<", Precedence::Shift),
                Intrinsic::ShiftRight => (">>", Precedence::Shift),
                _ => return None,
            }),
            _ => None,
        }
    }

    /// The function name of an operator that cannot be written infix.
    fn node_name(&self, op: BinOp, a: ExprId, b: ExprId) -> &'static str {
        let folds = self.func.arena.folds(op, a, b);
        match op {
            BinOp::Mod if !folds => "truncmod",
            BinOp::Min if !folds => "min",
            BinOp::Max if !folds => "max",
            op => op.node_name(),
        }
    }

    /// `A[i, j]`. A ramp with a constant stride is a slice; in the current dialect, only in a store.
    pub(super) fn element(&mut self, b: BufferId, indices: ExprList, stored: bool) {
        let start = self.out.len();
        let name = self.names.buffer(self.func, b);
        self.put(name.as_str());
        // A scalar variable is read and stored by its name.
        if !(self.func.arena.buffer(b).scalar && self.dialect == Dialect::Current) {
            self.indices(indices, stored || self.dialect == Dialect::Classic);
        }
        self.record_access(b, start);
    }

    fn record_access(&mut self, b: BufferId, start: usize) {
        let span = self.span_from(start);
        if let Some(spans) = &mut self.spans {
            spans.add_access(b, span);
        }
    }

    /// `[i, j]`
    fn indices(&mut self, indices: ExprList, slices: bool) {
        let indices = self.func.arena.list(indices);
        if indices.is_empty() {
            self.put("[()]");
            return;
        }
        self.put("[");
        self.list(indices.iter().copied(), |p, i| match p.func.arena.expr(i) {
            Expr::Ramp(base, stride) if slices && p.func.arena.as_int(stride).is_some_and(|s| s != 0) => {
                p.slice(base, stride, p.func.arena.lanes(i));
            }
            _ => p.expr(i),
        });
        self.put("]");
    }

    /// `base:end:stride`
    fn slice(&mut self, base: ExprId, stride: ExprId, lanes: u16) {
        let step = self.func.arena.as_int(stride).unwrap_or(1);
        let reach = step.saturating_mul(lanes.into());
        self.expr(base);
        self.put(":");
        let dtype = self.func.arena.dtype(base);
        match self.func.arena.as_int(base) {
            Some(v) => self.int(dtype.wrap(v.wrapping_add(reach)), dtype),
            None => {
                self.child(base, Precedence::Add);
                self.put(" + ");
                self.int(reach, dtype);
            }
        }
        if step != 1 {
            self.put(":");
            self.expr(stride);
        }
    }

    /// `A[0:16, i]`
    pub(super) fn region(&mut self, r: &BufferRegion) {
        let start = self.out.len();
        let name = self.names.buffer(self.func, r.buffer);
        self.put(name.as_str());
        let ranges: Vec<(ExprId, ExprId)> = r.ranges(&self.func.arena).collect();
        self.box_of(&ranges);
        self.record_access(r.buffer, start);
    }

    /// `[0:16, i]`, given first elements and numbers of elements.
    pub(super) fn box_of(&mut self, ranges: &[(ExprId, ExprId)]) {
        if ranges.is_empty() {
            self.put("[()]");
            return;
        }
        self.put("[");
        self.list(ranges, |p, &(min, extent)| {
            p.expr(min);
            if !p.func.arena.is_int(extent, 1) {
                p.put(":");
                p.sum(min, extent);
            }
        });
        self.put("]");
    }

    /// The sum `a + b` of expressions without a common node, folded as the reader would.
    pub(super) fn sum(&mut self, a: ExprId, b: ExprId) {
        let arena = &self.func.arena;
        match (arena.as_int(a), arena.as_int(b)) {
            (Some(x), Some(y)) => {
                let dtype = arena.dtype(a);
                self.int(dtype.wrap(x.wrapping_add(y)), dtype);
            }
            (Some(0), None) => self.expr(b),
            _ => self.operator("+", Precedence::Add, a, b),
        }
    }
}
