//! Checks a whole model once: against its graph as it was read, each operator as written.

use super::Done;
use super::exit::Failure;
use super::load::Program;
use super::run_model::failure;
use crate::arrays::Array;
use crate::graph::pass::Context;
use crate::model::{Agreement, Model, ModelError, Reference};
use crate::stop::StopFlag;
use crate::workload::Setting;

/// The arrays that a model is called on.
pub(super) struct Arrays {
    /// Of the inputs.
    pub inputs: Vec<Array>,
    /// Of the weights.
    pub weights: Vec<Array>,
}

/// Compares a model that has loaded these weights with its graph in the program as read. The flag ends this with an error.
///
/// # Errors
/// The graph as written cannot be run.
pub(super) fn compare(
    program: &Program,
    cx: &Context,
    model: &Model,
    setting: &Setting,
    arrays: &Arrays,
    stop: StopFlag,
) -> Result<Agreement, Failure> {
    let name = model.name();
    let reference = Reference::new(program.graph_module(), name, cx, setting, stop);
    let compared = reference.and_then(|mut r| r.compare(model, &arrays.weights, &arrays.inputs));
    compared.map_err(|e| match e {
        ModelError::Compile { .. } | ModelError::Failed { .. } => Failure::Negative(format!(
            "the results of `{name}` cannot be compared, since the graph as written does not run: {e}; `--no-check` leaves this out"
        )),
        ModelError::Graph(_) | ModelError::NoFunction(_) | ModelError::Argument(_) | ModelError::Library(_) | ModelError::Machine(_) => {
            failure(program, name, e)
        }
    })
}

/// Fails if results are wrong.
pub(super) fn judge(name: &str, agreement: &Agreement) -> Done {
    match agreement.is_right() {
        true => Ok(()),
        false => Err(Failure::Negative(format!("`{name}` gives wrong results: {agreement}"))),
    }
}
