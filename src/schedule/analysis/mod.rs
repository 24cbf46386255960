//! Analyses of the block tree that the checks of primitives stand on.
//!
//! * [`tree`]: scopes, loops around and below, common ancestors.
//! * [`dependence`]: which blocks of a scope depend on which.
//! * [`access`]: what a block reads and writes.
//! * [`alloc_site`]: where a buffer comes from.
//! * [`affine`]: are bindings affine and independent?
//! * [`block_class`]: complete, reduction and output blocks; compact data flow.
//! * [`declared`]: is every buffer that is used declared?
//! * [`digit_bound`]: the box that sums of digits fill.
//! * [`extent`]: do extents fit the types of loops?
//! * [`filled`]: does a block store all that it says it writes?
//! * [`guard`]: when a block runs, by its predicate and the domains of its iteration variables.
//! * [`index_map`]: functions of indices, their shapes and inverses.
//! * [`insertion`]: where a block may be put among its producers and consumers.
//! * [`interference`]: may nests run interleaved?
//! * [`iter_domain`]: which instances of a block provide a region.
//! * [`linear`]: sums of variables with constant factors.
//! * [`location`]: where a block may be computed.
//! * [`loop_kind`]: what kind of iteration variables a loop drives.
//! * [`relayout`]: accesses to a buffer under another layout.
//! * [`reducer`]: which operation a reduction block makes.
//! * [`region_bound`]: what the instances of a block touch together.
//! * [`region_cover`]: do consumers read only what producers wrote?
//! * [`shared_computations`]: which computations of an expression are worth a buffer.
//! * [`freedom`]: which primitives a function with jumps, aliases and such allows.
//! * [`info`]: the expensive facts about blocks that a schedule keeps.
//! * [`moved_consumer`]: does a consumer that moves to its producers still do all its work, once?

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
