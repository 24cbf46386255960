//! Reads words of `uint32` as words of `int32` where only bits of them are used.
//!
//! ```text
//! Y[j] = cast(float32, bitwise_and(shift_right(W[j // 8], cast(uint32, j % 8 * 4)), uint32(15)))
//! // becomes, with `W` of int32
//! Y[j] = cast(float32, bitwise_and(shift_right(W[j // 8], cast(int32, j % 8 * 4)), 15))
//! ```
//!
//! Weights of four bits are packed so, and vectors have lanes of signed words. Both types have the same bits; the sign tells the two apart
//! where a word becomes a number, and where it is shifted to the right, which moves copies of the sign in. So a mask must leave a number
//! that is not negative, and none of the bits that were moved in.

use crate::ir::{DType, Intrinsic};
use crate::loopir::rewrite::{ExprMap, Seen, for_each_expr, for_each_operand, map_expr, map_operands};
use crate::loopir::{Access, Arena, BufferId, Expr, ExprId, Kernel, Ranges, Stmt, Storage, Ty};
use smallvec::SmallVec;

/// Bits of a word.
const BITS: i64 = 32;

/// Changes the type of all buffers that are only read so. Returns whether there are any.
pub(super) fn signed_words(kernel: &mut Kernel) -> bool {
    let is_read = |storage| matches!(storage, Storage::Param(Access::In));
    let mut words: SmallVec<[BufferId; 2]> =
        kernel.buffers().filter(|(_, b)| b.dtype == DType::UInt32 && is_read(b.storage)).map(|(id, _)| id).collect();
    let mut ranges = Ranges::default();
    let body = kernel.body;
    if !words.is_empty() {
        kernel.for_each_stmt(body, &mut |_, stmt| {
            if let Stmt::For(l) = stmt {
                ranges.set_loop(&kernel.arena, l.var, l.extent);
            }
        });
    }
    // Each round takes away buffers with other uses, and with them what depends on them.
    while !words.is_empty() {
        let mut rewriting = Words { words: &words, ranges: &mut ranges };
        let mut memo = ExprMap::default();
        let (mut seen, mut others) = (Seen::default(), SmallVec::<[BufferId; 2]>::new());
        let new = kernel.rebuild(body, &mut |kernel, _, id, stmt, out| {
            let arena = &mut kernel.arena;
            let new = map_operands(stmt, |e| map_expr(arena, e, &mut memo, &mut |arena, e| rewriting.number(arena, e)));
            for_each_operand(new, |e| {
                for_each_expr(arena, e, &mut |e| {
                    if seen.insert(e)
                        && let Expr::Load(b, _) = arena.expr(e)
                        && arena.dtype(e) == DType::UInt32
                        && !others.contains(&b)
                    {
                        others.push(b);
                    }
                });
            });
            out.push(if new == stmt { id } else { kernel.stmts.push(new) });
        });
        let before = words.len();
        if !words.iter().any(|b| others.contains(b)) {
            words.iter().for_each(|&b| kernel.buffer_mut(b).dtype = DType::Int32);
            kernel.body = new;
            return new != body;
        }
        words.retain(|b| !others.contains(b));
        debug_assert!(words.len() < before, "each round takes away a buffer");
    }
    false
}

/// Rewrites expressions.
struct Words<'a> {
    /// The buffers to read as `int32`.
    words: &'a [BufferId],
    ranges: &'a mut Ranges,
}

impl Words<'_> {
    /// A conversion of a word to a number, from a signed word.
    fn number(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let Expr::Cast(word) = arena.expr(e) else { return None };
        let to = arena.dtype(e);
        if arena.ty(word) != Ty::scalar(DType::UInt32) || matches!(to, DType::UInt32 | DType::UInt64) {
            return None;
        }
        let number = self.masked(arena, word)?;
        Some(arena.cast(to, number))
    }

    /// A word that a mask leaves at least 0, as a signed one.
    fn masked(&mut self, arena: &mut Arena, e: ExprId) -> Option<ExprId> {
        let Expr::Call(Intrinsic::BitAnd, list) = arena.expr(e) else { return None };
        let &[a, b] = arena.list(list) else { return None };
        let (a, mask) = match (arena.as_int(a), arena.as_int(b)) {
            (_, Some(mask)) => (a, mask),
            (Some(mask), None) => (b, mask),
            (None, None) => return None,
        };
        if !(0..=i64::from(i32::MAX)).contains(&mask) {
            return None;
        }
        let used = i64::from(64 - mask.leading_zeros());
        let a = self.bits(arena, a, used)?;
        let mask = arena.int(mask, DType::Int32);
        Some(arena.call(Intrinsic::BitAnd, &[a, mask]))
    }

    /// A signed word whose lowest `used` bits are those of the word `e`.
    fn bits(&mut self, arena: &mut Arena, e: ExprId, used: i64) -> Option<ExprId> {
        if let Some(v) = arena.as_int(e) {
            return Some(arena.int(v, DType::Int32));
        }
        match arena.expr(e) {
            Expr::Load(b, index) if self.words.contains(&b) => Some(arena.load(b, index, Ty::scalar(DType::Int32))),
            Expr::Call(f @ (Intrinsic::BitAnd | Intrinsic::BitOr | Intrinsic::BitXor), list) => {
                let &[a, b] = arena.list(list) else { return None };
                let (a, b) = (self.bits(arena, a, used)?, self.bits(arena, b, used)?);
                Some(arena.call(f, &[a, b]))
            }
            Expr::Call(Intrinsic::ShiftRight, list) => {
                let &[a, by] = arena.list(list) else { return None };
                let range = self.ranges.of(arena, by);
                if range.lo < 0 || range.hi > BITS - used || range.hi >= BITS {
                    return None;
                }
                let by = match (arena.as_int(by), arena.expr(by)) {
                    (Some(v), _) => arena.int(v, DType::Int32),
                    // The conversion does not change it, which is within the range.
                    (None, Expr::Cast(number))
                        if arena.dtype(number).is_int() && self.ranges.of(arena, number).within(range) =>
                    {
                        arena.cast(DType::Int32, number)
                    }
                    _ => return None,
                };
                let a = self.bits(arena, a, BITS)?;
                Some(arena.call(Intrinsic::ShiftRight, &[a, by]))
            }
            _ => None,
        }
    }
}
