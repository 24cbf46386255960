//! Dependences between the blocks of a scope (TVM's `SBlockScope`, `src/s_tir/schedule/state.cc` and
//! `sblock_scope.cc`).
//!
//! The blocks directly in a scope are ordered as in the text; two of them depend on each other if one writes a buffer
//! that the other reads or writes. A [`Scope`] is an index of the readers and writers of each buffer, kept with the
//! statements until they change, so that it never becomes stale. Dependences are listed for one block at a time: if all
//! blocks write one buffer, all pairs depend on each other.

use super::super::state::State;
use super::tree;
use crate::ir::outline::Siblings;
use crate::ir::{BlockId, BufferId, BufferRegion, Func, StmtId};
use std::collections::HashSet;
use std::sync::Arc;

/// The reason why the later of two blocks must stay after the earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum DepKind {
    /// The later block reads a buffer that the earlier one wrote.
    Raw,
    /// The later block overwrites a buffer that the earlier one wrote.
    Waw,
    /// The later block overwrites a buffer that the earlier one read.
    War,
}

/// A dependence between two blocks of one scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Dependence {
    /// The earlier block.
    pub src: BlockId,
    /// The later block.
    pub dst: BlockId,
    /// Kind of the dependence.
    pub kind: DepKind,
}

/// The blocks directly in a scope, with an index of the buffers that they access.
#[derive(Clone, Debug)]
pub(crate) struct Scope(Arc<Siblings>);

impl Scope {
    /// The scope of a block: the blocks directly inside it.
    pub(crate) fn of(func: &Func, scope: BlockId) -> Scope {
        let kept = func.outline().scope(scope).cloned();
        Scope(kept.unwrap_or_else(|| Arc::new(Siblings::new(func, func.child_blocks(scope.stmt())))))
    }

    /// The blocks, in text order.
    pub(crate) fn blocks(&self) -> &[BlockId] {
        &self.0.blocks
    }

    /// The dependences of `dst` on earlier blocks, by its reads, then its writes.
    pub(crate) fn dependences_on_earlier(&self, func: &Func, dst: BlockId) -> Vec<Dependence> {
        let Some(at) = self.position(dst) else { return Vec::new() };
        let node = func.block(dst);
        let mut found = Vec::new();
        for buffer in distinct(&node.reads) {
            let earlier = self.0.writers(buffer).take_while(|&n| n < at);
            found.extend(earlier.map(|n| Dependence { src: self.0.blocks[n], dst, kind: DepKind::Raw }));
        }
        for buffer in distinct(&node.writes) {
            let earlier = self.0.writers(buffer).take_while(|&n| n < at);
            found.extend(earlier.map(|n| Dependence { src: self.0.blocks[n], dst, kind: DepKind::Waw }));
            let earlier = self.0.readers(buffer).take_while(|&n| n < at);
            found.extend(earlier.map(|n| Dependence { src: self.0.blocks[n], dst, kind: DepKind::War }));
        }
        unique(found)
    }

    /// The dependences of later blocks on `src`, by later block in text order.
    pub(crate) fn dependences_of_later(&self, func: &Func, src: BlockId) -> Vec<Dependence> {
        let Some(at) = self.position(src) else { return Vec::new() };
        let node = func.block(src);
        let mut found: Vec<(usize, DepKind)> = Vec::new();
        let is_later = |&n: &usize| n > at;
        for buffer in distinct(&node.writes) {
            found.extend(self.0.readers(buffer).rev().take_while(is_later).map(|n| (n, DepKind::Raw)));
            found.extend(self.0.writers(buffer).rev().take_while(is_later).map(|n| (n, DepKind::Waw)));
        }
        for buffer in distinct(&node.reads) {
            found.extend(self.0.writers(buffer).rev().take_while(is_later).map(|n| (n, DepKind::War)));
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(n, kind)| Dependence { src, dst: self.0.blocks[n], kind }).collect()
    }

    /// The earlier blocks that write a buffer that `b` reads or writes, each once.
    pub(crate) fn producers(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_on_earlier(func, b);
        unique(deps.iter().filter(|d| d.kind != DepKind::War).map(|d| d.src).collect())
    }

    /// The earlier blocks that write a buffer that `b` reads, each once.
    pub(crate) fn earlier_writers_of_reads(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let Some(at) = self.position(b) else { return Vec::new() };
        let buffers = distinct(&func.block(b).reads);
        let earlier = buffers.iter().flat_map(|&buffer| self.0.writers(buffer).take_while(|&n| n < at));
        unique(earlier.map(|n| self.0.blocks[n]).collect())
    }

    /// The later blocks that read or write a buffer that `b` writes, each once, in text order.
    pub(crate) fn consumers(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_of_later(func, b);
        unique(deps.iter().filter(|d| d.kind != DepKind::War).map(|d| d.dst).collect())
    }

    /// The first and the last of the later blocks that read or write a buffer that `b` writes.
    pub(crate) fn outer_consumers(&self, func: &Func, b: BlockId) -> Option<[BlockId; 2]> {
        let at = self.position(b)?;
        let ends = func.block(b).writes.iter().filter_map(|w| self.0.ends_behind(w.buffer, at));
        let (first, last) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some([self.0.blocks[first], self.0.blocks[last]])
    }

    /// Whether a later block reads or writes a buffer that `b` writes.
    pub(crate) fn has_consumer(&self, func: &Func, b: BlockId) -> bool {
        self.outer_consumers(func, b).is_some()
    }

