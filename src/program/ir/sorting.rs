//! Rewrites packed functions that sort (`tvm.contrib.sort.argsort`, `sort` and `topk`) as statements.
//!
//! The order is stable: equal elements keep their order, in both directions. The rank of an element is the number of
//! elements that come before it:
//!
//! ```text
//! T.call_packed("tvm.contrib.sort.argsort", X, Y, axis, True)
//! # is, for X and Y of one dimension,
//! for i in range(n):
//!     rank[0] = 0
//!     for j in range(n):
//!         rank[0] += X[j] < X[i] or (X[j] == X[i] and j < i)
//!     Y[rank[0]] = i
//! ```
//!
//! This takes quadratic time, but no memory, and code generation vectorises it.

use super::buffer::BufferId;
use super::dtype::DType;
use super::expr::{Arena, Expr, ExprId, VarId};
use super::func::Func;
use super::op::{BinOp, Builtin, CmpOp};
use super::stmt::{Body, Stmt, StmtId};

/// Replaces the calls of functions that sort; others stay.
pub(super) fn write_out(func: &mut Func) {
    for s in func.subtree(func.root.stmt()) {
        if let Stmt::Evaluate(call) = *func.get(s)
            && let Some(sort) = Sort::of(&func.arena, call)
        {
            let nest = sort.nest(func, s);
            func.replace(s, &[nest]);
        }
    }
}

struct Sort {
    input: BufferId,
    shape: Vec<i64>,
    axis: usize,
    ascending: bool,
    /// Outputs: the sorted elements, and their original positions.
    values: Option<BufferId>,
    indices: Option<BufferId>,
    /// Number of elements that are kept.
    kept: i64,
}

impl Sort {
    fn of(a: &Arena, call: ExprId) -> Option<Sort> {
        let Expr::Builtin(Builtin::CallPacked, args) = a.expr(call) else { return None };
        let (&name, args) = a.list(args).split_first()?;
        let Expr::Str(name) = a.expr(name) else { return None };
        let (input, args) = args.split_first()?;
        let (input, shape) = array(a, *input)?;
        let fits = |out: &(BufferId, Vec<i64>)| out.0 != input && out.1.len() == shape.len();
        let output = |e: &ExprId| array(a, *e).filter(fits).map(|found| found.0);
        let (values, indices, rest, kept) = match (name.as_str(), args) {
            ("tvm.contrib.sort.argsort", [out, rest @ ..]) => (None, Some(output(out)?), rest, None),
            ("tvm.contrib.sort.sort", [out, rest @ ..]) => (Some(output(out)?), None, rest, None),
            ("tvm.contrib.sort.topk", args) => {
                let (outs, [k, axis, kind, direction]) = args.split_at_checked(args.len().checked_sub(4)?)? else {
                    return None;
                };
                let Expr::Str(kind) = a.expr(*kind) else { return None };
                let (values, indices) = match (kind.as_str(), outs) {
                    ("both", [v, i]) => (Some(output(v)?), Some(output(i)?)),
                    ("values", [v]) => (Some(output(v)?), None),
                    ("indices", [i]) => (None, Some(output(i)?)),
                    _ => return None,
                };
                return Sort { input, axis: 0, ascending: truth(a, *direction)?, kept: 0, values, indices, shape }
                    .along(a.as_int(*axis)?, Some(a.as_int(*k)?));
            }
            _ => return None,
        };
        let &[axis, direction] = rest else { return None };
        Sort { input, axis: 0, ascending: truth(a, direction)?, kept: 0, values, indices, shape }
            .along(a.as_int(axis)?, kept)
    }

    /// Sets the dimension to sort along, counted from the end if it is negative.
    fn along(mut self, axis: i64, kept: Option<i64>) -> Option<Sort> {
        let rank = self.shape.len() as i64;
        self.axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok().filter(|&a| (a as i64) < rank)?;
        let n = self.shape[self.axis];
        self.kept = kept.filter(|&k| k > 0).unwrap_or(n).min(n);
        Some(self)
    }

