//! Calls of operators, for tests: their types, mistakes and results.
//!
//! Results are computed by the library on top of this crate, which compiles and runs graphs.

use crate::graph::Function;
use crate::ir::Module;
use crate::script::{ParseOptions, parse};
use tvmr::arrays::Array;
use tvmr::graph::pass::{Context, GraphModule};
use tvmr::ir::DType;
use tvmr::model::Model;
use tvmr::workload::Setting;

/// An argument of type `float32`: its name, shape and elements.
pub(super) type Input<'a> = (&'a str, &'a [i64], &'a [f32]);

/// The numbers from 0 on, as elements of a shape.
pub(super) fn count(shape: &[i64]) -> Vec<f32> {
    (0..shape.iter().product::<i64>()).map(|v| v as f32).collect()
}

/// Varied numbers from -1 to 1, as elements of a shape.
pub(super) fn varied(shape: &[i64]) -> Vec<f32> {
    (0..shape.iter().product::<i64>()).map(|v| ((v * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// The text of a graph that returns a call.
fn text(params: &str, call: &str) -> String {
    format!(
        "@R.function\ndef main({params}):\n    with R.dataflow():\n        gv = {call}\n        R.output(gv)\n    return gv\n"
    )
}

fn parsed(params: &str, call: &str) -> Result<(Module, Vec<Function>), String> {
    match parse(&text(params, call), "test.tir", &ParseOptions::default()) {
        Ok(parsed) => Ok((parsed.module, parsed.graphs)),
        Err(e) => Err(e.to_string()),
    }
}

/// The type of the result of a call, such as `float32 [n, 3]`.
#[track_caller]
pub(super) fn type_of(params: &str, call: &str) -> String {
    let (_, graphs) = parsed(params, call).unwrap_or_else(|e| panic!("{e}"));
    let graph = &graphs[0];
    let types: Vec<String> = graph.output.values().iter().map(|&v| graph.ty(v).describe(&graph.arena)).collect();
    types.join(", ")
}

/// Checks that a call is refused with a message that contains some texts.
#[track_caller]
pub(super) fn refused(params: &str, call: &str, parts: &[&str]) {
    let Err(message) = parsed(params, call) else { panic!("{call} is accepted") };
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

/// The results of a call on arrays.
#[track_caller]
pub(super) fn results(inputs: &[Input<'_>], call: &str) -> Vec<Vec<f32>> {
    let params: Vec<String> =
        inputs.iter().map(|(name, shape, _)| format!("{name}: R.Tensor({}, \"float32\")", tuple(shape))).collect();
    let text = text(&params.join(", "), call);
    let parsed = tvmr::script::parse(&text, "test.tir", &Default::default()).unwrap_or_else(|e| panic!("{e}"));
    let module = GraphModule { module: parsed.module, functions: parsed.graphs };
    let arrays: Vec<Array> = inputs.iter().map(|&(_, shape, values)| floats(shape, values)).collect();
    let model = Model::compile(module, "main", &Context::default(), &Setting::native());
    let outputs = model.and_then(|m| m.run(&arrays)).unwrap_or_else(|e| panic!("{e}"));
    let elements = |array: &Array| {
        let (words, _) = array.data().as_chunks::<4>();
        match array.dtype() {
            DType::Int32 => words.iter().map(|&w| i32::from_le_bytes(w) as f32).collect(),
            _ => words.iter().map(|&w| f32::from_le_bytes(w)).collect(),
        }
    };
    outputs.iter().map(elements).collect()
}

/// Checks the only result of a call on arrays.
#[track_caller]
pub(super) fn check(inputs: &[Input<'_>], call: &str, expected: &[f32]) {
    let results = results(inputs, call);
    let [found] = &results[..] else { panic!("{call} has {} results", results.len()) };
    assert_eq!(found.len(), expected.len(), "{call}: {found:?}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{call}: element {i} is {a}, expected {b}\n{found:?}\n{expected:?}"
        );
    }
}

fn tuple(shape: &[i64]) -> String {
    let extents: Vec<String> = shape.iter().map(|e| format!("{e},")).collect();
    format!("({})", extents.join(" "))
}

fn floats(shape: &[i64], values: &[f32]) -> Array {
    Array::from(values).with_shape(shape).expect("an array")
}
