//! Implication: whether one condition follows from another.

use super::Analyzer;
use crate::ir::{Arena, BinOp, CmpOp, Expr, ExprId};
use smallvec::SmallVec;

/// The parts of a conjunction, in their order.
pub fn conjuncts(a: &Arena, condition: ExprId) -> SmallVec<[ExprId; 4]> {
    let mut parts = SmallVec::new();
    let mut open: SmallVec<[ExprId; 4]> = SmallVec::from_slice(&[condition]);
    while let Some(e) = open.pop() {
        match a.expr(e) {
            Expr::Binary(BinOp::And, x, y) => open.extend([y, x]),
            _ => parts.push(e),
        }
    }
    parts
}

/// Whether `wanted` follows from `given` and the facts of the analyzer. `false` if no proof is found.
pub fn implies(a: &mut Arena, analyzer: &mut Analyzer, given: ExprId, wanted: ExprId) -> bool {
    let mut premises = conjuncts(a, given);
    for n in 0..premises.len() {
        premises.extend(without_quotient(a, premises[n]));
    }
    conjuncts(a, wanted).into_iter().all(|part| {
        a.is_int(part, 1)
            || premises.contains(&part)
            || premises.iter().any(|&p| is_at_least(a, analyzer, p, part))
            || analyzer.with_constraint(a, given, |analyzer, a| analyzer.can_prove(a, part))
    })
}

/// The condition on `x` that `x // c < n` implies, for constants `c` and `n`.
fn without_quotient(a: &mut Arena, e: ExprId) -> Option<ExprId> {
    let Expr::Compare(CmpOp::Lt, quotient, n) = a.expr(e) else { return None };
    let Expr::Binary(BinOp::FloorDiv, x, c) = a.expr(quotient) else { return None };
    let (n, c) = (a.as_int(n)?, a.as_int(c).filter(|&c| c > 0)?);
    let end = a.int(n.checked_mul(c)?, a.dtype(x));
    Some(a.lt(x, end))
}

/// Whether an inequality is another one with a nonnegative amount added to its greater side.
fn is_at_least(a: &mut Arena, analyzer: &mut Analyzer, given: ExprId, wanted: ExprId) -> bool {
    let (Some(given), Some(wanted)) = (excess(a, given), excess(a, wanted)) else { return false };
    if a.dtype(given) != a.dtype(wanted) {
        return false;
    }
    let less = a.compare(CmpOp::Le, wanted, given);
    analyzer.can_prove(a, less)
}

/// The sum that an inequality of integers bounds by 0 from above.
fn excess(a: &mut Arena, e: ExprId) -> Option<ExprId> {
    let Expr::Compare(op, x, y) = a.expr(e) else { return None };
    if !a.dtype(x).is_index() {
        return None;
    }
    let (x, y, strict) = match op {
        CmpOp::Lt => (x, y, true),
        CmpOp::Le => (x, y, false),
        CmpOp::Gt => (y, x, true),
        CmpOp::Ge => (y, x, false),
        CmpOp::Eq | CmpOp::Ne => return None,
    };
    let difference = a.sub(x, y);
    Some(a.add_const(difference, i64::from(strict)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    #[test]
    fn sums_in_another_form() {
        let mut a = Arena::new();
        let mut analyzer = Analyzer::new();
        let (i, x) = a.new_var_expr("i", DType::Int32);
        let (j, y) = a.new_var_expr("j", DType::Int32);
        analyzer.bind_const(&mut a, i, 0, 5);
        analyzer.bind_const(&mut a, j, 0, 4);
        let (four, nine, seventeen, twenty) = (a.int32(4), a.int32(9), a.int32(17), a.int32(20));
        let scaled = a.mul(x, four);
        let sum = a.add(scaled, y);
        let swapped = a.add(y, scaled);
        let given = a.lt(sum, nine);
        let [same, weaker, stronger] = [nine, seventeen, four].map(|n| a.lt(swapped, n));
        assert!(implies(&mut a, &mut analyzer, given, same));
        assert!(implies(&mut a, &mut analyzer, given, weaker));
        assert!(!implies(&mut a, &mut analyzer, given, stronger));
        // A bound of a quotient bounds its dividend.
        let (three, twelve) = (a.int32(3), a.int32(12));
        let quotient = a.floor_div(sum, four);
        let (limited, wanted) = (a.lt(quotient, three), a.lt(swapped, twelve));
        assert!(implies(&mut a, &mut analyzer, limited, wanted));
        // A condition that follows from the ranges needs no premise.
        let always = a.lt(sum, twenty);
        let nothing = a.bool(true);
        assert!(implies(&mut a, &mut analyzer, nothing, always));
        let both = a.and(same, always);
        assert!(implies(&mut a, &mut analyzer, given, both));
        assert!(!implies(&mut a, &mut analyzer, always, both));
    }
}
