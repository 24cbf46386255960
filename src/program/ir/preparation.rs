//! Preparations: computations on constant parameters that are done only once.
//!
//! A function lists constant parameters, such as weights, in its attribute `layout_free_buffers`. A nest under the root
//! whose blocks are all annotated `meta_schedule.layout_rewrite_preproc` is a *preparation* if it reads only such
//! parameters or prepared buffers, and is the only writer of a buffer of the root. It then computes the same values in
//! every call. [`separate`] splits the function:
//!
//! ```text
//! def main(X, W, Y):                        def preparation(X, W, Y, P): P[…] = W[…]
//!     P = T.alloc_buffer(…)
//!     P[…] = W[…]         # annotated       def call(X, W, Y, P): Y[…] = Y[…] + X[…] * P[…]
//!     Y[…] = Y[…] + X[…] * P[…]
//! ```
//!
//! Both take the parameters of the function, followed by the prepared buffers. An annotated nest that does not meet
//! these conditions is an ordinary part of the call.

use super::attr::{Annotations, AttrValue};
use super::buffer::BufferId;
use super::dtype::DType;
use super::expr::{Expr, ExprId};
use super::func::{Func, Param};
use super::stmt::{Body, Stmt, StmtId};
use super::visit::{for_each_own_expr, for_each_subexpr};

/// The annotation of blocks that prepare constant parameters.
pub const PREPARATION: &str = "meta_schedule.layout_rewrite_preproc";
/// The attribute that lists parameters by position.
const LAYOUT_FREE: &str = "layout_free_buffers";

/// The two parts of a function.
pub struct Separated {
    /// Computes the prepared buffers, its last parameters, from constant parameters.
    pub preparation: Func,
    /// Computes the results from the parameters and the prepared buffers.
    pub call: Func,
    /// Number of prepared buffers.
    pub n_prepared: usize,
}

/// The buffers of parameters that are listed as constant, in the order of the list, without those that the function
/// writes.
pub fn layout_free(func: &Func) -> Vec<BufferId> {
    let Some(AttrValue::List(positions)) = func.attrs.get(LAYOUT_FREE) else { return Vec::new() };
    let position = |value: &AttrValue| match value {
        AttrValue::Int(i) => usize::try_from(*i).ok(),
        AttrValue::Expr(e) => func.arena.as_int(*e).and_then(|i| usize::try_from(i).ok()),
        AttrValue::Float(_)
        | AttrValue::Bool(_)
        | AttrValue::Str(_)
        | AttrValue::None
        | AttrValue::List(_)
        | AttrValue::Dict(_)
        | AttrValue::Buffer(_)
        | AttrValue::Region { .. }
        | AttrValue::Target(_)
        | AttrValue::Object(..)
        | AttrValue::IndexMap(..) => None,
    };
    let mut buffers = Vec::new();
    for position in positions.iter().filter_map(position) {
        if let Some(buffer) = func.param_at(position).and_then(|p| p.buffer)
            && !buffers.contains(&buffer)
        {
            buffers.push(buffer);
        }
    }
    if buffers.is_empty() {
        return buffers;
    }
    let written = Accesses::of(func, func.root.stmt()).written;
    buffers.retain(|b| !written.contains(b));
    buffers
}

/// Lists the parameters at these positions as constant, and no others.
pub fn set_layout_free(func: &mut Func, positions: &[usize]) {
    if positions.is_empty() {
        func.attrs.remove(LAYOUT_FREE);
        return;
    }
    let list = positions.iter().map(|&i| AttrValue::Int(i as i64)).collect();
    func.attrs.insert(LAYOUT_FREE, AttrValue::List(list));
}

/// Separates the preparations from the rest; `None` if the function has none.
pub fn separate(func: &Func) -> Option<Separated> {
    let mut constant = layout_free(func);
    if constant.is_empty() {
        return None;
    }
    let root = func.block(func.root);
    let nests: Vec<(StmtId, Accesses)> = root.body.iter().map(|&s| (s, Accesses::of(func, s))).collect();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut prepared = Vec::new();
    for (i, (s, accesses)) in nests.iter().enumerate() {
        let alone = |b: &BufferId| nests.iter().enumerate().all(|(j, (_, a))| j == i || !a.written.contains(b));
        let is_preparation = accesses.all_annotated
            && accesses.written.iter().all(|b| root.allocs.contains(b) && alone(b))
            && accesses.read.iter().all(|b| constant.contains(b) || accesses.written.contains(b))
            && !accesses.reads_scalars;
        if is_preparation {
            before.push(*s);
            constant.extend(&accesses.written);
            prepared.extend(&accesses.written);
        } else {
            after.push(*s);
        }
    }
    if prepared.is_empty() {
        return None;
    }
    let others: Vec<BufferId> = root.allocs.iter().copied().filter(|b| !prepared.contains(b)).collect();
    let part = |body: &[StmtId], allocs: Vec<BufferId>| {
        let mut part = func.clone();
        let root = part.root;
        part.set_body(root.stmt(), Body::from_slice(body));
        part.block_mut(root).allocs = allocs;
        for &buffer in &prepared {
            let name = part.arena.buffer(buffer).name;
            let var = part.arena.new_var(name, DType::Handle);
            part.params.push(Param { var, buffer: Some(buffer) });
        }
        part
    };
    Some(Separated { preparation: part(&before, Vec::new()), call: part(&after, others), n_prepared: prepared.len() })
}

