//! Vectorises loops.
//!
//! ```text
//! for j in 19 vector: Y[i * 19 + j] = X[i * 19 + j] * A[i]
//! // becomes, with vectors of 4 lanes
//! Y[i * 19; 16] = X[i * 19; 16] * splat(A[i], 16)
//! Y[i * 19 + 16; 2] = …
//! Y[i * 19 + 18] = …
//! ```
//!
//! The pass vectorises loops that the schedule annotated, and innermost loops whose iterations are independent and
//! whose accesses are contiguous. A vector comprises several registers, for fewer and independent statements; the
//! remainder is done with shorter ones. Loops inside the vectorised one become loops over vectors.
//!
//! Innermost reductions over contiguous elements are those of [`horizontal`], and searches for the largest or smallest
//! element those of [`arg_reduce`].

use super::arg_reduce;
use super::constant_lanes::is_tabular;
use super::functions::pressure;
use super::horizontal;
use super::machine::Machine;
use super::walk::replace_loops;
use super::widen::{Widener, is_masked};
use crate::codegen::wide::is_scatterable;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{Seen, Substitution, for_each_expr, for_each_operand, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, StmtId, Storage, Ty, VarId,
};
use crate::machine::register_tile::{MOST_APART, ROW};

/// Vectorises all loops that can and should be.
pub(super) fn vectorize(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, machine);
}

fn body(kernel: &mut Kernel, old: Body, machine: &Machine) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| for_loop(kernel, s, l, machine, out))
}

fn for_loop(kernel: &mut Kernel, s: StmtId, l: For, machine: &Machine, out: &mut Vec<StmtId>) {
    let shape = Shape::of(kernel, &l, machine);
    let wanted = l.kind == LoopKind::Vector
        || l.kind == LoopKind::Serial && l.iterations == Iterations::Independent && shape.pays;
    if wanted
        && shape.is_safe(kernel, &l)
        && let Some(pieces) = vectors(kernel, &l, &shape, machine)
    {
        return out.extend(pieces);
    }
    if l.kind != LoopKind::Parallel
        && (horizontal::sums(kernel, &l, machine, out) || arg_reduce::search(kernel, &l, machine, out))
    {
        return;
    }
    let inner = body(kernel, l.body, machine);
    let kind = if l.kind == LoopKind::Vector { LoopKind::Serial } else { l.kind };
    let same = inner == l.body && kind == l.kind;
    out.push(if same { s } else { kernel.stmts.push(Stmt::For(For { body: inner, kind, ..l })) });
}

// ---- data-parallel loops -----------------------------------------------------------------------------------

/// The accesses of a loop along its variable.
struct Shape {
    /// Whether vectorising is profitable.
    pays: bool,
    /// The widest type loaded or stored in an iteration; `int32` for groups of four bytes.
    dtype: DType,
    /// Size in bytes of the narrowest type.
    narrowest: usize,
    /// Approximate register pressure: the number of simultaneously live values.
    pressure: usize,
    /// Number of iterations after which divided indices repeat; 1 if there are none.
    period: i64,
    /// Whether indices are other functions of the counter, and so numbers in each iteration of a short loop.
    is_tabular: bool,
    /// Whether there are other indices, which may be anywhere.
    gathers: bool,
    /// Whether elements are only copied.
    copies: bool,
    stores: Vec<(BufferId, ExprId)>,
    loads: Vec<(BufferId, ExprId)>,
}

