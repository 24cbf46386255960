//! Integers that are known while nodes are translated: shapes, axes, bounds. Elements may be expressions of symbols.

use crate::arith::Analyzer;
use crate::graph::Constant;
use crate::ir::{Arena, DType, ExprId};

/// Tensors of more elements are not followed.
const MOST_ELEMENTS: usize = 1024;

/// A tensor of known integers or truth values.
#[derive(Clone, Debug)]
pub(super) struct Extents {
    pub dtype: DType,
    pub shape: Vec<i64>,
    /// The elements in row-major order, of type `int64`.
    pub elements: Vec<ExprId>,
}

impl Extents {
    /// A tensor; `None` if it has too many elements, or not as many as the shape says.
    pub(super) fn new(dtype: DType, shape: Vec<i64>, elements: Vec<ExprId>) -> Option<Extents> {
        let n = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(usize::try_from(extent).ok()?))?;
        (n == elements.len() && n <= MOST_ELEMENTS && is_followed(dtype)).then_some(Extents { dtype, shape, elements })
    }

    /// A constant, if it is small and of a followed type.
    pub(super) fn of(constant: &Constant, arena: &mut Arena) -> Option<Extents> {
        if constant.len() > MOST_ELEMENTS || !is_followed(constant.dtype()) {
            return None;
        }
        let ints = (0..constant.len()).map(|i| constant.int(i).map(|v| arena.int(v, DType::Int64)));
        Extents::new(constant.dtype(), constant.shape().to_vec(), ints.collect::<Option<_>>()?)
    }

    /// The elements, if all are numbers.
    pub(super) fn ints(&self, arena: &Arena) -> Option<Vec<i64>> {
        self.elements.iter().map(|&e| arena.as_int(e)).collect()
    }

    /// The tensor as a constant, if all elements are numbers that fit its type.
    pub(super) fn constant(&self, arena: &Arena) -> Option<Constant> {
        let mut data = Vec::new();
        for v in self.ints(arena)? {
            match self.dtype {
                DType::Int64 => data.extend(v.to_le_bytes()),
                DType::Int32 => data.extend(i32::try_from(v).ok()?.to_le_bytes()),
                _ => data.push(u8::from(v != 0)),
            }
        }
        Constant::new(self.dtype, &self.shape, data)
    }
}

/// The types whose elements are followed.
pub(super) fn is_followed(dtype: DType) -> bool {
    matches!(dtype, DType::Int64 | DType::Int32 | DType::Bool)
}

/// An extent in its simplest form.
pub(super) fn simplified(arena: &mut Arena, e: ExprId) -> ExprId {
    match arena.as_int(e) {
        Some(_) => e,
        None => Analyzer::new().simplify(arena, e),
    }
}