    /// The later block that reads or writes a buffer that `b` writes, if there is exactly one.
    pub(crate) fn only_consumer(&self, func: &Func, b: BlockId) -> Option<BlockId> {
        let [first, last] = self.outer_consumers(func, b)?;
        (first == last).then_some(first)
    }

    /// The later blocks that read a buffer that `b` writes, each once, in text order.
    pub(crate) fn later_readers(&self, func: &Func, b: BlockId) -> Vec<BlockId> {
        let deps = self.dependences_of_later(func, b);
        unique(deps.iter().filter(|d| d.kind == DepKind::Raw).map(|d| d.dst).collect())
    }

    /// Whether `b` overwrites a buffer that an earlier block reads.
    pub(crate) fn overwrites_earlier_reads(&self, func: &Func, b: BlockId) -> bool {
        let Some(at) = self.position(b) else { return false };
        let is_read_before = |buffer| self.0.readers(buffer).next().is_some_and(|n| n < at);
        func.block(b).writes.iter().any(|w| is_read_before(w.buffer))
    }

    /// The blocks of the scope that write a buffer, in text order.
    pub(crate) fn writers(&self, buffer: BufferId) -> impl Iterator<Item = BlockId> + '_ {
        self.0.writers(buffer).map(|n| self.0.blocks[n])
    }

    fn position(&self, b: BlockId) -> Option<usize> {
        self.0.blocks.iter().position(|&other| other == b)
    }
}

/// Whether a later block in the scope reads or writes a buffer that `b` writes. If few nests use that buffer, only
/// these are visited.
pub(crate) fn has_consumer(state: &State, scope: BlockId, b: BlockId) -> bool {
    let func = &state.func;
    let accesses = |other: BlockId, buffer: BufferId| {
        let other = func.block(other);
        other.reads.iter().chain(&other.writes).any(|r| r.buffer == buffer)
    };
    let is_behind = |other: BlockId| tree::comes_before(func, b.stmt(), other.stmt());
    let mut unknown = false;
    let found = func.block(b).writes.iter().any(|w| match few_users(state, scope, w.buffer) {
        Some(blocks) => blocks.into_iter().any(|o| o != b && accesses(o, w.buffer) && is_behind(o)),
        None => {
            unknown = true;
            false
        }
    });
    found || unknown && Scope::of(func, scope).has_consumer(func, b)
}

/// A list of blocks directly in a scope that contains all users of a buffer, if they are known to be few.
pub(crate) fn few_users(state: &State, scope: BlockId, buffer: BufferId) -> Option<Vec<BlockId>> {
    /// Maximum number of nests for which the shortcut is used.
    const FEW: usize = 8;
    let func = &state.func;
    let nests = state.nests_using(buffer).filter(|nests| scope == func.root && nests.len() <= FEW)?;
    let blocks = |&nest: &StmtId| match func.as_block(nest) {
        Some(b) => vec![b],
        None => func.child_blocks(nest),
    };
    Some(nests.iter().flat_map(blocks).collect())
}

/// The buffers of the regions without repetitions, in order.
fn distinct(regions: &[BufferRegion]) -> Vec<BufferId> {
    unique(regions.iter().map(|r| r.buffer).collect())
}

/// The items without repetitions, in the order in which they first occur.
fn unique<T: Copy + Eq + std::hash::Hash>(mut items: Vec<T>) -> Vec<T> {
    /// Maximum number of items for which comparing all pairs is faster than a table.
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

    /// The dependences by definition: all pairs of blocks, compared one by one.
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
            // Each of the three buffers is read and written by many blocks, in all orders.
            let (to, from, other) = (["A", "B", "X"][n % 3], ["B", "X", "A"][n / 2 % 3], ["X", "A", "B"][n / 5 % 3]);
            text += &format!(
                "    for i in range(8):\n        with T.block(\"b{n}\"):\n            vi = T.axis.spatial(8, i)\n            {to}[vi, 0] = {from}[vi, 1] + {other}[vi, 2]\n"
            );
        }
        let func =
            parse(&text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module.funcs.remove(0);
        let scope = Scope::of(&func, func.root);
        let all = by_definition(&func, scope.blocks());
        assert!(all.len() > 500, "{}", all.len());
        for &b in scope.blocks() {
            let sorted = |mut deps: Vec<Dependence>| {
                deps.sort_by_key(|d| (d.src, d.dst, d.kind));
                deps
            };
            let of = |pick: fn(&Dependence) -> BlockId| sorted(all.iter().copied().filter(|d| pick(d) == b).collect());
            assert_eq!(sorted(scope.dependences_on_earlier(&func, b)), of(|d| d.dst));
            assert_eq!(sorted(scope.dependences_of_later(&func, b)), of(|d| d.src));
            let consumers = scope.consumers(&func, b);
            assert_eq!(scope.has_consumer(&func, b), !consumers.is_empty());
            let outer = consumers.first().zip(consumers.last()).map(|(&first, &last)| [first, last]);
            assert_eq!(scope.outer_consumers(&func, b), outer);
            let only = if consumers.len() == 1 { consumers.first().copied() } else { None };
            assert_eq!(scope.only_consumer(&func, b), only);
            assert_eq!(scope.overwrites_earlier_reads(&func, b), of(|d| d.dst).iter().any(|d| d.kind == DepKind::War));
        }
    }
}
