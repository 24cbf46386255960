//! The memory layout of parameters, as callers pass them.
//!
//! A parameter may state strides and an offset. They may be symbols whose values the caller chooses:
//!
//! ```python
//! s, off = T.int32(), T.int32()
//! A = T.match_buffer(a, (8, 16), "float32", strides=(s, 1), elem_offset=off)
//! ```
//!
//! When tvmr is the caller, it passes compact buffers: a symbolic stride is the smallest one at which no two elements
//! overlap (`s = 16` here), the maximum of these if several buffers use the symbol; a symbolic offset is 0. A symbol
//! that is also an extent, or that has a value from the reader, keeps that value.

use super::buffer::{Buffer, BufferId};
use super::expr::{ExprId, VarId};
use super::func::Func;
use super::visit::{Rewriter, Substitution};
use std::borrow::Cow;

/// The layout of a parameter: element `indices` lies `offset + Σ index * stride` elements after the pointer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamLayout {
    /// Extents.
    pub extents: Vec<i64>,
    /// Stride of each dimension, in elements.
    pub strides: Vec<i64>,
    /// Offset of the first element from the pointer, in elements.
    pub offset: i64,
}

impl ParamLayout {
    /// The number of elements from the pointer to the end of the last element; `None` on overflow.
    pub fn len(&self) -> Option<i64> {
        if self.extents.contains(&0) {
            return Some(0);
        }
        let last =
            self.extents.iter().zip(&self.strides).try_fold(self.offset, |last, (&n, &stride)| {
                (n - 1).checked_mul(stride).and_then(|d| last.checked_add(d))
            });
        last?.checked_add(1)
    }

    /// Whether the parameter has no elements.
    pub fn is_empty(&self) -> bool {
        self.extents.contains(&0)
    }

    /// Whether the elements are contiguous in row-major order and start at the pointer.
    pub fn is_compact(&self) -> bool {
        self.offset == 0 && self.strides == compact(&self.extents)
    }
}

/// The strides of a row-major buffer without gaps.
fn compact(extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; extents.len()];
    for d in (1..extents.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(extents[d].max(1));
    }
    strides
}

impl Func {
    /// The layout of a parameter; `None` if extents, strides or offset are not constant.
    pub fn param_layout(&self, b: BufferId) -> Option<ParamLayout> {
        let buffer = self.arena.buffer(b);
        let constants =
            |list| self.arena.list(list).iter().map(|&e| self.arena.as_int(e)).collect::<Option<Vec<i64>>>();
        let extents = constants(buffer.shape)?;
        let strides = match buffer.strides {
            None => compact(&extents),
            Some(list) => constants(list).filter(|s| s.len() == extents.len() && s.iter().all(|&s| s >= 0))?,
        };
        let offset = match buffer.elem_offset {
            None => 0,
            Some(e) => self.arena.as_int(e).filter(|&o| o >= 0)?,
        };
        Some(ParamLayout { extents, strides, offset })
    }

    /// The function with values for the symbolic strides and offsets of its parameters, as the module's documentation
    /// says; the function itself if it has no such symbols.
    pub fn with_param_layouts(&self) -> Cow<'_, Func> {
        let values = self.layout_symbols();
        if values.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut func = self.clone();
        let constants: Vec<(VarId, ExprId)> = values
            .into_iter()
            .map(|(v, value)| {
                let dtype = func.arena.var(v).dtype;
                (v, func.arena.int(value, dtype))
            })
            .collect();
        let mut known = Substitution::of_vars(constants);
        for b in func.arena.buffer_ids() {
            let buffer = func.arena.buffer(b).clone();
            let Buffer { shape, strides, elem_offset, .. } = buffer;
            let shape = func.arena.map_list(shape, |a, e| known.rewrite_expr(a, e));
            let strides = strides.map(|l| func.arena.map_list(l, |a, e| known.rewrite_expr(a, e)));
            let elem_offset = elem_offset.map(|e| known.rewrite_expr(&mut func.arena, e));
            func.arena.update_buffer(b, |slot| *slot = Buffer { shape, strides, elem_offset, ..buffer });
        }
        func.rewrite_subtree(func.root.stmt(), &mut known);
        Cow::Owned(func)
    }

    /// The symbolic strides and offsets of parameters of constant shape, with their values.
    fn layout_symbols(&self) -> Vec<(VarId, i64)> {
        let arena = &self.arena;
        let buffers = || self.params.iter().filter_map(|p| p.buffer).map(|b| arena.buffer(b));
        if buffers().all(|b| b.strides.is_none() && b.elem_offset.is_none()) {
            return Vec::new();
        }
        // A symbol that callers determine in another way cannot be chosen.
        let is_free = |v: VarId| {
            let in_shape = |b: &Buffer| arena.list(b.shape).iter().any(|&e| arena.as_var(e) == Some(v));
            self.params.iter().all(|p| p.var != v) && !buffers().any(in_shape)
        };
        let symbol = |e: ExprId| arena.as_var(e).filter(|&v| is_free(v));
        let mut values: Vec<(VarId, i64)> = Vec::new();
        // Strides only grow, at most to products of extents: each round determines a dimension of some buffer.
        let most = buffers().map(|b| arena.list(b.shape).len()).max().unwrap_or(0) + 1;
        for _ in 0..most {
            for buffer in buffers() {
                let Some(list) = buffer.strides else { continue };
                let extents: Option<Vec<i64>> = arena.list(buffer.shape).iter().map(|&e| arena.as_int(e)).collect();
                let Some(extents) = extents.filter(|e| e.len() == arena.list(list).len()) else { continue };
                let mut least = 1i64;
                for (&e, &n) in arena.list(list).iter().zip(&extents).rev() {
                    let stride = match (arena.as_int(e), symbol(e)) {
                        (Some(stride), _) => stride,
                        (None, Some(v)) => match values.iter_mut().find(|known| known.0 == v) {
                            Some(known) => {
                                known.1 = known.1.max(least);
                                known.1
                            }
                            None => {
                                values.push((v, least));
                                least
                            }
                        },
                        (None, None) => least,
                    };
                    least = least.max(stride.saturating_mul(n.max(1)));
                }
            }
        }
        for v in buffers().filter_map(|b| b.elem_offset).filter_map(symbol) {
            if values.iter().all(|known| known.0 != v) {
                values.push((v, 0));
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    #[test]
    fn symbols_are_those_of_compact_buffers() {
        let mut f = Func::new("f");
        let (a, b) = (f.add_param("A", DType::Float32, &[4, 8]), f.add_param("B", DType::Float32, &[4, 16]));
        let (_, s) = f.arena.new_var_expr("s", DType::Int32);
        let (_, off) = f.arena.new_var_expr("off", DType::Int64);
        let two = f.arena.int32(2);
        for buffer in [a, b] {
            let strides = f.arena.new_list(&[s, two]);
            f.arena.update_buffer(buffer, |x| {
                x.strides = Some(strides);
                x.elem_offset = Some(off);
            });
        }
        assert_eq!(f.param_layout(a), None);
        let placed = f.with_param_layouts();
        let layout = placed.param_layout(a).expect("constants");
        assert_eq!(layout, ParamLayout { extents: vec![4, 8], strides: vec![32, 2], offset: 0 });
        assert_eq!(layout.len(), Some(3 * 32 + 7 * 2 + 1));
        assert!(!layout.is_compact());
        assert!(matches!(placed.with_param_layouts(), Cow::Borrowed(_)));
    }
}
