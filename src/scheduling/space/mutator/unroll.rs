//! Mutates the unroll limit. The code generator unrolls register tiles by itself, so this matters less than other
//! choices.

use super::Mutator;
use super::categorical::{Categorical, annotates};
use crate::schedule::arg::Decision;
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;

pub(super) struct Unroll;

const KEYS: [&str; 3] =
    ["meta_schedule.unroll_explicit", "meta_schedule.unroll_implicit", "pragma_auto_unroll_max_step"];

impl Mutator for Unroll {
    fn weight(&self) -> f64 {
        0.2
    }

    fn is_for(&self, trace: &Trace, inst: &Instruction) -> bool {
        Categorical.is_for(trace, inst) && annotates(trace, inst, &KEYS)
    }

    fn mutate(&self, inst: &Instruction, rng: &mut ChaCha8Rng) -> Option<Decision> {
        Categorical.mutate(inst, rng)
    }

    fn neighbours(&self, inst: &Instruction) -> Vec<Decision> {
        Categorical.neighbours(inst)
    }
}
