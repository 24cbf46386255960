//! What can be measured.

use super::arguments::Arguments;

/// A compiled program that can be called on arguments.
///
/// An executable owns or shares what else it runs in (worker threads, scratch memory, the flag that stops it); the
/// [`super::Timer`] that measures it raises that flag.
pub trait Executable: Send + Sync {
    /// Runs the program once.
    ///
    /// # Errors
    /// The program stopped because it was told to, or failed by itself. What it stored until then stays.
    fn run(&self, args: &mut Arguments) -> Result<(), RunFailure>;

    /// Runs the program several times without a pause, as measuring does.
    ///
    /// # Errors
    /// As [`Executable::run`]; the first failure ends it.
    fn run_many(&self, args: &mut Arguments, calls: u64) -> Result<(), RunFailure> {
        (0..calls).try_for_each(|_| self.run(args))
    }

    /// Computes anew, from memory that holds anything, what calls need of parameters that never change. Was there
    /// anything to do? Until the first call of this, [`Executable::run`] does it by itself.
    ///
    /// # Errors
    /// As [`Executable::run`].
    fn prepare(&self, _args: &mut Arguments) -> Result<bool, RunFailure> {
        Ok(false)
    }

    /// The number of threads it may use. What runs on several is checked several times, for races show by chance.
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
