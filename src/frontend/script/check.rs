//! Shows the verifier's violations as diagnostics in the text.

use super::spans::Spans;
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::ir::op::Domain;
use crate::ir::verify::{Checks, Violation, ViolationKind, verify};
use crate::ir::{BufferId, Func, Stmt};
use hashbrown::{HashMap, HashSet};

/// Checks a function that was read from a text. Violations that only follow from other mistakes are left out.
pub(super) fn check(func: &Func, spans: &Spans, checks: Checks) -> Vec<Diagnostic> {
    let violations = verify(func, checks);
    let mut places: HashMap<&ViolationKind, HashSet<_>> = HashMap::default();
    for v in &violations {
        places.entry(&v.kind).or_default().insert((v.stmt, v.expr));
    }
    // Inferred regions repeat the accesses of the statements inside.
    let follows = |v: &Violation| {
        let nowhere = v.stmt.zip(v.expr).is_some_and(|(s, e)| spans.expr(s, e).is_none());
        nowhere && places[&v.kind].len() > 1
    };
    violations.iter().filter(|v| !follows(v)).map(|v| diagnostic(func, spans, v)).collect()
}

/// A violation as a diagnostic in the text that `spans` belongs to.
pub fn diagnostic(func: &Func, spans: &Spans, v: &Violation) -> Diagnostic {
    let span = place(func, spans, v).unwrap_or(spans.name);
    let mut d = Diagnostic::error_at(v.kind.code(), span, v.message(func)).maybe_help(v.help(func));
    // TVM reads these programs too: only schedules rely on the lists of blocks, and the operations of a function on
    // numbers of another kind are checked when it runs.
    let is_read = match v.kind {
        ViolationKind::UnlistedRead { .. } | ViolationKind::UnlistedWrite { .. } => true,
        ViolationKind::Argument { found, .. } => Domain::Number.takes(found),
        _ => false,
    };
    if is_read {
        d.severity = Severity::Warning;
    }
    if let Some((declared, text)) = context(func, spans, v).filter(|(declared, _)| *declared != span) {
        d = d.label(declared, text);
    }
    d
}

/// The place of the violation in the text.
fn place(func: &Func, spans: &Spans, v: &Violation) -> Option<Span> {
    let Some(s) = v.stmt else {
        return named_buffer(v).and_then(|b| spans.buffer(b));
    };
    let indexed = named_buffer(v).zip(v.expr).and_then(|(b, e)| spans.index_of(s, e, b));
    if let Some(span) = indexed.or_else(|| v.expr.and_then(|e| spans.expr(s, e))) {
        return Some(span);
    }
    if let (ViolationKind::OwnBufferInSignature { buffer }, Some(b)) = (v.kind.clone(), func.as_block(s)) {
        let block = func.block(b);
        let of = |list: &[crate::ir::BufferRegion]| list.iter().position(|r| r.buffer == buffer);
        let read = of(&block.reads).and_then(|i| spans.region(s, false, i));
        return read.or_else(|| of(&block.writes).and_then(|i| spans.region(s, true, i)));
    }
    let own = spans.stmt(s).map(|s| s.name);
    // A violation in a statement without text is shown at the enclosing one.
    own.or_else(|| func.ancestors(s).find_map(|p| spans.stmt(p)).map(|s| s.name))
}

/// A second place that explains the first.
fn context(func: &Func, spans: &Spans, v: &Violation) -> Option<(Span, String)> {
    match v.kind {
        ViolationKind::OutOfBounds { buffer, dim, extent, .. } => {
            Some((spans.buffer(buffer)?, format!("dimension {dim} has extent {extent}")))
        }
        ViolationKind::IndexCount { buffer, .. } | ViolationKind::StrideCount { buffer, .. } => {
            Some((spans.buffer(buffer)?, "declared here".into()))
        }
        ViolationKind::UnlistedRead { block, .. } | ViolationKind::UnlistedWrite { block, .. } => {
            let s = v.stmt?;
            let around = func.ancestors(s).find(|&p| matches!(func.get(p), Stmt::Block(b) if b.name == block))?;
            Some((spans.stmt(around)?.name, "in this block".into()))
        }
        ViolationKind::LoopCrossesBlock { var, .. } => {
            let s = v.stmt?;
            let around = func.ancestors(s).find(|&p| matches!(func.get(p), Stmt::Loop(l) if l.var == var))?;
            Some((spans.stmt(around)?.name, "this loop is around the block".into()))
        }
        _ => None,
    }
}

/// The buffer of a violation of the signature.
fn named_buffer(v: &Violation) -> Option<BufferId> {
    match v.kind {
        ViolationKind::BufferBoundTwice { buffer }
        | ViolationKind::BufferOutOfScope { buffer }
        | ViolationKind::OwnBufferInSignature { buffer }
        | ViolationKind::NegativeDimension { buffer, .. }
        | ViolationKind::IndexCount { buffer, .. }
        | ViolationKind::StrideCount { buffer, .. }
        | ViolationKind::UnlistedRead { buffer, .. }
        | ViolationKind::UnlistedWrite { buffer, .. }
        | ViolationKind::OutOfBounds { buffer, .. } => Some(buffer),
        _ => None,
    }
}
