//! Translates expressions into the loop IR.

use super::LowerError;
use super::blocks::{Backing, Dims, Lowerer, Token, Value};
use crate::ir;
use crate::ir::visit::for_each_subexpr;
use crate::ir::{BinOp, Builtin, DType, Expr, Intrinsic};
use crate::loopir::{BufferId, ExprId, Ty};
use smallvec::SmallVec;

type Result<T> = std::result::Result<T, LowerError>;

impl Lowerer<'_> {
    /// An integer expression as `int64`, simplified with the ranges of loops.
    pub(super) fn index(&mut self, e: ir::ExprId) -> Result<ExprId> {
        let arena = &self.func.arena;
        Ok(match arena.expr(e) {
            Expr::Int(v) => self.draft.kernel.arena.index(v),
            Expr::Var(v) => match self.vars[v.index()] {
                Some(Value::Index(e)) => e,
                Some(Value::Typed(e)) => self.draft.kernel.arena.cast(DType::Int64, e),
                None => return Err(LowerError::Unbound(arena.var(v).name.to_string())),
            },
            Expr::Binary(op, a, b) if arena.dtype(e).is_index() && !matches!(op, BinOp::And | BinOp::Or) => {
                let (a, b) = (self.index(a)?, self.index(b)?);
                self.index_binary(op, a, b)
            }
            Expr::Cast(a) if arena.dtype(e).is_index() && arena.dtype(a).is_index() => self.index(a)?,
            Expr::Let(v, value, body) if arena.dtype(e).is_index() => {
                self.with_let(v, value, |this| this.index(body))?
            }
            _ => {
                let value = self.value(e)?;
                self.draft.kernel.arena.cast(DType::Int64, value)
            }
        })
    }

    fn index_binary(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let arena = &mut self.draft.kernel.arena;
        match (op, arena.as_int(b)) {
            (BinOp::FloorDiv, Some(c)) if c > 0 => self.draft.ranges.floor_div(arena, a, c),
            (BinOp::FloorMod, Some(c)) if c > 0 => self.draft.ranges.floor_mod(arena, a, c),
            // Without negative operands both roundings are equal.
            (BinOp::Div, Some(c)) if c > 0 && self.draft.ranges.of(arena, a).lo >= 0 => {
                self.draft.ranges.floor_div(arena, a, c)
            }
            (BinOp::Mod, Some(c)) if c > 0 && self.draft.ranges.of(arena, a).lo >= 0 => {
                self.draft.ranges.floor_mod(arena, a, c)
            }
            (BinOp::Min | BinOp::Max, _) => {
                let below = arena.compare(ir::CmpOp::Le, a, b);
                match (op, self.draft.ranges.decide(arena, below)) {
                    (BinOp::Min, Some(true)) | (BinOp::Max, Some(false)) => a,
                    (_, Some(_)) => b,
                    (_, None) => arena.binary(op, a, b),
                }
            }
            _ => arena.binary(op, a, b),
        }
    }

    /// Whether the expression is integer arithmetic on loop variables and constants only.
    fn is_index(&self, e: ir::ExprId) -> bool {
        let arena = &self.func.arena;
        if !arena.dtype(e).is_index() {
            return false;
        }
        match arena.expr(e) {
            Expr::Int(_) => true,
            Expr::Var(v) => matches!(self.vars[v.index()], Some(Value::Index(_))),
            Expr::Binary(op, a, b) => !matches!(op, BinOp::And | BinOp::Or) && self.is_index(a) && self.is_index(b),
            Expr::Cast(a) => self.is_index(a),
            Expr::Float(_)
            | Expr::Str(_)
            | Expr::Compare(..)
            | Expr::Not(_)
            | Expr::Select(..)
            | Expr::IfThenElse(..)
            | Expr::Load(..)
            | Expr::BufferData(_)
            | Expr::Call(..)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..)
            | Expr::Builtin(..) => false,
        }
    }

    /// An expression in its own type.
    pub(super) fn value(&mut self, e: ir::ExprId) -> Result<ExprId> {
        if let Some(&known) = self.known.get(&e) {
            return Ok(known);
        }
        self.depth += 1;
        let value = self.compute(e);
        self.depth -= 1;
        match (self.depth, &value) {
            // Variables have other values in the next statement.
            (0, _) | (_, Err(_)) => self.known.clear(),
            // A tree of shared expressions can be exponentially larger than what is shared.
            (_, &Ok(value)) => {
                self.known.insert(e, value);
            }
        }
        value
    }

    fn compute(&mut self, e: ir::ExprId) -> Result<ExprId> {
        let func = self.func;
        let arena = &func.arena;
        let dtype = arena.dtype(e);
        Ok(match arena.expr(e) {
            Expr::Int(v) => self.draft.kernel.arena.int(v, dtype),
            Expr::Float(bits) => self.draft.kernel.arena.float(f64::from_bits(bits), dtype),
            Expr::Str(_) => return Err(LowerError::Unsupported("a text".to_string())),
            Expr::Var(v) => match self.vars[v.index()] {
                Some(Value::Index(e)) => self.draft.kernel.arena.cast(dtype, e),
                Some(Value::Typed(e)) => e,
                None => return Err(LowerError::Unbound(arena.var(v).name.to_string())),
            },
            Expr::Binary(..) if self.is_index(e) => {
                let index = self.index(e)?;
                self.draft.kernel.arena.cast(dtype, index)
            }
            Expr::Binary(op, left, right) => {
                let (a, b) = (self.value(left)?, self.value(right)?);
                match (op, self.decide_bool(dtype, a), self.decide_bool(dtype, b)) {
                    (BinOp::And, Some(true), _) | (BinOp::Or, Some(false), _) => b,
                    (BinOp::And, _, Some(true)) | (BinOp::Or, _, Some(false)) => a,
                    (BinOp::And, Some(false), _) => self.draft.kernel.arena.bool(false),
                    (BinOp::Or, Some(true), _) => self.draft.kernel.arena.bool(true),
                    (BinOp::Mod, _, _) if dtype.is_float() => self.draft.kernel.arena.call(Intrinsic::Fmod, &[a, b]),
                    (BinOp::And, ..) if self.loads_what_exists(left, right)? => {
                        self.draft.kernel.arena.call(Intrinsic::BitAnd, &[a, b])
                    }
                    (BinOp::Or, ..) if self.loads_what_exists(left, right)? => {
                        self.draft.kernel.arena.call(Intrinsic::BitOr, &[a, b])
                    }
                    _ => self.draft.kernel.arena.binary(op, a, b),
                }
            }
            Expr::Compare(op, a, b) => {
                let (a, b) = if self.is_index(a) && self.is_index(b) {
                    (self.index(a)?, self.index(b)?)
                } else {
                    (self.value(a)?, self.value(b)?)
                };
                let whole = self.draft.kernel.arena.compare(op, a, b);
                match self.decide(whole) {
                    Some(v) => self.draft.kernel.arena.bool(v),
                    None => whole,
                }
            }
            Expr::Not(a) => {
                let a = self.value(a)?;
                self.draft.kernel.arena.not(a)
            }
            Expr::Cast(a) => {
                let a = self.value(a)?;
                self.draft.kernel.arena.cast(dtype, a)
            }
            Expr::Select(c, t, o) => {
                let (c, t, o) = (self.value(c)?, self.value(t)?, self.value(o)?);
                self.draft.kernel.arena.select(c, t, o)
            }
            Expr::IfThenElse(c, t, o) => {
                let c = self.value(c)?;
                match self.decide(c) {
                    Some(true) => self.value(t)?,
                    Some(false) => self.value(o)?,
                    None => {
                        let (t, o) = (self.value(t)?, self.value(o)?);
                        self.draft.kernel.arena.if_then_else(c, t, o)
                    }
                }
            }
            Expr::Load(buffer, list) => {
                let (buffer, index) = self.access(buffer, arena.list(list))?;
                self.draft.kernel.load(buffer, index)
            }
            Expr::BufferData(_) => return Err(LowerError::Unsupported("a pointer".to_string())),
            Expr::Call(Intrinsic::Likely, list) => self.value(arena.list(list)[0])?,
            Expr::Call(Intrinsic::Assume, _) => self.draft.kernel.arena.bool(true),
            Expr::Call(function, list) => {
                let mut args = SmallVec::<[ExprId; 3]>::new();
                for &a in arena.list(list) {
                    if !function.domain().takes(arena.dtype(a)) {
                        return Err(LowerError::Unsupported(format!("`{function}` of `{}`", arena.dtype(a))));
                    }
                    args.push(self.value(a)?);
                }
                self.draft.kernel.arena.call(function, &args)
            }
            Expr::Let(v, value, body) => self.with_let(v, value, |this| this.value(body))?,
            Expr::Builtin(Builtin::Reinterpret, list) => {
                let value = self.value(arena.list(list)[0])?;
                self.draft.kernel.arena.reinterpret(dtype, value)
            }
            Expr::Builtin(function, list) => {
                return Err(LowerError::call(function, function.called(arena, list)));
            }
            Expr::Ramp(..) | Expr::Broadcast(_) | Expr::Shuffle(..) => {
                return Err(LowerError::Unsupported("a vector where a scalar is expected".to_string()));
            }
        })
    }

    /// Whether a condition reads memory that the one before it does not, all of which exists wherever the conditions stand, and
    /// cannot fail: then it may be evaluated though the condition before it has decided, which takes no branch, and a vector of
    /// such conditions needs no loop over lanes.
    fn loads_what_exists(&mut self, before: ir::ExprId, condition: ir::ExprId) -> Result<bool> {
        let func = self.func;
        let (mut loads, mut can_fail) = (SmallVec::<[ir::ExprId; 4]>::new(), false);
        for_each_subexpr(&func.arena, condition, &mut |e| match func.arena.expr(e) {
            Expr::Load(..) => loads.push(e),
            Expr::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod, ..)
            | Expr::Let(..)
            | Expr::Builtin(..) => can_fail = true,
            _ => {}
        });
        for_each_subexpr(&func.arena, before, &mut |e| loads.retain(|load| *load != e));
        if loads.is_empty() || can_fail {
            return Ok(false);
        }
        for load in loads {
            let Expr::Load(buffer, list) = func.arena.expr(load) else { continue };
            let inside = self.in_buffer(buffer, func.arena.list(list))?;
            if self.decide(inside) != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn decide_bool(&mut self, dtype: DType, e: ExprId) -> Option<bool> {
        if dtype == DType::Bool { self.decide(e) } else { None }
    }

    fn with_let<T>(&mut self, v: ir::VarId, value: ir::ExprId, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let value =
            if self.is_index(value) { Value::Index(self.index(value)?) } else { Value::Typed(self.value(value)?) };
        let before = self.vars[v.index()].replace(value);
        let outside = std::mem::take(&mut self.known);
        let result = body(self);
        self.known = outside;
        self.vars[v.index()] = before;
        result
    }

    /// The accessed buffer of the kernel, and the token that represents its index.
    pub(super) fn access(&mut self, buffer: ir::BufferId, indices: &[ir::ExprId]) -> Result<(BufferId, ExprId)> {
        let mut dims = Dims::new();
        for &e in indices {
            dims.push(self.index(e)?);
        }
        let mut at = buffer;
        let id = loop {
            match self.backings[at.index()].clone() {
                Some(Backing::Buffer(id)) => break id,
                Some(Backing::Flat { buffer, offset, strides }) => {
                    dims = Dims::from_elem(self.linear(offset, &strides, &dims), 1);
                    break buffer;
                }
                Some(Backing::View { source, mins }) => {
                    let arena = &mut self.draft.kernel.arena;
                    let skipped = mins.len().saturating_sub(dims.len());
                    let inner = mins[skipped..].iter().zip(&dims).map(|(&m, &d)| arena.add(m, d));
                    let inner: Dims = inner.collect();
                    dims = mins[..skipped].iter().copied().chain(inner).collect();
                    at = source;
                }
                None => {
                    let name = self.func.arena.buffer(at).name;
                    return Err(LowerError::Unsupported(format!("buffer `{name}`, used outside its block,")));
                }
            }
        };
        let key = (id, dims);
        if let Some(&index) = self.token_of.get(&key) {
            return Ok((id, index));
        }
        let arena = &mut self.draft.kernel.arena;
        let var = arena.new_var("at", Ty::INDEX);
        let index = arena.var_expr(var);
        self.draft.token_vars.insert(var, self.draft.tokens.len());
        self.draft.tokens.push(Token { buffer: id, dims: key.1.clone() });
        self.token_of.insert(key, index);
        Ok((id, index))
    }
}
