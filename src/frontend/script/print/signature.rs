//! Prints the head of a function, and declarations of buffers.

use super::Printer;
use crate::ir::visit::vars_of;
use crate::ir::{Buffer, BufferId, DType, ExprId, ExprList, Symbol, VarId};
use crate::script::{Dialect, OWN_OFFSET};

impl Printer<'_> {
    /// Prints the function, from its decorator to its last statement.
    pub(super) fn func(&mut self) {
        let func = self.func;
        let scope = self.names.enter();
        // Symbols at module level are named first.
        for v in self.type_vars() {
            self.names.define_var(func, v);
        }
        let mut arguments = Vec::new();
        if func.private {
            arguments.push("private=True");
        }
        if self.dialect == Dialect::Current && func.s_tir {
            arguments.push("s_tir=True");
        }
        self.line();
        self.put("@T.prim_func");
        if !arguments.is_empty() {
            self.put(&format!("({})", arguments.join(", ")));
        }
        self.put("\n");
        self.line();
        self.put("def ");
        let start = self.out.len();
        self.put(func.name.as_str());
        let name = self.span_from(start);
        self.put("(");
        let inline: Vec<bool> = func.params.iter().map(|p| p.buffer.is_some_and(|b| self.is_inline(b))).collect();
        let mut symbols = Vec::new();
        let mut params = Vec::new();
        let mut left = func.params.iter().zip(&inline);
        self.list(0..func.params.len() + func.bound.len(), |p, position| {
            if let Some(bound) = func.bound.iter().find(|b| b.position == position) {
                let name = p.names.reserve(bound.name);
                p.put(&format!("{name}: T.{}", bound.ty));
                return;
            }
            let Some((param, inline)) = left.next() else { return };
            let start = p.out.len();
            match param.buffer {
                Some(b) if *inline => p.inline_param(b, &mut symbols),
                buffer => p.plain_param(param.var, buffer),
            }
            params.push(p.span_from(start));
        });
        self.put(")");
        if let Some(dtype) = func.returns {
            self.put(&format!(" -> T.{dtype}"));
        }
        self.put(":\n");
        if let Some(spans) = &mut self.spans {
            spans.name = name;
            spans.params = params;
        }
        self.indent += 1;
        for group in symbols {
            self.declare(&group);
        }
        if !func.attrs.is_empty() {
            self.line();
            self.put("T.func_attr(");
            self.attrs(func.attrs.iter().map(|(k, v)| (*k, v)));
            self.put(")\n");
        }
        for (param, inline) in func.params.iter().zip(inline) {
            if let (Some(b), false) = (param.buffer, inline) {
                let handle = self.names.var(func, param.var);
                self.buffer_statement(b, "match_buffer", |p| p.put(&format!("{handle}, ")));
            }
        }
        self.root();
        self.indent -= 1;
        self.names.leave(scope);
    }

    /// `n: T.int32`, or the handle of a buffer that is declared by a statement.
    fn plain_param(&mut self, var: VarId, buffer: Option<BufferId>) {
        let func = self.func;
        let name = match buffer {
            // The handle must not take the name of its buffer.
            Some(b) if func.arena.var(var).name == func.arena.buffer(b).name => {
                self.names.define_var_as(var, func.arena.buffer(b).name.with_suffix("_handle"))
            }
            _ => self.names.define_var(func, var),
        };
        self.put(&format!("{name}: {}", self.var_type(var)));
    }

    /// Whether the parameter's annotation can declare the buffer completely. The classic dialect allows neither quoted
    /// extents nor keywords there.
    fn is_inline(&self, b: BufferId) -> bool {
        let arena = &self.func.arena;
        let Buffer { shape, scope, strides, elem_offset, align, offset_factor, axis_separators, .. } = arena.buffer(b);
        let is_constant = |list: ExprList| arena.list(list).iter().all(|&e| arena.as_int(e).is_some());
        match self.dialect {
            Dialect::Current => {
                strides.is_none_or(is_constant)
                    && elem_offset.is_none_or(|e| arena.as_int(e).is_some() || self.own_offset(b).is_some())
                    && axis_separators.is_empty()
            }
            Dialect::Classic => {
                *scope == "global"
                    && strides.is_none()
                    && elem_offset.is_none_or(|e| arena.is_int(e, 0))
                    && *align == 0
                    && *offset_factor == 0
                    && axis_separators.is_empty()
                    && is_constant(*shape)
            }
        }
    }

    /// The symbols of extents that TVM 0.27 can define only outside the function: those of type `int64`, unless they
    /// are parameters. In order of appearance.
    pub(super) fn type_vars(&self) -> Vec<VarId> {
        let func = self.func;
        let mut vars = Vec::new();
        if self.dialect == Dialect::Classic {
            return vars;
        }
        for b in func.params.iter().filter_map(|p| p.buffer).filter(|&b| self.is_inline(b)) {
            for &e in func.arena.list(func.arena.buffer(b).shape) {
                for v in vars_of(&func.arena, e) {
                    let is_param = func.params.iter().any(|p| p.var == v);
                    if func.arena.var(v).dtype == DType::Int64 && !is_param && !vars.contains(&v) {
                        vars.push(v);
                    }
                }
            }
        }
        vars
    }

    /// `A: T.Buffer((16, 16), "float32")`. An extent with an undefined symbol is quoted, and the symbol is added to
    /// those that the body declares, grouped by the lines of the declarations.
    fn inline_param(&mut self, b: BufferId, symbols: &mut Vec<Vec<VarId>>) {
        let func = self.func;
        let name = self.names.define_buffer(func, b);
        self.put(&format!("{name}: T.Buffer("));
        let buffer = func.arena.buffer(b);
        let mut bare = Vec::new();
        self.tuple(func.arena.list(buffer.shape).iter().copied(), |p, e| {
            let vars = vars_of(&func.arena, e);
            let is_bare = func.arena.as_var(e).is_some();
            let of_module = |v: &VarId| p.names.has_var(*v) && func.arena.var(*v).dtype == DType::Int64;
            let mut quoted = !is_bare && vars.iter().any(|v| of_module(v) && func.params.iter().all(|q| q.var != *v));
            for v in vars {
                if p.names.has_var(v) {
                    continue;
                }
                quoted = true;
                p.names.define_var(func, v);
                // A symbol that is a later parameter needs no declaration.
                if func.params.iter().all(|q| q.var != v) {
                    if is_bare {
                        bare.push(v);
                    } else {
                        symbols.push(vec![v]);
                    }
                }
            }
            let quote = if quoted { "\"" } else { "" };
            p.put(quote);
            p.expr(e);
            p.put(quote);
        });
        if !bare.is_empty() {
            symbols.push(bare);
        }
        self.put(&format!(", \"{}\"", buffer.ty()));
        self.buffer_options(b);
        self.put(")");
    }

    /// `n = T.int32()`, or `n, m = T.int32(), T.int32()`.
    fn declare(&mut self, symbols: &[VarId]) {
        self.line();
        self.list(symbols, |p, &v| {
            let name = p.names.define_var(p.func, v);
            p.put(name.as_str());
        });
        self.put(" = ");
        self.list(symbols, |p, &v| p.put(&format!("T.{}()", p.func.arena.var(v).ty())));
        self.put("\n");
    }

    /// Declares the undefined variables of expressions.
    pub(super) fn declare_unknown(&mut self, exprs: impl IntoIterator<Item = ExprId>) {
        let mut unknown = Vec::new();
        for e in exprs {
            for v in vars_of(&self.func.arena, e) {
                if !self.names.has_var(v) && !unknown.contains(&v) {
                    unknown.push(v);
                }
            }
            self.let_vars(e, &mut unknown);
        }
        for v in unknown {
            self.declare(&[v]);
        }
    }

    /// The variables of `T.Let` expressions, which are declared like undefined ones.
    fn let_vars(&self, e: ExprId, out: &mut Vec<VarId>) {
        crate::ir::visit::for_each_subexpr(&self.func.arena, e, &mut |e| {
            if let crate::ir::Expr::Let(v, ..) = self.func.arena.expr(e)
                && !self.names.has_var(v)
                && !out.contains(&v)
            {
                out.push(v);
            }
        });
    }

    /// `A = T.method(first shape, dtype, …)`
    pub(super) fn buffer_statement(&mut self, b: BufferId, method: &str, first: impl FnOnce(&mut Self)) {
        self.buffer_statement_with(b, method, first, |_| {}, |_| {});
    }

    /// `A = T.method(first shape, dtype, data, … last)`
    pub(super) fn buffer_statement_with(
        &mut self,
        b: BufferId,
        method: &str,
        first: impl FnOnce(&mut Self),
        data: impl FnOnce(&mut Self),
        last: impl FnOnce(&mut Self),
    ) {
        let func = self.func;
        let arena = &func.arena;
        let buffer = arena.buffer(b);
        let lists = [Some(buffer.shape), buffer.strides];
        let exprs: Vec<ExprId> = lists.into_iter().flatten().flat_map(|l| arena.list(l).to_vec()).collect();
        let stated = buffer.elem_offset.filter(|_| self.own_offset(b).is_none());
        self.declare_unknown(exprs.into_iter().chain(stated));
        let name = self.names.define_buffer(func, b);
        self.line();
        let start = self.out.len();
        self.put(name.as_str());
        let span = self.span_from(start);
        self.put(&format!(" = T.{method}("));
        first(self);
        self.tuple(arena.list(buffer.shape).iter().copied(), |p, e| p.expr(e));
        if buffer.ty() != DType::Float32.into() {
            self.put(&format!(", \"{}\"", buffer.ty()));
        }
        data(self);
        self.buffer_options(b);
        last(self);
        self.put(")\n");
        if let Some(spans) = &mut self.spans {
            spans.add_buffer(b, span);
        }
    }

    /// The variable for the offset of a single buffer that states only an `offset_factor`, which TVM makes implicitly.
    /// Its only name is `buffer.elem_offset`.
    fn own_offset(&self, b: BufferId) -> Option<VarId> {
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        let offset = buffer.elem_offset.filter(|_| buffer.offset_factor != 0)?;
        let v = arena.as_var(offset).filter(|&v| arena.var(v).name == OWN_OFFSET && !self.names.has_var(v))?;
        let shared = arena.buffer_ids().any(|other| other != b && arena.buffer(other).elem_offset == Some(offset));
        (!shared).then_some(v)
    }

    /// The options of a buffer besides shape and element type that are not the default.
    fn buffer_options(&mut self, b: BufferId) {
        let arena = &self.func.arena;
        let buffer = arena.buffer(b);
        if let Some(strides) = buffer.strides {
            self.put(", strides=");
            self.tuple(arena.list(strides).iter().copied(), |p, e| p.expr(e));
        }
        if let Some(v) = self.own_offset(b) {
            let name = self.names.buffer(self.func, b);
            self.names.define_var_as_member(v, Symbol::new(&format!("{name}.elem_offset")));
        }
        // Only the current dialect shows the type of a zero.
        let own = |e: ExprId| arena.as_var(e).is_some_and(|v| self.names.var(self.func, v).as_str().contains('.'));
        let says = |&e: &ExprId| !own(e) && (self.dialect == Dialect::Current || !arena.is_int(e, 0));
        if let Some(e) = buffer.elem_offset.filter(says) {
            self.put(", elem_offset=");
            self.expr(e);
        }
        if buffer.scope != "global" {
            self.put(", scope=");
            self.string(buffer.scope.as_str());
        }
        if buffer.align != 0 {
            self.put(&format!(", align={}", buffer.align));
        }
        if buffer.offset_factor != 0 {
            self.put(&format!(", offset_factor={}", buffer.offset_factor));
        }
        if !buffer.axis_separators.is_empty() {
            let list: Vec<String> = buffer.axis_separators.iter().map(u32::to_string).collect();
            self.put(&format!(", axis_separators=[{}]", list.join(", ")));
        }
        if buffer.no_layout && self.dialect == Dialect::Current {
            self.put(", layout=None");
        }
    }
}
