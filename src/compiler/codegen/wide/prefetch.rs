//! Inserts prefetches: of the next rows, and of later parts of long streams.
//!
//! ```text
//! for row:                                    for row:
//!   for j: m = max(m, A[row, j])                for j: m = max(m, A[row, j])
//!   for j: E[j] = exp(A[row, j] - m)   becomes  for j: fetch A[row + 1, j]; E[j] = exp(A[row, j] - m)
//!
//! for row:                                    for row:
//!   for j: s += A[row, j] * x[j]       becomes  for j: fetch A[row, j + 2048]; s += A[row, j] * x[j]
//! ```
//!
//! The hardware prefetcher stops at the end of a page, and forgets a stream when other loops run in between. So each
//! row begins with cache misses, although an earlier loop had time: one with much computation per cache line. Only the
//! loop's own reads are prefetched, by its own pointers, one row further; after the last row, prefetches of invalid
//! addresses are harmless.
//!
//! If a single loop reads more than the near caches hold, and mostly waits for it, its reads are prefetched two pages
//! ahead, on processors whose hardware prefetcher is not better.

use super::code::{Code, Inst, LoopId, Mem, Stream};
use smallvec::SmallVec;

/// Bytes of a cache line.
const LINE: i64 = 64;
/// Minimum number of instructions per cache line for which a loop has time to prefetch.
const WORK: i64 = 12;
/// Bytes of the rows that are prefetched together: several lines, but a small part of the nearest cache, where they
/// must stay until they are used.
const ROWS: std::ops::RangeInclusive<i64> = 1024..=16_384;
/// Buffers with at most this many bytes are in the nearest cache anyway.
const NEAR: i64 = 32_768;

/// Prefetch distance in a stream: two pages, so that addresses of the next one are translated in time.
const AHEAD: i64 = 8192;
/// Minimum bytes of a stream that is not in a near cache.
const FAR: i64 = 2 << 20;

/// The loop around a region.
pub(super) struct OuterLoop {
    pub extent: i64,
    /// Bytes by which each argument of the region advances.
    pub steps: Vec<i64>,
}

/// Inserts prefetches into innermost loops that have time for them, and, with `prefetching_pays`, into those that wait for
/// long streams.
pub(super) fn prefetch(code: &mut Code, around: Option<OuterLoop>, prefetching_pays: bool) {
    let nest = Nest::new(code, around, prefetching_pays);
    let mut fetches = Vec::new();
    for (i, l) in nest.loops.iter().enumerate() {
        if l.n_inside == 0 && l.id.is_some() {
            fetches.extend(nest.fetches(i).into_iter().map(|fetch| (l.begin + 1, fetch)));
        }
    }
    for (at, fetch) in fetches.into_iter().rev() {
        code.insts.insert(at, fetch);
    }
}

struct Loop {
    /// `None` for the loop around the region.
    id: Option<LoopId>,
    extent: i64,
    begin: usize,
    end: usize,
    /// Position of the parent loop in the list.
    parent: Option<usize>,
    /// Number of loops directly inside.
    n_inside: usize,
}

/// The loops of a region, and the one around it.
struct Nest<'a> {
    code: &'a Code,
    around: Option<OuterLoop>,
    loops: Vec<Loop>,
    prefetching_pays: bool,
}

