//! Minima and maxima with padded elements as one instruction.
//!
//! ```text
//! v = [mem], where the mask is set          max acc, [mem], where the mask is set
//! s = v where the mask is set, else limit   // becomes one instruction, if the limit is a term of the result in any case
//! acc = max(acc, s)
//! ```
//!
//! The sums of pooling begin with the value that stands for elements outside the image, so that such elements need not be compared with.
//! If one of the elements is NaN, the result may be another one of them.

use super::code::{Code, Elem, Inst, Op2, VReg};
use smallvec::SmallVec;

/// Maximum number of operations that are looked through.
const DEPTH: usize = 12;

/// Rewrites such operations in straight code.
pub(super) fn padded_extremes(code: &mut Code) {
    if !code.insts.iter().any(|inst| matches!(inst, Inst::LoadMasked { .. } | Inst::Align { .. })) {
        return;
    }
    let flow = Flow::of(code);
    let mut dropped = vec![false; code.insts.len()];
    let mut made: Vec<(usize, [Inst; 2])> = Vec::new();
    for at in 0..code.insts.len() {
        let Inst::Binary { op: op @ (Op2::Min | Op2::Max), dst, a, b, elem: Elem::F32, width } = code.insts[at] else {
            continue;
        };
        let found = [(a, b), (b, a)].into_iter().find_map(|(padded, other)| {
            let padding = flow.padding(code, padded, at).filter(|_| padded != other)?;
            let is_covered = match dst == other {
                true => flow.covers(code, dst, padding.limit, op, DEPTH),
                false => flow.absorbs(code, dst, padding.limit, op, DEPTH),
            };
            is_covered.then_some((other, padding))
        });
        let Some((other, Padding { load, select, .. })) = found else { continue };
        let extreme = match &mut code.insts[load] {
            &mut Inst::LoadMasked { mask, mem, .. } => {
                dropped[load] = true;
                Inst::ExtremeMasked { acc: dst, mask, op, mem, width }
            }
            Inst::Align { dst: row, mask, .. } => {
                let Some(mask) = mask.take() else { continue };
                Inst::ExtremeSome { acc: dst, mask, op, b: *row, width }
            }
            _ => continue,
        };
        dropped[select] = true;
        made.push((at, [Inst::Move { dst, src: other }, extreme]));
    }
    if made.is_empty() {
        return;
    }
    let mut made = made.into_iter().peekable();
    let old = std::mem::take(&mut code.insts);
    for (at, inst) in old.into_iter().enumerate() {
        match made.next_if(|&(place, _)| place == at) {
            Some((_, [copy, extreme])) => {
                code.insts.extend(Some(copy).filter(|copy| !matches!(copy, Inst::Move { dst, src } if dst == src)));
                code.insts.push(extreme);
            }
            None if dropped[at] => {}
            None => code.insts.push(inst),
        }
    }
}

/// A value that is loaded where a mask is set, and `limit` elsewhere: the positions of the load and of the selection.
struct Padding {
    load: usize,
    select: usize,
    limit: VReg,
}

/// Where registers are set and used.
struct Flow {
    sets: Vec<SmallVec<[usize; 2]>>,
    uses: Vec<SmallVec<[usize; 2]>>,
}

impl Flow {
    fn of(code: &Code) -> Flow {
        let n = code.classes.len();
        let mut flow = Flow { sets: vec![SmallVec::new(); n], uses: vec![SmallVec::new(); n] };
        for (at, inst) in code.insts.iter().enumerate() {
            if let Some(set) = inst.sets() {
                flow.sets[set.0 as usize].push(at);
            }
            for used in inst.uses() {
                flow.uses[used.0 as usize].push(at);
            }
        }
        flow
    }

    /// The only instruction that sets a register, and the only one that uses it.
    fn single(&self, v: VReg) -> Option<(usize, usize)> {
        match (&self.sets[v.0 as usize][..], &self.uses[v.0 as usize][..]) {
            (&[set], &[used]) => Some((set, used)),
            _ => None,
        }
    }

