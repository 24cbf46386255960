//! Recurrent networks, unrolled: a step for each position. The products of all inputs with their weights are one matrix product.

use super::elementwise::{exp_less_one, hard_sigmoid, softplus};
use super::*;
use crate::ir::DType;

/// Longer sequences are refused.
const MOST_STEPS: i64 = 1024;

pub(super) static OPERATORS: &[Operator] =
    &[many("GRU", 7, |n| layer(n, &GRU)), many("LSTM", 7, |n| layer(n, &LSTM)), many("RNN", 7, |n| layer(n, &RNN))];

/// A kind of recurrent network.
struct Cell {
    /// The rows of weights for each hidden element.
    gates: i64,
    /// The functions, where none are given.
    functions: &'static [&'static str],
    has_state: bool,
    step: fn(&mut Node<'_, '_>, &Direction, Step) -> Result<(ValueId, ValueId)>,
}

static GRU: Cell = Cell { gates: 3, functions: &["Sigmoid", "Tanh"], has_state: false, step: gru };
static LSTM: Cell = Cell { gates: 4, functions: &["Sigmoid", "Tanh", "Tanh"], has_state: true, step: lstm };
static RNN: Cell = Cell { gates: 1, functions: &["Tanh"], has_state: false, step: rnn };

/// A function with its parameters.
#[derive(Clone)]
struct Function {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
}

/// What the steps of a direction share.
struct Direction {
    hidden: i64,
    functions: Vec<Function>,
    clip: Option<f64>,
    /// Weights of the hidden elements, transposed: `[hidden, gates * hidden]`.
    weights: ValueId,
    /// Biases of the products with hidden elements: `[gates * hidden]`.
    bias: Option<ValueId>,
    /// Peepholes of the input, output and forget gates.
    peepholes: Option<[ValueId; 3]>,
    /// `linear_before_reset` of a GRU.
    is_linear: bool,
    /// `input_forget` of an LSTM.
    is_coupled: bool,
}

/// A step: the products of its inputs `[batch, gates * hidden]`, the hidden elements, and the cells.
#[derive(Clone, Copy)]
struct Step {
    x: ValueId,
    h: ValueId,
    c: ValueId,
}

