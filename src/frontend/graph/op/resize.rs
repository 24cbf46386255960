//! Images and volumes of another size.

use super::interpolate::{Tap, clamped, cubic, index_of, linear, weighted};
use super::layout::Layout;
use super::*;
use crate::graph::infer::Args;
use crate::ir::AttrValue;

/// Resizing of some dimensions, with its default layout and rounding.
macro_rules! resize {
    ($name:literal, $layout:literal, $rounding:literal, $doc:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                required("size", Kind::Shape),
                optional("roi", Kind::OptFloats, Default::None),
                optional("layout", Kind::Str, Default::Str($layout)),
                optional("method", Kind::Str, Default::Str("linear")),
                optional("coordinate_transformation_mode", Kind::Str, Default::Str("half_pixel")),
                optional("rounding_method", Kind::Str, Default::Str($rounding)),
                optional("cubic_alpha", Kind::Float, Default::Float(-0.75)),
                optional("cubic_exclude", Kind::Int, Default::Int(0)),
                optional("extrapolation_value", Kind::Float, Default::Float(0.0)),
                optional("out_dtype", Kind::OptDType, Default::None),
            ],
            infer: result,
            lower: Lowering::Stages(stages),
            doc: $doc,
        }
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    resize!(
        "image.resize2d",
        "NCHW",
        "round",
        "Images of another size, by the nearest pixel, linear or cubic interpolation."
    ),
    resize!(
        "image.resize3d",
        "NCDHW",
        "",
        "Volumes of another size, by the nearest element, linear or cubic interpolation."
    ),
];

const METHODS: [&str; 3] = ["nearest_neighbor", "linear", "cubic"];
const MODES: [&str; 6] =
    ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize"];
const ROUNDINGS: [&str; 6] = ["", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];

/// The attributes of a call.
struct Resize {
    layout: Layout,
    method: &'static str,
    mode: &'static str,
    rounding: &'static str,
    alpha: f64,
    /// Whether taps outside of the image have no weight.
    exclude: bool,
    outside: f64,
    /// For each dimension, the region of `tf_crop_and_resize` as parts of the extent.
    regions: Vec<(f64, f64)>,
}

impl Resize {
    fn of(args: &Args<'_>) -> Result<Resize, OpError> {
        let spatial = if args.op.name.contains("2d") { "HW" } else { "DHW" };
        let layout = Layout::blocked(args, "layout", "NC", spatial)?;
        let n = spatial.len();
        let one_of = |name: &str, names: &[&str]| match names.contains(&args.text(name)) {
            true => Ok(args.text(name)),
            false => args.fail(format!("`{name}` must be one of {}, found `{}`", names.join(", "), args.text(name))),
        };
        let method = one_of("method", &METHODS)?;
        let mode = one_of("coordinate_transformation_mode", &MODES)?;
        let rounding = match one_of("rounding_method", &ROUNDINGS)? {
            "" if mode == "align_corners" => "round",
            "" => "floor",
            rounding => rounding,
        };
        let roi = match args.attr("roi") {
            AttrValue::List(items) => items.iter().map(number).collect::<Option<Vec<f64>>>().unwrap_or_default(),
            _ => vec![0.0; 2 * n],
        };
        let roi = if let [one] = roi[..] { vec![one; 2 * n] } else { roi };
        if roi.len() != 2 * n {
            return args.fail(format!("`roi` has {} numbers, expected {}", roi.len(), 2 * n));
        }
        // The starts precede the ends. Those of volumes begin with the innermost dimension.
        let at = |d: usize| if n == 3 { n - 1 - d } else { d };
        Ok(Resize {
            layout,
            method,
            mode,
            rounding,
            alpha: args.float("cubic_alpha"),
            exclude: args.int("cubic_exclude") != 0,
            outside: args.float("extrapolation_value"),
            regions: (0..n).map(|d| (roi[at(d)], roi[n + at(d)])).collect(),
        })
    }

