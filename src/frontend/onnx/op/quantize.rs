//! Quantised tensors: integers that stand for (integer - zero point) * scale.

use super::nn::{convolution, spatial};
use super::*;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    one("ConvInteger", 10, |n| {
        let (x, w) = (n.value(0)?, n.value(1)?);
        let spatial = spatial(n, x)?;
        let (x, w) = (centred(n, x, 2, None)?, centred(n, w, 3, Some((0, spatial + 2)))?);
        convolution(n, x, w, spatial)
    }),
    one("DequantizeLinear", 10, dequantize),
    many("DynamicQuantizeLinear", 11, |n| {
        let x = n.value(0)?;
        Ok(dynamic(n, x)?.map(Operand::Value).to_vec())
    }),
    one("MatMulInteger", 10, |n| {
        let (a, b) = (n.value(0)?, n.value(1)?);
        centred_product(n, (a, 2), (b, 3))
    }),
    one("QLinearConv", 10, |n| {
        let (x, w) = (n.value(0)?, n.value(3)?);
        let spatial = spatial(n, x)?;
        let (x, w) = (centred(n, x, 2, None)?, centred(n, w, 5, Some((0, spatial + 2)))?);
        let mut y = convolution(n, x, w, spatial)?;
        if let Some(bias) = n.opt_value(8)? {
            let bias = n.aligned(bias, 0, spatial + 1)?;
            y = n.binary("add", y, bias)?;
        }
        let (scale_x, scale_w, scale_y) = (n.value(1)?, n.value(4)?, n.value(6)?);
        let scale_w = n.aligned(scale_w, 0, spatial + 1)?;
        requantized(n, y, [scale_x, scale_w, scale_y], 7)
    }),
    one("QLinearMatMul", 10, |n| {
        let (a, b) = (n.value(0)?, n.value(3)?);
        let rank = n.rank(a)?;
        let row = rank.checked_sub(2).map(|row| (row, rank));
        let (a, b) = (centred(n, a, 2, row)?, centred(n, b, 5, None)?);
        let y = n.matmul(a, b)?;
        let (scale_a, scale_b, scale_y) = (n.value(1)?, n.value(4)?, n.value(6)?);
        let scale_a = match row {
            Some((row, rank)) => n.aligned(scale_a, row, rank)?,
            None => scale_a,
        };
        requantized(n, y, [scale_a, scale_b, scale_y], 7)
    }),
    one("QuantizeLinear", 10, quantize),
];

/// A tensor as bytes, with the scale and the zero point of its range.
pub(super) fn dynamic(n: &mut Node<'_, '_>, x: ValueId) -> Result<[ValueId; 3]> {
    let axes: Vec<i64> = (0..n.rank(x)? as i64).collect();
    let (low, high) = (n.reduce("min", x, &axes, false)?, n.reduce("max", x, &axes, false)?);
    // 0 is exact, so it is in the range.
    let (low, high) = (n.with_number("minimum", low, 0.0)?, n.with_number("maximum", high, 0.0)?);
    let range = n.binary("subtract", high, low)?;
    let scale = n.with_number("divide", range, 255.0)?;
    let zero = n.exact_quotient(low, scale)?;
    let zero = n.unary("negative", zero)?;
    let zero = n.saturated(zero, DType::UInt8)?;
    let y = rounded(n, x, scale, zero)?;
    Ok([y, scale, zero])
}

/// The product of integers less their zero points, which are arguments.
pub(super) fn centred_product(
    n: &mut Node<'_, '_>,
    (a, zero_a): (ValueId, usize),
    (b, zero_b): (ValueId, usize),
) -> Result<ValueId> {
    let rank = n.rank(a)?;
    let row = rank.checked_sub(2).map(|row| (row, rank));
    let (a, b) = (centred(n, a, zero_a, row)?, centred(n, b, zero_b, None)?);
    n.matmul(a, b)
}

