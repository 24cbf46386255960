//! Simplifies index arithmetic, conditions and loops, using the ranges of loop variables.
//!
//! ```text
//! for i in 4: for j in 1: if i < 9: Y[(i * 8 + j) // 8 * 3] = X[(i * 8 + 5) % 8]
//! // becomes
//! for i in 4: Y[i * 3] = X[5]
//! ```
//!
//! The pass removes loops of one iteration, loops and conditions without effect, and conditions with a known outcome,
//! and substitutes let-bound index values. Indices are brought to the canonical form of [`Affine`], so that equal
//! indices are equal expressions: later passes rely on it.

use super::{constant_lanes, not_nan};
use crate::codegen::facts::fails;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, CmpOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, reads_memory};
use crate::loopir::{
    Affine, Arena, Body, Expr, ExprId, For, Kernel, LoopKind, Placement, Range, Ranges, Stmt, StmtId, Storage, Ty,
    VarId,
};
use hashbrown::HashMap;

/// Maximum number of values of a variable for which expressions are computed.
const FEW: i64 = 64;

/// Simplifies everything in the kernel.
pub(super) fn simplify(kernel: &mut Kernel) {
    let per_worker = kernel.buffers().any(|(_, b)| b.storage == Storage::Scratch(Placement::PerWorker));
    let mut s =
        Simplifier { ranges: Ranges::default(), values: HashMap::default(), memo: ExprMap::default(), per_worker };
    let mut out = Vec::new();
    s.body(kernel, kernel.body, &mut out);
    kernel.body = kernel.stmts.body(&out);
}

struct Simplifier {
    ranges: Ranges,
    /// Replacements of variables.
    values: HashMap<VarId, ExprId, FxBuild>,
    memo: ExprMap,
    /// Whether there is per-worker scratch, which must stay inside parallel loops.
    per_worker: bool,
}

impl Simplifier {
    fn body(&mut self, kernel: &mut Kernel, body: Body, out: &mut Vec<StmtId>) {
        for i in 0..body.len() {
            let s = kernel.stmts.list(body)[i];
            self.stmt(kernel, s, out);
        }
    }

