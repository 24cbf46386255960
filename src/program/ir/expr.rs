//! Expressions: small interned nodes in an [`Arena`], together with the variables and buffers they mention.
//!
//! # Semantics
//! * [`scalar`](super::scalar) defines operators, functions and casts of scalars. A division without a result is an
//!   error of the program. Code generation may contract and reassociate floats (unless told not to), the interpreter
//!   never does.
//! * [`Expr::Select`] evaluates both sides and must not be used to guard an access; [`Expr::IfThenElse`], `and` and
//!   `or` evaluate only what they need.
//!
//! # Vectors
//! An expression has a scalar type and a number of lanes ([`Ty`]); scalars have one lane. Operators, comparisons, casts,
//! selections and functions work lane by lane on operands of equally many lanes; their constructors broadcast a
//! scalar operand to the lanes of the other one, as TVM's operators do. A vector index accesses one element for each
//! lane: `A[T.Ramp(0, 1, 4)]` is the vector of four elements. Only the last index of an access may be a vector. An
//! element of a buffer of vectors has the lanes of the buffer, and a vector index into it gives the elements' lanes one
//! element after the other. If the condition of `T.if_then_else`, `and` or `or` has several lanes, each lane of an
//! operand is evaluated only if it is needed. A vector store evaluates all lanes of its value before it writes the
//! first one. It writes lanes in ascending order, so that the last of several lanes stored to one place stays.

use super::buffer::{Buffer, BufferId};
use super::dtype::{DType, Ty};
use super::narrow::Narrow;
use super::op::{BinOp, Builtin, CmpOp, Intrinsic};
use super::symbol::Symbol;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, Hasher};

/// Defines the id of an entity: its position in the table that owns it.
#[doc(hidden)]
#[macro_export]
macro_rules! entity_id {
    ($(#[$doc:meta])* $vis:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis struct $name(pub(crate) u32);

        impl $name {
            /// The position in the table that owns the entity.
            $vis fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}{}", stringify!($name), self.0)
            }
        }
    };
}
pub use crate::entity_id as id;

id! {
    /// An expression of an [`Arena`]: equal ids are structurally equal expressions of one type.
    pub ExprId
}
id! {
    /// An interned list of expressions (indices, arguments).
    pub ExprList
}
id! {
    /// A variable. It has one binding: a loop, a block iteration variable, a `let` or a parameter.
    pub VarId
}

/// An expression node; its type is [`Arena::dtype`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    /// An integer or boolean constant, within the range of its type (`uint64` as the `i64` of equal bits).
    Int(i64),
    /// A floating-point constant, by the bits of the `f64`. It need not be rounded to its type yet.
    Float(u64),
    /// A text, as an argument of a call.
    Str(Symbol),
    /// The value of a variable.
    Var(VarId),
    /// A binary operator on operands of one type, which is the result's.
    Binary(BinOp, ExprId, ExprId),
    /// A comparison of operands of one type.
    Compare(CmpOp, ExprId, ExprId),
    /// Negation of a boolean.
    Not(ExprId),
    /// Conversion to the type of this node.
    Cast(ExprId),
    /// `T.Select(condition, then, otherwise)`: both sides are evaluated.
    Select(ExprId, ExprId, ExprId),
    /// `T.if_then_else(condition, then, otherwise)`: only one side is evaluated.
    IfThenElse(ExprId, ExprId, ExprId),
    /// An element of a buffer.
    Load(BufferId, ExprList),
    /// `buffer.data`: the address of a buffer's memory, a handle.
    BufferData(BufferId),
    /// A function of scalars.
    Call(Intrinsic, ExprList),
    /// `T.Let(body, where={var: value})`.
    Let(VarId, ExprId, ExprId),
    /// `T.Ramp(base, stride, lanes)`: lane `i` is `base + i * stride`; both are scalars of the type of this node.
    Ramp(ExprId, ExprId),
    /// `T.Broadcast(value, lanes)`: a scalar in every lane.
    Broadcast(ExprId),
    /// `T.Shuffle(vectors, indices)`: the concatenated lanes of all vectors, from which each index picks one.
    Shuffle(ExprList, ExprList),
    /// A TVM function that is not a function of scalars, such as `T.reinterpret` or `T.call_extern`.
    Builtin(Builtin, ExprList),
}

/// A variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Var {
    /// The name under which the variable prints if it is free; not part of the structure.
    pub name: Symbol,
    /// Type of the variable's lanes.
    pub dtype: DType,
    /// Number of the variable's lanes.
    pub lanes: u16,
    /// The target of a typed handle: `T.handle("float32", "global")`.
    pub pointee: Option<Pointee>,
}

