//! Which values are the same in every call of a graph.

use super::function::{Function, ValueDef, ValueId};

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
        invariant[call.result.index()] = call.inputs().all(|v| invariant[v.index()]);
    }
    invariant
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
}
