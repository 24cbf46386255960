//! Tuning from Python.

use super::kernel::Kernel;
use super::model::Model;
use super::options::{self, SourceArgs};
use super::pools::workers;
use super::telling::{Message, Sender};
use super::waiting::{self, Teller};
use super::{compiling, errors};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tvmr::callable::{Callable, CallableError};
use tvmr::diagnostic::Diagnostics;
use tvmr::export;
use tvmr::graph::pass::Context;
use tvmr::ir::{Func, Module};
use tvmr::request::graph_building::{GraphVersion, KnownValues};
use tvmr::request::models::{self, BestKernels, Lookup, Source};
use tvmr::request::program::Program;
use tvmr::request::tuning::{Plan, Request, TimeLimit};
use tvmr::request::verdict::Unsuccessful;
use tvmr::request::{Error, Notices, Status, building, databases};
use tvmr::script::{Dialect, print_module};
use tvmr::tune::config::{Config, StrategyChoice};
use tvmr::tune::summary::{Summary, TaskSummary};
use tvmr::tune::{Interrupt, best};
use tvmr::workload::{Setting, Workload};

/// The best version of a function.
#[pyclass(frozen, module = "tvmr")]
pub(crate) struct Found {
    workload: Workload,
    func: Func,
    trace: String,
    trace_json: String,
    dialect: Dialect,
    setting: Setting,
    summary: TaskSummary,
}

impl Found {
    /// It, as a function of a library; for code that runs on this CPU `only`, or on others as well.
    pub(crate) fn exported(&self, only: bool) -> export::Function {
        let secs = self.summary.best_us.map(|us| us / 1e6);
        let version = building::version(&self.workload, self.func.clone(), &self.setting, only, secs);
        let name = self.workload.name.to_string();
        export::Function { name, size_names: Vec::new(), batch: None, versions: vec![version] }
    }
}

#[pymethods]
impl Found {
    /// The name of the function.
    #[getter]
    fn name(&self) -> &str {
        self.workload.name.as_str()
    }

    /// The program with the schedule applied, in TVMScript.
    #[getter]
    fn script(&self) -> String {
        let func = self.workload.renamed(self.func.clone());
        print_module(&Module { funcs: vec![func], ..Module::default() }, self.dialect)
    }

    /// The schedule as Python that TVM runs.
    #[getter]
    fn trace(&self) -> &str {
        &self.trace
    }

    /// The schedule as TVM's JSON.
    #[getter]
    fn trace_json(&self) -> &str {
        &self.trace_json
    }

    /// The summary of its tuning, as JSON of one object, whose fields docs/tuning.md lists.
    #[getter]
    fn summary(&self) -> String {
        serde_json::to_string(&self.summary).unwrap_or_default()
    }

    /// Compiles it.
    fn compile(&self, py: Python<'_>) -> PyResult<Kernel> {
        let (workload, func, setting) = (self.workload.clone(), self.func.clone(), self.setting.clone());
        let work = move |_: &Teller<(), _>| {
            let workers = workers(setting.threads).map_err(|e| CallableError::Machine(e.to_string()))?;
            Callable::compile(&workload, &func, &setting, Some(workers))
        };
        let compiled = waiting::wait(py, &Interrupt::new(), |()| Ok(()), work)?;
        Ok(Kernel::new(Arc::new(compiled.map_err(|e| errors::of_compiling(py, &e))?)))
    }
}

/// The model that a program is, with its tuned kernels.
#[derive(Clone)]
#[pyclass(frozen, module = "tvmr")]
pub(crate) struct FoundModel(Arc<TunedModel>);

struct TunedModel {
    source: Source,
    lowered: Program,
    name: String,
    context: Context,
    setting: Setting,
    best: BestKernels,
}

