//! Converts narrow operands once, in a copy before a nest that would convert each element many times.
//!
//! ```text
//! for i in 64: for k in 32: for j in 16: C[i, j] += cast(float32, A[i, k]) * cast(float32, B[k, j])
//! // becomes, for operands of 16 bits
//! for i in 64: for k in 32: A1[i * 32 + k] = cast(float32, A[i, k])
//! for k in 32: for j in 16: B1[k * 16 + j] = cast(float32, B[k, j])
//! for i in 64: for k in 32: for j in 16: C[i, j] += A1[i * 32 + k] * B1[k * 16 + j]
//! ```
//!
//! A small buffer that the kernel only reads is copied whole, for all its nests, if its elements are used often enough. So is
//! the part of another one that a nest reads: in memory order, without elements that are not read; only elements that are in
//! bounds under all conditions are copied.
//!
//! An operand that is too large for one copy is copied piece by piece, before inner loops, in two cases. The innermost loop uses
//! one element for all its iterations: each would be converted alone, in a few instructions, and a copy converts a vector at a
//! time. Or the innermost loop moves along the operand, and loops around its rows use all of them again, as the tiles of rows of
//! a product use a panel.
//!
//! This pass runs before reduction nests are arranged, and after [`super::dot`], which needs the bytes unchanged.

use super::walk::replace_loops;
use crate::ir::DType;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, map_operands, mentions_var};
use crate::loopir::{
    Affine, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Stmt, StmtId, VarId,
};
use hashbrown::HashSet;

/// Minimum number of uses per element.
const OFTEN: i64 = 8;

/// Maximum size in bytes of a copy: what a second-level cache holds besides other data.
const MAX_COPY: i64 = 1 << 20;

/// Maximum size in bytes of a copy of a piece: a part of the nearest cache.
const MAX_PIECE: i64 = 1 << 15;

/// Maximum size in bytes of a copy of a panel, whose elements are used one after the other.
const MAX_PANEL: i64 = 1 << 17;

/// Minimum length of contiguous elements in a piece.
const LONG: i64 = 16;

/// Minimum number of times that a panel is used.
const AGAIN: i64 = 4;

/// Makes copies for all loops of the kernel. Returns whether there are any.
pub(super) fn preconvert(kernel: &mut Kernel) -> bool {
    let before = kernel.body;
    copy_whole(kernel);
    kernel.body = body(kernel, kernel.body, &mut Vec::new());
    kernel.body != before
}

/// Copies small buffers that are only read, and often enough, before everything else.
fn copy_whole(kernel: &mut Kernel) {
    let mut uses = Uses::default();
    uses.count(kernel, kernel.body, 1);
    let (mut copies, mut loops) = (ExprMap::default(), Vec::new());
    for Converted { from, dtype, times, values } in uses.found {
        let len = kernel.buffer(from).len;
        let is_small = len.saturating_mul(dtype.bytes() as i64) <= MAX_COPY;
        if uses.excluded.contains(&from) || !is_small || len < LONG || times < len.saturating_mul(OFTEN) {
            continue;
        }
        let buffer = add_copy(kernel, from, dtype, len, Placement::Shared);
        loops.push(copy_loops(kernel, (from, Affine::default()), (buffer, dtype), &[(1, len)]));
        for (value, index) in values {
            let value_of_copy = kernel.load(buffer, index);
            copies.insert(value, value_of_copy);
        }
    }
    if !loops.is_empty() {
        let body = with_copies(kernel, kernel.body, &mut copies);
        loops.extend_from_slice(kernel.stmts.list(body));
        kernel.body = kernel.stmts.body(&loops);
    }
}

/// The conversions of a kernel by buffer and type.
#[derive(Default)]
struct Uses {
    /// In the order of the kernel.
    found: Vec<Converted>,
    /// Buffers that are written, or converted in parallel loops: each thread would wait for the copy.
    excluded: HashSet<BufferId, FxBuild>,
}

/// The conversions of elements of a buffer to one type.
struct Converted {
    from: BufferId,
    dtype: DType,
    /// The number of conversions that are executed.
    times: i64,
    /// The expressions, with the indices of their elements.
    values: Vec<(ExprId, ExprId)>,
}

