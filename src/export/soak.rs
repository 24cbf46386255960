//! Differential soak test: random programs of every kind as objects, which the system's compiler links into a library, called from C
//! and compared with the evaluator.
//!
//! `cargo test` builds a few of each kind, and `TVMR_SOAK=N cargo test --lib soak` builds `N`, from the seed `TVMR_SOAK_SEED` on.

use super::abi::Code;
use super::code_module::CodeModule;
use super::compile::{Compiled, Sized, finish, module};
use super::interface::{Function, Library, Param};
use super::layout::FunctionLayout;
use super::{ExportError, Kind, c_name};
use crate::codegen::CodegenOptions;
use crate::codegen::testing::memory::Flush;
use crate::codegen::testing::programs::{self, Program, program};
use crate::codegen::testing::{Evaluated, in_guarded_memory, random_params, wide_sets};
use crate::ir::DType;
use crate::loopir::parse::parse;
use crate::loopir::{Access, Failure, Kernel, Storage};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Number of programs of each kind in an ordinary test run.
const FEW: u64 = 2;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
fn linked_objects_agree_with_the_evaluator() {
    let first = setting("TVMR_SOAK_SEED").unwrap_or(0);
    let seeds = first..first + setting("TVMR_SOAK").unwrap_or(FEW);
    let all: Vec<(String, u64, Program)> = programs::Kind::ALL
        .iter()
        .flat_map(|&kind| seeds.clone().map(move |seed| (format!("{kind:?} {seed}"), seed, program(kind, seed))))
        .collect();
    let portable = CodegenOptions { any_cpu: true, ..CodegenOptions::default() };
    // This CPU's best instruction set comes last.
    for options in wide_sets().last().copied().into_iter().chain([portable]) {
        let calls = run(&all, &options);
        println!("{options:?}: {} programs, {calls} calls, no failure", all.len());
        assert!(calls >= 2 * programs::Kind::ALL.len(), "programs were called");
    }
}

/// Builds, links and calls all programs; returns the number of calls.
fn run(all: &[(String, u64, Program)], options: &CodegenOptions) -> usize {
    let dir = tempfile::tempdir().expect("a directory");
    let kernels: Vec<Kernel> = all.iter().map(|(_, _, p)| parse(&p.text).unwrap_or_else(|e| panic!("{e}"))).collect();
    let (mut declarations, mut cases) = (String::new(), String::new());
    let mut files = vec!["caller.c".to_owned()];
    for (i, kernel) in kernels.iter().enumerate() {
        let bytes = object(i, kernel, options).unwrap_or_else(|e| panic!("{}: {e}", all[i].0));
        std::fs::write(dir.path().join(format!("{i}.o")), bytes).expect("writable");
        files.push(format!("{i}.o"));
        let n = kernel.params().len();
        let args: Vec<String> = (0..n).map(|k| format!("args[{k}]")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(declarations, "int32_t p{i}_f({});", vec!["void *"; n].join(", "));
        let _ = writeln!(cases, "    case {i}: return p{i}_f({});", args.join(", "));
    }
    let caller = format!(
        "#include <stdint.h>\n{declarations}int32_t call(int program, void **args) {{\n    switch (program) {{\n{cases}    }}\n    return -1;\n}}\n"
    );
    std::fs::write(dir.path().join("caller.c"), caller).expect("writable");
    let mut cc = Command::new("cc");
    cc.current_dir(dir.path()).args(["-std=c99", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", "all.so"]);
    let linked = cc.args(&files).output().expect("a C compiler, which linking Rust needs as well");
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    let call = open(&dir.path().join("all.so"));
    let mut calls = 0;
    for (i, ((name, seed, program), kernel)) in all.iter().zip(&kernels).enumerate() {
        let evaluated = Evaluated::new(kernel, random_params(kernel, *seed), *seed);
        let types: Vec<DType> = kernel.params().iter().map(|p| p.dtype).collect();
        for flush in [Flush::Start, Flush::End] {
            let found = in_guarded_memory(&types, &evaluated.params, flush, |args| {
                // SAFETY: the library stays loaded; a wrong access hits a guard.
                match unsafe { call(i as i32, args.as_ptr()) } {
                    0 => Ok(()),
                    code => Err(code),
                }
            });
            evaluated.compare(found, code, program.fast, &format!("{name}, {options:?}, {flush:?}"));
            calls += 1;
        }
    }
    calls
}

/// The error number of a failure.
fn code(failure: Failure) -> i32 {
    let code = match failure {
        Failure::OutOfBounds { .. } => Code::Bounds,
        Failure::Division => Code::Division,
        Failure::Assertion { .. } => Code::Assertion,
    };
    code as i32
}

type Call = unsafe extern "C" fn(program: i32, args: *const *mut u8) -> i32;

/// Loads the library, for good.
fn open(path: &Path) -> Call {
    let name = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no zero byte");
    // SAFETY: the library has no initialisers, and its function has this type.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "{}", std::ffi::CStr::from_ptr(libc::dlerror()).to_string_lossy());
        let symbol = libc::dlsym(library, c"call".as_ptr());
        assert!(!symbol.is_null(), "the caller is there");
        std::mem::transmute::<*mut libc::c_void, Call>(symbol)
    }
}

/// The object of a kernel, whose function is called `p{i}_f`.
fn object(i: usize, kernel: &Kernel, options: &CodegenOptions) -> Result<Vec<u8>, ExportError> {
    let function = Function { name: "f".to_owned(), size_names: Vec::new(), batch: None, versions: Vec::new() };
    let library = Library {
        name: format!("p{i}"),
        prefix: format!("p{i}"),
        ffi_prefix: String::new(),
        has_tvm_ffi: false,
        functions: Vec::new(),
        external_weights: None,
    };
    let params: Vec<Param> = kernel.params().iter().map(param).collect();
    let mut module: CodeModule = module(&library)?;
    let one = Compiled::of(&mut module, "f.kernel", kernel, None, options);
    let compiled = vec![one.map_err(|error| ExportError::Codegen { func: library.name.clone(), error })?];
    let sized =
        Sized { sizes: Vec::new(), params: params.clone(), prepared: Vec::new(), compiled, needs_weights: false };
    finish(module, &library, &[(FunctionLayout::of_params(&function, params), vec![sized])], Kind::Linked)
}

fn param(buffer: &crate::loopir::Buffer) -> Param {
    Param {
        name: buffer.name.to_string(),
        c_name: c_name(buffer.name.as_str()),
        dtype: buffer.dtype,
        shape: vec![buffer.len],
        strides: None,
        offset: 0,
        by_value: false,
        access: match buffer.storage {
            Storage::Param(access) => access,
            Storage::Scratch(_) => Access::In,
        },
    }
}
