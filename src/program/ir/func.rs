//! Functions and modules.

use super::attr::Annotations;
use super::buffer::{Buffer, BufferId};
use super::dtype::{DType, Ty};
use super::expr::{Arena, Expr, ExprId, ExprList, VarId};
use super::outline::Outline;
use super::stmt::{Block, BlockId, Body, Loop, LoopId, Stmt, StmtId, Stmts};
use super::symbol::Symbol;
use super::visit;
use smallvec::SmallVec;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A parameter of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// The variable of the parameter: a handle for a buffer, else a scalar.
    pub var: VarId,
    /// The buffer of a buffer parameter.
    pub buffer: Option<BufferId>,
}

/// A scalar parameter with a fixed value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundParam {
    /// Position among all parameters, as callers see them.
    pub position: usize,
    /// Name of the parameter.
    pub name: Symbol,
    /// Type of the parameter.
    pub ty: Ty,
}

/// A function: parameters and one root block. It dereferences to its [`Stmts`], and owns the [`Arena`] of all its
/// expressions, variables and buffers.
///
/// The root block has no iteration variables and no predicate; it contains the function's allocations. Functions
/// written without one get one, and a root without content prints as a comment.
#[derive(Clone)]
pub struct Func {
    /// Name of the function; not part of the structure.
    pub name: Symbol,
    /// Expressions, variables and buffers.
    pub arena: Arena,
    /// Statements.
    pub stmts: Stmts,
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// Attributes (`T.func_attr`). Keys with TVM's prefix have the current spelling (`tirx.noalias`); `global_symbol`
    /// is present only if it differs from the function's name.
    pub attrs: Annotations,
    /// The outermost block.
    pub root: BlockId,
    /// Stated type of the result (`-> T.int32`).
    pub returns: Option<DType>,
    /// Whether the function is marked `private`.
    pub private: bool,
    /// Whether the function is marked `s_tir`, as schedulable functions are. TVM gives only those a root block and
    /// derives the accesses of their blocks. In the classic dialect all functions have this mark.
    pub s_tir: bool,
    /// Scalar parameters whose values were given when the function was read. Callers still pass them, so they print;
    /// but nothing reads them, and they are not part of the structure.
    pub bound: Vec<BoundParam>,
    /// Whether the text states the root block. TVM makes none around statements without blocks, so the two cases differ
    /// there.
    pub explicit_root: bool,
}

impl Deref for Func {
    type Target = Stmts;

    fn deref(&self) -> &Stmts {
        &self.stmts
    }
}

impl DerefMut for Func {
    fn deref_mut(&mut self) -> &mut Stmts {
        &mut self.stmts
    }
}

impl Func {
    /// A function without parameters whose root block is empty.
    pub fn new(name: impl Into<Symbol>) -> Func {
        let mut arena = Arena::new();
        let mut stmts = Stmts::default();
        let predicate = arena.bool(true);
        let root = stmts.add_block(Block::new("root", predicate));
        Func {
            name: name.into(),
            arena,
            stmts,
            params: Vec::new(),
            attrs: Annotations::new(),
            root,
            returns: None,
            private: false,
            s_tir: true,
            bound: Vec::new(),
            explicit_root: false,
        }
    }

    /// Adds a buffer parameter, in row-major order with constant extents.
    pub fn add_param(&mut self, name: &str, dtype: DType, shape: &[i64]) -> BufferId {
        let buffer = self.constant_buffer(name, dtype, shape);
        let var = self.arena.new_var(name, DType::Handle);
        self.params.push(Param { var, buffer: Some(buffer) });
        buffer
    }

    /// A new row-major buffer with constant `int32` extents, not allocated yet.
    pub fn constant_buffer(&mut self, name: &str, dtype: DType, shape: &[i64]) -> BufferId {
        let extents: Vec<ExprId> = shape.iter().map(|&n| self.arena.int32(n)).collect();
        let shape = self.arena.new_list(&extents);
        self.arena.new_buffer(Buffer::new(name, dtype, shape))
    }

    /// The parameter at a position of the callers' list, which includes parameters with fixed values. Attributes refer
    /// to parameters by such positions.
    pub fn param_at(&self, position: usize) -> Option<&Param> {
        let before = self.bound.iter().filter(|b| b.position < position).count();
        match self.bound.iter().any(|b| b.position == position) {
            true => None,
            false => self.params.get(position - before),
        }
    }

    /// The parameter that is this buffer.
    pub fn param_of(&self, buffer: BufferId) -> Option<usize> {
        self.params.iter().position(|p| p.buffer == Some(buffer))
    }

    /// The loops around a statement up to the next block, outermost first.
    pub fn loops_above(&self, s: StmtId) -> Vec<LoopId> {
        let mut loops = Vec::new();
        for p in self.stmts.ancestors(s) {
            if self.stmts.as_block(p).is_some() {
                break;
            }
            loops.extend(self.stmts.as_loop(p));
        }
        loops.reverse();
        loops
    }

    /// The innermost block around a statement; `None` for the root.
    pub fn block_above(&self, s: StmtId) -> Option<BlockId> {
        self.stmts.ancestors(s).find_map(|p| self.stmts.as_block(p))
    }

    /// Whether `outer` contains `inner`, or is the same statement.
    pub fn contains(&self, outer: StmtId, inner: StmtId) -> bool {
        outer == inner || self.stmts.ancestors(inner).any(|p| p == outer)
    }

    /// Is the statement part of the function's body (not removed)?
    pub fn is_alive(&self, s: StmtId) -> bool {
        self.contains(self.root.stmt(), s)
    }

