//! Boolean operators. `and` and `or` lean to the left; `not` moves inwards until an opposite takes it up.

use super::Simplifier;
use crate::arith::pattern::rules;
use crate::ir::expr::{Arena, Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};

/// Rules for `not x`.
pub(super) fn not(s: &mut Simplifier, e: ExprId) -> ExprId {
    // With floats, which may be NaN, `not x < y` is not `y <= x`.
    if let Expr::Not(inner) = s.arena.expr(e)
        && let Expr::Compare(op, x, _) = s.arena.expr(inner)
        && s.arena.dtype(x).is_float()
        && !matches!(op, CmpOp::Eq | CmpOp::Ne)
    {
        return e;
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "not-not": [not(not(x))] => x;
        "not-le": [not(le(x, y))] => lt(y, x);
        "not-ge": [not(ge(x, y))] => lt(x, y);
        "not-lt": [not(lt(x, y))] => le(y, x);
        "not-gt": [not(gt(x, y))] => le(x, y);
        "not-eq": [not(eq(x, y))] => ne(x, y);
        "not-ne": [not(ne(x, y))] => eq(x, y);
        "not-or": [not(or(x, y))] -> and(not(x), not(y));
        "not-and": [not(and(x, y))] -> or(not(x), not(y));
    }
    e
}

/// Rules for `x and y`.
pub(super) fn and(s: &mut Simplifier, e: ExprId) -> ExprId {
    if !compares_integers(s.arena, e) {
        return boolean_and(s, e);
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "and-opposites": [and(eq(x, y), ne(x, y)), and(ne(x, y), eq(x, y)), and(le(x, y), lt(y, x)),
            and(lt(y, x), le(x, y))] => Truth(false);
        "and-empty-1": [and(lt(x, c1), lt(c2, x)), and(lt(c2, x), lt(x, c1))] => Truth(false), if c2 + 1 >= c1;
        "and-empty-2": [and(lt(x, c1), le(c2, x)), and(le(c2, x), lt(x, c1)), and(le(x, c1), lt(c2, x)),
            and(lt(c2, x), le(x, c1))] => Truth(false), if c2 >= c1;
        "and-empty-3": [and(le(x, c1), le(c2, x)), and(le(c2, x), le(x, c1))] => Truth(false), if c2 > c1;
        "and-two-values": [and(eq(x, c1), eq(x, c2))] => and(eq(x, c1), Truth(c1 == c2));
        "and-value-excluded": [and(eq(x, c1), ne(x, c2)), and(ne(x, c2), eq(x, c1))] => and(eq(x, c1), Truth(c1 != c2));

        "and-parts": [and(eq(x / c2, c1), eq(x % c2, c3)), and(eq(x % c2, c3), eq(x / c2, c1))] -> eq(x, c1 * c2 + c3),
            if c2 != 0 && floor_mod(c3, c2) == c3;
        "and-quotient-1": [and(le(0, x - y * c1), lt(x - y * c1, c1)), and(lt(x - y * c1, c1), le(0, x - y * c1))]
            -> eq(y, x / c1), if c1 > 0;
        "and-quotient-2": [and(lt(c1, x - y * c1), le(x - y * c1, 0))] -> eq(y, x / c1), if c1 < 0;
        "and-quotient-3": [and(le(0, x + y * c2), lt(x + y * c2, c1)), and(lt(x + y * c2, c1), le(0, x + y * c2))]
            -> eq(y, x / c1), if c1 > 0 && c2 == -c1;

        "and-bound-of-mod-1": [and(lt(x, c1), lt(x % c2, c3))] -> and(lt(x, c1 - c2 + c3), lt(x % c2, c3)),
            if c2 > 0 && c3 < c2 && divides(c2, c1);
        "and-bound-of-mod-2": [and(lt(x, c1), lt(x % c2, c3))] -> and(lt(x, c1 - floor_mod(c1, c2) + c3), lt(x % c2, c3)),
            if c2 > 0 && c3 >= 0 && floor_mod(c1, c2) > c3;
        "and-bound-of-mod-3": [and(le(x, c1), lt(x % c2, c3))] -> and(lt(x, c1 + 1 - c2 + c3), lt(x % c2, c3)),
            if c2 > 0 && c3 < c2 && divides(c2, c1 + 1);
        "and-bound-of-mod-4": [and(le(x, c1), lt(x % c2, c3))]
            -> and(lt(x, c1 + 1 - floor_mod(c1, c2) + c3), lt(x % c2, c3)),
            if c2 > 0 && c3 >= 0 && floor_mod(c1 + 1, c2) > c3;
        "and-part-below": [and(eq(x / c2, c1), lt(x % c2, c3)), and(lt(x % c2, c3), eq(x / c2, c1))]
            -> and(le(c1 * c2, x), lt(x, c1 * c2 + c3)), if c2 > 0 && 0 <= c3 && c3 <= c2;
        "and-part-at-most": [and(eq(x / c2, c1), le(x % c2, c3)), and(le(x % c2, c3), eq(x / c2, c1))]
            -> and(le(c1 * c2, x), le(x, c1 * c2 + c3)), if c2 > 0 && 0 <= c3 && c3 < c2;
        "and-part-at-least": [and(eq(x / c2, c1), le(c3, x % c2)), and(le(c3, x % c2), eq(x / c2, c1))]
            -> and(le(c1 * c2 + c3, x), lt(x, (c1 + 1) * c2)), if c2 > 0 && 0 <= c3 && c3 < c2;
        "and-part-above": [and(eq(x / c2, c1), lt(c3, x % c2)), and(lt(c3, x % c2), eq(x / c2, c1))]
            -> and(lt(c1 * c2 + c3, x), lt(x, (c1 + 1) * c2)), if c2 > 0 && 0 <= c3 && c3 < c2;
    }
    boolean_and(s, e)
}

