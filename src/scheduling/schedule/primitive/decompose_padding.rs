//! # `decompose_padding`
//!
//! Splits the filling of a padded buffer in two: the constant, then the interior.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(28), B: T.Buffer(32)):
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = T.if_then_else(2 <= vi and vi < 30, A[vi - 2], 0.0)
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.decompose_padding("B", i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((28,)), B: T.Buffer((32,))):
//!     for i in range(32):
//!         with T.sblock("B_pad_const"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = T.float32(0.0)
//!     for i in range(28):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(28, i)
//!             B[vi + 2] = A[vi]
//! ```
//!
//! * Requires: a complete block with one such store of a constant outside the interior; unstrided ranges; the loop is
//!   around it.
//! * Errors: `IncompleteBlockError`, `LoopPositionError`, `PaddingPatternMatchError`.
//! * Handles: persists: the block (as the copy inside), its loops; created: the block of the constant, its loops.
//!
//! # Implementation
//!
//! Fills a padded buffer in two steps: first the constant everywhere, then the interior values.
//!
//! ```text
//! for i in range(140):
//!     with T.block("B"): B[vi] = T.if_then_else(6 <= vi and vi < 134, A[vi - 6], 0)
//! # becomes, with sch.decompose_padding(block=B, loop=i)
//! for i in range(140):
//!     with T.block("B_pad_const"): B[vi] = 0
//! for i in range(128):
//!     with T.block("B"): B[vi + 6] = A[vi]
//! ```
//!
//! The constant nest is placed before the loop. The loops from the given one inwards that contain only the block shrink
//! to the interior; the condition on outer loops becomes a predicate.
//!
//! Requires: a complete block whose body is one such store, with a constant; the condition and the bindings describe an
//! unstrided range for each iteration variable separately; the loop is around the block. Preserves: the buffer's
//! contents. Returns: the block that fills in the constant.
//!
//! The block's annotations are dropped. Handles: persist, the block (as the copy in bounds) and the loops; created, the
//! block of the constant.

use super::super::analysis::affine::domain;
use super::super::analysis::block_class::require_complete;
use super::super::analysis::tree::{is_only_child, require_scope};
use super::super::analysis::update_scope_info;
use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::arith::implication::conjuncts;
use crate::arith::{Analyzer, IterMapLevel, VarRange, detect_iter_map};
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, BufferRegion, Expr, ExprId, Func, IterKind, LoopId, Rewriter, Stmt, StmtId,
    Substitution, VarId,
};
use smallvec::SmallVec;

/// `decompose_padding(block, loop)`.
pub(crate) static DECOMPOSE_PADDING: Kind = Kind {
    name: "DecomposePadding",
    method: "decompose_padding",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::input("loop", Ty::Loop)],
    outputs: Outputs::Block,
    samples: false,
    run,
};

/// The result of the checks.
struct PaddingPlan {
    block: BlockId,
    scope: BlockId,
    target: LoopId,
    /// The loops around the block, outermost first.
    loops: Vec<LoopId>,
    store: StmtId,
    /// The stored values, inside and outside.
    value: ExprId,
    constant: ExprId,
    /// Condition over the loops: the value is stored, not the constant.
    inside: ExprId,
    /// The interior of each iteration variable: start and length.
    ranges: Vec<(ExprId, ExprId)>,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let target = call.loop_in(1, func)?;
    let state = call.state(func);
    let plan = check(state, block, target)?;
    let constant = apply(state, plan);
    Ok(Outcome { outputs: vec![RvValue::Block(func, constant)], decision: None })
}

