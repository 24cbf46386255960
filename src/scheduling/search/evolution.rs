//! Evolutionary search: derives candidates from the decisions of good ones, and ranks them by a cost model.
//!
//! ```text
//! seeds, random samples, small steps around the best (towards the end)
//!   └─► generations: mutants and children of the elite and of the best predicted so far
//!         └─► pool of distinct programs, scored ─► choose: seeds, neglected sketches, the best predicted, chance
//! ```
//!
//! Neither the clock nor the number of threads has any influence: candidates depend on the reported measurements only.

use super::archive::{Archive, Measured};
use super::choose::{Choice, choose};
use super::features::CodeModel;
use super::individual::{CandidateBuilder, Individual, Parent, Recipe};
use super::model::CostModel;
use super::proposer::{Candidate, Drawn};
use super::{in_order, isolated};
use crate::schedule::Trace;
use crate::space::mutator::{neighbours, unit, weighted};
use crate::space::sample::stream;
use crate::space::{Rejection, Sketch, Space, Stage};
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, HashSet};

/// The machine and the switches of an evolutionary search.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The machine to estimate times for.
    pub machine: CodeModel,
    /// Whether to start with the candidates that the space recommends.
    pub seeds: bool,
    /// Whether to rank candidates by estimate and cost model. Otherwise mutants of the best are taken in random order.
    pub cost_model: bool,
}

/// The outcome of a candidate, as reported to the search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Feedback {
    /// It took this many seconds per call.
    Took(f64),
    /// It was stopped after this many seconds or more.
    TooSlow(f64),
    /// It does not compile, gives wrong results, or failed in another way that says nothing about its time.
    Failed,
}

/// The state of an evolutionary search.
pub(super) struct Evolution {
    options: Options,
    archive: Archive,
    model: CostModel,
    /// Candidates that were proposed and have no result yet, by program hash.
    proposed: HashMap<u64, Individual>,
    /// Programs skipped because they cannot be fast enough.
    pruned: HashSet<u64>,
    /// Share of the trials that are done.
    progress: f64,
    /// The next candidate number.
    next: u64,
    rounds: u64,
    /// Positions of the seeds that are still to be tried.
    seeds: Vec<usize>,
    /// Number of trials made before this search.
    resumed: u64,
}

/// Number of parents to breed from.
const ELITE: usize = 16;
/// Ratio of the probabilities of a parent and the next better one.
const DECAY: f64 = 0.85;
/// Number of generations in a round.
const GENERATIONS: usize = 3;
/// Share of random samples among the candidates scored in a round, once there is an elite.
const RANDOM: f64 = 0.2;
/// Share of crossovers among bred candidates; the others are mutants.
const CHILDREN: f64 = 0.15;
/// Progress from which on the search takes small steps around the best candidates.
const ENDGAME: f64 = 2.0 / 3.0;
/// Number of candidates to take small steps around.
const CENTRES: usize = 2;
/// A candidate whose lower bound is this many times the best time is skipped.
const HOPELESS: f64 = 2.0;
/// Tries of a sketch before its candidates may be skipped: a ratio learnt from other sketches may not hold for it.
const FAIR_TRIES: u64 = 4;
/// Minimum and maximum number of candidates to score in a round.
const EFFORT: (f64, f64) = (64.0, 1024.0);
/// Share of the run's time that proposing may take.
const TIME_SHARE: f64 = 0.2;
/// Estimated seconds to compile a candidate and set up its measurement.
const TRIAL: f64 = 1.5e-3;
/// Estimated number of calls to measure a candidate.
const CALLS: f64 = 12.0;
/// Estimated seconds to make and score a candidate: a constant, plus a term per instruction of its sketch.
const MAKE: (f64, f64) = (80e-6, 5e-6);
/// Candidate numbers reserved for each trial made before this search.
const RESUMED_BY: u64 = 1 << 16;

