//! Sets the contents of positions without an element in a new layout (TVM's `TransformLayoutPlanner`).
//!
//! * Nothing writes the buffer: an earlier block states the contents that the caller provides.
//!
//! ```text
//!   with T.block("buffer_A_assumptions"):
//!       T.evaluate(T.assume(not padding(v) or A[v] == pad_value))
//! ```
//!
//! * A store is in a nest that iterates over the old axes in order: the nest iterates over the new ones.
//!
//! ```text
//!   for i in range(9): B[vi] = f(vi)
//!   # becomes, with lambda i: (i // 4, i % 4)
//!   for axis0, axis1 in T.grid(3, 4):
//!       B[v0, v1] = T.if_then_else(v0 == 2 and 1 <= v1, pad_value, f(v0 * 4 + v1))
//! ```
//!
//! * Otherwise a block after the last store writes the padding.

use super::super::super::analysis::index_map::{IndexMap, Indices, Inverse};
use super::super::cache::access::bounds_to_check;
use crate::arith::Analyzer;
use crate::ir::visit::uses_var;
use crate::ir::{
    Arena, Block, BlockId, BlockIter, Body, BufferId, BufferRegion, CmpOp, Expr, ExprId, ExprList, Func, Intrinsic,
    IterKind, LoopId, LoopKind, Stmt, StmtId, Substitution, VarId,
};
use smallvec::SmallVec;

/// A value over the new indices.
pub(super) struct PadValue {
    /// Variables for the indices; none if the value is constant.
    pub params: SmallVec<[VarId; 4]>,
    /// The value.
    pub value: ExprId,
}

impl PadValue {
    fn at(&self, a: &mut Arena, indices: &[ExprId]) -> ExprId {
        let e = Substitution::of_vars(self.params.iter().copied().zip(indices.iter().copied())).apply(a, self.value);
        Analyzer::new().simplify(a, e)
    }
}

/// The way to make the padding.
pub(super) struct Padding {
    inverse: Inverse,
    shape: Indices,
    value: PadValue,
    place: Place,
}

enum Place {
    /// Before the scope's statements, as an assumption.
    InFront,
    /// In these nests, each given by its outermost loop and the inner loops over the old axes.
    Inside(Vec<Nest>),
    /// After this statement.
    Behind(StmtId),
}

/// A nest that iterates over the old axes.
struct Nest {
    loops: Vec<LoopId>,
    /// The block inside, if there is one, with the positions of its variables for the axes.
    block: Option<(BlockId, Vec<usize>)>,
    indices: ExprList,
}

/// A store to the buffer.
struct Write {
    store: StmtId,
    /// The loops from the first to the last one that the indices use.
    nest: Vec<LoopId>,
    block: Option<BlockId>,
}

impl Padding {
    /// Chooses the way to make the padding.
    pub(super) fn plan(
        func: &mut Func,
        scope: BlockId,
        buffer: BufferId,
        map: &IndexMap,
        shape: &[ExprId],
        mut inverse: Inverse,
        value: PadValue,
    ) -> Padding {
        name_kept_axes(&mut func.arena, map, &mut inverse);
        let writes = writes(func, scope, buffer);
        let place = match writes.last() {
            None => Place::InFront,
            Some(last) => {
                let mut nests: Vec<Nest> = writes.iter().filter_map(|w| row_major_nest(func, w, buffer)).collect();
                let mut seen: Vec<LoopId> = Vec::new();
                nests.retain(|n| {
                    let first = !seen.contains(&n.loops[0]);
                    seen.push(n.loops[0]);
                    first && only_stores_here(func, n, buffer)
                });
                // One nest suffices: the others do not write padding.
                match nests.is_empty() {
                    false => Place::Inside(nests),
                    true => Place::Behind(match (last.nest.first(), last.block) {
                        (Some(l), _) => l.stmt(),
                        (None, Some(b)) if b != scope => b.stmt(),
                        (None, _) => last.store,
                    }),
                }
            }
        };
        Padding { inverse, shape: shape.into(), value, place }
    }

    /// Makes the padding; returns whether there are new blocks.
    pub(super) fn apply(self, func: &mut Func, scope: BlockId, old: BufferId, new: BufferId) -> bool {
        match &self.place {
            Place::InFront => {
                let nest = self.new_nest(func, new, true);
                let body = if func.block(scope).init.is_some() { 1 } else { 0 };
                func.insert(scope.stmt(), body, 0, &[nest]);
                true
            }
            Place::Behind(s) => {
                let nest = self.new_nest(func, new, false);
                let mut place = func.place(*s).expect("a store stands in the tree");
                place.position += 1;
                func.insert_at(place, &[nest]);
                true
            }
            Place::Inside(nests) => {
                for nest in nests {
                    self.rewrite_nest(func, nest, old, new);
                }
                false
            }
        }
    }

