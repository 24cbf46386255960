//! Support code that every exported object carries: calls, parallel loops, the TVM-FFI convention, external weights, mathematics.
//!
//! `build.rs` compiles it for the machine that tvmr is built for, as one relocatable object without dependencies; the exporter
//! copies the parts that an object refers to. It calls nothing but `aligned_alloc`, `free`, `madvise`, `memcpy` and `memset`, and in
//! shared libraries what threads need. It never panics: arithmetic wraps, and indices are checked by hand.

#![no_std]

mod abi;
mod call;
mod chunks;
mod cpu;
#[expect(dead_code, reason = "callers of other libraries use all of it")]
mod ffi_abi;
mod fork;
mod libcalls;
mod math;
mod pool;
mod scratch;
mod tvm_ffi;
mod weights;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
