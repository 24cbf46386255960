//! Prints graph functions, as TVM 0.27 reads them.
//!
//! Symbols are `TypeVar`s in front of the class, types of results are named `out_ty`, constants with dimensions are entries of
//! `metadata`.

use super::{Printer, attr, number, type_vars};
use crate::graph::operator::{Kind, Operator};
use crate::graph::{Arg, Callee, Constant, Function, GraphModule, Output, TensorType, Type, ValueDef, ValueId};
use crate::ir::{Arena, AttrValue, DType, Expr, ExprId, Func, Symbol};
use crate::script::{Dialect, metadata};
use std::collections::{BTreeMap, BTreeSet};

/// A module with graphs as text, with a header that names the imports.
pub fn print_graph_module(module: &GraphModule, dialect: Dialect) -> String {
    let mut constants = Vec::new();
    let mut symbols: Vec<Symbol> = Vec::new();
    let mut graphs = String::new();
    let name = module.module.name.unwrap_or(super::DEFAULT_MODULE.into());
    for (i, function) in module.functions.iter().enumerate() {
        if i > 0 || !module.module.funcs.is_empty() {
            graphs.push('\n');
        }
        let mut p = GraphPrinter::new(function, name, &mut constants);
        p.function();
        graphs.push_str(&p.out);
        symbols.extend(p.symbols);
    }
    let mut text = String::new();
    if !constants.is_empty() {
        let all: Vec<&Constant> = constants.iter().collect();
        let json = metadata::json(&all).replace('\\', "\\\\").replace('"', "\\\"");
        text.push_str(&format!("metadata = tvm.ir.load_json(\"\"\"{json}\"\"\")\n"));
    }
    let mut vars = type_vars(&module.module.funcs, dialect);
    for symbol in symbols {
        let line = format!("{symbol} = TypeVar(\"{symbol}\")\n");
        if !vars.contains(&line) {
            vars.push_str(&line);
        }
    }
    if !vars.is_empty() {
        text.push_str("# from typing import TypeVar\n");
    }
    text.push_str("# from tvm.script import ir as I\n");
    if !module.module.funcs.is_empty() {
        let tir = match dialect {
            Dialect::Classic => "tir",
            Dialect::Current => "tirx",
        };
        text.push_str(&format!("# from tvm.script import {tir} as T\n"));
    }
    text.push_str("# from tvm.script import relax as R\n\n");
    text.push_str(&vars);
    text.push_str(&format!("@I.ir_module\nclass {name}:\n"));
    text.push_str(&attr::module_attributes(&module.module.attributes, dialect));
    for (i, func) in module.module.funcs.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        let mut p = Printer::new(func, dialect, 1, false);
        p.module = name;
        p.func();
        text.push_str(&p.out);
    }
    text.push_str(&graphs);
    text
}

struct GraphPrinter<'f, 'c> {
    function: &'f Function,
    /// The name of the class.
    module: Symbol,
    /// Prints expressions of the function's arena.
    scope: Func,
    out: String,
    names: BTreeMap<ValueId, String>,
    taken: BTreeSet<String>,
    /// The symbols of extents.
    symbols: Vec<Symbol>,
    constants: &'c mut Vec<Constant>,
}

