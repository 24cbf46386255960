//! Sums and products of all elements up to each.

use super::sort::flattened;
use super::*;

const SCAN: &[Param] = &[
    required("data", Kind::Tensor),
    optional("axis", Kind::OptInt, Default::None),
    optional("dtype", Kind::OptDType, Default::None),
    optional("exclusive", Kind::Bool, Default::Bool(false)),
];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "cumprod",
        params: SCAN,
        infer: infer_scan,
        lower: Lowering::Stages(|cx| scan(cx, "cumprod", 1, |te, a, b| te.mul(a, b))),
        doc: "The products of all elements up to each along an axis; without the element itself if `exclusive`.",
    },
    Operator {
        name: "cumsum",
        params: SCAN,
        infer: infer_scan,
        lower: Lowering::Stages(|cx| scan(cx, "cumsum", 0, |te, a, b| te.add(a, b))),
        doc: "The sums of all elements up to each along an axis; without the element itself if `exclusive`.",
    },
];

fn infer_scan(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let data = cx.tensor("data")?;
    let dtype = cx.opt_dtype("dtype").unwrap_or(data.dtype);
    if dtype == DType::Bool {
        return Err(OpError {
            help: Some("name the type of the result by `dtype`".into()),
            ..cx.error("truth values have no sums and products")
        });
    }
    match cx.opt_int("axis") {
        Some(axis) => {
            cx.axis(axis, data.rank())?;
            Ok(Type::tensor(dtype, data.shape))
        }
        None => {
            let n = cx.product(&data.shape);
            Ok(Type::tensor(dtype, vec![n]))
        }
    }
}

/// The combinations of all elements up to each, along an axis.
fn scan(
    cx: &mut Lower<'_>,
    name: &str,
    neutral: i64,
    combine: fn(&mut Te, ExprId, ExprId) -> ExprId,
) -> Result<Vec<Tensor>, OpError> {
    let mut data = cx.input("data")?;
    let (dtype, exclusive) = (cx.out_dtype(0)?, cx.flag("exclusive"));
    let axis = match cx.opt_int("axis") {
        Some(axis) => cx.axis(axis, cx.te.shape(data).len())?,
        None => {
            data = flattened(&mut cx.te, data);
            0
        }
    };
    let shape = cx.shape_of(data);
    let mut rest = shape.clone();
    rest.remove(axis);
    let written = [(name, dtype, &shape[..])];
    Ok(cx.te.statements(name, &rest, &written, |s, out, i| {
        let so_far = s.local("so_far", dtype, &[]);
        let neutral = s.constant(neutral, dtype);
        s.set(so_far, &[], neutral);
        s.for_each(&[shape[axis]], |s, k| {
            let at = with_index(i, axis, k[0]);
            let x = s.at(data, &at);
            let (x, before) = (s.cast(dtype, x), s.at(so_far, &[]));
            let after = combine(s, before, x);
            // `before` and `after` are read from `so_far`, so that the result is stored first.
            s.set(out[0], &at, if exclusive { before } else { after });
            s.set(so_far, &[], after);
        });
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, type_of, varied};

    #[test]
    fn shapes_stay_or_are_flattened() {
        let params = r#"x: R.Tensor(("n", 3), "float32"), b: R.Tensor((4,), "bool")"#;
        assert_eq!(type_of(params, "R.cumsum(x, axis=0)"), "float32 [n, 3]");
        assert_eq!(type_of(params, r#"R.cumprod(x, dtype="float64")"#), "float64 [n * 3]");
        refused(params, "R.cumsum(x, axis=2)", &["`R.cumsum`", "axis 2 is outside of the 2 dimensions"]);
        refused(params, "R.cumsum(b)", &["truth values have no sums", "dtype"]);
    }

    #[test]
    fn elements_are_combined_up_to_each() {
        let x = varied(&[3, 4]);
        for exclusive in [false, true] {
            let flag = if exclusive { "True" } else { "False" };
            let (mut sums, mut products) = (vec![0.0; 12], vec![0.0; 12]);
            for row in 0..3 {
                let (mut sum, mut product) = (0.0, 1.0);
                for column in 0..4 {
                    let at = 4 * row + column;
                    if exclusive {
                        (sums[at], products[at]) = (sum, product);
                    }
                    (sum, product) = (sum + x[at], product * x[at]);
                    if !exclusive {
                        (sums[at], products[at]) = (sum, product);
                    }
                }
            }
            check(&[("x", &[3, 4], &x)], &format!("R.cumsum(x, axis=1, exclusive={flag})"), &sums);
            check(&[("x", &[3, 4], &x)], &format!("R.cumprod(x, axis=-1, exclusive={flag})"), &products);
        }
        check(&[("x", &[2, 2], &[1.0, 2.0, 3.0, 4.0])], "R.cumsum(x)", &[1.0, 3.0, 6.0, 10.0]);
    }
}
