//! The output of `tvmr run`.

use crate::arrays::{Array, Element, Output};
use crate::measure::Summary;
use crate::run::{Comparison, Parameter};
use crate::tune::backend::Seconds;
use crate::workload::Setting;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Elements of an array that are shown.
const SHOWN: usize = 6;

/// An output that was compared.
pub(super) struct Checked {
    pub param: usize,
    /// The file that it was compared with.
    pub path: PathBuf,
    pub comparison: Comparison,
}

/// A run and its results.
pub(super) struct Report<'a> {
    pub workload: &'a str,
    pub func: &'a str,
    pub params: &'a [Parameter],
    pub setting: &'a Setting,
    /// The file of each parameter's value.
    pub from: Vec<Option<PathBuf>>,
    pub outputs: &'a [(usize, Array)],
    pub written: &'a [Output<'a>],
    pub checked: &'a [Checked],
    /// Seconds of single calls.
    pub times: Option<Summary>,
}

impl Report<'_> {
    /// For people: outputs that are not written to a file, comparisons, the time.
    pub(super) fn human(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for (i, array) in self.outputs {
            let name = &self.params[*i].name;
            let _ = match self.file_of(*i) {
                Some(path) => writeln!(text, "{name}: written to {}", path.display()),
                None => writeln!(text, "{name}: {} {:?}{}", array.dtype(), array.shape(), Content::of(array).human()),
            };
        }
        for checked in self.checked {
            let _ = writeln!(text, "{}", self.comparison(checked));
            for d in &checked.comparison.first {
                let _ = writeln!(text, "  {:?}: expected {}, got {}", d.index, d.expected, d.found);
            }
        }
        if let Some(times) = &self.times {
            let s = if times.n == 1 { "" } else { "s" };
            let (median, min) = (Seconds(times.median), Seconds(times.min));
            let _ = writeln!(text, "{}: median {median} of {} call{s} (at least {min})", self.func, times.n);
        }
        text
    }

    /// One line for each output that differs.
    pub(super) fn differences(&self) -> String {
        let different = self.checked.iter().filter(|c| !c.comparison.is_equal());
        let one = |c: &Checked| {
            let Comparison { total, different, .. } = c.comparison;
            let (name, path) = (&self.params[c.param].name, c.path.display());
            format!("`{name}` differs from `{path}` in {different} of {total} elements")
        };
        different.map(one).collect::<Vec<_>>().join("; ")
    }

    fn comparison(&self, checked: &Checked) -> String {
        let Checked { param, path, comparison: c } = checked;
        let (name, path) = (&self.params[*param].name, path.display());
        let s = if c.total == 1 { "" } else { "s" };
        let found = match c.different {
            0 => format!("{name}: equal to {path}, {} element{s}", c.total),
            n => format!("{name}: differs from {path} in {n} of {} element{s}", c.total),
        };
        let t = c.tolerance;
        let within = if t.absolute == 0.0 && t.relative == 0.0 {
            "exactly".to_owned()
        } else {
            format!("rtol {:.2e}, atol {:.2e}", t.relative, t.absolute)
        };
        format!("{found} ({within}); largest difference {:.3e}, relative {:.3e}", c.max_abs, c.max_rel)
    }

    /// The document of `--format json`. Field names are interface (docs/tuning.md).
    pub(super) fn json(&self) -> Json {
        let params = self.params;
        let inputs = params.iter().zip(&self.from).filter(|(p, _)| p.role.is_read()).map(|(p, from)| {
            let file = from.as_ref().map(|path| path.to_string_lossy());
            json!({"name": p.name, "dtype": p.dtype.name(), "shape": p.shape, "file": file})
        });
        let outputs = self.outputs.iter().map(|(i, array)| {
            let file = self.file_of(*i).map(|path| path.to_string_lossy());
            let content = Content::of(array);
            json!({
                "name": params[*i].name, "dtype": array.dtype().name(), "shape": array.shape(), "file": file,
                "min": content.min.map(number), "max": content.max.map(number), "mean": content.mean.map(float),
                "nan": content.nan, "first": content.first.into_iter().map(number).collect::<Vec<_>>(),
            })
        });
        let expected = self.checked.iter().map(|checked| {
            let c = &checked.comparison;
            let first = c
                .first
                .iter()
                .map(|d| json!({"index": d.index, "expected": number(d.expected), "found": number(d.found)}));
            json!({
                "name": params[checked.param].name, "file": checked.path.to_string_lossy(), "equal": c.is_equal(),
                "different": c.different, "total": c.total, "rtol": c.tolerance.relative,
                "atol": c.tolerance.absolute, "max_abs": c.max_abs, "max_rel": c.max_rel,
                "first": first.collect::<Vec<_>>(),
            })
        });
        json!({
            "workload": self.workload, "func": self.func,
            "inputs": inputs.collect::<Vec<_>>(), "outputs": outputs.collect::<Vec<_>>(),
            "expected": expected.collect::<Vec<_>>(),
            "calls": self.times.map_or(1, |t| t.n),
            "us": self.times.map(|t| t.median * 1e6), "min_us": self.times.map(|t| t.min * 1e6),
            "isa": self.setting.isa.name(), "threads": self.setting.threads,
        })
    }

    /// The file that an output was written to.
    fn file_of(&self, param: usize) -> Option<&PathBuf> {
        let name = self.params[param].name.as_str();
        let holds = |output: &&Output<'_>| output.arrays.iter().any(|(n, _)| *n == name);
        self.written.iter().find(holds).map(|output| &output.path)
    }
}

