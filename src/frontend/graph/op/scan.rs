//! Sums and products of all elements up to each.

use super::sort::flattened;
use super::*;
use crate::te::Statements;

const SCAN: &[Param] = &[
    required("data", Kind::Tensor),
    optional("axis", Kind::OptInt, Default::None),
    optional("dtype", Kind::OptDType, Default::None),
    optional("exclusive", Kind::Bool, Default::Bool(false)),
];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "cumprod",
        params: SCAN,
        infer: infer_scan,
        lower: Lowering::Stages(|cx| scan(cx, "cumprod", 1, |te, a, b| te.mul(a, b))),
        doc: "The products of all elements up to each along an axis; without the element itself if `exclusive`.",
    },
    Operator {
        name: "cumsum",
        params: SCAN,
        infer: infer_scan,
        lower: Lowering::Stages(|cx| scan(cx, "cumsum", 0, |te, a, b| te.add(a, b))),
        doc: "The sums of all elements up to each along an axis; without the element itself if `exclusive`.",
    },
];

fn infer_scan(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let data = cx.tensor("data")?;
    let dtype = cx.opt_dtype("dtype").unwrap_or(data.dtype);
    if dtype == DType::Bool {
        return Err(OpError {
            help: Some("name the type of the result by `dtype`".into()),
            ..cx.error("truth values have no sums and products")
        });
    }
    match cx.opt_int("axis") {
        Some(axis) => {
            cx.axis(axis, data.rank())?;
            Ok(Type::tensor(dtype, data.shape))
        }
        None => {
            let n = cx.product(&data.shape);
            Ok(Type::tensor(dtype, vec![n]))
        }
    }
}

/// The combinations of all elements up to each, along an axis.
fn scan(
    cx: &mut Lower<'_>,
    name: &str,
    neutral: i64,
    combine: fn(&mut Te, ExprId, ExprId) -> ExprId,
) -> Result<Vec<Tensor>, OpError> {
    let mut data = cx.input("data")?;
    let (dtype, exclusive) = (cx.out_dtype(0)?, cx.flag("exclusive"));
    let axis = match cx.opt_int("axis") {
        Some(axis) => cx.axis(axis, cx.te.shape(data).len())?,
        None => {
            data = flattened(&mut cx.te, data);
            0
        }
    };
    let shape = cx.shape_of(data);
    let scan = Scan { data, axis, dtype, exclusive, neutral, combine };
    let written = [(name, dtype, &shape[..])];
    let last = shape.len() - 1;
    if axis == last {
        return Ok(cx.te.statements(name, &shape[..last], &written, |s, out, i| scan.along_last(s, out[0], i)));
    }
    let width = row_width(cx.te.as_int(shape[last]));
    let width = width.map_or(shape[last], |width| cx.te.extent(width));
    let mut instances = shape.clone();
    instances[last] = cx.te.floor_div(shape[last], width);
    instances.remove(axis);
    Ok(cx.te.statements(name, &instances, &written, |s, out, i| scan.by_rows(s, out[0], i, width)))
}

/// Elements of a row that one instance combines, which divide the row: wide enough for vectors, few enough for the first cache. Without
/// such a number an instance takes the whole row.
fn row_width(extent: Option<i64>) -> Option<i64> {
    let extent = extent?;
    (64..=1024).rev().find(|width| extent % width == 0)
}

/// What is combined, and how.
struct Scan {
    data: Tensor,
    axis: usize,
    dtype: DType,
    exclusive: bool,
    neutral: i64,
    combine: fn(&mut Te, ExprId, ExprId) -> ExprId,
}

impl Scan {
    /// One element after the other.
    fn along_last(&self, s: &mut Statements<'_>, out: Tensor, i: &[ExprId]) {
        let n = s.shape(self.data)[self.axis];
        let so_far = s.local("so_far", self.dtype, &[]);
        let neutral = s.constant(self.neutral, self.dtype);
        s.set(so_far, &[], neutral);
        s.for_each(&[n], |s, k| {
            let at = with_index(i, self.axis, k[0]);
            self.step(s, out, (so_far, &[]), &at);
        });
    }

