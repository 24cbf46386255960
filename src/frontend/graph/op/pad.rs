//! Padding, and channels that become pixels.

use super::*;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "nn.pad",
        params: &[
            required("data", Kind::Tensor),
            required("pad_width", Kind::Ints),
            optional("pad_mode", Kind::OptStr, Default::Str("constant")),
            optional("pad_value", Kind::OptFloat, Default::Float(0.0)),
        ],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let widths = cx.ints("pad_width");
            if widths.len() != 2 * data.rank() {
                let (shape, n) = (cx.extents(&data.shape), widths.len());
                return cx.fail(format!("`pad_width` has {n} integers, expected two for each dimension of {shape}"));
            }
            let mode = cx.opt_text("pad_mode").unwrap_or("constant");
            if !MODES.contains(&mode) {
                return cx.fail(format!("`pad_mode` must be one of {}, found `{mode}`", MODES.join(", ")));
            }
            let mut shape = Vec::with_capacity(data.rank());
            for (d, width) in widths.chunks(2).enumerate() {
                let extent = cx.arena.add_const(data.shape[d], width[0] + width[1]);
                let extent = cx.simplified(extent);
                if cx.known_extent(extent).is_some_and(|n| n < 0) {
                    let from = cx.extents(&data.shape);
                    return cx.fail(format!("`pad_width` {widths:?} takes more away from {from} than there is"));
                }
                shape.push(extent);
            }
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let widths = cx.ints("pad_width");
            let before: Vec<i64> = widths.iter().step_by(2).copied().collect();
            let after: Vec<i64> = widths.iter().skip(1).step_by(2).copied().collect();
            let dtype = cx.te.element_type(data);
            Ok(vec![match cx.opt_text("pad_mode").unwrap_or("constant") {
                "reflect" => moved(cx, "ReflectPadInput", data, &before, reflected)?,
                "replicate" => moved(cx, "ReplicatePadInput", data, &before, |te, at, extent| {
                    let (zero, last) = (te.extent(0), te.add_const(extent, -1));
                    let at = te.min(last, at);
                    te.max(zero, at)
                })?,
                "circular" => moved(cx, "CircularPadInput", data, &before, |te, at, extent| te.floor_mod(at, extent))?,
                _ => {
                    let value = cx.float("pad_value");
                    let value = of_type(&mut cx.te, value, dtype);
                    padded(&mut cx.te, "PadInput", data, &before, &after, value)
                }
            }])
        }),
        doc: "The tensor with elements added before and after each dimension: a constant, or elements of its own.",
    },
    Operator {
        name: "nn.pixel_shuffle",
        params: &[required("data", Kind::Tensor), required("upscale_factor", Kind::Int)],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let factor = cx.int("upscale_factor");
            if factor < 1 {
                return cx.fail(format!("`upscale_factor` must be positive, found {factor}"));
            }
            let mut shape = data.shape.clone();
            let [.., c, h, w] = &mut shape[..] else {
                let shape = cx.extents(&data.shape);
                return cx.fail(format!("`data` must have at least 3 dimensions, found {shape}"));
            };
            if let Some(channels) = cx.known_extent(*c)
                && channels % (factor * factor) != 0
            {
                let shape = cx.extents(&data.shape);
                return cx.fail(format!("the channels of {shape} are no multiple of {factor} * {factor}"));
            }
            let square = cx.extent(factor * factor);
            *c = cx.arena.floor_div(*c, square);
            *c = cx.simplified(*c);
            *h = cx.arena.mul_const(*h, factor);
            *w = cx.arena.mul_const(*w, factor);
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let (data, factor) = (cx.input("data")?, cx.int("upscale_factor"));
            let shape = cx.out_shape(0)?;
            Ok(vec![cx.te.compute("PixelShuffle", &shape, |te, i| {
                let factor = te.extent(factor);
                let (batch, pixel) = i.split_at(i.len() - 3);
                let row = te.floor_mod(pixel[1], factor);
                let column = te.floor_mod(pixel[2], factor);
                let mut c = te.mul(pixel[0], factor);
                c = te.add(c, row);
                c = te.mul(c, factor);
                c = te.add(c, column);
                let mut at = batch.to_vec();
                at.extend([c, te.floor_div(pixel[1], factor), te.floor_div(pixel[2], factor)]);
                te.at(data, &at)
            })])
        }),
        doc: "Groups of factor * factor channels as blocks of factor * factor pixels.",
    },
];

const MODES: [&str; 4] = ["constant", "reflect", "replicate", "circular"];

