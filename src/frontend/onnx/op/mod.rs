//! The table of ONNX operators: one file for each group.
//!
//! A translation reads the arguments and attributes of a [`Node`] and adds calls of relax's operators. What it does not read is
//! refused, so an attribute that a later version adds is no silent mistake.

mod attention;
mod control;
mod elementwise;
mod known;
mod loss;
mod microsoft;
mod microsoft_attention;
mod nn;
mod normalize;
mod pool;
mod quantize;
mod quantize_microsoft;
mod recurrent;
mod reduce;
mod resample;
mod resize;
mod select;
mod sequence;
mod shape;
mod signal;
mod training;
mod vision;

use super::model::OPSETS;
use super::node::{Node, Refusal, Result, flag, float, int, ints, text};
use super::translate::Operand;
use crate::graph::{Arg, ValueId};

/// How an operator is translated.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// To one value.
    One(fn(&mut Node<'_, '_>) -> Result<ValueId>),
    /// To several.
    Many(for<'m> fn(&mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>>),
}

/// An operator.
pub(super) struct Operator {
    /// The set of operators; the empty text is ONNX's own.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The first and the last version that is translated.
    pub versions: (i64, i64),
    /// The translation.
    pub rule: Rule,
}

/// An operator of ONNX from a version on that has one result.
const fn one(name: &'static str, since: i64, rule: fn(&mut Node<'_, '_>) -> Result<ValueId>) -> Operator {
    Operator { domain: "", name, versions: (since, OPSETS.1), rule: Rule::One(rule) }
}

/// An operator of ONNX from a version on.
const fn many(
    name: &'static str,
    since: i64,
    rule: for<'m> fn(&mut Node<'_, 'm>) -> Result<Vec<Operand<'m>>>,
) -> Operator {
    Operator { domain: "", name, versions: (since, OPSETS.1), rule: Rule::Many(rule) }
}

/// The same operator, up to a version.
const fn until(operator: Operator, last: i64) -> Operator {
    Operator { versions: (operator.versions.0, last), ..operator }
}

/// All groups.
static GROUPS: &[&[Operator]] = &[
    elementwise::OPERATORS,
    reduce::OPERATORS,
    normalize::OPERATORS,
    nn::OPERATORS,
    pool::OPERATORS,
    resize::OPERATORS,
    shape::OPERATORS,
    select::OPERATORS,
    loss::OPERATORS,
    attention::OPERATORS,
    control::OPERATORS,
    quantize::OPERATORS,
    recurrent::OPERATORS,
    signal::OPERATORS,
    vision::OPERATORS,
    known::OPERATORS,
    training::OPERATORS,
    sequence::OPERATORS,
    microsoft::OPERATORS,
    microsoft_attention::OPERATORS,
    quantize_microsoft::OPERATORS,
];

/// The operator of a name in a version of its set.
///
/// # Errors
/// It is not supported.
pub(super) fn find(domain: &str, name: &str, version: i64) -> Result<&'static Operator> {
    let mut known = GROUPS.iter().flat_map(|g| g.iter()).filter(|op| op.domain == domain && op.name == name);
    if let Some(found) = known.clone().find(|op| (op.versions.0..=op.versions.1).contains(&version)) {
        return Ok(found);
    }
    let full = if domain.is_empty() { name.to_owned() } else { format!("{domain}.{name}") };
    let reason = match known.next() {
        None => format!("the operator `{full}` is not supported"),
        Some(op) => {
            let (first, last) = op.versions;
            format!("the operator `{full}` of version {version} is not supported, but of {first} to {last}")
        }
    };
    Err(Refusal::from(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of docs/onnx.md.
    fn table() -> String {
        let mut all: Vec<&Operator> = GROUPS.iter().flat_map(|g| g.iter()).collect();
        all.sort_by_key(|op| (op.domain, op.name, op.versions));
        let mut names: Vec<String> = Vec::new();
        for op in &all {
            let (first, last) = op.versions;
            let versions = match (first, last) {
                OPSETS => String::new(),
                (first, last) if last == OPSETS.1 => format!(" from {first}"),
                (first, last) if first == OPSETS.0 => format!(" to {last}"),
                (first, last) => format!(" {first} to {last}"),
            };
            names.push(match op.domain {
                "" => format!("`{}`{versions}", op.name),
                domain => format!("`{domain}.{}`", op.name),
            });
        }
        let mut text = String::new();
        let mut line = String::new();
        for (i, name) in names.iter().enumerate() {
            let end = if i + 1 == names.len() { "." } else { "," };
            if line.len() + name.len() > 120 {
                text.push_str(line.trim_end());
                text.push('\n');
                line.clear();
            }
            line.push_str(&format!("{name}{end} "));
        }
        text + line.trim_end() + "\n"
    }

    #[test]
    fn the_page_lists_the_operators() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/onnx.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let (begin, end) = ("<!-- operators -->\n", "<!-- end of operators -->\n");
        let (head, rest) = page.split_once(begin).expect("the beginning of the list");
        let (found, tail) = rest.split_once(end).expect("the end of the list");
        if std::env::var_os("TVMR_BLESS").is_some() {
            std::fs::write(path, format!("{head}{begin}{}{end}{tail}", table())).expect("a page that can be written");
            return;
        }
        assert_eq!(found, table(), "`TVMR_BLESS=1` writes the list");
    }

    #[test]
    fn versions_of_an_operator_do_not_overlap() {
        let all: Vec<&Operator> = GROUPS.iter().flat_map(|g| g.iter()).collect();
        for (i, a) in all.iter().enumerate() {
            let first = if a.domain.is_empty() { OPSETS.0 } else { 1 };
            assert!(a.versions.0 <= a.versions.1 && a.versions.0 >= first, "`{}`", a.name);
            for b in &all[..i] {
                let apart = a.versions.1 < b.versions.0 || b.versions.1 < a.versions.0;
                assert!((a.domain, a.name) != (b.domain, b.name) || apart, "`{}`", a.name);
            }
        }
    }
}
