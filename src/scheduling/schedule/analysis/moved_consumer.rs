//! Checks that a consumer moved to its producers still does all its work, and reductions only once.
//!
//! Under a loop of its producers a consumer runs, in each iteration, the instances that read the elements written
//! there. TVM requires no more, but six mistakes are possible, and are refused here:
//! * an instance that reads no element inside the buffers (padding) would not run at all;
//! * a predicate that is stricter than the domains of the iteration variables would be dropped;
//! * instances of an output block would run that its loops excluded;
//! * a reduction would add a value again in each iteration that runs its instance;
//! * steps of a reduction would run at the same time;
//! * an instance would read a partially written tile, or an unfinished reduction.

use super::super::error::{ErrorKind, ScheduleError};
use super::super::state::State;
use super::affine::{are_affine, domain, repeat};
use super::block_class::is_output_block;
use super::guard::{bound_around, is_inside, may_cover_domains, predicate_follows};
use super::iter_domain::{IterDomain, Regions};
use super::linear::Linear;
use super::region_bound::strict_bound;
use super::tree;
use crate::arith::int_set::{self, IntSet};
use crate::arith::{Analyzer, VarRange};
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, BinOp, BlockId, BufferId, CmpOp, ExprId, Func, IterKind, LoopId, LoopKind, Substitution, VarId,
};

/// A block with its new position under a loop.
pub(crate) struct MovedConsumer<'a> {
    /// The block.
    pub block: BlockId,
    /// The loop.
    pub target: LoopId,
    /// The new bindings.
    pub values: &'a [ExprId],
    /// The new predicate.
    pub predicate: ExprId,
    /// The new loops.
    pub loops: &'a [(VarId, ExprId)],
    /// The values of the iteration variables in an iteration of the loop.
    pub domains: &'a [IterDomain],
    /// The regions that the producers write in an iteration of the loop.
    pub required: &'a Regions,
    /// The producers.
    pub producers: &'a [BlockId],
}

