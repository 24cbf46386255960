//! The search space of a program: the open decisions, and the instructions that use them.
//!
//! # Search spaces
//!
//! A search space is a set of *sketches*: traces of schedule instructions whose sampling instructions have no decision
//! yet. `tvmr space FILE` prints the sketches of each function, with the number of choices at each sampling instruction
//! and the number of programs that they span; `--seeds` adds the candidates that a search starts with. A printed sketch
//! is a schedule function: change it, and use it with `tune --space FILE.py`.
//!
//! `--space` chooses:
//!
//! * `auto` (the default): rules made for tvmr's code generator and the machine at hand;
//! * `tvm`: the rules, postprocessors and parameters of TVM's MetaSchedule for CPUs, sketch for sketch;
//! * `FILE.py`: your own schedule function, see [tuning.md](tuning.md#your-own-search-space).
//!
//! # How a space is made
//!
//! Rules are applied one after the other. Each visits the blocks of the program from the last to the first, and
//! replaces the schedule that it is given by one or several others; if it does not fire, by the same one. The final
//! schedules are the sketches. *Postprocessors* then finish each candidate: they turn annotations of the root block
//! into parallel loops once all decisions are known, or reject the candidate. In the default space, one of them,
//! `stream_constants`, also lays out [layout-free parameters](tuning.md#layout-free-parameters) that are read one by
//! one, such as the weights of a tile's rows, in the order in which the loops read them, padded to whole tiles: a
//! prefetched stream comes from memory two to four times as fast as a few elements of each row.
//!
//! The default space leaves some decisions to the code generator: which loop is vectorised, unrolling of register
//! tiles, where a sum is initialised, masks, and remainders of unevenly split loops. A sketch determines the loops and
//! their order, where blocks are computed, and how buffers are laid out. Nearly all of it consists of TVM's
//! instructions; `print-trace` marks lines that TVM would not accept.
//!
//! ## Seeds
//!
//! Rules also make decisions: those that are most promising for the vector registers and cache sizes of the machine.
//! These are not part of the sketch, but give the first candidates of the default strategy. A rule has up to six sets
//! of decisions, most promising first; `--no-seeds` turns them off.
//!
//! ## Sizes that do not divide
//!
//! Tile sizes of rows and columns are chosen from a list (`sample_categorical`), the same list for 127 as for 128;
//! `split(factors=[None, v])` then makes a smaller last tile. The code generator splits the loops where their
//! predicates change, and masks the last vector of a row, so such tiles cost little; seeds prefer sizes that divide the
//! extent only if they are equally good otherwise.
//!
//! # The rules of `auto`
//!
//! Rules are listed in the order of application. Each links to its source, whose head has a summary.
//!
//! # Spaces of one program
//!
//! Where there is nothing to choose about a block, `tvmr space` prints why in a comment `# reason:` (in the JSON
//! document, `reasons`). Most are element-wise programs, whose axes become one loop over elements that lie side by side.
//! What could be chosen about it, the number of vectors of an iteration, how many are unrolled, and whether data is
//! prefetched or bypasses the caches, the code generator chooses from the size of the data.
//!
//! That was measured: 296 programs of TVM's operator library whose space was of one program were compared with the best of
//! 64 programs with other orders of loops (another axis of vectors among them), other widths, and unrolled rows. With
//! one loop, none was faster by more than the noise. With several, 21 were, by 10 to 40 %: rows that share operands
//! or lookups, blocks of images, images whose channels are innermost. None of these had another axis of vectors. Rule
//! [`row_tiles`](#row_tiles) offers such programs; axes of vectors are offered where reads and results are contiguous
//! along different axes ([`transpose_tiles`](#transpose_tiles)).
//!
//! # The space `tvm`
//!
//! `inline_constant_scalars`, `auto_inline`, `add_rfactor`, `multi_level_tiling` (`SSRSRS`, innermost tiles up to 64,
//! write caches at levels 1 and 2), `parallelize_vectorize_unroll` (16 chunks per core, vectors up to 64 elements,
//! unrolling up to 0, 16, 64 or 512 steps) and `random_compute_location`, in this order; postprocessors
//! `disallow_dynamic_loop`, `rewrite_parallel_vectorize_unroll`, `rewrite_reduction_block`, `rewrite_layout`. The last
//! one lays out [layout-free parameters](tuning.md#layout-free-parameters) in the order in which loops read them, as
//! preparations. The sketches and the postprocessed programs equal TVM's in all 504 recorded cases
//! ([conformance.md](conformance.md)).
//!
//! In this space, as in TVM, `disallow_dynamic_loop` rejects loops without a constant extent; the default space accepts
//! them. If a space rejects everything, the result is the program as written.
//!
//! # Limitations
//!
//! * Loops without reduction are not tiled for caches (stencils): rows of a tile are at most 8. Short innermost loops
//!   (three channels of an image) are not moved outwards.
//! * Blocks whose bindings are not plain loop variables are only moved, not tiled.
//!
//! # Implementation
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
mod cases;
mod constant_matrices;
pub(crate) mod contraction;
pub(crate) mod draft;
pub mod generate;
pub(crate) mod mutator;
pub mod postproc;
mod reason;
pub(crate) mod rule;
pub mod sample;
pub(crate) mod suggest_layout;
pub(crate) mod tile_sizes;

pub use generate::{Rules, generate};
pub use reason::{NoChoice, Reason};
pub use sample::{Rejection, Seed, Sketch, Space, Stage};
