//! Chooses memory layouts: the part of an allocation that is stored, and its owner.
//!
//! ```text
//! B: 128 x 128, of which each iteration of i, j fills and reads rows i * 8 .. i * 8 + 8 and 16 columns
//! # becomes
//! B: 8 x 16, indexed by the distance from i * 8 and j * 16
//! ```
//!
//! All accesses of a buffer share some loops, outermost first. An index is a sum over those loops plus a rest with a
//! known range. If all accesses have the same sum, only the rest must be stored, provided that each iteration of the
//! shared loops writes the elements that it reads; otherwise values that one iteration leaves for another would be
//! lost.
//!
//! A buffer whose accesses share a parallel loop belongs to the worker (compare TVM's `CompactBufferAllocation`, and
//! the placement of its `PlanAndUpdateBufferAllocationLocation`).

use super::blocks::{Draft, MAX_LEN, compact_strides};
use super::view::{Digit, are_independent, is_dense, only_over, split};
use crate::ir::CmpOp;
use crate::ir::alignment::DimAlign;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{
    Affine, Body, BufferId, Expr, ExprId, LoopKind, Placement, Range, Stmt, StmtId, Storage, Ty, VarId,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// An access and its position in the kernel.
pub(super) struct Use {
    pub token: usize,
    pub is_store: bool,
    pub stmt: StmtId,
    /// The enclosing loops, outermost first.
    pub loops: SmallVec<[VarId; 8]>,
    /// The conditions of the enclosing `if`s that hold here.
    pub conditions: SmallVec<[ExprId; 2]>,
    /// Whether the access is under an `else`.
    pub in_else: bool,
}

/// All accesses of a kernel, in text order, a statement's loads before its store.
pub(super) struct Uses {
    pub all: Vec<Use>,
    /// Positions in `all` for each buffer.
    pub of: Vec<Vec<usize>>,
    pub kinds: HashMap<VarId, LoopKind, FxBuild>,
}

/// Finds all accesses.
pub(super) fn uses(draft: &Draft) -> Uses {
    let of = vec![Vec::new(); draft.kernel.n_buffers()];
    let mut finder = Finder {
        draft,
        uses: Uses { all: Vec::new(), of, kinds: HashMap::default() },
        loops: SmallVec::new(),
        conditions: SmallVec::new(),
        in_else: false,
    };
    finder.body(draft.kernel.body);
    finder.uses
}

struct Finder<'a> {
    draft: &'a Draft,
    uses: Uses,
    loops: SmallVec<[VarId; 8]>,
    conditions: SmallVec<[ExprId; 2]>,
    in_else: bool,
}

impl Finder<'_> {
    fn body(&mut self, body: Body) {
        for &s in self.draft.kernel.stmts.list(body) {
            let stmt = self.draft.kernel.stmts.get(s);
            // The index of a store is a token, whose indices may contain loads.
            for_each_operand(stmt, |e| self.expr(e, s));
            match stmt {
                Stmt::Store { index, .. } => self.found(index, s, true),
                Stmt::For(l) => {
                    self.uses.kinds.insert(l.var, l.kind);
                    self.loops.push(l.var);
                    self.body(l.body);
                    self.loops.pop();
                }
                Stmt::If { condition, then, otherwise } => {
                    self.conditions.push(condition);
                    self.body(then);
                    self.conditions.pop();
                    let before = std::mem::replace(&mut self.in_else, true);
                    self.body(otherwise);
                    self.in_else = before;
                }
                Stmt::While { body, .. } => {
                    // The body may not run at all, and its later statements may run before earlier ones.
                    let before = std::mem::replace(&mut self.in_else, true);
                    self.body(body);
                    self.in_else = before;
                }
                Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => {}
            }
        }
    }

    fn expr(&mut self, e: ExprId, s: StmtId) {
        let draft = self.draft;
        for_each_expr(&draft.kernel.arena, e, &mut |e| match draft.kernel.arena.expr(e) {
            Expr::Load(_, index) => self.found(index, s, false),
            Expr::Var(_) => {
                if let Some(token) = draft.token(e) {
                    // The loads in the indices.
                    draft.tokens[token].dims.iter().for_each(|&d| self.expr(d, s));
                }
            }
            _ => {}
        });
    }

    fn found(&mut self, index: ExprId, stmt: StmtId, is_store: bool) {
        let Some(token) = self.draft.token(index) else { return };
        self.uses.of[self.draft.tokens[token].buffer.index()].push(self.uses.all.len());
        let (loops, conditions) = (self.loops.clone(), self.conditions.clone());
        self.uses.all.push(Use { token, is_store, stmt, loops, conditions, in_else: self.in_else });
    }
}

