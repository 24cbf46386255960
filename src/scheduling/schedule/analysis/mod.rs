//! Analyses of the block tree for the checks of primitives.
//!
//! * [`tree`]: scopes, loops around and below, common ancestors.
//! * [`dependence`]: dependences between the blocks of a scope.
//! * [`access`]: the regions that a block reads and writes.
//! * [`alloc_site`]: the allocation of a buffer.
//! * [`affine`]: whether bindings are affine and independent.
//! * [`block_class`]: complete, reduction and output blocks; compact data flow.
//! * [`declared`]: whether every used buffer is declared.
//! * [`digit_bound`]: the box covered by sums of digits.
//! * [`extent`]: whether extents fit the types of loops.
//! * [`filled`]: whether a block stores its whole stated region.
//! * [`guard`]: the condition under which a block runs, from its predicate and the domains of its iteration variables.
//! * [`index_map`]: functions of indices, their shapes and inverses.
//! * [`insertion`]: valid positions for a block among its producers and consumers.
//! * [`interference`]: whether nests may run interleaved.
//! * [`iter_domain`]: the instances of a block that provide a region.
//! * [`linear`]: sums of variables with constant factors.
//! * [`location`]: candidate locations for a block.
//! * [`loop_kind`]: the kind of iteration variables that a loop drives.
//! * [`relayout`]: accesses to a buffer under another layout.
//! * [`reducer`]: the operation of a reduction block.
//! * [`region_bound`]: the union of the regions of a block's instances.
//! * [`region_cover`]: whether consumers read only elements that producers wrote.
//! * [`shared_computations`]: common subexpressions worth a buffer.
//! * [`freedom`]: the primitives that a function with jumps, aliases and the like allows.
//! * [`info`]: the expensive facts about blocks that a schedule keeps.
//! * [`moved_consumer`]: whether a consumer moved to its producers still does all its work, once.

pub(crate) mod access;
pub(crate) mod affine;
pub(crate) mod alloc_site;
pub(crate) mod block_class;
pub(crate) mod declared;
pub(crate) mod dependence;
pub(crate) mod digit_bound;
pub(crate) mod extent;
pub(crate) mod filled;
pub(crate) mod freedom;
pub(crate) mod guard;
pub(crate) mod index_map;
pub(crate) mod info;
pub(crate) mod insertion;
pub(crate) mod interference;
pub(crate) mod iter_domain;
pub(crate) mod linear;
pub(crate) mod location;
pub(crate) mod loop_kind;
pub(crate) mod moved_consumer;
pub(crate) mod reducer;
pub(crate) mod region_bound;
pub(crate) mod region_cover;
pub(crate) mod relayout;
pub(crate) mod shared_computations;
pub(crate) mod tree;

pub(crate) use info::{set_unknown_info, update_scope_info};
