//! The convolution of integers less zero points becomes one of bytes, with channels last.
//!
//! ```text
//! R.nn.conv2d(x - zx, w - zw, padding=1)
//!
//! // becomes
//! y = R.nn.conv2d(R.nn.pad(x with channels last, 1, zx), w, data_layout="NHWC", kernel_layout="HWIO", out_dtype="int32")
//! y - zx * R.sum(w - zw, axis=[0, 1, 2]) - zw * (sums of the windows of x)       with channels first again
//! ```
//!
//! The four terms of a dot product are channels, which are neighbours only if they are last; if there are not as many, zeros are added. What
//! is around the data stands for 0, and so is `zx`. If that is not known, 0 is put there, and the sums of weights are those of the taps that
//! lie on the data.

use super::integers::{Centred, Zero};
use super::product::TERMS;
use crate::graph::function::{Arg, CallId, Callee, Function, ValueId};
use crate::graph::infer::Args;
use crate::graph::op::Geometry;
use crate::graph::operator::Operator;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType, ExprId};

/// The layouts with channels last, by the number of spatial dimensions.
const LAYOUTS: [(&str, &str); 3] = [("NWC", "WIO"), ("NHWC", "HWIO"), ("NDHWC", "DHWIO")];

pub(super) fn of_bytes(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let conv = Conv::of(rw, &rw.args(c)?)?;
    if rw.dtype(rw.function.call(c).result) != Some(DType::Int32) {
        return None;
    }
    let (x, w) = (Centred::of(rw, conv.data)?, Centred::of(rw, conv.weight)?);
    let rank = conv.rank();
    let fits = (0..rank).all(|d| x.zero.is_single_along(rw, rank, d))
        && (1..rank).all(|d| w.zero.is_single_along(rw, rank, d))
        && (w.zero == Zero::Known(0) || conv.groups == 1 || conv.is_depthwise(rw)?);
    if !fits {
        return None;
    }
    let (x, w) = (x.of_type(rw, DType::UInt8)?, w.of_type(rw, DType::Int8)?);
    conv.on_bytes(rw, x, w)
}

/// Whether a call is a convolution of bytes with channels last.
pub(super) fn is_of_bytes(function: &Function, c: CallId) -> bool {
    let call = function.call(c);
    let Callee::Op(op) = call.callee else { return false };
    let args = Args { op, args: &call.args, function };
    let is_last = || LAYOUTS.iter().any(|(data, _)| args.opt_text("data_layout") == Some(data));
    let data = || args.value("data").and_then(|v| function.ty(v).as_tensor()?.dtype);
    op.name.starts_with("nn.conv") && !op.name.ends_with("transpose") && is_last() && data() == Some(DType::UInt8)
}

