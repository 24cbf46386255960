//! Loop IR kernels before and after optimisation: `# test: opt` runs the whole pipeline, `# test: opt pass NAME` a
//! single pass; `isa ISA` selects the instruction set, portable by default.

use super::{Case, Outcome};
use tvmr::codegen::{CodegenOptions, opt};
use tvmr::loopir::parse::parse;
use tvmr::loopir::print::print;

pub(super) fn opt(case: &Case) -> Outcome {
    let name = case.path.display();
    let text: String = case.input.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{l}\n")).collect();
    let kernel = parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let default = CodegenOptions::default();
    let options = CodegenOptions { isa: case.options.isa.unwrap_or(default.isa), ..default };
    let optimized = match &case.options.pass {
        Some(pass) => opt::run_pass(pass, kernel, &options).unwrap_or_else(|| panic!("{name}: no pass `{pass}`")),
        None => opt::optimize(kernel, &options),
    };
    let output = print(&optimized);
    let again = parse(&output).unwrap_or_else(|e| panic!("{name}: {e}\n{output}"));
    assert_eq!(print(&again), output, "{name}");
    Outcome { output, rejections: Vec::new() }
}
