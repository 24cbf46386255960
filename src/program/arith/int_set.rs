//! Sets of integers between symbolic ends.
//!
//! An [`IntSet`] holds the integers from one expression to another, both included, either of which may be an infinity.
//! Evaluating an expression over sets of its variables ([`eval_set`]) gives a set that holds all its values; it may be
//! larger. This is how loops are relaxed out of regions.
//!
//! Follows TVM's `int_set.cc`.

use super::analyzer::Analyzer;
use super::bound::Bound;
use super::modular::gcd;
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp};
use smallvec::SmallVec;

/// An end of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No lower limit.
    NegInf,
    /// This value, included.
    At(ExprId),
    /// No upper limit.
    PosInf,
}

impl End {
    /// The value, if there is one.
    pub fn value(self) -> Option<ExprId> {
        match self {
            End::At(e) => Some(e),
            End::NegInf | End::PosInf => None,
        }
    }
}

/// The integers from `min` to `max`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntSet {
    /// The smallest.
    pub min: End,
    /// The largest.
    pub max: End,
}

impl IntSet {
    /// No integer.
    pub const NOTHING: IntSet = IntSet { min: End::PosInf, max: End::NegInf };
    /// Every integer.
    pub const EVERYTHING: IntSet = IntSet { min: End::NegInf, max: End::PosInf };

    /// One integer.
    pub fn point(value: ExprId) -> IntSet {
        IntSet { min: End::At(value), max: End::At(value) }
    }

    /// The integers from `min` to `max`, both included.
    pub fn interval(min: ExprId, max: ExprId) -> IntSet {
        IntSet { min: End::At(min), max: End::At(max) }
    }

    /// `extent` integers from `min` on.
    pub fn from_range(a: &mut Arena, min: ExprId, extent: ExprId) -> IntSet {
        if a.is_int(extent, 1) {
            return IntSet::point(min);
        }
        let end = binary(a, BinOp::Add, extent, min);
        IntSet::interval(min, a.add_const(end, -1))
    }

    /// Whether the set is provably empty.
    pub fn is_nothing(&self) -> bool {
        self.min == End::PosInf || self.max == End::NegInf
    }

    /// The value of a set whose ends are the same expression.
    pub fn as_point(&self) -> Option<ExprId> {
        match (self.min, self.max) {
            (End::At(x), End::At(y)) if x == y => Some(x),
            _ => None,
        }
    }

    /// The lower end, if there is one.
    pub fn lower(&self) -> Option<ExprId> {
        if self.is_nothing() { None } else { self.min.value() }
    }

    /// The upper end, if there is one.
    pub fn upper(&self) -> Option<ExprId> {
        if self.is_nothing() { None } else { self.max.value() }
    }

    /// Whether both ends are provably equal.
    pub fn can_prove_point(&self, a: &mut Arena, analyzer: &mut Analyzer) -> bool {
        match (self.lower(), self.upper()) {
            (Some(x), Some(y)) => analyzer.can_prove_equal(a, x, y),
            _ => false,
        }
    }

    /// The `(min, extent)` that covers the set; `whole` where an end is infinite (TVM's `CoverRange`).
    pub fn cover_range(&self, a: &mut Arena, whole: (ExprId, ExprId)) -> (ExprId, ExprId) {
        let (Some(min), Some(max)) = (self.lower(), self.upper()) else { return whole };
        let mut analyzer = Analyzer::new();
        let end = a.add_const(max, 1);
        let extent = binary(a, BinOp::Sub, end, min);
        (analyzer.simplify(a, min), analyzer.simplify(a, extent))
    }

    /// Whether this is provably the set of the range.
    pub fn match_range(&self, a: &mut Arena, min: ExprId, extent: ExprId) -> bool {
        let (Some(low), Some(high)) = (self.lower(), self.upper()) else { return false };
        let mut analyzer = Analyzer::new();
        let mut equal = |a: &mut Arena, x, y| {
            let difference = binary(a, BinOp::Sub, x, y);
            let difference = analyzer.simplify(a, difference);
            a.is_int(difference, 0)
        };
        let end = binary(a, BinOp::Add, extent, min);
        let last = a.add_const(end, -1);
        equal(a, low, min) && equal(a, high, last)
    }
}

