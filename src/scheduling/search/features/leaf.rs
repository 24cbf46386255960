//! The stores of a scheduled program, each with the loops around it and the strides of its accesses.

use super::ops::Ops;
use super::points::{MAX_LOOPS, Points, Row};
use crate::ir::buffer::BufferId;
use crate::ir::expr::{Expr, ExprId, ExprList, VarId};
use crate::ir::stmt::{LoopId, LoopKind, Stmt, StmtId};
use crate::ir::visit::{for_each_subexpr, vars_of};
use crate::ir::{AttrValue, BinOp, DType, Func};
use smallvec::SmallVec;

/// A loop with more than one iteration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Level {
    /// The loop; levels with the same id are one loop around several stores.
    pub id: LoopId,
    /// Number of iterations.
    pub extent: i64,
    /// Whether it is the outer loop of an uneven split, whose last iteration the code generator makes a loop of its own.
    pub is_uneven: bool,
    /// Kind of the loop: serial, parallel, vectorised or unrolled.
    pub kind: LoopKind,
}

/// An access of a store statement: the store itself, or a load of its value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// Element type.
    pub dtype: DType,
    /// Bytes per element.
    pub bytes: f64,
    /// Whether it is the store.
    pub is_store: bool,
    /// Whether the buffer is a parameter, whose layout is fixed.
    pub is_param: bool,
    /// Stride of each level, in elements.
    pub strides: SmallVec<[i64; 16]>,
    /// For each dimension, the change of its index from the start to the end of each level.
    pub spans: SmallVec<[SmallVec<[i64; 16]>; 4]>,
    /// Extents of the dimensions.
    pub shape: SmallVec<[i64; 4]>,
}

/// A store statement, with everything computed for it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leaf {
    /// The loops around it, outermost first.
    pub levels: Vec<Level>,
    /// The store, then the distinct loads.
    pub accesses: Vec<Access>,
    /// The operations of one execution.
    pub ops: Ops,
    /// Whether the old element is an operand: an update of a reduction.
    pub updates: bool,
    /// Number of executions.
    pub executed: f64,
    /// Share of the executions that pass the predicates around.
    pub useful: f64,
    /// Whether there is a condition inside, as for padding.
    pub is_guarded: bool,
    /// The unroll limit, in steps.
    pub unroll: i64,
}

/// A loop of a nest as executed: a level, or the outer or inner part of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Piece {
    /// Position of the level.
    pub level: usize,
    /// Number of iterations.
    pub extent: f64,
    /// Share of the level's range that it covers.
    pub share: f64,
}

impl Piece {
    /// The piece that is a complete level.
    pub(crate) fn whole(level: usize, levels: &[Level]) -> Piece {
        Piece { level, extent: levels[level].extent as f64, share: 1.0 }
    }
}

impl Access {
    /// Number of cache lines of `line` bytes that these loops touch together.
    pub(crate) fn lines(&self, loops: &[Piece], line: f64) -> f64 {
        // The bounding box of the indices, and its contiguous runs of elements.
        let (mut outside, mut run, mut is_contiguous) = (1.0, 1.0, true);
        for (spans, &extent) in self.spans.iter().zip(&self.shape).rev() {
            let range = loops.iter().fold(1.0, |r, p| r + (spans[p.level] as f64 * p.share).abs());
            let range = range.round().min(extent.max(1) as f64);
            if is_contiguous {
                run *= range;
                is_contiguous = range >= extent as f64;
            } else {
                outside *= range;
            }
        }
        let lines = outside * (run * self.bytes / line).ceil();
        // A strided access touches at most one line per iteration.
        lines.min(loops.iter().filter(|p| self.moves_with(p.level)).map(|p| p.extent).product())
    }

    /// Whether the accessed address depends on this level.
    pub(crate) fn moves_with(&self, level: usize) -> bool {
        self.strides[level] != 0 || self.spans.iter().any(|s| s[level] != 0)
    }
}

impl Leaf {
    /// Removes the loops that the store does not depend on: it runs once for all their iterations.
    fn without_idle_levels(&mut self) {
        let Some(store) = self.accesses.first() else { return };
        let moves: Vec<bool> = (0..self.levels.len()).map(|i| store.moves_with(i)).collect();
        let idle = self.levels.iter().zip(&moves).filter(|(_, moves)| !**moves).map(|(l, _)| l.extent as f64);
        self.executed /= idle.product::<f64>().max(1.0);
        let mut kept = moves.iter();
        self.levels.retain(|_| kept.next().copied().unwrap_or(true));
        for access in &mut self.accesses {
            for list in std::iter::once(&mut access.strides).chain(&mut access.spans) {
                let mut kept = moves.iter();
                list.retain(|_| kept.next().copied().unwrap_or(true));
            }
        }
    }