pub(super) fn dequantize(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let x = n.value(0)?;
    let spread = Spread::of(n, x)?;
    let scale = n.value(1)?;
    let dtype = n.dtype(scale)?;
    let dtype = n.dtype_attr("output_dtype", dtype)?;
    let zero = n.zero_point(2)?;
    if dtype == DType::Float32 && n.dtype(scale)? == dtype && spread.is_along_axis(n, scale)? {
        let zero = match zero {
            Some(zero) => zero,
            None => n.scalar(0.0, n.dtype(x)?)?,
        };
        let to = ("out_dtype", text("float32"));
        return n.call("dequantize", spread.args(x, scale, zero).into_iter().chain([to]).collect());
    }
    let mut y = n.cast(x, DType::Int32)?;
    if let Some(zero) = zero {
        let zero = n.cast(zero, DType::Int32)?;
        let zero = spread.apply(n, zero)?;
        y = n.binary("subtract", y, zero)?;
    }
    let y = n.cast(y, dtype)?;
    let scale = spread.apply(n, scale)?;
    let scale = n.cast(scale, dtype)?;
    n.binary("multiply", y, scale)
}

pub(super) fn quantize(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let x = n.value(0)?;
    let spread = Spread::of(n, x)?;
    let scale = n.value(1)?;
    n.ignore("saturate");
    let dtype = n.dtype(scale)?;
    let precision = n.dtype_attr("precision", dtype)?;
    let zero = n.zero_point(2)?;
    let to = match zero {
        Some(zero) => n.dtype(zero)?,
        None => DType::UInt8,
    };
    let to = n.dtype_attr("output_dtype", to)?;
    let is_float = [n.dtype(x)?, n.dtype(scale)?, precision] == [DType::Float32; 3];
    if is_float && matches!(to, DType::UInt8 | DType::Int8) && spread.is_along_axis(n, scale)? {
        let zero = match zero {
            Some(zero) => zero,
            None => n.scalar(0.0, to)?,
        };
        let to = ("out_dtype", text(&to.to_string()));
        return n.call("quantize", spread.args(x, scale, zero).into_iter().chain([to]).collect());
    }
    let scale = spread.apply(n, scale)?;
    let (x, scale) = (n.cast(x, precision)?, n.cast(scale, precision)?);
    let y = n.exact_quotient(x, scale)?;
    let y = n.unary("round", y)?;
    let mut y = n.cast(y, DType::Float32)?;
    if let Some(zero) = zero {
        let zero = spread.apply(n, zero)?;
        let zero = n.cast(zero, DType::Float32)?;
        y = n.binary("add", y, zero)?;
    }
    n.saturated(y, to)
}

/// Floats as integers by a scale and a zero point.
pub(super) fn rounded(n: &mut Node<'_, '_>, x: ValueId, scale: ValueId, zero: ValueId) -> Result<ValueId> {
    let to = n.dtype(zero)?;
    let args = [("data", x), ("scale", scale), ("zero_point", zero)].map(|(name, v)| (name, Arg::Value(v)));
    n.call("quantize", args.into_iter().chain([("out_dtype", text(&to.to_string()))]).collect())
}

/// How scales and zero points are spread over a tensor.
struct Spread {
    axis: usize,
    /// Elements along the axis that share a scale; 0 where there are no blocks.
    block: i64,
    shape: Vec<crate::ir::ExprId>,
}

impl Spread {
    fn of(n: &mut Node<'_, '_>, x: ValueId) -> Result<Spread> {
        let (shape, axis, block) = (n.shape(x)?, n.int("axis", 1), n.int("block_size", 0));
        let rank = shape.len();
        // A tensor without that many dimensions has one scale.
        let axis = if (-(rank as i64)..rank as i64).contains(&axis) { n.axis(axis, rank)? } else { 0 };
        Ok(Spread { axis, block, shape })
    }

    /// Whether scales are numbers or vectors along the axis, as operators of graphs have them.
    fn is_along_axis(&self, n: &Node<'_, '_>, scale: ValueId) -> Result<bool> {
        Ok(self.block == 0 && !self.shape.is_empty() && n.rank(scale)? <= 1)
    }

    fn args(&self, x: ValueId, scale: ValueId, zero: ValueId) -> Vec<(&'static str, Arg)> {
        vec![
            ("data", Arg::Value(x)),
            ("scale", Arg::Value(scale)),
            ("zero_point", Arg::Value(zero)),
            ("axis", int(self.axis as i64)),
        ]
    }

