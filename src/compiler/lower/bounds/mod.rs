//! Derives a kernel that computes, for each value, the interval of the results of correct implementations.
//!
//! Correct programs differ: sums run in another order, products and sums contract, divisions become products with
//! reciprocals, functions are approximated, half-precision intermediates may or may not be rounded. At a discontinuity
//! (a cast to an integer, `round`, a comparison) such a small difference becomes a large one, at the few elements next
//! to it. So every value is an interval that contains the results of all correct implementations. An input is a point;
//! each operation widens the interval by its possible rounding ([`values`]); a discontinuity maps both ends; a
//! selection by a condition that may have either value gives the hull of both sides.
//!
//! Interval arithmetic ignores correlation between operands: the interval of `x / (1 + abs(x))` is far too wide if that
//! of `x` is wide. Such expressions are evaluated over pieces of the value's interval ([`pieces`]).
//!
//! Exact values ([`exact`]) are computed once. Each buffer of other values has two twins: one for the least values, one
//! for the greatest. An interval with a NaN end is unbounded.
//!
//! The kernel is derived from the reference kernel and shares no pass with candidates.

mod exact;
mod functions;
mod pieces;
mod values;

use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType, Symbol};
use crate::loopir::rewrite::mentions_var;
use crate::loopir::{
    Access, Body, BufferId, Expr, ExprId, For, Kernel, LoopKind, Placement, Stmt, StmtId, Storage, Ty, VarId,
};
use exact::Exactness;
use hashbrown::HashMap;
use values::{Interval, Values};

/// A kernel that computes intervals.
pub struct Bounds {
    /// The kernel. Its parameters are those of the function, which it only reads, followed by the ends of the results.
    pub kernel: Kernel,
    /// For each parameter of the function, the positions of the parameters that receive the least and the greatest
    /// values; `None` for inputs and exact results.
    pub ends: Vec<Option<(usize, usize)>>,
}

/// The intervals of a kernel's results; `None` if they would not be tighter than a tolerance of the results, or if a
/// rounded value determines the number of iterations of a loop or the index of a store.
pub(super) fn bounds(kernel: &Kernel) -> Option<Bounds> {
    let exactness = Exactness::of(kernel)?;
    if !exactness.is_sensitive {
        return None;
    }
    let bounder = Bounder {
        from: kernel,
        exactness,
        to: Kernel::new(kernel.name),
        buffers: Vec::new(),
        vars: HashMap::default(),
        memo: HashMap::default(),
        loops: Vec::new(),
        is_weak: false,
        pinned: None,
    };
    Some(bounder.run())
}

/// The type in which values of a type are computed.
fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::Float64 } else { dtype }
}

/// The twins of a buffer.
#[derive(Clone, Copy)]
enum Held {
    Point(BufferId),
    Ends(BufferId, BufferId),
}

struct Bounder<'a> {
    from: &'a Kernel,
    exactness: Exactness,
    to: Kernel,
    buffers: Vec<Held>,
    vars: HashMap<VarId, (VarId, VarId), FxBuild>,
    memo: HashMap<ExprId, Interval, FxBuild>,
    /// The enclosing loops, with their extents if those are constant.
    loops: Vec<(VarId, Option<i64>)>,
    /// Whether it is uncertain if the current statements run.
    is_weak: bool,
    /// A value that is assumed to lie in a piece of its interval; see [`pieces`].
    pinned: Option<(ExprId, Interval)>,
}

