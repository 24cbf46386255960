//! What a run is asked to do.

use crate::database::Database;
use crate::machine::Core;
use crate::machine::Target;
use crate::schedule::intrin::Intrinsics;
use crate::space::sample::ScheduleSource;
use crate::workload::Setting;
use std::sync::Arc;
use std::time::Duration;

/// Where candidates come from.
#[derive(Clone)]
pub enum SpaceChoice {
    /// The default rules.
    Auto,
    /// The rules of TVM's MetaSchedule.
    Tvm,
    /// A user's schedule function, and the file it is from.
    Function {
        /// The file.
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

/// How decisions are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StrategyChoice {
    /// From the decisions of good candidates, ranked by a cost model.
    Evolutionary {
        /// Begin with the candidates that the space recommends?
        seeds: bool,
        /// Rank candidates by estimate and model?
        cost_model: bool,
    },
    /// Drawn at random.
    Random,
    /// Those of the records of the workload in other settings or databases, the fastest first.
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

/// What a run is asked to do.
#[derive(Clone)]
pub struct Config {
    /// Trials in the database when the run is done, over all functions.
    pub trials: u64,
    /// How long it may take.
    pub max_time: Option<Duration>,
    /// The run ends when four rounds together improved the best time by less than this share.
    pub patience: Option<f64>,
    /// The space.
    pub space: SpaceChoice,
    /// What `tensorize` knows beside the built-in intrinsics.
    pub intrinsics: Option<Arc<Intrinsics>>,
    /// The strategy.
    pub strategy: StrategyChoice,
    /// Other databases, whose schedules are tried first, or, where the strategy is to replay, alone.
    pub seed_from: Vec<Arc<Database>>,
    /// Candidates are a function of it.
    pub seed: u64,
    /// Threads for proposing and compiling. They change no result.
    pub jobs: usize,
    /// The machine that the space is made for: that of the setting, or another whose candidates are to be reproduced.
    pub machine: Target,
    /// Under which circumstances.
    pub setting: Setting,
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
        }
    }

    /// The machine as rules see it; another one than that of the setting with its own instruction set.
    pub fn machine_of_space(&self) -> Core {
        let setting = &self.setting;
        let isa = if self.machine == setting.target { setting.isa } else { self.machine.best_isa() };
        Core::new(&self.machine, isa, setting.threads as usize)
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StopReason {
    /// The database has as many trials as were wanted.
    TrialsReached,
    /// No new program came up in several rounds.
    SpaceExhausted,
    /// The time is up.
    TimeIsUp,
    /// The last rounds brought too little.
    NoImprovement,
    /// The user, or the system, ended it.
    Interrupted,
    /// The function cannot be compiled, or its reference not be computed.
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
