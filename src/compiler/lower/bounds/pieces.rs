//! Expressions that use a rounded value more than once.
//!
//! Each use of a value stands for its whole interval, so that the interval of `x - x` is twice as wide as that of `x`.
//! The interval is cut into pieces, the expression is evaluated over each piece, and the results are united: the error
//! shrinks with the width of a piece, and the result still contains every correct value.
//!
//! ```text
//! Y[i] = X[i] / (1 + abs(X[i]))
//! // becomes
//! least = inf; greatest = -inf
//! for p in PIECES {
//!     let a = (the start of piece p of X[i]); let b = (its end)
//!     least = min(least, (least of [a, b] / (1 + abs([a, b])))); greatest = max(greatest, …)
//! }
//! ```

use super::Bounder;
use super::values::{Interval, Values};
use crate::ir::expr::FxBuild;
use crate::ir::{CmpOp, DType};
use crate::loopir::rewrite::for_each_value;
use crate::loopir::{Expr, ExprId, For, Stmt, StmtId, Ty};
use hashbrown::HashMap;

/// Number of pieces of an interval.
const PIECES: i64 = 16;
/// Maximum number of nodes of an expression evaluated over pieces; larger ones are evaluated once.
const MAX_NODES: usize = 400;

impl Bounder<'_> {
    /// Evaluates an expression over pieces of the value that it uses most often, if there is one. Statements go to
    /// `out`.
    pub(super) fn value(&mut self, e: ExprId, out: &mut Vec<StmtId>) -> Interval {
        let Some(leaf) = self.used_again(e) else { return self.expr(e) };
        let (whole, at_once) = (self.expr(leaf), self.expr(e));
        if whole.is_point() || at_once.is_point() {
            return at_once;
        }
        let dtype = self.to.arena.dtype(at_once.lo);
        let float = Ty::scalar(DType::Float64);
        let named = |this: &mut Self, name, ty, value, out: &mut Vec<StmtId>| {
            let var = this.to.arena.new_var(name, ty);
            out.push(this.to.stmts.push(Stmt::Let { var, value }));
            this.to.arena.var_expr(var)
        };
        let (first, last) = (named(self, "first", float, whole.lo, out), named(self, "last", float, whole.hi, out));
        let ty = Ty::scalar(dtype);
        let (least, greatest) = (self.to.arena.new_local("least", ty), self.to.arena.new_local("greatest", ty));
        let nothing = self.nothing(dtype);
        out.push(self.to.stmts.push(Stmt::Set { local: least, value: nothing.lo }));
        out.push(self.to.stmts.push(Stmt::Set { local: greatest, value: nothing.hi }));

        // If the value is a point at run time, it has one piece.
        let (is_point, one) = (self.to.arena.compare(CmpOp::Eq, first, last), self.to.arena.index(1));
        let all = self.to.arena.index(PIECES);
        let extent = self.to.arena.select(is_point, one, all);
        let (var, p) = self.to.arena.new_index("p");
        let next = self.to.arena.add_const(p, 1);
        let mut inner = Vec::new();
        let start = self.cut(first, last, p);
        let end = self.cut(first, last, next);
        let piece = Interval {
            lo: named(self, "start", float, start, &mut inner),
            hi: named(self, "end", float, end, &mut inner),
        };
        let before = (self.pinned.replace((leaf, piece)), std::mem::take(&mut self.memo));
        let found = self.expr(e);
        (self.pinned, self.memo) = before;
        let so_far = Interval { lo: self.to.arena.local_expr(least), hi: self.to.arena.local_expr(greatest) };
        let hull = Values(&mut self.to.arena).hull(found, so_far);
        inner.push(self.to.stmts.push(Stmt::Set { local: least, value: hull.lo }));
        inner.push(self.to.stmts.push(Stmt::Set { local: greatest, value: hull.hi }));
        let body = self.to.stmts.body(&inner);
        out.push(self.to.stmts.push(Stmt::For(For::serial(var, extent, body))));
        // Registers change later; the names keep these values.
        let (lo, hi) = (self.to.arena.local_expr(least), self.to.arena.local_expr(greatest));
        Interval { lo: named(self, "lowest", ty, lo, out), hi: named(self, "highest", ty, hi, out) }
    }

    /// An empty interval, the neutral element of the hull.
    fn nothing(&mut self, dtype: DType) -> Interval {
        let arena = &mut self.to.arena;
        if dtype.is_float() {
            return Interval { lo: arena.float(f64::INFINITY, dtype), hi: arena.float(f64::NEG_INFINITY, dtype) };
        }
        let (least, greatest) = (dtype.min_value().unwrap_or(i64::MIN), dtype.max_value().unwrap_or(i64::MAX));
        Interval { lo: arena.int(greatest, dtype), hi: arena.int(least, dtype) }
    }

    /// The start of piece `p`: `first + p / PIECES * (last - first)`. An interval without finite ends lies in the first
    /// piece.
    fn cut(&mut self, first: ExprId, last: ExprId, p: ExprId) -> ExprId {
        let arena = &mut self.to.arena;
        let p_float = arena.cast(DType::Float64, p);
        let share = arena.float(1.0 / PIECES as f64, DType::Float64);
        let share = arena.mul(p_float, share);
        let width = arena.sub(last, first);
        let offset = arena.mul(width, share);
        let at = arena.add(first, offset);
        // Comparisons with NaN are false: the end of the interval is taken.
        let is_inside = arena.compare(CmpOp::Lt, at, last);
        let all = arena.index(PIECES);
        let is_last = arena.compare(CmpOp::Ge, p, all);
        let at = arena.select(is_inside, at, last);
        let at = arena.select(is_last, last, at);
        let (zero, is_known) = (arena.index(0), arena.compare(CmpOp::Eq, last, last));
        let is_first = arena.compare(CmpOp::Eq, p, zero);
        let at = arena.select(is_first, first, at);
        // An unknown end stays unknown.
        let nan = arena.float(f64::NAN, DType::Float64);
        arena.select(is_known, at, nan)
    }

    /// The rounded float that an expression uses most often, if it is used more than once.
    fn used_again(&mut self, e: ExprId) -> Option<ExprId> {
        let arena = &self.from.arena;
        let mut nodes = Vec::new();
        for_each_value(arena, e, &mut |node| nodes.push(node));
        if nodes.len() > MAX_NODES {
            return None;
        }
        // Count paths from the root to each node, users first: operands have smaller ids than their users.
        nodes.sort_unstable();
        let mut paths: HashMap<ExprId, u32, FxBuild> = HashMap::default();
        paths.insert(e, 1);
        for &node in nodes.iter().rev() {
            let n = paths.get(&node).copied().unwrap_or(0);
            // Uses in an index affect the position, not the value.
            if !matches!(arena.expr(node), Expr::Load(..)) {
                arena.for_each_child(node, |operand| {
                    let paths = paths.entry(operand).or_default();
                    *paths = paths.saturating_add(n);
                });
            }
        }
        let is_rounded = |node: ExprId| match arena.expr(node) {
            Expr::Load(b, _) => self.exactness.is_rounded(b),
            Expr::Var(v) => self.exactness.is_rounded_var(v),
            _ => false,
        };
        let again = |&node: &ExprId| {
            let n = paths.get(&node).copied().unwrap_or(0);
            (n > 1 && arena.dtype(node).is_float() && is_rounded(node)).then_some((n, node))
        };
        nodes.iter().filter_map(again).max_by_key(|&(n, node)| (n, std::cmp::Reverse(node))).map(|(_, node)| node)
    }
}
