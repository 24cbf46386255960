//! # `blockize`
//!
//! Wraps a subtree, or several adjacent blocks, into one block.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), B: T.Buffer(32)):
//!     for i_0, i_1 in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i_0 * 8 + i_1)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     i_0, i_1 = sch.get_loops("B")
//!     sch.blockize(i_1)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), B: T.Buffer((32,))):
//!     for i_0 in range(4):
//!         with T.sblock("B_o"):
//!             vi_o = T.axis.spatial(4, i_0)
//!             for i_1 in range(8):
//!                 with T.sblock("B"):
//!                     vi_i = T.axis.spatial(8, i_1)
//!                     B[vi_o * 8 + vi_i] = A[vi_o * 8 + vi_i] * T.float32(2.0)
//! ```
//!
//! * Requires: one block below the loop; its bindings divide into an outer and an inner part; an init runs first.
//! * Errors: `NonSingleChildBlockError`, `SubspaceNotDivisibleError`.
//! * Handles: persists: the blocks (as inner blocks), the loops; created: the outer block.
//! * Unlike TVM, which loses bounds on a single loop: if the parts together exceed a domain, the blocks declare it in
//!   `T.where`. The offset of a binding (`i + 2`) is the start of the inner part's domain, where TVM's starts at 0.
//!   Refused, though TVM accepts it: predicates that are stronger than the domains and that neither part would keep;
//!   loops around a block without iteration variables, which TVM takes for constants; the init of a guarded reduction
//!   drops conditions on reduction loops, which TVM leaves undefined.
//!
//! # Implementation
//!
//! Wraps a subtree (the loops from a given one inwards and the block below them), or several blocks, into one block.
//!
//! ```text
//! for i_0, j_0, i_1, j_1 in T.grid(4, 4, 8, 8):
//!     with T.block("B"): B[vi, vj] = A[vi, vj]          # vi = i_0 * 8 + i_1, …
//! # becomes, at i_1
//! for i_0, j_0 in T.grid(4, 4):
//!     with T.block("B_o"):                              # vi_o = i_0, vj_o = j_0
//!         for i_1, j_1 in T.grid(8, 8):
//!             with T.block("B"):                        # vi_i = i_1, vj_i = j_1
//!                 B[vi_o * 8 + vi_i, vj_o * 8 + vj_i] = A[…]
//! ```
//!
//! Under an outer reduction, the init moves to the outer block, with its own nest.
//!
//! Requires: one block below the loop (the blocks of a list are adjacent, directly below one loop or block); each
//! binding is `outer * extent + inner`, with parts over the loops outside and inside. Preserves: the loops. Returns:
//! the outer block.
//!
//! Handles: persist, the blocks (as inner blocks) and loops; created, the outer block.

mod division;
mod list;

use super::super::analysis::access::accesses_of;
use super::super::analysis::guard::reductions_begin;
use super::super::analysis::update_scope_info;
use super::super::arg::{Arg, FuncIndex, RvValue};
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::{BlockInfo, State};
use super::decompose_reduction::without_loops;
use crate::arith::{Analyzer, IntSet, int_set};
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, BufferRegion, Expr, ExprId, Func, IterKind, Loop, LoopId, StmtId,
    Substitution, VarId, visit,
};
use division::{BlockizePlan, divide};
use hashbrown::HashMap;
use list::{apply_blocks, check_blocks};
use smallvec::SmallVec;

/// `blockize(target, preserve_unit_iters=True)`.
pub(crate) static BLOCKIZE: Kind = Kind {
    name: "Blockize",
    method: "blockize",
    classic: None,
    positional: false,
    params: &[
        Param::input("target", Ty::Target),
        Param::attr("preserve_unit_iters", Ty::Bool).as_int().or(Default::Bool(true)),
    ],
    outputs: Outputs::Block,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let preserve_unit_iters = call.bool(1)?;
    let (func, outer) = match &call.args[0] {
        Arg::List(_) => {
            let (func, blocks) = blocks_of_one_function(call)?;
            let state = call.state(func);
            let plan = check_blocks(state, &blocks, preserve_unit_iters)?;
            (func, apply_blocks(state, plan))
        }
        _ => {
            let (func, at) = call.loop_(0)?;
            let state = call.state(func);
            let plan = check(state, at, preserve_unit_iters)?;
            (func, apply(state, plan))
        }
    };
    Ok(Outcome { outputs: vec![RvValue::Block(func, outer)], decision: None })
}

