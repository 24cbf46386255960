//! Tuning from Python.

use super::errors;
use super::kernel::Kernel;
use super::waiting::{self, Teller};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tvmr::callable::Callable;
use tvmr::codegen::Workers;
use tvmr::diagnostic::Diagnostics;
use tvmr::export;
use tvmr::ir::{Func, Module};
use tvmr::request::program::{self, Content, Program, Unknown};
use tvmr::request::setting::{Threads, Wanted};
use tvmr::request::tuning::{Plan, Request, TimeLimit};
use tvmr::request::verdict::Unsuccessful;
use tvmr::request::{Error, Notices, Status, building, databases};
use tvmr::script::{Dialect, print_module};
use tvmr::te_function::WorkloadChoice;
use tvmr::tune::config::StrategyChoice;
use tvmr::tune::events::{Event, Observer};
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
        export::Function { name: self.workload.name.to_string(), size_names: Vec::new(), versions: vec![version] }
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
            let workers = workers(setting.threads)?;
            Callable::compile(&workload, &func, &setting, Some(workers))
        };
        let compiled = waiting::wait(py, &Interrupt::new(), |()| Ok(()), work)?;
        Ok(Kernel::new(Arc::new(compiled.map_err(|e| errors::of_compiling(py, &e))?)))
    }
}

/// A pool with so many threads, which all kernels of this process share.
fn workers(threads: u32) -> Result<Arc<Workers>, tvmr::callable::CallableError> {
    use std::sync::{Mutex, PoisonError, Weak};
    static POOLS: Mutex<Vec<(u32, Weak<Workers>)>> = Mutex::new(Vec::new());
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked process has no threads of the pools that it inherits.
    pools.retain(|(_, pool)| pool.upgrade().is_some_and(|pool| pool.are_here()));
    if let Some(pool) = pools.iter().find(|(n, _)| *n == threads).and_then(|(_, pool)| pool.upgrade()) {
        return Ok(pool);
    }
    let new = Workers::new(threads.max(1) as usize, &tvmr::codegen::Pinning::None);
    let new = Arc::new(new.map_err(|e| tvmr::callable::CallableError::Machine(e.to_string()))?);
    pools.push((threads, Arc::downgrade(&new)));
    Ok(new)
}

/// What a run tells while it goes on.
enum Message {
    /// Trials done, trials wanted, and the status line.
    Progress(u64, u64, String),
    Note(String),
    Warning(String),
}

/// Sends a run's notices and events to the thread that waits.
struct Sender<'a, T> {
    teller: &'a Teller<Message, T>,
    status: Status,
}

impl<T> Notices for Sender<'_, T> {
    fn note(&self, text: &str) {
        self.teller.tell(Message::Note(text.to_owned()));
    }

    fn warn(&self, text: &str) {
        self.teller.tell(Message::Warning(text.to_owned()));
    }

    fn diagnostics(&self, found: &Diagnostics) {
        self.teller.tell(Message::Warning(found.render(false).trim_end().to_owned()));
    }
}

impl<T> Observer for Sender<'_, T> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Note(text) => self.note(text),
            Event::Warning(text) => self.warn(text),
            Event::Baseline { task, result: Err(failure) } => {
                let name = self.status.name(*task);
                self.warn(&format!("`{name}` as written: {} ({}): {}", failure.kind, failure.stage, failure.message));
            }
            _ => {
                let text = self.status.follow(event).unwrap_or_default();
                let is_news = !text.is_empty() || matches!(event, Event::Opened { .. });
                if is_news {
                    self.teller.tell(Message::Progress(self.status.done(), self.status.wanted(), text));
                }
            }
        }
    }
}

/// What a run is asked for.
struct Order {
    name: String,
    content: Content,
    bind: Vec<(String, i64)>,
    request: Request,
    max_time: Option<Duration>,
    work_dir: PathBuf,
    pin: bool,
}

/// The functions with a valid version, and why there are no others.
type Outcome = Result<(Vec<Found>, Option<Unsuccessful>), Error>;

