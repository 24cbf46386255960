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
