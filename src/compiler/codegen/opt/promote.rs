//! Scalar replacement: promotes array elements to registers while a loop works on them.
//!
//! ```text
//! for k in 64: C[i] = C[i] + A[k]
//! // becomes
//! c = C[i]
//! for k in 64: c = c + A[k]
//! C[i] = c
//! ```
//!
//! An element qualifies if its index is invariant in the loop, every other access to its buffer inside is to the same
//! element or to a provably different one, and each iteration accesses it unconditionally: then it can be loaded before
//! the loop and stored after it. Loops are processed from the outside in, so that an element is loaded as rarely as
//! possible. Elements that straight-line statements store repeatedly, such as those of an unrolled reduction, are
//! promoted as well.

use super::machine::Machine;
use super::walk::replace_loops;
use crate::codegen::facts::{may_stop, reads_state};
use crate::ir::BinOp;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, map_operands, mentions_var};
use crate::loopir::{
    Affine, Body, BufferId, Expr, ExprId, For, Kernel, LocalId, LoopKind, Stmt, StmtId, Storage, Ty, VarId,
};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

/// Promotes elements in all loops of the kernel.
pub(super) fn promote(kernel: &mut Kernel, machine: &Machine) {
    kernel.body = body(kernel, kernel.body, machine, machine.vectors.registers - 2);
}

/// `free` is the number of vector registers that enclosing loops leave free.
fn body(kernel: &mut Kernel, old: Body, machine: &Machine, free: usize) -> Body {
    let new = replace_loops(kernel, old, &mut |kernel, s, l, out| for_loop(kernel, s, l, machine, free, out));
    straight_runs(kernel, new, machine, free)
}

/// Promotes elements that straight-line statements store repeatedly.
fn straight_runs(kernel: &mut Kernel, old: Body, machine: &Machine, free: usize) -> Body {
    let stmts = kernel.stmts.list(old).to_vec();
    let is_straight = |kernel: &Kernel, s: StmtId| {
        matches!(kernel.stmts.get(s), Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. })
    };
    let mut out: Vec<StmtId> = Vec::with_capacity(stmts.len());
    let mut rest = &stmts[..];
    while !rest.is_empty() {
        let straight = rest.iter().take_while(|&&s| is_straight(kernel, s)).count();
        let (mut run, others) = rest.split_at(straight);
        for n in closed_parts(kernel, run) {
            let (part, behind) = run.split_at(n);
            straight_run(kernel, part, machine, free, &mut out);
            run = behind;
        }
        let loops = others.iter().take_while(|&&s| !is_straight(kernel, s)).count();
        out.extend(&others[..loops]);
        rest = &others[loops..];
    }
    if stmts == out { old } else { kernel.stmts.body(&out) }
}

/// Divides statements, as often as possible, such that each element that is stored repeatedly is accessed in one part only:
/// behind a part, registers are free again. Returns the length of each.
fn closed_parts(kernel: &Kernel, run: &[StmtId]) -> Vec<usize> {
    // The first and the last access of each element, and the number of stores.
    let mut spans: HashMap<(BufferId, ExprId, Ty), (usize, usize, usize), FxBuild> = HashMap::default();
    for (at, &s) in run.iter().enumerate() {
        let stmt = kernel.stmts.get(s);
        if let Stmt::Store { buffer, index, value } = stmt {
            let span = spans.entry((buffer, index, kernel.arena.ty(value))).or_insert((at, at, 0));
            *span = (span.0, at, span.2 + 1);
        }
    }
    for (at, &s) in run.iter().enumerate() {
        for_each_operand(kernel.stmts.get(s), |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(buffer, index) = kernel.arena.expr(e)
                    && let Some(span) = spans.get_mut(&(buffer, index, kernel.arena.ty(e)))
                {
                    span.1 = span.1.max(at);
                }
            });
        });
    }
    let mut reach = vec![0; run.len()];
    for &(first, last, stores) in spans.values() {
        if stores > 1 {
            reach[first] = reach[first].max(last);
        }
    }
    let (mut parts, mut begin, mut open) = (Vec::new(), 0, 0);
    for (at, &until) in reach.iter().enumerate() {
        open = open.max(until);
        if open <= at {
            parts.push(at + 1 - begin);
            begin = at + 1;
        }
    }
    parts
}

