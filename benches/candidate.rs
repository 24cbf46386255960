//! The cost of a candidate before it runs, and whether making others disturbs its timing: `cargo bench --bench
//! candidate`.
//!
//! Targets: replaying the trace of a tiled matmul takes at most 60 µs, one of 40 instructions of a convolution at most
//! 150 µs; lowering and compiling at most 2 ms; proposing from 512 candidates (replay, postprocessors, features,
//! prediction) at most 150 ms on one core.

#![expect(clippy::disallowed_methods, reason = "measures time")]
#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tvmr::ir::hash::program_hash;
use tvmr::machine::Core;
use tvmr::machine::Target;
use tvmr::measure::{Summary, pin_here};
use tvmr::schedule::Schedule;
use tvmr::schedule::undeclared_use;
use tvmr::schedule_function::ScheduleFunction;
use tvmr::script::{ParseOptions, parse};
use tvmr::search::{Feedback, Options, Proposer, Strategy, features};
use tvmr::space::{Rules, generate};
use tvmr::stop::StopFlag;
use tvmr::tune::Interrupt;
use tvmr::tune::backend::Backend;
use tvmr::tune::native::Native;
use tvmr::workload::Setting;
use tvmr::workload::Workload;

const PROGRAMS: [(&str, &str); 3] = [
    ("matmul", include_str!("../workloads/matmul.tir")),
    ("conv2d_nchw", include_str!("../workloads/conv2d_nchw.tir")),
    ("layer_norm", include_str!("../workloads/layer_norm.tir")),
];

/// Traces written by hand, so that results stay comparable when the rules change: program and schedule function.
const TRACES: [(&str, &str); 2] = [
    (
        "matmul",
        r#"
def tiled(sch):
    C = sch.get_block("C", "main")
    i, j, k = sch.get_loops(C)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, n=3, decision=[8, 4, 4]))
    j0, j1, j2 = sch.split(j, sch.sample_perfect_tile(j, n=3, max_innermost_factor=64, decision=[2, 2, 32]))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2, decision=[16, 8]))
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    C_global = sch.cache_write(C, 0, "global")
    sch.reverse_compute_at(C_global, j1, preserve_unit_loops=True)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(j2)
    sch.unroll(i2)
    sch.decompose_reduction(C, k0)
"#,
    ),
    (
        "conv2d_nchw",
        r#"
def tiled(sch):
    pad, conv = sch.get_block("pad", "main"), sch.get_block("conv", "main")
    n, o, h, w, c, r, s = sch.get_loops(conv)
    n0, n1, n2, n3 = sch.split(n, sch.sample_perfect_tile(n, n=4, decision=[1, 1, 1, 1]))
    o0, o1, o2, o3 = sch.split(o, sch.sample_perfect_tile(o, n=4, decision=[4, 2, 2, 4]))
    h0, h1, h2, h3 = sch.split(h, sch.sample_perfect_tile(h, n=4, decision=[7, 2, 2, 2]))
    w0, w1, w2, w3 = sch.split(w, sch.sample_perfect_tile(w, n=4, decision=[2, 1, 4, 7]))
    c0, c1 = sch.split(c, sch.sample_perfect_tile(c, n=2, decision=[8, 8]))
    r0, r1 = sch.split(r, sch.sample_perfect_tile(r, n=2, decision=[3, 1]))
    s0, s1 = sch.split(s, sch.sample_perfect_tile(s, n=2, decision=[1, 3]))
    sch.reorder(n0, o0, h0, w0, n1, o1, h1, w1, c0, r0, s0, n2, o2, h2, w2, c1, r1, s1, n3, o3, h3, w3)
    out = sch.cache_write(conv, 0, "global")
    sch.reverse_compute_at(out, w1, preserve_unit_loops=True)
    sch.parallel(sch.fuse(n0, o0, h0, w0))
    sch.vectorize(w3)
    sch.unroll(o3)
    rows = sch.get_loops(pad)
    sch.parallel(sch.fuse(rows[0], rows[1], rows[2]))
    sch.vectorize(rows[3])
    last = sch.get_loops(out)
    sch.vectorize(last[len(last) - 1])
    sch.annotate(sch.get_block("root", "main"), "pragma_auto_unroll_max_step", 64)
    sch.annotate(conv, "tiling", "SSRSRS")
    sch.decompose_reduction(conv, c0)
"#,
    ),
];

/// Number of candidates of each program.
const CANDIDATES: usize = 64;

