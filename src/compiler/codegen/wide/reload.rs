//! Reduces register pressure by reloading values that are in memory.
//!
//! ```text
//! x = [X]                        x = [X]
//! a = x * w + a                  a = x * w + a
//! …                  becomes     …
//! b = x * v + b                  b = [X] * v + b
//! ```
//!
//! It evicts the value whose next use is furthest away (Belady, "A study of replacement algorithms for a
//! virtual-storage computer", IBM Systems Journal, 1966), among vectors and broadcast elements of buffers that the
//! region does not write. Sums and computed values stay in registers.

use super::RegionArg;
use super::assign::intervals;
use super::code::{Class, Code, Inst, Mem, StreamId, VReg, Width};
use crate::ir::expr::FxBuild;
use crate::loopir::BufferId;
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Reduces the code to this number of vector registers. If it returns `false`, the code must not be used.
pub(super) fn reload(code: &mut Code, args: &[RegionArg], available: usize) -> bool {
    let mut splitter = Splitter::new(code, args);
    let enough = splitter.run(code, available);
    if enough {
        splitter.finish(code);
    }
    enough
}

/// A register whose value is also in memory.
struct Candidate {
    /// The load instruction.
    load: Inst,
    /// Position of the load, or of the instruction before which it will be inserted.
    from: usize,
    /// The instructions that read the register, in order.
    uses: SmallVec<[usize; 4]>,
    /// The last position at which the register is live.
    end: usize,
    /// Whether the load is in the original code.
    is_original: bool,
    /// Whether the live range has been split.
    is_split: bool,
}

/// A loop: its first and last instruction, and the pointers that it advances.
struct Span {
    begin: usize,
    end: usize,
    advances: SmallVec<[StreamId; 8]>,
}

impl Span {
    fn holds(&self, at: usize) -> bool {
        self.begin < at && at < self.end
    }
}

struct Splitter {
    loops: Vec<Span>,
    candidates: HashMap<VReg, Candidate, FxBuild>,
    /// For each instruction, the number of vector registers that are live after it.
    pressure: Vec<i32>,
    /// For each mask, how often it is set, and the first instruction that sets it; `None` if it is in the prologue.
    masks: HashMap<VReg, (usize, Option<usize>), FxBuild>,
}

impl Splitter {
    fn new(code: &Code, args: &[RegionArg]) -> Splitter {
        let (n, before) = (code.insts.len(), code.prologue.len());
        let mut pressure = vec![0; n + 1];
        let live = intervals(code);
        for (v, &(start, end)) in live.iter().enumerate() {
            if start != usize::MAX && code.classes[v] == Class::Vector {
                pressure[start.saturating_sub(before)] += 1;
                pressure[end.saturating_sub(before).max(start.saturating_sub(before))] -= 1;
            }
        }
        for at in 1..pressure.len() {
            pressure[at] += pressure[at - 1];
        }
        let mut splitter =
            Splitter { loops: spans(code), candidates: HashMap::default(), pressure, masks: HashMap::default() };
        splitter.find(code, args, |v| live[v.0 as usize].1.saturating_sub(before));
        splitter
    }

    /// Finds the registers that can be reloaded.
    fn find(&mut self, code: &Code, args: &[RegionArg], end: impl Fn(VReg) -> usize) {
        let buffer_of = |s: StreamId| code.streams[s.0 as usize].buffer(args);
        let mut written: SmallVec<[Option<BufferId>; 4]> = SmallVec::new();
        let mut sets = vec![0u32; code.classes.len()];
        for (at, inst) in code.insts.iter().enumerate() {
            if let Inst::Store { mem, .. }
            | Inst::StoreMasked { mem, .. }
            | Inst::StoreNarrow { mem, .. }
            | Inst::StoreLow { mem, .. } = inst
            {
                written.push(buffer_of(mem.stream));
            }
            if let Some(v) = inst.sets() {
                sets[v.0 as usize] += 1;
                if code.classes[v.0 as usize] == Class::Mask {
                    self.masks.entry(v).or_insert((0, Some(at))).0 += 1;
                }
            }
        }
        for inst in &code.prologue {
            if let Some(v) = inst.sets() {
                sets[v.0 as usize] += 1;
                if code.classes[v.0 as usize] == Class::Mask {
                    let known = self.masks.entry(v).or_insert((0, None));
                    *known = (known.0 + 1, None);
                }
            }
        }
        for (at, &load) in code.insts.iter().enumerate() {
            let Some((dst, mem)) = loaded(&load) else { continue };
            let buffer = buffer_of(mem.stream);
            if sets[dst.0 as usize] == 1 && buffer.is_some() && !written.contains(&buffer) && !written.contains(&None) {
                let end = end(dst);
                let uses = SmallVec::new();
                let candidate = Candidate { load, from: at, uses, end, is_original: true, is_split: false };
                self.candidates.insert(dst, candidate);
            }
        }
        for (at, inst) in code.insts.iter().enumerate() {
            for v in inst.uses() {
                if let Some(c) = self.candidates.get_mut(&v)
                    && c.uses.last() != Some(&at)
                {
                    c.uses.push(at);
                }
            }
        }
    }

