//! Passes: each changes the functions of a module, and is a file.
//!
//! [`PIPELINE`] lists them in the order in which they run before a model is tuned, run or built.

mod canonicalise;
mod common_calls;
mod common_constants;
mod dead_code;
mod fold_affine;
mod fuse;
mod inline;
mod known_results;
mod layout_free;
mod library;
mod lower_operators;
mod own_floats;
mod quantise;
mod rewrite;
mod specialize_calls;
mod used_functions;
mod winograd;

use super::function::Function;
use super::libraries::Libraries;
use crate::diagnostic::Diagnostic;
use crate::ir::Module;

pub(crate) use dead_code::remove_dead_code;
pub use library::built_in;

/// A module with graphs.
#[derive(Clone, Default)]
pub struct GraphModule {
    /// The prim_funcs.
    pub module: Module,
    /// The graphs.
    pub functions: Vec<Function>,
}

/// What passes are given besides the module.
#[derive(Clone, Default)]
pub struct Context {
    /// Where functions are looked up that a graph calls by name.
    pub libraries: Libraries,
    /// Names of optional passes that do not run.
    pub skipped: Vec<String>,
    /// Whether operations on floats stay as written.
    pub strict_fp: bool,
}

/// A pass.
pub struct Pass {
    /// Its name, as in `tvmr emit --stage after:NAME`.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// Whether models run without it, if slower.
    pub is_optional: bool,
    /// Changes the module. What it cannot treat is reported with its place in the text.
    pub run: fn(&mut GraphModule, &Context) -> Result<(), Vec<Diagnostic>>,
}

/// The passes in order.
pub const PIPELINE: &[Pass] = &[
    inline::PASS,
    library::PASS,
    known_results::PASS,
    common_calls::PASS,
    dead_code::PASS,
    quantise::PASS,
    canonicalise::PASS,
    fold_affine::PASS,
    common_constants::PASS,
    own_floats::PASS,
    winograd::PASS,
    lower_operators::PASS,
    specialize_calls::PASS,
    fuse::PASS,
    used_functions::PASS,
    layout_free::PASS,
];

/// Runs all passes but those that the context skips.
///
/// # Errors
/// What a pass cannot treat.
pub fn run_all(module: &mut GraphModule, cx: &Context) -> Result<(), Vec<Diagnostic>> {
    run(PIPELINE, module, cx)
}

fn run(passes: &[Pass], module: &mut GraphModule, cx: &Context) -> Result<(), Vec<Diagnostic>> {
    let is_skipped = |pass: &&Pass| pass.is_optional && cx.skipped.iter().any(|name| name == pass.name);
    passes.iter().filter(|pass| !is_skipped(pass)).try_for_each(|pass| (pass.run)(module, cx))
}

/// Runs the passes up to the one of a name; `false` if there is none.
///
/// # Errors
/// What a pass cannot treat.
pub fn run_until(module: &mut GraphModule, cx: &Context, name: &str) -> Result<bool, Vec<Diagnostic>> {
    let Some(last) = PIPELINE.iter().position(|pass| pass.name == name) else { return Ok(false) };
    run(&PIPELINE[..=last], module, cx)?;
    Ok(true)
}
