//! Reads loops: `for` over a range, a grid or a thread.

use super::args::counted;
use super::func::{FuncReader, LoopFrame, LoopSpec};
use super::value::{Namespace, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::ir::{AttrValue, Body, DType, ExprId, Loop, LoopKind, Stmt, Symbol};
use crate::script::python::{Call, Expr, ExprKind, For};

impl<'a> FuncReader<'a, '_> {
    pub(super) fn for_(&mut self, f: &For<'a>, span: Span, mark: usize) -> Option<Body> {
        if let Some(orelse) = f.orelse {
            self.error(Diagnostic::error_at("unsupported", orelse, "`else` of a loop is not supported"));
        }
        let specs = self.loop_specs(&f.iter);
        self.scope.push_frame();
        let entered = self.loops.len();
        let depth = self.depth;
        let result = self.loops_around(f, specs, span, mark);
        self.loops.truncate(entered);
        self.depth = depth;
        self.scope.pop_frame();
        result
    }

    fn loops_around(&mut self, f: &For<'a>, specs: Option<Vec<LoopSpec>>, span: Span, mark: usize) -> Option<Body> {
        let Some(specs) = specs else {
            // Continue with undefined loop variables, to find the mistakes inside.
            self.bind(&f.target, None);
            self.body(&f.body);
            return None;
        };
        let mut vars = Vec::new();
        for spec in &specs {
            if !self.enter(span) {
                return None;
            }
            let dtype = self.func.arena.dtype(spec.extent);
            let (var, e) = self.func.arena.new_var_expr("", dtype);
            vars.push((var, e));
            self.loops.push(LoopFrame { var, min: spec.min, extent: spec.extent });
        }
        let targets: &[Expr<'a>] = match &f.target.kind {
            ExprKind::Tuple(items) | ExprKind::List(items) => items,
            _ => std::slice::from_ref(&f.target),
        };
        let values: Vec<Value> = vars.iter().map(|v| Value::Expr(v.1)).collect();
        if targets.len() == 1 && values.len() > 1 {
            self.bind(&targets[0], Some(Value::Seq(values)));
        } else if targets.len() != values.len() {
            let message = format!(
                "expected {} for {}, found {}",
                counted(values.len(), "name"),
                counted(values.len(), "loop"),
                targets.len()
            );
            self.error(Diagnostic::error_at("unpack-count", f.target.span, message).label(f.iter.span, ""));
            self.bind(&f.target, None);
        } else {
            for (target, value) in targets.iter().zip(values) {
                self.bind(target, Some(value));
            }
        }
        let mut body = self.body(&f.body);
        for (i, (spec, (var, _))) in specs.into_iter().zip(&vars).enumerate().rev() {
            let node = Loop {
                var: *var,
                min: spec.min,
                extent: spec.extent,
                step: spec.step,
                kind: spec.kind,
                annotations: spec.annotations.into_iter().collect(),
                body,
            };
            let name = if targets.len() == vars.len() { targets[i].span } else { f.target.span };
            let id = self.add(Stmt::Loop(node), span, name, if i == 0 { mark } else { self.spans.mark() });
            body = Body::from_elem(id, 1);
        }
        Some(body)
    }

    /// The loops of `for … in e`.
    fn loop_specs(&mut self, e: &Expr<'a>) -> Option<Vec<LoopSpec>> {
        let ExprKind::Call(call) = &e.kind else {
            return self.no_loop(e.span);
        };
        let (name, is_range) = match &call.callee.kind {
            ExprKind::Name("range") => ("range", true),
            ExprKind::Attribute(owner, attr) => match self.namespace(owner) {
                Some(Namespace::Tir) => (attr.name, false),
                Some(ns) => return self.unknown_member(ns, *attr),
                None => return self.no_loop(e.span),
            },
            _ => return self.no_loop(e.span),
        };
        let full = if is_range { name.to_string() } else { format!("T.{name}") };
        let kind = match name {
            "grid" => return self.grid(call),
            "range" | "serial" => LoopKind::Serial,
            "parallel" => LoopKind::Parallel,
            "vectorized" => LoopKind::Vectorized,
            "unroll" => LoopKind::Unrolled,
            "thread_binding" => return self.thread_binding(call),
            _ => {
                let ExprKind::Attribute(_, attr) = call.callee.kind else { return self.no_loop(e.span) };
                let known = ["grid", "serial", "parallel", "vectorized", "unroll", "thread_binding"];
                return match crate::diagnostic::nearest(name, known) {
                    Some(near) => {
                        let d = Diagnostic::error_at("unknown-function", attr.span, format!("unknown loop `T.{name}`"));
                        self.fail(d.help(format!("did you mean `T.{near}`?")))
                    }
                    None => self.no_loop(e.span),
                };
            }
        };
        let params: &[&str] = match (is_range, kind) {
            (true, _) => &["start", "stop", "step"],
            (false, LoopKind::Serial) => &["start", "stop", "*", "annotations", "step", "unroll", "dtype"],
            _ => &["start", "stop", "*", "annotations", "step", "dtype"],
        };
        let args = self.args(&full, call, params, 1)?;
        let arg = |name: &str| params.iter().position(|p| *p == name).and_then(|i| args[i]);
        let dtype = match arg("dtype") {
            Some(e) if !matches!(e.kind, ExprKind::None) => Some(self.loop_type(e)?),
            _ => None,
        };
        let (min, extent) = self.loop_range(args[0]?, args[1], is_range, dtype)?;
        let mut annotations = match arg("annotations") {
            Some(e) => self.annotations(e)?,
            None => Vec::new(),
        };
        let step = match arg("step") {
            Some(e) if !matches!(e.kind, ExprKind::None) => Some((self.index(e)?, e.span)),
            _ => None,
        };
        if let Some(unroll) = arg("unroll") {
            // `unroll=` is TVM's abbreviation of two annotations.
            let (key, value) = match self.eval(unroll)? {
                Value::Bool(true) => ("pragma_unroll", AttrValue::Bool(true)),
                Value::Bool(false) => ("disable_unroll", AttrValue::Bool(true)),
                Value::Int(n) if n >= 1 && n <= i64::MAX as i128 => ("pragma_unroll", AttrValue::Int(n as i64)),
                _ => {
                    let message = "expected `True`, `False` or a positive number for `unroll`";
                    return self.fail(Diagnostic::error_at("wrong-argument", unroll.span, message));
                }
            };
            annotations.push((Symbol::new(key), value));
        }
        let dtype = self.func.arena.dtype(extent);
        let step = match step {
            Some((step, span)) => {
                let step = self.func.arena.cast(dtype, step);
                self.step(step, span)?
            }
            None => None,
        };
        Some(vec![LoopSpec { min, extent, step, kind, annotations }])
    }

    /// The step of a loop; `None` for a step of 1.
    fn step(&mut self, step: ExprId, span: Span) -> Option<Option<ExprId>> {
        match self.func.arena.as_int(step) {
            Some(1) => Some(None),
            Some(n) if n <= 0 => {
                let d = Diagnostic::error_at("loop-step", span, format!("expected a positive step, found {n}"));
                self.fail(
                    d.help(
                        "count upwards, and compute the index from the variable: `for i in range(n): … n - 1 - i …`",
                    ),
                )
            }
            _ => Some(Some(step)),
        }
    }

    fn no_loop<T>(&mut self, span: Span) -> Option<T> {
        self.fail(Diagnostic::error_at("unknown-loop", span, "expected a loop, found another expression").help(
            "loops are `range`, `T.serial`, `T.grid`, `T.parallel`, `T.vectorized`, `T.unroll` and `T.thread_binding`",
        ))
    }

    /// The range of a loop: `stop`, or `start, stop`. Its type is as wide as the wider end, unsigned if one of them is.
    /// A single end starts at 0 of its own type, or of `int32` for `range`.
    fn loop_range(
        &mut self,
        first: &Expr<'a>,
        second: Option<&Expr<'a>>,
        is_range: bool,
        dtype: Option<DType>,
    ) -> Option<(ExprId, ExprId)> {
        let second = second.filter(|e| !matches!(e.kind, ExprKind::None));
        let (lo, hi) = match second {
            None => {
                let stop = self.index(first)?;
                let own = self.func.arena.dtype(stop);
                let from = if is_range || own == DType::Bool { DType::Int32 } else { own };
                (self.func.arena.int(0, from), stop)
            }
            Some(stop) => {
                let (lo, hi) = (self.index(first), self.index(stop));
                (lo?, hi?)
            }
        };
        let dtype = dtype.unwrap_or_else(|| counting_type(self.func.arena.dtype(lo), self.func.arena.dtype(hi)));
        let (lo, hi) = (self.cast(dtype, lo), self.cast(dtype, hi));
        Some(self.min_extent(lo, hi))
    }

    /// The stated type of a loop.
    fn loop_type(&mut self, e: &Expr<'a>) -> Option<DType> {
        let dtype = self.dtype(e)?;
        if dtype.is_integer() {
            return Some(dtype);
        }
        self.fail(Diagnostic::error_at("type-mismatch", e.span, format!("expected an integer type, found `{dtype}`")))
    }

    fn grid(&mut self, call: &Call<'a>) -> Option<Vec<LoopSpec>> {
        let mut dtype = None;
        for (key, value) in &call.keywords {
            match key {
                Some(key) if key.name == "dtype" && matches!(value.kind, ExprKind::None) => {}
                Some(key) if key.name == "dtype" => dtype = Some(self.loop_type(value)?),
                Some(key) => {
                    self.unknown_keyword("T.grid", key.name, key.span, &["dtype"]);
                    return None;
                }
                None => return self.unsupported(value.span, "unpacking with `**`"),
            }
        }
        if call.args.is_empty() {
            return self.fail(Diagnostic::error_at("argument-count", call.args_span, "`T.grid` needs an extent"));
        }
        let mut specs = Vec::new();
        let mut ok = true;
        for arg in &call.args {
            let range = match &arg.kind {
                // A pair of first value and extent.
                ExprKind::Tuple(items) if items.len() == 2 => {
                    let (min, extent) = (self.index(&items[0]), self.index(&items[1]));
                    // The type is that of the first value.
                    min.zip(extent).map(|(min, extent)| {
                        let dtype = dtype.unwrap_or(self.func.arena.dtype(min));
                        (self.cast(dtype, min), self.cast(dtype, extent))
                    })
                }
                ExprKind::Starred(inner) => match self.eval(inner) {
                    // `T.grid(*shape)`
                    Some(Value::Seq(items)) => {
                        for item in items {
                            match self.index_of(item, inner.span) {
                                Some(extent) => specs.push(self.serial(extent, dtype)),
                                None => ok = false,
                            }
                        }
                        continue;
                    }
                    _ => self.unsupported(arg.span, "unpacking anything but a list"),
                },
                _ => self.loop_range(arg, None, false, dtype),
            };
            match range {
                Some((min, extent)) => {
                    specs.push(LoopSpec { min, extent, step: None, kind: LoopKind::Serial, annotations: Vec::new() });
                }
                None => ok = false,
            }
        }
        ok.then_some(specs)
    }

    fn serial(&mut self, extent: ExprId, dtype: Option<DType>) -> LoopSpec {
        let dtype = dtype.unwrap_or(self.func.arena.dtype(extent));
        let extent = self.cast(dtype, extent);
        let min = self.func.arena.int(0, dtype);
        LoopSpec { min, extent, step: None, kind: LoopKind::Serial, annotations: Vec::new() }
    }

    fn thread_binding(&mut self, call: &Call<'a>) -> Option<Vec<LoopSpec>> {
        let args = self.args("T.thread_binding", call, &["start", "stop", "thread", "*", "annotations"], 1)?;
        // `T.thread_binding(128, "threadIdx.x")`: the second argument is the thread.
        let (stop, thread) = match (args[1], args[2]) {
            (Some(e), None) if matches!(e.kind, ExprKind::Str(_)) => (None, Some(e)),
            other => other,
        };
        let Some(thread) = thread else {
            let d = Diagnostic::error_at(
                "argument-count",
                call.args_span,
                "`T.thread_binding` lacks its argument `thread`",
            );
            return self.fail(d.help("write `thread=\"threadIdx.x\"`, for example"));
        };
        let (min, extent) = self.loop_range(args[0]?, stop, false, None)?;
        let thread = self.text(thread)?;
        let annotations = match args[4] {
            Some(e) => self.annotations(e)?,
            None => Vec::new(),
        };
        Some(vec![LoopSpec { min, extent, step: None, kind: LoopKind::ThreadBinding(thread), annotations }])
    }
}

/// The type of a loop between ends of these types: as wide as the wider one, and unsigned if one is.
fn counting_type(a: DType, b: DType) -> DType {
    let types = match a.is_uint() || b.is_uint() {
        true => [DType::UInt8, DType::UInt16, DType::UInt32, DType::UInt64],
        false => [DType::Int8, DType::Int16, DType::Int32, DType::Int64],
    };
    let bits = a.bits().max(b.bits());
    types.into_iter().find(|t| t.bits() == bits).unwrap_or(DType::Int64)
}
