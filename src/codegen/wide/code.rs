//! Vector code of a region: instructions over virtual registers, in the order in which they run.

use super::RegionArg;
use crate::ir::{BinOp, CmpOp, DType};
use crate::loopir::BufferId;
use smallvec::SmallVec;

/// A virtual vector register. It holds one value at a time, but may be set more than once.
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
}

impl Elem {
    /// The lane type that values of a data type are computed in; `None` if region code does not know it.
    pub(super) fn of(dtype: DType) -> Option<Elem> {
        match dtype {
            DType::Float32 | DType::Float16 | DType::BFloat16 => Some(Elem::F32),
            DType::Float64 => Some(Elem::F64),
            DType::Int32 | DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16 => Some(Elem::I32),
            DType::Int64 | DType::UInt32 | DType::UInt64 | DType::Bool => None,
            DType::Float8(_) | DType::Narrow(_) | DType::Handle | DType::Str => None,
        }
    }

    /// Size of a lane.
    pub(super) fn bytes(self) -> usize {
        match self {
            Elem::F32 | Elem::I32 => 4,
            Elem::F64 => 8,
        }
    }
}

/// Elements in memory of which region code makes lanes of 32 bits.
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
    /// That of a data type; `None` if it is as wide in registers.
    pub(super) fn of(dtype: DType) -> Option<Memory> {
        match dtype {
            DType::UInt8 => Some(Memory::U8),
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
            | DType::Bool
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

/// How much of a register an instruction works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Width {
    /// One lane.
    Scalar,
    /// 64 bits of several lanes.
    Half,
    /// 128 bits.
    X,
    /// 256 bits.
    Y,
    /// 512 bits.
    Z,
}

impl Width {
    /// The width of so many bytes in lanes.
    pub(super) fn of_bytes(bytes: usize) -> Option<Width> {
        match bytes {
            8 => Some(Width::Half),
            16 => Some(Width::X),
            32 => Some(Width::Y),
            64 => Some(Width::Z),
            _ => None,
        }
    }

    /// Bytes of a register of this width; `None` of a single lane.
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

/// A place in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Mem {
    pub stream: StreamId,
    /// Bytes.
    pub disp: i32,
}

/// What registers hold values of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Vector registers.
    Vector,
    /// Mask registers, a bit for each lane.
    Mask,
}

/// An operation on two values.
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
    /// Of the bits, as the next two.
    And,
    Or,
    Xor,
    /// Lanes of `a` and `b` by turns, from the lower halves of each 128 bits; of whole registers, as the next three.
    LowLanes,
    /// From the upper halves.
    HighLanes,
    /// The first, third, … 128 bits of `a`, then those of `b`.
    EvenChunks,
    /// The second, fourth, ….
    OddChunks,
    /// Products of signed 16-bit lanes, two neighbours added.
    MulPairs,
    /// Both as 16-bit lanes, of 32-bit ones that fit.
    Pack32,
    /// Both as 8-bit lanes, of 16-bit ones that fit.
    Pack16,
}

/// Shifts of 16-bit lanes by eight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shift16 {
    Left,
    /// Zeros come in.
    Right,
    /// Copies of the sign come in.
    Signed,
}

impl Op2 {
    /// The operation of the loop IR on lanes, if there is an instruction for it.
    pub(super) fn of(op: BinOp, elem: Elem) -> Option<Op2> {
        match op {
            BinOp::Add => Some(Op2::Add),
            BinOp::Sub => Some(Op2::Sub),
            BinOp::Mul => Some(Op2::Mul),
            BinOp::Div if elem != Elem::I32 => Some(Op2::Div),
            BinOp::Min => Some(Op2::Min),
            BinOp::Max => Some(Op2::Max),
            BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod | BinOp::And | BinOp::Or => None,
        }
    }
}

/// An operation on one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op1 {
    Sqrt,
    Round(Rounding),
    /// int32 to float32.
    Convert,
    /// float32 to int32; the smallest one where it does not fit, and for NaN.
    Truncate,
    /// float32 to the bits of float16, in half as many bytes.
    ToF16,
    /// Back.
    OfF16,
    /// The scalar in the lowest lane, in every lane.
    Broadcast,
    /// The upper half of the source in the lower half.
    UpperHalf,
}

