//! What functions of shared libraries call in turn.
//!
//! Libraries that tvmr or TVM make are not linked with TVM-FFI: they raise errors by functions of the process that loads them, which
//! `build.rs` therefore exports from the executable. TVM's also have pointers to functions of TVM's runtime for workspaces and
//! parallel loops, which their loader sets.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

/// Alignment of workspaces, as in TVM.
const WORKSPACE_ALIGNMENT: usize = 64;

thread_local! {
    /// The error that was raised last in this thread.
    static RAISED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes the error that was raised last.
pub(super) fn take_raised() -> Option<String> {
    RAISED.take()
}

/// The address of a function of TVM's runtime.
pub(super) fn function(name: &str) -> Option<*mut c_void> {
    Some(match name {
        "TVMFFIErrorSetRaisedFromCStr" => TVMFFIErrorSetRaisedFromCStr as *mut c_void,
        "TVMFFIErrorSetRaisedFromCStrParts" => TVMFFIErrorSetRaisedFromCStrParts as *mut c_void,
        "TVMBackendAllocWorkspace" => alloc_workspace as *mut c_void,
        "TVMBackendFreeWorkspace" => free_workspace as *mut c_void,
        "TVMBackendParallelLaunch" => parallel_launch as *mut c_void,
        "TVMBackendParallelBarrier" => parallel_barrier as *mut c_void,
        _ => return None,
    })
}

/// Raises an error: its kind, such as `TypeError`, and its message.
#[unsafe(no_mangle)]
unsafe extern "C" fn TVMFFIErrorSetRaisedFromCStr(kind: *const c_char, message: *const c_char) {
    // SAFETY: the caller passes strings.
    let (kind, message) = unsafe { (text(kind), text(message)) };
    RAISED.set(Some(format!("{kind}: {message}")));
}

/// Raises an error whose message comes in parts, of which some may be null.
#[unsafe(no_mangle)]
unsafe extern "C" fn TVMFFIErrorSetRaisedFromCStrParts(kind: *const c_char, parts: *const *const c_char, n: i32) {
    let mut message = String::new();
    for i in 0..usize::try_from(n).unwrap_or(0) {
        // SAFETY: there are `n` strings.
        message.push_str(&unsafe { text(*parts.wrapping_add(i)) });
    }
    // SAFETY: the caller passes a string.
    let kind = unsafe { text(kind) };
    RAISED.set(Some(format!("{kind}: {message}")));
}

/// A string of C; empty for null.
///
/// # Safety
/// The pointer is null, or that of a string.
unsafe fn text(start: *const c_char) -> String {
    match start.is_null() {
        true => String::new(),
        // SAFETY: the caller promises it.
        false => unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned(),
    }
}

extern "C" fn alloc_workspace(_device: i32, _id: i32, bytes: u64, _code: i32, _bits: i32) -> *mut c_void {
    let Ok(bytes) = usize::try_from(bytes) else { return null_mut() };
    let mut memory = null_mut();
    // SAFETY: the place for the address is there, and the alignment a power of two.
    match unsafe { libc::posix_memalign(&mut memory, WORKSPACE_ALIGNMENT, bytes.max(1)) } {
        0 => memory,
        _ => null_mut(),
    }
}

unsafe extern "C" fn free_workspace(_device: i32, _id: i32, memory: *mut c_void) -> i32 {
    // SAFETY: the caller gives back what it was given by `alloc_workspace`.
    unsafe { libc::free(memory) };
    0
}

/// What the body of a parallel loop is told.
#[repr(C)]
struct ParallelGroup {
    sync_handle: *mut c_void,
    n_tasks: i32,
}

/// The body of a parallel loop.
type ParallelFn = unsafe extern "C" fn(task: i32, group: *mut ParallelGroup, data: *mut c_void) -> i32;

/// Runs a parallel loop as one task: how many there are is the host's choice.
unsafe extern "C" fn parallel_launch(body: ParallelFn, data: *mut c_void, _n_tasks: i32) -> i32 {
    let mut group = ParallelGroup { sync_handle: null_mut(), n_tasks: 1 };
    // SAFETY: the body belongs to these data, and the group lives through the call.
    unsafe { body(0, &mut group, data) }
}

extern "C" fn parallel_barrier(_task: i32, _group: *mut ParallelGroup) -> i32 {
    // A single task waits for nobody.
    0
}
