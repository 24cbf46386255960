//! All external tests of the library and the command, in one binary, since each binary links the whole library.
//!
//! `cargo test --test integration NAME::` runs those of one module.

mod cli;
mod conformance;
mod functions;
mod handles;
mod interpreter;
mod layers;
mod pages;
mod pictures;
mod random_walks;
mod script;
mod space;
mod statements;
mod targets;
mod te_printed;
mod workloads;
