//! The primitives, one file each, and the table that lists them.
//!
//! # Primitives
//!
//! This page lists the primitives of schedules. For each primitive it gives the signature, the edit, the requirements,
//! the errors (with the names of TVM's TensorIR schedule, whose semantics these are), and the effect on handles: *dies*
//! means that using the handle later is an error; handles that are not mentioned persist.
//!
//! A primitive checks everything before it changes anything: a refused one leaves the program unchanged, and names the
//! offending loop or block. An accepted one does not change results, except for the order of floating-point operations
//! in reductions. Where TVM accepts a schedule that changes results, tvmr does what the schedule intends, or refuses
//! it; the end of each section says which. `loop_partition`, `split` with `disable_predication` and the primitives
//! called `unsafe_…` can mislead later checks, as their sections say. Block instances outside the domains of their
//! iterations do not exist ([ir.md](ir.md)), so some schedules that run out of bounds in TVM are correct in tvmr.
//!
//! Some limits apply to all primitives. An extent must fit the type of its loop, which is that of the program's extents
//! (`ExtentOverflowError`); in TVM the number wraps around. Instructions nest a program at most 90 levels deep, so that
//! the printed program can be parsed again (`NestTooDeepError`). Some statements between blocks limit what may be
//! rearranged (`StatementBetweenBlocksError`, see [Control](ir.md#control)). A loop with a step around blocks
//! (`range(0, 64, 4)`) must be [normalised](#normalize_looploop) before its function can be changed, other than by
//! queries and annotations (`LoopStepError`). (TVM's primitives treat such a loop as one that counts by 1, and lose the
//! step.) A function is limited likewise by loops of other types than `int32` and `int64` and by bindings of another
//! type than their iteration (`IndexTypeError`), by empty loops, domains and buffers (`EmptyRangeError`), and by blocks
//! that do not list their accesses (`UnlistedAccessError`). After each instruction, in every build, a check verifies
//! that all buffers in use are parameters, allocated by an enclosing block, or views of such. A violation would be a
//! bug of tvmr: the instruction is then undone and refused with `InternalError`.
//!
//! Loops, block iterations, shapes and indices may be `int32` and `int64` in one program. In an expression of both, the
//! `int32` operand is converted, as in TVM.
//!
//! In a function that accesses vectors (`A[0:4]`, or elements that are vectors) the primitives that rewrite individual
//! indices refuse with `NotSupportedError`: `cache_index`, `cache_inplace`, `compute_inline`, `decompose_padding`,
//! `fuse_reduction_epilogue`, `pad_einsum`, `read_at`, `reindex`, `reindex_cache_read`, `reindex_cache_write`,
//! `reverse_compute_inline`, `rfactor`, `rolling_buffer`, `transform_block_layout`, `transform_layout`,
//! `unsafe_set_dtype` and `write_at`. The others work on blocks and regions, for which a vector is a box.
//!
//! Sampling primitives also take `decision=…`, which a trace records. An argument that selects a buffer of a block is
//! its position among the reads or writes, or its name.
//!
//! # Handles
//!
//! The table shows the effect on the handles of blocks and loops that a schedule has looked up. A handle that *dies*
//! must not be used again: the error then names the instruction that invalidated it. A *created* loop or block is
//! returned, or found by `get_loops`, `get_sblock` and similar. A handle is never reused for something else, and a
//! block that moves keeps its handle.

use super::kind::Kind;

