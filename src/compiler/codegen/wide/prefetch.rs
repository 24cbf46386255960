//! Inserts prefetches: of the next rows, of later parts of long streams, of rows that are far apart, and of what several passes over
//! the same panel leave time for.
//!
//! ```text
//! for row:                                    for row:
//!   for j: m = max(m, A[row, j])                for j: m = max(m, A[row, j])
//!   for j: E[j] = exp(A[row, j] - m)   becomes  for j: fetch A[row + 1, j]; E[j] = exp(A[row, j] - m)
//!
//! for row:                                    for row:
//!   for j: s += A[row, j] * x[j]       becomes  for j: fetch A[row, j + 2048]; s += A[row, j] * x[j]
//!
//! for panel:                                  for panel:
//!   for row in 0..4:                            for row in 0..4:
//!     for k: c[row] += X[row, k]                  for k: fetch (panel + 1)[(row * K + k) / 4]
//!                      * panel[k]      becomes           c[row] += X[row, k] * panel[k]
//! ```
//!
//! The hardware prefetcher stops at the end of a page, and forgets a stream when other loops run in between. So each
//! row begins with cache misses, although an earlier loop had time: one with much computation per cache line. Only the
//! loop's own reads are prefetched, by its own pointers, one row further; after the last row, prefetches of invalid
//! addresses are harmless.
//!
//! The weights of a product are read in panels, and each panel once for each of the rows. Only the first of these passes waits for
//! memory, and the others have time, over which the prefetches of the next panel are spread evenly. Kernels that are called in turns, as
//! in a model, find their weights in memory, not in a cache.
//!
//! A loop over rows that reads a few elements of each, such as over the channels of an image for some of its points, reads another
//! page in each iteration, which the hardware does not foresee. It prefetches what it reads some iterations later, or what its next run
//! begins with: without that, values that another core wrote come with 10 GB/s instead of 25.
//!
//! The elements that vectors are multiplied with, one after the other, such as the weights of a convolution, come from memory in a
//! model, at half the bandwidth where the processor must see the stream by itself: it is prefetched, too.
//!
//! What is read behind a long loop, such as the other summand of a sum of products, is prefetched before it: a tile reads a few elements
//! of each of its rows, which would all be waited for in the end.
//!
//! If a single loop reads more than the near caches hold, and mostly waits for it, its reads are prefetched two pages
//! ahead, on processors whose hardware prefetcher is not better. So is what a loop writes, a little ahead, if it reads only what is in
//! the nearest cache, such as a row that is repeated: lines are owned in time. Where a loop reads as much as it writes, this costs more
//! than it saves.

use super::code::{Code, Inst, LoopId, Mem, Stream, StreamId};
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
/// Prefetch distance of what is written.
const WRITTEN_AHEAD: i64 = 512;
/// Bytes of streams that are prefetched to be written: more than the second cache holds, and a part of the third, to which lines are
/// written back. On Zen 5, with 32 MiB, writing 2 to 12 MiB takes a sixth less time, and 16 MiB a quarter more.
const WRITTEN: std::ops::RangeInclusive<i64> = FAR..=12 << 20;
/// Minimum bytes of a stream that is not in a near cache.
const FAR: i64 = 2 << 20;

/// Bytes of the panels that are prefetched while others are read: those that the second cache holds twice.
const PANEL: std::ops::RangeInclusive<i64> = 4096..=524_288;

/// Rows that are at most so many bytes apart are foreseen by the hardware.
const FORESEEN: i64 = 1024;
/// Minimum number of instructions for each line of a row that is prefetched.
const ROW_WORK: i64 = 6;
/// Instructions that run while a line comes from memory, or from the cache of another core.
const DELAY: i64 = 800;
/// Most iterations that a row is prefetched ahead.
const ROWS_AHEAD: i64 = 16;
/// Most passes over the same rows for which these are prefetched: of more, few wait for memory.
const PASSES: i64 = 8;
/// Most passes in each of which all is prefetched.
const FEW_PASSES: i64 = 2;

/// Minimum number of instructions of a loop for each line behind it that is prefetched.
const WORK_BEFORE: i64 = 32;

/// Prefetch distance in a stream of single elements.
const SINGLE_AHEAD: i64 = 4096;

/// The loop around a region.
pub(super) struct OuterLoop {
    pub extent: i64,
    /// Bytes by which each argument of the region advances, but for rare iterations.
    pub steps: Vec<i64>,
}

