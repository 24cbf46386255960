//! Memory for tensors.

use super::ModelError;
use crate::graph::memory::ALIGNMENT;
use crate::graph::program::Place;
use std::collections::HashMap;

/// Memory aligned to [`ALIGNMENT`], filled with zeros.
pub(super) struct Memory {
    start: *mut u8,
    bytes: usize,
    owner: Vec<u8>,
}

// SAFETY: the memory is owned, and the pointer leads into it.
unsafe impl Send for Memory {}
// SAFETY: as above; shared memory (that of constants) is only read.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Memory, ModelError> {
        let mut owner: Vec<u8> = Vec::new();
        let too_large = |_| ModelError::Machine(format!("not enough memory: {bytes} bytes"));
        owner.try_reserve_exact(bytes + ALIGNMENT).map_err(too_large)?;
        owner.resize(bytes + ALIGNMENT, 0);
        let offset = owner.as_ptr().addr().next_multiple_of(ALIGNMENT) - owner.as_ptr().addr();
        let start = owner.as_mut_ptr().wrapping_add(offset);
        Ok(Memory { start, bytes, owner })
    }

    fn offset(&self) -> usize {
        self.start.addr() - self.owner.as_ptr().addr()
    }

    /// The address of a byte.
    pub(super) fn pointer(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.owner[self.offset()..self.offset() + self.bytes]
    }

    /// The bytes as a vector, without taking memory for them.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let (offset, bytes) = (self.offset(), self.bytes);
        let mut owner = self.owner;
        owner.drain(..offset);
        owner.truncate(bytes);
        owner
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let offset = self.offset();
        &mut self.owner[offset..offset + self.bytes]
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
