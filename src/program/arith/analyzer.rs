//! The analyzer: facts about variables and conditions, and the questions that they answer.
//!
//! An [`Analyzer`] belongs to one [`Arena`]: every call must pass the same one (or the same one grown). It learns
//! ranges and values of variables ([`Analyzer::bind`], [`Analyzer::bind_value`]) and conditions that hold in a scope
//! ([`Analyzer::with_constraint`]), and answers by simplifying, bounding and comparing expressions. Answers are
//! remembered by expression until more becomes known. Creating one costs almost nothing.
//!
//! An answer is sound: an expression and its simplification have the same value, and a proved condition holds, for all
//! values of the variables that agree with the facts, as long as index arithmetic (`int32`, `int64`) does not overflow
//! and nothing is divided by zero.
//!
//! Follows TVM's `analyzer.cc` (0.27).

use super::bound::{self, Bound};
use super::int_set::IntSet;
use super::memo::{self, Memo};
use super::modular::{self, Modular};
use super::rewrite::{Mode, Simplifier};
use super::transitive::Known;
use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::{BinOp, CmpOp};

/// How hard to try a proof.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Strength {
    /// Simplification and constant bounds.
    Default,
    /// Also relaxes variables over their ranges with symbolic ends (TVM's `kSymbolicBound`).
    SymbolicBound,
}

/// Facts about a variable.
#[derive(Clone, Copy)]
pub(super) struct VarInfo {
    /// Constant bounds; `None` if only the type or a condition bounds the variable.
    pub(super) bound: Option<Bound>,
    pub(super) modular: Modular,
    /// The simplified expression that the variable equals.
    pub(super) value: Option<ExprId>,
    /// The range to which the variable is bound, for relaxation.
    pub(super) set: Option<IntSet>,
}

impl VarInfo {
    const NOTHING: VarInfo = VarInfo { bound: None, modular: Modular::ANY, value: None, set: None };
}

/// Knowledge about integer variables, and conclusions from it.
pub struct Analyzer {
    pub(super) memo: Memo,
    /// The current state of knowledge, see [`memo`].
    pub(super) epoch: u32,
    var_ids: Vec<VarId>,
    var_infos: Vec<VarInfo>,
    /// Bounds of expressions that conditions state.
    pub(super) bound_facts: Vec<(ExprId, Bound)>,
    /// Conditions that hold, simplified, each also as the negation of its negation.
    pub(super) literals: Vec<ExprId>,
    /// Comparisons that follow from the ranges of variables.
    pub(super) range_knowns: Vec<Known>,
    /// Comparisons that follow from conditions.
    pub(super) knowns: Vec<Known>,
    /// Ranges of variables that conditions state.
    pub(super) set_facts: Vec<(VarId, IntSet)>,
    depth: u32,
    pub(super) nesting: [u8; 2],
    pub(super) peak: [u8; 2],
    pub(super) limit_hit: [bool; 2],
}

/// The lengths of the lists of facts before a constraint was entered.
pub(super) struct Scope {
    epoch: u32,
    bound_facts: usize,
    literals: usize,
    knowns: usize,
    set_facts: usize,
    modular: Option<(VarId, Modular)>,
}

/// Expressions nested deeper than this are left as they are, to bound the use of the stack.
const MAX_DEPTH: u32 = 192;

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Analyzer {
    fn drop(&mut self) {
        memo::give_back(std::mem::replace(&mut self.memo, Memo::new()));
    }
}

impl Analyzer {
    /// An analyzer that knows nothing.
    pub fn new() -> Self {
        let mut memo = memo::take();
        let epoch = memo.next_epoch();
        Analyzer {
            memo,
            epoch,
            var_ids: Vec::new(),
            var_infos: Vec::new(),
            bound_facts: Vec::new(),
            literals: Vec::new(),
            range_knowns: Vec::new(),
            knowns: Vec::new(),
            set_facts: Vec::new(),
            depth: 0,
            nesting: [0; 2],
            peak: [0; 2],
            limit_hit: [false; 2],
        }
    }

    // ---- knowledge -----------------------------------------------------------------------------------------

    pub(super) fn var(&self, v: VarId) -> Option<&VarInfo> {
        self.var_ids.iter().position(|&id| id == v).map(|i| &self.var_infos[i])
    }

