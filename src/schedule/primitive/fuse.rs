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
