//! Computes small planes of many channels together, one channel in each lane.
//!
//! Windows whose sizes vary, as in adaptive pools, are statements of their own, each with a few elements. What they have in common
//! is the loop around them: planes of as many iterations as a vector has lanes are transposed, computed, and the results transposed
//! back (`transpose`).
//!
//! ```text
//! for c in 64 {
//!   Y[c * 2] = 0.0; for k in 2: Y[c * 2] = Y[c * 2] + X[c * 5 + k]
//!   Y[c * 2 + 1] = 0.0; for k in 3: Y[c * 2 + 1] = Y[c * 2 + 1] + X[c * 5 + k + 2]
//! }
//! // becomes
//! for b in 4 {
//!   for r in 16: for e in 5: plane[e * 16 + r] = X[(b * 16 + r) * 5 + e]
//!   for r in 16: result[r] = 0.0
//!   for k in 2: for r in 16: result[r] = result[r] + plane[k * 16 + r]
//!   for r in 16: result[r + 16] = 0.0
//!   for k in 3: for r in 16: result[r + 16] = result[r + 16] + plane[(k + 2) * 16 + r]
//!   for r in 16: for e in 2: Y[(b * 16 + r) * 2 + e] = result[e * 16 + r]
//! }
//! ```
//!
//! Each element is the result of the same operations in the same order as before. Where rows are long, vectors along them need
//! no transposes, and products are left to schedules (rule `channel_lanes`).

use super::machine::Machine;
use super::walk::{around, as_first, counted, placement_inside, replace_nests};
use crate::codegen::facts::{fails, loads};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, CmpOp, DType};
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, map_expr, mentions_var, reads_memory};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, VarId,
};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

/// Iterations of a loop along contiguous elements from which on it is worth a vector of its own.
const LONG: i64 = 8;
/// Minimum number of times that each element is read on average, as a fraction: transposing costs more than reading once.
const READS: (i64, i64) = (5, 4);
/// Bytes of the transposed planes of all operands: with what else a block reads, they stay in the first cache.
const MOST_BYTES: i64 = 32 * 1024;
/// Bytes of the elements that are transposed.
const LANE: usize = 4;

/// Rewrites such loops of the kernel. Returns whether there are any.
pub(super) fn planes_in_lanes(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let before = kernel.body;
    kernel.body = replace_nests(kernel, before, Placement::Shared, &mut |kernel, l, placement, out| {
        let planes = Planes::of(kernel, l, machine);
        out.extend(planes.iter().flat_map(|p| p.rewritten(kernel, placement)));
        planes.is_some()
    });
    kernel.body != before
}

/// What the iterations of a loop access of a buffer: each a plane of its own.
struct Plane {
    buffer: BufferId,
    /// Elements of a plane, which follow each other.
    elements: i64,
    is_written: bool,
    /// Whether each element is written, and before it is read.
    is_overwritten: bool,
}

/// Where the planes of a buffer lie side by side: a row holds an element of each.
#[derive(Clone, Copy)]
struct Tile {
    buffer: BufferId,
    /// The first element.
    start: ExprId,
}

type Tiles = HashMap<BufferId, Tile, FxBuild>;

impl Tile {
    /// The index of an element of the plane of a lane.
    fn at(self, arena: &mut Arena, element: ExprId, lanes: i64, lane: ExprId) -> ExprId {
        let row = arena.mul_const(element, lanes);
        let at = arena.add(row, lane);
        arena.add(self.start, at)
    }
}

/// A loop whose iterations compute planes of their own from planes of their own.
struct Planes {
    l: For,
    trips: i64,
    lanes: i64,
    planes: SmallVec<[Plane; 4]>,
}

impl Planes {
    fn of(kernel: &Kernel, l: &For, machine: &Machine) -> Option<Planes> {
        let lanes = machine.vectors.lanes(DType::Float32);
        let trips = kernel.arena.as_int(l.extent).filter(|&n| n >= lanes)?;
        if l.iterations != Iterations::Independent {
            return None;
        }
        let mut search = Search {
            kernel,
            trips: 1,
            reads: 0,
            var: l.var,
            extents: HashMap::default(),
            planes: SmallVec::new(),
            set: Vec::new(),
            kept: HashSet::default(),
            combines: false,
        };
        search.body(l.body, true)?;
        search.note_overwritten();
        let Search { planes, combines, reads, .. } = search;
        let elements: i64 = planes.iter().map(|p| p.elements).sum();
        let is_small = elements.saturating_mul(lanes * LANE as i64) <= MOST_BYTES;
        let read = planes.iter().filter(|p| !p.is_written).map(|p| p.elements).sum::<i64>();
        let pays = reads.saturating_mul(READS.1) >= read.saturating_mul(READS.0);
        (combines && is_small && pays).then_some(Planes { l: *l, trips, lanes, planes })
    }

