//! Proposes rounds of distinct candidates.

use super::evolution::{Evolution, Feedback, Options};
use super::features::Features;
use super::individual::{CandidateBuilder, as_numbers};
use super::{in_order, isolated};
use crate::ir::hash::program_hash;
use crate::schedule::{Schedule, Trace};
use crate::space::sample::stream;
use crate::space::{Rejection, Space, Stage};
use std::collections::HashSet;

/// A search strategy.
#[derive(Clone, PartialEq, Debug)]
pub enum Strategy {
    /// Draws every decision at random.
    Random,
    /// Replays these traces, in this order, and nothing else.
    Replay(Vec<Trace>),
    /// Derives candidates from the decisions of good ones.
    Evolutionary(Options),
}

/// A program to compile and measure.
pub struct Candidate {
    /// Its number, in the order of proposal.
    pub index: u64,
    /// The program with its trace.
    pub schedule: Schedule,
    /// Hash of the program's structure.
    pub program: u64,
    /// Position of its sketch; `None` if it was not sampled.
    pub sketch: Option<usize>,
}

/// The result of a round.
#[derive(Default)]
pub struct Round {
    /// New programs, in the order of their numbers.
    pub candidates: Vec<Candidate>,
    /// Candidates that the space rejected.
    pub rejections: Vec<Rejection>,
    /// Number of candidates whose program had come up before.
    pub duplicates: u64,
}

/// The result of a round of the evolutionary search.
#[derive(Default)]
pub(super) struct Drawn {
    /// Hashes of the programs that came up.
    pub met: Vec<u64>,
    /// Candidates to propose.
    pub candidates: Vec<Candidate>,
    /// Candidates that the space rejected.
    pub rejections: Vec<Rejection>,
    /// Number of candidates whose program had come up before.
    pub duplicates: u64,
}

/// A schedule, the hash of its program, and the position of its sketch, if it was sampled.
type Made = Result<(Schedule, u64, Option<usize>), Rejection>;

/// Proposes distinct programs.
pub struct Proposer {
    base: Schedule,
    func: usize,
    space: Space,
    strategy: Strategy,
    seed: u64,
    next: u64,
    /// Programs not to propose: proposed before, or passed to [`Proposer::skip`].
    seen: HashSet<u64>,
    /// Every program that came up, proposed or not.
    met: HashSet<u64>,
    fruitless: u32,
    /// State of the evolutionary strategy.
    evolution: Option<Evolution>,
    /// Traces to propose before anything else, the next one last.
    first: Vec<Trace>,
    /// Number of those traces proposed so far.
    n_first: u64,
    /// Programs and traces of those proposals, as parents for the evolutionary strategy.
    tried_first: Vec<(u64, Trace)>,
}

/// Maximum number of candidates to draw in a round, for each one wanted.
const DRAWS_PER_CANDIDATE: usize = 8;

/// Minimum number of candidates to draw, so that bad luck in a small round does not look like an exhausted space.
const MIN_DRAWS: usize = 64;

/// Number of rounds without a new program after which the space counts as exhausted.
const FRUITLESS_ROUNDS: u32 = 4;

impl Proposer {
    /// A proposer for function `func` of the program that `base` is a schedule of.
    pub fn new(base: Schedule, func: usize, space: Space, strategy: Strategy, seed: u64) -> Proposer {
        let evolution = match &strategy {
            Strategy::Evolutionary(options) => Some(Evolution::new(options.clone())),
            Strategy::Random | Strategy::Replay(_) => None,
        };
        let (seen, met) = (HashSet::new(), HashSet::new());
        Proposer {
            base,
            func,
            space,
            strategy,
            seed,
            next: 0,
            seen,
            met,
            fruitless: 0,
            evolution,
            first: Vec::new(),
            n_first: 0,
            tried_first: Vec::new(),
        }
    }

    /// Reports the outcome of a candidate. A later report replaces an earlier one.
    pub fn learn(&mut self, program: u64, feedback: Feedback) {
        let tried_first = self.tried_first.iter().find(|(p, _)| *p == program).map(|(_, trace)| trace.clone());
        match (tried_first, feedback) {
            (Some(trace), Feedback::Took(secs)) => {
                let is_of_space = self.space.sketch_of(&trace).is_some();
                self.remember(program, &trace, secs, is_of_space);
            }
            (Some(_), Feedback::TooSlow(_)) => {}
            (Some(_), Feedback::Failed) | (None, _) => {
                if let Some(evolution) = &mut self.evolution {
                    evolution.learn(program, feedback);
                }
            }
        }
    }

