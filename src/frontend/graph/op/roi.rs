//! Regions of images as bins of one size.

use super::interpolate::{Tap, below, clamped, weighted};
use super::layout::{Layout, positive};
use super::*;
use crate::graph::infer::Args;
use crate::te::{INDEX, Reducer, least};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "vision.roi_align",
        params: &[
            required("data", Kind::Tensor),
            required("rois", Kind::Tensor),
            required("pooled_size", Kind::Ints),
            required("spatial_scale", Kind::Float),
            optional("sample_ratio", Kind::Int, Default::Int(-1)),
            optional("aligned", Kind::Bool, Default::Bool(false)),
            optional("layout", Kind::Str, Default::Str("NCHW")),
            optional("mode", Kind::Str, Default::Str("avg")),
        ],
        infer: |cx| {
            if !matches!(cx.text("mode"), "avg" | "max") {
                return cx.fail(format!("`mode` must be avg or max, found `{}`", cx.text("mode")));
            }
            regions(cx)
        },
        lower: Lowering::Stages(roi_align),
        doc: "Each region of an image as so many bins, by interpolation at points of each bin.",
    },
    Operator {
        name: "vision.roi_pool",
        params: &[
            required("data", Kind::Tensor),
            required("rois", Kind::Tensor),
            required("pooled_size", Kind::Ints),
            required("spatial_scale", Kind::Float),
            optional("layout", Kind::Str, Default::Str("NCHW")),
        ],
        infer: regions,
        lower: Lowering::Stages(roi_pool),
        doc: "Each region of an image as so many bins, by the largest pixel of each bin.",
    },
];

/// The extents of the bins.
fn pooled_size(args: &Args<'_>) -> Result<Vec<i64>, OpError> {
    positive(args, "pooled_size", 2)
}

fn regions(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let layout = Layout::plain(cx, "layout", "NC", "HW")?;
    let (data, rois) = (cx.tensor("data")?, cx.tensor("rois")?);
    expect_float(cx, "data", data.dtype)?;
    expect_same_type(cx, ("data", data.dtype), ("rois", rois.dtype))?;
    cx.expect_rank("data", &data, 4)?;
    cx.expect_rank("rois", &rois, 2)?;
    let five = cx.extent(5);
    if cx.differ(rois.shape[1], five) {
        let (data, rois) = (cx.extents(&data.shape), cx.extents(&rois.shape));
        return cx.fail(format!(
            "`rois` {rois} must have 5 numbers for each region of `data` {data}: the image and two corners"
        ));
    }
    let mut shape = data.shape.clone();
    shape[layout.at('N')] = rois.shape[0];
    for (&dim, size) in layout.spatial.iter().zip(pooled_size(cx)?) {
        shape[dim] = cx.extent(size);
    }
    Ok(Type::tensor(data.dtype, shape))
}

/// A number of a region. The image comes first, then columns and rows in turn.
fn roi(te: &mut Te, rois: Tensor, region: ExprId, at: usize) -> ExprId {
    let at = te.extent(at as i64);
    te.at(rois, &[region, at])
}

/// The image of a region; one that does not exist is the nearest one that does.
fn image_of(te: &mut Te, rois: Tensor, region: ExprId, images: ExprId) -> ExprId {
    let image = roi(te, rois, region, 0);
    let image = te.cast(INDEX, image);
    clamped(te, image, images)
}

/// The start and end of a region along a dimension, counted from the rows.
fn bounds(te: &mut Te, rois: Tensor, region: ExprId, d: usize, scale: f64) -> (ExprId, ExprId) {
    let (start, end) = (roi(te, rois, region, 2 - d), roi(te, rois, region, 4 - d));
    let scale = like(te, start, scale);
    (te.mul(start, scale), te.mul(end, scale))
}

