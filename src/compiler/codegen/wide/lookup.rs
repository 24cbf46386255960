//! Addresses that follow from elements of memory, such as rows whose numbers are in a table.
//!
//! ```text
//! for i in 56:                                 r = base + rows[i] * 256
//!     for j in 4:                   becomes    for j in 4: load [r]; r += 64
//!         … X[rows[i] * 64 + j * 16; 16]
//! ```
//!
//! The pointer is set where iterations of the innermost loop begin on which the element depends, and the loops inside advance it as any
//! other. Several elements are added one after the other, from the outside in, so that pointers that begin alike share their first
//! steps. The region may not write the elements.

use super::build::Builder;
use super::code::{Inst, Lookup, LoopId, Mem, Stream, StreamId};
use crate::ir::DType;
use crate::loopir::{BufferId, Expr, ExprId};
use smallvec::SmallVec;

/// Bytes that iterations of loops add to a pointer.
type Steps = SmallVec<[(LoopId, i64); 4]>;

impl Builder<'_> {
    /// The pointer from an argument with these steps, to which `int32` elements of memory are added, each with the bytes of a unit.
    pub(super) fn looked_up(&mut self, slot: u32, steps: &Steps, indices: &[(ExprId, i64)]) -> Option<StreamId> {
        let mut elements: SmallVec<[(usize, Mem, i32); 2]> = SmallVec::new();
        for &(index, unit) in indices {
            let (buffer, at) = self.element(index)?;
            let element = self.address(buffer, at)?;
            let stream = &self.code.streams[element.stream.0 as usize];
            if stream.lookup.is_some() {
                return None;
            }
            let depth = stream.steps.iter().map(|&(l, _)| self.depth_of(l)).max().unwrap_or(0);
            elements.push((depth, element, i32::try_from(unit).ok()?));
        }
        elements.sort_by_key(|&(depth, mem, unit)| (depth, mem.stream.0, mem.disp, unit));
        let between = |builder: &Self, from: usize, to: usize| -> Steps {
            let is_between = |l| (from..=to).contains(&builder.depth_of(l));
            steps.iter().copied().filter(|&(l, _)| is_between(l)).collect()
        };
        let first = elements.first()?.0;
        let own = between(self, 0, first);
        let mut from = self.stream(Stream::of_argument(slot, own))?;
        for (i, &(depth, element, unit)) in elements.iter().enumerate() {
            let next = elements.get(i + 1).map_or(usize::MAX, |e| e.0);
            let within = depth.checked_sub(1).map(|outer| self.loops[outer].1);
            let steps = between(self, depth + 1, next);
            let n_streams = self.code.streams.len();
            let lookup = Some(Lookup { from, element, unit, within });
            from = self.stream(Stream { slot, lookup, steps })?;
            if self.code.streams.len() > n_streams {
                self.at_start(depth, Inst::Point { stream: from });
            }
        }
        Some(from)
    }

    /// The element of memory that an index is: an `int32` that the region does not write.
    fn element(&self, index: ExprId) -> Option<(BufferId, ExprId)> {
        let arena = &self.kernel.arena;
        match arena.expr(index) {
            Expr::Cast(a) if arena.dtype(index) == DType::Int64 && arena.dtype(a) == DType::Int32 => self.element(a),
            Expr::Var(v) => self.element(*self.named.get(&v)?),
            Expr::Load(buffer, at) if arena.dtype(index) == DType::Int32 && arena.lanes(index) == 1 => {
                (!self.written.contains(&buffer)).then_some((buffer, at))
            }
            _ => None,
        }
    }

    /// The number of running loops down to this one.
    fn depth_of(&self, l: LoopId) -> usize {
        self.loops.iter().position(|&(_, id)| id == l).map_or(0, |at| at + 1)
    }

    /// Inserts an instruction where iterations of a running loop begin, behind others that were inserted there; with depth 0, where
    /// the region begins.
    fn at_start(&mut self, depth: usize, inst: Inst) {
        self.code.insts.insert(self.starts[depth], inst);
        self.starts[depth..].iter_mut().for_each(|start| *start += 1);
    }
}