    /// Evicts registers wherever there are too many; `false` if none can be evicted at some place.
    fn run(&mut self, code: &mut Code, available: usize) -> bool {
        let mut active: Vec<VReg> = Vec::new();
        let mut starting: Vec<(usize, VReg)> = self.candidates.iter().map(|(&v, c)| (c.from, v)).collect();
        starting.sort_unstable_by_key(|&(from, v)| (std::cmp::Reverse(from), v));
        for at in 0..code.insts.len() {
            while let Some((_, v)) = starting.pop_if(|s| s.0 <= at) {
                active.push(v);
            }
            active.retain(|v| self.candidates.get(v).is_some_and(|c| c.end > at));
            while self.pressure[at] > available as i32 {
                let best = active.iter().filter_map(|&v| Some((self.next_use(v, at)?, v))).max();
                let Some((_, v)) = best else { return false };
                let Some(parts) = self.split(code, v, at) else { return false };
                for part in parts {
                    let start = self.candidates[&part].from;
                    if start <= at + 1 {
                        active.push(part);
                    } else {
                        let place = starting.partition_point(|s| s.0 >= start);
                        starting.insert(place, (start, part));
                    }
                }
                active.retain(|v| self.candidates.get(v).is_some_and(|c| c.end > at));
            }
        }
        true
    }

    /// The outermost loop around an instruction that does not contain the register's load.
    fn loop_around(&self, from: usize, at: usize) -> Option<&Span> {
        self.loops.iter().find(|l| l.holds(at) && !l.holds(from))
    }

    /// The next use of a register after an instruction, if it can be reloaded before. In a loop that begins after the
    /// load, earlier instructions use it in the next iteration.
    fn next_use(&self, v: VReg, at: usize) -> Option<usize> {
        let c = self.candidates.get(&v)?;
        if c.from >= at {
            return None;
        }
        let mut next = c.uses.iter().copied().find(|&u| u > at);
        let mut places: SmallVec<[usize; 2]> = SmallVec::new();
        if let Some(l) = self.loop_around(c.from, at) {
            let inside = c.uses.iter().copied().find(|&u| l.holds(u));
            let behind = c.uses.iter().copied().find(|&u| u > l.end);
            if next.is_none_or(|u| u > l.end)
                && let Some(first) = inside
            {
                next = Some(l.end + first - l.begin);
            }
            places.extend(inside);
            places.extend(behind);
        } else {
            places.extend(next);
        }
        let next = next?;
        (next > at + 1 && places.iter().all(|&place| self.is_loadable(c, place))).then_some(next)
    }

    /// Whether the load of a register gives the same value before another instruction.
    fn is_loadable(&self, c: &Candidate, place: usize) -> bool {
        let Some((_, mem)) = loaded(&c.load) else { return false };
        let same = self.loops.iter().all(|l| match (l.holds(c.from), l.holds(place)) {
            (true, false) => false,
            (false, true) => !l.advances.contains(&mem.stream),
            _ => true,
        });
        let has_mask = match c.load {
            Inst::LoadMasked { mask, .. } | Inst::LoadNarrow { mask: Some(mask), .. } => match self.masks.get(&mask) {
                Some((1, None)) => true,
                Some(&(1, Some(set))) => self.loops.iter().all(|l| !l.holds(set) || l.holds(place)),
                _ => false,
            },
            _ => true,
        };
        same && has_mask
    }

