//! Reads traces from JSON, TVM's and tvmr's.
//!
//! Both spellings of `GetSBlock` are read. Trailing inputs or attributes that older versions of TVM did not write take
//! their defaults. Booleans may be written as 0 and 1. Index maps are graphs of TVM objects ([`super::object_graph`])
//! or Python text.

use super::error::{TraceError, TraceErrorKind, TracePlace};
use super::fit::fit;
use super::json_write::ACCESS;
use super::object_graph;
use super::read_expr::{self, RvNames};
use super::{Instruction, Trace};
use crate::diagnostic::{Span, nearest};
use crate::ir::Symbol;
use crate::schedule::arg::{Arg, Decision, Lambda, Rv};
use crate::schedule::kind::{Kind, Outputs, Param, Slot, Ty, default_arg};
use crate::schedule::primitive;
use crate::script::python;
use hashbrown::{HashMap, HashSet};
use serde_json::Value;

type Result<T> = std::result::Result<T, TraceErrorKind>;

fn expected<T>(expected: impl Into<String>, found: &Value) -> Result<T> {
    Err(TraceErrorKind::Expected { expected: expected.into(), found: describe(found) })
}

fn describe(v: &Value) -> String {
    match v {
        Value::Null => "null".to_string(),
        Value::Bool(b) => format!("`{b}`"),
        Value::Number(n) => format!("`{n}`"),
        Value::String(s) => format!("the text `{}`", shortened(s)),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_string(),
    }
}

fn shortened(s: &str) -> String {
    match s.char_indices().nth(40) {
        Some((i, _)) => format!("{}…", &s[..i]),
        None => s.to_string(),
    }
}

impl Trace {
    /// Reads a trace from the text of its JSON.
    ///
    /// # Errors
    ///
    /// If the text is not JSON, or not a trace; the error has the place.
    pub fn from_json_text(text: &str) -> std::result::Result<Trace, TraceError> {
        let value: Value = serde_json::from_str(text).map_err(|e| TraceError {
            place: TracePlace::Whole,
            kind: TraceErrorKind::Syntax { message: e.to_string() },
        })?;
        Trace::from_json(&value)
    }

    /// Reads a trace from JSON.
    ///
    /// # Errors
    ///
    /// The first value that cannot be part of a trace, with its instruction.
    pub fn from_json(value: &Value) -> std::result::Result<Trace, TraceError> {
        let whole = |kind| TraceError { place: TracePlace::Whole, kind };
        let (insts, decisions) = match value.as_array().map(Vec::as_slice) {
            Some([Value::Array(insts), Value::Array(decisions)]) => (insts, decisions),
            _ => {
                let two = "a list of instructions and a list of decisions";
                return Err(whole(expected::<()>(two, value).expect_err("it is always one")));
            }
        };
        let mut reader = Reader::default();
        let mut trace = Trace::default();
        for (i, value) in insts.iter().enumerate() {
            let mut kind = None;
            let inst = reader.instruction(value, &mut kind).map_err(|error| TraceError {
                place: TracePlace::Instruction(i, kind.map(|k: &Kind| k.name)),
                kind: error,
            })?;
            trace.insts.push(inst);
        }
        for (i, value) in decisions.iter().enumerate() {
            decision(value, &mut trace.insts).map_err(|kind| TraceError { place: TracePlace::Decision(i), kind })?;
        }
        no_arithmetic_on_open_factors(&trace)?;
        Ok(trace)
    }
}

