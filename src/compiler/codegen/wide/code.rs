//! Vector code of a region: instructions over virtual registers, in the order in which they run.

use super::RegionArg;
use crate::ir::{BinOp, CmpOp, DType};
use crate::loopir::BufferId;
use smallvec::SmallVec;

/// A virtual vector register. It contains one value at a time, but may be set more than once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct VReg(pub u32);

/// A pointer that region code keeps in a general register, advanced by the loops.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StreamId(pub u32);

/// A loop of the region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct LoopId(pub u32);

/// The type of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Elem {
    F32,
    F64,
    I32,
    I64,
    /// Signed bytes, in regions that compute with bytes alone.
    I8,
    /// Unsigned bytes and booleans, likewise.
    U8,
    /// Signed 16-bit integers, in regions that compute with elements of 16 bits alone.
    I16,
    /// Unsigned 16-bit integers, likewise.
    U16,
    /// float16, likewise.
    F16,
    /// bfloat16, likewise; only moved between lanes and memory.
    BF16,
}

impl Elem {
    /// The lane type for computing with a data type; `None` if region code does not support it.
    pub(super) fn of(dtype: DType) -> Option<Elem> {
        match dtype {
            DType::Float32 | DType::Float16 | DType::BFloat16 => Some(Elem::F32),
            DType::Float64 => Some(Elem::F64),
            DType::Int32 | DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16 | DType::Bool => Some(Elem::I32),
            DType::Int64 => Some(Elem::I64),
            DType::UInt32 | DType::UInt64 => None,
            DType::Float8(_) | DType::Narrow(_) | DType::Handle | DType::Str => None,
        }
    }

    /// The lane type of bytes; `None` for other types.
    pub(super) fn of_bytes(dtype: DType) -> Option<Elem> {
        match dtype {
            DType::Int8 => Some(Elem::I8),
            DType::UInt8 | DType::Bool => Some(Elem::U8),
            _ => None,
        }
    }

    /// The lane type of elements of 16 bits; `None` for other types.
    pub(super) fn of_words(dtype: DType) -> Option<Elem> {
        match dtype {
            DType::Int16 => Some(Elem::I16),
            DType::UInt16 => Some(Elem::U16),
            DType::Float16 => Some(Elem::F16),
            DType::BFloat16 => Some(Elem::BF16),
            _ => None,
        }
    }

    /// Whether lanes are integers.
    pub(super) fn is_int(self) -> bool {
        !matches!(self, Elem::F32 | Elem::F64 | Elem::F16 | Elem::BF16)
    }

    /// Size of a lane.
    pub(super) fn bytes(self) -> usize {
        match self {
            Elem::F32 | Elem::I32 => 4,
            Elem::F64 | Elem::I64 => 8,
            Elem::I8 | Elem::U8 => 1,
            Elem::I16 | Elem::U16 | Elem::F16 | Elem::BF16 => 2,
        }
    }
}

/// Narrow element types in memory, which are loaded into 32-bit lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Memory {
    U8,
    I8,
    U16,
    I16,
    F16,
    BF16,
}

impl Memory {
    /// The narrow type of a data type; `None` if its elements have the width of lanes.
    pub(super) fn of(dtype: DType) -> Option<Memory> {
        match dtype {
            DType::UInt8 | DType::Bool => Some(Memory::U8),
            DType::Int8 => Some(Memory::I8),
            DType::UInt16 => Some(Memory::U16),
            DType::Int16 => Some(Memory::I16),
            DType::Float16 => Some(Memory::F16),
            DType::BFloat16 => Some(Memory::BF16),
            DType::Float32
            | DType::Float64
            | DType::Int32
            | DType::Int64
            | DType::UInt32
            | DType::UInt64
            | DType::Float8(_)
            | DType::Narrow(_)
            | DType::Handle
            | DType::Str => None,
        }
    }

    /// Size of an element.
    pub(super) fn bytes(self) -> usize {
        match self {
            Memory::U8 | Memory::I8 => 1,
            Memory::U16 | Memory::I16 | Memory::F16 | Memory::BF16 => 2,
        }
    }
}

/// The part of a register on which an instruction works.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Width {
    /// One lane.
    Scalar,
    /// 64 bits, several lanes.
    Half,
    /// 128 bits.
    X,
    /// 256 bits.
    Y,
    /// 512 bits.
    Z,
}