impl Evolution {
    /// A search without measurements.
    pub(super) fn new(options: Options) -> Evolution {
        Evolution {
            options,
            archive: Archive::default(),
            model: CostModel::default(),
            proposed: HashMap::new(),
            pruned: HashSet::new(),
            progress: 0.0,
            next: 0,
            rounds: 0,
            seeds: Vec::new(),
            resumed: 0,
        }
    }

    /// Sets the share of the trials that are done.
    pub(super) fn set_progress(&mut self, share: f64) {
        self.progress = share;
    }

    /// Number of programs skipped because they cannot be fast enough.
    pub(super) fn n_pruned(&self) -> u64 {
        self.pruned.len() as u64
    }

    /// Number of candidates made so far.
    pub(super) fn n_drawn(&self) -> u64 {
        self.next
    }

    /// Reports the outcome of a candidate. A later report replaces an earlier one.
    pub(super) fn learn(&mut self, program: u64, feedback: Feedback) {
        match (self.proposed.remove(&program), feedback) {
            (Some(one), Feedback::Took(secs)) => {
                self.model.learn(program, one.features, secs);
                self.archive.add(Measured { program, genes: one.genes, secs });
            }
            (Some(one), Feedback::TooSlow(secs)) => self.model.learn(program, one.features, secs),
            (_, Feedback::Failed) => {
                self.archive.remove(program);
                self.model.forget(program);
            }
            (None, Feedback::Took(_) | Feedback::TooSlow(_)) => {}
        }
    }

    /// Adds a measurement of an earlier run.
    pub(super) fn remember(
        &mut self,
        builder: &CandidateBuilder<'_>,
        program: u64,
        trace: &Trace,
        secs: f64,
        is_of_space: bool,
    ) {
        let Ok(Some((features, genes))) = isolated(|| builder.of_record(trace)) else { return };
        self.model.learn(program, features, secs);
        if let Some(genes) = genes.filter(|_| is_of_space) {
            self.archive.note_try(genes.sketch);
            self.archive.add(Measured { program, genes, secs });
        }
    }

    /// Continues after `trials` earlier trials: candidates draw from other random streams than theirs.
    pub(super) fn resume(&mut self, trials: u64) {
        self.resumed = trials;
        self.next = trials * RESUMED_BY;
    }

    /// The cost model.
    pub(super) fn model(&mut self) -> &mut CostModel {
        &mut self.model
    }

    /// The machine that times are estimated for.
    pub(super) fn machine(&self) -> CodeModel {
        self.options.machine
    }

    /// Proposes up to `want` new candidates, none of them in `seen`.
    pub(super) fn round(
        &mut self,
        builder: &CandidateBuilder<'_>,
        want: usize,
        jobs: usize,
        seen: &HashSet<u64>,
    ) -> Drawn {
        if self.options.cost_model {
            self.model.retrain(builder.seed);
        }
        // Random streams of candidates count up from 0, those of rounds count down from the maximum.
        let mut rng = stream(builder.seed, u64::MAX - self.resumed - self.rounds);
        let effort = self.effort(builder.space, want);
        let mut pool = Pool { seen, jobs, known: HashSet::new(), found: Vec::new(), drawn: Drawn::default() };
        if self.rounds == 0 && self.options.seeds {
            self.seeds = (0..builder.space.seeds().len()).collect();
        }
        let seeds_from = self.next;
        let first = self.first_generation(builder.space, effort);
        self.extend(&mut pool, builder, &first);
        let seeds: Vec<u64> = pool.found.iter().filter(|one| one.is_seed).map(|one| one.index - seeds_from).collect();
        let left = effort.saturating_sub(first.len());
        for _ in 0..GENERATIONS {
            let before = pool.found.len();
            let bred = self.breed(&pool.found, left / GENERATIONS, &mut rng);
            self.extend(&mut pool, builder, &bred);
            if pool.found.len() == before {
                break;
            }
        }
        if pool.found.len() < want {
            // The space is small or rejects many candidates: draw more samples to find the rest.
            let more = self.random(builder.space, effort / 2);
            self.extend(&mut pool, builder, &more);
        }
        let Pool { found, mut drawn, .. } = pool;
        let n_sketches = builder.space.sketches().len();
        let is_ranked = self.options.cost_model;
        let found = self.prune(found);
        let choice = Choice { want, archive: &self.archive, n_sketches, is_ranked };
        let chosen = choose(found, &choice, &mut rng);
        // The seeds were made first, so their numbers are consecutive from `seeds_from`.
        let is_left = |i: u64| seeds.contains(&i) && !chosen.iter().any(|one| one.index == seeds_from + i);
        let left: Vec<u64> = (0..self.seeds.len() as u64).filter(|&i| is_left(i)).collect();
        self.seeds = left.into_iter().map(|i| self.seeds[i as usize]).collect();
        let again = in_order(chosen.len(), jobs, |i| caught(|| builder.again(&chosen[i])));
        for (one, again) in chosen.into_iter().zip(again) {
            match again {
                Ok((schedule, program)) if program == one.program => {
                    self.archive.note_try(one.genes.sketch);
                    drawn.candidates.push(Candidate {
                        index: one.index,
                        schedule,
                        program,
                        sketch: Some(one.genes.sketch),
                    });
                    self.proposed.insert(program, one);
                }
                Ok(_) => {}
                Err(rejection) => drawn.rejections.push(rejection),
            }
        }
        self.rounds += 1;
        drawn
    }

