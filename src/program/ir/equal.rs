//! Structural equality of functions and modules.
//!
//! Two functions are equal when one becomes the other by renaming:
//! * variables (loops, block iterations, lets, symbolic extents, parameters) and buffers correspond one to one, in the
//!   order in which they are bound; names do not count;
//! * buffers agree in element type, shape, scope, strides, offset and alignment, and in where they are bound (which
//!   parameter, which allocation of which block);
//! * block names count if [`Equality::block_names`] says so;
//! * `reads` and `writes` are ordered lists, annotations are maps, `tir.` and `tirx.` prefixes of keys are one;
//! * expressions are equal as trees, float constants as values of their type;
//! * `global_symbol` and `private` are ignored.
//!
//! [`hash`](super::hash) gives equal hashes to equal functions.

use super::attr::{Annotations, AttrValue};
use super::buffer::{BufferId, BufferRegion};
use super::dtype::DType;
use super::expr::{Expr, ExprId, ExprList, Pointee, VarId};
use super::func::{Func, Module};
use super::stmt::{Assert, Block, Body, Stmt, StmtId};
use super::symbol::Symbol;
use std::fmt::{self, Display, Formatter};

/// Options of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Equality {
    /// Whether block names must be equal.
    pub block_names: bool,
    /// Whether constants are folded on both sides first, as reading the texts would do.
    pub fold: bool,
}

impl Default for Equality {
    /// Block names count, nothing is folded.
    fn default() -> Self {
        Equality { block_names: true, fold: false }
    }
}

/// The first difference of two programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The enclosing statements, outermost first, with the names of the left program.
    pub path: Vec<String>,
    /// The kind of difference.
    pub what: &'static str,
    /// The left side, as a short text.
    pub left: String,
    /// The right side, as a short text.
    pub right: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join(" > "))?;
        }
        write!(f, "{} differs: `{}` against `{}`", self.what, self.left, self.right)
    }
}

impl Equality {
    /// Compares two functions.
    pub fn funcs(self, left: &Func, right: &Func) -> Result<(), Box<Difference>> {
        if self.fold {
            let (mut left, mut right) = (left.clone(), right.clone());
            left.fold();
            right.fold();
            return Compare::new(self, &left, &right).funcs();
        }
        Compare::new(self, left, right).funcs()
    }

    /// Compares two modules: the same function names, each function equal to its namesake. The order of the functions
    /// does not count.
    pub fn modules(self, left: &Module, right: &Module) -> Result<(), Box<Difference>> {
        let names = |m: &Module| {
            let mut names: Vec<Symbol> = m.funcs.iter().map(|f| f.name).collect();
            names.sort();
            names
        };
        let (l, r) = (names(left), names(right));
        if l != r {
            let text = |names: &[Symbol]| names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
            return fail("set of functions", text(&l), text(&r));
        }
        for f in &left.funcs {
            let g = right.funcs.iter().find(|g| g.name == f.name).expect("the sets of names are equal");
            self.funcs(f, g).map_err(|d| d.inside(format!("function `{}`", f.name)))?;
        }
        Ok(())
    }
}

impl Difference {
    fn inside(mut self: Box<Self>, step: String) -> Box<Self> {
        self.path.insert(0, step);
        self
    }
}

type Same = Result<(), Box<Difference>>;

#[cold]
fn fail(what: &'static str, left: impl Display, right: impl Display) -> Same {
    Err(Box::new(Difference { path: Vec::new(), what, left: left.to_string(), right: right.to_string() }))
}

/// A key of attributes or annotations in the current spelling: the classic prefix `tir.` becomes `tirx.`. Returns the
/// parts before and after the place where the spellings differ.
pub(super) fn key_parts(key: &str) -> (&'static str, &str) {
    match key.strip_prefix("tir.").or_else(|| key.strip_prefix("tirx.")) {
        Some(rest) => ("tirx.", rest),
        None => ("", key),
    }
}

const UNKNOWN: u32 = u32::MAX;

