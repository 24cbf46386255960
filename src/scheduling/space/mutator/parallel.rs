//! Mutates the number of parallel chunks, where a rule samples it.

use super::Mutator;
use super::categorical::{Categorical, annotates};
use crate::schedule::arg::Decision;
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;

pub(super) struct Parallel;

impl Mutator for Parallel {
    fn weight(&self) -> f64 {
        0.4
    }

    fn is_for(&self, trace: &Trace, inst: &Instruction) -> bool {
        Categorical.is_for(trace, inst) && annotates(trace, inst, &["meta_schedule.parallel"])
    }

    fn mutate(&self, inst: &Instruction, rng: &mut ChaCha8Rng) -> Option<Decision> {
        Categorical.mutate(inst, rng)
    }

    fn neighbours(&self, inst: &Instruction) -> Vec<Decision> {
        Categorical.neighbours(inst)
    }
}