fn straight_run(kernel: &mut Kernel, run: &[StmtId], machine: &Machine, free: usize, out: &mut Vec<StmtId>) {
    let stores = |s: &&StmtId| matches!(kernel.stmts.get(**s), Stmt::Store { .. });
    if run.iter().filter(stores).count() < 2 || run.iter().any(|&s| may_stop(kernel, kernel.stmts.get(s))) {
        return out.extend(run);
    }
    let body = kernel.stmts.body(run);
    let mut promoted = elements(kernel, body, &[], machine, &mut { free });
    promoted.retain(|e| e.n_stores > 1);
    if promoted.is_empty() {
        return out.extend(run);
    }
    let kept = keep(kernel, body, &promoted);
    out.extend(kept.before);
    out.extend(kernel.stmts.list(kept.body));
    out.extend(kept.after);
}

fn for_loop(kernel: &mut Kernel, s: StmtId, l: For, machine: &Machine, free: usize, out: &mut Vec<StmtId>) {
    let mut l = l;
    let mut after = Vec::new();
    let mut free = free;
    let left = free;
    let promoted = match may_promote(kernel, &l) {
        true => elements(kernel, l.body, &[l.var], machine, &mut free),
        false => Vec::new(),
    };
    if !promoted.is_empty() {
        let kept = keep(kernel, l.body, &promoted);
        let new = For { body: kept.body, ..l };
        // No vectors are kept in registers across a loop that is too long for that.
        if !promoted.iter().any(|e| e.ty.is_vector()) || machine.keeps_vectors(kernel, &new) {
            l = new;
            out.extend(kept.before);
            after = kept.after;
        } else {
            free = left;
        }
    }
    l.body = body(kernel, l.body, machine, free);
    let same = kernel.stmts.get(s) == Stmt::For(l);
    out.push(if same { s } else { kernel.stmts.push(Stmt::For(l)) });
    out.extend(after);
}

/// A body that works on registers, with the loads before it and the stores after it.
struct Kept {
    before: Vec<StmtId>,
    body: Body,
    after: Vec<StmtId>,
}

/// Replaces elements by registers.
fn keep(kernel: &mut Kernel, body: Body, promoted: &[Element]) -> Kept {
    let mut replacement = Replacement::default();
    for e in promoted {
        let local = kernel.arena.new_local(kernel.buffer(e.buffer).name, e.ty);
        replacement.locals.insert((e.buffer, e.index, e.ty), local);
    }
    let body = replacement.body(kernel, body);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for e in promoted {
        let local = replacement.locals[&(e.buffer, e.index, e.ty)];
        if e.is_read_first {
            let value = kernel.arena.load(e.buffer, e.index, e.ty);
            before.push(kernel.stmts.push(Stmt::Set { local, value }));
        }
        let value = kernel.arena.local_expr(local);
        after.push(kernel.stmts.push(Stmt::Store { buffer: e.buffer, index: e.index, value }));
    }
    Kept { before, body, after }
}

/// Whether the loop runs at least once, on one thread, with nothing parallel inside, and nothing that may stop the
/// kernel, since memory must then hold what was stored.
fn may_promote(kernel: &Kernel, l: &For) -> bool {
    let mut serial = l.kind != LoopKind::Parallel && kernel.arena.as_int(l.extent).is_some_and(|n| n > 0);
    kernel.for_each_stmt(l.body, &mut |_, stmt| {
        serial &= !matches!(stmt, Stmt::For(For { kind: LoopKind::Parallel, .. }));
    });
    serial && !may_stop(kernel, Stmt::For(*l))
}

