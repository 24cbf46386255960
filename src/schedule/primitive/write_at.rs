//! Lets the blocks under a loop write a copy of a buffer, which is copied back behind the last of them.
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
//! Requires: what [`read_at`](super::read_at) requires, with the roles of reading and writing exchanged; all writers under
//! the loop write the same box, without gaps, so that nothing is copied back that was not written. Preserves: the buffer's
//! contents. Returns: the copy.
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
    use super::super::testing::check;

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
}
