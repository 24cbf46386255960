//! Makes one prim_func of calls whose intermediate values nothing else reads.
//!
//! ```text
//! a = R.call_tir(cls.matmul, (x, w), …)
//! b = R.call_tir(cls.add, (a, bias), …)     →    c = R.call_tir(cls.fused_matmul_add_relu, (x, w, bias), …)
//! c = R.call_tir(cls.relu, (b,), …)
//! ```
//!
//! A call joins the one before it if it computes each element from the element of the same indices of that one's result, or if both
//! only rearrange and combine elements, without reductions. So do calls that read a value in several places and meet again
//! ([`diamond`]). A reduction joins what feeds it where that pays ([`prologue`]). What makes
//! floats of bytes stays with its reader where that saves memory ([`bytes`](mod@bytes)). The blocks
//! stay as they are, and schedules inline them or compute them where the others do.
//!
//! What follows from weights and constants alone is computed once for all calls of the graph (`constness`), so it does not join
//! what depends on the inputs, but for cheap conversions to wider types; invariant calls join each other. Fills, such as `R.zeros`, join
//! what else they feed: computing their elements is cheaper than reading them.

mod bytes;
mod diamond;
mod prologue;

use super::{Context, GraphModule, Pass};
use crate::diagnostic::Diagnostic;
use crate::graph::constness::{invariant_values, is_fill};
use crate::graph::function::{Arg, CallId, Callee, Function, ValueId};
use crate::graph::lower::Library;
use crate::ir::graft::Graft;
use crate::ir::{AttrValue, BlockId, BufferId, DType, Func, IterKind, Module, Param, Stmt, StmtId, Symbol};
use bytes::Bytes;
use diamond::Diamonds;
use prologue::Cost;
use std::collections::{HashMap, HashSet};

pub(super) const PASS: Pass = Pass {
    name: "fuse",
    doc: "Makes one prim_func of calls whose intermediate values nothing else reads.",
    is_optional: true,
    run,
};

/// At most this many calls become one: schedules of longer chains take long to search.
const MAX_CALLS: usize = 12;

fn run(module: &mut GraphModule, _: &Context) -> Result<(), Vec<Diagnostic>> {
    let GraphModule { module, functions } = module;
    let mut library = Library::of(module);
    for function in functions {
        for group in groups(function, module) {
            if group.len() > 1
                && let Some((func, inputs)) = fused(function, module, &group)
            {
                let name = library.add(module, func);
                let tail = group[group.len() - 1];
                let call = &mut function.calls[tail.index()];
                call.callee = Callee::CallTir(name);
                call.args = vec![Arg::Values(inputs)];
                function.order.retain(|c| *c == tail || !group.contains(c));
            }
        }
    }
    Ok(())
}

