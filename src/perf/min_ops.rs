//! The minimum of operations that a function needs: each value is counted once, even if loops compute it many times.
//!
//! [`flops`](super::flops) counts the program as written, so that all its schedules are compared by one number. This
//! count is for a lower bound. In `Y[i, j] = X[i, j] / sqrt(V[i])` the root is needed once for each `i`: a value counts as
//! often as the loops iterate on which it depends, directly or through the variables of its block.

use crate::ir::expr::{Arena, Const, Expr, ExprId, ExprList, VarId};
use crate::ir::op::{BinOp, Intrinsic};
use crate::ir::stmt::{IterKind, Stmt, StmtId};
use crate::ir::visit::vars_of;
use crate::ir::{BufferId, DType, Func};
use std::collections::BTreeMap;

/// A minimum of operations.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct MinOps {
    /// All operations, calls included.
    pub ops: f64,
    /// Products of floats, and divisions, which are products with reciprocals.
    products: f64,
    /// Additions and subtractions of floats of 32 and 64 bits.
    additions: f64,
    /// Minima and maxima of such floats.
    extremes: f64,
    /// Calls of functions of scalars, by function and data type.
    pub calls: BTreeMap<(Intrinsic, DType), f64>,
    /// Divisions by what is not constant, by data type. Floats count once for each divisor, whose reciprocal others are
    /// multiplied by.
    pub divisions: BTreeMap<DType, f64>,
    /// Loads of elements one by one: the index along the last dimension is computed from elements of other buffers, or one along
    /// another dimension is from elements that change with the last one.
    pub lookups: f64,
}

impl MinOps {
    /// The minimum of a function. Loops of symbolic extent count nothing.
    pub(crate) fn of(func: &Func) -> MinOps {
        let mut count = Count::new(func);
        let min = count.stmt(func.root.stmt());
        MinOps { lookups: count.lookups, ..min }
    }

    /// The additions, minima and maxima that are not part of a multiply-add. Those of windows that share their sums with others, as in
    /// pooling, are left out.
    pub(crate) fn unfused(&self) -> f64 {
        self.extremes + (self.additions - self.products).max(0.0)
    }

    fn and(mut self, other: MinOps) -> MinOps {
        self.ops += other.ops;
        self.products += other.products;
        self.additions += other.additions;
        self.extremes += other.extremes;
        for (key, n) in other.calls {
            *self.calls.entry(key).or_default() += n;
        }
        for (dtype, n) in other.divisions {
            *self.divisions.entry(dtype).or_default() += n;
        }
        self
    }

    fn or(self, other: MinOps) -> MinOps {
        if other.ops > self.ops { other } else { self }
    }
}

struct Count<'a> {
    func: &'a Func,
    /// The loops around the statement, with their extents.
    loops: Vec<(VarId, f64)>,
    /// The loop variables on which each variable of a block or a `let` depends.
    meaning: BTreeMap<VarId, Vec<VarId>>,
    /// The accesses of each buffer at computed places; `None` if it has accesses at other places.
    gathered: BTreeMap<BufferId, Option<f64>>,
    /// Loads of single elements at computed places.
    lookups: f64,
    /// The loop variables over which the block reduces.
    reduced: Vec<VarId>,
}

