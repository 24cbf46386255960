//! Images sampled at the points of a grid.

use super::interpolate::{Tap, cubic, index_of, is_inside, linear, weighted};
use super::*;
use crate::graph::infer::Args;
use crate::te::INDEX;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "image.affine_grid",
        params: &[
            required("data", Kind::Tensor),
            required("size", Kind::Shape),
            optional("align_corners", Kind::Bool, Default::Bool(true)),
        ],
        infer: |cx| {
            let (data, size) = (cx.tensor("data")?, cx.shape("size")?);
            expect_float(cx, "data", data.dtype)?;
            cx.expect_rank("data", &data, 3)?;
            let n = size.len();
            let fits = matches!(n, 2 | 3)
                && [(1, n), (2, n + 1)].iter().all(|&(d, e)| cx.known_extent(data.shape[d]) == Some(e as i64));
            if !fits {
                let (data, size) = (cx.extents(&data.shape), cx.extents(&size));
                return cx.fail(format!(
                    "`data` {data} must be matrices of 2 x 3 or 3 x 4, one row for each of `size` {size}"
                ));
            }
            let least = if cx.flag("align_corners") { 2 } else { 1 };
            for &extent in &size {
                match cx.known_extent(extent) {
                    Some(e) if e >= least => {}
                    _ => {
                        let size = cx.extents(&size);
                        return cx.fail(format!("`size` {size} must have constant extents of at least {least}"));
                    }
                }
            }
            let n = cx.extent(n as i64);
            Ok(Type::tensor(data.dtype, [data.shape[0], n].into_iter().chain(size).collect()))
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let (shape, dtype, align) = (cx.out_shape(0)?, cx.out_dtype(0)?, cx.flag("align_corners"));
            let n = shape.len() - 2;
            Ok(vec![cx.te.compute("compute", &shape, |te, i| {
                let element = |te: &mut Te, column: usize| {
                    let column = te.extent(column as i64);
                    te.at(data, &[i[0], i[1], column])
                };
                let mut value = element(te, n);
                for d in 0..n {
                    let extent = te.as_int(shape[2 + d]).unwrap_or(1) as f64;
                    // The step is slightly smaller, so that the last point is not beyond the image.
                    let (start, step) = match align {
                        true => (-1.0, (2.0 - 1e-7) / (extent - 1.0)),
                        false => (-1.0 + 1.0 / extent, 2.0 / extent),
                    };
                    let (start, step) = (te.float(start, dtype), te.float(step, dtype));
                    let x = te.cast(dtype, i[2 + d]);
                    let along = te.mul(x, step);
                    let coordinate = te.add(start, along);
                    let factor = element(te, n - 1 - d);
                    let term = te.mul(factor, coordinate);
                    value = te.add(value, term);
                }
                value
            })])
        }),
        doc: "The points from -1 to 1 of a regular grid, moved by affine maps.",
    },
    Operator {
        name: "image.grid_sample",
        params: &[
            required("data", Kind::Tensor),
            required("grid", Kind::Tensor),
            optional("method", Kind::Str, Default::Str("bilinear")),
            optional("layout", Kind::Str, Default::Str("NCHW")),
            optional("padding_mode", Kind::Str, Default::Str("zeros")),
            optional("align_corners", Kind::Bool, Default::Bool(false)),
        ],
        infer: |cx| {
            Sample::of(cx)?;
            let (data, grid) = (cx.tensor("data")?, cx.tensor("grid")?);
            expect_float(cx, "data", data.dtype)?;
            expect_float(cx, "grid", grid.dtype)?;
            let rank = cx.text("layout").len();
            cx.expect_rank("data", &data, rank)?;
            cx.expect_rank("grid", &grid, rank)?;
            cx.expect_equal(("data", &data, 0), ("grid", &grid, 0))?;
            if cx.known_extent(grid.shape[1]) != Some(rank as i64 - 2) {
                let (data, grid) = (cx.extents(&data.shape), cx.extents(&grid.shape));
                return cx.fail(format!(
                    "`grid` {grid} must have {} coordinates in dimension 1 for `data` {data}",
                    rank - 2
                ));
            }
            let shape = data.shape[..2].iter().chain(&grid.shape[2..]).copied().collect();
            Ok(Type::tensor(data.dtype, shape))
        },
        lower: Lowering::Stages(|cx| {
            let sample = Sample::of(cx)?;
            let (data, grid) = (cx.input("data")?, cx.input("grid")?);
            let (shape, dtype, of_data) = (cx.out_shape(0)?, cx.out_dtype(0)?, cx.shape_of(data));
            let n = shape.len() - 2;
            Ok(vec![cx.te.compute("compute", &shape, |te, i| {
                let mut taps = Vec::with_capacity(n);
                for d in 0..n {
                    // The grid begins with the coordinate of the innermost dimension.
                    let mut at = i.to_vec();
                    at[1] = te.extent((n - 1 - d) as i64);
                    let x = te.at(grid, &at);
                    taps.push((2 + d, sample.taps(te, x, of_data[2 + d])));
                }
                let wide = te.element_type(grid);
                let value = weighted(te, &taps, &mut i.to_vec(), &mut |te, at| {
                    let mut inside = te.bool(true);
                    for d in 2..at.len() {
                        let is_inside = is_inside(te, at[d], of_data[d]);
                        inside = te.and(inside, is_inside);
                    }
                    let x = te.at(data, at);
                    let zero = like(te, x, 0.0);
                    let x = te.if_then_else(inside, x, zero);
                    te.cast(wide, x)
                });
                te.cast(dtype, value)
            })])
        }),
        doc: "The data at the points of a grid, whose coordinates go from -1 to 1.",
    },
];

