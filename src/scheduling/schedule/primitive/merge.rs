//! # `merge`
//!
//! Fuses several nests with equal extents into one nest, side by side.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), B: T.Buffer(32), C: T.Buffer(32)):
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * 2.0
//!     for j in range(32):
//!         with T.sblock("C"):
//!             vj = T.axis.spatial(32, j)
//!             C[vj] = A[vj] + 1.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     (j,) = sch.get_loops("C")
//!     sch.merge(i, j)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), B: T.Buffer((32,)), C: T.Buffer((32,))):
//!     for i_m in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i_m)
//!             B[vi] = A[vi] * T.float32(2.0)
//!         with T.sblock("C"):
//!             vj = T.axis.spatial(32, i_m)
//!             C[vj] = A[vj] + T.float32(1.0)
//! ```
//!
//! * Requires: equal extents; one scope.
//! * Errors: `MergeLoopsNotMatchError`, `NotOnlyChildError`, `HasAnnotationOrThreadBindingError`,
//!   `LoopNotStartWithZeroError`, `MergeReordersError`, `NotSupportedError` (under an `if`).
//! * Handles: dies: the merged loops; persists: blocks, loops inside; created: the merged loop and those around it.
//! * Refused, though TVM accepts it: nests whose iterations, or the statements between them, depend on each other in
//!   another order.
//!
//! # Implementation
//!
//! `merge`: merges several nests with equal iterations into one.
//!
//! ```text
//! for i, j in T.grid(n, m): S(i, j)
//! for p, q in T.grid(n, m): T(p, q)
//! // becomes, with sch.merge(j, q)
//! for i_m, j_m in T.grid(n, m):
//!     S(i_m, j_m)
//!     T(i_m, j_m)
//! ```
//!
//! Each given loop represents the nest from the outermost loop of its scope down to it. The merged nest replaces the
//! last given one; its loops are named after those of the first.
//!
//! Requires: at least two different nests, none around another, directly in one block; no annotations, no thread
//! bindings, first values 0, each loop but the innermost contains only the next; equal depths and extents. In addition
//! to TVM's requirements: if two of the nests, or a nest and a statement that it moves across, access the same elements
//! and one writes them, no iteration may come to use a value that a later one computes. Preserves: instances. Returns:
//! the innermost loop of the merged nest, serial. Handles: the loops of all nests die, loops and blocks inside persist.

use super::super::analysis::interference::{Access, accesses, conflict_across, conflict_between};
use super::super::analysis::tree;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::split::check_loop;
use crate::arith::Analyzer;
use crate::ir::{Body, DType, ExprId, Func, LoopId, Substitution, Symbol, VarId};

/// `merge(*loops)`.
pub(crate) static MERGE: Kind = Kind {
    name: "Merge",
    method: "merge",
    classic: None,
    positional: true,
    params: &[Param::input("loops", Ty::Loops)],
    outputs: Outputs::Loop,
    samples: false,
    run: merge,
};

fn merge(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, loops) = call.loops(0)?;
    if loops.len() < 2 {
        return Err(ErrorKind::Argument { message: "expected at least two loops".to_string() }.into());
    }
    let state = call.state(func);
    let nests = check(state, &loops)?;
    let new = apply(&mut state.func, &nests);
    Ok(Outcome { outputs: vec![RvValue::Loop(func, new)], decision: None })
}

/// A nest, outermost loop first.
type Nest = Vec<LoopId>;

