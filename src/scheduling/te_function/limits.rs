//! How large expressions may become. Equal parts of an expression are one, but its text and most of what is done with it repeat
//! them, so the size counts as in the text.

use super::library::{Result, Run};
use super::value::{Own, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::ExprId;
use hashbrown::HashMap;

/// The deepest nesting of a scalar expression.
const MAX_DEPTH: u32 = 200;

/// The most operators and operands of a scalar expression.
const MAX_SIZE: u64 = 20_000;

/// The most dimensions of a tensor, and axes of a reduction.
pub(super) const MAX_RANK: usize = 32;

/// Depths and sizes of expressions.
#[derive(Default)]
pub(super) struct Sizes(HashMap<ExprId, (u32, u64)>);

/// The value, unless it is an expression that has become too large.
pub(super) fn limited(run: &mut Run<'_>, value: Value, span: Span) -> Result<Value> {
    let Value::Own(Own::Expr(e)) = value else { return Ok(value) };
    let library = &mut run.library;
    let (depth, size) = measured(&library.te, &mut library.sizes, e, 0);
    match depth > MAX_DEPTH || size > MAX_SIZE {
        false => Ok(value),
        true => {
            let d = Diagnostic::error_at("limit", span, "the expression is too large");
            Err(d.help("define parts of it as tensors of their own, by `te.compute`").into())
        }
    }
}

/// All operands were measured when they were made, but for the few that one operator adds.
fn measured(te: &crate::te::Te, sizes: &mut Sizes, e: ExprId, level: u32) -> (u32, u64) {
    if let Some(&known) = sizes.0.get(&e) {
        return known;
    }
    let (mut depth, mut size) = (0, 1u64);
    if level <= MAX_DEPTH {
        let mut children = Vec::new();
        te.for_each_child(e, |c| children.push(c));
        for c in children {
            let (d, n) = measured(te, sizes, c, level + 1);
            (depth, size) = (depth.max(d), size.saturating_add(n));
        }
    }
    sizes.0.insert(e, (depth + 1, size));
    (depth + 1, size)
}
