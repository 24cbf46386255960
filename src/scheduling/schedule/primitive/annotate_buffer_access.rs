//! # `annotate_buffer_access`
//!
//! Declares a region that a block reads or writes, replacing the inferred one.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     sch.annotate_buffer_access("B", 0, "read", lambda vi: ((vi - 1, vi + 2),))
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
//!     # with T.sblock("root"):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             T.reads(A[vi - 1:vi - 1 + 3])
//!             T.writes(B[vi])
//!             T.sblock_attr({"explicit_read_region": [0]})
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: one range per dimension; the region contains all accesses of the body. This is proved, or checked for
//!   each instance if there are few.
//! * Errors: `BufferIndexOutOfRangeError`, `BufTypeError`, `RegionTooSmallError`.
//! * Handles: persists: all.
//! * Refused, though TVM accepts it: regions that hide accesses: TVM trusts the caller, and later checks go wrong.
//!
//! # Implementation
//!
//! States a region that a block reads or writes, instead of the inferred one.
//!
//! ```text
//! T.reads(A[vi, vj])
//! # becomes, with buffer_index=0, buf_type="read", gen_new_ranges=lambda vi, vj: [(vi - 1, vi + 2), (vj, vj + 1)]
//! T.reads(A[vi - 1:vi + 2, vj])
//! T.block_attr({"explicit_read_region": [0]})
//! ```
//!
//! Requires: one range per dimension of the buffer, over the block's iteration variables; the new region contains the
//! accesses of the body (TVM trusts the caller; later checks rely on regions). This is proved, or checked in each
//! instance if there are few: indices may be computed with floats, as in resizing images. Preserves: what the block
//! computes. Returns: nothing.
//! nothing.
//!
//! Handles: persist.

use super::super::analysis::access::accesses_of;
use super::super::analysis::index_map::{Indices, lambda_expr};
use super::super::arg::{Arg, Lambda};
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use super::super::state::State;
use crate::arith::Analyzer;
use crate::ir::interp::value_at;
use crate::ir::visit::{for_each_subexpr, uses_var};
use crate::ir::{Arena, AttrValue, BlockId, BlockIter, BufferRegion, CmpOp, DType, ExprId, VarId};
use smallvec::SmallVec;