impl MovedConsumer<'_> {
    /// Whether the new bindings stay among the values of the old ones. A block in an inner scope need not take all
    /// values of the domains of its iteration variables; they may be restricted by variables of the enclosing blocks.
    fn runs_old_instances(&self, func: &mut Func, scope: BlockId) -> bool {
        let old_loops: Vec<VarRange> =
            func.loops_above(self.block.stmt()).into_iter().map(|l| domain(func, l)).collect();
        let node = func.block(self.block);
        let (iters, predicate) = (node.iters.clone(), node.predicate);
        let mut around = func.loops_above(self.target.stmt());
        around.push(self.target);
        let mut new_loops: Vec<(VarId, IntSet)> = Vec::with_capacity(around.len() + self.loops.len());
        for l in around {
            let range = domain(func, l);
            new_loops.push((range.var, IntSet::from_range(&mut func.arena, range.min, range.extent)));
        }
        let mut analyzer = bound_around(func, scope.stmt());
        let a = &mut func.arena;
        for &(var, extent) in self.loops {
            let zero = a.int(0, a.dtype(extent));
            new_loops.push((var, IntSet::from_range(a, zero, extent)));
        }
        iters.iter().zip(self.values).all(|(i, &value)| {
            let one = a.int(1, a.dtype(i.value));
            let Some(old) = strict_bound(a, &[(i.value, one)], &old_loops, predicate) else { return false };
            let new = int_set::eval_set(a, value, &new_loops);
            let ends = (old[0].lower(), new.lower(), new.upper(), old[0].upper());
            let (Some(first), Some(low), Some(high), Some(last)) = ends else { return false };
            let (starts, ends) = (a.compare(CmpOp::Le, first, low), a.compare(CmpOp::Le, high, last));
            analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
        })
    }

    /// # Errors
    ///
    /// If the block would not do the same work as before.
    pub(crate) fn check(&self, state: &mut State, scope: BlockId) -> Result<(), ScheduleError> {
        let block = state.func.block(self.block).name;
        if !self.keeps_all_instances(&mut state.func) {
            return Err(state.error(ErrorKind::LostInstances { block }, self.block));
        }
        if is_output_block(&state.func, self.block, scope) {
            if !predicate_follows(&mut state.func, self.block) {
                return Err(state.error(ErrorKind::LostPredicate { block }, self.block));
            }
            let iters = state.func.block(self.block).iters.clone();
            let runs_before = may_cover_domains(&mut state.func, self.block, &iters);
            if !runs_before && !self.runs_old_instances(&mut state.func, scope) {
                return Err(state.error(ErrorKind::NewInstances { block }, self.block));
            }
        }
        if !self.reduces_once(&mut state.func) {
            return Err(state.error(ErrorKind::RepeatedReduction { block }, self.block));
        }
        if let Some(l) = self.parallel_reduction(&state.func) {
            let loop_name = state.func.arena.var(state.func.loop_(l).var).name;
            return Err(state.error(ErrorKind::ParallelReduction { block, loop_name }, l));
        }
        if let Some(buffer) = self.reads_unfinished(&state.func).or_else(|| self.reads_early(&mut state.func)) {
            let buffer = state.func.arena.buffer(buffer).name;
            return Err(state.error(ErrorKind::EarlyRead { block, buffer }, self.block));
        }
        Ok(())
    }

    /// A loop whose iterations may run at the same time and would reduce into the same element.
    fn parallel_reduction(&self, func: &Func) -> Option<LoopId> {
        let iters = &func.block(self.block).iters;
        tree::loop_path(func, self.target.stmt(), None, None).into_iter().find(|&l| {
            let node = func.loop_(l);
            let concurrent = matches!(node.kind, LoopKind::Parallel | LoopKind::Vectorized);
            let drives = |e: ExprId| uses_var(&func.arena, e, &mut |v| v == node.var);
            concurrent && iters.iter().zip(self.values).any(|(i, &e)| i.kind != IterKind::Spatial && drives(e))
        })
    }

    /// A buffer with an unfinished reduction: only one of several iterations in which a producer reduces into an
    /// element runs the instance that reads it. An instance that runs in all steps of the element's reduction ends with
    /// the right value.
    fn reads_unfinished(&self, func: &Func) -> Option<BufferId> {
        let path = tree::loop_path(func, self.target.stmt(), None, None);
        self.producers.iter().find_map(|&p| {
            let iters = &func.block(p).iters;
            let drives = |l: LoopId| {
                let var = func.loop_(l).var;
                let mut steps = iters.iter().filter(|i| i.kind == IterKind::Reduce);
                steps.any(|i| uses_var(&func.arena, i.value, &mut |v| v == var))
            };
            let steps: Vec<VarId> = path
                .iter()
                .filter(|&&l| !func.arena.is_int(func.loop_(l).extent, 1) && drives(l))
                .map(|&l| func.loop_(l).var)
                .collect();
            // The producer's element stays the same while its reduction continues.
            let elements: Vec<ExprId> = iters.iter().filter(|i| i.kind == IterKind::Spatial).map(|i| i.value).collect();
            let unfinished = self.values.iter().any(|&v| uses_beyond(&func.arena, v, &steps, &elements));
            unfinished.then(|| func.block(p).writes.first().map(|w| w.buffer)).flatten()
        })
    }

    /// A buffer of the producers for which an instance reads a tile that exceeds the region written in an iteration of
    /// the loop. The new bindings were solved for single elements.
    fn reads_early(&self, func: &mut Func) -> Option<BufferId> {
        let node = func.block(self.block);
        let (iters, reads) = (node.iters.clone(), node.reads.clone());
        let a = &mut func.arena;
        let mut bindings = Substitution::of_vars(iters.iter().zip(self.values).map(|(i, &v)| (i.var, v)));
        let mut analyzer = Analyzer::new();
        let mut ranges: Vec<(VarId, IntSet)> = Vec::with_capacity(self.loops.len());
        for &(var, extent) in self.loops {
            let zero = a.int(0, a.var(var).dtype);
            analyzer.bind(a, var, zero, extent);
            ranges.push((var, IntSet::from_range(a, zero, extent)));
        }
        for r in reads {
            let written = self.required.iter().find(|(b, sets)| *b == r.buffer && !sets.is_empty());
            let Some((_, written)) = written else { continue };
            let region: Vec<(ExprId, ExprId)> = r.ranges(a).collect();
            let shape = a.list(a.buffer(r.buffer).shape).to_vec();
            for (d, &(min, extent)) in region.iter().enumerate() {
                if a.is_int(extent, 1) {
                    continue;
                }
                let first = bindings.apply(a, min);
                let extent = bindings.apply(a, extent);
                let whole = int_set::eval_range(a, first, extent, &ranges);
                let zero = a.int(0, a.dtype(shape[d]));
                let inside = written.iter().any(|sets| {
                    let (Some(low), Some(high)) = (sets[d].lower(), sets[d].upper()) else { return true };
                    let (Some(from), Some(to)) = (whole.lower(), whole.upper()) else { return false };
                    let last = a.add_const(shape[d], -1);
                    let (from, to) = (a.binary(BinOp::Max, from, zero), a.binary(BinOp::Min, to, last));
                    let (starts, ends) = (a.compare(CmpOp::Ge, from, low), a.compare(CmpOp::Le, to, high));
                    analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends)
                });
                if !inside {
                    return Some(r.buffer);
                }
            }
        }
        None
    }

    /// Whether every instance still runs. Since the producers cover the block's reads, an instance runs if one of its
    /// reads is of a buffer that they write, and inside it.
    fn keeps_all_instances(&self, func: &mut Func) -> bool {
        let iters = func.block(self.block).iters.clone();
        let a = &mut func.arena;
        let whole: Vec<(VarId, IntSet)> =
            iters.iter().map(|i| (i.var, IntSet::from_range(a, i.min, i.extent))).collect();
        let all_run = self
            .domains
            .iter()
            .zip(&iters)
            .all(|(domain, i)| domain.bound.is_nothing() && domain.dom.match_range(a, i.min, i.extent));
        if all_run {
            return true;
        }
        let reads = func.block(self.block).reads.clone();
        reads
            .iter()
            .filter(|r| self.required.iter().any(|(buffer, sets)| *buffer == r.buffer && !sets.is_empty()))
            .any(|read| is_inside(&mut func.arena, read, &whole))
    }

    /// Whether reductions add each value once. A reduction whose variables take all values of their domains inside the
    /// loop starts again in each iteration. One that is distributed over outer loops must run each of its instances
    /// once between two starts.
    fn reduces_once(&self, func: &mut Func) -> bool {
        let iters = func.block(self.block).iters.clone();
        if iters.iter().all(|i| i.kind == IterKind::Spatial) {
            return true;
        }
        let path = tree::loop_path(func, self.target.stmt(), None, None);
        let uses = |func: &Func, value: ExprId, l: LoopId| {
            let var = func.loop_(l).var;
            uses_var(&func.arena, value, &mut |v| v == var)
        };
        let spread = path.iter().rposition(|&l| {
            iters.iter().zip(self.values).any(|(i, &v)| i.kind != IterKind::Spatial && uses(func, v, l))
        });
        let Some(outermost) = spread else { return true };
        let unused = path[..outermost]
            .iter()
            .any(|&l| !func.arena.is_int(func.loop_(l).extent, 1) && !self.values.iter().any(|&v| uses(func, v, l)));
        let domains: Vec<VarRange> = path.iter().map(|&l| domain(func, l)).collect();
        let a = &mut func.arena;
        let new = self.loops.iter().map(|&(v, extent)| {
            let zero = a.int(0, a.var(v).dtype);
            VarRange { var: v, min: zero, extent }
        });
        let new: Vec<VarRange> = new.collect();
        // The reduction is distributed over the loops from the outermost on, each iteration of which starts it again.
        let spread: Vec<VarRange> = domains[..=outermost].iter().chain(&new).copied().collect();
        let domains: Vec<VarRange> = domains.into_iter().chain(new).collect();
        !unused
            && !self.values.iter().any(|&v| overlaps(a, v, &domains))
            && are_affine(a, self.values, &domains, self.predicate)
            && !repeat(a, self.values, &spread, self.predicate)
    }
}

