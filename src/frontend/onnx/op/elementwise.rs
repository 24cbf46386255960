//! Functions of single elements.

use super::super::types;
use super::*;
use crate::ir::DType;

/// An operator that relax has too.
macro_rules! same {
    ($name:literal, $since:literal, $op:literal) => {
        one($name, $since, |n| {
            let x = n.value(0)?;
            n.unary($op, x)
        })
    };
}

/// An operator of two arguments that relax has too.
macro_rules! two {
    ($name:literal, $since:literal, $op:literal) => {
        one($name, $since, |n| {
            let (x, y) = (n.value(0)?, n.value(1)?);
            n.binary($op, x, y)
        })
    };
}

/// An operator of any number of arguments.
macro_rules! all {
    ($name:literal, $op:literal) => {
        one($name, 7, |n| fold_all(n, $op))
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    same!("Abs", 7, "abs"),
    same!("Acos", 7, "acos"),
    same!("Acosh", 9, "acosh"),
    two!("Add", 7, "add"),
    two!("And", 7, "logical_and"),
    same!("Asin", 7, "asin"),
    same!("Asinh", 9, "asinh"),
    same!("Atan", 7, "atan"),
    same!("Atanh", 9, "atanh"),
    two!("BitwiseAnd", 18, "bitwise_and"),
    same!("BitwiseNot", 18, "bitwise_not"),
    two!("BitwiseOr", 18, "bitwise_or"),
    two!("BitwiseXor", 18, "bitwise_xor"),
    one("BitShift", 11, |n| {
        let (x, y) = (n.value(0)?, n.value(1)?);
        match n.text("direction", "").as_str() {
            "LEFT" => n.binary("left_shift", x, y),
            "RIGHT" => n.binary("right_shift", x, y),
            other => n.fail(format!("`BitShift` has the direction `{other}`")),
        }
    }),
    one("Cast", 7, |n| {
        n.ignore("saturate");
        n.ignore("round_mode");
        let x = n.value(0)?;
        let to = i32::try_from(n.int("to", 0)).unwrap_or(0);
        let to = types::dtype(to).map_err(Refusal::from)?;
        n.cast(x, to)
    }),
    one("CastLike", 15, |n| {
        n.ignore("saturate");
        n.ignore("round_mode");
        let (x, like) = (n.value(0)?, n.value(1)?);
        let to = n.dtype(like)?;
        n.cast(x, to)
    }),
    same!("Ceil", 7, "ceil"),
    one("Celu", 12, |n| {
        let (x, alpha) = (n.value(0)?, n.float("alpha", 1.0));
        let scaled = n.with_number("divide", x, alpha)?;
        let e = exp_less_one(n, scaled)?;
        let e = n.with_number("multiply", e, alpha)?;
        let negative = n.with_number("minimum", e, 0.0)?;
        let positive = n.unary("nn.relu", x)?;
        n.binary("add", positive, negative)
    }),
    until(
        one("Clip", 7, |n| {
            let mut x = n.value(0)?;
            if let Some(low) = n.opt_float("min") {
                x = n.with_number("maximum", x, low)?;
            }
            if let Some(high) = n.opt_float("max") {
                x = n.with_number("minimum", x, high)?;
            }
            Ok(x)
        }),
        10,
    ),
    one("Clip", 11, |n| {
        let mut x = n.value(0)?;
        if let Some(low) = n.opt_value(1)? {
            x = n.binary("maximum", x, low)?;
        }
        if let Some(high) = n.opt_value(2)? {
            x = n.binary("minimum", x, high)?;
        }
        Ok(x)
    }),
    same!("Cos", 7, "cos"),
    same!("Cosh", 9, "cosh"),
    two!("Div", 7, "divide"),
    many("Dropout", 7, |n| {
        let x = n.value(0)?;
        let mut ratio = n.float("ratio", 0.5);
        n.ignore("seed");
        let is_training = n.has(2) && n.known_ints(2)?.first() != Some(&0);
        if n.has(1) {
            n.operand(1)?;
            ratio = if is_training { n.known_floats(1)?.first().copied().unwrap_or(ratio) } else { ratio };
        }
        if is_training && ratio != 0.0 {
            return n.fail("`Dropout` in training is not supported");
        }
        let mut results = vec![Operand::Value(x)];
        if n.wants(1) {
            let ones = n.call("ones_like", vec![("x", Arg::Value(x)), ("dtype", text("bool"))])?;
            results.push(Operand::Value(ones));
        }
        Ok(results)
    }),
    one("Elu", 7, |n| {
        let (x, alpha) = (n.value(0)?, n.float("alpha", 1.0));
        let e = exp_less_one(n, x)?;
        let e = n.with_number("multiply", e, alpha)?;
        let is_negative = n.with_number("less", x, 0.0)?;
        n.select(is_negative, e, x)
    }),
    two!("Equal", 7, "equal"),
    same!("Erf", 9, "erf"),
    same!("Exp", 7, "exp"),
    same!("Floor", 7, "floor"),
    one("Gelu", 20, |n| {
        let x = n.value(0)?;
        match n.text("approximate", "none").as_str() {
            "none" => n.unary("nn.gelu", x),
            "tanh" => n.unary("nn.gelu_tanh", x),
            other => n.fail(format!("`Gelu` has the approximation `{other}`")),
        }
    }),
    two!("Greater", 7, "greater"),
    two!("GreaterOrEqual", 12, "greater_equal"),
    one("HardSigmoid", 7, |n| {
        let (x, alpha, beta) = (n.value(0)?, n.float("alpha", 0.2), n.float("beta", 0.5));
        hard_sigmoid(n, x, alpha, beta)
    }),
    one("HardSwish", 14, |n| {
        let x = n.value(0)?;
        let h = hard_sigmoid(n, x, 1.0 / 6.0, 0.5)?;
        n.binary("multiply", x, h)
    }),
    many("Identity", 7, |n| match n.operand(0)? {
        sequence @ Operand::Sequence(_) => Ok(vec![sequence]),
        _ => Ok(vec![Operand::Value(n.value(0)?)]),
    }),
    one("IsInf", 10, |n| {
        let x = n.value(0)?;
        let (negative, positive) = (n.flag("detect_negative", true), n.flag("detect_positive", true));
        let is_infinite = n.unary("isinf", x)?;
        let op = match (negative, positive) {
            (true, true) => return Ok(is_infinite),
            (true, false) => "less",
            (false, true) => "greater",
            (false, false) => {
                return n.call("zeros_like", vec![("x", Arg::Value(is_infinite))]);
            }
        };
        let side = n.with_number(op, x, 0.0)?;
        n.binary("logical_and", is_infinite, side)
    }),
    same!("IsNaN", 9, "isnan"),
    one("LeakyRelu", 7, |n| {
        let (x, alpha) = (n.value(0)?, n.float("alpha", 0.01));
        n.call("nn.leakyrelu", vec![("data", Arg::Value(x)), ("alpha", float(alpha))])
    }),
    two!("Less", 7, "less"),
    two!("LessOrEqual", 12, "less_equal"),
    same!("Log", 7, "log"),
    all!("Max", "maximum"),
    one("Mean", 7, |n| {
        let count = n.n_inputs() as f64;
        let sum = fold_all(n, "add")?;
        n.with_number("divide", sum, count)
    }),
    all!("Min", "minimum"),
    one("Mish", 18, |n| {
        let x = n.value(0)?;
        let s = softplus(n, x)?;
        let t = n.unary("tanh", s)?;
        n.binary("multiply", x, t)
    }),
    one("Mod", 10, |n| {
        let (x, y) = (n.value(0)?, n.value(1)?);
        if n.flag("fmod", false) {
            return n.binary("mod", x, y);
        }
        if !n.dtype(x)?.is_float() {
            return n.binary("floor_mod", x, y);
        }
        // The remainder with the sign of the divisor, also of infinite ones.
        let rest = n.binary("mod", x, y)?;
        let product = n.binary("multiply", rest, y)?;
        let has_other_sign = n.with_number("less", product, 0.0)?;
        let moved = n.binary("add", rest, y)?;
        n.select(has_other_sign, moved, rest)
    }),
    two!("Mul", 7, "multiply"),
    same!("Neg", 7, "negative"),
    same!("Not", 7, "logical_not"),
    two!("Or", 7, "logical_or"),
    one("Pow", 7, |n| {
        let (x, y) = (n.value(0)?, n.value(1)?);
        let (dtype, exponent) = (n.dtype(x)?, n.dtype(y)?);
        if dtype.is_float() || dtype == exponent {
            let y = n.cast(y, dtype)?;
            return if dtype.is_float() { n.binary("power", x, y) } else { power_of_integers(n, x, y, dtype) };
        }
        power_of_integers(n, x, y, dtype)
    }),
    one("PRelu", 7, |n| {
        let (x, slope) = (n.value(0)?, n.value(1)?);
        let scaled = n.binary("multiply", x, slope)?;
        let is_negative = n.with_number("less", x, 0.0)?;
        n.select(is_negative, scaled, x)
    }),
    one("Reciprocal", 7, |n| {
        let x = n.value(0)?;
        let dtype = n.dtype(x)?;
        let one = n.scalar(1.0, dtype)?;
        n.binary("divide", one, x)
    }),
    one("Relu", 7, |n| {
        let x = n.value(0)?;
        if n.dtype(x)?.is_float() { n.unary("nn.relu", x) } else { n.with_number("maximum", x, 0.0) }
    }),
    one("Round", 11, |n| {
        let mut x = n.value(0)?;
        // Quantisation is written so: its quotient must be rounded once.
        if let Some((a, b)) = n.quotient_of(x) {
            x = n.exact_quotient(a, b)?;
        }
        n.unary("round", x)
    }),
    one("Selu", 7, |n| {
        let x = n.value(0)?;
        let alpha = n.float("alpha", 1.673_263_192_176_818_8);
        let gamma = n.float("gamma", 1.050_701_022_148_132_3);
        let e = exp_less_one(n, x)?;
        let e = n.with_number("multiply", e, alpha)?;
        let is_positive = n.with_number("greater", x, 0.0)?;
        let y = n.select(is_positive, x, e)?;
        n.with_number("multiply", y, gamma)
    }),
    one("Shrink", 9, |n| {
        let (x, lambda, bias) = (n.value(0)?, n.float("lambd", 0.5), n.float("bias", 0.0));
        let (low, high) = (n.with_number("add", x, bias)?, n.with_number("subtract", x, bias)?);
        let (is_low, is_high) = (n.with_number("less", x, -lambda)?, n.with_number("greater", x, lambda)?);
        let zero = n.call("zeros_like", vec![("x", Arg::Value(x))])?;
        let y = n.select(is_high, high, zero)?;
        n.select(is_low, low, y)
    }),
    same!("Sigmoid", 7, "sigmoid"),
    same!("Sign", 9, "sign"),
    same!("Sin", 7, "sin"),
    same!("Sinh", 9, "sinh"),
    one("Softplus", 7, |n| {
        let x = n.value(0)?;
        softplus(n, x)
    }),
    one("Softsign", 7, |n| {
        let x = n.value(0)?;
        let a = n.unary("abs", x)?;
        let a = n.with_number("add", a, 1.0)?;
        n.binary("divide", x, a)
    }),
    same!("Sqrt", 7, "sqrt"),
    two!("Sub", 7, "subtract"),
    all!("Sum", "add"),
    one("Swish", 24, |n| {
        let (x, alpha) = (n.value(0)?, n.float("alpha", 1.0));
        let scaled = n.with_number("multiply", x, alpha)?;
        let s = n.unary("sigmoid", scaled)?;
        n.binary("multiply", x, s)
    }),
    same!("Tan", 7, "tan"),
    same!("Tanh", 7, "tanh"),
    one("ThresholdedRelu", 10, |n| {
        let (x, alpha) = (n.value(0)?, n.float("alpha", 1.0));
        let is_above = n.with_number("greater", x, alpha)?;
        let zero = n.call("zeros_like", vec![("x", Arg::Value(x))])?;
        n.select(is_above, x, zero)
    }),
    one("Where", 9, |n| {
        let (condition, x, y) = (n.value(0)?, n.value(1)?, n.value(2)?);
        n.select(condition, x, y)
    }),
    two!("Xor", 7, "logical_xor"),
];

fn fold_all(n: &mut Node<'_, '_>, op: &str) -> Result<ValueId> {
    let mut all = n.values()?.into_iter();
    let Some(first) = all.next() else { return n.fail("lacks its arguments") };
    all.try_fold(first, |x, y| n.binary(op, x, y))
}

pub(super) fn exp_less_one(n: &mut Node<'_, '_>, x: ValueId) -> Result<ValueId> {
    let e = n.unary("exp", x)?;
    n.with_number("subtract", e, 1.0)
}

/// log(1 + exp(-|x|)) + max(x, 0), which does not overflow.
pub(super) fn softplus(n: &mut Node<'_, '_>, x: ValueId) -> Result<ValueId> {
    let a = n.unary("abs", x)?;
    let a = n.unary("negative", a)?;
    let e = n.unary("exp", a)?;
    let e = n.with_number("add", e, 1.0)?;
    let l = n.unary("log", e)?;
    let positive = n.unary("nn.relu", x)?;
    n.binary("add", l, positive)
}

pub(super) fn hard_sigmoid(n: &mut Node<'_, '_>, x: ValueId, alpha: f64, beta: f64) -> Result<ValueId> {
    let y = n.with_number("multiply", x, alpha)?;
    let y = n.with_number("add", y, beta)?;
    let y = n.with_number("maximum", y, 0.0)?;
    n.with_number("minimum", y, 1.0)
}

/// The power of integers, in `float64`, which is exact up to 53 bits.
fn power_of_integers(n: &mut Node<'_, '_>, x: ValueId, y: ValueId, dtype: DType) -> Result<ValueId> {
    let (x, y) = (n.cast(x, DType::Float64)?, n.cast(y, DType::Float64)?);
    let power = n.binary("power", x, y)?;
    n.cast(power, dtype)
}
