//! Predicates of blocks against the domains of their iteration variables, outside which no instance exists.

use super::linear::Linear;
use crate::arith::Analyzer;
use crate::arith::implication::{conjuncts, implies};
use crate::ir::{Arena, BlockId, BlockIter, CmpOp, ExprId, Func, LoopId};

/// An analyzer that knows the loops around a block.
pub fn knowing_loops(func: &mut Func, block: BlockId) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for l in func.loops_above(block.stmt()) {
        let Func { arena, stmts, .. } = &mut *func;
        let node = stmts.loop_(l);
        analyzer.bind(arena, node.var, node.min, node.extent);
    }
    analyzer
}

/// Says that the bindings lie in their domains.
pub fn inside_domains<'a>(a: &mut Arena, iters: impl IntoIterator<Item = &'a BlockIter>) -> ExprId {
    let mut inside = a.bool(true);
    for i in iters {
        let end = a.add(i.min, i.extent);
        let (starts, ends) = (a.compare(CmpOp::Ge, i.value, i.min), a.lt(i.value, end));
        let both = a.and(starts, ends);
        inside = a.and(inside, both);
    }
    inside
}

/// Does the predicate hold wherever all iteration variables are inside their domains, so that it says nothing new?
pub fn predicate_follows(func: &mut Func, block: BlockId) -> bool {
    let node = func.block(block);
    let (predicate, iters) = (node.predicate, node.iters.clone());
    if func.arena.is_int(predicate, 1) {
        return true;
    }
    let mut analyzer = knowing_loops(func, block);
    let inside = inside_domains(&mut func.arena, &iters);
    implies(&mut func.arena, &mut analyzer, inside, predicate)
}

/// The conjuncts of the block's predicate, in order, that need not hold wherever the bindings of `iters` (some of the
/// block's) lie inside their domains.
pub fn beyond_domains(func: &mut Func, b: BlockId, iters: &[BlockIter]) -> Vec<ExprId> {
    let predicate = func.block(b).predicate;
    let mut analyzer = knowing_loops(func, b);
    let a = &mut func.arena;
    let inside = inside_domains(a, iters);
    let mut left = conjuncts(a, predicate).into_vec();
    left.retain(|&e| !implies(a, &mut analyzer, inside, e));
    left
}

/// Is the value a sum of loop variables with constant ranges that never leaves its domain? The proof by the analyzer
/// costs a hundred times as much.
fn stays_inside(func: &Func, iter: &BlockIter, loops: &[LoopId]) -> bool {
    let Func { arena: a, stmts, .. } = func;
    let range = |var| {
        let node = loops.iter().map(|&l| stmts.loop_(l)).find(|node| node.var == var)?;
        let (min, n) = (a.as_int(node.min)?, a.as_int(node.extent).filter(|&n| n > 0)?);
        Some((min, min.checked_add(n - 1)?))
    };
    let inside = || {
        let (first, n) = (a.as_int(iter.min)?, a.as_int(iter.extent)?);
        let (min, max) = Linear::of(a, iter.value)?.bounds(range)?;
        Some(first as i128 <= min && max < first as i128 + n as i128)
    };
    inside().unwrap_or(false)
}

/// When the block runs: its predicate and, as far as they do not follow from that and the loops around, the domains of its
/// iteration variables.
pub fn with_domains(func: &mut Func, b: BlockId) -> ExprId {
    let node = func.block(b);
    let (mut condition, iters) = (node.predicate, node.iters.clone());
    let loops = func.loops_above(b.stmt());
    let mut analyzer: Option<Analyzer> = None;
    for i in iters {
        let is_its_loop = |&l: &LoopId| {
            let node = func.loop_(l);
            func.arena.as_var(i.value) == Some(node.var) && (node.min, node.extent) == (i.min, i.extent)
        };
        if loops.iter().any(is_its_loop) || stays_inside(func, &i, &loops) {
            continue;
        }
        if analyzer.is_none() {
            analyzer = Some(knowing_loops(func, b));
        }
        let Some(analyzer) = &mut analyzer else { continue };
        let a = &mut func.arena;
        let end = a.add(i.min, i.extent);
        for bound in [a.compare(CmpOp::Le, i.min, i.value), a.lt(i.value, end)] {
            if !implies(a, analyzer, condition, bound) {
                condition = a.and(condition, bound);
            }
        }
    }
    condition
}
