//! Candidates of the evolutionary search, and the recipes that make them.

use super::features::{CodeModel, Features};
use crate::ir::hash::program_hash;
use crate::schedule::arg::Decision;
use crate::schedule::{Schedule, Trace};
use crate::space::mutator::{Change, crossover, mutate};
use crate::space::sample::stream;
use crate::space::{Rejection, Space};
use std::sync::Arc;

/// A sketch with decisions, from which other candidates are derived.
#[derive(Clone, Debug)]
pub(super) struct Parent {
    /// Position of the sketch.
    pub sketch: usize,
    /// The trace with its decisions, without postprocessing.
    pub trace: Arc<Trace>,
}

/// A candidate that could be proposed.
#[derive(Clone, Debug)]
pub(super) struct Individual {
    /// Its candidate number.
    pub index: u64,
    /// Its sketch and decisions.
    pub genes: Parent,
    /// Hash of its program.
    pub program: u64,
    /// Its features.
    pub features: Features,
    /// Logarithm of the predicted seconds.
    pub score: f64,
    /// Whether it is a seed of the space.
    pub is_seed: bool,
}

/// A way to make a candidate.
#[derive(Clone, Debug)]
pub(super) enum Recipe {
    /// Take the seed at this position.
    Seed(usize),
    /// Draw all decisions of a sketch.
    Random(usize),
    /// Change some decisions of a known candidate.
    Mutant(Parent, u32),
    /// Take decisions of two candidates of one sketch, and change one.
    Child(Parent, Parent),
    /// Apply one small change.
    Step(Parent, Change),
}

/// The context in which candidates are built.
#[derive(Clone, Copy)]
pub(super) struct CandidateBuilder<'a> {
    /// The program as written.
    pub base: &'a Schedule,
    /// Position of the function to schedule.
    pub func: usize,
    /// The space.
    pub space: &'a Space,
    /// The seed of the search.
    pub seed: u64,
    /// The machine.
    pub machine: &'a CodeModel,
}

impl CandidateBuilder<'_> {
    /// Position of the sketch that a recipe is for.
    pub(super) fn sketch_of(&self, recipe: &Recipe) -> usize {
        match recipe {
            Recipe::Seed(i) => self.space.seeds()[*i].sketch,
            Recipe::Random(sketch) => *sketch,
            Recipe::Mutant(parent, _) | Recipe::Child(parent, _) | Recipe::Step(parent, _) => parent.sketch,
        }
    }

    /// Makes candidate `index`; `None` if `is_known` says that its program is known. The result depends on the
    /// arguments only.
    ///
    /// # Errors
    /// If the space rejects it.
    pub(super) fn make(
        &self,
        index: u64,
        recipe: &Recipe,
        is_known: impl Fn(u64) -> bool,
    ) -> Result<(u64, Option<Individual>), Rejection> {
        let mut rng = stream(self.seed, index);
        let (sketch, decisions) = match recipe {
            Recipe::Seed(i) => {
                let seed = &self.space.seeds()[*i];
                (seed.sketch, decisions(&seed.trace))
            }
            Recipe::Random(sketch) => (*sketch, Vec::new()),
            Recipe::Mutant(parent, changes) => {
                let mut trace = (*parent.trace).clone();
                for _ in 0..*changes {
                    if let Some(change) = mutate(&trace, &mut rng) {
                        change.apply(&mut trace);
                    }
                }
                (parent.sketch, decisions(&trace))
            }
            Recipe::Child(first, second) => {
                let mut trace = crossover(&first.trace, &second.trace, &mut rng);
                if let Some(change) = mutate(&trace, &mut rng) {
                    change.apply(&mut trace);
                }
                (first.sketch, decisions(&trace))
            }
            Recipe::Step(parent, change) => {
                let mut trace = (*parent.trace).clone();
                change.clone().apply(&mut trace);
                (parent.sketch, decisions(&trace))
            }
        };
        let schedule = self.space.build(self.base, sketch, &decisions, rng)?;
        let func = schedule.func(self.func);
        let program = program_hash(func);
        if is_known(program) {
            return Ok((program, None));
        }
        let mut features = Features::of(func, self.machine);
        let trace = Arc::new(schedule.trace().without_postproc());
        let genes = Parent { sketch, trace };
        features.values.extend(as_numbers(Some(&genes)));
        let is_seed = matches!(recipe, Recipe::Seed(_));
        Ok((program, Some(Individual { index, genes, program, features, score: 0.0, is_seed })))
    }

    /// Builds the schedule of a candidate again.
    ///
    /// # Errors
    /// If the space rejects it, although it did not before.
    pub(super) fn again(&self, one: &Individual) -> Result<(Schedule, u64), Rejection> {
        let decisions = decisions(&one.genes.trace);
        let schedule = self.space.build(self.base, one.genes.sketch, &decisions, stream(self.seed, one.index))?;
        let program = program_hash(schedule.func(self.func));
        Ok((schedule, program))
    }

    /// Replays a program of the database. Returns its features, and its decisions if it belongs to a sketch of the
    /// space.
    pub(super) fn of_record(&self, trace: &Trace) -> Option<(Features, Option<Parent>)> {
        let mut schedule = self.base.clone();
        trace.replay(&mut schedule).ok()?;
        let mut features = Features::of(schedule.func(self.func), self.machine);
        let sketch = self.space.sketch_of(trace);
        let genes = sketch.map(|sketch| Parent { sketch, trace: Arc::new(trace.without_postproc()) });
        features.values.extend(as_numbers(genes.as_ref()));
        Some((features, genes))
    }
}

/// Number of decisions that are features, each tile size counting as one.
const SEEN: usize = 24;

/// The sketch and its decisions as features: the model can learn from them what the other features miss.
pub(super) fn as_numbers(genes: Option<&Parent>) -> Vec<f64> {
    let mut numbers = vec![0.0; 1 + SEEN];
    let Some(genes) = genes else { return numbers };
    numbers[0] = 1.0 + genes.sketch as f64;
    let number = |d: Decision| match d {
        // Compute locations start at -2: see `sample_compute_location`.
        Decision::Int(choice) => vec![choice as f64 + 3.0],
        Decision::Ints(sizes) => sizes.into_iter().map(|s| (1.0 + s.max(0) as f64).ln()).collect(),
    };
    let all = decisions(&genes.trace).into_iter().flat_map(number);
    numbers[1..].iter_mut().zip(all).for_each(|(slot, number)| *slot = number);
    numbers
}

/// The decisions in a trace before postprocessing, in order.
fn decisions(trace: &Trace) -> Vec<Decision> {
    trace.insts[..trace.space_len()].iter().filter_map(|inst| inst.decision.clone()).collect()
}
