//! Sums, products, extremes and their positions.

use super::call::{Call, TopiError};
use super::{Operator, by};
use crate::ir::{BinOp, CmpOp, DType, ExprId};
use crate::te::{Combiner, DefinitionAxis, Te, Tensor, greatest, least};

const PARAMS: &str = "data, axis=None, keepdims=False";

const ARG_PARAMS: &str = "data, axis=None, keepdims=False, select_last_index=False";

pub(super) static OPERATORS: &[Operator] = &[
    by("all", PARAMS, |call| truth(call, BinOp::And)),
    by("any", PARAMS, |call| truth(call, BinOp::Or)),
    by("argmax", ARG_PARAMS, |call| position(call, CmpOp::Gt)),
    by("argmin", ARG_PARAMS, |call| position(call, CmpOp::Lt)),
    by("max", PARAMS, |call| combined(call, least, |te, a, b| te.max(a, b))),
    by("min", PARAMS, |call| combined(call, greatest, |te, a, b| te.min(a, b))),
    by("prod", PARAMS, |call| combined(call, |te, dtype| te.constant(1, dtype), |te, a, b| te.mul(a, b))),
    by("sum", PARAMS, |call| combined(call, |te, dtype| te.constant(0, dtype), |te, a, b| te.add(a, b))),
];

/// A reduction of a tensor along some of its axes.
struct Along {
    data: Tensor,
    /// The axes of the result.
    axes: Vec<DefinitionAxis>,
    /// The axes that are reduced.
    reduced: Vec<DefinitionAxis>,
    /// The element of the data.
    value: ExprId,
}

impl Along {
    /// The reduction of a call; `None` if there is nothing to combine.
    fn of(call: &mut Call<'_>) -> Result<Option<Along>, TopiError> {
        let (data, keep) = (call.tensor("data")?, call.flag("keepdims")?);
        let shape = call.te.shape(data).to_vec();
        let axes = call.opt_ints("axis")?;
        let mut is_reduced = vec![axes.is_none(); shape.len()];
        for axis in axes.into_iter().flatten() {
            let at = if axis < 0 { axis + shape.len() as i64 } else { axis };
            match usize::try_from(at).ok().and_then(|d| is_reduced.get_mut(d)) {
                Some(slot) => *slot = true,
                None => return call.wrong("axis", &format!("axes of a tensor of {} dimensions", shape.len())),
            }
        }
        if is_reduced.iter().all(|r| !r) {
            return Ok(None);
        }
        Ok(Some(Along::axes(call.te, data, &shape, &is_reduced, keep)))
    }

    /// The reduction of the dimensions that are marked. Those of the result stay with an extent of 1, if they are kept.
    fn axes(te: &mut Te, data: Tensor, shape: &[ExprId], is_reduced: &[bool], keep: bool) -> Along {
        let mut along = Along { data, axes: Vec::new(), reduced: Vec::new(), value: shape[0] };
        let axis = |te: &mut Te, name: String, extent: ExprId| {
            let dtype = te.dtype(extent);
            let min = te.int(0, dtype);
            te.definition_axis(&name, min, extent)
        };
        let mut at = Vec::with_capacity(shape.len());
        for (d, &extent) in shape.iter().enumerate() {
            let own = match is_reduced[d] {
                true => {
                    if keep {
                        let one = te.extent(1);
                        let name = format!("ax{}", along.axes.len());
                        along.axes.push(axis(te, name, one));
                    }
                    let own = axis(te, format!("k{}", along.reduced.len()), extent);
                    along.reduced.push(own);
                    own
                }
                false => {
                    let own = axis(te, format!("ax{}", along.axes.len()), extent);
                    along.axes.push(own);
                    own
                }
            };
            at.push(te.var_expr(own.var));
        }
        along.value = te.at(data, &at);
        along
    }

    /// The name of the stage.
    fn name(&self, te: &Te, suffix: &str) -> String {
        format!("{}{suffix}", te.buffer_name(self.data))
    }

    fn define(&self, te: &mut Te, combiner: &Combiner) -> Vec<Tensor> {
        let name = self.name(te, "_red");
        te.define_reduction(&name, &self.axes, &self.reduced, combiner, &[self.value])
    }
}

