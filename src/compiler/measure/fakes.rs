//! Fake executables for tests.

use super::arguments::{Arguments, ParamSpec};
use super::executable::{Executable, RunFailure};
use super::timer::MockTimer;
use crate::ir::DType;
use crate::loopir::Access;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

type Body = dyn Fn(u64, &mut Arguments) -> Result<(), RunFailure> + Send + Sync;

/// An executable that is a closure over the number of the call.
pub(super) struct Fake {
    calls: AtomicU64,
    body: Box<Body>,
    pub threads: u32,
}

impl Fake {
    pub(super) fn new(body: impl Fn(u64, &mut Arguments) -> Result<(), RunFailure> + Send + Sync + 'static) -> Fake {
        Fake { calls: AtomicU64::new(0), body: Box::new(body), threads: 1 }
    }

    /// Takes this long on a mock clock, and computes the right result of [`specs`].
    pub(super) fn timed(timer: &MockTimer, duration: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Fake {
        let timer = timer.clone();
        Fake::new(move |call, args| {
            if timer.advance(duration(call)) {
                return Err(RunFailure::Stopped);
            }
            double(args, 0..N);
            Ok(())
        })
    }
}

impl Executable for Fake {
    fn run(&self, args: &mut Arguments) -> Result<(), RunFailure> {
        (self.body)(self.calls.fetch_add(1, SeqCst), args)
    }

    fn threads(&self) -> u32 {
        self.threads
    }
}

/// Number of elements of the arguments of [`specs`].
pub(super) const N: usize = 37;

/// The parameters of `B = 2 * A`.
pub(super) fn specs() -> Vec<ParamSpec> {
    let shape = [N as i64];
    vec![
        ParamSpec::new("A", DType::Float32, &shape, Access::In),
        ParamSpec::new("B", DType::Float32, &shape, Access::Out),
    ]
}

pub(super) fn args() -> Arguments {
    Arguments::new(&specs(), 1).expect("little memory")
}

pub(super) fn element(args: &Arguments, param: usize, i: usize) -> f32 {
    args.tensor(param).get(i).as_f64() as f32
}

pub(super) fn store(args: &mut Arguments, param: usize, i: usize, value: f32) {
    args.bytes_mut(param)[i * 4..][..4].copy_from_slice(&value.to_le_bytes());
}

/// Computes the right result in a range.
pub(super) fn double(args: &mut Arguments, range: std::ops::Range<usize>) {
    for i in range {
        let value = 2.0 * element(args, 0, i);
        store(args, 1, i, value);
    }
}

pub(super) fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}
