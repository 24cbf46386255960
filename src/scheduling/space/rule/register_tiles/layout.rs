//! Copies that lay out operands and results as vector loads and stores need them.

use super::super::super::analysis::{is_spatial, live_block};
use super::super::super::contraction::Input;
use super::super::super::draft::Unfolded;
use super::TilingPlan;
use super::view::{QUAD, walked};
use crate::ir::BinOp;
use crate::ir::preparation::PREPARATION;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, LambdaExpr, Rv};
use crate::schedule::error::ScheduleError;

impl TilingPlan<'_> {
    /// Copies a constant operand before all other work, in panels of `width` columns; without `width`, all columns are
    /// one panel.
    pub(super) fn prepare(&self, sch: &mut Schedule, input: &Input, width: Option<Rv>) -> Result<(), ScheduleError> {
        let copy = sch.cache_read(self.block, input.read as i64, "global")?;
        sch.annotate(copy, PREPARATION, true)?;
        let access = &input.access;
        let column = access.dims[self.view.column].unwrap_or_default();
        let quad = self.view.quads.map(|k| access.dims[k].unwrap_or_default());
        let part = |op: BinOp, dim: usize, by: LambdaExpr| {
            LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(dim)), Box::new(by))
        };
        let mut results: Vec<LambdaExpr> =
            width.map(|w| part(BinOp::FloorDiv, column, LambdaExpr::Rv(w))).into_iter().collect();
        results.extend((0..access.n_dims()).filter(|&d| d != column).map(|d| match quad {
            Some(k) if k == d => part(BinOp::FloorDiv, d, LambdaExpr::Int(QUAD)),
            _ => LambdaExpr::Param(d),
        }));
        results.push(match width {
            Some(w) => part(BinOp::FloorMod, column, LambdaExpr::Rv(w)),
            None => LambdaExpr::Param(column),
        });
        results.extend(quad.map(|k| part(BinOp::FloorMod, k, LambdaExpr::Int(QUAD))));
        sch.lay_out_written(copy, access.n_dims(), results)
    }

    /// Makes the block write tiles with contiguous columns, which a copy under `place` moves to the result.
    pub(super) fn write_back(&self, sch: &mut Schedule, place: Option<Rv>, dim: usize) -> Result<(), ScheduleError> {
        let existing = match sch.get_consumers(self.block)?[..] {
            [one] if live_block(sch, one).is_some_and(|(f, b)| is_spatial(sch.func(f), b)) => Some(one),
            _ => None,
        };
        let copy = match existing {
            Some(one) => one,
            None => sch.cache_write(self.block, 0, "global")?,
        };
        if let Some(place) = place {
            sch.reverse_compute_at(copy, place, false)?;
        }
        let n = self.contraction.output.n_dims();
        sch.lay_out_written(self.block, n, moved_last(n, dim))
    }

    /// Copies an operand with contiguous columns (or quads of columns), panel by panel where it is used; as a whole if
    /// panels overlap, or columns walk through several dimensions.
    pub(super) fn lay_out(&self, sch: &mut Schedule, input: &Input, place: Option<Rv>) -> Result<(), ScheduleError> {
        let (c, column) = (self.contraction, self.view.column);
        let access = &input.access;
        let dim = access.dims[column].unwrap_or_default();
        let walked = walked(c, input, column).unwrap_or(dim..=dim);
        let at_once = self.view.quads.is_some() && (walked.start() < walked.end() || c.overlaps(input));
        let copy = sch.cache_read(self.block, input.read as i64, "global")?;
        if let Some(place) = place.filter(|_| !at_once) {
            // Each dimension keeps its loop where they are rearranged.
            sch.compute_at(copy, place, self.view.quads.is_some())?;
        }
        match self.view.quads {
            Some(k) => self.group(sch, copy, input, k, &walked.collect::<Vec<_>>()).map(drop),
            None => sch.lay_out_written(copy, access.n_dims(), moved_last(access.n_dims(), dim)),
        }
    }

    /// Copies an operand that does not move with the columns before all other work, with groups of four steps of the
    /// reduction together; once, if it is constant.
    pub(super) fn lay_out_rows(&self, sch: &mut Schedule, input: &Input, k: usize) -> Result<(), ScheduleError> {
        let copy = sch.cache_read(self.block, input.read as i64, "global")?;
        if input.is_constant {
            sch.annotate(copy, PREPARATION, true)?;
        }
        let after = (input.access.dims[k].unwrap_or_default() + 1..input.access.n_dims()).collect::<Vec<_>>();
        self.group(sch, copy, input, k, &after).map(drop)
    }

    /// Lays out a copy of windows, which is written row by row.
    pub(super) fn lay_out_unfolded(
        &self,
        sch: &mut Schedule,
        input: &Input,
        unfolded: Unfolded,
    ) -> Result<(), ScheduleError> {
        let dim = input.access.dims[self.view.column].unwrap_or_default();
        let Some(k) = self.view.quads else {
            return sch.lay_out_written(unfolded.copy, input.access.n_dims(), moved_last(input.access.n_dims(), dim));
        };
        let loops = self.group(sch, unfolded.copy, input, k, &[dim])?;
        if let (Some(row), [.., columns, quad]) = (unfolded.row, &loops[..]) {
            let rows = sch.split(*columns, vec![Arg::None, row.into()])?;
            sch.reorder(&[rows[0], rows[1], *quad])?;
        }
        Ok(())
    }

    /// Lays out what a copy writes in groups of four along the axis `k`, in the order: other dimensions, groups, `inner`
    /// dimensions, steps of a group. It is written in this order; the loops are returned.
    fn group(
        &self,
        sch: &mut Schedule,
        copy: Rv,
        input: &Input,
        k: usize,
        inner: &[usize],
    ) -> Result<Vec<Rv>, ScheduleError> {
        let n_dims = input.access.n_dims();
        let k_dim = input.access.dims[k].unwrap_or_default();
        let part =
            |op: BinOp| LambdaExpr::Binary(op, Box::new(LambdaExpr::Param(k_dim)), Box::new(LambdaExpr::Int(QUAD)));
        let others: Vec<usize> = (0..n_dims).filter(|d| *d != k_dim && !inner.contains(d)).collect();
        let mut results: Vec<LambdaExpr> = others.iter().map(|&d| LambdaExpr::Param(d)).collect();
        results.push(part(BinOp::FloorDiv));
        results.extend(inner.iter().map(|&d| LambdaExpr::Param(d)));
        results.push(part(BinOp::FloorMod));
        sch.lay_out_written(copy, n_dims, results)?;
        let loops = sch.get_loops(copy)?;
        let Some(own) = loops.len().checked_sub(n_dims).map(|first| &loops[first..]) else { return Ok(loops) };
        let parts = sch.split(own[k_dim], vec![Arg::None, QUAD.into()])?;
        let order: Vec<Rv> = others
            .iter()
            .map(|&d| own[d])
            .chain([parts[0]])
            .chain(inner.iter().map(|&d| own[d]))
            .chain([parts[1]])
            .collect();
        sch.reorder(&order)?;
        Ok(order)
    }
}

/// The indices of `n` dimensions with `last` moved to the end.
fn moved_last(n: usize, last: usize) -> Vec<LambdaExpr> {
    (0..n).filter(|&d| d != last).chain([last]).map(LambdaExpr::Param).collect()
}
