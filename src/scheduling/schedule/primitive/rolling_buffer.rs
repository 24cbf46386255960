//! # `rolling_buffer`
//!
//! Reduces a buffer to a sliding window, and computes only the new part of each window.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(34), C: T.Buffer(32)):
//!     B = T.sblock_alloc_buffer(34)
//!     for i_0 in range(8):
//!         for ax0 in range(6):
//!             with T.sblock("B"):
//!                 vi = T.axis.spatial(34, i_0 * 4 + ax0)
//!                 B[vi] = A[vi] * 2.0
//!         for i_1 in range(4):
//!             with T.sblock("C"):
//!                 vi = T.axis.spatial(32, i_0 * 4 + i_1)
//!                 C[vi] = B[vi] + B[vi + 2]
//!
//! def steps(sch):
//!     sch.rolling_buffer("B", 0)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((34,)), C: T.Buffer((32,))):
//!     B = T.sblock_alloc_buffer((6,))
//!     for i_0 in range(8):
//!         for ax0 in range(6):
//!             with T.sblock("B"):
//!                 vi = T.axis.opaque(34, i_0 * 4 + ax0)
//!                 T.where(i_0 < 1 or 2 <= ax0)
//!                 B[vi % 6] = A[vi] * T.float32(2.0)
//!         for i_1 in range(4):
//!             with T.sblock("C"):
//!                 vi = T.axis.opaque(32, i_0 * 4 + i_1)
//!                 C[vi] = B[vi % 6] + B[(vi + 2) % 6]
//! ```
//!
//! * Requires: a common loop with the consumers, which read only what the block writes; not an output; reads only after
//!   writes; a moving, overlapping window; serial enclosing loops.
//! * Errors: `OutputBlockError`, `NotRegionCoverError`, `RollingBufferDependencyError`, `RollingBufferInsertionError`,
//!   `RollingBufferMatchError`.
//! * Handles: persists: all. Buffers of a chain are rolled one after the other, in any order.
//! * Refused, though TVM accepts it: enclosing loops that are not serial, whose iterations would share the window;
//!   stores at indices other than the first iteration variables.
//!
//! # Implementation
//!
//! Stores only a window of a buffer, and does not recompute elements that are still in the window.
//!
//! ```text
//! for i_0 in range(8):
//!     for ax0 in range(6):
//!         with T.block("B"): B[vi] = A[vi] * 2            # vi = i_0 * 4 + ax0, B: (34,)
//!     for i_1 in range(4):
//!         with T.block("C"): C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
//! # becomes
//! for i_0 in range(8):
//!     for ax0 in range(6):
//!         with T.block("B"):                              # B: (6,)
//!             T.where(i_0 < 1 or 2 <= ax0)
//!             B[vi % 6] = A[vi] * 2
//!     for i_1 in range(4):
//!         with T.block("C"): C[vi] = B[vi % 6] + B[(vi + 1) % 6] + B[(vi + 2) % 6]
//! ```
//!
//! The outermost loop that moves a self-overlapping window is rolled. As in TVM, the iteration variable at that
//! position of every block in the scope becomes opaque, since iterations now depend on each other.
//!
//! Requires: the block is not an output, has only read-after-write dependences, and writes all elements that its
//! consumers read; the block and its consumers are under a common loop; the block writes an element at its first
//! iteration variables; all enclosing loops are serial. (TVM does not check the last two.) The producers of the block
//! may be rolled already. Preserves: the elements that consumers read. Returns: nothing.
//!
//! Handles: persist.

use super::super::analysis::block_class::require_not_output;
use super::super::analysis::dependence::{DepKind, Scope};
use super::super::analysis::guard::predicate_follows;
use super::super::analysis::relayout::restate_regions;
use super::super::analysis::tree::{self, common_ancestor, require_scope};
use super::super::analysis::update_scope_info;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::compute_inline::require_no_view;
use crate::arith::Analyzer;
use crate::arith::int_set::{self, IntSet};
use crate::ir::visit::walk_rewrite;
use crate::ir::{
    Arena, BinOp, BlockId, BufferId, CmpOp, Expr, ExprId, ExprList, Func, IterKind, LoopKind, Rewriter, Stmt, StmtId,
    Substitution, VarId,
};
use smallvec::SmallVec;

