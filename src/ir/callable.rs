//! Converts functions to the form in which kernels are called: with buffers alone.
//!
//! ```text
//! def main(A: …, h: T.handle) -> T.float32:        def main(A: …, result: T.Buffer((1,), "float32")):
//!     …                                        →       …
//!     return A[0]                                      result[0] = A[0]; return
//! ```
//!
//! The result of the function becomes the single element of an additional last parameter, so that it is allocated,
//! initialised, checked and compared like all results. Unused handles are removed. The program itself does not change:
//! this conversion happens each time a function is compiled or interpreted.

use super::buffer::{Buffer, BufferRegion};
use super::dtype::{DType, Ty};
use super::func::{Func, Param};
use super::stmt::{BlockId, Stmt, StmtId};
use super::visit::{for_each_own_expr, uses_var};
use std::borrow::Cow;

/// The name of the parameter that receives the function's result.
const RESULT: &str = "result";

impl Func {
    /// The function with its result as a parameter, and without handles that nothing reads.
    pub fn callable(&self) -> Cow<'_, Func> {
        let returns: Vec<StmtId> =
            self.subtree(self.root.stmt()).into_iter().filter(|&s| matches!(self.get(s), Stmt::Return(_))).collect();
        let unused: Vec<Param> = self.params.iter().copied().filter(|p| self.is_unused_handle(p)).collect();
        // If all statements return nothing, no conversion is necessary.
        if unused.is_empty() && (returns.is_empty() || self.returned_type(&returns).is_none()) {
            return Cow::Borrowed(self);
        }
        let mut func = self.clone();
        func.params.retain(|p| !unused.contains(p));
        if let Some(ty) = self.returned_type(&returns) {
            func.add_result(ty, &returns);
        }
        Cow::Owned(func)
    }

    fn is_unused_handle(&self, param: &Param) -> bool {
        let mut used = param.buffer.is_some() || self.arena.var(param.var).dtype != DType::Handle;
        for s in self.subtree(self.root.stmt()) {
            for_each_own_expr(self, s, &mut |e| used |= uses_var(&self.arena, e, &mut |v| v == param.var));
        }
        !used
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
