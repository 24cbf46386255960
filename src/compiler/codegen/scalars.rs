//! Tests every scalar operation in every implementation: the table of [`scalar`](crate::ir::scalar), folding in both
//! IRs, the interpreter, the evaluator of the loop IR, and compiled scalar code.
//!
//! The operands of an operation are in memory, one pair per element; its program stores the result for each pair, so
//! that one program tests many values. Values are the edges of each type, its numbers next to powers of two, and random
//! bits.

use super::testing::{memory::Flush, rng, run_compiled};
use super::{RunContext, RuntimeFailure, compile_plain};
use crate::ir::expr::ExprId;
use crate::ir::interp::{self, Arg, Fault, Options, Tensor};
use crate::ir::scalar::bits::{bits_of, value_of};
use crate::ir::scalar::{self, Exact, Trap};
use crate::ir::{BinOp, Builtin, CmpOp, Const, DType, Expr, Float8, Func, Intrinsic, IterKind, samples};
use crate::loopir::eval::{self, Memory, Stopped, memory_of};
use crate::loopir::{self, Failure, Kernel};
use crate::lower::lower;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// An operation on operands of one type.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Binary(BinOp),
    Compare(CmpOp),
    Not,
    /// A conversion to a type.
    Cast(DType),
    /// A reinterpretation of bits as a type.
    Reinterpret(DType),
    Call(Intrinsic),
}

const BINARY: [BinOp; 11] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::Div,
    BinOp::Mod,
    BinOp::FloorDiv,
    BinOp::FloorMod,
    BinOp::Min,
    BinOp::Max,
    BinOp::And,
    BinOp::Or,
];

const COMPARE: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];

/// The position of an operator in [`BINARY`]: a new operator does not compile before it is there.
fn position(op: BinOp) -> usize {
    match op {
        BinOp::Add => 0,
        BinOp::Sub => 1,
        BinOp::Mul => 2,
        BinOp::Div => 3,
        BinOp::Mod => 4,
        BinOp::FloorDiv => 5,
        BinOp::FloorMod => 6,
        BinOp::Min => 7,
        BinOp::Max => 8,
        BinOp::And => 9,
        BinOp::Or => 10,
    }
}

/// The position of a comparison in [`COMPARE`].
fn position_of_comparison(op: CmpOp) -> usize {
    match op {
        CmpOp::Eq => 0,
        CmpOp::Ne => 1,
        CmpOp::Lt => 2,
        CmpOp::Le => 3,
        CmpOp::Gt => 4,
        CmpOp::Ge => 5,
    }
}

impl Op {
    fn arity(self) -> usize {
        match self {
            Op::Binary(_) | Op::Compare(_) => 2,
            Op::Not | Op::Cast(_) | Op::Reinterpret(_) => 1,
            Op::Call(function) => function.arity(),
        }
    }

    /// The type of the result; `None` if the operation does not accept this type.
    fn result(self, dtype: DType) -> Option<DType> {
        match self {
            Op::Binary(BinOp::And | BinOp::Or) => (dtype == DType::Bool).then_some(dtype),
            Op::Binary(BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod) if dtype == DType::Bool => None,
            Op::Binary(_) => Some(dtype),
            Op::Compare(_) => Some(DType::Bool),
            Op::Not => (dtype == DType::Bool).then_some(dtype),
            Op::Cast(to) => (to != dtype).then_some(to),
            Op::Reinterpret(to) => {
                let fits = to != dtype && to.bytes() == dtype.bytes() && dtype != DType::Bool && to != DType::Bool;
                fits.then_some(to)
            }
            Op::Call(function) => function.domain().takes(dtype).then(|| match function.result() {
                crate::ir::op::ResultType::First => dtype,
                crate::ir::op::ResultType::Bool => DType::Bool,
                crate::ir::op::ResultType::Int32 => DType::Int32,
            }),
        }
    }