/// Whether the expression uses one of the variables outside the `known` parts.
fn uses_beyond(a: &Arena, e: ExprId, vars: &[VarId], known: &[ExprId]) -> bool {
    if known.contains(&e) {
        return false;
    }
    if let Some(v) = a.as_var(e) {
        return vars.contains(&v);
    }
    let mut found = false;
    a.for_each_child(e, |c| found |= uses_beyond(a, c, vars, known));
    found
}

/// Whether the value is a sum for which several iterations give the same value, as `i * 3 + j` does for `j` up to 5.
fn overlaps(a: &Arena, value: ExprId, domains: &[VarRange]) -> bool {
    let Some(linear) = Linear::of(a, value) else { return false };
    let mut terms: Vec<(i64, i64)> = Vec::with_capacity(linear.terms.len());
    for &(var, coeff) in &linear.terms {
        let Some(n) = domains.iter().find(|d| d.var == var).and_then(|d| a.as_int(d.extent)) else { return false };
        if n > 1 {
            terms.push((coeff.saturating_abs(), n));
        }
    }
    terms.sort_unstable();
    let mut reach = 0i64;
    terms.into_iter().any(|(coeff, n)| {
        let clash = coeff <= reach;
        reach = reach.saturating_add(coeff.saturating_mul(n - 1));
        clash
    })
}
