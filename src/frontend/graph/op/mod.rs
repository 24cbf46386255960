//! The operators.
//!
//! A group of operators is a file: a table, the shape rules and lowerings of its operators, and their tests. [`all`] lists them;
//! to add an operator is to add a line to the table of its group.

mod activation;
mod adaptive_pool;
mod attention;
mod binary;
mod boxes;
mod columns;
mod conv;
mod conv_transpose;
mod creation;
mod data_shape;
mod grid;
mod heap;
mod index;
mod interpolate;
mod layout;
mod linalg;
mod loss;
mod manipulate;
mod nms;
mod nms_classes;
mod normalize;
mod pad;
mod pool;
mod pool_grad;
mod quantize;
mod rank;
mod reduce;
mod relayout;
mod resize;
mod roi;
mod scan;
mod select;
mod shape;
mod sort;
#[cfg(test)]
mod testing;
mod unary;

use super::infer::{Infer, Known};
use super::operator::{Default, Kind, Lowering, OpError, Operator, Param, optional, required};
use super::ty::Type;
use crate::ir::{BinOp, CmpOp, DType, ExprId, Intrinsic};
use crate::te::{Te, Tensor};

use super::lower::Lower;

pub(in crate::graph) use conv::Geometry;

/// A group of operators: its title and its table.
pub type Group = (&'static str, &'static [Operator]);

/// All groups. The tables are statics: constants, with their closures, would be compiled again in each crate that uses them.
pub static GROUPS: &[Group] = &[
    ("Elementwise functions", unary::OPERATORS),
    ("Arithmetic and comparison", binary::OPERATORS),
    ("Activations", activation::OPERATORS),
    ("Reductions", reduce::OPERATORS),
    ("Softmax and normalisation", normalize::OPERATORS),
    ("Products", linalg::OPERATORS),
    ("Convolutions", conv::OPERATORS),
    ("Transposed convolutions", conv_transpose::OPERATORS),
    ("Pooling", pool::OPERATORS),
    ("Adaptive pooling", adaptive_pool::OPERATORS),
    ("Gradients of pooling", pool_grad::OPERATORS),
    ("Padding", pad::OPERATORS),
    ("Attention", attention::OPERATORS),
    ("Resizing", resize::OPERATORS),
    ("Sampling", grid::OPERATORS),
    ("Regions of images", roi::OPERATORS),
    ("Boxes", boxes::OPERATORS),
    ("Suppression of boxes", nms::OPERATORS),
    ("Suppression of boxes by class", nms_classes::OPERATORS),
    ("Shapes and layouts", manipulate::OPERATORS),
    ("Layouts by index maps", relayout::OPERATORS),
    ("Elements by indices", index::OPERATORS),
    ("Tensors from numbers", creation::OPERATORS),
    ("Running sums and products", scan::OPERATORS),
    ("Sorting and searching", sort::OPERATORS),
    ("Sampling", select::OPERATORS),
    ("Results of known elements", data_shape::OPERATORS),
    ("Shapes as values", shape::OPERATORS),
    ("Quantisation", quantize::OPERATORS),
    ("Losses and gradients", loss::OPERATORS),
];

pub(crate) use pad::{of_type, padded};

/// All operators.
pub fn all() -> impl Iterator<Item = &'static Operator> {
    GROUPS.iter().flat_map(|(_, operators)| operators.iter())
}

/// The operators whose shapes depend on elements, which must be known ([`Kind::Constant`]).
pub fn of_known_elements() -> impl Iterator<Item = &'static Operator> {
    all().filter(|op| op.params.iter().any(|p| p.kind == Kind::Constant))
}

/// The operator of a name, without `R.`.
pub fn find(name: &str) -> Option<&'static Operator> {
    all().find(|op| op.name == name)
}

/// The type of the only operand.
fn same_as_operand(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let name = cx.op.params[0].name;
    Ok(cx.tensor(name)?.into())
}

/// The type of the only operand, which must be of floats.
fn same_as_float(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let name = cx.op.params[0].name;
    let x = cx.tensor(name)?;
    expect_float(cx, name, x.dtype)?;
    Ok(x.into())
}

fn expect_float(cx: &Infer<'_>, name: &str, dtype: DType) -> Result<(), OpError> {
    match dtype.is_float() {
        true => Ok(()),
        false => cx.fail(format!("`{name}` must have floats, found {dtype}")),
    }
}

/// Checks that two operands have one type.
fn expect_same_type(cx: &Infer<'_>, a: (&str, DType), b: (&str, DType)) -> Result<(), OpError> {
    match a.1 == b.1 {
        true => Ok(()),
        false => Err(OpError {
            help: Some("convert one of them by `R.astype`".into()),
            ..cx.error(format!("`{}` is of {} and `{}` of {}; they must have one type", a.0, a.1, b.0, b.1))
        }),
    }
}

/// A float as precise as computations of a type need.
fn accumulator(dtype: DType) -> DType {
    if dtype.is_half() { DType::Float32 } else { dtype }
}

/// A constant of the type of an expression.
fn like(te: &mut Te, e: ExprId, value: f64) -> ExprId {
    let dtype = te.dtype(e);
    match dtype.is_float() {
        true => te.float(value, dtype),
        false => te.int(value as i64, dtype),
    }
}

/// The value that lies at `index` along an axis of a tensor whose other indices are given.
fn with_index(i: &[ExprId], axis: usize, index: ExprId) -> Vec<ExprId> {
    let mut indices = i.to_vec();
    indices.insert(axis, index);
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_documented() {
        let mut names: Vec<&str> = all().map(|op| op.name).collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
        assert!(n > 80, "{n}");
        for op in all() {
            assert!(op.doc.ends_with('.'), "`{}` has a sentence", op.name);
            let positional = op.params.iter().take_while(|p| !p.kind.is_attribute()).count();
            let values = op.params.iter().filter(|p| !p.kind.is_attribute()).count();
            assert_eq!(positional, values, "`{}` takes values before attributes", op.name);
        }
    }
}
