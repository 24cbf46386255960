//! Lines of the auto-scheduler (Ansor): `{"i": [[task, target, …], [stages, steps]], "r": result, "v": "v0.6"}`.

use super::fields::{Fields, field, list};
use super::step::Step;
use super::{Outcome, Task, outcome};
use serde_json::{Map, Value};

/// A line of the auto-scheduler.
#[derive(Clone, PartialEq, Debug)]
pub struct AnsorLine {
    /// What was tuned.
    pub task: Task,
    /// The machine, as TVM's target text.
    pub target: String,
    /// The schedule.
    pub steps: Vec<Step>,
    /// What came of it.
    pub outcome: Outcome,
}

pub(super) fn line(fields: &Map<String, Value>) -> Result<AnsorLine, String> {
    let mut input = Fields::of(field(fields, "i")?, "the input")?;
    let mut task = Fields::of(input.next("the task")?, "the task")?;
    let (key, target) = (task.text("the workload")?, task.text("the target")?);
    let mut state = Fields::of(input.next("the schedule")?, "the schedule")?;
    state.next("the stages")?;
    let steps = list(state.next("the steps")?, "the steps")?;
    let read = |(i, s)| Step::read(s).map_err(|why| format!("step {i}: {why}"));
    Ok(AnsorLine {
        task: task_of(key)?,
        target: target.to_owned(),
        steps: steps.iter().enumerate().map(read).collect::<Result<_, _>>()?,
        outcome: outcome(field(fields, "r")?)?,
    })
}

/// A task of its key, which is a list in JSON: `["matmul_add", 1024, 1024, "float32"]`. Early versions wrote a hash alone.
fn task_of(key: &str) -> Result<Task, String> {
    if !key.trim_start().starts_with('[') {
        return Ok(Task { name: key.to_owned(), args: Vec::new() });
    }
    let json: Value = serde_json::from_str(key).map_err(|e| format!("the key of the workload: {e}"))?;
    let mut items = Fields::of(&json, "the key of the workload")?;
    let name = items.text("the name")?.to_owned();
    let args = json.as_array().map(|all| all[1..].to_vec()).unwrap_or_default();
    Ok(Task { name, args })
}