    fn var_mut(&mut self, v: VarId) -> &mut VarInfo {
        let i = match self.var_ids.iter().position(|&id| id == v) {
            Some(i) => i,
            None => {
                self.var_ids.push(v);
                self.var_infos.push(VarInfo::NOTHING);
                self.var_ids.len() - 1
            }
        };
        &mut self.var_infos[i]
    }

    fn learn(&mut self) {
        self.epoch = self.memo.next_epoch();
    }

    /// Learns that `min <= var < min + extent`; later knowledge replaces earlier. A variable of extent 1 is its
    /// minimum, and simplification replaces it.
    pub fn bind(&mut self, a: &mut Arena, var: VarId, min: ExprId, extent: ExprId) {
        if a.is_int(extent, 1) {
            return self.bind_value(a, var, min);
        }
        let low = self.const_int_bound(a, min);
        let count = self.const_int_bound(a, extent);
        let bound = Bound::sum_of_range(low, count);
        let set = IntSet::from_range(a, min, extent);
        let constant = a.as_int(min).is_some() && a.as_int(extent).is_some();
        let v = a.var_expr(var);
        self.range_knowns.retain(|k| !k.mentions(v));
        *self.var_mut(var) = VarInfo { bound: Some(bound), set: Some(set), ..VarInfo::NOTHING };
        if !constant {
            // Constant ranges are better served by bounds.
            let end = a.add(min, extent);
            self.range_knowns.extend(Known::from_comparison(a, CmpOp::Ge, v, min));
            self.range_knowns.extend(Known::from_comparison(a, CmpOp::Lt, v, end));
        }
        self.learn();
    }

    /// Learns that `min <= var < min + extent` for constants.
    pub fn bind_const(&mut self, a: &mut Arena, var: VarId, min: i64, extent: i64) {
        let dtype = a.var(var).dtype;
        let (min, extent) = (a.int(min, dtype), a.int(extent, dtype));
        self.bind(a, var, min, extent);
    }

    /// Learns that `var` equals `value`, by which simplification replaces it.
    pub fn bind_value(&mut self, a: &mut Arena, var: VarId, value: ExprId) {
        let value = self.canonical_simplify(a, value);
        let value = self.rewrite_simplify(a, value);
        let bound = self.const_int_bound(a, value);
        let modular = self.modular_set(a, value);
        let set = self.int_set(a, value);
        let v = a.var_expr(var);
        self.range_knowns.retain(|k| !k.mentions(v));
        *self.var_mut(var) = VarInfo { bound: Some(bound), modular, value: Some(value), set: Some(set) };
        self.learn();
    }

    /// Learns constant bounds of a variable.
    pub fn bind_bound(&mut self, var: VarId, bound: Bound) {
        self.var_mut(var).bound = Some(bound);
        self.learn();
    }

    /// Learns that an extent is not negative, from which a bound of the variable in `scale * var + offset` follows
    /// (TVM's `MarkGlobalNonNegValue`).
    pub fn mark_non_negative(&mut self, a: &mut Arena, value: ExprId) {
        let mut offset = 0i64;
        let mut terms: Vec<(ExprId, bool)> = Vec::new();
        let mut stack = vec![(value, true)];
        while let Some((e, positive)) = stack.pop() {
            match a.expr(e) {
                Expr::Int(v) => offset = offset.saturating_add(if positive { v } else { v.saturating_neg() }),
                Expr::Binary(BinOp::Add, x, y) => stack.extend([(y, positive), (x, positive)]),
                Expr::Binary(BinOp::Sub, x, y) => stack.extend([(y, !positive), (x, positive)]),
                _ => terms.push((e, positive)),
            }
        }
        let &[(term, true)] = terms.as_slice() else { return };
        let (var, scale) = match a.expr(term) {
            Expr::Var(v) => (v, 1),
            Expr::Binary(BinOp::Mul, x, y) => match (a.as_var(x), a.as_int(y), a.as_int(x), a.as_var(y)) {
                (Some(v), Some(c), _, _) | (_, _, Some(c), Some(v)) => (v, c),
                _ => return,
            },
            _ => return,
        };
        if scale <= 0 || !a.var(var).dtype.is_index() {
            return;
        }
        // scale * var + offset >= 0
        let low = (-(offset as i128)).div_euclid(scale as i128) + i128::from(offset as i128 % scale as i128 != 0);
        let Ok(low) = i64::try_from(low) else { return };
        self.bind_bound(var, Bound::new(low, bound::POS_INF));
    }