    /// `placement` is that of the loop.
    fn rewritten(&self, kernel: &mut Kernel, placement: Placement) -> Vec<StmtId> {
        let (l, lanes, n_blocks) = (&self.l, self.lanes, self.trips / self.lanes);
        let inside = placement_inside(l, placement);
        let (_, blocks, b) = counted(kernel, "b", n_blocks);
        let mut tiles = Tiles::default();
        let mut made = Vec::new();
        for plane in &self.planes {
            let dtype = kernel.buffer(plane.buffer).dtype;
            let size = plane.elements * lanes;
            let name = if plane.is_written { "result" } else { "plane" };
            let buffer = kernel.add_scratch(name, dtype, size, inside);
            let tile = Tile { buffer, start: kernel.arena.index(0) };
            tiles.insert(plane.buffer, tile);
            // Results as well, if some elements may be read before they are written, or stay as they are.
            if !plane.is_overwritten {
                made.push(self.copied(kernel, plane, b, tile, false));
            }
        }
        let computed = self.in_lanes(kernel, l.body, &tiles);
        made.extend_from_slice(kernel.stmts.list(computed));
        // While results are in the first cache.
        for plane in self.planes.iter().filter(|p| p.is_written) {
            made.push(self.copied(kernel, plane, b, tiles[&plane.buffer], true));
        }
        let computed = around(kernel, blocks, &made);
        let mut made = vec![as_first(kernel, computed, l)];
        if self.trips % lanes != 0 {
            let (var, rest, c) = counted(kernel, "c", self.trips % lanes);
            let c = kernel.arena.add_const(c, n_blocks * lanes);
            let body = Substitution::of(l.var, c).copy(kernel, l.body);
            made.push(kernel.stmts.push(Stmt::For(For { var, body, ..rest })));
        }
        made
    }

    /// The loops that copy the planes of block `b` of iterations to a tile, or `back` from it.
    fn copied(&self, kernel: &mut Kernel, plane: &Plane, b: ExprId, tile: Tile, back: bool) -> StmtId {
        let (_, rows, r) = counted(kernel, "r", self.lanes);
        let (_, elements, e) = counted(kernel, "e", plane.elements);
        let arena = &mut kernel.arena;
        let first = arena.mul_const(b, self.lanes);
        let row = arena.add(first, r);
        let start = arena.mul_const(row, plane.elements);
        let outside = arena.add(start, e);
        let inside = tile.at(arena, e, self.lanes, r);
        let (to, at, from, source) = if back {
            (plane.buffer, outside, tile.buffer, inside)
        } else {
            (tile.buffer, inside, plane.buffer, outside)
        };
        let element = kernel.load(from, source);
        let store = kernel.store(to, at, element);
        let inner = around(kernel, elements, &[store]);
        around(kernel, rows, &[inner])
    }

    /// The statements of a body with their planes in tiles, in a loop over the lanes where they have no other loop.
    fn in_lanes(&self, kernel: &mut Kernel, old: Body, tiles: &Tiles) -> Body {
        let stmts = kernel.stmts.list(old).to_vec();
        let mut out = Vec::with_capacity(stmts.len());
        // Statements without loops that follow each other.
        let mut run = Vec::new();
        for s in stmts {
            let stmt = kernel.stmts.get(s);
            if !has_loops(kernel, s) {
                run.push(s);
                continue;
            }
            self.flush(kernel, &mut run, tiles, &mut out);
            let new = match stmt {
                Stmt::For(l) => Stmt::For(For { body: self.in_lanes(kernel, l.body, tiles), ..l }),
                Stmt::If { condition, then, otherwise } => {
                    let then = self.in_lanes(kernel, then, tiles);
                    Stmt::If { condition, then, otherwise: self.in_lanes(kernel, otherwise, tiles) }
                }
                other => other,
            };
            out.push(kernel.stmts.push(new));
        }
        self.flush(kernel, &mut run, tiles, &mut out);
        kernel.stmts.body(&out)
    }

