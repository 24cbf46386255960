//! ONNX models, as graphs of relax's operators.
//!
//! [`Model`] is a file that was read; [`import`] makes a graph of it. Initializers become weights: parameters behind the inputs,
//! whose elements [`Model::weight`] reads. What shapes follow from is computed while the nodes are translated.
//!
//! | file | content |
//! | --- | --- |
//! | [`model`] | a file, its checks, its weights; start here |
//! | [`proto`] | the messages of the file |
//! | [`tensor`], [`types`] | tensors with known elements, also in other files; their types |
//! | [`names`] | names of ONNX as names of Python |
//! | [`translate`] | from nodes to calls |
//! | [`node`] | what the translation of an operator is given |
//! | [`compose`] | calls that many translations are composed of |
//! | [`given`] | what is known of inputs before that: symbols, shapes, elements |
//! | [`extents`] | integers that are known while nodes are translated, perhaps symbolic |
//! | [`fold`] | operators on such integers |
//! | [`op`] | the table of operators, one file for each group |
//!
//! # Invariants
//! * Files are untrusted: no content panics, and no file outside of the model's folder is read.
//! * What is not understood is refused: an attribute, argument or result that a translation does not read is an error.
//!
//! It uses `graph`, whose text `script` prints and reads.

mod compose;
mod extents;
mod fold;
mod given;
mod model;
mod names;
mod node;
#[cfg(test)]
mod numeric_tests;
mod op;
mod proto;
mod tensor;
#[cfg(test)]
mod tests;
mod translate;
mod types;

pub use given::{Given, Imported, Unsupported};
pub use model::{Model, is_model};
pub use translate::{import, signature};
