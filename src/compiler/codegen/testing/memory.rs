//! Buffers between inaccessible pages.

use crate::ir::scalar::bits::{bits_of, value_of};
use crate::ir::{Const, DType};
use crate::loopir::eval::Memory;

/// Which end of a buffer is adjacent to an inaccessible page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// The start.
    Start,
    /// The end; the buffer is aligned to its elements only.
    End,
}

const PAGE: usize = 4096;

/// A buffer in a mapping of its own, with an inaccessible page on both sides.
pub(crate) struct GuardedBuffer {
    mapping: *mut u8,
    mapped: usize,
    start: usize,
    len: usize,
    dtype: DType,
}

impl GuardedBuffer {
    /// A buffer with contents.
    pub(crate) fn with_contents(dtype: DType, contents: &Memory, flush: Flush) -> GuardedBuffer {
        let bytes = contents.len() * dtype.bytes();
        let pages = bytes.div_ceil(PAGE).max(1);
        let mapped = (pages + 2) * PAGE;
        // SAFETY: a new private mapping.
        let mapping = unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(mapping, libc::MAP_FAILED, "out of memory");
        let mapping = mapping.cast::<u8>();
        // SAFETY: the inner pages of the mapping.
        let status =
            unsafe { libc::mprotect(mapping.add(PAGE).cast(), pages * PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(status, 0, "pages can be made accessible");
        let start = match flush {
            Flush::Start => PAGE,
            Flush::End => PAGE + pages * PAGE - bytes,
        };
        let mut buffer = GuardedBuffer { mapping, mapped, start, len: contents.len(), dtype };
        for (i, v) in contents.iter().enumerate() {
            buffer.write(i, v.expect("parameters are defined"));
        }
        buffer
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        // SAFETY: inside the mapping.
        unsafe { self.mapping.add(self.start) }
    }

    fn element(&self, i: usize) -> *mut u8 {
        assert!(i < self.len, "no element {i} of {}", self.len);
        // SAFETY: inside the mapping.
        unsafe { self.mapping.add(self.start + i * self.dtype.bytes()) }
    }

    fn write(&mut self, i: usize, v: Const) {
        let at = self.element(i);
        let bytes = bits_of(self.dtype, v).to_le_bytes();
        // SAFETY: an element of the buffer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, self.dtype.bytes()) };
    }

    /// All elements.
    pub(crate) fn contents(&self) -> Memory {
        (0..self.len).map(|i| Some(self.read(i))).collect()
    }

    fn read(&self, i: usize) -> Const {
        let mut bytes = [0; 8];
        // SAFETY: an element of the buffer.
        unsafe { std::ptr::copy_nonoverlapping(self.element(i), bytes.as_mut_ptr(), self.dtype.bytes()) };
        match self.dtype {
            // Any other byte than 0 and 1 is a mistake.
            DType::Bool => Const::Int(bytes[0].into()),
            dtype => value_of(dtype, u64::from_le_bytes(bytes)),
        }
    }
}

impl Drop for GuardedBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is this buffer's own.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}
