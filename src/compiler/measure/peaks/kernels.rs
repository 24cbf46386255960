//! The loops of [`super`].

use crate::machine::Isa;

/// Number of independent chains: two multiply-adds start per cycle and take four or five, so ten are needed.
pub(super) const ACCUMULATORS: usize = 12;

/// Size from which reading is faster with prefetching two pages ahead, on CPUs whose streams wait.
#[cfg(target_arch = "x86_64")]
const FAR: usize = 2 << 20;
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 8192;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ACCUMULATORS, AHEAD, FAR};
    use crate::machine::prefetching_pays;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    macro_rules! floats {
        ($name:ident, $features:literal, $vector:ty, $scalar:ty, $lanes:literal, $set1:ident, $store:ident, $start:literal,
         |$a:ident, $x:ident = $x_value:literal, $y:ident = $y_value:literal| $step:expr) => {
            /// Repeats two operations on each accumulator; the values stay between 0 and 1.
            #[target_feature(enable = $features)]
            pub(super) fn $name(rounds: u64) -> $scalar {
                let ($x, $y) = ($set1(black_box($x_value)), $set1(black_box($y_value)));
                let mut a: [$vector; ACCUMULATORS] = [$set1($start); ACCUMULATORS];
                for _ in 0..rounds {
                    for $a in &mut a {
                        *$a = $step;
                    }
                }
                let mut sum = 0.0;
                for a in a {
                    let mut lanes = [0.0; $lanes];
                    // SAFETY: the array has the size of the vector.
                    unsafe { $store(lanes.as_mut_ptr(), a) };
                    sum += lanes.iter().sum::<$scalar>();
                }
                sum
            }
        };
    }

    macro_rules! fma {
        ($name:ident, $features:literal, $vector:ty, $scalar:ty, $lanes:literal, $set1:ident, $fma:ident, $store:ident) => {
            floats!($name, $features, $vector, $scalar, $lanes, $set1, $store, 0.125, |a, x = 0.5, y = 0.25| $fma(*a, x, y));
        };
    }

    fma!(f32_128, "fma", __m128, f32, 4, _mm_set1_ps, _mm_fmadd_ps, _mm_storeu_ps);
    fma!(f64_128, "fma", __m128d, f64, 2, _mm_set1_pd, _mm_fmadd_pd, _mm_storeu_pd);
    fma!(f32_256, "avx2,fma", __m256, f32, 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps);
    fma!(f64_256, "avx2,fma", __m256d, f64, 4, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_storeu_pd);
    fma!(f32_512, "avx512f", __m512, f32, 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps);
    fma!(f64_512, "avx512f", __m512d, f64, 8, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_storeu_pd);

    macro_rules! sums {
        ($name:ident, $features:literal, $vector:ty, $scalar:ty, $lanes:literal, $set1:ident, $add:ident, $max:ident, $store:ident) => {
            floats!($name, $features, $vector, $scalar, $lanes, $set1, $store, 1.0, |a, x = -0.25, y = 0.5| $max(
                $add(*a, x),
                y
            ));
        };
    }

    sums!(sums32_128, "sse2", __m128, f32, 4, _mm_set1_ps, _mm_add_ps, _mm_max_ps, _mm_storeu_ps);
    sums!(sums64_128, "sse2", __m128d, f64, 2, _mm_set1_pd, _mm_add_pd, _mm_max_pd, _mm_storeu_pd);
    sums!(sums32_256, "avx2", __m256, f32, 8, _mm256_set1_ps, _mm256_add_ps, _mm256_max_ps, _mm256_storeu_ps);
    sums!(sums64_256, "avx2", __m256d, f64, 4, _mm256_set1_pd, _mm256_add_pd, _mm256_max_pd, _mm256_storeu_pd);
    sums!(sums32_512, "avx512f", __m512, f32, 16, _mm512_set1_ps, _mm512_add_ps, _mm512_max_ps, _mm512_storeu_ps);
    sums!(sums64_512, "avx512f", __m512d, f64, 8, _mm512_set1_pd, _mm512_add_pd, _mm512_max_pd, _mm512_storeu_pd);

    macro_rules! integers {
        ($name:ident, $features:literal, $vector:ty, $set1:ident, |$a:ident, $x:ident, $y:ident| $step:expr) => {
            /// Repeats two operations on each accumulator that no compiler can simplify.
            #[target_feature(enable = $features)]
            pub(super) fn $name(rounds: u64) -> u8 {
                let ($x, $y) = ($set1(black_box(5)), $set1(black_box(3)));
                let mut a: [$vector; ACCUMULATORS] = [$set1(1); ACCUMULATORS];
                for _ in 0..rounds {
                    for $a in &mut a {
                        *$a = $step;
                    }
                }
                // SAFETY: any bit pattern is valid as bytes.
                let bytes: [[u8; size_of::<$vector>()]; ACCUMULATORS] = unsafe { std::mem::transmute(a) };
                bytes.as_flattened().iter().fold(0, |x, y| x ^ y)
            }
        };
    }

    integers!(add8_256, "avx2", __m256i, _mm256_set1_epi8, |a, x, y| _mm256_xor_si256(_mm256_add_epi8(*a, y), x));
    integers!(add16_256, "avx2", __m256i, _mm256_set1_epi16, |a, x, y| _mm256_xor_si256(_mm256_add_epi16(*a, y), x));
    integers!(add32_256, "avx2", __m256i, _mm256_set1_epi32, |a, x, y| _mm256_xor_si256(_mm256_add_epi32(*a, y), x));
    integers!(add64_256, "avx2", __m256i, _mm256_set1_epi64x, |a, x, y| _mm256_xor_si256(_mm256_add_epi64(*a, y), x));
    integers!(mul16_256, "avx2", __m256i, _mm256_set1_epi16, |a, x, y| _mm256_add_epi16(_mm256_mullo_epi16(*a, x), y));
    integers!(mul32_256, "avx2", __m256i, _mm256_set1_epi32, |a, x, y| _mm256_add_epi32(_mm256_mullo_epi32(*a, x), y));
    integers!(add8_512, "avx512bw", __m512i, _mm512_set1_epi8, |a, x, y| _mm512_xor_si512(_mm512_add_epi8(*a, y), x));
    integers!(add16_512, "avx512bw", __m512i, _mm512_set1_epi16, |a, x, y| _mm512_xor_si512(
        _mm512_add_epi16(*a, y),
        x
    ));
    integers!(add32_512, "avx512bw", __m512i, _mm512_set1_epi32, |a, x, y| _mm512_xor_si512(
        _mm512_add_epi32(*a, y),
        x
    ));
    integers!(add64_512, "avx512bw", __m512i, _mm512_set1_epi64, |a, x, y| _mm512_xor_si512(
        _mm512_add_epi64(*a, y),
        x
    ));
    integers!(mul16_512, "avx512bw", __m512i, _mm512_set1_epi16, |a, x, y| _mm512_add_epi16(
        _mm512_mullo_epi16(*a, x),
        y
    ));
    integers!(mul32_512, "avx512bw", __m512i, _mm512_set1_epi32, |a, x, y| _mm512_add_epi32(
        _mm512_mullo_epi32(*a, x),
        y
    ));

    macro_rules! dots {
        ($name:ident, $features:literal, $vector:ty, $lanes:literal, $zero:ident, $set1:ident, $dot:ident) => {
            /// Repeats `a += x . y` in each lane of each accumulator.
            #[target_feature(enable = $features)]
            pub(super) fn $name(rounds: u64) -> i32 {
                let (x, y) = ($set1(3), $set1(-2));
                let mut a: [$vector; ACCUMULATORS] = [$zero(); ACCUMULATORS];
                for _ in 0..rounds {
                    for a in &mut a {
                        *a = $dot(*a, x, y);
                    }
                }
                let mut sum = 0i32;
                for a in a {
                    // SAFETY: any bit pattern is a valid integer.
                    let lanes: [i32; $lanes] = unsafe { std::mem::transmute(a) };
                    sum = lanes.iter().fold(sum, |sum, v| sum.wrapping_add(*v));
                }
                sum
            }
        };
    }

    dots!(dots_512, "avx512f,avx512vnni", __m512i, 16, _mm512_setzero_si512, _mm512_set1_epi8, _mm512_dpbusd_epi32);
    dots!(dots_256, "avx512vnni,avx512vl", __m256i, 8, _mm256_setzero_si256, _mm256_set1_epi8, _mm256_dpbusd_epi32);
    dots!(dots_vex, "avx2,avxvnni", __m256i, 8, _mm256_setzero_si256, _mm256_set1_epi8, _mm256_dpbusd_avx_epi32);

    macro_rules! read {
        ($name:ident, $features:literal, $block:literal, $zero:ident, $load:ident, $xor:ident, $step:literal) => {
            /// Reads all blocks, with eight loads in flight.
            #[target_feature(enable = $features)]
            pub(super) fn $name(data: &[u8]) -> u8 {
                let mut a = [$zero(); 8];
                let is_far = data.len() >= FAR && prefetching_pays();
                for block in data.as_chunks::<$block>().0 {
                    for line in (0..$block).step_by(64).take_while(|_| is_far) {
                        _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().wrapping_add(AHEAD + line).cast());
                    }
                    for (i, a) in a.iter_mut().enumerate() {
                        // SAFETY: eight vectors make up a block.
                        *a = $xor(*a, unsafe { $load(block.as_ptr().add(i * $step).cast()) });
                    }
                }
                let all = a.into_iter().fold($zero(), |x, y| $xor(x, y));
                // SAFETY: any bit pattern is valid as bytes.
                let bytes: [u8; $step] = unsafe { std::mem::transmute(all) };
                bytes.into_iter().fold(0, |x, y| x ^ y)
            }
        };
    }

    read!(read_256, "avx2", 256, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_xor_si256, 32);
    read!(read_512, "avx512f", 512, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_xor_si512, 64);

    macro_rules! write {
        ($copy:ident, $fill:ident, $features:literal, $block:literal, $step:literal, $load:ident, $store:ident, $set1:ident) => {
            /// Copies all blocks.
            #[target_feature(enable = $features)]
            pub(super) fn $copy(from: &[u8], to: &mut [u8]) {
                for (from, to) in from.as_chunks::<$block>().0.iter().zip(to.as_chunks_mut::<$block>().0) {
                    for i in (0..$block).step_by($step) {
                        // SAFETY: a vector from `i` on lies within both blocks.
                        unsafe { $store(to.as_mut_ptr().add(i).cast(), $load(from.as_ptr().add(i).cast())) };
                    }
                }
            }

            /// Fills all blocks.
            #[target_feature(enable = $features)]
            pub(super) fn $fill(to: &mut [u8]) {
                let value = $set1(black_box(1));
                for to in to.as_chunks_mut::<$block>().0 {
                    for i in (0..$block).step_by($step) {
                        // SAFETY: a vector from `i` on lies within the block.
                        unsafe { $store(to.as_mut_ptr().add(i).cast(), value) };
                    }
                }
            }
        };
    }

    write!(copy_256, fill_256, "avx2", 256, 32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi8);
    write!(copy_512, fill_512, "avx512f", 128, 64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi8);
}