impl<'f, 'c> GraphPrinter<'f, 'c> {
    fn new(function: &'f Function, module: Symbol, constants: &'c mut Vec<Constant>) -> Self {
        let mut scope = Func::new(function.name);
        scope.arena = function.arena.clone();
        let words = ["cls", "metadata", "R", "T", "I", "tvm", "Module", module.as_str()];
        let taken = words.iter().map(|w| (*w).to_owned()).collect();
        GraphPrinter {
            function,
            module,
            scope,
            out: String::new(),
            names: BTreeMap::new(),
            taken,
            symbols: Vec::new(),
            constants,
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.out.push_str(&"    ".repeat(depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn function(&mut self) {
        // Symbols first: no value may have their names.
        let f = self.function;
        for &p in &f.params {
            self.ty(f.ty(p));
        }
        for &c in &f.order {
            self.ty(f.ty(f.call(c).result));
        }
        self.taken.extend(self.symbols.iter().map(|s| s.to_string()));
        let decorator = if f.private { "@R.function(private=True)" } else { "@R.function" };
        self.line(1, decorator);
        let params: Vec<String> = (f.params.iter())
            .map(|&p| {
                let name = self.define(p);
                format!("{name}: {}", self.ty(f.ty(p)))
            })
            .collect();
        let returns = self.output_type(&f.output);
        self.line(1, &format!("def {}({}) -> {returns}:", f.name, params.join(", ")));
        if !f.attrs.is_empty() {
            let mut p = Printer::new(&self.scope, Dialect::Current, 0, false);
            p.attrs(f.attrs.iter().map(|(k, v)| (*k, v)));
            let attrs = p.out;
            self.line(2, &format!("R.func_attr({attrs})"));
        }
        let calls_module =
            |c: &crate::graph::CallId| matches!(f.call(*c).callee, Callee::CallTir(_) | Callee::CallTirInplace(_));
        if f.order.iter().any(calls_module) {
            let module = self.module;
            self.line(2, &format!("cls = {module}"));
        }
        if f.order.is_empty() {
            let output = self.output(&f.output);
            self.line(2, &format!("return {output}"));
            return;
        }
        self.line(2, "with R.dataflow():");
        for &c in &f.order {
            let call = f.call(c);
            let value = self.call(call);
            let name = self.define(call.result);
            let ty = self.ty(f.ty(call.result));
            match call.callee {
                // The call states the type.
                Callee::CallTir(_)
                | Callee::CallDpsPacked(_)
                | Callee::CallPurePacked(_)
                | Callee::CallTirInplace(_) => {
                    self.line(3, &format!("{name} = {value}"));
                }
                Callee::Op(_)
                | Callee::CallGraph(_)
                | Callee::Tuple
                | Callee::Item(_)
                | Callee::Alias
                | Callee::Shape => {
                    self.line(3, &format!("{name}: {ty} = {value}"));
                }
            }
        }
        // The values that leave the block.
        let mut leave: Vec<String> = Vec::new();
        for v in f.output.values() {
            if matches!(f.value(v).def, ValueDef::Call(_)) {
                let name = self.names[&v].clone();
                if !leave.contains(&name) {
                    leave.push(name);
                }
            }
        }
        if leave.is_empty() {
            // The block computes nothing that is used; the text has it all the same.
            let last = f.call(f.order[f.order.len() - 1]).result;
            leave.push(self.names[&last].clone());
        }
        self.line(3, &format!("R.output({})", leave.join(", ")));
        let output = self.output(&f.output);
        self.line(2, &format!("return {output}"));
    }

    fn define(&mut self, v: ValueId) -> String {
        if let Some(known) = self.names.get(&v) {
            return known.clone();
        }
        let hint = self.function.value(v).name;
        let hint = if is_identifier(hint.as_str()) { hint.as_str() } else { "lv" };
        let numbered = (1..).map(|i| format!("{hint}{i}"));
        let mut all = std::iter::once(hint.to_owned()).chain(numbered);
        let name = all.find(|n| !self.taken.contains(n)).unwrap_or_default();
        self.taken.insert(name.clone());
        self.names.insert(v, name.clone());
        name
    }

    fn value(&mut self, v: ValueId) -> String {
        match self.function.constant(v) {
            Some(constant) => self.constant(constant),
            None => self.names.get(&v).cloned().unwrap_or_else(|| self.function.value(v).name.to_string()),
        }
    }

    fn constant(&mut self, constant: &Constant) -> String {
        let dtype = constant.dtype();
        if constant.shape().is_empty() {
            let text = match dtype {
                DType::Bool => constant.int(0).map(|v| if v != 0 { "True" } else { "False" }.to_owned()),
                t if t.is_float() => constant.float(0).filter(|v| v.is_finite()).map(number::float),
                _ => constant.int(0).map(|v| v.to_string()),
            };
            if let Some(text) = text {
                return format!("R.const({text}, \"{dtype}\")");
            }
        }
        let i = match self.constants.iter().position(|c| c == constant) {
            Some(known) => known,
            None => {
                self.constants.push(constant.clone());
                self.constants.len() - 1
            }
        };
        format!("metadata[\"ir.GenericConst\"][{i}]")
    }

    fn values(&mut self, all: &[ValueId]) -> String {
        let items: Vec<String> = all.iter().map(|&v| self.value(v)).collect();
        tuple(&items)
    }

    fn output(&mut self, output: &Output) -> String {
        match output {
            Output::Value(v) => self.value(*v),
            Output::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|o| self.output(o)).collect();
                tuple(&items)
            }
        }
    }

    fn output_type(&mut self, output: &Output) -> String {
        match output {
            Output::Value(v) => self.ty(self.function.ty(*v)),
            Output::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|o| self.output_type(o)).collect();
                format!("R.Tuple({})", items.join(", "))
            }
        }
    }

