//! Logs of AutoTVM and of the auto-scheduler: their lines, and the schedules that they hold.
//!
//! Both tuners wrote one measured schedule on each line, in JSON. [`read`] tells the two forms apart. A line of the auto-scheduler lists
//! the [steps](step::Step) that made its schedule; [`replay`](state::replay) carries them out on a program. A line of AutoTVM
//! lists the candidates that a template's knobs had, so it means something only together with the template.
//!
//! Times of a log are those of another machine, and of another compiler: they tell which schedule to try first, and nothing else.
//!
//! | file | content |
//! | --- | --- |
//! | [`fields`] | parts of lines, and what is wrong with them |
//! | [`step`] | steps of the auto-scheduler |
//! | [`ansor`] | lines of the auto-scheduler |
//! | [`autotvm`] | lines of AutoTVM |
//! | [`stages`] | the stages of a program, as the auto-scheduler numbers them |
//! | [`state`] | steps, carried out on stages |
//!
//! Lines are untrusted: every number in them may be wrong.

pub mod ansor;
pub mod autotvm;
mod fields;
pub mod stages;
pub mod state;
pub mod step;
#[cfg(test)]
mod tests;

use ansor::AnsorLine;
use autotvm::AutoTvmLine;
use fields::{Fields, list, object};
use serde_json::Value;

/// A line of a log.
#[derive(Clone, PartialEq, Debug)]
pub enum Line {
    /// The auto-scheduler wrote it.
    Ansor(AnsorLine),
    /// AutoTVM wrote it.
    AutoTvm(AutoTvmLine),
}

/// What was tuned.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// The name of the workload or template; of programs that a compiler made, the auto-scheduler wrote a hash instead.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Value>,
}

/// What came of the measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Seconds of each run.
    pub costs: Vec<f64>,
    /// What went wrong, as a number; 0 is a success.
    pub error: i64,
    /// The time of the measurement, in seconds since 1970.
    pub timestamp: f64,
}

impl Outcome {
    /// The mean of the times, if the schedule ran.
    pub fn secs(&self) -> Option<f64> {
        let valid = self.error == 0 && !self.costs.is_empty() && self.costs.iter().all(|c| c.is_finite() && *c > 0.0);
        valid.then(|| self.costs.iter().sum::<f64>() / self.costs.len() as f64)
    }
}

/// Why a line gives no schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Untranslated {
    /// The reason, which is equal for lines of one kind.
    pub reason: String,
    /// What it is in this line; may be empty.
    pub detail: String,
}

impl Untranslated {
    /// A reason, with what it is in one line.
    pub fn new(reason: impl Into<String>, detail: impl Into<String>) -> Untranslated {
        Untranslated { reason: reason.into(), detail: detail.into() }
    }
}

/// The reason of lines that cannot be read.
const DAMAGED: &str = "not a line of a log";

/// Reads a line. `None` if it is blank, or a comment.
///
/// # Errors
/// It is no line of a log, or of a version that is not known.
pub fn read(line: &str) -> Result<Option<Line>, Untranslated> {
    // The auto-scheduler skips lines that begin with a blank, too, but a blank line in front of JSON says nothing.
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let damaged = |detail: String| Untranslated::new(DAMAGED, detail);
    let json: Value = serde_json::from_str(line).map_err(|e| damaged(e.to_string()))?;
    let fields = object(&json, "the line").map_err(damaged)?;
    if fields.contains_key("input") && fields.contains_key("config") {
        return autotvm::line(fields).map(|l| Some(Line::AutoTvm(l))).map_err(damaged);
    }
    if !(fields.contains_key("i") && fields.contains_key("r")) {
        return Err(damaged("expected the fields `i` and `r`, or `input`, `config` and `result`".to_owned()));
    }
    // The first versions of AutoTVM had short names of fields, and another form of configurations.
    if !fields.get("v").is_some_and(Value::is_string) {
        let version = fields.get("v").map_or("none".to_owned(), Value::to_string);
        let reason = "a line of an early AutoTVM";
        return Err(Untranslated::new(reason, format!("its version is {version}; AutoTVM converts such logs")));
    }
    ansor::line(fields).map(|l| Some(Line::Ansor(l))).map_err(damaged)
}

/// `[[costs…], error, all_cost, timestamp]`
fn outcome(json: &Value) -> Result<Outcome, String> {
    let mut fields = Fields::of(json, "the result")?;
    let costs = list(fields.next("the times")?, "the times")?;
    let costs = costs.iter().map(|c| c.as_f64().unwrap_or(f64::NAN)).collect();
    let error = fields.int("the error")?;
    fields.next("the cost of the measurement")?;
    let timestamp = fields.next("the time")?.as_f64().unwrap_or(0.0);
    Ok(Outcome { costs, error, timestamp })
}
