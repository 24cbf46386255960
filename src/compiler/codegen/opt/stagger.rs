//! Software-pipelines rows: runs the last nest of each row together with the nest that computes the next row.
//!
//! ```text
//! for i in 256 independent:
//!   M[0] = …
//!   for j in 16: B[i * 1024 + j * 64] = exp(A[i * 1024 + j * 64; 64] - splat(M[0], 64)); s = s + …
//!   S[0] = reduce(add, s)
//!   let t = splat(1.0 / S[0], 64)
//!   for j in 16: B[i * 1024 + j * 64] = B[i * 1024 + j * 64; 64] * t
//! // becomes, between the first row without its last nest and the last nest of the last row,
//! for i in 255:
//!   M[0] = …
//!   let t = splat(1.0 / S[0], 64)
//!   for j in 16:
//!     B[(i + 1) * 1024 + j * 64] = exp(A[(i + 1) * 1024 + j * 64; 64] - splat(M[0], 64)); s = s + …
//!     B[i * 1024 + j * 64] = B[i * 1024 + j * 64; 64] * t
//!   S[0] = reduce(add, s)
//! ```
//!
//! A nest of function calls is limited by arithmetic, one that scales the results by loads and stores; in one loop they
//! overlap, and what the last nest needs of its whole row is ready long before.
//!
//! The pass also handles sums of a few rows at a time, as in layer normalisation, where the last nest needs all of them
//! at once: the rows are then summed in one loop.
//!
//! Both nests may be inside loops over the same few rows. The last nest may read only elements of its own row, and
//! scalars that it reads before its innermost loop and that the other nest writes after its own one: those of the next
//! row do not exist yet.

use super::effects::{At, Effects, Place, accesses};
use super::functions::pressure;
use super::fuse;
use super::machine::Machine;
use crate::loopir::rewrite::{Substitution, for_each_expr, for_each_operand};
use crate::loopir::{Affine, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, StmtId, VarId};

/// Minimum number of rows, to amortise the first and the last one.
const LEAST_ROWS: i64 = 4;
/// Maximum number of rows that one loop computes together.
const MOST_ROWS: i64 = 4;
/// Size in bytes up to which two rows, or groups of rows, stay in the nearest cache together.
const NEAR: i64 = 24 << 10;
/// Minimum number of vector registers of the machine, so that there are enough for both nests.
const LEAST_REGISTERS: usize = 32;

/// Pipelines the rows of all suitable loops. Returns whether there were any.
pub(super) fn stagger(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() || machine.vectors.registers < LEAST_REGISTERS {
        return false;
    }
    let old = kernel.body;
    kernel.body = kernel.rebuild(old, &mut |kernel, _, id, stmt, out| {
        let staggered = match stmt {
            Stmt::For(rows) => staggered(kernel, &rows, machine),
            _ => None,
        };
        match staggered {
            Some(stmts) => out.extend(stmts),
            None => out.push(id),
        }
    });
    kernel.body != old
}

/// A nest of a row: a loop, possibly inside a loop over rows.
#[derive(Clone)]
struct Nest {
    /// The loop over rows, if there is one.
    outer: Option<For>,
    before: Vec<StmtId>,
    inner: For,
    behind: Vec<StmtId>,
}

/// An iteration of the outer loop: the statements that compute a row, then those that finish it.
struct Row {
    head: Vec<StmtId>,
    first: Nest,
    last: Nest,
    /// Whether several rows are computed in one loop (unroll-and-jam).
    is_jammed: bool,
}

