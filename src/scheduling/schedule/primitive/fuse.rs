//! # `fuse`
//!
//! Fuses a loop nest into one loop.
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
//!     sch.fuse(i, j)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for i_j_fused in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(4, i_j_fused // 8)
//!             vj = T.axis.spatial(8, i_j_fused % 8)
//!             B[vi, vj] = A[vi, vj] * T.float32(2.0)
//! ```
//!
//! * Requires: a chain of loops without branches, from 0, without annotations and thread bindings, no dependent
//!   extents.
//! * Errors: `OuterNotInnerParent`, `NotOnlyChildError`, `HasAnnotationOrThreadBindingError`,
//!   `LoopNotStartWithZeroError`, `DependentLoopError`, `ExtentOverflowError`.
//! * Handles: dies: the fused loops; persists: blocks, other loops; created: the fused loop.
//!
//! # Implementation
//!
//! `fuse`: fuses a nest into one loop.
//!
//! ```text
//! for i, j in T.grid(n, m): S(i, j)
//! // becomes
//! for i_j_fused in range(n * m): S(i_j_fused // m, i_j_fused % m)
//! ```
//!
//! The bindings of the blocks below are brought into the canonical form of iterator maps; without
//! `preserve_unit_iters`, loops of one iteration are removed from them.
//!
//! Requires: each loop is directly inside the previous one and the only statement there; no annotations, no thread
//! bindings, first values 0, no extent that depends on another of the loops; the widest of the loops' types can
//! represent the product of the extents. Preserves: instances and their order. Returns: the new loop, serial. Handles:
//! the loops die, loops and blocks inside persist.

use super::super::analysis::affine::simplify_bindings;
use super::super::analysis::{extent, tree};
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::split::check_starts_with_zero;
use crate::arith::Analyzer;
use crate::ir::visit::uses_var;
use crate::ir::{Body, DType, Func, LoopId, LoopKind, Substitution};

/// `fuse(*loops, preserve_unit_iters=True)`.
pub(crate) static FUSE: Kind = Kind {
    name: "Fuse",
    method: "fuse",
    classic: None,
    positional: true,
    params: &[
        Param::input("loops", Ty::Loops),
        Param::attr("preserve_unit_iters", Ty::Bool).or(Default::Bool(true)).as_int(),
    ],
    outputs: Outputs::Loop,
    samples: false,
    run: fuse,
};

fn fuse(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, loops) = call.loops(0)?;
    let preserve_unit_iters = call.bool(1)?;
    let state = call.state(func);
    check(state, &loops)?;
    let new = apply(&mut state.func, &loops, preserve_unit_iters);
    Ok(Outcome { outputs: vec![RvValue::Loop(func, new)], decision: None })
}

fn check(state: &mut State, loops: &[LoopId]) -> Result<(), ScheduleError> {
    for (n, &l) in loops.iter().enumerate() {
        let func = &state.func;
        let node = func.loop_(l);
        if !node.annotations.is_empty() || matches!(node.kind, LoopKind::ThreadBinding(_)) {
            return Err(state.error(ErrorKind::HasAnnotationOrThreadBinding, l));
        }
        if let Some(&outer) = n.checked_sub(1).and_then(|o| loops.get(o)) {
            if tree::loop_above(func, l) != Some(outer) {
                return Err(state.error(ErrorKind::OuterNotInnerParent, l));
            }
            if !tree::is_only_child(func, outer, l.stmt()) {
                return Err(state.error(ErrorKind::NotOnlyChild, l));
            }
        }
        check_starts_with_zero(state, l)?;
        let func = &state.func;
        let extent = func.loop_(l).extent;
        if uses_var(&func.arena, extent, &mut |v| loops[..n].iter().any(|&o| func.loop_(o).var == v)) {
            return Err(state.error(ErrorKind::DependentLoop, l));
        }
    }
    let func = &state.func;
    // Only the constant part of symbolic extents is known.
    let known = loops.iter().filter_map(|&l| func.arena.as_int(func.loop_(l).extent));
    extent::product(widest(func, loops), known).map_err(|kind| state.error(kind, loops[0]))?;
    Ok(())
}

