//! Workloads: single functions in the form the database keeps, and the setting in which they are run.

mod setting;

pub use setting::Setting;

use crate::database::{Database, DatabaseError, Timestamp, WorkloadEntry, WorkloadId};
use crate::ir::equal::Equality;
use crate::ir::hash::workload_hash;
use crate::ir::inline::with_calls_inlined;
use crate::ir::{Func, Module, Symbol};
use crate::schedule::Schedule;
use crate::schedule::intrin::Intrinsics;
use crate::script::{self, Dialect, ParseOptions};
use std::sync::Arc;

/// The name under which every workload is stored.
pub const NAME: &str = "main";

/// A function to tune, alone in its module and called `main`.
#[derive(Clone)]
pub struct Workload {
    /// The module.
    pub module: Module,
    /// Name of the function in its source.
    pub name: Symbol,
    /// Its structural hash.
    pub hash: u64,
    /// The intrinsics of `tensorize` in its schedules, in addition to the built-in ones.
    intrinsics: Option<Arc<Intrinsics>>,
}

impl Workload {
    /// Function `index` of a module, as a workload: a kernel is one function, so the bodies of those that it calls stand in
    /// the place of the calls.
    pub fn of(module: &Module, index: usize) -> Workload {
        let mut func = with_calls_inlined(module, index).into_owned();
        let name = func.name;
        func.name = Symbol::new(NAME);
        let hash = workload_hash(&func).0;
        Workload { module: Module { funcs: vec![func], ..Module::default() }, name, hash, intrinsics: None }
    }

    /// The distinct programs among functions of a module, each with the names of all functions that are it.
    pub fn distinct(module: &Module, functions: &[usize]) -> Vec<(Workload, Vec<Symbol>)> {
        let mut found: Vec<(Workload, Vec<Symbol>)> = Vec::with_capacity(functions.len());
        for &index in functions {
            let workload = Workload::of(module, index);
            let is_same = |known: &Workload| {
                known.hash == workload.hash && Equality::default().funcs(known.func(), workload.func()).is_ok()
            };
            match found.iter_mut().find(|(known, _)| is_same(known)) {
                Some((_, names)) => names.push(workload.name),
                None => found.push((workload.clone(), vec![workload.name])),
            }
        }
        found
    }

    /// The workload, whose schedules know these intrinsics.
    #[must_use]
    pub fn with_intrinsics(self, intrinsics: Option<Arc<Intrinsics>>) -> Workload {
        Workload { intrinsics, ..self }
    }

    /// A schedule of the workload with an empty trace.
    pub fn schedule(&self, seed: u64) -> Schedule {
        Schedule::new(&self.module, seed).with_intrinsics(self.intrinsics.clone())
    }

    /// The function.
    pub fn func(&self) -> &Func {
        &self.module.funcs[0]
    }

    /// The text that the database stores: the function without the parameters that have a value, which are no part of
    /// its structure.
    pub fn text(&self) -> String {
        let mut module = self.module.clone();
        module.funcs.iter_mut().for_each(|f| f.bound.clear());
        script::print_module(&module, Dialect::Current)
    }

    /// Is a stored workload this one? Hashes are equal already; this tells the rare case that they should not be.
    pub fn is(&self, entry: &WorkloadEntry) -> bool {
        let Ok(parsed) = script::parse(&entry.tir, "database", &ParseOptions::default()) else { return false };
        match &parsed.module.funcs[..] {
            [stored] => Equality::default().funcs(self.func(), stored).is_ok(),
            _ => false,
        }
    }

    /// The workload's number in a database, if it is there.
    pub fn find(&self, db: &Database) -> Option<WorkloadId> {
        db.find_workload(self.hash, |entry| self.is(entry))
    }

    /// The workload's number in a database, which it is added to.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn commit(&self, db: &mut Database, now: Timestamp) -> Result<WorkloadId, DatabaseError> {
        let entry = WorkloadEntry::new(self.hash, self.text(), self.name.as_str(), now);
        db.commit_workload(&entry, |stored| self.is(stored))
    }

    /// A scheduled version of the workload, called as the function it comes from.
    pub fn renamed(&self, mut func: Func) -> Func {
        func.name = self.name;
        func
    }
}
