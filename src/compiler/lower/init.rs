//! Hoists inits: moves them before the loop at which the reduction begins, if that preserves the results.
//!
//! ```text
//! for i, k in T.grid(8, 16):
//!     with T.block("C"): T.init(): C[i] = 0; C[i] = C[i] + A[i, k]
//! # runs as
//! for i in range(8):
//!     C[i] = 0
//!     for k in range(16): C[i] = C[i] + A[i, k]
//! ```
//!
//! Otherwise the init stays in its block, under the condition that all reductions are at their first value.

use crate::ir::expr::FxBuild;
use crate::ir::visit::{for_each_subexpr, uses_var};
use crate::ir::{BlockId, BufferId, Expr, ExprId, Func, IterKind, LoopId, Stmt, StmtId, VarId};
use hashbrown::{HashMap, HashSet};

/// The inits to hoist, and the loops before which they run.
#[derive(Default)]
pub(super) struct Hoists {
    before: HashMap<StmtId, Vec<BlockId>, FxBuild>,
    blocks: HashSet<BlockId, FxBuild>,
}

impl Hoists {
    /// The blocks whose inits run before a loop.
    pub(super) fn before(&self, s: StmtId) -> Option<Vec<BlockId>> {
        self.before.get(&s).cloned()
    }

    /// Whether the block's init is hoisted.
    pub(super) fn is_hoisted(&self, b: BlockId) -> bool {
        self.blocks.contains(&b)
    }
}

/// Decides for all blocks of a function.
pub(super) fn hoists(func: &Func) -> Hoists {
    let mut hoists = Hoists::default();
    let all = func.subtree(func.root.stmt());
    // If memory has several names or loops end early, inits are not hoisted.
    let moves_nothing = |&s: &StmtId| matches!(func.get(s), Stmt::Declare { .. } | Stmt::Break | Stmt::Continue);
    if all.iter().any(moves_nothing) {
        return hoists;
    }
    for s in all {
        let Some(b) = func.as_block(s).filter(|&b| func.block(b).init.is_some()) else { continue };
        if let Some(l) = target(func, b) {
            hoists.before.entry(l.stmt()).or_default().push(b);
            hoists.blocks.insert(b);
        }
    }
    hoists
}

/// The loop before which the block's init may run.
fn target(func: &Func, b: BlockId) -> Option<LoopId> {
    let block = func.block(b);
    let loops = chain(func, b);
    let drives_reduction = |l: &LoopId| {
        let var = func.loop_(*l).var;
        block.iters.iter().any(|i| i.kind == IterKind::Reduce && uses(func, i.value, var))
    };
    let position = loops.iter().position(drives_reduction)?;
    let outermost = loops[position];
    let (_, at_first) = split(func, &loops[position..], b);
    // If all these loops are at their first iteration, the reductions are at their first value, and only then: each
    // reduction is a sum of the loops with positive factors.
    for &l in &at_first {
        let node = func.loop_(l);
        if func.arena.as_int(node.extent).is_none_or(|n| n < 1) || func.arena.as_int(node.min) != Some(0) {
            return None;
        }
    }
    let is_sum = |i: &crate::ir::BlockIter| {
        func.arena.as_int(i.min) == Some(0)
            && is_positive_sum(func, i.value, &mut |v| at_first.iter().any(|&l| func.loop_(l).var == v))
    };
    if !block.iters.iter().filter(|i| i.kind == IterKind::Reduce).all(is_sum) {
        return None;
    }
    // No other statement under the loop may observe the difference.
    let mut written: Vec<BufferId> = Vec::new();
    let mut read: Vec<BufferId> = Vec::new();
    for &s in block.init.iter().flatten() {
        for s in func.subtree(s) {
            if matches!(func.get(s), Stmt::Block(inner) if !inner.matches.is_empty()) {
                return None;
            }
            accesses(func, s, &mut |buffer, is_store| if is_store { written.push(buffer) } else { read.push(buffer) });
        }
    }
    if read.iter().any(|r| written.contains(r)) || !block.matches.is_empty() || !block.allocs.is_empty() {
        return None;
    }
    let own: HashSet<StmtId, FxBuild> = func.subtree(b.stmt()).into_iter().collect();
    let mut clash = false;
    for s in func.subtree(outermost.stmt()) {
        let inside = own.contains(&s);
        if !inside && matches!(func.get(s), Stmt::Block(other) if !other.matches.is_empty()) {
            return None;
        }
        accesses(func, s, &mut |buffer, is_store| {
            clash |= !inside && written.contains(&buffer) || is_store && read.contains(&buffer);
        });
    }
    (!clash).then_some(outermost)
}

