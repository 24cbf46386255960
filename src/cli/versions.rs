//! Selects the version of each function that a command works on: as written, with its best record, or with a given
//! schedule.

use super::args::{Global, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::records;
use super::scheduled::Request;
use crate::ir::Func;
use crate::machine::Isa;
use crate::tune::best::Best;
use crate::workload::Setting;
use crate::workload::Workload;
use std::path::{Path, PathBuf};

/// The options that choose functions and their versions.
#[derive(clap::Args, Debug)]
pub(super) struct VersionArgs {
    /// Only this function
    #[arg(long, value_name = "NAME")]
    pub func: Option<String>,
    /// Take the program as written (the default)
    #[arg(long, conflicts_with_all = ["best", "trace"])]
    as_written: bool,
    /// Apply the best known schedule of each function
    #[arg(long, conflicts_with = "trace")]
    pub best: bool,
    #[command(flatten)]
    intrin: Intrin,
    /// Apply this trace (Python or JSON) or schedule function
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Seed for decisions that the trace leaves open, and of random inputs
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::args::seed)]
    #[arg(allow_negative_numbers = true)]
    pub seed: u64,
    #[command(flatten)]
    pub machine: Machine,
    #[command(flatten)]
    pub work_dir: WorkDir,
}

impl VersionArgs {
    /// The versions to work on.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            best: self.best,
            trace: self.trace.as_deref(),
            func: self.func.as_deref(),
            seed: self.seed,
            intrin: &self.intrin,
            machine: &self.machine,
            work_dir: &self.work_dir,
        }
    }
}

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
}
