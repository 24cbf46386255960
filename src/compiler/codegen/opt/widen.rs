//! Widens the expressions and statements of one iteration to several lanes.

use super::constant_lanes;
use super::vectorize::{LONGEST_PERIOD, period};
use crate::codegen::facts::{can_fail, fails, is_speculable};
use crate::codegen::wide::is_scatterable;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, CmpOp, DType, Intrinsic};
use crate::loopir::rewrite::{ExprMap, Substitution, for_each_expr, mentions_var, reads_memory};
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, For, Kernel, LoopKind, Stmt, StmtId, Ty, VarId};
use crate::machine::VectorUnit;
use crate::machine::register_tile::MOST_APART;
use hashbrown::HashSet;
use smallvec::SmallVec;

/// Widens the body of a loop to the iterations `base..base + lanes` of `var`.
pub(super) struct Widener {
    var: VarId,
    base: ExprId,
    lanes: u16,
    /// Whether the machine has masked vector loads.
    masks: bool,
    /// Whether these also exist for elements of 8 and 16 bits.
    narrow_masks: bool,
    /// Whether elements at any indices are loaded as vectors.
    gathers: bool,
    /// The first iteration, if it is a number: then what depends on the loop alone is computed now.
    first: Option<i64>,
    /// Whether the base is a multiple of the number of lanes.
    repeats: bool,
    /// Variables that differ between lanes.
    varying: HashSet<VarId, FxBuild>,
    memo: ExprMap,
    /// Inner variables, replaced by fresh ones.
    renamed: Substitution,
}

impl Widener {
    /// A widener for one vector of a loop.
    pub(super) fn new(var: VarId, base: ExprId, lanes: u16) -> Widener {
        Widener {
            var,
            base,
            lanes,
            masks: false,
            narrow_masks: false,
            gathers: false,
            first: None,
            repeats: false,
            varying: HashSet::from_iter([var]),
            memo: ExprMap::default(),
            renamed: Substitution::of(var, base),
        }
    }

    /// Sets whether the machine has masked vector loads.
    pub(super) fn with_masks(self, masks: bool) -> Widener {
        Widener { masks, ..self }
    }

    /// Sets that masked vector loads may be used, as far as the machine has them.
    pub(super) fn with_masks_of(self, vectors: &VectorUnit) -> Widener {
        Widener { narrow_masks: vectors.has_narrow_masks(), ..self.with_masks(vectors.has_regions()) }
    }

    /// Sets whether elements at any indices are loaded as vectors.
    pub(super) fn with_gathers(self, gathers: bool) -> Widener {
        Widener { gathers, ..self }
    }

    /// Sets that what depends on the loop alone becomes constants. The base must be a number.
    pub(super) fn with_constants(self, arena: &Arena) -> Widener {
        Widener { first: arena.as_int(self.base), ..self }
    }

    /// Sets that the base is a multiple of the number of lanes, so that what depends on remainders of the counter by divisors of that
    /// number is the same for each vector.
    pub(super) fn with_repeated_lanes(self) -> Widener {
        Widener { repeats: true, ..self }
    }

    fn varies(&self, arena: &Arena, e: ExprId) -> bool {
        mentions_var(arena, e, &mut |v| self.varying.contains(&v))
    }

    /// The lanes of a scalar expression.
    pub(super) fn value(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        self.wide(arena, e)
    }

    /// Widens statements. If this returns `None`, they cannot be widened, and statements made so far must not be used.
    pub(super) fn body(&mut self, kernel: &mut Kernel, body: Body) -> Option<Body> {
        let mut out = Vec::with_capacity(body.len());
        for i in 0..body.len() {
            let s = kernel.stmts.list(body)[i];
            self.stmt(kernel, kernel.stmts.get(s), &mut out)?;
        }
        Some(kernel.stmts.body(&out))
    }

