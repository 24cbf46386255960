//! Selects the version of each function that a command works on: as written, with its best record, or with a given
//! schedule.

use super::args::{Global, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::records;
use super::scheduled::Request;
use crate::check::params;
use crate::graph::GraphModule;
use crate::graph::constness::recurring_calls;
use crate::graph::program::{Place, Step};
use crate::ir::{Func, Symbol};
use crate::machine::Isa;
use crate::model::{Model, ModelError};
use crate::tune::best::Best;
use crate::workload::Setting;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::path::Path;

/// The versions that a command line asks for; by default, as written.
pub(super) struct Wanted<'a> {
    /// Whether to apply the best known schedule.
    pub best: bool,
    /// The file of a schedule to apply.
    pub trace: Option<&'a Path>,
    /// The only function to select; `None` for all.
    pub func: Option<&'a str>,
    /// Seed for decisions that the schedule leaves open.
    pub seed: u64,
    /// Files of tensor intrinsics.
    pub intrin: &'a Intrin,
    /// The machine whose records are used.
    pub machine: &'a Machine,
    /// The directory of the database.
    pub work_dir: &'a WorkDir,
}

/// A version of a function to compile.
pub(super) struct Version {
    /// The function as written, in the database's form.
    pub workload: Workload,
    /// The function with its schedule.
    pub func: Func,
    /// The setting to compile and run it in.
    pub setting: Setting,
}

/// The setting that a record was measured in, unless an option overrides it.
pub(super) fn setting_of(best: &Best, setting: &Setting, global: &Global) -> Setting {
    let mut setting = setting.clone();
    let context = &best.record.context;
    setting.threads = context.threads.max(1);
    setting.strict_fp |= context.strict_fp;
    if global.isa.is_none()
        && let Ok(isa) = context.isa.parse::<Isa>()
        && isa.is_available(&setting.target)
    {
        setting.isa = isa;
    }
    setting
}

