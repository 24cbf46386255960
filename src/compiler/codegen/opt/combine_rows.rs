//! Combines rows before the elements of their columns are picked.
//!
//! ```text
//! for y in 56: for x in 56:
//!   Y[y * 56 + x] = (X[r(y) * 28 + c(x)] * u(x) + X[r(y) * 28 + d(x)] * v(x)) * a(y)
//!                 + (X[s(y) * 28 + c(x)] * u(x) + X[s(y) * 28 + d(x)] * v(x)) * b(y)
//! // becomes
//! for y in 56:
//!   for k in 28: T[k] = X[r(y) * 28 + k] * a(y) + X[s(y) * 28 + k] * b(y)
//!   for x in 56: Y[y * 56 + x] = T[c(x)] * u(x) + T[d(x)] * v(x)
//! ```
//!
//! Operators that resize images weigh columns in the same way for each of several rows. The columns of a result are anywhere in a row,
//! so that each element takes a permutation or a gather; whole rows are loaded as they are. A row of weighted rows serves all results
//! that are made of it. With `k` as a flat index, channels that are innermost belong to the columns.
//!
//! Sums change their order, so this is not done if floats must be computed as written. Columns that no result needs must exist in
//! memory, and have values: parameters that are read are combined, and converted copies of them.

use super::machine::Machine;
use super::walk::placement_inside;
use crate::codegen::facts::{fails, loads};
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, map_expr, mentions_var};
use crate::loopir::{
    Access, Affine, Arena, Body, BufferId, Expr, ExprId, For, Hints, Iterations, Kernel, LoopKind, Placement, Range,
    Ranges, Stmt, StmtId, Storage,
};
use smallvec::SmallVec;

/// Maximum number of elements of a combined row, which should stay in the nearest cache.
const LONGEST: i64 = 4096;

/// Maximum number of elements that a result is made of.
const MOST: usize = 64;

/// Combines rows before all loops where that saves operations. Returns whether there are any.
pub(super) fn combine_rows(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.reassociates || !machine.vectors.has_regions() {
        return false;
    }
    let old = kernel.body;
    kernel.body = Pass::default().body(kernel, old, Placement::Shared);
    kernel.body != old
}

#[derive(Default)]
struct Pass {
    ranges: Ranges,
    /// Scratch all of whose elements have been written before the current statement, and do not change any more.
    filled: Vec<BufferId>,
}