    /// The statements that replace the call at `s`.
    fn nest(&self, func: &mut Func, s: StmtId) -> StmtId {
        let rank = func.constant_buffer("rank", DType::Int32, &[1]);
        let block = func.block_above(s).unwrap_or(func.root);
        func.block_mut(block).allocs.push(rank);
        let vars: Vec<(VarId, ExprId)> =
            (0..self.shape.len()).map(|d| func.arena.new_var_expr(format!("i{d}").as_str(), DType::Int32)).collect();
        let (other, j) = func.arena.new_var_expr("j", DType::Int32);
        let at: Vec<ExprId> = vars.iter().map(|v| v.1).collect();
        let replaced = |by: ExprId| {
            let mut at = at.clone();
            at[self.axis] = by;
            at
        };
        let a = &mut func.arena;
        let i = at[self.axis];
        let (mine, its) = (a.load(self.input, &at), a.load(self.input, &replaced(j)));
        let before = if self.ascending { a.compare(CmpOp::Lt, its, mine) } else { a.compare(CmpOp::Gt, its, mine) };
        let equal = a.compare(CmpOp::Eq, its, mine);
        let earlier = a.compare(CmpOp::Lt, j, i);
        let tie = a.binary(BinOp::And, equal, earlier);
        let counts = a.binary(BinOp::Or, before, tie);
        let (zero, one) = (a.int32(0), a.int32(1));
        let count = a.load(rank, &[zero]);
        let counts = a.select(counts, one, zero);
        let sum = a.add(count, counts);
        let place = a.new_list(&[zero]);
        let clear = func.stmts.add(Stmt::Store { buffer: rank, indices: place, value: zero });
        let add = func.stmts.add(Stmt::Store { buffer: rank, indices: place, value: sum });
        let extent = func.arena.int32(self.shape[self.axis]);
        let loop_ = func.make_loop(other, extent, Body::from_slice(&[add]));
        let mut stores = Body::new();
        let target = func.arena.new_list(&replaced(count));
        for (buffer, value) in [(self.values, mine), (self.indices, i)] {
            let Some(buffer) = buffer else { continue };
            let dtype = func.arena.buffer(buffer).dtype;
            let value = func.arena.cast(dtype, value);
            stores.push(func.stmts.add(Stmt::Store { buffer, indices: target, value }));
        }
        let mut body = Body::from_slice(&[clear, loop_.stmt()]);
        if self.kept < self.shape[self.axis] {
            let kept = func.arena.int32(self.kept);
            let condition = func.arena.lt(count, kept);
            body.push(func.stmts.add(Stmt::If { condition, then: stores, otherwise: Body::new() }));
        } else {
            body.extend(stores);
        }
        for (&(var, _), &n) in vars.iter().zip(&self.shape).rev() {
            let extent = func.arena.int32(n);
            body = Body::from_slice(&[func.make_loop(var, extent, body).stmt()]);
        }
        body[0]
    }
}

/// The whole buffer that an array description refers to, with its shape.
fn array(a: &Arena, e: ExprId) -> Option<(BufferId, Vec<i64>)> {
    let Expr::Builtin(Builtin::StackMakeArray, args) = a.expr(e) else { return None };
    let &[data, shape, strides, _, _, offset] = a.list(args) else { return None };
    let Expr::BufferData(b) = a.expr(data) else { return None };
    let Expr::Builtin(Builtin::StackMakeShape, dims) = a.expr(shape) else { return None };
    let dims: Vec<i64> = a.list(dims).iter().map(|&e| a.as_int(e)).collect::<Option<_>>()?;
    let buffer = a.buffer(b);
    let extents: Vec<i64> = a.list(buffer.shape).iter().map(|&e| a.as_int(e)).collect::<Option<_>>()?;
    let whole = a.is_int(offset, 0) || buffer.elem_offset == Some(offset);
    (dims == extents && !dims.is_empty() && buffer.lanes == 1 && a.is_int(strides, 0) && whole).then_some((b, dims))
}

fn truth(a: &Arena, e: ExprId) -> Option<bool> {
    a.as_int(e).map(|v| v != 0)
}
