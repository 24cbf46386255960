//! Applies a trace or schedule function to a program: what `apply` prints and `bench --trace` times.

use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program, ScheduleText};
use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::ir::Module;
use crate::ir::barriers::first_bound_loop;
use crate::schedule::Schedule;
use crate::schedule::error::{ErrorKind, ScheduleError};
use crate::schedule::intrin::Intrinsics;
use crate::script::Dialect;
use crate::workload::Workload;
use std::path::Path;
use std::sync::Arc;

/// A schedule, and the program to apply it to.
pub(super) struct Request<'a> {
    /// The program.
    pub program: &'a Program,
    /// The file of the trace or schedule function.
    pub trace: &'a Path,
    /// The function to look up blocks in where the schedule names none.
    pub func: Option<&'a str>,
    /// Seed for decisions that the trace leaves open.
    pub seed: u64,
    /// Tensor intrinsics besides the built-in ones.
    pub intrinsics: Option<Arc<Intrinsics>>,
    /// Dialect of printed programs.
    pub dialect: Dialect,
}

/// Result of applying a schedule.
pub(super) struct Attempt {
    /// The initial state of the schedule.
    pub start: Start,
    /// The schedule after the last instruction that succeeded.
    pub schedule: Schedule,
    /// The error at the next instruction, if any.
    pub failure: Option<Failure>,
}

/// Initial state of a schedule: the program, or one of its functions under the name that the database gives it.
pub(super) struct Start {
    module: Module,
    intrinsics: Option<Arc<Intrinsics>>,
    /// The function to look up blocks in.
    work_on: Option<usize>,
    /// The single function, with its position in the program.
    alone: Option<(usize, Workload)>,
}

impl Start {
    /// A new schedule without instructions.
    pub(super) fn schedule(&self, seed: u64) -> Schedule {
        match &self.alone {
            Some((_, workload)) => workload.schedule(seed),
            None => {
                let mut schedule = Schedule::new(&self.module, seed).with_intrinsics(self.intrinsics.clone());
                self.work_on.into_iter().for_each(|f| schedule.work_on(f));
                schedule
            }
        }
    }

    /// The whole program with the functions of a schedule.
    pub(super) fn program(&self, schedule: &Schedule) -> Module {
        match &self.alone {
            Some((index, workload)) => {
                let mut module = self.module.clone();
                module.funcs[*index] = workload.renamed(schedule.func(0).clone());
                module
            }
            None => schedule.module(),
        }
    }

    /// Position in the program of function `index` of a schedule.
    pub(super) fn position(&self, index: usize) -> usize {
        self.alone.as_ref().map_or(index, |(position, _)| *position)
    }

    /// The program as written.
    pub(super) fn module(&self) -> &Module {
        &self.module
    }
}

impl Request<'_> {
    /// The program after the complete schedule.
    pub(super) fn scheduled(&self, console: Console) -> Result<Module, Failure> {
        let attempt = self.attempt(console)?;
        match attempt.failure {
            None => Ok(attempt.start.program(&attempt.schedule)),
            Some(failure) => Err(failure),
        }
    }

    /// Applies the schedule up to its first error, and warns of what a CPU only emulates.
    ///
    /// # Errors
    /// If the schedule cannot be read.
    pub(super) fn attempt(&self, console: Console) -> Result<Attempt, Failure> {
        let attempt = self.apply(console)?;
        let schedule = &attempt.schedule;
        let binds = (0..schedule.n_funcs()).any(|i| first_bound_loop(schedule.func(i)).is_some());
        if binds && !self.program.module().funcs.iter().any(|f| first_bound_loop(f).is_some()) {
            console.warn(
                "the schedule binds loops to threads of a GPU, which are emulated on the CPU: blocks (`blockIdx`) run in \
                 parallel, the threads of a block one after the other",
            );
        }
        Ok(attempt)
    }

    /// Applies the schedule up to its first error. If it names a function `main` that does not exist, this means the
    /// single function that the command works on, as the database names all functions `main`.
    fn apply(&self, console: Console) -> Result<Attempt, Failure> {
        let text = load::schedule(self.trace, self.program)?;
        let module = self.program.module();
        let chosen = self.program.functions(self.func)?;
        let whole = Start {
            module: module.clone(),
            intrinsics: self.intrinsics.clone(),
            work_on: self.func.map(|_| chosen[0]),
            alone: None,
        };
        let (attempt, means_main) = self.begin(whole, &text, console);
        let (true, [only]) = (means_main, &chosen[..]) else { return Ok(attempt) };
        let workload = Workload::of(module, *only).with_intrinsics(self.intrinsics.clone());
        let alone = Start { alone: Some((*only, workload)), ..attempt.start };
        let (renamed, still) = self.begin(alone, &text, console);
        // Neither name exists: report the first message, which shows the user's program.
        Ok(if still { Attempt { failure: attempt.failure, ..renamed } } else { renamed })
    }

    /// Applies the schedule; also returns whether it failed because a function does not exist.
    fn begin(&self, start: Start, text: &ScheduleText, console: Console) -> (Attempt, bool) {
        let mut schedule = start.schedule(self.seed);
        let (dialect, color) = (self.dialect, console.color);
        let (failure, unknown) = match text {
            ScheduleText::Trace(t) => match t.replay(&mut schedule) {
                Ok(()) => (None, false),
                Err(e) => {
                    // A JSON trace is one long line, so errors point into its Python form.
                    let name = format!("{}, as Python", self.trace.display());
                    let (code, help) = (e.error.kind.class(), e.error.kind.help());
                    let found = Diagnostic::error(code, e.error.to_string());
                    let found = found.maybe_help((!help.is_empty()).then_some(help));
                    let source = Source { name: &name, text: "" };
                    let found = Box::new(Diagnostics::new(source, vec![found]));
                    let shown = t.render_error(&e, &name, &schedule, dialect, color);
                    (Some(Failure::Shown(shown, found)), is_unknown(&e.error))
                }
            },
            ScheduleText::Python(f) => match f.apply_as_recorded(&mut schedule) {
                Ok(()) => (None, false),
                Err(e) => {
                    let unknown = e.refused.as_deref().is_some_and(is_unknown);
                    let found = Box::new(Diagnostics::new(f.source(), vec![(*e.diagnostic).clone()]));
                    (Some(Failure::Shown(f.render_error(&e, &schedule, dialect, color), found)), unknown)
                }
            },
        };
        (Attempt { start, schedule, failure }, unknown)
    }
}

fn is_unknown(error: &ScheduleError) -> bool {
    matches!(error.kind, ErrorKind::UnknownFunction { .. })
}
