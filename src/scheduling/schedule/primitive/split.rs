//! # `split`
//!
//! Splits a loop into a nest.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.split(i, [None, 8])
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i_0, i_1 in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i_0 * 8 + i_1)
//!             T.where(i_0 * 8 + i_1 < 30)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: a loop from 0 without annotations and thread bindings; positive factors that reach the extent, at most
//!   one of them `None`.
//! * Errors: `HasAnnotationOrThreadBindingError`, `LoopNotStartWithZeroError`, `NotSingleInferFactorError`,
//!   `NonPositiveFactorError`, `WrongFactorError`, `ExtentOverflowError`, `NestTooDeepError`.
//! * Handles: dies: the loop; persists: blocks, other loops; created: the new loops. With `disable_predication`, the
//!   caller promises that exceeding the extent is harmless; blocks that bind the loop do not exceed their domains
//!   anyway.
//!
//! # Implementation
//!
//! `split`: splits a loop into a nest.
//!
//! ```text
//! for i in range(n): S(i)
//! // becomes, with factors=[None, 8]
//! for i_0, i_1 in T.grid((n + 7) // 8, 8):
//!     with T.where(i_0 * 8 + i_1 < n): S(i_0 * 8 + i_1)
//! ```
//!
//! At most one factor may be `None`: it is inferred from the others. The predicate is added to the blocks directly
//! below, after existing ones. It is omitted if the product of the factors is the extent, or with
//! `disable_predication`, by which the caller takes responsibility (blocks that bind the loop still stop at the ends of
//! their domains). The bindings of the blocks below are brought into the canonical form of iterator maps; without
//! `preserve_unit_iters`, loops of one iteration are removed from them.
//!
//! Requires: no annotations, no thread binding, first value 0; positive factors whose product is at least the extent
//! and fits the type of the loop variable. Preserves: instances and their order. Returns: the new loops, outermost
//! first, all serial. Handles: the loop dies, loops and blocks inside persist.

use super::super::analysis::affine::simplify_bindings;
use super::super::analysis::extent;
use super::super::analysis::tree::MAX_DEPTH;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::arith::{Analyzer, Strength};
use crate::ir::{Body, CmpOp, ExprId, Func, LoopId, Substitution, VarId};
use smallvec::SmallVec;

/// `split(loop, factors, preserve_unit_iters=True, disable_predication=False)`.
pub(crate) static SPLIT: Kind = Kind {
    name: "Split",
    method: "split",
    classic: None,
    positional: false,
    params: &[
        Param::input("loop", Ty::Loop),
        Param::input("factors", Ty::Factors),
        Param::attr("preserve_unit_iters", Ty::Bool).or(Default::Bool(true)),
        Param::attr("disable_predication", Ty::Bool).or(Default::Bool(false)),
    ],
    outputs: Outputs::Loops,
    samples: false,
    run: split,
};

fn split(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.loop_(0)?;
    let factors = call.factors(1)?;
    let preserve_unit_iters = call.bool(2)?;
    let disable_predication = call.bool(3)?;
    let state = call.state(func);
    let factors = infer_factors(state, target, &factors)?;
    check_loop(state, target)?;
    let loops = apply(&mut state.func, target, &factors, preserve_unit_iters, disable_predication);
    Ok(Outcome { outputs: loops.into_iter().map(|l| RvValue::Loop(func, l)).collect(), decision: None })
}