fn layer<'m>(n: &mut Node<'_, 'm>, cell: &Cell) -> Result<Vec<Operand<'m>>> {
    let by_batch = n.int("layout", 0) == 1;
    let (mut x, w, r) = (n.value(0)?, n.value(1)?, n.value(2)?);
    if by_batch {
        x = n.permute(x, &[1, 0, 2])?;
    }
    let (shape, dtype) = (n.shape(x)?, n.dtype(x)?);
    let [_, batch, _] = shape[..] else { return n.fail(format!("`{}` needs 3 dimensions", n.op_type())) };
    let steps = n.known_extent(x, 0)?;
    if !(1..=MOST_STEPS).contains(&steps) {
        return n.fail(format!("`{}` of {steps} steps is not supported, but of 1 to {MOST_STEPS}", n.op_type()));
    }
    let hidden = n.known_shape(r)?.last().copied().unwrap_or(0);
    n.ignore("hidden_size");
    let reverse = match n.text("direction", "forward").as_str() {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return n.fail(format!("`{}` has the direction `{other}`", n.op_type())),
    };
    let functions = functions(n, cell, reverse.len())?;
    let clip = n.opt_float("clip");
    let (is_linear, is_coupled) = (n.flag("linear_before_reset", false), n.flag("input_forget", false));
    let (bias, lengths) = (n.opt_value(3)?, n.opt_value(4)?);
    let lengths = match lengths {
        Some(lengths) => {
            let lengths = n.cast(lengths, DType::Int64)?;
            let one = n.index(1);
            Some(n.reshape(lengths, vec![batch, one])?)
        }
        None => None,
    };
    let initial = |n: &mut Node<'_, '_>, i: usize| match n.opt_value(i)? {
        Some(v) if by_batch => n.permute(v, &[1, 0, 2]).map(Some),
        v => Ok(v),
    };
    let initial_h = initial(n, 5)?;
    let initial_c = if cell.has_state { initial(n, 6)? } else { None };
    let peepholes = if cell.has_state { n.opt_value(7)? } else { None };
    let rows = cell.gates * hidden;
    let (mut all_y, mut all_h, mut all_c) = (Vec::new(), Vec::new(), Vec::new());
    for (d, is_reverse) in reverse.into_iter().enumerate() {
        let of = |n: &mut Node<'_, '_>, v: ValueId| n.at(v, 0, d as i64);
        let weights = of(n, w)?;
        let weights = n.permute(weights, &[1, 0])?;
        let mut products = n.matmul(x, weights)?;
        let weights = of(n, r)?;
        let weights = n.permute(weights, &[1, 0])?;
        let mut behind = None;
        if let Some(bias) = bias {
            let bias = of(n, bias)?;
            let (front, back) = (n.part(bias, 0, (0, rows), 1)?, n.part(bias, 0, (rows, 2 * rows), 1)?);
            products = n.binary("add", products, front)?;
            behind = Some(back);
        }
        let peepholes = match peepholes {
            Some(p) => {
                let p = of(n, p)?;
                let mut part = |i: i64| n.part(p, 0, (i * hidden, (i + 1) * hidden), 1);
                Some([part(0)?, part(1)?, part(2)?])
            }
            None => None,
        };
        let each = cell.functions.len();
        let functions = functions.iter().skip(d * each).take(each).cloned().collect();
        let direction = Direction { hidden, functions, clip, weights, bias: behind, peepholes, is_linear, is_coupled };
        let start = |n: &mut Node<'_, '_>, v: Option<ValueId>| match v {
            Some(v) => n.at(v, 0, d as i64),
            None => {
                let hidden = n.index(hidden);
                n.full(vec![batch, hidden], 0.0, dtype)
            }
        };
        let (mut h, mut c) = (start(n, initial_h)?, start(n, initial_c)?);
        let mut results = Vec::new();
        for i in 0..steps {
            let t = if is_reverse { steps - 1 - i } else { i };
            let x = n.at(products, 0, t)?;
            let (mut new_h, mut new_c) = (cell.step)(n, &direction, Step { x, h, c })?;
            let mut y = new_h;
            if let Some(lengths) = lengths {
                // Behind the end of a sequence nothing changes, and results are 0.
                let is_in = n.with_number("greater", lengths, t as f64)?;
                let zero = n.zeros_like(new_h)?;
                y = n.select(is_in, new_h, zero)?;
                new_h = n.select(is_in, new_h, h)?;
                new_c = if cell.has_state { n.select(is_in, new_c, c)? } else { new_c };
            }
            (h, c) = (new_h, new_c);
            results.push(y);
        }
        if is_reverse {
            results.reverse();
        }
        let axis = if by_batch { 1 } else { 0 };
        all_y.push(n.call("stack", vec![("tensors", Arg::Values(results)), ("axis", int(axis))])?);
        all_h.push(h);
        all_c.push(c);
    }
    // Directions lie beside the batch: [step, direction, batch, hidden], or [batch, step, direction, hidden].
    let at = |axis: i64, all: Vec<ValueId>| vec![("tensors", Arg::Values(all)), ("axis", int(axis))];
    let y = n.call("stack", at(if by_batch { 2 } else { 1 }, all_y))?;
    let ends = if by_batch { 1 } else { 0 };
    let h = n.call("stack", at(ends, all_h))?;
    let mut results = vec![Operand::Value(y), Operand::Value(h)];
    if cell.has_state {
        results.push(Operand::Value(n.call("stack", at(ends, all_c))?));
    }
    Ok(results)
}

