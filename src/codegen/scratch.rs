//! Where scratch buffers lie in the memory that the runtime provides.
//!
//! Buffers that are never needed at the same time share memory. When they are needed is told by the statements of the
//! outermost body, or for a worker's own by those of the parallel loop's: what scratch holds is undefined before that body
//! begins, and each of its statements is done before the next. Loops further inside say nothing, as a buffer may keep
//! its elements from iteration to iteration.

use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Body, BufferId, Expr, For, Kernel, LoopKind, Placement, Stmt, Storage};

/// Offsets of scratch buffers: shared ones in one block, those of a worker in a block that each worker has.
///
/// ```text
/// | shared | worker 0 | worker 1 | …      each block and buffer aligned to 64 bytes
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct ScratchLayout {
    offsets: Vec<usize>,
    /// Bytes of the shared block.
    pub shared_bytes: usize,
    /// Bytes of each worker's block.
    pub private_bytes: usize,
}

const ALIGN: usize = 64;

/// What large buffers are moved by against each other, so that their beginnings don't compete for the same cache sets.
const STAGGER: usize = 3 * ALIGN;

impl ScratchLayout {
    /// The layout for a kernel.
    pub fn new(kernel: &Kernel) -> ScratchLayout {
        let times = Times::new(kernel);
        let mut layout = ScratchLayout { offsets: vec![0; times.of.len()], ..ScratchLayout::default() };
        layout.shared_bytes = layout.place(kernel, &times, Placement::Shared);
        layout.private_bytes = layout.place(kernel, &times, Placement::PerWorker);
        layout
    }

    /// Places the buffers of one kind, the largest first, each at the lowest offset where none is that is needed at the
    /// same time; returns the bytes of all.
    fn place(&mut self, kernel: &Kernel, times: &Times, placement: Placement) -> usize {
        let is_ours = |s: Storage| matches!(s, Storage::Scratch(p) if p == placement);
        let size = |bytes: usize| bytes.next_multiple_of(ALIGN) + if bytes >= 4096 { STAGGER } else { 0 };
        let mut buffers: Vec<(BufferId, usize)> =
            kernel.buffers().filter(|(_, b)| is_ours(b.storage)).map(|(id, b)| (id, size(b.bytes()))).collect();
        // Stable, so that equal ones keep their order.
        buffers.sort_by_key(|b| std::cmp::Reverse(b.1));
        let mut placed: Vec<(usize, usize, Time)> = Vec::new();
        let mut end = 0;
        for (id, bytes) in buffers {
            // What nothing accesses is needed at no time.
            let Some(time) = times.of[id.index()] else { continue };
            let mut offset = 0;
            placed.sort_unstable_by_key(|p| p.0);
            for &(from, to, _) in placed.iter().filter(|p| p.2.overlaps(time)) {
                if offset + bytes <= from {
                    break;
                }
                offset = offset.max(to);
            }
            self.offsets[id.index()] = offset;
            placed.push((offset, offset + bytes, time));
            end = end.max(offset + bytes);
        }
        end
    }

    /// Where a buffer begins in its block.
    pub fn offset(&self, b: BufferId) -> usize {
        self.offsets[b.index()]
    }

    /// Bytes for a number of workers.
    pub fn total(&self, workers: usize) -> usize {
        self.shared_bytes.next_multiple_of(ALIGN) + self.private_bytes * workers
    }
}

/// The statements, by number, from the first to the last that access a buffer.
#[derive(Clone, Copy, Debug)]
struct Time {
    first: usize,
    last: usize,
}

