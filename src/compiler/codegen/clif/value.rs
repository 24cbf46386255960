//! The representation of loop IR values in Cranelift.
//!
//! A scalar is one value: integers of their width, `bool` as an `i8` of 0 or 1, `float16` and `bfloat16` as the `f32`
//! of equal value. A vector is a sequence of 128-bit parts, starting with the first lanes; a vector shorter than 128
//! bits occupies the low lanes of a part, and the other lanes are undefined:
//!
//! ```text
//! float32x8:   [ 0 1 2 3 ] [ 4 5 6 7 ]         int8x4:  [ 0 1 2 3 . . . . . . . . . . . . ]
//! ```
//!
//! A vector of booleans is a mask: lanes of all ones or all zeros, as wide as those of the comparison that made it.

use crate::ir::DType;
use crate::loopir::Ty;
use cranelift_codegen::ir::{Type, Value, types};
use smallvec::SmallVec;

/// The parts of a value, in order.
pub(super) type Parts = SmallVec<[Value; 4]>;

/// A value of the loop IR.
#[derive(Clone, Debug)]
pub(super) struct Val {
    /// Its type.
    pub ty: Ty,
    /// Bytes per lane: given by the type, except for masks.
    pub lane_bytes: u8,
    /// The Cranelift values.
    pub parts: Parts,
}

/// Bytes per part.
pub(super) const PART: usize = 16;

impl Val {
    /// A scalar.
    pub(super) fn scalar(dtype: DType, value: Value) -> Val {
        Val { ty: Ty::scalar(dtype), lane_bytes: lane_bytes(dtype), parts: Parts::from_elem(value, 1) }
    }

    /// A vector, other than a mask, from its parts.
    pub(super) fn vector(ty: Ty, parts: Parts) -> Val {
        Val { ty, lane_bytes: lane_bytes(ty.dtype), parts }
    }

    /// A mask.
    pub(super) fn mask(lanes: u16, lane_bytes: u8, parts: Parts) -> Val {
        Val { ty: Ty::vector(DType::Bool, lanes), lane_bytes, parts }
    }

    /// The value of a scalar.
    pub(super) fn single(&self) -> Value {
        debug_assert_eq!(self.ty.lanes, 1, "a vector is no single value");
        self.parts[0]
    }

    /// Number of lanes in a part.
    pub(super) fn lanes_per_part(&self) -> usize {
        lanes_per_part(self.lane_bytes)
    }

    /// Cranelift's type of each part.
    pub(super) fn part_type(&self) -> Type {
        part_type(self.ty, self.lane_bytes)
    }
}

/// Bytes per lane in computations; for `bool` only outside masks, whose width varies.
pub(super) fn lane_bytes(dtype: DType) -> u8 {
    match dtype {
        DType::Float16 | DType::BFloat16 => 4,
        _ => dtype.bytes() as u8,
    }
}

/// Number of lanes of this width in a part.
pub(super) fn lanes_per_part(lane_bytes: u8) -> usize {
    PART / lane_bytes as usize
}

/// Number of parts in a value.
pub(super) fn n_parts(ty: Ty, lane_bytes: u8) -> usize {
    if ty.lanes == 1 { 1 } else { (ty.lanes as usize * lane_bytes as usize).div_ceil(PART) }
}

/// Cranelift's type of a scalar.
pub(super) fn scalar_type(dtype: DType) -> Type {
    match dtype {
        DType::Float16 | DType::BFloat16 | DType::Float32 => types::F32,
        DType::Float64 => types::F64,
        DType::Int8 | DType::UInt8 | DType::Bool => types::I8,
        DType::Int16 | DType::UInt16 => types::I16,
        DType::Int32 | DType::UInt32 => types::I32,
        DType::Int64 | DType::UInt64 | DType::Handle | DType::Str => types::I64,
        DType::Float8(_) => unreachable!("lowering makes bytes of floats of 8 bits"),
        DType::Narrow(_) => unreachable!("lowering refuses types of less than 8 bits"),
    }
}

/// The integer vector type with lanes of this width.
pub(super) fn int_vector(lane_bytes: u8) -> Type {
    match lane_bytes {
        1 => types::I8X16,
        2 => types::I16X8,
        4 => types::I32X4,
        8 => types::I64X2,
        _ => unreachable!("no lane has {lane_bytes} bytes"),
    }
}

/// The integer type of this width.
pub(super) fn int_scalar(bytes: usize) -> Type {
    match bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        8 => types::I64,
        _ => unreachable!("no integer has {bytes} bytes"),
    }
}

/// Cranelift's type of the parts of a value.
pub(super) fn part_type(ty: Ty, lane_bytes: u8) -> Type {
    match (ty.lanes, ty.dtype) {
        (1, dtype) => scalar_type(dtype),
        (_, DType::Float16 | DType::BFloat16 | DType::Float32) => types::F32X4,
        (_, DType::Float64) => types::F64X2,
        _ => int_vector(lane_bytes),
    }
}
