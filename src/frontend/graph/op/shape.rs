//! Shapes as values.

use super::*;
use crate::graph::Arg;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "shape_of",
        params: &[required("expr", Kind::Tensor)],
        infer: |cx| Ok(Type::Shape(Some(cx.tensor("expr")?.shape))),
        // Nothing is computed: what takes a shape takes it from the type.
        lower: Lowering::Reshape,
        doc: "The extents of a tensor, as a shape.",
    },
    Operator {
        name: "shape_to_tensor",
        params: &[required("expr", Kind::Shape)],
        infer: |cx| {
            let shape = cx.shape("expr")?;
            let n = cx.extent(shape.len() as i64);
            Ok(Type::tensor(DType::Int64, vec![n]))
        },
        lower: Lowering::Stages(|cx| {
            let extents = match cx.get("expr") {
                Arg::Value(v) => match cx.function.ty(*v) {
                    Type::Shape(Some(shape)) => shape.clone(),
                    _ => return cx.fail("the shape is not known"),
                },
                Arg::Shape(shape) => shape.clone(),
                _ => return cx.fail("`expr` is no shape"),
            };
            let extents: Vec<ExprId> = extents.into_iter().map(|e| cx.number(e)).collect();
            let shape = cx.out_shape(0)?;
            Ok(vec![cx.te.compute("shape_to_tensor", &shape, |te, i| {
                let mut value = te.extent(0);
                for (d, &extent) in extents.iter().enumerate().rev() {
                    let (d, extent) = (te.extent(d as i64), te.cast(DType::Int64, extent));
                    let is_it = te.compare(CmpOp::Eq, i[0], d);
                    value = te.if_then_else(is_it, extent, value);
                }
                value
            })])
        }),
        doc: "The extents of a shape, as a tensor of one dimension.",
    },
    Operator {
        name: "size",
        params: &[required("expr", Kind::Tensor)],
        infer: |cx| {
            cx.tensor("expr")?;
            Ok(Type::tensor(DType::Int64, Vec::new()))
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.input("expr")?;
            Ok(vec![cx.te.compute("T_size", &[], |te, _| {
                let mut n = te.extent(1);
                for extent in te.shape(x).to_vec() {
                    n = te.mul(n, extent);
                }
                n
            })])
        }),
        doc: "The number of elements.",
    },
    Operator {
        name: "tensor_to_shape",
        params: &[required("expr", Kind::Tensor)],
        infer: |cx| {
            let x = cx.tensor("expr")?;
            cx.expect_rank("expr", &x, 1)?;
            let constant = cx.value("expr").and_then(|v| cx.function.constant(cx.function.resolved(v)));
            let Some(constant) = constant else {
                return Err(OpError {
                    help: Some("only shapes that do not depend on data are supported".into()),
                    ..cx.error("`expr` must be a constant")
                });
            };
            let extents: Option<Vec<i64>> = (0..constant.len()).map(|i| constant.int(i)).collect();
            match extents {
                Some(extents) => Ok(Type::Shape(Some(extents.into_iter().map(|n| cx.extent(n)).collect()))),
                None => cx.fail(format!("`expr` must have integers, found {}", x.dtype)),
            }
        },
        lower: Lowering::Reshape,
        doc: "The elements of a constant as extents of a shape.",
    },
];

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_are_known_from_types() {
        let params = r#"x: R.Tensor(("n", 3), "float32")"#;
        assert_eq!(type_of(params, "R.shape_of(x)"), "shape [n, 3]");
        assert_eq!(type_of(params, "R.size(x)"), "int64 []");
        assert_eq!(type_of(params, "R.shape_to_tensor(R.shape([4, 5, 6]))"), "int64 [3]");
        assert_eq!(type_of(params, r#"R.tensor_to_shape(R.const([4, 5], "int64"))"#), "shape [4, 5]");
    }

    #[test]
    fn shapes_do_not_depend_on_data() {
        let params = r#"x: R.Tensor((2,), "int64"), y: R.Tensor((2, 2), "int64")"#;
        refused(params, "R.tensor_to_shape(x)", &["`R.tensor_to_shape`", "`expr` must be a constant"]);
        refused(params, "R.tensor_to_shape(y)", &["`expr` must have 1 dimensions", "[2, 2]"]);
    }

    #[test]
    fn extents_are_numbers() {
        check(&[], r#"R.astype(R.shape_to_tensor(R.shape([4, 5, 6])), "float32")"#, &[4.0, 5.0, 6.0]);
        check(&[("x", &[2, 3], &count(&[2, 3]))], r#"R.astype(R.size(x), "float32")"#, &[6.0]);
    }
}
