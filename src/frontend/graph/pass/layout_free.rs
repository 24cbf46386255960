//! Lists the weights of products and convolutions in the attribute `layout_free_buffers` of their prim_funcs, so that schedules may lay
//! them out anew, once for all calls of the graph.
//!
//! ```text
//! def matmul(x, w, y): …                        →    def matmul(x, w, y): T.func_attr({"layout_free_buffers": [1]}) …
//! y = R.call_tir(cls.matmul, (x, weight), …)
//! ```
//!
//! A parameter is listed if every call of the prim_func that depends on the inputs passes a weight, a constant or what follows from
//! these alone ([`constness`](crate::graph::constness)), and if a reduction over several operands reads it, or reads what the
//! prim_func computes from such parameters alone. Other prim_funcs read each element once, and a new layout would gain nothing. What
//! the text lists stays listed only if it is constant here.
//!
//! TVM: `AttachAttrLayoutFreeBuffers`, `src/relax/transform/attach_attr_layout_free_buffers.cc`.

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::constness::invariant_values;
use crate::graph::function::{Callee, Function, ValueId};
use crate::ir::preparation::{layout_free, set_layout_free};
use crate::ir::{BufferId, Func, IterKind, Symbol};
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass {
    name: "layout_free",
    doc: "Lists weights of products and convolutions, whose layout schedules may choose.",
    is_optional: true,
    run,
};

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let passed = constant_arguments(functions);
    for func in &mut module.funcs {
        let Some(is_constant) = passed.get(&func.name) else { continue };
        let buffer_at = |i: usize| func.params.get(i).and_then(|p| p.buffer);
        let constant: Vec<BufferId> =
            (0..is_constant.len()).filter(|&i| is_constant[i]).filter_map(buffer_at).collect();
        let (listed, operands) = (layout_free(func), operands_of_products(func, &constant));
        let is_free = |b: BufferId| constant.contains(&b) && (listed.contains(&b) || operands.contains(&b));
        let positions: Vec<usize> = (0..is_constant.len()).filter(|&i| buffer_at(i).is_some_and(is_free)).collect();
        set_layout_free(func, &positions);
    }
    Ok(())
}

/// For each prim_func that some call gives the inputs or what depends on them: whether all such calls pass weights, constants or what
/// follows from these, by the position of the argument.
fn constant_arguments(functions: &[Function]) -> HashMap<Symbol, Vec<bool>> {
    let mut all: HashMap<Symbol, Vec<bool>> = HashMap::new();
    for function in functions {
        let invariant = invariant_values(function);
        for call in function.order.iter().map(|&c| function.call(c)) {
            let (Callee::CallTir(name) | Callee::CallTirInplace(name)) = call.callee else { continue };
            if invariant[call.result.index()] {
                continue;
            }
            let tensors = |v: ValueId| std::iter::repeat_n(invariant[v.index()], function.ty(v).tensors().len());
            let here: Vec<bool> = call.inputs().flat_map(tensors).collect();
            all.entry(name)
                .and_modify(|known| {
                    known.truncate(here.len());
                    known.iter_mut().zip(&here).for_each(|(known, here)| *known &= here);
                })
                .or_insert(here);
        }
    }
    all
}

/// Those of the constant parameters that a reduction over several operands reads, or from which it reads what follows.
fn operands_of_products(func: &Func, constant: &[BufferId]) -> Vec<BufferId> {
    // The constant parameters from which each buffer follows, if it follows from them alone.
    let mut sources: HashMap<BufferId, Vec<BufferId>> = constant.iter().map(|&b| (b, vec![b])).collect();
    let (mut found, mut written) = (Vec::new(), Vec::new());
    for block in func.subtree(func.root.stmt()).into_iter().filter_map(|s| func.as_block(s)) {
        let node = func.block(block);
        let results: Vec<BufferId> = node.writes.iter().map(|w| w.buffer).collect();
        let mut operands: Vec<BufferId> = Vec::new();
        for read in node.reads.iter().filter(|r| !results.contains(&r.buffer)) {
            if !operands.contains(&read.buffer) {
                operands.push(read.buffer);
            }
        }
        let of_operands: Vec<BufferId> = operands.iter().filter_map(|b| sources.get(b)).flatten().copied().collect();
        let is_reduction = node.iters.iter().any(|i| i.kind == IterKind::Reduce);
        if is_reduction && operands.len() > 1 {
            found.extend(of_operands);
        } else if !is_reduction && block != func.root && operands.iter().all(|b| sources.contains_key(b)) {
            sources.extend(results.iter().map(|&b| (b, of_operands.clone())));
        }
        written.extend(results);
    }
    found.retain(|b| !written.contains(b));
    found
}
