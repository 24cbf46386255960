//! Index maps as TVM writes them into the JSON of a trace: a graph of objects, serialised as a text.
//!
//! ```text
//! {"root_index": 9, "nodes": [
//!   {"type": "None"},                                                           // 0
//!   {"type": "ir.PrimType", "data": {"span": 0, "dtype": "int32"}},             // 1
//!   {"type": "ffi.String", "data": "i"},                                        // 2
//!   {"type": "ir.Var", "data": {"span": 0, "ty": 1, "name": 2}},                // 3
//!   {"type": "ffi.Array", "data": [3]},                                         // 4
//!   {"type": "int", "data": 4},                                                 // 5
//!   {"type": "ir.IntImm", "data": {"span": 0, "ty": 1, "value": 5}},            // 6
//!   {"type": "prim.FloorDiv", "data": {"span": 0, "ty": 1, "a": 3, "b": 6}},    // 7
//!   {"type": "ffi.Array", "data": [7]},                                         // 8
//!   {"type": "tirx.IndexMap", "data": {"initial_indices": 4, "final_indices": 8, "inverse_index_map": 0}}]}
//! ```
//!
//! This is `lambda i: (i // 4,)`. A number in `data` is the position of a node, except in the `data` of an `int`. A
//! variable that is not an initial index is the random variable with its name. The writer makes one node for each
//! distinct operand; TVM reads nodes in any order in which operands precede their users.
//!
//! Graphs of earlier versions are read too. Their nodes have a `type_key` and texts as `attrs`: `{"type_key":
//! "tir.FloorDiv", "attrs": {"a": "3", "b": "6", "dtype": "int32"}}`. An inverse given with the map is ignored:
//! inverses are computed.

use super::names::Names;
use super::read_expr::RvNames;
use super::text::parameter_names;
use crate::ir::{BinOp, CmpOp, DType, Symbol};
use crate::schedule::arg::{Lambda, LambdaExpr};
use serde_json::{Value, json};
use std::sync::Arc;

/// The type of indices in written maps. TVM adapts it to the program.
const INDEX: &str = "int32";

/// TVM's names of binary operators.
const BINARY: [(&str, BinOp); 11] = [
    ("Add", BinOp::Add),
    ("Sub", BinOp::Sub),
    ("Mul", BinOp::Mul),
    ("Div", BinOp::Div),
    ("Mod", BinOp::Mod),
    ("FloorDiv", BinOp::FloorDiv),
    ("FloorMod", BinOp::FloorMod),
    ("Min", BinOp::Min),
    ("Max", BinOp::Max),
    ("And", BinOp::And),
    ("Or", BinOp::Or),
];

/// TVM's names of comparisons.
const COMPARE: [(&str, CmpOp); 6] =
    [("EQ", CmpOp::Eq), ("NE", CmpOp::Ne), ("LT", CmpOp::Lt), ("LE", CmpOp::Le), ("GT", CmpOp::Gt), ("GE", CmpOp::Ge)];

// ---- writing -----------------------------------------------------------------------------------------------

/// The function of indices as the text of a graph; `None` if it has an expression without a form in TVM's index maps.
/// The constants of a function that gives values of a buffer keep their types; those of an index map get the type of
/// indices.
pub(super) fn write(l: &Lambda, names: &Names, gives_values: bool) -> Option<String> {
    let mut writer = Writer { nodes: vec![json!({"type": "None"})], names, params: Vec::new(), gives_values };
    for name in parameter_names(l, names) {
        let var = writer.var(&name);
        writer.params.push(var);
    }
    let params = writer.params.clone();
    let initial = writer.node("ffi.Array", json!(params));
    let results: Option<Vec<usize>> = l.results.iter().map(|e| writer.expr(e, INDEX).map(|(node, _)| node)).collect();
    let last = writer.node("ffi.Array", json!(results?));
    let fields = json!({"initial_indices": initial, "final_indices": last, "inverse_index_map": 0});
    let root = writer.node("tirx.IndexMap", fields);
    Some(json!({"root_index": root, "nodes": writer.nodes}).to_string())
}

