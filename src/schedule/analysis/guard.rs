//! When a block runs: its predicate, and the domains of its iteration variables.
//!
//! A block does not run where a binding leaves the domain of its iteration variable, so most predicates, made by splits
//! that do not divide, say nothing that the domains do not; and where there is none, the domains may say more than the
//! loops do.

use super::affine::domain;
use crate::arith::Analyzer;
use crate::arith::implication::{conjuncts, implies};
use crate::ir::{BlockId, BlockIter, CmpOp, ExprId, Func, LoopId};

/// The conjuncts of the block's predicate, in order, that need not hold wherever the bindings of `iters` (some of the
/// block's) lie inside their domains.
pub fn beyond_domains(func: &mut Func, b: BlockId, iters: &[BlockIter]) -> Vec<ExprId> {
    let predicate = func.block(b).predicate;
    let loops = func.loops_above(b.stmt());
    let mut analyzer = loops_known(func, &loops);
    let a = &mut func.arena;
    let mut inside = a.bool(true);
    for i in iters {
        let end = a.add(i.min, i.extent);
        for bound in [a.compare(CmpOp::Le, i.min, i.value), a.lt(i.value, end)] {
            inside = a.and(inside, bound);
        }
    }
    let mut left = conjuncts(a, predicate).into_vec();
    left.retain(|&e| !implies(a, &mut analyzer, inside, e));
    left
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
        if loops.iter().any(is_its_loop) {
            continue;
        }
        if analyzer.is_none() {
            analyzer = Some(loops_known(func, &loops));
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

fn loops_known(func: &mut Func, loops: &[LoopId]) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for &l in loops {
        let d = domain(func, l);
        analyzer.bind(&mut func.arena, d.var, d.min, d.extent);
    }
    analyzer
}
