//! Reads `metadata = tvm.ir.load_json("…")`.

use super::Reader;
use crate::diagnostic::{Diagnostic, Span};
use crate::script::metadata::constants;
use crate::script::python::{Expr, ExprKind};

/// The text of `metadata = tvm.ir.load_json("…")`.
pub(super) fn text<'e>(targets: &[Expr<'_>], value: &'e Expr<'_>) -> Option<&'e str> {
    let is_it = |t: &Expr<'_>| matches!(t.kind, ExprKind::Name("metadata"));
    let ExprKind::Call(call) = &value.kind else { return None };
    match (&call.callee.kind, &call.args[..]) {
        (ExprKind::Attribute(_, name), [Expr { kind: ExprKind::Str(text), .. }])
            if name.name == "load_json" && targets.iter().any(is_it) =>
        {
            Some(text)
        }
        _ => None,
    }
}

impl Reader<'_> {
    /// Reads the constants, in their order.
    pub(super) fn metadata(&mut self, text: &str, span: Span) {
        match constants(text) {
            Ok(constants) => self.metadata = constants,
            Err(why) => {
                self.error(Diagnostic::error_at("metadata", span, format!("the constants cannot be read: {why}")))
            }
        }
    }
}