/// Wraps the subtree of a loop into a block.
///
/// # Errors
///
/// If the subtree cannot be wrapped.
pub(super) fn of_loop(state: &mut State, at: LoopId, preserve_unit_iters: bool) -> Result<BlockId, ScheduleError> {
    let plan = check(state, at, preserve_unit_iters)?;
    Ok(apply(state, plan))
}

fn blocks_of_one_function(call: &Call<'_>) -> Result<(FuncIndex, Vec<BlockId>), ScheduleError> {
    match call.blocks(0)?.first() {
        None => Err(ErrorKind::Argument { message: "expected at least one block".to_string() }.into()),
        Some(&(func, _)) => Ok((func, call.blocks_in(0, func)?)),
    }
}
/// Checks that the subtree of a loop can be wrapped into a block.
///
/// # Errors
///
/// If it cannot.
fn check(state: &mut State, at: LoopId, preserve_unit_iters: bool) -> Result<BlockizePlan, ScheduleError> {
    let block = match state.func.child_blocks(at.stmt())[..] {
        [block] => block,
        ref found => {
            return Err(state.error(ErrorKind::NonSingleChildBlock { what: "loop", count: found.len() }, at));
        }
    };
    if state.func.block(block).init.is_some() && !reductions_begin(&mut state.func, block) {
        let name = state.func.block(block).name;
        return Err(state.error(ErrorKind::LateInit { block: name }, block));
    }
    let loops = state.func.loops_above(block.stmt());
    let first = loops.iter().position(|&l| l == at).expect("the loop is around its block");
    divide(state, block, &loops, first, preserve_unit_iters)
}

/// The iteration variables of the outer block, with fresh variables.
fn outer_iters(func: &mut Func, plan: &BlockizePlan) -> Vec<BlockIter> {
    let iters = func.block(plan.block).iters.clone();
    let arena = &mut func.arena;
    iters
        .iter()
        .zip(&plan.divisions)
        .map(|(iter, d)| {
            let known = arena.var(iter.var).clone();
            let var = arena.new_var(known.name.with_suffix("_o"), known.dtype);
            let min = arena.int(d.outer_first, known.dtype);
            let (extent, value) = (arena.cast(known.dtype, d.outer_extent), arena.cast(known.dtype, d.outer));
            BlockIter { var, min, extent, kind: iter.kind, value }
        })
        .collect()
}

/// The accesses of the inner block over the outer variables, and its former init.
struct Inner {
    reads: Vec<BufferRegion>,
    writes: Vec<BufferRegion>,
    init: Option<Body>,
}