    fn stmt(&mut self, kernel: &mut Kernel, stmt: Stmt, out: &mut Vec<StmtId>) -> Option<()> {
        let new = match stmt {
            Stmt::Store { buffer, index, value } if kernel.arena.lanes(value) > 1 => {
                // The bytes of one value are contiguous with those of the next iteration.
                let arena = &mut kernel.arena;
                if self.stride(arena, index) != Some(i64::from(arena.lanes(value))) {
                    return None;
                }
                let value = match arena.expr(value) {
                    Expr::Reinterpret(word) if arena.lanes(word) == 1 => {
                        let (words, dtype) = (self.wide(arena, word)?, arena.dtype(value));
                        arena.reinterpret(dtype, words)
                    }
                    Expr::Load(from, at) => self.bytes(arena, value, from, at)?,
                    _ => return None,
                };
                let index = self.uniform(arena, index);
                Stmt::Store { buffer, index, value }
            }
            Stmt::Store { buffer, index, value } => {
                let value = self.expr(&mut kernel.arena, value)?;
                let value = kernel.arena.broadcast_to(value, self.lanes);
                match self.stride(&kernel.arena, index) {
                    Some(1) => {
                        let index = self.uniform(&mut kernel.arena, index);
                        Stmt::Store { buffer, index, value }
                    }
                    Some(0) => return None,
                    _ => {
                        if !self.depends_on_loop_only(&kernel.arena, index) {
                            return None;
                        }
                        let ty = kernel.arena.ty(value);
                        let name = kernel.buffer(buffer).name;
                        let var = kernel.arena.new_var(name, ty);
                        out.push(kernel.stmts.push(Stmt::Let { var, value }));
                        let all = kernel.arena.var_expr(var);
                        for lane in 0..self.lanes {
                            let index = self.in_lane(&mut kernel.arena, index, lane);
                            let value = kernel.arena.extract(all, lane);
                            out.push(kernel.stmts.push(Stmt::Store { buffer, index, value }));
                        }
                        return Some(());
                    }
                }
            }
            Stmt::Let { var, value } => {
                let value = self.expr(&mut kernel.arena, value)?;
                let new = kernel.arena.new_var(kernel.arena.var(var).name, kernel.arena.ty(value));
                if kernel.arena.lanes(value) > 1 {
                    self.varying.insert(var);
                }
                let e = kernel.arena.var_expr(new);
                self.memo.clear();
                self.renamed.set(var, e);
                Stmt::Let { var: new, value }
            }
            Stmt::If { condition, then, otherwise } => {
                if self.varies(&kernel.arena, condition) {
                    return None;
                }
                let condition = self.uniform(&mut kernel.arena, condition);
                let then = self.body(kernel, then)?;
                let otherwise = self.body(kernel, otherwise)?;
                Stmt::If { condition, then, otherwise }
            }
            Stmt::For(l) => {
                if self.varies(&kernel.arena, l.extent) || l.kind == LoopKind::Parallel {
                    return None;
                }
                let extent = self.uniform(&mut kernel.arena, l.extent);
                let (var, e) = kernel.arena.new_index(kernel.arena.var(l.var).name);
                self.memo.clear();
                self.renamed.set(l.var, e);
                let body = self.body(kernel, l.body)?;
                let kind = if l.kind == LoopKind::Vector { LoopKind::Serial } else { l.kind };
                Stmt::For(For { var, extent, kind, body, ..l })
            }
            // A register would have to be widened at all its uses, and a check would fail for all lanes.
            Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => return None,
        };
        out.push(kernel.stmts.push(new));
        Some(())
    }

    /// The stride of an index from lane to lane; `None` if not constant.
    fn stride(&self, arena: &Arena, index: ExprId) -> Option<i64> {
        let affine = Affine::of(arena, index);
        let mut stride = 0;
        for &(atom, c) in &affine.terms {
            if arena.as_var(atom) == Some(self.var) {
                stride = c;
            } else if self.varies(arena, atom) {
                return None;
            }
        }
        Some(stride)
    }

    /// The expression for the first lane, with inner variables renamed.
    fn uniform(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        self.renamed.expr(arena, e)
    }

    /// A scalar expression as one lane computes it. It must not depend on inner let bindings.
    fn in_lane(&mut self, arena: &mut Arena, e: ExprId, lane: u16) -> ExprId {
        let value = arena.add_const(self.base, lane as i64);
        self.renamed.set(self.var, value);
        let result = self.renamed.expr(arena, e);
        self.renamed.set(self.var, self.base);
        result
    }

    /// The lanes of `e`, or its single value if it is uniform.
    fn expr(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        if let Some(&done) = self.memo.get(&e) {
            return Some(done);
        }
        let result = if self.varies(arena, e) { self.varying_expr(arena, e)? } else { self.uniform(arena, e) };
        self.memo.insert(e, result);
        Some(result)
    }

