//! The precedence of operators.

use super::token::Kind;
use super::{BinaryOp, CompareOp, LogicalOp};

// From those that bind least.
pub(super) const OR: u8 = 0;
pub(super) const AND: u8 = 1;
pub(super) const NOT: u8 = 2;
pub(super) const COMPARE: u8 = 3;
pub(super) const BIT_OR: u8 = 4;
pub(super) const BIT_XOR: u8 = 5;
pub(super) const BIT_AND: u8 = 6;
pub(super) const SHIFT: u8 = 7;
pub(super) const SUM: u8 = 8;
pub(super) const PRODUCT: u8 = 9;
pub(super) const SIGN: u8 = 10;

/// An operator between two operands.
pub(super) enum Infix {
    Logical(LogicalOp),
    Compare(CompareOp),
    Binary(BinaryOp),
}

/// The operator that a token is, with its precedence; two words are one with the `next` token.
pub(super) fn infix(kind: Kind, next: Kind) -> Option<(Infix, u8)> {
    let compare = |op| Some((Infix::Compare(op), COMPARE));
    let binary = |op, precedence| Some((Infix::Binary(op), precedence));
    match kind {
        Kind::Or => Some((Infix::Logical(LogicalOp::Or), OR)),
        Kind::And => Some((Infix::Logical(LogicalOp::And), AND)),
        Kind::Not if next == Kind::In => compare(CompareOp::NotIn),
        Kind::In => compare(CompareOp::In),
        Kind::Is if next == Kind::Not => compare(CompareOp::IsNot),
        Kind::Is => compare(CompareOp::Is),
        Kind::EqualEqual => compare(CompareOp::Eq),
        Kind::NotEqual => compare(CompareOp::Ne),
        Kind::Less => compare(CompareOp::Lt),
        Kind::LessEqual => compare(CompareOp::Le),
        Kind::Greater => compare(CompareOp::Gt),
        Kind::GreaterEqual => compare(CompareOp::Ge),
        Kind::Bar => binary(BinaryOp::BitOr, BIT_OR),
        Kind::Caret => binary(BinaryOp::BitXor, BIT_XOR),
        Kind::Ampersand => binary(BinaryOp::BitAnd, BIT_AND),
        Kind::Shl => binary(BinaryOp::Shl, SHIFT),
        Kind::Shr => binary(BinaryOp::Shr, SHIFT),
        Kind::Plus => binary(BinaryOp::Add, SUM),
        Kind::Minus => binary(BinaryOp::Sub, SUM),
        Kind::Star => binary(BinaryOp::Mul, PRODUCT),
        Kind::Slash => binary(BinaryOp::Div, PRODUCT),
        Kind::DoubleSlash => binary(BinaryOp::FloorDiv, PRODUCT),
        Kind::Percent => binary(BinaryOp::Mod, PRODUCT),
        Kind::At => binary(BinaryOp::MatMul, PRODUCT),
        _ => None,
    }
}
