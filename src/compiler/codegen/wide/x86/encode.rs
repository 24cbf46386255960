//! Encodes vector code as x86-64 instructions.
//!
//! A region is a function of one pointer, to its arguments of 8 bytes each. It keeps pointers in general registers, in
//! the order of their first use, which the loops advance, and one counter per running loop; it uses no other state.

use super::asm::{Asm, Form, Gpr, Length, Mask, Opcode, RAX, RDI, Rm};
use super::instructions::*;
use crate::codegen::wide::code::{
    Code, Elem, Inst, Lookup, LoopId, Mem, Memory, Op1, Op2, Shift16, StreamId, VReg, Width,
};
use crate::ir::CmpOp;
use hashbrown::HashMap;

/// General registers in the order of allocation. The last six are callee-saved.
pub(super) const GPRS: [Gpr; 14] =
    [RAX, Gpr(1), Gpr(2), Gpr(6), Gpr(8), Gpr(9), Gpr(10), Gpr(11), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];
/// Number of registers that need not be saved.
const SCRATCH_GPRS: usize = 8;
/// Alignment of loops in bytes.
const LOOP_ALIGN: usize = 32;

/// The bytes of a region; `None` if it needs too many general registers.
pub(super) fn encode(code: &Code, registers: &[u8], form: Form, vector_bytes: usize) -> Option<Vec<u8>> {
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
            form,
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
    for (i, stream) in code.streams.iter().enumerate().filter(|(_, s)| s.lookup.is_none()) {
        encoder.asm.load(GPRS[i], RDI, i32::try_from(stream.slot * 8).ok()?);
    }
    code.insts.iter().try_for_each(|inst| encoder.inst(inst))?;
    saved.iter().rev().for_each(|&r| encoder.asm.pop(r));
    encoder.asm.leave();
    encoder.asm.place_constants();
    Some(encoder.asm.bytes)
}

/// Maximum nesting of loops.
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
    /// The length of whole registers.
    whole: Length,
    /// The running loops, with their start positions.
    loops: Vec<(LoopId, usize)>,
    extents: HashMap<LoopId, i64>,
}

/// The load of a whole vector, a half or a scalar.
fn load_op(elem: Elem, width: Width) -> Opcode {
    match (width, elem) {
        // Four bytes are as wide as a scalar.
        (Width::Scalar, Elem::F32 | Elem::I32 | Elem::I8 | Elem::U8) => VMOVSS_LOAD,
        (Width::Scalar, Elem::F64 | Elem::I64) | (Width::Half, _) => VMOVSD_LOAD,
        _ => VMOVUPS_LOAD,
    }
}

/// The store of a whole vector, a half or a scalar.
fn store_op(elem: Elem, width: Width) -> Opcode {
    match (width, elem) {
        (Width::Scalar, Elem::F32 | Elem::I32 | Elem::I8 | Elem::U8) => VMOVSS_STORE,
        (Width::Scalar, Elem::F64 | Elem::I64) | (Width::Half, _) => VMOVSD_STORE,
        _ => VMOVUPS_STORE,
    }
}

fn length(width: Width) -> Length {
    match width {
        Width::Scalar | Width::Half | Width::X => Length::L128,
        Width::Y => Length::L256,
        Width::Z => Length::L512,
    }
}

