//! Sorting, and searching what is sorted.
//!
//! Runs of 1, 2, 4, … elements are merged, so that the time grows with n log n, and equal elements keep their order.

use super::*;
use super::{heap, rank};

/// Of at least so many times as many elements, the first ones are found without sorting all.
const FEW: i64 = 4;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "argsort",
        params: &[
            required("data", Kind::Tensor),
            optional("axis", Kind::Int, Default::Int(-1)),
            optional("descending", Kind::Bool, Default::Bool(false)),
            optional("dtype", Kind::DType, Default::Str("int32")),
        ],
        infer: |cx| {
            let data = along_axis(cx, "data")?;
            Ok(Type::tensor(index_type(cx)?, data.shape))
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let axis = cx.axis(cx.int("axis"), cx.te.shape(data).len())?;
            let (descending, dtype) = (cx.flag("descending"), cx.out_dtype(0)?);
            Ok(vec![argsort(&mut cx.te, data, axis, descending, dtype)])
        }),
        doc: "The indices of the elements along an axis in ascending or descending order; of equal elements, in their order.",
    },
    Operator {
        name: "bucketize",
        params: &[
            required("input_tensor", Kind::Tensor),
            required("boundaries", Kind::Tensor),
            optional("out_int32", Kind::Bool, Default::Bool(false)),
            optional("right", Kind::Bool, Default::Bool(false)),
        ],
        infer: |cx| {
            let (x, boundaries) = (cx.tensor("input_tensor")?, cx.tensor("boundaries")?);
            cx.expect_rank("boundaries", &boundaries, 1)?;
            expect_same_type(cx, ("input_tensor", x.dtype), ("boundaries", boundaries.dtype))?;
            let dtype = if cx.flag("out_int32") { DType::Int32 } else { DType::Int64 };
            Ok(Type::tensor(dtype, x.shape))
        },
        lower: Lowering::Stages(bucketize),
        doc: "The number of ascending boundaries that are smaller than the element, or with `right` not larger.",
    },
    Operator {
        name: "median",
        params: &[
            required("data", Kind::Tensor),
            optional("axis", Kind::OptInts, Default::None),
            optional("keepdims", Kind::Bool, Default::Bool(false)),
        ],
        infer: |cx| {
            let data = cx.tensor("data")?;
            let (one, keep) = (cx.extent(1), cx.flag("keepdims"));
            let Some(axes) = cx.opt_ints("axis") else {
                let rank = if keep { data.rank() } else { 0 };
                return Ok(Type::tensor(data.dtype, vec![one; rank]));
            };
            let &[axis] = &axes[..] else {
                return cx.fail(format!("takes one axis or none, found {}", axes.len()));
            };
            let axis = cx.axis(axis, data.rank())?;
            let mut shape = data.shape.clone();
            shape[axis] = one;
            if !keep {
                shape.remove(axis);
            }
            Ok(Type::Tuple(vec![Type::tensor(data.dtype, shape.clone()), Type::tensor(DType::Int64, shape)]))
        },
        lower: Lowering::Stages(|cx| {
            let mut data = cx.input("data")?;
            let axis = match cx.opt_ints("axis") {
                Some(axes) => Some(cx.axis(axes.first().copied().unwrap_or(0), cx.te.shape(data).len())?),
                None => {
                    data = flattened(&mut cx.te, data);
                    None
                }
            };
            let shape = cx.out_shape(0)?;
            let (along, keep) = (axis.unwrap_or(0), cx.flag("keepdims"));
            let order = argsort(&mut cx.te, data, along, false, DType::Int64);
            let last = cx.te.shape(data)[along];
            let index = |te: &mut Te, i: &[ExprId]| {
                let (last, two) = (te.add_const(last, -1), te.extent(2));
                let middle = te.floor_div(last, two);
                match axis {
                    None => vec![middle],
                    Some(axis) if keep => {
                        let mut at = i.to_vec();
                        at[axis] = middle;
                        at
                    }
                    Some(axis) => with_index(i, axis, middle),
                }
            };
            let value = cx.te.compute("T_gather", &shape, |te, i| {
                let mut at = index(te, i);
                at[along] = te.at(order, &at);
                te.at(data, &at)
            });
            if axis.is_none() {
                return Ok(vec![value]);
            }
            let position = cx.te.compute("T_gather", &shape, |te, i| {
                let at = index(te, i);
                te.at(order, &at)
            });
            Ok(vec![value, position])
        }),
        doc: "The lower middle element of all, or along an axis together with its index.",
    },
    Operator {
        name: "sort",
        params: &[
            required("x", Kind::Tensor),
            optional("axis", Kind::Int, Default::Int(-1)),
            optional("descending", Kind::Bool, Default::Bool(false)),
        ],
        infer: |cx| Ok(along_axis(cx, "x")?.into()),
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let shape = cx.shape_of(x);
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            let descending = cx.flag("descending");
            let order = argsort(&mut cx.te, x, axis, descending, DType::Int64);
            Ok(vec![gathered(&mut cx.te, x, order, axis, &shape)])
        }),
        doc: "The elements along an axis in ascending or descending order.",
    },
    Operator {
        name: "topk",
        params: &[
            required("data", Kind::Tensor),
            optional("k", Kind::Int, Default::Int(1)),
            optional("axis", Kind::Int, Default::Int(-1)),
            optional("ret_type", Kind::Str, Default::Str("both")),
            optional("largest", Kind::Bool, Default::Bool(true)),
            optional("dtype", Kind::DType, Default::Str("int32")),
        ],
        infer: |cx| {
            let data = along_axis(cx, "data")?;
            let dtype = index_type(cx)?;
            let axis = cx.axis(cx.int("axis"), data.rank())?;
            let (mut shape, k) = (data.shape.clone(), cx.int("k"));
            if k >= 1 {
                if let Some(n) = cx.known_extent(shape[axis])
                    && k > n
                {
                    let shape = cx.extents(&shape);
                    return cx.fail(format!("axis {axis} of {shape} has fewer than {k} elements"));
                }
                shape[axis] = cx.extent(k);
            }
            let (values, indices) = (Type::tensor(data.dtype, shape.clone()), Type::tensor(dtype, shape));
            match cx.text("ret_type") {
                "both" => Ok(Type::Tuple(vec![values, indices])),
                "values" => Ok(values),
                "indices" => Ok(indices),
                other => cx.fail(format!("`ret_type` must be both, values or indices, found `{other}`")),
            }
        },
        lower: Lowering::Stages(|cx| {
            let data = cx.input("data")?;
            let shape = cx.out_shape(0)?;
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            let largest = cx.flag("largest");
            let kept = cx.te.as_int(shape[axis]);
            let order = first_of(&mut cx.te, data, axis, kept, largest);
            let what = cx.text("ret_type");
            let dtype = cx.out_dtype(cx.n_results() - 1)?;
            let mut results = Vec::new();
            if what != "indices" {
                results.push(gathered(&mut cx.te, data, order, axis, &shape));
            }
            if what != "values" {
                results.push(cx.te.compute("T_indices", &shape, |te, i| {
                    let index = te.at(order, i);
                    te.cast(dtype, index)
                }));
            }
            Ok(results)
        }),
        doc: "The k largest or smallest elements along an axis in order, their indices, or both; all for k = 0.",
    },
];

