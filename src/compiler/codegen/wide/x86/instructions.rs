//! The vector instructions of region code, by mnemonic.
//!
//! The VEX and EVEX forms of an instruction have the same four numbers, and so one entry, under the VEX mnemonic if the
//! two differ (`vpand` is `vpandd` with EVEX). The tests decode every instruction with an independent decoder.

use super::asm::{Map, Opcode, Pp};
use crate::codegen::wide::code::{Elem, Width};

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident $map:ident $prefix:ident $byte:literal $(w $w:literal)? $(vex_w $vex_w:literal)?;)*) => {
        $(
            $(#[$doc])*
            pub(super) const $name: Opcode = Opcode {
                map: Map::$map,
                pp: Pp::$prefix,
                byte: $byte,
                w: 0 $(+ $w)? == 1,
                vex_w: 0 $(+ $vex_w)? == 1,
            };
        )*
    };
}

instructions! {
    // mnemonic        map    prefix byte
    VPAND              M0F    P66    0xDB;
    VPOR               M0F    P66    0xEB;
    VPXOR              M0F    P66    0xEF;
    VPADDD             M0F    P66    0xFE;
    VPSUBD             M0F    P66    0xFA;
    VPADDB             M0F    P66    0xFC;
    VPSUBB             M0F    P66    0xF8;
    VPMINSB            M0F38  P66    0x38;
    VPMAXSB            M0F38  P66    0x3C;
    VPMINUB            M0F    P66    0xDA;
    VPMAXUB            M0F    P66    0xDE;
    VPADDW             M0F    P66    0xFD;
    VPSUBW             M0F    P66    0xF9;
    VPMINSW            M0F    P66    0xEA;
    VPMAXSW            M0F    P66    0xEE;
    VPMINUW            M0F38  P66    0x3A;
    VPMAXUW            M0F38  P66    0x3E;
    VMINPH             M5     None   0x5D;
    VMAXPH             M5     None   0x5F;
    VPBROADCASTB       M0F38  P66    0x78;
    VPBROADCASTW       M0F38  P66    0x79;
    VPERMB             M0F38  P66    0x8D;
    VPERMT2B           M0F38  P66    0x7D;
    VPERMW             M0F38  P66    0x8D w 1;
    VPERMT2W           M0F38  P66    0x7D w 1;
    VPADDQ             M0F    P66    0xD4 w 1;
    VPSUBQ             M0F    P66    0xFB w 1;
    VPMULLQ            M0F38  P66    0x40 w 1;
    VPMINSQ            M0F38  P66    0x39 w 1;
    VPMAXSQ            M0F38  P66    0x3D w 1;
    VPMOVSXDQ          M0F38  P66    0x25;
    VCVTQQ2PS          M0F    None   0x5B w 1;
    VCVTTPS2QQ         M0F    P66    0x7A;
    VPMULLD            M0F38  P66    0x40;
    VPMINSD            M0F38  P66    0x39;
    VPMAXSD            M0F38  P66    0x3D;
    VPSLLVD            M0F38  P66    0x47;
    VPSRAVD            M0F38  P66    0x46;
    VPSLLVQ            M0F38  P66    0x47 w 1;
    VPSRAVQ            M0F38  P66    0x46 w 1;
    VPSLLVW            M0F38  P66    0x12 w 1;
    VPSRAVW            M0F38  P66    0x11 w 1;
    VPSRLVW            M0F38  P66    0x10 w 1;
    VPACKUSDW          M0F38  P66    0x2B;
    VPACKUSWB          M0F    P66    0x67;
    VPMADDWD           M0F    P66    0xF5;
    VPMULLW            M0F    P66    0xD5;
    VPDPBUSD           M0F38  P66    0x50;
    /// `vpslld` with 6 in the register field, `vpsrad` with 4.
    SHIFT_DWORDS       M0F    P66    0x72;
    /// `vpsllw` with 6 in the register field, `vpsraw` with 4, `vpsrlw` with 2.
    SHIFT_WORDS        M0F    P66    0x71;
    VSHUFF32X4         M0F3A  P66    0x23;
    VPERM2F128         M0F3A  P66    0x06;
    /// `vinsertf32x4` with EVEX.
    VINSERTF128        M0F3A  P66    0x18;
    VPUNPCKLBW         M0F    P66    0x60;
    VPUNPCKLWD         M0F    P66    0x61;
    VPUNPCKHBW         M0F    P66    0x68;
    VPUNPCKHWD         M0F    P66    0x69;
    VALIGND            M0F3A  P66    0x03;
    VPERMD             M0F38  P66    0x36;
    VPERMT2D           M0F38  P66    0x7E;
    VPERMILPD          M0F3A  P66    0x05 w 1;
    VPBLENDD           M0F3A  P66    0x02;
    /// By a mask of bytes, with EVEX.
    VPBLENDMB          M0F38  P66    0x66;
    /// By a mask of 16-bit lanes, with EVEX.
    VPBLENDMW          M0F38  P66    0x66 w 1;
    VBLENDMPS          M0F38  P66    0x65;
    VBLENDMPD          M0F38  P66    0x65 w 1;
    VBLENDVPS          M0F3A  P66    0x4A;
    VBLENDVPD          M0F3A  P66    0x4B;
    VGATHERDPS         M0F38  P66    0x92;
    VMASKMOVPS_LOAD    M0F38  P66    0x2C;
    VMASKMOVPD_LOAD    M0F38  P66    0x2D;
    VMASKMOVPS_STORE   M0F38  P66    0x2E;
    VMASKMOVPD_STORE   M0F38  P66    0x2F;
    VMOVUPS_LOAD       M0F    None   0x10;
    VMOVUPS_STORE      M0F    None   0x11;
    VMOVUPD_LOAD       M0F    P66    0x10 w 1;
    VMOVUPD_STORE      M0F    P66    0x11 w 1;
    VMOVSS_LOAD        M0F    F3     0x10;
    VMOVSS_STORE       M0F    F3     0x11;
    VMOVSD_LOAD        M0F    F2     0x10 w 1;
    VMOVSD_STORE       M0F    F2     0x11 w 1;
    VMOVAPS            M0F    None   0x28;
    VMOVDDUP           M0F    F2     0x12 w 1;
    VMOVSHDUP          M0F    F3     0x16;
    /// From a general register, or memory, to the low lane.
    VMOVD              M0F    P66    0x6E;
    VMOVQ              M0F    P66    0x6E w 1 vex_w 1;
    VPINSRB            M0F3A  P66    0x20;
    VPINSRW            M0F    P66    0xC4;
    VPEXTRB            M0F3A  P66    0x14;
    VPEXTRW            M0F3A  P66    0x15;
    VEXTRACTF128       M0F3A  P66    0x19;
    VEXTRACTF64X4      M0F3A  P66    0x1B w 1;
    VBROADCASTSS       M0F38  P66    0x18;
    VBROADCASTSD       M0F38  P66    0x19 w 1;
    /// From a general register, with EVEX.
    VPBROADCASTD       M0F38  P66    0x7C;
    VPBROADCASTQ       M0F38  P66    0x7C w 1;
    VPMOVZXBD          M0F38  P66    0x31;
    VPMOVSXBD          M0F38  P66    0x21;
    VPMOVSXBQ          M0F38  P66    0x22;
    VPMOVZXWD          M0F38  P66    0x33;
    VPMOVSXWD          M0F38  P66    0x23;
    /// 32-bit lanes to bytes in memory, with EVEX.
    VPMOVDB            M0F38  F3     0x31;
    VPMOVDW            M0F38  F3     0x33;
    VCVTPH2PS          M0F38  P66    0x13;
    VCVTPS2PH          M0F3A  P66    0x1D;
    VCVTNEPS2BF16      M0F38  F3     0x72;
    VCVTNE2PS2BF16     M0F38  F2     0x72;
    /// Bytes under a mask, with EVEX.
    VMOVDQU8_LOAD      M0F    F2     0x6F;
    VMOVDQU8_STORE     M0F    F2     0x7F;
    /// 16-bit lanes under a mask, with EVEX.
    VMOVDQU16_LOAD     M0F    F2     0x6F w 1;
    VMOVDQU16_STORE    M0F    F2     0x7F w 1;
    VCVTDQ2PS          M0F    None   0x5B;
    VCVTTPS2DQ         M0F    F3     0x5B;
    /// Rounds as the control register says, which is to the nearest integer in all that is generated.
    VCVTPS2DQ          M0F    P66    0x5B;
    VCVTDQ2PD          M0F    F3     0xE6;
    VCVTTPD2DQ         M0F    P66    0xE6 w 1;
    VCVTPS2PD          M0F    None   0x5A;
    VCVTPD2PS          M0F    P66    0x5A w 1;
    VROUNDPS           M0F3A  P66    0x08;
    VROUNDPD           M0F3A  P66    0x09 w 1;
    /// Comparisons of integers into a mask register, with EVEX.
    VPCMPD             M0F3A  P66    0x1F;
    VPCMPQ             M0F3A  P66    0x1F w 1;
    VPCMPW             M0F3A  P66    0x3F w 1;
    VPCMPUW            M0F3A  P66    0x3E w 1;
    VPCMPEQQ           M0F38  P66    0x29;
    VPCMPGTQ           M0F38  P66    0x37;
    VPCMPEQD           M0F    P66    0x76;
    VPCMPGTD           M0F    P66    0x66;
}

