//! Traces as Python text that TVM executes.
//!
//! ```text
//! # from tvm import s_tir
//! def apply_trace(sch: s_tir.Schedule) -> None:
//!   b0 = sch.get_sblock(name="C", func_name="main")
//!   l1, l2 = sch.get_loops(block=b0)
//! ```
//!
//! The text equals TVM's character by character, except where TVM's could not be read back: texts are escaped, texts in
//! dictionaries are quoted, whole floats keep their point, booleans in annotations stay booleans.

use super::names::{Name, Names};
use super::text;
use super::{Instruction, Trace};
use crate::schedule::arg::{Arg, Decision};
use crate::schedule::kind::{Default, Param, Ty};
use crate::script::Dialect;
use std::fmt::Write;

impl Trace {
    /// The trace as a Python function, without a final line break.
    pub fn to_python(&self, dialect: Dialect) -> String {
        self.to_python_with(dialect, |_| None)
    }

    /// The trace as a Python function, with a comment after each instruction for which `comment` returns one.
    pub fn to_python_with(&self, dialect: Dialect, comment: impl Fn(usize) -> Option<String>) -> String {
        let mut out = String::from(match dialect {
            Dialect::Classic => "# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:",
            Dialect::Current => "# from tvm import s_tir\ndef apply_trace(sch: s_tir.Schedule) -> None:",
        });
        for (i, statement) in self.python_statements(dialect).iter().enumerate() {
            out.push_str("\n  ");
            out.push_str(statement);
            if let Some(comment) = comment(i) {
                out.push_str("  # ");
                out.push_str(&comment);
            }
        }
        if self.insts.is_empty() {
            out.push_str("\n  pass");
        }
        out
    }

    /// The trace as Python statements, one for each instruction.
    pub fn python_statements(&self, dialect: Dialect) -> Vec<String> {
        let mut names = Names::default();
        self.insts.iter().map(|inst| statement(inst, &mut names, dialect)).collect()
    }
}

fn statement(inst: &Instruction, names: &mut Names, dialect: Dialect) -> String {
    let kind = inst.kind;
    let mut args = String::new();
    let mut add = |keyword: &str, value: &str| {
        if !args.is_empty() {
            args.push_str(", ");
        }
        if !keyword.is_empty() {
            let _ = write!(args, "{keyword}=");
        }
        args.push_str(value);
    };
    // Arguments after `*loops` need keywords.
    let by_position = kind.positional && kind.params.iter().all(|p| p.ty != Ty::Loops);
    for (param, arg) in kind.params.iter().zip(&inst.args) {
        match (param.ty, arg) {
            (Ty::Loops, Arg::List(items)) => items.iter().for_each(|item| add("", &text::arg(item, names))),
            _ if param.default == Default::Empty && matches!(arg, Arg::List(items) if items.is_empty()) => {}
            _ => add(if by_position { "" } else { param.name }, &value(param, arg, names)),
        }
    }
    match &inst.decision {
        Some(Decision::Int(v)) => add("decision", &v.to_string()),
        Some(Decision::Ints(sizes)) => {
            let sizes: Vec<String> = sizes.iter().map(i64::to_string).collect();
            add("decision", &format!("[{}]", sizes.join(", ")));
        }
        None => {}
    }
    let method = match (dialect, kind.classic) {
        (Dialect::Classic, Some((_, method))) => method,
        _ => kind.method,
    };
    let outputs: Vec<String> = names.define(inst).into_iter().map(Name::as_output).collect();
    match &outputs[..] {
        [] => format!("sch.{method}({args})"),
        [one] if kind.outputs.is_list() => format!("{one}, = sch.{method}({args})"),
        all => format!("{} = sch.{method}({args})", all.join(", ")),
    }
}

fn value(param: &Param, arg: &Arg, names: &Names) -> String {
    match (param.ty, arg) {
        (Ty::Bool, Arg::Int(v)) => if *v != 0 { "True" } else { "False" }.to_string(),
        (Ty::Floats, Arg::List(items)) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Arg::Float(v) => text::float_17g(*v),
                    other => text::arg(other, names),
                })
                .collect();
            format!("[{}]", items.join(", "))
        }
        // `("read", 0)` is a tuple in Python.
        (Ty::Buffer, Arg::List(items)) => format!("({})", text::list(items, names)),
        (Ty::Value, Arg::Float(v)) if v.is_finite() && v.fract() != 0.0 => text::float_17g(*v),
        _ => text::arg(arg, names),
    }
}
