//! Derives the accesses of a block from its body (TVM's `src/s_tir/analysis/sblock_access_region_detector.cc`).
//!
//! Primitives that change accesses derive the regions of the changed blocks again: reads in the order of the body, one
//! region per buffer, relaxed over the loops inside the block. Inner blocks count by their regions. If the block has an
//! init, its own outputs are not reads.

use crate::arith::int_set::{eval_range, eval_set, union};
use crate::arith::{Analyzer, IntSet};
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, Block, BlockId, BufferId, BufferRegion, Builtin, Expr, ExprId, ExprList, Func, MatchBuffer, Stmt, StmtId,
};
use crate::ir::{Stmts, Substitution, VarId};
use smallvec::SmallVec;

/// The accesses of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    /// Regions that the block reads, in order of appearance.
    pub reads: Vec<BufferRegion>,
    /// Regions that the block writes, in order of appearance.
    pub writes: Vec<BufferRegion>,
}

/// The accesses of the block's body (TVM's `GetSBlockReadWriteRegion`), including those of buffers allocated in it.
pub(crate) fn accesses_of(func: &mut Func, b: BlockId) -> Accesses {
    let mut found = accesses_below(func, b, Part::Both);
    if func.block(b).init.is_some() {
        found.reads.retain(|r| found.writes.iter().all(|w| w.buffer != r.buffer));
    }
    found
}

/// The statements of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The statements of its init.
    Init,
    /// The statements of its body.
    Body,
    /// The statements of both.
    Both,
}

/// The loads and stores of a part of the block, including loads of its own outputs.
pub(crate) fn accesses_below(func: &mut Func, b: BlockId, part: Part) -> Accesses {
    let Func { arena, stmts, .. } = func;
    let block = stmts.block(b);
    let mut finder = Finder {
        arena,
        stmts,
        domains: Vec::new(),
        lets: Substitution::default(),
        matches: &block.matches,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    finder.block(block, part);
    let (reads, writes) = (std::mem::take(&mut finder.reads), std::mem::take(&mut finder.writes));
    let mut regions = |found: Vec<Found>| found.into_iter().map(|f| f.region(arena)).collect();
    let writes = regions(writes);
    Accesses { reads: regions(reads), writes }
}

/// The accesses of one buffer.
struct Found {
    buffer: BufferId,
    dims: SmallVec<[IntSet; 4]>,
}

impl Found {
    fn region(&self, arena: &mut Arena) -> BufferRegion {
        let shape: SmallVec<[ExprId; 4]> = arena.list(arena.buffer(self.buffer).shape).iter().copied().collect();
        let mut analyzer = Analyzer::new();
        let ranges: SmallVec<[(ExprId, ExprId); 4]> = self
            .dims
            .iter()
            .zip(shape)
            .map(|(set, extent)| match set.lower() {
                Some(min) if set.as_point().is_some() || set.can_prove_point(arena, &mut analyzer) => {
                    (min, arena.int(1, arena.dtype(min)))
                }
                _ => {
                    let zero = arena.int(0, arena.dtype(extent));
                    set.cover_range(arena, (zero, extent))
                }
            })
            .collect();
        BufferRegion::new(arena, self.buffer, &ranges)
    }
}

struct Finder<'a> {
    arena: &'a mut Arena,
    stmts: &'a Stmts,
    /// The enclosing loops inside the block.
    domains: Vec<(VarId, IntSet)>,
    /// The enclosing `let` statements.
    lets: Substitution,
    matches: &'a [MatchBuffer],
    reads: Vec<Found>,
    writes: Vec<Found>,
}