impl Uses {
    /// Counts those of a body that is executed `times` times; `None` in a parallel loop.
    fn count(&mut self, kernel: &Kernel, body: Body, times: impl Into<Option<i64>> + Copy) {
        let times = times.into();
        for &s in kernel.stmts.list(body) {
            let stmt = kernel.stmts.get(s);
            for_each_operand(stmt, |e| self.count_in(kernel, e, times));
            match stmt {
                Stmt::For(l) => {
                    let n = kernel.arena.as_int(l.extent).unwrap_or(1);
                    let inside = times.filter(|_| l.kind != LoopKind::Parallel).map(|t| t.saturating_mul(n));
                    self.count(kernel, l.body, inside);
                }
                Stmt::If { then, otherwise, .. } => {
                    self.count(kernel, then, times);
                    self.count(kernel, otherwise, times);
                }
                Stmt::While { body, .. } => self.count(kernel, body, times),
                Stmt::Store { buffer, .. } => drop(self.excluded.insert(buffer)),
                Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
            }
        }
    }

    fn count_in(&mut self, kernel: &Kernel, e: ExprId, times: Option<i64>) {
        for_each_expr(&kernel.arena, e, &mut |value| {
            let Some((from, index)) = narrow_element(kernel, value) else { return };
            let Some(times) = times else {
                self.excluded.insert(from);
                return;
            };
            let dtype = kernel.arena.dtype(value);
            let known = self.found.iter().position(|c| c.from == from && c.dtype == dtype);
            let at = known.unwrap_or_else(|| {
                self.found.push(Converted { from, dtype, times: 0, values: Vec::new() });
                self.found.len() - 1
            });
            let converted = &mut self.found[at];
            converted.times = converted.times.saturating_add(times);
            converted.values.push((value, index));
        });
    }
}

/// The buffer and index of an element of 8 or 16 bits that an expression converts to one of 32 bits.
fn narrow_element(kernel: &Kernel, value: ExprId) -> Option<(BufferId, ExprId)> {
    let arena = &kernel.arena;
    let Expr::Cast(element) = arena.expr(value) else { return None };
    let Expr::Load(from, index) = arena.expr(element) else { return None };
    let narrow = arena.ty(element);
    let is_narrow = narrow.lanes == 1 && narrow.dtype.bytes() <= 2 && narrow.dtype != DType::Bool;
    (is_narrow && matches!(arena.dtype(value), DType::Float32 | DType::Int32)).then_some((from, index))
}

/// A body in which some expressions are replaced.
fn with_copies(kernel: &mut Kernel, body: Body, copies: &mut ExprMap) -> Body {
    kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let new = map_operands(stmt, |e| map_expr(&mut kernel.arena, e, copies, &mut |_, _| None));
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    })
}

/// A buffer for converted elements of another one.
fn add_copy(kernel: &mut Kernel, from: BufferId, dtype: DType, len: i64, placement: Placement) -> BufferId {
    let name = format!("{}_wide", kernel.buffer(from).name);
    kernel.add_scratch(name.as_str(), dtype, len, placement)
}

/// Loops that convert elements from a start on, with their strides and extents, into a buffer without gaps.
fn copy_loops(
    kernel: &mut Kernel,
    (from, start): (BufferId, Affine),
    (to, dtype): (BufferId, DType),
    steps: &[(i64, i64)],
) -> StmtId {
    let mut left: i64 = steps.iter().map(|s| s.1).product();
    let (mut source, mut target) = (start, Affine::default());
    let mut vars = Vec::new();
    for &(step, n) in steps {
        left /= n;
        let (var, e) = kernel.arena.new_index("c");
        vars.push((var, n));
        source.add_term(e, step);
        target.add_term(e, left);
    }
    let (source, target) = (source.to_expr(&mut kernel.arena), target.to_expr(&mut kernel.arena));
    let element = kernel.load(from, source);
    let value = kernel.arena.cast(dtype, element);
    let mut s = kernel.store(to, target, value);
    for (var, n) in vars.into_iter().rev() {
        let (extent, body) = (kernel.arena.index(n), kernel.stmts.body(&[s]));
        let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
        s = kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints: Hints::default(), body }));
    }
    s
}

