//! The context in which kernels run: workers, scratch memory, and the stop flag.

use super::frame::Status;
use super::memory::{Block, LARGE_PAGE};
use super::workers::Workers;
use crate::loopir::{BufferId, Failure};
use crate::stop::StopFlag;
use std::alloc::{Layout, handle_alloc_error};
use std::sync::Arc;

/// Why a kernel returned early. Its stores until then remain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuntimeFailure {
    /// The stop flag was raised.
    #[error("stopped")]
    Stopped,
    /// An access that was not proved in bounds was out of bounds.
    #[error("access out of bounds")]
    OutOfBounds {
        /// The buffer.
        buffer: BufferId,
    },
    /// An integer was divided by zero, or the minimum by -1.
    #[error("integer division by zero or overflow")]
    Division,
    /// An assertion of the program failed.
    #[error("assertion failed")]
    Assertion {
        /// Index of the assertion in the kernel.
        index: u32,
    },
}

impl Status {
    /// The status as a result.
    pub(crate) fn result(self) -> Result<(), RuntimeFailure> {
        match self {
            Status::Done => Ok(()),
            Status::Stopped => Err(RuntimeFailure::Stopped),
            Status::Failed(Failure::OutOfBounds { buffer }) => Err(RuntimeFailure::OutOfBounds { buffer }),
            Status::Failed(Failure::Division) => Err(RuntimeFailure::Division),
            Status::Failed(Failure::Assertion { index }) => Err(RuntimeFailure::Assertion { index }),
        }
    }
}

/// The context in which kernels run. Its scratch memory grows to the needs of the largest kernel and is kept between
/// runs, so that runs allocate nothing.
pub struct RunContext {
    workers: Arc<Workers>,
    stop: StopFlag,
    scratch: Scratch,
    /// Memory that an executable used before, for the next one.
    spare: Option<Block>,
}

impl RunContext {
    /// A context with the given workers.
    pub fn new(workers: Arc<Workers>) -> RunContext {
        RunContext { workers, stop: StopFlag::new(), scratch: Scratch::default(), spare: None }
    }

    /// A context for kernels that run on one thread.
    pub fn serial() -> RunContext {
        RunContext::new(Arc::new(Workers::serial()))
    }

    /// The same context, whose kernels this flag stops.
    pub fn stopped_by(mut self, stop: StopFlag) -> RunContext {
        self.stop = stop;
        self
    }

    /// The worker threads.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The flag that stops kernels running in this context.
    pub fn stop_flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Fills the scratch memory with a byte, to expose kernels that read uninitialised scratch.
    pub fn poison_scratch(&mut self, byte: u8) {
        self.scratch.fill(byte);
    }

    /// Keeps a block, instead of the one before, for whoever needs one like it: the system takes longer to provide new pages
    /// than to write them.
    pub fn keep(&mut self, block: Block) {
        self.spare = Some(block);
    }

    /// The block that was kept, if it fits. Its contents are those that it had.
    pub fn take_kept(&mut self, layout: Layout) -> Option<Block> {
        self.spare.take_if(|spare| spare.fits(layout))
    }

    /// At least `bytes` bytes of scratch memory, aligned to [`SCRATCH_ALIGN`].
    pub(crate) fn scratch(&mut self, bytes: usize) -> *mut u8 {
        self.scratch.reserve(bytes)
    }
}

/// Alignment of scratch memory: a page, so that its buffers map to the same cache sets each time.
pub(crate) const SCRATCH_ALIGN: usize = 4096;

/// A block of memory that grows.
#[derive(Default)]
struct Scratch {
    block: Option<Block>,
}

impl Scratch {
    fn reserve(&mut self, bytes: usize) -> *mut u8 {
        if let Some(block) = &self.block
            && block.size() >= bytes
        {
            return block.start().as_ptr();
        }
        self.block = None;
        let align = if bytes >= LARGE_PAGE { LARGE_PAGE } else { SCRATCH_ALIGN };
        let size = bytes.max(1).next_multiple_of(align);
        let layout = Layout::from_size_align(size, align).expect("scratch is smaller than the address space");
        let Some(block) = Block::zeroed(layout, &StopFlag::new()) else { handle_alloc_error(layout) };
        self.block.insert(block).start().as_ptr()
    }

    fn fill(&mut self, byte: u8) {
        if let Some(block) = &mut self.block {
            // SAFETY: the block is owned and that long.
            unsafe { block.start().write_bytes(byte, block.size()) };
        }
    }
}
