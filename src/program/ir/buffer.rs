//! Buffers and regions of buffers.

use super::dtype::{DType, Ty};
use super::expr::{Arena, Expr, ExprId, ExprList, id};
use super::symbol::Symbol;

id! {
    /// A buffer of an [`Arena`].
    pub BufferId
}

/// A multi-dimensional array: a parameter, an allocation of a block, or a view made by `T.match_buffer`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The name under which the buffer prints if it is free; not part of the structure.
    pub name: Symbol,
    /// Type of the lanes of an element.
    pub dtype: DType,
    /// Number of lanes of an element; 1 unless this is a buffer of vectors.
    pub lanes: u16,
    /// Extent of each dimension, in elements.
    pub shape: ExprList,
    /// Storage scope: `global` unless a schedule sets another one.
    pub scope: Symbol,
    /// Strides in elements; `None` means row-major and compact.
    pub strides: Option<ExprList>,
    /// Offset of the first element from the data pointer, in elements; `None` means 0, in the type of the first extent.
    pub elem_offset: Option<ExprId>,
    /// `T.match_buffer`'s `align`: alignment of the data in bytes; 0 means the default.
    pub align: u32,
    /// `T.match_buffer`'s `offset_factor`: a divisor of `elem_offset`; 0 means unstated.
    pub offset_factor: u32,
    /// Whether this is a scalar variable (`x: T.float32`), of shape `(1,)`, read and stored by its name. It only
    /// affects the text.
    pub scalar: bool,
    /// `T.buffer`'s `axis_separators`, which lowering to flat memory ignores.
    pub axis_separators: Vec<u32>,
    /// Whether `layout=None` was stated in a function without `s_tir`, where buffers otherwise have a thread layout.
    /// Only TVM's lowering for GPUs reads it.
    pub no_layout: bool,
}

impl Buffer {
    /// A compact row-major buffer in global memory.
    pub fn new(name: impl Into<Symbol>, ty: impl Into<Ty>, shape: ExprList) -> Self {
        let Ty { dtype, lanes } = ty.into();
        Buffer {
            name: name.into(),
            dtype,
            lanes,
            shape,
            scope: Symbol::new("global"),
            strides: None,
            elem_offset: None,
            align: 0,
            offset_factor: 0,
            scalar: false,
            axis_separators: Vec::new(),
            no_layout: false,
        }
    }

    /// The type of the elements.
    pub fn ty(&self) -> Ty {
        Ty::vector(self.dtype, self.lanes)
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

/// The default type of the offset: that of the first extent, or `int64` without dimensions.
pub fn index_type(arena: &Arena, shape: ExprList) -> DType {
    arena.list(shape).first().map_or(DType::Int64, |&e| arena.dtype(e))
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

    /// The single element at `indices`. With a vector index, the region extends from its smallest to its largest lane.
    pub fn point(arena: &mut Arena, buffer: BufferId, indices: ExprList) -> Self {
        if arena.list(indices).iter().any(|&i| arena.lanes(i) > 1) {
            return Self::lanes(arena, buffer, indices);
        }
        let ones: Vec<ExprId> = arena
            .list(indices)
            .to_vec()
            .into_iter()
            .map(|i| {
                // The verifier reports an index that is not an integer.
                let dtype = arena.dtype(i);
                arena.int(1, if dtype.is_integer() { dtype } else { DType::Int32 })
            })
            .collect();
        BufferRegion { buffer, mins: indices, extents: arena.new_list(&ones) }
    }

    /// The region of an access with a vector index; the whole dimension if the index is not a ramp of constant stride.
    fn lanes(arena: &mut Arena, buffer: BufferId, indices: ExprList) -> Self {
        let ranges: Vec<(ExprId, ExprId)> = (0..arena.list(indices).len())
            .map(|dim| {
                let i = arena.list(indices)[dim];
                let dtype = arena.dtype(i);
                let int = if dtype.is_integer() { dtype } else { DType::Int32 };
                let last = i64::from(arena.lanes(i)) - 1;
                match arena.expr(i) {
                    Expr::Ramp(base, stride) if arena.as_int(stride).is_some() => {
                        let reach = arena.as_int(stride).unwrap_or(0).saturating_mul(last);
                        let min = if reach < 0 { arena.add_const(base, reach) } else { base };
                        (min, arena.int(reach.saturating_abs().saturating_add(1), int))
                    }
                    Expr::Broadcast(value) => (value, arena.int(1, int)),
                    _ if arena.lanes(i) == 1 => (i, arena.int(1, int)),
                    _ => {
                        let shape = arena.buffer(buffer).shape;
                        // The verifier checks the number of indices.
                        let extent = arena.list(shape).get(dim).copied().unwrap_or_else(|| arena.int(1, int));
                        let dtype = arena.dtype(extent);
                        (arena.int(0, dtype), extent)
                    }
                }
            })
            .collect();
        Self::new(arena, buffer, &ranges)
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