    fn varying_expr(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let lanes = self.lanes;
        if arena.lanes(e) > 1 || can_fail(arena, e) {
            return None;
        }
        if let Some(first) = self.first
            && let Some(constants) = constant_lanes::lanes(arena, e, self.var, first, lanes)
        {
            return Some(constants);
        }
        if self.repeats
            && depends_on_remainders(arena, e, self.var, i64::from(lanes))
            && let Some(constants) = constant_lanes::lanes(arena, e, self.var, 0, lanes)
        {
            return Some(constants);
        }
        Some(match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Local(_) => return None,
            Expr::Var(v) if v == self.var => arena.ramp(self.base, 1, lanes),
            Expr::Var(_) => self.uniform(arena, e),
            Expr::Load(buffer, index) => match self.stride(arena, index) {
                Some(1) => {
                    let ty = arena.ty(e).with_lanes(lanes);
                    let index = self.uniform(arena, index);
                    arena.load(buffer, index, ty)
                }
                _ => match self.first {
                    Some(first) if constant_lanes::is_tabular(arena, index, self.var) => {
                        let dtype = arena.dtype(e);
                        let lanes = (self.var, first, lanes);
                        constant_lanes::elements_at(arena, buffer, dtype, index, lanes, |arena, e| {
                            self.uniform(arena, e)
                        })?
                    }
                    Some(first) => {
                        let at = |lane| first + i64::from(lane);
                        let indices: SmallVec<[ExprId; 16]> =
                            (0..lanes).map(|lane| constant_lanes::at(arena, index, self.var, at(lane))).collect();
                        let indices: SmallVec<[ExprId; 16]> =
                            indices.into_iter().map(|index| self.uniform(arena, index)).collect();
                        constant_lanes::elements(arena, buffer, arena.dtype(e), &indices)?
                    }
                    None if self.is_periodic(arena, index) => self.pack(arena, e)?,
                    None if self.gathers && is_scatterable(arena.dtype(e)) => {
                        let index = self.wide(arena, index)?;
                        arena.gather(buffer, index, arena.dtype(e))
                    }
                    None => self.pack(arena, e)?,
                },
            },
            Expr::IfThenElse(c, t, o) => {
                if !self.varies(arena, c) {
                    let c = self.uniform(arena, c);
                    let (t, o) = (self.expr(arena, t)?, self.expr(arena, o)?);
                    let (t, o) = (arena.broadcast_to(t, lanes), arena.broadcast_to(o, lanes));
                    arena.if_then_else(c, t, o)
                } else if is_speculable(arena, t) && is_speculable(arena, o) {
                    let (c, t, o) = (self.expr(arena, c)?, self.expr(arena, t)?, self.expr(arena, o)?);
                    let (t, o) = (arena.broadcast_to(t, lanes), arena.broadcast_to(o, lanes));
                    arena.select(c, t, o)
                } else if self.masks && self.is_padded(arena, c, t, o) {
                    let (c, t, o) = (self.wide(arena, c)?, self.expr(arena, t)?, self.wide(arena, o)?);
                    arena.if_then_else(c, t, o)
                } else if self.gathers
                    && let Expr::Load(buffer, index) = arena.expr(t)
                    && is_scatterable(arena.dtype(t))
                    && is_speculable(arena, o)
                {
                    let (c, o) = (self.wide(arena, c)?, self.wide(arena, o)?);
                    let index = self.wide(arena, index)?;
                    let t = arena.gather(buffer, index, arena.dtype(t));
                    arena.if_then_else(c, t, o)
                } else {
                    self.pack(arena, e)?
                }
            }
            // The right operand is only safe to evaluate if the left one allows it.
            Expr::Binary(BinOp::And | BinOp::Or, a, b) if reads_beyond(arena, b, a) || fails(arena, b) => {
                self.pack(arena, e)?
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.wide(arena, a)?, self.wide(arena, b)?);
                arena.binary(op, a, b)
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = match (self.index(arena, a), self.index(arena, b)) {
                    (Some(a), Some(b)) => (a, b),
                    _ => (self.wide(arena, a)?, self.wide(arena, b)?),
                };
                arena.compare(op, a, b)
            }
            Expr::Not(a) => {
                let a = self.wide(arena, a)?;
                arena.not(a)
            }
            Expr::Cast(a) => {
                let (a, dtype) = (self.wide(arena, a)?, arena.dtype(e));
                arena.cast(dtype, a)
            }
            Expr::Reinterpret(a) if arena.lanes(a) > 1 => {
                let bytes = match arena.expr(a) {
                    Expr::Load(buffer, index) => self.bytes(arena, a, buffer, index),
                    _ => None,
                };
                match bytes {
                    Some(bytes) => {
                        let dtype = arena.dtype(e);
                        arena.reinterpret(dtype, bytes)
                    }
                    None => self.pack(arena, e)?,
                }
            }
            Expr::Dot4(acc, a, b) => {
                let (acc, a, b) = (self.wide(arena, acc)?, self.wide(arena, a)?, self.wide(arena, b)?);
                arena.dot4(acc, a, b)
            }
            Expr::Lookup(index, table) => {
                let table: SmallVec<[ExprId; 16]> = arena.list(table).into();
                let index = self.wide(arena, index)?;
                arena.lookup(&table, index)
            }
            Expr::Reinterpret(a) => {
                let (a, dtype) = (self.wide(arena, a)?, arena.dtype(e));
                arena.reinterpret(dtype, a)
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.wide(arena, c)?, self.wide(arena, t)?, self.wide(arena, o)?);
                arena.select(c, t, o)
            }
            // All lanes are evaluated, as both conditions are.
            Expr::Call(f @ (Intrinsic::BitAnd | Intrinsic::BitOr), list) if arena.dtype(e) == DType::Bool => {
                let (a, b) = (arena.list(list)[0], arena.list(list)[1]);
                let (a, b) = (self.wide(arena, a)?, self.wide(arena, b)?);
                arena.binary(if f == Intrinsic::BitAnd { BinOp::And } else { BinOp::Or }, a, b)
            }
            Expr::Call(function, list) => {
                let args: SmallVec<[ExprId; 4]> = arena.list(list).into();
                let mut wide = SmallVec::<[ExprId; 4]>::new();
                for a in args {
                    wide.push(self.wide(arena, a)?);
                }
                arena.call(function, &wide)
            }
            Expr::Broadcast(_) | Expr::Ramp(..) | Expr::Pack(_) | Expr::Extract(..) | Expr::Reduce(..) => return None,
        })
    }

    /// The load `e` of several elements in all iterations, if the elements of consecutive iterations are contiguous.
    fn bytes(&mut self, arena: &mut Arena, e: ExprId, buffer: BufferId, index: ExprId) -> Option<ExprId> {
        let ty = arena.ty(e);
        if self.stride(arena, index) != Some(i64::from(ty.lanes)) {
            return None;
        }
        let index = self.uniform(arena, index);
        Some(arena.load(buffer, index, ty.with_lanes(ty.lanes * self.lanes)))
    }

    /// An index that has a constant stride from lane to lane.
    fn index(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        if arena.ty(e) != Ty::INDEX {
            return None;
        }
        let stride = self.stride(arena, e)?;
        let first = self.uniform(arena, e);
        Some(arena.ramp(first, stride, self.lanes))
    }

    /// Whether a selection by `c` is padding: contiguous or near elements where comparisons of indices hold, otherwise a
    /// value without loads. Region code turns such comparisons into masks if the difference of their sides changes from
    /// lane to lane as the index does, or not at all.
    fn is_padded(&self, arena: &Arena, c: ExprId, t: ExprId, o: ExprId) -> bool {
        let Expr::Load(_, index) = arena.expr(t) else { return false };
        let stride = self.stride(arena, index).filter(|&n| n == 1 || is_near(arena.dtype(t), n));
        let dtype = arena.dtype(t);
        (is_masked(dtype) || self.narrow_masks && (is_short(dtype) || is_byte(dtype)))
            && is_speculable(arena, o)
            && stride.is_some_and(|stride| self.is_window(arena, c, stride))
    }

    fn is_window(&self, arena: &Arena, c: ExprId, stride: i64) -> bool {
        match arena.expr(c) {
            Expr::Binary(BinOp::And, a, b) => self.is_window(arena, a, stride) && self.is_window(arena, b, stride),
            Expr::Compare(CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge, a, b) => {
                let steps = || Some(self.stride(arena, a)?.checked_sub(self.stride(arena, b)?)?.abs());
                arena.ty(a) == Ty::INDEX && !reads_memory(arena, c) && steps().is_some_and(|n| n == 0 || n == stride)
            }
            _ => false,
        }
    }

    fn wide(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let x = self.expr(arena, e)?;
        if self.masks && arena.ty(x) == Ty::BOOL {
            return Some(spread(arena, x, self.lanes));
        }
        Some(arena.broadcast_to(x, self.lanes))
    }

    /// Whether an expression uses no inner let binding: the lanes of those are in a vector, which cannot be used as a
    /// scalar.
    fn depends_on_loop_only(&self, arena: &Arena, e: ExprId) -> bool {
        !mentions_var(arena, e, &mut |v| v != self.var && self.varying.contains(&v))
    }

    /// Whether an index has a constant stride, or repeats with an offset: then elements are taken from few registers.
    fn is_periodic(&self, arena: &Arena, index: ExprId) -> bool {
        let longest = if self.repeats { i64::from(self.lanes) } else { LONGEST_PERIOD };
        Affine::of(arena, index).stride(arena, self.var).is_some() || period(arena, index, self.var, longest).is_some()
    }

    /// Packs lanes computed separately.
    fn pack(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        if !self.depends_on_loop_only(arena, e) {
            return None;
        }
        let items: SmallVec<[ExprId; 16]> = (0..self.lanes).map(|lane| self.in_lane(arena, e, lane)).collect();
        Some(arena.pack(&items))
    }
}

