//! Compares outputs with the reference.
//!
//! # Tolerance
//! Two correct programs differ because they add in different orders, contract multiplications, and approximate
//! functions differently. For a sum of `n` terms of magnitude up to 1 with partial sums that behave like a random walk,
//! each of the `n` additions is off by half an ulp of a partial sum of about `sqrt(n)`, and the errors form a random
//! walk too: about `eps * n / sqrt(12)` in total. For terms of one sign the partial sums grow to the result itself, and
//! the error to about `eps * sqrt(n)` of it. The tolerance is a small multiple of both. Omitting a single term of the
//! sum exceeds it up to some hundred thousand terms of `float32`.
//!
//! Elements outside their tolerance may still be correct after a step function, in half precision, or where an
//! operation amplifies errors: [`Intervals`] bound the distance of each element, and of all of them together.

use super::arguments::{Arguments, ParamSpec};
use super::intervals::Intervals;
use super::spread::{Range, Spread};
use crate::ir::DType;
use crate::ir::interp::TensorRef;
use std::fmt;

/// Allowed distance of a float from its expected value: `absolute + relative * |expected|`. Integers must be equal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Absolute distance.
    pub absolute: f64,
    /// Distance relative to the expected value.
    pub relative: f64,
}

impl Tolerance {
    /// Equality.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

    /// The tolerance for a type, given the number of terms of the longest sum (1 for none).
    pub fn of(dtype: DType, reduction: u64) -> Tolerance {
        // Half-precision programs may compute in float32 and round once, or round each operation.
        let floor: f64 = match dtype {
            DType::Float64 | DType::Float32 => 256.0,
            DType::Float16 | DType::BFloat16 | DType::Float8(_) => 8.0,
            DType::Int8
            | DType::Int16
            | DType::Int32
            | DType::Int64
            | DType::UInt8
            | DType::UInt16
            | DType::UInt32
            | DType::UInt64
            | DType::Bool
            | DType::Narrow(_)
            | DType::Handle
            | DType::Str => return Tolerance::EXACT,
        };
        let eps = dtype.half_ulp();
        let n = reduction.max(1) as f64;
        Tolerance { absolute: eps * (floor / 8.0).max(3.0 * n), relative: eps * floor.max(6.0 * n.sqrt()) }
    }

    /// The tolerance multiplied by `factor`, for chains of operations.
    pub fn times(self, factor: f64) -> Tolerance {
        Tolerance { absolute: self.absolute * factor, relative: self.relative * factor }
    }

    /// Whether `found` is within tolerance. NaN matches only NaN, an infinity only itself.
    pub fn admits(self, expected: f64, found: f64) -> bool {
        if !expected.is_finite() || !found.is_finite() {
            return found == expected || found.is_nan() && expected.is_nan();
        }
        (found - expected).abs() <= self.absolute + self.relative * expected.abs()
    }
}

/// A single wrong element.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// Indices of the element.
    pub index: Vec<i64>,
    /// The expected value.
    pub expected: f64,
    /// The value found.
    pub found: f64,
}

/// Describes wrong outputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    /// The first parameter with wrong elements.
    pub param: String,
    /// Number of its wrong elements.
    pub count: u64,
    /// Number of its elements.
    pub total: u64,
    /// The first few wrong elements.
    pub first: Vec<Difference>,
    /// The largest distance from the expected values, over finite elements.
    pub max_error: f64,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is wrong", self.param)?;
        if let Some(d) = self.first.first() {
            write!(f, " at {:?}: expected {}, found {}", d.index, d.expected, d.found)?;
        }
        write!(f, " ({} of {} elements are wrong", self.count, self.total)?;
        if self.max_error > 0.0 {
            write!(f, ", by up to {:.3e}", self.max_error)?;
        }
        f.write_str(")")
    }
}

/// Maximum number of differences to describe.
const DESCRIBED: usize = 4;

/// Expected outputs: bytes and a tolerance for each parameter, and other values that are accepted for its elements.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Expected bytes of each parameter; empty for parameters that are not written.
    pub outputs: &'a [Vec<u8>],
    /// Tolerance of each parameter.
    pub tolerances: &'a [Tolerance],
    /// Elements outside the tolerance are accepted within these intervals; if an interval is unknown, the tolerance
    /// given with the intervals applies.
    pub intervals: Option<(&'a Intervals, &'a [Tolerance])>,
}

