//! Names of variables and buffers in the text.
//!
//! A variable or buffer has a preferred name; if that is in use in the enclosing scopes, the first free number is
//! appended. A name is free again at the end of its scope, so the loops of two nests can both be `i`.

use crate::ir::{BufferId, Func, Symbol, VarId};
use std::collections::HashSet;

/// The names in scope.
pub(super) struct Names {
    taken: HashSet<Symbol>,
    vars: Vec<Option<Symbol>>,
    buffers: Vec<Option<Symbol>>,
    /// Definitions in order, to undo them at the end of a scope.
    log: Vec<Defined>,
}

enum Defined {
    /// A reserved word.
    Word(Symbol),
    Var(VarId),
    Buffer(BufferId),
}

/// Names that no variable may have: Python's keywords, and the names of the modules.
const RESERVED: &[&str] = &[
    "I", "T", "R", "cls", "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
    "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "range", "return", "try", "tvm", "while", "with", "yield",
];

impl Names {
    pub(super) fn new(func: &Func) -> Names {
        Names {
            taken: RESERVED.iter().map(|w| Symbol::new(w)).collect(),
            vars: vec![None; func.arena.n_vars()],
            buffers: vec![None; func.arena.n_buffers()],
            log: Vec::new(),
        }
    }

    /// A mark for [`Names::leave`].
    pub(super) fn enter(&self) -> usize {
        self.log.len()
    }

    /// Ends the scope that began at the mark.
    pub(super) fn leave(&mut self, mark: usize) {
        for defined in self.log.drain(mark..) {
            let name = match defined {
                Defined::Word(name) => Some(name),
                Defined::Var(v) => self.vars[v.index()].take(),
                Defined::Buffer(b) => self.buffers[b.index()].take(),
            };
            if let Some(name) = name {
                self.taken.remove(&name);
            }
        }
    }

    pub(super) fn define_var(&mut self, func: &Func, v: VarId) -> Symbol {
        if let Some(name) = self.vars[v.index()] {
            return name;
        }
        let name = self.unique(func.arena.var(v).name, "v");
        self.vars[v.index()] = Some(name);
        self.log.push(Defined::Var(v));
        name
    }

    /// Defines a variable with another preferred name.
    pub(super) fn define_var_as(&mut self, v: VarId, hint: Symbol) -> Symbol {
        let name = self.unique(hint, "v");
        self.vars[v.index()] = Some(name);
        self.log.push(Defined::Var(v));
        name
    }

    pub(super) fn define_buffer(&mut self, func: &Func, b: BufferId) -> Symbol {
        if let Some(name) = self.buffers[b.index()] {
            return name;
        }
        let name = self.unique(func.arena.buffer(b).name, "buffer");
        self.buffers[b.index()] = Some(name);
        self.log.push(Defined::Buffer(b));
        name
    }

    /// Gives a variable a name that no other variable can have: an attribute of a buffer.
    pub(super) fn define_var_as_member(&mut self, v: VarId, text: Symbol) {
        self.vars[v.index()] = Some(text);
        self.log.push(Defined::Var(v));
    }

    /// Reserves a name for an entity that is neither variable nor buffer.
    pub(super) fn reserve(&mut self, hint: Symbol) -> Symbol {
        let name = self.unique(hint, "memory");
        self.log.push(Defined::Word(name));
        name
    }

    pub(super) fn has_var(&self, v: VarId) -> bool {
        self.vars[v.index()].is_some()
    }

    pub(super) fn var(&self, func: &Func, v: VarId) -> Symbol {
        self.vars[v.index()].unwrap_or(func.arena.var(v).name)
    }

    pub(super) fn buffer(&self, func: &Func, b: BufferId) -> Symbol {
        self.buffers[b.index()].unwrap_or(func.arena.buffer(b).name)
    }

    /// The name, or the name with the first free number.
    fn unique(&mut self, hint: Symbol, default: &str) -> Symbol {
        let mut name = if is_plain(hint.as_str()) { hint } else { Symbol::new(&cleaned(hint.as_str(), default)) };
        if self.taken.contains(&name) {
            let base = name;
            let mut i = 1;
            while self.taken.contains(&name) {
                name = Symbol::new(&format!("{base}_{i}"));
                i += 1;
            }
        }
        self.taken.insert(name);
        name
    }
}

fn is_plain(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_alphabetic()) && chars.all(|c| c == '_' || c.is_alphanumeric())
}

fn cleaned(name: &str, default: &str) -> String {
    if name.is_empty() {
        return default.to_string();
    }
    let clean: String = name.chars().map(|c| if c == '_' || c.is_alphanumeric() { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c == '_' || c.is_alphabetic()) { clean } else { format!("_{clean}") }
}
