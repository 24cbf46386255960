//! Recognises accumulation nests: loops around a single statement `C[…] = C[…] op …`, with its initialisation.

use crate::codegen::facts::{can_fail, loads};
use crate::ir::{BinOp, CmpOp};
use crate::loopir::rewrite::{for_each_expr, mentions_var};
use crate::loopir::{
    Affine, Arena, Body, BufferId, Expr, ExprId, For, Iterations, Kernel, LoopKind, Stmt, StmtId, VarId,
};

/// The role of a loop in a nest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Iterations write different elements.
    Space,
    /// Iterations accumulate into the same elements.
    Reduction,
}

/// A loop of a nest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub l: For,
    pub role: Role,
    /// Distance of the elements that successive iterations write.
    pub stride: i64,
    pub extent: Option<i64>,
}

/// An initialising store to the same elements.
#[derive(Clone, Debug)]
pub(super) struct Init {
    pub value: ExprId,
    /// Conditions besides being in the first iteration of each reduction loop.
    pub guards: Vec<ExprId>,
}

/// A perfect nest around one accumulation. Every spatial iteration writes an element of its own, so the loops may be
/// interchanged as long as reduction loops keep their order: each element then sees the same operations in the same
/// order.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// The loops, outermost first.
    pub levels: Vec<Level>,
    pub buffer: BufferId,
    pub index: ExprId,
    pub value: ExprId,
    pub init: Option<Init>,
}