    /// Whether the strategy uses reported outcomes.
    pub fn learns(&self) -> bool {
        self.evolution.is_some()
    }

    /// Reports a measurement of an earlier run, and whether it belongs to this space. Each takes about as long as a
    /// candidate.
    pub fn remember(&mut self, program: u64, trace: &Trace, secs: f64, is_of_space: bool) {
        let Proposer { base, func, space, seed, evolution, .. } = self;
        if let Some(evolution) = evolution {
            let machine = evolution.machine();
            let builder = CandidateBuilder { base, func: *func, space, seed: *seed, machine: &machine };
            evolution.remember(&builder, program, trace, secs, is_of_space);
        }
    }

    /// Reports the number of trials made by earlier runs.
    pub fn resume(&mut self, trials: u64) {
        if let Some(evolution) = &mut self.evolution {
            evolution.resume(trials);
        }
    }

    /// Reports measurements of another program: scheduled programs with their seconds.
    pub fn learn_from_other(&mut self, measured: &[(Schedule, f64)]) {
        if let Some(evolution) = &mut self.evolution {
            let machine = evolution.machine();
            let features = measured.iter().map(|(schedule, secs)| {
                let mut features = Features::of(schedule.func(0), &machine);
                features.values.extend(as_numbers(None));
                (features, *secs)
            });
            evolution.model().learn_from_other(features.collect());
        }
    }

    /// Reports the share of the trials that are done: the last ones are small steps around the best.
    pub fn set_progress(&mut self, share: f64) {
        if let Some(evolution) = &mut self.evolution {
            evolution.set_progress(share);
        }
    }

    /// Number of programs skipped because they cannot be fast enough.
    pub fn n_pruned(&self) -> u64 {
        self.evolution.as_ref().map_or(0, Evolution::n_pruned)
    }

    /// Proposes these traces, from any space, before anything else. They do not change what the strategy draws.
    pub fn begin_with(&mut self, mut traces: Vec<Trace>) {
        traces.reverse();
        self.first = traces;
    }

    /// Excludes a program from proposals.
    pub fn skip(&mut self, program: u64) {
        self.seen.insert(program);
    }

    /// Number of candidates drawn so far, whatever their outcome.
    pub fn n_drawn(&self) -> u64 {
        self.evolution.as_ref().map_or(self.next, Evolution::n_drawn)
    }

    /// Number of distinct programs that came up so far, including skipped ones.
    pub fn n_distinct(&self) -> usize {
        self.met.len()
    }

    /// Whether the last rounds found no new program. A program of the database is new when it first comes up: a resumed
    /// search passes through what earlier runs did before it reaches the rest.
    pub fn is_exhausted(&self) -> bool {
        match &self.strategy {
            Strategy::Random | Strategy::Evolutionary(_) => self.fruitless >= FRUITLESS_ROUNDS,
            Strategy::Replay(traces) => self.next >= traces.len() as u64,
        }
    }

    /// Proposes up to `want` new programs, made by `jobs` threads. An empty round does not mean that there are no more:
    /// see [`Proposer::is_exhausted`].
    pub fn round(&mut self, want: usize, jobs: usize) -> Round {
        if !self.first.is_empty() {
            return self.first_round(want, jobs);
        }
        if self.evolution.is_some() {
            return self.evolve(want, jobs);
        }
        let mut round = Round::default();
        let mut left = (want * DRAWS_PER_CANDIDATE).max(MIN_DRAWS);
        let met_before = self.met.len();
        while round.candidates.len() < want && left > 0 && !self.is_exhausted() {
            // The batch size depends on the request only, so the numbers drawn do not depend on the threads.
            let batch = self.batch((want - round.candidates.len()).min(left));
            let drawn = (batch.end - batch.start) as usize;
            if drawn == 0 {
                break;
            }
            left -= drawn;
            let first = batch.start;
            let made = in_order(drawn, jobs, |i| self.candidate(first + i as u64));
            for (index, made) in (first..).zip(made) {
                self.take(&mut round, index + self.n_first, made);
            }
        }
        self.fruitless = if self.met.len() == met_before { self.fruitless + 1 } else { 0 };
        round
    }