/// `rolling_buffer(block, write_buffer_index)`.
pub(crate) static ROLLING_BUFFER: Kind = Kind {
    name: "RollingBuffer",
    method: "rolling_buffer",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::attr("write_buffer_index", Ty::BufferIndex)],
    outputs: Outputs::None,
    samples: false,
    run,
};

/// The result of the checks.
struct WindowPlan {
    block: BlockId,
    scope: BlockId,
    buffer: BufferId,
    axis: usize,
    /// Length of the window.
    window: ExprId,
    predicate: ExprId,
}

/// The movement of a window along an axis.
struct Motion {
    var: VarId,
    overlap: i64,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let index = call.buffer_index(1, func, block, Access::Write)?;
    let state = call.state(func);
    let plan = check(state, block, index)?;
    apply(state, plan);
    Ok(Outcome::none())
}

fn check(state: &mut State, block: BlockId, index: usize) -> Result<WindowPlan, ScheduleError> {
    let scope = require_scope(state, block, false)?;
    let region = state.func.block(block).writes[index];
    let buffer = region.buffer;
    require_not_output(state, block, scope)?;
    let name = state.func.arena.buffer(buffer).name;
    let fail = |state: &State, problem: &'static str| {
        Err(state.error(ErrorKind::RollingBuffer { buffer: name, problem }, block))
    };
    let deps = Scope::of(&state.func, scope);
    let mut around = deps.dependences_on_earlier(&state.func, block);
    around.extend(deps.dependences_of_later(&state.func, block));
    if around.iter().any(|d| d.kind != DepKind::Raw) {
        return Err(state.error(ErrorKind::RollingBufferDependency { buffer: name }, block));
    }
    let consumers = deps.consumers(&state.func, block);
    if let Some(&consumer) = consumers.iter().find(|&&c| !state.info(c).region_cover) {
        let name = state.func.block(consumer).name;
        return Err(state.error(ErrorKind::NotRegionCover { block: name }, consumer));
    }
    let all: Vec<StmtId> = std::iter::once(block).chain(consumers).map(|b| b.stmt()).collect();
    let meeting = common_ancestor(&state.func, &all).and_then(|s| state.func.as_loop(s));
    let Some(meeting) = meeting else {
        return Err(state.error(ErrorKind::RollingBufferInsertion { buffer: name }, block));
    };
    require_no_view(state, scope, buffer)?;

    // The region that the block writes in one iteration of the common loop.
    let Some(low) = tree::parent(&state.func, block) else { return fail(state, "the block stands nowhere") };
    let inner = tree::loop_path(&state.func, low, Some(meeting.stmt()), None);
    let Func { arena: a, stmts, .. } = &mut state.func;
    let node = stmts.block(block);
    let mut bindings = Substitution::of_vars(node.iters.iter().map(|i| (i.var, i.value)));
    let bound = bindings.apply_region(a, &region);
    let ranges: Vec<(ExprId, ExprId)> = bound.ranges(a).collect();
    let domains: Vec<(VarId, IntSet)> = inner
        .iter()
        .map(|&l| {
            let node = stmts.loop_(l);
            (node.var, IntSet::from_range(a, node.min, node.extent))
        })
        .collect();
    let sets = int_set::eval_region(a, &ranges, &domains);
    let shape: SmallVec<[ExprId; 4]> = a.list(a.buffer(buffer).shape).iter().copied().collect();
    let mut windows: Vec<(ExprId, ExprId)> = Vec::new();
    for (set, &extent) in sets.iter().zip(&shape) {
        let zero = a.int(0, a.dtype(extent));
        windows.push(set.cover_range(a, (zero, extent)));
    }
    let motions: Option<Vec<Option<Motion>>> = windows.iter().map(|&(min, extent)| motion(a, min, extent)).collect();
    let none = "no axis has a window that moves as `outer * stride + inner` and overlaps itself";
    let Some(motions) = motions else { return fail(state, none) };

    let func = &state.func;
    let loops = func.loops_above(block.stmt());
    let moves = |var: VarId| motions.iter().position(|m| m.as_ref().is_some_and(|m| m.var == var && m.overlap > 0));
    let Some(axis) = loops.iter().find_map(|&l| moves(func.loop_(l).var)) else { return fail(state, none) };
    let outer = tree::loop_path(func, meeting.stmt(), None, None);
    if outer.iter().any(|&l| !matches!(func.loop_(l).kind, LoopKind::Serial | LoopKind::Unrolled)) {
        return fail(state, "a loop around is not serial, and its iterations would share the window");
    }
    // The predicate restricts the variables that index the buffer.
    let node = func.block(block);
    let overlaps = |i: usize| motions[i].as_ref().is_some_and(|m| m.overlap > 0);
    let mins = func.arena.list(region.mins);
    let plain = (0..mins.len()).all(|i| {
        !overlaps(i)
            || (node.iters.get(i).is_some_and(|iter| func.arena.as_var(mins[i]) == Some(iter.var))
                && func.arena.is_int(func.arena.list(region.extents)[i], 1)
                && motions[i].as_ref().is_some_and(|m| outer.iter().any(|&l| func.loop_(l).var == m.var)))
    });
    if !plain {
        return fail(state, "the block does not write single elements at its first iteration variables");
    }
    let node = node.clone();
    // A predicate that cuts the window would exclude its new part.
    if !predicate_follows(&mut state.func, block) {
        return fail(state, "the block has a predicate that is stricter than the domains of its iteration variables");
    }
    let a = &mut state.func.arena;
    let mut predicate = node.predicate;
    for (i, motion) in motions.iter().enumerate().filter(|(i, _)| overlaps(*i)) {
        let Some(motion) = motion else { continue };
        // The position of the value, relative to the window's start.
        let v = a.var_expr(motion.var);
        let zero = a.int(0, a.dtype(v));
        let offset = int_set::eval_set(a, node.iters[i].value, &[(motion.var, IntSet::point(zero))]);
        let Some(offset) = offset.lower() else { return fail(state, none) };
        let (one, overlap) = (a.int(1, a.dtype(v)), a.int(motion.overlap, a.dtype(offset)));
        let (first, fresh) = (a.lt(v, one), a.compare(CmpOp::Ge, offset, overlap));
        let needed = a.or(first, fresh);
        let both = a.and(predicate, needed);
        predicate = Analyzer::new().simplify(a, both);
    }
    Ok(WindowPlan { block, scope, buffer, axis, window: windows[axis].1, predicate })
}

