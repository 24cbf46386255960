//! Members of `T` that are refused with a reason, rather than as unknown names.
//!
//! Most functions of GPUs are recognised by prefixes ([`GPU_STARTS`]); the others are listed. A test checks for every
//! name in TVM's namespace that it is read or refused here.

/// Prefixes of names that only functions of GPUs have.
const GPU_STARTS: &[&str] = &[
    "alloc_tcgen05",
    "cluster",
    "cooperative_tensor_",
    "create_barriers",
    "cta",
    "cuda",
    "lane_id",
    "make_filled_simdgroup",
    "mbarrier",
    "metal",
    "mma_",
    "nvshmem",
    "ptx",
    "rocm",
    "simdgroup",
    "tcgen05",
    "tensormap_",
    "texture2d_",
    "thread",
    "tma_",
    "tvm_global_barrier",
    "tvm_warp_",
    "warp",
    "webgpu",
    "wgmma",
];

/// Other names of GPUs.
const GPU: &[&str] = &[
    "ComposeLayout",
    "ExecScope",
    "Iter",
    "Layout",
    "R",
    "S",
    "SMEMPool",
    "ScopeIdDef",
    "TMEMPool",
    "TensorMap",
    "TileLayout",
    "alloc_cast_frag",
    "atomic_add",
    "call_ffi_kernel",
    "call_kernel",
    "device_entry",
    "dp4a",
    "env_thread",
    "filter",
    "launch_thread",
    "print_buffer",
    "s_tir",
    "scope_id",
    "selector",
    "tile",
    "tmem",
    "tvm_bmma_sync",
    "tvm_fill_fragment",
    "tvm_kernel_replace_point",
    "tvm_load_matrix_sync",
    "tvm_mma_sync",
    "tvm_store_matrix_sync",
    "tvm_thread_allreduce",
    "tvm_thread_invariant",
    "wg",
    "wg_reg_tile",
];

/// Names of other accelerators.
const ACCELERATOR: &[&str] = &["call_spirv_pure_glsl450", "nd_mem_alloc_with_scope", "nki", "spirv"];

/// Functions by which Python code builds and transforms programs; TVM never prints them.
const BUILDER: &[&str] = &[
    "Call",
    "CallEffectKind",
    "CommReducer",
    "DtypeConstructor",
    "IterVar",
    "LetAnnotation",
    "LocalVectorAnnotation",
    "Optional",
    "Reduce",
    "Tuple",
    "add_to_parent",
    "arg",
    "block_name_suffix_context",
    "builder",
    "comm_reducer",
    "constexpr",
    "func_name",
    "func_ret",
    "inline",
    "jit",
    "llvm_lookup_intrinsic_id",
    "macro",
    "meta_class",
    "parser",
    "register_script_namespace",
    "scalar_wrapper",
];

/// Declarations of memory without an allocation.
const UNALLOCATED: &[&str] = &["buffer", "buffer_decl"];

/// Words of older versions of TVM.
const OLD: &[&str] = &["allocate_const", "realize", "reduce"];

/// The reason why a member of `T` is refused; `None` for names that TVM does not have.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let starts = |all: &[&str]| all.iter().any(|start| name.starts_with(start));
    if is_scalable_type(name) || matches!(name, "vscale" | "get_active_lane_mask" | "get_vscale_expr") {
        return Some(
            "is for vectors whose length only the machine knows; tvmr builds for CPUs with vectors of fixed length",
        );
    }
    // A loop over threads is supported.
    if name != "thread_binding" && (starts(GPU_STARTS) || GPU.contains(&name)) {
        return Some("is for GPUs; tvmr builds programs for CPUs");
    }
    if starts(&["dma_"]) || ACCELERATOR.contains(&name) {
        return Some("is for accelerators other than CPUs; tvmr builds programs for CPUs");
    }
    if BUILDER.contains(&name) {
        return Some("is for Python code that builds programs; give tvmr the program that it builds");
    }
    if UNALLOCATED.contains(&name) {
        return Some("names memory that is not there; write `T.alloc_buffer`, or `T.decl_buffer(…, data=…)`");
    }
    OLD.contains(&name).then_some("is of older versions of TVM, and not supported")
}

/// Whether a namespace in `T` is only for GPUs or other accelerators.
pub(super) fn is_namespace(name: &str) -> bool {
    matches!(
        name,
        "cluster" | "cta" | "cuda" | "metal" | "nki" | "nvshmem" | "ptx" | "ptx_legacy" | "s_tir" | "thread" | "tile"
    ) || matches!(name, "warp" | "warpgroup" | "webgpu" | "wg")
}

/// Whether the name is a type such as `float32xvscalex4`.
pub(super) fn is_scalable_type(name: &str) -> bool {
    name.contains("xvscale")
}
