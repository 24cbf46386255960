//! Graphs that run in this process: their kernels with the best records, and their weights.
//!
//! ```text
//! Source ──read──► Program ──lowered──► prim_funcs ──Lookup──► BestKernels ──Model::with_schedules──► Model with its weights
//! ```

use super::program::{self, Content, Inputs, Program};
use super::shapes::{Shape, shaped};
use super::weights::Weights;
use super::{Error, Notices, databases, elements, records, setting};
use crate::database::{Database, Filter};
use crate::graph::Constant;
use crate::graph::constness::recurring_calls;
use crate::graph::pass::Context;
use crate::ir::{Func, Symbol};
use crate::model::{Model, ModelError};
use crate::schedule::intrin::Intrinsics;
use crate::te_function::WorkloadChoice;
use crate::workload::{Setting, Workload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program, and what is known of it before it runs. The names of the options are those of the command line.
#[derive(Clone)]
pub struct Source {
    /// The name of its file.
    pub name: String,
    /// The content of the file.
    pub content: Content,
    /// Values of symbols.
    pub bind: Vec<(String, i64)>,
    /// Shapes of inputs of a graph.
    pub shapes: Vec<Shape>,
    /// Elements of inputs of an ONNX model: numbers that commas separate, or the name of a file.
    pub constants: Vec<(String, String)>,
    /// The only function.
    pub func: Option<String>,
    /// Arguments of a workload of tensor expressions.
    pub args: Option<String>,
    /// The file of weights, if it is not the one beside the program.
    pub weights: Option<PathBuf>,
    /// Files with functions that graphs call by name.
    pub library: Vec<PathBuf>,
}

impl Inputs for Source {
    type Error = Error;

    fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    fn constants(&self, signature: &crate::graph::Function) -> Result<BTreeMap<String, Constant>, Error> {
        elements::constants(signature, &self.constants)
    }
}

impl Source {
    /// Reads the program. The caller reports warnings.
    ///
    /// # Errors
    /// The text has mistakes, the model has what is not supported, or what is said of the inputs does not fit.
    pub fn read(&self) -> Result<Program, Error> {
        elements::check(&self.name, &self.content, &self.constants)?;
        let wanted = WorkloadChoice { func: self.func.as_deref(), args: self.args.as_deref() };
        let (content, weights) = (self.content.clone(), self.weights.as_deref());
        let program = Program::from_content(&self.name, &self.bind, content, wanted, weights, self)?;
        shaped(program, &self.shapes)
    }

    /// What passes over its graphs are given.
    ///
    /// # Errors
    /// A library cannot be read, or has mistakes.
    pub fn context(&self, strict_fp: bool) -> Result<Context, Error> {
        Ok(Context { strict_fp, ..program::library(&self.library)? })
    }
}

/// Where the best records of kernels are looked for.
pub struct Lookup<'a> {
    /// The database; `None` if there is none.
    pub db: Option<&'a Database>,
    /// Its directory.
    pub dir: &'a Path,
    /// The records to use.
    pub filter: Filter,
    /// Intrinsics besides the built-in ones.
    pub intrinsics: Option<Arc<Intrinsics>>,
}

/// The prim_funcs of a graph that have a record.
#[derive(Clone, Default)]
pub struct BestKernels {
    /// Those with their best schedules, by name.
    pub tuned: BTreeMap<Symbol, Func>,
    /// How many distinct ones of those that run in each call have a record.
    pub n_tuned: usize,
    /// How many of those that run in each call differ by more than their names.
    pub n_distinct: usize,
    /// Those without a record.
    pub missing: Vec<Symbol>,
    /// Why the first of these has none.
    pub why: String,
}

impl Lookup<'_> {
    /// The prim_funcs that a graph of a lowered program calls, with their best records. One without a record stays as written.
    ///
    /// # Errors
    /// The database cannot be read, or there is no such graph.
    pub fn of_graph(&self, lowered: &Program, graph: &str, notices: &dyn Notices) -> Result<BestKernels, Error> {
        let recurring = lowered.graph(Some(graph))?.map_or(Vec::new(), recurring_calls);
        let funcs = &lowered.module().funcs;
        let positions: Vec<usize> = (0..funcs.len()).filter(|&i| recurring.contains(&funcs[i].name)).collect();
        let distinct = Workload::distinct(lowered.module(), &positions);
        let mut found = BestKernels { n_distinct: distinct.len(), ..BestKernels::default() };
        for (workload, names) in distinct {
            let workload = workload.with_intrinsics(self.intrinsics.clone());
            let Some(best) = records::best(&workload, self.db, &self.filter, 1, notices)? else {
                // The reason is mostly the same for all functions.
                if found.missing.is_empty() {
                    found.why = records::why_none(&workload, self.db, self.dir, &self.filter);
                }
                found.missing.push(workload.name);
                continue;
            };
            if !best.record.context.checked {
                notices.warn(&format!("{}: the record's result was not checked", workload.name));
            }
            found.n_tuned += 1;
            found.tuned.extend(names.into_iter().map(|name| (name, best.schedule.func(0).clone())));
        }
        Ok(found)
    }
}

impl BestKernels {
    /// Tells how many distinct prim_funcs have a record.
    pub fn tell(&self, graph: &str, notices: &dyn Notices) {
        let told = format!("{} of {} distinct prim_funcs of `{graph}` have a record", self.n_tuned, self.n_distinct);
        let names: Vec<String> = self.missing.iter().map(|n| format!("`{n}`")).collect();
        match names.is_empty() {
            true => notices.note(&told),
            false => notices.warn(&format!("{told}; as written: {} ({})", names.join(", "), self.why)),
        }
    }
}

