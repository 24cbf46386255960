//! Looks up what depends on the counter of a loop alone in tables of constants.
//!
//! ```text
//! for i in 224: Y[i * 8; 8] = X[min(cast(int64, floor(cast(float32, i) * 0.498)), 111) * 8; 8] * splat(cast(float32, i) * 0.498 - …, 8)
//! // becomes
//! indices[0; 16] = pack(0, 0, 0, 1, …)
//! factors[0; 16] = pack(0.0, 0.498, 0.996, …)
//! …
//! for i in 224: Y[i * 8; 8] = X[cast(int64, indices[i]) * 8; 8] * splat(factors[i], 8)
//! ```
//!
//! Operators that resize images compute the place and the weights of each element by floats, though these are the same for all channels
//! and for all calls. Region code has no such indices otherwise, so that each iteration would be a region of its own. Numbers are rounded
//! as the kernel would round them. Integers that grow by the same number in each iteration need no table.
//!
//! Vectors of such numbers are constants already ([`super::constant_lanes`]), so this follows vectorisation.

use super::constant_lanes::{is_function_of, values_of};
use super::machine::Machine;
use super::walk::map_body;
use crate::ir::{BinOp, Const, DType};
use crate::loopir::rewrite::{ExprMap, for_each_expr, map_operands};
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, For, Kernel, LoopKind, Placement, Stmt, StmtId, Ty, VarId};
use hashbrown::HashMap;

/// Maximum number of elements of all tables, which are part of the code.
const MAX_ELEMENTS: usize = 4096;

/// Replaces functions of counters in loops that can be in regions. Returns whether there are any.
pub(super) fn constant_tables(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let mut tables = Tables { machine: *machine, around: Vec::new(), known: HashMap::new(), made: Vec::new() };
    let body = tables.body(kernel, kernel.body);
    if body == kernel.body {
        return false;
    }
    let mut stmts = tables.stores(kernel);
    stmts.extend_from_slice(kernel.stmts.list(body));
    kernel.body = kernel.stmts.body(&stmts);
    true
}

/// The numbers that replace an expression.
#[derive(Clone, Copy)]
enum Found {
    /// The first number and the step.
    Regular(i64, i64),
    /// The position in [`Tables::made`] and the first element there.
    Table(usize, usize),
}

/// A buffer of constants.
struct Table {
    buffer: BufferId,
    values: Vec<ExprId>,
}

struct Tables {
    machine: Machine,
    /// The loops around whose counters have tables, with their extents.
    around: Vec<(VarId, i64)>,
    /// What is known of expressions; `None` if they stay.
    known: HashMap<ExprId, Option<Found>>,
    made: Vec<Table>,
}

impl Tables {
    fn body(&mut self, kernel: &mut Kernel, body: Body) -> Body {
        map_body(kernel, body, &mut |kernel, stmt| self.stmt(kernel, stmt))
    }

