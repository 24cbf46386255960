//! What a user asks for, from text to result: programs, options and databases are read and checked, and mistakes come with the
//! text that a user sees.
//!
//! The command line and the Python package share it, so that both take the same programs and say the same. It prints nothing:
//! what a user should know besides the result goes to [`Notices`], and progress to a [`crate::tune::events::Observer`].
//!
//! | file | content |
//! | --- | --- |
//! | [`error`] | why a request failed |
//! | [`program`] | reading programs, choosing functions |
//! | [`shapes`], [`elements`] | what is said of the inputs of graphs: shapes, elements |
//! | [`models`] | graphs that run in this process |
//! | [`records`] | the best records of functions |
//! | [`schedule`] | schedules as texts |
//! | [`space`] | the search space that a name or a file means |
//! | [`setting`] | the setting of this machine |
//! | [`databases`] | opening databases that must exist |
//! | [`import`](mod@import) | schedules of other tuners' logs |
//! | [`tuning`] | tuning the functions of a program; start here |
//! | [`building`], [`graph_building`] | building libraries of native code |
//! | [`weights`] | the weights of models that are built |
//! | [`verdict`] | whether a finished run found what was asked for |
//! | [`status`] | a line about the progress of a run |

pub mod building;
pub mod databases;
pub mod elements;
mod error;
pub mod graph_building;
pub mod import;
pub mod models;
pub mod program;
pub mod records;
pub mod schedule;
pub mod setting;
pub mod shapes;
pub mod space;
mod status;
pub mod tuning;
pub mod verdict;
pub mod weights;

pub use error::Error;
pub use status::Status;

use crate::diagnostic::Diagnostics;

/// Receives what a user should know besides the result.
pub trait Notices {
    /// A remark.
    fn note(&self, text: &str);

    /// A warning.
    fn warn(&self, text: &str);

    /// The warnings about a program.
    fn diagnostics(&self, found: &Diagnostics);

    /// Whether texts may have colours.
    fn color(&self) -> bool {
        false
    }
}
