//! Turns the annotations of the root block into parallel, vectorised and unrolled loops.
//!
//! *What*: for each block directly under the root, the leading spatial loops are fused up to the annotated number of
//! parallel chunks and made parallel, and the trailing contiguous ones are fused up to the annotated vector length and
//! vectorised; if all loops serve for both, they are fused into one, which is split. Reductions get unroll pragmas on
//! their first loop.
//!
//! TVM: `src/s_tir/meta_schedule/postproc/rewrite_parallel_vectorize_unroll.cc`.

use super::super::analysis::{const_extent, has_single_child, is_spatial, live_block, live_loop, loop_iter_kind};
use super::Postproc;
use crate::ir::visit::Substitution;
use crate::ir::{AttrValue, BinOp, BlockId, Expr, ExprId, Func, IterKind, LoopId, LoopKind, VarId};
use crate::schedule::Schedule;
use crate::schedule::analysis::block_class::require_complete_or_reduction;
use crate::schedule::arg::{Arg, Rv};
use crate::schedule::error::ScheduleError;

pub(crate) struct RewriteParallelVectorizeUnroll;

const PARALLEL: &str = "meta_schedule.parallel";
const VECTORIZE: &str = "meta_schedule.vectorize";
const UNROLL_EXPLICIT: &str = "meta_schedule.unroll_explicit";
const UNROLL_IMPLICIT: &str = "meta_schedule.unroll_implicit";

/// The annotations of a root block.
#[derive(Clone, Copy, Default)]
struct Marks {
    parallel: Option<i64>,
    vectorize: Option<i64>,
    unroll_explicit: Option<i64>,
    unroll_implicit: Option<i64>,
}

impl Marks {
    fn of(func: &Func) -> Option<Marks> {
        let root = &func.block(func.root).annotations;
        let get = |key: &str| root.get(key).and_then(AttrValue::as_int);
        let marked = [PARALLEL, VECTORIZE, UNROLL_EXPLICIT, UNROLL_IMPLICIT].iter().any(|k| root.get(*k).is_some());
        marked.then(|| Marks {
            parallel: get(PARALLEL),
            vectorize: get(VECTORIZE),
            unroll_explicit: get(UNROLL_EXPLICIT),
            unroll_implicit: get(UNROLL_IMPLICIT),
        })
    }
}

