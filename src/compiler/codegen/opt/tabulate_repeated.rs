//! Computes once what repeats over the iterations of an outer loop.
//!
//! ```text
//! for i in 16: for c in 64: for y in 14: for x in 14: Y[…] = X[… + max(min(cast(int64, cast(int32, floor(B[i * 4 + 1] * f(x)))), 31), 0)]
//! // becomes
//! for i in 16: for x in 14: T[i * 14 + x] = max(min(cast(int32, floor(B[i * 4 + 1] * f(x))), 31), 0)
//! for i in 16: for c in 64: for y in 14: for x in 14: Y[…] = X[… + cast(int64, T[i * 14 + x])]
//! ```
//!
//! Operators that sample images at boxes or grids compute the place and the weights of a sample anew for each channel. A loop that
//! changes them is inside one that does not, so that they cannot just be moved out of a loop. Tables are filled before the outermost
//! loop: what they read must not be written in it, and must exist whatever conditions the program has around it. Integers must be
//! bounded by themselves, so that an index stays within the bounds that were proved or checked for it.

use super::machine::Machine;
use super::tabulate::Table;
use super::walk::{map_body, map_stmt};
use crate::codegen::facts::{can_fail, note_stores};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, map_operands};
use crate::loopir::{
    Arena, Body, BufferId, Expr, ExprId, For, Kernel, Placement, Range, Ranges, Stmt, StmtId, Ty, VarId,
};
use hashbrown::HashSet;

/// Minimum number of uses of each value.
const REPEATED: i64 = 4;

/// Number of uses in inner loops for which it is good enough to compute a value before these. Fewer are what a row of samples has; code
/// for scalars before each such row takes as long as the row, and keeps the loops around it from being compiled as one.
const HOISTED: i64 = 32;

/// Maximum number of values of a table.
const MAX_TABLE: i64 = 8192;

/// Maximum number of values of all tables before a loop, which should stay in a near cache.
const MAX_TABLES: i64 = 32768;

/// Minimum cost of a value, in simple operations.
const COSTLY: u32 = 6;

/// Makes tables before the outermost loops of the kernel. Returns whether there are any.
pub(super) fn tabulate_repeated(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let old: Vec<StmtId> = kernel.stmts.list(kernel.body).to_vec();
    let mut out: Vec<StmtId> = Vec::with_capacity(old.len());
    for &s in &old {
        let mut written = HashSet::default();
        note_stores(kernel, s, &mut written);
        let mut tables = Tables {
            written,
            around: Vec::new(),
            ranges: Ranges::default(),
            memo: ExprMap::default(),
            made: Vec::new(),
            left: MAX_TABLES,
        };
        let new = map_stmt(kernel, s, &mut |kernel, stmt| tables.stmt(kernel, stmt));
        out.extend(tables.made);
        out.push(new);
    }
    if out == old {
        return false;
    }
    kernel.body = kernel.stmts.body(&out);
    true
}

/// The tables before an outermost loop.
struct Tables {
    /// The buffers that the loop writes.
    written: HashSet<BufferId, FxBuild>,
    /// The loops around, with their extents.
    around: Vec<(VarId, i64)>,
    ranges: Ranges,
    /// The replacements of expressions in the loops around.
    memo: ExprMap,
    /// The loops that fill the tables.
    made: Vec<StmtId>,
    /// The number of values for which there may be further tables.
    left: i64,
}

