//! Softmax and normalisation.

use super::*;
use crate::ir::DType;

pub(super) static OPERATORS: &[Operator] = &[
    many("BatchNormalization", 7, |n| {
        let momentum = n.float("momentum", 0.9);
        if n.flag("training_mode", false) {
            return batch_norm_in_training(n, momentum);
        }
        if n.version < 9 && !n.flag("spatial", true) {
            return n.fail("`BatchNormalization` with `spatial=0` is not supported");
        }
        let epsilon = n.float("epsilon", 1e-5);
        let names = ["data", "gamma", "beta", "moving_mean", "moving_var"];
        let x = n.value(0)?;
        let dtype = n.dtype(x)?;
        let mut args = Vec::new();
        for (i, name) in names.into_iter().enumerate() {
            let v = n.value(i)?;
            args.push((name, Arg::Value(n.cast(v, dtype)?)));
        }
        args.extend([("axis", int(1)), ("epsilon", float(epsilon)), ("training", flag(false))]);
        let all = n.call("nn.batch_norm", args)?;
        Ok(vec![Operand::Value(n.item(all, 0)?)])
    }),
    one("GroupNormalization", 18, |n| {
        let (x, groups, epsilon) = (n.value(0)?, n.int("num_groups", 1), n.float("epsilon", 1e-5));
        n.ignore("stash_type");
        let (mut scale, mut bias) = (n.value(1)?, n.value(2)?);
        if n.version < 21 {
            // One for each group.
            let channels = n.known_shape(x)?.get(1).copied().unwrap_or(0);
            let each = channels.checked_div(groups).unwrap_or(0);
            let repeat = |n: &mut Node<'_, '_>, v| {
                n.call("repeat", vec![("data", Arg::Value(v)), ("repeats", int(each)), ("axis", int(0))])
            };
            (scale, bias) = (repeat(n, scale)?, repeat(n, bias)?);
        }
        let axes: Vec<i64> = (2..n.rank(x)? as i64).collect();
        n.call(
            "nn.group_norm",
            vec![
                ("data", Arg::Value(x)),
                ("gamma", Arg::Value(scale)),
                ("beta", Arg::Value(bias)),
                ("num_groups", int(groups)),
                ("channel_axis", int(1)),
                ("axes", ints(&axes)),
                ("epsilon", float(epsilon)),
            ],
        )
    }),
    one("Hardmax", 7, |n| {
        by_rows(n, |n, x, axis| {
            let at = n.call("argmax", vec![("x", Arg::Value(x)), ("axis", int(axis)), ("keepdims", flag(false))])?;
            let depth = n.known_shape(x)?[axis as usize];
            let dtype = n.dtype(x)?;
            let (on, off) = (n.number(1.0, dtype), n.number(0.0, dtype));
            let args = vec![
                ("indices", Arg::Value(at)),
                ("on_value", Arg::Prim(on)),
                ("off_value", Arg::Prim(off)),
                ("depth", int(depth)),
                ("axis", int(axis)),
            ];
            n.call("one_hot", args)
        })
    }),
    one("InstanceNormalization", 7, |n| {
        let (x, scale, bias) = (n.value(0)?, n.value(1)?, n.value(2)?);
        let epsilon = n.float("epsilon", 1e-5);
        let axes: Vec<i64> = (2..n.rank(x)? as i64).collect();
        n.call(
            "nn.instance_norm",
            vec![
                ("data", Arg::Value(x)),
                ("gamma", Arg::Value(scale)),
                ("beta", Arg::Value(bias)),
                ("channel_axis", int(1)),
                ("axes", ints(&axes)),
                ("epsilon", float(epsilon)),
            ],
        )
    }),
    many("LayerNormalization", 17, |n| {
        n.ignore("stash_type");
        let (x, axis, epsilon) = (n.value(0)?, n.int("axis", -1), n.float("epsilon", 1e-5));
        let rank = n.rank(x)?;
        let axes: Vec<i64> = (n.axis(axis, rank)? as i64..rank as i64).collect();
        // The mean and the inverse of the deviation are results, so it is written in operators.
        let mean = n.reduce("mean", x, &axes, true)?;
        let apart = n.binary("subtract", x, mean)?;
        let square = n.binary("multiply", apart, apart)?;
        let variance = n.reduce("mean", square, &axes, true)?;
        let variance = n.with_number("add", variance, epsilon)?;
        let deviation = n.unary("sqrt", variance)?;
        let mut y = n.binary("divide", apart, deviation)?;
        let scale = n.value(1)?;
        y = n.binary("multiply", y, scale)?;
        if let Some(bias) = n.opt_value(2)? {
            y = n.binary("add", y, bias)?;
        }
        let dtype = n.dtype(x)?;
        let one = n.scalar(1.0, dtype)?;
        let inverse = n.binary("divide", one, deviation)?;
        Ok(vec![Operand::Value(y), Operand::Value(mean), Operand::Value(inverse)])
    }),
    one("LogSoftmax", 7, |n| {
        by_rows(n, |n, x, axis| n.call("nn.log_softmax", vec![("data", Arg::Value(x)), ("axis", int(axis))]))
    }),
    one("LpNormalization", 7, |n| {
        let (x, axis, p) = (n.value(0)?, n.int("axis", -1), n.int("p", 2));
        let axis = n.axis(axis, n.rank(x)?)? as i64;
        let norm = match p {
            1 => {
                let a = n.unary("abs", x)?;
                n.reduce("sum", a, &[axis], true)?
            }
            2 => {
                let a = n.binary("multiply", x, x)?;
                let a = n.reduce("sum", a, &[axis], true)?;
                n.unary("sqrt", a)?
            }
            p => return n.fail(format!("`LpNormalization` with p = {p} is not supported")),
        };
        let quotient = n.binary("divide", x, norm)?;
        // Rows of zeros stay.
        let is_zero = n.with_number("equal", norm, 0.0)?;
        let zero = n.call("zeros_like", vec![("x", Arg::Value(x))])?;
        n.select(is_zero, zero, quotient)
    }),
    one("LRN", 7, |n| {
        let (x, size) = (n.value(0)?, n.int("size", 1));
        let (alpha, beta, bias) = (n.float("alpha", 1e-4), n.float("beta", 0.75), n.float("bias", 1.0));
        let shape = n.shape(x)?;
        if shape.len() < 2 || size < 1 {
            return n.fail("`LRN` needs channels and a size");
        }
        // The mean of squares in windows of channels: rows of an image whose columns are the pixels.
        let square = n.binary("multiply", x, x)?;
        let (one, mut pixels) = (n.index(1), n.index(1));
        for &e in &shape[2..] {
            pixels = n.arena().mul(pixels, e);
        }
        let rows = n.reshape(square, vec![shape[0], one, shape[1], pixels])?;
        let before = (size - 1) / 2;
        let mean = n.call(
            "nn.avg_pool2d",
            vec![
                ("data", Arg::Value(rows)),
                ("pool_size", ints(&[size, 1])),
                ("padding", ints(&[before, 0, size - 1 - before, 0])),
                ("count_include_pad", flag(true)),
            ],
        )?;
        let mean = n.reshape(mean, shape)?;
        let scaled = n.with_number("multiply", mean, alpha)?;
        let scaled = n.with_number("add", scaled, bias)?;
        let power = n.with_number("power", scaled, beta)?;
        n.binary("divide", x, power)
    }),
    one("MeanVarianceNormalization", 9, |n| {
        let x = n.value(0)?;
        let axes = n.ints("axes").unwrap_or_else(|| vec![0, 2, 3]);
        let mean = n.reduce("mean", x, &axes, true)?;
        let apart = n.binary("subtract", x, mean)?;
        let square = n.binary("multiply", apart, apart)?;
        let variance = n.reduce("mean", square, &axes, true)?;
        let deviation = n.unary("sqrt", variance)?;
        let deviation = n.with_number("add", deviation, 1e-9)?;
        n.binary("divide", apart, deviation)
    }),
    one("RMSNormalization", 23, |n| {
        n.ignore("stash_type");
        let (x, scale) = (n.value(0)?, n.value(1)?);
        let (axis, epsilon) = (n.int("axis", -1), n.float("epsilon", 1e-5));
        let rank = n.rank(x)?;
        let axes: Vec<i64> = (n.axis(axis, rank)? as i64..rank as i64).collect();
        let square = n.binary("multiply", x, x)?;
        let mean = n.reduce("mean", square, &axes, true)?;
        let mean = n.with_number("add", mean, epsilon)?;
        let root = n.unary("sqrt", mean)?;
        let y = n.binary("divide", x, root)?;
        n.binary("multiply", y, scale)
    }),
    one("Softmax", 7, |n| {
        by_rows(n, |n, x, axis| n.call("nn.softmax", vec![("data", Arg::Value(x)), ("axis", int(axis))]))
    }),
];

