//! Assigns the axes of a contraction to rows and columns of tiles.

use super::super::super::contraction::{Contraction, Input};
use super::super::super::tile_sizes::reduction_choices;
use crate::ir::IterKind;
use crate::machine::Core;
use crate::machine::register_tile::MOST_APART;
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Minimum number of results per element for which packing an operand pays.
pub(super) const RELAYOUT_REUSE: i64 = 16;
/// Number of products that one lane of a byte dot product accumulates.
pub(super) const QUAD: i64 = 4;

/// Maximum number of vectors of a block of columns of which a tile may hold several.
const SMALL_BLOCK: i64 = 2;
/// Number of vectors of sums that hide the latency of an addition.
const BUSY: i64 = 8;

/// One assignment of the axes of a contraction.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The axis that is vectorised.
    pub column: usize,
    /// The axis whose steps are further columns, where results are stored in blocks of a few vectors: of these, a tile may hold several.
    pub blocks: Option<usize>,
    /// The axis that gives the rows of a tile.
    pub row: Option<usize>,
    /// Spatial axes that operands loaded as vectors move with; their loops go outermost.
    pub batch: Vec<usize>,
    /// The other spatial axes.
    pub rest: Vec<usize>,
    /// Positions of the inputs to lay out so that columns are contiguous.
    pub relayout: Vec<usize>,
    /// Whether the result must be laid out so that columns are contiguous.
    pub relayout_output: bool,
    /// The window that slides over the rows.
    pub sliding: Option<Sliding>,
    /// The reduction axis that is taken in groups of four, each a byte dot product.
    pub quads: Option<usize>,
    /// The reduction axes, in the order in which vectors lie in memory.
    pub reductions: Vec<usize>,
    /// The reduction axis of which vectors lie together in blocks, and the length of a block.
    pub blocked: Option<(usize, i64)>,
}

/// A window that slides along the rows of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sliding {
    /// The reduction axis inside the window.
    pub axis: usize,
    /// The steps of that axis from one row to the next: the stride of the window.
    pub step: i64,
}

/// The reduction axis that is strip-mined, the first of the longest, and the candidate lengths.
pub(super) fn pieces(c: &Contraction) -> (usize, Vec<i64>) {
    let longest = c.of_kind(IterKind::Reduce).min_by_key(|&a| Reverse(c.axes[a].extent));
    let longest = longest.expect("a contraction has a reduction");
    let extent = c.axes[longest].extent;
    (longest, reduction_choices(extent, steps(c) / extent))
}

/// Number of iterations of all reduction axes together.
pub(super) fn steps(c: &Contraction) -> i64 {
    c.of_kind(IterKind::Reduce).map(|a| c.axes[a].extent).product()
}

/// The possible assignments: vectors along the axis that is contiguous in the result, and along another one if the
/// first leaves vectors half empty. Where there is none, windows that move by several elements from result to result are
/// read along the result all the same: the code generator assembles near elements from contiguous vectors.
pub(super) fn views(c: &Contraction, machine: &Core) -> Vec<View> {
    let lanes = machine.lanes(c.dtype);
    let candidates = || c.of_kind(IterKind::Spatial).filter(|&a| c.axes[a].extent > 1);
    let mut possible: Vec<View> = candidates().filter_map(|a| view(c, a, 1, lanes)).collect();
    if possible.is_empty() && machine.vectors.has_regions() {
        possible.extend(candidates().filter_map(|a| view(c, a, MOST_APART, lanes)).filter(|v| !v.relayout_output));
    }
    if possible.iter().any(|v| v.quads.is_some()) {
        // Products of bytes one at a time take several times as long.
        possible.retain(|v| v.quads.is_some());
    }
    let natural = possible.iter().find(|v| !v.relayout_output);
    let full = |v: &View| c.axes[v.column].extent % lanes == 0;
    let other = possible
        .iter()
        .filter(|v| v.relayout_output && v.row.is_some() && full(v))
        .min_by_key(|v| v.relayout.len())
        .filter(|_| natural.is_none_or(|n| !full(n)));
    natural.into_iter().chain(other).cloned().collect()
}

