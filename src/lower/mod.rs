//! Lowering: blocks to loops over flat memory.
//!
//! [`lower`] makes the [`Kernel`] that does what a [`Func`] does, in four steps:
//!
//! 0. Steps of loops are written out ([`Func::without_steps`]), [`lanes`] writes vectors out as scalars, lane by lane, and
//!    [`float8`] floats of 8 bits as bytes.
//! 1. [`blocks`] translates statements: bindings are substituted, inits put before their reduction ([`init`]) or under
//!    a guard, predicates and domains become conditions, views windows into what they show. Where an access lies in memory is still
//!    open: its index is a *token* that names buffer and indices.
//! 2. [`place`] decides where buffers lie: allocations shrink to what is used of them at a time, and belong to a worker
//!    or to the kernel; [`access`] finds out what is done with parameters, [`relation`] how the iterations of loops
//!    relate.
//! 3. [`flatten`] replaces tokens by linear indices. An access that is not proved in bounds gets a check in front.
//!
//! # Invariants
//! * Iteration order is that of the program: nothing is tiled, interchanged or fused here. The one exception is an init
//!   that moves in front of its reduction, which is `decompose_reduction` at the outermost reduction loop.
//! * Index arithmetic is done in `int64`; like schedules, lowering takes for granted that index arithmetic of the
//!   program does not overflow. Values that are computed with keep their types.
//! * Every access of the kernel is proved in bounds of its buffer, or checked.
//!
//! What comes before: the schedule's program. What comes after: code generation.

use crate::ir::{Builtin, Func, Symbol};
use crate::loopir::Kernel;

mod access;
mod alias;
mod blocks;
mod bounds;
mod control;
mod exprs;
mod facts;
mod flatten;
mod float8;
mod init;
mod lanes;
mod place;
mod relation;
mod view;
mod widen;

#[cfg(test)]
mod tests;

pub use bounds::Bounds;

/// A function that cannot be lowered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LowerError {
    /// A parameter that is no buffer.
    #[error("parameter `{0}` is a scalar; give it a value with `--bind`")]
    ScalarParameter(String),
    /// A buffer whose extents are not numbers.
    #[error("buffer `{0}` has an extent that is no constant; give symbolic extents a value with `--bind`")]
    SymbolicShape(String),
    /// A parameter whose strides or offset are no numbers.
    #[error("buffer `{0}` has strides or an offset that are computed; give what they are computed from with `--bind`")]
    SymbolicLayout(String),
    /// A buffer with more elements than memory has bytes.
    #[error("buffer `{0}` is too large")]
    TooLarge(String),
    /// A variable that has no value where it is used.
    #[error("variable `{0}` has no value here")]
    Unbound(String),
    /// A call of a function that is not known here.
    #[error(
        "`{0}` is a function that tvmr does not know: a program that calls it is read and printed, but cannot be run"
    )]
    UnknownFunction(String),
    /// A call of a function of the module that could not be written out.
    #[error(
        "the call of `{0}`, a function of the module, cannot be written out in its place: `{0}` calls itself, returns \
         before its end, or is given an address that is no buffer's; write its statements there"
    )]
    ModuleCall(String),
    /// Something that a kernel cannot say.
    #[error("{0} cannot be compiled")]
    Unsupported(String),
}

impl LowerError {
    /// The error of a call that stands for nothing.
    fn call(function: Builtin, name: Symbol) -> LowerError {
        match function {
            Builtin::CallModule => LowerError::ModuleCall(name.to_string()),
            _ => LowerError::UnknownFunction(name.to_string()),
        }
    }
}

/// What lowering gives.
type Result<T, E = LowerError> = std::result::Result<T, E>;

/// The kernel that does what a function does; its parameters are the function's buffers, in order.
///
/// # Errors
/// If the function uses what a kernel cannot say.
pub fn lower(func: &Func) -> Result<Kernel, LowerError> {
    if let Some(t) = func.arena.narrow() {
        return Err(LowerError::Unsupported(format!("a value of type `{}`", t.name())));
    }
    let callable = func.callable();
    let func = &*callable.without_steps();
    let placed = func.with_param_layouts();
    let func = &*lanes::scalars(&placed)?;
    let func = &*float8::bytes(func);
    let mut draft = blocks::draft(func)?;
    let mut uses = place::uses(&draft);
    let extents = place::extents(&mut draft, &uses);
    access::classify(&mut draft, &uses);
    relation::relate(&mut draft, &mut uses, &extents);
    let layouts = place::place(&mut draft, &uses, extents);
    let kernel = flatten::flatten(draft, &layouts)?;
    if cfg!(debug_assertions) {
        crate::loopir::verify::assert_valid(&kernel, "lowering");
    }
    Ok(kernel)
}

/// The kernel that computes reference values: every float is carried as `float64`, loops run as written.
///
/// # Errors
/// As [`lower`].
pub fn lower_reference(func: &Func) -> Result<Kernel, LowerError> {
    let kernel = widen::widen(&lower(func)?);
    if cfg!(debug_assertions) {
        crate::loopir::verify::assert_valid(&kernel, "widening");
    }
    Ok(kernel)
}

/// The kernel that computes how far right implementations may be from the reference, element by element; `None` where that
/// says no more than a tolerance of the results, or cannot be told.
///
/// # Errors
/// As [`lower`].
pub fn lower_bounds(func: &Func) -> Result<Option<Bounds>, LowerError> {
    let bounds = bounds::bounds(&lower(func)?);
    if let (Some(bounds), true) = (&bounds, cfg!(debug_assertions)) {
        crate::loopir::verify::assert_valid(&bounds.kernel, "bounding");
    }
    Ok(bounds)
}