/// Sets of variables.
pub(crate) type Domains = [(VarId, IntSet)];

/// `x op y`, the narrower of two index types widened to the other.
pub(super) fn binary(a: &mut Arena, op: BinOp, x: ExprId, y: ExprId) -> ExprId {
    let (p, q) = (a.dtype(x), a.dtype(y));
    if p == q {
        return a.binary(op, x, y);
    }
    let wide = if p.bits() > q.bits() { p } else { q };
    let (x, y) = (a.cast(wide, x), a.cast(wide, y));
    a.binary(op, x, y)
}

/// The smallest interval that contains all the sets.
pub fn union(a: &mut Arena, sets: &[IntSet]) -> IntSet {
    match sets {
        [] => IntSet::NOTHING,
        [one] => *one,
        [first, rest @ ..] => {
            let joined = rest.iter().fold(*first, |x, y| union_pair(a, x, *y));
            simplified(a, joined)
        }
    }
}

/// An interval of integers each of which is in one of the sets, as large as can be proved. Sets that may lie apart from
/// earlier ones are left out.
pub fn union_lower_bound(a: &mut Arena, sets: &[IntSet]) -> IntSet {
    if let [one] = sets {
        return *one;
    }
    let mut analyzer = Analyzer::new();
    let mut joined: Option<IntSet> = None;
    for &set in sets.iter().filter(|s| !s.is_nothing()) {
        let Some(known) = joined else {
            joined = Some(set);
            continue;
        };
        if set == known {
            continue;
        }
        // Neither starts beyond the end of the other.
        if touches(a, &mut analyzer, set.min, known.max) && touches(a, &mut analyzer, known.min, set.max) {
            joined = Some(IntSet { min: lesser(a, known.min, set.min), max: greater(a, known.max, set.max) });
        }
    }
    joined.unwrap_or(IntSet::NOTHING)
}

fn touches(a: &mut Arena, analyzer: &mut Analyzer, start: End, end: End) -> bool {
    match (start, end) {
        (End::NegInf, _) | (_, End::PosInf) => true,
        (End::At(start), End::At(end)) => {
            let next = a.add_const(end, 1);
            let (start, next) = same_type(a, start, next);
            let holds = a.compare(CmpOp::Le, start, next);
            analyzer.can_prove(a, holds)
        }
        _ => false,
    }
}

fn same_type(a: &mut Arena, x: ExprId, y: ExprId) -> (ExprId, ExprId) {
    let (p, q) = (a.dtype(x), a.dtype(y));
    let wide = if p.bits() >= q.bits() { p } else { q };
    (a.cast(wide, x), a.cast(wide, y))
}

/// All integers that are in every set; [`IntSet::NOTHING`] where that provably is none.
pub fn intersect(a: &mut Arena, sets: &[IntSet]) -> IntSet {
    match sets {
        [] => IntSet::NOTHING,
        [one] => *one,
        [first, rest @ ..] => {
            let mut common = *first;
            for set in rest {
                let min = greater(a, common.min, set.min);
                let max = lesser(a, common.max, set.max);
                if let (End::At(min), End::At(max)) = (min, max) {
                    let (max, min) = same_type(a, max, min);
                    let empty = a.lt(max, min);
                    if Analyzer::new().can_prove(a, empty) {
                        return IntSet::NOTHING;
                    }
                }
                common = IntSet { min, max };
            }
            simplified(a, common)
        }
    }
}

fn simplified(a: &mut Arena, set: IntSet) -> IntSet {
    let mut analyzer = Analyzer::new();
    let mut end = |a: &mut Arena, end| match end {
        End::At(e) => End::At(analyzer.simplify(a, e)),
        End::NegInf | End::PosInf => end,
    };
    IntSet { min: end(a, set.min), max: end(a, set.max) }
}

fn union_pair(a: &mut Arena, x: IntSet, y: IntSet) -> IntSet {
    if x.is_nothing() {
        return y;
    }
    if y.is_nothing() {
        return x;
    }
    IntSet { min: lesser(a, x.min, y.min), max: greater(a, x.max, y.max) }
}

