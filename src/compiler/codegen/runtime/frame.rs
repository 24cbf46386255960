//! The interface between compiled code and its caller: the frame passed in, and the status returned.

use super::workers::Workers;
use crate::loopir::{BufferId, Failure};
use std::sync::atomic::AtomicU32;

/// The body of a parallel loop: runs iterations `begin..end`, with the loop's outer variables in `env`.
pub(crate) type BodyFn =
    unsafe extern "C" fn(frame: *const Frame, env: *const u8, begin: i64, end: i64, worker: i64) -> u32;

/// Runs a parallel loop of `extent` iterations; a worker takes at least `grain` of them at once.
pub(crate) type ForkFn =
    unsafe extern "C" fn(frame: *const Frame, body: BodyFn, env: *const u8, extent: i64, grain: i64) -> u32;

/// A compiled kernel.
pub(crate) type KernelFn = unsafe extern "C" fn(frame: *const Frame) -> u32;

/// The argument of compiled code. Field offsets are part of the generated code.
#[repr(C)]
pub(crate) struct Frame {
    /// Address of each parameter's first element.
    pub params: *const *mut u8,
    /// Shared scratch memory.
    pub shared: *mut u8,
    /// Scratch memory of worker 0; that of the others follows at the kernel's private stride.
    pub private: *mut u8,
    /// Stop flag: non-zero when the kernel should stop.
    pub stop: *const AtomicU32,
    /// Runs parallel loops.
    pub fork: ForkFn,
    /// The worker pool that `fork` uses.
    pub workers: *const Workers,
}

/// The result of a run, as compiled code returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Everything was computed.
    Done,
    /// The stop flag was seen.
    Stopped,
    /// The kernel failed.
    Failed(Failure),
}

impl Status {
    const BUFFERS: u32 = 0x100;
    const ASSERTIONS: u32 = 0x4000_0000;

    /// The number that compiled code returns for this status.
    pub(crate) fn code(self) -> u32 {
        match self {
            Status::Done => 0,
            Status::Stopped => 1,
            Status::Failed(Failure::Division) => 2,
            Status::Failed(Failure::Assertion { index }) => Self::ASSERTIONS + index,
            Status::Failed(Failure::OutOfBounds { buffer }) => Self::BUFFERS + buffer.index() as u32,
        }
    }

    /// The status of a returned number.
    pub(crate) fn from_code(code: u32) -> Status {
        match code {
            0 => Status::Done,
            1 => Status::Stopped,
            2 => Status::Failed(Failure::Division),
            Self::ASSERTIONS.. => Status::Failed(Failure::Assertion { index: code - Self::ASSERTIONS }),
            _ => Status::Failed(Failure::OutOfBounds { buffer: BufferId(code.wrapping_sub(Self::BUFFERS)) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_survives_its_number() {
        for status in [
            Status::Done,
            Status::Stopped,
            Status::Failed(Failure::Division),
            Status::Failed(Failure::Assertion { index: 0 }),
            Status::Failed(Failure::Assertion { index: 5 }),
            Status::Failed(Failure::OutOfBounds { buffer: BufferId(0) }),
            Status::Failed(Failure::OutOfBounds { buffer: BufferId(77) }),
        ] {
            assert_eq!(Status::from_code(status.code()), status);
        }
    }
}
