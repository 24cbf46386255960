//! Patterns over expressions, and the [`rules!`] macro that makes rewrite rules of them.
//!
//! A pattern is a value of zero size whose type spells the tree to match, so a rule compiles to the comparisons one
//! would write by hand. Rules read like the identities they are:
//!
//! ```text
//! "add-of-sub":    [(x - y) + y] => x;
//! "scaled-div":    [(x * c1) / c2] => x * (c1 / c2), if c2 > 0 && c1 % c2 == 0;
//! "constant-last": [(x + c1) + y, x + (y + c1)] -> (x + y) + c1;
//! ```
//!
//! `/` and `%` on patterns are floor division and its remainder, [`tdiv`] and [`tmod`] the truncating ones. Lower-case
//! letters stand for any expression (equal letters for equal expressions), `c1`, `c2`, `c3` for integer constants. On
//! the right side and in the condition constants are plain `i128` numbers, so their arithmetic cannot overflow
//! unnoticed: a rule whose result has a constant outside the type's range does not apply. `=>` gives the result as it
//! is, `->` simplifies it again. Alternatives in the brackets are tried in order, each with the condition.

use crate::ir::DType;
use crate::ir::expr::{Arena, Expr, ExprId};
use crate::ir::op::{BinOp, CmpOp};
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Rem, Sub};

/// The kind of a node as one bit, to skip rules that cannot match.
pub(super) fn kind(a: &Arena, e: ExprId) -> u32 {
    match a.expr(e) {
        Expr::Int(_) => INT,
        Expr::Binary(op, _, _) => 1 << (op as u32 + 8),
        Expr::Compare(op, _, _) => 1 << (op as u32 + 20),
        Expr::Not(_) => NOT,
        Expr::Select(..) => SELECT,
        Expr::Float(_)
        | Expr::Str(_)
        | Expr::Var(_)
        | Expr::Cast(_)
        | Expr::IfThenElse(..)
        | Expr::Load(..)
        | Expr::BufferData(_)
        | Expr::Call(..)
        | Expr::Let(..)
        | Expr::Ramp(..)
        | Expr::Broadcast(_)
        | Expr::Shuffle(..)
        | Expr::Builtin(..) => OTHER,
    }
}

const INT: u32 = 1;
const NOT: u32 = 2;
const SELECT: u32 = 4;
const OTHER: u32 = 8;

/// The bindings of a pattern's letters.
#[derive(Clone, Copy)]
pub(super) struct Match {
    vars: [ExprId; 5],
    consts: [i64; 3],
    bound: u8,
    /// The type of constants that the right side makes.
    pub(super) dtype: DType,
}

impl Match {
    /// Nothing matched yet; constants are of type `dtype`.
    pub(super) fn new(dtype: DType) -> Self {
        Match { vars: [ExprId(0); 5], consts: [0; 3], bound: 0, dtype }
    }

    /// Removes all bindings.
    pub(super) fn clear(&mut self) {
        self.bound = 0;
    }

    /// The constant that stands at `index`, 0 if its letter does not occur.
    pub(super) fn constant(&self, index: usize) -> i128 {
        if self.bound & (1 << (index + 5)) != 0 { self.consts[index] as i128 } else { 0 }
    }
}

/// A tree to match, and to build.
pub(super) trait Pat: Copy {
    /// The kinds of nodes that the pattern can match.
    const KINDS: u32;

    /// Whether the pattern can match a node whose operands have these kinds.
    fn operands_fit(left: u32, right: u32) -> bool {
        let _ = (left, right);
        true
    }

    /// Whether the pattern matches `e`. Letters that occur for the first time are bound.
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool;

    /// The expression that the pattern stands for, built by the folding constructors; `None` if a constant is out of
    /// range.
    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId>;
}

/// Values that can be used as patterns.
pub(super) trait IntoPat {
    /// The pattern.
    type Pat: Pat;
    /// The pattern.
    fn pat(self) -> Self::Pat;
}

/// Any expression.
#[derive(Clone, Copy)]
pub(super) struct V<const N: usize>;

/// Any integer constant.
#[derive(Clone, Copy)]
pub(super) struct C<const N: usize>;

/// One integer constant.
#[derive(Clone, Copy)]
pub(super) struct Lit(i128);

/// One boolean.
#[derive(Clone, Copy)]
pub(super) struct Truth(pub(super) bool);

/// A given expression.
#[derive(Clone, Copy)]
pub(super) struct E(pub(super) ExprId);

/// A binary operator.
#[derive(Clone, Copy)]
pub(super) struct Bin<K, A, B>(A, B, PhantomData<K>);

/// A comparison.
#[derive(Clone, Copy)]
pub(super) struct Cmp<K, A, B>(A, B, PhantomData<K>);

