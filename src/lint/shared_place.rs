//! `shared-store`: a spatial iteration over which instances store different values to one element.
//!
//!     vi, vj, vk = T.axis.remap("SSS", [i, j, k])
//!     C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]     # vk should be "R"
//!
//! Instances of a spatial iteration may run in any order, at the same time, and once more, so the result is any of them. A
//! *warning*: the value of an unconditional store follows the iteration, its place does not. Only buffers that all
//! instances share are looked at: parameters, and global ones that the root block allocates.

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
        // The slip is which of the iterations reduces, or where the reduction stores.
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

/// Is the buffer one for all instances of a block under the root?
fn is_shared(func: &Func, buffer: BufferId) -> bool {
    let is_global = func.arena.buffer(buffer).scope == "global" && func.block(func.root).allocs.contains(&buffer);
    func.param_of(buffer).is_some() || is_global
}
