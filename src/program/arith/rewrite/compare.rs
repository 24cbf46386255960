//! Comparisons. Decidable comparisons become constants. Otherwise constants move to one side, common terms cancel, and
//! `<` is divided by a common factor.

use super::Simplifier;
use crate::arith::bound::{NEG_INF, POS_INF};
use crate::arith::modular::gcd;
use crate::arith::pattern::rules;
use crate::arith::transitive::Relation;
use crate::ir::expr::{Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};

/// Simplifies `e`, which is `x op y` with simplified operands.
pub(super) fn compare(s: &mut Simplifier, op: CmpOp, e: ExprId, x: ExprId, y: ExprId) -> ExprId {
    let is_index = s.arena.dtype(x).is_index();
    match op {
        CmpOp::Eq => equal(s, e),
        CmpOp::Lt => less(s, e),
        CmpOp::Ne => {
            if is_index {
                match s.relation(x, y) {
                    Relation::NE | Relation::GT | Relation::LT => return s.arena.bool(true),
                    Relation::EQ => return s.arena.bool(false),
                    Relation::GE => return less_of(s, y, x),
                    Relation::LE => return less_of(s, x, y),
                    _ => {}
                }
            }
            let same = s.arena.compare(CmpOp::Eq, x, y);
            let same = equal(s, same);
            opposite(s, same)
        }
        CmpOp::Le if s.arena.dtype(x).is_float() => e,
        CmpOp::Le => {
            // The rules for `<` come first: they know ways of rounding that a mere proof would miss.
            let above = less_of(s, y, x);
            let result = opposite(s, above);
            let Expr::Compare(CmpOp::Le, x, y) = s.arena.expr(result) else { return result };
            if !s.arena.dtype(x).is_index() {
                return result;
            }
            match s.relation(x, y) {
                Relation::LE | Relation::LT | Relation::EQ => s.arena.bool(true),
                Relation::GT => s.arena.bool(false),
                Relation::NE => less_of(s, x, y),
                Relation::GE => {
                    let same = s.arena.compare(CmpOp::Eq, x, y);
                    equal(s, same)
                }
                _ => result,
            }
        }
        // The visitor reverses these.
        CmpOp::Gt | CmpOp::Ge => e,
    }
}

fn opposite(s: &mut Simplifier, e: ExprId) -> ExprId {
    let e = s.arena.not(e);
    if s.arena.as_int(e).is_some() { e } else { super::logic::not(s, e) }
}

fn less_of(s: &mut Simplifier, x: ExprId, y: ExprId) -> ExprId {
    let e = s.arena.lt(x, y);
    if s.arena.as_int(e).is_some() { e } else { less(s, e) }
}

fn equal(s: &mut Simplifier, e: ExprId) -> ExprId {
    let Expr::Compare(CmpOp::Eq, a, b) = s.arena.expr(e) else { return e };
    if !s.arena.dtype(a).is_index() {
        // A NaN differs from itself; other values do not.
        return if a == b && !s.arena.dtype(a).is_float() { s.arena.bool(true) } else { e };
    }
    match s.relation(a, b) {
        Relation::EQ => return s.arena.bool(true),
        Relation::NE | Relation::GT | Relation::LT => return s.arena.bool(false),
        _ => {}
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "eq-constant-last": [eq(c1, x)] => eq(x, c1);
        "eq-sub-constant": [eq(x - c1, c2)] => eq(x, c2 + c1);
        "eq-mirrored": [eq(c1 - x, c2)] => eq(x, c1 - c2);
        "eq-add-constant": [eq(x + c1, c2)] => eq(x, c2 - c1);
        "eq-product-zero": [eq(x * y, 0)] -> or(eq(x, 0), eq(y, 0));
        "eq-same": [eq(x, x)] => Truth(true);
    }
    e
}