    /// The loops in source order.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        (0..self.levels.len()).map(|i| Piece::whole(i, &self.levels)).collect()
    }
}

/// All stores of a function with constant loops, in text order.
pub(crate) fn leaves(func: &Func) -> Vec<Leaf> {
    let mut walk = Walk { func, path: Vec::new(), unroll: 0, leaves: Vec::new() };
    walk.stmt(func.root.stmt());
    walk.leaves
}

/// A loop or condition around a statement.
enum Around {
    Loop(VarId, i64, Level),
    Value(VarId, ExprId),
    /// A condition: the share of iterations that satisfy it, and the outermost variable of each of its parts.
    Guard(f64, SmallVec<[VarId; 2]>),
}

struct Walk<'a> {
    func: &'a Func,
    path: Vec<Around>,
    unroll: i64,
    leaves: Vec<Leaf>,
}

impl Walk<'_> {
    fn all(&mut self, body: &[StmtId]) {
        body.iter().for_each(|&s| self.stmt(s));
    }

    fn stmt(&mut self, s: StmtId) {
        let func = self.func;
        let arena = &func.arena;
        let before = self.path.len();
        match func.get(s) {
            Stmt::Loop(l) => {
                let (min, extent) = (arena.as_int(l.min).unwrap_or(0), arena.as_int(l.extent).unwrap_or(1));
                let unroll = l.annotations.get("pragma_auto_unroll_max_step").and_then(AttrValue::as_int);
                let old = self.unroll;
                self.unroll = unroll.unwrap_or(old);
                if let Some(id) = func.as_loop(s) {
                    self.path.push(Around::Loop(l.var, min, Level { id, extent, is_uneven: false, kind: l.kind }));
                    self.all(&l.body);
                }
                self.unroll = old;
            }
            Stmt::Block(b) => {
                self.path.extend(b.iters.iter().map(|i| Around::Value(i.var, i.value)));
                if arena.as_int(b.predicate).is_none() {
                    let loops = self.path.iter().filter_map(|a| match a {
                        Around::Loop(_, _, l) => Some(l.extent as f64),
                        Around::Value(..) | Around::Guard(..) => None,
                    });
                    let domain = b.iters.iter().filter_map(|i| arena.as_int(i.extent)).map(|n| n as f64);
                    let share = domain.product::<f64>() / loops.product::<f64>().max(1.0);
                    let uneven = self.outermost(b.predicate);
                    self.path.push(Around::Guard(share.clamp(0.01, 1.0), uneven));
                }
                if let Some(init) = &b.init {
                    // An init runs where all reductions begin.
                    let from = self.leaves.len();
                    self.all(init);
                    self.leaves[from..].iter_mut().for_each(Leaf::without_idle_levels);
                }
                self.all(&b.body);
            }
            Stmt::Store { buffer, indices, value } => self.leaf(*buffer, *indices, *value),
            Stmt::If { then, otherwise, .. } => {
                self.path.push(Around::Guard(1.0, SmallVec::new()));
                self.all(then);
                self.all(otherwise);
            }
            Stmt::Let { var, value, body } => {
                self.path.push(Around::Value(*var, *value));
                self.all(body);
            }
            Stmt::Attr(a) => {
                let old = self.unroll;
                if a.key == "pragma_auto_unroll_max_step" {
                    self.unroll = arena.as_int(a.value).unwrap_or(old);
                }
                self.all(&a.body);
                self.unroll = old;
            }
            Stmt::While { body, .. } => self.all(body),
            Stmt::Evaluate(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => {}
        }
        self.path.truncate(before);
    }

    /// The variable of the outermost loop in each part of a condition: its last iteration is the one that may be incomplete.
    fn outermost(&self, condition: ExprId) -> SmallVec<[VarId; 2]> {
        let arena = &self.func.arena;
        if let Expr::Binary(BinOp::And, a, b) = arena.expr(condition) {
            let mut vars = self.outermost(a);
            vars.extend(self.outermost(b));
            return vars;
        }
        let vars = vars_of(arena, condition);
        self.path.iter().filter_map(loop_of).map(|(var, ..)| var).find(|v| vars.contains(v)).into_iter().collect()
    }

    fn leaf(&mut self, buffer: BufferId, indices: ExprList, value: ExprId) {
        let func = self.func;
        let arena = &func.arena;
        let loops: Vec<(VarId, i64, Level)> = self.path.iter().filter_map(loop_of).collect();
        let executed = loops.iter().map(|(_, _, l)| l.extent.max(0) as f64).product();
        // In a nest of extreme depth, the outermost loops are ignored.
        let moving: Vec<_> = loops.iter().filter(|(_, _, l)| l.extent > 1).copied().collect();
        let moving = &moving[moving.len().saturating_sub(MAX_LOOPS)..];
        let mut points = Points::new(&moving.iter().map(|&(v, min, l)| (v, min, l.extent)).collect::<Vec<_>>());
        let (mut useful, mut is_guarded) = (1.0f64, false);
        let mut uneven: SmallVec<[VarId; 4]> = SmallVec::new();
        for around in &self.path {
            match around {
                Around::Loop(var, min, l) if l.extent <= 1 => points.fix(*var, *min),
                Around::Loop(..) => {}
                Around::Value(var, value) => points.bind(arena, *var, *value),
                Around::Guard(share, vars) => {
                    useful = useful.min(*share);
                    is_guarded = true;
                    uneven.extend_from_slice(vars);
                }
            }
        }
        let level = |&(var, _, l): &(VarId, i64, Level)| Level { is_uneven: uneven.contains(&var), ..l };
        let levels: Vec<Level> = moving.iter().map(level).collect();
        let mut seen: SmallVec<[(BufferId, ExprList); 8]> = SmallVec::from_slice(&[(buffer, indices)]);
        let mut updates = false;
        for_each_subexpr(arena, value, &mut |e| match arena.expr(e) {
            Expr::Load(b, i) if (b, i) == (buffer, indices) => updates = true,
            Expr::Load(b, i) if !seen.contains(&(b, i)) => seen.push((b, i)),
            Expr::IfThenElse(..) => is_guarded = true,
            _ => {}
        });
        let access = |(i, &(b, list)): (usize, &(BufferId, ExprList))| {
            let rows: SmallVec<[Row; 4]> = arena.list(list).iter().map(|&e| points.eval(arena, e)).collect();
            Access::new(func, b, i == 0, &rows, &points, levels.len())
        };
        let accesses = seen.iter().enumerate().map(access).collect();
        let mut ops = Ops::default();
        ops.add(func, value);
        let unroll = self.unroll;
        self.leaves.push(Leaf { levels, accesses, ops, updates, executed, useful, is_guarded, unroll });
    }
}

