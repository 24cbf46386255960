//! Soundness on random expressions, by evaluation: simplification keeps values, bounds and residues hold, proofs are
//! true. Seeds are fixed; a failure prints the expression.

use super::int_set::uses_var;
use super::iter_map::{
    IterMapLevel, VarRange, detect_iter_map, inverse_affine_iter_map, iter_map_simplify, subspace_divide,
};
use super::rewrite::log::APPLIED;
use super::testing::{World, eval, for_points};
use super::{Analyzer, Strength, bound};
use crate::ir::expr::{ExprId, VarId};
use crate::ir::mix::next_mixed;
use crate::ir::op::{BinOp, CmpOp};
use std::collections::BTreeSet;

/// A small generator of random numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        next_mixed(&mut self.0) % n
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

struct Case {
    world: World,
    ranges: Vec<(VarId, i64, i64)>,
    e: ExprId,
}

/// A random tree of integers over up to four variables of small ranges.
fn integer(r: &mut Random, w: &mut World, depth: u64) -> ExprId {
    if depth == 0 || r.below(8) == 0 {
        if r.below(4) == 0 {
            return w.arena.int32(r.below(18) as i64 - 6);
        }
        let name = r.pick(&["a", "b", "c", "d"]);
        let v = w.var(name);
        return w.arena.var_expr(v);
    }
    let x = integer(r, w, depth - 1);
    let constant = |r: &mut Random, w: &mut World, choices: &[i64]| {
        let c = r.pick(choices);
        w.arena.int32(c)
    };
    let divisors = [2, 3, 4, 5, 8, -2, -3];
    let op = r.pick(&[
        BinOp::Add,
        BinOp::Add,
        BinOp::Add,
        BinOp::Sub,
        BinOp::Sub,
        BinOp::Mul,
        BinOp::Mul,
        BinOp::FloorDiv,
        BinOp::FloorDiv,
        BinOp::FloorMod,
        BinOp::FloorMod,
        BinOp::Div,
        BinOp::Mod,
        BinOp::Min,
        BinOp::Max,
    ]);
    match op {
        BinOp::Mul if r.below(8) > 0 => {
            let c = constant(r, w, &[-4, -3, -2, -1, 2, 3, 4, 6, 8]);
            if r.below(4) == 0 { w.arena.mul(c, x) } else { w.arena.mul(x, c) }
        }
        BinOp::FloorDiv | BinOp::FloorMod | BinOp::Div | BinOp::Mod => {
            let y = if r.below(12) == 0 { integer(r, w, 1) } else { constant(r, w, &divisors) };
            w.arena.binary(op, x, y)
        }
        _ if r.below(16) == 0 => {
            let (c, y) = (condition(r, w, depth - 1), integer(r, w, depth - 1));
            if r.below(2) == 0 { w.arena.select(c, x, y) } else { w.arena.if_then_else(c, x, y) }
        }
        _ => {
            // Operands that recur give the rules something to find.
            let y = if r.below(4) == 0 { x } else { integer(r, w, depth - 1) };
            let y = if r.below(4) == 0 {
                let c = constant(r, w, &[-5, -1, 1, 2, 3, 7]);
                w.arena.add(y, c)
            } else {
                y
            };
            w.arena.binary(op, x, y)
        }
    }
}

/// A random condition.
fn condition(r: &mut Random, w: &mut World, depth: u64) -> ExprId {
    match r.below(8) {
        0 if depth > 0 => {
            let x = condition(r, w, depth - 1);
            w.arena.not(x)
        }
        1 | 2 if depth > 0 => {
            let (x, y) = (condition(r, w, depth - 1), condition(r, w, depth - 1));
            if r.below(2) == 0 { w.arena.and(x, y) } else { w.arena.or(x, y) }
        }
        _ => {
            let x = integer(r, w, depth);
            let y = if r.below(2) == 0 { w.arena.int32(r.below(20) as i64 - 6) } else { integer(r, w, depth) };
            let op = r.pick(&[CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge]);
            if r.below(6) == 0 { w.arena.compare(op, y, x) } else { w.arena.compare(op, x, y) }
        }
    }
}

