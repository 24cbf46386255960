//! Steps of optimisers.

use super::*;

const DOMAIN: &str = "ai.onnx.preview.training";

const fn optimiser(name: &'static str, rule: for<'m> fn(&mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>>) -> Operator {
    Operator { domain: DOMAIN, name, versions: (1, 1), rule: Rule::Many(rule) }
}

pub(super) static OPERATORS: &[Operator] = &[
    optimiser("Adagrad", |n| {
        let (norm, decay) = (n.float("norm_coefficient", 0.0), n.float("decay_factor", 0.0));
        let epsilon = n.float("epsilon", 1e-6);
        let (rate, count) = (n.value(0)?, n.value(1)?);
        let dtype = n.dtype(rate)?;
        let count = n.cast(count, dtype)?;
        let slowed = n.with_number("multiply", count, decay)?;
        let slowed = n.with_number("add", slowed, 1.0)?;
        let rate = n.binary("divide", rate, slowed)?;
        each(n, 3, |n, of| {
            let g = regularised(n, of[0], of[1], norm)?;
            let square = n.binary("multiply", g, g)?;
            let h = n.binary("add", of[2], square)?;
            let root = n.unary("sqrt", h)?;
            let root = n.with_number("add", root, epsilon)?;
            let step = n.binary("multiply", rate, g)?;
            let step = n.binary("divide", step, root)?;
            Ok(vec![n.binary("subtract", of[0], step)?, h])
        })
    }),
    optimiser("Adam", |n| {
        let (alpha, beta) = (n.float("alpha", 0.9), n.float("beta", 0.999));
        let (norm, after) = (n.float("norm_coefficient", 0.0), n.float("norm_coefficient_post", 0.0));
        let epsilon = n.float("epsilon", 1e-6);
        let (rate, count) = (n.value(0)?, n.value(1)?);
        let dtype = n.dtype(rate)?;
        let is_first = n.with_number("less_equal", count, 0.0)?;
        let count = n.cast(count, dtype)?;
        let mut left = |base: f64| {
            let base = n.scalar(base, dtype)?;
            let power = n.binary("power", base, count)?;
            let one = n.scalar(1.0, dtype)?;
            n.binary("subtract", one, power)
        };
        let (left_alpha, left_beta) = (left(alpha)?, left(beta)?);
        let root = n.unary("sqrt", left_beta)?;
        let corrected = n.binary("multiply", rate, root)?;
        let corrected = n.binary("divide", corrected, left_alpha)?;
        let rate = n.select(is_first, rate, corrected)?;
        each(n, 4, |n, of| {
            let g = regularised(n, of[0], of[1], norm)?;
            let v = mixed(n, of[2], g, alpha)?;
            let square = n.binary("multiply", g, g)?;
            let h = mixed(n, of[3], square, beta)?;
            let root = n.unary("sqrt", h)?;
            let root = n.with_number("add", root, epsilon)?;
            let step = n.binary("multiply", rate, v)?;
            let step = n.binary("divide", step, root)?;
            let x = n.binary("subtract", of[0], step)?;
            Ok(vec![n.with_number("multiply", x, 1.0 - after)?, v, h])
        })
    }),
    optimiser("Momentum", |n| {
        let (alpha, beta, norm) = (n.float("alpha", 0.0), n.float("beta", 0.0), n.float("norm_coefficient", 0.0));
        let is_nesterov = match n.text("mode", "").as_str() {
            "nesterov" => true,
            "standard" => false,
            other => return n.fail(format!("`Momentum` has the mode `{other}`")),
        };
        let (rate, count) = (n.value(0)?, n.value(1)?);
        let dtype = n.dtype(rate)?;
        let is_first = n.with_number("less_equal", count, 0.0)?;
        let (one, beta) = (n.scalar(1.0, dtype)?, n.scalar(beta, dtype)?);
        let beta = n.select(is_first, one, beta)?;
        each(n, 3, |n, of| {
            let g = regularised(n, of[0], of[1], norm)?;
            let (kept, new) = (n.with_number("multiply", of[2], alpha)?, n.binary("multiply", beta, g)?);
            let v = n.binary("add", kept, new)?;
            let mut direction = v;
            if is_nesterov {
                let ahead = n.with_number("multiply", v, alpha)?;
                direction = n.binary("add", g, ahead)?;
            }
            let step = n.binary("multiply", rate, direction)?;
            Ok(vec![n.binary("subtract", of[0], step)?, v])
        })
    }),
];

/// A step for each tensor. Behind the rate and the count are all tensors, then all gradients, then what else is kept of them; results
/// are in the same order, without gradients.
fn each<'m>(
    n: &mut Node<'_, 'm>,
    kinds: usize,
    step: impl Fn(&mut Node<'_, 'm>, &[ValueId]) -> Result<Vec<ValueId>>,
) -> Result<Vec<Operand<'m>>> {
    let all = (2..n.n_inputs()).map(|i| n.value(i)).collect::<Result<Vec<_>>>()?;
    let count = all.len() / kinds;
    if count == 0 || count * kinds != all.len() {
        return n.fail(format!("`{}` has {} tensors, expected a multiple of {kinds}", n.op_type(), all.len()));
    }
    let mut results = vec![Vec::new(); kinds - 1];
    for i in 0..count {
        let of: Vec<ValueId> = (0..kinds).map(|kind| all[kind * count + i]).collect();
        for (kind, v) in results.iter_mut().zip(step(n, &of)?) {
            kind.push(Operand::Value(v));
        }
    }
    Ok(results.concat())
}

/// The gradient with that of the norm.
fn regularised(n: &mut Node<'_, '_>, x: ValueId, g: ValueId, norm: f64) -> Result<ValueId> {
    if norm == 0.0 {
        return Ok(g);
    }
    let x = n.with_number("multiply", x, norm)?;
    n.binary("add", x, g)
}

/// `share * old + (1 - share) * new`
fn mixed(n: &mut Node<'_, '_>, old: ValueId, new: ValueId, share: f64) -> Result<ValueId> {
    let (old, new) = (n.with_number("multiply", old, share)?, n.with_number("multiply", new, 1.0 - share)?);
    n.binary("add", old, new)
}