impl Width {
    /// The width for this number of bytes in several lanes.
    pub(super) fn of_bytes(bytes: usize) -> Option<Width> {
        match bytes {
            8 => Some(Width::Half),
            16 => Some(Width::X),
            32 => Some(Width::Y),
            64 => Some(Width::Z),
            _ => None,
        }
    }

    /// Bytes of a register of this width; `None` for a scalar.
    pub(super) fn bytes(self) -> Option<usize> {
        match self {
            Width::Scalar => None,
            Width::Half => Some(8),
            Width::X => Some(16),
            Width::Y => Some(32),
            Width::Z => Some(64),
        }
    }

    /// The next narrower width of several lanes.
    pub(super) fn half(self) -> Width {
        match self {
            Width::Z => Width::Y,
            Width::Y => Width::X,
            Width::X | Width::Half | Width::Scalar => Width::Half,
        }
    }
}

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Mem {
    pub stream: StreamId,
    /// Displacement in bytes.
    pub disp: i32,
}

/// Register classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Vector registers.
    Vector,
    /// Mask registers, a bit for each lane.
    Mask,
}

/// A binary operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op2 {
    Add,
    Sub,
    Mul,
    Div,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    /// Bitwise and.
    And,
    Or,
    Xor,
    /// Shifts each lane of `a` by that of `b`; a count that is no bit of the lane shifts all bits out. There are lanes of 16
    /// and 64 bits with EVEX only.
    ShiftLeft,
    /// As [`Op2::ShiftLeft`], to the right, arithmetically except for [`Elem::U16`].
    ShiftRight,
    /// Interleaves the low halves of each 128-bit chunk of `a` and `b` (`vunpcklps`). Like the next three, it works on
    /// whole registers.
    LowLanes,
    /// Interleaves the high halves of each 128-bit chunk of `a` and `b` (`vunpckhps`).
    HighLanes,
    /// As [`Op2::LowLanes`], with lanes of 16 bits (`vpunpcklwd`).
    LowWords,
    /// As [`Op2::HighLanes`], with lanes of 16 bits (`vpunpckhwd`).
    HighWords,
    /// The even-numbered 128-bit chunks of `a`, then those of `b`.
    EvenChunks,
    /// The odd-numbered 128-bit chunks of `a`, then those of `b`.
    OddChunks,
    /// Products of signed 16-bit lanes, with adjacent products added to a 32-bit lane (`vpmaddwd`).
    MulPairs,
    /// The low halves of products of 16-bit lanes (`vpmullw`).
    MulWords,
    /// float32 of `b`, then those of `a`, to bfloat16 bits (`vcvtne2ps2bf16`); subnormal numbers become zero. It works on whole registers.
    PackBf16,
    /// Narrows the 32-bit lanes of `a` and `b` to 16 bits; the values must fit (`vpackusdw`).
    Pack32,
    /// Narrows the 16-bit lanes of `a` and `b` to 8 bits; the values must fit (`vpackuswb`).
    Pack16,
}

/// Shifts of 16-bit lanes by eight bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift16 {
    Left,
    /// Logical right shift.
    Right,
    /// Arithmetic right shift.
    Signed,
}

impl Op2 {
    /// The operation of the loop IR on lanes, if there is an instruction for it.
    pub(super) fn of(op: BinOp, elem: Elem) -> Option<Op2> {
        match op {
            BinOp::Add => Some(Op2::Add),
            BinOp::Sub => Some(Op2::Sub),
            BinOp::Mul => Some(Op2::Mul),
            BinOp::Div if !elem.is_int() => Some(Op2::Div),
            BinOp::Min => Some(Op2::Min),
            BinOp::Max => Some(Op2::Max),
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod | BinOp::And | BinOp::Or => None,
        }
    }
}