const METHODS: [&str; 3] = ["bilinear", "nearest", "bicubic"];
const PADDINGS: [&str; 3] = ["zeros", "border", "reflection"];

/// The attributes of a call.
struct Sample {
    method: &'static str,
    padding: &'static str,
    align: bool,
}

impl Sample {
    fn of(args: &Args<'_>) -> Result<Sample, OpError> {
        let one_of = |name: &str, names: &[&str]| match names.contains(&args.text(name)) {
            true => Ok(args.text(name)),
            false => args.fail(format!("`{name}` must be one of {}, found `{}`", names.join(", "), args.text(name))),
        };
        let layout = one_of("layout", &["NCHW", "NCDHW"])?;
        let method = one_of("method", if layout == "NCHW" { &METHODS } else { &METHODS[..2] })?;
        Ok(Sample { method, padding: one_of("padding_mode", &PADDINGS)?, align: args.flag("align_corners") })
    }

    /// The elements that a coordinate takes, along a dimension. Some may lie outside of it.
    fn taps(&self, te: &mut Te, x: ExprId, extent: ExprId) -> Vec<Tap> {
        let position = self.position(te, x, extent);
        match self.method {
            "bicubic" => {
                let mut taps = cubic(te, position, -0.75);
                if self.padding != "zeros" {
                    let dtype = te.dtype(x);
                    for tap in &mut taps {
                        let index = te.cast(dtype, tap.index);
                        let index = self.moved(te, index, extent);
                        tap.index = index_of(te, index);
                    }
                }
                taps
            }
            method => {
                let position = self.moved(te, position, extent);
                if method == "bilinear" {
                    return linear(te, position);
                }
                let nearest = te.call(Intrinsic::NearbyInt, &[position]);
                vec![Tap { index: index_of(te, nearest), weight: None }]
            }
        }
    }

    /// The position in the data of a coordinate from -1 to 1.
    fn position(&self, te: &mut Te, x: ExprId, extent: ExprId) -> ExprId {
        let dtype = te.dtype(x);
        let (one, two, half) = (like(te, x, 1.0), like(te, x, 2.0), like(te, x, -0.5));
        let from_start = te.add(x, one);
        let whole = if self.align { te.add_const(extent, -1) } else { extent };
        let whole = te.cast(dtype, whole);
        let scaled = te.mul(from_start, whole);
        let scaled = te.binary(BinOp::Div, scaled, two);
        if self.align { scaled } else { te.add(half, scaled) }
    }

    /// A position moved into the extent.
    fn moved(&self, te: &mut Te, x: ExprId, extent: ExprId) -> ExprId {
        let x = match self.padding {
            "zeros" => return x,
            "border" => x,
            _ => self.reflected(te, x, extent),
        };
        let (zero, last) = (like(te, x, 0.0), te.add_const(extent, -1));
        let dtype = te.dtype(x);
        let last = te.cast(dtype, last);
        let x = te.max(x, zero);
        te.min(x, last)
    }

    /// A position reflected at the ends, which are the outermost elements or half an element further.
    fn reflected(&self, te: &mut Te, x: ExprId, extent: ExprId) -> ExprId {
        let dtype = te.dtype(x);
        let (corner, size) = if self.align { (0.0, te.add_const(extent, -1)) } else { (-0.5, extent) };
        let one = te.extent(1);
        let size = te.max(size, one);
        let corner = like(te, x, corner);
        let length = te.cast(dtype, size);
        let end = te.add(length, corner);
        let distance = te.sub(corner, x);
        let distance = te.call(Intrinsic::Abs, &[distance]);
        let whole = te.cast(INDEX, distance);
        let times = te.floor_div(whole, size);
        let (two, zero) = (te.extent(2), te.extent(0));
        let odd = te.floor_mod(times, two);
        let is_even = te.compare(CmpOp::Eq, odd, zero);
        let times = te.cast(dtype, times);
        let covered = te.mul(times, length);
        let extra = te.sub(distance, covered);
        let (forth, back) = (te.add(extra, corner), te.sub(length, extra));
        let back = te.add(back, corner);
        let reflected = te.if_then_else(is_even, forth, back);
        let (low, high) = (te.compare(CmpOp::Ge, x, corner), te.compare(CmpOp::Le, x, end));
        let stays = te.and(low, high);
        te.if_then_else(stays, x, reflected)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Input, check, count, refused, type_of};