    /// The result according to the table.
    fn expected(self, dtype: DType, args: &[Const]) -> Result<Const, Trap> {
        match self {
            Op::Binary(op) => scalar::binary(op, dtype, args[0], args[1], &Exact),
            Op::Compare(op) => scalar::compare(op, dtype, args[0], args[1]).map(|holds| Const::Int(holds.into())),
            Op::Not => scalar::not(args[0]),
            Op::Cast(to) => Ok(scalar::cast(dtype, to, args[0], &Exact)),
            Op::Reinterpret(to) => Ok(scalar::bits::reinterpret(dtype, to, args[0])),
            Op::Call(Intrinsic::Assume) => Ok(Const::Int(1)),
            Op::Call(function) => scalar::call(function, dtype, args, &Exact),
        }
    }

    /// The maximum error of compiled code, in numbers of the type.
    fn tolerance(self, dtype: DType) -> u64 {
        let Op::Call(function) = self else { return 0 };
        match function {
            Intrinsic::Sqrt
            | Intrinsic::Fmod
            | Intrinsic::NextAfter
            | Intrinsic::CopySign
            | Intrinsic::Fma
            | Intrinsic::Abs
            | Intrinsic::Floor
            | Intrinsic::Ceil
            | Intrinsic::Trunc
            | Intrinsic::Round
            | Intrinsic::NearbyInt
            | Intrinsic::IsNan
            | Intrinsic::IsInf
            | Intrinsic::IsFinite
            | Intrinsic::PopCount
            | Intrinsic::Clz
            | Intrinsic::BitAnd
            | Intrinsic::BitOr
            | Intrinsic::BitXor
            | Intrinsic::BitNot
            | Intrinsic::ShiftLeft
            | Intrinsic::ShiftRight
            | Intrinsic::Likely
            | Intrinsic::Assume => 0,
            Intrinsic::Exp
            | Intrinsic::Exp2
            | Intrinsic::Exp10
            | Intrinsic::Log
            | Intrinsic::Log2
            | Intrinsic::Log10
            | Intrinsic::Log1p
            | Intrinsic::Rsqrt
            | Intrinsic::Tanh
            | Intrinsic::Sin
            | Intrinsic::Cos
            | Intrinsic::Tan
            | Intrinsic::Asin
            | Intrinsic::Acos
            | Intrinsic::Atan
            | Intrinsic::Sinh
            | Intrinsic::Cosh
            | Intrinsic::Asinh
            | Intrinsic::Acosh
            | Intrinsic::Atanh
            | Intrinsic::Atan2
            | Intrinsic::Erf
            | Intrinsic::Sigmoid
            | Intrinsic::Pow
            | Intrinsic::Hypot => {
                if dtype.is_single_or_double() {
                    4
                } else {
                    1
                }
            }
        }
    }
}

/// The types with which programs compute.
fn types() -> Vec<DType> {
    DType::ELEMENTS.into_iter().chain(Float8::ALL.map(DType::Float8)).collect()
}

/// A value that memory preserves; one NaN represents all.
fn value(dtype: DType, bits: u64) -> Const {
    match value_of(dtype, if dtype == DType::Bool { bits & 1 } else { bits }) {
        Const::Float(v) if v.is_nan() => Const::Float(f64::NAN),
        v => v,
    }
}

/// The least and largest values of a type, zeros, NaN, infinities, subnormal numbers, powers of two and their neighbours.
fn edges(dtype: DType) -> Vec<Const> {
    if !dtype.is_float() {
        let powers = (0..dtype.bits()).flat_map(|n| [(1u64 << n) - 1, 1 << n, (1 << n) + 1]);
        return powers.flat_map(|v| [value(dtype, v), value(dtype, v.wrapping_neg())]).collect();
    }
    let mut all: Vec<Const> = [f64::NAN, f64::INFINITY, 0.5, 1.0, 1.5, 2.5, 3.0, 10.0, 88.7, 709.7, 1e-300, 1e300]
        .into_iter()
        .chain([7, 8, 15, 16, 31, 32, 63, 64].map(|n| 2f64.powi(n)))
        .map(|v| Const::Float(dtype.round(v)))
        .collect();
    // The first numbers, those around the least normal one and 1, and the largest.
    let fraction = dtype.significant_bits().unwrap_or(1) - 1;
    let largest = bits_of(dtype, Const::Float(dtype.max_value().err().unwrap_or(0.0)));
    let one = bits_of(dtype, Const::Float(1.0));
    for middle in [1, 1 << fraction, one, largest] {
        all.extend([middle - 1, middle, middle + 1].map(|bits| value(dtype, bits)));
    }
    let negative = |v: &Const| value(dtype, bits_of(dtype, Const::Float(-v.as_f64())));
    all.iter().map(negative).chain(all.iter().copied()).collect()
}

