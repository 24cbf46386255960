//! Which blocks of a scope depend on which (TVM's `SBlockScope`, `src/s_tir/schedule/state.cc` and `sblock_scope.cc`).
//!
//! The blocks directly in a scope are taken in text order; two of them depend on each other where one writes a buffer
//! that the other reads or writes. A [`Scope`] is an index of who reads and writes which buffer, made when it is asked
//! for, in about linear time, so that it never goes stale. Dependences are listed for one block at a time: where all
//! blocks write one buffer, all pairs depend on each other.

use crate::ir::{Block, BlockId, BufferId, BufferRegion, Func};
use std::collections::HashSet;

/// Why the later of two blocks must stay behind the earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DepKind {
    /// It reads what the earlier one wrote.
    Raw,
    /// It overwrites what the earlier one wrote.
    Waw,
    /// It overwrites what the earlier one read.
    War,
}

/// A dependence between two blocks of one scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dependence {
    /// The earlier block.
    pub src: BlockId,
    /// The later block.
    pub dst: BlockId,
    /// Why.
    pub kind: DepKind,
}

/// The blocks directly in a scope, with an index of the buffers that they access.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The blocks, in text order.
    pub blocks: Vec<BlockId>,
    /// Buffers with the positions of the blocks that read them, sorted.
    readers: Vec<(BufferId, usize)>,
    /// Buffers with the positions of the blocks that write them, sorted.
    writers: Vec<(BufferId, usize)>,
}

impl Scope {
    /// The scope of a block: the blocks inside it that are in no other.
    pub fn of(func: &Func, scope: BlockId) -> Scope {
        let blocks = func.child_blocks(scope.stmt());
        let index = |regions: fn(&Block) -> &[BufferRegion]| {
            let all = blocks.iter().enumerate();
            let mut pairs: Vec<(BufferId, usize)> =
                all.flat_map(|(n, &b)| regions(func.block(b)).iter().map(move |r| (r.buffer, n))).collect();
            pairs.sort_unstable();
            pairs.dedup();
            pairs
        };
        let (readers, writers) = (index(|b| &b.reads), index(|b| &b.writes));
        Scope { blocks, readers, writers }
    }

    /// Why `dst` must stay behind earlier blocks: by its reads, then its writes.
    pub fn dependences_on_earlier(&self, func: &Func, dst: BlockId) -> Vec<Dependence> {
        let Some(at) = self.position(dst) else { return Vec::new() };
        let node = func.block(dst);
        let mut found = Vec::new();
        let mut add = |pairs: &[(BufferId, usize)], kind: DepKind| {
            let earlier = pairs.iter().take_while(|p| p.1 < at);
            found.extend(earlier.map(|&(_, n)| Dependence { src: self.blocks[n], dst, kind }));
        };
        for buffer in distinct(&node.reads) {
            add(of_buffer(&self.writers, buffer), DepKind::Raw);
        }
        for buffer in distinct(&node.writes) {
            add(of_buffer(&self.writers, buffer), DepKind::Waw);
            add(of_buffer(&self.readers, buffer), DepKind::War);
        }
        unique(found)
    }

    /// Why later blocks must stay behind `src`: by later block in text order.
    pub fn dependences_of_later(&self, func: &Func, src: BlockId) -> Vec<Dependence> {
        let Some(at) = self.position(src) else { return Vec::new() };
        let node = func.block(src);
        let mut found: Vec<(usize, DepKind)> = Vec::new();
        let mut add = |pairs: &[(BufferId, usize)], kind: DepKind| {
            let first_later = pairs.partition_point(|p| p.1 <= at);
            found.extend(pairs[first_later..].iter().map(|&(_, n)| (n, kind)));
        };
        for buffer in distinct(&node.writes) {
            add(of_buffer(&self.readers, buffer), DepKind::Raw);
            add(of_buffer(&self.writers, buffer), DepKind::Waw);
        }
        for buffer in distinct(&node.reads) {
            add(of_buffer(&self.writers, buffer), DepKind::War);
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(n, kind)| Dependence { src, dst: self.blocks[n], kind }).collect()
    }

    /// The earlier blocks that write what `b` reads or writes, each once.
    pub fn producers(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_on_earlier(func, b);
        unique(deps.iter().filter(|d| d.kind != DepKind::War).map(|d| d.src).collect())
    }

    /// The earlier blocks that write what `b` reads, each once.
    pub fn earlier_writers_of_reads(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_on_earlier(func, b);
        unique(deps.iter().filter(|d| d.kind == DepKind::Raw).map(|d| d.src).collect())
    }

    /// The later blocks that read or write what `b` writes, each once, in text order.
    pub fn consumers(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_of_later(func, b);
        unique(deps.iter().filter(|d| d.kind != DepKind::War).map(|d| d.dst).collect())
    }