/// A negation.
#[derive(Clone, Copy)]
pub(super) struct Neg<A>(A);

/// A select.
#[derive(Clone, Copy)]
pub(super) struct Sel<A, B, D>(A, B, D);

impl<const N: usize> Pat for V<N> {
    const KINDS: u32 = u32::MAX;

    #[inline(always)]
    fn matches(self, _: &Arena, e: ExprId, m: &mut Match) -> bool {
        if m.bound & (1 << N) != 0 {
            return m.vars[N] == e;
        }
        m.bound |= 1 << N;
        m.vars[N] = e;
        true
    }

    #[inline(always)]
    fn build(self, _: &mut Arena, m: &Match) -> Option<ExprId> {
        Some(m.vars[N])
    }
}

impl<const N: usize> Pat for C<N> {
    const KINDS: u32 = INT;

    #[inline(always)]
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool {
        let Some(value) = a.as_int(e) else { return false };
        if m.bound & (1 << (N + 5)) != 0 {
            return m.consts[N] == value;
        }
        m.bound |= 1 << (N + 5);
        m.consts[N] = value;
        m.dtype = a.dtype(e);
        true
    }

    #[inline(always)]
    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId> {
        Some(a.int(m.consts[N], m.dtype))
    }
}

impl Pat for Lit {
    const KINDS: u32 = INT;

    #[inline(always)]
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool {
        let hit = a.as_int(e).is_some_and(|v| v as i128 == self.0);
        if hit {
            m.dtype = a.dtype(e);
        }
        hit
    }

    #[inline(always)]
    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId> {
        let value = i64::try_from(self.0).ok()?;
        fits(value, m.dtype).then(|| a.int(value, m.dtype))
    }
}

impl Pat for Truth {
    const KINDS: u32 = INT;

    fn matches(self, a: &Arena, e: ExprId, _: &mut Match) -> bool {
        a.dtype(e) == DType::Bool && a.is_int(e, self.0 as i64)
    }

    fn build(self, a: &mut Arena, _: &Match) -> Option<ExprId> {
        Some(a.bool(self.0))
    }
}

impl Pat for E {
    const KINDS: u32 = u32::MAX;

    fn matches(self, _: &Arena, e: ExprId, _: &mut Match) -> bool {
        e == self.0
    }

    fn build(self, _: &mut Arena, _: &Match) -> Option<ExprId> {
        Some(self.0)
    }
}

impl<K: BinKind, A: Pat, B: Pat> Pat for Bin<K, A, B> {
    const KINDS: u32 = 1 << (K::OP as u32 + 8);

    #[inline(always)]
    fn operands_fit(left: u32, right: u32) -> bool {
        A::KINDS & left != 0 && B::KINDS & right != 0
    }

    #[inline(always)]
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool {
        match a.expr(e) {
            Expr::Binary(op, l, r) if op == K::OP => self.0.matches(a, l, m) && self.1.matches(a, r, m),
            _ => false,
        }
    }

    #[inline(always)]
    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId> {
        let l = self.0.build(a, m)?;
        let r = self.1.build(a, m)?;
        Some(a.binary(K::OP, l, r))
    }
}

impl<K: CmpKind, A: Pat, B: Pat> Pat for Cmp<K, A, B> {
    const KINDS: u32 = 1 << (K::OP as u32 + 20);

    #[inline(always)]
    fn operands_fit(left: u32, right: u32) -> bool {
        A::KINDS & left != 0 && B::KINDS & right != 0
    }

    #[inline(always)]
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool {
        match a.expr(e) {
            Expr::Compare(op, l, r) if op == K::OP => self.0.matches(a, l, m) && self.1.matches(a, r, m),
            _ => false,
        }
    }

    #[inline(always)]
    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId> {
        let l = self.0.build(a, m)?;
        let r = self.1.build(a, m)?;
        Some(a.compare(K::OP, l, r))
    }
}

impl<A: Pat> Pat for Neg<A> {
    const KINDS: u32 = NOT;

    #[inline(always)]
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool {
        matches!(a.expr(e), Expr::Not(x) if self.0.matches(a, x, m))
    }

    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId> {
        let x = self.0.build(a, m)?;
        Some(a.not(x))
    }
}

impl<A: Pat, B: Pat, D: Pat> Pat for Sel<A, B, D> {
    const KINDS: u32 = SELECT;

    #[inline(always)]
    fn matches(self, a: &Arena, e: ExprId, m: &mut Match) -> bool {
        match a.expr(e) {
            Expr::Select(c, t, o) => self.0.matches(a, c, m) && self.1.matches(a, t, m) && self.2.matches(a, o, m),
            _ => false,
        }
    }

