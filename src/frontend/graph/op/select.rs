//! Operators whose results depend on data.
//!
//! Where even the shape of the result does, the operand must be a constant.

use super::sort::{argsort, flattened};
use super::*;
use crate::graph::Constant;
use crate::graph::infer::Args;
use crate::ir::Arena;

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "multinomial_from_uniform",
        params: &[
            required("prob", Kind::Tensor),
            required("uniform_sample", Kind::Tensor),
            required("sample_indices", Kind::Tensor),
            optional("dtype", Kind::DType, Default::Str("int64")),
        ],
        infer: |cx| {
            let (prob, sample) = (cx.tensor("prob")?, cx.tensor("uniform_sample")?);
            let rows = cx.tensor("sample_indices")?;
            cx.expect_rank("prob", &prob, 2)?;
            expect_same_type(cx, ("prob", prob.dtype), ("uniform_sample", sample.dtype))?;
            if !rows.dtype.is_integer() {
                return cx.fail(format!("`sample_indices` must have integers, found {}", rows.dtype));
            }
            for (name, tensor) in [("uniform_sample", &sample), ("sample_indices", &rows)] {
                cx.expect_rank(name, tensor, 2)?;
                let one = cx.extent(1);
                if cx.differ(tensor.shape[1], one) {
                    let shape = cx.extents(&tensor.shape);
                    return cx.fail(format!("`{name}` must have one column, found {shape}"));
                }
                cx.expect_equal(("uniform_sample", &sample, 0), (name, tensor, 0))?;
            }
            match cx.opt_dtype("dtype") {
                Some(dtype) => Ok(Type::tensor(dtype, sample.shape)),
                None => cx.fail("`dtype` is no type of elements"),
            }
        },
        lower: Lowering::Stages(multinomial),
        doc: "For each uniform sample, the first class up to which the probabilities of its row exceed it.",
    },
    Operator {
        name: "nonzero",
        params: &[required("x", Kind::Tensor)],
        infer: |cx| {
            let x = cx.tensor("x")?;
            if x.rank() == 0 {
                return cx.fail("`x` has no dimensions");
            }
            let constant = constant(cx)?;
            let n = (0..constant.len()).filter(|&i| constant.float(i) != Some(0.0)).count();
            let shape = vec![cx.extent(x.rank() as i64), cx.extent(n as i64)];
            Ok(Type::tensor(DType::Int64, shape))
        },
        lower: Lowering::Stages(|cx| {
            let x = cx.input("x")?;
            let (shape, of_x) = (cx.out_shape(0)?, cx.shape_of(x));
            let written = [("nonzero", DType::Int64, &shape[..])];
            Ok(cx.te.statements("nonzero", &[], &written, |s, out, _| {
                let zero = s.extent(0);
                let found = s.counter("found", zero);
                s.for_each(&of_x, |s, i| {
                    let x = s.at(x, i);
                    let counts = super::binary::truth(s, x);
                    s.if_(counts, |s| {
                        let column = s.at(found, &[]);
                        for (d, &index) in i.iter().enumerate() {
                            let d = s.extent(d as i64);
                            s.set(out[0], &[d, column], index);
                        }
                        let next = s.add_const(column, 1);
                        s.set(found, &[], next);
                    });
                });
            }))
        }),
        doc: "The indices of the elements of a constant that are not 0: one row for each dimension.",
    },
    Operator {
        name: "unique",
        params: &[
            required("x", Kind::Tensor),
            optional("sorted", Kind::Prim, Default::Absent),
            optional("return_index", Kind::Prim, Default::Absent),
            optional("return_inverse", Kind::Prim, Default::Absent),
            optional("return_counts", Kind::Prim, Default::Absent),
            optional("axis", Kind::Prim, Default::Absent),
        ],
        infer: |cx| {
            let x = cx.tensor("x")?;
            if cx.prim("axis").is_some() && x.rank() != 1 {
                return cx.fail("parts along an axis are not supported: leave `axis` out to compare single elements");
            }
            let constant = constant(cx)?;
            let (mut values, n) = (numbers(constant), constant.len());
            values.sort_by(f64::total_cmp);
            values.dedup();
            let (distinct, all) = (vec![cx.extent(values.len() as i64)], vec![cx.extent(n as i64)]);
            let mut results = vec![Type::tensor(x.dtype, distinct.clone())];
            let flags = wanted(cx, cx.arena);
            for (is_wanted, shape) in flags.into_iter().zip([&distinct, &all, &distinct]) {
                if is_wanted {
                    results.push(Type::tensor(DType::Int64, shape.clone()));
                }
            }
            Ok(if results.len() == 1 { results.swap_remove(0) } else { Type::Tuple(results) })
        },
        lower: Lowering::Stages(unique),
        doc: "The distinct elements of a constant in ascending order; on demand their first indices, the index of each \
              element among them, and how often each occurs.",
    },
];

