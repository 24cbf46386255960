//! Programs: reading them, and choosing the functions to work on.

use super::Error;
use crate::arrays::{ArrayError, ArrayFile};
use crate::diagnostic::{Diagnostic, Diagnostics, Source, listed, nearest};
use crate::foreign;
use crate::graph::libraries::{Libraries, SharedLibrary, TextLibrary};
use crate::graph::pass::{self, Context};
use crate::graph::{self, Constant, GraphModule};
use crate::ir::visit::for_each_subexpr;
use crate::ir::{DType, Func, Module, Symbol, VarId};
use crate::onnx;
use crate::schedule::intrin::Intrinsics;
use crate::script::{self, Dialect, ParseOptions, Parsed, Spans};
use crate::te_function::{self, Definition, WorkloadChoice};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the file of a program holds.
#[derive(Clone)]
pub enum Content {
    /// A text.
    Text(String),
    /// An ONNX model, whose text depends on what is known of its inputs.
    Model(Arc<onnx::Model>),
}

/// The content of a program's file.
///
/// # Errors
/// The file cannot be read; where another name is near, the help says it. It is no model that can be read.
pub fn content(path: &Path) -> Result<Content, Error> {
    if !onnx::is_model(path) || path.is_dir() {
        return Ok(Content::Text(text(path)?));
    }
    let model = onnx::Model::open(path).map_err(|e| cannot_read(path, &e))?;
    Ok(Content::Model(Arc::new(model.map_err(|found| unsupported(path, vec![found]))?)))
}

fn unsupported(path: &Path, found: Vec<Diagnostic>) -> Error {
    let name = path.to_string_lossy();
    Error::from(Diagnostics::new(Source { name: &name, text: "" }, found))
}

/// What is known of the inputs of a model before it is translated.
pub trait Inputs {
    /// What can go wrong.
    type Error: From<Error>;

    /// Shapes of inputs.
    fn shapes(&self) -> &[(String, Vec<i64>)] {
        &[]
    }

    /// Elements of inputs that are no parameters of the graph then. The parameters of `signature` are the inputs.
    ///
    /// # Errors
    /// There is no such input, or it cannot have these elements.
    fn constants(&self, _signature: &graph::Function) -> Result<BTreeMap<String, Constant>, Self::Error> {
        Ok(BTreeMap::new())
    }

    /// Values of symbols, as arrays for the inputs tell them.
    ///
    /// # Errors
    /// Arrays contradict each other, or cannot be read.
    fn sizes(&self, _signature: &graph::Function) -> Result<Vec<(String, i64)>, Self::Error> {
        Ok(Vec::new())
    }

    /// The elements of an input that must be known; `None` if nothing says them.
    ///
    /// # Errors
    /// Its array cannot be read.
    fn elements(&self, _signature: &graph::Function, _name: &str) -> Result<Option<Constant>, Self::Error> {
        Ok(None)
    }
}

/// Nothing is known.
pub struct Unknown;

impl Inputs for Unknown {
    type Error = Error;
}

/// The text of a file.
///
/// # Errors
/// The file cannot be read; where another name is near, the help says it.
pub fn text(path: &Path) -> Result<String, Error> {
    if path.is_dir() {
        let help = "name a file in it".to_string();
        return Err(Error::Usage(format!("`{}` is a directory", path.display()), help));
    }
    match script::read_file(path) {
        Ok(text) => Ok(text?),
        Err(e) => Err(cannot_read(path, &e)),
    }
}

fn cannot_read(path: &Path, e: &io::Error) -> Error {
    let message = format!("cannot read `{}`: {e}", path.display());
    match e.kind() {
        io::ErrorKind::NotFound => Error::Usage(message, neighbour(path).unwrap_or_default()),
        io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory => Error::Usage(message, String::new()),
        _ => Error::Machine(message, String::new()),
    }
}

/// The file in the same directory whose name is most similar to one that does not exist.
pub(crate) fn neighbour(path: &Path) -> Option<String> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Some(format!("there is no directory `{}`", directory.display()));
    };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    let wanted = path.file_name()?.to_str()?;
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(format!("there is `{}`", directory.join(near).display()))
}

