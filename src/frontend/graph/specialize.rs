//! Prim_funcs with symbols, for the shapes of one call.
//!
//! ```text
//! def relu0(X: T.Buffer((1, n)), Y: …)   called with X of shape (1, 128)   →   def relu0(X: T.Buffer((1, 128)), Y: …)
//! ```

use super::function::{CallId, Function};
use super::ty::TensorType;
use crate::ir::graft::Graft;
use crate::ir::{Arena, DType, Expr, ExprId, Func, Param, VarId};

/// Why a prim_func does not take arguments.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// It takes another number of them.
    #[error("`{name}` takes {expected} arguments, found {found}")]
    Count {
        /// The function.
        name: String,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        found: usize,
    },
    /// An argument has another type or shape.
    #[error("parameter `{param}` of `{name}` is {expected}, and its argument is {found}")]
    Argument {
        /// The function.
        name: String,
        /// The parameter.
        param: String,
        /// Type and shape of the parameter.
        expected: String,
        /// Type and shape of the argument.
        found: String,
    },
    /// A parameter is no buffer.
    #[error("parameter `{param}` of `{name}` is no buffer")]
    NoBuffer {
        /// The function.
        name: String,
        /// The parameter.
        param: String,
    },
    /// A symbol does not follow from the shapes of arguments.
    #[error("`{symbol}` of `{name}` does not follow from the shapes of its arguments")]
    Symbol {
        /// The function.
        name: String,
        /// The symbol.
        symbol: String,
    },
}

/// A tensor that is passed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Passed {
    /// The type of the elements.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<i64>,
}

/// What a call passes to a prim_func: its arguments, then its results that have memory of their own. `None` if an extent has no
/// value.
pub fn passed(function: &Function, c: CallId) -> Option<Vec<Passed>> {
    let call = function.call(c);
    let indices = call.inplace_indices();
    let results = function.ty(call.result).tensors().into_iter().enumerate();
    let results = results.filter(|(i, _)| indices.get(*i).is_none_or(|index| index.is_none())).map(|(_, t)| t);
    let types = call.inputs().flat_map(|v| function.ty(v).tensors()).chain(results);
    let of = |t: &TensorType| Some(Passed { dtype: t.dtype?, shape: t.constant_shape(&function.arena)? });
    types.map(of).collect()
}

/// The function for arguments of these shapes, and `None` if that is the function itself. Scalars are the values of the last
/// parameters, which are no buffers (`tir_vars`).
///
/// # Errors
/// The function does not take such arguments.
pub fn specialize(func: &Func, args: &[Passed], scalars: &[i64]) -> Result<Option<Func>, Unfit> {
    let name = || func.name.to_string();
    let buffers: Vec<Param> = func.params.iter().copied().filter(|p| p.buffer.is_some()).collect();
    let others: Vec<Param> = func.params.iter().copied().filter(|p| p.buffer.is_none()).collect();
    if let Some(handle) = others.iter().find(|p| func.arena.var(p.var).dtype == DType::Handle) {
        return Err(Unfit::NoBuffer { name: name(), param: func.arena.var(handle.var).name.to_string() });
    }
    if buffers.len() != args.len() || others.len() != scalars.len() {
        return Err(Unfit::Count { name: name(), expected: func.params.len(), found: args.len() + scalars.len() });
    }
    let mut values: Vec<(VarId, i64)> = others.iter().map(|p| p.var).zip(scalars.iter().copied()).collect();
    // First the extents that are symbols, then those that are computed from symbols.
    for (param, arg) in buffers.iter().zip(args) {
        let Some(b) = param.buffer else { continue };
        let shape = func.arena.list(func.arena.buffer(b).shape);
        if shape.len() != arg.shape.len() {
            continue;
        }
        for (&e, &n) in shape.iter().zip(&arg.shape) {
            if let Some(v) = func.arena.as_var(e)
                && !values.iter().any(|(known, _)| *known == v)
            {
                values.push((v, n));
            }
        }
    }
    for (param, arg) in buffers.iter().zip(args) {
        let Some(b) = param.buffer else { continue };
        let buffer = func.arena.buffer(b);
        let shape = func.arena.list(buffer.shape);
        let known: Vec<Option<i64>> = shape.iter().map(|&e| value(&func.arena, &values, e)).collect();
        let fits = buffer.dtype == arg.dtype
            && shape.len() == arg.shape.len()
            && known.iter().zip(&arg.shape).all(|(k, n)| k.is_none_or(|k| k == *n));
        if !fits {
            return Err(Unfit::Argument {
                name: name(),
                param: buffer.name.to_string(),
                expected: format!("{} {}", buffer.dtype, super::ty::extents(&func.arena, shape)),
                found: format!("{} {:?}", arg.dtype, arg.shape),
            });
        }
        if let Some(d) = known.iter().position(Option::is_none) {
            return Err(Unfit::Symbol { name: name(), symbol: super::ty::extent(&func.arena, shape[d]) });
        }
    }
    if values.is_empty() {
        return Ok(None);
    }
    Ok(Some(with_values(func, &values)))
}