fn random_case(seed: u64, of_conditions: bool) -> Case {
    let mut r = Random(seed);
    let mut world = World::default();
    let ranges = ["a", "b", "c", "d"]
        .map(|name| (world.var(name), r.pick(&[0, 0, 0, -5, 3]), r.pick(&[1, 2, 3, 4, 6, 8, 16])))
        .to_vec();
    let depth = 1 + r.below(4);
    let e =
        if of_conditions { condition(&mut r, &mut world, depth.min(3)) } else { integer(&mut r, &mut world, depth) };
    Case { world, ranges, e }
}

/// An analyzer that knows the ranges, or only some.
fn analyzer(case: &mut Case, known: usize) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for &(v, min, extent) in &case.ranges[..known] {
        analyzer.bind_const(&mut case.world.arena, v, min, extent);
    }
    analyzer
}

fn n_cases() -> u64 {
    std::env::var("TVMR_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4000)
}

fn check_same_values(case: &Case, other: ExprId, what: &str) {
    let a = &case.world.arena;
    for_points(&case.ranges, 400, |values| {
        if let Some(x) = eval(a, case.e, values) {
            let y = eval(a, other, values);
            assert_eq!(
                Some(x),
                y,
                "{what} of `{}` is `{}`, which differs at {values:?}; rules {:?}",
                case.world.show(case.e),
                case.world.show(other),
                APPLIED.take()
            );
        }
    });
}

#[test]
fn simplification_keeps_values() {
    let mut fired = BTreeSet::new();
    let (mut stable, mut total) = (0, 0);
    for seed in 0..n_cases() {
        let mut case = random_case(seed, seed % 3 == 0);
        let known = if seed % 5 == 0 { 2 } else { 4 };
        let mut analyzer = analyzer(&mut case, known);
        let e = case.e;
        APPLIED.take();
        let rewritten = analyzer.rewrite_simplify(&mut case.world.arena, e);
        check_same_values(&case, rewritten, "rewriting");
        let canonical = analyzer.canonical_simplify(&mut case.world.arena, e);
        check_same_values(&case, canonical, "the canonical form");
        let simple = analyzer.simplify(&mut case.world.arena, e);
        check_same_values(&case, simple, "simplification");
        let again = analyzer.simplify(&mut case.world.arena, simple);
        check_same_values(&case, again, "second simplification");
        fired.extend(APPLIED.take());
        total += 1;
        stable += (again == simple) as u64;
    }
    println!("{} rules applied; {stable} of {total} results are fixed points", fired.len());
    // TVM's simplification is a number of steps, not a fixed point; what is left to do is rare.
    assert!(stable * 100 >= total * 97, "only {stable} of {total} results are fixed points");
}

#[test]
fn bounds_and_residues_hold() {
    for seed in 0..n_cases() {
        let mut case = random_case(seed + 1_000_000, seed % 7 == 0);
        let mut analyzer = analyzer(&mut case, 4);
        let e = case.e;
        let b = analyzer.const_int_bound(&mut case.world.arena, e);
        let m = analyzer.modular_set(&mut case.world.arena, e);
        let set = analyzer.int_set(&mut case.world.arena, e);
        let a = &case.world.arena;
        let is_condition = a.dtype(e) == crate::ir::DType::Bool;
        for_points(&case.ranges, 400, |values| {
            let Some(x) = eval(a, e, values) else { return };
            let text = || case.world.show(e);
            assert!(b.contains(x), "`{}` is {x} at {values:?}, not in {b:?}", text());
            assert!(is_condition || m.contains(x), "`{}` is {x} at {values:?}, not in {m:?}", text());
            if let Some(low) = set.lower().and_then(|e| eval(a, e, values)) {
                assert!(low <= x, "`{}` is {x} at {values:?}, below {}", text(), case.world.show(set.lower().unwrap()));
            }
            if let Some(high) = set.upper().and_then(|e| eval(a, e, values)) {
                assert!(
                    x <= high,
                    "`{}` is {x} at {values:?}, above {}",
                    text(),
                    case.world.show(set.upper().unwrap())
                );
            }
        });
        assert!(b.min == bound::NEG_INF || b.min <= b.max, "an empty bound {b:?} of `{}`", case.world.show(e));
    }
}

#[test]
fn proofs_and_constraints_hold() {
    let (mut proved, mut cases) = (0, 0);
    for seed in 0..n_cases() {
        let mut case = random_case(seed + 2_000_000, true);
        let mut r = Random(seed);
        let goal = condition(&mut r, &mut case.world, 2);
        let target = integer(&mut r, &mut case.world, 3);
        let mut analyzer = analyzer(&mut case, 4);
        let fact = case.e;
        let (holds, strong, simple, bound, residue) =
            analyzer.with_constraint(&mut case.world.arena, fact, |analyzer, a| {
                let holds = analyzer.can_prove(a, goal);
                let strong = analyzer.can_prove_with(a, goal, Strength::SymbolicBound);
                let simple = analyzer.simplify(a, target);
                (holds, strong, simple, analyzer.const_int_bound(a, target), analyzer.modular_set(a, target))
            });
        let after = analyzer.simplify(&mut case.world.arena, target);
        cases += 1;
        proved += holds as u64;
        let a = &case.world.arena;
        for_points(&case.ranges, 400, |values| {
            let Some(value) = eval(a, target, values) else { return };
            let show = |e| case.world.show(e);
            assert_eq!(
                Some(value),
                eval(a, after, values),
                "`{}` after `{}`: `{}`",
                show(target),
                show(fact),
                show(after)
            );
            if eval(a, fact, values) != Some(1) {
                return;
            }
            assert_eq!(
                Some(value),
                eval(a, simple, values),
                "`{}` under `{}` is not `{}` at {values:?}",
                show(target),
                show(fact),
                show(simple)
            );
            assert!(bound.contains(value), "`{}` under `{}` is {value}, not in {bound:?}", show(target), show(fact));
            assert!(
                residue.contains(value),
                "`{}` under `{}` is {value}, not in {residue:?}",
                show(target),
                show(fact)
            );
            if let (true, Some(truth)) = (holds || strong, eval(a, goal, values)) {
                assert_eq!(truth, 1, "`{}` does not follow from `{}` at {values:?}", show(goal), show(fact));
            }
        });
    }
    println!("{proved} of {cases} conditions proved");
    assert!(proved > 0, "something is provable");
}

/// The questions of the table of iterator maps, by kind.
fn iter_map_questions() -> Vec<Vec<String>> {
    let path = format!("{}/../../tests/data/arith/iter_map.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the table is there");
    text.lines().map(|l| l.split('|').map(str::to_owned).collect()).collect()
}

#[test]
fn iterator_maps_keep_values() {
    let (mut maps, mut divided, mut unseen) = (0, 0, 0);
    for fields in iter_map_questions() {
        if fields[0] == "normal" {
            continue;
        }
        let mut w = World::default();
        let ranges = w.ranges(&fields[2]);
        let domain: Vec<VarRange> = ranges
            .iter()
            .map(|&(var, min, extent)| VarRange { var, min: w.arena.int32(min), extent: w.arena.int32(extent) })
            .collect();
        let predicate = w.parse(&fields[3]);
        let indices: Vec<ExprId> = fields[4].split(", ").map(|e| w.parse(e)).collect();
        let question = fields.join("|");
        for level in [IterMapLevel::Bijective, IterMapLevel::Surjective, IterMapLevel::NoCheck] {
            let a = &mut w.arena;
            let mut analyzer = Analyzer::new();
            let simple = iter_map_simplify(a, &indices, &domain, predicate, level, &mut analyzer, true);
            let map = detect_iter_map(a, &indices, &domain, predicate, level, &mut analyzer, true).ok();
            let inverse = map.as_ref().and_then(|map| {
                let outputs: Vec<_> = indices.iter().map(|_| a.new_var("y", crate::ir::DType::Int32)).collect();
                let exprs: Vec<ExprId> = outputs.iter().map(|&v| a.var_expr(v)).collect();
                inverse_affine_iter_map(a, map, &exprs).ok().map(|inverse| (outputs, inverse))
            });
            let mut images = std::collections::HashSet::new();
            let mut points = 0u64;
            let complete = ranges.iter().map(|r| r.2 as usize).product::<usize>() <= 5000;
            for_points(&ranges, 5000, |values| {
                if eval(a, predicate, values) != Some(1) {
                    return;
                }
                points += 1;
                let image: Vec<i64> = indices.iter().filter_map(|&e| eval(a, e, values)).collect();
                let again: Vec<i64> = simple.iter().filter_map(|&e| eval(a, e, values)).collect();
                assert_eq!(image, again, "{question} at {values:?}, {level:?}");
                if let (IterMapLevel::Bijective, Some((outputs, inverse))) = (level, &inverse) {
                    let image: Vec<_> = outputs.iter().copied().zip(image.iter().copied()).collect();
                    for &(v, e) in inverse {
                        let value = values.iter().find(|x| x.0 == v).map(|x| x.1);
                        assert_eq!(eval(a, e, &image), value, "{question}: inverse at {values:?}");
                    }
                }
                images.insert(image);
            });
            let Some(map) = map else { continue };
            maps += 1;
            if !complete {
                continue;
            }
            let mut size = Some(1i64);
            for sum in &map.indices {
                for split in &sum.args {
                    size = size.and_then(|n| Some(n * a.as_int(split.extent)?));
                }
            }
            let onto = size == Some(images.len() as i64);
            let one_to_one = images.len() as u64 == points;
            let holds = match level {
                IterMapLevel::Bijective => onto && one_to_one,
                IterMapLevel::Surjective => onto,
                IterMapLevel::NoCheck => true,
            };
            // As in TVM, a constraint on a sum is ignored where an iterator is divided that is the only one of the sum
            // with more than one value.
            assert!(holds || fields[3] != "T", "{question}: not what {level:?} claims");
            unseen += !holds as u32;
        }
        if fields[0] != "divide" {
            continue;
        }
        let inner: Vec<VarId> = fields[5].chars().map(|c| w.var(&c.to_string())).collect();
        let a = &mut w.arena;
        let mut analyzer = Analyzer::new();
        let level = IterMapLevel::Surjective;
        let parts = subspace_divide(a, &indices, &domain, &inner, predicate, level, &mut analyzer, true);
        let Some(parts) = parts else { continue };
        divided += 1;
        for (&index, d) in indices.iter().zip(&parts.divisions) {
            let outer = parts.to_expr(a, &mut analyzer, &d.outer);
            let small = parts.to_expr(a, &mut analyzer, &d.inner);
            assert!(!uses_var(a, outer, &mut |v| inner.contains(&v)), "{question}: an inner loop is outside");
            assert!(!uses_var(a, small, &mut |v| !inner.contains(&v)), "{question}: an outer loop is inside");
            for_points(&ranges, 500, |values| {
                if eval(a, predicate, values) != Some(1) {
                    return;
                }
                let value = |e| eval(a, e, values).expect("the parts have values");
                let index = value(index);
                assert_eq!(index, value(outer) * value(d.inner_extent) + value(small), "{question} at {values:?}");
            });
        }
    }
    println!("{maps} maps, {divided} divisions, {unseen} with an unseen constraint");
    assert!(unseen * 100 < maps, "constraints are seen as a rule");
}