    fn flush(&self, kernel: &mut Kernel, run: &mut Vec<StmtId>, tiles: &Tiles, out: &mut Vec<StmtId>) {
        if run.is_empty() {
            return;
        }
        let (_, l, lane) = counted(kernel, "r", self.lanes);
        let (zero, lanes) = (kernel.arena.index(0), self.lanes);
        let mut inner = Substitution::of(self.l.var, zero);
        let body = kernel.stmts.body(run);
        run.clear();
        let body = kernel.rebuild(body, &mut |kernel, _, _, stmt, out| {
            let mut memo = ExprMap::default();
            let mut at = |arena: &mut Arena, tile: &Tile, index| {
                let index = inner.expr(arena, index);
                tile.at(arena, index, lanes, lane)
            };
            let mut in_tiles = |arena: &mut Arena, e| {
                map_expr(arena, e, &mut memo, &mut |arena, e| {
                    let Expr::Load(buffer, index) = arena.expr(e) else { return None };
                    let (tile, ty) = (tiles.get(&buffer)?, arena.ty(e));
                    let index = at(arena, tile, index);
                    Some(arena.load(tile.buffer, index, ty))
                })
            };
            let arena = &mut kernel.arena;
            let new = match stmt {
                Stmt::Store { buffer, index, value } => {
                    let value = in_tiles(arena, value);
                    match tiles.get(&buffer) {
                        Some(tile) => Stmt::Store { buffer: tile.buffer, index: at(arena, tile, index), value },
                        None => Stmt::Store { buffer, index, value },
                    }
                }
                other => other,
            };
            out.push(kernel.stmts.push(new));
        });
        out.push(kernel.stmts.push(Stmt::For(For { body, ..l })));
    }
}

fn has_loops(kernel: &Kernel, s: StmtId) -> bool {
    match kernel.stmts.get(s) {
        Stmt::For(_) => true,
        Stmt::If { then, otherwise, .. } => {
            [then, otherwise].into_iter().any(|b| kernel.stmts.list(b).iter().any(|&s| has_loops(kernel, s)))
        }
        _ => false,
    }
}

/// The planes that the statements of a loop access.
struct Search<'a> {
    kernel: &'a Kernel,
    /// The variable of the loop.
    var: VarId,
    /// Iterations of the loops inside.
    extents: HashMap<VarId, i64, FxBuild>,
    /// Iterations of the loops around the current statement.
    trips: i64,
    /// Elements that are read in an iteration of the loop.
    reads: i64,
    planes: SmallVec<[Plane; 4]>,
    /// The elements that are set before they are read.
    set: Vec<(BufferId, Affine)>,
    /// Buffers with elements that may be read before.
    kept: HashSet<BufferId, FxBuild>,
    /// Whether a statement combines an element with others.
    combines: bool,
}

