//! # `decompose_reduction`
//!
//! Hoists the init out of a reduction.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 32)), B: T.Buffer(4)):
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("B"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 B[vi] = 0.0
//!             B[vi] = B[vi] + A[vi, vk]
//!
//! def steps(sch):
//!     i, k = sch.get_loops("B")
//!     sch.decompose_reduction("B", k)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 32)), B: T.Buffer((4,))):
//!     for i in range(4):
//!         with T.sblock("B_init"):
//!             vi = T.axis.spatial(4, i)
//!             B[vi] = T.float32(0.0)
//!         for k in range(32):
//!             with T.sblock("B_update"):
//!                 vi, vk = T.axis.remap("SR", [i, k])
//!                 B[vi] = B[vi] + A[vi, vk]
//! ```
//!
//! * Requires: a reduction block; the loop is around it, outside all reduction loops.
//! * Errors: `LoopPositionError`, `NotReductionBlockError`, `LoopHeightError`, `RepeatedReductionError`,
//!   `LostPredicateError`.
//! * Handles: persists: the block (as the update), its loops; created: the init block, its loops.
//! * Refused, though TVM accepts it: an inner loop that no binding uses, which would repeat the update; an init that
//!   would exceed its domain; reductions whose bindings start later than their domains, so that the init never runs.
//!
//! # Implementation
//!
//! Moves the init of a reduction block into a nest of its own, directly before a loop.
//!
//! ```text
//! for i, j, k in T.grid(m, n, o):
//!     with T.block("C"): init: C[vi, vj] = 0;  C[vi, vj] = C[vi, vj] + …
//! # becomes, decomposed at j
//! for i in range(m):
//!     for j_init in range(n):
//!         with T.block("C_init"): C[vi, vj] = 0
//!     for j, k in T.grid(n, o):
//!         with T.block("C_update"): C[vi, vj] = C[vi, vj] + …
//! ```
//!
//! The init nest copies the loops from the given one inwards that the spatial iteration variables use, with their kinds
//! and annotations, and the parts of the predicate that use no other loop.
//!
//! Requires: the loop is around the block; the block is a reduction block; no outer loop drives a reduction iteration
//! variable. Every loop from the given one inwards drives an iteration variable, and the remaining parts of the
//! predicate keep the init's variables in bounds (TVM requires neither; the update would run too often, the init too
//! far). Preserves: all loops and the block, which becomes the update. Returns: the init block.
//!
//! Handles: created, the init block and its loops; persists, the block (as the update) and its loops.

use super::super::analysis::access::accesses_of;
use super::super::analysis::affine::{domain, repeat};
use super::super::analysis::block_class::require_reduction;
use super::super::analysis::guard::{inside_domains, knowing_loops, reductions_begin};
use super::super::analysis::tree::require_scope;
use super::super::analysis::update_scope_info;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::arith::VarRange;
use crate::arith::implication::implies;
use crate::ir::visit::{for_each_subexpr, uses_var};
use crate::ir::{
    Arena, BinOp, Block, BlockId, BlockIter, Body, BufferId, BufferRegion, Expr, ExprId, Func, IterKind, Loop, LoopId,
    Stmt, Substitution, VarId,
};

/// `decompose_reduction(block, loop)`.
pub(crate) static DECOMPOSE_REDUCTION: Kind = Kind {
    name: "DecomposeReduction",
    method: "decompose_reduction",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::input("loop", Ty::Loop)],
    outputs: Outputs::Block,
    samples: false,
    run,
};

/// The result of the checks.
struct InitPlan {
    block: BlockId,
    scope: BlockId,
    at: LoopId,
    /// The loops from `at` inwards to the block.
    below: Vec<LoopId>,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let at = call.loop_in(1, func)?;
    let state = call.state(func);
    let plan = check(state, block, at)?;
    let init = apply(state, plan);
    Ok(Outcome { outputs: vec![RvValue::Block(func, init)], decision: None })
}

