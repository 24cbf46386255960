//! Reads calls inside expressions: data types as functions, intrinsics, `T.if_then_else`, nodes by name (`T.Add`).

use super::builtin;
use super::expr::type_member;
use super::func::FuncReader;
use super::operator::Operand;
use super::refused;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::{BinOp, Builtin, CmpOp, DType, ExprId, Intrinsic, ObjectKind, Ty};
use crate::script::python::{Call, Expr, ExprKind, Ident};

/// The members of `T` that are expressions, but neither data types nor intrinsics.
const FUNCTIONS: &[&str] = &[
    "Add",
    "And",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Broadcast",
    "BufferLoad",
    "Cast",
    "Div",
    "EQ",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "GE",
    "GT",
    "IntImm",
    "LE",
    "LShift",
    "LT",
    "Let",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "NE",
    "Not",
    "Or",
    "RShift",
    "Ramp",
    "Range",
    "Select",
    "Shuffle",
    "Sub",
    "Var",
    "broadcast",
    "call_intrin",
    "cast",
    "ceildiv",
    "fabs",
    "floordiv",
    "floormod",
    "if_then_else",
    "index_map",
    "indexdiv",
    "indexmod",
    "infinity",
    "iter_var",
    "max",
    "max_value",
    "min",
    "min_value",
    "nan",
    "power",
    "ramp",
    "truncdiv",
    "truncmod",
    "var",
];

/// The members of `T` that are statements or declarations.
const STATEMENTS: &[&str] = &[
    "Assert",
    "Bind",
    "Break",
    "Buffer",
    "Continue",
    "Else",
    "If",
    "LetStmt",
    "Ptr",
    "Return",
    "Then",
    "While",
    "alloc_buffer",
    "alloc_local",
    "alloc_scalar",
    "alloc_shared",
    "allocate",
    "attr",
    "axis",
    "bind",
    "block",
    "block_attr",
    "break_loop",
    "buffer_store",
    "buffer_var",
    "continue_loop",
    "decl_buffer",
    "decl_scalar",
    "evaluate",
    "func_attr",
    "grid",
    "handle",
    "hint",
    "init",
    "let",
    "local_scalar",
    "match_buffer",
    "meta_var",
    "parallel",
    "prim_func",
    "ptr",
    "reads",
    "ret",
    "sblock",
    "sblock_alloc_buffer",
    "sblock_attr",
    "serial",
    "shared_scalar",
    "smem",
    "static_assert",
    "target",
    "thread_binding",
    "unroll",
    "vectorized",
    "where",
    "writes",
];

/// The names of expression functions in tables.
pub(super) fn function_names() -> impl Iterator<Item = &'static str> {
    let builtins = Builtin::ALL.iter().filter(|b| b.has_name()).map(|b| b.name());
    Intrinsic::ALL.iter().map(|i| i.name()).chain(builtins)
}

/// The object made by a member of `I`.
fn ir_object(name: &str) -> Option<ObjectKind> {
    ObjectKind::ALL.into_iter().find(|kind| kind.name().strip_prefix("I.") == Some(name))
}

/// The object made by a member of `T`.
fn tir_object(name: &str) -> Option<ObjectKind> {
    ObjectKind::ALL.into_iter().find(|kind| kind.name().strip_prefix("T.") == Some(name))
}

