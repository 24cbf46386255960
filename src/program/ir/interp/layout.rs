//! The memory layout of buffers.

use super::Precision;
use super::Value;
use super::eval::{Env, Indices, eval_indices, eval_int};
use super::fault::Fault;
use super::tensor::TensorRef;
use crate::ir::buffer::BufferId;
use crate::ir::expr::{Arena, ExprId};

/// The layout of a buffer: element `indices` is at `offset + sum of indices * strides`.
#[derive(Clone)]
pub(super) struct Layout {
    pub offset: i64,
    pub strides: Indices,
    pub shape: Indices,
    /// Whether the shape gives no bounds, because the buffer is another name for memory: an element may be anywhere in
    /// it.
    pub is_unbounded: bool,
}

impl Layout {
    /// The layout that a buffer's shape, strides and offset describe; an offset without a value is 0.
    pub(super) fn of<E: Env>(arena: &Arena, env: &mut E, b: BufferId) -> Result<Layout, E::Stop> {
        let buffer = arena.buffer(b);
        let shape = eval_indices(arena, env, Precision::Exact, arena.list(buffer.shape))?;
        let mut strides = Indices::from_elem(1, shape.len());
        match buffer.strides.map(|l| arena.list(l)).filter(|l| l.len() == shape.len()) {
            Some(list) => strides = eval_indices(arena, env, Precision::Exact, list)?,
            None => {
                for d in (1..shape.len()).rev() {
                    strides[d - 1] = strides[d].wrapping_mul(shape[d]);
                }
            }
        }
        let offset = match buffer.elem_offset {
            Some(e) => {
                bind_symbol(arena, env, e, 0);
                eval_int(arena, env, Precision::Exact, e)?
            }
            None => 0,
        };
        Ok(Layout { offset, strides, shape, is_unbounded: false })
    }

    /// Binds the symbolic extents of a parameter. This happens for all parameters before the first layout is computed,
    /// since a parameter with extent `n + 1` may precede the one with extent `n`.
    pub(super) fn bind_extents<E: Env>(arena: &Arena, env: &mut E, b: BufferId, t: TensorRef<'_>) {
        for (&e, &n) in arena.list(arena.buffer(b).shape).iter().zip(t.shape) {
            bind_symbol(arena, env, e, n);
        }
    }

    /// The layout of a buffer parameter; its symbolic extents take the values of the argument.
    pub(super) fn of_param<E: Env>(
        arena: &Arena,
        env: &mut E,
        param: usize,
        b: BufferId,
        t: TensorRef<'_>,
    ) -> Result<Layout, E::Stop> {
        let buffer = arena.buffer(b);
        if buffer.dtype != t.dtype {
            let found = t.dtype;
            return Err(Box::new(Fault::ArgumentType { param, expected: buffer.dtype, found }).into());
        }
        let wrong = || Box::new(Fault::ArgumentShape { param, found: t.shape.to_vec() }).into();
        let extents = arena.list(buffer.shape);
        // The lanes of vectors are one more dimension of the argument.
        let lanes = i64::from(buffer.lanes);
        let shape = match t.shape {
            [shape @ .., last] if lanes > 1 && *last == lanes => shape,
            _ if lanes > 1 => return Err(wrong()),
            shape => shape,
        };
        if extents.len() != shape.len() {
            return Err(wrong());
        }
        for (&e, &n) in extents.iter().zip(shape) {
            if eval_int(arena, env, Precision::Exact, e)? != n {
                return Err(wrong());
            }
        }
        let layout = Layout::of(arena, env, b)?;
        if layout.n_elements().is_some_and(|n| n * usize::from(buffer.lanes) <= t.n_elements()) {
            Ok(layout)
        } else {
            Err(wrong())
        }
    }

    /// The layout without bounds, for another name of existing memory.
    pub(super) fn unbounded(self) -> Layout {
        Layout { is_unbounded: true, ..self }
    }

    /// The number of elements from the start of the memory to the last element; `None` on overflow.
    pub(super) fn n_elements(&self) -> Option<usize> {
        // A computed extent may be negative in instances that access nothing: the buffer is empty then.
        if self.shape.iter().any(|&n| n <= 0) {
            return Some(0);
        }
        let mut last = self.offset;
        for (n, stride) in self.shape.iter().zip(&self.strides) {
            last = last.checked_add((n - 1).checked_mul(*stride)?)?;
        }
        usize::try_from(last).ok()?.checked_add(1)
    }

    /// The position of an element in memory; `None` if it is outside the shape.
    pub(super) fn position(&self, indices: &[i64]) -> Option<usize> {
        if indices.len() != self.shape.len() {
            return None;
        }
        let mut at = self.offset;
        for ((&index, &extent), &stride) in indices.iter().zip(&self.shape[..]).zip(&self.strides[..]) {
            if !(0..extent).contains(&index) && !self.is_unbounded {
                return None;
            }
            at += index * stride;
        }
        usize::try_from(at).ok()
    }
}

/// Binds a symbolic extent, stride or offset that has no value yet.
pub(super) fn bind_symbol<E: Env>(arena: &Arena, env: &mut E, e: ExprId, value: i64) {
    if let Some(v) = arena.as_var(e)
        && env.var(v).is_none()
    {
        env.set_var(v, Some(Value::Int(value)));
    }
}
