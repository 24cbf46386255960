//! The reference: the right results of a workload.
//!
//! The program as written computes them on a plain path, which shares no pass with candidates: `lower_reference` carries
//! floats as `float64` and keeps the loops, `compile_plain` makes scalar code. The interpreter confirms a few hundred
//! elements. All this runs on a thread of its own. References that took long are kept in the work directory.

#![expect(clippy::disallowed_methods, reason = "the reference has a time limit")]

use super::sampling::{Sampling, with_elements};
use crate::codegen::{self, RunContext};
use crate::ir::interp::{Options, Precision};
use crate::ir::stmt::IterKind;
use crate::ir::{DType, Func, LoopId, Symbol};
use crate::loopir::Kernel;
use crate::lower::{Bounds, LowerError, lower_bounds, lower_reference};
use crate::measure::{
    Arguments, Executable, Intervals, IntervalsJob, Loaded, ParamSpec, Reference, ReferenceCache, ReferenceError,
    ReferenceKey, SpotCheck, Tolerance,
};
use crate::schedule::Schedule;
use crate::schedule::arg::{Rv, RvValue};
use crate::search::isolated;
use crate::stop::StopFlag;
use crate::workload::Workload;
use std::sync::{Arc, Mutex};

/// Elements that the interpreter confirms.
const SPOTS: usize = 300;
/// Stores that it may make for them: about a second, on a thread that nobody waits for.
const SPOT_STEPS: u64 = 20_000_000;

/// The plain kernel of a workload.
///
/// It is not optimised, except that the last spatial loop of each reduction is moved inside the reduction loops if that is
/// allowed: programs that access memory in the wrong order would take several times as long. The interpreter, which
/// confirms results, runs the program without this change.
///
/// Once `stop` is raised, the remaining blocks stay as they are: nobody will use the result.
pub(crate) fn plain(workload: &Workload, stop: StopFlag) -> Result<Plain, LowerError> {
    let mut schedule = Schedule::new(&workload.module, 0).until(stop);
    let func = workload.func();
    let names: Vec<Symbol> = func.blocks().iter().filter(|&&b| b != func.root).map(|&b| func.block(b).name).collect();
    for name in names {
        // A block that is nested, or not found by its name, stays as it is.
        let _ = move_spatial_inside(&mut schedule, name.as_str());
    }
    let func = schedule.func(0).clone();
    Ok(Plain { kernel: lower_reference(&func)?, func })
}

/// The program that computes reference values.
pub(crate) struct Plain {
    pub kernel: Kernel,
    func: Func,
}

fn move_spatial_inside(schedule: &mut Schedule, name: &str) -> Option<()> {
    let block = schedule.get_block(name, crate::workload::NAME).ok()?;
    let Ok(RvValue::Block(f, id)) = schedule.value(block) else { return None };
    let func = schedule.func(f);
    let loops = func.loops_above(id.stmt());
    let kind_of = |l: &LoopId| {
        let var = func.loop_(*l).var;
        func.block(id).iters.iter().find(|i| func.arena.as_var(i.value) == Some(var)).map(|i| i.kind)
    };
    let kinds: Vec<Option<IterKind>> = loops.iter().map(kind_of).collect();
    let last = kinds.iter().rposition(|k| *k == Some(IterKind::Spatial))?;
    let is_reduction = |k: &Option<IterKind>| *k == Some(IterKind::Reduce);
    if last + 1 == kinds.len() || !kinds[last + 1..].iter().all(is_reduction) {
        return None;
    }
    let handles = schedule.get_loops(block).ok()?;
    let order: Vec<Rv> = handles[last + 1..].iter().chain([&handles[last]]).copied().collect();
    schedule.reorder(&order).ok()
}