impl Nest {
    /// The nest that starts with this loop, if it is one.
    pub(super) fn of(kernel: &Kernel, outer: For) -> Option<Nest> {
        let mut loops = vec![outer];
        let mut body = outer.body;
        // A store before the reduction loops, and the number of loops around it.
        let mut before = None;
        let (init, buffer, index, value) = loop {
            match *kernel.stmts.list(body) {
                [s] => match kernel.stmts.get(s) {
                    Stmt::For(l) => {
                        loops.push(l);
                        body = l.body;
                    }
                    Stmt::Store { buffer, index, value } => break (None, buffer, index, value),
                    Stmt::If { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {
                        return None;
                    }
                },
                [first, s] => match (kernel.stmts.get(first), kernel.stmts.get(s)) {
                    (Stmt::If { condition, then, otherwise }, Stmt::Store { buffer, index, value })
                        if otherwise.is_empty() =>
                    {
                        break (Some((condition, then)), buffer, index, value);
                    }
                    (Stmt::Store { buffer, index, value }, Stmt::For(l)) if before.is_none() => {
                        before = Some((buffer, index, value, loops.len()));
                        loops.push(l);
                        body = l.body;
                    }
                    _ => return None,
                },
                _ => return None,
            }
        };
        let arena = &kernel.arena;
        if !updates(arena, buffer, index, value) || loops.iter().any(|l| l.kind == LoopKind::Parallel) {
            return None;
        }
        let affine = Affine::of(arena, index);
        let is_loop = |v: VarId| loops.iter().any(|l| l.var == v);
        if affine.terms.iter().any(|t| arena.as_var(t.0).is_none() && mentions_var(arena, t.0, &mut |v| is_loop(v))) {
            return None;
        }
        let levels: Vec<Level> = loops
            .iter()
            .map(|&l| {
                let stride = affine.coefficient_of(arena, l.var);
                let role = if stride == 0 { Role::Reduction } else { Role::Space };
                Level { l, role, stride, extent: arena.as_int(l.extent) }
            })
            .collect();
        let space = || levels.iter().filter(|l| l.role == Role::Space);
        if !space().all(|l| l.l.iterations == Iterations::Independent) && !are_distinct(&levels) {
            return None;
        }
        // A loop whose extent depends on an outer loop must stay inside it.
        if levels.iter().any(|l| mentions_var(arena, l.l.extent, &mut |v| is_loop(v))) {
            return None;
        }
        let init = match (init, before) {
            (None, None) => None,
            (Some((condition, then)), None) => Some(Self::init(kernel, &levels, condition, then, buffer, index)?),
            (None, Some((to, at, value, n_around))) => {
                let (around, inside) = levels.split_at(n_around);
                let is_reduction = |l: &Level| l.role == Role::Reduction;
                // Each element is stored once, and then updated at least once.
                let fits = (to, at) == (buffer, index)
                    && !loads(arena, value, buffer)
                    && !around.iter().any(is_reduction)
                    && inside.iter().all(|l| is_reduction(l) && l.extent.is_some_and(|n| n > 0));
                if !fits {
                    return None;
                }
                Some(Init { value, guards: Vec::new() })
            }
            (Some(_), Some(_)) => return None,
        };
        Some(Nest { levels, buffer, index, value, init })
    }

    fn init(
        kernel: &Kernel,
        levels: &[Level],
        condition: ExprId,
        then: Body,
        buffer: BufferId,
        index: ExprId,
    ) -> Option<Init> {
        let arena = &kernel.arena;
        let &[s] = kernel.stmts.list(then) else { return None };
        let Stmt::Store { buffer: to, index: at, value } = kernel.stmts.get(s) else { return None };
        if (to, at) != (buffer, index) || loads(arena, value, buffer) {
            return None;
        }
        let is_reduction = |v: VarId| levels.iter().any(|l| l.l.var == v && l.role == Role::Reduction);
        let (mut zero, mut guards) = (Vec::new(), Vec::new());
        conjuncts(arena, condition, &mut |c| match zero_vars(arena, c) {
            Some(vars) if vars.iter().all(|&v| is_reduction(v)) => zero.extend(vars),
            _ => guards.push(c),
        });
        // All elements are initialised before the first is updated.
        if guards.iter().any(|&g| loads(arena, g, buffer)) {
            return None;
        }
        // A reduction without iterations would not initialise the element either.
        let mut reductions = levels.iter().filter(|l| l.role == Role::Reduction);
        if !reductions.all(|l| zero.contains(&l.l.var) && l.extent.is_some_and(|n| n > 0)) {
            return None;
        }
        let varies = |e| mentions_var(arena, e, &mut |v| is_reduction(v));
        (!guards.iter().any(|&g| varies(g)) && !varies(value)).then_some(Init { value, guards })
    }

    /// Number of reduction loops.
    pub(super) fn n_reductions(&self) -> usize {
        self.levels.iter().filter(|l| l.role == Role::Reduction).count()
    }
}

/// Whether `buffer[index] = value` combines the old element with an operand that does not depend on it, and does
/// nothing else.
fn updates(arena: &Arena, buffer: BufferId, index: ExprId, value: ExprId) -> bool {
    let (mut same, mut other) = (false, false);
    for_each_expr(arena, value, &mut |e| match arena.expr(e) {
        Expr::Load(b, i) if b == buffer && i == index => same = true,
        // The index of another load must not depend on the sum.
        Expr::Load(b, i) => other |= b == buffer || loads(arena, i, buffer),
        Expr::Local(_) => other = true,
        _ => other |= can_fail(arena, e) || arena.lanes(e) > 1,
    });
    same && !other
}

/// Whether spatial iterations provably write different elements, by their strides and extents.
fn are_distinct(levels: &[Level]) -> bool {
    let mut steps = Vec::new();
    for l in levels.iter().filter(|l| l.role == Role::Space) {
        let Some(n) = l.extent else { return false };
        steps.push((l.stride.unsigned_abs() as u128, n.max(1) as u128));
    }
    steps.sort_unstable();
    let mut reach = 0;
    steps.into_iter().all(|(stride, n)| {
        let apart = stride > reach;
        reach += stride * (n - 1);
        apart
    })
}

/// Calls `f` with each operand of a conjunction.
pub(super) fn conjuncts(arena: &Arena, condition: ExprId, f: &mut impl FnMut(ExprId)) {
    match arena.expr(condition) {
        Expr::Binary(BinOp::And, a, b) => {
            conjuncts(arena, a, f);
            conjuncts(arena, b, f);
        }
        _ => f(condition),
    }
}

/// The variables that a condition forces to 0: `v == 0`, or a sum of loop variables with positive factors equal to 0.
pub(super) fn zero_vars(arena: &Arena, condition: ExprId) -> Option<Vec<VarId>> {
    let Expr::Compare(CmpOp::Eq, a, b) = arena.expr(condition) else { return None };
    if arena.ty(a) != crate::loopir::Ty::INDEX {
        return None;
    }
    let difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
    if difference.constant != 0 || !difference.terms.iter().all(|t| t.1 > 0) {
        return None;
    }
    difference.terms.iter().map(|t| arena.as_var(t.0)).collect()
}

/// A nest that stores an invariant value, and the elements that it stores to.
pub(super) struct Fill {
    pub buffer: BufferId,
    pub value: ExprId,
    elements: Elements,
}

impl Fill {
    /// The statement as a fill nest, if it is one.
    pub(super) fn of(kernel: &Kernel, s: StmtId) -> Option<Fill> {
        let mut loops: Vec<For> = Vec::new();
        let mut s = s;
        loop {
            match kernel.stmts.get(s) {
                Stmt::For(l) if l.kind != LoopKind::Parallel => {
                    loops.push(l);
                    let &[inner] = kernel.stmts.list(l.body) else { return None };
                    s = inner;
                }
                Stmt::Store { buffer, index, value } => {
                    let is_loop = |v: VarId| loops.iter().any(|l| l.var == v);
                    if loads(&kernel.arena, value, buffer) || mentions_var(&kernel.arena, value, &mut |v| is_loop(v)) {
                        return None;
                    }
                    let elements = Elements::of(&kernel.arena, index, loops.iter())?;
                    return Some(Fill { buffer, value, elements });
                }
                Stmt::For(_)
                | Stmt::If { .. }
                | Stmt::Let { .. }
                | Stmt::Set { .. }
                | Stmt::Check { .. }
                | Stmt::While { .. } => {
                    return None;
                }
            }
        }
    }

