//! Instruction-set features, by LLVM's names, which TVM's `mattr` uses too.

use super::Arch;
use std::fmt;

macro_rules! features {
    ($($arch:ident { $($variant:ident = $name:literal),* $(,)? })*) => {
        /// A feature that a code generator, tvmr's or TVM's, may use. Features that no generator of tensor kernels uses
        /// (`rdrand`, `mpx`, …) are left out, so that they never make two CPUs differ.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[expect(missing_docs, reason = "each variant is the feature it names")]
        pub enum Feature { $($($variant),*),* }

        impl Feature {
            /// All features, in the order of declaration.
            pub const ALL: &'static [Feature] = &[$($(Feature::$variant),*),*];

            /// LLVM's name, without a sign.
            pub fn name(self) -> &'static str {
                match self { $($(Feature::$variant => $name),*),* }
            }

            /// The architecture that has the feature.
            pub fn arch(self) -> Arch {
                match self { $($(Feature::$variant)|* => Arch::$arch),* }
            }
        }
    };
}

features! {
    X86_64 {
        Sse3 = "sse3",
        Ssse3 = "ssse3",
        Sse41 = "sse4.1",
        Sse42 = "sse4.2",
        Popcnt = "popcnt",
        Lzcnt = "lzcnt",
        Bmi = "bmi",
        Bmi2 = "bmi2",
        Avx = "avx",
        F16c = "f16c",
        Fma = "fma",
        Avx2 = "avx2",
        AvxVnni = "avxvnni",
        AvxVnniInt8 = "avxvnniint8",
        AvxNeConvert = "avxneconvert",
        Avx512f = "avx512f",
        Avx512cd = "avx512cd",
        Avx512bw = "avx512bw",
        Avx512dq = "avx512dq",
        Avx512vl = "avx512vl",
        Avx512Ifma = "avx512ifma",
        Avx512Vbmi = "avx512vbmi",
        Avx512Vbmi2 = "avx512vbmi2",
        Avx512Vnni = "avx512vnni",
        Avx512Bitalg = "avx512bitalg",
        Avx512Vpopcntdq = "avx512vpopcntdq",
        Avx512Bf16 = "avx512bf16",
        Avx512Fp16 = "avx512fp16",
        AmxTile = "amx-tile",
        AmxInt8 = "amx-int8",
        AmxBf16 = "amx-bf16",
    }
    Aarch64 {
        Neon = "neon",
        Lse = "lse",
        FullFp16 = "fullfp16",
        Dotprod = "dotprod",
        Bf16 = "bf16",
        I8mm = "i8mm",
        Sve = "sve",
        Sve2 = "sve2",
    }
}

impl Feature {
    /// The feature with this LLVM name.
    pub fn from_name(name: &str) -> Option<Feature> {
        Feature::ALL.iter().copied().find(|f| f.name() == name)
    }

    fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// A set of features.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FeatureSet(u64);

impl FeatureSet {
    /// The empty set.
    pub const EMPTY: FeatureSet = FeatureSet(0);

    /// Whether the set contains the feature.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Whether the set contains all of `other`.
    pub fn has_all(self, other: FeatureSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds a feature.
    pub fn insert(&mut self, feature: Feature) {
        self.0 |= feature.bit();
    }

    /// Removes a feature.
    pub fn remove(&mut self, feature: Feature) {
        self.0 &= !feature.bit();
    }

    /// The members, in the order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(move |&f| self.has(f))
    }
}

impl FromIterator<Feature> for FeatureSet {
    fn from_iter<I: IntoIterator<Item = Feature>>(items: I) -> Self {
        let mut set = FeatureSet::EMPTY;
        items.into_iter().for_each(|f| set.insert(f));
        set
    }
}

impl<const N: usize> From<[Feature; N]> for FeatureSet {
    fn from(items: [Feature; N]) -> Self {
        items.into_iter().collect()
    }
}

impl fmt::Debug for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Feature::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_fit_the_set() {
        assert!(Feature::ALL.len() <= 64);
        for &f in Feature::ALL {
            assert_eq!(Feature::from_name(f.name()), Some(f));
        }
        assert_eq!(Feature::from_name("avx1024"), None);
    }

    #[test]
    fn sets() {
        let set = FeatureSet::from([Feature::Fma, Feature::Avx2]);
        assert!(set.has(Feature::Avx2) && !set.has(Feature::Avx512f));
        assert!(set.has_all([Feature::Fma].into()) && !set.has_all([Feature::Fma, Feature::Avx].into()));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Feature::Fma, Feature::Avx2]);
    }
}
