//! Buffers between inaccessible pages.

use crate::ir::{Const, DType};
use crate::loopir::eval::Memory;

/// Which end of a buffer is adjacent to an inaccessible page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flush {
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
        let bytes = match v {
            Const::Int(v) => v.to_le_bytes(),
            Const::Float(v) => match self.dtype {
                DType::Float16 => (half::f16::from_f64(v).to_bits() as u64).to_le_bytes(),
                DType::BFloat16 => (half::bf16::from_f64(v).to_bits() as u64).to_le_bytes(),
                DType::Float32 => ((v as f32).to_bits() as u64).to_le_bytes(),
                _ => v.to_le_bytes(),
            },
        };
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
        let bits = u64::from_le_bytes(bytes);
        match self.dtype {
            DType::Float16 => Const::Float(half::f16::from_bits(bits as u16).to_f64()),
            DType::BFloat16 => Const::Float(half::bf16::from_bits(bits as u16).to_f64()),
            DType::Float32 => Const::Float(f32::from_bits(bits as u32) as f64),
            DType::Float64 => Const::Float(f64::from_bits(bits)),
            DType::Bool => Const::Int(bits as i64),
            dtype => Const::Int(dtype.wrap(bits as i64)),
        }
    }
}

impl Drop for GuardedBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is this buffer's own.
        unsafe { libc::munmap(self.mapping.cast(), self.mapped) };
    }
}
