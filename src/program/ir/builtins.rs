//! Definitions of builtins in terms of operators and functions of scalars.
//!
//! Most named functions of TVM, and the simple ones of C and LLVM, are abbreviations of other expressions. [`definition`]
//! returns that expression; it is the definition for both the interpreter and lowering:
//!
//! * the functions of C's mathematics library on arguments of their type (`expf` on `float32`, `exp` on `float64`);
//! * similar LLVM intrinsics, integer intrinsics of LLVM (`ctpop`, `smax`, `sadd.sat`, …), and the dot products of x86
//!   (`pmaddubs`, `pmaddw`, `vpdpbusd`, …) and Arm (`sdot`, `udot`, `usdot`, and `smull`, `saddlp`, `addp`, which
//!   compute one in steps);
//! * TVM's fixed-point products, `ldexp`, and the halves of vectors;
//! * the packed functions that sort, which [`sorting`](super::sorting) rewrites as statements.
//!
//! Barriers of GPU threads are replaced too ([`barriers`](super::barriers)). The remaining builtins are reinterpretations of bits and unknown functions.

use super::barriers::without_barriers;
use super::dtype::{DType, Ty};
use super::expr::{Arena, Expr, ExprId};
use super::func::Func;
use super::op::{BinOp, Builtin, CmpOp, Intrinsic};
use super::visit::{Rewriter, walk_rewrite};
use hashbrown::HashMap;
use std::borrow::Cow;

impl Func {
    /// The function with every builtin replaced by its definition, if that is known; the function itself if it has no
    /// builtin.
    pub fn with_builtins_expanded(&self) -> Cow<'_, Func> {
        if self.arena.is_scalar_only() {
            return Cow::Borrowed(self);
        }
        // A barrier that cannot be replaced stays, for the error of who runs it.
        let mut func = without_barriers(self).ok().flatten().unwrap_or_else(|| self.clone());
        func.rewrite_subtree(func.root.stmt(), &mut Expansion::default());
        super::sorting::write_out(&mut func);
        Cow::Owned(func)
    }
}

/// The rewriter that replaces builtins.
#[derive(Default)]
struct Expansion {
    done: HashMap<ExprId, ExprId>,
}

impl Rewriter for Expansion {
    fn rewrite_expr(&mut self, arena: &mut Arena, e: ExprId) -> ExprId {
        if let Some(&known) = self.done.get(&e) {
            return known;
        }
        let mut new = walk_rewrite(self, arena, e);
        if let Expr::Builtin(function, args) = arena.expr(new) {
            let (args, ty) = (arena.list(args).to_vec(), arena.ty(new));
            new = definition(arena, function, &args, ty).unwrap_or(new);
        }
        self.done.insert(e, new);
        new
    }
}

/// The definition of a call; `None` for functions without one.
pub(crate) fn definition(a: &mut Arena, function: Builtin, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    match function {
        Builtin::VectorLow => Some(every(a, args[0], 0, 1, ty.lanes)),
        Builtin::VectorHigh => Some(every(a, args[0], ty.lanes, 1, ty.lanes)),
        Builtin::VectorCombine => {
            let indices: Vec<ExprId> = (0..i64::from(ty.lanes)).map(|i| a.int32(i)).collect();
            Some(a.shuffle(args, &indices))
        }
        Builtin::QMultiplyShift => {
            let &[x, y, q, s] = args else { return None };
            let zero = like(a, s, 0);
            let to_left = a.compare(CmpOp::Gt, s, zero);
            let minus = a.sub(zero, s);
            let (left, right) = (a.select(to_left, s, zero), a.select(to_left, zero, minus));
            Some(fixed_product(a, x, y, q, left, right, to_left))
        }
        Builtin::QMultiplyShiftPerAxis => {
            let &[x, y, left, right, q, shifts_left, _] = args else { return None };
            let shifts_left = truth(a, shifts_left);
            Some(fixed_product(a, x, y, q, left, right, shifts_left))
        }
        Builtin::Ldexp => Some(ldexp(a, args[0], args[1])),
        Builtin::IgnoreLoopPartition => Some(args[0]),
        Builtin::CallExtern | Builtin::CallPureExtern => {
            let Expr::Str(name) = a.expr(args[0]) else { return None };
            c_function(a, name.as_str(), &args[1..], ty)
        }
        Builtin::CallLlvmIntrin | Builtin::CallLlvmPureIntrin => {
            let Expr::Str(name) = a.expr(args[0]) else { return None };
            llvm_intrinsic(a, name.as_str(), &args[1..], ty)
        }
        Builtin::Reinterpret
        | Builtin::Undef
        | Builtin::CallPacked
        | Builtin::CallCPacked
        | Builtin::AddressOf
        | Builtin::AccessPtr
        | Builtin::TypeAnnotation
        | Builtin::StackMakeArray
        | Builtin::StackMakeShape
        | Builtin::IsNullPtr
        | Builtin::StorageSync
        | Builtin::StartProfile
        | Builtin::EndProfile
        | Builtin::CallModule
        | Builtin::WholeBuffer
        | Builtin::PointerType
        | Builtin::MaskedLoad
        | Builtin::MaskedStore
        | Builtin::AddByteOffset
        | Builtin::PtrByteOffset
        | Builtin::Tuple
        | Builtin::LookupParam
        | Builtin::AnyListGet
        | Builtin::AnyListReset
        | Builtin::AnyListSetPacked
        | Builtin::AnyListSetCPacked
        | Builtin::CallPackedLowered
        | Builtin::CallCPackedLowered
        | Builtin::StackAlloca
        | Builtin::StructGet
        | Builtin::StructSet
        | Builtin::ThrowLastError
        | Builtin::AllocWorkspace
        | Builtin::FreeWorkspace => None,
    }
}