fn check(state: &mut State, block: BlockId, at: LoopId) -> Result<InitPlan, ScheduleError> {
    let func = &state.func;
    let scope = require_scope(state, block, false)?;
    let mut loops = func.loops_above(block.stmt());
    let Some(position) = loops.iter().position(|&l| l == at) else {
        let (loop_name, block_name) = (func.arena.var(func.loop_(at).var).name, func.block(block).name);
        return Err(state.error(ErrorKind::LoopPosition { loop_name, block: block_name }, at));
    };
    require_reduction(state, block, scope)?;
    if !reductions_begin(&mut state.func, block) {
        let name = state.func.block(block).name;
        return Err(state.error(ErrorKind::LateInit { block: name }, block));
    }
    let func = &state.func;
    for iter in func.block(block).iters.iter().filter(|i| i.kind == IterKind::Reduce) {
        for &outer in &loops[..position] {
            let var = func.loop_(outer).var;
            if uses_var(&func.arena, iter.value, &mut |v| v == var) {
                let name = |v: VarId| func.arena.var(v).name;
                let kind = ErrorKind::LoopHeight { loop_name: name(func.loop_(at).var), outer: name(var) };
                return Err(state.error(kind, at));
            }
        }
    }
    let below = loops.split_off(position);
    // A loop that the block does not use would repeat the updates without the init.
    let idle = below.iter().any(|&l| {
        let node = func.loop_(l);
        let mut iters = func.block(block).iters.iter();
        !func.arena.is_int(node.extent, 1) && !iters.any(|i| uses_var(&func.arena, i.value, &mut |v| v == node.var))
    });
    if idle || repeats_updates(&mut state.func, block, &below) {
        return Err(state.error(ErrorKind::RepeatedReduction { block: state.func.block(block).name }, block));
    }
    if !init_begins_reductions(&mut state.func, block, &below) {
        return Err(state.error(ErrorKind::LostPredicate { block: state.func.block(block).name }, block));
    }
    if let Some(buffer) = written_before_init(&state.func, block, at) {
        let (block_name, buffer) = (state.func.block(block).name, state.func.arena.buffer(buffer).name);
        return Err(state.error(ErrorKind::EarlyRead { block: block_name, buffer }, block));
    }
    Ok(InitPlan { block, scope, at, below })
}

/// Whether an update would run several times after one init: bindings may ignore a part of a loop, as `j // 8` does.
fn repeats_updates(func: &mut Func, block: BlockId, below: &[LoopId]) -> bool {
    let domains: Vec<VarRange> = below.iter().map(|&l| domain(func, l)).collect();
    let node = func.block(block);
    let values: Vec<ExprId> = node.iters.iter().map(|i| i.value).collect();
    let predicate = node.predicate;
    repeat(&mut func.arena, &values, &domains, predicate)
}

/// A buffer that the init reads and another block under the loop writes, too late for the moved init.
fn written_before_init(func: &Func, block: BlockId, at: LoopId) -> Option<BufferId> {
    let mut read: Vec<BufferId> = Vec::new();
    for s in func.block(block).init.iter().flatten().flat_map(|&s| func.subtree(s)) {
        if let Stmt::Store { value, .. } = func.get(s) {
            for_each_subexpr(&func.arena, *value, &mut |e| {
                if let Expr::Load(b, _) = func.arena.expr(e) {
                    read.push(b);
                }
            });
        }
    }
    let others = func.child_blocks(at.stmt()).into_iter().filter(|&b| b != block);
    let written: Vec<BufferId> = others.flat_map(|b| func.block(b).writes.iter().map(|w| w.buffer)).collect();
    read.into_iter().find(|b| written.contains(b))
}

/// Whether the init runs exactly where a reduction begins. The conditions of the predicate on loops that the init nest
/// lacks must then hold in their first iterations.
fn init_begins_reductions(func: &mut Func, block: BlockId, below: &[LoopId]) -> bool {
    let node = func.block(block).clone();
    let spatial = node.iters.iter().filter(|i| i.kind == IterKind::Spatial);
    let mut first = Substitution::default();
    let mut discarded: Vec<VarId> = Vec::new();
    for &l in below {
        let Loop { var, min, .. } = *func.loop_(l);
        if !spatial.clone().any(|i| uses_var(&func.arena, i.value, &mut |v| v == var)) {
            discarded.push(var);
            first.add_var(var, min);
        }
    }
    let mut given = without_loops(&mut func.arena, node.predicate, &discarded);
    if given == node.predicate {
        return true;
    }
    let mut analyzer = knowing_loops(func, block);
    let a = &mut func.arena;
    let inside = inside_domains(a, spatial);
    given = a.and(given, inside);
    let wanted = first.apply(a, node.predicate);
    if implies(a, &mut analyzer, given, wanted) {
        return true;
    }
    // Conditions that only keep the reduction variables in their domains do not exclude their first values.
    let inside = inside_domains(a, &node.iters);
    let given = a.and(given, inside);
    implies(a, &mut analyzer, given, node.predicate)
}

