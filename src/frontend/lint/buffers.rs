//! `unused-buffer`, `unwritten-buffer`, `unread-buffer`: scratch buffers that have no use, or no contents.
//!
//! ```text
//! Z = T.alloc_buffer((16,))      # never mentioned again
//! ```
//!
//! A *warning* for each buffer that the function allocates and does not use, reads although nothing stores to it, or
//! stores to although nothing reads it; and for an unused parameter (`unused-buffer`). The lint skips functions with
//! calls for their effect, which may access buffers by address, and buffers that have aliases.

use super::Context;
use crate::diagnostic::{Diagnostic, Severity};
use crate::ir::visit::{Visitor, walk_expr, walk_region, walk_stmt};
use crate::ir::{BufferId, BufferRegion, Expr, ExprId, Func, Stmt, StmtId};
use std::collections::HashSet;

pub(super) fn check(cx: &Context<'_>) -> Vec<Diagnostic> {
    let func = cx.func;
    let mut uses = Uses::default();
    uses.visit_stmt(func, func.root.stmt());
    let known: HashSet<BufferId> = owned(func).into_iter().map(|(b, _)| b).chain(views(func)).collect();
    let has_aliases = uses.read.iter().chain(&uses.written).any(|b| !known.contains(b));
    if uses.has_calls || has_aliases {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (buffer, is_param) in owned(func) {
        let name = func.arena.buffer(buffer).name;
        let (code, message, help) = match (uses.read.contains(&buffer), uses.written.contains(&buffer)) {
            (true, true) => continue,
            (false, false) => {
                let what = if is_param { "parameter" } else { "buffer" };
                ("unused-buffer", format!("{what} `{name}` is never used"), "leave it out, or use it")
            }
            _ if is_param => continue,
            (true, false) => {
                let message = format!("buffer `{name}` is read, but nothing stores to it");
                ("unwritten-buffer", message, "store to it first: its contents are undefined")
            }
            (false, true) => {
                let message = format!("buffer `{name}` is stored to, but never read");
                ("unread-buffer", message, "leave out what computes it, or use the result")
            }
        };
        let place = cx.spans.buffer(buffer).unwrap_or(cx.spans.name);
        let mut d = Diagnostic::error_at(code, place, message).help(help);
        d.severity = Severity::Warning;
        found.push(d);
    }
    found
}

/// Parameters and allocations, each with whether it is a parameter.
fn owned(func: &Func) -> Vec<(BufferId, bool)> {
    let params = func.params.iter().filter_map(|p| Some((p.buffer?, true)));
    let blocks = func.subtree(func.root.stmt()).into_iter().filter_map(|s| func.as_block(s));
    let allocs = blocks.flat_map(|b| func.block(b).allocs.iter().map(|&b| (b, false)).collect::<Vec<_>>());
    params.chain(allocs).collect()
}

/// The buffers of which blocks have views (`match_buffer`).
fn views(func: &Func) -> Vec<BufferId> {
    let blocks = func.subtree(func.root.stmt()).into_iter().filter_map(|s| func.as_block(s));
    blocks.flat_map(|b| func.block(b).matches.iter().map(|m| m.buffer).collect::<Vec<_>>()).collect()
}

/// The buffers that statements read and write. Declared regions of blocks count as well, and a view counts as both.
#[derive(Default)]
struct Uses {
    read: HashSet<BufferId>,
    written: HashSet<BufferId>,
    has_calls: bool,
}

impl Visitor for Uses {
    fn visit_stmt(&mut self, func: &Func, s: StmtId) {
        if let Some(b) = func.as_block(s) {
            let block = func.block(b);
            let views = block.matches.iter().map(|m| m.source.buffer);
            self.read.extend(block.reads.iter().map(|r| r.buffer).chain(views.clone()));
            self.written.extend(block.writes.iter().map(|r| r.buffer).chain(views));
        }
        if let Stmt::Store { buffer, .. } = func.get(s) {
            self.written.insert(*buffer);
        }
        self.has_calls |= matches!(func.get(s), Stmt::Evaluate(_));
        walk_stmt(self, func, s);
    }

    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        if let Expr::Load(buffer, _) = func.arena.expr(e) {
            self.read.insert(buffer);
        }
        walk_expr(self, func, e);
    }

    fn visit_region(&mut self, func: &Func, r: &BufferRegion) {
        walk_region(self, func, r);
    }
}
