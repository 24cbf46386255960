//! Operators behind a convolution with channels last work on its result as it is, and the permutation goes behind them.
//!
//! ```text
//! R.nn.relu(R.permute_dims(y, axes=[0, 3, 1, 2]))                       →    R.permute_dims(R.nn.relu(y), axes=[0, 3, 1, 2])
//! R.nn.max_pool2d(R.permute_dims(y, …))                                 →    R.permute_dims(R.nn.max_pool2d(y, layout="NHWC"), …)
//! R.add(R.permute_dims(a, …), R.permute_dims(b, …))                     →    R.permute_dims(R.add(a, b), …)
//! R.permute_dims(y of one pixel, …)                                     →    R.reshape(y, …)
//! ```
//!
//! Where the permutation meets the opposite one of the next convolution, both vanish.

use super::convolution::{to_first, to_last};
use super::floats::is_single;
use super::integers::ints;
use crate::graph::function::{Arg, CallId, ValueId};
use crate::graph::operator::{Kind, Lowering};
use crate::graph::pass::canonicalise::permute::axes;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::{AttrValue, DType};

/// Operators of single elements that have attributes.
const POINTWISE: [&str; 4] = ["astype", "clip", "nn.leakyrelu", "nn.relu6"];

/// Reductions.
const REDUCTIONS: [&str; 4] = ["max", "mean", "min", "sum"];

pub(super) fn sink(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c)?;
    let rank = rw.shape(rw.function.call(c).result)?.len();
    match args.op.name {
        "permute_dims" => as_reshape(rw, c),
        "concat" => concatenated(rw, c, rank),
        "quantize" | "dequantize" => by_scale(rw, c, rank),
        "nn.pad" => padded(rw, c, rank),
        name if name.starts_with("nn.max_pool") || name.starts_with("nn.avg_pool") => pooled(rw, c, rank),
        name if REDUCTIONS.contains(&name) => reduced(rw, c),
        name if POINTWISE.contains(&name) || matches!(args.op.lower, Lowering::Elementwise(..)) => {
            elementwise(rw, c, rank)
        }
        _ => None,
    }
}

/// The value whose channels a permutation puts first.
fn behind(rw: &Rewriter<'_>, v: ValueId) -> Option<ValueId> {
    let args = rw.defined_by(v, "permute_dims")?;
    let x = args.value("x")?;
    let rank = rw.shape(x)?.len();
    (rank >= 3 && axes(&args, rank)? == to_first(rank)).then_some(x)
}

/// A permutation that keeps the order of all dimensions but those of extent 1.
fn as_reshape(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c)?;
    let x = args.value("x")?;
    let shape = rw.shape(x)?;
    let axes = axes(&args, shape.len())?;
    let long: Vec<usize> = axes.into_iter().filter(|&d| !rw.function.arena.is_int(shape[d], 1)).collect();
    let to = rw.shape(rw.function.call(c).result)?;
    if long.is_sorted() { rw.reshaped(x, to) } else { None }
}

/// Fewest channels of a permutation that is worth squares of elements.
const FEWEST: i64 = 16;

/// A permutation between both layouts of images is one of matrices, whose rows are as long as whole images.
pub(super) fn as_matrix(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.name == "permute_dims")?;
    let x = args.value("x")?;
    let shape = rw.shape(x)?;
    let (rank, axes) = (shape.len(), axes(&args, shape.len())?);
    let goes_last = rank >= 4 && axes == to_last(rank);
    let channels = if goes_last { 1 } else { rank - 1 };
    if !goes_last && (rank < 4 || axes != to_first(rank)) || rw.is_invariant(x) {
        return None;
    }
    let numbers = shape.iter().map(|&e| rw.function.arena.as_int(e)).collect::<Option<Vec<i64>>>()?;
    if numbers[channels] < FEWEST {
        return None;
    }
    let pixels: i64 = numbers[1..].iter().product::<i64>() / numbers[channels];
    let pixels = rw.function.arena.int(pixels, DType::Int64);
    let matrix = if goes_last { vec![shape[0], shape[1], pixels] } else { vec![shape[0], pixels, shape[channels]] };
    let x = rw.reshaped(x, matrix)?;
    let moved = rw.permuted(x, &[0, 2, 1])?;
    let to = rw.shape(rw.function.call(c).result)?;
    rw.reshaped(moved, to)
}

fn elementwise(rw: &mut Rewriter<'_>, c: CallId, rank: usize) -> Option<ValueId> {
    let args = rw.args(c)?;
    let (op, mut all) = (args.op, args.args.to_vec());
    if !all.iter().flat_map(Arg::values).any(|&v| behind(rw, v).is_some()) {
        return None;
    }
    for v in all.iter_mut().flat_map(Arg::values_mut) {
        *v = match behind(rw, *v) {
            Some(x) if rw.shape(x)?.len() == rank => x,
            Some(_) => return None,
            None => with_channels_last(rw, *v, rank)?,
        };
    }
    let result = rw.add_call(op, all)?;
    rw.permuted(result, &to_first(rank))
}

