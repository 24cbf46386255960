//! Compiles what texts with tensor expressions have beside Python.

use super::function::{Found, Function, find};
use crate::diagnostic::Span;
use crate::interpreter::Vocabulary;
use crate::interpreter::builtin::Builtin;
use crate::interpreter::code::{CallArgs, Expr, ExprKind};
use crate::interpreter::compile::Compiler;
use crate::script::python;

/// The expressions that only these texts have.
#[derive(Debug)]
pub(super) enum Code {
    /// A function of a module as a value: `te.sum`.
    Function(Function),
    /// A call of a function of a module.
    Call(Function, CallArgs<Code>),
    /// A call of a method.
    Method(Box<Method>),
}

/// `receiver.name(…)`
#[derive(Debug)]
pub(super) struct Method {
    /// The object.
    pub receiver: Expr<Code>,
    /// The name of the method.
    pub name: Box<str>,
    /// Its place.
    pub name_span: Span,
    /// The arguments.
    pub args: CallArgs<Code>,
}

/// Finds a function of a module. Without one, the mistake is reported.
fn function<'a>(compiler: &mut Compiler<'a, '_, '_, Code>, path: &str, span: Span) -> Option<Function> {
    let short = path.strip_prefix("tvm.").unwrap_or(path);
    match find(path) {
        Found::Function(f) => return Some(f),
        Found::Refused(why) => {
            compiler.error("unsupported", span, format!("`{short}` {why}"));
        }
        Found::Unknown(near) => {
            let message = format!("`{short}` is not known here");
            compiler.error("unknown-function", span, message).help = near.map(|n| format!("did you mean `{n}`?"));
        }
        Found::Foreign => {
            let message = format!("`{short}` is not possible in a definition of tensors");
            compiler.error("unsupported", span, message).help =
                Some("definitions may use `te`, `topi`, `tvm.tir` and Python's own functions".to_owned());
        }
    }
    None
}

impl Vocabulary for Code {
    const WHAT: &'static str = "a definition of tensors";

    const MODULES: &'static [(&'static str, &'static str)] = &[
        ("tvm", "tvm"),
        ("te", "tvm.te"),
        ("tir", "tvm.tir"),
        ("tirx", "tvm.tirx"),
        ("T", "tvm.T"),
        ("topi", "tvm.topi"),
        ("auto_scheduler", "tvm.auto_scheduler"),
        ("autotvm", "tvm.autotvm"),
    ];

    const CLOSURES: bool = true;

    const FIXED_FIRST_PARAMETER: bool = false;

    fn help_on_function(name: &str) -> Option<&'static str> {
        (name == "print").then_some("`tvmr emit --stage tir` prints the program, `--stage dag` its stages")
    }

    fn module_value<'a>(compiler: &mut Compiler<'a, '_, '_, Code>, path: &str, span: Span) -> ExprKind<Code> {
        match path {
            "math.pi" => return ExprKind::Float(std::f64::consts::PI),
            "math.inf" => return ExprKind::Float(f64::INFINITY),
            "math.e" => return ExprKind::Float(std::f64::consts::E),
            _ => {}
        }
        match function(compiler, path, span) {
            Some(f) => ExprKind::Own(Code::Function(f)),
            None => ExprKind::None,
        }
    }

    fn module_call<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        path: &str,
        call: &python::Call<'a>,
        _: Span,
    ) -> ExprKind<Code> {
        match function(compiler, path, call.callee.span) {
            Some(f) => {
                let args = compiler.call_args(call);
                ExprKind::Own(Code::Call(f, args))
            }
            None => ExprKind::None,
        }
    }

    fn method_call<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        of: &python::Expr<'a>,
        method: python::Ident<'a>,
        call: &python::Call<'a>,
    ) -> ExprKind<Code> {
        let receiver = compiler.expr(of);
        let args = compiler.call_args(call);
        let (name, name_span) = (method.name.into(), method.span);
        ExprKind::Own(Code::Method(Box::new(Method { receiver, name, name_span, args })))
    }

    fn attribute_of_first(_: &str) -> Option<Option<String>> {
        None
    }

    fn lambda<'a>(
        compiler: &mut Compiler<'a, '_, '_, Code>,
        lambda: &python::Lambda<'a>,
        span: Span,
    ) -> ExprKind<Code> {
        compiler.closure(lambda, span)
    }

    fn builtin_in_formula<'a>(
        _: &mut Compiler<'a, '_, '_, Code>,
        _: Builtin,
        _: &python::Call<'a>,
    ) -> Option<ExprKind<Code>> {
        None
    }
}