/// The functions of all directions.
fn functions(n: &mut Node<'_, '_>, cell: &Cell, directions: usize) -> Result<Vec<Function>> {
    let defaults = || cell.functions.iter().cycle().take(directions * cell.functions.len());
    let names = n.texts("activations").unwrap_or_else(|| defaults().map(|&name| name.to_owned()).collect());
    if names.len() != directions * cell.functions.len() {
        return n.fail(format!("`{}` has {} functions of activation", n.op_type(), names.len()));
    }
    let mut numbers = |name: &str| n.floats(name).unwrap_or_default().iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let (alphas, betas) = (numbers("activation_alpha"), numbers("activation_beta"));
    let (mut alphas, mut betas) = (alphas.into_iter(), betas.into_iter());
    let mut all = Vec::new();
    for name in names {
        let name = name.to_lowercase();
        // Numbers are consumed by the functions that have them.
        let takes_alpha =
            matches!(name.as_str(), "affine" | "leakyrelu" | "thresholdedrelu" | "scaledtanh" | "hardsigmoid" | "elu");
        let takes_beta = matches!(name.as_str(), "affine" | "scaledtanh" | "hardsigmoid");
        let alpha = if takes_alpha { alphas.next() } else { None };
        let beta = if takes_beta { betas.next() } else { None };
        all.push(Function { name, alpha, beta });
    }
    Ok(all)
}

impl Direction {
    /// A function of the sum that a gate has, which is clipped.
    fn activated(&self, n: &mut Node<'_, '_>, which: usize, mut x: ValueId) -> Result<ValueId> {
        if let Some(clip) = self.clip {
            x = n.with_number("maximum", x, -clip)?;
            x = n.with_number("minimum", x, clip)?;
        }
        self.function(n, which, x)
    }

    fn function(&self, n: &mut Node<'_, '_>, which: usize, x: ValueId) -> Result<ValueId> {
        let Some(Function { name, alpha, beta }) = self.functions.get(which) else {
            return n.fail(format!("`{}` lacks a function of activation", n.op_type()));
        };
        match name.as_str() {
            "relu" => n.unary("nn.relu", x),
            "tanh" => n.unary("tanh", x),
            "sigmoid" => n.unary("sigmoid", x),
            "affine" => {
                let y = n.with_number("multiply", x, alpha.unwrap_or(1.0))?;
                n.with_number("add", y, beta.unwrap_or(0.0))
            }
            "leakyrelu" => {
                let alpha = alpha.unwrap_or(0.01);
                n.call("nn.leakyrelu", vec![("data", Arg::Value(x)), ("alpha", float(alpha))])
            }
            "thresholdedrelu" => {
                let is_above = n.with_number("greater_equal", x, alpha.unwrap_or(1.0))?;
                let zero = n.zeros_like(x)?;
                n.select(is_above, x, zero)
            }
            "scaledtanh" => {
                let y = n.with_number("multiply", x, beta.unwrap_or(1.0))?;
                let y = n.unary("tanh", y)?;
                n.with_number("multiply", y, alpha.unwrap_or(1.0))
            }
            "hardsigmoid" => hard_sigmoid(n, x, alpha.unwrap_or(0.2), beta.unwrap_or(0.5)),
            "elu" => {
                let y = exp_less_one(n, x)?;
                let y = n.with_number("multiply", y, alpha.unwrap_or(1.0))?;
                let is_negative = n.with_number("less", x, 0.0)?;
                n.select(is_negative, y, x)
            }
            "softsign" => {
                let a = n.unary("abs", x)?;
                let a = n.with_number("add", a, 1.0)?;
                n.binary("divide", x, a)
            }
            "softplus" => softplus(n, x),
            other => n.fail(format!("`{}` has the function of activation `{other}`", n.op_type())),
        }
    }

    /// A gate's part of the sums of all gates.
    fn gate(&self, n: &mut Node<'_, '_>, sums: ValueId, i: i64) -> Result<ValueId> {
        n.part(sums, 1, (i * self.hidden, (i + 1) * self.hidden), 1)
    }