/// Whether an expression depends on a variable only by its remainders by divisors of `n`.
fn depends_on_remainders(arena: &Arena, e: ExprId, var: VarId, n: i64) -> bool {
    match arena.expr(e) {
        Expr::Var(v) => v != var,
        Expr::Binary(BinOp::FloorMod, a, b) if arena.as_var(a) == Some(var) => {
            arena.as_int(b).is_some_and(|d| d > 0 && n % d == 0)
        }
        _ => {
            let mut all = true;
            arena.for_each_child(e, |child| all &= depends_on_remainders(arena, child, var, n));
            all
        }
    }
}

/// Whether a vector of elements of this type that are `stride` apart may be padded: region code assembles the lanes that
/// exist.
pub(super) fn is_near(dtype: DType, stride: i64) -> bool {
    dtype.bytes() == 4 && (2..=MOST_APART).contains(&stride)
}

/// Whether lanes of this type support masked loads and stores.
pub(super) fn is_masked(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64 | DType::Int32 | DType::Int64)
}

/// Whether elements have 16 bits in memory and lanes of 32 bits, which can be loaded and stored under a mask with EVEX.
pub(super) fn is_short(dtype: DType) -> bool {
    matches!(dtype, DType::Float16 | DType::BFloat16 | DType::Int16 | DType::UInt16)
}

