//! Interned names.
//!
//! Names of loops, blocks, variables and buffers repeat across thousands of candidates of one search, so they are
//! stored once per process and represented by `u32`s: copying a function copies no strings, and comparing names is one
//! comparison. The number of distinct names is small, so entries are never removed.

use hashbrown::HashMap;
use std::fmt;
use std::sync::{LazyLock, RwLock};

/// An interned string. Equal symbols are equal strings; the order is that of the text, so sorted output does not
/// depend on the order of interning.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

#[derive(Default)]
struct Interner {
    ids: HashMap<&'static str, u32>,
    texts: Vec<&'static str>,
}

static INTERNER: LazyLock<RwLock<Interner>> = LazyLock::new(Default::default);

impl Symbol {
    /// The symbol of `text`.
    pub fn new(text: &str) -> Symbol {
        // A poisoned lock still guards a consistent table: both updates below are infallible after allocation.
        if let Some(&id) = INTERNER.read().unwrap_or_else(|e| e.into_inner()).ids.get(text) {
            return Symbol(id);
        }
        let mut table = INTERNER.write().unwrap_or_else(|e| e.into_inner());
        if let Some(&id) = table.ids.get(text) {
            return Symbol(id);
        }
        let id = u32::try_from(table.texts.len()).expect("fewer than 2^32 distinct names");
        let text: &'static str = Box::leak(text.into());
        table.texts.push(text);
        table.ids.insert(text, id);
        Symbol(id)
    }

    /// The text of the symbol.
    pub fn as_str(self) -> &'static str {
        INTERNER.read().unwrap_or_else(|e| e.into_inner()).texts[self.0 as usize]
    }

    /// The index in this run's symbol table, for tables by symbol; it differs from run to run.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The symbol `self` followed by `suffix`.
    pub fn with_suffix(self, suffix: &str) -> Symbol {
        Symbol::new(&[self.as_str(), suffix].concat())
    }
}

/// A name as an identifier of C and Python: other characters become `_`, as does the place before a digit at the front.
pub fn identifier(name: &str) -> String {
    let mut text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, '_');
    }
    text
}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        Symbol::new(text)
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_text_is_one_symbol() {
        assert_eq!(Symbol::new("vi"), Symbol::new("vi"));
        assert_ne!(Symbol::new("vi"), Symbol::new("vj"));
        assert_eq!(Symbol::new("i").with_suffix("_0"), "i_0");
    }

    #[test]
    fn order_is_that_of_the_text() {
        let (z, a) = (Symbol::new("zz-late-letter"), Symbol::new("aa-early-letter"));
        assert!(a < z);
    }
}