fn apply(state: &mut State, plan: InitPlan) -> BlockId {
    let InitPlan { block, scope, at, below } = plan;
    let func = &mut state.func;

    // The update keeps the block's identity; the init is moved unchanged.
    let init_body = func.block(block).init.clone().unwrap_or_default();
    func.set_init(block, None);
    let old = func.block(block).clone();
    let node = func.block_mut(block);
    node.name = old.name.with_suffix("_update");
    node.reads = old
        .writes
        .iter()
        .filter(|w| !old.reads.iter().any(|r| r.buffer == w.buffer))
        .chain(&old.reads)
        .copied()
        .collect();

    let mut renamed = Substitution::default();
    let mut iters: Vec<BlockIter> = Vec::with_capacity(old.iters.len());
    for iter in old.iters.iter().filter(|i| i.kind == IterKind::Spatial) {
        let (var, e) = func.arena.new_var_expr(func.arena.var(iter.var).name, func.arena.var(iter.var).dtype);
        renamed.add_var(iter.var, e);
        iters.push(BlockIter { var, ..*iter });
    }
    for &s in &init_body {
        func.rewrite_subtree(s, &mut renamed);
    }
    let writes: Vec<BufferRegion> = old.writes.iter().map(|w| renamed.apply_region(&mut func.arena, w)).collect();

    let (chosen, discarded): (Vec<LoopId>, Vec<LoopId>) = below.into_iter().partition(|&l| {
        let var = func.loop_(l).var;
        iters.iter().any(|i| uses_var(&func.arena, i.value, &mut |v| v == var))
    });
    let discarded: Vec<VarId> = discarded.into_iter().map(|l| func.loop_(l).var).collect();
    let mut to_init_loops = Substitution::default();
    let mut vars: Vec<VarId> = Vec::with_capacity(chosen.len());
    for &l in &chosen {
        let var = func.arena.var(func.loop_(l).var).clone();
        let (new, e) = func.arena.new_var_expr(var.name.with_suffix("_init"), var.dtype);
        to_init_loops.add_var(func.loop_(l).var, e);
        vars.push(new);
    }
    for iter in &mut iters {
        iter.value = to_init_loops.apply(&mut func.arena, iter.value);
    }
    let predicate = without_loops(&mut func.arena, old.predicate, &discarded);
    let predicate = to_init_loops.apply(&mut func.arena, predicate);

    let init = func.add_block(Block {
        iters,
        writes,
        annotations: old.annotations.clone(),
        body: init_body,
        ..Block::new(old.name.with_suffix("_init"), predicate)
    });
    let reads = accesses_of(func, init).reads;
    func.block_mut(init).reads = reads;
    let mut nest = init.stmt();
    for (&l, &var) in chosen.iter().zip(&vars).rev() {
        let node = func.loop_(l).clone();
        let min = to_init_loops.apply(&mut func.arena, node.min);
        let extent = to_init_loops.apply(&mut func.arena, node.extent);
        let step = node.step.map(|step| to_init_loops.apply(&mut func.arena, step));
        nest = func.add_loop(Loop { var, min, extent, step, body: Body::from_slice(&[nest]), ..node }).stmt();
    }
    let place = func.place(at.stmt()).expect("a loop around a block of the scope stands in it");
    func.insert_at(place, &[nest]);

    update_scope_info(state, scope);
    init
}

/// The conjunction without the parts that mention one of the variables.
pub(super) fn without_loops(arena: &mut Arena, predicate: ExprId, discarded: &[VarId]) -> ExprId {
    if let Expr::Binary(BinOp::And, a, b) = arena.expr(predicate) {
        let a = without_loops(arena, a, discarded);
        let b = without_loops(arena, b, discarded);
        return arena.and(a, b);
    }
    if uses_var(arena, predicate, &mut |v| discarded.contains(&v)) { arena.bool(true) } else { predicate }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const MATMUL: &str = r#"
def main(A: T.Buffer((8, 6)), B: T.Buffer((6, 4)), C: T.Buffer((8, 4))):
    for i, j, k in T.grid(8, 4, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.block_attr({"keep": 1})
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#;

    #[test]
    fn init_goes_before_the_loop() {
        check(
            MATMUL,
            |t| {
                let loops = t.loops("C");
                let block = t.block("C");
                t.sch.decompose_reduction(block, loops[1]).map(drop)
            },
            r#"
def main(A: T.Buffer((8, 6)), B: T.Buffer((6, 4)), C: T.Buffer((8, 4))):
    for i in range(8):
        for j_init in range(4):
            with T.block("C_init"):
                vi, vj = T.axis.remap("SS", [i, j_init])
                T.reads()
                T.writes(C[vi, vj])
                T.block_attr({"keep": 1})
                C[vi, vj] = T.float32(0)
        for j, k in T.grid(4, 6):
            with T.block("C_update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                T.block_attr({"keep": 1})
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"#,
        );
    }

    #[test]
    fn loops_inside_a_reduction_are_refused() {
        let program = MATMUL.replace("i, j, k in T.grid(8, 4, 6)", "k, i, j in T.grid(6, 8, 4)");
        refuse(
            &program,
            |t| {
                let loops = t.loops("C");
                let block = t.block("C");
                t.sch.decompose_reduction(block, loops[1]).map(drop)
            },
            "LoopHeightError",
        );
    }

    #[test]
    fn an_idle_loop_would_repeat_the_update() {
        let program = MATMUL.replace("i, j, k in T.grid(8, 4, 6)", "i, r, j, k in T.grid(8, 2, 4, 6)");
        refuse(
            &program,
            |t| {
                let (block, loops) = (t.block("C"), t.loops("C"));
                t.sch.decompose_reduction(block, loops[0]).map(drop)
            },
            "RepeatedReductionError",
        );
    }

    #[test]
    fn the_update_keeps_the_handle() {
        refuse(
            MATMUL,
            |t| {
                let (block, loops) = (t.block("C"), t.loops("C"));
                t.sch.decompose_reduction(block, loops[0])?;
                t.sch.decompose_reduction(block, loops[0]).map(drop)
            },
            "NotReductionBlockError",
        );
    }
}
