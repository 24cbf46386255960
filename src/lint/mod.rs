//! Lints: programs that are well formed, but broken or almost surely a slip.
//!
//! The verifier says what is no program. A lint looks at what a program means: an *error* is something that no schedule
//! and no compiler can make sense of; a *warning* is something that is allowed and hardly ever meant, and changes no exit
//! code. Errors must be certain, so a lint that cannot follow an index or a condition says nothing.
//!
//! Each file is one lint; [`ALL`] lists them. They look at blocks through [`Leaf`](leaf::Leaf), which has the stores of a
//! block without others inside, with simplified indices.

mod block_names;
mod buffers;
mod leaf;
mod missing_init;
mod reduction_place;
mod shared_place;

use crate::diagnostic::Diagnostic;
use crate::ir::Func;
use crate::script::{Parsed, Spans};
use leaf::Leaf;

/// What lints look at.
struct Context<'a> {
    func: &'a Func,
    spans: &'a Spans,
    leaves: &'a [Leaf],
}

/// All lints, in the order in which they look.
const ALL: &[fn(&Context<'_>) -> Vec<Diagnostic>] =
    &[reduction_place::check, shared_place::check, missing_init::check, buffers::check, block_names::check];

/// What is wrong or suspicious about the functions of a text.
pub fn lint(parsed: &Parsed) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (func, spans) in parsed.module.funcs.iter().zip(&parsed.spans) {
        // Simplifying makes expressions, which the program itself has no use for.
        let mut own = func.clone();
        let leaves = leaf::leaves(&mut own);
        let context = Context { func: &own, spans, leaves: &leaves };
        found.extend(ALL.iter().flat_map(|lint| lint(&context)));
    }
    found
}