/// An expression of known symbols as a number.
pub fn value(arena: &Arena, values: &[(VarId, i64)], e: ExprId) -> Option<i64> {
    use crate::ir::BinOp;
    match arena.expr(e) {
        Expr::Int(n) => Some(n),
        Expr::Var(v) => values.iter().find(|(known, _)| *known == v).map(|(_, n)| *n),
        Expr::Cast(a) => value(arena, values, a),
        Expr::Binary(op, a, b) => {
            let (a, b) = (value(arena, values, a)?, value(arena, values, b)?);
            match op {
                BinOp::Add => a.checked_add(b),
                BinOp::Sub => a.checked_sub(b),
                BinOp::Mul => a.checked_mul(b),
                BinOp::Div => a.checked_div(b),
                BinOp::Mod => a.checked_rem(b),
                BinOp::FloorDiv => a.checked_div_euclid(b).filter(|_| b > 0),
                BinOp::FloorMod => a.checked_rem_euclid(b).filter(|_| b > 0),
                BinOp::Min => Some(a.min(b)),
                BinOp::Max => Some(a.max(b)),
                BinOp::And => Some(i64::from(a != 0 && b != 0)),
                BinOp::Or => Some(i64::from(a != 0 || b != 0)),
            }
        }
        _ => None,
    }
}

/// A copy of the function in which symbols are numbers, and parameters that are symbols are gone.
fn with_values(func: &Func, values: &[(VarId, i64)]) -> Func {
    let mut copy = Func::new(func.name);
    let mut graft = Graft::new(func);
    for &(v, n) in values {
        let value = copy.arena.int(n, func.arena.var(v).dtype);
        graft.set_var(v, value);
    }
    for param in &func.params {
        let Some(b) = param.buffer else { continue };
        let buffer = graft.buffer(&mut copy, b);
        let var = graft.var(&mut copy.arena, param.var);
        copy.params.push(Param { var, buffer: Some(buffer) });
    }
    let root = graft.body(&mut copy, &[func.root.stmt()]);
    if let Some(b) = root.first().and_then(|&s| copy.as_block(s)) {
        copy.root = b;
    }
    for b in copy.arena.buffer_ids() {
        let shape = copy.arena.buffer(b).shape;
        let folded = copy.arena.map_list(shape, |arena, e| match value(arena, &[], e) {
            Some(n) => {
                let dtype = arena.dtype(e);
                arena.int(n, dtype)
            }
            None => e,
        });
        copy.arena.update_buffer(b, |buffer| buffer.shape = folded);
    }
    copy.attrs = graft.annotations(&mut copy, &func.attrs);
    copy.returns = func.returns;
    copy.private = func.private;
    copy.s_tir = func.s_tir;
    copy.explicit_root = func.explicit_root;
    copy
}