/// Inserts prefetches into innermost loops that have time for them, and, with `prefetching_pays`, into those that wait for
/// long streams.
///
/// `outer` are the loops around the region, from the inside. Of the `pointers` registers, those that the region leaves are used.
/// `further` makes an argument: the address of another one, and bytes for each iteration of outer loops.
pub(super) fn prefetch(
    code: &mut Code,
    outer: &[OuterLoop],
    prefetching_pays: bool,
    pointers: usize,
    mut further: impl FnMut(u32, &[(usize, i64)]) -> u32,
) {
    let nest = Nest::new(code, outer, prefetching_pays);
    let mut room = pointers.saturating_sub(code.streams.len() + nest.depth());
    let mut fetches = Vec::new();
    let mut streams = Vec::new();
    for (i, l) in nest.loops.iter().enumerate() {
        if l.n_inside > 0 || l.id.is_none() {
            continue;
        }
        fetches.extend(nest.behind(i).into_iter().map(|mem| (l.begin, mem, false)));
        for fetch in nest.fetches(i) {
            match fetch {
                Fetch::Own(mem) => fetches.push((l.begin + 1, mem, false)),
                Fetch::Written(mem) => fetches.push((l.begin + 1, mem, true)),
                Fetch::Spread { mut stream, terms, disp, lines } if room > 0 => {
                    room -= 1;
                    if !terms.is_empty() {
                        stream.slot = further(stream.slot, &terms);
                    }
                    let id = StreamId((code.streams.len() + streams.len()) as u32);
                    streams.push(stream);
                    let line = |i: i64| Mem { stream: id, disp: disp + (i * LINE) as i32 };
                    fetches.extend((0..lines).map(|i| (l.begin + 1, line(i), false)));
                }
                Fetch::Spread { .. } => {}
            }
        }
    }
    code.streams.extend(streams);
    for (at, mem, writes) in fetches.into_iter().rev() {
        code.insts.insert(at, Inst::Prefetch { mem, writes });
    }
}

/// What an iteration of a loop prefetches.
enum Fetch {
    /// A line, by a pointer of the loop's reads.
    Own(Mem),
    /// A line that will be written, by a pointer of the loop.
    Written(Mem),
    /// Some lines from a place on, by a pointer of its own. The loops around the region add bytes to its initial value.
    Spread { stream: Stream, terms: SmallVec<[(usize, i64); 2]>, disp: i32, lines: i64 },
}

/// A loop around a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    /// One of the region.
    Region(LoopId),
    /// One around it, by its position from the inside.
    Outer(usize),
}

/// Whether loops with these steps and extents, each of whose iterations reads so many bytes, read all of a part of memory once.
fn is_dense(advancing: &mut [(i64, i64)], bytes: i64) -> bool {
    advancing.sort_unstable();
    let mut all = bytes;
    advancing.iter().all(|&(step, extent)| {
        let follows = step == all;
        all = all.saturating_mul(extent);
        follows
    })
}

/// What an instruction reads as a vector or a single element, and the number of bytes.
fn read_by(inst: &Inst) -> Option<(Mem, i64)> {
    let (mem, bytes) = match *inst {
        Inst::Load { mem, width, .. }
        | Inst::FmaMem { b: mem, width, .. }
        | Inst::LoadMasked { mem, width, .. }
        | Inst::ExtremeMasked { mem, width, .. } => (mem, width.bytes().unwrap_or(1)),
        Inst::LoadAll { mem, elem, .. } => (mem, elem.bytes()),
        Inst::LoadAllNarrow { mem, memory, .. } => (mem, memory.bytes()),
        _ => return None,
    };
    Some((mem, bytes as i64))
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
    /// Those around the region, from the inside.
    outer: &'a [OuterLoop],
    /// Those of the region, and the innermost one around it.
    loops: Vec<Loop>,
    prefetching_pays: bool,
}