    /// The position in the data of an index of the result, as a `float32`.
    fn position(&self, te: &mut Te, i: ExprId, extent: ExprId, target: ExprId, region: (f64, f64)) -> ExprId {
        let x = te.cast(DType::Float32, i);
        let (whole, wanted) = (te.cast(DType::Float32, extent), te.cast(DType::Float32, target));
        let scale = te.binary(BinOp::Div, whole, wanted);
        let (half, zero) = (like(te, x, 0.5), like(te, x, 0.0));
        let center = te.add(x, half);
        let scaled_center = te.mul(center, scale);
        let half_pixel = te.sub(scaled_center, half);
        let last = te.add_const(extent, -1);
        let last = te.cast(DType::Float32, last);
        // One element has no distance to others.
        let one = te.extent(1);
        let has_more = te.lt(one, target);
        let steps = te.add_const(target, -1);
        let steps = te.max(steps, one);
        let steps = te.cast(DType::Float32, steps);
        match self.mode {
            "half_pixel" => half_pixel,
            "align_corners" => {
                let step = te.binary(BinOp::Div, last, steps);
                te.mul(step, x)
            }
            "asymmetric" => te.mul(scale, x),
            "pytorch_half_pixel" => te.if_then_else(has_more, half_pixel, zero),
            "tf_half_pixel_for_nn" => scaled_center,
            _ => {
                let (start, end) = region;
                let (first, length) = (like(te, x, start), like(te, x, end - start));
                let first = te.mul(first, last);
                let along = te.mul(x, length);
                let along = te.mul(along, last);
                let along = te.binary(BinOp::Div, along, steps);
                let along = te.add(first, along);
                let middle = like(te, x, 0.5 * (start + end));
                let middle = te.mul(middle, last);
                te.if_then_else(has_more, along, middle)
            }
        }
    }

    /// The elements that a position takes, along a dimension.
    fn taps(&self, te: &mut Te, i: ExprId, position: ExprId, extent: ExprId, target: ExprId) -> Vec<Tap> {
        let mut taps = match self.method {
            "nearest_neighbor" => vec![Tap { index: self.nearest(te, i, position, extent, target), weight: None }],
            "linear" => linear(te, position),
            _ => cubic(te, position, self.alpha),
        };
        if self.exclude && self.method == "cubic" {
            let mut sum = None;
            for tap in &mut taps {
                let Some(weight) = tap.weight else { continue };
                let (inside, zero) = (super::interpolate::is_inside(te, tap.index, extent), like(te, weight, 0.0));
                let weight = te.if_then_else(inside, weight, zero);
                tap.weight = Some(weight);
                sum = Some(match sum {
                    Some(sum) => te.add(sum, weight),
                    None => weight,
                });
            }
            for tap in &mut taps {
                tap.weight = tap.weight.zip(sum).map(|(weight, sum)| te.binary(BinOp::Div, weight, sum));
            }
        }
        for tap in &mut taps {
            tap.index = clamped(te, tap.index, extent);
        }
        taps
    }

    /// The index of the nearest element.
    fn nearest(&self, te: &mut Te, i: ExprId, position: ExprId, extent: ExprId, target: ExprId) -> ExprId {
        // Whole multiples are exact.
        if self.mode == "asymmetric"
            && self.rounding == "floor"
            && let (Some(from), Some(to)) = (te.as_int(extent), te.as_int(target))
            && from > 0
            && to % from == 0
        {
            let times = te.extent(to / from);
            return te.floor_div(i, times);
        }
        let shifted = |te: &mut Te, by: f64| {
            let by = like(te, position, by);
            te.add(position, by)
        };
        let rounded = match self.rounding {
            "round" => te.call(Intrinsic::Round, &[position]),
            "round_prefer_floor" => {
                let x = shifted(te, -0.5);
                te.call(Intrinsic::Ceil, &[x])
            }
            "round_prefer_ceil" => {
                let x = shifted(te, 0.5);
                te.call(Intrinsic::Floor, &[x])
            }
            "floor" => {
                let x = shifted(te, 1e-5);
                te.call(Intrinsic::Floor, &[x])
            }
            _ => {
                let x = shifted(te, -1e-5);
                te.call(Intrinsic::Ceil, &[x])
            }
        };
        index_of(te, rounded)
    }
}

fn number(value: &AttrValue) -> Option<f64> {
    match value {
        AttrValue::Float(v) => Some(*v),
        AttrValue::Int(v) => Some(*v as f64),
        _ => None,
    }
}

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let resize = Resize::of(cx)?;
    let (data, size) = (cx.tensor("data")?, cx.shape("size")?);
    cx.expect_rank("data", &data, resize.layout.rank())?;
    let n = resize.layout.spatial.len();
    if size.len() != n {
        let (of_data, size) = (cx.extents(&data.shape), cx.extents(&size));
        return cx.fail(format!("`size` {size} must have {n} extents for `data` {of_data}"));
    }
    let mut shape = data.shape.clone();
    for (&dim, &extent) in resize.layout.spatial.iter().zip(&size) {
        if cx.known_extent(extent).is_some_and(|n| n < 1) || cx.known_extent(shape[dim]).is_some_and(|n| n < 1) {
            let (of_data, size) = (cx.extents(&data.shape), cx.extents(&size));
            return cx.fail(format!("`size` {size} and the extents of `data` {of_data} must be positive"));
        }
        shape[dim] = extent;
    }
    Ok(Type::tensor(cx.opt_dtype("out_dtype").unwrap_or(data.dtype), shape))
}

