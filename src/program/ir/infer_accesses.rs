//! Infers the reads and writes of blocks that do not state them.
//!
//! The rules are TVM's (`GetSBlockAccessRegion`): loads and stores of the block's init and body in order of appearance,
//! one region per buffer. Indices are relaxed over the loops inside the block, but not over the block's own iteration
//! variables; inner blocks count by their declared regions; buffers declared inside do not count. A block with an init
//! does not read the buffers that it writes.

use super::difference::{Linear, difference};
use super::{
    Arena, BinOp, BlockId, BufferId, BufferRegion, DType, Expr, ExprId, Func, Stmt, StmtId, Substitution, VarId,
};
use hashbrown::{HashMap, HashSet};

/// The regions that a block reads and writes.
pub fn accesses(func: &mut Func, b: BlockId) -> (Vec<BufferRegion>, Vec<BufferRegion>) {
    let block = func.block(b).clone();
    let hidden: HashSet<BufferId> = block.allocs.iter().copied().collect();
    let views = block.matches.iter().map(|m| (m.buffer, m.source)).collect();
    let mut detector = Detector {
        func,
        hidden,
        views,
        domains: HashMap::new(),
        lets: Substitution::default(),
        reads: Vec::new(),
        writes: Vec::new(),
    };
    for &s in block.init.iter().flatten().chain(&block.body) {
        detector.stmt(s);
    }
    let writes = std::mem::take(&mut detector.writes);
    let mut reads = std::mem::take(&mut detector.reads);
    if block.init.is_some() {
        reads.retain(|r| writes.iter().all(|w| w.0 != r.0));
    }
    (detector.regions(reads), detector.regions(writes))
}

/// The set of an index's values; an end `None` is unbounded.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Set {
    min: Option<ExprId>,
    max: Option<ExprId>,
}

const EVERYTHING: Set = Set { min: None, max: None };

impl Set {
    fn point(e: ExprId) -> Set {
        Set { min: Some(e), max: Some(e) }
    }

    fn as_point(self) -> Option<ExprId> {
        self.min.filter(|_| self.min == self.max)
    }
}

type Access = (BufferId, Vec<Set>);

struct Detector<'f> {
    func: &'f mut Func,
    /// Buffers declared inside the block.
    hidden: HashSet<BufferId>,
    /// Views of regions of other buffers.
    views: HashMap<BufferId, BufferRegion>,
    /// The enclosing loops inside the block.
    domains: HashMap<VarId, Set>,
    /// Variables of lets with their values.
    lets: Substitution,
    reads: Vec<Access>,
    writes: Vec<Access>,
}

