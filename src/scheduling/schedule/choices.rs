//! Counts the possible decisions of a sampling instruction, to estimate the size of a space.

use super::Schedule;
use super::analysis::location::compute_locations;
use super::arg::{Arg, Decision, RvValue};
use super::primitive::sampling::prime_factors;
use super::trace::Instruction;

/// The possible decisions of a sampling instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choices {
    /// The number of possible decisions.
    pub count: u128,
    /// The inverse of the probability of the decision.
    pub weight: f64,
}

impl Choices {
    fn equally_likely(count: u128) -> Choices {
        Choices { count, weight: count as f64 }
    }
}

impl Schedule {
    /// The possible decisions of the last instruction; `None` if it is not a sampling instruction. Such an instruction
    /// changes only the trace, so the program is still the one for which it chose.
    pub fn last_choices(&mut self) -> Option<Choices> {
        let inst = self.trace().insts.last().filter(|i| i.kind.samples)?.clone();
        Some(self.choices_of(&inst).unwrap_or(Choices::equally_likely(1)))
    }

    fn choices_of(&mut self, inst: &Instruction) -> Option<Choices> {
        let int = |i: usize| match inst.args.get(i) {
            Some(Arg::Int(v)) => Some(*v),
            _ => None,
        };
        match inst.kind.name {
            "SampleCategorical" => categorical(inst),
            "SamplePerfectTile" => {
                let (extent, n) = (self.extent_of(inst)?, usize::try_from(int(1)?).ok()?);
                Some(Choices::equally_likely(perfect_tiles(extent, n, int(2)?)))
            }
            "SamplePartitionedTile" => {
                let (extent, n) = (self.extent_of(inst)?, usize::try_from(int(1)?).ok()?);
                let (position, factor) = (usize::try_from(int(2)?).ok()?, int(3)?);
                Some(Choices::equally_likely(partitioned_tiles(extent, n, position, factor)))
            }
            "SampleComputeLocation" => {
                let Some(Arg::Rv(rv)) = inst.args.first() else { return None };
                let Ok(RvValue::Block(func, block)) = self.value(*rv) else { return None };
                let locations = compute_locations(&mut self.states[func], block).ok()?;
                Some(Choices::equally_likely(locations.len() as u128))
            }
            _ => None,
        }
    }

    /// The extent of the loop that an instruction tiles, if it is constant.
    fn extent_of(&self, inst: &Instruction) -> Option<i64> {
        let Some(Arg::Rv(rv)) = inst.args.first() else { return None };
        let Ok(RvValue::Loop(func, l)) = self.value(*rv) else { return None };
        let func = self.func(func);
        func.arena.as_int(func.loop_(l).extent).filter(|&e| e > 0)
    }
}

fn categorical(inst: &Instruction) -> Option<Choices> {
    let Some(Arg::List(probs)) = inst.args.get(1) else { return None };
    let probs: Vec<f64> = probs
        .iter()
        .map(|p| match p {
            Arg::Float(p) => *p,
            Arg::Int(p) => *p as f64,
            _ => 0.0,
        })
        .collect();
    let Some(Decision::Int(chosen)) = inst.decision else { return None };
    let p = usize::try_from(chosen).ok().and_then(|i| probs.get(i)).copied().unwrap_or(0.0);
    let weight = if p > 0.0 { probs.iter().sum::<f64>() / p } else { 1.0 };
    Some(Choices { count: probs.iter().filter(|p| **p > 0.0).count() as u128, weight })
}

/// The number of ways to distribute `things` equal things over `places` (stars and bars).
fn ways(things: u32, places: usize) -> u128 {
    if places == 0 {
        return u128::from(things == 0);
    }
    let k = places as u128 - 1;
    // Every partial product is a binomial coefficient, so the divisions are exact.
    (1..=k).fold(1u128, |c, i| c.saturating_mul(u128::from(things) + i) / i)
}

/// The number of ways to write `extent` as a product of `n` factors, the last of which is at most `limit` (-1:
/// unlimited).
fn perfect_tiles(extent: i64, n: usize, limit: i64) -> u128 {
    let Some(others) = n.checked_sub(1) else { return 0 };
    let primes = prime_factors(extent);
    // Enumerate the last factor over all divisors, and distribute the remaining primes over the other factors.
    let mut lasts: Vec<(i64, u128)> = vec![(1, 1)];
    for &(p, exponent) in &primes {
        let mut next = Vec::with_capacity(lasts.len() * (exponent as usize + 1));
        for &(last, count) in &lasts {
            let mut power = 1;
            for e in 0..=exponent {
                next.push((last * power, count.saturating_mul(ways(exponent - e, others))));
                power *= if e < exponent { p } else { 1 };
            }
        }
        lasts = next;
    }
    let fitting = lasts.iter().filter(|(last, _)| limit == -1 || *last <= limit);
    fitting.fold(0u128, |sum, (_, count)| sum.saturating_add(*count))
}

/// The number of ways to write `extent` as a product of `n` factors such that the product of the factors from
/// `position` on is a multiple of `factor`. If the extent is not a multiple, there is one way: no tiling.
fn partitioned_tiles(extent: i64, n: usize, position: usize, factor: i64) -> u128 {
    if factor <= 0 || extent % factor != 0 || position >= n {
        return 1;
    }
    let needed = prime_factors(factor);
    let of = |p: i64| needed.iter().find(|(q, _)| *q == p).map_or(0, |(_, e)| *e);
    prime_factors(extent).into_iter().fold(1u128, |product, (p, exponent)| {
        let inner = of(p)..=exponent;
        let count = inner.map(|e| ways(e, n - position).saturating_mul(ways(exponent - e, position)));
        product.saturating_mul(count.fold(0, u128::saturating_add))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::primitive::ALL;

    /// All ways to write `extent` as a product of `n` factors.
    fn tiles(extent: i64, n: usize) -> Vec<Vec<i64>> {
        if n == 1 {
            return vec![vec![extent]];
        }
        let heads = (1..=extent).filter(|d| extent % d == 0);
        heads
            .flat_map(|d| {
                tiles(extent / d, n - 1).into_iter().map(move |mut t| {
                    t.insert(0, d);
                    t
                })
            })
            .collect()
    }

    #[test]
    fn tiles_are_counted_as_enumeration_finds_them() {
        for extent in [1, 7, 12, 64, 90, 128] {
            for n in [2, 3, 4] {
                let all = tiles(extent, n);
                assert_eq!(perfect_tiles(extent, n, -1), all.len() as u128);
                for limit in [1, 4, 16] {
                    let fitting = all.iter().filter(|t| t[n - 1] <= limit).count();
                    assert_eq!(perfect_tiles(extent, n, limit), fitting as u128, "{extent} {n} {limit}");
                }
                for (position, factor) in [(0, 2), (1, 4), (n - 1, 6), (1, 1)] {
                    let fitting = all.iter().filter(|t| t[position..].iter().product::<i64>() % factor == 0).count();
                    let expected = if extent % factor == 0 { fitting } else { 1 };
                    assert_eq!(partitioned_tiles(extent, n, position, factor), expected as u128);
                }
            }
        }
    }

    #[test]
    fn every_sampling_instruction_is_known() {
        let sampling: Vec<&str> = ALL.iter().filter(|k| k.samples).map(|k| k.name).collect();
        let known = ["SampleCategorical", "SampleComputeLocation", "SamplePartitionedTile", "SamplePerfectTile"];
        assert!(sampling.iter().all(|name| known.contains(name)), "count the choices of all of {sampling:?}");
    }
}