/// `around` holds the enclosing loops.
fn body(kernel: &mut Kernel, old: Body, around: &mut Vec<For>) -> Body {
    replace_loops(kernel, old, &mut |kernel, s, l, out| {
        let is_parallel = l.kind == LoopKind::Parallel;
        let l = if is_parallel { l } else { converted(kernel, s, l, around, out) };
        around.push(l);
        let inner = body(kernel, l.body, around);
        around.pop();
        let new = Stmt::For(For { body: inner, ..l });
        out.push(if new == kernel.stmts.get(s) { s } else { kernel.stmts.push(new) });
    })
}

/// The loop with copies of operands, which are made before it.
fn converted(kernel: &mut Kernel, s: StmtId, l: For, around: &[For], out: &mut Vec<StmtId>) -> For {
    let placement = match around.iter().any(|l| l.kind == LoopKind::Parallel) {
        true => Placement::PerWorker,
        false => Placement::Shared,
    };
    let mut copies = ExprMap::default();
    for operand in operands(kernel, s, around) {
        let (buffer, index) = operand.copy(kernel, placement, out);
        let value = kernel.load(buffer, index);
        copies.insert(operand.value, value);
    }
    if copies.is_empty() {
        return l;
    }
    For { body: with_copies(kernel, l.body, &mut copies), ..l }
}

/// A converted element, and the elements of the buffer that a nest reads.
struct Operand {
    /// The conversion expression.
    value: ExprId,
    from: BufferId,
    /// The index without the terms of the inner loops.
    start: Affine,
    /// Variables of the loops with their strides and extents, largest stride first.
    steps: Vec<(VarId, i64, i64)>,
}

/// The conversions in a loop that are worth a copy.
fn operands(kernel: &Kernel, s: StmtId, around: &[For]) -> Vec<Operand> {
    let mut search = Search {
        kernel,
        around,
        loops: Vec::new(),
        names: HashSet::default(),
        written: HashSet::default(),
        seen: HashSet::default(),
        found: Vec::new(),
    };
    let note = |search: &mut Search, stmt: Stmt| match stmt {
        Stmt::Store { buffer, .. } => drop(search.written.insert(buffer)),
        Stmt::Let { var, .. } => drop(search.names.insert(var)),
        Stmt::For(_) | Stmt::If { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
    };
    if let Stmt::For(l) = kernel.stmts.get(s) {
        kernel.for_each_stmt(l.body, &mut |_, stmt| note(&mut search, stmt));
    }
    search.stmt(s);
    search.found
}

struct Search<'a> {
    kernel: &'a Kernel,
    around: &'a [For],
    /// The enclosing loops, those of the copy first.
    loops: Vec<For>,
    names: HashSet<VarId, FxBuild>,
    written: HashSet<BufferId, FxBuild>,
    seen: HashSet<ExprId, FxBuild>,
    found: Vec<Operand>,
}

