//! Sums, products, extremes and their positions.

use super::call::{Call, TopiError, flag, opt_ints};
use super::{Operator, by};
use crate::graph::apply::Given;
use crate::ir::{BinOp, DType, ExprId};
use crate::te::{Te, Tensor};

const PARAMS: &str = "data, axis=None, keepdims=False";

const ARG_PARAMS: &str = "data, axis=None, keepdims=False, select_last_index=False";

pub(super) const OPERATORS: &[Operator] = &[
    by("all", PARAMS, |call| truth(call, "T_all", BinOp::And)),
    by("any", PARAMS, |call| truth(call, "T_any", BinOp::Or)),
    by("argmax", ARG_PARAMS, |call| position(call, "argmax")),
    by("argmin", ARG_PARAMS, |call| position(call, "argmin")),
    by("max", PARAMS, |call| same(call, "max")),
    by("min", PARAMS, |call| same(call, "min")),
    by("prod", PARAMS, |call| same(call, "prod")),
    by("sum", PARAMS, |call| same(call, "sum")),
];

/// The operator of graphs of this name.
fn same(call: &mut Call<'_>, operator: &'static str) -> Result<Vec<Tensor>, TopiError> {
    let (data, axes, keep) = (call.tensor("data")?, call.opt_ints("axis")?, call.flag("keepdims")?);
    // Without dimensions, there is nothing to combine.
    if call.rank(data) == 0 {
        return Ok(vec![call.te.compute("T_identity", &[], |te, i| te.at(data, i))]);
    }
    let given = vec![("x", Given::Tensor(data)), ("axis", opt_ints(axes.as_deref())), ("keepdims", flag(keep))];
    call.operator(operator, given)
}

/// The position of an extreme.
fn position(call: &mut Call<'_>, operator: &'static str) -> Result<Vec<Tensor>, TopiError> {
    let axis = match call.opt_ints("axis")?.as_deref() {
        None => None,
        Some([one]) => Some(*one),
        Some(_) => return call.wrong("axis", "one axis, or `None`"),
    };
    if call.flag("select_last_index")? {
        return call.wrong("select_last_index", "`False`: the first position is found");
    }
    let (data, keep) = (call.tensor("data")?, call.flag("keepdims")?);
    let axes = axis.map(|a| [a]);
    let axis = match axes {
        Some([one]) => super::call::int(one),
        None => opt_ints(None),
    };
    call.operator(operator, vec![("x", Given::Tensor(data)), ("axis", axis), ("keepdims", flag(keep))])
}

/// Whether all or any elements are true.
fn truth(call: &mut Call<'_>, name: &str, op: BinOp) -> Result<Vec<Tensor>, TopiError> {
    let (data, axes, keep) = (call.tensor("data")?, call.opt_ints("axis")?, call.flag("keepdims")?);
    if call.type_of(data) != DType::Bool {
        return call.wrong("data", "truth values");
    }
    let shape = call.te.shape(data).to_vec();
    let rank = shape.len() as i64;
    let mut reduced = vec![axes.is_none(); shape.len()];
    for axis in axes.into_iter().flatten() {
        let at = if axis < 0 { axis + rank } else { axis };
        match usize::try_from(at).ok().and_then(|d| reduced.get_mut(d)) {
            Some(slot) => *slot = true,
            None => return call.wrong("axis", "axes of the tensor"),
        }
    }
    if reduced.iter().all(|r| !r) {
        return Ok(vec![call.te.compute("T_identity", &shape, |te, i| te.at(data, i))]);
    }
    let te = &mut *call.te;
    let (mut axes, mut reduced_axes, mut at): (Vec<_>, Vec<_>, Vec<ExprId>) = Default::default();
    let axis = |te: &mut Te, name: String, extent: ExprId| {
        let dtype = te.dtype(extent);
        let min = te.int(0, dtype);
        te.definition_axis(&name, min, extent)
    };
    for (d, &extent) in shape.iter().enumerate() {
        let own = match reduced[d] {
            true => {
                let own = axis(te, format!("k{d}"), extent);
                reduced_axes.push(own);
                if keep {
                    let one = te.extent(1);
                    axes.push(axis(te, format!("ax{d}"), one));
                }
                own
            }
            false => {
                let own = axis(te, format!("ax{d}"), extent);
                axes.push(own);
                own
            }
        };
        at.push(te.var_expr(own.var));
    }
    let value = te.at(data, &at);
    let identity = te.bool(op == BinOp::And);
    let combiner = te.combiner(DType::Bool, identity, |te, a, b| te.binary(op, a, b));
    Ok(te.define_reduction(name, &axes, &reduced_axes, &combiner, &[value]))
}
