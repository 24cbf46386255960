//! Expands functions into operations that vectors have.
//!
//! ```text
//! Y[i; 16] = exp(X[i; 16])
//! // becomes
//! let x: float32x16 = X[i; 16]
//! let t: float32x16 = …
//! Y[i; 16] = fma(…)
//! ```
//!
//! Both back ends then compute functions without calls, and the lanes of a vector get the same bits as the scalars of a
//! remainder loop: the operations are the same, and no later pass contracts or reorders them. The pass expands
//! functions computed in `float32`, and half precision through it; the others remain calls of
//! [`crate::codegen::runtime::functions`].
//!
//! Errors are at most 4 units in the last place over the whole range. Where possible, no lanes are selected: infinity,
//! zero and NaN result from the arithmetic. Subnormal numbers are treated as the floating-point state says: flushed to
//! zero unless floats are strict. The coefficients minimise the largest error of the result on the interval (Remez'
//! algorithm in double precision, then rounded).
//!
//! Values used several times are bound by `let`, except under a condition, since the binding would evaluate them
//! always.
//!
//! A lane gets the same bits whatever instruction set the code is for, with one exception: `exp` and functions computed from it
//! with 512-bit vectors, unless floats are strict. There sixteen powers of two lie in a register, `lookup` is one instruction,
//! and the polynomial has two degrees less. (Half of the time of softmax is that polynomial. A table of 32 would save another
//! degree, but no factor for each 32nd of an octave is finite wherever results are, and normal wherever they are.)
//!
//! Errors in ulp, at most, over all exponents in the tests:
//!
//! | function | ulp | function | ulp |
//! | --- | --- | --- | --- |
//! | `exp` | 2.6, by lookup 1.6, strict 1.5 | `log` | 0.8 |
//! | `sigmoid` | 3, strict 2.5 | `log2`, `log10`, `log1p` | 2 |
//! | `exp2`, `exp10` | 1.5 | | |
//! | `tanh` | 2.5 | `rsqrt` | 1.5 |
//! | `erf` | 3 | `pow` | 2 |
//! | `sin`, `cos` | 1.6 | `tan` | 2.6 |
//! | `sinh`, `cosh` | 1.5 | `asinh`, `acosh`, `atanh` | 2 |
//! | `asin` | 2.1 | `acos`, `atan` | 1.8 |
//!
//! `fmod` is exact, and the emitter of Cranelift's code computes it (`clif/remainder`).
//!
//! Angles may be of any size: large ones are reduced in integers, against as many bits of 1/2π as matter. Infinities, NaN, signed
//! zero and overflow are as in C. Subnormal numbers are flushed to zero unless floats are strict.

mod exp;
mod hyperbolic;
mod inverse;
mod log;
mod ops;
mod pow;
#[cfg(test)]
mod tests;
mod trig;

use super::machine::Machine;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType, Intrinsic};
use crate::loopir::rewrite::{ExprMap, map_expr, map_operands};
use crate::loopir::{Arena, Expr, ExprId, Kernel};
use hashbrown::HashMap;
use ops::Ops;
use smallvec::SmallVec;

/// Replaces powers with small constant exponents by products and the like, before passes decide what is arithmetic and
/// what is a function.
pub(super) fn powers(kernel: &mut Kernel) {
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let mut memo = ExprMap::default();
        let new = map_operands(stmt, |e| {
            map_expr(&mut kernel.arena, e, &mut memo, &mut |arena, e| match arena.expr(e) {
                Expr::Call(Intrinsic::Pow, list) => match *arena.list(list) {
                    [x, y] => pow::by_products(arena, x, y),
                    _ => None,
                },
                _ => None,
            })
        });
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
}

/// Expands the functions of the kernel.
pub(super) fn functions(kernel: &mut Kernel, machine: &Machine) {
    let body = kernel.body;
    kernel.body = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
        let mut expander = Expander { machine, memo: HashMap::default(), named: Vec::new() };
        let new = map_operands(stmt, |e| expander.expr(&mut kernel.arena, e, true));
        for let_ in expander.named {
            out.push(kernel.stmts.push(let_));
        }
        out.push(if new == stmt { id } else { kernel.stmts.push(new) });
    });
}

/// Number of vector registers that computing a function occupies besides its operands; 0 if it stays a call.
pub(super) fn pressure(function: Intrinsic, dtype: DType, machine: &Machine) -> usize {
    match expansion(function, dtype, machine) {
        // Cranelift computes it in its own vectors, of which few stay in registers.
        None if function == Intrinsic::Fmod => 12,
        None => 0,
        Some(_)
            if matches!(
                function,
                Intrinsic::Pow
                    | Intrinsic::Sin
                    | Intrinsic::Cos
                    | Intrinsic::Tan
                    | Intrinsic::Asinh
                    | Intrinsic::Acosh
                    | Intrinsic::Atan
            ) =>
        {
            12
        }
        Some(_) => 5,
    }
}

