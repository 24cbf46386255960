//! Producers that move, and what is refused.

use super::super::super::Schedule;
use super::super::testing::{Test, check, refuse};
use crate::script::{ParseOptions, parse};

/// A producer and a consumer.
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

/// The chain in one dimension, with the expression that the consumer reads.
fn vector(read: &str) -> String {
    format!(
        r#"
def main(A: T.Buffer((16,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {read}
"#
    )
}

/// The same chain with `compute_at` at the outer of the consumer's loops, 2 by 4, with this nest of the producer.
fn vector_in_parts(read: &str, nest: &str) -> String {
    format!(
        r#"
def main(A: T.Buffer((16,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((16,))
    for i_0 in range(2):
{nest}
        for i_1 in range(4):
            with T.block("C"):
                vi = T.axis.spatial(8, i_0 * 4 + i_1)
                C[vi] = {read}
"#
    )
}

const SPLIT_AND_MOVE: &str = "i, = sch.get_loops('C')\na, b = sch.split(i, [2, 4])\nsch.compute_at('B', a)";

#[test]
fn the_producer_computes_what_an_iteration_of_the_loop_reads() {
    check(
        CHAIN,
        |t| {
            let (block, old, theirs) = (t.block("B"), t.loops("B"), t.loops("C"));
            t.sch.compute_at(block, theirs[0], false)?;
            assert!(t.is_alive(block) && theirs.iter().all(|&l| t.is_alive(l)));
            assert!(old.iter().all(|&l| !t.is_alive(l)));
            let now = t.loops("B");
            assert_eq!(t.values(&now[..1]), t.values(&theirs[..1]));
            assert_eq!(t.names(&now), ["i", "ax0"]);
            Ok(())
        },
        r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i in range(4):
        for ax0 in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, ax0])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"#,
    );
}

#[test]
fn loops_that_hold_another_statement_live_on() {
    let shared = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i in range(4):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
"#;
    let mut t = Test::new(shared);
    let (block, old, theirs) = (t.block("B"), t.loops("B"), t.loops("C"));
    t.sch.compute_at(block, theirs[1], false).expect("the loop holds the only consumer");
    assert!(t.is_alive(old[0]) && !t.is_alive(old[1]));
    let now = t.loops("B");
    assert_eq!(t.values(&now), t.values(&theirs));
}

#[test]
fn windows_overlap_and_instances_beyond_the_domain_do_not_run() {
    let read = "B[vi] + B[vi + 2]";
    check(
        &vector(read),
        |t| t.python(SPLIT_AND_MOVE),
        &vector_in_parts(
            read,
            r#"
        for ax0 in range(6):
            with T.block("B"):
                vi = T.axis.spatial(16, i_0 * 4 + ax0)
                B[vi] = A[vi] * T.float32(2)
"#,
        ),
    );
    let read = "T.if_then_else(0 < vi, B[vi * 2 - 1], T.float32(0))";
    check(
        &vector(read),
        |t| t.python(SPLIT_AND_MOVE),
        &vector_in_parts(
            read,
            r#"
        for ax0 in range(7):
            with T.block("B"):
                vi = T.axis.spatial(16, i_0 * 8 - 1 + ax0)
                T.where(1 <= i_0 * 8 + ax0)
                B[vi] = A[vi] * T.float32(2)
"#,
        ),
    );
}

#[test]
fn variables_of_one_value_get_a_loop_only_on_request() {
    let steps = "i, j = sch.get_loops('C')\nsch.compute_at('B', j";
    check(
        CHAIN,
        |t| {
            t.python(&format!("{steps})"))?;
            let loops = t.loops("B");
            assert_eq!(t.names(&loops), ["i", "j"]);
            Ok(())
        },
        r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"#,
    );
    check(
        CHAIN,
        |t| t.python(&format!("{steps}, preserve_unit_loops=True)")),
        r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        for a, b in T.grid(1, 1):
            with T.block("B"):
                vi = T.axis.spatial(4, i + a)
                vj = T.axis.spatial(8, j + b)
                B[vi, vj] = A[vi, vj] * T.float32(2)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
"#,
    );
}

#[test]
fn the_index_is_a_position_among_the_statements() {
    let program = CHAIN
        .replace("    B = T.alloc", "    X = T.alloc_buffer((4, 8))\n    B = T.alloc")
        .replace(
            "    for i, j in T.grid(4, 8):\n        with T.block(\"C\")",
            "    for i, j in T.grid(4, 8):\n        with T.block(\"X\"):\n            vi, vj = T.axis.remap(\"SS\", [i, j])\n            \
             X[vi, vj] = A[vi, vj]\n    for i, j in T.grid(4, 8):\n        with T.block(\"C\")",
        )
        .replace("B[vi, vj] + T.float32(1)", "B[vi, vj] + X[vi, vj]");
    for (index, expected) in
        [("-1", ["X", "B", "C"]), ("-2", ["B", "X", "C"]), ("0", ["B", "X", "C"]), ("1", ["X", "B", "C"])]
    {
        let mut t = Test::new(&program);
        let i = t.loops("C")[0];
        let steps = format!("i, j = sch.get_loops('C')\nsch.compute_at('X', i)\nsch.compute_at('B', i, index={index})");
        t.python(&steps).expect("a possible position");
        let blocks = t.sch.get_child_blocks(i).expect("the loop is there");
        assert_eq!(t.names(&blocks), expected, "index {index}");
    }
    for index in ["2", "-3"] {
        let steps = format!("i, j = sch.get_loops('C')\nsch.compute_at('X', i)\nsch.compute_at('B', i, index={index})");
        refuse(&program, |t| t.python(&steps), "InternalError");
    }
}

#[test]
fn a_sum_moves_with_its_init() {
    check(
        r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + T.float32(1)
"#,
        |t| t.python("i, = sch.get_loops('C')\nsch.compute_at('B', i)"),
        r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4,))
    for i in range(4):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + T.float32(1)
"#,
    );
}

#[test]
fn extents_may_be_symbolic() {
    let symbolic = CHAIN.replace("(4, 8)", "(4, n)").replace("main(", "main(n: T.int32, ");
    let mut t = Test::new(&symbolic);
    t.python("i, j = sch.get_loops('C')\nsch.compute_at('B', i)").expect("each row is read as a whole");
    let loops = t.loops("B");
    assert_eq!(t.names(&loops), ["i", "ax0"]);
}

#[test]
fn sampled_places_leave_the_block_or_inline_it() {
    let at = |decision: i64| {
        format!("place = sch.sample_compute_location('B', decision={decision})\nsch.compute_at('B', place)")
    };
    check(CHAIN, |t| t.python(&at(-1)), CHAIN);
    check(
        CHAIN,
        |t| t.python(&at(-2)),
        r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4, 8))):
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)
"#,
    );
}

