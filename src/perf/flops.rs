//! The work of a program: operations and bytes.
//!
//! Operations are counted in the program as written, so a schedule that computes a value twice gains nothing by it. The
//! count covers the values that statements store, evaluate or name, multiplied by the iterations of the loops around:
//!
//! * each addition, subtraction, multiplication, division, remainder, minimum and maximum counts one, for floats and
//!   integers alike;
//! * each call of a function of scalars (`exp`, `sqrt`, …) counts one;
//! * indices, comparisons, selections, casts, loads, stores and boolean operators count nothing;
//! * an `if`, as a statement or an expression, counts its larger side;
//! * an initialisation counts once for each element of the reduction's result.
//!
//! A matmul thus has `2 * M * N * K` operations. Bytes are the sizes of the parameters that the program loads or stores,
//! each counted once: the least that must move. A parameter that is only accessed at computed places, such as the table of
//! an embedding, counts as many elements as it has accesses.

use super::min_ops::gathered;
use crate::ir::expr::{Expr, ExprId};
use crate::ir::op::BinOp;
use crate::ir::stmt::{IterKind, Stmt, StmtId};
use crate::ir::visit::{Visitor, walk_expr, walk_stmt};
use crate::ir::{BufferId, DType, Func};
use std::collections::{BTreeMap, BTreeSet};

/// The work of one run of a function.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Work {
    /// Operations; a float, since products of extents may be large.
    pub flops: f64,
    /// Bytes of the parameters that are accessed.
    pub bytes: u64,
}

/// The work of a function; operations in loops of symbolic extent are not counted.
pub(crate) fn work(func: &Func) -> Work {
    let gathered = gathered(func);
    let mut touched = Touched::default();
    touched.visit_stmt(func, func.root.stmt());
    let bytes = func
        .params
        .iter()
        .filter_map(|p| p.buffer.filter(|b| touched.0.contains(b)))
        .map(|b| moved_of(func, b, &gathered))
        .fold(0, u64::saturating_add);
    Work { flops: of_stmt(func, func.root.stmt()), bytes }
}

/// The bytes of a buffer that must move. `gathered` counts the accesses of buffers that are only accessed at computed
/// places.
pub(super) fn moved_of(func: &Func, b: BufferId, gathered: &BTreeMap<BufferId, f64>) -> u64 {
    let all = bytes_of(func, b);
    let bytes = func.arena.buffer(b).dtype.bytes() as f64;
    gathered.get(&b).map_or(all, |n| all.min((n * bytes) as u64))
}

/// The size of a buffer of constant shape.
pub(super) fn bytes_of(func: &Func, b: BufferId) -> u64 {
    let buffer = func.arena.buffer(b);
    let extents = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e).unwrap_or(0).max(0) as u64);
    extents.fold(buffer.dtype.bytes() as u64, u64::saturating_mul)
}

fn of_stmt(func: &Func, s: StmtId) -> f64 {
    let all = |body: &[StmtId]| body.iter().map(|&c| of_stmt(func, c)).sum::<f64>();
    match func.get(s) {
        Stmt::Loop(l) => func.n_iterations(l).map_or(0.0, |n| n as f64) * all(&l.body),
        Stmt::Block(b) => {
            let init = b.init.as_ref().map_or(0.0, |init| all(init));
            let share = |n: Option<i64>| 1.0 / n.unwrap_or(1).max(1) as f64;
            let reductions = b.iters.iter().filter(|i| i.kind == IterKind::Reduce);
            let share: f64 = reductions.map(|i| share(func.arena.as_int(i.extent))).product();
            init * share + all(&b.body)
        }
        Stmt::Store { value, .. } | Stmt::Evaluate(value) => of_expr(func, *value),
        Stmt::If { then, otherwise, .. } => all(then).max(all(otherwise)),
        Stmt::Let { value, body, .. } => of_expr(func, *value) + all(body),
        Stmt::Attr(a) => all(&a.body),
        // The number of iterations is unknown; one is assumed.
        Stmt::While { condition, body } => of_expr(func, *condition) + all(body),
        Stmt::Return(value) => of_expr(func, *value),
        Stmt::Assert(a) => of_expr(func, a.condition),
        Stmt::Alloc { .. } | Stmt::Declare { .. } | Stmt::Break | Stmt::Continue => 0.0,
    }
}

/// Does a function multiply 8-bit integers that are widened to 32 bits?
pub(crate) fn multiplies_bytes(func: &Func) -> bool {
    let mut found = Products(false);
    found.visit_stmt(func, func.root.stmt());
    found.0
}

struct Products(bool);

impl Visitor for Products {
    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        let is_byte = |e| match func.arena.expr(e) {
            Expr::Cast(a) => func.arena.dtype(a).is_integer() && func.arena.dtype(a).bytes() == 1,
            _ => false,
        };
        if let Expr::Binary(BinOp::Mul, a, b) = func.arena.expr(e) {
            self.0 |= is_byte(a) && is_byte(b) && func.arena.dtype(e).bytes() == 4;
        }
        walk_expr(self, func, e);
    }
}

/// The integer arithmetic of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arithmetic {
    /// Bits of the narrowest type that is added or multiplied.
    pub bits: u32,
    /// Is anything multiplied?
    pub multiplies: bool,
}

/// The integer arithmetic in the values that a function stores, without indices; `None` if there is none.
pub(crate) fn integer_arithmetic(func: &Func) -> Option<Arithmetic> {
    let mut found = Integers(None);
    found.visit_stmt(func, func.root.stmt());
    found.0
}

struct Integers(Option<Arithmetic>);

