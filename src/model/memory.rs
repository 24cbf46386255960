//! Memory for tensors.

use super::ModelError;
use crate::codegen::runtime::memory::{Block, LARGE_PAGE};
use crate::graph::memory::ALIGNMENT;
use crate::graph::program::Place;
use crate::stop::StopFlag;
use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;

/// Memory of at least this size takes large pages: kernels read weights and intermediate values from many small ones, whose
/// translations no level of the TLB holds.
const LARGE: usize = LARGE_PAGE / 2;

/// Memory aligned to [`ALIGNMENT`], filled with zeros.
pub(super) struct Memory {
    /// `None` if there are no bytes.
    block: Option<Block>,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Memory, ModelError> {
        if bytes == 0 {
            return Ok(Memory { block: None, bytes });
        }
        let too_large = || ModelError::Machine(format!("not enough memory: {bytes} bytes"));
        let align = if bytes >= LARGE { LARGE_PAGE } else { ALIGNMENT };
        let size = bytes.checked_next_multiple_of(align).ok_or_else(too_large)?;
        let layout = Layout::from_size_align(size, align).map_err(|_| too_large())?;
        let block = Block::zeroed(layout, &StopFlag::default()).ok_or_else(too_large)?;
        Ok(Memory { block: Some(block), bytes })
    }

    fn start(&self) -> *mut u8 {
        let nothing = std::ptr::without_provenance_mut(ALIGNMENT);
        self.block.as_ref().map(Block::start).map_or(nothing, NonNull::as_ptr)
    }

    /// The address of a byte.
    pub(super) fn pointer(&self, offset: usize) -> *mut u8 {
        self.start().wrapping_add(offset)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the block has that many bytes, all of which have values.
        unsafe { std::slice::from_raw_parts(self.start(), self.bytes) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the block is borrowed as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.bytes) }
    }
}

/// Tensors that are only read, by their places.
pub(super) struct Fixed {
    memory: Memory,
    offsets: HashMap<Place, usize>,
    size: usize,
}

impl Fixed {
    /// Copies of tensors.
    pub(super) fn copy(tensors: &[(Place, &[u8])]) -> Result<Fixed, ModelError> {
        let bytes = tensors.iter().map(|(_, data)| data.len().next_multiple_of(ALIGNMENT)).sum();
        let size = tensors.iter().map(|(_, data)| data.len()).sum();
        let mut fixed = Fixed { memory: Memory::new(bytes)?, offsets: HashMap::new(), size };
        let mut offset = 0;
        for &(place, data) in tensors {
            fixed.memory.bytes_mut()[offset..offset + data.len()].copy_from_slice(data);
            fixed.offsets.insert(place, offset);
            offset += data.len().next_multiple_of(ALIGNMENT);
        }
        Ok(fixed)
    }

    /// The bytes of all.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The address of a tensor, if it is one of them.
    pub(super) fn pointer(&self, place: Place) -> Option<*mut u8> {
        Some(self.memory.pointer(*self.offsets.get(&place)?))
    }

    /// Whether a tensor is one of them.
    #[cfg(test)]
    pub(super) fn has(&self, place: Place) -> bool {
        self.offsets.contains_key(&place)
    }
}