impl Wanted<'_> {
    /// The versions of these functions of a program.
    ///
    /// # Errors
    /// If the schedule cannot be read or applied, or a function has no record.
    pub(super) fn versions(
        &self,
        global: &Global,
        program: &Program,
        functions: &[usize],
        setting: &Setting,
        console: Console,
    ) -> Result<Vec<Version>, Failure> {
        let intrinsics = load::intrinsics(self.intrin)?;
        let workload = |&i: &usize| (i, Workload::of(program.module(), i).with_intrinsics(intrinsics.clone()));
        let workloads = functions.iter().map(workload);
        if let Some(trace) = self.trace {
            let request = Request {
                program,
                trace,
                func: self.func,
                seed: self.seed,
                intrinsics: intrinsics.clone(),
                dialect: program.dialect(None),
            };
            let schedule = request.scheduled(console)?;
            let version = |(i, workload): (usize, Workload)| {
                let mut func = schedule.funcs[i].clone();
                func.name = workload.func().name;
                Version { workload, func, setting: setting.clone() }
            };
            return Ok(workloads.map(version).collect());
        }
        if !self.best {
            let version = |(_, workload): (usize, Workload)| Version {
                func: workload.func().clone(),
                workload,
                setting: setting.clone(),
            };
            return Ok(workloads.map(version).collect());
        }
        let target = load::target(self.machine)?;
        let db = records::open(&self.work_dir.work_dir, console)?;
        let filter = records::filter(&target, self.machine, global, false);
        let mut versions = Vec::new();
        for (_, workload) in workloads {
            let Some(best) = records::best(&workload, db.as_ref(), &filter, 1, console)? else {
                let why = records::why_none(&workload, db.as_ref(), &self.work_dir.work_dir, &filter);
                return Err(Failure::Negative(format!("no record for `{}` on this target: {why}", workload.name)));
            };
            records::say_origin(&workload, &best, self.machine, console);
            let setting = setting_of(&best, setting, global);
            versions.push(Version { func: best.schedule.func(0).clone(), workload, setting });
        }
        Ok(versions)
    }

    /// The prim_funcs that a graph of a lowered program calls: as written, or with their best records. One without a record stays
    /// as written; how many have one is told.
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
        let called = lowered.graph(Some(graph))?.map(recurring_calls).unwrap_or_default();
        let funcs = &lowered.module().funcs;
        let indices: Vec<usize> = (0..funcs.len()).filter(|&i| called.contains(&funcs[i].name)).collect();
        let distinct = Workload::distinct(lowered.module(), &indices);
        let mut kernels = ModelKernels { funcs: BTreeMap::new(), n_tuned: 0, n_distinct: distinct.len() };
        let search = match self.best {
            false => None,
            true => {
                let target = load::target(self.machine)?;
                let filter = records::filter(&target, self.machine, global, false);
                Some((records::open(&self.work_dir.work_dir, console)?, filter))
            }
        };
        let intrinsics = load::intrinsics(self.intrin)?;
        let mut missing: Vec<Symbol> = Vec::new();
        let mut why = String::new();
        for (workload, names) in distinct {
            let workload = workload.with_intrinsics(intrinsics.clone());
            let mut best = None;
            if let Some((db, filter)) = &search {
                best = records::best(&workload, db.as_ref(), filter, 1, console)?;
                match &best {
                    Some(best) if !best.record.context.checked => {
                        console.warn(&format!("{}: the record's result was not checked", workload.name));
                    }
                    Some(_) => {}
                    None => {
                        // The reason is mostly the same for all functions.
                        if missing.is_empty() {
                            why = records::why_none(&workload, db.as_ref(), &self.work_dir.work_dir, filter);
                        }
                        missing.push(workload.name);
                    }
                }
            }
            kernels.n_tuned += usize::from(best.is_some());
            let written = workload.func();
            for name in names {
                let version = best.as_ref().map(|b| b.schedule.func(0).clone());
                kernels.funcs.insert(name, Kernel { written: written.clone(), version });
            }
        }
        if search.is_some() {
            let told =
                format!("{} of {} distinct prim_funcs of `{graph}` have a record", kernels.n_tuned, kernels.n_distinct);
            let names: Vec<String> = missing.iter().map(|n| format!("`{n}`")).collect();
            match names.is_empty() {
                true => console.note(&told),
                false => console.warn(&format!("{told}; as written: {} ({why})", names.join(", "))),
            }
        }
        Ok(kernels)
    }
}

/// The versions of the prim_funcs of a model.
pub(super) struct ModelKernels {
    funcs: BTreeMap<Symbol, Kernel>,
    /// How many of the distinct ones have a record.
    pub n_tuned: usize,
    /// How many differ by more than their names.
    pub n_distinct: usize,
}

/// A prim_func of a model.
struct Kernel {
    written: Func,
    /// With its best schedule; `None` if it is taken as written.
    version: Option<Func>,
}

impl ModelKernels {
    /// The prim_func as written.
    pub(super) fn written(&self, name: Symbol) -> Option<&Func> {
        self.funcs.get(&name).map(|k| &k.written)
    }

    /// Whether the prim_func has a record.
    pub(super) fn is_tuned(&self, name: Symbol) -> bool {
        self.funcs.get(&name).is_some_and(|k| k.version.is_some())
    }

    /// The least extent that kernels index by the values of an input; `None` if they are no indices.
    pub(super) fn index_limit(&self, model: &Model, input: usize) -> Option<i64> {
        let of_step = |step: &Step| {
            let limits = params::index_limits(self.written(step.func)?);
            let passed = step.args.iter().zip(limits).filter(|(place, _)| **place == Place::Input(input));
            passed.filter_map(|(_, limit)| limit).min()
        };
        model.program().steps.iter().filter_map(of_step).min()
    }

    /// The model of these kernels.
    pub(super) fn compile(&self, lowered: &Program, name: &str, setting: &Setting) -> Result<Model, ModelError> {
        let module: GraphModule = lowered.graph_module();
        Model::with_kernels(&module, name, setting, |module, i| {
            let func = &module.funcs[i];
            let known = self.funcs.get(&func.name).map(|k| k.version.as_ref().unwrap_or(&k.written));
            Ok(known.unwrap_or(func).clone())
        })
    }
}