/// Compares the buffers that a function writes with the expected ones. Returns the largest error.
///
/// # Errors
/// The first parameter with an element that is neither within its tolerance nor within its interval.
pub fn compare(args: &Arguments, expected: Expected<'_>) -> Result<f64, Box<Mismatch>> {
    let mut worst = 0f64;
    for (i, spec) in args.specs().iter().enumerate() {
        if spec.is_written() {
            worst = worst.max(compare_one(i, spec, args.bytes(i), expected)?);
        }
    }
    Ok(worst)
}

/// Compares outputs that were copied earlier; see [`compare`].
pub(super) fn compare_outputs(
    specs: &[ParamSpec],
    found: &[Vec<u8>],
    expected: Expected<'_>,
) -> Result<f64, Box<Mismatch>> {
    let mut worst = 0f64;
    for (i, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.is_written()) {
        worst = worst.max(compare_one(i, spec, &found[i], expected)?);
    }
    Ok(worst)
}

fn compare_one(
    param: usize,
    spec: &ParamSpec,
    found: &[u8],
    Expected { outputs, tolerances, intervals }: Expected<'_>,
) -> Result<f64, Box<Mismatch>> {
    let (expected, t) = (&outputs[param][..], tolerances[param]);
    assert_eq!(found.len(), expected.len(), "a buffer is compared with its like");
    let at = |data: &[u8], i: usize| TensorRef { dtype: spec.dtype, shape: &spec.shape, data }.get(i).as_f64();
    let spread = intervals.and_then(|(all, _)| all.spread(param));
    let is_allowed = |element: usize, found: f64| {
        intervals.is_some_and(|(all, otherwise)| match (all.of(param, spec, element), spread) {
            (Some((least, greatest)), _) => least <= found && found <= greatest,
            (None, Some(spread)) => spread.reaches(distance(at(expected, element), found)),
            (None, None) => otherwise[param].admits(at(expected, element), found),
        })
    };
    let mut scan = match spec.dtype {
        DType::Float32 => scan(found, expected, t, is_allowed, |b: &[u8; 4]| f32::from_le_bytes(*b).into()),
        DType::Float64 => scan(found, expected, t, is_allowed, |b: &[u8; 8]| f64::from_le_bytes(*b)),
        DType::Float16 => scan(found, expected, t, is_allowed, |b: &[u8; 2]| half::f16::from_le_bytes(*b).to_f64()),
        DType::BFloat16 => scan(found, expected, t, is_allowed, |b: &[u8; 2]| half::bf16::from_le_bytes(*b).to_f64()),
        DType::Float8(f) => scan(found, expected, t, is_allowed, |b: &[u8; 1]| f.decode(b[0])),
        DType::Int8
        | DType::Int16
        | DType::Int32
        | DType::Int64
        | DType::UInt8
        | DType::UInt16
        | DType::UInt32
        | DType::UInt64
        | DType::Bool
        | DType::Narrow(_)
        | DType::Handle
        | DType::Str => scan_integers(spec.dtype, found, expected, is_allowed),
    };
    if let (0, Some((all, _)), Some(spread)) = (scan.count, intervals, spread) {
        let is_held = |element: usize, range: &Option<Range>| {
            let (e, f) = (at(expected, element), at(found, element));
            range.as_ref().is_none_or(|range| range.holds(f, t.absolute + t.relative * e.abs()))
        };
        scan.judge_strays(spec.len(), spread, |elements| match all.ranges() {
            Some(ranges) => {
                let found = ranges.of(param, elements);
                elements.iter().zip(found).filter(|(e, range)| !is_held(**e, range)).map(|(&e, _)| e).collect()
            }
            None => Vec::new(),
        });
    }
    if scan.count == 0 {
        return Ok(scan.max_error);
    }
    // A gap between elements was written; its offset in memory identifies it.
    let index = |i: usize| spec.indices(i).unwrap_or_else(|| vec![i as i64]);
    let difference = |&i: &usize| Difference { index: index(i), expected: at(expected, i), found: at(found, i) };
    Err(Box::new(Mismatch {
        param: spec.name.clone(),
        count: scan.count,
        total: spec.len() as u64,
        first: scan.first.iter().map(difference).collect(),
        max_error: scan.max_error,
    }))
}

