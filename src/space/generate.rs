//! Applying rules to the blocks of a program (TVM's `PostOrderApply`).

use super::postproc::Postproc;
use super::rule::{self, Rule};
use super::sample::{Sketch, Space};
use crate::ir::Module;
use crate::schedule::Schedule;
use crate::schedule::error::ScheduleError;
use crate::target::Target;

/// Rules and postprocessors, in the order in which they are applied.
pub struct Rules {
    /// The rules.
    pub rules: Vec<Box<dyn Rule>>,
    /// The postprocessors.
    pub postprocs: Vec<Box<dyn Postproc>>,
}

impl Rules {
    /// The default rules for a machine, of which `threads` cores run a kernel.
    pub fn auto(target: &Target, threads: usize) -> Rules {
        Rules { rules: rule::auto(target, threads), postprocs: super::postproc::auto() }
    }

    /// TVM's default rules for a CPU with so many cores.
    pub fn tvm(cores: usize) -> Rules {
        Rules { rules: rule::tvm(cores), postprocs: super::postproc::auto() }
    }
}

/// The sketches that the rules make of a function of `module`.
///
/// The blocks are fetched once, in post-order; each rule then visits them from the last to the first, skipping those
/// that are gone. A rule may return several schedules: all open ones are on a stack, and the last is carried to its
/// end first.
///
/// # Errors
/// If the blocks cannot be fetched by name (two of them share one), or a rule fails where its own checks had said
/// that it would not.
pub fn generate(module: &Module, func: usize, rules: Rules) -> Result<Space, ScheduleError> {
    let mut sch = Schedule::new(module, 0);
    sch.work_on(func);
    let f = &module.funcs[func];
    let names: Vec<&str> = f.blocks().iter().map(|&b| f.block(b).name.as_str()).collect();
    let mut blocks = Vec::with_capacity(names.len());
    for name in names {
        blocks.push(sch.get_block(name, f.name.as_str())?);
    }
    let mut finished = vec![sch];
    for rule in &rules.rules {
        let mut open: Vec<_> = finished.drain(..).map(|s| (s, blocks.len())).collect();
        while let Some((sch, left)) = open.pop() {
            let Some(next) = left.checked_sub(1) else {
                finished.push(sch);
                continue;
            };
            let block = blocks[next];
            if super::analysis::live_block(&sch, block).is_some() {
                open.extend(rule.apply(sch, block)?.into_iter().map(|s| (s, next)));
            } else {
                open.push((sch, next));
            }
        }
    }
    Ok(Space::new(finished.into_iter().map(|s| Sketch::Trace(undecided(s.trace()))).collect(), rules.postprocs))
}

fn undecided(trace: &crate::schedule::Trace) -> crate::schedule::Trace {
    let mut trace = trace.clone();
    for inst in &mut trace.insts {
        inst.decision = None;
    }
    trace
}