    /// The sets of all variables that are bound.
    pub(super) fn domains(&self) -> Vec<(VarId, IntSet)> {
        let infos = self.var_ids.iter().zip(&self.var_infos);
        infos.filter_map(|(&v, info)| info.set.map(|set| (v, set))).collect()
    }

    /// Whether any fact about the variable is known.
    pub fn is_bound(&self, var: VarId) -> bool {
        self.var(var).is_some()
    }

    /// Calls `f` in a scope in which `condition` holds, and returns its result.
    pub fn with_constraint<R>(
        &mut self,
        a: &mut Arena,
        condition: ExprId,
        f: impl FnOnce(&mut Analyzer, &mut Arena) -> R,
    ) -> R {
        let scope = self.enter(a, condition);
        let result = f(self, a);
        self.leave(scope);
        result
    }

    /// Enters a scope in which `condition` holds; [`Analyzer::leave`] ends it.
    pub(super) fn enter(&mut self, a: &mut Arena, condition: ExprId) -> Scope {
        let mut scope = Scope {
            epoch: self.epoch,
            bound_facts: self.bound_facts.len(),
            literals: self.literals.len(),
            knowns: self.knowns.len(),
            set_facts: self.set_facts.len(),
            modular: None,
        };
        if a.as_int(condition).is_some() {
            return scope;
        }
        let mut parts = Vec::new();
        self.collect_conjuncts(a, condition, &mut parts);
        parts.retain(|&p| is_pure(a, p));
        let facts: Vec<_> = parts.iter().filter_map(|&p| bound::facts_of(a, p)).collect();
        let modular = modular::fact_of(a, condition).filter(|_| is_pure(a, condition));
        // Literal conditions are compared with simplified expressions, so they are simplified too.
        let simple = Simplifier::new(a, self, Mode::Rewrite).visit(condition);
        let mut simple_parts = Vec::new();
        self.collect_conjuncts(a, simple, &mut simple_parts);
        let mut literals = Vec::new();
        for p in simple_parts {
            if is_pure(a, p) && a.as_int(p).is_none() {
                literals.push(p);
                let opposite = a.not(p);
                let opposite = super::rewrite::negation_normal(a, opposite);
                literals.push(a.not(opposite));
            }
        }
        let knowns: Vec<Known> = parts.iter().filter_map(|&p| Known::from_condition(a, p)).collect();
        let sets: Vec<_> = parts.iter().flat_map(|&p| super::int_set::facts_of(a, p)).collect();
        self.bound_facts.extend(facts);
        self.literals.extend(literals);
        self.knowns.extend(knowns);
        self.set_facts.extend(sets);
        if let Some((v, set)) = modular {
            let info = self.var_mut(v);
            scope.modular = Some((v, info.modular));
            info.modular = info.modular.intersect(set);
        }
        self.learn();
        scope
    }

    /// Ends a scope; scopes end in the opposite order of their starts.
    pub(super) fn leave(&mut self, scope: Scope) {
        self.bound_facts.truncate(scope.bound_facts);
        self.literals.truncate(scope.literals);
        self.knowns.truncate(scope.knowns);
        self.set_facts.truncate(scope.set_facts);
        if let Some((v, modular)) = scope.modular {
            self.var_mut(v).modular = modular;
        }
        self.epoch = scope.epoch;
    }

    fn collect_conjuncts(&mut self, a: &mut Arena, e: ExprId, out: &mut Vec<ExprId>) {
        match a.expr(e) {
            Expr::Binary(BinOp::And, x, y) => {
                self.collect_conjuncts(a, x, out);
                self.collect_conjuncts(a, y, out);
            }
            Expr::Not(inner) => {
                if let Expr::Binary(BinOp::Or, x, y) = a.expr(inner) {
                    for side in [x, y] {
                        let opposite = a.not(side);
                        let opposite = self.rewrite_simplify(a, opposite);
                        self.collect_conjuncts(a, opposite, out);
                    }
                } else {
                    out.push(e);
                }
            }
            _ => out.push(e),
        }
    }

    // ---- questions -----------------------------------------------------------------------------------------

    /// The expression simplified, as TVM's `Analyzer::Simplify` does it by default.
    pub fn simplify(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        self.simplify_steps(a, e, 2)
    }