/// An operand that is the same in every call, or one number, as it is broadcast to tensors with channels last.
fn with_channels_last(rw: &mut Rewriter<'_>, v: ValueId, rank: usize) -> Option<ValueId> {
    if is_single(rw, v) && rw.shape(v)?.len() <= rank {
        return Some(v);
    }
    if !rw.is_invariant(v) {
        return None;
    }
    let shape = rw.shape(v)?;
    let one = rw.function.arena.int(1, DType::Int64);
    let full = std::iter::repeat_n(one, rank.checked_sub(shape.len())?).chain(shape).collect();
    let v = rw.reshaped(v, full)?;
    rw.permuted(v, &to_last(rank))
}

fn by_scale(rw: &mut Rewriter<'_>, c: CallId, rank: usize) -> Option<ValueId> {
    let args = rw.args(c)?;
    let (op, mut all) = (args.op, args.args.to_vec());
    let x = behind(rw, args.value("data")?)?;
    let axis = args.axis(args.int("axis"), rank).ok()?;
    let axis = to_last(rank).iter().position(|&d| d == axis)?;
    all[op.position("data")?] = Arg::Value(x);
    all[op.position("axis")?] = Arg::Attr(AttrValue::Int(axis as i64));
    let result = rw.add_call(op, all)?;
    rw.permuted(result, &to_first(rank))
}

fn concatenated(rw: &mut Rewriter<'_>, c: CallId, rank: usize) -> Option<ValueId> {
    let args = rw.args(c)?;
    let (op, mut all) = (args.op, args.args.to_vec());
    let axis = args.axis(args.opt_int("axis")?, rank).ok()?;
    let axis = to_last(rank).iter().position(|&d| d == axis)?;
    for v in all.iter_mut().flat_map(Arg::values_mut) {
        *v = behind(rw, *v)?;
    }
    all[op.position("axis")?] = Arg::Attr(AttrValue::Int(axis as i64));
    let result = rw.add_call(op, all)?;
    rw.permuted(result, &to_first(rank))
}

fn padded(rw: &mut Rewriter<'_>, c: CallId, rank: usize) -> Option<ValueId> {
    let args = rw.args(c)?;
    let (op, mut all) = (args.op, args.args.to_vec());
    let x = behind(rw, args.value("data")?)?;
    let widths = args.ints("pad_width");
    let widths = to_last(rank).iter().flat_map(|&d| [widths[2 * d], widths[2 * d + 1]]).map(AttrValue::Int).collect();
    all[op.position("data")?] = Arg::Value(x);
    all[op.position("pad_width")?] = Arg::Attr(AttrValue::List(widths));
    let result = rw.add_call(op, all)?;
    rw.permuted(result, &to_first(rank))
}

fn pooled(rw: &mut Rewriter<'_>, c: CallId, rank: usize) -> Option<ValueId> {
    let args = rw.args(c)?;
    let (op, mut all) = (args.op, args.args.to_vec());
    let x = behind(rw, args.value("data")?)?;
    let is_first = |name| args.opt_text(name).is_none_or(|t: &str| t.is_empty() || t.starts_with("NC"));
    if !is_first("layout") || !is_first("out_layout") {
        return None;
    }
    let layout = ["NWC", "NHWC", "NDHWC"].get(rank.checked_sub(3)?)?;
    all[op.position("data")?] = Arg::Value(x);
    all[op.position("layout")?] = Arg::Attr(AttrValue::Str((*layout).into()));
    all[op.position("out_layout")?] = Arg::Attr(AttrValue::None);
    let result = rw.add_call(op, all)?;
    rw.permuted(result, &to_first(rank))
}

fn reduced(rw: &mut Rewriter<'_>, c: CallId) -> Option<ValueId> {
    let args = rw.args(c).filter(|args| args.op.params.first().is_some_and(|p| p.kind == Kind::Tensor))?;
    let (op, mut all) = (args.op, args.args.to_vec());
    let x = behind(rw, args.value("x")?)?;
    let rank = rw.shape(x)?.len();
    let axes = args.axes(&args.opt_ints("axis")?, rank).ok()?;
    let keeps = args.flag("keepdims");
    // Without its pixels, a tensor has the same order by both layouts.
    let is_spatial = axes.len() >= rank - 2 && (2..rank).all(|d| axes.contains(&d));
    if !keeps && !is_spatial {
        return None;
    }
    let moved: Vec<usize> =
        to_last(rank).iter().enumerate().filter(|(_, d)| axes.contains(d)).map(|(i, _)| i).collect();
    all[op.position("x")?] = Arg::Value(x);
    all[op.position("axis")?] = ints(&moved);
    let result = rw.add_call(op, all)?;
    if keeps { rw.permuted(result, &to_first(rank)) } else { Some(result) }
}