/// An element, or several contiguous ones, accessed in a loop.
#[derive(Clone, Debug)]
struct Element {
    buffer: BufferId,
    index: ExprId,
    ty: Ty,
    /// Whether the first access of an iteration is a load.
    is_read_first: bool,
    /// Whether every iteration accesses it.
    is_certain: bool,
    /// Number of statements that store it.
    n_stores: usize,
}

/// The promotable elements in statements, all of which run for each value of the counters.
fn elements(kernel: &Kernel, body: Body, counters: &[VarId], machine: &Machine, free: &mut usize) -> Vec<Element> {
    let mut found = Accesses { inner: counters.to_vec(), ..Accesses::default() };
    found.written(kernel, body);
    if found.of.is_empty() {
        return Vec::new();
    }
    found.body(kernel, body, true);
    let mut chosen = Vec::new();
    for (buffer, _) in kernel.buffers() {
        let Some(Some(elements)) = found.of.remove(&buffer) else { continue };
        if !elements.iter().any(|e| e.n_stores > 0) || !are_apart(kernel, &elements, &found.inner) {
            continue;
        }
        for e in elements {
            let changes = mentions_var(&kernel.arena, e.index, &mut |v| found.inner.contains(&v));
            // Uninitialised scratch must not be loaded.
            let defined = e.is_read_first || matches!(kernel.buffer(buffer).storage, Storage::Param(_)) || e.is_certain;
            if e.n_stores > 0 && e.is_certain && !changes && !reads_state(&kernel.arena, e.index) && defined {
                chosen.push(e);
            }
        }
    }
    let needed: usize = chosen.iter().map(|e| registers(machine, e.ty)).sum();
    if needed > *free {
        return Vec::new();
    }
    *free -= needed;
    chosen
}

fn registers(machine: &Machine, ty: Ty) -> usize {
    machine.vectors.registers_of(ty.dtype, ty.lanes as usize)
}

/// Whether any two elements are equal or disjoint.
fn are_apart(kernel: &Kernel, elements: &[Element], inner: &[VarId]) -> bool {
    let arena = &kernel.arena;
    let views: Vec<Affine> = elements.iter().map(|e| Affine::of(arena, e.index)).collect();
    for (i, a) in elements.iter().enumerate() {
        for (j, b) in elements.iter().enumerate().skip(i + 1) {
            let difference = views[j].minus(&views[i]);
            // The values of inner variables differ between iterations, even if indices look equal.
            let moves = |x: &Element| mentions_var(arena, x.index, &mut |v| inner.contains(&v));
            let Some(d) = difference.as_constant().filter(|_| !moves(a) && !moves(b)) else { return false };
            let apart = d >= a.ty.lanes as i64 || -d >= b.ty.lanes as i64;
            if !apart {
                return false;
            }
        }
    }
    true
}

/// The accesses in a loop's body, by buffer.
#[derive(Default)]
struct Accesses {
    /// Elements of the written buffers; `None` for those with too many elements.
    of: HashMap<BufferId, Option<Vec<Element>>, FxBuild>,
    /// Variables bound inside the loop.
    inner: Vec<VarId>,
}

/// Maximum number of elements of a buffer: more would not fit the registers.
const MAX_ELEMENTS: usize = 32;

