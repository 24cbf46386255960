//! Memory for buffers: large blocks in large pages.

use crate::stop::StopFlag;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Bytes of a large page. Blocks aligned to it are laid out in such pages where the system has them.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Bytes that are written between two looks at a stop flag: some milliseconds.
pub(crate) const STOP_BYTES: usize = 8 << 20;

/// Zeroed memory; `None` if there is not enough, or `stop` was raised. To be freed with [`std::alloc::dealloc`] and the same layout, which must
/// not be empty. Small pages would add misses of address translation that come and go with what the system hands out.
pub(crate) fn allocate(layout: Layout, stop: &StopFlag) -> Option<NonNull<u8>> {
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