impl Pass {
    fn body(&mut self, kernel: &mut Kernel, old: Body, placement: Placement) -> Body {
        let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
        let n_filled = self.filled.len();
        for i in 0..old.len() {
            let s = kernel.stmts.list(old)[i];
            self.stmt(kernel, s, placement, &mut out);
            self.filled.extend(filled(kernel, s));
        }
        self.filled.truncate(n_filled);
        if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) }
    }

    fn stmt(&mut self, kernel: &mut Kernel, s: StmtId, placement: Placement, out: &mut Vec<StmtId>) {
        let old = kernel.stmts.get(s);
        let new = match old {
            Stmt::For(l) => {
                self.ranges.set_loop(&kernel.arena, l.var, l.extent);
                if let Some(nest) = Nest::of(kernel, l)
                    && let Some(stmts) = self.nest(kernel, &nest, placement)
                {
                    return out.extend(stmts);
                }
                let inside = placement_inside(&l, placement);
                Stmt::For(For { body: self.body(kernel, l.body, inside), ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let then = self.body(kernel, then, placement);
                Stmt::If { condition, then, otherwise: self.body(kernel, otherwise, placement) }
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => old,
        };
        out.push(if new == old { s } else { kernel.stmts.push(new) });
    }

    /// A nest with the loops before it that combine rows; `None` if there are none.
    fn nest(&mut self, kernel: &mut Kernel, nest: &Nest, placement: Placement) -> Option<Vec<StmtId>> {
        for l in &nest.loops {
            self.ranges.set_loop(&kernel.arena, l.var, l.extent);
        }
        let mut images: SmallVec<[BufferId; 2]> = SmallVec::new();
        for_each_expr(&kernel.arena, nest.value, &mut |e| {
            if let Expr::Load(buffer, _) = kernel.arena.expr(e)
                && (kernel.buffer(buffer).storage == Storage::Param(Access::In) || self.filled.contains(&buffer))
                && !images.contains(&buffer)
            {
                images.push(buffer);
            }
        });
        let mut made = Vec::new();
        let mut value = nest.value;
        for image in images {
            let mut memo = ExprMap::default();
            value = self.value(kernel, nest, image, value, placement, &mut memo, &mut made);
        }
        if made.is_empty() {
            return None;
        }
        let mut s = kernel.store(nest.buffer, nest.index, value);
        for l in nest.loops.iter().rev() {
            let body = kernel.stmts.body(&[s]);
            s = kernel.stmts.push(Stmt::For(For { body, ..*l }));
        }
        made.push(s);
        Some(made)
    }

    /// A value with its largest sums over rows of an image made from combined rows.
    #[expect(clippy::too_many_arguments, reason = "a recursion over what does not change")]
    fn value(
        &mut self,
        kernel: &mut Kernel,
        nest: &Nest,
        image: BufferId,
        e: ExprId,
        placement: Placement,
        memo: &mut ExprMap,
        made: &mut Vec<StmtId>,
    ) -> ExprId {
        if let Some(&known) = memo.get(&e) {
            return known;
        }
        let new = match (self.combined(kernel, nest, image, e, placement, made), kernel.arena.expr(e)) {
            (Some(picked), _) => picked,
            // What is evaluated only under a condition may fail or not exist without it.
            (None, Expr::IfThenElse(..) | Expr::Load(..) | Expr::Binary(BinOp::And | BinOp::Or, ..)) => e,
            (None, _) => kernel.map_children(e, |kernel, a| self.value(kernel, nest, image, a, placement, memo, made)),
        };
        memo.insert(e, new);
        new
    }

    /// A sum over rows of an image as a sum over columns of their combination, whose loop is added to `made`.
    fn combined(
        &mut self,
        kernel: &mut Kernel,
        nest: &Nest,
        image: BufferId,
        e: ExprId,
        placement: Placement,
        made: &mut Vec<StmtId>,
    ) -> Option<ExprId> {
        if !matches!(kernel.arena.dtype(e), DType::Float32 | DType::Float64) {
            return None;
        }
        let mut sum = Sum { image, nest, rows: Vec::new(), pattern: None, columns: Range::point(0) };
        sum.note_rows(&mut kernel.arena, &mut self.ranges, e)?;
        let Range { lo, hi } = sum.columns;
        let (n_rows, n_picked) = (sum.rows.len() as i64, sum.pattern.as_ref()?.leaves.len() as i64);
        let width = hi - lo + 1;
        let separate = nest.count.checked_mul(n_picked)?.checked_mul(n_rows - 1)?;
        if n_rows < 2 || n_picked < 2 || width > LONGEST || width.checked_mul(n_rows)? > separate {
            return None;
        }
        let elements = Range { lo: 0, hi: kernel.buffer(image).len - 1 };
        for row in &sum.rows {
            let read = self.ranges.of_affine(&kernel.arena, &row.start).plus(sum.columns);
            if !read.within(elements) {
                return None;
            }
        }
        // The combined row.
        let pattern = sum.pattern.as_ref()?;
        let buffer = kernel.add_scratch("combined", pattern.dtype, width, placement);
        let (var, k) = kernel.arena.new_index("k");
        let value = sum.combination(kernel, e, k);
        let fill = kernel.store(buffer, k, value);
        let (extent, body) = (kernel.arena.index(width), kernel.stmts.body(&[fill]));
        let (kind, iterations) = (LoopKind::Serial, Iterations::Independent);
        made.push(kernel.stmts.push(Stmt::For(For { var, extent, kind, iterations, hints: Hints::default(), body })));
        // Its columns.
        let mut picked = ExprMap::default();
        for leaf in &pattern.leaves {
            let at = kernel.arena.add_const(leaf.column, -lo);
            let element = kernel.load(buffer, at);
            picked.insert(leaf.node, element);
        }
        Some(map_expr(&mut kernel.arena, pattern.node, &mut picked, &mut |_, _| None))
    }
}

/// The buffer that a loop fills, if nothing else writes it.
fn filled(kernel: &Kernel, s: StmtId) -> Option<BufferId> {
    let Stmt::For(l) = kernel.stmts.get(s) else { return None };
    let &[inner] = kernel.stmts.list(l.body) else { return None };
    let Stmt::Store { buffer, index, value } = kernel.stmts.get(inner) else { return None };
    let arena = &kernel.arena;
    let is_whole = arena.as_var(index) == Some(l.var)
        && arena.as_int(l.extent) == Some(kernel.buffer(buffer).len)
        && arena.lanes(value) == 1;
    let mut n_stores = 0;
    kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
        n_stores += usize::from(matches!(stmt, Stmt::Store { buffer: b, .. } if b == buffer));
    });
    let is_scratch = matches!(kernel.buffer(buffer).storage, Storage::Scratch(_));
    (is_whole && is_scratch && n_stores == 1).then_some(buffer)
}