/// The inputs from which a reference is computed.
pub(crate) struct Job {
    pub func: Func,
    pub plain: Plain,
    pub specs: Vec<ParamSpec>,
    pub seed: u64,
    /// The place where the reference may be kept.
    pub cache: Option<(ReferenceCache, ReferenceKey)>,
    /// The context that the program runs in; its flag stops the run.
    pub context: Arc<Mutex<RunContext>>,
    /// Ends the work before and after the run.
    pub stop: StopFlag,
}

impl Job {
    /// The reference that an earlier run kept.
    pub(crate) fn kept(&self) -> Option<Reference> {
        let (cache, key) = self.cache.as_ref()?;
        let kept = cache.load(*key, &self.specs, &vec![Tolerance::EXACT; self.specs.len()])?;
        Some(self.judging(kept))
    }

    /// Adds the errors that a right program may have: tolerances, and intervals of the results.
    fn judging(&self, reference: Reference) -> Reference {
        let bounds = isolated(|| lower_bounds(&self.plain.func)).ok().and_then(Result::ok).flatten();
        let Some(bounds) = bounds else { return toleranced(reference, &self.func, &self.specs) };
        // Roundings of half precision may add up to more than a fault changes. There, a result is only accepted without
        // its interval if it is as near as one rounding.
        let rounds_often = self.func.arena.buffer_ids().any(|b| self.func.arena.buffer(b).dtype.is_half());
        let reference = toleranced(reference, &self.func, &self.specs);
        let narrow = if rounds_often {
            let narrow = |(s, bytes): (&ParamSpec, &Vec<u8>)| {
                let t = Tolerance::of(s.dtype, 1);
                let scale = if bytes.is_empty() { 1.0 } else { root_mean_square(s, bytes).min(1.0) };
                Tolerance { absolute: t.absolute * scale, ..t }
            };
            self.specs.iter().zip(reference.outputs()).map(narrow).collect()
        } else {
            reference.tolerances().to_vec()
        };
        let sampling = Sampling::new(&self.func, &self.specs, self.seed, &reference, &narrow);
        reference.with_intervals(self.intervals(bounds, sampling), narrow)
    }

    /// The interval of each element: results outside of it are wrong.
    fn intervals(&self, bounds: Bounds, sampling: Sampling) -> IntervalsJob {
        let (specs, seed, context) = (self.specs.clone(), self.seed, self.context.clone());
        IntervalsJob::new(move || {
            let started = std::time::Instant::now();
            let compiled =
                isolated(|| codegen::compile_plain(&bounds.kernel).map_err(|e| e.to_string())).and_then(|r| r);
            let found = compiled.and_then(|code| {
                let loaded = Loaded::new(code, context, 1);
                Intervals::compute(&specs, seed, &bounds.ends, |args| loaded.run(args))
            });
            let found = found.map(|found| {
                let spreads = isolated(|| sampling.spreads()).unwrap_or_default();
                found.with_samples(spreads, sampling.ranges())
            });
            tracing::debug!(
                "intervals of results: {:?}, {:.3} s",
                found.as_ref().err(),
                started.elapsed().as_secs_f64()
            );
            found.ok()
        })
    }

    /// Computes the reference, and keeps it if `worth` returns true.
    pub(crate) fn compute(self, worth: impl FnOnce() -> bool) -> Result<Reference, ReferenceError> {
        let args = Arguments::until(&self.specs, self.seed, &self.stop)?;
        let compiled = isolated(|| codegen::compile_plain(&self.plain.kernel).map_err(|e| e.to_string()));
        let compiled = compiled.and_then(|r| r).map_err(ReferenceError::Run)?;
        let loaded = Loaded::new(compiled, self.context.clone(), 1);
        // Both are exact except for the last rounding; the order of a sum changes far less than that in float64.
        let near: Vec<Tolerance> = self.specs.iter().map(|s| Tolerance::of(s.dtype, 1)).collect();
        let run = |args: &mut Arguments| loaded.run(args).map_err(|e| e.to_string());
        let wide = Options { precision: Precision::Wide, max_steps: SPOT_STEPS, ..Options::default() };
        let reference = with_elements(&self.func, &args, wide, |value| {
            let spots = SpotCheck { points: SPOTS, value };
            Reference::compute(&args, &near, run, Some(spots))
        })?;
        tracing::debug!("reference: the interpreter confirmed {} elements", reference.spots());
        if let Some((cache, key)) = &self.cache
            && worth()
            && let Err(e) = cache.store(*key, &reference)
        {
            tracing::info!("the reference is not kept: {e}");
        }
        Ok(self.judging(reference))
    }
}

