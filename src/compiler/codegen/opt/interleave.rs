//! Makes one contiguous store of several whose elements lie between each other.
//!
//! ```text
//! for i in 16 independent:
//!     B[i * 2] = A[i] + 1.0
//!     B[i * 2 + 1] = A[i] * 2.0
//! // becomes, with vectors of 16 lanes
//! a = A[0; 16] + splat(1.0, 16)
//! b = A[0; 16] * splat(2.0, 16)
//! B[0; 32] = pack(a[0], b[0], a[1], b[1], …)
//! ```
//!
//! The wide back end packs by shuffles, where strided elements are stored one by one. Such loops interleave channels into pixels, or compute
//! the parts of tiles of an image. Elements of 8 and 16 bits that are only copied keep their width, so that a vector has as many of them as
//! a register.
//!
//! Where the stores of one more iteration, except some at its end, follow the loop, they become part of the last vector: the edge of an image cuts
//! the last tile of a row.

use super::machine::Machine;
use super::walk::replace_loops_and_next;
use super::widen::{Widener, is_byte, is_masked, is_short};
use crate::loopir::rewrite::{Substitution, for_each_expr};
use crate::loopir::{
    Affine, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Range, Ranges, Stmt, StmtId, VarId,
};
use smallvec::SmallVec;

/// Maximum number of stores that become one: as many registers are packed into as many.
const MOST: usize = 4;
/// Minimum number of iterations.
const FEWEST: i64 = 3;
/// How far apart elements may be that a vector of iterations reads: others would be loaded one by one.
const APART: std::ops::RangeInclusive<i64> = -(MOST as i64)..=MOST as i64;

/// Interleaves the stores of all loops that allow it.
pub(super) fn interleave(kernel: &mut Kernel, machine: &Machine) {
    if machine.vectors.has_regions() {
        let mut pass = Pass { ranges: Ranges::default(), machine };
        kernel.body = pass.body(kernel, kernel.body);
    }
}

struct Pass<'a> {
    /// The values of the variables of loops around.
    ranges: Ranges,
    machine: &'a Machine,
}

impl Pass<'_> {
    fn body(&mut self, kernel: &mut Kernel, old: Body) -> Body {
        replace_loops_and_next(kernel, old, &mut |kernel, s, l, (body, next), out| {
            if let Some(stores) = Stores::of(kernel, &l, self.machine) {
                let begun = self.begun_iteration(kernel, &stores, &l, (body, next));
                if let Some(made) = stores.interleaved(kernel, &l, begun, self.machine) {
                    out.extend(made);
                    return begun;
                }
            }
            self.ranges.set_loop(&kernel.arena, l.var, l.extent);
            let inner = self.body(kernel, l.body);
            out.push(if inner == l.body { s } else { kernel.stmts.push(Stmt::For(For { body: inner, ..l })) });
            0
        })
    }

    /// How many of the statements behind a loop are the first stores of one more iteration, whose others could be computed as well: all that
    /// they read exists.
    fn begun_iteration(&mut self, kernel: &mut Kernel, stores: &Stores, l: &For, (body, next): (Body, usize)) -> usize {
        let Some(n) = kernel.arena.as_int(l.extent) else { return 0 };
        let at = kernel.arena.index(n);
        let mut iteration = Substitution::of(l.var, at);
        let first = iteration.expr(&mut kernel.arena, stores.first);
        let mut begun = 0;
        loop {
            let store = kernel.stmts.list(body).get(next + begun).map(|&s| kernel.stmts.get(s));
            let Some(Stmt::Store { buffer, index, value }) = store.filter(|_| begun < stores.values.len()) else {
                break;
            };
            let place = kernel.arena.add_const(first, begun as i64);
            let expected = (stores.buffer, place, iteration.expr(&mut kernel.arena, stores.values[begun]));
            if (buffer, index, value) != expected {
                if buffer == stores.buffer {
                    return 0;
                }
                break;
            }
            begun += 1;
        }
        let is_part = (1..stores.values.len()).contains(&begun);
        let exist = is_part
            && stores.values[begun..].iter().all(|&value| {
                let value = iteration.expr(&mut kernel.arena, value);
                self.is_readable(kernel, value)
            });
        if exist { begun } else { 0 }
    }

    /// Whether a value reads only elements of their buffers.
    fn is_readable(&mut self, kernel: &Kernel, value: ExprId) -> bool {
        let mut loads = Vec::new();
        for_each_expr(&kernel.arena, value, &mut |e| {
            if let Expr::Load(buffer, index) = kernel.arena.expr(e) {
                loads.push((kernel.buffer(buffer).len, index));
            }
        });
        loads.iter().all(|&(len, index)| self.ranges.of(&kernel.arena, index).within(Range { lo: 0, hi: len - 1 }))
    }
}

