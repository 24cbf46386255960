//! Workloads with their schedules, and as written: `cargo bench --bench workloads [-- FILTER]`.
//!
//! Every program of `workloads/` with a schedule of the same name in `workloads/schedules/` is checked and timed like
//! `tvmr bench`, on one thread. Shares refer to this machine in the same run: the peak of multiply-adds, measured
//! alternately with the program, and the roofline bound, which is the longer of the times that operations and bytes
//! need. Compile times are medians.

#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use std::path::{Path, PathBuf};
use tvmr::ir::hash::program_hash;
use tvmr::ir::{Func, Module};
use tvmr::machine::{Isa, Target};
use tvmr::measure::{Bandwidth, Peak, PeakLoop, PeakWork, Summary};
use tvmr::schedule::Schedule;
use tvmr::schedule_function::ScheduleFunction;
use tvmr::script::{Dialect, ParseOptions, parse};
use tvmr::tune::Interrupt;
use tvmr::tune::backend::{Backend, Seconds};
use tvmr::tune::bench::{BenchReport, bench};
use tvmr::tune::native::Native;
use tvmr::workload::Setting;
use tvmr::workload::Workload;

/// Number of compilations of each program.
const COMPILATIONS: usize = 7;

fn main() {
    // Cargo passes `--bench`.
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let target = Target::native().target;
    let setting = Setting { isa: target.best_isa(), target, threads: 1, strict_fp: false, check: true };
    let native = Native::pinned(&setting, None, &Interrupt::new()).expect("threads");
    machine(&native);
    println!(
        "\n{:<24} {:<8} {:>9} {:>9} {:>8} {:>6} {:>9}  {:<12} {:>9}",
        "workload", "version", "time", "GFLOP/s", "GB/s", "peak", "roofline", "bound by", "compile"
    );
    for program in programs() {
        let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let schedule = program.with_file_name("schedules").join(format!("{name}.py"));
        let is_wanted = filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
        if is_wanted && schedule.is_file() {
            let module = module(&program);
            let scheduled = apply(&module, &schedule);
            for (i, scheduled) in scheduled.iter().enumerate() {
                let workload = Workload::of(&module, i);
                let title = if module.funcs.len() == 1 { name.clone() } else { format!("{name}:{}", workload.name) };
                for (version, func) in [("written", workload.func()), ("schedule", scheduled)] {
                    row(&native, &title, version, &workload, func);
                }
            }
        }
    }
}

/// Peak performance of the machine.
fn machine(native: &Native) {
    let target = native.machine();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available(target)) {
        let peak = |work| PeakLoop::new(isa, work).map_or(0.0, |p| Peak::measure(&p, 1, &[]).gflops);
        let (single, double) = (peak(PeakWork::Float32), peak(PeakWork::Float64));
        println!(
            "{:<12} {:>4} bits: float32 {single:6.1}, float64 {double:6.1} GFLOP/s",
            isa.name(),
            isa.vector_bits()
        );
    }
    let Bandwidth { l1, l2, l3, memory } = Bandwidth::measure(target, native.clock());
    let [l1, l2, l3, memory] = [l1, l2, l3, memory].map(|b| b / 1e9);
    println!("reading: L1 {l1:.0}, L2 {l2:.0}, L3 {l3:.0}, memory {memory:.0} GB/s");
}

fn programs() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut programs: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "tir")).collect();
    programs.sort();
    programs
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn module(path: &Path) -> Module {
    let parsed = parse(&text(path), &path.to_string_lossy(), &ParseOptions::default());
    parsed.unwrap_or_else(|e| panic!("{e}")).module
}

/// The functions of a program under a schedule with its recorded decisions.
fn apply(module: &Module, path: &Path) -> Vec<Func> {
    let function = ScheduleFunction::parse(&text(path), &path.to_string_lossy()).unwrap_or_else(|e| panic!("{e}"));
    // A single function may be called `main`, as in the database.
    let mut schedule = match &module.funcs[..] {
        [_] => Workload::of(module, 0).schedule(0),
        _ => Schedule::new(module, 0),
    };
    let applied = function.apply_as_recorded(&mut schedule);
    applied.unwrap_or_else(|e| panic!("{}", function.render_error(&e, &schedule, Dialect::Classic, false)));
    schedule.module().funcs
}

fn row(native: &Native, title: &str, version: &str, workload: &Workload, func: &Func) {
    let mut func = func.clone();
    func.name = workload.func().name;
    let program = program_hash(&func);
    let compile = || native.compile(program, &func).map_or(f64::NAN, |c| c.secs);
    let compile: Vec<f64> = (0..COMPILATIONS).map(|_| compile()).collect();
    let compile = Summary::of(&compile).map_or(f64::NAN, |s| s.median);
    match bench(native, workload, &func, program) {
        Err(e) => println!("{title:<24} {version:<8} {e}"),
        Ok(BenchReport { us, gflops, gbs, peak_fraction, roofline_fraction, roofline, .. }) => {
            let number = |x: Option<f64>, digits: usize| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.digits$}"));
            println!(
                "{title:<24} {version:<8} {:>9} {:>9} {gbs:>8.1} {:>6} {:>9}  {:<12} {:>9}",
                Seconds(us * 1e-6).to_string(),
                number(gflops, 1),
                number(peak_fraction, 2),
                number(roofline_fraction, 2),
                roofline.bound_by,
                Seconds(compile).to_string(),
            );
        }
    }
}