    /// One row after the other, so that the elements of a row are combined as vectors. The last index is that of a part of the rows.
    fn by_rows(&self, s: &mut Statements<'_>, out: Tensor, i: &[ExprId], width: ExprId) {
        let n = s.shape(self.data)[self.axis];
        let so_far = s.local("so_far", self.dtype, &[width]);
        let neutral = s.constant(self.neutral, self.dtype);
        s.for_each(&[width], |s, j| s.set(so_far, j, neutral));
        let (&part, outer) = i.split_last().expect("an axis that is not the last leaves the last one");
        let first = s.mul(part, width);
        s.for_each(&[n], |s, k| {
            s.for_each(&[width], |s, j| {
                let mut at = with_index(outer, self.axis, k[0]);
                at.push(s.add(first, j[0]));
                self.step(s, out, (so_far, j), &at);
            });
        });
    }

    fn step(&self, s: &mut Statements<'_>, out: Tensor, (so_far, j): (Tensor, &[ExprId]), at: &[ExprId]) {
        let x = s.at(self.data, at);
        let (x, before) = (s.cast(self.dtype, x), s.at(so_far, j));
        let after = (self.combine)(s, before, x);
        // `before` and `after` are read from `so_far`, so that the result is stored first.
        s.set(out, at, if self.exclusive { before } else { after });
        s.set(so_far, j, after);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, type_of, varied};

    #[test]
    fn shapes_stay_or_are_flattened() {
        let params = r#"x: R.Tensor(("n", 3), "float32"), b: R.Tensor((4,), "bool")"#;
        assert_eq!(type_of(params, "R.cumsum(x, axis=0)"), "float32 [n, 3]");
        assert_eq!(type_of(params, r#"R.cumprod(x, dtype="float64")"#), "float64 [n * 3]");
        refused(params, "R.cumsum(x, axis=2)", &["`R.cumsum`", "axis 2 is outside of the 2 dimensions"]);
        refused(params, "R.cumsum(b)", &["truth values have no sums", "dtype"]);
    }

    #[test]
    fn elements_are_combined_up_to_each() {
        let x = varied(&[3, 4]);
        for exclusive in [false, true] {
            let flag = if exclusive { "True" } else { "False" };
            let (mut sums, mut products) = (vec![0.0; 12], vec![0.0; 12]);
            for row in 0..3 {
                let (mut sum, mut product) = (0.0, 1.0);
                for column in 0..4 {
                    let at = 4 * row + column;
                    if exclusive {
                        (sums[at], products[at]) = (sum, product);
                    }
                    (sum, product) = (sum + x[at], product * x[at]);
                    if !exclusive {
                        (sums[at], products[at]) = (sum, product);
                    }
                }
            }
            check(&[("x", &[3, 4], &x)], &format!("R.cumsum(x, axis=1, exclusive={flag})"), &sums);
            check(&[("x", &[3, 4], &x)], &format!("R.cumprod(x, axis=-1, exclusive={flag})"), &products);
        }
        check(&[("x", &[2, 2], &[1.0, 2.0, 3.0, 4.0])], "R.cumsum(x)", &[1.0, 3.0, 6.0, 10.0]);
    }

    #[test]
    fn rows_are_combined_along_other_axes() {
        // Rows of one part, of several, and of an extent without a good divisor.
        for (outer, n, inner, width) in [(1, 3, 1, 5), (2, 4, 3, 67), (1, 5, 2, 2048), (2, 3, 1, 1031)] {
            let shape = [outer, n, inner, width];
            let x = varied(&shape);
            let [_, n, inner, width] = shape.map(|e| e as usize);
            let step = inner * width;
            for exclusive in [false, true] {
                let mut sums = vec![0.0; x.len()];
                for first in (0..x.len()).filter(|at| at / step % n == 0) {
                    let mut sum = 0.0;
                    for at in (0..n).map(|k| first + k * step) {
                        sums[at] = if exclusive { sum } else { sum + x[at] };
                        sum += x[at];
                    }
                }
                let flag = if exclusive { "True" } else { "False" };
                check(&[("x", &shape, &x)], &format!("R.cumsum(x, axis=1, exclusive={flag})"), &sums);
            }
        }
    }
}
