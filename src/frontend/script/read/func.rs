//! Reads a function: parameters, symbolic extents, the root block.

use super::scope::Scope;
use super::value::{Namespace, Value};
use super::{PrimFunc, Reader};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::ir::infer_accesses;
use crate::ir::{
    AttrValue, Block, BlockId, BlockIter, Body, BoundParam, BufferId, BufferRegion, DType, ExprId, Func, LoopKind,
    MatchBuffer, Param, Stmt, StmtId, Symbol, Ty, VarId,
};
use crate::script::Dialect;
use crate::script::python::{Expr, ExprKind, Function};
use crate::script::spans::{Spans, StmtSpan};

/// Maximum nesting of loops, blocks, branches and lets.
pub(super) const MAX_DEPTH: usize = 200;

/// The state of reading one function.
pub(super) struct FuncReader<'a, 'r> {
    pub(super) file: &'r mut Reader<'a>,
    pub(super) func: Func,
    pub(super) scope: Scope<'a>,
    pub(super) spans: Spans,
    /// The enclosing loops, outermost first, for `T.axis.remap`.
    pub(super) loops: Vec<LoopFrame>,
    /// The enclosing blocks, the implied root first.
    pub(super) blocks: Vec<BlockFrame>,
    /// Current nesting of statements in the IR.
    pub(super) depth: usize,
    /// Whether exceeding [`MAX_DEPTH`] has been reported.
    pub(super) too_deep: bool,
    /// Symbols defined by quoted shapes, which a later `n = T.int32()` only repeats; without a variable if `--bind`
    /// gives the value.
    pub(super) quoted: Vec<(&'a str, Option<VarId>)>,
    /// The types of the scalar parameters, for quoted shapes that precede them.
    pub(super) scalars: Vec<(&'a str, DType)>,
    /// Statements that evaluated expressions require: allocations and declarations of buffers.
    pub(super) pending: Vec<StmtId>,
    /// Values named by assignments that might instead make a variable, because the dialect of the text is unknown.
    pub(super) ambiguous: Vec<VarId>,
    /// The first named buffer in the memory of each `T.allocate`.
    pub(super) memories: Vec<Option<BufferId>>,
    /// The unnamed buffer of each `T.allocate`, and its statement.
    pub(super) allocations: Vec<(BufferId, StmtId)>,
    /// Blocks without declared reads or writes, and which of the two must be inferred.
    pub(super) undeclared: Vec<(BlockId, bool, bool)>,
    /// Whether extents of a graph function are read.
    pub(super) is_graph: bool,
}

/// An enclosing loop.
pub(super) struct LoopFrame {
    pub(super) var: VarId,
    pub(super) min: ExprId,
    pub(super) extent: ExprId,
}

/// An enclosing block.
#[derive(Default)]
pub(super) struct BlockFrame {
    pub(super) iters: Vec<BlockIter>,
    pub(super) iter_spans: Vec<Span>,
    pub(super) predicate: Option<ExprId>,
    pub(super) reads: Option<Vec<(BufferRegion, Span)>>,
    pub(super) writes: Option<Vec<(BufferRegion, Span)>>,
    pub(super) allocs: Vec<BufferId>,
    pub(super) matches: Vec<MatchBuffer>,
    pub(super) annotations: Vec<(Symbol, AttrValue)>,
    pub(super) init: Option<Body>,
    /// Whether the current statement is inside `T.init`.
    pub(super) in_init: bool,
}

/// A loop to be made: minimum, extent, kind, annotations.
pub(super) struct LoopSpec {
    pub(super) min: ExprId,
    pub(super) extent: ExprId,
    pub(super) step: Option<ExprId>,
    pub(super) kind: LoopKind,
    pub(super) annotations: Vec<(Symbol, AttrValue)>,
}

/// Reads a function with the attributes of its decorators.
pub(super) fn function<'a>(file: &mut Reader<'a>, f: &Function<'a>, kind: PrimFunc) -> Option<(Func, Spans)> {
    let before = file.diagnostics.len();
    let mut reader = FuncReader::new(file, f.name.name);
    reader.func.private = kind.private;
    reader.func.s_tir = kind.s_tir || reader.file.meaning == Some(Dialect::Classic);
    reader.spans.name = f.name.span;
    reader.signature(f);
    let body = reader.body(&f.body);
    let (mut func, spans) = reader.finish(body);
    let global_symbol = func.attrs.get("global_symbol").cloned();
    if global_symbol == Some(AttrValue::Str(func.name)) {
        func.attrs.remove("global_symbol");
    }
    (file.diagnostics.len() == before).then_some((func, spans))
}

impl<'a, 'r> FuncReader<'a, 'r> {
    pub(super) fn new(file: &'r mut Reader<'a>, name: &str) -> Self {
        FuncReader {
            file,
            func: Func::new(name),
            scope: Scope::default(),
            spans: Spans::default(),
            loops: Vec::new(),
            blocks: vec![BlockFrame::default()],
            depth: 0,
            too_deep: false,
            quoted: Vec::new(),
            scalars: Vec::new(),
            pending: Vec::new(),
            ambiguous: Vec::new(),
            memories: Vec::new(),
            allocations: Vec::new(),
            undeclared: Vec::new(),
            is_graph: false,
        }
    }

