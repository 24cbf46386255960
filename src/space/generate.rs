//! Applying rules to the blocks of a program (TVM's `PostOrderApply`).

use super::draft::Draft;
use super::postproc::{self, Postproc};
use super::rule::{self, Rule};
use super::sample::{Seed, Sketch, Space};
use crate::ir::{ExprId, Func, LoopId, Module};
use crate::machine::Core;
use crate::schedule::arg::{Rv, RvValue};
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::{Schedule, Trace};
use crate::stop::StopFlag;
use std::collections::BTreeMap;

/// Rules and postprocessors, in the order in which they are applied.
pub struct Rules {
    /// The rules.
    pub rules: Vec<Box<dyn Rule>>,
    /// Are what the rules decide seeds, and what these decide, the same rules with other decisions, too?
    pub seeding: Option<Vec<Vec<Box<dyn Rule>>>>,
    /// The postprocessors.
    pub postprocs: Vec<Box<dyn Postproc>>,
}

/// How many decisions each rule may propose for seeds.
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

    /// TVM's default rules for a CPU with so many cores.
    pub fn tvm(cores: usize) -> Rules {
        Rules { rules: rule::tvm(cores), seeding: None, postprocs: postproc::tvm() }
    }
}

/// The sketches that the rules make of a function of `module`, and its seeds.
///
/// The blocks are fetched once, in post-order; each rule then visits them from the last to the first, skipping those
/// that are gone. Where a rule returns several schedules, each is carried on, in the order given. Traces name blocks, so
/// blocks that share a name (or have none, as several may) stay as they are.
///
/// # Errors
/// If a rule fails where its own checks had said that it would not; and if `stop` is raised meanwhile.
pub fn generate(module: &Module, func: usize, rules: Rules, stop: &StopFlag) -> Result<Space, ScheduleError> {
    let start = Start::new(module, func, stop)?;
    // What comes before the first decision is the same for all seeds.
    let shared = rules.rules.iter().position(|rule| rule.decides()).unwrap_or(rules.rules.len());
    let drafts = start.apply(vec![Draft::new(start.schedule.clone())], &rules.rules[..shared])?;
    let first = traces(start.apply(drafts.clone(), &rules.rules[shared..])?);
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
        // Where there is nothing to decide, a sketch is its own and only seed.
        let decides = sketches.iter().any(|s| s.insts.iter().any(|inst| inst.kind.samples));
        for rules in others.iter().filter(|_| decides) {
            add(traces(start.apply(drafts.clone(), &rules[shared..])?));
        }
    }
    Ok(Space::new(sketches.into_iter().map(Sketch::Trace).collect(), rules.postprocs).with_seeds(seeds))
}

/// Where every set of rules begins: the program as written, analysed, with a handle of each block.
struct Start {
    schedule: Schedule,
    blocks: Vec<Rv>,
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
        for name in names.into_iter().filter(|name| counts[name] == 1) {
            blocks.push(schedule.get_block(name, f.name.as_str())?);
        }
        count_from_zero(&mut schedule, func, &blocks)?;
        Ok(Start { schedule, blocks })
    }

    /// What rules make of drafts.
    fn apply(&self, mut drafts: Vec<Draft>, rules: &[Box<dyn Rule>]) -> Result<Vec<Draft>, ScheduleError> {
        for rule in rules {
            for &block in self.blocks.iter().rev() {
                // Rules that only look, or for which a refusal means that they do not fire, do not notice.
                if self.schedule.stop().is_raised() {
                    return Err(ErrorKind::Stopped.into());
                }
                let mut next = Vec::with_capacity(drafts.len());
                for draft in drafts {
                    match super::analysis::live_block(&draft.sch, block) {
                        Some(_) => next.extend(rule.apply(draft, block)?),
                        None => next.push(draft),
                    }
                }
                drafts = next;
            }
        }
        Ok(drafts)
    }
}

/// Lets the loops count from 0 by 1, which rules ask for as primitives do, and joins what was cut into strips:
///
///     for i in range(0, 64, 16):
///         for j in range(16): S(i + j)
///     # becomes
///     for i in range(64): S(i)
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
                    // One that must stay as it is, such as a loop bound to threads, does.
                    outer = schedule.fuse(&[rv, inside]).unwrap_or(rv);
                }
            }
            inner = Some(outer);
        }
    }
    Ok(())
}

/// Has the loop a constant step, or another constant start than 0?
fn counts_otherwise(f: &Func, l: LoopId) -> bool {
    let node = f.loop_(l);
    match node.step {
        Some(step) => f.arena.as_int(step).is_some(),
        None => f.arena.as_int(node.min).is_some_and(|min| min != 0),
    }
}

/// Is a loop all that stands in another one, of the step of which it runs through the values?
fn is_strip(f: &Func, outer: LoopId, inner: RvValue, step: Option<ExprId>) -> bool {
    let RvValue::Loop(_, inner) = inner else { return false };
    let (outer, node) = (f.loop_(outer), f.loop_(inner));
    let same = step.is_some_and(|step| f.arena.as_int(step) == f.arena.as_int(node.extent));
    same && outer.body[..] == [inner.stmt()] && f.arena.is_int(node.min, 0) && node.step.is_none()
}

/// The traces of drafts, with the decisions that were made or drawn.
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
