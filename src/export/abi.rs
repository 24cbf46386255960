//! The data that an object holds about its functions, and that the support code reads.
//!
//! The exporter lays the structures out as data with relocations; the support code, of which this file is a module too, reads them.

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32};

/// Version of the interface that headers state: symbols, error numbers, conventions.
pub const ABI_VERSION: i32 = 1;

/// Result of a call. The numbers are fixed for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// A pointer is null.
    Null = 1,
    /// A pointer is not aligned to its element type, or a workspace not to 64 bytes.
    Misaligned = 2,
    /// The CPU lacks the instruction set, and there is no portable version.
    Cpu = 3,
    /// Out of memory.
    Memory = 4,
    /// The program accessed a buffer out of bounds.
    Bounds = 5,
    /// The program divided an integer by zero, or the minimum by -1.
    Division = 6,
    /// An assertion of the program failed.
    Assertion = 7,
    /// No version was built for these sizes.
    Size = 8,
    /// The hook for parallel loops failed, or did not run every worker.
    Parallel = 9,
    /// The function reads external weights, and none were passed.
    WeightsMissing = 10,
    /// What was passed as weights does not begin as a file of weights.
    WeightsMagic = 11,
    /// The file of weights has another format version.
    WeightsVersion = 12,
    /// The file of weights was made for another instruction set.
    WeightsIsa = 13,
    /// The file of weights is that of another model or build.
    WeightsModel = 14,
    /// The file of weights has another size than it states: it was cut off.
    WeightsSize = 15,
    /// Other weights were passed before.
    WeightsSet = 16,
    /// The file of weights cannot be opened or mapped. Only helpers in headers return it.
    WeightsFile = 17,
}

/// The head of a file of weights. Tensors follow, each at a multiple of 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WeightsHeader {
    /// [`WEIGHTS_MAGIC`].
    pub magic: [u8; 8],
    /// [`WEIGHTS_VERSION`].
    pub version: u32,
    /// The instruction set that the weights were prepared for.
    pub isa: u32,
    /// Hash of all that follows the header.
    pub hash: [u8; 16],
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Zeros.
    pub reserved: [u8; 24],
}

/// The first bytes of a file of weights.
pub const WEIGHTS_MAGIC: [u8; 8] = *b"TVMRWGTS";

/// Version of the format of files of weights.
pub const WEIGHTS_VERSION: u32 = 1;

/// A compiled kernel: takes a frame, returns a status.
pub type KernelFn = unsafe extern "C" fn(frame: *const Frame) -> u32;

/// Body of a parallel loop for iterations `begin..end`.
pub type BodyFn = unsafe extern "C" fn(frame: *const Frame, env: *const u8, begin: i64, end: i64, worker: i64) -> u32;

/// Runs a parallel loop.
pub type ForkFn =
    unsafe extern "C" fn(frame: *const Frame, body: BodyFn, env: *const u8, extent: i64, grain: i64) -> u32;

/// The argument of compiled code, as the code generator defines it.
#[repr(C)]
pub struct Frame {
    /// Address of each parameter's first element.
    pub params: *const *mut u8,
    /// Scratch memory that all workers share.
    pub shared: *mut u8,
    /// Scratch memory of worker 0; that of the others follows.
    pub private: *mut u8,
    /// A word that stays zero: nothing stops a kernel here.
    pub stop: *const AtomicU32,
    /// Runs parallel loops.
    pub fork: ForkFn,
    /// The team of this call, for `fork`.
    pub workers: *const Team,
}

/// One worker's part of a parallel loop, as hooks call it.
pub type WorkerFn = unsafe extern "C" fn(env: *mut u8, worker: i32) -> i32;

/// A hook: calls `body(env, worker)` exactly once for each worker below `n_workers`, and returns 0 if all returned 0.
pub type ParallelFor = unsafe extern "C" fn(ctx: *mut u8, n_workers: i32, body: WorkerFn, env: *mut u8) -> i32;

/// The workers of a call: the hook as it was when the call began.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Team {
    /// The hook; `None` runs loops serially.
    pub parallel_for: Option<ParallelFor>,
    /// First argument of the hook.
    pub ctx: *mut u8,
    /// Number of workers, at least 1.
    pub n_workers: i32,
}

/// `TVMFFIErrorSetRaisedFromCStr`.
pub type Raise = unsafe extern "C" fn(kind: *const u8, message: *const u8);

/// `dlsym`.
pub type Dlsym = unsafe extern "C" fn(handle: *mut u8, name: *const u8) -> *mut u8;

/// State of a library. All zero at the start, but for `raise`.
#[repr(C)]
pub struct Library {
    /// Odd while the hook is being written.
    pub sequence: AtomicU32,
    /// Number of workers; 0 and 1 mean serial.
    pub n_workers: AtomicI32,
    /// The hook.
    pub parallel_for: AtomicPtr<u8>,
    /// First argument of the hook.
    pub ctx: AtomicPtr<u8>,
    /// The library's own pool of threads, if it was asked for.
    pub pool: AtomicPtr<u8>,
    /// Features of this CPU, once looked up; 0 before.
    pub features: AtomicU32,
    /// Keeps the structure a multiple of eight bytes.
    pub padding: u32,
    /// The first byte of the external weights, once they are passed; null before. They stay for good.
    pub weights: AtomicPtr<u8>,
    /// Scratch memory that a call left for the next one; null while a call uses it, and before the first.
    pub scratch: AtomicPtr<u8>,
    /// What the external weights must begin with; null if there are none.
    pub expected_weights: *const WeightsHeader,
    /// Null where no TVM-FFI is linked.
    pub raise: Option<Raise>,
    /// Looks up symbols of the process: TVM-FFI may be loaded after the library. Shared libraries only.
    pub dlsym: Option<Dlsym>,
}

