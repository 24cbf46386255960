//! Tuning the functions of a program.
//!
//! ```text
//! Program ──Request::plan──► Plan (functions, configuration) ──Plan::tune──► Summary ──verdict──► found, or why not
//! ```

use super::program::{self, Program};
use super::setting::{self, Wanted};
use super::space::{self, Refusals};
use super::{Error, Notices, databases};
use crate::database::Database;
use crate::diagnostic::{Diagnostics, Severity};
use crate::ir::Module;
use crate::measure::{RealTimer, Timer};
use crate::stop::StopFlag;
use crate::tune::config::{Config, StrategyChoice};
use crate::tune::events::Observer;
use crate::tune::native::{Native, reference_dir};
use crate::tune::summary::Summary;
use crate::tune::{self, Interrupt, TuneError};
use crate::workload::Workload;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A tuning run: programs and options. The names of the options are those of the command line.
#[derive(Clone, Debug)]
pub struct Request {
    /// The only function to tune; `None` for all.
    pub func: Option<String>,
    /// Distinct programs to try, over all functions; those in the database count. `None` for the default of
    /// [`default_trials`].
    pub trials: Option<u64>,
    /// Ends a search that hardly improves; see [`Config::patience`].
    pub patience: Option<f64>,
    /// The search space: `auto`, `tvm`, or a file with a schedule; `None` means that of a template, else `auto`.
    pub space: Option<String>,
    /// The search strategy.
    pub strategy: StrategyChoice,
    /// The seed of the search.
    pub seed: u64,
    /// Databases of schedules to try first.
    pub seed_from: Vec<PathBuf>,
    /// Files of tensor intrinsics.
    pub intrin: Vec<PathBuf>,
    /// The machine that the space is made for.
    pub target: String,
    /// The setting to compile and measure in.
    pub wanted: Wanted,
    /// Threads for proposing and compiling; `None` for all cores.
    pub jobs: Option<usize>,
}

impl Request {
    /// The defaults of `tvmr tune`.
    pub fn new() -> Request {
        Request {
            func: None,
            trials: None,
            patience: None,
            space: None,
            strategy: StrategyChoice::Evolutionary { seeds: true, cost_model: true },
            seed: 0,
            seed_from: Vec::new(),
            intrin: Vec::new(),
            target: "native".to_owned(),
            wanted: Wanted { threads: setting::Threads::Count(1), isa: None, strict_fp: false, check: true },
            jobs: None,
        }
    }

    /// Checks the request against a program. Warnings about the program go to `notices`.
    ///
    /// # Errors
    /// The program or an option is wrong.
    pub fn plan(&self, program: &Program, limit: &TimeLimit, notices: &dyn Notices) -> Result<Plan, Error> {
        let lints = Diagnostics::new(program.source(), program.lints());
        if lints.items.iter().any(|d| d.severity == Severity::Error) {
            return Err(Error::from(lints));
        }
        if !lints.items.is_empty() {
            notices.diagnostics(&lints);
        }
        let functions = program.tasks(self.func.as_deref())?;
        if functions.is_empty() && !program.graphs().is_empty() {
            let message =
                format!("no call of a graph of `{}` runs a prim_func, so there is nothing to tune", program.name);
            let help = "what follows from weights alone runs once; `--func` names a prim_func to tune in spite of that";
            return Err(Error::Usage(message, help.to_owned()));
        }
        for &index in &functions {
            program::check_concrete(&program.module().funcs[index])?;
        }
        let tuned: Vec<Module> = functions.iter().map(|&i| Workload::of(program.module(), i).module).collect();
        let intrinsics = program::intrinsics(&self.intrin)?;
        let dialect = program.parsed.dialect;
        let (space, refusals) = space::choose(
            self.space.as_deref(),
            program,
            &tuned,
            intrinsics.as_ref(),
            dialect,
            notices.color(),
            &limit.is_up,
        )?;
        let machine = setting::target(&self.target)?;
        let setting = self.wanted.here(notices)?;
        let jobs = self.jobs.unwrap_or(setting.target.cores as usize);
        let trials = self.trials.unwrap_or_else(|| {
            let n = Workload::distinct(program.module(), &functions).len() as u64;
            let trials = default_trials(n);
            if n > 1 {
                let how = match trials {
                    MOST_TRIALS => "the most without `--trials`".to_owned(),
                    FEWEST_TRIALS => "the fewest without `--trials`".to_owned(),
                    _ => format!("{TRIALS_OF_ONE} for each of {n} distinct functions"),
                };
                notices.note(&format!("{trials} trials: {how}"));
            }
            trials
        });
        let config = Config {
            trials,
            max_time: limit.left(),
            patience: self.patience,
            space,
            intrinsics,
            strategy: self.strategy,
            seed_from: databases::seeds(&self.seed_from, notices)?,
            seed: self.seed,
            jobs,
            machine,
            setting,
            calls: program.calls(),
        };
        Ok(Plan { functions, config, refusals })
    }
}

