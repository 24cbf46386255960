//! Disassembles region code.
//!
//! An independent decoder reads the bytes, so that the text shows what the processor executes. Jump targets get labels;
//! constants after the code are listed in words.

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, MemorySizeOptions, Mnemonic};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The x86-64 machine code of a region as text, one instruction per line, in Intel syntax.
pub fn disassemble(code: &[u8]) -> String {
    let mut instructions: Vec<Instruction> = Vec::new();
    for instruction in Decoder::new(64, code, DecoderOptions::NONE) {
        instructions.push(instruction);
        if instruction.mnemonic() == Mnemonic::Ret {
            break;
        }
    }
    // The only jump instruction in use.
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
    let mut text = String::new();
    // Writing to a string cannot fail.
    for i in &instructions {
        if let Some(label) = labels.get(&i.ip()) {
            let _ = writeln!(text, "l{label}:");
        }
        let mut line = String::new();
        formatter.format(i, &mut line);
        if let Some(label) = labels.get(&i.near_branch_target()).filter(|_| i.near_branch_target() != 0) {
            line = format!("{} l{label}", line.split(' ').next().unwrap_or_default());
        }
        if !line.contains("nop") {
            let _ = writeln!(text, "  {line}");
        }
    }
    let end = instructions.last().map_or(0, |i| i.next_ip() as usize).next_multiple_of(4);
    for (i, word) in code[end.min(code.len())..].chunks(4).enumerate() {
        let value = word.iter().rev().fold(0u32, |v, &byte| v << 8 | u32::from(byte));
        let _ = writeln!(text, "  {:#x}: {value:#010x}", end + 4 * i);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_what_lies_behind_it() {
        // Two `dec rax`; a jump back to the second; `ret`; padding; a word.
        let code = [0x48, 0xff, 0xc8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(disassemble(&code), "  dec rax\nl0:\n  dec rax\n  jne l0\n  ret\n  0xc: 0x00000001\n");
        assert_eq!(disassemble(&[]), "");
    }
}
