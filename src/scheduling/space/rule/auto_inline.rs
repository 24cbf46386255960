//! # `auto_inline`
//!
//! *When*: a block computes a scalar from nothing; or it writes one buffer element by element, from elements at the
//! same or shifted indices, and neither calls `exp` or another costly function nor contains a condition. In a program
//! without reductions only the first part of this matters. Also if it repeats rows (`A[i // 4, k]`), or reads elements in another
//! order that reductions read for fewer than 4 results each. Not if each element is part of at least 16 results of a
//! reduction, and computed, not only copied or converted; nor if it is costly, such as a polynomial that approximates a
//! function, and several blocks read it. Blocks that fill small matrices of constants, and the reductions
//! that apply these, are left to the code generator as they are, by this rule and the others. *What*: `compute_inline`.
//! *Why*: the buffer's memory traffic is saved, and only what costs less than a load is recomputed, not too often. As in
//! TVM but for the exceptions.
//!
//! ```python
//! @T.prim_func
//! def before(A: T.Buffer((4, 32)), C: T.Buffer(4)):
//!     B = T.sblock_alloc_buffer((4, 32))
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("B"):
//!             vi, vk = T.axis.remap("SS", [i, k])
//!             B[vi, vk] = A[vi, vk] * 2.0
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("C"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = 0.0
//!             C[vi] = C[vi] + B[vi, vk]
//!
//! # becomes
//!
//! @T.prim_func
//! def after(A: T.Buffer((4, 32)), C: T.Buffer((4,))):
//!     for i, k in T.grid(4, 32):
//!         with T.sblock("C"):
//!             vi, vk = T.axis.remap("SR", [i, k])
//!             with T.init():
//!                 C[vi] = 0.0
//!             C[vi] = C[vi] + A[vi, vk] * 2.0
//! ```
//!
//! # Implementation
//!
//! Inlines blocks that are cheap to recompute into their consumers.
//!
//! *When*: the block writes one buffer that consumers read, every index it reads is a constant or one of the indices it
//! writes (shifted by a constant), each used once and in order, and it contains neither a conditional nor a costly
//! function. In a program without reductions only the first condition counts. *What*: `compute_inline`. *Why*: this
//! saves the intermediate buffer's memory traffic, and recomputes only what costs less than a load.
//!
//! In the default space, what a product reads at 16 or more of its results stays a block of its own, unless it only
//! copies or converts: it would be computed again for every tile of rows. So does a block that reads several elements, and of which a
//! consumer reads several, if the consumer would then read more than 16: code would grow with each block of a chain.
//! So does a block with many operations that several blocks read, which would each compute them.
//! And so does padding of which each case of a consumer reads several elements: its conditions would be evaluated for each of them.
//!
//! TVM: `src/s_tir/meta_schedule/schedule_rule/auto_inline.cc`.

use super::super::analysis::{calls, has_conditional, is_spatial, live_block, read_write_pattern, shifted_var};
use super::super::cases::axis_of_cases;
use super::super::contraction::Contraction;
use super::super::draft::Draft;
use super::Rule;
use crate::ir::visit::{for_each_own_expr, for_each_subexpr};
use crate::ir::{BinOp, BlockId, BufferId, BufferRegion, Expr, Func, Intrinsic, Stmt, VarId};
use crate::schedule::Schedule;
use crate::schedule::analysis::dependence::has_consumer;
use crate::schedule::arg::Rv;
use crate::schedule::error::ScheduleError;
use std::collections::HashSet;

pub(crate) struct AutoInline {
    /// Functions too costly to recompute.
    pub disallowed: Vec<Intrinsic>,
    /// Number of results of a reduction from which on elements that they share are computed once.
    pub shared_by: i64,
    /// The most elements that a consumer may read instead of several.
    pub most_loads: usize,
    /// Whether conditions stay outside of blocks that choose among cases.
    pub keeps_padding: bool,
    /// Number of results of a reduction below which elements that they share are read in another order rather than copied;
    /// if it is positive, elements of which rows are repeated are never copied.
    pub reordered_below: i64,
    /// Number of operations from which on a value that several blocks read is computed once.
    pub costly_from: usize,
}

/// Minimum number of operations that take longer than a store and some loads.
const COSTLY: usize = 12;

/// Minimum number of results that make it worthwhile to store what they share: some tiles of rows.
const SHARED: i64 = 16;

/// Minimum number of results that pay for a copy in another order, which writes and reads each element once more.
const REORDERED: i64 = 4;

/// The most elements that a consumer may read instead of several: those of a window with 4 x 4 taps.
const LOADS: usize = 16;

impl AutoInline {
    /// The rule of the default space.
    pub(crate) fn auto() -> AutoInline {
        AutoInline {
            shared_by: SHARED,
            most_loads: LOADS,
            keeps_padding: true,
            reordered_below: REORDERED,
            costly_from: COSTLY,
            ..AutoInline::tvm()
        }
    }

    /// The rule with TVM's parameters.
    pub(crate) fn tvm() -> AutoInline {
        AutoInline {
            disallowed: vec![Intrinsic::Exp],
            shared_by: i64::MAX,
            most_loads: usize::MAX,
            keeps_padding: false,
            reordered_below: 0,
            costly_from: usize::MAX,
        }
    }
}

impl Rule for AutoInline {
    fn name(&self) -> &'static str {
        "auto_inline"
    }

    fn apply(&self, draft: Draft, block: Rv) -> Result<Vec<Draft>, ScheduleError> {
        draft.forks(|sch| self.schedules(sch, block))
    }
}

