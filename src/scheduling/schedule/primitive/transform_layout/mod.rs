//! # `transform_layout`
//!
//! Changes the layout of a buffer. A parameter changes its shape: callers pass it in the new layout, so `tune` and
//! `bench`, which pass arguments as written, refuse it; `apply --check` converts the data.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
//!     B = T.sblock_alloc_buffer((4, 8))
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * 2.0
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             C[vi, vj] = B[vi, vj] + 1.0
//!
//! def steps(sch):
//!     sch.transform_layout("B", ("write", 0), lambda i, j: (j // 4, i, j % 4))
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
//!     B = T.sblock_alloc_buffer((2, 4, 4))
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vj // 4, vi, vj % 4] = A[vi, vj] * T.float32(2.0)
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             C[vi, vj] = B[vj // 4, vi, vj % 4] + T.float32(1.0)
//! ```
//!
//! * Requires: a parameter or allocation, without views; an injective map; padding only with a value of the buffer's
//!   type.
//! * Errors: `BufferIndexOutOfRangeError`, `BufferIsSubregionError`, `OpaqueAccessError`,
//!   `TransformationPaddingTypeError`, `TransformationIntroducesPaddingError`, `InternalError`, `ExtentOverflowError`.
//! * Handles: dies: with padding: the writing block's loops; persists: the rest; created: with padding: loops over the
//!   new axes, or a block that fills it.
//! * Refused, though TVM accepts it: maps that send two elements to one place, whatever `assume_injective_transform`
//!   says.
//!
//! # Implementation
//!
//! Changes the layout of a buffer: every access uses mapped indices.
//!
//! ```text
//! B[vi, vj] = A[vi, vj] * 2        # B: (128, 128)
//! C[vi, vj] = B[vi, vj] + 1
//! # becomes, with buffer=("write", 0), index_map=lambda i, j: (i // 16, j, i % 16)
//! B[vi // 16, vj, vi % 16] = A[vi, vj] * 2        # B: (8, 128, 16)
//! C[vi, vj] = B[vi // 16, vj, vi % 16] + 1
//! ```
//!
//! If the new shape has positions without an element, `pad_value` gives their contents (see [`padding`]): the block
//! that writes the buffer iterates over the new axes and writes the value, or a later block does; for a buffer that is
//! only read, an earlier block states the value as an assumption (`T.assume`). Without `pad_value` such a map is
//! refused, unless `assume_injective_transform` is set: then the contents are arbitrary.
//!
//! A parameter of the function changes its shape: callers must pass it in the new layout.
//!
//! Requires: a buffer that is a parameter or allocated, without views; an injective map (TVM trusts the caller, with
//! `assume_injective_transform` or if its analysis fails; tvmr checks it). The pad value has the buffer's type.
//! Preserves: what blocks compute. Returns: nothing.
//!
//! Handles: dies, with padding the loops of the writing block; the rest persists.

mod padding;

use super::super::analysis::index_map::{self, IndexMap, Indices, lambda_expr};
use super::super::analysis::relayout::{Change, rewrite_accesses};
use super::super::analysis::update_scope_info;
use super::super::arg::{Arg, Lambda, LambdaExpr};
use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Default, Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use super::compute_inline::require_no_view;
use crate::arith::IterMapLevel;
use crate::ir::{Arena, BlockId, Buffer, BufferId, DType, ExprId, Func, Stmt};
use padding::{PadValue, Padding};
use smallvec::SmallVec;

/// `transform_layout(block, buffer, index_map, pad_value=None, assume_injective_transform=False)`.
pub(crate) static TRANSFORM_LAYOUT: Kind = Kind {
    name: "TransformLayout",
    method: "transform_layout",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("buffer", Ty::Buffer),
        Param::input("index_map", Ty::IndexMap),
        Param::attr("pad_value", Ty::PadValue).or(Default::None),
        Param::attr("assume_injective_transform", Ty::Bool).or(Default::Bool(false)).as_int(),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

/// The result of the checks.
struct LayoutPlan {
    /// The block that allocates the buffer, or the root.
    scope: BlockId,
    old: BufferId,
    shape: Indices,
    map: IndexMap,
    padding: Option<Padding>,
}

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let (access, index) = call.buffer_access(1, func, block)?;
    let lambda = call.lambda(2)?;
    let pad = match &call.args[3] {
        Arg::Lambda(l) => Pad::Function((*call.resolved(l)?).clone()),
        Arg::None => Pad::None,
        other => Pad::Constant(other.clone()),
    };
    let assume_injective = call.bool(4)?;
    let state = call.state(func);
    let old = access.regions(state.func.block(block))[index].buffer;
    let plan = check(state, block, old, &lambda, &pad, assume_injective)?;
    apply(state, plan);
    Ok(Outcome::none())
}

/// The argument `pad_value`.
enum Pad {
    None,
    Constant(Arg),
    Function(Lambda),
}

fn check(
    state: &mut State,
    block: BlockId,
    old: BufferId,
    lambda: &Lambda,
    pad: &Pad,
    assume_injective: bool,
) -> Result<LayoutPlan, ScheduleError> {
    let scope = defining_block(state, block, old)?;
    require_no_view(state, scope, old)?;
    let Func { arena: a, stmts, .. } = &mut state.func;
    let (name, dtype) = (a.buffer(old).name, a.buffer(old).dtype);
    let shape: Indices = a.list(a.buffer(old).shape).iter().copied().collect();
    // Indices have the type of the block's variables, which may differ from that of the shape.
    let of_block = stmts.block(block).iters.first().map(|i| a.var(i.var).dtype);
    let types: Vec<DType> = shape.iter().map(|&e| of_block.unwrap_or(a.dtype(e))).collect();
    let map = index_map::of_lambda(a, lambda, &types).map_err(|kind| state.error(kind, block))?;
    let a = &mut state.func.arena;
    let pad = pad_value(a, pad, &map, dtype).map_err(|kind| state.error(kind, block))?;
    let a = &mut state.func.arena;
    let not_injective = ErrorKind::NotInjective { buffer: name };
    index_map::check_fits(&map, a, &shape).map_err(|kind| state.error(kind, block))?;
    let a = &mut state.func.arena;
    if !map.is_injective(a, &shape) {
        return Err(state.error(not_injective, block));
    }
    let Some(new_shape) = map.map_shape(a, &shape) else { return Err(state.error(not_injective, block)) };
    let mut padding = None;
    if !assume_injective {
        let Some(inverse) = map.inverse(a, &shape, IterMapLevel::NoCheck) else {
            return Err(state.error(not_injective, block));
        };
        if !a.is_int(inverse.padding, 0) {
            match pad {
                Some(value) => {
                    padding = Some(Padding::plan(&mut state.func, scope, old, &map, &new_shape, inverse, value));
                }
                None => return Err(state.error(ErrorKind::LayoutPadding { buffer: name }, block)),
            }
        }
    }
    Ok(LayoutPlan { scope, old, shape: new_shape, map, padding })
}

/// The block that allocates the buffer; the root for a parameter.
///
/// # Errors
///
/// If the buffer is a view.
fn defining_block(state: &State, from: BlockId, buffer: BufferId) -> Result<BlockId, ScheduleError> {
    let func = &state.func;
    let around = std::iter::once(from.stmt()).chain(func.ancestors(from.stmt()));
    for s in around {
        let Stmt::Block(b) = func.get(s) else { continue };
        if b.allocs.contains(&buffer) {
            return func.as_block(s).ok_or_else(|| state.error(ErrorKind::RootBlock, from));
        }
        if b.matches.iter().any(|m| m.buffer == buffer) {
            return Err(state.error(ErrorKind::BufferIsSubregion { buffer: func.arena.buffer(buffer).name }, from));
        }
    }
    Ok(func.root)
}

/// # Errors
///
/// If the value does not have the buffer's type, or the number of its parameters is not that of the new indices.
fn pad_value(a: &mut Arena, pad: &Pad, map: &IndexMap, dtype: DType) -> Result<Option<PadValue>, ErrorKind> {
    let types: Vec<DType> = map.results.iter().map(|&r| a.dtype(r)).collect();
    let number = |a: &mut Arena, arg: &Arg| match (arg, dtype.is_float()) {
        (Arg::Int(v), true) => Some(a.float(*v as f64, dtype)),
        (Arg::Int(v), false) => Some(a.int(*v, dtype)),
        (Arg::Float(v), true) => Some(a.float(*v, dtype)),
        _ => None,
    };
    let (params, value): (SmallVec<_>, ExprId) = match pad {
        Pad::None => return Ok(None),
        Pad::Constant(Arg::Typed(found, inner)) => {
            if found.as_str() != dtype.to_string() {
                return Err(ErrorKind::LayoutPaddingType { found: found.to_string(), expected: dtype.to_string() });
            }
            let value = number(a, inner).ok_or_else(|| wrong_pad(dtype))?;
            (SmallVec::new(), value)
        }
        Pad::Constant(arg) => (SmallVec::new(), number(a, arg).ok_or_else(|| wrong_pad(dtype))?),
        Pad::Function(lambda) => {
            if lambda.params.len() != types.len() || lambda.results.len() != 1 {
                return Err(ErrorKind::LambdaParams { found: lambda.params.len(), expected: types.len() });
            }
            let vars: SmallVec<_> = lambda.params.iter().zip(&types).map(|(&name, &t)| a.new_var(name, t)).collect();
            let values: Indices = vars.iter().map(|&v| a.var_expr(v)).collect();
            let int_type = match &lambda.results[0] {
                LambdaExpr::Int(_) => DType::Int32,
                _ => types.iter().copied().max_by_key(|t| t.bits()).unwrap_or(DType::Int32),
            };
            (vars, lambda_expr(a, &lambda.results[0], &values, int_type)?)
        }
    };
    if a.dtype(value) != dtype {
        let found = a.dtype(value).to_string();
        return Err(ErrorKind::LayoutPaddingType { found, expected: dtype.to_string() });
    }
    Ok(Some(PadValue { params, value }))
}

fn wrong_pad(dtype: DType) -> ErrorKind {
    ErrorKind::Argument { message: format!("argument `pad_value`: expected a constant of type `{dtype}`") }
}

fn apply(state: &mut State, plan: LayoutPlan) {
    let LayoutPlan { scope, old, shape, map, padding } = plan;
    let func = &mut state.func;
    let shape = func.arena.new_list(&shape);
    let before = func.arena.buffer(old).clone();
    let axis_separators = map.separators.clone();
    let new = Buffer { strides: None, axis_separators, ..before.with_shape(&mut func.arena, shape) };
    let new = func.arena.new_buffer(new);
    let new_blocks = padding.map(|padding| padding.apply(func, scope, old, new)).unwrap_or(false);
    rewrite_accesses(func, scope.stmt(), Change::Layout(old, new, &map));
    for p in func.params.iter_mut().filter(|p| p.buffer == Some(old)) {
        p.buffer = Some(new);
    }
    if new_blocks {
        let info = state.info(scope);
        update_scope_info(state, scope);
        state.update_info(scope, |new| *new = info);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};
    use crate::schedule::error::ScheduleError;

    const CHAIN: &str = r#"
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 9))):
    B = T.alloc_buffer((8, 9))
    for i, j in T.grid(8, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 9):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"#;

    fn by(block: &'static str, rest: &'static str) -> impl FnOnce(&mut Test) -> Result<(), ScheduleError> {
        move |t| t.python(&format!("sch.transform_layout(sch.get_block('{block}', 'main'), {rest})"))
    }

    #[test]
    fn accesses_move() {
        check(
            CHAIN,
            by("B", "('write', 0), lambda i, j: (j // 3, i, j % 3)"),
            r#"
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 9))):
    B = T.alloc_buffer((3, 8, 3))
    for i, j in T.grid(8, 9):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj // 3, vi, vj % 3] = A[vi, vj]
    for i, j in T.grid(8, 9):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj // 3, vi, vj % 3]
