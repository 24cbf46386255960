//! The setting in which a command compiles and measures.

use super::args::{Global, Machine};
use super::console::Console;
use super::exit::Failure;
use crate::ir::visit::for_each_subexpr;
use crate::ir::{DType, Func, Symbol, VarId};
use crate::machine::{Isa, Target};
use crate::workload::Setting;

/// The setting of this machine. Measurements are recorded for it, whatever machine the space is made for.
pub(super) fn here(machine: &Machine, global: &Global, check: bool, console: Console) -> Result<Setting, Failure> {
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
        console.warn(&format!("{threads} threads share {cores} core{s}: times will include waiting"));
    }
    Ok(Setting { target, threads, isa, strict_fp: global.strict_fp, check })
}

/// Rejects a function that cannot run because symbolic values are missing.
pub(super) fn check_concrete(func: &Func) -> Result<(), Failure> {
    symbolic(func).map_or(Ok(()), |(what, help)| Err(Failure::Usage(what, help)))
}

/// The missing symbolic values of a function, if any, and the help for the message.
pub(super) fn symbolic(func: &Func) -> Option<(String, String)> {
    let func = &*func.callable();
    let is_handle = |p: &&crate::ir::Param| p.buffer.is_none() && func.arena.var(p.var).dtype == DType::Handle;
    if let Some(param) = func.params.iter().find(is_handle) {
        let name = func.arena.var(param.var).name;
        let help = format!("give it one: `A = T.match_buffer({name}, (16, 16), \"float32\")`, for example");
        return Some((format!("the handle `{name}` of `{}` has no shape", func.name), help));
    }
    let mut names: Vec<Symbol> = Vec::new();
    for param in &func.params {
        let mut found: Vec<VarId> = Vec::new();
        match param.buffer {
            None => found.push(param.var),
            Some(b) => {
                for &extent in func.arena.list(func.arena.buffer(b).shape) {
                    for_each_subexpr(&func.arena, extent, &mut |e| found.extend(func.arena.as_var(e)));
                }
            }
        }
        for name in found.into_iter().map(|v| func.arena.var(v).name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let all: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    let example: Vec<String> = names.iter().map(|n| format!("--bind {n}=1024")).collect();
    let what = match all.len() {
        0 => return None,
        1 => "no value",
        _ => "no values",
    };
    let give = if all.len() == 1 { "give it a value" } else { "give them values" };
    let help = format!("{give} with `--bind`, such as `{}`", example.join(" "));
    Some((format!("{what} for {} of `{}`", all.join(", "), func.name), help))
}