    // ---- diagnostics ---------------------------------------------------------------------------------------

    pub(super) fn error(&mut self, d: Diagnostic) {
        self.file.error(d);
    }

    /// Records a mistake and returns `None`.
    pub(super) fn fail<T>(&mut self, d: Diagnostic) -> Option<T> {
        self.file.error(d);
        None
    }

    /// The first line of a statement.
    pub(super) fn first_line(&self, span: Span) -> Span {
        let line = self.file.text.get(span.range()).and_then(|t| t.lines().next()).unwrap_or_default();
        Span { end: span.start + line.len() as u32, ..span }
    }

    // ---- names ---------------------------------------------------------------------------------------------

    /// The value of a name; reports an undefined one.
    pub(super) fn lookup(&mut self, name: &'a str, span: Span) -> Option<Value> {
        if let Some(value) = self.scope.get(name) {
            return match *value {
                Value::Poison => None,
                Value::Scalar(b) => Some(Value::Expr(self.scalar_value(b))),
                ref value => Some(value.clone()),
            };
        }
        if let Some(value) = self.file.globals.get(name) {
            if !matches!(value, Value::TypeVar) {
                return Some(value.clone());
            }
            let symbol = self.symbol(name, DType::Int64, span);
            self.scope.define_outside(name, symbol.clone(), span);
            return Some(symbol);
        }
        if self.file.opaque.contains(name) {
            return self.fail(
                Diagnostic::error_at("unknown-value", span, format!("the value of `{name}` is not known"))
                    .help("outside functions only numbers, texts and what operators make of them are read"),
            );
        }
        let near = {
            let ours = self.scope.names().filter(|n| *n != name);
            let globals = self.file.globals.keys().copied();
            nearest(name, ours.chain(globals)).map(str::to_string)
        };
        self.fail(
            Diagnostic::error_at("undefined-name", span, format!("`{name}` is not defined"))
                .mark("not found in this scope")
                .maybe_help(near.map(|n| format!("did you mean `{n}`?"))),
        )
    }

    /// Defines a name in the innermost frame. New variables and buffers get the name.
    pub(super) fn define(&mut self, name: &'a str, value: Value, span: Span) {
        if let Some((old, first)) = self.scope.in_frame(name)
            && !matches!(old, Value::Poison)
        {
            let d = Diagnostic::error_at("duplicate-name", span, format!("`{name}` is defined twice"))
                .label(first, "first defined here")
                .help("give one of them another name");
            self.error(d);
        }
        match &value {
            Value::Expr(e) => {
                if let Some(v) = self.func.arena.as_var(*e)
                    && self.func.arena.var(v).name == ""
                {
                    self.func.arena.rename_var(v, name);
                }
            }
            Value::Memory(memory) => {
                let (b, _) = self.allocations[*memory];
                self.func.arena.update_buffer(b, |b| b.name = name.into());
            }
            Value::Buffer(b) | Value::Scalar(b) if self.func.arena.buffer(*b).name == "" => {
                self.func.arena.update_buffer(*b, |b| b.name = name.into());
                self.spans.add_buffer(*b, span);
            }
            _ => {}
        }
        self.scope.define(name, value, span);
    }