    #[test]
    fn shapes_are_those_of_the_grid() {
        let params = r#"x: R.Tensor(("n", 3, 5, 6), "float32"), g: R.Tensor(("n", 2, 4, "w"), "float32")"#;
        assert_eq!(type_of(params, "R.image.grid_sample(x, g)"), "float32 [n, 3, 4, w]");
        assert_eq!(
            type_of(r#"x: R.Tensor(("n", 2, 3), "float32")"#, "R.image.affine_grid(x, (4, 5))"),
            "float32 [n, 2, 4, 5]"
        );
    }

    #[test]
    fn mistakes_name_both_shapes() {
        let params = r#"x: R.Tensor((1, 3, 5, 6), "float32"), g: R.Tensor((1, 4, 7, 2), "float32")"#;
        refused(params, "R.image.grid_sample(x, g)", &["R.image.grid_sample", "[1, 4, 7, 2]", "[1, 3, 5, 6]"]);
        refused(params, r#"R.image.grid_sample(x, g, padding_mode="wrap")"#, &["reflection", "wrap"]);
        let params = r#"x: R.Tensor((1, 2, 3), "float32")"#;
        refused(params, "R.image.affine_grid(x, (4, 5, 6))", &["[1, 2, 3]", "[4, 5, 6]"]);
        refused(params, "R.image.affine_grid(x, (4, 1))", &["[4, 1]", "at least 2"]);
    }

    /// Samples a row of four numbers at columns.
    fn sampled(attributes: &str, columns: &[f32], expected: &[f32]) {
        let (x, n) = (count(&[1, 1, 1, 4]), columns.len() as i64);
        let grid: Vec<f32> = columns.iter().copied().chain(columns.iter().map(|_| 0.0)).collect();
        let inputs: [Input<'_>; 2] = [("x", &[1, 1, 1, 4], &x), ("g", &[1, 2, 1, n], &grid)];
        check(&inputs, &format!("R.image.grid_sample(x, g, {attributes})"), expected);
    }

    #[test]
    fn points_may_lie_outside() {
        let columns = [-1.0, 0.0, 1.0, 1.5];
        // Corners of pixels: these are the positions -0.5, 1.5, 3.5, 4.5.
        sampled(r#"padding_mode="zeros""#, &columns, &[0.0, 1.5, 1.5, 0.0]);
        sampled(r#"padding_mode="border""#, &columns, &[0.0, 1.5, 3.0, 3.0]);
        sampled(r#"padding_mode="reflection""#, &columns, &[0.0, 1.5, 3.0, 2.5]);
        // Centres of pixels: 0, 1.5, 3, 3.75.
        sampled(r#"padding_mode="reflection", align_corners=True"#, &columns, &[0.0, 1.5, 3.0, 2.25]);
        sampled(r#"method="nearest", align_corners=True"#, &columns, &[0.0, 2.0, 3.0, 0.0]);
        sampled(r#"method="bicubic", align_corners=True, padding_mode="border""#, &columns[..3], &[0.0, 1.5, 3.0]);
    }

    #[test]
    fn affine_maps_move_points() {
        let maps = [2.0, 0.0, 1.0, 0.0, 1.0, 10.0];
        let (x, y) = ([-1.0, 1.0, 3.0], 10.0);
        let expected = [x[0], x[1], x[2], x[0], x[1], x[2], y - 0.5, y - 0.5, y - 0.5, y + 0.5, y + 0.5, y + 0.5];
        let by_corners = [x[0], x[1], x[2], x[0], x[1], x[2], y - 1.0, y - 1.0, y - 1.0, y + 1.0, y + 1.0, y + 1.0];
        let inner: Vec<f32> =
            expected.iter().enumerate().map(|(i, v)| if i < 6 { (v - 1.0) * 2.0 / 3.0 + 1.0 } else { *v }).collect();
        check(&[("m", &[1, 2, 3], &maps)], "R.image.affine_grid(m, (2, 3))", &by_corners);
        check(&[("m", &[1, 2, 3], &maps)], "R.image.affine_grid(m, (2, 3), align_corners=False)", &inner);
    }
}
