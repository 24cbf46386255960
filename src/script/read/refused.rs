//! Members of `T` that are refused by what they are for, rather than as unknown names.

/// Why a member of `T` is refused; `None` for names that TVM does not have either.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    const GPU: &str = "is for GPUs; tvmr builds programs for CPUs";
    const SCALABLE: &str =
        "is for vectors whose length only the machine knows; tvmr builds for CPUs with vectors of fixed length";
    const ACCELERATOR: &str = "is for accelerators other than CPUs; tvmr builds programs for CPUs";
    const LOWERED: &str = "stands in programs that TVM has lowered; give tvmr the program from before that";
    let starts = |all: &[&str]| all.iter().any(|start| name.starts_with(start));
    if is_scalable_type(name) || matches!(name, "vscale" | "get_active_lane_mask" | "get_vscale_expr") {
        return Some(SCALABLE);
    }
    if starts(&["ptx", "cuda", "nvshmem", "metal", "rocm", "simdgroup", "make_filled_simdgroup", "mma_", "tvm_warp_"])
        || starts(&["cooperative_tensor_", "texture2d_", "create_barriers", "tvm_global_barrier"])
        || matches!(
            name,
            "TensorMap"
                | "atomic_add"
                | "dp4a"
                | "env_thread"
                | "launch_thread"
                | "thread_return"
                | "tvm_bmma_sync"
                | "tvm_fill_fragment"
                | "tvm_kernel_replace_point"
                | "tvm_load_matrix_sync"
                | "tvm_mma_sync"
                | "tvm_storage_sync"
                | "tvm_store_matrix_sync"
                | "tvm_thread_allreduce"
                | "tvm_thread_invariant"
        )
    {
        return Some(GPU);
    }
    if starts(&["dma_"]) || matches!(name, "nd_mem_alloc_with_scope" | "spirv" | "call_spirv_pure_glsl450") {
        return Some(ACCELERATOR);
    }
    let lowered = matches!(
        name,
        "TVMBackendAllocWorkspace"
            | "TVMBackendFreeWorkspace"
            | "anylist_getitem"
            | "anylist_resetitem"
            | "anylist_setitem_call_cpacked"
            | "anylist_setitem_call_packed"
            | "call_cpacked_lowered"
            | "call_packed_lowered"
            | "handle_add_byte_offset"
            | "lookup_param"
            | "tvm_call_cpacked_lowered"
            | "tvm_call_packed_lowered"
            | "tvm_call_trace_packed"
            | "tvm_call_trace_packed_lowered"
            | "tvm_context_id"
            | "tvm_stack_alloca"
            | "tvm_static_handle"
            | "tvm_struct_get"
            | "tvm_struct_set"
            | "tvm_throw_last_error"
            | "tvm_tuple"
    );
    lowered.then_some(LOWERED)
}

/// `float32xvscalex4`
pub(super) fn is_scalable_type(name: &str) -> bool {
    name.contains("xvscale")
}