/// The widest of the loops' types.
fn widest(func: &Func, loops: &[LoopId]) -> DType {
    let types = loops.iter().map(|&l| func.arena.var(func.loop_(l).var).dtype);
    types.max_by_key(|t| t.bits()).expect("at least one loop")
}

fn apply(func: &mut Func, loops: &[LoopId], preserve_unit_iters: bool) -> LoopId {
    let dtype = widest(func, loops);
    let Func { arena, stmts, .. } = func;
    let nodes = || loops.iter().map(|&l| stmts.loop_(l));
    let names: Vec<&str> = nodes().map(|n| arena.var(n.var).name.as_str()).collect();
    let (fused, value) = arena.new_var_expr(format!("{}_fused", names.join("_")).as_str(), dtype);
    let mut analyzer = Analyzer::new();
    let mut substitution = Substitution::default().unfolded();
    // The number of iterations of the inner loops.
    let mut lower = arena.int(1, dtype);
    for (n, node) in nodes().enumerate().rev() {
        let extent = arena.cast(dtype, node.extent);
        let product = arena.mul(extent, lower);
        let next = analyzer.canonical_simplify(arena, product);
        let part = match (arena.is_int(extent, 1), n) {
            (true, _) => arena.int(0, dtype),
            (false, 0) => arena.floor_div(value, lower),
            (false, _) => {
                let rest = arena.floor_mod(value, next);
                arena.floor_div(rest, lower)
            }
        };
        let part = arena.cast(arena.var(node.var).dtype, part);
        substitution.add_var(node.var, part);
        lower = next;
    }
    let mut extent = arena.int(1, dtype);
    for node in nodes() {
        let factor = arena.cast(dtype, node.extent);
        extent = arena.mul(extent, factor);
    }
    let extent = analyzer.simplify(arena, extent);
    let (outer, inner) = (loops[0], loops[loops.len() - 1]);
    let body = func.loop_(inner).body.clone();
    for &s in &body {
        func.rewrite_subtree(s, &mut substitution);
    }
    let place = func.cut(outer.stmt());
    func.set_body(inner.stmt(), Body::new());
    let new = func.make_loop(fused, extent, body);
    func.insert_at(place, &[new.stmt()]);
    simplify_bindings(func, new.stmt(), preserve_unit_iters);
    new
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::ir::DType;
    use crate::schedule::arg::RvValue;

    /// Three loops over a block with these bindings.
    fn program(loops: &str, values: [&str; 3]) -> String {
        let [i, j, k] = values;
        format!(
            r#"
def main(A: T.Buffer((4, 8, 5)), B: T.Buffer((4, 8, 5))):
    for {loops}:
        with T.block("B"):
            vi = T.axis.spatial(4, {i})
            vj = T.axis.spatial(8, {j})
            vk = T.axis.spatial(5, {k})
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)
"#
        )
    }

    fn three() -> String {
        program("i, j, k in T.grid(4, 8, 5)", ["i", "j", "k"])
    }

    #[test]
    fn values_are_digits_of_the_fused_one() {
        check(
            &three(),
            |t| t.python("sch.fuse(*sch.get_loops('B'))"),
            &program("f in range(160)", ["f // 40", "f % 40 // 5", "f % 5"]),
        );
        check(
            &three(),
            |t| t.python("i, j, k = sch.get_loops('B')\nsch.fuse(j, k)"),
            &program("i, f in T.grid(4, 40)", ["i", "f // 5", "f % 5"]),
        );
    }

    #[test]
    fn the_loops_die_and_the_new_one_is_serial() {
        check(
            &three(),
            |t| {
                let (block, loops) = (t.block("B"), t.loops("B"));
                t.sch.parallel(loops[0])?;
                let fused = t.sch.fuse(&loops[..2])?;
                assert!(t.is_alive(block) && t.is_alive(loops[2]));
                assert!(!t.is_alive(loops[0]) && !t.is_alive(loops[1]));
                let now = t.loops("B");
                assert_eq!(t.values(&now), t.values(&[fused, loops[2]]));
                assert_eq!(t.names(&[fused]), ["i_j_fused"]);
                Ok(())
            },
            &program("f, k in T.grid(32, 5)", ["f // 8", "f % 8", "k"]),
        );
    }

    #[test]
    fn one_loop_becomes_another() {
        check(
            &three(),
            |t| {
                let old = t.loops("B")[0];
                let new = t.sch.fuse(&[old])?;
                assert!(!t.is_alive(old) && t.is_alive(new));
                Ok(())
            },
            &three(),
        );
    }

    #[test]
    fn a_loop_of_one_iteration_adds_nothing() {
        let unit = |loops: &str, values| {
            program(loops, values).replace("(4, 8, 5)", "(1, 8, 5)").replace("spatial(4", "spatial(1")
        };
        check(
            &unit("i, j, k in T.grid(1, 8, 5)", ["i", "j", "k"]),
            |t| t.python("i, j, k = sch.get_loops('B')\nsch.fuse(i, j)"),
            &unit("f, k in T.grid(8, 5)", ["0", "f", "k"]),
        );
    }

    #[test]
    fn extents_may_be_symbolic() {
        let symbolic = |loops: &str, values| {
            program(loops, values)
                .replace("(4, 8, 5)", "(4, n, 5)")
                .replace("spatial(8", "spatial(n")
                .replace("main(", "main(n: T.int32, ")
        };
        check(
            &symbolic("i, j, k in T.grid(4, n, 5)", ["i", "j", "k"]),
            |t| t.python("i, j, k = sch.get_loops('B')\nsch.fuse(i, j)"),
            &symbolic("f, k in T.grid(n * 4, 5)", ["f // n", "f % n", "k"]),
        );
    }

    #[test]
    fn the_fused_loop_has_the_widest_type() {
        let mixed = three().replace("i, j, k in T.grid(4, 8, 5)", "i, j, k in T.grid(4, T.int64(8), 5)");
        let mut t = Test::new(&mixed.replace("spatial(8", "spatial(T.int64(8)"));
        let loops = t.loops("B");
        let fused = t.sch.fuse(&loops[..2]).expect("the loops are a chain");
        let RvValue::Loop(f, l) = t.values(&[fused])[0] else { panic!("`fuse` gives a loop") };
        let func = t.sch.func(f);
        assert_eq!(func.arena.var(func.loop_(l).var).dtype, DType::Int64);
        assert_eq!(func.arena.as_int(func.loop_(l).extent), Some(32));
    }

    #[test]
    fn loops_must_be_a_chain() {
        let named = |loops: &str| format!("i, j, k = sch.get_loops('B')\nsch.fuse({loops})");
        for loops in ["j, i", "i, k", "i, i"] {
            refuse(&three(), |t| t.python(&named(loops)), "OuterNotInnerParent");
        }
        refuse(&three(), |t| t.sch.fuse(&[]).map(drop), "ValueError");
        let branch = r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4,))):
    for i in range(4):
        for j in range(8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.float32(2)
"#;
        refuse(branch, |t| t.python("sch.fuse(*sch.get_loops('A'))"), "NotOnlyChildError");
    }

    #[test]
    fn refused_loops() {
        let inner = |inner: &str, steps: &str, class: &str| {
            let program = format!(
                r#"
def main(A: T.Buffer((4, 8))):
    for i in range(4):
        for j in {inner}:
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)
"#
            );
            refuse(&program, |t| t.python(steps), class);
        };
        let fuse = "i, j = sch.get_loops('A')\nsch.fuse(i, j)";
        inner("T.serial(8, annotations={\"key\": 1})", fuse, "HasAnnotationOrThreadBindingError");
        inner("T.thread_binding(8, thread=\"threadIdx.x\")", fuse, "HasAnnotationOrThreadBindingError");
        inner("range(2, 8)", fuse, "LoopNotStartWithZeroError");
        inner("range(i + 1)", fuse, "DependentLoopError");
        inner("range(2147483647)", fuse, "ExtentOverflowError");
        inner("range(8)", &format!("{fuse}\nsch.fuse(i)"), "ValueError");
    }
}
