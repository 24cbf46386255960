//! # `parallelize_vectorize_unroll`
//!
//! *When*: on the root block, with more than one thread. *What*: the annotation `meta_schedule.parallel` with a sampled
//! number of chunks (1, 4, 16 or 64 per thread). The postprocessor `rewrite_parallel_vectorize_unroll` fuses that many
//! iterations of the outermost loops of each nest and makes them parallel. *Why*: few chunks are long, many balance the
//! load of busy cores.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((64, 4096)), B: T.Buffer((64, 4096))):
//!     for i, j in T.grid(64, 4096):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * 2.0
//!
//! # becomes (threads: 4)
//!
//! @T.prim_func
//! def after(A: T.Buffer((64, 4096)), B: T.Buffer((64, 4096))):
//!     for i_fused in T.parallel(64):
//!         for j in range(4096):
//!             with T.sblock("B"):
//!                 vi, vj = T.axis.remap("SS", [i_fused, j])
//!                 B[vi, vj] = A[vi, vj] * 2.0
//! ```
//!
//! # Implementation
//!
//! Annotates the root block with the degrees of parallelism, vectorisation and unrolling.
//!
//! *When*: on the root block. *What*: annotations `meta_schedule.parallel`, `.vectorize` and, in a function with
//! reductions, `.unroll_explicit`, which is sampled; the postprocessor `rewrite_parallel_vectorize_unroll` applies them
//! once all tiles are known. *Why*: which loops they suit depends on decisions that are not made yet.
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/parallel_vectorize_unroll.cc`.

use super::super::analysis::{is_spatial, live_block};
use super::super::draft::Draft;
use super::Rule;
use crate::schedule::Schedule;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct ParallelizeVectorizeUnroll {
    /// Numbers of parallel chunks to sample from; empty for no parallel loops.
    pub parallel_extents: Vec<i64>,
    /// Maximum extent of the vector loop, in elements; `None` for no annotation.
    pub max_vectorize_extent: Option<i64>,
    /// Unroll limits to sample from, in steps; 0 for no unrolling.
    pub unroll_max_steps: Vec<i64>,
}

/// TVM's default number of parallel chunks per core.
const JOBS_PER_CORE: i64 = 16;
/// Parallel chunks per core in the default space, and the position of the first choice: few enough for each to be long,
/// but more than one, so that a late core does not keep the others waiting.
const CHUNKS: [i64; 4] = [1, 4, 16, 64];
const FIRST_CHUNKS: usize = 1;

impl ParallelizeVectorizeUnroll {
    /// TVM's default CPU parameters for a machine with `cores` cores.
    pub(crate) fn tvm(cores: usize) -> Self {
        ParallelizeVectorizeUnroll {
            parallel_extents: vec![JOBS_PER_CORE * cores as i64],
            max_vectorize_extent: Some(64),
            unroll_max_steps: vec![0, 16, 64, 512],
        }
    }

    /// Parallel loops only, if there are several threads: the code generator decides what to vectorise and unroll.
    pub(crate) fn parallel(threads: i64) -> Self {
        ParallelizeVectorizeUnroll {
            parallel_extents: if threads > 1 { CHUNKS.map(|n| n * threads).to_vec() } else { Vec::new() },
            max_vectorize_extent: None,
            unroll_max_steps: Vec::new(),
        }
    }
}

impl Rule for ParallelizeVectorizeUnroll {
    fn name(&self) -> &'static str {
        "parallelize_vectorize_unroll"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl ParallelizeVectorizeUnroll {
    fn schedules(&self, mut sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        let is_root = live_block(&sch, block).is_some_and(|(f, b)| sch.func(f).root == b);
        if is_root {
            match self.parallel_extents[..] {
                [] => {}
                [extent] => sch.annotate(block, "meta_schedule.parallel", extent)?,
                _ => {
                    let extent = sch.choose_among(&self.parallel_extents, FIRST_CHUNKS)?;
                    sch.annotate(block, "meta_schedule.parallel", extent)?;
                }
            }
            if let Some(extent) = self.max_vectorize_extent {
                sch.annotate(block, "meta_schedule.vectorize", extent)?;
            }
            let n = self.unroll_max_steps.len();
            let reduces = live_block(&sch, block)
                .is_some_and(|(f, _)| sch.func(f).blocks().iter().any(|&b| !is_spatial(sch.func(f), b)));
            if n > 0 && reduces {
                let steps = sch.sample_categorical(&self.unroll_max_steps, &vec![1.0 / n as f64; n])?;
                sch.annotate(block, "meta_schedule.unroll_explicit", steps)?;
            }
        }
        Ok(vec![sch])
    }
}
