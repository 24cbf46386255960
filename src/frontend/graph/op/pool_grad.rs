//! Gradients of pooling: what each element of the data adds to the loss by the windows that it is in.

use super::pad::of_type;
use super::pool::Windows;
use super::*;
use crate::te::{Reducer, least};

const PARAMS: &[Param] = &[
    required("output_grad", Kind::Tensor),
    required("data", Kind::Tensor),
    optional("pool_size", Kind::Ints, Default::Ints(&[1, 1])),
    optional("strides", Kind::Ints, Default::Ints(&[1, 1])),
    optional("padding", Kind::Ints, Default::Ints(&[0, 0, 0, 0])),
    optional("dilation", Kind::Ints, Default::Ints(&[1, 1])),
    optional("ceil_mode", Kind::Bool, Default::Bool(false)),
    optional("count_include_pad", Kind::Bool, Default::Bool(false)),
    optional("layout", Kind::Str, Default::Str("NCHW")),
    optional("out_layout", Kind::OptStr, Default::None),
];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "grad.avg_pool2d_backward",
        params: PARAMS,
        infer: result,
        lower: Lowering::Stages(|cx| {
            let (windows, gradient, data) = operands(cx)?;
            let of_data = cx.shape_of(data);
            let dtype = cx.te.element_type(gradient);
            Ok(vec![gathered(&mut cx.te, &windows, gradient, data, |te, window, _| {
                let (of_window, n) = (te.at(gradient, window), windows.divisor(te, window, &of_data, dtype));
                (te.binary(BinOp::Div, of_window, n), None)
            })])
        }),
        doc: "The gradient of avg_pool2d: of each window, a share for each of its elements.",
    },
    Operator {
        name: "grad.max_pool2d_backward",
        params: PARAMS,
        infer: result,
        lower: Lowering::Stages(|cx| {
            let (windows, gradient, data) = operands(cx)?;
            let shape = cx.shape_of(gradient);
            let te = &mut cx.te;
            let least = least(te, te.element_type(data));
            let padded = windows.padded(te, data, least);
            let of_padded = te.shape(padded).to_vec();
            let domain = windows.domain(te);
            let most = te.reduce_many("maxpool_grad_argmax", &shape, &domain, Reducer::ArgMax, |te, i, k| {
                let at = windows.element(te, i, k);
                vec![flat(te, &of_padded, &at), te.at(padded, &at)]
            });
            Ok(vec![gathered(te, &windows, gradient, data, |te, window, element| {
                let (largest, here) = (te.at(most[0], window), flat(te, &of_padded, element));
                (te.at(gradient, window), Some(te.compare(CmpOp::Eq, largest, here)))
            })])
        }),
        doc: "The gradient of max_pool2d: of each window, all for its first largest element.",
    },
];

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let windows = Windows::of(cx)?;
    let (gradient, data) = (cx.tensor("output_grad")?, cx.tensor("data")?);
    expect_same_type(cx, ("output_grad", gradient.dtype), ("data", data.dtype))?;
    if windows.dilation.iter().any(|&d| d != 1) {
        return cx.fail(format!("`dilation` must be 1, found {:?}", windows.dilation));
    }
    let expected = windows.shape(cx, &data)?;
    let fits =
        gradient.rank() == expected.len() && (0..expected.len()).all(|d| !cx.differ(gradient.shape[d], expected[d]));
    if !fits {
        let (of_data, found, expected) = (cx.extents(&data.shape), cx.extents(&gradient.shape), cx.extents(&expected));
        return cx.fail(format!("`data` {of_data} pools to {expected}, but `output_grad` is {found}"));
    }
    Ok(data.into())
}

fn operands(cx: &mut Lower<'_>) -> Result<(Windows, Tensor, Tensor), OpError> {
    Ok((Windows::of(cx)?, cx.input("output_grad")?, cx.input("data")?))
}

/// The position of an element in the order of a tensor's elements.
fn flat(te: &mut Te, shape: &[ExprId], at: &[ExprId]) -> ExprId {
    let mut position = te.extent(0);
    for (&extent, &index) in shape.iter().zip(at) {
        position = te.mul(position, extent);
        position = te.add(position, index);
    }
    position
}

