//! Traces: the instructions that a schedule has executed, as data.

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
mod unsupported_by_tvm;

pub use error::{TraceError, TraceErrorKind, TracePlace};
pub use unsupported_by_tvm::TraceForm;

use super::Schedule;
use super::arg::{Arg, Decision, Lambda, Rv};
use super::error::ScheduleError;
use super::kind::Kind;

/// An index map as Python: `lambda i, j: (j // 16, i, j % 16,)`. Random variables have no names here.
pub(crate) fn index_map_text(map: &Lambda) -> String {
    text::lambda(map, &names::Names::default())
}

/// An executed instruction.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its arguments, in the order of the kind's parameters.
    pub args: Vec<Arg>,
    /// The random variables that name its results.
    pub outputs: Vec<Rv>,
    /// The decision of a sampling instruction.
    pub decision: Option<Decision>,
}

/// Instructions in the order of their execution. A trace and the workload determine the program exactly; with other
/// decisions they give another program of the same space.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// The instructions.
    pub insts: Vec<Instruction>,
}

/// The error that a replay of a trace stopped at instruction `index`.
#[derive(Clone, PartialEq, Debug)]
pub struct ReplayError {
    /// Position of the instruction.
    pub index: usize,
    /// The error of the instruction.
    pub error: ScheduleError,
}

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "instruction {}: {}", self.index, self.error)
    }
}

impl std::error::Error for ReplayError {}

impl Trace {
    /// Executes the instructions on `schedule`. The decisions are those of the trace, except for instructions for which
    /// `decide` returns another one; an instruction without any draws its decision.
    ///
    /// # Errors
    ///
    /// The error of the first refused instruction; the effects of earlier ones stay.
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

    /// Executes the instructions with the decisions of the trace.
    ///
    /// # Errors
    ///
    /// See [`Trace::replay_with`].
    pub fn replay(&self, schedule: &mut Schedule) -> Result<(), ReplayError> {
        self.replay_with(schedule, |_, _| None)
    }

    /// The position of `enter_postproc`, which ends the search space, or the length.
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

/// A step-by-step execution of a trace, which maps the trace's random variables to those of the schedule.
#[derive(Default)]
pub struct Replay {
    names: Vec<Option<Rv>>,
}

impl Replay {
    fn with_capacity(n: usize) -> Replay {
        Replay { names: Vec::with_capacity(n) }
    }

    /// Executes the next instruction of the trace with this decision; without one, it is drawn.
    ///
    /// # Errors
    ///
    /// If the instruction is refused; then the schedule is unchanged.
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
