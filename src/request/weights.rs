//! The weights of models that are built, read from a file once.

use super::Error;
use crate::arrays::{ArrayError, ArrayFile};
use crate::graph::Constant;
use crate::graph::program::{Program, Tensor};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The file with the weights of a model. Versions of the model for several sizes share the elements that were read.
pub struct Weights {
    path: Option<PathBuf>,
    file: Option<ArrayFile>,
    read: HashMap<String, Constant>,
}

impl Weights {
    /// The file that is named, or that beside the program. It is opened when a weight is asked for.
    pub fn new(program: &Path, named: Option<&Path>) -> Weights {
        Weights { path: super::program::weights(program, named), file: None, read: HashMap::new() }
    }

    /// The weights of a graph, in the order of its parameters.
    ///
    /// # Errors
    /// A weight has no elements, or others than the graph expects.
    pub fn of(&mut self, graph: &Program) -> Result<Vec<Constant>, Error> {
        let wanted = &graph.inputs[graph.n_inputs..];
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let Some(path) = self.path.clone() else {
            let names: Vec<&str> = wanted.iter().map(|t| t.name.as_str()).collect();
            let help = "put a `.safetensors` or `.npz` file beside the program, or name one by `--weights`";
            return Err(Error::Usage(format!("there are no values for `{}`", names.join("`, `")), help.to_owned()));
        };
        wanted.iter().map(|tensor| self.weight(&path, tensor)).collect()
    }

    fn weight(&mut self, path: &Path, tensor: &Tensor) -> Result<Constant, Error> {
        let refuse = |e: ArrayError| Error::Usage(e.to_string(), String::new());
        let other = |dtype, shape: &[i64]| {
            let (expected, found) = (format!("{} {:?}", tensor.dtype, tensor.shape), format!("{dtype} {shape:?}"));
            let message =
                format!("`{}` in `{}` is {found}, and the graph expects {expected}", tensor.name, path.display());
            Error::Usage(message, String::new())
        };
        if let Some(known) = self.read.get(&tensor.name) {
            return match known.dtype() == tensor.dtype && known.shape() == tensor.shape {
                true => Ok(known.clone()),
                false => Err(other(known.dtype(), known.shape())),
            };
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => ArrayFile::open(path).map_err(refuse)?,
        };
        let file = self.file.insert(file);
        let Some(at) = file.position_for(&tensor.name) else {
            let help = format!("it has `{}`", file.names().join("`, `"));
            return Err(Error::Usage(format!("`{}` has no array `{}`", path.display(), tensor.name), help));
        };
        let array = file.read(at, Some(tensor.dtype)).map_err(refuse)?;
        let (dtype, shape) = (array.dtype(), array.shape().to_vec());
        let constant = Constant::new(dtype, &tensor.shape, array.into_data());
        let constant = constant.filter(|_| shape == tensor.shape).ok_or_else(|| other(dtype, &shape))?;
        self.read.insert(tensor.name.clone(), constant.clone());
        Ok(constant)
    }
}
