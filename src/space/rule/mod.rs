//! Rules: what may be done with a block.

use crate::schedule::Schedule;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;
use crate::target::Target;

pub mod add_rfactor;
pub mod auto_inline;
pub mod inline_constant_scalars;
pub mod multi_level_tiling;
pub mod parallelize_vectorize_unroll;
pub mod random_compute_location;

/// A rule maps a schedule and a block to schedules: the same one where it does not fire, one or several changed ones
/// where it does.
pub trait Rule: Send + Sync {
    /// The name, as in TVM.
    fn name(&self) -> &'static str;

    /// The schedules that take the place of `sch`; `block` still exists.
    ///
    /// # Errors
    /// If an instruction is refused that the rule's own checks had allowed.
    fn apply(&self, sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError>;
}

/// The default rules. Adding one is a file and a line here.
pub fn auto(target: &Target, threads: usize) -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(auto_inline::AutoInline::default()),
        Box::new(multi_level_tiling::MultiLevelTiling::for_target(target)),
        Box::new(parallelize_vectorize_unroll::ParallelizeVectorizeUnroll::for_threads(threads)),
    ]
}

/// TVM's default rules for a CPU with so many cores, in its order.
pub fn tvm(cores: usize) -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(inline_constant_scalars::InlineConstantScalars),
        Box::new(auto_inline::AutoInline::default()),
        Box::new(add_rfactor::AddRFactor::tvm(cores)),
        Box::new(multi_level_tiling::MultiLevelTiling::tvm()),
        Box::new(parallelize_vectorize_unroll::ParallelizeVectorizeUnroll::tvm(cores)),
        Box::new(random_compute_location::RandomComputeLocation),
    ]
}
