//! `missing-init`: a reduction that starts with whatever its buffer contains.
//!
//! ```text
//! vi, vk = T.axis.remap("SR", [i, k])
//! C[vi] = C[vi] + A[vi, vk]
//! ```
//!
//! A *warning*: a block with a reduction iteration combines into an element of a buffer that nothing else in the
//! function stores to, and has no init. To accumulate into values of the caller, list the buffer among the reads of the
//! root block. In a buffer of the function itself, the initial contents are undefined.

use super::Context;
use super::leaf::{Leaf, Store};
use crate::diagnostic::{Diagnostic, Severity};
use crate::ir::{BufferId, Func, IterKind, Stmt};

pub(super) fn check(cx: &Context<'_>) -> Vec<Diagnostic> {
    let reductions = cx.leaves.iter().filter(|l| l.node(cx.func).init.is_none());
    let reductions = reductions.filter(|l| !l.iters(cx.func, IterKind::Reduce).is_empty());
    reductions.filter_map(|leaf| of_leaf(cx, leaf)).collect()
}

fn of_leaf(cx: &Context<'_>, leaf: &Leaf) -> Option<Diagnostic> {
    let func = cx.func;
    let node = leaf.node(func);
    let reduces = |s: &&Store| {
        let reductions = leaf.iters(func, IterKind::Reduce);
        s.accumulates(func) && !reductions.iter().any(|&i| s.place_uses(func, node.iters[i].var))
    };
    let goes_on = |buffer| func.block(func.root).reads.iter().any(|r| r.buffer == buffer);
    let update = leaf.stores.iter().find(reduces);
    let update = update.filter(|s| n_writers(func, s.buffer) == 1 && !goes_on(s.buffer))?;
    let name = func.arena.buffer(update.buffer).name;
    let place = cx.spans.stmt(leaf.block.stmt()).map_or(cx.spans.name, |s| s.name);
    let at_start = match func.param_of(update.buffer) {
        Some(_) => "what the caller left in it",
        None => "undefined contents",
    };
    let message = format!("block `{}` reduces into `{name}` without a `T.init`", node.name);
    let mut d = Diagnostic::error_at("missing-init", place, message)
        .mark(format!("begins with {at_start}"))
        .help("set the first value: `with T.init():` and a store to the same place".to_string());
    if let Some(store) = cx.spans.stmt(update.stmt) {
        d = d.label(store.name, "combines into this");
    }
    d.severity = Severity::Warning;
    Some(d)
}

/// The number of statements and views through which a buffer may be written.
fn n_writers(func: &Func, buffer: BufferId) -> usize {
    let all = func.subtree(func.root.stmt());
    let stores = all.iter().filter(|&&s| matches!(func.get(s), Stmt::Store { buffer: b, .. } if *b == buffer)).count();
    let blocks = all.iter().filter_map(|&s| func.as_block(s));
    let views = blocks.flat_map(|b| &func.block(b).matches).filter(|m| m.source.buffer == buffer).count();
    let calls = all.iter().filter(|&&s| matches!(func.get(s), Stmt::Evaluate(_))).count();
    stores + views + calls
}
