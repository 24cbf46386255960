//! The prim_funcs of a graph in the versions that a command works on: as written, or with their best records.

use super::args::Global;
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::records;
use super::versions::Wanted;
use crate::check::params;
use crate::graph;
use crate::graph::constness::recurring_calls;
use crate::graph::pass::Context;
use crate::graph::program::{Place, Step};
use crate::ir::{Func, Symbol};
use crate::model::{Model, ModelError};
use crate::request::models::{BestKernels, Lookup};
use crate::workload::{Setting, Workload};
use std::collections::BTreeMap;

/// The prim_funcs that a graph calls.
pub(super) struct ModelKernels {
    /// All as written, those of the preparation too.
    written: BTreeMap<Symbol, Workload>,
    /// The names of those that run in each call.
    recurring: Vec<Symbol>,
    /// The steps that call them, as the graph states them; none if it has mistakes, which compiling it tells.
    steps: Vec<Step>,
    /// Those that have a record, with their best schedules, if records were looked for.
    best: Option<BestKernels>,
    /// How many distinct ones of those that run in each call have a record.
    pub n_tuned: usize,
    /// How many of those that run in each call differ by more than their names.
    pub n_distinct: usize,
}

impl Wanted<'_> {
    /// Refuses a trace for a graph.
    ///
    /// # Errors
    /// There is a trace.
    pub(super) fn check_for_graph(&self, name: &str) -> Result<(), Failure> {
        if self.trace.is_none() {
            return Ok(());
        }
        let help = "name one of its prim_funcs by `--func`".to_owned();
        Err(Failure::Usage(format!("a trace is for one prim_func, and `{name}` is a graph"), help))
    }

    /// The prim_funcs that a graph of a lowered program calls: as written, or with their best records. One without a record stays
    /// as written.
    ///
    /// # Errors
    /// The database cannot be read, or there is no such graph.
    pub(super) fn of_model(
        &self,
        global: &Global,
        lowered: &Program,
        graph: &str,
        console: Console,
    ) -> Result<ModelKernels, Failure> {
        let function = lowered.graph(Some(graph))?;
        let (called, recurring) = match function {
            Some(function) => (function.called_prim_funcs(), recurring_calls(function)),
            None => (Vec::new(), Vec::new()),
        };
        let funcs = &lowered.module().funcs;
        let positions =
            |names: &[Symbol]| -> Vec<usize> { (0..funcs.len()).filter(|&i| names.contains(&funcs[i].name)).collect() };
        let as_written = |i: usize| (funcs[i].name, Workload::of(lowered.module(), i));
        let distinct = Workload::distinct(lowered.module(), &positions(&recurring));
        let mut kernels = ModelKernels {
            written: positions(&called).into_iter().map(as_written).collect(),
            steps: function.and_then(|f| graph::program::Program::of(f).ok()).map_or(Vec::new(), steps),
            recurring,
            best: None,
            n_tuned: 0,
            n_distinct: distinct.len(),
        };
        if !self.best {
            return Ok(kernels);
        }
        let target = load::target(self.machine)?;
        let filter = records::filter(&target, self.machine, global, false);
        let db = records::open(&self.work_dir.work_dir, console)?;
        let lookup = Lookup {
            db: db.as_ref(),
            dir: &self.work_dir.work_dir,
            filter,
            intrinsics: load::intrinsics(self.intrin)?,
        };
        let found = lookup.of_graph(lowered, graph, &console)?;
        (kernels.n_tuned, kernels.n_distinct) = (found.n_tuned, found.n_distinct);
        kernels.best = Some(found);
        Ok(kernels)
    }
}

/// All steps of a program.
fn steps(program: graph::program::Program) -> Vec<Step> {
    [program.preparation, program.steps].concat()
}

impl ModelKernels {
    /// Tells how many distinct prim_funcs have a record, if records were looked for.
    pub(super) fn tell(&self, graph: &str, console: Console) {
        if let Some(best) = &self.best {
            best.tell(graph, &console);
        }
    }

    /// The prim_func as written.
    pub(super) fn written(&self, name: Symbol) -> Option<&Func> {
        self.written.get(&name).map(Workload::func)
    }

    /// The prim_funcs as written that run in each call.
    pub(super) fn recurring(&self) -> impl Iterator<Item = &Workload> {
        self.recurring.iter().filter_map(|name| self.written.get(name))
    }

    /// Whether the prim_func has a record.
    pub(super) fn is_tuned(&self, name: Symbol) -> bool {
        self.best.as_ref().is_some_and(|best| best.tuned.contains_key(&name))
    }

    /// The least extent that prim_funcs index by the values of an input or weight; `None` if they are no indices.
    pub(super) fn index_limit(&self, input: usize) -> Option<i64> {
        let of_step = |step: &Step| {
            let limits = params::index_limits(self.written(step.routine.prim_func()?)?);
            let passed = step.args.iter().zip(limits).filter(|(place, _)| **place == Place::Input(input));
            passed.filter_map(|(_, limit)| limit).min()
        };
        self.steps.iter().filter_map(of_step).min()
    }

    /// The model of these prim_funcs.
    pub(super) fn compile(
        &self,
        lowered: &Program,
        name: &str,
        cx: &Context,
        setting: &Setting,
    ) -> Result<Model, ModelError> {
        let module = lowered.graph_module();
        Model::with_schedules(&module, name, &cx.libraries, setting, |func| {
            self.best.as_ref()?.tuned.get(&func).cloned()
        })
    }
}