    /// Splits a live range at an instruction, and reloads the register for later uses. Returns the replacing registers.
    fn split(&mut self, code: &mut Code, v: VReg, at: usize) -> Option<SmallVec<[VReg; 2]>> {
        let c = self.candidates.get(&v)?;
        let (load, from, old_end, is_original) = (c.load, c.from, c.end, c.is_original);
        let (mut kept, mut parts): (SmallVec<[usize; 4]>, [SmallVec<[usize; 4]>; 2]) = Default::default();
        match self.loop_around(from, at) {
            Some(l) => {
                for &u in &c.uses {
                    let part = if u < l.begin { &mut kept } else { &mut parts[usize::from(u > l.end)] };
                    part.push(u);
                }
            }
            None => {
                for &u in &c.uses {
                    if u <= at { kept.push(u) } else { parts[0].push(u) }
                }
            }
        }
        let end = self.end_of(from, &kept);
        self.shift(from, old_end, -1);
        self.shift(from, end, 1);
        self.candidates.insert(v, Candidate { load, from, uses: kept, end, is_original, is_split: true });
        let mut made = SmallVec::new();
        for uses in parts {
            let Some(&first) = uses.first() else { continue };
            let new = code.fresh(Class::Vector);
            for &u in &uses {
                code.insts[u].replace_use(v, new);
            }
            let end = self.end_of(first, &uses);
            // While the reload runs, the operands of the preceding instruction are still live.
            self.shift(first.saturating_sub(1), end, 1);
            self.candidates.insert(
                new,
                Candidate { load: load.loading_to(new), from: first, uses, end, is_original: false, is_split: true },
            );
            made.push(new);
        }
        Some(made)
    }

    /// The last position at which a register is live, given its load and its uses.
    fn end_of(&self, from: usize, uses: &[usize]) -> usize {
        let last = |&u: &usize| self.loop_around(from, u).map_or(u, |l| l.end);
        uses.iter().map(last).max().unwrap_or(from)
    }

    fn shift(&mut self, from: usize, to: usize, by: i32) {
        for p in &mut self.pressure[from..to.max(from)] {
            *p += by;
        }
    }

    /// Inserts the reloads into the code: as memory operands if they have one use.
    fn finish(self, code: &mut Code) {
        let mut before: HashMap<usize, SmallVec<[Inst; 2]>, FxBuild> = HashMap::default();
        let mut unused: Vec<usize> = Vec::new();
        let mut order: Vec<(&VReg, &Candidate)> = self.candidates.iter().collect();
        order.sort_unstable_by_key(|(v, _)| **v);
        for (&v, c) in order {
            match (c.is_original, &c.uses[..]) {
                (true, []) => unused.push(c.from),
                (true, &[only])
                    if c.is_split && self.is_loadable(c, only) && fold(&mut code.insts[only], v, &c.load) =>
                {
                    unused.push(c.from);
                }
                (false, &[only]) if fold(&mut code.insts[only], v, &c.load) => {}
                (false, [_, ..]) => before.entry(c.from).or_default().push(c.load),
                _ => {}
            }
        }
        let old = std::mem::take(&mut code.insts);
        for (at, inst) in old.into_iter().enumerate() {
            code.insts.extend(before.remove(&at).into_iter().flatten());
            if !unused.contains(&at) {
                code.insts.push(inst);
            }
        }
    }
}

/// The loops of the code, outer before inner.
fn spans(code: &Code) -> Vec<Span> {
    let mut loops: Vec<Span> = Vec::new();
    let mut open: SmallVec<[usize; 4]> = SmallVec::new();
    for (at, inst) in code.insts.iter().enumerate() {
        match *inst {
            Inst::Begin { l, .. } => {
                let advances = (0u32..).map(StreamId).zip(&code.streams);
                let advances = advances.filter(|(_, s)| s.steps.iter().any(|&(m, _)| m == l)).map(|(id, _)| id);
                open.push(loops.len());
                loops.push(Span { begin: at, end: code.insts.len(), advances: advances.collect() });
            }
            Inst::End { .. } => {
                if let Some(l) = open.pop() {
                    loops[l].end = at;
                }
            }
            _ => {}
        }
    }
    loops
}