fn check(state: &mut State, loops: &[LoopId]) -> Result<Vec<Nest>, ScheduleError> {
    let targets: Vec<_> = loops.iter().map(|l| l.stmt()).collect();
    let mismatch = |state: &State, problem, l: LoopId| Err(state.error(ErrorKind::MergeLoopsNotMatch { problem }, l));
    let ancestor = tree::common_ancestor(&state.func, &targets).and_then(|s| state.func.as_block(s));
    let mut nests: Vec<Nest> = Vec::with_capacity(loops.len());
    for &l in loops {
        let nest = state.func.loops_above(l.stmt()).into_iter().chain([l]).collect::<Nest>();
        for &l in nest.iter().rev() {
            check_loop(state, l)?;
        }
        for pair in nest.windows(2) {
            if !tree::is_only_child(&state.func, pair[0], pair[1].stmt()) {
                return Err(state.error(ErrorKind::NotOnlyChild, pair[1]));
            }
        }
        if tree::require_scope(state, l, false).ok() != ancestor {
            return mismatch(state, "they are not in different nests directly in one block", l);
        }
        let first = nests.first().unwrap_or(&nest);
        if first.len() != nest.len() {
            return mismatch(state, "their depths differ", l);
        }
        for (&x, &y) in first.iter().zip(&nest) {
            let Func { arena, stmts, .. } = &mut state.func;
            let (x, y) = (stmts.loop_(x).extent, stmts.loop_(y).extent);
            if !Analyzer::new().can_prove_equal(arena, x, y) {
                return mismatch(state, "their extents differ", l);
            }
        }
        nests.push(nest);
    }
    check_interference(state, &nests)?;
    Ok(nests)
}

/// The merged nest replaces the last one, and its iterations interleave those of all.
fn check_interference(state: &mut State, nests: &[Nest]) -> Result<(), ScheduleError> {
    let func = &mut state.func;
    let last = &nests[nests.len() - 1];
    let home = func.place(last[0].stmt());
    let Some(home) = home.filter(|h| func.as_block(h.parent).is_some()) else {
        return Err(state.error(ErrorKind::NotSupported { what: "merging loops under an `if`".to_string() }, last[0]));
    };
    let siblings = func.body_at(home.parent, home.body).clone();
    let mut positions = Vec::with_capacity(nests.len());
    let mut touched: Vec<Vec<Access>> = Vec::with_capacity(nests.len());
    for nest in nests {
        let place = func.place(nest[0].stmt()).filter(|p| p.parent == home.parent && p.body == home.body);
        let known = accesses(func, nest[0].stmt());
        let (Some(place), Some(known)) = (place, known) else {
            let what = "merging loops under an `if`, or around statements outside blocks".to_string();
            return Err(state.error(ErrorKind::NotSupported { what }, nest[0]));
        };
        positions.push(place.position);
        touched.push(known);
    }
    for (n, nest) in nests.iter().enumerate() {
        // Statements across which the nest moves.
        let (low, high) = (positions[n].min(home.position), positions[n].max(home.position));
        for p in (low..=high).filter(|p| !positions.contains(p)) {
            let crossed = accesses(func, siblings[p]);
            if crossed.is_none_or(|crossed| conflict_across(&touched[n], &crossed)) {
                return Err(state.error(ErrorKind::MergeReorders, nest[0]));
            }
        }
        for m in 0..n {
            // Only the text order counts, not the order of the arguments: bodies run in the order of the arguments.
            if positions[m] > positions[n] && conflict_across(&touched[m], &touched[n]) {
                return Err(state.error(ErrorKind::MergeReorders, nest[0]));
            }
            let vars = |nest: &Nest| nest.iter().map(|&l| func.loop_(l).var).collect::<Vec<VarId>>();
            let extents: Vec<ExprId> = nest.iter().map(|&l| func.loop_(l).extent).collect();
            let (first, second) = (vars(&nests[m]), vars(nest));
            if conflict_between(func, &extents, (&touched[m], &first), (&touched[n], &second)) {
                return Err(state.error(ErrorKind::MergeReorders, nest[0]));
            }
        }
    }
    Ok(())
}

