//! Names of random variables in a written trace: a letter for the type, and a number from one counter.

use super::Instruction;
use crate::schedule::arg::{Decision, Rv};
use hashbrown::HashMap;
use std::fmt;

/// The written form of a random variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    /// `b0`, `l1`, `v2`.
    Numbered(char, usize),
    /// The open factor of a tile of unknown extent, which is not a variable: `_` as a result and `None` as an argument,
    /// as TVM writes it.
    Open,
}

impl Name {
    /// The name as a result.
    pub(super) fn as_output(self) -> String {
        match self {
            Name::Numbered(letter, n) => format!("{letter}{n}"),
            Name::Open => "_".to_string(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Numbered(letter, n) => write!(f, "{letter}{n}"),
            Name::Open => f.write_str("None"),
        }
    }
}

/// The names given so far. A trace is written from its first instruction to its last.
#[derive(Default)]
pub(super) struct Names {
    names: HashMap<Rv, Name>,
}

impl Names {
    /// Names the results of the next instruction.
    pub(super) fn define(&mut self, inst: &Instruction) -> Vec<Name> {
        let mut given = Vec::with_capacity(inst.outputs.len());
        for (i, &rv) in inst.outputs.iter().enumerate() {
            let open = matches!(&inst.decision, Some(Decision::Ints(sizes)) if sizes.get(i) == Some(&-1));
            let name = if open { Name::Open } else { Name::Numbered(inst.kind.outputs.letter(), self.names.len()) };
            self.names.insert(rv, name);
            given.push(name);
        }
        given
    }

    /// The name of a variable. An undefined variable, which no schedule records, is `_`: no reader accepts that.
    pub(super) fn of(&self, rv: Rv) -> String {
        self.names.get(&rv).map_or_else(|| "_".to_string(), Name::to_string)
    }
}
