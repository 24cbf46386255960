//! # `enter_postproc`
//!
//! Marks where the search space ends and postprocessing begins.
//!
//! * Requires: nothing.
//! * Errors: –.
//! * Handles: persists: all.
//!
//! # Implementation
//!
//! `enter_postproc`: marks the end of the search space. Postprocessors added the following instructions. Changes
//! nothing.

use super::super::kind::{Kind, Outcome, Outputs};

/// `enter_postproc()`.
pub(crate) static ENTER_POSTPROC: Kind = Kind {
    name: "EnterPostproc",
    method: "enter_postproc",
    classic: None,
    positional: false,
    params: &[],
    outputs: Outputs::None,
    samples: false,
    run: |_| Ok(Outcome::none()),
};

#[cfg(test)]
mod tests {
    use super::super::testing::check;

    #[test]
    fn only_the_trace_shows_the_mark() {
        let program = "def main(A: T.Buffer((4,))):\n    for i in range(4):\n        with T.block(\"A\"):\n            \
                       vi = T.axis.spatial(4, i)\n            A[vi] = T.float32(1)\n";
        check(
            program,
            |t| {
                let loops = t.loops("A");
                t.python("sch.enter_postproc()")?;
                assert!(t.is_alive(loops[0]));
                let kinds: Vec<&str> = t.sch.trace().insts.iter().map(|inst| inst.kind.name).collect();
                assert_eq!(kinds, ["GetSBlock", "GetLoops", "EnterPostproc"]);
                Ok(())
            },
            program,
        );
    }
}
