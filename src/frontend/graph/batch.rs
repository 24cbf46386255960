//! Whether the samples of a batch are computed independently of each other, so that a graph may run on parts of it.
//!
//! The batch is the extent that a symbol names. In a graph whose operators are lowered, each tensor has it as one of its extents, or
//! does not depend on it at all. A prim_func is understood if it indexes that dimension of every tensor by one and the same variable,
//! which runs over the whole batch and occurs nowhere else:
//!
//! ```text
//! for i0, i1, k in T.grid(n, 8, 4):
//!     with T.sblock("matmul"):
//!         v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
//!         y[v_i0, v_i1] = y[v_i0, v_i1] + x[v_i0, v_k] * w[v_k, v_i1]     # sample v_i0 of `y` from sample v_i0 of `x`
//! ```
//!
//! Then each sample is a function of the same sample of the inputs, which depends neither on its position nor on the size of the batch.
//! Whatever is not understood is taken for a dependence: that may be wrong, the other way round not.

mod prim_func;

use super::function::{Arg, Call, Callee, Function, ValueId};
use super::pass::GraphModule;
use super::ty::Type;
use crate::ir::{Arena, Expr, ExprId, VarId, visit};

/// Why samples may depend on each other.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{what}` {why}")]
pub struct Dependence {
    /// The operator, or the input or result.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Checks that a graph computes each sample by itself: along the leading dimension of all inputs and results, whose extent is this
/// symbol. The operators are lowered; no other extent is a symbol.
///
/// # Errors
/// The first operator that is not understood.
pub fn check(module: &GraphModule, function: &Function, symbol: &str) -> Result<(), Dependence> {
    let leading = |v: ValueId, kind: &str| match axis_of_value(function, symbol, v) {
        Ok(Some(0)) => Ok(()),
        Ok(_) | Err(()) => {
            let ty = function.ty(v).describe(&function.arena);
            let why = format!("is {kind} of type {ty}, whose leading extent is not `{symbol}` alone");
            Err(Dependence { what: function.value(v).name.to_string(), why })
        }
    };
    for &input in &function.params[..function.n_inputs()] {
        leading(input, "an input")?;
    }
    for output in function.output.values() {
        leading(output, "a result")?;
    }
    for &weight in &function.params[function.n_inputs()..] {
        if axis_of_value(function, symbol, weight) != Ok(None) {
            let why = format!("is a weight whose shape depends on `{symbol}`");
            return Err(Dependence { what: function.value(weight).name.to_string(), why });
        }
    }
    function.order.iter().try_for_each(|&c| check_call(module, function, symbol, function.call(c)))
}

fn check_call(module: &GraphModule, function: &Function, symbol: &str, call: &Call) -> Result<(), Dependence> {
    let name = match call.callee {
        Callee::Op(op) => op.name.to_owned(),
        Callee::CallTir(name)
        | Callee::CallTirInplace(name)
        | Callee::CallDpsPacked(name)
        | Callee::CallPurePacked(name)
        | Callee::CallGraph(name) => name.to_string(),
        Callee::Alias => "match_cast".to_owned(),
        Callee::Tuple | Callee::Item(_) | Callee::Shape => return Ok(()),
    };
    let refuse = |why: String| Err(Dependence { what: name.clone(), why });
    // The dimension of each tensor that is the batch.
    let mut axes = Vec::new();
    for v in call.inputs() {
        axes.push(axes_of(function, symbol, v));
    }
    let n_args = axes.iter().flatten().map(Vec::len).sum::<usize>();
    axes.push(axes_of(function, symbol, call.result));
    let Ok(axes) = axes.into_iter().collect::<Result<Vec<_>, ()>>() else {
        return refuse(format!(
            "has a tensor whose shape depends on `{symbol}` by more than one extent that is `{symbol}`"
        ));
    };
    let axes = axes.concat();
    if axes.iter().all(Option::is_none) && !mentions(function, symbol, call) {
        return Ok(());
    }
    match call.callee {
        Callee::Alias if axes[..n_args] == axes[n_args..] => Ok(()),
        Callee::Op(op) if ["reshape", "flatten", "expand_dims", "squeeze"].contains(&op.name) => {
            let Some(first) = call.inputs().next() else { return refuse("has no argument".to_owned()) };
            match keeps_samples(function, symbol, first, call.result) {
                true => Ok(()),
                false => refuse(format!("moves elements from one sample of `{symbol}` to another")),
            }
        }
        Callee::CallTir(prim) | Callee::CallTirInplace(prim) => {
            let Some(func) = module.module.funcs.iter().find(|f| f.name == prim) else {
                return refuse("is no prim_func of the module".to_owned());
            };
            if has_numbers(call) {
                return refuse("is given numbers that may be extents".to_owned());
            }
            // Results that take the place of an argument are no parameters of their own.
            let in_place = call.inplace_indices();
            let own = axes[n_args..].iter().enumerate().filter(|(i, _)| !matches!(in_place.get(*i), Some(Some(_))));
            let passed: Vec<Option<usize>> = axes[..n_args].iter().chain(own.map(|(_, axis)| axis)).copied().collect();
            prim_func::check(func, &passed).or_else(refuse)
        }
        Callee::Op(_) | Callee::Alias => refuse(format!("is not understood, and depends on `{symbol}`")),
        Callee::CallDpsPacked(_) | Callee::CallPurePacked(_) | Callee::CallGraph(_) => {
            refuse("is a function whose code is not known".to_owned())
        }
        Callee::Tuple | Callee::Item(_) | Callee::Shape => Ok(()),
    }
}

/// Whether extents or numbers among the arguments of a call may depend on the symbol.
fn mentions(function: &Function, symbol: &str, call: &Call) -> bool {
    // Values that are no tensors, such as shapes, may.
    if call.inputs().any(|v| !matches!(function.ty(v), Type::Tensor(_) | Type::Tuple(_))) {
        return true;
    }
    let is_in = |e: &ExprId| depends(&function.arena, symbol, *e);
    call.args.iter().any(|arg| match arg {
        Arg::Shape(all) | Arg::Prims(all) => all.iter().any(is_in),
        Arg::Prim(one) => is_in(one),
        Arg::Value(_) | Arg::Values(_) | Arg::Attr(_) | Arg::Missing => false,
    })
}

fn has_numbers(call: &Call) -> bool {
    let is_number = |arg: &Arg| match arg {
        Arg::Shape(all) | Arg::Prims(all) => !all.is_empty(),
        Arg::Prim(_) => true,
        Arg::Value(_) | Arg::Values(_) | Arg::Attr(_) | Arg::Missing => false,
    };
    call.args.iter().any(is_number)
}

/// Whether an expression mentions the symbol.
fn depends(arena: &Arena, symbol: &str, e: ExprId) -> bool {
    visit::uses_var(arena, e, &mut |v| arena.var(v).name == symbol)
}

/// The dimension whose extent is the variable for which `is_batch` holds; `None` if the shape does not depend on it.
///
/// # Errors
/// It depends on it otherwise.
fn axis_of(arena: &Arena, shape: &[ExprId], is_batch: impl Fn(VarId) -> bool) -> Result<Option<usize>, ()> {
    let mut found = None;
    for (axis, &extent) in shape.iter().enumerate() {
        if !visit::uses_var(arena, extent, &mut |v| is_batch(v)) {
            continue;
        }
        if found.is_some() || !matches!(arena.expr(extent), Expr::Var(_)) {
            return Err(());
        }
        found = Some(axis);
    }
    Ok(found)
}

/// For each tensor of a value, the dimension that is the batch.
fn axes_of(function: &Function, symbol: &str, v: ValueId) -> Result<Vec<Option<usize>>, ()> {
    let one = |tensor: &super::TensorType| {
        axis_of(&function.arena, tensor.shape.as_ref().ok_or(())?, |v| function.arena.var(v).name == symbol)
    };
    function.ty(v).tensors().into_iter().map(one).collect()
}

/// The dimension of a tensor that is the batch.
fn axis_of_value(function: &Function, symbol: &str, v: ValueId) -> Result<Option<usize>, ()> {
    match axes_of(function, symbol, v)?[..] {
        [axis] if function.ty(v).as_tensor().is_some() => Ok(axis),
        _ => Err(()),
    }
}

/// Whether a change of shape leaves all elements in their samples: there are as many elements in front of the batch as before, and as
/// many in each sample.
fn keeps_samples(function: &Function, symbol: &str, from: ValueId, to: ValueId) -> bool {
    let around = |v: ValueId| {
        let axis = axis_of_value(function, symbol, v).ok()??;
        let shape = function.ty(v).as_tensor()?.shape.as_ref()?;
        let count = |extents: &[ExprId]| {
            extents.iter().try_fold(1i64, |n, &extent| n.checked_mul(function.arena.as_int(extent)?))
        };
        Some((count(&shape[..axis])?, count(&shape[axis + 1..])?))
    };
    around(from).is_some() && around(from) == around(to)
}

#[cfg(test)]
mod tests;
