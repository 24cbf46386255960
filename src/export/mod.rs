//! Native code that any program can call: object files, libraries, headers and wrappers.
//!
//! A [`Library`] lists functions with their schedules. [`object()`] compiles them into one relocatable object, which needs nothing of
//! tvmr at run time; [`archive()`] and [`link()`] make a static and a shared library of it. [`header()`], [`rust()`],
//! [`python()`] and [`manifest()`] describe the functions to their callers, and [`write_files()`] writes any of these into a directory. docs/deploy.md has the interface as callers see it.
//!
//! # Inside an object
//!
//! ```text
//! NAME_FUNC(A, B, C) ──┐ wrappers ──► support code ──► dispatch by CPU features ──► kernel for this CPU | portable kernel
//! __tvm_ffi_FUNC(…) ───┘             (checks, scratch memory, parallel loops)
//! ```
//!
//! Kernels are what `tune` measures, from the same code generator ([`crate::codegen::object`]). Wrappers are a few instructions
//! each ([`wrappers`]). The support code is Rust without the standard library (`support/`), compiled by `build.rs` when tvmr is
//! built; [`support`] copies the parts that an object refers to, as a linker would. Descriptions of the functions are data that the
//! support code reads ([`descriptors`], laid out as [`abi`] says).
//!
//! | file | content |
//! | --- | --- |
//! | [`mod@interface`] | functions as callers see them: parameters, names in C |
//! | [`mod@compile`] | kernels of all versions, in one module |
//! | [`mod@graph`] | graphs: kernels that are called one after the other |
//! | [`mod@elements`], [`mod@weights`] | where weights and constants lie: in the object or in a file |
//! | [`mod@code_module`] | that module: machine descriptions by function, unwind information |
//! | [`mod@descriptors`], [`mod@wrappers`] | data and code around the kernels |
//! | [`mod@support`] | copies support code into the object |
//! | [`mod@layout`] | parameters of all versions together |
//! | [`mod@header`], [`mod@rust`], [`mod@python`], [`mod@manifest`] | texts for callers |
//! | [`mod@archive`], [`mod@link`] | libraries |
//! | [`mod@files`] | all of these as files |

#[expect(dead_code, unreachable_pub, reason = "the support code uses all of it, in a crate of its own")]
mod abi;
mod archive;
mod code_module;
mod compile;
mod descriptors;
mod elements;
#[expect(dead_code, unreachable_pub, reason = "the support code uses all of it, in a crate of its own")]
pub(crate) mod ffi_abi;
mod files;
mod graph;
mod header;
mod interface;
mod layout;
mod link;
mod manifest;
mod names;
mod python;
mod rust;
#[cfg(test)]
mod soak;
mod support;
mod weights;
mod wrappers;

pub use abi::ABI_VERSION;
pub use archive::archive;
pub use compile::object;
pub(crate) use descriptors::dlpack;
pub use files::{File, FilesError, write_files};
pub use header::header;
pub use interface::{Body, Function, Graph, Library, Measured, Param, Version, Versions};
pub use link::{LinkError, link};
pub use manifest::manifest;
pub use names::{c_name, is_c_name};
pub use python::python;
pub use rust::rust;
pub use weights::{ExternalWeights, contents, known_bytes};

use crate::codegen::CodegenError;
use crate::lower::LowerError;

/// The use that an object is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// To be linked into a program: symbols of TVM-FFI are weak.
    Linked,
    /// To be linked into a shared library, which has a pool of threads of its own.
    Shared,
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The format of this machine's objects is not supported.
    #[error("object files of this system are not supported: only ELF for Linux on x86-64 and AArch64 is")]
    Format,
    /// A function cannot be lowered.
    #[error("`{func}` cannot be lowered: {error}")]
    Lower {
        /// The function.
        func: String,
        /// The reason.
        error: LowerError,
    },
    /// A function cannot be compiled.
    #[error("`{func}` cannot be compiled: {error}")]
    Codegen {
        /// The function.
        func: String,
        /// The reason.
        error: CodegenError,
    },
    /// A parameter has no form in C.
    #[error("parameter `{param}` of `{func}`: {why}")]
    Param {
        /// The function.
        func: String,
        /// The parameter.
        param: String,
        /// The reason.
        why: String,
    },
    /// Two functions have the same name in C.
    #[error("`{first}` and `{second}` are both `{name}` in C")]
    Collision {
        /// One function.
        first: String,
        /// The other one.
        second: String,
        /// Their common symbol.
        name: String,
    },
    /// A graph reads a tensor that is no parameter, and was given no elements.
    #[error("a graph reads {place:?}, which is no parameter and has no known elements")]
    UnknownElements {
        /// Where it lies.
        place: crate::graph::program::Place,
    },
    /// The object cannot be written.
    #[error("the object file cannot be written: {0}")]
    Write(String),
}

impl From<cranelift_module::ModuleError> for ExportError {
    fn from(error: cranelift_module::ModuleError) -> ExportError {
        ExportError::Write(error.to_string())
    }
}