/// A program to compile for calls in this process.
pub struct Request {
    /// The program.
    pub source: Source,
    /// The setting to compile in.
    pub wanted: setting::Wanted,
    /// The directory of the database with the records to use; without it, kernels are compiled as written.
    pub work_dir: Option<PathBuf>,
    /// Files of tensor intrinsics.
    pub intrin: Vec<PathBuf>,
}

/// What a program is, compiled or ready to be.
pub enum Compiled {
    /// A graph, with its weights.
    Model {
        /// The model.
        model: Box<Model>,
        /// The setting that it was compiled in.
        setting: Setting,
    },
    /// A function.
    Function {
        /// Its workload.
        workload: Box<Workload>,
        /// The scheduled version.
        func: Box<Func>,
        /// The setting to compile it in.
        setting: Setting,
    },
}

impl Request {
    /// Compiles the graph of a program; or finds the version of its only function, which the caller compiles.
    ///
    /// # Errors
    /// The program or an option is wrong, weights are missing, or the machine lacks memory.
    pub fn compile(&self, notices: &dyn Notices) -> Result<Compiled, Error> {
        let program = self.source.read()?;
        if !program.parsed.warnings.is_empty() {
            let warnings = program.parsed.warnings.clone();
            notices.diagnostics(&crate::diagnostic::Diagnostics::new(program.source(), warnings));
        }
        let setting = self.wanted.here(notices)?;
        let intrinsics = program::intrinsics(&self.intrin)?;
        let db = self.work_dir.as_ref().map(|dir| databases::require(dir)).transpose()?;
        db.iter().for_each(|db| databases::tell_problems(db, notices));
        let lookup = self.work_dir.as_ref().map(|dir| {
            let intrinsics = intrinsics.clone();
            Lookup { db: db.as_ref(), dir, filter: setting.filter(), intrinsics }
        });
        let func = self.source.func.as_deref().filter(|_| program.origin.is_none());
        let Some(graph) = program.graph(func)? else {
            let workload = only_function(&program, func)?.with_intrinsics(intrinsics);
            let best = match &lookup {
                None => None,
                Some(lookup) => {
                    let best = records::best(&workload, lookup.db, &lookup.filter, 1, notices)?;
                    if best.is_none() {
                        let why = records::why_none(&workload, lookup.db, lookup.dir, &lookup.filter);
                        notices.warn(&format!("no record for `{}`: {why}; as written", workload.name));
                    }
                    best
                }
            };
            let func = best.map_or_else(|| workload.func().clone(), |best| best.schedule.func(0).clone());
            return Ok(Compiled::Function { workload: Box::new(workload), func: Box::new(func), setting });
        };
        let name = graph.name.to_string();
        let cx = self.source.context(setting.strict_fp)?;
        let lowered = program.lowered(&cx)?;
        let best = match &lookup {
            Some(lookup) => {
                let found = lookup.of_graph(&lowered, &name, notices)?;
                found.tell(&name, notices);
                found
            }
            None => BestKernels::default(),
        };
        let model = compile(&self.source, &lowered, &name, &cx, &setting, &best)?;
        Ok(Compiled::Model { model: Box::new(model), setting })
    }
}

/// Compiles a graph of a lowered program with its best kernels, and loads its weights.
///
/// # Errors
/// A kernel cannot be compiled, weights are missing, or the machine lacks memory.
pub fn compile(
    source: &Source,
    lowered: &Program,
    name: &str,
    cx: &Context,
    setting: &Setting,
    best: &BestKernels,
) -> Result<Model, Error> {
    let failed = |e| failed(lowered, name, e);
    let schedule = |func| best.tuned.get(&func).cloned();
    let model = Model::with_schedules(&lowered.graph_module(), name, &cx.libraries, setting, schedule);
    let mut model = model.map_err(failed)?;
    if !model.weights().is_empty() {
        let weights = Weights::new(Path::new(&source.name), source.weights.as_deref()).of(model.program())?;
        model.load_constants(&weights).map_err(failed)?;
    }
    Ok(model)
}

/// The workload of the only function of a program without graphs.
fn only_function(program: &Program, func: Option<&str>) -> Result<Workload, Error> {
    match &program.functions(func)?[..] {
        [one] => {
            program::check_concrete(&program.module().funcs[*one])?;
            Ok(Workload::of(program.module(), *one))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|&i| program.module().funcs[i].name.as_str()).collect();
            let message = format!("`{}` has {} functions: `{}`", program.name, names.len(), names.join("`, `"));
            Err(Error::Usage(message, "choose one by its name".to_owned()))
        }
    }
}

/// Why a model was not compiled or a call failed.
pub fn failed(program: &Program, name: &str, error: ModelError) -> Error {
    match error {
        ModelError::Graph(found) => program::mistakes(program, found),
        ModelError::NoFunction(_) | ModelError::Argument(_) | ModelError::Library(_) => {
            Error::Usage(error.to_string(), String::new())
        }
        ModelError::Compile { .. } | ModelError::Failed { .. } => Error::Negative(format!("`{name}` failed: {error}")),
        ModelError::Machine(_) => Error::Machine(error.to_string(), String::new()),
    }
}
