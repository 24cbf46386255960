//! The circumstances under which programs are compiled and run.

use crate::codegen::CodegenOptions;
use crate::database::{Filter, Threads};
use crate::machine::{Isa, Target};

/// Under which circumstances programs are compiled and run. Results of different settings are not comparable: trials are
/// counted, and programs are told apart, within one.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// The machine.
    pub target: Target,
    /// Threads that parallel loops use.
    pub threads: u32,
    /// The instruction set that code is generated for.
    pub isa: Isa,
    /// Floating point as written: no contraction, no reassociation.
    pub strict_fp: bool,
    /// Compare results with the reference?
    pub check: bool,
}

impl Setting {
    /// This machine with its best instruction set and one thread; fast floats, and results compared with the reference.
    pub fn native() -> Setting {
        let target = Target::native().target;
        Setting { isa: target.best_isa(), target, threads: 1, strict_fp: false, check: true }
    }

    /// How code for this setting is generated.
    pub fn codegen(&self) -> CodegenOptions {
        CodegenOptions {
            isa: self.isa,
            strict_fp: self.strict_fp,
            dot_products: true,
            threads: self.threads,
            any_cpu: false,
        }
    }

    /// The records that were measured in this setting.
    pub fn filter(&self) -> Filter {
        Filter {
            cpu: Some(self.target.cpu_key()),
            threads: Threads::Exactly(self.threads),
            isa: Some(self.isa.name().to_owned()),
            strict_fp: Some(self.strict_fp),
        }
    }
}
