//! The state of one function under a schedule: the function, and properties of its blocks.
//!
//! Properties that can be computed from the tree in a microsecond are computed when a check needs them
//! ([`super::analysis`]). More expensive ones, whether bindings are affine and producers cover consumers, are stored in
//! [`BlockInfo`]s: computed for all blocks when the schedule begins, and again for the blocks that a primitive makes or
//! whose scope it changes, as in TVM's `ScheduleState` (`src/s_tir/schedule/state.cc`). A candidate starts from a clone
//! of the first state and need not compute them.

use super::analysis::declared::Uses;
use super::analysis::freedom::{Limit, limit};
use super::analysis::tree::depth;
use super::arg::FuncIndex;
use super::error::{ErrorKind, ScheduleError};
use crate::ir::{BlockId, BufferId, Func, StmtId};
use std::sync::Arc;

/// Properties of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    /// Whether the bindings are quasi-affine and independent.
    pub affine_binding: bool,
    /// Whether every read is of elements that producers in the scope have written before.
    pub region_cover: bool,
    /// For a block with inner blocks, whether all of them have region cover, and none writes a buffer that an earlier
    /// one reads.
    pub stage_pipeline: bool,
}

/// Typical number of expressions that a schedule of some dozens of instructions makes.
const USUAL_EXPRS: usize = 800;

/// A function with its block information.
#[derive(Clone)]
pub struct State {
    /// The function.
    pub func: Func,
    /// An upper bound of the nesting depth of statements; computed exactly only if it gets large.
    pub(super) levels: usize,
    /// The limit of the allowed primitives, if there is one.
    pub(super) limit: Option<Arc<Limit>>,
    index: FuncIndex,
    info: Vec<Option<BlockInfo>>,
    uses: Uses,
    /// The number of buffers considered for the maximum rank, and that rank.
    rank: (usize, usize),
}

impl State {
    /// The state of the function at position `index` of the module; analyses all blocks.
    pub fn new(index: FuncIndex, mut func: Func) -> State {
        func.arena.reserve(USUAL_EXPRS);
        let uses = Uses::of(&mut func);
        let mut state = State {
            levels: depth(&func),
            limit: limit(&func).map(Arc::new),
            func,
            index,
            info: Vec::new(),
            uses,
            rank: (0, 0),
        };
        let root = state.func.root;
        super::analysis::update_scope_info(&mut state, root);
        state
    }

    /// The position of the function in the module.
    pub fn index(&self) -> FuncIndex {
        self.index
    }

    /// A use of an undeclared buffer. The cost is proportional to the number of nests changed since the last call.
    pub(super) fn undeclared_buffer(&mut self) -> Option<BufferId> {
        self.uses.update(&mut self.func)
    }

    /// The statements directly under the root that use a buffer without declaring it; `None` if an instruction has
    /// changed the program since the last update.
    pub fn nests_using(&self, buffer: BufferId) -> Option<Vec<StmtId>> {
        self.uses.nests_using(&self.func, buffer)
    }

    /// The maximum rank of all buffers that the function has or had.
    pub(super) fn max_rank(&mut self) -> usize {
        let arena = &self.func.arena;
        let new = arena.buffer_ids().skip(self.rank.0).map(|b| arena.list(arena.buffer(b).shape).len());
        self.rank = (arena.n_buffers(), new.max().unwrap_or(0).max(self.rank.1));
        self.rank.1
    }

    /// An error at a loop or block of the function.
    pub fn error(&self, kind: ErrorKind, at: impl Into<StmtId>) -> ScheduleError {
        ScheduleError::new(kind).at(self.index, at)
    }

    /// The properties of a block.
    ///
    /// # Panics
    ///
    /// If the block was made without being analysed, which is a bug of the primitive that made it.
    pub fn info(&self, b: BlockId) -> BlockInfo {
        self.info.get(b.index()).copied().flatten().expect("every block is analysed when it is made")
    }

    /// Sets the properties of a block.
    pub fn set_info(&mut self, b: BlockId, info: BlockInfo) {
        if self.info.len() <= b.index() {
            self.info.resize(b.index() + 1, None);
        }
        self.info[b.index()] = Some(info);
    }

    /// Changes the properties of a block.
    ///
    /// # Panics
    ///
    /// If the block was not analysed.
    pub fn update_info(&mut self, b: BlockId, change: impl FnOnce(&mut BlockInfo)) {
        let mut info = self.info(b);
        change(&mut info);
        self.set_info(b, info);
    }

    /// Whether the block was analysed.
    pub fn has_info(&self, b: BlockId) -> bool {
        self.info.get(b.index()).is_some_and(Option::is_some)
    }
}
