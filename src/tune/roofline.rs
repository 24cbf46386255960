//! The roofline: the least time that a function can take on this machine.
//!
//! Two bounds, of which the higher one counts:
//!
//! * *operations*: what the results [need](super::needed), functions of scalars (`exp`, `tanh`, …) at the rate at which compiled code computes each alone, over data in
//!   the nearest cache; all other operations at the peak of multiply-adds;
//! * *traffic*: every parameter that is touched moves once, at the rate at which this machine copies what is written, and
//!   reads the rest, over and over in as many bytes. Temporaries are free: a good schedule keeps them near.

use super::backend::{Backend, Lab};
use super::flops::moved_of;
use super::native::Native;
use super::needed::{Needed, gathered};
use super::workload::Workload;
use crate::ir::hash::program_hash;
use crate::ir::op::{Domain, Intrinsic};
use crate::ir::stmt::{Stmt, StmtId};
use crate::ir::visit::{Visitor, walk_stmt};
use crate::ir::{BufferId, DType, Func};
use crate::measure::{Candidate, Level, Outcome, Runner, traffic};
use crate::script::{ParseOptions, parse};
use serde::Serialize;
use std::collections::BTreeSet;

/// The bounds of a function. Field names are interface (docs/tuning.md).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Roofline {
    /// The least microseconds: the larger of the two bounds.
    pub bound_us: f64,
    /// What that is: `operations`, or the level of memory.
    pub bound_by: &'static str,
    /// Microseconds that the operations take at least; `None` where there is no peak.
    pub operations_us: Option<f64>,
    /// The functions of scalars among them.
    pub functions: Vec<FunctionRate>,
    /// Bytes of the parameters that are touched.
    pub bytes: u64,
    /// The level of memory that they fit.
    pub level: &'static str,
    /// 10^9 bytes a second that the machine moves there.
    pub level_gbs: f64,
    /// Microseconds that moving them takes at least.
    pub traffic_us: f64,
}

/// How often a function of scalars is called, and how fast it is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FunctionRate {
    /// Its name.
    pub name: &'static str,
    /// Calls.
    pub calls: f64,
    /// 10^9 calls a second, alone.
    pub gcalls: f64,
}

/// Elements of the program that times a function: input and output fit the nearest cache of every machine.
const SAMPLE: u32 = 2048;

impl Roofline {
    /// Measures the bounds of a program that touches so many bytes; `peak` is that of multiply-adds, in operations per
    /// second.
    pub fn measure(native: &Native, func: &Func, bytes: u64, peak: Option<f64>) -> Roofline {
        Roofline::with_rates(native, func, bytes, peak, |lab, code| Some(lab.bench(code).ok()?.summary.median))
    }

    /// The same at a glance: functions of scalars are timed for some milliseconds only.
    pub fn estimate(native: &Native, func: &Func, bytes: u64, peak: Option<f64>) -> Roofline {
        Roofline::with_rates(native, func, bytes, peak, |lab, code| match lab.measure(code) {
            Outcome::Measured(m) => Some(m.secs),
            _ => None,
        })
    }

    fn with_rates(
        native: &Native,
        func: &Func,
        bytes: u64,
        peak: Option<f64>,
        time: impl Fn(&mut <Native as Backend>::Lab, &Candidate) -> Option<f64>,
    ) -> Roofline {
        let threads = f64::from(native.setting().threads.max(1));
        let mut functions = Vec::new();
        let Needed { ops: mut rest, calls } = Needed::of(func);
        for ((function, dtype), calls) in calls {
            if let Some(rate) = is_slow(function).then(|| rate(native, function, dtype, &time)).flatten() {
                rest -= calls;
                functions.push(FunctionRate { name: function.name(), calls, gcalls: rate * threads / 1e9 });
            }
        }
        let in_functions: f64 = functions.iter().map(|f| f.calls / f.gcalls / 1e9).sum();
        let operations = peak.map(|peak| rest.max(0.0) / peak + in_functions);
        let level = Level::of(bytes, native.machine());
        // Bandwidth of caches grows with the threads, that of memory does not.
        let cores = if level == Level::Memory { 1.0 } else { threads };
        let written = written(func).min(bytes);
        let traffic = traffic(bytes - written, written, native.machine(), native.clock()) / cores;
        let (bound, bound_by) = match operations {
            Some(secs) if secs > traffic => (secs, "operations"),
            _ => (traffic, level.name()),
        };
        Roofline {
            bound_us: bound * 1e6,
            bound_by,
            operations_us: operations.map(|s| s * 1e6),
            functions,
            bytes,
            level: level.name(),
            level_gbs: if traffic > 0.0 { bytes as f64 / traffic / 1e9 } else { 0.0 },
            traffic_us: traffic * 1e6,
        }
    }
}

