//! From the nodes of a model to the calls of a graph.

use super::extents::{self, Extents};
use super::fold::fold;
use super::given::{Given, Imported, Unsupported};
use super::model::Model;
use super::names::{Names, identifier};
use super::node::{Node, Refusal, Result};
use super::proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto,
};
use super::{op, tensor, types};
use crate::diagnostic::Diagnostic;
use crate::graph::{Arg, Function, Output, Type, Value, ValueDef, ValueId, op as operators, pass};
use crate::ir::{AttrValue, DType, ExprId, Symbol};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Loops that become more calls are refused.
const MOST_CALLS: usize = 1 << 16;

/// So are subgraphs and functions of more nodes in all, which may become no calls.
const MOST_NODES: usize = 1 << 17;

/// Subgraphs in subgraphs are refused from this depth on.
const MOST_DEPTH: usize = 16;

/// Values that are not stored as values of the graph until a call reads them.
#[derive(Clone)]
pub(super) enum Operand<'m> {
    /// A value of the graph.
    Value(ValueId),
    /// A tensor of the file.
    Tensor(&'m TensorProto),
    /// Integers that are known.
    Extents(Extents),
    /// A sequence of tensors.
    Sequence(Vec<Operand<'m>>),
    /// The result of a node that is refused.
    Refused,
}

/// The state of a translation.
pub(super) struct Translator<'m> {
    pub model: &'m Model,
    pub function: Function,
    /// What names stand for: those of the model, then those of the subgraphs that are translated.
    scopes: Vec<HashMap<&'m str, Operand<'m>>>,
    /// Symbols by the names of dimensions.
    symbols: HashMap<String, Dimension>,
    /// Values of symbols by their names in the graph.
    bound: BTreeMap<String, i64>,
    /// The weights that are parameters.
    weights: HashMap<String, ValueId>,
    names: Names,
    problems: Vec<Problem>,
    /// The calls of the model's functions around the node that is translated.
    pub frames: Vec<Frame<'m>>,
    /// The number of subgraphs and functions around it.
    depth: usize,
    /// The nodes of subgraphs and functions so far.
    n_nodes: usize,
    /// The inputs whose elements were missed.
    pub needed: BTreeSet<String>,
}

/// A call of a function of the model.
pub(super) struct Frame<'m> {
    /// The attributes of the call, and those that it leaves out.
    pub attributes: HashMap<&'m str, &'m AttributeProto>,
    /// The versions of operators in the function.
    opsets: &'m BTreeMap<String, i64>,
}

/// A symbolic dimension.
struct Dimension {
    /// The name in the graph.
    name: String,
    /// The symbol, or its value, from its first use on.
    extent: Option<ExprId>,
}

/// Why nodes are refused.
struct Problem {
    refusal: Refusal,
    /// The first node.
    node: String,
    /// How many more there are.
    others: usize,
}

/// The graph of a model, a function `main`.
///
/// # Errors
/// All that is not supported.
pub fn import(model: &Model, given: &Given) -> std::result::Result<Imported, Unsupported> {
    let mut cx = Translator::of_inputs(model, given);
    let graph = &model.graph;
    for (i, node) in graph.node.iter().enumerate() {
        cx.node(node, i);
    }
    let mut outputs = Vec::new();
    for output in &graph.output {
        match cx.operand(&output.name).and_then(|operand| cx.value_of(&output.name, operand)) {
            Ok(v) => outputs.push(Output::Value(v)),
            Err(refusal) => cx.refuse(refusal, format!("output `{}`", output.name)),
        }
    }
    if outputs.is_empty() && cx.problems.is_empty() {
        cx.refuse(Refusal::from("the model has no outputs".to_owned()), "graph".to_owned());
    }
    if !cx.problems.is_empty() {
        let found = cx.problems.into_iter().map(Problem::diagnostic).collect();
        return Err(Unsupported { found, needed: cx.needed.into_iter().collect() });
    }
    cx.name_outputs(&outputs);
    cx.function.output = match &outputs[..] {
        [one] => one.clone(),
        _ => Output::Tuple(outputs),
    };
    pass::remove_dead_code(&mut cx.function);
    Ok(Imported { symbols: cx.symbol_values(), function: cx.function })
}