fn lesser(a: &mut Arena, x: End, y: End) -> End {
    match (x, y) {
        (End::NegInf, _) | (_, End::NegInf) => End::NegInf,
        (End::PosInf, other) | (other, End::PosInf) => other,
        (End::At(x), End::At(y)) => End::At(binary(a, BinOp::Min, x, y)),
    }
}

fn greater(a: &mut Arena, x: End, y: End) -> End {
    match (x, y) {
        (End::PosInf, _) | (_, End::PosInf) => End::PosInf,
        (End::NegInf, other) | (other, End::NegInf) => other,
        (End::At(x), End::At(y)) => End::At(binary(a, BinOp::Max, x, y)),
    }
}

/// A set that holds all values of the expression, its variables taken from their sets; variables without one stay.
pub fn eval_set(a: &mut Arena, e: ExprId, domains: &Domains) -> IntSet {
    let mut analyzer = Analyzer::new();
    Evaluator::new(a, &mut analyzer, domains, &[]).eval(e)
}

/// [`eval_set`] of the range `min .. min + extent`.
pub fn eval_range(a: &mut Arena, min: ExprId, extent: ExprId, domains: &Domains) -> IntSet {
    let mut analyzer = Analyzer::new();
    let one = a.int(1, a.dtype(extent));
    if analyzer.can_prove_equal(a, extent, one) {
        return eval_set(a, min, domains);
    }
    // Simplified first: start and extent may share variables.
    let end = binary(a, BinOp::Add, min, extent);
    let last = a.add_const(end, -1);
    let last = analyzer.simplify(a, last);
    Evaluator::new(a, &mut analyzer, domains, &[]).eval_interval(IntSet::interval(min, last))
}

/// [`eval_range`] of each dimension of a region.
pub fn eval_region(a: &mut Arena, region: &[(ExprId, ExprId)], domains: &Domains) -> Vec<IntSet> {
    let mut analyzer = Analyzer::new();
    region
        .iter()
        .map(|&(min, extent)| {
            let rest = a.add_const(extent, -1);
            let last = binary(a, BinOp::Add, min, rest);
            let last = analyzer.simplify(a, last);
            Evaluator::new(a, &mut analyzer, domains, &[]).eval_interval(IntSet::interval(min, last))
        })
        .collect()
}

impl Analyzer {
    /// A set that holds all values of the expression, variables relaxed over the ranges they are bound to.
    pub fn int_set(&mut self, a: &mut Arena, e: ExprId) -> IntSet {
        let domains = self.domains();
        let facts = self.set_facts.clone();
        Evaluator::new(a, self, &domains, &facts).eval(e)
    }
}

/// The ranges of variables that a condition states.
pub(super) fn facts_of(a: &mut Arena, condition: ExprId) -> SmallVec<[(VarId, IntSet); 2]> {
    let mut facts = SmallVec::new();
    let Expr::Compare(op, x, y) = a.expr(condition) else { return facts };
    if !a.dtype(x).is_index() {
        return facts;
    }
    for (op, x, limit) in [(op, x, y), (op.swapped(), y, x)] {
        let Some(v) = a.as_var(x) else { continue };
        let set = match op {
            CmpOp::Le => IntSet { min: End::NegInf, max: End::At(limit) },
            CmpOp::Lt => IntSet { min: End::NegInf, max: End::At(a.add_const(limit, -1)) },
            CmpOp::Ge => IntSet { min: End::At(limit), max: End::PosInf },
            CmpOp::Gt => IntSet { min: End::At(a.add_const(limit, 1)), max: End::PosInf },
            CmpOp::Eq => IntSet::point(limit),
            CmpOp::Ne => continue,
        };
        facts.push((v, set));
    }
    facts
}

/// Evaluates expressions over sets.
struct Evaluator<'a> {
    a: &'a mut Arena,
    analyzer: &'a mut Analyzer,
    domains: &'a Domains,
    facts: &'a Domains,
    /// Number of variables that have been replaced by sets that mention other variables.
    depth: usize,
    in_progress: SmallVec<[VarId; 4]>,
}