impl Detector<'_> {
    fn stmt(&mut self, s: StmtId) {
        match self.func.get(s).clone() {
            Stmt::Loop(l) => {
                self.expr(l.min);
                self.expr(l.extent);
                l.step.into_iter().for_each(|step| self.expr(step));
                let arena = &mut self.func.arena;
                let max = {
                    let end = arena.add(l.min, l.extent);
                    let one = arena.int(1, arena.dtype(end));
                    arena.sub(end, one)
                };
                let set = if arena.is_int(l.extent, 1) {
                    Set::point(l.min)
                } else {
                    Set { min: Some(l.min), max: Some(max) }
                };
                self.domains.insert(l.var, set);
                l.body.iter().for_each(|&c| self.stmt(c));
                self.domains.remove(&l.var);
            }
            Stmt::Block(b) => {
                let mut values = Substitution::of_vars(b.iters.iter().map(|i| (i.var, i.value)));
                for (is_write, region) in b.reads.iter().map(|r| (false, r)).chain(b.writes.iter().map(|r| (true, r))) {
                    let region = values.apply_region(&mut self.func.arena, region);
                    self.region(is_write, &region);
                }
            }
            Stmt::Store { buffer, indices, value } => {
                let indices = self.func.arena.list(indices).to_vec();
                let sets = indices.iter().map(|&i| self.index(i)).collect();
                self.update(true, buffer, sets);
                self.expr(value);
                indices.into_iter().for_each(|i| self.expr(i));
            }
            Stmt::If { condition, then, otherwise } => {
                self.expr(condition);
                then.into_iter().chain(otherwise).for_each(|c| self.stmt(c));
            }
            Stmt::Let { var, value, body } => {
                let inner = self.lets.apply(&mut self.func.arena, value);
                self.lets.add_var(var, inner);
                self.expr(value);
                body.into_iter().for_each(|c| self.stmt(c));
            }
            Stmt::Evaluate(e) | Stmt::Return(e) => self.expr(e),
            Stmt::Alloc { buffer, .. } | Stmt::Declare { buffer, .. } => {
                self.hidden.insert(buffer);
            }
            Stmt::While { condition, body } => {
                self.expr(condition);
                body.into_iter().for_each(|c| self.stmt(c));
            }
            Stmt::Assert(a) => self.expr(a.condition),
            Stmt::Attr(a) => {
                self.expr(a.value);
                a.body.into_iter().for_each(|c| self.stmt(c));
            }
            Stmt::Break | Stmt::Continue => {}
        }
    }

    /// The loads of an expression, parents before children.
    fn expr(&mut self, e: ExprId) {
        if let Expr::Load(buffer, indices) = self.func.arena.expr(e) {
            let indices = self.func.arena.list(indices).to_vec();
            let sets = indices.into_iter().map(|i| self.index(i)).collect();
            self.update(false, buffer, sets);
        }
        let mut children = Vec::new();
        self.func.arena.for_each_child(e, |c| children.push(c));
        children.into_iter().for_each(|c| self.expr(c));
    }

    fn index(&mut self, e: ExprId) -> Set {
        let e = self.lets.apply(&mut self.func.arena, e);
        let set = self.eval(e);
        if set.as_point().is_some() {
            return set;
        }
        // The size of a range need not fit in a narrow type: `uint8` has 256 values, but cannot represent 256.
        let mut widened = |e: Option<ExprId>| {
            let e = e?;
            let dtype = index_type(self.func.arena.dtype(e));
            Some(self.func.arena.cast(dtype, e))
        };
        Set { min: widened(set.min), max: widened(set.max) }
    }

    fn region(&mut self, is_write: bool, r: &BufferRegion) {
        let ranges: Vec<(ExprId, ExprId)> = r.ranges(&self.func.arena).collect();
        let sets = ranges.into_iter().map(|(min, extent)| self.range(min, extent)).collect();
        self.update(is_write, r.buffer, sets);
    }

    fn range(&mut self, min: ExprId, extent: ExprId) -> Set {
        if self.func.arena.is_int(extent, 1) {
            return self.eval(min);
        }
        let arena = &mut self.func.arena;
        let end = arena.add(min, extent);
        let one = arena.int(1, arena.dtype(end));
        let max = arena.sub(end, one);
        let max = simplify(arena, max);
        Set { min: self.eval(min).min, max: self.eval(max).max }
    }

    /// Adds an access; regions of the same buffer are united.
    fn update(&mut self, is_write: bool, buffer: BufferId, sets: Vec<Set>) {
        let (buffer, sets) = match self.views.get(&buffer).copied() {
            Some(source) => (source.buffer, self.through_view(buffer, source, sets)),
            None => (buffer, sets),
        };
        if self.hidden.contains(&buffer) {
            return;
        }
        let list = if is_write { &mut self.writes } else { &mut self.reads };
        match list.iter_mut().find(|a| a.0 == buffer) {
            Some((_, old)) => {
                for (o, n) in old.iter_mut().zip(sets) {
                    *o = union(&mut self.func.arena, *o, n);
                }
            }
            None => list.push((buffer, sets)),
        }
    }

    /// Converts an access of a view to one of its source.
    fn through_view(&mut self, view: BufferId, source: BufferRegion, sets: Vec<Set>) -> Vec<Set> {
        let shape = self.func.arena.list(self.func.arena.buffer(view).shape).to_vec();
        let ranges: Vec<(ExprId, ExprId)> = source.ranges(&self.func.arena).collect();
        // A view may leave out leading dimensions of the source.
        let skipped = ranges.len().saturating_sub(sets.len());
        let mut result = Vec::new();
        for (d, &(min, extent)) in ranges.iter().enumerate() {
            let (min, extent) = match d.checked_sub(skipped).and_then(|i| sets.get(i).zip(shape.get(i))) {
                None => (min, extent),
                Some((&set, &size)) => {
                    let (inner_min, inner_extent) = self.cover(set, size);
                    let arena = &mut self.func.arena;
                    let (min, inner_min) = alike(arena, min, inner_min);
                    let dtype = arena.dtype(min);
                    (arena.add(min, inner_min), arena.cast(dtype, inner_extent))
                }
            };
            result.push(self.range(min, extent));
        }
        result
    }

    /// The set as minimum and extent, the whole dimension if it has no bounds.
    fn cover(&mut self, set: Set, size: ExprId) -> (ExprId, ExprId) {
        let arena = &mut self.func.arena;
        match (set.min, set.max) {
            (Some(min), Some(max)) if min == max => {
                let dtype = arena.dtype(min);
                (min, arena.int(1, dtype))
            }
            (Some(min), Some(max)) => {
                let end = arena.add_const(max, 1);
                (min, difference(arena, end, min))
            }
            _ => {
                let dtype = arena.dtype(size);
                (arena.int(0, dtype), size)
            }
        }
    }

    fn regions(&mut self, accesses: Vec<Access>) -> Vec<BufferRegion> {
        let mut regions = Vec::new();
        for (buffer, sets) in accesses {
            let shape = self.func.arena.list(self.func.arena.buffer(buffer).shape).to_vec();
            let ranges: Vec<(ExprId, ExprId)> = sets.iter().zip(&shape).map(|(&s, &n)| self.cover(s, n)).collect();
            regions.push(BufferRegion::new(&mut self.func.arena, buffer, &ranges));
        }
        regions
    }

    /// The set of an expression's values over the loops inside the block.
    fn eval(&mut self, e: ExprId) -> Set {
        if self.func.arena.lanes(e) > 1 {
            return self.eval_lanes(e);
        }
        match self.func.arena.expr(e) {
            Expr::Var(v) => match self.domains.get(&v) {
                None => Set::point(e),
                Some(&Set { min: Some(min), max: Some(max) }) => {
                    Set { min: self.eval(min).min, max: self.eval(max).max }
                }
                Some(&set) => set,
            },
            Expr::Binary(op, a, b) => {
                let (x, y) = (self.eval(a), self.eval(b));
                if x.as_point() == Some(a) && y.as_point() == Some(b) {
                    return Set::point(e);
                }
                combine(&mut self.func.arena, op, x, y)
            }
            Expr::Select(_, t, o) => {
                let (x, y) = (self.eval(o), self.eval(t));
                union(&mut self.func.arena, x, y)
            }
            Expr::Cast(a) => {
                let set = self.eval(a);
                let dtype = self.func.arena.dtype(e);
                if set.as_point() == Some(a) {
                    return Set::point(e);
                }
                let mut cast = |e: Option<ExprId>| e.map(|e| self.func.arena.cast(dtype, e));
                Set { min: cast(set.min), max: cast(set.max) }
            }
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::BufferData(_) => Set::point(e),
            Expr::Load(..)
            | Expr::Call(..)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::IfThenElse(..)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => {
                let domains = &self.domains;
                if crate::ir::visit::uses_var(&self.func.arena, e, &mut |v| domains.contains_key(&v)) {
                    EVERYTHING
                } else {
                    Set::point(e)
                }
            }
        }
    }

    /// The union of the sets of all lanes of a vector index.
    fn eval_lanes(&mut self, e: ExprId) -> Set {
        match self.func.arena.expr(e) {
            Expr::Broadcast(value) => self.eval(value),
            Expr::Ramp(base, stride) => {
                let lanes = i64::from(self.func.arena.lanes(e));
                let Some(reach) = self.func.arena.as_int(stride).and_then(|s| s.checked_mul(lanes - 1)) else {
                    return EVERYTHING;
                };
                let base = self.eval(base);
                let arena = &mut self.func.arena;
                let mut shifted = |e: Option<ExprId>, by: i64| e.map(|e| arena.add_const(e, by));
                Set { min: shifted(base.min, reach.min(0)), max: shifted(base.max, reach.max(0)) }
            }
            _ => EVERYTHING,
        }
    }
}

