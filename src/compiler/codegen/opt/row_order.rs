//! Orders the multiplications of a register tile by the place of their operands in memory.
//!
//! ```text
//! a = a + X[0; 8] * u; b = b + X[8; 8] * u; c = c + X[16; 8] * u; a = a + X[8; 8] * v; b = b + X[16; 8] * v
//! // becomes
//! a = a + X[0; 8] * u; b = b + X[8; 8] * u; a = a + X[8; 8] * v; c = c + X[16; 8] * u; b = b + X[16; 8] * v
//! ```
//!
//! The rows of a convolution without a sum over channels overlap: each row of the image meets several rows of the window.
//! In the order of the image, a row is loaded, or assembled from strided elements, used by all results that need it, and
//! forgotten, so that registers are left for sums. Floats are added in another order, so this is not done if they must be
//! computed as written.
//!
//! Rows that are loaded at several places, one for each column of the window, are loaded column by column:
//!
//! ```text
//! a = a + X[0; 8] * u; b = b + X[8; 8] * u; a = a + X[1; 8] * v; b = b + X[9; 8] * v
//! ```
//!
//! Only the weights of a column are then needed together, and stay in registers; and all sums take turns, where a sum that had
//! all of its terms one after the other would wait for each. Strided elements of one row are assembled from the same vectors, so
//! that they stay together.

use super::machine::Machine;
use super::overlap::reads_registers;
use super::simplify::gcd;
use crate::ir::BinOp;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::for_each_expr;
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, For, Kernel, LocalId, Stmt, StmtId};
use hashbrown::{HashMap, HashSet};

/// Orders the runs of the whole kernel.
pub(super) fn row_order(kernel: &mut Kernel, machine: &Machine) {
    if machine.reassociates {
        kernel.body = body(kernel, kernel.body);
    }
}

fn body(kernel: &mut Kernel, old: Body) -> Body {
    let stmts = kernel.stmts.list(old).to_vec();
    let mut out: Vec<StmtId> = Vec::with_capacity(stmts.len());
    let mut run: Vec<Update> = Vec::new();
    for &s in &stmts {
        let stmt = kernel.stmts.get(s);
        if let Some(update) = update(&kernel.arena, s, stmt) {
            run.push(update);
            continue;
        }
        out.extend(ordered(&kernel.arena, std::mem::take(&mut run)));
        let new = match stmt {
            Stmt::For(l) => Stmt::For(For { body: body(kernel, l.body), ..l }),
            Stmt::If { condition, then, otherwise } => {
                Stmt::If { condition, then: body(kernel, then), otherwise: body(kernel, otherwise) }
            }
            Stmt::While { running, body: inner } => Stmt::While { running, body: body(kernel, inner) },
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => stmt,
        };
        out.push(if new == stmt { s } else { kernel.stmts.push(new) });
    }
    out.extend(ordered(&kernel.arena, run));
    if stmts == out { old } else { kernel.stmts.body(&out) }
}

/// The addition of a product to a register.
struct Update {
    s: StmtId,
    local: LocalId,
    /// The factors; `None` for a value that all lanes share, such as a row of padding, which needs no place.
    factors: Option<[ExprId; 2]>,
}

fn update(arena: &Arena, s: StmtId, stmt: Stmt) -> Option<Update> {
    let Stmt::Set { local, value } = stmt else { return None };
    let Expr::Binary(BinOp::Add, own, term) = arena.expr(value) else { return None };
    let factors = match arena.expr(term) {
        Expr::Binary(BinOp::Mul, a, b) if arena.as_const(a).is_none() => Some([a, b]),
        Expr::Binary(BinOp::Mul, ..) | Expr::Broadcast(_) => None,
        _ => return None,
    };
    let reads_registers = reads_registers(arena, term);
    let is_own = arena.expr(own) == Expr::Local(local) && arena.lanes(value) > 1 && !reads_registers;
    is_own.then_some(Update { s, local, factors })
}