impl<'a> Evaluator<'a> {
    fn new(a: &'a mut Arena, analyzer: &'a mut Analyzer, domains: &'a Domains, facts: &'a Domains) -> Self {
        Evaluator { a, analyzer, domains, facts, depth: 0, in_progress: SmallVec::new() }
    }

    fn eval_interval(&mut self, set: IntSet) -> IntSet {
        if self.depth >= self.domains.len() {
            return set;
        }
        self.depth += 1;
        let min = match set.min {
            End::At(e) => self.eval(e).min,
            end => end,
        };
        let max = match set.max {
            End::At(e) => self.eval(e).max,
            end => end,
        };
        self.depth -= 1;
        IntSet { min, max }
    }

    fn eval(&mut self, e: ExprId) -> IntSet {
        if !self.analyzer.descend() {
            return IntSet::EVERYTHING;
        }
        let set = self.eval_node(e);
        self.analyzer.ascend();
        set
    }

    fn eval_node(&mut self, e: ExprId) -> IntSet {
        if self.a.lanes(e) > 1 {
            return self.eval_lanes(e);
        }
        match self.a.expr(e) {
            Expr::Int(_) => IntSet::point(e),
            Expr::Var(v) => self.eval_var(e, v),
            Expr::Binary(op, x, y) => {
                let (p, q) = (self.eval(x), self.eval(y));
                if p.as_point() == Some(x) && q.as_point() == Some(y) {
                    return IntSet::point(e);
                }
                self.combine(op, p, q, x, self.a.dtype(e))
            }
            Expr::Compare(op, x, y) => {
                let (p, q) = (self.eval(x), self.eval(y));
                match (p.as_point(), q.as_point()) {
                    (Some(x), Some(y)) => {
                        let (x, y) = same_type(self.a, x, y);
                        IntSet::point(self.a.compare(op, x, y))
                    }
                    _ => IntSet::interval(self.a.bool(false), self.a.bool(true)),
                }
            }
            Expr::Select(_, t, o) => {
                let (t, o) = (self.eval(t), self.eval(o));
                union_pair(self.a, o, t)
            }
            Expr::Cast(x) => self.eval_cast(e, x),
            Expr::Load(_, indices) => {
                // An element selected by no relaxed variable is one value.
                let relaxed = self
                    .a
                    .list(indices)
                    .iter()
                    .any(|&i| uses_var(self.a, i, &mut |v| self.domains.iter().any(|d| d.0 == v)));
                if relaxed || !self.a.dtype(e).is_integer() { IntSet::EVERYTHING } else { IntSet::point(e) }
            }
            Expr::Float(_) | Expr::Str(_) | Expr::Not(_) | Expr::IfThenElse(..) | Expr::Call(..) | Expr::Let(..) => {
                IntSet::EVERYTHING
            }
            Expr::Ramp(..) | Expr::Broadcast(_) | Expr::Shuffle(..) | Expr::Builtin(..) | Expr::BufferData(_) => {
                IntSet::EVERYTHING
            }
        }
    }

    /// Joins the sets of all lanes of a vector.
    fn eval_lanes(&mut self, e: ExprId) -> IntSet {
        match self.a.expr(e) {
            Expr::Broadcast(value) => self.eval(value),
            Expr::Ramp(base, stride) => {
                let lanes = i64::from(self.a.lanes(e));
                let Some(reach) = self.a.as_int(stride).and_then(|s| s.checked_mul(lanes - 1)) else {
                    return IntSet::EVERYTHING;
                };
                let dtype = self.a.dtype(base);
                let (zero, reach) = (self.a.int(0, dtype), self.a.int(reach, dtype));
                let steps = match self.a.as_int(reach) {
                    Some(r) if r < 0 => IntSet::interval(reach, zero),
                    _ => IntSet::interval(zero, reach),
                };
                let base_set = self.eval(base);
                self.combine(BinOp::Add, base_set, steps, base, dtype)
            }
            _ => IntSet::EVERYTHING,
        }
    }

