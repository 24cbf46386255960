//! Encodes every instruction with registers of all kinds and displacements of all lengths, decodes it with an
//! independent decoder, and compares.

use super::asm::Form;
use super::encode::encode;
use crate::codegen::wide::code::{
    Class, Code, Elem, Inst, Lookup, LoopId, Mem, Memory, Op1, Op2, Rounding, Shift16, Stream, StreamId, VReg, Width,
};
use crate::ir::CmpOp;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter, MemorySizeOptions};
use smallvec::SmallVec;

/// Instructions as text.
fn disassemble(bytes: &[u8]) -> Vec<String> {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_space_after_operand_separator(true);
    options.set_memory_size_options(MemorySizeOptions::Never);
    let mut lines = Vec::new();
    for instruction in Decoder::new(64, bytes, DecoderOptions::NONE) {
        assert!(!instruction.is_invalid(), "{:x?} at {}", bytes, instruction.ip());
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        lines.push(line);
    }
    lines
}

/// A number in the formatter's style.
fn number(n: i32) -> String {
    if n < 10 { n.to_string() } else { format!("{n:#x}") }
}

/// An encoding and a vector length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Set {
    Vex,
    Evex,
    EvexYmm,
}

const SETS: [Set; 3] = [Set::Vex, Set::Evex, Set::EvexYmm];

impl Set {
    fn is_evex(self) -> bool {
        self != Set::Vex
    }

    fn form(self) -> Form {
        if self.is_evex() { Form::Evex } else { Form::Vex }
    }

    fn bytes(self) -> usize {
        if self == Set::Evex { 64 } else { 32 }
    }

    /// The width that distinguishes copies of whole registers.
    fn whole(self) -> Width {
        if self == Set::Evex { Width::Z } else { Width::Y }
    }

    fn widths(self) -> &'static [Width] {
        use Width::{Half, Scalar, X, Y, Z};
        if self == Set::Evex { &[Scalar, Half, X, Y, Z] } else { &[Scalar, Half, X, Y] }
    }

    fn vectors(self) -> &'static [u8] {
        if self.is_evex() { &[0, 7, 8, 15, 16, 31] } else { &[0, 7, 8, 15] }
    }
}

const D: VReg = VReg(0);
const A: VReg = VReg(1);
const B: VReg = VReg(2);
const C: VReg = VReg(3);

/// Registers of an instruction: vector registers, and mask registers in their place.
#[derive(Clone, Copy)]
struct Regs {
    set: Set,
    numbers: [u8; 4],
}

impl Regs {
    /// The name of a register of a width.
    fn v(&self, v: VReg, width: Width) -> String {
        let n = self.numbers[v.0 as usize];
        match width {
            Width::Z => format!("zmm{n}"),
            Width::Y => format!("ymm{n}"),
            _ => format!("xmm{n}"),
        }
    }

    fn k(&self, v: VReg) -> String {
        format!("k{}", self.numbers[v.0 as usize])
    }
}

/// Nops that surround the code.
const NOPS: [u8; 4] = [0x90; 4];

/// Encodes one instruction and compares its disassembly with a text.
fn check(regs: &Regs, mem: Option<Mem>, inst: Inst, expected: &[String]) {
    let streams = mem.map_or(0, |m| m.stream.0 + 1);
    let stream = |slot| Stream::of_argument(slot, Default::default());
    let code = Code {
        insts: vec![inst],
        classes: vec![Class::Vector; 4],
        streams: (0..streams).map(stream).collect(),
        tables: vec![SmallVec::from_elem(u32::from_le_bytes(NOPS), regs.set.bytes() / 4)],
        ..Code::default()
    };
    let bytes = encode(&code, &regs.numbers, regs.set.form(), regs.set.bytes()).expect("it can be encoded");
    let lines = disassemble(&bytes);
    // Before the instruction, registers are saved and pointers loaded; after it are `vzeroupper`, the restoring of
    // registers, and data.
    let begin = lines.iter().position(|l| !l.starts_with("push") && !l.starts_with("mov r")).expect("an instruction");
    let found = &lines[begin..lines.len().min(begin + expected.len())];
    assert_eq!(found, expected, "{inst:?} {:?}", regs.numbers);
    let end = &lines[begin + expected.len()];
    assert!(end.starts_with("pop") || end == "vzeroupper", "{inst:?} is more than {expected:?}: {end}");
}

/// Calls `f` with registers in many combinations.
fn each_registers(f: impl Fn(Regs)) {
    for set in SETS {
        let v = set.vectors();
        for (i, &d) in v.iter().enumerate() {
            for (j, &a) in v.iter().enumerate() {
                f(Regs { set, numbers: [d, a, v[(i + j + 1) % v.len()], v[(i + 2 * j + 3) % v.len()]] });
            }
        }
    }
}

/// Calls `f` with registers in many combinations, where the number of one register is that of a mask.
fn each_masked(mask: VReg, f: impl Fn(Regs)) {
    each_registers(|mut regs| {
        if regs.set.is_evex() {
            regs.numbers[mask.0 as usize] = regs.numbers[mask.0 as usize] % 7 + 1;
        }
        f(regs);
    });
}

/// Calls `f` with memory operands of accesses of this many bytes, and their text.
fn each_place(bytes: i32, f: impl Fn(Mem, &str)) {
    // rax, r8, rbp (which has no form without displacement), r12 (which needs another byte) and r13.
    for (stream, name) in [(0, "rax"), (4, "r8"), (9, "rbp"), (10, "r12"), (11, "r13")] {
        for disp in [0, 1, 127, 128, -128, -129, 127 * bytes, 128 * bytes, -128 * bytes, 0x12345, -0x0765_4321] {
            let text = match disp {
                0 => format!("[{name}]"),
                d if d < 0 => format!("[{name}-{}]", number(-d)),
                d => format!("[{name}+{}]", number(d)),
            };
            f(Mem { stream: StreamId(stream), disp }, &text);
        }
    }
}

const ELEMS: [Elem; 3] = [Elem::F32, Elem::F64, Elem::I32];

fn accessed(elem: Elem, width: Width) -> i32 {
    width.bytes().unwrap_or(elem.bytes()) as i32
}

/// The move instruction of a width.
fn mover(elem: Elem, width: Width) -> &'static str {
    match (elem, width) {
        (Elem::F64, Width::Scalar) | (_, Width::Half) => "vmovsd",
        (_, Width::Scalar) => "vmovss",
        _ => "vmovups",
    }
}

/// The suffix of arithmetic instructions.
fn suffix(elem: Elem, width: Width) -> &'static str {
    match (elem, width) {
        (Elem::F64, Width::Scalar) => "sd",
        (Elem::F64, _) => "pd",
        (_, Width::Scalar) => "ss",
        _ => "ps",
    }
}