/// The movement of a window that starts at `min`: `Some(None)` if it does not move, `None` if the movement is not
/// supported.
fn motion(a: &Arena, min: ExprId, extent: ExprId) -> Option<Option<Motion>> {
    if a.as_int(min).is_some() {
        return Some(None);
    }
    let scaled = |e: ExprId| match a.expr(e) {
        Expr::Var(v) => Some((v, 1)),
        Expr::Binary(BinOp::Mul, x, y) => match (a.as_var(x), a.as_int(y)) {
            (Some(v), Some(stride)) => Some((v, stride)),
            _ => None,
        },
        _ => None,
    };
    let (var, stride, divisor) = match a.expr(min) {
        Expr::Binary(BinOp::FloorDiv, x, by) => {
            let (var, stride) = scaled(x)?;
            (var, stride, a.as_int(by)?)
        }
        _ => {
            let (var, stride) = scaled(min)?;
            (var, stride, 1)
        }
    };
    if stride < 1 || divisor < 1 {
        return None;
    }
    let step = stride.checked_add(divisor - 1)? / divisor;
    Some(Some(Motion { var, overlap: a.as_int(extent)? - step }))
}

struct Roll {
    old: BufferId,
    new: BufferId,
    axis: usize,
    window: ExprId,
}

impl Roll {
    fn indices(&self, a: &mut Arena, indices: ExprList) -> ExprList {
        let mut rolled: Vec<ExprId> = a.list(indices).to_vec();
        let at = rolled[self.axis];
        let window = a.cast(a.dtype(at), self.window);
        rolled[self.axis] = a.floor_mod(at, window);
        a.new_list(&rolled)
    }
}