    fn build(self, a: &mut Arena, m: &Match) -> Option<ExprId> {
        let c = self.0.build(a, m)?;
        let t = self.1.build(a, m)?;
        let o = self.2.build(a, m)?;
        Some(a.select(c, t, o))
    }
}

impl<P: Pat> IntoPat for P {
    type Pat = P;

    #[inline(always)]
    fn pat(self) -> P {
        self
    }
}

impl IntoPat for i128 {
    type Pat = Lit;

    #[inline(always)]
    fn pat(self) -> Lit {
        Lit(self)
    }
}

impl IntoPat for i32 {
    type Pat = Lit;

    #[inline(always)]
    fn pat(self) -> Lit {
        Lit(self as i128)
    }
}

/// Whether an integer type can represent the value.
pub(super) fn fits(value: i64, dtype: DType) -> bool {
    dtype.wrap(value) == value
}

/// A binary operator as a type.
pub(super) trait BinKind: Copy {
    /// The operator.
    const OP: BinOp;
}

/// A comparison as a type.
pub(super) trait CmpKind: Copy {
    /// The comparison.
    const OP: CmpOp;
}

macro_rules! kinds {
    ($trait:ident: $($name:ident = $op:expr;)*) => {
        $(
            #[derive(Clone, Copy)]
            pub(super) struct $name;
            impl $trait for $name {
                const OP: <Self as OpOf>::Op = $op;
            }
        )*
    };
}

/// Names the operator type of a kind, for the macro above.
pub(super) trait OpOf {
    /// The operator type.
    type Op;
}

macro_rules! op_of {
    ($op:ty: $($name:ident)*) => { $(impl OpOf for $name { type Op = $op; })* };
}

op_of!(BinOp: KAdd KSub KMul KDiv KMod KFloorDiv KFloorMod KMin KMax KAnd KOr);
op_of!(CmpOp: KEq KNe KLt KLe KGt KGe);

kinds! { BinKind:
    KAdd = BinOp::Add;
    KSub = BinOp::Sub;
    KMul = BinOp::Mul;
    KDiv = BinOp::Div;
    KMod = BinOp::Mod;
    KFloorDiv = BinOp::FloorDiv;
    KFloorMod = BinOp::FloorMod;
    KMin = BinOp::Min;
    KMax = BinOp::Max;
    KAnd = BinOp::And;
    KOr = BinOp::Or;
}
kinds! { CmpKind:
    KEq = CmpOp::Eq;
    KNe = CmpOp::Ne;
    KLt = CmpOp::Lt;
    KLe = CmpOp::Le;
    KGt = CmpOp::Gt;
    KGe = CmpOp::Ge;
}

macro_rules! operators {
    ($([$($generics:tt)*] $ty:ty;)*) => {
        $(
            operators!(@one [$($generics)*] $ty, Add add KAdd);
            operators!(@one [$($generics)*] $ty, Sub sub KSub);
            operators!(@one [$($generics)*] $ty, Mul mul KMul);
            operators!(@one [$($generics)*] $ty, Div div KFloorDiv);
            operators!(@one [$($generics)*] $ty, Rem rem KFloorMod);
        )*
    };
    (@one [$($generics:tt)*] $ty:ty, $trait:ident $method:ident $kind:ident) => {
        impl<$($generics)* Right: IntoPat> $trait<Right> for $ty {
            type Output = Bin<$kind, $ty, Right::Pat>;

            #[inline(always)]
            fn $method(self, right: Right) -> Self::Output {
                Bin(self, right.pat(), PhantomData)
            }
        }
        impl<$($generics)*> $trait<$ty> for i128 {
            type Output = Bin<$kind, Lit, $ty>;

            #[inline(always)]
            fn $method(self, right: $ty) -> Self::Output {
                Bin(Lit(self), right, PhantomData)
            }
        }
    };
}

operators! {
    [const N: usize,] V<N>;
    [const N: usize,] C<N>;
    [K: BinKind, A: Pat, B: Pat,] Bin<K, A, B>;
    [A: Pat, B: Pat, D: Pat,] Sel<A, B, D>;
    [] E;
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $node:ident $kind:ident;)*) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub(super) fn $name<A: IntoPat, B: IntoPat>(a: A, b: B) -> $node<$kind, A::Pat, B::Pat> {
                $node(a.pat(), b.pat(), PhantomData)
            }
        )*
    };
}

