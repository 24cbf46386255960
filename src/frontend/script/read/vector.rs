//! Reads vectors: ramps, broadcasts, shuffles, and slices as indices.
//!
//! TVM's rules: `A[a:b:s]` is the access at `T.Ramp(a, s, (b - a) // s)`, whose number of lanes must be a constant; a
//! slice of one element is that element. An operator broadcasts a scalar to the lanes of the other operand; the lanes
//! of two vectors must be equal.

use super::func::FuncReader;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::difference::difference;
use crate::ir::{BufferId, ExprId};
use crate::script::python::{Call, Expr, ExprKind, Slice};
use smallvec::SmallVec;

/// Exclusive upper bound of a vector's number of lanes.
const MAX_LANES: i128 = 1 << 15;

impl<'a> FuncReader<'a, '_> {
    /// `T.Ramp(base, stride, lanes)`
    pub(super) fn ramp(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["base", "stride", "lanes", "*", "span"], 3)?;
        let (base_at, stride_at, lanes_at) = (args[0]?, args[1]?, args[2]?);
        let (base, stride) = (self.expr(base_at), self.expr(stride_at));
        let lanes = self.lane_count(lanes_at);
        let (base, stride, lanes) = (base?, stride?, lanes?);
        self.scalar(base, base_at.span)?;
        self.scalar(stride, stride_at.span)?;
        let dtype = self.func.arena.dtype(base);
        if !dtype.is_integer() && !dtype.is_float() {
            let message = format!("expected a number as base of `{full}`, found `{dtype}`");
            return self.fail(Diagnostic::error_at("type-mismatch", base_at.span, message));
        }
        let stride = self.cast(dtype, stride);
        Some(Value::Expr(self.func.arena.ramp(base, stride, lanes)))
    }

    /// `T.Broadcast(value, lanes)`
    pub(super) fn broadcast(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["value", "lanes", "*", "span"], 2)?;
        let (value_at, lanes_at) = (args[0]?, args[1]?);
        let value = self.expr(value_at);
        let (lanes, value) = (self.lane_count(lanes_at)?, value?);
        self.scalar(value, value_at.span)?;
        Some(Value::Expr(self.func.arena.broadcast(value, lanes)))
    }

    /// `T.Shuffle([vectors…], [indices…])`
    pub(super) fn shuffle(&mut self, full: &str, call: &Call<'a>) -> Option<Value> {
        let args = self.args(full, call, &["vectors", "indices", "*", "span"], 2)?;
        let (vectors_at, indices_at) = (args[0]?, args[1]?);
        let (vectors, indices) = (self.exprs(vectors_at), self.exprs(indices_at));
        let (vectors, indices) = (vectors?, indices?);
        let first = self.func.arena.dtype(vectors[0]);
        if let Some(&other) = vectors.iter().find(|&&v| self.func.arena.dtype(v) != first) {
            let found = self.func.arena.dtype(other);
            let message = format!("expected vectors of one type for `{full}`, found `{first}` and `{found}`");
            return self.fail(Diagnostic::error_at("type-mismatch", vectors_at.span, message));
        }
        if indices.len() as i128 > MAX_LANES {
            return self.fail(Diagnostic::error_at("wrong-argument", indices_at.span, "too many lanes"));
        }
        Some(Value::Expr(self.func.arena.shuffle(&vectors, &indices)))
    }

    /// Evaluates the items of a non-empty list.
    fn exprs(&mut self, e: &Expr<'a>) -> Option<Vec<ExprId>> {
        match self.eval(e)? {
            Value::Seq(items) if !items.is_empty() => {
                let all: Vec<Option<ExprId>> = items.into_iter().map(|v| self.expr_of(v, e.span)).collect();
                all.into_iter().collect()
            }
            other => {
                let message = format!("expected a list of expressions, found {}", other.describe());
                self.fail(Diagnostic::error_at("wrong-argument", e.span, message))
            }
        }
    }

    /// A number of lanes: a positive constant.
    fn lane_count(&mut self, e: &Expr<'a>) -> Option<u16> {
        let value = match self.eval(e)? {
            Value::Int(v) => Some(v),
            Value::Expr(e) => self.func.arena.as_int(e).map(i128::from),
            _ => None,
        };
        match value {
            Some(v) if (1..=MAX_LANES).contains(&v) => Some(v as u16),
            _ => {
                let d = Diagnostic::error_at("wrong-argument", e.span, "expected a positive constant number of lanes");
                self.fail(d.help("vectors whose length only the machine knows (`T.vscale`) are not supported"))
            }
        }
    }

    /// Reports a vector where a scalar is required.
    pub(super) fn scalar(&mut self, e: ExprId, span: Span) -> Option<()> {
        let found = self.func.arena.ty(e);
        if !found.is_vector() {
            return Some(());
        }
        self.fail(Diagnostic::error_at("vector", span, format!("expected a scalar, found `{found}`")))
    }

    /// Operands with equal lanes: a scalar is broadcast.
    pub(super) fn equal_lanes(&mut self, x: ExprId, y: ExprId, span: Span) -> Option<(ExprId, ExprId)> {
        let (x, y) = self.func.arena.with_equal_lanes(x, y);
        let (tx, ty) = (self.func.arena.ty(x), self.func.arena.ty(y));
        if tx.lanes == ty.lanes {
            return Some((x, y));
        }
        let message = format!("expected equally many lanes, found `{tx}` and `{ty}`");
        self.fail(Diagnostic::error_at("lanes", span, message))
    }

    /// The index for a slice.
    pub(super) fn slice_index(&mut self, b: BufferId, dim: usize, slice: &Slice<'a>, span: Span) -> Option<ExprId> {
        let shape: SmallVec<[ExprId; 6]> = self.func.arena.list(self.func.arena.buffer(b).shape).into();
        let dtype = shape.get(dim).map_or(crate::ir::DType::Int32, |&e| self.func.arena.dtype(e));
        let lower = match &slice.lower {
            Some(e) => self.index(e)?,
            None => self.func.arena.int(0, dtype),
        };
        let upper = match (&slice.upper, shape.get(dim)) {
            (Some(e), _) => self.index(e)?,
            (None, Some(&extent)) => extent,
            (None, None) => return self.wrong_rank(b, dim + 1, span),
        };
        let step = match &slice.step {
            None => 1,
            Some(e) => match self.eval(e)? {
                Value::Int(v) if v != 0 && v.abs() <= MAX_LANES => v as i64,
                _ => {
                    let message = "expected a constant step other than 0";
                    return self.fail(Diagnostic::error_at("wrong-argument", e.span, message));
                }
            },
        };
        let (lower, upper) = self.same_index_type(lower, upper);
        let size = difference(&mut self.func.arena, upper, lower);
        let lanes = self.func.arena.as_int(size).and_then(|n| n.checked_add(step - step.signum())).map(|n| n / step);
        match lanes {
            Some(n) if n >= 1 && i128::from(n) <= MAX_LANES => {
                let stride = self.func.arena.int(step, self.func.arena.dtype(lower));
                Some(self.func.arena.ramp(lower, stride, n as u16))
            }
            _ => {
                let message = "expected a slice of a constant positive number of elements";
                self.fail(Diagnostic::error_at("wrong-argument", span, message))
            }
        }
    }

    /// The items of an index as expressions; a slice becomes a vector.
    pub(super) fn index_items(&mut self, b: BufferId, items: &[Expr<'a>]) -> Option<SmallVec<[ExprId; 6]>> {
        let indices: SmallVec<[Option<ExprId>; 6]> = items
            .iter()
            .enumerate()
            .map(|(dim, i)| match &i.kind {
                ExprKind::Slice(slice) => self.slice_index(b, dim, slice, i.span),
                _ => self.index(i),
            })
            .collect();
        let indices: SmallVec<[ExprId; 6]> = indices.into_iter().collect::<Option<_>>()?;
        let last = indices.len().saturating_sub(1);
        for (i, &e) in indices.iter().enumerate().take(last) {
            if self.func.arena.lanes(e) > 1 {
                let message = "only the last index of an access may be a vector";
                return self.fail(Diagnostic::error_at("vector-index", items[i].span, message));
            }
        }
        Some(indices)
    }
}