/// A parsed and verified program.
pub struct Program {
    /// The file name as given.
    pub name: String,
    /// The text in TVMScript.
    pub text: String,
    /// The text that defines the program by tensor expressions, if that was given instead.
    pub origin: Option<Origin>,
    /// The values that symbols were given.
    pub bind: Vec<(String, i64)>,
    /// The file of weights that is named.
    pub weights: Option<PathBuf>,
    /// The model that the program was made of, and what of its inputs was known.
    pub model: Option<(Arc<onnx::Model>, onnx::Given)>,
    /// The parsed module.
    pub parsed: Parsed,
}

/// A text of tensor expressions that defines a program.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The text.
    pub text: String,
    func: Option<String>,
    args: Option<String>,
    /// Whether its function is a template: it schedules the program, with knobs to be tuned.
    pub is_template: bool,
}

impl Origin {
    /// The function that was asked for, and its arguments.
    pub fn wanted(&self) -> WorkloadChoice<'_> {
        WorkloadChoice { func: self.func.as_deref(), args: self.args.as_deref() }
    }
}

impl Program {
    /// Reads the text of a program, with values for symbolic extents. A text of tensor expressions defines the workload that is
    /// asked for. Where shapes depend on elements of weights, these are read from the file that is named, or from that beside the
    /// program. The caller reports warnings.
    ///
    /// # Errors
    /// The text has mistakes, a symbol has two values, arguments are given for TVMScript, or the file of weights cannot be read.
    pub fn from_text(
        name: &str,
        bind: &[(String, i64)],
        text: String,
        wanted: WorkloadChoice<'_>,
        weights: Option<&Path>,
    ) -> Result<Program, Error> {
        if !te_function::is_te_text(&text) {
            if wanted.args.is_some() {
                let message = format!("`--args` is for workloads of tensor expressions, and `{name}` is TVMScript");
                return Err(Error::Usage(message, "`--bind` gives symbolic extents their values".to_owned()));
            }
            return Program::from_script(name, bind, text, weights);
        }
        let Definition { func, warnings, is_template, .. } = te_function::define(&text, name, wanted)?;
        let script = script::print_func(&func, Dialect::Current);
        let program = Program::from_script(name, bind, script, weights)?;
        // Places in the script would be shown in the text that was given.
        let module = program.graph_module();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let origin = Origin { text, func: owned(wanted.func), args: owned(wanted.args), is_template };
        let mut program = Program { origin: Some(origin), ..program.with(module) };
        program.parsed.warnings = warnings;
        Ok(program)
    }

    /// Reads the content of a file, as [`Program::from_text`] does. A model is imported with what is known of its inputs.
    ///
    /// # Errors
    /// As [`Program::from_text`]; the model has what is not supported.
    pub fn from_content<I: Inputs>(
        name: &str,
        bind: &[(String, i64)],
        content: Content,
        wanted: WorkloadChoice<'_>,
        weights: Option<&Path>,
        inputs: &I,
    ) -> Result<Program, I::Error> {
        let model = match content {
            Content::Text(text) => return Ok(Program::from_text(name, bind, text, wanted, weights)?),
            Content::Model(model) => model,
        };
        let shapes = inputs.shapes().to_vec();
        let mut given = onnx::Given { symbols: bindings(bind)?, shapes, ..onnx::Given::default() };
        let signature = onnx::signature(&model, &onnx::Given::default());
        given.constants = inputs.constants(&signature)?;
        for (symbol, n) in inputs.sizes(&signature)? {
            given.symbols.entry(symbol).or_insert(n);
        }
        loop {
            let refused = match onnx::import(&model, &given) {
                Ok(imported) => return Ok(Program::from_import(name, bind, (model, given), imported, weights)?),
                Err(refused) => refused,
            };
            let mut is_more_known = false;
            for input in refused.needed {
                if !given.elements.contains_key(&input)
                    && let Some(elements) = inputs.elements(&signature, &input)?
                {
                    given.elements.insert(input, elements);
                    is_more_known = true;
                }
            }
            if !is_more_known {
                return Err(unsupported(Path::new(name), refused.found).into());
            }
        }
    }

    fn from_import(
        name: &str,
        bind: &[(String, i64)],
        model: (Arc<onnx::Model>, onnx::Given),
        imported: onnx::Imported,
        weights: Option<&Path>,
    ) -> Result<Program, Error> {
        let module = GraphModule { module: Module::default(), functions: vec![imported.function] };
        let text = script::print_graph_module(&module, Dialect::Current);
        // The symbols of the model that have values are not in the text.
        let rest: Vec<_> = bind.iter().filter(|(name, _)| !imported.symbols.contains_key(name)).cloned().collect();
        let program = Program::from_script(name, &rest, text, weights)?;
        Ok(Program { model: Some(model), bind: bind.to_vec(), ..program })
    }

