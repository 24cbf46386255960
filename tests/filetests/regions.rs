//! Loop IR kernels and the machine code of their regions: `# test: regions isa ISA`, with `dots off` for a machine
//! without byte dot products.
//!
//! Code is for the machine that the case describes, not for the current one; an independent decoder disassembles it.
//! Jump targets get labels; data after the code is listed in words.

use super::{Case, Outcome};
use std::fmt::Write;
use tvmr::codegen::CodegenOptions;
use tvmr::codegen::inspect;
use tvmr::loopir::parse::parse;

pub(super) fn regions(case: &Case) -> Outcome {
    let name = case.path.display();
    let text: String = case.input.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    let kernel = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let isa = case.options.isa.unwrap_or_else(|| panic!("{name}: no instruction set"));
    let options = CodegenOptions { isa, dot_products: !case.options.no_dots, ..CodegenOptions::default() };
    let mut output = String::new();
    for (i, region) in inspect::regions(&kernel, &options).iter().enumerate() {
        writeln!(output, "region {i}: {} bytes", region.bytes.len()).expect("writing to a string does not fail");
        output.push_str(&region.assembly());
    }
    if output.is_empty() {
        output.push_str("no regions\n");
    }
    Outcome { output, rejections: Vec::new() }
}
