//! Register allocation: linear scan without spilling.
//!
//! If there are too few registers, constants are rematerialised, those with the fewest uses first: they are loaded
//! before each use. Code that still needs more registers cannot be a region.

use super::code::{Class, Code, Inst, LoopId, VReg};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Number of registers of each class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub vectors: u8,
    /// The first mask register cannot mask: as an operand it means "no mask".
    pub masks: u8,
    /// For streams and the counters of running loops.
    pub pointers: u8,
}

/// The machine register of each virtual register, by number; `None` if there are not enough: then the code is
/// unchanged.
pub(super) fn assign(code: &mut Code, registers: Registers) -> Option<Vec<u8>> {
    let mut missing = match scan(code, registers) {
        Ok(assigned) => return Some(assigned),
        Err(missing) => missing,
    };
    let mut short = code.clone();
    while rematerialize(&mut short, missing) {
        match scan(&short, registers) {
            Ok(assigned) => {
                *code = short;
                return Some(assigned);
            }
            Err(still) => missing = still,
        }
    }
    None
}

/// Assigns registers, or returns the number of missing vector registers.
fn scan(code: &Code, registers: Registers) -> Result<Vec<u8>, usize> {
    let live = intervals(code);
    let mut order: Vec<u32> = (0..code.classes.len() as u32).filter(|&v| live[v as usize].0 != usize::MAX).collect();
    order.sort_by_key(|&v| live[v as usize].0);
    let mut assigned = vec![0u8; code.classes.len()];
    let mut free: Vec<u8> = (0..registers.vectors).rev().collect();
    let mut free_masks: Vec<u8> = (1..registers.masks).rev().collect();
    let mut active: Vec<(usize, u8, Class)> = Vec::new();
    let (mut missing, mut excess) = (0usize, 0usize);
    for v in order {
        let (start, end) = live[v as usize];
        active.retain(|&(until, register, class)| {
            // A register that ends where this one begins is read before this one is written.
            let ends = until <= start;
            if ends {
                match class {
                    Class::Vector if register == NONE => excess -= 1,
                    Class::Vector => free.push(register),
                    Class::Mask => free_masks.push(register),
                }
            }
            !ends
        });
        let class = code.classes[v as usize];
        let register = match class {
            Class::Vector => free.pop().unwrap_or_else(|| {
                excess += 1;
                missing = missing.max(excess);
                NONE
            }),
            // Mask registers cannot be rematerialised.
            Class::Mask => free_masks.pop().ok_or(usize::MAX)?,
        };
        assigned[v as usize] = register;
        active.push((end, register, class));
    }
    if missing == 0 { Ok(assigned) } else { Err(missing) }
}

/// A missing register.
const NONE: u8 = u8::MAX;

/// First and last position at which each virtual register is live. A register that is set before a loop and used in it
/// is live in the whole loop.
pub(super) fn intervals(code: &Code) -> Vec<(usize, usize)> {
    let mut live = vec![(usize::MAX, 0usize); code.classes.len()];
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

/// Number of instructions for which a rematerialised constant stays in its register.
const KEPT: usize = 6;

/// The register of a constant.
fn constant(inst: &Inst) -> Option<VReg> {
    match *inst {
        Inst::Const { dst, .. } | Inst::Indices { dst, .. } | Inst::Table { dst, .. } => Some(dst),
        _ => None,
    }
}

/// The number of constants that need no register of their own if there are too few.
pub(super) fn constants(code: &Code) -> usize {
    code.prologue.iter().filter(|inst| constant(inst).is_some()).count()
}

/// Rematerialises `n` constants; `false` if there are not enough.
fn rematerialize(code: &mut Code, n: usize) -> bool {
    let mut uses: HashMap<VReg, usize> = HashMap::new();
    for inst in &code.insts {
        for v in inst.uses() {
            *uses.entry(v).or_default() += 1;
        }
    }
    let mut constants: Vec<VReg> = code.prologue.iter().filter_map(constant).collect();
    constants.sort_by_key(|v| (uses.get(v).copied().unwrap_or(0), *v));
    constants.truncate(n);
    if constants.is_empty() {
        return false;
    }
    let mut given_up = HashMap::new();
    code.prologue.retain(|inst| match *inst {
        Inst::Const { dst, bits, elem } if constants.contains(&dst) => {
            given_up.insert(dst, Inst::LoadConst { dst, bits, elem });
            false
        }
        Inst::Indices { dst, .. } | Inst::Table { dst, .. } if constants.contains(&dst) => {
            given_up.insert(dst, *inst);
            false
        }
        _ => true,
    });
    let old = std::mem::take(&mut code.insts);
    // For each constant, the register into which it was loaded, and the position.
    let mut loaded: HashMap<VReg, (VReg, usize)> = HashMap::new();
    for (at, mut inst) in old.into_iter().enumerate() {
        if matches!(inst, Inst::Begin { .. } | Inst::End { .. }) {
            loaded.clear();
        }
        for v in inst.uses() {
            let Some(&load) = given_up.get(&v) else { continue };
            if let Inst::Move { dst, .. } = inst {
                inst = load.loading_to(dst);
                break;
            }
            let copy = match loaded.get(&v) {
                Some(&(copy, then)) if at - then <= KEPT => copy,
                _ => {
                    let copy = code.fresh(Class::Vector);
                    code.insts.push(load.loading_to(copy));
                    loaded.insert(v, (copy, at));
                    copy
                }
            };
            inst.replace_use(v, copy);
        }
        code.insts.push(inst);
    }
    true
}
