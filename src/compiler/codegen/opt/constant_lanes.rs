//! Computes what depends on the counter of a short loop alone while compiling.
//!
//! ```text
//! for j in 56: Y[j] = X[max(min(cast(int64, floor((cast(float32, j) + 0.5) * 0.5 - 0.5)), 27), 0)] * (cast(float32, j) * 0.5)
//! // becomes, with vectors of 16 lanes
//! Y[0; 16] = pack(X[0], X[0], X[0], X[1], …) * pack(0.0, 0.5, 1.0, …)
//! …
//! ```
//!
//! Such indices belong to operators that resize images: the elements of a vector are few and near to each other, so that region code
//! takes them from registers. Numbers are rounded as the kernel would round them.

use crate::codegen::facts::can_fail;
use crate::ir::scalar::{self, Exact};
use crate::ir::{Const, DType};
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, map_expr};
use crate::loopir::{Affine, Arena, BufferId, Expr, ExprId, Ty, VarId};
use crate::machine::register_tile::MOST_APART;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Whether an expression depends on one variable and on nothing else, and can be computed for each of its values.
pub(super) fn is_function_of(arena: &Arena, e: ExprId, var: VarId) -> bool {
    let mut fits = arena.lanes(e) == 1;
    for_each_expr(arena, e, &mut |e| {
        fits &= !can_fail(arena, e)
            && match arena.expr(e) {
                Expr::Var(v) => v == var,
                Expr::Int(_)
                | Expr::Float(_)
                | Expr::Binary(..)
                | Expr::Compare(..)
                | Expr::Not(_)
                | Expr::Cast(_)
                | Expr::Select(..)
                | Expr::IfThenElse(..)
                | Expr::Call(..) => arena.lanes(e) == 1,
                Expr::Local(_)
                | Expr::Reinterpret(_)
                | Expr::Dot4(..)
                | Expr::Load(..)
                | Expr::Broadcast(_)
                | Expr::Ramp(..)
                | Expr::Pack(_)
                | Expr::Lookup(..)
                | Expr::Extract(..)
                | Expr::Reduce(..) => false,
            };
    });
    fits
}

/// The values of numbers in the iterations `first..first + n`, if they depend on the loop alone. Conditions stay, since region code
/// compares indices.
pub(super) fn lanes(arena: &mut Arena, e: ExprId, var: VarId, first: i64, n: u16) -> Option<ExprId> {
    if arena.dtype(e) == DType::Bool || arena.ty(e) == Ty::INDEX || !is_function_of(arena, e, var) {
        return None;
    }
    let values = values_of(arena, e, var, first..first + i64::from(n))?;
    let dtype = arena.dtype(e);
    let items: SmallVec<[ExprId; 16]> = values.into_iter().map(|value| number(arena, value, dtype)).collect();
    Some(arena.pack(&items))
}

fn number(arena: &mut Arena, value: Const, dtype: DType) -> ExprId {
    match value {
        Const::Int(v) => arena.int(v, dtype),
        Const::Float(v) => arena.float(v, dtype),
    }
}

/// The expression in one iteration, with all of its parts that are constant there computed.
pub(super) fn at(arena: &mut Arena, e: ExprId, var: VarId, value: i64) -> ExprId {
    let value = arena.index(value);
    let e = Substitution::of(var, value).expr(arena, e);
    map_expr(arena, e, &mut ExprMap::default(), &mut folded)
}

/// The value of a node whose operands are constants.
fn folded(arena: &mut Arena, e: ExprId) -> Option<ExprId> {
    let dtype = arena.dtype(e);
    let value = value_of(arena, e, |a| arena.as_const(a))?;
    Some(number(arena, value, dtype))
}

/// The value of an operation on scalars, given those of its operands. `None` if that is not all it depends on.
fn value_of(arena: &Arena, e: ExprId, known: impl Fn(ExprId) -> Option<Const>) -> Option<Const> {
    let Ty { dtype, lanes: 1 } = arena.ty(e) else { return None };
    Some(match arena.expr(e) {
        Expr::Binary(op, a, b) => scalar::binary(op, dtype, known(a)?, known(b)?, &Exact).ok()?,
        Expr::Compare(op, a, b) => Const::Int(scalar::compare(op, arena.dtype(a), known(a)?, known(b)?).ok()?.into()),
        Expr::Not(a) => scalar::not(known(a)?).ok()?,
        Expr::Cast(a) => scalar::cast(arena.dtype(a), dtype, known(a)?, &Exact),
        Expr::Call(f, list) => {
            let list = arena.list(list);
            let args: Option<SmallVec<[Const; 3]>> = list.iter().map(|&a| known(a)).collect();
            scalar::call(f, arena.dtype(list[0]), &args?, &Exact).ok()?
        }
        _ => return None,
    })
}