/// The calls of prim_funcs in groups, each in order; the last one gives the result.
fn groups(function: &Function, module: &Module) -> Vec<Vec<CallId>> {
    let mut uses: HashMap<ValueId, usize> = HashMap::new();
    for v in function.order.iter().flat_map(|&c| function.call(c).inputs()).chain(function.output.values()) {
        *uses.entry(v).or_default() += 1;
    }
    let outputs = function.output.values();
    let invariant = invariant_values(function);
    let is_invariant = |c: CallId| invariant[function.call(c).result.index()];
    let narrow = Bytes::of(function, module);
    let diamonds = Diamonds::of(function, module);
    // Where bytes change places with others, the copy is worth a kernel of its own, in squares.
    let cost_of = |c: CallId| {
        let func = fusible(function, module, c)?;
        let block = rearranges(func).filter(|&b| !prologue::crosses_bytes(func, b))?;
        Some(prologue::cost(func, block))
    };
    // Calls that are in a group before their turn.
    let mut taken: HashSet<CallId> = HashSet::new();
    let mut groups: Vec<Vec<CallId>> = Vec::new();
    // The group of a call that is its last one, by the result.
    let mut open: HashMap<ValueId, usize> = HashMap::new();
    // The cost of the elements of a group, if it only rearranges and combines elements.
    let mut injective: HashMap<usize, Cost> = HashMap::new();
    for &c in &function.order {
        let call = function.call(c);
        let Some(func) = fusible(function, module, c).filter(|_| !taken.contains(&c)) else { continue };
        let inputs: Vec<ValueId> = call.inputs().collect();
        let simple = rearranges(func);
        // A fill is the last choice, so that it does not keep the call from joining what depends on the inputs.
        let mut producers: Vec<(usize, &ValueId)> = inputs.iter().enumerate().collect();
        producers.sort_by_key(|(_, v)| invariant[v.index()] && !invariant[call.result.index()]);
        let joined = producers.into_iter().find_map(|(i, v)| {
            let &group = open.get(v)?;
            let is_only =
                uses.get(v).copied() == Some(inputs.iter().filter(|o| *o == v).count()) && !outputs.contains(v);
            let recurs = !invariant[v.index()] || invariant[call.result.index()] || is_fill(function, *v);
            let fits = match (simple, injective.get(&group)) {
                (Some(_), _) if narrow.are_read_later(c) => false,
                (None, Some(_)) if !narrow.may_be_read_by_sum(*v, &groups[group]) => false,
                (Some(block), feeding) => recurs && (reads_in_place(func, block, i) || feeding.is_some()),
                (None, Some(&cost)) if recurs => prologue::pays(func, i, cost),
                (None, Some(&cost)) => prologue::pays_for_weights(func, i, cost, bytes(function, &groups[group])),
                (None, None) => false,
            };
            (is_only && fits && groups[group].len() < MAX_CALLS).then_some((group, *v))
        });
        let cost = cost_of(c);
        let (group, cost) = match joined {
            Some((group, v)) => {
                open.remove(&v);
                groups[group].push(c);
                (group, injective.remove(&group).zip(cost).map(|(before, cost)| cost.max(before)))
            }
            None => {
                groups.push(vec![c]);
                (groups.len() - 1, cost)
            }
        };
        injective.extend(cost.map(|cost| (group, cost)));
        // What else feeds the call, and nothing else, may become part of it, too.
        for (i, v) in inputs.iter().enumerate() {
            let is_only = uses.get(v).copied() == Some(1) && !outputs.contains(v);
            let Some(&other) = open.get(v).filter(|&&other| is_only && other != group) else { continue };
            let Some(&cost) = injective.get(&other) else { continue };
            let fits = match simple {
                Some(_) => narrow.stands_for_bytes(*v),
                None => {
                    let is_wide = narrow.may_be_read_by_sum(*v, &groups[other]);
                    cost == Cost::Move && is_wide && prologue::pays(func, i, cost)
                }
            };
            let recur_alike = invariant[v.index()] == invariant[call.result.index()];
            if !fits || !recur_alike || groups[group].len() + groups[other].len() > MAX_CALLS {
                continue;
            }
            open.remove(v);
            injective.remove(&other);
            injective.entry(group).and_modify(|own| *own = cost.max(*own));
            let fed = std::mem::take(&mut groups[other]);
            groups[group].splice(0..0, fed);
        }
        // What reads the result in several places and meets again becomes part of it.
        let mut result = call.result;
        while let Some(calls) = diamonds.behind(result, &narrow) {
            // Values whose readers meet in the same call compete for them: the first one has them.
            let are_free = calls.iter().all(|c| !taken.contains(c));
            let fits = are_free && groups[group].len() + calls.len() <= MAX_CALLS;
            let Some(&last) = calls.last().filter(|&&last| fits && invariant[result.index()] == is_invariant(last))
            else {
                break;
            };
            let mut costs = calls.iter().map(|&c| cost_of(c));
            let cost = injective.remove(&group).and_then(|first| costs.try_fold(first, |a, b| Some(a.max(b?))));
            injective.extend(cost.map(|cost| (group, cost)));
            taken.extend(&calls);
            groups[group].extend(calls);
            result = function.call(last).result;
        }
        open.insert(result, group);
    }
    groups
}

/// The prim_func of a call that may be fused with others: one result, a tensor, and all arguments buffers.
fn fusible<'m>(function: &Function, module: &'m Module, c: CallId) -> Option<&'m Func> {
    let call = function.call(c);
    let Callee::CallTir(name) = call.callee else { return None };
    let func = module.func(name.as_str()).filter(|f| is_plain(f))?;
    let is_one = call.args.len() == 1 && function.ty(call.result).as_tensor().is_some();
    (is_one && call.inputs().count() + 1 == func.params.len()).then_some(func)
}

/// The size of what a group of calls reads.
fn bytes(function: &Function, group: &[CallId]) -> usize {
    let results: Vec<ValueId> = group.iter().map(|&c| function.call(c).result).collect();
    let mut inputs: Vec<ValueId> = group.iter().flat_map(|&c| function.call(c).inputs()).collect();
    inputs.sort_unstable();
    inputs.dedup();
    let size = |v: ValueId| -> Option<usize> {
        let ty = function.ty(v).as_tensor()?;
        let n = ty.constant_shape(&function.arena)?.iter().product::<i64>();
        usize::try_from(n).ok()?.checked_mul(ty.dtype?.bytes())
    };
    let outside = inputs.into_iter().filter(|v| !results.contains(v));
    outside.map(|v| size(v).unwrap_or(usize::MAX)).fold(0, usize::saturating_add)
}

/// Whether the function's parameters are buffers, and its root block holds nothing but allocations.
fn is_plain(func: &Func) -> bool {
    let root = func.block(func.root);
    func.params.iter().all(|p| p.buffer.is_some())
        && root.matches.is_empty()
        && root.annotations.is_empty()
        && root.init.is_none()
        && func.returns.is_none()
}

