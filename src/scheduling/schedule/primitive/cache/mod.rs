//! Common parts of the primitives that insert a copy of a buffer between its writers and its readers.
//!
//! * [`access`]: blocks that access a buffer at one element.
//! * [`site`]: the position of the copy, and checks that it is early enough for all accesses.
//! * [`nest`]: the copy block and the loops around it.
//! * [`redirect`]: sends accesses to another buffer.
//! * [`output`]: checks whether a block may write to a cache.
//! * [`reindexed`]: caches with another layout, for `reindex_cache_read` and `reindex_cache_write`.
//! * [`stage`]: caches with the layout of the buffer, for `cache_read` and `cache_write`.

pub(super) mod access;
pub(super) mod nest;
pub(super) mod output;
pub(super) mod redirect;
pub(super) mod reindexed;
pub(super) mod site;
pub(super) mod stage;
