//! Encodes single instructions as bytes.
//!
//! Vector instructions share one form, with a VEX or EVEX prefix, and differ in four numbers, so that an instruction
//! for all widths is one line of [`super::instructions`]. (An assembler crate has a name for every combination of width
//! and prefix instead; the tests use one as an independent decoder.)
//!
//! ```text
//! EVEX  62  R X B R' 0 m m m   W v v v v 1 p p   z L L b V' a a a   opcode  modrm [sib] [disp8*N | disp32] [imm8]
//! VEX   C4  R X B m m m m m    W v v v v L p p                      opcode  modrm [sib] [disp8 | disp32]   [imm8]
//! ```
//! Register numbers in the prefixes are inverted.

use crate::codegen::wide::code::Elem;

/// The encoding of vector instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// VEX: two or three operands, 16 registers, up to 256 bits.
    Vex,
    /// EVEX: 32 registers, mask registers, up to 512 bits.
    Evex,
}

/// The opcode map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Map {
    M0F = 1,
    M0F38 = 2,
    M0F3A = 3,
    /// Of float16, with EVEX.
    M5 = 5,
}

/// The mandatory prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pp {
    None = 0,
    P66 = 1,
    F3 = 2,
    F2 = 3,
}

/// A vector instruction without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opcode {
    pub map: Map,
    pub pp: Pp,
    pub byte: u8,
    /// The W bit of EVEX.
    pub w: bool,
    /// The W bit of VEX, if it differs: only FMA uses it.
    pub vex_w: bool,
}

/// Vector length: 128, 256 or 512 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Length {
    L128 = 0,
    L256 = 1,
    L512 = 2,
}

/// A general register by its number: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 ….
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gpr(pub u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RDI: Gpr = Gpr(7);

/// The operand that may be in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rm<'a> {
    Reg(u8),
    /// Base, displacement, and the unit of short displacements with EVEX: the number of accessed bytes.
    Mem(Gpr, i32, u8),
    /// Base, and a vector register with the index of each lane, in units of four bytes.
    Lanes(Gpr, u8),
    /// A constant behind the code; see [`Asm::place_constants`].
    Constant(u64, Elem),
    /// Bytes behind the code, all or the lower half of which the instruction reads.
    Bytes(&'a [u8]),
}

/// The mask register of an EVEX instruction; register 0 means no mask.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Mask {
    pub register: u8,
    /// Whether unmasked lanes are cleared instead of kept.
    pub zeroing: bool,
}

/// The bytes so far.
pub(super) struct Asm {
    pub bytes: Vec<u8>,
    /// The encoding of vector instructions.
    pub form: Form,
    /// Displacements of constants to fill in: position, bits and lane type.
    pub constants: Vec<(usize, u64, Elem)>,
    /// Displacements of tables to fill in: position and bytes.
    pub tables: Vec<(usize, Vec<u8>)>,
}

impl Asm {
    /// A vector instruction with operands `reg`, `vvvv` (0 if absent) and `rm`.
    pub(super) fn vector(
        &mut self,
        op: Opcode,
        length: Length,
        reg: u8,
        vvvv: Option<u8>,
        rm: Rm<'_>,
        imm: Option<u8>,
    ) {
        self.masked(op, length, reg, vvvv, rm, imm, Mask::default());
    }