/// The register that a load sets, and its memory operand.
fn loaded(inst: &Inst) -> Option<(VReg, Mem)> {
    match *inst {
        Inst::Load { dst, mem, .. }
        | Inst::LoadNarrow { dst, mem, .. }
        | Inst::LoadMasked { dst, mem, .. }
        | Inst::LoadAllNarrow { dst, mem, .. }
        | Inst::LoadAll { dst, mem, .. } => Some((dst, mem)),
        _ => None,
    }
}

/// Merges the load of a factor into a multiply-add; `false` if that is impossible.
fn fold(inst: &mut Inst, v: VReg, load: &Inst) -> bool {
    let Inst::Load { mem, elem: loads, width: as_wide, .. } = *load else { return false };
    let Inst::Fma { acc, a, b, elem, width } = *inst else { return false };
    let other = match (a == v, b == v) {
        (true, false) => b,
        (false, true) => a,
        _ => return false,
    };
    // A memory operand of 64 bits would be read as 128.
    let fits = acc != v && (loads, as_wide) == (elem, width) && width != Width::Half;
    if fits {
        *inst = Inst::FmaMem { acc, a: other, b: mem, elem, width };
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::super::assign::{Registers, assign};
    use super::super::code::{Elem, LoopId, Stream};
    use super::*;
    use crate::codegen::testing::{below, rng};
    use crate::ir::DType;
    use crate::loopir::{Access, ExprId, Kernel};
    use rand_chacha::ChaCha8Rng;

    const SUMS: u32 = 3;
    const ELEM: (Elem, Width) = (Elem::F32, Width::Z);

    /// A generator of random code: sums of products of loaded values, in loops and around them.
    struct Writer {
        rng: ChaCha8Rng,
        code: Code,
        /// Registers loaded in this loop or an enclosing one.
        known: Vec<VReg>,
        extents: Vec<i64>,
    }

    impl Writer {
        fn body(&mut self, depth: usize) {
            let n_known = self.known.len();
            for _ in 0..4 + below(&mut self.rng, 14) {
                match below(&mut self.rng, 8) {
                    0 if depth < 2 => {
                        let l = LoopId(self.extents.len() as u32);
                        let extent = 1 + below(&mut self.rng, 3) as i64;
                        self.extents.push(extent);
                        for stream in &mut self.code.streams {
                            if below(&mut self.rng, 2) == 0 {
                                stream.steps.push((l, 64 * (1 + below(&mut self.rng, 3) as i64)));
                            }
                        }
                        self.code.insts.push(Inst::Begin { l, extent });
                        self.body(depth + 1);
                        self.code.insts.push(Inst::End { l });
                    }
                    0..=3 => {
                        let (dst, (elem, width)) = (self.code.fresh(Class::Vector), ELEM);
                        let stream = StreamId(below(&mut self.rng, self.code.streams.len()) as u32);
                        let mem = Mem { stream, disp: 64 * below(&mut self.rng, 4) as i32 };
                        let load = if below(&mut self.rng, 3) == 0 {
                            Inst::LoadAll { dst, mem, elem, width }
                        } else {
                            Inst::Load { dst, mem, elem, width }
                        };
                        self.code.insts.push(load);
                        self.known.push(dst);
                    }
                    _ if self.known.is_empty() => {}
                    _ => {
                        let (a, b) = (self.a_known(), self.a_known());
                        let acc = VReg(below(&mut self.rng, SUMS as usize) as u32);
                        self.code.insts.push(Inst::Fma { acc, a, b, elem: ELEM.0, width: ELEM.1 });
                    }
                }
            }
            self.known.truncate(n_known);
        }

        fn a_known(&mut self) -> VReg {
            self.known[below(&mut self.rng, self.known.len())]
        }
    }

    fn mixed(parts: [u64; 3]) -> u64 {
        parts.iter().fold(0, |h, &p| (h ^ p).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
    }

    /// The values of the sums if every memory location has a different number.
    fn evaluated(code: &Code) -> Vec<u64> {
        fn run(code: &Code, insts: &[Inst], pointers: &mut [i64], registers: &mut HashMap<VReg, u64>) {
            let mut at = 0;
            while at < insts.len() {
                let in_memory = |m: Mem, p: &[i64]| {
                    mixed([1, u64::from(m.stream.0), (p[m.stream.0 as usize] + i64::from(m.disp)) as u64])
                };
                match insts[at] {
                    Inst::Begin { l, extent } => {
                        let end = at + insts[at..].iter().position(|i| *i == Inst::End { l }).expect("an end");
                        let before = pointers.to_vec();
                        for _ in 0..extent {
                            run(code, &insts[at + 1..end], pointers, registers);
                            for (p, s) in pointers.iter_mut().zip(&code.streams) {
                                *p += s.steps.iter().filter(|(m, _)| *m == l).map(|&(_, step)| step).sum::<i64>();
                            }
                        }
                        pointers.copy_from_slice(&before);
                        at = end;
                    }
                    Inst::Load { dst, mem, .. } => drop(registers.insert(dst, in_memory(mem, pointers))),
                    Inst::LoadAll { dst, mem, .. } => drop(registers.insert(dst, !in_memory(mem, pointers))),
                    Inst::Fma { acc, a, b, .. } => {
                        let product = registers[&a].wrapping_add(registers[&b]);
                        registers.insert(acc, mixed([2, registers[&acc], product]));
                    }
                    Inst::FmaMem { acc, a, b, .. } => {
                        let product = registers[&a].wrapping_add(in_memory(b, pointers));
                        registers.insert(acc, mixed([2, registers[&acc], product]));
                    }
                    other => panic!("{other:?}"),
                }
                at += 1;
            }
        }
        let mut registers: HashMap<VReg, u64> = (0..SUMS).map(|v| (VReg(v), u64::from(v))).collect();
        run(code, &code.insts, &mut vec![0; code.streams.len()], &mut registers);
        (0..SUMS).map(|v| registers[&VReg(v)]).collect()
    }

    #[test]
    fn what_is_loaded_again_is_the_same() {
        let mut kernel = Kernel::new("f");
        let index: ExprId = kernel.arena.index(0);
        let buffer = kernel.add_param("x", DType::Float32, 1, Access::In);
        let args: Vec<RegionArg> = (0..3).map(|_| RegionArg::Address { buffer, index }).collect();
        let (mut relieved, mut folded) = (0, 0);
        for seed in 0..1000 {
            let mut code = Code::default();
            for _ in 0..SUMS {
                let dst = code.fresh(Class::Vector);
                code.prologue.push(Inst::Arg { dst, slot: 0, elem: Elem::F32 });
            }
            code.streams = (0..3).map(|slot| Stream::of_argument(slot, SmallVec::new())).collect();
            let mut writer = Writer { rng: rng(seed), code, known: Vec::new(), extents: Vec::new() };
            writer.body(0);
            let before = writer.code;
            for vectors in [5, 6, 8] {
                let registers = Registers { vectors, masks: 0, pointers: 0 };
                let mut code = before.clone();
                if assign(&mut code.clone(), registers).is_some() || !reload(&mut code, &args, usize::from(vectors)) {
                    continue;
                }
                assert_eq!(
                    evaluated(&code),
                    evaluated(&before),
                    "{seed} {vectors}\n{:#?}\n{:#?}",
                    before.insts,
                    code.insts
                );
                assert!(assign(&mut code.clone(), registers).is_some(), "{seed} {vectors}: too many registers");
                relieved += 1;
                folded += usize::from(code.insts.iter().any(|i| matches!(i, Inst::FmaMem { .. })));
            }
        }
        assert!(relieved > 300 && folded > 150, "{relieved} {folded}");
    }

    #[test]
    fn what_the_region_writes_stays_in_registers() {
        let mut kernel = Kernel::new("f");
        let index: ExprId = kernel.arena.index(0);
        let buffer = kernel.add_param("x", DType::Float32, 1, Access::In);
        let args = [RegionArg::Address { buffer, index }];
        let (mut code, (elem, width)) = (Code::default(), ELEM);
        code.streams = vec![Stream::of_argument(0, SmallVec::new())];
        let mem = |n: i32| Mem { stream: StreamId(0), disp: 64 * n };
        let loaded: Vec<VReg> = (0..6).map(|_| code.fresh(Class::Vector)).collect();
        for (n, &dst) in (0..).zip(&loaded) {
            code.insts.push(Inst::Load { dst, mem: mem(n), elem, width });
        }
        for (n, &src) in (0..).zip(&loaded) {
            code.insts.push(Inst::Store { src, mem: mem(n + 1), elem, width });
        }
        assert!(!reload(&mut code.clone(), &args, 4));
        assert!(reload(&mut code, &args, 6));
    }
}