    /// Fresh variables for the new axes.
    fn axes(&self, func: &mut Func, prefix: &str) -> Vec<(VarId, ExprId)> {
        let a = &mut func.arena;
        let fresh = |&p: &VarId| {
            let (name, dtype) = (a.var(p).name, a.var(p).dtype);
            a.new_var_expr(format!("{prefix}{name}").as_str(), dtype)
        };
        self.inverse.map.params.iter().map(fresh).collect()
    }

    /// The block that assumes or writes the padding, in loops over the new axes.
    fn new_nest(&self, func: &mut Func, new: BufferId, assume: bool) -> StmtId {
        let loops = self.axes(func, "");
        let vars = self.axes(func, "v_");
        let a = &mut func.arena;
        let values: Indices = vars.iter().map(|v| v.1).collect();
        let iters: Vec<BlockIter> = (vars.iter().zip(&loops).zip(&self.shape))
            .map(|((&(var, _), &(_, value)), &extent)| {
                let dtype = a.var(var).dtype;
                let (min, extent) = (a.int(0, dtype), a.cast(dtype, extent));
                BlockIter { var, min, extent, kind: IterKind::Spatial, value }
            })
            .collect();
        let params = &self.inverse.map.params;
        let by =
            |values: &[(VarId, ExprId)]| Substitution::of_vars(params.iter().copied().zip(values.iter().map(|v| v.1)));
        let value = self.value.at(a, &values);
        let indices = a.new_list(&values);
        let region = BufferRegion::point(a, new, indices);
        let name = a.buffer(new).name;
        let always = a.bool(true);
        let block = if assume {
            let padding = by(&vars).apply(a, self.inverse.padding);
            let found = a.load(new, &values);
            let (not, holds) = (a.not(padding), a.compare(CmpOp::Eq, found, value));
            let fact = a.or(not, holds);
            let call = a.call(Intrinsic::Assume, &[fact]);
            let s = func.add(Stmt::Evaluate(call));
            let body = Body::from_slice(&[s]);
            Block {
                iters,
                reads: vec![region],
                body,
                ..Block::new(format!("buffer_{name}_assumptions").as_str(), always)
            }
        } else {
            let padding = by(&loops).apply(a, self.inverse.padding);
            let s = func.add(Stmt::Store { buffer: new, indices, value });
            let body = Body::from_slice(&[s]);
            Block {
                iters,
                writes: vec![region],
                body,
                ..Block::new(format!("buffer_{name}_padding").as_str(), padding)
            }
        };
        let block = func.add_block(block);
        let mut nest = block.stmt();
        for (&(var, _), &extent) in loops.iter().zip(&self.shape).rev() {
            let extent = func.arena.cast(func.arena.var(var).dtype, extent);
            nest = func.make_loop(var, extent, Body::from_slice(&[nest])).stmt();
        }
        nest
    }

