//! Lines of AutoTVM: `{"input": [target, task, [args…], {}], "config": {…, "entity": […]}, "result": …, "version": 0.2}`.

use super::fields::{Fields, field, list, object};
use super::{Outcome, Task, outcome};
use crate::te_function::{Literal, Preset};
use serde_json::{Map, Value};

/// A line of AutoTVM.
#[derive(Clone, PartialEq, Debug)]
pub struct AutoTvmLine {
    /// What was tuned.
    pub task: Task,
    /// The machine, as TVM's target text.
    pub target: String,
    /// The candidates of the knobs, in the order of their definition.
    pub entities: Vec<(String, Preset)>,
    /// What came of it.
    pub outcome: Outcome,
}

pub(super) fn line(fields: &Map<String, Value>) -> Result<AutoTvmLine, String> {
    let mut input = Fields::of(field(fields, "input")?, "the input")?;
    let target = input.text("the target")?.to_owned();
    let name = input.text("the task")?.to_owned();
    let args = list(input.next("the arguments")?, "the arguments")?.to_vec();
    let config = object(field(fields, "config")?, "the configuration")?;
    let entities = list(field(config, "entity")?, "the knobs")?;
    Ok(AutoTvmLine {
        task: Task { name, args },
        target,
        entities: entities.iter().map(entity).collect::<Result<_, _>>()?,
        outcome: outcome(field(fields, "result")?)?,
    })
}

/// `["tile_y", "sp", [-1, 8]]`
fn entity(json: &Value) -> Result<(String, Preset), String> {
    let mut f = Fields::of(json, "a knob")?;
    let name = f.text("the name")?;
    let preset = match f.text("the kind")? {
        "sp" => Preset::Split(f.ints("the sizes")?),
        "re" => Preset::Reorder(f.positions("the order")?),
        "an" => {
            let all = list(f.next("the annotations")?, "the annotations")?;
            Preset::Annotate(all.iter().map(literal).collect::<Result<_, _>>()?)
        }
        "ot" => Preset::Other(literal(f.next("the value")?)?),
        other => return Err(format!("there is no knob of the kind `{other}`")),
    };
    Ok((name.to_owned(), preset))
}

fn literal(json: &Value) -> Result<Literal, String> {
    Ok(match json {
        Value::Null => Literal::None,
        Value::Bool(b) => Literal::Bool(*b),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => Literal::Int(n),
            (None, Some(n)) => Literal::Float(n),
            (None, None) => return Err(format!("{n} is too large")),
        },
        Value::String(s) => Literal::Text(s.clone()),
        Value::Array(all) => Literal::List(all.iter().map(literal).collect::<Result<_, _>>()?),
        Value::Object(_) => return Err("expected a value of a knob, found an object".to_owned()),
    })
}
