//! The setting of this machine, in which programs are compiled and measured.

use super::{Error, Notices};
use crate::machine::{Isa, Target};
use crate::workload::Setting;
use std::path::Path;

/// How code is to be generated and run on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Threads that a kernel's parallel loops use.
    pub threads: Threads,
    /// The instruction set; `None` for the best one.
    pub isa: Option<Isa>,
    /// Whether floating-point operations are kept as written.
    pub strict_fp: bool,
    /// Whether results are compared with the reference.
    pub check: bool,
}

/// Number of threads, as given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// One thread per core.
    All,
    /// This many.
    Count(usize),
}

impl Threads {
    /// The number of threads on a machine with `cores` cores.
    pub fn on(self, cores: usize) -> usize {
        match self {
            Threads::All => cores.max(1),
            Threads::Count(n) => n,
        }
    }
}

impl Wanted {
    /// The setting of this machine. Measurements are recorded for it, whatever machine a space is made for.
    ///
    /// # Errors
    /// The CPU does not have the instruction set.
    pub fn here(&self, notices: &dyn Notices) -> Result<Setting, Error> {
        let detected = Target::native();
        for note in &detected.notes {
            notices.note(note);
        }
        let target = detected.target;
        let isa = match self.isa {
            None => target.best_isa(),
            Some(isa) if isa.is_available(&target) => isa,
            Some(isa) => {
                let known: Vec<&str> = Isa::ALL.iter().filter(|i| i.is_available(&target)).map(|i| i.name()).collect();
                let help = format!("it has `{}`", known.join("`, `"));
                return Err(Error::Usage(format!("this CPU does not have `{isa}`"), help));
            }
        };
        let threads = self.threads.on(target.cores as usize) as u32;
        if threads > target.cores {
            let (cores, s) = (target.cores, if target.cores == 1 { "" } else { "s" });
            notices.warn(&format!("{threads} threads share {cores} core{s}: times will include waiting"));
        }
        Ok(Setting { target, threads, isa, strict_fp: self.strict_fp, check: self.check })
    }
}

/// The machine that a space is made for: `native`, or the description in a file.
///
/// # Errors
/// The file cannot be read, or describes no machine.
pub fn target(name: &str) -> Result<Target, Error> {
    if name == "native" {
        return Ok(Target::native().target);
    }
    Target::read(Path::new(name)).map_err(|e| {
        let help = e.help();
        Error::Usage(e.to_string(), help)
    })
}
