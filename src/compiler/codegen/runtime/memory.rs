//! Memory for buffers: large blocks use large pages.

use crate::stop::StopFlag;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// Size of a large page. Blocks aligned to it use such pages where the system provides them.
pub const LARGE_PAGE: usize = 2 << 20;

/// Bytes written between two checks of the stop flag: some milliseconds of work.
pub const STOP_BYTES: usize = 8 << 20;

/// A block of memory, which is freed when it is dropped.
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is owned, and only reached through its owner.
unsafe impl Send for Block {}
// SAFETY: through a shared reference only the address can be had.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates zeroed memory; `None` if there is not enough, or `stop` was raised. Small pages would add TLB misses that
    /// vary with what the system provides.
    pub fn zeroed(layout: Layout, stop: &StopFlag) -> Option<Block> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout is not empty.
        let block = Block { start: NonNull::new(unsafe { alloc(layout) })?, layout };
        #[cfg(target_os = "linux")]
        if layout.align() >= LARGE_PAGE {
            // SAFETY: advice about memory that is ours and not touched yet; a refusal changes nothing.
            unsafe { libc::madvise(block.start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        for start in (0..layout.size()).step_by(STOP_BYTES) {
            if stop.is_raised() {
                return None;
            }
            // SAFETY: the block is `layout.size()` bytes long, of which this part ends at the last.
            unsafe { block.start.add(start).write_bytes(0, STOP_BYTES.min(layout.size() - start)) };
        }
        Some(block)
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.layout.size()
    }

    /// Whether it can take the place of a block of this layout, without being far too large.
    pub fn fits(&self, layout: Layout) -> bool {
        let sizes = layout.size()..=layout.size().saturating_mul(2);
        self.layout.align() >= layout.align() && sizes.contains(&self.size())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
