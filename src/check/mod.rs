//! Checks that a scheduled program gives the results of the program as written.
//!
//! | file | content |
//! | --- | --- |
//! | [`params`] | the parameters of a function as arrays |
//! | [`mod@reference`] | right results, and the errors that a right program may have |
//! | [`sampling`] | single elements, computed by the interpreter |
//! | [`equivalence`] | comparing a scheduled program with the program as written |
//! | [`relayout`] | parameters whose layout a schedule changes |
//!
//! `measure`, which runs programs and compares arrays, and `workload` come before. The driver, `tune`, comes after; it
//! takes references from here.

pub(crate) mod equivalence;
#[cfg(test)]
mod expressions;
pub(crate) mod params;
pub(crate) mod reference;
pub(crate) mod relayout;
mod sampling;