/// Rules for `x < y`.
fn less(s: &mut Simplifier, e: ExprId) -> ExprId {
    let Expr::Compare(CmpOp::Lt, a, b) = s.arena.expr(e) else { return e };
    if !s.arena.dtype(a).is_index() {
        return e;
    }
    match s.relation(a, b) {
        Relation::LT => return s.arena.bool(true),
        Relation::EQ | Relation::GT | Relation::GE => return s.arena.bool(false),
        _ => {}
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "lt-common-1": [lt(x + y, x + z), lt(x + y, z + x), lt(y + x, x + z), lt(y + x, z + x)] => lt(y, z);
        "lt-common-2": [lt(y - x, z - x)] => lt(y, z);
        "lt-common-3": [lt(x - y, x - z)] => lt(z, y);
        "lt-added": [lt(x, x + z), lt(x, z + x)] => lt(0, z);
        "lt-subtracted": [lt(x, x - z)] => lt(z, 0);

        "lt-scaled-1": [lt(x * c1, y * c1)] => lt(x, y), if c1 > 0;
        "lt-scaled-2": [lt(x * c1, y * c1)] => lt(y, x), if c1 < 0;
        "lt-scaled-constant-1": [lt(x * c2, c1)] => lt(x, (c1 - 1) / c2 + 1), if c1 > 0 && c2 > 0;
        "lt-scaled-constant-2": [lt(x * c2, c1)] => lt(x, c1 / c2), if c1 <= 0 && c2 > 0;
        "lt-scaled-constant-3": [lt(x * c2, c1)] => lt((c1 - 1) / c2 - 1, x), if c1 > 0 && c2 < 0;
        "lt-scaled-constant-4": [lt(x * c2, c1)] => lt(c1 / c2, x), if c1 <= 0 && c2 < 0;
        "lt-constant-scaled-1": [lt(c1, x * c2)] => lt((c1 + 1) / c2 - 1, x), if c1 < 0 && c2 > 0;
        "lt-constant-scaled-2": [lt(c1, x * c2)] => lt(c1 / c2, x), if c1 >= 0 && c2 > 0;
        "lt-constant-scaled-3": [lt(c1, x * c2)] => lt(x, (c1 + 1) / c2 + 1), if c1 < 0 && c2 < 0;
        "lt-constant-scaled-4": [lt(c1, x * c2)] => lt(x, c1 / c2), if c1 >= 0 && c2 < 0;

        "lt-tdiv-1": [lt(tdiv(x, c1), c2)] => lt(x, c1 * c2), if c1 > 0 && c2 > 0;
        "lt-tdiv-2": [lt(tdiv(x, c1), c2)] => lt(x, c1 * (c2 - 1) + 1), if c1 > 0 && c2 <= 0;
        "lt-tdiv-3": [lt(c1, tdiv(x, c2))] => lt((c1 + 1) * c2 - 1, x), if c1 >= 0 && c2 > 0;
        "lt-tdiv-4": [lt(c1, tdiv(x, c2))] => lt(c1 * c2, x), if c1 < 0 && c2 > 0;
        "lt-tdiv-back-1": [lt(tdiv(x, c1) * c1, x)] => lt(0, tmod(x, c1)), if c1 > 0;
        "lt-tdiv-back-2": [lt(tdiv(x, c1) * c1, x + y)] => lt(0, tmod(x, c1) + y), if c1 > 0;
        "lt-tdiv-back-3": [lt(tdiv(x, c1) * c1, x - y)] => lt(y, tmod(x, c1)), if c1 > 0;
        "lt-tdiv-back-4": [lt(tdiv(x + c2, c1) * c1, x)] => lt(c2, tmod(x + c2, c1)), if c1 > 0;
        "lt-tdiv-back-5": [lt(tdiv(x + c2, c1) * c1, x + y)] => lt(c2, tmod(x + c2, c1) + y), if c1 > 0;
        "lt-tdiv-back-6": [lt(tdiv(x + c2, c1) * c1, x - y)] => lt(y, tmod(x + c2, c1) + (-c2)), if c1 > 0;

        "lt-div-1": [lt(x / c1, c2)] => lt(x, c1 * c2), if c1 > 0;
        "lt-div-2": [lt(c1, x / c2)] => lt((c1 + 1) * c2 - 1, x), if c2 > 0;
        "lt-div-back-1": [lt((x / c1) * c1, x)] => lt(0, x % c1), if c1 > 0;
        "lt-div-back-2": [lt((x / c1) * c1, x + y)] => lt(0, x % c1 + y), if c1 > 0;
        "lt-div-back-3": [lt((x / c1) * c1, x - y)] => lt(y, x % c1), if c1 > 0;
        "lt-div-back-4": [lt(((x + c2) / c1) * c1, x)] => lt(c2, (x + c2) % c1), if c1 > 0;
        "lt-div-back-5": [lt(((x + c2) / c1) * c1, x + y)] => lt(c2, (x + c2) % c1 + y), if c1 > 0;
        "lt-div-back-6": [lt(((x + c2) / c1) * c1, x - y)] => lt(y, (x + c2) % c1 + (-c2)), if c1 > 0;

        "lt-min-left": [lt(min(x, y), z)] -> or(lt(x, z), lt(y, z));
        "lt-max-left": [lt(max(x, y), z)] -> and(lt(x, z), lt(y, z));
        "lt-min-right": [lt(z, min(x, y))] -> and(lt(z, x), lt(z, y));
        "lt-max-right": [lt(z, max(x, y))] -> or(lt(z, x), lt(z, y));

        "lt-constants-1": [lt(c1, x + c2), lt(c1 - x, c2)] -> lt(c1 - c2, x);
        "lt-constants-2": [lt(c1, c2 - x), lt(x + c1, c2)] -> lt(x, c2 - c1);
        "lt-constants-3": [lt(c1, x - c2)] -> lt(c1 + c2, x);
        "lt-constants-4": [lt(x - c2, c1)] -> lt(x, c1 + c2);
        "lt-mirrored-1": [lt(x, c1 - y)] -> lt(x + y, c1);
        "lt-mirrored-2": [lt(c1 - y, x)] -> lt(c1, x + y);
        "lt-constant-first-1": [lt(x, c1 + y)] -> lt(x - y, c1);
        "lt-constant-first-2": [lt(c1 + y, x)] -> lt(c1, x - y);
    }
    if let Some(merged) = merge_constants(s, a, b) {
        s.applied("lt-merge-constants");
        return s.again(merged);
    }
    let (p, q) = (s.analyzer.modular_set(s.arena, a), s.analyzer.modular_set(s.arena, b));
    let common = gcd(gcd(p.base, p.coeff), gcd(q.base, q.coeff));
    if common > 1 {
        s.applied("lt-common-factor");
        let c = s.arena.int(common, s.arena.dtype(a));
        let (a, b) = (s.arena.floor_div(a, c), s.arena.floor_div(b, c));
        let divided = s.arena.lt(a, b);
        return s.again(divided);
    }
    e
}

