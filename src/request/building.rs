//! Building libraries of native code.

use super::Error;
use crate::arrays::{ArrayError, ArrayFile};
use crate::export::{
    self, Body, ExportError, File, FilesError, Function, Library, LinkError, Measured, Version, Versions, c_name,
    is_c_name,
};
use crate::graph::Constant;
use crate::graph::program::Program;
use crate::ir::Func;
use crate::ir::hash::program_hash;
use crate::loopir::{Access, Storage};
use crate::lower::lower;
use crate::workload::{Setting, Workload};
use std::path::{Path, PathBuf};

/// A library to build. The names of the options are those of the command line.
#[derive(Clone, Debug)]
pub struct Request {
    /// Directory and name of the files, such as `build/matmul`.
    pub output: PathBuf,
    /// First part of all symbols; the name of the files if left out.
    pub prefix: Option<String>,
    /// Whether to export symbols of TVM-FFI.
    pub has_tvm_ffi: bool,
    /// The files to write.
    pub emit: Vec<File>,
}

/// A request that was checked.
#[derive(Clone, Debug)]
pub struct Plan {
    directory: PathBuf,
    name: String,
    prefix: String,
    ffi_prefix: String,
    has_tvm_ffi: bool,
    emit: Vec<File>,
}

impl Request {
    /// Checks the request.
    ///
    /// # Errors
    /// The output names no file, or the prefix is no name in C.
    pub fn plan(&self) -> Result<Plan, Error> {
        let refuse = |why: &str| {
            let help = "name a directory and the name of the files in it, such as `build/matmul`".to_string();
            Err(Error::Usage(format!("`{}` {why}", self.output.display()), help))
        };
        if self.output.as_os_str().to_string_lossy().ends_with('/') || self.output.is_dir() {
            return refuse("is a directory");
        }
        let Some(name) = self.output.file_name() else { return refuse("names no file") };
        let Some(name) = name.to_str() else { return refuse("is not UTF-8") };
        let prefix = match &self.prefix {
            None => c_name(name),
            Some(prefix) if is_c_name(prefix) => prefix.clone(),
            Some(prefix) => {
                let help = format!("`{}` is one", c_name(prefix));
                return Err(Error::Usage(format!("`{prefix}` is not a name in C"), help));
            }
        };
        Ok(Plan {
            directory: self.output.parent().map(Path::to_owned).unwrap_or_default(),
            name: name.to_owned(),
            prefix,
            ffi_prefix: self.prefix.clone().unwrap_or_default(),
            has_tvm_ffi: self.has_tvm_ffi,
            emit: self.emit.clone(),
        })
    }
}

impl Plan {
    /// The library with functions.
    pub fn library(&self, functions: Vec<Function>) -> Library {
        Library {
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            ffi_prefix: self.ffi_prefix.clone(),
            has_tvm_ffi: self.has_tvm_ffi,
            functions,
        }
    }

    /// Writes the files of the library and returns their paths.
    ///
    /// # Errors
    /// A function cannot be compiled or called from C, or a file cannot be written.
    pub fn write(&self, library: &Library) -> Result<Vec<PathBuf>, Error> {
        export::write_files(library, &self.directory, &self.emit).map_err(failed)
    }
}

/// A version of a workload with the schedule of `func`: for the CPU of the setting, and for every CPU of the architecture unless
/// there is to be `only` that one. `secs` is the measured time of a call.
pub fn version(workload: &Workload, func: Func, setting: &Setting, only: bool, secs: Option<f64>) -> Version {
    let measured =
        secs.map(|s| Measured { latency_us: s * 1e6, program: program_hash(&func), workload: workload.hash });
    Version {
        sizes: Vec::new(),
        accesses: accesses(workload.func()),
        body: Body::Func(Box::new(func)),
        targets: Versions::of(setting.codegen(), only),
        measured,
    }
}

/// How a function accesses its parameters; empty if it cannot be lowered.
fn accesses(func: &Func) -> Vec<Access> {
    let kernel = lower(func).ok();
    let accesses = kernel.iter().flat_map(|k| k.params()).map(|p| match p.storage {
        Storage::Param(access) => Some(access),
        Storage::Scratch(_) => None,
    });
    accesses.collect::<Option<Vec<Access>>>().unwrap_or_default()
}

/// The most bytes of weights and of what is prepared from them that an object contains.
const MOST_WEIGHTS: usize = 1 << 30;