// ---- pieces ------------------------------------------------------------------------------------------------------

/// `value` in each lane of an expression's type.
fn like(a: &mut Arena, e: ExprId, value: i64) -> ExprId {
    let ty = a.ty(e);
    let scalar = a.constant(value, ty.dtype);
    a.broadcast(scalar, ty.lanes)
}

/// A condition from a boolean or an integer.
fn truth(a: &mut Arena, e: ExprId) -> ExprId {
    if a.dtype(e) == DType::Bool {
        return e;
    }
    let zero = like(a, e, 0);
    a.compare(CmpOp::Ne, e, zero)
}

/// The lanes `first`, `first + step`, … of a vector.
fn every(a: &mut Arena, vector: ExprId, first: u16, step: u16, lanes: u16) -> ExprId {
    let indices: Vec<ExprId> = (0..lanes).map(|i| a.int32(i64::from(first) + i64::from(i) * i64::from(step))).collect();
    a.shuffle(&[vector], &indices)
}

/// `value` clamped to `lo .. hi`, both included.
fn clamp(a: &mut Arena, value: ExprId, lo: i64, hi: i64) -> ExprId {
    let (lo, hi) = (like(a, value, lo), like(a, value, hi));
    let value = a.max(value, lo);
    a.min(value, hi)
}

/// The bits of a vector as another type of equally many bits.
fn reinterpret(a: &mut Arena, value: ExprId, ty: Ty) -> ExprId {
    if a.ty(value) == ty { value } else { a.builtin(Builtin::Reinterpret, &[value], ty) }
}

// ---- TVM's functions ---------------------------------------------------------------------------------------------

/// `(x << left) * y` rounded at `q + right` bits, halves up.
fn fixed_product(
    a: &mut Arena,
    x: ExprId,
    y: ExprId,
    q: ExprId,
    left: ExprId,
    right: ExprId,
    shifts_left: ExprId,
) -> ExprId {
    let wide = |a: &mut Arena, e| a.cast(DType::Int64, e);
    let (x, y, left) = (wide(a, x), wide(a, y), wide(a, left));
    let shifted = a.call(Intrinsic::ShiftLeft, &[x, left]);
    let x = a.select(shifts_left, shifted, x);
    let product = a.mul(x, y);
    let total = a.add(right, q);
    let total = wide(a, total);
    let one = like(a, total, 1);
    let half = a.sub(total, one);
    let half = a.call(Intrinsic::ShiftLeft, &[one, half]);
    let rounded = a.add(product, half);
    let result = a.call(Intrinsic::ShiftRight, &[rounded, total]);
    a.cast(DType::Int32, result)
}

/// `x * 2^n`, rounded once. A power of two that is too small for one factor is applied in two steps, the first of which
/// keeps all digits.
fn ldexp(a: &mut Arena, x: ExprId, n: ExprId) -> ExprId {
    let ty = a.ty(x);
    let mut n = a.cast(DType::Int64, n);
    let mut y = a.cast(DType::Float64, x);
    for _ in 0..3 {
        let (lo, hi) = (like(a, n, -1022), like(a, n, 1023));
        let too_small = a.compare(CmpOp::Lt, n, lo);
        let step = like(a, n, -969);
        let within = a.min(n, hi);
        // In the last round the remaining exponent is 0, or the result no longer changes.
        let step = a.select(too_small, step, within);
        let biased = like(a, step, 1023);
        let biased = a.add(step, biased);
        let places = like(a, step, 52);
        let bits = a.call(Intrinsic::ShiftLeft, &[biased, places]);
        let factor = reinterpret(a, bits, ty.with_dtype(DType::Float64));
        y = a.mul(y, factor);
        n = a.sub(n, step);
    }
    a.cast(ty.dtype, y)
}