/// The default number of trials: enough for one function on its own; several share what they gain from each other, and a large
/// model should end within the hour.
const FEWEST_TRIALS: u64 = 64;
const TRIALS_OF_ONE: u64 = 32;
const MOST_TRIALS: u64 = 4096;

/// The number of trials for so many distinct functions, if the request states none.
pub fn default_trials(functions: u64) -> u64 {
    functions.saturating_mul(TRIALS_OF_ONE).clamp(FEWEST_TRIALS, MOST_TRIALS)
}

impl Default for Request {
    fn default() -> Self {
        Request::new()
    }
}

/// A checked request.
pub struct Plan {
    /// The positions of the functions in the module.
    pub functions: Vec<usize>,
    /// The configuration of the run.
    pub config: Config,
    /// Functions on which a schedule function fails with its first decisions.
    pub(super) refusals: Refusals,
}

impl Plan {
    /// The workload of one of the functions, which are counted as in [`Plan::functions`].
    pub fn workload(&self, program: &Program, function: usize) -> Workload {
        Workload::of(program.module(), self.functions[function]).with_intrinsics(self.config.intrinsics.clone())
    }

    /// Opens the database in a directory, which is created where there is none.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn database(&self, dir: &Path, notices: &dyn Notices) -> Result<Database, Error> {
        let db = Database::create(dir).map_err(databases::failed)?;
        databases::tell_problems(&db, notices);
        if db.is_unlocked() {
            notices.warn(&format!("`{}` cannot be locked: let only one process tune into it", dir.display()));
        }
        Ok(db)
    }

    /// Tunes the functions into a database in `dir`. With `pins`, threads keep to their cores while they measure.
    ///
    /// # Errors
    /// The machine or the database failed. Candidates that fail are no error; [`super::verdict`] judges the result.
    pub fn tune(
        &self,
        program: &Program,
        dir: &Path,
        db: &mut Database,
        pins: bool,
        observer: &mut dyn Observer,
        interrupt: &Interrupt,
    ) -> Result<Summary, Error> {
        let Plan { functions, config, .. } = self;
        let new = if pins { Native::pinned } else { Native::new };
        let native = new(&config.setting, Some(reference_dir(dir)), interrupt).map_err(no_threads)?;
        let summary = tune::tune(program.module(), functions, config, db, &native, observer, interrupt);
        let mut summary = summary.map_err(|e| match e {
            TuneError::Database(e) => databases::failed(e),
            TuneError::Machine(_) => Error::Machine(e.to_string(), String::new()),
        })?;
        for task in summary.tasks.iter_mut().chain([&mut summary.total]) {
            task.workload.clone_from(&program.name);
        }
        Ok(summary)
    }
}

/// The time limit of a request, which counts from its start: reading the program is part of it.
pub struct TimeLimit {
    clock: RealTimer,
    is_up: StopFlag,
    limit: Option<Duration>,
}

impl TimeLimit {
    /// Starts to count.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(limit: Option<Duration>) -> Result<TimeLimit, Error> {
        let is_up = StopFlag::new();
        let clock = RealTimer::new(Arc::new(is_up.clone())).map_err(no_threads)?;
        if let Some(limit) = limit {
            clock.arm(limit);
        }
        Ok(TimeLimit { clock, is_up, limit })
    }

    /// The flag that is raised when the time is up.
    pub fn flag(&self) -> &StopFlag {
        &self.is_up
    }

    /// The time left; `None` without a limit.
    pub fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.clock.now()))
    }
}

/// The failure for threads that the system refuses.
pub fn no_threads(e: std::io::Error) -> Error {
    Error::Machine(format!("cannot start threads: {e}"), String::new())
}

#[cfg(test)]
mod tests {
    use super::default_trials;

    #[test]
    fn trials_grow_with_the_functions() {
        assert_eq!([0, 1, 2, 3, 50, 128, 129, u64::MAX].map(default_trials), [64, 64, 64, 96, 1600, 4096, 4096, 4096]);
    }
}
