//! The primitives, one file each, and the table that lists them.

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

/// All kinds of instructions. Adding a primitive is a file and a line here.
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
    use super::super::kind::{Default, Ty};
    use super::*;

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

    /// As Python declares it.
    fn signature(kind: &Kind) -> String {
        let params = kind.params.iter().map(|p| {
            let name = if p.ty == Ty::Loops { format!("*{}", p.name) } else { p.name.to_string() };
            match p.default {
                Default::Required => name,
                Default::None | Default::Empty => format!("{name}=None"),
                Default::Int(v) => format!("{name}={v}"),
                Default::Bool(v) => format!("{name}={}", if v { "True" } else { "False" }),
                Default::Str(v) => format!("{name}=\"{v}\""),
            }
        });
        format!("{}({})", kind.method, params.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn all_are_documented() {
        let page = include_str!("../../../docs/primitives.md");
        let documented: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("## `")?.strip_suffix('`')).collect();
        assert!(documented.is_sorted(), "docs/primitives.md lists primitives by name");
        let mut signatures: Vec<String> = ALL.iter().map(|k| signature(k)).collect();
        signatures.sort_unstable();
        assert_eq!(documented, signatures, "the sections of docs/primitives.md are the table of primitives");
    }

    /// The table of what becomes of handles has a row for each primitive, and no other.
    #[test]
    fn handles_of_all_are_documented() {
        let page = include_str!("../../../docs/primitives.md");
        let table = page.split("\n## ").find(|s| s.starts_with("Handles\n")).expect("a section about handles");
        let rows = table.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` | ")).map(|(method, rest)| {
            assert_eq!(rest.split(" | ").count(), 3, "`{method}`: dies, persists, created");
            method
        });
        let mut methods: Vec<&str> = ALL.iter().map(|k| k.method).collect();
        methods.sort_unstable();
        assert_eq!(rows.collect::<Vec<_>>(), methods);
    }
}
