//! Scalar functions: those of `tvm.tir`, most of which also stand in `te`.

use super::arguments::Bound;
use super::expr::{cast_to, condition, dtype_of, matched, to_expr};
use super::library::{Result, Run};
use super::value::{Value, expr};
use crate::diagnostic::{Diagnostic, Span};
use crate::interpreter::operators::undefined;
use crate::interpreter::{call::Arguments, type_error};
use crate::ir::op::Domain;
use crate::ir::{BinOp, CmpOp, DType, ExprId, Intrinsic};
use crate::script::python::BinaryOp;
use crate::te::Te;

/// A scalar function.
#[derive(Debug)]
pub(super) struct Scalar {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    params: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A function of floats.
    Float(Intrinsic),
    /// A rounding: integers stay.
    Round(Intrinsic),
    /// A test of a float.
    Test(fn(&mut Te, ExprId) -> ExprId),
    /// An operator.
    Binary(BinaryOp),
    /// An operator that has no token.
    Op(BinOp),
    /// A comparison.
    Compare(CmpOp),
    /// A bit operator.
    Bits(Intrinsic),
    /// All or any of conditions.
    Conditions(BinOp),
    /// Anything else.
    Other(Other),
}

#[derive(Clone, Copy, Debug)]
enum Other {
    IfThenElse,
    Select,
    Not,
    Abs,
    CeilDiv,
    LogAddExp,
    Const,
    Cast,
    CastTo,
    Limit(Limit),
    Identity,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Limit {
    Min,
    Max,
    Infinity,
}

const fn float(name: &'static str, f: Intrinsic) -> Scalar {
    Scalar { name, params: "x", kind: Kind::Float(f) }
}

const fn binary(name: &'static str, kind: Kind) -> Scalar {
    Scalar { name, params: "a, b, span=None", kind }
}

const fn other(name: &'static str, params: &'static str, f: Other) -> Scalar {
    Scalar { name, params, kind: Kind::Other(f) }
}

const ALL: &[Scalar] = &[
    float("exp", Intrinsic::Exp),
    float("exp2", Intrinsic::Exp2),
    float("exp10", Intrinsic::Exp10),
    float("erf", Intrinsic::Erf),
    float("tanh", Intrinsic::Tanh),
    float("sigmoid", Intrinsic::Sigmoid),
    float("log", Intrinsic::Log),
    float("log2", Intrinsic::Log2),
    float("log10", Intrinsic::Log10),
    float("log1p", Intrinsic::Log1p),
    float("tan", Intrinsic::Tan),
    float("cos", Intrinsic::Cos),
    float("cosh", Intrinsic::Cosh),
    float("acos", Intrinsic::Acos),
    float("acosh", Intrinsic::Acosh),
    float("sin", Intrinsic::Sin),
    float("sinh", Intrinsic::Sinh),
    float("asin", Intrinsic::Asin),
    float("asinh", Intrinsic::Asinh),
    float("atan", Intrinsic::Atan),
    float("atanh", Intrinsic::Atanh),
    float("sqrt", Intrinsic::Sqrt),
    float("rsqrt", Intrinsic::Rsqrt),
    Scalar { name: "atan2", params: "x1, x2", kind: Kind::Float(Intrinsic::Atan2) },
    Scalar { name: "hypot", params: "x1, x2", kind: Kind::Float(Intrinsic::Hypot) },
    Scalar { name: "copysign", params: "x1, x2", kind: Kind::Float(Intrinsic::CopySign) },
    Scalar { name: "nextafter", params: "x1, x2", kind: Kind::Float(Intrinsic::NextAfter) },
    Scalar { name: "power", params: "x, y, span=None", kind: Kind::Float(Intrinsic::Pow) },
    Scalar { name: "pow", params: "x, y, span=None", kind: Kind::Float(Intrinsic::Pow) },
    Scalar { name: "fmod", params: "x, y", kind: Kind::Float(Intrinsic::Fmod) },
    Scalar { name: "floor", params: "x, span=None", kind: Kind::Round(Intrinsic::Floor) },
    Scalar { name: "ceil", params: "x, span=None", kind: Kind::Round(Intrinsic::Ceil) },
    Scalar { name: "trunc", params: "x, span=None", kind: Kind::Round(Intrinsic::Trunc) },
    Scalar { name: "round", params: "x, span=None", kind: Kind::Round(Intrinsic::Round) },
    Scalar { name: "nearbyint", params: "x, span=None", kind: Kind::Round(Intrinsic::NearbyInt) },
    Scalar { name: "isnan", params: "x, span=None", kind: Kind::Test(Te::is_nan) },
    Scalar { name: "isinf", params: "x, span=None", kind: Kind::Test(Te::is_infinite) },
    Scalar { name: "isfinite", params: "x, span=None", kind: Kind::Test(Te::is_finite) },
    binary("div", Kind::Op(BinOp::Div)),
    binary("truncdiv", Kind::Op(BinOp::Div)),
    binary("truncmod", Kind::Op(BinOp::Mod)),
    binary("floordiv", Kind::Op(BinOp::FloorDiv)),
    binary("floormod", Kind::Op(BinOp::FloorMod)),
    binary("indexdiv", Kind::Op(BinOp::FloorDiv)),
    binary("indexmod", Kind::Op(BinOp::FloorMod)),
    binary("min", Kind::Op(BinOp::Min)),
    binary("max", Kind::Op(BinOp::Max)),
    binary("Min", Kind::Op(BinOp::Min)),
    binary("Max", Kind::Op(BinOp::Max)),
    binary("Add", Kind::Op(BinOp::Add)),
    binary("Sub", Kind::Op(BinOp::Sub)),
    binary("Mul", Kind::Op(BinOp::Mul)),
    binary("Div", Kind::Op(BinOp::Div)),
    binary("Mod", Kind::Op(BinOp::Mod)),
    binary("FloorDiv", Kind::Op(BinOp::FloorDiv)),
    binary("FloorMod", Kind::Op(BinOp::FloorMod)),
    binary("add", Kind::Binary(BinaryOp::Add)),
    binary("subtract", Kind::Binary(BinaryOp::Sub)),
    binary("multiply", Kind::Binary(BinaryOp::Mul)),
    binary("EQ", Kind::Compare(CmpOp::Eq)),
    binary("NE", Kind::Compare(CmpOp::Ne)),
    binary("LT", Kind::Compare(CmpOp::Lt)),
    binary("LE", Kind::Compare(CmpOp::Le)),
    binary("GT", Kind::Compare(CmpOp::Gt)),
    binary("GE", Kind::Compare(CmpOp::Ge)),
    binary("And", Kind::Conditions(BinOp::And)),
    binary("Or", Kind::Conditions(BinOp::Or)),
    Scalar { name: "all", params: "*args, span=None", kind: Kind::Conditions(BinOp::And) },
    Scalar { name: "any", params: "*args, span=None", kind: Kind::Conditions(BinOp::Or) },
    Scalar { name: "bitwise_and", params: "x, y, span=None", kind: Kind::Bits(Intrinsic::BitAnd) },
    Scalar { name: "bitwise_or", params: "x, y, span=None", kind: Kind::Bits(Intrinsic::BitOr) },
    Scalar { name: "bitwise_xor", params: "x, y, span=None", kind: Kind::Bits(Intrinsic::BitXor) },
    Scalar { name: "bitwise_not", params: "x, span=None", kind: Kind::Bits(Intrinsic::BitNot) },
    Scalar { name: "shift_left", params: "x, y, span=None", kind: Kind::Bits(Intrinsic::ShiftLeft) },
    Scalar { name: "shift_right", params: "x, y, span=None", kind: Kind::Bits(Intrinsic::ShiftRight) },
    Scalar { name: "popcount", params: "x", kind: Kind::Bits(Intrinsic::PopCount) },
    Scalar { name: "clz", params: "x", kind: Kind::Bits(Intrinsic::Clz) },
    other("if_then_else", "cond, t, f, span=None", Other::IfThenElse),
    other("Select", "condition, true_value, false_value, span=None", Other::Select),
    other("Not", "a, span=None", Other::Not),
    other("abs", "x, span=None", Other::Abs),
    other("ceildiv", "lhs, rhs, span=None", Other::CeilDiv),
    other("logaddexp", "a, b", Other::LogAddExp),
    other("const", "value, dtype=None, span=None", Other::Const),
    other("IntImm", "dtype, value, span=None", Other::Cast),
    other("FloatImm", "dtype, value, span=None", Other::Cast),
    other("Cast", "dtype, value, span=None", Other::Cast),
    other("cast", "value, dtype, span=None", Other::CastTo),
    other("min_value", "dtype, span=None", Other::Limit(Limit::Min)),
    other("max_value", "dtype, span=None", Other::Limit(Limit::Max)),
    other("infinity", "dtype, span=None", Other::Limit(Limit::Infinity)),
    other("likely", "cond, span=None", Other::Identity),
    other("convert", "value, span=None", Other::Identity),
    other("float16", "value", Other::Identity),
    other("float32", "value", Other::Identity),
    other("float64", "value", Other::Identity),
    other("bfloat16", "value", Other::Identity),
    other("int8", "value", Other::Identity),
    other("int16", "value", Other::Identity),
    other("int32", "value", Other::Identity),
    other("int64", "value", Other::Identity),
    other("uint8", "value", Other::Identity),
    other("uint16", "value", Other::Identity),
    other("uint32", "value", Other::Identity),
    other("uint64", "value", Other::Identity),
    other("bool", "value", Other::Identity),
];

/// The function called `name`.
pub(super) fn find(name: &str) -> Option<&'static Scalar> {
    ALL.iter().find(|f| f.name == name)
}

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|f| f.name)
}

