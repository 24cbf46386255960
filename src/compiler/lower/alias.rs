//! Aliases: buffers that share memory, declared by `T.decl_buffer(…, data=A.data)`, and the owners of that memory.
//!
//! Memory with several names is a flat array of the kernel. An access by any of its names is an access at its linear
//! index, and is checked against the memory's size.

use super::blocks::{Backing, Lowerer};
use super::{LowerError, Result};
use crate::ir::{self, BufferId, Expr, Func, Stmt, VarId};
use crate::loopir::ExprId;
use hashbrown::{HashMap, HashSet};

/// The buffers that share memory.
#[derive(Default)]
pub(super) struct Aliases {
    /// The buffer whose memory a declared buffer or a view uses.
    sources: HashMap<BufferId, BufferId>,
    /// Buffers whose memory has several names.
    shared: HashSet<BufferId>,
}

impl Aliases {
    /// The aliases of a function.
    pub(super) fn of(func: &Func) -> Aliases {
        let mut aliases = Aliases::default();
        let mut handles: HashMap<VarId, BufferId> = HashMap::new();
        let mut declared = Vec::new();
        for s in func.subtree(func.root.stmt()) {
            match func.get(s) {
                Stmt::Block(b) => {
                    aliases.sources.extend(b.matches.iter().map(|m| (m.buffer, m.source.buffer)));
                }
                Stmt::Let { var, value, .. } => {
                    if let Some(b) = pointed(func, &handles, *value) {
                        handles.insert(*var, b);
                    }
                }
                Stmt::Declare { buffer, data } => {
                    if let Some(b) = pointed(func, &handles, *data) {
                        aliases.sources.insert(*buffer, b);
                        declared.push(b);
                    }
                }
                _ => {}
            }
        }
        for b in declared {
            let owner = aliases.owner(b);
            aliases.shared.insert(owner);
        }
        aliases
    }

    /// The buffer that owns the memory.
    pub(super) fn owner(&self, mut b: BufferId) -> BufferId {
        while let Some(&source) = self.sources.get(&b) {
            b = source;
        }
        b
    }

    /// Whether the buffer's memory has several names.
    pub(super) fn is_shared(&self, b: BufferId) -> bool {
        self.shared.contains(&b)
    }
}

/// The buffer whose memory a handle points to.
fn pointed(func: &Func, handles: &HashMap<VarId, BufferId>, e: ir::ExprId) -> Option<BufferId> {
    match func.arena.expr(e) {
        Expr::BufferData(b) => Some(b),
        Expr::Var(v) => handles.get(&v).copied(),
        _ => None,
    }
}

impl Lowerer<'_> {
    /// Another name for existing memory.
    pub(super) fn declare(&mut self, buffer: BufferId) -> Result<()> {
        let name = self.func.arena.buffer(buffer).name;
        let owner = self.aliases.owner(buffer);
        let Some(Backing::Flat { buffer: memory, .. }) = self.backings[owner.index()].clone() else {
            return Err(LowerError::Unsupported(format!("buffer `{name}`, whose memory is not known,")));
        };
        let arena = &self.func.arena;
        let ir::Buffer { dtype, shape, strides, elem_offset, .. } = *arena.buffer(buffer);
        if self.draft.kernel.buffer(memory).dtype != dtype {
            return Err(LowerError::Unsupported(format!("buffer `{name}`, declared in memory of another type,")));
        }
        let offset = match elem_offset {
            Some(e) => self.index(e)?,
            None => self.draft.kernel.arena.index(0),
        };
        let strides = match strides.map(|l| arena.list(l).to_vec()).filter(|l| !l.is_empty()) {
            Some(list) => list.into_iter().map(|e| self.index(e)).collect::<Result<_>>()?,
            None => {
                // The buffer is compact; its extents may be expressions.
                let mut strides = super::blocks::Dims::new();
                let mut stride = self.draft.kernel.arena.index(1);
                for &e in arena.list(shape).to_vec().iter().rev() {
                    strides.push(stride);
                    let extent = self.index(e)?;
                    stride = self.draft.kernel.arena.mul(stride, extent);
                }
                strides.reverse();
                strides
            }
        };
        self.backings[buffer.index()] = Some(Backing::Flat { buffer: memory, offset, strides });
        Ok(())
    }

    /// `offset + Σ index * stride`
    pub(super) fn linear(&mut self, offset: ExprId, strides: &[ExprId], dims: &[ExprId]) -> ExprId {
        let arena = &mut self.draft.kernel.arena;
        dims.iter().zip(strides).fold(offset, |sum, (&d, &stride)| {
            let term = arena.mul(d, stride);
            arena.add(sum, term)
        })
    }
}
