//! Reads calls of TVM functions that are not functions of scalars alone: packed functions, addresses, functions of the
//! module, and runtime functions in lowered programs.

use super::args::{counted, plural};
use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::op::Typing;
use crate::ir::{Builtin, DType, ExprId, Pointee, Ty};
use crate::script::python::{Call, Expr, ExprKind, Ident};

/// The builtin with this name in `T`; some builtins have two names.
pub(super) fn named(name: &str) -> Option<Builtin> {
    let current = match name {
        "tvm_call_packed" => "call_packed",
        "tvm_call_cpacked" => "call_cpacked",
        "tvm_call_packed_lowered" => "call_packed_lowered",
        "tvm_call_cpacked_lowered" => "call_cpacked_lowered",
        name => name,
    };
    Builtin::from_name(current).filter(|b| b.has_name())
}

/// Arguments of builtins, by position, that need not be expressions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// A buffer by its name; no expression is allowed.
    Buffer,
    /// A buffer by its name, or an expression.
    AnyArgument,
    /// The description of a buffer, for a packed function.
    Array,
    /// The first element of a buffer.
    Element,
    /// A type, as a text or by name.
    Type,
    None,
}

fn special(function: Builtin, position: usize) -> Special {
    match (function, position) {
        (Builtin::MaskedLoad | Builtin::MaskedStore, 0) => Special::Buffer,
        (Builtin::CallPacked | Builtin::CallCPacked, _) => Special::Array,
        (Builtin::AddressOf, _) => Special::Element,
        (Builtin::AccessPtr, 0) | (Builtin::PtrByteOffset, 2) => Special::Type,
        _ => Special::None,
    }
}

