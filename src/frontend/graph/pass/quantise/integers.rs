//! Tensors of bytes less their zero points.

use crate::graph::Constant;
use crate::graph::function::{Arg, ValueId};
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType};

/// Whether a type is of bytes.
pub(super) fn is_byte(dtype: Option<DType>) -> bool {
    matches!(dtype, Some(DType::UInt8 | DType::Int8))
}

/// What is subtracted from bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Zero {
    /// A number.
    Known(i64),
    /// A tensor of `int32`, which is broadcast to the shape of the bytes.
    Value(ValueId),
}

impl Zero {
    /// The number that a value is, if it is known, or the value.
    pub(super) fn of(rw: &Rewriter<'_>, v: ValueId) -> Zero {
        known(rw, v).map_or(Zero::Value(v), Zero::Known)
    }

    /// The tensor of `int32`.
    pub(super) fn value(self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        match self {
            Zero::Known(n) => rw.add_integer(n, DType::Int32),
            Zero::Value(v) => Some(v),
        }
    }

    fn shifted(self, rw: &mut Rewriter<'_>, by: i64) -> Option<Zero> {
        Some(match self {
            Zero::Known(n) => Zero::Known(n + by),
            Zero::Value(v) => {
                let by = rw.add_integer(by, DType::Int32)?;
                Zero::Value(rw.add_binary("add", v, by)?)
            }
        })
    }

    /// Whether it is the same for all elements along a dimension of a tensor of some rank.
    pub(super) fn is_single_along(self, rw: &Rewriter<'_>, rank: usize, dim: usize) -> bool {
        let Zero::Value(v) = self else { return true };
        let Some(shape) = rw.shape(v) else { return false };
        let missing = rank.saturating_sub(shape.len());
        dim < missing || rw.function.arena.is_int(shape[dim - missing], 1)
    }
}

/// `R.subtract(R.astype(bytes, "int32"), zero)`
#[derive(Clone, Copy, Debug)]
pub(super) struct Centred {
    pub(super) bytes: ValueId,
    pub(super) zero: Zero,
}

impl Centred {
    pub(super) fn of(rw: &Rewriter<'_>, v: ValueId) -> Option<Centred> {
        if rw.dtype(v) != Some(DType::Int32) {
            return None;
        }
        if let Some(bytes) = widened(rw, v) {
            return Some(Centred { bytes, zero: Zero::Known(0) });
        }
        let difference = rw.defined_by(v, "subtract")?;
        let (wide, zero) = (difference.value("x1")?, difference.value("x2")?);
        let bytes = widened(rw, wide)?;
        (rw.shape(bytes) == rw.shape(v)).then(|| Centred { bytes, zero: Zero::of(rw, zero) })
    }

    /// The difference as a tensor of `int32`.
    pub(super) fn value(self, rw: &mut Rewriter<'_>) -> Option<ValueId> {
        let wide = rw.converted(self.bytes, DType::Int32)?;
        match self.zero {
            Zero::Known(0) => Some(wide),
            zero => {
                let zero = zero.value(rw)?;
                rw.add_binary("subtract", wide, zero)
            }
        }
    }

    /// The same difference of bytes of another type: those that differ in the sign bit.
    pub(super) fn of_type(self, rw: &mut Rewriter<'_>, dtype: DType) -> Option<Centred> {
        let from = rw.dtype(self.bytes)?;
        if from == dtype {
            return Some(self);
        }
        let by = if dtype == DType::UInt8 { 128 } else { -128 };
        let bytes = match super::signs::with_other_sign(rw, self.bytes) {
            Some(known) => known,
            None => super::signs::flipped(rw, self.bytes)?,
        };
        Some(Centred { bytes, zero: self.zero.shifted(rw, by)? })
    }
}

/// The bytes of `R.astype(bytes, "int32")`.
fn widened(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    let bytes = rw.defined_by(v, "astype")?.value("x")?;
    is_byte(rw.dtype(bytes)).then_some(bytes)
}

/// The integer that all elements of a value are, if it follows from a constant.
pub(super) fn known(rw: &Rewriter<'_>, v: ValueId) -> Option<i64> {
    let v = rw.function.resolved(v);
    if let Some(constant) = rw.function.constant(v) {
        let first = constant.int(0)?;
        return (1..constant.len()).all(|i| constant.int(i) == Some(first)).then_some(first);
    }
    if let Some(args) = rw.defined_by(v, "astype") {
        let (x, to) = (args.value("x")?, rw.dtype(v)?);
        return (to == DType::Int32 && is_byte(rw.dtype(x))).then(|| known(rw, x))?;
    }
    known(rw, rw.defined_by(v, "reshape")?.value("x")?)
}

impl Rewriter<'_> {
    /// Adds a constant without dimensions.
    pub(super) fn add_integer(&mut self, n: i64, dtype: DType) -> Option<ValueId> {
        let constant = Constant::integer(n, dtype)?;
        Some(self.add_constant(constant))
    }

    /// A tensor by another type of elements.
    pub(super) fn converted(&mut self, v: ValueId, dtype: DType) -> Option<ValueId> {
        if self.dtype(v)? == dtype {
            return Some(v);
        }
        let dtype = Arg::Attr(AttrValue::Str(dtype.to_string().as_str().into()));
        self.add_op("astype", vec![("x", Arg::Value(v)), ("dtype", dtype)])
    }

    /// The sums along dimensions, which stay with the extent 1.
    pub(super) fn summed(&mut self, v: ValueId, dims: &[usize]) -> Option<ValueId> {
        let args = vec![("x", Arg::Value(v)), ("axis", ints(dims)), ("keepdims", Arg::Attr(AttrValue::Bool(true)))];
        self.add_op("sum", args)
    }

    /// A tensor with its dimensions in another order.
    pub(super) fn permuted(&mut self, v: ValueId, axes: &[usize]) -> Option<ValueId> {
        if axes.iter().copied().eq(0..axes.len()) {
            return Some(v);
        }
        self.add_op("permute_dims", vec![("x", Arg::Value(v)), ("axes", ints(axes))])
    }

    /// A tensor with a number around it; `widths` are those before and after each dimension.
    pub(super) fn padded(&mut self, v: ValueId, widths: &[i64], number: i64) -> Option<ValueId> {
        if widths.iter().all(|&w| w == 0) {
            return Some(v);
        }
        let widths = AttrValue::List(widths.iter().map(|&w| AttrValue::Int(w)).collect());
        let number = Arg::Attr(AttrValue::Float(number as f64));
        self.add_op("nn.pad", vec![("data", Arg::Value(v)), ("pad_width", Arg::Attr(widths)), ("pad_value", number)])
    }

    /// A sum of products less what zero points contribute: `zero` times `sums`.
    pub(super) fn less(&mut self, total: ValueId, zero: Zero, sums: ValueId) -> Option<ValueId> {
        let zero = zero.value(self)?;
        let excess = self.add_binary("multiply", sums, zero)?;
        self.add_binary("subtract", total, excess)
    }
}

/// Integers as an attribute.
pub(super) fn ints(all: &[usize]) -> Arg {
    Arg::Attr(AttrValue::List(all.iter().map(|&n| AttrValue::Int(n as i64)).collect()))
}