/// The assignment with an axis as columns, from one of which to the next an operand in place moves by at most `apart` elements.
fn view(c: &Contraction, column: usize, apart: i64, lanes: i64) -> Option<View> {
    let stride = |i: &Input, a: usize| i.access.strides[a];
    let movable = |i: &Input| i.is_point && (i.is_constant || c.reuse(i) >= RELAYOUT_REUSE);
    let quads = quads(c, column, &movable);
    let as_needed = |i: &Input| match quads {
        Some(k) => stride(i, k) == 1 && matches!(stride(i, column), 0 | QUAD),
        None => (0..=apart).contains(&stride(i, column)),
    };
    let relayout: Vec<usize> = (0..c.inputs.len()).filter(|&i| !as_needed(&c.inputs[i])).collect();
    if !relayout.iter().all(|&i| movable(&c.inputs[i])) {
        return None;
    }
    let vectors: Vec<&Input> = c.inputs.iter().filter(|i| stride(i, column) != 0).collect();
    let moves = |a: usize| vectors.iter().any(|i| stride(i, a) != 0);
    let blocks = blocks(c, column, lanes).filter(|_| relayout.is_empty());
    let others = || c.of_kind(IterKind::Spatial).filter(|&a| a != column && Some(a) != blocks);
    let unmoved = others().filter(|&a| c.axes[a].extent > 1 && !moves(a)).last();
    let window = if unmoved.is_none() { window(c, column) } else { None };
    // Other rows share some of the operands, or at least sums of several rows do not wait for each other.
    let moving = |a: usize| vectors.iter().filter(|i| stride(i, a) != 0).count();
    let is_short = c.axes[column].extent < BUSY * lanes;
    let helps = |&a: &usize| c.axes[a].extent > 1 && (is_short || moving(a) < vectors.len());
    let other = || others().filter(helps).min_by_key(|&a| (moving(a), Reverse(a)));
    let row = unmoved.or(window.map(|(row, _)| row)).or_else(other);
    let mut reductions: Vec<usize> = c.of_kind(IterKind::Reduce).collect();
    let mut blocked = None;
    if let [input] = vectors[..]
        && relayout.is_empty()
    {
        reductions.sort_by_key(|&a| Reverse(stride(input, a).abs()));
        // Other axes lie between the blocks.
        let is_between = |a: usize, n: i64| {
            let of_block = (n * stride(input, a)).abs();
            reductions.iter().any(|&b| b != a && c.axes[b].extent > 1 && stride(input, b).abs() >= of_block)
        };
        let block = |&a: &usize| {
            input.access.blocks[a].filter(|&n| c.axes[a].extent % n == 0 && is_between(a, n)).map(|n| (a, n))
        };
        blocked = reductions.iter().find_map(block).filter(|_| quads.is_none());
    }
    // The axis that the window slides along goes last: a loaded row serves several results.
    reductions.sort_by_key(|&a| window.is_some_and(|(_, s)| s.axis == a));
    Some(View {
        column,
        blocks,
        row,
        batch: others().filter(|&a| Some(a) != row && (moves(a) || c.axes[a].extent == 1)).collect(),
        rest: others().filter(|&a| Some(a) != row && !moves(a) && c.axes[a].extent > 1).collect(),
        relayout,
        relayout_output: c.output.strides[column] != 1,
        sliding: window.map(|(_, sliding)| sliding),
        quads,
        reductions,
        blocked,
    })
}

