//! Agreement with TVM, counted on the tables in tests/data/arith. Floors only rise.

use super::iter_map::{
    IterMap, IterMapLevel, IterMark, IterSplit, IterSum, MarkSource, Part, VarRange, detect_iter_map,
    inverse_affine_iter_map, iter_map_simplify, normalize_to_iter_sum, subspace_divide,
};
use super::testing::World;
use super::{Analyzer, bound};
use crate::ir::expr::ExprId;
use std::collections::BTreeMap;

/// The lines of a table. `TVMR_ARITH_DATA` names a directory of other tables to try.
fn table(name: &str) -> String {
    let dir =
        std::env::var("TVMR_ARITH_DATA").unwrap_or(format!("{}/../../tests/data/arith", env!("CARGO_MANIFEST_DIR")));
    let path = format!("{dir}/{name}");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Counts how many lines `answer` gives the last field of, prints the count by first field, and fails below the
/// floor.
fn check(name: &str, floor: f64, answer: impl Fn(&[&str]) -> String) {
    let text = table(name);
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let show = std::env::var("TVMR_SHOW").ok();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let (expected, question) = fields.split_last().expect("a line has fields");
        let found = answer(question);
        let count = counts.entry(fields[0]).or_default();
        count.1 += 1;
        if found == *expected {
            count.0 += 1;
        } else if show.as_deref().is_some_and(|s| s == "all" || s == fields[0]) {
            println!("{}\n  expected {expected}\n  found    {found}", question.join("|"));
        }
    }
    let (agree, total) = counts.values().fold((0, 0), |s, c| (s.0 + c.0, s.1 + c.1));
    for (kind, (agree, total)) in &counts {
        println!("{name} {kind}: {agree} of {total}");
    }
    let share = agree as f64 / total as f64;
    println!("{name}: {:.2} %", 100.0 * share);
    assert!(share >= floor, "{name}: agreement fell to {share:.4}, the floor is {floor}");
}

fn analyzer(w: &mut World, ranges: &str) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for (v, min, extent) in w.ranges(ranges) {
        analyzer.bind_const(&mut w.arena, v, min, extent);
    }
    analyzer
}

#[test]
fn simplification() {
    check("simplify.txt", 0.999, |fields| {
        let mut w = World::default();
        let mut analyzer = analyzer(&mut w, fields[1]);
        let e = w.parse(fields[2]);
        let a = &mut w.arena;
        let result = match fields[0] {
            "s" => analyzer.simplify(a, e),
            "r" => analyzer.rewrite_simplify(a, e),
            "c" => analyzer.canonical_simplify(a, e),
            "b" => {
                let b = analyzer.const_int_bound(a, e);
                let end = |v| match v {
                    bound::POS_INF => i64::MAX,
                    bound::NEG_INF => -i64::MAX,
                    v => v,
                };
                return format!("{} {}", end(b.min), end(b.max));
            }
            "m" => {
                let m = analyzer.modular_set(a, e);
                return format!("{} {}", m.coeff, m.base);
            }
            other => panic!("unknown kind of case `{other}`"),
        };
        w.show(result)
    });
}

fn domain(w: &mut World, ranges: &str) -> Vec<VarRange> {
    let ranges = w.ranges(ranges);
    ranges
        .into_iter()
        .map(|(var, min, extent)| VarRange { var, min: w.arena.int32(min), extent: w.arena.int32(extent) })
        .collect()
}

fn show_sum(w: &World, marks: &[IterMark], sum: &IterSum) -> String {
    let splits: Vec<String> = sum.args.iter().map(|s| show_split(w, marks, s)).collect();
    format!("({}; {})", splits.join(" "), w.show(sum.base))
}

fn show_split(w: &World, marks: &[IterMark], split: &IterSplit) -> String {
    let mark = &marks[split.mark.index()];
    let source = match &mark.source {
        MarkSource::Expr(e) => w.show(*e),
        MarkSource::Sum(sum) => show_sum(w, marks, sum),
    };
    let trivial = w.arena.is_int(split.lower_factor, 1) && split.extent == mark.extent;
    let part =
        if trivial { String::new() } else { format!("/{}%{}", w.show(split.lower_factor), w.show(split.extent)) };
    let scale = if w.arena.is_int(split.scale, 1) { String::new() } else { format!("*{}", w.show(split.scale)) };
    format!("<{source}:{}{part}{scale}>", w.show(mark.extent))
}