/// The dimensions of a tensor with channels first, in the order with channels last.
pub(super) fn to_last(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// The dimensions of a tensor with channels last, in the order with channels first.
pub(super) fn to_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// A convolution with channels first.
struct Conv {
    op: &'static Operator,
    data: ValueId,
    weight: ValueId,
    before: Vec<i64>,
    after: Vec<i64>,
    strides: Arg,
    dilation: Arg,
    groups: i64,
}

impl Conv {
    fn of(rw: &Rewriter<'_>, args: &Args<'_>) -> Option<Conv> {
        if !matches!(args.op.name, "nn.conv1d" | "nn.conv2d" | "nn.conv3d") {
            return None;
        }
        let Geometry { before, after, groups, .. } = Geometry::of(args)?;
        let starts = |name, with| args.opt_text(name).is_none_or(|t: &str| t.is_empty() || t.starts_with(with));
        let is_first = starts("data_layout", "NC") && starts("kernel_layout", "OI") && starts("out_layout", "NC");
        let (data, weight) = (args.value("data")?, args.value("weight")?);
        let (strides, dilation) = (args.get("strides").clone(), args.get("dilation").clone());
        let known = rw.shape(data)?.len() == before.len() + 2;
        (is_first && known).then_some(Conv { op: args.op, data, weight, before, after, strides, dilation, groups })
    }

    fn rank(&self) -> usize {
        self.before.len() + 2
    }

    /// Whether each channel is a group with one result.
    fn is_depthwise(&self, rw: &Rewriter<'_>) -> Option<bool> {
        let shape = rw.shape(self.weight)?;
        let arena = &rw.function.arena;
        Some(arena.is_int(shape[0], self.groups) && arena.is_int(shape[1], 1))
    }

    fn on_bytes(&self, rw: &mut Rewriter<'_>, x: Centred, w: Centred) -> Option<ValueId> {
        let rank = self.rank();
        let (channel, input) = (rank - 1, rank - 2);
        let kernel: Vec<usize> = (2..rank).chain([1, 0]).collect();
        let w = Centred { bytes: rw.permuted(w.bytes, &kernel)?, zero: self.zero_of_channels(rw, w.zero)? };
        let data = rw.permuted(x.bytes, &to_last(rank))?;
        let extra = self.missing_channels(rw)?;
        let behind = |dim: usize| (0..2 * rank).map(|i| if i == 2 * dim + 1 { extra } else { 0 }).collect::<Vec<i64>>();
        let none = vec![0; rank - 2];
        let (data, (before, after)) = match x.zero {
            Zero::Known(number) if number != 0 => {
                let sides = self.before.iter().zip(&self.after).flat_map(|(&a, &b)| [a, b]);
                let widths: Vec<i64> = [0, 0].into_iter().chain(sides).chain([0, extra]).collect();
                (rw.padded(data, &widths, number)?, (&none, &none))
            }
            _ => (rw.padded(data, &behind(channel), 0)?, (&self.before, &self.after)),
        };
        let weight = rw.padded(w.bytes, &behind(input), 0)?;
        let mut total = self.call(rw, data, weight, (before, after))?;
        if x.zero != Zero::Known(0) {
            let wide = w.value(rw)?;
            let is_inside = before.iter().chain(after).all(|&p| p == 0);
            let sums = match is_inside {
                true => rw.summed(wide, &(0..channel).collect::<Vec<_>>())?,
                false => {
                    let shape = rw.shape(self.data)?;
                    let one = rw.function.arena.int(1, DType::Int64);
                    let shape = to_last(rank).iter().map(|&d| if d == 0 { one } else { shape[d] }).collect();
                    let ones = rw.ones(shape, DType::Int32)?;
                    self.call(rw, ones, wide, (before, after))?
                }
            };
            total = rw.less(total, x.zero, sums)?;
        }
        if w.zero != Zero::Known(0) {
            // Zeros of the weights in added channels leave these out, whatever they are.
            let mut shape = rw.shape(w.bytes)?;
            shape[channel] = rw.function.arena.int(self.groups, DType::Int64);
            let ones = rw.ones(shape, DType::Int8)?;
            let ones = rw.padded(ones, &behind(input), 0)?;
            let sums = self.call(rw, data, ones, (before, after))?;
            total = rw.less(total, w.zero, sums)?;
        }
        rw.permuted(total, &to_first(rank))
    }

    /// The zero points of output channels where these are last.
    fn zero_of_channels(&self, rw: &mut Rewriter<'_>, zero: Zero) -> Option<Zero> {
        let Zero::Value(v) = zero else { return Some(zero) };
        let shape = rw.shape(v)?;
        if shape.len() < self.rank() {
            return Some(zero);
        }
        Some(Zero::Value(rw.reshaped(v, vec![shape[0]])?))
    }

    /// How many channels must be added for whole dot products.
    fn missing_channels(&self, rw: &Rewriter<'_>) -> Option<i64> {
        let n = rw.function.arena.as_int(rw.shape(self.weight)?[1])?;
        Some(if self.groups == 1 { (TERMS - n % TERMS) % TERMS } else { 0 })
    }

    fn call(
        &self,
        rw: &mut Rewriter<'_>,
        data: ValueId,
        weight: ValueId,
        (before, after): (&[i64], &[i64]),
    ) -> Option<ValueId> {
        let (data_layout, kernel_layout) = LAYOUTS[self.rank() - 3];
        let padding = before.iter().chain(after).map(|&p| AttrValue::Int(p)).collect();
        let text = |t: &str| Arg::Attr(AttrValue::Str(t.into()));
        let mut args: Vec<Arg> = self.op.params.iter().map(|p| p.default.arg()).collect();
        for (name, arg) in [
            ("data", Arg::Value(data)),
            ("weight", Arg::Value(weight)),
            ("strides", self.strides.clone()),
            ("padding", Arg::Attr(AttrValue::List(padding))),
            ("dilation", self.dilation.clone()),
            ("groups", Arg::Attr(AttrValue::Int(self.groups))),
            ("data_layout", text(data_layout)),
            ("kernel_layout", text(kernel_layout)),
            ("out_dtype", text("int32")),
        ] {
            args[self.op.position(name)?] = arg;
        }
        rw.add_call(self.op, args)
    }
}

impl Rewriter<'_> {
    fn ones(&mut self, shape: Vec<ExprId>, dtype: DType) -> Option<ValueId> {
        let one = self.add_integer(1, dtype)?;
        self.add_op("full", vec![("shape", Arg::Shape(shape)), ("fill_value", Arg::Value(one))])
    }
}
