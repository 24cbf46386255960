//! # `storage_align`
//!
//! Requests an alignment of a dimension, as an annotation.
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
//!     sch.storage_align("B", 0, -2, 32, 8)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
//!     B = T.sblock_alloc_buffer((4, 8))
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("B"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
//!             B[vi, vj] = A[vi, vj] * T.float32(2.0)
//!     for i, j in T.grid(4, 8):
//!         with T.sblock("C"):
//!             vi, vj = T.axis.remap("SS", [i, j])
//!             C[vi, vj] = B[vi, vj] + T.float32(1.0)
//! ```
//!
//! Lowering lays out the buffer accordingly: strides are rounded up from the last axis on, after compaction of the
//! buffer. With `storage_align(pad, 0, -2, 16, 0)` the rows of a padded copy of `float32` start at cache lines.
//!
//! * Requires: the block writes an allocated buffer; the axis exists; a positive factor.
//! * Errors: `BufferIndexOutOfRangeError`, `NonAllocatedBufferError`, `StorageAlignAxisOutOfRangeError`,
//!   `StorageAlignInvalidFactorError`, `StorageAlignInvalidAnnotationError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! Requests an alignment of a dimension of a buffer, as an annotation of the block that writes it.
//!
//! ```text
//! with T.block("B"):
//!     T.block_attr({"buffer_dim_align": [[0, 1, 32, 8]]})  # buffer, axis, factor, offset
//! ```
//!
//! The stride of the dimension becomes `k * factor + offset`. A request replaces an earlier one for the same buffer and
//! axis.
//!
//! Requires: the block writes the buffer at that index, an enclosing block allocates the buffer, the axis exists (from
//! the end if negative), the factor is positive. Preserves: everything. Returns: nothing.
//!
//! Handles: persist.

use super::super::analysis::alloc_site::require_alloc_site;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::alignment::{DIM_ALIGN, DimAlign};

/// `storage_align(block, buffer_index, axis, factor, offset)`.
pub(crate) static STORAGE_ALIGN: Kind = Kind {
    name: "StorageAlign",
    method: "storage_align",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("buffer_index", Ty::BufferIndex),
        Param::attr("axis", Ty::Int),
        Param::attr("factor", Ty::Int),
        Param::attr("offset", Ty::Int),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (index, block) = call.block(0)?;
    let position = call.buffer_index(1, index, block, Access::Write)?;
    let (axis, factor, offset) = (call.int(2)?, call.int(3)?, call.int(4)?);
    let state = call.state(index);
    let func = &state.func;
    let buffer = func.block(block).writes[position].buffer;
    if factor <= 0 {
        return Err(state.error(ErrorKind::StorageAlignInvalidFactor { factor }, block));
    }
    let rank = func.arena.list(func.arena.buffer(buffer).shape).len();
    if axis < -(rank as i64) || axis >= rank as i64 {
        return Err(state.error(ErrorKind::StorageAlignAxisOutOfRange { axis, rank }, block));
    }
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    require_alloc_site(state, block, buffer)?;
    let mut requests = match func.block(block).annotations.get(DIM_ALIGN) {
        None => Vec::new(),
        Some(annotation) => {
            DimAlign::read(annotation).ok_or_else(|| state.error(ErrorKind::StorageAlignInvalidAnnotation, block))?
        }
    };

    let request = DimAlign { buffer: position as i64, axis, factor, offset };
    match requests.iter_mut().find(|r| (r.buffer, r.axis) == (request.buffer, request.axis)) {
        Some(same) => *same = request,
        None => requests.push(request),
    }
    call.state(index).func.block_mut(block).annotations.insert(DIM_ALIGN, DimAlign::write(&requests));
    Ok(Outcome::none())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    fn program(attribute: &str) -> String {
        format!(
            r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
{attribute}            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"#
        )
    }

    fn aligned(requests: &str) -> String {
        program(&format!("            T.block_attr({{\"buffer_dim_align\": {requests}}})\n"))
    }

    #[test]
    fn the_block_asks_for_the_alignment() {
        check(
            &program(""),
            |t| {
                let (block, loops) = (t.block("B"), t.loops("B"));
                t.python("sch.storage_align('B', 0, 0, 32, 8)")?;
                assert!(t.is_alive(block) && loops.iter().all(|&l| t.is_alive(l)));
                Ok(())
            },
            &aligned("[[0, 0, 32, 8]]"),
        );
        check(&program(""), |t| t.python("sch.storage_align('B', 'B', 1, 1, 0)"), &aligned("[[0, 1, 1, 0]]"));
    }

    #[test]
    fn negative_axes_count_from_the_end() {
        check(&program(""), |t| t.python("sch.storage_align('B', 0, -2, 16, 0)"), &aligned("[[0, 0, 16, 0]]"));
        check(&program(""), |t| t.python("sch.storage_align('B', 0, -1, 16, 0)"), &aligned("[[0, 1, 16, 0]]"));
    }

    #[test]
    fn a_request_joins_others_and_replaces_one_for_the_same_axis() {
        let steps = "sch.storage_align('B', 0, 0, 32, 8)\nsch.storage_align('B', 0, 1, 4, 0)\n";
        check(&program(""), |t| t.python(steps), &aligned("[[0, 0, 32, 8], [0, 1, 4, 0]]"));
        let again = format!("{steps}sch.storage_align('B', 0, -2, 64, 1)");
        check(&program(""), |t| t.python(&again), &aligned("[[0, 0, 64, 1], [0, 1, 4, 0]]"));
    }

    #[test]
    fn refusals() {
        for (arguments, class) in [
            ("'B', 1, 0, 32, 8", "BufferIndexOutOfRangeError"),
            ("'B', 'A', 0, 32, 8", "ValueError"),
            ("'C', 0, 0, 32, 8", "NonAllocatedBufferError"),
            ("'B', 0, 2, 32, 8", "StorageAlignAxisOutOfRangeError"),
            ("'B', 0, -3, 32, 8", "StorageAlignAxisOutOfRangeError"),
            ("'B', 0, 0, 0, 8", "StorageAlignInvalidFactorError"),
            ("'B', 0, 0, -4, 8", "StorageAlignInvalidFactorError"),
        ] {
            let steps = format!("sch.storage_align({arguments})");
            refuse(&program(""), |t| t.python(&steps), class);
        }
        let annotated = "sch.annotate('B', 'buffer_dim_align', 3)\nsch.storage_align('B', 0, 0, 32, 8)";
        refuse(&program(""), |t| t.python(annotated), "StorageAlignInvalidAnnotationError");
    }
}
