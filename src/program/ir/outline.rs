//! The outline of a function: its blocks, their nesting, and the buffers that they access.
//!
//! Schedules often ask for blocks by name and for the neighbours of a block, and change little in between. So the
//! outline is made in one pass over the statements when it is first requested, and kept until they change (see
//! [`Stmts`](super::stmt::Stmts)). Without it, every question would cost time in proportion to the number of blocks.

use super::buffer::{BufferId, BufferRegion};
use super::func::Func;
use super::stmt::{Block, BlockId, StmtId};
use super::symbol::Symbol;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The blocks of a function and their nesting.
#[derive(Debug)]
pub struct Outline {
    root: BlockId,
    blocks: Vec<BlockId>,
    /// The children of each block that contains blocks.
    scopes: HashMap<BlockId, Arc<Siblings>>,
    // Computed on demand, since few uses need them.
    named: OnceLock<HashMap<Symbol, Vec<BlockId>>>,
    views: OnceLock<Vec<(BufferId, StmtId)>>,
}

/// The blocks directly in a scope, with an index of the buffers that they access.
#[derive(Debug, Default)]
pub struct Siblings {
    /// The blocks, in text order.
    pub blocks: Vec<BlockId>,
    readers: Vec<(BufferId, usize)>,
    writers: Vec<(BufferId, usize)>,
}

impl Siblings {
    /// The siblings, given in text order.
    pub fn new(func: &Func, blocks: Vec<BlockId>) -> Siblings {
        let index = |regions: fn(&Block) -> &[BufferRegion]| {
            let all = blocks.iter().enumerate();
            let mut pairs: Vec<(BufferId, usize)> =
                all.flat_map(|(n, &b)| regions(func.block(b)).iter().map(move |r| (r.buffer, n))).collect();
            pairs.sort_unstable();
            pairs.dedup();
            pairs
        };
        let (readers, writers) = (index(|b| &b.reads), index(|b| &b.writes));
        Siblings { blocks, readers, writers }
    }

    /// The positions of the blocks that read a buffer, ascending.
    pub fn readers(&self, buffer: BufferId) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        of_buffer(&self.readers, buffer).iter().map(|p| p.1)
    }

    /// The positions of the blocks that write a buffer, ascending.
    pub fn writers(&self, buffer: BufferId) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        of_buffer(&self.writers, buffer).iter().map(|p| p.1)
    }

    /// The positions of the first and the last block after position `at` that access a buffer.
    pub fn ends_behind(&self, buffer: BufferId, at: usize) -> Option<(usize, usize)> {
        let of = |index| ends_behind(of_buffer(index, buffer), at);
        match (of(&self.readers), of(&self.writers)) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        }
    }
}

/// The first and the last position after `at`.
fn ends_behind(index: &[(BufferId, usize)], at: usize) -> Option<(usize, usize)> {
    let behind = &index[index.partition_point(|p| p.1 <= at)..];
    Some((behind.first()?.1, behind.last()?.1))
}

/// The part of an index that refers to one buffer.
fn of_buffer(index: &[(BufferId, usize)], buffer: BufferId) -> &[(BufferId, usize)] {
    let start = index.partition_point(|p| p.0 < buffer);
    let len = index[start..].partition_point(|p| p.0 == buffer);
    &index[start..start + len]
}

impl Outline {
    /// The outline of a function.
    pub fn new(func: &Func) -> Outline {
        let mut inside: HashMap<BlockId, Vec<BlockId>> = HashMap::new();
        let mut outline = Outline {
            root: func.root,
            blocks: Vec::new(),
            scopes: HashMap::new(),
            named: OnceLock::new(),
            views: OnceLock::new(),
        };
        outline.visit(func, func.root.stmt(), None, &mut inside);
        let scopes = inside.into_iter().map(|(scope, blocks)| (scope, Arc::new(Siblings::new(func, blocks))));
        outline.scopes = scopes.collect();
        outline
    }

    fn visit(&mut self, func: &Func, s: StmtId, scope: Option<BlockId>, inside: &mut HashMap<BlockId, Vec<BlockId>>) {
        let block = func.as_block(s);
        for child in func.scheduled_children(s) {
            self.visit(func, child, block.or(scope), inside);
        }
        if let Some(b) = block {
            self.blocks.push(b);
            if let Some(scope) = scope {
                inside.entry(scope).or_default().push(b);
            }
        }
    }

    /// Whether the outline belongs to a function with this root.
    pub(super) fn is_of(&self, root: BlockId) -> bool {
        self.root == root
    }

    /// All blocks in post-order, without those inside an init.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// The blocks with a name, in post-order.
    pub fn named(&self, func: &Func, name: Symbol) -> &[BlockId] {
        let named = self.named.get_or_init(|| {
            let mut named: HashMap<Symbol, Vec<BlockId>> = HashMap::new();
            self.blocks.iter().for_each(|&b| named.entry(func.block(b).name).or_default().push(b));
            named
        });
        named.get(&name).map_or(&[], Vec::as_slice)
    }

    /// The blocks directly in a block; `None` if there are none, or the block is not part of the function.
    pub fn scope(&self, scope: BlockId) -> Option<&Arc<Siblings>> {
        self.scopes.get(&scope)
    }

    /// Viewed buffers, each with the block of the view, in text order, including blocks inside an init.
    pub fn views(&self, func: &Func) -> &[(BufferId, StmtId)] {
        self.views.get_or_init(|| {
            let views =
                |s: StmtId| func.as_block(s).map(|b| func.block(b).matches.iter().map(move |m| (m.source.buffer, s)));
            func.subtree(func.root.stmt()).into_iter().filter_map(views).flatten().collect()
        })
    }
}