    /// A vector instruction under a mask register, with EVEX.
    #[expect(clippy::too_many_arguments, reason = "they are the fields of an instruction")]
    pub(super) fn masked(
        &mut self,
        op: Opcode,
        length: Length,
        reg: u8,
        vvvv: Option<u8>,
        rm: Rm<'_>,
        imm: Option<u8>,
        mask: Mask,
    ) {
        // The highest bit of a vector of indices is where that of the second operand would be.
        let v = match rm {
            Rm::Lanes(_, indices) if self.form == Form::Evex => indices & 16,
            _ => vvvv.unwrap_or(0),
        };
        let (rm_low, rm_high) = match rm {
            Rm::Reg(r) => (r >> 3 & 1, r >> 4 & 1),
            Rm::Mem(base, ..) => (base.0 >> 3 & 1, 0),
            Rm::Lanes(base, indices) => (base.0 >> 3 & 1, indices >> 3 & 1),
            Rm::Constant(..) | Rm::Bytes(_) => (0, 0),
        };
        match self.form {
            Form::Evex => {
                let p0 = inverted(reg >> 3, 7) | inverted(rm_high, 6) | inverted(rm_low, 5) | inverted(reg >> 4, 4);
                let p1 = (u8::from(op.w) << 7) | ((!v & 15) << 3) | 4 | op.pp as u8;
                let zeroing = u8::from(mask.zeroing) << 7;
                let p2 = zeroing | ((length as u8) << 5) | inverted(v >> 4, 3) | mask.register;
                self.bytes.extend([0x62, p0 | op.map as u8, p1, p2]);
            }
            Form::Vex => {
                let p0 = inverted(reg >> 3, 7) | inverted(rm_high, 6) | inverted(rm_low, 5) | op.map as u8;
                let p1 = (u8::from(op.vex_w) << 7) | ((!v & 15) << 3) | ((length as u8) << 2) | op.pp as u8;
                self.bytes.extend([0xC4, p0, p1]);
            }
        }
        self.bytes.push(op.byte);
        self.operand(reg, rm);
        self.bytes.extend(imm);
    }