impl Var {
    /// The type of the variable.
    pub fn ty(&self) -> Ty {
        Ty::vector(self.dtype, self.lanes)
    }
}

/// The target of a typed handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pointee {
    /// The type of the elements.
    pub ty: Ty,
    /// Storage scope of the elements.
    pub scope: Symbol,
}

/// A number: a constant, or the value of an expression. Its type is stored separately; an integer lies in the range of
/// its type (`uint64` as the `i64` of equal bits).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Const {
    /// An integer or boolean.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Const {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Const::Int(v) => v as f64,
            Const::Float(v) => v,
        }
    }

    /// The value as an integer: floats truncate and saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Const::Int(v) => v,
            Const::Float(v) => v as i64,
        }
    }
}

/// The owner of the expressions, variables and buffers of one function. Entries are never removed: an expression that a
/// rewrite replaced becomes unreachable from the function's statements, and costs a few bytes.
#[derive(Clone, Default)]
pub struct Arena {
    nodes: Vec<(Expr, Ty)>,
    /// The variables in each expression.
    vars_inside: Vec<VarBits>,
    /// The buffers in each expression.
    buffers_inside: Vec<BufferBits>,
    node_table: HashTable<Interned>,
    list_items: Vec<ExprId>,
    lists: Vec<(u32, u32)>,
    list_table: HashTable<Interned>,
    vars: Vec<Var>,
    buffers: Vec<Buffer>,
    hasher: FxBuild,
    /// Whether a vector or a builtin was ever made.
    beyond_scalars: bool,
    /// Whether an expression of an 8-bit float type was ever made.
    float8: bool,
    narrow: Option<Narrow>,
}

/// A set of variables, by their numbers modulo 64; it may appear to contain variables that were not added.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VarBits(u64);

impl VarBits {
    /// Adds a variable.
    pub fn add(&mut self, v: VarId) {
        self.0 |= 1 << (v.0 % 64);
    }

    /// May both sets hold a common variable?
    pub fn meets(self, other: VarBits) -> bool {
        self.0 & other.0 != 0
    }
}

/// A set of buffers, by their numbers modulo 64; it may appear to contain buffers that were not added.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BufferBits(u64);

impl BufferBits {
    /// Buffers with smaller numbers are represented exactly.
    pub const EXACT: usize = 64;

    /// Adds a buffer.
    pub fn add(&mut self, b: BufferId) {
        self.0 |= 1 << (b.0 % 64);
    }

    /// The buffers in the set; none if a buffer with a number of 64 or above was added.
    pub fn members(self) -> impl Iterator<Item = BufferId> {
        let rest = |bits: &u64| Some(bits & (bits - 1)).filter(|&rest| rest != 0);
        let all = std::iter::successors(Some(self.0).filter(|&bits| bits != 0), rest);
        all.map(|bits| BufferId(bits.trailing_zeros()))
    }

    /// Whether the set may contain a buffer; `false` is certain.
    pub fn may_hold(self, b: BufferId) -> bool {
        self.0 & 1 << (b.0 % 64) != 0
    }

    /// Is the set empty?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// An entry of a hash table of interned values. The stored hash lets the table grow without reading the values, and
/// skip most unequal entries of a lookup.
#[derive(Clone, Copy)]
struct Interned {
    hash: u32,
    id: u32,
}

impl Interned {
    /// Spreads the hash: the table takes the bucket from the low bits and a tag from the high bits.
    fn place(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

/// Multiply-rotate hashing of small keys; keys come from the program itself, never from an adversary with an
/// interest in collisions.
#[derive(Clone, Default)]
pub struct FxBuild;

/// See [`FxBuild`].
pub struct FxHasher(u64);

impl BuildHasher for FxBuild {
    type Hasher = FxHasher;

    fn build_hasher(&self) -> FxHasher {
        FxHasher(0)
    }
}

impl Hasher for FxHasher {
    fn finish(&self) -> u64 {
        // The table takes its bucket from the low bits, which are weak after a multiplication.
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(b as u64);
        }
    }

    fn write_u8(&mut self, v: u8) {
        self.write_u64(v as u64);
    }

    fn write_u32(&mut self, v: u32) {
        self.write_u64(v as u64);
    }

    fn write_i64(&mut self, v: i64) {
        self.write_u64(v as u64);
    }

    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }

    fn write_isize(&mut self, v: isize) {
        self.write_u64(v as u64);
    }

    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

#[inline]
fn hash_of<T: Hash>(build: &FxBuild, value: &T) -> u32 {
    // The high half, in which multiplication has mixed all bits.
    (build.hash_one(value) >> 32) as u32
}

impl Arena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves capacity for this many more expressions. Copies of the arena keep it, so that the many copies of one
    /// arena need not rehash.
    pub fn reserve(&mut self, n: usize) {
        self.node_table.reserve(n, |x| Interned::place(x.hash));
        self.list_table.reserve(n / 8, |x| Interned::place(x.hash));
    }

    // ---- reading -------------------------------------------------------------------------------------------

    /// The node of an expression.
    pub fn expr(&self, e: ExprId) -> Expr {
        self.nodes[e.index()].0
    }

    /// The type of an expression's lanes.
    pub fn dtype(&self, e: ExprId) -> DType {
        self.nodes[e.index()].1.dtype
    }

    /// The number of an expression's lanes; 1 for scalars.
    pub fn lanes(&self, e: ExprId) -> u16 {
        self.nodes[e.index()].1.lanes
    }

    /// The type of an expression.
    pub fn ty(&self, e: ExprId) -> Ty {
        self.nodes[e.index()].1
    }

    /// The number of interned expressions; ids are smaller. Children have smaller ids than their parents.
    pub fn n_exprs(&self) -> usize {
        self.nodes.len()
    }

    /// The items of a list.
    pub fn list(&self, l: ExprList) -> &[ExprId] {
        let (start, len) = self.lists[l.index()];
        &self.list_items[start as usize..(start + len) as usize]
    }

    /// The variable's entry.
    pub fn var(&self, v: VarId) -> &Var {
        &self.vars[v.index()]
    }

    /// The number of variables; ids are smaller.
    pub fn n_vars(&self) -> usize {
        self.vars.len()
    }

    /// The buffer's entry.
    pub fn buffer(&self, b: BufferId) -> &Buffer {
        &self.buffers[b.index()]
    }

    /// The number of buffers; ids are smaller.
    pub fn n_buffers(&self) -> usize {
        self.buffers.len()
    }

    /// Whether all expressions are scalars, made of operators and functions of scalars. Unreachable expressions count
    /// too.
    pub fn is_scalar_only(&self) -> bool {
        !self.beyond_scalars
    }

    /// The first type of less than 8 bits among expressions and buffers.
    pub fn narrow(&self) -> Option<Narrow> {
        let of_buffer = |b: BufferId| match self.buffer(b).dtype {
            DType::Narrow(t) => Some(t),
            _ => None,
        };
        self.narrow.or_else(|| self.buffer_ids().find_map(of_buffer))
    }

    /// Whether an 8-bit float type occurs. Unreachable expressions count too.
    pub fn has_float8(&self) -> bool {
        self.float8
    }

    /// Whether the value is undefined: `T.undef()`, perhaps converted or broadcast.
    pub fn is_undefined(&self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Builtin(Builtin::Undef, _) => true,
            Expr::Cast(a) | Expr::Broadcast(a) => self.is_undefined(a),
            _ => false,
        }
    }

    /// All buffers, used or not, in the order of their creation.
    pub fn buffer_ids(&self) -> impl ExactSizeIterator<Item = BufferId> + use<> {
        (0..self.buffers.len() as u32).map(BufferId)
    }

    /// All variables, used or not, in the order of their creation.
    pub fn var_ids(&self) -> impl ExactSizeIterator<Item = VarId> + use<> {
        (0..self.vars.len() as u32).map(VarId)
    }

    /// The value of an integer or boolean constant.
    pub fn as_int(&self, e: ExprId) -> Option<i64> {
        match self.expr(e) {
            Expr::Int(v) => Some(v),
            _ => None,
        }
    }