/// The statements that replace a loop over rows.
fn staggered(kernel: &mut Kernel, rows: &For, machine: &Machine) -> Option<Vec<StmtId>> {
    let n = kernel.arena.as_int(rows.extent)?;
    if rows.kind != LoopKind::Serial || rows.iterations != Iterations::Independent || n < LEAST_ROWS {
        return None;
    }
    let list = kernel.stmts.list(rows.body).to_vec();
    let row = Row::of(kernel, &list)?;
    fuse::at_once(kernel, &row.first.inner, &row.last.inner)?;
    if !row.pays(kernel, rows.var, machine) || !row.may_wait(kernel, rows.var) {
        return None;
    }
    let zero = kernel.arena.index(0);
    let mut out = row.computed(kernel, rows.var, zero, true);
    let (var, i) = kernel.arena.new_index(kernel.arena.var(rows.var).name);
    let next = kernel.arena.add_const(i, 1);
    let mut body = row.computed(kernel, rows.var, next, false);
    let n_parts = row.first.n_parts();
    let first = Row::nest(kernel, &body.split_off(body.len() - n_parts), row.first.outer.is_some())?;
    body.extend(row.beside(kernel, rows.var, i, &first, machine)?);
    let steady = For { var, extent: kernel.arena.index(n - 1), iterations: Iterations::Unknown, ..*rows };
    let body = kernel.stmts.body(&body);
    out.push(kernel.stmts.push(Stmt::For(For { body, ..steady })));
    let end = kernel.arena.index(n - 1);
    out.extend(row.finished(kernel, rows.var, end));
    Some(out)
}

impl Nest {
    /// Number of statements that the nest occupies in the row.
    fn n_parts(&self) -> usize {
        if self.outer.is_some() { 1 } else { self.before.len() + 1 + self.behind.len() }
    }

    /// The nest with its few rows jammed into the innermost loop.
    fn jammed(&self, kernel: &mut Kernel) -> Option<Nest> {
        let outer = self.outer?;
        let n = kernel.arena.as_int(outer.extent).filter(|&n| n <= MOST_ROWS)?;
        if !self.has_rows_apart(kernel, outer.var) {
            return None;
        }
        let (var, counter) = kernel.arena.new_index(kernel.arena.var(self.inner.var).name);
        let body = kernel.stmts.list(self.inner.body).to_vec();
        let (mut before, mut inside, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for r in 0..n {
            let place = kernel.arena.index(r);
            let mut row = Substitution::of(outer.var, place);
            row.set(self.inner.var, counter);
            let all = self.stmts(&body).collect::<Vec<_>>();
            let all = kernel.stmts.body(&all);
            row.own_registers(kernel, all);
            for (stmts, copies) in [(&self.before, &mut before), (&body, &mut inside), (&self.behind, &mut behind)] {
                copies.extend(copied(kernel, stmts, &mut row));
            }
        }
        let inner = For { var, body: kernel.stmts.body(&inside), ..self.inner };
        Some(Nest { outer: None, before, inner, behind })
    }

    /// Whether each row writes elements of its own: scratch that each row overwrites would be shared by all.
    fn has_rows_apart(&self, kernel: &Kernel, row: VarId) -> bool {
        let body = kernel.stmts.list(self.inner.body);
        let outside: Vec<StmtId> = self.stmts(&[]).collect();
        let extent = kernel.arena.as_int(self.inner.extent);
        let mut written = Vec::new();
        let mut named = Vec::new();
        for s in self.stmts(body) {
            match kernel.stmts.get(s) {
                Stmt::Store { buffer, .. } if !written.contains(&buffer) => written.push(buffer),
                Stmt::Let { var, .. } => named.push(var),
                _ => {}
            }
        }
        let is_named = |p: Place| matches!(p, Place::Var(v) if named.contains(&v));
        written.into_iter().all(|buffer| {
            let mut range = Range::default();
            accesses(kernel, &outside, buffer, &mut |at, _| range.note(kernel, row, &at, &[], &is_named));
            let around = [(self.inner.var, extent)];
            accesses(kernel, body, buffer, &mut |at, _| range.note(kernel, row, &at, &around, &is_named));
            match range {
                Range::Between { base, low, high } => base.coefficient_of(&kernel.arena, row).abs() > high - low,
                Range::Empty | Range::Unknown => false,
            }
        })
    }

    /// Its statements inside the loop over rows.
    fn stmts<'a>(&'a self, inner: &'a [StmtId]) -> impl Iterator<Item = StmtId> + 'a {
        self.before.iter().chain(inner).chain(&self.behind).copied()
    }
}

fn is_loop(kernel: &Kernel, s: StmtId) -> bool {
    matches!(kernel.stmts.get(s), Stmt::For(_))
}

fn is_straight(kernel: &Kernel, s: StmtId) -> bool {
    matches!(kernel.stmts.get(s), Stmt::Store { .. } | Stmt::Set { .. } | Stmt::Let { .. })
}

impl Row {
    fn of(kernel: &mut Kernel, list: &[StmtId]) -> Option<Row> {
        let (&end, rest) = list.split_last()?;
        let other = rest.iter().rposition(|&s| is_loop(kernel, s))?;
        let Stmt::For(last) = kernel.stmts.get(end) else { return None };
        if kernel.stmts.list(last.body).iter().any(|&s| is_loop(kernel, s)) {
            // Both nests are loops over the same rows, with nothing between them.
            let first = Row::nest(kernel, &rest[other..], true)?;
            let last = Row::nest(kernel, &[end], true)?;
            let extent = |nest: &Nest| nest.outer.and_then(|l| kernel.arena.as_int(l.extent));
            let is_same = extent(&first).is_some() && extent(&first) == extent(&last);
            return is_same.then(|| Row { head: rest[..other].to_vec(), first, last, is_jammed: false });
        }
        let is_name = |s: &&StmtId| matches!(kernel.stmts.get(**s), Stmt::Let { .. });
        let n_names = rest[other + 1..].iter().rev().take_while(is_name).count();
        let (rest, _) = rest.split_at(rest.len() - n_names);
        let last = Row::nest(kernel, &list[rest.len()..], false)?;
        let flat = Row::nest(kernel, &rest[other..], false);
        let is_jammed = flat.is_none();
        let first = match flat {
            Some(nest) => nest,
            None => {
                let (nest, behind) = rest[other..].split_first()?;
                if !behind.iter().all(|&s| is_straight(kernel, s)) {
                    return None;
                }
                let mut nest = Row::nest(kernel, &[*nest], true)?.jammed(kernel)?;
                nest.behind.extend(behind);
                nest
            }
        };
        Some(Row { head: rest[..other].to_vec(), first, last, is_jammed })
    }

