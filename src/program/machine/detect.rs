//! Detection of the current machine: `cpuid` and the standard library's feature tests, then `/proc` and `/sys`.

use super::feature::{Feature, FeatureSet};
use super::{Arch, Cache, Target, mcpu};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The current machine, and the assumptions made about it.
#[derive(Clone, Debug)]
pub struct Detected {
    /// The description.
    pub target: Target,
    /// One sentence for each fact that was assumed because the system did not report it.
    pub notes: Vec<String>,
}

impl Target {
    /// The machine this process runs on. Never fails; see [`Detected::notes`].
    pub fn native() -> Detected {
        let mut notes = Vec::new();
        let arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let features = host_features(&cpuinfo);
        let (cpu, mcpu) = match arch {
            Arch::X86_64 => x86_names(cpuid, features),
            Arch::Aarch64 => aarch64_names(&cpuinfo),
        };
        let cores = match std::thread::available_parallelism() {
            Ok(n) => u32::try_from(n.get()).unwrap_or(u32::MAX),
            Err(e) => {
                notes.push(format!("the number of cores is unknown ({e}); 1 is assumed"));
                1
            }
        };
        let caches = Caches::from_sysfs(Path::new("/sys/devices/system/cpu/cpu0/cache"))
            .or_else(|| Caches::from_cpuid(cpuid))
            .unwrap_or_else(|| {
                notes.push("the cache sizes are unknown; 32 KiB, 512 KiB and 8 MiB are assumed".into());
                Caches::ASSUMED
            });
        let Caches { l1d, l2, l3, line_bytes } = caches;
        let mtriple = triple(arch);
        Detected { target: Target { arch, cpu, mcpu, mtriple, features, cores, l1d, l2, l3, line_bytes }, notes }
    }
}

/// LLVM's triple of the system for which tvmr was compiled.
fn triple(arch: Arch) -> String {
    let rest = if cfg!(target_os = "macos") {
        "apple-darwin"
    } else if cfg!(target_os = "windows") {
        "pc-windows-msvc"
    } else if cfg!(target_env = "musl") {
        "unknown-linux-musl"
    } else {
        "unknown-linux-gnu"
    };
    format!("{arch}-{rest}")
}

#[cfg(target_arch = "x86_64")]
fn host_features(cpuinfo: &str) -> FeatureSet {
    let mut set = FeatureSet::EMPTY;
    macro_rules! test {
        ($($variant:ident $name:tt),* $(,)?) => {
            $(if std::is_x86_feature_detected!($name) { set.insert(Feature::$variant); })*
        };
    }
    // These tests also check that the operating system saves the registers.
    test!(
        Sse3 "sse3", Ssse3 "ssse3", Sse41 "sse4.1", Sse42 "sse4.2", Popcnt "popcnt", Lzcnt "lzcnt", Bmi "bmi1",
        Bmi2 "bmi2", Avx "avx", F16c "f16c", Fma "fma", Avx2 "avx2", AvxVnni "avxvnni", AvxVnniInt8 "avxvnniint8",
        AvxNeConvert "avxneconvert", Avx512f "avx512f", Avx512cd "avx512cd", Avx512bw "avx512bw",
        Avx512dq "avx512dq", Avx512vl "avx512vl", Avx512Ifma "avx512ifma", Avx512Vbmi "avx512vbmi",
        Avx512Vbmi2 "avx512vbmi2", Avx512Vnni "avx512vnni", Avx512Bitalg "avx512bitalg",
        Avx512Vpopcntdq "avx512vpopcntdq", Avx512Bf16 "avx512bf16", Avx512Fp16 "avx512fp16",
    );
    // The standard library has no stable test for AMX. The kernel lists it only if it saves the tiles.
    let flags = field(cpuinfo, "flags").unwrap_or("");
    for (flag, feature) in
        [("amx_tile", Feature::AmxTile), ("amx_int8", Feature::AmxInt8), ("amx_bf16", Feature::AmxBf16)]
    {
        if flags.split_whitespace().any(|f| f == flag) {
            set.insert(feature);
        }
    }
    set
}

