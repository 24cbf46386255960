//! Loop optimisation: passes from kernels to kernels, each a function in a file of its own.

mod pieces;

pub use pieces::cut_long_loops;

use super::CodegenOptions;
use crate::loopir::Kernel;

/// All passes, in order.
pub fn optimize(mut kernel: Kernel, _options: &CodegenOptions) -> Kernel {
    run("cut_long_loops", &mut kernel, cut_long_loops);
    kernel
}

/// Runs a pass, and in debug builds verifies what it made.
fn run(name: &str, kernel: &mut Kernel, pass: impl FnOnce(&mut Kernel)) {
    pass(kernel);
    if cfg!(debug_assertions) {
        crate::loopir::verify::assert_valid(kernel, name);
    }
}
