//! Packs of lanes of a few vectors, by permutations of registers.
//!
//! ```text
//! pack(a[0], b[0], a[1], b[1], …)     lanes of two registers, in two registers
//! ```
//!
//! Each register of the result takes its lanes from the registers of the vectors, as a [gather](super::gather) takes them from those that it loads.

use super::build::{Builder, Pieces, Shape};
use super::gather::{Chunk, MOST_READ};
use super::transpose::row_of;
use crate::loopir::{Arena, Expr, ExprId};
use smallvec::SmallVec;

/// The vectors and the lane of each, if the expression is a pack of such lanes, but no row of a transpose.
pub(super) fn lanes_of(arena: &Arena, e: ExprId) -> Option<SmallVec<[(ExprId, u16); 16]>> {
    let Expr::Pack(list) = arena.expr(e) else { return None };
    if row_of(arena, e).is_some() {
        return None;
    }
    let lanes = arena.list(list).iter().map(|&item| match arena.expr(item) {
        Expr::Extract(vector, lane) => Some((vector, lane)),
        _ => None,
    });
    lanes.collect()
}

impl Builder<'_> {
    /// Packs lanes of vectors, of at most a few registers for each one of the result.
    pub(super) fn shuffled(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let all = lanes_of(&self.kernel.arena, e)?;
        let per_piece = self.vector_bytes / shape.elem.bytes();
        let mut out = Pieces::new();
        for piece in 0..shape.n {
            let own = (0..per_piece).filter_map(|i| all.get(self.element_of(all.len(), piece, i, per_piece)));
            let lanes: SmallVec<[(ExprId, u16); 16]> = own.copied().collect();
            let mut registers: SmallVec<[(ExprId, usize); 4]> = SmallVec::new();
            let mut chunks: SmallVec<[Chunk; 4]> = SmallVec::new();
            let mut sources: SmallVec<[(usize, u8); 16]> = SmallVec::new();
            for (vector, lane) in lanes {
                let of = usize::from(self.kernel.arena.lanes(vector));
                let (piece, lane) = self.place_of(of, usize::from(lane), per_piece);
                let known = registers.iter().position(|&r| r == (vector, piece));
                let source = match known {
                    Some(source) => source,
                    None => {
                        let of = self.shape(vector)?;
                        if self.is_split(vector) || of.elem != shape.elem || chunks.len() as i64 == MOST_READ {
                            return None;
                        }
                        let register = *self.expr(vector)?.get(piece)?;
                        registers.push((vector, piece));
                        chunks.push(Chunk { start: 0, register });
                        chunks.len() - 1
                    }
                };
                sources.push((source, u8::try_from(lane).ok()?));
            }
            out.push(self.selected(&chunks, &sources, shape)?);
        }
        Some(out)
    }
}
