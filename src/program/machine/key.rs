//! Comparison of CPUs: decides whether two records come from equal CPUs.

use super::Arch;
use serde_json::Value;

/// The part of a target that decides whether its measurements count on another machine: architecture, `mcpu` and the
/// set of features. The rest of the triple (operating system, C library) does not affect a kernel's speed, and the
/// number of threads is compared separately ([`threads_of`]).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CpuKey {
    arch: String,
    mcpu: String,
    mattr: Vec<String>,
}

/// The JSON value is not a CPU target in TVM's form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotACpuTarget {
    /// The value is not a JSON object, or has no text `kind`.
    #[error("expected a target object with a `kind`")]
    NoKind,
    /// The target has another kind, such as `cuda`.
    #[error("expected a target of kind `llvm`, found `{0}`")]
    Kind(String),
}

impl CpuKey {
    pub(super) fn new(arch: &str, mcpu: &str, mut mattr: Vec<String>) -> CpuKey {
        // LLVM reads the list from left to right; a feature without a sign has an implied plus.
        for a in &mut mattr {
            if !a.starts_with(['+', '-']) {
                a.insert(0, '+');
            }
        }
        mattr.sort_unstable();
        mattr.dedup();
        CpuKey { arch: arch.into(), mcpu: mcpu.into(), mattr }
    }

    /// The key of a target in TVM's JSON form. An absent `mcpu` or `mattr` is empty, and differs from those of all
    /// detected machines; an absent triple means x86-64, TVM's default on such hosts.
    pub fn of_json(target: &Value) -> Result<CpuKey, NotACpuTarget> {
        let text = |key: &str| target.get(key).and_then(Value::as_str);
        match text("kind") {
            None => return Err(NotACpuTarget::NoKind),
            Some("llvm") => {}
            Some(other) => return Err(NotACpuTarget::Kind(other.into())),
        }
        let arch = match text("mtriple").and_then(|t| t.split('-').next()) {
            None | Some("x86_64" | "amd64") => Arch::X86_64.name(),
            Some("aarch64" | "arm64") => Arch::Aarch64.name(),
            Some(other) => other,
        };
        let mattr = target.get("mattr").and_then(Value::as_array);
        let mattr = mattr.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(CpuKey::new(arch, text("mcpu").unwrap_or(""), mattr))
    }

    /// LLVM's name of the CPU.
    pub fn mcpu(&self) -> &str {
        &self.mcpu
    }
}

/// The number of threads of a target in TVM's JSON form (`num-cores`); 1 if it is absent.
pub fn threads_of(target: &Value) -> u32 {
    target.get("num-cores").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::cascade_lake;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_target_equals_what_it_wrote() {
        let t = cascade_lake();
        for threads in [1, 2] {
            let json = t.tvm_json(threads);
            assert_eq!(CpuKey::of_json(&json), Ok(t.cpu_key()));
            assert_eq!(threads_of(&json), threads);
        }
    }

    #[test]
    fn order_and_signs_of_features_do_not_count_but_the_set_does() {
        let key = |mattr: Value| CpuKey::of_json(&json!({"kind": "llvm", "mcpu": "x", "mattr": mattr})).unwrap();
        assert_eq!(key(json!(["+avx2", "+fma"])), key(json!(["fma", "+avx2", "+fma"])));
        assert_ne!(key(json!(["+avx2", "+fma"])), key(json!(["+avx2"])));
        assert_ne!(key(json!(["+avx2"])), key(json!(["-avx2"])));
    }

    #[test]
    fn only_the_architecture_of_the_triple_counts() {
        let key = |t: &str| CpuKey::of_json(&json!({"kind": "llvm", "mcpu": "x", "mtriple": t})).unwrap();
        assert_eq!(key("x86_64-unknown-linux-gnu"), key("x86_64-unknown-linux-musl"));
        assert_eq!(key("arm64-apple-darwin"), key("aarch64-unknown-linux-gnu"));
        assert_ne!(key("x86_64-unknown-linux-gnu"), key("aarch64-unknown-linux-gnu"));
    }

    #[test]
    fn other_kinds_are_named() {
        assert_eq!(CpuKey::of_json(&json!({"kind": "cuda"})), Err(NotACpuTarget::Kind("cuda".into())));
        assert_eq!(CpuKey::of_json(&json!("llvm")), Err(NotACpuTarget::NoKind));
    }
}
