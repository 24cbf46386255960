//! # `transform_block_layout`
//!
//! Changes the iteration space of a block by an index map.
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
//!     sch.transform_block_layout("B", lambda i, j: (j // 4, i, j % 4))
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for ax0, ax1, ax2 in T.grid(2, 4, 4):
//!         with T.sblock("B"):
//!             v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
//!             B[v1, v0 * 4 + v2] = A[v1, v0 * 4 + v2] * T.float32(2.0)
//! ```
//!
//! * Requires: each variable bound to a loop of its own, nothing else in the loops, no predicate on them; a bijective
//!   map without padding; results of one kind.
//! * Errors: `NonSingleChildBlockError`, `NotTrivialBindingError`, `IndexMapNotApplicableToBlockIterError`,
//!   `OpaqueNewIterTypeError`, `NotBijectiveAffineIndexMapError`, `ExtentOverflowError`.
//! * Handles: dies: the block's loops; persists: the block; created: the new loops.
//! * Refused, though TVM accepts it: blocks with a predicate over the loops, which would no longer exist.
//!
//! # Implementation
//!
//! Changes the axes along which a block iterates.
//!
//! ```text
//! for i, j in T.grid(32, 16):
//!     with T.block("B"): B[vi, vj] = A[vi, vj]
//! # becomes, with index_map=lambda i, j: (j // 4, i, j % 4)
//! for ax0, ax1, ax2 in T.grid(4, 32, 4):
//!     with T.block("B"): B[v1, v0 * 4 + v2] = A[v1, v0 * 4 + v2]
//! ```
//!
//! Requires: the iteration variables are bound to the enclosing loops, in order; no predicate; the loops contain
//! nothing else; a map made of splits and fusions that is one to one on the block's domain, without padding; each
//! result uses variables of one kind, or is constant. Preserves: what instances compute; reductions may run in another
//! order. Returns: nothing.
//!
//! Handles: dies, the loops; the block persists.

use super::super::analysis::index_map::{self, IndexMap, Indices};
use super::super::analysis::relayout::{Change, rewrite_accesses};
use super::super::analysis::tree;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::arith::{Analyzer, IterMapLevel};
use crate::ir::visit::{uses_var, vars_of};
use crate::ir::{BlockId, BlockIter, Body, ExprId, Func, IterKind, StmtId, Substitution, VarId};
use smallvec::SmallVec;

/// `transform_block_layout(block, index_map)`.
pub(crate) static TRANSFORM_BLOCK_LAYOUT: Kind = Kind {
    name: "TransformBlockLayout",
    method: "transform_block_layout",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::attr("index_map", Ty::IndexMap)],
    outputs: Outputs::None,
    samples: false,
    run,
};

/// The result of the checks.
struct LayoutPlan {
    block: BlockId,
    /// The outermost loop, or the block.
    nest: StmtId,
    /// The new iteration variables; their values are the new loop variables.
    iters: Vec<BlockIter>,
    loops: SmallVec<[VarId; 4]>,
    /// The old variables as expressions of the new ones.
    old: Substitution,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let lambda = call.lambda(1)?;
    let state = call.state(func);
    let n = state.func.block(block).iters.len();
    let nest = nest_of(state, block)?;
    require_trivial_binding(state, block)?;
    if lambda.params.len() != n {
        return Err(state.error(ErrorKind::IndexMapNotApplicable { found: lambda.params.len(), expected: n }, block));
    }
    let types: Vec<_> = state.func.block(block).iters.iter().map(|i| state.func.arena.dtype(i.extent)).collect();
    let map = index_map::of_lambda(&mut state.func.arena, &lambda, &types).map_err(|kind| state.error(kind, block))?;
    let plan = check(state, block, nest, &map)?;
    apply(&mut state.func, plan);
    Ok(Outcome::none())
}

/// # Errors
///
/// If the iteration variables are not bound to the enclosing loops, one to each in their order.
fn require_trivial_binding(state: &State, block: BlockId) -> Result<(), ScheduleError> {
    let func = &state.func;
    let loops = func.loops_above(block.stmt());
    let iters = &func.block(block).iters;
    let trivial = iters.len() == loops.len()
        && iters.iter().zip(&loops).all(|(i, &l)| func.arena.as_var(i.value) == Some(func.loop_(l).var));
    match trivial {
        true => Ok(()),
        false => Err(state.error(ErrorKind::NotTrivialBinding { block: func.block(block).name }, block)),
    }
}

/// The outermost loop around the block, or the block itself.
///
/// # Errors
///
/// If the loops contain other statements.
fn nest_of(state: &State, block: BlockId) -> Result<StmtId, ScheduleError> {
    let mut nest = block.stmt();
    for l in state.func.loops_above(block.stmt()).into_iter().rev() {
        if !tree::is_only_child(&state.func, l, nest) {
            let count = state.func.child_blocks(l.stmt()).len();
            return Err(state.error(ErrorKind::NonSingleChildBlock { what: "loop", count }, l));
        }
        nest = l.stmt();
    }
    Ok(nest)
}

