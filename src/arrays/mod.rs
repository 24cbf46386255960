//! Files of arrays: npy, npz and safetensors, read and written; the weights of ONNX models, read.
//!
//! ```no_run
//! use std::path::Path;
//! use tvmr::arrays::{self, ArrayFile};
//! use tvmr::ir::DType;
//!
//! let file = ArrayFile::open(Path::new("weights.npz"))?;
//! let i = file.names().iter().position(|name| *name == "W").expect("it has `W`");
//! println!("{} {:?}", file.header(i)?.stored, file.header(i)?.shape);
//! let w = file.read(i, Some(DType::Float32))?;
//! arrays::write(Path::new("W.npy"), &[("W", &w)])?;
//! # Ok::<(), arrays::ArrayError>(())
//! ```
//!
//! | file | content |
//! | --- | --- |
//! | [`mod@array`] | an array in memory |
//! | [`element`] | single elements |
//! | [`mod@file`] | an open file; start here |
//! | [`mod@names`] | which array a parameter's name means |
//! | [`save`] | writing files |
//! | [`header`], [`npy`] | the npy format |
//! | [`npz`] | the npz format: npy files in a zip archive |
//! | [`tensors`] | the safetensors format |
//! | [`order`] | other orders of elements and bytes |
//! | [`bytes`] | the bytes of a file, on disk or in memory |
//! | [`error`] | errors |
//!
//! # Invariants
//! * Files are untrusted. No content panics; memory is asked for only after sizes agree with the file.
//! * Elements are never converted: not to another type, nor to another shape. Column-major and big-endian arrays are brought
//!   into the order of kernels, which changes no value.
//! * A file is written completely or not at all.
//!
//! npy has no name for `bfloat16` and most floats of 8 bits: NumPy stores them as bytes without a type, which are read where
//! the caller says the type.

mod array;
mod bytes;
mod element;
mod error;
mod file;
mod header;
mod names;
mod npy;
mod npz;
mod order;
mod save;
mod tensors;
#[cfg(test)]
mod tests;

pub use array::{Array, NoArray};
pub use element::Element;
pub use error::{ArrayError, ArrayErrorKind};
pub use file::{ArrayFile, Header, read};
pub use header::Stored;
pub use save::{Format, Output, write, write_all};