    fn eval_var(&mut self, e: ExprId, v: VarId) -> IntSet {
        let mut sets: SmallVec<[IntSet; 2]> = SmallVec::new();
        sets.extend(self.facts.iter().filter(|f| f.0 == v).map(|f| f.1));
        sets.extend(self.domains.iter().find(|d| d.0 == v).map(|d| d.1));
        let set = match sets.as_slice() {
            [] => return IntSet::point(e),
            [one] => *one,
            several => intersect(self.a, several),
        };
        if set.as_point() == Some(e) || self.in_progress.contains(&v) {
            return set;
        }
        self.in_progress.push(v);
        let relaxed = self.eval_interval(set);
        self.in_progress.pop();
        relaxed
    }

    fn eval_cast(&mut self, e: ExprId, x: ExprId) -> IntSet {
        let dtype = self.a.dtype(e);
        let inner = self.a.dtype(x);
        // A conversion that may wrap gives anything.
        let keeps = inner.is_integer()
            && dtype.is_integer()
            && (Bound::of_type(inner).within(Bound::of_type(dtype))
                || self.analyzer.const_int_bound(self.a, x).within(Bound::of_type(dtype)));
        if !keeps {
            let set = self.eval(x);
            return match set.as_point() {
                Some(x) => IntSet::point(self.a.cast(dtype, x)),
                None => IntSet::EVERYTHING,
            };
        }
        let set = self.eval(x);
        let end = |a: &mut Arena, end| match end {
            End::At(x) => End::At(a.cast(dtype, x)),
            end => end,
        };
        IntSet { min: end(self.a, set.min), max: end(self.a, set.max) }
    }

    fn combine(&mut self, op: BinOp, p: IntSet, q: IntSet, dividend: ExprId, dtype: DType) -> IntSet {
        if let (Some(x), Some(y)) = (p.as_point(), q.as_point()) {
            return IntSet::point(binary(self.a, op, x, y));
        }
        if matches!(op, BinOp::And | BinOp::Or) {
            return IntSet::interval(self.a.bool(false), self.a.bool(true));
        }
        if p.is_nothing() || q.is_nothing() {
            return IntSet::NOTHING;
        }
        if !dtype.is_index() {
            // Others wrap.
            return IntSet::EVERYTHING;
        }
        match op {
            BinOp::Add => {
                let min = self.both(BinOp::Add, p.min, q.min, End::NegInf);
                IntSet { min, max: self.both(BinOp::Add, p.max, q.max, End::PosInf) }
            }
            BinOp::Sub => {
                let min = self.both(BinOp::Sub, p.min, q.max, End::NegInf);
                IntSet { min, max: self.both(BinOp::Sub, p.max, q.min, End::PosInf) }
            }
            BinOp::Mul => {
                let (p, q) = if p.as_point().is_some() { (q, p) } else { (p, q) };
                match q.as_point() {
                    Some(c) if self.a.is_int(c, 0) => q,
                    Some(c) if self.a.is_int(c, 1) => p,
                    Some(c) => self.monotone(BinOp::Mul, p, c),
                    None => IntSet::EVERYTHING,
                }
            }
            BinOp::Div | BinOp::FloorDiv => match q.as_point() {
                Some(c) if self.a.is_int(c, 1) => p,
                Some(c) if !self.a.is_int(c, 0) => self.monotone(op, p, c),
                _ => IntSet::EVERYTHING,
            },
            BinOp::FloorMod => match q.as_point() {
                Some(c) if !self.a.is_int(c, 0) => self.remainder(p, c, dividend),
                _ => IntSet::EVERYTHING,
            },
            BinOp::Mod => match q.as_point() {
                Some(c) if !self.a.is_int(c, 0) => self.trunc_remainder(p, c),
                _ => IntSet::EVERYTHING,
            },
            BinOp::Min => {
                // One finite operand limits a minimum from above.
                let max = lesser(self.a, p.max, q.max);
                IntSet { min: lesser(self.a, p.min, q.min), max }
            }
            BinOp::Max => {
                let min = greater(self.a, p.min, q.min);
                IntSet { min, max: greater(self.a, p.max, q.max) }
            }
            BinOp::And | BinOp::Or => IntSet::EVERYTHING,
        }
    }

