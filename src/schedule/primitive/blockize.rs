//! Makes one block of a subtree: of the loops from a given one inwards and the block below them, or of several blocks.
//!
//!     for i_0, j_0, i_1, j_1 in T.grid(4, 4, 8, 8):
//!         with T.block("B"): B[vi, vj] = A[vi, vj]          # vi = i_0 * 8 + i_1, …
//!     # becomes, at i_1
//!     for i_0, j_0 in T.grid(4, 4):
//!         with T.block("B_o"):                              # vi_o = i_0, vj_o = j_0
//!             for i_1, j_1 in T.grid(8, 8):
//!                 with T.block("B"):                        # vi_i = i_1, vj_i = j_1
//!                     B[vi_o * 8 + vi_i, vj_o * 8 + vj_i] = A[…]
//!
//! Under an outer reduction the init moves to the outer block, with a nest of its own.
//!
//! Requires: one block below the loop (the blocks of a list are directly below one loop or block, next to each other);
//! each binding is `outer * extent + inner` of the loops outside and inside. Preserves: the loops. Returns: the outer
//! block.
//!
//! Handles: persist, the blocks (as inner blocks) and loops; created, the outer block.

use super::super::analysis::access::accesses_of;
use super::super::analysis::tree::{common_ancestor, require_scope};
use super::super::analysis::update_scope_info;
use super::super::arg::{Arg, FuncIndex, RvValue};
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::{BlockInfo, State};
use super::decompose_reduction::without_loops;
use crate::arith::implication::implies;
use crate::arith::iter_map::{IterMapLevel, Part, VarRange, subspace_divide};
use crate::arith::{Analyzer, IntSet, int_set};
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, BufferId, BufferRegion, CmpOp, Expr, ExprId, Func, IterKind, Loop, LoopId,
    StmtId, Substitution, VarId, visit,
};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// `blockize(target, preserve_unit_iters=True)`.
pub static BLOCKIZE: Kind = Kind {
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

/// Makes a block of the subtree of a loop.
///
/// # Errors
/// If that is not possible.
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

/// A binding divided into an outer and an inner part.
#[derive(Clone, Copy, Debug)]
struct Division {
    outer: ExprId,
    outer_first: i64,
    outer_extent: ExprId,
    inner: ExprId,
    inner_extent: ExprId,
    /// The least value of the inner part: what the binding adds to the loops belongs to it.
    first: i64,
    /// Where the parts together count past the domain: the end of the domain.
    end: Option<ExprId>,
}

/// What the checks found for one block.
struct Plan {
    block: BlockId,
    /// The loops that become inner, outermost first.
    inner_loops: Vec<LoopId>,
    divisions: Vec<Division>,
    outer_predicate: ExprId,
    inner_predicate: ExprId,
    preserve_unit_iters: bool,
}

/// Checks that the subtree of a loop can be made a block.
///
/// # Errors
/// If it cannot.
fn check(state: &mut State, at: LoopId, preserve_unit_iters: bool) -> Result<Plan, ScheduleError> {
    let block = match state.func.child_blocks(at.stmt())[..] {
        [block] => block,
        ref found => {
            return Err(state.error(ErrorKind::NonSingleChildBlock { what: "loop", count: found.len() }, at));
        }
    };
    let loops = state.func.loops_above(block.stmt());
    let first = loops.iter().position(|&l| l == at).expect("the loop is around its block");
    divide(state, block, &loops, first, preserve_unit_iters)
}

/// Divides the bindings of a block between the loops before and from position `first` on.
fn divide(
    state: &mut State,
    block: BlockId,
    loops: &[LoopId],
    first: usize,
    preserve_unit_iters: bool,
) -> Result<Plan, ScheduleError> {
    let Func { arena, stmts, .. } = &mut state.func;
    let node = stmts.block(block);
    let domain: SmallVec<[VarRange; 8]> = loops
        .iter()
        .map(|&l| {
            let node = stmts.loop_(l);
            VarRange { var: node.var, min: node.min, extent: node.extent }
        })
        .collect();
    let inner_vars: SmallVec<[VarId; 8]> = domain[first..].iter().map(|r| r.var).collect();
    let values: SmallVec<[ExprId; 8]> = node.iters.iter().map(|i| i.value).collect();
    let level = IterMapLevel::Surjective;
    let mut analyzer = Analyzer::new();
    let divided = subspace_divide(
        arena,
        &values,
        &domain,
        &inner_vars,
        node.predicate,
        level,
        &mut analyzer,
        !preserve_unit_iters,
    );
    let always = arena.bool(true);
    let (divisions, outer_predicate, inner_predicate) = match divided {
        Some(d) => {
            let divisions = d
                .divisions
                .iter()
                .map(|part| {
                    let first = match &part.inner {
                        Part::Split(_) => 0,
                        Part::Sum(sum) => arena.as_int(sum.base)?,
                    };
                    Some(Division {
                        outer: d.to_expr(arena, &mut analyzer, &part.outer),
                        outer_first: 0,
                        outer_extent: part.outer_extent,
                        inner: d.to_expr(arena, &mut analyzer, &part.inner),
                        inner_extent: part.inner_extent,
                        first,
                        end: None,
                    })
                })
                .collect();
            (divisions, d.outer_predicate, d.inner_predicate)
        }
        None => {
            let outer_vars: SmallVec<[VarId; 8]> = domain[..first].iter().map(|r| r.var).collect();
            (divide_trivially(arena, node, &outer_vars, &inner_vars), always, always)
        }
    };
    let Some(mut divisions) = divisions else {
        let kind = ErrorKind::SubspaceNotDivisible { block: node.name };
        return Err(state.error(kind, block));
    };
    // What the outer block states must not mention loops inside it.
    let mentions = |e: ExprId| uses_var(arena, e, &mut |v| inner_vars.contains(&v));
    if divisions.iter().any(|d| mentions(d.outer_extent) || mentions(d.inner_extent)) {
        let kind = ErrorKind::SubspaceNotDivisible { block: node.name };
        return Err(state.error(kind, block));
    }
    // The init moves out of the inner loops; one that drives nothing would then repeat the updates alone.
    if node.init.is_some() && node.iters.iter().any(|i| i.kind == IterKind::Reduce) {
        let drives = |v: VarId| node.iters.iter().any(|i| uses_var(arena, i.value, &mut |u| u == v));
        let idle = domain[first..].iter().any(|r| !arena.is_int(r.extent, 1) && !drives(r.var));
        if idle {
            let kind = ErrorKind::RepeatedReduction { block: node.name };
            return Err(state.error(kind, block));
        }
    }
    // What the bindings and the predicate say must be in the parts. TVM forgets a bound on a single loop, and does not
    // see loops around a block without iteration variables.
    let known = |v: VarId| domain.iter().any(|r| r.var == v);
    let all_known = values.iter().chain([&node.predicate]).all(|&e| !uses_var(arena, e, &mut |v| !known(v)));
    let kept = arena.and(outer_predicate, inner_predicate);
    let predicate = node.predicate;
    let mut analyzer = Analyzer::new();
    for r in &domain {
        analyzer.bind(arena, r.var, r.min, r.extent);
    }
    let mut inside = kept;
    for (iter, d) in node.iters.iter().zip(&mut divisions) {
        let dtype = arena.dtype(iter.value);
        let end = arena.add(iter.min, iter.extent);
        let below = arena.lt(iter.value, end);
        let (outer, inner) = (arena.cast(dtype, d.outer_extent), arena.cast(dtype, d.inner_extent));
        let reached = arena.mul(outer, inner);
        let reached = arena.add_const(reached, d.first + d.outer_first);
        let fits = arena.compare(CmpOp::Le, reached, end);
        if !analyzer.can_prove(arena, fits) && !implies(arena, &mut analyzer, kept, below) {
            d.end = Some(end);
        }
        inside = arena.and(inside, below);
        // The domains of the new variables.
        let outer_end = arena.add_const(d.outer_extent, d.outer_first);
        let inner_end = arena.add_const(d.inner_extent, d.first);
        for (part, extent) in [(d.outer, outer_end), (d.inner, inner_end)] {
            if arena.dtype(part) == arena.dtype(extent) {
                let below = arena.lt(part, extent);
                inside = arena.and(inside, below);
            }
        }
    }
    if !all_known || !implies(arena, &mut analyzer, inside, predicate) {
        let kind = ErrorKind::SubspaceNotDivisible { block: state.func.block(block).name };
        return Err(state.error(kind, block));
    }
    let (mut outer_predicate, mut inner_predicate) = (outer_predicate, inner_predicate);
    // An end of what lies on one side is a matter of that side; others are stated when the outer variables exist.
    for d in &mut divisions {
        let arena = &mut state.func.arena;
        let Some(end) = d.end else { continue };
        let is_unit = |e: ExprId| arena.is_int(e, 1);
        let (one_sided, (value, predicate)) = match (is_unit(d.outer_extent), is_unit(d.inner_extent)) {
            (_, true) => (true, (arena.add_const(d.outer, d.first), &mut outer_predicate)),
            (true, false) => (true, (d.inner, &mut inner_predicate)),
            // A tile must begin inside, or what it allocates has no extent.
            (false, false) => {
                let extent = arena.cast(arena.dtype(d.outer), d.inner_extent);
                let begin = arena.mul(d.outer, extent);
                (false, (arena.add_const(begin, d.first), &mut outer_predicate))
            }
        };
        let below = arena.lt(value, end);
        *predicate = arena.and(*predicate, below);
        if one_sided {
            d.end = None;
        }
    }
    let inner_loops = loops[first..].to_vec();
    Ok(Plan { block, inner_loops, divisions, outer_predicate, inner_predicate, preserve_unit_iters })
}

/// The division of bindings each of which uses only outer or only inner loops, in whatever way.
fn divide_trivially(arena: &mut Arena, node: &Block, outer: &[VarId], inner: &[VarId]) -> Option<Vec<Division>> {
    if !arena.is_int(node.predicate, 1) {
        return None;
    }
    node.iters
        .iter()
        .map(|iter| {
            let (zero, one) = (arena.int32(0), arena.int32(1));
            let in_outer = uses_var(arena, iter.value, &mut |v| outer.contains(&v));
            let in_inner = uses_var(arena, iter.value, &mut |v| inner.contains(&v));
            let whole = (iter.value, iter.extent);
            let ((outer, outer_extent), (inner, inner_extent)) = match (in_outer, in_inner) {
                (true, true) => return None,
                (true, false) => (whole, (zero, one)),
                (false, true) => ((zero, one), whole),
                (false, false) => ((zero, one), (zero, one)),
            };
            let min = arena.as_int(iter.min)?;
            let (outer_first, first) = match (in_outer, in_inner) {
                (true, _) => (min, 0),
                (_, true) => (0, min),
                _ => (0, 0),
            };
            Some(Division { outer, outer_first, outer_extent, inner, inner_extent, first, end: None })
        })
        .collect()
}

/// The iteration variables of the outer block, with fresh variables.
fn outer_iters(func: &mut Func, plan: &Plan) -> Vec<BlockIter> {
    let iters = func.block(plan.block).iters.clone();
    let arena = &mut func.arena;
    iters
        .iter()
        .zip(&plan.divisions)
        .map(|(iter, d)| {
            let known = arena.var(iter.var).clone();
            let var = arena.new_var(known.name.with_suffix("_o"), known.dtype);
            let min = arena.int(d.outer_first, arena.dtype(d.outer_extent));
            BlockIter { var, min, extent: d.outer_extent, kind: iter.kind, value: d.outer }
        })
        .collect()
}

/// What the inner block accesses over the outer variables, and the init that it had.
struct Inner {
    reads: Vec<BufferRegion>,
    writes: Vec<BufferRegion>,
    init: Option<Body>,
}

/// Rewrites the block over its inner iteration variables and those of the outer block. It loses its init.
fn make_inner(func: &mut Func, plan: &Plan, outer: &[BlockIter]) -> Inner {
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
            let min = arena.int(d.first, arena.dtype(d.inner_extent));
            inner_iters.push(BlockIter { var, min, extent: d.inner_extent, kind: iter.kind, value: d.inner });
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

fn apply(state: &mut State, plan: Plan) -> BlockId {
    let func = &mut state.func;
    let block = plan.block;
    let iters = outer_iters(func, &plan);
    let inner = make_inner(func, &plan, &iters);
    let node = func.block(block).clone();
    if inner.init.is_some() && iters.iter().any(|i| i.kind == IterKind::Reduce) {
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

/// The nest that initialises what the outer block reduces: copies of the loops that it needs, around a block with the
/// former init. `node` is the inner block.
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
    // What is said of the loops that are not copied is about the reduction.
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

/// Looks for a variable in the expressions of a statement.
struct Mentions<'a> {
    var: VarId,
    found: &'a mut bool,
}

impl visit::Visitor for Mentions<'_> {
    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        *self.found |= uses_var(&func.arena, e, &mut |v| v == self.var);
    }
}

/// Replaces variables, and simplifies each expression in which it has.
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

/// What the checks found for several blocks.
struct BlocksPlan {
    parts: Vec<Plan>,
    /// The loop or block that they are directly below.
    at: StmtId,
    /// The statements below it that hold them.
    subtrees: Vec<StmtId>,
}

fn check_blocks(state: &mut State, blocks: &[BlockId], preserve_unit_iters: bool) -> Result<BlocksPlan, ScheduleError> {
    let stmts: Vec<StmtId> = blocks.iter().map(|b| b.stmt()).collect();
    let at = common_ancestor(&state.func, &stmts).expect("there is a first block");
    let refuse = |state: &State, problem: &'static str, b: BlockId| {
        Err(state.error(ErrorKind::BlocksNotConsecutive { problem }, b))
    };
    if stmts.contains(&at) {
        return refuse(state, "one of the blocks holds the others", blocks[0]);
    }
    let scope = require_scope(state, blocks[0], false)?;
    let mut parts: Vec<Plan> = Vec::new();
    let mut subtrees: Vec<StmtId> = Vec::new();
    for &block in blocks {
        if require_scope(state, block, false)? != scope {
            return refuse(state, "the blocks are in different scopes", block);
        }
        let loops = state.func.loops_above(block.stmt());
        let first = loops.iter().position(|l| l.stmt() == at).map_or(0, |i| i + 1);
        let top = loops.get(first).map_or(block.stmt(), |l| l.stmt());
        let alone = top == block.stmt() || state.func.child_blocks(top)[..] == [block];
        if !alone || state.func.parent(top) != Some(at) {
            return refuse(state, "another statement stands in its loops", block);
        }
        if subtrees.contains(&top) {
            return refuse(state, "a block is named twice", block);
        }
        parts.push(divide(state, block, &loops, first, preserve_unit_iters)?);
        subtrees.push(top);
    }
    let positions: Vec<usize> = subtrees.iter().filter_map(|&s| state.func.place(s).map(|p| p.position)).collect();
    if positions.windows(2).any(|pair| pair[1] != pair[0] + 1) {
        return refuse(state, "the blocks do not follow each other directly, in the order given", blocks[0]);
    }
    let (head, rest) = parts.split_first().expect("there is a first block");
    for part in rest {
        let same = part.divisions.len() == head.divisions.len()
            && part
                .divisions
                .iter()
                .zip(&head.divisions)
                .all(|(a, b)| (a.outer, a.outer_extent) == (b.outer, b.outer_extent));
        if !same {
            return refuse(state, "their outer bindings differ", part.block);
        }
    }
    let func = &state.func;
    let reduces = |p: &Plan| {
        let iters = func.block(p.block).iters.iter().zip(&p.divisions);
        func.block(p.block).init.is_some()
            && iters.into_iter().any(|(i, d)| i.kind == IterKind::Reduce && !func.arena.is_int(d.outer_extent, 1))
    };
    if let Some(p) = parts.iter().find(|p| reduces(p)) {
        return refuse(state, "an outer loop is a reduction loop", p.block);
    }
    Ok(BlocksPlan { parts, at, subtrees })
}

