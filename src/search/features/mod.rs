//! What can be said about a candidate without compiling it: numbers for a cost model, and an analytical estimate of its
//! time.
//!
//! The scheduled program is taken apart into its stores, each with the loops around it and how its accesses move with them
//! ([`leaf`]); of these it is foreseen what the code generator makes ([`kernel`]), and what has to move between the levels of
//! memory ([`traffic`]). The estimate is the larger of computing and moving, with a part of the smaller. It need not be
//! right: a model learns by which factor it is wrong, from what the features have in common.

pub mod kernel;
pub mod leaf;
mod machine;
mod ops;
mod points;
pub mod traffic;

pub use machine::Machine;

use crate::ir::stmt::LoopKind;
use crate::ir::{Func, StmtId};
use kernel::{Kernel, LanesBy};
use leaf::Leaf;
use traffic::Traffic;

/// Numbers about a candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Features {
    /// What the model looks at; see [`names`]. Counts are logarithms.
    pub values: Vec<f64>,
    /// Seconds by the analytical estimate.
    pub estimate: f64,
    /// Seconds of what cannot be avoided, by the same reckoning: instructions that compute, or loads, or stores alone.
    pub least: f64,
}

/// The stores that take longest, of which the model sees details.
const DETAILED: usize = 2;
/// The share of the shorter of computing and moving that the longer one does not hide.
const EXPOSED: f64 = 0.3;
/// Cycles to hand a parallel loop to the threads, and to wait for them.
const FORK: f64 = 15_000.0;

/// A store with what is to be expected of it.
struct Part<'a> {
    leaf: &'a Leaf,
    kernel: Kernel,
    traffic: Traffic,
    moving: f64,
    parallel: Parallel,
    cycles: f64,
    /// Cycles that are needed at least: nothing but instructions of one kind, or moving at twice the nominal rate.
    least: f64,
}

