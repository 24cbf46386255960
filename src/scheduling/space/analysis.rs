//! Analyses of blocks and loops for rules and postprocessors.

use crate::ir::visit::{for_each_own_expr, for_each_subexpr, uses_var};
use crate::ir::{BlockId, BufferRegion, Expr, Func, Intrinsic, IterKind, LoopId, Stmt, StmtId, VarId};
use crate::schedule::Schedule;
use crate::schedule::arg::{FuncIndex, Rv, RvValue};

/// The block a random variable stands for, if it still exists.
pub(crate) fn live_block(sch: &Schedule, rv: Rv) -> Option<(FuncIndex, BlockId)> {
    match sch.value(rv) {
        Ok(RvValue::Block(f, b)) if sch.func(f).is_alive(b.stmt()) => Some((f, b)),
        _ => None,
    }
}

/// The loop a random variable stands for, if it still exists.
pub(crate) fn live_loop(sch: &Schedule, rv: Rv) -> Option<(FuncIndex, LoopId)> {
    match sch.value(rv) {
        Ok(RvValue::Loop(f, l)) if sch.func(f).is_alive(l.stmt()) => Some((f, l)),
        _ => None,
    }
}

/// The kind of a loop for the blocks below it: spatial or reduction if all bindings that use it agree, otherwise
/// opaque; spatial if none uses it (TVM's `GetLoopIterType`).
pub(crate) fn loop_iter_kind(func: &Func, l: LoopId) -> IterKind {
    let var = func.loop_(l).var;
    let mut found = None;
    for b in func.child_blocks(l.stmt()) {
        for iter in &func.block(b).iters {
            if !uses_var(&func.arena, iter.value, &mut |v| v == var) {
                continue;
            }
            let kind = match iter.kind {
                IterKind::Spatial => IterKind::Spatial,
                IterKind::Reduce => IterKind::Reduce,
                IterKind::Scan | IterKind::Opaque => return IterKind::Opaque,
            };
            if *found.get_or_insert(kind) != kind {
                return IterKind::Opaque;
            }
        }
    }
    found.unwrap_or(IterKind::Spatial)
}

/// Whether the block's bindings are exactly the variables of the loops around it, each over the same range.
pub(crate) fn is_trivial_binding(func: &Func, b: BlockId) -> bool {
    let loops = func.loops_above(b.stmt());
    let iters = &func.block(b).iters;
    loops.len() == iters.len()
        && loops.iter().zip(iters).all(|(&l, iter)| {
            let l = func.loop_(l);
            func.arena.as_var(iter.value) == Some(l.var) && (iter.min, iter.extent) == (l.min, l.extent)
        })
}

/// Whether every iteration variable of the block is spatial.
pub(crate) fn is_spatial(func: &Func, b: BlockId) -> bool {
    func.block(b).iters.iter().all(|i| i.kind == IterKind::Spatial)
}

/// Whether the body of a loop is a single statement.
pub(crate) fn has_single_child(func: &Func, l: LoopId) -> bool {
    func.loop_(l).body.len() == 1
}

/// The number of iterations of a loop, if constant.
pub(crate) fn const_extent(func: &Func, l: LoopId) -> Option<i64> {
    func.arena.as_int(func.loop_(l).extent)
}

/// Whether a statement below `s` calls one of the functions.
pub(crate) fn calls(func: &Func, s: StmtId, functions: &[Intrinsic]) -> bool {
    any_expr(func, s, &mut |e| matches!(e, Expr::Call(f, _) if functions.contains(&f)))
}

/// Whether there is a conditional expression or statement below `s`.
pub(crate) fn has_conditional(func: &Func, s: StmtId) -> bool {
    func.subtree(s).iter().any(|&s| matches!(func.get(s), Stmt::If { .. }))
        || any_expr(func, s, &mut |e| matches!(e, Expr::IfThenElse(..) | Expr::Select(..)))
}

fn any_expr(func: &Func, s: StmtId, f: &mut impl FnMut(Expr) -> bool) -> bool {
    let mut found = false;
    for s in func.subtree(s) {
        let mut see = |root| for_each_subexpr(&func.arena, root, &mut |e| found |= f(func.arena.expr(e)));
        match func.get(s) {
            Stmt::Store { indices, value, .. } => {
                func.arena.list(*indices).iter().for_each(|&i| see(i));
                see(*value);
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
    found
}

/// Returns `(injective, ordered)`: how the elements read depend on the element written (TVM's
/// `AnalyzeReadWritePattern`, as far as auto inline needs it). Each index read must be a constant, or a variable of the
/// write plus a constant.
pub(crate) fn read_write_pattern(func: &Func, read: &BufferRegion, write: &BufferRegion) -> (bool, bool) {
    let arena = &func.arena;
    let mut written: Vec<VarId> = Vec::new();
    for (min, extent) in write.ranges(arena) {
        match arena.as_var(min) {
            Some(v) if arena.is_int(extent, 1) => written.push(v),
            _ => return (false, false),
        }
    }
    let (mut injective, mut ordered) = (true, true);
    let mut positions: Vec<usize> = Vec::new();
    for (min, extent) in read.ranges(arena) {
        if !arena.is_int(extent, 1) {
            return (false, false);
        }
        if arena.as_int(min).is_some() {
            continue;
        }
        let Some(position) = shifted_var(func, min).and_then(|v| written.iter().position(|&w| w == v)) else {
            return (false, false);
        };
        injective &= !positions.contains(&position);
        ordered &= positions.last().is_none_or(|&last| last < position);
        positions.push(position);
    }
    (injective, ordered)
}

/// The variable that an index is, or differs from by a constant.
pub(crate) fn shifted_var(func: &Func, e: crate::ir::ExprId) -> Option<VarId> {
    use crate::ir::BinOp;
    let arena = &func.arena;
    match arena.expr(e) {
        Expr::Var(v) => Some(v),
        Expr::Binary(BinOp::Add, a, b) if arena.as_int(b).is_some() => arena.as_var(a),
        Expr::Binary(BinOp::Add, a, b) if arena.as_int(a).is_some() => arena.as_var(b),
        Expr::Binary(BinOp::Sub, a, b) if arena.as_int(b).is_some() => arena.as_var(a),
        _ => None,
    }
}