/// The elements of the only operand.
fn constant<'a>(args: &Args<'a>) -> Result<&'a Constant, OpError> {
    let constant = args.value("x").and_then(|v| args.function.constant(args.function.resolved(v)));
    constant.ok_or_else(|| OpError {
        help: Some("only operators whose shapes do not depend on data take inputs".into()),
        ..args.error("`x` must be a constant: the shape of the result depends on its elements")
    })
}

fn numbers(constant: &Constant) -> Vec<f64> {
    (0..constant.len()).map(|i| constant.float(i).unwrap_or(0.0)).collect()
}

/// Whether first indices, inverse and counts are wanted.
fn wanted(args: &Args<'_>, arena: &Arena) -> [bool; 3] {
    ["return_index", "return_inverse", "return_counts"].map(|name| match args.get(name) {
        crate::graph::Arg::Prim(e) => arena.as_const(*e).is_some_and(|c| c.as_f64() != 0.0),
        _ => false,
    })
}

fn multinomial(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let (prob, sample, rows) = (cx.input("prob")?, cx.input("uniform_sample")?, cx.input("sample_indices")?);
    let (shape, dtype) = (cx.out_shape(0)?, cx.out_dtype(0)?);
    let n_classes = cx.shape_of(prob)[1];
    let float = cx.te.element_type(prob);
    let written = [("multinomial_from_uniform", dtype, &shape[..])];
    Ok(cx.te.statements("multinomial_from_uniform", &shape[..1], &written, |s, out, i| {
        let (zero, none) = (s.extent(0), s.float(0.0, float));
        let at = [i[0], zero];
        let (class, sum) = (s.counter("class", zero), s.local("sum", float, &[]));
        s.set(sum, &[], none);
        let row = s.at(rows, &at);
        // The last class stands for what rounding leaves of 1.
        let last = s.add_const(n_classes, -1);
        s.for_each(&[n_classes], |s, k| {
            let (so_far, more) = (s.at(sum, &[]), s.at(prob, &[row, k[0]]));
            let total = s.add(so_far, more);
            s.set(sum, &[], total);
            let (total, wanted, current) = (s.at(sum, &[]), s.at(sample, &at), s.at(class, &[]));
            let is_not_enough = s.compare(CmpOp::Le, total, wanted);
            let is_next = s.compare(CmpOp::Eq, current, k[0]);
            let is_passed = s.and(is_next, is_not_enough);
            s.if_(is_passed, |s| {
                let next = s.add_const(current, 1);
                let next = s.min(next, last);
                s.set(class, &[], next);
            });
        });
        let found = s.at(class, &[]);
        let found = s.cast(dtype, found);
        s.set(out[0], &at, found);
    }))
}

