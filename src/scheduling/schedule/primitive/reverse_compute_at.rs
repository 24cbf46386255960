//! # `reverse_compute_at`
//!
//! Moves a consumer under a loop of its producers.
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
//!     i, j = sch.get_loops("B")
//!     sch.reverse_compute_at("C", i)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
//!     B = T.sblock_alloc_buffer((4, 8))
//!     for i in range(4):
//!         for j in range(8):
//!             with T.sblock("B"):
//!                 vi, vj = T.axis.remap("SS", [i, j])
//!                 B[vi, vj] = A[vi, vj] * T.float32(2.0)
//!         for ax0 in range(8):
//!             with T.sblock("C"):
//!                 vi, vj = T.axis.remap("SS", [i, ax0])
//!                 C[vi, vj] = B[vi, vj] + T.float32(1.0)
//! ```
//!
//! * Requires: as `compute_at`, with the roles exchanged; outputs may move.
//! * Errors: as `compute_at`; `LostInstancesError`, `LostPredicateError`, `RepeatedReductionError`,
//!   `ParallelReductionError`, `EarlyReadError`.
//! * Handles: dies: loops left empty; persists: the block, other loops; created: the block's new loops.
//! * Refused, though TVM accepts it: moves that lose instances or a predicate, that run a reduction twice or its steps
//!   concurrently, that read a tile before it is complete, or that pass a block that depends on the moved one.
//!
//! # Implementation
//!
//! `reverse_compute_at`: moves a consumer under a loop of its producers, where it uses the elements that they compute.
//!
//! ```text
//! for i, j in T.grid(128, 128): B[i, j] = A[i, j] * 2
//! for i, j in T.grid(128, 128): C[i, j] = B[i, j] + 1
//! // becomes, with sch.reverse_compute_at(block=C, loop=i of B)
//! for i in range(128):
//!     for j in range(128): B[i, j] = A[i, j] * 2
//!     for ax0 in range(128): C[i, ax0] = B[i, ax0] + 1
//! ```
//!
//! New loops, predicate, `preserve_unit_loops`, `index` and special places are as in [`compute_at`](super::compute_at),
//! but "inline" means `reverse_compute_inline`. The block iterates over the instances that read the elements written
//! under the loop.
//!
//! Requires: the requirements of `compute_at` with the roles of producers and consumers exchanged, except that the
//! block may be an output. Preserves: what the block computes. Handles: as `compute_at`.

use super::super::kind::{Kind, Outputs};
use super::compute_at::{Direction, PARAMS, run};

/// `reverse_compute_at(block, loop, preserve_unit_loops=False, index=-1)`.
pub(crate) static REVERSE_COMPUTE_AT: Kind = Kind {
    name: "ReverseComputeAt",
    method: "reverse_compute_at",
    classic: None,
    positional: false,
    params: PARAMS,
    outputs: Outputs::None,
    samples: false,
    run: |call| run(call, Direction::ToProducers),
};

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, check, refuse};

    #[test]
    fn a_producer_does_not_move_past_its_consumer() {
        refuse(
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = A[vi]
"#,
            |t| {
                t.python(
                    "sch.reverse_compute_at(sch.get_block('B', 'main'), sch.get_loops(sch.get_block('D', 'main'))[0])",
                )
            },
            "DependenceOrderError",
        );
    }

    #[test]
    fn instances_that_did_not_run_must_not_run() {
        refuse(
            r#"
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(2, 8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"#,
            |t| {
                let (block, loops) = (t.block("C"), t.loops("B"));
                t.sch.reverse_compute_at(block, loops[0], true)
            },
            "NewInstancesError",
        );
    }

    const ROW_SUMS: &str = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
"#;

    #[test]
    fn steps_of_a_reduction_must_not_run_at_the_same_time() {
        refuse(
            ROW_SUMS,
            |t| {
                t.python(
                    "i, j = sch.get_loops(sch.get_block('B', 'main'))
                     sch.parallel(j)
                     sch.reverse_compute_at(sch.get_block('C', 'main'), j)",
                )
            },
            "ParallelReductionError",
        );
    }

    #[test]
    fn a_tile_must_be_written_before_it_is_read() {
        refuse(
            &ROW_SUMS
                .replace("\"SR\"", "\"SS\"")
                .replace("C[vi]", "C[vi, vk]")
                .replace("C: T.Buffer((4,))", "C: T.Buffer((4, 8))")
                .replace("            with T.init():\n                C[vi, vk] = T.float32(0)\n", "")
                .replace("C[vi, vk] + B", "B"),
            |t| {
                t.python(
                    "i, k = sch.get_loops(sch.get_block('C', 'main'))
                     k0, k1 = sch.split(k, [4, 2])
                     tile = sch.blockize(k1)
                     sch.reverse_compute_at(tile, sch.get_loops(sch.get_block('B', 'main'))[1])",
                )
            },
            "EarlyReadError",
        );
    }

    const CHAIN: &str = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"#;

    #[test]
    fn the_consumer_uses_what_an_iteration_of_the_loop_makes() {
        check(
            CHAIN,
            |t| {
                let (block, old, theirs) = (t.block("C"), t.loops("C"), t.loops("B"));
                t.sch.reverse_compute_at(block, theirs[0], false)?;
                assert!(t.is_alive(block) && theirs.iter().all(|&l| t.is_alive(l)));
                assert!(old.iter().all(|&l| !t.is_alive(l)));
                let now = t.loops("C");
                assert_eq!(t.names(&now), ["i", "ax0"]);
                Ok(())
            },
            r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i in range(4):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for ax0 in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, ax0])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"#,
        );
    }

    #[test]
    fn variables_of_one_value_get_a_loop_only_on_request() {
        let names = |arguments: &str| {
            let mut t = Test::new(CHAIN);
            t.python(&format!("i, j = sch.get_loops('B')\nsch.reverse_compute_at('C', j{arguments})")).expect("a move");
            let loops = t.loops("C");
            t.names(&loops)
        };
        assert_eq!(names(""), ["i", "j"]);
        assert_eq!(names(", preserve_unit_loops=True"), ["i", "j", "ax0", "ax1"]);
    }

    #[test]
    fn refused_places() {
        let loops = "i, j = sch.get_loops('B')\np, q = sch.get_loops('C')\n";
        for (steps, class) in [
            ("sch.reverse_compute_at('root', i)", "RootBlockError"),
            ("sch.reverse_compute_at('C', p)", "NotInSameScopeError"),
            ("sch.reverse_compute_at('C', i, index=2)", "InternalError"),
        ] {
            refuse(CHAIN, |t| t.python(&format!("{loops}{steps}")), class);
        }
        let two = CHAIN.replace("+ T.float32(1)", "+ D[vi, vj]").replace(
            "    for i, j in T.grid(4, 8):\n        with T.block(\"C\")",
            "    D = T.alloc_buffer((4, 8))\n    for i, j in T.grid(4, 8):\n        with T.block(\"D\"):\n            \
             vi, vj = T.axis.remap(\"SS\", [i, j])\n            D[vi, vj] = A[vi, vj]\n    for i, j in T.grid(4, 8):\n        \
             with T.block(\"C\")",
        );
        let steps = format!("{loops}sch.reverse_compute_at('C', i)");
        refuse(&two, |t| t.python(&steps), "NotAllRequiredBlocksAreVisitedError");
    }
}
