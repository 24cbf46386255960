//! Which values are the same in every call of a graph.

use super::function::{Callee, Function, ValueDef, ValueId};
use crate::ir::Symbol;

/// For each value of the function, whether it follows from weights and constants alone. Weights are the parameters behind the
/// inputs ([`Function::n_inputs`]). What follows from nothing, such as `R.zeros`, is the same in every call as well.
pub fn invariant_values(function: &Function) -> Vec<bool> {
    let mut invariant = vec![false; function.values.len()];
    for (v, value) in function.values.iter().enumerate() {
        invariant[v] = matches!(value.def, ValueDef::Constant(_));
    }
    for &ValueId(weight) in &function.params[function.n_inputs()..] {
        invariant[weight as usize] = true;
    }
    for &c in &function.order {
        let call = function.call(c);
        // What a kernel writes in place of an argument is computed in each call: the argument's own elements stay as they are.
        let is_in_place = matches!(call.callee, Callee::CallTirInplace(_));
        invariant[call.result.index()] = !is_in_place && call.inputs().all(|v| invariant[v.index()]);
    }
    invariant
}

/// Whether a call is a fill, such as `R.zeros` or the broadcast of a scalar: it reads at most single elements, and no results of
/// calls. Computing its elements where they are needed is cheaper than reading them from memory.
pub fn is_fill(function: &Function, result: ValueId) -> bool {
    let one = |v| function.ty(v).as_tensor().and_then(|t| t.constant_shape(&function.arena)).is_some_and(is_single);
    let is_known = |v| !matches!(function.value(v).def, ValueDef::Call(_));
    let reads_little = |call: &super::Call| call.inputs().all(|v| is_known(v) && one(v));
    // A single result is no fill: what computes it would run again for each element that needs it.
    !one(result) && function.definition(result).is_some_and(reads_little)
}

fn is_single(shape: Vec<i64>) -> bool {
    shape.iter().all(|&n| n == 1)
}

/// The prim_funcs that compute values which depend on the inputs, once for each call. Those of invariant values run only once, when
/// the weights are known.
pub fn recurring_calls(function: &Function) -> Vec<Symbol> {
    let invariant = invariant_values(function);
    let recurring = |&c| match function.call(c).callee {
        Callee::CallTir(name) | Callee::CallTirInplace(name) if !invariant[function.call(c).result.index()] => {
            Some(name)
        }
        _ => None,
    };
    function.order.iter().filter_map(recurring).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{ParseOptions, parse};

    #[test]
    fn what_follows_from_weights_is_invariant() {
        let text = r#"
@R.function
def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((16, 8), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        t = R.permute_dims(w)
        s = R.multiply(t, R.const(2.0, "float32"))
        y = R.matmul(x, s)
        z = R.zeros((4, 16), "float32")
        out = R.add(y, z)
        R.output(out)
    return out
"#;
        let parsed = parse(text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let function = &parsed.graphs[0];
        let invariant = invariant_values(function);
        let found: Vec<&str> = (0..function.values.len())
            .filter(|&v| invariant[v] && !matches!(function.values[v].def, ValueDef::Constant(_)))
            .map(|v| function.values[v].name.as_str())
            .collect();
        assert_eq!(found, ["w", "t", "s", "z"]);
    }

    #[test]
    fn constants_are_invariant_without_weights() {
        let text = r#"
@R.function
def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
    with R.dataflow():
        c = R.multiply(R.arange(0, 4, dtype="float32"), R.const(2.0, "float32"))
        s = R.multiply(w, w)
        y = R.add(R.multiply(x, c), s)
        R.output(y)
    return y
"#;
        let parsed = parse(text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let function = &parsed.graphs[0];
        let invariant = invariant_values(function);
        let is_invariant = |name: &str| {
            let v = function.values.iter().position(|v| v.name == name).expect("a value");
            invariant[v]
        };
        assert_eq!(["c", "s", "y"].map(is_invariant), [true, false, false]);
    }

    #[test]
    fn fills_read_single_elements() {
        let text = r#"
@R.function
def main(x: R.Tensor((4,), "float32"), w: R.Tensor((1,), "float32")):
    R.func_attr({"num_input": 1})
    with R.dataflow():
        zeros = R.zeros((4, 8), "float32")
        scalars = R.broadcast_to(w, (8,))
        root = R.sqrt(w)
        roots = R.broadcast_to(root, (8,))
        exp = R.exp(scalars)
        varying = R.exp(x)
        R.output(zeros, scalars, roots, exp, varying)
    return (zeros, scalars, roots, exp, varying)
"#;
        let parsed = parse(text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let function = &parsed.graphs[0];
        let results = function.order.iter().map(|&c| function.call(c).result);
        let fills: Vec<&str> =
            results.filter(|&v| is_fill(function, v)).map(|v| function.value(v).name.as_str()).collect();
        assert_eq!(fills, ["zeros", "scalars"]);
    }
}
