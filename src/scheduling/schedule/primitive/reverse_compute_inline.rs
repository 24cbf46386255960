//! # `reverse_compute_inline`
//!
//! Inlines a block's computation into its producer.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), C: T.Buffer(32)):
//!     B = T.sblock_alloc_buffer(32)
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * 2.0
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = B[vi] + 1.0
//!
//! def steps(sch):
//!     sch.reverse_compute_inline("C")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), C: T.Buffer((32,))):
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = A[vi] * T.float32(2.0) + T.float32(1.0)
//! ```
//!
//! * Requires: one complete producer, not an output; one store that reads one element, which determines the instance;
//!   no predicate; no view. An init of the producer sets the element that its body updates.
//! * Errors: `HasInitBlock`, `NotSingleReadWriteBuffer`, `IncompleteBlockError`, `NonSingleProducerError`,
//!   `OutputBlockError`, `BodyAnalysisError`, `OnlyLeafError`, `NonSingleConsumerError`.
//! * Handles: dies: the block, loops left empty; persists: producers, other consumers.
//! * Unlike TVM: the whole computation of a producer with an init passes through the block: `B[i] = 0; B[i] = B[i] +
//!   A[i]` and `C[i] = f(B[i])` become `C[i] = f(0 + A[i])`. TVM makes `C[i] = f(0); C[i] = f(C[i] + A[i])` of it,
//!   which is correct only if `f` copies, and in that case tvmr does the same. The producer keeps its own predicate, as
//!   far as the new one does not imply it.
//! * Refused, though TVM accepts it: another reader of the buffer, which nothing would write any more; several elements
//!   per instance (`C[i] = B[2 * i]`); an update under a condition whose init is unconditional, unless the block
//!   copies.
//!
//! # Implementation
//!
//! Substitutes a block's computation into its producer, and removes the block and the intermediate buffer.
//!
//! ```text
//! for i in range(128):
//!     with T.block("B"): B[vi] = A[vi] * 2
//! for i in range(128):
//!     with T.block("C"): C[vi] = B[vi] + 1
//! # becomes, with sch.reverse_compute_inline(block=C)
//! for i in range(128):
//!     with T.block("B"): C[vi] = A[vi] * 2 + 1
//! ```
//!
//! If the block has fewer instances than the producer, the producer gets the corresponding predicate.
//!
//! A producer may have an init without being a reduction: the init then sets the element that the body updates. If the
//! block only copies, init and body work on the copy. Otherwise the init's value replaces the element in the body:
//!
//! ```text
//! for i in range(128):
//!     with T.block("B"):
//!         with T.init(): B[vi] = 0
//!         B[vi] = B[vi] + A[vi]
//! for i in range(128):
//!     with T.block("C"): C[vi] = T.exp(B[vi])
//! # becomes, with sch.reverse_compute_inline(block=C)
//! for i in range(128):
//!     with T.block("B"): C[vi] = T.exp(0 + A[vi])
//! ```
//!
//! Requires: a complete block of a stage pipeline without init and predicate, whose body is one store that reads one
//! element of the buffer, at indices that determine its iteration variables; one complete producer, which is not an
//! output and stores one element (at most under an `if`), to which its init, if any, also stores; every instance of the
//! block has an instance of the producer; no view of the buffer. Preserves: the producer's loops. Returns: nothing.
//!
//! TVM also accepts another reader of the buffer, which then nobody writes, and several elements of the buffer per
//! instance (`C[vi] = B[vi * 2]`), the last of which would win. Both are refused. TVM applies the block to the init's
//! value and lets the body update the result, which changes the result.
//!
//! Handles: dies, the block and the loops that become empty; the rest persists.

use super::super::analysis::affine::is_affine_binding;
use super::super::analysis::block_class::{check_complete, require_complete, require_not_output};
use super::super::analysis::dependence::Scope;
use super::super::analysis::guard::knowing_loops;
use super::super::analysis::tree::require_scope;
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::compute_inline::{require_no_view, require_removable, restate_accesses};
use crate::arith::Analyzer;
use crate::arith::implication::{conjuncts, implies};
use crate::arith::int_set::{self, IntSet};
use crate::arith::iter_map::{IterMapLevel, VarRange, detect_iter_map, inverse_affine_iter_map};
use crate::ir::visit::{for_each_subexpr, walk_rewrite};
use crate::ir::{
    Arena, BlockId, BlockIter, Body, BufferId, CmpOp, Expr, ExprId, ExprList, Func, Rewriter, Stmt, StmtId,
    Substitution, VarId,
};
use smallvec::SmallVec;

