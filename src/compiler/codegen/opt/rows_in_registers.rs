//! Keeps short rows in registers from where they are computed to where vectors are assembled from their elements.
//!
//! ```text
//! T[0; 28] = X[i * 28; 28] * splat(W[i], 28)
//! Y[i * 32; 16] = pack(T[0], T[0], T[1], T[1], …)
//! Y[i * 32 + 16; 16] = pack(T[8], T[8], T[9], T[9], …)
//! // becomes
//! t = X[i * 28; 28] * splat(W[i], 28)
//! Y[i * 32; 16] = pack(t[0], t[0], t[1], t[1], …)
//! Y[i * 32 + 16; 16] = pack(t[8], t[8], t[9], t[9], …)
//! ```
//!
//! A processor forwards what is stored to a load of the same bytes only. Loads of other parts wait until the stores have reached the
//! cache, in each iteration of the loop around. The pass handles buffers that straight runs of statements store as whole vectors and
//! then read at constant places.

use super::machine::Machine;
use crate::codegen::facts::loads;
use crate::codegen::wide::MOST_READ;
use crate::ir::DType;
use crate::ir::expr::FxBuild;
use crate::loopir::rewrite::{ExprMap, for_each_expr, for_each_operand, map_expr, map_operands};
use crate::loopir::{Arena, Body, BufferId, Expr, ExprId, Kernel, LocalId, Stmt, StmtId, Storage, Ty};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// The share of the vector registers that a row may take.
const SHARE: usize = 4;

/// Keeps all such rows in registers. Returns whether there are any.
pub(super) fn rows_in_registers(kernel: &mut Kernel, machine: &Machine) -> bool {
    if !machine.vectors.has_regions() {
        return false;
    }
    let mut uses = uses_of(kernel);
    let rows = kernel.buffers().filter(|(b, buffer)| {
        // Registers hold digits of halves that memory does not.
        let is_exact = !buffer.dtype.is_half() || machine.reassociates;
        let is_narrow = is_exact && buffer.dtype != DType::Bool && machine.vectors.has_narrow_masks();
        let most = machine.vectors.registers / SHARE * machine.vectors.lanes(buffer.dtype) as usize;
        matches!(buffer.storage, Storage::Scratch(_))
            && (buffer.dtype.bytes() >= 4 || is_narrow)
            && (buffer.len as usize) <= most
            && uses.contains_key(b)
    });
    let rows: Vec<BufferId> = rows.map(|(b, _)| b).collect();
    let mut changed = false;
    for row in rows {
        let old = kernel.body;
        let lanes = machine.vectors.lanes(kernel.buffer(row).dtype);
        let Some(statements) = uses.get(&row) else { continue };
        let mut row = Row { buffer: row, lanes, uses: statements, n_kept: 0, fits: true };
        let new = body(kernel, old, &mut row);
        if row.fits && new != old {
            kernel.body = new;
            changed = true;
            // Statements that use several rows are new ones.
            uses = uses_of(kernel);
        }
    }
    changed
}

/// The statements that access each buffer.
fn uses_of(kernel: &Kernel) -> HashMap<BufferId, Vec<StmtId>, FxBuild> {
    let mut uses: HashMap<BufferId, Vec<StmtId>, FxBuild> = HashMap::default();
    kernel.for_each_stmt(kernel.body, &mut |s, stmt| {
        let mut note = |buffer: BufferId| {
            let of = uses.entry(buffer).or_default();
            if of.last() != Some(&s) {
                of.push(s);
            }
        };
        if let Stmt::Store { buffer, .. } = stmt {
            note(buffer);
        }
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(buffer, _) = kernel.arena.expr(e) {
                    note(buffer);
                }
            });
        });
    });
    uses
}

/// A buffer for a row.
struct Row<'a> {
    buffer: BufferId,
    /// Lanes of a register.
    lanes: i64,
    /// The statements that access it.
    uses: &'a [StmtId],
    /// The number of these that no longer do.
    n_kept: usize,
    /// Whether none has to stay.
    fits: bool,
}

/// A body in which a row is kept in registers, if the statements that use it follow each other, there or in bodies inside.
fn body(kernel: &mut Kernel, old: Body, row: &mut Row<'_>) -> Body {
    match kept(kernel, old, row) {
        Some(new) => new,
        None => {
            row.fits = false;
            old
        }
    }
}