impl Separated {
    /// Removes parameters that a part does not need: from the preparation all that it does not access, from the call the constant ones
    /// that only the preparation reads. Gives the positions of those that each part keeps, before its prepared buffers.
    pub fn without_idle_params(&mut self) -> Kept {
        let constant = layout_free(&self.preparation);
        let keep = |part: &mut Func, is_needed: &dyn Fn(BufferId) -> bool| {
            let n = part.params.len() - self.n_prepared;
            let accesses = Accesses::below_root(part);
            let is_kept = |i: &usize| match part.params[*i].buffer {
                Some(b) => is_needed(b) || accesses.read.contains(&b) || accesses.written.contains(&b),
                None => true,
            };
            let kept: Vec<usize> = (0..n).filter(is_kept).collect();
            remove_params(part, &kept, n);
            kept
        };
        let preparation = keep(&mut self.preparation, &|_| false);
        let call = keep(&mut self.call, &|b| !constant.contains(&b));
        Kept { preparation, call }
    }
}

/// The positions of the parameters that the parts of a function keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Those of the preparation.
    pub preparation: Vec<usize>,
    /// Those of the call.
    pub call: Vec<usize>,
}

/// Removes the parameters before position `n` that are not listed. Nothing accesses them.
fn remove_params(func: &mut Func, kept: &[usize], n: usize) {
    let is_kept = |i: usize| i >= n || kept.contains(&i);
    let gone: Vec<BufferId> =
        func.params.iter().enumerate().filter(|(i, _)| !is_kept(*i)).filter_map(|(_, p)| p.buffer).collect();
    let mut position = 0;
    func.params.retain(|_| {
        position += 1;
        is_kept(position - 1)
    });
    // The root block may list what its nests access, and positions mean others now.
    let root = func.root;
    let block = func.block_mut(root);
    block.reads.retain(|r| !gone.contains(&r.buffer));
    block.writes.retain(|r| !gone.contains(&r.buffer));
    func.attrs.remove(LAYOUT_FREE);
}

/// The accesses of a nest to buffers.
struct Accesses {
    read: Vec<BufferId>,
    written: Vec<BufferId>,
    /// Whether the nest reads scalar parameters, which callers may change.
    reads_scalars: bool,
    /// Whether the nest has blocks, all of which are annotated as preparations and only load and store.
    all_annotated: bool,
}

impl Accesses {
    /// Those of all nests under the root block.
    fn below_root(func: &Func) -> Accesses {
        let mut all = Accesses { read: Vec::new(), written: Vec::new(), reads_scalars: false, all_annotated: false };
        for &nest in &func.block(func.root).body {
            let accesses = Accesses::of(func, nest);
            accesses.read.iter().for_each(|&b| note(&mut all.read, b));
            accesses.written.iter().for_each(|&b| note(&mut all.written, b));
        }
        all
    }

    fn of(func: &Func, nest: StmtId) -> Accesses {
        let mut all = Accesses { read: Vec::new(), written: Vec::new(), reads_scalars: false, all_annotated: false };
        let mut plain = true;
        for s in func.subtree(nest) {
            match func.get(s) {
                Stmt::Store { buffer, indices, value } => {
                    note(&mut all.written, *buffer);
                    func.arena.list(*indices).iter().for_each(|&i| all.loads(func, i));
                    all.loads(func, *value);
                }
                Stmt::Block(block) => {
                    all.all_annotated = true;
                    plain &= is_marked(&block.annotations) && block.matches.is_empty() && block.allocs.is_empty();
                    // Stores through views and calls appear only in the block's `writes`.
                    block.writes.iter().for_each(|w| note(&mut all.written, w.buffer));
                    block.reads.iter().for_each(|r| note(&mut all.read, r.buffer));
                    block.iters.iter().for_each(|i| all.loads(func, i.value));
                    all.loads(func, block.predicate);
                }
                Stmt::Loop(l) => [l.min, l.extent].into_iter().chain(l.step).for_each(|e| all.loads(func, e)),
                Stmt::If { condition, .. } => all.loads(func, *condition),
                Stmt::Let { value, .. } => all.loads(func, *value),
                Stmt::Evaluate(value) => {
                    all.loads(func, *value);
                    plain = false;
                }
                Stmt::Attr(_) => {}
                Stmt::Alloc { .. }
                | Stmt::Declare { .. }
                | Stmt::While { .. }
                | Stmt::Break
                | Stmt::Continue
                | Stmt::Return(_)
                | Stmt::Assert(_) => {
                    for_each_own_expr(func, s, &mut |e| all.loads(func, e));
                    plain = false;
                }
            }
        }
        all.through_views(func, nest);
        all.reads_scalars = func.params.iter().any(|p| p.buffer.is_none() && func.mentions(nest, p.var));
        all.all_annotated &= plain;
        all
    }

    /// Counts accesses through a view as accesses to its source, even if the block does not list them.
    fn through_views(&mut self, func: &Func, nest: StmtId) {
        // Inner views come before the views that they may show.
        for s in func.subtree(nest).into_iter().rev() {
            let Stmt::Block(block) = func.get(s) else { continue };
            for view in &block.matches {
                if self.read.contains(&view.buffer) {
                    note(&mut self.read, view.source.buffer);
                }
                if self.written.contains(&view.buffer) {
                    note(&mut self.written, view.source.buffer);
                }
            }
        }
    }

    fn loads(&mut self, func: &Func, e: ExprId) {
        for_each_subexpr(&func.arena, e, &mut |e| {
            if let Expr::Load(buffer, _) = func.arena.expr(e) {
                note(&mut self.read, buffer);
            }
        });
    }
}

fn note(list: &mut Vec<BufferId>, buffer: BufferId) {
    if !list.contains(&buffer) {
        list.push(buffer);
    }
}

fn is_marked(annotations: &Annotations) -> bool {
    match annotations.get(PREPARATION) {
        Some(AttrValue::Bool(b)) => *b,
        Some(AttrValue::Int(n)) => *n != 0,
        _ => false,
    }
}
