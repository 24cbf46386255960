//! What a candidate costs before it runs, and whether making others disturbs its timing: `cargo bench --bench candidate`.
//!
//! The targets: replaying a trace takes at most 100 µs, lowering and compiling at most 2 ms.

#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tvmr::ir::hash::program_hash;
use tvmr::measure::{Summary, pin_here};
use tvmr::schedule::Schedule;
use tvmr::script::{ParseOptions, parse};
use tvmr::search::{Proposer, Strategy};
use tvmr::space::{Rules, generate};
use tvmr::target::Target;
use tvmr::tune::Interrupt;
use tvmr::tune::backend::Backend;
use tvmr::tune::config::Setting;
use tvmr::tune::native::Native;
use tvmr::tune::workload::Workload;

const PROGRAMS: [(&str, &str); 3] = [
    ("matmul", include_str!("../workloads/matmul.tir")),
    ("conv2d_nchw", include_str!("../workloads/conv2d_nchw.tir")),
    ("layer_norm", include_str!("../workloads/layer_norm.tir")),
];

/// Candidates of each program.
const CANDIDATES: usize = 64;

fn main() {
    let target = Target::native().target;
    let setting = Setting { isa: target.best_isa(), target, threads: 1, strict_fp: false, check: true };
    let native = Native::new(&setting, None, &Interrupt::new()).expect("threads");
    for (name, text) in PROGRAMS {
        let module = parse(text, name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let workload = Workload::of(&module, 0);
        let schedules = candidates(&workload, &setting);
        replay(name, &workload, &schedules);
        compile(name, &native, &schedules);
        if name == "matmul" {
            disturbance(&native, &workload, &schedules);
        }
    }
}

fn candidates(workload: &Workload, setting: &Setting) -> Vec<Schedule> {
    let space = generate(&workload.module, 0, Rules::auto(&setting.target, 1)).unwrap_or_else(|e| panic!("{e}"));
    let mut proposer = Proposer::new(Schedule::new(&workload.module, 0), 0, space, Strategy::Random, 0);
    let mut schedules = Vec::new();
    while schedules.len() < CANDIDATES && !proposer.is_exhausted() {
        schedules.extend(proposer.round(CANDIDATES - schedules.len(), 1).candidates.into_iter().map(|c| c.schedule));
    }
    schedules
}

fn replay(name: &str, workload: &Workload, schedules: &[Schedule]) {
    let base = Schedule::new(&workload.module, 0);
    let replay = |schedule: &Schedule| {
        let mut copy = base.clone();
        schedule.trace().replay(&mut copy).unwrap_or_else(|e| panic!("{e}"));
        std::hint::black_box(program_hash(copy.func(0)));
    };
    let instructions = schedules.iter().map(|s| s.trace().insts.len()).sum::<usize>() / schedules.len().max(1);
    let what = format!("replay of {instructions} instructions, and hash");
    report(name, &what, schedules.iter().map(|s| least(|| replay(s))).collect());
}

fn compile(name: &str, native: &Native, schedules: &[Schedule]) {
    let compile = |s: &Schedule| drop(native.compile(0, s.func(0)));
    report(name, "lowering and compiling", schedules.iter().map(|s| least(|| compile(s))).collect());
}

/// The least time of a few repetitions: that of a core of its own, whoever else is on the machine.
fn least(work: impl Fn()) -> Duration {
    let once = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..7).map(|_| once()).min().unwrap_or_default()
}

fn report(name: &str, what: &str, times: Vec<Duration>) {
    let us: Vec<f64> = times.iter().map(|t| t.as_secs_f64() * 1e6).collect();
    let Some(s) = Summary::of(&us) else { return };
    let most = us.iter().copied().fold(0.0, f64::max);
    println!(
        "{name:>12}  {what:<42} median {:>8.1} µs, least {:>8.1}, most {most:>8.1} ({} programs)",
        s.median, s.min, s.n
    );
}

/// Times a kernel in short windows, alternately with nothing else and while another thread compiles.
fn disturbance(native: &Native, workload: &Workload, schedules: &[Schedule]) {
    let mut lab = native.open(workload).unwrap_or_else(|e| panic!("{e}"));
    let kernel = native.compile(0, schedules[0].func(0)).unwrap_or_else(|e| panic!("{}", e.message)).code;
    let busy = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    let (mut quiet, mut disturbed) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let compiling = || {
            while !done.load(Relaxed) {
                if !busy.load(Relaxed) {
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
                for s in schedules {
                    drop(native.compile(0, s.func(0)));
                    if !busy.load(Relaxed) {
                        break;
                    }
                }
            }
        };
        scope.spawn(compiling);
        let _pinned = pin_here();
        for window in 0..60 {
            let is_busy = window % 2 == 1;
            busy.store(is_busy, Relaxed);
            std::thread::sleep(Duration::from_millis(4));
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(25) {
                let call = Instant::now();
                if kernel.code.run(lab.arguments()).is_err() {
                    break;
                }
                let secs = call.elapsed().as_secs_f64();
                if is_busy { disturbed.push(secs) } else { quiet.push(secs) }
            }
        }
        done.store(true, Relaxed);
    });
    let (Some(q), Some(d)) = (Summary::of(&quiet), Summary::of(&disturbed)) else { return };
    println!(
        "{:>12}  one kernel, alone: median {:.2} µs, spread {:.1} %; while another thread compiles: {:+.1} %, spread {:.1} %",
        "matmul",
        q.median * 1e6,
        q.spread * 100.0,
        (d.median / q.median - 1.0) * 100.0,
        d.spread * 100.0
    );
}