impl FoundModel {
    /// It, as a function of a library; for code that runs on this CPU `only`, or on others as well.
    ///
    /// # Errors
    /// Weights are missing, or what is computed once fails.
    pub(crate) fn exported(&self, only: bool) -> Result<export::Function, Error> {
        let TunedModel { source, lowered, name, context, setting, best } = &*self.0;
        let mut known = KnownValues::new(source.name.as_ref(), source.weights.as_deref());
        let schedule = |func| best.tuned.get(&func).cloned();
        let version = GraphVersion::of(lowered, name)?;
        let version = version.build(schedule, &mut known, &context.libraries, setting, only)?;
        Ok(export::Function { name: name.clone(), size_names: Vec::new(), batch: None, versions: vec![version] })
    }
}

#[pymethods]
impl FoundModel {
    /// Compiles it, and loads its weights.
    fn compile(&self, py: Python<'_>) -> PyResult<Model> {
        let model = self.0.clone();
        let work = move |_: &Teller<(), _>| {
            let TunedModel { source, lowered, name, context, setting, best } = &*model;
            compiling::callable(models::compile(source, lowered, name, context, setting, best)?, setting.threads)
        };
        let compiled = waiting::wait(py, &Interrupt::new(), |()| Ok(()), work)?;
        Ok(Model::new(compiled.map_err(|e| errors::of_model(py, &e))?))
    }
}

/// What a run is asked for.
struct Order {
    source: Source,
    request: Request,
    max_time: Option<Duration>,
    work_dir: PathBuf,
    pin: bool,
}

/// The functions with a valid version, the model that they are of, and why there are no other functions.
type Outcome = Result<(Vec<Found>, Option<FoundModel>, Option<Unsuccessful>), Error>;

impl Order {
    fn carry_out(self, interrupt: &Interrupt, teller: &Teller<Message, Outcome>) -> Outcome {
        let mut sender = Sender { teller, status: Status::default() };
        let limit = TimeLimit::start(self.max_time)?;
        let program = self.source.read()?;
        if !program.parsed.warnings.is_empty() {
            sender.diagnostics(&Diagnostics::new(program.source(), program.parsed.warnings.clone()));
        }
        let context = self.source.context(self.request.wanted.strict_fp)?;
        let program = if program.graphs().is_empty() { program } else { program.lowered(&context)? };
        let plan = self.request.plan(&program, &limit, &sender)?;
        let mut db = plan.database(&self.work_dir, &sender)?;
        sender.status = Status::new(plan.config.max_time);
        let summary = plan.tune(&program, &self.work_dir, &mut db, self.pin, &mut sender, interrupt)?;
        let found = found(&program, &plan, &summary, &db)?;
        let verdict = plan.verdict(&program, &summary, &self.work_dir, interrupt);
        let name = program.graph(None).ok().flatten().map(|graph| graph.name.to_string());
        let model = match name.filter(|_| self.request.func.is_none()) {
            Some(name) => {
                let Config { setting, intrinsics, .. } = &plan.config;
                let (filter, intrinsics) = (setting.filter(), intrinsics.clone());
                let lookup = Lookup { db: Some(&db), dir: &self.work_dir, filter, intrinsics };
                let best = lookup.of_graph(&program, &name, &sender)?;
                let (source, setting) = (self.source, setting.clone());
                Some(FoundModel(Arc::new(TunedModel { source, lowered: program, name, context, setting, best })))
            }
            None => None,
        };
        Ok((found, model, verdict.err()))
    }
}

/// The best version of each function that has a valid one.
fn found(
    program: &Program,
    plan: &Plan,
    summary: &Summary,
    db: &tvmr::database::Database,
) -> Result<Vec<Found>, Error> {
    let dialect = program.parsed.dialect;
    let mut all = Vec::new();
    for i in 0..plan.functions.len() {
        let workload = plan.workload(program, i);
        let name = workload.name.as_str();
        let is_it = |t: &&TaskSummary| t.func == name || t.same_as.iter().any(|n| n == name);
        let Some(task) = summary.tasks.iter().find(is_it) else { continue };
        let setting = &plan.config.setting;
        let best = best::find(&workload, db, &setting.filter(), 1).map_err(databases::failed)?.best;
        let Some(best) = best else { continue };
        let trace = best.schedule.trace();
        all.push(Found {
            func: best.schedule.func(0).clone(),
            trace: trace.to_python(dialect),
            trace_json: trace.to_json().to_string(),
            dialect,
            setting: setting.clone(),
            summary: task.clone(),
            workload,
        });
    }
    Ok(all)
}

