//! Images of another size.

use super::resample::{Axis, Sampling, resample};
use super::*;
use crate::ir::ExprId;

pub(super) static OPERATORS: &[Operator] = &[
    one("Resize", 10, resize),
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
            scaled(n, &shape, &mut wanted, &axes, &scales, &[])?;
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

fn resize(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let is_first = n.version < 11;
    let x = n.value(0)?;
    let rank = n.rank(x)?;
    let (scales_at, sizes_at) = if is_first { (1, 3) } else { (2, 3) };
    let mode = n.text("mode", "nearest");
    let transformation =
        if is_first { "asymmetric".to_owned() } else { n.text("coordinate_transformation_mode", "half_pixel") };
    let nearest = if is_first { "floor".to_owned() } else { n.text("nearest_mode", "round_prefer_floor") };
    let (cubic, excludes) = (n.float("cubic_coeff_a", -0.75), n.flag("exclude_outside", false));
    let (outside, antialias) = (n.float("extrapolation_value", 0.0), n.flag("antialias", false));
    let policy = n.text("keep_aspect_ratio_policy", "stretch");
    let axes = match n.ints("axes") {
        Some(axes) => axes.iter().map(|&a| n.axis(a, rank)).collect::<Result<Vec<_>>>()?,
        None => (0..rank).collect(),
    };
    let is_region = transformation == "tf_crop_and_resize";
    let regions = if is_region { n.known_floats(1)? } else { Vec::new() };
    if is_region && regions.len() != 2 * axes.len() {
        return n.fail(format!("`Resize` has a region of {} numbers, expected {}", regions.len(), 2 * axes.len()));
    }
    if !is_first && n.has(1) {
        // Regions count for cropping alone.
        n.operand(1)?;
    }
    let method = match mode.as_str() {
        "nearest" => "nearest_neighbor",
        "linear" => "linear",
        "cubic" => "cubic",
        other => return n.fail(format!("`Resize` has the mode `{other}`")),
    };
    let shape = n.shape(x)?;
    let mut wanted = shape.clone();
    let mut scales: Option<Vec<f64>> = None;
    if !is_first && n.has(sizes_at) {
        if n.has(scales_at) {
            n.operand(scales_at)?;
        }
        let sizes = n.known_extents(sizes_at)?;
        if sizes.len() != axes.len() {
            return n.fail(format!("`Resize` has {} sizes, expected {}", sizes.len(), axes.len()));
        }
        for (&d, &size) in axes.iter().zip(&sizes) {
            wanted[d] = size;
        }
        if policy != "stretch" {
            let extents = n.known_shape(x)?;
            let sizes = n.known_ints(sizes_at)?;
            let ratios = axes.iter().zip(&sizes).map(|(&d, &size)| size as f64 / extents[d] as f64);
            let ratio = match policy.as_str() {
                "not_larger" => ratios.fold(f64::INFINITY, f64::min),
                "not_smaller" => ratios.fold(0.0, f64::max),
                other => return n.fail(format!("`Resize` has the policy `{other}`")),
            };
            for &d in &axes {
                wanted[d] = n.index((ratio * extents[d] as f64 + 0.5).floor() as i64);
            }
            scales = Some(vec![ratio; axes.len()]);
        }
    } else {
        let given = n.known_floats(scales_at)?;
        scaled(n, &shape, &mut wanted, &axes, &given, &regions)?;
        scales = Some(given);
    }
    // relax has the ratio of the extents for the scale, and no filters and regions.
    let exact =
        |n: &mut Node<'_, '_>, d: usize, scale: f64| match (n.arena().as_int(shape[d]), n.arena().as_int(wanted[d])) {
            (Some(from), Some(to)) => from as f64 * scale == to as f64,
            _ => true,
        };
    let are_exact = match &scales {
        Some(scales) => axes.iter().zip(scales).all(|(&d, &scale)| exact(n, d, scale)),
        None => true,
    };
    let first = (0..rank).find(|&d| wanted[d] != shape[d]).unwrap_or(rank);
    let is_known = are_exact
        && !(antialias && method != "nearest_neighbor")
        && !is_region
        && transformation != "half_pixel_symmetric"
        && rank - first <= if method == "cubic" { 2 } else { 3 };
    if is_known {
        let how = How { method, transformation: &transformation, nearest: &nearest, cubic, exclude: excludes, outside };
        return resized(n, x, &shape, wanted, &how);
    }
    let how = Sampling {
        mode: &mode,
        transformation: &transformation,
        nearest: &nearest,
        cubic,
        excludes,
        antialias,
        outside,
    };
    let extents = n.known_shape(x)?;
    let mut resized = Vec::new();
    for (i, &axis) in axes.iter().enumerate() {
        let Some(result) = n.arena().as_int(wanted[axis]) else {
            return n.fail("`Resize` by these attributes needs sizes that are numbers");
        };
        let scale = scales.as_ref().map_or(result as f64 / extents[axis] as f64, |scales| scales[i]);
        let region = if is_region { (regions[i], regions[axes.len() + i]) } else { (0.0, 1.0) };
        let is_changed = result != extents[axis] || scale != 1.0 || region != (0.0, 1.0);
        if is_changed || is_region {
            resized.push(Axis { axis, extent: extents[axis], result, scale, region });
        }
    }
    resample(n, x, &resized, &how)
}

struct How<'a> {
    method: &'a str,
    transformation: &'a str,
    nearest: &'a str,
    cubic: f64,
    exclude: bool,
    outside: f64,
}

/// The extents times the scales, and times the shares that regions are.
fn scaled(
    n: &mut Node<'_, '_>,
    shape: &[ExprId],
    wanted: &mut [ExprId],
    axes: &[usize],
    scales: &[f64],
    regions: &[f64],
) -> Result<()> {
    if scales.len() != axes.len() {
        return n.fail(format!("`{}` has {} scales, expected {}", n.op_type(), scales.len(), axes.len()));
    }
    for (i, (&d, &scale)) in axes.iter().zip(scales).enumerate() {
        let share = match regions {
            [] => 1.0,
            all => all[axes.len() + i] - all[i],
        };
        if scale == 1.0 && share == 1.0 {
            continue;
        }
        if !(scale > 0.0 && scale < 1e6 && share.abs() < 1e6) {
            return n.fail(format!("`{}` has the scale {scale}", n.op_type()));
        }
        wanted[d] = match n.arena().as_int(shape[d]) {
            Some(extent) => n.index((extent as f64 * share * scale).floor().max(0.0) as i64),
            None if scale.fract() == 0.0 && share == 1.0 => {
                let factor = n.index(scale as i64);
                n.arena().mul(shape[d], factor)
            }
            None => {
                return Err(Refusal {
                    reason: format!("`{}` of a symbolic size by {scale} is not supported", n.op_type()),
                    help: Some("give sizes by `--shape` or `--bind`".to_owned()),
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