/// The state of one comparison: the correspondences found so far.
struct Compare<'a> {
    options: Equality,
    left: &'a Func,
    right: &'a Func,
    /// Right partner of each left variable, and the reverse.
    vars: (Vec<u32>, Vec<u32>),
    /// Right partner of each left buffer, and the reverse.
    buffers: (Vec<u32>, Vec<u32>),
    /// The right expression that each left expression was found equal to.
    exprs: Vec<u32>,
    /// Number of enclosing let expressions. Their variables are bound again at each occurrence, so equalities inside
    /// are not recorded.
    open_lets: u32,
    /// Number of let expressions visited so far. The equality of an expression that contains one is not recorded.
    n_lets: u32,
}

impl<'a> Compare<'a> {
    fn new(options: Equality, left: &'a Func, right: &'a Func) -> Self {
        let (l, r) = (&left.arena, &right.arena);
        Compare {
            options,
            left,
            right,
            vars: (vec![UNKNOWN; l.n_vars()], vec![UNKNOWN; r.n_vars()]),
            buffers: (vec![UNKNOWN; l.n_buffers()], vec![UNKNOWN; r.n_buffers()]),
            exprs: vec![UNKNOWN; l.n_exprs()],
            open_lets: 0,
            n_lets: 0,
        }
    }

    fn funcs(&mut self) -> Same {
        let (left, right) = (self.left, self.right);
        if left.params.len() != right.params.len() {
            return fail("number of parameters", left.params.len(), right.params.len());
        }
        for (i, (l, r)) in left.params.iter().zip(&right.params).enumerate() {
            let at = |d: Box<Difference>| d.inside(format!("parameter {i}"));
            match (l.buffer, r.buffer) {
                (Some(x), Some(y)) => self.bind_buffer(x, y).map_err(at)?,
                (None, None) => self.bind_var(l.var, r.var).map_err(at)?,
                (x, y) => {
                    let kind = |b: Option<_>| if b.is_some() { "a buffer" } else { "a scalar" };
                    return fail("kind", kind(x), kind(y)).map_err(at);
                }
            }
        }
        if left.returns != right.returns {
            let text = |t: Option<DType>| t.map_or("nothing".into(), |t| t.to_string());
            return fail("result", text(left.returns), text(right.returns));
        }
        let ignored = Symbol::new("global_symbol");
        self.annotations("attribute", &left.attrs, &right.attrs, Some(ignored))?;
        self.stmt(left.root.stmt(), right.root.stmt())
    }

    // ---- variables and buffers -----------------------------------------------------------------------------

    fn bind_var(&mut self, l: VarId, r: VarId) -> Same {
        let (x, y) = (self.left.arena.var(l), self.right.arena.var(r));
        if x.ty() != y.ty() {
            return fail("type of a variable", x.ty(), y.ty());
        }
        if x.pointee != y.pointee {
            let text = |p: Option<Pointee>| p.map_or("anything".into(), |p| format!("{} in {}", p.ty, p.scope));
            return fail("what a handle points to", text(x.pointee), text(y.pointee));
        }
        if !pair(&mut self.vars, l.index(), r.index()) {
            return fail("binding of a variable", x.name, y.name);
        }
        Ok(())
    }

    fn bind_buffer(&mut self, l: BufferId, r: BufferId) -> Same {
        let (left, right) = (self.left, self.right);
        let (x, y) = (left.arena.buffer(l), right.arena.buffer(r));
        if !pair(&mut self.buffers, l.index(), r.index()) {
            return fail("use of a buffer", x.name, y.name);
        }
        let inside = |d: Box<Difference>| d.inside(format!("buffer `{}`", x.name));
        if x.ty() != y.ty() {
            return fail("element type", x.ty(), y.ty()).map_err(inside);
        }
        if x.scope != y.scope {
            return fail("scope", x.scope, y.scope).map_err(inside);
        }
        self.list("shape", x.shape, y.shape).map_err(inside)?;
        match (x.strides, y.strides) {
            (None, None) => {}
            (Some(a), Some(b)) => self.list("strides", a, b).map_err(inside)?,
            (a, b) => {
                let kind = |s: Option<_>| if s.is_some() { "given" } else { "compact" };
                return fail("strides", kind(a), kind(b)).map_err(inside);
            }
        }
        match (offset(left, x.elem_offset), offset(right, y.elem_offset)) {
            (None, None) => {}
            (Some(a), Some(b)) => self.expr("offset", a, b).map_err(inside)?,
            (a, b) => {
                let kind = |s: Option<_>| if s.is_some() { "given" } else { "0" };
                return fail("offset", kind(a), kind(b)).map_err(inside);
            }
        }
        if alignment(x.align) != alignment(y.align) {
            return fail("alignment", alignment(x.align), alignment(y.align)).map_err(inside);
        }
        if x.offset_factor.max(1) != y.offset_factor.max(1) {
            return fail("offset factor", x.offset_factor, y.offset_factor).map_err(inside);
        }
        if x.no_layout != y.no_layout {
            let text = |none: bool| if none { "none" } else { "the default one" };
            return fail("layout", text(x.no_layout), text(y.no_layout)).map_err(inside);
        }
        if x.axis_separators != y.axis_separators {
            let text = |s: &[u32]| format!("{s:?}");
            return fail("axis separators", text(&x.axis_separators), text(&y.axis_separators)).map_err(inside);
        }
        Ok(())
    }