    /// The value of a floating-point constant.
    pub fn as_float(&self, e: ExprId) -> Option<f64> {
        match self.expr(e) {
            Expr::Float(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// The value of a constant number.
    pub fn as_const(&self, e: ExprId) -> Option<Const> {
        match self.expr(e) {
            Expr::Int(v) => Some(Const::Int(v)),
            Expr::Float(bits) => Some(Const::Float(f64::from_bits(bits))),
            _ => None,
        }
    }

    /// The variable, if the expression is one.
    pub fn as_var(&self, e: ExprId) -> Option<VarId> {
        match self.expr(e) {
            Expr::Var(v) => Some(v),
            _ => None,
        }
    }

    /// Is the expression this integer constant?
    pub fn is_int(&self, e: ExprId, value: i64) -> bool {
        self.as_int(e) == Some(value)
    }

    /// A superset of the variables in an expression, to decide quickly that a variable does not occur.
    pub fn vars_inside(&self, e: ExprId) -> VarBits {
        self.vars_inside[e.index()]
    }

    /// The buffers that an expression loads from.
    pub fn buffers_inside(&self, e: ExprId) -> BufferBits {
        self.buffers_inside[e.index()]
    }

    /// Calls `f` with each direct operand, in order of evaluation.
    pub fn for_each_child(&self, e: ExprId, f: impl FnMut(ExprId)) {
        self.for_each_operand(self.expr(e), f);
    }

    fn for_each_operand(&self, node: Expr, mut f: impl FnMut(ExprId)) {
        match node {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) | Expr::BufferData(_) => {}
            Expr::Not(a) | Expr::Cast(a) | Expr::Broadcast(a) => f(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) | Expr::Let(_, a, b) | Expr::Ramp(a, b) => {
                f(a);
                f(b);
            }
            Expr::Select(a, b, c) | Expr::IfThenElse(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            Expr::Load(_, list) | Expr::Call(_, list) | Expr::Builtin(_, list) => {
                self.list(list).iter().copied().for_each(f)
            }
            Expr::Shuffle(vectors, indices) => self.list(vectors).iter().chain(self.list(indices)).copied().for_each(f),
        }
    }

    // ---- variables and buffers -----------------------------------------------------------------------------

    /// A new variable; of a scalar type, if `ty` is just that.
    pub fn new_var(&mut self, name: impl Into<Symbol>, ty: impl Into<Ty>) -> VarId {
        let id = VarId(self.vars.len() as u32);
        let Ty { dtype, lanes } = ty.into();
        self.vars.push(Var { name: name.into(), dtype, lanes, pointee: None });
        id
    }

    /// A new variable, and the expression that reads it.
    pub fn new_var_expr(&mut self, name: impl Into<Symbol>, ty: impl Into<Ty>) -> (VarId, ExprId) {
        let v = self.new_var(name, ty);
        (v, self.var_expr(v))
    }

    /// States what a handle points to.
    pub fn set_pointee(&mut self, v: VarId, pointee: Option<Pointee>) {
        self.vars[v.index()].pointee = pointee;
    }

    /// Renames a variable; the name only affects printing.
    pub fn rename_var(&mut self, v: VarId, name: impl Into<Symbol>) {
        self.vars[v.index()].name = name.into();
    }

    /// A new buffer.
    pub fn new_buffer(&mut self, buffer: Buffer) -> BufferId {
        let id = BufferId(self.buffers.len() as u32);
        self.beyond_scalars |= buffer.lanes > 1;
        self.buffers.push(buffer);
        id
    }

    /// Changes a buffer in place. Its element type must stay: expressions that load from it carry it.
    pub fn update_buffer(&mut self, b: BufferId, change: impl FnOnce(&mut Buffer)) {
        let buffer = &mut self.buffers[b.index()];
        let ty = buffer.ty();
        change(buffer);
        assert_eq!(buffer.ty(), ty, "the element type of a buffer is fixed at its creation");
    }

    // ---- interning -----------------------------------------------------------------------------------------

    pub(super) fn intern(&mut self, expr: Expr, ty: impl Into<Ty>) -> ExprId {
        let key = (expr, ty.into());
        let hash = hash_of(&self.hasher, &key);
        let place = Interned::place(hash);
        let is_it = |x: &Interned| x.hash == hash && self.nodes[x.id as usize] == key;
        if let Some(known) = self.node_table.find(place, is_it) {
            return ExprId(known.id);
        }
        let id = self.nodes.len() as u32;
        let mut vars = VarBits::default();
        if let Expr::Var(v) = expr {
            vars.add(v);
        }
        let mut buffers = BufferBits::default();
        if let Expr::Load(b, _) | Expr::BufferData(b) = expr {
            buffers.add(b);
        }
        self.for_each_operand(expr, |c| {
            vars.0 |= self.vars_inside[c.index()].0;
            buffers.0 |= self.buffers_inside[c.index()].0;
        });
        self.float8 |= matches!(key.1.dtype, DType::Float8(_));
        if let DType::Narrow(t) = key.1.dtype {
            self.narrow = Some(t);
        }
        self.beyond_scalars |= key.1.lanes > 1 || matches!(expr, Expr::Builtin(..) | Expr::Shuffle(..));
        self.nodes.push(key);
        self.vars_inside.push(vars);
        self.buffers_inside.push(buffers);
        self.node_table.insert_unique(place, Interned { hash, id }, |x| Interned::place(x.hash));
        ExprId(id)
    }

    /// Interns a list.
    pub fn new_list(&mut self, items: &[ExprId]) -> ExprList {
        let hash = hash_of(&self.hasher, &items);
        let place = Interned::place(hash);
        let is_it = |x: &Interned| x.hash == hash && self.list(ExprList(x.id)) == items;
        if let Some(known) = self.list_table.find(place, is_it) {
            return ExprList(known.id);
        }
        let id = self.lists.len() as u32;
        self.lists.push((self.list_items.len() as u32, items.len() as u32));
        self.list_items.extend_from_slice(items);
        self.list_table.insert_unique(place, Interned { hash, id }, |x| Interned::place(x.hash));
        ExprList(id)
    }

    // ---- leaves --------------------------------------------------------------------------------------------

    /// An integer or boolean constant, wrapped to its type.
    pub fn int(&mut self, value: i64, dtype: DType) -> ExprId {
        assert!(!dtype.is_float(), "an integer constant has no type {dtype}");
        self.intern(Expr::Int(dtype.wrap(value)), dtype)
    }

    /// An `int32` constant.
    pub fn int32(&mut self, value: i64) -> ExprId {
        self.int(value, DType::Int32)
    }

    /// A boolean constant.
    pub fn bool(&mut self, value: bool) -> ExprId {
        self.intern(Expr::Int(value as i64), DType::Bool)
    }

    /// A floating-point constant. -0.0 and 0.0 differ, all NaNs are one.
    pub fn float(&mut self, value: f64, dtype: DType) -> ExprId {
        assert!(dtype.is_float(), "a float constant has no type {dtype}");
        let value = if value.is_nan() { f64::NAN } else { value };
        self.intern(Expr::Float(value.to_bits()), dtype)
    }

    /// `value` as a constant of any numeric type.
    pub fn constant(&mut self, value: i64, dtype: DType) -> ExprId {
        if dtype.is_float() { self.float(value as f64, dtype) } else { self.int(value, dtype) }
    }

    /// A text.
    pub fn str(&mut self, text: impl Into<Symbol>) -> ExprId {
        self.intern(Expr::Str(text.into()), DType::Str)
    }

    /// The value of a variable.
    pub fn var_expr(&mut self, v: VarId) -> ExprId {
        let ty = self.var(v).ty();
        self.intern(Expr::Var(v), ty)
    }

    /// The address of a buffer's memory.
    pub fn buffer_data(&mut self, b: BufferId) -> ExprId {
        self.intern(Expr::BufferData(b), DType::Handle)
    }

    // ---- rebuilding ----------------------------------------------------------------------------------------

    /// The node of `e` with each operand replaced by the result of `f`, built by the folding constructors; `e` itself
    /// if nothing changed.
    pub fn map_children(&mut self, e: ExprId, mut f: impl FnMut(&mut Arena, ExprId) -> ExprId) -> ExprId {
        match self.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Str(_) | Expr::Var(_) | Expr::BufferData(_) => e,
            Expr::Binary(op, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.binary(op, x, y) }
            }
            Expr::Compare(op, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.compare(op, x, y) }
            }
            Expr::Not(a) => {
                let x = f(self, a);
                if x == a { e } else { self.not(x) }
            }
            Expr::Cast(a) => {
                let (x, dtype) = (f(self, a), self.dtype(e));
                if x == a { e } else { self.cast(dtype, x) }
            }
            Expr::Select(c, t, o) => {
                let (x, y, z) = (f(self, c), f(self, t), f(self, o));
                if (x, y, z) == (c, t, o) { e } else { self.select(x, y, z) }
            }
            Expr::IfThenElse(c, t, o) => {
                let (x, y, z) = (f(self, c), f(self, t), f(self, o));
                if (x, y, z) == (c, t, o) { e } else { self.if_then_else(x, y, z) }
            }
            Expr::Load(buffer, list) => {
                let new = self.map_list(list, &mut f);
                if new == list {
                    e
                } else {
                    let indices: smallvec::SmallVec<[ExprId; 8]> = self.list(new).into();
                    self.load(buffer, &indices)
                }
            }
            Expr::Call(function, list) => {
                let new = self.map_list(list, &mut f);
                if new == list {
                    e
                } else {
                    let args: Vec<ExprId> = self.list(new).to_vec();
                    self.call(function, &args)
                }
            }
            Expr::Let(v, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.let_(v, x, y) }
            }
            Expr::Ramp(a, b) => {
                let (x, y, lanes) = (f(self, a), f(self, b), self.lanes(e));
                if (x, y) == (a, b) { e } else { self.ramp(x, y, lanes) }
            }
            Expr::Broadcast(a) => {
                let (x, lanes) = (f(self, a), self.lanes(e));
                if x == a { e } else { self.broadcast(x, lanes) }
            }
            Expr::Shuffle(vectors, indices) => {
                let new = (self.map_list(vectors, &mut f), self.map_list(indices, &mut f));
                if new == (vectors, indices) { e } else { self.intern(Expr::Shuffle(new.0, new.1), self.ty(e)) }
            }
            Expr::Builtin(function, list) => {
                let (new, ty) = (self.map_list(list, &mut f), self.ty(e));
                if new == list { e } else { self.intern(Expr::Builtin(function, new), ty) }
            }
        }
    }

    /// [`Arena::map_children`] without folding, so that an expression stays recognisable after variables were replaced
    /// by constants.
    pub fn map_children_unfolded(&mut self, e: ExprId, mut f: impl FnMut(&mut Arena, ExprId) -> ExprId) -> ExprId {
        match self.expr(e) {
            Expr::Binary(op, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.binary_unfolded(op, x, y) }
            }
            Expr::Compare(op, a, b) => {
                let (x, y) = (f(self, a), f(self, b));
                if (x, y) == (a, b) { e } else { self.compare_unfolded(op, x, y) }
            }
            Expr::Not(a) => {
                let x = f(self, a);
                if x == a { e } else { self.not_unfolded(x) }
            }
            Expr::Cast(a) => {
                let (x, dtype) = (f(self, a), self.dtype(e));
                if x == a { e } else { self.cast_unfolded(dtype, x) }
            }
            _ => self.map_children(e, f),
        }
    }

    /// Maps each item of a list with `f`, and interns the result.
    pub fn map_list(&mut self, list: ExprList, mut f: impl FnMut(&mut Arena, ExprId) -> ExprId) -> ExprList {
        let n = self.list(list).len();
        let mut items = smallvec::SmallVec::<[ExprId; 8]>::with_capacity(n);
        for i in 0..n {
            let item = self.list(list)[i];
            items.push(f(self, item));
        }
        if self.list(list) == &items[..] { list } else { self.new_list(&items) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_expressions_are_one() {
        let mut a = Arena::new();
        let (_, i) = a.new_var_expr("i", DType::Int32);
        let (_, j) = a.new_var_expr("j", DType::Int32);
        let x = a.add(i, j);
        let y = a.add(i, j);
        let z = a.add(j, i);
        assert_eq!(x, y);
        assert_ne!(x, z);
    }

    #[test]
    fn constructors_fold_as_tvm_does() {
        let mut a = Arena::new();
        let (_, i) = a.new_var_expr("i", DType::Int32);
        let (zero, one, seven) = (a.int32(0), a.int32(1), a.int32(-7));
        let two = a.int32(2);
        assert_eq!(a.add(zero, i), i);
        assert_eq!(a.mul(i, one), i);
        assert_eq!(a.mul(i, zero), zero);
        assert_eq!(a.floor_mod(i, one), zero);
        let q = a.floor_div(seven, two);
        assert_eq!(a.as_int(q), Some(-4));
        let r = a.floor_mod(seven, two);
        assert_eq!(a.as_int(r), Some(1));
        let difference = a.sub(i, i);
        assert!(matches!(a.expr(difference), Expr::Binary(BinOp::Sub, _, _)), "not folded: {difference:?}");
        let kept = a.binary(BinOp::FloorDiv, seven, zero);
        assert!(matches!(a.expr(kept), Expr::Binary(BinOp::FloorDiv, _, _)));
        let (t, c) = (a.bool(true), a.lt(i, two));
        assert_eq!(a.and(t, c), c);
    }

    #[test]
    fn float_constants_round_to_their_type() {
        let mut a = Arena::new();
        let x = a.float(0.1, DType::Float32);
        let y = a.float(0.2, DType::Float32);
        let sum = a.add(x, y);
        assert_eq!(a.as_float(sum), Some((0.1f32 + 0.2f32) as f64));
    }
}