impl Integers {
    fn value(&mut self, func: &Func, e: ExprId) {
        match func.arena.expr(e) {
            // Indices do not count.
            Expr::Load(..) => return,
            Expr::Binary(op, ..) if func.arena.dtype(e).is_integer() && func.arena.dtype(e) != DType::Bool => {
                let bits = func.arena.dtype(e).bits();
                let before = self.0.unwrap_or(Arithmetic { bits, multiplies: false });
                let multiplies = before.multiplies || op == BinOp::Mul;
                self.0 = Some(Arithmetic { bits: before.bits.min(bits), multiplies });
            }
            _ => {}
        }
        func.arena.for_each_child(e, |c| self.value(func, c));
    }
}

impl Visitor for Integers {
    fn visit_stmt(&mut self, func: &Func, s: StmtId) {
        if let Stmt::Store { value, .. } = func.get(s) {
            self.value(func, *value);
        }
        walk_stmt(self, func, s);
    }
}

fn of_expr(func: &Func, e: ExprId) -> f64 {
    let here = match func.arena.expr(e) {
        Expr::Binary(op, ..) => match op {
            BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::Div
            | BinOp::Mod
            | BinOp::FloorDiv
            | BinOp::FloorMod
            | BinOp::Min
            | BinOp::Max => 1.0,
            BinOp::And | BinOp::Or => 0.0,
        },
        Expr::Call(..) | Expr::Builtin(..) => 1.0,
        // Indices do not count.
        Expr::Load(..) => return 0.0,
        Expr::Select(_, a, b) | Expr::IfThenElse(_, a, b) => return of_expr(func, a).max(of_expr(func, b)),
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
        | Expr::Shuffle(..) => 0.0,
    };
    let here = here * f64::from(func.arena.lanes(e));
    let mut inside = 0.0;
    func.arena.for_each_child(e, |c| inside += of_expr(func, c));
    here + inside
}

/// The buffers of loads and stores. Declared regions do not count.
#[derive(Default)]
struct Touched(BTreeSet<BufferId>);

impl Visitor for Touched {
    fn visit_stmt(&mut self, func: &Func, s: StmtId) {
        match func.get(s) {
            Stmt::Store { buffer, .. } => {
                self.0.insert(*buffer);
            }
            // An access of a view is one of its source.
            Stmt::Block(b) => self.0.extend(b.matches.iter().map(|m| m.source.buffer)),
            Stmt::Loop(_)
            | Stmt::If { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::While { .. }
            | Stmt::Attr(_)
            | Stmt::Alloc { .. }
            | Stmt::Declare { .. }
            | Stmt::Break
            | Stmt::Continue
            | Stmt::Return(_)
            | Stmt::Assert(_) => {}
        }
        walk_stmt(self, func, s);
    }

    fn visit_expr(&mut self, func: &Func, e: ExprId) {
        if let Expr::Load(buffer, _) | Expr::BufferData(buffer) = func.arena.expr(e) {
            self.0.insert(buffer);
        }
        walk_expr(self, func, e);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{ParseOptions, parse};

    fn check(workload: &str, flops: f64, bytes: u64) {
        let path = format!("{}/workloads/{workload}.tir", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let parsed = parse(&text, workload, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(work(&parsed.module.funcs[0]), Work { flops, bytes }, "{workload}");
    }

    #[test]
    fn known_programs() {
        check("matmul", 2.0 * 128.0 * 128.0 * 128.0, 3 * 128 * 128 * 4);
        // Maximum, subtraction and exp, sum, division.
        check("softmax", 256.0 * 1024.0 * (1.0 + 2.0 + 1.0 + 1.0), 2 * 256 * 1024 * 4);
        // Adding a bias and taking the maximum cost one each, on top of the products.
        check(
            "mlp",
            2.0 * 128.0 * 784.0 + 128.0 * 2.0 + 2.0 * 1280.0 + 10.0,
            (784 + 128 * 784 + 128 + 1280 + 10 + 10) * 4,
        );
        check("transpose", 0.0, transpose_bytes());
        // The rows that are fetched, not the whole table: a minimum and a maximum of each index, for each element.
        check("embedding", 2.0 * 512.0 * 256.0 * 0.0, (512 * 256 * 2 + 512) * 4);
    }

    #[test]
    fn arithmetic_of_integers_is_that_of_values() {
        let text = "@T.prim_func
def main(A: T.Buffer((64,), \"int16\"), B: T.Buffer((64,), \"int32\")):
    for i in range(64):
        with T.block(\"B\"):
            v = T.axis.spatial(64, i)
            B[v * 1] = VALUE
";
        let of = |value: &str| {
            let text = text.replace("VALUE", value);
            let parsed = parse(&text, "t.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
            integer_arithmetic(&parsed.module.funcs[0])
        };
        let some = |bits, multiplies| Some(Arithmetic { bits, multiplies });
        assert_eq!(of("T.Cast(\"int32\", A[v])"), None);
        assert_eq!(of("T.Cast(\"int32\", A[v] + A[v])"), some(16, false));
        assert_eq!(of("T.Cast(\"int32\", A[63 - v]) * 7 + 1"), some(32, true));
    }

    fn transpose_bytes() -> u64 {
        let path = format!("{}/workloads/transpose.tir", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let parsed = parse(&text, "transpose", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let func = &parsed.module.funcs[0];
        let buffer = func.arena.buffer(func.params[0].buffer.unwrap());
        let n: i64 = func.arena.list(buffer.shape).iter().filter_map(|&e| func.arena.as_int(e)).product();
        2 * n as u64 * buffer.dtype.bytes() as u64
    }
}
