//! Images and grids: regions, blocks of columns, affine maps.

use super::*;
use crate::ir::DType;

/// Grids and lists of positions with more elements are refused.
const MOST_POSITIONS: i64 = 1 << 20;

pub(super) static OPERATORS: &[Operator] = &[
    one("AffineGrid", 20, |n| {
        let (theta, size) = (n.value(0)?, n.known_ints(1)?);
        let align = n.flag("align_corners", false);
        let Some(extents) = size.get(2..).filter(|e| matches!(e.len(), 2 | 3)) else {
            return n.fail("`AffineGrid` needs 4 or 5 dimensions");
        };
        let points = count(extents);
        if points > MOST_POSITIONS || extents.iter().any(|&e| e < 1) {
            return n.fail(format!("`AffineGrid` of {extents:?} points is not supported"));
        }
        let at = |i: i64, extent: i64| match (align, extent) {
            (true, 1) => -1.0,
            (true, extent) => 2.0 * i as f64 / (extent - 1) as f64 - 1.0,
            (false, extent) => (2 * i + 1) as f64 / extent as f64 - 1.0,
        };
        let spatial = extents.len();
        let mut grid = Vec::new();
        for p in 0..points {
            let mut rest = p;
            // Coordinates begin with that of the last dimension.
            for &extent in extents.iter().rev() {
                grid.push(at(rest % extent, extent));
                rest /= extent;
            }
            grid.push(1.0);
        }
        let dtype = n.dtype(theta)?;
        let grid = n.numbers(&grid, &[points, spatial as i64 + 1], dtype)?;
        let theta = n.permute(theta, &[0, 2, 1])?;
        let y = n.matmul(grid, theta)?;
        let shape: Vec<i64> = [&size[..1], extents, &[spatial as i64]].concat();
        n.reshape_to(y, &shape)
    }),
    one("CenterCropPad", 18, |n| {
        let (x, wanted) = (n.value(0)?, n.known_ints(1)?);
        let shape = n.known_shape(x)?;
        let rank = shape.len();
        let axes = match n.ints("axes") {
            Some(axes) => axes.iter().map(|&a| n.axis(a, rank)).collect::<Result<Vec<_>>>()?,
            None => (0..rank).collect(),
        };
        if axes.len() != wanted.len() {
            return n.fail(format!("`CenterCropPad` has {} sizes for {} axes", wanted.len(), axes.len()));
        }
        let mut y = x;
        let mut widths = vec![0; 2 * rank];
        for (&d, &to) in axes.iter().zip(&wanted) {
            let from = shape[d];
            if to < from {
                let start = (from - to) / 2;
                y = n.part(y, d, (start, start + to), 1)?;
            } else {
                (widths[2 * d], widths[2 * d + 1]) = ((to - from) / 2, (to - from + 1) / 2);
            }
        }
        if widths.iter().all(|&w| w == 0) {
            return Ok(y);
        }
        n.call("nn.pad", vec![("data", Arg::Value(y)), ("pad_width", ints(&widths)), ("pad_value", float(0.0))])
    }),
    one("Col2Im", 18, col2im),
    one("MaxUnpool", 9, |n| {
        let (x, indices) = (n.value(0)?, n.value(1)?);
        let shape = n.known_shape(x)?;
        let spatial = shape.len().saturating_sub(2);
        let kernel = n.ints("kernel_shape").unwrap_or_default();
        let strides = n.ints("strides").unwrap_or_else(|| vec![1; spatial]);
        let pads = n.ints("pads").unwrap_or_else(|| vec![0; 2 * spatial]);
        if [kernel.len(), strides.len(), pads.len() / 2] != [spatial; 3] || spatial == 0 {
            return n.fail(format!("the attributes of `MaxUnpool` are not for {spatial} spatial dimensions"));
        }
        if kernel.iter().chain(&strides).chain(&pads).any(|v| !(0..1 << 31).contains(v)) {
            return n.fail("the windows of `MaxUnpool` are not positive");
        }
        let full = |d: usize| (shape[d + 2] - 1) * strides[d] + kernel[d] - pads[d] - pads[spatial + d];
        let mut tight = shape[..2].to_vec();
        tight.extend((0..spatial).map(full));
        let wanted = if n.has(2) { n.known_ints(2)? } else { tight.clone() };
        if wanted.len() != tight.len() {
            return n.fail(format!("`MaxUnpool` has a shape of {} dimensions", wanted.len()));
        }
        // Indices count in the image without the rest that the shape adds.
        let elements = count(&tight);
        if tight.iter().any(|&e| e < 0) || elements == i64::MAX {
            return n.fail("the result of `MaxUnpool` has no shape");
        }
        let (dtype, all) = (n.dtype(x)?, n.indices(&[elements]));
        let zeros = n.full(all, 0.0, dtype)?;
        let (x, indices) = (n.reshape_to(x, &[-1])?, n.reshape_to(indices, &[-1])?);
        let args = vec![
            ("data", Arg::Value(zeros)),
            ("indices", Arg::Value(indices)),
            ("updates", Arg::Value(x)),
            ("axis", int(0)),
            ("reduction", text("update")),
        ];
        let y = n.call("scatter_elements", args)?;
        let y = n.reshape_to(y, &tight)?;
        let mut widths = Vec::new();
        for (from, to) in tight.iter().zip(&wanted) {
            if to < from {
                return n.fail("`MaxUnpool` to a smaller shape is not supported");
            }
            widths.extend([0, to - from]);
        }
        if tight == wanted {
            return Ok(y);
        }
        n.call("nn.pad", vec![("data", Arg::Value(y)), ("pad_width", ints(&widths)), ("pad_value", float(0.0))])
    }),
    one("RoiAlign", 10, |n| {
        let (x, regions, images) = (n.value(0)?, n.value(1)?, n.value(2)?);
        if n.text("mode", "avg") != "avg" {
            return n.fail("`RoiAlign` with another mode than `avg` is not supported");
        }
        let default = if n.version < 16 { "output_half_pixel" } else { "half_pixel" };
        let is_aligned = match n.text("coordinate_transformation_mode", default).as_str() {
            "half_pixel" => true,
            "output_half_pixel" => false,
            other => return n.fail(format!("`RoiAlign` has the transformation `{other}`")),
        };
        let size = [n.int("output_height", 1), n.int("output_width", 1)];
        let (samples, scale) = (n.int("sampling_ratio", 0), n.float("spatial_scale", 1.0));
        let dtype = n.dtype(regions)?;
        let images = n.cast(images, dtype)?;
        let images = n.expand_dims(images, &[1])?;
        // Positions are those of the centres of pixels, which relax counts from their corners.
        let regions = if is_aligned { n.with_number("subtract", regions, 0.5 / scale)? } else { regions };
        let regions = n.concat(vec![images, regions], 1)?;
        let args = vec![
            ("data", Arg::Value(x)),
            ("rois", Arg::Value(regions)),
            ("pooled_size", ints(&size)),
            ("spatial_scale", float(scale)),
            ("sample_ratio", int(if samples == 0 { -1 } else { samples })),
            ("aligned", flag(is_aligned)),
        ];
        n.call("vision.roi_align", args)
    }),
];