    /// The nest that the statements form, if they have a single innermost loop.
    fn nest(kernel: &Kernel, list: &[StmtId], has_outer: bool) -> Option<Nest> {
        if has_outer {
            let &[s] = list else { return None };
            let Stmt::For(outer) = kernel.stmts.get(s) else { return None };
            let is_usable = outer.kind == LoopKind::Serial && outer.iterations == Iterations::Independent;
            let nest = Row::nest(kernel, kernel.stmts.list(outer.body), false)?;
            return is_usable.then_some(Nest { outer: Some(outer), ..nest });
        }
        let at = list.iter().position(|&s| is_loop(kernel, s))?;
        let Stmt::For(inner) = kernel.stmts.get(list[at]) else { return None };
        let (before, behind) = (list[..at].to_vec(), list[at + 1..].to_vec());
        let body = kernel.stmts.list(inner.body);
        let is_flat = before.iter().chain(&behind).chain(body).all(|&s| is_straight(kernel, s));
        (is_flat && fuse::is_plain(&inner)).then_some(Nest { outer: None, before, inner, behind })
    }

    /// Whether one nest computes and the other one stores.
    fn pays(&self, kernel: &Kernel, row: VarId, machine: &Machine) -> bool {
        let arena = &kernel.arena;
        let functions = |nest: &Nest| {
            let mut found = false;
            for &s in kernel.stmts.list(nest.inner.body) {
                for_each_operand(kernel.stmts.get(s), |e| {
                    for_each_expr(arena, e, &mut |e| {
                        if let Expr::Call(function, _) = arena.expr(e) {
                            found |= pressure(function, arena.dtype(e), machine) > 0;
                        }
                    });
                });
            }
            found
        };
        let stores = |nest: &Nest| {
            kernel.stmts.list(nest.inner.body).iter().any(|&s| matches!(kernel.stmts.get(s), Stmt::Store { .. }))
        };
        // Sums of a single row would have the same latency as before.
        let computes = functions(&self.first) || self.is_jammed && !stores(&self.first) && self.reads_near(kernel, row);
        computes && !functions(&self.last) && stores(&self.last)
    }

