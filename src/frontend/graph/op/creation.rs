//! Tensors made from shapes and numbers.

use super::index::expect_integers;
use super::*;
use crate::ir::Const;
use crate::te::INDEX;

const SHAPE_DTYPE: &[Param] = &[required("shape", Kind::Shape), required("dtype", Kind::DType)];

const X_DTYPE: &[Param] = &[required("x", Kind::Tensor), optional("dtype", Kind::OptDType, Default::None)];

const X_K: &[Param] = &[required("x", Kind::Tensor), optional("k", Kind::Prim, Default::Absent)];

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "arange",
        params: &[
            required("start", Kind::Prim),
            optional("end", Kind::Prim, Default::Absent),
            optional("step", Kind::Prim, Default::Absent),
            optional("dtype", Kind::OptDType, Default::None),
        ],
        infer: |cx| {
            let (start, end, step) = range(cx);
            let is_float = [Some(start), end, step].into_iter().flatten().any(|e| cx.arena.dtype(e).is_float());
            let dtype = cx.opt_dtype("dtype").unwrap_or(if is_float { DType::Float32 } else { DType::Int64 });
            let zero = cx.extent(0);
            let (start, end) = match end {
                Some(end) => (start, end),
                None => (zero, start),
            };
            let step = step.unwrap_or_else(|| cx.extent(1));
            let number = |cx: &Infer<'_>, e: ExprId| cx.arena.as_const(e).map(Const::as_f64);
            let n = match (number(cx, start), number(cx, end), number(cx, step)) {
                (_, _, Some(0.0)) => return cx.fail("`step` must not be 0"),
                (Some(start), Some(end), Some(step)) => {
                    let n = ((end - start) / step).ceil().max(0.0);
                    if n > i64::MAX as f64 / 2.0 {
                        return cx.fail("has too many elements");
                    }
                    cx.extent(n as i64)
                }
                _ if is_float => return cx.fail("floats must be constants"),
                _ => {
                    let Some(step) = cx.known_extent(step) else { return cx.fail("`step` must be a constant") };
                    let (span, step) = match step > 0 {
                        true => (cx.arena.sub(end, start), step),
                        false => (cx.arena.sub(start, end), -step),
                    };
                    let last = cx.arena.add_const(span, step - 1);
                    let step = cx.extent(step);
                    let n = cx.arena.floor_div(last, step);
                    cx.simplified(n)
                }
            };
            Ok(Type::tensor(dtype, vec![n]))
        },
        lower: Lowering::Stages(|cx| {
            let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
            let (start, end, step) = (cx.prim("start"), cx.prim("end"), cx.prim("step"));
            let start = if end.is_some() { start } else { None };
            Ok(vec![cx.te.compute("T_arange", &shape, |te, i| {
                let one = te.extent(1);
                let (start, step) = (start.unwrap_or_else(|| te.extent(0)), step.unwrap_or(one));
                let is_float = te.dtype(start).is_float() || te.dtype(step).is_float();
                let wide = if is_float { DType::Float64 } else { DType::Int64 };
                let (start, step, index) = (te.cast(wide, start), te.cast(wide, step), te.cast(wide, i[0]));
                let distance = te.mul(index, step);
                let value = te.add(start, distance);
                te.cast(dtype, value)
            })])
        }),
        doc: "The numbers from a start up to an end, which is not among them, by steps.",
    },
    Operator {
        name: "eye",
        params: &[
            required("n", Kind::Prim),
            optional("m", Kind::Prim, Default::Absent),
            optional("k", Kind::Prim, Default::Absent),
            optional("dtype", Kind::DType, Default::Str("float32")),
        ],
        infer: |cx| {
            let Some(n) = cx.prim("n") else { return cx.fail("`n` must be a number") };
            let m = cx.prim("m").unwrap_or(n);
            Ok(Type::tensor(named_type(cx)?, vec![n, m]))
        },
        lower: Lowering::Stages(eye),
        doc: "A matrix of ones on the k-th diagonal and zeros elsewhere.",
    },
    Operator {
        name: "eye_like",
        params: &[
            required("x", Kind::Tensor),
            optional("k", Kind::Prim, Default::Absent),
            optional("dtype", Kind::OptDType, Default::None),
        ],
        infer: |cx| {
            let x = cx.tensor("x")?;
            cx.expect_rank("x", &x, 2)?;
            Ok(Type::tensor(cx.opt_dtype("dtype").unwrap_or(x.dtype), x.shape))
        },
        lower: Lowering::Stages(|cx| {
            bind_symbols(cx)?;
            eye(cx)
        }),
        doc: "A matrix with the shape of another, of ones on the k-th diagonal and zeros elsewhere.",
    },
    Operator {
        name: "full",
        params: &[
            required("shape", Kind::Shape),
            required("fill_value", Kind::Tensor),
            optional("dtype", Kind::OptDType, Default::None),
        ],
        infer: |cx| {
            let (shape, value) = (cx.shape("shape")?, cx.tensor("fill_value")?);
            cx.expect_rank("fill_value", &value, 0)?;
            Ok(Type::tensor(cx.opt_dtype("dtype").unwrap_or(value.dtype), shape))
        },
        lower: Lowering::Stages(full),
        doc: "A tensor of one number.",
    },
    Operator {
        name: "full_like",
        params: &[
            required("x", Kind::Tensor),
            required("fill_value", Kind::Tensor),
            optional("dtype", Kind::OptDType, Default::None),
        ],
        infer: |cx| {
            let (x, value) = (cx.tensor("x")?, cx.tensor("fill_value")?);
            cx.expect_rank("fill_value", &value, 0)?;
            Ok(Type::tensor(cx.opt_dtype("dtype").unwrap_or(x.dtype), x.shape))
        },
        lower: Lowering::Stages(|cx| {
            bind_symbols(cx)?;
            full(cx)
        }),
        doc: "A tensor of one number with the shape of another.",
    },
    Operator {
        name: "hamming_window",
        params: &[
            required("window_size", Kind::Prim),
            required("periodic", Kind::Prim),
            required("alpha", Kind::Prim),
            required("beta", Kind::Prim),
            required("dtype", Kind::DType),
        ],
        infer: |cx| {
            let dtype = named_type(cx)?;
            expect_float(cx, "dtype", dtype)?;
            match cx.prim("window_size") {
                Some(n) if cx.known_extent(n).is_none_or(|n| n >= 0) => Ok(Type::tensor(dtype, vec![n])),
                _ => cx.fail("`window_size` must not be negative"),
            }
        },
        lower: Lowering::Stages(|cx| {
            let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
            let (periodic, alpha, beta) = (cx.prim("periodic"), cx.prim("alpha"), cx.prim("beta"));
            let (Some(periodic), Some(alpha), Some(beta)) = (periodic, alpha, beta) else {
                return cx.fail("its arguments must be numbers");
            };
            let is_periodic = cx.te.as_const(periodic).is_some_and(|c| c.as_f64() != 0.0);
            let intervals = if is_periodic { shape[0] } else { cx.te.add_const(shape[0], -1) };
            // A window of one element has no intervals.
            let one = cx.te.extent(1);
            let intervals = cx.te.max(intervals, one);
            Ok(vec![cx.te.compute("T_hamming_window", &shape, |te, i| {
                let (turn, index) = (te.float(std::f64::consts::TAU, dtype), te.cast(dtype, i[0]));
                let (angle, intervals) = (te.mul(turn, index), te.cast(dtype, intervals));
                let angle = te.binary(BinOp::Div, angle, intervals);
                let cos = te.call(Intrinsic::Cos, &[angle]);
                let wide = DType::Float64;
                let (alpha, beta, cos) = (te.cast(wide, alpha), te.cast(wide, beta), te.cast(wide, cos));
                let wave = te.mul(beta, cos);
                let value = te.sub(alpha, wave);
                te.cast(dtype, value)
            })])
        }),
        doc: "The window alpha - beta * cos(2 pi i / n), with n one smaller than its size unless it is periodic.",
    },
    Operator {
        name: "meshgrid",
        params: &[required("tensors", Kind::Tensors), optional("indexing", Kind::OptStr, Default::Str("ij"))],
        infer: |cx| {
            let all = cx.tensors("tensors")?;
            let Some(first) = all.first() else { return cx.fail("has no tensors") };
            let mut shape = Vec::with_capacity(all.len());
            for tensor in &all {
                expect_same_type(cx, ("tensors[0]", first.dtype), ("tensors", tensor.dtype))?;
                match tensor.shape[..] {
                    [] => shape.push(cx.extent(1)),
                    [n] => shape.push(n),
                    _ => {
                        let shape = cx.extents(&tensor.shape);
                        return cx.fail(format!("`tensors` must have one dimension each, found {shape}"));
                    }
                }
            }
            match cx.opt_text("indexing") {
                None | Some("ij") => {}
                Some("xy") if shape.len() > 1 => shape.swap(0, 1),
                Some("xy") => {}
                Some(other) => return cx.fail(format!("`indexing` must be ij or xy, found `{other}`")),
            }
            Ok(Type::Tuple(vec![Type::tensor(first.dtype, shape); all.len()]))
        },
        lower: Lowering::Stages(|cx| {
            let all = cx.inputs("tensors")?;
            let is_swapped = cx.opt_text("indexing") == Some("xy") && all.len() > 1;
            let shape = cx.out_shape(0)?;
            let of = |(d, &tensor): (usize, &Tensor)| {
                let d = if is_swapped && d < 2 { 1 - d } else { d };
                cx.te.compute("T_meshgrid", &shape, |te, i| match te.shape(tensor).len() {
                    0 => te.at(tensor, &[]),
                    _ => te.at(tensor, &i[d..=d]),
                })
            };
            Ok(all.iter().enumerate().map(of).collect())
        }),
        doc: "The coordinates of the points of a grid: each tensor repeated along the dimensions of the others.",
    },
    Operator {
        name: "one_hot",
        params: &[
            required("indices", Kind::Tensor),
            required("on_value", Kind::Prim),
            required("off_value", Kind::Prim),
            required("depth", Kind::Int),
            optional("axis", Kind::Int, Default::Int(-1)),
        ],
        infer: |cx| {
            let indices = cx.tensor("indices")?;
            expect_integers(cx, "indices", indices.dtype)?;
            let axis = cx.axis(cx.int("axis"), indices.rank() + 1)?;
            let (Some(on), Some(off)) = (cx.prim("on_value"), cx.prim("off_value")) else {
                return cx.fail("`on_value` and `off_value` must be numbers");
            };
            let (on, off) = (cx.arena.dtype(on), cx.arena.dtype(off));
            expect_same_type(cx, ("on_value", on), ("off_value", off))?;
            let depth = cx.int("depth");
            if depth < 1 {
                return cx.fail(format!("`depth` must be positive, found {depth}"));
            }
            let mut shape = indices.shape;
            shape.insert(axis, cx.extent(depth));
            Ok(Type::tensor(on, shape))
        },
        lower: Lowering::Stages(|cx| {
            let indices = cx.input("indices")?;
            let shape = cx.out_shape(0)?;
            let axis = cx.axis(cx.int("axis"), shape.len())?;
            let (Some(on), Some(off)) = (cx.prim("on_value"), cx.prim("off_value")) else {
                return cx.fail("`on_value` and `off_value` must be numbers");
            };
            Ok(vec![cx.te.compute("T_one_hot", &shape, |te, i| {
                let mut at = i.to_vec();
                at.remove(axis);
                let index = te.at(indices, &at);
                let index = te.cast(INDEX, index);
                let is_it = te.compare(CmpOp::Eq, index, i[axis]);
                te.select(is_it, on, off)
            })])
        }),
        doc: "A new dimension in which the element at the index is `on_value` and all others are `off_value`.",
    },
    filled("ones", SHAPE_DTYPE, infer_of_shape, 1, "A tensor of ones."),
    filled("ones_like", X_DTYPE, infer_like, 1, "A tensor of ones with the shape of another."),
    Operator {
        name: "tril",
        params: X_K,
        infer: infer_triangle,
        lower: Lowering::Stages(|cx| triangle(cx, false)),
        doc: "The matrices with zeros above the k-th diagonal.",
    },
    Operator {
        name: "triu",
        params: X_K,
        infer: infer_triangle,
        lower: Lowering::Stages(|cx| triangle(cx, true)),
        doc: "The matrices with zeros below the k-th diagonal.",
    },
    filled("zeros", SHAPE_DTYPE, infer_of_shape, 0, "A tensor of zeros."),
    filled("zeros_like", X_DTYPE, infer_like, 0, "A tensor of zeros with the shape of another."),
];