#[cfg(target_arch = "aarch64")]
fn host_features(_cpuinfo: &str) -> FeatureSet {
    let mut set = FeatureSet::EMPTY;
    macro_rules! test {
        ($($variant:ident $name:tt),* $(,)?) => {
            $(if std::arch::is_aarch64_feature_detected!($name) { set.insert(Feature::$variant); })*
        };
    }
    test!(
        Neon "neon", Lse "lse", FullFp16 "fp16", Dotprod "dotprod", Bf16 "bf16", I8mm "i8mm", Sve "sve", Sve2 "sve2",
    );
    set
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn host_features(_cpuinfo: &str) -> FeatureSet {
    FeatureSet::EMPTY
}

/// The registers eax, ebx, ecx and edx that `cpuid` returns for a leaf and a subleaf; all zero on architectures without
/// this instruction, so that callers need not distinguish them.
#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let r = std::arch::x86_64::__cpuid_count(leaf, subleaf);
    [r.eax, r.ebx, r.ecx, r.edx]
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid(_leaf: u32, _subleaf: u32) -> [u32; 4] {
    [0; 4]
}

/// The characters in registers.
fn text(words: &[u32]) -> String {
    let raw: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&raw).trim().to_owned()
}

/// Vendor, family and model of an x86-64 CPU.
fn x86_id(cpuid: fn(u32, u32) -> [u32; 4]) -> mcpu::X86Id {
    let [_, ebx, ecx, edx] = cpuid(0, 0);
    let (family, model) = family_model(cpuid(1, 0)[0]);
    mcpu::X86Id { vendor: text(&[ebx, edx, ecx]), family, model }
}

/// Whether the current CPU shuffles whole registers of 512 bits on several ports, so that a transposed square takes less time by
/// loads of whole rows and twice as many shuffles than by loads of their chunks.
///
/// Measured on AMD family 26 (Zen 5), per cycle: two loads, four `vunpcklps` and two `vshuff32x4`. Cores of Intel have one port
/// for them, and family 25 (Zen 4) takes two cycles for each.
pub fn shuffles_are_cheap() -> bool {
    is_zen5()
}

/// Whether the current CPU is of AMD's family 26 or a later one.
fn is_zen5() -> bool {
    static IS_ZEN5: OnceLock<bool> = OnceLock::new();
    *IS_ZEN5.get_or_init(|| {
        let id = x86_id(cpuid);
        id.vendor == "AuthenticAMD" && id.family >= 26
    })
}

/// Whether software prefetching of long sequential streams pays on the current CPU.
///
/// Measured for sums over data in L3: on AMD family 26 (Zen 5) they are faster with it, on family 25 (Zen 4) they take
/// a quarter longer. Later families are assumed to be like family 26; on all others the hardware prefetcher suffices.
pub fn prefetching_pays() -> bool {
    is_zen5()
}

/// The CPU's own name and LLVM's name of an x86-64 CPU.
fn x86_names(cpuid: fn(u32, u32) -> [u32; 4], features: FeatureSet) -> (String, String) {
    let id = x86_id(cpuid);
    let brand = match cpuid(0x8000_0000, 0)[0] {
        0x8000_0004.. => text(&[0x8000_0002, 0x8000_0003, 0x8000_0004].map(|leaf| cpuid(leaf, 0)).concat()),
        _ => String::new(),
    };
    let name = mcpu::x86_name(&id, features);
    let mcpu::X86Id { vendor, family, model } = id;
    let brand = if brand.is_empty() { format!("{vendor} family {family} model {model}") } else { brand };
    (brand, name.into())
}

/// The CPU's own name and LLVM's name of an aarch64 CPU.
fn aarch64_names(cpuinfo: &str) -> (String, String) {
    if cfg!(target_os = "macos") {
        // The oldest of its family: all later ones have its features.
        return ("Apple".into(), "apple-m1".into());
    }
    let number = |key| field(cpuinfo, key).and_then(hex).unwrap_or(0);
    let name = mcpu::aarch64_name(number("CPU implementer"), number("CPU part"));
    (field(cpuinfo, "model name").unwrap_or(name).to_owned(), name.into())
}

