//! Functions of shared libraries that a graph calls by name, by TVM-FFI's convention.
//!
//! Such a library is made by TVM (`export_library`), by `tvmr build --emit shared`, or by hand with TVM-FFI's headers. A function
//! takes tensors of DLPack: those that it reads, then those that it writes. It is loaded only if the command line names its library,
//! and runs in this process, so it can do what this process can.
//!
//! | file | content |
//! | --- | --- |
//! | [`symbols`] | what a library exports, read from its file without loading it |
//! | [`library`] | loading |
//! | [`function`] | calls |
//! | [`host`] | what functions call in turn: errors, workspaces, parallel loops |

mod function;
mod host;
mod library;
mod symbols;
#[cfg(test)]
mod tests;

pub(crate) use function::{Function, check};
pub(crate) use symbols::{functions, is_library};

/// Why a library or its function cannot be used. The message names the file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ForeignError(pub String);