impl Bounder<'_> {
    fn run(mut self) -> Bounds {
        let n_params = self.from.params().len();
        let mut ends = vec![None; n_params];
        for (_, b) in self.from.buffers().take(n_params) {
            let same = self.to.add_param(b.name, b.dtype, b.len, Access::In);
            self.buffers.push(Held::Point(same));
        }
        let written = |b: &crate::loopir::Buffer| matches!(b.storage, Storage::Param(Access::Out | Access::InOut));
        let mut n = n_params;
        for (id, b) in self.from.buffers().take(n_params) {
            if written(b) && self.exactness.is_rounded(id) {
                let end = |to: &mut Kernel, which: &str| {
                    to.add_param(Symbol::new(&format!("{}_{which}", b.name)), wide(b.dtype), b.len, Access::Out)
                };
                let held = Held::Ends(end(&mut self.to, "least"), end(&mut self.to, "greatest"));
                self.buffers[id.index()] = held;
                ends[id.index()] = Some((n, n + 1));
                n += 2;
            }
        }
        let mut out = Vec::new();
        for (id, b) in self.from.buffers() {
            match b.storage {
                Storage::Param(_) if written(b) && !self.exactness.is_rounded(id) => {
                    let twin = self.to.add_scratch(b.name, wide(b.dtype), b.len, Placement::Shared);
                    self.buffers[id.index()] = Held::Point(twin);
                }
                Storage::Param(_) => {}
                Storage::Scratch(placement) => {
                    let add = |to: &mut Kernel| to.add_scratch(b.name, wide(b.dtype), b.len, placement);
                    let held = if self.exactness.is_rounded(id) {
                        Held::Ends(add(&mut self.to), add(&mut self.to))
                    } else {
                        Held::Point(add(&mut self.to))
                    };
                    self.buffers.push(held);
                }
            }
            if b.storage == Storage::Param(Access::InOut) {
                let param = BufferId(id.index() as u32);
                match self.buffers[id.index()] {
                    Held::Point(to) => out.push(self.to.converting_copy(param, to)),
                    Held::Ends(lo, hi) => {
                        out.extend([self.to.converting_copy(param, lo), self.to.converting_copy(param, hi)])
                    }
                }
            }
        }
        self.list(self.from.body, &mut out);
        self.to.body = self.to.stmts.body(&out);
        Bounds { kernel: self.to, ends }
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn list(&mut self, body: Body, out: &mut Vec<StmtId>) {
        for &s in self.from.stmts.list(body) {
            self.stmt(self.from.stmts.get(s), out);
        }
    }

    fn body(&mut self, body: Body) -> Body {
        let mut out = Vec::with_capacity(body.len());
        self.list(body, &mut out);
        self.to.stmts.body(&out)
    }

    fn stmt(&mut self, stmt: Stmt, out: &mut Vec<StmtId>) {
        match stmt {
            Stmt::For(l) => {
                let extent = self.point(l.extent);
                let var = self.var(l.var).0;
                self.loops.push((l.var, self.from.arena.as_int(l.extent)));
                let body = self.body(l.body);
                self.loops.pop();
                // A worker's scratch belongs to the iterations of its parallel loop.
                let kind = if l.kind == LoopKind::Parallel { LoopKind::Parallel } else { LoopKind::Serial };
                out.push(self.to.stmts.push(Stmt::For(For { var, extent, kind, body, ..l })));
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expr(condition);
                if condition.is_point() {
                    let (then, otherwise) = (self.body(then), self.body(otherwise));
                    let stmt = Stmt::If { condition: condition.lo, then, otherwise };
                    out.push(self.to.stmts.push(stmt));
                } else {
                    self.open_choice(condition, then, otherwise, out);
                }
            }
            Stmt::Store { buffer, index, value } => self.store(buffer, index, value, out),
            Stmt::Let { var, value } => {
                let value = self.value(value, out);
                let (lo, hi) = self.var(var);
                out.push(self.to.stmts.push(Stmt::Let { var: lo, value: value.lo }));
                if hi != lo {
                    out.push(self.to.stmts.push(Stmt::Let { var: hi, value: value.hi }));
                }
            }
            Stmt::Set { .. } | Stmt::While { .. } => unreachable!("kernels with registers have no intervals"),
            Stmt::Check { condition, failure } => {
                // A condition that may hold is assumed to hold: the reference run has checked it.
                let condition = self.expr(condition).hi;
                out.push(self.to.stmts.push(Stmt::Check { condition, failure }));
            }
        }
    }

    /// If the condition may have either value, both branches run, and widen the possible contents of memory.
    fn open_choice(&mut self, condition: Interval, then: Body, otherwise: Body, out: &mut Vec<StmtId>) {
        let was_weak = self.is_weak;
        let surely = self.body(then);
        let surely_not = self.body(otherwise);
        self.is_weak = true;
        let mut both = Vec::new();
        self.list(then, &mut both);
        self.list(otherwise, &mut both);
        self.is_weak = was_weak;
        let both = self.to.stmts.body(&both);
        let maybe = self.to.stmts.single(Stmt::If { condition: condition.hi, then: both, otherwise: surely_not });
        let stmt = Stmt::If { condition: condition.lo, then: surely, otherwise: maybe };
        out.push(self.to.stmts.push(stmt));
    }

    fn store(&mut self, buffer: BufferId, index: ExprId, value: ExprId, out: &mut Vec<StmtId>) {
        let at = self.point(index);
        let value = match self.added(buffer, index, value) {
            Some((sum, terms)) => {
                let n = self.n_terms(index).saturating_mul(terms.len() as i64);
                let dtype = self.from.arena.dtype(value);
                let mut total = self.expr(sum);
                for (i, (op, term)) in terms.into_iter().enumerate() {
                    if i > 0 {
                        // Each end is used several times.
                        total = Interval { lo: self.named(total.lo, out), hi: self.named(total.hi, out) };
                    }
                    let term = self.value(term, out);
                    total = Values(&mut self.to.arena).accumulate(op, dtype, total, term, n);
                }
                total
            }
            None => self.value(value, out),
        };
        match self.buffers[buffer.index()] {
            Held::Point(twin) => {
                debug_assert!(value.is_point(), "a buffer of points holds points");
                let value = self.to.arena.cast(self.to.buffer(twin).dtype, value.lo);
                out.push(self.to.store(twin, at, value));
            }
            Held::Ends(lo, hi) => {
                let dtype = self.to.buffer(lo).dtype;
                let (mut least, mut greatest) =
                    (self.to.arena.cast(dtype, value.lo), self.to.arena.cast(dtype, value.hi));
                if self.is_weak {
                    let (old_lo, old_hi) = (self.to.load(lo, at), self.to.load(hi, at));
                    let hull = Values(&mut self.to.arena)
                        .hull(Interval { lo: least, hi: greatest }, Interval { lo: old_lo, hi: old_hi });
                    (least, greatest) = (hull.lo, hull.hi);
                }
                // Both ends are evaluated before either is stored: each may depend on the old values of both.
                let (lo_var, hi_var) = (
                    self.to.arena.new_var("least", Ty::scalar(dtype)),
                    self.to.arena.new_var("greatest", Ty::scalar(dtype)),
                );
                out.push(self.to.stmts.push(Stmt::Let { var: lo_var, value: least }));
                out.push(self.to.stmts.push(Stmt::Let { var: hi_var, value: greatest }));
                let (least, greatest) = (self.to.arena.var_expr(lo_var), self.to.arena.var_expr(hi_var));
                out.push(self.to.store(lo, at, least));
                out.push(self.to.store(hi, at, greatest));
            }
        }
    }

    /// Names an end of an interval of floats.
    fn named(&mut self, end: ExprId, out: &mut Vec<StmtId>) -> ExprId {
        let var = self.to.arena.new_var("end", Ty::scalar(DType::Float64));
        out.push(self.to.stmts.push(Stmt::Let { var, value: end }));
        self.to.arena.var_expr(var)
    }

    /// The parts of an in-place float sum: the old value, and the terms that are added or subtracted.
    fn added(&self, buffer: BufferId, index: ExprId, value: ExprId) -> Option<(ExprId, Vec<(BinOp, ExprId)>)> {
        let arena = &self.from.arena;
        let is_sum = |e: ExprId| arena.expr(e) == Expr::Load(buffer, index);
        if !arena.dtype(value).is_float() {
            return None;
        }
        let mut terms = Vec::new();
        let mut rest = value;
        // `sum + a + b` is `(sum + a) + b`.
        while let Expr::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) = arena.expr(rest) {
            if op == BinOp::Add && is_sum(b) {
                terms.push((op, a));
                rest = b;
            } else {
                terms.push((op, b));
                rest = a;
            }
        }
        terms.reverse();
        (!terms.is_empty() && is_sum(rest)).then_some((rest, terms))
    }

    /// The number of terms added to an element: the product of the extents of loops that the index does not mention.
    fn n_terms(&self, index: ExprId) -> i64 {
        let arena = &self.from.arena;
        let is_loop = |v: VarId| self.loops.iter().any(|l| l.0 == v);
        // A named value may depend on any loop.
        if mentions_var(arena, index, &mut |v| !is_loop(v)) {
            return 1;
        }
        let open = self.loops.iter().filter(|(v, _)| !mentions_var(arena, index, &mut |m| m == *v));
        open.map(|(_, n)| n.unwrap_or(1).max(1)).fold(1, i64::saturating_mul)
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    fn var(&mut self, v: VarId) -> (VarId, VarId) {
        if let Some(&known) = self.vars.get(&v) {
            return known;
        }
        let old = self.from.arena.var(v);
        let ty = old.ty.with_dtype(wide(old.ty.dtype));
        let lo = self.to.arena.new_var(old.name, ty);
        let hi = if self.exactness.is_rounded_var(v) { self.to.arena.new_var(old.name, ty) } else { lo };
        self.vars.insert(v, (lo, hi));
        (lo, hi)
    }

    /// An exact expression.
    fn point(&mut self, e: ExprId) -> ExprId {
        let value = self.expr(e);
        debug_assert!(value.is_point(), "extents and places of stores are points");
        value.lo
    }

    fn expr(&mut self, e: ExprId) -> Interval {
        if let Some((_, piece)) = self.pinned.filter(|(pinned, _)| *pinned == e) {
            return piece;
        }
        if let Some(&done) = self.memo.get(&e) {
            return done;
        }
        let arena = &self.from.arena;
        let dtype = arena.dtype(e);
        let done = match arena.expr(e) {
            Expr::Int(v) => Interval::point(self.to.arena.int(v, dtype)),
            Expr::Float(bits) => Interval::point(self.to.arena.float(f64::from_bits(bits), DType::Float64)),
            Expr::Var(v) => {
                let (lo, hi) = self.var(v);
                Interval { lo: self.to.arena.var_expr(lo), hi: self.to.arena.var_expr(hi) }
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                Values(&mut self.to.arena).binary(op, dtype, a, b)
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                Values(&mut self.to.arena).compare(op, a, b)
            }
            Expr::Not(a) => {
                let a = self.expr(a);
                let (lo, hi) = (self.to.arena.not(a.hi), self.to.arena.not(a.lo));
                Interval { lo, hi }
            }
            Expr::Cast(a) => {
                let from = arena.dtype(a);
                let a = self.expr(a);
                Values(&mut self.to.arena).cast(from, dtype, a)
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.expr(c), self.expr(t), self.expr(o));
                Values(&mut self.to.arena).select(c, t, o)
            }
            Expr::IfThenElse(c, t, o) => {
                let (c, t, o) = (self.expr(c), self.expr(t), self.expr(o));
                Values(&mut self.to.arena).if_then_else(c, t, o)
            }
            Expr::Load(buffer, index) => {
                let index = self.expr(index);
                self.load(buffer, index)
            }
            Expr::Call(function, list) => {
                let args: Vec<ExprId> = arena.list(list).to_vec();
                let from = arena.dtype(args[0]);
                let args: Vec<Interval> = args.into_iter().map(|a| self.expr(a)).collect();
                Values(&mut self.to.arena).call(function, from, dtype, &args)
            }
            Expr::Reinterpret(a) => {
                let from = arena.dtype(a);
                let a = self.expr(a);
                Values(&mut self.to.arena).reinterpret(from, dtype, a)
            }
            Expr::Local(_)
            | Expr::Broadcast(_)
            | Expr::Ramp(..)
            | Expr::Pack(_)
            | Expr::Lookup(..)
            | Expr::Extract(..)
            | Expr::Dot4(..)
            | Expr::Reduce(..) => unreachable!("kernels with registers or vectors have no intervals"),
        };
        self.memo.insert(e, done);
        done
    }

    fn load(&mut self, buffer: BufferId, index: Interval) -> Interval {
        let (lo, hi) = match self.buffers[buffer.index()] {
            Held::Point(twin) => (twin, twin),
            Held::Ends(lo, hi) => (lo, hi),
        };
        let load = |this: &mut Self, twin: BufferId, at: ExprId| {
            let value = this.to.load(twin, at);
            this.to.arena.cast(wide(this.to.buffer(twin).dtype), value)
        };
        let value = Interval { lo: load(self, lo, index.lo), hi: load(self, hi, index.lo) };
        if index.is_point() {
            return value;
        }
        // If either of two indices is possible, the element is unknown.
        Values(&mut self.to.arena).if_settled(&[index], value)
    }
}

#[cfg(test)]
mod tests;
