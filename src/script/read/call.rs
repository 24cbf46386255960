//! Calls inside expressions: data types as functions, intrinsics, `T.if_then_else`, nodes by name (`T.Add`).

use super::args::plural;
use super::expr::type_of_name;
use super::func::FuncReader;
use super::operator::Operand;
use super::refused;
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::op::Domain;
use crate::ir::op::Typing;
use crate::ir::{BinOp, Builtin, CmpOp, DType, ExprId, Intrinsic, Ty};
use crate::script::python::{Call, Expr, ExprKind, Ident};
use smallvec::SmallVec;

/// The members of `T` that stand in expressions and are no data type and no intrinsic.
const FUNCTIONS: &[&str] = &[
    "Add",
    "And",
    "Broadcast",
    "Cast",
    "Div",
    "EQ",
    "FloorDiv",
    "FloorMod",
    "GE",
    "GT",
    "LE",
    "LT",
    "Let",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "NE",
    "Not",
    "Or",
    "Ramp",
    "Select",
    "Shuffle",
    "Sub",
    "cast",
    "ceildiv",
    "fabs",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "max",
    "max_value",
    "min",
    "min_value",
    "nan",
    "power",
    "truncdiv",
    "truncmod",
    "var",
];

/// The members of `T` that are statements or declarations.
const STATEMENTS: &[&str] = &[
    "Bind",
    "Buffer",
    "LetStmt",
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
    "continue_loop",
    "decl_buffer",
    "decl_scalar",
    "evaluate",
    "func_attr",
    "grid",
    "handle",
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
    "target",
    "thread_binding",
    "unroll",
    "vectorized",
    "where",
    "writes",
];

/// Members of `T` in TVM that have no meaning here.
const UNSUPPORTED: &[&str] =
    &["Assert", "While", "allocate_const", "buffer_decl", "call_intrin", "comm_reducer", "realize", "reduce", "While"];