    fn sub_body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        let mut out = Vec::with_capacity(body.len());
        self.body(kernel, body, &mut out);
        if kernel.stmts.list(body) == out { body } else { kernel.stmts.body(&out) }
    }

    fn stmt(&mut self, kernel: &mut Kernel, s: StmtId, out: &mut Vec<StmtId>) {
        let old = kernel.stmts.get(s);
        let new = match old {
            Stmt::For(l) => {
                let extent = self.expr(&mut kernel.arena, l.extent);
                let extent = self.canonical(&mut kernel.arena, extent);
                let keep = l.kind == LoopKind::Parallel && self.per_worker;
                match kernel.arena.as_int(extent) {
                    Some(..=0) => return,
                    Some(1) if !keep => {
                        let zero = kernel.arena.index(0);
                        self.values.insert(l.var, zero);
                        return self.body(kernel, l.body, out);
                    }
                    Some(n) => self.ranges.set(l.var, Range { lo: 0, hi: n - 1 }),
                    None => {
                        let hi = self.ranges.get(&kernel.arena, extent).map_or(i64::MAX, |r| r.hi);
                        if hi <= 0 {
                            return;
                        }
                        self.ranges.set(l.var, Range { lo: 0, hi: hi - 1 });
                    }
                }
                let body = self.sub_body(kernel, l.body);
                if body.is_empty() && !fails(&kernel.arena, extent) {
                    return;
                }
                Stmt::For(For { extent, body, ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expr(&mut kernel.arena, condition);
                match kernel.arena.as_int(condition) {
                    Some(0) => return self.body(kernel, otherwise, out),
                    Some(_) => return self.body(kernel, then, out),
                    None => {}
                }
                let then = self.sub_body(kernel, then);
                let otherwise = self.sub_body(kernel, otherwise);
                if then.is_empty() && otherwise.is_empty() && !fails(&kernel.arena, condition) {
                    return;
                }
                if then.is_empty() {
                    let condition = kernel.arena.not(condition);
                    Stmt::If { condition, then: otherwise, otherwise: then }
                } else {
                    Stmt::If { condition, then, otherwise }
                }
            }
            Stmt::While { running, body } => Stmt::While { running, body: self.sub_body(kernel, body) },
            Stmt::Check { condition, failure } => {
                let condition = self.expr(&mut kernel.arena, condition);
                if kernel.arena.as_int(condition).is_some_and(|c| c != 0) {
                    return;
                }
                Stmt::Check { condition, failure }
            }
            Stmt::Store { buffer, index, value } => {
                let index = self.expr(&mut kernel.arena, index);
                let index = self.canonical(&mut kernel.arena, index);
                let value = self.expr(&mut kernel.arena, value);
                Stmt::Store { buffer, index, value }
            }
            Stmt::Let { var, value } => {
                let value = self.expr(&mut kernel.arena, value);
                let arena = &kernel.arena;
                let is_index = arena.ty(value) == Ty::INDEX && is_index_arithmetic(arena, value);
                if is_index || matches!(arena.expr(value), Expr::Int(_) | Expr::Float(_) | Expr::Var(_)) {
                    self.values.insert(var, value);
                    return;
                }
                Stmt::Let { var, value }
            }
            Stmt::Set { local, value } => Stmt::Set { local, value: self.expr(&mut kernel.arena, value) },
        };
        out.push(if new == old { s } else { kernel.stmts.push(new) });
    }

    /// Simplifies an expression. Results are cached for the whole kernel: a variable has the same range and replacement
    /// everywhere.
    fn expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&done) = self.memo.get(&e) {
            return done;
        }
        let result = match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Local(_) => e,
            Expr::Var(v) => self.values.get(&v).copied().unwrap_or(e),
            _ => {
                let rebuilt = arena.map_children(e, |arena, c| self.expr(arena, c));
                self.node(arena, rebuilt)
            }
        };
        self.memo.insert(e, result);
        result
    }

    /// Simplifies a node with simplified operands.
    fn node(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Load(buffer, index) if arena.lanes(index) == 1 => {
                let ty = arena.ty(e);
                let index = self.canonical(arena, index);
                arena.load(buffer, index, ty)
            }
            Expr::Binary(BinOp::And, a, b) => not_nan::conjunction(arena, a, b).unwrap_or(e),
            Expr::Binary(op, a, b) if arena.ty(e) == Ty::INDEX => match op {
                BinOp::FloorDiv => self.floor_div(arena, a, b).or_else(|| self.regular(arena, e)).unwrap_or(e),
                BinOp::FloorMod => self.floor_mod(arena, a, b).or_else(|| self.regular(arena, e)).unwrap_or(e),
                // Rounding towards zero rounds down only for non-negative values.
                BinOp::Div if self.is_natural(arena, a) => match self.floor_div(arena, a, b) {
                    Some(quotient) => quotient,
                    None if arena.as_int(b).is_some_and(|d| d > 0) => arena.binary(BinOp::FloorDiv, a, b),
                    None => e,
                },
                BinOp::Mod if self.is_natural(arena, a) => match self.floor_mod(arena, a, b) {
                    Some(rest) => rest,
                    None if arena.as_int(b).is_some_and(|d| d > 0) => arena.binary(BinOp::FloorMod, a, b),
                    None => e,
                },
                BinOp::Min | BinOp::Max => {
                    let Some(Range { lo, hi }) = self.difference(arena, a, b) else { return e };
                    match op {
                        BinOp::Min if hi <= 0 => a,
                        BinOp::Min if lo >= 0 => b,
                        BinOp::Max if lo >= 0 => a,
                        BinOp::Max if hi <= 0 => b,
                        _ => e,
                    }
                }
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Mod | BinOp::And | BinOp::Or => e,
            },
            Expr::Cast(a) if arena.dtype(e).is_float() => match self.regular(arena, a) {
                Some(regular) => {
                    let dtype = arena.dtype(e);
                    arena.cast(dtype, regular)
                }
                None => e,
            },
            Expr::Cast(a) if arena.ty(e) == Ty::INDEX => {
                let e = self.index_of(arena, a).unwrap_or(e);
                self.regular(arena, e).unwrap_or(e)
            }
            Expr::Select(..) if arena.ty(e) == Ty::INDEX => self.regular(arena, e).unwrap_or(e),
            Expr::Compare(op, a, b) if arena.dtype(a).is_int() => {
                let Some(Range { lo, hi }) = self.difference_of_lanes(arena, a, b) else { return e };
                let known = match op {
                    CmpOp::Lt if hi < 0 => true,
                    CmpOp::Lt if lo >= 0 => false,
                    CmpOp::Le if hi <= 0 => true,
                    CmpOp::Le if lo > 0 => false,
                    CmpOp::Gt if lo > 0 => true,
                    CmpOp::Gt if hi <= 0 => false,
                    CmpOp::Ge if lo >= 0 => true,
                    CmpOp::Ge if hi < 0 => false,
                    CmpOp::Eq if lo == 0 && hi == 0 => true,
                    CmpOp::Eq if lo > 0 || hi < 0 => false,
                    CmpOp::Ne if lo > 0 || hi < 0 => true,
                    CmpOp::Ne if lo == 0 && hi == 0 => false,
                    CmpOp::Lt => return self.undivided(arena, a, b).unwrap_or(e),
                    CmpOp::Le | CmpOp::Gt | CmpOp::Ge | CmpOp::Eq | CmpOp::Ne => return e,
                };
                let (known, lanes) = (arena.bool(known), arena.lanes(e));
                arena.broadcast(known, lanes)
            }
            _ => e,
        }
    }

    /// A bound of a quotient as one of the number that is divided: `i * 8 + j // 8 < 77` is `i * 64 + j < 616`. A loop over several
    /// axes has both, and is then cut where it ends.
    fn undivided(&mut self, arena: &mut Arena, a: ExprId, b: ExprId) -> Option<ExprId> {
        if arena.ty(a) != Ty::INDEX {
            return None;
        }
        let bound = arena.as_int(b)?;
        let sum = Affine::of(arena, a);
        let quotient = |&(atom, k): &(ExprId, i64)| match arena.expr(atom) {
            Expr::Binary(BinOp::FloorDiv, x, d) if k == 1 => Some((atom, x, arena.as_int(d).filter(|&d| d > 0)?)),
            _ => None,
        };
        let (atom, number, d) = sum.terms.iter().find_map(quotient)?;
        let mut whole = Affine::of(arena, number);
        for &(other, k) in sum.terms.iter().filter(|t| t.0 != atom) {
            whole.add_term(other, k.checked_mul(d)?);
        }
        whole.constant = whole.constant.checked_add(sum.constant.checked_mul(d)?)?;
        let bound = bound.checked_mul(d)?;
        // Nothing may wrap.
        self.ranges.get(arena, a)?;
        self.ranges.of_affine(arena, &whole).known()?;
        let (whole, bound) = (whole.to_expr(arena), arena.index(bound));
        Some(arena.compare(CmpOp::Lt, whole, bound))
    }

    /// The index that a short integer was converted from: `129 - i` of `cast(int32, 129 - i)`, if no bit of its values is lost, and a
    /// selection of such indices of a selection.
    fn index_of(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        if !arena.dtype(e).is_int() || arena.lanes(e) > 1 {
            return None;
        }
        match arena.expr(e) {
            Expr::Int(value) => Some(arena.index(value)),
            Expr::Cast(a) if arena.ty(a) == Ty::INDEX => {
                self.ranges.of(arena, a).within(Range::of_type(arena.dtype(e))).then_some(a)
            }
            Expr::IfThenElse(c, t, o) => {
                let (t, o) = (self.index_of(arena, t)?, self.index_of(arena, o)?);
                Some(arena.if_then_else(c, t, o))
            }
            Expr::Select(c, t, o) => {
                let (t, o) = (self.index_of(arena, t)?, self.index_of(arena, o)?);
                Some(arena.select(c, t, o))
            }
            _ => None,
        }
    }

    fn is_natural(&mut self, arena: &Arena, e: ExprId) -> bool {
        self.ranges.get(arena, e).is_some_and(|r| r.lo >= 0)
    }

    /// The range of `a - b`. The difference must not wrap, so both must have ranges.
    fn difference(&mut self, arena: &Arena, a: ExprId, b: ExprId) -> Option<Range> {
        self.ranges.get(arena, a)?;
        self.ranges.get(arena, b)?;
        let difference = Affine::of(arena, a).minus(&Affine::of(arena, b));
        self.ranges.of_affine(arena, &difference).known()
    }

    /// The range of `a - b` over all lanes.
    fn difference_of_lanes(&mut self, arena: &Arena, a: ExprId, b: ExprId) -> Option<Range> {
        if arena.dtype(a) != DType::Int64 {
            // Low halves of indices.
            let (a, b) = (self.ranges.of(arena, a).known()?, self.ranges.of(arena, b).known()?);
            return a.plus(b.times(-1)).known();
        }
        let last = i64::from(arena.lanes(a)) - 1;
        let ((a, x), (b, y)) = (arena.first_and_step(a)?, arena.first_and_step(b)?);
        let first = self.difference(arena, a, b)?;
        let grown = x.checked_sub(y)?.checked_mul(last)?;
        first.plus(Range { lo: grown.min(0), hi: grown.max(0) }).known()
    }

    /// An affine expression for an index that depends on one loop variable with few values, if it has the same values: such
    /// as the size of a window of adaptive pooling, `(i * 13 + 18) // 6 - i * 13 // 6`, which is 3 for `i` in `0..6`.
    fn regular(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let is_index = arena.ty(e) == Ty::INDEX;
        let (mut var, mut is_irregular, mut fits) = (None, false, is_index || arena.ty(e) == Ty::scalar(DType::Int32));
        for_each_expr(arena, e, &mut |e| match arena.expr(e) {
            Expr::Var(v) => fits &= *var.get_or_insert(v) == v,
            Expr::Int(_) | Expr::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul, ..) => {}
            Expr::Cast(a) => fits &= !arena.dtype(a).is_float() && !arena.dtype(e).is_float(),
            Expr::Binary(..) | Expr::Compare(..) | Expr::Not(_) | Expr::Select(..) | Expr::IfThenElse(..) => {
                is_irregular = true;
            }
            _ => fits = false,
        });
        let var = var.filter(|_| fits && is_irregular && !fails(arena, e))?;
        let values = self.ranges.var(var)?;
        if values.size()? > FEW {
            return None;
        }
        let mut at = |value: i64| {
            let found = constant_lanes::at(arena, e, var, value);
            arena.as_int(found)
        };
        let first = at(values.lo)?;
        let step = if values.lo < values.hi { at(values.lo + 1)?.checked_sub(first)? } else { 0 };
        for i in values.lo..=values.hi {
            if at(i)? != first.checked_add(step.checked_mul(i - values.lo)?)? {
                return None;
            }
        }
        if !is_index {
            let dtype = arena.dtype(e);
            return (step == 0).then(|| arena.int(first, dtype));
        }
        let mut affine = Affine::constant(first.checked_sub(step.checked_mul(values.lo)?)?);
        let var = arena.var_expr(var);
        affine.add_term(var, step);
        Some(affine.to_expr(arena))
    }

    /// The canonical form of an index.
    fn canonical(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Int(_) | Expr::Var(_) => e,
            _ => self.recombined(arena, Affine::of(arena, e)).to_expr(arena),
        }
    }

    /// Recombines quotients and remainders: `x // 3 * 3 + x % 3` is `x`, and `x % 9 // 3 * 3 + x % 3` is `x % 9`.
    fn recombined(&mut self, arena: &Arena, mut sum: Affine) -> Affine {
        while let Some((rest, quotient, c, whole, x)) = self.digits(arena, &sum) {
            sum.add_term(rest, c.wrapping_neg());
            sum.add_term(quotient, whole.wrapping_neg());
            let x = Affine::of(arena, x);
            for (atom, k) in x.terms {
                sum.add_term(atom, k.wrapping_mul(c));
            }
            sum.constant = sum.constant.wrapping_add(x.constant.wrapping_mul(c));
        }
        sum
    }

    /// A remainder and a quotient that are the digits of one number, with their coefficients and the number.
    fn digits(&mut self, arena: &Arena, sum: &Affine) -> Option<(ExprId, ExprId, i64, i64, ExprId)> {
        for &(rest, c) in &sum.terms {
            let Expr::Binary(BinOp::FloorMod, x, divisor) = arena.expr(rest) else { continue };
            let Some(d) = arena.as_int(divisor).filter(|&d| d > 0) else { continue };
            let Some(whole) = c.checked_mul(d) else { continue };
            for &(quotient, k) in &sum.terms {
                let Expr::Binary(BinOp::FloorDiv, number, by) = arena.expr(quotient) else { continue };
                if k == whole && by == divisor && self.has_rest(arena, number, x, d) {
                    return Some((rest, quotient, c, whole, number));
                }
            }
        }
        None
    }

    /// Whether `a % d` is `x % d`: they are equal up to multiples of `d`, or `a` is the remainder of such a number by a
    /// multiple of `d`.
    fn has_rest(&mut self, arena: &Arena, a: ExprId, x: ExprId, d: i64) -> bool {
        if a == x {
            return true;
        }
        if let Expr::Binary(BinOp::FloorMod, y, m) = arena.expr(a)
            && arena.as_int(m).is_some_and(|m| m > 0 && m % d == 0)
            && self.has_rest(arena, y, x, d)
        {
            return true;
        }
        // If a value may wrap, its terms do not determine the remainder.
        let difference = Affine::of(arena, a).minus(&Affine::of(arena, x));
        difference.constant % d == 0
            && difference.terms.iter().all(|t| t.1 % d == 0)
            && self.ranges.get(arena, a).is_some()
            && self.ranges.get(arena, x).is_some()
    }

    /// Splits `a = d * quotient + rest`, where no coefficient of the rest is a multiple of `d`.
    fn split(&mut self, arena: &Arena, a: ExprId, d: i64) -> Option<(Affine, Affine)> {
        // If the value may wrap, its terms do not determine the quotient.
        self.ranges.get(arena, a)?;
        let (mut quotient, mut rest) = (Affine::default(), Affine::default());
        for &(atom, c) in &Affine::of(arena, a).terms {
            if c % d == 0 {
                quotient.add_term(atom, c / d);
            } else {
                rest.add_term(atom, c);
            }
        }
        let constant = Affine::of(arena, a).constant;
        quotient.constant = constant.div_euclid(d);
        rest.constant = constant.rem_euclid(d);
        Some((quotient, rest))
    }

    /// The factor `g` of the divisor for which `rest = g * high + low` with `low` in `0..g`: then only `high` matters.
    fn common_factor(&mut self, arena: &Arena, rest: &Affine, d: i64) -> Option<(i64, Affine, Affine)> {
        for &(_, c) in &rest.terms {
            let g = gcd(c, d);
            if g <= 1 || g == d {
                continue;
            }
            let (mut high, mut low) = (Affine::default(), Affine::default());
            for &(atom, c) in &rest.terms {
                if c % g == 0 {
                    high.add_term(atom, c / g);
                } else {
                    low.add_term(atom, c);
                }
            }
            high.constant = rest.constant.div_euclid(g);
            low.constant = rest.constant.rem_euclid(g);
            if self.ranges.of_affine(arena, &low).is_below(g) {
                return Some((g, high, low));
            }
        }
        None
    }

    fn floor_div(&mut self, arena: &mut Arena, a: ExprId, b: ExprId) -> Option<ExprId> {
        let d = arena.as_int(b).filter(|&d| d > 0)?;
        let (mut quotient, rest) = self.split(arena, a, d)?;
        let range = self.ranges.of_affine(arena, &rest).known()?;
        if range.lo.div_euclid(d) == range.hi.div_euclid(d) {
            quotient.constant = quotient.constant.wrapping_add(range.lo.div_euclid(d));
            return Some(quotient.to_expr(arena));
        }
        let left = match self.common_factor(arena, &rest, d) {
            Some((g, high, _)) => {
                let (high, d) = (high.to_expr(arena), arena.index(d / g));
                let left = arena.binary(BinOp::FloorDiv, high, d);
                self.node(arena, left)
            }
            None if quotient.terms.is_empty() && quotient.constant == 0 => return None,
            None => {
                let rest = rest.to_expr(arena);
                arena.binary(BinOp::FloorDiv, rest, b)
            }
        };
        let quotient = quotient.to_expr(arena);
        Some(arena.add(quotient, left))
    }

    fn floor_mod(&mut self, arena: &mut Arena, a: ExprId, b: ExprId) -> Option<ExprId> {
        let d = arena.as_int(b).filter(|&d| d > 0)?;
        let (quotient, mut rest) = self.split(arena, a, d)?;
        let range = self.ranges.of_affine(arena, &rest).known()?;
        if range.lo.div_euclid(d) == range.hi.div_euclid(d) {
            rest.constant = rest.constant.wrapping_sub(range.lo.div_euclid(d).wrapping_mul(d));
            return Some(rest.to_expr(arena));
        }
        if let Some((g, high, low)) = self.common_factor(arena, &rest, d) {
            let (high, divisor) = (high.to_expr(arena), arena.index(d / g));
            let digit = arena.binary(BinOp::FloorMod, high, divisor);
            let digit = self.node(arena, digit);
            let digit = arena.mul_const(digit, g);
            let low = low.to_expr(arena);
            return Some(arena.add(digit, low));
        }
        if quotient.terms.is_empty() && quotient.constant == 0 {
            return None;
        }
        let rest = rest.to_expr(arena);
        Some(arena.binary(BinOp::FloorMod, rest, b))
    }
}

/// Whether `e` consists of variables and constants only, so that it can be computed anywhere.
fn is_index_arithmetic(arena: &Arena, e: ExprId) -> bool {
    let mut local = false;
    for_each_expr(arena, e, &mut |e| local |= matches!(arena.expr(e), Expr::Local(_)));
    !local && !reads_memory(arena, e) && !fails(arena, e)
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}