struct Writer<'a> {
    nodes: Vec<Value>,
    names: &'a Names,
    /// The nodes of the initial indices.
    params: Vec<usize>,
    gives_values: bool,
}

impl Writer<'_> {
    /// The position of a node; equal nodes are shared.
    fn node(&mut self, kind: &str, data: Value) -> usize {
        let node = json!({"type": kind, "data": data});
        self.nodes.iter().position(|n| *n == node).unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn ty(&mut self, dtype: &str) -> usize {
        self.node("ir.PrimType", json!({"span": 0, "dtype": dtype}))
    }

    fn var(&mut self, name: &str) -> usize {
        let (ty, name) = (self.ty(INDEX), self.node("ffi.String", json!(name)));
        self.node("ir.Var", json!({"span": 0, "ty": ty, "name": name}))
    }

    fn int(&mut self, value: i64, dtype: &str) -> usize {
        let (ty, value) = (self.ty(dtype), self.node("int", json!(value)));
        self.node("ir.IntImm", json!({"span": 0, "ty": ty, "value": value}))
    }

    fn float(&mut self, value: f64, dtype: &str) -> Option<usize> {
        let ty = self.ty(dtype);
        value.is_finite().then(|| self.node("ir.FloatImm", json!({"span": 0, "ty": ty, "value": value})))
    }

    fn operation(&mut self, name: &str, dtype: &str, operands: &[(&str, usize)]) -> usize {
        let mut data = json!({"span": 0, "ty": self.ty(dtype)});
        for &(field, node) in operands {
            data[field] = json!(node);
        }
        self.node(&format!("prim.{name}"), data)
    }

    /// Node and type of an expression; integers without a type get the wanted one.
    fn expr(&mut self, e: &LambdaExpr, wanted: &'static str) -> Option<(usize, &'static str)> {
        Some(match e {
            LambdaExpr::Param(i) => (*self.params.get(*i)?, INDEX),
            LambdaExpr::Rv(rv) => (self.var(&self.names.of(*rv)), INDEX),
            LambdaExpr::Int(v) => (self.int(*v, wanted), wanted),
            LambdaExpr::Float(v) => (self.float(*v, "float32")?, "float32"),
            LambdaExpr::Typed(_, value) if !self.gives_values && matches!(**value, LambdaExpr::Int(_)) => {
                self.expr(value, wanted)?
            }
            LambdaExpr::Typed(dtype, value) => {
                let dtype: DType = dtype.as_str().parse().ok()?;
                let node = match (&**value, dtype.is_float()) {
                    (LambdaExpr::Int(v), false) => self.int(*v, dtype.name()),
                    (LambdaExpr::Int(v), true) => self.float(*v as f64, dtype.name())?,
                    (LambdaExpr::Float(v), true) => self.float(*v, dtype.name())?,
                    _ => return None,
                };
                (node, dtype.name())
            }
            LambdaExpr::Binary(op, a, b) => {
                let (name, _) = BINARY.into_iter().find(|(_, o)| o == op)?;
                let (a, b, dtype) = self.operands(a, b)?;
                (self.operation(name, dtype, &[("a", a), ("b", b)]), dtype)
            }
            LambdaExpr::Compare(op, a, b) => {
                let (name, _) = COMPARE.into_iter().find(|(_, o)| o == op)?;
                let (a, b, _) = self.operands(a, b)?;
                (self.operation(name, "bool", &[("a", a), ("b", b)]), "bool")
            }
            LambdaExpr::Not(a) => {
                let (a, _) = self.expr(a, "bool")?;
                (self.operation("Not", "bool", &[("a", a)]), "bool")
            }
            LambdaExpr::IfThenElse(parts) => {
                let [condition, a, b] = &**parts;
                let (condition, _) = self.expr(condition, "bool")?;
                let (a, b, dtype) = self.operands(a, b)?;
                let op = self.node("ir.Op", json!("prim.if_then_else"));
                let args = self.node("ffi.Array", json!([condition, a, b]));
                let (ty, none) = (self.ty(dtype), self.node("ffi.Array", json!([])));
                let call = json!({"span": 0, "ty": ty, "op": op, "args": args, "attrs": 0, "ty_args": none});
                (self.node("ir.Call", call), dtype)
            }
            LambdaExpr::AxisSeparator => return None,
        })
    }

    /// Converts both operands to one type.
    fn operands(&mut self, a: &LambdaExpr, b: &LambdaExpr) -> Option<(usize, usize, &'static str)> {
        let is_literal = |e: &LambdaExpr| matches!(e, LambdaExpr::Int(_) | LambdaExpr::Typed(..));
        if is_literal(a) {
            let (b, dtype) = self.expr(b, INDEX)?;
            return Some((self.expr(a, dtype)?.0, b, dtype));
        }
        let (a, dtype) = self.expr(a, INDEX)?;
        Some((a, self.expr(b, dtype)?.0, dtype))
    }
}