pub(crate) mod add_unit_loop;
pub(crate) mod annotate;
pub(crate) mod annotate_buffer_access;
pub(crate) mod blockize;
mod cache;
pub(crate) mod cache_index;
pub(crate) mod cache_inplace;
pub(crate) mod cache_read;
pub(crate) mod cache_write;
pub(crate) mod compute_at;
pub(crate) mod compute_inline;
pub(crate) mod decompose_padding;
pub(crate) mod decompose_reduction;
pub(crate) mod for_kind;
pub(crate) mod fuse;
pub(crate) mod fuse_reduction_epilogue;
pub(crate) mod get_block;
pub(crate) mod get_loops;
pub(crate) mod loop_partition;
pub(crate) mod merge;
mod nearest_tile;
pub(crate) mod normalize_loop;
pub(crate) mod pad_einsum;
pub(crate) mod postproc;
pub(crate) mod read_at;
pub(crate) mod reindex;
pub(crate) mod reindex_cache_read;
pub(crate) mod reindex_cache_write;
pub(crate) mod reorder;
pub(crate) mod reorder_block_iter_var;
pub(crate) mod reverse_compute_at;
pub(crate) mod reverse_compute_inline;
pub(crate) mod rfactor;
pub(crate) mod rolling_buffer;
pub(crate) mod sample_compute_location;
pub(crate) mod sampling;
pub(crate) mod set_scope;
pub(crate) mod split;
pub(crate) mod storage_align;
pub(crate) mod tensorize;
pub(crate) mod transform_block_layout;
pub(crate) mod transform_layout;
pub(crate) mod unsafe_hide_buffer_access;
pub(crate) mod unsafe_set_dtype;
pub(crate) mod write_at;

#[cfg(test)]
pub(in crate::schedule) mod testing;

/// All kinds of instructions. A new primitive needs a file and a line here.
pub static ALL: &[&Kind] = &[
    &add_unit_loop::ADD_UNIT_LOOP,
    &annotate::ANNOTATE,
    &annotate::UNANNOTATE,
    &annotate_buffer_access::ANNOTATE_BUFFER_ACCESS,
    &blockize::BLOCKIZE,
    &cache_index::CACHE_INDEX,
    &cache_inplace::CACHE_INPLACE,
    &cache_read::CACHE_READ,
    &cache_write::CACHE_WRITE,
    &compute_inline::COMPUTE_INLINE,
    &compute_at::COMPUTE_AT,
    &decompose_padding::DECOMPOSE_PADDING,
    &decompose_reduction::DECOMPOSE_REDUCTION,
    &for_kind::BIND,
    &for_kind::PARALLEL,
    &for_kind::UNROLL,
    &for_kind::VECTORIZE,
    &fuse::FUSE,
    &fuse_reduction_epilogue::FUSE_REDUCTION_EPILOGUE,
    &get_block::GET_BLOCK,
    &get_block::GET_CHILD_BLOCKS,
    &get_block::GET_PRODUCERS,
    &get_block::GET_CONSUMERS,
    &get_block::GET_OUTPUT_BLOCKS,
    &get_loops::GET_LOOPS,
    &pad_einsum::PAD_EINSUM,
    &loop_partition::LOOP_PARTITION,
    &merge::MERGE,
    &normalize_loop::NORMALIZE_LOOP,
    &postproc::ENTER_POSTPROC,
    &read_at::READ_AT,
    &reindex::REINDEX,
    &reindex_cache_read::REINDEX_CACHE_READ,
    &reindex_cache_write::REINDEX_CACHE_WRITE,
    &reorder::REORDER,
    &reorder_block_iter_var::REORDER_BLOCK_ITER_VAR,
    &reverse_compute_at::REVERSE_COMPUTE_AT,
    &reverse_compute_inline::REVERSE_COMPUTE_INLINE,
    &rfactor::RFACTOR,
    &rolling_buffer::ROLLING_BUFFER,
    &sample_compute_location::SAMPLE_COMPUTE_LOCATION,
    &sampling::SAMPLE_CATEGORICAL,
    &sampling::SAMPLE_PERFECT_TILE,
    &sampling::SAMPLE_PARTITIONED_TILE,
    &set_scope::SET_SCOPE,
    &split::SPLIT,
    &storage_align::STORAGE_ALIGN,
    &tensorize::TENSORIZE,
    &transform_block_layout::TRANSFORM_BLOCK_LAYOUT,
    &transform_layout::TRANSFORM_LAYOUT,
    &unsafe_hide_buffer_access::UNSAFE_HIDE_BUFFER_ACCESS,
    &unsafe_set_dtype::UNSAFE_SET_DTYPE,
    &write_at::WRITE_AT,
];

