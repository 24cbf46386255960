//! Normalises loops: rewrites loops with other starts or steps as loops over 0, 1, 2, ….
//!
//! ```text
//! for i in range(2, 20, 3): S(i)
//! # is
//! for i in range(6): S(i * 3 + 2)
//! ```
//!
//! A step that is not constant must be positive when the loop is entered.

use super::expr::{ExprId, VarId};
use super::func::Func;
use super::op::CmpOp;
use super::scalar::int::floor_div;
use super::stmt::{Assert, Body, Loop, LoopId, Stmt};
use super::symbol::Symbol;
use super::visit::Substitution;
use std::borrow::Cow;

/// The Python exception for a step that is not positive.
pub(super) const STEP_ERROR: &str = "ValueError";

impl Func {
    /// The number of iterations of a loop, if it is a constant.
    pub fn n_iterations(&self, l: &Loop) -> Option<i64> {
        let extent = self.arena.as_int(l.extent)?;
        let Some(step) = l.step else { return Some(extent.max(0)) };
        let step = self.arena.as_int(step).filter(|&step| step > 0)?;
        floor_div(extent.max(0).checked_add(step - 1)?, step)
    }

    /// Rewrites a loop to count from 0 by 1; its body uses the old value of the variable.
    pub fn count_from_zero(&mut self, l: LoopId) {
        let Loop { var, min, extent, step, .. } = *self.loop_(l);
        let trips = self.trips(extent, step);
        let (name, dtype) = (self.arena.var(var).name, self.arena.var(var).dtype);
        let (count, mut value) = self.arena.new_var_expr(name, dtype);
        if let Some(step) = step {
            value = self.arena.mul(value, step);
        }
        if !self.arena.is_int(min, 0) {
            value = self.arena.add(value, min);
        }
        let zero = self.arena.int(0, dtype);
        let mut substitution = Substitution::of_vars([(var, value)]);
        for s in self.loop_(l).body.clone() {
            self.rewrite_subtree(s, &mut substitution);
        }
        let node = self.loop_mut(l);
        (node.var, node.min, node.extent, node.step) = (count, zero, trips, None);
    }

    fn trips(&mut self, extent: ExprId, step: Option<ExprId>) -> ExprId {
        let Some(step) = step else { return extent };
        let a = &mut self.arena;
        let last = a.add(extent, step);
        let last = a.add_const(last, -1);
        a.floor_div(last, step)
    }

    /// The message for a loop over `var` whose step is not positive.
    pub(super) fn step_message(&self, var: VarId) -> String {
        format!("the step of loop `{}` must be positive", self.arena.var(var).name)
    }

    /// The function with all its loops counting by 1. If a step is not constant, an assertion before the loop checks
    /// that it is positive.
    pub fn without_steps(&self) -> Cow<'_, Func> {
        let stepped = |f: &Func| -> Vec<LoopId> {
            let loops = f.subtree(f.root.stmt()).into_iter().filter_map(|s| f.as_loop(s));
            loops.filter(|&l| f.loop_(l).step.is_some()).collect()
        };
        let loops = stepped(self);
        if loops.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut func = self.clone();
        for l in loops {
            let Loop { var, step, .. } = *func.loop_(l);
            if let Some(step) = step.filter(|&step| func.arena.as_int(step).is_none()) {
                let one = func.arena.int(1, func.arena.dtype(step));
                let condition = func.arena.compare(CmpOp::Ge, step, one);
                let message = vec![Symbol::new(&func.step_message(var))];
                let assertion = Assert { condition, kind: STEP_ERROR.into(), message };
                let assertion = func.add(Stmt::Assert(Box::new(assertion)));
                let place = func.cut(l.stmt());
                func.insert_at(place, &Body::from_slice(&[assertion, l.stmt()]));
            }
            func.count_from_zero(l);
        }
        Cow::Owned(func)
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::samples::{relu, set_root};
    use crate::ir::{DType, Func, IterKind};

    /// A loop over `range(min, min + extent, step)` around a store.
    fn stepped(min: i64, extent: i64, step: i64) -> Func {
        let mut f = Func::new("main");
        let y = f.add_param("Y", DType::Float32, &[64]);
        let body = crate::ir::samples::nest(&mut f, "B", &[("i", 64, IterKind::Spatial)], |f, v| {
            let one = f.arena.float(1.0, DType::Float32);
            (None, crate::ir::samples::store(f, y, v, one))
        });
        set_root(&mut f, &[body]);
        let l = f.as_loop(f.block(f.root).body[0]).expect("a loop");
        let (min, extent, step) = (f.arena.int32(min), f.arena.int32(extent), f.arena.int32(step));
        let node = f.loop_mut(l);
        (node.min, node.extent, node.step) = (min, extent, Some(step));
        f
    }

    #[test]
    fn iterations_are_counted() {
        for (min, extent, step, expected) in [(2, 18, 3, 6), (0, 10, 3, 4), (0, 10, 20, 1), (0, 0, 2, 0), (5, -2, 2, 0)]
        {
            let f = stepped(min, extent, step);
            let l = f.as_loop(f.block(f.root).body[0]).expect("a loop");
            assert_eq!(f.n_iterations(f.loop_(l)), Some(expected));
            assert_eq!(expected, (0..extent).step_by(step as usize).count() as i64);
        }
    }

    #[test]
    fn steps_are_written_out() {
        let f = stepped(2, 18, 3);
        let plain = f.without_steps();
        let l = plain.as_loop(plain.block(plain.root).body[0]).expect("a loop");
        let node = plain.loop_(l);
        assert_eq!(
            (node.step, plain.arena.as_int(node.min), plain.arena.as_int(node.extent)),
            (None, Some(0), Some(6))
        );
        let binding = plain.block(plain.blocks()[0]).iters[0].value;
        assert_eq!(plain.arena.brief(binding).to_string(), "i * 3 + 2");
        assert!(matches!(relu(4, 4).without_steps(), std::borrow::Cow::Borrowed(_)));
    }
}
