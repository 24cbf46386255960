//! Models that run on arrays of the caller: nothing is copied or converted.

use super::executable::Ends;
use super::{Model, ModelError};
use crate::callable::{ArrayRef, CallError, check_arrays};
use crate::loopir::Access;
use crate::measure::ParamSpec;
use crate::run::Role;

/// A model whose weights are loaded, called like a function ([`crate::callable::Callable`]): with an array for each input, then one for
/// each output. Several threads may call it at once.
pub struct CallableModel {
    model: Model,
    params: Vec<ParamSpec>,
}

impl CallableModel {
    /// The model as a function.
    pub fn new(model: Model) -> CallableModel {
        let mut params = model.params();
        params.drain(model.inputs().len()..model.program().inputs.len());
        let spec = |p: &crate::run::Parameter| {
            let access = if p.role == Role::Output { Access::Out } else { Access::In };
            ParamSpec::new(&p.name, p.dtype, &p.shape, access)
        };
        CallableModel { params: params.iter().map(spec).collect(), model }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The inputs, then the outputs. Their names are unique.
    pub fn params(&self) -> &[ParamSpec] {
        &self.params
    }

    /// Runs the model on an array for each parameter.
    ///
    /// # Errors
    /// An array does not fit, there is not enough memory, or a kernel fails. What it stored until then remains.
    pub fn call(&self, arrays: &[ArrayRef<'_>]) -> Result<(), CallError> {
        let name = self.model.name();
        let mut inputs = check_arrays(name, &self.params, arrays)?.to_vec();
        let outputs = inputs.split_off(self.model.inputs().len());
        // The arrays have the types and shapes of the parameters, and those that are written overlap no others.
        let call = self.model.begin(Ends { inputs, outputs }, None);
        call.and_then(|mut call| call.run()).map_err(|error| match error {
            ModelError::Failed { func, why } => {
                CallError::Failed { name: name.to_owned(), why: format!("`{func}`: {why}") }
            }
            ModelError::Argument(why) => CallError::Argument(why),
            ModelError::Graph(_)
            | ModelError::NoFunction(_)
            | ModelError::Compile { .. }
            | ModelError::Library(_)
            | ModelError::Machine(_) => CallError::Failed { name: name.to_owned(), why: error.to_string() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::pass::{Context, GraphModule};
    use crate::script::{ParseOptions, parse};
    use crate::workload::Setting;

    /// Results of all kinds: computed, an input, and a computed one that is read as well.
    const TEXT: &str = r#"
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
    with R.dataflow():
        a = R.add(x, y)
        b = R.sum(a, axis=[1])
        R.output(a, b)
    return (a, x, b)
"#;

    fn model() -> CallableModel {
        let parsed = parse(TEXT, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let module = GraphModule { module: parsed.module, functions: parsed.graphs };
        let model = Model::compile(module, "main", &Context::default(), &Setting::native());
        CallableModel::new(model.unwrap_or_else(|e| panic!("{e}")))
    }

    #[test]
    fn models_read_and_write_arrays_of_the_caller() {
        let model = model();
        assert_eq!(model.params().len(), 5);
        let (x, y) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [10.0f32, 20.0, 30.0]);
        for _ in 0..2 {
            let (mut a, mut copy, mut b) = ([0.0f32; 6], [0.0f32; 6], [0.0f32; 2]);
            let arrays = [
                ArrayRef::of(&x, &[2, 3]),
                ArrayRef::of(&y, &[3]),
                ArrayRef::of_mut(&mut a, &[2, 3]),
                ArrayRef::of_mut(&mut copy, &[2, 3]),
                ArrayRef::of_mut(&mut b, &[2]),
            ];
            model.call(&arrays).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((a, copy, b), ([11.0, 22.0, 33.0, 14.0, 25.0, 36.0], x, [66.0, 75.0]));
        }
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let model = model();
        let (x, y) = ([1.0f32; 6], [1.0f32; 3]);
        let refused = |arrays: &[ArrayRef<'_>], why: &str| {
            let found = model.call(arrays).map_err(|e| e.to_string());
            assert!(found.as_ref().is_err_and(|e| e.contains(why)), "{found:?}");
        };
        refused(&[ArrayRef::of(&x, &[2, 3])], "`main` takes 5 arrays");
        let (mut a, mut c, mut b) = ([0.0f32; 6], [0.0f32; 6], [0.0f32; 3]);
        let arrays = [
            ArrayRef::of(&x, &[2, 3]),
            ArrayRef::of(&y, &[3]),
            ArrayRef::of_mut(&mut a, &[2, 3]),
            ArrayRef::of_mut(&mut c, &[2, 3]),
            ArrayRef::of_mut(&mut b, &[3]),
        ];
        refused(&arrays, "expected shape [2], found [3]");
    }
}
