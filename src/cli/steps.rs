//! Shows the steps of a schedule: the program after every instruction that changed it, and whether its results are
//! unchanged.
//!
//! ```text
//! # as written
//! @T.prim_func
//! …
//!
//! # 0: b0 = sch.get_block(name="C", func_name="main")
//! # 1: l1, l2, l3 = sch.get_loops(block=b0)
//! # 2: l4, l5 = sch.split(loop=l1, factors=[None, 8])
//! @T.prim_func
//! …
//! ```
//!
//! Instructions are numbered as decisions are in a trace's JSON. The walk replays the recorded trace with its
//! decisions, so its programs are those of the schedule.

use super::Done;
use super::console::Console;
use super::exit::Failure;
use super::scheduled::Attempt;
use super::setting;
use crate::check::equivalence::{Agreement, CheckError, Checker};
use crate::check::relayout::Layouts;
use crate::ir::equal::Equality;
use crate::schedule::Schedule;
use crate::schedule::trace::Replay;
use crate::script::{Dialect, print_module};
use crate::workload::Setting;
use crate::workload::Workload;
use std::fmt::Write;

/// Result of a walk.
pub(super) struct Steps {
    /// The program after each instruction, under the text of the instruction.
    pub text: String,
    /// The first check that failed.
    pub failure: Option<Failure>,
}

/// Replays a schedule instruction by instruction.
pub(super) struct Walk<'a> {
    attempt: &'a Attempt,
    dialect: Dialect,
    console: Console,
    /// The setting to compare results in; `None` skips the comparison.
    check: Option<&'a Setting>,
    statements: Vec<String>,
    schedule: Schedule,
    replay: Replay,
    /// The layouts in which callers must pass the parameters of each function.
    layouts: Vec<Layouts>,
    /// The checkers of the functions that have changed so far.
    checkers: Vec<Option<Checker>>,
}

impl<'a> Walk<'a> {
    /// A walk that starts at the program as written.
    pub(super) fn new(
        attempt: &'a Attempt,
        dialect: Dialect,
        check: Option<&'a Setting>,
        console: Console,
    ) -> Walk<'a> {
        // The seed is irrelevant: the trace has all decisions.
        let schedule = attempt.start.schedule(0);
        let n = schedule.n_funcs();
        Walk {
            attempt,
            dialect,
            console,
            check,
            statements: attempt.schedule.trace().python_statements(dialect),
            layouts: (0..n).map(|f| Layouts::new(schedule.func(f))).collect(),
            checkers: (0..n).map(|_| None).collect(),
            schedule,
            replay: Replay::default(),
        }
    }

    /// Prints every program; stops at the first check that fails.
    pub(super) fn every_step(mut self) -> Steps {
        let mut program = self.program();
        // Writing to a string cannot fail.
        let mut text = format!("# as written\n{program}\n");
        let mut agreement = None;
        for index in 0..self.statements.len() {
            if let Err(failure) = self.step(index) {
                return Steps { text: tidy(text), failure: Some(failure) };
            }
            let _ = writeln!(text, "# {index}: {}", self.statements[index]);
            let new = self.program();
            if new == program {
                continue;
            }
            program = new;
            let _ = writeln!(text, "{program}");
            if self.check.is_some() {
                match self.compare() {
                    Ok(found) => agreement = found.or(agreement),
                    Err(e) => return Steps { text: tidy(text), failure: Some(self.broken(index, e)) },
                }
            }
        }
        if self.check.is_some() {
            self.report(agreement);
        }
        Steps { text: tidy(text), failure: None }
    }

    /// Compares the program as written with the final one.
    pub(super) fn only_the_last(mut self) -> Done {
        for index in 0..self.statements.len() {
            self.step(index)?;
        }
        let agreement = self.compare().map_err(|e| match e {
            CheckError::Different(what) => Failure::Negative(format!("the schedule changes the results: {what}")),
            CheckError::Fails(what) => Failure::Negative(format!("the scheduled program fails: {what}")),
            other => cannot(other),
        })?;
        self.report(agreement);
        Ok(())
    }

    fn step(&mut self, index: usize) -> Done {
        let inst = &self.attempt.schedule.trace().insts[index];
        self.replay.step(&mut self.schedule, inst, inst.decision.clone()).map_err(|e| {
            // Replay refused an instruction that was accepted before: a bug, but no reason to panic.
            Failure::Usage(format!("instruction {index} does not replay: {e}"), e.kind.help())
        })?;
        for (f, layouts) in self.layouts.iter_mut().enumerate() {
            layouts.follow(&self.schedule, f);
        }
        Ok(())
    }

    fn program(&self) -> String {
        print_module(&self.attempt.start.program(&self.schedule), self.dialect)
    }

    /// Compares each changed function with the original one. Returns the largest error, if any was compared.
    fn compare(&mut self) -> Result<Option<Agreement>, CheckError> {
        let Some(setting) = self.check else { return Ok(None) };
        let mut all: Option<Agreement> = None;
        for f in 0..self.schedule.n_funcs() {
            let position = self.attempt.start.position(f);
            let module = self.attempt.start.module();
            let func = self.schedule.func(f);
            if Equality::default().funcs(&module.funcs[position], func).is_ok() {
                continue;
            }
            let checker = match &mut self.checkers[f] {
                Some(checker) => checker,
                none => {
                    if let Some((what, help)) = setting::symbolic(&module.funcs[position]) {
                        return Err(CheckError::Program(what, help));
                    }
                    none.insert(Checker::new(&Workload::of(module, position), setting)?)
                }
            };
            let agreement = checker.check(func, &self.layouts[f])?;
            all = Some(all.map_or(agreement, |a| a.and(agreement)));
        }
        Ok(all)
    }

    fn report(&self, agreement: Option<Agreement>) {
        self.console.note(&match agreement {
            None => "checked: the program is as written".to_string(),
            Some(agreement) => format!("checked: same results ({agreement})"),
        });
    }

    fn broken(&self, index: usize, e: CheckError) -> Failure {
        let which = format!("instruction {index}, `{}`", self.statements[index]);
        match e {
            CheckError::Different(what) => Failure::Negative(format!("{which}, changes the results: {what}")),
            CheckError::Fails(what) => Failure::Negative(format!("after {which}, the program fails: {what}")),
            other => cannot(other),
        }
    }
}

/// Leaves at most one newline at the end of the text, as for a single program.
fn tidy(mut text: String) -> String {
    while text.ends_with("\n\n") {
        text.pop();
    }
    text
}

fn cannot(e: CheckError) -> Failure {
    match e {
        CheckError::Different(what) | CheckError::Fails(what) | CheckError::NotComparable(what) => {
            Failure::Negative(format!("the results cannot be compared: {what}"))
        }
        CheckError::Program(what, help) => Failure::Usage(what, help),
        CheckError::Machine(what) => Failure::Machine(what, String::new()),
    }
}