/// A tensor with a value added before and after each dimension. Negative widths take elements away.
pub(crate) fn padded(te: &mut Te, name: &str, data: Tensor, before: &[i64], after: &[i64], value: ExprId) -> Tensor {
    let from = te.shape(data).to_vec();
    let shape: Vec<ExprId> =
        from.iter().zip(before.iter().zip(after)).map(|(&e, (b, a))| te.add_const(e, b + a)).collect();
    te.compute(name, &shape, |te, i| {
        let mut at = i.to_vec();
        let mut inside = None;
        for d in 0..i.len() {
            if before[d] == 0 && after[d] == 0 {
                continue;
            }
            at[d] = less(te, i[d], before[d]);
            let (first, end) = (te.extent(before[d]), te.add_const(from[d], before[d]));
            let (low, high) = (te.compare(CmpOp::Le, first, i[d]), te.lt(i[d], end));
            inside = Some(match inside {
                Some(inside) => te.and(inside, low),
                None => low,
            });
            inside = inside.map(|inside| te.and(inside, high));
        }
        let x = te.at(data, &at);
        match inside {
            Some(inside) => te.if_then_else(inside, x, value),
            None => x,
        }
    })
}

/// A padded tensor all of whose elements are some of the data: `to` gives the index of an element from one that may lie outside
/// of the extent.
fn moved(
    cx: &mut Lower<'_>,
    name: &str,
    data: Tensor,
    before: &[i64],
    to: fn(&mut Te, ExprId, ExprId) -> ExprId,
) -> Result<Tensor, OpError> {
    let shape = cx.out_shape(0)?;
    let from = cx.shape_of(data);
    Ok(cx.te.compute(name, &shape, |te, i| {
        let mut at = Vec::with_capacity(i.len());
        for d in 0..i.len() {
            // Dimensions that do not change have no arithmetic.
            at.push(match from[d] == shape[d] && before[d] == 0 {
                true => i[d],
                false => {
                    let index = less(te, i[d], before[d]);
                    to(te, index, from[d])
                }
            });
        }
        te.at(data, &at)
    }))
}

/// An index less a width.
fn less(te: &mut Te, index: ExprId, width: i64) -> ExprId {
    let width = te.extent(width);
    te.sub(index, width)
}

/// An index reflected at 0 and at the last one.
fn reflected(te: &mut Te, at: ExprId, extent: ExprId) -> ExprId {
    let last = te.add_const(extent, -1);
    let at = te.call(Intrinsic::Abs, &[at]);
    let beyond = te.sub(last, at);
    let beyond = te.call(Intrinsic::Abs, &[beyond]);
    te.sub(last, beyond)
}

/// A constant of a type.
pub(crate) fn of_type(te: &mut Te, value: f64, dtype: DType) -> ExprId {
    match dtype.is_float() {
        true => te.float(value, dtype),
        false => te.int(value as i64, dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_grow_by_the_widths() {
        let params = r#"x: R.Tensor(("n", 3), "float32")"#;
        assert_eq!(type_of(params, "R.nn.pad(x, (1, 2, 0, 4))"), "float32 [(n + 3), 7]");
        assert_eq!(
            type_of(r#"x: R.Tensor((8, "h", 2), "float32")"#, "R.nn.pixel_shuffle(x, 2)"),
            "float32 [2, h * 2, 4]"
        );
    }

    #[test]
    fn mistakes_name_the_shape() {
        let params = r#"x: R.Tensor((2, 3), "float32")"#;
        refused(params, "R.nn.pad(x, (1, 2, 3))", &["R.nn.pad", "3 integers", "[2, 3]"]);
        refused(
            params,
            r#"R.nn.pad(x, (1, 1, 1, 1), pad_mode="edge")"#,
            &["constant, reflect, replicate, circular", "edge"],
        );
        refused(params, "R.nn.pixel_shuffle(x, 2)", &["at least 3 dimensions", "[2, 3]"]);
        refused(r#"x: R.Tensor((6, 3, 3), "float32")"#, "R.nn.pixel_shuffle(x, 2)", &["[6, 3, 3]", "2 * 2"]);
    }

    #[test]
    fn every_mode_pads() {
        let x = count(&[4]);
        for (mode, expected) in [
            ("constant", [9.0, 9.0, 0.0, 1.0, 2.0, 3.0, 9.0]),
            ("reflect", [2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0]),
            ("replicate", [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0]),
            ("circular", [2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0]),
        ] {
            check(&[("x", &[4], &x)], &format!(r#"R.nn.pad(x, (2, 1), "{mode}", 9.0)"#), &expected);
        }
        check(&[("x", &[4], &x)], "R.nn.pad(x, (-1, 1))", &[1.0, 2.0, 3.0, 0.0]);
    }

    #[test]
    fn channels_become_pixels() {
        let x = count(&[4, 1, 2]);
        check(&[("x", &[4, 1, 2], &x)], "R.nn.pixel_shuffle(x, 2)", &[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    }
}
