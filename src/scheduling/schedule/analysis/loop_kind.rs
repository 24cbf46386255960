//! The kind of iteration variables that a loop drives (TVM's `GetLoopIterType`).

use crate::ir::visit::uses_var;
use crate::ir::{Func, IterKind, LoopId};

/// The kind of a loop, given by the outermost blocks below it: spatial or reduction if all iteration variables whose
/// binding mentions its variable have that kind (spatial if there are none), else opaque.
pub(crate) fn loop_kind(func: &Func, l: LoopId) -> IterKind {
    let var = func.loop_(l).var;
    let (mut spatial, mut reduce) = (false, false);
    for b in func.child_blocks(l.stmt()) {
        for iter in &func.block(b).iters {
            if !uses_var(&func.arena, iter.value, &mut |v| v == var) {
                continue;
            }
            match iter.kind {
                IterKind::Spatial => spatial = true,
                IterKind::Reduce => reduce = true,
                IterKind::Scan | IterKind::Opaque => return IterKind::Opaque,
            }
        }
    }
    match (spatial, reduce) {
        (true, true) => IterKind::Opaque,
        (false, true) => IterKind::Reduce,
        (_, false) => IterKind::Spatial,
    }
}
