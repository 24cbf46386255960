//! Sampling: `sample_categorical`, `sample_perfect_tile`, `sample_partitioned_tile`.
//!
//! # `sample_categorical`
//!
//! Samples one of the candidates; the decision is its index.
//!
//! * Requires: equal numbers of probabilities and candidates; the index in range.
//! * Errors: `ValueError`.
//! * Handles: persists: all; created: a number.
//!
//! # `sample_perfect_tile`
//!
//! Samples factors of a loop's extent. A decision whose product is not the extent is adjusted.
//!
//! * Requires: n positive.
//! * Errors: `ValueError`.
//! * Handles: persists: all; created: numbers.
//!
//! # `sample_partitioned_tile`
//!
//! Samples factors like `sample_perfect_tile`; the product of the inner part is a multiple of a factor.
//!
//! * Requires: a constant extent.
//! * Errors: `ValueError`.
//! * Handles: persists: all; created: numbers.
//!
//! # Implementation
//!
//! ```text
//! v0, v1 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=16)
//! ```
//!
//! A given decision is used (and adjusted if invalid, as in TVM); otherwise one is drawn from the schedule's random
//! stream. A preferred decision ([`Schedule::prefer_decisions`](crate::schedule::Schedule::prefer_decisions)) is
//! replaced by the nearest valid one. Only the trace changes. The rules are those of
//! `src/s_tir/schedule/primitive/sampling.cc`.

use super::super::arg::{Decision, RvValue};
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::nearest_tile::nearest_tile;
use rand_chacha::rand_core::Rng;

/// `sample_categorical(candidates, probs)`: one of the candidates; the decision is its index.
pub(crate) static SAMPLE_CATEGORICAL: Kind = Kind {
    name: "SampleCategorical",
    method: "sample_categorical",
    classic: None,
    positional: false,
    params: &[Param::attr("candidates", Ty::Ints), Param::attr("probs", Ty::Floats)],
    outputs: Outputs::Number,
    samples: true,
    run: sample_categorical,
};

/// `sample_perfect_tile(loop, n, max_innermost_factor=16)`: n factors whose product is the loop's extent.
pub(crate) static SAMPLE_PERFECT_TILE: Kind = Kind {
    name: "SamplePerfectTile",
    method: "sample_perfect_tile",
    classic: None,
    positional: false,
    params: &[
        Param::input("loop", Ty::Loop),
        Param::attr("n", Ty::Int),
        Param::attr("max_innermost_factor", Ty::Int).or(Default::Int(16)),
    ],
    outputs: Outputs::Numbers,
    samples: true,
    run: sample_perfect_tile,
};

/// `sample_partitioned_tile(loop, n, partition_pos=0, innerpart_factor=1)`: n factors whose product is the loop's
/// extent; the product of those from `partition_pos` on is a multiple of `innerpart_factor`.
pub(crate) static SAMPLE_PARTITIONED_TILE: Kind = Kind {
    name: "SamplePartitionedTile",
    method: "sample_partitioned_tile",
    classic: None,
    positional: false,
    params: &[
        Param::input("loop", Ty::Loop),
        Param::attr("n", Ty::Int),
        Param::attr("partition_pos", Ty::Int).or(Default::Int(0)),
        Param::attr("innerpart_factor", Ty::Int).or(Default::Int(1)),
    ],
    outputs: Outputs::Numbers,
    samples: true,
    run: sample_partitioned_tile,
};

/// Maximum number of draws of tile sizes until they fit, for spaces in which almost none fits.
const MAX_DRAWS: usize = 10_000;

fn argument(message: String) -> ScheduleError {
    ErrorKind::Argument { message }.into()
}