    /// The statement and everything inside, in text order (parents first).
    pub fn subtree(&self, s: StmtId) -> Vec<StmtId> {
        let mut all = Vec::new();
        let mut open: SmallVec<[StmtId; 16]> = SmallVec::from_slice(&[s]);
        while let Some(s) = open.pop() {
            all.push(s);
            open.extend(self.stmts.get(s).children().into_iter().rev());
        }
        all
    }

    /// The blocks of the function in post-order: a block after the blocks inside it, the root last. Blocks inside an
    /// init are left out: schedules do not see them.
    pub fn blocks(&self) -> Vec<BlockId> {
        self.outline().blocks().to_vec()
    }

    /// The outline of the current statements: the blocks and their accesses.
    pub fn outline(&self) -> Arc<Outline> {
        let kept = self.stmts.kept_outline(|| Outline::new(self));
        // The root may have been replaced since.
        if kept.is_of(self.root) { kept.clone() } else { Arc::new(Outline::new(self)) }
    }

    /// The children of a statement without a block's init, which schedules do not transform.
    pub fn scheduled_children(&self, s: StmtId) -> SmallVec<[StmtId; 8]> {
        match self.stmts.get(s) {
            Stmt::Block(b) => SmallVec::from_slice(&b.body),
            other => other.children(),
        }
    }

    /// Whether a statement accesses several elements at once, or elements that are vectors.
    pub fn accesses_vectors(&self) -> bool {
        struct Found(bool);
        impl visit::Visitor for Found {
            fn visit_expr(&mut self, func: &Func, e: ExprId) {
                self.0 |= matches!(func.arena.expr(e), Expr::Load(..)) && func.arena.lanes(e) > 1;
                if !self.0 {
                    visit::walk_expr(self, func, e);
                }
            }

            fn visit_stmt(&mut self, func: &Func, s: StmtId) {
                if let Stmt::Store { value, .. } = func.get(s) {
                    self.0 |= func.arena.lanes(*value) > 1;
                }
                if !self.0 {
                    visit::walk_stmt(self, func, s);
                }
            }
        }
        if self.arena.is_scalar_only() {
            return false;
        }
        let mut found = Found(false);
        visit::Visitor::visit_stmt(&mut found, self, self.root.stmt());
        found.0
    }

    /// The element that a block copies, if it only copies: `X[…] = Y[i, j]`, perhaps converted, at indices that do not
    /// depend on memory. If the source is outside its buffer, the instance does nothing.
    pub fn copied(&self, block: &Block) -> Option<(BufferId, ExprList)> {
        let &[only] = &block.body[..] else { return None };
        let Stmt::Store { mut value, .. } = *self.get(only) else { return None };
        // Each lane of a vector would have its own source.
        if self.arena.lanes(value) > 1 {
            return None;
        }
        while let Expr::Cast(inner) = self.arena.expr(value) {
            value = inner;
        }
        let Expr::Load(source, indices) = self.arena.expr(value) else { return None };
        let mut loads = false;
        for &e in self.arena.list(indices) {
            visit::for_each_subexpr(&self.arena, e, &mut |e| loads |= matches!(self.arena.expr(e), Expr::Load(..)));
        }
        (block.init.is_none() && !loads).then_some((source, indices))
    }

    /// The outermost blocks below a statement (not the statement itself), in text order, without those in the init
    /// of a block.
    pub fn child_blocks(&self, s: StmtId) -> Vec<BlockId> {
        fn visit(func: &Func, s: StmtId, out: &mut Vec<BlockId>) {
            for child in func.scheduled_children(s) {
                match func.stmts.as_block(child) {
                    Some(b) => out.push(b),
                    None => visit(func, child, out),
                }
            }
        }
        let mut out = Vec::new();
        visit(self, s, &mut out);
        out
    }

    /// A loop around `body` with a fresh variable, not inserted yet.
    pub fn make_loop(&mut self, var: VarId, extent: ExprId, body: Body) -> LoopId {
        let dtype = self.arena.var(var).dtype;
        let min = self.arena.int(0, dtype);
        self.stmts.add_loop(Loop {
            var,
            min,
            extent,
            step: None,
            kind: super::stmt::LoopKind::Serial,
            annotations: Annotations::new(),
            body,
        })
    }
}

impl Block {
    /// A block without iteration variables, accesses and statements.
    pub fn new(name: impl Into<Symbol>, predicate: ExprId) -> Block {
        Block {
            name: name.into(),
            iters: Vec::new(),
            predicate,
            reads: Vec::new(),
            writes: Vec::new(),
            allocs: Vec::new(),
            matches: Vec::new(),
            annotations: Annotations::new(),
            init: None,
            body: Body::new(),
        }
    }
}

/// The contents of a module besides its functions.
#[derive(Clone, Default)]
pub struct ModuleAttrs {
    /// `I.module_attrs({…})`
    pub attrs: Annotations,
    /// `I.module_global_infos({…})`: lists of objects.
    pub global_infos: Annotations,
    /// The arena of expressions in the attributes' values, such as `T.int64(4)`.
    pub arena: Arena,
}

/// A module: functions in the order of the text, each with its own name.
#[derive(Clone, Default)]
pub struct Module {
    /// Name of the class in the text.
    pub name: Option<Symbol>,
    /// The contents besides the functions.
    pub attributes: Arc<ModuleAttrs>,
    /// The functions.
    pub funcs: Vec<Func>,
}

impl Module {
    /// The function called `name`.
    pub fn func(&self, name: &str) -> Option<&Func> {
        self.funcs.iter().find(|f| f.name == name)
    }
}