/// `annotate_buffer_access(block, buffer_index, buf_type, gen_new_ranges)`.
pub(crate) static ANNOTATE_BUFFER_ACCESS: Kind = Kind {
    name: "AnnotateBufferAccess",
    method: "annotate_buffer_access",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::input("buffer_index", Ty::Int),
        Param::input("buf_type", Ty::Str),
        Param::input("gen_new_ranges", Ty::Ranges),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let found = call.str(2)?;
    let access =
        Access::parse(found).ok_or_else(|| ScheduleError::new(ErrorKind::BufType { found }).at(func, block))?;
    let index = call.buffer_index(1, func, block, access)?;
    let lambda = match &call.args[3] {
        Arg::Lambda(l) => call.resolved(l)?,
        _ => {
            return Err(ErrorKind::Argument { message: "argument `gen_new_ranges`: expected a function".into() }.into());
        }
    };
    let state = call.state(func);
    let region = check(state, block, access, index, &lambda)?;
    let key = match access {
        Access::Read => "explicit_read_region",
        Access::Write => "explicit_write_region",
    };
    let node = state.func.block_mut(block);
    match access {
        Access::Read => node.reads[index] = region,
        Access::Write => node.writes[index] = region,
    }
    let mut explicit = match node.annotations.get(key) {
        Some(AttrValue::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    if !explicit.contains(&AttrValue::Int(index as i64)) {
        explicit.push(AttrValue::Int(index as i64));
    }
    node.annotations.insert(key, AttrValue::List(explicit));
    Ok(Outcome::none())
}

fn check(
    state: &mut State,
    block: BlockId,
    access: Access,
    index: usize,
    lambda: &Lambda,
) -> Result<BufferRegion, ScheduleError> {
    let node = state.func.block(block).clone();
    let old = access.regions(&node)[index];
    if lambda.params.len() != node.iters.len() {
        let kind = ErrorKind::LambdaParams { found: lambda.params.len(), expected: node.iters.len() };
        return Err(state.error(kind, block));
    }
    let func = state.index();
    let error = |kind: ErrorKind| ScheduleError::new(kind).at(func, block);
    let a = &mut state.func.arena;
    let vars: Indices = node.iters.iter().map(|i| a.var_expr(i.var)).collect();
    let int_type = node.iters.first().map_or(DType::Int32, |i| a.var(i.var).dtype);
    let mut ends: Vec<ExprId> = Vec::new();
    for e in &lambda.results {
        let e = lambda_expr(a, e, &vars, int_type).map_err(error)?;
        ends.push(e);
        if !lambda.ranges {
            ends.push(a.add_const(e, 1));
        }
    }
    let a = &mut state.func.arena;
    let shown: Vec<(ExprId, ExprId)> = old.ranges(a).collect();
    if ends.len() != 2 * shown.len() || ends.iter().any(|&e| !a.dtype(e).is_integer()) {
        let message = format!("expected {} ranges of indices, one per dimension of the buffer", shown.len());
        return Err(state.error(ErrorKind::Argument { message }, block));
    }
    let mut analyzer = Analyzer::new();
    for iter in &node.iters {
        analyzer.bind(a, iter.var, iter.min, iter.extent);
    }
    let ranges: Vec<(ExprId, ExprId)> = ends
        .chunks(2)
        .map(|pair| {
            let extent = a.sub(pair[1], pair[0]);
            (pair[0], analyzer.simplify(a, extent))
        })
        .collect();
    let accesses = accesses_of(&mut state.func, block);
    let real = match access {
        Access::Read => accesses.reads,
        Access::Write => accesses.writes,
    };
    let a = &mut state.func.arena;
    for region in real.iter().filter(|r| r.buffer == old.buffer) {
        let touched: Vec<(ExprId, ExprId)> = region.ranges(a).collect();
        for (&(min, extent), &(first, length)) in touched.iter().zip(&ranges) {
            let (end, last) = (a.add(min, extent), a.add(first, length));
            let (starts, ends) = (a.compare(CmpOp::Le, first, min), a.compare(CmpOp::Le, end, last));
            let proved = analyzer.can_prove(a, starts) && analyzer.can_prove(a, ends);
            if !proved && !holds_everywhere(a, &node.iters, (first, last), (min, end)) {
                let buffer = a.buffer(old.buffer).name;
                return Err(state.error(ErrorKind::RegionTooSmall { buffer }, block));
            }
        }
    }
    Ok(BufferRegion::new(a, old.buffer, &ranges))
}

/// Maximum number of instances that are checked one by one.
const MAX_INSTANCES: i64 = 1 << 14;

/// Whether the first range contains the second one in every instance. Each instance is evaluated, if there are few. An
/// index that is computed with floats must keep a distance of one from the ends: compiled code may round it
/// differently.
fn holds_everywhere(
    a: &Arena,
    iters: &[BlockIter],
    (first, last): (ExprId, ExprId),
    (min, end): (ExprId, ExprId),
) -> bool {
    let all = [first, last, min, end];
    let mut floats = false;
    let mut used: SmallVec<[(VarId, i64, i64); 4]> = SmallVec::new();
    let mut n = 1i64;
    for i in iters {
        if all.iter().any(|&e| uses_var(a, e, &mut |v| v == i.var)) {
            let (Some(min), Some(extent)) = (a.as_int(i.min), a.as_int(i.extent)) else { return false };
            n = n.saturating_mul(extent);
            used.push((i.var, min, extent));
        }
    }
    all.iter().for_each(|&e| for_each_subexpr(a, e, &mut |e| floats |= a.dtype(e).is_float()));
    let margin = i64::from(floats);
    let holds = |mut instance: i64| {
        let mut values: SmallVec<[(VarId, i64); 4]> = SmallVec::new();
        for &(v, min, extent) in &used {
            values.push((v, min + instance % extent));
            instance /= extent;
        }
        let value = |e| value_at(a, e, &values).map(|v| v.as_i64());
        match all.map(value) {
            [Some(first), Some(last), Some(min), Some(end)] => first + margin <= min && end + margin <= last,
            _ => false,
        }
    };
    n <= MAX_INSTANCES && (0..n).all(holds)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const COPY: &str = r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((6, 4))):
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"#;

    #[test]
    fn a_larger_region_is_stated() {
        check(
            COPY,
            |t| {
                t.python("sch.annotate_buffer_access(sch.get_block('B', 'main'), 0, 'read', lambda i, j: ((i - 1, i + 2), j))")
            },
            r#"
def main(A: T.Buffer((6, 4)), B: T.Buffer((6, 4))):
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi - 1:vi + 2, vj])
            T.writes(B[vi, vj])
            T.block_attr({"explicit_read_region": [0]})
            B[vi, vj] = A[vi, vj]
"#,
        );
    }

    #[test]
    fn indices_that_are_computed_with_floats_are_looked_at_one_by_one() {
        let resize = |reads: &str, rest: &str| {
            format!(
                r#"
def main(A: T.Buffer((12,)), B: T.Buffer((6,))):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            T.reads(A[{reads}])
            T.writes(B[vi])
{rest}            B[vi] = A[T.Cast("int32", T.floor(T.Cast("float32", vi) * T.float32(2)))]
"#
            )
        };
        let step = |low: i64, high: i64| {
            move |t: &mut super::super::testing::Test| {
                let map = format!("lambda i: [(i * 2 - {low}, i * 2 + {high})]");
                t.python(&format!("sch.annotate_buffer_access(sch.get_block('B', 'main'), 0, 'read', {map})"))
            }
        };
        let stated = "            T.block_attr({\"explicit_read_region\": [0]})\n";
        check(&resize("0:12", ""), step(1, 2), &resize("vi * 2 - 1:vi * 2 + 2", stated));
        refuse(&resize("0:12", ""), step(0, 2), "RegionTooSmallError");
        refuse(&resize("0:12", ""), step(1, 1), "RegionTooSmallError");
    }

    #[test]
    fn a_region_that_hides_accesses_is_refused() {
        let step =
            "sch.annotate_buffer_access(sch.get_block('B', 'main'), 0, 'read', lambda i, j: ((i + 1, i + 2), j))";
        refuse(COPY, |t| t.python(step), "RegionTooSmallError");
    }
}
