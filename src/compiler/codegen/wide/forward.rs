//! Store-to-load forwarding.
//!
//! Within straight code between ends of loops, a load of a whole vector that was stored before, and not overwritten,
//! becomes a move, which costs almost nothing; a load would have to wait for the store.

use super::RegionArg;
use super::code::{Code, Elem, Inst, Mem, StreamId, VReg, Width};
use crate::loopir::BufferId;

/// A stored vector, and the register that still contains it.
#[derive(Clone, Copy)]
struct Held {
    mem: Mem,
    elem: Elem,
    width: Width,
    register: VReg,
}

/// Replaces loads by moves.
pub(super) fn forward(code: &mut Code, args: &[RegionArg]) {
    let Code { insts, streams, .. } = code;
    let buffer_of = |s: StreamId| streams[s.0 as usize].buffer(args);
    let mut held: Vec<Held> = Vec::new();
    for inst in insts {
        if let Inst::Load { dst, mem, elem, width } = *inst
            && let Some(h) = held.iter().find(|h| (h.mem, h.elem, h.width) == (mem, elem, width))
        {
            *inst = Inst::Move { dst, src: h.register };
        }
        if matches!(inst, Inst::Begin { .. } | Inst::End { .. }) {
            held.clear();
        }
        if let Some(set) = inst.sets() {
            held.retain(|h| h.register != set);
        }
        match *inst {
            Inst::Store { src, mem, elem, width } => {
                held.retain(|h| are_apart(h, mem, width, &buffer_of));
                if width.bytes().is_some() {
                    held.push(Held { mem, elem, width, register: src });
                }
            }
            Inst::StoreMasked { mem, .. } | Inst::StoreNarrow { mem, .. } | Inst::StoreLow { mem, .. } => {
                let buffer = buffer_of(mem.stream);
                held.retain(|h| buffer.is_some() && buffer_of(h.mem.stream) != buffer);
            }
            _ => {}
        }
    }
}

/// Whether a store certainly does not overlap the stored vector.
fn are_apart(held: &Held, mem: Mem, width: Width, buffer_of: &impl Fn(StreamId) -> Option<BufferId>) -> bool {
    if held.mem.stream == mem.stream {
        let (Some(own), Some(other)) = (held.width.bytes(), width.bytes()) else { return false };
        let (from, to) = (i64::from(held.mem.disp), i64::from(mem.disp));
        return from + own as i64 <= to || to + other as i64 <= from;
    }
    let buffers = (buffer_of(held.mem.stream), buffer_of(mem.stream));
    buffers.0.is_some() && buffers.1.is_some() && buffers.0 != buffers.1
}