    /// Whether it stores to exactly the elements that a nest accumulates into.
    pub(super) fn covers(&self, kernel: &Kernel, nest: &Nest) -> bool {
        let space = nest.levels.iter().filter(|l| l.role == Role::Space).map(|l| &l.l);
        self.buffer == nest.buffer && Elements::of(&kernel.arena, nest.index, space).is_some_and(|e| e == self.elements)
    }
}

/// The set of elements that an index over some loops takes, as strides and extents. Adjacent ones are merged, so that
/// equal lists mean equal sets however the loops are split.
#[derive(PartialEq, Eq)]
struct Elements {
    start: Affine,
    steps: Vec<(i64, i64)>,
}

impl Elements {
    fn of<'a>(arena: &Arena, index: ExprId, loops: impl Iterator<Item = &'a For>) -> Option<Elements> {
        let mut start = Affine::of(arena, index);
        let mut steps: Vec<(i64, i64)> = Vec::new();
        for l in loops {
            let n = arena.as_int(l.extent)?;
            let at = start.terms.iter().position(|t| arena.as_var(t.0) == Some(l.var))?;
            let (_, stride) = start.terms.remove(at);
            if stride <= 0 || mentions(arena, &start, l.var) {
                return None;
            }
            steps.push((stride, n));
        }
        steps.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (stride, n) in steps {
            match merged.last_mut() {
                Some(last) if last.0 * last.1 == stride => last.1 *= n,
                _ => merged.push((stride, n)),
            }
        }
        Some(Elements { start, steps: merged })
    }
}

fn mentions(arena: &Arena, affine: &Affine, var: VarId) -> bool {
    affine.terms.iter().any(|t| mentions_var(arena, t.0, &mut |v| v == var))
}
