//! Moves a block to another compute location: a loop further out or in around its consumer, the root, or inlined.
//!
//! Only the program determines the valid locations. Replay replaces an invalid one by the next valid one further out.

use super::{Mutator, choose, unit};
use crate::schedule::arg::Decision;
use crate::schedule::primitive::sampling::below;
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;

pub(super) struct ComputeLocation;

/// Probability of a step to a neighbour.
const NEAR: f64 = 0.6;
/// The decision to inline; -1 is the root.
const INLINED: i64 = -2;
/// Number of loops around a consumer that is tiled at four levels.
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
        // One location less: the current one is excluded.
        let place = INLINED + below(rng, (DEPTH - INLINED) as u64) as i64;
        Some(Decision::Int(if place >= now { place + 1 } else { place }))
    }

    fn neighbours(&self, inst: &Instruction) -> Vec<Decision> {
        let Some(Decision::Int(now)) = inst.decision else { return Vec::new() };
        [now - 1, now + 1].into_iter().filter(|&d| d >= INLINED).map(Decision::Int).collect()
    }
}