    fn bind_buffers(&mut self, what: &'static str, l: &[BufferId], r: &[BufferId]) -> Same {
        if l.len() != r.len() {
            let names = |f: &Func, all: &[BufferId]| {
                all.iter().map(|&b| f.arena.buffer(b).name.as_str()).collect::<Vec<_>>().join(", ")
            };
            return fail(what, names(self.left, l), names(self.right, r));
        }
        l.iter().zip(r).try_for_each(|(&x, &y)| self.bind_buffer(x, y))
    }

    fn buffer(&mut self, l: BufferId, r: BufferId) -> Same {
        let (x, y) = (self.buffers.0[l.index()], self.buffers.1[r.index()]);
        if x == r.0 && y == l.0 {
            return Ok(());
        }
        if x == UNKNOWN && y == UNKNOWN {
            return self.bind_buffer(l, r);
        }
        fail("buffer", self.left.arena.buffer(l).name, self.right.arena.buffer(r).name)
    }

    fn region(&mut self, what: &'static str, l: &BufferRegion, r: &BufferRegion) -> Same {
        let same = self
            .buffer(l.buffer, r.buffer)
            .and_then(|()| self.list(what, l.mins, r.mins))
            .and_then(|()| self.list(what, l.extents, r.extents));
        same.or_else(|_| fail(what, self.left.arena.brief_region(l), self.right.arena.brief_region(r)))
    }

