//! Traces as TVM's JSON: `[[[kind, inputs, attrs, outputs], …], [[index, decision], …]]`.
//!
//! Among the inputs, random variables are their names, `None` is the text `None`, and texts have additional quotes.
//! Variadic arguments are several inputs. A buffer of a block is two attributes: its index, and 0 for a read or 1 for a
//! write. Index maps, and values to pad with, are graphs of objects, as TVM writes them ([`super::object_graph`]).
//! Arguments without a form in TVM are Python text: arithmetic on random variables (`v4 * 2`), typed constants in
//! annotations, axis separators.

use super::names::{Name, Names};
use super::object_graph;
use super::text;
use super::{Instruction, Trace};
use crate::ir::Symbol;
use crate::schedule::arg::{Arg, Decision, Lambda, LambdaExpr};
use crate::schedule::call::Access;
use crate::schedule::kind::{Param, Slot, Ty};
use serde_json::{Value, json};

impl Trace {
    /// The trace as JSON. Kinds have their current names (`GetSBlock`).
    pub fn to_json(&self) -> Value {
        let mut names = Names::default();
        let insts: Vec<Value> = self.insts.iter().map(|inst| instruction(inst, &mut names)).collect();
        let decisions: Vec<Value> = self
            .decisions()
            .map(|(index, decision)| match decision {
                Decision::Int(v) => json!([index, v]),
                Decision::Ints(sizes) => json!([index, sizes]),
            })
            .collect();
        json!([insts, decisions])
    }
}

fn instruction(inst: &Instruction, names: &mut Names) -> Value {
    let mut inputs = Vec::new();
    let mut attrs = Vec::new();
    for (param, arg) in inst.kind.params.iter().zip(&inst.args) {
        match (param.slot, param.ty, arg) {
            (Slot::Input, Ty::Loops | Ty::Factors, Arg::List(items)) => {
                inputs.extend(items.iter().map(|item| input(item, names)));
            }
            (Slot::Input, Ty::Floats, _) => inputs.push(floats(arg, names)),
            (Slot::Input, Ty::Str, Arg::Str(access)) if (inst.kind.name, param.name) == ACCESS => {
                inputs.push(access_number(*access));
            }
            (Slot::Input, ..) => inputs.push(input(arg, names)),
            (Slot::Attr, Ty::PadValue, Arg::Typed(..) | Arg::Lambda(_)) => attrs.push(pad_value(inst, arg, names)),
            (Slot::Attr | Slot::AttrAsInt, ..) => attrs.extend(attribute(param, arg, names)),
        }
    }
    let outputs: Vec<String> = names.define(inst).into_iter().map(Name::as_output).collect();
    json!([inst.kind.name, inputs, attrs, outputs])
}

/// A value to pad with: in TVM, a function of the new indices.
fn pad_value(inst: &Instruction, arg: &Arg, names: &Names) -> Value {
    let n = inst.args.iter().find_map(|a| if let Arg::Lambda(map) = a { Some(map.results.len()) } else { None });
    let constant = match arg {
        Arg::Typed(dtype, value) => match **value {
            Arg::Int(v) => Some(LambdaExpr::Typed(*dtype, Box::new(LambdaExpr::Int(v)))),
            Arg::Float(v) => Some(LambdaExpr::Typed(*dtype, Box::new(LambdaExpr::Float(v)))),
            _ => None,
        },
        _ => None,
    };
    let function = n.zip(constant).map(|(n, value)| Lambda {
        params: (0..n).map(|i| format!("indices_{i}").as_str().into()).collect(),
        results: vec![value],
        scalar: true,
        ranges: false,
    });
    let graph = match arg {
        Arg::Lambda(function) => object_graph::write(function, names, true),
        _ => function.and_then(|f| object_graph::write(&f, names, true)),
    };
    graph.map_or_else(|| json!(text::arg(arg, names)), |graph| json!(graph))
}

/// Kind and parameter whose access (read or write) TVM writes as a number.
pub(super) const ACCESS: (&str, &str) = ("AnnotateBufferAccess", "buf_type");

/// The number of an access: 0 for `read`, 1 for `write`.
fn access_number(access: Symbol) -> Value {
    match Access::parse(access) {
        Some(Access::Read) => json!(0),
        Some(Access::Write) => json!(1),
        None => json!(format!("\"{access}\"")),
    }
}

fn input(arg: &Arg, names: &Names) -> Value {
    match arg {
        Arg::None => json!("None"),
        Arg::Str(s) => json!(format!("\"{s}\"")),
        Arg::List(items) => items.iter().map(|item| input(item, names)).collect(),
        Arg::Rv(_)
        | Arg::Expr(_)
        | Arg::Int(_)
        | Arg::Float(_)
        | Arg::Bool(_)
        | Arg::Dict(_)
        | Arg::Lambda(_)
        | Arg::Typed(..) => plain(arg, names),
    }
}

fn attribute(param: &Param, arg: &Arg, names: &Names) -> Vec<Value> {
    match (param.ty, arg) {
        (Ty::Bool, Arg::Bool(v)) if param.slot == Slot::AttrAsInt => vec![json!(*v as i64)],
        (Ty::Bool, Arg::Int(v)) if param.slot == Slot::Attr => vec![json!(*v != 0)],
        (Ty::Floats, _) => vec![floats(arg, names)],
        (Ty::Buffer, Arg::List(items)) => match &items[..] {
            [Arg::Str(access), index] => vec![plain(index, names), json!((*access == "write") as i64)],
            _ => vec![plain(arg, names)],
        },
        _ => vec![plain(arg, names)],
    }
}

/// A value in a place where texts need no additional quotes: among attributes, and inside dictionaries.
fn plain(arg: &Arg, names: &Names) -> Value {
    match arg {
        Arg::None => Value::Null,
        Arg::Int(v) => json!(v),
        Arg::Bool(v) => json!(v),
        Arg::Float(v) if v.is_finite() => json!(v),
        Arg::Str(s) => json!(s.as_str()),
        Arg::List(items) => items.iter().map(|item| plain(item, names)).collect(),
        Arg::Dict(items) => {
            Value::Object(items.iter().map(|(k, v)| (k.as_str().to_string(), plain(v, names))).collect())
        }
        Arg::Lambda(l) => json!(object_graph::write(l, names, false).unwrap_or_else(|| text::lambda(l, names))),
        Arg::Float(_) | Arg::Rv(_) | Arg::Expr(_) | Arg::Typed(..) => json!(text::arg(arg, names)),
    }
}

fn floats(arg: &Arg, names: &Names) -> Value {
    match arg {
        Arg::List(items) => items.iter().map(|item| floats(item, names)).collect(),
        Arg::Int(v) => json!(*v as f64),
        _ => plain(arg, names),
    }
}