    /// Whether the last nest reads data that the first one read and that stays in the nearest cache, together with the
    /// next rows.
    fn reads_near(&self, kernel: &Kernel, row: VarId) -> bool {
        let inside = |nest: &Nest| kernel.stmts.list(nest.inner.body).to_vec();
        let (first, last) = (inside(&self.first), inside(&self.last));
        let (mut bytes, mut shares) = (0, false);
        for (b, buffer) in kernel.buffers() {
            let mut step = 0;
            accesses(kernel, &last, b, &mut |at, _| step = step.max(at.index.coefficient_of(&kernel.arena, row)));
            accesses(kernel, &first, b, &mut |_, _| shares |= step > 0);
            bytes += step.saturating_mul(buffer.dtype.bytes() as i64);
        }
        shares && bytes.saturating_mul(2) <= NEAR
    }

    /// Whether the last nest of a row, except for its scalars, may run after the next row is computed.
    fn may_wait(&self, kernel: &Kernel, row: VarId) -> bool {
        let of = |stmts: &[StmtId]| {
            let mut all = Effects::default();
            stmts.iter().try_for_each(|&s| Effects::of(kernel, s).map(|e| all.add(&e)))?;
            Some(all)
        };
        let inner = |nest: &Nest| of(kernel.stmts.list(nest.inner.body));
        let (Some(head), Some(before), Some(inside), Some(behind)) =
            (of(&self.head), of(&self.first.before), inner(&self.first), of(&self.first.behind))
        else {
            return false;
        };
        let (Some(scalars), Some(waiting), Some(end)) =
            (of(&self.last.before), inner(&self.last), of(&self.last.behind))
        else {
            return false;
        };
        let (mut early, mut late) = (head, waiting);
        [&before, &inside].into_iter().for_each(|e| early.add(e));
        late.add(&end);
        let (mut first, mut last) = (early.clone(), late.clone());
        first.add(&behind);
        last.add(&scalars);
        let mut shared = first.writes.iter().filter(|p| last.touches(p)).collect::<Vec<_>>();
        shared.extend(last.writes.iter().filter(|p| first.touches(p)));
        shared.into_iter().all(|place| match place {
            Place::Buffer(b)
                if self.is_of_a_row(kernel, *b, row, &|v| first.writes.contains(&v) || last.writes.contains(&v)) =>
            {
                true
            }
            // A scalar is written after the loop that computes the next row, and read before the loop that is delayed.
            Place::Buffer(b) => {
                let is_in_time = !early.writes.contains(place) && !late.touches(place) && !last.writes.contains(place);
                is_in_time && self.is_of_the_same(kernel, *b)
            }
            Place::Local(_) | Place::Var(_) => false,
        })
    }

