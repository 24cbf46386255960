//! Derives the layout in which a loop nest reads a buffer sequentially (TVM's `SuggestIndexMap`,
//! `src/s_tir/schedule/analysis/layout.cc`).
//!
//! The linear index into the row-major buffer is a sum of parts of loop variables. Each part becomes a dimension, in
//! the order of the loops:
//!
//! ```text
//! for j0, k0, k1, j1: … W[j0 * 32 + j1, k0 * 8 + k1]        # W: (256, 512)
//! # reads from one end to the other with
//! lambda i0, i1: (i0 // 32, i1 // 8, i1 % 8, i0 % 32)
//! ```

use crate::arith::iter_map::{IterMap, IterSum, MarkSource};
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map};
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{Arena, BlockId, BufferId, Expr, ExprId, Func, Stmt, StmtId, Substitution, VarId};
use crate::schedule::arg::{Lambda, LambdaExpr};

/// A read of a buffer, and the layout that makes it sequential.
pub(crate) struct Suggestion {
    /// The block.
    pub block: BlockId,
    /// Position of the buffer among the block's reads.
    pub read: usize,
    /// The index map.
    pub map: Lambda,
    /// Elements of the new layout. There are more than of the buffer only if the map pads it.
    pub elements: i64,
}

/// The layout for the last load of `buffer` in text order; `None` if nothing loads it, or the loops do not cover it in
/// pieces.
pub(crate) fn suggest(func: &Func, buffer: BufferId) -> Option<Suggestion> {
    suggest_for(func, buffer, false)
}

/// Like [`suggest`], but where tiles do not divide a dimension, the map pads it to whole tiles.
pub(crate) fn suggest_padded(func: &Func, buffer: BufferId) -> Option<Suggestion> {
    suggest_for(func, buffer, true)
}

fn suggest_for(func: &Func, buffer: BufferId, whole_tiles: bool) -> Option<Suggestion> {
    let (at, indices) = last_load(func, buffer)?;
    let block = func.block_above(at)?;
    let node = func.block(block);
    let read = node.reads.iter().position(|r| r.buffer == buffer)?;
    let mut loops: Vec<VarRange> = func
        .ancestors(at)
        .filter_map(|s| func.as_loop(s))
        .map(|l| func.loop_(l))
        .map(|l| VarRange { var: l.var, min: l.min, extent: l.extent })
        .collect();
    loops.reverse();
    let bindings: Vec<(VarId, ExprId)> = node.iters.iter().map(|i| (i.var, i.value)).collect();
    // The analysis creates expressions, which must not enter the program.
    let mut arena = func.arena.clone();
    let a = &mut arena;
    let shape: Vec<i64> = a.list(a.buffer(buffer).shape).iter().map(|&e| a.as_int(e)).collect::<Option<_>>()?;
    let mut substitution = Substitution::of_vars(bindings);
    let indices: Vec<ExprId> = indices.into_iter().map(|e| substitution.apply(a, e)).collect();
    let mut analyzer = Analyzer::new();
    // Without the predicate, the loops cover whole tiles.
    let (predicate, padded) = match whole_tiles {
        true => (a.bool(true), reached(a, &loops, &indices, &shape)?),
        false => (node.predicate, shape.clone()),
    };
    let position = flat(a, &padded, &indices);
    let position = analyzer.simplify(a, position);
    let level = IterMapLevel::Surjective;
    let iter_map = detect_iter_map(a, &[position], &loops, predicate, level, &mut analyzer, true).ok()?;
    let mut parts = Vec::new();
    parts_of(a, &iter_map, iter_map.indices.first()?, &loops, &mut parts)?;
    if parts.is_empty() {
        return None;
    }
    let dtype = a.dtype(position);
    let params: Vec<VarId> = (0..shape.len()).map(|i| a.new_var(format!("i{i}").as_str(), dtype)).collect();
    for (&param, &extent) in params.iter().zip(&shape) {
        analyzer.bind_const(a, param, 0, extent);
    }
    let values: Vec<ExprId> = params.iter().map(|&p| a.var_expr(p)).collect();
    let mut rest = flat(a, &padded, &values);
    let mut results = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        let extent = a.int(part.extent, dtype);
        let digit = a.floor_mod(rest, extent);
        let digit = analyzer.simplify(a, digit);
        results.push((*part, lambda_expr(a, digit, &params)?));
        rest = a.floor_div(rest, extent);
    }
    results.reverse();
    results.sort_by_key(|(part, _)| (part.loop_, std::cmp::Reverse(part.lower_factor)));
    let results = results.into_iter().map(|(_, e)| e).collect();
    let params = (0..shape.len()).map(|i| format!("i{i}").as_str().into()).collect();
    let elements = padded.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent))?;
    Some(Suggestion { block, read, map: Lambda { params, results, scalar: false, ranges: false }, elements })
}