/// Normalisation by the mean and variance of the batch, which are mixed into the running ones.
fn batch_norm_in_training<'m>(n: &mut Node<'_, 'm>, momentum: f64) -> Result<Vec<Operand<'m>>> {
    let epsilon = n.float("epsilon", 1e-5);
    let x = n.value(0)?;
    let rank = n.rank(x)?;
    let axes: Vec<i64> = (0..rank as i64).filter(|&d| d != 1).collect();
    let mean = n.reduce("mean", x, &axes, true)?;
    let apart = n.binary("subtract", x, mean)?;
    let square = n.binary("multiply", apart, apart)?;
    let variance = n.reduce("mean", square, &axes, true)?;
    let deviation = n.with_number("add", variance, epsilon)?;
    let deviation = n.unary("sqrt", deviation)?;
    let mut y = n.binary("divide", apart, deviation)?;
    let mut along = vec![1; rank];
    along[1] = -1;
    for (i, op) in [(1, "multiply"), (2, "add")] {
        let v = n.value(i)?;
        let v = n.reshape_to(v, &along)?;
        y = n.binary(op, y, v)?;
    }
    let mut results = vec![Operand::Value(y)];
    for (i, new) in [(3, mean), (4, variance)] {
        let old = n.value(i)?;
        let shape = n.shape(old)?;
        let new = n.reshape(new, shape)?;
        let (old, new) = (n.with_number("multiply", old, momentum)?, n.with_number("multiply", new, 1.0 - momentum)?);
        results.push(Operand::Value(n.binary("add", old, new)?));
    }
    Ok(results)
}

/// A function along an axis. Before version 13 the axis and those behind it count as one.
fn by_rows(n: &mut Node<'_, '_>, f: fn(&mut Node<'_, '_>, ValueId, i64) -> Result<ValueId>) -> Result<ValueId> {
    let x = n.value(0)?;
    let shape = n.shape(x)?;
    let axis = n.int("axis", if n.version < 13 { 1 } else { -1 });
    let axis = n.axis(axis, shape.len())?;
    if n.version >= 13 || axis + 1 == shape.len() {
        return f(n, x, axis as i64);
    }
    let (mut outer, mut inner) = (n.index(1), n.index(1));
    for &e in &shape[..axis] {
        outer = n.arena().mul(outer, e);
    }
    for &e in &shape[axis..] {
        inner = n.arena().mul(inner, e);
    }
    let rows = n.reshape(x, vec![outer, inner])?;
    let y = f(n, rows, 1)?;
    n.reshape(y, shape)
}

impl Node<'_, '_> {
    /// A number of a type as an expression.
    fn number(&mut self, value: f64, dtype: DType) -> crate::ir::ExprId {
        if dtype.is_float() { self.arena().float(value, dtype) } else { self.arena().int(value as i64, dtype) }
    }
}