/// Loops around a single store.
struct Nest {
    loops: Vec<For>,
    /// Number of iterations in all.
    count: i64,
    buffer: BufferId,
    index: ExprId,
    value: ExprId,
}

impl Nest {
    fn of(kernel: &Kernel, outer: For) -> Option<Nest> {
        let (mut loops, mut l, mut count) = (Vec::new(), outer, 1i64);
        loop {
            let n = kernel.arena.as_int(l.extent).filter(|&n| n > 0)?;
            count = count.checked_mul(n)?;
            if l.kind == LoopKind::Parallel {
                return None;
            }
            loops.push(l);
            let &[s] = kernel.stmts.list(l.body) else { return None };
            match kernel.stmts.get(s) {
                Stmt::For(inner) => l = inner,
                Stmt::Store { buffer, index, value } if kernel.arena.lanes(value) == 1 => {
                    return Some(Nest { loops, count, buffer, index, value });
                }
                _ => return None,
            }
        }
    }

    fn changes(&self, arena: &Arena, e: ExprId) -> bool {
        mentions_var(arena, e, &mut |v| self.loops.iter().any(|l| l.var == v))
    }
}

/// A sum over rows, each of them weighed as a whole: `a * P(row) + b * P(other row) + …`, where `P` is the same sum over columns.
struct Sum<'a> {
    image: BufferId,
    nest: &'a Nest,
    rows: Vec<Row>,
    pattern: Option<Pattern>,
    /// The columns that are read, counted from the start of a row.
    columns: Range,
}

/// A sum over columns of one row.
struct Row {
    node: ExprId,
    /// The index of the column 0.
    start: Affine,
}

/// The sum over columns that all rows share.
struct Pattern {
    /// The sum, in which elements have their columns as indices.
    node: ExprId,
    /// The elements in it.
    leaves: SmallVec<[Picked; 4]>,
    /// The type of an element.
    dtype: DType,
}

struct Picked {
    node: ExprId,
    column: ExprId,
}

/// An element of the image in a sum: a load, or a load that is converted.
struct Leaf {
    node: ExprId,
    row: Affine,
    column: Affine,
}

