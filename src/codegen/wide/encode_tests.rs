//! Bytes of single instructions, as GNU `as` has them.

use super::code::{Class, Code, Elem, Inst, Mem, Memory, Op1, Op2, Rounding, Shift16, Stream, StreamId, VReg, Width};
use super::encode::encode;
use crate::ir::CmpOp;
use smallvec::SmallVec;

/// Checks the bytes of an instruction whose registers have the numbers given, in the order of [`VReg`]s.
fn check(evex: bool, inst: Inst, registers: &[u8], expected: &str) {
    let classes = vec![Class::Vector; registers.len()];
    let code = Code { insts: vec![inst], classes, ..Code::default() };
    let bytes = encode(&code, registers, evex, if evex { 64 } else { 32 }).expect("it can be encoded");
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    // Every function ends with `vzeroupper; ret`.
    assert_eq!(hex.join(" "), format!("{expected} c5 f8 77 c3"), "{inst:?}");
}

/// The same of an instruction with one register that accesses memory at rax.
fn check_in_memory(evex: bool, inst: Inst, register: u8, expected: &str) {
    let streams = vec![Stream { slot: 0, steps: SmallVec::new() }];
    let code = Code { insts: vec![inst], classes: vec![Class::Vector], streams, ..Code::default() };
    let bytes = encode(&code, &[register], evex, if evex { 64 } else { 32 }).expect("it can be encoded");
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    // Every function loads its pointers first.
    assert_eq!(hex.join(" "), format!("48 8b 07 {expected} c5 f8 77 c3"), "{inst:?}");
}

const D: VReg = VReg(0);
const A: VReg = VReg(1);
const B: VReg = VReg(2);
const C: VReg = VReg(3);

#[test]
fn evex_instructions() {
    let (f32, f64, i32) = (Elem::F32, Elem::F64, Elem::I32);
    let (x, y, z) = (Width::X, Width::Y, Width::Z);
    let compare = |op, elem, width| Inst::Compare { op, dst: D, a: A, b: B, elem, width };
    check(true, compare(CmpOp::Lt, f32, z), &[3, 17, 2], "62 f1 74 40 c2 da 11");
    check(true, compare(CmpOp::Ne, f64, y), &[7, 30, 9], "62 d1 8d 20 c2 f9 04");
    check(true, compare(CmpOp::Gt, i32, z), &[1, 4, 29], "62 93 5d 48 1f cd 06");
    let select = |elem, width| Inst::Select { dst: D, mask: A, then: B, otherwise: C, elem, width };
    check(true, select(f32, z), &[20, 5, 31, 1], "62 82 75 4d 65 e7");
    check(true, select(f64, y), &[3, 2, 4, 19], "62 f2 e5 22 65 dc");
    check(true, Inst::MaskBinary { op: Op2::And, dst: D, a: A, b: B }, &[1, 2, 7], "c4 e1 6c 41 cf");
    check(true, Inst::MaskBinary { op: Op2::Or, dst: D, a: A, b: B }, &[6, 5, 4], "c4 e1 54 45 f4");
    check(true, Inst::MaskNot { dst: D, a: A }, &[3, 1], "c4 e1 78 44 d9");
    let shift = |left, by, width| Inst::Shift { dst: D, a: A, left, by, width };
    check(true, shift(true, 23, z), &[18, 25], "62 91 6d 40 72 f1 17");
    check(true, shift(false, 23, x), &[7, 30], "62 91 45 08 72 e6 17");
    let round = |to, elem, width| Inst::Unary { op: Op1::Round(to), dst: D, a: A, elem, width };
    check(true, round(Rounding::Down, f32, z), &[21, 13], "62 c3 7d 48 08 ed 01");
    check(true, round(Rounding::Truncate, f64, y), &[2, 22], "62 b3 fd 28 09 d6 03");
    let binary = |op, width| Inst::Binary { op, dst: D, a: A, b: B, elem: i32, width };
    check(true, binary(Op2::And, z), &[16, 2, 31], "62 81 6d 48 db c7");
    check(true, binary(Op2::Or, y), &[1, 17, 3], "62 f1 75 20 eb cb");
    let shuffle = |op, elem, width| Inst::Binary { op, dst: D, a: A, b: B, elem, width };
    check(true, shuffle(Op2::LowLanes, f32, z), &[16, 2, 31], "62 81 6c 48 14 c7");
    check(true, shuffle(Op2::HighLanes, f64, z), &[1, 17, 3], "62 f1 f5 40 15 cb");
    check(true, shuffle(Op2::HighLanes, i32, y), &[1, 17, 3], "62 f1 74 20 15 cb");
    check(true, shuffle(Op2::EvenChunks, f64, z), &[16, 2, 31], "62 83 6d 48 23 c7 88");
    check(true, shuffle(Op2::OddChunks, f32, y), &[1, 17, 3], "62 f3 75 20 23 cb 03");
    let mul_add = |elem, width| Inst::MulAdd { dst: D, a: A, b: B, c: C, elem, width };
    check(true, mul_add(f32, z), &[8, 8, 24, 1], "62 72 3d 40 a8 c1");
    check(true, mul_add(f64, Width::Scalar), &[1, 2, 1, 19], "62 b2 ed 08 a9 cb");
}

