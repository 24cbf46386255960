//! Predicates of blocks against the domains of their iteration variables, outside which no instance exists.

use crate::arith::Analyzer;
use crate::arith::implication::implies;
use crate::ir::{Arena, BlockId, BlockIter, CmpOp, ExprId, Func};

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
