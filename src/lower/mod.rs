//! Lowering: blocks to loops over flat memory.

use crate::ir::Func;
use crate::loopir::Kernel;

/// A function that cannot be lowered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LowerError {
    /// The program uses something that lowering does not know.
    #[error("{0}")]
    Unsupported(String),
}

/// The kernel that does what a function does; its parameters are the function's buffers, in order.
///
/// # Errors
/// If the function uses what a kernel cannot say.
pub fn lower(_func: &Func) -> Result<Kernel, LowerError> {
    Err(LowerError::Unsupported("lowering".into()))
}

/// The kernel that computes reference values: every float is carried as `float64`, loops run as written.
///
/// # Errors
/// As [`lower`].
pub fn lower_reference(_func: &Func) -> Result<Kernel, LowerError> {
    Err(LowerError::Unsupported("lowering".into()))
}
