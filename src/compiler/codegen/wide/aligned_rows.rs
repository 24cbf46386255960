//! Rows that overlap: instead of loads from each place, shuffles of what one of them has loaded.
//!
//! ```text
//! a = [p - 4], lanes 1 to 12        b = [p], lanes 0 to 12
//! b = [p], lanes 0 to 12            a = b moved up by a lane, lanes 1 to 12
//! c = [p + 4], lanes 0 to 11        c = b moved down by a lane, lanes 0 to 11
//! ```
//!
//! Windows read each row at several places, most of which cross cache lines. Where shuffles of whole registers are cheap, they take less
//! time than such loads.

use super::code::{Code, Inst, Mem, VReg, Width};
use smallvec::SmallVec;

/// Lanes of 32 bits in a register.
const LANES: i32 = 16;
/// The bits of all lanes.
const ALL: u16 = u16::MAX;
/// Maximum number of instructions from a load to one that is derived from it: what is loaded stays in a register as long.
const NEAR: usize = 24;

/// A load of some lanes of 32 bits.
#[derive(Clone, Copy)]
struct Row {
    at: usize,
    dst: VReg,
    mask: Option<VReg>,
    present: u16,
    mem: Mem,
}

/// How a row follows from others: as lanes of `low` and `high` from lane `by` on.
struct Derived {
    low: Row,
    high: Row,
    by: u8,
}

/// Rewrites the loads of overlapping rows in straight code.
pub(super) fn aligned_rows(code: &mut Code) {
    let rows = rows(code);
    // Where each row that stays is loaded now, and what replaces each row that does not.
    let mut places: Vec<(usize, usize)> = Vec::new();
    let mut replaced: Vec<(usize, Inst)> = Vec::new();
    for run in &rows {
        let mut ordered = run.clone();
        ordered
            .sort_by_key(|row| (std::cmp::Reverse(row.present.count_ones()), row.mem.disp % (4 * LANES) != 0, row.at));
        let mut hosts: SmallVec<[Row; 8]> = SmallVec::new();
        let mut moved: Vec<(Row, Derived)> = Vec::new();
        for row in ordered {
            match derived(&row, &hosts) {
                Some(derived) => moved.push((row, derived)),
                None => hosts.push(row),
            }
        }
        for &(Row { at, dst, mask, .. }, Derived { low, high, by }) in &moved {
            replaced.push((at, Inst::Align { dst, low: low.dst, high: high.dst, by, mask, width: Width::Z }));
        }
        for host in hosts {
            let uses = moved.iter().filter(|(_, d)| d.low.dst == host.dst || d.high.dst == host.dst);
            if let Some(first) = uses.map(|(row, _)| row.at).min().filter(|&first| first < host.at) {
                places.push((first, host.at));
            }
        }
    }
    if replaced.is_empty() {
        return;
    }
    let mut kept: Vec<Option<Inst>> = code.insts.iter().copied().map(Some).collect();
    places.sort_unstable();
    let moved: Vec<(usize, Option<Inst>)> = places.into_iter().map(|(to, from)| (to, kept[from].take())).collect();
    replaced.into_iter().for_each(|(at, align)| kept[at] = Some(align));
    let mut moved = moved.into_iter().peekable();
    code.insts.clear();
    for (at, inst) in kept.into_iter().enumerate() {
        while let Some((_, host)) = moved.next_if(|&(to, _)| to == at) {
            code.insts.extend(host);
        }
        code.insts.extend(inst);
    }
}

/// The loads of each piece of straight code in which memory, pointers and masks stay as they are, by stream.
fn rows(code: &Code) -> Vec<Vec<Row>> {
    let mut n_sets = vec![0u32; code.classes.len()];
    code.insts.iter().filter_map(Inst::sets).for_each(|v| n_sets[v.0 as usize] += 1);
    let lanes_of = |mask: VReg| {
        code.prologue.iter().find_map(|inst| match *inst {
            Inst::Lanes { dst, bits, elem } if dst == mask && elem.bytes() == 4 => u16::try_from(bits).ok(),
            _ => None,
        })
    };
    let mut all: Vec<Vec<Row>> = Vec::new();
    let mut first = 0;
    for (at, inst) in code.insts.iter().enumerate() {
        if inst.is_barrier() {
            first = all.len();
        }
        let row = match *inst {
            Inst::Load { dst, mem, elem, width: Width::Z } if elem.bytes() == 4 => Some((dst, None, Some(ALL), mem)),
            Inst::LoadMasked { dst, mask, mem, elem, width: Width::Z } if elem.bytes() == 4 => {
                Some((dst, Some(mask), lanes_of(mask), mem))
            }
            _ => None,
        };
        let Some((dst, mask, Some(present), mem)) = row else { continue };
        if n_sets[dst.0 as usize] != 1 {
            continue;
        }
        let row = Row { at, dst, mask, present, mem };
        match all[first..].iter_mut().find(|run| run[0].mem.stream == mem.stream && at - run[0].at <= NEAR) {
            Some(run) => run.push(row),
            None => all.push(vec![row]),
        }
    }
    all.retain(|run| run.len() > 1);
    all
}