/// The sum for each element of the data over the windows that it is in. `share` gives what a window adds to an element, which has
/// its indices in the padded data, and a condition for it.
fn gathered(
    te: &mut Te,
    windows: &Windows,
    gradient: Tensor,
    data: Tensor,
    share: impl FnOnce(&mut Te, &[ExprId], &[ExprId]) -> (ExprId, Option<ExprId>),
) -> Tensor {
    let (shape, of_gradient) = (te.shape(data).to_vec(), te.shape(gradient).to_vec());
    let dtype = te.element_type(gradient);
    // An element is in at most so many windows along each dimension.
    let most: Vec<i64> = windows.size.iter().zip(&windows.strides).map(|(k, s)| (k + s - 1) / s).collect();
    let domain = te.extents(&most);
    te.reduce("T_pool_grad", &shape, &domain, Reducer::Sum, |te, i, k| {
        let (mut window, mut element) = (i.to_vec(), i.to_vec());
        let mut is_in = None;
        for (d, &dim) in windows.layout.spatial.iter().enumerate() {
            element[dim] = te.add_const(i[dim], windows.before[d]);
            let stride = te.extent(windows.strides[d]);
            let last = te.floor_div(element[dim], stride);
            window[dim] = te.sub(last, k[d]);
            let first = te.mul(window[dim], stride);
            let end = te.add_const(first, windows.size[d]);
            let zero = te.extent(0);
            let conditions = [
                te.compare(CmpOp::Le, zero, window[dim]),
                te.lt(window[dim], of_gradient[dim]),
                te.lt(element[dim], end),
            ];
            for condition in conditions {
                is_in = Some(match is_in {
                    Some(is_in) => te.and(is_in, condition),
                    None => condition,
                });
            }
        }
        let (value, condition) = share(te, &window, &element);
        let always = te.bool(true);
        let mut is_in = is_in.unwrap_or(always);
        if let Some(condition) = condition {
            is_in = te.and(is_in, condition);
        }
        let zero = of_type(te, 0.0, dtype);
        te.if_then_else(is_in, value, zero)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused};

    #[test]
    fn the_gradient_has_the_shape_of_the_result() {
        let params = r#"g: R.Tensor((1, 1, 2, 3), "float32"), x: R.Tensor((1, 1, 4, 4), "float32")"#;
        let call = "R.grad.avg_pool2d_backward(g, x, pool_size=(2, 2), strides=(2, 2))";
        refused(params, call, &["R.grad.avg_pool2d_backward", "[1, 1, 4, 4]", "[1, 1, 2, 2]", "[1, 1, 2, 3]"]);
    }

    #[test]
    fn each_window_gives_to_its_elements() {
        let g = count(&[1, 1, 1, 3]);
        let x = [3.0, 1.0, 4.0, 4.0];
        let check = |kind: &str, attributes: &str, expected: &[f32]| {
            let call = format!("R.grad.{kind}_pool2d_backward(g, x, pool_size=(1, 2), strides=(1, 1){attributes})");
            check(&[("g", &[1, 1, 1, 3], &g), ("x", &[1, 1, 1, 4], &x)], &call, expected);
        };
        check("avg", "", &[0.0, 0.5, 1.5, 1.0]);
        // Of two equal elements, the first one is the largest.
        check("max", "", &[0.0, 0.0, 3.0, 0.0]);
    }

    #[test]
    fn padding_counts_if_it_is_included() {
        let (g, x) = ([1.0, 1.0], [3.0, 1.0, 4.0]);
        let check = |include: &str, expected: &[f32]| {
            let call = format!(
                "R.grad.avg_pool2d_backward(g, x, pool_size=(1, 3), strides=(1, 2), padding=(0, 1, 0, 1), count_include_pad={include})"
            );
            check(&[("g", &[1, 1, 1, 2], &g), ("x", &[1, 1, 1, 3], &x)], &call, expected);
        };
        check("False", &[0.5, 1.0, 0.5]);
        check("True", &[1.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0]);
    }
}