fn main() {
    let target = Target::native().target;
    let setting = Setting { isa: target.best_isa(), target, threads: 1, strict_fp: false, check: true };
    let native = Native::pinned(&setting, None, &Interrupt::new()).expect("threads");
    for (name, text) in PROGRAMS {
        let module = parse(text, name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let workload = Workload::of(&module, 0);
        let schedules = candidates(&workload, &setting);
        replay(name, "replay of some", &workload, &schedules);
        for (_, function) in TRACES.iter().filter(|(program, _)| *program == name) {
            replay(name, "replay by hand of", &workload, &[by_hand(&workload, function)]);
        }
        compile(name, &native, &schedules);
        propose(name, &workload, &setting);
        if name == "matmul" {
            disturbance(&native, &workload, &schedules);
        }
    }
}

fn candidates(workload: &Workload, setting: &Setting) -> Vec<Schedule> {
    let space =
        generate(&workload.module, 0, Rules::auto(Core::new(&setting.target, setting.isa, 1)), &StopFlag::new())
            .unwrap_or_else(|e| panic!("{e}"));
    let mut proposer = Proposer::new(Schedule::new(&workload.module, 0), 0, space, Strategy::Random, 0);
    let mut schedules = Vec::new();
    while schedules.len() < CANDIDATES && !proposer.is_exhausted() {
        schedules.extend(proposer.round(CANDIDATES - schedules.len(), 1).candidates.into_iter().map(|c| c.schedule));
    }
    schedules
}

fn by_hand(workload: &Workload, function: &str) -> Schedule {
    let function = ScheduleFunction::parse(function, "trace").unwrap_or_else(|e| panic!("{e}"));
    let mut schedule = Schedule::new(&workload.module, 0);
    function.apply(&mut schedule).unwrap_or_else(|e| panic!("{e:?}"));
    schedule
}

fn replay(name: &str, what: &str, workload: &Workload, schedules: &[Schedule]) {
    let base = Schedule::new(&workload.module, 0);
    let replay = |schedule: &Schedule| {
        let mut copy = base.clone();
        schedule.trace().replay(&mut copy).unwrap_or_else(|e| panic!("{e}"));
        std::hint::black_box(program_hash(copy.func(0)));
    };
    let instructions = schedules.iter().map(|s| s.trace().insts.len()).sum::<usize>() / schedules.len().max(1);
    let what = format!("{what} {instructions} instructions, and hash");
    report(name, &what, schedules.iter().map(|s| least(|| replay(s))).collect());
    // Time that the replay spends checking, after each instruction, whether all buffers in use are declared.
    let checks = |schedule: &Schedule| {
        for _ in schedule.trace().insts.iter().filter(|i| i.kind.may_change_program()) {
            std::hint::black_box(undeclared_use(schedule.func(0)));
        }
    };
    report(name, "of that, checks of buffers", schedules.iter().map(|s| least(|| checks(s))).collect());
}

/// Rounds of an evolutionary search; times per candidate made and scored.
fn propose(name: &str, workload: &Workload, setting: &Setting) {
    let machine = features::CodeModel::new(&setting.target, setting.isa, false, 1);
    let space =
        generate(&workload.module, 0, Rules::auto(Core::new(&setting.target, setting.isa, 1)), &StopFlag::new())
            .unwrap_or_else(|e| panic!("{e}"));
    let strategy = Strategy::Evolutionary(Options { machine, seeds: true, cost_model: true });
    let mut proposer = Proposer::new(Schedule::new(&workload.module, 0), 0, space, strategy, 0);
    let (mut of_round, mut each) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let (before, start) = (proposer.n_drawn(), Instant::now());
        let round = proposer.round(16, 1);
        let (n, time) = (proposer.n_drawn() - before, start.elapsed());
        if n == 0 {
            break;
        }
        of_round.push(time);
        each.push(time / u32::try_from(n).unwrap_or(u32::MAX));
        // Slow enough for many candidates to be scored.
        for (i, c) in (0u32..).zip(&round.candidates) {
            proposer.learn(c.program, Feedback::Took(3e-3 + 1e-4 * f64::from(i)));
        }
    }
    let for_512: Vec<Duration> = each.iter().map(|t| *t * 512).collect();
    report(name, "a round of evolutionary search", of_round);
    report(name, "making and scoring 512 candidates", for_512);
}

fn compile(name: &str, native: &Native, schedules: &[Schedule]) {
    let compile = |s: &Schedule| drop(native.compile(0, s.func(0)));
    report(name, "lowering and compiling", schedules.iter().map(|s| least(|| compile(s))).collect());
}

/// The minimum time of several repetitions, to exclude disturbances by others.
fn least(work: impl Fn()) -> Duration {
    let once = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..15).map(|_| once()).min().unwrap_or_default()
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

/// Times a kernel in short windows, alternating between an idle machine and another thread that compiles.
fn disturbance(native: &Native, workload: &Workload, schedules: &[Schedule]) {
    let mut session = native.open(workload).unwrap_or_else(|e| panic!("{e}"));
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
                if kernel.code.run(session.arguments()).is_err() {
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
