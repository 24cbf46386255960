//! Converts functions to the form in which kernels are called: with buffers alone.
//!
//! ```text
//! def main(A: …, h: T.handle) -> T.float32:        def main(A: …, result: T.Buffer((1,), "float32")):
//!     …                                        →       …
//!     return A[0]                                      result[0] = A[0]; return
//! ```
//!
//! The result of the function becomes the single element of an additional last parameter, so that it is allocated,
//! initialised, checked and compared like all results. Unused handles are removed.
//!
//! A scalar becomes a buffer of rank 0, which uses load from:
//!
//! ```text
//! def main(alpha: T.float32, A: …):                def main(alpha: T.Buffer((), "float32"), A: …):
//!     A[v] = A[v] * alpha                      →       A[v] = A[v] * alpha[()]
//! ```
//!
//! A scalar that is a size, because the extent of a buffer or of an iteration depends on it, stays a scalar: kernels are
//! compiled for constant sizes.
//!
//! The program itself does not change: this conversion happens each time a function is compiled or interpreted.

use super::buffer::{Buffer, BufferRegion};
use super::dtype::{DType, Ty};
use super::expr::{ExprId, VarId};
use super::func::{Func, Param};
use super::stmt::{BlockId, Stmt, StmtId};
use super::visit::{Substitution, for_each_own_expr, uses_var};
use std::borrow::Cow;

/// The name of the parameter that receives the function's result.
const RESULT: &str = "result";