fn each_shape(set: Set, mut f: impl FnMut(Elem, Width)) {
    for elem in ELEMS {
        set.widths().iter().for_each(|&width| f(elem, width));
    }
}

#[test]
fn loads_and_stores() {
    for set in SETS {
        for &n in set.vectors() {
            let regs = Regs { set, numbers: [n, 0, 0, 0] };
            each_shape(set, |elem, width| {
                let (reg, mover) = (regs.v(D, width), mover(elem, width));
                each_place(accessed(elem, width), |mem, place| {
                    check(
                        &regs,
                        Some(mem),
                        Inst::Load { dst: D, mem, elem, width },
                        &[format!("{mover} {reg}, {place}")],
                    );
                    check(
                        &regs,
                        Some(mem),
                        Inst::Store { src: D, mem, elem, width },
                        &[format!("{mover} {place}, {reg}")],
                    );
                });
                each_place(elem.bytes() as i32, |mem, place| {
                    let name = match (elem, width) {
                        (Elem::F64, Width::Scalar | Width::Half | Width::X) => "vmovddup",
                        (Elem::F64, _) => "vbroadcastsd",
                        _ => "vbroadcastss",
                    };
                    check(
                        &regs,
                        Some(mem),
                        Inst::LoadAll { dst: D, mem, elem, width },
                        &[format!("{name} {reg}, {place}")],
                    );
                });
            });
            for bytes in [1, 2, 4, 8, 16] {
                each_place(i32::from(bytes), |mem, place| {
                    let x = regs.v(D, Width::X);
                    let expected = match bytes {
                        1 => format!("vpextrb {place}, {x}, 0"),
                        2 => format!("vpextrw {place}, {x}, 0"),
                        4 => format!("vmovss {place}, {x}"),
                        8 => format!("vmovsd {place}, {x}"),
                        _ => format!("vmovups {place}, {x}"),
                    };
                    check(&regs, Some(mem), Inst::StoreLow { src: D, mem, bytes }, &[expected]);
                });
            }
        }
    }
}

#[test]
fn fetches() {
    for set in SETS {
        let regs = Regs { set, numbers: [0; 4] };
        for (writes, name) in [(false, "prefetcht0"), (true, "prefetchw")] {
            each_place(64, |mem, place| {
                check(&regs, Some(mem), Inst::Prefetch { mem, writes }, &[format!("{name} {place}")]);
            });
        }
    }
}

#[test]
fn narrow_loads_and_stores() {
    let all = [Memory::U8, Memory::I8, Memory::U16, Memory::I16, Memory::F16, Memory::BF16];
    for set in SETS {
        for &n in set.vectors() {
            let regs = Regs { set, numbers: [n, 0, 0, 0] };
            for memory in all {
                for &width in set.widths() {
                    let lanes = accessed(Elem::I32, width) / 4;
                    let (reg, x) = (regs.v(D, width), regs.v(D, Width::X));
                    each_place(lanes * memory.bytes() as i32, |mem, place| {
                        let name = match memory {
                            Memory::U8 => "vpmovzxbd",
                            Memory::I8 => "vpmovsxbd",
                            Memory::U16 | Memory::BF16 => "vpmovzxwd",
                            Memory::I16 => "vpmovsxwd",
                            Memory::F16 => "vcvtph2ps",
                        };
                        let zero = if set.is_evex() { "vpxord" } else { "vpxor" };
                        let zero = format!("{zero} {x}, {x}, {x}");
                        let mut expected = match lanes as usize * memory.bytes() {
                            1 => vec![zero, format!("vpinsrb {x}, {x}, {place}, 0")],
                            2 if lanes <= 2 => vec![zero, format!("vpinsrw {x}, {x}, {place}, 0")],
                            4 if lanes <= 2 => vec![format!("vmovd {x}, {place}")],
                            _ => Vec::new(),
                        };
                        let source = if expected.is_empty() { place.to_string() } else { x.clone() };
                        expected.push(format!("{name} {reg}, {source}"));
                        if memory == Memory::BF16 {
                            expected.push(format!("vpslld {reg}, {reg}, 0x10"));
                        }
                        let load = |mask| Inst::LoadNarrow { dst: D, mask, mem, memory, width };
                        check(&regs, Some(mem), load(None), &expected);
                        let half = regs.v(D, if width == Width::Z { Width::Y } else { Width::X });
                        let repeated = match memory {
                            Memory::BF16 => {
                                vec![format!("vpbroadcastw {reg}, {place}"), format!("vpslld {reg}, {reg}, 0x10")]
                            }
                            Memory::U8 | Memory::I8 => {
                                vec![format!("vpbroadcastb {x}, {place}"), format!("{name} {reg}, {x}")]
                            }
                            _ => vec![format!("vpbroadcastw {half}, {place}"), format!("{name} {reg}, {half}")],
                        };
                        let repeat = Inst::LoadAllNarrow { dst: D, mem, memory, width };
                        check(&regs, Some(mem), repeat, &repeated);
                        if width < Width::X || !set.is_evex() && memory != Memory::F16 {
                            return;
                        }
                        let expected = match memory {
                            Memory::U8 | Memory::I8 => format!("vpmovdb {place}, {reg}"),
                            Memory::F16 => format!("vcvtps2ph {place}, {reg}, 0"),
                            Memory::BF16 if width == Width::X => format!("vmovsd {place}, {x}"),
                            Memory::BF16 => format!("vmovups {place}, {half}"),
                            _ => format!("vpmovdw {place}, {reg}"),
                        };
                        let store = |mask| Inst::StoreNarrow { src: D, mask, mem, memory, width };
                        check(&regs, Some(mem), store(None), &[expected]);
                    });
                }
            }
        }
    }
}

#[test]
fn masked_extremes_and_aligned_lanes() {
    each_masked(A, |regs| {
        for &width in regs.set.widths().iter().filter(|&&width| regs.set.is_evex() && width >= Width::X) {
            let (d, b, c, k) = (regs.v(D, width), regs.v(B, width), regs.v(C, width), regs.k(A));
            for (op, name) in [(Op2::Min, "vminps"), (Op2::Max, "vmaxps")] {
                let some = Inst::ExtremeSome { acc: D, mask: A, op, b: B, width };
                check(&regs, None, some, &[format!("{name} {d}{{{k}}}, {d}, {b}")]);
                each_place(accessed(Elem::F32, width), |mem, place| {
                    let masked = Inst::ExtremeMasked { acc: D, mask: A, op, mem, width };
                    check(&regs, Some(mem), masked, &[format!("{name} {d}{{{k}}}, {d}, {place}")]);
                });
            }
            for (mask, zeroed) in [(None, String::new()), (Some(A), format!("{{{k}}}{{z}}"))] {
                let align = Inst::Align { dst: D, low: B, high: C, by: 3, mask, width };
                check(&regs, None, align, &[format!("valignd {d}{zeroed}, {c}, {b}, 3")]);
            }
        }
    });
}