fn roi_align(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let layout = Layout::plain(cx, "layout", "NC", "HW")?;
    let ratio = cx.int("sample_ratio");
    if ratio < 1 {
        return Err(OpError {
            help: Some("state the number of points along a bin: `sample_ratio=2`".into()),
            ..cx.error(format!(
                "`sample_ratio` is {ratio}: as many points as the regions have pixels, which is not supported"
            ))
        });
    }
    let (data, rois) = (cx.input("data")?, cx.input("rois")?);
    let (shape, of_data, dtype) = (cx.out_shape(0)?, cx.shape_of(data), cx.out_dtype(0)?);
    let (scale, aligned, is_mean) = (cx.float("spatial_scale"), cx.flag("aligned"), cx.text("mode") == "avg");
    let size = pooled_size(cx)?;
    let n = layout.at('N');
    let te = &mut cx.te;
    let regions = shape[n];
    let image = te.compute("roi_image", &[regions], |te, i| image_of(te, rois, i[0], of_data[n]));
    // The points of each region along a dimension, for all channels.
    let points = [0, 1].map(|d| {
        let extents = [regions, te.extent(size[d] * ratio)];
        let extent = of_data[layout.spatial[d]];
        let position = te.compute("roi_position", &extents, |te, i| {
            let (start, end) = bounds(te, rois, i[0], d, scale);
            let mut length = te.sub(end, start);
            if !aligned {
                let one = like(te, length, 1.0);
                length = te.max(length, one);
            }
            let (bins, per_bin) = (like(te, length, size[d] as f64), te.extent(ratio));
            let bin = te.binary(BinOp::Div, length, bins);
            let (index, point) = (te.floor_div(i[1], per_bin), te.floor_mod(i[1], per_bin));
            let (index, point) = (te.cast(dtype, index), te.cast(dtype, point));
            let first = te.mul(index, bin);
            let first = te.add(start, first);
            let (half, points) = (like(te, bin, 0.5), like(te, bin, ratio as f64));
            let center = te.add(point, half);
            let along = te.mul(center, bin);
            let along = te.binary(BinOp::Div, along, points);
            te.add(first, along)
        });
        [0, 1].map(|which| {
            let index = te.compute("roi_index", &extents, |te, i| {
                let position = te.at(position, i);
                border_taps(te, position, extent)[which].index
            });
            let weight = te.compute("roi_weight", &extents, |te, i| {
                let position = te.at(position, i);
                let tap = border_taps(te, position, extent)[which];
                let zero = like(te, position, 0.0);
                let mut weight = tap.weight.unwrap_or(zero);
                if is_mean {
                    let points = like(te, weight, ratio as f64);
                    weight = te.binary(BinOp::Div, weight, points);
                }
                // Points further than one pixel outside of the image count as 0.
                let (low, high) = (like(te, position, -1.0), te.cast(dtype, extent));
                let (before, after) = (te.lt(position, low), te.lt(high, position));
                let outside = te.or(before, after);
                te.select(outside, zero, weight)
            });
            (index, weight)
        })
    });
    // Channels are the last dimension, along which all elements have the same points.
    let last = shape.len() - 1;
    let channel = layout.at('C');
    let is_last = channel == last && layout.spatial == [1, 2] && n == 0;
    let channels_last = |all: &[ExprId]| vec![all[n], all[layout.spatial[0]], all[layout.spatial[1]], all[channel]];
    let pixels = match is_last {
        true => data,
        false => te.compute("roi_channels_last", &channels_last(&of_data), |te, i| {
            let mut at = i.to_vec();
            (at[n], at[layout.spatial[0]], at[layout.spatial[1]], at[channel]) = (i[0], i[1], i[2], i[3]);
            te.at(data, &at)
        }),
    };
    let reducer = if is_mean { Reducer::Sum } else { Reducer::Max };
    let domain = te.extents(&[ratio, ratio]);
    let bins = te.reduce("roi_align", &channels_last(&shape), &domain, reducer, |te, i, k| {
        let taps = [0, 1].map(|d| {
            let first = te.mul_const(i[1 + d], ratio);
            let point = te.add(first, k[d]);
            let tap = |te: &mut Te, (index, weight): (Tensor, Tensor)| Tap {
                index: te.at(index, &[i[0], point]),
                weight: Some(te.at(weight, &[i[0], point])),
            };
            (1 + d, points[d].iter().map(|&table| tap(te, table)).collect::<Vec<_>>())
        });
        let mut at = vec![te.at(image, &[i[0]]), i[1], i[2], i[3]];
        weighted(te, &taps, &mut at, &mut |te, at| te.at(pixels, at))
    });
    if is_last {
        return Ok(vec![bins]);
    }
    Ok(vec![te.compute("roi_layout", &shape, |te, i| te.at(bins, &channels_last(i)))])
}

/// The two elements around a position that is first moved into the extent.
fn border_taps(te: &mut Te, position: ExprId, extent: ExprId) -> Vec<Tap> {
    let (zero, last) = (like(te, position, 0.0), te.add_const(extent, -1));
    let dtype = te.dtype(position);
    let last = te.cast(dtype, last);
    let position = te.max(position, zero);
    let position = te.min(position, last);
    let (index, t) = below(te, position);
    let one = like(te, t, 1.0);
    let rest = te.sub(one, t);
    let next = te.add_const(index, 1);
    // Positions that are no numbers may have any index.
    let (index, next) = (clamped(te, index, extent), clamped(te, next, extent));
    vec![Tap { index, weight: Some(rest) }, Tap { index: next, weight: Some(t) }]
}