/// A random value: any bits, or a number near 1.
fn random(rng: &mut ChaCha8Rng, dtype: DType) -> Const {
    let bits = rng.next_u64();
    if dtype.is_float() && bits & 3 != 0 {
        let scale = [0.1, 1.0, 8.0, 100.0][(bits >> 2 & 3) as usize];
        let unit = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        return value(dtype, bits_of(dtype, Const::Float(unit * scale)));
    }
    if !dtype.is_float() && bits & 3 == 0 {
        return value(dtype, (bits >> 60).wrapping_sub(8));
    }
    value(dtype, bits.rotate_left(17))
}

/// Operands, the same number for each argument: combinations of edges, if they are few, and random values.
fn operands(rng: &mut ChaCha8Rng, op: Op, dtype: DType) -> Vec<Vec<Const>> {
    let edges = edges(dtype);
    let mut all: Vec<Vec<Const>> = Vec::new();
    let n = edges.len();
    let step = (n * n / 600).max(1) | 1;
    match op.arity() {
        1 => all.extend(edges.iter().map(|&v| vec![v])),
        2 => all.extend((0..n * n).step_by(step).map(|i| vec![edges[i / n], edges[i % n]])),
        _ => all.extend((0..n * 7).map(|i| vec![edges[i % n], edges[(i * 5 + 3) % n], edges[(i * 11 + i / n) % n]])),
    }
    for i in 0..200 {
        let mut args: Vec<Const> = (0..op.arity()).map(|_| random(rng, dtype)).collect();
        // Shift counts near the width.
        if matches!(op, Op::Call(Intrinsic::ShiftLeft | Intrinsic::ShiftRight)) && i % 2 == 0 {
            args[1] = value(dtype, rng.next_u64() % (u64::from(dtype.bits()) + 4));
        }
        all.push(args);
    }
    all
}

/// The operation as an unfolded expression.
fn expression(func: &mut Func, op: Op, args: &[ExprId], to: DType) -> ExprId {
    match op {
        Op::Binary(op) => func.arena.binary_unfolded(op, args[0], args[1]),
        Op::Compare(op) => func.arena.compare_unfolded(op, args[0], args[1]),
        Op::Not => func.arena.not_unfolded(args[0]),
        Op::Cast(dtype) => func.arena.cast_unfolded(dtype, args[0]),
        Op::Reinterpret(_) => func.arena.builtin(Builtin::Reinterpret, args, to),
        Op::Call(function) => func.arena.call(function, args),
    }
}

/// A function that applies the operation to `n` elements of its buffers, and stores the results to its last one.
fn program(dtypes: &[DType], to: DType, n: usize, make: impl FnOnce(&mut Func, &[ExprId]) -> ExprId) -> Func {
    let mut f = Func::new("main");
    let names = ["A", "B", "C", "D", "E", "F", "G"];
    let inputs: Vec<_> = dtypes.iter().zip(names).map(|(&t, name)| f.add_param(name, t, &[n as i64])).collect();
    let output = f.add_param("Y", to, &[n as i64]);
    let nest = samples::nest(&mut f, "Y", &[("i", n as i64, IterKind::Spatial)], |f, v| {
        let args: Vec<ExprId> = inputs.iter().map(|&b| f.arena.load(b, v)).collect();
        let result = make(f, &args);
        (None, samples::store(f, output, v, result))
    });
    samples::set_root(&mut f, &[nest]);
    f
}

/// The elements of a kernel's buffer: 8-bit floats are bytes there.
fn in_kernel(dtype: DType, v: Const) -> Const {
    if let DType::Float8(_) = dtype { Const::Int(bits_of(dtype, v) as i64) } else { v }
}