fn show_all(w: &World, es: &[ExprId]) -> String {
    es.iter().map(|&e| w.show(e)).collect::<Vec<_>>().join(", ")
}

#[test]
fn iterator_maps() {
    check("iter_map.txt", 0.999, |fields| {
        let mut w = World::default();
        let mut analyzer = Analyzer::new();
        if fields[0] == "normal" {
            let domain = domain(&mut w, fields[1]);
            let e = w.parse(fields[2]);
            return match normalize_to_iter_sum(&mut w.arena, e, &domain, &mut analyzer) {
                Ok(map) => show_sum(&w, &map.marks, &map.indices[0]),
                Err(e) => e.to_string(),
            };
        }
        let level = match &fields[1][..1] {
            "b" => IterMapLevel::Bijective,
            "s" => IterMapLevel::Surjective,
            _ => IterMapLevel::NoCheck,
        };
        let trivial = &fields[1][1..] == "t";
        let domain = domain(&mut w, fields[2]);
        let predicate = w.parse(fields[3]);
        let indices: Vec<ExprId> = fields[4].split(", ").map(|e| w.parse(e)).collect();
        let detect = |w: &mut World, analyzer: &mut Analyzer| -> Option<IterMap> {
            detect_iter_map(&mut w.arena, &indices, &domain, predicate, level, analyzer, trivial).ok()
        };
        match fields[0] {
            "simplify" => {
                let a = &mut w.arena;
                let simple = iter_map_simplify(a, &indices, &domain, predicate, level, &mut analyzer, trivial);
                show_all(&w, &simple)
            }
            "detect" => match detect(&mut w, &mut analyzer) {
                Some(map) => map.indices.iter().map(|s| show_sum(&w, &map.marks, s)).collect::<Vec<_>>().join(" "),
                None => "no".into(),
            },
            "divide" => {
                let inner: Vec<_> = fields[5].chars().map(|c| w.var(&c.to_string())).collect();
                let a = &mut w.arena;
                let divided = subspace_divide(a, &indices, &domain, &inner, predicate, level, &mut analyzer, trivial);
                let Some(divided) = divided else { return "no".into() };
                let part = |p: &Part| match p {
                    Part::Split(split) => show_split(&w, &divided.marks, split),
                    Part::Sum(sum) => show_sum(&w, &divided.marks, sum),
                };
                let divisions: Vec<String> = divided
                    .divisions
                    .iter()
                    .map(|d| {
                        let (outer, inner) = (w.show(d.outer_extent), w.show(d.inner_extent));
                        format!("{}:{outer} {}:{inner}", part(&d.outer), part(&d.inner))
                    })
                    .collect();
                let (outer, inner) = (w.show(divided.outer_predicate), w.show(divided.inner_predicate));
                format!("{} ? {outer} ? {inner}", divisions.join(" "))
            }
            "inverse" => {
                let Some(map) = detect(&mut w, &mut analyzer) else { return "no map".into() };
                let outputs: Vec<ExprId> = "uvwxyz"
                    .chars()
                    .take(indices.len())
                    .map(|c| {
                        let v = w.var(&c.to_string());
                        w.arena.var_expr(v)
                    })
                    .collect();
                let inverse = match inverse_affine_iter_map(&mut w.arena, &map, &outputs) {
                    Ok(inverse) => inverse,
                    Err(e) => return e.to_string(),
                };
                let mut parts = Vec::new();
                for range in &domain {
                    if let Some(&(v, e)) = inverse.iter().find(|x| x.0 == range.var) {
                        let e = Analyzer::new().simplify(&mut w.arena, e);
                        parts.push(format!("{}={}", w.arena.var(v).name, w.show(e)));
                    }
                }
                parts.join(", ")
            }
            other => panic!("unknown kind of case `{other}`"),
        }
    });
}