impl Nest<'_> {
    fn new<'a>(code: &'a Code, outer: &'a [OuterLoop], prefetching_pays: bool) -> Nest<'a> {
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
        if let Some(around) = outer.first() {
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
        Nest { code, outer, loops, prefetching_pays }
    }

    /// The nearest enclosing loop whose iterations consist of several loops.
    fn rows_around(&self, inner: usize) -> Option<usize> {
        let mut rows = self.loops[inner].parent?;
        while self.loops[rows].n_inside < 2 {
            rows = self.loops[rows].parent?;
        }
        Some(rows)
    }

    /// The most loops of the region that run at once.
    fn depth(&self) -> usize {
        let depth = |l: usize| std::iter::successors(Some(l), |&l| self.loops[l].parent).count();
        let around = usize::from(!self.outer.is_empty());
        (0..self.loops.len()).map(depth).max().map_or(0, |most| most - around)
    }

    /// The prefetches of an innermost loop.
    fn fetches(&self, inner: usize) -> Vec<Fetch> {
        let body = &self.code.insts[self.loops[inner].begin + 1..self.loops[inner].end];
        // For each pointer, the first place that is read by whole vectors, the number of bytes, and the end of all that is read.
        let mut read: SmallVec<[(Mem, i64, i64); 4]> = SmallVec::new();
        for inst in body {
            let (mem, width, is_whole) = match *inst {
                Inst::Load { mem, width, .. } | Inst::FmaMem { b: mem, width, .. } => (mem, width, true),
                Inst::LoadMasked { mem, width, .. } | Inst::ExtremeMasked { mem, width, .. } => (mem, width, false),
                _ => continue,
            };
            let all = width.bytes().map_or(0, |n| n as i64);
            let (bytes, behind) = (if is_whole { all } else { 0 }, i64::from(mem.disp) + all);
            match read.iter_mut().find(|(first, ..)| first.stream == mem.stream) {
                Some((first, n, end)) => {
                    (first.disp, *n, *end) = (first.disp.min(mem.disp), *n + bytes, behind.max(*end));
                }
                None => read.push((mem, bytes, behind)),
            }
        }
        let mut fetches = self.single_elements(inner, body);
        fetches.extend(self.written(inner, body));
        for (first, bytes, end) in read {
            let stream = &self.code.streams[first.stream.0 as usize];
            let lines = bytes / LINE;
            // Where a pointer that is looked up goes next is not known yet.
            if bytes % LINE != 0 || bytes == 0 || stream.lookup.is_some() {
                continue;
            }
            if self.is_scattered(stream, end - i64::from(first.disp), inner) {
                fetches.extend(self.later_rows(stream, first, bytes, inner, body.len() as i64));
                continue;
            }
            let has_time = lines * WORK <= body.len() as i64;
            let is_contiguous = self.step(stream, inner) == bytes;
            let ahead = match (is_contiguous, has_time) {
                (true, true) => self.next_row(stream, inner),
                (true, false) => self.far_ahead(stream, inner),
                (false, _) => None,
            };
            if let Some(ahead) = ahead {
                let line = |i: i64| Mem { disp: first.disp + (ahead + i * LINE) as i32, ..first };
                fetches.extend((0..lines).map(|i| Fetch::Own(line(i))));
            } else if WORK <= body.len() as i64 {
                fetches.extend(self.next_panel(stream, first.disp, bytes, inner));
            }
        }
        fetches
    }

    /// The prefetches of long streams that an innermost loop writes line by line, if all that it reads is in the nearest cache.
    fn written(&self, inner: usize, body: &[Inst]) -> Vec<Fetch> {
        let run = |mem: Mem| self.run(&self.code.streams[mem.stream.0 as usize], inner, 0).1;
        let is_near =
            |(mem, _): (Mem, i64)| self.code.streams[mem.stream.0 as usize].lookup.is_none() && run(mem) <= NEAR;
        if !self.prefetching_pays || !body.iter().filter_map(read_by).all(is_near) {
            return Vec::new();
        }
        let places: SmallVec<[Mem; 8]> = body
            .iter()
            .filter_map(|inst| match *inst {
                Inst::Store { mem, width, .. } if width.bytes() == Some(LINE as usize) => Some(mem),
                _ => None,
            })
            .collect();
        let is_long = |mem: &&Mem| {
            let stream = &self.code.streams[mem.stream.0 as usize];
            let lines = places.iter().filter(|other| other.stream == mem.stream).count() as i64;
            stream.lookup.is_none() && self.step(stream, inner) == lines * LINE && WRITTEN.contains(&run(**mem))
        };
        let ahead = |mem: &Mem| Fetch::Written(Mem { disp: mem.disp + WRITTEN_AHEAD as i32, ..*mem });
        places.iter().filter(is_long).map(ahead).collect()
    }

    /// The prefetches of the streams that an innermost loop reads element by element, from one end to the other.
    fn single_elements(&self, inner: usize, body: &[Inst]) -> Vec<Fetch> {
        // For each pointer, the first place, and the end of all that is read.
        let mut read: SmallVec<[(Mem, i64); 4]> = SmallVec::new();
        let is_single = |inst: &&Inst| matches!(inst, Inst::LoadAll { .. } | Inst::LoadAllNarrow { .. });
        for (mem, bytes) in body.iter().filter(is_single).filter_map(read_by) {
            let behind = i64::from(mem.disp) + bytes;
            match read.iter_mut().find(|(first, _)| first.stream == mem.stream) {
                Some((first, end)) => (first.disp, *end) = (first.disp.min(mem.disp), behind.max(*end)),
                None => read.push((mem, behind)),
            }
        }
        let mut fetches = Vec::new();
        for (first, end) in read {
            let stream = &self.code.streams[first.stream.0 as usize];
            let bytes = end - i64::from(first.disp);
            let lines = (bytes + LINE - 1) / LINE;
            let is_stream =
                stream.lookup.is_none() && self.step(stream, inner) == bytes && self.run(stream, inner, 0).1 > NEAR;
            if is_stream && lines * ROW_WORK <= body.len() as i64 {
                let line = |i: i64| Mem { disp: first.disp + (SINGLE_AHEAD + i * LINE) as i32, ..first };
                fetches.extend((0..lines).map(|i| Fetch::Own(line(i))));
            }
        }
        fetches
    }

    /// The places that are read behind an innermost loop, in the same iteration of the next loop, by pointers that it does not use, if
    /// the loop takes long enough to prefetch them.
    fn behind(&self, inner: usize) -> SmallVec<[Mem; 8]> {
        let l = &self.loops[inner];
        let is_edge = |inst: &&Inst| matches!(inst, Inst::Begin { .. } | Inst::End { .. });
        let after = self.code.insts.iter().skip(l.end + 1).take_while(|inst| !is_edge(inst));
        let body = &self.code.insts[l.begin + 1..l.end];
        let used: SmallVec<[StreamId; 8]> = body.iter().filter_map(read_by).map(|(mem, _)| mem.stream).collect();
        let mut places: SmallVec<[Mem; 8]> = SmallVec::new();
        // A pointer that is looked up may not be set yet.
        let is_known = |mem: &Mem| self.code.streams[mem.stream.0 as usize].lookup.is_none();
        for (mem, bytes) in after.filter_map(read_by).filter(|(mem, _)| !used.contains(&mem.stream) && is_known(mem)) {
            // Rows begin anywhere in a line.
            let last = Mem { disp: mem.disp + (bytes - 1) as i32, ..mem };
            for place in [mem, last] {
                let near =
                    |other: &Mem| other.stream == place.stream && (other.disp - place.disp).abs() < LINE as i32 / 2;
                if !places.iter().any(near) {
                    places.push(place);
                }
            }
        }
        let work = l.extent.saturating_mul(body.len() as i64);
        if work < DELAY.max(places.len() as i64 * WORK_BEFORE) {
            places.clear();
        }
        places
    }

    /// The distance to the next row, if prefetching it pays.
    fn next_row(&self, stream: &Stream, inner: usize) -> Option<i64> {
        let rows = self.rows_around(inner)?;
        let (outermost, all) = self.run(stream, inner, rows);
        let row = self.step(stream, rows);
        (outermost == rows && all > NEAR && ROWS.contains(&row)).then_some(row)
    }

    /// Whether a loop reads `bytes` of rows so far apart that the hardware does not foresee the next ones, and leaves most between them.
    fn is_scattered(&self, stream: &Stream, bytes: i64, inner: usize) -> bool {
        let (step, extent) = (self.step(stream, inner), self.loops[inner].extent);
        step.abs() > FORESEEN.max(2 * bytes) && step.abs().saturating_mul(extent) > NEAR
    }

    /// The prefetches of a loop of so many instructions that reads `bytes` of scattered rows: of later rows, or, if other loops read
    /// these rows several times, of what is read next, a part in each pass.
    fn later_rows(&self, stream: &Stream, first: Mem, bytes: i64, inner: usize, work: i64) -> Vec<Fetch> {
        // Rows begin anywhere in a line.
        let lines = bytes / LINE + 1;
        let (step, extent) = (self.step(stream, inner), self.loops[inner].extent);
        let mut passes = 1_i64;
        let mut inside: SmallVec<[(Around, i64); 4]> = SmallVec::new();
        let mut next = None;
        for l in self.outwards(inner).into_iter().skip(1) {
            let (n, step) = self.counts(l, stream);
            if step != 0 {
                next = Some(step);
                break;
            }
            inside.push((l, passes));
            passes = passes.saturating_mul(n);
        }
        let ahead = (DELAY / work.max(1)).clamp(2, ROWS_AHEAD);
        let is_long = extent >= 4 * ahead && passes <= FEW_PASSES;
        let (distance, passes) = if is_long { (step.checked_mul(ahead), 1) } else { (next, passes) };
        let each = (lines + passes - 1) / passes;
        let at = distance.and_then(|d| i32::try_from(i64::from(first.disp).checked_add(d)?).ok());
        let end = at.zip(i32::try_from(bytes).ok()).and_then(|(at, n)| at.checked_add(n));
        let (Some(at), Some(end)) = (at, end) else { return Vec::new() };
        if passes > PASSES || each * ROW_WORK > work {
            return Vec::new();
        }
        if passes == 1 {
            let line = |i: i64| Mem { disp: (at + (i * LINE) as i32).min(end - 1), ..first };
            return (0..lines).map(|i| Fetch::Own(line(i))).collect();
        }
        self.spread(stream, &inside, each * LINE, at).into_iter().collect()
    }

    /// Prefetches that follow a stream, but in some loops, of each of which the number of iterations inside one of its own is given,
    /// advance by `each` bytes in an iteration. `None` if an offset is too large.
    fn spread(&self, stream: &Stream, inside: &[(Around, i64)], each: i64, disp: i32) -> Option<Fetch> {
        let is_kept = |l: LoopId| inside.iter().all(|(of, _)| *of != Around::Region(l));
        let mut steps: SmallVec<[(LoopId, i64); 4]> =
            stream.steps.iter().filter(|(l, _)| is_kept(*l)).copied().collect();
        let mut terms = SmallVec::new();
        for &(l, n) in inside {
            let step = n.checked_mul(each)?;
            match l {
                Around::Region(id) => steps.push((id, step)),
                Around::Outer(i) => terms.push((i, step)),
            }
        }
        let fits = |&(l, step): &(LoopId, i64)| {
            let (extent, _) = self.counts(Around::Region(l), stream);
            step.checked_mul(extent).is_some_and(|all| i32::try_from(all).is_ok())
        };
        let lines = (each + LINE - 1) / LINE;
        steps.iter().all(fits).then(|| Fetch::Spread {
            stream: Stream::of_argument(stream.slot, steps),
            terms,
            disp,
            lines,
        })
    }

    /// The loops around a place, from an innermost one on, those around the region last.
    fn outwards(&self, inner: usize) -> Vec<Around> {
        let region = std::iter::successors(Some(inner), |&l| self.loops[l].parent).filter_map(|l| self.loops[l].id);
        let outer = (0..self.outer.len()).map(Around::Outer);
        region.map(Around::Region).chain(outer).collect()
    }

    /// Its number of iterations, and the bytes by which a stream advances in each.
    fn counts(&self, around: Around, stream: &Stream) -> (i64, i64) {
        match around {
            Around::Region(id) => {
                let extent = self.loops.iter().find(|l| l.id == Some(id)).map_or(0, |l| l.extent);
                (extent, stream.steps.iter().find(|(l, _)| *l == id).map_or(0, |&(_, step)| step))
            }
            Around::Outer(i) => (self.outer[i].extent, self.outer[i].steps[stream.slot as usize]),
        }
    }

    /// The prefetches of the panel behind one that is read several times, `bytes` in each iteration of the innermost loop.
    fn next_panel(&self, stream: &Stream, disp: i32, bytes: i64, inner: usize) -> Option<Fetch> {
        // Of each loop, how many iterations of the innermost one are in one of its own.
        let mut inside: SmallVec<[(Around, i64); 6]> = SmallVec::new();
        let (mut trips, mut once) = (1_i64, 1_i64);
        let mut advancing: SmallVec<[(i64, i64); 6]> = SmallVec::new();
        let mut found = None;
        for l in self.outwards(inner) {
            let (extent, step) = self.counts(l, stream);
            if step != 0 && trips / 2 >= once {
                let panel = is_dense(&mut advancing, bytes).then(|| bytes.saturating_mul(once));
                if panel.is_some_and(|panel| PANEL.contains(&panel)) {
                    found = panel.map(|panel| (panel, step));
                    break;
                }
            }
            inside.push((l, trips));
            trips = trips.checked_mul(extent)?;
            if step != 0 {
                once = once.checked_mul(extent)?;
                advancing.push((step, extent));
            }
        }
        let (panel, next) = found?;
        // Of whole elements, whatever their type.
        let each = (panel.checked_add(trips - 1)? / trips + 7) & !7;
        let disp = i32::try_from(i64::from(disp).checked_add(next)?).ok()?;
        self.spread(stream, &inside, each, disp)
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
        match (self.loops[l].id, self.outer.first()) {
            (Some(id), _) => stream.steps.iter().find(|(l, _)| *l == id).map_or(0, |&(_, step)| step),
            (None, Some(around)) => around.steps[stream.slot as usize],
            (None, None) => 0,
        }
    }
}