impl Accesses {
    /// The written buffers with their invariant elements.
    fn written(&mut self, kernel: &Kernel, body: Body) {
        let mut bound: SmallVec<[VarId; 8]> = SmallVec::from_slice(&self.inner);
        let mut stores: SmallVec<[(BufferId, ExprId); 32]> = SmallVec::new();
        kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
            Stmt::For(For { var, .. }) | Stmt::Let { var, .. } => bound.push(var),
            Stmt::Store { buffer, index, .. } => stores.push((buffer, index)),
            Stmt::If { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        });
        for (buffer, index) in stores {
            if !self.of.contains_key(&buffer) && !mentions_var(&kernel.arena, index, &mut |v| bound.contains(&v)) {
                self.of.insert(buffer, Some(Vec::new()));
            }
        }
    }

    fn body(&mut self, kernel: &Kernel, body: Body, certain: bool) {
        for &s in kernel.stmts.list(body) {
            let stmt = kernel.stmts.get(s);
            for_each_operand(stmt, |e| self.expr(kernel, e, certain));
            match stmt {
                Stmt::For(l) => {
                    self.inner.push(l.var);
                    let runs = kernel.arena.as_int(l.extent).is_some_and(|n| n > 0);
                    self.body(kernel, l.body, certain && runs);
                }
                Stmt::If { then, otherwise, .. } => {
                    self.body(kernel, then, false);
                    self.body(kernel, otherwise, false);
                }
                Stmt::Store { buffer, index, value } => {
                    let ty = kernel.arena.ty(value);
                    self.access(Element { buffer, index, ty, is_read_first: false, is_certain: certain, n_stores: 1 });
                }
                Stmt::Let { var, .. } => self.inner.push(var),
                Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
            }
        }
    }

    fn expr(&mut self, kernel: &Kernel, e: ExprId, certain: bool) {
        self.operand(kernel, e, certain, &mut HashSet::default());
    }

    fn operand(&mut self, kernel: &Kernel, e: ExprId, certain: bool, seen: &mut HashSet<(ExprId, bool), FxBuild>) {
        if !seen.insert((e, certain)) {
            return;
        }
        let arena = &kernel.arena;
        match arena.expr(e) {
            Expr::Load(buffer, index) => {
                self.operand(kernel, index, certain, seen);
                let ty = arena.ty(e);
                self.access(Element { buffer, index, ty, is_read_first: true, is_certain: certain, n_stores: 0 });
            }
            // A conditionally evaluated load is not a certain access.
            Expr::IfThenElse(first, ..) | Expr::Binary(BinOp::And | BinOp::Or, first, _) => {
                arena.for_each_child(e, |c| self.operand(kernel, c, certain && c == first, seen));
            }
            _ => arena.for_each_child(e, |c| self.operand(kernel, c, certain, seen)),
        }
    }

    fn access(&mut self, e: Element) {
        let Some(slot) = self.of.get_mut(&e.buffer) else { return };
        let Some(elements) = slot else { return };
        match elements.iter_mut().find(|x| x.index == e.index && x.ty == e.ty) {
            Some(x) => {
                x.is_certain |= e.is_certain;
                x.n_stores += e.n_stores;
            }
            None => {
                // A conditional store may leave the old value, which must therefore be in the register.
                elements.push(Element { is_read_first: e.is_read_first || !e.is_certain, ..e });
                if elements.len() > MAX_ELEMENTS {
                    *slot = None;
                }
            }
        }
    }
}

/// Replaces accesses to elements by registers.
#[derive(Default)]
struct Replacement {
    locals: HashMap<(BufferId, ExprId, Ty), LocalId, FxBuild>,
    memo: ExprMap,
}

impl Replacement {
    fn body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
            let Replacement { locals, memo } = self;
            let mut new = map_operands(stmt, |e| {
                map_expr(&mut kernel.arena, e, memo, &mut |arena, e| {
                    let Expr::Load(buffer, index) = arena.expr(e) else { return None };
                    let local = *locals.get(&(buffer, index, arena.ty(e)))?;
                    Some(arena.local_expr(local))
                })
            });
            if let Stmt::Store { buffer, index, value } = new
                && let Some(&local) = locals.get(&(buffer, index, kernel.arena.ty(value)))
            {
                new = Stmt::Set { local, value };
            }
            out.push(if new == stmt { id } else { kernel.stmts.push(new) });
        })
    }
}