/// The statements in the order of the factor that takes more different values, if it is loaded from one buffer.
fn ordered(arena: &Arena, run: Vec<Update>) -> Vec<StmtId> {
    let written: HashSet<LocalId, FxBuild> = run.iter().map(|u| u.local).collect();
    let mut streams: Vec<Stream> = [0, 1].into_iter().filter_map(|i| Stream::of(arena, &run, i)).collect();
    streams.sort_by_key(|stream| stream.n_places);
    let best = streams.pop().filter(|stream| stream.n_places < run.len() && written.len() > 1);
    let as_written = run.iter().map(|u| u.s).collect();
    let Some(stream) = best else { return as_written };
    let offsets = stream.offsets;
    // Offsets that differ by a multiple of the distance of the results belong to the same column of the window.
    let apart = distance(&run, 1 - stream.factor, &offsets).filter(|_| !stream.is_assembled);
    let column = |i: usize| apart.map_or(0, |apart| offsets[i].rem_euclid(apart));
    let is_row = |i: usize| run[i].factors.is_some();
    let mut order: Vec<usize> = (0..run.len()).collect();
    order.sort_by_key(|&i| (is_row(i), column(i), offsets[i]));
    order.into_iter().map(|i| run[i].s).collect()
}

/// The places in one buffer that a factor of each statement is loaded from.
struct Stream {
    factor: usize,
    /// The offsets, which are all from the same index; 0 for statements without a place.
    offsets: Vec<i64>,
    /// Number of different ones.
    n_places: usize,
    /// Whether vectors are assembled from strided elements.
    is_assembled: bool,
}

impl Stream {
    /// `None` unless all are vectors that differ by constants.
    fn of(arena: &Arena, run: &[Update], factor: usize) -> Option<Stream> {
        let mut base: Option<(BufferId, Affine)> = None;
        let mut offsets = Vec::with_capacity(run.len());
        let mut is_assembled = false;
        for u in run {
            let Some(factors) = u.factors else {
                offsets.push(0);
                continue;
            };
            let (buffer, mut index) = place(arena, factors[factor])?;
            offsets.push(std::mem::take(&mut index.constant));
            let (first_buffer, first) = base.get_or_insert_with(|| (buffer, index.clone()));
            if *first_buffer != buffer || first.terms != index.terms {
                return None;
            }
            for_each_expr(arena, factors[factor], &mut |e| is_assembled |= matches!(arena.expr(e), Expr::Pack(_)));
        }
        let places: HashSet<i64, FxBuild> =
            run.iter().zip(&offsets).filter(|(u, _)| u.factors.is_some()).map(|(_, &offset)| offset).collect();
        Some(Stream { factor, offsets, n_places: places.len(), is_assembled })
    }
}

/// The distance of neighbouring results in memory: the greatest that divides those of all statements with the same weight.
fn distance(run: &[Update], weight: usize, offsets: &[i64]) -> Option<i64> {
    let mut first: HashMap<ExprId, i64, FxBuild> = HashMap::default();
    let mut common = 0;
    for (u, &offset) in run.iter().zip(offsets) {
        let Some(factors) = u.factors else { continue };
        common = gcd(common, offset - *first.entry(factors[weight]).or_insert(offset));
    }
    (common > 0).then_some(common)
}

/// Where the first lane of a vector is loaded from.
fn place(arena: &Arena, e: ExprId) -> Option<(BufferId, Affine)> {
    match arena.expr(e) {
        Expr::Load(buffer, index) if arena.lanes(e) > 1 => Some((buffer, Affine::of(arena, index))),
        Expr::Pack(list) => match arena.expr(*arena.list(list).first()?) {
            Expr::Load(buffer, index) => Some((buffer, Affine::of(arena, index))),
            _ => None,
        },
        Expr::IfThenElse(_, then, _) => place(arena, then),
        _ => None,
    }
}
