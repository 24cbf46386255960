//! Assigns scratch buffers to offsets in the memory that the runtime provides.
//!
//! Buffers whose lifetimes do not overlap share memory. A lifetime is a range of statements of the outermost body, or
//! for per-worker buffers, of the parallel loop's body: the contents of scratch are undefined before that body starts,
//! and each of its statements ends before the next one. Statements of inner loops are not distinguished, as a buffer
//! may keep its elements from iteration to iteration. A region may read more than the statements that it replaces:
//! values bound before a loop are recomputed inside it.

use super::wide::Regions;
use crate::loopir::rewrite::{for_each_expr, for_each_operand};
use crate::loopir::{Body, BufferId, Expr, For, Kernel, LoopKind, Placement, Stmt, StmtId, Storage};

/// Offsets of scratch buffers: shared ones in one block, per-worker ones in a block of each worker.
///
/// ```text
/// | shared | worker 0 | worker 1 | …      each block and buffer aligned to 64 bytes; behind each block, 64 bytes are free
/// ```
#[derive(Clone, Debug, Default)]
pub(super) struct ScratchLayout {
    offsets: Vec<usize>,
    /// Size of the shared block in bytes.
    pub shared_bytes: usize,
    /// Size of each worker's block in bytes.
    pub private_bytes: usize,
}

const ALIGN: usize = 64;

/// Number of bytes that can be read behind the end of each buffer: with any values, but without a fault, and without
/// memory that another worker writes. The last vector of a row is loaded whole.
pub(super) const READABLE_BEYOND: usize = 64;

/// Additional distance between large buffers, so that their starts do not compete for the same cache sets.
const STAGGER: usize = 3 * ALIGN;

impl ScratchLayout {
    /// The layout for a kernel and its regions.
    pub(super) fn new(kernel: &Kernel, regions: &Regions) -> ScratchLayout {
        let times = Times::new(kernel, regions);
        let mut layout = ScratchLayout { offsets: vec![0; times.of.len()], ..ScratchLayout::default() };
        layout.shared_bytes = layout.place(kernel, &times, Placement::Shared);
        layout.private_bytes = layout.place(kernel, &times, Placement::PerWorker);
        layout
    }

    /// Places the buffers of one kind, largest first, each at the lowest offset where no buffer with an overlapping
    /// lifetime is; returns the total size.
    fn place(&mut self, kernel: &Kernel, times: &Times, placement: Placement) -> usize {
        let is_ours = |s: Storage| matches!(s, Storage::Scratch(p) if p == placement);
        let size = |bytes: usize| bytes.next_multiple_of(ALIGN) + if bytes >= 4096 { STAGGER } else { 0 };
        let mut buffers: Vec<(BufferId, usize)> =
            kernel.buffers().filter(|(_, b)| is_ours(b.storage)).map(|(id, b)| (id, size(b.bytes()))).collect();
        // Stable, so that buffers of equal size keep their order.
        buffers.sort_by_key(|b| std::cmp::Reverse(b.1));
        let mut placed: Vec<(usize, usize, Time)> = Vec::new();
        let mut end = 0;
        for (id, bytes) in buffers {
            // A buffer without accesses needs no memory.
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
            end = end.max(offset + bytes + READABLE_BEYOND);
        }
        end
    }

    /// Offset of a buffer in its block.
    pub(super) fn offset(&self, b: BufferId) -> usize {
        self.offsets[b.index()]
    }

    /// Total bytes for a number of workers.
    pub(super) fn total(&self, workers: usize) -> usize {
        self.shared_bytes.next_multiple_of(ALIGN) + self.private_bytes * workers
    }
}

/// The lifetime of a buffer: the numbers of the first and last statement that access it.
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

/// The lifetime of each buffer.
struct Times<'a> {
    kernel: &'a Kernel,
    regions: &'a Regions,
    of: Vec<Option<Time>>,
    clock: usize,
}

impl<'a> Times<'a> {
    fn new(kernel: &'a Kernel, regions: &'a Regions) -> Times<'a> {
        let mut times = Times { kernel, regions, of: vec![None; kernel.buffers().count()], clock: 0 };
        times.steps(kernel.body, Placement::Shared);
        kernel.for_each_stmt(kernel.body, &mut |_, stmt| {
            if let Stmt::For(For { kind: LoopKind::Parallel, body, .. }) = stmt {
                times.steps(body, Placement::PerWorker);
            }
        });
        times
    }

    /// Numbers the statements of a body, and extends the lifetimes of the buffers of one kind that they access.
    fn steps(&mut self, body: Body, placement: Placement) {
        let kernel = self.kernel;
        for &s in kernel.stmts.list(body) {
            self.clock += 1;
            self.note(s, placement);
            for inner in kernel.stmts.get(s).bodies() {
                kernel.for_each_stmt(inner, &mut |s, _| self.note(s, placement));
            }
        }
    }

    fn note(&mut self, s: StmtId, placement: Placement) {
        let (kernel, stmt) = (self.kernel, self.kernel.stmts.get(s));
        let mut needed = |b: BufferId| {
            if kernel.buffer(b).storage == Storage::Scratch(placement) {
                let time = self.of[b.index()].get_or_insert(Time { first: self.clock, last: self.clock });
                time.last = self.clock;
            }
        };
        if let Some(region) = self.regions.at(s) {
            region.buffers().for_each(&mut needed);
        }
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
        (ScratchLayout::new(&kernel, &Regions::default()), scratch)
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
        assert_eq!(layout.shared_bytes, 512 + READABLE_BEYOND);
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
        assert_eq!((layout.shared_bytes, layout.private_bytes), (0, 64 + READABLE_BEYOND));
    }

    /// A region reads a value that was bound before the loop around it, so the buffer must not be overwritten there.
    #[cfg(all(target_arch = "x86_64", unix))]
    #[test]
    fn what_a_region_computes_once_more_is_kept() {
        use crate::codegen::{CodegenOptions, wide};
        use crate::machine::Isa;
        let text = "kernel @f(A: in int32[64], C: out int32[256]) {
  scratch X: int32[256]
  scratch B: int32[256]
  for c in 4 independent { B[c * 16] = A[c * 16; 16] + splat(int32(1), 16) }
  let t: int32x16 = B[0; 16]
  for i in 2 independent {
    for j in 16 independent { X[j * 16] = splat(A[i * 16 + j], 16) * t }
    C[i * 16] = X[i * 16; 16] % splat(int32(13), 16)
  }
}
";
        let mut kernel = parse(text).expect("a kernel");
        let options = CodegenOptions { isa: Isa::Avx512, ..CodegenOptions::default() };
        let regions = wide::plan_for(
            &mut kernel,
            &options,
            wide::Host {
                dots: true,
                halves: true,
                bf16: true,
                byte_permutes: true,
                float16: true,
                prefetching_pays: false,
                cheap_shuffles: false,
            },
        );
        let ids: Vec<BufferId> = kernel.buffers().filter(|(_, b)| !b.is_param()).map(|(id, _)| id).collect();
        let offsets = |regions: &Regions| {
            let layout = ScratchLayout::new(&kernel, regions);
            [layout.offset(ids[0]), layout.offset(ids[1])]
        };
        assert_eq!(regions.len(), 1, "the loop over `j`");
        let [x, b] = offsets(&Regions::default());
        assert_eq!(x, b, "as far as statements say, `B` is read before `X` is written");
        let [x, b] = offsets(&regions);
        assert_ne!(x, b);
    }
}
