//! Pooling to a number of windows, which cover the data.

use super::layout::{Layout, expect_same_layout, positive, spatial_letters};
use super::pad::of_type;
use super::*;
use crate::graph::infer::Args;
use crate::ir::AttrValue;
use crate::te::Reducer;

/// Means of windows of some dimensions, with the default layout.
macro_rules! adaptive {
    ($name:literal, $layout:literal, $doc:literal) => {
        Operator {
            name: $name,
            params: &[
                required("data", Kind::Tensor),
                optional("output_size", Kind::OptInts, Default::None),
                optional("layout", Kind::Str, Default::Str($layout)),
                optional("out_layout", Kind::OptStr, Default::None),
            ],
            infer: result,
            lower: Lowering::Stages(stages),
            doc: $doc,
        }
    };
}

pub(super) static OPERATORS: &[Operator] = &[
    adaptive!("nn.adaptive_avg_pool1d", "NCW", "The means of so many windows, which cover a row."),
    adaptive!("nn.adaptive_avg_pool2d", "NCHW", "The means of so many windows, which cover an image."),
    adaptive!("nn.adaptive_avg_pool3d", "NCDHW", "The means of so many windows, which cover a volume."),
];

/// The layout and the number of windows of each spatial dimension; `None` stands for that of the data.
fn sizes(args: &Args<'_>) -> Result<(Layout, Vec<Option<i64>>), OpError> {
    let letters = spatial_letters(args);
    let layout = Layout::blocked(args, "layout", "NC", letters)?;
    expect_same_layout(args, &layout)?;
    let sizes = match args.opt_ints("output_size") {
        Some(_) => positive(args, "output_size", letters.len())?.into_iter().map(Some).collect(),
        None => vec![None; letters.len()],
    };
    Ok((layout, sizes))
}

fn result(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let (layout, sizes) = sizes(cx)?;
    let data = cx.tensor("data")?;
    cx.expect_rank("data", &data, layout.rank())?;
    let mut shape = data.shape.clone();
    for (&dim, size) in layout.spatial.iter().zip(sizes) {
        if let Some(size) = size {
            shape[dim] = cx.extent(size);
        }
    }
    Ok(Type::tensor(data.dtype, shape))
}

/// Window `i` of `n` over an extent `e` reaches from `i * e / n`, rounded down, to `(i + 1) * e / n`, rounded up.
struct Covering {
    /// The extent of every window, if all are equal.
    equal: Option<ExprId>,
    /// The extent of the largest window.
    largest: ExprId,
    extent: ExprId,
    n: ExprId,
}

impl Covering {
    fn of(te: &mut Te, extent: ExprId, n: ExprId) -> Covering {
        let (equal, largest) = match (te.as_int(extent), te.as_int(n)) {
            _ if extent == n => (Some(te.extent(1)), te.extent(1)),
            (_, Some(1)) => (Some(extent), extent),
            (Some(e), Some(n)) if e % n == 0 => (Some(te.extent(e / n)), te.extent(e / n)),
            (Some(e), Some(n)) => {
                let largest = (0..n).map(|i| ((i + 1) * e + n - 1) / n - i * e / n).max().unwrap_or(1);
                (None, te.extent(largest))
            }
            _ => {
                let part = te.floor_div(extent, n);
                (None, te.add_const(part, 2))
            }
        };
        Covering { equal, largest, extent, n }
    }

    fn first(&self, te: &mut Te, i: ExprId) -> ExprId {
        match self.equal {
            Some(size) => te.mul(i, size),
            None => {
                let scaled = te.mul(i, self.extent);
                te.floor_div(scaled, self.n)
            }
        }
    }

    fn size(&self, te: &mut Te, i: ExprId) -> ExprId {
        if let Some(size) = self.equal {
            return size;
        }
        let next = te.add_const(i, 1);
        let scaled = te.mul(next, self.extent);
        let last = te.add_const(self.n, -1);
        let rounded = te.add(scaled, last);
        let end = te.floor_div(rounded, self.n);
        let first = self.first(te, i);
        te.sub(end, first)
    }
}

fn stages(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (layout, _) = sizes(cx)?;
    let data = cx.input("data")?;
    let (shape, of_data) = (cx.out_shape(0)?, cx.shape_of(data));
    let te = &mut cx.te;
    let dtype = te.element_type(data);
    let covering: Vec<Covering> = layout.spatial.iter().map(|&d| Covering::of(te, of_data[d], shape[d])).collect();
    let domain: Vec<ExprId> = covering.iter().map(|c| c.largest).collect();
    let sum = te.reduce("adaptive_pool_sum", &shape, &domain, Reducer::Sum, |te, i, k| {
        let mut at = i.to_vec();
        let mut inside = te.bool(true);
        for (d, &dim) in layout.spatial.iter().enumerate() {
            let first = covering[d].first(te, i[dim]);
            at[dim] = te.add(first, k[d]);
            if covering[d].equal.is_none() {
                let size = covering[d].size(te, i[dim]);
                let is_inside = te.lt(k[d], size);
                inside = te.and(inside, is_inside);
            }
        }
        let (x, zero) = (te.at(data, &at), of_type(te, 0.0, dtype));
        te.if_then_else(inside, x, zero)
    });
    let avg = te.compute("adaptive_pool_avg", &shape, |te, i| {
        let mut n = te.constant(1, dtype);
        for (d, &dim) in layout.spatial.iter().enumerate() {
            let size = covering[d].size(te, i[dim]);
            let size = te.cast(dtype, size);
            n = te.mul(n, size);
        }
        let sum = te.at(sum, i);
        te.binary(BinOp::Div, sum, n)
    });
    te.annotate(avg, "schedule_rule", AttrValue::Str("meta_schedule.adaptive_pool_avg".into()));
    Ok(vec![avg])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_have_so_many_windows() {
        let params = r#"x: R.Tensor(("n", 3, 8, "w"), "float32")"#;
        assert_eq!(type_of(params, "R.nn.adaptive_avg_pool2d(x, (1, 2))"), "float32 [n, 3, 1, 2]");
        assert_eq!(type_of(params, "R.nn.adaptive_avg_pool2d(x, 4)"), "float32 [n, 3, 4, 4]");
        refused(params, "R.nn.adaptive_avg_pool1d(x, 2)", &["must have 3 dimensions", "[n, 3, 8, w]"]);
        refused(params, "R.nn.adaptive_avg_pool2d(x, 0)", &["`output_size` must be positive"]);
    }

    #[test]
    fn windows_cover_all() {
        let x = count(&[1, 1, 5]);
        check(&[("x", &[1, 1, 5], &x)], "R.nn.adaptive_avg_pool1d(x, 3)", &[0.5, 2.0, 3.5]);
        check(&[("x", &[1, 1, 5], &x)], "R.nn.adaptive_avg_pool1d(x, 1)", &[2.0]);
        check(&[("x", &[1, 1, 5], &x)], "R.nn.adaptive_avg_pool1d(x)", &x);
        let x = count(&[1, 1, 2]);
        check(&[("x", &[1, 1, 2], &x)], "R.nn.adaptive_avg_pool1d(x, 3)", &[0.0, 0.5, 1.0]);
    }
}
