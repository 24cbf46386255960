//! Which operators become part of the reduction that reads their result.
//!
//! ```text
//! a = R.call_tir(cls.add, (x, mask), …)
//! b = R.call_tir(cls.softmax, (a,), …)    →    b = R.call_tir(cls.fused_add_softmax, (x, mask), …)
//! ```
//!
//! The memory between the two is saved, and a schedule may compute the elements where they are read. It may then compute them more
//! than once: in each pass over a row, or for each element of the result that needs them. Tuned on a Zen 4 with one thread, as part of
//! the reduction and apart from it:
//!
//! | operators | elements are computed | one, µs | apart, µs |
//! | --- | --- | --- | --- |
//! | ReLU, sum of rows of 4096 | once | 87 | 630 |
//! | product, mean of rows of 3136 | once | 33 | 100 |
//! | `exp`, sum of rows of 4096 | once | 330 | 920 |
//! | conversion of 768 x 3072 weights from `float16`, product with a vector | once | 85 | 340 |
//! | zeros around, maximum of 3 x 3 in steps of 2 | 2.2 times | 66 | 133 |
//! | mask, softmax of rows of 128 | twice | 60 | 69 |
//! | residual, layer norm of rows of 768 | three times | 20 | 25 |
//! | GELU, layer norm of rows of 768 | three times | 60 | 57 |
//! | permutation, product of matrices | 128 times | 216 | 247 |
//! | permutation, convolution 1 x 1 | 64 times | 258 | 258 |
//! | ReLU, convolution 3 x 3 that pads its data | 1.1 times | 2090 | 2120 |
//! | ReLU, product of matrices | 768 times | 1350 | 1360 |
//!
//! So they are one if each element is computed once, or if it costs little and is computed at most [`MOST_EVALUATIONS`] times, or if it
//! is only loaded from another place. What a large product would compute in its inner loop stays apart.
//!
//! A permutation of bytes stays apart: the code generator transposes squares of them, but only where nothing else is done. With channels last
//! for the convolution behind it, 64 x 56 x 56 bytes take 8 µs, and 120 as part of it.
//!
//! Weights are otherwise prepared before the first call. But a cheap conversion to a wider type, where the product reads each weight a
//! few times, is less work than reading the wider weights: 99 µs instead of 132 for a vector by 768 x 3072 weights of `float16`.

use crate::ir::visit::for_each_subexpr;
use crate::ir::{BlockId, DType, Expr, Func, Intrinsic, Stmt};

/// Cheap elements may be computed as often as this.
const MOST_EVALUATIONS: f64 = 4.0;

/// What the elements of a group of calls cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cost {
    /// A load from another place.
    Move,
    /// A few instructions.
    Cheap,
    /// Functions such as `exp`.
    Function,
}

/// The cost of an element of a block that stores one.
pub(super) fn cost(func: &Func, block: BlockId) -> Cost {
    let [store] = func.block(block).body[..] else { return Cost::Function };
    let Stmt::Store { indices, value, .. } = *func.get(store) else { return Cost::Function };
    let mut cost = Cost::Move;
    let mut n_loads = 0;
    let mut see = |e| match func.arena.expr(e) {
        Expr::Call(f, _) if !is_cheap(f) => cost = Cost::Function,
        Expr::Load(..) => n_loads += 1,
        _ => {}
    };
    func.arena.list(indices).iter().for_each(|&i| for_each_subexpr(&func.arena, i, &mut see));
    for_each_subexpr(&func.arena, value, &mut see);
    // Where an index is loaded too, it is checked.
    let is_move = matches!(func.arena.expr(value), Expr::Load(..)) && n_loads == 1;
    if is_move { cost } else { cost.max(Cost::Cheap) }
}

/// Whether a block writes bytes that are next to each other from elements that are not.
pub(super) fn crosses_bytes(func: &Func, block: BlockId) -> bool {
    let node = func.block(block);
    let [write] = &node.writes[..] else { return false };
    let arena = &func.arena;
    let last = |list| arena.list(list).last().copied();
    let (Some(written), true) =
        (last(write.mins), matches!(arena.buffer(write.buffer).dtype, DType::Int8 | DType::UInt8))
    else {
        return false;
    };
    let Expr::Var(along) = arena.expr(written) else { return false };
    let mentions = |e| {
        let mut found = false;
        for_each_subexpr(arena, e, &mut |e| found |= matches!(arena.expr(e), Expr::Var(v) if v == along));
        found
    };
    node.reads
        .iter()
        .any(|r| arena.list(r.mins).iter().any(|&e| mentions(e)) && last(r.mins).is_some_and(|e| !mentions(e)))
}

fn is_cheap(f: Intrinsic) -> bool {
    use Intrinsic::*;
    matches!(
        f,
        Abs | Fma
            | Likely
            | CopySign
            | Floor
            | Ceil
            | Trunc
            | Round
            | NearbyInt
            | BitAnd
            | BitOr
            | BitXor
            | BitNot
            | ShiftLeft
            | ShiftRight
    )
}

/// Whether a function should compute the elements of an operand itself, if nothing else reads them.
pub(super) fn pays(func: &Func, param: usize, cost: Cost) -> bool {
    match evaluations(func, param) {
        None => false,
        Some(n) => match cost {
            Cost::Move => true,
            Cost::Cheap => n <= MOST_EVALUATIONS,
            Cost::Function => n <= 1.0,
        },
    }
}

/// Whether a function should compute the elements of weights in each call: if it reads `bytes` for the elements of an operand, and these
/// have more.
pub(super) fn pays_for_weights(func: &Func, param: usize, cost: Cost, bytes: usize) -> bool {
    let is_narrow = || {
        let buffer = func.arena.buffer(func.params[param].buffer?);
        let n = elements(func, func.arena.list(buffer.shape))?;
        Some((bytes as f64) < n * buffer.dtype.bytes() as f64)
    };
    cost == Cost::Cheap && pays(func, param, cost) && is_narrow() == Some(true)
}

fn elements(func: &Func, shape: &[crate::ir::ExprId]) -> Option<f64> {
    shape.iter().map(|&e| Some(func.arena.as_int(e)? as f64)).product()
}

/// How often each element of an operand is read; `None` if that is not known.
fn evaluations(func: &Func, param: usize) -> Option<f64> {
    let buffer = func.params[param].buffer?;
    let n = elements(func, func.arena.list(func.arena.buffer(buffer).shape)).filter(|&n| n > 0.0)?;
    let mut reads = 0.0;
    let blocks = func.subtree(func.root.stmt()).into_iter().filter_map(|s| func.as_block(s));
    for block in blocks.filter(|&b| b != func.root) {
        let node = func.block(block);
        let regions: Vec<_> = node.reads.iter().filter(|r| r.buffer == buffer).collect();
        let is_element = |list| func.arena.list(list).iter().all(|&e| func.arena.is_int(e, 1));
        if !regions.iter().all(|r| is_element(r.extents)) {
            return None;
        }
        let instances: Option<f64> = node.iters.iter().map(|i| Some(func.arena.as_int(i.extent)? as f64)).product();
        reads += instances? * regions.len() as f64;
    }
    Some(reads / n)
}