/// Stores to consecutive elements in each iteration, by as many elements further in the next one.
struct Stores {
    buffer: BufferId,
    /// The index of the first one.
    first: ExprId,
    /// The values in the order of their elements.
    values: SmallVec<[ExprId; MOST]>,
}

impl Stores {
    fn of(kernel: &mut Kernel, l: &For, machine: &Machine) -> Option<Stores> {
        let is_free = l.iterations == Iterations::Independent && matches!(l.kind, LoopKind::Serial | LoopKind::Vector);
        if !is_free || kernel.arena.as_int(l.extent).is_none_or(|n| n < FEWEST) {
            return None;
        }
        let all = of_iteration(kernel, l)?;
        let arena = &kernel.arena;
        let mut stores: SmallVec<[(Affine, ExprId, ExprId); MOST]> = SmallVec::new();
        let mut target = None;
        for (buffer, index, value) in all {
            let ty = arena.ty(value);
            if *target.get_or_insert((buffer, ty)) != (buffer, ty) || ty.lanes != 1 {
                return None;
            }
            stores.push((Affine::of(arena, index), index, value));
        }
        let (buffer, ty) = target?;
        let is_narrow = is_short(ty.dtype) || is_byte(ty.dtype);
        let has_masks = is_masked(ty.dtype) || is_narrow && machine.vectors.has_narrow_masks();
        if !has_masks || kernel.buffer(buffer).dtype != ty.dtype {
            return None;
        }
        stores.sort_by_key(|(affine, ..)| affine.constant);
        let (base, first, _) = &stores[0];
        for (i, (affine, _, value)) in stores.iter().enumerate() {
            let between = affine.minus(base);
            if !between.terms.is_empty() || between.constant != i as i64 || !is_plain(kernel, buffer, *value, l.var) {
                return None;
            }
        }
        (base.stride(arena, l.var) == Some(stores.len() as i64)).then(|| Stores {
            buffer,
            first: *first,
            values: stores.iter().map(|s| s.2).collect(),
        })
    }

    /// The stores of all iterations as vectors, and those of one more of which the first `begun` stores are made.
    fn interleaved(&self, kernel: &mut Kernel, l: &For, begun: usize, machine: &Machine) -> Option<Vec<StmtId>> {
        let dtype = kernel.arena.dtype(self.values[0]);
        let are_copied = self.values.iter().all(|&value| matches!(kernel.arena.expr(value), Expr::Load(..)));
        let lanes = match are_copied {
            true => (machine.vectors.bytes / dtype.bytes()) as i64,
            false => machine.vectors.lanes(dtype),
        };
        let n = kernel.arena.as_int(l.extent)? + i64::from(begun > 0);
        let missing = if begun > 0 { self.values.len() - begun } else { 0 };
        let mut made = Vec::new();
        // A vector with missing elements is no part of the loop.
        let whole = if missing > 0 { (n - 1) / lanes } else { n / lanes };
        if whole > 1 {
            let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
            let at = kernel.arena.mul_const(e, lanes);
            let stmts = self.vectors(kernel, l, at, lanes as u16, 0, machine)?;
            let (extent, body) = (kernel.arena.index(whole), kernel.stmts.body(&stmts));
            made.push(kernel.stmts.push(Stmt::For(For { var, extent, body, kind: LoopKind::Serial, ..*l })));
        } else if whole == 1 {
            let at = kernel.arena.index(0);
            made.extend(self.vectors(kernel, l, at, lanes as u16, 0, machine)?);
        }
        let left = n - whole * lanes;
        if left > 0 {
            let at = kernel.arena.index(n - left);
            made.extend(self.vectors(kernel, l, at, left as u16, missing, machine)?);
        }
        Some(made)
    }