/// A function with the inputs of a model as its parameters, and nothing in it. Inputs that are not supported are left out.
pub fn signature(model: &Model, given: &Given) -> Function {
    Translator::of_inputs(model, given).function
}

impl Problem {
    fn diagnostic(self) -> Diagnostic {
        let others = match self.others {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            n => format!(" and {n} others"),
        };
        let found = Diagnostic::error("onnx", format!("{} ({}{others})", self.refusal.reason, self.node));
        match self.refusal.help {
            Some(help) => found.help(help),
            None => found,
        }
    }
}

impl<'m> Translator<'m> {
    /// Gives outputs the names that the model gives them. The steps on the way to an output have its name so far.
    fn name_outputs(&mut self, outputs: &[Output]) {
        for (info, output) in self.model.graph.output.iter().zip(outputs) {
            let Output::Value(v) = *output else { continue };
            let name: Symbol = identifier(&info.name).as_str().into();
            let values = &mut self.function.values;
            // Parameters keep their names, by which callers pass them.
            let is_param = |value: &Value| matches!(value.def, ValueDef::Param);
            if is_param(&values[v.index()]) || values.iter().any(|value| value.name == name && is_param(value)) {
                continue;
            }
            values.iter_mut().filter(|value| value.name == name).for_each(|value| value.name = "lv".into());
            values[v.index()].name = name;
        }
    }

    /// A function with the inputs of a model.
    fn of_inputs(model: &'m Model, given: &Given) -> Translator<'m> {
        let mut cx = Translator {
            model,
            function: Function::new("main"),
            scopes: vec![HashMap::new()],
            frames: Vec::new(),
            depth: 0,
            n_nodes: 0,
            symbols: HashMap::new(),
            bound: given.symbols.clone(),
            weights: HashMap::new(),
            names: Names::default(),
            problems: Vec::new(),
            needed: BTreeSet::new(),
        };
        model.names.values().for_each(|name| _ = cx.names.add(name));
        for tensor in &model.graph.initializer {
            cx.define(&tensor.name, Operand::Tensor(tensor));
        }
        let inputs: Vec<&ValueInfoProto> = model.graph.input.iter().filter(|i| cx.operand(&i.name).is_err()).collect();
        for input in &inputs {
            cx.bind_shape(input, given);
        }
        let mut n_inputs = 0;
        for input in inputs {
            let name = model.names.get(&input.name).map_or("x", String::as_str);
            let operand = match cx.input_type(input) {
                Ok(ty) => {
                    let param = (!given.constants.contains_key(name)).then(|| cx.function.add_param(name, ty));
                    n_inputs += i64::from(param.is_some());
                    let known = given.known(name).map(|c| cx.function.add_constant(c.clone()));
                    known.or(param).map_or(Operand::Refused, Operand::Value)
                }
                Err(refusal) => {
                    cx.refuse(refusal, format!("input `{}`", input.name));
                    Operand::Refused
                }
            };
            cx.define(&input.name, operand);
        }
        cx.function.attrs.insert("num_input", AttrValue::Int(n_inputs));
        cx
    }

    /// Names the symbols of an input, and binds them to the shape that is given for it.
    fn bind_shape(&mut self, input: &ValueInfoProto, given: &Given) {
        let Some(shape) = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()?.shape.as_ref()) else { return };
        let keys: Vec<Option<String>> = (0..shape.dim.len()).map(|d| symbol_key(input, shape, d)).collect();
        let name = self.model.names.get(&input.name);
        let constant = name.and_then(|name| given.known(name)).map(|c| c.shape().to_vec());
        let stated = given.shapes.iter().find(|(n, _)| Some(n) == name).map(|(_, shape)| shape.clone());
        let wanted = constant.or(stated).filter(|wanted| wanted.len() == keys.len());
        for (d, key) in keys.into_iter().enumerate() {
            let Some(key) = key else { continue };
            let names = &mut self.names;
            let dimension =
                (self.symbols.entry(key)).or_insert_with_key(|key| Dimension { name: names.add(key), extent: None });
            if let Some(wanted) = &wanted {
                self.bound.entry(dimension.name.clone()).or_insert(wanted[d]);
            }
        }
    }