#[test]
fn vex_instructions() {
    let (f32, f64, i32) = (Elem::F32, Elem::F64, Elem::I32);
    let (x, y) = (Width::X, Width::Y);
    let compare = |op, elem, width| Inst::Compare { op, dst: D, a: A, b: B, elem, width };
    check(false, compare(CmpOp::Gt, f32, y), &[3, 12, 2], "c4 e1 1c c2 da 1e");
    check(false, compare(CmpOp::Eq, i32, x), &[9, 1, 15], "c4 41 71 76 cf");
    check(false, compare(CmpOp::Lt, i32, y), &[2, 4, 3], "c4 e1 65 66 d4");
    let select = |elem| Inst::Select { dst: D, mask: A, then: B, otherwise: C, elem, width: y };
    check(false, select(f32), &[1, 14, 13, 2], "c4 c3 6d 4a cd e0");
    check(false, select(f64), &[8, 4, 3, 2], "c4 63 6d 4b c3 40");
    let shift = |left, by, width| Inst::Shift { dst: D, a: A, left, by, width };
    check(false, shift(true, 23, y), &[8, 11], "c4 c1 3d 72 f3 17");
    check(false, shift(false, 5, y), &[1, 2], "c4 e1 75 72 e2 05");
    let round = Inst::Unary { op: Op1::Round(Rounding::Up), dst: D, a: A, elem: f32, width: y };
    check(false, round, &[4, 12], "c4 c3 7d 08 e4 02");
    let xor = Inst::Binary { op: Op2::Xor, dst: D, a: A, b: B, elem: i32, width: y };
    check(false, xor, &[1, 8, 9], "c4 c1 3d ef c9");
    let shuffle = |op, elem| Inst::Binary { op, dst: D, a: A, b: B, elem, width: y };
    check(false, shuffle(Op2::HighLanes, f32), &[1, 8, 9], "c4 c1 3c 15 c9");
    check(false, shuffle(Op2::LowLanes, f64), &[1, 8, 9], "c4 c1 3d 14 c9");
    check(false, shuffle(Op2::EvenChunks, f32), &[1, 8, 9], "c4 c3 3d 06 c9 20");
    check(false, shuffle(Op2::OddChunks, i32), &[15, 1, 12], "c4 43 75 06 fc 31");
    let mul_add = Inst::MulAdd { dst: D, a: A, b: B, c: C, elem: f32, width: y };
    check(false, mul_add, &[8, 4, 8, 1], "c4 62 5d a8 c1");
}

