//! The messages of ONNX files, as far as they are read.
//!
//! Names and numbers are those of `onnx.proto`. Fields that are not listed are skipped. Elements of tensors share the memory of the
//! file.

use prost::Message;
use prost::bytes::Bytes;

/// A model.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelProto {
    /// Version of the file format.
    #[prost(int64, tag = "1")]
    pub(super) ir_version: i64,
    /// The versions of the sets of operators.
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<GraphProto>,
    /// Functions of the model, which nodes call like operators.
    #[prost(message, repeated, tag = "25")]
    pub(super) functions: Vec<FunctionProto>,
}

/// The version of a set of operators.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSetIdProto {
    /// The set; the empty text is ONNX's own.
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

/// A function of the model.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FunctionProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The parameters.
    #[prost(string, repeated, tag = "4")]
    pub(super) input: Vec<String>,
    /// The results.
    #[prost(string, repeated, tag = "5")]
    pub(super) output: Vec<String>,
    /// The calls of operators.
    #[prost(message, repeated, tag = "7")]
    pub(super) node: Vec<NodeProto>,
    /// The versions of the sets of operators.
    #[prost(message, repeated, tag = "9")]
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    /// The set of operators that it belongs to.
    #[prost(string, tag = "10")]
    pub(super) domain: String,
    /// Attributes where calls do not give them.
    #[prost(message, repeated, tag = "11")]
    pub(super) attribute_proto: Vec<AttributeProto>,
}

/// A graph.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphProto {
    /// The calls of operators, in an order in which they can run.
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<NodeProto>,
    /// The name.
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// Tensors with known elements.
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<TensorProto>,
    /// The parameters. In old files also the initializers.
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfoProto>,
    /// The results.
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfoProto>,
    /// Sparse tensors with known elements, which are refused.
    #[prost(message, repeated, tag = "15")]
    pub(super) sparse_initializer: Vec<Skipped>,
}

/// A message of which only the presence counts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Skipped {}

/// A call of an operator.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeProto {
    /// Names of values; the empty text is an argument that is not given.
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    /// Names of the results; the empty text is a result that is not used.
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    /// The name, which may be empty.
    #[prost(string, tag = "3")]
    pub(super) name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    /// The attributes.
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeProto>,
    /// The set of operators.
    #[prost(string, tag = "7")]
    pub(super) domain: String,
}

/// An attribute: one of the fields, by its type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// A float.
    #[prost(float, tag = "2")]
    pub(super) f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub(super) i: i64,
    /// A text.
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) s: Bytes,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub(super) g: Option<GraphProto>,
    /// Floats.
    #[prost(float, repeated, tag = "7")]
    pub(super) floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub(super) ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(super) strings: Vec<Bytes>,
    /// The type, as `AttributeProto.AttributeType`.
    #[prost(int32, tag = "20")]
    pub(super) r#type: i32,
    /// In functions: the attribute of the call that it is.
    #[prost(string, tag = "21")]
    pub(super) ref_attr_name: String,
}

/// A tensor with known elements.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorProto {
    /// The extents.
    #[prost(int64, repeated, tag = "1")]
    pub(super) dims: Vec<i64>,
    /// The type of the elements, as `TensorProto.DataType`.
    #[prost(int32, tag = "2")]
    pub(super) data_type: i32,
    /// Elements of `float32`.
    #[prost(float, repeated, tag = "4")]
    pub(super) float_data: Vec<f32>,
    /// Elements of integers of at most 32 bits, `bool`, and the bits of floats of 16.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Elements of `int64`.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name.
    #[prost(string, tag = "8")]
    pub(super) name: String,
    /// Elements of any type as little-endian bytes.
    #[prost(bytes = "bytes", tag = "9")]
    pub(super) raw_data: Bytes,
    /// Elements of `float64`.
    #[prost(double, repeated, tag = "10")]
    pub(super) double_data: Vec<f64>,
    /// Elements of `uint32` and `uint64`.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where the elements are, if in another file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub(super) external_data: Vec<StringStringEntryProto>,
    /// 1 if the elements are in another file.
    #[prost(int32, tag = "14")]
    pub(super) data_location: i32,
}

/// A pair of texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StringStringEntryProto {
    /// The key.
    #[prost(string, tag = "1")]
    pub(super) key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// The name and the type of a parameter or result.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfoProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub(super) r#type: Option<TypeProto>,
}

/// A type. Other types than those of tensors leave the field empty.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeProto {
    /// The type of a tensor.
    #[prost(message, optional, tag = "1")]
    pub(super) tensor_type: Option<TensorTypeProto>,
}

/// The type of a tensor.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorTypeProto {
    /// The type of the elements, as `TensorProto.DataType`.
    #[prost(int32, tag = "1")]
    pub(super) elem_type: i32,
    /// The shape; absent if not even the rank is known.
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShapeProto>,
}

/// A shape.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShapeProto {
    /// The extents.
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<DimensionProto>,
}

/// An extent: a number, a symbol, or neither if it is not known.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub(super) dim_value: Option<i64>,
    /// The symbol.
    #[prost(string, optional, tag = "2")]
    pub(super) dim_param: Option<String>,
}