/// Checks that the weights, constants and prepared tensors of a graph fit into an object.
///
/// # Errors
/// They are too large.
pub fn check_size(graph: &export::Graph) -> Result<(), Error> {
    let bytes: usize = graph.known().map(|(_, c)| c.data().len()).sum();
    if bytes > MOST_WEIGHTS {
        let help = "make some of them inputs: `num_input` of the graph counts these".to_owned();
        return Err(Error::Usage(format!("the weights have {bytes} bytes, more than an object can hold"), help));
    }
    Ok(())
}

/// The elements of the weights of a graph, one for each input of its calls; `None` for what callers pass. They are read from the
/// file that is named, or from that beside the program.
///
/// # Errors
/// A weight has no elements, or others than the graph expects.
pub fn weights(graph: &Program, program: &Path, named: Option<&Path>) -> Result<Vec<Option<Constant>>, Error> {
    let mut all = vec![None; graph.inputs.len()];
    let wanted = graph.n_inputs..graph.inputs.len();
    if wanted.is_empty() {
        return Ok(all);
    }
    let names: Vec<&str> = graph.inputs[wanted.clone()].iter().map(|t| t.name.as_str()).collect();
    let Some(path) = super::program::weights(program, named) else {
        let help = "put a `.safetensors` or `.npz` file beside the program, or name one by `--weights`";
        return Err(Error::Usage(format!("there are no values for `{}`", names.join("`, `")), help.to_owned()));
    };
    let refuse = |e: ArrayError| Error::Usage(e.to_string(), String::new());
    let file = ArrayFile::open(&path).map_err(refuse)?;
    let stored = file.names();
    for i in wanted {
        let tensor = &graph.inputs[i];
        let Some(at) = stored.iter().position(|n| *n == tensor.name) else {
            let help = format!("it has `{}`", stored.join("`, `"));
            return Err(Error::Usage(format!("`{}` has no array `{}`", path.display(), tensor.name), help));
        };
        let array = file.read(at, Some(tensor.dtype)).map_err(refuse)?;
        if array.dtype() != tensor.dtype || array.shape() != tensor.shape {
            let expected = format!("{} {:?}", tensor.dtype, tensor.shape);
            let found = format!("{} {:?}", array.dtype(), array.shape());
            let message =
                format!("`{}` in `{}` is {found}, and the graph expects {expected}", tensor.name, path.display());
            return Err(Error::Usage(message, String::new()));
        }
        all[i] = Constant::new(array.dtype(), &tensor.shape, array.into_data());
    }
    Ok(all)
}

fn failed(error: FilesError) -> Error {
    let text = error.to_string();
    match error {
        FilesError::Export(ExportError::Lower { .. } | ExportError::Codegen { .. }) => Error::Negative(text),
        FilesError::Export(ExportError::Collision { .. }) => {
            Error::Usage(text, "build them into libraries of their own with `--func`".to_string())
        }
        FilesError::Export(ExportError::Param { .. } | ExportError::UnknownElements { .. }) => {
            Error::Usage(text, String::new())
        }
        FilesError::Link(LinkError::Missing { .. }) => {
            let help = "install one (`apt install gcc` or `lld`), or use `--emit obj`, which needs none";
            Error::Machine(text, help.to_string())
        }
        FilesError::Link(LinkError::Failed { .. }) => Error::Machine(text, "`$CC` names another one".to_string()),
        FilesError::Export(ExportError::Format | ExportError::Write(_))
        | FilesError::Archive(_)
        | FilesError::Directory { .. }
        | FilesError::Write { .. } => Error::Machine(text, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(output: &str, prefix: Option<&str>) -> Result<Plan, String> {
        let request = Request {
            output: output.into(),
            prefix: prefix.map(str::to_owned),
            has_tvm_ffi: true,
            emit: vec![File::Object],
        };
        request.plan().map_err(|e| e.to_string())
    }

    #[test]
    fn names_come_from_the_output() {
        let plan = planned("build/my-kernels", None).expect("a file in a directory");
        assert_eq!((plan.directory, plan.name), ("build".into(), "my-kernels".to_owned()));
        assert_eq!((&plan.prefix[..], &plan.ffi_prefix[..]), ("my_kernels", ""));
        let plan = planned("kernels", Some("k")).expect("a prefix");
        assert_eq!((&plan.prefix[..], &plan.ffi_prefix[..]), ("k", "k"));
    }

    #[test]
    fn places_and_prefixes_that_are_none_are_refused() {
        for (output, prefix, why) in [
            ("build/", None, "`build/` is a directory"),
            ("/", None, "is a directory"),
            ("a/..", None, "`a/..` names no file"),
            ("a/b", Some("1-b"), "`1-b` is not a name in C\n  help: `_1_b` is one"),
        ] {
            assert!(planned(output, prefix).is_err_and(|e| e.contains(why)), "{output}");
        }
    }
}
