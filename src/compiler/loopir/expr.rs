//! Expressions of the loop IR: interned, typed, small nodes.

use super::kernel::BufferId;
pub use crate::ir::Ty;
use crate::ir::expr::{FxBuild, id};
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic, Symbol};
use hashbrown::HashTable;
use smallvec::SmallVec;
use std::hash::BuildHasher;

id! {
    /// An expression of an [`Arena`].
    pub ExprId
}
id! {
    /// An interned list of expressions.
    pub ExprList
}
id! {
    /// An immutable variable: a loop's counter, or the name of a [`super::Stmt::Let`].
    pub VarId
}
id! {
    /// A mutable register, set by [`super::Stmt::Set`]; undefined until then.
    pub LocalId
}

/// An expression node; its type is [`Arena::ty`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    /// A scalar integer or boolean constant, within the range of its type (`uint64` as the `i64` of equal bits).
    Int(i64),
    /// A scalar float constant by the bits of the `f64`, rounded to its type.
    Float(u64),
    /// The value of a variable.
    Var(VarId),
    /// The current value of a register.
    Local(LocalId),
    /// A binary operator on operands of one type, which is the result's.
    Binary(BinOp, ExprId, ExprId),
    /// A comparison of operands of one type; `bool` with as many lanes.
    Compare(CmpOp, ExprId, ExprId),
    /// Negation of booleans.
    Not(ExprId),
    /// Conversion to the type of this node, lane by lane.
    Cast(ExprId),
    /// The bits of the operand as lanes of the type of this node, the first lane first and its low byte first: the same
    /// number of lanes of equal size, 32 or 64 bits, or integers of another size, such as the four bytes of an `int32`.
    Reinterpret(ExprId),
    /// `acc + Σ a[q] * b[q]` over the four bytes of each lane; the bytes of `a` are unsigned, those of `b` signed. The
    /// operands and the result are `int32` with the same number of lanes; the sum wraps around.
    Dot4(ExprId, ExprId, ExprId),
    /// A selection that evaluates both values; the condition is `bool` with the same number of lanes.
    Select(ExprId, ExprId, ExprId),
    /// A selection that evaluates one value; the condition is a scalar, the values may be vectors. If the condition has
    /// one lane per value, the first value is a load, or a pack, of which only the lanes where it holds are read, and all
    /// lanes of the second are evaluated.
    IfThenElse(ExprId, ExprId, ExprId),
    /// Consecutive elements of a buffer, one per lane of the type, from a linear element index on; or the elements whose
    /// indices are the lanes of a vector of `int64`, or of `int32`.
    Load(BufferId, ExprId),
    /// An intrinsic function, lane by lane.
    Call(Intrinsic, ExprList),
    /// A scalar in every lane.
    Broadcast(ExprId),
    /// `base + lane * stride` of a scalar integer `base`.
    Ramp(ExprId, i64),
    /// The vector of these scalars.
    Pack(ExprList),
    /// A table lookup: each lane selects one of the scalar constants by the low bits of an integer. The number of
    /// constants is a power of two; they have 32 or 64 bits.
    Lookup(ExprId, ExprList),
    /// One lane of a vector.
    Extract(ExprId, u16),
    /// All lanes of a vector combined into a scalar by an associative operator, in an unspecified order.
    Reduce(BinOp, ExprId),
}

/// A variable or register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Var {
    /// The name under which it prints if it is free.
    pub name: Symbol,
    /// Type of the value.
    pub ty: Ty,
}

/// The owner of the expressions, variables and registers of a kernel. Entries are never removed: an expression that a
/// pass replaced becomes unreachable from the statements.
///
/// The constructors check types (a mismatch is a bug of the caller), fold constants and neutral elements, and keep
/// constants of integer sums on the right: `(x + 1) + 2` is `x + 3`. Floats are folded only where the result is exact
/// under every rounding rule the kernel may be compiled with.
#[derive(Clone, Default)]
pub struct Arena {
    nodes: Vec<(Expr, Ty)>,
    node_table: HashTable<u32>,
    list_items: Vec<ExprId>,
    lists: Vec<(u32, u32)>,
    list_table: HashTable<u32>,
    vars: Vec<Var>,
    locals: Vec<Var>,
    hasher: FxBuild,
}