/// The factors in the type of the loop variable, with the missing one inferred.
fn infer_factors(
    state: &mut State,
    target: LoopId,
    factors: &[Option<i64>],
) -> Result<SmallVec<[ExprId; 8]>, ScheduleError> {
    if factors.len() > MAX_DEPTH {
        return Err(state.error(ErrorKind::NestTooDeep { depth: factors.len() }, target));
    }
    let mut missing = None;
    for (position, factor) in factors.iter().enumerate() {
        match *factor {
            None if missing.is_some() => return Err(state.error(ErrorKind::NotSingleInferFactor, target)),
            None => missing = Some(position),
            Some(factor) if factor <= 0 => {
                return Err(state.error(ErrorKind::NonPositiveFactor { factor, position }, target));
            }
            Some(_) => {}
        }
    }
    let index = state.index();
    let Func { arena, stmts, .. } = &mut state.func;
    let node = stmts.loop_(target);
    let (dtype, whole) = (arena.var(node.var).dtype, node.extent);
    let known = arena.as_int(whole);
    let at = |kind| ScheduleError::new(kind).at(index, target);
    let product = extent::product(dtype, factors.iter().filter_map(|&f| f)).map_err(at)?;
    let inferred = match (missing, known) {
        (None, Some(extent)) if product >= extent => None,
        (None, _) => {
            let product_expr = arena.int(product, dtype);
            let covers = arena.compare(CmpOp::Ge, product_expr, whole);
            if !Analyzer::new().can_prove(arena, covers) {
                let extent = known.map_or("unknown number of".to_string(), |n| n.to_string());
                return Err(state.error(ErrorKind::WrongFactor { product, extent }, target));
            }
            None
        }
        (Some(_), Some(extent)) => {
            let inferred = extent.div_euclid(product) + i64::from(extent.rem_euclid(product) != 0);
            extent::product(dtype, [product, inferred]).map_err(at)?;
            Some(arena.int(inferred, dtype))
        }
        (Some(_), None) => {
            let rounded = arena.add_const(whole, product);
            let rounded = arena.add_const(rounded, -1);
            let by = arena.int(product, dtype);
            let quotient = arena.floor_div(rounded, by);
            Some(Analyzer::new().simplify(arena, quotient))
        }
    };
    Ok(factors.iter().filter_map(|f| f.map(|f| arena.int(f, dtype)).or(inferred)).collect())
}

/// Checks the requirements of `split` and `fuse` for a loop.
pub(super) fn check_loop(state: &mut State, l: LoopId) -> Result<(), ScheduleError> {
    let node = state.func.loop_(l);
    if !node.annotations.is_empty() || matches!(node.kind, crate::ir::LoopKind::ThreadBinding(_)) {
        return Err(state.error(ErrorKind::HasAnnotationOrThreadBinding, l));
    }
    check_starts_with_zero(state, l)
}

/// # Errors
///
/// If the first value of the loop variable is not provably 0.
pub(super) fn check_starts_with_zero(state: &mut State, l: LoopId) -> Result<(), ScheduleError> {
    let min = state.func.loop_(l).min;
    let arena = &mut state.func.arena;
    let zero = arena.int(0, arena.dtype(min));
    if min == zero || (arena.as_int(min).is_none() && Analyzer::new().can_prove_equal(arena, min, zero)) {
        Ok(())
    } else {
        Err(state.error(ErrorKind::LoopNotStartWithZero, l))
    }
}

fn apply(
    func: &mut Func,
    target: LoopId,
    factors: &[ExprId],
    preserve_unit_iters: bool,
    disable_predication: bool,
) -> SmallVec<[LoopId; 8]> {
    let node = func.loop_(target);
    let (old, extent, body) = (node.var, node.extent, node.body.clone());
    let (name, dtype) = {
        let v = func.arena.var(old);
        (v.name, v.dtype)
    };
    let arena = &mut func.arena;
    let vars: SmallVec<[VarId; 8]> =
        (0..factors.len()).map(|i| arena.new_var(name.with_suffix(&format!("_{i}")), dtype)).collect();
    let mut value = arena.int(0, dtype);
    for (&var, &factor) in vars.iter().zip(factors) {
        let (scaled, var) = (arena.mul(value, factor), arena.var_expr(var));
        value = arena.add(scaled, var);
    }
    let mut substitution = Substitution::of_vars([(old, value)]).unfolded();
    for &s in &body {
        func.rewrite_subtree(s, &mut substitution);
    }
    if !disable_predication && let Some(guard) = guard(func, &vars, factors, value, extent) {
        for b in func.child_blocks(target.stmt()) {
            let predicate = func.arena.and(func.block(b).predicate, guard);
            func.block_mut(b).predicate = predicate;
        }
    }
    // The old loop is removed first, so that its body can move.
    let place = func.cut(target.stmt());
    func.set_body(target.stmt(), Body::new());
    let mut inside = body;
    let mut loops: SmallVec<[LoopId; 8]> = SmallVec::new();
    for (&var, &factor) in vars.iter().zip(factors).rev() {
        let new = func.make_loop(var, factor, inside);
        inside = Body::from_slice(&[new.stmt()]);
        loops.push(new);
    }
    loops.reverse();
    func.insert_at(place, &inside);
    for &s in &inside {
        simplify_bindings(func, s, preserve_unit_iters);
    }
    loops
}

