//! Code generation: compiles kernels of the loop IR to machine code.
//!
//! [`compile`] is the pipeline: loop optimisation ([`opt`]), emission through Cranelift ([`clif`]), and a
//! [`CompiledKernel`] that can be called. It takes about a millisecond and is safe to run on many threads at once.
//! Compiled kernels run in a [`RunContext`], which has the threads for parallel loops, scratch memory and a stop flag.
//!
//! Lowering comes before, which proves or guards every access; measurement comes after. Start reading at [`compile`].
//! [`inspect`] shows a kernel at each stage.
//!
//! # How kernels become fast
//!
//! *Reductions.* A tile of sums stays in registers over all reduction loops around it, unless those are too long for
//! one region ([`crate::machine::register_tile`], `opt/accumulate`, `opt/promote`). A consumer that a schedule has
//! placed directly after the tile is inlined and reads the registers, so that the tile is never stored (`opt/forward`).
//! An uneven split is divided where its predicate changes, into a nest of whole tiles and a remainder, and so is a sum over
//! joined arrays where they meet (`opt/partition`).
//!
//! *Windows.* The windows of pooling overlap: what several results need is combined once (`opt/overlap`). Those of a convolution
//! of single channels share rows of the image, which a tile uses in the order of memory, so that each is loaded, or assembled from
//! strided elements, once (`opt/row_order`). The windows of adaptive pooling are regular if they are at each point (`opt/simplify`);
//! those that differ are written out (`opt/specialize`). The
//! counts that averages are divided by are the same for all channels: their reciprocals are computed once (`opt/tabulate`).
//!
//! *Scans.* Running sums and the like take a step of many rows at once: rows that lie side by side are the lanes of vectors, contiguous
//! ones are transposed tile by tile, and a long one is cut into parts (`opt/scan`).
//!
//! *Matrices of constants.* The transforms of Winograd's convolution apply small matrices from two sides. They are applied one
//! after the other, with their elements as numbers, so that zeros vanish (`opt/transform`).
//!
//! *Vectors of any length.* Region code loads and stores an incomplete last register under a mask (a mask register with
//! EVEX, lanes of all ones with VEX), so that an extent without good divisors keeps whole register tiles. Elements with
//! a stride of up to four, or shared by several lanes, are selected from contiguous vectors by permutations
//! (`wide/gather`), which read nothing outside the first and the last element. A short innermost loop over the channels
//! of points is coalesced with the loop around it, as are rows that vectors do not divide (`opt/coalesce`). Tiles that are contiguous along one axis in memory
//! and along the other in the result are transposed by shuffles (`opt/transpose`, `opt/transpose_copies`).
//!
//! *Elements at computed places.* Indices that depend on the counter of a short loop alone are computed while compiling, so that
//! resized and reflected rows are permutations of registers (`opt/constant_lanes`), or are looked up in tables of constants
//! (`opt/constant_tables`), which region code follows from row to row (`wide/lookup`). Where several rows are weighed and the same
//! columns of each are picked, the rows are combined first (`opt/combine_rows`), and the result stays in registers if it is short
//! (`opt/rows_in_registers`). Places in boxes and grids, which depend on
//! data, are computed once for all channels (`opt/tabulate_repeated`). Other indices are lanes of `int32` for hardware gathers
//! (`wide/scattered`, `opt/narrow_indices`), also in sums, where the loop of results becomes lanes (`machine::register_tile`), behind checks that are made for a whole loop (`opt/collect_checks`), or
//! where a check under conditions is of an index that the loop does not change, in a version for this index in bounds
//! (`opt/version_checks`). Cheap sides of conditions that depend on data or change from element to element are evaluated both, if what
//! they read exists (`opt/speculate`).
//!
//! *Padding.* A condition that all lanes share becomes a mask of all lanes or none (`wide/guard`): memory outside a
//! buffer is not accessed. Padding along a vector has a condition for each lane that holds for the first lanes or for
//! the last ones (`wide/window`): its mask is a constant after unrolling, or the result of comparing a counter with the
//! lane numbers. Elements with a stride are padded likewise (`wide/strided`).
//!
//! *Functions of scalars* are expanded into operations that vectors have (`opt/functions`, which lists their errors).
//!
//! *Neighbours.* Elementwise intermediate results are computed in the memory of the result (`opt/in_place`). Loops that read the
//! same, or where one reads what the other wrote in the same iteration, are fused (`opt/fuse`): the sums of a row and of its
//! squares read the row once. Where a row ends with a nest that scales earlier results, as in softmax, that nest runs beside
//! the one that computes the next row (`opt/stagger`): one waits for memory, the other for arithmetic.
//!
//! *Narrow types* are computed in 32 bits: region code loads elements of 8 and 16 bits as lanes of `int32` or `float32`, and
//! stores the low bits or the rounded value, with EVEX also in part, under a mask. Where a region computes with bytes alone, or only moves
//! and compares elements of 16 bits, these keep their width in registers (`wide/words`). Vectors of bfloat16 are loaded by even and odd
//! elements where lanes need no order, which takes no widening (`wide/even_odd`). Long sums of products of 16-bit floats are made in
//! `float32` (`opt/sums_of_halves`), as is what the program rounds to 16 bits only to compute with it (`opt/unrounded_halves`), copies that
//! are read often have that type (`opt/wide_copies`), and operands that a nest reads
//! often are converted once, in a copy before it (`opt/preconvert`), so a product of bfloat16 matrices runs at the speed of float32. Sums of products of bytes take four at a
//! time (`opt/dot`): one instruction with VNNI, a few without. The instruction multiplies unsigned by signed bytes; of two factors of
//! the same sign, one is shifted by 128 where it is packed, or in registers. The result never depends on the instruction set.
//!
//! *Divisions.* Unless floats are strict, divisors that many elements share become reciprocals (`opt/reciprocal`); where all rows
//! are divided by the same vector, such as the sums of columns of a softmax, it is inverted once (`opt/shared_divisors`). Integers of
//! up to 32 bits are divided by constants with a multiplication and a shift (`opt/divide`).
//!
//! *Memory.* Regions prefetch (`wide/prefetch`): a loop with much arithmetic fetches the rows that come next, and one that reads a
//! few elements of many pages, such as a product over the channels of an image, those that it reads some iterations later; one that
//! streams more than the near caches hold fetches two pages ahead, on processors where that was measured to pay
//! ([`crate::machine::prefetching_pays`]). Scratch buffers that are never live together share memory (`scratch`). Under register
//! pressure constants are rematerialised, then values still in memory are loaded again (`wide/reload`).
//!
//! A matrix extension with its own register file would be a second planner beside `wide::plan`, consulted first, with
//! the same output: bytes, and the arguments for calling them.

mod clif;
mod compiled;
mod cost;
mod disassemble;
pub(crate) mod facts;
pub mod inspect;
mod isa;
pub mod object;
pub mod opt;
mod options;
pub mod runtime;
mod scratch;
mod wide;

pub use compiled::{CompileTimes, CompiledKernel, compile, compile_plain};
pub use disassemble::disassemble;
pub use options::{CodegenError, CodegenOptions};
pub use runtime::{Pinning, RunContext, RuntimeFailure, Workers};

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod scalars;

#[cfg(test)]
mod soak;

#[cfg(test)]
mod tests;
