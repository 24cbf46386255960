//! Which blocks of a scope depend on which (TVM's `SBlockScope`, `src/s_tir/schedule/state.cc` and `sblock_scope.cc`).
//!
//! The blocks directly in a scope are taken in text order; two of them depend on each other where one writes a buffer
//! that the other reads or writes. Scopes have few blocks, so this is computed when asked for and never goes stale.

use crate::ir::{BlockId, BufferId, Func};

/// Why the later of two blocks must stay behind the earlier one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DepKind {
    /// It reads what the earlier one wrote.
    Raw,
    /// It overwrites what the earlier one wrote.
    Waw,
    /// It overwrites what the earlier one read.
    War,
}

/// A dependence between two blocks of one scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dependence {
    /// The earlier block.
    pub src: BlockId,
    /// The later block.
    pub dst: BlockId,
    /// Why.
    pub kind: DepKind,
}

/// The blocks directly in a scope, with their dependences.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The blocks, in text order.
    pub blocks: Vec<BlockId>,
    /// The dependences: by later block in text order; for each, by its reads, then its writes.
    pub deps: Vec<Dependence>,
}

impl Scope {
    /// The scope of a block: the blocks inside it that are in no other.
    pub fn of(func: &Func, scope: BlockId) -> Scope {
        Scope::of_blocks(func, func.child_blocks(scope.stmt()))
    }

    /// The dependences among blocks in text order.
    pub fn of_blocks(func: &Func, blocks: Vec<BlockId>) -> Scope {
        let mut deps = Vec::new();
        for (n, &dst) in blocks.iter().enumerate() {
            let later = func.block(dst);
            let mut add = |src: BlockId, kind: DepKind| {
                let dep = Dependence { src, dst, kind };
                if !deps.contains(&dep) {
                    deps.push(dep);
                }
            };
            for read in &later.reads {
                for &src in blocks[..n].iter().filter(|&&b| writes(func, b, read.buffer)) {
                    add(src, DepKind::Raw);
                }
            }
            for write in &later.writes {
                for &src in blocks[..n].iter().filter(|&&b| writes(func, b, write.buffer)) {
                    add(src, DepKind::Waw);
                }
                for &src in blocks[..n].iter().filter(|&&b| reads(func, b, write.buffer)) {
                    add(src, DepKind::War);
                }
            }
        }
        Scope { blocks, deps }
    }

    /// The earlier blocks that write what `b` reads or writes, each once.
    pub fn producers(&self, b: BlockId) -> Vec<BlockId> {
        let mut found = Vec::new();
        for d in self.deps.iter().filter(|d| d.dst == b && d.kind != DepKind::War) {
            if !found.contains(&d.src) {
                found.push(d.src);
            }
        }
        found
    }

    /// The later blocks that read or write what `b` writes, each once, in text order.
    pub fn consumers(&self, b: BlockId) -> Vec<BlockId> {
        let mut found = Vec::new();
        for d in self.deps.iter().filter(|d| d.src == b && d.kind != DepKind::War) {
            if !found.contains(&d.dst) {
                found.push(d.dst);
            }
        }
        found
    }

    /// The blocks of the scope that write a buffer, in text order.
    pub fn writers(&self, func: &Func, buffer: BufferId) -> Vec<BlockId> {
        self.blocks.iter().copied().filter(|&b| writes(func, b, buffer)).collect()
    }
}

fn reads(func: &Func, b: BlockId, buffer: BufferId) -> bool {
    func.block(b).reads.iter().any(|r| r.buffer == buffer)
}

fn writes(func: &Func, b: BlockId, buffer: BufferId) -> bool {
    func.block(b).writes.iter().any(|r| r.buffer == buffer)
}