/// A parameter: its type, extents and use.
#[repr(C)]
pub struct Param {
    /// Name, ending with a zero byte.
    pub name: *const u8,
    /// Name of the element type, ending with a zero byte.
    pub dtype: *const u8,
    /// Extents.
    pub shape: *const i64,
    /// Strides in elements; null if elements are contiguous in row-major order.
    pub strides: *const i64,
    /// Number of extents.
    pub ndim: u32,
    /// DLPack's type code.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Whether the function writes it.
    pub is_written: u8,
    /// Whether it is a scalar, passed by value.
    pub is_scalar: u8,
    /// Size in bytes, from the first element to the end of the last one.
    pub bytes: u64,
    /// Bytes of the kernel's buffer before the first element.
    pub offset: u64,
    /// Alignment that is required, in bytes.
    pub align: u32,
    /// Where it is used: bit 0 by the call, bit 1 by the preparation.
    pub used: u32,
}

/// Parameter is used by the call itself.
pub const USED_BY_CALL: u32 = 1;
/// Parameter is used by the preparation.
pub const USED_BY_PREPARATION: u32 = 2;

/// A kernel and the scratch memory that it needs.
#[repr(C)]
pub struct Code1 {
    /// The kernel; `None` if there is nothing to do.
    pub kernel: Option<KernelFn>,
    /// Bytes of shared scratch.
    pub shared: u64,
    /// Bytes of scratch for each worker.
    pub private: u64,
}

/// The code of a function for one kind of CPU.
#[repr(C)]
pub struct Version {
    /// Bits of [`features`] that the CPU must have.
    pub needs: u32,
    /// Keeps the structure a multiple of eight bytes.
    pub padding: u32,
    /// The call.
    pub call: Code1,
    /// The preparation of constant parameters.
    pub prepare: Code1,
}

/// A function for one choice of sizes.
#[repr(C)]
pub struct Function {
    /// Parameters, in order.
    pub params: *const Param,
    /// Versions, the best first.
    pub versions: *const Version,
    /// Offset of each prepared buffer in the prepared memory.
    pub prepared: *const u64,
    /// Bytes of prepared memory; 0 if nothing is prepared.
    pub prepared_bytes: u64,
    /// Number of parameters.
    pub n_params: u32,
    /// Number of versions.
    pub n_versions: u32,
    /// Number of prepared buffers.
    pub n_prepared: u32,
    /// Whether it has parallel loops.
    pub is_parallel: u32,
    /// Whether it reads external weights.
    pub needs_weights: u32,
    /// Keeps the structure a multiple of eight bytes.
    pub padding: u32,
}

/// A function that a library exports.
#[repr(C)]
pub struct Entry {
    /// The library.
    pub library: *mut Library,
    /// Signature for messages, ending with a zero byte.
    pub signature: *const u8,
    /// Functions, one for each choice of sizes.
    pub functions: *const Function,
    /// Sizes of each function, `n_sizes` each.
    pub sizes: *const i64,
    /// List of the sizes for messages, ending with a zero byte.
    pub known_sizes: *const u8,
    /// Number of functions, at least 1.
    pub n_functions: u32,
    /// Number of sizes that choose among them.
    pub n_sizes: u32,
    /// The size that is a number of samples, counted from 1; 0 if there is none. Functions then run on parts of the batch, one after the
    /// other. The leading extent of every parameter is the number of samples.
    pub batch: u32,
    /// Keeps the structure a multiple of eight bytes.
    pub padding: u32,
}

/// CPU features as bits of [`Version::needs`].
pub mod features {
    /// The bits have been looked up.
    pub const KNOWN: u32 = 1;
    /// AVX2, FMA, F16C, BMI1, BMI2, LZCNT, POPCNT and SSE4.2, with the system's support.
    pub const AVX2: u32 = 1 << 1;
    /// AVX-512 F, BW, CD, DQ and VL.
    pub const AVX512: u32 = 1 << 2;
    /// AVX-512 VNNI.
    pub const AVX512_VNNI: u32 = 1 << 3;
    /// AVX-VNNI.
    pub const AVX_VNNI: u32 = 1 << 4;
    /// AVX-512 VBMI.
    pub const AVX512_VBMI: u32 = 1 << 5;
    /// AVX-512 BITALG.
    pub const AVX512_BITALG: u32 = 1 << 6;
    /// AVX-512 BF16.
    pub const AVX512_BF16: u32 = 1 << 7;
    /// AVX-512 FP16.
    pub const AVX512_FP16: u32 = 1 << 8;
}