impl Postproc for RewriteParallelVectorizeUnroll {
    fn name(&self) -> &'static str {
        "rewrite_parallel_vectorize_unroll"
    }

    fn apply(&self, sch: &mut Schedule) -> Result<(), String> {
        for func in 0..sch.n_funcs() {
            if let Some(marks) = Marks::of(sch.func(func)) {
                rewrite(sch, func, marks).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}

fn rewrite(sch: &mut Schedule, func: usize, marks: Marks) -> Result<(), ScheduleError> {
    let f = sch.func(func);
    let (root_name, func_name) = (f.block(f.root).name, f.name);
    let root = sch.get_block(root_name.as_str(), func_name.as_str())?;
    for (key, mark) in [
        (PARALLEL, marks.parallel),
        (VECTORIZE, marks.vectorize),
        (UNROLL_EXPLICIT, marks.unroll_explicit),
        (UNROLL_IMPLICIT, marks.unroll_implicit),
    ] {
        if mark.is_some() {
            sch.unannotate(root, key)?;
        }
    }
    for block in sch.get_child_blocks(root)? {
        let mut loops = sch.get_loops(block)?;
        if !loops.is_empty() {
            rewrite_block(sch, block, &mut loops, marks)?;
        }
    }
    Ok(())
}

fn rewrite_block(sch: &mut Schedule, block: Rv, loops: &mut [Rv], marks: Marks) -> Result<(), ScheduleError> {
    let n = loops.len();
    let (parallel, vectorize) = plan(sch, block, loops, marks);
    if let (Some(p), Some(v), Some(length)) = (parallel, vectorize, marks.vectorize)
        && p == n
        && v == n
    {
        let fused = sch.fuse(loops)?;
        let parts = sch.split(fused, vec![Arg::None, length.into()])?;
        sch.parallel(parts[0])?;
        sch.vectorize(parts[1])?;
        loops[..n - 1].fill(parts[0]);
        loops[n - 1] = parts[1];
    } else {
        if let Some(p) = parallel.filter(|&p| p > 0) {
            let fused = sch.fuse(&loops[..p])?;
            sch.parallel(fused)?;
            loops[..p].fill(fused);
        }
        if let Some(v) = vectorize.filter(|&v| v > 0) {
            let fused = sch.fuse(&loops[n - v..])?;
            sch.vectorize(fused)?;
            loops[n - v..].fill(fused);
        }
    }
    let steps = marks.unroll_explicit.or(marks.unroll_implicit).unwrap_or(0);
    let spatial = live_block(sch, block).is_none_or(|(f, b)| is_spatial(sch.func(f), b));
    if steps > 0 && !spatial {
        sch.annotate(loops[0], "pragma_auto_unroll_max_step", steps)?;
        sch.annotate(loops[0], "pragma_unroll_explicit", marks.unroll_explicit.is_some() as i64)?;
    }
    Ok(())
}

/// Number of leading loops to parallelise and of trailing loops to vectorise; `None` if there is nothing to gain.
fn plan(sch: &mut Schedule, block: Rv, loops: &[Rv], marks: Marks) -> (Option<usize>, Option<usize>) {
    if marks.parallel.is_none() && marks.vectorize.is_none() {
        return (None, None);
    }
    let Some((index, id)) = live_block(sch, block) else { return (None, None) };
    // If `parallel` or `vectorize` would be refused, the loop stays serial; the candidate is valid all the same.
    let root = sch.func(index).root;
    if require_complete_or_reduction(&sch.states[index], id, root).is_err() {
        return (None, None);
    }
    let ids: Vec<LoopId> = loops.iter().filter_map(|&l| live_loop(sch, l)).map(|(_, l)| l).collect();
    let n = ids.len();
    let contiguous = contiguous_loops(sch.func_mut(index), id, &ids);
    let func = sch.func(index);
    let kinds: Vec<IterKind> = ids.iter().map(|&l| loop_iter_kind(func, l)).collect();
    let free = |l: LoopId| {
        let l = func.loop_(l);
        l.annotations.is_empty() && !matches!(l.kind, LoopKind::ThreadBinding(_))
    };
    let usable = ids
        .iter()
        .zip(&kinds)
        .filter(|&(&l, &k)| {
            free(l) && k == IterKind::Spatial && has_single_child(func, l) && const_extent(func, l).is_some()
        })
        .count();

    let mut parallel = None;
    if let Some(limit) = marks.parallel {
        let (mut count, mut product) = (0, 1i64);
        for (&l, &kind) in ids.iter().zip(&kinds) {
            let Some(extent) = const_extent(func, l).filter(|_| kind == IterKind::Spatial && free(l)) else { break };
            count += 1;
            product = product.saturating_mul(extent);
            if product > limit || !has_single_child(func, l) {
                break;
            }
        }
        parallel = (product != 1).then_some(count);
    }
    let mut vectorize = None;
    if let Some(limit) = marks.vectorize {
        let (mut count, mut product) = (0, 1i64);
        for (&l, &kind) in ids.iter().zip(&kinds).rev() {
            if count >= contiguous || kind != IterKind::Spatial || !free(l) || !has_single_child(func, l) {
                break;
            }
            let Some(extent) = const_extent(func, l) else { break };
            product = product.saturating_mul(extent);
            if product > limit {
                break;
            }
            count += 1;
        }
        vectorize = (product != 1).then_some(count);
    }
    if let (Some(p), Some(v)) = (&mut parallel, &mut vectorize) {
        if usable == n && contiguous == n {
            (*p, *v) = (n, n);
        } else {
            *p = (*p).min(n - *v);
        }
    }
    (parallel, vectorize)
}

/// Number of innermost loops that together access every buffer of the block contiguously or not at all.
fn contiguous_loops(func: &mut Func, block: BlockId, loops: &[LoopId]) -> usize {
    let node = func.block(block).clone();
    let mut bindings = Substitution::of_vars(node.iters.iter().map(|i| (i.var, i.value)));
    let mut most = usize::MAX;
    for access in node.reads.iter().chain(&node.writes) {
        let indices: Vec<ExprId> = {
            let mins = func.arena.list(access.mins).to_vec();
            mins.into_iter().map(|e| bindings.apply(&mut func.arena, e)).collect()
        };
        let shape = func.arena.list(func.arena.buffer(access.buffer).shape).to_vec();
        let mut strides = Vec::with_capacity(loops.len());
        for &l in loops {
            match stride_of(func, &indices, &shape, func.loop_(l).var) {
                Some(stride) => strides.push(stride),
                None => return 0,
            }
        }
        let mut count = 0;
        let mut previous: Option<usize> = None;
        for (i, &stride) in strides.iter().enumerate().rev() {
            match previous {
                _ if stride == 0 => {}
                None if stride != 1 && count != 0 => break,
                None => previous = Some(i),
                Some(p) => match const_extent(func, loops[p]) {
                    Some(extent) if stride == strides[p] * extent => previous = Some(i),
                    _ => break,
                },
            }
            count += 1;
        }
        most = most.min(count);
    }
    most
}

/// The stride of an access in elements when the loop advances; `None` if a shape is not constant.
fn stride_of(func: &Func, indices: &[ExprId], shape: &[ExprId], var: VarId) -> Option<i64> {
    let mut buffer_stride = 1;
    for (&index, &extent) in indices.iter().zip(shape).rev() {
        let coefficient = coefficient(func, index, var).unwrap_or(0);
        if coefficient != 0 {
            return Some(coefficient * buffer_stride);
        }
        buffer_stride *= func.arena.as_int(extent)?;
    }
    Some(0)
}

/// The coefficient of `var` in an index, found through sums and constant factors only; the smallest if there are
/// several.
fn coefficient(func: &Func, e: ExprId, var: VarId) -> Option<i64> {
    let arena = &func.arena;
    match arena.expr(e) {
        Expr::Var(v) => (v == var).then_some(1),
        Expr::Binary(BinOp::Add, a, b) => match (coefficient(func, a, var), coefficient(func, b, var)) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        },
        Expr::Binary(BinOp::Mul, a, b) => match (arena.as_int(a), arena.as_int(b)) {
            (Some(c), _) => coefficient(func, b, var).map(|x| x * c),
            (_, Some(c)) => coefficient(func, a, var).map(|x| x * c),
            _ => None,
        },
        _ => None,
    }
}
