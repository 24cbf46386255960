//! A schedule that rules are working on.

use super::reason::Reason;
use crate::schedule::Schedule;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;

/// A schedule, and the notes of earlier rules for later ones. Notes are not part of the trace.
#[derive(Clone)]
pub struct Draft {
    /// The schedule.
    pub sch: Schedule,
    /// The blocks that were tiled.
    pub tiled: Vec<Tiled>,
    /// The operands whose windows were copied side by side.
    pub unfolded: Vec<Unfolded>,
    /// The operands whose columns lie apart by their remainders.
    pub deinterleaved: Vec<Deinterleaved>,
    /// Blocks for which a rule found nothing to choose, each with the first reason.
    reasons: Vec<(Rv, Reason)>,
}

/// A copy of windows, one column or row for each result.
#[derive(Clone, Copy, Debug)]
pub struct Unfolded {
    /// The block that reads the copy.
    pub block: Rv,
    /// The block that makes it. Its last two loops are over the steps of the reduction and over results, or the other way round.
    pub copy: Rv,
    /// Whether the window of a result is a row.
    pub is_row_by_row: bool,
    /// Number of results of a row, if there are several rows.
    pub row: Option<i64>,
}

/// A copy whose columns are ordered by their remainders with the stride of windows.
#[derive(Clone, Copy, Debug)]
pub struct Deinterleaved {
    /// The block that reads the copy.
    pub block: Rv,
    /// Position of the copy among the block's reads.
    pub read: usize,
    /// The block that makes it.
    pub copy: Rv,
    /// Whether it was made for this layout, so that no rule visits it by itself.
    pub is_new: bool,
}

/// The notes of a tiling rule about a block.
#[derive(Clone, Debug)]
pub struct Tiled {
    /// The block.
    pub block: Rv,
    /// The innermost loop under which the results of an iteration are complete: there a consumer finds them in
    /// registers or in the nearest cache.
    pub complete_at: Option<Rv>,
    /// The loop over panels of the operands that are loaded as vectors. Everything below it uses the same panel.
    pub panel: Option<Rv>,
    /// Positions, among the block's reads, of the operands that are worth packing.
    pub packable: Vec<usize>,
    /// Positions of the operands that are loaded as vectors, but whose elements serve too few results to be worth
    /// packing.
    pub seldom: Vec<usize>,
}

impl Tiled {
    /// A tiled block without further notes.
    pub fn new(block: Rv) -> Tiled {
        Tiled { block, complete_at: None, panel: None, packable: Vec::new(), seldom: Vec::new() }
    }
}

impl Draft {
    /// A schedule without notes.
    pub fn new(sch: Schedule) -> Draft {
        Draft { sch, tiled: Vec::new(), unfolded: Vec::new(), deinterleaved: Vec::new(), reasons: Vec::new() }
    }

    /// The notes about a block.
    pub fn tiled(&self, block: Rv) -> Option<&Tiled> {
        self.tiled.iter().find(|t| t.block == block)
    }

    /// Notes why a rule leaves nothing to choose about a block; the first reason counts.
    pub fn note_reason(&mut self, block: Rv, reason: Reason) {
        if self.reason(block).is_none() {
            self.reasons.push((block, reason));
        }
    }

    /// Why a rule leaves nothing to choose about a block.
    pub fn reason(&self, block: Rv) -> Option<Reason> {
        self.reasons.iter().find(|s| s.0 == block).map(|s| s.1)
    }

    /// Whether windows that a block reads were copied to rows, which `dot_tiles` is to tile.
    pub fn reads_rows_of_windows(&self, block: Rv) -> bool {
        self.unfolded.iter().any(|u| u.block == block && u.is_row_by_row)
    }

    /// Replaces this schedule by several, each with the same notes.
    ///
    /// # Errors
    /// The instructions of `f`.
    pub fn forks(
        self,
        f: impl FnOnce(Schedule) -> Result<Vec<Schedule>, ScheduleError>,
    ) -> Result<Vec<Draft>, ScheduleError> {
        let Draft { sch, tiled, unfolded, deinterleaved, reasons } = self;
        let noted = |sch| Draft {
            sch,
            tiled: tiled.clone(),
            unfolded: unfolded.clone(),
            deinterleaved: deinterleaved.clone(),
            reasons: reasons.clone(),
        };
        Ok(f(sch)?.into_iter().map(noted).collect())
    }
}
