//! Transposes tiles in registers, if a copy reads contiguously along one loop and writes contiguously along the other.
//!
//! ```text
//! for j in 16 independent: for i in 16 independent: B[i * 64 + j] = A[j * 64 + i] * 2.0
//! // becomes, with vectors of 16 lanes
//! B[0] = pack(A[0; 16][0], A[64; 16][0], …) * splat(2.0, 16)
//! B[64] = pack(A[0; 16][1], A[64; 16][1], …) * splat(2.0, 16)
//! …
//! ```
//!
//! If `n` vectors of `n` lanes are packed from the same lane of `n` loaded vectors each, they are the rows of a
//! transposed square: the wide back end makes all rows together by shuffles, where lane-by-lane code takes a load per
//! element. Bytes and half-precision floats take a lane of 32 bits each where they are computed with. Elements that are only
//! copied have tiles that need not be squares ([`super::transpose_copies`]). The pass handles loops whose elements fit into
//! near caches; tiling larger ones is left to schedules.
//!
//! The last tile of a loop whose length is no multiple of the tile's ends where the loop ends, and so overlaps the one
//! before: no element that is read is written, so that writing some elements twice changes nothing.
//!
//! ```text
//! i = 0 … 15, 14 … 29     tiles of 16 in a loop of 30
//! ```

use super::machine::Machine;
use super::transpose_copies::TransposedCopy;
use super::vectorize::largest_power;
use super::walk::replace_loops;
use super::widen::Widener;
use crate::ir::DType;
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, map_expr};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Ranges, Stmt, StmtId, VarId,
};
use smallvec::SmallVec;

/// Maximum number of elements.
pub(super) const MOST: i64 = 1 << 16;
/// Bytes of Cranelift's vectors: squares with this few lanes are not worthwhile.
const NARROW: usize = 16;

/// Turns tiles into transposed squares.
pub(super) fn transpose(kernel: &mut Kernel, machine: &Machine) {
    if machine.vectors.bytes > NARROW {
        kernel.body = body(kernel, kernel.body, &mut Ranges::default(), machine);
    }
}

/// `ranges` has the variables of the loops around.
fn body(kernel: &mut Kernel, old: Body, ranges: &mut Ranges, machine: &Machine) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        if let Some(copy) = TransposedCopy::of(kernel, &l, machine)
            && let Some(tiles) = copy.tiles(kernel, ranges)
        {
            out.extend(tiles);
            return;
        }
        if let Some(tile) = Tile::of(kernel, &l, machine)
            && let Some(made) = tile.squares(kernel)
        {
            out.extend(made);
            return;
        }
        ranges.set_loop(&kernel.arena, l.var, l.extent);
        let inner = body(kernel, l.body, ranges, machine);
        out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
    })
}

/// Two loops around a store.
struct Tile {
    /// The loop along which reads are contiguous.
    read: For,
    /// The loop along which writes are contiguous.
    written: For,
    buffer: BufferId,
    index: ExprId,
    value: ExprId,
    /// The side of a square: lanes of a vector, and rows.
    lanes: i64,
}

impl Tile {
    fn of(kernel: &Kernel, outer: &For, machine: &Machine) -> Option<Tile> {
        let arena = &kernel.arena;
        let &[s] = kernel.stmts.list(outer.body) else { return None };
        let Stmt::For(inner) = kernel.stmts.get(s) else { return None };
        let &[s] = kernel.stmts.list(inner.body) else { return None };
        let Stmt::Store { buffer, index, value } = kernel.stmts.get(s) else { return None };
        let lane = lane_type(kernel.buffer(buffer).dtype)?;
        let trips = |l: &For| {
            let is_free = l.iterations == Iterations::Independent && l.kind != LoopKind::Parallel;
            arena.as_int(l.extent).filter(|&n| is_free && n > 0)
        };
        let (outer_trips, inner_trips) = (trips(outer)?, trips(&inner)?);
        if outer_trips.saturating_mul(inner_trips) > MOST {
            return None;
        }
        let stride = |index, l: &For| stride(arena, index, l.var);
        let (read, written) = match (stride(index, outer)?, stride(index, &inner)?) {
            (_, 1) => (*outer, inner),
            (1, _) => (inner, *outer),
            _ => return None,
        };
        let (mut found, mut fine) = (false, true);
        for_each_expr(arena, value, &mut |e| match arena.expr(e) {
            Expr::Load(b, i) => match (stride(i, &read), stride(i, &written)) {
                (Some(_), Some(0 | 1)) => fine &= b != buffer,
                (Some(1), Some(_)) => {
                    found = true;
                    let other = lane_type(kernel.buffer(b).dtype);
                    fine &= b != buffer && other.is_some_and(|other| other.bytes() == lane.bytes());
                }
                _ => fine = false,
            },
            Expr::Local(_) => fine = false,
            _ => {}
        });
        if !found || !fine {
            return None;
        }
        let is_read = read.var == outer.var;
        let (read_trips, written_trips) = if is_read { (outer_trips, inner_trips) } else { (inner_trips, outer_trips) };
        // The largest squares that divide both loops: their accesses are aligned more often than those of larger ones that
        // overlap. These are for loops without such a divisor.
        let most = machine.vectors.lanes(lane);
        let common = 1 << (read_trips | written_trips).trailing_zeros();
        let sides = [most.min(common), most.min(largest_power(read_trips.min(written_trips)))];
        let lanes = sides.into_iter().find(|&lanes| lanes as usize * lane.bytes() > NARROW)?;
        Some(Tile { read, written, buffer, index, value, lanes })
    }