fn along_axis(cx: &mut Infer<'_>, name: &str) -> Result<Known, OpError> {
    let data = cx.tensor(name)?;
    cx.axis(cx.int("axis"), data.rank())?;
    Ok(data)
}

/// The type of indices in the result.
fn index_type(cx: &Infer<'_>) -> Result<DType, OpError> {
    match cx.opt_dtype("dtype") {
        Some(dtype) if dtype.is_integer() || dtype.is_float() => Ok(dtype),
        _ => cx.fail(format!("`dtype` must be a type of numbers, found `{}`", cx.text("dtype"))),
    }
}

/// The first elements of a tensor in an order along an axis.
fn gathered(te: &mut Te, x: Tensor, order: Tensor, axis: usize, shape: &[ExprId]) -> Tensor {
    te.compute("T_gather", shape, |te, i| {
        let mut at = i.to_vec();
        at[axis] = te.at(order, i);
        te.at(x, &at)
    })
}

/// The indices of at least the first `k` elements along an axis in order; of all if `k` is unknown.
fn first_of(te: &mut Te, x: Tensor, axis: usize, k: Option<i64>, largest: bool) -> Tensor {
    let n = te.shape(x)[axis];
    if let (Some(k), Some(n)) = (k, te.as_int(n))
        && k >= 1
        && (k <= n / FEW || n <= rank::SHORT)
    {
        if let Some(order) = rank::first_in_order(te, x, axis, k, largest, DType::Int64) {
            return order;
        }
        if k <= n / FEW {
            return heap::first_in_order(te, x, axis, k, largest, DType::Int64);
        }
    }
    argsort(te, x, axis, largest, DType::Int64)
}