    /// The program with other values of symbols.
    ///
    /// # Errors
    /// As [`Program::from_script`]; a model is not supported with these values.
    pub fn bound(&self, bind: &[(String, i64)]) -> Result<Program, Error> {
        let weights = self.weights.as_deref();
        if let Some((model, given)) = &self.model {
            let given = onnx::Given { symbols: bindings(bind)?, ..given.clone() };
            return match onnx::import(model, &given) {
                Ok(imported) => Program::from_import(&self.name, bind, (model.clone(), given), imported, weights),
                Err(refused) => Err(unsupported(Path::new(&self.name), refused.found)),
            };
        }
        let program = Program::from_script(&self.name, bind, self.text.clone(), weights)?;
        Ok(Program { origin: self.origin.clone(), ..program })
    }

    /// Reads a text in TVMScript.
    ///
    /// # Errors
    /// The text has mistakes, a symbol has two values, or the file of weights cannot be read.
    pub fn from_script(
        name: &str,
        bind: &[(String, i64)],
        text: String,
        weights: Option<&Path>,
    ) -> Result<Program, Error> {
        let known = known_weights(&text, self::weights(Path::new(name), weights))?;
        let options = ParseOptions { bind: bindings(bind)?, weights: known, ..ParseOptions::default() };
        let parsed = script::parse(&text, name, &options)?;
        let (name, weights) = (name.to_owned(), weights.map(Path::to_owned));
        Ok(Program { name, text, origin: None, bind: bind.to_vec(), weights, model: None, parsed })
    }