    fn both(&mut self, op: BinOp, x: End, y: End, otherwise: End) -> End {
        match (x, y) {
            (End::At(x), End::At(y)) => End::At(binary(self.a, op, x, y)),
            _ => otherwise,
        }
    }

    /// A product or quotient by one value, which keeps or reverses the order according to its sign.
    fn monotone(&mut self, op: BinOp, p: IntSet, c: ExprId) -> IntSet {
        let apply = |s: &mut Self, end: End, otherwise: End| match end {
            End::At(x) => End::At(binary(s.a, op, x, c)),
            End::NegInf | End::PosInf => otherwise,
        };
        if self.analyzer.can_prove_greater_equal(self.a, c, 0) {
            return IntSet { min: apply(self, p.min, End::NegInf), max: apply(self, p.max, End::PosInf) };
        }
        let zero = self.a.int(0, self.a.dtype(c));
        let opposite = self.a.sub(zero, c);
        if self.analyzer.can_prove_greater_equal(self.a, opposite, 1) {
            return IntSet { min: apply(self, p.max, End::NegInf), max: apply(self, p.min, End::PosInf) };
        }
        if let (End::At(low), End::At(high)) = (p.min, p.max) {
            let sign = self.a.compare(CmpOp::Ge, c, zero);
            let (low, high) = (binary(self.a, op, low, c), binary(self.a, op, high, c));
            return IntSet::interval(self.a.select(sign, low, high), self.a.select(sign, high, low));
        }
        IntSet::EVERYTHING
    }

    fn remainder(&mut self, p: IntSet, c: ExprId, dividend: ExprId) -> IntSet {
        if !self.analyzer.can_prove_greater_equal(self.a, c, 0) {
            return IntSet::EVERYTHING;
        }
        let dtype = self.a.dtype(c);
        let zero = self.a.int(0, dtype);
        if let Some(divisor) = self.a.as_int(c) {
            if let (End::At(low), End::At(high)) = (p.min, p.max) {
                let (low_q, high_q) =
                    (binary(self.a, BinOp::FloorDiv, low, c), binary(self.a, BinOp::FloorDiv, high, c));
                if self.analyzer.can_prove_equal(self.a, high_q, low_q) {
                    // All of one quotient: the remainders follow the dividends.
                    let base = binary(self.a, BinOp::Mul, c, low_q);
                    let high = binary(self.a, BinOp::Sub, high, base);
                    return IntSet::interval(binary(self.a, BinOp::Sub, low, base), high);
                }
            }
            let residue = self.analyzer.modular_set(self.a, dividend);
            let step = gcd(residue.coeff, divisor);
            if residue.coeff > 0 && step > 1 {
                let last = divisor - step + residue.base % step;
                return IntSet::interval(zero, self.a.int(last, dtype));
            }
        }
        IntSet::interval(zero, self.a.add_const(c, -1))
    }

    fn trunc_remainder(&mut self, p: IntSet, c: ExprId) -> IntSet {
        if !self.analyzer.can_prove_greater_equal(self.a, c, 0) {
            return IntSet::EVERYTHING;
        }
        let last = self.a.add_const(c, -1);
        let zero = self.a.int(0, self.a.dtype(c));
        let not_negative = p.lower().is_some_and(|low| self.analyzer.can_prove_greater_equal(self.a, low, 0));
        let first = if not_negative { zero } else { self.a.sub(zero, last) };
        IntSet::interval(first, last)
    }
}

/// Whether the expression uses a variable for which `f` returns true.
pub(crate) fn uses_var(a: &Arena, e: ExprId, f: &mut impl FnMut(VarId) -> bool) -> bool {
    match a.expr(e) {
        Expr::Int(_) | Expr::Float(_) | Expr::Str(_) => false,
        Expr::Var(v) => f(v),
        _ => {
            let mut found = false;
            a.for_each_child(e, |c| found = found || uses_var(a, c, f));
            found
        }
    }
}
