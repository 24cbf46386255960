//! # `reorder`
//!
//! Interchanges the loops of a nest.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * 2.0
//!
//! def steps(sch):
//!     i, j = sch.get_loops("B")
//!     sch.reorder(j, i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for j, i in T.grid(8, 4):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * T.float32(2.0)
//! ```
//!
//! * Requires: a chain of loops above one block; affine bindings; spatial and reduction variables only; no dependent
//!   bounds.
//! * Errors: `LoopMultiAppearanceError`, `LoopsNotAChainError`, `BlockPropertyError`, `NotAffineBindingError`,
//!   `DependentLoopError`, `ReductionOutOfOrderError`.
//! * Refused, though TVM accepts it: reordering loops that are each used by spatial and reduction bindings of a block
//!   with an init, which would then run after other steps.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! `reorder`: interchanges the loops of a nest.
//!
//! ```text
//! for i, j, k in T.grid(a, b, c): S(i, j, k)
//! // becomes, with sch.reorder(k, i)
//! for k, j, i in T.grid(c, b, a): S(i, j, k)
//! ```
//!
//! The given loops take, in the given order, the positions that these loops have now; loops in between stay.
//!
//! Requires: the loops are on one chain above one block, each of the chain the only statement inside the previous one;
//! blocks below have spatial and reduction variables only, with affine bindings; no loop's bounds depend on one that
//! moves inside it. Preserves: the set of block instances; kinds and annotations stay with their loops. Handles: all
//! persist.

use super::super::analysis::affine::require_partial_affine_binding;
use super::super::analysis::tree;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::ir::visit::uses_var;
use crate::ir::{Func, IterKind, LoopId, StmtId, VarId};
use smallvec::{SmallVec, smallvec};

/// `reorder(*ordered_loops)`.
pub(crate) static REORDER: Kind = Kind {
    name: "Reorder",
    method: "reorder",
    classic: None,
    positional: true,
    params: &[Param::input("ordered_loops", Ty::Loops)],
    outputs: Outputs::None,
    samples: false,
    run: reorder,
};

/// A chain of loops, outermost first.
type Chain = SmallVec<[LoopId; 12]>;

fn reorder(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, loops) = call.loops(0)?;
    if loops.len() > 1 {
        let state = call.state(func);
        let plan = check(state, &loops)?;
        apply(&mut state.func, &plan);
    }
    Ok(Outcome::none())
}

/// The old and the new chain.
struct ReorderPlan {
    old: Chain,
    new: Chain,
}

fn check(state: &mut State, loops: &[LoopId]) -> Result<ReorderPlan, ScheduleError> {
    for (n, l) in loops.iter().enumerate() {
        if loops[..n].contains(l) {
            return Err(state.error(ErrorKind::LoopMultiAppearance, *l));
        }
    }
    let old = chain(state, loops)?;
    let (top, bottom) = (old[0], old[old.len() - 1]);
    for b in state.func.child_blocks(bottom.stmt()) {
        let iters = &state.func.block(b).iters;
        if iters.iter().any(|i| !matches!(i.kind, IterKind::Spatial | IterKind::Reduce)) {
            return Err(state.error(ErrorKind::BlockIterType, b));
        }
        if !iters.is_empty() {
            let high = tree::parent(&state.func, top);
            require_partial_affine_binding(state, b, high)?;
        }
    }
    let mut named = loops.iter();
    let new: Chain =
        old.iter().map(|l| if loops.contains(l) { named.next().copied().unwrap_or(*l) } else { *l }).collect();
    // Bounds may use only outer loops.
    let mut inner: SmallVec<[VarId; 12]> = SmallVec::new();
    for &l in new.iter().rev() {
        let node = state.func.loop_(l);
        let mut is_inner = |v: VarId| inner.contains(&v);
        let arena = &state.func.arena;
        if uses_var(arena, node.min, &mut is_inner) || uses_var(arena, node.extent, &mut is_inner) {
            return Err(state.error(ErrorKind::DependentLoop, l));
        }
        inner.push(node.var);
    }
    require_first_steps(state, &old, &new)?;
    Ok(ReorderPlan { old, new })
}