/// Distance from the expected value; 0 if both are the same, infinite if either is not finite.
pub fn distance(expected: f64, found: f64) -> f64 {
    if expected == found || expected.is_nan() && found.is_nan() {
        return 0.0;
    }
    let distance = (expected - found).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// Maximum number of elements outside their tolerance to recompute.
const DOUBTED: usize = 64;

#[derive(Default)]
struct Scan {
    count: u64,
    first: Vec<usize>,
    max_error: f64,
    /// Elements outside their tolerance but within their intervals, with their distances.
    strays: Vec<(f64, usize)>,
}

impl Scan {
    /// Judges the elements that their intervals accept, out of `n`. If together they deviate too much, all are wrong;
    /// otherwise those of the furthest that `wrong` reports.
    fn judge_strays(&mut self, n: usize, spread: &Spread, wrong: impl FnOnce(&[usize]) -> Vec<usize>) {
        let mut strays = std::mem::take(&mut self.strays);
        strays.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let distances: Vec<f64> = strays.iter().map(|s| s.0).collect();
        let noted: Vec<usize> = if spread.exceeded(&distances, n) {
            strays.iter().map(|s| s.1).collect()
        } else {
            let furthest: Vec<usize> = strays.iter().take(DOUBTED).map(|s| s.1).collect();
            if furthest.is_empty() { furthest } else { wrong(&furthest) }
        };
        for element in noted {
            self.note(element);
        }
    }

    /// Records an element outside its tolerance.
    fn stray(&mut self, i: usize, expected: f64, found: f64, is_allowed: bool) {
        if is_allowed {
            self.strays.push((distance(expected, found), i));
        } else {
            self.note(i);
        }
    }

    fn note(&mut self, i: usize) {
        self.count += 1;
        if self.first.len() < DESCRIBED {
            self.first.push(i);
        }
    }
}

/// Number of elements that are judged together, as long as all of them are within the tolerance.
const BLOCK: usize = 512;
/// Number of partial maxima, so that the compiler can use vectors.
const LANES: usize = 8;

fn scan<const N: usize>(
    found: &[u8],
    expected: &[u8],
    t: Tolerance,
    is_allowed: impl Fn(usize, f64) -> bool,
    value: impl Fn(&[u8; N]) -> f64,
) -> Scan {
    let mut scan = Scan::default();
    let (found, expected) = (found.as_chunks::<N>().0, expected.as_chunks::<N>().0);
    for (block, (found, expected)) in found.chunks(BLOCK).zip(expected.chunks(BLOCK)).enumerate() {
        if let Some(error) = admitted(found, expected, t, &value) {
            scan.max_error = scan.max_error.max(error);
            continue;
        }
        for (i, (f, e)) in found.iter().zip(expected).enumerate() {
            let (f, e) = (value(f), value(e));
            let error = (f - e).abs();
            if error.is_finite() && error > scan.max_error {
                scan.max_error = error;
            }
            if !t.admits(e, f) {
                let element = block * BLOCK + i;
                scan.stray(element, e, f, is_allowed(element, f));
            }
        }
    }
    scan
}

/// The largest error of elements that are all finite and within the tolerance; `None` if one is not. Without a branch
/// for each element, since nearly all outputs of nearly all programs are right.
fn admitted<const N: usize>(
    found: &[[u8; N]],
    expected: &[[u8; N]],
    t: Tolerance,
    value: impl Fn(&[u8; N]) -> f64,
) -> Option<f64> {
    let (mut errors, mut is_admitted) = ([0f64; LANES], [true; LANES]);
    let mut step = |lane: usize, f: &[u8; N], e: &[u8; N]| {
        let (f, e) = (value(f), value(e));
        let (error, allowed) = ((f - e).abs(), t.absolute + t.relative * e.abs());
        errors[lane] = if error > errors[lane] { error } else { errors[lane] };
        // False for NaN, and for an infinity, whose allowance is infinite or, without a relative one, whose error is.
        is_admitted[lane] &= (error <= allowed) & (allowed < f64::INFINITY) & (error < f64::INFINITY);
    };
    let (founds, rest) = found.as_chunks::<LANES>();
    let (expecteds, expected_rest) = expected.as_chunks::<LANES>();
    for (f, e) in founds.iter().zip(expecteds) {
        for lane in 0..LANES {
            step(lane, &f[lane], &e[lane]);
        }
    }
    for (f, e) in rest.iter().zip(expected_rest) {
        step(0, f, e);
    }
    is_admitted.iter().all(|&is| is).then(|| errors.iter().copied().fold(0.0, f64::max))
}

fn scan_integers(dtype: DType, found: &[u8], expected: &[u8], is_allowed: impl Fn(usize, f64) -> bool) -> Scan {
    let mut scan = Scan::default();
    if found == expected {
        return scan;
    }
    let (n, shape) = (dtype.bytes(), []);
    for i in 0..found.len() / n {
        // Compares bytes, to detect booleans that are neither 0 nor 1.
        if found[i * n..(i + 1) * n] != expected[i * n..(i + 1) * n] {
            let at = |data| TensorRef { dtype, shape: &shape, data }.get(i).as_f64();
            let is_pattern = dtype != DType::Bool || found[i] <= 1;
            scan.stray(i, at(expected), at(found), is_pattern && is_allowed(i, at(found)));
            scan.max_error = scan.max_error.max((at(found) - at(expected)).abs());
        }
    }
    scan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::interp::{Tensor, Value};
    use crate::loopir::Access;

    fn check(dtype: DType, t: Tolerance, expected: &[f64], found: &[f64]) -> Result<f64, Box<Mismatch>> {
        let shape = [2, expected.len() as i64 / 2];
        let spec = ParamSpec::new("C", dtype, &shape, Access::Out);
        let tensor = |values: &[f64]| {
            let value = |&v: &f64| if dtype.is_float() { Value::Float(v) } else { Value::Int(v as i64) };
            Tensor::from_values(dtype, &shape, values.iter().map(value)).data
        };
        let mut args = Arguments::new(&[spec], 0).unwrap();
        args.set(0, &tensor(found));
        compare(&args, Expected { outputs: &[tensor(expected)], tolerances: &[t], intervals: None })
    }

    #[test]
    fn mismatches_are_described() {
        let t = Tolerance::of(DType::Float32, 1);
        let error = check(DType::Float32, t, &[1.0, 2.0, 3.0, 4.0], &[1.0, 2.5, f64::NAN, 4.0]).unwrap_err();
        assert_eq!((error.count, error.total, error.max_error), (2, 4, 0.5));
        assert_eq!(error.first[0], Difference { index: vec![0, 1], expected: 2.0, found: 2.5 });
        assert_eq!(error.first[1].index, [1, 0]);
        assert_eq!(
            error.to_string(),
            "`C` is wrong at [0, 1]: expected 2, found 2.5 (2 of 4 elements are wrong, by up to 5.000e-1)"
        );
    }

    #[test]
    fn infinities_and_nans_are_values() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let t = Tolerance::of(DType::Float32, 1024);
        assert!(check(DType::Float32, t, &[inf, -inf, nan, 0.0], &[inf, -inf, nan, -0.0]).is_ok());
        for (expected, found) in [(inf, 1e30), (1.0, inf), (inf, -inf), (nan, 0.0), (0.0, nan), (inf, nan)] {
            assert!(check(DType::Float32, t, &[expected, 0.0], &[found, 0.0]).is_err(), "{expected} {found}");
        }
    }

    #[test]
    fn integers_are_exact() {
        let t = Tolerance::of(DType::Int32, 1 << 20);
        assert!(check(DType::Int32, t, &[5.0, -7.0], &[5.0, -7.0]).is_ok());
        let error = check(DType::Int32, t, &[5.0, -7.0], &[5.0, -6.0]).unwrap_err();
        assert_eq!((error.count, error.max_error), (1, 1.0));
        assert!(check(DType::Int64, t, &[9e15, 0.0], &[9e15 + 1.0, 0.0]).is_err());
    }

    #[test]
    fn a_boolean_of_another_pattern_is_wrong() {
        let spec = ParamSpec::new("C", DType::Bool, &[1], Access::Out);
        let mut args = Arguments::new(&[spec], 0).unwrap();
        args.set(0, &[0xfe]);
        let expected = Expected { outputs: &[vec![1]], tolerances: &[Tolerance::EXACT], intervals: None };
        assert!(compare(&args, expected).is_err());
    }

    /// Blocks whose elements are all right are judged at once; a wrong element anywhere in them is found all the same.
    #[test]
    fn a_wrong_element_is_found_wherever_it_is() {
        let n = 2 * BLOCK + LANES + 4;
        let expected: Vec<f64> = (0..n).map(|i| i as f64 / 64.0).collect();
        for place in [0, 1, LANES, BLOCK - 1, BLOCK, 2 * BLOCK - 1, 2 * BLOCK + LANES - 1, n - 2, n - 1] {
            for wrong in [expected[place] + 1.0, f64::NAN, f64::INFINITY] {
                let mut found = expected.clone();
                found[place] = wrong;
                for dtype in [DType::Float32, DType::Float64, DType::BFloat16] {
                    let tolerance = Tolerance::of(dtype, 1);
                    let expected: Vec<f64> = expected.iter().map(|&e| dtype.round(e)).collect();
                    let found: Vec<f64> = found.iter().map(|&e| dtype.round(e)).collect();
                    let error = check(dtype, tolerance, &expected, &found).unwrap_err();
                    assert_eq!(error.count, 1, "{dtype} {place} {wrong}");
                    assert_eq!(error.first[0].index, [(place / (n / 2)) as i64, (place % (n / 2)) as i64]);
                    assert!(check(dtype, tolerance, &expected, &expected).is_ok_and(|error| error == 0.0));
                }
            }
        }
        let (mut expected, mut found) = (expected.clone(), expected);
        (expected[BLOCK], found[BLOCK]) = (f64::INFINITY, f64::INFINITY);
        found[3] += 1e-7;
        assert!(check(DType::Float64, Tolerance::of(DType::Float32, 1), &expected, &found).unwrap() > 0.9e-7);
    }

    /// Sums of products in another order are within tolerance; sums without one of the terms are not.
    #[test]
    fn orders_are_admitted_and_lost_terms_are_not() {
        for n in [16usize, 128, 1024, 16384, 262_144] {
            let spec = |name| ParamSpec::new(name, DType::Float32, &[n as i64], Access::In);
            let args = Arguments::new(&[spec("A"), spec("B")], 3).unwrap();
            let term = |i: usize| args.tensor(0).get(i).as_f64() as f32 * args.tensor(1).get(i).as_f64() as f32;
            let exact: f64 = (0..n).map(|i| args.tensor(0).get(i).as_f64() * args.tensor(1).get(i).as_f64()).sum();
            let forward: f32 = (0..n).map(term).sum();
            let backward: f32 = (0..n).rev().map(term).sum();
            let lanes: f32 = (0..16).map(|l| (l..n).step_by(16).map(term).sum::<f32>()).sum();
            let t = Tolerance::of(DType::Float32, n as u64);
            for sum in [forward, backward, lanes] {
                assert!(t.admits(exact, sum.into()), "{n}: {exact} {sum}");
            }
            // Omit a term of ordinary size.
            assert!(!t.admits(exact, f64::from(forward) - 0.25), "{n}: {t:?}");
            // Terms of one sign.
            let squares: f64 = (0..n).map(|i| args.tensor(0).get(i).as_f64().powi(2)).sum();
            let forward: f32 = (0..n).map(|i| (args.tensor(0).get(i).as_f64() as f32).powi(2)).sum();
            assert!(t.admits(squares, forward.into()), "{n}: {squares} {forward}");
        }
    }

    #[test]
    fn half_precision_accumulation_is_admitted() {
        for (dtype, n) in [(DType::Float16, 256usize), (DType::BFloat16, 64)] {
            let spec = |name| ParamSpec::new(name, dtype, &[n as i64], Access::In);
            for seed in 0..20 {
                let args = Arguments::new(&[spec("A"), spec("B")], seed).unwrap();
                let term = |i: usize| args.tensor(0).get(i).as_f64() * args.tensor(1).get(i).as_f64();
                let exact: f64 = (0..n).map(term).sum();
                let narrow = (0..n).fold(0.0, |sum, i| dtype.round(sum + dtype.round(term(i))));
                assert!(Tolerance::of(dtype, n as u64).admits(exact, narrow), "{dtype} {seed}: {exact} {narrow}");
            }
        }
    }
}