impl Search<'_> {
    /// `None` if the statements are not to be computed in lanes. `certain`: whether they are executed in each iteration.
    fn body(&mut self, body: Body, certain: bool) -> Option<()> {
        let stmts = self.kernel.stmts.list(body);
        for (i, &s) in stmts.iter().enumerate() {
            match self.kernel.stmts.get(s) {
                Stmt::For(l) => {
                    let extent = self.kernel.arena.as_int(l.extent).filter(|&n| n > 0)?;
                    if l.kind == LoopKind::Parallel {
                        return None;
                    }
                    self.extents.insert(l.var, extent);
                    let outside = self.trips;
                    self.trips = self.trips.saturating_mul(extent);
                    self.body(l.body, certain)?;
                    self.trips = outside;
                }
                Stmt::If { condition, then, otherwise } => {
                    let arena = &self.kernel.arena;
                    if mentions_var(arena, condition, &mut |v| v == self.var) || reads_memory(arena, condition) {
                        return None;
                    }
                    self.body(then, false)?;
                    self.body(otherwise, false)?;
                }
                Stmt::Store { buffer, index, value } => {
                    self.value(value)?;
                    self.access(buffer, index, true)?;
                    let combines = loads(&self.kernel.arena, value, buffer);
                    self.combines |= combines;
                    let at = Affine::of(&self.kernel.arena, index);
                    let before = i.checked_sub(1).map(|before| stmts[before]);
                    if combines && !before.is_some_and(|before| self.starts(before, buffer, &at, value)) {
                        self.kept.insert(buffer);
                    }
                    if certain {
                        self.set.push((buffer, at));
                    }
                    self.note_reads(buffer, value);
                }
                Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => return None,
            }
        }
        Some(())
    }

    /// Whether a statement sets an element before the first iteration that combines it, in `value`, with others.
    fn starts(&self, before: StmtId, buffer: BufferId, at: &Affine, value: ExprId) -> bool {
        let (stmts, arena) = (&self.kernel.stmts, &self.kernel.arena);
        let Stmt::If { condition, then, .. } = stmts.get(before) else { return false };
        let &[only] = stmts.list(then) else { return false };
        let Stmt::Store { buffer: to, index, value: start } = stmts.get(only) else { return false };
        let mut same = to == buffer && Affine::of(arena, index) == *at && !loads(arena, start, buffer);
        for_each_expr(arena, value, &mut |e| {
            if let Expr::Load(b, i) = arena.expr(e) {
                same &= b != buffer || Affine::of(arena, i) == *at;
            }
        });
        same && self.is_first(condition, at)
    }

    /// Whether a condition holds in the first iteration of the loops that do not change an index.
    fn is_first(&self, condition: ExprId, at: &Affine) -> bool {
        let arena = &self.kernel.arena;
        match arena.expr(condition) {
            Expr::Binary(BinOp::And, a, b) => self.is_first(a, at) && self.is_first(b, at),
            Expr::Compare(CmpOp::Eq, a, b) => {
                let var = arena.as_var(a).filter(|_| arena.as_int(b) == Some(0));
                var.is_some_and(|v| self.extents.contains_key(&v) && at.coefficient_of(arena, v) == 0)
            }
            _ => false,
        }
    }

    /// Notes the elements of buffers other than `own` that an expression reads.
    fn note_reads(&mut self, own: BufferId, e: ExprId) {
        let Search { kernel, kept, reads, trips, .. } = self;
        for_each_expr(&kernel.arena, e, &mut |e| match kernel.arena.expr(e) {
            Expr::Load(buffer, _) if buffer != own => {
                kept.insert(buffer);
                *reads = reads.saturating_add(*trips);
            }
            _ => {}
        });
    }

    /// Notes which planes need not be read before.
    fn note_overwritten(&mut self) {
        for plane in self.planes.iter_mut().filter(|p| p.is_written && !self.kept.contains(&p.buffer)) {
            let mut is_set = vec![false; plane.elements as usize];
            for (_, at) in self.set.iter().filter(|(buffer, _)| *buffer == plane.buffer) {
                let mut elements = vec![at.constant];
                for &(atom, coefficient) in &at.terms {
                    let extent = self.kernel.arena.as_var(atom).and_then(|v| self.extents.get(&v));
                    // The variable of the loop itself counts planes.
                    if let Some(&extent) = extent {
                        let steps = |first: &i64| (0..extent).map(|k| first + k * coefficient).collect::<Vec<_>>();
                        elements = elements.iter().flat_map(steps).collect();
                    }
                }
                elements.iter().for_each(|&e| is_set[e as usize] = true);
            }
            plane.is_overwritten = is_set.into_iter().all(|set| set);
        }
    }

    fn value(&mut self, e: ExprId) -> Option<()> {
        let arena = &self.kernel.arena;
        match arena.expr(e) {
            Expr::Load(buffer, index) => return self.access(buffer, index, false),
            Expr::Var(v) if v == self.var => return None,
            Expr::Binary(BinOp::Mul, ..) if arena.dtype(e).is_float() => return None,
            _ if fails(arena, e) || arena.lanes(e) != 1 => return None,
            _ => {}
        }
        let mut parts = SmallVec::<[ExprId; 4]>::new();
        arena.for_each_child(e, |c| parts.push(c));
        parts.into_iter().try_for_each(|c| self.value(c))
    }

    fn access(&mut self, buffer: BufferId, index: ExprId, is_written: bool) -> Option<()> {
        let arena = &self.kernel.arena;
        let at = Affine::of(arena, index);
        let elements = at.stride(arena, self.var)?;
        let (mut least, mut most) = (at.constant, at.constant);
        for &(atom, coefficient) in &at.terms {
            let v = arena.as_var(atom)?;
            if v == self.var {
                continue;
            }
            let extent = *self.extents.get(&v)?;
            if coefficient == 1 && extent >= LONG {
                return None;
            }
            let last = coefficient.checked_mul(extent - 1)?;
            least = least.checked_add(last.min(0))?;
            most = most.checked_add(last.max(0))?;
        }
        if least < 0 || most >= elements || self.kernel.buffer(buffer).dtype.bytes() != LANE {
            return None;
        }
        match self.planes.iter_mut().find(|p| p.buffer == buffer) {
            Some(plane) if plane.elements == elements => plane.is_written |= is_written,
            Some(_) => return None,
            None => self.planes.push(Plane { buffer, elements, is_written, is_overwritten: false }),
        }
        Some(())
    }
}
