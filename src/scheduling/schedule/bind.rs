//! Binds the arguments of a Python call to the parameters of an instruction, for traces and schedule functions.

use super::kind::{Default, Kind, Ty};
use crate::diagnostic::{Diagnostic, Span, nearest};

/// The source of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The positional argument at this place.
    Positional(usize),
    /// All positional arguments from this place on.
    Rest(usize),
    /// The keyword argument at this place.
    Keyword(usize),
    /// The parameter is omitted.
    Default,
}

/// The sources of all values that an instruction takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BoundArgs {
    /// One source for each parameter.
    pub params: Vec<Source>,
    /// The source of the decision.
    pub decision: Source,
}

/// A reason why arguments do not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// More positional arguments than parameters.
    TooMany { at_most: usize },
    /// No parameter has the name of this keyword.
    UnknownKeyword { keyword: usize, near: Option<String> },
    /// A keyword for a parameter that already has a value.
    Twice { keyword: usize },
    /// Required parameters are omitted.
    Missing { names: Vec<&'static str> },
}

/// Alternative names of parameters in some version of TVM: the instruction, the keyword, the parameter.
const ALIASES: [(&str, &str, &str); 2] = [("GetOutputBlocks", "scope_block", "block"), ("Blockize", "loop", "target")];

/// Binds arguments to parameters: finds the source of each parameter.
pub(crate) fn bind_args(kind: &Kind, n_positional: usize, keywords: &[&str]) -> Result<BoundArgs, Mismatch> {
    let mut params = vec![Source::Default; kind.params.len()];
    let mut decision = Source::Default;
    let variadic = kind.params.iter().position(|p| p.ty == Ty::Loops);
    let n_slots = kind.params.len() + kind.samples as usize;
    let mut next = 0;
    while next < n_positional {
        if Some(next) == variadic {
            params[next] = Source::Rest(next);
            break;
        }
        match next {
            i if i < kind.params.len() => params[i] = Source::Positional(i),
            i if i < n_slots => decision = Source::Positional(i),
            _ => return Err(Mismatch::TooMany { at_most: n_slots }),
        }
        next += 1;
    }
    for (i, &keyword) in keywords.iter().enumerate() {
        let name = ALIASES.iter().find(|(k, alias, _)| *k == kind.name && *alias == keyword).map_or(keyword, |a| a.2);
        let slot = match kind.params.iter().position(|p| p.name == name && p.ty != Ty::Loops) {
            Some(p) => &mut params[p],
            None if kind.samples && name == "decision" => &mut decision,
            None => {
                let known = kind.params.iter().filter(|p| p.ty != Ty::Loops).map(|p| p.name);
                let known = known.chain(kind.samples.then_some("decision"));
                return Err(Mismatch::UnknownKeyword { keyword: i, near: nearest(keyword, known).map(str::to_string) });
            }
        };
        if *slot != Source::Default {
            return Err(Mismatch::Twice { keyword: i });
        }
        *slot = Source::Keyword(i);
    }
    let missing = kind.params.iter().zip(&params);
    let missing = missing.filter(|(p, s)| **s == Source::Default && p.default == Default::Required);
    let names: Vec<&'static str> = missing.map(|(p, _)| p.name).collect();
    if names.is_empty() { Ok(BoundArgs { params, decision }) } else { Err(Mismatch::Missing { names }) }
}

/// The signature of the method, for messages: `sch.split(loop, factors, preserve_unit_iters=True)`.
pub(crate) fn signature(kind: &Kind) -> String {
    let mut params: Vec<String> = kind
        .params
        .iter()
        .map(|p| match (p.ty, p.default) {
            (Ty::Loops, _) => format!("*{}", p.name),
            (_, Default::Required) => p.name.to_string(),
            (_, Default::None) => format!("{}=None", p.name),
            (_, Default::Int(v)) => format!("{}={v}", p.name),
            (_, Default::Bool(v)) => format!("{}={}", p.name, if v { "True" } else { "False" }),
            (_, Default::Empty) => format!("{}=[]", p.name),
        })
        .collect();
    if kind.samples {
        params.push("decision=None".to_string());
    }
    format!("sch.{}({})", kind.method, params.join(", "))
}

/// The diagnostic of a mismatch. `name` is the place of the method, `extra` that of the first excess argument.
pub(crate) fn mismatch(
    kind: &Kind,
    error: Mismatch,
    name: Span,
    args_span: Span,
    extra: Option<Span>,
    keyword_spans: &[Span],
) -> Diagnostic {
    let at = |i: usize| keyword_spans.get(i).copied().unwrap_or(args_span);
    let method = kind.method;
    let help = format!("it is called as `{}`", signature(kind));
    match error {
        Mismatch::TooMany { at_most } => {
            let arguments = if at_most == 1 { "argument" } else { "arguments" };
            let message = format!("`{method}` takes at most {at_most} positional {arguments}");
            Diagnostic::error_at("argument-count", extra.unwrap_or(args_span), message).help(help)
        }
        Mismatch::UnknownKeyword { keyword, near } => {
            let d = Diagnostic::error_at("unknown-argument", at(keyword), format!("`{method}` has no such argument"));
            match near {
                Some(near) => d.help(format!("did you mean `{near}`?")),
                None => d.help(help),
            }
        }
        Mismatch::Twice { keyword } => {
            let message = "the argument is given twice".to_string();
            Diagnostic::error_at("argument-count", at(keyword), message).help(help)
        }
        Mismatch::Missing { names } => {
            let list = names.join("`, `");
            let noun = if names.len() == 1 { "argument" } else { "arguments" };
            Diagnostic::error_at("missing-argument", name, format!("`{method}` lacks the {noun} `{list}`")).help(help)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::primitive::by_method;

    #[test]
    fn arguments_find_their_parameters() {
        let tile = by_method("sample_perfect_tile").expect("it is listed");
        let found = bind_args(tile, 2, &["decision"]);
        let params = vec![Source::Positional(0), Source::Positional(1), Source::Default];
        assert_eq!(found, Ok(BoundArgs { params, decision: Source::Keyword(0) }));
        assert_eq!(bind_args(tile, 5, &[]), Err(Mismatch::TooMany { at_most: 4 }));
        assert_eq!(bind_args(tile, 1, &["loop"]), Err(Mismatch::Twice { keyword: 0 }));
        assert_eq!(bind_args(tile, 0, &["n"]), Err(Mismatch::Missing { names: vec!["loop"] }));
        let near = Some("max_innermost_factor".to_string());
        assert_eq!(bind_args(tile, 2, &["max_inermost_factor"]), Err(Mismatch::UnknownKeyword { keyword: 0, near }));
    }
}