impl Time {
    fn overlaps(self, other: Time) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// When each buffer is needed.
struct Times {
    of: Vec<Option<Time>>,
    clock: usize,
}

impl Times {
    fn new(kernel: &Kernel) -> Times {
        let mut times = Times { of: vec![None; kernel.buffers().count()], clock: 0 };
        times.steps(kernel, kernel.body, Placement::Shared);
        kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
            if let Stmt::For(For { kind: LoopKind::Parallel, body, .. }) = stmt {
                times.steps(kernel, body, Placement::PerWorker);
            }
        });
        times
    }

    /// Each statement of a body is a step, in which buffers of one kind are needed.
    fn steps(&mut self, kernel: &Kernel, body: Body, placement: Placement) {
        for &s in kernel.stmts.list(body) {
            self.clock += 1;
            self.note(kernel, kernel.stmts.get(s), placement);
            for inner in kernel.stmts.get(s).bodies() {
                kernel.for_each_stmt(inner, &mut |_, stmt| self.note(kernel, stmt, placement));
            }
        }
    }

    fn note(&mut self, kernel: &Kernel, stmt: Stmt, placement: Placement) {
        let mut needed = |b: BufferId| {
            if kernel.buffer(b).storage == Storage::Scratch(placement) {
                let time = self.of[b.index()].get_or_insert(Time { first: self.clock, last: self.clock });
                time.last = self.clock;
            }
        };
        if let Stmt::Store { buffer, .. } = stmt {
            needed(buffer);
        }
        for_each_operand(stmt, |e| {
            for_each_expr(&kernel.arena, e, &mut |e| {
                if let Expr::Load(buffer, _) = kernel.arena.expr(e) {
                    needed(buffer);
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopir::parse::parse;

    fn layout(text: &str) -> (ScratchLayout, Vec<BufferId>) {
        let kernel = parse(text).expect("a kernel");
        let scratch = kernel.buffers().filter(|(_, b)| !b.is_param()).map(|(id, _)| id).collect();
        (ScratchLayout::new(&kernel), scratch)
    }

    #[test]
    fn buffers_of_different_times_share_memory() {
        let (layout, ids) = layout(
            "kernel @f(X: in float32[64], Y: out float32[64]) {
  scratch A: float32[64]
  scratch B: float32[64]
  scratch C: float32[64]
  for i in 64 independent { A[i] = X[i] }
  for i in 64 independent { B[i] = A[i] + 1.0 }
  for i in 64 independent { C[i] = B[i] + 1.0 }
  for i in 64 independent { Y[i] = C[i] }
}
",
        );
        let [a, b, c] = ids[..] else { panic!("three buffers") };
        assert_eq!(layout.offset(a), layout.offset(c));
        assert_ne!(layout.offset(a), layout.offset(b));
        assert_eq!(layout.shared_bytes, 512);
    }

    #[test]
    fn buffers_of_one_loop_may_keep_elements_and_are_apart() {
        let (layout, ids) = layout(
            "kernel @f(X: in float32[64], Y: out float32[64]) {
  scratch A: float32[64]
  scratch B: float32[64]
  for i in 64 {
    if i == 0 { A[0] = 0.0 }
    A[0] = A[0] + X[i]
    B[0] = X[i] * 2.0
    Y[i] = B[0]
  }
  Y[0] = A[0]
}
",
        );
        assert_ne!(layout.offset(ids[0]), layout.offset(ids[1]));
    }

    #[test]
    fn a_workers_buffers_share_memory_from_statement_to_statement() {
        let (layout, ids) = layout(
            "kernel @f(X: in float32[64], Y: out float32[64]) {
  scratch A: float32[16] per_worker
  scratch B: float32[16] per_worker
  for p in 4 parallel {
    for i in 16 independent { A[i] = X[p * 16 + i] }
    for i in 16 independent { Y[p * 16 + i] = A[i] }
    for i in 16 independent { B[i] = X[p * 16 + i] }
    for i in 16 independent { Y[p * 16 + i] = Y[p * 16 + i] + B[i] }
  }
}
",
        );
        assert_eq!(layout.offset(ids[0]), layout.offset(ids[1]));
        assert_eq!((layout.shared_bytes, layout.private_bytes), (0, 64));
    }
}
