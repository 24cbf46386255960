//! Rewrites expressions as sums of splits.

use super::predicate::Constraint;
use super::{IterMapError, IterMapLevel, IterMark, IterSplit, IterSum, MarkId, MarkSource, VarRange};
use crate::arith::analyzer::Analyzer;
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp};
use smallvec::{SmallVec, smallvec};

/// An expression during its conversion to a sum of splits.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// An expression without iterators.
    Expr(ExprId),
    /// A part of one iterator.
    Split(IterSplit),
    /// Several splits, or a split with a base.
    Sum(IterSum),
}

/// The padding of an iterator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Padding {
    /// A common multiple of all divisors.
    pub(super) factor: ExprId,
    pub(super) left: ExprId,
    /// The padded iterator, once made.
    pub(super) padded: Option<MarkId>,
}

/// A fused iterator, and the offset that must be added to its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fused {
    pub(super) mark: MarkId,
    pub(super) offset: ExprId,
}

/// Rewrites expressions over one domain.
pub(super) struct Rewriter<'a> {
    pub(super) a: &'a mut Arena,
    pub(super) analyzer: &'a mut Analyzer,
    pub(super) level: IterMapLevel,
    pub(super) marks: Vec<IterMark>,
    vars: SmallVec<[(VarId, Value); 8]>,
    pub(super) inputs: SmallVec<[MarkId; 8]>,
    /// By iterator; iterators of one structure share an entry.
    pub(super) paddings: Vec<(MarkId, Padding)>,
    /// Pairs of a padded iterator and its original.
    pub(super) padded_from: Vec<(MarkId, MarkId)>,
    /// Whether this is the first round, which only learns the necessary padding.
    pub(super) collects_padding: bool,
    pub(super) requires_padding: bool,
    pub(super) padding_predicate: ExprId,
    /// Fused iterators by their flat sums, in which no constraint groups splits.
    pub(super) fused: Vec<(IterSum, Fused)>,
    /// Flat sums by structured ones.
    pub(super) flat: Vec<(IterSum, IterSum)>,
    /// Flat sums that the predicate constrains, shorter ones first.
    pub(super) constrained: Vec<IterSum>,
    error: Option<IterMapError>,
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(
        a: &'a mut Arena,
        analyzer: &'a mut Analyzer,
        domain: &[VarRange],
        level: IterMapLevel,
        simplify_trivial_iterators: bool,
    ) -> Self {
        let padding_predicate = a.bool(false);
        let mut r = Rewriter {
            a,
            analyzer,
            level,
            marks: Vec::with_capacity(domain.len() + 4),
            vars: SmallVec::new(),
            inputs: SmallVec::new(),
            paddings: Vec::new(),
            padded_from: Vec::new(),
            collects_padding: false,
            requires_padding: false,
            padding_predicate,
            fused: Vec::new(),
            flat: Vec::new(),
            constrained: Vec::new(),
            error: None,
        };
        for &VarRange { var, min, extent } in domain {
            let value = if simplify_trivial_iterators && r.a.is_int(extent, 1) {
                Value::Sum(IterSum { args: smallvec![], base: min })
            } else {
                let v = r.a.var_expr(var);
                // Iterators start at 0.
                let source = if r.a.is_int(min, 0) { v } else { r.a.sub(v, min) };
                let mark = r.new_mark(MarkSource::Expr(source), extent);
                r.inputs.push(mark);
                let split = r.whole(mark);
                if r.a.is_int(min, 0) { Value::Split(split) } else { Value::Sum(IterSum::new(&[split], min)) }
            };
            r.vars.push((var, value));
        }
        r
    }

    pub(super) fn new_mark(&mut self, source: MarkSource, extent: ExprId) -> MarkId {
        self.marks.push(IterMark { source, extent });
        MarkId(self.marks.len() as u32 - 1)
    }

    /// The split that covers a whole iterator.
    pub(super) fn whole(&mut self, mark: MarkId) -> IterSplit {
        let extent = self.marks[mark.index()].extent;
        let one = self.a.int(1, self.mark_dtype(mark));
        IterSplit { mark, lower_factor: one, extent, scale: one }
    }

    pub(super) fn mark_dtype(&self, mark: MarkId) -> DType {
        match &self.marks[mark.index()].source {
            MarkSource::Expr(e) => self.a.dtype(*e),
            MarkSource::Sum(sum) => self.a.dtype(sum.base),
        }
    }

    /// The index as a fused iterator and a base.
    pub(super) fn rewrite(&mut self, e: ExprId) -> Result<IterSum, IterMapError> {
        let value = self.mutate(e);
        let sum = self.as_sum(value);
        self.take_error()?;
        if sum.args.is_empty() {
            return Ok(sum);
        }
        let level = self.level;
        match self.try_fuse(&sum, level, true) {
            Some(fused) => self.take_error().map(|()| fused),
            None => Err(IterMapError::NotFused),
        }
    }

    /// Learns a constraint; sums that contain the constrained one are fused differently.
    pub(super) fn rewrite_constraint(&mut self, c: &Constraint) -> Result<(), IterMapError> {
        let value = self.mutate(c.iter);
        let sum = self.as_sum(value);
        self.take_error()?;
        self.constrain(sum, c.lower, c.upper).ok_or(IterMapError::Constraint(c.iter))?;
        self.take_error()
    }

    /// The index as a sum of splits by descending scale. The base contains the parts that are not splits.
    #[cfg(test)]
    pub(super) fn rewrite_to_normal_sum(&mut self, e: ExprId) -> IterSum {
        let value = self.mutate(e);
        let sum = self.as_sum(value);
        self.normal_sum(sum)
    }

    /// Records why an expression is not an iterator map; the first reason is kept.
    pub(super) fn fail(&mut self, error: IterMapError) {
        self.error.get_or_insert(error);
    }

    fn take_error(&mut self) -> Result<(), IterMapError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn as_sum(&mut self, value: Value) -> IterSum {
        match value {
            Value::Sum(sum) => sum,
            Value::Split(split) => {
                let zero = self.a.int(0, self.a.dtype(split.scale));
                IterSum::new(&[split], zero)
            }
            Value::Expr(e) => IterSum { args: smallvec![], base: e },
        }
    }

    /// The value of an expression.
    pub(super) fn mutate(&mut self, e: ExprId) -> Value {
        match self.a.expr(e) {
            Expr::Int(_) => return Value::Expr(e),
            Expr::Var(v) => {
                let known = self.vars.iter().find(|x| x.0 == v);
                return known.map_or(Value::Expr(e), |x| x.1.clone());
            }
            _ => {}
        }
        if !self.analyzer.descend() {
            self.fail(IterMapError::NotAffine(e));
            return Value::Expr(e);
        }
        let value = self.mutate_node(e);
        self.analyzer.ascend();
        value
    }

    fn mutate_node(&mut self, e: ExprId) -> Value {
        let is_index = self.a.dtype(e).is_index();
        match self.a.expr(e) {
            Expr::Binary(op, x, y)
                if is_index
                    && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::FloorDiv | BinOp::FloorMod) =>
            {
                let (x, y) = (self.mutate(x), self.mutate(y));
                if let Some(folded) = self.fold(op, &x, &y) {
                    return folded;
                }
                if let (Value::Expr(x), Value::Expr(y)) = (&x, &y) {
                    return Value::Expr(self.a.binary(op, *x, *y));
                }
                match op {
                    BinOp::Add => self.add(x, y, BinOp::Add),
                    BinOp::Sub => self.add(x, y, BinOp::Sub),
                    BinOp::Mul => self.multiply(e, x, y),
                    _ => self.divide(e, op, x, y),
                }
            }
            _ => {
                // Any other operation requires operands without iterators.
                let Rewriter { a, .. } = self;
                let mut children: SmallVec<[ExprId; 4]> = SmallVec::new();
                a.for_each_child(e, |c| children.push(c));
                for c in children {
                    if !matches!(self.mutate(c), Value::Expr(_)) {
                        self.fail(IterMapError::NotAffine(e));
                        return Value::Expr(e);
                    }
                }
                Value::Expr(e)
            }
        }
    }

    /// Folds neutral and absorbing constants, which works for iterators too.
    fn fold(&mut self, op: BinOp, x: &Value, y: &Value) -> Option<Value> {
        let constant = |a: &Arena, v: &Value| match v {
            Value::Expr(e) => a.as_int(*e).map(|v| (*e, v)),
            Value::Split(_) | Value::Sum(_) => None,
        };
        match (constant(self.a, x), constant(self.a, y)) {
            (Some(_), Some(_)) => None,
            (Some((zero, v)), None) => match (op, v) {
                (BinOp::Add, 0) | (BinOp::Mul, 1) => Some(y.clone()),
                (BinOp::Mul | BinOp::FloorDiv | BinOp::FloorMod, 0) => Some(Value::Expr(zero)),
                _ => None,
            },
            (None, Some((c, v))) => match (op, v) {
                (BinOp::Add | BinOp::Sub, 0) | (BinOp::Mul | BinOp::FloorDiv, 1) => Some(x.clone()),
                (BinOp::Mul, 0) => Some(Value::Expr(c)),
                (BinOp::FloorMod, 1) => Some(Value::Expr(self.a.int(0, self.a.dtype(c)))),
                _ => None,
            },
            (None, None) => None,
        }
    }

    fn add(&mut self, x: Value, y: Value, op: BinOp) -> Value {
        let mut sum = self.as_sum(x);
        match y {
            Value::Expr(e) => sum.base = self.a.binary(op, sum.base, e),
            Value::Split(split) => self.add_split(&mut sum, split, op),
            Value::Sum(other) => {
                for split in other.args {
                    self.add_split(&mut sum, split, op);
                }
                sum.base = self.a.binary(op, sum.base, other.base);
            }
        }
        Value::Sum(sum)
    }

    fn add_split(&mut self, sum: &mut IterSum, split: IterSplit, op: BinOp) {
        let same =
            |l: &IterSplit| l.mark == split.mark && l.lower_factor == split.lower_factor && l.extent == split.extent;
        if let Some(left) = sum.args.iter_mut().find(|l| same(l)) {
            left.scale = self.a.binary(op, left.scale, split.scale);
            return;
        }
        let scale = if op == BinOp::Add {
            split.scale
        } else {
            let zero = self.a.int(0, self.a.dtype(split.scale));
            self.a.sub(zero, split.scale)
        };
        sum.args.push(IterSplit { scale, ..split });
    }

    fn multiply(&mut self, e: ExprId, x: Value, y: Value) -> Value {
        let (iter, c) = match (x, y) {
            (Value::Expr(c), iter) | (iter, Value::Expr(c)) => (iter, c),
            _ => {
                self.fail(IterMapError::Product(e));
                return Value::Expr(e);
            }
        };
        match iter {
            Value::Sum(mut sum) => {
                for split in &mut sum.args {
                    split.scale = self.a.mul(split.scale, c);
                }
                sum.base = self.a.mul(sum.base, c);
                Value::Sum(sum)
            }
            Value::Split(split) => Value::Split(IterSplit { scale: self.a.mul(split.scale, c), ..split }),
            Value::Expr(_) => Value::Expr(e),
        }
    }

    /// Rewrites `e`, which is `x // y` or `x % y`.
    fn divide(&mut self, e: ExprId, op: BinOp, x: Value, y: Value) -> Value {
        let Value::Expr(divisor) = y else {
            self.fail(IterMapError::IteratorDivisor(e));
            return Value::Expr(e);
        };
        let Some((split, base)) = self.single_split(x) else { return Value::Expr(e) };
        let part = if op == BinOp::FloorDiv {
            self.quotient(split, base, divisor)
        } else {
            self.remainder(split, base, divisor)
        };
        part.unwrap_or(Value::Expr(e))
    }

    /// A dividend as one split and a base.
    fn single_split(&mut self, x: Value) -> Option<(IterSplit, ExprId)> {
        let sum = self.as_sum(x);
        match sum.args.as_slice() {
            // The value of an iterator of extent 1, which stays as it is written.
            [] => None,
            [split] => Some((*split, sum.base)),
            _ => {
                let level = self.level;
                match self.try_fuse(&sum, level, true) {
                    Some(IterSum { args, base }) if args.len() == 1 => Some((args[0], base)),
                    _ => {
                        self.fail(IterMapError::NotFused);
                        None
                    }
                }
            }
        }
    }

    // ---- proofs --------------------------------------------------------------------------------------------

    /// Whether `divisor` provably divides `e`.
    pub(super) fn divides(&mut self, divisor: ExprId, e: ExprId) -> bool {
        match (self.a.as_int(e), self.a.as_int(divisor)) {
            (_, Some(0)) => return false,
            (Some(e), Some(d)) => return e.checked_rem(d) == Some(0),
            _ => {}
        }
        if self.analyzer.can_prove_equal(self.a, e, divisor) {
            return true;
        }
        let rest = self.a.floor_mod(e, divisor);
        let zero = self.a.int(0, self.a.dtype(rest));
        let even = self.a.compare(CmpOp::Eq, rest, zero);
        self.analyzer.can_prove(self.a, even)
    }

    pub(super) fn equal(&mut self, x: ExprId, y: ExprId) -> bool {
        self.analyzer.can_prove_equal(self.a, x, y)
    }

    /// Whether `x op y` is provable.
    pub(super) fn proves(&mut self, op: CmpOp, x: ExprId, y: ExprId) -> bool {
        let holds = self.a.compare(op, x, y);
        self.analyzer.can_prove(self.a, holds)
    }

    pub(super) fn zero_like(&mut self, e: ExprId) -> ExprId {
        self.a.int(0, self.a.dtype(e))
    }
}