const fn filled(
    name: &'static str,
    params: &'static [Param],
    infer: fn(&mut Infer<'_>) -> Result<Type, OpError>,
    value: i64,
    doc: &'static str,
) -> Operator {
    let lower = match value {
        0 => Lowering::Stages(|cx| constant(cx, 0)),
        _ => Lowering::Stages(|cx| constant(cx, 1)),
    };
    Operator { name, params, infer, lower, doc }
}

fn constant(cx: &mut Lower<'_>, value: i64) -> Result<Vec<Tensor>, OpError> {
    if cx.op.position("x").is_some() {
        bind_symbols(cx)?;
    }
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    Ok(vec![cx.te.compute("T_full", &shape, |te, _| te.constant(value, dtype))])
}

/// Makes `x`, of which only the shape matters, an input if its extents are symbols, which get their values from inputs.
fn bind_symbols(cx: &mut Lower<'_>) -> Result<(), OpError> {
    let shape = cx.out_shape(0)?;
    if shape.iter().any(|&e| cx.te.as_int(e).is_none()) {
        cx.input("x")?;
    }
    Ok(())
}

/// The numbers of `arange`: start, end and step.
fn range(cx: &Infer<'_>) -> (ExprId, Option<ExprId>, Option<ExprId>) {
    let start = cx.prim("start").expect("a required argument");
    (start, cx.prim("end"), cx.prim("step"))
}

fn named_type(cx: &Infer<'_>) -> Result<DType, OpError> {
    match cx.opt_dtype("dtype") {
        Some(dtype) => Ok(dtype),
        None => cx.fail("`dtype` is no type of elements"),
    }
}

fn infer_of_shape(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    Ok(Type::tensor(named_type(cx)?, cx.shape("shape")?))
}

fn infer_like(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let x = cx.tensor("x")?;
    Ok(Type::tensor(cx.opt_dtype("dtype").unwrap_or(x.dtype), x.shape))
}

fn infer_triangle(cx: &mut Infer<'_>) -> Result<Type, OpError> {
    let x = cx.tensor("x")?;
    match x.rank() {
        0 | 1 => {
            let shape = cx.extents(&x.shape);
            cx.fail(format!("`x` must have at least 2 dimensions, found {shape}"))
        }
        _ => Ok(x.into()),
    }
}

fn full(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let value = cx.operand("fill_value")?;
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    Ok(vec![cx.te.compute("T_full", &shape, |te, _| {
        let value = te.element(value, &[]);
        te.cast(dtype, value)
    })])
}

fn eye(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let k = cx.prim("k");
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    Ok(vec![cx.te.compute("eye", &shape, |te, i| {
        let column = match k {
            Some(k) => te.sub(i[1], k),
            None => i[1],
        };
        let is_on = te.compare(CmpOp::Eq, i[0], column);
        let (one, zero) = (te.constant(1, dtype), te.constant(0, dtype));
        te.if_then_else(is_on, one, zero)
    })])
}

fn triangle(cx: &mut Lower<'_>, is_upper: bool) -> Result<Vec<Tensor>, OpError> {
    let (x, k) = (cx.input("x")?, cx.prim("k"));
    let shape = cx.out_shape(0)?;
    let rank = shape.len();
    Ok(vec![cx.te.compute("trilu", &shape, |te, i| {
        let diagonal = match k {
            Some(k) => te.add(i[rank - 2], k),
            None => i[rank - 2],
        };
        let stays = te.compare(if is_upper { CmpOp::Ge } else { CmpOp::Le }, i[rank - 1], diagonal);
        let value = te.at(x, i);
        let dtype = te.dtype(value);
        let zero = te.constant(0, dtype);
        te.select(stays, value, zero)
    })])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, count, refused, type_of};

    #[test]
    fn shapes_may_be_symbols() {
        let params = r#"x: R.Tensor(("n", 3), "float32"), i: R.Tensor(("n",), "int64")"#;
        assert_eq!(type_of(params, "R.zeros_like(x)"), "float32 [n, 3]");
        assert_eq!(type_of(params, r#"R.full_like(x, R.const(1, "int32"), dtype="int8")"#), "int8 [n, 3]");
        assert_eq!(type_of(params, "R.tril(x)"), "float32 [n, 3]");
        assert_eq!(type_of(params, "R.one_hot(i, T.float32(1), T.float32(0), depth=4)"), "float32 [n, 4]");
        assert_eq!(type_of("", "R.arange(2, 9, 3)"), "int64 [3]");
        assert_eq!(type_of("", "R.arange(0.5)"), "float32 [1]");
        let params = r#"x: R.Tensor((2,), "float32"), y: R.Tensor(("n",), "float32")"#;
        assert_eq!(type_of(params, r#"R.meshgrid((x, y), indexing="xy")"#), "(float32 [n, 2], float32 [n, 2])");
    }

    #[test]
    fn mistakes_name_the_shape() {
        let params = r#"x: R.Tensor((3,), "float32"), y: R.Tensor((2, 2), "float32")"#;
        refused(params, "R.tril(x)", &["`R.tril`", "at least 2 dimensions", "[3]"]);
        refused(params, "R.eye_like(x)", &["`x` must have 2 dimensions", "[3]"]);
        refused(params, "R.meshgrid((x, y))", &["one dimension each", "[2, 2]"]);
        refused(params, "R.arange(0, 5, 0)", &["`step` must not be 0"]);
        refused(params, "R.full((2,), y)", &["`fill_value` must have 0 dimensions", "[2, 2]"]);
        refused(params, "R.one_hot(x, 1, 0, depth=3)", &["`indices` must have integers, found float32"]);
    }

    #[test]
    fn tensors_are_made_of_numbers() {
        check(&[], r#"R.full((2, 2), R.const(1.5, "float32"))"#, &[1.5; 4]);
        check(&[], r#"R.ones((3,), dtype="float32")"#, &[1.0; 3]);
        check(&[], r#"R.arange(7, 0, -3, dtype="float32")"#, &[7.0, 4.0, 1.0]);
        check(&[], "R.eye(2, 3, 1)", &[0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        let x = count(&[2, 3]);
        check(&[("x", &[2, 3], &x)], "R.tril(x)", &[0.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
        check(&[("x", &[2, 3], &x)], "R.triu(x, 1)", &[0.0, 1.0, 2.0, 0.0, 0.0, 5.0]);
        let call = r#"R.one_hot(R.astype(x, "int32"), T.float32(2), T.float32(-1), depth=2, axis=0)"#;
        check(&[("x", &[2], &[1.0, 0.0])], call, &[-1.0, 2.0, 2.0, -1.0]);
    }

    #[test]
    fn windows_have_their_size() {
        let call = r#"R.hamming_window(8, True, 0.54, 0.46, dtype="float64")"#;
        assert_eq!(type_of("", call), "float64 [8]");
        refused("", r#"R.hamming_window(-1, True, 0.54, 0.46, dtype="float32")"#, &["must not be negative"]);
        refused("", r#"R.hamming_window(8, True, 0.54, 0.46, dtype="int32")"#, &["`dtype` must have floats"]);
    }

    #[test]
    fn windows_are_cosines() {
        for (flag, intervals) in [("True", 6.0_f32), ("False", 5.0)] {
            let wave = |i: u16| 0.54 - 0.46 * (std::f32::consts::TAU * f32::from(i) / intervals).cos();
            let expected: Vec<f32> = (0..6).map(wave).collect();
            check(&[], &format!(r#"R.hamming_window(6, {flag}, 0.54, 0.46, dtype="float32")"#), &expected);
        }
        check(&[], r#"R.hamming_window(1, False, 0.54, 0.46, dtype="float32")"#, &[0.08]);
    }
}
