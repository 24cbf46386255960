//! Applying rules to the blocks of a program (TVM's `PostOrderApply`).

use super::analysis::live_block;
use super::constant_matrices::left_to_code;
use super::draft::Draft;
use super::postproc::{self, Postproc};
use super::reason::{NoChoice, Reason};
use super::rule::{self, Rule};
use super::sample::{Seed, Sketch, Space};
use crate::ir::{BlockId, ExprId, Func, LoopId, Module};
use crate::machine::Core;
use crate::schedule::arg::{Rv, RvValue};
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::{Schedule, Trace};
use crate::stop::StopFlag;
use std::collections::BTreeMap;

/// Rules and postprocessors, in order of application.
pub struct Rules {
    /// The rules.
    pub rules: Vec<Box<dyn Rule>>,
    /// `None` if the space has no seeds. Otherwise the decisions of `rules` are seeds, and those of these variants of the
    /// rules, most promising first.
    pub seeding: Option<Vec<Vec<Box<dyn Rule>>>>,
    /// The postprocessors.
    pub postprocs: Vec<Box<dyn Postproc>>,
}

/// Number of variants of each rule for seeds.
const VARIANTS: usize = 6;

impl Rules {
    /// The default rules for a machine.
    pub fn auto(machine: Core) -> Rules {
        Rules {
            rules: rule::auto(machine, 0),
            seeding: Some((1..VARIANTS).map(|variant| rule::auto(machine, variant)).collect()),
            postprocs: postproc::auto(),
        }
    }

    /// TVM's default rules for a CPU with `cores` cores.
    pub fn tvm(cores: usize) -> Rules {
        Rules { rules: rule::tvm(cores), seeding: None, postprocs: postproc::tvm() }
    }
}

/// Generates the sketches and seeds of a function of `module`.
///
/// The blocks are looked up once, in post-order; each rule visits them from last to first and skips those that no
/// longer exist. If a rule returns several schedules, each continues, in the given order. Traces refer to blocks by
/// name, so blocks that share a name (or have none) are left unchanged.
///
/// # Errors
/// If a rule fails although its checks passed, or if `stop` is raised.
pub fn generate(module: &Module, func: usize, rules: Rules, stop: &StopFlag) -> Result<Space, ScheduleError> {
    let mut start = Start::new(module, func, stop)?;
    if rules.seeding.is_some() {
        start.leave(&left_to_code(&module.funcs[func]));
    }
    // All seeds share the rules before the first one that decides.
    let shared = rules.rules.iter().position(|rule| rule.decides()).unwrap_or(rules.rules.len());
    let mut chosen = Vec::new();
    let drafts = start.apply(vec![Draft::new(start.schedule.clone())], &rules.rules[..shared], &mut chosen)?;
    let first = start.apply(drafts.clone(), &rules.rules[shared..], &mut chosen)?;
    let no_choices = first.first().map(|draft| start.no_choices(draft, &chosen)).unwrap_or_default();
    let first = traces(first);
    let sketches: Vec<Trace> = first.iter().map(undecided).collect();
    let mut seeds: Vec<Seed> = Vec::new();
    let mut add = |found: Vec<Trace>| {
        for trace in found {
            let sketch = undecided(&trace);
            let Some(sketch) = sketches.iter().position(|s| *s == sketch) else { continue };
            if !seeds.iter().any(|s| s.trace == trace) {
                seeds.push(Seed { sketch, trace });
            }
        }
    };
    if let Some(others) = rules.seeding {
        add(first);
        // A sketch without decisions is its own and only seed.
        let decides = sketches.iter().any(|s| s.insts.iter().any(|inst| inst.kind.samples));
        for rules in others.iter().filter(|_| decides) {
            add(traces(start.apply(drafts.clone(), &rules[shared..], &mut chosen)?));
        }
    }
    let sketches = sketches.into_iter().map(Sketch::Trace).collect();
    Ok(Space::new(sketches, rules.postprocs).with_seeds(seeds).with_no_choices(no_choices))
}

/// The start of every set of rules: the analysed program as written, with a handle for each block.
struct Start {
    schedule: Schedule,
    /// Handles of the blocks that rules visit.
    blocks: Vec<Rv>,
    /// The blocks that no rule visits.
    left: Vec<NoChoice>,
}

impl Start {
    fn new(module: &Module, func: usize, stop: &StopFlag) -> Result<Start, ScheduleError> {
        let mut schedule = Schedule::new(module, 0).until(stop.clone());
        schedule.work_on(func);
        let f = &module.funcs[func];
        let names: Vec<&str> = f.blocks().iter().map(|&b| f.block(b).name.as_str()).collect();
        let mut blocks = Vec::with_capacity(names.len());
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        names.iter().for_each(|&name| *counts.entry(name).or_default() += 1);
        for &name in names.iter().filter(|name| counts[*name] == 1) {
            blocks.push(schedule.get_block(name, f.name.as_str())?);
        }
        let is_ambiguous = |(_, n): &(&str, usize)| *n > 1;
        let unnamed = |(name, _): (&str, usize)| NoChoice { block: name.to_owned(), reason: Reason::NoName };
        let left = counts.into_iter().filter(is_ambiguous).map(unnamed).collect();
        count_from_zero(&mut schedule, func, &blocks)?;
        Ok(Start { schedule, blocks, left })
    }