    fn operand(&mut self, reg: u8, rm: Rm<'_>) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.bytes.push(0xC0 | reg | (r & 7)),
            Rm::Mem(base, disp, scale) => {
                let unit = match self.form {
                    Form::Evex => i32::from(scale),
                    Form::Vex => 1,
                };
                let short = (disp % unit == 0).then(|| i8::try_from(disp / unit).ok()).flatten();
                self.address(reg, base, disp, short);
            }
            Rm::Lanes(base, indices) => {
                // A displacement of 0, since rbp and r13 have no form without one.
                const SCALE_4: u8 = 0x80;
                self.bytes.extend([0x44 | reg, SCALE_4 | (indices & 7) << 3 | (base.0 & 7), 0]);
            }
            Rm::Constant(bits, elem) => {
                // The displacement is relative to the end of the instruction; instructions that read constants have no
                // immediate operand.
                self.bytes.push(0x05 | reg);
                self.constants.push((self.bytes.len(), bits, elem));
                self.bytes.extend([0; 4]);
            }
            Rm::Bytes(table) => {
                self.bytes.push(0x05 | reg);
                self.tables.push((self.bytes.len(), table.to_vec()));
                self.bytes.extend([0; 4]);
            }
        }
    }

    fn address(&mut self, reg: u8, base: Gpr, disp: i32, short: Option<i8>) {
        let low = base.0 & 7;
        // rbp and r13 have no form without displacement.
        let mode = match short {
            Some(0) if low != 5 => 0x00,
            Some(_) => 0x40,
            None => 0x80,
        };
        self.bytes.push(mode | reg | low);
        // rsp and r12 need a second byte.
        if low == 4 {
            self.bytes.push(0x24);
        }
        match (mode, short) {
            (0x40, Some(d)) => self.bytes.push(d as u8),
            (0x80, _) => self.bytes.extend(disp.to_le_bytes()),
            _ => {}
        }
    }

    /// An instruction on mask registers, with one or two sources: 16 bits, or 64.
    pub(super) fn mask(&mut self, opcode: u8, dst: u8, a: Option<u8>, b: u8, is_long: bool) {
        let two = u8::from(a.is_some());
        let p1 = (u8::from(is_long) << 7) | ((!a.unwrap_or(0) & 15) << 3) | (two << 2);
        self.bytes.extend([0xC4, 0xE1, p1, opcode, 0xC0 | (dst << 3) | b]);
    }

    /// `kunpckbw dst, high, low`.
    pub(super) fn join_masks(&mut self, dst: u8, high: u8, low: u8) {
        self.bytes.extend([0xC4, 0xE1, ((!high & 15) << 3) | 5, 0x4B, 0xC0 | (dst << 3) | low]);
    }

    /// `kshiftrw dst, src, by`.
    pub(super) fn shift_mask(&mut self, dst: u8, src: u8, by: u8) {
        self.bytes.extend([0xC4, 0xE3, 0xF9, 0x30, 0xC0 | (dst << 3) | src, by]);
    }

    /// `kmovw dst, src`: the low 16 bits of a general register.
    pub(super) fn load_mask(&mut self, dst: u8, src: Gpr) {
        let high = inverted(src.0 >> 3, 5);
        self.bytes.extend([0xC4, 0xC1 | high, 0x78, 0x92, 0xC0 | (dst << 3) | (src.0 & 7)]);
    }

    /// `kmovq dst, src`: a general register.
    pub(super) fn load_long_mask(&mut self, dst: u8, src: Gpr) {
        let high = inverted(src.0 >> 3, 5);
        self.bytes.extend([0xC4, 0xC1 | high, 0xFB, 0x92, 0xC0 | (dst << 3) | (src.0 & 7)]);
    }

    /// Appends the constants to the code, each once, and fills in their displacements.
    pub(super) fn place_constants(&mut self) {
        let mut places: Vec<(u64, Elem, usize)> = Vec::new();
        for (at, bits, elem) in std::mem::take(&mut self.constants) {
            let known = places.iter().find(|p| (p.0, p.1.bytes()) == (bits, elem.bytes())).map(|p| p.2);
            let place = known.unwrap_or_else(|| {
                while !self.bytes.len().is_multiple_of(elem.bytes()) {
                    self.bytes.push(0xCC);
                }
                let place = self.bytes.len();
                self.bytes.extend(&bits.to_le_bytes()[..elem.bytes()]);
                places.push((bits, elem, place));
                place
            });
            self.refer(at, place);
        }
        let mut tables: Vec<(Vec<u8>, usize)> = Vec::new();
        for (at, table) in std::mem::take(&mut self.tables) {
            let known = tables.iter().find(|t| t.0 == table).map(|t| t.1);
            let place = known.unwrap_or_else(|| {
                let place = self.bytes.len().next_multiple_of(table.len());
                self.bytes.resize(place, 0x90);
                self.bytes.extend(&table);
                tables.push((table, place));
                place
            });
            self.refer(at, place);
        }
    }

    /// Fills in a displacement, relative to the end of its instruction.
    fn refer(&mut self, at: usize, place: usize) {
        let distance = place as i32 - (at as i32 + 4);
        self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    // ---- general registers ---------------------------------------------------------------------------------

    /// `mov dst, [base + disp]`, 64 bits.
    pub(super) fn load(&mut self, dst: Gpr, base: Gpr, disp: i32) {
        self.bytes.extend([0x48 | (dst.0 >> 3 << 2) | (base.0 >> 3), 0x8B]);
        self.address((dst.0 & 7) << 3, base, disp, i8::try_from(disp).ok());
    }

    /// `movsxd dst, [base + disp]`: an `int32`, as 64 bits.
    pub(super) fn load_int(&mut self, dst: Gpr, base: Gpr, disp: i32) {
        self.bytes.extend([0x48 | (dst.0 >> 3 << 2) | (base.0 >> 3), 0x63]);
        self.address((dst.0 & 7) << 3, base, disp, i8::try_from(disp).ok());
    }

    /// `imul dst, dst, by`, 64 bits.
    pub(super) fn multiply(&mut self, dst: Gpr, by: i32) {
        let high = dst.0 >> 3;
        self.bytes.extend([0x48 | (high << 2) | high, 0x69, 0xC0 | (dst.0 & 7) << 3 | (dst.0 & 7)]);
        self.bytes.extend(by.to_le_bytes());
    }

    /// `lea dst, [base + dst * 2^scale]`.
    pub(super) fn add_scaled(&mut self, dst: Gpr, base: Gpr, scale: u8) {
        let high = dst.0 >> 3;
        self.bytes.extend([0x48 | (high << 2) | (high << 1) | (base.0 >> 3), 0x8D]);
        // A displacement of 0, since rbp and r13 have no form without one.
        self.bytes.extend([0x44 | (dst.0 & 7) << 3, scale << 6 | (dst.0 & 7) << 3 | (base.0 & 7), 0]);
    }

    /// `prefetcht0 [base + disp]`, or `prefetchw`.
    pub(super) fn prefetch(&mut self, base: Gpr, disp: i32, writes: bool) {
        if base.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.extend([0x0F, if writes { 0x0D } else { 0x18 }]);
        self.address(1 << 3, base, disp, i8::try_from(disp).ok());
    }

    /// `mov dst, imm`, 64 bits.
    pub(super) fn set(&mut self, dst: Gpr, value: u64) {
        match u32::try_from(value) {
            Ok(small) => {
                if dst.0 >= 8 {
                    self.bytes.push(0x41);
                }
                self.bytes.push(0xB8 | (dst.0 & 7));
                self.bytes.extend(small.to_le_bytes());
            }
            Err(_) => {
                self.bytes.extend([0x48 | (dst.0 >> 3), 0xB8 | (dst.0 & 7)]);
                self.bytes.extend(value.to_le_bytes());
            }
        }
    }

    /// `add dst, imm`, 64 bits.
    pub(super) fn add(&mut self, dst: Gpr, value: i32) {
        self.bytes.push(0x48 | (dst.0 >> 3));
        match i8::try_from(value) {
            Ok(short) => self.bytes.extend([0x83, 0xC0 | (dst.0 & 7), short as u8]),
            Err(_) => {
                self.bytes.extend([0x81, 0xC0 | (dst.0 & 7)]);
                self.bytes.extend(value.to_le_bytes());
            }
        }
    }

    /// `lea rdi, [src + plus]`.
    pub(super) fn sum(&mut self, src: Gpr, plus: i32) {
        self.bytes.extend([0x48 | (src.0 >> 3), 0x8D]);
        self.address(RDI.0 << 3, src, plus, i8::try_from(plus).ok());
    }

    /// `lea rdi, [src + plus]`, then `sar rdi, 63`: all ones if the sum is negative, else zero.
    pub(super) fn sign(&mut self, src: Gpr, plus: i32) {
        self.sum(src, plus);
        self.bytes.extend([0x48, 0xC1, 0xF8 | RDI.0, 63]);
    }

    /// `dec dst`, then a jump back to `target` unless it is zero.
    pub(super) fn count_down(&mut self, dst: Gpr, target: usize) {
        self.bytes.extend([0x48 | (dst.0 >> 3), 0xFF, 0xC8 | (dst.0 & 7)]);
        let end = self.bytes.len() + 6;
        self.bytes.extend([0x0F, 0x85]);
        // Regions are much shorter than the range of a jump.
        self.bytes.extend((target as i32 - end as i32).to_le_bytes());
    }

    pub(super) fn push(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x50 | (r.0 & 7));
    }

    pub(super) fn pop(&mut self, r: Gpr) {
        if r.0 >= 8 {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x58 | (r.0 & 7));
    }

    /// Clears the upper halves of the registers, so that the caller may use legacy instructions without delay, and
    /// returns.
    pub(super) fn leave(&mut self) {
        self.bytes.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }

    /// Pads with nops to a multiple of `to` bytes.
    pub(super) fn align(&mut self, to: usize) {
        const NOPS: [&[u8]; 8] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0F, 0x1F, 0x00],
            &[0x0F, 0x1F, 0x40, 0x00],
            &[0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x66, 0x0F, 0x1F, 0x44, 0x00, 0x00],
            &[0x0F, 0x1F, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0F, 0x1F, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut missing = self.bytes.len().next_multiple_of(to) - self.bytes.len();
        while missing > 0 {
            let n = missing.min(NOPS.len());
            self.bytes.extend(NOPS[n - 1]);
            missing -= n;
        }
    }
}

fn inverted(bit: u8, position: u8) -> u8 {
    (!bit & 1) << position
}