    fn stmt(&mut self, kernel: &mut Kernel, old: Stmt) -> Stmt {
        match old {
            Stmt::For(l) => {
                let n_around = self.around.len();
                let extent = kernel.arena.as_int(l.extent).filter(|n| (2..=MAX_ELEMENTS as i64).contains(n));
                if let Some(n) = extent
                    && l.kind != LoopKind::Parallel
                    && (is_innermost(kernel, l.body) || self.machine.keeps_vectors(kernel, &l))
                {
                    self.around.push((l.var, n));
                }
                let body = self.body(kernel, l.body);
                self.around.truncate(n_around);
                Stmt::For(For { body, ..l })
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (self.body(kernel, then), self.body(kernel, otherwise));
                Stmt::If { condition, then, otherwise }
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } if !self.around.is_empty() => {
                let mut memo = ExprMap::default();
                map_operands(old, |e| self.expr(kernel, e, &mut memo))
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => old,
        }
    }

    fn expr(&mut self, kernel: &mut Kernel, e: ExprId, memo: &mut ExprMap) -> ExprId {
        if let Some(&known) = memo.get(&e) {
            return known;
        }
        let new = match self.replaced(kernel, e) {
            Some(replaced) => replaced,
            None => kernel.map_children(e, |kernel, child| self.expr(kernel, child, memo)),
        };
        memo.insert(e, new);
        new
    }

    /// The numbers of a function of a counter.
    fn replaced(&mut self, kernel: &mut Kernel, e: ExprId) -> Option<ExprId> {
        let arena = &kernel.arena;
        let Ty { dtype: dtype @ (DType::Float32 | DType::Int32 | DType::Int64), lanes: 1 } = arena.ty(e) else {
            return None;
        };
        // Terms of indices are replaced one by one, so that indices with equal terms share tables.
        if dtype == DType::Int64 && matches!(arena.expr(e), Expr::Binary(BinOp::Add | BinOp::Sub, ..)) {
            return None;
        }
        let &(var, n) = self.around.iter().find(|l| is_function_of(arena, e, l.0))?;
        let found = match self.known.get(&e) {
            Some(&known) => known,
            None => {
                let found = is_costly(arena, e).then(|| self.find(kernel, e, var, n)).flatten();
                self.known.insert(e, found);
                found
            }
        };
        let counter = kernel.arena.var_expr(var);
        let arena = &mut kernel.arena;
        Some(match found? {
            Found::Regular(first, step) => {
                let sum = arena.mul_const(counter, step);
                let sum = arena.add_const(sum, first);
                arena.cast(dtype, sum)
            }
            Found::Table(table, first) => {
                let index = arena.add_const(counter, first as i64);
                let element = kernel.load(self.made[table].buffer, index);
                kernel.arena.cast(dtype, element)
            }
        })
    }

    /// Computes an expression for all values of a counter.
    fn find(&mut self, kernel: &mut Kernel, e: ExprId, var: VarId, n: i64) -> Option<Found> {
        let values = values_of(&kernel.arena, e, var, 0..n)?;
        let dtype = if kernel.arena.dtype(e) == DType::Float32 { DType::Float32 } else { DType::Int32 };
        if let Some((first, step)) = regular(&values) {
            return Some(Found::Regular(first, step));
        }
        let mut items = Vec::with_capacity(values.len());
        for value in values {
            items.push(match value {
                Const::Int(v) => kernel.arena.int(i32::try_from(v).ok()?.into(), dtype),
                Const::Float(v) => kernel.arena.float(v, dtype),
            });
        }
        self.table(kernel, dtype, &items)
    }

    /// The table with these constants.
    fn table(&mut self, kernel: &mut Kernel, dtype: DType, items: &[ExprId]) -> Option<Found> {
        let lanes = self.machine.vectors.lanes(dtype) as usize;
        let known = self.made.iter().position(|t| kernel.buffer(t.buffer).dtype == dtype);
        if let Some(table) = known
            && let values = &self.made[table].values
            && let Some(first) = (0..values.len()).step_by(lanes).find(|&at| values[at..].starts_with(items))
        {
            return Some(Found::Table(table, first));
        }
        let all: usize = self.made.iter().map(|t| t.values.len()).sum();
        if all + items.len().next_multiple_of(lanes) > MAX_ELEMENTS {
            return None;
        }
        let table = known.unwrap_or_else(|| {
            let name = if dtype.is_float() { "factors" } else { "indices" };
            let buffer = kernel.add_scratch(name, dtype, 0, Placement::Shared);
            self.made.push(Table { buffer, values: Vec::new() });
            self.made.len() - 1
        });
        let values = &mut self.made[table].values;
        let first = values.len();
        values.extend_from_slice(items);
        // Tables begin and end with whole vectors.
        let rest = kernel.arena.constant(0, Ty::scalar(dtype));
        values.resize(values.len().next_multiple_of(lanes), rest);
        kernel.buffer_mut(self.made[table].buffer).len = self.made[table].values.len() as i64;
        Some(Found::Table(table, first))
    }

    /// The statements that fill the tables.
    fn stores(&self, kernel: &mut Kernel) -> Vec<StmtId> {
        let mut out = Vec::new();
        for table in &self.made {
            let lanes = self.machine.vectors.lanes(kernel.buffer(table.buffer).dtype) as usize;
            for (i, items) in table.values.chunks(lanes).enumerate() {
                let (index, value) = (kernel.arena.index((i * lanes) as i64), kernel.arena.pack(items));
                out.push(kernel.store(table.buffer, index, value));
            }
        }
        out
    }
}

/// Whether a body has no loops. Its estimated time says little, since tables make it much shorter.
fn is_innermost(kernel: &Kernel, body: Body) -> bool {
    let mut found = false;
    kernel.for_each_stmt(body, &mut |_, stmt| found |= matches!(stmt, Stmt::For(_)));
    !found
}

/// Whether region code cannot compute the expression from a counter, or only slowly.
fn is_costly(arena: &Arena, e: ExprId) -> bool {
    let mut found = false;
    for_each_expr(arena, e, &mut |e| {
        found |= match arena.expr(e) {
            Expr::Call(..) => true,
            Expr::Cast(a) => arena.dtype(a).is_float() && !arena.dtype(e).is_float(),
            Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod, ..) => arena.dtype(e).is_float(),
            _ => false,
        }
    });
    found
}

/// The first of some integers and the step between neighbours, if that is always the same.
fn regular(values: &[Const]) -> Option<(i64, i64)> {
    let number = |value: &Const| match *value {
        Const::Int(v) => Some(v),
        Const::Float(_) => None,
    };
    let numbers: Vec<i64> = values.iter().map(number).collect::<Option<_>>()?;
    let &[first, second, ..] = &numbers[..] else { return None };
    let step = second.checked_sub(first)?;
    numbers.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step)).then_some((first, step))
}