/// Number of accessed bytes.
fn bytes(elem: Elem, width: Width) -> u8 {
    width.bytes().unwrap_or(elem.bytes().max(4)) as u8
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
                self.asm.vector(load_op(elem, width), length(width), self.reg(dst), None, rm, None);
            }
            Inst::Store { src, mem, elem, width } => {
                let rm = self.mem(mem, bytes(elem, width));
                self.asm.vector(store_op(elem, width), length(width), self.reg(src), None, rm, None);
            }
            Inst::LoadNarrow { dst, mask, mem, memory, width } => {
                self.load_narrow(self.reg(dst), mask, mem, memory, width);
            }
            Inst::StoreNarrow { src, mask, mem, memory, width } => {
                self.store_narrow(self.reg(src), mask, mem, memory, width);
            }
            Inst::StoreLow { src, mem, bytes } => self.store_low(self.reg(src), mem, bytes),
            Inst::LoadMasked { dst, mask, mem, elem, width } => {
                self.masked_move(self.reg(dst), mask, mem, elem, width, false);
            }
            Inst::StoreMasked { src, mask, mem, elem, width } => {
                self.masked_move(self.reg(src), mask, mem, elem, width, true);
            }
            Inst::Gather { acc, mask, indices, mem, width } => {
                // The region's address is that of the first element.
                if mem.disp != 0 {
                    return None;
                }
                let rm = Rm::Lanes(self.gpr(mem.stream), self.reg(indices));
                let (acc, mask) = (self.reg(acc), self.reg(mask));
                match self.asm.form {
                    Form::Evex => {
                        let mask = Mask { register: mask, zeroing: false };
                        self.asm.masked(VGATHERDPS, length(width), acc, None, rm, None, mask);
                    }
                    Form::Vex => self.asm.vector(VGATHERDPS, length(width), acc, Some(mask), rm, None),
                }
            }
            // `kunpckbw` takes the upper half first.
            Inst::JoinMasks { dst, low, high } => {
                self.asm.join_masks(self.reg(dst), self.reg(high), self.reg(low));
            }
            Inst::UpperMask { dst, a } => self.asm.shift_mask(self.reg(dst), self.reg(a), 8),
            Inst::Lanes { dst, bits, elem } => self.lanes(self.reg(dst), bits, elem),
            Inst::LoadAllNarrow { dst, mem, memory, width } => {
                self.load_all_narrow(self.reg(dst), mem, memory, width);
            }
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
            Inst::Unary { op: Op1::LongToFloat | Op1::FloatToLong, .. } if self.asm.form == Form::Vex => return None,
            Inst::Unary { op, dst, a, elem, width } => self.unary(op, dst, a, elem, width),
            Inst::Binary { op: o @ (Op2::EvenChunks | Op2::OddChunks), dst, a, b, width, .. } => {
                // The selection of the result's chunks: two bits (one, for 256 bits) or four for each.
                let is_even = o == Op2::EvenChunks;
                let (opcode, which) = match (self.asm.form, width) {
                    (Form::Evex, Width::Z) => (VSHUFF32X4, if is_even { 0x88 } else { 0xDD }),
                    (Form::Evex, Width::Y) => (VSHUFF32X4, if is_even { 0x00 } else { 0x03 }),
                    (Form::Vex, Width::Y) => (VPERM2F128, if is_even { 0x20 } else { 0x31 }),
                    _ => return None,
                };
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(a)), rm, Some(which));
            }
            Inst::Binary { op: o, dst, a, b, elem, width } => {
                let opcode = match (elem, o) {
                    (_, Op2::And) => VPAND,
                    (_, Op2::Or) => VPOR,
                    (_, Op2::Xor) => VPXOR,
                    (Elem::I8 | Elem::U8, Op2::Add) => VPADDB,
                    (Elem::I8 | Elem::U8, Op2::Sub) => VPSUBB,
                    (Elem::I8, Op2::Min) => VPMINSB,
                    (Elem::I8, Op2::Max) => VPMAXSB,
                    (Elem::U8, Op2::Min) => VPMINUB,
                    (Elem::U8, Op2::Max) => VPMAXUB,
                    (Elem::I8 | Elem::U8, Op2::LowLanes) => VPUNPCKLBW,
                    (Elem::I8 | Elem::U8, Op2::HighLanes) => VPUNPCKHBW,
                    (_, Op2::LowWords) => VPUNPCKLWD,
                    (_, Op2::HighWords) => VPUNPCKHWD,
                    (_, Op2::PackBf16) if self.asm.form == Form::Vex => return None,
                    (_, Op2::PackBf16) => VCVTNE2PS2BF16,
                    (_, Op2::MulWords) => VPMULLW,
                    (Elem::I16 | Elem::U16, Op2::Add) => VPADDW,
                    (Elem::I16 | Elem::U16, Op2::Sub) => VPSUBW,
                    (Elem::I16 | Elem::U16, Op2::Mul) => VPMULLW,
                    (Elem::I16, Op2::Min) => VPMINSW,
                    (Elem::I16, Op2::Max) => VPMAXSW,
                    (Elem::U16, Op2::Min) => VPMINUW,
                    (Elem::U16, Op2::Max) => VPMAXUW,
                    (Elem::I16 | Elem::U16 | Elem::I64, Op2::ShiftLeft | Op2::ShiftRight)
                        if self.asm.form == Form::Vex =>
                    {
                        return None;
                    }
                    (Elem::I16 | Elem::U16, Op2::ShiftLeft) => VPSLLVW,
                    (Elem::I16, Op2::ShiftRight) => VPSRAVW,
                    (Elem::U16, Op2::ShiftRight) => VPSRLVW,
                    (Elem::I64, Op2::ShiftLeft) => VPSLLVQ,
                    (Elem::I64, Op2::ShiftRight) => VPSRAVQ,
                    (Elem::F16, Op2::Min) => VMINPH,
                    (Elem::F16, Op2::Max) => VMAXPH,
                    (Elem::I8 | Elem::U8 | Elem::I16 | Elem::U16 | Elem::F16 | Elem::BF16, _) => return None,
                    (Elem::I64, Op2::Div) => return None,
                    (Elem::I64, Op2::Add) => VPADDQ,
                    (Elem::I64, Op2::Sub) => VPSUBQ,
                    (Elem::I64, Op2::Mul | Op2::Min | Op2::Max) if self.asm.form == Form::Vex => return None,
                    (Elem::I64, Op2::Mul) => VPMULLQ,
                    (Elem::I64, Op2::Min) => VPMINSQ,
                    (Elem::I64, Op2::Max) => VPMAXSQ,
                    (_, Op2::ShiftLeft) => VPSLLVD,
                    (_, Op2::ShiftRight) => VPSRAVD,
                    (_, Op2::LowLanes) => VUNPCKL.of(elem, width),
                    (_, Op2::HighLanes) => VUNPCKH.of(elem, width),
                    (_, Op2::EvenChunks | Op2::OddChunks) => return None,
                    (Elem::I32, Op2::Add) => VPADDD,
                    (Elem::I32, Op2::Sub) => VPSUBD,
                    (Elem::I32, Op2::Mul) => VPMULLD,
                    (Elem::I32, Op2::Min) => VPMINSD,
                    (Elem::I32, Op2::Max) => VPMAXSD,
                    (_, Op2::Pack32) => VPACKUSDW,
                    (_, Op2::Pack16) => VPACKUSWB,
                    (_, Op2::MulPairs) => VPMADDWD,
                    (Elem::I32, Op2::Div) => return None,
                    (_, Op2::Add) => VADD.of(elem, width),
                    (_, Op2::Mul) => VMUL.of(elem, width),
                    (_, Op2::Sub) => VSUB.of(elem, width),
                    (_, Op2::Min) => VMIN.of(elem, width),
                    (_, Op2::Div) => VDIV.of(elem, width),
                    (_, Op2::Max) => VMAX.of(elem, width),
                };
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(a)), rm, None);
            }
            Inst::Fma { acc, a, b, elem, width } => {
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(VFMADD231.of(elem, width), length(width), self.reg(acc), Some(self.reg(a)), rm, None);
            }
            Inst::FmaMem { acc, a, b, elem, width } => {
                let rm = self.mem(b, bytes(elem, width));
                self.asm.vector(VFMADD231.of(elem, width), length(width), self.reg(acc), Some(self.reg(a)), rm, None);
            }
            Inst::MulAdd { dst, a, b, c, elem, width } => {
                let [dst, a, b, c] = [dst, a, b, c].map(|v| self.reg(v));
                // The result replaces the sum or a factor, whichever has its register.
                let (form, x, y) = match dst {
                    _ if dst == c => (VFMADD231, a, b),
                    _ if dst == a => (VFMADD213, b, c),
                    _ if dst == b => (VFMADD213, a, c),
                    _ => {
                        self.copy(dst, c);
                        (VFMADD231, a, b)
                    }
                };
                self.asm.vector(form.of(elem, width), length(width), dst, Some(x), Rm::Reg(y), None);
            }
            Inst::Shift { dst, a, left, by, width } => {
                let opcode = SHIFT_DWORDS;
                let form = if left { 6 } else { 4 };
                let rm = Rm::Reg(self.reg(a));
                self.asm.vector(opcode, length(width), form, Some(self.reg(dst)), rm, Some(by));
            }
            Inst::Dot4 { acc, a, b, width } => {
                let (opcode, rm) = (VPDPBUSD, Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(acc), Some(self.reg(a)), rm, None);
            }
            Inst::ShiftByte { dst, a, kind, width } => {
                let form = match kind {
                    Shift16::Right => 2,
                    Shift16::Signed => 4,
                    Shift16::Left => 6,
                };
                let (opcode, rm) = (SHIFT_WORDS, Rm::Reg(self.reg(a)));
                self.asm.vector(opcode, length(width), form, Some(self.reg(dst)), rm, Some(8));
            }
            Inst::Compare { op, dst, a, b, elem, width } => {
                self.compare(op, self.reg(dst), self.reg(a), self.reg(b), elem, length(width))?;
            }
            Inst::ExtremeMasked { acc, mask, op: o, mem, width } => {
                let rm = self.mem(mem, bytes(Elem::F32, width));
                self.extreme_masked(acc, mask, o, rm, width)?;
            }
            Inst::ExtremeSome { acc, mask, op: o, b, width } => {
                let rm = Rm::Reg(self.reg(b));
                self.extreme_masked(acc, mask, o, rm, width)?;
            }
            Inst::Align { dst, low, high, by, mask, width } => {
                let (dst, high, rm) = (self.reg(dst), Some(self.reg(high)), Rm::Reg(self.reg(low)));
                match mask {
                    Some(mask) => {
                        let mask = Mask { register: self.reg(mask), zeroing: true };
                        self.asm.masked(VALIGND, length(width), dst, high, rm, Some(by), mask);
                    }
                    None => self.asm.vector(VALIGND, length(width), dst, high, rm, Some(by)),
                }
            }
            Inst::MaskBinary { op: o, dst, a, b } => {
                let opcode = match o {
                    Op2::And => 0x41,
                    Op2::Or => 0x45,
                    Op2::Xor => 0x47,
                    _ => return None,
                };
                self.asm.mask(opcode, self.reg(dst), Some(self.reg(a)), self.reg(b), self.code.has_long_masks);
            }
            Inst::MaskNot { dst, a } => {
                self.asm.mask(0x44, self.reg(dst), None, self.reg(a), self.code.has_long_masks);
            }
            Inst::Select { dst, mask, then, otherwise, elem, width } => {
                let (dst, otherwise, rm) = (self.reg(dst), Some(self.reg(otherwise)), Rm::Reg(self.reg(then)));
                let (mask, is_double) = (self.reg(mask), elem.bytes() == 8);
                if self.asm.form == Form::Evex {
                    let opcode = match elem.bytes() {
                        1 => VPBLENDMB,
                        2 => VPBLENDMW,
                        8 => VBLENDMPD,
                        _ => VBLENDMPS,
                    };
                    let mask = Mask { register: mask, zeroing: false };
                    self.asm.masked(opcode, length(width), dst, otherwise, rm, None, mask);
                } else {
                    let opcode = if is_double { VBLENDVPD } else { VBLENDVPS };
                    self.asm.vector(opcode, length(width), dst, otherwise, rm, Some(mask << 4));
                }
            }
            Inst::Point { stream } => self.point(stream)?,
            Inst::Sign { dst, stream, plus } => self.sign(self.reg(dst), self.gpr(stream), plus),
            Inst::Counted { dst, stream, plus } => self.counted(self.reg(dst), self.gpr(stream), plus),
            Inst::Indices { dst, lanes } => {
                let opcode = VPMOVZXBD;
                self.asm.vector(opcode, self.whole, self.reg(dst), None, Rm::Bytes(&lanes.to_le_bytes()), None);
            }
            Inst::Table { dst, table } => {
                let lanes: Vec<u8> = self.code.tables[table as usize].iter().flat_map(|v| v.to_le_bytes()).collect();
                let opcode = VMOVUPS_LOAD;
                self.asm.vector(opcode, self.whole, self.reg(dst), None, Rm::Bytes(&lanes), None);
            }
            Inst::Permute { dst, indices, a, width } => {
                let (opcode, rm) = (VPERMD, Rm::Reg(self.reg(a)));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(indices)), rm, None);
            }
            Inst::PermuteBytes { dst, indices, a, width } => {
                let rm = Rm::Reg(self.reg(a));
                self.asm.vector(VPERMB, length(width), self.reg(dst), Some(self.reg(indices)), rm, None);
            }
            Inst::Permute2Bytes { acc, indices, b, width } => {
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(VPERMT2B, length(width), self.reg(acc), Some(self.reg(indices)), rm, None);
            }
            Inst::PermuteWords { dst, indices, a, width } => {
                let rm = Rm::Reg(self.reg(a));
                self.asm.vector(VPERMW, length(width), self.reg(dst), Some(self.reg(indices)), rm, None);
            }
            Inst::Permute2Words { acc, indices, b, width } => {
                let rm = Rm::Reg(self.reg(b));
                self.asm.vector(VPERMT2W, length(width), self.reg(acc), Some(self.reg(indices)), rm, None);
            }
            Inst::Permute2 { acc, indices, b, width } => {
                let (opcode, rm) = (VPERMT2D, Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(acc), Some(self.reg(indices)), rm, None);
            }
            Inst::Permute2Some { acc, mask, indices, b, width } => {
                let mask = Mask { register: self.reg(mask), zeroing: true };
                let (acc, indices, rm) = (self.reg(acc), self.reg(indices), Rm::Reg(self.reg(b)));
                self.asm.masked(VPERMT2D, length(width), acc, Some(indices), rm, None, mask);
            }
            Inst::Blend { dst, a, b, mask, width } => {
                let (opcode, rm) = (VPBLENDD, Rm::Reg(self.reg(b)));
                self.asm.vector(opcode, length(width), self.reg(dst), Some(self.reg(a)), rm, Some(mask));
            }
            Inst::InsertChunk { dst, a, mem, chunk, width } => {
                let rm = self.mem(mem, 16);
                self.asm.vector(VINSERTF128, length(width), self.reg(dst), Some(self.reg(a)), rm, Some(chunk));
            }
            Inst::Move { dst, src } => self.copy(self.reg(dst), self.reg(src)),
            Inst::Prefetch { mem, writes } => self.asm.prefetch(self.gpr(mem.stream), mem.disp, writes),
        }
        Some(())
    }

    /// The minimum or maximum of float32 in the lanes whose mask is set.
    fn extreme_masked(&mut self, acc: VReg, mask: VReg, o: Op2, rm: Rm<'_>, width: Width) -> Option<()> {
        let opcode = match o {
            Op2::Min => VMIN,
            Op2::Max => VMAX,
            _ => return None,
        };
        let (acc, mask) = (self.reg(acc), Mask { register: self.reg(mask), zeroing: false });
        self.asm.masked(opcode.of(Elem::F32, Width::X), length(width), acc, Some(acc), rm, None, mask);
        Some(())
    }

    /// A load or a store of the lanes whose mask is set.
    fn masked_move(&mut self, reg: u8, mask: VReg, mem: Mem, elem: Elem, width: Width, is_store: bool) {
        let (is_double, mask) = (elem.bytes() == 8, self.reg(mask));
        let rm = self.mem(mem, bytes(elem, width));
        match self.asm.form {
            Form::Evex => {
                let opcode = match (is_store, elem.bytes()) {
                    (false, 1) => VMOVDQU8_LOAD,
                    (false, 2) => VMOVDQU16_LOAD,
                    (false, 8) => VMOVUPD_LOAD,
                    (false, _) => VMOVUPS_LOAD,
                    (true, 1) => VMOVDQU8_STORE,
                    (true, 2) => VMOVDQU16_STORE,
                    (true, 8) => VMOVUPD_STORE,
                    (true, _) => VMOVUPS_STORE,
                };
                let zeroing = !is_store;
                self.asm.masked(opcode, length(width), reg, None, rm, None, Mask { register: mask, zeroing });
            }
            Form::Vex => {
                let opcode = match (is_store, is_double) {
                    (false, false) => VMASKMOVPS_LOAD,
                    (false, true) => VMASKMOVPD_LOAD,
                    (true, false) => VMASKMOVPS_STORE,
                    (true, true) => VMASKMOVPD_STORE,
                };
                self.asm.vector(opcode, length(width), reg, Some(mask), rm, None);
            }
        }
    }

    /// The mask with these bits: a mask register, or lanes of all ones.
    fn lanes(&mut self, dst: u8, bits: u64, elem: Elem) {
        if self.asm.form == Form::Evex {
            self.asm.set(RAX, bits);
            match u16::try_from(bits) {
                Ok(_) => self.asm.load_mask(dst, RAX),
                Err(_) => self.asm.load_long_mask(dst, RAX),
            }
        } else {
            // One byte per lane, which is sign-extended.
            let bits = (0..8).filter(|i| bits >> i & 1 == 1).fold(0u64, |bytes, i| bytes | 0xff << (8 * i));
            let opcode = if elem.bytes() == 8 { VPMOVSXBQ } else { VPMOVSXBD };
            let rm = Rm::Constant(bits, Elem::F64);
            self.asm.vector(opcode, Length::L256, dst, None, rm, None);
        }
    }

    /// All ones if the sum is negative, in a mask register or in every lane.
    fn sign(&mut self, dst: u8, counted: Gpr, plus: i32) {
        // The pointer to the arguments has been read, so its register is free.
        self.asm.sign(counted, plus);
        if self.asm.form == Form::Evex {
            match self.code.has_long_masks {
                true => self.asm.load_long_mask(dst, RDI),
                false => self.asm.load_mask(dst, RDI),
            }
        } else {
            let to_vector = VMOVQ;
            self.asm.vector(to_vector, Length::L128, dst, None, Rm::Reg(RDI.0), None);
            self.broadcast(dst, Rm::Reg(dst), Elem::F64, self.whole);
        }
    }

    /// The sum in every 32-bit lane.
    fn counted(&mut self, dst: u8, counted: Gpr, plus: i32) {
        self.asm.sum(counted, plus);
        if self.asm.form == Form::Evex {
            let opcode = VPBROADCASTD;
            self.asm.vector(opcode, self.whole, dst, None, Rm::Reg(RDI.0), None);
        } else {
            self.asm.vector(VMOVD, Length::L128, dst, None, Rm::Reg(RDI.0), None);
            self.broadcast(dst, Rm::Reg(dst), Elem::I32, self.whole);
        }
    }

    fn copy(&mut self, dst: u8, src: u8) {
        if dst != src {
            let opcode = VMOVAPS;
            self.asm.vector(opcode, self.whole, dst, None, Rm::Reg(src), None);
        }
    }

    /// A mask; lanes outside the vector are undefined.
    fn compare(&mut self, o: CmpOp, dst: u8, a: u8, b: u8, elem: Elem, length: Length) -> Option<()> {
        let is_long = elem == Elem::I64;
        if elem.bytes() < 4 && !(matches!(elem, Elem::I16 | Elem::U16) && self.asm.form == Form::Evex) {
            return None;
        }
        if !elem.is_int() {
            // Ordered and quiet predicates, except for `Ne`, which holds for NaN.
            let predicate = match o {
                CmpOp::Eq => 0x00,
                CmpOp::Ne => 0x04,
                CmpOp::Lt => 0x11,
                CmpOp::Le => 0x12,
                CmpOp::Gt => 0x1E,
                CmpOp::Ge => 0x1D,
            };
            let opcode = VCMP.of(elem, Width::X);
            self.asm.vector(opcode, length, dst, Some(a), Rm::Reg(b), Some(predicate));
        } else if self.asm.form == Form::Evex {
            let predicate = match o {
                CmpOp::Eq => 0,
                CmpOp::Lt => 1,
                CmpOp::Le => 2,
                CmpOp::Ne => 4,
                CmpOp::Ge => 5,
                CmpOp::Gt => 6,
            };
            let opcode = match elem {
                Elem::I64 => VPCMPQ,
                Elem::I16 => VPCMPW,
                Elem::U16 => VPCMPUW,
                _ => VPCMPD,
            };
            self.asm.vector(opcode, length, dst, Some(a), Rm::Reg(b), Some(predicate));
        } else {
            let (opcode, a, b) = match o {
                CmpOp::Eq => (if is_long { VPCMPEQQ } else { VPCMPEQD }, a, b),
                CmpOp::Gt => (if is_long { VPCMPGTQ } else { VPCMPGTD }, a, b),
                CmpOp::Lt => (if is_long { VPCMPGTQ } else { VPCMPGTD }, b, a),
                CmpOp::Ne | CmpOp::Le | CmpOp::Ge => return None,
            };
            self.asm.vector(opcode, length, dst, Some(a), Rm::Reg(b), None);
        }
        Some(())
    }

    fn load_narrow(&mut self, dst: u8, mask: Option<VReg>, mem: Mem, memory: Memory, width: Width) {
        let (lanes, length) = (bytes(Elem::I32, width) as usize / 4, length(width));
        let n = (lanes * memory.bytes()) as u8;
        let mut source = self.mem(mem, n);
        if matches!(width, Width::Half | Width::Scalar) {
            // No bytes outside the buffer may be read: the elements go through a register.
            self.load_low(dst, mem, n);
            source = Rm::Reg(dst);
        }
        let widen = match memory {
            Memory::U8 => VPMOVZXBD,
            Memory::I8 => VPMOVSXBD,
            Memory::U16 | Memory::BF16 => VPMOVZXWD,
            Memory::I16 => VPMOVSXWD,
            Memory::F16 => VCVTPH2PS,
        };
        match mask {
            None => self.asm.vector(widen, length, dst, None, source, None),
            Some(mask) => {
                let mask = Mask { register: self.reg(mask), zeroing: true };
                self.asm.masked(widen, length, dst, None, source, None, mask);
            }
        }
        if memory == Memory::BF16 {
            self.asm.vector(SHIFT_DWORDS, length, 6, Some(dst), Rm::Reg(dst), Some(16));
        }
    }

    /// Loads a narrow element into all lanes: it is repeated at its own width, then all are converted.
    fn load_all_narrow(&mut self, dst: u8, mem: Mem, memory: Memory, width: Width) {
        let (rm, length) = (self.mem(mem, memory.bytes() as u8), length(width));
        let source = match length {
            Length::L512 if memory.bytes() == 2 => Length::L256,
            _ => Length::L128,
        };
        let widen = match memory {
            Memory::BF16 => {
                self.asm.vector(VPBROADCASTW, length, dst, None, rm, None);
                return self.asm.vector(SHIFT_DWORDS, length, 6, Some(dst), Rm::Reg(dst), Some(16));
            }
            Memory::U8 => VPMOVZXBD,
            Memory::I8 => VPMOVSXBD,
            Memory::U16 => VPMOVZXWD,
            Memory::I16 => VPMOVSXWD,
            Memory::F16 => VCVTPH2PS,
        };
        let repeat = if memory.bytes() == 1 { VPBROADCASTB } else { VPBROADCASTW };
        self.asm.vector(repeat, source, dst, None, rm, None);
        self.asm.vector(widen, length, dst, None, Rm::Reg(dst), None);
    }

    /// Loads one, two or four bytes into the start of a register.
    fn load_low(&mut self, dst: u8, mem: Mem, n: u8) {
        let rm = self.mem(mem, n);
        match n {
            1 => {
                self.zero(dst);
                self.asm.vector(VPINSRB, Length::L128, dst, Some(dst), rm, Some(0));
            }
            2 => {
                self.zero(dst);
                self.asm.vector(VPINSRW, Length::L128, dst, Some(dst), rm, Some(0));
            }
            _ => self.asm.vector(VMOVD, Length::L128, dst, None, rm, None),
        }
    }

    fn store_narrow(&mut self, src: u8, mask: Option<VReg>, mem: Mem, memory: Memory, width: Width) {
        let n = (bytes(Elem::I32, width) as usize / 4 * memory.bytes()) as u8;
        // Displacements are in units of the register, which may be longer than its lanes in use.
        let unit = if memory == Memory::BF16 && mask.is_some() { n.max(16) } else { n };
        let rm = self.mem(mem, unit);
        let (opcode, length, imm) = match memory {
            Memory::U8 | Memory::I8 => (VPMOVDB, length(width), None),
            Memory::U16 | Memory::I16 => (VPMOVDW, length(width), None),
            Memory::F16 => (VCVTPS2PH, length(width), Some(NEAREST)),
            Memory::BF16 if mask.is_some() => (VMOVDQU16_STORE, length(width.half()), None),
            Memory::BF16 => (store_op(Elem::I32, width.half()), length(width.half()), None),
        };
        match mask {
            None => self.asm.vector(opcode, length, src, None, rm, imm),
            Some(mask) => {
                let mask = Mask { register: self.reg(mask), zeroing: false };
                self.asm.masked(opcode, length, src, None, rm, imm, mask);
            }
        }
    }

    fn store_low(&mut self, src: u8, mem: Mem, n: u8) {
        let rm = self.mem(mem, n);
        let (opcode, imm) = match n {
            1 => (VPEXTRB, Some(0)),
            2 => (VPEXTRW, Some(0)),
            4 => (VMOVSS_STORE, None),
            8 => (VMOVSD_STORE, None),
            _ => (VMOVUPS_STORE, None),
        };
        self.asm.vector(opcode, Length::L128, src, None, rm, imm);
    }

    /// The end of a loop: pointers advance, and after the last iteration return to their initial values.
    fn end(&mut self, l: LoopId) -> Option<()> {
        let (_, start) = self.loops.pop()?;
        let extent = self.extents.get(&l).copied()?;
        let code = self.code;
        let steps =
            |s: &crate::codegen::wide::code::Stream| s.steps.iter().find(|(m, _)| *m == l).map(|&(_, step)| step);
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

    /// A pointer that follows from another one and an element of memory.
    fn point(&mut self, stream: StreamId) -> Option<()> {
        let Lookup { from, element, unit, .. } = self.code.streams[stream.0 as usize].lookup?;
        let dst = self.gpr(stream);
        self.asm.load_int(dst, self.gpr(element.stream), element.disp);
        let scale = match unit {
            1 | 2 | 4 | 8 => unit.trailing_zeros() as u8,
            _ => {
                self.asm.multiply(dst, unit);
                0
            }
        };
        self.asm.add_scaled(dst, self.gpr(from), scale);
        Some(())
    }

    fn broadcast(&mut self, dst: u8, rm: Rm<'_>, elem: Elem, length: Length) {
        match (elem, length) {
            (Elem::F64 | Elem::I64, Length::L128) => {
                // movddup: there is no broadcast of two lanes.
                let rm = match rm {
                    Rm::Mem(base, disp, _) => Rm::Mem(base, disp, 8),
                    other => other,
                };
                self.asm.vector(VMOVDDUP, length, dst, None, rm, None);
            }
            (Elem::F64 | Elem::I64, _) => self.asm.vector(VBROADCASTSD, length, dst, None, rm, None),
            (Elem::I16 | Elem::U16 | Elem::F16 | Elem::BF16, _) => {
                self.asm.vector(VPBROADCASTW, length, dst, None, rm, None);
            }
            (Elem::I8 | Elem::U8, _) => self.asm.vector(VPBROADCASTB, length, dst, None, rm, None),
            _ => self.asm.vector(VBROADCASTSS, length, dst, None, rm, None),
        }
    }

    fn constant(&mut self, dst: u8, bits: u64, elem: Elem) {
        let is_wide = elem.bytes() == 8;
        if bits == 0 {
            return self.zero(dst);
        }
        self.asm.set(RAX, bits);
        if self.asm.form == Form::Evex {
            let opcode = if is_wide { VPBROADCASTQ } else { VPBROADCASTD };
            self.asm.vector(opcode, self.whole, dst, None, Rm::Reg(RAX.0), None);
        } else {
            let to_vector = if is_wide { VMOVQ } else { VMOVD };
            self.asm.vector(to_vector, Length::L128, dst, None, Rm::Reg(RAX.0), None);
            self.broadcast(dst, Rm::Reg(dst), elem, self.whole);
        }
    }

    /// Exclusive or with itself; the 128-bit form clears the whole register.
    fn zero(&mut self, dst: u8) {
        let opcode = VPXOR;
        self.asm.vector(opcode, Length::L128, dst, Some(dst), Rm::Reg(dst), None);
    }

    fn unary(&mut self, o: Op1, dst: VReg, a: VReg, elem: Elem, width: Width) {
        let (dst, a) = (self.reg(dst), self.reg(a));
        match o {
            Op1::Sqrt => {
                let source = (width == Width::Scalar).then_some(a);
                self.asm.vector(VSQRT.of(elem, width), length(width), dst, source, Rm::Reg(a), None);
            }
            Op1::Round(to) => {
                let is_double = elem.bytes() == 8;
                let opcode = if is_double { VROUNDPD } else { VROUNDPS };
                self.asm.vector(opcode, length(width), dst, None, Rm::Reg(a), Some(to as u8));
            }
            Op1::Convert => {
                self.asm.vector(VCVTDQ2PS, length(width), dst, None, Rm::Reg(a), None);
            }
            Op1::Truncate => {
                self.asm.vector(VCVTTPS2DQ, length(width), dst, None, Rm::Reg(a), None);
            }
            Op1::RoundToInt => {
                self.asm.vector(VCVTPS2DQ, length(width), dst, None, Rm::Reg(a), None);
            }
            Op1::Widen => self.asm.vector(VPMOVSXDQ, length(width), dst, None, Rm::Reg(a), None),
            Op1::LongToFloat => self.asm.vector(VCVTQQ2PS, length(width), dst, None, Rm::Reg(a), None),
            Op1::IntToDouble => self.asm.vector(VCVTDQ2PD, length(width), dst, None, Rm::Reg(a), None),
            Op1::FloatToDouble => self.asm.vector(VCVTPS2PD, length(width), dst, None, Rm::Reg(a), None),
            Op1::DoubleToFloat => self.asm.vector(VCVTPD2PS, length(width), dst, None, Rm::Reg(a), None),
            Op1::DoubleToInt => self.asm.vector(VCVTTPD2DQ, length(width), dst, None, Rm::Reg(a), None),
            Op1::FloatToLong => self.asm.vector(VCVTTPS2QQ, length(width), dst, None, Rm::Reg(a), None),
            Op1::ToF16 => {
                // The source is in the place of other instructions' destination.
                let opcode = VCVTPS2PH;
                self.asm.vector(opcode, length(width), a, None, Rm::Reg(dst), Some(NEAREST));
            }
            Op1::FromF16 => self.asm.vector(VCVTPH2PS, length(width), dst, None, Rm::Reg(a), None),
            Op1::ToBf16 => self.asm.vector(VCVTNEPS2BF16, length(width), dst, None, Rm::Reg(a), None),
            Op1::FromBf16 => {
                self.asm.vector(VPMOVZXWD, length(width), dst, None, Rm::Reg(a), None);
                self.asm.vector(SHIFT_DWORDS, length(width), 6, Some(dst), Rm::Reg(dst), Some(16));
            }
            Op1::Broadcast => self.broadcast(dst, Rm::Reg(a), elem, length(width)),
            Op1::UpperHalf => match width {
                Width::Z => {
                    let opcode = VEXTRACTF64X4;
                    self.asm.vector(opcode, Length::L512, a, None, Rm::Reg(dst), Some(1));
                }
                Width::Y => {
                    let opcode = VEXTRACTF128;
                    self.asm.vector(opcode, Length::L256, a, None, Rm::Reg(dst), Some(1));
                }
                Width::X => {
                    let opcode = VPERMILPD;
                    self.asm.vector(opcode, Length::L128, dst, None, Rm::Reg(a), Some(1));
                }
                Width::Half | Width::Scalar => {
                    let opcode = VMOVSHDUP;
                    self.asm.vector(opcode, Length::L128, dst, None, Rm::Reg(a), None);
                }
            },
        }
    }
}

/// Rounding to nearest, halves to even.
const NEAREST: u8 = 0;
