//! # `reorder_block_iter_var`
//!
//! Changes the order of a block's iteration variables.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             B[vi, vj] = A[vi, vj] * 2.0
//!
//! def steps(sch):
//!     sch.reorder_block_iter_var("B", [1, 0])
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), B: T.Buffer((4, 8))):
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vj, vi = T.axis.remap("SS", [j, i])
//!             B[vi, vj] = A[vi, vj] * T.float32(2.0)
//! ```
//!
//! * Requires: a permutation.
//! * Errors: `InvalidReorderIndex`, `RootBlockError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! `reorder_block_iter_var`: changes the order in which a block lists its iteration variables.
//!
//! ```text
//! vi, vj = T.axis.remap("SS", [i, j])
//! // becomes, with new_order=[1, 0]
//! vj, vi = T.axis.remap("SS", [j, i])
//! ```
//!
//! Requires: `new_order` is a permutation of the positions; not the root block. Preserves: what the block computes.
//! Handles: all persist.

use super::super::call::Call;
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};

/// `reorder_block_iter_var(block, new_order)`.
pub(crate) static REORDER_BLOCK_ITER_VAR: Kind = Kind {
    name: "ReorderBlockIterVar",
    method: "reorder_block_iter_var",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block), Param::input("new_order", Ty::Ints)],
    outputs: Outputs::None,
    samples: false,
    run: reorder_block_iter_var,
};

fn reorder_block_iter_var(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, b) = call.block(0)?;
    let order = call.ints(1)?;
    let state = call.state(func);
    let iters = &state.func.block(b).iters;
    let n = iters.len() as i64;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..n) {
        return Err(state.error(ErrorKind::InvalidReorderIndex { order: format!("{order:?}"), n }, b));
    }
    if b == state.func.root {
        return Err(state.error(ErrorKind::RootBlock, b));
    }
    let new = order.iter().map(|&i| iters[i as usize]).collect();
    state.func.block_mut(b).iters = new;
    Ok(Outcome::none())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const SUM: &str = r#"
def main(A: T.Buffer((2, 4, 8)), B: T.Buffer((2, 4))):
    for i, j, k in T.grid(2, 4, 8):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
"#;

    #[test]
    fn the_numbers_name_old_positions() {
        check(
            SUM,
            |t| {
                let (block, loops) = (t.block("B"), t.loops("B"));
                t.python("sch.reorder_block_iter_var('B', [2, 0, 1])")?;
                assert!(t.is_alive(block) && loops.iter().all(|&l| t.is_alive(l)));
                Ok(())
            },
            &SUM.replace(
                "vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])",
                "vk, vi, vj = T.axis.remap(\"RSS\", [k, i, j])",
            ),
        );
    }

    #[test]
    fn an_order_may_be_the_old_one_or_empty() {
        check(SUM, |t| t.python("sch.reorder_block_iter_var('B', [0, 1, 2])"), SUM);
        let without = SUM.to_string() + "    with T.block(\"A\"):\n        A[0, 0, 0] = T.float32(1)\n";
        check(&without, |t| t.python("sch.reorder_block_iter_var('A', [])"), &without);
    }

    #[test]
    fn each_position_is_named_once() {
        for order in ["[0, 1]", "[0, 1, 2, 3]", "[0, 1, 1]", "[1, 2, 3]", "[-1, 0, 1]", "[]"] {
            let steps = format!("sch.reorder_block_iter_var('B', {order})");
            refuse(SUM, |t| t.python(&steps), "InvalidReorderIndex");
        }
    }

    #[test]
    fn the_root_has_no_order() {
        refuse(SUM, |t| t.python("sch.reorder_block_iter_var('root', [])"), "RootBlockError");
    }
}
