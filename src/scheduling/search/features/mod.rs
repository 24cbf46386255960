//! Features of a candidate without compiling it: numbers for the cost model, and an analytical estimate of its time.
//!
//! The scheduled program is split into its stores, each with the loops around it and the strides of its accesses
//! ([`leaf`]). For each store, [`kernel`] predicts the code that the code generator makes, and [`traffic`] the bytes
//! that move between the levels of memory. The estimate is the longer of computing and moving, plus a part of the
//! shorter. It need not be exact: the cost model learns its error from features that programs have in common.

#[cfg(test)]
mod agreement;
pub(crate) mod kernel;
pub(crate) mod leaf;
mod ops;
mod points;
pub(crate) mod traffic;

use crate::ir::preparation::separate;
use crate::ir::stmt::LoopKind;
use crate::ir::{Func, LoopId, StmtId};
use crate::machine::{Core, Isa, Target};
use kernel::{Kernel, LanesBy};
use leaf::Leaf;
use traffic::Traffic;

/// The generated code that estimates are for: the cores that run it, and the allowed rewrites of floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeModel {
    /// The cores and their caches.
    pub core: Core,
    /// Whether sums of floats may be reassociated.
    pub reassociates: bool,
}

impl CodeModel {
    /// Code for an instruction set, on `threads` cores of a machine.
    pub fn new(target: &Target, isa: Isa, strict_fp: bool, threads: u32) -> CodeModel {
        CodeModel { core: Core::new(target, isa, threads as usize), reassociates: !strict_fp }
    }

    /// Size of a cache line in bytes.
    fn line(&self) -> f64 {
        self.core.line as f64
    }
}

/// Features of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Features {
    /// Inputs of the cost model; see [`names`]. Counts are logarithms.
    pub values: Vec<f64>,
    /// The analytical estimate, in seconds.
    pub estimate: f64,
    /// Lower bound of the same model, in seconds: arithmetic instructions alone, loads alone, or stores alone.
    pub least: f64,
}

/// Number of stores, the slowest ones, whose details are features.
const DETAILED: usize = 2;
/// Share of the shorter of computing and moving that does not overlap with the longer.
const EXPOSED: f64 = 0.3;
/// Cycles to start a parallel loop on the threads and to wait for them.
const FORK: f64 = 15_000.0;

/// A store with its predicted cost.
struct Part<'a> {
    leaf: &'a Leaf,
    kernel: Kernel,
    traffic: Traffic,
    moving: f64,
    parallel: Parallel,
    cycles: f64,
    /// Lower bound in cycles: the instructions of one kind alone, or the traffic at twice the nominal bandwidth.
    least: f64,
}