/// Rewrites the block over its inner iteration variables and those of the outer block. It loses its init.
fn make_inner(func: &mut Func, plan: &BlockizePlan, outer: &[BlockIter]) -> Inner {
    let block = plan.block;
    let iters = func.block(block).iters.clone();
    let mut inner_iters: Vec<BlockIter> = Vec::new();
    let mut replaced: Vec<(VarId, ExprId)> = Vec::new();
    let mut predicate = plan.inner_predicate;
    for ((iter, d), outer) in iters.iter().zip(&plan.divisions).zip(outer) {
        let arena = &mut func.arena;
        let dtype = arena.var(iter.var).dtype;
        let unit = |arena: &Arena, e: ExprId| arena.is_int(e, 1);
        let o = arena.var_expr(outer.var);
        let value = if unit(arena, d.inner_extent) {
            let dropped = unit(arena, d.outer_extent) && !plan.preserve_unit_iters;
            if dropped { arena.int(d.first, dtype) } else { arena.add_const(o, d.first) }
        } else {
            let name = arena.var(iter.var).name.with_suffix("_i");
            let (var, i) = arena.new_var_expr(name, dtype);
            let min = arena.int(d.first, dtype);
            let (extent, value) = (arena.cast(dtype, d.inner_extent), arena.cast(dtype, d.inner));
            inner_iters.push(BlockIter { var, min, extent, kind: iter.kind, value });
            if unit(arena, d.outer_extent) {
                i
            } else {
                let extent = arena.cast(dtype, d.inner_extent);
                let start = arena.mul(o, extent);
                if let Some(end) = d.end {
                    let value = arena.add(start, d.inner);
                    let below = arena.lt(value, end);
                    predicate = arena.and(predicate, below);
                }
                arena.add(start, i)
            }
        };
        replaced.push((iter.var, value));
    }
    let mut ranges: Vec<(VarId, IntSet)> = Vec::with_capacity(inner_iters.len());
    let mut analyzer = Analyzer::new();
    for iter in &inner_iters {
        ranges.push((iter.var, IntSet::from_range(&mut func.arena, iter.min, iter.extent)));
        analyzer.bind(&mut func.arena, iter.var, iter.min, iter.extent);
    }
    let mut simplify = SimplifyingSubstitution { vars: replaced, analyzer, done: HashMap::new() };
    let init = func.block(block).init.clone();
    let node = func.block_mut(block);
    node.iters.clear();
    for s in func.subtree(block.stmt()) {
        func.rewrite_stmt(s, &mut simplify);
    }
    func.set_init(block, None);
    let node = func.block_mut(block);
    node.iters = inner_iters;
    node.predicate = predicate;
    let (reads, writes) = (node.reads.clone(), node.writes.clone());
    Inner { reads: relaxed(func, &reads, &ranges), writes: relaxed(func, &writes, &ranges), init }
}

/// The regions with variables relaxed over their ranges.
fn relaxed(func: &mut Func, regions: &[BufferRegion], ranges: &[(VarId, IntSet)]) -> Vec<BufferRegion> {
    let arena = &mut func.arena;
    regions
        .iter()
        .map(|r| {
            let region: SmallVec<[(ExprId, ExprId); 4]> = r.ranges(arena).collect();
            let shape: SmallVec<[ExprId; 4]> = arena.list(arena.buffer(r.buffer).shape).iter().copied().collect();
            let sets = int_set::eval_region(arena, &region, ranges);
            let covers: SmallVec<[(ExprId, ExprId); 4]> = sets
                .iter()
                .zip(shape)
                .map(|(set, extent)| {
                    let zero = arena.int(0, arena.dtype(extent));
                    set.cover_range(arena, (zero, extent))
                })
                .collect();
            BufferRegion::new(arena, r.buffer, &covers)
        })
        .collect()
}

fn apply(state: &mut State, plan: BlockizePlan) -> BlockId {
    let func = &mut state.func;
    let block = plan.block;
    let iters = outer_iters(func, &plan);
    let inner = make_inner(func, &plan, &iters);
    let node = func.block(block).clone();
    let reduces = |iters: &[BlockIter]| iters.iter().any(|i| i.kind == IterKind::Reduce);
    // If neither block reduces, the outer block would count as one that computes each element from others alone.
    if inner.init.is_some() && (reduces(&iters) || !reduces(&node.iters)) {
        func.block_mut(block).reads = node.writes.iter().chain(&node.reads).copied().collect();
    }
    let init = inner.init.map(|body| {
        let nest = outer_init(func, &node, body, &plan.inner_loops);
        Body::from_slice(&[nest])
    });
    let top = plan.inner_loops.first().map_or(block.stmt(), |l| l.stmt());
    let scope = func.block_above(top).expect("a loop stands in a block");
    let place = func.cut(top);
    let outer = func.add_block(Block {
        iters,
        reads: inner.reads,
        writes: inner.writes,
        init,
        body: Body::from_slice(&[top]),
        ..Block::new(node.name.with_suffix("_o"), plan.outer_predicate)
    });
    func.insert_at(place, &[outer.stmt()]);
    let affine_binding = state.info(scope).affine_binding;
    update_scope_info(state, scope);
    state.set_info(scope, BlockInfo { affine_binding, ..state.info(scope) });
    outer
}

