//! Indices as values: the counters of loops, and sums and products of them, converted to `int32`.
//!
//! ```text
//! for i in 8: Y[i * 64; 64] = cast(float32, cast(int32, ramp(i * 64, 1, 64)))
//! ```
//!
//! Indices have 64 bits, and are computed here with 32, which gives the low bits of the result. A counter that is computed with is in
//! all lanes of a register of its own, which grows by one with each iteration.

use super::RegionArg;
use super::build::{Builder, Pieces};
use super::code::{Elem, Inst, Op2, VReg, Width};
use crate::codegen::facts::{Reads, is_index_sum};
use crate::ir::{BinOp, Const, DType};
use crate::loopir::rewrite::{for_each_operand, mentions_var};
use crate::loopir::{Arena, Expr, ExprId, For};
use smallvec::SmallVec;

/// Whether the expression is an index, converted to `int32`.
pub(super) fn is_index(arena: &Arena, e: ExprId) -> bool {
    matches!(arena.expr(e), Expr::Cast(a) if arena.dtype(e) == DType::Int32 && is_index_sum(arena, a))
}

impl Builder<'_> {
    /// Starts to count the iterations of a loop, if its statements compute with their number.
    pub(super) fn start_counter(&mut self, l: &For) -> Option<VReg> {
        let mut is_read = false;
        let kernel = &*self.kernel;
        kernel.for_each_stmt(l.body, &mut |_, stmt| {
            for_each_operand(stmt, |e| {
                super::values(&kernel.arena, e, &mut |e| {
                    is_read |= is_index(&kernel.arena, e) && mentions_var(&kernel.arena, e, &mut |v| v == l.var);
                });
            });
        });
        if !is_read {
            return None;
        }
        let (zero, counter) = (self.constant(0, Elem::I32), self.fresh());
        self.push(Inst::Move { dst: counter, src: zero });
        self.counters.insert(l.var, counter);
        Some(counter)
    }

    /// Counts an iteration.
    pub(super) fn step_counter(&mut self, counter: VReg) -> Option<()> {
        let (one, width) = (self.constant(1, Elem::I32), Width::of_bytes(self.vector_bytes)?);
        self.push(Inst::Binary { op: Op2::Add, dst: counter, a: counter, b: one, elem: Elem::I32, width });
        Some(())
    }

    /// The low 32 bits of an index in `n` registers; of a scalar in all lanes of one.
    pub(super) fn index(&mut self, e: ExprId, n: usize) -> Option<Pieces> {
        // As a value, the same expression has lanes of 64 bits.
        let low = self.kernel.arena.cast(DType::Int32, e);
        if let Some(known) = self.known(low) {
            return Some(known);
        }
        let width = Width::of_bytes(self.vector_bytes)?;
        let lanes = self.vector_bytes / 4;
        let pieces = match self.kernel.arena.expr(e) {
            Expr::Int(v) => Pieces::from_elem(self.constant(u64::from(v as u32), Elem::I32), 1),
            Expr::Broadcast(a) => {
                let one = self.index(a, 1)?;
                Pieces::from_elem(one[0], n)
            }
            Expr::Ramp(first, step) => {
                let first = self.index(first, 1)?;
                let steps: SmallVec<[u32; 16]> = (0..lanes).map(|i| (i as i64).wrapping_mul(step) as u32).collect();
                let steps = self.table(steps);
                let further = self.constant(u64::from((lanes as i64).wrapping_mul(step) as u32), Elem::I32);
                let mut pieces = self.binary(Op2::Add, &first, &[steps], Elem::I32, width);
                while pieces.len() < n {
                    let last = pieces[pieces.len() - 1];
                    pieces.extend(self.binary(Op2::Add, &[last], &[further], Elem::I32, width));
                }
                pieces
            }
            _ if self.kernel.arena.lanes(e) == 1 && !self.depends_on_region(e) => {
                let slot = self.slot((None, e), RegionArg::Value(e));
                let dst = self.fresh();
                self.code.prologue.push(Inst::Arg { dst, slot, elem: Elem::I32 });
                let pieces = Pieces::from_elem(dst, 1);
                self.keep(low, pieces.clone());
                return Some(pieces);
            }
            Expr::Var(v) => return self.counters.get(&v).map(|&counter| Pieces::from_elem(counter, 1)),
            Expr::Binary(BinOp::Mul, a, b) if let Some(by) = self.power_of_two(b) => {
                let mut pieces = Pieces::new();
                for a in self.index(a, n)? {
                    let dst = self.fresh();
                    self.push(Inst::Shift { dst, a, left: true, by, width });
                    pieces.push(dst);
                }
                pieces
            }
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.index(a, n)?, self.index(b, n)?);
                self.binary(Op2::of(op, Elem::I32)?, &a, &b, Elem::I32, width)
            }
            _ => return None,
        };
        self.remember(low, pieces.clone());
        Some(pieces)
    }

    /// The logarithm of a constant in all lanes, if it is a power of two.
    fn power_of_two(&self, e: ExprId) -> Option<u8> {
        match self.kernel.arena.as_const(e)? {
            Const::Int(v) => (v > 0 && v < 1 << 31 && v.count_ones() == 1).then(|| v.trailing_zeros() as u8),
            Const::Float(_) => None,
        }
    }

    /// Whether a scalar depends on counters or values of the region, or on memory.
    fn depends_on_region(&mut self, e: ExprId) -> bool {
        self.reads_of(e) != Reads::Nothing || mentions_var(&self.kernel.arena, e, &mut |v| self.is_inside(v))
    }
}
