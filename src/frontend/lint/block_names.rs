//! `duplicate-block`: two blocks with the same name, neither of which `get_block` can find.
//!
//! A *warning* at the second one.

use super::Context;
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::ir::{BlockId, Symbol};
use std::collections::HashMap;

pub(super) fn check(cx: &Context<'_>) -> Vec<Diagnostic> {
    let func = cx.func;
    let place = |b: BlockId| cx.spans.stmt(b.stmt()).map_or(cx.spans.name, |s| s.name);
    let mut blocks: Vec<(Span, BlockId)> = func.blocks().into_iter().map(|b| (place(b), b)).collect();
    blocks.sort_unstable_by_key(|(span, _)| span.start);
    let mut first: HashMap<Symbol, Span> = HashMap::new();
    let mut found = Vec::new();
    for (span, b) in blocks {
        let name = func.block(b).name;
        if b == func.root || name.as_str().is_empty() {
            continue;
        }
        let Some(&before) = first.get(&name) else {
            first.insert(name, span);
            continue;
        };
        let mut d = Diagnostic::error_at("duplicate-block", span, format!("a second block is called `{name}`"))
            .label(before, "the first one")
            .help("give each its own name: schedules and search spaces fetch blocks by name");
        d.severity = Severity::Warning;
        found.push(d);
    }
    found
}