    /// The later blocks that read what `b` writes, each once, in text order.
    pub fn later_readers(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_of_later(func, b);
        unique(deps.iter().filter(|d| d.kind == DepKind::Raw).map(|d| d.dst).collect())
    }

    /// Does `b` overwrite what an earlier block reads?
    pub fn overwrites_earlier_reads(&self, func: &Func, b: BlockId) -> bool {
        let Some(at) = self.position(b) else { return false };
        let is_read_before = |buffer| of_buffer(&self.readers, buffer).first().is_some_and(|p| p.1 < at);
        func.block(b).writes.iter().any(|w| is_read_before(w.buffer))
    }

    /// The blocks of the scope that write a buffer, in text order.
    pub fn writers(&self, buffer: BufferId) -> Vec<BlockId> {
        of_buffer(&self.writers, buffer).iter().map(|&(_, n)| self.blocks[n]).collect()
    }

    fn position(&self, b: BlockId) -> Option<usize> {
        self.blocks.iter().position(|&other| other == b)
    }
}

/// The part of an index that is about one buffer.
fn of_buffer(index: &[(BufferId, usize)], buffer: BufferId) -> &[(BufferId, usize)] {
    let start = index.partition_point(|p| p.0 < buffer);
    let len = index[start..].partition_point(|p| p.0 == buffer);
    &index[start..start + len]
}

/// The buffers of the regions, each once, in their order.
fn distinct(regions: &[BufferRegion]) -> Vec<BufferId> {
    unique(regions.iter().map(|r| r.buffer).collect())
}

/// The items without repetitions, in the order in which they first occur.
fn unique<T: Copy + Eq + std::hash::Hash>(mut items: Vec<T>) -> Vec<T> {
    /// Up to so many items, comparing all pairs is faster than a table.
    const FEW: usize = 16;
    if items.len() > FEW {
        let mut seen = HashSet::with_capacity(items.len());
        items.retain(|&item| seen.insert(item));
        return items;
    }
    let mut n = 0;
    for i in 0..items.len() {
        let item = items[i];
        if !items[..n].contains(&item) {
            items[n] = item;
            n += 1;
        }
    }
    items.truncate(n);
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{ParseOptions, parse};

    /// The dependences as they are defined: all pairs of blocks, looked at one by one.
    fn by_definition(func: &Func, blocks: &[BlockId]) -> Vec<Dependence> {
        let reads = |b: BlockId, buffer| func.block(b).reads.iter().any(|r| r.buffer == buffer);
        let writes = |b: BlockId, buffer| func.block(b).writes.iter().any(|r| r.buffer == buffer);
        let mut all = Vec::new();
        for (n, &dst) in blocks.iter().enumerate() {
            for &src in &blocks[..n] {
                let later = func.block(dst);
                let mut add = |kind| all.push(Dependence { src, dst, kind });
                if later.reads.iter().any(|r| writes(src, r.buffer)) {
                    add(DepKind::Raw);
                }
                if later.writes.iter().any(|w| writes(src, w.buffer)) {
                    add(DepKind::Waw);
                }
                if later.writes.iter().any(|w| reads(src, w.buffer)) {
                    add(DepKind::War);
                }
            }
        }
        all
    }

    #[test]
    fn the_index_finds_what_all_pairs_are() {
        let mut text = String::from(
            "@T.prim_func\ndef main(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):\n    X = T.alloc_buffer((8, 8))\n",
        );
        for n in 0..30 {
            // Each of the three is read and written by many, in all orders.
            let (to, from, other) = (["A", "B", "X"][n % 3], ["B", "X", "A"][n / 2 % 3], ["X", "A", "B"][n / 5 % 3]);
            text += &format!(
                "    for i in range(8):\n        with T.block(\"b{n}\"):\n            vi = T.axis.spatial(8, i)\n            {to}[vi, 0] = {from}[vi, 1] + {other}[vi, 2]\n"
            );
        }
        let func =
            parse(&text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module.funcs.remove(0);
        let scope = Scope::of(&func, func.root);
        let all = by_definition(&func, &scope.blocks);
        assert!(all.len() > 500, "{}", all.len());
        for &b in &scope.blocks {
            let sorted = |mut deps: Vec<Dependence>| {
                deps.sort_by_key(|d| (d.src, d.dst, d.kind));
                deps
            };
            let of = |pick: fn(&Dependence) -> BlockId| sorted(all.iter().copied().filter(|d| pick(d) == b).collect());
            assert_eq!(sorted(scope.dependences_on_earlier(&func, b)), of(|d| d.dst));
            assert_eq!(sorted(scope.dependences_of_later(&func, b)), of(|d| d.src));
            assert_eq!(scope.overwrites_earlier_reads(&func, b), of(|d| d.dst).iter().any(|d| d.kind == DepKind::War));
        }
    }
}
