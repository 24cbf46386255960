//! Constant registers: set before a region's statements and live to its end.

use super::build::{Builder, Pieces, Shape};
use super::code::{Elem, Inst, Op2, VReg};
use super::lanes::connective;
use crate::ir::expr::FxBuild;
use crate::ir::{Const, scalar};
use crate::loopir::{Arena, Expr, ExprId, Range};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// The constant registers so far.
pub(super) type Constants = HashMap<Constant, VReg, FxBuild>;

/// The contents of a constant register.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Constant {
    /// The same bits in all lanes.
    Splat(u64, Elem),
    /// A mask: its bits, and the bytes of a lane.
    Lanes(u64, usize),
    /// Lane numbers for permutations, as bytes.
    Indices(u128),
    /// A lookup table.
    Table(SmallVec<[u32; 16]>),
}

/// Whether the expression is a vector of numbers.
pub(super) fn is_numbers(arena: &Arena, e: ExprId) -> bool {
    let Expr::Pack(list) = arena.expr(e) else { return false };
    Elem::of(arena.dtype(e)).is_some() && arena.list(list).iter().all(|&item| arena.as_const(item).is_some())
}

/// A lane of a vector of integers, if it is known.
fn number(arena: &Arena, e: ExprId, lane: i64) -> Option<i64> {
    match arena.expr(e) {
        Expr::Int(value) => Some(value),
        Expr::Broadcast(all) => number(arena, all, 0),
        Expr::Ramp(first, step) => number(arena, first, 0)?.checked_add(step.checked_mul(lane)?),
        Expr::Cast(a) if arena.dtype(a).is_int() && arena.dtype(e).is_int() => {
            let value = number(arena, a, lane)?;
            Range::of_type(arena.dtype(e)).contains(value).then_some(value)
        }
        _ => None,
    }
}

/// Whether a condition holds in a lane, if that is known.
fn holds(arena: &Arena, c: ExprId, lane: i64) -> Option<bool> {
    match arena.expr(c) {
        Expr::Int(value) => Some(value != 0),
        Expr::Broadcast(all) => holds(arena, all, 0),
        Expr::Not(a) => Some(!holds(arena, a, lane)?),
        Expr::Compare(op, a, b) if arena.dtype(a).is_int() => {
            let (x, y) = (number(arena, a, lane)?, number(arena, b, lane)?);
            scalar::compare(op, arena.dtype(a), Const::Int(x), Const::Int(y)).ok()
        }
        _ => {
            let (op, a, b) = connective(arena, c)?;
            let (a, b) = (holds(arena, a, lane)?, holds(arena, b, lane)?);
            match op {
                Op2::And => Some(a && b),
                Op2::Or => Some(a || b),
                _ => None,
            }
        }
    }
}

impl Builder<'_> {
    /// The lanes of each piece in which a condition holds, as bits, and all lanes of that piece, if they are known.
    pub(super) fn known_lanes(&self, c: ExprId, shape: &Shape) -> Option<SmallVec<[(u64, u64); 4]>> {
        let (arena, lanes) = (&self.kernel.arena, self.kernel.arena.lanes(c));
        holds(arena, c, 0)?;
        let per_piece = self.vector_bytes / shape.elem.bytes();
        if per_piece > 64 || lanes == 1 {
            return None;
        }
        let numbers: SmallVec<[i64; 16]> = (0..i64::from(lanes)).collect();
        let of_piece = |lanes: &[i64]| {
            lanes.iter().enumerate().try_fold((0, 0), |(found, all), (i, &lane)| {
                Some((found | u64::from(holds(arena, c, lane)?) << i, all | 1 << i))
            })
        };
        numbers.chunks(per_piece).map(of_piece).collect()
    }

    /// A vector of numbers.
    pub(super) fn numbers_of(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Expr::Pack(list) = self.kernel.arena.expr(e) else { return None };
        if shape.elem.bytes() < 4 {
            return None;
        }
        let items: SmallVec<[ExprId; 16]> = self.kernel.arena.list(list).into();
        let (words, whole) = (shape.elem.bytes() / 4, self.vector_bytes / 4);
        let mut pieces = Pieces::new();
        for items in items.chunks(self.vector_bytes / shape.elem.bytes()) {
            let mut lanes: SmallVec<[u32; 16]> = SmallVec::new();
            for &item in items {
                let bits = self.constant_bits(item, shape.elem)?;
                lanes.extend((0..words).map(|word| (bits >> (32 * word)) as u32));
            }
            lanes.resize(whole, 0);
            pieces.push(self.table(lanes));
        }
        Some(pieces)
    }

    /// A register with a constant in each lane.
    pub(super) fn constant(&mut self, bits: u64, elem: Elem) -> VReg {
        let constant = Constant::Splat(bits, elem);
        self.filled(constant, Self::fresh, |_, dst| Inst::Const { dst, bits, elem })
    }

    /// The mask of the lanes of an incomplete last piece.
    pub(super) fn first_lanes(&mut self, lanes: u8, elem: Elem) -> VReg {
        self.lane_mask((1 << lanes) - 1, elem)
    }

    /// The mask with these bits.
    pub(super) fn lane_mask(&mut self, bits: u64, elem: Elem) -> VReg {
        let constant = Constant::Lanes(bits, elem.bytes());
        self.filled(constant, Self::fresh_mask, |_, dst| Inst::Lanes { dst, bits, elem })
    }

    /// A register of lane numbers, given as bytes.
    pub(super) fn index_register(&mut self, lanes: u128) -> VReg {
        self.filled(Constant::Indices(lanes), Self::fresh, |_, dst| Inst::Indices { dst, lanes })
    }

    /// A register with these lanes.
    pub(super) fn table(&mut self, lanes: SmallVec<[u32; 16]>) -> VReg {
        self.filled(Constant::Table(lanes.clone()), Self::fresh, |builder, dst| {
            let table = builder.code.tables.len() as u32;
            builder.code.tables.push(lanes);
            Inst::Table { dst, table }
        })
    }

    fn filled(
        &mut self,
        constant: Constant,
        fresh: fn(&mut Self) -> VReg,
        inst: impl FnOnce(&mut Self, VReg) -> Inst,
    ) -> VReg {
        if let Some(&known) = self.constants.get(&constant) {
            return known;
        }
        let dst = fresh(self);
        let inst = inst(self, dst);
        self.code.prologue.push(inst);
        self.constants.insert(constant, dst);
        dst
    }
}
