//! Memory for buffers: large blocks use large pages.

use crate::stop::StopFlag;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Size of a large page. Blocks aligned to it use such pages where the system provides them.
pub const LARGE_PAGE: usize = 2 << 20;

/// Bytes written between two checks of the stop flag: some milliseconds of work.
pub const STOP_BYTES: usize = 8 << 20;

/// Allocates zeroed memory; `None` if there is not enough, or `stop` was raised. Free it with [`std::alloc::dealloc`]
/// and the same layout, which must not be empty. Small pages would add TLB misses that vary with what the system
/// provides.
pub fn allocate(layout: Layout, stop: &StopFlag) -> Option<NonNull<u8>> {
    if layout.size() == 0 {
        return None;
    }
    // SAFETY: the layout is not empty.
    let block = NonNull::new(unsafe { alloc(layout) })?;
    #[cfg(target_os = "linux")]
    if layout.align() >= LARGE_PAGE {
        // SAFETY: advice about memory that is ours and not touched yet; a refusal changes nothing.
        unsafe { libc::madvise(block.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    for start in (0..layout.size()).step_by(STOP_BYTES) {
        if stop.is_raised() {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(block.as_ptr(), layout) };
            return None;
        }
        // SAFETY: the block is `layout.size()` bytes long, of which this part ends at the last.
        unsafe { block.add(start).write_bytes(0, STOP_BYTES.min(layout.size() - start)) };
    }
    Some(block)
}
