//! The interface of measurable programs.

use super::arguments::Arguments;

/// A compiled program that can be called on arguments.
///
/// An executable owns or shares everything it needs to run: worker threads, scratch memory, and the stop flag, which
/// the [`super::Timer`] that measures it raises.
pub trait Executable: Send + Sync {
    /// Runs the program once.
    ///
    /// If the program was stopped or failed by itself. Its stores until then remain.
    fn run(&self, args: &mut Arguments) -> Result<(), RunFailure>;

    /// Runs the program several times without a pause, for a batch.
    ///
    /// # Errors
    /// As [`Executable::run`]; the first failure ends the batch.
    fn run_many(&self, args: &mut Arguments, calls: u64) -> Result<(), RunFailure> {
        (0..calls).try_for_each(|_| self.run(args))
    }

    /// Runs the preparation again, in poisoned memory: what calls need of constant parameters. Returns whether there is
    /// a preparation. [`Executable::run`] runs it by itself before its first call.
    ///
    /// # Errors
    /// As [`Executable::run`].
    fn prepare(&self, _args: &mut Arguments) -> Result<bool, RunFailure> {
        Ok(false)
    }

    /// Whether calls find what they need of constant parameters.
    fn is_prepared(&self) -> bool {
        true
    }

    /// Frees what the preparation filled, until it is needed again.
    fn forget_preparation(&self) {}

    /// Maximum number of threads used. Multi-threaded programs are checked several times, since a race shows only
    /// sometimes.
    fn threads(&self) -> u32 {
        1
    }
}

/// Why a run ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunFailure {
    /// Its stop flag was raised.
    #[error("stopped")]
    Stopped,
    /// The program failed by itself: an access out of bounds, a division by zero.
    #[error("{0}")]
    Failed(String),
}
