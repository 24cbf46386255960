//! Another place for a block: a loop further out or in around its consumer, under the root, or inlined.
//!
//! Which places there are only the program tells. What is no place becomes the next one outwards when the trace is carried
//! out.

use super::{Mutator, choose, unit};
use crate::schedule::arg::Decision;
use crate::schedule::primitive::sampling::below;
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;

/// The mutator.
pub(super) struct ComputeLocation;

/// How often a step goes to a neighbour.
const NEAR: f64 = 0.6;
/// Inlined; under the root is -1.
const INLINED: i64 = -2;
/// Loops around a consumer that is tiled at four levels.
const DEPTH: i64 = 12;

impl Mutator for ComputeLocation {
    fn weight(&self) -> f64 {
        0.5
    }

    fn is_for(&self, _: &Trace, inst: &Instruction) -> bool {
        inst.kind.name == "SampleComputeLocation"
    }

    fn mutate(&self, inst: &Instruction, rng: &mut ChaCha8Rng) -> Option<Decision> {
        if unit(rng) < NEAR {
            return choose(rng, self.neighbours(inst));
        }
        let Some(Decision::Int(now)) = inst.decision else { return None };
        // One fewer than there are: the one at hand is left out.
        let place = INLINED + below(rng, (DEPTH - INLINED) as u64) as i64;
        Some(Decision::Int(if place >= now { place + 1 } else { place }))
    }

    fn neighbours(&self, inst: &Instruction) -> Vec<Decision> {
        let Some(Decision::Int(now)) = inst.decision else { return Vec::new() };
        [now - 1, now + 1].into_iter().filter(|&d| d >= INLINED).map(Decision::Int).collect()
    }
}