fn decision(value: &Value, insts: &mut [Instruction]) -> Result<()> {
    let Some([index, decision]) = value.as_array().map(Vec::as_slice) else {
        return expected("a pair of an instruction's position and its decision", value);
    };
    let n = insts.len();
    let inst = index.as_u64().and_then(|i| usize::try_from(i).ok()).and_then(|i| insts.get_mut(i));
    let Some(inst) = inst else {
        return expected(format!("the position of one of the {n} instructions"), index);
    };
    if !inst.kind.samples {
        return expected(format!("the position of a sampling instruction, not of `{}`", inst.kind.name), index);
    }
    if inst.decision.is_some() {
        return expected("the position of an instruction that has no decision yet", index);
    }
    let integer = |v: &Value| match v.as_i64() {
        Some(v) => Ok(v),
        None => expected("an integer", v),
    };
    inst.decision = match decision {
        // TVM writes the absence of a decision in this way.
        Value::Null => None,
        Value::Array(items) => Some(Decision::Ints(items.iter().map(integer).collect::<Result<_>>()?)),
        other => Some(Decision::Int(integer(other)?)),
    };
    Ok(())
}

/// The open factor of a tile of unknown extent has no value; it can only be an argument of a split.
fn no_arithmetic_on_open_factors(trace: &Trace) -> std::result::Result<(), TraceError> {
    let mut open: HashSet<Rv> = HashSet::new();
    for (i, inst) in trace.insts.iter().enumerate() {
        if !open.is_empty() && inst.args.iter().any(|a| computes_with(a, &open)) {
            let place = TracePlace::Instruction(i, Some(inst.kind.name));
            return Err(TraceError { place, kind: TraceErrorKind::OpenFactor });
        }
        if let Some(Decision::Ints(sizes)) = &inst.decision {
            open.extend(inst.outputs.iter().zip(sizes).filter(|(_, size)| **size == -1).map(|(rv, _)| *rv));
        }
    }
    Ok(())
}

fn computes_with(arg: &Arg, rvs: &HashSet<Rv>) -> bool {
    match arg {
        Arg::Expr(_) | Arg::Lambda(_) => {
            let mut found = false;
            arg.for_each_rv(&mut |rv| found |= rvs.contains(&rv));
            found
        }
        Arg::List(items) => items.iter().any(|a| computes_with(a, rvs)),
        Arg::Dict(items) => items.iter().any(|(_, a)| computes_with(a, rvs)),
        Arg::None | Arg::Rv(_) | Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_) | Arg::Typed(..) => false,
    }
}

/// The random variables defined so far.
#[derive(Default)]
struct Reader<'a> {
    names: HashMap<&'a str, Rv>,
    n_rvs: u32,
}

impl RvNames for Reader<'_> {
    fn rv(&self, name: &str) -> Option<Rv> {
        self.names.get(name).copied()
    }

    fn all(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.names.keys().copied().collect();
        all.sort_unstable();
        all
    }
}

impl<'a> Reader<'a> {
    fn instruction(&mut self, value: &'a Value, found: &mut Option<&'static Kind>) -> Result<Instruction> {
        let (name, inputs, attrs, outputs) = match value.as_array().map(Vec::as_slice) {
            Some([Value::String(name), Value::Array(inputs), Value::Array(attrs), Value::Array(outputs)]) => {
                (name, inputs, attrs, outputs)
            }
            _ => return expected("`[kind, inputs, attributes, outputs]`", value),
        };
        let kind = primitive::by_name(name).ok_or_else(|| TraceErrorKind::UnknownKind {
            name: shortened(name),
            near: nearest(name, primitive::ALL.iter().map(|k| k.name)),
        })?;
        *found = Some(kind);
        let args = self.args(kind, inputs, attrs)?;
        let outputs = self.outputs(kind, outputs)?;
        Ok(Instruction { kind, args, outputs, decision: None })
    }

    fn outputs(&mut self, kind: &Kind, outputs: &'a [Value]) -> Result<Vec<Rv>> {
        let most = match kind.outputs {
            Outputs::None => 0,
            Outputs::Block | Outputs::Loop | Outputs::Number => 1,
            Outputs::Blocks | Outputs::Loops | Outputs::Numbers => usize::MAX,
        };
        if outputs.len() != most && most != usize::MAX {
            return Err(TraceErrorKind::Count { what: "output", expected: (most, most), found: outputs.len() });
        }
        outputs
            .iter()
            .map(|output| {
                let Value::String(name) = output else { return expected("the name of a random variable", output) };
                let rv = Rv(self.n_rvs);
                self.n_rvs += 1;
                if name != "_" && self.names.insert(name, rv).is_some() {
                    return Err(TraceErrorKind::RedefinedRv { name: shortened(name) });
                }
                Ok(rv)
            })
            .collect()
    }

