//! Buffers and regions of buffers.

use super::dtype::DType;
use super::expr::{Arena, ExprId, ExprList, id};
use super::symbol::Symbol;

id! {
    /// A buffer of an [`Arena`].
    BufferId
}

/// A multi-dimensional array: a parameter, an allocation of a block, or a view made by `T.match_buffer`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The name it prints under if that is free; otherwise no part of the structure.
    pub name: Symbol,
    /// Type of the elements.
    pub dtype: DType,
    /// Extent of each dimension, in elements.
    pub shape: ExprList,
    /// Where it lives: `global` unless a schedule says otherwise.
    pub scope: Symbol,
    /// Distance of neighbours in each dimension, in elements; `None` means row-major and compact.
    pub strides: Option<ExprList>,
    /// Distance of the first element from the data pointer, in elements; `None` means 0 of the type of the first extent.
    pub elem_offset: Option<ExprId>,
    /// `T.match_buffer`'s `align`: alignment of the data in bytes; 0 means the default.
    pub align: u32,
    /// `T.match_buffer`'s `offset_factor`: what divides `elem_offset`; 0 means unstated.
    pub offset_factor: u32,
    /// `T.buffer`'s `axis_separators`, which lowering to flat memory ignores.
    pub axis_separators: Vec<u32>,
}

impl Buffer {
    /// A compact row-major buffer in global memory.
    pub fn new(name: impl Into<Symbol>, dtype: DType, shape: ExprList) -> Self {
        Buffer {
            name: name.into(),
            dtype,
            shape,
            scope: Symbol::new("global"),
            strides: None,
            elem_offset: None,
            align: 0,
            offset_factor: 0,
            axis_separators: Vec::new(),
        }
    }

    /// The buffer with another shape. The offset keeps its type, as in TVM, where the types of two zeros tell buffers
    /// apart.
    pub fn with_shape(self, arena: &mut Arena, shape: ExprList) -> Buffer {
        let (before, after) = (index_type(arena, self.shape), index_type(arena, shape));
        let elem_offset = match self.elem_offset {
            None if before != after => Some(arena.int(0, before)),
            Some(e) if arena.is_int(e, 0) && arena.dtype(e) == after => None,
            other => other,
        };
        Buffer { shape, elem_offset, ..self }
    }
}

/// The type of the offset of a buffer that states none.
pub fn index_type(arena: &Arena, shape: ExprList) -> DType {
    arena.list(shape).first().map_or(DType::Int32, |&e| arena.dtype(e))
}

/// A box of a buffer's elements: for each dimension a start and an extent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferRegion {
    /// The buffer.
    pub buffer: BufferId,
    /// First element in each dimension.
    pub mins: ExprList,
    /// Number of elements in each dimension.
    pub extents: ExprList,
}

impl BufferRegion {
    /// The region of these `(min, extent)` ranges.
    pub fn new(arena: &mut Arena, buffer: BufferId, ranges: &[(ExprId, ExprId)]) -> Self {
        let mins: Vec<ExprId> = ranges.iter().map(|r| r.0).collect();
        let extents: Vec<ExprId> = ranges.iter().map(|r| r.1).collect();
        BufferRegion { buffer, mins: arena.new_list(&mins), extents: arena.new_list(&extents) }
    }

    /// The single element at `indices`.
    pub fn point(arena: &mut Arena, buffer: BufferId, indices: ExprList) -> Self {
        let ones: Vec<ExprId> = arena
            .list(indices)
            .to_vec()
            .into_iter()
            .map(|i| {
                // What is no integer is reported by the verifier.
                let dtype = arena.dtype(i);
                arena.int(1, if dtype.is_integer() { dtype } else { DType::Int32 })
            })
            .collect();
        BufferRegion { buffer, mins: indices, extents: arena.new_list(&ones) }
    }

    /// All elements of the buffer.
    pub fn full(arena: &mut Arena, buffer: BufferId) -> Self {
        let extents = arena.buffer(buffer).shape;
        let mins = arena.map_list(extents, |a, e| {
            let dtype = a.dtype(e);
            a.int(0, dtype)
        });
        BufferRegion { buffer, mins, extents }
    }

    /// The number of dimensions.
    pub fn rank(&self, arena: &Arena) -> usize {
        arena.list(self.mins).len()
    }

    /// The `(min, extent)` of each dimension.
    pub fn ranges<'a>(&self, arena: &'a Arena) -> impl ExactSizeIterator<Item = (ExprId, ExprId)> + 'a {
        arena.list(self.mins).iter().copied().zip(arena.list(self.extents).iter().copied())
    }
}