fn apply(func: &mut Func, nests: &[Nest]) -> LoopId {
    let names: Vec<(Symbol, DType)> = nests[0]
        .iter()
        .map(|&l| {
            let var = func.arena.var(func.loop_(l).var);
            (var.name.with_suffix("_m"), var.dtype)
        })
        .collect();
    let extents: Vec<ExprId> = nests[0].iter().map(|&l| func.loop_(l).extent).collect();
    let vars: Vec<(VarId, ExprId)> = names.iter().map(|&(name, dtype)| func.arena.new_var_expr(name, dtype)).collect();
    let mut merged = Body::new();
    for nest in nests {
        let mut substitution = Substitution::default();
        for (&l, &(_, value)) in nest.iter().zip(&vars) {
            let old = func.loop_(l).var;
            let value = func.arena.cast(func.arena.var(old).dtype, value);
            substitution.add_var(old, value);
        }
        let innermost = nest[nest.len() - 1];
        let body = func.loop_(innermost).body.clone();
        for &s in &body {
            func.rewrite_subtree(s, &mut substitution);
        }
        func.set_body(innermost.stmt(), Body::new());
        merged.extend(body);
    }
    let innermost = func.make_loop(vars[vars.len() - 1].0, extents[extents.len() - 1], merged);
    let mut outermost = innermost;
    for (&(var, _), &extent) in vars.iter().zip(&extents).rev().skip(1) {
        outermost = func.make_loop(var, extent, Body::from_slice(&[outermost.stmt()]));
    }
    let (last, others) = nests.split_last().expect("at least two nests");
    for nest in others {
        func.cut(nest[0].stmt());
    }
    func.replace(last[0].stmt(), &[outermost.stmt()]);
    innermost
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    /// Two nests, with a statement between them and the headers of their loops.
    fn two(first: [&str; 2], between: &str, second: [&str; 2]) -> String {
        format!(
            r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8)), C: T.Buffer((4, 8)), D: T.Buffer((4, 8))):
    for i in {}:
        for j in {}:
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
{between}    for p in {}:
        for q in {}:
            with T.block("C"):
                vp, vq = T.axis.remap("SS", [p, q])
                C[vp, vq] = A[vp, vq] + T.float32(1)
"#,
            first[0], first[1], second[0], second[1]
        )
    }

    const GRID: [&str; 2] = ["range(4)", "range(8)"];

    /// A third nest that assigns to `D`.
    fn third(value: &str) -> String {
        format!(
            r#"    for x, y in T.grid(4, 8):
        with T.block("D"):
            vx, vy = T.axis.remap("SS", [x, y])
            D[vx, vy] = {value}
"#
        )
    }

    const MERGED: &str = r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8)), C: T.Buffer((4, 8)), D: T.Buffer((4, 8))):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vp, vq = T.axis.remap("SS", [i, j])
            C[vp, vq] = A[vp, vq] + T.float32(1)