    fn args(&self, kind: &'static Kind, inputs: &[Value], attrs: &[Value]) -> Result<Vec<Arg>> {
        check_count(kind, "input", inputs.len(), |p| p.slot == Slot::Input)?;
        check_count(kind, "attribute", attrs.len(), |p| p.slot != Slot::Input)?;
        let (mut inputs, mut attrs) = (inputs, attrs);
        kind.params
            .iter()
            .map(|param| {
                let from = if param.slot == Slot::Input { &mut inputs } else { &mut attrs };
                match (param.slot, param.ty) {
                    (Slot::Input, Ty::Loops | Ty::Factors) => {
                        return std::mem::take(from)
                            .iter()
                            .map(|v| self.spread(param, v))
                            .collect::<Result<_>>()
                            .map(Arg::List);
                    }
                    (Slot::Input, Ty::Str) if (kind.name, param.name) == ACCESS => {
                        if let [access, rest @ ..] = from
                            && let Some(access @ (0 | 1)) = access.as_i64()
                        {
                            *from = rest;
                            return Ok(if access == 1 { "write" } else { "read" }.into());
                        }
                    }
                    (Slot::Attr | Slot::AttrAsInt, Ty::Buffer) => {
                        if let [index, access, rest @ ..] = from
                            && let (Some(index), Some(access @ (0 | 1))) = (index.as_i64(), access.as_i64())
                        {
                            *from = rest;
                            let access = if access == 1 { "write" } else { "read" };
                            return Ok(Arg::List(vec![access.into(), Arg::Int(index)]));
                        }
                    }
                    _ => {}
                }
                match from.split_first() {
                    Some((first, rest)) => {
                        *from = rest;
                        match param.slot {
                            Slot::Input => fitted(param, self.input_value(param, first)?, first),
                            Slot::Attr | Slot::AttrAsInt => self.attribute(param, first),
                        }
                    }
                    // The number of arguments was checked, so there is a default.
                    None => Ok(default_arg(param).unwrap_or(Arg::None)),
                }
            })
            .collect()
    }

    /// One of the inputs that form a list.
    fn spread(&self, param: &Param, v: &Value) -> Result<Arg> {
        let one = Arg::List(vec![self.input_value(param, v)?]);
        match fitted(param, one, v)? {
            Arg::List(mut items) => Ok(items.pop().unwrap_or(Arg::None)),
            other => Ok(other),
        }
    }