/// The predicate `value < extent`, unless it always holds.
fn guard(func: &mut Func, vars: &[VarId], factors: &[ExprId], value: ExprId, extent: ExprId) -> Option<ExprId> {
    let arena = &mut func.arena;
    let product = factors.iter().try_fold(1i64, |p, &f| p.checked_mul(arena.as_int(f)?));
    if let (Some(product), Some(extent)) = (product, arena.as_int(extent))
        && product <= extent
    {
        return None;
    }
    let condition = arena.lt(value, extent);
    let mut analyzer = Analyzer::new();
    for (&var, &factor) in vars.iter().zip(factors) {
        let zero = arena.int(0, arena.var(var).dtype);
        analyzer.bind(arena, var, zero, factor);
    }
    (!analyzer.can_prove_with(arena, condition, Strength::SymbolicBound)).then_some(condition)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    /// A loop of 30 iterations with this binding and predicate.
    fn program(loops: &str, value: &str, predicate: &str) -> String {
        let predicate = if predicate.is_empty() { "True" } else { predicate };
        format!(
            r#"
def main(A: T.Buffer((30,)), B: T.Buffer((30,))):
    for {loops}:
        with T.block("B"):
            vi = T.axis.spatial(30, {value})
            T.where({predicate})
            B[vi] = A[vi] * T.float32(2)
"#
        )
    }

    /// The steps that split the only loop with these arguments.
    fn split(arguments: &str) -> String {
        format!("i, = sch.get_loops('B')\nsch.split(i, {arguments})")
    }

    fn check_split(arguments: &str, loops: &str, value: &str, predicate: &str) {
        let steps = split(arguments);
        check(&program("i in range(30)", "i", ""), |t| t.python(&steps), &program(loops, value, predicate));
    }

    #[test]
    fn factors_that_multiply_to_the_extent_need_no_guard() {
        check_split("[5, 6]", "i_0, i_1 in T.grid(5, 6)", "i_0 * 6 + i_1", "");
        check_split("[2, 3, 5]", "a, b, c in T.grid(2, 3, 5)", "a * 15 + b * 5 + c", "");
    }

    #[test]
    fn a_factor_left_out_is_what_the_others_leave() {
        check_split("[None, 6]", "a, b in T.grid(5, 6)", "a * 6 + b", "");
        check_split("[2, None, 3]", "a, b, c in T.grid(2, 5, 3)", "a * 15 + b * 3 + c", "");
        check_split("[None]", "a in range(30)", "a", "");
    }

    #[test]
    fn factors_beyond_the_extent_are_guarded() {
        check_split("[None, 8]", "a, b in T.grid(4, 8)", "a * 8 + b", "a * 8 + b < 30");
        check_split("[4, 16]", "a, b in T.grid(4, 16)", "a * 16 + b", "a * 16 + b < 30");
        check_split("[None, 64]", "a, b in T.grid(1, 64)", "a * 64 + b", "a * 64 + b < 30");
        // The caller takes care.
        check_split("[None, 8], disable_predication=True", "a, b in T.grid(4, 8)", "a * 8 + b", "");
    }

    #[test]
    fn a_guard_joins_the_predicate() {
        check(
            &program("i in range(30)", "i", "i < 25"),
            |t| t.python(&split("[None, 8]")),
            &program("a, b in T.grid(4, 8)", "a * 8 + b", "a * 8 + b < 25 and a * 8 + b < 30"),
        );
    }

    #[test]
    fn loops_of_one_iteration_may_drop_out_of_bindings() {
        check_split("[1, 30, 1]", "a, b, c in T.grid(1, 30, 1)", "a * 30 + b + c", "");
        check_split("[1, 30, 1], preserve_unit_iters=False", "a, b, c in T.grid(1, 30, 1)", "b", "");
    }

    #[test]
    fn the_loop_dies_and_new_ones_are_serial() {
        check(
            &program("i in T.parallel(30)", "i", ""),
            |t| {
                let (block, old) = (t.block("B"), t.loops("B")[0]);
                let new = t.sch.split(old, vec![5.into(), 6.into()])?;
                assert!(t.is_alive(block) && !t.is_alive(old));
                let loops = t.loops("B");
                assert_eq!(t.values(&loops), t.values(&new));
                assert_eq!(t.names(&new), ["i_0", "i_1"]);
                Ok(())
            },
            &program("a, b in T.grid(5, 6)", "a * 6 + b", ""),
        );
    }

    #[test]
    fn loops_inside_live_on_and_other_blocks_below_are_guarded_too() {
        let program = |outer: &str, i: &str, guard: &str| {
            format!(
                r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((6,))):
    for {outer}:
        for j in range(4):
            with T.block("A"):
                vi = T.axis.spatial(6, {i})
                vj = T.axis.spatial(4, j)
                T.where({guard})
                A[vi, vj] = T.float32(1)
        with T.block("B"):
            vi = T.axis.spatial(6, {i})
            T.where({guard})
            B[vi] = T.float32(2)
"#
            )
        };
        check(
            &program("i in range(6)", "i", "True"),
            |t| {
                let j = t.loops("A")[1];
                t.python("sch.split(sch.get_loops('B')[0], [None, 4])")?;
                assert!(t.is_alive(j));
                Ok(())
            },
            &program("a, b in T.grid(2, 4)", "a * 4 + b", "a * 4 + b < 6"),
        );
    }

    #[test]
    fn extents_may_be_symbolic() {
        let program = |loops: &str, value: &str, predicate: &str| {
            program(loops, value, predicate).replace("30", "n").replace("def main(", "def main(n: T.int32, ")
        };
        check(
            &program("i in range(30)", "i", ""),
            |t| t.python(&split("[None, 8]")),
            &program("a, b in T.grid((30 + 7) // 8, 8)", "a * 8 + b", "a * 8 + b < 30"),
        );
        refuse(&program("i in range(30)", "i", ""), |t| t.python(&split("[4, 8]")), "WrongFactorError");
    }

    #[test]
    fn refused_factors() {
        for (factors, class) in [
            ("[None, None]", "NotSingleInferFactorError"),
            ("[None, 2, None]", "NotSingleInferFactorError"),
            ("[0, 30]", "NonPositiveFactorError"),
            ("[None, -2]", "NonPositiveFactorError"),
            ("[3, 9]", "WrongFactorError"),
            ("[]", "WrongFactorError"),
            ("[65536, 65536]", "ExtentOverflowError"),
            ("[1] * 91", "NestTooDeepError"),
        ] {
            refuse(&program("i in range(30)", "i", ""), |t| t.python(&split(factors)), class);
        }
        // The factor left out would be 2.
        let long = program("i in range(30)", "i", "").replace("30", "2147483647");
        refuse(&long, |t| t.python(&split("[None, 1073741825]")), "ExtentOverflowError");
    }

    #[test]
    fn refused_loops() {
        let loops = |loops: &str| program(loops, "i", "");
        let steps = split("[None, 4]");
        let annotated = loops("i in T.serial(30, annotations={\"key\": 1})");
        refuse(&annotated, |t| t.python(&steps), "HasAnnotationOrThreadBindingError");
        let bound = loops("i in T.thread_binding(30, thread=\"threadIdx.x\")");
        refuse(&bound, |t| t.python(&steps), "HasAnnotationOrThreadBindingError");
        refuse(&loops("i in range(2, 30)"), |t| t.python(&steps), "LoopNotStartWithZeroError");
        let dead = format!("{steps}\nsch.split(i, [5, 6])");
        refuse(&loops("i in range(30)"), |t| t.python(&dead), "ValueError");
    }
}
