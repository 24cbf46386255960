//! Parts of loops, and what is refused.

use super::super::testing::{Test, check, refuse};
use super::LoopId;
use crate::schedule::arg::{Arg, RvValue};

/// A loop over rows with a loop inside.
const ROWS: &str = r#"
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
    for i in range(10):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
"#;

/// The rows in these parts: from the first row to behind the last.
fn parts(ranges: &[(i64, i64)]) -> String {
    let part = |(n, &(start, end)): (usize, &(i64, i64))| {
        format!(
            r#"
        with T.block("B_i{n}_partition"):
            T.reads()
            T.writes()
            for i in range({start}, {end}):
                for j in range(4):
                    with T.block("B_i{n}"):
                        vi = T.axis.spatial(({start}, {end}), i)
                        vj = T.axis.spatial(4, j)
                        T.reads(A[{start}:{end}, 0:4])
                        T.writes(B[{start}:{end}, 0:4])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
"#
        )
    };
    let parts: String = ranges.iter().enumerate().map(part).collect();
    format!(
        r#"
def main(A: T.Buffer((10, 4)), B: T.Buffer((10, 4))):
  with T.block("root"):
    T.reads()
    T.writes()
    with T.block("B_i_common"):
        T.reads()
        T.writes()
{parts}"#
    )
}

fn partition(lengths: &str) -> String {
    format!("i, j = sch.get_loops('B')\nsch.loop_partition(i, {lengths})")
}

#[test]
fn lengths_are_of_consecutive_parts_and_the_rest_is_a_last_one() {
    for (lengths, ranges) in [
        ("[4, None]", &[(0, 4), (4, 10)][..]),
        ("[4]", &[(0, 4), (4, 10)]),
        ("[None, 4]", &[(0, 6), (6, 10)]),
        ("[2, None, 3]", &[(0, 2), (2, 7), (7, 10)]),
        ("[2, 3]", &[(0, 2), (2, 5), (5, 10)]),
    ] {
        check(ROWS, |t| t.python(&partition(lengths)), &parts(ranges));
    }
}

#[test]
fn a_part_may_be_one_iteration_or_all() {
    check(ROWS, |t| t.python(&partition("[1, None, 1]")), &parts(&[(0, 1), (1, 9), (9, 10)]));
    check(ROWS, |t| t.python(&partition("[None]")), &parts(&[(0, 10)]));
    check(ROWS, |t| t.python(&partition("[]")), &parts(&[(0, 10)]));
}

#[test]
fn the_loop_dies_with_all_inside_and_the_parts_are_returned() {
    let mut t = Test::new(ROWS);
    let (root, block, loops) = (t.block("root"), t.block("B"), t.loops("B"));
    let lengths = Arg::List(vec![4.into(), Arg::None]);
    let new = t.run("loop_partition", vec![loops[0].into(), lengths]).expect("the lengths fit");
    assert!(t.is_alive(root));
    assert!(!t.is_alive(block) && loops.iter().all(|&l| !t.is_alive(l)));
    assert_eq!(t.names(&new), ["i0", "i1"]);
    let range = |l: LoopId| {
        let func = t.sch.func(0);
        let node = func.loop_(l);
        (func.arena.as_int(node.min), func.arena.as_int(node.extent))
    };
    let ranges = t.values(&new).into_iter().map(|value| match value {
        RvValue::Loop(_, l) => range(l),
        other => panic!("{other:?} is no loop"),
    });
    assert_eq!(ranges.collect::<Vec<_>>(), [(Some(0), Some(4)), (Some(4), Some(6))]);
}

#[test]
fn bindings_that_are_more_than_the_loop_keep_their_domain() {
    let program = r#"
def main(A: T.Buffer((10,)), B: T.Buffer((10,))):
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, 9 - i)
            B[vi] = A[vi] * T.float32(2)
"#;
    let part = |n: usize, range: &str| {
        format!(
            r#"
        with T.block("B_i{n}_partition"):
            T.reads()
            T.writes()
            for i in range({range}):
                with T.block("B_i{n}"):
                    vi = T.axis.spatial(10, 9 - i)
                    B[vi] = A[vi] * T.float32(2)
"#
        )
    };
    check(
        program,
        |t| t.python("i, = sch.get_loops('B')\nsch.loop_partition(i, [3])"),
        &format!(
            r#"
def main(A: T.Buffer((10,)), B: T.Buffer((10,))):
  with T.block("root"):
    T.reads()
    T.writes()
    with T.block("B_i_common"):
        T.reads()
        T.writes()
{}{}"#,
            part(0, "3"),
            part(1, "3, 10")
        ),
    );
}

#[test]
fn refused_lengths() {
    for (lengths, class) in [
        ("[None, 2, None]", "NotSingleInferFactorError"),
        ("[0, None]", "NonPositiveFactorError"),
        ("[4, -1]", "NonPositiveFactorError"),
        ("[4, 6]", "WrongFactorError"),
        ("[11]", "WrongFactorError"),
        ("[9223372036854775807, 9223372036854775807]", "WrongFactorError"),
    ] {
        refuse(ROWS, |t| t.python(&partition(lengths)), class);
    }
}

#[test]
fn refused_loops() {
    let steps = partition("[4, None]");
    let with = |header: &str| ROWS.replace("range(10)", header);
    let symbolic = with("range(n)").replace("main(", "main(n: T.int32, ");
    refuse(&symbolic, |t| t.python(&steps), "SymbolicShapeError");
    let annotated = with("T.serial(10, annotations={\"key\": 1})");
    refuse(&annotated, |t| t.python(&steps), "HasAnnotationOrThreadBindingError");
    let bound = with("T.thread_binding(10, thread=\"threadIdx.x\")");
    refuse(&bound, |t| t.python(&steps), "HasAnnotationOrThreadBindingError");
    refuse(&with("range(1, 10)"), |t| t.python(&steps), "LoopNotStartWithZeroError");
    refuse(ROWS, |t| t.python(&format!("{steps}\nsch.loop_partition(i, [2])")), "ValueError");
}

#[test]
fn one_block_stands_below() {
    let other =
        "        with T.block(\"C\"):\n            vi = T.axis.spatial(10, i)\n            A[vi, 0] = T.float32(1)\n";
    refuse(&format!("{ROWS}{other}"), |t| t.python(&partition("[4]")), "NonSingleChildBlockError");
}

#[test]
fn parts_of_a_reduction_would_each_start_anew() {
    let sum = r#"
def main(A: T.Buffer((10, 4)), B: T.Buffer((10,))):
    for i, j in T.grid(10, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
"#;
    let of_reduction = "i, j = sch.get_loops('B')\nsch.loop_partition(j, [2])";
    refuse(sum, |t| t.python(of_reduction), "PartitionedReductionError");
    // All in one part, or parts of a spatial loop, are no harm.
    for steps in [of_reduction.replace("[2]", "[None]"), partition("[4]")] {
        let mut t = Test::new(sum);
        t.python(&steps).expect("each sum is in one part");
    }
}
