//! Types of values.

use crate::ir::{Arena, DType, ExprId};
use std::fmt::Write;

/// The type of a tensor. A text may leave parts of it open; shape rules need to know all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorType {
    /// The type of the elements, if it is known.
    pub dtype: Option<DType>,
    /// The extents, if they are known.
    pub shape: Option<Vec<ExprId>>,
    /// The number of dimensions, if it is known.
    pub rank: Option<usize>,
}

impl TensorType {
    /// A type of which everything is known.
    pub fn new(dtype: DType, shape: Vec<ExprId>) -> TensorType {
        TensorType { dtype: Some(dtype), rank: Some(shape.len()), shape: Some(shape) }
    }

    /// The constant extents; `None` if one is a symbol or unknown.
    pub fn constant_shape(&self, arena: &Arena) -> Option<Vec<i64>> {
        self.shape.as_ref()?.iter().map(|&e| arena.as_int(e)).collect()
    }
}

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// A tensor.
    Tensor(TensorType),
    /// A shape: extents as a value; `None` if they are not known.
    Shape(Option<Vec<ExprId>>),
    /// A number.
    Prim(DType),
    /// Several values.
    Tuple(Vec<Type>),
    /// Anything else.
    Object,
}

impl Type {
    /// The type of a tensor of which everything is known.
    pub fn tensor(dtype: DType, shape: Vec<ExprId>) -> Type {
        Type::Tensor(TensorType::new(dtype, shape))
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Shape(_) | Type::Prim(_) | Type::Tuple(_) | Type::Object => None,
        }
    }

    /// The types of all tensors inside, in order.
    pub fn tensors(&self) -> Vec<&TensorType> {
        match self {
            Type::Tensor(t) => vec![t],
            Type::Tuple(items) => items.iter().flat_map(Type::tensors).collect(),
            Type::Shape(_) | Type::Prim(_) | Type::Object => Vec::new(),
        }
    }

    /// The type for a message: `float32 [1, n]`.
    pub fn describe(&self, arena: &Arena) -> String {
        match self {
            Type::Tensor(t) => {
                let dtype = t.dtype.map_or("tensor".to_owned(), |t| t.to_string());
                match (&t.shape, t.rank) {
                    (Some(shape), _) => format!("{dtype} {}", extents(arena, shape)),
                    (None, Some(rank)) => format!("{dtype} of {rank} dimensions"),
                    (None, None) => format!("{dtype} of unknown shape"),
                }
            }
            Type::Shape(Some(shape)) => format!("shape {}", extents(arena, shape)),
            Type::Shape(None) => "a shape".to_owned(),
            Type::Prim(dtype) => dtype.to_string(),
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|t| t.describe(arena)).collect();
                format!("({})", items.join(", "))
            }
            Type::Object => "an object".to_owned(),
        }
    }
}

/// `[1, n]`
pub fn extents(arena: &Arena, shape: &[ExprId]) -> String {
    let mut text = String::from("[");
    for (i, &e) in shape.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{}", if i > 0 { ", " } else { "" }, extent(arena, e));
    }
    text + "]"
}

/// An extent, for messages.
pub fn extent(arena: &Arena, e: ExprId) -> String {
    use crate::ir::{BinOp, Expr};
    match arena.expr(e) {
        Expr::Int(v) => v.to_string(),
        Expr::Var(v) => arena.var(v).name.to_string(),
        Expr::Binary(op, a, b) => {
            let (a, b) = (extent(arena, a), extent(arena, b));
            match op {
                BinOp::Add => format!("({a} + {b})"),
                BinOp::Sub => format!("({a} - {b})"),
                BinOp::Mul => format!("{a} * {b}"),
                BinOp::FloorDiv => format!("({a} // {b})"),
                BinOp::FloorMod => format!("({a} % {b})"),
                other => format!("{}({a}, {b})", other.node_name()),
            }
        }
        _ => "?".to_owned(),
    }
}
