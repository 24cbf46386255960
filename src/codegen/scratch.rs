//! Where scratch buffers lie in the memory that the runtime provides.

use crate::loopir::{BufferId, Kernel, Placement, Storage};

/// Offsets of scratch buffers: shared ones in one block, those of a worker in a block that each worker has.
///
/// ```text
/// | shared | worker 0 | worker 1 | …      each block and buffer aligned to 64 bytes
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct ScratchLayout {
    offsets: Vec<usize>,
    /// Bytes of the shared block.
    pub shared_bytes: usize,
    /// Bytes of each worker's block.
    pub private_bytes: usize,
}

const ALIGN: usize = 64;

/// What large buffers are moved by against each other, so that their beginnings don't compete for the same cache sets.
const STAGGER: usize = 3 * ALIGN;

impl ScratchLayout {
    /// The layout for a kernel.
    pub fn new(kernel: &Kernel) -> ScratchLayout {
        let mut layout = ScratchLayout::default();
        for (_, b) in kernel.buffers() {
            let end = match b.storage {
                Storage::Param(_) => {
                    layout.offsets.push(0);
                    continue;
                }
                Storage::Scratch(Placement::Shared) => &mut layout.shared_bytes,
                Storage::Scratch(Placement::PerWorker) => &mut layout.private_bytes,
            };
            layout.offsets.push(*end);
            let bytes = b.bytes();
            *end += bytes.next_multiple_of(ALIGN) + if bytes >= 4096 { STAGGER } else { 0 };
        }
        layout
    }

    /// Where a buffer begins in its block.
    pub fn offset(&self, b: BufferId) -> usize {
        self.offsets[b.index()]
    }

    /// Bytes for a number of workers.
    pub fn total(&self, workers: usize) -> usize {
        self.shared_bytes.next_multiple_of(ALIGN) + self.private_bytes * workers
    }
}
