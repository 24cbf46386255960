//! Decides whether a block stores every element of the region that it states to write.

use super::affine::domain;
use super::guard::with_domains;
use super::region_bound::strict_bound;
use crate::arith::VarRange;
use crate::ir::{BlockId, BufferId, BufferRegion, ExprId, Func, LoopId, Stmt, StmtId, Substitution};
use smallvec::SmallVec;

/// Whether each instance of the block stores each element of its stated region of the buffer. A single store, or a
/// single inner block, must do so unconditionally. False if this is not obvious.
pub(crate) fn fills_its_region(func: &mut Func, b: BlockId, buffer: BufferId) -> bool {
    let block = func.block(b);
    let Some(region) = block.writes.iter().find(|r| r.buffer == buffer).copied() else { return false };
    let body = block.body.clone();
    body.into_iter().any(|s| fills(func, s, &region, &mut Vec::new()))
}

fn fills(func: &mut Func, s: StmtId, region: &BufferRegion, loops: &mut Vec<LoopId>) -> bool {
    match func.get(s) {
        Stmt::Loop(_) => {
            loops.extend(func.as_loop(s));
            let inside = func.scheduled_children(s).into_iter().any(|c| fills(func, c, region, loops));
            loops.pop();
            inside
        }
        Stmt::Let { .. } => func.scheduled_children(s).into_iter().any(|c| fills(func, c, region, loops)),
        &Stmt::Store { buffer, indices, .. } if buffer == region.buffer => {
            let stored = BufferRegion::point(&mut func.arena, buffer, indices);
            let always = func.arena.bool(true);
            adds_up(func, &stored, region, loops, always)
        }
        Stmt::Block(_) => {
            let b = func.as_block(s).expect("matched as a block");
            if !fills_its_region(func, b, region.buffer) {
                return false;
            }
            let runs = with_domains(func, b);
            let block = func.block(b);
            let mut bindings = Substitution::of_vars(block.iters.iter().map(|i| (i.var, i.value)));
            let inner = block.writes.iter().find(|r| r.buffer == region.buffer).copied();
            let Some(inner) = inner else { return false };
            let inner = bindings.apply_region(&mut func.arena, &inner);
            adds_up(func, &inner, region, loops, runs)
        }
        Stmt::Attr(_) => func.scheduled_children(s).into_iter().any(|c| fills(func, c, region, loops)),
        Stmt::Store { .. }
        | Stmt::If { .. }
        | Stmt::Evaluate(_)
        | Stmt::While { .. }
        | Stmt::Alloc { .. }
        | Stmt::Declare { .. }
        | Stmt::Break
        | Stmt::Continue
        | Stmt::Return(_)
        | Stmt::Assert(_) => false,
    }
}

/// Whether the part, over all iterations of the loops, covers the whole.
fn adds_up(func: &mut Func, part: &BufferRegion, whole: &BufferRegion, loops: &[LoopId], predicate: ExprId) -> bool {
    let domains: SmallVec<[VarRange; 8]> = loops.iter().map(|&l| domain(func, l)).collect();
    let a = &mut func.arena;
    let ranges: SmallVec<[(ExprId, ExprId); 4]> = part.ranges(a).collect();
    let target: SmallVec<[(ExprId, ExprId); 4]> = whole.ranges(a).collect();
    match strict_bound(a, &ranges, &domains, predicate) {
        Some(sets) => sets.iter().zip(target).all(|(set, (min, extent))| set.match_range(a, min, extent)),
        None => false,
    }
}
