//! Runtime support of compiled kernels: the interface to the caller ([`frame`]), threads ([`workers`], [`chunks`]), scratch
//! memory and the stop flag ([`context`], [`memory`]), scalar functions ([`functions`]).
//!
//! Compiled code calls nothing that unwinds, allocates or takes a lock; only the fork of a parallel loop may wait.

mod chunks;
pub(crate) mod context;
pub(crate) mod frame;
pub(crate) mod functions;
mod math;
pub mod memory;
pub(crate) mod workers;

pub use context::{RunContext, RuntimeFailure};
pub use workers::{Pinning, Workers};