fn from_kernel(dtype: DType, v: Const) -> Const {
    if let DType::Float8(_) = dtype { value_of(dtype, v.as_i64() as u64) } else { v }
}

/// The results of each implementation for each row of operands, or why it stops.
struct Outcomes {
    interpreted: Result<Vec<Const>, Fault>,
    /// `None` for 8-bit floats: their operations are long expressions of other types, whose shared subexpressions the
    /// evaluator computes again at each use.
    evaluated: Option<Result<Vec<Const>, Stopped>>,
    compiled: Result<Vec<Const>, RuntimeFailure>,
}

fn outcomes(func: &Func, dtypes: &[DType], to: DType, rows: &[Vec<Const>]) -> Outcomes {
    let n = rows.len();
    let column = |i: usize| rows.iter().map(move |row| row[i]);
    let mut args: Vec<Arg> = dtypes
        .iter()
        .enumerate()
        .map(|(i, &dtype)| Arg::Tensor(Tensor::from_values(dtype, &[n as i64], column(i))))
        .collect();
    args.push(Arg::Tensor(Tensor::zeros(to, &[n as i64])));
    let interpreted = interp::run(func, &mut args, Options::default()).map_err(|e| e.fault).map(|_| {
        let y = args[dtypes.len()].tensor().expect("a tensor");
        (0..n).map(|i| y.get(i)).collect()
    });

    let kernel: Kernel = lower(func).unwrap_or_else(|e| panic!("{e}"));
    let mut params: Vec<Memory> =
        dtypes.iter().enumerate().map(|(i, &dtype)| memory_of(column(i).map(|v| in_kernel(dtype, v)))).collect();
    let output = &kernel.params()[dtypes.len()];
    let zero = if output.dtype.is_float() { Const::Float(0.0) } else { Const::Int(0) };
    params.push(memory_of(std::iter::repeat_n(zero, n)));
    let results = |memory: &Memory| -> Vec<Const> {
        memory.iter().map(|v| from_kernel(to, v.expect("every element is stored"))).collect()
    };
    let compiled = compile_plain(&kernel).unwrap_or_else(|e| panic!("{e}"));
    let compiled = run_compiled(&compiled, &params, Flush::Start, &mut RunContext::serial());
    let compiled = compiled.map(|found| results(&found[dtypes.len()]));
    let is_long = dtypes.iter().chain([&to]).any(|t| matches!(t, DType::Float8(_)));
    let evaluated = (!is_long).then(|| eval::run(&kernel, &mut params).map(|()| results(&params[dtypes.len()])));
    Outcomes { interpreted, evaluated, compiled }
}

/// The position of a float in the order of its type: neighbours differ by one, zeros are equal.
fn rank(dtype: DType, v: f64) -> i128 {
    let bits = i128::from(bits_of(dtype, Const::Float(v)));
    let sign = if dtype == DType::Float8(Float8::E8M0FNU) { i128::MAX } else { 1 << (dtype.bits() - 1) };
    if bits >= sign { sign - bits } else { bits }
}

/// Whether two values are equal, or at most `tolerance` numbers apart.
fn agree(dtype: DType, expected: Const, found: Const, tolerance: u64) -> bool {
    match (expected, found) {
        (Const::Int(e), Const::Int(f)) => e == f,
        (Const::Float(e), Const::Float(f)) => {
            let is_near = || (rank(dtype, e) - rank(dtype, f)).unsigned_abs() <= tolerance.into();
            e.to_bits() == f.to_bits()
                || e.is_nan() && f.is_nan()
                || tolerance > 0 && !e.is_nan() && !f.is_nan() && is_near()
        }
        _ => false,
    }
}