    /// The products of hidden elements for all gates, with their bias.
    fn of_hidden(&self, n: &mut Node<'_, '_>, h: ValueId) -> Result<ValueId> {
        let sums = n.matmul(h, self.weights)?;
        match self.bias {
            Some(bias) => n.binary("add", sums, bias),
            None => Ok(sums),
        }
    }
}

fn rnn(n: &mut Node<'_, '_>, d: &Direction, s: Step) -> Result<(ValueId, ValueId)> {
    let sums = d.of_hidden(n, s.h)?;
    let sums = n.binary("add", s.x, sums)?;
    let h = d.activated(n, 0, sums)?;
    Ok((h, s.c))
}

/// `z = f(…)`, `r = f(…)`, `h = (1 - z) * g(…) + z * h`
fn gru(n: &mut Node<'_, '_>, d: &Direction, s: Step) -> Result<(ValueId, ValueId)> {
    let sums = d.of_hidden(n, s.h)?;
    let mut gate = |i: i64| {
        let (a, b) = (d.gate(n, s.x, i)?, d.gate(n, sums, i)?);
        let sum = n.binary("add", a, b)?;
        d.activated(n, 0, sum)
    };
    let (update, reset) = (gate(0)?, gate(1)?);
    let of_input = d.gate(n, s.x, 2)?;
    let of_hidden = if d.is_linear {
        let of_hidden = d.gate(n, sums, 2)?;
        n.binary("multiply", reset, of_hidden)?
    } else {
        let kept = n.binary("multiply", reset, s.h)?;
        let weights = d.gate(n, d.weights, 2)?;
        let product = n.matmul(kept, weights)?;
        match d.bias {
            Some(bias) => {
                let bias = n.part(bias, 0, (2 * d.hidden, 3 * d.hidden), 1)?;
                n.binary("add", product, bias)?
            }
            None => product,
        }
    };
    let sum = n.binary("add", of_input, of_hidden)?;
    let new = d.activated(n, 1, sum)?;
    let kept = n.binary("multiply", update, s.h)?;
    let changed = n.binary("multiply", update, new)?;
    let changed = n.binary("subtract", new, changed)?;
    Ok((n.binary("add", changed, kept)?, s.c))
}

/// `c = f * c + i * g(…)`, `h = o * h(c)`; gates are in the order input, output, forget, cell.
fn lstm(n: &mut Node<'_, '_>, d: &Direction, s: Step) -> Result<(ValueId, ValueId)> {
    let sums = d.of_hidden(n, s.h)?;
    let sums = n.binary("add", s.x, sums)?;
    let peep = |n: &mut Node<'_, '_>, gate: ValueId, i: usize, c: ValueId| match d.peepholes {
        Some(all) => {
            let seen = n.binary("multiply", all[i], c)?;
            n.binary("add", gate, seen)
        }
        None => Ok(gate),
    };
    let input = d.gate(n, sums, 0)?;
    let input = peep(n, input, 0, s.c)?;
    let input = d.activated(n, 0, input)?;
    let forget = if d.is_coupled {
        let one = n.full_like(input, 1.0)?;
        n.binary("subtract", one, input)?
    } else {
        let forget = d.gate(n, sums, 2)?;
        let forget = peep(n, forget, 2, s.c)?;
        d.activated(n, 0, forget)?
    };
    let new = d.gate(n, sums, 3)?;
    let new = d.activated(n, 1, new)?;
    let (kept, added) = (n.binary("multiply", forget, s.c)?, n.binary("multiply", input, new)?);
    let c = n.binary("add", kept, added)?;
    let output = d.gate(n, sums, 1)?;
    let output = peep(n, output, 1, c)?;
    let output = d.activated(n, 0, output)?;
    let shown = d.function(n, 2, c)?;
    Ok((n.binary("multiply", output, shown)?, c))
}

impl Node<'_, '_> {
    fn full_like(&mut self, x: ValueId, value: f64) -> Result<ValueId> {
        let (shape, dtype) = (self.shape(x)?, self.dtype(x)?);
        self.full(shape, value, dtype)
    }
}
