//! The search space of a program: the open decisions, and the instructions that use them.
//!
//! A space consists of *sketches*: traces whose sampling instructions have no decision yet. A sketch comes from rules
//! ([`rule`]), applied to every block of the program, or it is a user's schedule function, run anew for each candidate.
//! Sampling a sketch gives a schedule; postprocessors ([`postproc`]) then turn its annotations into loops of the right
//! kind. Both use schedule instructions only, so the trace records everything. Mutators ([`mutator`]) derive further
//! candidates from the decisions of known ones.
//!
//! The default rules are made for our code generator; those of `--space tvm`, and the postprocessors, follow TVM's
//! MetaSchedule (`src/s_tir/meta_schedule`).

pub(crate) mod access;
pub(crate) mod analysis;
pub(crate) mod contraction;
pub(crate) mod draft;
pub mod generate;
pub(crate) mod mutator;
pub mod postproc;
pub(crate) mod rule;
pub mod sample;
pub(crate) mod suggest_layout;
pub(crate) mod tile_sizes;

pub use generate::{Rules, generate};
pub use sample::{Rejection, Seed, Sketch, Space, Stage};
