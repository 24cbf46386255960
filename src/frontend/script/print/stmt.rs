//! Statements.

use super::Printer;
use crate::diagnostic::Span;
use crate::ir::visit::uses_var;
use crate::ir::{
    Annotations, AttrValue, Block, BlockIter, DType, ExprId, IterKind, Loop, LoopId, LoopKind, Stmt, StmtId, VarId,
};
use crate::script::Dialect;
use crate::script::spans::StmtSpan;

impl Printer<'_> {
    /// The root block: a comment if it has only allocations, else in full.
    pub(super) fn root(&mut self) {
        let func = self.func;
        let root = func.root;
        let block = func.block(root);
        let only = match block.body.as_slice() {
            &[only] => func.as_block(only),
            _ => None,
        };
        let has_blocks = !func.child_blocks(root.stmt()).is_empty();
        let bare = block.annotations.is_empty()
            && block.matches.is_empty()
            && block.reads.is_empty()
            && block.writes.is_empty()
            && block.init.is_none()
            && block.name == "root";
        let needs_none = match only {
            // The reader would take a block without iteration variables for the root itself.
            Some(only) => {
                let only = func.block(only);
                !only.iters.is_empty() || only.init.is_some() || !func.arena.is_int(only.predicate, 1)
            }
            None => has_blocks,
        };
        if bare && (needs_none || !block.allocs.is_empty()) {
            self.line();
            self.put(&format!("# with T.{}(\"root\"):\n", self.word("block", "sblock")));
            for &b in &block.allocs {
                self.buffer_statement(b, self.word("alloc_buffer", "sblock_alloc_buffer"), |_| {});
            }
            self.body(&block.body);
        } else if bare && !has_blocks && !func.explicit_root {
            self.body(&block.body);
        } else {
            self.stmt(root.stmt());
        }
    }

    /// Prints the statements of a list.
    fn body(&mut self, body: &[StmtId]) {
        let mut next = 0;
        while next < body.len() {
            next += match self.initialised(&body[next..]) {
                Some((alloc, store)) => {
                    self.scalar_with_value(alloc, store);
                    2
                }
                None => {
                    self.stmt(body[next]);
                    1
                }
            };
        }
        if body.is_empty() {
            self.line();
            self.put("pass\n");
        }
    }

    /// Prints a list in its own scope, one level deeper.
    pub(super) fn nested(&mut self, body: &[StmtId]) {
        let scope = self.names.enter();
        self.indent += 1;
        self.body(body);
        self.indent -= 1;
        self.names.leave(scope);
    }

    pub(super) fn record(&mut self, s: StmtId, whole: Span, name: Span) {
        if let Some(spans) = &mut self.spans {
            spans.add_stmt(s, StmtSpan { whole, name }, usize::MAX);
        }
    }

    /// The span of the statement that starts at `start`: up to the line break.
    pub(super) fn whole(&self, start: usize) -> Span {
        Span::new(start, self.out.trim_end_matches('\n').len().max(start))
    }

    fn stmt(&mut self, s: StmtId) {
        let func = self.func;
        match func.get(s) {
            Stmt::Loop(_) => self.loops(s),
            Stmt::Block(b) => self.block(s, b),
            Stmt::Store { buffer, indices, value } => {
                let list = func.arena.list(*indices).to_vec();
                self.declare_unknown(list.into_iter().chain([*value]));
                self.owner = Some(s);
                self.line();
                let start = self.out.len();
                self.element(*buffer, *indices, true);
                let target = self.span_from(start);
                self.put(" = ");
                self.expr(*value);
                self.record(s, self.span_from(start), target);
                self.put("\n");
            }
            Stmt::If { condition, then, otherwise } => {
                self.declare_unknown([*condition]);
                self.owner = Some(s);
                self.line();
                let start = self.out.len();
                self.put("if ");
                let name_start = self.out.len();
                self.expr(*condition);
                let name = self.span_from(name_start);
                self.put(":\n");
                self.nested(then);
                if !otherwise.is_empty() {
                    self.line();
                    self.put("else:\n");
                    self.nested(otherwise);
                }
                self.record(s, self.whole(start), name);
            }
            Stmt::Let { var, value, body } => {
                self.declare_unknown([*value]);
                self.owner = Some(s);
                self.line();
                let start = self.out.len();
                let name = self.names.define_var(func, *var);
                self.put(name.as_str());
                let name = self.span_from(start);
                let ty = self.var_type(*var);
                match self.dialect {
                    Dialect::Classic => self.put(&format!(": {ty} = ")),
                    Dialect::Current => self.put(&format!(": T.let[{ty}] = ")),
                }
                self.expr(*value);
                self.put("\n");
                // The following statements are siblings of the variable's definition, not its children.
                let line = self.whole(start);
                self.body(body);
                self.record(s, line, name);
            }
            Stmt::Evaluate(e) => {
                self.declare_unknown([*e]);
                self.owner = Some(s);
                self.line();
                let start = self.out.len();
                // A call is a statement by itself; operators, even those printed as calls, are not.
                let is_call =
                    matches!(func.arena.expr(*e), crate::ir::Expr::Call(..) | crate::ir::Expr::IfThenElse(..));
                let named = is_call && !self.is_operator(*e);
                if !named {
                    self.put("T.evaluate(");
                }
                self.expr(*e);
                if !named {
                    self.put(")");
                }
                self.record(s, self.span_from(start), self.span_from(start));
                self.put("\n");
            }
            Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::While { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_)
            | Stmt::Attr(_) => self.other_stmt(s),
        }
    }

    // ---- loops ---------------------------------------------------------------------------------------------

    fn loops(&mut self, s: StmtId) {
        let func = self.func;
        let chain = self.grid(s);
        let Some(&innermost) = chain.last() else { return };
        let headers: Vec<&Loop> = chain.iter().map(|&l| func.loop_(l)).collect();
        self.declare_unknown(headers.iter().flat_map(|l| [l.min, l.extent].into_iter().chain(l.step)));
        self.line();
        let start = self.out.len();
        self.put("for ");
        let scope = self.names.enter();
        let mut names = Vec::new();
        self.list(&headers, |p, l| {
            let start = p.out.len();
            let name = p.names.define_var(func, l.var);
            p.put(name.as_str());
            names.push(p.span_from(start));
        });
        self.put(" in ");
        if chain.len() > 1 {
            self.put("T.grid(");
            self.list(chain.iter().zip(&headers), |p, (l, header)| {
                p.owner = Some(l.stmt());
                p.expr(header.extent);
            });
            self.put(")");
        } else {
            self.owner = Some(s);
            self.single_loop(headers[0]);
        }
        self.put(":\n");
        self.nested(&func.loop_(innermost).body);
        self.names.leave(scope);
        let whole = self.whole(start);
        for (l, name) in chain.into_iter().zip(names) {
            self.record(l.stmt(), whole, name);
        }
    }

    /// The loops that one `for` prints: directly nested serial loops that start at 0 and do not depend on each other;
    /// otherwise only the first.
    fn grid(&self, s: StmtId) -> Vec<LoopId> {
        let func = self.func;
        let mut chain = Vec::new();
        let mut vars: Vec<VarId> = Vec::new();
        let mut next = func.as_loop(s);
        while let Some(l) = next {
            let node = func.loop_(l);
            let plain = node.kind == LoopKind::Serial
                && node.step.is_none()
                && func.arena.is_int(node.min, 0)
                && node.annotations.is_empty()
                && !uses_var(&func.arena, node.extent, &mut |v| vars.contains(&v));
            if !plain {
                break;
            }
            chain.push(l);
            vars.push(node.var);
            next = match node.body.as_slice() {
                &[only] => func.as_loop(only),
                _ => None,
            };
        }
        if chain.is_empty() { func.as_loop(s).into_iter().collect() } else { chain }
    }

    /// `T.parallel(8)` and the like.
    fn single_loop(&mut self, l: &Loop) {
        // `range` produces at least 32 bits.
        let is_wide = self.func.arena.var(l.var).dtype.bits() >= 32;
        let name = match l.kind {
            LoopKind::Serial if l.annotations.is_empty() && is_wide => "range",
            LoopKind::Serial => "T.serial",
            LoopKind::Parallel => "T.parallel",
            LoopKind::Vectorized => "T.vectorized",
            LoopKind::Unrolled => "T.unroll",
            LoopKind::ThreadBinding(_) => "T.thread_binding",
        };
        self.put(name);
        self.put("(");
        if self.func.arena.is_int(l.min, 0) && l.step.is_none() {
            self.expr(l.extent);
        } else {
            self.expr(l.min);
            self.put(", ");
            self.sum(l.min, l.extent);
        }
        if let LoopKind::ThreadBinding(thread) = l.kind {
            self.put(", thread=");
            self.string(thread.as_str());
        }
        if !l.annotations.is_empty() {
            match self.unroll_argument(l) {
                Some(value) => {
                    self.put(", unroll=");
                    self.attr_value(&value);
                }
                None => {
                    self.put(", annotations=");
                    self.annotations(&l.annotations);
                }
            }
        }
        if let Some(step) = l.step {
            self.put(if name == "range" { ", " } else { ", step=" });
            self.expr(step);
        }
        self.put(")");
    }

    /// The value of `unroll=`, TVM's abbreviation of a single annotation on serial loops.
    fn unroll_argument(&self, l: &Loop) -> Option<AttrValue> {
        if self.dialect == Dialect::Classic || l.kind != LoopKind::Serial || l.annotations.iter().len() != 1 {
            return None;
        }
        let (key, value) = l.annotations.iter().next()?;
        match (key.as_str(), value) {
            ("disable_unroll", AttrValue::Bool(true)) => Some(AttrValue::Bool(false)),
            ("pragma_unroll", AttrValue::Bool(true)) => Some(value.clone()),
            ("pragma_unroll", AttrValue::Int(n)) if *n > 0 => Some(value.clone()),
            _ => None,
        }
    }

    pub(super) fn annotations(&mut self, annotations: &Annotations) {
        self.attrs(annotations.iter().map(|(k, v)| (*k, v)));
    }

    // ---- blocks --------------------------------------------------------------------------------------------

    fn block(&mut self, s: StmtId, b: &Block) {
        let func = self.func;
        self.declare_unknown(b.iters.iter().flat_map(|i| [i.min, i.extent, i.value]).chain([b.predicate]));
        self.owner = Some(s);
        self.line();
        let start = self.out.len();
        self.put(&format!("with T.{}(", self.word("block", "sblock")));
        let name_start = self.out.len();
        self.string(b.name.as_str());
        let name = self.span_from(name_start);
        self.put("):\n");
        let scope = self.names.enter();
        self.indent += 1;
        self.iters(s, b);
        if !func.arena.is_int(b.predicate, 1) {
            self.line();
            self.put("T.where(");
            self.expr(b.predicate);
            self.put(")\n");
        }
        for (word, regions, is_write) in [("reads", &b.reads, false), ("writes", &b.writes, true)] {
            self.line();
            self.put(&format!("T.{word}("));
            self.list(regions.iter().enumerate(), |p, (i, r)| {
                let start = p.out.len();
                p.region(r);
                let span = p.span_from(start);
                if let Some(spans) = &mut p.spans {
                    spans.add_region(s, is_write, i, span);
                }
            });
            self.put(")\n");
        }
        if !b.annotations.is_empty() {
            self.line();
            self.put(&format!("T.{}(", self.word("block_attr", "sblock_attr")));
            self.annotations(&b.annotations);
            self.put(")\n");
        }
        for &buffer in &b.allocs {
            self.buffer_statement(buffer, self.word("alloc_buffer", "sblock_alloc_buffer"), |_| {});
        }
        for m in &b.matches {
            self.buffer_statement(m.buffer, "match_buffer", |p| {
                p.region(&m.source);
                p.put(", ");
            });
        }
        if let Some(init) = &b.init {
            self.line();
            self.put("with T.init():\n");
            self.nested(init);
        }
        self.body(&b.body);
        self.indent -= 1;
        self.names.leave(scope);
        self.record(s, self.whole(start), name);
    }

    /// Prints the iteration variables: consecutive ones bound to plain loops in one `T.axis.remap`, others one by one.
    fn iters(&mut self, s: StmtId, b: &Block) {
        let mut i = 0;
        while i < b.iters.len() {
            let run = b.iters[i..].iter().take_while(|iter| self.is_remap(s, iter)).count();
            if run > 1 {
                self.remap(s, b, i, run);
                i += run;
            } else {
                self.single_iter(s, i, &b.iters[i]);
                i += 1;
            }
        }
    }

    /// Whether the variable is bound to an enclosing loop over the same values.
    fn is_remap(&self, s: StmtId, iter: &BlockIter) -> bool {
        let func = self.func;
        if !matches!(iter.kind, IterKind::Spatial | IterKind::Reduce) {
            return false;
        }
        let Some(var) = func.arena.as_var(iter.value) else { return false };
        let around = func.ancestors(s).find_map(|p| match func.get(p) {
            Stmt::Loop(l) if l.var == var => Some(l),
            _ => None,
        });
        around.is_some_and(|l| l.min == iter.min && l.extent == iter.extent)
    }

    fn remap(&mut self, s: StmtId, b: &Block, first: usize, n: usize) {
        let func = self.func;
        let iters = &b.iters[first..first + n];
        self.line();
        self.list(iters.iter().enumerate(), |p, (i, iter)| {
            let start = p.out.len();
            let name = p.names.define_var(func, iter.var);
            p.put(name.as_str());
            p.record_iter(s, first + i, start);
        });
        let kinds: String = iters.iter().map(|i| if i.kind == IterKind::Spatial { 'S' } else { 'R' }).collect();
        self.put(&format!(" = T.axis.remap(\"{kinds}\", ["));
        self.list(iters, |p, iter| p.expr(iter.value));
        self.put("])\n");
    }

    fn record_iter(&mut self, s: StmtId, index: usize, start: usize) {
        let span = self.span_from(start);
        if let Some(spans) = &mut self.spans {
            spans.add_iter(s, index, span);
        }
    }

    fn single_iter(&mut self, s: StmtId, index: usize, iter: &BlockIter) {
        self.line();
        let start = self.out.len();
        let name = self.names.define_var(self.func, iter.var);
        self.put(name.as_str());
        self.record_iter(s, index, start);
        self.put(&format!(" = T.axis.{}(", iter.kind.name()));
        if self.func.arena.is_int(iter.min, 0) {
            self.expr(iter.extent);
        } else {
            self.put("(");
            self.expr(iter.min);
            self.put(", ");
            self.sum(iter.min, iter.extent);
            self.put(")");
        }
        self.put(", ");
        self.expr(iter.value);
        // The type follows from the domain, unless it is narrower.
        let dtype = self.func.arena.var(iter.var).dtype;
        if dtype != DType::Int32 && dtype != self.func.arena.dtype(iter.extent) {
            self.put(&format!(", dtype=\"{dtype}\""));
        }
        self.put(")\n");
    }

    fn is_operator(&self, e: ExprId) -> bool {
        use crate::ir::Intrinsic::*;
        match self.func.arena.expr(e) {
            crate::ir::Expr::Call(f, _) => matches!(f, BitAnd | BitOr | BitXor | BitNot | ShiftLeft | ShiftRight),
            _ => false,
        }
    }
}