#[test]
fn refused_places() {
    let loops = "i, j = sch.get_loops('B')\np, q = sch.get_loops('C')\n";
    for (steps, class) in [
        ("sch.compute_at('root', p)", "RootBlockError"),
        ("sch.compute_at('C', i)", "OutputBlockError"),
        ("sch.compute_at('B', i)", "NotInSameScopeError"),
        ("sch.blockize(q)\nsch.compute_at('B', q)", "NotInSameScopeError"),
        ("sch.compute_at('B', p)\nsch.compute_at('B', i)", "ValueError"),
    ] {
        refuse(CHAIN, |t| t.python(&format!("{loops}{steps}")), class);
    }
}

#[test]
fn the_loop_is_of_the_same_function() {
    let func = |name: &str| {
        let body: String = CHAIN.replace("main", name).trim().lines().map(|line| format!("    {line}\n")).collect();
        format!("    @T.prim_func\n{body}")
    };
    let text = format!("@tvm.script.ir_module\nclass Module:\n{}{}", func("first"), func("second"));
    let module = parse(&text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
    let mut t = Test { sch: Schedule::new(&module, 0) };
    let steps = "block = sch.get_block('B', 'first')\ni, j = sch.get_loops(sch.get_block('C', 'second'))\n\
                 sch.compute_at(block, i)";
    assert_eq!(t.python(steps).map_err(|e| e.kind.class()), Err("ValueError"));
}

#[test]
fn all_consumers_are_under_the_loop_and_order_is_kept() {
    let other = "    for i, j in T.grid(4, 8):\n        with T.block(\"D\"):\n            vi, vj = T.axis.remap(\"SS\", [i, j])\n            \
                 D[vi, vj] = B[vi, vj]\n";
    let two = format!("{CHAIN}{other}").replace("main(", "main(D: T.Buffer((4, 8)), ");
    let to_c = "i, j = sch.get_loops('C')\nsch.compute_at('B', i)";
    refuse(&two, |t| t.python(to_c), "NotAllRequiredBlocksAreVisitedError");
    // `D` overwrites what `B` reads: `B` must not move past it.
    let between = other.replace("D[vi, vj] = B[vi, vj]", "A[vi, vj] = T.float32(3)");
    let at = CHAIN.rfind("    for i, j").expect("the second nest");
    let overwritten = format!("{}{between}{}", &CHAIN[..at], &CHAIN[at..]);
    refuse(&overwritten, |t| t.python(to_c), "NotStagePipelineError");
}

#[test]
fn refused_blocks() {
    let to_c = "sch.compute_at('B', sch.get_loops('C')[0])";
    // `C` reads rows that nothing writes.
    let part = CHAIN.replacen("T.grid(4, 8)", "T.grid(2, 8)", 1);
    refuse(&part, |t| t.python(to_c), "NotStagePipelineError");
    let update = CHAIN.replace("= A[vi, vj] * T.float32(2)", "= B[vi, vj] + A[vi, vj]");
    refuse(&update, |t| t.python(to_c), "NotCompleteOrReductionBlockError");
    let guarded = |condition: &str| {
        let (first, rest) = CHAIN.split_at(CHAIN.find("    for i").expect("the first nest"));
        let (nest, rest) = rest.split_at(rest.rfind("    for i").expect("the second nest"));
        let nest: String = nest.lines().map(|line| format!("    {line}\n")).collect();
        format!("{first}    {condition}:\n{nest}{rest}").replace("main(", "main(n: T.int32, ")
    };
    refuse(&guarded("if 0 < n"), |t| t.python(to_c), "ConditionalBlockError");
    refuse(&guarded("with T.LetStmt(n + 1) as m"), |t| t.python(to_c), "ConditionalBlockError");
    let inside = CHAIN.replacen(
        "        with T.block(\"B\"):\n            vi, vj = T.axis.remap(\"SS\", [i, j])\n            B",
        "        if j < 8:\n         with T.block(\"B\"):\n            vi, vj = T.axis.remap(\"SS\", [i, j])\n            B",
        1,
    );
    refuse(&inside, |t| t.python(to_c), "ConditionalBlockError");
}

#[test]
fn regions_must_be_solvable() {
    // Each instance says that it writes all: which ones are needed?
    let all = vector("B[vi]").replace(
        "            B[vi] =",
        "            T.reads(A[vi])\n            T.writes(B[0:16])\n            B[vi] =",
    );
    refuse(&all, |t| t.python("sch.compute_at('B', sch.get_loops('C')[0])"), "ValueError");
}

#[test]
fn a_predicate_of_a_reduction_would_be_lost() {
    let sum = r#"
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,))):
    B = T.alloc_buffer((4,))
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(k < 5)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + T.float32(1)
"#;
    refuse(sum, |t| t.python("sch.compute_at('B', sch.get_loops('C')[0])"), "LostPredicateError");
}
