//! The configuration of a run.

use crate::database::Database;
use crate::ir::Symbol;
use crate::machine::Core;
use crate::machine::Target;
use crate::schedule::intrin::Intrinsics;
use crate::space::sample::ScheduleSource;
use crate::workload::Setting;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The space of candidates.
#[derive(Clone)]
pub enum SpaceChoice {
    /// The default rules.
    Auto,
    /// The rules of TVM's MetaSchedule.
    Tvm,
    /// A user's schedule function.
    Function {
        /// The name of its file.
        name: String,
        /// The function.
        function: Arc<dyn ScheduleSource>,
    },
}

impl SpaceChoice {
    /// The name in records.
    pub fn name(&self) -> &str {
        match self {
            SpaceChoice::Auto => "auto",
            SpaceChoice::Tvm => "tvm",
            SpaceChoice::Function { name, .. } => name,
        }
    }
}

/// The strategy that makes the decisions of candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StrategyChoice {
    /// Decisions are varied from those of good candidates, and ranked by a cost model.
    Evolutionary {
        /// Begin with the candidates that the space recommends?
        seeds: bool,
        /// Rank candidates by estimate and model?
        cost_model: bool,
    },
    /// Decisions are drawn at random.
    Random,
    /// Schedules recorded in other settings or databases are replayed, the fastest first.
    Replay,
}

impl StrategyChoice {
    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            StrategyChoice::Evolutionary { .. } => "evolutionary",
            StrategyChoice::Random => "random",
            StrategyChoice::Replay => "replay",
        }
    }
}

/// The configuration of a run.
#[derive(Clone)]
pub struct Config {
    /// Trials in the database at the end of the run, over all functions.
    pub trials: u64,
    /// The time limit.
    pub max_time: Option<Duration>,
    /// The run ends when four rounds together improved the best time by less than this share.
    pub patience: Option<f64>,
    /// The space.
    pub space: SpaceChoice,
    /// Intrinsics that `tensorize` knows besides the built-in ones.
    pub intrinsics: Option<Arc<Intrinsics>>,
    /// The strategy.
    pub strategy: StrategyChoice,
    /// Other databases, whose schedules are tried first. The strategy `Replay` tries no others.
    pub seed_from: Vec<Arc<Database>>,
    /// The seed of all random decisions.
    pub seed: u64,
    /// Threads that propose and compile. Their number changes no result.
    pub jobs: usize,
    /// The machine for which the space is made: that of the setting, or another one whose candidates are reproduced.
    pub machine: Target,
    /// The setting in which programs are compiled and measured.
    pub setting: Setting,
    /// How often a model calls each function, which is its weight; 1 for functions that are not listed.
    pub calls: BTreeMap<Symbol, u64>,
}

impl Config {
    /// The defaults of `tvmr tune`: 64 trials in the default space by evolutionary search, seed 0, candidates compiled on all
    /// cores.
    pub fn new(setting: Setting) -> Config {
        Config {
            trials: 64,
            max_time: None,
            patience: None,
            space: SpaceChoice::Auto,
            intrinsics: None,
            strategy: StrategyChoice::Evolutionary { seeds: true, cost_model: true },
            seed_from: Vec::new(),
            seed: 0,
            jobs: setting.target.cores as usize,
            machine: setting.target.clone(),
            setting,
            calls: BTreeMap::new(),
        }
    }

    /// The machine as rules see it. A machine other than that of the setting has its best instruction set.
    pub fn machine_of_space(&self) -> Core {
        let setting = &self.setting;
        let isa = if self.machine == setting.target { setting.isa } else { self.machine.best_isa() };
        Core::new(&self.machine, isa, setting.threads as usize)
    }
}

/// The reason why a task ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StopReason {
    /// The database has the requested number of trials.
    TrialsReached,
    /// No new program came up in several rounds.
    SpaceExhausted,
    /// The time is up.
    TimeIsUp,
    /// The last rounds improved the best time too little.
    NoImprovement,
    /// A signal ended the run.
    Interrupted,
    /// The function cannot be compiled, or its reference cannot be computed.
    NotMeasurable,
}

impl StopReason {
    /// The text in summaries.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::TrialsReached => "trials reached",
            StopReason::SpaceExhausted => "space exhausted",
            StopReason::TimeIsUp => "time is up",
            StopReason::NoImprovement => "no improvement",
            StopReason::Interrupted => "interrupted",
            StopReason::NotMeasurable => "not measurable",
        }
    }
}
