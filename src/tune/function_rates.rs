//! Measures the rates of functions of scalars and the like, and computes rooflines from them.

use super::backend::{Backend, MeasureSession};
use super::native::Native;
use crate::ir::hash::program_hash;
use crate::ir::op::Intrinsic;
use crate::ir::{DType, Func};
use crate::measure::{Candidate, Outcome, Runner};
use crate::perf::roofline::{Rates, Roofline};
use crate::script::{ParseOptions, parse};
use crate::workload::Workload;

/// Elements of the program that times a function. Its input and output fit the nearest cache of every machine.
const SAMPLE: u32 = 2048;

/// The roofline of a program that accesses `bytes` bytes; `peak` is that of multiply-adds, in operations per second.
pub(super) fn measured_roofline(native: &Native, func: &Func, bytes: u64, peak: Option<f64>) -> Roofline {
    roofline(native, func, bytes, peak, |session, code| Some(session.bench(code).ok()?.summary.median))
}

/// A quick estimate of the roofline: functions of scalars are timed for some milliseconds only.
pub(super) fn estimated_roofline(native: &Native, func: &Func, bytes: u64, peak: Option<f64>) -> Roofline {
    roofline(native, func, bytes, peak, |session, code| match session.measure(code) {
        Outcome::Measured(m) => Some(m.secs),
        _ => None,
    })
}

fn roofline(
    native: &Native,
    func: &Func,
    bytes: u64,
    peak: Option<f64>,
    time: impl Fn(&mut <Native as Backend>::MeasureSession, &Candidate) -> Option<f64>,
) -> Roofline {
    let mut rates = Rates {
        target: native.machine(),
        threads: native.setting().threads,
        peak,
        clock: native.clock(),
        sums: &mut || native.rate_of_sums(func),
        function: &mut |function, dtype| rate(native, function, dtype, &time),
        division: &mut |dtype| rate_of_divisions(native, dtype, &time),
        lookup: &mut || rate_of_lookups(native, &time),
    };
    Roofline::new(func, bytes, &mut rates)
}

/// Calls of a function per second on one thread, in compiled code for the same instruction set; `None` if they cannot be
/// measured.
fn rate(
    native: &Native,
    function: Intrinsic,
    dtype: DType,
    time: impl Fn(&mut <Native as Backend>::MeasureSession, &Candidate) -> Option<f64>,
) -> Option<f64> {
    let (name, n) = (function.name(), SAMPLE);
    let args = vec!["A[vi]"; function.arity()].join(", ");
    let text = format!(
        "@T.prim_func
def main(A: T.Buffer(({n},), \"{dtype}\"), B: T.Buffer(({n},), \"{dtype}\")):
    for i in range({n}):
        with T.block(\"B\"):
            vi = T.axis.spatial({n}, i)
            B[vi] = T.{name}({args})
"
    );
    rate_of(native, &text, time)
}

/// Divisions per second on one thread, with data in the nearest cache; `None` if they cannot be measured.
fn rate_of_divisions(
    native: &Native,
    dtype: DType,
    time: impl Fn(&mut <Native as Backend>::MeasureSession, &Candidate) -> Option<f64>,
) -> Option<f64> {
    let (n, divide) = (SAMPLE, if dtype.is_float() { "/" } else { "//" });
    let text = format!(
        "@T.prim_func
def main(A: T.Buffer(({n},), \"{dtype}\"), D: T.Buffer(({n},), \"{dtype}\"), B: T.Buffer(({n},), \"{dtype}\")):
    for i in range({n}):
        with T.block(\"B\"):
            vi = T.axis.spatial({n}, i)
            B[vi] = A[vi] {divide} D[vi]
"
    );
    rate_of(native, &text, time)
}

/// Elements at loaded indices per second on one thread, with data in the nearest cache; `None` if they cannot be measured.
fn rate_of_lookups(
    native: &Native,
    time: impl Fn(&mut <Native as Backend>::MeasureSession, &Candidate) -> Option<f64>,
) -> Option<f64> {
    let n = SAMPLE;
    let text = format!(
        "@T.prim_func
def main(A: T.Buffer(({n},), \"float32\"), I: T.Buffer(({n},), \"int32\"), B: T.Buffer(({n},), \"float32\")):
    for i in range({n}):
        with T.block(\"B\"):
            vi = T.axis.spatial({n}, i)
            B[vi] = A[T.max(T.min(I[vi], {n} - 1), 0)]
"
    );
    rate_of(native, &text, time)
}

/// Elements of [`SAMPLE`] that a program computes per second.
fn rate_of(
    native: &Native,
    text: &str,
    time: impl Fn(&mut <Native as Backend>::MeasureSession, &Candidate) -> Option<f64>,
) -> Option<f64> {
    let module = parse(text, "function.tir", &ParseOptions::default()).ok()?.module;
    let workload = Workload::of(&module, 0);
    let code = native.compile(program_hash(workload.func()), workload.func()).ok()?.code;
    let secs = time(&mut native.open(&workload).ok()?, &code)?;
    (secs > 0.0).then(|| f64::from(SAMPLE) / secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Target;
    use crate::perf::flops;
    use crate::tune::Interrupt;
    use crate::workload::Setting;

    fn measured(name: &str, peak: f64) -> Roofline {
        let path = format!("{}/workloads/{name}.tir", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let module = parse(&text, name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let target = Target::native().target;
        let setting = Setting { isa: target.best_isa(), target, threads: 1, strict_fp: false, check: false };
        let native = Native::new(&setting, None, &Interrupt::new()).expect("threads");
        let func = &module.funcs[0];
        measured_roofline(&native, func, flops::work(func).bytes, Some(peak))
    }

    #[test]
    fn functions_have_rates_of_their_own() {
        let r = measured("softmax", 1e15);
        let [exp, division] = &r.functions[..] else { panic!("two functions: {:?}", r.functions) };
        assert_eq!((exp.name, exp.calls), ("exp", 256.0 * 1024.0));
        assert_eq!((division.name, division.calls), ("division", 256.0), "a reciprocal for each row");
        let us = r.operations_us.expect("a peak");
        let of_exp = exp.calls / exp.gcalls / 1e9;
        assert!((1.0..1.3).contains(&(us * 1e-6 / of_exp)), "nearly all of it is exp, and some sums and maxima: {r:?}");
        assert_eq!(r.bound_us, r.traffic_us.max(us));
    }

    #[test]
    fn the_higher_bound_counts() {
        assert_eq!(measured("matmul", 1e6).bound_by, "operations");
        let r = measured("matmul", 1e15);
        assert_eq!((r.bound_by, r.bound_us, r.bytes), (r.level, r.traffic_us, 3 * 128 * 128 * 4));
    }
}
