//! `shared-store`: a spatial iteration whose instances store different values to the same element.
//!
//! ```text
//! vi, vj, vk = T.axis.remap("SSS", [i, j, k])
//! C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]     # vk should be "R"
//! ```
//!
//! Instances of a spatial iteration may run in any order, concurrently, and repeatedly, so the result is any of their
//! values. A *warning*: the value of an unconditional store depends on the iteration, its indices do not. Only buffers
//! that all instances share are considered: parameters, and global ones that the root block allocates.

use super::Context;
use super::leaf::{Leaf, Store};
use crate::diagnostic::{Diagnostic, Severity};
use crate::ir::visit::uses_var;
use crate::ir::{BufferId, Func, IterKind};

pub(super) fn check(cx: &Context<'_>) -> Vec<Diagnostic> {
    cx.leaves.iter().flat_map(|leaf| leaf.stores.iter().filter_map(|store| of_store(cx, leaf, store))).collect()
}

fn of_store(cx: &Context<'_>, leaf: &Leaf, store: &Store) -> Option<Diagnostic> {
    let func = cx.func;
    if !store.is_plain || store.place_loads(func) || !is_shared(func, store.buffer) {
        return None;
    }
    let node = leaf.node(func);
    if leaf.iters(func, IterKind::Reduce).iter().any(|&i| store.place_uses(func, node.iters[i].var)) {
        // The mistake lies in the kinds of the iterations, or in the indices of the reduction.
        return None;
    }
    let i = leaf.iters(func, IterKind::Spatial).into_iter().find(|&i| {
        let var = node.iters[i].var;
        !store.place_uses(func, var) && uses_var(&func.arena, store.value, &mut |v| v == var)
    })?;
    let (var, name) = (func.arena.var(node.iters[i].var).name, func.arena.buffer(store.buffer).name);
    let place = cx.spans.stmt(store.stmt).map_or(cx.spans.name, |s| s.name);
    let message = format!("instances of block `{}` over spatial iteration `{var}` store to the same place", node.name);
    let help = if store.accumulates(func) {
        let kinds = leaf.kinds_with(func, i, 'R');
        format!("make `{var}` a reduction: `\"{kinds}\"` in `T.axis.remap`, or `T.axis.reduce`")
    } else {
        format!("index `{name}` by `{var}`, or leave the iteration out")
    };
    let mut d =
        Diagnostic::error_at("shared-store", place, message).mark(format!("does not depend on `{var}`")).help(help);
    if let Some(declared) = cx.spans.iter(leaf.block.stmt(), i) {
        d = d.label(declared, format!("`{var}` is spatial"));
    }
    d.severity = Severity::Warning;
    Some(d)
}

/// Whether all instances of a block under the root share the buffer.
fn is_shared(func: &Func, buffer: BufferId) -> bool {
    let is_global = func.arena.buffer(buffer).scope == "global" && func.block(func.root).allocs.contains(&buffer);
    func.param_of(buffer).is_some() || is_global
}
