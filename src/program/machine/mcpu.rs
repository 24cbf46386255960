//! CPU names as LLVM spells them, and TVM's `mcpu` expects them.
//!
//! Vendor, family and model determine the name (as in LLVM's `Host.cpp`), but only if the machine has all features that
//! the name implies: a hypervisor may hide some, and a compiler that is told `sapphirerapids` uses AVX-512. Otherwise
//! the name is that of the highest x86-64 level whose features are present.

use super::feature::{Feature, FeatureSet};

/// Vendor, family and model of an x86 CPU, from `cpuid`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct X86Id {
    /// `GenuineIntel`, `AuthenticAMD`, …
    pub vendor: String,
    /// Family, including the extended family.
    pub family: u32,
    /// Model, with the extended model in its upper half.
    pub model: u32,
}

use Feature::*;

/// The features of the x86-64 micro-architecture levels of the System V ABI, as far as [`Feature`] knows them.
const V2: &[Feature] = &[Sse3, Ssse3, Sse41, Sse42, Popcnt];
const V3: &[Feature] = &[Lzcnt, Bmi, Bmi2, Avx, F16c, Fma, Avx2];
const V4: &[Feature] = &[Avx512f, Avx512cd, Avx512bw, Avx512dq, Avx512vl];
const ICE_LAKE: &[Feature] = &[Avx512Ifma, Avx512Vbmi, Avx512Vbmi2, Avx512Vnni, Avx512Bitalg, Avx512Vpopcntdq];
const SAPPHIRE_RAPIDS: &[Feature] = &[Avx512Bf16, Avx512Fp16, AvxVnni, AmxTile, AmxInt8, AmxBf16];

fn set(parts: &[&[Feature]]) -> FeatureSet {
    parts.iter().flat_map(|p| p.iter().copied()).collect()
}

/// LLVM's name of an x86-64 CPU.
pub(super) fn x86_name(id: &X86Id, features: FeatureSet) -> &'static str {
    let by_model = match id.vendor.as_str() {
        "GenuineIntel" => intel(id, features),
        "AuthenticAMD" => amd(id),
        _ => None,
    };
    if let Some((name, promised)) = by_model
        && features.has_all(promised)
    {
        return name;
    }
    let levels: [(&str, &[&[Feature]]); 3] =
        [("x86-64-v4", &[V2, V3, V4]), ("x86-64-v3", &[V2, V3]), ("x86-64-v2", &[V2])];
    levels.into_iter().find(|(_, parts)| features.has_all(set(parts))).map_or("x86-64", |(name, _)| name)
}

fn intel(id: &X86Id, features: FeatureSet) -> Option<(&'static str, FeatureSet)> {
    // Skylake, Cascade Lake and Cooper Lake servers share one model number.
    let skylake_server = match (features.has(Avx512Bf16), features.has(Avx512Vnni)) {
        (true, _) => ("cooperlake", set(&[V2, V3, V4, &[Avx512Vnni, Avx512Bf16]])),
        (false, true) => ("cascadelake", set(&[V2, V3, V4, &[Avx512Vnni]])),
        (false, false) => ("skylake-avx512", set(&[V2, V3, V4])),
    };
    let v3 = set(&[V2, V3]);
    let hybrid = set(&[V2, V3, &[AvxVnni]]);
    let ice_lake = set(&[V2, V3, V4, ICE_LAKE]);
    let sapphire_rapids = set(&[V2, V3, V4, ICE_LAKE, SAPPHIRE_RAPIDS]);
    let forest = set(&[V2, V3, &[AvxVnni, AvxVnniInt8, AvxNeConvert]]);
    let found = match (id.family, id.model) {
        (6, 0x2a | 0x2d) => ("sandybridge", set(&[V2, &[Avx]])),
        (6, 0x3a | 0x3e) => ("ivybridge", set(&[V2, &[Avx, F16c]])),
        (6, 0x3c | 0x3f | 0x45 | 0x46) => ("haswell", v3),
        (6, 0x3d | 0x47 | 0x4f | 0x56) => ("broadwell", v3),
        (6, 0x4e | 0x5e | 0x8e | 0x9e | 0xa5 | 0xa6) => ("skylake", v3),
        (6, 0x55) => skylake_server,
        (6, 0x7d | 0x7e) => ("icelake-client", ice_lake),
        (6, 0x6a | 0x6c) => ("icelake-server", ice_lake),
        (6, 0x8c | 0x8d) => ("tigerlake", ice_lake),
        (6, 0xa7) => ("rocketlake", ice_lake),
        (6, 0x97 | 0x9a) => ("alderlake", hybrid),
        (6, 0xb7 | 0xba | 0xbf) => ("raptorlake", hybrid),
        (6, 0xaa | 0xac) => ("meteorlake", hybrid),
        (6, 0x8f) => ("sapphirerapids", sapphire_rapids),
        (6, 0xcf) => ("emeraldrapids", sapphire_rapids),
        (6, 0xad) => ("graniterapids", sapphire_rapids),
        (6, 0xae) => ("graniterapids-d", sapphire_rapids),
        (6, 0xb5 | 0xc5) => ("arrowlake", forest),
        (6, 0xc6) => ("arrowlake-s", forest),
        (6, 0xbd) => ("lunarlake", forest),
        (6, 0xaf) => ("sierraforest", forest),
        (6, 0xb6) => ("grandridge", forest),
        _ => return None,
    };
    Some(found)
}