/// Family and model from `eax` of `cpuid` leaf 1, their extensions added.
fn family_model(eax: u32) -> (u32, u32) {
    let (base_family, base_model) = (eax >> 8 & 0xf, eax >> 4 & 0xf);
    let family = if base_family == 0xf { base_family + (eax >> 20 & 0xff) } else { base_family };
    let model = if matches!(base_family, 6 | 0xf) { base_model | (eax >> 16 & 0xf) << 4 } else { base_model };
    (family, model)
}

/// The value of the first line `key : value` of `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Sizes of the caches of one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Caches {
    l1d: Cache,
    l2: Cache,
    l3: Option<Cache>,
    line_bytes: u32,
}

impl Caches {
    /// Sizes that few CPUs of the last ten years fall below.
    const ASSUMED: Caches = Caches {
        l1d: Cache { bytes: 32 << 10, shared_by: 1 },
        l2: Cache { bytes: 512 << 10, shared_by: 1 },
        l3: Some(Cache { bytes: 8 << 20, shared_by: 1 }),
        line_bytes: 64,
    };

    /// Reads a directory such as `/sys/devices/system/cpu/cpu0/cache`; `None` if it describes fewer than two levels.
    fn from_sysfs(dir: &Path) -> Option<Caches> {
        let levels = (0..16).map_while(|i| {
            let dir = dir.join(format!("index{i}"));
            let read = |name: &str| fs::read_to_string(dir.join(name)).ok().map(|s| s.trim().to_owned());
            let level = read("level")?.parse().ok()?;
            let holds_data = read("type").is_none_or(|t| t != "Instruction");
            let shared_by = read("shared_cpu_list").and_then(|l| cpu_list_len(&l)).unwrap_or(1);
            let line = read("coherency_line_size").and_then(|t| t.parse().ok()).unwrap_or(0);
            let bytes = read("size").and_then(|t| size(&t)).unwrap_or(0);
            Some(Level { level, holds_data, bytes, shared_by, line })
        });
        Caches::from_levels(levels)
    }

    /// Reads `cpuid`'s list of caches (leaf 4 of Intel, 0x8000001d of AMD), for systems without `/sys`.
    fn from_cpuid(cpuid: fn(u32, u32) -> [u32; 4]) -> Option<Caches> {
        let amd = cpuid(0x8000_0000, 0)[0] >= 0x8000_001d && cpuid(0x8000_0001, 0)[2] >> 22 & 1 == 1;
        let leaf = match amd {
            true => 0x8000_001d,
            false if cpuid(0, 0)[0] >= 4 => 4,
            false => return None,
        };
        Caches::from_levels((0..16).map(|i| cpuid(leaf, i)).map_while(|[eax, ebx, ecx, _]| {
            let kind = eax & 0x1f;
            let line = (ebx & 0xfff) + 1;
            let (partitions, ways) = ((ebx >> 12 & 0x3ff) + 1, (ebx >> 22) + 1);
            let bytes = u64::from(line) * u64::from(partitions) * u64::from(ways) * (u64::from(ecx) + 1);
            let shared_by = (eax >> 14 & 0xfff) + 1;
            (kind != 0).then_some(Level { level: eax >> 5 & 7, holds_data: kind != 2, bytes, shared_by, line })
        }))
    }

    fn from_levels(levels: impl Iterator<Item = Level>) -> Option<Caches> {
        let levels: Vec<Level> = levels.filter(|l| l.holds_data && l.bytes > 0).collect();
        let find = |n: u32| levels.iter().find(|l| l.level == n);
        let cache = |l: &Level| Cache { bytes: l.bytes, shared_by: l.shared_by.max(1) };
        let (l1d, l2) = (find(1)?, find(2)?);
        let line_bytes = if l1d.line.is_power_of_two() { l1d.line } else { 64 };
        Some(Caches { l1d: cache(l1d), l2: cache(l2), l3: find(3).map(cache), line_bytes })
    }
}

struct Level {
    level: u32,
    holds_data: bool,
    bytes: u64,
    shared_by: u32,
    line: u32,
}

/// The number of CPUs in a list such as `0-3,8`.
fn cpu_list_len(list: &str) -> Option<u32> {
    let mut n: u32 = 0;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        n = n.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(n)
}

