//! Models: graphs that are compiled for this machine and called on arrays.
//!
//! A [`Model`] owns the machine code of the kernels of a graph, the weights and the memory of intermediate values. A call runs
//! the kernels one after the other; between two of them, it only picks their pointers. What follows from the weights alone is computed
//! when they are loaded ([`Model::load_weights`]).
//!
//! ```
//! use tvmr::arrays::Array;
//! use tvmr::graph::pass::{Context, GraphModule};
//! use tvmr::model::Model;
//! use tvmr::script::{ParseOptions, parse};
//! use tvmr::workload::Setting;
//!
//! let text = r#"
//! @R.function
//! def main(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
//!     with R.dataflow():
//!         lv = R.multiply(x, w)
//!         gv = R.nn.relu(lv)
//!         R.output(gv)
//!     return gv
//! "#;
//! let parsed = parse(text, "model.tir", &ParseOptions::default()).map_err(|e| e.render(false))?;
//! let module = GraphModule { module: parsed.module, functions: parsed.graphs };
//! let model = Model::compile(module, "main", &Context::default(), &Setting::native())?;
//! let array = |v: [f32; 2]| Array::from(&v[..]);
//! let outputs = model.run(&[array([1.0, -2.0]), array([3.0, 4.0])])?;
//! assert_eq!(outputs, [array([3.0, 0.0])]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! * Arrays have the type and shape of their parameters; nothing is converted.
//! * No two values that live at the same time share memory ([`crate::graph::memory`]), but for the parts of a concatenation and its
//!   result ([`crate::graph::joined`]): no step writes the result.
//! * [`CallableModel`] runs on arrays of the caller; [`Model::bind`] copies them.
//! * A model may be called from several threads at once: each call has its own memory for intermediate values.

mod agreement;
mod executable;
mod in_place;
mod interpreted;
mod memory;
mod preparation;
mod reference;
mod step_kernels;
mod step_times;
#[cfg(test)]
mod tests;

pub use agreement::{Agreement, OutputAgreement};
pub use executable::{Model, ModelError};
pub use in_place::CallableModel;
pub use preparation::Preparations;
pub use reference::Reference;
pub use step_times::Rows;
