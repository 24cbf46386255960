//! Evaluates index expressions at a few points: with all loops at their start, and with one loop one step further or at
//! its end.
//!
//! The difference to the start is the stride of an access along each loop. This takes no symbolic work and is exact for
//! affine indices; for the divisions and remainders of fused loops it gives what matters most.

use crate::ir::expr::{Arena, Expr, ExprId, VarId};
use crate::ir::op::BinOp;

/// Maximum number of points: the start, and two per loop.
pub(super) const MAX_POINTS: usize = 64;
/// Maximum number of loops.
pub(super) const MAX_LOOPS: usize = (MAX_POINTS - 1) / 2;

/// The values of an expression at all points.
pub(super) type Row = [i64; MAX_POINTS];

/// Values of variables at the points of a nest.
#[derive(Default)]
pub(super) struct Points {
    n_loops: usize,
    vars: Vec<(VarId, Row)>,
}

impl Points {
    /// The points of loops `(variable, first value, iterations)`, outermost first; at most [`MAX_LOOPS`].
    pub(super) fn new(loops: &[(VarId, i64, i64)]) -> Points {
        let n_loops = loops.len().min(MAX_LOOPS);
        let mut points = Points { n_loops, vars: Vec::with_capacity(2 * n_loops) };
        for (i, &(var, min, extent)) in loops.iter().take(n_loops).enumerate() {
            let mut row = [min; MAX_POINTS];
            row[1 + i] = min + (extent - 1).min(1);
            row[1 + n_loops + i] = min + extent - 1;
            points.vars.push((var, row));
        }
        points
    }

    /// Binds a variable to an expression.
    pub(super) fn bind(&mut self, arena: &Arena, var: VarId, value: ExprId) {
        let row = self.eval(arena, value);
        self.vars.push((var, row));
    }

    /// Binds a variable to a constant.
    pub(super) fn fix(&mut self, var: VarId, value: i64) {
        self.vars.push((var, [value; MAX_POINTS]));
    }

    /// The change of an expression in one step of loop `i`.
    pub(super) fn step(&self, row: &Row, i: usize) -> i64 {
        row[1 + i].wrapping_sub(row[0])
    }

    /// The change of an expression from the start of loop `i` to its end.
    pub(super) fn span(&self, row: &Row, i: usize) -> i64 {
        row[1 + self.n_loops + i].wrapping_sub(row[0])
    }

    /// The values of an integer expression; 0 for loads and unknown variables.
    pub(super) fn eval(&self, arena: &Arena, e: ExprId) -> Row {
        match arena.expr(e) {
            Expr::Int(v) => [v; MAX_POINTS],
            Expr::Var(v) => {
                self.vars.iter().rev().find(|(known, _)| *known == v).map_or([0; MAX_POINTS], |(_, row)| *row)
            }
            Expr::Binary(op, a, b) => {
                let mut x = self.eval(arena, a);
                // Most operands are constants.
                if let Some(c) = arena.as_int(b) {
                    self.each(&mut x, |x, _| apply(op, x, c));
                } else {
                    let y = self.eval(arena, b);
                    self.each(&mut x, |x, i| apply(op, x, y[i]));
                }
                x
            }
            Expr::Cast(a) => self.eval(arena, a),
            Expr::Select(_, a, _) | Expr::IfThenElse(_, a, _) => self.eval(arena, a),
            Expr::Float(_)
            | Expr::Str(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Load(..)
            | Expr::BufferData(_)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => [0; MAX_POINTS],
            // The value of the first lane.
            Expr::Ramp(a, _) | Expr::Broadcast(a) => self.eval(arena, a),
        }
    }

    fn each(&self, row: &mut Row, f: impl Fn(i64, usize) -> i64) {
        for (i, x) in row[..1 + 2 * self.n_loops].iter_mut().enumerate() {
            *x = f(*x, i);
        }
    }
}

fn apply(op: BinOp, x: i64, y: i64) -> i64 {
    match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div => x.checked_div(y).unwrap_or(0),
        BinOp::Mod => x.checked_rem(y).unwrap_or(0),
        BinOp::FloorDiv => x.checked_div_euclid(y).unwrap_or(0),
        BinOp::FloorMod => x.checked_rem_euclid(y).unwrap_or(0),
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::And | BinOp::Or => 0,
    }
}
