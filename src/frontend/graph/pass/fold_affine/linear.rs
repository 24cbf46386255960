//! Operators that are linear in a weight.

use super::constants::is_moderate;
use super::is_precise;
use super::step::Kind;
use crate::graph::function::{Arg, ValueId};
use crate::graph::infer::Args;
use crate::graph::op::Geometry;
use crate::graph::operator::Operator;
use crate::graph::pass::rewrite::Rewriter;
use crate::ir::ExprId;

/// A convolution, or the product with a matrix, by a weight that is the same in every call.
pub(super) struct Linear {
    op: &'static Operator,
    args: Vec<Arg>,
    /// The position of the weight among the arguments.
    at: usize,
    weight: ValueId,
    result: ValueId,
    channels: Channels,
}

/// The dimensions of output channels.
struct Channels {
    result: usize,
    weight: usize,
    /// Whether the weight has an element for each of the channels. The weight of a transposed convolution with groups has them for a
    /// group.
    is_whole: bool,
}

impl Linear {
    /// The operator that computes a value which no other call reads.
    pub(super) fn of(rw: &Rewriter<'_>, result: ValueId) -> Option<Linear> {
        let call = rw.function.definition(result).filter(|_| rw.has_uses(result, 1))?;
        let crate::graph::Callee::Op(op) = call.callee else { return None };
        let args = Args { op, args: &call.args, function: rw.function };
        let name = if op.name == "matmul" { "x2" } else { "weight" };
        let at = op.position(name)?;
        let weight = args.value(name).filter(|&weight| rw.is_invariant(weight))?;
        let channels = Channels::of(rw, &args, result, weight)?;
        let is_precise = is_precise(rw, weight) && rw.dtype(weight) == rw.dtype(result);
        is_precise.then(|| Linear { op, args: call.args.clone(), at, weight, result, channels })
    }

    /// The operator with its weight multiplied or divided by a factor; `None` if the factor differs along other dimensions than the
    /// output channels.
    pub(super) fn scaled(&self, rw: &mut Rewriter<'_>, kind: Kind, factor: ValueId) -> Option<ValueId> {
        let channels = self.channels_of(rw, factor)?;
        // Dimensions of extent 1 behind the channels put these in their place.
        let n_behind = if channels.is_empty() { 0 } else { rw.shape(self.weight)?.len() - 1 - self.channels.weight };
        let factor = rw.reshaped_with_ones(factor, channels, n_behind)?;
        let weight = rw.add_binary(kind.name(), self.weight, factor)?;
        if rw.function.ty(weight) != rw.function.ty(self.weight) || !is_moderate(rw, weight) {
            return None;
        }
        let mut args = self.args.clone();
        args[self.at] = Arg::Value(weight);
        rw.add_call(self.op, args)
    }

    /// The number of channels along which a factor of the result differs, as an extent; none if it is a scalar. `None` if it differs
    /// along another dimension.
    fn channels_of(&self, rw: &Rewriter<'_>, factor: ValueId) -> Option<Vec<ExprId>> {
        let (shape, result, weight) = (rw.shape(factor)?, rw.shape(self.result)?, rw.shape(self.weight)?);
        let missing = result.len().checked_sub(shape.len())?;
        let varies = |d: &usize| !rw.function.arena.is_int(shape[*d], 1);
        let varying: Vec<usize> = (0..shape.len()).filter(varies).collect();
        match varying[..] {
            [] => Some(Vec::new()),
            [d] => {
                let is_channels = d + missing == self.channels.result && shape[d] == weight[self.channels.weight];
                (is_channels && self.channels.is_whole).then(|| vec![shape[d]])
            }
            _ => None,
        }
    }
}

impl Channels {
    fn of(rw: &Rewriter<'_>, args: &Args<'_>, result: ValueId, weight: ValueId) -> Option<Channels> {
        if args.op.name == "matmul" {
            let (rank, of_weight) = (rw.shape(result)?.len(), rw.shape(weight)?.len());
            // The product with a vector has no columns.
            let has_columns = of_weight > 1;
            return has_columns.then(|| Channels { result: rank - 1, weight: of_weight - 1, is_whole: true });
        }
        let conv = Geometry::of(args)?;
        let is_whole = conv.groups == 1 || !args.op.name.ends_with("_transpose");
        Some(Channels { result: conv.result_channels, weight: conv.weight_channels, is_whole })
    }
}
