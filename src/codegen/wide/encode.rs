//! Vector code to bytes.
//!
//! A region is a function of one pointer, to its arguments: 8 bytes each, pointers first come first served. It keeps them
//! in general registers which the loops advance, one counter per loop that is running, and touches nothing else.

use super::asm::{Asm, Gpr, Length, Map, Mask, Opcode, Pp, RAX, RDI, Rm};
use super::code::{Code, Elem, Inst, LoopId, Mem, Memory, Op1, Op2, Shift16, StreamId, VReg, Width};
use crate::ir::CmpOp;
use hashbrown::HashMap;

/// General registers in the order in which they are given out. The last six belong to the caller.
const GPRS: [Gpr; 14] =
    [RAX, Gpr(1), Gpr(2), Gpr(6), Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
/// How many of them need not be saved.
const SCRATCH_GPRS: usize = 8;
/// Loops begin at a multiple of so many bytes.
const LOOP_ALIGN: usize = 32;

/// The bytes of a region; `None` if it needs more general registers than there are.
pub(super) fn encode(code: &Code, registers: &[u8], evex: bool, vector_bytes: usize) -> Option<Vec<u8>> {
    let depth = depth(code);
    let n_gprs = code.streams.len() + depth;
    if n_gprs > GPRS.len() {
        return None;
    }
    let whole = match vector_bytes {
        64 => Length::L512,
        32 => Length::L256,
        _ => Length::L128,
    };
    let mut encoder = Encoder {
        asm: Asm {
            bytes: Vec::with_capacity(64 + code.insts.len() * 8),
            evex,
            constants: Vec::new(),
            tables: Vec::new(),
        },
        code,
        registers,
        whole,
        loops: Vec::new(),
        extents: HashMap::new(),
    };
    let saved = &GPRS[SCRATCH_GPRS.min(n_gprs)..n_gprs];
    saved.iter().for_each(|&r| encoder.asm.push(r));
    code.prologue.iter().try_for_each(|inst| encoder.inst(inst))?;
    for (i, stream) in code.streams.iter().enumerate() {
        encoder.asm.load(GPRS[i], RDI, i32::try_from(stream.slot * 8).ok()?);
    }
    code.insts.iter().try_for_each(|inst| encoder.inst(inst))?;
    saved.iter().rev().for_each(|&r| encoder.asm.pop(r));
    encoder.asm.leave();
    encoder.asm.place_constants();
    Some(encoder.asm.bytes)
}

/// How many loops run inside each other.
fn depth(code: &Code) -> usize {
    let (mut now, mut most) = (0usize, 0);
    for inst in &code.insts {
        match inst {
            Inst::Begin { .. } => now += 1,
            Inst::End { .. } => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

struct Encoder<'a> {
    asm: Asm,
    code: &'a Code,
    registers: &'a [u8],
    /// The width of whole registers.
    whole: Length,
    /// Loops that are running: where they begin.
    loops: Vec<(LoopId, usize)>,
    extents: HashMap<LoopId, i64>,
}

fn op(map: Map, pp: Pp, byte: u8, w: bool) -> Opcode {
    Opcode { map, pp, byte, w, vex_w: false }
}

/// Packed or scalar arithmetic of the table 0F.
fn arithmetic(byte: u8, elem: Elem, width: Width) -> Opcode {
    let (pp, w) = match (elem, width) {
        (Elem::F64, Width::Scalar) => (Pp::F2, true),
        (Elem::F64, _) => (Pp::P66, true),
        (_, Width::Scalar) => (Pp::F3, false),
        _ => (Pp::None, false),
    };
    op(Map::M0F, pp, byte, w)
}

fn length(width: Width) -> Length {
    match width {
        Width::Scalar | Width::Half | Width::X => Length::L128,
        Width::Y => Length::L256,
        Width::Z => Length::L512,
    }
}

/// Bytes accessed.
fn bytes(elem: Elem, width: Width) -> u8 {
    width.bytes().unwrap_or(elem.bytes()) as u8
}

impl Encoder<'_> {
    fn reg(&self, v: VReg) -> u8 {
        self.registers[v.0 as usize]
    }

    fn gpr(&self, s: StreamId) -> Gpr {
        GPRS[s.0 as usize]
    }

    fn counter(&self, depth: usize) -> Gpr {
        GPRS[self.code.streams.len() + depth]
    }

    fn mem(&self, mem: Mem, bytes: u8) -> Rm<'static> {
        Rm::Mem(self.gpr(mem.stream), mem.disp, bytes)
    }

    fn inst(&mut self, inst: &Inst) -> Option<()> {
        match *inst {
            Inst::Begin { l, extent } => {
                let counter = self.counter(self.loops.len());
                self.asm.set(counter, u64::try_from(extent).ok()?);
                self.asm.align(LOOP_ALIGN);
                self.extents.insert(l, extent);
                self.loops.push((l, self.asm.bytes.len()));
            }
            Inst::End { l } => self.end(l)?,
            Inst::Load { dst, mem, elem, width } => {
                let rm = self.mem(mem, bytes(elem, width));
                self.asm.vector(self.move_op(elem, width, 0x10), length(width), self.reg(dst), None, rm, None);
            }
            Inst::Store { src, mem, elem, width } => {
                let rm = self.mem(mem, bytes(elem, width));
                self.asm.vector(self.move_op(elem, width, 0x11), length(width), self.reg(src), None, rm, None);
            }
            Inst::LoadNarrow { dst, mem, memory, width } => self.load_narrow(self.reg(dst), mem, memory, width),
            Inst::StoreNarrow { src, mem, memory, width } => self.store_narrow(self.reg(src), mem, memory, width),
            Inst::StoreLow { src, mem, bytes } => self.store_low(self.reg(src), mem, bytes),
            Inst::LoadMasked { dst, mask, mem, elem, width } => {
                self.masked_move(self.reg(dst), mask, mem, elem, width, false);
            }
            Inst::StoreMasked { src, mask, mem, elem, width } => {
                self.masked_move(self.reg(src), mask, mem, elem, width, true);
            }
            Inst::Lanes { dst, bits, elem } => self.lanes(self.reg(dst), bits, elem),
            Inst::LoadAll { dst, mem, elem, width } => {
                let rm = self.mem(mem, elem.bytes() as u8);
                self.broadcast(self.reg(dst), rm, elem, length(width));
            }
            Inst::Arg { dst, slot, elem } => {
                let rm = Rm::Mem(RDI, i32::try_from(slot * 8).ok()?, elem.bytes() as u8);
                self.broadcast(self.reg(dst), rm, elem, self.whole);
            }
            Inst::Const { dst, bits, elem } => self.constant(self.reg(dst), bits, elem),
            Inst::LoadConst { dst, bits: 0, .. } => self.zero(self.reg(dst)),
            Inst::LoadConst { dst, bits, elem } => {
                self.broadcast(self.reg(dst), Rm::Constant(bits, elem), elem, self.whole);
            }
            Inst::Unary { op, dst, a, elem, width } => self.unary(op, dst, a, elem, width),
            Inst::Binary { op: o @ (Op2::EvenChunks | Op2::OddChunks), dst, a, b, width, .. } => {
                // Which chunks make the result, in two bits (one, of 256 bits) or four for each.
                let is_even = o == Op2::EvenChunks;
                let (byte, which) = match (self.asm.evex, width) {
                    (true, Width::Z) => (0x23, if is_even { 0x88 } else { 0xDD }),
                    (true, Width::Y) => (0x23, if is_even { 0x00 } else { 0x03 }),
                    (false, Width::Y) => (0x06, if is_even { 0x20 } else { 0x31 }),
                    _ => return None,
                };
                let (opcode, rm) = (op(Map::M0F3A, Pp::P66, byte, false), Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(a)), rm, Some(which));
            }
            Inst::Binary { op: o, dst, a, b, elem, width } => {
                let opcode = match (elem, o) {
                    (_, Op2::And) => op(Map::M0F, Pp::P66, 0xDB, false),
                    (_, Op2::Or) => op(Map::M0F, Pp::P66, 0xEB, false),
                    (_, Op2::Xor) => op(Map::M0F, Pp::P66, 0xEF, false),
                    (_, Op2::LowLanes) => arithmetic(0x14, elem, width),
                    (_, Op2::HighLanes) => arithmetic(0x15, elem, width),
                    (_, Op2::EvenChunks | Op2::OddChunks) => return None,
                    (Elem::I32, Op2::Add) => op(Map::M0F, Pp::P66, 0xFE, false),
                    (Elem::I32, Op2::Sub) => op(Map::M0F, Pp::P66, 0xFA, false),
                    (Elem::I32, Op2::Mul) => op(Map::M0F38, Pp::P66, 0x40, false),
                    (Elem::I32, Op2::Min) => op(Map::M0F38, Pp::P66, 0x39, false),
                    (Elem::I32, Op2::Max) => op(Map::M0F38, Pp::P66, 0x3D, false),
                    (_, Op2::Pack32) => op(Map::M0F38, Pp::P66, 0x2B, false),
                    (_, Op2::Pack16) => op(Map::M0F, Pp::P66, 0x67, false),
                    (_, Op2::MulPairs) => op(Map::M0F, Pp::P66, 0xF5, false),
                    (Elem::I32, Op2::Div) => return None,
                    (_, Op2::Add) => arithmetic(0x58, elem, width),
                    (_, Op2::Mul) => arithmetic(0x59, elem, width),
                    (_, Op2::Sub) => arithmetic(0x5C, elem, width),
                    (_, Op2::Min) => arithmetic(0x5D, elem, width),
                    (_, Op2::Div) => arithmetic(0x5E, elem, width),
                    (_, Op2::Max) => arithmetic(0x5F, elem, width),
                };
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(a)), rm, None);
            }
            Inst::Fma { acc, a, b, elem, width } => {
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(fma(ACC, elem, width), length(width), self.reg(acc), Some(self.reg(a)), rm, None);
            }
            Inst::FmaMem { acc, a, b, elem, width } => {
                let rm = self.mem(b, bytes(elem, width));
                self.asm.vector(fma(ACC, elem, width), length(width), self.reg(acc), Some(self.reg(a)), rm, None);
            }
            Inst::MulAdd { dst, a, b, c, elem, width } => {
                let [dst, a, b, c] = [dst, a, b, c].map(|v| self.reg(v));
                // In the register of the sum or of a factor, whichever it shares.
                let (form, x, y) = match dst {
                    _ if dst == c => (ACC, a, b),
                    _ if dst == a => (FACTOR, b, c),
                    _ if dst == b => (FACTOR, a, c),
                    _ => {
                        self.copy(dst, c);
                        (ACC, a, b)
                    }
                };
                self.asm.vector(fma(form, elem, width), length(width), dst, Some(x), Rm::Reg(y), None);
            }
            Inst::Shift { dst, a, left, by, width } => {
                let opcode = op(Map::M0F, Pp::P66, 0x72, false);
                let form = if left { 6 } else { 4 };
                let rm = Rm::Reg(self.reg(a));
                self.asm.vector(opcode, length(width), form, Some(self.reg(dst)), rm, Some(by));
            }
            Inst::Dot4 { acc, a, b, width } => {
                let (opcode, rm) = (op(Map::M0F38, Pp::P66, 0x50, false), Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(acc), Some(self.reg(a)), rm, None);
            }
            Inst::ShiftByte { dst, a, kind, width } => {
                let form = match kind {
                    Shift16::Right => 2,
                    Shift16::Signed => 4,
                    Shift16::Left => 6,
                };
                let (opcode, rm) = (op(Map::M0F, Pp::P66, 0x71, false), Rm::Reg(self.reg(a)));
                self.asm.vector(opcode, length(width), form, Some(self.reg(dst)), rm, Some(8));
            }
            Inst::Compare { op, dst, a, b, elem, width } => {
                self.compare(op, self.reg(dst), self.reg(a), self.reg(b), elem, length(width))?;
            }
            Inst::MaskBinary { op: o, dst, a, b } => {
                let opcode = match o {
                    Op2::And => 0x41,
                    Op2::Or => 0x45,
                    Op2::Xor => 0x47,
                    _ => return None,
                };
                self.asm.mask(opcode, self.reg(dst), Some(self.reg(a)), self.reg(b));
            }
            Inst::MaskNot { dst, a } => self.asm.mask(0x44, self.reg(dst), None, self.reg(a)),
            Inst::Select { dst, mask, then, otherwise, elem, width } => {
                let (dst, otherwise, rm) = (self.reg(dst), Some(self.reg(otherwise)), Rm::Reg(self.reg(then)));
                let (mask, is_double) = (self.reg(mask), elem == Elem::F64);
                if self.asm.evex {
                    let opcode = op(Map::M0F38, Pp::P66, 0x65, is_double);
                    let mask = Mask { register: mask, zeroing: false };
                    self.asm.masked(opcode, length(width), dst, otherwise, rm, None, mask);
                } else {
                    let opcode = op(Map::M0F3A, Pp::P66, if is_double { 0x4B } else { 0x4A }, false);
                    self.asm.vector(opcode, length(width), dst, otherwise, rm, Some(mask << 4));
                }
            }
            Inst::Sign { dst, stream, plus } => self.sign(self.reg(dst), self.gpr(stream), plus),
            Inst::Counted { dst, stream, plus } => self.counted(self.reg(dst), self.gpr(stream), plus),
            Inst::Indices { dst, lanes } => {
                let opcode = op(Map::M0F38, Pp::P66, 0x31, false);
                self.asm.vector(opcode, self.whole, self.reg(dst), None, Rm::Bytes(&lanes.to_le_bytes()), None);
            }
            Inst::Table { dst, table } => {
                let lanes: Vec<u8> = self.code.tables[table as usize].iter().flat_map(|v| v.to_le_bytes()).collect();
                let opcode = op(Map::M0F, Pp::None, 0x10, false);
                self.asm.vector(opcode, self.whole, self.reg(dst), None, Rm::Bytes(&lanes), None);
            }
            Inst::Permute { dst, indices, a, width } => {
                let (opcode, rm) = (op(Map::M0F38, Pp::P66, 0x36, false), Rm::Reg(self.reg(a)));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(indices)), rm, None);
            }
            Inst::Permute2 { acc, indices, b, width } => {
                let (opcode, rm) = (op(Map::M0F38, Pp::P66, 0x7E, false), Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(acc), Some(self.reg(indices)), rm, None);
            }
            Inst::Blend { dst, a, b, mask, width } => {
                let (opcode, rm) = (op(Map::M0F3A, Pp::P66, 0x02, false), Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(a)), rm, Some(mask));
            }
            Inst::Move { dst, src } => self.copy(self.reg(dst), self.reg(src)),
            Inst::Prefetch { mem } => self.asm.prefetch(self.gpr(mem.stream), mem.disp),
        }
        Some(())
    }

    /// A load or a store of the lanes where a mask is set.
    fn masked_move(&mut self, reg: u8, mask: VReg, mem: Mem, elem: Elem, width: Width, is_store: bool) {
        let (is_double, mask) = (elem == Elem::F64, self.reg(mask));
        let rm = self.mem(mem, bytes(elem, width));
        if self.asm.evex {
            let pp = if is_double { Pp::P66 } else { Pp::None };
            let opcode = op(Map::M0F, pp, if is_store { 0x11 } else { 0x10 }, is_double);
            let zeroing = !is_store;
            self.asm.masked(opcode, length(width), reg, None, rm, None, Mask { register: mask, zeroing });
        } else {
            let byte = 0x2C + u8::from(is_double) + 2 * u8::from(is_store);
            self.asm.vector(op(Map::M0F38, Pp::P66, byte, false), length(width), reg, Some(mask), rm, None);
        }
    }

    /// The mask of some lanes: a mask register, or lanes of all ones.
    fn lanes(&mut self, dst: u8, bits: u16, elem: Elem) {
        if self.asm.evex {
            self.asm.set(RAX, u64::from(bits));
            self.asm.load_mask(dst, RAX);
        } else {
            // A byte for each lane, extended with its sign.
            let bits = (0..8).filter(|i| bits >> i & 1 == 1).fold(0u64, |bytes, i| bytes | 0xff << (8 * i));
            let byte = if elem == Elem::F64 { 0x22 } else { 0x21 };
            let rm = Rm::Constant(bits, Elem::F64);
            self.asm.vector(op(Map::M0F38, Pp::P66, byte, false), Length::L256, dst, None, rm, None);
        }
    }

    /// All ones if the sum is negative, in a mask register or in every lane.
    fn sign(&mut self, dst: u8, counted: Gpr, plus: i32) {
        // The pointer to the arguments has been read.
        self.asm.sign(counted, plus);
        if self.asm.evex {
            self.asm.load_mask(dst, RDI);
        } else {
            let to_vector = Opcode { vex_w: true, ..op(Map::M0F, Pp::P66, 0x6E, true) };
            self.asm.vector(to_vector, Length::L128, dst, None, Rm::Reg(RDI.0), None);
            self.broadcast(dst, Rm::Reg(dst), Elem::F64, self.whole);
        }
    }

    /// The sum in every lane of 32 bits.
    fn counted(&mut self, dst: u8, counted: Gpr, plus: i32) {
        self.asm.sum(counted, plus);
        if self.asm.evex {
            let opcode = op(Map::M0F38, Pp::P66, 0x7C, false);
            self.asm.vector(opcode, self.whole, dst, None, Rm::Reg(RDI.0), None);
        } else {
            self.asm.vector(op(Map::M0F, Pp::P66, 0x6E, false), Length::L128, dst, None, Rm::Reg(RDI.0), None);
            self.broadcast(dst, Rm::Reg(dst), Elem::I32, self.whole);
        }
    }

    fn copy(&mut self, dst: u8, src: u8) {
        if dst != src {
            let opcode = op(Map::M0F, Pp::None, 0x28, false);
            self.asm.vector(opcode, self.whole, dst, None, Rm::Reg(src), None);
        }
    }

    /// A mask; lanes that a vector does not have may have any.
    fn compare(&mut self, o: CmpOp, dst: u8, a: u8, b: u8, elem: Elem, length: Length) -> Option<()> {
        if elem != Elem::I32 {
            // Ordered and quiet, but for `Ne`, which holds for NaN.
            let predicate = match o {
                CmpOp::Eq => 0x00,
                CmpOp::Ne => 0x04,
                CmpOp::Lt => 0x11,
                CmpOp::Le => 0x12,
                CmpOp::Gt => 0x1E,
                CmpOp::Ge => 0x1D,
            };
            let opcode = arithmetic(0xC2, elem, Width::X);
            self.asm.vector(opcode, length, dst, Some(a), Rm::Reg(b), Some(predicate));
        } else if self.asm.evex {
            let predicate = match o {
                CmpOp::Eq => 0,
                CmpOp::Lt => 1,
                CmpOp::Le => 2,
                CmpOp::Ne => 4,
                CmpOp::Ge => 5,
                CmpOp::Gt => 6,
            };
            let opcode = op(Map::M0F3A, Pp::P66, 0x1F, false);
            self.asm.vector(opcode, length, dst, Some(a), Rm::Reg(b), Some(predicate));
        } else {
            let (byte, a, b) = match o {
                CmpOp::Eq => (0x76, a, b),
                CmpOp::Gt => (0x66, a, b),
                CmpOp::Lt => (0x66, b, a),
                CmpOp::Ne | CmpOp::Le | CmpOp::Ge => return None,
            };
            self.asm.vector(op(Map::M0F, Pp::P66, byte, false), length, dst, Some(a), Rm::Reg(b), None);
        }
        Some(())
    }

    fn load_narrow(&mut self, dst: u8, mem: Mem, memory: Memory, width: Width) {
        let (lanes, length) = (bytes(Elem::I32, width) as usize / 4, length(width));
        let n = (lanes * memory.bytes()) as u8;
        let mut source = self.mem(mem, n);
        if matches!(width, Width::Half | Width::Scalar) {
            // No more may be read than there is: it goes to a register first.
            self.load_low(dst, mem, n);
            source = Rm::Reg(dst);
        }
        let widen = match memory {
            Memory::U8 => op(Map::M0F38, Pp::P66, 0x31, false),
            Memory::I8 => op(Map::M0F38, Pp::P66, 0x21, false),
            Memory::U16 | Memory::BF16 => op(Map::M0F38, Pp::P66, 0x33, false),
            Memory::I16 => op(Map::M0F38, Pp::P66, 0x23, false),
            Memory::F16 => OF_F16,
        };
        self.asm.vector(widen, length, dst, None, source, None);
        if memory == Memory::BF16 {
            self.asm.vector(op(Map::M0F, Pp::P66, 0x72, false), length, 6, Some(dst), Rm::Reg(dst), Some(16));
        }
    }

    /// One, two or four bytes into the beginning of a register.
    fn load_low(&mut self, dst: u8, mem: Mem, n: u8) {
        let rm = self.mem(mem, n);
        match n {
            1 => {
                self.zero(dst);
                self.asm.vector(op(Map::M0F3A, Pp::P66, 0x20, false), Length::L128, dst, Some(dst), rm, Some(0));
            }
            2 => {
                self.zero(dst);
                self.asm.vector(op(Map::M0F, Pp::P66, 0xC4, false), Length::L128, dst, Some(dst), rm, Some(0));
            }
            _ => self.asm.vector(op(Map::M0F, Pp::P66, 0x6E, false), Length::L128, dst, None, rm, None),
        }
    }

    fn store_narrow(&mut self, src: u8, mem: Mem, memory: Memory, width: Width) {
        let lanes = bytes(Elem::I32, width) as usize / 4;
        let rm = self.mem(mem, (lanes * memory.bytes()) as u8);
        let (opcode, imm) = match memory {
            Memory::U8 | Memory::I8 => (op(Map::M0F38, Pp::F3, 0x31, false), None),
            Memory::U16 | Memory::I16 | Memory::BF16 => (op(Map::M0F38, Pp::F3, 0x33, false), None),
            Memory::F16 => (op(Map::M0F3A, Pp::P66, 0x1D, false), Some(NEAREST)),
        };
        self.asm.vector(opcode, length(width), src, None, rm, imm);
    }

    fn store_low(&mut self, src: u8, mem: Mem, n: u8) {
        let rm = self.mem(mem, n);
        let (opcode, imm) = match n {
            1 => (op(Map::M0F3A, Pp::P66, 0x14, false), Some(0)),
            2 => (op(Map::M0F3A, Pp::P66, 0x15, false), Some(0)),
            4 => (self.move_op(Elem::I32, Width::Scalar, 0x11), None),
            8 => (self.move_op(Elem::I32, Width::Half, 0x11), None),
            _ => (self.move_op(Elem::I32, Width::X, 0x11), None),
        };
        self.asm.vector(opcode, Length::L128, src, None, rm, imm);
    }

    /// The end of a loop: pointers advance, and after the last iteration go back to where they were.
    fn end(&mut self, l: LoopId) -> Option<()> {
        let (_, start) = self.loops.pop()?;
        let extent = self.extents.get(&l).copied()?;
        let code = self.code;
        let steps = |s: &super::code::Stream| s.steps.iter().find(|(m, _)| *m == l).map(|&(_, step)| step);
        for (i, stream) in code.streams.iter().enumerate() {
            if let Some(step) = steps(stream) {
                self.asm.add(GPRS[i], i32::try_from(step).ok()?);
            }
        }
        let counter = self.counter(self.loops.len());
        self.asm.count_down(counter, start);
        for (i, stream) in code.streams.iter().enumerate() {
            if let Some(step) = steps(stream) {
                self.asm.add(GPRS[i], i32::try_from(step.checked_mul(-extent)?).ok()?);
            }
        }
        Some(())
    }

    fn move_op(&self, elem: Elem, width: Width, byte: u8) -> Opcode {
        match (width, elem) {
            (Width::Scalar, Elem::F32 | Elem::I32) => op(Map::M0F, Pp::F3, byte, false),
            (Width::Scalar, Elem::F64) | (Width::Half, _) => op(Map::M0F, Pp::F2, byte, true),
            _ => op(Map::M0F, Pp::None, byte, false),
        }
    }

    fn broadcast(&mut self, dst: u8, rm: Rm<'_>, elem: Elem, length: Length) {
        match (elem, length) {
            (Elem::F64, Length::L128) => {
                // movddup: of two lanes there is no broadcast.
                let rm = match rm {
                    Rm::Mem(base, disp, _) => Rm::Mem(base, disp, 8),
                    other => other,
                };
                self.asm.vector(op(Map::M0F, Pp::F2, 0x12, true), length, dst, None, rm, None);
            }
            (Elem::F64, _) => self.asm.vector(op(Map::M0F38, Pp::P66, 0x19, true), length, dst, None, rm, None),
            _ => self.asm.vector(op(Map::M0F38, Pp::P66, 0x18, false), length, dst, None, rm, None),
        }
    }

    fn constant(&mut self, dst: u8, bits: u64, elem: Elem) {
        let is_wide = elem == Elem::F64;
        if bits == 0 {
            return self.zero(dst);
        }
        self.asm.set(RAX, bits);
        if self.asm.evex {
            let opcode = op(Map::M0F38, Pp::P66, 0x7C, is_wide);
            self.asm.vector(opcode, self.whole, dst, None, Rm::Reg(RAX.0), None);
        } else {
            let to_vector = Opcode { vex_w: is_wide, ..op(Map::M0F, Pp::P66, 0x6E, is_wide) };
            self.asm.vector(to_vector, Length::L128, dst, None, Rm::Reg(RAX.0), None);
            self.broadcast(dst, Rm::Reg(dst), elem, self.whole);
        }
    }

    /// Exclusive or with itself; a short one clears the whole register.
    fn zero(&mut self, dst: u8) {
        let opcode = op(Map::M0F, Pp::P66, 0xEF, false);
        self.asm.vector(opcode, Length::L128, dst, Some(dst), Rm::Reg(dst), None);
    }

    fn unary(&mut self, o: Op1, dst: VReg, a: VReg, elem: Elem, width: Width) {
        let (dst, a) = (self.reg(dst), self.reg(a));
        match o {
            Op1::Sqrt => {
                let source = (width == Width::Scalar).then_some(a);
                self.asm.vector(arithmetic(0x51, elem, width), length(width), dst, source, Rm::Reg(a), None);
            }
            Op1::Round(to) => {
                let is_double = elem == Elem::F64;
                let opcode = op(Map::M0F3A, Pp::P66, if is_double { 0x09 } else { 0x08 }, is_double);
                self.asm.vector(opcode, length(width), dst, None, Rm::Reg(a), Some(to as u8));
            }
            Op1::Convert => {
                self.asm.vector(op(Map::M0F, Pp::None, 0x5B, false), length(width), dst, None, Rm::Reg(a), None);
            }
            Op1::Truncate => {
                self.asm.vector(op(Map::M0F, Pp::F3, 0x5B, false), length(width), dst, None, Rm::Reg(a), None);
            }
            Op1::ToF16 => {
                // The source is the operand that others write.
                let opcode = op(Map::M0F3A, Pp::P66, 0x1D, false);
                self.asm.vector(opcode, length(width), a, None, Rm::Reg(dst), Some(NEAREST));
            }
            Op1::OfF16 => self.asm.vector(OF_F16, length(width), dst, None, Rm::Reg(a), None),
            Op1::Broadcast => self.broadcast(dst, Rm::Reg(a), elem, length(width)),
            Op1::UpperHalf => match width {
                Width::Z => {
                    let opcode = op(Map::M0F3A, Pp::P66, 0x1B, true);
                    self.asm.vector(opcode, Length::L512, a, None, Rm::Reg(dst), Some(1));
                }
                Width::Y => {
                    let opcode = op(Map::M0F3A, Pp::P66, 0x19, false);
                    self.asm.vector(opcode, Length::L256, a, None, Rm::Reg(dst), Some(1));
                }
                Width::X => {
                    let opcode = op(Map::M0F3A, Pp::P66, 0x05, true);
                    self.asm.vector(opcode, Length::L128, dst, None, Rm::Reg(a), Some(1));
                }
                Width::Half | Width::Scalar => {
                    let opcode = op(Map::M0F, Pp::F3, 0x16, false);
                    self.asm.vector(opcode, Length::L128, dst, None, Rm::Reg(a), None);
                }
            },
        }
    }
}

/// float16 to float32.
const OF_F16: Opcode = Opcode { map: Map::M0F38, pp: Pp::P66, byte: 0x13, w: false, vex_w: false };
/// Rounding to nearest, of two the even one.
const NEAREST: u8 = 0;

/// Multiplication and addition into the register of the sum: `dst += a * b`.
const ACC: u8 = 0xB8;
/// Into that of a factor: `dst = dst * a + b`.
const FACTOR: u8 = 0xA8;

fn fma(form: u8, elem: Elem, width: Width) -> Opcode {
    let byte = form + u8::from(width == Width::Scalar);
    let w = elem == Elem::F64;
    Opcode { map: Map::M0F38, pp: Pp::P66, byte, w, vex_w: w }
}
