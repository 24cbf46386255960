//! Building libraries of native code.

use super::Error;
use crate::export::{
    self, Body, ExportError, ExternalWeights, File, FilesError, Function, Library, LinkError, Measured, Version,
    Versions, c_name, is_c_name,
};
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
    /// The file for the weights of graphs, which the object does not contain then.
    pub external_weights: Option<PathBuf>,
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
    external_weights: Option<PathBuf>,
}

impl Request {
    /// Checks the request.
    ///
    /// # Errors
    /// The output or the file of weights is none, or the prefix is no name in C.
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
        let directory = self.output.parent().map(Path::to_owned).unwrap_or_default();
        if let Some(path) = &self.external_weights {
            let others = || File::ALL.iter().map(|f| directory.join(f.name(name)));
            let is_file = path.file_name().is_some_and(|n| n.to_str().is_some()) && !path.is_dir();
            if !is_file || others().any(|other| other == *path) {
                let why = if is_file { "is a file of the library itself" } else { "names no file" };
                let help = format!(
                    "name one beside the library, such as `{}`",
                    directory.join(name).with_extension("weights").display()
                );
                return Err(Error::Usage(format!("`{}` {why}", path.display()), help));
            }
        }
        Ok(Plan {
            directory,
            name: name.to_owned(),
            prefix,
            ffi_prefix: self.prefix.clone().unwrap_or_default(),
            has_tvm_ffi: self.has_tvm_ffi,
            emit: self.emit.clone(),
            external_weights: self.external_weights.clone(),
        })
    }
}

impl Plan {
    /// The library with functions.
    ///
    /// # Errors
    /// The weights are too large for an object, or there are none to write into a file.
    pub fn library(&self, functions: Vec<Function>) -> Result<Library, Error> {
        let external_weights = match &self.external_weights {
            None => {
                check_size(&functions, MOST_WEIGHTS)?;
                None
            }
            Some(path) => Some(ExternalWeights::of(path, &functions).ok_or_else(|| {
                let message = "no function has weights for `--external-weights`".to_owned();
                Error::Usage(message, "leave the option out: it is for models".to_owned())
            })?),
        };
        Ok(Library {
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            ffi_prefix: self.ffi_prefix.clone(),
            has_tvm_ffi: self.has_tvm_ffi,
            functions,
            external_weights,
        })
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

/// Checks that an object can hold the weights, constants and prepared tensors of its graphs.
fn check_size(functions: &[Function], most: usize) -> Result<(), Error> {
    // Hashing takes time, which only many bytes are worth.
    let bytes: usize = export::known_bytes(functions);
    let bytes = if bytes > most { export::contents(functions).bytes() } else { bytes };
    if bytes > most {
        let message = format!("the weights have {bytes} bytes; an object holds at most {most}");
        let help = "write them into a file of their own: `--external-weights FILE`".to_owned();
        return Err(Error::Usage(message, help));
    }
    Ok(())
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
    use crate::graph::Constant;
    use crate::graph::libraries::Libraries;
    use crate::graph::pass::{Context, GraphModule, run_all};
    use crate::graph::program::Program;
    use crate::graph::scheduled::Scheduled;
    use crate::ir::DType;
    use crate::model::Preparations;
    use crate::script::{ParseOptions, parse};
    use std::sync::Arc;

    fn planned(output: &str, prefix: Option<&str>) -> Result<Plan, String> {
        let request = Request {
            output: output.into(),
            prefix: prefix.map(str::to_owned),
            has_tvm_ffi: true,
            emit: vec![File::Object],
            external_weights: None,
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

    /// A function of a graph that adds a weight of 16 bytes.
    fn graph(name: &str) -> Function {
        let text = format!(
            "@R.function
def {name}(x: R.Tensor((4,), \"float32\"), w: R.Tensor((4,), \"float32\")):
    R.func_attr({{\"num_input\": 1}})
    with R.dataflow():
        y = R.add(x, w)
        R.output(y)
    return y
"
        );
        let weight = Constant::new(DType::Float32, &[4], vec![0; 16]).expect("a vector");
        function(name, export::Graph::new(scheduled(&text), &[weight], &[]))
    }

    /// The steps of the only graph of a text.
    fn scheduled(text: &str) -> Scheduled {
        let parsed = parse(text, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let mut module = GraphModule { module: parsed.module, functions: parsed.graphs };
        run_all(&mut module, &Context::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let program = Program::of(&module.functions[0]).unwrap_or_else(|e| panic!("{e:?}"));
        Scheduled::new(program, &module.module, |_, f| f).unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn function(name: &str, graph: export::Graph) -> Function {
        let body = Body::Graph(Arc::new(graph));
        let targets = Versions::of(Setting::native().codegen(), false);
        let version = Version { sizes: Vec::new(), body, accesses: Vec::new(), targets, measured: None };
        Function { name: name.to_owned(), size_names: Vec::new(), batch: None, versions: vec![version] }
    }

    /// The schedule of the prim_func lays the weight out in columns.
    #[test]
    fn objects_hold_the_layout_that_a_schedule_prepares() {
        let text = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def product(x: T.Buffer((1, 2), "float32"), w: T.Buffer((2, 2), "float32"), y: T.Buffer((1, 2), "float32")):
        p = T.sblock_alloc_buffer((2, 2))
        for i, j in T.grid(2, 2):
            with T.sblock("p"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                p[vj, vi] = w[vi, vj]
        for i, j, k in T.grid(1, 2, 2):
            with T.sblock("y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * p[vj, vk]

    @R.function
    def main(x: R.Tensor((1, 2), "float32"), w: R.Tensor((2, 2), "float32")):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.product, (x, w), out_ty=R.Tensor((1, 2), "float32"))
            R.output(y)
        return y
"#;
        let scheduled = scheduled(text);
        let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes).concat();
        let weight = Constant::new(DType::Float32, &[2, 2], bytes([1.0, 2.0, 3.0, 4.0])).expect("a matrix");
        let weights = [weight];
        let prepared = Preparations::default().results(&scheduled, &Libraries::default(), &Setting::native(), &weights);
        let prepared = prepared.unwrap_or_else(|e| panic!("{e}"));
        let held = export::contents(&[function("main", export::Graph::new(scheduled, &weights, &prepared))]);
        assert_eq!(held.items().iter().map(Constant::data).collect::<Vec<_>>(), [bytes([1.0, 3.0, 2.0, 4.0])]);
    }

    #[test]
    fn equal_weights_count_once_for_the_limit() {
        let functions = [graph("f"), graph("g")];
        assert!(check_size(&functions, 16).is_ok());
        let message = check_size(&functions, 15).map_err(|e| e.to_string());
        assert!(
            message.is_err_and(|m| m.contains("the weights have 16 bytes") && m.contains("--external-weights FILE"))
        );
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
