//! Pooling: the maximum or the mean of windows.

use super::conv::{dilated_extent, windows};
use super::layout::{Layout, expect_same_layout, paddings, positive, spatial_letters};
use super::pad::{of_type, padded};
use super::*;
use crate::graph::infer::Args;
use crate::ir::AttrValue;
use crate::te::{Reducer, least};

/// Pooling over windows of some dimensions, with its default layout.
macro_rules! pooling {
    ($name:literal, $ones:expr, $zeros:expr, $include:literal, $layout:literal, $stages:expr, $doc:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                optional("pool_size", Kind::Ints, Default::Ints(&$ones)),
                optional("strides", Kind::Ints, Default::Ints(&$ones)),
                optional("padding", Kind::Ints, Default::Ints(&$zeros)),
                optional("dilation", Kind::Ints, Default::Ints(&$ones)),
                optional("ceil_mode", Kind::Bool, Default::Bool(false)),
                optional("count_include_pad", Kind::Bool, Default::Bool($include)),
                optional("layout", Kind::Str, Default::Str($layout)),
                optional("out_layout", Kind::OptStr, Default::None),
            ],
            infer: result,
            lower: Lowering::Stages($stages),
            doc: $doc,
        }
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    pooling!("nn.max_pool1d", [1], [0, 0], false, "NCW", max, "The largest element of each window of rows."),
    pooling!(
        "nn.max_pool2d",
        [1, 1],
        [0, 0, 0, 0],
        false,
        "NCHW",
        max,
        "The largest element of each window of images."
    ),
    pooling!(
        "nn.max_pool3d",
        [1, 1, 1],
        [0, 0, 0, 0, 0, 0],
        false,
        "NCDHW",
        max,
        "The largest element of each window of volumes."
    ),
    pooling!("nn.avg_pool1d", [1], [0, 0], true, "NCW", avg, "The mean of each window of rows."),
    pooling!("nn.avg_pool2d", [1, 1], [0, 0, 0, 0], false, "NCHW", avg, "The mean of each window of images."),
    pooling!("nn.avg_pool3d", [1, 1, 1], [0, 0, 0, 0, 0, 0], true, "NCDHW", avg, "The mean of each window of volumes."),
];

/// The windows of a call.
pub(super) struct Windows {
    pub layout: Layout,
    pub size: Vec<i64>,
    pub strides: Vec<i64>,
    pub before: Vec<i64>,
    /// Without what `ceil_mode` adds.
    pub after: Vec<i64>,
    pub dilation: Vec<i64>,
    pub ceil_mode: bool,
    pub include_pad: bool,
}

impl Windows {
    /// Those of a call.
    pub(super) fn of(args: &Args<'_>) -> Result<Windows, OpError> {
        let letters = spatial_letters(args);
        let layout = Layout::blocked(args, "layout", "NC", letters)?;
        expect_same_layout(args, &layout)?;
        let n = letters.len();
        let (before, after) = paddings(args, n)?;
        Ok(Windows {
            layout,
            size: positive(args, "pool_size", n)?,
            strides: positive(args, "strides", n)?,
            before,
            after,
            dilation: positive(args, "dilation", n)?,
            ceil_mode: args.flag("ceil_mode"),
            include_pad: args.flag("count_include_pad"),
        })
    }

    /// The number of spatial dimensions.
    pub(super) fn n(&self) -> usize {
        self.size.len()
    }

    /// What is added after a dimension so that the last window, which may be incomplete, has its elements.
    pub(super) fn rounding(&self, d: usize) -> i64 {
        if self.ceil_mode { self.strides[d] - 1 } else { 0 }
    }

    /// The shape of the results of windows over a tensor.
    pub(super) fn shape(&self, cx: &mut Infer<'_>, data: &Known) -> Result<Vec<ExprId>, OpError> {
        cx.expect_rank("data", data, self.layout.rank())?;
        let mut shape = data.shape.clone();
        for (d, &dim) in self.layout.spatial.iter().enumerate() {
            let whole = cx.arena.add_const(shape[dim], self.before[d] + self.after[d] + self.rounding(d));
            let before_end = cx.arena.add_const(shape[dim], self.before[d]);
            let size = cx.extent(self.size[d]);
            let window = dilated_extent(cx.arena, size, self.dilation[d]);
            shape[dim] = windows(cx, whole, window, self.strides[d]);
            // With `ceil_mode` the last window may begin after the data; then it does not count.
            if self.ceil_mode && self.after[d] + self.rounding(d) > (self.size[d] - 1) * self.dilation[d] {
                let last = cx.arena.add_const(before_end, -1);
                let stride = cx.extent(self.strides[d]);
                let most = cx.arena.floor_div(last, stride);
                let most = cx.arena.add_const(most, 1);
                let n = cx.arena.min(shape[dim], most);
                shape[dim] = cx.simplified(n);
            }
            if cx.known_extent(shape[dim]).is_some_and(|n| n < 1) {
                let (of_data, size) = (cx.extents(&data.shape), &self.size);
                return cx.fail(format!("windows of {size:?} are larger than the padded `data` {of_data}"));
            }
        }
        Ok(shape)
    }

