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
//! A copy has its elements in memory order, without those that are not read. It is made if each element is used often
//! enough and the copy stays small; only elements that are in bounds under all conditions are copied.
//!
//! An operand that is too large for one copy, and of which the innermost loop uses one element for all its iterations, is copied piece by
//! piece, before inner loops. Each of its elements would be converted alone, in a few instructions; a copy converts a vector at a time.
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

/// Minimum length of contiguous elements in a piece.
const LONG: i64 = 16;

/// Makes copies for all loops of the kernel. Returns whether there are any.
pub(super) fn preconvert(kernel: &mut Kernel) -> bool {
    let before = kernel.body;
    kernel.body = body(kernel, before, &mut Vec::new());
    kernel.body != before
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
    let new = kernel.rebuild(l.body, &mut |kernel, _, id, stmt, out| {
        let new = map_operands(stmt, |e| map_expr(&mut kernel.arena, e, &mut copies, &mut |_, _| None));
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
    For { body: new, ..l }
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
        let Expr::Cast(element) = arena.expr(value) else { return None };
        let Expr::Load(from, index) = arena.expr(element) else { return None };
        let (narrow, wide) = (arena.ty(element), arena.dtype(value));
        let is_narrow = narrow.lanes == 1 && narrow.dtype.bytes() <= 2 && narrow.dtype != DType::Bool;
        if !is_narrow || !matches!(wide, DType::Float32 | DType::Int32) || self.written.contains(&from) {
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
        let most = if is_piece { MAX_PIECE } else { MAX_COPY };
        let is_small = copied.saturating_mul(4) <= most && copied.saturating_mul(OFTEN) <= all;
        if is_piece && !self.is_shared_row(&steps) {
            return None;
        }
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
}

impl Operand {
    /// Emits the copy; returns its buffer, and the index in it of an iteration's element.
    fn copy(&self, kernel: &mut Kernel, placement: Placement, out: &mut Vec<StmtId>) -> (BufferId, ExprId) {
        let len = self.steps.iter().map(|s| s.2).product();
        let name = format!("{}_wide", kernel.buffer(self.from).name);
        let buffer = kernel.add_scratch(name.as_str(), kernel.arena.dtype(self.value), len, placement);
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
        let (mut from, mut to, mut left) = (self.start.clone(), Affine::default(), len);
        let mut vars = Vec::new();
        for &(step, n) in &merged {
            left /= n;
            let (var, e) = kernel.arena.new_index("c");
            vars.push((var, n));
            from.add_term(e, step);
            to.add_term(e, left);
        }
        let (from, to) = (from.to_expr(&mut kernel.arena), to.to_expr(&mut kernel.arena));
        let element = kernel.load(self.from, from);
        let dtype = kernel.arena.dtype(self.value);
        let value = kernel.arena.cast(dtype, element);
        let mut s = kernel.store(buffer, to, value);
        for (var, n) in vars.into_iter().rev() {
            let (extent, body) = (kernel.arena.index(n), kernel.stmts.body(&[s]));
            let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
            s = kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints: Hints::default(), body }));
        }
        out.push(s);
        (buffer, index.to_expr(&mut kernel.arena))
    }
}