#[test]
fn masked_loads_and_stores() {
    each_masked(A, |regs| {
        for elem in ELEMS {
            for &width in regs.set.widths().iter().filter(|&&w| w >= Width::X) {
                let reg = regs.v(D, width);
                each_place(accessed(elem, width), |mem, place| {
                    let (load, store) = if regs.set.is_evex() {
                        let name = if elem == Elem::F64 { "vmovupd" } else { "vmovups" };
                        let mask = regs.k(A);
                        (format!("{name} {reg}{{{mask}}}{{z}}, {place}"), format!("{name} {place}{{{mask}}}, {reg}"))
                    } else {
                        let name = if elem == Elem::F64 { "vmaskmovpd" } else { "vmaskmovps" };
                        let mask = regs.v(A, width);
                        (format!("{name} {reg}, {mask}, {place}"), format!("{name} {place}, {mask}, {reg}"))
                    };
                    check(&regs, Some(mem), Inst::LoadMasked { dst: D, mask: A, mem, elem, width }, &[load]);
                    check(&regs, Some(mem), Inst::StoreMasked { src: D, mask: A, mem, elem, width }, &[store]);
                });
            }
        }
    });
    each_masked(A, |regs| {
        if !regs.set.is_evex() {
            return;
        }
        let mask = regs.k(A);
        for memory in [Memory::U8, Memory::I8, Memory::U16, Memory::I16, Memory::BF16, Memory::F16] {
            for &width in regs.set.widths().iter().filter(|&&w| w >= Width::X) {
                let reg = regs.v(D, width);
                each_place(accessed(Elem::I32, width) / 4 * memory.bytes() as i32, |mem, place| {
                    let (load, store, rounding) = match memory {
                        Memory::U8 => ("vpmovzxbd", "vpmovdb", ""),
                        Memory::I8 => ("vpmovsxbd", "vpmovdb", ""),
                        Memory::U16 => ("vpmovzxwd", "vpmovdw", ""),
                        Memory::BF16 => ("vpmovzxwd", "vmovdqu16", ""),
                        Memory::I16 => ("vpmovsxwd", "vpmovdw", ""),
                        Memory::F16 => ("vcvtph2ps", "vcvtps2ph", ", 0"),
                    };
                    let mut loads = vec![format!("{load} {reg}{{{mask}}}{{z}}, {place}")];
                    if memory == Memory::BF16 {
                        loads.push(format!("vpslld {reg}, {reg}, 0x10"));
                    }
                    check(&regs, Some(mem), Inst::LoadNarrow { dst: D, mask: Some(A), mem, memory, width }, &loads);
                    let half = regs.v(D, if width == Width::Z { Width::Y } else { Width::X });
                    let source = if memory == Memory::BF16 { &half } else { &reg };
                    let store = format!("{store} {place}{{{mask}}}, {source}{rounding}");
                    check(&regs, Some(mem), Inst::StoreNarrow { src: D, mask: Some(A), mem, memory, width }, &[store]);
                });
            }
        }
    });
    for dst in 1..8 {
        let regs = Regs { set: Set::Evex, numbers: [dst, 0, 0, 0] };
        for lanes in [1, 8, 15] {
            let expected = [format!("mov eax, {:#x}", (1 << lanes) - 1), format!("kmovw k{dst}, eax")];
            let expected = expected.map(|l| if lanes == 1 { l.replace("0x1", "1") } else { l });
            check(&regs, None, Inst::Lanes { dst: D, bits: (1 << lanes) - 1, elem: Elem::F32 }, &expected);
        }
    }
}

#[test]
fn arithmetic() {
    use Op2::{
        Add, And, Div, HighLanes, LowLanes, Max, Min, Mul, MulPairs, MulWords, Or, Pack16, Pack32, ShiftLeft,
        ShiftRight, Sub, Xor,
    };
    let arithmetic = [Add, Sub, Mul, Div, Min, Max, And, Or, Xor, ShiftLeft, ShiftRight, MulPairs, MulWords];
    let all = arithmetic.into_iter().chain([LowLanes, HighLanes, Pack32, Pack16]);
    each_registers(|regs| {
        let evex = regs.set.is_evex();
        each_shape(regs.set, |elem, width| {
            let (d, a, b) = (regs.v(D, width), regs.v(A, width), regs.v(B, width));
            let s = suffix(elem, width);
            for op in all.clone() {
                let is_int = elem == Elem::I32;
                let name = match op {
                    And if evex => "vpandd".into(),
                    Or if evex => "vpord".into(),
                    Xor if evex => "vpxord".into(),
                    And => "vpand".into(),
                    Or => "vpor".into(),
                    Xor => "vpxor".into(),
                    // Shuffles exist for whole registers, pairs and packs for integers.
                    LowLanes | HighLanes if width < Width::X => continue,
                    LowLanes => format!("vunpcklp{}", if elem == Elem::F64 { "d" } else { "s" }),
                    HighLanes => format!("vunpckhp{}", if elem == Elem::F64 { "d" } else { "s" }),
                    Pack32 | Pack16 | MulPairs | MulWords | ShiftLeft | ShiftRight if !is_int => continue,
                    ShiftLeft => "vpsllvd".into(),
                    ShiftRight => "vpsravd".into(),
                    Pack32 => "vpackusdw".into(),
                    Pack16 => "vpackuswb".into(),
                    MulPairs => "vpmaddwd".into(),
                    MulWords => "vpmullw".into(),
                    Div if is_int => continue,
                    Add if is_int => "vpaddd".into(),
                    Sub if is_int => "vpsubd".into(),
                    Mul if is_int => "vpmulld".into(),
                    Min if is_int => "vpminsd".into(),
                    Max if is_int => "vpmaxsd".into(),
                    Add => format!("vadd{s}"),
                    Sub => format!("vsub{s}"),
                    Mul => format!("vmul{s}"),
                    Div => format!("vdiv{s}"),
                    Min => format!("vmin{s}"),
                    Max => format!("vmax{s}"),
                    Op2::EvenChunks | Op2::OddChunks | Op2::LowWords | Op2::HighWords | Op2::PackBf16 => continue,
                };
                check(
                    &regs,
                    None,
                    Inst::Binary { op, dst: D, a: A, b: B, elem, width },
                    &[format!("{name} {d}, {a}, {b}")],
                );
            }
            for (op, which) in [(Op2::EvenChunks, [0x88, 0x00, 0x20]), (Op2::OddChunks, [0xdd, 0x03, 0x31])] {
                let (name, which) = match (evex, width) {
                    (true, Width::Z) => ("vshuff32x4", which[0]),
                    (true, Width::Y) => ("vshuff32x4", which[1]),
                    (false, Width::Y) => ("vperm2f128", which[2]),
                    _ => continue,
                };
                let which = number(which);
                let expected = format!("{name} {d}, {a}, {b}, {which}");
                check(&regs, None, Inst::Binary { op, dst: D, a: A, b: B, elem, width }, &[expected]);
            }
        });
    });
}