/// To which integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    /// Of two equally near ones, the even one.
    Nearest = 0,
    Down = 1,
    Up = 2,
    Truncate = 3,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Inst {
    /// A loop of a constant number of iterations, at least 1.
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
    /// Narrower elements as lanes of 32 bits.
    LoadNarrow {
        dst: VReg,
        mem: Mem,
        memory: Memory,
        width: Width,
    },
    /// Lanes of 32 bits as narrower elements: with EVEX, or of float16; at least 128 bits of them.
    StoreNarrow {
        src: VReg,
        mem: Mem,
        memory: Memory,
        width: Width,
    },
    /// The first bytes of a register: 1, 2, 4, 8 or 16.
    StoreLow {
        src: VReg,
        mem: Mem,
        bytes: u8,
    },
    /// Of the lanes where the mask is set; others are zero, and their memory is not touched.
    LoadMasked {
        dst: VReg,
        mask: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// One element in every lane.
    LoadAll {
        dst: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// A constant in every lane, by its bits.
    Const {
        dst: VReg,
        bits: u64,
        elem: Elem,
    },
    /// The same from the region's own data, where it is needed.
    LoadConst {
        dst: VReg,
        bits: u64,
        elem: Elem,
    },
    /// An argument in every lane.
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
    /// Of the lanes where the mask is set.
    StoreMasked {
        src: VReg,
        mask: VReg,
        mem: Mem,
        elem: Elem,
        width: Width,
    },
    /// The mask of the lanes whose bits are set, in the form that comparisons make.
    Lanes {
        dst: VReg,
        bits: u16,
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
    /// `acc = acc + Σ a[q] * b[q]` over the bytes of each 32-bit lane, those of `a` unsigned, those of `b` signed.
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
    /// Of 32-bit lanes; copies of the sign come in from the left.
    Shift {
        dst: VReg,
        a: VReg,
        left: bool,
        by: u8,
        width: Width,
    },
    /// Of 16-bit lanes, by eight.
    ShiftByte {
        dst: VReg,
        a: VReg,
        kind: Shift16,
        width: Width,
    },
    /// The mask of the lanes where it holds: a mask register with EVEX, else lanes of all ones or zeros. Without EVEX,
    /// of integers there are `Eq`, `Lt` and `Gt` only.
    Compare {
        op: CmpOp,
        dst: VReg,
        a: VReg,
        b: VReg,
        elem: Elem,
        width: Width,
    },
    /// Of mask registers.
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
    /// Lanes of `then` where the mask is set, of `otherwise` elsewhere.
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
    /// The mask of all lanes if what a register counts, and a constant, are negative together; else of none.
    Sign {
        dst: VReg,
        stream: StreamId,
        plus: i32,
    },
    /// The sum of what a register counts and a constant in every lane of 32 bits, which it must fit.
    Counted {
        dst: VReg,
        stream: StreamId,
        plus: i32,
    },
    /// Numbers of 32-bit lanes, a byte for each, the first lane lowest.
    Indices {
        dst: VReg,
        lanes: u128,
    },
    /// 32-bit lanes that fill a whole register, from [`Code::tables`].
    Table {
        dst: VReg,
        table: u32,
    },
    /// The 32-bit lanes of `a` that the indices say: of 256 bits at least.
    Permute {
        dst: VReg,
        indices: VReg,
        a: VReg,
        width: Width,
    },
    /// Of those of `acc` and, numbered after them, of `b`, in the place of `acc`; with EVEX.
    Permute2 {
        acc: VReg,
        indices: VReg,
        b: VReg,
        width: Width,
    },
    /// 32-bit lanes of `b` where the mask is set, of `a` elsewhere: of 256 bits at most.
    Blend {
        dst: VReg,
        a: VReg,
        b: VReg,
        mask: u8,
        width: Width,
    },
    /// Brings a cache line nearer; of any address.
    Prefetch {
        mem: Mem,
    },
}

impl Inst {
    /// The registers it reads.
    pub(super) fn uses(&self) -> SmallVec<[VReg; 3]> {
        match *self {
            Inst::Begin { .. }
            | Inst::End { .. }
            | Inst::Load { .. }
            | Inst::LoadNarrow { .. }
            | Inst::LoadAll { .. }
            | Inst::Const { .. }
            | Inst::LoadConst { .. }
            | Inst::Lanes { .. }
            | Inst::Indices { .. }
            | Inst::Table { .. }
            | Inst::Sign { .. }
            | Inst::Counted { .. }
            | Inst::Prefetch { .. }
            | Inst::Arg { .. } => SmallVec::new(),
            Inst::LoadMasked { mask, .. } => SmallVec::from_slice(&[mask]),
            Inst::StoreMasked { src, mask, .. } => SmallVec::from_slice(&[src, mask]),
            Inst::Store { src, .. }
            | Inst::StoreNarrow { src, .. }
            | Inst::StoreLow { src, .. }
            | Inst::Move { src, .. } => SmallVec::from_slice(&[src]),
            Inst::Unary { a, .. } | Inst::Shift { a, .. } | Inst::ShiftByte { a, .. } | Inst::MaskNot { a, .. } => {
                SmallVec::from_slice(&[a])
            }
            Inst::Binary { a, b, .. }
            | Inst::Compare { a, b, .. }
            | Inst::MaskBinary { a, b, .. }
            | Inst::Permute { indices: a, a: b, .. }
            | Inst::Blend { a, b, .. } => SmallVec::from_slice(&[a, b]),
            Inst::Permute2 { acc, indices, b, .. } => SmallVec::from_slice(&[acc, indices, b]),
            Inst::MulAdd { a, b, c, .. } => SmallVec::from_slice(&[a, b, c]),
            Inst::Select { mask, then, otherwise, .. } => SmallVec::from_slice(&[mask, then, otherwise]),
            Inst::Fma { acc, a, b, .. } | Inst::Dot4 { acc, a, b, .. } => SmallVec::from_slice(&[acc, a, b]),
            Inst::FmaMem { acc, a, .. } => SmallVec::from_slice(&[acc, a]),
        }
    }

    /// The register it sets.
    pub(super) fn sets(&self) -> Option<VReg> {
        match *self {
            Inst::Begin { .. }
            | Inst::End { .. }
            | Inst::Store { .. }
            | Inst::StoreMasked { .. }
            | Inst::StoreNarrow { .. }
            | Inst::StoreLow { .. }
            | Inst::Prefetch { .. } => None,
            Inst::Load { dst, .. }
            | Inst::LoadNarrow { dst, .. }
            | Inst::LoadMasked { dst, .. }
            | Inst::Lanes { dst, .. }
            | Inst::LoadAll { dst, .. }
            | Inst::Const { dst, .. }
            | Inst::LoadConst { dst, .. }
            | Inst::MulAdd { dst, .. }
            | Inst::Shift { dst, .. }
            | Inst::ShiftByte { dst, .. }
            | Inst::Compare { dst, .. }
            | Inst::MaskBinary { dst, .. }
            | Inst::MaskNot { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Arg { dst, .. }
            | Inst::Unary { dst, .. }
            | Inst::Binary { dst, .. }
            | Inst::Indices { dst, .. }
            | Inst::Table { dst, .. }
            | Inst::Sign { dst, .. }
            | Inst::Counted { dst, .. }
            | Inst::Permute { dst, .. }
            | Inst::Blend { dst, .. }
            | Inst::Move { dst, .. } => Some(dst),
            Inst::Permute2 { acc, .. } | Inst::Fma { acc, .. } | Inst::FmaMem { acc, .. } | Inst::Dot4 { acc, .. } => {
                Some(acc)
            }
        }
    }

    /// A load, of memory or a constant, to another register; other instructions as they are.
    pub(super) fn loading_to(mut self, to: VReg) -> Inst {
        if let Inst::Load { dst, .. }
        | Inst::LoadNarrow { dst, .. }
        | Inst::LoadMasked { dst, .. }
        | Inst::LoadAll { dst, .. }
        | Inst::LoadConst { dst, .. }
        | Inst::Indices { dst, .. }
        | Inst::Table { dst, .. } = &mut self
        {
            *dst = to;
        }
        self
    }

    /// Replaces a register that it reads and does not set.
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
            | Inst::LoadNarrow { .. }
            | Inst::LoadAll { .. }
            | Inst::Const { .. }
            | Inst::LoadConst { .. }
            | Inst::Lanes { .. }
            | Inst::Indices { .. }
            | Inst::Table { .. }
            | Inst::Sign { .. }
            | Inst::Counted { .. }
            | Inst::Prefetch { .. }
            | Inst::Arg { .. } => {}
            Inst::Store { src: a, .. }
            | Inst::StoreNarrow { src: a, .. }
            | Inst::StoreLow { src: a, .. }
            | Inst::LoadMasked { mask: a, .. }
            | Inst::Move { src: a, .. }
            | Inst::Unary { a, .. }
            | Inst::Shift { a, .. }
            | Inst::ShiftByte { a, .. }
            | Inst::MaskNot { a, .. }
            | Inst::FmaMem { a, .. } => replace(a),
            Inst::StoreMasked { src: a, mask: b, .. }
            | Inst::Binary { a, b, .. }
            | Inst::Compare { a, b, .. }
            | Inst::MaskBinary { a, b, .. }
            | Inst::Dot4 { a, b, .. }
            | Inst::Permute { indices: a, a: b, .. }
            | Inst::Permute2 { indices: a, b, .. }
            | Inst::Blend { a, b, .. }
            | Inst::Fma { a, b, .. } => {
                replace(a);
                replace(b);
            }
            Inst::MulAdd { a, b, c, .. } | Inst::Select { mask: a, then: b, otherwise: c, .. } => {
                replace(a);
                replace(b);
                replace(c);
            }
        }
    }
}

/// A pointer with its steps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Stream {
    /// The argument it starts at.
    pub slot: u32,
    /// Bytes that an iteration of each loop adds; loops that add nothing are left out.
    pub steps: SmallVec<[(LoopId, i64); 4]>,
}

impl Stream {
    /// The buffer that it leads through, of a region with these arguments; none if it counts.
    pub(super) fn buffer(&self, args: &[RegionArg]) -> Option<BufferId> {
        match args[self.slot as usize] {
            RegionArg::Address { buffer, .. } => Some(buffer),
            RegionArg::Value(_) => None,
        }
    }
}

/// Code of a region.
#[derive(Clone, Default)]
pub(super) struct Code {
    /// Constants and arguments first.
    pub prologue: Vec<Inst>,
    pub insts: Vec<Inst>,
    /// By virtual register.
    pub classes: Vec<Class>,
    pub streams: Vec<Stream>,
    /// The bits of lanes that are looked up, each table once.
    pub tables: Vec<SmallVec<[u32; 16]>>,
}

impl Code {
    /// A new virtual register.
    pub(super) fn fresh(&mut self, class: Class) -> VReg {
        self.classes.push(class);
        VReg(self.classes.len() as u32 - 1)
    }
}