impl Nest<'_> {
    fn new(code: &Code, around: Option<OuterLoop>, prefetching_pays: bool) -> Nest<'_> {
        let mut loops: Vec<Loop> = Vec::new();
        let mut open: SmallVec<[usize; 4]> = SmallVec::new();
        let push = |loops: &mut Vec<Loop>, open: &mut SmallVec<[usize; 4]>, id, extent, at| {
            let parent = open.last().copied();
            if let Some(p) = parent {
                loops[p].n_inside += 1;
            }
            open.push(loops.len());
            loops.push(Loop { id, extent, begin: at, end: code.insts.len(), parent, n_inside: 0 });
        };
        if let Some(around) = &around {
            push(&mut loops, &mut open, None, around.extent, 0);
        }
        for (at, inst) in code.insts.iter().enumerate() {
            match *inst {
                Inst::Begin { l, extent } => push(&mut loops, &mut open, Some(l), extent, at),
                Inst::End { .. } => {
                    if let Some(l) = open.pop() {
                        loops[l].end = at;
                    }
                }
                _ => {}
            }
        }
        Nest { code, around, loops, prefetching_pays }
    }

    /// The nearest enclosing loop whose iterations consist of several loops.
    fn rows_around(&self, inner: usize) -> Option<usize> {
        let mut rows = self.loops[inner].parent?;
        while self.loops[rows].n_inside < 2 {
            rows = self.loops[rows].parent?;
        }
        Some(rows)
    }

    /// The prefetches of an innermost loop.
    fn fetches(&self, inner: usize) -> Vec<Inst> {
        let body = &self.code.insts[self.loops[inner].begin + 1..self.loops[inner].end];
        // For each pointer, the first place that is read, and the number of bytes.
        let mut read: SmallVec<[(Mem, i64); 4]> = SmallVec::new();
        for inst in body {
            let (mem, width) = match *inst {
                Inst::Load { mem, width, .. } | Inst::FmaMem { b: mem, width, .. } => (mem, width),
                _ => continue,
            };
            let bytes = width.bytes().map_or(0, |n| n as i64);
            match read.iter_mut().find(|(first, _)| first.stream == mem.stream) {
                Some((first, n)) => (first.disp, *n) = (first.disp.min(mem.disp), *n + bytes),
                None => read.push((mem, bytes)),
            }
        }
        let mut fetches = Vec::new();
        for (first, bytes) in read {
            let stream = &self.code.streams[first.stream.0 as usize];
            let step = self.step(stream, inner);
            if step != bytes || step % LINE != 0 {
                continue;
            }
            let lines = step / LINE;
            let has_time = lines * WORK <= body.len() as i64;
            let ahead = if has_time { self.next_row(stream, inner) } else { self.far_ahead(stream, inner) };
            if let Some(ahead) = ahead {
                let line = |i: i64| Mem { disp: first.disp + (ahead + i * LINE) as i32, ..first };
                fetches.extend((0..lines).map(|i| Inst::Prefetch { mem: line(i) }));
            }
        }
        fetches
    }

    /// The distance to the next row, if prefetching it pays.
    fn next_row(&self, stream: &Stream, inner: usize) -> Option<i64> {
        let rows = self.rows_around(inner)?;
        let (outermost, all) = self.run(stream, inner, rows);
        let row = self.step(stream, rows);
        (outermost == rows && all > NEAR && ROWS.contains(&row)).then_some(row)
    }

    /// The prefetch distance in a long stream.
    fn far_ahead(&self, stream: &Stream, inner: usize) -> Option<i64> {
        let (_, bytes) = self.run(stream, inner, 0);
        (self.prefetching_pays && bytes >= FAR && self.rows_around(inner).is_none()).then_some(AHEAD)
    }

    /// The outermost loop, up to a given one, in which a stream is contiguous, and the number of bytes.
    fn run(&self, stream: &Stream, inner: usize, up_to: usize) -> (usize, i64) {
        let (mut l, mut bytes) = (inner, self.step(stream, inner).saturating_mul(self.loops[inner].extent));
        while l != up_to
            && let Some(parent) = self.loops[l].parent
            && self.step(stream, parent) == bytes
        {
            l = parent;
            bytes = bytes.saturating_mul(self.loops[l].extent);
        }
        (l, bytes)
    }

    /// Bytes by which a stream advances in a loop.
    fn step(&self, stream: &Stream, l: usize) -> i64 {
        match (self.loops[l].id, &self.around) {
            (Some(id), _) => stream.steps.iter().find(|(l, _)| *l == id).map_or(0, |&(_, step)| step),
            (None, Some(around)) => around.steps[stream.slot as usize],
            (None, None) => 0,
        }
    }
}