/// The indices of the elements along an axis in order, by merging runs of 1, 2, 4, … of them. Equal elements keep their order.
pub(super) fn argsort(te: &mut Te, x: Tensor, axis: usize, descending: bool, dtype: DType) -> Tensor {
    let shape = te.shape(x).to_vec();
    let n = shape[axis];
    let mut rest = shape.clone();
    rest.remove(axis);
    let is_before = if descending { CmpOp::Gt } else { CmpOp::Lt };
    let index = crate::te::INDEX;
    let written = [("argsort", dtype, &shape[..])];
    let sorted = te.statements("argsort", &rest, &written, |s, out, i| {
        let (order, merged) = (s.local("order", index, &[n]), s.local("merged", index, &[n]));
        let (zero, one) = (s.extent(0), s.extent(1));
        s.for_each(&[n], |s, k| s.set(order, k, k[0]));
        let width = s.counter("width", one);
        let (left, right) = (s.counter("left", zero), s.counter("right", zero));
        let run = s.at(width, &[]);
        let is_unsorted = s.lt(run, n);
        s.while_(is_unsorted, |s| {
            s.for_each(&[n], |s, k| {
                let two_runs = s.mul_const(run, 2);
                // A run has a power of 2 elements.
                let mask = s.add_const(two_runs, -1);
                let offset = s.call(Intrinsic::BitAnd, &[k[0], mask]);
                let start = s.sub(k[0], offset);
                let (middle, end) = (s.add(start, run), s.add(start, two_runs));
                let (middle, end) = (s.min(middle, n), s.min(end, n));
                let is_first = s.compare(CmpOp::Eq, offset, zero);
                s.if_(is_first, |s| {
                    s.set(left, &[], k[0]);
                    s.set(right, &[], middle);
                });
                let (l, r) = (s.at(left, &[]), s.at(right, &[]));
                let (from_left, from_right) = (s.at(order, &[l]), s.at(order, &[r]));
                let (a, b) = (s.at(x, &with_index(i, axis, from_left)), s.at(x, &with_index(i, axis, from_right)));
                let (has_left, has_no_right) = (s.lt(l, middle), s.compare(CmpOp::Ge, r, end));
                let right_is_before = s.compare(is_before, b, a);
                let left_is_next = s.not(right_is_before);
                // Not by `and` and `or`: TVM evaluates both their sides, and the runs have ends.
                let (yes, no) = (s.bool(true), s.bool(false));
                let takes = s.if_then_else(has_no_right, yes, left_is_next);
                let takes_left = s.if_then_else(has_left, takes, no);
                s.if_else(
                    takes_left,
                    |s| {
                        s.set(merged, k, from_left);
                        let next = s.add_const(l, 1);
                        s.set(left, &[], next);
                    },
                    |s| {
                        s.set(merged, k, from_right);
                        let next = s.add_const(r, 1);
                        s.set(right, &[], next);
                    },
                );
            });
            s.for_each(&[n], |s, k| {
                let next = s.at(merged, k);
                s.set(order, k, next);
            });
            let doubled = s.mul_const(run, 2);
            s.set(width, &[], doubled);
        });
        s.for_each(&[n], |s, k| {
            let found = s.at(order, k);
            let found = s.cast(dtype, found);
            s.set(out[0], &with_index(i, axis, k[0]), found);
        });
    });
    sorted[0]
}

/// A tensor with all its elements in one dimension.
pub(super) fn flattened(te: &mut Te, x: Tensor) -> Tensor {
    let shape = te.shape(x).to_vec();
    if shape.len() == 1 {
        return x;
    }
    let mut n = te.extent(1);
    for e in shape {
        n = te.mul(n, e);
    }
    te.reshaped("T_reshape", x, &[n])
}

