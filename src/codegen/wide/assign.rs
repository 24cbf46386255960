//! Registers for virtual registers: linear scan without spilling. Code that needs more registers than there are is not for
//! a region.

use super::code::{Code, Inst, LoopId, VReg};
use smallvec::SmallVec;

/// The machine register of each virtual register, by number; `None` if there are not enough.
pub(super) fn assign(code: &Code, n_registers: usize) -> Option<Vec<u8>> {
    let live = intervals(code);
    let mut order: Vec<u32> = (0..code.n_vregs).filter(|&v| live[v as usize].0 != usize::MAX).collect();
    order.sort_by_key(|&v| live[v as usize].0);
    let mut assigned = vec![0u8; code.n_vregs as usize];
    let mut free: Vec<u8> = (0..n_registers as u8).rev().collect();
    let mut active: Vec<(usize, u8)> = Vec::new();
    for v in order {
        let (start, end) = live[v as usize];
        active.retain(|&(until, register)| {
            // What ends where this begins is read before this is written.
            let ends = until <= start;
            if ends {
                free.push(register);
            }
            !ends
        });
        let register = free.pop()?;
        assigned[v as usize] = register;
        active.push((end, register));
    }
    Some(assigned)
}

/// First and last position at which each virtual register is needed. A register that was set before a loop and is used
/// in it lives through all of it.
fn intervals(code: &Code) -> Vec<(usize, usize)> {
    let mut live = vec![(usize::MAX, 0usize); code.n_vregs as usize];
    let mut loops: SmallVec<[(LoopId, usize, Vec<VReg>); 4]> = SmallVec::new();
    for (at, inst) in code.prologue.iter().chain(&code.insts).enumerate() {
        match inst {
            Inst::Begin { l, .. } => {
                loops.push((*l, at, Vec::new()));
                continue;
            }
            Inst::End { .. } => {
                let Some((_, begin, touched)) = loops.pop() else { continue };
                for v in &touched {
                    let interval = &mut live[v.0 as usize];
                    if interval.0 < begin {
                        interval.1 = interval.1.max(at);
                    }
                }
                if let Some(outer) = loops.last_mut() {
                    outer.2.extend(touched);
                }
                continue;
            }
            _ => {}
        }
        for v in inst.uses().into_iter().chain(inst.sets()) {
            let interval = &mut live[v.0 as usize];
            interval.0 = interval.0.min(at);
            interval.1 = interval.1.max(at);
            if let Some(l) = loops.last_mut() {
                l.2.push(v);
            }
        }
    }
    live
}
