//! # `fuse_reduction_epilogue`
//!
//! Fuses a consumer that copies the result of a reduction, or adds something to it, into the reduction.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 32)), bias: T.Buffer(4), C: T.Buffer(4)):
//!     Y = T.sblock_alloc_buffer(4)
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("Y"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 Y[vi] = 0.0
//!             Y[vi] = Y[vi] + A[vi, vk]
//!     for i in range(4):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(4, i)
//!             C[vi] = Y[vi] + bias[vi]
//!
//! def steps(sch):
//!     sch.fuse_reduction_epilogue("Y", "C")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 32)), bias: T.Buffer((4,)), C: T.Buffer((4,))):
//!     Y = T.sblock_alloc_buffer((4,))
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("Y"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = bias[vi]
//!             C[vi] = C[vi] + A[vi, vk]
//! ```
//!
//! * Requires: the only consumer, without predicate, reading each element once; the reduction is a sum from 0, unless
//!   the consumer is a plain copy.
//! * Errors: `NotReductionBlockError`, `IncompleteBlockError`, `BodyAnalysisError`.
//! * Handles: dies: the consumer, loops left empty; persists: the reduction block, its loops.
//! * Refused, though TVM accepts it: `max(Y + bias, 0)` and clipping, which would apply at each step; other consumers
//!   of the result.
//!
//! # Implementation
//!
//! Makes a reduction write directly to the output of a consumer that copies the result, or adds a value to it.
//!
//! ```text
//! for i, j, k in T.grid(8, 8, 6):
//!     with T.block("Y"):
//!         with T.init(): Y[vi, vj] = 0
//!         Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
//! for i, j in T.grid(8, 8):
//!     with T.block("C"): C[vi, vj] = Y[vi, vj] + bias[vj]
//! # becomes
//! for i, j, k in T.grid(8, 8, 6):
//!     with T.block("Y"):
//!         with T.init(): C[vi, vj] = bias[vj]
//!         C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
//! ```
//!
//! Requires: a reduction block, and its only consumer, a complete block without predicate that reads each element of
//! the result once, at bare iteration variables. It copies the element, or, if the reduction is a sum that starts from
//! 0, adds a value that no block in the scope writes. Preserves: the result, up to the order of floating-point
//! additions. Returns: nothing.
//!
//! TVM also fuses `max(Y + bias, 0)` and clipping, which would then apply at every step of the reduction and change the
//! result; and it matches iteration variables by position. tvmr refuses the former, and matches by indices. As in TVM,
//! the reduction's old buffer stays allocated.
//!
//! Handles: dies, the consumer and the loops that become empty; the reduction block persists.

use super::super::analysis::access::accesses_of;
use super::super::analysis::block_class::{check_reduction, require_complete, require_not_output};
use super::super::analysis::dependence::Scope;
use super::super::analysis::reducer::{Reducer, recognise};
use super::super::analysis::tree::require_scope;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::compute_inline::{require_no_view, require_removable};
use crate::ir::visit::{for_each_subexpr, walk_rewrite};
use crate::ir::{
    Arena, BinOp, BlockId, BufferId, Expr, ExprId, ExprList, Func, Rewriter, Stmt, StmtId, Substitution, VarId,
};
use smallvec::SmallVec;

/// `fuse_reduction_epilogue(reduction_block, epilogue_block)`.
pub(crate) static FUSE_REDUCTION_EPILOGUE: Kind = Kind {
    name: "FuseReductionEpilogue",
    method: "fuse_reduction_epilogue",
    classic: None,
    positional: false,
    params: &[Param::input("reduction_block", Ty::Block), Param::input("epilogue_block", Ty::Block)],
    outputs: Outputs::None,
    samples: false,
    run,
};

/// The result of the checks.
struct EpiloguePlan {
    reduction: BlockId,
    removed: StmtId,
    old: BufferId,
    new: BufferId,
    /// The indices of the stored element, over the reduction's variables.
    indices: ExprList,
    /// The new initial value of the reduction; `None` for the old one.
    start: Option<ExprId>,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, reduction) = call.block(0)?;
    let epilogue = call.block_in(1, func)?;
    let state = call.state(func);
    let plan = check(state, reduction, epilogue)?;
    apply(&mut state.func, plan);
    Ok(Outcome::none())
}

fn check(state: &mut State, reduction: BlockId, epilogue: BlockId) -> Result<EpiloguePlan, ScheduleError> {
    let scope = require_scope(state, reduction, true)?;
    check_reduction(state, reduction, scope.stmt()).map_err(|why| {
        let block = state.func.block(reduction).name;
        state.error(ErrorKind::NotReductionBlock { block, why: why.reason() }, reduction)
    })?;
    let fail = |state: &State, why: &'static str| Err(state.error(ErrorKind::EpilogueNotFusible { why }, epilogue));
    if state.func.block_above(epilogue.stmt()) != Some(scope) {
        return fail(state, "it is in another scope than the reduction");
    }
    require_complete(state, epilogue, scope)?;
    require_not_output(state, reduction, scope)?;
    let (old, new) = match (&state.func.block(reduction).writes[..], &state.func.block(epilogue).writes[..]) {
        ([y], [c]) => (y.buffer, c.buffer),
        _ => return fail(state, "the reduction or it writes more than one buffer"),
    };
    let deps = Scope::of(&state.func, scope);
    if deps.consumers(&state.func, reduction) != [epilogue] {
        return fail(state, "it is not the only consumer of the reduction");
    }
    let func = &state.func;
    let node = func.block(epilogue);
    if !func.arena.is_int(node.predicate, 1) {
        return fail(state, "it has a predicate");
    }
    let written_before = |b: BufferId| b != old && deps.writers(b).next().is_some();
    if node.reads.iter().any(|r| written_before(r.buffer)) {
        return fail(state, "it reads something else that a block of the scope writes");
    }
    if func.block(reduction).reads.iter().any(|r| r.buffer == new) {
        return fail(state, "the reduction reads the buffer that it writes");
    }
    let store = match node.body[..] {
        [s] => func.get(s).clone(),
        _ => return fail(state, "its body is not a single store"),
    };
    let Stmt::Store { indices: stored_at, value, .. } = store else {
        return fail(state, "its body is not a single store");
    };
    let Some((read_at, added)) = copy_or_sum(&func.arena, value, old) else {
        return fail(state, "it does not just copy the result or add something to it");
    };
    let reduction_node = func.block(reduction).clone();
    let recognised = recognise(&mut state.func, &reduction_node);
    let (written_at, starts_from_zero) = match &recognised {
        Ok(r) => (r.updates[0].indices, r.reducer == Reducer::Sum),
        Err(_) if added.is_none() => match single_store(&state.func, &reduction_node.body) {
            Some(indices) => (indices, false),
            None => return fail(state, "the reduction is not a single store"),
        },
        Err(_) => return fail(state, "the reduction is unknown"),
    };
    if added.is_some() && !starts_from_zero {
        return fail(state, "the reduction is not a sum, so nothing can be added at its start");
    }
    let Some(by) = same_elements(&state.func, reduction, epilogue, written_at, read_at) else {
        return fail(state, "it does not read each element of the result once, at bare iteration variables");
    };
    let removed = require_removable(state, epilogue)?;
    require_no_view(state, scope, old)?;
    let mut by = Substitution::of_vars(by);
    let a = &mut state.func.arena;
    let indices = a.map_list(stored_at, |a, e| by.apply(a, e));
    let start = added.map(|e| by.apply(a, e));
    Ok(EpiloguePlan { reduction, removed, old, new, indices, start })
}

/// The indices at which the value loads the buffer, and the added value.
fn copy_or_sum(a: &Arena, value: ExprId, buffer: BufferId) -> Option<(ExprList, Option<ExprId>)> {
    let load = |e: ExprId| match a.expr(e) {
        Expr::Load(b, indices) if b == buffer => Some(indices),
        _ => None,
    };
    let free = |e: ExprId| {
        let mut found = false;
        for_each_subexpr(a, e, &mut |e| found |= load(e).is_some());
        !found
    };
    match a.expr(value) {
        Expr::Load(..) => load(value).map(|indices| (indices, None)),
        Expr::Binary(BinOp::Add, x, y) => match (load(x), load(y)) {
            (Some(indices), None) if free(y) => Some((indices, Some(y))),
            (None, Some(indices)) if free(x) => Some((indices, Some(x))),
            _ => None,
        },
        _ => None,
    }
}

fn single_store(func: &Func, body: &[StmtId]) -> Option<ExprList> {
    match body {
        [s] => match *func.get(*s) {
            Stmt::Store { indices, .. } => Some(indices),
            _ => None,
        },
        _ => None,
    }
}

/// The consumer's variables as expressions of the reduction's, if both iterate over the same elements.
fn same_elements(
    func: &Func,
    reduction: BlockId,
    epilogue: BlockId,
    written_at: ExprList,
    read_at: ExprList,
) -> Option<Vec<(VarId, ExprId)>> {
    let a = &func.arena;
    let (made, used) = (func.block(reduction), func.block(epilogue));
    let mut by: Vec<(VarId, ExprId)> = Vec::new();
    let mut seen: SmallVec<[VarId; 4]> = SmallVec::new();
    for (&w, &r) in a.list(written_at).iter().zip(a.list(read_at)) {
        let (w, r) = (a.as_var(w)?, a.as_var(r)?);
        let from = made.iters.iter().find(|i| i.var == w)?;
        let to = used.iters.iter().find(|i| i.var == r)?;
        if seen.contains(&w) || by.iter().any(|(v, _)| *v == r) || (from.min, from.extent) != (to.min, to.extent) {
            return None;
        }
        if a.var(w).dtype != a.var(r).dtype {
            return None;
        }
        seen.push(w);
        let position = a.list(written_at).iter().position(|&e| a.as_var(e) == Some(w))?;
        by.push((r, a.list(written_at)[position]));
    }
    (by.len() == used.iters.len()).then_some(by)
}

struct Redirect {
    old: BufferId,
    new: BufferId,
    indices: ExprList,
}

impl Rewriter for Redirect {
    fn rewrite_expr(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        match a.expr(e) {
            Expr::Load(buffer, _) if buffer == self.old => {
                let indices = a.list(self.indices).to_vec();
                a.load(self.new, &indices)
            }
            _ => walk_rewrite(self, a, e),
        }
    }
}

fn apply(func: &mut Func, plan: EpiloguePlan) {
    let EpiloguePlan { reduction, removed, old, new, indices, start } = plan;
    func.cut(removed);
    let mut redirect = Redirect { old, new, indices };
    let node = func.block(reduction);
    let init: SmallVec<[StmtId; 4]> = node.init.iter().flatten().copied().collect();
    let body = node.body.clone();
    for (in_init, s) in init.into_iter().map(|s| (true, s)).chain(body.into_iter().map(|s| (false, s))) {
        for s in func.subtree(s) {
            let Stmt::Store { buffer, value, .. } = *func.get(s) else { continue };
            let value = match start {
                Some(start) if in_init => start,
                _ => redirect.rewrite_expr(&mut func.arena, value),
            };
            if buffer == old {
                *func.stmt_mut(s) = Stmt::Store { buffer: new, indices, value };
            }
        }
    }
    let accesses = accesses_of(func, reduction);
    let node = func.block_mut(reduction);
    (node.reads, node.writes) = (accesses.reads, accesses.writes);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const BIAS: &str = r#"
def main(A: T.Buffer((8, 6)), bias: T.Buffer((8,)), C: T.Buffer((8,))):
    Y = T.alloc_buffer((8,))
    for i, k in T.grid(8, 6):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = Y[vi] + bias[vi]
"#;
    const FUSE: &str = "sch.fuse_reduction_epilogue(sch.get_block('Y', 'main'), sch.get_block('C', 'main'))";

    #[test]
    fn the_sum_starts_from_the_bias() {
        check(
            BIAS,
            |t| t.python(FUSE),
            r#"
def main(A: T.Buffer((8, 6)), bias: T.Buffer((8,)), C: T.Buffer((8,))):
    Y = T.alloc_buffer((8,))
    for i, k in T.grid(8, 6):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(bias[vi], A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = bias[vi]
            C[vi] = C[vi] + A[vi, vk]
"#,
        );
    }

    #[test]
    fn what_changes_the_result_is_refused() {
        let run = |program: &str, class: &str| refuse(program, |t| t.python(FUSE), class);
        run(&BIAS.replace("Y[vi] + bias[vi]", "T.max(Y[vi], T.float32(0))"), "BodyAnalysisError");
        run(&BIAS.replace("Y[vi] + bias[vi]", "Y[7 - vi] + bias[vi]"), "BodyAnalysisError");
        run(&BIAS.replace("T.float32(0)", "T.float32(1)"), "BodyAnalysisError");
        run(
            &BIAS
                .replace("T.axis.remap(\"SR\", [i, k])", "T.axis.remap(\"SS\", [i, k])")
                .replace("            with T.init():\n                Y[vi] = T.float32(0)\n", ""),
            "NotReductionBlockError",
        );
    }
}