/// The block of a function that has one, without reductions.
fn rearranges(func: &Func) -> Option<BlockId> {
    let [block] = func.child_blocks(func.root.stmt())[..] else { return None };
    let node = func.block(block);
    let is_spatial = node.iters.iter().all(|i| i.kind == IterKind::Spatial) && node.init.is_none();
    let is_one = matches!(&node.body[..], [s] if matches!(func.get(*s), Stmt::Store { .. })) && node.writes.len() == 1;
    (is_spatial && is_one && func.block(func.root).allocs.is_empty()).then_some(block)
}

/// Whether a block reads a parameter at the indices that it writes, and nowhere else.
fn reads_in_place(func: &Func, block: BlockId, param: usize) -> bool {
    let node = func.block(block);
    let Some(buffer) = func.params[param].buffer else { return false };
    let shape = |b: BufferId| func.arena.list(func.arena.buffer(b).shape);
    let is_it = |r: &&crate::ir::BufferRegion| r.buffer == buffer;
    let mut reads = node.reads.iter().filter(is_it);
    match (reads.next(), reads.next(), &node.writes[..]) {
        (Some(read), None, [write]) => {
            let same_shape = shape(buffer)
                .iter()
                .zip(shape(write.buffer))
                .all(|(&a, &b)| func.arena.as_int(a).is_some() && func.arena.as_int(a) == func.arena.as_int(b));
            // Where the extent is 1, the index may be written as 0.
            let mins = func.arena.list(read.mins).iter().zip(func.arena.list(write.mins)).zip(shape(buffer));
            let same_place = mins.into_iter().all(|((&r, &w), &extent)| r == w || func.arena.is_int(extent, 1));
            same_place && same_shape && shape(buffer).len() == shape(write.buffer).len()
        }
        _ => false,
    }
}

/// One function of the calls, and the values that it reads.
fn fused(function: &Function, module: &Module, group: &[CallId]) -> Option<(Func, Vec<ValueId>)> {
    let mut out = Func::new("fused");
    out.private = true;
    out.s_tir = true;
    out.attrs.insert("tirx.noalias", AttrValue::Bool(true));
    let mut buffers: HashMap<ValueId, BufferId> = HashMap::new();
    let mut inputs: Vec<ValueId> = Vec::new();
    let (mut allocs, mut body) = (Vec::new(), crate::ir::Body::new());
    let mut name = String::from("fused");
    let tail = function.call(group[group.len() - 1]).result;
    for &c in group {
        let call = function.call(c);
        let Callee::CallTir(callee) = call.callee else { return None };
        let func = module.func(callee.as_str())?;
        name.push('_');
        name.push_str(callee.as_str().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_'));
        let mut graft = Graft::new(func);
        for (v, param) in call.inputs().chain([call.result]).zip(&func.params) {
            let theirs = param.buffer?;
            let ours = match buffers.get(&v) {
                Some(&known) => {
                    // The same elements by another layout are no plain buffer.
                    let (a, b) = (func.arena.buffer(theirs), out.arena.buffer(known));
                    let extents = |arena: &crate::ir::Arena, l| -> Vec<Option<i64>> {
                        arena.list(l).iter().map(|&e| arena.as_int(e)).collect()
                    };
                    if extents(&func.arena, a.shape) != extents(&out.arena, b.shape) || a.dtype != b.dtype {
                        return None;
                    }
                    known
                }
                None => {
                    let ours = graft.buffer(&mut out, theirs);
                    buffers.insert(v, ours);
                    if v == call.result {
                        if v != tail {
                            allocs.push(ours);
                        }
                    } else {
                        inputs.push(v);
                    }
                    ours
                }
            };
            graft.set_buffer(theirs, ours);
        }
        let root = func.block(func.root).clone();
        allocs.extend(root.allocs.iter().map(|&b| graft.buffer(&mut out, b)));
        body.extend(graft.body(&mut out, &root.body));
    }
    for v in inputs.iter().copied().chain([tail]) {
        let buffer = *buffers.get(&v)?;
        let var = out.arena.new_var(out.arena.buffer(buffer).name, DType::Handle);
        out.params.push(Param { var, buffer: Some(buffer) });
    }
    let root = out.root;
    out.set_body(root.stmt(), body);
    out.block_mut(root).allocs = allocs;
    rename_blocks(&mut out);
    out.name = Symbol::new(&name);
    Some((out, inputs))
}

/// Gives blocks of one name different ones, as schedules need.
fn rename_blocks(func: &mut Func) {
    let mut taken: Vec<Symbol> = Vec::new();
    let all: Vec<StmtId> = func.subtree(func.root.stmt());
    let blocks: Vec<BlockId> = all.into_iter().filter_map(|s| func.as_block(s)).collect();
    for block in blocks {
        let name = func.block(block).name;
        let numbered = (1..).map(|i| name.with_suffix(&format!("_{i}")));
        let free = std::iter::once(name).chain(numbered).find(|n| !taken.contains(n)).unwrap_or(name);
        taken.push(free);
        if free != name {
            func.block_mut(block).name = free;
        }
    }
}
