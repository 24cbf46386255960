//! Why a text or JSON is no trace.

use crate::diagnostic::Diagnostic;
use std::fmt;

/// A trace that cannot be read.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceError {
    /// Where.
    pub place: TracePlace,
    /// What is wrong.
    pub kind: TraceErrorKind,
}

/// A place in a trace's JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracePlace {
    /// The whole of it.
    Whole,
    /// An instruction, by its position and, where that is known, its kind.
    Instruction(usize, Option<&'static str>),
    /// An entry of the list of decisions, by its position.
    Decision(usize),
}

/// What is wrong with a trace.
#[derive(Clone, PartialEq, Debug)]
pub enum TraceErrorKind {
    /// The text is no JSON.
    Syntax {
        /// The parser's message, with line and column.
        message: String,
    },
    /// Something else stands there.
    Expected {
        /// What should.
        expected: String,
        /// What does.
        found: String,
    },
    /// No such kind of instruction.
    UnknownKind {
        /// The name.
        name: String,
        /// The name that may have been meant.
        near: Option<&'static str>,
    },
    /// A number of inputs or attributes that the kind never had.
    Count {
        /// `input` or `attribute`.
        what: &'static str,
        /// The least and the most there can be.
        expected: (usize, usize),
        /// How many there are.
        found: usize,
    },
    /// A random variable that no earlier instruction made.
    UndefinedRv {
        /// Its name.
        name: String,
    },
    /// A random variable that two instructions make.
    RedefinedRv {
        /// Its name.
        name: String,
    },
    /// Arithmetic on the open factor (-1) of a tile, which has no value.
    OpenFactor,
    /// A graph of TVM's objects that is no index map.
    ObjectGraph {
        /// The parameter.
        param: &'static str,
        /// Why not.
        problem: String,
    },
    /// A text among the arguments that is no expression of a trace.
    Text {
        /// The text.
        text: String,
        /// Why not.
        message: String,
    },
}

impl TraceErrorKind {
    /// Short stable name of the kind of mistake.
    pub fn code(&self) -> &'static str {
        match self {
            TraceErrorKind::Syntax { .. } => "trace-syntax",
            TraceErrorKind::Expected { .. } => "trace-shape",
            TraceErrorKind::UnknownKind { .. } => "unknown-instruction",
            TraceErrorKind::Count { .. } => "argument-count",
            TraceErrorKind::UndefinedRv { .. } => "undefined-name",
            TraceErrorKind::RedefinedRv { .. } => "defined-twice",
            TraceErrorKind::OpenFactor => "open-factor",
            TraceErrorKind::ObjectGraph { .. } => "index-map-graph",
            TraceErrorKind::Text { .. } => "trace-text",
        }
    }

    /// What to do about it; may be empty.
    pub fn help(&self) -> String {
        match self {
            TraceErrorKind::UnknownKind { near: Some(near), .. } => format!("did you mean `{near}`?"),
            TraceErrorKind::ObjectGraph { .. } => {
                "take the trace in its Python form (`str(sch.trace)`), where the index map is a lambda".to_string()
            }
            TraceErrorKind::Syntax { .. } => {
                "a trace is `[[[kind, inputs, attributes, outputs], …], [[index, decision], …]]`".to_string()
            }
            TraceErrorKind::Expected { .. }
            | TraceErrorKind::UnknownKind { near: None, .. }
            | TraceErrorKind::Count { .. }
            | TraceErrorKind::UndefinedRv { .. }
            | TraceErrorKind::RedefinedRv { .. }
            | TraceErrorKind::OpenFactor
            | TraceErrorKind::Text { .. } => String::new(),
        }
    }
}

impl TraceError {
    /// The error as a diagnostic of a whole file.
    pub fn diagnostic(&self) -> Diagnostic {
        let help = self.kind.help();
        Diagnostic::error(self.kind.code(), self.to_string()).maybe_help((!help.is_empty()).then_some(help))
    }
}

impl fmt::Display for TracePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TracePlace::Whole => f.write_str("trace"),
            TracePlace::Instruction(i, None) => write!(f, "instruction {i}"),
            TracePlace::Instruction(i, Some(kind)) => write!(f, "instruction {i} (`{kind}`)"),
            TracePlace::Decision(i) => write!(f, "decision entry {i}"),
        }
    }
}

impl fmt::Display for TraceErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceErrorKind::Syntax { message } => write!(f, "no JSON: {message}"),
            TraceErrorKind::Expected { expected, found } => write!(f, "expected {expected}, found {found}"),
            TraceErrorKind::UnknownKind { name, .. } => write!(f, "there is no instruction `{name}`"),
            TraceErrorKind::Count { what, expected: (least, most), found } => {
                let s = if *most == 1 { "" } else { "s" };
                match (least, most) {
                    (a, b) if a == b => write!(f, "expected {a} {what}{s}, found {found}"),
                    (a, &usize::MAX) => write!(f, "expected at least {a} {what}s, found {found}"),
                    (a, b) => write!(f, "expected {a} to {b} {what}s, found {found}"),
                }
            }
            TraceErrorKind::UndefinedRv { name } => write!(f, "random variable `{name}` is not defined"),
            TraceErrorKind::RedefinedRv { name } => write!(f, "random variable `{name}` is made twice"),
            TraceErrorKind::OpenFactor => f.write_str("the open factor (-1) of a tile has no value to compute with"),
            TraceErrorKind::ObjectGraph { param, problem } => {
                write!(f, "cannot read the object graph `{param}`: {problem}")
            }
            TraceErrorKind::Text { text, message } => write!(f, "cannot read `{text}`: {message}"),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

impl std::error::Error for TraceError {}