/// A unary operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op1 {
    Sqrt,
    Round(Rounding),
    /// int32 to float32.
    Convert,
    /// float32 to int32; the result is the smallest int32 on overflow and for NaN.
    Truncate,
    /// As [`Op1::Truncate`], to the nearest integer, halves to even.
    RoundToInt,
    /// Lanes of int32, in half the bytes, to int64.
    Widen,
    /// int64 to float32, in half the bytes (EVEX).
    LongToFloat,
    /// Lanes of float32, in half the bytes, to int64 (EVEX); the result is the smallest int64 on overflow and for NaN.
    FloatToLong,
    /// float32 to float16 bits, in half the bytes (`vcvtps2ph`).
    ToF16,
    /// Lanes of int32, in half the bytes, to float64.
    IntToDouble,
    /// Lanes of float32, in half the bytes, to float64.
    FloatToDouble,
    /// float64 to float32, in half the bytes.
    DoubleToFloat,
    /// float64 to int32, in half the bytes; the result is the smallest int32 on overflow and for NaN.
    DoubleToInt,
    /// float16 bits to float32 (`vcvtph2ps`).
    FromF16,
    /// float32 to bfloat16 bits, in half the bytes (`vcvtneps2bf16`); subnormal numbers become zero.
    ToBf16,
    /// bfloat16 bits, in half the bytes, to float32.
    FromBf16,
    /// The lowest lane, in every lane.
    Broadcast,
    /// The upper half of the source, in the lower half.
    UpperHalf,
}

