//! # `inline_constant_scalars`
//!
//! *When*: a block computes a scalar from nothing; or it writes one buffer element by element, from elements at the
//! same or shifted indices, and neither calls `exp` or another costly function nor contains a condition. In a program
//! without reductions only the first part of this matters. *What*: `compute_inline`. *Why*: the buffer's memory traffic
//! is saved, and only what costs less than a load is recomputed. As in TVM.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), B: T.Buffer(32)):
//!     c = T.sblock_alloc_buffer(())
//!     with T.sblock("c"):
//!         vu = T.axis.spatial(1, 0)
//!         c[()] = 2.0
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * c[()]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer(32), B: T.Buffer(32)):
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * 2.0
//! ```
//!
//! # Implementation
//!
//! Inlines constants that are stored in a buffer of their own.
//!
//! *When*: the block stores one value that depends on no buffer into a buffer without dimensions, which is not an
//! output. *What*: `compute_inline`. *Why*: this saves a load at each use of the constant, and lets other rules see its
//! value.
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/auto_inline.cc` (`InlineConstantScalars`).

use super::super::analysis::live_block;
use super::super::draft::Draft;
use super::Rule;
use crate::schedule::Schedule;
use crate::schedule::analysis::block_class::is_output_block;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct InlineConstantScalars;

impl Rule for InlineConstantScalars {
    fn name(&self) -> &'static str {
        "inline_constant_scalars"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl InlineConstantScalars {
    fn schedules(&self, mut sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        if fits(&sch, block) {
            // A refusal means that the rule does not fire, and leaves the schedule unchanged.
            let _ = sch.compute_inline(block);
        }
        Ok(vec![sch])
    }
}

fn fits(sch: &Schedule, rv: Rv) -> bool {
    let Some((index, block)) = live_block(sch, rv) else { return false };
    let func = sch.func(index);
    let node = func.block(block);
    let Some(scope) = func.block_above(block.stmt()) else { return false };
    let [write] = &node.writes[..] else { return false };
    node.reads.is_empty() && write.rank(&func.arena) == 0 && !is_output_block(func, block, scope)
}