#[test]
fn shifts_of_lanes_by_lanes() {
    each_registers(|regs| {
        // Lanes of other sizes exist with EVEX alone.
        if !regs.set.is_evex() {
            return;
        }
        for &width in regs.set.widths().iter().filter(|&&width| width >= Width::X) {
            let (d, a, b) = (regs.v(D, width), regs.v(A, width), regs.v(B, width));
            for (elem, left, right) in [
                (Elem::I16, "vpsllvw", "vpsravw"),
                (Elem::U16, "vpsllvw", "vpsrlvw"),
                (Elem::I64, "vpsllvq", "vpsravq"),
            ] {
                for (op, name) in [(Op2::ShiftLeft, left), (Op2::ShiftRight, right)] {
                    let shift = Inst::Binary { op, dst: D, a: A, b: B, elem, width };
                    check(&regs, None, shift, &[format!("{name} {d}, {a}, {b}")]);
                }
            }
        }
    });
}

#[test]
fn multiplication_and_addition() {
    each_registers(|regs| {
        for elem in [Elem::F32, Elem::F64] {
            for &width in regs.set.widths() {
                let (d, a, b, c) = (regs.v(D, width), regs.v(A, width), regs.v(B, width), regs.v(C, width));
                let s = suffix(elem, width);
                let fma = Inst::Fma { acc: D, a: A, b: B, elem, width };
                check(&regs, None, fma, &[format!("vfmadd231{s} {d}, {a}, {b}")]);
                let whole = regs.set.whole();
                let copy = format!("vmovaps {}, {}", regs.v(D, whole), regs.v(C, whole));
                let expected = match () {
                    () if d == c => vec![format!("vfmadd231{s} {d}, {a}, {b}")],
                    () if d == a => vec![format!("vfmadd213{s} {d}, {b}, {c}")],
                    () if d == b => vec![format!("vfmadd213{s} {d}, {a}, {c}")],
                    () => vec![copy, format!("vfmadd231{s} {d}, {a}, {b}")],
                };
                check(&regs, None, Inst::MulAdd { dst: D, a: A, b: B, c: C, elem, width }, &expected);
            }
        }
        for &width in regs.set.widths() {
            let (d, a, b) = (regs.v(D, width), regs.v(A, width), regs.v(B, width));
            check(&regs, None, Inst::Dot4 { acc: D, a: A, b: B, width }, &[format!("vpdpbusd {d}, {a}, {b}")]);
        }
    });
    for set in SETS {
        for &n in set.vectors() {
            let regs = Regs { set, numbers: [n, set.vectors()[set.vectors().len() - 1], 0, 0] };
            each_shape(set, |elem, width| {
                if elem == Elem::I32 || width == Width::Half {
                    return;
                }
                each_place(accessed(elem, width), |b, place| {
                    let (d, a, s) = (regs.v(D, width), regs.v(A, width), suffix(elem, width));
                    let inst = Inst::FmaMem { acc: D, a: A, b, elem, width };
                    check(&regs, Some(b), inst, &[format!("vfmadd231{s} {d}, {a}, {place}")]);
                });
            });
        }
    }
}

#[test]
fn operations_on_one_value() {
    each_registers(|regs| {
        let evex = regs.set.is_evex();
        let whole = regs.set.whole();
        if regs.numbers[0] != regs.numbers[1] {
            let expected = format!("vmovaps {}, {}", regs.v(D, whole), regs.v(A, whole));
            check(&regs, None, Inst::Move { dst: D, src: A }, &[expected]);
        }
        each_shape(regs.set, |elem, width| {
            let (d, a) = (regs.v(D, width), regs.v(A, width));
            let x = |v| regs.v(v, Width::X);
            let unary = |op| Inst::Unary { op, dst: D, a: A, elem, width };
            let is_float = elem != Elem::I32;
            if is_float {
                let s = suffix(elem, width);
                let twice = if width == Width::Scalar { format!("{a}, {a}") } else { a.clone() };
                check(&regs, None, unary(Op1::Sqrt), &[format!("vsqrt{s} {d}, {twice}")]);
                for to in [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Truncate] {
                    let name = if evex { "vrndscalep" } else { "vroundp" };
                    let kind = if elem == Elem::F64 { "d" } else { "s" };
                    check(&regs, None, unary(Op1::Round(to)), &[format!("{name}{kind} {d}, {a}, {}", to as u8)]);
                }
            }
            if elem == Elem::F32 {
                check(&regs, None, unary(Op1::Convert), &[format!("vcvtdq2ps {d}, {a}")]);
                check(&regs, None, unary(Op1::Truncate), &[format!("vcvttps2dq {d}, {a}")]);
                check(&regs, None, unary(Op1::RoundToInt), &[format!("vcvtps2dq {d}, {a}")]);
                // Half the bytes.
                let half = |v| if width == Width::Z { regs.v(v, Width::Y) } else { x(v) };
                check(&regs, None, unary(Op1::ToF16), &[format!("vcvtps2ph {}, {a}, 0", half(D))]);
                check(&regs, None, unary(Op1::FromF16), &[format!("vcvtph2ps {d}, {}", half(A))]);
                if evex {
                    check(&regs, None, unary(Op1::ToBf16), &[format!("vcvtneps2bf16 {}, {a}", half(D))]);
                }
                let widened = [format!("vpmovzxwd {d}, {}", half(A)), format!("vpslld {d}, {d}, 0x10")];
                check(&regs, None, unary(Op1::FromBf16), &widened);
            }
            let name = match (elem, width) {
                (Elem::F64, Width::Scalar | Width::Half | Width::X) => "vmovddup",
                (Elem::F64, _) => "vbroadcastsd",
                _ => "vbroadcastss",
            };
            check(&regs, None, unary(Op1::Broadcast), &[format!("{name} {d}, {}", x(A))]);
            let upper = match width {
                Width::Z => format!("vextractf64x4 {}, {a}, 1", regs.v(D, Width::Y)),
                Width::Y if evex => format!("vextractf32x4 {}, {a}, 1", x(D)),
                Width::Y => format!("vextractf128 {}, {a}, 1", x(D)),
                Width::X => format!("vpermilpd {d}, {a}, 1"),
                Width::Half | Width::Scalar => format!("vmovshdup {d}, {a}"),
            };
            check(&regs, None, unary(Op1::UpperHalf), &[upper]);
        });
        for &width in regs.set.widths() {
            let (d, a) = (regs.v(D, width), regs.v(A, width));
            for by in [1, 23, 31] {
                let text = number(i32::from(by));
                let shift = |left| Inst::Shift { dst: D, a: A, left, by, width };
                check(&regs, None, shift(true), &[format!("vpslld {d}, {a}, {text}")]);
                check(&regs, None, shift(false), &[format!("vpsrad {d}, {a}, {text}")]);
            }
            for (kind, name) in [(Shift16::Left, "vpsllw"), (Shift16::Right, "vpsrlw"), (Shift16::Signed, "vpsraw")] {
                check(&regs, None, Inst::ShiftByte { dst: D, a: A, kind, width }, &[format!("{name} {d}, {a}, 8")]);
            }
        }
    });
}