"#,
        );
    }

    #[test]
    fn the_writer_pads() {
        check(
            CHAIN,
            by("B", "('write', 0), lambda i, j: (i, j // 4, j % 4), pad_value=1.5"),
            r#"
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 9))):
    B = T.alloc_buffer((8, 3, 4))
    for i, axis1, axis2 in T.grid(8, 3, 4):
        with T.block("B"):
            v_i, v_axis1, v_axis2 = T.axis.remap("SSS", [i, axis1, axis2])
            T.reads(A[v_i, v_axis1 * 4 + v_axis2])
            T.writes(B[v_i, v_axis1, v_axis2])
            B[v_i, v_axis1, v_axis2] = T.if_then_else(v_axis1 == 2 and 1 <= v_axis2, T.float32(1.5), A[v_i, v_axis1 * 4 + v_axis2])
    for i, j in T.grid(8, 9):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj // 4, vj % 4]
"#,
        );
    }

    #[test]
    fn a_tiled_writer_is_followed_by_the_padding() {
        check(
            CHAIN,
            |t| {
                t.python("sch.split(sch.get_loops(sch.get_block('B', 'main'))[0], [2, 4])")?;
                by("B", "('write', 0), lambda i, j: (i, j // 4, j % 4), pad_value=0")(t)
            },
            r#"
def main(A: T.Buffer((8, 9)), C: T.Buffer((8, 9))):
    B = T.alloc_buffer((8, 3, 4))
    for i_0, i_1, j in T.grid(2, 4, 9):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(9, j)
            B[vi, vj // 4, vj % 4] = A[vi, vj]
    for i, axis1, axis2 in T.grid(8, 3, 4):
        with T.block("buffer_B_padding"):
            v_i, v_axis1, v_axis2 = T.axis.remap("SSS", [i, axis1, axis2])
            T.where(axis1 == 2 and 1 <= axis2)
            T.reads()
            T.writes(B[v_i, v_axis1, v_axis2])
            B[v_i, v_axis1, v_axis2] = T.float32(0)
    for i, j in T.grid(8, 9):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj // 4, vj % 4]
"#,
        );
    }

    #[test]
    fn refusals() {
        refuse(CHAIN, by("B", "('write', 0), lambda i, j: (i, j // 4, j % 4)"), "TransformationIntroducesPaddingError");
        refuse(
            CHAIN,
            by("B", "('write', 0), lambda i, j: (i, j // 4, j % 4), pad_value=lambda a, b, c: (0,)"),
            "TransformationPaddingTypeError",
        );
        refuse(CHAIN, by("B", "('write', 1), lambda i, j: (j, i)"), "BufferIndexOutOfRangeError");
        refuse(CHAIN, by("B", "('write', 0), lambda i, j: (i, j // 3)"), "InternalError");
        refuse(
            CHAIN,
            by("B", "('write', 0), lambda i, j: (i, j * j % 9), assume_injective_transform=True"),
            "InternalError",
        );
    }
}