fn check(state: &mut State, block: BlockId, nest: StmtId, map: &IndexMap) -> Result<LayoutPlan, ScheduleError> {
    let loops = state.func.loops_above(block.stmt());
    let node = state.func.block(block).clone();
    let loop_vars: SmallVec<[VarId; 8]> = loops.iter().map(|&l| state.func.loop_(l).var).collect();
    if uses_var(&state.func.arena, node.predicate, &mut |v| loop_vars.contains(&v)) {
        return Err(state.error(ErrorKind::GuardedBlock { block: node.name }, block));
    }
    let a = &mut state.func.arena;
    let vars: Indices = node.iters.iter().map(|i| a.var_expr(i.var)).collect();
    let extents: Indices = node.iters.iter().map(|i| i.extent).collect();
    let not_bijective = ErrorKind::NotBijectiveIndexMap { block: node.name };
    if node.iters.iter().any(|i| !a.is_int(i.min, 0)) {
        return Err(state.error(not_bijective, block));
    }
    let mut analyzer = Analyzer::new();
    for i in &node.iters {
        analyzer.bind(a, i.var, i.min, i.extent);
    }
    let transformed = map.apply(a, &mut analyzer, &vars);
    let Some(shape) = map.map_shape(a, &extents) else { return Err(state.error(not_bijective, block)) };
    let mut kinds: SmallVec<[IterKind; 4]> = SmallVec::new();
    for (result, &e) in transformed.iter().enumerate() {
        let mut found = vars_of(&state.func.arena, e)
            .into_iter()
            .filter_map(|v| node.iters.iter().find(|i| i.var == v).map(|i| i.kind));
        match found.next() {
            None => kinds.push(IterKind::Spatial),
            Some(kind) if kind != IterKind::Opaque && found.all(|k| k == kind) => kinds.push(kind),
            _ => return Err(state.error(ErrorKind::OpaqueNewIter { result }, block)),
        }
    }
    let a = &mut state.func.arena;
    let Some(inverse) = map.inverse(a, &extents, IterMapLevel::Bijective) else {
        return Err(state.error(not_bijective, block));
    };
    // If several reasons apply, this one is reported first, as in TVM.
    index_map::check_fits(map, a, &extents).map_err(|kind| state.error(kind, block))?;
    let a = &mut state.func.arena;
    let mut iters = Vec::with_capacity(shape.len());
    let mut new_loops: SmallVec<[VarId; 4]> = SmallVec::new();
    let mut values = Indices::new();
    for (n, ((&e, &extent), &kind)) in transformed.iter().zip(&shape).zip(&kinds).enumerate() {
        let dtype = a.dtype(e);
        let (var, v) = a.new_var_expr(format!("v{n}").as_str(), dtype);
        let (loop_var, value) = a.new_var_expr(format!("ax{n}").as_str(), dtype);
        let (min, extent) = (a.int(0, dtype), a.cast(dtype, extent));
        iters.push(BlockIter { var, min, extent, kind, value });
        new_loops.push(loop_var);
        values.push(v);
    }
    // No ranges are known for the new variables, so that those with one value stay, as in TVM.
    let old_values = inverse.map.apply(a, &mut Analyzer::new(), &values);
    let old_values: Indices = node.iters.iter().zip(old_values).map(|(i, e)| a.cast(a.var(i.var).dtype, e)).collect();
    let old = Substitution::of_vars(node.iters.iter().map(|i| i.var).zip(old_values));
    Ok(LayoutPlan { block, nest, iters, loops: new_loops, old })
}

fn apply(func: &mut Func, plan: LayoutPlan) {
    let LayoutPlan { block, nest, iters, loops, mut old } = plan;
    let extents: SmallVec<[ExprId; 4]> = iters.iter().map(|i| i.extent).collect();
    let place = func.cut(nest);
    if nest != block.stmt() {
        func.cut(block.stmt());
    }
    func.rewrite_subtree(block.stmt(), &mut old);
    func.block_mut(block).iters = iters;
    rewrite_accesses(func, block.stmt(), Change::Simplify);
    let mut inside = block.stmt();
    for (&var, &extent) in loops.iter().zip(&extents).rev() {
        inside = func.make_loop(var, extent, Body::from_slice(&[inside])).stmt();
    }
    func.insert_at(place, &[inside]);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::error::ScheduleError;

    const COPY: &str = r#"
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"#;

    fn by(map: &'static str) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| t.python(&format!("sch.transform_block_layout(block=sch.get_block('B', 'main'), index_map={map})"))
    }

    #[test]
    fn splits_and_exchanges() {
        check(
            COPY,
            by("lambda i, j: (j // 4, i, j % 4)"),
            r#"
def main(A: T.Buffer((8, 12)), B: T.Buffer((8, 12))):
    for ax0, ax1, ax2 in T.grid(3, 8, 4):
        with T.block("B"):
            v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
            T.reads(A[v1, v0 * 4 + v2])
            T.writes(B[v1, v0 * 4 + v2])
            B[v1, v0 * 4 + v2] = A[v1, v0 * 4 + v2]
"#,
        );
    }

    #[test]
    fn refusals() {
        refuse(COPY, by("lambda i, j: (i, j // 5, j % 5)"), "NotBijectiveAffineIndexMapError");
        refuse(COPY, by("lambda i, j: (i, j // 4)"), "NotBijectiveAffineIndexMapError");
        refuse(COPY, by("lambda i: (i,)"), "IndexMapNotApplicableToBlockIterError");
        let split = |t: &mut Test| t.python("sch.split(sch.get_loops(sch.get_block('B', 'main'))[0], [2, 4])");
        refuse(COPY, |t| split(t).and_then(|()| by("lambda i, j: (j, i)")(t)), "NotTrivialBindingError");
        let sum = r#"
def main(A: T.Buffer((8, 12)), B: T.Buffer((8,))):
    for i, k in T.grid(8, 12):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"#;
        refuse(sum, by("lambda i, k: (i * 12 + k,)"), "OpaqueNewIterTypeError");
    }
}