    fn ty(&mut self, ty: &Type) -> String {
        match ty {
            Type::Tensor(t) => self.tensor_type(t),
            Type::Shape(Some(shape)) => format!("R.Shape([{}])", self.extents(shape)),
            Type::Shape(None) => "R.Shape".to_owned(),
            Type::Prim(dtype) => format!("T.{dtype}"),
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|t| self.ty(t)).collect();
                format!("R.Tuple({})", items.join(", "))
            }
            Type::Object => "R.Object".to_owned(),
        }
    }

    fn tensor_type(&mut self, t: &TensorType) -> String {
        let mut parts = Vec::new();
        if let Some(shape) = &t.shape {
            let extents = self.extents(shape);
            parts.push(if shape.len() == 1 { format!("({extents},)") } else { format!("({extents})") });
        }
        parts.extend(t.dtype.map(|dtype| format!("dtype=\"{dtype}\"")));
        if let (None, Some(rank)) = (&t.shape, t.rank) {
            parts.push(format!("ndim={rank}"));
        }
        format!("R.Tensor({})", parts.join(", "))
    }

    fn extents(&mut self, shape: &[ExprId]) -> String {
        let items: Vec<String> = shape.iter().map(|&e| self.extent(e)).collect();
        items.join(", ")
    }

    /// An extent; integers are plain.
    fn extent(&mut self, e: ExprId) -> String {
        let arena = &self.function.arena;
        if let Some(n) = arena.as_int(e) {
            return n.to_string();
        }
        note_symbols(arena, e, &mut self.symbols);
        let mut p = Printer::new(&self.scope, Dialect::Current, 0, false);
        p.expr(e);
        p.out
    }

    /// A number; integers of type `int64` are plain.
    fn prim(&mut self, e: ExprId) -> String {
        let arena = &self.function.arena;
        match (arena.expr(e), arena.dtype(e)) {
            (Expr::Int(v), DType::Bool) => if v != 0 { "True" } else { "False" }.to_owned(),
            (Expr::Float(bits), dtype) => format!("T.{dtype}({})", number::float(f64::from_bits(bits))),
            _ => self.extent(e),
        }
    }

    fn call(&mut self, call: &crate::graph::Call) -> String {
        let values = |p: &mut Self| match call.args.first() {
            Some(Arg::Values(all)) => p.values(all),
            Some(Arg::Value(v)) => p.value(*v),
            _ => "()".to_owned(),
        };
        match call.callee {
            Callee::Op(op) => self.operator(op, &call.args),
            Callee::CallGraph(name) => {
                let args: Vec<ValueId> = call.inputs().collect();
                let args: Vec<String> = args.into_iter().map(|v| self.value(v)).collect();
                format!("cls.{name}({})", args.join(", "))
            }
            Callee::CallPurePacked(name) => {
                let args: Vec<ValueId> = call.inputs().collect();
                let args: Vec<String> = args.into_iter().map(|v| self.value(v)).collect();
                let ty = self.ty(self.function.ty(call.result));
                format!("R.call_pure_packed(\"{name}\", {}, ty_args=({ty},))", args.join(", "))
            }
            Callee::Tuple => values(self),
            Callee::Item(i) => format!("{}[{i}]", values(self)),
            Callee::Alias => {
                let ty = self.ty(self.function.ty(call.result));
                format!("R.match_cast({}, {ty})", values(self))
            }
            Callee::Shape => match call.args.first() {
                Some(Arg::Shape(shape)) => format!("R.shape([{}])", self.extents(shape)),
                _ => "R.shape([])".to_owned(),
            },
            Callee::CallTir(name) | Callee::CallDpsPacked(name) | Callee::CallTirInplace(name) => {
                let (path, func) = match call.callee {
                    Callee::CallTir(_) => ("call_tir", format!("cls.{name}")),
                    Callee::CallTirInplace(_) => ("call_tir_inplace", format!("cls.{name}")),
                    _ => ("call_dps_packed", format!("\"{name}\"")),
                };
                let mut text = format!("R.{path}({func}, {}", values(self));
                let results = match self.function.ty(call.result) {
                    Type::Tuple(items) => {
                        let items: Vec<String> = items.iter().map(|t| self.ty(t)).collect();
                        format!("[{}]", items.join(", "))
                    }
                    ty => self.ty(ty),
                };
                text.push_str(&format!(", out_ty={results}"));
                for arg in &call.args[1..] {
                    match arg {
                        Arg::Shape(vars) => text.push_str(&format!(", tir_vars=R.shape([{}])", self.extents(vars))),
                        Arg::Attr(indices) => {
                            let indices = self.attribute(indices);
                            text.push_str(&format!(", inplace_indices={indices}"));
                        }
                        Arg::Value(_) | Arg::Values(_) | Arg::Prim(_) | Arg::Prims(_) | Arg::Missing => {}
                    }
                }
                text + ")"
            }
        }
    }

    fn operator(&mut self, op: &Operator, args: &[Arg]) -> String {
        let mut items = Vec::new();
        // A missing argument leaves those behind it without a position.
        let mut by_name = false;
        for (param, arg) in op.params.iter().zip(args) {
            let text = match arg {
                Arg::Missing => {
                    by_name = true;
                    continue;
                }
                Arg::Value(v) => self.value(*v),
                Arg::Values(all) => self.values(all),
                Arg::Shape(shape) => format!("R.shape([{}])", self.extents(shape)),
                Arg::Prim(e) => self.prim(*e),
                Arg::Prims(all) => {
                    let all: Vec<String> = all.iter().map(|&e| self.prim(e)).collect();
                    tuple(&all)
                }
                Arg::Attr(value) => match (param.kind, value) {
                    // TVM has plain floats here.
                    (Kind::Float | Kind::OptFloat | Kind::OptNumber, AttrValue::Float(v)) if v.is_finite() => {
                        number::float(*v)
                    }
                    _ => self.attribute(value),
                },
            };
            by_name |= param.kind.is_attribute();
            items.push(if by_name { format!("{}={text}", param.name) } else { text });
        }
        format!("R.{}({})", op.name, items.join(", "))
    }

    fn attribute(&mut self, value: &AttrValue) -> String {
        let mut p = Printer::new(&self.scope, Dialect::Current, 0, false);
        p.attr_value(value);
        p.out
    }
}

/// `(a, b)`, with the comma that makes a tuple of one.
fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_') && chars.all(|c| c.is_alphanumeric() || c == '_')
}

/// Collects the symbols of an expression.
fn note_symbols(arena: &Arena, e: ExprId, symbols: &mut Vec<Symbol>) {
    for v in crate::ir::visit::vars_of(arena, e) {
        let name = arena.var(v).name;
        if !symbols.contains(&name) {
            symbols.push(name);
        }
    }
}