fn boolean_and(s: &mut Simplifier, e: ExprId) -> ExprId {
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "and-not": [and(x, not(x))] => Truth(false);
        "and-left": [and(x, and(y, z))] -> and(and(x, y), z);
    }
    e
}

/// Rules for `x or y`.
pub(super) fn or(s: &mut Simplifier, e: ExprId) -> ExprId {
    if compares_integers(s.arena, e) {
        rules! { s, e, [x y z u w] [c1 c2 c3] m;
            "or-opposites": [or(eq(x, y), ne(x, y)), or(ne(x, y), eq(x, y)), or(le(x, y), lt(y, x)),
                or(lt(y, x), le(x, y))] => Truth(true);
            "or-less-either-way": [or(lt(x, y), lt(y, x))] => ne(x, y);
            "or-all-1": [or(lt(x, c1), lt(c2, x)), or(lt(c2, x), lt(x, c1))] => Truth(true), if c2 < c1;
            "or-all-2": [or(le(x, c1), lt(c2, x)), or(lt(c2, x), le(x, c1)), or(lt(x, c1), le(c2, x)),
                or(le(c2, x), lt(x, c1))] => Truth(true), if c2 <= c1;
            "or-all-3": [or(le(x, c1), le(c2, x)), or(le(c2, x), le(x, c1))] => Truth(true), if c2 <= c1 + 1;
            "or-two-excluded": [or(ne(x, c1), ne(x, c2))] => or(ne(x, c1), Truth(c1 != c2));
            "or-value-excluded": [or(ne(x, c1), eq(x, c2)), or(eq(x, c2), ne(x, c1))] => or(ne(x, c1), Truth(c1 == c2));
            "or-at-most": [or(lt(x, y), eq(x, y)), or(lt(x, y), eq(y, x)), or(eq(x, y), lt(x, y)),
                or(eq(y, x), lt(x, y))] -> le(x, y);
        }
    }
    rules! { s, e, [x y z u w] [c1 c2 c3] m;
        "or-not": [or(x, not(x))] => Truth(true);
        "or-left": [or(x, or(y, z))] -> or(or(x, y), z);
    }
    e
}

/// Whether both sides, if they are comparisons, compare integers. Rules for integers fail for NaNs.
fn compares_integers(a: &Arena, e: ExprId) -> bool {
    let Expr::Binary(_, x, y) = a.expr(e) else { return false };
    let integer = |e| matches!(a.expr(e), Expr::Compare(_, x, _) if a.dtype(x).is_integer());
    integer(x) && integer(y)
}

/// The condition in the form of simplified conditions: opposites replace `not`, `>` and `>=`.
pub(in crate::arith) fn negation_normal(a: &mut Arena, e: ExprId) -> ExprId {
    match a.expr(e) {
        Expr::Compare(CmpOp::Ge, x, y) => a.compare(CmpOp::Le, y, x),
        Expr::Compare(CmpOp::Gt, x, y) => a.compare(CmpOp::Lt, y, x),
        Expr::Not(inner) => match a.expr(inner) {
            Expr::Not(x) => negation_normal(a, x),
            Expr::Binary(op @ (BinOp::And | BinOp::Or), x, y) => {
                let (x, y) = (a.not(x), a.not(y));
                let (x, y) = (negation_normal(a, x), negation_normal(a, y));
                if op == BinOp::Or { a.and(x, y) } else { a.or(x, y) }
            }
            // With floats, `not x < y` is not `y <= x`.
            Expr::Compare(op, x, y) if a.dtype(x).is_integer() || matches!(op, CmpOp::Eq | CmpOp::Ne) => match op {
                CmpOp::Lt => a.compare(CmpOp::Le, y, x),
                CmpOp::Le => a.compare(CmpOp::Lt, y, x),
                CmpOp::Gt => a.compare(CmpOp::Le, x, y),
                CmpOp::Ge => a.compare(CmpOp::Lt, x, y),
                CmpOp::Eq => a.compare(CmpOp::Ne, x, y),
                CmpOp::Ne => a.compare(CmpOp::Eq, x, y),
            },
            _ => e,
        },
        _ => e,
    }
}