#[test]
fn comparisons_and_choices() {
    let floats = [
        (CmpOp::Eq, "eq"),
        (CmpOp::Ne, "neq"),
        (CmpOp::Lt, "lt_oq"),
        (CmpOp::Le, "le_oq"),
        (CmpOp::Gt, "gt_oq"),
        (CmpOp::Ge, "ge_oq"),
    ];
    let ints = [
        (CmpOp::Eq, "eq"),
        (CmpOp::Ne, "neq"),
        (CmpOp::Lt, "lt"),
        (CmpOp::Le, "le"),
        (CmpOp::Gt, "nle"),
        (CmpOp::Ge, "nlt"),
    ];
    each_masked(D, |regs| {
        each_shape(regs.set, |elem, width| {
            let (a, b) = (regs.v(A, width), regs.v(B, width));
            let evex = regs.set.is_evex();
            let d = if evex { regs.k(D) } else { regs.v(D, width) };
            for ((op, float), (_, int)) in floats.into_iter().zip(ints) {
                let inst = Inst::Compare { op, dst: D, a: A, b: B, elem, width };
                let expected = match elem {
                    Elem::F32 => format!("vcmp{float}ps {d}, {a}, {b}"),
                    Elem::F64 => format!("vcmp{float}pd {d}, {a}, {b}"),
                    Elem::I64 | Elem::I8 | Elem::U8 | Elem::I16 | Elem::U16 | Elem::F16 | Elem::BF16 => {
                        unreachable!("they have tests of their own")
                    }
                    Elem::I32 if evex => format!("vpcmp{int}d {d}, {a}, {b}"),
                    Elem::I32 => match op {
                        CmpOp::Eq => format!("vpcmpeqd {d}, {a}, {b}"),
                        CmpOp::Gt => format!("vpcmpgtd {d}, {a}, {b}"),
                        CmpOp::Lt => format!("vpcmpgtd {d}, {b}, {a}"),
                        CmpOp::Ne | CmpOp::Le | CmpOp::Ge => continue,
                    },
                };
                check(&regs, None, inst, &[expected]);
            }
        });
    });
    each_masked(D, |regs| {
        let widths = regs.set.widths().iter().filter(|&&width| regs.set.is_evex() && width >= Width::X);
        for (&width, (op, int)) in widths.flat_map(|width| ints.map(|int| (width, int))) {
            let (d, a, b) = (regs.k(D), regs.v(A, width), regs.v(B, width));
            for (elem, name) in [(Elem::I16, "w"), (Elem::U16, "uw")] {
                let inst = Inst::Compare { op, dst: D, a: A, b: B, elem, width };
                check(&regs, None, inst, &[format!("vpcmp{int}{name} {d}, {a}, {b}")]);
            }
        }
    });
    each_masked(A, |regs| {
        each_shape(regs.set, |elem, width| {
            let (d, then, otherwise) = (regs.v(D, width), regs.v(B, width), regs.v(C, width));
            let kind = if elem == Elem::F64 { "d" } else { "s" };
            let expected = if regs.set.is_evex() {
                format!("vblendmp{kind} {d}{{{}}}, {otherwise}, {then}", regs.k(A))
            } else {
                format!("vblendvp{kind} {d}, {otherwise}, {then}, {}", regs.v(A, width))
            };
            check(&regs, None, Inst::Select { dst: D, mask: A, then: B, otherwise: C, elem, width }, &[expected]);
        });
    });
    for n in 0..512u16 {
        let numbers = [n % 8, n / 8 % 8, n / 64, 0].map(|n| n as u8);
        let regs = Regs { set: Set::Evex, numbers };
        let (d, a, b) = (regs.k(D), regs.k(A), regs.k(B));
        for (op, name) in [(Op2::And, "kandw"), (Op2::Or, "korw"), (Op2::Xor, "kxorw")] {
            check(&regs, None, Inst::MaskBinary { op, dst: D, a: A, b: B }, &[format!("{name} {d}, {a}, {b}")]);
        }
        check(&regs, None, Inst::MaskNot { dst: D, a: A }, &[format!("knotw {d}, {a}")]);
    }
}

#[test]
fn lanes_of_64_bits() {
    let elem = Elem::I64;
    each_registers(|regs| {
        let evex = regs.set.is_evex();
        for &width in regs.set.widths().iter().filter(|&&w| w >= Width::X) {
            let (d, a, b) = (regs.v(D, width), regs.v(A, width), regs.v(B, width));
            let everywhere = [(Op2::Add, "vpaddq"), (Op2::Sub, "vpsubq")];
            let evex_only = [(Op2::Mul, "vpmullq"), (Op2::Min, "vpminsq"), (Op2::Max, "vpmaxsq")];
            for (op, name) in everywhere.into_iter().chain(evex_only.into_iter().filter(|_| evex)) {
                let inst = Inst::Binary { op, dst: D, a: A, b: B, elem, width };
                check(&regs, None, inst, &[format!("{name} {d}, {a}, {b}")]);
            }
            let half = match width {
                Width::Z => regs.v(A, Width::Y),
                _ => regs.v(A, Width::X),
            };
            let mut unary = vec![(Op1::Widen, format!("vpmovsxdq {d}, {half}"))];
            if evex {
                let half_of_result = if width == Width::Z { regs.v(D, Width::Y) } else { regs.v(D, Width::X) };
                unary.push((Op1::FloatToLong, format!("vcvttps2qq {d}, {half}")));
                unary.push((Op1::LongToFloat, format!("vcvtqq2ps {half_of_result}, {a}")));
            }
            for (op, expected) in unary {
                check(&regs, None, Inst::Unary { op, dst: D, a: A, elem, width }, &[expected]);
            }
            let to_double = [(Op1::IntToDouble, "vcvtdq2pd"), (Op1::FloatToDouble, "vcvtps2pd")];
            let from_double = [(Op1::DoubleToInt, "vcvttpd2dq"), (Op1::DoubleToFloat, "vcvtpd2ps")];
            let half_of_result = if width == Width::Z { regs.v(D, Width::Y) } else { regs.v(D, Width::X) };
            let all = to_double
                .map(|(op, name)| (op, format!("{name} {d}, {half}")))
                .into_iter()
                .chain(from_double.map(|(op, name)| (op, format!("{name} {half_of_result}, {a}"))));
            for (op, expected) in all {
                check(&regs, None, Inst::Unary { op, dst: D, a: A, elem: Elem::F64, width }, &[expected]);
            }
        }
    });
    each_masked(D, |regs| {
        let width = regs.set.whole();
        let (a, b) = (regs.v(A, width), regs.v(B, width));
        let compare = |op| Inst::Compare { op, dst: D, a: A, b: B, elem, width };
        if regs.set.is_evex() {
            let d = regs.k(D);
            for (op, name) in [(CmpOp::Eq, "eq"), (CmpOp::Ne, "neq"), (CmpOp::Lt, "lt"), (CmpOp::Ge, "nlt")] {
                check(&regs, None, compare(op), &[format!("vpcmp{name}q {d}, {a}, {b}")]);
            }
        } else {
            let d = regs.v(D, width);
            check(&regs, None, compare(CmpOp::Eq), &[format!("vpcmpeqq {d}, {a}, {b}")]);
            check(&regs, None, compare(CmpOp::Gt), &[format!("vpcmpgtq {d}, {a}, {b}")]);
            check(&regs, None, compare(CmpOp::Lt), &[format!("vpcmpgtq {d}, {b}, {a}")]);
        }
    });
    each_masked(A, |regs| {
        let width = regs.set.whole();
        let (d, then, otherwise) = (regs.v(D, width), regs.v(B, width), regs.v(C, width));
        let expected = match regs.set.is_evex() {
            true => format!("vblendmpd {d}{{{}}}, {otherwise}, {then}", regs.k(A)),
            false => format!("vblendvpd {d}, {otherwise}, {then}, {}", regs.v(A, width)),
        };
        check(&regs, None, Inst::Select { dst: D, mask: A, then: B, otherwise: C, elem, width }, &[expected]);
    });
    for n in 0..512u16 {
        let regs = Regs { set: Set::Evex, numbers: [n % 8, n / 8 % 8, n / 64, 0].map(|n| n as u8) };
        let expected = format!("kunpckbw {}, {}, {}", regs.k(D), regs.k(B), regs.k(A));
        check(&regs, None, Inst::JoinMasks { dst: D, low: A, high: B }, &[expected]);
    }
}

