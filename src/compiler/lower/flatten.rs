//! Replaces tokens by linear indices, and inserts checks for accesses that are not proved in bounds.

use super::LowerError;
use super::blocks::Draft;
use super::facts::Facts;
use super::place::Layout;
use super::view::{Digit, digit};
use crate::ir::BinOp;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{ExprMap, map_expr, map_operands};
use crate::loopir::{Affine, Body, Expr, ExprId, Failure, For, Kernel, Stmt, StmtId};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

/// Replaces all tokens.
pub(super) fn flatten(draft: Draft, layouts: &[Layout]) -> Result<Kernel, LowerError> {
    let body = draft.kernel.body;
    let mut flattener = Flattener {
        draft,
        layouts,
        linear: HashMap::default(),
        memo: ExprMap::default(),
        facts: Facts::default(),
        checked: HashSet::default(),
    };
    let mut out = Vec::new();
    flattener.body(body, &mut out);
    let mut kernel = flattener.draft.kernel;
    kernel.body = kernel.stmts.body(&out);
    Ok(kernel)
}

struct Flattener<'a> {
    draft: Draft,
    layouts: &'a [Layout],
    /// The linear index of each token.
    linear: HashMap<usize, ExprId, FxBuild>,
    memo: ExprMap,
    facts: Facts,
    /// Expressions of the statement whose accesses are checked, each with the condition under which it is evaluated.
    checked: HashSet<(ExprId, ExprId), FxBuild>,
}