    fn input_value(&self, param: &Param, v: &Value) -> Result<Arg> {
        match v {
            Value::String(s) => match s.as_str() {
                "None" => Ok(Arg::None),
                _ if s.len() >= 2 && s.starts_with('"') && s.ends_with('"') => {
                    Ok(Arg::Str(Symbol::new(&s[1..s.len() - 1])))
                }
                _ => match self.names.get(s.as_str()) {
                    Some(&rv) => Ok(Arg::Rv(rv)),
                    None => self.text(param, s),
                },
            },
            Value::Array(items) => {
                Ok(Arg::List(items.iter().map(|i| self.input_value(param, i)).collect::<Result<_>>()?))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => plain(v),
        }
    }

    fn attribute(&self, param: &Param, v: &Value) -> Result<Arg> {
        let arg = match (param.ty, v) {
            (Ty::IndexMap | Ty::Ranges | Ty::PadValue, Value::String(s)) => self.text(param, s)?,
            _ => plain(v)?,
        };
        fitted(param, arg, v)
    }

    /// A text that is not a name: an expression.
    fn text(&self, param: &Param, s: &str) -> Result<Arg> {
        if object_graph::is_graph(s) {
            let map = object_graph::read(s, self, param.ty == Ty::PadValue)
                .map_err(|problem| TraceErrorKind::ObjectGraph { param: param.name, problem })?;
            let ranges = param.ty == Ty::Ranges;
            return Ok(Arg::Lambda(if ranges { Lambda { ranges, ..(*map).clone() }.into() } else { map }));
        }
        let unreadable = |message: String| TraceErrorKind::Text { text: shortened(s), message };
        let is_name = !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_name {
            return Err(TraceErrorKind::UndefinedRv { name: shortened(s) });
        }
        let first = |errors: Vec<crate::diagnostic::Diagnostic>| {
            errors.into_iter().next().map_or_else(|| "no expression".to_string(), |d| d.message)
        };
        let e = python::parse_expression(s, Span::new(0, s.len())).map_err(|errors| unreadable(first(errors)))?;
        read_expr::arg(&e, self).map_err(|d| unreadable(d.message))
    }
}

/// Checks that the number is valid for the kind. One parameter may take two attributes or any number of inputs.
fn check_count(kind: &Kind, what: &'static str, found: usize, mine: impl Fn(&Param) -> bool) -> Result<()> {
    let (mut least, mut most) = (0, 0);
    for param in kind.params.iter().filter(|p| mine(p)) {
        let width: (usize, usize) = match (param.slot, param.ty) {
            (Slot::Input, Ty::Loops | Ty::Factors) => (0, usize::MAX),
            (Slot::Attr | Slot::AttrAsInt, Ty::Buffer) => (2, 2),
            _ => (1, 1),
        };
        if default_arg(param).is_none() {
            least += width.0;
        }
        most = usize::saturating_add(most, width.1);
    }
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(TraceErrorKind::Count { what, expected: (least, most), found })
    }
}

/// The argument in the form of its parameter.
fn fitted(param: &Param, arg: Arg, v: &Value) -> Result<Arg> {
    fit(param, arg).or_else(|what| expected(format!("{what} for `{}`", param.name), v))
}