/// `reverse_compute_inline(block)`.
pub(crate) static REVERSE_COMPUTE_INLINE: Kind = Kind {
    name: "ReverseComputeInline",
    method: "reverse_compute_inline",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    inline(call.state(func), block)?;
    Ok(Outcome::none())
}

/// Inlines the block into its producer.
///
/// # Errors
///
/// If it cannot be inlined.
pub(crate) fn inline(state: &mut State, block: BlockId) -> Result<(), ScheduleError> {
    let plan = check(state, block)?;
    apply(state, plan);
    Ok(())
}

/// The result of the checks.
struct InlinePlan {
    scope: BlockId,
    producer: BlockId,
    /// The producer's store.
    store: StmtId,
    /// The producer's `if` without an `else`, if its condition becomes part of the predicate.
    unwrapped: Option<StmtId>,
    /// The new predicate, over the loops around the producer.
    predicate: ExprId,
    /// The intermediate buffer.
    buffer: BufferId,
    /// The new store of the producer.
    new_store: (BufferId, ExprList, ExprId),
    /// The new value of the producer's init, if the init stays.
    new_init: Option<(StmtId, ExprId)>,
    removed: StmtId,
}

fn check(state: &mut State, block: BlockId) -> Result<InlinePlan, ScheduleError> {
    let node = state.func.block(block);
    if node.init.is_some() {
        return Err(state.error(ErrorKind::HasInitBlock { block: node.name }, block));
    }
    let scope = require_scope(state, block, true)?;
    let deps = Scope::of(&state.func, scope);
    let buffer = single_written_read(state, &deps, block)?;
    require_complete(state, block, scope)?;
    let producer = single_producer(state, block, scope, buffer)?;
    let outermost = nested(&state.func, producer, scope).last().map_or(producer, |n| n.0);
    require_not_output(state, outermost, scope)?;

    let why = |why: &'static str| ErrorKind::BodyAnalysis { why };
    let fail = |state: &State, w: &'static str| Err(state.error(why(w), block));
    if !state.func.arena.is_int(state.func.block(block).predicate, 1) {
        return fail(state, "it has a predicate");
    }
    let Some((target, at, value)) = single_store(&state.func, &state.func.block(block).body) else {
        return fail(state, "its body is not a single store");
    };
    let Some(read_at) = single_access(&state.func, value, buffer) else {
        return fail(state, "it does not read the producer's buffer at one element");
    };
    let body = state.func.block(producer).body.clone();
    let (store, condition) = match body[..] {
        [s] => match state.func.get(s) {
            Stmt::If { condition, then, otherwise } if otherwise.is_empty() && then.len() == 1 => {
                (then[0], Some((s, *condition)))
            }
            _ => (s, None),
        },
        _ => return fail(state, "the producer is not a single store"),
    };
    let Stmt::Store { indices: written_at, value: written, .. } = *state.func.get(store) else {
        return fail(state, "the producer is not a single store");
    };
    let around = nested(&state.func, producer, scope);
    let made_by: Vec<BlockIter> = around.iter().flat_map(|&(b, _)| state.func.block(b).iters.iter().copied()).collect();
    let Some(inverse) = instances(&mut state.func, block, &made_by, read_at, written_at) else {
        return fail(state, "the element that it reads does not determine its instance, or has none");
    };
    let removed = require_removable(state, block)?;
    require_no_view(state, scope, buffer)?;
    if let Some(&other) =
        deps.blocks().iter().find(|&&b| b != block && b != outermost && mentions(&state.func, b, buffer))
    {
        let name = state.func.block(other).name;
        return Err(state.error(ErrorKind::OtherConsumer { block: name }, other));
    }

    let init = match init_store(&state.func, producer, buffer, written_at) {
        Ok(init) => init,
        Err(why) => return fail(state, why),
    };
    // An init also runs if the condition does not hold.
    let joined = condition.filter(|_| init.is_none());
    let (predicate, unwrapped) = predicate(&mut state.func, block, producer, &inverse, joined);
    let a = &mut state.func.arena;
    let mut vars = Substitution::of_vars(inverse);
    let new_at = a.map_list(at, |a, e| vars.apply(a, e));
    let mut new_init = None;
    let mut written = written;
    if let Some((s, start)) = init {
        let is_copy = a.expr(value) == Expr::Load(buffer, read_at);
        let element = if is_copy {
            new_init = Some((s, start));
            let at = a.list(new_at).to_vec();
            a.load(target, &at)
        } else {
            start
        };
        written = Replacer { of: Expr::Load(buffer, written_at), by: element }.rewrite_expr(a, written);
        if loads(a, written, buffer) {
            return fail(state, "the producer reads another element of the buffer than it stores");
        }
        if !is_copy && condition.is_some() {
            return fail(state, "the producer updates under a condition what its init has set");
        }
    }
    let a = &mut state.func.arena;
    let value = Substituter { vars, buffer, value: written }.rewrite_expr(a, value);
    let new_store = (target, new_at, value);
    Ok(InlinePlan { scope, producer, store, unwrapped, predicate, buffer, new_store, new_init, removed })
}

