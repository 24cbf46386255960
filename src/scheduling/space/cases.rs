//! Blocks that choose among several values by the position along a short axis.

use crate::ir::{BlockId, CmpOp, Expr, ExprId, Func, Stmt};

/// Maximum extent of an axis of cases.
const MAX_CASES: i64 = 16;

/// The axis of a block along which each iteration computes another of several values: `select(v == 0, …, select(v == 1, …))`. `None` if the
/// value that the block stores is no such choice.
pub(super) fn axis_of_cases(func: &Func, block: BlockId) -> Option<usize> {
    let node = func.block(block);
    let &[inner] = &node.body[..] else { return None };
    let Stmt::Store { value, .. } = func.get(inner) else { return None };
    let Expr::Select(condition, _, otherwise) = func.arena.expr(*value) else { return None };
    let axis = |condition: ExprId| {
        let Expr::Compare(CmpOp::Eq, v, n) = func.arena.expr(condition) else { return None };
        func.arena.as_int(n)?;
        let var = func.arena.as_var(v)?;
        node.iters.iter().position(|i| i.var == var)
    };
    let found = axis(condition)?;
    let n = func.arena.as_int(node.iters[found].extent)?;
    if !(3..=MAX_CASES).contains(&n) {
        return None;
    }
    // Each case but the last is tested for.
    let (mut rest, mut tested) = (otherwise, 1);
    while let Expr::Select(condition, _, otherwise) = func.arena.expr(rest)
        && axis(condition) == Some(found)
    {
        (rest, tested) = (otherwise, tested + 1);
    }
    (tested == n - 1).then_some(found)
}