#[test]
fn bytes() {
    each_registers(|regs| {
        for &width in regs.set.widths().iter().filter(|&&w| w >= Width::X) {
            let (d, a, b) = (regs.v(D, width), regs.v(A, width), regs.v(B, width));
            let signed = [(Op2::Min, "vpminsb"), (Op2::Max, "vpmaxsb"), (Op2::Add, "vpaddb")].map(|o| (Elem::I8, o));
            let unsigned = [(Op2::Min, "vpminub"), (Op2::Max, "vpmaxub"), (Op2::Sub, "vpsubb")].map(|o| (Elem::U8, o));
            for (elem, (op, name)) in signed.into_iter().chain(unsigned) {
                let inst = Inst::Binary { op, dst: D, a: A, b: B, elem, width };
                check(&regs, None, inst, &[format!("{name} {d}, {a}, {b}")]);
            }
            for (op, elem, name) in [
                (Op2::LowLanes, Elem::U8, "vpunpcklbw"),
                (Op2::HighLanes, Elem::U8, "vpunpckhbw"),
                (Op2::LowWords, Elem::I32, "vpunpcklwd"),
                (Op2::HighWords, Elem::I32, "vpunpckhwd"),
            ] {
                let inst = Inst::Binary { op, dst: D, a: A, b: B, elem, width };
                check(&regs, None, inst, &[format!("{name} {d}, {a}, {b}")]);
            }
            let all = Inst::Unary { op: Op1::Broadcast, dst: D, a: A, elem: Elem::U8, width };
            check(&regs, None, all, &[format!("vpbroadcastb {d}, {}", regs.v(A, Width::X))]);
            if regs.set.is_evex() {
                let permute = Inst::PermuteBytes { dst: D, indices: A, a: B, width };
                check(&regs, None, permute, &[format!("vpermb {d}, {a}, {b}")]);
                let permute = Inst::Permute2Bytes { acc: D, indices: A, b: B, width };
                check(&regs, None, permute, &[format!("vpermt2b {d}, {a}, {b}")]);
            }
        }
    });
    for set in SETS {
        let regs = Regs { set, numbers: [1, 2, 3, 4] };
        let (d, x) = (regs.v(D, set.whole()), regs.v(D, Width::X));
        each_place(16, |mem, place| {
            let a = regs.v(A, set.whole());
            let name = if set.is_evex() { "vinsertf32x4" } else { "vinsertf128" };
            let insert = Inst::InsertChunk { dst: D, a: A, mem, chunk: 1, width: set.whole() };
            check(&regs, Some(mem), insert, &[format!("{name} {d}, {a}, {place}, 1")]);
        });
        each_place(1, |mem, place| {
            let load = Inst::LoadAll { dst: D, mem, elem: Elem::I8, width: set.whole() };
            check(&regs, Some(mem), load, &[format!("vpbroadcastb {d}, {place}")]);
        });
        each_place(4, |mem, place| {
            let (elem, width) = (Elem::U8, Width::Scalar);
            check(&regs, Some(mem), Inst::Load { dst: D, mem, elem, width }, &[format!("vmovss {x}, {place}")]);
            check(&regs, Some(mem), Inst::Store { src: D, mem, elem, width }, &[format!("vmovss {place}, {x}")]);
        });
    }
}

#[test]
fn words() {
    each_registers(|regs| {
        for &width in regs.set.widths().iter().filter(|&&w| w >= Width::X) {
            let (d, a, b) = (regs.v(D, width), regs.v(A, width), regs.v(B, width));
            let signed = [(Op2::Min, "vpminsw"), (Op2::Max, "vpmaxsw"), (Op2::Add, "vpaddw"), (Op2::Mul, "vpmullw")];
            let unsigned = [(Op2::Min, "vpminuw"), (Op2::Max, "vpmaxuw"), (Op2::Sub, "vpsubw")];
            let floats = [(Op2::Min, "vminph"), (Op2::Max, "vmaxph")];
            let signed = signed.map(|o| (Elem::I16, o)).into_iter();
            let unsigned = unsigned.map(|o| (Elem::U16, o));
            let floats = floats.map(|o| (Elem::F16, o)).into_iter().filter(|_| regs.set.is_evex());
            for (elem, (op, name)) in signed.chain(unsigned).chain(floats) {
                let inst = Inst::Binary { op, dst: D, a: A, b: B, elem, width };
                check(&regs, None, inst, &[format!("{name} {d}, {a}, {b}")]);
            }
            let all = Inst::Unary { op: Op1::Broadcast, dst: D, a: A, elem: Elem::BF16, width };
            check(&regs, None, all, &[format!("vpbroadcastw {d}, {}", regs.v(A, Width::X))]);
            if regs.set.is_evex() {
                let permute = Inst::PermuteWords { dst: D, indices: A, a: B, width };
                check(&regs, None, permute, &[format!("vpermw {d}, {a}, {b}")]);
                let permute = Inst::Permute2Words { acc: D, indices: A, b: B, width };
                check(&regs, None, permute, &[format!("vpermt2w {d}, {a}, {b}")]);
                let pack = Inst::Binary { op: Op2::PackBf16, dst: D, a: A, b: B, elem: Elem::F32, width };
                check(&regs, None, pack, &[format!("vcvtne2ps2bf16 {d}, {a}, {b}")]);
            }
        }
    });
}