/// Builds a function from its operands.
type Expansion = fn(&mut Ops<'_>, &[ExprId]) -> ExprId;

/// The expansion of a function; `None` for functions that are single operations, or too rare.
fn expansion(function: Intrinsic, dtype: DType, machine: &Machine) -> Option<Expansion> {
    if !matches!(dtype, DType::Float32 | DType::Float16 | DType::BFloat16) {
        return None;
    }
    Some(match function {
        Intrinsic::Exp => |o, a| exp::exp(o, a[0]),
        Intrinsic::Exp2 => |o, a| exp::exp2(o, a[0]),
        Intrinsic::Exp10 => |o, a| exp::exp10(o, a[0]),
        Intrinsic::Sigmoid => |o, a| exp::sigmoid(o, a[0]),
        Intrinsic::Tanh => |o, a| exp::tanh(o, a[0]),
        Intrinsic::Erf => |o, a| exp::erf(o, a[0]),
        Intrinsic::Log => |o, a| log::log(o, a[0]),
        Intrinsic::Log2 => |o, a| log::log2(o, a[0]),
        Intrinsic::Log10 => |o, a| log::log10(o, a[0]),
        Intrinsic::Log1p => |o, a| log::log1p(o, a[0]),
        Intrinsic::Pow if machine.has_fma => |o, a| pow::pow(o, a[0], a[1]),
        Intrinsic::Sin if machine.has_fma => |o, a| trig::sin(o, a[0]),
        Intrinsic::Cos if machine.has_fma => |o, a| trig::cos(o, a[0]),
        Intrinsic::Tan if machine.has_fma => |o, a| trig::tan(o, a[0]),
        Intrinsic::Sinh => |o, a| hyperbolic::sinh(o, a[0]),
        Intrinsic::Cosh => |o, a| hyperbolic::cosh(o, a[0]),
        Intrinsic::Asinh => |o, a| hyperbolic::asinh(o, a[0]),
        Intrinsic::Acosh => |o, a| hyperbolic::acosh(o, a[0]),
        Intrinsic::Atanh => |o, a| hyperbolic::atanh(o, a[0]),
        Intrinsic::Asin => |o, a| inverse::asin(o, a[0]),
        Intrinsic::Acos => |o, a| inverse::acos(o, a[0]),
        Intrinsic::Atan => |o, a| inverse::atan(o, a[0]),
        Intrinsic::Rsqrt => |o, a| {
            let (one, root) = (o.c(1.0), o.sqrt(a[0]));
            o.div(one, root)
        },
        _ => return None,
    })
}

struct Expander<'a> {
    machine: &'a Machine,
    /// Cache by expression and whether it is certain to be evaluated.
    memo: HashMap<(ExprId, bool), ExprId, FxBuild>,
    /// Let bindings to insert before the statement being rewritten.
    named: Vec<crate::loopir::Stmt>,
}

impl Expander<'_> {
    fn expr(&mut self, arena: &mut Arena, e: ExprId, certain: bool) -> ExprId {
        if let Some(&done) = self.memo.get(&(e, true)).or_else(|| self.memo.get(&(e, certain))) {
            return done;
        }
        let lazy = match arena.expr(e) {
            Expr::IfThenElse(..) => true,
            Expr::Binary(BinOp::And | BinOp::Or, ..) => arena.lanes(e) == 1,
            _ => false,
        };
        let mut operands = 0;
        let rebuilt = arena.map_children(e, |arena, c| {
            operands += 1;
            self.expr(arena, c, certain && (!lazy || operands == 1))
        });
        let result = self.call(arena, rebuilt, certain).unwrap_or(rebuilt);
        self.memo.insert((e, certain), result);
        result
    }

    fn call(&mut self, arena: &mut Arena, e: ExprId, certain: bool) -> Option<ExprId> {
        let Expr::Call(function, list) = arena.expr(e) else { return None };
        let ty = arena.ty(e);
        let expand = expansion(function, ty.dtype, self.machine)?;
        let args: SmallVec<[ExprId; 2]> = arena.list(list).into();
        let args: SmallVec<[ExprId; 2]> = args.into_iter().map(|a| arena.cast(DType::Float32, a)).collect();
        let named = certain.then_some(&mut self.named);
        let mut ops = Ops::new(arena, ty.lanes, self.machine, named);
        let args: SmallVec<[ExprId; 2]> = args.into_iter().map(|a| ops.named("x", a)).collect();
        let result = expand(&mut ops, &args);
        Some(arena.cast(ty.dtype, result))
    }
}