/// The functions, the model that they are of, and an exception.
type Answer = (Vec<Found>, Option<FoundModel>, Option<Py<PyAny>>);

/// Tunes the functions of a program. Returns the best version of each that has one, and the exception that tells why others have
/// none.
///
/// `hear` is called with what happens meanwhile: `("progress", done, wanted, text)`, `("note", 0, 0, text)` or
/// `("warning", 0, 0, text)`.
#[pyfunction]
#[pyo3(signature = (
    *, source, work_dir, hear, trials, max_seconds, patience, space, strategy, seed, seed_from, intrin, target,
    threads, isa, strict_fp, check, jobs, pin
))]
#[expect(clippy::too_many_arguments, reason = "an argument for each option")]
pub(crate) fn tune(
    py: Python<'_>,
    source: SourceArgs,
    work_dir: PathBuf,
    hear: &Bound<'_, PyAny>,
    trials: Option<u64>,
    max_seconds: Option<f64>,
    patience: Option<f64>,
    space: Option<String>,
    strategy: &str,
    seed: u64,
    seed_from: Vec<PathBuf>,
    intrin: Vec<PathBuf>,
    target: String,
    threads: Option<usize>,
    isa: Option<&str>,
    strict_fp: bool,
    check: bool,
    jobs: Option<usize>,
    pin: bool,
) -> PyResult<Answer> {
    let wrong = |text: String| errors::input(py, text);
    let max_time = match max_seconds {
        Some(s) if !(s > 0.0 && s <= 1e9) => return Err(wrong(format!("`max_seconds` is {s}, which is not positive"))),
        other => other.map(Duration::from_secs_f64),
    };
    if patience.is_some_and(|p| !(p > 0.0 && p < 1.0)) {
        return Err(wrong("`patience` is a share between 0 and 1, such as 0.01".into()));
    }
    if let Some(trials) = trials.filter(|trials| !(1..=1_000_000_000).contains(trials)) {
        return Err(wrong(format!("`trials` is {trials}, which is not from 1 to 1000000000")));
    }
    let strategy = match strategy {
        "evolutionary" => StrategyChoice::Evolutionary { seeds: true, cost_model: true },
        "random" => StrategyChoice::Random,
        "replay" => StrategyChoice::Replay,
        other => {
            let help = "it is `evolutionary`, `random` or `replay`";
            return Err(wrong(format!("there is no strategy `{other}`\n  help: {help}")));
        }
    };
    let wanted = options::wanted(py, threads, isa, strict_fp, check)?;
    let jobs = options::positive(py, "jobs", jobs)?;
    let source = source.read(py)?;
    let request = Request {
        func: source.func.clone(),
        trials,
        patience,
        space,
        strategy,
        seed,
        seed_from,
        intrin,
        target,
        wanted,
        jobs,
    };
    let order = Order { source, request, max_time, work_dir, pin };
    let interrupt = Interrupt::new();
    let own = interrupt.clone();
    let tell = |message: Message| message.pass_to(hear);
    let outcome = waiting::wait(py, &interrupt, tell, move |teller| order.carry_out(&own, teller))?;
    let (found, model, unsuccessful) = outcome.map_err(|e| errors::of_request(py, &e))?;
    let exception = unsuccessful.map(|why| {
        let exception = match why.first_refusal {
            Some(refusal) => errors::nothing_valid(py, format!("{}\n{refusal}", why.error)),
            None => errors::of_request(py, &why.error),
        };
        exception.into_value(py).into_any()
    });
    Ok((found, model, exception))
}