impl<'a> FuncReader<'a, '_> {
    /// Evaluates a call.
    pub(super) fn call(&mut self, call: &Call<'a>, span: Span) -> Option<Value> {
        match &call.callee.kind {
            ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                Some(Namespace::Tir) => self.t_call(*attr, call, span),
                Some(Namespace::Axis) => self.axis(*attr, call, span),
                Some(Namespace::Module) => self.module_call(*attr, call),
                Some(Namespace::Ir) => match ir_object(attr.name) {
                    Some(kind) => self.object(kind, call),
                    None => self.unknown_member(Namespace::Ir, *attr),
                },
                Some(ns) => self.unknown_member(ns, *attr),
                None => self.method(owner, *attr, call, span),
            },
            ExprKind::Name(name) if self.scope.get(name).is_none() => self.builtin(name, call, span),
            _ => {
                let callee = self.eval(&call.callee)?;
                let message = format!("{} can't be called", callee.describe());
                self.fail(Diagnostic::error_at("wrong-argument", call.callee.span, message))
            }
        }
    }

    /// Reports an unknown member of a module.
    pub(super) fn unknown_member<T>(&mut self, ns: Namespace, attr: Ident<'a>) -> Option<T> {
        let (owner, names): (&str, Vec<&str>) = match ns {
            Namespace::Tir if refused::reason(attr.name).is_some() => {
                let reason = refused::reason(attr.name).unwrap_or_default();
                return self.fail(Diagnostic::error_at(
                    "unsupported",
                    attr.span,
                    format!("`T.{}` {reason}", attr.name),
                ));
            }
            Namespace::Tir => {
                let types = DType::ELEMENTS.iter().map(|t| t.name());
                ("T.", STATEMENTS.iter().chain(FUNCTIONS).copied().chain(types).chain(function_names()).collect())
            }
            Namespace::Refused(why) => {
                let before = self.file.text.get(..attr.span.start as usize).unwrap_or_default();
                let path = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'));
                let owner = before.rsplit(path).next().unwrap_or_default();
                let message = format!("`{owner}{}` {why}", attr.name);
                return self.fail(Diagnostic::error_at("unsupported", attr.span, message));
            }
            Namespace::Module => {
                let functions: Vec<&str> = self.file.functions.keys().copied().collect();
                let near = nearest(attr.name, functions.iter().copied());
                let message = format!("the module has no function `{}`", attr.name);
                let d = Diagnostic::error_at("unknown-function", attr.span, message);
                return self.fail(d.maybe_help(near.map(|n| format!("did you mean `{n}`?"))));
            }
            Namespace::Axis => ("T.axis.", vec!["spatial", "reduce", "remap", "scan", "opaque", "S", "R"]),
            Namespace::Ir => ("I.", vec!["ir_module"]),
            Namespace::Relax => {
                let d = Diagnostic::error_at("graph-function", attr.span, "graph operators are not supported yet");
                return self.fail(d);
            }
            Namespace::Tvm | Namespace::Script | Namespace::Foreign => {
                return self.unsupported(attr.span, &format!("`{}` of a module", attr.name));
            }
        };
        let near = nearest(attr.name, names);
        self.fail(
            Diagnostic::error_at("unknown-function", attr.span, format!("unknown function `{owner}{}`", attr.name))
                .maybe_help(near.map(|n| format!("did you mean `{owner}{n}`?"))),
        )
    }

    /// `T.name(…)` in an expression.
    fn t_call(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Value> {
        let full = format!("T.{}", name.name);
        if let Some(ty) = type_member(name.name) {
            return self.dtype_call(ty, &full, call);
        }
        if let Some(kind) = tir_object(name.name) {
            return self.object(kind, call);
        }
        if let Some(value) = self.declaration(name, call, span) {
            return value;
        }
        if let Some(op) = binary_node(name.name) {
            let (a, b) = self.two_operands(&full, call)?;
            let (x, y) = self.node_operands(a, b, span, &full)?;
            self.check_operands(op, x, y, span)?;
            return Some(Value::Expr(self.func.arena.binary_unfolded(op, x, y)));
        }
        if let Some(op) = compare_node(name.name) {
            let (a, b) = self.two_operands(&full, call)?;
            let (x, y) = self.compared(&full, a, b, span)?;
            return Some(Value::Expr(self.func.arena.compare_unfolded(op, x, y)));
        }
        let folding = match name.name {
            "min" => Some(BinOp::Min),
            "max" => Some(BinOp::Max),
            "truncdiv" => Some(BinOp::Div),
            "truncmod" => Some(BinOp::Mod),
            "floordiv" | "indexdiv" => Some(BinOp::FloorDiv),
            "floormod" | "indexmod" => Some(BinOp::FloorMod),
            _ => None,
        };
        if let Some(op) = folding {
            let (a, b) = self.two_operands(&full, call)?;
            let (x, y) = self.matched(a, b)?;
            return self.arithmetic(op, x, y, span);
        }
        match name.name {
            "ceildiv" => {
                let (a, b) = self.two_operands(&full, call)?;
                let (x, y) = self.matched(a, b)?;
                self.check_operands(BinOp::FloorDiv, x, y, span)?;
                let arena = &mut self.func.arena;
                let one = arena.constant(1, arena.dtype(x));
                let sum = arena.add(x, y);
                let sum = arena.sub(sum, one);
                self.arithmetic(BinOp::FloorDiv, sum, y, span)
            }
            "Not" => {
                let args = self.args(&full, call, &["a"], 1)?;
                let a = args[0]?;
                let value = self.eval(a)?;
                let e = self.condition(value, a.span)?;
                Some(Value::Expr(self.func.arena.not_unfolded(e)))
            }
            "Cast" => {
                let args = self.args(&full, call, &["dtype", "value"], 2)?;
                let ty = self.ty(args[0]?);
                let e = self.expr(args[1]?)?;
                let (ty, found) = (ty?, self.func.arena.ty(e));
                if ty.lanes != found.lanes {
                    let message =
                        format!("expected a value of {} lanes to convert to `{ty}`, found `{found}`", ty.lanes);
                    return self.fail(Diagnostic::error_at("lanes", args[1]?.span, message));
                }
                Some(Value::Expr(self.func.arena.cast_unfolded(ty.dtype, e)))
            }
            "cast" => {
                let args = self.args(&full, call, &["value", "dtype"], 2)?;
                let e = self.expr(args[0]?);
                let ty = self.ty(args[1]?)?;
                self.cast_to(ty, e?, span)
            }
            "Ramp" | "ramp" => self.ramp(&full, call),
            "Broadcast" | "broadcast" => self.broadcast(&full, call),
            "Shuffle" => self.shuffle(&full, call),
            "Select" => self.select(&full, call),
            "if_then_else" => self.if_then_else(&full, call),
            "Let" => self.let_expr(&full, call),
            "min_value" | "max_value" | "infinity" | "nan" => self.limit(name, &full, call),
            "isinf" | "isfinite" | "isnan" | "floor" | "ceil" | "trunc" | "round" | "nearbyint" => {
                self.rounding(name, &full, call, span)
            }
            "abs" | "fabs" => self.abs(&full, call, span),
            "power" => self.intrinsic(Intrinsic::Pow, &full, call, span),
            "shift_left" | "shift_right" | "bitwise_and" | "bitwise_or" | "bitwise_xor" | "LShift" | "RShift"
            | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => {
                let function = match name.name {
                    "LShift" => Intrinsic::ShiftLeft,
                    "RShift" => Intrinsic::ShiftRight,
                    "BitwiseAnd" => Intrinsic::BitAnd,
                    "BitwiseOr" => Intrinsic::BitOr,
                    "BitwiseXor" => Intrinsic::BitXor,
                    name => Intrinsic::from_name(name)?,
                };
                let (a, b) = self.two_operands(&full, call)?;
                self.bits(function, a, b, span)
            }
            "bitwise_not" | "BitwiseNot" => {
                let args = self.args(&full, call, &["x"], 1)?;
                let e = self.expr(args[0]?)?;
                self.bit_call(Intrinsic::BitNot, &[e], span)
            }
            "call_intrin" => self.call_intrin(call, span),
            "BufferLoad" => self.buffer_load(&full, call),
            "IntImm" | "FloatImm" => self.immediate(&full, call),
            "Var" => self.fresh_var(&full, call),
            "index_map" => self.index_map(&full, call),
            _ => match (Intrinsic::from_name(name.name), builtin::named(name.name)) {
                (Some(function), _) => self.intrinsic(function, &full, call, span),
                (None, Some(function)) => self.builtin_call(function, &full, call, span),
                (None, None) => self.unknown_member(Namespace::Tir, name),
            },
        }
    }

    /// `T.float32(x)`: a constant or a conversion; without an argument, a new variable.
    fn dtype_call(&mut self, ty: Ty, full: &str, call: &Call<'a>) -> Option<Value> {
        let dtype = ty.dtype;
        if dtype == DType::Handle {
            return self.handle_call(full, call);
        }
        let args = self.args(full, call, &["expr", "is_size_var"], 0)?;
        let Some(e) = args[0] else { return Some(Value::Fresh(ty)) };
        let value = self.eval(e)?;
        if ty.is_vector() {
            let e_id = match value {
                Value::Int(_) | Value::Float(_) | Value::Bool(_) => self.literal(value, dtype, e.span)?,
                value => self.expr_of(value, e.span)?,
            };
            return self.cast_to(ty, e_id, e.span);
        }
        match value {
            Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                // `T.int32(3.7)` is 3, as in TVM; a boolean is a number.
                let value = match value {
                    Value::Float(v) if !dtype.is_float() && v.is_finite() && v.abs() < 1e18 => Value::Int(v as i128),
                    value => value,
                };
                if dtype == DType::Bool {
                    return Some(Value::Expr(self.func.arena.bool(self.truth(&value)?)));
                }
                self.literal(value, dtype, e.span).map(Value::Expr)
            }
            Value::Str(text) => {
                let v = match &*text {
                    "inf" | "+inf" | "infinity" => f64::INFINITY,
                    "-inf" => f64::NEG_INFINITY,
                    "nan" => f64::NAN,
                    _ => {
                        let d = Diagnostic::error_at("wrong-argument", e.span, format!("`\"{text}\"` is no number"));
                        return self.fail(d.help("write the number itself, or `\"inf\"`, `\"-inf\"` or `\"nan\"`"));
                    }
                };
                if !dtype.is_float() {
                    let message = format!("`{dtype}` has no value `{text}`");
                    return self.fail(Diagnostic::error_at("type-mismatch", e.span, message));
                }
                Some(Value::Expr(self.func.arena.float(v, dtype)))
            }
            value => {
                let id = self.expr_of(value, e.span)?;
                self.cast_to(ty, id, e.span)
            }
        }
    }

    /// A conversion to a vector type. A scalar is converted and broadcast; for a broadcast the value, for a ramp the
    /// base and stride are converted, as TVM's `cast` does.
    fn cast_to(&mut self, ty: Ty, e: ExprId, span: Span) -> Option<Value> {
        let found = self.func.arena.ty(e);
        if found.dtype == ty.dtype && found.lanes == ty.lanes {
            return Some(Value::Expr(e));
        }
        if found.lanes == 1 {
            let scalar = self.cast(ty.dtype, e);
            return Some(Value::Expr(self.func.arena.broadcast(scalar, ty.lanes)));
        }
        if found.lanes != ty.lanes {
            let message = format!("expected a value of {} lanes to convert to `{ty}`, found `{found}`", ty.lanes);
            return self.fail(Diagnostic::error_at("lanes", span, message));
        }
        Some(Value::Expr(match self.func.arena.expr(e) {
            crate::ir::Expr::Broadcast(value) => {
                let value = self.cast(ty.dtype, value);
                self.func.arena.broadcast(value, ty.lanes)
            }
            crate::ir::Expr::Ramp(base, stride) if ty.dtype.is_integer() => {
                let (base, stride) = (self.cast(ty.dtype, base), self.cast(ty.dtype, stride));
                self.func.arena.ramp(base, stride, ty.lanes)
            }
            _ => self.cast(ty.dtype, e),
        }))
    }

    /// The operands of a binary function.
    fn two_operands(&mut self, full: &str, call: &Call<'a>) -> Option<(Operand, Operand)> {
        let args = self.args(full, call, &["a", "b", "*", "span"], 2)?;
        let (a, b) = (args[0]?, args[1]?);
        let (x, y) = (self.eval(a), self.eval(b));
        Some(((x?, a.span), (y?, b.span)))
    }

    /// The operands of `T.Add(a, b)`: a literal takes the other's type, expressions must agree.
    fn node_operands(&mut self, a: Operand, b: Operand, span: Span, full: &str) -> Option<(ExprId, ExprId)> {
        let is_expr = |o: &Operand| matches!(o.0, Value::Expr(_));
        if is_expr(&a) != is_expr(&b) || is_expr(&a) {
            return self.compared(full, a, b, span);
        }
        self.matched(a, b)
    }

    fn select(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["condition", "true_value", "false_value"], 3)?;
        let (c, t, o) = (args[0]?, args[1]?, args[2]?);
        let condition = self.eval(c).and_then(|v| self.condition(v, c.span));
        let (then, otherwise) = (self.eval(t), self.eval(o));
        let (then, otherwise) = self.compared(full, (then?, t.span), (otherwise?, o.span), t.span.to(o.span))?;
        let condition = self.lanes_for(condition?, then, c.span)?;
        Some(Value::Expr(self.func.arena.select(condition, then, otherwise)))
    }

    fn if_then_else(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["cond", "t", "f", "*", "span"], 3)?;
        let (c, t, o) = (args[0]?, args[1]?, args[2]?);
        let condition = self.eval(c).and_then(|v| self.condition(v, c.span));
        let (then, otherwise) = (self.eval(t), self.eval(o));
        let (then, otherwise) = self.matched((then?, t.span), (otherwise?, o.span))?;
        let condition = self.lanes_for(condition?, then, c.span)?;
        Some(Value::Expr(self.func.arena.if_then_else(condition, then, otherwise)))
    }

    /// The condition, if it is a scalar or has as many lanes as the selected value.
    fn lanes_for(&mut self, condition: ExprId, value: ExprId, span: Span) -> Option<ExprId> {
        let (lanes, found) = (self.func.arena.lanes(value), self.func.arena.lanes(condition));
        if found == 1 || found == lanes {
            return Some(condition);
        }
        let message = format!("expected a condition of {lanes} lanes, found {found}");
        self.fail(Diagnostic::error_at("lanes", span, message))
    }

    /// `T.Let(body, where={x: value})`, with `x` declared before as `x = T.int32()`.
    fn let_expr(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["expr", "where"], 2)?;
        let binding = args[1]?;
        let ExprKind::Dict(items) = &binding.kind else {
            let message = "expected one variable with its value: `where={x: value}`";
            return self.fail(Diagnostic::error_at("wrong-argument", binding.span, message));
        };
        let [(Some(name), value)] = items.as_slice() else {
            let message = format!("expected one variable in `where`, found {}", items.len());
            return self.fail(Diagnostic::error_at("wrong-argument", binding.span, message));
        };
        let body = self.expr(args[0]?);
        let var = self.expr(name)?;
        let Some(var) = self.func.arena.as_var(var) else {
            return self.fail(Diagnostic::error_at("wrong-argument", name.span, "expected a variable"));
        };
        let ty = self.func.arena.var(var).ty();
        let value = self.typed(value, ty)?;
        Some(Value::Expr(self.func.arena.let_(var, value, body?)))
    }

    /// An expression of a given type; a literal takes that type.
    pub(super) fn typed(&mut self, e: &Expr<'a>, ty: Ty) -> Option<ExprId> {
        match self.eval(e)? {
            literal @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) if !ty.is_vector() => {
                self.literal(literal, ty.dtype, e.span)
            }
            // The type may be that of a call without a value.
            Value::Expr(id) if self.func.arena.ty(id) == ty => Some(id),
            value => {
                let id = self.expr_of(value, e.span)?;
                let found = self.func.arena.ty(id);
                if found == ty {
                    return Some(id);
                }
                let d = Diagnostic::error_at("type-mismatch", e.span, format!("expected `{ty}`, found `{found}`"));
                self.fail(d.help(format!("convert it: `T.Cast(\"{ty}\", …)`")))
            }
        }
    }

    /// `x.astype("float32")` and other methods of values.
    fn method(&mut self, owner: &Expr<'a>, attr: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Value> {
        let value = self.eval(owner)?;
        match (&value, attr.name) {
            (Value::Expr(e), "astype") => {
                let args = self.args("astype", call, &["dtype"], 1)?;
                let (ty, e) = (self.ty(args[0]?)?, *e);
                self.cast_to(ty, e, args[0]?.span)
            }
            (Value::Buffer(b), "view") => self.view_of(*b, call, span),
            (Value::Buffer(b), "scope") if call.args.is_empty() => {
                Some(Value::Str(self.func.arena.buffer(*b).scope.as_str().into()))
            }
            (Value::Buffer(b), "vload") => {
                let args = self.args("vload", call, &["begin", "dtype"], 1)?;
                let index = args[0]?;
                match self.eval(index)? {
                    Value::Seq(items) => {
                        let rank = self.func.arena.list(self.func.arena.buffer(*b).shape).len();
                        if items.len() != rank {
                            return self.wrong_rank(*b, items.len(), index.span);
                        }
                        let indices: Option<Vec<ExprId>> =
                            items.into_iter().map(|v| self.index_of(v, index.span)).collect();
                        Some(Value::Expr(self.func.arena.load(*b, &indices?)))
                    }
                    other => {
                        let message = format!("expected a list of indices, found {}", other.describe());
                        self.fail(Diagnostic::error_at("wrong-argument", index.span, message))
                    }
                }
            }
            _ => {
                let message = format!("{} has no method `{}`", value.describe(), attr.name);
                self.fail(Diagnostic::error_at("unknown-attribute", attr.span, message))
            }
        }
    }
}

fn binary_node(name: &str) -> Option<BinOp> {
    use BinOp::*;
    [Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, And, Or].into_iter().find(|op| op.node_name() == name)
}

fn compare_node(name: &str) -> Option<CmpOp> {
    use CmpOp::*;
    [Eq, Ne, Lt, Le, Gt, Ge].into_iter().find(|op| op.node_name() == name)
}
