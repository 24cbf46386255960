//! The interpreter of Python texts. It knows the language; what the names of modules and the methods of objects mean, a *library*
//! says. There are two: [`schedule_function`](crate::schedule_function), in which `sch.split(…)` are instructions of a schedule, and
//! [`te_function`](crate::te_function), in which `te.compute(…)` defines tensors.
//!
//! The supported part of the language is: variables, unpacking, lists, tuples, dictionaries, integers and floats, `for` over
//! lists and ranges, `if`, comprehensions, f-strings, assertions, lambdas, functions that call each other, and a few built-in
//! functions. Everything else is refused with a diagnostic.
//!
//! # What a library gives
//! A [`Vocabulary`] compiles what it alone knows: calls of functions of modules, and of methods. A [`Library`] has values of its
//! own ([`Value::Own`]), and evaluates what its vocabulary compiled. Where a value of its own meets an operator, the library is
//! asked.
//!
//! # Stages
//! | file | content |
//! | --- | --- |
//! | [`python`] | parses the text |
//! | [`scope`], [`compile`], [`compile_expr`] | resolve names and calls; find all mistakes that need no run |
//! | [`code`] | the result of compiling |
//! | [`run`], [`eval`], [`operators`], [`call`] | execute statements, expressions, operators and calls |
//! | [`value`], [`lists`], [`builtin`] | values, changes of lists, built-in functions |
//! | [`failure`] | errors |
//!
//! A text is untrusted, so steps, nesting and the length of lists and texts are limited.

pub(crate) mod builtin;
pub(crate) mod call;
pub(crate) mod code;
pub(crate) mod compile;
mod compile_expr;
pub(crate) mod eval;
mod failure;
mod lists;
pub(crate) mod operators;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod value;

pub use failure::Failure;
pub(crate) use failure::type_error;
pub(crate) use run::{Result, Run};
pub(crate) use value::Value;

use crate::diagnostic::Span;
use crate::ir::BinOp;
use crate::script::python::{self, BinaryOp, CompareOp};
use call::Arguments;
use code::ExprKind;
use compile::Compiler;
use std::fmt::Debug;

/// What a library knows when a text is compiled. The type that implements it is that of expressions which only the library can
/// evaluate. An error is reported by [`Compiler::error`], and `ExprKind::None` stands for the expression then.
pub(crate) trait Vocabulary: Debug + Send + Sync + Sized + 'static {
    /// The name of such a function, with an article, for messages.
    const WHAT: &'static str;

    /// Names of modules that need no import, each with the full name of what it stands for.
    const MODULES: &'static [(&'static str, &'static str)];

    /// Whether functions are values, and may be nested.
    const CLOSURES: bool;

    /// Whether the first parameter of a function is the object on which it works, and keeps its value.
    const FIXED_FIRST_PARAMETER: bool;

    /// What helps who wrote a call of an unknown function, if that is a known mistake.
    fn help_on_function(name: &str) -> Option<&'static str>;

    /// A function or constant of a module as a value: `tvm.te.sum`.
    fn module_value<'a>(compiler: &mut Compiler<'a, '_, '_, Self>, path: &str, span: Span) -> ExprKind<Self>;

    /// A call of a function of a module.
    fn module_call<'a>(
        compiler: &mut Compiler<'a, '_, '_, Self>,
        path: &str,
        call: &python::Call<'a>,
        span: Span,
    ) -> ExprKind<Self>;

    /// A call of a method: `of.method(…)`.
    fn method_call<'a>(
        compiler: &mut Compiler<'a, '_, '_, Self>,
        of: &python::Expr<'a>,
        method: python::Ident<'a>,
        call: &python::Call<'a>,
    ) -> ExprKind<Self>;

    /// Why an attribute of the first parameter is no value, with a help, if the library knows all its attributes.
    fn attribute_of_first(name: &str) -> Option<Option<String>>;

    /// A lambda: a function ([`Compiler::closure`]), or a formula of its parameters.
    fn lambda<'a>(compiler: &mut Compiler<'a, '_, '_, Self>, lambda: &python::Lambda<'a>, span: Span)
    -> ExprKind<Self>;

    /// A call of a built-in function inside a formula, if the library gives it another meaning there.
    fn builtin_in_formula<'a>(
        compiler: &mut Compiler<'a, '_, '_, Self>,
        function: builtin::Builtin,
        call: &python::Call<'a>,
    ) -> Option<ExprKind<Self>>;
}