/// The store of the producer's init and its value, if it has an init.
///
/// # Errors
///
/// If the init does more than set the element that the body stores.
fn init_store(
    func: &Func,
    producer: BlockId,
    buffer: BufferId,
    written_at: ExprList,
) -> Result<Option<(StmtId, ExprId)>, &'static str> {
    let Some(init) = &func.block(producer).init else { return Ok(None) };
    match (single_store(func, init), &init[..]) {
        (Some((b, at, value)), &[s]) if (b, at) == (buffer, written_at) => Ok(Some((s, value))),
        _ => Err("the producer's init does not store just what its body updates"),
    }
}

/// The only buffer that the block reads and a block of its scope writes.
fn single_written_read(state: &State, deps: &Scope, block: BlockId) -> Result<BufferId, ScheduleError> {
    let mut found: SmallVec<[BufferId; 2]> = SmallVec::new();
    for r in &state.func.block(block).reads {
        if !found.contains(&r.buffer) && deps.writers(r.buffer).next().is_some() {
            found.push(r.buffer);
        }
    }
    match found[..] {
        [one] => Ok(one),
        _ => Err(state.error(ErrorKind::NotSingleReadWriteBuffer { access: "reads", count: found.len() }, block)),
    }
}

/// The only block that writes the buffer; if it contains blocks, the inner one.
fn single_producer(state: &State, block: BlockId, scope: BlockId, buffer: BufferId) -> Result<BlockId, ScheduleError> {
    fn visit(func: &Func, b: BlockId, buffer: BufferId, found: &mut Vec<BlockId>) {
        let before = found.len();
        for child in func.child_blocks(b.stmt()) {
            visit(func, child, buffer, found);
        }
        if found.len() == before && func.block(b).writes.iter().any(|w| w.buffer == buffer) {
            found.push(b);
        }
    }
    let func = &state.func;
    let mut found = Vec::new();
    for child in func.child_blocks(scope.stmt()) {
        visit(func, child, buffer, &mut found);
    }
    match found[..] {
        [one]
            if nested(func, one, scope).iter().all(|&(b, around)| check_complete(state, b, around.stmt()).is_ok()) =>
        {
            Ok(one)
        }
        _ => Err(state.error(ErrorKind::NonSingleProducer { block: func.block(block).name }, block)),
    }
}

/// The block and its ancestors inside `scope`, innermost first, each with its parent block.
fn nested(func: &Func, b: BlockId, scope: BlockId) -> SmallVec<[(BlockId, BlockId); 2]> {
    let mut path = SmallVec::new();
    let mut inner = b;
    while let Some(around) = func.block_above(inner.stmt()).filter(|_| inner != scope) {
        path.push((inner, around));
        inner = around;
    }
    path
}

fn single_store(func: &Func, body: &Body) -> Option<(BufferId, ExprList, ExprId)> {
    match body[..] {
        [s] => match *func.get(s) {
            Stmt::Store { buffer, indices, value } => Some((buffer, indices, value)),
            _ => None,
        },
        _ => None,
    }
}