fn check(state: &mut State, block: BlockId, target: LoopId) -> Result<PaddingPlan, ScheduleError> {
    let scope = require_scope(state, block, false)?;
    require_complete(state, block, scope)?;
    let loops = state.func.loops_above(block.stmt());
    if !loops.contains(&target) {
        let func = &state.func;
        let loop_name = func.arena.var(func.loop_(target).var).name;
        return Err(state.error(ErrorKind::LoopPosition { loop_name, block: func.block(block).name }, block));
    }
    let fail = |state: &State, why: &'static str| Err(state.error(ErrorKind::PaddingPatternMatch { why }, block));
    let domains: SmallVec<[VarRange; 8]> = loops.iter().map(|&l| domain(&state.func, l)).collect();
    let node = state.func.block(block).clone();
    let [store] = node.body[..] else { return fail(state, "its body is not a single store") };
    let Stmt::Store { value, .. } = *state.func.get(store) else {
        return fail(state, "its body is not a single store");
    };
    let Expr::IfThenElse(condition, value, constant) = state.func.arena.expr(value) else {
        return fail(state, "the stored value is not a `T.if_then_else`");
    };
    let a = &mut state.func.arena;
    if a.as_const(constant).is_none() {
        return fail(state, "the value stored outside is not constant");
    }
    if node.init.is_some() || node.writes.len() != 1 {
        return fail(state, "it writes more than one buffer");
    }
    let condition = Substitution::of_vars(node.iters.iter().map(|i| (i.var, i.value))).apply(a, condition);
    let inside = a.and(condition, node.predicate);
    let always = a.bool(true);
    let inside = conjuncts(a, inside).into_iter().fold(always, |all, e| a.and(all, e));
    let mut analyzer = Analyzer::new();
    for d in &domains {
        analyzer.bind(a, d.var, d.min, d.extent);
    }
    if analyzer.can_prove(a, inside) {
        return fail(state, "its condition always holds");
    }
    let values: SmallVec<[ExprId; 8]> = node.iters.iter().map(|i| i.value).collect();
    let level = IterMapLevel::Surjective;
    let Ok(map) = detect_iter_map(a, &values, &domains, inside, level, &mut analyzer, true) else {
        return fail(state, "its condition is not a separate range for each iteration variable");
    };
    let mut ranges = Vec::with_capacity(map.indices.len());
    for sum in &map.indices {
        match sum.args.as_slice() {
            [] => ranges.push((sum.base, a.int(1, a.dtype(sum.base)))),
            [split] if a.is_int(split.scale, 1) => ranges.push((sum.base, split.extent)),
            _ => return fail(state, "an iteration variable takes only some values of its range"),
        }
    }
    Ok(PaddingPlan { block, scope, target, loops, store, value, constant, inside, ranges })
}

fn apply(state: &mut State, plan: PaddingPlan) -> BlockId {
    let func = &mut state.func;
    let mut analyzer = Analyzer::new();
    for &l in &plan.loops {
        let Func { arena, stmts, .. } = func;
        let node = stmts.loop_(l);
        analyzer.bind(arena, node.var, node.min, node.extent);
    }
    let (constant, nest) = constant_nest(func, &plan, &mut analyzer);
    shrink(func, &plan);
    let place = func.place(plan.target.stmt()).expect("the loop stands around the block");
    func.insert_at(place, &[nest]);
    let info = state.info(plan.scope);
    update_scope_info(state, plan.scope);
    let pipeline = state.info(plan.scope).stage_pipeline;
    state.update_info(plan.scope, |new| {
        *new = info;
        new.stage_pipeline = pipeline;
    });
    constant
}

