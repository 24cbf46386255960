//! # `set_scope`
//!
//! Changes the storage scope of a buffer.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(32), C: T.Buffer(32)):
//!     B = T.sblock_alloc_buffer(32)
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B[vi] = A[vi] * 2.0
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = B[vi] + 1.0
//!
//! def steps(sch):
//!     sch.set_scope("B", 0, "shared")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((32,)), C: T.Buffer((32,))):
//!     B_shared = T.sblock_alloc_buffer((32,), scope="shared")
//!     for i in range(32):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(32, i)
//!             B_shared[vi] = A[vi] * T.float32(2.0)
//!     for i in range(32):
//!         with T.sblock("C"):
//!             vi = T.axis.spatial(32, i)
//!             C[vi] = B_shared[vi] + T.float32(1.0)
//! ```
//!
//! * Requires: the block writes an allocated buffer; a known scope.
//! * Errors: `BufferIndexOutOfRangeError`, `NonAllocatedBufferError`, `InvalidStorageScopeError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! Moves a buffer to another storage scope.
//!
//! ```text
//! B = T.alloc_buffer((128, 128))
//! # becomes
//! B_shared = T.alloc_buffer((128, 128), scope="shared")
//! ```
//!
//! Requires: the block writes the buffer at that index, and an enclosing block allocates the buffer. Preserves:
//! everything else; views of the buffer change their scope, too. Returns: nothing.
//!
//! Handles: persist.

use super::super::analysis::alloc_site::{require_alloc_site, require_storage_scope, views_below};
use super::super::call::{Access, Call};
use super::super::error::ScheduleError;
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::BufferId;

/// `set_scope(block, buffer_index, storage_scope)`.
pub(crate) static SET_SCOPE: Kind = Kind {
    name: "SetScope",
    method: "set_scope",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("buffer_index", Ty::BufferIndex),
        Param::attr("storage_scope", Ty::Str),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (index, block) = call.block(0)?;
    let position = call.buffer_index(1, index, block, Access::Write)?;
    let scope = call.str(2)?;
    let state = call.state(index);
    let buffer = state.func.block(block).writes[position].buffer;
    if state.func.arena.buffer(buffer).scope == scope {
        return Ok(Outcome::none());
    }
    require_storage_scope(scope)?;
    let site = require_alloc_site(state, block, buffer)?;

    let func = &mut state.func;
    let moved: Vec<BufferId> = std::iter::once(buffer).chain(views_below(func, site.stmt(), buffer)).collect();
    for b in moved {
        func.arena.update_buffer(b, |buffer| {
            buffer.name = buffer.name.with_suffix(&format!("_{scope}"));
            buffer.scope = scope;
        });
    }
    Ok(Outcome::none())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    const CHAIN: &str = r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
"#;

    fn moved() -> String {
        CHAIN.replace("T.alloc_buffer((8,))", "T.alloc_buffer((8,), scope=\"shared\")")
    }

    #[test]
    fn the_buffer_moves_and_takes_the_scope_into_its_name() {
        check(
            CHAIN,
            |t| {
                let (block, reader) = (t.block("B"), t.block("C"));
                t.python("sch.set_scope('B', 0, 'shared')")?;
                assert!(t.is_alive(block) && t.is_alive(reader));
                let func = t.sch.func(0);
                let buffer = func.block(func.root).allocs[0];
                assert_eq!(func.arena.buffer(buffer).name.as_str(), "B_shared");
                Ok(())
            },
            &moved(),
        );
    }

    #[test]
    fn a_buffer_may_be_named_and_stay_where_it_is() {
        check(CHAIN, |t| t.python("sch.set_scope('B', 'B', 'shared')"), &moved());
        check(
            CHAIN,
            |t| {
                t.python("sch.set_scope('B', 0, 'global')")?;
                let func = t.sch.func(0);
                let buffer = func.block(func.root).allocs[0];
                assert_eq!(func.arena.buffer(buffer).name.as_str(), "B");
                Ok(())
            },
            CHAIN,
        );
    }

    #[test]
    fn views_go_along() {
        let with_view = |program: &str, scope: &str| {
            program.replace(
                "C[vi] = B[vi] + T.float32(1)",
                &format!(
                    "T.reads(B[vi])\n            T.writes(C[vi])\n            V = T.match_buffer(B[vi], (){scope}, \
                     offset_factor=1)\n            C[vi] = V[()] + T.float32(1)"
                ),
            )
        };
        check(
            &with_view(CHAIN, ""),
            |t| t.python("sch.set_scope('B', 0, 'shared')"),
            &with_view(&moved(), ", scope=\"shared\""),
        );
    }

    #[test]
    fn refusals() {
        for (arguments, class) in [
            ("'B', 1, 'shared'", "BufferIndexOutOfRangeError"),
            ("'B', -1, 'shared'", "BufferIndexOutOfRangeError"),
            ("'B', 'A', 'shared'", "ValueError"),
            ("'C', 0, 'shared'", "NonAllocatedBufferError"),
            ("'B', 0, 'sharde'", "InvalidStorageScopeError"),
        ] {
            let steps = format!("sch.set_scope({arguments})");
            refuse(CHAIN, |t| t.python(&steps), class);
        }
    }
}