    /// Whether each row has elements of its own in the buffer. `is_named` tells whether a variable is bound in a row.
    fn is_of_a_row(&self, kernel: &Kernel, buffer: BufferId, row: VarId, is_named: &dyn Fn(Place) -> bool) -> bool {
        let mut ranges = [Range::default(), Range::default()];
        for (nest, range) in [&self.first, &self.last].into_iter().zip(&mut ranges) {
            let extent = |l: For| (l.var, kernel.arena.as_int(l.extent));
            let outer: Vec<_> = nest.outer.into_iter().map(extent).collect();
            let around = [outer.as_slice(), &[extent(nest.inner)]].concat();
            let stmts: Vec<StmtId> = nest.stmts(&[]).collect();
            accesses(kernel, &stmts, buffer, &mut |at, _| range.note(kernel, row, &at, &outer, is_named));
            let inside = kernel.stmts.list(nest.inner.body);
            accesses(kernel, inside, buffer, &mut |at, _| range.note(kernel, row, &at, &around, is_named));
        }
        let [mut first, last] = ranges;
        accesses(kernel, &self.head, buffer, &mut |at, _| first.note(kernel, row, &at, &[], is_named));
        // The first nest is one row ahead.
        match (first, last) {
            (Range::Between { base, low, .. }, Range::Between { base: other, high, .. }) => {
                let step = base.coefficient_of(&kernel.arena, row);
                base == other && step > 0 && low.checked_add(step).is_some_and(|ahead| ahead > high)
            }
            _ => false,
        }
    }

    /// For a buffer that the first nest writes and the last one reads inside loops over rows: whether both access the
    /// same row.
    fn is_of_the_same(&self, kernel: &Kernel, buffer: BufferId) -> bool {
        let (Some(first), Some(last)) = (self.first.outer, self.last.outer) else { return true };
        let mut places = Vec::new();
        for (nest, outer) in [(&self.first, first), (&self.last, last)] {
            let stmts: Vec<StmtId> = nest.stmts(&[]).collect();
            accesses(kernel, &stmts, buffer, &mut |at, _| {
                let own = at.index.coefficient_of(&kernel.arena, outer.var);
                let is_own = at.index.terms.len() == 1 && own != 0 && at.lanes <= own.abs();
                places.push(is_own.then_some((own, at.index.constant)));
            });
        }
        places.first().is_some_and(|first| first.is_some() && places.iter().all(|p| p == first))
    }

    /// A copy of the statements that compute a row.
    fn computed(&self, kernel: &mut Kernel, row: VarId, at: ExprId, own_registers: bool) -> Vec<StmtId> {
        let first = parts(kernel, &self.first);
        let stmts: Vec<StmtId> = self.head.iter().copied().chain(first).collect();
        copy(kernel, &stmts, row, at, own_registers)
    }

    /// A copy of the statements that finish a row.
    fn finished(&self, kernel: &mut Kernel, row: VarId, at: ExprId) -> Vec<StmtId> {
        let stmts = parts(kernel, &self.last);
        copy(kernel, &stmts, row, at, true)
    }

    /// Whether the sums of several rows fit the registers, together with their scale factors and three operands.
    fn fits_jammed(&self, kernel: &Kernel, both: &[StmtId], machine: &Machine) -> bool {
        let stored = both.iter().filter_map(|&s| match kernel.stmts.get(s) {
            Stmt::Store { value, .. } => Some(kernel.arena.ty(value).bytes().div_ceil(machine.vectors.bytes)),
            _ => None,
        });
        let widest = stored.max().unwrap_or(0);
        fuse::registers_set(kernel, both, machine) + self.last.before.len() + 3 * widest + SPARE
            <= machine.vectors.registers
    }

