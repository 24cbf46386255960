//! # `get_loops`
//!
//! Returns the loops around a block up to the next block, outermost first.
//!
//! * Requires: a block that still exists.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! `get_loops`: the loops around a block, outermost first, up to the next block. Changes nothing.

use super::super::arg::RvValue;
use super::super::call::Call;
use super::super::error::ScheduleError;
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};

/// `get_loops(block)`.
pub(crate) static GET_LOOPS: Kind = Kind {
    name: "GetLoops",
    method: "get_loops",
    classic: None,
    positional: false,
    params: &[Param::input("block", Ty::Block)],
    outputs: Outputs::Loops,
    samples: false,
    run: get_loops,
};

fn get_loops(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (func, block) = call.block(0)?;
    let loops = call.state(func).func.loops_above(block.stmt());
    Ok(Outcome { outputs: loops.into_iter().map(|l| RvValue::Loop(func, l)).collect(), decision: None })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Test, refuse};

    const NESTED: &str = r#"
def main(A: T.Buffer((4, 8)), B: T.Buffer((4, 8)), C: T.Buffer((1,))):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            for j, k in T.grid(2, 4):
                with T.block("inner"):
                    vj = T.axis.spatial(8, j * 4 + k)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
    with T.block("C"):
        C[0] = T.float32(1)
"#;

    #[test]
    fn loops_come_outermost_first_up_to_the_next_block() {
        let mut t = Test::new(NESTED);
        for (block, expected) in [("inner", &["j", "k"][..]), ("outer", &["i"]), ("C", &[]), ("root", &[])] {
            let loops = t.loops(block);
            assert_eq!(t.names(&loops), expected, "loops of `{block}`");
        }
    }

    #[test]
    fn a_loop_is_the_same_under_each_handle() {
        let mut t = Test::new(NESTED);
        let (first, again) = (t.loops("inner"), t.loops("inner"));
        assert_ne!(first, again);
        assert_eq!(t.values(&first), t.values(&again));
    }

    #[test]
    fn other_loops_come_after_a_split() {
        let mut t = Test::new(NESTED);
        t.python("sch.split(sch.get_loops('outer')[0], [2, 2])").expect("the factors fit");
        let loops = t.loops("outer");
        assert_eq!(t.names(&loops), ["i_0", "i_1"]);
    }

    #[test]
    fn only_blocks_that_exist_have_loops() {
        refuse(
            NESTED,
            |t| {
                let i = t.loops("outer")[0];
                t.sch.get_loops(i).map(drop)
            },
            "ValueError",
        );
        let gone = "i, = sch.get_loops('outer')\nblock = sch.get_block('outer')\nsch.loop_partition(i, [2])\n\
                    sch.get_loops(block)";
        refuse(NESTED, |t| t.python(gone), "ValueError");
    }
}