// ---- C -----------------------------------------------------------------------------------------------------------

/// A function of `math.h`: its name ends in `f` for `float32`.
fn c_function(a: &mut Arena, name: &str, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    if name == "abs" && args.len() == 1 && a.ty(args[0]) == ty && ty.dtype == DType::Int32 {
        return Some(a.call(Intrinsic::Abs, args));
    }
    let (name, dtype) = match name.strip_suffix('f') {
        Some(base) if !is_c_function(name) => (base, DType::Float32),
        _ => (name, DType::Float64),
    };
    if ty.dtype != dtype {
        return None;
    }
    if name == "ldexp" {
        let &[x, n] = args else { return None };
        let fits = a.ty(x) == ty && a.dtype(n) == DType::Int32;
        return fits.then(|| ldexp(a, x, n));
    }
    float_function(a, name, args, ty)
}

fn is_c_function(name: &str) -> bool {
    matches!(name, "ldexp" | "fmin" | "fmax" | "round") || float_intrinsic(name).is_some()
}

/// The scalar function with this name in C and LLVM.
fn float_intrinsic(name: &str) -> Option<Intrinsic> {
    match name {
        "fabs" => Some(Intrinsic::Abs),
        "rint" | "roundeven" => Some(Intrinsic::NearbyInt),
        "exp" | "exp2" | "exp10" | "log" | "log2" | "log10" | "log1p" | "sqrt" | "tanh" | "sin" | "cos" | "tan"
        | "asin" | "acos" | "atan" | "sinh" | "cosh" | "asinh" | "acosh" | "atanh" | "atan2" | "erf" | "pow"
        | "fmod" | "hypot" | "copysign" | "fma" | "floor" | "ceil" | "trunc" | "nearbyint" | "nextafter" => {
            Intrinsic::from_name(name)
        }
        _ => None,
    }
}

/// A function of floats whose arguments have the type of the result.
fn float_function(a: &mut Arena, name: &str, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    if !ty.dtype.is_float() || args.iter().any(|&x| a.ty(x) != ty) {
        return None;
    }
    if let Some(function) = float_intrinsic(name) {
        return (args.len() == function.arity()).then(|| a.call(function, args));
    }
    match (name, args) {
        // Round halves away from zero.
        ("round", &[x]) => {
            let whole = a.call(Intrinsic::Trunc, &[x]);
            let rest = a.sub(x, whole);
            let rest = a.call(Intrinsic::Abs, &[rest]);
            let half = a.float(0.5, ty.dtype);
            let half = a.broadcast(half, ty.lanes);
            let one = like(a, x, 1);
            let one = a.call(Intrinsic::CopySign, &[one, x]);
            let next = a.add(whole, one);
            let up = a.compare(CmpOp::Ge, rest, half);
            Some(a.select(up, next, whole))
        }
        // If one operand is a NaN, the result is the other one.
        ("fmin" | "fmax" | "minnum" | "maxnum", &[x, y]) => {
            let op = if name.contains("min") { BinOp::Min } else { BinOp::Max };
            let (no_x, no_y) = (a.call(Intrinsic::IsNan, &[x]), a.call(Intrinsic::IsNan, &[y]));
            let both = a.binary(op, x, y);
            let numbers = a.select(no_y, x, both);
            Some(a.select(no_x, y, numbers))
        }
        ("fmuladd", &[x, y, z]) => {
            let product = a.mul(x, y);
            Some(a.add(product, z))
        }
        _ => None,
    }
}

// ---- LLVM --------------------------------------------------------------------------------------------------------

/// An intrinsic of LLVM, whose name may end in type suffixes.
fn llvm_intrinsic(a: &mut Arena, name: &str, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    let mut name = name.strip_prefix("llvm.")?;
    let arch = ["x86.", "aarch64.", "arm."].into_iter().find_map(|arch| name.strip_prefix(arch));
    if let Some(name) = arch {
        return dot_product(a, name, args, ty).or_else(|| arm_step(a, name, args, ty));
    }
    while let Some((base, suffix)) = name.rsplit_once('.') {
        if !is_type_suffix(suffix) {
            break;
        }
        name = base;
    }
    if let Some(value) = float_function(a, name, args, ty) {
        return Some(value);
    }
    // Older programs state the number of arguments of the signature.
    if let [count, rest @ ..] = args
        && a.dtype(*count) == DType::UInt32
        && a.as_int(*count).is_some()
        && let Some(value) = float_function(a, name, rest, ty).or_else(|| int_function(a, name, rest, ty))
    {
        return Some(value);
    }
    int_function(a, name, args, ty)
}