/// The sum of a tensor along dimensions.
pub(super) fn sum(te: &mut Te, data: Tensor, axes: &[usize], keep: bool) -> Tensor {
    let shape = te.shape(data).to_vec();
    let is_reduced: Vec<bool> = (0..shape.len()).map(|d| axes.contains(&d)).collect();
    let along = Along::axes(te, data, &shape, &is_reduced, keep);
    let dtype = te.element_type(data);
    let zero = te.constant(0, dtype);
    let combiner = te.combiner(dtype, zero, |te, a, b| te.add(a, b));
    along.define(te, &combiner)[0]
}

fn unchanged(call: &mut Call<'_>) -> Result<Vec<Tensor>, TopiError> {
    let data = call.tensor("data")?;
    Ok(vec![super::elementwise::each(call, data, "T_identity", |_, x| x)])
}

fn combined(
    call: &mut Call<'_>,
    identity: fn(&mut Te, DType) -> ExprId,
    combine: fn(&mut Te, ExprId, ExprId) -> ExprId,
) -> Result<Vec<Tensor>, TopiError> {
    let Some(along) = Along::of(call)? else { return unchanged(call) };
    let dtype = call.type_of(along.data);
    let identity = identity(call.te, dtype);
    let combiner = call.te.combiner(dtype, identity, combine);
    Ok(along.define(call.te, &combiner))
}

/// Whether all or any elements are true.
fn truth(call: &mut Call<'_>, op: BinOp) -> Result<Vec<Tensor>, TopiError> {
    if call.type_of(call.tensor("data")?) != DType::Bool {
        return call.wrong("data", "truth values");
    }
    let Some(along) = Along::of(call)? else { return unchanged(call) };
    let identity = call.te.bool(op == BinOp::And);
    let combiner = call.te.combiner(DType::Bool, identity, |te, a, b| te.binary(op, a, b));
    Ok(along.define(call.te, &combiner))
}

/// The position of the best element: the first one of several.
fn position(call: &mut Call<'_>, better: CmpOp) -> Result<Vec<Tensor>, TopiError> {
    if call.flag("select_last_index")? {
        return call.wrong("select_last_index", "`False`: the first position is found");
    }
    let Some(along) = Along::of(call)? else { return call.wrong("axis", "an axis of the tensor") };
    let dtype = call.type_of(along.data);
    let te = &mut *call.te;
    let mut index = None;
    for axis in &along.reduced {
        let own = te.var_expr(axis.var);
        index = Some(match index {
            None => own,
            Some(before) => {
                let first = te.mul(before, axis.extent);
                te.add(first, own)
            }
        });
    }
    let Some(index) = index else { return call.wrong("axis", "an axis of the tensor") };
    let ty = te.dtype(index);
    let (mut vars, mut values) = (Vec::new(), Vec::new());
    for (name, dtype) in [("lhs0", ty), ("lhs1", dtype), ("rhs0", ty), ("rhs1", dtype)] {
        let (var, value) = te.new_var_expr(name, dtype);
        vars.push(var);
        values.push(value);
    }
    let is_better = te.compare(better, values[1], values[3]);
    let (is_equal, is_before) = (te.compare(CmpOp::Eq, values[1], values[3]), te.lt(values[0], values[2]));
    let is_first = te.and(is_equal, is_before);
    let stays = te.or(is_better, is_first);
    let result = vec![te.select(stays, values[0], values[2]), te.select(is_better, values[1], values[3])];
    let worst = if better == CmpOp::Gt { least(te, dtype) } else { greatest(te, dtype) };
    let identity = vec![te.constant(-1, ty), worst];
    let combiner = Combiner { lhs: vars[..2].to_vec(), rhs: vars[2..].to_vec(), result, identity };
    let (pairs, name) = (along.name(te, "_red_temp"), along.name(te, "_red"));
    let found = te.define_reduction(&pairs, &along.axes, &along.reduced, &combiner, &[index, along.value]);
    let shape = te.shape(found[0]).to_vec();
    Ok(vec![te.compute(&name, &shape, |te, i| te.at(found[0], i))])
}
