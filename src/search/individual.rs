//! A candidate as the evolution sees it, and the ways to come by one.

use super::features::{CodeModel, Features};
use crate::ir::hash::program_hash;
use crate::schedule::arg::Decision;
use crate::schedule::{Schedule, Trace};
use crate::space::mutator::{Change, crossover, mutate};
use crate::space::sample::stream;
use crate::space::{Rejection, Space};
use std::sync::Arc;

/// Decisions of a sketch: what other candidates are made from.
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
    /// Its number.
    pub index: u64,
    /// Its decisions.
    pub genes: Parent,
    /// Hash of its program.
    pub program: u64,
    /// What can be said about it.
    pub features: Features,
    /// The logarithm of the seconds it is expected to take.
    pub score: f64,
    /// Is it one that the space recommends?
    pub is_seed: bool,
}

/// How to come by a candidate.
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
    /// Make one small change.
    Step(Parent, Change),
}

/// What candidates are made with.
#[derive(Clone, Copy)]
pub(super) struct Kitchen<'a> {
    /// The program as written.
    pub base: &'a Schedule,
    /// Its function.
    pub func: usize,
    /// The space.
    pub space: &'a Space,
    /// The seed of the search.
    pub seed: u64,
    /// The machine.
    pub machine: &'a CodeModel,
}

impl Kitchen<'_> {
    /// The sketch that a recipe is for.
    pub(super) fn sketch_of(&self, recipe: &Recipe) -> usize {
        match recipe {
            Recipe::Seed(i) => self.space.seeds()[*i].sketch,
            Recipe::Random(sketch) => *sketch,
            Recipe::Mutant(parent, _) | Recipe::Child(parent, _) | Recipe::Step(parent, _) => parent.sketch,
        }
    }

    /// Makes candidate `index`; `None` if `is_known` says that its program is of no interest. The result is a function of
    /// the arguments alone.
    ///
    /// # Errors
    /// If the space refuses it.
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

    /// The schedule of a candidate, once more.
    ///
    /// # Errors
    /// If the space refuses it, which it did not before.
    pub(super) fn again(&self, one: &Individual) -> Result<(Schedule, u64), Rejection> {
        let decisions = decisions(&one.genes.trace);
        let schedule = self.space.build(self.base, one.genes.sketch, &decisions, stream(self.seed, one.index))?;
        let program = program_hash(schedule.func(self.func));
        Ok((schedule, program))
    }

    /// A program of the database, replayed: its features, and its decisions if it is of a sketch of the space.
    pub(super) fn recall(&self, trace: &Trace) -> Option<(Features, Option<Parent>)> {
        let mut schedule = self.base.clone();
        trace.replay(&mut schedule).ok()?;
        let mut features = Features::of(schedule.func(self.func), self.machine);
        let sketch = self.space.sketch_of(trace);
        let genes = sketch.map(|sketch| Parent { sketch, trace: Arc::new(trace.without_postproc()) });
        features.values.extend(as_numbers(genes.as_ref()));
        Some((features, genes))
    }
}

/// Decisions that the model sees, each size of a tile being one.
const SEEN: usize = 24;

/// The sketch and its decisions, for the model: what features leave out, it can still learn of this program.
pub(super) fn as_numbers(genes: Option<&Parent>) -> Vec<f64> {
    let mut numbers = vec![0.0; 1 + SEEN];
    let Some(genes) = genes else { return numbers };
    numbers[0] = 1.0 + genes.sketch as f64;
    let number = |d: Decision| match d {
        // Choices from -2 on: see `sample_compute_location`.
        Decision::Int(choice) => vec![choice as f64 + 3.0],
        Decision::Ints(sizes) => sizes.into_iter().map(|s| (1.0 + s.max(0) as f64).ln()).collect(),
    };
    let all = decisions(&genes.trace).into_iter().flat_map(number);
    numbers[1..].iter_mut().zip(all).for_each(|(slot, number)| *slot = number);
    numbers
}

/// The decisions of the space in a trace, in order.
fn decisions(trace: &Trace) -> Vec<Decision> {
    trace.insts[..trace.space_len()].iter().filter_map(|inst| inst.decision.clone()).collect()
}
