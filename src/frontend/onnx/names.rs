//! Names of ONNX as names of Python.

use crate::ir;
use std::collections::BTreeSet;

/// Words that mean something else in the text of a graph.
const TAKEN: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "match", "cls", "metadata", "tvm", "R",
    "T", "I", "Module", "main", "_",
];

/// Distinct names.
#[derive(Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// A new name that is like another one.
    pub(super) fn add(&mut self, name: &str) -> String {
        let base = identifier(name);
        let numbered = (1..).map(|i| format!("{base}_{i}"));
        let mut all = std::iter::once(base.clone()).chain(numbered);
        let name = all.find(|n| !self.taken.contains(n)).unwrap_or_default();
        self.taken.insert(name.clone());
        name
    }
}

/// The name as an identifier, with a `_` behind words that have a meaning.
pub(super) fn identifier(name: &str) -> String {
    let mut text = ir::identifier(name);
    if TAKEN.contains(&text.as_str()) {
        text.push('_');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_identifiers() {
        let mut names = Names::default();
        let found = ["conv1/weight:0", "conv1.weight:0", "0", "", "lambda", "R"].map(|n| names.add(n));
        assert_eq!(found, ["conv1_weight_0", "conv1_weight_0_1", "_0", "__", "lambda_", "R_"]);
    }
}
