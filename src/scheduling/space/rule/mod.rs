//! Rules: rewrite the schedule of a block.

use super::draft::Draft;
use crate::machine::Core;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) mod add_rfactor;
pub(crate) mod auto_inline;
pub(crate) mod channel_lanes;
pub(crate) mod column_strips;
pub(crate) mod deinterleave_windows;
pub(crate) mod dot_tiles;
pub(crate) mod fuse_epilogue;
pub(crate) mod inline_constant_scalars;
pub(crate) mod inline_padding;
pub(crate) mod merge_axes;
pub(crate) mod multi_level_tiling;
pub(crate) mod near_consumer;
pub(crate) mod pack_operands;
pub(crate) mod parallelize_vectorize_unroll;
pub(crate) mod random_compute_location;
pub(crate) mod register_tiles;
pub(crate) mod row_blocks;
pub(crate) mod row_tiles;
pub(crate) mod split_groups;
pub(crate) mod transpose_tiles;
pub(crate) mod tuple_lanes;
pub(crate) mod unfold_windows;
pub(crate) mod unroll_cases;

/// A rule maps a schedule and a block to schedules: the unchanged one if it does not fire, otherwise one or several
/// changed ones.
pub trait Rule: Send + Sync {
    /// The name, as in TVM.
    fn name(&self) -> &'static str;

    /// Whether the rule makes decisions, so that its variants differ.
    fn decides(&self) -> bool {
        false
    }

    /// Returns the schedules that replace `draft`; `block` still exists. Decisions made here are not part of the space;
    /// they make its seeds.
    ///
    /// # Errors
    /// If an instruction is refused that the rule's checks allowed.
    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError>;
}

/// The default rules, in order; `variant` is the rank of the decisions that they make, 0 being the most promising.
/// Adding one is a file and a line here.
pub(crate) fn auto(machine: Core, variant: usize) -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(inline_constant_scalars::InlineConstantScalars),
        Box::new(auto_inline::AutoInline::auto()),
        Box::new(merge_axes::MergeAxes),
        Box::new(split_groups::SplitGroups),
        Box::new(unfold_windows::UnfoldWindows { machine }),
        Box::new(deinterleave_windows::DeinterleaveWindows { machine }),
        Box::new(channel_lanes::ChannelLanes { machine }),
        Box::new(column_strips::ColumnStrips { machine, variant }),
        Box::new(register_tiles::RegisterTiles { machine, variant }),
        Box::new(dot_tiles::DotTiles { machine, variant }),
        Box::new(tuple_lanes::TupleLanes { machine }),
        Box::new(pack_operands::PackOperands),
        Box::new(fuse_epilogue::FuseEpilogue),
        Box::new(transpose_tiles::TransposeTiles { variant }),
        Box::new(add_rfactor::AddRFactor::for_machine(&machine)),
        Box::new(row_blocks::RowBlocks { machine, variant }),
        Box::new(inline_padding::InlinePadding),
        Box::new(unroll_cases::UnrollCases),
        Box::new(row_tiles::RowTiles { machine, variant }),
        Box::new(near_consumer::NearConsumer { machine, variant }),
        Box::new(parallelize_vectorize_unroll::ParallelizeVectorizeUnroll::parallel(machine.threads)),
    ]
}

/// TVM's default rules for a CPU with `cores` cores, in its order.
pub(crate) fn tvm(cores: usize) -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(inline_constant_scalars::InlineConstantScalars),
        Box::new(auto_inline::AutoInline::tvm()),
        Box::new(add_rfactor::AddRFactor::tvm(cores)),
        Box::new(multi_level_tiling::MultiLevelTiling::tvm()),
        Box::new(parallelize_vectorize_unroll::ParallelizeVectorizeUnroll::tvm(cores)),
        Box::new(random_compute_location::RandomComputeLocation),
    ]
}