/// Whether the suffix names a type: `f32`, `i8`, `v4f32`, `nxv4i32`.
fn is_type_suffix(suffix: &str) -> bool {
    let scalar = suffix.strip_prefix('v').map_or(suffix, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    scalar == "bf16" || scalar.strip_prefix(['f', 'i']).is_some_and(digits)
}

fn int_function(a: &mut Arena, name: &str, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    let first = *args.first()?;
    if !ty.dtype.is_integer() || a.ty(first) != ty {
        return None;
    }
    match (name, args) {
        ("ctpop", &[x]) => Some(a.call(Intrinsic::PopCount, &[x])),
        ("ctlz", &[x] | &[x, _]) => {
            let zeros = a.call(Intrinsic::Clz, &[x]);
            Some(a.cast(ty.dtype, zeros))
        }
        ("cttz", &[x] | &[x, _]) => {
            // The bits below the lowest set bit.
            let (zero, one) = (like(a, x, 0), like(a, x, 1));
            let minus = a.sub(zero, x);
            let lowest = a.call(Intrinsic::BitAnd, &[x, minus]);
            let below = a.sub(lowest, one);
            Some(a.call(Intrinsic::PopCount, &[below]))
        }
        ("abs", &[x] | &[x, _]) if ty.dtype.is_int() => Some(a.call(Intrinsic::Abs, &[x])),
        ("smax" | "smin" | "umax" | "umin", &[x, y]) if a.ty(y) == ty => {
            let op = if name.ends_with("max") { BinOp::Max } else { BinOp::Min };
            let as_type = with_sign(ty.dtype, name.starts_with('s'));
            let (x, y) = (a.cast(as_type, x), a.cast(as_type, y));
            let value = a.binary(op, x, y);
            Some(a.cast(ty.dtype, value))
        }
        ("sadd.sat" | "ssub.sat" | "uadd.sat" | "usub.sat", &[x, y]) if a.ty(y) == ty && ty.dtype.bytes() < 8 => {
            let as_type = with_sign(ty.dtype, name.starts_with('s'));
            let wide = |a: &mut Arena, e| {
                let e = a.cast(as_type, e);
                a.cast(DType::Int64, e)
            };
            let (x, y) = (wide(a, x), wide(a, y));
            let sum = if name.contains("add") { a.add(x, y) } else { a.sub(x, y) };
            let (lo, hi) = (as_type.min_value().ok()?, as_type.max_value().ok()?);
            let sum = clamp(a, sum, lo, hi);
            Some(a.cast(ty.dtype, sum))
        }
        _ => None,
    }
}

/// The integer type of the same size with or without a sign.
fn with_sign(dtype: DType, signed: bool) -> DType {
    match (dtype.bytes(), signed) {
        (1, true) => DType::Int8,
        (1, false) => DType::UInt8,
        (2, true) => DType::Int16,
        (2, false) => DType::UInt16,
        (4, true) => DType::Int32,
        (4, false) => DType::UInt32,
        (_, true) => DType::Int64,
        (_, false) => DType::UInt64,
    }
}

/// Sums of products of adjacent lanes.
struct DotProduct {
    /// Number of products in the sum of one lane.
    terms: u16,
    /// Types of the factors.
    factors: (DType, DType),
    /// Whether the first argument is added to the sum.
    accumulates: bool,
    /// Whether the sum saturates instead of wrapping around.
    saturates: bool,
}

fn dot_product(a: &mut Arena, name: &str, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    use DType::{Int8, Int16, UInt8};
    let is = |start: &str| name.starts_with(start);
    let dot = |terms, factors, accumulates, saturates| DotProduct { terms, factors, accumulates, saturates };
    let dot = if is("avx512.pmaddubs.w.") || is("avx2.pmadd.ub.sw") || is("ssse3.pmadd.ub.sw") {
        dot(2, (UInt8, Int8), false, true)
    } else if is("avx512.pmaddw.d.") || is("avx2.pmadd.wd") || is("sse2.pmadd.wd") {
        dot(2, (Int16, Int16), false, false)
    } else if is("avx512.vpdpbusds.") {
        dot(4, (UInt8, Int8), true, true)
    } else if is("avx512.vpdpbusd.") {
        dot(4, (UInt8, Int8), true, false)
    } else if is("avx512.vpdpwssds.") {
        dot(2, (Int16, Int16), true, true)
    } else if is("avx512.vpdpwssd.") {
        dot(2, (Int16, Int16), true, false)
    } else if is("neon.sdot") {
        dot(4, (Int8, Int8), true, false)
    } else if is("neon.udot") {
        dot(4, (UInt8, UInt8), true, false)
    } else if is("neon.usdot") {
        dot(4, (UInt8, Int8), true, false)
    } else {
        return None;
    };
    let n = 2 + usize::from(dot.accumulates);
    // Older programs state the number of arguments of the signature.
    let args = match args {
        [count, rest @ ..] if rest.len() == n && a.dtype(*count) == DType::UInt32 => rest,
        args => args,
    };
    let (sum, x, y) = match (args, dot.accumulates) {
        (&[sum, x, y], true) if a.ty(sum).with_dtype(ty.dtype) == ty => (Some(sum), x, y),
        (&[x, y], false) => (None, x, y),
        _ => return None,
    };
    let lanes = ty.lanes.checked_mul(dot.terms)?;
    let (tx, ty_y) = (Ty::vector(dot.factors.0, lanes), Ty::vector(dot.factors.1, lanes));
    let sizes_fit = a.ty(x).bytes() == tx.bytes() && a.ty(y).bytes() == ty_y.bytes() && ty.dtype.is_integer();
    if !sizes_fit || ty.dtype.bytes() != tx.dtype.bytes() * usize::from(dot.terms) {
        return None;
    }
    let (x, y) = (reinterpret(a, x, tx), reinterpret(a, y, ty_y));
    let wide = if dot.saturates { DType::Int64 } else { ty.dtype };
    let mut total = sum.map(|s| a.cast(wide, s));
    for q in 0..dot.terms {
        let (p, r) = (every(a, x, q, dot.terms, ty.lanes), every(a, y, q, dot.terms, ty.lanes));
        let (p, r) = (a.cast(wide, p), a.cast(wide, r));
        let product = a.mul(p, r);
        total = Some(match total {
            None => product,
            Some(total) => a.add(total, product),
        });
    }
    let total = total?;
    Some(match (dot.saturates, ty.dtype.min_value(), ty.dtype.max_value()) {
        (true, Ok(lo), Ok(hi)) => {
            let total = clamp(a, total, lo, hi);
            a.cast(ty.dtype, total)
        }
        _ => total,
    })
}

/// A step of a dot product on Arm: products of twice the width, or sums of adjacent lanes.
fn arm_step(a: &mut Arena, name: &str, args: &[ExprId], ty: Ty) -> Option<ExprId> {
    let name = name.strip_prefix("neon.")?;
    let base = name.split('.').next()?;
    // Sums of adjacent lanes of one vector, or of two concatenated vectors.
    let neighbours = |a: &mut Arena, vectors: &[ExprId]| {
        let mut half = |first: i64| {
            let indices: Vec<ExprId> = (0..i64::from(ty.lanes)).map(|i| a.int32(first + 2 * i)).collect();
            let lanes = a.shuffle(vectors, &indices);
            a.cast(ty.dtype, lanes)
        };
        let (even, odd) = (half(0), half(1));
        a.add(even, odd)
    };
    let is_signed = base.starts_with('s');
    let twice = |narrow: Ty| {
        let fits = narrow.dtype.is_integer() && 2 * narrow.dtype.bytes() == ty.dtype.bytes() && ty.dtype.is_integer();
        fits && with_sign(narrow.dtype, is_signed) == narrow.dtype && with_sign(ty.dtype, is_signed) == ty.dtype
    };
    match (base, args) {
        ("smull" | "umull", &[x, y]) if a.ty(x) == a.ty(y) && a.ty(x).lanes == ty.lanes && twice(a.ty(x)) => {
            let (x, y) = (a.cast(ty.dtype, x), a.cast(ty.dtype, y));
            Some(a.mul(x, y))
        }
        ("saddlp" | "uaddlp", &[x]) if a.lanes(x) == 2 * ty.lanes && twice(a.ty(x)) => Some(neighbours(a, &[x])),
        ("addp", &[x, y]) if a.ty(x) == ty && a.ty(y) == ty && ty.dtype.is_integer() => Some(neighbours(a, &[x, y])),
        _ => None,
    }
}