/// The loops of an init nest and those that stay at their first iteration, outermost first, from `outermost` on.
pub(super) fn loops_of_init(func: &Func, outermost: StmtId, b: BlockId) -> (Vec<LoopId>, Vec<LoopId>) {
    let loops = chain(func, b);
    let start = loops.iter().position(|l| l.stmt() == outermost).unwrap_or(0);
    split(func, &loops[start..], b)
}

fn split(func: &Func, loops: &[LoopId], b: BlockId) -> (Vec<LoopId>, Vec<LoopId>) {
    let spatial = |l: &LoopId| {
        let var = func.loop_(*l).var;
        func.block(b).iters.iter().any(|i| i.kind != IterKind::Reduce && uses(func, i.value, var))
    };
    loops.iter().copied().partition(spatial)
}

/// The directly nested loops around the block, outermost first.
fn chain(func: &Func, b: BlockId) -> Vec<LoopId> {
    let mut loops: Vec<LoopId> = func.ancestors(b.stmt()).map_while(|s| func.as_loop(s)).collect();
    loops.reverse();
    loops
}

fn uses(func: &Func, e: ExprId, var: VarId) -> bool {
    uses_var(&func.arena, e, &mut |v| v == var)
}

/// Whether the expression is a sum of such variables times positive constants.
fn is_positive_sum(func: &Func, e: ExprId, is: &mut impl FnMut(VarId) -> bool) -> bool {
    use crate::ir::BinOp;
    let arena = &func.arena;
    match arena.expr(e) {
        Expr::Int(v) => v == 0,
        Expr::Var(v) => is(v),
        Expr::Binary(BinOp::Add, a, b) => is_positive_sum(func, a, is) && is_positive_sum(func, b, is),
        Expr::Binary(BinOp::Mul, a, b) => match (arena.as_int(a), arena.as_int(b)) {
            (_, Some(c)) if c > 0 => is_positive_sum(func, a, is),
            (Some(c), _) if c > 0 => is_positive_sum(func, b, is),
            _ => false,
        },
        Expr::Cast(a) => arena.dtype(a).is_index() && is_positive_sum(func, a, is),
        _ => false,
    }
}

/// Calls `f` with each buffer that the statement itself accesses, and with whether it stores to it.
fn accesses(func: &Func, s: StmtId, f: &mut impl FnMut(BufferId, bool)) {
    let see = |e: ExprId, f: &mut dyn FnMut(BufferId, bool)| {
        for_each_subexpr(&func.arena, e, &mut |e| {
            if let Expr::Load(buffer, _) = func.arena.expr(e) {
                f(buffer, false);
            }
        });
    };
    match func.get(s) {
        Stmt::Store { buffer, indices, value } => {
            func.arena.list(*indices).iter().for_each(|&e| see(e, f));
            see(*value, f);
            f(*buffer, true);
        }
        Stmt::If { condition, .. } => see(*condition, f),
        Stmt::Let { value, .. } | Stmt::Evaluate(value) => see(*value, f),
        Stmt::Loop(l) => {
            see(l.min, f);
            see(l.extent, f);
        }
        Stmt::Block(b) => {
            b.iters.iter().for_each(|i| see(i.value, f));
            see(b.predicate, f);
        }
        Stmt::While { .. }
        | Stmt::Attr(_)
        | Stmt::Alloc { .. }
        | Stmt::Declare { .. }
        | Stmt::Break
        | Stmt::Continue
        | Stmt::Return(_)
        | Stmt::Assert(_) => {
            crate::ir::visit::for_each_own_expr(func, s, &mut |e| see(e, f));
        }
    }
}