fn amd(id: &X86Id) -> Option<(&'static str, FeatureSet)> {
    let v3 = set(&[V2, V3]);
    let zen4 = set(&[V2, V3, V4, ICE_LAKE, &[Avx512Bf16]]);
    let found = match (id.family, id.model) {
        (0x17, 0x30..=0xff) => ("znver2", v3),
        (0x17, 0x00..=0x2f) => ("znver1", v3),
        (0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => ("znver4", zen4),
        (0x19, 0x00..=0x5f) => ("znver3", v3),
        (0x1a, 0x00..=0x4f | 0x60..=0x77 | 0xd0..=0xd7) => {
            ("znver5", set(&[V2, V3, V4, ICE_LAKE, &[Avx512Bf16, AvxVnni]]))
        }
        _ => return None,
    };
    Some(found)
}

/// LLVM's name of an aarch64 CPU, from the main id register's implementer and part number.
pub(super) fn aarch64_name(implementer: u32, part: u32) -> &'static str {
    match (implementer, part) {
        (0x41, 0xd03) => "cortex-a53",
        (0x41, 0xd05) => "cortex-a55",
        (0x41, 0xd07) => "cortex-a57",
        (0x41, 0xd08) => "cortex-a72",
        (0x41, 0xd09) => "cortex-a73",
        (0x41, 0xd0a) => "cortex-a75",
        (0x41, 0xd0b) => "cortex-a76",
        (0x41, 0xd0c) => "neoverse-n1",
        (0x41, 0xd0d) => "cortex-a77",
        (0x41, 0xd40) => "neoverse-v1",
        (0x41, 0xd41) => "cortex-a78",
        (0x41, 0xd44) => "cortex-x1",
        (0x41, 0xd49) => "neoverse-n2",
        (0x41, 0xd4f) => "neoverse-v2",
        (0x41, 0xd84) => "neoverse-v3",
        (0x41, 0xd8e) => "neoverse-n3",
        (0x46, 0x001) => "a64fx",
        (0x48, 0xd01) => "tsv110",
        (0xc0, 0xac3) => "ampere1",
        (0xc0, 0xac4) => "ampere1a",
        (0xc0, 0xac5) => "ampere1b",
        _ => "generic",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vendor: &str, family: u32, model: u32, parts: &[&[Feature]], expected: &str) {
        let id = X86Id { vendor: vendor.into(), family, model };
        assert_eq!(x86_name(&id, set(parts)), expected, "{id:?}");
    }

    #[test]
    fn one_model_number_three_servers() {
        check("GenuineIntel", 6, 0x55, &[V2, V3, V4], "skylake-avx512");
        check("GenuineIntel", 6, 0x55, &[V2, V3, V4, &[Avx512Vnni]], "cascadelake");
        check("GenuineIntel", 6, 0x55, &[V2, V3, V4, &[Avx512Vnni, Avx512Bf16]], "cooperlake");
    }

    #[test]
    fn a_name_is_not_given_without_the_features_it_promises() {
        check("GenuineIntel", 6, 0x8f, &[V2, V3, V4, ICE_LAKE, SAPPHIRE_RAPIDS], "sapphirerapids");
        check("GenuineIntel", 6, 0x8f, &[V2, V3, V4, ICE_LAKE], "x86-64-v4");
        check("GenuineIntel", 6, 0x8f, &[V2, V3], "x86-64-v3");
        check("GenuineIntel", 6, 0x55, &[V2, &[Avx]], "x86-64-v2");
        check("GenuineIntel", 6, 0x55, &[], "x86-64");
    }

    #[test]
    fn amd_families() {
        check("AuthenticAMD", 0x17, 0x01, &[V2, V3], "znver1");
        check("AuthenticAMD", 0x17, 0x31, &[V2, V3], "znver2");
        check("AuthenticAMD", 0x19, 0x01, &[V2, V3], "znver3");
        check("AuthenticAMD", 0x19, 0x11, &[V2, V3, V4, ICE_LAKE, &[Avx512Bf16]], "znver4");
        check("HygonGenuine", 0x18, 0x01, &[V2, V3], "x86-64-v3");
    }

    #[test]
    fn arm_parts() {
        assert_eq!(aarch64_name(0x41, 0xd40), "neoverse-v1");
        assert_eq!(aarch64_name(0x41, 0xfff), "generic");
    }
}