/// The elements in order: each that differs from the one before begins a new group.
fn unique(cx: &mut Lower<'_>) -> Result<Vec<Tensor>, OpError> {
    let x = cx.input("x")?;
    let [index, inverse, counts] = wanted(cx, &cx.function.arena);
    let shapes: Vec<Vec<ExprId>> = (0..cx.n_results()).map(|r| cx.out_shape(r)).collect::<Result<_, _>>()?;
    let dtype = cx.out_dtype(0)?;
    let x = flattened(&mut cx.te, x);
    let n = cx.shape_of(x)[0];
    let order = argsort(&mut cx.te, x, 0, false, DType::Int64);
    let names = ["unique", "index", "inverse", "counts"];
    let is_wanted = [true, index, inverse, counts];
    let names: Vec<&str> = names.into_iter().zip(is_wanted).filter(|(_, w)| *w).map(|(name, _)| name).collect();
    let written: Vec<(&str, DType, &[ExprId])> = (names.iter().zip(&shapes))
        .map(|(&name, shape)| (name, if name == "unique" { dtype } else { DType::Int64 }, &shape[..]))
        .collect();
    Ok(cx.te.statements("unique", &[], &written, |s, out, _| {
        let of = |name: &str| names.iter().position(|n| *n == name).map(|i| out[i]);
        let (zero, one, before_first) = (s.extent(0), s.extent(1), s.extent(-1));
        let group = s.counter("group", before_first);
        s.for_each(&[n], |s, k| {
            let at = s.at(order, k);
            let value = s.at(x, &[at]);
            let current = s.at(group, &[]);
            let is_first = s.lt(current, zero);
            let known = s.at(out[0], &[current]);
            let differs = s.compare(CmpOp::Ne, known, value);
            // Not by `or`, of which TVM evaluates both sides: there is no group before the first.
            let yes = s.bool(true);
            let is_new = s.if_then_else(is_first, yes, differs);
            s.if_(is_new, |s| {
                let next = s.add_const(current, 1);
                s.set(group, &[], next);
                s.set(out[0], &[current], value);
                if let Some(index) = of("index") {
                    s.set(index, &[current], at);
                }
                if let Some(counts) = of("counts") {
                    s.set(counts, &[current], zero);
                }
            });
            if let Some(inverse) = of("inverse") {
                s.set(inverse, &[at], current);
            }
            if let Some(counts) = of("counts") {
                let count = s.at(counts, &[current]);
                let more = s.add(count, one);
                s.set(counts, &[current], more);
            }
        });
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused, type_of};

    #[test]
    fn shapes_follow_from_constants() {
        assert_eq!(type_of("", r#"R.nonzero(R.const([[0, 1], [2, 0]], "int32"))"#), "int64 [2, 2]");
        assert_eq!(type_of("", r#"R.unique(R.const([2, 1, 2], "float32"))"#), "float32 [2]");
        let all = r#"R.unique(R.const([2, 1, 2], "float32"), True, True, True, True)"#;
        assert_eq!(type_of("", all), "(float32 [2], int64 [2], int64 [3], int64 [2])");
    }

    #[test]
    fn inputs_are_refused() {
        let params = r#"x: R.Tensor((3,), "float32"), p: R.Tensor((2, 3), "float32"), u: R.Tensor((4, 1), "float32")"#;
        refused(params, "R.nonzero(x)", &["`R.nonzero`", "`x` must be a constant"]);
        refused(params, "R.unique(x)", &["`R.unique`", "`x` must be a constant"]);
        let call = r#"R.multinomial_from_uniform(p, u, R.astype(x, "int64"))"#;
        refused(params, call, &["`sample_indices` must have 2 dimensions", "[3]"]);
    }

    #[test]
    fn elements_are_found() {
        let call = r#"R.astype(R.nonzero(R.const([[0, 1, 0], [2, 0, 3]], "int32")), "float32")"#;
        check(&[], call, &[0.0, 1.0, 1.0, 1.0, 0.0, 2.0]);
        check(&[], r#"R.unique(R.const([[3, 1], [2, 3]], "float32"))"#, &[1.0, 2.0, 3.0]);
    }

    #[test]
    fn samples_are_the_class_that_reaches_them() {
        let inputs: [super::super::testing::Input<'_>; 3] = [
            ("p", &[2, 3], &[0.2, 0.3, 0.5, 0.3, 0.4, 0.3]),
            ("u", &[4, 1], &[0.4, 0.9, 0.1, 1.0]),
            ("s", &[4, 1], &[0.0, 1.0, 1.0, 0.0]),
        ];
        let call = r#"R.astype(R.multinomial_from_uniform(p, u, R.astype(s, "int64")), "float32")"#;
        check(&inputs, call, &[1.0, 2.0, 0.0, 2.0]);
    }
}
