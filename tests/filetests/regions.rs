//! Kernels of the loop IR as the machine code of their regions: `# test: regions isa ISA`, with `dots off` for a machine
//! without dot products of bytes.
//!
//! Code is for a machine that has what the case says, whatever this one has; an independent decoder reads it back.
//! Targets of jumps get labels; data behind the code is listed in words.

use super::{Case, Outcome};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, MemorySizeOptions, Mnemonic};
use std::collections::BTreeMap;
use std::fmt::Write;
use tvmr::codegen::{CodegenOptions, region_code};
use tvmr::loopir::parse::parse;

pub(super) fn regions(case: &Case) -> Outcome {
    let name = case.path.display();
    let text: String = case.input.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    let kernel = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let isa = case.options.isa.unwrap_or_else(|| panic!("{name}: no instruction set"));
    let options = CodegenOptions { isa, dot_products: !case.options.no_dots, ..CodegenOptions::default() };
    let mut output = String::new();
    for (i, code) in region_code(&kernel, &options).iter().enumerate() {
        writeln!(output, "region {i}: {} bytes", code.len()).expect("writing to a string does not fail");
        list(code, &mut output);
    }
    if output.is_empty() {
        output.push_str("no regions\n");
    }
    Outcome { output, rejections: Vec::new() }
}

fn list(code: &[u8], output: &mut String) {
    let mut instructions: Vec<Instruction> = Vec::new();
    for instruction in Decoder::new(64, code, DecoderOptions::NONE) {
        instructions.push(instruction);
        if instruction.mnemonic() == Mnemonic::Ret {
            break;
        }
    }
    // The only jump there is.
    let mut labels = BTreeMap::new();
    for i in instructions.iter().filter(|i| i.mnemonic() == Mnemonic::Jne) {
        labels.insert(i.near_branch_target(), 0);
    }
    labels.values_mut().enumerate().for_each(|(n, label)| *label = n);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_memory_size_options(MemorySizeOptions::Never);
    for i in &instructions {
        if let Some(label) = labels.get(&i.ip()) {
            writeln!(output, "l{label}:").expect("writing to a string does not fail");
        }
        let mut line = String::new();
        formatter.format(i, &mut line);
        if let Some(label) = labels.get(&i.near_branch_target()).filter(|_| i.near_branch_target() != 0) {
            line = format!("{} l{label}", line.split(' ').next().unwrap_or_default());
        }
        if !line.contains("nop") {
            writeln!(output, "  {line}").expect("writing to a string does not fail");
        }
    }
    let end = instructions.last().map_or(0, |i| i.next_ip() as usize);
    for (i, word) in code[end.next_multiple_of(4).min(code.len())..].chunks(4).enumerate() {
        let at = end.next_multiple_of(4) + 4 * i;
        let value = word.iter().rev().fold(0u32, |v, &byte| v << 8 | u32::from(byte));
        writeln!(output, "  {at:#x}: {value:#010x}").expect("writing to a string does not fail");
    }
}
