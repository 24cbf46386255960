//! Reads blocks: the parts of `with T.block(…)` besides statements.

use super::args::counted;
use super::func::{BlockFrame, FuncReader};
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{BlockIter, Body, BufferRegion, DType, ExprId, IterKind, Stmt, VarId};
use crate::script::Dialect;
use crate::script::python::{Call, Expr, ExprKind, Ident, Stmt as PyStmt};
use smallvec::SmallVec;

impl<'a> FuncReader<'a, '_> {
    /// The innermost block; the root if there is no other.
    pub(super) fn block_frame(&mut self) -> &mut BlockFrame {
        self.blocks.last_mut().expect("the root's frame stays")
    }

    /// The frame of the block to which a statement such as `T.reads` belongs.
    fn own_frame(&mut self, name: &str, span: Span) -> Option<&mut BlockFrame> {
        if self.blocks.len() < 2 {
            let d = Diagnostic::error_at("outside-block", span, format!("`{name}` stands outside a block"));
            return self.fail(d.help("put it into `with T.block(\"name\"):`"));
        }
        Some(self.block_frame())
    }

    /// `with T.block("name"): body`
    pub(super) fn block(
        &mut self,
        word: Ident<'a>,
        call: &Call<'a>,
        body: &[PyStmt<'a>],
        whole: Span,
        header: Span,
    ) -> Option<Body> {
        self.file.vote(if word.name == "sblock" { Dialect::Current } else { Dialect::Classic });
        let mark = self.spans.mark();
        let args = self.args(&format!("T.{}", word.name), call, &["name", "no_realize", "exec_scope"], 0)?;
        let (name, name_span) = match args[0] {
            Some(e) => match &e.kind {
                ExprKind::List(_) => {
                    let d =
                        Diagnostic::error_at("unsupported", e.span, "blocks with a list of domains are not supported");
                    return self.fail(d.help("write `vi = T.axis.spatial(extent, i)` inside the block"));
                }
                _ => (self.text(e)?.as_str(), e.span),
            },
            None => ("", header),
        };
        for e in args.iter().skip(1).flatten() {
            if !matches!(e.kind, ExprKind::Bool(false)) && !matches!(&e.kind, ExprKind::Str(s) if s.is_empty()) {
                return self.unsupported(e.span, "a block that is not realized");
            }
        }
        if !self.enter(whole) {
            return None;
        }
        self.blocks.push(BlockFrame::default());
        self.scope.push_frame();
        let body = self.body(body);
        self.scope.pop_frame();
        self.leave();
        let frame = self.blocks.pop().expect("pushed above");
        let mut block = self.new_block(name);
        block.iters = frame.iters;
        if let Some(predicate) = frame.predicate {
            block.predicate = predicate;
        }
        let (no_reads, no_writes) = (frame.reads.is_none(), frame.writes.is_none());
        let (reads, read_spans): (Vec<BufferRegion>, Vec<Span>) = frame.reads.unwrap_or_default().into_iter().unzip();
        let (writes, write_spans): (Vec<BufferRegion>, Vec<Span>) =
            frame.writes.unwrap_or_default().into_iter().unzip();
        block.reads = reads;
        block.writes = writes;
        block.allocs = frame.allocs;
        block.matches = frame.matches;
        block.annotations = frame.annotations.into_iter().collect();
        block.init = frame.init;
        block.body = body;
        let id = self.add(Stmt::Block(Box::new(block)), whole, name_span, mark);
        for (i, span) in frame.iter_spans.into_iter().enumerate() {
            self.spans.add_iter(id, i, span);
        }
        for (is_write, spans) in [(false, read_spans), (true, write_spans)] {
            for (i, span) in spans.into_iter().enumerate() {
                self.spans.add_region(id, is_write, i, span);
            }
        }
        if no_reads || no_writes {
            let block = self.func.as_block(id).expect("just made");
            self.undeclared.push((block, no_reads, no_writes));
        }
        Some(Body::from_elem(id, 1))
    }

    /// `with T.init(): body`
    pub(super) fn init(&mut self, call: &Call<'a>, body: &[PyStmt<'a>], whole: Span) -> Option<Body> {
        self.args("T.init", call, &[], 0)?;
        let frame = self.own_frame("T.init", whole)?;
        if frame.init.is_some() || frame.in_init {
            let what = if frame.in_init { "`T.init` stands inside another one" } else { "the block has two `T.init`" };
            return self.fail(Diagnostic::error_at("duplicate-name", whole, what));
        }
        frame.in_init = true;
        self.scope.push_frame();
        let body = self.body(body);
        self.scope.pop_frame();
        let frame = self.block_frame();
        frame.in_init = false;
        frame.init = Some(body);
        Some(Body::new())
    }

    /// `T.where(predicate)`
    pub(super) fn where_(&mut self, call: &Call<'a>, span: Span) -> Option<()> {
        let args = self.args("T.where", call, &["predicate"], 1)?;
        let e = args[0]?;
        let value = self.eval(e)?;
        let predicate = self.condition(value, e.span)?;
        let frame = self.own_frame("T.where", span)?;
        if frame.predicate.replace(predicate).is_some() {
            return self.fail(
                Diagnostic::error_at("duplicate-name", span, "the block has two `T.where`")
                    .help("join them with `and`"),
            );
        }
        Some(())
    }

    /// `T.reads(…)` and `T.writes(…)`
    pub(super) fn accesses(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<()> {
        let full = format!("T.{}", name.name);
        if let Some((key, value)) = call.keywords.first() {
            let span = key.map_or(value.span, |k| k.span);
            return self.fail(Diagnostic::error_at("unknown-keyword", span, format!("`{full}` takes regions only")));
        }
        let items: &[Expr<'a>] = match call.args.as_slice() {
            [Expr { kind: ExprKind::List(items) | ExprKind::Tuple(items), .. }] => items,
            items => items,
        };
        let regions: Vec<Option<(BufferRegion, Span)>> =
            items.iter().map(|e| self.region(e).map(|r| (r, e.span))).collect();
        let regions: Option<Vec<(BufferRegion, Span)>> = regions.into_iter().collect();
        let frame = self.own_frame(&full, span)?;
        let slot = if name.name == "reads" { &mut frame.reads } else { &mut frame.writes };
        // A list with a mistake counts as given, so that no regions are inferred for a broken block.
        if slot.replace(regions.unwrap_or_default()).is_some() {
            return self.fail(
                Diagnostic::error_at("duplicate-name", span, format!("the block has two `{full}`"))
                    .help("give all regions in one list"),
            );
        }
        Some(())
    }

    /// `T.block_attr({…})`
    pub(super) fn block_attr(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<()> {
        self.file.vote(if name.name == "sblock_attr" { Dialect::Current } else { Dialect::Classic });
        let full = format!("T.{}", name.name);
        let args = self.args(&full, call, &["attrs"], 1)?;
        let e = args[0]?;
        let new = self.annotations(e)?;
        let mut all = std::mem::take(&mut self.own_frame(&full, span)?.annotations);
        self.merge_annotations(&mut all, new, e);
        self.block_frame().annotations = all;
        Some(())
    }

    // ---- iteration variables -------------------------------------------------------------------------------

    /// `T.axis.spatial(domain, value)` and its like.
    pub(super) fn axis(&mut self, name: Ident<'a>, call: &Call<'a>, span: Span) -> Option<Value> {
        let full = format!("T.axis.{}", name.name);
        let kind = match name.name {
            "spatial" | "S" => IterKind::Spatial,
            "reduce" | "R" => IterKind::Reduce,
            "scan" => IterKind::Scan,
            "opaque" => IterKind::Opaque,
            "remap" => return self.remap(call, span),
            _ => return self.unknown_member(super::value::Namespace::Axis, name),
        };
        let args = self.args(&full, call, &["dom", "binding", "dtype"], 2)?;
        let (dom, binding) = (args[0]?, args[1]?);
        let domain = self.domain(dom);
        let value = self.index(binding);
        let mut dtype = match args[2] {
            Some(e) => self.dtype(e)?,
            None => DType::Int32,
        };
        self.own_frame(&full, span)?;
        let (min, extent) = domain?;
        // The type of the variable is as wide as its domain requires.
        let wide = self.func.arena.dtype(extent);
        if wide.bits() > dtype.bits() {
            dtype = wide;
        }
        let (min, extent) = (self.cast(dtype, min), self.cast(dtype, extent));
        Some(self.push_iter(kind, min, extent, value?, dtype, span))
    }

    /// A domain: an extent, or a pair of first value and end.
    fn domain(&mut self, e: &Expr<'a>) -> Option<(ExprId, ExprId)> {
        let (min, extent) = match &e.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                let [lo, hi] = items.as_slice() else {
                    let message =
                        format!("expected a pair of first value and end, found {}", counted(items.len(), "value"));
                    return self.fail(Diagnostic::error_at("wrong-argument", e.span, message));
                };
                let (lo, hi) = (self.index(lo), self.index(hi));
                self.min_extent(lo?, hi?)
            }
            _ => {
                let extent = self.index(e)?;
                let dtype = self.func.arena.dtype(extent);
                (self.func.arena.int(0, dtype), extent)
            }
        };
        if !self.func.arena.dtype(extent).is_index() {
            let message =
                format!("expected a domain of type `int32` or `int64`, found `{}`", self.func.arena.dtype(extent));
            return self.fail(Diagnostic::error_at("type-mismatch", e.span, message));
        }
        match self.func.arena.as_int(extent) {
            Some(n) if n < 0 && self.file.options.checks.is_some() => self.fail(Diagnostic::error_at(
                "negative-extent",
                e.span,
                format!("expected a domain whose end is not before its start, found extent {n}"),
            )),
            _ => Some((min, extent)),
        }
    }

    fn push_iter(
        &mut self,
        kind: IterKind,
        min: ExprId,
        extent: ExprId,
        value: ExprId,
        dtype: DType,
        span: Span,
    ) -> Value {
        let (var, e) = self.func.arena.new_var_expr("", dtype);
        let frame = self.block_frame();
        frame.iters.push(BlockIter { var, min, extent, kind, value });
        frame.iter_spans.push(span);
        Value::Expr(e)
    }

    /// `T.axis.remap("SR", [i, k])`
    fn remap(&mut self, call: &Call<'a>, span: Span) -> Option<Value> {
        let args = self.args("T.axis.remap", call, &["kinds", "bindings", "dtype"], 2)?;
        let (kinds_at, bindings_at) = (args[0]?, args[1]?);
        let kinds = self.text(kinds_at)?.as_str();
        let bindings: &[Expr<'a>] = match &bindings_at.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items,
            _ => std::slice::from_ref(bindings_at),
        };
        self.own_frame("T.axis.remap", span)?;
        if kinds.chars().count() != bindings.len() {
            let message = format!(
                "expected one letter for each of the {}, found {}",
                counted(bindings.len(), "loop"),
                counted(kinds.chars().count(), "letter")
            );
            return self.fail(Diagnostic::error_at("remap-kinds", kinds_at.span, message).label(bindings_at.span, ""));
        }
        let mut values = Vec::new();
        let mut ok = true;
        for (letter, binding) in kinds.chars().zip(bindings) {
            let kind = match letter {
                'S' => IterKind::Spatial,
                'R' => IterKind::Reduce,
                _ => {
                    let d = Diagnostic::error_at(
                        "remap-kinds",
                        kinds_at.span,
                        format!("unknown kind of iteration `{letter}`"),
                    );
                    self.error(
                        d.help("write `S` for spatial, `R` for reduction; other kinds have their own functions"),
                    );
                    return None;
                }
            };
            match self.remapped(binding) {
                Some((var, min, extent)) => {
                    let dtype = self.func.arena.var(var).dtype;
                    let value = self.func.arena.var_expr(var);
                    values.push(self.push_iter(kind, min, extent, value, dtype, binding.span));
                }
                None => ok = false,
            }
        }
        if !ok {
            return None;
        }
        Some(match values.len() {
            1 => values.remove(0),
            _ => Value::Seq(values),
        })
    }

    /// The loop named by a binding of `remap`.
    fn remapped(&mut self, binding: &Expr<'a>) -> Option<(VarId, ExprId, ExprId)> {
        let e = self.index(binding)?;
        let Some(var) = self.func.arena.as_var(e) else {
            let d = Diagnostic::error_at("remap-binding", binding.span, "expected a loop variable in `T.axis.remap`");
            return self.fail(d.help("bind an expression with `T.axis.spatial(extent, value)` or `T.axis.reduce`"));
        };
        match self.loops.iter().rev().find(|l| l.var == var) {
            Some(l) => Some((var, l.min, l.extent)),
            None => {
                let message = format!("`{}` is no variable of a loop around the block", self.func.arena.var(var).name);
                let loops: SmallVec<[String; 4]> =
                    self.loops.iter().map(|l| format!("`{}`", self.func.arena.var(l.var).name)).collect();
                let d = Diagnostic::error_at("remap-binding", binding.span, message);
                let help = (!loops.is_empty()).then(|| format!("the loops around are {}", loops.join(", ")));
                self.fail(d.maybe_help(help))
            }
        }
    }
}
