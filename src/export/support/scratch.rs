//! Scratch memory of calls, kept from one to the next.
//!
//! The pages of fresh memory are zeroed by the system when they are touched, which takes longer than many a kernel. So a library keeps
//! the block of its last call. A call takes it from the library, and leaves its block there in the end; of calls at the same time, the
//! others allocate blocks of their own, and the last one to end leaves the one that is kept.

use crate::abi::Library;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::AcqRel;

unsafe extern "C" {
    fn aligned_alloc(align: usize, size: usize) -> *mut u8;
    fn free(block: *mut u8);
    fn madvise(block: *mut u8, size: usize, advice: i32) -> i32;
}

/// Scratch memory begins at a page, so that its buffers map to the same cache sets each time.
const PAGE: usize = 4096;
/// Size of a large page, and where memory of this size or more begins: with large pages, kernels miss translations less often.
const LARGE_PAGE: usize = 2 << 20;
/// Linux's advice to use large pages.
const MADV_HUGEPAGE: i32 = 14;

/// What a block begins with.
struct Header {
    /// Bytes of scratch memory.
    bytes: usize,
    /// Their distance from the beginning of the block.
    start: usize,
}

/// A block that one call uses.
pub(crate) struct Scratch(*mut Header);

/// At least so many bytes; `None` if there is no memory.
pub(crate) fn take(library: &Library, bytes: usize) -> Option<Scratch> {
    let kept: *mut Header = library.scratch.swap(null_mut(), AcqRel).cast();
    // SAFETY: what the library keeps is a block with a header, and from the exchange on ours alone.
    unsafe {
        if !kept.is_null() {
            if (*kept).bytes >= bytes {
                return Some(Scratch(kept));
            }
            free(kept.cast());
        }
    }
    allocate(bytes)
}

fn allocate(bytes: usize) -> Option<Scratch> {
    let start = if bytes >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
    let bytes = bytes.checked_add(start.wrapping_sub(1))? & !start.wrapping_sub(1);
    let size = bytes.checked_add(start)?;
    // SAFETY: the size is a multiple of the alignment, a power of two, and the header fits a page.
    unsafe {
        let block = aligned_alloc(start, size);
        if block.is_null() {
            return None;
        }
        if start == LARGE_PAGE {
            // A refusal changes nothing.
            madvise(block.wrapping_add(start), bytes, MADV_HUGEPAGE);
        }
        let header: *mut Header = block.cast();
        header.write(Header { bytes, start });
        Some(Scratch(header))
    }
}

impl Scratch {
    /// The first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: the block has a header.
        self.0.cast::<u8>().wrapping_add(unsafe { (*self.0).start })
    }

    /// Leaves the block for the next call.
    pub(crate) fn keep(self, library: &Library) {
        let other = library.scratch.swap(self.0.cast(), AcqRel);
        if !other.is_null() {
            // SAFETY: a call at the same time left it, and after the exchange nobody else knows it.
            unsafe { free(other) };
        }
    }
}
