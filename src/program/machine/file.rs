//! The JSON form of a target, for `--target FILE`. Errors name the wrong field; the output is meant to be edited.

use super::feature::{Feature, FeatureSet};
use super::{Arch, Cache, Target};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The only format version.
const VERSION: u64 = 1;
/// Maximum number of cores: a larger one is a mistake, and would make scratch buffers too large.
const MAX_CORES: u64 = 1 << 16;
/// Maximum bytes of a cache: a larger size is a mistake.
const MAX_CACHE: u64 = 1 << 40;

/// An invalid target file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target file `{}`: {kind}", path.display())]
pub struct TargetError {
    /// The file.
    pub path: PathBuf,
    /// The kind of error.
    pub kind: TargetErrorKind,
}

impl TargetError {
    /// A proposal for the user.
    pub fn help(&self) -> String {
        self.kind.help()
    }
}

/// The kind of error in a target file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetErrorKind {
    /// The file cannot be read.
    #[error("{0}")]
    Io(String),
    /// The file is not JSON.
    #[error("not JSON at line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Message of the JSON parser.
        message: String,
    },
    /// The file is a TVM target object, which has no caches and vectors.
    #[error("expected a machine description, found a TVM target (it has a `kind`)")]
    TvmTarget,
    /// A field is absent.
    #[error("field `{0}` is missing")]
    Missing(String),
    /// A field is unknown.
    #[error("unknown field `{0}`")]
    UnknownField(String),
    /// A field has the wrong type.
    #[error("field `{field}`: expected {expected}, found {found}")]
    Type {
        /// The field, with its path.
        field: String,
        /// The expected type.
        expected: &'static str,
        /// The type found.
        found: String,
    },
    /// A number is out of range.
    #[error("field `{field}`: expected {expected}, found {found}")]
    Range {
        /// The field, with its path.
        field: String,
        /// The valid range.
        expected: String,
        /// The number.
        found: u64,
    },
    /// The format is of a later version.
    #[error("expected format 1, found format {0}")]
    Version(u64),
    /// A feature is unknown for this architecture.
    #[error("unknown feature `{name}` for architecture `{arch}`")]
    UnknownFeature {
        /// The name.
        name: String,
        /// The architecture stated in the file.
        arch: Arch,
    },
}

impl TargetErrorKind {
    /// A proposal for the user.
    pub fn help(&self) -> String {
        match self {
            TargetErrorKind::Io(_) => "check the path, or use `--target native`".into(),
            TargetErrorKind::Syntax { .. } => "mend the JSON at that place".into(),
            TargetErrorKind::TvmTarget | TargetErrorKind::Missing(_) | TargetErrorKind::UnknownField(_) => {
                "the fields are `format`, `arch`, `cpu`, `mcpu`, `mtriple`, `features`, `cores`, `l1d`, `l2`, `l3`, \
                 `line_bytes`; docs/database.md has an example"
                    .into()
            }
            TargetErrorKind::Type { expected, .. } => format!("write {expected}"),
            TargetErrorKind::Range { expected, .. } => format!("write {expected}"),
            TargetErrorKind::Version(_) => "use the version of tvmr that wrote the file, or a later one".into(),
            TargetErrorKind::UnknownFeature { arch, .. } => {
                let known: Vec<&str> = Feature::ALL.iter().filter(|f| f.arch() == *arch).map(|f| f.name()).collect();
                format!("the features of `{arch}` are {}", known.join(", "))
            }
        }
    }
}