/// Rounding mode to an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    /// To the nearest integer, halves to even.
    Nearest = 0,
    Down = 1,
    Up = 2,
    Truncate = 3,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Inst {
    /// Start of a loop with a constant number of iterations, at least 1.
    Begin {
        l: LoopId,
        extent: i64,
    },
    End {
        l: LoopId,
    },
    Load {
        dst: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// Loads narrow elements into 32-bit lanes. Lanes outside a mask become zero, and their memory is not accessed.
    LoadNarrow {
        dst: VReg,
        /// Only with EVEX.
        mask: Option<VReg>,
        mem: Mem,
        memory: Memory,
        width: Width,
    },
    /// Stores 32-bit lanes as narrow elements, those in a mask if there is one. Requires EVEX or float16 elements, and at
    /// least 128 bits in memory for lanes of 32. Elements of bfloat16 are bits already, in the lower half of the register.
    StoreNarrow {
        src: VReg,
        /// Only with EVEX.
        mask: Option<VReg>,
        mem: Mem,
        memory: Memory,
        width: Width,
    },
    /// Stores the first 1, 2, 4, 8 or 16 bytes of a register.
    StoreLow {
        src: VReg,
        mem: Mem,
        bytes: u8,
    },
    /// Loads the lanes whose mask is set. The other lanes are zero, and their memory is not accessed.
    LoadMasked {
        dst: VReg,
        mask: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// Loads the elements of 32 bits at the indices in the lanes whose mask is set; at most 256 bits. The other lanes of `acc` stay, and
    /// the mask is used up.
    Gather {
        acc: VReg,
        mask: VReg,
        indices: VReg,
        mem: Mem,
        width: Width,
    },
    /// Loads one narrow element into all 32-bit lanes.
    LoadAllNarrow {
        dst: VReg,
        mem: Mem,
        memory: Memory,
        width: Width,
    },
    /// Loads one element into every lane.
    LoadAll {
        dst: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// Sets every lane to a constant, given by its bits.
    Const {
        dst: VReg,
        bits: u64,
        elem: Elem,
    },
    /// Rematerialises a constant from the region's data, in every lane.
    LoadConst {
        dst: VReg,
        bits: u64,
        elem: Elem,
    },
    /// Loads a scalar argument into every lane.
    Arg {
        dst: VReg,
        slot: u32,
        elem: Elem,
    },
    Store {
        src: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// Stores the lanes whose mask is set.
    StoreMasked {
        src: VReg,
        mask: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// The mask with these bits, in the form that comparisons produce.
    Lanes {
        dst: VReg,
        bits: u64,
        elem: Elem,
    },
    Unary {
        op: Op1,
        dst: VReg,
        a: VReg,
        elem: Elem,
        width: Width,
    },
    Binary {
        op: Op2,
        dst: VReg,
        a: VReg,
        b: VReg,
        elem: Elem,
        width: Width,
    },
    /// The minimum or maximum of `acc` and float32 in memory in the lanes whose mask is set (EVEX). The other lanes of `acc` stay, and
    /// their memory is not accessed.
    ExtremeMasked {
        acc: VReg,
        mask: VReg,
        op: Op2,
        mem: Mem,
        width: Width,
    },
    /// As [`Inst::ExtremeMasked`], of a register.
    ExtremeSome {
        acc: VReg,
        mask: VReg,
        op: Op2,
        b: VReg,
        width: Width,
    },
    /// The 32-bit lanes of `low` and `high`, one after the other, from lane `by` on (`valignd`, EVEX). Lanes outside a mask become zero.
    Align {
        dst: VReg,
        low: VReg,
        high: VReg,
        by: u8,
        mask: Option<VReg>,
        width: Width,
    },
    /// `acc = a * b + acc`.
    Fma {
        acc: VReg,
        a: VReg,
        b: VReg,
        elem: Elem,
        width: Width,
    },
    /// `acc = [b] * a + acc`.
    FmaMem {
        acc: VReg,
        a: VReg,
        b: Mem,
        elem: Elem,
        width: Width,
    },
    /// `acc = acc + Σ a[q] * b[q]` over the bytes of each 32-bit lane; the bytes of `a` are unsigned, those of `b`
    /// signed.
    Dot4 {
        acc: VReg,
        a: VReg,
        b: VReg,
        width: Width,
    },
    /// `dst = a * b + c`.
    MulAdd {
        dst: VReg,
        a: VReg,
        b: VReg,
        c: VReg,
        elem: Elem,
        width: Width,
    },
    /// Shifts 32-bit lanes by a constant; right shifts are arithmetic.
    Shift {
        dst: VReg,
        a: VReg,
        left: bool,
        by: u8,
        width: Width,
    },
    /// Shifts 16-bit lanes by eight bits.
    ShiftByte {
        dst: VReg,
        a: VReg,
        kind: Shift16,
        width: Width,
    },
    /// The mask of the lanes where the comparison holds: a mask register with EVEX, else lanes of all ones or zeros.
    /// Without EVEX, integers support only `Eq`, `Lt` and `Gt`.
    Compare {
        op: CmpOp,
        dst: VReg,
        a: VReg,
        b: VReg,
        elem: Elem,
        width: Width,
    },
    /// A bitwise operation on mask registers.
    MaskBinary {
        op: Op2,
        dst: VReg,
        a: VReg,
        b: VReg,
    },
    MaskNot {
        dst: VReg,
        a: VReg,
    },
    /// A mask of sixteen lanes: eight of one mask, then eight of another one.
    JoinMasks {
        dst: VReg,
        low: VReg,
        high: VReg,
    },
    /// The mask of the upper eight of sixteen lanes.
    UpperMask {
        dst: VReg,
        a: VReg,
    },
    /// The lanes of `then` where the mask is set, those of `otherwise` in the other lanes.
    Select {
        dst: VReg,
        mask: VReg,
        then: VReg,
        otherwise: VReg,
        elem: Elem,
        width: Width,
    },
    Move {
        dst: VReg,
        src: VReg,
    },
    /// The mask of all lanes if the stream's counter plus a constant is negative, else of no lane.
    Sign {
        dst: VReg,
        stream: StreamId,
        plus: i32,
    },
    /// Sets the pointer of a stream that follows from an element of memory ([`Stream::lookup`]).
    Point {
        stream: StreamId,
    },
    /// The stream's counter plus a constant, in every 32-bit lane; the sum must fit.
    Counted {
        dst: VReg,
        stream: StreamId,
        plus: i32,
    },
    /// Loads lane numbers, which are given as bytes, the first lane in the lowest byte, into 32-bit lanes.
    Indices {
        dst: VReg,
        lanes: u128,
    },
    /// Loads a table of [`Code::tables`], whose 32-bit lanes fill a register.
    Table {
        dst: VReg,
        table: u32,
    },
    /// The 32-bit lanes of `a` selected by the indices (`vpermd`); at least 256 bits.
    Permute {
        dst: VReg,
        indices: VReg,
        a: VReg,
        width: Width,
    },
    /// The bytes of `a` selected by those of the indices (`vpermb`).
    PermuteBytes {
        dst: VReg,
        indices: VReg,
        a: VReg,
        width: Width,
    },
    /// Replaces `acc` by bytes selected from `acc` and `b` (`vpermt2b`).
    Permute2Bytes {
        acc: VReg,
        indices: VReg,
        b: VReg,
        width: Width,
    },
    /// The 16-bit lanes of `a` selected by those of the indices (`vpermw`).
    PermuteWords {
        dst: VReg,
        indices: VReg,
        a: VReg,
        width: Width,
    },
    /// Replaces `acc` by 16-bit lanes selected from `acc` and `b` (`vpermt2w`).
    Permute2Words {
        acc: VReg,
        indices: VReg,
        b: VReg,
        width: Width,
    },
    /// Replaces `acc` by lanes selected from `acc` and `b`, whose lanes are numbered after those of `acc` (`vpermt2d`,
    /// EVEX).
    Permute2 {
        acc: VReg,
        indices: VReg,
        b: VReg,
        width: Width,
    },
    /// As [`Permute2`](Self::Permute2), with zero in the lanes that the mask leaves out.
    Permute2Some {
        acc: VReg,
        mask: VReg,
        indices: VReg,
        b: VReg,
        width: Width,
    },
    /// The 32-bit lanes of `b` where the mask is set, those of `a` in the other lanes; at most 256 bits.
    Blend {
        dst: VReg,
        a: VReg,
        b: VReg,
        mask: u8,
        width: Width,
    },
    /// `a` with the chunk of this number, of 128 bits, loaded from memory; at least 256 bits.
    InsertChunk {
        dst: VReg,
        a: VReg,
        mem: Mem,
        chunk: u8,
        width: Width,
    },
    /// Prefetches a cache line, to read or to write it; the address may be invalid.
    Prefetch {
        mem: Mem,
        writes: bool,
    },
}

impl Inst {
    /// The registers that the instruction reads.
    pub(super) fn uses(&self) -> SmallVec<[VReg; 3]> {
        match *self {
            Inst::Begin { .. }
            | Inst::End { .. }
            | Inst::Load { .. }
            | Inst::LoadAll { .. }
            | Inst::LoadAllNarrow { .. }
            | Inst::Const { .. }
            | Inst::LoadConst { .. }
            | Inst::Lanes { .. }
            | Inst::Indices { .. }
            | Inst::Table { .. }
            | Inst::Sign { .. }
            | Inst::Counted { .. }
            | Inst::Point { .. }
            | Inst::Prefetch { .. }
            | Inst::Arg { .. } => SmallVec::new(),
            Inst::LoadNarrow { mask, .. } => mask.into_iter().collect(),
            Inst::StoreNarrow { src, mask, .. } => [src].into_iter().chain(mask).collect(),
            Inst::LoadMasked { mask, .. } => SmallVec::from_slice(&[mask]),
            Inst::StoreMasked { src, mask, .. } => SmallVec::from_slice(&[src, mask]),
            Inst::Store { src, .. } | Inst::StoreLow { src, .. } | Inst::Move { src, .. } => {
                SmallVec::from_slice(&[src])
            }
            Inst::Unary { a, .. }
            | Inst::Shift { a, .. }
            | Inst::ShiftByte { a, .. }
            | Inst::MaskNot { a, .. }
            | Inst::InsertChunk { a, .. }
            | Inst::UpperMask { a, .. } => SmallVec::from_slice(&[a]),
            Inst::Binary { a, b, .. }
            | Inst::Compare { a, b, .. }
            | Inst::MaskBinary { a, b, .. }
            | Inst::JoinMasks { low: a, high: b, .. }
            | Inst::Permute { indices: a, a: b, .. }
            | Inst::PermuteBytes { indices: a, a: b, .. }
            | Inst::PermuteWords { indices: a, a: b, .. }
            | Inst::Blend { a, b, .. } => SmallVec::from_slice(&[a, b]),
            Inst::Permute2 { acc, indices, b, .. }
            | Inst::Permute2Bytes { acc, indices, b, .. }
            | Inst::Permute2Words { acc, indices, b, .. } => SmallVec::from_slice(&[acc, indices, b]),
            Inst::Permute2Some { acc, mask, indices, b, .. } => SmallVec::from_slice(&[acc, mask, indices, b]),
            Inst::Gather { acc, mask, indices, .. } => SmallVec::from_slice(&[acc, mask, indices]),
            Inst::MulAdd { a, b, c, .. } => SmallVec::from_slice(&[a, b, c]),
            Inst::Select { mask, then, otherwise, .. } => SmallVec::from_slice(&[mask, then, otherwise]),
            Inst::Fma { acc, a, b, .. } | Inst::Dot4 { acc, a, b, .. } => SmallVec::from_slice(&[acc, a, b]),
            Inst::FmaMem { acc, a, .. } => SmallVec::from_slice(&[acc, a]),
            Inst::ExtremeMasked { acc, mask, .. } => SmallVec::from_slice(&[acc, mask]),
            Inst::ExtremeSome { acc, mask, b, .. } => SmallVec::from_slice(&[acc, mask, b]),
            Inst::Align { low, high, mask, .. } => [low, high].into_iter().chain(mask).collect(),
        }
    }

    /// Whether the instruction begins or ends a loop, sets a pointer or writes to memory: loads may not be moved across it.
    pub(super) fn is_barrier(&self) -> bool {
        matches!(
            self,
            Inst::Begin { .. }
                | Inst::End { .. }
                | Inst::Point { .. }
                | Inst::Store { .. }
                | Inst::StoreMasked { .. }
                | Inst::StoreNarrow { .. }
                | Inst::StoreLow { .. }
        )
    }

    /// The register that the instruction sets.
    pub(super) fn sets(&self) -> Option<VReg> {
        match *self {
            Inst::Begin { .. }
            | Inst::End { .. }
            | Inst::Store { .. }
            | Inst::StoreMasked { .. }
            | Inst::StoreNarrow { .. }
            | Inst::StoreLow { .. }
            | Inst::Point { .. }
            | Inst::Prefetch { .. } => None,
            Inst::Load { dst, .. }
            | Inst::LoadNarrow { dst, .. }
            | Inst::LoadMasked { dst, .. }
            | Inst::Lanes { dst, .. }
            | Inst::LoadAll { dst, .. }
            | Inst::LoadAllNarrow { dst, .. }
            | Inst::Const { dst, .. }
            | Inst::LoadConst { dst, .. }
            | Inst::MulAdd { dst, .. }
            | Inst::Shift { dst, .. }
            | Inst::ShiftByte { dst, .. }
            | Inst::Compare { dst, .. }
            | Inst::MaskBinary { dst, .. }
            | Inst::MaskNot { dst, .. }
            | Inst::UpperMask { dst, .. }
            | Inst::JoinMasks { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Arg { dst, .. }
            | Inst::Unary { dst, .. }
            | Inst::Binary { dst, .. }
            | Inst::Indices { dst, .. }
            | Inst::Table { dst, .. }
            | Inst::Sign { dst, .. }
            | Inst::Counted { dst, .. }
            | Inst::Permute { dst, .. }
            | Inst::PermuteBytes { dst, .. }
            | Inst::PermuteWords { dst, .. }
            | Inst::Blend { dst, .. }
            | Inst::InsertChunk { dst, .. }
            | Inst::Align { dst, .. }
            | Inst::Move { dst, .. } => Some(dst),
            Inst::Permute2 { acc, .. }
            | Inst::Permute2Some { acc, .. }
            | Inst::Permute2Bytes { acc, .. }
            | Inst::Permute2Words { acc, .. }
            | Inst::Gather { acc, .. }
            | Inst::Fma { acc, .. }
            | Inst::FmaMem { acc, .. }
            | Inst::ExtremeMasked { acc, .. }
            | Inst::ExtremeSome { acc, .. }
            | Inst::Dot4 { acc, .. } => Some(acc),
        }
    }

    /// A load, of memory or a constant, into another register; other instructions are unchanged.
    pub(super) fn loading_to(mut self, to: VReg) -> Inst {
        if let Inst::Load { dst, .. }
        | Inst::LoadNarrow { dst, .. }
        | Inst::LoadMasked { dst, .. }
        | Inst::LoadAll { dst, .. }
        | Inst::LoadAllNarrow { dst, .. }
        | Inst::LoadConst { dst, .. }
        | Inst::Indices { dst, .. }
        | Inst::Table { dst, .. } = &mut self
        {
            *dst = to;
        }
        self
    }

    /// Replaces a register that the instruction reads and does not set.
    pub(super) fn replace_use(&mut self, old: VReg, new: VReg) {
        let replace = |v: &mut VReg| {
            if *v == old {
                *v = new;
            }
        };
        match self {
            Inst::Begin { .. }
            | Inst::End { .. }
            | Inst::Load { .. }
            | Inst::LoadAll { .. }
            | Inst::LoadAllNarrow { .. }
            | Inst::Const { .. }
            | Inst::LoadConst { .. }
            | Inst::Lanes { .. }
            | Inst::Indices { .. }
            | Inst::Table { .. }
            | Inst::Sign { .. }
            | Inst::Counted { .. }
            | Inst::Point { .. }
            | Inst::Prefetch { .. }
            | Inst::Arg { .. } => {}
            Inst::LoadNarrow { mask, .. } => mask.iter_mut().for_each(replace),
            Inst::StoreNarrow { src, mask, .. } => {
                replace(src);
                mask.iter_mut().for_each(replace);
            }
            Inst::Store { src: a, .. }
            | Inst::StoreLow { src: a, .. }
            | Inst::LoadMasked { mask: a, .. }
            | Inst::ExtremeMasked { mask: a, .. }
            | Inst::Move { src: a, .. }
            | Inst::Unary { a, .. }
            | Inst::Shift { a, .. }
            | Inst::ShiftByte { a, .. }
            | Inst::MaskNot { a, .. }
            | Inst::UpperMask { a, .. }
            | Inst::InsertChunk { a, .. }
            | Inst::FmaMem { a, .. } => replace(a),
            Inst::Align { low, high, mask, .. } => {
                replace(low);
                replace(high);
                mask.iter_mut().for_each(replace);
            }
            Inst::StoreMasked { src: a, mask: b, .. }
            | Inst::ExtremeSome { mask: a, b, .. }
            | Inst::JoinMasks { low: a, high: b, .. }
            | Inst::Binary { a, b, .. }
            | Inst::Compare { a, b, .. }
            | Inst::MaskBinary { a, b, .. }
            | Inst::Dot4 { a, b, .. }
            | Inst::Permute { indices: a, a: b, .. }
            | Inst::PermuteBytes { indices: a, a: b, .. }
            | Inst::PermuteWords { indices: a, a: b, .. }
            | Inst::Permute2 { indices: a, b, .. }
            | Inst::Permute2Bytes { indices: a, b, .. }
            | Inst::Permute2Words { indices: a, b, .. }
            | Inst::Gather { indices: a, mask: b, .. }
            | Inst::Blend { a, b, .. }
            | Inst::Fma { a, b, .. } => {
                replace(a);
                replace(b);
            }
            Inst::MulAdd { a, b, c, .. }
            | Inst::Permute2Some { mask: a, indices: b, b: c, .. }
            | Inst::Select { mask: a, then: b, otherwise: c, .. } => {
                replace(a);
                replace(b);
                replace(c);
            }
        }
    }
}

/// A pointer or counter in a general register, with its steps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Stream {
    /// The argument with its initial value; of a pointer that is looked up, the one from which that follows.
    pub slot: u32,
    /// How the initial value follows from an element of memory, instead of being an argument.
    pub lookup: Option<Lookup>,
    /// Bytes that an iteration of each loop adds; loops without a step are left out.
    pub steps: SmallVec<[(LoopId, i64); 4]>,
}

/// A pointer that is another one plus so many bytes for each unit of an `int32` in memory. It is set where iterations of a loop begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Lookup {
    pub from: StreamId,
    pub element: Mem,
    /// Bytes of a unit.
    pub unit: i32,
    /// The innermost loop on which the pointer depends; `None` if it is the same in the whole region.
    pub within: Option<LoopId>,
}

impl Stream {
    /// The pointer or counter that begins as the argument says.
    pub(super) fn of_argument(slot: u32, steps: SmallVec<[(LoopId, i64); 4]>) -> Stream {
        Stream { slot, lookup: None, steps }
    }

    /// The buffer of the pointer, given the arguments of the region; `None` for a counter.
    pub(super) fn buffer(&self, args: &[RegionArg]) -> Option<BufferId> {
        match args[self.slot as usize] {
            RegionArg::Address { buffer, .. } => Some(buffer),
            RegionArg::Value(_) => None,
        }
    }
}

/// The code of a region.
#[derive(Clone, Default)]
pub(super) struct Code {
    /// Constants and arguments, which are set first.
    pub prologue: Vec<Inst>,
    pub insts: Vec<Inst>,
    /// The class of each virtual register.
    pub classes: Vec<Class>,
    pub streams: Vec<Stream>,
    /// Whether masks have more than sixteen lanes.
    pub has_long_masks: bool,
    /// The lanes of lookup tables, each table once.
    pub tables: Vec<SmallVec<[u32; 16]>>,
}

impl Code {
    /// A new virtual register.
    pub(super) fn fresh(&mut self, class: Class) -> VReg {
        self.classes.push(class);
        VReg(self.classes.len() as u32 - 1)
    }
}