/// Compares the results of all implementations for an operation on operands of a type. Returns the number of
/// comparisons.
fn check(op: Op, dtype: DType, failures: &mut Vec<String>) -> usize {
    let Some(to) = op.result(dtype) else { return 0 };
    let mut rng = rng(bits_of(DType::Float64, Const::Float(op.arity() as f64)) ^ u64::from(dtype.bits()));
    let dtypes = vec![dtype; op.arity()];
    let (mut rows, mut trapping) = (Vec::new(), Vec::new());
    for row in operands(&mut rng, op, dtype) {
        // The sign of a NaN has no meaning.
        if op == Op::Call(Intrinsic::CopySign) && row[1].as_f64().is_nan() {
            continue;
        }
        match op.expected(dtype, &row) {
            Ok(v) => rows.push((row, v)),
            Err(trap) => trapping.push((row, trap)),
        }
    }
    let (rows, expected): (Vec<Vec<Const>>, Vec<Const>) = rows.into_iter().unzip();
    let func = program(&dtypes, to, rows.len(), |f, args| expression(f, op, args, to));
    let outcomes = outcomes(&func, &dtypes, to, &rows);
    let mut compare = |how: &str, found: &[Const], tolerance: u64| {
        for ((row, &e), &f) in rows.iter().zip(&expected).zip(found) {
            if !agree(to, e, f, tolerance) {
                failures.push(format!("{op:?} of {dtype}, {how}: {row:?} gives {f:?}, expected {e:?}"));
                return;
            }
        }
    };
    compare("interpreted", &outcomes.interpreted.unwrap_or_else(|e| panic!("{op:?} of {dtype}: {e:?}")), 0);
    if let Some(evaluated) = outcomes.evaluated {
        compare("evaluated", &evaluated.unwrap_or_else(|e| panic!("{op:?} of {dtype}: {e:?}")), 0);
    }
    let compiled = outcomes.compiled.unwrap_or_else(|e| panic!("{op:?} of {dtype}: {e:?}"));
    compare("compiled", &compiled, op.tolerance(dtype));
    for (row, &e) in rows.iter().zip(&expected) {
        for (how, f) in
            [("folded", folded(op, dtype, to, row)), ("folded in a kernel", folded_in_kernel(op, dtype, row))]
        {
            if let Some(f) = f.filter(|&f| !agree(to, e, f, 0)) {
                failures.push(format!("{op:?} of {dtype}, {how}: {row:?} gives {f:?}, expected {e:?}"));
            }
        }
    }
    for (row, trap) in trapping.iter().take(6) {
        check_trap(op, dtype, row, *trap, failures);
    }
    rows.len()
}

/// Checks that an operation without a result stops every implementation, and does not fold.
fn check_trap(op: Op, dtype: DType, row: &[Const], trap: Trap, failures: &mut Vec<String>) {
    let dtypes = vec![dtype; row.len()];
    let func = program(&dtypes, dtype, 1, |f, args| expression(f, op, args, dtype));
    let found = outcomes(&func, &dtypes, dtype, &[row.to_vec()]);
    let fault = match trap {
        Trap::DivisionByZero => Fault::DivisionByZero,
        Trap::DivisionOverflow => Fault::DivisionOverflow,
        Trap::IllTyped => unreachable!("{op:?} takes {dtype}"),
    };
    // TVM wraps quotients of narrow types.
    let may_fold = trap == Trap::DivisionOverflow && dtype.bits() < 64;
    let right = found.interpreted == Err(fault)
        && found.evaluated == Some(Err(Stopped::Failure(Failure::Division)))
        && found.compiled == Err(RuntimeFailure::Division)
        && (may_fold || folded(op, dtype, dtype, row).is_none())
        && folded_in_kernel(op, dtype, row).is_none();
    if !right {
        failures.push(format!("{op:?} of {dtype}: {row:?} has no result"));
    }
}

/// Whether TVM folds the operation by a neutral or absorbing operand, whatever float the other operand is.
fn is_one_operand(op: Op, dtype: DType, row: &[Const]) -> bool {
    let Op::Binary(op) = op else { return false };
    match op {
        BinOp::Add | BinOp::Sub | BinOp::Mul => dtype.is_float() && !dtype.is_single_or_double(),
        BinOp::Div | BinOp::FloorDiv => dtype.is_float() && (!dtype.is_single_or_double() || row[1].as_f64() == 0.0),
        BinOp::Mod | BinOp::FloorMod | BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or => false,
    }
}