    fn rewrite_nest(&self, func: &mut Func, nest: &Nest, old: BufferId, new: BufferId) {
        let loops = self.axes(func, "");
        let vars = match nest.block {
            Some(_) => self.axes(func, "v_"),
            None => loops.clone(),
        };
        let params = &self.inverse.map.params;
        let leaves_out = nest.block.as_ref().is_some_and(|(b, _)| may_leave_out(func, *b));
        let a = &mut func.arena;
        let mut analyzer = Analyzer::new();
        for (&(var, _), &extent) in vars.iter().chain(&loops).zip(self.shape.iter().chain(&self.shape)) {
            // A variable with one value stays a variable.
            if !a.is_int(extent, 1) && !analyzer.is_bound(var) {
                let dtype = a.var(var).dtype;
                let (zero, extent) = (a.int(0, dtype), a.cast(dtype, extent));
                analyzer.bind(a, var, zero, extent);
            }
        }
        let values = |list: &[(VarId, ExprId)]| list.iter().map(|v| v.1).collect::<Indices>();
        let from_loops = self.inverse.map.apply(a, &mut analyzer, &values(&loops));
        let from_vars = self.inverse.map.apply(a, &mut analyzer, &values(&vars));

        // Old variables over the new ones.
        let mut by = Substitution::default();
        for (&l, &e) in nest.loops.iter().zip(&from_loops) {
            let var = func.stmts.loop_(l).var;
            let e = func.arena.cast(func.arena.var(var).dtype, e);
            by.add_var(var, e);
        }
        let body = func.loop_(nest.loops[nest.loops.len() - 1]).body.clone();
        if let Some((b, positions)) = &nest.block {
            for (&i, &e) in positions.iter().zip(&from_vars) {
                let var = func.block(*b).iters[i].var;
                let e = func.arena.cast(func.arena.var(var).dtype, e);
                by.add_var(var, e);
            }
        }
        let stores: Vec<StmtId> =
            body.iter().flat_map(|&s| func.subtree(s)).filter(|&s| stores_to(func, s, old)).collect();
        for &s in &body {
            func.rewrite_subtree(s, &mut by);
        }
        let a = &mut func.arena;
        let at = values(&vars);
        let padding =
            Substitution::of_vars(params.iter().copied().zip(at.iter().copied())).apply(a, self.inverse.padding);
        let pad = self.value.at(a, &at);
        let indices = a.new_list(&at);
        for s in stores {
            if let Stmt::Store { value, .. } = *func.get(s) {
                let a = &mut func.arena;
                let value = if leaves_out { where_it_exists(a, &mut analyzer, value) } else { value };
                let value = a.if_then_else(padding, pad, value);
                *func.stmt_mut(s) = Stmt::Store { buffer: new, indices, value };
            }
        }
        if let Some((b, positions)) = &nest.block {
            let a = &mut func.arena;
            let new_iters: Vec<BlockIter> = (vars.iter().zip(&loops).zip(&self.shape))
                .map(|((&(var, _), &(_, value)), &extent)| {
                    let dtype = a.var(var).dtype;
                    let (min, extent) = (a.int(0, dtype), a.cast(dtype, extent));
                    BlockIter { var, min, extent, kind: IterKind::Spatial, value }
                })
                .collect();
            let mut iters = func.block(*b).iters.clone();
            let first = positions.iter().copied().min().unwrap_or(0);
            let mut position = 0;
            iters.retain(|_| {
                position += 1;
                !positions.contains(&(position - 1))
            });
            iters.splice(first..first, new_iters);
            func.block_mut(*b).iters = iters;
        }
        let outer = nest.loops[0];
        let place = func.cut(outer.stmt());
        func.set_body(nest.loops[nest.loops.len() - 1].stmt(), Body::new());
        let mut inside = body;
        for (&(var, _), &extent) in loops.iter().zip(&self.shape).rev() {
            let extent = func.arena.cast(func.arena.var(var).dtype, extent);
            inside = Body::from_slice(&[func.make_loop(var, extent, inside).stmt()]);
        }
        func.insert_at(place, &inside);
    }
}

/// An unchanged axis has the name of its parameter in the index map.
fn name_kept_axes(a: &mut Arena, map: &IndexMap, inverse: &mut Inverse) {
    for (&old, &value) in map.params.iter().zip(&inverse.map.results) {
        if let Some(new) = a.as_var(value).filter(|v| inverse.map.params.contains(v)) {
            let name = a.var(old).name;
            a.rename_var(new, name);
        }
    }
}

fn stores_to(func: &Func, s: StmtId, buffer: BufferId) -> bool {
    matches!(func.get(s), Stmt::Store { buffer: b, .. } if *b == buffer)
}

/// All stores to the buffer in the scope, in text order.
fn writes(func: &Func, scope: BlockId, buffer: BufferId) -> Vec<Write> {
    let mut found = Vec::new();
    for store in func.subtree(scope.stmt()) {
        let Stmt::Store { buffer: b, indices, .. } = *func.get(store) else { continue };
        if b != buffer {
            continue;
        }
        // All enclosing loops, across blocks, innermost first.
        let mut loops: Vec<LoopId> = Vec::new();
        let mut block = None;
        for p in func.ancestors(store) {
            if p == scope.stmt() {
                break;
            }
            loops.extend(func.as_loop(p));
            block = block.or(func.as_block(p));
        }
        loops.reverse();
        let depends: Vec<bool> = loops
            .iter()
            .map(|&l| func.arena.list(indices).iter().any(|&i| depends_on(func, store, i, func.loop_(l).var)))
            .collect();
        let nest = match (depends.iter().position(|&d| d), depends.iter().rposition(|&d| d)) {
            (Some(first), Some(last)) => loops[first..=last].to_vec(),
            _ => Vec::new(),
        };
        found.push(Write { store, nest, block });
    }
    found
}

