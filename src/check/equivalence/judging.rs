//! Random programs that quantise or compute in half precision: the check accepts right candidates and rejects faults.
//!
//! A program is a chain of stages: a sum (a product of matrices, a window, rows), then one to three steps (rounding to
//! bytes and back, comparisons, remainders, half precision, angles), and often a second sum over their results. Its
//! candidates are drawn from the automatic space and checked as in tuning. A fault is the same program with a mistake,
//! compiled and run like a candidate, or a result that was tampered with.
//!
//! A fault counts if it moves results further than roundings do, both when it is computed exactly and when it is rounded as
//! written. It must move a twentieth of the results (a quarter in half precision), or the single one that it is about. The
//! interpreter tells how far roundings move each result: it rounds each operation as written, and two dozen times in random
//! directions. In a program that turns each rounding into another result, no fault can be told from a rounding.
//!
//! `cargo test` runs a few dozen programs. `TVMR_JUDGE=10000 cargo test --release --lib judging -- --nocapture` runs that
//! many, starting with the seed `TVMR_JUDGE_SEED`.

use super::*;
use crate::check::params;
use crate::machine::Core;
use crate::machine::Target;
use crate::measure::distance;
use crate::schedule::Schedule;
use crate::script::{ParseOptions, parse};
use crate::space::sample::stream;
use crate::tune::config::SpaceChoice;
use crate::tune::make_space;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Programs of an ordinary test run.
const FEW: u64 = 48;
/// Candidates of each program, beside the program as written.
const CANDIDATES: usize = 4;

/// A generator of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A mistake in a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fault {
    /// Nothing is computed.
    Nothing,
    /// The last rows are not stored.
    Tail,
    /// The last term of each sum is left out.
    LostTerm,
    /// The factor of the sum is another number.
    Constant,
    /// An input is read at other places.
    Access,
    /// One element is off.
    OneOff,
    /// Sums do not start from zero.
    Stale,
}

const FAULTS: [Fault; 7] =
    [Fault::Nothing, Fault::Tail, Fault::LostTerm, Fault::Constant, Fault::Access, Fault::OneOff, Fault::Stale];

/// One step after a sum: an expression of a float32 value, and the type in which its result is stored.
type Step = (&'static str, &'static str);

/// `{}` is the value, `{c}` the constant.
const STEPS: &[Step] = &[
    ("T.Cast(\"int8\", T.max(T.min(T.round({} * {c}), T.float32(127.0)), T.float32(-128.0)))", "int8"),
    (
        "T.Cast(\"uint8\", T.max(T.min(T.round({} * {c} + T.float32(128.0)), T.float32(255.0)), T.float32(0.0)))",
        "uint8",
    ),
    ("T.Cast(\"int32\", T.floor({} * {c}))", "int32"),
    ("T.Cast(\"int32\", {} * {c}) % 13", "int32"),
    ("T.Select({} > T.float32(0.125), {} * {c}, {} - {c})", "float32"),
    (
        "T.if_then_else({} * {c} >= T.floor({} * {c}) + T.float32(0.5), T.float32(1), T.float32(-1)) * {c} + {}",
        "float32",
    ),
    ("T.Cast(\"float16\", {} * {c})", "float16"),
    ("T.Cast(\"bfloat16\", {} * {c})", "bfloat16"),
    ("T.cos({} * {c}) + {}", "float32"),
    ("T.round({} * {c} / T.float32(3.0)) * T.float32(0.3)", "float32"),
    ("T.tanh({} * {c})", "float32"),
    ("T.exp({} * T.float32(0.25)) * {c}", "float32"),
    ("T.sqrt(T.abs({} * {c}))", "float32"),
    ("{} * {c} / (T.float32(1.5) + T.abs({}))", "float32"),
];

