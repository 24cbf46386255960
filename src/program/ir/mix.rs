//! Deterministic pseudorandom numbers (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014).

/// A hash of a number, each bit of which depends on all bits of the number.
pub fn mixed(v: u64) -> u64 {
    let v = (v ^ (v >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let v = (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    v ^ (v >> 31)
}

/// Returns the next number of the sequence, and advances the state.
#[cfg(test)]
pub(crate) fn next_mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed(*state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_those_of_splitmix64() {
        let mut state = 1_234_567;
        let first: Vec<u64> = (0..3).map(|_| next_mixed(&mut state)).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