    /// The data with a value around it; the data itself if nothing is added.
    pub(super) fn padded(&self, te: &mut Te, data: Tensor, value: ExprId) -> Tensor {
        let (mut before, mut after) = (vec![0; self.layout.rank()], vec![0; self.layout.rank()]);
        for (d, &dim) in self.layout.spatial.iter().enumerate() {
            (before[dim], after[dim]) = (self.before[d], self.after[d] + self.rounding(d));
        }
        match before.iter().chain(&after).all(|&width| width == 0) {
            true => data,
            false => padded(te, "pad_temp", data, &before, &after, value),
        }
    }

    /// The extents of a window.
    pub(super) fn domain(&self, te: &mut Te) -> Vec<ExprId> {
        te.extents(&self.size)
    }

    /// The indices in the padded data of an element of the window at the indices `i`.
    pub(super) fn element(&self, te: &mut Te, i: &[ExprId], k: &[ExprId]) -> Vec<ExprId> {
        let mut at = i.to_vec();
        for (d, &dim) in self.layout.spatial.iter().enumerate() {
            let first = te.mul_const(i[dim], self.strides[d]);
            let step = te.mul_const(k[d], self.dilation[d]);
            at[dim] = te.add(first, step);
        }
        at
    }

    /// The number of elements of the window at the index `i` of a dimension that count for its mean: those of the data, and those
    /// of the padding if it is included, but none that rounding added.
    fn count(&self, te: &mut Te, d: usize, i: ExprId, extent: ExprId) -> ExprId {
        let (size, dilation) = (self.size[d], self.dilation[d]);
        let scaled = te.mul_const(i, self.strides[d]);
        let mut first = te.add_const(scaled, -self.before[d]);
        let last = te.add_const(first, (size - 1) * dilation);
        let end = te.add_const(extent, if self.include_pad { self.after[d] - 1 } else { -1 });
        let last = te.min(last, end);
        if !self.include_pad {
            let zero = te.extent(0);
            first = match dilation {
                1 => te.max(first, zero),
                // The first element that lies in the data is some steps further.
                _ => {
                    let remainder = te.extent(dilation);
                    let inside = te.floor_mod(first, remainder);
                    let is_before = te.lt(first, zero);
                    te.select(is_before, inside, first)
                }
            };
        }
        let reach = te.sub(last, first);
        let distance = te.extent(dilation);
        let steps = te.floor_div(reach, distance);
        te.add_const(steps, 1)
    }

    /// The number of elements of the window at the indices `i` that count for its mean, as a number of a type.
    pub(super) fn divisor(&self, te: &mut Te, i: &[ExprId], of_data: &[ExprId], dtype: DType) -> ExprId {
        let always = (0..self.n()).all(|d| {
            let padding = if self.include_pad { 0 } else { self.before[d] + self.after[d] };
            padding + self.rounding(d) == 0
        });
        // Where elements are simplified, the formula is TVM's in all cases.
        if always && !te.simplifies() {
            return of_type(te, self.size.iter().product::<i64>() as f64, dtype);
        }
        let one = te.extent(1);
        let mut n = one;
        for (d, &dim) in self.layout.spatial.iter().enumerate() {
            let count = self.count(te, d, i[dim], of_data[dim]);
            n = te.mul(n, count);
        }
        let n = if self.include_pad && te.simplifies() { n } else { te.max(n, one) };
        te.cast(dtype, n)
    }
}

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let windows = Windows::of(cx)?;
    let data = cx.tensor("data")?;
    let shape = windows.shape(cx, &data)?;
    Ok(Type::tensor(data.dtype, shape))
}

fn max(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let windows = Windows::of(cx)?;
    let data = cx.input("data")?;
    let shape = cx.out_shape(0)?;
    let te = &mut cx.te;
    let least = least(te, te.element_type(data));
    let data = windows.padded(te, data, least);
    let domain = windows.domain(te);
    let max = te.reduce("pool_max", &shape, &domain, Reducer::Max, |te, i, k| {
        let at = windows.element(te, i, k);
        te.at(data, &at)
    });
    te.annotate(max, "schedule_rule", AttrValue::Str("meta_schedule.pool_max".into()));
    Ok(vec![max])
}