    /// The expression simplified by the canonical simplifier, then `steps` times by rules and canonical form in turn.
    pub fn simplify_steps(&mut self, a: &mut Arena, e: ExprId, steps: u32) -> ExprId {
        let mut result = self.canonical_simplify(a, e);
        for step in 0..steps {
            if a.as_int(result).is_some() {
                break;
            }
            result = if step % 2 == 0 { self.rewrite_simplify(a, result) } else { self.canonical_simplify(a, result) };
        }
        result
    }

    /// The expression simplified by rewrite rules.
    pub fn rewrite_simplify(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        let mut result = e;
        for _ in 0..2 {
            let next = Simplifier::new(a, self, Mode::Rewrite).visit(result);
            if next == result {
                break;
            }
            result = next;
        }
        result
    }

    /// The expression in canonical form: a sum of scaled splits of indices.
    pub fn canonical_simplify(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        Simplifier::new(a, self, Mode::Canonical).visit(e)
    }

    /// Whether the condition provably always holds.
    pub fn can_prove(&mut self, a: &mut Arena, condition: ExprId) -> bool {
        self.can_prove_with(a, condition, Strength::Default)
    }

    /// Whether the condition provably always holds, with this effort.
    pub fn can_prove_with(&mut self, a: &mut Arena, condition: ExprId, strength: Strength) -> bool {
        if let Some(v) = a.as_int(condition) {
            return v != 0;
        }
        let simple = self.simplify(a, condition);
        if a.as_int(simple).is_some_and(|v| v != 0) {
            return true;
        }
        if strength < Strength::SymbolicBound {
            return false;
        }
        let Expr::Compare(op, x, y) = a.expr(condition) else { return false };
        if !a.dtype(x).is_index() {
            return false;
        }
        let (difference, at_least) = match op {
            CmpOp::Lt => (a.sub(y, x), 1),
            CmpOp::Le => (a.sub(y, x), 0),
            CmpOp::Gt => (a.sub(x, y), 1),
            CmpOp::Ge => (a.sub(x, y), 0),
            CmpOp::Eq | CmpOp::Ne => return false,
        };
        let difference = self.simplify(a, difference);
        let Some(low) = self.int_set(a, difference).lower() else { return false };
        let low = self.simplify(a, low);
        self.const_int_bound(a, low).min >= at_least
    }

    /// Whether the two expressions are provably equal.
    pub fn can_prove_equal(&mut self, a: &mut Arena, x: ExprId, y: ExprId) -> bool {
        if x == y {
            return true;
        }
        if let (Some(x), Some(y)) = (a.as_int(x), a.as_int(y)) {
            return x == y;
        }
        if !a.dtype(x).is_integer() {
            return false;
        }
        let difference = a.sub(x, y);
        let zero = a.int(0, a.dtype(difference));
        let equal = a.compare(CmpOp::Eq, difference, zero);
        self.can_prove(a, equal)
    }

    /// Whether the expression is provably at least `value`.
    pub fn can_prove_greater_equal(&mut self, a: &mut Arena, e: ExprId, value: i64) -> bool {
        if let Some(v) = a.as_int(e) {
            return v >= value && a.dtype(e) != DType::UInt64;
        }
        let simple = self.rewrite_simplify(a, e);
        self.const_int_bound(a, simple).min >= value
    }

    /// Whether the expression is provably below `value`.
    pub fn can_prove_less(&mut self, a: &mut Arena, e: ExprId, value: i64) -> bool {
        if let Some(v) = a.as_int(e) {
            return v < value && a.dtype(e) != DType::UInt64;
        }
        let simple = self.rewrite_simplify(a, e);
        let max = self.const_int_bound(a, simple).max;
        max < value && max != bound::POS_INF
    }

    // ---- the stack -----------------------------------------------------------------------------------------

    /// Enters one more level of nesting; returns false at the maximum depth.
    pub(super) fn descend(&mut self) -> bool {
        if self.depth >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        true
    }

    /// Leaves a level that [`Analyzer::descend`] entered.
    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }
}

/// Whether the value depends on nothing but variables.
pub(super) fn is_pure(a: &Arena, e: ExprId) -> bool {
    match a.expr(e) {
        Expr::Load(..) => false,
        Expr::Int(_) | Expr::Var(_) => true,
        _ => {
            let mut pure = true;
            a.for_each_child(e, |c| pure = pure && is_pure(a, c));
            pure
        }
    }
}
