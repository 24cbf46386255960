//! Integer analysis: what index expressions amount to, where their values lie, and how iterators are split and fused.
//!
//! Schedules, lowering and in-bounds proofs stand on this. Start reading at [`analyzer`]: it holds what is known of
//! variables and simplifies, bounds and compares. [`iter_map`] sees through splits and fusions of loops, [`int_set`]
//! relaxes loops out of index expressions, and [`implication`] compares conditions.
//!
//! Everything works on the interned expressions of one [`Arena`](crate::ir::Arena), knows nothing of statements, and
//! answers "don't know" rather than guess. Results for index expressions are those of TVM 0.27, tree by tree, which
//! conformance of schedules is judged by.

#[cfg(test)]
mod agreement;
pub(crate) mod analyzer;
pub(crate) mod bound;
mod canonical;
pub(crate) mod implication;
pub(crate) mod int_set;
pub(crate) mod iter_map;
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
pub(crate) use iter_map::{IterMapLevel, VarRange, detect_iter_map, iter_map_simplify};
pub use modular::Modular;