impl<'a> FuncReader<'a, '_> {
    /// `T.reinterpret("int32", x)` and other TVM functions that are not functions of scalars alone.
    pub(super) fn builtin_call(&mut self, function: Builtin, full: &str, call: &Call<'a>, span: Span) -> Option<Value> {
        let stated = matches!(function.typing(), Typing::Stated | Typing::StatedLast);
        let mut given: Vec<&Expr<'a>> = call.args.iter().collect();
        let mut stated_at = None;
        for (key, value) in &call.keywords {
            match key {
                Some(key) if key.name == "dtype" && stated && stated_at.is_none() => stated_at = Some(value),
                Some(key) if key.name == "span" && matches!(value.kind, ExprKind::None) => {}
                // The names of the arguments differ between the versions of TVM.
                Some(key) => return self.unsupported(key.span, &format!("an argument of `{full}` by its name")),
                None => return self.unsupported(value.span, "unpacking with `**`"),
            }
        }
        let (least, most) = function.arity();
        let n = given.len().checked_sub(usize::from(stated && stated_at.is_none()));
        let Some(n) = n.filter(|n| (least..=most).contains(n)) else {
            let expected = if least == most { least.to_string() } else { format!("at least {least}") };
            let place = match function.typing() {
                Typing::Stated => " behind the type",
                Typing::StatedLast => " in front of the type",
                Typing::Returned | Typing::Int32 | Typing::Bool | Typing::Handle | Typing::Void | Typing::First => "",
            };
            let message =
                format!("`{full}` takes {expected} {}{place}, found {}", plural(least.max(2), "argument"), given.len());
            return self.fail(Diagnostic::error_at("argument-count", call.args_span, message));
        };
        if stated && stated_at.is_none() {
            stated_at = Some(given.remove(if function.typing() == Typing::Stated { 0 } else { n }));
        }
        let stated_ty = match stated_at {
            Some(e) => self.stated_type(e),
            None => Some((Ty::VOID, None)),
        };
        let args: Vec<Option<ExprId>> =
            given.iter().enumerate().map(|(i, a)| self.builtin_argument(special(function, i), a)).collect();
        let mut args: Vec<ExprId> = args.into_iter().collect::<Option<_>>()?;
        let (stated_ty, pointee) = stated_ty?;
        let ty = match function.typing() {
            Typing::Stated | Typing::StatedLast => stated_ty,
            Typing::Int32 => DType::Int32.into(),
            Typing::Bool => DType::Bool.into(),
            Typing::Handle => DType::Handle.into(),
            Typing::Void | Typing::Returned => Ty::VOID,
            Typing::First => self.func.arena.ty(args[0]),
        };
        self.check_builtin(function, &args, ty, span)?;
        if let Some(pointee) = pointee {
            args.push(self.func.arena.pointer_type(pointee));
        }
        Some(Value::Expr(self.func.arena.builtin(function, &args, ty)))
    }

    /// A type stated in a call: a text, a type, or `T.handle("int64", "global").ty`.
    fn stated_type(&mut self, e: &Expr<'a>) -> Option<(Ty, Option<Pointee>)> {
        match self.eval(e)? {
            Value::FreshPointer(pointee) => Some((DType::Handle.into(), Some(pointee))),
            Value::Str(name) => Some((self.type_named(&name, e.span)?, None)),
            Value::Type(ty) | Value::Fresh(ty) => Some((ty, None)),
            other => {
                let message = format!("expected a data type, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
        }
    }

    fn builtin_argument(&mut self, special: Special, e: &Expr<'a>) -> Option<ExprId> {
        match (self.eval(e)?, special) {
            (Value::Buffer(b), Special::Array) => Some(self.described_array(b)),
            (Value::Buffer(b), Special::Element) => {
                let shape = self.func.arena.list(self.func.arena.buffer(b).shape).to_vec();
                let types = shape.into_iter().map(|e| self.func.arena.dtype(e)).collect::<Vec<_>>();
                let zeros: Vec<ExprId> = types.into_iter().map(|t| self.func.arena.int(0, t)).collect();
                Some(self.func.arena.load(b, &zeros))
            }
            (Value::Buffer(b), Special::Buffer | Special::AnyArgument) => Some(self.func.arena.whole_buffer_expr(b)),
            (value, Special::Buffer) => {
                let message = format!("expected a buffer, found {}", value.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
            (Value::Type(ty), Special::Type) => Some(self.func.arena.builtin(Builtin::TypeAnnotation, &[], ty)),
            (Value::Str(name), Special::Type) => {
                let ty = self.type_named(&name, e.span)?;
                Some(self.func.arena.builtin(Builtin::TypeAnnotation, &[], ty))
            }
            // The expression may have no value, such as `T.tvm_tuple(…)`.
            (Value::Expr(e), _) => Some(e),
            (value, _) => self.expr_of(value, e.span),
        }
    }

    /// `T.call_intrin("float32", "tirx.exp", x)`: a function by the name of its operator.
    pub(super) fn call_intrin(&mut self, call: &Call<'a>, span: Span) -> Option<Value> {
        let [ty_at, name_at, args @ ..] = call.args.as_slice() else {
            let message = "`T.call_intrin` takes a type, the name of an operator, and its arguments";
            return self.fail(Diagnostic::error_at("argument-count", call.args_span, message));
        };
        if let Some((key, value)) = call.keywords.first() {
            let at = key.map_or(value.span, |k| k.span);
            return self.unsupported(at, "an argument of `T.call_intrin` by its name");
        }
        let ty = self.ty(ty_at)?;
        let ExprKind::Str(operator) = &name_at.kind else {
            let message = "expected the name of an operator, such as `\"tirx.exp\"`";
            return self.fail(Diagnostic::error_at("wrong-argument", name_at.span, message));
        };
        let name = operator.strip_prefix("tirx.").or_else(|| operator.strip_prefix("tir.")).unwrap_or(operator);
        let by_name = |args: Vec<Expr<'a>>| Call {
            callee: call.callee.clone(),
            args,
            keywords: Vec::new(),
            args_span: call.args_span,
        };
        let value = match (named(name), crate::ir::Intrinsic::from_name(name)) {
            (Some(function), _) => {
                let (ty_at, args) = (std::iter::once(ty_at), args.iter());
                let args: Vec<Expr<'a>> = match function.typing() {
                    Typing::Stated => ty_at.chain(args).cloned().collect(),
                    Typing::StatedLast => args.chain(ty_at).cloned().collect(),
                    Typing::Returned | Typing::Int32 | Typing::Bool | Typing::Handle | Typing::Void | Typing::First => {
                        args.cloned().collect()
                    }
                };
                self.builtin_call(function, &format!("T.{name}"), &by_name(args), span)?
            }
            (None, Some(function)) => self.intrinsic(function, &format!("T.{name}"), &by_name(args.to_vec()), span)?,
            (None, None) => {
                let message = format!("unknown operator `{operator}`");
                let d = Diagnostic::error_at("unknown-function", name_at.span, message);
                let near = nearest(name, super::call::function_names());
                return self.fail(d.maybe_help(near.map(|n| format!("did you mean `tirx.{n}`?"))));
            }
        };
        let found = match value {
            Value::Expr(e) => self.func.arena.ty(e),
            _ => return Some(value),
        };
        if found == ty {
            return Some(value);
        }
        let message = format!("`{operator}` gives `{found}` here, found `{ty}`");
        self.fail(Diagnostic::error_at("type-mismatch", ty_at.span, message))
    }

    /// `Module.name(…)`: a call of a function of the module, which may be defined later.
    pub(super) fn module_call(&mut self, name: Ident<'a>, call: &Call<'a>) -> Option<Value> {
        let Some(callee) = self.file.functions.get(name.name).cloned() else {
            let near = nearest(name.name, self.file.functions.keys().copied()).map(str::to_string);
            let message = format!("the module has no function `{}`", name.name);
            let d = Diagnostic::error_at("unknown-function", name.span, message);
            return self.fail(d.maybe_help(near.map(|n| format!("did you mean `{n}`?"))));
        };
        if let Some((key, value)) = call.keywords.first() {
            let at = key.map_or(value.span, |k| k.span);
            return self.unsupported(at, "an argument of a function of the module by its name");
        }
        if call.args.len() != callee.n_params {
            let (expected, found) = (counted(callee.n_params, "argument"), call.args.len());
            let message = format!("`{}` takes {expected}, found {found}", name.name);
            let d = Diagnostic::error_at("argument-count", call.args_span, message);
            return self.fail(d.label(callee.name, "defined here"));
        }
        let ty = match &callee.returns {
            Some(e) => self.dtype(e)?.into(),
            None => Ty::VOID,
        };
        let args: Vec<Option<ExprId>> =
            call.args.iter().map(|a| self.builtin_argument(Special::AnyArgument, a)).collect();
        let mut all = vec![self.func.arena.str(name.name)];
        for arg in args {
            all.push(arg?);
        }
        Some(Value::Expr(self.func.arena.builtin(Builtin::CallModule, &all, ty)))
    }

    /// The description of a buffer, for a packed function.
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

    /// Whether the types of a builtin's arguments and result fit.
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
}