/// The nest that initialises the outer block's reduction: copies of the necessary loops, around a block with the former
/// init. `node` is the inner block.
fn outer_init(func: &mut Func, node: &Block, body: Body, loops: &[LoopId]) -> StmtId {
    let used = |func: &Func, var: VarId| {
        body.iter().flat_map(|&s| func.subtree(s)).any(|s| {
            let mut found = false;
            let mut look = Mentions { var, found: &mut found };
            visit::Visitor::visit_stmt(&mut look, func, s);
            found
        })
    };
    let mut renamed = Substitution::default();
    let mut iters: Vec<BlockIter> = Vec::new();
    for iter in node.iters.iter().filter(|i| i.kind == IterKind::Spatial) {
        if used(func, iter.var) {
            let known = func.arena.var(iter.var).clone();
            let (var, e) = func.arena.new_var_expr(known.name.with_suffix("_init"), known.dtype);
            renamed.add_var(iter.var, e);
            iters.push(BlockIter { var, ..*iter });
        }
    }
    let mut copies: Vec<Loop> = Vec::new();
    for &l in loops {
        let var = func.loop_(l).var;
        if iters.iter().any(|i| uses_var(&func.arena, i.value, &mut |v| v == var)) {
            let mut copy = func.loop_(l).clone();
            let known = func.arena.var(var).clone();
            let (new, e) = func.arena.new_var_expr(known.name, known.dtype);
            renamed.add_var(var, e);
            copy.var = new;
            copy.body = Body::new();
            copies.push(copy);
        }
    }
    for &s in &body {
        func.rewrite_subtree(s, &mut renamed);
    }
    let writes = node.writes.iter().map(|w| renamed.apply_region(&mut func.arena, w)).collect();
    for iter in &mut iters {
        iter.value = renamed.apply(&mut func.arena, iter.value);
    }
    // Conditions on the loops that are not copied restrict the reduction.
    let left: Vec<VarId> = loops.iter().map(|&l| func.loop_(l).var).filter(|&v| renamed.var(v).is_none()).collect();
    let predicate = without_loops(&mut func.arena, node.predicate, &left);
    let predicate = renamed.apply(&mut func.arena, predicate);
    let init = func.add_block(Block { iters, writes, body, ..Block::new(node.name.with_suffix("_init"), predicate) });
    let reads = accesses_of(func, init).reads;
    func.block_mut(init).reads = reads;
    let mut nest = init.stmt();
    for mut copy in copies.into_iter().rev() {
        copy.min = renamed.apply(&mut func.arena, copy.min);
        copy.extent = renamed.apply(&mut func.arena, copy.extent);
        copy.body = Body::from_slice(&[nest]);
        nest = func.add_loop(copy).stmt();
    }
    nest
}

/// Searches for a variable in the expressions of a statement.
struct Mentions<'a> {
    var: VarId,
    found: &'a mut bool,
}

impl visit::Visitor for Mentions<'_> {
    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        *self.found |= uses_var(&func.arena, e, &mut |v| v == self.var);
    }
}

/// Replaces variables, and simplifies each changed expression.
struct SimplifyingSubstitution {
    vars: Vec<(VarId, ExprId)>,
    analyzer: Analyzer,
    done: HashMap<ExprId, ExprId>,
}

impl crate::ir::Rewriter for SimplifyingSubstitution {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) => return e,
            Expr::Var(v) => {
                let found = self.vars.iter().find(|p| p.0 == v).map(|p| p.1);
                return found.map_or(e, |new| if new == e { e } else { self.analyzer.simplify(arena, new) });
            }
            _ => {}
        }
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let mut new = visit::walk_rewrite(self, arena, e);
        if new != e {
            new = self.analyzer.simplify(arena, new);
        }
        self.done.insert(e, new);
        new
    }
}
#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    #[test]
    fn what_a_binding_adds_to_its_loop_stays() {
        check(
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    for i, j in T.grid(5, 4):
        with T.block("C"):
            vi = T.axis.spatial(8, i + 2)
            vj = T.axis.spatial(4, j)
            C[vi, vj] = A[vi, vj]
"#,
            |t| {
                let loops = t.loops("C");
                t.run("blockize", vec![loops[0].into()]).map(drop)
            },
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4))):
    with T.block("C_o"):
        vi_o = T.axis.spatial(1, 0)
        vj_o = T.axis.spatial(1, 0)
        T.reads(A[2:7, 0:4])
        T.writes(C[2:7, 0:4])
        for i, j in T.grid(5, 4):
            with T.block("C"):
                vi_i = T.axis.spatial((2, 7), i + 2)
                vj_i = T.axis.spatial(4, j)
                C[vi_i, vj_i] = A[vi_i, vj_i]