functions! {
    /// The quotient rounded towards zero.
    tdiv = Bin KDiv;
    /// The remainder of [`tdiv`].
    tmod = Bin KMod;
    /// The minimum.
    min = Bin KMin;
    /// The maximum.
    max = Bin KMax;
    /// Conjunction.
    and = Bin KAnd;
    /// Disjunction.
    or = Bin KOr;
    /// Equality.
    eq = Cmp KEq;
    /// Inequality.
    ne = Cmp KNe;
    /// Less than.
    lt = Cmp KLt;
    /// At most.
    le = Cmp KLe;
    /// Greater than.
    gt = Cmp KGt;
    /// At least.
    ge = Cmp KGe;
}

/// Negation.
#[inline(always)]
pub(super) fn not<A: IntoPat>(a: A) -> Neg<A::Pat> {
    Neg(a.pat())
}

/// `T.Select`.
#[inline(always)]
pub(super) fn select<A: IntoPat, B: IntoPat, D: IntoPat>(c: A, t: B, o: D) -> Sel<A::Pat, B::Pat, D::Pat> {
    Sel(c.pat(), t.pat(), o.pat())
}

/// Rounded towards minus infinity; 0 for a zero divisor (conditions exclude it).
pub(super) fn floor_div(x: i128, y: i128) -> i128 {
    if y == 0 {
        return 0;
    }
    let q = x / y;
    if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q }
}

/// The remainder of [`floor_div`]; 0 for a zero divisor.
pub(super) fn floor_mod(x: i128, y: i128) -> i128 {
    if y == 0 { 0 } else { x - floor_div(x, y) * y }
}

/// Whether `y` is not zero and divides `x`.
pub(super) fn divides(y: i128, x: i128) -> bool {
    y != 0 && x % y == 0
}

/// Tries rules in order on the expression `e` of the simplifier `s`, and returns from the enclosing function with the
/// result of the first that applies. The brackets name the letters: five for expressions, three for constants, and
/// the [`Match`].
macro_rules! rules {
    ($s:ident, $e:ident, $v:tt $c:tt $m:ident;
     $($name:literal: $lhs:tt $arrow:tt $rhs:expr $(, if $cond:expr)?;)*) => {{
        #[allow(unused_imports, reason = "not every table of rules uses every operator")]
        use crate::arith::pattern::*;
        let (left, right) = match $s.arena.expr($e) {
            crate::ir::expr::Expr::Binary(_, l, r) | crate::ir::expr::Expr::Compare(_, l, r) => {
                (kind($s.arena, l), kind($s.arena, r))
            }
            _ => (u32::MAX, u32::MAX),
        };
        let mut $m = Match::new($s.operand_dtype($e));
        $(rules!(@alternatives ($s $e left right $m $v $c) $name $lhs $arrow (($rhs) ($($cond)?)));)*
    }};
    (@alternatives $cx:tt $name:literal [$($lhs:expr),+ $(,)?] $arrow:tt $tail:tt) => {
        $(rules!(@try $cx $name ($lhs) $arrow $tail);)+
    };
    (@try ($s:ident $e:ident $left:ident $right:ident $m:ident
           [$x:ident $y:ident $z:ident $u:ident $w:ident] [$c1:ident $c2:ident $c3:ident])
     $name:literal ($lhs:expr) $arrow:tt (($rhs:expr) ($($cond:expr)?))) => {
        #[allow(unused_variables, clippy::eq_op, reason = "letters may be unused, and used twice")]
        {
            let pattern = {
                let ($x, $y, $z, $u, $w) = (V::<0>, V::<1>, V::<2>, V::<3>, V::<4>);
                let ($c1, $c2, $c3) = (C::<0>, C::<1>, C::<2>);
                $lhs
            };
            if operands_fit(&pattern, $left, $right) {
                $m.clear();
                if pattern.matches($s.arena, $e, &mut $m) {
                    let ($x, $y, $z, $u, $w) = (V::<0>, V::<1>, V::<2>, V::<3>, V::<4>);
                    let ($c1, $c2, $c3) = ($m.constant(0), $m.constant(1), $m.constant(2));
                    if true $(&& $cond)?
                        && let Some(result) = build($rhs, $s.arena, &$m)
                    {
                        $s.applied($name);
                        return rules!(@finish $s, result, $arrow);
                    }
                }
            }
        }
    };
    (@finish $s:ident, $result:ident, =>) => { $result };
    (@finish $s:ident, $result:ident, ->) => { $s.again($result) };
}
pub(super) use rules;

/// The expression that a right side stands for.
#[inline(always)]
pub(super) fn build(right: impl IntoPat, a: &mut Arena, m: &Match) -> Option<ExprId> {
    right.pat().build(a, m)
}

/// [`Pat::operands_fit`] of the type of a pattern.
#[inline(always)]
pub(super) fn operands_fit<P: Pat>(_: &P, left: u32, right: u32) -> bool {
    P::operands_fit(left, right)
}