#[test]
fn bytes_and_conversions_with_evex() {
    let (x, y, z) = (Width::X, Width::Y, Width::Z);
    let dot = |width| Inst::Dot4 { acc: D, a: A, b: B, width };
    let shift = |kind, width| Inst::ShiftByte { dst: D, a: A, kind, width };
    let binary = |op, width| Inst::Binary { op, dst: D, a: A, b: B, elem: Elem::I32, width };
    let unary = |op, width| Inst::Unary { op, dst: D, a: A, elem: Elem::F32, width };
    check(true, dot(z), &[3, 17, 30], "62 92 75 40 50 de");
    check(true, dot(y), &[9, 1, 18], "62 32 75 28 50 ca");
    check(true, shift(Shift16::Right, y), &[18, 5], "62 f1 6d 20 71 d5 08");
    check(true, shift(Shift16::Signed, z), &[1, 20], "62 b1 75 48 71 e4 08");
    check(true, shift(Shift16::Left, x), &[9, 31], "62 91 35 08 71 f7 08");
    check(true, binary(Op2::MulPairs, z), &[2, 19, 7], "62 f1 65 40 f5 d7");
    check(true, binary(Op2::Pack32, x), &[1, 2, 29], "62 92 6d 08 2b cd");
    check(true, binary(Op2::Pack16, x), &[17, 2, 9], "62 c1 6d 08 67 c9");
    check(true, unary(Op1::Truncate, z), &[4, 25], "62 91 7e 48 5b e1");
    check(true, unary(Op1::ToF16, z), &[16, 3], "62 b3 7d 48 1d d8 00");
    check(true, unary(Op1::OfF16, z), &[5, 22], "62 b2 7d 48 13 ee");
}

#[test]
fn bytes_and_conversions_with_vex() {
    let (x, y) = (Width::X, Width::Y);
    let dot = |width| Inst::Dot4 { acc: D, a: A, b: B, width };
    let shift = |kind, width| Inst::ShiftByte { dst: D, a: A, kind, width };
    let binary = |op, width| Inst::Binary { op, dst: D, a: A, b: B, elem: Elem::I32, width };
    let unary = |op, width| Inst::Unary { op, dst: D, a: A, elem: Elem::F32, width };
    check(false, dot(y), &[3, 12, 9], "c4 c2 1d 50 d9");
    check(false, shift(Shift16::Signed, y), &[8, 11], "c4 c1 3d 71 e3 08");
    check(false, binary(Op2::MulPairs, y), &[2, 9, 7], "c4 e1 35 f5 d7");
    check(false, binary(Op2::Pack32, x), &[1, 2, 13], "c4 c2 69 2b cd");
    check(false, binary(Op2::Pack16, x), &[10, 2, 9], "c4 41 69 67 d1");
    check(false, unary(Op1::Truncate, y), &[4, 15], "c4 c1 7e 5b e7");
    check(false, unary(Op1::ToF16, y), &[11, 3], "c4 c3 7d 1d db 00");
    check(false, unary(Op1::OfF16, y), &[5, 12], "c4 c2 7d 13 ec");
}