/// Whether this machine supports the instruction set.
#[cfg(target_arch = "x86_64")]
pub(super) fn has(isa: Isa) -> bool {
    match isa {
        Isa::Portable => is_x86_feature_detected!("fma"),
        Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        Isa::Avx512Ymm => is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("fma"),
        Isa::Avx512 => is_x86_feature_detected!("avx512f"),
    }
}

/// Calls of one of three loops, by the width of vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! by_width {
    ($(#[$doc:meta])* $name:ident, $scalar:ty, $loop128:ident, $loop256:ident, $loop512:ident) => {
        $(#[$doc])*
        pub(super) fn $name(isa: Isa, rounds: u64) -> $scalar {
            assert!(has(isa), "a peak loop is made for instructions that are there");
            // SAFETY: support was checked above.
            unsafe {
                match isa {
                    Isa::Portable => x86::$loop128(rounds),
                    Isa::Avx2 | Isa::Avx512Ymm => x86::$loop256(rounds),
                    Isa::Avx512 => x86::$loop512(rounds),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
by_width!(fma_f32, f32, f32_128, f32_256, f32_512);
#[cfg(target_arch = "x86_64")]
by_width!(fma_f64, f64, f64_128, f64_256, f64_512);
#[cfg(target_arch = "x86_64")]
by_width!(
    /// Two operations for each element: an addition and a maximum.
    sums_f32,
    f32,
    sums32_128,
    sums32_256,
    sums32_512
);
#[cfg(target_arch = "x86_64")]
by_width!(
    /// As [`sums_f32`].
    sums_f64,
    f64,
    sums64_128,
    sums64_256,
    sums64_512
);

/// Whether this machine has byte dot products in vectors of this width.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_dots(isa: Isa) -> bool {
    has(isa)
        && match isa {
            Isa::Portable => false,
            Isa::Avx2 => is_x86_feature_detected!("avxvnni"),
            Isa::Avx512Ymm | Isa::Avx512 => is_x86_feature_detected!("avx512vnni"),
        }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn dots(isa: Isa, rounds: u64) -> i32 {
    assert!(has_dots(isa), "a peak loop is made for instructions that are there");
    // SAFETY: support was checked above.
    unsafe {
        match isa {
            Isa::Portable | Isa::Avx2 => x86::dots_vex(rounds),
            Isa::Avx512Ymm => x86::dots_256(rounds),
            Isa::Avx512 => x86::dots_512(rounds),
        }
    }
}

/// Whether this machine has integer arithmetic in vectors of this width. Otherwise there is no loop.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_integers(isa: Isa) -> bool {
    match isa {
        Isa::Portable => false,
        Isa::Avx2 | Isa::Avx512Ymm => is_x86_feature_detected!("avx2"),
        Isa::Avx512 => is_x86_feature_detected!("avx512bw"),
    }
}

/// Two operations per element of `bits` bits: products and sums, or sums and exclusive ors.
#[cfg(target_arch = "x86_64")]
pub(super) fn integers(isa: Isa, bits: u32, multiplies: bool, rounds: u64) -> u8 {
    assert!(has_integers(isa), "a peak loop is made for instructions that are there");
    let is_wide = isa == Isa::Avx512;
    // SAFETY: support was checked above.
    unsafe {
        match (bits, multiplies, is_wide) {
            (16, true, false) => x86::mul16_256(rounds),
            (16, true, true) => x86::mul16_512(rounds),
            (_, true, false) => x86::mul32_256(rounds),
            (_, true, true) => x86::mul32_512(rounds),
            (8, false, false) => x86::add8_256(rounds),
            (8, false, true) => x86::add8_512(rounds),
            (16, false, false) => x86::add16_256(rounds),
            (16, false, true) => x86::add16_512(rounds),
            (64, false, false) => x86::add64_256(rounds),
            (64, false, true) => x86::add64_512(rounds),
            (_, false, false) => x86::add32_256(rounds),
            (_, false, true) => x86::add32_512(rounds),
        }
    }
}

/// Reads bytes with the widest loads available.
#[cfg(target_arch = "x86_64")]
pub(super) fn read(data: &[u8]) -> u8 {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: support was checked above.
        unsafe { x86::read_512(data) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: support was checked above.
        unsafe { x86::read_256(data) }
    } else {
        read_plainly(data)
    }
}

/// Copies whole kilobytes with the widest loads and stores available.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: support was checked above.
        unsafe { x86::copy_512(from, to) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: support was checked above.
        unsafe { x86::copy_256(from, to) }
    } else {
        to.copy_from_slice(from);
    }
}

/// Fills whole kilobytes with ones by the widest stores available.
#[cfg(target_arch = "x86_64")]
pub(super) fn fill(to: &mut [u8]) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: support was checked above.
        unsafe { x86::fill_512(to) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: support was checked above.
        unsafe { x86::fill_256(to) }
    } else {
        to.fill(1);
    }
}

/// Whether this machine supports the instruction set.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has(isa: Isa) -> bool {
    isa == Isa::Portable
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_dots(_isa: Isa) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn dots(_isa: Isa, _rounds: u64) -> i32 {
    unreachable!("a peak loop is made for instructions that are there")
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn has_integers(_isa: Isa) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn integers(_isa: Isa, _bits: u32, _multiplies: bool, _rounds: u64) -> u8 {
    unreachable!("a peak loop is made for instructions that are there")
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fma_f32(_isa: Isa, rounds: u64) -> f32 {
    let mut a = [[0.125f32; 4]; ACCUMULATORS];
    for _ in 0..rounds {
        a.as_flattened_mut().iter_mut().for_each(|a| *a = a.mul_add(0.5, 0.25));
    }
    a.as_flattened().iter().sum()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fma_f64(_isa: Isa, rounds: u64) -> f64 {
    let mut a = [[0.125f64; 2]; ACCUMULATORS];
    for _ in 0..rounds {
        a.as_flattened_mut().iter_mut().for_each(|a| *a = a.mul_add(0.5, 0.25));
    }
    a.as_flattened().iter().sum()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn sums_f32(_isa: Isa, rounds: u64) -> f32 {
    let mut a = [[1.0f32; 4]; ACCUMULATORS];
    for _ in 0..rounds {
        a.as_flattened_mut().iter_mut().for_each(|a| *a = (*a + std::hint::black_box(-0.25)).max(0.5));
    }
    a.as_flattened().iter().sum()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn sums_f64(_isa: Isa, rounds: u64) -> f64 {
    let mut a = [[1.0f64; 2]; ACCUMULATORS];
    for _ in 0..rounds {
        a.as_flattened_mut().iter_mut().for_each(|a| *a = (*a + std::hint::black_box(-0.25)).max(0.5));
    }
    a.as_flattened().iter().sum()
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn read(data: &[u8]) -> u8 {
    read_plainly(data)
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fill(to: &mut [u8]) {
    to.fill(1);
}

fn read_plainly(data: &[u8]) -> u8 {
    let mut a = [0u64; 16];
    for block in data.as_chunks::<128>().0 {
        for (a, word) in a.iter_mut().zip(block.as_chunks::<8>().0) {
            *a ^= u64::from_le_bytes(*word);
        }
    }
    a.iter().flat_map(|w| w.to_le_bytes()).fold(0, |x, y| x ^ y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_do_what_they_count() {
        let sets: Vec<Isa> = Isa::ALL.into_iter().filter(|&isa| has(isa)).collect();
        assert!(!sets.is_empty(), "every machine that is supported multiplies and adds at once");
        for isa in sets {
            // 0.125 * 0.5 + 0.25 in every lane of every accumulator, which then approaches 0.5.
            let lanes = isa.vector_bits() as usize / 32 * ACCUMULATORS;
            assert_eq!(fma_f32(isa, 1), 0.3125 * lanes as f32);
            assert_eq!(fma_f64(isa, 1), 0.3125 * (lanes / 2) as f64);
            assert_eq!(fma_f32(isa, 1000), 0.5 * lanes as f32);
            // 1 - 0.25 at first, and then 0.5.
            assert_eq!((sums_f32(isa, 1), sums_f64(isa, 1)), (0.75 * lanes as f32, 0.375 * lanes as f64));
            assert_eq!((sums_f32(isa, 9), sums_f64(isa, 9)), (0.5 * lanes as f32, 0.25 * lanes as f64));
        }
    }

    #[test]
    fn integers_add_up() {
        let sets: Vec<Isa> = Isa::ALL.into_iter().filter(|&isa| has_dots(isa)).collect();
        for &isa in &sets {
            let lanes = (isa.vector_bits() as usize / 32 * ACCUMULATORS) as i32;
            assert_eq!(dots(isa, 1000), 1000 * 4 * 3 * -2 * lanes);
        }
        let wide: Vec<Isa> = Isa::ALL.into_iter().filter(|&isa| has_integers(isa)).collect();
        println!("dot products of bytes: {sets:?}; integers: {wide:?}");
        for isa in wide {
            // All accumulators are equal, and their number is even.
            for (bits, multiplies) in [8, 16, 32, 64].into_iter().flat_map(|b| [(b, false), (b, true)]) {
                assert_eq!(integers(isa, bits, multiplies, 1000), 0, "{isa} {bits}");
            }
        }
        let bits = [fma_f32(Isa::Portable, 1), fma_f32(Isa::Portable, 2)];
        assert_ne!(bits[0], bits[1], "where there are no vectors of integers, those of floats were looked at");
    }

    #[test]
    fn reading_reads_everything() {
        for position in [0, 100, 511, 512, 5000, 8191] {
            let mut data = vec![0u8; 8192];
            data[position] = 0x5a;
            assert_eq!((read(&data), read_plainly(&data)), (0x5a, 0x5a), "{position}");
        }
    }

    #[test]
    fn writing_writes_everything() {
        let from: Vec<u8> = (0..4096u32).map(|i| (i % 251) as u8).collect();
        let mut to = vec![0; from.len()];
        copy(&from, &mut to);
        assert!(from == to);
        fill(&mut to);
        assert!(to.iter().all(|&byte| byte == 1));
    }
}