/// Adds the tolerances of right programs to a reference.
///
/// [`Tolerance::of`] assumes sums of terms of magnitude 1, which are about `sqrt(n) / 3`. Actual results may be smaller (a
/// softmax) or larger (a product of products), so the tolerance is scaled by their root mean square. It is multiplied by
/// the number of blocks, since each block of a chain adds errors.
pub(crate) fn toleranced(reference: Reference, func: &Func, specs: &[ParamSpec]) -> Reference {
    let outputs = specs.iter().zip(reference.outputs());
    let tolerances = outputs.map(|(spec, bytes)| tolerance(func, spec, bytes)).collect();
    reference.with_tolerances(tolerances)
}

/// The tolerance of a parameter whose right value is in `bytes`: see [`toleranced`].
pub(crate) fn tolerance(func: &Func, spec: &ParamSpec, bytes: &[u8]) -> Tolerance {
    let (longest, stages) = reductions(func);
    let plain = Tolerance::of(spec.dtype, longest);
    if plain == Tolerance::EXACT || bytes.is_empty() {
        return plain;
    }
    // Intermediate values of magnitude 1 may be rounded even if the results are small.
    let least = 2.0 * spec.dtype.half_ulp();
    let scale = root_mean_square(spec, bytes) / ((longest as f64).sqrt() / 3.0);
    let absolute = (plain.absolute * scale).max(least);
    Tolerance { absolute, ..plain }.times(stages as f64)
}

/// The tolerance of a result that comes from elsewhere, whose right value is in `bytes`. Types of 16 and 8 bits are computed in
/// `float32`, so a few roundings are allowed there; [`tolerance`] would allow one for each term of a sum.
pub(crate) fn result_tolerance(func: &Func, spec: &ParamSpec, bytes: &[u8]) -> Tolerance {
    match spec.dtype {
        DType::Float16 | DType::BFloat16 | DType::Float8(_) if !bytes.is_empty() => {
            let eps = spec.dtype.half_ulp();
            Tolerance { absolute: 2.0 * eps * root_mean_square(spec, bytes), relative: 4.0 * eps }
        }
        _ => tolerance(func, spec, bytes),
    }
}

/// The number of terms of the longest reduction (1 without one), and the number of blocks, which may form a chain.
fn reductions(func: &Func) -> (u64, u64) {
    let (mut longest, mut stages) = (1u64, 0);
    for b in func.blocks() {
        if b == func.root {
            continue;
        }
        stages += 1;
        let extents = func.block(b).iters.iter().filter(|i| i.kind == IterKind::Reduce);
        let terms = extents.map(|i| func.arena.as_int(i.extent).unwrap_or(1).max(1) as u64);
        longest = longest.max(terms.fold(1, u64::saturating_mul));
    }
    (longest, stages.clamp(1, 8))
}

fn root_mean_square(spec: &ParamSpec, bytes: &[u8]) -> f64 {
    let tensor = crate::ir::interp::TensorRef { dtype: spec.dtype, shape: &spec.shape, data: bytes };
    // A part of a large result represents all of it.
    let n = tensor.n_elements();
    let step = n.div_ceil(1 << 16).max(1);
    let values = (0..n).step_by(step).map(|i| tensor.get(i).as_f64()).filter(|v| v.is_finite());
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), v| (sum + v * v, count + 1));
    if count > 0 { (sum / count as f64).sqrt() } else { 1.0 }
}
