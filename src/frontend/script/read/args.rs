//! Matches arguments of calls with parameters.

use super::func::FuncReader;
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::script::python::{Call, Expr, ExprKind};
use smallvec::SmallVec;

/// The argument of each parameter, if given.
pub(super) type Args<'e, 'a> = SmallVec<[Option<&'e Expr<'a>>; 12]>;

impl<'a> FuncReader<'a, '_> {
    /// Matches the arguments of `T.name(…)` with parameters. The first `required` ones must be given; those after a
    /// parameter `*` can only be given by name.
    pub(super) fn args<'e>(
        &mut self,
        name: &str,
        call: &'e Call<'a>,
        params: &[&str],
        required: usize,
    ) -> Option<Args<'e, 'a>> {
        let mut args: Args<'e, 'a> = SmallVec::from_elem(None, params.len());
        let mut ok = true;
        let positional = params.iter().position(|p| *p == "*").unwrap_or(params.len());
        if call.args.len() > positional {
            let found = call.args.len();
            let expected = counted(positional, "argument");
            let span = call.args[positional].span.to(call.args[found - 1].span);
            self.error(Diagnostic::error_at(
                "argument-count",
                span,
                format!("`{name}` takes {expected}, found {found}"),
            ));
            ok = false;
        }
        for (slot, arg) in args.iter_mut().take(positional).zip(&call.args) {
            if let ExprKind::Starred(_) = arg.kind {
                self.error(Diagnostic::error_at("unsupported", arg.span, "unpacking with `*` is not supported here"));
                return None;
            }
            *slot = Some(arg);
        }
        for (key, value) in &call.keywords {
            let Some(key) = key else {
                self.error(Diagnostic::error_at("unsupported", value.span, "unpacking with `**` is not supported"));
                return None;
            };
            match params.iter().position(|p| *p == key.name) {
                Some(i) if args[i].is_none() => args[i] = Some(value),
                Some(_) => {
                    let message = format!("`{name}` gets its argument `{}` twice", key.name);
                    self.error(Diagnostic::error_at("argument-count", key.span, message));
                    ok = false;
                }
                None => {
                    self.unknown_keyword(name, key.name, key.span, params);
                    ok = false;
                }
            }
        }
        let missing: Vec<&str> = (0..required).filter(|&i| args[i].is_none()).map(|i| params[i]).collect();
        if ok && !missing.is_empty() {
            let list: Vec<String> = missing.iter().map(|m| format!("`{m}`")).collect();
            self.error(Diagnostic::error_at(
                "argument-count",
                call.args_span,
                format!("`{name}` lacks its {} {}", plural(missing.len(), "argument"), list.join(", ")),
            ));
            ok = false;
        }
        ok.then_some(args)
    }

    pub(super) fn unknown_keyword(&mut self, name: &str, key: &str, span: Span, params: &[&str]) {
        let near = nearest(key, params.iter().copied());
        self.error(
            Diagnostic::error_at("unknown-keyword", span, format!("`{name}` has no argument `{key}`"))
                .maybe_help(near.map(|n| format!("did you mean `{n}`?"))),
        );
    }
}

/// `1 argument`, `2 arguments`
pub(super) fn counted(n: usize, noun: &str) -> String {
    if n == 0 { format!("no {noun}s") } else { format!("{n} {}", plural(n, noun)) }
}

/// The noun, with an s unless `n` is 1.
pub(super) fn plural(n: usize, noun: &str) -> String {
    match (n, noun.strip_suffix("dex")) {
        (1, _) => noun.to_string(),
        (_, Some(stem)) => format!("{stem}dices"),
        (_, None) => format!("{noun}s"),
    }
}