    fn apply(&self, n: &mut Node<'_, '_>, v: ValueId) -> Result<ValueId> {
        let rank = self.shape.len();
        match n.rank(v)? {
            0 => Ok(v),
            1 if self.block == 0 => n.aligned(v, self.axis, rank),
            found if found == rank && self.block > 0 => {
                let v = n.repeat(v, self.block, self.axis)?;
                let (extent, all) = (n.arena().as_int(self.shape[self.axis]), n.known_shape(v)?[self.axis]);
                match extent {
                    Some(extent) if extent < all => n.part(v, self.axis, (0, extent), 1),
                    _ => Ok(v),
                }
            }
            found => n.fail(format!("`{}` has a scale of {found} dimensions", n.op_type())),
        }
    }
}

impl Node<'_, '_> {
    /// A zero point that may be absent: a number if all its elements are equal and known, also where they are a weight.
    fn zero_point(&mut self, argument: usize) -> Result<Option<ValueId>> {
        if !self.has(argument) {
            return Ok(None);
        }
        if let Some((number, dtype)) = self.uniform(argument) {
            return self.scalar(number as f64, dtype).map(Some);
        }
        self.value(argument).map(Some)
    }

    /// The integer that all elements of an argument are, if they are known, and their type.
    fn uniform(&mut self, argument: usize) -> Option<(i64, DType)> {
        let elements = self.constant(argument)?;
        let first = elements.int(0)?;
        (1..elements.len()).all(|i| elements.int(i) == Some(first)).then_some((first, elements.dtype()))
    }

    /// A vector along one of `rank` dimensions; a single element as a number.
    fn aligned(&mut self, v: ValueId, axis: usize, rank: usize) -> Result<ValueId> {
        let shape = self.shape(v)?;
        match shape[..] {
            [extent] if self.arena().is_int(extent, 1) => self.reshape(v, Vec::new()),
            [extent] => {
                let one = self.index(1);
                let mut full = vec![one; rank];
                full[axis] = extent;
                self.reshape(v, full)
            }
            _ => Ok(v),
        }
    }

    /// The nearest integer of a type.
    fn saturated(&mut self, x: ValueId, to: DType) -> Result<ValueId> {
        let bits = to.bits();
        if !to.is_integer() || bits > 32 {
            return self.fail(format!("`{}` to {to} is not supported", self.op_type()));
        }
        let half = 2_f64.powi(bits as i32 - 1);
        let (low, high) = if to.is_int() { (-half, half - 1.0) } else { (0.0, 2.0 * half - 1.0) };
        let x = self.unary("round", x)?;
        let x = self.with_number("maximum", x, low)?;
        let x = self.with_number("minimum", x, high)?;
        self.cast(x, to)
    }
}

/// A tensor of integers less its zero point, which is an argument; `at` is the axis of a vector of them, and the rank.
pub(super) fn centred(
    n: &mut Node<'_, '_>,
    x: ValueId,
    argument: usize,
    at: Option<(usize, usize)>,
) -> Result<ValueId> {
    let wide = n.cast(x, DType::Int32)?;
    match if n.has(argument) { n.uniform(argument) } else { return Ok(wide) } {
        Some((0, _)) => return Ok(wide),
        Some((number, _)) => return n.with_number("subtract", wide, number as f64),
        None => {}
    }
    let zero = n.value(argument)?;
    let zero = n.cast(zero, DType::Int32)?;
    let zero = match at {
        Some((axis, rank)) => n.aligned(zero, axis, rank)?,
        None if n.rank(zero)? == 1 && n.known_shape(zero)? == [1] => n.reshape(zero, Vec::new())?,
        None => zero,
    };
    n.binary("subtract", wide, zero)
}

/// Sums of products as integers by another scale: of both factors and of the result, whose zero point is an argument.
pub(super) fn requantized(n: &mut Node<'_, '_>, sum: ValueId, [a, b, y]: [ValueId; 3], zero: usize) -> Result<ValueId> {
    let [a, b, y] = [n.cast(a, DType::Float32)?, n.cast(b, DType::Float32)?, n.cast(y, DType::Float32)?];
    let scale = n.binary("multiply", a, b)?;
    let scale = n.binary("divide", scale, y)?;
    let sum = n.cast(sum, DType::Float32)?;
    let scaled = n.binary("multiply", sum, scale)?;
    let (one, zero) = (n.scalar(1.0, DType::Float32)?, n.value(zero)?);
    rounded(n, scaled, one, zero)
}
