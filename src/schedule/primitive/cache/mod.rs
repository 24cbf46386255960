//! What the primitives share that put a copy of a buffer between its writers and its readers.
//!
//! * [`access`]: blocks that access a buffer at one element.
//! * [`site`]: where the copy goes, and whether it comes in time for all accesses.
//! * [`nest`]: the copy block and the loops around it.
//! * [`redirect`]: sends accesses to another buffer.
//! * [`stage`]: puts the three together for `cache_read` and `cache_write`.

pub(super) mod access;
pub(super) mod nest;
pub(super) mod redirect;
pub(super) mod site;
pub(super) mod stage;
