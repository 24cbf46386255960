//! How much work a program is, and how long that takes at least.
//!
//! | file | is about |
//! | --- | --- |
//! | [`flops`] | operations and bytes of a program as written, which all its schedules are compared by |
//! | [`min_ops`] | operations that its results need at least |
//! | [`roofline`] | the least time for them on a machine |
//!
//! Before it comes `measure`, which knows the machine's rates; the driver measures those of functions of scalars.

pub(crate) mod flops;
mod min_ops;
pub mod roofline;