/// The constant that the constructors of the IR fold constants to.
fn folded(op: Op, dtype: DType, to: DType, row: &[Const]) -> Option<Const> {
    if is_one_operand(op, dtype, row) {
        return None;
    }
    let mut f = Func::new("main");
    let args: Vec<ExprId> = row
        .iter()
        .map(|&v| match v {
            Const::Int(v) => f.arena.int(v, dtype),
            Const::Float(v) => f.arena.float(v, dtype),
        })
        .collect();
    let e = match op {
        Op::Binary(op) => f.arena.binary(op, args[0], args[1]),
        Op::Compare(op) => f.arena.compare(op, args[0], args[1]),
        Op::Not => f.arena.not(args[0]),
        Op::Cast(to) => f.arena.cast(to, args[0]),
        Op::Reinterpret(_) => return None,
        Op::Call(function) => f.arena.call(function, &args),
    };
    match f.arena.expr(e) {
        Expr::Int(v) => Some(Const::Int(v)),
        Expr::Float(bits) => Some(Const::Float(to.round(f64::from_bits(bits)))),
        _ => None,
    }
}

/// The constant that the constructors of the loop IR fold constants to.
fn folded_in_kernel(op: Op, dtype: DType, row: &[Const]) -> Option<Const> {
    if matches!(dtype, DType::Float8(_)) || matches!(op, Op::Cast(DType::Float8(_)) | Op::Reinterpret(DType::Float8(_)))
    {
        return None;
    }
    let mut a = loopir::Arena::default();
    let args: Vec<loopir::ExprId> = row
        .iter()
        .map(|&v| match v {
            Const::Int(v) => a.int(v, dtype),
            Const::Float(v) => a.float(v, dtype),
        })
        .collect();
    let e = match op {
        Op::Binary(op) => a.binary(op, args[0], args[1]),
        Op::Compare(op) => a.compare(op, args[0], args[1]),
        Op::Not => a.not(args[0]),
        Op::Cast(to) => a.cast(to, args[0]),
        Op::Reinterpret(to) if matches!(to.bytes(), 4 | 8) => a.reinterpret(to, args[0]),
        Op::Reinterpret(_) => return None,
        Op::Call(function) => a.call(function, &args),
    };
    a.as_const(e)
}

fn check_all(ops: impl IntoIterator<Item = Op>) {
    let mut failures = Vec::new();
    for op in ops {
        let cases: usize = types().into_iter().map(|dtype| check(op, dtype, &mut failures)).sum();
        assert!(cases > 0, "{op:?} has no case");
    }
    let n = failures.len();
    failures.truncate(40);
    assert!(failures.is_empty(), "{n} differ:\n{}", failures.join("\n"));
}

#[test]
fn operators_agree() {
    for (i, &op) in BINARY.iter().enumerate() {
        assert_eq!(position(op), i);
    }
    check_all(BINARY.map(Op::Binary));
}

#[test]
fn comparisons_agree() {
    for (i, &op) in COMPARE.iter().enumerate() {
        assert_eq!(position_of_comparison(op), i);
    }
    check_all(COMPARE.map(Op::Compare).into_iter().chain([Op::Not]));
}

#[test]
fn casts_agree() {
    check_all(types().into_iter().map(Op::Cast));
}

#[test]
fn functions_agree() {
    check_all(Intrinsic::ALL.iter().map(|&f| Op::Call(f)));
}

#[test]
fn reinterpretations_agree() {
    check_all(types().into_iter().filter(|&t| t != DType::Bool).map(Op::Reinterpret));
}

/// Whether the builtin is an operation on scalars, with only values as arguments.
fn is_scalar(function: Builtin) -> bool {
    match function {
        Builtin::Reinterpret | Builtin::QMultiplyShift | Builtin::QMultiplyShiftPerAxis | Builtin::Ldexp => true,
        // The identity.
        Builtin::IgnoreLoopPartition => false,
        Builtin::VectorLow
        | Builtin::VectorHigh
        | Builtin::VectorCombine
        | Builtin::Undef
        | Builtin::CallExtern
        | Builtin::CallPureExtern
        | Builtin::CallPacked
        | Builtin::CallCPacked
        | Builtin::CallLlvmIntrin
        | Builtin::CallLlvmPureIntrin
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
        | Builtin::FreeWorkspace => false,
    }
}