/// Whether elements are integers of one byte, which can be loaded and stored under a mask with EVEX.
pub(super) fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::Int8 | DType::UInt8)
}

/// Whether `e` reads memory that `other` does not.
fn reads_beyond(arena: &Arena, e: ExprId, other: ExprId) -> bool {
    let loads = |e| {
        let mut found = SmallVec::<[ExprId; 4]>::new();
        for_each_expr(arena, e, &mut |e| {
            if matches!(arena.expr(e), Expr::Load(..)) {
                found.push(e);
            }
        });
        found
    };
    // Most conditions read no memory.
    let mine = loads(e);
    let others = if mine.is_empty() { SmallVec::new() } else { loads(other) };
    mine.iter().any(|l| !others.contains(l))
}

/// A condition that all lanes share, as operations on single comparisons that all lanes share: region code has masks of what is compared,
/// and no scalar conditions.
fn spread(arena: &mut Arena, condition: ExprId, lanes: u16) -> ExprId {
    match arena.expr(condition) {
        Expr::Not(a) => {
            let a = spread(arena, a, lanes);
            arena.not(a)
        }
        Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) if !reads_memory(arena, b) && !fails(arena, b) => {
            let (a, b) = (spread(arena, a, lanes), spread(arena, b, lanes));
            arena.binary(op, a, b)
        }
        Expr::Call(f @ (Intrinsic::BitAnd | Intrinsic::BitOr), list) => {
            let args: SmallVec<[ExprId; 2]> = arena.list(list).into();
            let args: SmallVec<[ExprId; 2]> = args.into_iter().map(|a| spread(arena, a, lanes)).collect();
            arena.call(f, &args)
        }
        _ => arena.broadcast(condition, lanes),
    }
}