struct Program {
    /// The type of the first inputs.
    input: &'static str,
    sum: &'static str,
    m: u64,
    n: u64,
    k: u64,
    kind: u64,
    steps: Vec<(Step, f64)>,
    /// The terms of a second sum, if there is one.
    second: Option<&'static str>,
    /// The place of the single element that is off.
    at: (u64, u64),
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut r = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
        let (input, sum) = r.of(&[
            ("float32", "float32"),
            ("float32", "float32"),
            ("float16", "float16"),
            ("float16", "float32"),
            ("bfloat16", "bfloat16"),
            ("bfloat16", "float32"),
            ("int8", "int32"),
        ]);
        let (m, n) = (3 + r.below(22), 3 + r.below(30));
        let k = if r.below(8) == 0 { 100 + r.below(200) } else { 1 + r.below(48) };
        let kind = r.below(4);
        let n_steps = 1 + r.below(3);
        let steps = (0..n_steps).map(|_| (r.of(STEPS), r.of(&[0.5, 1.25, 3.0, 7.7, 10.0, 0.09]))).collect();
        let second = r.of(&[None, None, Some("float32"), Some("int32")]);
        let at = (r.below(m), r.below(n));
        Program { input, sum, m, n, k, kind, steps, second, at }
    }

    /// The text, with a fault.
    fn text(&self, fault: Option<Fault>) -> String {
        let Program { input, sum, m, n, k, .. } = self;
        let is = |f: Fault| fault == Some(f);
        let mut t = String::new();
        let last = self.steps.last().map_or("float32", |s| s.0.1);
        let out_type = match self.second {
            Some("int32") if matches!(last, "int8" | "uint8") => "int32",
            Some(_) => "float32",
            None => last,
        };
        let _ = writeln!(
            t,
            "@T.prim_func\ndef main(A: T.Buffer(({}, {}), \"{input}\"), B: T.Buffer(({k}, {n}), \"{input}\"), C: T.Buffer(({m}, {n}), \"{out_type}\")):",
            m + 2,
            k + 2
        );
        if is(Fault::Nothing) {
            t.push_str("    T.evaluate(0)\n");
            return t;
        }
        let _ = writeln!(t, "    X = T.alloc_buffer(({m}, {n}), \"{sum}\")");
        let cast = |v: String| if input == sum { v } else { format!("T.Cast(\"{sum}\", {v})") };
        let (row, column) = if is(Fault::Access) { ("vi + 1", "vk") } else { ("vi", "vk") };
        let a = |row: &str, column: &str| cast(format!("A[{row}, {column}]"));
        let b = cast("B[vk, vj]".to_owned());
        let term = match self.kind {
            0 | 1 => format!("{} * {b}", a(row, column)),
            2 => format!("{} + {b}", a(row, column)),
            _ => format!("{} * {b} + {}", a(row, column), a("vi + 1", "vk + 2")),
        };
        let terms = if is(Fault::LostTerm) { k - 1 } else { *k };
        let start = if is(Fault::Stale) { 3 } else { 0 };
        self.reduction(&mut t, "X", &term, (*m, *n, terms.max(1)), sum, start);
        let mut value = ("X".to_owned(), *sum);
        for (i, ((step, dtype), c)) in self.steps.iter().enumerate() {
            let name = if i + 1 == self.steps.len() && self.second.is_none() { "C".into() } else { format!("S{i}") };
            if name != "C" {
                let _ = writeln!(t, "    {name} = T.alloc_buffer(({m}, {n}), \"{dtype}\")");
            }
            let source = format!("{}[vi, vj]", value.0);
            let source = if value.1 == "float32" { source } else { format!("T.Cast(\"float32\", {source})") };
            // Sums of bytes are scaled to the magnitude of the others.
            let source = if value.1 == "int32" { format!("({source} * T.float32(0.0173))") } else { source };
            let c = if is(Fault::Constant) && i == 0 { c * 1.5 + 0.5 } else { *c };
            let mut made = step.replace("{}", &source).replace("{c}", &format!("T.float32({c:?})"));
            let rows = if is(Fault::Tail) && name == "C" { m - 1 } else { *m };
            if is(Fault::OneOff) && name == "C" {
                made = self.one_off(&made, dtype);
            }
            self.elementwise(&mut t, &name, &made, rows);
            value = (name, dtype);
        }
        if let Some(second) = self.second {
            let of = if out_type == "int32" { second } else { "float32" };
            let source = format!("T.Cast(\"{of}\", {}[vi, vk])", value.0);
            // Each term is the product of two elements of a row.
            let other = format!("T.Cast(\"{of}\", {}[vi, vj])", value.0);
            let terms = if is(Fault::LostTerm) { n - 1 } else { *n };
            let term = format!("{source} * {other}");
            let target = if is(Fault::OneOff) { "Y" } else { "C" };
            if target == "Y" {
                let _ = writeln!(t, "    Y = T.alloc_buffer(({m}, {n}), \"{out_type}\")");
            }
            let rows = if is(Fault::Tail) { m - 1 } else { *m };
            self.reduction(&mut t, target, &term, (rows, *n, terms), out_type, start);
            if target == "Y" {
                let made = self.one_off("Y[vi, vj]", out_type);
                self.elementwise(&mut t, "C", &made, *m);
            }
        }
        t
    }

    /// Is anything rounded to half precision?
    fn is_coarse(&self) -> bool {
        [self.sum].into_iter().chain(self.steps.iter().map(|s| s.0.1)).any(|t| t.ends_with("float16"))
    }

    /// The value, except that one element is another.
    fn one_off(&self, value: &str, dtype: &str) -> String {
        let (i, j) = self.at;
        let off = match dtype {
            // At single elements, roundings of half precision may add up to more than elsewhere.
            "float32" | "float16" | "bfloat16" if self.is_coarse() => {
                format!("{value} * T.{dtype}(4) + T.{dtype}(40)")
            }
            "float32" | "float16" | "bfloat16" => format!("{value} * T.{dtype}(1.25) + T.{dtype}(0.25)"),
            "uint8" => format!("T.bitwise_xor({value}, T.uint8(4))"),
            other => format!("T.bitwise_xor({value}, T.{other}(4))"),
        };
        format!("T.if_then_else(vi == {i} and vj == {j}, {off}, {value})")
    }

    fn reduction(&self, t: &mut String, name: &str, term: &str, (m, n, k): (u64, u64, u64), dtype: &str, start: u64) {
        let _ = write!(
            t,
            "    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block(\"{name}_sum\"):
            vi = T.axis.spatial({}, i)
            vj, vk = T.axis.remap(\"SR\", [j, k])
            with T.init():
                {name}[vi, vj] = T.{dtype}({start})
            {name}[vi, vj] = {name}[vi, vj] + {term}
",
            self.m
        );
    }

    fn elementwise(&self, t: &mut String, name: &str, value: &str, rows: u64) {
        let _ = write!(
            t,
            "    for i, j in T.grid({rows}, {}):
        with T.block(\"{name}_step\"):
            vi = T.axis.spatial({}, i)
            vj = T.axis.spatial({}, j)
            {name}[vi, vj] = {value}
",
            self.n, self.m, self.n
        );
    }
}

fn read(text: &str) -> crate::ir::Module {
    parse(text, "soak.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).module
}

/// Values of an output, widened.
fn values(spec: &ParamSpec, bytes: &[u8]) -> Vec<f64> {
    let tensor = interp::TensorRef { dtype: spec.dtype, shape: &spec.shape, data: bytes };
    (0..spec.len()).map(|i| tensor.get(i).as_f64()).collect()
}

/// The exact results of a program, and how far roundings move them.
struct Exact {
    results: Vec<f64>,
    /// The distance by which each result must be moved to count as changed.
    clearly: Vec<f64>,
    /// The least distance that counts: a twentieth of the root mean square of the results.
    noticeable: f64,
}

/// Random runs of each program.
const RUNS: u64 = 12;
/// A result counts as changed if it is moved this many times further than by roundings.
const CLEARLY: u32 = 8;
/// Roundings enlarged by this factor: they show steps near a result that ordinary roundings may happen to miss.
const LARGER: u32 = 4;

/// The results of a program with roundings of this kind.
fn rounded(checker: &Checker, func: &Func, precision: Precision) -> Vec<f64> {
    let c = checker.specs.len() - 1;
    let mut args = Arguments::new(&checker.specs, SEED).expect("little memory");
    assert!(interpret(func, &mut args, precision).is_ok(), "a small program is interpreted");
    values(&checker.specs[c], args.bytes(c))
}

impl Exact {
    fn of(checker: &Checker, func: &Func) -> Exact {
        let c = checker.specs.len() - 1;
        let results = values(&checker.specs[c], &checker.reference.outputs()[c]);
        let mut clearly = vec![0f64; results.len()];
        let random = |scale| (0..RUNS).map(move |seed| Precision::Perturbed { seed: seed << 32 | 0xf00d, scale });
        let runs = random(1).chain([Precision::Exact]).map(|run| (run, CLEARLY));
        for (run, factor) in runs.chain(random(LARGER).map(|run| (run, CLEARLY / LARGER))) {
            for ((clearly, &exact), v) in clearly.iter_mut().zip(&results).zip(rounded(checker, func, run)) {
                *clearly = clearly.max(f64::from(factor) * distance(exact, v));
            }
        }
        let finite = results.iter().filter(|v| v.is_finite());
        let (sum, n) = finite.fold((0.0, 0.0), |(sum, n), v| (sum + v * v, n + 1.0));
        Exact { noticeable: if n > 0.0 { 0.05 * f64::sqrt(sum / n) } else { 0.0 }, results, clearly }
    }

    /// The number of wrong results that clearly differ from the exact ones.
    fn changed(&self, wrong: &[f64]) -> usize {
        let far = |((exact, clearly), wrong): &((&f64, &f64), &f64)| {
            clearly.is_finite() && distance(**exact, **wrong) > self.noticeable.max(0.05 * exact.abs()).max(**clearly)
        };
        self.results.iter().zip(&self.clearly).zip(wrong).filter(far).count()
    }

    /// Is there a result that roundings hardly move?
    fn has_settled(&self, results: impl Fn(usize) -> bool) -> bool {
        (0..self.results.len()).any(|i| results(i) && self.clearly[i] <= 0.5 * self.results[i].abs())
    }
}

#[derive(Default)]
struct Tally {
    candidates: usize,
    /// Faults that cannot be told from roundings.
    unclear: usize,
    faults: BTreeMap<String, (usize, usize)>,
    problems: Vec<String>,
}

impl Tally {
    fn fault(&mut self, what: String, is_caught: bool) {
        let count = self.faults.entry(what).or_default();
        count.0 += usize::from(is_caught);
        count.1 += 1;
    }

    fn add(&mut self, other: Tally) {
        let Tally { candidates, unclear, faults, problems } = other;
        self.candidates += candidates;
        self.unclear += unclear;
        for (what, (caught, injected)) in faults {
            let count = self.faults.entry(what).or_default();
            count.0 += caught;
            count.1 += injected;
        }
        self.problems.extend(problems);
    }
}

fn judge(seed: u64, setting: &Setting, tally: &mut Tally) {
    let program = Program::new(seed);
    let text = program.text(None);
    let module = read(&text);
    let workload = Workload::of(&module, 0);
    let checker = match Checker::new(&workload, setting) {
        Ok(checker) => checker,
        Err(e) => return tally.problems.push(format!("seed {seed}: no reference: {e:?}\n{text}")),
    };
    let written = workload.func().clone();
    let layouts = Layouts::new(&written);
    let mut judge = |func: &Func, what: &str| {
        tally.candidates += 1;
        if let Err(e) = checker.check(func, &layouts) {
            tally.problems.push(format!("seed {seed}: {what} is called wrong: {e:?}\n{text}"));
        }
    };
    judge(&written, "the program as written");
    let machine = Core::new(&setting.target, setting.isa, setting.threads as usize);
    let space = make_space(&workload, &SpaceChoice::Auto, &machine, &crate::stop::StopFlag::new())
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let base = Schedule::new(&workload.module, 0);
    let drawn = (0..3 * CANDIDATES as u64).filter_map(|i| space.sample(&base, stream(seed, i)).ok());
    for (schedule, _) in drawn.take(CANDIDATES) {
        if params::passed_as_written(&written, schedule.func(0)).is_ok() {
            judge(
                schedule.func(0),
                &format!("the candidate of\n{}", schedule.trace().to_python(crate::script::Dialect::Current)),
            );
        }
    }
    let c = checker.specs.len() - 1;
    let right = Exact::of(&checker, &written);
    for fault in FAULTS {
        let module = read(&program.text(Some(fault)));
        let func = &module.funcs[0];
        let least = match fault {
            Fault::OneOff => 1,
            _ if program.is_coarse() => right.results.len().div_ceil(4),
            _ => right.results.len().div_ceil(20).max(2),
        };
        let first_of_tail = ((program.m - 1) * program.n) as usize;
        let is_clear = match fault {
            // An element that is not stored is not right by chance.
            Fault::Nothing => right.has_settled(|_| true),
            Fault::Tail => right.has_settled(|i| i >= first_of_tail),
            _ => {
                let exact = Checker::new(&Workload::of(&module, 0), setting).expect("a reference of the fault");
                let wrong = values(&checker.specs[c], &exact.reference.outputs()[c]);
                let is_enough = |wrong: &[f64]| right.changed(wrong) >= least;
                is_enough(&wrong) && is_enough(&rounded(&checker, func, Precision::Exact))
            }
        };
        tally.unclear += usize::from(!is_clear);
        if is_clear {
            let is_caught = checker.check(func, &layouts).is_err();
            tally.fault(format!("{fault:?}"), is_caught);
            if !is_caught {
                tally.problems.push(format!("seed {seed}: {fault:?} is not caught\n{text}"));
            }
        }
    }
    tamper(seed, &program, &checker, &right, tally);
}

/// Tampers with results: some get the value of another, as in a race; or each row gets the values of the next.
fn tamper(seed: u64, program: &Program, checker: &Checker, right: &Exact, tally: &mut Tally) {
    let c = checker.specs.len() - 1;
    let spec = &checker.specs[c];
    let size = spec.dtype.bytes();
    let original = checker.reference.outputs()[c].clone();
    let mut random = Random(seed ^ 0xfa01);
    let n = right.results.len();
    let mut try_one = |what: &str, from: &dyn Fn(usize, &mut Random) -> usize| {
        let mut bytes = original.clone();
        let sources: Vec<usize> = (0..n).map(|i| from(i, &mut random)).collect();
        for (i, &source) in sources.iter().enumerate() {
            bytes[i * size..][..size].copy_from_slice(&original[source * size..][..size]);
        }
        if right.changed(&values(spec, &bytes)) < if program.is_coarse() { 4 } else { 1 } {
            tally.unclear += 1;
            return;
        }
        let mut outputs = checker.reference.outputs().to_vec();
        outputs[c] = bytes;
        let is_caught = checker.reference.check_outputs(&checker.specs, &outputs).is_err();
        tally.fault(what.to_owned(), is_caught);
        if !is_caught {
            tally.problems.push(format!("seed {seed}: {what} is not caught\n{}", program.text(None)));
        }
    };
    try_one("rows exchanged", &|i, _| (i + program.n as usize) % n);
    try_one("race", &|i, r| if r.below(16) == 0 { r.below(n as u64) as usize } else { i });
}

#[test]
fn right_candidates_are_right_and_faults_are_wrong() {
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let (programs, first) = (number("TVMR_JUDGE").unwrap_or(FEW), number("TVMR_JUDGE_SEED").unwrap_or(0));
    let target = Target::native().target;
    let setting = Setting { isa: target.best_isa(), threads: 1, strict_fp: false, check: true, target };
    let next = AtomicU64::new(first);
    let judge_some = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + programs {
                return tally;
            }
            // One in eight in parallel.
            let setting = Setting { threads: if seed % 8 == 7 { 2 } else { 1 }, ..setting.clone() };
            judge(seed, &setting, &mut tally);
        }
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(judge_some)).collect();
        for worker in workers {
            tally.add(worker.join().expect("programs are judged"));
        }
    });
    let Tally { candidates, unclear, faults, .. } = &tally;
    println!(
        "{programs} programs, {candidates} candidates; faults caught: {faults:?}, {unclear} that nobody could tell"
    );
    let (injected, unclear): (usize, usize) = (faults.values().map(|f| f.1).sum(), *unclear);
    let n = tally.problems.len();
    tally.problems.sort_by_key(|p| p.contains("is not caught"));
    let first: Vec<&str> = tally.problems.iter().map(|p| p.lines().next().unwrap_or_default()).collect();
    let texts = tally.problems.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(n == 0, "{n} problems:\n{}\n\n{texts}", first.join("\n"));
    // Problems are reported first, since these need not hold for a few programs.
    assert!(injected > 2 * unclear, "most faults are clear: {injected}, {unclear}");
    assert!(tally.candidates as u64 >= 2 * programs, "only {} candidates were judged", tally.candidates);
    assert!(tally.faults.len() == FAULTS.len() + 2, "every kind of fault was injected: {:?}", tally.faults);
}