impl Features {
    /// The features of a scheduled program after postprocessing.
    pub fn of(func: &Func, machine: &CodeModel) -> Features {
        // Preparations take no time of a call.
        let separated = separate(func);
        let func = separated.as_ref().map_or(func, |parts| &parts.call);
        let func = &*func.without_steps();
        let leaves = leaf::leaves(func);
        let touched = traffic::touched(&leaves, machine);
        let mut parts: Vec<Part<'_>> = leaves.iter().map(|leaf| Part::new(leaf, machine, touched)).collect();
        let mut forked = Vec::new();
        for part in &mut parts {
            // A loop around several stores wakes the threads only once.
            if let Some(l) = part.parallel.at.filter(|l| !forked.contains(l)) {
                forked.push(l);
                part.cycles += part.parallel.forks * FORK;
            }
        }
        // A stable sort, so that equal programs have equal features.
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
        Features { values, estimate: cycles / Core::HERTZ, least: least / Core::HERTZ }
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
    fn new(leaf: &'a Leaf, machine: &CodeModel, touched: f64) -> Part<'a> {
        let (kernel, loops) = Kernel::of(leaf, machine);
        let traffic = Traffic::of(leaf, &loops, machine, touched);
        // Transfers between different levels overlap.
        let moving = traffic.bytes.iter().zip(Core::BANDWIDTH).map(|(bytes, rate)| bytes / rate).fold(0.0, f64::max);
        let parallel = Parallel::of(leaf, machine);
        let (more, less) = (kernel.cycles.max(moving), kernel.cycles.min(moving));
        let cycles = (more + EXPOSED * less) / parallel.speedup;
        let least = (kernel.computing / Core::VECTOR_PORTS).max(kernel.loads / Core::LOAD_PORTS).max(kernel.stores);
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

    /// The largest stride in bytes of an operand along the innermost reduction: large strides leave the page.
    fn inner_step(&self) -> f64 {
        let Some(store) = self.leaf.accesses.first() else { return 0.0 };
        let Some(i) = store.strides.iter().rposition(|&s| s == 0) else { return 0.0 };
        self.leaf.accesses[1..].iter().map(|a| a.strides[i].unsigned_abs() as f64 * a.bytes).fold(0.0, f64::max)
    }
}

/// Distribution of a store over threads.
struct Parallel {
    /// Speed-up from running in parallel.
    speedup: f64,
    /// Number of iterations of the parallel loop; 1 without one.
    chunks: f64,
    /// Number of times that the threads are woken.
    forks: f64,
    /// The parallel loop.
    at: Option<LoopId>,
}

impl Parallel {
    fn of(leaf: &Leaf, machine: &CodeModel) -> Parallel {
        let alone = Parallel { speedup: 1.0, chunks: 1.0, forks: 0.0, at: None };
        if machine.core.threads <= 1 {
            return alone;
        }
        let Some(i) = leaf.levels.iter().position(|l| l.kind == LoopKind::Parallel) else { return alone };
        let chunks = leaf.levels[i].extent as f64;
        // In the last round of chunks, some threads are idle.
        let speedup = chunks / (chunks / machine.core.threads as f64).ceil();
        let forks = leaf.levels[..i].iter().map(|l| l.extent as f64).product();
        Parallel { speedup, chunks, forks, at: Some(leaf.levels[i].id) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::cascade_lake;
    use crate::schedule::Schedule;
    use crate::schedule_function::ScheduleFunction;
    use crate::script::{ParseOptions, parse};

    fn machine(threads: u32) -> CodeModel {
        CodeModel::new(&cascade_lake(), Isa::Avx512, false, threads)
    }

    fn scheduled(program: &str, function: &str) -> Func {
        let module = parse(program, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let mut sch = Schedule::new(&module, 0);
        let function = ScheduleFunction::parse(function, "f.py").unwrap_or_else(|e| panic!("{e}"));
        function.apply(&mut sch).unwrap_or_else(|e| panic!("{e:?}"));
        sch.func(0).clone()
    }

    const MATMUL: &str = include_str!("../../../../workloads/matmul.tir");
    const TILED: &str = "def f(sch):
    C = sch.get_block(\"C\", \"main\")
    i, j, k = sch.get_loops(C)
    i0, i1 = sch.split(i, [32, 4])
    j0, j1 = sch.split(j, [2, 64])
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1)
    sch.decompose_reduction(C, k)
";

    /// The update of a tiled matmul: `for i0 in 32: for j0 in 2: for k in 128: for i1 in 4: for j1 in 64`.
    fn update(func: &Func) -> Leaf {
        let mut leaves = leaf::leaves(func);
        assert_eq!(leaves.len(), 2, "the start and the update");
        leaves.pop().expect("two")
    }

    #[test]
    fn accesses_move_with_their_loops() {
        let func = scheduled(MATMUL, TILED);
        let leaf = update(&func);
        let extents: Vec<i64> = leaf.levels.iter().map(|l| l.extent).collect();
        assert_eq!(extents, [32, 2, 128, 4, 64]);
        let strides: Vec<&[i64]> = leaf.accesses.iter().map(|a| &a.strides[..]).collect();
        // The accesses of C, A and B.
        assert_eq!(strides, [[512, 64, 0, 128, 1], [512, 0, 1, 128, 0], [0, 64, 128, 0, 1]]);
        assert_eq!((leaf.executed, leaf.useful, leaf.updates), (128f64.powi(3), 1.0, true));
        assert_eq!((leaf.ops.float, leaf.ops.fused, leaf.ops.instructions()), (2.0, 1.0, 1.0));
        // Lines of 16 elements: a row of the tile has 4, all of B has 1024.
        let all = leaf.pieces();
        assert_eq!(leaf.accesses[0].lines(&all[3..], 64.0), 16.0);
        assert_eq!(leaf.accesses[1].lines(&all[2..], 64.0), 32.0);
        assert_eq!(leaf.accesses[2].lines(&all, 64.0), 1024.0);
    }

    #[test]
    fn the_register_tile_is_foreseen() {
        let func = scheduled(MATMUL, TILED);
        let (kernel, loops) = Kernel::of(&update(&func), &machine(1));
        assert_eq!((kernel.lanes_by, kernel.lanes, kernel.filled), (LanesBy::Space, 16.0, 1.0));
        assert_eq!((kernel.rows, kernel.vectors, kernel.trips, kernel.tiles), (4.0, 4.0, 128.0, 64.0));
        // One multiply-add per vector; in each iteration 4 vectors of B and 4 elements of A.
        assert_eq!(kernel.computing, 128f64.powi(3) / 16.0);
        assert_eq!(kernel.loads, 64.0 * (128.0 * 8.0 + 16.0));
        let order: Vec<(usize, f64)> = loops.iter().map(|p| (p.level, p.extent)).collect();
        assert_eq!(order, [(0, 32.0), (1, 2.0), (2, 128.0), (3, 4.0), (4, 64.0)]);
    }

    #[test]
    fn what_fits_a_cache_does_not_move() {
        let func = scheduled(MATMUL, TILED);
        let leaf = update(&func);
        let (_, loops) = Kernel::of(&leaf, &machine(1));
        let leaves = leaf::leaves(&func);
        let all = traffic::touched(&leaves, &machine(1));
        assert_eq!(all, 3.0 * 65536.0);
        let traffic = Traffic::of(&leaf, &loops, &machine(1), all);
        assert_eq!((traffic.bytes[1], traffic.bytes[2]), (0.0, 0.0), "192 kB fit the second level");
        assert!(traffic.bytes[0] >= all, "but not the first: {traffic:?}");
    }

    #[test]
    fn parallel_loops_share_the_work() {
        let parallel = TILED.replace("    sch.vectorize(j1)", "    sch.parallel(i0)\n    sch.vectorize(j1)");
        let func = scheduled(MATMUL, &parallel);
        let of = |threads| Features::of(&func, &machine(threads)).estimate;
        let ratio = of(1) / (of(3) - FORK / Core::HERTZ);
        // 32 iterations on 3 threads: at most 11 each.
        assert!((2.5..3.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn reductions_of_rows_fill_lanes() {
        let text = "@T.prim_func
def main(A: T.Buffer((64, 1000), \"float32\"), B: T.Buffer((64,), \"float32\")):
    for i, k in T.grid(64, 1000):
        with T.block(\"B\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + T.exp(A[vi, vk])
";
        let func = scheduled(text, "def f(sch):\n    pass\n");
        let mut leaves = leaf::leaves(&func);
        let leaf = leaves.pop().expect("the update");
        let start = leaves.pop().expect("the initial value");
        assert_eq!((start.executed, start.levels.len()), (64.0, 1), "once for each row");
        assert_eq!((leaf.ops.slow, leaf.ops.float), (1.0, 1.0));
        let (kernel, _) = Kernel::of(&leaf, &machine(1));
        assert_eq!((kernel.lanes_by, kernel.tiles), (LanesBy::Reduction, 64.0));
        assert_eq!(kernel.filled, 1000.0 / 1008.0);
    }

    #[test]
    fn predicates_are_waste() {
        let split = "def f(sch):
    i, = sch.get_loops(sch.get_block(\"B\", \"main\"))
    sch.split(i, [None, 16])
";
        let text = "@T.prim_func
def main(A: T.Buffer((100,), \"float32\"), B: T.Buffer((100,), \"float32\")):
    for i in range(100):
        with T.block(\"B\"):
            vi = T.axis.spatial(100, i)
            B[vi] = A[vi] + T.float32(1)
";
        let func = scheduled(text, split);
        let [leaf] = &leaf::leaves(&func)[..] else { panic!("one store") };
        assert_eq!((leaf.executed, leaf.useful, leaf.is_guarded), (112.0, 100.0 / 112.0, true));
        assert_eq!(Features::of(&func, &machine(1)).values.len(), names().len());
    }
}