/// A summary of an array.
struct Content {
    min: Option<Element>,
    max: Option<Element>,
    /// The mean of elements that are not NaN.
    mean: Option<f64>,
    nan: usize,
    first: Vec<Element>,
    /// Whether there are more elements than the first ones.
    is_longer: bool,
}

impl Content {
    fn of(array: &Array) -> Content {
        let (mut min, mut max, mut sum, mut nan) = (None::<Element>, None::<Element>, 0.0, 0);
        for element in (0..array.len()).map(|i| array.element(i)) {
            if element.is_nan() {
                nan += 1;
                continue;
            }
            sum += element.as_f64();
            min = Some(min.filter(|&m| !is_less(element, m)).unwrap_or(element));
            max = Some(max.filter(|&m| !is_less(m, element)).unwrap_or(element));
        }
        let n = array.len() - nan;
        Content {
            min,
            max,
            mean: (n > 0).then(|| sum / n as f64),
            nan,
            first: (0..array.len().min(SHOWN)).map(|i| array.element(i)).collect(),
            is_longer: array.len() > SHOWN,
        }
    }

    fn human(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        if let (Some(min), Some(max), Some(mean)) = (self.min, self.max, self.mean) {
            let _ = write!(text, ", min {min}, max {max}, mean {mean:.6}");
        }
        if self.nan > 0 {
            let _ = write!(text, ", {} NaN", self.nan);
        }
        let first: Vec<String> = self.first.iter().map(Element::to_string).collect();
        let more = if self.is_longer { ", …" } else { "" };
        let _ = write!(text, ": {}{more}", first.join(", "));
        text
    }
}

fn is_less(a: Element, b: Element) -> bool {
    match (a, b) {
        (Element::Int(a), Element::Int(b)) => a < b,
        _ => a.as_f64() < b.as_f64(),
    }
}

/// An element in JSON.
fn number(element: Element) -> Json {
    match element {
        Element::Int(v) => {
            i64::try_from(v).map(Json::from).or_else(|_| u64::try_from(v).map(Json::from)).unwrap_or(Json::Null)
        }
        // The text is the shortest one of the element's type.
        Element::Float32(v) => v.to_string().parse().map_or(Json::Null, float),
        Element::Float64(v) => float(v),
    }
}

/// A float in JSON, which has no number for NaN and infinities: these are texts.
fn float(v: f64) -> Json {
    if v.is_finite() {
        json!(v)
    } else if v.is_nan() {
        json!("NaN")
    } else {
        json!(if v > 0.0 { "inf" } else { "-inf" })
    }
}