    /// The symbols that have values.
    fn symbol_values(&self) -> BTreeMap<String, i64> {
        let of = |d: &Dimension| self.bound.get(&d.name).map(|&n| (d.name.clone(), n));
        self.symbols.values().filter_map(of).collect()
    }

    fn refuse(&mut self, refusal: Refusal, node: String) {
        // The node that caused it has been told.
        if refusal.reason.is_empty() {
            return;
        }
        match self.problems.iter_mut().find(|p| p.refusal.reason == refusal.reason) {
            Some(known) => known.others += 1,
            None => self.problems.push(Problem { refusal, node, others: 0 }),
        }
    }

    fn input_type(&mut self, input: &ValueInfoProto) -> Result<Type> {
        let Some(ty) = input.r#type.as_ref().and_then(|t| t.tensor_type.as_ref()) else {
            return Err(Refusal::from(
                "only tensors are supported, not sequences, maps and optional values".to_owned(),
            ));
        };
        let dtype = types::dtype(ty.elem_type)?;
        let Some(shape) = &ty.shape else {
            return Err(Refusal {
                reason: "the number of dimensions is not known".to_owned(),
                help: Some("state the shape of the input in the model".to_owned()),
            });
        };
        let mut extents = Vec::new();
        for (d, dim) in shape.dim.iter().enumerate() {
            extents.push(match (dim.dim_value, symbol_key(input, shape, d)) {
                (_, Some(key)) => self.symbol(key),
                (n, None) => self.function.arena.int(n.unwrap_or(0), DType::Int64),
            });
        }
        Ok(Type::tensor(dtype, extents))
    }

    fn symbol(&mut self, key: String) -> ExprId {
        let names = &mut self.names;
        let dimension =
            self.symbols.entry(key).or_insert_with_key(|key| Dimension { name: names.add(key), extent: None });
        let arena = &mut self.function.arena;
        *dimension.extent.get_or_insert_with(|| match self.bound.get(&dimension.name) {
            Some(&n) => arena.int(n, DType::Int64),
            None => arena.new_var_expr(dimension.name.as_str(), DType::Int64).1,
        })
    }

    fn node(&mut self, proto: &'m NodeProto, position: usize) {
        let results = self.results(proto);
        let results = results.unwrap_or_else(|refusal| {
            let name = match proto.name.as_str() {
                "" => format!("node {position}"),
                name => format!("node `{name}`"),
            };
            self.refuse(refusal, name);
            vec![Operand::Refused; proto.output.len()]
        });
        for (name, result) in proto.output.iter().zip(results) {
            self.define(name, result);
        }
    }

    fn results(&mut self, proto: &'m NodeProto) -> Result<Vec<Operand<'m>>> {
        let domain = if proto.domain == "ai.onnx" { "" } else { proto.domain.as_str() };
        let is_called = |f: &FunctionProto| f.name == proto.op_type && f.domain == proto.domain;
        if let Some((function, opsets)) = self.model.functions.iter().find(|(f, _)| is_called(f)) {
            return self.call(function, opsets, proto);
        }
        let opsets = self.frames.last().map_or(&self.model.opsets, |frame| frame.opsets);
        let version = opsets.get(domain).copied().unwrap_or(1);
        let operator = op::find(domain, &proto.op_type, version)?;
        let mut node = Node::new(self, proto, version);
        for i in 0..node.n_inputs() {
            if node.has(i) && matches!(node.cx.operand(&proto.input[i])?, Operand::Refused) {
                // Nothing is told of what follows from what is told.
                return Ok(vec![Operand::Refused; proto.output.len()]);
            }
        }
        if let Some(known) = fold(&mut node) {
            return Ok(vec![Operand::Extents(known)]);
        }
        let results = match operator.rule {
            op::Rule::One(rule) => vec![Operand::Value(rule(&mut node)?)],
            op::Rule::Many(rule) => rule(&mut node)?,
        };
        node.check_all_read()?;
        if let Some(i) = (results.len()..proto.output.len()).find(|&i| node.wants(i)) {
            return node.fail(format!("result {i} of `{}` is not supported", proto.op_type));
        }
        Ok(results)
    }

    fn define(&mut self, name: &'m str, operand: Operand<'m>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, operand);
        }
    }

    /// The results of a subgraph on these arguments. Its nodes read values of the graphs around it by their names.
    pub(super) fn inline(&mut self, graph: &'m GraphProto, args: Vec<Operand<'m>>) -> Result<Vec<Operand<'m>>> {
        if graph.input.len() != args.len() {
            let (expected, found) = (graph.input.len(), args.len());
            return Err(Refusal::from(format!("the graph `{}` takes {expected} inputs, found {found}", graph.name)));
        }
        let mut scope: HashMap<&str, Operand<'m>> = HashMap::new();
        scope.extend(graph.initializer.iter().map(|t| (t.name.as_str(), Operand::Tensor(t))));
        scope.extend(graph.input.iter().map(|i| i.name.as_str()).zip(args));
        self.scoped(scope, &graph.node, graph.output.iter().map(|o| o.name.as_str()))
    }

    /// The results of a call of a function of the model.
    fn call(
        &mut self,
        function: &'m FunctionProto,
        opsets: &'m BTreeMap<String, i64>,
        proto: &'m NodeProto,
    ) -> Result<Vec<Operand<'m>>> {
        let mut attributes: HashMap<&str, &AttributeProto> = HashMap::new();
        attributes.extend(function.attribute_proto.iter().map(|a| (a.name.as_str(), a)));
        for attribute in &proto.attribute {
            let known = match attribute.ref_attr_name.as_str() {
                "" => Some(attribute),
                name => self.frames.last().and_then(|frame| frame.attributes.get(name).copied()),
            };
            attributes.extend(known.map(|known| (attribute.name.as_str(), known)));
        }
        let mut scope: HashMap<&str, Operand<'m>> = HashMap::new();
        for (name, argument) in function.input.iter().zip(&proto.input).filter(|(_, argument)| !argument.is_empty()) {
            scope.insert(name, self.operand(argument)?);
        }
        self.frames.push(Frame { attributes, opsets });
        let results = self.scoped(scope, &function.node, function.output.iter().map(String::as_str));
        self.frames.pop();
        results
    }

    /// The results of nodes with names of their own.
    fn scoped(
        &mut self,
        scope: HashMap<&'m str, Operand<'m>>,
        nodes: &'m [NodeProto],
        outputs: impl Iterator<Item = &'m str>,
    ) -> Result<Vec<Operand<'m>>> {
        if self.depth == MOST_DEPTH {
            return Err(Refusal::from(format!("subgraphs and functions are nested more than {MOST_DEPTH} times")));
        }
        self.n_nodes += 1 + nodes.len();
        if self.function.order.len() > MOST_CALLS || self.n_nodes > MOST_NODES {
            let reason = format!("loops and functions become more than {MOST_CALLS} operators, or never end");
            return Err(Refusal::from(reason));
        }
        self.scopes.push(scope);
        self.depth += 1;
        for (i, node) in nodes.iter().enumerate() {
            self.node(node, i);
        }
        let results: Result<Vec<Operand<'m>>> = outputs
            .map(|output| match self.operand(output)? {
                // Names end with their scope.
                Operand::Tensor(tensor) => Ok(Operand::Value(self.value_of(output, Operand::Tensor(tensor))?)),
                other => Ok(other),
            })
            .collect();
        self.depth -= 1;
        self.scopes.pop();
        results
    }

    /// What a name stands for.
    pub(super) fn operand(&self, name: &str) -> Result<Operand<'m>> {
        match self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            Some(operand) => Ok(operand.clone()),
            None => Err(Refusal::from(format!("there is no value `{name}`"))),
        }
    }

    /// The value of the graph for what a name stands for. Weights become parameters where they are first read.
    pub(super) fn value_of(&mut self, name: &'m str, operand: Operand<'m>) -> Result<ValueId> {
        let value = match operand {
            Operand::Value(v) => return Ok(v),
            Operand::Refused => return Err(Refusal::from(String::new())),
            Operand::Tensor(tensor) if self.model.weight_name(tensor).is_some() => {
                let failed = |why| Refusal::from(format!("the tensor `{name}` {why}"));
                let (dtype, shape) = tensor::header(tensor).map_err(failed)?;
                let shape = shape.iter().map(|&n| self.function.arena.int(n, DType::Int64)).collect();
                let name = self.model.weight_name(tensor).unwrap_or(name);
                // Several names may stand for one weight: those of arguments of subgraphs and functions.
                let known = self.weights.get(name).copied();
                let v = known.unwrap_or_else(|| self.function.add_param(name, Type::tensor(dtype, shape)));
                self.weights.insert(name.to_owned(), v);
                v
            }
            Operand::Tensor(tensor) => {
                let failed = |why| Refusal::from(format!("the tensor `{name}` {why}"));
                let constant = tensor::constant(tensor, &self.model.folder).map_err(failed)?;
                self.function.add_constant(constant)
            }
            Operand::Extents(extents) => self.materialised(&extents)?,
            Operand::Sequence(_) => {
                return Err(Refusal::from(format!("`{name}` is a sequence, where only tensors are supported")));
            }
        };
        // It is one value for all that read it.
        if let Some(known) = self.scopes.iter_mut().rev().find_map(|scope| scope.get_mut(name)) {
            *known = Operand::Value(value);
        }
        Ok(value)
    }

    /// The names of the inputs that a value depends on.
    pub(super) fn inputs_of(&self, v: ValueId) -> Vec<String> {
        let function = &self.function;
        let mut open = vec![v];
        let mut seen = BTreeSet::from([v]);
        while let Some(v) = open.pop() {
            if let ValueDef::Call(c) = function.value(v).def {
                open.extend(function.call(c).inputs().filter(|&v| seen.insert(v)));
            }
        }
        let inputs = function.params.iter().take(function.n_inputs()).filter(|p| seen.contains(p));
        inputs.map(|&p| function.value(p).name.to_string()).collect()
    }

    /// Known integers as a value of the graph.
    fn materialised(&mut self, extents: &Extents) -> Result<ValueId> {
        if let Some(constant) = extents.constant(&self.function.arena) {
            return Ok(self.function.add_constant(constant));
        }
        let mut call = |op: &str, args: Vec<(&str, Arg)>| {
            let Some(op) = operators::find(op) else { unreachable!("the table of graph operators has `{op}`") };
            let called = self.function.call_op("lv", op, args);
            called.map_err(|e| Refusal { reason: e.to_string(), help: e.help })
        };
        let mut v = call("shape_to_tensor", vec![("expr", Arg::Shape(extents.elements.clone()))])?;
        if extents.dtype != DType::Int64 {
            v = call("astype", vec![("x", Arg::Value(v)), ("dtype", super::node::text(&extents.dtype.to_string()))])?;
        }
        if extents.shape.len() != 1 {
            let shape = extents.shape.iter().map(|&n| self.function.arena.int(n, DType::Int64)).collect();
            let Some(op) = operators::find("reshape") else { unreachable!("the table has `reshape`") };
            let called = self.function.call_op("lv", op, vec![("x", Arg::Value(v)), ("shape", Arg::Shape(shape))]);
            v = called.map_err(|e| Refusal { reason: e.to_string(), help: e.help })?;
        }
        Ok(v)
    }

    /// The integers that an operand consists of, if they are known.
    pub(super) fn extents_of(&mut self, operand: Operand<'m>) -> Option<Extents> {
        match operand {
            Operand::Extents(extents) => Some(extents),
            Operand::Tensor(tensor) => {
                let (dtype, shape) = tensor::header(tensor).ok()?;
                let n = shape.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent))?;
                if !extents::is_followed(dtype) || n > 1024 {
                    return None;
                }
                Extents::of(&tensor::constant(tensor, &self.model.folder).ok()?, &mut self.function.arena)
            }
            Operand::Value(v) => {
                let constant = self.function.constant(v)?.clone();
                Extents::of(&constant, &mut self.function.arena)
            }
            Operand::Sequence(_) | Operand::Refused => None,
        }
    }
}

/// The symbol that an extent of an input is; `None` for a number.
fn symbol_key(input: &ValueInfoProto, shape: &TensorShapeProto, d: usize) -> Option<String> {
    let dim = shape.dim.get(d)?;
    match (dim.dim_value, dim.dim_param.as_deref()) {
        (Some(n), _) if n >= 0 => None,
        // `?` is the name of no symbol, but an extent that is not known.
        (_, Some(name)) if name.contains(char::is_alphanumeric) => Some(name.to_owned()),
        _ => Some(format!("{}_{d}", input.name)),
    }
}