/// A statement with the row in registers in the bodies inside.
fn inside(kernel: &mut Kernel, s: StmtId, row: &mut Row<'_>) -> StmtId {
    let stmt = kernel.stmts.get(s);
    let new = match stmt {
        Stmt::For(l) => Stmt::For(crate::loopir::For { body: body(kernel, l.body, row), ..l }),
        Stmt::If { condition, then, otherwise } => {
            let then = body(kernel, then, row);
            Stmt::If { condition, then, otherwise: body(kernel, otherwise, row) }
        }
        Stmt::While { .. } | Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } => stmt,
    };
    if new == stmt { s } else { kernel.stmts.push(new) }
}

/// A stored vector in a register.
struct Part {
    start: i64,
    lanes: i64,
    local: LocalId,
}

/// The body with the row in registers; `None` if it is used in another way.
fn kept(kernel: &mut Kernel, old: Body, row: &mut Row<'_>) -> Option<Body> {
    let stmts = kernel.stmts.list(old).to_vec();
    let mut parts: SmallVec<[Part; 4]> = SmallVec::new();
    let mut out: Vec<StmtId> = Vec::with_capacity(stmts.len());
    let (mut memo, mut is_read) = (ExprMap::default(), false);
    for s in stmts {
        if !row.uses.contains(&s) {
            let n_before = row.n_kept;
            out.push(inside(kernel, s, row));
            if row.n_kept > n_before {
                // Bodies inside store rows of their own.
                parts.clear();
                memo.clear();
                is_read = false;
            }
            continue;
        }
        row.n_kept += 1;
        let stmt = kernel.stmts.get(s);
        match stmt {
            Stmt::Store { buffer, index, value } if buffer == row.buffer => {
                let (start, ty) = (kernel.arena.as_int(index)?, kernel.arena.ty(value));
                let lanes = i64::from(ty.lanes);
                // Each element is stored once, before any is read.
                let is_new = parts.iter().all(|p| start + lanes <= p.start || p.start + p.lanes <= start);
                if is_read || !is_new || !ty.is_vector() || loads(&kernel.arena, value, row.buffer) {
                    return None;
                }
                let local = kernel.arena.new_local(kernel.buffer(row.buffer).name, ty);
                parts.push(Part { start, lanes, local });
                out.push(kernel.stmts.push(Stmt::Set { local, value }));
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } => {
                is_read = true;
                let new = map_operands(stmt, |e| {
                    map_expr(&mut kernel.arena, e, &mut memo, &mut |arena, e| assembled(arena, e, row, &parts))
                });
                let mut reads = false;
                for_each_operand(new, |e| reads |= loads(&kernel.arena, e, row.buffer));
                if reads {
                    return None;
                }
                out.push(kernel.stmts.push(new));
            }
            Stmt::For(_) | Stmt::If { .. } | Stmt::While { .. } | Stmt::Check { .. } => return None,
        }
    }
    Some(if kernel.stmts.list(old) == out { old } else { kernel.stmts.body(&out) })
}

/// A vector of elements of the row, packed from lanes of its registers.
fn assembled(arena: &mut Arena, e: ExprId, row: &Row<'_>, parts: &[Part]) -> Option<ExprId> {
    let mut places: SmallVec<[i64; 16]> = SmallVec::new();
    match arena.expr(e) {
        Expr::Pack(list) => {
            for &item in arena.list(list) {
                match arena.expr(item) {
                    Expr::Load(buffer, index) if buffer == row.buffer && arena.lanes(item) == 1 => {
                        places.push(arena.as_int(index)?);
                    }
                    _ => return None,
                }
            }
        }
        Expr::Load(buffer, index) if buffer == row.buffer && arena.lanes(e) > 1 && arena.ty(index) == Ty::INDEX => {
            let first = arena.as_int(index)?;
            places.extend((0..i64::from(arena.lanes(e))).map(|lane| first + lane));
        }
        _ => return None,
    }
    let mut items: SmallVec<[ExprId; 16]> = SmallVec::new();
    for places in places.chunks(row.lanes as usize) {
        let mut registers: SmallVec<[(LocalId, i64); 4]> = SmallVec::new();
        for at in places {
            let part = parts.iter().find(|p| (p.start..p.start + p.lanes).contains(at))?;
            let (vector, lane) = (arena.local_expr(part.local), at - part.start);
            items.push(arena.extract(vector, lane as u16));
            let register = (part.local, lane / row.lanes);
            if !registers.contains(&register) {
                registers.push(register);
            }
        }
        if registers.len() as i64 > MOST_READ {
            return None;
        }
    }
    let pack = arena.pack(&items);
    // One element in all lanes is better loaded.
    matches!(arena.expr(pack), Expr::Pack(_) | Expr::Local(_)).then_some(pack)
}
