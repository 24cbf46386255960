//! Beginning a task: its space, its strategy, and the programs that candidates are compared with.

use super::backend::Backend;
use super::config::{Config, SpaceChoice, StopReason, StrategyChoice};
use super::driver::TuneError;
use super::run::Run;
use super::task::{Search, Task};
use crate::machine::Core;
use crate::schedule::Trace;
use crate::search::{self, Options, Proposer, Strategy, isolated};
use crate::space::{Rules, Space, generate};
use crate::stop::StopFlag;
use crate::workload::{Setting, Workload};

impl<B: Backend> Run<'_, B> {
    /// Begins the search of a task that was opened. It stays opened if the run is stopped meanwhile.
    pub(super) fn begin(&mut self, task: &mut Task<B>) -> Result<(), TuneError> {
        self.find_bound(task);
        // The session comes first, so that it computes the reference while the space is made.
        if !task.times.has_baseline() {
            self.open_session(task)?;
        }
        let (space, secs) = self.timed(|run| {
            let workload = &task.subject.workload;
            let make = || make_space(workload, &run.config.space, &run.config.machine_of_space(), &run.stop);
            // A panic in a rule is an error with its message.
            isolated(make).unwrap_or_else(Err)
        });
        task.tally.spent.space += secs;
        if self.stop.is_raised() {
            // The space may be incomplete, and no candidate will be drawn from it.
            return Ok(());
        }
        let space = space.unwrap_or_else(|why| {
            task.note_problem(format!("no schedule: {why}"));
            Space::new(Vec::new(), Vec::new())
        });
        let (strategy, first) = self.strategy(task)?;
        let base = task.subject.workload.schedule(0).until(self.stop.clone());
        let mut proposer = Proposer::new(base, 0, space, strategy, self.config.seed);
        proposer.begin_with(first);
        proposer.skip(task.subject.as_written);
        proposer.resume(task.tally.trials);
        for program in self.db.programs(task.subject.id, &self.config.setting.filter()) {
            proposer.skip(program);
        }
        // Without a space there is nothing to try.
        if task.has_problem() {
            task.stop(StopReason::SpaceExhausted);
        }
        let (told, secs) = self.timed(|run| run.warm_start(task.subject.id, &mut proposer));
        task.tally.spent.search += secs;
        task.search = Some(Search::new(proposer));
        told
    }

    /// Bounds the time of a function from below, where several functions share the trials.
    fn find_bound(&mut self, task: &mut Task<B>) {
        if self.n_tasks < 2 {
            return;
        }
        let (bound, secs) = self.timed(|run| run.backend.bound(&task.subject.workload, task.subject.peak));
        task.subject.bound = bound;
        task.tally.spent.measure += secs;
    }

    /// The strategy of a task, and the traces that it proposes first.
    fn strategy(&mut self, task: &Task<B>) -> Result<(Strategy, Vec<Trace>), TuneError> {
        Ok(match self.config.strategy {
            StrategyChoice::Evolutionary { seeds, cost_model } => {
                let machine = code_model(self.config);
                let first = self.traces_to_begin_with(task)?;
                (Strategy::Evolutionary(Options { machine, seeds, cost_model }), first)
            }
            StrategyChoice::Random => (Strategy::Random, self.traces_to_begin_with(task)?),
            StrategyChoice::Replay => {
                let traces = self.traces_to_replay(task)?;
                if traces.is_empty() {
                    let name = task.subject.workload.name;
                    self.warn(&format!("{name}: there is nothing to replay; name another database with `--seed-from`"));
                }
                (Strategy::Replay(traces), Vec::new())
            }
        })
    }
}

/// The generated code as the cost model sees it.
fn code_model(config: &Config) -> search::features::CodeModel {
    let Setting { isa, strict_fp, threads, .. } = config.setting;
    search::features::CodeModel::new(&config.machine, isa, strict_fp, threads)
}

/// The space of a workload on a machine.
///
/// # Errors
/// If a rule fails, or `stop` is raised; the text says how.
pub fn make_space(workload: &Workload, choice: &SpaceChoice, machine: &Core, stop: &StopFlag) -> Result<Space, String> {
    match choice {
        SpaceChoice::Function { function, .. } => Ok(Space::of_function(function.clone())),
        SpaceChoice::Auto => of_rules(workload, Rules::auto(*machine), stop),
        SpaceChoice::Tvm => of_rules(workload, Rules::tvm(usize::try_from(machine.threads).unwrap_or(1)), stop),
    }
}

fn of_rules(workload: &Workload, rules: Rules, stop: &StopFlag) -> Result<Space, String> {
    generate(&workload.module, 0, rules, stop).map_err(|e| e.to_string())
}