    /// The stores of some iterations from `base` on, without the `missing` ones at the end.
    fn vectors(
        &self,
        kernel: &mut Kernel,
        l: &For,
        base: ExprId,
        lanes: u16,
        missing: usize,
        machine: &Machine,
    ) -> Option<SmallVec<[StmtId; 8]>> {
        let mut out = SmallVec::new();
        if lanes == 1 {
            // One iteration has no lanes to take by turns.
            let mut at = Substitution::of(l.var, base);
            let first = at.expr(&mut kernel.arena, self.first);
            for (i, &value) in self.values.iter().enumerate().take(self.values.len() - missing) {
                let value = at.expr(&mut kernel.arena, value);
                let index = kernel.arena.add_const(first, i as i64);
                out.push(kernel.stmts.push(Stmt::Store { buffer: self.buffer, index, value }));
            }
            return Some(out);
        }
        let mut widener = Widener::new(l.var, base, lanes).with_masks_of(&machine.vectors);
        let mut vectors: SmallVec<[ExprId; MOST]> = SmallVec::new();
        for &value in &self.values {
            let value = widener.value(&mut kernel.arena, value)?;
            // Loaded narrow elements need no name: it would be one of values that are computed with, which may take wider lanes.
            if matches!(kernel.arena.expr(value), Expr::Load(..)) && !is_masked(kernel.arena.dtype(value)) {
                vectors.push(value);
                continue;
            }
            let (name, ty) = (kernel.buffer(self.buffer).name, kernel.arena.ty(value));
            let var = kernel.arena.new_var(name, ty);
            out.push(kernel.stmts.push(Stmt::Let { var, value }));
            vectors.push(kernel.arena.var_expr(var));
        }
        let arena = &mut kernel.arena;
        let mut items = Vec::with_capacity(vectors.len() * usize::from(lanes));
        for lane in 0..lanes {
            items.extend(vectors.iter().map(|&v| arena.extract(v, lane)));
        }
        items.truncate(items.len() - missing);
        let value = arena.pack(&items);
        let index = Substitution::of(l.var, base).expr(arena, self.first);
        out.push(kernel.stmts.push(Stmt::Store { buffer: self.buffer, index, value }));
        Some(out)
    }
}

/// The stores of an iteration with their buffers, indices and values: those of the body, or of all iterations of a short loop in it.
fn of_iteration(kernel: &mut Kernel, l: &For) -> Option<SmallVec<[(BufferId, ExprId, ExprId); MOST]>> {
    let list = kernel.stmts.list(l.body);
    if let &[s] = list
        && let Stmt::For(inner) = kernel.stmts.get(s)
    {
        let n = kernel.arena.as_int(inner.extent).filter(|&n| n <= MOST as i64)?;
        let is_free =
            inner.iterations == Iterations::Independent && matches!(inner.kind, LoopKind::Serial | LoopKind::Vector);
        let &[s] = kernel.stmts.list(inner.body) else { return None };
        let Stmt::Store { buffer, index, value } = kernel.stmts.get(s) else { return None };
        let mut store = |i| {
            let at = kernel.arena.index(i);
            let mut at = Substitution::of(inner.var, at);
            (buffer, at.expr(&mut kernel.arena, index), at.expr(&mut kernel.arena, value))
        };
        return (is_free && n >= 2).then(|| (0..n).map(&mut store).collect());
    }
    if !(2..=MOST).contains(&list.len()) {
        return None;
    }
    let store = |&s: &StmtId| match kernel.stmts.get(s) {
        Stmt::Store { buffer, index, value } => Some((buffer, index, value)),
        _ => None,
    };
    list.iter().map(store).collect()
}

/// Whether a value reads neither registers nor the buffer, and elements that are near each other along the loop.
fn is_plain(kernel: &Kernel, buffer: BufferId, value: ExprId, var: VarId) -> bool {
    let (arena, mut fine) = (&kernel.arena, true);
    for_each_expr(arena, value, &mut |e| match arena.expr(e) {
        Expr::Load(b, index) => {
            let step = Affine::of(arena, index).stride(arena, var);
            fine &= b != buffer && step.is_some_and(|step| APART.contains(&step));
        }
        Expr::Local(_) => fine = false,
        _ => {}
    });
    fine
}