    /// Number of candidates to score: more if trials take long. Times are rounded to powers of two, so that noise does
    /// not change what is proposed.
    fn effort(&self, space: &Space, want: usize) -> usize {
        let instructions = |s: &Sketch| match s {
            Sketch::Trace(trace) => trace.insts.len(),
            Sketch::Function(_) => 30,
        };
        let longest = space.sketches().iter().map(instructions).max().unwrap_or(0);
        let make = MAKE.0 + MAKE.1 * longest as f64;
        let call = self.archive.best().map_or(0.0, |secs| secs.log2().round().exp2());
        let trial = TRIAL + CALLS * call;
        let seconds = TIME_SHARE / (1.0 - TIME_SHARE) * want as f64 * trial;
        (seconds / make).clamp(EFFORT.0, EFFORT.1) as usize
    }

    fn first_generation(&self, space: &Space, effort: usize) -> Vec<Recipe> {
        let mut recipes = Vec::new();
        recipes.extend(self.seeds.iter().map(|&i| Recipe::Seed(i)));
        if self.archive.best().is_none() {
            recipes.extend(self.random(space, effort / 2));
            return recipes;
        }
        if self.progress >= ENDGAME {
            for centre in self.archive.elite(CENTRES) {
                let steps = neighbours(&centre.genes.trace);
                recipes.extend(steps.into_iter().map(|change| Recipe::Step(centre.genes.clone(), change)));
            }
            recipes.truncate(effort / 2);
        }
        recipes.extend(self.random(space, (effort as f64 * RANDOM) as usize));
        recipes
    }

    /// Samples of all sketches in turn, starting with a different one in each round.
    fn random(&self, space: &Space, n: usize) -> Vec<Recipe> {
        let sketches = space.sketches().len();
        let first = self.rounds as usize * n;
        (0..if sketches > 0 { n } else { 0 }).map(|i| Recipe::Random((first + i) % sketches)).collect()
    }

