//! Names in C.

use crate::ir::identifier;

/// Words that no parameter or function of C99 or C++11 may be named.
const KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "class",
    "compl",
    "const",
    "const_cast",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "prepared",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "workspace",
    "xor",
    "xor_eq",
];

/// A name as an identifier of C and C++: other characters become `_`, keywords get one behind them.
pub fn c_name(name: &str) -> String {
    let mut text = identifier(name);
    if KEYWORDS.contains(&text.as_str()) {
        text.push('_');
    }
    text
}

/// Whether a name can stand in C as it is.
pub fn is_c_name(name: &str) -> bool {
    c_name(name) == name
}

/// Names that differ from each other, in order: later ones get a number.
pub(super) fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        let mut tried = name.clone();
        let mut n = 1;
        while all.contains(&tried) {
            n += 1;
            tried = format!("{name}_{n}");
        }
        all.push(tried);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        let cases =
            [("A", "A"), ("p0.weight", "p0_weight"), ("1x", "_1x"), ("", "_"), ("int", "int_"), ("größe", "gr__e")];
        for (name, expected) in cases {
            assert_eq!(c_name(name), expected);
            assert!(is_c_name(expected), "{expected}");
        }
        assert!(!is_c_name("a-b"));
        assert_eq!((identifier("int"), identifier("a-b")), ("int".to_owned(), "a_b".to_owned()));
    }

    #[test]
    fn equal_names_are_numbered() {
        let names = ["a", "b", "a", "a_2", "a"].map(str::to_owned);
        assert_eq!(distinct(names.into_iter()), ["a", "b", "a_2", "a_2_2", "a_3"]);
    }
}