#[test]
fn masks_of_bytes_and_words() {
    each_masked(A, |regs| {
        if !regs.set.is_evex() {
            return;
        }
        let mask = regs.k(A);
        for (elem, name, blend) in [(Elem::I8, "vmovdqu8", "vpblendmb"), (Elem::F16, "vmovdqu16", "vpblendmw")] {
            for &width in regs.set.widths().iter().filter(|&&w| w >= Width::X) {
                let (reg, then, otherwise) = (regs.v(D, width), regs.v(B, width), regs.v(C, width));
                each_place(accessed(elem, width), |mem, place| {
                    let load = format!("{name} {reg}{{{mask}}}{{z}}, {place}");
                    let store = format!("{name} {place}{{{mask}}}, {reg}");
                    check(&regs, Some(mem), Inst::LoadMasked { dst: D, mask: A, mem, elem, width }, &[load]);
                    check(&regs, Some(mem), Inst::StoreMasked { src: D, mask: A, mem, elem, width }, &[store]);
                });
                let expected = format!("{blend} {reg}{{{mask}}}, {otherwise}, {then}");
                check(&regs, None, Inst::Select { dst: D, mask: A, then: B, otherwise: C, elem, width }, &[expected]);
            }
        }
    });
    for dst in 1..8 {
        let regs = Regs { set: Set::Evex, numbers: [dst, 0, 0, 0] };
        let expected = ["mov eax, 0xaaaaaaaa".to_string(), format!("kmovq k{dst}, rax")];
        check(&regs, None, Inst::Lanes { dst: D, bits: 0xaaaa_aaaa, elem: Elem::U8 }, &expected);
    }
    let code = Code {
        insts: vec![Inst::MaskBinary { op: Op2::And, dst: D, a: A, b: B }, Inst::MaskNot { dst: D, a: A }],
        classes: vec![Class::Mask; 4],
        has_long_masks: true,
        ..Code::default()
    };
    let bytes = encode(&code, &[1, 2, 3, 4], Form::Evex, 64).expect("it can be encoded");
    assert_eq!(disassemble(&bytes)[..2], ["kandq k1, k2, k3", "knotq k1, k2"]);
}

#[test]
fn constants_and_arguments() {
    for set in SETS {
        for &n in set.vectors() {
            let regs = Regs { set, numbers: [n, 0, 0, 0] };
            let (reg, x) = (regs.v(D, set.whole()), regs.v(D, Width::X));
            for elem in ELEMS {
                let zero = if set.is_evex() { "vpxord" } else { "vpxor" };
                let zero = format!("{zero} {x}, {x}, {x}");
                check(&regs, None, Inst::Const { dst: D, bits: 0, elem }, std::slice::from_ref(&zero));
                check(&regs, None, Inst::LoadConst { dst: D, bits: 0, elem }, &[zero]);
                let is_wide = elem == Elem::F64;
                let (bits, general, loaded) = if is_wide {
                    (2f64.to_bits(), "rax", "mov rax, 0x4000000000000000")
                } else {
                    (0x3f80_0000, "eax", "mov eax, 0x3f800000")
                };
                let expected = match (set.is_evex(), is_wide) {
                    (true, true) => vec![format!("vpbroadcastq {reg}, rax")],
                    (true, false) => vec![format!("vpbroadcastd {reg}, eax")],
                    (false, true) => vec![format!("vmovq {x}, {general}"), format!("vbroadcastsd {reg}, {x}")],
                    (false, false) => vec![format!("vmovd {x}, {general}"), format!("vbroadcastss {reg}, {x}")],
                };
                // Moves to `rax` look like loads of pointers.
                let expected =
                    if is_wide { expected } else { std::iter::once(loaded.into()).chain(expected).collect() };
                check(&regs, None, Inst::Const { dst: D, bits, elem }, &expected);
                for slot in [0u32, 15, 16, 40] {
                    let name = if is_wide { "vbroadcastsd" } else { "vbroadcastss" };
                    let place = if slot == 0 { "[rdi]".into() } else { format!("[rdi+{:#x}]", slot * 8) };
                    check(&regs, None, Inst::Arg { dst: D, slot, elem }, &[format!("{name} {reg}, {place}")]);
                }
            }
        }
    }
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
    let bytes = encode(&code, &[0, 5, 9, 3], Form::Vex, 32).expect("it can be encoded");
    let lines = disassemble(&bytes[..31]);
    let expected =
        ["vbroadcastss ymm5, [0x20]", "vbroadcastsd ymm9, [0x28]", "vbroadcastss ymm3, [0x20]", "vzeroupper", "ret"];
    assert_eq!(lines, expected);
    // At 32 the float, at 40 the double.
    assert_eq!(bytes[32..36], [0x00, 0x00, 0x80, 0x3F]);
    assert_eq!(bytes[40..48], 2f64.to_le_bytes());
}