/// Instructions with a form for each float type and for scalars, such as `vaddps`, `vaddpd`, `vaddss`, `vaddsd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Family(u8);

pub(super) const VUNPCKL: Family = Family(0x14);
pub(super) const VUNPCKH: Family = Family(0x15);
pub(super) const VSQRT: Family = Family(0x51);
pub(super) const VADD: Family = Family(0x58);
pub(super) const VMUL: Family = Family(0x59);
pub(super) const VSUB: Family = Family(0x5C);
pub(super) const VMIN: Family = Family(0x5D);
pub(super) const VDIV: Family = Family(0x5E);
pub(super) const VMAX: Family = Family(0x5F);
pub(super) const VCMP: Family = Family(0xC2);

impl Family {
    /// The form for a type and a width.
    pub(super) fn of(self, elem: Elem, width: Width) -> Opcode {
        let (pp, w) = match (elem, width) {
            (Elem::F64, Width::Scalar) => (Pp::F2, true),
            (Elem::F64, _) => (Pp::P66, true),
            (_, Width::Scalar) => (Pp::F3, false),
            _ => (Pp::None, false),
        };
        Opcode { map: Map::M0F, pp, byte: self.0, w, vex_w: false }
    }
}

/// Fused multiply-add, by the operand that the result replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FmaFamily(u8);

/// `dst = a * b + dst`.
pub(super) const VFMADD231: FmaFamily = FmaFamily(0xB8);
/// `dst = dst * a + b`.
pub(super) const VFMADD213: FmaFamily = FmaFamily(0xA8);

impl FmaFamily {
    /// The form for a type and a width.
    pub(super) fn of(self, elem: Elem, width: Width) -> Opcode {
        let w = elem == Elem::F64;
        let byte = self.0 + u8::from(width == Width::Scalar);
        Opcode { map: Map::M0F38, pp: Pp::P66, byte, w, vex_w: w }
    }
}
