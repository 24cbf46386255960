//! # `write_at`
//!
//! Redirects the stores of the blocks under a loop to a copy, which is copied back after the last of them.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((32, 8)), C: T.Buffer((32, 8))):
//!     for i_0, i_1, j in T.grid(4, 8, 8):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i_0 * 8 + i_1)
//!             vj = T.axis.spatial(8, j)
//!             C[vi, vj] = A[vi, vj] * 2.0
//!
//! def steps(sch):
//!     i_0, i_1, j = sch.get_loops("C")
//!     sch.write_at(i_0, "C", 0, "shared")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32, 8)), C: T.Buffer((32, 8))):
//!     C_shared = T.sblock_alloc_buffer((32, 8), scope="shared")
//!     for i_0 in range(4):
//!         for i_1, j in T.grid(8, 8):
//!             with T.sblock("C"):
//!                 vi = T.axis.spatial(32, i_0 * 8 + i_1)
//!                 vj = T.axis.spatial(8, j)
//!                 C_shared[vi, vj] = A[vi, vj] * T.float32(2.0)
//!         with T.sblock("C_shared"):
//!             v0 = T.axis.spatial(4, i_0)
//!             T.sblock_attr({"auto_copy": True})
//!             for ax0, ax1 in T.grid(8, 8):
//!                 C[v0 * 8 + ax0, ax1] = C_shared[v0 * 8 + ax0, ax1]
//! ```
//!
//! * Requires: as `read_at`; the written region is a box without gaps; no block there uses earlier contents of the
//!   buffer (except those that its own init has set).
//! * Errors: as `read_at`.
//! * Handles: persists: all; created: the copy block, its loops.
//! * Refused, though TVM accepts it: regions that are not written completely, or exceed the buffer.
//!
//! # Implementation
//!
//! Makes the blocks under a loop write to a copy of a buffer, which is copied back after the last of them.
//!
//! ```text
//! for i_0 in range(4):
//!     for i_1, j in T.grid(8, 32):
//!         with T.block("C"): C[vi, vj] = A[vi, vj]          # vi = i_0 * 8 + i_1
//! # becomes, with sch.write_at(loop=i_0, block=C, write_buffer_index=0, storage_scope="shared")
//! for i_0 in range(4):
//!     for i_1, j in T.grid(8, 32):
//!         with T.block("C"): C_shared[vi, vj] = A[vi, vj]
//!     with T.block("C_shared"):
//!         for ax0, ax1 in T.grid(8, 32):
//!             C[v0 * 8 + ax0, ax1] = C_shared[v0 * 8 + ax0, ax1]
//! ```
//!
//! Requires: the requirements of [`read_at`](super::read_at) with the roles of reading and writing exchanged; all
//! writers under the loop write the same box, without gaps, so that only written elements are copied back. Preserves:
//! the buffer's contents. Returns: the copy.
//!
//! Handles: as `read_at`.

use super::super::call::Access;
use super::super::kind::{Kind, Outputs, Param, Ty};
use super::read_at::run;

/// `write_at(loop, block, write_buffer_index, storage_scope)`.
pub(crate) static WRITE_AT: Kind = Kind {
    name: "WriteAt",
    method: "write_at",
    classic: None,
    positional: false,
    params: &[
        Param::input("loop", Ty::Loop),
        Param::input("block", Ty::Block),
        Param::attr("write_buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
    ],
    outputs: Outputs::Block,
    samples: false,
    run: |call| run(call, Access::Write),
};

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    #[test]
    fn a_part_is_copied_back() {
        check(
            r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"#,
            |t| t.python("b = sch.get_block('C', 'main')\nsch.write_at(sch.get_loops(b)[0], b, 0, 'local')"),
            r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    C_local = T.alloc_buffer((8, 6), scope="local")
    for i in range(8):
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C_local[vi, vj] = A[vi, vj]
        with T.block("C_local"):
            v0 = T.axis.spatial(8, i)
            T.reads(C_local[v0, 0:6])
            T.writes(C[v0, 0:6])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 6):
                C[v0 + ax0, ax1] = C_local[v0 + ax0, ax1]
"#,
        );
    }

    const UPDATE: &str = r#"
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            A[vi, 0] = T.float32(1)
"#;

    #[test]
    fn refusals() {
        let loops = "i, j = sch.get_loops('C')\n";
        for (arguments, class) in [
            ("i, 'D', 0, 'local'", "InternalError"),
            ("i, 'C', 1, 'local'", "BufferIndexOutOfRangeError"),
            ("i, 'C', 'A', 'local'", "ValueError"),
            ("i, 'C', 0, 'mine'", "InvalidStorageScopeError"),
        ] {
            let steps = format!("{loops}sch.write_at({arguments})");
            refuse(UPDATE, |t| t.python(&steps), class);
        }
        let write = format!("{loops}sch.write_at(i, 'C', 0, 'local')");
        for (from, to) in [
            // Elements that are not written would be copied back.
            ("            C[vi, vj] = A", "            T.where(j < 5)\n            C[vi, vj] = A"),
            ("C[vi, vj] = A", "C[vi, vj // 2 * 2] = A"),
            ("C[vi, vj] = A[vi, vj]", "C[vi, vj] = C[vi, vj] + A[vi, vj]"),
        ] {
            assert!(UPDATE.contains(from));
            refuse(&UPDATE.replace(from, to), |t| t.python(&write), "InternalError");
        }
    }
}