    fn regions(&mut self, what: &'static str, l: &[BufferRegion], r: &[BufferRegion]) -> Same {
        if l.len() != r.len() {
            let text = |f: &Func, all: &[BufferRegion]| {
                all.iter().map(|r| f.arena.brief_region(r)).collect::<Vec<_>>().join(", ")
            };
            return fail(what, text(self.left, l), text(self.right, r));
        }
        l.iter().zip(r).try_for_each(|(x, y)| self.region(what, x, y))
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    fn expr(&mut self, what: &'static str, l: ExprId, r: ExprId) -> Same {
        if self.same(l, r) {
            return Ok(());
        }
        fail(what, self.left.arena.brief(l), self.right.arena.brief(r))
    }

    fn list(&mut self, what: &'static str, l: ExprList, r: ExprList) -> Same {
        if self.same_list(l, r) {
            return Ok(());
        }
        fail(what, self.left.arena.brief_list(l), self.right.arena.brief_list(r))
    }

    fn same_list(&mut self, l: ExprList, r: ExprList) -> bool {
        let (left, right) = (self.left, self.right);
        let (x, y) = (left.arena.list(l), right.arena.list(r));
        x.len() == y.len() && x.iter().zip(y).all(|(&a, &b)| self.same(a, b))
    }

    fn same(&mut self, l: ExprId, r: ExprId) -> bool {
        let remember = self.open_lets == 0;
        if remember && self.exprs[l.index()] == r.0 {
            return true;
        }
        let (left, right) = (&self.left.arena, &self.right.arena);
        let dtype = left.dtype(l);
        if left.ty(l) != right.ty(r) {
            return false;
        }
        let n_lets = self.n_lets;
        let same = match (left.expr(l), right.expr(r)) {
            (Expr::Int(a), Expr::Int(b)) => a == b,
            (Expr::Float(a), Expr::Float(b)) => float_bits(a, dtype) == float_bits(b, dtype),
            (Expr::Str(a), Expr::Str(b)) => a == b,
            (Expr::Var(a), Expr::Var(b)) => self.same_var(a, b),
            (Expr::Binary(f, a, b), Expr::Binary(g, x, y)) => f == g && self.same(a, x) && self.same(b, y),
            (Expr::Compare(f, a, b), Expr::Compare(g, x, y)) => f == g && self.same(a, x) && self.same(b, y),
            (Expr::Not(a), Expr::Not(x)) | (Expr::Cast(a), Expr::Cast(x)) => self.same(a, x),
            (Expr::Select(a, b, c), Expr::Select(x, y, z)) | (Expr::IfThenElse(a, b, c), Expr::IfThenElse(x, y, z)) => {
                self.same(a, x) && self.same(b, y) && self.same(c, z)
            }
            (Expr::Load(a, i), Expr::Load(b, j)) => self.buffer(a, b).is_ok() && self.same_list(i, j),
            (Expr::BufferData(a), Expr::BufferData(b)) => self.buffer(a, b).is_ok(),
            (Expr::Call(f, i), Expr::Call(g, j)) => f == g && self.same_list(i, j),
            (Expr::Let(v, a, b), Expr::Let(w, x, y)) => self.same(a, x) && self.same_let_body(v, w, b, y),
            (Expr::Ramp(a, b), Expr::Ramp(x, y)) => self.same(a, x) && self.same(b, y),
            (Expr::Broadcast(a), Expr::Broadcast(x)) => self.same(a, x),
            (Expr::Shuffle(a, i), Expr::Shuffle(x, j)) => self.same_list(a, x) && self.same_list(i, j),
            (Expr::Builtin(f, i), Expr::Builtin(g, j)) => f == g && self.same_list(i, j),
            _ => false,
        };
        if same && remember && n_lets == self.n_lets {
            self.exprs[l.index()] = r.0;
        }
        same
    }

    fn same_var(&mut self, l: VarId, r: VarId) -> bool {
        match (self.vars.0[l.index()], self.vars.1[r.index()]) {
            // A symbolic extent is bound where it first appears.
            (UNKNOWN, UNKNOWN) => self.bind_var(l, r).is_ok(),
            (x, y) => x == r.0 && y == l.0,
        }
    }

    fn same_let_body(&mut self, v: VarId, w: VarId, l: ExprId, r: ExprId) -> bool {
        self.n_lets += 1;
        let before = (self.vars.0[v.index()], self.vars.1[w.index()]);
        if self.left.arena.var(v).ty() != self.right.arena.var(w).ty() {
            return false;
        }
        (self.vars.0[v.index()], self.vars.1[w.index()]) = (w.0, v.0);
        self.open_lets += 1;
        let same = self.same(l, r);
        self.open_lets -= 1;
        (self.vars.0[v.index()], self.vars.1[w.index()]) = before;
        same
    }

    // ---- attributes ----------------------------------------------------------------------------------------

    fn annotations(&mut self, what: &'static str, l: &Annotations, r: &Annotations, ignored: Option<Symbol>) -> Same {
        if l.is_empty() && r.is_empty() {
            return Ok(());
        }
        let kept = |all: &Annotations| all.iter().filter(|(k, _)| Some(*k) != ignored).count();
        for (key, x) in l.iter().filter(|(k, _)| Some(*k) != ignored) {
            match find(r, *key) {
                None => return fail(what, key, "absent"),
                Some(y) if self.same_value(x, y) => {}
                Some(y) => {
                    let at = |d: Box<Difference>| d.inside(format!("{what} `{key}`"));
                    return fail("value", value_text(self.left, x), value_text(self.right, y)).map_err(at);
                }
            }
        }
        if kept(l) != kept(r) {
            let surplus = r.iter().find(|(k, _)| Some(*k) != ignored && find(l, *k).is_none());
            return fail(what, "absent", surplus.map_or("duplicated key", |(k, _)| k.as_str()));
        }
        Ok(())
    }

    fn same_value(&mut self, l: &AttrValue, r: &AttrValue) -> bool {
        match (l, r) {
            (AttrValue::Int(a), AttrValue::Int(b)) => a == b,
            (AttrValue::Float(a), AttrValue::Float(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
            (AttrValue::Bool(a), AttrValue::Bool(b)) => a == b,
            (AttrValue::Str(a), AttrValue::Str(b)) => a == b,
            (AttrValue::None, AttrValue::None) => true,
            (AttrValue::List(a), AttrValue::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| self.same_value(x, y))
            }
            (AttrValue::Dict(a), AttrValue::Dict(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((k, x), (j, y))| k == j && self.same_value(x, y))
            }
            (AttrValue::Expr(a), AttrValue::Expr(b)) | (AttrValue::Buffer(a), AttrValue::Buffer(b)) => {
                self.same(*a, *b)
            }
            (AttrValue::Region { data: a, ranges: x }, AttrValue::Region { data: b, ranges: y }) => {
                let same_range = |this: &mut Self, i: usize| this.same(x[i].0, y[i].0) && this.same(x[i].1, y[i].1);
                x.len() == y.len() && self.same(*a, *b) && (0..x.len()).all(|i| same_range(self, i))
            }
            (AttrValue::Target(a), AttrValue::Target(b)) => self.same_value(a, b),
            (AttrValue::Object(f, a), AttrValue::Object(g, b)) => {
                f == g && a.len() == b.len() && a.iter().zip(b).all(|(x, y)| self.same_value(x, y))
            }
            (AttrValue::IndexMap(v, a), AttrValue::IndexMap(w, b)) => {
                let bound = v.len() == w.len()
                    && v.iter().zip(w).all(|(&x, &y)| match (self.left.arena.as_var(x), self.right.arena.as_var(y)) {
                        (Some(x), Some(y)) => self.bind_var(x, y).is_ok(),
                        _ => false,
                    });
                bound && a.len() == b.len() && a.iter().zip(b).all(|(&x, &y)| self.same(x, y))
            }
            _ => false,
        }
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn stmt(&mut self, l: StmtId, r: StmtId) -> Same {
        self.stmt_inside(l, r).map_err(|d| d.inside(self.left.brief_stmt(l)))
    }

    fn stmt_inside(&mut self, l: StmtId, r: StmtId) -> Same {
        let (left, right) = (self.left, self.right);
        match (left.get(l), right.get(r)) {
            (Stmt::Loop(x), Stmt::Loop(y)) => {
                self.expr("first value", x.min, y.min)?;
                self.expr("extent", x.extent, y.extent)?;
                match (x.step, y.step) {
                    (Some(x), Some(y)) => self.expr("step", x, y)?,
                    (None, None) => {}
                    (Some(_), None) => return fail("step of the loop", "one", "none"),
                    (None, Some(_)) => return fail("step of the loop", "none", "one"),
                }
                if x.kind != y.kind {
                    return fail("kind of the loop", format!("{:?}", x.kind), format!("{:?}", y.kind));
                }
                self.bind_var(x.var, y.var)?;
                self.annotations("annotation", &x.annotations, &y.annotations, None)?;
                self.body("body", &x.body, &y.body)
            }
            (Stmt::Block(x), Stmt::Block(y)) => self.block(x, y),
            (Stmt::Store { buffer: a, indices: i, value: v }, Stmt::Store { buffer: b, indices: j, value: w }) => {
                self.buffer(*a, *b)?;
                self.list("indices", *i, *j)?;
                self.expr("value", *v, *w)
            }
            (Stmt::If { condition: c, then: t, otherwise: o }, Stmt::If { condition: d, then: u, otherwise: p }) => {
                self.expr("condition", *c, *d)?;
                self.body("body", t, u)?;
                self.body("else branch", o, p)
            }
            (Stmt::Let { var: v, value: a, body: s }, Stmt::Let { var: w, value: b, body: t }) => {
                self.expr("value", *a, *b)?;
                self.bind_var(*v, *w)?;
                self.body("body", s, t)
            }
            (Stmt::Evaluate(a), Stmt::Evaluate(b)) | (Stmt::Return(a), Stmt::Return(b)) => self.expr("value", *a, *b),
            (Stmt::Alloc { buffer: a, annotations: x }, Stmt::Alloc { buffer: b, annotations: y }) => {
                self.bind_buffer(*a, *b)?;
                self.annotations("annotation", x, y, None)
            }
            (Stmt::Declare { buffer: a, data: x }, Stmt::Declare { buffer: b, data: y }) => {
                self.expr("data", *x, *y)?;
                self.bind_buffer(*a, *b)
            }
            (Stmt::While { condition: c, body: s }, Stmt::While { condition: d, body: t }) => {
                self.expr("condition", *c, *d)?;
                self.body("body", s, t)
            }
            (Stmt::Break, Stmt::Break) | (Stmt::Continue, Stmt::Continue) => Ok(()),
            (Stmt::Assert(x), Stmt::Assert(y)) => {
                self.expr("condition", x.condition, y.condition)?;
                if (x.kind, &x.message) == (y.kind, &y.message) {
                    return Ok(());
                }
                let text = |a: &Assert| format!("{}: {}", a.kind, a.text());
                fail("message", text(x), text(y))
            }
            (Stmt::Attr(x), Stmt::Attr(y)) => {
                if x.key != y.key {
                    return fail("attribute", x.key, y.key);
                }
                if !self.same_value(&x.node, &y.node) {
                    return fail("node", value_text(left, &x.node), value_text(right, &y.node));
                }
                self.expr("value", x.value, y.value)?;
                self.body("body", &x.body, &y.body)
            }
            _ => fail("kind of statement", left.brief_stmt(l), right.brief_stmt(r)),
        }
    }

    fn block(&mut self, x: &Block, y: &Block) -> Same {
        if self.options.block_names && x.name != y.name {
            return fail("name of the block", x.name, y.name);
        }
        if x.iters.len() != y.iters.len() {
            return fail("number of block iterations", x.iters.len(), y.iters.len());
        }
        for (a, b) in x.iters.iter().zip(&y.iters) {
            let at = |d: Box<Difference>, f: &Func| d.inside(format!("iteration `{}`", f.arena.var(a.var).name));
            if a.kind != b.kind {
                return fail("kind", a.kind.name(), b.kind.name()).map_err(|d| at(d, self.left));
            }
            self.expr("first value", a.min, b.min)
                .and_then(|()| self.expr("extent", a.extent, b.extent))
                .and_then(|()| self.expr("binding", a.value, b.value))
                .and_then(|()| self.bind_var(a.var, b.var))
                .map_err(|d| at(d, self.left))?;
        }
        self.expr("predicate", x.predicate, y.predicate)?;
        self.bind_buffers("allocations", &x.allocs, &y.allocs)?;
        if x.matches.len() != y.matches.len() {
            return fail("number of matched buffers", x.matches.len(), y.matches.len());
        }
        for (a, b) in x.matches.iter().zip(&y.matches) {
            self.region("matched region", &a.source, &b.source)?;
            self.bind_buffer(a.buffer, b.buffer)?;
        }
        self.regions("reads", &x.reads, &y.reads)?;
        self.regions("writes", &x.writes, &y.writes)?;
        self.annotations("annotation", &x.annotations, &y.annotations, None)?;
        match (&x.init, &y.init) {
            (None, None) => {}
            (Some(a), Some(b)) => self.body("init", a, b)?,
            (a, b) => {
                let kind = |s: &Option<Body>| if s.is_some() { "present" } else { "absent" };
                return fail("init", kind(a), kind(b));
            }
        }
        self.body("body", &x.body, &y.body)
    }

    fn body(&mut self, what: &'static str, l: &Body, r: &Body) -> Same {
        for (&x, &y) in l.iter().zip(r) {
            self.stmt(x, y)?;
        }
        if l.len() != r.len() {
            let text = |f: &Func, body: &Body| body.iter().map(|&s| f.brief_stmt(s)).collect::<Vec<_>>().join("; ");
            return fail(what, text(self.left, l), text(self.right, r));
        }
        Ok(())
    }
}

/// Records that `l` and `r` correspond; false if one of them corresponds to something else already.
fn pair(table: &mut (Vec<u32>, Vec<u32>), l: usize, r: usize) -> bool {
    let (x, y) = (&mut table.0[l], &mut table.1[r]);
    if *x == UNKNOWN && *y == UNKNOWN {
        (*x, *y) = (r as u32, l as u32);
        return true;
    }
    *x == r as u32 && *y == l as u32
}

/// The bits of a float constant as a value of its type.
pub(super) fn float_bits(bits: u64, dtype: DType) -> u64 {
    let value = f64::from_bits(bits);
    if value.is_nan() {
        // Conversions need not keep the sign and payload of a NaN.
        return 0x7ff8_0000_0000_0000;
    }
    dtype.round(value).to_bits()
}

/// An offset that is not 0.
pub(super) fn offset(func: &Func, e: Option<ExprId>) -> Option<ExprId> {
    e.filter(|&e| !func.arena.is_int(e, 0))
}

/// The alignment in bytes, with the default filled in.
pub(super) fn alignment(align: u32) -> u32 {
    if align == 0 { 64 } else { align }
}

fn find(all: &Annotations, key: Symbol) -> Option<&AttrValue> {
    all.get(key).or_else(|| {
        let parts = key_parts(key.as_str());
        all.iter().find(|(k, _)| key_parts(k.as_str()) == parts).map(|(_, v)| v)
    })
}

fn value_text(func: &Func, value: &AttrValue) -> String {
    match value {
        AttrValue::Int(v) => v.to_string(),
        AttrValue::Float(v) => format!("{v:?}"),
        AttrValue::Bool(v) => if *v { "True" } else { "False" }.into(),
        AttrValue::Str(v) => format!("{v:?}"),
        AttrValue::None => "None".into(),
        AttrValue::List(items) => {
            format!("[{}]", items.iter().map(|v| value_text(func, v)).collect::<Vec<_>>().join(", "))
        }
        AttrValue::Dict(items) => {
            let items: Vec<String> = items.iter().map(|(k, v)| format!("{k:?}: {}", value_text(func, v))).collect();
            format!("{{{}}}", items.join(", "))
        }
        AttrValue::Expr(e) | AttrValue::Buffer(e) => func.arena.brief(*e).to_string(),
        AttrValue::Region { data, ranges } => {
            let range =
                |&(min, extent): &(ExprId, ExprId)| format!("{} + {}", func.arena.brief(min), func.arena.brief(extent));
            format!("{}[{}]", func.arena.brief(*data), ranges.iter().map(range).collect::<Vec<_>>().join(", "))
        }
        AttrValue::Target(target) => format!("T.target({})", value_text(func, target)),
        AttrValue::Object(kind, items) => {
            let items: Vec<String> = items.iter().map(|v| value_text(func, v)).collect();
            format!("{}({})", kind.name(), items.join(", "))
        }
        AttrValue::IndexMap(vars, results) => {
            let texts =
                |list: &[ExprId]| list.iter().map(|&e| func.arena.brief(e).to_string()).collect::<Vec<_>>().join(", ");
            format!("T.index_map(lambda {}: ({}))", texts(vars), texts(results))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::{matmul, padded_window, relu, tiled_matmul};
    use crate::ir::{BinOp, LoopKind, Substitution};

    fn check(left: &Func, right: &Func, expected: Result<(), &str>) {
        let found = Equality::default().funcs(left, right).map_err(|d| d.to_string());
        assert_eq!(found, expected.map_err(str::to_string));
        assert_eq!(Equality::default().funcs(right, left).is_ok(), expected.is_ok(), "equality is symmetric");
    }

    #[test]
    fn a_function_equals_itself_built_again() {
        check(&matmul(8, 8, 8, DType::Float32), &matmul(8, 8, 8, DType::Float32), Ok(()));
        check(&tiled_matmul(2), &tiled_matmul(2), Ok(()));
        check(&padded_window(9), &padded_window(9), Ok(()));
    }

    #[test]
    fn names_and_ids_do_not_count() {
        let f = padded_window(9);
        let mut g = f.clone();
        g.name = "other".into();
        for v in g.arena.var_ids() {
            g.arena.rename_var(v, "x");
        }
        for b in g.arena.buffer_ids() {
            g.arena.update_buffer(b, |b| b.name = "X".into());
        }
        // A copy of the first nest, with fresh ids for all bindings.
        let first = g.block(g.root).body[0];
        let copy = g.copy_subtree(first, &mut Substitution::default());
        g.replace(first, &[copy]);
        check(&f, &g, Ok(()));
    }

    #[test]
    fn differences_are_named_with_their_place() {
        let f = matmul(8, 8, 8, DType::Float32);
        check(
            &f,
            &matmul(8, 8, 4, DType::Float32),
            Err("parameter 0 > buffer `A`: shape differs: `8, 8` against `8, 4`"),
        );
        check(
            &f,
            &matmul(8, 8, 8, DType::Float64),
            Err("parameter 0 > buffer `A`: element type differs: `float32` against `float64`"),
        );
        check(&f, &relu(8, 8), Err("number of parameters differs: `3` against `2`"));

        let mut g = f.clone();
        let outer = g.as_loop(g.block(g.root).body[0]).expect("the body is a loop");
        g.loop_mut(outer).kind = LoopKind::Parallel;
        check(&f, &g, Err("block `root` > loop `i`: kind of the loop differs: `Serial` against `Parallel`"));

        let mut g = f.clone();
        g.attrs.insert("tirx.noalias", AttrValue::Int(1));
        check(&f, &g, Err("attribute `tirx.noalias`: value differs: `True` against `1`"));
        let mut g = f.clone();
        g.attrs.insert("more", AttrValue::Int(1));
        check(&f, &g, Err("attribute differs: `absent` against `more`"));

        let mut g = f.clone();
        let c = g.blocks()[0];
        let iters = &mut g.block_mut(c).iters;
        let (i, j) = (iters[0].value, iters[1].value);
        (iters[0].value, iters[1].value) = (j, i);
        check(
            &f,
            &g,
            Err(
                "block `root` > loop `i` > loop `j` > loop `k` > block `C` > iteration `vi`: binding differs: `i` against `j`",
            ),
        );
    }

    #[test]
    fn block_names_count_if_asked() {
        let f = relu(4, 4);
        let mut g = f.clone();
        let b = g.blocks()[0];
        g.block_mut(b).name = "other".into();
        assert!(Equality::default().funcs(&f, &g).is_err());
        assert!(Equality { block_names: false, fold: false }.funcs(&f, &g).is_ok());
    }

    #[test]
    fn prefixes_of_keys_are_one() {
        let f = matmul(4, 4, 4, DType::Float32);
        let mut g = f.clone();
        g.attrs.remove("tirx.noalias");
        g.attrs.insert("tir.noalias", AttrValue::Bool(true));
        g.attrs.insert("global_symbol", AttrValue::Str("main".into()));
        check(&f, &g, Ok(()));
    }

    #[test]
    fn folding_undoes_nodes_written_by_name() {
        let f = relu(4, 4);
        let mut g = f.clone();
        let b = g.blocks()[0];
        let value = g.block(b).iters[0].value;
        let zero = g.arena.int32(0);
        g.block_mut(b).iters[0].value = g.arena.binary_unfolded(BinOp::Add, value, zero);
        assert!(Equality::default().funcs(&f, &g).is_err());
        assert!(Equality { block_names: true, fold: true }.funcs(&f, &g).is_ok());
    }

    #[test]
    fn variables_correspond_one_to_one() {
        // i + i is not i + j, in either direction.
        let build = |same: bool| {
            let mut f = relu(4, 4);
            let b = f.blocks()[0];
            let (i, j) = (f.block(b).iters[0].value, f.block(b).iters[1].value);
            let sum = if same { f.arena.add(i, i) } else { f.arena.add(i, j) };
            f.block_mut(b).iters[0].value = sum;
            f
        };
        assert!(Equality::default().funcs(&build(true), &build(false)).is_err());
        assert!(Equality::default().funcs(&build(false), &build(true)).is_err());
    }

    #[test]
    fn let_expressions_are_scoped() {
        // The same let twice is equal to two lets with variables of their own.
        let build = |shared: bool| {
            let mut f = relu(4, 4);
            let b = f.blocks()[0];
            let i = f.block(b).iters[0].value;
            let make = |f: &mut Func| {
                let (v, e) = f.arena.new_var_expr("t", DType::Int32);
                let body = f.arena.mul(e, e);
                f.arena.let_(v, i, body)
            };
            let first = make(&mut f);
            let second = if shared { first } else { make(&mut f) };
            f.block_mut(b).iters[0].value = first;
            f.block_mut(b).iters[1].value = second;
            f
        };
        check(&build(true), &build(false), Ok(()));
    }

    #[test]
    fn modules_match_by_function_name() {
        let module = |names: [&str; 2]| {
            let mut m = Module::default();
            for name in names {
                let mut f = relu(4, name.len() as i64);
                f.name = name.into();
                m.funcs.push(f);
            }
            m
        };
        let equal = Equality::default();
        assert!(equal.modules(&module(["a", "bb"]), &module(["bb", "a"])).is_ok());
        let difference = equal.modules(&module(["a", "bb"]), &module(["a", "cc"])).unwrap_err();
        assert_eq!(difference.to_string(), "set of functions differs: `a, bb` against `a, cc`");
    }
}