impl Scalar {
    /// Calls the function.
    pub(super) fn call(&self, run: &mut Run<'_>, args: &Arguments<super::value::Own>, span: Span) -> Result<Value> {
        let bound = Bound::of(format!("tir.{}", self.name), self.params, args, span)?;
        let mut given = bound.all();
        given.retain(|(name, ..)| *name != "span");
        let operand = |run: &mut Run<'_>, i: usize| {
            let (_, value, span) = &given[i];
            to_expr(run, value, *span)
        };
        let result = match self.kind {
            Kind::Float(f) => {
                let mut operands = vec![operand(run, 0)?];
                if given.len() == 2 {
                    let second = operand(run, 1)?;
                    let (a, b) = matched(run, operands[0], second, span)?;
                    operands = vec![a, b];
                }
                intrinsic(run, f, &operands, self.name, span)?
            }
            Kind::Round(f) => {
                let x = operand(run, 0)?;
                match run.library.te.dtype(x).is_float() {
                    true => run.library.te.call(f, &[x]),
                    false => x,
                }
            }
            Kind::Test(f) => {
                let x = operand(run, 0)?;
                f(&mut run.library.te, x)
            }
            Kind::Binary(op) => {
                let ((_, a, a_span), (_, b, b_span)) = (given[0].clone(), given[1].clone());
                return run.binary(op, a, b, a_span, b_span);
            }
            Kind::Op(op) => {
                let (a, b) = (operand(run, 0)?, operand(run, 1)?);
                arithmetic(run, op, a, b, self.name, span)?
            }
            Kind::Compare(op) => {
                let (a, b) = (operand(run, 0)?, operand(run, 1)?);
                let (a, b) = matched(run, a, b, span)?;
                run.library.te.compare(op, a, b)
            }
            Kind::Bits(f) => {
                let a = operand(run, 0)?;
                let operands = match given.len() {
                    1 => vec![a],
                    _ => {
                        let b = operand(run, 1)?;
                        let (a, b) = matched(run, a, b, span)?;
                        vec![a, b]
                    }
                };
                bits(run, f, &operands, self.name, span)?
            }
            Kind::Conditions(op) => {
                let conditions: Vec<(Value, Span)> = match &given[..] {
                    [(_, Value::Sequence(all), at)] => all.items.iter().map(|v| (v.clone(), *at)).collect(),
                    all => all.iter().map(|(_, v, at)| (v.clone(), *at)).collect(),
                };
                let mut result = None;
                for (value, at) in conditions {
                    let next = condition(run, &value, at)?;
                    result = Some(match result {
                        None => next,
                        Some(before) => run.library.te.binary(op, before, next),
                    });
                }
                match result {
                    Some(result) => result,
                    None => {
                        return Err(type_error(span, format!("`tir.{}` takes at least one condition", self.name)));
                    }
                }
            }
            Kind::Other(f) => self.other(run, f, &bound, &given, span)?,
        };
        Ok(expr(result))
    }

    fn other(
        &self,
        run: &mut Run<'_>,
        f: Other,
        bound: &Bound,
        given: &[(&'static str, Value, Span)],
        span: Span,
    ) -> Result<ExprId> {
        let operand = |run: &mut Run<'_>, i: usize| to_expr(run, &given[i].1, given[i].2);
        Ok(match f {
            Other::IfThenElse | Other::Select => {
                let c = condition(run, &given[0].1, given[0].2)?;
                let (a, b) = (operand(run, 1)?, operand(run, 2)?);
                let (a, b) = matched(run, a, b, span)?;
                match f {
                    Other::IfThenElse => run.library.te.if_then_else(c, a, b),
                    _ => run.library.te.select(c, a, b),
                }
            }
            Other::Not => {
                let c = condition(run, &given[0].1, given[0].2)?;
                run.library.te.not(c)
            }
            Other::Abs => {
                let x = operand(run, 0)?;
                absolute(run, x)
            }
            Other::CeilDiv => {
                let (a, b) = (operand(run, 0)?, operand(run, 1)?);
                let (a, b) = matched(run, a, b, span)?;
                let dtype = run.library.te.dtype(a);
                let one = run.library.te.constant(1, dtype);
                let sum = run.library.te.add(a, b);
                let sum = run.library.te.sub(sum, one);
                arithmetic(run, BinOp::FloorDiv, sum, b, self.name, span)?
            }
            Other::LogAddExp => {
                let (a, b) = (operand(run, 0)?, operand(run, 1)?);
                let (a, b) = matched(run, a, b, span)?;
                let te = &mut run.library.te;
                if !te.dtype(a).is_float() {
                    return Err(type_error(span, "expected floats for `logaddexp`"));
                }
                let (larger, smaller) = (te.max(a, b), te.min(a, b));
                let difference = te.sub(smaller, larger);
                let exp = te.call(Intrinsic::Exp, &[difference]);
                let dtype = te.dtype(a);
                let one = te.constant(1, dtype);
                let sum = te.add(one, exp);
                let log = te.call(Intrinsic::Log, &[sum]);
                te.add(larger, log)
            }
            Other::Const => {
                let value = operand(run, 0)?;
                match bound.get("dtype") {
                    (Value::None, _) => value,
                    (dtype, at) => {
                        let dtype = dtype_of(run, &dtype, at)?;
                        cast_to(run, dtype, value, span)?
                    }
                }
            }
            Other::Cast | Other::CastTo => {
                let (dtype, at) = bound.get("dtype");
                let dtype = dtype_of(run, &dtype, at)?;
                let (value, at) = bound.get("value");
                let value = to_expr(run, &value, at)?;
                cast_to(run, dtype, value, at)?
            }
            Other::Limit(limit) => {
                let dtype = dtype_of(run, &given[0].1, given[0].2)?;
                let te = &mut run.library.te;
                match (limit, dtype.is_float()) {
                    (Limit::Infinity, true) => te.float(f64::INFINITY, dtype),
                    (Limit::Infinity, false) => {
                        return Err(type_error(given[0].2, format!("`{dtype}` has no infinity")));
                    }
                    (Limit::Min, _) => crate::te::least(te, dtype),
                    (Limit::Max, _) => crate::te::greatest(te, dtype),
                }
            }
            Other::Identity => {
                let value = operand(run, 0)?;
                match self.name.parse::<DType>() {
                    Ok(dtype) => cast_to(run, dtype, value, given[0].2)?,
                    Err(_) => value,
                }
            }
        })
    }
}

/// The absolute value.
pub(super) fn absolute(run: &mut Run<'_>, x: ExprId) -> ExprId {
    let te = &mut run.library.te;
    let dtype = te.dtype(x);
    match dtype {
        _ if dtype.is_float() => te.call(Intrinsic::Abs, &[x]),
        _ if dtype.is_int() => {
            let (zero, minus_one) = (te.constant(0, dtype), te.constant(-1, dtype));
            let (is_positive, negated) = (te.compare(CmpOp::Ge, x, zero), te.mul(x, minus_one));
            te.select(is_positive, x, negated)
        }
        _ => x,
    }
}

/// A call of an intrinsic on floats.
pub(super) fn intrinsic(
    run: &mut Run<'_>,
    f: Intrinsic,
    operands: &[ExprId],
    name: &str,
    span: Span,
) -> Result<ExprId> {
    let dtype = run.library.te.dtype(operands[0]);
    if f.domain() == Domain::Float && !dtype.is_float() {
        let d = Diagnostic::error_at("type", span, format!("`{name}` takes floats, found `{dtype}`"));
        return Err(d.help("convert it: `x.astype(\"float32\")`").into());
    }
    Ok(run.library.te.call(f, operands))
}

/// A bit operator on integers of one type.
pub(super) fn bits(run: &mut Run<'_>, f: Intrinsic, operands: &[ExprId], name: &str, span: Span) -> Result<ExprId> {
    let dtype = run.library.te.dtype(operands[0]);
    if !dtype.is_integer() && dtype != DType::Bool {
        return Err(type_error(span, format!("`{name}` takes integers, found `{dtype}`")));
    }
    Ok(run.library.te.call(f, operands))
}

/// Arithmetic on two operands, which are converted to a common type.
pub(super) fn arithmetic(run: &mut Run<'_>, op: BinOp, a: ExprId, b: ExprId, name: &str, span: Span) -> Result<ExprId> {
    let (a, b) = matched(run, a, b, span)?;
    let te = &mut run.library.te;
    let dtype = te.dtype(a);
    let divides = matches!(op, BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod);
    if matches!(op, BinOp::FloorDiv | BinOp::FloorMod | BinOp::Mod) && dtype.is_float() {
        let d = Diagnostic::error_at("type", span, format!("`{name}` takes integers, found `{dtype}`"));
        let mend = if op == BinOp::FloorDiv { "`te.floor(a / b)`" } else { "`te.fmod(a, b)`" };
        return Err(d.help(format!("write {mend}")).into());
    }
    if divides && te.as_const(b).is_some_and(|c| c.as_f64() == 0.0) {
        return Err(undefined(name, span));
    }
    Ok(te.binary(op, a, b))
}