impl Features {
    /// The features of a scheduled program, postprocessing included.
    pub fn of(func: &Func, machine: &Machine) -> Features {
        let leaves = leaf::leaves(func);
        let touched = traffic::touched(&leaves, machine);
        let mut parts: Vec<Part<'_>> = leaves.iter().map(|leaf| Part::new(leaf, machine, touched)).collect();
        // A stable order, so that equal programs have equal features.
        parts.sort_by(|a, b| b.cycles.total_cmp(&a.cycles));
        let cycles: f64 = parts.iter().map(|p| p.cycles).sum::<f64>().max(1.0);
        let least: f64 = parts.iter().map(|p| p.least).sum();
        let mut values = Vec::with_capacity(COMMON.len() + DETAILED * OF_PART.len());
        let sum = |f: fn(&Part<'_>) -> f64| parts.iter().map(f).sum::<f64>();
        let moved = |level: usize| parts.iter().map(|p| p.traffic.bytes[level]).sum::<f64>();
        let scratch = scratch_bytes(func);
        values.extend([
            log(cycles),
            log(sum(|p| p.kernel.cycles)),
            log(sum(|p| p.moving)),
            log(sum(|p| p.kernel.computing)),
            log(sum(|p| p.kernel.loads)),
            log(sum(|p| p.kernel.stores)),
            log(sum(|p| p.kernel.iterations)),
            log(sum(|p| p.kernel.tiles)),
            log(moved(0)),
            log(moved(1)),
            log(moved(2)),
            log(touched),
            log(scratch),
            parts.len() as f64,
            log(sum(|p| p.kernel.sums())),
            parts.iter().map(|p| p.leaf.useful).fold(1.0, f64::min),
        ]);
        let nothing = vec![0.0; OF_PART.len()];
        for i in 0..DETAILED {
            values.extend(parts.get(i).map_or_else(|| nothing.clone(), |p| p.values(cycles)));
        }
        debug_assert_eq!(values.len(), names().len());
        Features { values, estimate: cycles / machine.hertz, least: least / machine.hertz }
    }
}

const COMMON: [&str; 16] = [
    "cycles",
    "computing_cycles",
    "moving_cycles",
    "computing",
    "loads",
    "stores",
    "iterations",
    "tiles",
    "bytes_l1",
    "bytes_l2",
    "bytes_l3",
    "touched",
    "scratch",
    "stores_written",
    "sums",
    "least_useful",
];

const OF_PART: [&str; 27] = [
    "share",
    "computing_share",
    "lanes_by",
    "filled",
    "rows",
    "vectors",
    "sums",
    "trips",
    "tiles",
    "loads_per_computing",
    "iterations",
    "efficiency",
    "resident_l1",
    "resident_l2",
    "outside_l1",
    "outside_l2",
    "bytes_l1",
    "bytes_l2",
    "bytes_l3",
    "conflicts",
    "useful",
    "is_guarded",
    "unroll",
    "depth",
    "widest_inner_step",
    "chunks",
    "is_reduction",
];

/// The names of the features, in order.
pub fn names() -> Vec<String> {
    let common = COMMON.iter().map(ToString::to_string);
    let of_parts = (0..DETAILED).flat_map(|i| OF_PART.iter().map(move |name| format!("{name}_{i}")));
    common.chain(of_parts).collect()
}

fn log(x: f64) -> f64 {
    (1.0 + x.max(0.0)).ln()
}

impl<'a> Part<'a> {
    fn new(leaf: &'a Leaf, machine: &Machine, touched: f64) -> Part<'a> {
        let (kernel, loops) = Kernel::of(leaf, machine);
        let traffic = Traffic::of(leaf, &loops, machine, touched);
        let moving: f64 = traffic.bytes.iter().zip(machine.bandwidth).map(|(bytes, rate)| bytes / rate).sum();
        let parallel = Parallel::of(leaf, machine);
        let (more, less) = (kernel.cycles.max(moving), kernel.cycles.min(moving));
        let cycles = (more + EXPOSED * less) / parallel.speedup + parallel.forks * FORK;
        let least = (kernel.computing / kernel::PORTS).max(kernel.loads / kernel::LOAD_PORTS).max(kernel.stores);
        let least = least.max(moving / 2.0) / parallel.speedup;
        Part { leaf, kernel, traffic, moving, parallel, cycles, least }
    }

    fn values(&self, all: f64) -> Vec<f64> {
        let k = &self.kernel;
        let t = &self.traffic;
        let lanes_by = match k.lanes_by {
            LanesBy::Scalar => 0.0,
            LanesBy::Reduction => 1.0,
            LanesBy::Space => 2.0,
        };
        vec![
            self.cycles / all,
            k.cycles / (k.cycles + self.moving).max(1.0),
            lanes_by,
            k.filled,
            k.rows,
            k.vectors,
            k.sums(),
            log(k.trips),
            log(k.tiles),
            k.loads / k.computing.max(1.0),
            log(k.iterations),
            k.least_cycles / k.cycles.max(1.0),
            log(t.resident[0]),
            log(t.resident[1]),
            log(t.outside[0]),
            log(t.outside[1]),
            log(t.bytes[0]),
            log(t.bytes[1]),
            log(t.bytes[2]),
            log(t.conflicts),
            self.leaf.useful,
            f64::from(u8::from(self.leaf.is_guarded)),
            log(self.leaf.unroll as f64),
            self.leaf.levels.len() as f64,
            log(self.inner_step()),
            log(self.parallel.chunks),
            f64::from(u8::from(self.leaf.updates)),
        ]
    }

    /// The largest step in bytes that an operand makes with the innermost reduction: far steps leave the page.
    fn inner_step(&self) -> f64 {
        let Some(store) = self.leaf.accesses.first() else { return 0.0 };
        let Some(i) = store.strides.iter().rposition(|&s| s == 0) else { return 0.0 };
        self.leaf.accesses[1..].iter().map(|a| a.strides[i].unsigned_abs() as f64 * a.bytes).fold(0.0, f64::max)
    }
}

/// How a store is spread over threads.
struct Parallel {
    /// How much faster it is for it.
    speedup: f64,
    /// Iterations of the parallel loop; 1 without one.
    chunks: f64,
    /// How often threads are woken up.
    forks: f64,
}

impl Parallel {
    fn of(leaf: &Leaf, machine: &Machine) -> Parallel {
        let alone = Parallel { speedup: 1.0, chunks: 1.0, forks: 0.0 };
        if machine.threads <= 1.0 {
            return alone;
        }
        let Some(i) = leaf.levels.iter().position(|l| l.kind == LoopKind::Parallel) else { return alone };
        let chunks = leaf.levels[i].extent as f64;
        // The last ones work while others have nothing left.
        let speedup = chunks / (chunks / machine.threads).ceil();
        let forks = leaf.levels[..i].iter().map(|l| l.extent as f64).product();
        Parallel { speedup, chunks, forks }
    }
}

/// Bytes of the buffers that the program allocates.
fn scratch_bytes(func: &Func) -> f64 {
    let bytes = |b: &crate::ir::BufferId| {
        let buffer = func.arena.buffer(*b);
        let extents = func.arena.list(buffer.shape).iter().filter_map(|&e| func.arena.as_int(e));
        buffer.dtype.bytes() as f64 * extents.map(|n| n as f64).product::<f64>()
    };
    let blocks: Vec<StmtId> = func.subtree(func.root.stmt());
    blocks.iter().filter_map(|&s| func.as_block(s)).flat_map(|b| &func.block(b).allocs).map(bytes).sum()
}