/// A size such as `36608K`, in bytes.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_at_hand_is_described_consistently() {
        let Detected { target, .. } = Target::native();
        assert!(target.cores >= 1 && target.line_bytes.is_power_of_two());
        assert!(target.l1d.bytes > 0 && target.l2.bytes >= target.l1d.bytes);
        assert!(!target.cpu.is_empty() && !target.mcpu.is_empty());
        assert_eq!(Target::from_json(&target.to_json()), Ok(target));
    }

    #[test]
    fn family_and_model() {
        assert_eq!(family_model(0x0005_0657), (6, 0x55));
        assert_eq!(family_model(0x00a2_0f10), (0x19, 0x21));
    }

    /// A Cascade Lake server without `/sys` (leaf 4), and without its brand string.
    fn recorded(leaf: u32, subleaf: u32) -> [u32; 4] {
        match (leaf, subleaf) {
            (0, _) => [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
            (1, _) => [0x0005_0657, 0, 0, 0],
            (4, 0) => [0x0400_0121, 0x01c0_003f, 0x3f, 0],
            (4, 1) => [0x0400_0122, 0x01c0_003f, 0x3f, 0],
            (4, 2) => [0x0400_0143, 0x03c0_003f, 0x3ff, 0],
            (4, 3) => [0x0400_4163, 0x0280_003f, 0xcfff, 0],
            _ => [0; 4],
        }
    }

    #[test]
    fn from_cpuid_alone() {
        let (cpu, mcpu) = x86_names(recorded, FeatureSet::EMPTY);
        assert_eq!((cpu.as_str(), mcpu.as_str()), ("GenuineIntel family 6 model 85", "x86-64"));
        let caches = Caches::from_cpuid(recorded).unwrap();
        assert_eq!(caches.l1d, Cache { bytes: 32 << 10, shared_by: 1 });
        assert_eq!(caches.l2, Cache { bytes: 1 << 20, shared_by: 1 });
        assert_eq!(caches.l3, Some(Cache { bytes: 36608 << 10, shared_by: 2 }));
        assert_eq!(Caches::from_cpuid(|_, _| [0; 4]), None);
    }

    #[test]
    fn arm_from_cpuinfo() {
        let text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n";
        if !cfg!(target_os = "macos") {
            assert_eq!(aarch64_names(text), ("neoverse-n1".into(), "neoverse-n1".into()));
        }
        assert_eq!(field(text, "flags"), None);
    }

    #[test]
    fn lists_and_sizes() {
        assert_eq!(cpu_list_len("0-3,8"), Some(5));
        assert_eq!(cpu_list_len("0"), Some(1));
        assert_eq!(cpu_list_len("3-0"), None);
        assert_eq!(cpu_list_len(""), None);
        assert_eq!(size("36608K"), Some(36608 << 10));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("x"), None);
        assert_eq!(hex("0x41"), Some(0x41));
    }

    #[test]
    fn caches_from_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let index = |i: u32, level: &str, kind: &str, size: &str, shared: &str| {
            let d = dir.path().join(format!("index{i}"));
            fs::create_dir(&d).unwrap();
            for (name, text) in [
                ("level", level),
                ("type", kind),
                ("size", size),
                ("shared_cpu_list", shared),
                ("coherency_line_size", "64"),
            ] {
                fs::write(d.join(name), format!("{text}\n")).unwrap();
            }
        };
        index(0, "1", "Data", "48K", "0,32");
        assert_eq!(Caches::from_sysfs(dir.path()), None);
        index(1, "1", "Instruction", "32K", "0,32");
        index(2, "2", "Unified", "2048K", "0,32");
        index(3, "3", "Unified", "60M", "0-63");
        assert_eq!(
            Caches::from_sysfs(dir.path()),
            Some(Caches {
                l1d: Cache { bytes: 48 << 10, shared_by: 2 },
                l2: Cache { bytes: 2 << 20, shared_by: 2 },
                l3: Some(Cache { bytes: 60 << 20, shared_by: 64 }),
                line_bytes: 64,
            })
        );
    }
}
