//! Looks up the features of this CPU, once.

use crate::abi::{Library, features};
use core::sync::atomic::Ordering::Relaxed;

/// The features of this CPU.
pub(crate) fn features_of(library: &Library) -> u32 {
    match library.features.load(Relaxed) {
        0 => {
            let found = detect() | features::KNOWN;
            library.features.store(found, Relaxed);
            found
        }
        known => known,
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> u32 {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    let has = |word: u32, bit: u32| word >> bit & 1 == 1;
    let all = |word: u32, bits: &[u32]| bits.iter().all(|&bit| has(word, bit));
    if __cpuid(0).eax < 7 || __cpuid(0x8000_0000).eax < 0x8000_0001 {
        return 0;
    }
    let (basic, extended) = (__cpuid(1), __cpuid(0x8000_0001));
    let (seven, seven_1) = (__cpuid_count(7, 0), __cpuid_count(7, 1));
    // OSXSAVE: without it the system keeps no wide registers.
    if !has(basic.ecx, 27) {
        return 0;
    }
    let (low, _high): (u32, u32);
    // SAFETY: the instruction exists where OSXSAVE is set, and only reads register 0.
    unsafe { core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _high, options(nomem, nostack)) };
    let mut found = 0;
    // SSE4.2, POPCNT, FMA, F16C, AVX; LZCNT; BMI1, AVX2, BMI2; the system keeps the upper halves.
    let avx2 = all(basic.ecx, &[20, 23, 12, 29, 28]) && has(extended.ecx, 5) && all(seven.ebx, &[3, 5, 8]);
    if !(avx2 && low & 0x6 == 0x6) {
        return 0;
    }
    found |= features::AVX2;
    if has(seven_1.eax, 4) {
        found |= features::AVX_VNNI;
    }
    // F, DQ, CD, BW, VL; the system keeps mask and 512-bit registers.
    if all(seven.ebx, &[16, 17, 28, 30, 31]) && low & 0xe6 == 0xe6 {
        found |= features::AVX512;
        for (bit, feature) in [(1, features::AVX512_VBMI), (11, features::AVX512_VNNI), (12, features::AVX512_BITALG)] {
            if has(seven.ecx, bit) {
                found |= feature;
            }
        }
        if has(seven_1.eax, 5) {
            found |= features::AVX512_BF16;
        }
        if has(seven.edx, 23) {
            found |= features::AVX512_FP16;
        }
    }
    found
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> u32 {
    0
}