    /// The text in which diagnostics have places, with its file name.
    pub fn source(&self) -> Source<'_> {
        Source { name: &self.name, text: self.origin.as_ref().map_or(&self.text, |o| &o.text) }
    }

    /// Lints of the well-formed program.
    pub fn lints(&self) -> Vec<Diagnostic> {
        crate::lint::lint(&self.parsed)
    }

    /// The parsed module.
    pub fn module(&self) -> &Module {
        &self.parsed.module
    }

    /// The graph functions.
    pub fn graphs(&self) -> &[graph::Function] {
        &self.parsed.graphs
    }

    /// The graph to work on: the one of this name; without a name the only one, or `main`. `None` if the program has no graphs, or
    /// the name is that of a prim_func.
    ///
    /// # Errors
    /// There are several graphs, and none is called `main`.
    pub fn graph(&self, name: Option<&str>) -> Result<Option<&graph::Function>, Error> {
        let graphs = self.graphs();
        match name {
            Some(name) => Ok(graphs.iter().find(|f| f.name == name)),
            None => match graphs {
                [] => Ok(None),
                [one] => Ok(Some(one)),
                several => match several.iter().find(|f| f.name == "main") {
                    Some(main) => Ok(Some(main)),
                    None => {
                        let names: Vec<&str> = several.iter().map(|f| f.name.as_str()).collect();
                        let message = format!("`{}` has {} graphs: `{}`", self.name, names.len(), names.join("`, `"));
                        Err(Error::Usage(message, format!("choose one, such as `--func {}`", names[0])))
                    }
                },
            },
        }
    }

    /// The module with its graphs.
    pub fn graph_module(&self) -> GraphModule {
        GraphModule { module: self.module().clone(), functions: self.graphs().to_vec() }
    }

    /// The program with its graphs as calls of prim_funcs: the passes have run.
    ///
    /// # Errors
    /// What the passes cannot treat.
    pub fn lowered(&self, cx: &Context) -> Result<Program, Error> {
        let mut module = self.graph_module();
        pass::run_all(&mut module, cx).map_err(|found| mistakes(self, found))?;
        Ok(self.with(module))
    }

    /// The program with another module. Its functions have no places in the text.
    pub fn with(&self, module: GraphModule) -> Program {
        let GraphModule { module, functions } = module;
        let spans = module.funcs.iter().map(|_| Spans::default()).collect();
        let parsed = Parsed { module, graphs: functions, dialect: self.parsed.dialect, spans, warnings: Vec::new() };
        let (name, text, origin) = (self.name.clone(), self.text.clone(), self.origin.clone());
        let (weights, model) = (self.weights.clone(), self.model.clone());
        Program { name, text, origin, bind: self.bind.clone(), weights, model, parsed }
    }

    /// How often the graphs call each prim_func, without calls on weights and constants alone, which run once.
    pub fn calls(&self) -> BTreeMap<Symbol, u64> {
        let mut calls = BTreeMap::new();
        for function in self.graphs() {
            for name in graph::constness::recurring_calls(function) {
                *calls.entry(name).or_default() += 1;
            }
        }
        calls
    }

    /// The text of the program with its graphs.
    pub fn print(&self, dialect: Dialect) -> String {
        match self.graphs() {
            [] => script::print_module(self.module(), dialect),
            _ => script::print_graph_module(&self.graph_module(), dialect),
        }
    }

    /// Positions of the functions that run by themselves: all, except those that others call and that lack symbolic
    /// values.
    fn kernels(&self) -> Vec<usize> {
        let funcs = &self.module().funcs;
        let called: Vec<Symbol> = funcs.iter().flat_map(crate::ir::inline::calls).collect();
        let is_part = |f: &Func| called.contains(&f.name) && symbolic(f).is_some();
        let kernels: Vec<usize> = (0..funcs.len()).filter(|&i| !is_part(&funcs[i])).collect();
        if kernels.is_empty() { (0..funcs.len()).collect() } else { kernels }
    }

    /// Positions of the functions worth tuning: the one of this name, or all that run by themselves. Those that graphs only call on
    /// weights and constants are left out, since they run once.
    ///
    /// # Errors
    /// There is no function of this name.
    pub fn tasks(&self, name: Option<&str>) -> Result<Vec<usize>, Error> {
        let mut functions = self.functions(name)?;
        if name.is_none() {
            let recurring = self.calls();
            let called: Vec<Symbol> = self.graphs().iter().flat_map(graph::Function::called_prim_funcs).collect();
            let runs_once = |name: &Symbol| called.contains(name) && !recurring.contains_key(name);
            functions.retain(|&i| !runs_once(&self.module().funcs[i].name));
        }
        Ok(functions)
    }

    /// Positions of the functions to work on: the one of this name, or all that run by themselves.
    ///
    /// # Errors
    /// There is no function of this name.
    pub fn functions(&self, name: Option<&str>) -> Result<Vec<usize>, Error> {
        let funcs = &self.module().funcs;
        match name {
            None => Ok(self.kernels()),
            Some(name) => match funcs.iter().position(|f| f.name == name) {
                Some(i) => Ok(vec![i]),
                None => {
                    let names: Vec<&str> = funcs.iter().map(|f| f.name.as_str()).collect();
                    let help = match nearest(name, names.iter().copied()) {
                        Some(near) => format!("there is `{near}`"),
                        None if names.is_empty() => "it has no prim_funcs".to_owned(),
                        None => format!("its functions are {}", listed(names)),
                    };
                    Err(Error::Usage(format!("`{}` has no function `{name}`", self.name), help))
                }
            },
        }
    }
}

/// The values of symbols by name.
fn bindings(given: &[(String, i64)]) -> Result<BTreeMap<String, i64>, Error> {
    let mut bind = BTreeMap::new();
    for (name, value) in given {
        if let Some(other) = bind.insert(name.clone(), *value) {
            let message = format!("`--bind` gives `{name}` twice: {other} and {value}");
            return Err(Error::Usage(message, "give each name one value".to_string()));
        }
    }
    Ok(bind)
}

/// The built-in intrinsics and those of the given files; `None` if no file is given.
///
/// # Errors
/// A file cannot be read, or has mistakes.
pub fn intrinsics(files: &[PathBuf]) -> Result<Option<Arc<Intrinsics>>, Error> {
    if files.is_empty() {
        return Ok(None);
    }
    let mut table = Intrinsics::clone(&Intrinsics::built_in());
    for path in files {
        if path.as_os_str() == "-" {
            let help = "name a file, which later commands can read again".to_string();
            return Err(Error::Usage("intrinsics cannot come from standard input".to_string(), help));
        }
        table.register_text(&text(path)?, &path.to_string_lossy())?;
    }
    Ok(Some(Arc::new(table)))
}