impl Finder<'_> {
    fn block(&mut self, block: &Block, part: Part) {
        // Indices may load from buffers; loads in the stated regions count too, as in TVM.
        for region in block.reads.iter().chain(&block.writes).chain(block.matches.iter().map(|m| &m.source)) {
            self.list(region.mins);
            self.list(region.extents);
        }
        if part != Part::Body {
            self.body(block.init.as_deref().unwrap_or_default());
        }
        if part != Part::Init {
            self.body(&block.body);
        }
    }

    fn body(&mut self, body: &[StmtId]) {
        for &s in body {
            self.stmt(s);
        }
    }

    fn stmt(&mut self, s: StmtId) {
        match self.stmts.get(s) {
            Stmt::Loop(l) => {
                self.expr(l.min);
                self.expr(l.extent);
                let set = IntSet::from_range(self.arena, l.min, l.extent);
                self.domains.push((l.var, set));
                self.body(&l.body);
                self.domains.pop();
            }
            Stmt::Block(b) => self.inner_block(b),
            Stmt::Store { buffer, indices, value } => {
                let dims = self.sets(*indices);
                self.add_write(*buffer, dims);
                self.expr(*value);
                self.list(*indices);
            }
            Stmt::If { condition, then, otherwise } => {
                self.expr(*condition);
                self.body(then);
                self.body(otherwise);
            }
            Stmt::Let { var, value, body } => {
                let known = self.lets.apply(self.arena, *value);
                self.lets.add_var(*var, known);
                self.expr(*value);
                self.body(body);
            }
            Stmt::Evaluate(value) | Stmt::Return(value) => self.expr(*value),
            Stmt::Alloc { .. } | Stmt::Declare { .. } | Stmt::Break | Stmt::Continue => {}
            Stmt::While { condition, body } => {
                self.expr(*condition);
                self.body(body);
            }
            Stmt::Assert(a) => self.expr(a.condition),
            Stmt::Attr(a) => {
                self.expr(a.value);
                self.body(&a.body);
            }
        }
    }

    fn inner_block(&mut self, b: &Block) {
        let mut bindings = Substitution::of_vars(b.iters.iter().map(|i| (i.var, i.value)));
        for (regions, write) in [(&b.reads, false), (&b.writes, true)] {
            for region in regions {
                let region = bindings.apply_region(self.arena, region);
                let ranges: SmallVec<[(ExprId, ExprId); 4]> = region.ranges(self.arena).collect();
                let dims = ranges
                    .into_iter()
                    .map(|(min, extent)| match self.arena.is_int(extent, 1) {
                        true => self.set(min),
                        false => eval_range(self.arena, min, extent, &self.domains),
                    })
                    .collect();
                if write { self.add_write(region.buffer, dims) } else { self.add_read(region.buffer, dims) }
            }
        }
    }

    /// A pointer to a buffer's data, whose last argument states the access: 1 for reading, 2 for writing. The access
    /// may be anywhere in the buffer.
    fn pointer(&mut self, args: ExprList) {
        let &[_, data, _, _, mask] = self.arena.list(args) else { return };
        let Expr::BufferData(buffer) = self.arena.expr(data) else { return };
        let mask = self.arena.as_int(mask).unwrap_or(3);
        let shape: SmallVec<[ExprId; 4]> = self.arena.list(self.arena.buffer(buffer).shape).iter().copied().collect();
        let whole = |arena: &mut Arena| -> SmallVec<[IntSet; 4]> {
            let range = |&extent: &ExprId| {
                let zero = arena.int(0, arena.dtype(extent));
                IntSet::from_range(arena, zero, extent)
            };
            shape.iter().map(range).collect()
        };
        if mask & 1 != 0 {
            let dims = whole(self.arena);
            self.add_read(buffer, dims);
        }
        if mask & 2 != 0 {
            let dims = whole(self.arena);
            self.add_write(buffer, dims);
        }
    }

    fn list(&mut self, list: ExprList) {
        let items: SmallVec<[ExprId; 4]> = self.arena.list(list).iter().copied().collect();
        for e in items {
            self.expr(e);
        }
    }

    fn expr(&mut self, e: ExprId) {
        if let Expr::Load(buffer, indices) = self.arena.expr(e) {
            let dims = self.sets(indices);
            self.add_read(buffer, dims);
        }
        if let Expr::Builtin(Builtin::AccessPtr, args) = self.arena.expr(e) {
            self.pointer(args);
        }
        let mut children: SmallVec<[ExprId; 4]> = SmallVec::new();
        self.arena.for_each_child(e, |c| children.push(c));
        for c in children {
            self.expr(c);
        }
    }

    fn sets(&mut self, indices: ExprList) -> SmallVec<[IntSet; 4]> {
        let items: SmallVec<[ExprId; 4]> = self.arena.list(indices).iter().copied().collect();
        items.into_iter().map(|i| self.set(i)).collect()
    }

    fn set(&mut self, index: ExprId) -> IntSet {
        let index = if self.lets.is_empty() { index } else { self.lets.apply(self.arena, index) };
        let domains = &self.domains;
        if !uses_var(self.arena, index, &mut |v| domains.iter().any(|d| d.0 == v)) {
            return IntSet::point(index);
        }
        eval_set(self.arena, index, domains)
    }

    fn add_read(&mut self, buffer: BufferId, dims: SmallVec<[IntSet; 4]>) {
        let (buffer, dims) = self.shown(buffer, dims);
        add(self.arena, &mut self.reads, buffer, dims);
    }

    fn add_write(&mut self, buffer: BufferId, dims: SmallVec<[IntSet; 4]>) {
        let (buffer, dims) = self.shown(buffer, dims);
        add(self.arena, &mut self.writes, buffer, dims);
    }

    /// The region of the source that corresponds to a region of a view.
    fn shown(&mut self, buffer: BufferId, dims: SmallVec<[IntSet; 4]>) -> (BufferId, SmallVec<[IntSet; 4]>) {
        let Some(view) = self.matches.iter().find(|m| m.buffer == buffer) else { return (buffer, dims) };
        let mut analyzer = Analyzer::new();
        let shape: SmallVec<[ExprId; 4]> = self.arena.list(self.arena.buffer(buffer).shape).iter().copied().collect();
        let source: SmallVec<[(ExprId, ExprId); 4]> = view.source.ranges(self.arena).collect();
        let hidden = source.len().saturating_sub(dims.len());
        let mut sets: SmallVec<[IntSet; 4]> = source[..hidden].iter().map(|&(min, _)| IntSet::point(min)).collect();
        for ((&(start, _), set), extent) in source[hidden..].iter().zip(&dims).zip(shape) {
            let zero = self.arena.int(0, self.arena.dtype(extent));
            let (min, extent) = set.cover_range(self.arena, (zero, extent));
            let min = self.arena.add(start, min);
            let min = analyzer.simplify(self.arena, min);
            sets.push(eval_range(self.arena, min, extent, &self.domains));
        }
        (view.source.buffer, sets)
    }
}

fn add(arena: &mut Arena, all: &mut Vec<Found>, buffer: BufferId, dims: SmallVec<[IntSet; 4]>) {
    match all.iter_mut().find(|f| f.buffer == buffer) {
        None => all.push(Found { buffer, dims }),
        Some(known) => {
            for (set, new) in known.dims.iter_mut().zip(dims) {
                let is_leaf = |e: ExprId| matches!(arena.expr(e), Expr::Var(_) | Expr::Int(_));
                if *set != new || !set.as_point().is_some_and(is_leaf) {
                    *set = union(arena, &[*set, new]);
                }
            }
        }
    }
}
