//! `reduction-store`, `init-place`: a reduction whose init does not set the element that the update accumulates into.
//!
//! ```text
//! with T.init():
//!     C[vi, vj] = 0.0
//! C[vi, vk] = C[vi, vk] + A[vi, vk] * B[vk, vj]     # vk reduces
//! ```
//!
//! The init runs once for all steps of a reduction, so all of them must combine into the one element that it sets. An
//! *error*: a plain update that combines into an element which a reduction iteration selects (`reduction-store`), or
//! which the plain init of its buffer does not set (`init-place`). The lint skips stores under conditions, in loops, or
//! to several elements, and blocks with a predicate.

use super::Context;
use super::leaf::{Leaf, Store};
use crate::diagnostic::Diagnostic;
use crate::ir::visit::vars_of;
use crate::ir::{Func, IterKind};

pub(super) fn check(cx: &Context<'_>) -> Vec<Diagnostic> {
    cx.leaves.iter().flat_map(|leaf| of_leaf(cx, leaf)).collect()
}

fn of_leaf(cx: &Context<'_>, leaf: &Leaf) -> Vec<Diagnostic> {
    let func = cx.func;
    let reductions = leaf.iters(func, IterKind::Reduce);
    if reductions.is_empty() || !leaf.always_runs(func) {
        return Vec::new();
    }
    let updates = leaf.stores.iter().filter(|s| s.is_plain && s.accumulates(func));
    updates.filter_map(|update| of_update(cx, leaf, &reductions, update)).collect()
}

fn of_update(cx: &Context<'_>, leaf: &Leaf, reductions: &[usize], update: &Store) -> Option<Diagnostic> {
    let func = cx.func;
    let mut inits = leaf.init.iter().filter(|s| s.buffer == update.buffer);
    let (Some(init), None) = (inits.next(), inits.next()) else { return None };
    if !init.is_plain || init.indices == update.indices || init.place_loads(func) || update.place_loads(func) {
        return None;
    }
    let node = leaf.node(func);
    let name = func.arena.buffer(update.buffer).name;
    let at = |store: &Store| cx.spans.stmt(store.stmt).map_or(cx.spans.name, |s| s.name);
    let chosen = reductions.iter().copied().find(|&i| update.place_uses(func, node.iters[i].var));
    if let Some(i) = chosen {
        let var = func.arena.var(node.iters[i].var).name;
        let message = format!("reduction iteration `{var}` chooses where block `{}` stores to `{name}`", node.name);
        let mut d = Diagnostic::error_at("reduction-store", at(update), message)
            .mark(format!("depends on `{var}`"))
            .label(at(init), "the init sets only this element, once for all steps")
            .help(format!("leave `{var}` out of the indices of `{name}`, or make it a spatial iteration"));
        if let Some(declared) = cx.spans.iter(leaf.block.stmt(), i) {
            d = d.label(declared, format!("`{var}` reduces"));
        }
        return Some(d);
    }
    if !is_surely_elsewhere(func, init, update) {
        return None;
    }
    let message =
        format!("the init of block `{}` sets another element of `{name}` than the update stores to", node.name);
    Some(
        Diagnostic::error_at("init-place", at(init), message)
            .label(at(update), "the update stores here")
            .help("use the same indices in both".to_string()),
    )
}

/// Whether two places differ in some instance. Simplified indices do, if they are different constants, or one depends
/// on a variable that the other does not mention.
fn is_surely_elsewhere(func: &Func, x: &Store, y: &Store) -> bool {
    x.indices.iter().zip(&y.indices).any(|(&x, &y)| {
        let a = &func.arena;
        if let (Some(x), Some(y)) = (a.as_int(x), a.as_int(y)) {
            return x != y;
        }
        let (of_x, of_y) = (vars_of(a, x), vars_of(a, y));
        // A variable alone takes all of its values; within an expression it may cancel out.
        a.as_var(x).is_some_and(|v| !of_y.contains(&v)) || a.as_var(y).is_some_and(|v| !of_x.contains(&v))
    })
}