/// A value in a place where texts have no additional quotes.
fn plain(v: &Value) -> Result<Arg> {
    Ok(match v {
        Value::Null => Arg::None,
        Value::Bool(v) => Arg::Bool(*v),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(v), _) => Arg::Int(v),
            (None, Some(f)) if n.is_f64() => Arg::Float(f),
            _ => return expected("a number of 64 bits", v),
        },
        Value::String(s) => Arg::Str(Symbol::new(s)),
        Value::Array(items) => Arg::List(items.iter().map(plain).collect::<Result<_>>()?),
        Value::Object(items) => {
            Arg::Dict(items.iter().map(|(k, v)| Ok((Symbol::new(k), plain(v)?))).collect::<Result<_>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Dialect;

    /// Reads the JSON, and expects this error.
    fn refused(json: &str, error: &str) {
        match Trace::from_json_text(json) {
            Ok(trace) => panic!("read as {}", trace.to_json()),
            Err(e) => assert_eq!(e.to_string(), error),
        }
    }

    #[test]
    fn traces_read_back() {
        let json = concat!(
            r#"[[["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1","l2"]],"#,
            r#"["SamplePerfectTile",["l1"],[2,64],["v3","v4"]],"#,
            r#"["SampleCategorical",[],[[1,2],[0.25,0.75]],["v5"]],"#,
            r#"["Annotate",["b0","\"x\""],["text"],[]],["Annotate",["b0",[1,"v3 * 2"]],["list"],[]],"#,
            r#"["Annotate",["b0",{"a":1,"b":"c"}],["dict"],[]],["EnterPostproc",[],[],[]]],[[2,[4,32]],[3,1]]]"#
        );
        let trace = Trace::from_json_text(json).expect("it is a trace");
        assert_eq!(trace.to_json().to_string(), json);
        let python = trace.to_python(Dialect::Classic);
        assert_eq!(
            python,
            "# from tvm import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name=\"C\", func_name=\"main\")
  l1, l2 = sch.get_loops(block=b0)
  v3, v4 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=64, decision=[4, 32])
  v5 = sch.sample_categorical(candidates=[1, 2], probs=[0.25, 0.75], decision=1)
  sch.annotate(block_or_loop=b0, ann_key=\"text\", ann_val=\"x\")
  sch.annotate(block_or_loop=b0, ann_key=\"list\", ann_val=[1, v3 * 2])
  sch.annotate(block_or_loop=b0, ann_key=\"dict\", ann_val={\"a\": 1, \"b\": \"c\"})
  sch.enter_postproc()"
        );
        assert_eq!(Trace::from_python(&python, "t.py").expect("it is a trace"), trace);
    }

    #[test]
    fn older_traces_read() {
        let json = r#"[[["GetBlock",[],["C"],["b0"]],["GetLoops",["b0"],[],["l1"]],["SamplePerfectTile",["l1"],[2],["v2","v3"]]],[]]"#;
        let trace = Trace::from_json_text(json).expect("it is a trace");
        assert_eq!(trace.insts[0].args, [Arg::Str("C".into()), Arg::None]);
        assert_eq!(trace.insts[2].args[2], Arg::Int(16));
        let python = "b = sch.get_block(\"C\")\nl, = sch.get_loops(b)\nx, y = sch.sample_perfect_tile(l, 2)\n";
        assert_eq!(Trace::from_python(python, "t.py").expect("it is a trace"), trace);
    }

    #[test]
    fn wrong_traces_say_where_and_what() {
        refused("[[", "trace: no JSON: EOF while parsing a list at line 1 column 2");
        refused("{}", "trace: expected a list of instructions and a list of decisions, found an object");
        refused("[[],[],[]]", "trace: expected a list of instructions and a list of decisions, found a list of 3");
        refused("[[4],[]]", "instruction 0: expected `[kind, inputs, attributes, outputs]`, found `4`");
        refused(r#"[[["GetLops",[],[],[]]],[]]"#, "instruction 0: there is no instruction `GetLops`");
        refused(
            r#"[[["GetLoops",["b0"],[],["l1"]]],[]]"#,
            "instruction 0 (`GetLoops`): random variable `b0` is not defined",
        );
        refused(r#"[[["GetLoops",[],[],["l1"]]],[]]"#, "instruction 0 (`GetLoops`): expected 1 input, found 0");
        refused(
            r#"[[["GetSBlock",[],["C","main"],["b0","b1"]]],[]]"#,
            "instruction 0 (`GetSBlock`): expected 1 output, found 2",
        );
        refused(
            r#"[[["GetSBlock",[],["C","main"],["b0"]],["GetSBlock",[],["C","main"],["b0"]]],[]]"#,
            "instruction 1 (`GetSBlock`): random variable `b0` is made twice",
        );
        refused(
            r#"[[["GetSBlock",[],[7,"main"],["b0"]]],[]]"#,
            "instruction 0 (`GetSBlock`): expected a text for `name`, found `7`",
        );
        refused(
            r#"[[["SampleCategorical",[],[[1,"x"],[0.5,0.5]],["v0"]]],[]]"#,
            "instruction 0 (`SampleCategorical`): expected a list of integers for `candidates`, found a list of 2",
        );
        refused(
            r#"[[["GetSBlock",[],["C","main"],["b0"]],["Annotate",["b0","x y"],["k"],[]]],[]]"#,
            "instruction 1 (`Annotate`): cannot read `x y`: expected the end of the expression, found `y`",
        );
        refused(
            r#"[[["GetSBlock",[],["C","main"],["b0"]],["Annotate",["b0","{\"root_index\":1}"],["k"],[]]],[]]"#,
            "instruction 1 (`Annotate`): cannot read the object graph `ann_val`: it has no `nodes`",
        );
        refused(
            r#"[[["EnterPostproc",[],[],[]]],[[0,1]]]"#,
            "decision entry 0: expected the position of a sampling instruction, not of `EnterPostproc`, found `0`",
        );
        refused(
            r#"[[["SamplePerfectTile",["l0"],[2,16],["v1","v2"]]],[]]"#,
            "instruction 0 (`SamplePerfectTile`): random variable `l0` is not defined",
        );
        refused(
            r#"[[["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1"]],["SamplePerfectTile",["l1"],[2,16],["v2","v3"]],["Annotate",["b0","v2 * 2"],["k"],[]]],[[2,[-1,1]]]]"#,
            "instruction 3 (`Annotate`): the open factor (-1) of a tile has no value to compute with",
        );
        refused(r#"[[],[[0,1]]]"#, "decision entry 0: expected the position of one of the 0 instructions, found `0`");
        refused(
            r#"[[["SampleCategorical",[],[[1],[1.0]],["v0"]]],[[0,"x"]]]"#,
            "decision entry 0: expected an integer, found the text `x`",
        );
        refused(
            r#"[[["SampleCategorical",[],[[1],[1.0]],["v0"]]],[[0,0],[0,0]]]"#,
            "decision entry 1: expected the position of an instruction that has no decision yet, found `0`",
        );
    }

    /// The values with one part replaced by each of `others`.
    fn mutations(value: &Value, others: &[Value]) -> Vec<Value> {
        let mut all = others.to_vec();
        if let Value::Array(items) = value {
            for (i, item) in items.iter().enumerate() {
                all.extend(mutations(item, others).into_iter().map(|m| {
                    let mut changed = items.clone();
                    changed[i] = m;
                    Value::Array(changed)
                }));
                let mut shorter = items.clone();
                shorter.remove(i);
                all.push(Value::Array(shorter));
                let mut longer = items.clone();
                longer.insert(i, item.clone());
                all.push(Value::Array(longer));
            }
        }
        all
    }

    #[test]
    fn no_json_makes_it_panic() {
        let text = "@T.prim_func
def main(A: T.Buffer((8, 8), \"float32\"), B: T.Buffer((8, 8), \"float32\")):
    for i, j in T.grid(8, 8):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
";
        let program = crate::script::parse(text, "p.tir", &Default::default()).expect("the program is right");
        let json = serde_json::json!([
            [
                ["GetSBlock", [], ["B", "main"], ["b0"]],
                ["GetLoops", ["b0"], [], ["l1", "l2"]],
                ["SamplePerfectTile", ["l1"], [2, 16], ["v3", "v4"]],
                ["SamplePartitionedTile", ["l1"], [2, 1, 2], ["v5", "v6"]],
                ["SampleCategorical", [], [[1, 2], [0.5, 0.5]], ["v7"]],
                ["Annotate", ["b0", [1, "v3", "v4 * 2"]], ["k"], []],
                ["Unannotate", ["b0"], ["k"], []],
                ["SetScope", ["b0"], [0, "local"], []],
                ["StorageAlign", ["b0"], [0, 0, 4, 2], []],
                ["DecomposeReduction", ["b0", "l1"], [], ["b8"]],
                ["GetConsumers", ["b0"], [], []]
            ],
            [[2, [2, 4]], [3, [4, 2]], [4, 1]]
        ]);
        let others = serde_json::json!([
            null, true, -1, 0, 9223372036854775807i64, 18446744073709551615u64, 1e300, "", "None", "\"", "\"\"", "{}", "b0", "l1",
            "v3", "v3 //", "v3 // 0", "lambda", "lambda i: i", "lambda i, j: (i // 0, v3)", "f'{b0}'", "é", [], [[]], {}, {"a": "b0"}
        ]);
        let others = others.as_array().cloned().unwrap_or_default();
        let mut read = 0;
        for mutation in mutations(&json, &others) {
            let Ok(trace) = Trace::from_json(&mutation) else { continue };
            read += 1;
            let back = Trace::from_json(&trace.to_json()).expect("what is written reads back");
            assert_eq!(back.to_json(), trace.to_json());
            let _ = (trace.to_python(Dialect::Classic), trace.simplified());
            let mut schedule = crate::schedule::Schedule::new(&program.module, 0);
            let _ = trace.replay(&mut schedule);
        }
        assert!(read > 100, "{read} mutations are traces");
    }
}
