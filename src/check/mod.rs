//! Whether a scheduled program gives the results of the one as written.
//!
//! | file | is about |
//! | --- | --- |
//! | [`params`] | the parameters of a function as arrays |
//! | [`mod@reference`] | right results, and how far a correct program may be from them |
//! | [`sampling`] | single elements, computed by the interpreter |
//! | [`equivalence`] | comparing a scheduled program with the one as written |
//! | [`relayout`] | parameters that a schedule lays out anew |
//!
//! Before it come `measure`, which runs and compares, and `workload`; the driver asks it for references.

pub(crate) mod equivalence;
pub(crate) mod params;
pub(crate) mod reference;
pub(crate) mod relayout;
mod sampling;
