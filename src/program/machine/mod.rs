//! The target machine: instruction set, vector registers, caches, cores.
//!
//! A [`Target`] is either detected ([`Target::native`]) or read from a file ([`Target::read`]; docs/database.md
//! describes the form). It is a plain value: spaces, features and code generation read it and never query the machine,
//! so that a file reproduces another machine's candidates. Tuning records contain TVM's target object
//! ([`Target::tvm_json`]); its [`CpuKey`] decides whether two records come from equal CPUs.
//!
//! This module reads neither the clock nor the environment. Detection cannot fail: facts that the system does not
//! report are assumed and noted in [`Detected::notes`].

mod core;
mod detect;
mod feature;
mod file;
mod isa;
mod key;
mod mcpu;
pub mod register_tile;

pub use core::{Core, VectorUnit};
pub use detect::{Detected, prefetching_pays, shuffles_are_cheap};
pub use feature::{Feature, FeatureSet};
pub use file::{TargetError, TargetErrorKind};
pub use isa::{Isa, UnknownIsa};
pub use key::{CpuKey, NotACpuTarget, threads_of};

use std::fmt;

/// Architecture of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the architecture it names")]
pub enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// The architecture of this process; x86-64 for unlisted ones.
    pub const HERE: Arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };

    /// Both architectures.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The name that begins an LLVM triple.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One level of cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cache {
    /// Size of one instance, in bytes.
    pub bytes: u64,
    /// Number of cores (hardware threads) that share an instance.
    pub shared_by: u32,
}

impl Cache {
    /// Bytes available to one core when all sharing cores work.
    pub fn bytes_per_core(self) -> u64 {
        self.bytes / u64::from(self.shared_by.max(1))
    }
}

/// Description of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Architecture.
    pub arch: Arch,
    /// The CPU's own name, for people.
    pub cpu: String,
    /// LLVM's name of the CPU, such as `cascadelake`.
    pub mcpu: String,
    /// LLVM's triple, such as `x86_64-unknown-linux-gnu`.
    pub mtriple: String,
    /// Instruction-set features, all of this architecture.
    pub features: FeatureSet,
    /// Number of cores (hardware threads) that this process may use; at least 1.
    pub cores: u32,
    /// First-level data cache.
    pub l1d: Cache,
    /// Second-level cache.
    pub l2: Cache,
    /// Last-level cache, if there is a third level.
    pub l3: Option<Cache>,
    /// Length of a cache line in bytes, a power of two.
    pub line_bytes: u32,
}

impl Target {
    /// The fastest supported instruction set of the machine.
    pub fn best_isa(&self) -> Isa {
        Isa::ALL.into_iter().rfind(|isa| isa.is_available(self)).unwrap_or(Isa::Portable)
    }

    /// TVM's `mattr`: every feature with a plus sign, sorted by name.
    pub fn mattr(&self) -> Vec<String> {
        let mut all: Vec<String> = self.features.iter().map(|f| format!("+{}", f.name())).collect();
        all.sort_unstable();
        all
    }

    /// The target as TVM's JSON object, with TVM's keys only. `threads` is the number of threads of a kernel; TVM's
    /// `num-cores` has this meaning for tuned programs.
    pub fn tvm_json(&self, threads: u32) -> serde_json::Value {
        // TVM derives the same keys if they are absent; other readers may not.
        let keys: &[&str] = match self.arch {
            Arch::X86_64 => &["cpu"],
            Arch::Aarch64 => &["arm_cpu", "cpu"],
        };
        serde_json::json!({
            "kind": "llvm",
            "keys": keys,
            "mcpu": self.mcpu,
            "mattr": self.mattr(),
            "mtriple": self.mtriple,
            "num-cores": threads,
        })
    }

    /// The key that must be equal for measurements of another machine to count on this one.
    pub fn cpu_key(&self) -> CpuKey {
        CpuKey::new(self.arch.name(), &self.mcpu, self.mattr())
    }
}

/// The description of a two-core Cascade Lake server: a machine that is known on every other, for tests and examples.
pub fn cascade_lake() -> Target {
    use Feature::*;
    Target {
        arch: Arch::X86_64,
        cpu: "Intel(R) Xeon(R) Processor @ 2.50GHz".into(),
        mcpu: "cascadelake".into(),
        mtriple: "x86_64-unknown-linux-gnu".into(),
        features: [Avx, Avx2, Fma, Avx512f, Avx512cd, Avx512bw, Avx512dq, Avx512vl, Avx512Vnni].into(),
        cores: 2,
        l1d: Cache { bytes: 32 << 10, shared_by: 1 },
        l2: Cache { bytes: 1 << 20, shared_by: 1 },
        l3: Some(Cache { bytes: 36608 << 10, shared_by: 2 }),
        line_bytes: 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_vectors_are_the_default() {
        let mut t = cascade_lake();
        let widest = |t: &Target| {
            let isa = t.best_isa();
            (isa, isa.vector_bits(), isa.vector_registers(t.arch))
        };
        assert_eq!(widest(&t), (Isa::Avx512, 512, 32));
        t.features.remove(Feature::Avx512vl);
        assert_eq!(widest(&t), (Isa::Avx2, 256, 16));
        t.features.remove(Feature::Fma);
        assert_eq!(widest(&t), (Isa::Portable, 128, 16));
    }

    #[test]
    fn tvm_object_has_tvm_keys_only() {
        let json = cascade_lake().tvm_json(1);
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["kind", "keys", "mcpu", "mattr", "mtriple", "num-cores"]);
        assert_eq!(json["mattr"][1], "+avx2");
        assert_eq!(json["num-cores"], 1);
    }
}