impl Target {
    /// Reads a target file.
    pub fn read(path: &Path) -> Result<Target, TargetError> {
        let fail = |kind| TargetError { path: path.to_owned(), kind };
        let text = std::fs::read_to_string(path).map_err(|e| fail(TargetErrorKind::Io(e.to_string())))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| {
            let message = e.to_string();
            // The reader appends the position, which has fields of its own.
            let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
            fail(TargetErrorKind::Syntax { line: e.line(), column: e.column(), message })
        })?;
        Target::from_json(&json).map_err(fail)
    }

    /// Reads a target from its JSON form.
    pub fn from_json(json: &Value) -> Result<Target, TargetErrorKind> {
        let top = Fields::of(json, "")?;
        if top.map.contains_key("kind") {
            return Err(TargetErrorKind::TvmTarget);
        }
        top.only(&["format", "arch", "cpu", "mcpu", "mtriple", "features", "cores", "l1d", "l2", "l3", "line_bytes"])?;
        let version = top.number("format", 0, u64::MAX)?;
        if version != VERSION {
            return Err(TargetErrorKind::Version(version));
        }
        let arch_name = top.text("arch")?;
        let arch = Arch::ALL.into_iter().find(|a| a.name() == arch_name).ok_or_else(|| TargetErrorKind::Type {
            field: "arch".into(),
            expected: "`x86_64` or `aarch64`",
            found: format!("`{arch_name}`"),
        })?;
        let line_bytes = top.number("line_bytes", 1, 4096)?;
        if !line_bytes.is_power_of_two() {
            let expected = "a power of two".into();
            return Err(TargetErrorKind::Range { field: "line_bytes".into(), expected, found: line_bytes });
        }
        Ok(Target {
            arch,
            cpu: top.text("cpu")?.into(),
            mcpu: top.text("mcpu")?.into(),
            mtriple: top.text("mtriple")?.into(),
            features: features(&top, arch)?,
            cores: top.number("cores", 1, MAX_CORES)? as u32,
            l1d: cache(&top, "l1d")?,
            l2: cache(&top, "l2")?,
            l3: match top.map.get("l3") {
                None | Some(Value::Null) => None,
                Some(_) => Some(cache(&top, "l3")?),
            },
            line_bytes: line_bytes as u32,
        })
    }

    /// The JSON form, in a fixed order of fields.
    pub fn to_json(&self) -> Value {
        let cache = |c: Cache| json!({"bytes": c.bytes, "shared_by": c.shared_by});
        json!({
            "format": VERSION,
            "arch": self.arch.name(),
            "cpu": self.cpu,
            "mcpu": self.mcpu,
            "mtriple": self.mtriple,
            "features": self.features.iter().map(Feature::name).collect::<Vec<_>>(),
            "cores": self.cores,
            "l1d": cache(self.l1d),
            "l2": cache(self.l2),
            "l3": self.l3.map(cache),
            "line_bytes": self.line_bytes,
        })
    }
}

fn features(top: &Fields, arch: Arch) -> Result<FeatureSet, TargetErrorKind> {
    let expected = "a list of texts";
    let list = top.get("features")?;
    let list = list.as_array().ok_or_else(|| top.type_error("features", expected, list))?;
    let mut set = FeatureSet::EMPTY;
    for item in list {
        let name = item.as_str().ok_or_else(|| top.type_error("features", expected, item))?;
        let known = Feature::from_name(name).filter(|f| f.arch() == arch);
        set.insert(known.ok_or_else(|| TargetErrorKind::UnknownFeature { name: name.into(), arch })?);
    }
    Ok(set)
}

fn cache(top: &Fields, key: &str) -> Result<Cache, TargetErrorKind> {
    let fields = Fields::of(top.get(key)?, key)?;
    fields.only(&["bytes", "shared_by"])?;
    let bytes = fields.number("bytes", 1 << 10, MAX_CACHE)?;
    Ok(Cache { bytes, shared_by: fields.number("shared_by", 1, MAX_CORES)? as u32 })
}

