//! Integer analysis: simplifies index expressions, bounds their values, and analyses how iterators are split and fused.
//!
//! Schedules, lowering and in-bounds proofs use this module. Start reading at [`analyzer`], which holds the facts about
//! variables and simplifies, bounds and compares. [`iter_map`] recognises splits and fusions of loops, [`int_set`]
//! relaxes loops out of index expressions, and [`implication`] compares conditions.
//!
//! All functions work on the interned expressions of one [`Arena`](crate::ir::Arena), know nothing of statements, and
//! return "unknown" rather than guess. Results for index expressions equal those of TVM 0.27, tree by tree, because
//! conformance of schedules depends on them.

#[cfg(test)]
mod agreement;
pub(crate) mod analyzer;
pub mod bound;
mod canonical;
pub mod implication;
pub mod index_map;
pub mod int_set;
pub mod iter_map;
mod memo;
pub(crate) mod modular;
mod pattern;
#[cfg(test)]
mod properties;
mod rewrite;
#[cfg(test)]
mod testing;
mod transitive;

pub use analyzer::{Analyzer, Strength};
pub use bound::Bound;
pub use int_set::IntSet;
pub use iter_map::{IterMapLevel, VarRange, detect_iter_map, iter_map_simplify};
pub use modular::Modular;