impl<'a> FuncReader<'a, '_> {
    /// A call.
    pub(super) fn call(&mut self, call: &Call<'a>, span: Span) -> Option<Value> {
        match &call.callee.kind {
            ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                Some(Namespace::Tir) => self.t_call(*attr, call, span),
                Some(Namespace::Axis) => self.axis(*attr, call, span),
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

    /// Complains of a member that a module does not have.
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
            Namespace::Tir if UNSUPPORTED.contains(&attr.name) => {
                return self.unsupported(attr.span, &format!("`T.{}`", attr.name));
            }
            Namespace::Tir => {
                let types = DType::ELEMENTS.iter().map(|t| t.name());
                let intrinsics = Intrinsic::ALL.iter().map(|i| i.name()).chain(Builtin::ALL.iter().map(|b| b.name()));
                ("T.", STATEMENTS.iter().chain(FUNCTIONS).copied().chain(types).chain(intrinsics).collect())
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
        if let Some(ty) = type_of_name(name.name) {
            return self.dtype_call(ty, &full, call);
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
            "shift_left" | "shift_right" | "bitwise_and" | "bitwise_or" | "bitwise_xor" => {
                let function = Intrinsic::from_name(name.name)?;
                let (a, b) = self.two_operands(&full, call)?;
                self.bits(function, a, b, span)
            }
            "bitwise_not" => {
                let args = self.args(&full, call, &["x"], 1)?;
                let e = self.expr(args[0]?)?;
                self.bit_call(Intrinsic::BitNot, &[e], span)
            }
            _ => match (Intrinsic::from_name(name.name), Builtin::from_name(name.name)) {
                (Some(function), _) => self.intrinsic(function, &full, call, span),
                (None, Some(function)) => self.builtin_call(function, &full, call, span),
                (None, None) => self.unknown_member(Namespace::Tir, name),
            },
        }
    }

    /// `T.float32(x)`: a constant, a conversion, or without an argument a new variable.
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
                // `T.int32(3.7)` is 3, as in TVM; a truth value is a number.
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

    /// A conversion to a type with lanes: a scalar is converted and broadcast, a broadcast's value and a ramp's ends are
    /// converted, as TVM's `cast` does.
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

    /// `T.reinterpret("int32", x)` and other functions of TVM that are none of scalars alone.
    fn builtin_call(&mut self, function: Builtin, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let stated = function.typing() == Typing::Stated;
        if let Some((Some(key), _)) = call.keywords.first() {
            // The names of the arguments differ between the versions of TVM.
            return self.unsupported(key.span, &format!("an argument of `{full}` by its name"));
        }
        let (least, most) = function.arity();
        let n = call.args.len().checked_sub(usize::from(stated));
        let Some(n) = n.filter(|n| (least..=most).contains(n)) else {
            let expected = if least == most { least.to_string() } else { format!("at least {least}") };
            let message = format!(
                "`{full}` takes {expected} {}{}, found {}",
                plural(least.max(2), "argument"),
                if stated { " behind the type" } else { "" },
                call.args.len()
            );
            return self.fail(Diagnostic::error_at("argument-count", call.args_span, message));
        };
        let ty = if stated { self.ty(&call.args[0]) } else { Some(DType::Int32.into()) };
        let rest = &call.args[call.args.len() - n..];
        let packed = matches!(function, Builtin::CallPacked | Builtin::CallCPacked);
        let args: Vec<Option<ExprId>> = rest
            .iter()
            .map(|a| match self.eval(a)? {
                Value::Buffer(b) if packed => Some(self.described_array(b)),
                value => self.expr_of(value, a.span),
            })
            .collect();
        let args: Vec<ExprId> = args.into_iter().collect::<Option<_>>()?;
        let ty = match function.typing() {
            Typing::Stated => ty?,
            Typing::Int32 => DType::Int32.into(),
            Typing::Bool => DType::Bool.into(),
            Typing::Handle => DType::Handle.into(),
            Typing::First => self.func.arena.ty(args[0]),
        };
        self.check_builtin(function, &args, ty, span)?;
        Some(Value::Expr(self.func.arena.builtin(function, &args, ty)))
    }

    /// The description of a buffer that a packed function gets.
    fn described_array(&mut self, b: crate::ir::BufferId) -> ExprId {
        let arena = &mut self.func.arena;
        let buffer = arena.buffer(b).clone();
        let shape_of = |arena: &mut crate::ir::Arena, list| {
            let dims = arena.list(list).to_vec();
            arena.builtin(Builtin::StackMakeShape, &dims, DType::Handle)
        };
        let (data, shape) = (arena.buffer_data(b), shape_of(arena, buffer.shape));
        let zero = arena.int32(0);
        let strides = buffer.strides.map_or(zero, |l| shape_of(arena, l));
        let rank = arena.list(buffer.shape).len();
        let (rank, of_type) = (arena.int32(rank as i64), arena.constant(0, buffer.dtype));
        let offset = buffer.elem_offset.unwrap_or(zero);
        arena.builtin(Builtin::StackMakeArray, &[data, shape, strides, rank, of_type, offset], DType::Handle)
    }

    /// Do the types of a builtin's arguments and result fit?
    fn check_builtin(&mut self, function: Builtin, args: &[ExprId], ty: Ty, span: Span) -> Option<()> {
        let arena = &self.func.arena;
        let types: Vec<Ty> = args.iter().map(|&a| arena.ty(a)).collect();
        let halves = |whole: Ty, half: Ty| whole.dtype == half.dtype && whole.lanes == half.lanes * 2;
        let (fits, expected) = match function {
            Builtin::Reinterpret => (types[0].bytes() == ty.bytes(), "a value of as many bits"),
            Builtin::VectorLow | Builtin::VectorHigh => (halves(types[0], ty), "a vector of twice as many lanes"),
            Builtin::VectorCombine => (types.iter().all(|&t| halves(ty, t)), "two vectors of half as many lanes each"),
            Builtin::Ldexp => (
                types[0].dtype.is_float() && types[1].dtype.is_integer() && types[0].lanes == types[1].lanes,
                "a float and an integer",
            ),
            Builtin::QMultiplyShift => (types.iter().all(|t| t.dtype == DType::Int32), "arguments of type `int32`"),
            Builtin::QMultiplyShiftPerAxis => {
                (types.iter().take(5).all(|t| t.dtype == DType::Int32), "five arguments of type `int32`")
            }
            _ => return Some(()),
        };
        if fits {
            return Some(());
        }
        let found: Vec<String> = types.iter().map(|t| format!("`{t}`")).collect();
        let message = format!("`{function}` to `{ty}` takes {expected}, found {}", found.join(" and "));
        self.fail(Diagnostic::error_at("type-mismatch", span, message))
    }

    /// The operands of a function of two.
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

    /// A condition that is a scalar or has as many lanes as the value that it chooses.
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

    /// An expression of a given type; a literal takes it.
    pub(super) fn typed(&mut self, e: &Expr<'a>, ty: Ty) -> Option<ExprId> {
        match self.eval(e)? {
            literal @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) if !ty.is_vector() => {
                self.literal(literal, ty.dtype, e.span)
            }
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

    /// `T.min_value("float32")` and the like.
    fn limit(&mut self, name: Ident<'a>, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["dtype", "*", "span"], 1)?;
        let e = args[0]?;
        let dtype = self.dtype(e)?;
        let arena = &mut self.func.arena;
        let value = match name.name {
            "min_value" | "max_value" if !dtype.is_float() && !dtype.is_integer() => None,
            "min_value" => Some(dtype.min_value()),
            "max_value" => Some(dtype.max_value()),
            "infinity" if dtype.is_float() => Some(Err(f64::INFINITY)),
            "nan" if dtype.is_float() => Some(Err(f64::NAN)),
            _ => None,
        };
        match value {
            Some(Ok(v)) => Some(Value::Expr(arena.int(v, dtype))),
            Some(Err(v)) => Some(Value::Expr(arena.float(v, dtype))),
            None => self.fail(Diagnostic::error_at(
                "type-mismatch",
                e.span,
                format!("`{full}` is not defined for `{dtype}`"),
            )),
        }
    }

    /// Functions that do nothing to integers, and fold constants.
    fn rounding(&mut self, name: Ident<'a>, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let function = Intrinsic::from_name(name.name)?;
        let args = self.args(full, call, &["x", "*", "dtype", "span"], 1)?;
        let e = self.expr(args[0]?)?;
        let arena = &mut self.func.arena;
        let dtype = arena.dtype(e);
        let is_test = matches!(function, Intrinsic::IsNan | Intrinsic::IsInf | Intrinsic::IsFinite);
        if dtype.is_integer() || dtype == DType::Bool {
            return Some(Value::Expr(if is_test { arena.bool(function == Intrinsic::IsFinite) } else { e }));
        }
        if let (Some(v), false) = (arena.as_float(e), is_test) {
            let rounded = match function {
                Intrinsic::Floor => v.floor(),
                Intrinsic::Ceil => v.ceil(),
                Intrinsic::Trunc => v.trunc(),
                _ => v.round_ties_even(),
            };
            return Some(Value::Expr(arena.float(rounded, dtype)));
        }
        self.intrinsic_of(function, full, &[e], &[args[0]?.span], span)
    }

    fn abs(&mut self, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let args = self.args(full, call, &["x", "*", "dtype", "span"], 1)?;
        let e = self.expr(args[0]?)?;
        let arena = &mut self.func.arena;
        let dtype = arena.dtype(e);
        if dtype.is_uint() {
            return Some(Value::Expr(e));
        }
        if let Some(v) = arena.as_int(e) {
            return Some(Value::Expr(arena.int(v.wrapping_abs(), dtype)));
        }
        if let Some(v) = arena.as_float(e) {
            return Some(Value::Expr(arena.float(v.abs(), dtype)));
        }
        self.intrinsic_of(Intrinsic::Abs, full, &[e], &[args[0]?.span], span)
    }

    /// A function of scalars by its name.
    fn intrinsic(&mut self, function: Intrinsic, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let n = function.arity();
        let params: &[&str] = match n {
            1 => &["x", "*", "dtype", "span"],
            2 => &["x1", "x2", "*", "dtype", "span"],
            _ => &["x", "y", "z", "*", "dtype", "span"],
        };
        let given = self.args(full, call, params, n)?;
        let operands: SmallVec<[Option<Operand>; 3]> =
            given.iter().take(n).map(|a| a.and_then(|a| self.eval(a).map(|v| (v, a.span)))).collect();
        let operands: SmallVec<[Operand; 3]> = operands.into_iter().collect::<Option<_>>()?;
        let spans: SmallVec<[Span; 3]> = operands.iter().map(|o| o.1).collect();
        let mut args: SmallVec<[ExprId; 3]> = SmallVec::new();
        for operand in operands {
            // Literals take the type of the first expression, as TVM's operators on two arguments do.
            let next = match (args.first(), operand) {
                (Some(&first), (literal @ (Value::Int(_) | Value::Float(_)), at)) => {
                    self.literal(literal, self.func.arena.dtype(first), at)?
                }
                (_, (value, at)) => self.expr_of(value, at)?,
            };
            args.push(next);
        }
        self.intrinsic_of(function, full, &args, &spans, span)
    }

    /// A function of scalars of these arguments, whose types are checked.
    fn intrinsic_of(
        &mut self,
        function: Intrinsic,
        full: &str,
        args: &[ExprId],
        spans: &[Span],
        span: Span,
    ) -> Option<Value> {
        let first = self.func.arena.dtype(args[0]);
        for (&arg, &at) in args.iter().zip(spans) {
            let found = self.func.arena.dtype(arg);
            let (ok, expected) = match function.domain() {
                Domain::Float => (found.is_float(), "a float"),
                Domain::Integer => (found.is_integer() || found == DType::Bool, "an integer"),
                Domain::Number => (found.is_float() || found.is_integer(), "a number"),
                Domain::Bool => (found == DType::Bool, "a condition of type `bool`"),
            };
            if !ok {
                let d = Diagnostic::error_at(
                    "type-mismatch",
                    at,
                    format!("expected {expected} for `{full}`, found `{found}`"),
                );
                let help = (function.domain() == Domain::Float && found.is_integer())
                    .then(|| "convert it: `T.Cast(\"float32\", …)`".to_string());
                return self.fail(d.maybe_help(help));
            }
            if found != first {
                let message = format!("expected arguments of one type for `{full}`, found `{first}` and `{found}`");
                return self.fail(Diagnostic::error_at("type-mismatch", span, message));
            }
        }
        let lanes = args.iter().map(|&a| self.func.arena.lanes(a)).max().unwrap_or(1);
        if let Some(&odd) = args.iter().find(|&&a| ![1, lanes].contains(&self.func.arena.lanes(a))) {
            let found = self.func.arena.ty(odd);
            let message = format!("expected {lanes} lanes in all arguments of `{full}`, found `{found}`");
            return self.fail(Diagnostic::error_at("lanes", span, message));
        }
        Some(Value::Expr(self.func.arena.call(function, args)))
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

    /// Python's own functions, on constants.
    fn builtin(&mut self, name: &'a str, call: &Call<'a>, span: Span) -> Option<Value> {
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

fn binary_node(name: &str) -> Option<BinOp> {
    use BinOp::*;
    [Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, And, Or].into_iter().find(|op| op.node_name() == name)
}

fn compare_node(name: &str) -> Option<CmpOp> {
    use CmpOp::*;
    [Eq, Ne, Lt, Le, Gt, Ge].into_iter().find(|op| op.node_name() == name)
}
