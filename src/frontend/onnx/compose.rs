//! Calls that many translations are composed of.

use super::node::{Node, Result, int, ints};
use crate::graph::{Arg, Callee, Constant, ValueDef, ValueId};
use crate::ir::{DType, ExprId};

impl Node<'_, '_> {
    pub(super) fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.call("matmul", vec![("x1", Arg::Value(a)), ("x2", Arg::Value(b))])
    }

    pub(super) fn concat(&mut self, all: Vec<ValueId>, axis: usize) -> Result<ValueId> {
        match all[..] {
            [one] => Ok(one),
            _ => self.call("concat", vec![("tensors", Arg::Values(all)), ("axis", int(axis as i64))]),
        }
    }

    /// The elements along an axis from one position up to another, at distances.
    pub(super) fn part(&mut self, x: ValueId, axis: usize, bounds: (i64, i64), step: i64) -> Result<ValueId> {
        let [axis, begin, end, step] = [axis as i64, bounds.0, bounds.1, step].map(|v| Arg::Prims(vec![self.index(v)]));
        let args = vec![("x", Arg::Value(x)), ("axes", axis), ("begin", begin), ("end", end), ("strides", step)];
        self.call("strided_slice", args)
    }

    /// The elements at one position of an axis, without this axis.
    pub(super) fn at(&mut self, x: ValueId, axis: usize, position: i64) -> Result<ValueId> {
        let x = self.part(x, axis, (position, position + 1), 1)?;
        self.squeeze(x, axis)
    }

    pub(super) fn squeeze(&mut self, x: ValueId, axis: usize) -> Result<ValueId> {
        self.call("squeeze", vec![("x", Arg::Value(x)), ("axis", ints(&[axis as i64]))])
    }

    pub(super) fn repeat(&mut self, x: ValueId, times: i64, axis: usize) -> Result<ValueId> {
        if times == 1 {
            return Ok(x);
        }
        self.call("repeat", vec![("data", Arg::Value(x)), ("repeats", int(times)), ("axis", int(axis as i64))])
    }

    pub(super) fn broadcast(&mut self, x: ValueId, shape: Vec<ExprId>) -> Result<ValueId> {
        self.call("broadcast_to", vec![("x", Arg::Value(x)), ("shape", Arg::Shape(shape))])
    }

    /// The quotient that a value is, if it is one.
    pub(super) fn quotient_of(&self, v: ValueId) -> Option<(ValueId, ValueId)> {
        let ValueDef::Call(c) = self.cx.function.value(v).def else { return None };
        let call = self.cx.function.call(c);
        match (&call.callee, &call.args[..]) {
            (Callee::Op(op), [Arg::Value(a), Arg::Value(b)]) if op.name == "divide" => Some((*a, *b)),
            _ => None,
        }
    }

    /// The quotient as the type rounds it. Kernels multiply by a reciprocal where the divisor is the same for many elements, whose
    /// last bit may differ, and halves are then rounded to another integer. In `float64` that bit is not seen.
    pub(super) fn exact_quotient(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        let dtype = self.dtype(a)?;
        if dtype != DType::Float32 {
            return self.binary("divide", a, b);
        }
        let (a, b) = (self.cast(a, DType::Float64)?, self.cast(b, DType::Float64)?);
        let quotient = self.binary("divide", a, b)?;
        self.cast(quotient, dtype)
    }

    /// Elements of the first dimension at indices.
    pub(super) fn take(&mut self, x: ValueId, indices: ValueId) -> Result<ValueId> {
        self.call("take", vec![("x", Arg::Value(x)), ("indices", Arg::Value(indices)), ("axis", int(0))])
    }

    pub(super) fn zeros_like(&mut self, x: ValueId) -> Result<ValueId> {
        self.call("zeros_like", vec![("x", Arg::Value(x))])
    }

    /// A tensor of one number.
    pub(super) fn full(&mut self, shape: Vec<ExprId>, value: f64, dtype: DType) -> Result<ValueId> {
        let value = self.scalar(value, dtype)?;
        self.call("full", vec![("shape", Arg::Shape(shape)), ("fill_value", Arg::Value(value))])
    }

    /// The integers from 0 on.
    pub(super) fn iota(&mut self, n: ExprId) -> Result<ValueId> {
        let (zero, one) = (self.index(0), self.index(1));
        let args = vec![
            ("start", Arg::Prim(zero)),
            ("end", Arg::Prim(n)),
            ("step", Arg::Prim(one)),
            ("dtype", super::node::text("int64")),
        ];
        self.call("arange", args)
    }

    pub(super) fn indices(&mut self, shape: &[i64]) -> Vec<ExprId> {
        shape.iter().map(|&n| self.index(n)).collect()
    }

    pub(super) fn reshape_to(&mut self, x: ValueId, shape: &[i64]) -> Result<ValueId> {
        let shape = self.indices(shape);
        self.reshape(x, shape)
    }

    /// The product of extents.
    pub(super) fn product(&mut self, shape: &[ExprId]) -> ExprId {
        let mut product = self.index(1);
        for &e in shape {
            product = self.arena().mul(product, e);
        }
        super::extents::simplified(self.arena(), product)
    }

    /// A tensor of these numbers.
    pub(super) fn numbers(&mut self, values: &[f64], shape: &[i64], dtype: DType) -> Result<ValueId> {
        let mut data = Vec::new();
        for &v in values {
            match Constant::scalar(v, dtype) {
                Some(one) => data.extend_from_slice(one.data()),
                None => return self.fail(format!("{dtype} has no numbers")),
            }
        }
        match Constant::new(dtype, shape, data) {
            Some(constant) => Ok(self.cx.function.add_constant(constant)),
            None => self.fail(format!("`{}` has another number of elements than its shape says", self.op_type())),
        }
    }

    /// The element type of a number in an attribute; another one where the attribute is absent or 0.
    pub(super) fn dtype_attr(&mut self, name: &str, default: DType) -> Result<DType> {
        match self.opt_int(name).unwrap_or(0) {
            0 => Ok(default),
            n => Ok(super::types::dtype(i32::try_from(n).unwrap_or(-1))?),
        }
    }
}