impl Rewriter for Roll {
    fn rewrite_expr(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        let e = walk_rewrite(self, a, e);
        match a.expr(e) {
            Expr::Load(buffer, indices) if buffer == self.old => {
                let indices = self.indices(a, indices);
                let indices = a.list(indices).to_vec();
                a.load(self.new, &indices)
            }
            _ => e,
        }
    }
}

fn apply(state: &mut State, plan: WindowPlan) {
    let WindowPlan { block, scope, buffer, axis, window, predicate } = plan;
    let func = &mut state.func;
    let old = func.arena.buffer(buffer).clone();
    let mut shape = func.arena.list(old.shape).to_vec();
    shape[axis] = window;
    let shape = func.arena.new_list(&shape);
    let new = old.with_shape(&mut func.arena, shape);
    let new = func.arena.new_buffer(new);
    let mut roll = Roll { old: buffer, new, axis, window };
    for s in func.subtree(scope.stmt()).into_iter().skip(1) {
        match func.get(s).clone() {
            Stmt::Store { buffer: b, indices, value } => {
                let a = &mut func.arena;
                let value = roll.rewrite_expr(a, value);
                let mut indices = a.map_list(indices, |a, e| roll.rewrite_expr(a, e));
                if b == buffer {
                    indices = roll.indices(a, indices);
                }
                let b = if b == buffer { new } else { b };
                *func.stmt_mut(s) = Stmt::Store { buffer: b, indices, value };
            }
            Stmt::Block(mut node) => {
                // A reduction must still start where its variables do; TVM ignores this.
                if let Some(iter) = node.iters.get_mut(axis).filter(|i| i.kind != IterKind::Reduce) {
                    iter.kind = IterKind::Opaque;
                }
                *func.stmt_mut(s) = Stmt::Block(node);
            }
            Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::While { .. }
            | Stmt::Attr(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => func.rewrite_stmt(s, &mut roll),
            Stmt::Loop(_) => {}
        }
    }
    func.block_mut(block).predicate = predicate;
    restate_regions(func, scope.stmt(), buffer, new);
    let info = state.info(scope);
    update_scope_info(state, scope);
    state.update_info(scope, |new| new.affine_binding = info.affine_binding);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const STENCIL: &str = r#"
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((18,))
    for i in range(18):
        with T.block("B"):
            vi = T.axis.spatial(18, i)
            B[vi] = A[vi]
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[vi] + B[vi + 2]
"#;
    const STEPS: &str = "b = sch.get_block('B', 'main')\ni_0, i_1 = sch.split(sch.get_loops(sch.get_block('C', 'main'))[0], [None, 4])\nsch.compute_at(b, i_0)";

    #[test]
    fn a_window_rolls() {
        check(
            STENCIL,
            |t| {
                t.python(STEPS)?;
                t.python("sch.rolling_buffer(sch.get_block('B', 'main'), 0)")
            },
            r#"
def main(A: T.Buffer((18,)), C: T.Buffer((16,))):
    B = T.alloc_buffer((6,))
    for i_0 in range(4):
        for ax0 in range(6):
            with T.block("B"):
                vi = T.axis.opaque(18, i_0 * 4 + ax0)
                T.where(i_0 < 1 or 2 <= ax0)
                B[vi % 6] = A[vi]
        for i_1 in range(4):
            with T.block("C"):
                vi = T.axis.opaque(16, i_0 * 4 + i_1)
                C[vi] = B[vi % 6] + B[(vi + 2) % 6]
"#,
        );
    }

    #[test]
    fn refusals() {
        let roll = "sch.rolling_buffer(sch.get_block('B', 'main'), 0)";
        refuse(STENCIL, |t| t.python(roll), "RollingBufferInsertionError");
        let copy = STENCIL.replace("B[vi] + B[vi + 2]", "B[vi]");
        refuse(&copy, |t| t.python(STEPS).and_then(|()| t.python(roll)), "RollingBufferMatchError");
        refuse(
            STENCIL,
            |t| {
                t.python(STEPS)?;
                t.python("sch.parallel(sch.get_loops(sch.get_block('C', 'main'))[0])")?;
                t.python(roll)
            },
            "RollingBufferMatchError",
        );
    }
}