/// The memory layout of a buffer: `offset + Σ (index - base) * stride`.
pub(super) struct Layout {
    /// For each dimension, the base that is subtracted from the index.
    pub bases: SmallVec<[Affine; 4]>,
    pub strides: SmallVec<[i64; 4]>,
    pub offset: i64,
    /// Whether each index minus its base is below the extent by construction; otherwise a proof or a check is
    /// necessary.
    pub is_compacted: SmallVec<[bool; 4]>,
    pub extents: SmallVec<[i64; 4]>,
}

/// Chooses the layout of every buffer; scratch gets its size and placement.
pub(super) fn place(draft: &mut Draft, uses: &Uses, extents: Vec<Extent>) -> Vec<Layout> {
    let ids: Vec<BufferId> = draft.kernel.buffers().map(|(id, _)| id).collect();
    ids.into_iter()
        .zip(extents)
        .map(|(b, extent)| match draft.kernel.buffer(b).storage {
            Storage::Param(_) => whole(draft, b),
            Storage::Scratch(_) => scratch(draft, b, uses, extent),
        })
        .collect()
}

fn whole(draft: &Draft, b: BufferId) -> Layout {
    let shape = &draft.shapes[b.index()];
    let rank = shape.extents.len();
    Layout {
        bases: SmallVec::from_elem(Affine::default(), rank),
        strides: shape.strides.clone(),
        offset: shape.offset,
        is_compacted: SmallVec::from_elem(false, rank),
        extents: shape.extents.clone(),
    }
}

/// The loops that all uses share, outermost first.
fn shared_loops(uses: &Uses, positions: &[usize]) -> SmallVec<[VarId; 8]> {
    let Some((&first, rest)) = positions.split_first() else { return SmallVec::new() };
    let mut shared = uses.all[first].loops.clone();
    for &u in rest {
        let other = &uses.all[u].loops;
        let n = shared.iter().zip(other).take_while(|(a, b)| a == b).count();
        shared.truncate(n);
    }
    shared
}

/// The range of an access in one dimension, relative to the shared loops.
struct Reach {
    outer: Affine,
    inner: Range,
    terms: SmallVec<[(ExprId, i64); 4]>,
}

/// The common part of a buffer's accesses.
pub(super) struct Extent {
    /// The loops around all accesses, outermost first.
    shared: SmallVec<[VarId; 8]>,
    /// For each dimension, the ranges of the accesses; `None` if their bases differ, or a range is unbounded.
    reaches: Vec<Option<Vec<Reach>>>,
    /// Number of shared loops around the allocation.
    fresh: usize,
    /// Whether each iteration of the shared loops stores every element before it loads it.
    is_filled: bool,
}

impl Extent {
    /// Whether every iteration of the loop starts without values of others in the buffer.
    pub(super) fn is_private_to(&self, v: VarId) -> bool {
        match self.shared.iter().position(|&w| w == v) {
            Some(position) => position < self.fresh || self.is_filled,
            None => false,
        }
    }
}

/// Computes the extents of every buffer; those of parameters are empty.
pub(super) fn extents(draft: &mut Draft, uses: &Uses) -> Vec<Extent> {
    let ids: Vec<(BufferId, bool)> = draft.kernel.buffers().map(|(id, b)| (id, b.is_param())).collect();
    ids.into_iter()
        .map(|(b, is_param)| {
            let positions = &uses.of[b.index()];
            if is_param || positions.is_empty() {
                return Extent { shared: SmallVec::new(), reaches: Vec::new(), fresh: 0, is_filled: false };
            }
            let shared = shared_loops(uses, positions);
            let rank = draft.shapes[b.index()].extents.len();
            let reaches: Vec<_> = (0..rank).map(|d| dimension(draft, uses, positions, &shared, d)).collect();
            let fresh = draft.shapes[b.index()].loops.len().min(shared.len());
            let is_filled = fills_before_reading(draft, uses, positions, &shared, &reaches);
            Extent { shared, reaches, fresh, is_filled }
        })
        .collect()
}

