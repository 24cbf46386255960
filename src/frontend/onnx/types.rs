//! Element types of ONNX.

use crate::ir::DType;

/// The types of tensors that are read, by their numbers in `TensorProto.DataType`.
const TYPES: &[(i32, DType)] = &[
    (1, DType::Float32),
    (2, DType::UInt8),
    (3, DType::Int8),
    (4, DType::UInt16),
    (5, DType::Int16),
    (6, DType::Int32),
    (7, DType::Int64),
    (9, DType::Bool),
    (10, DType::Float16),
    (11, DType::Float64),
    (12, DType::UInt32),
    (13, DType::UInt64),
    (16, DType::BFloat16),
];

/// The names of types that are not read.
const OTHERS: &[(i32, &str)] = &[
    (0, "undefined"),
    (8, "string"),
    (14, "complex64"),
    (15, "complex128"),
    (17, "float8e4m3fn"),
    (18, "float8e4m3fnuz"),
    (19, "float8e5m2"),
    (20, "float8e5m2fnuz"),
    (21, "uint4"),
    (22, "int4"),
    (23, "float4e2m1"),
    (24, "float8e8m0"),
    (25, "uint2"),
    (26, "int2"),
];

/// The element type of a number.
///
/// # Errors
/// Tensors of this type are not read; the text says so.
pub(super) fn dtype(number: i32) -> Result<DType, String> {
    match TYPES.iter().find(|(n, _)| *n == number) {
        Some((_, dtype)) => Ok(*dtype),
        None => {
            let name = OTHERS.iter().find(|(n, _)| *n == number).map(|(_, name)| format!("`{name}`"));
            Err(format!("elements of type {} are not supported", name.unwrap_or_else(|| number.to_string())))
        }
    }
}
