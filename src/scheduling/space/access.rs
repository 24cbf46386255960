//! The strides of an access: how it moves through its buffer when a variable advances.
//!
//! Strides are found by evaluating the indices, not from their form: `i // 4` moves as it does at the start of its
//! range.

use crate::ir::scalar::int::checked;
use crate::ir::{BinOp, BlockId, BufferId, BufferRegion, Expr, ExprId, ExprList, Func, VarId};

/// The strides of a region's first element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// Number of elements of the buffer.
    pub elements: i64,
    /// Bytes of an element.
    pub element_bytes: i64,
    /// For each variable, the number of elements that the access moves when the variable advances by one.
    pub strides: Vec<i64>,
    /// For each variable, the first dimension whose index depends on it.
    pub dims: Vec<Option<usize>>,
    /// For each variable, the number by which indices divide it: a dimension moves with its quotient, another with its remainder.
    pub blocks: Vec<Option<i64>>,
    /// Extents of the dimensions.
    pub shape: Vec<i64>,
}

impl Access {
    /// The access of the first element of `region` with respect to each of `vars`, with the others at 0. `None` if an
    /// index is not integer arithmetic on them, or a shape is not constant.
    pub(crate) fn of(func: &Func, region: &BufferRegion, vars: &[VarId]) -> Option<Access> {
        Access::of_point(func, region.buffer, region.mins, vars)
    }

    /// The access of one element, as [`Access::of`].
    pub(crate) fn of_point(func: &Func, buffer: BufferId, indices: ExprList, vars: &[VarId]) -> Option<Access> {
        let arena = &func.arena;
        let buffer = arena.buffer(buffer);
        let shape: Vec<i64> = arena.list(buffer.shape).iter().map(|&e| arena.as_int(e)).collect::<Option<_>>()?;
        let mins = arena.list(indices);
        let at = |moved: Option<VarId>| -> Option<Vec<i64>> {
            mins.iter().map(|&e| value(func, e, &|v| i64::from(moved == Some(v)))).collect()
        };
        let start = at(None)?;
        let mut access = Access {
            elements: shape.iter().try_fold(1i64, |n, &d| n.checked_mul(d))?,
            element_bytes: buffer.dtype.bytes() as i64,
            strides: Vec::with_capacity(vars.len()),
            dims: Vec::with_capacity(vars.len()),
            blocks: vars.iter().map(|&v| mins.iter().find_map(|&e| divisor(func, e, v))).collect(),
            shape,
        };
        for &var in vars {
            let moved = at(Some(var))?;
            let (mut stride, mut size) = (0, 1);
            for ((&to, &from), &extent) in moved.iter().zip(&start).zip(&access.shape).rev() {
                stride += (to - from) * size;
                size *= extent;
            }
            access.strides.push(stride);
            access.dims.push(moved.iter().zip(&start).position(|(a, b)| a != b));
        }
        Some(access)
    }

    /// The access of a block to `region`, by the block's iteration variables.
    pub(crate) fn of_block(func: &Func, block: BlockId, region: &BufferRegion) -> Option<Access> {
        let vars: Vec<_> = func.block(block).iters.iter().map(|i| i.var).collect();
        Access::of(func, region, &vars)
    }

    /// Number of dimensions.
    pub(crate) fn n_dims(&self) -> usize {
        self.shape.len()
    }

    /// Size of the whole buffer in bytes.
    pub(crate) fn bytes(&self) -> i64 {
        self.elements.saturating_mul(self.element_bytes)
    }
}

/// The number by which an index divides a variable.
fn divisor(func: &Func, e: ExprId, var: VarId) -> Option<i64> {
    let arena = &func.arena;
    match arena.expr(e) {
        Expr::Binary(BinOp::FloorDiv | BinOp::FloorMod, a, b) if arena.as_var(a) == Some(var) => arena.as_int(b),
        Expr::Binary(_, a, b) => divisor(func, a, var).or_else(|| divisor(func, b, var)),
        Expr::Cast(a) => divisor(func, a, var),
        _ => None,
    }
}

/// The value of an integer expression; `None` if it is more than arithmetic on variables.
fn value(func: &Func, e: ExprId, var: &impl Fn(VarId) -> i64) -> Option<i64> {
    let arena = &func.arena;
    if let Some(v) = arena.as_int(e) {
        return Some(v);
    }
    match arena.expr(e) {
        Expr::Var(v) => Some(var(v)),
        Expr::Cast(a) => value(func, a, var),
        Expr::Binary(op, a, b) => checked(op, value(func, a, var)?, value(func, b, var)?),
        _ => None,
    }
}