/// The fields of one object, with the path to it for messages.
struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Fields<'a> {
    fn of(json: &'a Value, path: &'a str) -> Result<Self, TargetErrorKind> {
        match json.as_object() {
            Some(map) => Ok(Fields { map, path }),
            None => Err(TargetErrorKind::Type {
                field: if path.is_empty() { "(the whole file)".into() } else { path.into() },
                expected: "an object",
                found: type_name(json),
            }),
        }
    }

    fn field(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }

    fn only(&self, known: &[&str]) -> Result<(), TargetErrorKind> {
        match self.map.keys().find(|k| !known.contains(&k.as_str())) {
            Some(k) => Err(TargetErrorKind::UnknownField(self.field(k))),
            None => Ok(()),
        }
    }

    fn type_error(&self, key: &str, expected: &'static str, found: &Value) -> TargetErrorKind {
        TargetErrorKind::Type { field: self.field(key), expected, found: type_name(found) }
    }

    fn get(&self, key: &str) -> Result<&'a Value, TargetErrorKind> {
        self.map.get(key).ok_or_else(|| TargetErrorKind::Missing(self.field(key)))
    }

    fn text(&self, key: &str) -> Result<&'a str, TargetErrorKind> {
        let value = self.get(key)?;
        match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.type_error(key, "a text that is not empty", value)),
        }
    }

    fn number(&self, key: &str, min: u64, max: u64) -> Result<u64, TargetErrorKind> {
        let value = self.get(key)?;
        let n = value.as_u64().ok_or_else(|| self.type_error(key, "a whole number", value))?;
        if (min..=max).contains(&n) {
            return Ok(n);
        }
        Err(TargetErrorKind::Range { field: self.field(key), expected: format!("{min} to {max}"), found: n })
    }
}

fn type_name(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(n) => format!("`{n}`"),
        Value::String(s) if s.is_empty() => "an empty text".into(),
        Value::String(s) => format!("`{s}`"),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cascade_lake;
    use super::*;

    #[test]
    fn written_form_reads_back() {
        let mut target = cascade_lake();
        assert_eq!(Target::from_json(&target.to_json()), Ok(target.clone()));
        target.l3 = None;
        assert_eq!(Target::from_json(&target.to_json()), Ok(target));
    }

    /// The message after one change to a good file.
    fn check(change: impl FnOnce(&mut Map<String, Value>), expected: &str) {
        let mut json = cascade_lake().to_json();
        change(json.as_object_mut().unwrap());
        let error = Target::from_json(&json).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.help().is_empty());
    }

    #[test]
    fn every_mistake_is_named() {
        let put = |key: &'static str, value: Value| {
            move |m: &mut Map<String, Value>| {
                m.insert(key.into(), value);
            }
        };
        check(|m| drop(m.remove("mcpu")), "field `mcpu` is missing");
        check(put("colour", json!(1)), "unknown field `colour`");
        check(put("format", json!(2)), "expected format 1, found format 2");
        check(put("arch", json!("riscv64")), "field `arch`: expected `x86_64` or `aarch64`, found `riscv64`");
        check(put("features", json!(["avx2", "avx1024"])), "unknown feature `avx1024` for architecture `x86_64`");
        check(put("features", json!(["neon"])), "unknown feature `neon` for architecture `x86_64`");
        check(put("features", json!("avx2")), "field `features`: expected a list of texts, found `avx2`");
        check(put("cores", json!(0)), "field `cores`: expected 1 to 65536, found 0");
        check(put("cores", json!(1.5)), "field `cores`: expected a whole number, found `1.5`");
        check(put("line_bytes", json!(48)), "field `line_bytes`: expected a power of two, found 48");
        check(
            put("l2", json!({"bytes": 4, "shared_by": 1})),
            "field `l2.bytes`: expected 1024 to 1099511627776, found 4",
        );
        check(put("l2", json!({"bytes": 4096})), "field `l2.shared_by` is missing");
        check(put("l2", json!(7)), "field `l2`: expected an object, found `7`");
        check(put("cpu", json!("")), "field `cpu`: expected a text that is not empty, found an empty text");
        check(put("kind", json!("llvm")), "expected a machine description, found a TVM target (it has a `kind`)");
    }

    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine.json");
        let missing = Target::read(&path).unwrap_err();
        assert!(matches!(missing.kind, TargetErrorKind::Io(_)), "{missing}");
        std::fs::write(&path, "{\"format\": 1,\n  oops}").unwrap();
        let syntax = Target::read(&path).unwrap_err();
        assert!(matches!(syntax.kind, TargetErrorKind::Syntax { line: 2, .. }), "{syntax}");
        std::fs::write(&path, cascade_lake().to_json().to_string()).unwrap();
        assert_eq!(Target::read(&path), Ok(cascade_lake()));
    }
}