impl Order {
    fn carry_out(self, interrupt: &Interrupt, teller: &Teller<Message, Outcome>) -> Outcome {
        let mut sender = Sender { teller, status: Status::default() };
        let limit = TimeLimit::start(self.max_time)?;
        let program = match self.content {
            Content::Text(text) => Program::from_script(&self.name, &self.bind, text, None)?,
            model @ Content::Model(_) => {
                Program::from_content(&self.name, &self.bind, model, WorkloadChoice::default(), None, &Unknown)?
            }
        };
        if !program.parsed.warnings.is_empty() {
            sender.diagnostics(&Diagnostics::new(program.source(), program.parsed.warnings.clone()));
        }
        let plan = self.request.plan(&program, &limit, &sender)?;
        let mut db = plan.database(&self.work_dir, &sender)?;
        sender.status = Status::new(plan.config.max_time);
        let summary = plan.tune(&program, &self.work_dir, &mut db, self.pin, &mut sender, interrupt)?;
        let found = found(&program, &plan, &summary, &db)?;
        let verdict = plan.verdict(&program, &summary, &self.work_dir, interrupt);
        Ok((found, verdict.err()))
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

/// Tunes the functions of a program. Returns the best version of each that has one, and the exception that tells why others have
/// none.
///
/// `hear` is called with what happens meanwhile: `("progress", done, wanted, text)`, `("note", 0, 0, text)` or
/// `("warning", 0, 0, text)`.
#[pyfunction]
#[pyo3(signature = (
    *, name, text, work_dir, hear, bind, func, trials, max_seconds, patience, space, strategy, seed, seed_from, intrin, target,
    threads, isa, strict_fp, check, jobs, pin
))]
#[expect(clippy::too_many_arguments, reason = "an argument for each option")]
pub(crate) fn tune(
    py: Python<'_>,
    name: String,
    text: Option<String>,
    work_dir: PathBuf,
    hear: &Bound<'_, PyAny>,
    bind: Vec<(String, i64)>,
    func: Option<String>,
    trials: u64,
    max_seconds: Option<f64>,
    patience: Option<f64>,
    space: String,
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
) -> PyResult<(Vec<Found>, Option<Py<PyAny>>)> {
    let wrong = |text: String| errors::input(py, text);
    let positive = |what: &str, n: Option<usize>, most: usize| match n {
        Some(n) if !(1..=most).contains(&n) => Err(wrong(format!("`{what}` is {n}, which is not from 1 to {most}"))),
        _ => Ok(n),
    };
    let max_time = match max_seconds {
        Some(s) if !(s > 0.0 && s <= 1e9) => return Err(wrong(format!("`max_seconds` is {s}, which is not positive"))),
        other => other.map(Duration::from_secs_f64),
    };
    if patience.is_some_and(|p| !(p > 0.0 && p < 1.0)) {
        return Err(wrong("`patience` is a share between 0 and 1, such as 0.01".into()));
    }
    if !(1..=1_000_000_000).contains(&trials) {
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
    let isa = isa.map(str::parse).transpose().map_err(|_| {
        let known: Vec<&str> = tvmr::machine::Isa::ALL.iter().map(|i| i.name()).collect();
        wrong(format!("there is no such instruction set\n  help: name one of `{}`", known.join("`, `")))
    })?;
    let threads = positive("threads", threads, 1024)?.map_or(Threads::All, Threads::Count);
    let jobs = positive("jobs", jobs, 1024)?;
    let wanted = Wanted { threads, isa, strict_fp, check };
    let request = Request {
        func,
        trials: Some(trials),
        patience,
        space: Some(space),
        strategy,
        seed,
        seed_from,
        intrin,
        target,
        wanted,
        jobs,
    };
    let content = match text {
        Some(text) => Content::Text(text),
        None => program::content(name.as_ref()).map_err(|e| errors::of_request(py, &e))?,
    };
    let order = Order { name, content, bind, request, max_time, work_dir, pin };
    let interrupt = Interrupt::new();
    let own = interrupt.clone();
    let tell = |message: Message| {
        let (kind, done, wanted, text) = match message {
            Message::Progress(done, wanted, text) => ("progress", done, wanted, text),
            Message::Note(text) => ("note", 0, 0, text),
            Message::Warning(text) => ("warning", 0, 0, text),
        };
        hear.call1((kind, done, wanted, text)).map(drop)
    };
    let outcome = waiting::wait(py, &interrupt, tell, move |teller| order.carry_out(&own, teller))?;
    let (found, unsuccessful) = outcome.map_err(|e| errors::of_request(py, &e))?;
    let exception = unsuccessful.map(|why| {
        let exception = match why.first_refusal {
            Some(refusal) => errors::nothing_valid(py, format!("{}\n{refusal}", why.error)),
            None => errors::of_request(py, &why.error),
        };
        exception.into_value(py).into_any()
    });
    Ok((found, exception))
}