impl AutoInline {
    fn schedules(&self, mut sch: Schedule, block: Rv) -> Result<Vec<Schedule>, ScheduleError> {
        if self.fits(&sch, block) {
            // The primitive decides whether inlining is legal; a refusal means that the rule does not fire, and leaves
            // the schedule unchanged.
            let _ = sch.compute_inline(block);
        }
        Ok(vec![sch])
    }
}

impl AutoInline {
    fn fits(&self, sch: &Schedule, rv: Rv) -> bool {
        let Some((index, block)) = live_block(sch, rv) else { return false };
        let func = sch.func(index);
        let node = func.block(block);
        let Some(scope) = func.block_above(block.stmt()) else { return false };
        if node.writes.len() != 1 || !has_consumer(&sch.states[index], scope, block) {
            return false;
        }
        let is_conditional = has_conditional(func, block.stmt());
        let is_cheap = !calls(func, block.stmt(), &self.disallowed)
            && !is_conditional
            && node.reads.iter().all(|read| self.is_easy(func, scope, block, read));
        let is_cheap = is_cheap && !(is_computed(func, block) && self.is_shared(func, scope, block));
        let is_cheap = is_cheap
            && !(n_operations(func, block) >= self.costly_from && readers(func, scope, block).nth(1).is_some());
        if self.grows(func, scope, block) || self.keeps_padding && is_conditional && is_for_cases(func, scope, block) {
            return false;
        }
        // Checked last, since it visits all blocks.
        is_cheap || node.reads.is_empty() || func.blocks().iter().all(|&b| is_spatial(func, b))
    }

    /// Whether a consumer would read too many elements instead of those of the block.
    fn grows(&self, func: &Func, scope: BlockId, block: BlockId) -> bool {
        let written = func.block(block).writes[0].buffer;
        let own = n_loads(func, block, |_| true);
        own > 1
            && func.child_blocks(scope.stmt()).into_iter().filter(|b| *b != block).any(|b| {
                let n = n_loads(func, b, |buffer| buffer == written);
                n > 1 && n.saturating_mul(own) > self.most_loads
            })
    }

    /// Whether the readers of the block may as well read what it reads.
    fn is_easy(&self, func: &Func, scope: BlockId, block: BlockId, read: &BufferRegion) -> bool {
        let write = &func.block(block).writes[0];
        if read_write_pattern(func, read, write) == (true, true) {
            return true;
        }
        self.reordered_below > 0
            && rows_read(func, read, write)
                .is_some_and(|positions| positions.is_sorted() || self.is_for_few(func, scope, block))
    }

    /// Whether some product or sum reads each element of the block for many results.
    fn is_shared(&self, func: &Func, scope: BlockId, block: BlockId) -> bool {
        readers(func, scope, block).any(|b| results_per_element(func, b, block).is_some_and(|n| n >= self.shared_by))
    }

    /// Whether the block is read by products and sums only, which read each element for few results.
    fn is_for_few(&self, func: &Func, scope: BlockId, block: BlockId) -> bool {
        readers(func, scope, block)
            .all(|b| results_per_element(func, b, block).is_some_and(|n| n < self.reordered_below))
    }
}