    /// The value that `--bind` gives a symbol. In a module with graphs, those of prim_funcs follow from the calls.
    fn bound(&self, name: &str) -> Option<i64> {
        let is_meant = self.is_graph || self.file.graphs.is_empty();
        self.file.options.bind.get(name).copied().filter(|_| is_meant)
    }

    /// Defines a symbol of the function; `--bind` may make it a constant.
    pub(super) fn symbol(&mut self, name: &'a str, ty: impl Into<Ty>, span: Span) -> Value {
        let ty = ty.into();
        self.file.symbols.insert(name.to_string());
        if let Some(v) = self.bound(name) {
            return match self.literal(Value::Int(v as i128), ty.dtype, span) {
                Some(e) => Value::Expr(e),
                None => Value::Poison,
            };
        }
        Value::Expr(self.func.arena.new_var_expr(name, ty).1)
    }

    /// The module named by an expression.
    pub(super) fn namespace(&self, e: &Expr<'a>) -> Option<Namespace> {
        match &e.kind {
            ExprKind::Name(name) => match self.scope.get(name).or_else(|| self.file.globals.get(name)) {
                Some(Value::Namespace(ns)) => Some(*ns),
                _ => None,
            },
            ExprKind::Attribute(value, attr) => self.namespace(value)?.member(attr.name),
            _ => None,
        }
    }

    // ---- signature -----------------------------------------------------------------------------------------

    fn signature(&mut self, f: &Function<'a>) {
        if let Some(span) = f.odd_param {
            self.error(
                Diagnostic::error_at("unsupported", span, "variable and keyword-only parameters are not supported")
                    .help("list all parameters by name"),
            );
        }
        self.scalars =
            f.params.iter().filter_map(|p| Some((p.name.name, self.scalar_type(p.annotation.as_ref()?)?))).collect();
        for param in &f.params {
            let value = self.param(param);
            let quoted = self.quoted.iter().any(|q| q.0 == param.name.name);
            if let Some((_, first)) = self.scope.in_frame(param.name.name).filter(|_| !quoted) {
                let message = format!("parameter `{}` is declared twice", param.name.name);
                let d = Diagnostic::error_at("duplicate-name", param.name.span, message);
                self.error(d.label(first, "first declared here"));
                continue;
            }
            if !quoted {
                self.define(param.name.name, value.unwrap_or(Value::Poison), param.name.span);
            }
        }
        if let Some(returns) = f.returns.as_ref().filter(|returns| !super::is_void(returns)) {
            self.func.returns = self.dtype(returns);
        }
    }

    /// The type of a scalar parameter, `T.int64`.
    fn scalar_type(&self, annotation: &Expr<'a>) -> Option<DType> {
        match &annotation.kind {
            ExprKind::Attribute(owner, attr) if self.namespace(owner) == Some(Namespace::Tir) => {
                super::expr::type_of_name(attr.name)
                    .filter(|t| t.dtype != DType::Handle && !t.is_vector())
                    .map(|t| t.dtype)
            }
            _ => None,
        }
    }