fn both(a: Option<ExprId>, b: Option<ExprId>) -> Option<(ExprId, ExprId)> {
    Some((a?, b?))
}

/// `a op b` over two sets.
fn combine(arena: &mut Arena, op: BinOp, a: Set, b: Set) -> Set {
    if let (Some(x), Some(y)) = (a.as_point(), b.as_point()) {
        return Set::point(arena.binary(op, x, y));
    }
    let mut bound = |op, x, y| both(x, y).map(|(x, y)| arena.binary(op, x, y));
    match op {
        BinOp::Add => Set { min: bound(op, a.min, b.min), max: bound(op, a.max, b.max) },
        BinOp::Sub => Set { min: bound(op, a.min, b.max), max: bound(op, a.max, b.min) },
        BinOp::Min | BinOp::Max => Set { min: bound(op, a.min, b.min), max: bound(op, a.max, b.max) },
        BinOp::Mul => {
            let (a, b) = if a.as_point().is_some() { (b, a) } else { (a, b) };
            match b.as_point().and_then(|p| arena.as_int(p)) {
                Some(0) => b,
                Some(c) if c > 0 => {
                    Set { min: a.min.map(|e| arena.mul_const(e, c)), max: a.max.map(|e| arena.mul_const(e, c)) }
                }
                Some(c) => Set { min: a.max.map(|e| arena.mul_const(e, c)), max: a.min.map(|e| arena.mul_const(e, c)) },
                None => EVERYTHING,
            }
        }
        BinOp::Div | BinOp::FloorDiv => match b.as_point().and_then(|p| arena.as_int(p).map(|c| (p, c))) {
            Some((p, c)) if c > 0 => {
                Set { min: a.min.map(|e| arena.binary(op, e, p)), max: a.max.map(|e| arena.binary(op, e, p)) }
            }
            Some((p, c)) if c < 0 => {
                Set { min: a.max.map(|e| arena.binary(op, e, p)), max: a.min.map(|e| arena.binary(op, e, p)) }
            }
            _ => EVERYTHING,
        },
        BinOp::Mod | BinOp::FloorMod => match b.as_point().and_then(|p| arena.as_int(p).map(|c| (p, c))) {
            Some((p, c)) if c > 0 => {
                let dtype = arena.dtype(p);
                if let Some((lo, hi)) = both(a.min, a.max).and_then(|(x, y)| both_ints(arena, x, y))
                    && lo >= 0
                    && lo / c == hi / c
                {
                    return Set { min: Some(arena.int(lo % c, dtype)), max: Some(arena.int(hi % c, dtype)) };
                }
                Set { min: Some(arena.int(0, dtype)), max: Some(arena.int(c - 1, dtype)) }
            }
            _ => EVERYTHING,
        },
        BinOp::And | BinOp::Or => EVERYTHING,
    }
}