/// Bytes of the parameters that a function stores to.
fn written(func: &Func) -> u64 {
    struct Stored(BTreeSet<BufferId>);

    impl Visitor for Stored {
        fn visit_stmt(&mut self, func: &Func, s: StmtId) {
            if let Stmt::Store { buffer, .. } = func.get(s) {
                self.0.insert(*buffer);
            }
            walk_stmt(self, func, s);
        }
    }

    let gathered = gathered(func);
    let mut stored = Stored(BTreeSet::new());
    stored.visit_stmt(func, func.root.stmt());
    let params = func.params.iter().filter_map(|p| p.buffer.filter(|b| stored.0.contains(b)));
    params.map(|b| moved_of(func, b, &gathered)).sum()
}

/// Is it more than an instruction or two?
fn is_slow(function: Intrinsic) -> bool {
    use Intrinsic::{Abs, Ceil, CopySign, Floor, Fma, IsFinite, IsInf, IsNan, NearbyInt, Round, Trunc};
    function.domain() == Domain::Float
        && !matches!(
            function,
            Abs | Ceil | CopySign | Floor | Fma | IsFinite | IsInf | IsNan | NearbyInt | Round | Trunc
        )
}

/// Calls of a function per second on one thread, as compiled code for the same instruction set does them; `None` if that
/// cannot be measured.
fn rate(
    native: &Native,
    function: Intrinsic,
    dtype: DType,
    time: impl Fn(&mut <Native as Backend>::Lab, &Candidate) -> Option<f64>,
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
    let module = parse(&text, "function.tir", &ParseOptions::default()).ok()?.module;
    let workload = Workload::of(&module, 0);
    let code = native.compile(program_hash(workload.func()), workload.func()).ok()?.code;
    let secs = time(&mut native.open(&workload).ok()?, &code)?;
    (secs > 0.0).then(|| f64::from(n) / secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Target;
    use crate::tune::config::Setting;
    use crate::tune::{Interrupt, flops};

    fn measured(name: &str, peak: f64) -> Roofline {
        let path = format!("{}/workloads/{name}.tir", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let module = parse(&text, name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let target = Target::native().target;
        let setting = Setting { isa: target.best_isa(), target, threads: 1, strict_fp: false, check: false };
        let native = Native::new(&setting, None, &Interrupt::new()).expect("threads");
        let func = &module.funcs[0];
        Roofline::measure(&native, func, flops::work(func).bytes, Some(peak))
    }

    #[test]
    fn functions_have_rates_of_their_own() {
        let r = measured("softmax", 1e15);
        let [exp] = &r.functions[..] else { panic!("one function: {:?}", r.functions) };
        assert_eq!((exp.name, exp.calls), ("exp", 256.0 * 1024.0));
        let us = r.operations_us.expect("a peak");
        assert!((us * 1e-6 * exp.gcalls * 1e9 / exp.calls - 1.0).abs() < 0.01, "nearly all of it is exp: {r:?}");
        assert_eq!(r.bound_us, r.traffic_us.max(us));
    }

    #[test]
    fn the_higher_bound_counts() {
        assert_eq!(measured("matmul", 1e6).bound_by, "operations");
        let r = measured("matmul", 1e15);
        assert_eq!((r.bound_by, r.bound_us, r.bytes), (r.level, r.traffic_us, 3 * 128 * 128 * 4));
    }
}
