//! The work of a program, and the least time that it takes.
//!
//! | file | content |
//! | --- | --- |
//! | [`flops`] | operations and bytes of a program as written, by which its schedules are compared |
//! | [`min_ops`] | the minimum of operations that its results need |
//! | [`roofline`] | the least time on a machine |
//!
//! `measure` comes before and gives the rates of the machine. The driver, `tune`, comes after; it measures the rates of
//! functions of scalars.

pub(crate) mod flops;
mod min_ops;
pub mod roofline;
