//! Threads of a GPU, which run here on a CPU.
//!
//! * `divergent-barrier`: an *error* at what keeps threads from meeting at a barrier.
//! * `emulated-threads`: a *warning* at the first loop that is bound to a thread axis. The results are those of a GPU, but how
//!   long it takes says nothing about one.

use super::Context;
use crate::diagnostic::{Diagnostic, Severity};
use crate::ir::barriers::{first_bound_loop, without_barriers};

pub(super) fn check(cx: &Context<'_>) -> Vec<Diagnostic> {
    let func = cx.func;
    let mut found = Vec::new();
    if let Err(e) = without_barriers(func) {
        let span = cx.spans.stmt(e.stmt).map_or(cx.spans.name, |s| s.name);
        let message = format!("this {}", e.reason);
        let help = "all threads must reach the same barriers: move `T.tvm_storage_sync` to where they do";
        found.push(Diagnostic::error_at("divergent-barrier", span, message).help(help));
    }
    if let Some(first) = first_bound_loop(func) {
        let span = cx.spans.stmt(first).map_or(cx.spans.name, |s| s.name);
        let message = "this loop is bound to threads of a GPU, which are emulated on the CPU";
        let help = "blocks (`blockIdx`) run in parallel, the threads of a block one after the other";
        let mut d = Diagnostic::error_at("emulated-threads", span, message).help(help);
        d.severity = Severity::Warning;
        found.push(d);
    }
    found
}