impl Flattener<'_> {
    fn body(&mut self, body: Body, out: &mut Vec<StmtId>) {
        for i in 0..body.len() {
            let s = self.draft.kernel.stmts.list(body)[i];
            let stmt = self.draft.kernel.stmts.get(s);
            self.check_operands(stmt, out);
            let stmt = map_operands(stmt, |e| self.expr(e));
            let stmt = match stmt {
                Stmt::For(l) => {
                    self.forget_stored(l.body);
                    Stmt::For(For { body: self.list(l.body), ..l })
                }
                Stmt::While { running, body } => {
                    self.forget_stored(body);
                    Stmt::While { running, body: self.list(body) }
                }
                Stmt::If { condition, then, otherwise } => {
                    let n = self.facts.mark();
                    self.facts.learn(&mut self.draft.kernel.arena, &mut self.draft.ranges, condition, true);
                    let then = self.list(then);
                    self.facts.forget(n);
                    self.facts.learn(&mut self.draft.kernel.arena, &mut self.draft.ranges, condition, false);
                    let otherwise = self.list(otherwise);
                    self.facts.forget(n);
                    self.forget_stored(then);
                    self.forget_stored(otherwise);
                    Stmt::If { condition, then, otherwise }
                }
                Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => stmt,
            };
            if let Stmt::Store { buffer, .. } = stmt {
                self.facts.forget_buffer(&self.draft.kernel.arena, buffer);
            }
            // The statement occurs only at this place.
            self.draft.kernel.stmts.replace(s, stmt);
            out.push(s);
        }
    }

    /// Removes facts about elements to which the statements store.
    fn forget_stored(&mut self, body: Body) {
        let Flattener { draft, facts, .. } = self;
        draft.kernel.for_each_stmt(body, &mut |_, stmt| {
            if let Stmt::Store { buffer, .. } = stmt {
                facts.forget_buffer(&draft.kernel.arena, buffer);
            }
        });
    }

    fn list(&mut self, body: Body) -> Body {
        let mut out = Vec::with_capacity(body.len());
        self.body(body, &mut out);
        self.draft.kernel.stmts.body(&out)
    }

    // ---- indices -------------------------------------------------------------------------------------------

    fn expr(&mut self, e: ExprId) -> ExprId {
        // Tokens come first: their indices may contain tokens.
        self.tokens_in(e);
        let Flattener { draft, linear, memo, .. } = self;
        let token_vars = &draft.token_vars;
        map_expr(&mut draft.kernel.arena, e, memo, &mut |arena, e| {
            let token = token_vars.get(&arena.as_var(e)?)?;
            linear.get(token).copied()
        })
    }

    /// Computes the linear indices of all tokens in an expression.
    fn tokens_in(&mut self, e: ExprId) {
        if self.memo.contains_key(&e) {
            return;
        }
        let mut found: SmallVec<[usize; 4]> = SmallVec::new();
        crate::loopir::rewrite::for_each_expr(&self.draft.kernel.arena, e, &mut |e| found.extend(self.draft.token(e)));
        for token in found {
            if !self.linear.contains_key(&token) {
                let index = self.index_of(token);
                self.linear.insert(token, index);
            }
        }
    }

    fn index_of(&mut self, token: usize) -> ExprId {
        let (buffer, dims) = (self.draft.tokens[token].buffer, self.draft.tokens[token].dims.clone());
        let layout = &self.layouts[buffer.index()];
        let mut sum = Affine::constant(layout.offset);
        for (d, &index) in dims.iter().enumerate() {
            let index = self.expr(index);
            let index = Affine::of(&self.draft.kernel.arena, index).minus(&layout.bases[d]);
            let stride = layout.strides[d];
            for &(atom, c) in &index.terms {
                sum.add_term(atom, c.wrapping_mul(stride));
            }
            sum.constant = sum.constant.wrapping_add(index.constant.wrapping_mul(stride));
        }
        let sum = self.rejoin(sum);
        sum.to_expr(&mut self.draft.kernel.arena)
    }

    /// Merges adjacent parts of one counter: `f // 4 * 4 + f % 4` becomes `f`.
    fn rejoin(&mut self, mut sum: Affine) -> Affine {
        loop {
            let arena = &self.draft.kernel.arena;
            let parts: SmallVec<[(ExprId, i64, Digit); 4]> = sum
                .terms
                .iter()
                .filter_map(|&(atom, c)| Some((atom, c, digit(arena, &self.draft.ranges, atom)?)))
                .collect();
            let pair = parts.iter().find_map(|low| {
                let high = parts.iter().find(|high| {
                    let (l, h) = (&low.2, &high.2);
                    h.var == l.var && h.low == l.low * l.size && low.1.checked_mul(l.size) == Some(high.1)
                })?;
                Some((*low, *high))
            });
            let Some(((low_atom, c, low), (high_atom, high_c, high))) = pair else { return sum };
            sum.add_term(low_atom, c.wrapping_neg());
            sum.add_term(high_atom, high_c.wrapping_neg());
            let arena = &mut self.draft.kernel.arena;
            let counter = arena.var_expr(low.var);
            let from = self.draft.ranges.floor_div(arena, counter, low.low);
            let both = self.draft.ranges.floor_mod(arena, from, low.size * high.size);
            for &(atom, k) in &Affine::of(arena, both).terms {
                sum.add_term(atom, k.wrapping_mul(c));
            }
        }
    }

    // ---- proofs --------------------------------------------------------------------------------------------

    /// Inserts checks before a statement for its accesses that are not proved in bounds.
    fn check_operands(&mut self, stmt: Stmt, out: &mut Vec<StmtId>) {
        let always = self.draft.kernel.arena.bool(true);
        self.checked.clear();
        match stmt {
            Stmt::For(l) => self.check_expr(l.extent, always, out),
            Stmt::While { .. } => {}
            Stmt::If { condition, .. } | Stmt::Check { condition, .. } => self.check_expr(condition, always, out),
            Stmt::Let { value, .. } | Stmt::Set { value, .. } => self.check_expr(value, always, out),
            Stmt::Store { index, value, .. } => {
                self.check_expr(value, always, out);
                self.check_expr(index, always, out);
            }
        }
    }

    /// Checks the accesses of an expression that is evaluated if `path` holds.
    fn check_expr(&mut self, e: ExprId, path: ExprId, out: &mut Vec<StmtId>) {
        if self.checked.insert((e, path)) {
            self.check_new_expr(e, path, out);
        }
    }

    fn check_new_expr(&mut self, e: ExprId, path: ExprId, out: &mut Vec<StmtId>) {
        match self.draft.kernel.arena.expr(e) {
            Expr::Var(_) => {
                if let Some(token) = self.draft.token(e) {
                    self.check_access(token, path, out);
                }
            }
            Expr::Load(_, index) => self.check_expr(index, path, out),
            Expr::IfThenElse(c, t, o) => {
                self.check_expr(c, path, out);
                self.check_branch(c, true, t, path, out);
                self.check_branch(c, false, o, path, out);
            }
            Expr::Binary(op @ (BinOp::And | BinOp::Or), a, b) => {
                self.check_expr(a, path, out);
                self.check_branch(a, op == BinOp::And, b, path, out);
            }
            _ => {
                let mut children: SmallVec<[ExprId; 4]> = SmallVec::new();
                self.draft.kernel.arena.for_each_child(e, |c| children.push(c));
                children.into_iter().for_each(|c| self.check_expr(c, path, out));
            }
        }
    }

    fn check_branch(&mut self, condition: ExprId, holds: bool, e: ExprId, path: ExprId, out: &mut Vec<StmtId>) {
        let mut any = false;
        crate::loopir::rewrite::for_each_expr(&self.draft.kernel.arena, e, &mut |e| {
            any |= self.draft.token(e).is_some();
        });
        if !any {
            return;
        }
        let n = self.facts.mark();
        let condition = self.expr(condition);
        self.facts.learn(&mut self.draft.kernel.arena, &mut self.draft.ranges, condition, holds);
        let arena = &mut self.draft.kernel.arena;
        let taken = if holds { condition } else { arena.not(condition) };
        let path = arena.and(path, taken);
        self.check_expr(e, path, out);
        self.facts.forget(n);
    }

    fn check_access(&mut self, token: usize, path: ExprId, out: &mut Vec<StmtId>) {
        let (buffer, dims) = (self.draft.tokens[token].buffer, self.draft.tokens[token].dims.clone());
        for (d, &index) in dims.iter().enumerate() {
            self.check_expr(index, path, out);
            let layout = &self.layouts[buffer.index()];
            if layout.is_compacted[d] {
                continue;
            }
            let extent = layout.extents[d];
            let index = self.expr(index);
            let arena = &mut self.draft.kernel.arena;
            let extent = arena.index(extent);
            let inside = self.facts.unproved_bounds(arena, &mut self.draft.ranges, index, extent);
            if arena.as_int(inside) == Some(1) {
                continue;
            }
            let condition = if arena.as_int(path) == Some(1) {
                inside
            } else {
                let skipped = arena.not(path);
                arena.binary(BinOp::Or, skipped, inside)
            };
            out.push(self.draft.kernel.stmts.push(Stmt::Check { condition, failure: Failure::OutOfBounds { buffer } }));
        }
    }
}