    /// The padding of a value that only the instruction `at` uses, if memory and the limit stay as they are until then.
    fn padding(&self, code: &Code, padded: VReg, at: usize) -> Option<Padding> {
        let (select, _) = self.single(padded).filter(|&(set, used)| set < at && used == at)?;
        let Inst::Select { mask, then, otherwise: limit, .. } = code.insts[select] else { return None };
        let (load, _) = self.single(then).filter(|&(set, used)| set < select && used == select)?;
        let is_masked = match code.insts[load] {
            Inst::LoadMasked { mask: of_load, .. } => of_load == mask,
            Inst::Align { mask: of_row, .. } => of_row == Some(mask),
            _ => false,
        };
        let stays = |inst: &Inst| !inst.is_barrier() && inst.sets() != Some(mask);
        // A constant: nothing in the code sets it.
        let is_constant = self.sets[limit.0 as usize].is_empty();
        (is_masked && is_constant && code.insts[load..at].iter().all(stays)).then_some(Padding { load, select, limit })
    }

    /// Whether all that follows from a register has the limit as a further term.
    fn absorbs(&self, code: &Code, v: VReg, limit: VReg, op: Op2, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let uses = &self.uses[v.0 as usize];
        !uses.is_empty()
            && self.sets[v.0 as usize].len() == 1
            && uses.iter().all(|&at| match code.insts[at] {
                Inst::Binary { op: other, dst, a, b, .. } if other == op => {
                    let rest = if a == v { b } else { a };
                    self.covers(code, rest, limit, op, depth) || self.absorbs(code, dst, limit, op, depth)
                }
                _ => false,
            })
    }

    /// Whether a register's values all have the limit as a term.
    fn covers(&self, code: &Code, v: VReg, limit: VReg, op: Op2, depth: usize) -> bool {
        if v == limit {
            return true;
        }
        let Some(depth) = depth.checked_sub(1) else { return false };
        let sets = &self.sets[v.0 as usize];
        !sets.is_empty()
            && sets.iter().all(|&at| match code.insts[at] {
                Inst::Move { src, .. } => self.covers(code, src, limit, op, depth),
                Inst::Binary { op: other, a, b, .. } if other == op => {
                    [a, b].into_iter().any(|x| x == v && sets.len() > 1 || self.covers(code, x, limit, op, depth))
                }
                _ => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::{Class, Mem, StreamId, Width};
    use super::*;

    const LIMIT: VReg = VReg(0);
    const MASK: VReg = VReg(1);
    const WIDTH: Width = Width::Z;

    /// The maximum of a register and padded elements, and of the result and another register.
    fn rewritten(rest: VReg, op: Op2) -> Vec<Inst> {
        let mem = Mem { stream: StreamId(0), disp: 0 };
        let [loaded, padded, first, second] = [3, 4, 5, 6].map(VReg);
        let elem = Elem::F32;
        let insts = vec![
            Inst::LoadMasked { dst: loaded, mask: MASK, mem, elem, width: WIDTH },
            Inst::Select { dst: padded, mask: MASK, then: loaded, otherwise: LIMIT, elem, width: WIDTH },
            Inst::Binary { op: Op2::Max, dst: first, a: VReg(2), b: padded, elem, width: WIDTH },
            Inst::Binary { op, dst: second, a: rest, b: first, elem, width: WIDTH },
        ];
        let mut code = Code { insts, classes: vec![Class::Vector; 16], ..Code::default() };
        padded_extremes(&mut code);
        code.insts
    }

    #[test]
    fn elements_outside_are_skipped_if_the_limit_follows() {
        let found = rewritten(LIMIT, Op2::Max);
        let [Inst::Move { dst, src }, Inst::ExtremeMasked { acc, mask, op, .. }, Inst::Binary { .. }] = found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!((dst, src, acc, mask, op), (VReg(5), VReg(2), VReg(5), MASK, Op2::Max));
    }

    #[test]
    fn elements_outside_count_otherwise() {
        // Another value, and another operation.
        assert_eq!(rewritten(VReg(7), Op2::Max).len(), 4);
        assert_eq!(rewritten(LIMIT, Op2::Min).len(), 4);
    }
}
