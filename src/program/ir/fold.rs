//! Rebuilds every expression of a function through the folding constructors.
//!
//! TVM's operators fold constants while it reads a text; programs in memory may contain nodes that folding would change
//! (`T.Add(i, 0)`, left by substitutions). Before two programs are compared as their texts would be, both are folded.
//! Folding is idempotent.

use super::expr::{Arena, Expr, ExprId};
use super::func::Func;
use super::visit::Rewriter;
use hashbrown::HashMap;

/// The rewriter that folds. Results are memoised per expression, so one `Fold` serves one arena.
#[derive(Default)]
pub(crate) struct Fold {
    done: HashMap<ExprId, ExprId>,
}

impl Rewriter for Fold {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&new) = self.done.get(&e) {
            return new;
        }
        let new = match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) | Expr::BufferData(_) => return e,
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.rewrite_expr(arena, a), self.rewrite_expr(arena, b));
                arena.binary(op, a, b)
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = (self.rewrite_expr(arena, a), self.rewrite_expr(arena, b));
                arena.compare(op, a, b)
            }
            Expr::Not(a) => {
                let a = self.rewrite_expr(arena, a);
                arena.not(a)
            }
            Expr::Cast(a) => {
                let (a, dtype) = (self.rewrite_expr(arena, a), arena.dtype(e));
                arena.cast(dtype, a)
            }
            Expr::IfThenElse(c, t, o) => {
                let (c, t, o) = (self.rewrite_expr(arena, c), self.rewrite_expr(arena, t), self.rewrite_expr(arena, o));
                arena.if_then_else(c, t, o)
            }
            Expr::Select(..)
            | Expr::Load(..)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => arena.map_children(e, |arena, c| self.rewrite_expr(arena, c)),
        };
        self.done.insert(e, new);
        new
    }
}

impl Func {
    /// Folds every expression of the function, its buffers' shapes and its attributes included.
    pub fn fold(&mut self) {
        let mut fold = Fold::default();
        for b in self.arena.buffer_ids() {
            let mut buffer = self.arena.buffer(b).clone();
            buffer.shape = self.arena.map_list(buffer.shape, |a, e| fold.rewrite_expr(a, e));
            buffer.strides = buffer.strides.map(|l| self.arena.map_list(l, |a, e| fold.rewrite_expr(a, e)));
            buffer.elem_offset = buffer.elem_offset.map(|e| fold.rewrite_expr(&mut self.arena, e));
            self.arena.update_buffer(b, |slot| *slot = buffer);
        }
        let arena = &mut self.arena;
        for value in self.attrs.values_mut() {
            value.map_exprs(&mut |e| fold.rewrite_expr(arena, e));
        }
        self.rewrite_subtree(self.root.stmt(), &mut fold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{BinOp, DType};

    #[test]
    fn nodes_written_by_name_fold() {
        let mut a = Arena::new();
        let (_, i) = a.new_var_expr("i", DType::Int32);
        let (zero, seven) = (a.int32(0), a.int32(7));
        let sum = a.binary_unfolded(BinOp::Add, i, zero);
        let nothing = a.binary_unfolded(BinOp::Mul, zero, seven);
        let both = a.binary_unfolded(BinOp::Add, sum, nothing);
        let mut fold = Fold::default();
        assert_eq!(fold.rewrite_expr(&mut a, both), i);
        assert_eq!(fold.rewrite_expr(&mut a, nothing), zero);
    }
}