/// A binary search for each element.
fn bucketize(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (x, boundaries) = (cx.input("input_tensor")?, cx.input("boundaries")?);
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let n = cx.shape_of(boundaries)[0];
    let passes = if cx.flag("right") { CmpOp::Le } else { CmpOp::Lt };
    let written = [("searchsorted", dtype, &shape[..])];
    Ok(cx.te.statements("searchsorted", &shape, &written, |s, out, i| {
        let zero = s.extent(0);
        let (low, high) = (s.counter("low", zero), s.counter("high", n));
        let (from, to) = (s.at(low, &[]), s.at(high, &[]));
        let is_open = s.lt(from, to);
        s.while_(is_open, |s| {
            let sum = s.add(from, to);
            let two = s.extent(2);
            let middle = s.floor_div(sum, two);
            let (boundary, x) = (s.at(boundaries, &[middle]), s.at(x, i));
            let is_behind = s.compare(passes, boundary, x);
            s.if_else(
                is_behind,
                |s| {
                    let next = s.add_const(middle, 1);
                    s.set(low, &[], next);
                },
                |s| s.set(high, &[], middle),
            );
        });
        let found = s.cast(dtype, from);
        s.set(out[0], i, found);
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, results, type_of, varied};

    #[test]
    fn shapes_may_be_symbols() {
        let params = r#"x: R.Tensor(("n", 5), "float32")"#;
        assert_eq!(type_of(params, "R.sort(x, axis=0)"), "float32 [n, 5]");
        assert_eq!(type_of(params, r#"R.argsort(x, dtype="int64")"#), "int64 [n, 5]");
        assert_eq!(type_of(params, "R.topk(x, k=2)"), "(float32 [n, 2], int32 [n, 2])");
        assert_eq!(type_of(params, r#"R.topk(x, k=0, ret_type="indices")"#), "int32 [n, 5]");
        assert_eq!(type_of(params, "R.median(x)"), "float32 []");
        assert_eq!(type_of(params, "R.median(x, axis=[1], keepdims=True)"), "(float32 [n, 1], int64 [n, 1])");
    }

    #[test]
    fn mistakes_name_the_shape() {
        let params = r#"x: R.Tensor((3, 5), "float32")"#;
        refused(params, "R.sort(x, axis=2)", &["`R.sort`", "axis 2 is outside of the 2 dimensions"]);
        refused(params, "R.topk(x, k=6)", &["axis 1 of [3, 5] has fewer than 6 elements"]);
        refused(params, r#"R.topk(x, ret_type="all")"#, &["both, values or indices", "`all`"]);
        refused(params, "R.median(x, axis=[0, 1])", &["takes one axis or none, found 2"]);
    }

    /// The indices in order by a plain sort.
    fn order(values: &[f32], descending: bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| {
            let ascending = values[a].total_cmp(&values[b]);
            if descending { ascending.reverse() } else { ascending }
        });
        order
    }

    #[test]
    fn any_number_of_elements_is_sorted() {
        for n in [1, 2, 3, 4, 5, 7, 8, 9, 33] {
            let x = varied(&[n, 2]);
            let column = |c: usize| -> Vec<f32> { (0..n as usize).map(|r| x[2 * r + c]).collect() };
            for descending in [false, true] {
                let flag = if descending { "True" } else { "False" };
                let mut expected = vec![0.0; x.len()];
                for c in 0..2 {
                    let column = column(c);
                    for (r, from) in order(&column, descending).into_iter().enumerate() {
                        expected[2 * r + c] = column[from];
                    }
                }
                check(&[("x", &[n, 2], &x)], &format!("R.sort(x, axis=0, descending={flag})"), &expected);
            }
        }
    }

    #[test]
    fn equal_elements_keep_their_order() {
        let x: Vec<f32> = (0..21).map(|i| ((i * 5) % 3) as f32).collect();
        for descending in [false, true] {
            let flag = if descending { "True" } else { "False" };
            let expected: Vec<f32> = order(&x, descending).into_iter().map(|i| i as f32).collect();
            check(&[("x", &[21], &x)], &format!("R.argsort(x, descending={flag})"), &expected);
        }
    }

    #[test]
    fn the_first_of_an_order_are_taken() {
        let x = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0];
        let found = results(&[("x", &[1, 6], &x)], "R.topk(x, k=3)");
        assert_eq!(found, [[9.0, 5.0, 4.0], [5.0, 4.0, 2.0]]);
        let found = results(&[("x", &[6], &x)], "R.topk(x, k=2, largest=False)");
        assert_eq!(found, [[1.0, 1.0], [1.0, 3.0]]);
        check(&[("x", &[2, 3], &x)], "R.median(x)", &[3.0]);
        assert_eq!(results(&[("x", &[2, 3], &x)], "R.median(x, axis=[1])")[0], [3.0, 5.0]);
        assert_eq!(results(&[("x", &[2, 3], &x)], "R.median(x, axis=[0], keepdims=True)")[0], [1.0, 1.0, 4.0]);
    }

    #[test]
    fn a_few_of_many_are_found_in_order() {
        for (n, k) in
            [(4, 1), (9, 2), (16, 4), (37, 5), (50, 11), (64, 8), (64, 40), (150, 2), (150, 30), (300, 70), (2100, 20)]
        {
            // Many are equal.
            let x: Vec<f32> = (0..2 * n).map(|i| ((i * 7) % 13 - 6) as f32).collect();
            for largest in [false, true] {
                let flag = if largest { "True" } else { "False" };
                let found = results(&[("x", &[2, n], &x)], &format!("R.topk(x, k={k}, largest={flag})"));
                for (row, x) in x.chunks(n as usize).enumerate() {
                    let order = order(x, largest);
                    for (place, &from) in order.iter().take(k).enumerate() {
                        assert_eq!(found[0][row * k + place], x[from], "place {place} of {k} of {n}");
                        assert_eq!(found[1][row * k + place], from as f32, "place {place} of {k} of {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_are_equal_and_infinity_is_a_number() {
        for n in [6, 130] {
            let mut x = vec![-7.0f32; n];
            x[..6].copy_from_slice(&[-0.0, f32::INFINITY, 0.0, -0.0, f32::NEG_INFINITY, 1e-40]);
            let shape = [n as i64];
            let found = results(&[("x", &shape, &x)], "R.topk(x, k=5)");
            assert_eq!(found[1], [1.0, 5.0, 0.0, 2.0, 3.0], "{n}");
            let found = results(&[("x", &shape, &x)], "R.topk(x, k=1, largest=False)");
            assert_eq!(found[1], [4.0], "{n}");
        }
    }

    #[test]
    fn types_without_keys_and_other_axes_have_an_order() {
        let x: Vec<f32> = (0..400).map(|i| ((i * 7) % 13 - 6) as f32).collect();
        let column: Vec<f32> = (0..200).map(|r| x[2 * r]).collect();
        let expected = order(&column, true);
        for dtype in ["int8", "int32", "int64", "float16", "float64"] {
            for k in [3, 20, 40] {
                let call = format!(r#"R.topk(R.astype(x, "{dtype}"), k={k}, axis=0, ret_type="indices")"#);
                let found = results(&[("x", &[200, 2], &x)], &call);
                let found: Vec<usize> = found[0].iter().step_by(2).map(|&i| i as usize).collect();
                assert_eq!(found, expected[..k], "{dtype} {k}");
            }
        }
    }

    #[test]
    fn boundaries_are_searched() {
        let params = r#"x: R.Tensor(("n", 2), "float32"), b: R.Tensor((3,), "float32"), c: R.Tensor((3,), "int32")"#;
        assert_eq!(type_of(params, "R.bucketize(x, b)"), "int64 [n, 2]");
        assert_eq!(type_of(params, "R.bucketize(x, b, out_int32=True)"), "int32 [n, 2]");
        refused(params, "R.bucketize(b, x)", &["`boundaries` must have 1 dimensions", "[n, 2]"]);
        refused(params, "R.bucketize(x, c)", &["`input_tensor` is of float32", "int32"]);
        let inputs: [super::super::testing::Input<'_>; 2] =
            [("x", &[5], &[0.0, 1.0, 2.0, 2.5, 9.0]), ("b", &[4], &[1.0, 2.0, 2.0, 3.0])];
        check(&inputs, "R.bucketize(x, b, out_int32=True)", &[0.0, 0.0, 1.0, 3.0, 4.0]);
        check(&inputs, "R.bucketize(x, b, out_int32=True, right=True)", &[0.0, 1.0, 3.0, 3.0, 4.0]);
    }
}
