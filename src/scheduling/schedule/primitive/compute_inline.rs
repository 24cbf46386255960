//! # `compute_inline`
//!
//! Inlines a block's computation into its consumers.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), C: T.Buffer(32)):
//!     B = T.sblock_alloc_buffer(32)
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * 2.0
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = B[vi] + 1.0
//!
//! def steps(sch):
//!     sch.compute_inline("B")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), C: T.Buffer((32,))):
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = A[vi] * T.float32(2.0) + T.float32(1.0)
//! ```
//!
//! * Requires: a complete block of a stage pipeline, with one store whose indices determine the instance; not an
//!   output; no view.
//! * Errors: `HasInitBlock`, `NotSingleReadWriteBuffer`, `OutputBlockError`, `IncompleteBlockError`,
//!   `BodyAnalysisError`, `OnlyLeafError`, `OpaqueAccessError`.
//! * Handles: dies: the block, loops left empty; persists: producers, consumers.
//!
//! # Implementation
//!
//! Substitutes a block's computation into its readers, and removes the block and its buffer.
//!
//! ```text
//! for i in range(128):
//!     with T.block("B"): B[vi] = A[vi] * 2
//! for i in range(128):
//!     with T.block("C"): C[vi] = B[vi] + 1
//! # becomes
//! for i in range(128):
//!     with T.block("C"): C[vi] = A[vi] * 2 + 1
//! ```
//!
//! Requires: a complete block of a stage pipeline without init, whose body is one store to a buffer of its scope, at
//! indices that its iteration variables determine one to one; no view of the buffer; another statement in the scope.
//! Preserves: all other loops and blocks. Returns: nothing.
//!
//! Handles: dies, the block and the loops that become empty; the rest persists.

