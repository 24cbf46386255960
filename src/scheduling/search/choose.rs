//! Chooses the candidates of a round to measure.

use super::archive::Archive;
use super::individual::Individual;
use crate::schedule::primitive::sampling::below;
use rand_chacha::ChaCha8Rng;

/// The inputs of a choice.
pub(super) struct Choice<'a> {
    /// Number of candidates to choose.
    pub want: usize,
    /// The candidates tried so far.
    pub archive: &'a Archive,
    /// Number of sketches in the space.
    pub n_sketches: usize,
    /// Whether to follow predictions; otherwise the order is random.
    pub is_ranked: bool,
}

/// Share of candidates that is chosen at random, whatever their prediction, as in TVM; at least one per round.
const CHANCE: f64 = 0.05;
/// Maximum share of seeds in a round.
const SEEDS: f64 = 0.75;
/// Maximum share of a round for sketches that were hardly tried.
const SHARE: f64 = 0.25;
/// Number of tries that every sketch gets, unless it is hopeless.
const LEAST_TRIES: u64 = 2;
/// A sketch is hopeless if its best prediction is this many times the overall best one.
const HOPELESS: f64 = 8.0;

/// Chooses from the pool; returns the candidates in the order in which to try them.
pub(super) fn choose(mut pool: Vec<Individual>, choice: &Choice<'_>, rng: &mut ChaCha8Rng) -> Vec<Individual> {
    if choice.is_ranked {
        // Equal predictions stay in the order of their numbers.
        pool.sort_by(|a, b| a.score.total_cmp(&b.score));
    } else {
        shuffle(&mut pool, rng);
    }
    let mut chosen: Vec<Individual> = Vec::with_capacity(choice.want);
    // Seeds, in the order of the space.
    let mut seeds: Vec<usize> = (0..pool.len()).filter(|&i| pool[i].is_seed).collect();
    seeds.sort_by_key(|&i| pool[i].index);
    seeds.truncate(portion(choice.want, SEEDS));
    take(&mut pool, seeds, &mut chosen);
    let by_chance = if choice.want > 1 { portion(choice.want, CHANCE).max(1) } else { 0 };
    let best = pool.first().map_or(0.0, |one| one.score);
    // The best candidate of each sketch that was hardly tried.
    let mut neglected: Vec<usize> = Vec::new();
    for sketch in 0..choice.n_sketches {
        let first = pool.iter().position(|one| one.genes.sketch == sketch);
        let hopeful = |&i: &usize| !choice.is_ranked || pool[i].score <= best + HOPELESS.ln();
        if choice.archive.tried(sketch) < LEAST_TRIES {
            neglected.extend(first.filter(hopeful));
        }
    }
    neglected.sort_unstable();
    neglected.truncate(portion(choice.want, SHARE));
    neglected.truncate((choice.want - chosen.len()).saturating_sub(by_chance));
    take(&mut pool, neglected, &mut chosen);
    // The best candidates overall. Equal features predict equal times, so only one of each kind is chosen here.
    let room = (choice.want - chosen.len()).saturating_sub(by_chance);
    let mut best: Vec<usize> = Vec::new();
    for (i, one) in pool.iter().enumerate() {
        if best.len() == room {
            break;
        }
        let mut others = best.iter().map(|&b| &pool[b]).chain(&chosen);
        let alike = others.any(|other| other.features == one.features);
        if !alike || !choice.is_ranked {
            best.push(i);
        }
    }
    take(&mut pool, best, &mut chosen);
    for _ in 0..by_chance.min(choice.want - chosen.len()) {
        if !pool.is_empty() {
            let at = below(rng, pool.len() as u64) as usize;
            chosen.push(pool.remove(at));
        }
    }
    let rest = choice.want - chosen.len();
    chosen.extend(pool.into_iter().take(rest));
    chosen
}

fn portion(want: usize, share: f64) -> usize {
    (want as f64 * share).round() as usize
}

/// Moves candidates from the pool to the chosen ones, in the given order.
fn take(pool: &mut Vec<Individual>, positions: Vec<usize>, chosen: &mut Vec<Individual>) {
    chosen.extend(positions.iter().map(|&i| pool[i].clone()));
    let mut i = 0;
    pool.retain(|_| {
        i += 1;
        !positions.contains(&(i - 1))
    });
}

fn shuffle(pool: &mut [Individual], rng: &mut ChaCha8Rng) {
    for i in (1..pool.len()).rev() {
        pool.swap(i, below(rng, i as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Trace;
    use crate::search::features::Features;
    use crate::search::individual::Parent;
    use crate::space::sample::stream;
    use std::sync::Arc;

    fn individual(index: u64, sketch: usize, score: f64, is_seed: bool) -> Individual {
        Individual {
            index,
            genes: Parent { sketch, trace: Arc::new(Trace::default()) },
            program: index,
            features: Features { values: vec![score, sketch as f64], estimate: 1.0, least: 0.0 },
            score,
            is_seed,
        }
    }

    fn chosen(pool: Vec<Individual>, want: usize, n_sketches: usize) -> Vec<u64> {
        let archive = Archive::default();
        let choice = Choice { want, archive: &archive, n_sketches, is_ranked: true };
        choose(pool, &choice, &mut stream(0, 0)).iter().map(|one| one.index).collect()
    }

    #[test]
    fn seeds_then_neglected_sketches_then_the_best() {
        let mut pool: Vec<Individual> = (0..40).map(|i| individual(100 + i, 0, i as f64 / 10.0, false)).collect();
        pool.push(individual(0, 0, 9.0, true));
        pool.push(individual(1, 0, 8.0, true));
        pool.push(individual(200, 1, 1.0, false));
        // A factor of 8 is 2.08 in logarithms.
        pool.push(individual(201, 2, 2.5, false));
        let chosen = chosen(pool, 8, 3);
        assert_eq!(chosen[..4], [0, 1, 100, 200], "{chosen:?}");
        assert_eq!(chosen[4..7], [101, 102, 103], "{chosen:?}");
        assert_eq!(chosen.len(), 8);
    }

    #[test]
    fn one_of_a_kind_is_enough() {
        let pool = vec![
            individual(1, 0, 0.0, false),
            individual(2, 0, 0.0, false),
            individual(3, 0, 1.0, false),
            individual(4, 0, 2.0, false),
        ];
        assert_eq!(chosen(pool.clone(), 3, 1)[..2], [1, 3]);
        // All are taken if there are too few otherwise.
        let mut all = chosen(pool, 9, 1);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4]);
    }
}