"#,
        );
    }

    #[test]
    fn a_reduction_gets_its_init_outside() {
        check(
            r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8,))):
    for i_0, k_0, i_1, k_1 in T.grid(2, 3, 4, 2):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vk = T.axis.reduce(6, k_0 * 2 + k_1)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"#,
            |t| {
                let loops = t.loops("C");
                t.run("blockize", vec![loops[2].into()]).map(drop)
            },
            r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8,))):
    for i_0, k_0 in T.grid(2, 3):
        with T.block("C_o"):
            vi_o, vk_o = T.axis.remap("SR", [i_0, k_0])
            T.reads(A[vi_o * 4:vi_o * 4 + 4, vk_o * 2:vk_o * 2 + 2])
            T.writes(C[vi_o * 4:vi_o * 4 + 4])
            with T.init():
                for i_1 in range(4):
                    with T.block("C_init"):
                        vi_i_init = T.axis.spatial(4, i_1)
                        T.reads()
                        T.writes(C[vi_o * 4 + vi_i_init])
                        C[vi_o * 4 + vi_i_init] = T.float32(0)
            for i_1, k_1 in T.grid(4, 2):
                with T.block("C"):
                    vi_i, vk_i = T.axis.remap("SR", [i_1, k_1])
                    T.reads(C[vi_o * 4 + vi_i], A[vi_o * 4 + vi_i, vk_o * 2 + vk_i])
                    T.writes(C[vi_o * 4 + vi_i])
                    C[vi_o * 4 + vi_i] = C[vi_o * 4 + vi_i] + A[vi_o * 4 + vi_i, vk_o * 2 + vk_i]
"#,
        );
    }

    const TWO: &str = r#"
def main(A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)
"#;

    #[test]
    fn several_blocks_become_one() {
        check(
            TWO,
            |t| {
                let blocks = vec![t.block("B").into(), t.block("C").into()];
                t.run("blockize", vec![super::Arg::List(blocks)]).map(drop)
            },
            r#"
def main(A: T.Buffer((8, 6)), B: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i in range(8):
        with T.block("outer_B_C_"):
            vi_o = T.axis.spatial(8, i)
            vj_o = T.axis.spatial(1, 0)
            T.reads(A[vi_o, 0:6])
            T.writes(B[vi_o, 0:6], C[vi_o, 0:6])
            for j in range(6):
                with T.block("B"):
                    vj_i = T.axis.spatial(6, j)
                    B[vi_o, vj_i] = A[vi_o, vj_i]
            for j in range(6):
                with T.block("C"):
                    vj_i = T.axis.spatial(6, j)
                    C[vi_o, vj_i] = A[vi_o, vj_i] * T.float32(2)
"#,
        );
    }

    #[test]
    fn refusals() {
        refuse(
            TWO,
            |t| {
                let loops = t.loops("B");
                t.run("blockize", vec![loops[0].into()]).map(drop)
            },
            "NonSingleChildBlockError",
        );
        refuse(
            TWO,
            |t| {
                let blocks = vec![t.block("C").into(), t.block("B").into()];
                t.run("blockize", vec![super::Arg::List(blocks)]).map(drop)
            },
            "InternalError",
        );
        let skewed = r#"
def main(A: T.Buffer((13,)), B: T.Buffer((13,))):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi = T.axis.spatial(13, i * 3 + j)
            B[vi] = A[vi]
"#;
        refuse(
            skewed,
            |t| {
                let loops = t.loops("B");
                t.run("blockize", vec![loops[1].into()]).map(drop)
            },
            "SubspaceNotDivisibleError",
        );
    }
}