impl Sum<'_> {
    /// Notes the rows of a sum. `None` if it has another form.
    fn note_rows(&mut self, arena: &mut Arena, ranges: &mut Ranges, e: ExprId) -> Option<()> {
        let mut leaves = Vec::new();
        self.note_leaves(arena, e, &mut leaves)?;
        let first = leaves.first()?;
        let is_row = leaves.iter().all(|l| l.row.terms == first.row.terms);
        match arena.expr(e) {
            Expr::Binary(BinOp::Mul, a, b) => {
                let (a, factor) = if loads(arena, b, self.image) { (b, a) } else { (a, b) };
                if !self.nest.changes(arena, factor) {
                    return self.note_rows(arena, ranges, a);
                }
            }
            Expr::Binary(BinOp::Add | BinOp::Sub, a, b) if !is_row => {
                self.note_rows(arena, ranges, a)?;
                return self.note_rows(arena, ranges, b);
            }
            _ => {}
        }
        if is_row { self.note_row(arena, ranges, e, &leaves) } else { None }
    }

    /// Notes the elements of a linear combination. `None` if it has another form.
    fn note_leaves(&self, arena: &Arena, e: ExprId, leaves: &mut Vec<Leaf>) -> Option<()> {
        if leaves.len() > MOST || arena.lanes(e) > 1 {
            return None;
        }
        match arena.expr(e) {
            Expr::Binary(BinOp::Add | BinOp::Sub, a, b) => {
                self.note_leaves(arena, a, leaves)?;
                self.note_leaves(arena, b, leaves)
            }
            Expr::Binary(BinOp::Mul, a, b) => {
                let (a, factor) = if loads(arena, b, self.image) { (b, a) } else { (a, b) };
                self.is_factor(arena, factor).then_some(())?;
                self.note_leaves(arena, a, leaves)
            }
            Expr::Load(buffer, index) if buffer == self.image => {
                leaves.push(self.leaf(arena, e, index)?);
                Some(())
            }
            Expr::Cast(a) => match arena.expr(a) {
                Expr::Load(buffer, index) if buffer == self.image && arena.lanes(a) == 1 => {
                    leaves.push(self.leaf(arena, e, index)?);
                    Some(())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a value may be computed before the loops if they do not change it.
    fn is_factor(&self, arena: &Arena, e: ExprId) -> bool {
        let mut has_registers = false;
        for_each_expr(arena, e, &mut |e| has_registers |= matches!(arena.expr(e), Expr::Local(_)));
        !has_registers && !fails(arena, e) && !loads(arena, e, self.image) && !loads(arena, e, self.nest.buffer)
    }

    fn leaf(&self, arena: &Arena, node: ExprId, index: ExprId) -> Option<Leaf> {
        self.is_factor(arena, index).then_some(())?;
        let (mut row, mut column) = (Affine::default(), Affine::default());
        let affine = Affine::of(arena, index);
        for &(atom, c) in &affine.terms {
            let part = if self.nest.changes(arena, atom) { &mut column } else { &mut row };
            part.add_term(atom, c);
        }
        row.constant = affine.constant;
        Some(Leaf { node, row, column })
    }

    /// Notes the sum over columns of one row, which must be that of the others.
    fn note_row(&mut self, arena: &mut Arena, ranges: &mut Ranges, e: ExprId, leaves: &[Leaf]) -> Option<()> {
        let start = leaves.first()?.row.clone();
        let dtype = arena.dtype(leaves.first()?.node);
        let mut replaced = ExprMap::default();
        let mut picked: SmallVec<[Picked; 4]> = SmallVec::new();
        for leaf in leaves {
            if arena.dtype(leaf.node) != dtype {
                return None;
            }
            let mut column = leaf.column.clone();
            column.constant = leaf.row.constant.wrapping_sub(start.constant);
            let range = ranges.of_affine(arena, &column);
            self.columns = if self.rows.is_empty() && picked.is_empty() { range } else { self.columns.union(range) };
            let column = column.to_expr(arena);
            let node = arena.load(self.image, column, arena.ty(leaf.node));
            replaced.insert(leaf.node, node);
            if !picked.iter().any(|p| p.node == node) {
                picked.push(Picked { node, column });
            }
        }
        self.columns.known()?;
        let node = map_expr(arena, e, &mut replaced, &mut |_, _| None);
        match &self.pattern {
            Some(pattern) if pattern.node != node || pattern.dtype != dtype => return None,
            Some(_) => {}
            None => self.pattern = Some(Pattern { node, leaves: picked, dtype }),
        }
        if !self.rows.iter().any(|r| r.node == e) {
            self.rows.push(Row { node: e, start });
        }
        Some(())
    }

    /// Column `k` of the rows, counted from the first one that is read, combined as the sum says.
    fn combination(&self, kernel: &mut Kernel, e: ExprId, k: ExprId) -> ExprId {
        if let Some(row) = self.rows.iter().find(|r| r.node == e) {
            let mut index = row.start.clone();
            index.constant = index.constant.wrapping_add(self.columns.lo);
            index.add_term(k, 1);
            let index = index.to_expr(&mut kernel.arena);
            let element = kernel.load(self.image, index);
            let dtype = self.pattern.as_ref().map_or(kernel.arena.dtype(element), |p| p.dtype);
            return kernel.arena.cast(dtype, element);
        }
        // Factors have no elements of the image.
        if !loads(&kernel.arena, e, self.image) {
            return e;
        }
        kernel.map_children(e, |kernel, a| self.combination(kernel, a, k))
    }
}
