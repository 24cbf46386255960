//! The roofline: the least time that a function can take on this machine.
//!
//! It is the larger of two bounds:
//!
//! * *operations*: the [minimum](super::min_ops) of operations. Functions of scalars (`exp`, `tanh`, …) run at the rate that
//!   compiled code reaches for each alone, on data in the nearest cache. All other operations run at the peak of
//!   multiply-adds, but those that cannot be part of one no faster than additions and maxima by turns. Elements whose last
//!   index is computed from elements of other buffers, or another index from elements that change with the last one, are
//!   looked up one by one, at the rate of compiled code that does nothing else;
//! * *traffic*: every parameter that is accessed moves once, at the rate at which the machine copies as many bytes as are both read
//!   and written, and reads or writes the others. Temporaries are free, since a good schedule keeps them in near caches.

use super::flops::moved_of;
use super::min_ops::{MinOps, gathered};
use crate::ir::op::{Domain, Intrinsic};
use crate::ir::stmt::{Stmt, StmtId};
use crate::ir::visit::{Visitor, walk_stmt};
use crate::ir::{BufferId, DType, Func};
use crate::machine::Target;
use crate::measure::{Level, Timer, traffic};
use serde::Serialize;
use std::collections::BTreeSet;

/// The bounds of a function. Field names are interface (docs/tuning.md).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Roofline {
    /// The larger of the two bounds, in microseconds.
    pub bound_us: f64,
    /// The bound that is larger: `operations`, or the level of memory.
    pub bound_by: &'static str,
    /// The bound by operations, in microseconds; `None` if no peak is known and nothing else takes time.
    pub operations_us: Option<f64>,
    /// The functions of scalars among the operations.
    pub functions: Vec<FunctionRate>,
    /// Bytes of the parameters that are accessed.
    pub bytes: u64,
    /// The level of memory that holds these bytes.
    pub level: &'static str,
    /// Bandwidth at this level, in 10^9 bytes per second.
    pub level_gbs: f64,
    /// The bound by traffic, in microseconds.
    pub traffic_us: f64,
}

/// The calls of a function of scalars, the divisions (`division`), or the elements that are looked up (`lookup`), and the
/// rate.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FunctionRate {
    /// Its name.
    pub name: &'static str,
    /// Calls.
    pub calls: f64,
    /// 10^9 calls per second of compiled code that computes nothing else.
    pub gcalls: f64,
}

/// The peak of multiply-adds is at most so many times the rate of additions.
const SLOWEST_SUMS: f64 = 4.0;

/// The rates of a machine from which the bounds follow.
pub(crate) struct Rates<'a> {
    /// The machine.
    pub target: &'a Target,
    /// Threads of the kernel.
    pub threads: u32,
    /// Operations per second at the peak of multiply-adds, if known.
    pub peak: Option<f64>,
    /// The clock.
    pub clock: &'a dyn Timer,
    /// Additions and maxima of floats per second, on all threads; `None` if that cannot be measured.
    pub sums: &'a mut dyn FnMut() -> Option<f64>,
    /// Calls of a function of scalars per second on one thread; `None` if that cannot be measured.
    pub function: &'a mut dyn FnMut(Intrinsic, DType) -> Option<f64>,
    /// Divisions per second on one thread; `None` if that cannot be measured.
    pub division: &'a mut dyn FnMut(DType) -> Option<f64>,
    /// Elements at loaded indices per second on one thread; `None` if that cannot be measured.
    pub lookup: &'a mut dyn FnMut() -> Option<f64>,
}

impl Roofline {
    /// The bounds of a program that touches `bytes` bytes, on a machine with these rates.
    pub(crate) fn new(func: &Func, bytes: u64, rates: &mut Rates<'_>) -> Roofline {
        let threads = f64::from(rates.threads.max(1));
        let mut functions = Vec::new();
        let least = MinOps::of(func);
        let unfused = least.unfused();
        let MinOps { ops: mut rest, calls, divisions, lookups, .. } = least;
        for ((function, dtype), calls) in calls {
            if let Some(rate) = is_slow(function).then(|| (rates.function)(function, dtype)).flatten() {
                rest -= calls;
                functions.push(FunctionRate { name: function.name(), calls, gcalls: rate * threads / 1e9 });
            }
        }
        for (dtype, calls) in divisions {
            if let Some(rate) = (rates.division)(dtype) {
                rest -= calls;
                functions.push(FunctionRate { name: "division", calls, gcalls: rate * threads / 1e9 });
            }
        }
        if lookups > 0.0
            && let Some(rate) = (rates.lookup)()
        {
            functions.push(FunctionRate { name: "lookup", calls: lookups, gcalls: rate * threads / 1e9 });
        }
        let in_functions: f64 = functions.iter().map(|f| f.calls / f.gcalls / 1e9).sum();
        // A program without multiply-adds may have no peak.
        let operations = match rates.peak {
            Some(peak) => {
                let is_bound = unfused * SLOWEST_SUMS > rest;
                let sums = is_bound.then(|| (rates.sums)()).flatten().map_or(0.0, |rate| unfused / rate);
                Some((rest.max(0.0) / peak).max(sums) + in_functions)
            }
            None => (in_functions > 0.0).then_some(in_functions),
        };
        let level = Level::of(bytes, rates.target);
        // Bandwidth of caches grows with the threads, that of memory does not.
        let cores = if level == Level::Memory { 1.0 } else { threads };
        let written = written(func).min(bytes);
        let traffic = traffic(bytes - written, written, rates.target, rates.clock) / cores;
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

/// Does the function take more than an instruction or two?
fn is_slow(function: Intrinsic) -> bool {
    use Intrinsic::{Abs, Ceil, CopySign, Floor, Fma, IsFinite, IsInf, IsNan, NearbyInt, Round, Trunc};
    function.domain() == Domain::Float
        && !matches!(
            function,
            Abs | Ceil | CopySign | Floor | Fma | IsFinite | IsInf | IsNan | NearbyInt | Round | Trunc
        )
}
