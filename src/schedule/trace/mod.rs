//! The trace: what a schedule has done, as data.

mod beyond;
mod error;
mod fit;
mod json_read;
mod json_write;
mod names;
mod object_graph;
mod python;
mod python_read;
mod read_expr;
mod simplify;
mod text;

pub use beyond::TraceForm;
pub use error::{TraceError, TraceErrorKind, TracePlace};

use super::Schedule;
use super::arg::{Arg, Decision, Rv};
use super::error::ScheduleError;
use super::kind::Kind;

/// One instruction that was carried out.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// What it is.
    pub kind: &'static Kind,
    /// Its arguments, in the order of the kind's parameters.
    pub args: Vec<Arg>,
    /// The random variables that name its results.
    pub outputs: Vec<Rv>,
    /// The decision, of a sampling instruction.
    pub decision: Option<Decision>,
}

/// Instructions in the order in which they were carried out. A trace and the workload reproduce the program exactly;
/// with other decisions, another program of the same space.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// The instructions.
    pub insts: Vec<Instruction>,
}

/// Instruction `index` of a trace was refused when it was replayed.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayError {
    /// Position of the instruction.
    pub index: usize,
    /// Why.
    pub error: ScheduleError,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "instruction {}: {}", self.index, self.error)
    }
}

impl std::error::Error for ReplayError {}

impl Trace {
    /// Carries out the instructions on `schedule`. Decisions are those of the trace, except where `decide` gives
    /// another one for an instruction; an instruction with neither draws its decision.
    ///
    /// # Errors
    /// The first instruction that is refused; those before it stay carried out.
    pub fn replay_with(
        &self,
        schedule: &mut Schedule,
        mut decide: impl FnMut(usize, &Instruction) -> Option<Decision>,
    ) -> Result<(), ReplayError> {
        let mut replay = Replay::with_capacity(schedule.n_rvs() + self.insts.len() * 2);
        for (index, inst) in self.insts.iter().enumerate() {
            let decision = decide(index, inst).or_else(|| inst.decision.clone());
            replay.step(schedule, inst, decision).map_err(|error| ReplayError { index, error })?;
        }
        Ok(())
    }

    /// Carries out the instructions with the decisions of the trace.
    ///
    /// # Errors
    /// As [`Trace::replay_with`].
    pub fn replay(&self, schedule: &mut Schedule) -> Result<(), ReplayError> {
        self.replay_with(schedule, |_, _| None)
    }

    /// The position of `enter_postproc`, or the length: where the search space ends.
    pub fn space_len(&self) -> usize {
        self.insts.iter().position(|i| i.kind.name == "EnterPostproc").unwrap_or(self.insts.len())
    }

    /// The trace up to `enter_postproc`.
    pub fn without_postproc(&self) -> Trace {
        Trace { insts: self.insts[..self.space_len()].to_vec() }
    }

    /// The decisions, with the positions of their instructions.
    pub fn decisions(&self) -> impl Iterator<Item = (usize, &Decision)> {
        self.insts.iter().enumerate().filter_map(|(i, inst)| inst.decision.as_ref().map(|d| (i, d)))
    }
}

/// Instructions of a trace, carried out one at a time: knows which random variable of the schedule each of the trace's
/// has become.
#[derive(Default)]
pub struct Replay {
    names: Vec<Option<Rv>>,
}

impl Replay {
    fn with_capacity(n: usize) -> Replay {
        Replay { names: Vec::with_capacity(n) }
    }

    /// Carries out the next instruction of the trace, with this decision; without one, it is drawn.
    ///
    /// # Errors
    /// If the instruction is refused; then the schedule is as before.
    pub fn step(
        &mut self,
        schedule: &mut Schedule,
        inst: &Instruction,
        decision: Option<Decision>,
    ) -> Result<(), ScheduleError> {
        let rename = |rv: Rv| self.names.get(rv.index()).copied().flatten().unwrap_or(Rv(u32::MAX));
        let args = inst.args.iter().map(|a| a.map_rvs(&rename)).collect();
        let outputs = schedule.execute(inst.kind, args, decision)?;
        for (i, &old) in inst.outputs.iter().enumerate() {
            if self.names.len() <= old.index() {
                self.names.resize(old.index() + 1, None);
            }
            self.names[old.index()] = outputs.get(i).copied();
        }
        Ok(())
    }
}
