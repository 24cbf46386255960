//! Products as sets of factors, so that patterns need not know their order.

use crate::graph::function::ValueId;
use crate::graph::pass::rewrite::Rewriter;

/// A product: `coefficient * factors / divisors`.
pub(super) struct Product {
    /// The product of all scalars.
    pub(super) coefficient: f64,
    pub(super) factors: Vec<ValueId>,
    pub(super) divisors: Vec<ValueId>,
}

impl Product {
    /// The product that a value is, through multiplications, divisions and small powers that only it reads. Any value is a product of
    /// one factor.
    pub(super) fn of(rw: &Rewriter<'_>, v: ValueId) -> Product {
        let mut product = Product { coefficient: 1.0, factors: Vec::new(), divisors: Vec::new() };
        // Who reads the whole does not matter.
        if !product.opened(rw, v) {
            product.factors.push(v);
        }
        product
    }

    /// As [`Product::of`], for a value that only one call reads.
    pub(super) fn read_once(rw: &Rewriter<'_>, v: ValueId) -> Option<Product> {
        rw.has_uses(v, 1).then(|| Product::of(rw, v))
    }

    fn multiply(&mut self, rw: &Rewriter<'_>, v: ValueId) {
        match rw.scalar(v) {
            Some(value) => self.coefficient *= value,
            // What weights alone tell is one factor.
            None if rw.is_invariant(v) || !rw.has_uses(v, 1) || !self.opened(rw, v) => self.factors.push(v),
            None => {}
        }
    }

    fn divide(&mut self, rw: &Rewriter<'_>, v: ValueId) {
        match rw.scalar(v) {
            Some(value) => self.coefficient /= value,
            None => self.divisors.push(v),
        }
    }

    /// Multiplies by the operands of a product; `false` if the value is none.
    fn opened(&mut self, rw: &Rewriter<'_>, v: ValueId) -> bool {
        if let Some(args) = rw.defined_by(v, "square") {
            let x = args.args.first().and_then(|a| a.values().first());
            self.factors.extend(x.into_iter().flat_map(|&x| [x, x]));
            return true;
        }
        let operands = |name| rw.defined_by(v, name).and_then(|args| Some((args.value("x1")?, args.value("x2")?)));
        if let Some((a, b)) = operands("multiply") {
            self.multiply(rw, a);
            self.multiply(rw, b);
            return true;
        }
        if let Some((a, b)) = operands("divide") {
            self.multiply(rw, a);
            self.divide(rw, b);
            return true;
        }
        let power = operands("power").and_then(|(x, n)| Some((x, rw.scalar(n)?)));
        let Some((x, n)) = power.filter(|&(_, n)| n == 2.0 || n == 3.0) else { return false };
        self.factors.extend(vec![x; n as usize]);
        true
    }

    /// Whether there is nothing but a coefficient, up to rounding of the type's numbers, and so many factors.
    pub(super) fn is(&self, coefficient: f64, n_factors: usize, epsilon: f64) -> bool {
        is_close(self.coefficient, coefficient, epsilon) && self.factors.len() == n_factors && self.divisors.is_empty()
    }
}

/// Whether a product of a few rounded constants is a number.
pub(super) fn is_close(found: f64, expected: f64, epsilon: f64) -> bool {
    (found - expected).abs() <= 2.0 * epsilon * expected.abs()
}

/// The tensor and the scalar of a sum that only one call reads.
pub(super) fn plus_scalar(rw: &Rewriter<'_>, v: ValueId) -> Option<(ValueId, f64)> {
    let (a, b) = rw.operands_of(v, "add")?;
    match (rw.scalar(a), rw.scalar(b)) {
        (None, Some(value)) => Some((a, value)),
        (Some(value), None) => Some((b, value)),
        _ => None,
    }
}
