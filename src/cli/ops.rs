//! `tvmr ops`: lists the operators of graphs.

use super::Done;
use super::args::{Format, Global};
use super::console::Console;
use crate::graph::op::GROUPS;
use crate::graph::operator::{Default, Operator};
use serde_json::{Value, json};
use std::fmt::Write;

/// List the operators that graphs may have
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::OPS)]
pub(super) struct Args {
    /// Only operators whose names contain this text
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

pub(super) fn run(args: &Args, _global: &Global, console: Console) -> Done {
    let is_wanted = |op: &&Operator| args.filter.as_ref().is_none_or(|text| op.name.contains(text.as_str()));
    match args.format {
        Format::Human => {
            let mut text = String::new();
            for (title, operators) in GROUPS {
                let wanted: Vec<&Operator> = operators.iter().filter(is_wanted).collect();
                if wanted.is_empty() {
                    continue;
                }
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{title}:");
                for op in wanted {
                    let _ = writeln!(text, "  R.{}({})\n      {}", op.name, signature(op), op.doc);
                }
            }
            console.result(&text)?;
        }
        Format::Json => {
            let of = |(title, operators): &(&str, &'static [Operator])| -> Vec<Value> {
                let title = (*title).to_owned();
                let one =
                    |op: &Operator| json!({"name": op.name, "group": title, "signature": signature(op), "doc": op.doc});
                operators.iter().filter(is_wanted).map(one).collect()
            };
            let all: Vec<Value> = GROUPS.iter().flat_map(of).collect();
            console.result(&format!("{:#}\n", json!({"operators": all})))?;
        }
    }
    Ok(())
}

/// The parameters with their defaults.
fn signature(op: &Operator) -> String {
    let param = |p: &crate::graph::operator::Param| match p.default {
        Default::Required => p.name.to_owned(),
        Default::Absent | Default::None => format!("{}=None", p.name),
        Default::Int(v) => format!("{}={v}", p.name),
        Default::Ints(all) => format!("{}={all:?}", p.name),
        Default::Float(v) => format!("{}={v:?}", p.name),
        Default::Bool(v) => format!("{}={}", p.name, if v { "True" } else { "False" }),
        Default::Str(v) => format!("{}=\"{v}\"", p.name),
    };
    op.params.iter().map(param).collect::<Vec<_>>().join(", ")
}