#[test]
fn narrow_elements_in_memory_with_evex() {
    let (x, y, z) = (Width::X, Width::Y, Width::Z);
    let at = |disp| Mem { stream: StreamId(0), disp };
    let load = |disp, memory, width| Inst::LoadNarrow { dst: D, mem: at(disp), memory, width };
    let store = |disp, memory, width| Inst::StoreNarrow { src: D, mem: at(disp), memory, width };
    let low = |disp, bytes| Inst::StoreLow { src: D, mem: at(disp), bytes };
    check_in_memory(true, load(48, Memory::U8, z), 21, "62 e2 7d 48 31 68 03");
    check_in_memory(true, load(16, Memory::I8, y), 2, "62 f2 7d 28 21 50 02");
    check_in_memory(true, load(64, Memory::U16, z), 3, "62 f2 7d 48 33 58 02");
    check_in_memory(true, load(8, Memory::I16, x), 30, "62 62 7d 08 23 70 01");
    check_in_memory(true, load(32, Memory::F16, y), 17, "62 e2 7d 28 13 48 02");
    check_in_memory(true, load(0, Memory::BF16, z), 3, "62 f2 7d 48 33 18 62 f1 65 48 72 f3 10");
    check_in_memory(
        true,
        load(3, Memory::U8, Width::Scalar),
        5,
        "62 f1 55 08 ef ed 62 f3 55 08 20 68 03 00 62 f2 7d 08 31 ed",
    );
    check_in_memory(
        true,
        load(2, Memory::I8, Width::Half),
        20,
        "62 a1 5d 00 ef e4 62 e1 5d 00 c4 60 01 00 62 a2 7d 08 21 e4",
    );
    check_in_memory(true, load(4, Memory::I16, Width::Half), 4, "62 f1 7d 08 6e 60 01 62 f2 7d 08 23 e4");
    check_in_memory(true, store(16, Memory::I8, z), 20, "62 e2 7e 48 31 60 01");
    check_in_memory(true, store(32, Memory::U16, z), 1, "62 f2 7e 48 33 48 01");
    check_in_memory(true, store(32, Memory::F16, z), 30, "62 63 7d 48 1d 70 01 00");
    check_in_memory(true, low(1, 1), 3, "62 f3 7d 08 14 58 01 00");
    check_in_memory(true, low(2, 2), 19, "62 e3 7d 08 15 58 01 00");
    check_in_memory(true, low(4, 4), 3, "62 f1 7e 08 11 58 01");
    check_in_memory(true, low(8, 8), 3, "62 f1 ff 08 11 58 01");
    check_in_memory(true, low(16, 16), 18, "62 e1 7c 08 11 50 01");
}

#[test]
fn narrow_elements_in_memory_with_vex() {
    let y = Width::Y;
    let at = |disp| Mem { stream: StreamId(0), disp };
    let load = |disp, memory, width| Inst::LoadNarrow { dst: D, mem: at(disp), memory, width };
    let store = |disp, memory, width| Inst::StoreNarrow { src: D, mem: at(disp), memory, width };
    let low = |disp, bytes| Inst::StoreLow { src: D, mem: at(disp), bytes };
    check_in_memory(false, load(8, Memory::U8, y), 12, "c4 62 7d 31 60 08");
    check_in_memory(
        false,
        load(6, Memory::F16, Width::Scalar),
        9,
        "c4 41 31 ef c9 c4 61 31 c4 48 06 00 c4 42 79 13 c9",
    );
    check_in_memory(false, store(16, Memory::F16, y), 3, "c4 e3 7d 1d 58 10 00");
    check_in_memory(false, low(1, 1), 13, "c4 63 79 14 68 01 00");
    check_in_memory(false, low(6, 2), 3, "c4 e3 79 15 58 06 00");
}

#[test]
fn constants_lie_behind_the_code() {
    let load = |dst, bits, elem| Inst::LoadConst { dst, bits, elem };
    let code = Code {
        insts: vec![
            load(A, 0x3f80_0000, Elem::F32),
            load(B, 0x4000_0000_0000_0000, Elem::F64),
            load(C, 0x3f80_0000, Elem::F32),
        ],
        classes: vec![Class::Vector; 4],
        ..Code::default()
    };
    let bytes = encode(&code, &[0, 5, 9, 3], false, 32).expect("it can be encoded");
    let expected = [
        0xC4, 0xE2, 0x7D, 0x18, 0x2D, 0x17, 0, 0, 0, // vbroadcastss ymm5, [rip + 0x17]
        0xC4, 0x62, 0x7D, 0x19, 0x0D, 0x16, 0, 0, 0, // vbroadcastsd ymm9, [rip + 0x16]
        0xC4, 0xE2, 0x7D, 0x18, 0x1D, 0x05, 0, 0, 0, // vbroadcastss ymm3, [rip + 0x5]
        0xC5, 0xF8, 0x77, 0xC3, 0xCC, // vzeroupper; ret; padding
    ];
    assert_eq!(bytes[..32], expected);
    // 32: the float; 40: the double.
    assert_eq!(bytes[32..36], [0x00, 0x00, 0x80, 0x3F]);
    assert_eq!(bytes[40..48], 2f64.to_le_bytes());
}
