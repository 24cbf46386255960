//! What the primitives share that put a copy of a buffer between its writers and its readers.
//!
//! * [`access`]: blocks that access a buffer at one element.
//! * [`site`]: where the copy goes, and whether it comes in time for all accesses.
//! * [`nest`]: the copy block and the loops around it.
//! * [`redirect`]: sends accesses to another buffer.
//! * [`output`]: when a block may write to a cache.
//! * [`reindexed`]: caches in a layout of their own, for `reindex_cache_read` and `reindex_cache_write`.
//! * [`stage`]: caches in the layout of the buffer, for `cache_read` and `cache_write`.

pub(super) mod access;
pub(super) mod nest;
pub(super) mod output;
pub(super) mod redirect;
pub(super) mod reindexed;
pub(super) mod site;
pub(super) mod stage;