    /// Mutants and crossovers of the best candidates, measured or predicted.
    fn breed(&self, pool: &[Individual], n: usize, rng: &mut ChaCha8Rng) -> Vec<Recipe> {
        let mut parents: Vec<(f64, &Parent)> =
            self.archive.elite(ELITE).iter().map(|m| (m.secs.ln(), &m.genes)).collect();
        if self.options.cost_model {
            let mut best: Vec<&Individual> = pool.iter().collect();
            best.sort_by(|a, b| a.score.total_cmp(&b.score));
            parents.extend(best.iter().take(ELITE).map(|one| (one.score, &one.genes)));
        }
        parents.sort_by(|a, b| a.0.total_cmp(&b.0));
        if parents.is_empty() {
            return Vec::new();
        }
        let weights = (0..parents.len()).map(|i| DECAY.powi(i as i32));
        let mut recipes = Vec::with_capacity(n);
        for _ in 0..n {
            let parent = parents[weighted(rng, weights.clone())].1;
            let other = parents[weighted(rng, weights.clone())].1;
            recipes.push(if unit(rng) < CHILDREN && other.sketch == parent.sketch {
                Recipe::Child(parent.clone(), other.clone())
            } else {
                // Mostly one change, sometimes several.
                let changes = 1 + (0..3).take_while(|_| unit(rng) < 0.35).count() as u32;
                Recipe::Mutant(parent.clone(), changes)
            });
        }
        recipes
    }

    /// Makes candidates, and scores the new ones.
    fn extend(&mut self, pool: &mut Pool<'_>, builder: &CandidateBuilder<'_>, recipes: &[Recipe]) {
        let first = self.next;
        self.next += recipes.len() as u64;
        let Pool { seen, known, .. } = pool;
        let made = in_order(recipes.len(), pool.jobs, |i| {
            let is_known = |program| seen.contains(&program) || known.contains(&program);
            let made = caught(|| builder.make(first + i as u64, &recipes[i], is_known));
            made.map_err(|r| Rejection { sketch: Some(builder.sketch_of(&recipes[i])), ..r })
        });
        for made in made {
            match made {
                Ok((program, individual)) => {
                    pool.drawn.met.push(program);
                    let Some(mut one) = individual else {
                        pool.drawn.duplicates += 1;
                        continue;
                    };
                    // Two candidates of a batch may give the same program.
                    if !known.insert(program) {
                        pool.drawn.duplicates += 1;
                        continue;
                    }
                    one.score = self.model.predict(&one.features);
                    pool.found.push(one);
                }
                Err(rejection) => pool.drawn.rejections.push(rejection),
            }
        }
    }

    /// Drops candidates that cannot come close to the best time: their lower bound, scaled by the smallest ratio of
    /// measured time to lower bound, is too large.
    fn prune(&mut self, mut pool: Vec<Individual>) -> Vec<Individual> {
        if !self.options.cost_model {
            return pool;
        }
        if let (Some(best), Some(ratio)) = (self.archive.best(), self.model.least_ratio()) {
            let Evolution { pruned, archive, .. } = self;
            pool.retain(|one| {
                let is_known = archive.tried(one.genes.sketch) >= FAIR_TRIES;
                let is_hopeless = is_known && one.features.least * ratio > best * HOPELESS;
                if is_hopeless {
                    pruned.insert(one.program);
                }
                !is_hopeless
            });
        }
        pool
    }
}

/// The candidates of a round.
struct Pool<'a> {
    seen: &'a HashSet<u64>,
    jobs: usize,
    known: HashSet<u64>,
    found: Vec<Individual>,
    drawn: Drawn,
}

