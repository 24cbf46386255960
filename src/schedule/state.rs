//! The state of one function under a schedule: the function, and what is known of its blocks.
//!
//! Everything that can be computed from the tree in a microsecond is computed when a check asks for it
//! ([`super::analysis`]). What costs more, whether bindings are affine and producers cover consumers, is kept in
//! [`BlockInfo`]s: filled for all blocks when the schedule begins, and again for the blocks that a primitive makes or
//! whose scope it changes, as TVM's `ScheduleState` does (`src/s_tir/schedule/state.cc`). A candidate starts from a
//! clone of the first state and pays nothing for them.

use super::analysis::declared::Uses;
use super::analysis::freedom::{Limit, limit};
use super::analysis::tree::depth;
use super::arg::FuncIndex;
use super::error::{ErrorKind, ScheduleError};
use crate::ir::{BlockId, BufferId, Func, StmtId};
use std::sync::Arc;

/// What is known of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    /// Are the bindings quasi-affine and independent?
    pub affine_binding: bool,
    /// Does every read see only what producers in the scope have written before?
    pub region_cover: bool,
    /// Of a block that holds others: do all of them have region cover, with no write after read between them?
    pub stage_pipeline: bool,
}

/// About as many expressions as a schedule of some dozens of instructions makes.
const USUAL_EXPRS: usize = 800;

/// A function with its block information.
#[derive(Clone)]
pub struct State {
    /// The function.
    pub func: Func,
    /// At least as many levels as statements are nested; counted anew only where it gets large.
    pub(super) levels: usize,
    /// What limits what may be done with the function.
    pub(super) limit: Option<Arc<Limit>>,
    index: FuncIndex,
    info: Vec<Option<BlockInfo>>,
    uses: Uses,
    /// How many buffers were looked at for it, and the largest number of dimensions that one of them has.
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

    /// A buffer that is used where nothing declares it. It costs time in proportion to the nests that were changed since
    /// this was asked before.
    pub(super) fn undeclared_buffer(&mut self) -> Option<BufferId> {
        self.uses.update(&mut self.func)
    }

    /// The statements directly under the root that use a buffer and do not declare it themselves, if that is known: as
    /// long as an instruction has changed nothing.
    pub fn nests_using(&self, buffer: BufferId) -> Option<Vec<StmtId>> {
        self.uses.nests_using(&self.func, buffer)
    }

    /// The largest number of dimensions that a buffer of the function has or had.
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

    /// What is known of a block.
    ///
    /// # Panics
    /// If the block was made without analysing it, which is a bug of the primitive that made it.
    pub fn info(&self, b: BlockId) -> BlockInfo {
        self.info.get(b.index()).copied().flatten().expect("every block is analysed when it is made")
    }

    /// Sets what is known of a block.
    pub fn set_info(&mut self, b: BlockId, info: BlockInfo) {
        if self.info.len() <= b.index() {
            self.info.resize(b.index() + 1, None);
        }
        self.info[b.index()] = Some(info);
    }

    /// Changes what is known of a block.
    ///
    /// # Panics
    /// If nothing is.
    pub fn update_info(&mut self, b: BlockId, change: impl FnOnce(&mut BlockInfo)) {
        let mut info = self.info(b);
        change(&mut info);
        self.set_info(b, info);
    }

    /// Is the block analysed?
    pub fn has_info(&self, b: BlockId) -> bool {
        self.info.get(b.index()).is_some_and(Option::is_some)
    }
}
