//! # `unsafe_hide_buffer_access`
//!
//! Removes regions from the declared accesses of a block. Later checks no longer see them, hence the name.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), s: T.Buffer(1), C: T.Buffer(32)):
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = A[vi] * s[0]
//!
//! def steps(sch):
//!     sch.unsafe_hide_buffer_access("C", "read", [1])
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,), "float32"), s: T.Buffer((1,), "float32"), C: T.Buffer((32,), "float32")):
//!     # with T.sblock("root"):
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             T.reads(A[vi])
//!             T.writes(C[vi])
//!             C[vi] = A[vi] * s[0]
//! ```
//!
//! * Requires: the positions exist.
//! * Errors: `BufTypeError`, `InvalidIndexError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! Removes regions from the declared reads or writes of a block.
//!
//! ```text
//! T.reads(A[vi], B[vi])
//! # becomes, hiding read 1
//! T.reads(A[vi])
//! ```
//!
//! Checks of later instructions no longer see the access; hence the name.
//!
//! Requires: the indices exist. Preserves: what the block computes. Returns: nothing.
//!
//! Handles: persist.

use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::BufferRegion;

/// `unsafe_hide_buffer_access(block, buf_type, buf_index_array)`.
pub(crate) static UNSAFE_HIDE_BUFFER_ACCESS: Kind = Kind {
    name: "UnsafeHideBufferAccess",
    method: "unsafe_hide_buffer_access",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::input("buf_type", Ty::Str),
        Param::input("buf_index_array", Ty::Ints),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (index, block) = call.block(0)?;
    let found = call.str(1)?;
    let hidden = call.ints(2)?;
    let state = call.state(index);
    let access = Access::parse(found).ok_or_else(|| state.error(ErrorKind::BufType { found }, block))?;
    let regions = access.regions(state.func.block(block));
    let count = regions.len();
    if let Some(&index) = hidden.iter().find(|&&i| i < 0 || i >= count as i64) {
        return Err(state.error(ErrorKind::InvalidAccessIndex { index, count }, block));
    }

    let numbered = regions.iter().zip(0i64..);
    let kept: Vec<BufferRegion> = numbered.filter(|(_, i)| !hidden.contains(i)).map(|(r, _)| *r).collect();
    let node = state.func.block_mut(block);
    match access {
        Access::Read => node.reads = kept,
        Access::Write => node.writes = kept,
    }
    Ok(Outcome::none())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    fn program(reads: &str, writes: &str) -> String {
        format!(
            r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,)), E: T.Buffer((8,))):
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            T.reads({reads})
            T.writes({writes})
            D[vi] = A[vi] + B[vi]
            E[vi] = B[vi] * C[vi]
"#
        )
    }

    fn check_hidden(arguments: &str, reads: &str, writes: &str) {
        let steps = format!("sch.unsafe_hide_buffer_access('D', {arguments})");
        let before = program("A[vi], B[vi], C[vi]", "D[vi], E[vi]");
        check(&before, |t| t.python(&steps), &program(reads, writes));
    }

    #[test]
    fn the_regions_at_these_positions_go() {
        check_hidden("'read', [1]", "A[vi], C[vi]", "D[vi], E[vi]");
        check_hidden("'read', [2, 0]", "B[vi]", "D[vi], E[vi]");
        check_hidden("'write', [0]", "A[vi], B[vi], C[vi]", "E[vi]");
    }

    #[test]
    fn all_or_none_may_go() {
        check_hidden("'read', [0, 1, 2]", "", "D[vi], E[vi]");
        check_hidden("'read', [1, 1]", "A[vi], C[vi]", "D[vi], E[vi]");
        check_hidden("'write', []", "A[vi], B[vi], C[vi]", "D[vi], E[vi]");
    }

    #[test]
    fn refusals() {
        for (arguments, class) in [
            ("'reads', [0]", "BufTypeError"),
            ("'read', [3]", "InvalidIndexError"),
            ("'read', [0, -1]", "InvalidIndexError"),
            ("'write', [2]", "InvalidIndexError"),
        ] {
            let steps = format!("sch.unsafe_hide_buffer_access('D', {arguments})");
            refuse(&program("A[vi], B[vi], C[vi]", "D[vi], E[vi]"), |t| t.python(&steps), class);
        }
    }
}