fn roi_pool(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let layout = Layout::plain(cx, "layout", "NC", "HW")?;
    let (data, rois) = (cx.input("data")?, cx.input("rois")?);
    let (shape, of_data, dtype) = (cx.out_shape(0)?, cx.shape_of(data), cx.out_dtype(0)?);
    let (scale, size, n) = (cx.float("spatial_scale"), pooled_size(cx)?, layout.at('N'));
    // The first pixel of a bin along a dimension, and the one after its last.
    let bin = |te: &mut Te, i: &[ExprId], d: usize| {
        let (start, end) = bounds(te, rois, i[n], d, scale);
        let rounded = |te: &mut Te, x: ExprId| {
            let half = like(te, x, 0.5);
            let x = te.add(x, half);
            let x = te.call(Intrinsic::Floor, &[x]);
            te.cast(INDEX, x)
        };
        let (start, end) = (rounded(te, start), rounded(te, end));
        let length = te.sub(end, start);
        let (length, one) = (te.add_const(length, 1), te.extent(1));
        let length = te.max(length, one);
        let length = te.cast(dtype, length);
        let bins = like(te, length, size[d] as f64);
        let step = te.binary(BinOp::Div, length, bins);
        let dim = layout.spatial[d];
        let bound = |te: &mut Te, index: ExprId, how: Intrinsic| {
            let index = te.cast(dtype, index);
            let at = te.mul(index, step);
            let at = te.call(how, &[at]);
            let at = te.cast(INDEX, at);
            let at = te.add(at, start);
            let zero = te.extent(0);
            let at = te.max(at, zero);
            te.min(at, of_data[dim])
        };
        let next = te.add_const(i[dim], 1);
        (bound(te, i[dim], Intrinsic::Floor), bound(te, next, Intrinsic::Ceil))
    };
    let te = &mut cx.te;
    let domain = layout.spatial_of(&of_data);
    let most = te.reduce("roi_pool_max", &shape, &domain, Reducer::Max, |te, i, k| {
        let mut at = i.to_vec();
        at[n] = image_of(te, rois, i[n], of_data[n]);
        let mut inside = te.bool(true);
        for (d, &dim) in layout.spatial.iter().enumerate() {
            let (first, end) = bin(te, i, d);
            let (low, high) = (te.compare(CmpOp::Le, first, k[d]), te.lt(k[d], end));
            inside = te.and(inside, low);
            inside = te.and(inside, high);
            at[dim] = k[d];
        }
        let (x, least) = (te.at(data, &at), least(te, dtype));
        te.if_then_else(inside, x, least)
    });
    Ok(vec![te.compute("roi_pool", &shape, |te, i| {
        let mut is_empty = te.bool(false);
        for d in 0..2 {
            let (first, end) = bin(te, i, d);
            let nothing = te.compare(CmpOp::Le, end, first);
            is_empty = te.or(is_empty, nothing);
        }
        let most = te.at(most, i);
        let zero = like(te, most, 0.0);
        te.if_then_else(is_empty, zero, most)
    })])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_have_one_item_for_each_region() {
        let params = r#"x: R.Tensor((2, 8, 9, 3), "float32"), r: R.Tensor(("n", 5), "float32")"#;
        let call = r#"R.vision.roi_align(x, r, (4, 5), 1.0, sample_ratio=2, layout="NHWC")"#;
        assert_eq!(type_of(params, call), "float32 [n, 4, 5, 3]");
    }

    #[test]
    fn mistakes_name_both_shapes() {
        let params = r#"x: R.Tensor((2, 3, 8, 9), "float32"), r: R.Tensor((7, 4), "float32")"#;
        refused(params, "R.vision.roi_pool(x, r, (4, 5), 1.0)", &["R.vision.roi_pool", "[7, 4]", "[2, 3, 8, 9]"]);
        refused(params, r#"R.vision.roi_align(x, r, (4, 5), 1.0, mode="min")"#, &["avg or max", "min"]);
    }

    #[test]
    fn regions_are_averaged_at_points() {
        let x = count(&[1, 1, 4, 4]);
        // The points of a bin of 2 x 2 pixels are half a pixel from its middle.
        let rois = [0.0, 0.0, 0.0, 2.0, 2.0];
        check(
            &[("x", &[1, 1, 4, 4], &x), ("r", &[1, 5], &rois)],
            "R.vision.roi_align(x, r, (1, 1), 1.0, sample_ratio=2)",
            &[5.0],
        );
        check(
            &[("x", &[1, 1, 4, 4], &x), ("r", &[1, 5], &rois)],
            r#"R.vision.roi_align(x, r, (1, 1), 1.0, sample_ratio=2, mode="max")"#,
            &[7.5],
        );
        // All points are outside of the image; the image of the region does not exist.
        let outside = [3.0, 10.0, 10.0, 12.0, 12.0];
        check(
            &[("x", &[1, 1, 4, 4], &x), ("r", &[1, 5], &outside)],
            "R.vision.roi_align(x, r, (1, 1), 1.0, sample_ratio=2)",
            &[0.0],
        );
    }

    #[test]
    fn regions_have_the_largest_pixels() {
        let x = count(&[1, 1, 4, 4]);
        let rois = [0.0, 0.0, 2.0, 6.0, 6.0, 0.0, 20.0, 20.0, 22.0, 22.0];
        check(
            &[("x", &[1, 1, 4, 4], &x), ("r", &[2, 5], &rois)],
            "R.vision.roi_pool(x, r, (1, 2), 0.5)",
            &[13.0, 15.0, 0.0, 0.0],
        );
    }
}
