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