/// Moves the constants of `x + c < y + d` to one side.
fn merge_constants(s: &mut Simplifier, a: ExprId, b: ExprId) -> Option<ExprId> {
    let offset_of = |s: &Simplifier, e: ExprId| match s.arena.expr(e) {
        Expr::Binary(BinOp::Add, x, c) => s.arena.as_int(c).map_or((e, 0), |c| (x, c as i128)),
        Expr::Binary(BinOp::Sub, x, c) => s.arena.as_int(c).map_or((e, 0), |c| (x, -(c as i128))),
        _ => (e, 0),
    };
    let ((left, l), (right, r)) = (offset_of(s, a), offset_of(s, b));
    if l == 0 && r == 0 {
        return None;
    }
    let difference = r - l;
    let dtype = s.arena.dtype(a);
    let constant = |s: &mut Simplifier, value: i128| {
        let value = i64::try_from(value).ok()?;
        crate::arith::pattern::fits(value, dtype).then(|| s.arena.int(value, dtype))
    };
    match difference {
        0 => Some(s.arena.lt(left, right)),
        1 => Some(s.arena.compare(CmpOp::Le, left, right)),
        d if d < 0 && r != 0 => {
            let c = constant(s, -d)?;
            let left = s.arena.add(left, c);
            Some(s.arena.lt(left, right))
        }
        d if d > 0 && l != 0 => {
            let c = constant(s, d)?;
            let right = s.arena.add(right, c);
            Some(s.arena.lt(left, right))
        }
        _ => None,
    }
}

impl Simplifier<'_> {
    /// The possible relations between two expressions.
    pub(super) fn relation(&mut self, x: ExprId, y: ExprId) -> Relation {
        let difference = self.arena.sub(x, y);
        let relation = self.compare_to(difference, 0);
        if relation.is_decided() {
            return relation;
        }
        relation.and(self.analyzer.compare_by_knowns(self.arena, x, y))
    }

    /// The possible relations of an expression to a constant.
    pub(in crate::arith) fn compare_to(&mut self, e: ExprId, value: i64) -> Relation {
        let e = self.visit(e);
        if let Some(v) = self.arena.as_int(e) {
            return match v.cmp(&value) {
                std::cmp::Ordering::Equal => Relation::EQ,
                std::cmp::Ordering::Less => Relation::LT,
                std::cmp::Ordering::Greater => Relation::GT,
            };
        }
        let bound = self.analyzer.const_int_bound(self.arena, e);
        if bound.as_point() == Some(value) {
            Relation::EQ
        } else if bound.min > value && bound.min != NEG_INF {
            Relation::GT
        } else if bound.max < value && bound.max != POS_INF {
            Relation::LT
        } else if bound.min >= value && bound.min != NEG_INF {
            Relation::GE
        } else if bound.max <= value && bound.max != POS_INF {
            Relation::LE
        } else if value == 0 && self.analyzer.modular_set(self.arena, e).base != 0 {
            Relation::NE
        } else {
            Relation::UNKNOWN
        }
    }
}