fn both_ints(arena: &Arena, a: ExprId, b: ExprId) -> Option<(i64, i64)> {
    Some((arena.as_int(a)?, arena.as_int(b)?))
}

fn union(arena: &mut Arena, a: Set, b: Set) -> Set {
    let min = both(a.min, b.min).map(|(x, y)| extremum(arena, BinOp::Min, x, y));
    let max = both(a.max, b.max).map(|(x, y)| extremum(arena, BinOp::Max, x, y));
    Set { min, max }
}

fn extremum(arena: &mut Arena, op: BinOp, x: ExprId, y: ExprId) -> ExprId {
    let (x, y) = alike(arena, x, y);
    let d = difference(arena, y, x);
    match arena.as_int(d) {
        Some(d) if (d >= 0) == (op == BinOp::Min) => simplify(arena, x),
        Some(_) => simplify(arena, y),
        None => arena.binary(op, x, y),
    }
}

/// Converts two indices to a common type: a program may use `A[i]` and `A[I[i]]` with `I` of `int64`.
fn alike(arena: &mut Arena, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
    let (ta, tb) = (arena.dtype(a), arena.dtype(b));
    if ta == tb {
        return (a, b);
    }
    let dtype = if index_type(ta) == DType::Int64 { DType::Int64 } else { index_type(tb) };
    (arena.cast(dtype, a), arena.cast(dtype, b))
}

/// The index type that can represent the values of another type.
fn index_type(dtype: DType) -> DType {
    match dtype {
        DType::Int64 | DType::UInt32 | DType::UInt64 => DType::Int64,
        _ => DType::Int32,
    }
}

fn simplify(arena: &mut Arena, e: ExprId) -> ExprId {
    match Linear::of(arena, e) {
        Some(sum) => sum.build(arena, e),
        None => e,
    }
}