"#;

    const INNERMOST: &str = "i, j = sch.get_loops('B')\np, q = sch.get_loops('C')\nsch.merge(j, q)";

    #[test]
    fn nests_become_one_with_the_bodies_side_by_side() {
        check(
            &two(GRID, "", GRID),
            |t| {
                let (b, c) = (t.loops("B"), t.loops("C"));
                let merged = t.run("merge", vec![crate::schedule::arg::Arg::List(vec![b[1].into(), c[1].into()])])?[0];
                assert!(b.iter().chain(&c).all(|&l| !t.is_alive(l)));
                let loops = t.loops("C");
                assert_eq!(t.names(&loops), ["i_m", "j_m"]);
                assert_eq!(t.values(&loops[1..]), t.values(&[merged]));
                Ok(())
            },
            MERGED,
        );
    }

    #[test]
    fn loops_inside_those_named_stay_apart() {
        check(
            &two(GRID, "", GRID),
            |t| {
                let (b, c) = (t.loops("B"), t.loops("C"));
                t.python("sch.merge(sch.get_loops('B')[0], sch.get_loops('C')[0])")?;
                assert!(!t.is_alive(b[0]) && !t.is_alive(c[0]) && t.is_alive(b[1]) && t.is_alive(c[1]));
                Ok(())
            },
            &two(GRID, "", GRID).replace("    for p in range(4):\n", "").replace("[p, q]", "[i, q]"),
        );
    }

    #[test]
    fn three_nests_merge_where_the_last_one_stood_in_the_order_of_their_names() {
        let merged = MERGED.replace(
            "        with T.block(\"C\")",
            "        with T.block(\"D\"):\n            vx, vy = T.axis.remap(\"SS\", [i, j])\n            D[vx, vy] = T.float32(3)\n        with T.block(\"C\")",
        );
        check(
            &two(GRID, &third("T.float32(3)"), GRID),
            |t| t.python("sch.merge(*[sch.get_loops(name)[1] for name in ['B', 'D', 'C']])"),
            &merged,
        );
    }

    #[test]
    fn a_statement_between_the_nests_comes_first() {
        let program = two(GRID, &third("T.float32(3)"), GRID);
        let merged = MERGED.replacen("    for i, j", &format!("{}    for i, j", third("T.float32(3)")), 1);
        check(&program, |t| t.python(INNERMOST), &merged);
    }

    #[test]
    fn an_iteration_may_read_what_the_same_one_has_written() {
        let reads = |program: &str| program.replace("= A[vp, vq]", "= B[vp, vq]");
        check(&reads(&two(GRID, "", GRID)), |t| t.python(INNERMOST), &reads(MERGED));
    }

    #[test]
    fn extents_may_be_one_or_symbolic() {
        let with = |extent: &str, header: &str, program: &str| {
            program
                .replace("(4,", &format!("({extent},"))
                .replace("(4)", &format!("({extent})"))
                .replace("main(", header)
        };
        for (extent, header) in [("1", "main("), ("n", "main(n: T.int32, ")] {
            check(&with(extent, header, &two(GRID, "", GRID)), |t| t.python(INNERMOST), &with(extent, header, MERGED));
        }
    }

    #[test]
    fn nests_must_iterate_alike() {
        let program = two(GRID, "", GRID);
        let steps = |loops: &str| format!("i, j = sch.get_loops('B')\np, q = sch.get_loops('C')\nsch.merge({loops})");
        refuse(&program, |t| t.python(&steps("j")), "ValueError");
        for loops in ["i, q", "j, p", "i, j", "j, j"] {
            refuse(&program, |t| t.python(&steps(loops)), "MergeLoopsNotMatchError");
        }
        refuse(&two(GRID, "", ["range(4)", "range(7)"]), |t| t.python(INNERMOST), "MergeLoopsNotMatchError");
        refuse(&two(["range(8)", "range(4)"], "", GRID), |t| t.python(INNERMOST), "MergeLoopsNotMatchError");
    }

    #[test]
    fn refused_loops() {
        let second = |inner: &str, class: &str| {
            refuse(&two(GRID, "", ["range(4)", inner]), |t| t.python(INNERMOST), class);
        };
        second("T.serial(8, annotations={\"key\": 1})", "HasAnnotationOrThreadBindingError");
        second("T.thread_binding(8, thread=\"threadIdx.x\")", "HasAnnotationOrThreadBindingError");
        second("range(1, 9)", "LoopNotStartWithZeroError");
        let other = "        with T.block(\"E\"):\n            vp = T.axis.spatial(4, p)\n            D[vp, 0] = T.float32(1)\n";
        let beside = format!("{}{other}", two(GRID, "", GRID));
        refuse(&beside, |t| t.python(INNERMOST), "NotOnlyChildError");
    }

    #[test]
    fn dependences_keep_their_order() {
        let program = two(GRID, "", GRID);
        // An iteration would read what a later one writes.
        let later = program.replace("= A[vp, vq]", "= B[3 - vp, vq]");
        refuse(&later, |t| t.python(INNERMOST), "MergeReordersError");
        // The first nest would move past a reader of what it writes, or past a writer of what it reads.
        refuse(&two(GRID, &third("B[vx, vy]"), GRID), |t| t.python(INNERMOST), "MergeReordersError");
        let overwritten = two(GRID, &third("T.float32(3)").replace("D[", "A["), GRID);
        refuse(&overwritten, |t| t.python(INNERMOST), "MergeReordersError");
        // Bodies stand in the order of the names.
        let reads = program.replace("= A[vp, vq]", "= B[vp, vq]");
        let backwards = "i, j = sch.get_loops('B')\np, q = sch.get_loops('C')\nsch.merge(q, j)";
        refuse(&reads, |t| t.python(backwards), "MergeReordersError");
    }

    #[test]
    fn nests_under_a_condition_stay_there() {
        let program = two(GRID, "", GRID).replace("main(", "main(n: T.int32, ");
        let (header, body) = program.split_at(program.find("    for i").expect("the first nest"));
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        let nested = format!("{header}    if n < 4:\n{body}");
        refuse(&nested, |t| t.python(INNERMOST), "NotSupportedError");
    }
}