/// The indices of all loads of the buffer in the value, if they are equal.
fn single_access(func: &Func, value: ExprId, buffer: BufferId) -> Option<ExprList> {
    let mut found: SmallVec<[ExprList; 2]> = SmallVec::new();
    for_each_subexpr(&func.arena, value, &mut |e| {
        if let Expr::Load(b, indices) = func.arena.expr(e)
            && b == buffer
            && !found.contains(&indices)
        {
            found.push(indices);
        }
    });
    match found[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Whether the expression loads from the buffer.
fn loads(a: &Arena, e: ExprId, buffer: BufferId) -> bool {
    let mut found = false;
    for_each_subexpr(a, e, &mut |e| found |= matches!(a.expr(e), Expr::Load(b, _) if b == buffer));
    found
}

/// The block's iteration variables as expressions of those of and around the producer, for the instance that reads the
/// element written by an instance of the producer.
fn instances(
    func: &mut Func,
    block: BlockId,
    made_by: &[BlockIter],
    read_at: ExprList,
    written_at: ExprList,
) -> Option<Vec<(VarId, ExprId)>> {
    let Func { arena: a, stmts, .. } = func;
    let node = stmts.block(block);
    let domain: SmallVec<[VarRange; 4]> =
        node.iters.iter().map(|i| VarRange { var: i.var, min: i.min, extent: i.extent }).collect();
    let read: SmallVec<[ExprId; 4]> = a.list(read_at).iter().copied().collect();
    let written: SmallVec<[ExprId; 4]> = a.list(written_at).iter().copied().collect();
    let mut analyzer = Analyzer::new();
    let always = a.bool(true);
    let map = detect_iter_map(a, &read, &domain, always, IterMapLevel::NoCheck, &mut analyzer, false).ok()?;
    let mut inverse: Vec<(VarId, ExprId)> = inverse_affine_iter_map(a, &map, &written).ok()?;
    for iter in &node.iters {
        if a.is_int(iter.extent, 1) && a.as_int(iter.min).is_some() && inverse.iter().all(|(v, _)| *v != iter.var) {
            inverse.push((iter.var, iter.min));
        }
    }
    let domains: Vec<(VarId, IntSet)> =
        made_by.iter().map(|i| (i.var, IntSet::from_range(a, i.min, i.extent))).collect();
    for iter in made_by {
        analyzer.bind(a, iter.var, iter.min, iter.extent);
    }
    // Every instance is reached: the producer's values exceed the domain on both sides.
    let mut back = Substitution::default();
    let mut inside = a.bool(true);
    for iter in &node.iters {
        let &(_, value) = inverse.iter().find(|(v, _)| *v == iter.var)?;
        let set = int_set::eval_set(a, value, &domains);
        let (low, high) = (set.lower()?, set.upper()?);
        let last = a.add(iter.min, iter.extent);
        let last = a.add_const(last, -1);
        let (starts, ends) = (a.compare(CmpOp::Le, low, iter.min), a.compare(CmpOp::Ge, high, last));
        if !analyzer.can_prove(a, starts) || !analyzer.can_prove(a, ends) {
            return None;
        }
        back.add_var(iter.var, value);
        let end = a.add(iter.min, iter.extent);
        let (above, below) = (a.compare(CmpOp::Ge, value, iter.min), a.lt(value, end));
        inside = a.and(inside, above);
        inside = a.and(inside, below);
    }
    // The instance reads this element.
    let same = read.iter().zip(&written).all(|(&r, &w)| {
        let r = back.apply(a, r);
        let equal = a.compare(CmpOp::Eq, r, w);
        analyzer.with_constraint(a, inside, |analyzer, a| analyzer.can_prove(a, equal))
    });
    same.then_some(inverse)
}

/// Whether the block, or one inside it, reads or writes the buffer.
fn mentions(func: &Func, b: BlockId, buffer: BufferId) -> bool {
    let node = func.block(b);
    node.reads.iter().chain(&node.writes).any(|r| r.buffer == buffer)
        || func.child_blocks(b.stmt()).into_iter().any(|c| mentions(func, c, buffer))
}

/// The producer's new predicate, and the `if` whose condition it contains.
fn predicate(
    func: &mut Func,
    block: BlockId,
    producer: BlockId,
    inverse: &[(VarId, ExprId)],
    condition: Option<(StmtId, ExprId)>,
) -> (ExprId, Option<StmtId>) {
    let Func { arena: a, stmts, .. } = func;
    let (node, made_by) = (stmts.block(block), stmts.block(producer));
    let mut analyzer = Analyzer::new();
    for iter in &made_by.iters {
        analyzer.bind(a, iter.var, iter.min, iter.extent);
    }
    let mut inside = a.bool(true);
    for iter in &node.iters {
        let v = a.var_expr(iter.var);
        let end = a.add(iter.min, iter.extent);
        let (above, below) = (a.compare(CmpOp::Ge, v, iter.min), a.lt(v, end));
        inside = a.and(inside, above);
        inside = a.and(inside, below);
    }
    let inside = Substitution::of_vars(inverse.iter().copied()).apply(a, inside);
    let mut inside = analyzer.simplify(a, inside);
    if a.is_int(inside, 1) {
        return (made_by.predicate, None);
    }
    let mut unwrapped = None;
    if let Some((s, condition)) = condition {
        let known = analyzer.simplify(a, condition);
        if known != inside {
            let both = a.and(inside, condition);
            inside = analyzer.simplify(a, both);
            unwrapped = Some(s);
        }
    }
    let outer = Substitution::of_vars(made_by.iters.iter().map(|i| (i.var, i.value))).apply(a, inside);
    let outer = analyzer.simplify(a, outer);
    (joined_with_own(func, producer, outer), unwrapped)
}

/// The conjunction of the block's predicate and another one over the loops around it, without redundant parts. (TVM
/// drops the block's own predicate, although its loops may exceed the domain.)
fn joined_with_own(func: &mut Func, block: BlockId, other: ExprId) -> ExprId {
    let mut analyzer = knowing_loops(func, block);
    let own = func.block(block).predicate;
    let a = &mut func.arena;
    if a.is_int(own, 1) {
        return other;
    }
    let mut own = conjuncts(a, own);
    own.retain(|e| !implies(a, &mut analyzer, other, *e));
    let own = own.into_iter().fold(a.bool(true), |all, e| a.and(all, e));
    let mut new = conjuncts(a, other);
    new.retain(|e| !implies(a, &mut analyzer, own, *e));
    let all = new.into_iter().fold(own, |all, e| a.and(all, e));
    analyzer.simplify(a, all)
}

/// Replaces one expression by another.
struct Replacer {
    of: Expr,
    by: ExprId,
}

impl Rewriter for Replacer {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if arena.expr(e) == self.of { self.by } else { walk_rewrite(self, arena, e) }
    }
}

/// Replaces the block's variables by those of the producer, and its load by the value that the producer would store.
struct Substituter {
    vars: Substitution,
    buffer: BufferId,
    value: ExprId,
}

impl Rewriter for Substituter {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        match arena.expr(e) {
            Expr::Var(v) => self.vars.var(v).unwrap_or(e),
            Expr::Load(buffer, _) if buffer == self.buffer => self.value,
            _ => walk_rewrite(self, arena, e),
        }
    }
}