fn stages(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let resize = Resize::of(cx)?;
    let data = cx.input("data")?;
    let (shape, dtype, of_data) = (cx.out_shape(0)?, cx.out_dtype(0)?, cx.shape_of(data));
    Ok(vec![cx.te.compute("resize", &shape, |te, i| {
        let mut positions = Vec::new();
        let mut taps = Vec::new();
        for (d, &dim) in resize.layout.spatial.iter().enumerate() {
            let (extent, target) = (of_data[dim], shape[dim]);
            let position = resize.position(te, i[dim], extent, target, resize.regions[d]);
            taps.push((dim, resize.taps(te, i[dim], position, extent, target)));
            positions.push((position, extent));
        }
        let mut value = weighted(te, &taps, &mut i.to_vec(), &mut |te, at| {
            let x = te.at(data, at);
            te.cast(DType::Float32, x)
        });
        if resize.mode == "tf_crop_and_resize" {
            for (position, extent) in positions {
                let last = te.add_const(extent, -1);
                let (zero, last) = (like(te, position, 0.0), te.cast(DType::Float32, last));
                let (before, after) = (te.lt(position, zero), te.lt(last, position));
                let (is_outside, outside) = (te.or(before, after), like(te, value, resize.outside));
                value = te.if_then_else(is_outside, outside, value);
            }
        }
        te.cast(dtype, value)
    })])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_are_those_asked_for() {
        let params = r#"x: R.Tensor((1, 5, 7, "c"), "uint8")"#;
        let call = r#"R.image.resize2d(x, (4, 6), layout="NHWC", out_dtype="float32")"#;
        assert_eq!(type_of(params, call), "float32 [1, 4, 6, c]");
    }

    #[test]
    fn mistakes_name_the_shapes() {
        let params = r#"x: R.Tensor((1, 5, 7, 3), "float32")"#;
        refused(params, "R.image.resize2d(x, (4, 6, 2))", &["R.image.resize2d", "[4, 6, 2]", "[1, 5, 7, 3]"]);
        refused(params, r#"R.image.resize2d(x, (4, 6), method="area")"#, &["`method`", "linear", "area"]);
        refused(params, "R.image.resize2d(x, (4, 6), roi=(0.0, 1.0))", &["`roi` has 2 numbers, expected 4"]);
    }

    fn resized(width: i64, attributes: &str, expected: &[f32]) {
        let x = count(&[1, 1, 1, 4]);
        check(&[("x", &[1, 1, 1, 4], &x)], &format!("R.image.resize2d(x, (1, {width}), {attributes})"), expected);
    }

    #[test]
    fn coordinates_have_every_mode() {
        let linear =
            |mode: &str, expected: &[f32]| resized(2, &format!(r#"coordinate_transformation_mode="{mode}""#), expected);
        linear("half_pixel", &[0.5, 2.5]);
        linear("pytorch_half_pixel", &[0.5, 2.5]);
        linear("align_corners", &[0.0, 3.0]);
        linear("asymmetric", &[0.0, 2.0]);
        linear("tf_half_pixel_for_nn", &[1.0, 3.0]);
        resized(1, r#"coordinate_transformation_mode="align_corners""#, &[0.0]);
        let crop =
            r#"coordinate_transformation_mode="tf_crop_and_resize", roi=(0.0, 0.5, 0.0, 1.5), extrapolation_value=9.0"#;
        resized(3, crop, &[1.5, 3.0, 9.0]);
    }

    #[test]
    fn the_nearest_element_has_every_rounding() {
        let nearest = |rounding: &str, expected: &[f32]| {
            let attributes = format!(
                r#"method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="{rounding}""#
            );
            resized(8, &attributes, expected);
        };
        nearest("floor", &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        nearest("ceil", &[0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]);
        nearest("round", &[0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0]);
        nearest("round_prefer_floor", &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        nearest("round_prefer_ceil", &[0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]);
    }

    #[test]
    fn cubic_weights_may_exclude_what_is_outside() {
        let asymmetric = r#"method="cubic", coordinate_transformation_mode="asymmetric""#;
        // At a half the weights of four taps are -3/32, 19/32, 19/32, -3/32.
        resized(8, &format!("{asymmetric}, cubic_exclude=0"), &[0.0, 0.40625, 1.0, 1.5, 2.0, 2.59375, 3.0, 3.09375]);
        let middle = [0.0, 13.0 / 35.0, 1.0, 1.5, 2.0, 92.0 / 35.0, 3.0, 3.1875];
        resized(8, &format!("{asymmetric}, cubic_exclude=1"), &middle);
    }

    #[test]
    fn volumes_are_interpolated() {
        let x = count(&[1, 1, 2, 1, 2]);
        let call = r#"R.image.resize3d(x, (3, 1, 3), coordinate_transformation_mode="align_corners")"#;
        check(&[("x", &[1, 1, 2, 1, 2], &x)], call, &[0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0, 2.5, 3.0]);
    }
}