    fn evolve(&mut self, want: usize, jobs: usize) -> Round {
        let Proposer { base, func, space, seed, seen, met, evolution, .. } = self;
        let (Some(evolution), false) = (evolution, self.fruitless >= FRUITLESS_ROUNDS) else { return Round::default() };
        let machine = evolution.machine();
        let builder = CandidateBuilder { base, func: *func, space, seed: *seed, machine: &machine };
        let drawn = evolution.round(&builder, want, jobs, seen);
        let met_before = met.len();
        met.extend(&drawn.met);
        let is_fruitless = met.len() == met_before && drawn.candidates.is_empty();
        self.fruitless = if is_fruitless { self.fruitless + 1 } else { 0 };
        let mut round = Round { rejections: drawn.rejections, duplicates: drawn.duplicates, ..Round::default() };
        round.candidates.extend(drawn.candidates.into_iter().filter(|c| seen.insert(c.program)));
        round
    }

    /// A round of the traces to begin with.
    fn first_round(&mut self, want: usize, jobs: usize) -> Round {
        let mut round = Round::default();
        let traces: Vec<Trace> = self.first.drain(self.first.len().saturating_sub(want)..).rev().collect();
        let replay = |i: usize| {
            self.guarded(|| {
                let schedule = self.replayed(&traces[i], 0)?;
                let program = program_hash(schedule.func(self.func));
                Ok((schedule, program, None))
            })
        };
        for made in in_order(traces.len(), jobs, replay) {
            let index = self.n_first;
            self.n_first += 1;
            self.take(&mut round, index, made);
        }
        if self.evolution.is_some() {
            let tried = round.candidates.iter().map(|c| (c.program, c.schedule.trace().clone()));
            self.tried_first.extend(tried);
        }
        round
    }

    fn take(&mut self, round: &mut Round, index: u64, made: Made) {
        match made {
            Ok((schedule, program, sketch)) => {
                self.met.insert(program);
                if self.seen.insert(program) {
                    round.candidates.push(Candidate { index, schedule, program, sketch });
                } else {
                    round.duplicates += 1;
                }
            }
            Err(rejection) => round.rejections.push(rejection),
        }
    }

    fn batch(&mut self, n: usize) -> std::ops::Range<u64> {
        let start = self.next;
        let end = match &self.strategy {
            Strategy::Random | Strategy::Evolutionary(_) => start + n as u64,
            Strategy::Replay(traces) => (start + n as u64).min(traces.len() as u64),
        };
        self.next = end;
        start..end
    }

    fn candidate(&self, index: u64) -> Made {
        self.guarded(|| self.candidate_of(index))
    }

    /// Turns a panic into a rejection.
    fn guarded(&self, make: impl FnOnce() -> Made) -> Made {
        isolated(make).unwrap_or_else(|message| {
            Err(Rejection { sketch: None, stage: Stage::Schedule, by: "panic".to_string(), message })
        })
    }

    fn candidate_of(&self, index: u64) -> Made {
        let (schedule, sketch) = match &self.strategy {
            Strategy::Random | Strategy::Evolutionary(_) => {
                let (schedule, sketch) = self.space.sample(&self.base, stream(self.seed, index))?;
                (schedule, Some(sketch))
            }
            Strategy::Replay(traces) => (self.replayed(&traces[index as usize], index)?, None),
        };
        let program = program_hash(schedule.func(self.func));
        Ok((schedule, program, sketch))
    }

