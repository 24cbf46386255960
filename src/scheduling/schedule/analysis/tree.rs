//! Scopes and loops: the positions of statements in the tree.
//!
//! The tree of a schedule consists of its loops and blocks; other statements (`if`, `let`) are transparent. The scope
//! of a loop or block is the innermost enclosing block.

use super::super::error::{ErrorKind, ScheduleError};
use super::super::state::State;
use crate::ir::{BlockId, Func, LoopId, LoopKind, Stmt, StmtId, Symbol};
use crate::script::MAX_INDENT;

/// Maximum nesting of statements that instructions may make: every level may take one level of indentation in the text,
/// and a few are needed for the class, the function and the contents of a block.
pub(crate) const MAX_DEPTH: usize = MAX_INDENT - 10;

/// The nesting depth of a function's statements; the root block is level 0.
pub(crate) fn depth(func: &Func) -> usize {
    let mut deepest = 0;
    let mut open = vec![(func.root.stmt(), 0)];
    while let Some((s, depth)) = open.pop() {
        deepest = deepest.max(depth);
        for body in func.get(s).bodies() {
            open.extend(body.iter().map(|&child| (child, depth + 1)));
        }
    }
    deepest
}

/// The scope of a loop or block (TVM's `GetScopeRoot`).
///
/// # Errors
///
/// For the root block; with `stage_pipeline`, also if the scope is not a stage pipeline.
pub(crate) fn require_scope(
    state: &State,
    s: impl Into<StmtId>,
    stage_pipeline: bool,
) -> Result<BlockId, ScheduleError> {
    let s = s.into();
    let scope = state.func.block_above(s).ok_or_else(|| state.error(ErrorKind::RootBlock, s))?;
    if stage_pipeline && !state.info(scope).stage_pipeline {
        return Err(state.error(ErrorKind::NotStagePipeline, scope));
    }
    Ok(scope)
}

/// The innermost loop or block around a statement.
pub(crate) fn parent(func: &Func, s: impl Into<StmtId>) -> Option<StmtId> {
    func.ancestors(s.into()).find(|&p| matches!(func.get(p), Stmt::Loop(_) | Stmt::Block(_)))
}

/// The innermost loop directly around a statement, with no block in between.
pub(crate) fn loop_above(func: &Func, s: impl Into<StmtId>) -> Option<LoopId> {
    parent(func, s).and_then(|p| func.as_loop(p))
}

/// The loops from `low` (a loop, itself included) outwards, up to the next block or, if it comes first, to `high`,
/// which is excluded; innermost first. Empty if `low` is not a loop (TVM's `LoopDomainOfSRefTreePath`).
///
/// With a buffer's `storage` scope, outer loops are added that are bound to threads which share this memory.
pub(crate) fn loop_path(func: &Func, low: StmtId, high: Option<StmtId>, storage: Option<Symbol>) -> Vec<LoopId> {
    let mut loops = Vec::new();
    let mut at = Some(low);
    while let Some(l) = at.filter(|&p| Some(p) != high).and_then(|p| func.as_loop(p)) {
        loops.push(l);
        at = parent(func, l);
    }
    let rank = storage.map_or(StorageRank::GLOBAL, StorageRank::of);
    if rank != StorageRank::GLOBAL {
        while let Some(p) = at {
            if let Some(l) = func.as_loop(p)
                && let LoopKind::ThreadBinding(axis) = func.loop_(l).kind
                && rank.shared_by(ThreadAxis::parse(axis))
            {
                loops.push(l);
            }
            at = parent(func, p);
        }
    }
    loops
}

/// The innermost loop or block around all of the statements; the statement itself if there is only one.
pub(crate) fn common_ancestor(func: &Func, all: &[StmtId]) -> Option<StmtId> {
    let (&first, rest) = all.split_first()?;
    std::iter::once(first)
        .chain(func.ancestors(first))
        .filter(|&p| matches!(func.get(p), Stmt::Loop(_) | Stmt::Block(_)))
        .find(|&p| rest.iter().all(|&s| func.contains(p, s)))
}

/// Whether the first statement precedes the second in the text. Neither contains the other.
pub(crate) fn comes_before(func: &Func, x: StmtId, y: StmtId) -> bool {
    let path = |s: StmtId| {
        let mut path: Vec<StmtId> = std::iter::once(s).chain(func.ancestors(s)).collect();
        path.reverse();
        path
    };
    let (p, q) = (path(x), path(y));
    let Some((&a, &b)) = p.iter().zip(&q).find(|(a, b)| a != b) else { return p.len() < q.len() };
    match (func.place(a), func.place(b)) {
        (Some(a), Some(b)) => (a.body, a.position) < (b.body, b.position),
        _ => false,
    }
}

/// Whether the statement is the only one in its list, directly inside `outer`.
pub(crate) fn is_only_child(func: &Func, outer: LoopId, inner: StmtId) -> bool {
    func.loop_(outer).body[..] == [inner]
}

/// The set of threads that share memory of a storage scope; the numbers are TVM's `StorageRank`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StorageRank(u8);

impl StorageRank {
    /// Memory of the whole device.
    pub(crate) const GLOBAL: StorageRank = StorageRank(0);
    const WARP: StorageRank = StorageRank(2);

    /// The rank of a storage scope, by the prefix of its name.
    pub(crate) fn of(scope: Symbol) -> StorageRank {
        let prefixes = [("global", 0), ("shared", 1), ("warp", 2), ("local", 3)];
        let name = scope.as_str();
        // Storage scopes of accelerators (matrix fragments and the like) belong to at most one thread.
        StorageRank(prefixes.into_iter().find(|(p, _)| name.starts_with(p)).map_or(4, |(_, rank)| rank))
    }

    /// Whether all threads along the axis share memory of this rank.
    fn shared_by(self, axis: Option<ThreadAxis>) -> bool {
        match axis {
            None => false,
            Some(axis) if self == StorageRank::WARP => axis == ThreadAxis::Thread(0),
            Some(axis) => self.0 <= axis.rank(),
        }
    }
}

/// The thread axis of a loop, with the number of the dimension: 0 for `x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThreadAxis {
    /// `blockIdx.x`, `.y`, `.z`.
    Block(i32),
    /// `threadIdx.x`, `.y`, `.z`.
    Thread(i32),
    /// `vthread`, `vthread.x`, …, `cthread`.
    Virtual,
}

impl ThreadAxis {
    /// The axis with this name, if there is one. As in TVM, any letter is a dimension.
    pub(crate) fn parse(name: Symbol) -> Option<ThreadAxis> {
        let name = name.as_str();
        let dim = |suffix: &str| suffix.bytes().next().map(|c| c as i32 - b'x' as i32);
        if let Some(suffix) = name.strip_prefix("blockIdx.") {
            return dim(suffix).map(ThreadAxis::Block);
        }
        if let Some(suffix) = name.strip_prefix("threadIdx.") {
            return dim(suffix).map(ThreadAxis::Thread);
        }
        (name == "cthread" || name.starts_with("vthread")).then_some(ThreadAxis::Virtual)
    }

    fn rank(self) -> u8 {
        match self {
            ThreadAxis::Block(_) => 0,
            ThreadAxis::Thread(_) | ThreadAxis::Virtual => 1,
        }
    }
}
