//! Postprocessors: finish each candidate once its decisions are made.

use crate::schedule::Schedule;

pub(crate) mod disallow_dynamic_loop;
pub(crate) mod rewrite_layout;
pub(crate) mod rewrite_parallel_vectorize_unroll;
pub(crate) mod rewrite_reduction_block;
pub(crate) mod stream_constants;

/// A postprocessor changes a schedule by instructions, or rejects the candidate.
pub trait Postproc: Send + Sync {
    /// The name, as in TVM.
    fn name(&self) -> &'static str;

    /// Applies the postprocessor.
    ///
    /// # Errors
    /// If it rejects the candidate; the text says why.
    fn apply(&self, sch: &mut Schedule) -> Result<(), String>;
}

/// The postprocessors of the default space, in order. Adding one is a file and a line here. Inits are not decomposed:
/// the code generator initialises a sum next to its tile. Loops whose extent depends on data or on other loops are
/// allowed: kernels count them.
pub fn auto() -> Vec<Box<dyn Postproc>> {
    vec![
        Box::new(rewrite_parallel_vectorize_unroll::RewriteParallelVectorizeUnroll),
        Box::new(stream_constants::StreamConstants),
    ]
}

/// TVM's postprocessors for a CPU, in its order.
pub fn tvm() -> Vec<Box<dyn Postproc>> {
    vec![
        Box::new(disallow_dynamic_loop::DisallowDynamicLoop),
        Box::new(rewrite_parallel_vectorize_unroll::RewriteParallelVectorizeUnroll),
        Box::new(rewrite_reduction_block::RewriteReductionBlock),
        Box::new(rewrite_layout::RewriteLayout),
    ]
}