/// The values of an expression for those of a variable.
pub(super) fn values_of(arena: &Arena, e: ExprId, var: VarId, range: std::ops::Range<i64>) -> Option<Vec<Const>> {
    // Operands before the operations on them.
    let mut order: Vec<ExprId> = Vec::new();
    note_nodes(arena, e, &mut order);
    let place: HashMap<ExprId, usize> = order.iter().enumerate().map(|(i, &e)| (e, i)).collect();
    let mut values: Vec<Const> = Vec::with_capacity(order.len());
    range
        .map(|i| {
            values.clear();
            for &e in &order {
                let known = |e: ExprId| values.get(*place.get(&e)?).copied();
                let value = match arena.expr(e) {
                    Expr::Var(v) if v == var => Const::Int(i),
                    Expr::Int(_) | Expr::Float(_) => arena.as_const(e)?,
                    Expr::Select(c, t, o) | Expr::IfThenElse(c, t, o) => {
                        known(if known(c)? == Const::Int(0) { o } else { t })?
                    }
                    _ => value_of(arena, e, known)?,
                };
                values.push(value);
            }
            values.last().copied()
        })
        .collect()
}

/// Lists the nodes of an expression, operands first.
fn note_nodes(arena: &Arena, e: ExprId, order: &mut Vec<ExprId>) {
    if order.contains(&e) {
        return;
    }
    arena.for_each_child(e, |c| note_nodes(arena, c, order));
    order.push(e);
}

/// Whether indices become constants plus a common base in each iteration of a loop.
pub(super) fn is_tabular(arena: &Arena, index: ExprId, var: VarId) -> bool {
    let affine = Affine::of(arena, index);
    let mentions = |e| crate::loopir::rewrite::mentions_var(arena, e, &mut |v| v == var);
    affine.terms.iter().all(|t| !mentions(t.0) || is_function_of(arena, t.0, var))
}

/// The sums of multiples of functions of a variable for its values.
pub(super) fn offsets_of(
    arena: &Arena,
    terms: &[(ExprId, i64)],
    var: VarId,
    range: std::ops::Range<i64>,
) -> Option<Vec<i64>> {
    let mut offsets: Vec<i64> = range.clone().map(|_| 0).collect();
    for &(atom, k) in terms {
        for (offset, value) in offsets.iter_mut().zip(values_of(arena, atom, var, range.clone())?) {
            let Const::Int(value) = value else { return None };
            *offset = offset.checked_add(value.checked_mul(k)?)?;
        }
    }
    Some(offsets)
}

/// The elements of a buffer at an index in the iterations `first..first + n`, if it is a function of the counter but for a common
/// base, and they are within a few registers.
pub(super) fn elements_at(
    arena: &mut Arena,
    buffer: BufferId,
    dtype: DType,
    index: ExprId,
    (var, first, n): (VarId, i64, u16),
    rename: impl FnOnce(&mut Arena, ExprId) -> ExprId,
) -> Option<ExprId> {
    let sum = Affine::of(arena, index);
    let (moving, fixed): (Vec<_>, Vec<_>) = (sum.terms.iter().copied())
        .partition(|&(atom, _)| crate::loopir::rewrite::mentions_var(arena, atom, &mut |v| v == var));
    if !moving.iter().all(|&(atom, _)| is_function_of(arena, atom, var)) {
        return None;
    }
    let offsets = offsets_of(arena, &moving, var, first..first + i64::from(n))?;
    let mut base = Affine::constant(sum.constant);
    fixed.into_iter().for_each(|(atom, k)| base.add_term(atom, k));
    let base = base.to_expr(arena);
    let base = rename(arena, base);
    let base = Affine::of(arena, base);
    let indices: SmallVec<[ExprId; 16]> = (offsets.into_iter())
        .map(|offset| {
            let mut index = base.clone();
            index.constant = index.constant.wrapping_add(offset);
            index.to_expr(arena)
        })
        .collect();
    elements(arena, buffer, dtype, &indices)
}

/// The elements of a buffer at these indices, if they are within a few registers.
pub(super) fn elements(arena: &mut Arena, buffer: BufferId, dtype: DType, indices: &[ExprId]) -> Option<ExprId> {
    let first = Affine::of(arena, indices[0]);
    let mut offsets = SmallVec::<[i64; 16]>::new();
    for &index in indices {
        offsets.push(Affine::of(arena, index).minus(&first).as_constant()?);
    }
    let ty = Ty::scalar(dtype);
    if offsets.iter().enumerate().all(|(lane, &offset)| offset == lane as i64) {
        let index = first.to_expr(arena);
        return Some(arena.load(buffer, index, ty.with_lanes(indices.len() as u16)));
    }
    let (least, most) = (offsets.iter().min()?, offsets.iter().max()?);
    if most - least >= MOST_APART * indices.len() as i64 {
        return None;
    }
    let items: SmallVec<[ExprId; 16]> = indices
        .iter()
        .map(|&index| {
            let index = Affine::of(arena, index).to_expr(arena);
            arena.load(buffer, index, ty)
        })
        .collect();
    Some(arena.pack(&items))
}