fn apply(state: &mut State, plan: InlinePlan) {
    let InlinePlan { scope, producer, store, unwrapped, predicate, buffer, new_store, new_init, removed } = plan;
    let func = &mut state.func;
    func.cut(removed);
    func.block_mut(scope).allocs.retain(|&b| b != buffer);
    let (target, indices, value) = new_store;
    *func.stmt_mut(store) = Stmt::Store { buffer: target, indices, value };
    match new_init {
        Some((s, value)) => *func.stmt_mut(s) = Stmt::Store { buffer: target, indices, value },
        None => func.set_init(producer, None),
    }
    if let Some(condition) = unwrapped {
        func.cut(store);
        func.replace(condition, &[store]);
    }
    func.block_mut(producer).predicate = predicate;
    let all = func.subtree(scope.stmt());
    restate_accesses(func, &all[1..], buffer);
    let loops = func.loops_above(producer.stmt());
    let affine_binding = is_affine_binding(func, producer, &loops);
    state.update_info(producer, |info| info.affine_binding = affine_binding);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::error::ScheduleError;

    fn inline(name: &'static str) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| {
            let block = t.block(name);
            t.run("reverse_compute_inline", vec![block.into()]).map(drop)
        }
    }

    const CHAIN: &str = r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] * T.float32(2)