fn apply_blocks(state: &mut State, plan: BlocksPlan) -> BlockId {
    let BlocksPlan { parts, at, subtrees } = plan;
    let func = &mut state.func;
    let iters = outer_iters(func, &parts[0]);
    let mut name = "outer_".to_string();
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for part in &parts {
        let inner = make_inner(func, part, &iters);
        func.set_init(part.block, inner.init);
        name += &format!("{}_", func.block(part.block).name);
        reads.extend(inner.reads);
        writes.extend(inner.writes);
    }
    let (reads, writes) = (united(func, &reads), united(func, &writes));
    let scope = func.block_above(subtrees[0]).expect("the blocks stand in a block");
    let place = func.place(subtrees[0]).expect("the blocks stand in the tree");
    for &s in &subtrees {
        func.cut(s);
    }
    let outer = func.add_block(Block {
        iters,
        reads,
        writes,
        body: Body::from_slice(&subtrees),
        ..Block::new(name.as_str(), parts[parts.len() - 1].outer_predicate)
    });
    func.insert_at(place, &[outer.stmt()]);
    debug_assert_eq!(place.parent, at, "the blocks stand directly below their common ancestor");
    update_scope_info(state, scope);
    outer
}

/// One region per buffer, that holds all of its regions, in order of appearance.
fn united(func: &mut Func, regions: &[BufferRegion]) -> Vec<BufferRegion> {
    let arena = &mut func.arena;
    let mut found: Vec<(BufferId, Vec<Vec<IntSet>>)> = Vec::new();
    for r in regions {
        let ranges: SmallVec<[(ExprId, ExprId); 4]> = r.ranges(arena).collect();
        let sets = ranges.into_iter().map(|(min, extent)| IntSet::from_range(arena, min, extent));
        let sets: Vec<IntSet> = sets.collect();
        match found.iter_mut().find(|f| f.0 == r.buffer) {
            None => found.push((r.buffer, sets.into_iter().map(|s| vec![s]).collect())),
            Some((_, dims)) => dims.iter_mut().zip(sets).for_each(|(all, s)| all.push(s)),
        }
    }
    found
        .into_iter()
        .map(|(buffer, dims)| {
            let shape: SmallVec<[ExprId; 4]> = arena.list(arena.buffer(buffer).shape).iter().copied().collect();
            let covers: SmallVec<[(ExprId, ExprId); 4]> = dims
                .iter()
                .zip(shape)
                .map(|(all, extent)| {
                    let zero = arena.int(0, arena.dtype(extent));
                    int_set::union(arena, all).cover_range(arena, (zero, extent))
                })
                .collect();
            BufferRegion::new(arena, buffer, &covers)
        })
        .collect()
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
