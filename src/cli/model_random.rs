//! Random inputs and weights of models.
//!
//! Values are uniform in [-1, 1), as measurement has them. A deep network would make ever larger values of such weights, until they
//! are infinite and say nothing of its kernels. So weights are scaled ([`scale`]) so that values keep their size from layer to layer,
//! and variances are positive ([`variances`]).

use super::exit::Failure;
use super::model_kernels::ModelKernels;
use super::run_files::Value;
use crate::arrays::Array;
use crate::graph::{self, Arg, Callee, ValueId};
use crate::ir::interp::{Tensor, Value as Scalar};
use crate::loopir::Access;
use crate::measure::{Arguments, ParamSpec};
use crate::model::Model;
use crate::run::Parameter;

/// The arrays of a model's inputs and weights, random for those that are not given. `graph` is the model as it was read.
pub(super) fn with_random(
    model: &Model,
    graph: &graph::Function,
    kernels: &ModelKernels,
    given: Vec<Option<Value>>,
    seed: u64,
) -> Result<Vec<Array>, Failure> {
    let params = model.params();
    let variances = variances(graph);
    let n_inputs = model.inputs().len();
    let array = |(i, value): (usize, Option<Value>)| {
        let Some(value) = value else {
            let drawn = random(&params[i], i, seed, kernels.index_limit(i))?;
            return match i < n_inputs {
                true => Ok(drawn),
                false => weight(drawn, variances.get(i) == Some(&true)),
            };
        };
        Ok(value.array)
    };
    given.into_iter().enumerate().take(model.program().inputs.len()).map(array).collect()
}

/// A random array, as measurement has them. Indices are below a limit.
fn random(param: &Parameter, i: usize, seed: u64, below: Option<i64>) -> Result<Array, Failure> {
    let mut spec = ParamSpec::new(&param.name, param.dtype, &param.shape, Access::In);
    spec.below = below;
    let args = Arguments::new(&[spec], seed.wrapping_add(i as u64)).map_err(|e| machine(&e))?;
    Array::new(param.dtype, &param.shape, args.bytes(0).to_vec()).map_err(|e| machine(&e))
}

/// A random array as a weight: floats are scaled; those of a variance are between 0.5 and 1.5.
fn weight(array: Array, is_variance: bool) -> Result<Array, Failure> {
    let (dtype, shape) = (array.dtype(), array.shape().to_vec());
    let factor = scale(&shape);
    if !dtype.is_float() || factor == 1.0 && !is_variance {
        return Ok(array);
    }
    let mut tensor = Tensor { dtype, shape, data: array.into_data() };
    for i in 0..tensor.n_elements() {
        let value = tensor.get(i).as_f64();
        let value = if is_variance { value.abs() + 0.5 } else { value * factor };
        tensor.set(i, Scalar::Float(value));
    }
    Array::new(dtype, &tensor.shape, tensor.data).map_err(|e| machine(&e))
}

fn machine(error: &dyn std::fmt::Display) -> Failure {
    Failure::Machine(error.to_string(), String::new())
}

/// The factor for uniform weights of a shape that gives sums over `fan` products the size of their inputs, if a ReLU follows: the
/// variance of He et al., "Delving Deep into Rectifiers" (2015). Vectors, such as biases, stay as they are.
///
/// It is not known which dimensions of a weight are summed over. Of a matrix, the larger extent counts; of a filter, all but the number
/// of its output channels, which stands first or last.
fn scale(shape: &[i64]) -> f64 {
    let extent = |i: Option<&i64>| i.map_or(1.0, |&n| n as f64);
    let (first, last) = (extent(shape.first()), extent(shape.last()));
    let fan = match shape {
        [] | [_] => return 1.0,
        [_, _] => first.max(last),
        _ => shape.iter().map(|&n| n as f64).product::<f64>() / first.max(last),
    };
    (3.0 * 2.0 / fan.max(1.0)).sqrt()
}

/// Whether each parameter of a graph is the variance of a batch normalisation.
fn variances(graph: &graph::Function) -> Vec<bool> {
    let mut found = vec![false; graph.params.len()];
    for call in graph.order.iter().map(|&c| graph.call(c)) {
        let Callee::Op(op) = call.callee else { continue };
        if op.name != "nn.batch_norm" {
            continue;
        }
        if let Some(Arg::Value(variance)) = op.position("moving_var").and_then(|i| call.args.get(i)) {
            let source = converted(graph, *variance);
            graph.params.iter().zip(&mut found).for_each(|(&p, found)| *found |= p == source);
        }
    }
    found
}

/// The value that conversions of its type, and other names, begin with.
fn converted(graph: &graph::Function, v: ValueId) -> ValueId {
    let mut v = graph.resolved(v);
    while let Some(call) = graph.definition(v)
        && let (Callee::Op(op), Some(Arg::Value(source))) = (call.callee, call.args.first())
        && op.name == "astype"
    {
        v = graph.resolved(*source);
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;
    use crate::script::{ParseOptions, parse};

    #[test]
    fn weights_keep_the_size_of_values() {
        assert_eq!((scale(&[]), scale(&[7])), (1.0, 1.0));
        assert_eq!((scale(&[4, 6]), scale(&[6, 2])), (1.0, 1.0));
        // 8 output channels, of 2 x 3 x 4 products each, in both orders.
        assert_eq!((scale(&[8, 2, 3, 4]), scale(&[3, 4, 2, 8])), (0.5, 0.5));
        let array = |values: [f32; 3]| Array::from(&values[..]).with_shape(&[1, 1, 3]).expect("an array");
        let scaled = |is_variance| weight(array([1.0, -0.5, 0.0]), is_variance).ok();
        assert_eq!(scaled(true), Some(array([1.5, 1.0, 0.5])));
        let factor = 6f64.sqrt() as f32;
        assert_eq!(scaled(false), Some(array([factor, -0.5 * factor, 0.0])));
        let integers = Array::new(DType::Int8, &[2, 2], vec![1, 2, 3, 4]).expect("an array");
        assert_eq!(weight(integers.clone(), false).ok(), Some(integers));
    }

    #[test]
    fn batch_normalisations_tell_which_weights_are_variances() {
        let vector = "R.Tensor((4,), \"float32\")";
        let text = format!(
            "@R.function
def main(x: R.Tensor((1, 4), \"float32\"), g: {vector}, m: {vector}, v: R.Tensor((4,), \"float16\")):
    R.func_attr({{\"num_input\": 1}})
    with R.dataflow():
        s = R.astype(v, \"float32\")
        y = R.nn.batch_norm(x, g, g, m, s, axis=1, training=False)[0]
        R.output(y)
    return y
"
        );
        let parsed = parse(&text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(variances(&parsed.graphs[0]), [false, false, false, true]);
    }
}