// ---- reading -----------------------------------------------------------------------------------------------

/// Maximum number of visited nodes, counting shared ones at each visit: a small graph may represent a tree of any size.
const MAX_NODES: usize = 10_000;
/// Maximum nesting of operands.
const MAX_DEPTH: usize = 100;

type Result<T> = std::result::Result<T, String>;

/// Whether the text is a graph, and not an expression.
pub(super) fn is_graph(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Reads a function of indices from a graph. Constants keep their types if the function gives values of a buffer; for
/// an index only the number matters.
///
/// # Errors
///
/// A description of the part that is not an index map.
pub(super) fn read(text: &str, names: &dyn RvNames, gives_values: bool) -> Result<Arc<Lambda>> {
    let graph: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let nodes = graph["nodes"].as_array().ok_or("it has no `nodes`")?;
    let root = position(&graph["root_index"]).or_else(|| position(&graph["root"])).ok_or("it has no `root_index`")?;
    let mut reader = Reader { nodes, names, params: Vec::new(), gives_values, left: MAX_NODES };
    match reader.kind(root)? {
        "IndexMap" => {}
        other => return Err(format!("expected an `IndexMap`, found `{other}`")),
    }
    let mut params: Vec<Symbol> = Vec::new();
    for node in reader.items(reader.operand(root, "initial_indices")?)? {
        params.push(Symbol::new(reader.var_name(node)?));
        reader.params.push(node);
    }
    let last = reader.items(reader.operand(root, "final_indices")?)?;
    let results = last.into_iter().map(|node| reader.expr(node, 0)).collect::<Result<Vec<LambdaExpr>>>()?;
    Ok(Arc::new(Lambda { params, results, scalar: false, ranges: false }))
}

/// The position of a node; earlier versions wrote it as a text.
fn position(v: &Value) -> Option<usize> {
    let number = v.as_u64().or_else(|| v.as_str()?.parse().ok())?;
    usize::try_from(number).ok()
}

struct Reader<'a> {
    nodes: &'a [Value],
    names: &'a dyn RvNames,
    /// The nodes of the initial indices.
    params: Vec<usize>,
    gives_values: bool,
    /// The number of nodes that may still be visited.
    left: usize,
}

