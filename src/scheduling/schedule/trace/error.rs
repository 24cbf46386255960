//! Errors of reading traces.

use crate::diagnostic::Diagnostic;
use std::fmt;

/// The error of a trace that cannot be read.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceError {
    /// Place of the error.
    pub place: TracePlace,
    /// The kind of error, with its facts.
    pub kind: TraceErrorKind,
}

/// A place in a trace's JSON.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TracePlace {
    /// The whole JSON.
    Whole,
    /// An instruction, by its position and, if known, its kind.
    Instruction(usize, Option<&'static str>),
    /// An entry of the list of decisions, by its position.
    Decision(usize),
}

/// The kind of error in a trace.
#[derive(Clone, PartialEq, Debug)]
pub enum TraceErrorKind {
    /// The text is not JSON.
    Syntax {
        /// The parser's message, with line and column.
        message: String,
    },
    /// An unexpected value.
    Expected {
        /// The expected value.
        expected: String,
        /// The value found.
        found: String,
    },
    /// An unknown kind of instruction.
    UnknownKind {
        /// The name.
        name: String,
        /// The most similar name.
        near: Option<&'static str>,
    },
    /// A number of inputs or attributes that the kind has in no version.
    Count {
        /// `input` or `attribute`.
        what: &'static str,
        /// The minimum and maximum number.
        expected: (usize, usize),
        /// The number found.
        found: usize,
    },
    /// A random variable that no earlier instruction defines.
    UndefinedRv {
        /// Its name.
        name: String,
    },
    /// A random variable that two instructions define.
    RedefinedRv {
        /// Its name.
        name: String,
    },
    /// Arithmetic on the open factor (-1) of a tile, which has no value.
    OpenFactor,
    /// A graph of TVM objects that is not an index map.
    ObjectGraph {
        /// The parameter.
        param: &'static str,
        /// The reason.
        problem: String,
    },
    /// A text among the arguments that is not an expression of a trace.
    Text {
        /// The text.
        text: String,
        /// The reason.
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

    /// A proposal for the user; may be empty.
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
    /// The error as a diagnostic without a place in the file.
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
