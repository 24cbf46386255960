//! Kernels: parameters, scratch, and the body.

use super::expr::{Arena, ExprId, Ty};
use super::stmt::{Body, For, Stmt, StmtId, Stmts};
use crate::ir::expr::id;
use crate::ir::{DType, Symbol};

id! {
    /// A buffer of a [`Kernel`]: parameters first, in their order, then scratch.
    pub BufferId
}

/// A kernel's accesses to a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// The kernel only reads it.
    In,
    /// The kernel writes it, and reads only elements that it wrote before.
    Out,
    /// The kernel reads its initial contents and writes it.
    InOut,
}

/// The owner of a scratch buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// One buffer for the kernel.
    Shared,
    /// One buffer for each worker of the parallel loop in which it is used.
    PerWorker,
}

/// The source of a buffer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Storage {
    /// Passed by the caller.
    Param(Access),
    /// Provided by the runtime, aligned to 64 bytes.
    Scratch(Placement),
}

/// A flat array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Name for messages; the buffer prints under it if it is free.
    pub name: Symbol,
    /// Type of the elements.
    pub dtype: DType,
    /// Number of elements.
    pub len: i64,
    /// The source of the memory.
    pub storage: Storage,
}

impl Buffer {
    /// Whether the caller passes the buffer.
    pub fn is_param(&self) -> bool {
        matches!(self.storage, Storage::Param(_))
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len as usize * self.dtype.bytes()
    }
}

/// A function over flat arrays. The module's documentation lists its invariants.
#[derive(Clone)]
pub struct Kernel {
    /// Name for messages and symbols.
    pub name: Symbol,
    /// Expressions, variables and registers.
    pub arena: Arena,
    /// Statements.
    pub stmts: Stmts,
    /// The statements of the kernel.
    pub body: Body,
    /// The messages of the kernel's assertions.
    pub assertions: Vec<String>,
    buffers: Vec<Buffer>,
    n_params: usize,
}

impl Kernel {
    /// A kernel without parameters that does nothing.
    pub fn new(name: impl Into<Symbol>) -> Kernel {
        Kernel {
            name: name.into(),
            arena: Arena::default(),
            stmts: Stmts::default(),
            body: Body::EMPTY,
            assertions: Vec::new(),
            buffers: Vec::new(),
            n_params: 0,
        }
    }

    /// Whether the kernel has uncounted loops or jumps, which are represented by boolean registers. The passes of the
    /// optimiser support neither.
    pub fn is_irregular(&self) -> bool {
        let mut found = false;
        self.for_each_stmt(self.body, &mut |_, s| {
            found |= match s {
                Stmt::While { .. } => true,
                Stmt::Set { local, .. } => self.arena.local(local).ty == Ty::BOOL,
                Stmt::For(_) | Stmt::If { .. } | Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Check { .. } => false,
            }
        });
        found
    }

    /// A new loop that copies a buffer into another one, at least as long, and converts the elements to its type.
    pub fn converting_copy(&mut self, from: BufferId, to: BufferId) -> StmtId {
        let n = self.arena.index(self.buffer(from).len);
        let (var, i) = self.arena.new_index("i");
        let value = self.load(from, i);
        let value = self.arena.cast(self.buffer(to).dtype, value);
        let store = self.store(to, i, value);
        let body = self.stmts.body(&[store]);
        self.stmts.push(Stmt::For(For::serial(var, n, body)))
    }

    /// Adds a parameter of `len` elements. Parameters come before scratch.
    pub fn add_param(&mut self, name: impl Into<Symbol>, dtype: DType, len: i64, access: Access) -> BufferId {
        assert_eq!(self.n_params, self.buffers.len(), "parameters come before scratch");
        self.n_params += 1;
        let storage = Storage::Param(access);
        self.push_buffer(Buffer { name: name.into(), dtype, len, storage })
    }

    /// Adds a scratch buffer of `len` elements.
    pub fn add_scratch(&mut self, name: impl Into<Symbol>, dtype: DType, len: i64, placement: Placement) -> BufferId {
        let storage = Storage::Scratch(placement);
        self.push_buffer(Buffer { name: name.into(), dtype, len, storage })
    }

    fn push_buffer(&mut self, buffer: Buffer) -> BufferId {
        assert!(!matches!(buffer.dtype, DType::Handle | DType::Str), "no buffer has elements of {}", buffer.dtype);
        assert!(buffer.len >= 0, "a buffer has no negative length");
        let id = BufferId(self.buffers.len() as u32);
        self.buffers.push(buffer);
        id
    }

    /// A buffer's description.
    pub fn buffer(&self, b: BufferId) -> &Buffer {
        &self.buffers[b.index()]
    }

    /// A buffer's description, to change its length, placement or name.
    pub fn buffer_mut(&mut self, b: BufferId) -> &mut Buffer {
        &mut self.buffers[b.index()]
    }

    /// All buffers with their ids, parameters first.
    pub fn buffers(&self) -> impl Iterator<Item = (BufferId, &Buffer)> {
        self.buffers.iter().enumerate().map(|(i, b)| (BufferId(i as u32), b))
    }

    /// The number of buffers; ids are smaller.
    pub fn n_buffers(&self) -> usize {
        self.buffers.len()
    }

    /// The parameters, in order.
    pub fn params(&self) -> &[Buffer] {
        &self.buffers[..self.n_params]
    }

    /// The element of `buffer` at a linear index.
    pub fn load(&mut self, buffer: BufferId, index: ExprId) -> ExprId {
        let ty = Ty::scalar(self.buffer(buffer).dtype);
        self.arena.load(buffer, index, ty)
    }

    /// A new statement that writes `value` to `buffer`, from a linear index on.
    pub fn store(&mut self, buffer: BufferId, index: ExprId, value: ExprId) -> StmtId {
        assert_eq!(self.buffer(buffer).dtype, self.arena.dtype(value), "a store keeps the element type");
        self.stmts.push(Stmt::Store { buffer, index, value })
    }
}