impl Search<'_> {
    fn stmt(&mut self, s: StmtId) {
        let stmt = self.kernel.stmts.get(s);
        for_each_operand(stmt, |e| self.expr(e));
        match stmt {
            Stmt::For(l) if l.kind != LoopKind::Parallel => {
                self.loops.push(l);
                self.body(l.body);
                self.loops.pop();
            }
            Stmt::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Stmt::For(_)
            | Stmt::Store { .. }
            | Stmt::Let { .. }
            | Stmt::Set { .. }
            | Stmt::Check { .. }
            | Stmt::While { .. } => {}
        }
    }

    fn body(&mut self, body: Body) {
        for &s in self.kernel.stmts.list(body) {
            self.stmt(s);
        }
    }

    fn expr(&mut self, e: ExprId) {
        let kernel = self.kernel;
        for_each_expr(&kernel.arena, e, &mut |e| {
            if !self.seen.contains(&e)
                && let Some(operand) = self.operand(e)
            {
                self.found.push(operand);
                self.seen.insert(e);
            }
        });
    }

    fn operand(&self, value: ExprId) -> Option<Operand> {
        let (arena, buffers) = (&self.kernel.arena, self.kernel);
        let (from, index) = narrow_element(buffers, value)?;
        if self.written.contains(&from) {
            return None;
        }
        // The index must be a sum of terms of the loops and invariants.
        let mut start = Affine::of(arena, index);
        let mut steps = Vec::new();
        let mut all = 1i64;
        for l in &self.loops {
            let n = arena.as_int(l.extent).filter(|&n| n > 0)?;
            all = all.saturating_mul(n);
            if let Some(at) = start.terms.iter().position(|t| arena.as_var(t.0) == Some(l.var)) {
                steps.push((l.var, start.terms.remove(at).1, n));
            }
        }
        steps.sort_by_key(|&(_, step, n)| (std::cmp::Reverse(step), std::cmp::Reverse(n)));
        let copied = steps.iter().map(|s| s.2).fold(1, i64::saturating_mul);
        let is_piece = self.around.iter().any(|l| l.kind != LoopKind::Parallel);
        let most = match is_piece {
            true if self.is_shared_row(&steps) => MAX_PIECE,
            true if self.is_panel(&steps) => MAX_PANEL,
            true => return None,
            false => MAX_COPY,
        };
        let is_small = copied.saturating_mul(4) <= most && copied.saturating_mul(OFTEN) <= all;
        if !is_small || steps.iter().any(|s| s.1 <= 0) {
            return None;
        }
        // The whole range must be in bounds, and depend only on loops outside.
        let mut last = start.constant;
        for &(_, step, n) in &steps {
            last = last.checked_add(step.checked_mul(n - 1)?)?;
        }
        for &(atom, c) in &start.terms {
            let var = arena.as_var(atom)?;
            let l = self.around.iter().find(|l| l.var == var)?;
            let n = arena.as_int(l.extent).filter(|&n| n > 0 && c > 0)?;
            last = last.checked_add(c.checked_mul(n - 1)?)?;
        }
        let inside = |v| self.names.contains(&v) || self.loops.iter().any(|l| l.var == v);
        let is_free = start.terms.iter().all(|t| !mentions_var(arena, t.0, &mut { inside }));
        let fits = start.constant >= 0 && last < buffers.buffer(from).len;
        (fits && is_free).then_some(Operand { value, from, start, steps })
    }

    /// Whether the innermost loop uses one element for all its iterations, and those of others are contiguous.
    fn is_shared_row(&self, steps: &[(VarId, i64, i64)]) -> bool {
        let Some(innermost) = self.loops.last() else { return false };
        let is_shared = steps.iter().all(|s| s.0 != innermost.var)
            && self.kernel.arena.as_int(innermost.extent).is_some_and(|n| n >= OFTEN);
        is_shared && steps.last().is_some_and(|&(_, step, n)| step == 1 && n >= LONG)
    }

    /// Whether the innermost loop moves along contiguous elements, and loops around those of the other steps use all of them again.
    fn is_panel(&self, steps: &[(VarId, i64, i64)]) -> bool {
        let Some((innermost, around)) = self.loops.split_last() else { return false };
        let moves = |l: &For| steps.iter().any(|s| s.0 == l.var);
        if around.first().is_none_or(moves) {
            // A smaller piece is used as often.
            return false;
        }
        let is_row = steps.last().is_some_and(|&(var, step, n)| var == innermost.var && step == 1 && n >= LONG);
        let Some(rows) = around.iter().rposition(moves) else { return false };
        let extents =
            around[..rows].iter().filter(|l| !moves(l)).map(|l| self.kernel.arena.as_int(l.extent).unwrap_or(1));
        is_row && extents.fold(1, i64::saturating_mul) >= AGAIN
    }
}

impl Operand {
    /// Emits the copy; returns its buffer, and the index in it of an iteration's element.
    fn copy(&self, kernel: &mut Kernel, placement: Placement, out: &mut Vec<StmtId>) -> (BufferId, ExprId) {
        let len = self.steps.iter().map(|s| s.2).product();
        let dtype = kernel.arena.dtype(self.value);
        let buffer = add_copy(kernel, self.from, dtype, len, placement);
        let mut index = Affine::default();
        let mut left = len;
        for &(var, _, n) in &self.steps {
            left /= n;
            let var = kernel.arena.var_expr(var);
            index.add_term(var, left);
        }
        // Merge adjacent loops.
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for &(_, step, n) in &self.steps {
            match merged.last_mut() {
                Some(last) if last.0 == step * n => *last = (step, last.1 * n),
                _ => merged.push((step, n)),
            }
        }
        out.push(copy_loops(kernel, (self.from, self.start.clone()), (buffer, dtype), &merged));
        (buffer, index.to_expr(&mut kernel.arena))
    }
}