#[test]
fn loops_count_and_advance_their_pointers() {
    // Enough pointers that the counter is in a callee-saved register.
    let l = LoopId(0);
    for n in 1..=13u32 {
        let stream = |slot| Stream::of_argument(slot, [(l, 64 + 300 * i64::from(slot))].into_iter().collect());
        let code = Code {
            insts: vec![Inst::Begin { l, extent: 100 }, Inst::End { l }],
            streams: (0..n).map(stream).collect(),
            ..Code::default()
        };
        let bytes = encode(&code, &[], Form::Evex, 64).expect("it can be encoded");
        let lines = disassemble(&bytes);
        let names = ["rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "rbx", "rbp", "r12", "r13", "r14", "r15"];
        let mut expected: Vec<String> = Vec::new();
        let saved = &names[8.min(n as usize + 1)..n as usize + 1];
        expected.extend(saved.iter().map(|r| format!("push {r}")));
        let place = |i: u32| {
            if i == 0 {
                "[rdi]".into()
            } else if i < 2 {
                "[rdi+8]".into()
            } else {
                format!("[rdi+{:#x}]", 8 * i)
            }
        };
        expected.extend((0..n).map(|i| format!("mov {}, {}", names[i as usize], place(i))));
        let counter = names[n as usize];
        let counter32 = match counter {
            c if c.ends_with(|c: char| c.is_ascii_digit()) => format!("{c}d"),
            c => c.replace('r', "e"),
        };
        let counter32 = if counter == "rbx" { "ebx".into() } else { counter32 };
        expected.push(format!("mov {counter32}, 0x64"));
        let step = |i: u32| 64 + 300 * i;
        expected.extend((0..n).map(|i| format!("add {}, {:#x}", names[i as usize], step(i))));
        expected.push(format!("dec {counter}"));
        expected.push("jne".into());
        expected.extend((0..n).map(|i| format!("add {}, {:#x}", names[i as usize], -i64::from(100 * step(i)))));
        expected.extend(saved.iter().rev().map(|r| format!("pop {r}")));
        expected.extend(["vzeroupper".to_string(), "ret".to_string()]);
        let found: Vec<String> = lines
            .iter()
            .filter(|l| !l.contains("nop"))
            .map(|l| if l.starts_with("jne") { "jne".into() } else { l.clone() })
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn pointers_follow_from_elements() {
    let names = ["rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "rbx", "rbp", "r12", "r13", "r14", "r15"];
    // All registers as the base, as the place of the element, and as the result.
    for dst in 2..14usize {
        for from in 0..dst {
            let table = (from + 1) % dst;
            for (unit, disp) in [(1, 0x10), (4, 0x10), (8, 0x4000), (0x700, 0x10), (-12, 0x10)] {
                let element = Mem { stream: StreamId(table as u32), disp };
                let lookup = Some(Lookup { from: StreamId(from as u32), element, unit, within: None });
                let mut streams: Vec<Stream> =
                    (0..dst as u32).map(|slot| Stream::of_argument(slot, Default::default())).collect();
                streams.push(Stream { slot: 0, lookup, steps: Default::default() });
                let insts = vec![Inst::Point { stream: StreamId(dst as u32) }];
                let code = Code { insts, streams, ..Code::default() };
                let bytes = encode(&code, &[], Form::Evex, 64).expect("it can be encoded");
                let (name, base) = (names[dst], names[from]);
                let mut expected = vec![format!("movsxd {name}, [{}+{disp:#x}]", names[table])];
                let scale = match unit {
                    4 | 8 => format!("*{unit}"),
                    _ => String::new(),
                };
                if unit == 0x700 {
                    expected.push(format!("imul {name}, 0x700"));
                } else if unit < 0 {
                    expected.push(format!("imul {name}, 0xfffffffffffffff4"));
                }
                expected.push(format!("lea {name}, [{base}+{name}{scale}]"));
                let lines = disassemble(&bytes);
                let begin = lines.iter().position(|l| l.starts_with("movsxd")).expect("the element is loaded");
                assert_eq!(lines[begin..begin + expected.len()], expected);
            }
        }
    }
}

#[test]
fn permutations() {
    each_registers(|regs| {
        let evex = regs.set.is_evex();
        let width = regs.set.whole();
        let [d, a, b] = [D, A, B].map(|v| regs.v(v, width));
        let permute = Inst::Permute { dst: D, indices: A, a: B, width };
        check(&regs, None, permute, &[format!("vpermd {d}, {a}, {b}")]);
        if evex {
            let permute = Inst::Permute2 { acc: D, indices: A, b: B, width };
            check(&regs, None, permute, &[format!("vpermt2d {d}, {a}, {b}")]);
        } else {
            let blend = Inst::Blend { dst: D, a: A, b: B, mask: 0x35, width };
            check(&regs, None, blend, &[format!("vpblendd {d}, {a}, {b}, 0x35")]);
        }
        // Tables follow the code; decoded as code, they are nops.
        let lanes = u128::from_le_bytes([0x90; 16]);
        check(&regs, None, Inst::Indices { dst: D, lanes }, &[format!("vpmovzxbd {d}, [0x10]")]);
        let place = number(regs.set.bytes() as i32);
        check(&regs, None, Inst::Table { dst: D, table: 0 }, &[format!("vmovups {d}, [{place}]")]);
    });
    each_masked(A, |regs| {
        if regs.set.is_evex() {
            let width = regs.set.whole();
            let [d, b, c] = [D, B, C].map(|v| regs.v(v, width));
            let permute = Inst::Permute2Some { acc: D, mask: A, indices: B, b: C, width };
            check(&regs, None, permute, &[format!("vpermt2d {d}{{{}}}{{z}}, {b}, {c}", regs.k(A))]);
        }
    });
}

#[test]
fn gathers() {
    each_masked(A, |regs| {
        let [d, a, b] = [D, A, B].map(|v| regs.numbers[v.0 as usize]);
        // Registers must differ, which they do where both are live.
        if d == b || !regs.set.is_evex() && (d == a || a == b) {
            return;
        }
        for width in [Width::X, Width::Y] {
            for (stream, base) in [(0, "rax"), (4, "r8"), (9, "rbp"), (10, "r12"), (11, "r13")] {
                let mem = Mem { stream: StreamId(stream), disp: 0 };
                let (dst, indices) = (regs.v(D, width), regs.v(B, width));
                let line = match regs.set.is_evex() {
                    true => format!("vgatherdps {dst}, {}, [{base}+{indices}*4]", regs.k(A)),
                    false => format!("vgatherdps {dst}, [{base}+{indices}*4], {}", regs.v(A, width)),
                };
                check(&regs, Some(mem), Inst::Gather { acc: D, mask: A, indices: B, mem, width }, &[line]);
            }
        }
    });
    for dst in 1..8 {
        for a in 1..8 {
            let regs = Regs { set: Set::Evex, numbers: [dst, a, 0, 0] };
            check(&regs, None, Inst::UpperMask { dst: D, a: A }, &[format!("kshiftrw k{dst}, k{a}, 8")]);
        }
    }
}

#[test]
fn counters_in_every_lane() {
    each_registers(|regs| {
        let (x, whole) = (regs.v(D, Width::X), regs.v(D, regs.set.whole()));
        each_place(1, |mem, place| {
            let lea = format!("lea rdi, {place}");
            let expected = if regs.set.is_evex() {
                vec![lea, format!("vpbroadcastd {whole}, edi")]
            } else {
                vec![lea, format!("vmovd {x}, edi"), format!("vbroadcastss {whole}, {x}")]
            };
            check(&regs, Some(mem), Inst::Counted { dst: D, stream: mem.stream, plus: mem.disp }, &expected);
        });
    });
}

#[test]
fn signs() {
    each_masked(D, |regs| {
        let (d, a) = (regs.numbers[D.0 as usize], |width| regs.v(D, width));
        each_place(1, |mem, place| {
            let mut expected = vec![format!("lea rdi, {place}"), "sar rdi, 0x3f".into()];
            if regs.set.is_evex() {
                expected.push(format!("kmovw k{d}, edi"));
            } else {
                expected.push(format!("vmovq {}, rdi", a(Width::X)));
                expected.push(format!("vbroadcastsd {}, {}", a(Width::Y), a(Width::X)));
            }
            check(&regs, Some(mem), Inst::Sign { dst: D, stream: mem.stream, plus: mem.disp }, &expected);
        });
    });
}