impl Arena {
    // ---- reading -------------------------------------------------------------------------------------------

    /// The node of an expression.
    pub fn expr(&self, e: ExprId) -> Expr {
        self.nodes[e.index()].0
    }

    /// The type of an expression.
    pub fn ty(&self, e: ExprId) -> Ty {
        self.nodes[e.index()].1
    }

    /// The scalar type of an expression's lanes.
    pub fn dtype(&self, e: ExprId) -> DType {
        self.ty(e).dtype
    }

    /// The number of lanes of an expression.
    pub fn lanes(&self, e: ExprId) -> u16 {
        self.ty(e).lanes
    }

    /// The number of expressions; ids are smaller. Operands have smaller ids than the nodes that use them.
    pub fn n_exprs(&self) -> usize {
        self.nodes.len()
    }

    /// All expressions, also those that no statement uses any more; operands come before the nodes that use them.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn exprs(&self) -> impl Iterator<Item = ExprId> {
        (0..self.nodes.len() as u32).map(ExprId)
    }

    /// The items of a list.
    pub fn list(&self, l: ExprList) -> &[ExprId] {
        let (start, len) = self.lists[l.index()];
        &self.list_items[start as usize..(start + len) as usize]
    }

    /// The variable's entry.
    pub fn var(&self, v: VarId) -> Var {
        self.vars[v.index()]
    }

    /// The number of variables; ids are smaller.
    pub fn n_vars(&self) -> usize {
        self.vars.len()
    }

    /// The register's entry.
    pub fn local(&self, l: LocalId) -> Var {
        self.locals[l.index()]
    }

    /// The number of registers; ids are smaller.
    pub fn n_locals(&self) -> usize {
        self.locals.len()
    }

    /// The value of a scalar integer or boolean constant.
    pub fn as_int(&self, e: ExprId) -> Option<i64> {
        match self.expr(e) {
            Expr::Int(v) => Some(v),
            _ => None,
        }
    }

    /// The value of a scalar constant, or of a constant in every lane.
    pub fn as_const(&self, e: ExprId) -> Option<Const> {
        match self.expr(e) {
            Expr::Int(v) => Some(Const::Int(v)),
            Expr::Float(bits) => Some(Const::Float(f64::from_bits(bits))),
            Expr::Broadcast(a) => self.as_const(a),
            _ => None,
        }
    }

    /// The first lane of an index and the step from lane to lane, if the step is the same for all lanes.
    pub fn first_and_step(&self, e: ExprId) -> Option<(ExprId, i64)> {
        match self.expr(e) {
            Expr::Ramp(first, step) => Some((first, step)),
            Expr::Broadcast(all) => Some((all, 0)),
            _ => (self.lanes(e) == 1).then_some((e, 0)),
        }
    }

    /// The variable, if the expression is one.
    pub fn as_var(&self, e: ExprId) -> Option<VarId> {
        match self.expr(e) {
            Expr::Var(v) => Some(v),
            _ => None,
        }
    }

    /// Whether every lane is the constant `value`.
    pub fn is_number(&self, e: ExprId, value: i64) -> bool {
        match self.as_const(e) {
            Some(Const::Int(v)) => v == value,
            Some(Const::Float(v)) => v == value as f64,
            None => false,
        }
    }

    /// Calls `f` with each direct operand, in order of evaluation.
    pub fn for_each_child(&self, e: ExprId, mut f: impl FnMut(ExprId)) {
        match self.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Var(_) | Expr::Local(_) => {}
            Expr::Not(a)
            | Expr::Cast(a)
            | Expr::Reinterpret(a)
            | Expr::Load(_, a)
            | Expr::Broadcast(a)
            | Expr::Ramp(a, _)
            | Expr::Lookup(a, _)
            | Expr::Extract(a, _)
            | Expr::Reduce(_, a) => f(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
                f(a);
                f(b);
            }
            Expr::Select(a, b, c) | Expr::IfThenElse(a, b, c) | Expr::Dot4(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            Expr::Call(_, list) | Expr::Pack(list) => self.list(list).iter().copied().for_each(f),
        }
    }

    // ---- variables -----------------------------------------------------------------------------------------

    /// A new variable.
    pub fn new_var(&mut self, name: impl Into<Symbol>, ty: Ty) -> VarId {
        let id = VarId(self.vars.len() as u32);
        self.vars.push(Var { name: name.into(), ty });
        id
    }

    /// A new loop variable, and the expression that reads it.
    pub fn new_index(&mut self, name: impl Into<Symbol>) -> (VarId, ExprId) {
        let v = self.new_var(name, Ty::INDEX);
        (v, self.var_expr(v))
    }

    /// A new register.
    pub fn new_local(&mut self, name: impl Into<Symbol>, ty: Ty) -> LocalId {
        let id = LocalId(self.locals.len() as u32);
        self.locals.push(Var { name: name.into(), ty });
        id
    }

    // ---- interning -----------------------------------------------------------------------------------------

    pub(super) fn intern(&mut self, expr: Expr, ty: Ty) -> ExprId {
        let key = (expr, ty);
        let hash = self.hasher.hash_one(key);
        if let Some(&i) = self.node_table.find(hash, |&i| self.nodes[i as usize] == key) {
            return ExprId(i);
        }
        let id = self.nodes.len() as u32;
        self.nodes.push(key);
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.node_table.insert_unique(hash, id, |&i| hasher.hash_one(nodes[i as usize]));
        ExprId(id)
    }

    pub(super) fn intern_list(&mut self, items: &[ExprId]) -> ExprList {
        let hash = self.hasher.hash_one(items);
        if let Some(&i) = self.list_table.find(hash, |&i| self.list(ExprList(i)) == items) {
            return ExprList(i);
        }
        let id = self.lists.len() as u32;
        self.lists.push((self.list_items.len() as u32, items.len() as u32));
        self.list_items.extend_from_slice(items);
        let Arena { list_table, list_items, lists, hasher, .. } = self;
        list_table.insert_unique(hash, id, |&i| {
            let (start, len) = lists[i as usize];
            hasher.hash_one(&list_items[start as usize..(start + len) as usize])
        });
        ExprList(id)
    }

    // ---- leaves --------------------------------------------------------------------------------------------

    /// A scalar integer or boolean constant, wrapped to its type.
    pub fn int(&mut self, value: i64, dtype: DType) -> ExprId {
        assert!(!dtype.is_float(), "an integer constant has no type {dtype}");
        self.intern(Expr::Int(dtype.wrap(value)), Ty::scalar(dtype))
    }

    /// An `int64` constant.
    pub fn index(&mut self, value: i64) -> ExprId {
        self.int(value, DType::Int64)
    }

    /// A scalar boolean constant.
    pub fn bool(&mut self, value: bool) -> ExprId {
        self.int(value as i64, DType::Bool)
    }

    /// A scalar float constant, rounded to its type. -0.0 and 0.0 differ, all NaNs are one.
    pub fn float(&mut self, value: f64, dtype: DType) -> ExprId {
        assert!(dtype.is_float(), "a float constant has no type {dtype}");
        let value = if value.is_nan() { f64::NAN } else { dtype.round(value) };
        self.intern(Expr::Float(value.to_bits()), Ty::scalar(dtype))
    }

    /// `value` in every lane of any numeric type.
    pub fn constant(&mut self, value: i64, ty: Ty) -> ExprId {
        let scalar = if ty.dtype.is_float() { self.float(value as f64, ty.dtype) } else { self.int(value, ty.dtype) };
        self.broadcast(scalar, ty.lanes)
    }

    /// The value of a variable.
    pub fn var_expr(&mut self, v: VarId) -> ExprId {
        let ty = self.var(v).ty;
        self.intern(Expr::Var(v), ty)
    }

    /// The current value of a register.
    pub fn local_expr(&mut self, l: LocalId) -> ExprId {
        let ty = self.local(l).ty;
        self.intern(Expr::Local(l), ty)
    }

    // ---- rebuilding ----------------------------------------------------------------------------------------

    /// The node of `e` with each operand replaced by the result of `f`, built by the folding constructors; `e` itself
    /// if nothing changed.
    pub fn map_children(&mut self, e: ExprId, mut f: impl FnMut(&mut Arena, ExprId) -> ExprId) -> ExprId {
        match self.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Var(_) | Expr::Local(_) => e,
            Expr::Not(a) => {
                let x = f(self, a);
                if x == a { e } else { self.not(x) }
            }
            Expr::Cast(a) => {
                let (x, dtype) = (f(self, a), self.dtype(e));
                if x == a { e } else { self.cast(dtype, x) }
            }
            Expr::Reinterpret(a) => {
                let (x, dtype) = (f(self, a), self.dtype(e));
                if x == a { e } else { self.reinterpret(dtype, x) }
            }
            Expr::Load(buffer, a) => {
                let (x, ty) = (f(self, a), self.ty(e));
                if x == a { e } else { self.load(buffer, x, ty) }
            }
            Expr::Broadcast(a) => {
                let (x, lanes) = (f(self, a), self.lanes(e));
                if x == a { e } else { self.broadcast(x, lanes) }
            }
            Expr::Ramp(a, stride) => {
                let (x, lanes) = (f(self, a), self.lanes(e));
                if x == a { e } else { self.ramp(x, stride, lanes) }
            }
            Expr::Lookup(a, table) => {
                let x = f(self, a);
                if x == a { e } else { self.lookup_in(table, x) }
            }
            Expr::Extract(a, lane) => {
                let x = f(self, a);
                if x == a { e } else { self.extract(x, lane) }
            }
            Expr::Reduce(op, a) => {
                let x = f(self, a);
                if x == a { e } else { self.reduce(op, x) }
            }
            Expr::Binary(op, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.binary(op, x, y) }
            }
            Expr::Compare(op, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.compare(op, x, y) }
            }
            Expr::Select(c, t, o) => {
                let (x, y, z) = (f(self, c), f(self, t), f(self, o));
                if (x, y, z) == (c, t, o) { e } else { self.select(x, y, z) }
            }
            Expr::IfThenElse(c, t, o) => {
                let (x, y, z) = (f(self, c), f(self, t), f(self, o));
                if (x, y, z) == (c, t, o) { e } else { self.if_then_else(x, y, z) }
            }
            Expr::Dot4(acc, a, b) => {
                let (x, y, z) = (f(self, acc), f(self, a), f(self, b));
                if (x, y, z) == (acc, a, b) { e } else { self.dot4(x, y, z) }
            }
            Expr::Call(function, list) => match self.map_list(list, f) {
                None => e,
                Some(args) => self.call(function, &args),
            },
            Expr::Pack(list) => match self.map_list(list, f) {
                None => e,
                Some(items) => self.pack(&items),
            },
        }
    }

    fn map_list(
        &mut self,
        list: ExprList,
        mut f: impl FnMut(&mut Arena, ExprId) -> ExprId,
    ) -> Option<SmallVec<[ExprId; 16]>> {
        let old: SmallVec<[ExprId; 16]> = self.list(list).into();
        let new: SmallVec<[ExprId; 16]> = old.iter().map(|&item| f(self, item)).collect();
        (new != old).then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_gather_their_constants_on_the_right() {
        let mut a = Arena::default();
        let (_, i) = a.new_index("i");
        let one = a.index(1);
        let x = a.add(one, i);
        let y = a.add_const(x, 2);
        let z = a.add_const(i, 3);
        assert_eq!(y, z);
        let back = a.add_const(y, -3);
        assert_eq!(back, i);
        assert_eq!(a.sub(y, y), a.index(0));
    }

    #[test]
    fn uniform_vectors_stay_broadcasts() {
        let mut a = Arena::default();
        let (_, i) = a.new_index("i");
        let (v, w) = (a.broadcast(i, 4), a.constant(2, Ty::vector(DType::Int64, 4)));
        let product = a.mul(v, w);
        let scalar = a.mul_const(i, 2);
        assert_eq!(product, a.broadcast(scalar, 4));
        assert_eq!(a.extract(product, 3), scalar);
        let ramp = a.ramp(i, 5, 4);
        let third = a.extract(ramp, 2);
        assert_eq!(third, a.add_const(i, 10));
    }

    #[test]
    fn float_folding_respects_signed_zero() {
        let mut a = Arena::default();
        let v = a.new_var("x", Ty::scalar(DType::Float32));
        let (x, zero) = (a.var_expr(v), a.float(0.0, DType::Float32));
        let sum = a.add(x, zero);
        assert_ne!(sum, x, "-0.0 + 0.0 is 0.0");
        let one = a.float(1.0, DType::Float32);
        assert_eq!(a.mul(x, one), x);
    }
}