/// The functions that graphs may call by name: those of these files, which are texts or shared libraries. The first bytes of a file
/// tell which it is.
///
/// # Errors
/// A file cannot be read, or has mistakes; a shared library exports no function that can be called.
pub fn library(files: &[PathBuf]) -> Result<Context, Error> {
    let mut libraries = Libraries::default();
    for path in files {
        let bytes = if path.is_file() { std::fs::read(path).map_err(|e| cannot_read(path, &e))? } else { Vec::new() };
        let path = path.clone();
        if foreign::is_library(&bytes) {
            let functions =
                foreign::functions(&path, &bytes).map_err(|e| Error::Usage(e.to_string(), String::new()))?;
            libraries.shared.push(SharedLibrary { path, functions });
        } else {
            let parsed = script::parse(&text(&path)?, &path.to_string_lossy(), &ParseOptions::default())?;
            libraries.texts.push(TextLibrary { path, funcs: parsed.module.funcs });
        }
    }
    Ok(Context { libraries, ..Context::default() })
}

/// The file with the weights of a program: the one that is named, or the one beside the program with its name. An ONNX model has its
/// own.
pub fn weights(program: &Path, named: Option<&Path>) -> Option<PathBuf> {
    if named.is_none() && onnx::is_model(program) {
        return Some(program.to_owned());
    }
    let beside = || ["safetensors", "npz"].map(|e| program.with_extension(e)).into_iter().find(|p| p.is_file());
    named.map(Path::to_owned).or_else(beside)
}

/// The elements of small weights by their names, if the text has operators whose shapes may depend on them.
fn known_weights(text: &str, path: Option<PathBuf>) -> Result<BTreeMap<String, Constant>, Error> {
    let mut known = BTreeMap::new();
    let is_needed = || graph::op::of_known_elements().any(|op| text.contains(&format!("R.{}(", op.name)));
    let Some(path) = path.filter(|_| is_needed()) else { return Ok(known) };
    let refuse = |e: ArrayError| Error::Usage(e.to_string(), String::new());
    let file = ArrayFile::open(&path).map_err(refuse)?;
    for (i, name) in file.names().into_iter().enumerate() {
        let shape = file.header(i).map_err(refuse)?.shape;
        let n = shape.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent));
        if n.is_some_and(|n| n <= graph::known::MOST_ELEMENTS)
            // An array without a type is read when the program runs, which says the type.
            && let Ok(array) = file.read(i, None)
            && let Some(constant) = Constant::new(array.dtype(), &shape, array.into_data())
        {
            known.insert(name.replace('.', "_"), constant);
        }
    }
    Ok(known)
}

/// Mistakes of a program that are found while it is compiled.
pub fn mistakes(program: &Program, found: Vec<Diagnostic>) -> Error {
    Error::from(Diagnostics::new(program.source(), found))
}

/// Rejects a function that cannot run because symbolic values are missing.
///
/// # Errors
/// A value is missing; the help says how to give it.
pub fn check_concrete(func: &Func) -> Result<(), Error> {
    symbolic(func).map_or(Ok(()), |(what, help)| Err(Error::Usage(what, help)))
}

/// The missing symbolic values of a function, if any, and the help for the message.
pub fn symbolic(func: &Func) -> Option<(String, String)> {
    let func = &*func.callable();
    let is_handle = |p: &&crate::ir::Param| p.buffer.is_none() && func.arena.var(p.var).dtype == DType::Handle;
    if let Some(param) = func.params.iter().find(is_handle) {
        let name = func.arena.var(param.var).name;
        let help = format!("give it one: `A = T.match_buffer({name}, (16, 16), \"float32\")`, for example");
        return Some((format!("the handle `{name}` of `{}` has no shape", func.name), help));
    }
    let mut names: Vec<Symbol> = Vec::new();
    for param in &func.params {
        let mut found: Vec<VarId> = Vec::new();
        match param.buffer {
            None => found.push(param.var),
            Some(b) => {
                for &extent in func.arena.list(func.arena.buffer(b).shape) {
                    for_each_subexpr(&func.arena, extent, &mut |e| found.extend(func.arena.as_var(e)));
                }
            }
        }
        for name in found.into_iter().map(|v| func.arena.var(v).name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let all: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    let example: Vec<String> = names.iter().map(|n| format!("--bind {n}=1024")).collect();
    let what = match all.len() {
        0 => return None,
        1 => "no value",
        _ => "no values",
    };
    let give = if all.len() == 1 { "give it a value" } else { "give them values" };
    let help = format!("{give} with `--bind`, such as `{}`", example.join(" "));
    Some((format!("{what} for {} of `{}`", all.join(", "), func.name), help))
}