impl Tables {
    fn body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        map_body(kernel, body, &mut |kernel, stmt| self.stmt(kernel, stmt))
    }

    fn stmt(&mut self, kernel: &mut Kernel, old: Stmt) -> Stmt {
        match old {
            Stmt::For(l) => {
                // Inside a loop that may be empty or whose extent is not known, nothing is known to be repeated.
                let Some(n) = kernel.arena.as_int(l.extent).filter(|&n| n > 0) else { return old };
                self.ranges.set_loop(&kernel.arena, l.var, l.extent);
                self.around.push((l.var, n));
                let outer = std::mem::take(&mut self.memo);
                let body = self.body(kernel, l.body);
                self.memo = outer;
                self.around.pop();
                Stmt::For(For { body, ..l })
            }
            // The other version is for the last rows, or for checks that fail: its values need not be computed in advance.
            Stmt::If { condition, then, otherwise } => Stmt::If { condition, then: self.body(kernel, then), otherwise },
            Stmt::Store { .. } | Stmt::Check { .. } if self.around.len() > 1 => {
                map_operands(old, |e| self.expr(kernel, e))
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => old,
        }
    }

    /// An expression with the largest parts that are worth a table looked up there.
    fn expr(&mut self, kernel: &mut Kernel, e: ExprId) -> ExprId {
        if let Some(&known) = self.memo.get(&e) {
            return known;
        }
        let new = match self.looked_up(kernel, e) {
            Some(element) => element,
            None => kernel.map_children(e, |kernel, child| self.expr(kernel, child)),
        };
        self.memo.insert(e, new);
        new
    }

    fn looked_up(&mut self, kernel: &mut Kernel, e: ExprId) -> Option<ExprId> {
        let Ty { dtype: dtype @ (DType::Float32 | DType::Int32 | DType::Int64), lanes: 1 } = kernel.arena.ty(e) else {
            return None;
        };
        let loops = self.loops_of(kernel, e)?;
        let value = match dtype {
            DType::Float32 => e,
            _ => {
                let range = self.ranges.of(&kernel.arena, e).known()?;
                let all = Range::of_type(DType::Int32);
                if !range.within(all) || range == all {
                    return None;
                }
                narrowed(&mut kernel.arena, e)
            }
        };
        self.left -= loops.iter().map(|l| l.1).product::<i64>();
        let table = Table::of(kernel, "repeated", value, &loops, Placement::Shared);
        self.made.push(table.fill);
        let element = kernel.load(table.buffer, table.index);
        Some(kernel.arena.cast(dtype, element))
    }

    /// The loops that an expression depends on, if it is worth a table of its values in all their iterations.
    fn loops_of(&mut self, kernel: &Kernel, e: ExprId) -> Option<Vec<(VarId, i64)>> {
        let arena = &kernel.arena;
        let mut vars: Vec<VarId> = Vec::new();
        let (mut fits, mut cost, mut reads) = (true, 0, false);
        for_each_expr(arena, e, &mut |e| {
            fits &= arena.lanes(e) == 1 && !can_fail(arena, e);
            match arena.expr(e) {
                Expr::Var(v) => {
                    fits &= self.around.iter().any(|l| l.0 == v);
                    vars.push(v);
                }
                Expr::Load(buffer, index) => {
                    reads = true;
                    let range = self.ranges.of(arena, index);
                    fits &= !self.written.contains(&buffer)
                        && range.within(Range { lo: 0, hi: kernel.buffer(buffer).len - 1 });
                }
                Expr::Int(_) | Expr::Float(_) | Expr::Not(_) => {}
                Expr::Call(..) => cost += 4,
                Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod, ..) => cost += 4,
                Expr::Cast(a) => cost += if arena.dtype(a).is_float() != arena.dtype(e).is_float() { 2 } else { 0 },
                Expr::Binary(..) | Expr::Compare(..) | Expr::Select(..) | Expr::IfThenElse(..) => cost += 1,
                Expr::Local(_)
                | Expr::Reinterpret(_)
                | Expr::Dot4(..)
                | Expr::Broadcast(_)
                | Expr::Ramp(..)
                | Expr::Pack(_)
                | Expr::Lookup(..)
                | Expr::Extract(..)
                | Expr::Reduce(..) => fits = false,
            }
        });
        let innermost = self.around.iter().rposition(|l| vars.contains(&l.0))?;
        // What depends on counters alone may become constants.
        if !fits || !reads || cost < COSTLY {
            return None;
        }
        let product =
            |loops: &mut dyn Iterator<Item = &(VarId, i64)>| loops.fold(1i64, |all, l| all.saturating_mul(l.1));
        let inside = product(&mut self.around[innermost + 1..].iter());
        let own: Vec<(VarId, i64)> = self.around.iter().filter(|l| vars.contains(&l.0)).copied().collect();
        let repeats = product(&mut self.around[..innermost].iter().filter(|l| !vars.contains(&l.0)));
        let len = product(&mut own.iter());
        (inside < HOISTED && repeats >= REPEATED && len <= MAX_TABLE.min(self.left)).then_some(own)
    }
}

/// An integer that is known to fit `int32`, with that type. Smaller and larger ones of a number of 32 bits and a constant need no more.
fn narrowed(arena: &mut Arena, e: ExprId) -> ExprId {
    fn short(arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        match arena.expr(e) {
            Expr::Int(v) => i32::try_from(v).ok().map(|v| arena.int(v.into(), DType::Int32)),
            Expr::Cast(a) if arena.dtype(a) == DType::Int32 => Some(a),
            Expr::Binary(op @ (BinOp::Min | BinOp::Max), a, b) => {
                let (a, b) = (short(arena, a)?, short(arena, b)?);
                Some(arena.binary(op, a, b))
            }
            _ => None,
        }
    }
    let whole = arena.cast(DType::Int32, e);
    if arena.dtype(e) == DType::Int32 { e } else { short(arena, e).unwrap_or(whole) }
}