impl Func {
    /// The function with its result as a parameter, with buffers in place of scalars, and without handles that nothing reads.
    pub fn callable(&self) -> Cow<'_, Func> {
        let returns: Vec<StmtId> =
            self.subtree(self.root.stmt()).into_iter().filter(|&s| matches!(self.get(s), Stmt::Return(_))).collect();
        let unused: Vec<Param> = self.params.iter().copied().filter(|p| self.is_unused_handle(p)).collect();
        let scalars = self.scalars();
        let returned = self.returned_type(&returns);
        if unused.is_empty() && scalars.is_empty() && returned.is_none() {
            return Cow::Borrowed(self);
        }
        let mut func = self.clone();
        func.params.retain(|p| !unused.contains(p));
        func.load_scalars(&scalars);
        if let Some(ty) = returned {
            func.add_result(ty, &returns);
        }
        Cow::Owned(func)
    }

    /// The scalar parameters that are not sizes: callers pass them by value.
    pub fn scalars(&self) -> Vec<VarId> {
        let is_scalar = |p: &&Param| {
            let var = self.arena.var(p.var);
            p.buffer.is_none() && var.lanes == 1 && !matches!(var.dtype, DType::Handle | DType::Str)
        };
        let scalars: Vec<VarId> = self.params.iter().filter(is_scalar).map(|p| p.var).collect();
        if scalars.is_empty() {
            return scalars;
        }
        let sizes = self.size_expressions();
        let is_size = |v: &VarId| sizes.iter().any(|&e| uses_var(&self.arena, e, &mut |u| u == *v));
        scalars.into_iter().filter(|v| !is_size(v)).collect()
    }

    /// The expressions that lay out buffers and bound iterations.
    fn size_expressions(&self) -> Vec<ExprId> {
        let mut all = Vec::new();
        for b in self.arena.buffer_ids() {
            let buffer = self.arena.buffer(b);
            all.extend(self.arena.list(buffer.shape));
            all.extend(buffer.strides.into_iter().flat_map(|l| self.arena.list(l)));
            all.extend(buffer.elem_offset);
        }
        for s in self.subtree(self.root.stmt()) {
            match self.get(s) {
                Stmt::Loop(l) => all.extend([l.min, l.extent].into_iter().chain(l.step)),
                Stmt::Block(b) => {
                    all.extend(b.iters.iter().flat_map(|i| [i.min, i.extent]));
                    let regions = b.reads.iter().chain(&b.writes).chain(b.matches.iter().map(|m| &m.source));
                    all.extend(regions.flat_map(|r| self.arena.list(r.extents)));
                }
                Stmt::Store { .. }
                | Stmt::If { .. }
                | Stmt::Let { .. }
                | Stmt::Evaluate(_)
                | Stmt::Alloc { .. }
                | Stmt::Declare { .. }
                | Stmt::While { .. }
                | Stmt::Break
                | Stmt::Continue
                | Stmt::Return(_)
                | Stmt::Assert(_)
                | Stmt::Attr(_) => {}
            }
        }
        all
    }

    /// Replaces scalar parameters by buffers of rank 0.
    fn load_scalars(&mut self, scalars: &[VarId]) {
        let shape = self.arena.new_list(&[]);
        let mut loads = Substitution::default();
        let mut buffers = Vec::new();
        for &v in scalars {
            let var = self.arena.var(v);
            let (name, dtype) = (var.name, var.dtype);
            let buffer = self.arena.new_buffer(Buffer::new(name, dtype, shape));
            self.params.iter_mut().filter(|p| p.var == v).for_each(|p| p.buffer = Some(buffer));
            loads.add_var(v, self.arena.load(buffer, &[]));
            buffers.push((v, buffer));
        }
        let below_root = self.subtree(self.root.stmt()).into_iter().filter_map(|s| self.as_block(s));
        let blocks: Vec<BlockId> = below_root.filter(|&b| b != self.root).collect();
        for block in blocks {
            for &(v, buffer) in &buffers {
                if self.mentions(block.stmt(), v) {
                    let region = BufferRegion::full(&mut self.arena, buffer);
                    self.block_mut(block).reads.push(region);
                }
            }
        }
        if !buffers.is_empty() {
            self.rewrite_subtree(self.root.stmt(), &mut loads);
        }
    }

    /// Whether a variable occurs in a statement or in those below.
    pub(super) fn mentions(&self, s: StmtId, var: VarId) -> bool {
        let mut found = false;
        for s in self.subtree(s) {
            for_each_own_expr(self, s, &mut |e| found |= uses_var(&self.arena, e, &mut |v| v == var));
        }
        found
    }

    fn is_unused_handle(&self, param: &Param) -> bool {
        let is_handle = param.buffer.is_none() && self.arena.var(param.var).dtype == DType::Handle;
        is_handle && !self.mentions(self.root.stmt(), param.var)
    }

    /// The common type of the returned values; `None` if the statements return nothing.
    fn returned_type(&self, returns: &[StmtId]) -> Option<Ty> {
        self.returns?;
        let mut types = returns.iter().filter_map(|&s| match self.get(s) {
            Stmt::Return(value) => Some(self.arena.ty(*value)),
            _ => None,
        });
        let first = types.next()?;
        types.all(|t| t == first).then_some(first)
    }

    fn add_result(&mut self, ty: Ty, returns: &[StmtId]) {
        let one = self.arena.int32(1);
        let shape = self.arena.new_list(&[one]);
        let buffer = self.arena.new_buffer(Buffer { lanes: ty.lanes, ..Buffer::new(RESULT, ty.dtype, shape) });
        let var = self.arena.new_var(RESULT, DType::Handle);
        self.params.push(Param { var, buffer: Some(buffer) });
        self.returns = None;
        let zero = self.arena.int32(0);
        let indices = self.arena.new_list(&[zero]);
        let last = self.block(self.root).body.last().copied();
        for &s in returns {
            let Stmt::Return(value) = *self.get(s) else { continue };
            let store = self.add(Stmt::Store { buffer, indices, value });
            let root = self.root;
            let around: Vec<BlockId> =
                self.ancestors(s).filter_map(|a| self.as_block(a)).filter(|&b| b != root).collect();
            for b in around {
                let region = BufferRegion::full(&mut self.arena, buffer);
                self.block_mut(b).writes.push(region);
            }
            let end = self.add(Stmt::Return(zero));
            // After the last statement, no statement must be skipped.
            let new: &[StmtId] = if Some(s) == last { &[store] } else { &[store, end] };
            self.replace(s, new);
        }
    }
}
