//! Under which circumstances a command compiles and measures.

use super::args::{Global, Machine};
use super::console::Console;
use super::exit::Failure;
use crate::ir::Func;
use crate::target::{Isa, Target};
use crate::tune::config::Setting;

/// The setting of this machine: what is measured here is recorded as of here, whatever machine the space is made for.
pub fn here(machine: &Machine, global: &Global, check: bool, console: Console) -> Result<Setting, Failure> {
    let target = Target::native().target;
    let isa = match global.isa {
        None => target.best_isa(),
        Some(isa) if isa.is_available(&target) => isa,
        Some(isa) => {
            let known: Vec<&str> = Isa::ALL.iter().filter(|i| i.is_available(&target)).map(|i| i.name()).collect();
            let help = format!("it has `{}`", known.join("`, `"));
            return Err(Failure::Usage(format!("this CPU does not have `{isa}`"), help));
        }
    };
    let threads = machine.threads.map_or(1, |t| t.on(target.cores as usize)) as u32;
    if threads > target.cores {
        let (cores, s) = (target.cores, if target.cores == 1 { "" } else { "s" });
        console.warn(&format!("{threads} threads share {cores} core{s}: times will be those of waiting"));
    }
    Ok(Setting { target, threads, isa, strict_fp: global.strict_fp, check })
}

/// Refuses a function that cannot be run, for want of numbers.
pub fn check_concrete(func: &Func) -> Result<(), Failure> {
    symbolic(func).map_or(Ok(()), |(what, help)| Err(Failure::Usage(what, help)))
}

/// What number a function wants before it can be run, if it does, and what to do about it.
pub fn symbolic(func: &Func) -> Option<(String, String)> {
    let symbolic = |e: &crate::ir::ExprId| func.arena.as_int(*e).is_none();
    for param in &func.params {
        let name = match param.buffer {
            None => func.arena.var(param.var).name,
            Some(b) if func.arena.list(func.arena.buffer(b).shape).iter().any(symbolic) => func.arena.buffer(b).name,
            Some(_) => continue,
        };
        let what = if param.buffer.is_some() { "has a symbolic extent" } else { "is a scalar" };
        let help = "give it a value with `--bind`, such as `--bind n=1024`".to_string();
        return Some((format!("the parameter `{name}` of `{}` {what}", func.name), help));
    }
    None
}