impl Shape {
    fn of(kernel: &Kernel, l: &For, machine: &Machine) -> Shape {
        let arena = &kernel.arena;
        let mut shape = Shape {
            pays: true,
            dtype: DType::Bool,
            narrowest: 16,
            pressure: 1,
            period: 1,
            is_tabular: false,
            gathers: false,
            copies: true,
            stores: Vec::new(),
            loads: Vec::new(),
        };
        let mut seen = Seen::default();
        kernel.for_each_stmt(l.body, &mut |_, stmt| {
            match stmt {
                Stmt::Store { buffer, index, value } => {
                    shape.stores.push((buffer, index));
                    let ty = arena.ty(value);
                    shape.copies &= matches!(arena.expr(value), Expr::Load(..));
                    shape.widest(ty);
                    shape.pays &= stride(arena, index, l.var) == Some(i64::from(ty.lanes));
                }
                // Only innermost loops are vectorised without an annotation.
                Stmt::For(_) => shape.pays = false,
                Stmt::If { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
            }
            for_each_operand(stmt, |e| {
                for_each_expr(arena, e, &mut |e| {
                    if !seen.insert(e) {
                        return;
                    }
                    match arena.expr(e) {
                        Expr::Load(buffer, index) => {
                            shape.loads.push((buffer, index));
                            shape.widest(arena.ty(e));
                            // The sum is in the register of its new value.
                            let is_sum = |stmt| matches!(stmt, Stmt::Store { buffer: b, index: i, .. } if (b, i) == (buffer, index));
                            let own = i64::from(arena.lanes(e));
                            match stride(arena, index, l.var) {
                                Some(0) => {}
                                Some(n) if n == own => shape.pressure += usize::from(!is_sum(stmt)),
                                // Region code loads the whole range and gathers from it, also backwards.
                                Some(n) if own == 1 && n.abs() <= MOST_APART && machine.vectors.has_regions() => {
                                    shape.pressure += n.unsigned_abs() as usize;
                                }
                                None if own == 1 && machine.vectors.has_regions() => match period(arena, index, l.var, LONGEST_PERIOD) {
                                    Some(period) => {
                                        shape.period = shape.period / gcd_of(shape.period, period) * period;
                                        shape.pressure += 1;
                                    }
                                    None if is_tabular(arena, index, l.var)
                                        && is_short(kernel, l, machine.vectors.lanes(arena.dtype(e))) =>
                                    {
                                        shape.is_tabular = true;
                                        shape.pressure += 1;
                                    }
                                    None if is_scatterable(arena.dtype(e)) => {
                                        shape.gathers = true;
                                        shape.pressure += 3;
                                    }
                                    None => shape.pays = false,
                                },
                                _ => shape.pays = false,
                            }
                        }
                        Expr::Select(..) | Expr::Lookup(..) => shape.pressure += 1,
                        Expr::Call(f, _) => shape.pressure += 1 + pressure(f, arena.dtype(e), machine),
                        Expr::Int(_)
                        | Expr::Float(_)
                        | Expr::Var(_)
                        | Expr::Local(_)
                        | Expr::Binary(..)
                        | Expr::Compare(..)
                        | Expr::Not(_)
                        | Expr::Cast(_)
                        | Expr::Reinterpret(_)
                        | Expr::Dot4(..)
                        | Expr::IfThenElse(..)
                        | Expr::Broadcast(_)
                        | Expr::Ramp(..)
                        | Expr::Pack(_)
                        | Expr::Extract(..)
                        | Expr::Reduce(..) => {}
                    }
                });
            });
        });
        shape.pays &= !shape.stores.is_empty() && shape.period <= LONGEST_PERIOD;
        shape
    }

    fn widest(&mut self, ty: Ty) {
        let dtype = if ty.bytes() == 4 { DType::Int32 } else { ty.dtype };
        if dtype.bytes() > self.dtype.bytes() {
            self.dtype = dtype;
        }
        self.narrowest = self.narrowest.min(ty.bytes());
    }

    /// Lanes of a register. Elements of less than 32 bits keep their width where they are only copied.
    fn register_lanes(&self, machine: &Machine) -> i64 {
        if self.copies && machine.vectors.has_narrow_masks() {
            return (machine.vectors.bytes / self.dtype.bytes()) as i64;
        }
        machine.vectors.lanes(self.dtype)
    }

    /// The maximum number of lanes up to `most` that can be loaded and stored: any number with masks, otherwise whole
    /// registers or the width of a scalar register. Elements of less than 32 bits take a lane of 32 bits each in region code; without masks
    /// for them, whole registers of them, or a power of two.
    fn width(&self, most: i64, machine: &Machine) -> i64 {
        if machine.vectors.has_regions() && self.pays && is_masked(self.dtype) && self.narrowest == self.dtype.bytes() {
            return most;
        }
        // Bytes alone have lanes of bytes, which take masks as wider ones do.
        if machine.vectors.has_regions() && self.pays && self.dtype.bytes() == 1 && !machine.vectors.has_narrow_masks()
        {
            let whole = most / machine.vectors.bytes as i64 * machine.vectors.bytes as i64;
            return whole.max(largest_power(most));
        }
        let lanes = machine.vectors.bytes as i64 / 4;
        if machine.vectors.has_narrow_masks() && self.pays && self.narrowest < 4 && self.dtype.bytes() <= 4 {
            return most;
        }
        if machine.vectors.has_regions() && self.pays && self.narrowest < 4 && self.dtype.bytes() <= 4 && most > lanes {
            return most / lanes * lanes;
        }
        let bytes = most * self.narrowest as i64;
        let whole = bytes / MEMORY_BYTES * MEMORY_BYTES / self.narrowest as i64;
        whole.max(largest_power(most))
    }

    /// Whether the statements of different iterations may be interleaved. Iterations are independent except for scratch
    /// that each writes before reading it: then each must use a different part of the buffer.
    fn is_safe(&self, kernel: &Kernel, l: &For) -> bool {
        let arena = &kernel.arena;
        let mut inner = Vec::new();
        kernel.for_each_stmt(l.body, &mut |_, stmt| {
            if let Stmt::For(For { var, .. }) | Stmt::Let { var, .. } = stmt {
                inner.push(var);
            }
        });
        for &(buffer, first) in &self.stores {
            if !matches!(kernel.buffer(buffer).storage, Storage::Scratch(_)) {
                continue;
            }
            let Some(n) = arena.as_int(l.extent) else { return false };
            // The elements of one iteration.
            let Some(own @ 1..) = stride(arena, first, l.var) else { return false };
            let others = self.stores.iter().chain(&self.loads).filter(|a| a.0 == buffer);
            let mut step = 0u64;
            for &(_, index) in others {
                if stride(arena, index, l.var) != Some(own) {
                    return false;
                }
                let affine = Affine::of(arena, index);
                let between = affine.minus(&Affine::of(arena, first));
                let inside = affine.terms.iter().filter(|t| mentions_var(arena, t.0, &mut |v| inner.contains(&v)));
                for c in between.terms.iter().chain(inside).map(|t| t.1).chain([between.constant]) {
                    step = gcd(step, c.unsigned_abs());
                }
            }
            if step != 0 && step < (n.max(0) as u64).saturating_mul(own as u64) {
                return false;
            }
        }
        true
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub(super) fn gcd_of(a: i64, b: i64) -> i64 {
    gcd(a.unsigned_abs(), b.unsigned_abs()) as i64
}

/// The number of iterations after which indices repeat with an offset, if an index has the variable in digits (`v //
/// 3`, `v % 3`), divided by at most `longest`, with steps of at most two elements.
pub(super) fn period(arena: &Arena, index: ExprId, var: VarId, longest: i64) -> Option<i64> {
    let mut period = 1;
    for &(atom, c) in &Affine::of(arena, index).terms {
        if !mentions_var(arena, atom, &mut |v| v == var) {
            continue;
        }
        let Expr::Binary(BinOp::FloorDiv | BinOp::FloorMod, a, b) = arena.expr(atom) else { return None };
        let d = arena.as_int(b).filter(|&d| (2..=longest).contains(&d))?;
        if arena.as_var(a) != Some(var) || !(0..=2).contains(&c) {
            return None;
        }
        period = period / gcd_of(period, d) * d;
    }
    Some(period)
}

/// Maximum period of a vectorised loop.
pub(super) const LONGEST_PERIOD: i64 = 8;

/// The stride of an access along a variable, if constant.
pub(super) fn stride(arena: &Arena, index: ExprId, var: VarId) -> Option<i64> {
    Affine::of(arena, index).stride(arena, var)
}

/// Bytes of Cranelift's vectors, the parts of wider ones.
pub(super) const MEMORY_BYTES: i64 = 16;

/// Maximum number of vectors to unroll.
const FEW_PIECES: i64 = 4;

/// The vectors that replace the loop; `None` if its body cannot be widened.
fn vectors(kernel: &mut Kernel, l: &For, shape: &Shape, machine: &Machine) -> Option<Vec<StmtId>> {
    let lanes = machine.vectors.lanes(shape.dtype);
    let parts = ((machine.vectors.registers / 2) / shape.pressure.max(1)).clamp(1, ROW as usize) as i64;
    let extent = kernel.arena.as_int(l.extent);
    let mut made = Vec::new();
    let n = extent?;
    let mut done = 0;
    let widener = |at, width: i64| {
        let has_regions = machine.vectors.has_regions();
        Widener::new(l.var, at, width as u16).with_masks_of(&machine.vectors).with_gathers(has_regions && shape.gathers)
    };
    if shape.is_tabular && shape.pays && !shape.gathers {
        while done < n {
            let lanes = shape.register_lanes(machine);
            done += tabulated(kernel, l, shape, (done, lanes), machine, &mut made)?;
        }
        return Some(made);
    }
    while done < n && shape.period > 1 && shape.pays {
        // As many whole registers and whole periods as possible.
        let lanes = shape.register_lanes(machine).max((machine.vectors.bytes / 4) as i64);
        let width = lanes / gcd_of(lanes, shape.period) * shape.period;
        let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
        let pieces = (n - done) / width;
        if pieces == 0 {
            let lanes = shape.register_lanes(machine);
            done += tabulated(kernel, l, shape, (done, lanes), machine, &mut made)?;
            continue;
        }
        let at = kernel.arena.mul_const(e, width);
        let body = widener(at, width).with_repeated_lanes().body(kernel, l.body)?;
        done += pieces * width;
        let extent = kernel.arena.index(pieces);
        made.push(kernel.stmts.push(Stmt::For(For { var, extent, body, kind: LoopKind::Serial, ..*l })));
    }
    while done < n {
        // Several registers, or the largest width for the remainder.
        let mut width = shape.width((n - done).min(lanes * parts), machine);
        let mut pieces = (n - done) / width;
        // Region code computes indices of elements anywhere in lanes only, so that no single iteration may remain.
        if shape.gathers && width > 2 && n - done == pieces * width + 1 {
            match pieces {
                1 => width -= 1,
                _ => pieces -= 1,
            }
        }
        let start = kernel.arena.index(done);
        if width == 1 {
            // The remainder is shorter than any vector.
            for i in 0..pieces {
                let at = kernel.arena.index(done + i);
                let body = Substitution::of(l.var, at).copy(kernel, l.body);
                made.extend_from_slice(kernel.stmts.list(body));
            }
        } else if pieces == 1 {
            let body = widener(start, width).body(kernel, l.body)?;
            made.extend_from_slice(kernel.stmts.list(body));
        } else {
            let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
            let scaled = kernel.arena.mul_const(e, width);
            let base = kernel.arena.add(scaled, start);
            let body = widener(base, width).body(kernel, l.body)?;
            let kind = if pieces <= FEW_PIECES { LoopKind::Unroll } else { LoopKind::Serial };
            let extent = kernel.arena.index(pieces);
            made.push(kernel.stmts.push(Stmt::For(For { var, extent, kind, body, ..*l })));
        }
        done += pieces * width;
    }
    Some(made)
}

/// Maximum number of vectors of a loop whose indices are numbers. In longer loops they are computed, and elements are gathered.
pub(super) const MOST_TABULATED: i64 = 256;

/// Whether all iterations of a loop are few vectors.
fn is_short(kernel: &Kernel, l: &For, lanes: i64) -> bool {
    kernel.arena.as_int(l.extent).is_some_and(|n| n <= MOST_TABULATED * lanes)
}

/// Emits the vector of the iterations from `done` on, at most `lanes`, whose indices are numbers; returns how many they are.
fn tabulated(
    kernel: &mut Kernel,
    l: &For,
    shape: &Shape,
    (done, lanes): (i64, i64),
    machine: &Machine,
    made: &mut Vec<StmtId>,
) -> Option<i64> {
    let left = kernel.arena.as_int(l.extent)? - done;
    let width = shape.width(left.min(lanes), machine);
    let start = kernel.arena.index(done);
    let body = if width == 1 {
        Substitution::of(l.var, start).copy(kernel, l.body)
    } else {
        let widener = Widener::new(l.var, start, width as u16).with_masks_of(&machine.vectors);
        widener.with_constants(&kernel.arena).body(kernel, l.body)?
    };
    made.extend_from_slice(kernel.stmts.list(body));
    Some(width)
}

/// The largest power of two up to `n`.
pub(super) fn largest_power(n: i64) -> i64 {
    if n <= 1 { 1 } else { 1 << n.ilog2() }
}
