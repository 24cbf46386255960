//! Images of another size.

use super::*;
use crate::ir::ExprId;

pub(super) static OPERATORS: &[Operator] = &[
    one("Resize", 10, |n| {
        let is_first = n.version < 11;
        let x = n.value(0)?;
        let rank = n.rank(x)?;
        let (scales_at, sizes_at) = if is_first { (1, 3) } else { (2, 3) };
        let mode = n.text("mode", "nearest");
        let transformation =
            if is_first { "asymmetric".to_owned() } else { n.text("coordinate_transformation_mode", "half_pixel") };
        let nearest = if is_first { "floor".to_owned() } else { n.text("nearest_mode", "round_prefer_floor") };
        let cubic = n.float("cubic_coeff_a", -0.75);
        let exclude = n.flag("exclude_outside", false);
        let outside = n.float("extrapolation_value", 0.0);
        if n.flag("antialias", false) {
            return n.fail("`Resize` with `antialias` is not supported");
        }
        if n.text("keep_aspect_ratio_policy", "stretch") != "stretch" {
            return n.fail("`Resize` with `keep_aspect_ratio_policy` is not supported");
        }
        let axes = match n.ints("axes") {
            Some(axes) => axes.iter().map(|&a| n.axis(a, rank)).collect::<Result<Vec<_>>>()?,
            None => (0..rank).collect(),
        };
        if transformation == "tf_crop_and_resize" {
            return n.fail("`Resize` with `tf_crop_and_resize` is not supported");
        }
        if !is_first && n.has(1) {
            // Regions count for cropping alone.
            n.operand(1)?;
        }
        let shape = n.shape(x)?;
        let mut wanted = shape.clone();
        if !is_first && n.has(sizes_at) {
            let sizes = n.known_extents(sizes_at)?;
            if n.has(scales_at) {
                n.operand(scales_at)?;
            }
            if sizes.len() != axes.len() {
                return n.fail(format!("`Resize` has {} sizes, expected {}", sizes.len(), axes.len()));
            }
            for (&d, size) in axes.iter().zip(sizes) {
                wanted[d] = size;
            }
        } else {
            let scales = n.known_floats(scales_at)?;
            scaled(n, &shape, &mut wanted, &axes, &scales, &transformation)?;
        }
        let method = match mode.as_str() {
            "nearest" => "nearest_neighbor",
            "linear" => "linear",
            "cubic" => "cubic",
            other => return n.fail(format!("`Resize` has the mode `{other}`")),
        };
        if transformation == "half_pixel_symmetric" {
            return n.fail("`Resize` with `half_pixel_symmetric` is not supported");
        }
        let how = How { method, transformation: &transformation, nearest: &nearest, cubic, exclude, outside };
        resized(n, x, &shape, wanted, &how)
    }),
    until(
        one("Upsample", 7, |n| {
            let x = n.value(0)?;
            let shape = n.shape(x)?;
            let scales: Vec<f64> = if n.version < 9 {
                n.floats("scales").unwrap_or_default().iter().map(|&v| f64::from(v)).collect()
            } else {
                n.known_floats(1)?
            };
            let mode = n.text("mode", "nearest");
            let method = if mode == "nearest" { "nearest_neighbor" } else { "linear" };
            let axes: Vec<usize> = (0..shape.len()).collect();
            let mut wanted = shape.clone();
            scaled(n, &shape, &mut wanted, &axes, &scales, "asymmetric")?;
            let how = How {
                method,
                transformation: "asymmetric",
                nearest: "floor",
                cubic: -0.75,
                exclude: false,
                outside: 0.0,
            };
            resized(n, x, &shape, wanted, &how)
        }),
        9,
    ),
];

struct How<'a> {
    method: &'a str,
    transformation: &'a str,
    nearest: &'a str,
    cubic: f64,
    exclude: bool,
    outside: f64,
}

/// The extents times the scales.
fn scaled(
    n: &mut Node<'_, '_>,
    shape: &[ExprId],
    wanted: &mut [ExprId],
    axes: &[usize],
    scales: &[f64],
    transformation: &str,
) -> Result<()> {
    if scales.len() != axes.len() {
        return n.fail(format!("`{}` has {} scales, expected {}", n.op_type(), scales.len(), axes.len()));
    }
    for (&d, &scale) in axes.iter().zip(scales) {
        if scale == 1.0 {
            continue;
        }
        if !(scale > 0.0 && scale < 1e6) {
            return n.fail(format!("`{}` has the scale {scale}", n.op_type()));
        }
        wanted[d] = match n.arena().as_int(shape[d]) {
            Some(extent) => {
                let exact = extent as f64 * scale;
                // Positions follow from the scale, and relax has the ratio of the extents.
                if exact.fract() != 0.0 && transformation != "align_corners" {
                    return n.fail(format!(
                        "`{}` of {extent} elements by {scale}, which gives no whole number, is not supported",
                        n.op_type()
                    ));
                }
                n.index(exact.floor() as i64)
            }
            None if scale.fract() == 0.0 => {
                let factor = n.index(scale as i64);
                n.arena().mul(shape[d], factor)
            }
            None => {
                return Err(Refusal {
                    reason: format!("`{}` of a symbolic size by {scale} is not supported", n.op_type()),
                    help: Some("make the size a number in the model".to_owned()),
                });
            }
        };
    }
    Ok(())
}

fn resized(
    n: &mut Node<'_, '_>,
    x: ValueId,
    shape: &[ExprId],
    mut wanted: Vec<ExprId>,
    how: &How<'_>,
) -> Result<ValueId> {
    let changed: Vec<usize> = (0..shape.len()).filter(|&d| wanted[d] != shape[d]).collect();
    let Some(&first) = changed.first() else { return Ok(x) };
    let rank = shape.len();
    let one = n.index(1);
    let spatial = if rank - first <= 2 { 2 } else { 3 };
    if rank - first > 3 || spatial == 3 && how.method == "cubic" {
        return n.fail(format!("`{}` of {} dimensions is not supported", n.op_type(), rank - first));
    }
    let result = wanted.clone();
    // Dimensions in front are a batch and channels.
    let kept = rank.saturating_sub(spatial);
    let mut from = vec![one; spatial.saturating_sub(rank)];
    from.extend(&shape[kept..]);
    let mut size = vec![one; spatial.saturating_sub(rank)];
    size.extend(wanted.drain(kept..));
    let mut images = one;
    for &e in &shape[..kept] {
        images = n.arena().mul(images, e);
    }
    let full = if kept == 2 { vec![shape[0], shape[1]] } else { vec![one, images] };
    let full: Vec<ExprId> = full.into_iter().chain(from).collect();
    let x = n.reshape(x, full)?;
    let rounding = if how.method == "nearest_neighbor" { how.nearest } else { "" };
    let mut args = vec![
        ("data", Arg::Value(x)),
        ("size", Arg::Shape(size)),
        ("method", text(how.method)),
        ("coordinate_transformation_mode", text(how.transformation)),
        ("rounding_method", text(rounding)),
        ("cubic_alpha", float(how.cubic)),
        ("cubic_exclude", int(i64::from(how.exclude))),
        ("extrapolation_value", float(how.outside)),
    ];
    let name = if spatial == 2 { "image.resize2d" } else { "image.resize3d" };
    args.push(("layout", text(if spatial == 2 { "NCHW" } else { "NCDHW" })));
    let y = n.call(name, args)?;
    n.reshape(y, result)
}
