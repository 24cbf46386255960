//! Schedules as texts: a function that calls methods of a schedule, or a schedule of tensor expressions.

use super::program::Program;
use crate::diagnostic::{Diagnostics, Source};
use crate::schedule::Schedule;
use crate::schedule_function::{FunctionError, ScheduleFunction};
use crate::script::Dialect;
use crate::space::sample::{ScheduleSource, SourceError};
use crate::te_function::{TeSchedule, WorkloadChoice};

/// A schedule in Python, ready to be applied any number of times.
pub enum ScheduleText {
    /// A trace, or a function that calls methods of `sch`.
    Function(ScheduleFunction),
    /// A schedule of tensor expressions, or a template.
    Te(TeSchedule),
}

impl ScheduleText {
    /// Reads a text. `wanted` chooses the function of a text with tensor expressions, and gives it its arguments.
    ///
    /// # Errors
    /// The text has mistakes.
    pub fn parse(text: &str, name: &str, wanted: WorkloadChoice<'_>) -> Result<ScheduleText, Diagnostics> {
        Ok(match TeSchedule::is_in(text) {
            true => ScheduleText::Te(TeSchedule::parse(text, name, wanted)?),
            false => ScheduleText::Function(ScheduleFunction::parse(text, name)?),
        })
    }

    /// Reads the text of a file, which may be the one that defines a program: then it is the function that was asked for there.
    ///
    /// # Errors
    /// The text has mistakes.
    pub fn for_program(text: &str, name: &str, program: Option<&Program>) -> Result<ScheduleText, Diagnostics> {
        let own = program.and_then(|p| p.origin.as_ref().filter(|o| o.text == text));
        let wanted = own.map_or(WorkloadChoice::default(), |o| o.wanted());
        ScheduleText::parse(text, name, wanted)
    }

    /// The text with its name, for rendering diagnostics.
    pub fn source(&self) -> Source<'_> {
        match self {
            ScheduleText::Function(f) => f.source(),
            ScheduleText::Te(f) => f.source(),
        }
    }

    /// Applies the schedule. It draws the decisions that the text leaves open.
    ///
    /// # Errors
    /// An instruction was refused, or there is another mistake.
    pub fn apply(&self, schedule: &mut Schedule) -> Result<(), FunctionError> {
        match self {
            ScheduleText::Function(f) => f.apply(schedule),
            ScheduleText::Te(f) => f.apply(schedule),
        }
    }

    /// Applies the schedule with the decisions that its text records, if it does.
    ///
    /// # Errors
    /// As for [`ScheduleText::apply`]; also, a decision does not fit.
    pub fn apply_as_recorded(&self, schedule: &mut Schedule) -> Result<(), FunctionError> {
        match self {
            ScheduleText::Function(f) => f.apply_as_recorded(schedule),
            ScheduleText::Te(f) => f.apply(schedule),
        }
    }

    /// Renders an error of [`ScheduleText::apply`]. The schedule must be as the error left it.
    pub fn render_error(&self, error: &FunctionError, schedule: &Schedule, dialect: Dialect, color: bool) -> String {
        match self {
            ScheduleText::Function(f) => f.render_error(error, schedule, dialect, color),
            ScheduleText::Te(f) => f.render_error(error, schedule, dialect, color),
        }
    }
}

impl ScheduleSource for ScheduleText {
    fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError> {
        ScheduleText::apply(self, sch).map_err(|e| match e.refused {
            Some(refused) => SourceError::Schedule(*refused),
            None => SourceError::Function(e.diagnostic.message),
        })
    }
}
