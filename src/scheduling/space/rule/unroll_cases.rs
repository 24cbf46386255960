//! # `unroll_cases`
//!
//! *When*: a block without reduction stores one of several values, chosen by its position along a short axis: the sums that a row of a constant
//! matrix makes. *What*: `reorder` moves the axis inside, next to the innermost loops that walk through contiguous elements together, and outside of
//! it each axis along which an operand was computed so; `unroll` writes out its iterations. *Why*: the values share what they read, which is
//! then loaded once, and no iteration has to choose.
//!
//! ```python
//! @T.prim_func
//! def before(X: T.Buffer((64, 98)), Y: T.Buffer((3, 64, 96))):
//!     for k, i, j in T.grid(3, 64, 96):
//!         with T.sblock("Y"):
//!             vk, vi, vj = T.axis.remap("SSS", [k, i, j])
//!             Y[vk, vi, vj] = T.Select(vk == 0, X[vi, vj] + X[vi, vj + 2], T.Select(vk == 1, X[vi, vj] - X[vi, vj + 2], X[vi, vj + 1]))
//!
//! # becomes
//!
//! @T.prim_func
//! def after(X: T.Buffer((64, 98)), Y: T.Buffer((3, 64, 96))):
//!     for i in range(64):
//!         for k in T.unroll(3):
//!             for j in range(96):
//!                 with T.sblock("Y"):
//!                     vk, vi, vj = T.axis.remap("SSS", [k, i, j])
//!                     Y[vk, vi, vj] = T.Select(vk == 0, X[vi, vj] + X[vi, vj + 2], T.Select(vk == 1, X[vi, vj] - X[vi, vj + 2], X[vi, vj + 1]))
//! ```
//!
//! # Implementation
//!
//! Unrolls the axis along which a block chooses among several values.
//!
//! ```text
//! for k in 6: for c, y, x: T[k, c, y, x] = select(k == 0, …, select(k == 1, …))
//! # becomes
//! for c: for k in unroll(6): for y, x: T[k, c, y, x] = …
//! ```
//!
//! The transforms of Winograd's convolution are two such blocks, one behind the other: with the axis of the first inside of the second as well, one
//! channel after the other is transformed as a whole.

use super::super::access::Access;
use super::super::analysis::{is_spatial, is_trivial_binding, live_block};
use super::super::cases::axis_of_cases;
use super::super::draft::Draft;
use super::super::reason::Reason;
use super::Rule;
use crate::ir::{BlockId, Func};
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::Scope;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

pub(crate) struct UnrollCases;

impl Rule for UnrollCases {
    fn name(&self) -> &'static str {
        "unroll_cases"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        let Some(order) = live_block(&draft.sch, block).and_then(|(f, b)| Order::of(draft.sch.func(f), b)) else {
            return Ok(vec![draft]);
        };
        let mut unrolled = draft.clone();
        // What a primitive refuses stays as it is.
        if order.carry_out(&mut unrolled.sch, block).is_err() {
            return Ok(vec![draft]);
        }
        unrolled.note_reason(block, Reason::Order);
        Ok(vec![unrolled])
    }
}

/// A new order of the loops of a block.
struct Order {
    /// Positions of the loops, from the outermost to the innermost.
    loops: Vec<usize>,
    /// Position of the loop over cases.
    cases: usize,
}

impl Order {
    fn of(func: &Func, block: BlockId) -> Option<Order> {
        if block == func.root || !is_spatial(func, block) || !is_trivial_binding(func, block) {
            return None;
        }
        let cases = axis_of_cases(func, block)?;
        let of_operands = cases_of_operands(func, block);
        let inner = contiguous_axes(func, block)?;
        if inner.contains(&cases) {
            return None;
        }
        let is_moved = |a: &usize| *a == cases || of_operands.contains(a) || inner.contains(a);
        let mut loops: Vec<usize> = (0..func.block(block).iters.len()).filter(|a| !is_moved(a)).collect();
        loops.extend(of_operands.iter().filter(|a| **a != cases && !inner.contains(a)));
        loops.push(cases);
        loops.extend(inner);
        Some(Order { loops, cases })
    }

    fn carry_out(&self, sch: &mut Schedule, block: Rv) -> Result<(), ScheduleError> {
        let loops = sch.get_loops(block)?;
        if !self.loops.is_sorted() {
            sch.reorder(&self.loops.iter().map(|&a| loops[a]).collect::<Vec<_>>())?;
        }
        sch.unroll(loops[self.cases])
    }
}

/// The axes that count the cases of an operand.
fn cases_of_operands(func: &Func, block: BlockId) -> Vec<usize> {
    let node = func.block(block);
    let scope = func.block_above(block.stmt()).unwrap_or(func.root);
    let mut found = Vec::new();
    for producer in Scope::of(func, scope).producers(func, block) {
        let Some(cases) = axis_of_cases(func, producer) else { continue };
        let [write] = &func.block(producer).writes[..] else { continue };
        let var = func.block(producer).iters[cases].var;
        let dim = func.arena.list(write.mins).iter().position(|&e| func.arena.as_var(e) == Some(var));
        for read in node.reads.iter().filter(|r| r.buffer == write.buffer) {
            let index = dim.and_then(|d| func.arena.as_var(func.arena.list(read.mins)[d]));
            found.extend(node.iters.iter().position(|i| Some(i.var) == index));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The longest run of innermost axes along which everything that the block accesses lies as along one axis, contiguous in the result.
fn contiguous_axes(func: &Func, block: BlockId) -> Option<Vec<usize>> {
    let node = func.block(block);
    let vars: Vec<_> = node.iters.iter().map(|i| i.var).collect();
    let [write] = &node.writes[..] else { return None };
    let written = Access::of(func, write, &vars)?;
    let accesses: Vec<Access> =
        node.reads.iter().chain([write]).map(|r| Access::of(func, r, &vars)).collect::<Option<_>>()?;
    let last = written.strides.iter().position(|&s| s == 1)?;
    let mut start = last;
    while let Some(outer) = start.checked_sub(1) {
        let n = func.arena.as_int(node.iters[start].extent)?;
        if !accesses.iter().all(|a| a.strides[outer] == n * a.strides[start]) {
            break;
        }
        start = outer;
    }
    Some((start..=last).collect())
}
