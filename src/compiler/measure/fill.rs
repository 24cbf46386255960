//! Random contents of inputs.

use super::arguments::ParamSpec;
use crate::codegen::runtime::memory::STOP_BYTES;
use crate::ir::DType;
use crate::stop::StopFlag;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Maximum magnitude of random integers: small enough that sums of products of bytes fit `int32` for any length that
/// fits memory.
const INT_RANGE: i64 = 10;

/// Fills a parameter's bytes with random values: floats in [-1, 1), integers in -10..=10 (unsigned: 0..=10) or below
/// the parameter's bound, divisors without 0. The values depend only on the seed, the parameter's number and its type. Once `stop` is
/// raised, the rest stays unchanged.
pub(super) fn fill(spec: &ParamSpec, number: usize, seed: u64, bytes: &mut [u8], stop: &StopFlag) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // One stream per parameter, so that the size of one does not change the contents of another.
    rng.set_stream(number as u64 + 1);
    let (low, n) = integer_range(spec);
    let integer = |rng: &mut ChaCha8Rng| match low + below(rng, n) {
        0 if spec.is_divisor => low + i64::from(n) - 1,
        value => value,
    };
    match spec.dtype {
        DType::Float32 => each(bytes, stop, |b: &mut [u8; 4]| {
            // 24 bits: every value is a multiple of 2^-23, and none is subnormal.
            *b = ((rng.next_u32() >> 8) as f32 * (2.0 / 16_777_216.0) - 1.0).to_le_bytes();
        }),
        DType::Float64 => each(bytes, stop, |b: &mut [u8; 8]| {
            *b = ((rng.next_u64() >> 11) as f64 * (2.0 / 9_007_199_254_740_992.0) - 1.0).to_le_bytes();
        }),
        DType::Float16 => each(bytes, stop, |b: &mut [u8; 2]| {
            *b = half::f16::from_f32((rng.next_u32() >> 21) as f32 / 1024.0 - 1.0).to_le_bytes();
        }),
        DType::BFloat16 => each(bytes, stop, |b: &mut [u8; 2]| {
            *b = half::bf16::from_f32((rng.next_u32() >> 24) as f32 / 128.0 - 1.0).to_le_bytes();
        }),
        DType::Float8(t) => each(bytes, stop, |b: &mut [u8; 1]| {
            *b = [t.encode(f64::from(rng.next_u32() >> 24) / 128.0 - 1.0)];
        }),
        DType::Int8 | DType::UInt8 | DType::Bool | DType::Narrow(_) => each(bytes, stop, |b: &mut [u8; 1]| {
            *b = [integer(&mut rng) as u8];
        }),
        DType::Int16 | DType::UInt16 => each(bytes, stop, |b: &mut [u8; 2]| {
            *b = (integer(&mut rng) as u16).to_le_bytes();
        }),
        DType::Int32 | DType::UInt32 => each(bytes, stop, |b: &mut [u8; 4]| {
            *b = (integer(&mut rng) as u32).to_le_bytes();
        }),
        DType::Int64 | DType::UInt64 | DType::Handle | DType::Str => each(bytes, stop, |b: &mut [u8; 8]| {
            *b = integer(&mut rng).to_le_bytes();
        }),
    }
}

/// The minimum, and the number of values.
fn integer_range(spec: &ParamSpec) -> (i64, u32) {
    match spec.below {
        Some(bound) => (0, u32::try_from(bound.max(1)).unwrap_or(u32::MAX)),
        None if spec.dtype == DType::Bool => (0, 2),
        None if spec.dtype.is_int() => (-INT_RANGE, 2 * INT_RANGE as u32 + 1),
        None => (0, INT_RANGE as u32 + 1),
    }
}

/// A uniform random number below `n`, with a bias of at most one part in 2^32 / n.
fn below(rng: &mut ChaCha8Rng, n: u32) -> i64 {
    ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as i64
}

fn each<const N: usize>(bytes: &mut [u8], stop: &StopFlag, mut f: impl FnMut(&mut [u8; N])) {
    for part in bytes.as_chunks_mut::<N>().0.chunks_mut(STOP_BYTES / N) {
        if stop.is_raised() {
            return;
        }
        part.iter_mut().for_each(&mut f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::interp::TensorRef;
    use crate::loopir::Access;

    fn values(dtype: DType, below: Option<i64>, number: usize, seed: u64) -> Vec<f64> {
        let n = 5000;
        let spec = ParamSpec { below, ..ParamSpec::new("A", dtype, &[n], Access::In) };
        let mut bytes = vec![0; n as usize * dtype.bytes()];
        fill(&spec, number, seed, &mut bytes, &StopFlag::new());
        let tensor = TensorRef { dtype, shape: &[n], data: &bytes };
        (0..n as usize).map(|i| tensor.get(i).as_f64()).collect()
    }

    #[test]
    fn values_are_in_range_and_spread() {
        for dtype in DType::ELEMENTS {
            let v = values(dtype, None, 0, 1);
            let (least, most) = v.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            let expected = match dtype {
                DType::Bool => (0.0, 1.0),
                d if d.is_int() => (-10.0, 10.0),
                d if d.is_uint() => (0.0, 10.0),
                _ => {
                    assert!((-1.0..=-0.99).contains(&least) && (0.99..1.0).contains(&most), "{dtype}: {least} {most}");
                    let mean = v.iter().sum::<f64>() / v.len() as f64;
                    assert!(mean.abs() < 0.05, "{dtype}: {mean}");
                    continue;
                }
            };
            assert_eq!((least, most), expected, "{dtype}");
        }
    }

    #[test]
    fn bounds_of_the_caller_hold() {
        let v = values(DType::Int64, Some(7), 0, 1);
        assert!(v.iter().all(|x| (0.0..7.0).contains(x)) && v.contains(&6.0) && v.contains(&0.0));
        assert!(values(DType::Int32, Some(1), 0, 1).iter().all(|&x| x == 0.0));
    }

    #[test]
    fn divisors_are_not_zero() {
        for dtype in [DType::Int8, DType::UInt8, DType::Int32, DType::UInt32, DType::Int64] {
            let n = 5000;
            let spec = ParamSpec { is_divisor: true, ..ParamSpec::new("A", dtype, &[n], Access::In) };
            let mut bytes = vec![0; n as usize * dtype.bytes()];
            fill(&spec, 0, 1, &mut bytes, &StopFlag::new());
            let tensor = TensorRef { dtype, shape: &[n], data: &bytes };
            assert!((0..n as usize).all(|i| tensor.get(i).as_f64() != 0.0), "{dtype}");
        }
    }

    #[test]
    fn seed_and_number_decide() {
        let of = |number, seed| values(DType::Float32, None, number, seed);
        assert_eq!(of(0, 1), of(0, 1));
        assert_ne!(of(0, 1), of(1, 1));
        assert_ne!(of(0, 1), of(0, 2));
    }
}