/// A value that only a library knows.
pub(crate) trait OwnValue: Clone + Debug {
    /// The depth of its nesting, which is limited.
    fn depth(&self) -> usize;
}

/// What a library does when a text runs.
pub(crate) trait Library: Sized {
    /// Its expressions.
    type Code: Vocabulary;

    /// Its values.
    type Value: OwnValue;

    /// What refused an operation, beside the diagnostic.
    type Cause;

    /// Whether the run is to end now, and with what error. It is asked at each step.
    fn stopped(&self, span: Span) -> Option<Failure<Self::Cause>>;

    /// A description of a value for messages, with an article.
    fn describe(&self, value: &Self::Value) -> &'static str;

    /// The value as an integer, if it is one.
    fn int(&self, value: &Self::Value) -> Option<i64>;

    /// Does the value count as true?
    fn truth(run: &mut Run<'_, Self>, value: &Self::Value, span: Span) -> Result<bool, Self>;

    /// Are the values equal? One of them is the library's.
    fn equal(run: &mut Run<'_, Self>, a: &Value<Self::Value>, b: &Value<Self::Value>, span: Span)
    -> Result<bool, Self>;

    /// `a op b`, where one of them is the library's; `None` if there is no such operation.
    fn binary(
        run: &mut Run<'_, Self>,
        op: BinaryOp,
        a: &Value<Self::Value>,
        b: &Value<Self::Value>,
        span: Span,
    ) -> Result<Option<Value<Self::Value>>, Self>;

    /// `a op b`, where one of them is the library's; `None` if they are compared as Python's values.
    fn compare(
        run: &mut Run<'_, Self>,
        op: CompareOp,
        a: &Value<Self::Value>,
        b: &Value<Self::Value>,
        span: Span,
    ) -> Result<Option<Value<Self::Value>>, Self>;

    /// The smaller or larger of two values, where one of them is the library's; `None` if they are compared.
    fn extremum(
        run: &mut Run<'_, Self>,
        op: BinOp,
        a: &Value<Self::Value>,
        b: &Value<Self::Value>,
        span: Span,
    ) -> Result<Option<Value<Self::Value>>, Self>;

    /// `~a`
    fn invert(run: &mut Run<'_, Self>, a: &Self::Value, span: Span) -> Result<Option<Value<Self::Value>>, Self>;

    /// `-a`, if that is not `0 - a`.
    fn negate(run: &mut Run<'_, Self>, a: &Self::Value, span: Span) -> Result<Option<Value<Self::Value>>, Self>;

    /// `of[at]`; `None` if it has no items.
    fn index(
        run: &mut Run<'_, Self>,
        of: &Self::Value,
        at: &Value<Self::Value>,
        span: Span,
    ) -> Result<Option<Value<Self::Value>>, Self>;

    /// `of.name`
    fn attribute(
        run: &mut Run<'_, Self>,
        of: &Value<Self::Value>,
        name: &str,
        span: Span,
    ) -> Result<Value<Self::Value>, Self>;

    /// `callee(…)`; `None` if it is no function.
    fn call(
        run: &mut Run<'_, Self>,
        callee: &Self::Value,
        arguments: &Arguments<Self::Value>,
        span: Span,
    ) -> Result<Option<Value<Self::Value>>, Self>;

    /// The value of an expression of the library.
    fn eval<'a>(run: &mut Run<'a, Self>, code: &'a Self::Code, span: Span) -> Result<Value<Self::Value>, Self>;
}
