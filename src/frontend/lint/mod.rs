//! Lints: detect programs that are well formed, but wrong or probably not intended.
//!
//! The verifier rejects malformed programs. A lint considers the meaning of a program: an *error* is something for
//! which no schedule and no compiler can give a sensible result; a *warning* is something that is allowed but hardly
//! ever intended, and does not change the exit code. Errors must be certain, so a lint that cannot analyse an index or
//! a condition reports nothing.
//!
//! Each file is one lint; [`ALL`] lists them. They access leaf blocks through [`Leaf`], which has their
//! stores with simplified indices.

mod block_names;
mod buffers;
mod gpu_threads;
mod leaf;
mod missing_init;
mod reduction_place;
mod shared_place;

use crate::diagnostic::Diagnostic;
use crate::ir::Func;
use crate::script::{Parsed, Spans};
use leaf::Leaf;

/// The input of lints.
struct Context<'a> {
    func: &'a Func,
    spans: &'a Spans,
    leaves: &'a [Leaf],
}

/// All lints, in the order in which they run.
const ALL: &[fn(&Context<'_>) -> Vec<Diagnostic>] = &[
    reduction_place::check,
    shared_place::check,
    missing_init::check,
    buffers::check,
    block_names::check,
    gpu_threads::check,
];

/// Lints the functions of a text.
pub fn lint(parsed: &Parsed) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (func, spans) in parsed.module.funcs.iter().zip(&parsed.spans) {
        // Simplification creates expressions, which must not enter the program itself.
        let mut own = func.clone();
        let leaves = leaf::leaves(&mut own);
        let context = Context { func: &own, spans, leaves: &leaves };
        found.extend(ALL.iter().flat_map(|lint| lint(&context)));
    }
    found
}