/// The blocks of a scope that read what a block writes.
fn readers(func: &Func, scope: BlockId, block: BlockId) -> impl Iterator<Item = BlockId> {
    let written = func.block(block).writes[0].buffer;
    let reads_it = move |b: &BlockId| *b != block && func.block(*b).reads.iter().any(|r| r.buffer == written);
    func.child_blocks(scope.stmt()).into_iter().filter(reads_it)
}

/// The number of results for which a product or sum reads each element of a block; the largest, if it reads some twice.
fn results_per_element(func: &Func, reader: BlockId, block: BlockId) -> Option<i64> {
    let written = func.block(block).writes[0].buffer;
    let reads = &func.block(reader).reads;
    let contraction = Contraction::of(func, reader)?;
    contraction.inputs.iter().filter(|i| reads[i.read].buffer == written).map(|i| contraction.reuse(i)).max()
}

/// For each index of a read element, the position of the index that it follows in the written one. An index that is read must be
/// a constant, an index of the written element with a constant, or the quotient of one, other than the last, by a constant:
/// that of a repeated row. None may follow the same one as another.
fn rows_read(func: &Func, read: &BufferRegion, write: &BufferRegion) -> Option<Vec<usize>> {
    let arena = &func.arena;
    let written: Vec<VarId> = write.ranges(arena).map(|(min, _)| arena.as_var(min)).collect::<Option<_>>()?;
    let mut positions = Vec::new();
    for (min, extent) in read.ranges(arena) {
        if !arena.is_int(extent, 1) {
            return None;
        }
        if arena.as_int(min).is_some() {
            continue;
        }
        let (var, is_quotient) = match arena.expr(min) {
            Expr::Binary(BinOp::FloorDiv, a, b) if arena.as_int(b).is_some_and(|b| b > 0) => (arena.as_var(a)?, true),
            _ => (shifted_var(func, min)?, false),
        };
        let position = written.iter().position(|&w| w == var)?;
        if positions.contains(&position) || is_quotient && position + 1 == written.len() {
            return None;
        }
        positions.push(position);
    }
    Some(positions)
}

/// Whether a consumer chooses among several values of elements of the block.
fn is_for_cases(func: &Func, scope: BlockId, block: BlockId) -> bool {
    readers(func, scope, block).any(|b| axis_of_cases(func, b).is_some())
}

/// The number of different elements that a block reads from some buffers.
fn n_loads(func: &Func, block: BlockId, is_counted: impl Fn(BufferId) -> bool) -> usize {
    let mut found = HashSet::new();
    for s in func.subtree(block.stmt()) {
        for_each_own_expr(func, s, &mut |root| {
            for_each_subexpr(&func.arena, root, &mut |e| {
                if matches!(func.arena.expr(e), Expr::Load(buffer, _) if is_counted(buffer)) {
                    found.insert(e);
                }
            });
        });
    }
    found.len()
}

/// The number of different operations of a block on floats; a function of more than an instruction or two counts as many.
fn n_operations(func: &Func, block: BlockId) -> usize {
    let mut found = HashSet::new();
    let mut n = 0;
    for s in func.subtree(block.stmt()) {
        for_each_own_expr(func, s, &mut |root| {
            for_each_subexpr(&func.arena, root, &mut |e| {
                if func.arena.dtype(e).is_float() && found.insert(e) {
                    n += match func.arena.expr(e) {
                        Expr::Call(f, _) if is_slow(f) => COSTLY,
                        Expr::Call(..) | Expr::Binary(..) | Expr::Select(..) => 1,
                        _ => 0,
                    };
                }
            });
        });
    }
    n
}

/// Whether a function of floats takes more than an instruction or two.
fn is_slow(function: Intrinsic) -> bool {
    use Intrinsic::{Abs, Ceil, CopySign, Floor, Fma, NearbyInt, Round, Trunc};
    !matches!(function, Abs | Ceil | CopySign | Floor | Fma | NearbyInt | Round | Trunc)
}

/// Whether the block does more than to copy an element, or to convert its type.
fn is_computed(func: &Func, block: BlockId) -> bool {
    let &[inner] = &func.block(block).body[..] else { return true };
    let Stmt::Store { value, .. } = func.get(inner) else { return true };
    let mut value = *value;
    while let Expr::Cast(converted) = func.arena.expr(value) {
        value = converted;
    }
    !matches!(func.arena.expr(value), Expr::Load(..))
}
