//! Memory for buffers: large blocks in large pages.

use std::alloc::{Layout, alloc};
use std::ptr::NonNull;

/// Bytes of a large page. Blocks aligned to it are laid out in such pages where the system has them.
pub const LARGE_PAGE: usize = 2 << 20;

/// Zeroed memory; `None` if there is not enough. To be freed with [`std::alloc::dealloc`] and the same layout, which must
/// not be empty. Small pages would add misses of address translation that come and go with what the system hands out.
pub fn allocate(layout: Layout) -> Option<NonNull<u8>> {
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
    // SAFETY: the block is that long.
    unsafe { block.write_bytes(0, layout.size()) };
    Some(block)
}
