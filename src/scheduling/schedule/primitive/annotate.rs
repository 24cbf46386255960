//! Annotations of loops and blocks: `annotate` and `unannotate`.
//!
//! # `annotate`
//!
//! Annotates a loop or block. An existing key silently keeps its value.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.annotate(i, "pragma_unroll_explicit", 1)
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i in T.serial(30, annotations={"pragma_unroll_explicit": 1}):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: nothing.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # `unannotate`
//!
//! Removes an annotation.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer(30), B: T.Buffer(30)):
//!     for i in T.serial(30, annotations={"pragma_unroll_explicit": 1}):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * 2.0
//!
//! def steps(sch):
//!     (i,) = sch.get_loops("B")
//!     sch.unannotate(i, "pragma_unroll_explicit")
//!
//! @T.prim_func(s_tir=True)
//! def after(A: T.Buffer((30,)), B: T.Buffer((30,))):
//!     for i in range(30):
//!         with T.sblock("B"):
//!             vi = T.axis.spatial(30, i)
//!             B[vi] = A[vi] * T.float32(2.0)
//! ```
//!
//! * Requires: the key exists.
//! * Errors: `IndexError`.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! ```text
//! sch.annotate(block_or_loop=b0, ann_key="pragma_unroll", ann_val=1)
//! ```
//!
//! Requires nothing of the program. An existing key silently keeps its old value, as in TVM; `unannotate` requires that
//! the key exists. No handle dies.

use super::super::call::{BlockOrLoop, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::{Annotations, AttrValue};

/// `annotate(block_or_loop, ann_key, ann_val)`.
pub(crate) static ANNOTATE: Kind = Kind {
    name: "Annotate",
    method: "annotate",
    classic: None,
    positional: false,
    params: &[
        Param::input("block_or_loop", Ty::BlockOrLoop),
        Param::attr("ann_key", Ty::Str),
        Param::input("ann_val", Ty::Value),
    ],
    outputs: Outputs::None,
    samples: false,
    run: annotate,
};

/// `unannotate(block_or_loop, ann_key)`.
pub(crate) static UNANNOTATE: Kind = Kind {
    name: "Unannotate",
    method: "unannotate",
    classic: None,
    positional: false,
    params: &[Param::input("block_or_loop", Ty::BlockOrLoop), Param::attr("ann_key", Ty::Str)],
    outputs: Outputs::None,
    samples: false,
    run: unannotate,
};

/// Annotations with boolean values. TVM's traces in Python write 1 for `True`, those in JSON write `true`.
const TRUTH_VALUES: [&str; 2] = ["auto_copy", "meta_schedule.layout_rewrite_preproc"];

fn annotations<'a>(call: &'a mut Call<'_>, func: usize, target: BlockOrLoop) -> &'a mut Annotations {
    let f = &mut call.state(func).func;
    match target {
        BlockOrLoop::Block(b) => &mut f.block_mut(b).annotations,
        BlockOrLoop::Loop(l) => &mut f.loop_mut(l).annotations,
    }
}

fn annotate(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.block_or_loop(0)?;
    let key = call.str(1)?;
    let value = match call.attr_value(func, &call.args[2])? {
        AttrValue::Int(v @ (0 | 1)) if TRUTH_VALUES.contains(&key.as_str()) => AttrValue::Bool(v == 1),
        value => value,
    };
    let all = annotations(call, func, target);
    if all.get(key).is_none() {
        all.insert(key, value);
    }
    Ok(Outcome::none())
}

fn unannotate(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, target) = call.block_or_loop(0)?;
    let key = call.str(1)?;
    match annotations(call, func, target).remove(key) {
        Some(_) => Ok(Outcome::none()),
        None => Err(ScheduleError::new(ErrorKind::UnknownAnnotation { key }).at(func, target.stmt())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, refuse};

    #[test]
    fn a_truth_value_may_be_written_as_a_number() {
        let program = |attr: &str| {
            format!(
                r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
{attr}            B[vi] = A[vi]
"#
            )
        };
        let annotated = "            T.block_attr({\"key\": 1, \"meta_schedule.layout_rewrite_preproc\": True})\n";
        check(
            &program(""),
            |t| {
                t.python(
                    "b = sch.get_block('B', 'main')\nsch.annotate(b, 'key', 1)\n\
                     sch.annotate(b, 'meta_schedule.layout_rewrite_preproc', 1)",
                )
            },
            &program(annotated),
        );
    }

    /// A loop over a block, both with these annotations.
    fn program(of_loop: &str, of_block: &str) -> String {
        let of_loop =
            if of_loop.is_empty() { "range(8)".to_string() } else { format!("T.serial(8, annotations={{{of_loop}}})") };
        let of_block =
            if of_block.is_empty() { String::new() } else { format!("            T.block_attr({{{of_block}}})\n") };
        format!(
            r#"
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in {of_loop}:
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(B[vi])
{of_block}            B[vi] = A[vi]
"#
        )
    }

    fn steps(calls: &str) -> String {
        format!("b = sch.get_block('B')\ni, = sch.get_loops(b)\n{calls}")
    }

    #[test]
    fn loops_and_blocks_hold_values_of_all_kinds() {
        check(
            &program("", ""),
            |t| {
                let (block, loops) = (t.block("B"), t.loops("B"));
                t.python(&steps(
                    "sch.annotate(i, 'a', 'text')\nsch.annotate(i, 'b', [1, 2])\nsch.annotate(b, 'c', 0.5)",
                ))?;
                assert!(t.is_alive(block) && t.is_alive(loops[0]));
                Ok(())
            },
            &program("\"a\": \"text\", \"b\": [1, 2]", "\"c\": 0.5"),
        );
    }

    #[test]
    fn the_first_value_of_a_key_stays() {
        let twice = steps("sch.annotate(i, 'a', 1)\nsch.annotate(i, 'a', 2)");
        check(&program("", ""), |t| t.python(&twice), &program("\"a\": 1", ""));
        let again = format!("{}\nsch.unannotate(i, 'a')\nsch.annotate(i, 'a', 2)", steps("sch.annotate(i, 'a', 1)"));
        check(&program("", ""), |t| t.python(&again), &program("\"a\": 2", ""));
    }

    #[test]
    fn a_sampled_number_becomes_its_value() {
        let sampled = steps("v = sch.sample_categorical([3, 5], [0.5, 0.5], decision=1)\nsch.annotate(b, 'key', v)");
        check(&program("", ""), |t| t.python(&sampled), &program("", "\"key\": 5"));
    }

    #[test]
    fn unannotate_takes_one_key_away() {
        check(
            &program("\"a\": 1, \"b\": 2", "\"a\": 3"),
            |t| t.python(&steps("sch.unannotate(i, 'a')\nsch.unannotate(b, 'a')")),
            &program("\"b\": 2", ""),
        );
        for call in ["sch.unannotate(i, 'b')", "sch.unannotate(b, 'a')"] {
            refuse(&program("\"a\": 1", ""), |t| t.python(&steps(call)), "IndexError");
        }
    }

    #[test]
    fn values_are_no_loops() {
        refuse(
            &program("", ""),
            |t| {
                let (block, i) = (t.block("B"), t.loops("B")[0]);
                t.sch.annotate(block, "key", i)
            },
            "ValueError",
        );
    }
}