"#;

    #[test]
    fn the_producer_takes_over() {
        check(
            CHAIN,
            inline("C"),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            C[vj, vi] = (A[vi, vj] + T.float32(1)) * T.float32(2)
"#,
        );
    }

    const INIT: &str = r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            with T.init():
                B[vi, vj] = T.float32(3)
            B[vi, vj] = B[vi, vj] + A[vi, vj]
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi]
"#;

    #[test]
    fn a_copy_gets_the_init() {
        check(
            INIT,
            inline("C"),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            with T.init():
                C[vj, vi] = T.float32(3)
            C[vj, vi] = C[vj, vi] + A[vi, vj]
"#,
        );
    }

    #[test]
    fn what_is_computed_of_an_init_and_an_update_is_computed_at_once() {
        check(
            &INIT.replace("C[vi, vj] = B[vj, vi]", "C[vi, vj] = B[vj, vi] * T.float32(2)"),
            inline("C"),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            C[vj, vi] = (T.float32(3) + A[vi, vj]) * T.float32(2)
"#,
        );
    }

    #[test]
    fn a_condition_stays_behind_the_init() {
        let guarded = INIT
            .replace("            B[vi, vj] = B", "            if vi < 3:\n                B[vi, vj] = B")
            .replace("T.grid(4, 8)", "T.grid(4, 6)")
            .replace(
                "vi, vj = T.axis.remap(\"SS\", [i, j])\n            C",
                "vi = T.axis.spatial(4, i)\n            vj = T.axis.spatial(6, j)\n            C",
            );
        check(
            &guarded,
            inline("C"),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 6)
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            with T.init():
                C[vj, vi] = T.float32(3)
            if vi < 3:
                C[vj, vi] = C[vj, vi] + A[vi, vj]
"#,
        );
        refuse(&guarded.replace("= B[vj, vi]", "= B[vj, vi] * T.float32(2)"), inline("C"), "BodyAnalysisError");
        let sometimes = "if vi < 3:\n                    B[vi, vj] = T.float32(3)";
        refuse(&INIT.replace("B[vi, vj] = T.float32(3)", sometimes), inline("C"), "BodyAnalysisError");
    }

    #[test]
    fn fewer_instances_give_a_predicate() {
        check(
            &CHAIN.replace("T.grid(4, 8)", "T.grid(4, 6)").replace(
                "vi, vj = T.axis.remap(\"SS\", [i, j])\n            C",
                "vi = T.axis.spatial(4, i)\n            vj = T.axis.spatial(6, j)\n            C",
            ),
            inline("C"),
            r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 6)
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            C[vj, vi] = (A[vi, vj] + T.float32(1)) * T.float32(2)
"#,
        );
    }

    #[test]
    fn what_the_producer_leaves_out_already_is_not_said_twice() {
        let guarded = |bound: usize| {
            CHAIN
                .replace(
                    "            B[vi, vj] = A",
                    &format!("            T.where(i < {bound})\n            B[vi, vj] = A"),
                )
                .replace("T.grid(4, 8)", "T.grid(4, 6)")
                .replace(
                    "vi, vj = T.axis.remap(\"SS\", [i, j])\n            C",
                    "vi = T.axis.spatial(4, i)\n            vj = T.axis.spatial(6, j)\n            C",
                )
        };
        for (bound, expected) in [(6, "i < 6"), (7, "i < 6")] {
            check(
                &guarded(bound),
                inline("C"),
                &format!(
                    r#"
def main(A: T.Buffer((8, 4)), C: T.Buffer((4, 8))):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where({expected})
            T.reads(A[vi, vj])
            T.writes(C[vj, vi])
            C[vj, vi] = (A[vi, vj] + T.float32(1)) * T.float32(2)
"#
                ),
            );
        }
    }

    #[test]
    fn refusals() {
        let second = r#"
    for i, j in T.grid(4, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vj, vi]
"#;
        let two = CHAIN.replace("C: T.Buffer((4, 8))", "C: T.Buffer((4, 8)), D: T.Buffer((4, 8))") + second;
        refuse(&two, inline("C"), "NonSingleConsumerError");
        refuse(
            &CHAIN.replace("C[vi, vj] = B[vj, vi]", "C[vi, vj] = B[vj, vi // 2 * 2]"),
            inline("C"),
            "BodyAnalysisError",
        );
        refuse(&CHAIN.replace("B[vj, vi] * T.float32(2)", "B[vj, vi] + B[vj, 0]"), inline("C"), "BodyAnalysisError");
        refuse(CHAIN, inline("B"), "NotSingleReadWriteBuffer");
    }
}