fn scratch(draft: &mut Draft, b: BufferId, uses: &Uses, extent: Extent) -> Layout {
    let Extent { shared, reaches, fresh, is_filled } = extent;
    let is_private = shared.iter().any(|v| uses.kinds.get(v) == Some(&LoopKind::Parallel));
    let mut layout = whole(draft, b);
    let between = &shared[fresh..];
    let arena = &draft.kernel.arena;
    for (d, reach) in reaches.into_iter().enumerate() {
        let Some(reach) = reach else { continue };
        let Some(kept) = reach.iter().map(|r| r.inner).reduce(Range::union) else { continue };
        let Some(len) = kept.size().filter(|&n| n < layout.extents[d]) else { continue };
        let mut base = reach.into_iter().next().map(|r| r.outer).unwrap_or_default();
        let moves = base.terms.iter().any(|&(atom, _)| !only_over(arena, atom, &mut |v| !between.contains(&v)));
        if moves && !is_filled {
            continue;
        }
        base.constant = kept.lo;
        layout.bases[d] = base;
        layout.extents[d] = len;
        layout.is_compacted[d] = true;
    }
    let (strides, len) = aligned_strides(&layout.extents, &draft.shapes[b.index()].aligned);
    layout.strides = strides;
    let buffer = draft.kernel.buffer_mut(b);
    buffer.len = len;
    buffer.storage = Storage::Scratch(if is_private { Placement::PerWorker } else { Placement::Shared });
    layout
}

/// Strides of a row-major buffer, rounded up to the alignment requests, and the number of its elements. If the buffer
/// would not fit memory, its strides stay compact.
fn aligned_strides(extents: &[i64], requests: &[DimAlign]) -> (SmallVec<[i64; 4]>, i64) {
    let mut strides = SmallVec::from_elem(1, extents.len());
    let mut stride: i64 = 1;
    for (d, &extent) in extents.iter().enumerate().rev() {
        let request = requests.iter().find(|r| usize::try_from(r.axis) == Ok(d));
        let own = request.and_then(|r| r.round_up(stride)).filter(|&s| s < MAX_LEN).unwrap_or(stride);
        strides[d] = own;
        match own.checked_mul(extent).filter(|&s| s < MAX_LEN) {
            Some(next) => stride = next,
            None => return (compact_strides(extents), extents.iter().product()),
        }
    }
    (strides, stride)
}

/// The ranges of the accesses in a dimension; `None` if their bases differ, or a range is unbounded.
fn dimension(draft: &mut Draft, uses: &Uses, positions: &[usize], outer: &[VarId], d: usize) -> Option<Vec<Reach>> {
    let mut reaches: Vec<Reach> = Vec::with_capacity(positions.len());
    for &u in positions {
        let index = draft.tokens[uses.all[u].token].dims[d];
        let parts = split(&draft.kernel.arena, &mut draft.ranges, index, &mut |v| outer.contains(&v))?;
        if reaches.first().is_some_and(|r| r.outer != parts.outer) {
            return None;
        }
        reaches.push(Reach { outer: parts.outer, inner: parts.inner, terms: parts.terms });
    }
    Some(reaches)
}