fn sample_categorical(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let candidates = call.ints(0)?;
    let probs = call.floats(1)?;
    if candidates.is_empty() || candidates.len() != probs.len() {
        return Err(argument(format!(
            "expected as many probabilities as candidates, found {} and {}",
            probs.len(),
            candidates.len()
        )));
    }
    if probs.iter().any(|p| !p.is_finite() || *p < 0.0) || probs.iter().sum::<f64>() <= 0.0 {
        return Err(argument("probabilities must not be negative, nor all zero".to_string()));
    }
    let n = candidates.len();
    let index = match call.decision {
        Some(Decision::Int(i)) if (0..n as i64).contains(i) => *i as usize,
        Some(Decision::Int(i)) if call.is_preferred => (*i).clamp(0, n as i64 - 1) as usize,
        Some(Decision::Ints(_)) if call.is_preferred => weighted(call, &probs),
        Some(Decision::Int(i)) => return Err(ErrorKind::WrongDecision { decision: *i, n }.into()),
        Some(Decision::Ints(_)) => return Err(argument("expected one number as the decision, found a list".into())),
        None => weighted(call, &probs),
    };
    Ok(Outcome { outputs: vec![RvValue::Int(candidates[index])], decision: Some(Decision::Int(index as i64)) })
}

fn weighted(call: &mut Call<'_>, weights: &[f64]) -> usize {
    // 53 random bits make a uniform number in [0, 1).
    let unit = (call.sch.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut rest = unit * weights.iter().sum::<f64>();
    for (i, w) in weights.iter().enumerate() {
        if rest < *w {
            return i;
        }
        rest -= w;
    }
    // Rounding may leave a rest after the last positive weight.
    weights.iter().rposition(|w| *w > 0.0).unwrap_or(0)
}

/// A uniform number below `n`.
pub(crate) fn below(rng: &mut impl Rng, n: u64) -> u64 {
    // Values from the last, incomplete multiple of n would favour small results.
    let limit = u64::MAX - u64::MAX % n;
    loop {
        let x = rng.next_u64();
        if x < limit {
            return x % n;
        }
    }
}

/// The prime factors of a number, with their exponents, by increasing size.
pub(crate) fn prime_factors(mut n: i64) -> Vec<(i64, u32)> {
    let mut factors = Vec::new();
    let mut p = 2;
    while p * p <= n {
        let mut exponent = 0;
        while n % p == 0 {
            n /= p;
            exponent += 1;
        }
        if exponent > 0 {
            factors.push((p, exponent));
        }
        p += if p == 2 { 1 } else { 2 };
    }
    if n > 1 {
        factors.push((n, 1));
    }
    factors
}

/// Distributes `exponent` equal things over `places`, all ways with equal probability (stars and bars).
fn spread(rng: &mut impl Rng, exponent: u32, places: usize) -> Vec<u32> {
    let slots = exponent as usize + places - 1;
    // Choose places - 1 distinct bars among the slots by Floyd's algorithm.
    let mut bars: Vec<usize> = Vec::with_capacity(places - 1);
    for j in slots - (places - 1)..slots {
        let t = below(rng, j as u64 + 1) as usize;
        bars.push(if bars.contains(&t) { j } else { t });
    }
    bars.sort_unstable();
    let mut counts = Vec::with_capacity(places);
    let mut previous = 0;
    for &bar in &bars {
        counts.push((bar - previous) as u32);
        previous = bar + 1;
    }
    counts.push((slots - previous) as u32);
    counts
}

/// Draws `n` factors with product `extent`, uniformly over the ways to distribute its prime factors.
pub(crate) fn draw_tile(rng: &mut impl Rng, extent: i64, n: usize) -> Vec<i64> {
    let mut tile = vec![1; n];
    for (p, exponent) in prime_factors(extent) {
        for (factor, count) in tile.iter_mut().zip(spread(rng, exponent, n)) {
            *factor *= p.pow(count);
        }
    }
    tile
}

/// Adjusts a decision to the extent: from the last factor to the second, one that does not divide the remaining extent
/// becomes the remaining extent; the first takes the rest.
fn repaired(extent: i64, decision: &[i64], n: usize) -> Result<Vec<i64>, ScheduleError> {
    if decision.len() != n {
        return Err(argument(format!("expected {n} tile sizes as the decision, found {}", decision.len())));
    }
    let mut tile = decision.to_vec();
    let mut rest = extent;
    for factor in tile[1..].iter_mut().rev() {
        if *factor <= 0 || rest % *factor != 0 {
            *factor = rest;
        }
        rest /= *factor;
    }
    tile[0] = rest;
    Ok(tile)
}

fn constant_extent(call: &Call<'_>) -> Result<Option<i64>, ScheduleError> {
    let (func, l) = call.loop_(0)?;
    let f = call.sch.func(func);
    match f.arena.as_int(f.loop_(l).extent) {
        Some(extent) if extent <= 0 => Err(argument(format!("the loop has {extent} iterations"))),
        extent => Ok(extent),
    }
}

/// No tiling: the outermost factor is the whole loop, as -1, because the extent cannot be factorised as required.
fn untiled(n: usize) -> Vec<i64> {
    std::iter::once(-1).chain(std::iter::repeat_n(1, n - 1)).collect()
}

/// Tile sizes from the decision, adjusted by `mend`, or drawn until `fits` accepts them.
fn tile(
    call: &mut Call<'_>,
    extent: i64,
    n: usize,
    mend: impl Fn(&[i64]) -> Result<Vec<i64>, ScheduleError>,
    fits: impl Fn(&[i64]) -> bool,
    nearest: impl Fn(&[i64]) -> Vec<i64>,
) -> Result<Vec<i64>, ScheduleError> {
    let is_tile = |d: &Decision| matches!(d, Decision::Ints(sizes) if sizes.len() == n);
    match call.decision.filter(|d| !call.is_preferred || is_tile(d)) {
        Some(Decision::Ints(preferred)) if call.is_preferred => Ok(nearest(preferred)),
        Some(Decision::Int(_)) => {
            Err(argument("expected a list of tile sizes as the decision, found one number".into()))
        }
        Some(Decision::Ints(given)) => mend(given),
        None => (0..MAX_DRAWS)
            .map(|_| draw_tile(&mut call.sch.rng, extent, n))
            .find(|t| fits(t))
            .ok_or_else(|| argument(format!("no tile sizes of {extent} iterations fit the limits"))),
    }
}

fn sizes(sizes: Vec<i64>) -> Outcome {
    Outcome { outputs: sizes.iter().map(|&v| RvValue::Int(v)).collect(), decision: Some(Decision::Ints(sizes)) }
}

fn count(call: &Call<'_>) -> Result<usize, ScheduleError> {
    match call.int(1)? {
        n @ 2..=64 => Ok(n as usize),
        n => Err(argument(format!("expected 2 to 64 tile sizes, found {n}"))),
    }
}

fn sample_perfect_tile(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let n = count(call)?;
    let limit = call.int(2)?;
    let Some(extent) = constant_extent(call)? else { return Ok(sizes(untiled(n))) };
    let mend = |given: &[i64]| repaired(extent, given, n);
    let fits = |t: &[i64]| limit == -1 || t[t.len() - 1] <= limit;
    tile(call, extent, n, mend, fits, |preferred| nearest_tile(extent, preferred, limit)).map(sizes)
}

fn sample_partitioned_tile(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let n = count(call)?;
    let position = call.int(2)?;
    let factor = call.int(3)?;
    if factor <= 0 || !(0..n as i64).contains(&position) {
        return Err(argument(format!(
            "expected a position from 0 to {} and a positive factor, found {position} and {factor}",
            n - 1
        )));
    }
    let position = position as usize;
    let extent = match constant_extent(call)? {
        Some(extent) if extent % factor == 0 => extent,
        Some(_) | None => return Ok(sizes(untiled(n))),
    };
    let fits = |t: &[i64]| t[position..].iter().product::<i64>() % factor == 0;
    let mend = |given: &[i64]| {
        if given.len() == n && !fits(given) {
            // The factor is the whole inner part.
            let mut tile = vec![1; n];
            tile[0] = extent / factor;
            tile[position] *= factor;
            return Ok(tile);
        }
        repaired(extent, given, n)
    };
    let nearest = |preferred: &[i64]| {
        let whole = nearest_tile(extent, preferred, -1);
        if fits(&whole) {
            return whole;
        }
        // The factor is divided out first, and then becomes part of the inner part again.
        let mut rest = preferred.to_vec();
        rest[position] = (rest[position] / factor).max(1);
        let mut tile = nearest_tile(extent / factor, &rest, -1);
        tile[position] *= factor;
        tile
    };
    tile(call, extent, n, mend, fits, nearest).map(sizes)
}

#[cfg(test)]
mod tests {
    use super::super::super::arg::Arg;
    use super::super::testing::{Test, refuse};
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn drawn_tiles_multiply_to_the_extent() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for extent in [1, 2, 7, 56, 127, 128, 360, 1024] {
            for n in 1..5 {
                assert_eq!(draw_tile(&mut rng, extent, n).iter().product::<i64>(), extent);
            }
        }
    }

    #[test]
    fn every_way_to_place_the_primes_is_drawn_equally_often() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            *counts.entry(draw_tile(&mut rng, 12, 2)).or_insert(0) += 1;
        }
        // 4 over two places: 3 ways; 3 over two places: 2 ways.
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|c| (850..1150).contains(c)), "{counts:?}");
    }

    #[test]
    fn a_wrong_decision_is_repaired() {
        assert_eq!(repaired(128, &[1, 1, 5, 4], 4), Ok(vec![1, 1, 32, 4]));
        assert_eq!(repaired(128, &[7, 2, 4, 8], 4), Ok(vec![2, 2, 4, 8]));
        assert!(repaired(128, &[128], 2).is_err());
    }

    /// A loop of this many iterations.
    fn program(extent: &str) -> String {
        format!(
            r#"
def main(n: T.int32, B: T.Buffer(({extent},))):
    for i in range({extent}):
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            B[vi] = T.float32(1)
"#
        )
    }

    /// The numbers that an instruction gives for the loop, and its decision.
    fn sample(
        extent: &str,
        kind: &'static Kind,
        args: &[i64],
        decision: Option<Decision>,
    ) -> Result<Vec<i64>, ScheduleError> {
        let mut t = Test::new(&program(extent));
        let i = t.loops("B")[0];
        let args = std::iter::once(i.into()).chain(args.iter().map(|&n| n.into())).collect();
        let numbers = t.sch.execute(kind, args, decision)?;
        let numbers: Vec<i64> = numbers.iter().filter_map(|&rv| t.sch.int_value(rv)).collect();
        let recorded = t.sch.trace().insts.last().and_then(|inst| inst.decision.clone());
        assert_eq!(recorded, Some(Decision::Ints(numbers.clone())));
        Ok(numbers)
    }

    fn ints(sizes: &[i64]) -> Option<Decision> {
        Some(Decision::Ints(sizes.to_vec()))
    }

    #[test]
    fn perfect_tiles_fill_the_loop_and_keep_the_limit() {
        for extent in ["1", "7", "96", "127"] {
            let tile = sample(extent, &SAMPLE_PERFECT_TILE, &[3, 4], None).expect("some tile fits");
            assert_eq!(tile.len(), 3);
            assert_eq!(tile.iter().product::<i64>().to_string(), extent);
            assert!(tile[2] <= 4, "{tile:?}");
        }
        assert_eq!(sample("96", &SAMPLE_PERFECT_TILE, &[2, 16], ints(&[12, 8])), Ok(vec![12, 8]));
        // A decision is no draw: the limit does not count.
        assert_eq!(sample("96", &SAMPLE_PERFECT_TILE, &[2, 16], ints(&[3, 32])), Ok(vec![3, 32]));
        assert_eq!(sample("96", &SAMPLE_PERFECT_TILE, &[2, 16], ints(&[12, 7])), Ok(vec![1, 96]));
        assert_eq!(sample("n", &SAMPLE_PERFECT_TILE, &[3, 16], None), Ok(vec![-1, 1, 1]));
    }

    #[test]
    fn partitioned_tiles_have_the_factor_in_their_inner_part() {
        for position in 0..3 {
            let tile = sample("96", &SAMPLE_PARTITIONED_TILE, &[3, position, 8], None).expect("some tile fits");
            assert_eq!(tile.iter().product::<i64>(), 96);
            assert_eq!(tile[position as usize..].iter().product::<i64>() % 8, 0, "{tile:?}");
        }
        assert_eq!(sample("96", &SAMPLE_PARTITIONED_TILE, &[3, 1, 8], ints(&[6, 2, 8])), Ok(vec![6, 2, 8]));
        assert_eq!(sample("96", &SAMPLE_PARTITIONED_TILE, &[3, 1, 8], ints(&[24, 2, 2])), Ok(vec![12, 8, 1]));
        // Neither a loop that the factor does not divide nor one of unknown length has such tiles.
        assert_eq!(sample("90", &SAMPLE_PARTITIONED_TILE, &[3, 1, 8], None), Ok(vec![-1, 1, 1]));
        assert_eq!(sample("n", &SAMPLE_PARTITIONED_TILE, &[2, 1, 8], None), Ok(vec![-1, 1]));
    }

    #[test]
    fn categories_are_drawn_by_their_weights_or_decided() {
        let mut t = Test::new(&program("8"));
        let mut number = |decision: Option<i64>| {
            let args = vec![
                Arg::List(vec![3.into(), 5.into(), 7.into()]),
                Arg::List([0.25, 0.0, 0.75].map(Arg::Float).into()),
            ];
            let rv = t.sch.execute(&SAMPLE_CATEGORICAL, args, decision.map(Decision::Int))?[0];
            Ok::<Option<i64>, ScheduleError>(t.sch.int_value(rv))
        };
        assert_eq!(number(Some(1)), Ok(Some(5)));
        let drawn: Vec<Option<i64>> = (0..1000).map(|_| number(None).expect("a draw")).collect();
        let count = |n| drawn.iter().filter(|&&d| d == Some(n)).count();
        assert_eq!((count(5), count(3) + count(7)), (0, 1000));
        assert!((200..300).contains(&count(3)), "{}", count(3));
        for decision in [-1, 3] {
            assert_eq!(number(Some(decision)).map_err(|e| e.kind.class()), Err("ValueError"));
        }
    }

    #[test]
    fn preferences_become_the_nearest_that_fit() {
        let mut t = Test::new(&program("96"));
        let i = t.loops("B")[0];
        t.sch.prefer_decisions([Decision::Ints(vec![10, 10]), Decision::Int(9)].into_iter());
        let tile = t.sch.sample_perfect_tile(i, 2, 16).expect("a preference never fails");
        let tile: Vec<_> = tile.iter().map(|&rv| t.sch.int_value(rv)).collect();
        assert_eq!(tile, [Some(8), Some(12)]);
        let last = t.sch.sample_categorical(&[3, 5], &[0.5, 0.5]).expect("a preference never fails");
        assert_eq!(t.sch.int_value(last), Some(5));
    }

    #[test]
    fn refusals() {
        let loops = "i, = sch.get_loops('B')\n";
        for call in [
            "sample_perfect_tile(i, 1)",
            "sample_perfect_tile(i, 65)",
            "sample_perfect_tile(i, 2, 0)",
            "sample_perfect_tile(i, 2, decision=[96])",
            "sample_partitioned_tile(i, 1, 0, 8)",
            "sample_partitioned_tile(i, 3, 3, 8)",
            "sample_partitioned_tile(i, 3, -1, 8)",
            "sample_partitioned_tile(i, 3, 1, 0)",
            "sample_categorical([], [])",
            "sample_categorical([1, 2], [1.0])",
            "sample_categorical([1, 2], [0.0, 0.0])",
            "sample_categorical([1, 2], [1.5, -0.5])",
            "sample_categorical([1, 2], [0.5, 0.5], decision=2)",
        ] {
            refuse(&program("96"), |t| t.python(&format!("{loops}sch.{call}")), "ValueError");
        }
        let number = Some(Decision::Int(4));
        for kind in [&SAMPLE_PERFECT_TILE, &SAMPLE_PARTITIONED_TILE] {
            let args = if kind == &SAMPLE_PERFECT_TILE { &[2, 16][..] } else { &[2, 1, 8] };
            assert_eq!(sample("96", kind, args, number.clone()).map_err(|e| e.kind.class()), Err("ValueError"));
        }
    }
}