/// A reduction starts where its variables have their first values. That instance stays the first for each element if
/// the loops that drive reduction variables drive nothing else, or keep their order.
fn require_first_steps(state: &State, old: &[LoopId], new: &[LoopId]) -> Result<(), ScheduleError> {
    let func = &state.func;
    for b in func.child_blocks(old[old.len() - 1].stmt()) {
        let node = func.block(b);
        if node.init.is_none() {
            continue;
        }
        let repeats = |l: LoopId| !func.arena.is_int(func.loop_(l).extent, 1);
        let driven = |l: LoopId| {
            let var = func.loop_(l).var;
            node.iters.iter().filter(move |i| uses_var(&func.arena, i.value, &mut |v| v == var))
        };
        let drives = |l: LoopId, kind: IterKind| repeats(l) && driven(l).any(|i| i.kind == kind);
        let idle = |l: LoopId| repeats(l) && driven(l).next().is_none();
        let order = |loops: &[LoopId]| -> Chain {
            loops.iter().copied().filter(|&l| drives(l, IterKind::Reduce) || idle(l)).collect()
        };
        let (before, after) = (order(old), order(new));
        let refused = |l: LoopId| {
            let loop_name = func.arena.var(func.loop_(l).var).name;
            Err(state.error(ErrorKind::ReductionOutOfOrder { block: node.name, loop_name }, l))
        };
        // A loop that drives nothing repeats the reduction, each time from its start, or repeats each of its steps.
        let kinds = |loops: &Chain| loops.iter().map(|&l| idle(l)).collect::<SmallVec<[bool; 12]>>();
        if kinds(&before) != kinds(&after)
            && let Some(&l) = before.iter().find(|&&l| idle(l))
        {
            return refused(l);
        }
        // One such loop is harmless: for each element, it has its own first iteration.
        let mixed: Chain = before.iter().copied().filter(|&l| drives(l, IterKind::Spatial)).collect();
        if before != after
            && let [l, _, ..] = mixed[..]
        {
            return refused(l);
        }
    }
    Ok(())
}

/// The loops from the outermost to the innermost given one, which must be one chain.
fn chain(state: &State, loops: &[LoopId]) -> Result<Chain, ScheduleError> {
    let func = &state.func;
    let not_a_chain = |problem, at: StmtId| Err(state.error(ErrorKind::LoopsNotAChain { problem }, at));
    // The innermost loop is the one inside all others.
    let path = |l: LoopId| tree::loop_path(func, l.stmt(), None, None);
    let mut longest = path(loops[0]);
    for &l in &loops[1..] {
        if !longest.contains(&l) {
            let other = path(l);
            if !other.contains(&longest[0]) {
                let problem = match func.block_above(l.stmt()) == func.block_above(longest[0].stmt()) {
                    true => "they are in different branches",
                    false => "they are in different scopes",
                };
                return not_a_chain(problem, l.stmt());
            }
            longest = other;
        }
    }
    let top = longest.iter().rposition(|l| loops.contains(l)).unwrap_or(0);
    longest.truncate(top + 1);
    for pair in longest.windows(2) {
        if !tree::is_only_child(func, pair[1], pair[0].stmt()) {
            return not_a_chain("another statement stands in between", pair[1].stmt());
        }
    }
    Ok(longest.into_iter().rev().collect())
}

fn apply(func: &mut Func, plan: &ReorderPlan) {
    let n = plan.old.len();
    let place = func.cut(plan.old[0].stmt());
    let body = func.loop_(plan.old[n - 1]).body.clone();
    for pair in plan.new.windows(2) {
        func.set_body(pair[0].stmt(), smallvec![pair[1].stmt()]);
    }
    func.set_body(plan.new[n - 1].stmt(), body);
    func.insert_at(place, &[plan.new[0].stmt()]);
}

#[cfg(test)]
mod tests {
    use super::super::super::arg::RvValue;
    use super::super::testing::{Test, check, refuse};
    use crate::ir::LoopKind;