impl<'a> Reader<'a> {
    fn node(&self, at: usize) -> Result<&'a Value> {
        self.nodes.get(at).ok_or_else(|| format!("there is no node {at}"))
    }

    /// The type of a node, without TVM's module name.
    fn kind(&self, at: usize) -> Result<&'a str> {
        let node = self.node(at)?;
        let name = node["type"].as_str().or_else(|| node["type_key"].as_str());
        let name = name.ok_or_else(|| format!("node {at} has no type"))?;
        Ok(name.rsplit('.').next().unwrap_or(name))
    }

    fn field(&self, at: usize, name: &str) -> Result<&'a Value> {
        let node = self.node(at)?;
        let fields = if node["attrs"].is_object() { &node["attrs"] } else { &node["data"] };
        fields.get(name).ok_or_else(|| format!("node {at} has no `{name}`"))
    }

    fn operand(&self, at: usize, name: &str) -> Result<usize> {
        position(self.field(at, name)?).ok_or_else(|| format!("`{name}` of node {at} is no position"))
    }

    fn items(&self, at: usize) -> Result<Vec<usize>> {
        let list = self.node(at)?["data"].as_array().ok_or_else(|| format!("node {at} is no list"))?;
        list.iter().map(|v| position(v).ok_or_else(|| format!("node {at} is no list of positions"))).collect()
    }

    fn string(&self, at: usize) -> Result<&'a str> {
        let node = self.node(at)?;
        let text = node["data"].as_str().or_else(|| node["repr_str"].as_str());
        text.ok_or_else(|| format!("node {at} is no text"))
    }

    fn var_name(&self, at: usize) -> Result<&'a str> {
        match self.kind(at)? {
            "Var" | "SizeVar" => self.string(self.operand(at, "name")?),
            other => Err(format!("expected a variable, found `{other}`")),
        }
    }

    fn dtype(&self, at: usize) -> Result<&'a str> {
        let text = match self.operand(at, "ty") {
            Ok(ty) => self.field(ty, "dtype")?,
            Err(_) => self.field(at, "dtype")?,
        };
        text.as_str().ok_or_else(|| format!("node {at} has no type of data"))
    }

    /// A number that is part of a node, or a node of its own.
    fn number(&self, at: usize) -> Result<&'a Value> {
        let value = self.field(at, "value")?;
        match position(value).and_then(|p| self.nodes.get(p)) {
            Some(node) if node["type"] == "int" || node["type"] == "float" => Ok(&node["data"]),
            _ => Ok(value),
        }
    }

    fn constant(&self, at: usize, value: LambdaExpr) -> Result<LambdaExpr> {
        let dtype = self.dtype(at)?;
        let is_plain = dtype == INDEX || !self.gives_values && matches!(value, LambdaExpr::Int(_));
        Ok(if is_plain { value } else { LambdaExpr::Typed(Symbol::new(dtype), Box::new(value)) })
    }

    fn expr(&mut self, at: usize, depth: usize) -> Result<LambdaExpr> {
        self.left = self.left.checked_sub(1).filter(|_| depth < MAX_DEPTH).ok_or("it is too large")?;
        let kind = self.kind(at)?;
        if let Some(i) = self.params.iter().position(|&p| p == at) {
            return Ok(LambdaExpr::Param(i));
        }
        let operand = |r: &mut Self, name: &str| -> Result<Box<LambdaExpr>> {
            let node = r.operand(at, name)?;
            r.expr(node, depth + 1).map(Box::new)
        };
        if let Some((_, op)) = BINARY.into_iter().find(|(name, _)| *name == kind) {
            return Ok(LambdaExpr::Binary(op, operand(self, "a")?, operand(self, "b")?));
        }
        if let Some((_, op)) = COMPARE.into_iter().find(|(name, _)| *name == kind) {
            return Ok(LambdaExpr::Compare(op, operand(self, "a")?, operand(self, "b")?));
        }
        match kind {
            "Var" | "SizeVar" => {
                let name = self.var_name(at)?;
                self.names.rv(name).map(LambdaExpr::Rv).ok_or_else(|| format!("`{name}` is not defined"))
            }
            "IntImm" => {
                let number = self.number(at)?;
                let value = number.as_i64().or_else(|| number.as_str()?.parse().ok());
                self.constant(at, LambdaExpr::Int(value.ok_or_else(|| format!("node {at} is no integer"))?))
            }
            "FloatImm" => {
                let number = self.number(at)?;
                let value = number.as_f64().or_else(|| number.as_str()?.parse().ok());
                self.constant(at, LambdaExpr::Float(value.ok_or_else(|| format!("node {at} is no number"))?))
            }
            // Casts are ignored: all integers of an index map are indices.
            "Cast" => operand(self, "value").map(|e| *e),
            "Not" => Ok(LambdaExpr::Not(operand(self, "a")?)),
            "Select" => Ok(LambdaExpr::IfThenElse(Box::new([
                *operand(self, "condition")?,
                *operand(self, "true_value")?,
                *operand(self, "false_value")?,
            ]))),
            "Call" => {
                let op = self.operand(at, "op")?;
                let op = self.string(op)?;
                match (op.rsplit('.').next(), &self.items(self.operand(at, "args")?)?[..]) {
                    (Some("if_then_else"), &[c, a, b]) => {
                        let mut part = |node| self.expr(node, depth + 1);
                        Ok(LambdaExpr::IfThenElse(Box::new([part(c)?, part(a)?, part(b)?])))
                    }
                    _ => Err(format!("an index map cannot call `{op}`")),
                }
            }
            other => Err(format!("an index map cannot hold `{other}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trace;
    use super::*;
    use crate::script::Dialect;

    /// The trace of one `transform_layout`, with this text as its index map.
    fn with_map(map: &str) -> std::result::Result<Trace, String> {
        let insts = json!([
            ["GetSBlock", [], ["B", "main"], ["b0"]],
            ["SampleCategorical", [], [[4, 8], [0.5, 0.5]], ["v1"]],
            ["TransformLayout", ["b0", map], [0, 1, null, false], []]
        ]);
        Trace::from_json(&json!([insts, [[1, 0]]])).map_err(|e| e.to_string())
    }

    fn python_of(trace: &Trace) -> String {
        let python = trace.to_python(Dialect::Current);
        let (_, map) = python.split_once("index_map=").expect("the trace has an index map");
        map.split(", pad_value").next().unwrap_or_default().to_string()
    }

    #[test]
    fn maps_read_back_from_the_graphs_that_are_written() {
        for map in [
            "lambda i, j: (i // 16, j, i % 16,)",
            "lambda i, j: (j // v1, i, j % v1,)",
            "lambda: ()",
            "lambda i: (i // 8,)",
            "lambda i: (T.max(i - 3, 0) * 2 + 1, T.min(4, i),)",
            "lambda i, j: (T.if_then_else(i < 4 and not j == 2, i, j + 4), T.truncdiv(i, 3),)",
        ] {
            let trace = with_map(map).unwrap_or_else(|e| panic!("{map}: {e}"));
            let json = trace.to_json();
            let graph = json[0][2][1][1].as_str().expect("a text");
            assert!(is_graph(graph), "{map}: {graph}");
            assert_eq!(Trace::from_json(&json).expect("it reads back"), trace, "{map}");
        }
    }

    #[test]
    fn the_graphs_of_both_formats_read() {
        let new = r#"{"root_index":13,"nodes":[{"type":"None"},{"type":"ir.PrimType","data":{"span":0,"dtype":"int32"}},
            {"type":"ffi.String","data":"i"},{"type":"ir.Var","data":{"span":0,"ty":1,"name":2}},
            {"type":"ffi.String","data":"j"},{"type":"ir.Var","data":{"span":0,"ty":1,"name":4}},
            {"type":"ffi.Array","data":[3,5]},{"type":"int","data":16},
            {"type":"ir.IntImm","data":{"span":0,"ty":1,"value":7}},
            {"type":"prim.FloorDiv","data":{"span":0,"ty":1,"a":3,"b":8}},
            {"type":"ir.IntImm","data":{"span":0,"ty":1,"value":7}},
            {"type":"prim.FloorMod","data":{"span":0,"ty":1,"a":3,"b":10}},{"type":"ffi.Array","data":[9,5,11]},
            {"type":"tirx.IndexMap","data":{"initial_indices":6,"final_indices":12,"inverse_index_map":0}}],
            "metadata":{"tvm_version":"0.27.0"}}"#;
        let old = r#"{"root":1,"nodes":[{"type_key":""},
            {"type_key":"tir.IndexMap","attrs":{"initial_indices":"2","final_indices":"7","inverse_index_map":"0"}},
            {"type_key":"Array","data":[3,5]},
            {"type_key":"tir.Var","attrs":{"dtype":"int32","name":"4","span":"0"}},
            {"type_key":"runtime.String","repr_str":"i"},
            {"type_key":"tir.Var","attrs":{"dtype":"int32","name":"6","span":"0"}},
            {"type_key":"runtime.String","repr_str":"j"},{"type_key":"Array","data":[8,5,10]},
            {"type_key":"tir.FloorDiv","attrs":{"a":"3","b":"9","dtype":"int32","span":"0"}},
            {"type_key":"IntImm","attrs":{"dtype":"int32","span":"0","value":"16"}},
            {"type_key":"tir.FloorMod","attrs":{"a":"3","b":"9","dtype":"int32","span":"0"}}],"attrs":{}}"#;
        for graph in [new, old] {
            let trace = with_map(graph).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(python_of(&trace), "lambda i, j: (i // 16, j, i % 16,)");
        }
    }

    #[test]
    fn types_of_constants_in_indices_are_those_of_the_indices() {
        let typed = with_map("lambda i, j: (i // T.int64(16), T.int64(2) * j,)").expect("it is a map").to_json();
        assert_eq!(typed, with_map("lambda i, j: (i // 16, 2 * j,)").expect("it is a map").to_json());
    }

    #[test]
    fn maps_of_python_read_under_any_name() {
        let plain = "lambda i, j: (j, i)";
        for map in [
            plain,
            "tvm.tirx.IndexMap.from_func(lambda i, j: (j, i), inverse_index_map=lambda j, i: (i, j))",
            "tvm.tirx.IndexMap.from_func(lambda i, j: (T.Cast(\"int64\", j), T.Cast(\"int64\", i),))",
            "tvm.tir.IndexMap.from_func(mapping_function=lambda i, j: (j, i), index_dtype=\"int32\")",
            "IndexMap.from_func(lambda i, j: (j, i), ndim=2, inverse_index_map=None)",
        ] {
            let python = |map: &str| {
                format!(
                    "b0 = sch.get_sblock(\"B\")\nsch.transform_layout(block=b0, buffer=(\"write\", 0), index_map={map})"
                )
            };
            let read = |map: &str| Trace::from_python(&python(map), "t.py").unwrap_or_else(|e| panic!("{map}: {e}"));
            assert_eq!(read(map), read(plain), "{map}");
        }
    }

    #[test]
    fn other_graphs_are_refused() {
        let problem = |graph: &str| with_map(graph).expect_err("it is no index map");
        let expect = |graph: &str, why: &str| {
            let found = problem(graph);
            assert!(found.ends_with(why), "{found}");
        };
        expect("{", "EOF while parsing an object at line 1 column 1");
        expect("{}", "it has no `nodes`");
        expect(r#"{"nodes":[],"root_index":0}"#, "there is no node 0");
        expect(r#"{"nodes":[{"type":"ffi.Array","data":[]}],"root_index":0}"#, "expected an `IndexMap`, found `Array`");
        let map = |expr: &str| {
            format!(
                r#"{{"nodes":[{{"type":"ffi.Array","data":[]}},{expr},{{"type":"ffi.Array","data":[1]}},
                {{"type":"tirx.IndexMap","data":{{"initial_indices":0,"final_indices":2}}}}],"root_index":3}}"#
            )
        };
        expect(&map(r#"{"type":"tirx.BufferLoad","data":{}}"#), "an index map cannot hold `BufferLoad`");
        expect(&map(r#"{"type":"prim.Add","data":{"a":1,"b":1}}"#), "it is too large");
        expect(&map(r#"{"type":"prim.Add","data":{"a":9,"b":1}}"#), "there is no node 9");
        expect(&map(r#"{"type":"ir.Var","data":{"name":9}}"#), "there is no node 9");
        expect(&map(r#"{"type":"ir.IntImm","data":{"value":"x","ty":1}}"#), "node 1 is no integer");
    }
}
