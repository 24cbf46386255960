//! The right results of a workload.
//!
//! They come from the program as written by a plain path (`lower_reference`: floats carried as `float64`, loops as
//! written; `compile_plain`: scalar code, none of the passes that candidates go through), on a thread of its own, and a few
//! hundred elements are confirmed by the interpreter. For long ones the results are kept in the work directory.

#![expect(clippy::disallowed_methods, reason = "the reference has a time limit")]

use super::sampling::{Sampling, with_elements};
use crate::codegen::{self, RunContext};
use crate::ir::interp::{Options, Precision};
use crate::ir::stmt::IterKind;
use crate::ir::{Func, LoopId, Symbol};
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

/// Elements that the interpreter computes again.
const SPOTS: usize = 300;
/// Stores that it may make for them: a second or so, on a thread that nobody waits for.
const SPOT_STEPS: u64 = 20_000_000;

/// The plain kernel of a workload.
///
/// Nothing is optimised in it, so that what runs through memory in the wrong order takes seconds for what could take
/// one: the last spatial loop of each reduction is moved inside its reduction loops, where it is allowed. The
/// interpreter, which confirms results, knows nothing of that.
///
/// Once `stop` is raised, no further block is looked at: nobody will use what comes of it.
pub(crate) fn plain(workload: &Workload, stop: StopFlag) -> Result<Plain, LowerError> {
    let mut schedule = Schedule::new(&workload.module, 0).until(stop);
    let func = workload.func();
    let names: Vec<Symbol> = func.blocks().iter().filter(|&&b| b != func.root).map(|&b| func.block(b).name).collect();
    for name in names {
        // A block that is not found by name, or is nested, stays as it is.
        let _ = move_spatial_inside(&mut schedule, name.as_str());
    }
    let func = schedule.func(0).clone();
    Ok(Plain { kernel: lower_reference(&func)?, func })
}

/// The program that reference values are computed by.
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

/// What a reference is computed from.
pub(crate) struct Job {
    pub func: Func,
    pub plain: Plain,
    pub specs: Vec<ParamSpec>,
    pub seed: u64,
    /// Where it may be kept.
    pub cache: Option<(ReferenceCache, ReferenceKey)>,
    /// What it runs in; its flag stops it.
    pub context: Arc<Mutex<RunContext>>,
    /// Ends what goes before and after the run.
    pub stop: StopFlag,
}

impl Job {
    /// The reference that was kept.
    pub(crate) fn kept(&self) -> Option<Reference> {
        let (cache, key) = self.cache.as_ref()?;
        let kept = cache.load(*key, &self.specs, &vec![Tolerance::EXACT; self.specs.len()])?;
        Some(self.judging(kept))
    }

    /// The reference with all that right programs stay within.
    fn judging(&self, reference: Reference) -> Reference {
        let bounds = isolated(|| lower_bounds(&self.plain.func)).ok().and_then(Result::ok).flatten();
        let Some(bounds) = bounds else { return toleranced(reference, &self.func, &self.specs) };
        // Roundings of half precision add up to more than faults make: of those, only what rounds once is right unseen.
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

    /// How far each element may be from the reference.
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

    /// Computes the reference, and keeps it if `worth` says so.
    pub(crate) fn compute(self, worth: impl FnOnce() -> bool) -> Result<Reference, ReferenceError> {
        let args = Arguments::until(&self.specs, self.seed, &self.stop)?;
        let compiled = isolated(|| codegen::compile_plain(&self.plain.kernel).map_err(|e| e.to_string()));
        let compiled = compiled.and_then(|r| r).map_err(ReferenceError::Run)?;
        let loaded = Loaded::new(compiled, self.context.clone(), 1);
        // Both are exact but for the last rounding; what the order of a sum changes in float64 is far below that.
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

/// The reference with what right programs stay within.
///
/// [`Tolerance::of`] speaks of sums of terms of magnitude 1, which come to about `sqrt(n) / 3`; the results at hand may be
/// smaller (a softmax) or larger (a product of products), and what is allowed follows their root mean square. Each block
/// of a chain adds errors of its own.
pub(crate) fn toleranced(reference: Reference, func: &Func, specs: &[ParamSpec]) -> Reference {
    let (longest, stages) = reductions(func);
    let tolerances = specs
        .iter()
        .zip(reference.outputs())
        .map(|(spec, bytes)| {
            let plain = Tolerance::of(spec.dtype, longest);
            if plain == Tolerance::EXACT || bytes.is_empty() {
                return plain;
            }
            // What intermediate values of magnitude 1 are rounded by stays, however small the results are.
            let least = 2.0 * spec.dtype.half_ulp();
            let scale = root_mean_square(spec, bytes) / ((longest as f64).sqrt() / 3.0);
            let absolute = (plain.absolute * scale).max(least);
            Tolerance { absolute, ..plain }.times(stages as f64)
        })
        .collect();
    reference.with_tolerances(tolerances)
}

/// The number of terms of the longest reduction (1 for none), and of blocks, which may follow one another.
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
    // A part of a large result says as much as all of it.
    let n = tensor.n_elements();
    let step = n.div_ceil(1 << 16).max(1);
    let values = (0..n).step_by(step).map(|i| tensor.get(i).as_f64()).filter(|v| v.is_finite());
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), v| (sum + v * v, count + 1));
    if count > 0 { (sum / count as f64).sqrt() } else { 1.0 }
}