/// Turns a panic into a rejection of the candidate.
fn caught<T>(work: impl FnOnce() -> Result<T, Rejection>) -> Result<T, Rejection> {
    isolated(work).unwrap_or_else(|message| {
        Err(Rejection { sketch: None, stage: Stage::Schedule, by: "panic".to_string(), message })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Module;
    use crate::machine::Core;
    use crate::machine::Isa;
    use crate::machine::cascade_lake;
    use crate::schedule::Schedule;
    use crate::script::{ParseOptions, parse};
    use crate::search::{Proposer, Strategy};
    use crate::space::{Rules, generate};

    const MATMUL: &str = include_str!("../../../workloads/matmul.tir");

    fn module() -> Module {
        parse(MATMUL, "matmul", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module
    }

    /// TVM's space, which is large and has no seeds.
    fn proposer(strategy: Strategy, seed: u64) -> Proposer {
        let module = module();
        let space =
            generate(&module, 0, Rules::tvm(1), &crate::stop::StopFlag::new()).unwrap_or_else(|e| panic!("{e}"));
        Proposer::new(Schedule::new(&module, 0), 0, space, strategy, seed)
    }

    fn evolutionary(cost_model: bool) -> Strategy {
        let machine = CodeModel::new(&cascade_lake(), Isa::Avx512, false, 1);
        Strategy::Evolutionary(Options { machine, seeds: true, cost_model })
    }

    /// An artificial time: the distance from decisions that no estimate would prefer.
    fn cost(trace: &Trace) -> f64 {
        let wanted = [4.0, 2.0, 16.0, 1.0, 1.0, 8.0, 4.0, 4.0, 2.0, 64.0];
        let sizes = trace.decisions().filter_map(|(_, d)| match d {
            crate::schedule::arg::Decision::Ints(sizes) => Some(sizes),
            crate::schedule::arg::Decision::Int(_) => None,
        });
        let far = sizes.flatten().zip(wanted).map(|(&s, w): (&i64, f64)| (s as f64 / w).log2().abs()).sum::<f64>();
        1e-5 * (1.0 + far)
    }

    /// The best cost after `trials` trials, and the programs tried.
    fn search(mut p: Proposer, trials: usize, jobs: usize) -> (f64, Vec<u64>) {
        let (mut best, mut tried) = (f64::INFINITY, Vec::new());
        while tried.len() < trials {
            p.set_progress(tried.len() as f64 / trials as f64);
            let round = p.round(16, jobs);
            assert!(!round.candidates.is_empty());
            for c in round.candidates {
                let secs = cost(&c.schedule.trace().without_postproc());
                best = best.min(secs);
                assert!(!tried.contains(&c.program), "nothing is tried twice");
                tried.push(c.program);
                p.learn(c.program, Feedback::Took(secs));
            }
        }
        (best, tried)
    }

    #[test]
    fn it_finds_what_chance_does_not() {
        let median = |strategy: &dyn Fn() -> Strategy| {
            let mut found: Vec<f64> = (0..5).map(|seed| search(proposer(strategy(), seed), 96, 2).0).collect();
            found.sort_by(f64::total_cmp);
            found[2]
        };
        let random = median(&|| Strategy::Random);
        let with_model = median(&|| evolutionary(true));
        assert!(with_model < 0.8 * random, "{with_model} is to be well below {random}");
    }

    #[test]
    fn threads_change_nothing() {
        let tried = |jobs| search(proposer(evolutionary(true), 3), 32, jobs).1;
        let one = tried(1);
        assert_eq!(tried(2), one);
    }

    #[test]
    fn seeds_come_first() {
        let module = module();
        let described = Core::new(&cascade_lake(), Isa::Avx512, 1);
        let space = generate(&module, 0, Rules::auto(described), &crate::stop::StopFlag::new())
            .unwrap_or_else(|e| panic!("{e}"));
        let n = space.seeds().len();
        assert!(n > 0);
        let mut p = Proposer::new(Schedule::new(&module, 0), 0, space, evolutionary(true), 0);
        let round = p.round(16, 1);
        assert_eq!(round.candidates.len(), 16);
        assert!(round.candidates.iter().filter(|c| c.index < n as u64).count() >= n.min(12));
    }

    #[test]
    fn it_goes_on_without_a_model() {
        assert_eq!(search(proposer(evolutionary(false), 0), 32, 2).1.len(), 32);
    }

    #[test]
    fn what_was_wrong_is_no_parent() {
        let mut p = proposer(evolutionary(true), 0);
        let round = p.round(16, 1);
        for c in &round.candidates {
            p.learn(c.program, Feedback::Took(1e-3));
            p.learn(c.program, Feedback::Failed);
        }
        assert!(!p.round(16, 1).candidates.is_empty());
    }
}
