//! Lowering: translates blocks into loops over flat memory.
//!
//! [`lower`] translates a [`Func`] into an equivalent [`Kernel`] in four steps:
//!
//! 0. Loops are normalised to steps of 1 ([`Func::without_steps`]), [`lanes`] rewrites vectors as scalars, and [`float8`]
//!    represents 8-bit floats as bytes.
//! 1. [`blocks`] translates statements: bindings are substituted, inits move before their reduction ([`init`]) or under
//!    a guard, predicates and domains become conditions, and views become windows into their sources. The memory position
//!    of an access is still open: its index is a *token* that refers to the buffer and the indices.
//! 2. [`place`] chooses the layout of buffers: allocations shrink to the part in use at a time, and belong to a worker or to
//!    the kernel. [`access`] classifies accesses to parameters, and [`relation`] finds dependences between iterations.
//! 3. [`flatten`] replaces tokens by linear indices. An access that is not proved in bounds gets a check before it.
//!
//! # Invariants
//! * The order of iterations is that of the program: lowering neither tiles, interchanges nor fuses. The one exception
//!   is an init that moves before its reduction, as `decompose_reduction` at the outermost reduction loop would do.
//! * Index arithmetic is done in `int64`; like schedules, lowering assumes that the program's index arithmetic does not
//!   overflow. Other values keep their types.
//! * Every access of the kernel is proved in bounds of its buffer, or checked.
//!
//! Lowering comes after scheduling and before code generation.

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

/// The reason why a function cannot be lowered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LowerError {
    /// A parameter that sizes depend on.
    #[error("parameter `{0}` is a size; give it a value with `--bind`")]
    ScalarParameter(String),
    /// A buffer whose extents are not constant.
    #[error("buffer `{0}` has an extent that is not constant; give symbolic extents a value with `--bind`")]
    SymbolicShape(String),
    /// A parameter whose strides or offset are not constant.
    #[error("buffer `{0}` has strides or an offset that are not constant; give their symbols values with `--bind`")]
    SymbolicLayout(String),
    /// A buffer with too many elements for memory.
    #[error("buffer `{0}` is too large")]
    TooLarge(String),
    /// A variable that has no value where it is used.
    #[error("variable `{0}` has no value here")]
    Unbound(String),
    /// A call of an unknown function.
    #[error(
        "`{0}` is a function that tvmr does not know: a program that calls it is read and printed, but cannot be run"
    )]
    UnknownFunction(String),
    /// A call of a function of the module that could not be inlined.
    #[error(
        "the call of `{0}`, a function of the module, cannot be written out in its place: `{0}` calls itself, returns \
         before its end, or is given an address that is no buffer's; write its statements there"
    )]
    ModuleCall(String),
    /// A feature that kernels do not support.
    #[error("{0} cannot be compiled")]
    Unsupported(String),
}

impl LowerError {
    /// The error for a call without a definition.
    fn call(function: Builtin, name: Symbol) -> LowerError {
        match function {
            Builtin::CallModule => LowerError::ModuleCall(name.to_string()),
            _ => LowerError::UnknownFunction(name.to_string()),
        }
    }
}

/// The result of lowering.
type Result<T, E = LowerError> = std::result::Result<T, E>;

/// The kernel of a function. Its parameters are the function's buffers, in order.
///
/// # Errors
///
/// If the function uses a feature that kernels do not support.
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

/// The kernel that computes reference values: all floats are `float64`, and loops run as written.
///
/// # Errors
///
/// See [`lower`].
pub fn lower_reference(func: &Func) -> Result<Kernel, LowerError> {
    let kernel = widen::widen(&lower(func)?);
    if cfg!(debug_assertions) {
        crate::loopir::verify::assert_valid(&kernel, "widening");
    }
    Ok(kernel)
}

/// The kernel that computes, for each element, by how much a correct implementation may differ from the reference.
/// `None` if the bounds would not be tighter than a tolerance of the results, or cannot be computed.
///
/// # Errors
///
/// See [`lower`].
pub fn lower_bounds(func: &Func) -> Result<Option<Bounds>, LowerError> {
    let bounds = bounds::bounds(&lower(func)?);
    if let (Some(bounds), true) = (&bounds, cfg!(debug_assertions)) {
        crate::loopir::verify::assert_valid(&bounds.kernel, "bounding");
    }
    Ok(bounds)
}