impl<'a> Count<'a> {
    fn new(func: &'a Func) -> Count<'a> {
        Count {
            func,
            loops: Vec::new(),
            meaning: BTreeMap::new(),
            gathered: BTreeMap::new(),
            lookups: 0.0,
            reduced: Vec::new(),
        }
    }

    fn all(&mut self, body: &[StmtId]) -> MinOps {
        body.iter().fold(MinOps::default(), |sum, &s| sum.and(self.stmt(s)))
    }

    fn stmt(&mut self, s: StmtId) -> MinOps {
        let func = self.func;
        match func.get(s) {
            Stmt::Loop(l) => {
                self.loops.push((l.var, func.n_iterations(l).map_or(0.0, |n| n as f64)));
                let inside = self.all(&l.body);
                self.loops.pop();
                inside
            }
            Stmt::Block(b) => {
                for iter in &b.iters {
                    self.define(iter.var, iter.value);
                }
                let over = b.iters.iter().filter(|i| i.kind == IterKind::Reduce);
                let over = over.flat_map(|i| self.loop_vars(i.value)).collect();
                let around = std::mem::replace(&mut self.reduced, over);
                // The init is left out: initial values are nearly always constants.
                let inside = self.all(&b.body);
                self.reduced = around;
                inside
            }
            Stmt::Store { buffer, indices, value } => {
                self.accesses(*value);
                self.lookups += self.lookups_in(*value);
                func.arena.list(*indices).iter().for_each(|&i| self.accesses(i));
                self.access(*buffer, func.arena.list(*indices));
                let mut min = self.expr(*value, &mut Vec::new());
                if self.is_of_windows(*value) {
                    (min.additions, min.extremes) = (0.0, 0.0);
                }
                min
            }
            Stmt::Evaluate(value) => {
                self.accesses(*value);
                self.expr(*value, &mut Vec::new())
            }
            Stmt::If { condition, then, otherwise } => {
                self.accesses(*condition);
                self.all(then).or(self.all(otherwise))
            }
            Stmt::Let { var, value, body } => {
                self.accesses(*value);
                let of_value = self.expr(*value, &mut Vec::new());
                self.define(*var, *value);
                of_value.and(self.all(body))
            }
            Stmt::Attr(a) => self.all(&a.body),
            // The body may not run at all.
            Stmt::While { condition, body } => {
                self.accesses(*condition);
                self.all(body);
                MinOps::default()
            }
            Stmt::Return(value) => {
                self.accesses(*value);
                self.expr(*value, &mut Vec::new())
            }
            Stmt::Alloc { .. } | Stmt::Declare { .. } | Stmt::Break | Stmt::Continue | Stmt::Assert(_) => {
                MinOps::default()
            }
        }
    }

    fn define(&mut self, var: VarId, value: ExprId) {
        let vars = self.loop_vars(value);
        self.meaning.insert(var, vars);
    }

    /// The loop variables on which an expression depends.
    fn loop_vars(&self, e: ExprId) -> Vec<VarId> {
        let mut vars = Vec::new();
        for v in vars_of(&self.func.arena, e) {
            match self.meaning.get(&v) {
                Some(meaning) => vars.extend(meaning),
                None => vars.push(v),
            }
        }
        vars
    }

    /// Counts the loads in an expression, those in indices included.
    fn accesses(&mut self, e: ExprId) {
        if let Expr::Load(buffer, indices) = self.func.arena.expr(e) {
            self.access(buffer, self.func.arena.list(indices));
        }
        self.func.arena.for_each_child(e, |c| self.accesses(c));
    }

    fn access(&mut self, buffer: BufferId, indices: &[ExprId]) {
        let is_computed = indices.iter().any(|&i| reads(self.func, i));
        let vars: Vec<VarId> = indices.iter().flat_map(|&i| self.loop_vars(i)).collect();
        let elements: f64 = self.loops.iter().filter(|(v, _)| vars.contains(v)).map(|(_, n)| n).product();
        let all = self.gathered.entry(buffer).or_insert(Some(0.0));
        *all = all.filter(|_| is_computed).map(|sum| sum + elements);
    }

    /// How often the loads in an expression take single elements, each place counted once.
    fn lookups_in(&self, e: ExprId) -> f64 {
        fn walk(count: &Count<'_>, e: ExprId, seen: &mut Vec<ExprId>) -> f64 {
            if seen.contains(&e) {
                return 0.0;
            }
            seen.push(e);
            let arena = &count.func.arena;
            let mut n = match arena.expr(e) {
                Expr::Load(_, indices) if count.is_lookup(arena.list(indices)) => {
                    let vars: Vec<VarId> = arena.list(indices).iter().flat_map(|&i| count.loop_vars(i)).collect();
                    count.loops.iter().filter(|(v, _)| vars.contains(v)).map(|(_, n)| n).product()
                }
                _ => 0.0,
            };
            arena.for_each_child(e, |c| n += walk(count, c, seen));
            n
        }
        walk(self, e, &mut Vec::new())
    }

    /// Whether neighbours along the last dimension are at places that have nothing to do with each other.
    fn is_lookup(&self, indices: &[ExprId]) -> bool {
        let Some((&last, outer)) = indices.split_last() else { return false };
        let along = self.loop_vars(last);
        let moves = |&i: &ExprId| reads(self.func, i) && self.loop_vars(i).iter().any(|v| along.contains(v));
        reads(self.func, last) || outer.iter().any(moves)
    }

    /// Whether an update reduces windows that overlap, without weights: parts of their sums are those of others as well. No index of
    /// what is added depends on the variables of the reduction alone.
    fn is_of_windows(&self, value: ExprId) -> bool {
        fn has_own(count: &Count<'_>, e: ExprId) -> bool {
            let arena = &count.func.arena;
            let is_own = |&i: &ExprId| {
                let vars = count.loop_vars(i);
                !vars.is_empty() && vars.iter().all(|v| count.reduced.contains(v))
            };
            let mut found = matches!(arena.expr(e), Expr::Load(_, indices) if arena.list(indices).iter().any(is_own));
            arena.for_each_child(e, |c| found |= has_own(count, c));
            found
        }
        let reduces = self.loops.iter().any(|(v, n)| *n > 1.0 && self.reduced.contains(v));
        reduces && !has_own(self, value)
    }

    /// The least number of times that an expression must be computed.
    fn times(&self, e: ExprId) -> f64 {
        let vars = self.loop_vars(e);
        self.loops.iter().filter(|(v, _)| vars.contains(v)).map(|(_, n)| n).product()
    }

    fn expr(&self, e: ExprId, seen: &mut Vec<ExprId>) -> MinOps {
        let mut min = MinOps::default();
        if seen.contains(&e) {
            return min;
        }
        seen.push(e);
        match self.func.arena.expr(e) {
            // Indices do not count.
            Expr::Load(..) => return min,
            Expr::Select(_, a, b) | Expr::IfThenElse(_, a, b) => {
                return self.expr(a, &mut seen.clone()).or(self.expr(b, seen));
            }
            Expr::Binary(BinOp::And | BinOp::Or, ..) => {}
            // The remainder of floats is a function.
            Expr::Binary(BinOp::Mod, ..) if self.func.arena.dtype(e).is_float() => {
                min.ops = self.times(e) * f64::from(self.func.arena.lanes(e));
                min.calls.insert((Intrinsic::Fmod, self.func.arena.dtype(e)), min.ops);
            }
            Expr::Binary(BinOp::Div | BinOp::FloorDiv | BinOp::Mod | BinOp::FloorMod, _, b)
                if self.func.arena.dtype(e).is_integer() && self.func.arena.as_int(b).is_none() =>
            {
                min.ops = self.times(e) * f64::from(self.func.arena.lanes(e));
                min.divisions.insert(self.func.arena.dtype(e), min.ops);
            }
            Expr::Binary(BinOp::Div, _, b)
                if self.func.arena.dtype(e).is_float() && self.func.arena.as_const(b).is_none() =>
            {
                min.ops = self.times(e) * f64::from(self.func.arena.lanes(e));
                let divisors = self.times(b) * f64::from(self.func.arena.lanes(e));
                min.divisions.insert(self.func.arena.dtype(e), divisors.min(min.ops));
            }
            Expr::Binary(..) => min.ops = self.times(e) * f64::from(self.func.arena.lanes(e)),
            Expr::Call(function, args) => {
                min.ops = self.times(e) * f64::from(self.func.arena.lanes(e));
                match products(&self.func.arena, function, args) {
                    Some(n) => min.ops *= n,
                    None => drop(min.calls.insert((function, self.func.arena.dtype(e)), min.ops)),
                }
            }
            Expr::Int(_)
            | Expr::Float(_)
            | Expr::Str(_)
            | Expr::Var(_)
            | Expr::BufferData(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Cast(_)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => {}
        }
        let dtype = self.func.arena.dtype(e);
        match self.func.arena.expr(e) {
            Expr::Binary(BinOp::Mul | BinOp::Div, ..) | Expr::Call(Intrinsic::Pow | Intrinsic::Fma, _) => {
                min.products = min.ops;
            }
            Expr::Binary(BinOp::Add | BinOp::Sub, ..) if is_whole(dtype) => min.additions = min.ops,
            Expr::Binary(BinOp::Min | BinOp::Max, ..) if is_whole(dtype) => min.extremes = min.ops,
            _ => {}
        }
        self.func.arena.for_each_child(e, |c| min = std::mem::take(&mut min).and(self.expr(c, seen)));
        min
    }
}

/// The number of products that a power with a small constant exponent is, as in the square of a difference.
fn products(arena: &Arena, function: Intrinsic, args: ExprList) -> Option<f64> {
    let &[_, exponent] = arena.list(args) else { return None };
    match arena.as_const(exponent)? {
        Const::Float(2.0) if function == Intrinsic::Pow => Some(1.0),
        Const::Float(3.0 | 4.0) if function == Intrinsic::Pow => Some(2.0),
        _ => None,
    }
}

/// Is it a float that no narrower one can stand for?
fn is_whole(dtype: DType) -> bool {
    matches!(dtype, DType::Float32 | DType::Float64)
}

/// Does an expression read memory?
fn reads(func: &Func, e: ExprId) -> bool {
    let mut found = matches!(func.arena.expr(e), Expr::Load(..));
    func.arena.for_each_child(e, |c| found |= reads(func, c));
    found
}

/// The buffers that are only accessed at computed places, such as the table of an embedding, with the number of accesses
/// of each.
pub(super) fn gathered(func: &Func) -> BTreeMap<BufferId, f64> {
    let mut count = Count::new(func);
    count.stmt(func.root.stmt());
    count.gathered.into_iter().filter_map(|(b, n)| Some((b, n?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{ParseOptions, parse};

    fn min_ops(workload: &str) -> (f64, Vec<(&'static str, f64)>) {
        let path = format!("{}/workloads/{workload}.tir", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let module = parse(&text, workload, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let MinOps { ops, calls, .. } = MinOps::of(&module.funcs[0]);
        (ops, calls.iter().map(|((f, _), n)| (f.name(), *n)).collect())
    }

    #[test]
    fn elements_at_computed_places_are_looked_up() {
        let lookups = |index: &str| {
            let text = format!(
                "@T.prim_func
def main(A: T.Buffer((64, 128), \"float32\"), I: T.Buffer((32,), \"int32\"), B: T.Buffer((32, 128), \"float32\")):
    for i, j in T.grid(32, 128):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[{index}]
"
            );
            let module = parse(&text, "lookup", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
            MinOps::of(&module.funcs[0]).lookups
        };
        assert_eq!(lookups("vi, vj"), 0.0);
        // Rows are contiguous.
        assert_eq!(lookups("I[vi], vj"), 0.0);
        // Each element of a row is in a row of its own.
        assert_eq!(lookups("I[vj % 32], vj"), 128.0);
        assert_eq!(lookups("vj % 64, I[vi]"), 32.0 * 128.0);
        assert_eq!(lookups("vi, I[vi]"), 32.0);
    }

    #[test]
    fn divisions_of_integers_by_constants_are_like_other_operations() {
        let counts = |value: &str| {
            let text = format!(
                "@T.prim_func
def main(A: T.Buffer((64,), \"int32\"), D: T.Buffer((64,), \"int32\"), B: T.Buffer((64,), \"int32\")):
    for i in range(64):
        with T.block(\"B\"):
            vi = T.axis.spatial(64, i)
            B[vi] = {value}
"
            );
            let module = parse(&text, "division", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
            let MinOps { ops, divisions, .. } = MinOps::of(&module.funcs[0]);
            (ops, divisions.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(counts("A[vi] // 7"), (64.0, vec![]));
        assert_eq!(counts("A[vi] % D[vi] + 1"), (128.0, vec![(DType::Int32, 64.0)]));
        assert_eq!(counts("T.truncdiv(A[vi], D[0])"), (64.0, vec![(DType::Int32, 64.0)]));
    }

    #[test]
    fn floats_are_divided_once_for_each_divisor() {
        let divisions = |value: &str| {
            let text = format!(
                "@T.prim_func
def main(A: T.Buffer((64, 8), \"float32\"), B: T.Buffer((64, 8), \"float32\")):
    for i, j in T.grid(64, 8):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = {value}
"
            );
            let module = parse(&text, "division", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
            MinOps::of(&module.funcs[0]).divisions.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(divisions("A[vi, vj] / T.float32(3)"), vec![]);
        assert_eq!(divisions("A[vi, vj] / A[vi, 0]"), vec![(DType::Float32, 64.0)]);
        assert_eq!(divisions("T.float32(1) / A[vi, vj]"), vec![(DType::Float32, 512.0)]);
    }

    #[test]
    fn small_powers_are_products() {
        let min_ops = |exponent: &str| {
            let text = format!(
                "@T.prim_func
def main(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")):
    for i in range(64):
        with T.block(\"B\"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.pow(A[vi], T.float32({exponent}))
"
            );
            let module = parse(&text, "power", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
            let MinOps { ops, calls, .. } = MinOps::of(&module.funcs[0]);
            (ops, calls.len())
        };
        assert_eq!(min_ops("2"), (64.0, 0));
        assert_eq!(min_ops("4"), (128.0, 0));
        assert_eq!(min_ops("2.5"), (64.0, 1));
    }

    #[test]
    fn additions_of_multiply_adds_and_of_overlapping_windows_are_fused() {
        let unfused = |value: &str| {
            let text = format!(
                "@T.prim_func
def main(A: T.Buffer((70,), \"float32\"), W: T.Buffer((3,), \"float32\"), B: T.Buffer((64,), \"float32\")):
    for i, r in T.grid(64, 3):
        with T.block(\"B\"):
            vi, vr = T.axis.remap(\"SR\", [i, r])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = {value}
"
            );
            let module = parse(&text, "unfused", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
            MinOps::of(&module.funcs[0]).unfused()
        };
        assert_eq!(unfused("B[vi] + A[vi + vr] * W[vr]"), 0.0);
        assert_eq!(unfused("T.max(B[vi], A[vi + vr] + W[vr])"), 64.0 * 3.0 * 2.0);
        assert_eq!(unfused("T.max(B[vi], A[vi + vr] * W[vr])"), 64.0 * 3.0);
        assert_eq!(unfused("T.max(B[vi], A[vi + vr])"), 0.0);
        assert_eq!(unfused("B[vi] + W[vr]"), 64.0 * 3.0);
        assert_eq!(unfused("B[vi] + T.Cast(\"float32\", T.Cast(\"float16\", W[vr]) + T.float16(1))"), 64.0 * 3.0);
    }

    #[test]
    fn known_programs() {
        assert_eq!(min_ops("matmul"), (2.0 * 128.0 * 128.0 * 128.0, vec![]));
        let n = 256.0 * 1024.0;
        assert_eq!(min_ops("softmax"), (5.0 * n, vec![("exp", n)]));
        // For each element: two sums, a product, a subtraction, a division, gain and bias. For each row: mean, variance, root.
        let (rows, n) = (128.0, 128.0 * 768.0);
        assert_eq!(min_ops("layer_norm"), (7.0 * n + 6.0 * rows, vec![("sqrt", rows)]));
    }
}