/// The number of elements of a shape; the largest number if it is larger.
fn count(shape: &[i64]) -> i64 {
    shape.iter().fold(1_i64, |n, &extent| n.saturating_mul(extent))
}

/// Columns of blocks, added to the image where they come from.
fn col2im(n: &mut Node<'_, '_>) -> Result<ValueId> {
    let (x, image, block) = (n.value(0)?, n.known_ints(1)?, n.known_ints(2)?);
    let spatial = image.len();
    let mut of = |name: &str, default: i64, count: usize| n.ints(name).unwrap_or_else(|| vec![default; count]);
    let (strides, dilations, pads) =
        (of("strides", 1, spatial), of("dilations", 1, spatial), of("pads", 0, 2 * spatial));
    let fits = [block.len(), strides.len(), dilations.len()] == [spatial; 3] && pads.len() == 2 * spatial;
    let is_positive = image.iter().chain(&block).chain(&strides).chain(&dilations).all(|v| (1..1 << 31).contains(v));
    if !fits || !is_positive || spatial == 0 || pads.iter().any(|&p| p < 0) {
        return n.fail(format!("the attributes of `Col2Im` are not for {spatial} spatial dimensions"));
    }
    // Positions in the padded image.
    let padded: Vec<i64> = (0..spatial).map(|d| image[d] + pads[d] + pads[spatial + d]).collect();
    let windows: Vec<i64> =
        (0..spatial).map(|d| (padded[d] - (block[d] - 1) * dilations[d] - 1).div_euclid(strides[d]) + 1).collect();
    let (size, blocks) = (count(&block), count(&windows));
    let is_large = size.saturating_mul(blocks) > MOST_POSITIONS || count(&padded) == i64::MAX;
    if is_large || windows.iter().any(|&w| w < 1) {
        return n.fail(format!("`Col2Im` of {blocks} blocks of {size} elements is not supported"));
    }
    let coordinates = |mut p: i64, extents: &[i64]| {
        let mut at: Vec<i64> = extents.iter().rev().map(|e| (p % e, p /= e).0).collect();
        at.reverse();
        at
    };
    let mut positions = Vec::new();
    for b in 0..size {
        let inner = coordinates(b, &block);
        for w in 0..blocks {
            let outer = coordinates(w, &windows);
            let at = |p: i64, d: usize| p * padded[d] + outer[d] * strides[d] + inner[d] * dilations[d];
            positions.push((0..spatial).fold(0, at) as f64);
        }
    }
    let shape = n.known_shape(x)?;
    let ([batch, rows, columns], true) = (&shape[..], shape.get(1).is_some_and(|rows| rows % size == 0)) else {
        return n.fail("`Col2Im` needs 3 dimensions: images, elements of blocks, blocks");
    };
    if *columns != blocks {
        return n.fail(format!("`Col2Im` has {columns} columns, expected {blocks}"));
    }
    let (dtype, channels) = (n.dtype(x)?, rows / size);
    let positions = n.numbers(&positions, &[1, 1, size * blocks], DType::Int64)?;
    let all = n.indices(&[*batch, channels, size * blocks]);
    let positions = n.broadcast(positions, all)?;
    let updates = n.reshape_to(x, &[*batch, channels, size * blocks])?;
    let elements = n.indices(&[*batch, channels, padded.iter().product()]);
    let zeros = n.full(elements, 0.0, dtype)?;
    let args = vec![
        ("data", Arg::Value(zeros)),
        ("indices", Arg::Value(positions)),
        ("updates", Arg::Value(updates)),
        ("axis", int(2)),
        ("reduction", text("add")),
    ];
    let y = n.call("scatter_elements", args)?;
    let full: Vec<i64> = [&[*batch, channels][..], &padded].concat();
    let mut y = n.reshape_to(y, &full)?;
    for d in 0..spatial {
        if padded[d] != image[d] {
            y = n.part(y, d + 2, (pads[d], pads[d] + image[d]), 1)?;
        }
    }
    Ok(y)
}