use super::super::analysis::access::accesses_of;
use super::super::analysis::block_class::{require_complete, require_not_output};
use super::super::analysis::tree::require_scope;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::arith::Analyzer;
use crate::arith::iter_map::{IterMapLevel, VarRange, detect_iter_map, inverse_affine_iter_map};
use crate::ir::visit::{for_each_own_expr, walk_rewrite};
use crate::ir::{
    Arena, BlockId, BufferId, BufferRegion, Expr, ExprId, Func, Rewriter, Stmt, StmtId, Substitution, VarId,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// `compute_inline(block)`.
pub(crate) static COMPUTE_INLINE: Kind = Kind {
    name: "ComputeInline",
    method: "compute_inline",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::None,
    samples: false,
    run,
};

/// The result of the checks.
struct InlinePlan {
    scope: BlockId,
    buffer: BufferId,
    /// The statement to remove: the block, or the outermost loop that contains nothing else.
    removed: StmtId,
    /// Variables for the indices of the buffer in `value`.
    indices: SmallVec<[VarId; 4]>,
    value: ExprId,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    inline(call.state(func), block)?;
    Ok(Outcome::none())
}

/// Inlines the block.
///
/// # Errors
///
/// If it cannot be inlined.
pub(crate) fn inline(state: &mut State, block: BlockId) -> Result<(), ScheduleError> {
    let plan = check(state, block)?;
    apply(state, plan);
    Ok(())
}

/// Whether the block can be inlined into its readers.
pub(crate) fn can_inline(state: &mut State, block: BlockId) -> bool {
    check(state, block).is_ok()
}

fn check(state: &mut State, block: BlockId) -> Result<InlinePlan, ScheduleError> {
    let node = state.func.block(block);
    if node.init.is_some() {
        return Err(state.error(ErrorKind::HasInitBlock { block: node.name }, block));
    }
    let [ref write] = node.writes[..] else {
        let kind = ErrorKind::NotSingleReadWriteBuffer { access: "writes", count: node.writes.len() };
        return Err(state.error(kind, block));
    };
    let buffer = write.buffer;
    let scope = require_scope(state, block, true)?;
    require_not_output(state, block, scope)?;
    require_complete(state, block, scope)?;
    let Some((indices, value)) = body_over_indices(&mut state.func, block) else {
        let why = "its body is not a single store at indices that its iteration variables determine one to one";
        return Err(state.error(ErrorKind::BodyAnalysis { why }, block));
    };
    let removed = require_removable(state, block)?;
    require_no_view(state, scope, buffer)?;
    Ok(InlinePlan { scope, buffer, removed, indices, value })
}

/// The stored value as a function of variables for the indices.
fn body_over_indices(func: &mut Func, block: BlockId) -> Option<(SmallVec<[VarId; 4]>, ExprId)> {
    let node = func.stmts.block(block);
    let [body] = node.body[..] else { return None };
    let Stmt::Store { indices, value, .. } = *func.stmts.get(body) else { return None };
    let arena = &mut func.arena;
    let indices: SmallVec<[ExprId; 4]> = arena.list(indices).iter().copied().collect();
    let mut analyzer = Analyzer::new();
    if indices.len() == node.iters.len() {
        let mut is_iter = |(&e, iter): (&ExprId, &crate::ir::BlockIter)| {
            if arena.as_var(e) == Some(iter.var) {
                return true;
            }
            let zero = arena.int(0, arena.dtype(e));
            arena.is_int(iter.extent, 1) && arena.is_int(iter.min, 0) && analyzer.can_prove_equal(arena, e, zero)
        };
        if indices.iter().zip(&node.iters).all(&mut is_iter) {
            return Some((node.iters.iter().map(|i| i.var).collect(), value));
        }
    }
    let domain: SmallVec<[VarRange; 4]> =
        node.iters.iter().map(|i| VarRange { var: i.var, min: i.min, extent: i.extent }).collect();
    let always = arena.bool(true);
    let map = detect_iter_map(arena, &indices, &domain, always, IterMapLevel::Bijective, &mut analyzer, false).ok()?;
    let mut stand_ins: SmallVec<[VarId; 4]> = SmallVec::new();
    let mut outputs: SmallVec<[ExprId; 4]> = SmallVec::new();
    for (i, &e) in indices.iter().enumerate() {
        let (var, e) = arena.new_var_expr(format!("ph_{i}").as_str(), arena.dtype(e));
        stand_ins.push(var);
        outputs.push(e);
    }
    let mut inverse = Substitution::of_vars(inverse_affine_iter_map(arena, &map, &outputs).ok()?);
    for iter in &node.iters {
        if arena.as_int(iter.min).is_some() && arena.is_int(iter.extent, 1) {
            inverse.add_var(iter.var, iter.min);
        }
    }
    Some((stand_ins, inverse.apply(arena, value)))
}

/// The outermost statement that contains the block and no other, to be removed with it.
///
/// # Errors
///
/// If the scope contains nothing else.
pub(crate) fn require_removable(state: &State, block: BlockId) -> Result<StmtId, ScheduleError> {
    let func = &state.func;
    let mut removed = block.stmt();
    for p in func.ancestors(block.stmt()) {
        let place = func.place(removed).expect("the block stands in the tree");
        if func.body_at(place.parent, place.body).len() > 1 {
            return Ok(removed);
        }
        if func.as_block(p).is_some() {
            break;
        }
        removed = p;
    }
    Err(state.error(ErrorKind::OnlyLeaf { block: func.block(block).name }, block))
}

/// # Errors
///
/// If a block below `scope` views a region of the buffer.
pub(crate) fn require_no_view(state: &State, scope: BlockId, buffer: BufferId) -> Result<(), ScheduleError> {
    let func = &state.func;
    let is_view = |&&(source, s): &&(BufferId, StmtId)| source == buffer && func.contains(scope.stmt(), s);
    if let Some(nests) = state.nests_using(buffer) {
        // A view is a use of its source.
        let has_views = |s: StmtId| func.as_block(s).is_some_and(|b| !func.block(b).matches.is_empty());
        if !nests.into_iter().flat_map(|nest| func.subtree(nest)).any(has_views) {
            return Ok(());
        }
    }
    match func.outline().views(func).iter().find(is_view) {
        Some(&(_, s)) => Err(state.error(ErrorKind::OpaqueAccess { buffer: func.arena.buffer(buffer).name }, s)),
        None => Ok(()),
    }
}

fn apply(state: &mut State, plan: InlinePlan) {
    let InlinePlan { scope, buffer, removed, indices, value } = plan;
    let using = state.nests_using(buffer).filter(|_| scope == state.func.root);
    let func = &mut state.func;
    func.cut(removed);
    func.block_mut(scope).allocs.retain(|&b| b != buffer);
    // If the users of the buffer are known, other nests need not be visited.
    let all: Vec<StmtId> = match using {
        Some(nests) => {
            let left = nests.into_iter().filter(|&nest| func.is_alive(nest));
            left.flat_map(|nest| func.subtree(nest)).collect()
        }
        None => func.subtree(scope.stmt()).split_off(1),
    };
    let mut inliner = Inliner { buffer, indices, value, done: HashMap::new() };
    for &s in &all {
        let mut mentions = false;
        for_each_own_expr(func, s, &mut |e| mentions |= func.arena.buffers_inside(e).may_hold(buffer));
        if mentions {
            func.rewrite_stmt(s, &mut inliner);
        }
    }
    restate_accesses(func, &all, buffer);
}

/// Derives reads and writes again for the blocks that mention a removed buffer, inner blocks first.
pub(crate) fn restate_accesses(func: &mut Func, below: &[StmtId], buffer: BufferId) {
    for &s in below.iter().rev() {
        let Some(b) = func.as_block(s) else { continue };
        let node = func.block(b);
        if node.reads.iter().chain(&node.writes).any(|r| r.buffer == buffer) {
            let accesses = accesses_of(func, b);
            let node = func.block_mut(b);
            // Buffers of the block itself are not part of its accesses.
            let foreign = |r: &BufferRegion| !node.allocs.contains(&r.buffer);
            let (reads, writes) = (accesses.reads.into_iter(), accesses.writes.into_iter());
            (node.reads, node.writes) = (reads.filter(foreign).collect(), writes.filter(foreign).collect());
        }
    }
}

/// Replaces loads of a buffer by the value stored there.
struct Inliner {
    buffer: BufferId,
    indices: SmallVec<[VarId; 4]>,
    value: ExprId,
    done: HashMap<ExprId, ExprId>,
}

impl Rewriter for Inliner {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) => return e,
            _ if !arena.buffers_inside(e).may_hold(self.buffer) => return e,
            _ => {}
        }
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let mut new = walk_rewrite(self, arena, e);
        if let Expr::Load(buffer, at) = arena.expr(new)
            && buffer == self.buffer
        {
            let at: SmallVec<[ExprId; 4]> = arena.list(at).iter().copied().collect();
            new = Substitution::of_vars(self.indices.iter().copied().zip(at)).apply(arena, self.value);
        }
        self.done.insert(e, new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::error::ScheduleError;

    fn inline(name: &'static str) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block(name);
            t.sch.compute_inline(block)
        }
    }

    #[test]
    fn readers_compute_the_value_themselves() {
        check(
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 6))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj])
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj + 2, vi] - B[vj + 1, vi]
"#,
            inline("B"),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 6))):
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vj + 1:vj + 3, vi])
            T.writes(C[vi, vj])
            C[vi, vj] = T.exp(A[vj + 2, vi]) - T.exp(A[vj + 1, vi])