/// How a row follows from one that is loaded, or from two that lie next to each other.
fn derived(row: &Row, hosts: &[Row]) -> Option<Derived> {
    for low in hosts {
        let bytes = row.mem.disp - low.mem.disp;
        let lanes = bytes / 4;
        if bytes % 4 != 0 || bytes == 0 || lanes.abs() >= LANES {
            continue;
        }
        let (by, found) = match lanes {
            0.. => (lanes, low.present >> lanes),
            _ => (LANES + lanes, low.present << -lanes),
        };
        let by = by as u8;
        if row.present & !found == 0 {
            return Some(Derived { low: *low, high: *low, by });
        }
        let next = hosts.iter().find(|high| lanes > 0 && high.mem.disp - low.mem.disp == 4 * LANES);
        if let Some(high) = next
            && row.present & !(found | high.present << (LANES - lanes)) == 0
        {
            return Some(Derived { low: *low, high: *high, by });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::code::{Class, Elem, StreamId};
    use super::*;

    const fn v(n: u32) -> VReg {
        VReg(n)
    }

    fn mem(disp: i32) -> Mem {
        Mem { stream: StreamId(0), disp }
    }

    fn whole(dst: u32, disp: i32) -> Inst {
        Inst::Load { dst: v(dst), mem: mem(disp), elem: Elem::F32, width: Width::Z }
    }

    fn masked(dst: u32, mask: u32, disp: i32) -> Inst {
        Inst::LoadMasked { dst: v(dst), mask: v(mask), mem: mem(disp), elem: Elem::F32, width: Width::Z }
    }

    fn align(dst: u32, low: u32, high: u32, by: u8, mask: Option<u32>) -> Inst {
        Inst::Align { dst: v(dst), low: v(low), high: v(high), by, mask: mask.map(v), width: Width::Z }
    }

    fn rewritten(masks: &[(u32, u64)], insts: &[Inst]) -> Vec<Inst> {
        let lanes = |&(dst, bits)| Inst::Lanes { dst: v(dst), bits, elem: Elem::F32 };
        let mut code = Code {
            prologue: masks.iter().map(lanes).collect(),
            insts: insts.to_vec(),
            classes: vec![Class::Vector; 16],
            ..Code::default()
        };
        aligned_rows(&mut code);
        code.insts
    }

    #[test]
    fn the_row_with_all_elements_is_loaded_first() {
        let masks = [(1, 0x1ffe), (2, 0x1fff), (3, 0xfff)];
        let found = rewritten(&masks, &[masked(4, 1, -4), masked(5, 2, 0), masked(6, 3, 4)]);
        assert_eq!(found, [masked(5, 2, 0), align(4, 5, 5, 15, Some(1)), align(6, 5, 5, 1, Some(3))]);
    }

    #[test]
    fn lanes_that_were_not_loaded_are_not_taken() {
        let insts = [masked(5, 2, 0), masked(6, 3, 4)];
        assert_eq!(rewritten(&[(2, 0x1fff), (3, 0x1fff)], &insts), insts);
        let insts = [whole(4, 0), whole(5, 4)];
        assert_eq!(rewritten(&[], &insts), insts);
    }

    #[test]
    fn a_row_across_two_loaded_ones_is_taken_from_both() {
        let found = rewritten(&[], &[whole(4, 8), whole(5, 0), whole(6, 64), whole(7, 72)]);
        assert_eq!(found, [whole(5, 0), whole(6, 64), align(4, 5, 6, 2, None), whole(7, 72)]);
    }

    #[test]
    fn rows_on_both_sides_of_a_store_are_loaded() {
        let store = Inst::Store { src: v(4), mem: mem(256), elem: Elem::F32, width: Width::Z };
        let insts = [whole(4, 0), store, masked(5, 1, 4)];
        assert_eq!(rewritten(&[(1, 0xff)], &insts), insts);
        let near = [whole(4, 0), masked(5, 1, 4)];
        assert_eq!(rewritten(&[(1, 0xff)], &near), [whole(4, 0), align(5, 4, 4, 1, Some(1))]);
    }
}