    #[test]
    fn the_first_step_of_a_reduction_stays_the_first() {
        refuse(
            r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,))):
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"#,
            |t| {
                t.python(
                    "f = sch.fuse(*sch.get_loops(sch.get_block('C', 'main')))
                     a, b, c = sch.split(f, [2, 4, 4])
                     sch.reorder(c, b, a)",
                )
            },
            "ReductionOutOfOrderError",
        );
    }

    /// A block under three loops.
    fn nest(loops: &str) -> String {
        format!(
            r#"
def main(A: T.Buffer((4, 8, 5)), B: T.Buffer((4, 8))):
    for {loops}:
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
"#
        )
    }

    fn steps(calls: &str) -> String {
        format!("i, j, k = sch.get_loops('B')\n{calls}")
    }

    #[test]
    fn the_loops_named_take_each_others_places() {
        for (named, loops) in [
            ("j, i", "j, i, k in T.grid(8, 4, 5)"),
            ("k, i", "k, j, i in T.grid(5, 8, 4)"),
            ("k, i, j", "k, i, j in T.grid(5, 4, 8)"),
            ("i, j, k", "i, j, k in T.grid(4, 8, 5)"),
            ("j", "i, j, k in T.grid(4, 8, 5)"),
        ] {
            check(
                &nest("i, j, k in T.grid(4, 8, 5)"),
                |t| {
                    let loops = t.loops("B");
                    t.python(&steps(&format!("sch.reorder({named})")))?;
                    assert!(loops.iter().all(|&l| t.is_alive(l)));
                    Ok(())
                },
                &nest(loops),
            );
        }
    }

    #[test]
    fn kinds_and_annotations_go_with_their_loops() {
        let mut t = Test::new(&nest("i, j, k in T.grid(4, 8, 5)"));
        t.python(&steps("sch.parallel(j)\nsch.annotate(j, 'key', 1)\nsch.reorder(j, i)"))
            .expect("the loops are a chain");
        let loops = t.loops("B");
        assert_eq!(t.names(&loops), ["j", "i", "k"]);
        let func = t.sch.func(0);
        let RvValue::Loop(_, j) = t.values(&loops)[0] else { panic!("`get_loops` gives loops") };
        assert_eq!(func.loop_(j).kind, LoopKind::Parallel);
        assert!(func.loop_(j).annotations.get("key").is_some());
    }

    #[test]
    fn below_the_innermost_loop_may_be_several_blocks() {
        let two = |loops: &str| {
            format!(
                r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
    for {loops}:
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(1)
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(2)
"#
            )
        };
        check(
            &two("i, j in T.grid(4, 8)"),
            |t| t.python("i, j = sch.get_loops('A')\nsch.reorder(j, i)"),
            &two("j, i in T.grid(8, 4)"),
        );
    }

    #[test]
    fn loops_must_be_a_chain() {
        let program = nest("i, j, k in T.grid(4, 8, 5)");
        refuse(&program, |t| t.python(&steps("sch.reorder(j, i, j)")), "LoopMultiAppearanceError");
        refuse(&program, |t| t.python(&steps("sch.blockize(k)\nsch.reorder(k, j)")), "LoopsNotAChainError");
        let other = "    for p in range(4):\n        with T.block(\"C\"):\n            vp = T.axis.spatial(4, p)\n            \
                     A[vp, 0, 0] = T.float32(1)\n";
        let beside = format!("{program}{other}");
        let across = steps("p, = sch.get_loops('C')\nsch.reorder(p, i)");
        refuse(&beside, |t| t.python(&across), "LoopsNotAChainError");
        let between = "i, j = sch.get_loops('A')\nsch.reorder(j, i)";
        refuse(
            r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4,))):
    for i in range(4):
        for j in range(8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.float32(2)
"#,
            |t| t.python(between),
            "LoopsNotAChainError",
        );
    }

    #[test]
    fn refused_bounds_and_bindings() {
        let program = |inner: &str, body: &str| {
            format!(
                r#"
def main(A: T.Buffer((4, 8))):
    for i in range(4):
        for j in {inner}:
            with T.block("A"):
                {body}
"#
            )
        };
        let swap = "i, j = sch.get_loops('A')\nsch.reorder(j, i)";
        refuse(&program("range(i + 1)", "A[0, 0] = T.float32(1)"), |t| t.python(swap), "DependentLoopError");
        let store = "A[vi, vj] = T.float32(1)";
        let opaque =
            format!("vi = T.axis.opaque(4, i)\n                vj = T.axis.spatial(8, j)\n                {store}");
        refuse(&program("range(8)", &opaque), |t| t.python(swap), "BlockPropertyError");
        let product = format!(
            "vi = T.axis.spatial(4, i)\n                vj = T.axis.spatial(8, i * j // 4)\n                {store}"
        );
        refuse(&program("range(8)", &product), |t| t.python(swap), "NotAffineBindingError");
    }
}