/// The nest that stores the constant: copies of the loops from the target on.
fn constant_nest(func: &mut Func, plan: &PaddingPlan, analyzer: &mut Analyzer) -> (BlockId, StmtId) {
    let first = plan.loops.iter().position(|&l| l == plan.target).unwrap_or(0);
    let node = func.block(plan.block).clone();
    let mut by = Substitution::default();
    let mut loops: SmallVec<[(VarId, ExprId, ExprId); 8]> = SmallVec::new();
    for &l in &plan.loops[first..] {
        let Func { arena: a, stmts, .. } = &mut *func;
        let old = stmts.loop_(l);
        let (name, dtype) = (a.var(old.var).name, a.var(old.var).dtype);
        let (min, extent) = (by.apply(a, old.min), by.apply(a, old.extent));
        let (var, e) = a.new_var_expr(name, dtype);
        by.add_var(old.var, e);
        loops.push((var, min, extent));
    }
    let mut iters: Vec<BlockIter> = Vec::with_capacity(node.iters.len());
    for i in &node.iters {
        let a = &mut func.arena;
        let value = by.apply(a, i.value);
        let value = analyzer.simplify(a, value);
        let (name, dtype) = (a.var(i.var).name, a.var(i.var).dtype);
        let var = a.new_var(name, dtype);
        iters.push(BlockIter { var, kind: IterKind::Spatial, value, ..*i });
    }
    let a = &mut func.arena;
    let predicate = by.apply(a, node.predicate);
    let predicate = analyzer.simplify(a, predicate);
    for (old, new) in node.iters.iter().zip(&iters) {
        let e = a.var_expr(new.var);
        by.add_var(old.var, e);
    }
    let mut simple = Simplified { by, analyzer };
    let writes: Vec<BufferRegion> = node.writes.iter().map(|r| simple.region(a, r)).collect();
    let Stmt::Store { buffer, indices, .. } = *func.stmts.get(plan.store) else {
        unreachable!("the check found a store")
    };
    let indices = func.arena.map_list(indices, |a, e| simple.rewrite_expr(a, e));
    let store = func.add(Stmt::Store { buffer, indices, value: plan.constant });
    let name = node.name.with_suffix("_pad_const");
    let body = Body::from_slice(&[store]);
    let block = func.add_block(Block { iters, writes, body, ..Block::new(name, predicate) });
    let mut nest = block.stmt();
    for &(var, min, extent) in loops.iter().rev() {
        let l = func.make_loop(var, extent, Body::from_slice(&[nest]));
        func.loop_mut(l).min = min;
        nest = l.stmt();
    }
    (block, nest)
}

/// Restricts the block to the interior.
fn shrink(func: &mut Func, plan: &PaddingPlan) {
    let first = plan.loops.iter().position(|&l| l == plan.target).unwrap_or(0);
    // The loops that contain nothing else can shrink.
    let mut inner = plan.block.stmt();
    let mut own: SmallVec<[LoopId; 8]> = SmallVec::new();
    for &l in plan.loops[first..].iter().rev() {
        if !is_only_child(func, l, inner) {
            break;
        }
        own.push(l);
        inner = l.stmt();
    }
    let node = func.block(plan.block).clone();
    let mut analyzer = Analyzer::new();
    let mut by = Substitution::default();
    let mut loop_by = Substitution::default();
    let mut iters: Vec<BlockIter> = Vec::with_capacity(node.iters.len());
    let mut shrunk: SmallVec<[LoopId; 8]> = SmallVec::new();
    for (iter, &(min, extent)) in node.iters.iter().zip(&plan.ranges) {
        let Func { arena: a, stmts, .. } = &mut *func;
        let var = a.var_expr(iter.var);
        let shifted = a.add(var, min);
        by.add_var(iter.var, shifted);
        let zero = a.int(0, a.dtype(min));
        let own_loop = a.as_var(iter.value).and_then(|v| own.iter().copied().find(|&l| stmts.loop_(l).var == v));
        let value = match own_loop {
            Some(l) => {
                let shifted = a.add(iter.value, min);
                loop_by.add_var(stmts.loop_(l).var, shifted);
                if let Some(v) = a.as_var(iter.value) {
                    analyzer.bind(a, v, zero, extent);
                }
                let node = func.loop_mut(l);
                (node.min, node.extent) = (zero, extent);
                shrunk.push(l);
                iter.value
            }
            None => a.sub(iter.value, min),
        };
        iters.push(BlockIter { min: zero, extent, kind: IterKind::Spatial, value, ..*iter });
    }
    for &l in plan.loops.iter().filter(|l| !shrunk.contains(l)) {
        let Func { arena, stmts, .. } = &mut *func;
        let node = stmts.loop_(l);
        analyzer.bind(arena, node.var, node.min, node.extent);
    }
    let a = &mut func.arena;
    for iter in iters.iter_mut() {
        let shrunk_loop = a.as_var(iter.value).is_some_and(|v| loop_by.var(v).is_some());
        if !shrunk_loop {
            iter.value = analyzer.simplify(a, iter.value);
        }
    }
    let predicate = loop_by.apply(a, plan.inside);
    let predicate = analyzer.simplify(a, predicate);
    let mut simple = Simplified { by, analyzer: &mut analyzer };
    let reads = node.reads.iter().map(|r| simple.region(a, r)).collect();
    let writes = node.writes.iter().map(|r| simple.region(a, r)).collect();
    let Stmt::Store { buffer, indices, .. } = *func.stmts.get(plan.store) else {
        unreachable!("the check found a store")
    };
    let indices = func.arena.map_list(indices, |a, e| simple.rewrite_expr(a, e));
    let value = simple.by.apply(&mut func.arena, plan.value);
    let value = LoadIndices(&mut simple).rewrite_expr(&mut func.arena, value);
    *func.stmt_mut(plan.store) = Stmt::Store { buffer, indices, value };
    let node = func.block_mut(plan.block);
    // The annotations refer to the old block; TVM drops them too.
    node.annotations = crate::ir::Annotations::new();
    (node.iters, node.predicate, node.reads, node.writes) = (iters, predicate, reads, writes);
}