    /// Takes away the handles of blocks that no rule is to visit.
    fn leave(&mut self, blocks: &[BlockId]) {
        let Start { schedule, blocks: handles, left } = self;
        handles.retain(|&rv| {
            let Some((f, b)) = live_block(schedule, rv).filter(|(_, b)| blocks.contains(b)) else { return true };
            let block = schedule.func(f).block(b).name.as_str().to_owned();
            left.push(NoChoice { block, reason: Reason::SmallMatrices });
            false
        });
    }

    /// The blocks of a draft, but the root, that are not `chosen`, each with the reason.
    fn no_choices(&self, draft: &Draft, chosen: &[Rv]) -> Vec<NoChoice> {
        let visited = self.blocks.iter().filter(|rv| !chosen.contains(rv)).filter_map(|&rv| {
            let (f, b) = live_block(&draft.sch, rv)?;
            let func = draft.sch.func(f);
            let block = func.block(b).name.as_str().to_owned();
            (b != func.root).then(|| NoChoice { block, reason: draft.reason(rv).unwrap_or(Reason::Rules) })
        });
        visited.chain(self.left.iter().cloned()).collect()
    }

    /// Applies rules to drafts. Adds to `chosen` the blocks for which a rule samples, or returns several drafts.
    fn apply(
        &self,
        mut drafts: Vec<Draft>,
        rules: &[Box<dyn Rule>],
        chosen: &mut Vec<Rv>,
    ) -> Result<Vec<Draft>, ScheduleError> {
        for rule in rules {
            for &block in self.blocks.iter().rev() {
                // Rules that only analyse, or that take a refusal as "does not fire", do not notice the flag.
                if self.schedule.stop().is_raised() {
                    return Err(ErrorKind::Stopped.into());
                }
                let mut next = Vec::with_capacity(drafts.len());
                for draft in drafts {
                    match live_block(&draft.sch, block) {
                        Some(_) => {
                            let before = n_decisions(&draft);
                            let drafts = rule.apply(draft, block)?;
                            let chooses = drafts.len() > 1 || drafts.iter().any(|d| n_decisions(d) > before);
                            if chooses && !chosen.contains(&block) {
                                chosen.push(block);
                            }
                            next.extend(drafts);
                        }
                        None => next.push(draft),
                    }
                }
                drafts = next;
            }
        }
        Ok(drafts)
    }
}

/// Normalises the loops to start at 0 with step 1, as primitives and thus rules require, and fuses strip-mined loops:
///
/// ```text
/// for i in range(0, 64, 16):
///     for j in range(16): S(i + j)
/// # becomes
/// for i in range(64): S(i)
/// ```
fn count_from_zero(schedule: &mut Schedule, func: usize, blocks: &[Rv]) -> Result<(), ScheduleError> {
    let f = schedule.func(func);
    if !f.subtree(f.root.stmt()).into_iter().any(|s| f.as_loop(s).is_some_and(|l| counts_otherwise(f, l))) {
        return Ok(());
    }
    for &block in blocks {
        let mut inner: Option<Rv> = None;
        for rv in schedule.get_loops(block)?.into_iter().rev() {
            let RvValue::Loop(_, l) = schedule.value(rv)? else { continue };
            let mut outer = rv;
            if counts_otherwise(schedule.func(func), l) {
                let step = schedule.func(func).loop_(l).step;
                schedule.normalize_loop(rv)?;
                if let Some(inside) = inner
                    && is_strip(schedule.func(func), l, schedule.value(inside)?, step)
                {
                    // A loop that cannot be fused, such as one bound to threads, stays.
                    outer = schedule.fuse(&[rv, inside]).unwrap_or(rv);
                }
            }
            inner = Some(outer);
        }
    }
    Ok(())
}

/// Whether the loop has a constant step, or a constant start other than 0.
fn counts_otherwise(f: &Func, l: LoopId) -> bool {
    let node = f.loop_(l);
    match node.step {
        Some(step) => f.arena.as_int(step).is_some(),
        None => f.arena.as_int(node.min).is_some_and(|min| min != 0),
    }
}

/// Whether `inner` is the only statement of `outer` and counts up to its step, so that the two are one strip-mined
/// loop.
fn is_strip(f: &Func, outer: LoopId, inner: RvValue, step: Option<ExprId>) -> bool {
    let RvValue::Loop(_, inner) = inner else { return false };
    let (outer, node) = (f.loop_(outer), f.loop_(inner));
    let same = step.is_some_and(|step| f.arena.as_int(step) == f.arena.as_int(node.extent));
    same && outer.body[..] == [inner.stmt()] && f.arena.is_int(node.min, 0) && node.step.is_none()
}

/// Number of sampling instructions.
fn n_decisions(draft: &Draft) -> usize {
    draft.sch.trace().insts.iter().filter(|inst| inst.kind.samples).count()
}

/// The traces of drafts with their decisions.
fn traces(drafts: Vec<Draft>) -> Vec<Trace> {
    drafts.into_iter().map(|d| d.sch.into_trace()).collect()
}

fn undecided(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    for inst in &mut trace.insts {
        inst.decision = None;
    }
    trace
}
