//! A schedule on its way through the rules.

use crate::schedule::Schedule;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

/// A schedule, and what earlier rules noted for later ones. Notes are no part of the trace.
#[derive(Clone)]
pub struct Draft {
    /// The schedule.
    pub sch: Schedule,
    /// The blocks that were tiled.
    pub tiled: Vec<Tiled>,
}

/// What a rule that tiles says of a block.
#[derive(Clone, Debug)]
pub struct Tiled {
    /// The block.
    pub block: Rv,
    /// A loop under which the results of an iteration are complete, the innermost such: where a consumer finds them in
    /// registers or in the nearest cache.
    pub complete_at: Option<Rv>,
    /// The loop that goes through panels of the operands that are loaded as vectors. What it needs of them is used by
    /// everything below it.
    pub panel: Option<Rv>,
    /// Positions, among the block's reads, of the operands that packing may serve.
    pub packable: Vec<usize>,
    /// Those that are loaded as vectors, too, each element for too few results to be copied for its place alone.
    pub seldom: Vec<usize>,
}

impl Tiled {
    /// A block of which nothing else is known.
    pub fn new(block: Rv) -> Tiled {
        Tiled { block, complete_at: None, panel: None, packable: Vec::new(), seldom: Vec::new() }
    }
}

impl Draft {
    /// A schedule without notes.
    pub fn new(sch: Schedule) -> Draft {
        Draft { sch, tiled: Vec::new() }
    }

    /// What was noted of a block.
    pub fn tiled(&self, block: Rv) -> Option<&Tiled> {
        self.tiled.iter().find(|t| t.block == block)
    }

    /// Several schedules in place of this one, with the same notes.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn forks(
        self,
        f: impl FnOnce(Schedule) -> Result<Vec<Schedule>, ScheduleError>,
    ) -> Result<Vec<Draft>, ScheduleError> {
        let tiled = self.tiled;
        Ok(f(self.sch)?.into_iter().map(|sch| Draft { sch, tiled: tiled.clone() }).collect())
    }
}