/// Substitutes and simplifies.
struct Simplified<'a> {
    by: Substitution,
    analyzer: &'a mut Analyzer,
}

impl Simplified<'_> {
    fn region(&mut self, a: &mut Arena, r: &BufferRegion) -> BufferRegion {
        BufferRegion {
            buffer: r.buffer,
            mins: a.map_list(r.mins, |a, e| self.rewrite_expr(a, e)),
            extents: a.map_list(r.extents, |a, e| self.rewrite_expr(a, e)),
        }
    }
}

impl Rewriter for Simplified<'_> {
    fn rewrite_expr(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        let e = self.by.apply(a, e);
        self.analyzer.simplify(a, e)
    }
}

/// Simplifies the indices of loads, but no other arithmetic: float arithmetic must stay as written.
struct LoadIndices<'a, 'b>(&'a mut Simplified<'b>);

impl Rewriter for LoadIndices<'_, '_> {
    fn rewrite_expr(&mut self, a: &mut Arena, e: ExprId) -> ExprId {
        match a.expr(e) {
            Expr::Load(buffer, indices) => {
                let indices: Vec<ExprId> = a.list(indices).to_vec();
                let indices: Vec<ExprId> = indices.iter().map(|&i| self.0.analyzer.simplify(a, i)).collect();
                a.load(buffer, &indices)
            }
            _ => crate::ir::visit::walk_rewrite(self, a, e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const PAD: &str = r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((9, 4))):
    for i, j in T.grid(9, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(2 <= vi and vi < 8, A[vi - 2, vj], T.float32(1))
"#;

    #[test]
    fn the_outer_loop_shrinks() {
        check(
            PAD,
            |t| t.python("b = sch.get_block('B', 'main')\nsch.decompose_padding(b, sch.get_loops(b)[0])"),
            r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((9, 4))):
    for i, j in T.grid(9, 4):
        with T.block("B_pad_const"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[vi, vj])
            B[vi, vj] = T.float32(1)
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi + 2, vj])
            B[vi + 2, vj] = A[vi, vj]
"#,
        );
    }

    #[test]
    fn a_loop_further_out_is_guarded() {
        check(
            PAD,
            |t| t.python("b = sch.get_block('B', 'main')\nsch.decompose_padding(b, sch.get_loops(b)[1])"),
            r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((9, 4))):
    for i in range(9):
        for j in range(4):
            with T.block("B_pad_const"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(B[vi, vj])
                B[vi, vj] = T.float32(1)
        for j in range(4):
            with T.block("B"):
                vi = T.axis.spatial(6, i - 2)
                vj = T.axis.spatial(4, j)
                T.where(2 <= i and i < 8)
                T.reads(A[vi, vj])
                T.writes(B[vi + 2, vj])
                B[vi + 2, vj] = A[vi, vj]
"#,
        );
    }

    #[test]
    fn refusals() {
        let steps = "b = sch.get_block('B', 'main')\nsch.decompose_padding(b, sch.get_loops(b)[0])";
        let run = |program: &str, class: &str| refuse(program, |t| t.python(steps), class);
        run(&PAD.replace("T.float32(1)", "A[0, vj]"), "PaddingPatternMatchError");
        run(&PAD.replace("2 <= vi and vi < 8", "vi % 2 == 0"), "PaddingPatternMatchError");
        run(&PAD.replace("2 <= vi and vi < 8", "vi < 9"), "PaddingPatternMatchError");
    }
}
