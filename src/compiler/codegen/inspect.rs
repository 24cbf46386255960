//! Shows a kernel at the stages of code generation: after a pass, as Cranelift's IR, as machine code.

#![expect(clippy::disallowed_methods, reason = "passes are timed")]

use super::compiled::assemble;
use super::disassemble::disassemble;
use super::{CodegenError, CodegenOptions, opt, wide};
use crate::loopir::Kernel;
use crate::loopir::print::{print, print_stmts};
use std::time::{Duration, Instant};

/// A pass that ran on a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassRun {
    /// Its name.
    pub name: &'static str,
    /// Duration of the pass.
    pub time: Duration,
    /// Whether it changed the kernel.
    pub changed: bool,
}

/// Runs the passes on a kernel one by one, up to the pass `last` if given; returns the kernel after them.
pub fn run_passes(mut kernel: Kernel, options: &CodegenOptions, last: Option<&str>) -> (Kernel, Vec<PassRun>) {
    let names: Vec<&'static str> = opt::passes(Some(&kernel)).collect();
    let mut runs = Vec::with_capacity(names.len());
    let mut text = print(&kernel);
    for name in names {
        let before = kernel.clone();
        let started = Instant::now();
        kernel = opt::run_pass(name, kernel, options).unwrap_or(before);
        let time = started.elapsed();
        let after = print(&kernel);
        runs.push(PassRun { name, time, changed: after != text });
        text = after;
        if last == Some(name) {
            break;
        }
    }
    (kernel, runs)
}

/// A region: a loop nest compiled by the wide-vector back end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionListing {
    /// The statements that it replaces, as loop IR.
    pub loops: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl RegionListing {
    /// Its machine code as text, one instruction per line.
    pub fn assembly(&self) -> String {
        disassemble(&self.bytes)
    }
}

/// The code of a kernel as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// Cranelift's IR of everything outside regions.
    pub clif: String,
    /// Cranelift's machine instructions for everything outside regions.
    pub assembly: String,
    /// The regions, in program order.
    pub regions: Vec<RegionListing>,
}

/// Compiles a kernel like [`super::compile`], and lists the code.
///
/// # Errors
/// As [`super::compile`].
pub fn listing(kernel: &Kernel, options: &CodegenOptions) -> Result<Listing, CodegenError> {
    let mut optimized = opt::optimize(kernel.clone(), options);
    let regions = list_regions(&mut optimized, options, wide::Host::here(options.isa));
    let (_, text) = assemble(&mut optimized, options, true)?;
    Ok(Listing { clif: text.clif, assembly: text.assembly, regions })
}

/// The regions of a kernel, in program order, for a machine that supports everything that the options allow, whatever
/// this one supports. Empty if there is no wide-vector back end.
pub fn regions(kernel: &Kernel, options: &CodegenOptions) -> Vec<RegionListing> {
    let mut optimized = opt::optimize(kernel.clone(), options);
    let all = wide::Host {
        dots: true,
        halves: true,
        bf16: true,
        byte_permutes: true,
        float16: true,
        prefetching_pays: true,
        cheap_shuffles: false,
    };
    list_regions(&mut optimized, options, all)
}

fn list_regions(kernel: &mut Kernel, options: &CodegenOptions, host: wide::Host) -> Vec<RegionListing> {
    let regions = wide::plan_for(kernel, options, host);
    let mut bodies = vec![kernel.body];
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| bodies.extend(stmt.bodies()));
    let mut found = std::collections::BTreeMap::new();
    for body in bodies {
        let list = kernel.stmts.list(body);
        for (i, &s) in list.iter().enumerate() {
            if let Some(region) = regions.at(s) {
                let stmts = &list[i..(i + region.len).min(list.len())];
                found.insert(s, RegionListing { loops: print_stmts(kernel, stmts), bytes: region.bytes.clone() });
            }
        }
    }
    let mut ordered = Vec::with_capacity(found.len());
    kernel.for_each_stmt(kernel.body, &mut |s, _| ordered.extend(found.remove(&s)));
    ordered
}