    /// Merges the first nest, which is already one row ahead, and the last one into one nest.
    fn beside(
        &self,
        kernel: &mut Kernel,
        row: VarId,
        at: ExprId,
        first: &Nest,
        machine: &Machine,
    ) -> Option<Vec<StmtId>> {
        let (n, ahead, waiting) = fuse::at_once(kernel, &self.first.inner, &self.last.inner)?;
        let mut own = Substitution::of(row, at);
        if let (Some(theirs), Some(ours)) = (self.last.outer, first.outer) {
            let r = kernel.arena.var_expr(ours.var);
            own.set(theirs.var, r);
        }
        let scalars = copied(kernel, &self.last.before, &mut own);
        let Stmt::For(last) = own.copy_stmt(kernel, Stmt::For(self.last.inner)) else { return None };
        let end = copied(kernel, &self.last.behind, &mut own);
        let (var, counter) = kernel.arena.new_index(kernel.arena.var(first.inner.var).name);
        let mut both = fuse::iterations(kernel, &first.inner, counter, ahead);
        both.extend(fuse::iterations(kernel, &last, counter, waiting));
        if !fuse::fit(kernel, &both, machine) || self.is_jammed && !self.fits_jammed(kernel, &both, machine) {
            return None;
        }
        let inner = fuse::joined(kernel, [&first.inner, &last], var, n, &both);
        let all = [&scalars[..], &first.before, &[inner], &first.behind, &end].concat();
        Some(match first.outer {
            Some(outer) => {
                let body = kernel.stmts.body(&all);
                vec![kernel.stmts.push(Stmt::For(For { body, ..outer }))]
            }
            None => all,
        })
    }
}

/// Number of vector registers to keep free besides the sums of several rows and their per-element values.
const SPARE: usize = 4;

/// The elements that a row accesses.
#[derive(Default)]
enum Range {
    #[default]
    Empty,
    /// From `base + low` to `base + high`, where `base` is the same for all statements of a row.
    Between {
        base: Affine,
        low: i64,
        high: i64,
    },
    Unknown,
}

impl Range {
    /// Adds the elements of an access that has loops around it.
    fn note(
        &mut self,
        kernel: &Kernel,
        row: VarId,
        at: &At,
        around: &[(VarId, Option<i64>)],
        is_named: &dyn Fn(Place) -> bool,
    ) {
        let arena = &kernel.arena;
        let mut base = Affine::default();
        let mut ends = || {
            let (mut low, mut high) = (at.index.constant, at.index.constant.checked_add(at.lanes - 1)?);
            for &(atom, c) in &at.index.terms {
                let v = arena.as_var(atom)?;
                if let Some(&(_, extent)) = around.iter().chain(&at.loops).find(|l| l.0 == v) {
                    let far = c.checked_mul(extent? - 1)?;
                    low = low.checked_add(far.min(0))?;
                    high = high.checked_add(far.max(0))?;
                } else if v == row || !is_named(Place::Var(v)) {
                    base.add_term(atom, c);
                } else {
                    return None;
                }
            }
            Some((low, high))
        };
        let ends = ends();
        *self = match (std::mem::take(self), ends) {
            (Range::Empty, Some((low, high))) => Range::Between { base, low, high },
            (Range::Between { base: all, low: l, high: h }, Some((low, high))) if all == base => {
                Range::Between { base, low: l.min(low), high: h.max(high) }
            }
            _ => Range::Unknown,
        };
    }
}

/// The statements that form a nest.
fn parts(kernel: &mut Kernel, nest: &Nest) -> Vec<StmtId> {
    match nest.outer {
        Some(outer) => vec![kernel.stmts.push(Stmt::For(outer))],
        None => {
            let inner = kernel.stmts.push(Stmt::For(nest.inner));
            nest.stmts(&[inner]).collect()
        }
    }
}

/// A copy of statements for one row, with fresh registers if requested: different regions must not share registers.
fn copy(kernel: &mut Kernel, stmts: &[StmtId], row: VarId, at: ExprId, with_registers: bool) -> Vec<StmtId> {
    let mut substitution = Substitution::of(row, at);
    if with_registers {
        let set = kernel.stmts.body(stmts);
        substitution.own_registers(kernel, set);
    }
    copied(kernel, stmts, &mut substitution)
}

/// Copies of statements, one after the other.
fn copied(kernel: &mut Kernel, stmts: &[StmtId], substitution: &mut Substitution) -> Vec<StmtId> {
    let copy = |&s: &StmtId| {
        let copy = substitution.copy_stmt(kernel, kernel.stmts.get(s));
        kernel.stmts.push(copy)
    };
    stmts.iter().map(copy).collect()
}
