//! # `auto_inline`
//!
//! *When*: a block computes a scalar from nothing; or it writes one buffer element by element, from elements at the
//! same or shifted indices, and neither calls `exp` or another costly function nor contains a condition. In a program
//! without reductions only the first part of this matters. *What*: `compute_inline`. *Why*: the buffer's memory traffic
//! is saved, and only what costs less than a load is recomputed. As in TVM.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 32)), C: T.Buffer(4)):
//!     B = T.sblock_alloc_buffer((4, 32))
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("B"):
//!             vi, vk = T.axis.remap("SS", [i, k])
//!             B[vi, vk] = A[vi, vk] * 2.0
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("C"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = 0.0
//!             C[vi] = C[vi] + B[vi, vk]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer((4, 32)), C: T.Buffer((4,))):
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("C"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = 0.0
//!             C[vi] = C[vi] + A[vi, vk] * 2.0
//! ```
//!
//! # Implementation
//!
//! Inlines blocks that are cheap to recompute into their consumers.
//!
//! *When*: the block writes one buffer that consumers read, every index it reads is a constant or one of the indices it
//! writes (shifted by a constant), each used once and in order, and it contains neither a conditional nor a costly
//! function. In a program without reductions only the first condition counts. *What*: `compute_inline`. *Why*: this
//! saves the intermediate buffer's memory traffic, and recomputes only what costs less than a load.
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/auto_inline.cc`.

use super::super::analysis::{calls, has_conditional, is_spatial, live_block, read_write_pattern};
use super::super::draft::Draft;
use super::Rule;
use crate::ir::Intrinsic;
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::has_consumer;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct AutoInline {
    /// Functions too costly to recompute.
    pub disallowed: Vec<Intrinsic>,
}

impl Default for AutoInline {
    fn default() -> Self {
        AutoInline { disallowed: vec![Intrinsic::Exp] }
    }
}

impl Rule for AutoInline {
    fn name(&self) -> &'static str {
        "auto_inline"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl AutoInline {
    fn schedules(&self, mut sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        if self.fits(&sch, block) {
            // The primitive decides whether inlining is legal; a refusal means that the rule does not fire, and leaves
            // the schedule unchanged.
            let _ = sch.compute_inline(block);
        }
        Ok(vec![sch])
    }
}

impl AutoInline {
    fn fits(&self, sch: &Schedule, rv: Rv) -> bool {
        let Some((index, block)) = live_block(sch, rv) else { return false };
        let func = sch.func(index);
        let node = func.block(block);
        let Some(scope) = func.block_above(block.stmt()) else { return false };
        let [write] = &node.writes[..] else { return false };
        if !has_consumer(&sch.states[index], scope, block) {
            return false;
        }
        let is_cheap = !calls(func, block.stmt(), &self.disallowed)
            && !has_conditional(func, block.stmt())
            && node.reads.iter().all(|read| read_write_pattern(func, read, write) == (true, true));
        // Checked last, since it visits all blocks.
        is_cheap || node.reads.is_empty() || func.blocks().iter().all(|&b| is_spatial(func, b))
    }
}