/// The extents of a buffer with all that the indices reach in whole loops.
fn reached(a: &mut Arena, loops: &[VarRange], indices: &[ExprId], shape: &[i64]) -> Option<Vec<i64>> {
    let mut analyzer = Analyzer::new();
    for l in loops {
        analyzer.bind_const(a, l.var, a.as_int(l.min)?, a.as_int(l.extent)?);
    }
    let mut last = |&index| analyzer.const_int_bound(a, index).max;
    let ends: Option<Vec<i64>> = indices.iter().map(|index| last(index).checked_add(1)).collect();
    Some(ends?.into_iter().zip(shape).map(|(end, &extent)| end.max(extent)).collect())
}

/// A part of a loop variable: `(var // lower_factor) % extent`.
#[derive(Clone, Copy)]
struct Part {
    /// Position of the loop, from outermost.
    loop_: usize,
    lower_factor: i64,
    extent: i64,
}

/// The parts that a sum consists of, outermost first; `None` if a term is not a part of a loop variable.
fn parts_of(a: &Arena, map: &IterMap, sum: &IterSum, loops: &[VarRange], out: &mut Vec<Part>) -> Option<()> {
    for split in &sum.args {
        match &map.mark(split.mark).source {
            MarkSource::Expr(e) => {
                let var = a.as_var(*e)?;
                let loop_ = loops.iter().position(|l| l.var == var)?;
                let (lower_factor, extent) = (a.as_int(split.lower_factor)?, a.as_int(split.extent)?);
                out.push(Part { loop_, lower_factor, extent });
            }
            MarkSource::Sum(inner) => parts_of(a, map, inner, loops, out)?,
        }
    }
    Some(())
}

/// The last statement that loads the buffer, and the indices of the load.
fn last_load(func: &Func, buffer: BufferId) -> Option<(StmtId, Vec<ExprId>)> {
    let mut last = None;
    for s in func.subtree(func.root.stmt()) {
        let mut see = |e: ExprId| {
            for_each_subexpr(&func.arena, e, &mut |e| {
                if let Expr::Load(b, indices) = func.arena.expr(e)
                    && b == buffer
                {
                    last = Some((s, func.arena.list(indices).to_vec()));
                }
            });
        };
        match func.get(s) {
            Stmt::Store { indices, value, .. } => {
                see(*value);
                func.arena.list(*indices).iter().for_each(|&i| see(i));
            }
            Stmt::If { condition, .. } => see(*condition),
            Stmt::Let { value, .. } | Stmt::Evaluate(value) => see(*value),
            Stmt::While { .. }
            | Stmt::Attr(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => for_each_own_expr(func, s, &mut see),
            Stmt::Loop(_) | Stmt::Block(_) => {}
        }
    }
    last
}

/// The linear index of an element in a row-major buffer.
fn flat(a: &mut Arena, shape: &[i64], indices: &[ExprId]) -> ExprId {
    let mut position = None;
    for (&extent, &index) in shape.iter().zip(indices) {
        position = Some(match position {
            None => index,
            Some(before) => {
                let scaled = a.mul_const(before, extent);
                a.add(scaled, index)
            }
        });
    }
    match position {
        Some(e) => e,
        None => a.int32(0),
    }
}

/// Converts an expression over `params` to one of a trace; `None` if it is more than arithmetic.
fn lambda_expr(a: &Arena, e: ExprId, params: &[VarId]) -> Option<LambdaExpr> {
    Some(match a.expr(e) {
        Expr::Int(_) => LambdaExpr::Int(a.as_int(e)?),
        Expr::Var(v) => LambdaExpr::Param(params.iter().position(|&p| p == v)?),
        Expr::Binary(op, x, y) => {
            LambdaExpr::Binary(op, Box::new(lambda_expr(a, x, params)?), Box::new(lambda_expr(a, y, params)?))
        }
        _ => return None,
    })
}