    /// Replays a trace; its open decisions are drawn from random stream `index`.
    fn replayed(&self, trace: &Trace, index: u64) -> Result<Schedule, Rejection> {
        let mut sch = self.base.clone();
        sch.set_rng(stream(self.seed, index));
        trace.replay(&mut sch).map_err(|e| Rejection::of_instruction(Stage::Schedule, e.error))?;
        Ok(sch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Module;
    use crate::schedule_function::ScheduleFunction;
    use crate::script::{ParseOptions, parse};
    use crate::space::sample::{ScheduleSource, SourceError};
    use std::sync::Arc;

    const PROGRAM: &str = "@T.prim_func
def main(A: T.Buffer((128,), \"float32\"), B: T.Buffer((128,), \"float32\")):
    for i in range(128):
        with T.block(\"B\"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] + T.float32(1)
";
    const TILES: &str = "def tiles(sch):
    i, = sch.get_loops(sch.get_block(\"B\", \"main\"))
    a, b = sch.sample_perfect_tile(i, 2, 64)
    sch.split(i, [a, b])
";

    struct Source(ScheduleFunction);

    impl ScheduleSource for Source {
        fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError> {
            self.0.apply(sch).map_err(|e| SourceError::Function(e.to_string()))
        }
    }

    struct Broken;

    impl ScheduleSource for Broken {
        fn apply(&self, _: &mut Schedule) -> Result<(), SourceError> {
            panic!("a bug")
        }
    }

    fn module() -> Module {
        parse(PROGRAM, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module
    }

    fn proposer(source: Arc<dyn ScheduleSource>, seed: u64) -> Proposer {
        Proposer::new(Schedule::new(&module(), 0), 0, Space::of_function(source), Strategy::Random, seed)
    }

    fn tiles(seed: u64) -> Proposer {
        proposer(Arc::new(Source(ScheduleFunction::parse(TILES, "tiles.py").unwrap_or_else(|e| panic!("{e}")))), seed)
    }

    fn all(mut p: Proposer, jobs: usize) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        while !p.is_exhausted() {
            all.extend(p.round(3, jobs).candidates.iter().map(|c| (c.index, c.program)));
        }
        all
    }

    #[test]
    fn candidates_do_not_depend_on_the_threads() {
        let one = all(tiles(5), 1);
        assert_eq!(one.len(), 7);
        assert_eq!(all(tiles(5), 4), one);
        assert_ne!(all(tiles(6), 1), one);
    }

    #[test]
    fn what_is_known_is_passed_over() {
        let first = all(tiles(5), 1);
        let mut p = tiles(5);
        first[..5].iter().for_each(|&(_, program)| p.skip(program));
        let mut resumed = Vec::new();
        while !p.is_exhausted() {
            resumed.extend(p.round(1, 1).candidates.iter().map(|c| (c.index, c.program)));
        }
        assert_eq!(resumed, first[5..]);
        assert_eq!(p.n_distinct(), 7);
    }

    #[test]
    fn a_panic_is_a_rejection() {
        let mut p = proposer(Arc::new(Broken), 0);
        let round = p.round(2, 2);
        assert!(round.candidates.is_empty());
        assert_eq!(round.rejections[0].by, "panic");
        assert!(round.rejections[0].message.contains("a bug"));
        (0..3).for_each(|_| drop(p.round(2, 1)));
        assert!(p.is_exhausted());
    }

    #[test]
    fn replay_takes_traces_in_their_order() {
        let mut p = tiles(5);
        let round = p.round(4, 1);
        let traces: Vec<Trace> = round.candidates.iter().map(|c| c.schedule.trace().clone()).collect();
        let wanted: Vec<u64> = round.candidates.iter().map(|c| c.program).collect();
        let base = Schedule::new(&module(), 0);
        let mut p = Proposer::new(base, 0, Space::new(Vec::new(), Vec::new()), Strategy::Replay(traces), 0);
        let replayed: Vec<u64> = p.round(9, 2).candidates.iter().map(|c| c.program).collect();
        assert_eq!(replayed, wanted);
        assert!(p.is_exhausted());
    }

    #[test]
    fn what_to_begin_with_comes_first_and_changes_nothing_after_it() {
        let mut p = tiles(5);
        let known = p.round(3, 1);
        let traces: Vec<Trace> = known.candidates.iter().rev().map(|c| c.schedule.trace().clone()).collect();
        let wanted: Vec<u64> = known.candidates.iter().rev().map(|c| c.program).collect();
        let mut p = tiles(6);
        p.begin_with(traces.clone());
        let seeded = all(p, 2);
        let programs: Vec<u64> = seeded.iter().map(|&(_, program)| program).collect();
        assert_eq!(programs[..3], wanted);
        let rest: Vec<u64> = all(tiles(6), 1).iter().map(|&(_, p)| p).filter(|p| !wanted.contains(p)).collect();
        assert_eq!(programs[3..], rest);
        // A skipped program is never proposed.
        let mut p = tiles(6);
        wanted.iter().for_each(|&program| p.skip(program));
        p.begin_with(traces);
        assert!(p.round(3, 1).candidates.is_empty());
    }
}