fn avg(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let windows = Windows::of(cx)?;
    let data = cx.input("data")?;
    let (shape, of_data) = (cx.out_shape(0)?, cx.shape_of(data));
    let te = &mut cx.te;
    let dtype = te.element_type(data);
    let zero = of_type(te, 0.0, dtype);
    let data = windows.padded(te, data, zero);
    let domain = windows.domain(te);
    let sum = te.reduce("pool_sum", &shape, &domain, Reducer::Sum, |te, i, k| {
        let at = windows.element(te, i, k);
        te.at(data, &at)
    });
    let avg = te.compute("pool_avg", &shape, |te, i| {
        let (sum, n) = (te.at(sum, i), windows.divisor(te, i, &of_data, dtype));
        te.binary(BinOp::Div, sum, n)
    });
    te.annotate(avg, "schedule_rule", AttrValue::Str("meta_schedule.pool_avg".into()));
    Ok(vec![avg])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_follow_windows_and_may_be_symbols() {
        let params = r#"x: R.Tensor(("n", 3, 8, 9), "float32")"#;
        let pooled =
            |attributes: &str| type_of(params, &format!("R.nn.max_pool2d(x, pool_size=3, strides=2, {attributes})"));
        assert_eq!(pooled("padding=0"), "float32 [n, 3, 3, 4]");
        assert_eq!(pooled("ceil_mode=True"), "float32 [n, 3, 4, 4]");
        let call = "R.nn.max_pool2d(x, pool_size=2, strides=2, padding=1, ceil_mode=True)";
        assert_eq!(type_of(params, call), "float32 [n, 3, 5, 5]", "no window begins after the data");
        let blocked = r#"x: R.Tensor((1, 2, 8, 8, 4), "float32")"#;
        let call = r#"R.nn.avg_pool2d(x, pool_size=2, strides=2, layout="NCHW4c")"#;
        assert_eq!(type_of(blocked, call), "float32 [1, 2, 4, 4, 4]");
    }

    #[test]
    fn mistakes_name_the_shape() {
        let params = r#"x: R.Tensor((1, 3, 4), "float32")"#;
        refused(params, "R.nn.max_pool1d(x, pool_size=5)", &["R.nn.max_pool1d", "[5]", "[1, 3, 4]"]);
        refused(params, "R.nn.max_pool1d(x, pool_size=2, strides=0)", &["`strides` must be positive"]);
        refused(params, "R.nn.max_pool2d(x)", &["must have 4 dimensions", "[1, 3, 4]"]);
    }

    #[test]
    fn maxima_ignore_the_padding() {
        let x = [-5.0, -4.0, -7.0, -2.0, -9.0];
        check(&[("x", &[1, 1, 5], &x)], "R.nn.max_pool1d(x, pool_size=3, strides=2, padding=1)", &[-4.0, -2.0, -2.0]);
        check(&[("x", &[1, 1, 5], &x)], "R.nn.max_pool1d(x, pool_size=2, dilation=3)", &[-2.0, -4.0]);
    }

    #[test]
    fn means_count_what_is_asked_for() {
        let x = count(&[1, 1, 6]);
        let pooled = |attributes: &str, expected: &[f32]| {
            let call = format!("R.nn.avg_pool1d(x, pool_size=3, strides=2, padding=1, {attributes})");
            check(&[("x", &[1, 1, 6], &x)], &call, expected);
        };
        pooled("count_include_pad=True", &[1.0 / 3.0, 2.0, 4.0]);
        pooled("count_include_pad=False", &[0.5, 2.0, 4.0]);
        // The last window begins with the last element.
        pooled("count_include_pad=False, ceil_mode=True", &[0.5, 2.0, 4.0, 5.0]);
        pooled("count_include_pad=True, ceil_mode=True", &[1.0 / 3.0, 2.0, 4.0, 2.5]);
    }

    #[test]
    fn dilated_means_count_elements_of_the_data() {
        let x = count(&[1, 1, 5]);
        let call = "R.nn.avg_pool1d(x, pool_size=2, padding=2, dilation=3, count_include_pad=False)";
        // Windows {-2, 1}, {-1, 2}, {0, 3}, {1, 4}, {2, 5}, {3, 6}.
        check(&[("x", &[1, 1, 5], &x)], call, &[1.0, 2.0, 1.5, 2.5, 2.0, 3.0]);
    }
}