/// Whether the block only copies, and the source may be outside its buffer.
fn may_leave_out(func: &mut Func, block: BlockId) -> bool {
    let node = func.block(block);
    let Some((source, at)) = func.copied(node) else { return false };
    let iters = node.iters.clone();
    let a = &mut func.arena;
    let mut analyzer = Analyzer::new();
    for i in &iters {
        analyzer.bind(a, i.var, i.min, i.extent);
    }
    bounds_to_check(a, &mut analyzer, source, at).is_some()
}

/// The element that a block copied, or zero outside its buffer: with this selection, the block is no longer a plain
/// copy, which would have no effect there.
fn where_it_exists(a: &mut Arena, analyzer: &mut Analyzer, value: ExprId) -> ExprId {
    let mut load = value;
    while let Expr::Cast(inner) = a.expr(load) {
        load = inner;
    }
    let Expr::Load(source, at) = a.expr(load) else { return value };
    let Some(exists) = bounds_to_check(a, analyzer, source, at) else { return value };
    let zero = a.constant(0, a.dtype(value));
    a.if_then_else(exists, value, zero)
}

/// Whether the expression depends on the loop variable, through the bindings of blocks around the statement.
fn depends_on(func: &Func, s: StmtId, e: ExprId, var: VarId) -> bool {
    uses_var(&func.arena, e, &mut |v| {
        v == var
            || func
                .ancestors(s)
                .filter_map(|p| func.as_block(p))
                .any(|b| func.block(b).iters.iter().any(|i| i.var == v && depends_on(func, b.stmt(), i.value, var)))
    })
}

/// The nest around a store, if its loops iterate over all axes of the buffer, in order.
fn row_major_nest(func: &Func, write: &Write, buffer: BufferId) -> Option<Nest> {
    let a = &func.arena;
    let Stmt::Store { indices, .. } = *func.get(write.store) else { return None };
    let shape = a.list(a.buffer(buffer).shape);
    let at = a.list(indices);
    if write.nest.len() != shape.len() {
        return None;
    }
    let inside = write.block.filter(|b| write.nest.iter().all(|l| func.contains(l.stmt(), b.stmt())));
    if inside.is_none() && write.block.is_some_and(|b| write.nest.iter().any(|l| func.contains(l.stmt(), b.stmt()))) {
        return None;
    }
    let mut positions = Vec::new();
    for ((&l, &extent), &index) in write.nest.iter().zip(shape).zip(at) {
        let node = func.loop_(l);
        if node.kind != LoopKind::Serial || !a.is_int(node.min, 0) || a.as_int(node.extent) != a.as_int(extent) {
            return None;
        }
        if a.as_int(extent).is_none() && node.extent != extent {
            return None;
        }
        let var = a.as_var(index)?;
        match inside {
            Some(b) => {
                let i = func.block(b).iters.iter().position(|i| i.var == var)?;
                if a.as_var(func.block(b).iters[i].value) != Some(node.var) {
                    return None;
                }
                positions.push(i);
            }
            None if var != node.var => return None,
            None => {}
        }
    }
    // Each loop contains only the next one, the last contains only the block, and there are no blocks in between.
    for pair in write.nest.windows(2) {
        if func.loop_(pair[0]).body[..] != [pair[1].stmt()] {
            return None;
        }
    }
    if let Some(b) = inside {
        if func.block_above(b.stmt()) != func.block_above(write.nest[0].stmt()) {
            return None;
        }
        let block = func.block(b);
        let vars: Vec<VarId> = write.nest.iter().map(|&l| func.loop_(l).var).collect();
        let uses = |e: ExprId| uses_var(a, e, &mut |v| vars.contains(&v));
        let others = block.iters.iter().enumerate().any(|(i, iter)| !positions.contains(&i) && uses(iter.value));
        let spatial = positions.iter().all(|&i| block.iters[i].kind == IterKind::Spatial);
        if others || !spatial || uses(block.predicate) {
            return None;
        }
    }
    Some(Nest { loops: write.nest.clone(), block: inside.map(|b| (b, positions)), indices })
}

/// Whether all stores in the nest are to this buffer, at the same indices.
fn only_stores_here(func: &Func, nest: &Nest, buffer: BufferId) -> bool {
    func.subtree(nest.loops[0].stmt()).into_iter().all(|s| match func.get(s) {
        Stmt::Store { buffer: b, indices, .. } => *b == buffer && *indices == nest.indices,
        Stmt::Evaluate(_) => false,
        _ => true,
    })
}