"#,
        );
    }

    #[test]
    fn indices_are_inverted() {
        check(
            r#"
def main(A: T.Buffer((24,)), C: T.Buffer((4, 6))):
    B = T.alloc_buffer((6, 4))
    for i in range(24):
        with T.block("B"):
            vi = T.axis.spatial(24, i)
            B[vi // 4, vi % 4] = A[vi]
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi]
"#,
            inline("B"),
            r#"
def main(A: T.Buffer((24,)), C: T.Buffer((4, 6))):
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi + vj * 4])
            T.writes(C[vi, vj])
            C[vi, vj] = A[vi + vj * 4]
"#,
        );
    }

    #[test]
    fn refusals() {
        let chain = r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"#;
        refuse(chain, inline("C"), "OutputBlockError");
        let wraps = chain.replacen("range(8)", "range(16)", 1).replacen("spatial(8", "spatial(16", 1);
        refuse(&wraps.replace("B[vi] = A[vi]", "B[vi % 8] = A[vi // 2]"), inline("B"), "BodyAnalysisError");
        let gaps = chain.replace("B[vi] = A[vi]", "B[7 - vi // 2 * 2] = A[vi]");
        refuse(&gaps, inline("B"), "NotStagePipelineError");
        let twice = chain.replace("B[vi] = A[vi]", "B[vi] = A[vi]\n            B[vi] = A[vi]");
        refuse(&twice, inline("B"), "BodyAnalysisError");
        let reduces = chain.replace(
            "B[vi] = A[vi]",
            "with T.init():\n                B[vi] = T.float32(0)\n            B[vi] = B[vi] + A[vi]",
        );
        refuse(&reduces, inline("B"), "HasInitBlock");
        let alone = chain.split("    for i in range(8):\n        with T.block(\"C\")").next().unwrap_or_default();
        refuse(alone, inline("B"), "OnlyLeafError");
    }
}