/// `(x << left) * y` rounded at `places` bits, halves up.
fn fixed_product(x: i64, y: i64, left: i64, places: i64) -> Const {
    let half = if places == 0 { 0 } else { 1 << (places - 1) };
    Const::Int(DType::Int32.wrap((x << left).wrapping_mul(y).wrapping_add(half) >> places))
}

/// Types of the arguments of a builtin, and rows of arguments with their results.
type Cases = (Vec<DType>, Vec<(Vec<Const>, Const)>);

fn cases_of(function: Builtin) -> Vec<Cases> {
    let mut rng = rng(5);
    let mut int = |from: i64, to: i64| from + (rng.next_u64() % (to - from + 1) as u64) as i64;
    let word = (i64::from(i32::MIN), i64::from(i32::MAX));
    match function {
        // `reinterpretations_agree` tests it.
        Builtin::Reinterpret => vec![(Vec::new(), vec![(Vec::new(), Const::Int(0))])],
        Builtin::QMultiplyShift => {
            let row = |_| {
                let (x, y, q, s) = (int(word.0, word.1), int(word.0, word.1), int(0, 31), int(-31, 31));
                let expected = fixed_product(x, y, s.max(0), q + (-s).max(0));
                ([x, y, q, s].map(Const::Int).to_vec(), expected)
            };
            vec![(vec![DType::Int32; 4], (0..300).map(row).collect())]
        }
        Builtin::QMultiplyShiftPerAxis => {
            let row = |_| {
                let (x, y, l, r, q) = (int(word.0, word.1), int(word.0, word.1), int(0, 31), int(0, 31), int(0, 31));
                let (to_left, to_right) = (int(0, 1), int(0, 1));
                let expected = fixed_product(x, y, if to_left == 1 { l } else { 0 }, q + r);
                ([x, y, l, r, q, to_left, to_right].map(Const::Int).to_vec(), expected)
            };
            let mut dtypes = vec![DType::Int32; 5];
            dtypes.extend([DType::Bool; 2]);
            vec![(dtypes, (0..300).map(row).collect())]
        }
        Builtin::Ldexp => [DType::Float16, DType::BFloat16, DType::Float32]
            .map(|dtype| {
                let row = |x: Const, n: i64| {
                    // Exact in `float64`, whose exponents have a larger range.
                    let expected = dtype.round(x.as_f64() * 2f64.powi(n as i32));
                    (vec![x, Const::Int(n)], Const::Float(expected))
                };
                let rows =
                    edges(dtype).into_iter().flat_map(|x| [-300, -140, -17, -1, 0, 1, 16, 150].map(|n| row(x, n)));
                (vec![dtype, DType::Int32], rows.collect())
            })
            .to_vec(),
        _ => Vec::new(),
    }
}

#[test]
fn builtins_agree() {
    for &function in Builtin::ALL.iter().filter(|&&f| is_scalar(f)) {
        let all = cases_of(function);
        assert!(!all.is_empty(), "{function} has no case");
        for (dtypes, rows) in all.into_iter().filter(|c| !c.0.is_empty()) {
            let to = dtypes[0];
            let (rows, expected): (Vec<Vec<Const>>, Vec<Const>) = rows.into_iter().unzip();
            let func = program(&dtypes, to, rows.len(), |f, args| f.arena.builtin(function, args, to));
            let func = func.with_builtins_expanded().into_owned();
            let found = outcomes(&func, &dtypes, to, &rows);
            let found = [
                ("interpreted", found.interpreted.unwrap_or_else(|e| panic!("{function}: {e:?}"))),
                ("evaluated", found.evaluated.expect("no float of 8 bits").unwrap_or_else(|e| panic!("{e:?}"))),
                ("compiled", found.compiled.unwrap_or_else(|e| panic!("{function}: {e:?}"))),
            ];
            for (how, found) in found {
                for ((row, &e), f) in rows.iter().zip(&expected).zip(found) {
                    assert!(agree(to, e, f, 0), "{function} of {to}, {how}: {row:?} gives {f:?}, expected {e:?}");
                }
            }
        }
    }
}