fn loop_of(around: &Around) -> Option<(VarId, i64, Level)> {
    match around {
        Around::Loop(var, min, level) => Some((*var, *min, *level)),
        Around::Value(..) | Around::Guard(..) => None,
    }
}

impl Access {
    fn new(func: &Func, buffer: BufferId, is_store: bool, rows: &[Row], points: &Points, n_levels: usize) -> Access {
        let arena = &func.arena;
        let b = arena.buffer(buffer);
        let shape: SmallVec<[i64; 4]> = arena.list(b.shape).iter().map(|&e| arena.as_int(e).unwrap_or(1)).collect();
        let mut strides: SmallVec<[i64; 16]> = SmallVec::from_elem(0, n_levels);
        let mut spans = SmallVec::with_capacity(rows.len());
        let mut distance = 1i64;
        for (d, row) in rows.iter().enumerate().rev() {
            if let Some(given) = b.strides.and_then(|l| arena.list(l).get(d)).and_then(|&e| arena.as_int(e)) {
                distance = given;
            }
            for (i, stride) in strides.iter_mut().enumerate() {
                *stride = stride.wrapping_add(points.step(row, i).wrapping_mul(distance));
            }
            spans.push((0..n_levels).map(|i| points.span(row, i)).collect());
            distance = distance.saturating_mul(shape.get(d).copied().unwrap_or(1).max(1));
        }
        spans.reverse();
        let is_param = func.param_of(buffer).is_some();
        Access { buffer, dtype: b.dtype, bytes: b.dtype.bytes() as f64, is_store, is_param, strides, spans, shape }
    }
}