    /// The tile as rows of vectors, in loops over squares: those that divide the loops, then those that overlap.
    fn squares(&self, kernel: &mut Kernel) -> Option<SmallVec<[StmtId; 4]>> {
        let trips = |l: &For| kernel.arena.as_int(l.extent);
        let (read, written) = (trips(&self.read)?, trips(&self.written)?);
        let mut made = SmallVec::new();
        for (n_read, read_from) in parts(read, self.lanes) {
            for (n_written, written_from) in parts(written, self.lanes) {
                made.push(self.squares_from(kernel, [n_read, n_written], [read_from, written_from])?);
            }
        }
        Some(made)
    }

    /// Loops over as many squares, from an iteration of the loop that reads and one of the loop that writes.
    fn squares_from(&self, kernel: &mut Kernel, n: [i64; 2], from: [i64; 2]) -> Option<StmtId> {
        let Tile { read, written, buffer, lanes, .. } = *self;
        let mut start = |l: For, n: i64, from: i64, lanes: i64| {
            let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
            let (extent, steps) = (kernel.arena.index(n), kernel.arena.mul_const(e, lanes));
            let first = if from == 0 { steps } else { kernel.arena.add_const(steps, from) };
            (For { var, extent, kind: LoopKind::Serial, ..l }, first)
        };
        let (read_loop, read_first) = start(read, n[0], from[0], lanes);
        let (written_loop, written_first) = start(written, n[1], from[1], lanes);
        let value = Widener::new(written.var, written_first, lanes as u16).value(&mut kernel.arena, self.value)?;
        let index = Substitution::of(written.var, written_first).expr(&mut kernel.arena, self.index);
        let mut rows: Vec<StmtId> = Vec::new();
        for row in 0..lanes {
            let value = self.row(&mut kernel.arena, value, read_first, row as u16)?;
            let at = kernel.arena.add_const(read_first, row);
            let mut in_row = Substitution::of(read.var, at);
            let (index, value) = (in_row.expr(&mut kernel.arena, index), in_row.expr(&mut kernel.arena, value));
            rows.push(kernel.stmts.push(Stmt::Store { buffer, index, value }));
        }
        let body = kernel.stmts.body(&rows);
        let body = kernel.stmts.single(Stmt::For(For { body, ..written_loop }));
        Some(kernel.stmts.push(Stmt::For(For { body, ..read_loop })))
    }

    /// Replaces a value packed from strided elements by lane `row` of whole vectors.
    fn row(&self, arena: &mut Arena, value: ExprId, first: ExprId, row: u16) -> Option<ExprId> {
        let mut to_first = Substitution::of(self.read.var, first);
        let mut fine = true;
        let new = map_expr(arena, value, &mut ExprMap::default(), &mut |arena, e| {
            let Expr::Pack(list) = arena.expr(e) else { return None };
            let items: SmallVec<[ExprId; 16]> = arena.list(list).into();
            let mut lanes = SmallVec::<[ExprId; 16]>::new();
            for item in items {
                let Expr::Load(buffer, index) = arena.expr(item) else {
                    fine = false;
                    return None;
                };
                let (index, ty) = (to_first.expr(arena, index), arena.ty(item).with_lanes(self.lanes as u16));
                let vector = arena.load(buffer, index, ty);
                lanes.push(arena.extract(vector, row));
            }
            Some(arena.pack(&lanes))
        });
        fine.then_some(new)
    }
}

/// The number of tiles that follow each other, and where they start: as many as fit into a loop, then one that ends with
/// the loop.
fn parts(trips: i64, lanes: i64) -> impl Iterator<Item = (i64, i64)> {
    let last = (trips % lanes != 0).then_some((1, trips - lanes));
    std::iter::once((trips / lanes, 0)).chain(last)
}

/// The type of a lane in registers, where bytes are integers, and floats of half precision floats, of 32 bits; `None` for types that are not transposed.
pub(super) fn lane_type(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Float32 | DType::Float64 | DType::Int32 => Some(dtype),
        DType::Int8 | DType::UInt8 => Some(DType::Int32),
        DType::Float16 | DType::BFloat16 => Some(DType::Float32),
        _ => None,
    }
}

/// The stride of an access along a variable, if constant.
pub(super) fn stride(arena: &Arena, index: ExprId, var: VarId) -> Option<i64> {
    Affine::of(arena, index).stride(arena, var)
}
