//! Sampling.

use super::*;

pub(super) static OPERATORS: &[Operator] = &[Operator {
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
}];

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

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refused};

    #[test]
    fn mistakes_name_the_shape() {
        let params = r#"x: R.Tensor((3,), "float32"), p: R.Tensor((2, 3), "float32"), u: R.Tensor((4, 1), "float32")"#;
        let call = r#"R.multinomial_from_uniform(p, u, R.astype(x, "int64"))"#;
        refused(params, call, &["`sample_indices` must have 2 dimensions", "[3]"]);
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