/// The kinds that work on blocks, loops and regions, and so on programs with accesses to vectors. All others that change
/// the program may rewrite individual indices, and are refused there.
pub(super) const KEEPS_INDICES: [&str; 26] = [
    "AddUnitLoop",
    "Annotate",
    "AnnotateBufferAccess",
    "Bind",
    "Blockize",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "DecomposeReduction",
    "EnterPostproc",
    "Fuse",
    "LoopPartition",
    "Merge",
    "NormalizeLoop",
    "Parallel",
    "Reorder",
    "ReorderBlockIterVar",
    "ReverseComputeAt",
    "SetScope",
    "Split",
    "StorageAlign",
    "Tensorize",
    "Unannotate",
    "Unroll",
    "UnsafeHideBufferAccess",
    "Vectorize",
];

/// The kind called `name` in JSON, in either spelling.
pub fn by_name(name: &str) -> Option<&'static Kind> {
    ALL.iter().copied().find(|k| k.name == name || k.classic.is_some_and(|(c, _)| c == name))
}

/// The kind whose Python method is `method`, in either spelling.
pub fn by_method(method: &str) -> Option<&'static Kind> {
    ALL.iter().copied().find(|k| k.method == method || k.classic.is_some_and(|(_, c)| c == method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn names_are_unique() {
        for (i, a) in ALL.iter().enumerate() {
            for b in &ALL[i + 1..] {
                assert_ne!(a.name, b.name);
                assert_ne!(a.method, b.method);
            }
        }
        assert_eq!(by_name("GetBlock").map(|k| k.name), Some("GetSBlock"));
        assert_eq!(by_method("get_block").map(|k| k.name), Some("GetSBlock"));
    }

    #[test]
    fn the_page_lists_what_is_refused_where_vectors_are_accessed() {
        let page = include_str!("mod.rs").replace("\n//!", "");
        let (_, list) = page.split_once("refuse with `NotSupportedError`: ").expect("the sentence");
        let (list, _) = list.split_once(". The others").expect("its end");
        let mut listed: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        listed.sort_unstable();
        let rewrites = ALL.iter().filter(|k| k.may_change_program() && !KEEPS_INDICES.contains(&k.name));
        let mut refused: Vec<&str> = rewrites.map(|k| k.method).collect();
        refused.sort_unstable();
        assert_eq!(listed, refused);
        for name in KEEPS_INDICES {
            assert!(by_name(name).is_some(), "`{name}` is no kind");
        }
    }

    /// The places of the kinds in `ALL` as its text has them: `fuse::FUSE` is in the file of module `fuse`.
    fn places() -> Vec<(&'static str, &'static str)> {
        let (_, table) = include_str!("mod.rs").split_once("pub static ALL").expect("the table");
        let (table, _) = table.split_once("];").expect("its end");
        table.lines().filter_map(|line| line.trim().strip_prefix('&')?.strip_suffix(',')?.split_once("::")).collect()
    }

    /// The text of a file's tests: those at its end, and those in a file of their own.
    fn tests_of(module: &str) -> String {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("schedule/primitive");
        let file = [dir.join(format!("{module}.rs")), dir.join(module).join("mod.rs")].into_iter().find(|f| f.exists());
        let file = file.unwrap_or_else(|| panic!("module `{module}` has no file"));
        let source = fs::read_to_string(file).expect("a readable source");
        let (_, tests) = source.split_once("#[cfg(test)]\n").unwrap_or_default();
        let apart = tests.starts_with("mod tests;").then(|| dir.join(module).join("tests.rs"));
        apart.map_or(tests.to_string(), |path| fs::read_to_string(path).expect("a readable file of tests"))
    }

    #[test]
    fn every_primitive_is_executed_by_tests_beside_it() {
        let places = places();
        assert_eq!(places.len(), ALL.len(), "the table was not found as it is written");
        let mut missing = Vec::new();
        for ((module, constant), kind) in places.into_iter().zip(ALL) {
            let tests = tests_of(module);
            let calls = [format!(".{}(", kind.method), format!("\"{}\"", kind.method), format!("&{constant}")];
            if !tests.contains("#[test]") || !calls.iter().any(|call| tests.contains(call)) {
                missing.push(format!("`{}` in `{module}`", kind.method));
            }
        }
        assert!(missing.is_empty(), "no test beside it executes {}", missing.join(", "));
    }
}