/// The axis over blocks of columns, if the columns are such a block: a step along it moves the operands that a column moves, in
/// a dimension of its own, and the others not at all.
fn blocks(c: &Contraction, column: usize, lanes: i64) -> Option<usize> {
    let n = c.axes[column].extent;
    if n % lanes != 0 || n > SMALL_BLOCK * lanes {
        return None;
    }
    let (vectors, shared): (Vec<&Input>, Vec<&Input>) = c.inputs.iter().partition(|i| i.access.strides[column] != 0);
    let is_own = |i: &Input, a: usize| {
        let dim = i.access.dims[a];
        dim.is_some() && (0..c.axes.len()).all(|other| other == a || i.access.dims[other] != dim)
    };
    let moves_blocks = |&a: &usize| {
        a != column
            && c.axes[a].extent > 1
            && c.output.dims[a].is_some()
            && vectors.iter().all(|i| is_own(i, a))
            && shared.iter().all(|i| i.access.strides[a] == 0)
    };
    c.of_kind(IterKind::Spatial).filter(moves_blocks).last().filter(|_| !shared.is_empty())
}

/// A spatial and a reduction axis that form a sliding window: the windows of neighbouring results overlap, so that they read
/// some of the same elements in different iterations of the reduction, or at least touch.
fn window(c: &Contraction, column: usize) -> Option<(usize, Sliding)> {
    let spatial = c.of_kind(IterKind::Spatial).filter(|&a| a != column && c.axes[a].extent > 1);
    spatial.into_iter().find_map(|a| {
        c.inputs.iter().filter(|i| i.access.strides[column] != 0).find_map(|i| {
            let sliding = |axis: usize| {
                let (of_result, inside) = (i.access.strides[a], i.access.strides[axis]);
                let same_dim = i.access.dims[a].is_some() && i.access.dims[a] == i.access.dims[axis];
                let divides = same_dim && inside != 0 && of_result % inside == 0;
                let step = divides.then(|| of_result / inside)?;
                (1..=c.axes[axis].extent).contains(&step).then_some(Sliding { axis, step })
            };
            let long = |&r: &usize| c.axes[r].extent > 1;
            c.of_kind(IterKind::Reduce).filter(long).find_map(sliding).map(|sliding| (a, sliding))
        })
    })
}

/// The reduction axis that is suitable for byte dot products: operands are bytes; those that do not move with the
/// columns have groups of four contiguous, and the others have, or can be laid out so. If there is none, an axis for which
/// all operands can be laid out.
fn quads(c: &Contraction, column: usize, movable: &dyn Fn(&Input) -> bool) -> Option<usize> {
    let bytes = c.dtype.is_integer() && c.dtype.bytes() == QUAD as usize;
    if !bytes || c.inputs.iter().any(|i| i.access.element_bytes != 1 || !i.is_integer) {
        return None;
    }
    let fits = |i: &Input, k: usize, moves_rows: bool| {
        let is_one = |i: &Input| walked(c, i, k).is_some_and(|dims| dims.start() == dims.end());
        let movable = |i: &Input| is_one(i) && movable(i);
        let (of_column, of_k) = (i.access.strides[column], i.access.strides[k]);
        match of_column {
            0 => of_k == 1 || (moves_rows && i.access.dims[k].is_some() && movable(i)),
            QUAD if of_k == 1 => true,
            _ if !movable(i) => false,
            _ => i.access.dims[k].is_some_and(|k| walked(c, i, column).is_some_and(|walked| !walked.contains(&k))),
        }
    };
    let mut axes = [false, true].into_iter().flat_map(|moves_rows| {
        c.of_kind(IterKind::Reduce).filter(|&k| c.axes[k].extent % QUAD == 0).map(move |k| (k, moves_rows))
    });
    axes.find(|&(k, moves_rows)| c.inputs.iter().all(|i| fits(i, k, moves_rows))).map(|(k, _)| k)
}

/// The dimensions of an operand that an axis walks through: several if it was merged from axes that lie next to each other.
pub(super) fn walked(c: &Contraction, input: &Input, axis: usize) -> Option<RangeInclusive<usize>> {
    let last = input.access.dims[axis]?;
    let mut first = last;
    let mut extent = input.access.shape[last];
    while extent < c.axes[axis].extent && first > 0 {
        first -= 1;
        extent = extent.saturating_mul(input.access.shape[first]);
    }
    Some(first..=last)
}