/// Whether each iteration of the shared loops stores every element of the buffer before it loads it.
///
/// The first stores must cover, without gaps, the ranges of all accesses. Conditions around them may only keep indices
/// inside the buffer.
fn fills_before_reading(
    draft: &mut Draft,
    uses: &Uses,
    positions: &[usize],
    outer: &[VarId],
    reaches: &[Option<Vec<Reach>>],
) -> bool {
    let Some(first_use) = positions.first().map(|&u| &uses.all[u]) else { return false };
    if !first_use.is_store || first_use.in_else {
        return false;
    }
    let token = first_use.token;
    // A load in a loop of the first store, inside the shared ones, precedes later iterations of that store: each of its
    // iterations must store the element that it loads.
    let own_loop = first_use.loops.get(outer.len()).copied();
    let in_own_loop = |u: &usize| own_loop.is_some() && uses.all[*u].loops.get(outer.len()).copied() == own_loop;
    let entwined: Vec<usize> = positions.iter().copied().filter(in_own_loop).collect();
    if entwined.iter().any(|&u| uses.all[u].token != token) {
        let shared = shared_loops(uses, &entwined);
        let inside: Vec<_> = (0..reaches.len()).map(|d| dimension(draft, uses, &entwined, &shared, d)).collect();
        if !fills_before_reading(draft, uses, &entwined, &shared, &inside) {
            return false;
        }
    }
    if !conditions_only_clip(draft, uses, first_use) {
        return false;
    }
    let mut digits: SmallVec<[Digit; 4]> = SmallVec::new();
    for (d, reach) in reaches.iter().enumerate() {
        // Without a common base, nothing is known about the stored elements.
        let Some(reach) = reach else { return false };
        let Some(stored) = reach.first() else { return false };
        let whole = Range { lo: 0, hi: draft.shapes[draft.tokens[token].buffer.index()].extents[d] - 1 };
        let Some(own) = is_dense(&draft.kernel.arena, &draft.ranges, &stored.terms) else { return false };
        digits.extend(own);
        let covers = |r: &Reach| {
            // Elements outside the buffer need not be stored.
            let outer = if r.outer.terms.is_empty() { r.inner.intersect(whole) } else { r.inner };
            outer.within(stored.inner)
        };
        if !reach.iter().all(covers) {
            return false;
        }
    }
    are_independent(&draft.ranges, &digits)
}

/// Whether the conditions around the access, except those around all accesses of the buffer, only keep its indices
/// inside the buffer.
fn conditions_only_clip(draft: &mut Draft, uses: &Uses, access: &Use) -> bool {
    let buffer = draft.tokens[access.token].buffer;
    let everywhere = |c: &ExprId| uses.of[buffer.index()].iter().all(|&u| uses.all[u].conditions.contains(c));
    let own: Vec<ExprId> = access.conditions.iter().copied().filter(|c| !everywhere(c)).collect();
    own.into_iter().all(|c| clips(draft, access.token, c))
}

fn clips(draft: &mut Draft, token: usize, condition: ExprId) -> bool {
    let arena = &draft.kernel.arena;
    match arena.expr(condition) {
        Expr::Binary(crate::ir::BinOp::And, a, b) => clips(draft, token, a) && clips(draft, token, b),
        Expr::Compare(op, a, b) if arena.ty(a) == Ty::INDEX => {
            let difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
            let token = &draft.tokens[token];
            let extents = &draft.shapes[token.buffer.index()].extents;
            token.dims.iter().zip(extents).any(|(&index, &extent)| {
                let index = Affine::of(arena, index);
                let shift = difference.minus(&index).as_constant();
                let mirrored = difference.minus(&Affine::default().minus(&index)).as_constant();
                match (op, shift, mirrored) {
                    // index + c < 0: below the extent.
                    (CmpOp::Lt, Some(c), _) => c <= -extent,
                    (CmpOp::Le, Some(c), _) => c <= 1 - extent,
                    (CmpOp::Ge, Some(c), _) => c >= 0,
                    (CmpOp::Gt, Some(c), _) => c >= 1,
                    // c - index > 0: the mirrored form.
                    (CmpOp::Gt, _, Some(c)) => c >= extent,
                    (CmpOp::Ge, _, Some(c)) => c >= extent - 1,
                    (CmpOp::Le, _, Some(c)) => c <= 0,
                    (CmpOp::Lt, _, Some(c)) => c <= -1,
                    (CmpOp::Lt | CmpOp::Le | CmpOp::Ge | CmpOp::Gt | CmpOp::Eq | CmpOp::Ne, ..) => false,
                }
            })
        }
        _ => false,
    }
}
