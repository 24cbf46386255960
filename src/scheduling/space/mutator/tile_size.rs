//! Mutates tile sizes: moves a prime factor to another position, or swaps two sizes.
//!
//! ```text
//! [4, 8, 2, 2]   # becomes, for example
//! [2, 8, 2, 4]   # a 2 moved inwards
//! [8, 4, 2, 2]   # two places swapped
//! ```

use super::{Mutator, choose, unit};
use crate::schedule::arg::{Arg, Decision};
use crate::schedule::primitive::sampling::prime_factors;
use crate::schedule::{Instruction, Trace};
use rand_chacha::ChaCha8Rng;

pub(super) struct TileSize;

/// Probability of swapping two sizes: a step that takes many moves of single factors.
const SWAP: f64 = 0.2;

impl Mutator for TileSize {
    fn weight(&self) -> f64 {
        1.0
    }

    fn is_for(&self, _: &Trace, inst: &Instruction) -> bool {
        matches!(inst.kind.name, "SamplePerfectTile" | "SamplePartitionedTile")
    }

    fn mutate(&self, inst: &Instruction, rng: &mut ChaCha8Rng) -> Option<Decision> {
        let sizes = sizes(inst)?;
        let swapped = if unit(rng) < SWAP { choose(rng, swaps(sizes, limit(inst))) } else { None };
        let new = swapped.or_else(|| choose(rng, moves(sizes, limit(inst))))?;
        Some(Decision::Ints(new))
    }

    fn neighbours(&self, inst: &Instruction) -> Vec<Decision> {
        let Some(sizes) = sizes(inst) else { return Vec::new() };
        moves(sizes, limit(inst)).into_iter().map(Decision::Ints).collect()
    }
}

fn sizes(inst: &Instruction) -> Option<&[i64]> {
    match &inst.decision {
        // Other decisions, such as -1, mark a loop that cannot be tiled.
        Some(Decision::Ints(sizes)) if sizes.iter().all(|&s| s > 0) => Some(sizes),
        _ => None,
    }
}

/// The largest innermost size.
fn limit(inst: &Instruction) -> i64 {
    let limit = inst.kind.param("max_innermost_factor").and_then(|i| inst.args.get(i));
    match limit {
        Some(Arg::Int(limit)) if *limit > 0 => *limit,
        _ => i64::MAX,
    }
}

/// The sizes after each possible move of a prime factor, without duplicates.
fn moves(sizes: &[i64], limit: i64) -> Vec<Vec<i64>> {
    let mut found = Vec::new();
    for from in 0..sizes.len() {
        for (prime, _) in prime_factors(sizes[from]) {
            for to in (0..sizes.len()).filter(|&to| to != from) {
                let mut new = sizes.to_vec();
                new[from] /= prime;
                new[to] *= prime;
                if new[new.len() - 1] <= limit {
                    found.push(new);
                }
            }
        }
    }
    found
}

/// The sizes after each swap of two different ones.
fn swaps(sizes: &[i64], limit: i64) -> Vec<Vec<i64>> {
    let mut found = Vec::new();
    for a in 0..sizes.len() {
        for b in a + 1..sizes.len() {
            let mut new = sizes.to_vec();
            new.swap(a, b);
            if new != sizes && new[new.len() - 1] <= limit {
                found.push(new);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_factor_moves() {
        assert_eq!(moves(&[6, 1], i64::MAX), [[3, 2], [2, 3]]);
        assert_eq!(moves(&[6, 1], 2), [[3, 2]]);
        assert_eq!(moves(&[1, 1], i64::MAX), Vec::<Vec<i64>>::new());
        for tile in moves(&[4, 3, 7, 10], 64) {
            assert_eq!(tile.iter().product::<i64>(), 840);
        }
    }

    #[test]
    fn different_sizes_swap() {
        assert_eq!(swaps(&[4, 4, 2], i64::MAX), [[2, 4, 4], [4, 2, 4]]);
        assert_eq!(swaps(&[4, 4, 2], 2), Vec::<Vec<i64>>::new());
    }
}