    fn param(&mut self, param: &crate::script::python::Param<'a>) -> Option<Value> {
        let name = param.name;
        if let Some(default) = &param.default {
            self.error(Diagnostic::error_at("unsupported", default.span, "parameters have no default values"));
        }
        let Some(annotation) = &param.annotation else {
            return self.fail(
                Diagnostic::error_at("no-type", name.span, format!("parameter `{}` has no type", name.name))
                    .help(format!("write `{}: T.Buffer((16, 16), \"float32\")`, for example", name.name)),
            );
        };
        if let Some(buffer) = self.buffer_annotation(annotation) {
            let buffer = buffer?;
            let var = self.func.arena.new_var(name.name, DType::Handle);
            self.func.params.push(Param { var, buffer: Some(buffer) });
            self.spans.params.push(param.span);
            return Some(Value::Buffer(buffer));
        }
        let ty = match self.eval(annotation)? {
            Value::Type(ty) | Value::Fresh(ty) => ty,
            Value::FreshPointer(pointee) => {
                let var = self.func.arena.new_var(name.name, DType::Handle);
                self.func.arena.set_pointee(var, Some(pointee));
                self.func.params.push(Param { var, buffer: None });
                self.spans.params.push(param.span);
                return Some(Value::Expr(self.func.arena.var_expr(var)));
            }
            Value::Str(name) => self.type_named(&name, annotation.span)?,
            other => {
                let message = format!("expected a type, found {}", other.describe());
                return self.fail(
                    Diagnostic::error_at("no-type", annotation.span, message)
                        .help("types are `T.Buffer(shape, dtype)`, `T.handle` and `T.int32`, for example"),
                );
            }
        };
        if ty.dtype != DType::Handle {
            if self.bound(name.name).is_some() {
                let position = self.func.params.len() + self.func.bound.len();
                self.func.bound.push(BoundParam { position, name: name.name.into(), ty });
                return Some(self.symbol(name.name, ty, name.span));
            }
            self.file.symbols.insert(name.name.to_string());
        }
        let quoted = self.quoted.iter().find(|q| q.0 == name.name).and_then(|q| q.1);
        let var = match quoted {
            // A shape before this parameter has used the symbol already.
            Some(var) if self.func.arena.var(var).ty() == ty => var,
            _ => self.func.arena.new_var(name.name, ty),
        };
        self.func.params.push(Param { var, buffer: None });
        self.spans.params.push(param.span);
        Some(Value::Expr(self.func.arena.var_expr(var)))
    }

    // ---- the root ------------------------------------------------------------------------------------------

    /// Puts the body into the root block: the one in the text, if it contains all statements, else an implied one.
    fn finish(mut self, body: Body) -> (Func, Spans) {
        let root = std::mem::take(&mut self.blocks[0]);
        let explicit = match body.as_slice() {
            [only] if root.allocs.is_empty() => self.func.as_block(*only).filter(|&b| {
                let block = self.func.block(b);
                block.iters.is_empty() && block.init.is_none() && self.func.arena.is_int(block.predicate, 1)
            }),
            _ => None,
        };
        match explicit {
            Some(b) => {
                self.func.root = b;
                self.func.explicit_root = true;
            }
            None => {
                let id = self.func.root;
                self.func.block_mut(id).allocs = root.allocs;
                self.func.set_body(id.stmt(), body);
            }
        }
        // Inner blocks come before outer ones, whose regions depend on them. The root declares no regions unless the
        // text does.
        let root = self.func.root;
        self.func.s_tir |= self.func.explicit_root || self.func.blocks().len() > 1;
        if self.func.s_tir {
            // Buffers have no layout there.
            for b in self.func.arena.buffer_ids() {
                self.func.arena.update_buffer(b, |b| b.no_layout = false);
            }
        }
        for (b, reads, writes) in self.undeclared {
            if b == root {
                continue;
            }
            let (found_reads, found_writes) = infer_accesses::accesses(&mut self.func, b);
            let block = self.func.block_mut(b);
            if reads {
                block.reads = found_reads;
            }
            if writes {
                block.writes = found_writes;
            }
        }
        (self.func, self.spans)
    }

    /// Adds a statement with its places; expressions evaluated since `mark` belong to it.
    pub(super) fn add(&mut self, stmt: Stmt, whole: Span, name: Span, mark: usize) -> StmtId {
        let id = self.func.stmts.add(stmt);
        self.spans.add_stmt(id, StmtSpan { whole, name }, mark);
        id
    }

    /// A new block without contents.
    pub(super) fn new_block(&mut self, name: &str) -> Block {
        let predicate = self.func.arena.bool(true);
        Block::new(name, predicate)
    }
}
