//! Tests of `build`: what is built is called from C, C++ and Rust, and compared.
//!
//! They need `cc` and `rustc`, as building tvmr does.

use super::{MATMUL, dir, fails, succeeds, text};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, SectionKind};
use std::path::Path;
use std::process::Command;

const KERNELS: &str = "tests/data/deploy/kernels.tir";
const CHECK: &str = "tests/data/deploy/check.c";

/// Builds the test functions; returns what `build` printed.
fn build(output: &Path, emit: &str, more: &[&str]) -> String {
    let all = [&["build", KERNELS, "--as-written", "--quiet", "--emit", emit, "-o", text(output)], more].concat();
    succeeds(&all).out
}

/// A C compiler, which Rust itself needs to link. C++ is compiled where that is installed, else the same source as C.
fn cpp_compiler() -> Command {
    let has_cpp = Command::new("c++").arg("--version").output().is_ok_and(|o| o.status.success());
    let mut command = Command::new(if has_cpp { "c++" } else { "cc" });
    command.args(if has_cpp { &["-x", "c++", "-std=c++11"][..] } else { &["-std=c99"] });
    command
}

/// Runs a command that must succeed; returns its output.
fn run(command: &mut Command) -> String {
    let done = command.output().expect("it starts");
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn objects_are_called_from_c() {
    let dir = dir();
    let written = build(&dir.path().join("new/kernels"), "obj,header", &["--threads", "2"]);
    let names: Vec<&str> = written.lines().filter_map(|l| l.rsplit('/').next()).collect();
    assert_eq!(names, ["kernels.o", "kernels.h"]);
    let program = dir.path().join("check");
    let mut cc = Command::new("cc");
    cc.args([
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DKERNELS_USE_PTHREADS",
        "-I",
        text(&dir.path().join("new")),
        CHECK,
    ]);
    let linked = run(cc.arg(dir.path().join("new/kernels.o")).args(["-lm", "-pthread", "-o", text(&program)]));
    assert_eq!(linked, "");
    assert_eq!(run(&mut Command::new(&program)), "all functions agree\n");
}

#[test]
fn every_instruction_set_agrees_in_c() {
    let dir = dir();
    let mut n = 0;
    for more in
        [&["--isa", "portable"][..], &["--isa", "portable", "--strict-fp"], &["--isa", "avx2"], &["--isa", "avx512"]]
    {
        let out = dir.path().join(more.join("_")).join("kernels");
        let all =
            [&["build", KERNELS, "--as-written", "--threads", "2", "--emit", "static,header", "-o", text(&out)], more]
                .concat();
        let done = super::run(&all);
        if done.code == 2 && done.err.contains("this CPU does not have") {
            continue;
        }
        assert_eq!(done.code, 0, "{}", done.err);
        let program = out.with_extension("bin");
        let folder = out.parent().expect("a folder");
        run(Command::new("cc").args(["-std=c99", "-I", text(folder), CHECK]).arg(folder.join("libkernels.a")).args([
            "-lm",
            "-o",
            text(&program),
        ]));
        assert_eq!(run(&mut Command::new(&program)), "all functions agree\n", "{more:?}");
        n += 1;
    }
    assert!(n >= 2, "portable code runs everywhere");
}

#[test]
fn shared_libraries_are_called_from_cpp() {
    let dir = dir();
    build(&dir.path().join("kernels"), "shared,header", &["--threads", "2"]);
    let program = dir.path().join("check");
    run(cpp_compiler()
        .args(["-Wall", "-Wextra", "-Werror", "-DKERNELS_SHARED", "-I", text(dir.path()), CHECK])
        .args(["-L", text(dir.path()), "-lkernels", "-lm", "-o", text(&program)]));
    assert_eq!(run(Command::new(&program).env("LD_LIBRARY_PATH", dir.path())), "all functions agree\n");
    let bytes = std::fs::read(dir.path().join("libkernels.so")).expect("written");
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).expect("ELF");
    assert!(file.section_by_name(".eh_frame").is_some_and(|s| s.size() > 500), "frames can be unwound");
    let dynamic = file.section_by_name(".dynamic").expect("a shared library").data().expect("data").to_vec();
    let tag = |entry: &[u8]| u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"));
    const TEXTREL: u64 = 22;
    assert!(dynamic.chunks_exact(16).all(|e| tag(e) != TEXTREL), "code is not changed at load time");
}

#[test]
fn rust_calls_static_libraries() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let dir = dir();
    build(&dir.path().join("kernels"), "static,rust", &["--no-tvm-ffi"]);
    let main = dir.path().join("main.rs");
    let source = "mod kernels { include!(\"kernels.rs\"); }
fn main() -> Result<(), kernels::Error> {
    let (a, b) = (vec![0.5f32; 20 * 24], vec![2.0f32; 24 * 40]);
    let mut c = vec![f32::NAN; 20 * 40];
    kernels::matmul(&a, &b, &mut c)?;
    assert!(c.iter().all(|&x| x == 24.0));
    assert_eq!(kernels::matmul(&a[1..], &b, &mut c), Err(kernels::Error::Length));
    let (image, weights) = (vec![1.0f32; 4 * 66], vec![1.0f32; 16 * 4 * 3]);
    let (mut plain, mut run) = (vec![0.0f32; 16 * 64], vec![0.0f32; 16 * 64]);
    kernels::conv(&image, &weights, &mut plain)?;
    let prepared = kernels::conv_prepare(&weights)?;
    kernels::conv_run(&image, &mut run, &prepared)?;
    assert!(plain == run && run.iter().all(|&x| x == 12.0));
    let mut r = [0; 4];
    assert_eq!(kernels::divide(&[1; 4], &[1, 0, 1, 1], &mut r), Err(kernels::Error::Division));
    let halves = vec![0x3c00u16; 100];
    let mut doubled = vec![0u16; 100];
    kernels::half(&halves, &mut doubled)?;
    assert!(doubled.iter().all(|&x| x == 0x4000));
    let mut sum = [0.0f32; 50];
    kernels::axpy(2.5, &a[..50], &b[..50], &mut sum)?;
    assert!(sum.iter().all(|&x| x == 3.25));
    let from: Vec<i32> = (0..20).collect();
    let mut to = [0; 18];
    kernels::strided(&from, &mut to)?;
    assert!(to[..3] == [0, 16, 32] && to[3] == 0 && to[17] == 38);
    assert_eq!(kernels::strided(&from[..19], &mut to), Err(kernels::Error::Length));
    Ok(())
}
";
    std::fs::write(&main, source).expect("writable");
    let program = dir.path().join("main");
    run(Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "-D",
            "warnings",
            "-L",
            text(dir.path()),
            "-l",
            "static=kernels",
            "-o",
            text(&program),
        ])
        .arg(&main));
    run(&mut Command::new(&program));
}

/// A program with every function of scalars that programs have, in each float type.
fn all_functions() -> String {
    const ONE: &[&str] = &[
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "tanh",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "sigmoid",
        "sqrt",
        "rsqrt",
        "floor",
        "ceil",
        "trunc",
        "round",
        "nearbyint",
        "fabs",
    ];
    const TWO: &[&str] = &["atan2", "pow", "fmod", "hypot", "nextafter", "copysign"];
    let mut text = "@I.ir_module\nclass Module:\n".to_owned();
    for dtype in ["float16", "bfloat16", "float32", "float64"] {
        let n = ONE.len() + TWO.len();
        text += &format!(
            "    @T.prim_func\n    def {dtype}(A: T.Buffer((7,), \"{dtype}\"), B: T.Buffer(({n}, 7), \"{dtype}\")):\n"
        );
        for (i, f) in ONE.iter().chain(TWO).enumerate() {
            let call = if i < ONE.len() { format!("T.{f}(A[v])") } else { format!("T.{f}(A[v], A[6 - v])") };
            text += &format!(
                "        for i in range(7):\n            with T.block(\"b{i}\"):\n                v = T.axis.spatial(7, i)\n                B[{i}, v] = {call}\n"
            );
        }
    }
    text
}

#[test]
fn objects_with_every_function_need_the_c_library_alone() {
    let dir = dir();
    let program = dir.path().join("all.tir");
    std::fs::write(&program, all_functions()).expect("writable");
    let mut n = 0;
    for isa in ["portable", "avx2", "avx512-256", "avx512"] {
        let out = dir.path().join(isa);
        let done = super::run(&["build", text(&program), "--as-written", "--isa", isa, "-o", text(&out)]);
        if done.code == 2 && done.err.contains("this CPU does not have") {
            continue;
        }
        assert_eq!(done.code, 0, "{isa}: {}", done.err);
        let bytes = std::fs::read(out.with_extension("o")).expect("written");
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).expect("ELF");
        for symbol in file.symbols().filter(|s| s.is_undefined()) {
            let name = symbol.name().expect("UTF-8");
            let known = ["", "aligned_alloc", "free", "madvise", "memcpy", "memset"].contains(&name);
            assert!(known || (symbol.is_weak() && name == "TVMFFIErrorSetRaisedFromCStr"), "{isa}: `{name}`");
        }
        // Absolute addresses are in data alone.
        for section in file.sections().filter(|s| matches!(s.kind(), SectionKind::Text | SectionKind::ReadOnlyData)) {
            for (at, relocation) in section.relocations() {
                let RelocationFlags::Elf { r_type } = relocation.flags() else { panic!("not ELF") };
                let absolute =
                    [object::elf::R_X86_64_64, object::elf::R_X86_64_32, object::elf::R_X86_64_32S].contains(&r_type);
                assert!(cfg!(not(target_arch = "x86_64")) || !absolute, "{isa}: {:?} at {at}", section.name());
            }
        }
        assert!(file.section_by_name(".note.GNU-stack").is_some(), "the stack is not executable");
        n += 1;
    }
    assert!(n >= 1, "portable code is for every machine");
}

#[test]
fn symbolic_programs_have_a_version_for_each_size() {
    let dir = dir();
    let program = dir.path().join("dynamic.tir");
    std::fs::write(
        &program,
        "@T.prim_func
def scale(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 16), \"float32\")
    B = T.match_buffer(b, (n, 16), \"float32\")
    for i, j in T.grid(n, 16):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
",
    )
    .expect("writable");
    let out = dir.path().join("dynamic");
    let args = ["build", text(&program), "--as-written", "-o", text(&out), "--emit", "obj,header,rust,manifest"];
    fails(&args, 2, "give it a value with `--bind`");
    succeeds(&[&args[..], &["--bind", "n=1..3,8"]].concat());
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out.with_extension("json")).expect("written")).expect("JSON");
    let versions = json["functions"][0]["versions"].as_array().expect("a list");
    let sizes: Vec<i64> = versions.iter().filter_map(|v| v["sizes"][0].as_i64()).collect();
    assert_eq!(sizes, [1, 2, 3, 8]);
    assert_eq!(versions[3]["params"][0]["shape"], serde_json::json!([8, 16]));
    let main = dir.path().join("main.c");
    std::fs::write(
        &main,
        "#include \"dynamic.h\"
static float a[128], b[128];
int main(void) {
    int i;
    for (i = 0; i < 128; i++) {
        a[i] = (float)i;
    }
    if (dynamic_scale(a, b, 8) != DYNAMIC_OK || b[127] != 254 || dynamic_scale(a, b, 5) != DYNAMIC_ERROR_SIZE) {
        return 1;
    }
    return dynamic_scale(a, b, 1) != DYNAMIC_OK;
}
",
    )
    .expect("writable");
    let program = dir.path().join("main");
    run(Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", text(dir.path())])
        .arg(&main)
        .arg(out.with_extension("o"))
        .args(["-o", text(&program)]));
    run(&mut Command::new(&program));
}

#[test]
fn records_are_built_and_frozen_builds_need_them() {
    let dir = dir();
    let db = dir.path().join("db");
    let out = dir.path().join("mm");
    let args = ["build", MATMUL, "-o", text(&out), "--work-dir", text(&db), "--emit", "obj,manifest"];
    fails(&[&args[..], &["--frozen"]].concat(), 1, "no record for `main` on this target");
    assert!(!out.with_extension("o").exists(), "a refused build writes nothing");
    let warned = succeeds(&args);
    assert!(warned.err.contains("built as written"), "{}", warned.err);
    succeeds(&["tune", MATMUL, "--trials", "4", "--work-dir", text(&db), "--quiet"]);
    let built = succeeds(&[&args[..], &["--frozen"]].concat());
    assert!(built.err.contains("µs"), "{}", built.err);
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out.with_extension("json")).expect("written")).expect("JSON");
    let version = &json["functions"][0]["versions"][0];
    assert!(version["latency_us"].as_f64().is_some_and(|us| us > 0.0), "{json}");
    assert_eq!(version["isa"].as_array().and_then(|a| a.last()), Some(&serde_json::json!("portable")));
    // However a schedule initialises the sums: the program only writes them.
    assert_eq!(version["params"][2]["access"], "out", "{json}");
    let size = std::fs::metadata(out.with_extension("o")).expect("written").len();
    assert!(size <= 64 << 10, "the object has {size} bytes");
    // Equal records give equal objects.
    let first = std::fs::read(out.with_extension("o")).expect("written");
    succeeds(&args);
    assert_eq!(std::fs::read(out.with_extension("o")).expect("written"), first);
}

#[test]
fn mistakes_are_told() {
    let dir = dir();
    let out = dir.path().join("x");
    fails(&["build", MATMUL, "-o", text(dir.path())], 2, "is a directory");
    fails(&["build", MATMUL, "-o", text(&out), "--emit", "dll"], 2, "invalid value 'dll'");
    fails(&["build", MATMUL, "-o", text(&out), "--prefix", "a-b"], 2, "`a-b` is not a name in C");
    fails(&["build", MATMUL, "-o", text(&out), "--func", "mian"], 2, "mian");
    fails(&["build", MATMUL, "-o", text(&out), "--bind", "n=3..1"], 2, "is empty");
    fails(&["build", "nowhere.tir", "-o", text(&out)], 2, "cannot read `nowhere.tir`");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("writable");
    fails(&["build", MATMUL, "-o", text(&file.join("x"))], 3, "cannot make the directory");
    let program = dir.path().join("twins.tir");
    let func = |name: &str| {
        format!(
            "    @T.prim_func\n    def {name}(A: T.Buffer((4,), \"float32\"), B: T.Buffer((4,), \"float32\")):\n        for i in range(4):\n            with T.block(\"B\"):\n                v = T.axis.spatial(4, i)\n                B[v] = A[v]\n"
        )
    };
    std::fs::write(&program, format!("@I.ir_module\nclass Module:\n{}{}", func("f"), func("f_ws"))).expect("writable");
    fails(&["build", text(&program), "-o", text(&out), "--as-written"], 2, "are both `x_f_ws` in C");
    // Two objects in one program: prefixes keep them apart.
    succeeds(&["build", MATMUL, "-o", text(&out), "--as-written", "--prefix", "one"]);
    let bytes = std::fs::read(out.with_extension("o")).expect("written");
    let file = ElfFile64::<LittleEndian>::parse(&*bytes).expect("ELF");
    let names: Vec<&str> =
        file.symbols().filter(|s| s.is_global() && !s.is_undefined()).filter_map(|s| s.name().ok()).collect();
    assert!(names.contains(&"one_main") && names.contains(&"__tvm_ffi_one_main"), "{names:?}");
    assert!(names.iter().all(|n| n.starts_with("one_") || n.starts_with("__tvm_ffi_one_")), "{names:?}");
}

#[test]
fn without_a_linker_the_error_says_what_helps() {
    let dir = dir();
    let out = dir.path().join("x");
    let done = super::tvmr(&["build", MATMUL, "-o", text(&out), "--as-written", "--emit", "shared"])
        .env("PATH", dir.path())
        .env_remove("CC")
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{error}");
    assert!(error.contains("no linker was found") && error.contains("--emit obj"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "nothing is left behind");
}

/// Compiles a C program of `tests/data/deploy` with an object, and returns what it prints.
fn with_object(program: &str, object: &Path, flags: &[&str]) -> String {
    let binary = object.with_extension("bin");
    run(Command::new("cc")
        .args(["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-I", text(object.parent().expect("a folder"))])
        .args(flags)
        .arg(format!("tests/data/deploy/{program}.c"))
        .arg(object)
        .args(["-lm", "-pthread", "-o", text(&binary)]));
    run(&mut Command::new(binary))
}

#[test]
fn wrong_calls_are_refused() {
    let dir = dir();
    build(&dir.path().join("kernels"), "obj,header", &[]);
    let object = dir.path().join("kernels.o");
    let out = with_object("wrong_use", &object, &[]);
    let n: usize = out.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(n >= 45, "{out}");
}

/// Where the library keeps the features of the CPU, the object says that there are none.
#[test]
fn a_cpu_without_the_instruction_set_is_an_error() {
    let dir = dir();
    let out = dir.path().join("kernels");
    let args = ["build", KERNELS, "--as-written", "--isa", "avx2", "-o", text(&out), "--emit", "obj,header"];
    let done = super::run(&args);
    if done.code == 2 && done.err.contains("this CPU does not have") {
        // This one lacks it indeed, so that no such object can be made here.
        return;
    }
    assert_eq!(done.code, 0, "{}", done.err);
    let path = out.with_extension("o");
    let mut bytes = std::fs::read(&path).expect("written");
    let at = {
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).expect("ELF");
        let library = file.symbols().find(|s| s.name() == Ok("library")).expect("the library's state");
        let section = file.section_by_index(library.section_index().expect("defined")).expect("a section");
        let (start, _) = section.file_range().expect("data");
        // Sequence and number of workers, hook, its context, the pool.
        (start + library.address() + 4 + 4 + 8 + 8 + 8) as usize
    };
    assert_eq!(bytes[at..at + 4], [0; 4], "nothing is known at the start");
    // Looked up, and without features.
    bytes[at] = 1;
    std::fs::write(&path, bytes).expect("writable");
    assert_eq!(with_object("wrong_use", &path, &["-DLACKS_CPU", "-Wno-unused"]), "2 wrong calls were refused\n");
}

#[test]
fn libraries_are_good_guests() {
    let dir = dir();
    build(&dir.path().join("kernels"), "obj,shared,header", &["--threads", "2"]);
    let linked = with_object("guest", &dir.path().join("kernels.o"), &["-DKERNELS_USE_PTHREADS"]);
    assert_eq!(linked, "a good guest\n");
    let library = dir.path().join("libkernels.so");
    let path = format!("-Wl,-rpath,{}", text(dir.path()));
    assert_eq!(with_object("guest", &library, &["-DKERNELS_SHARED", &path]), "a good guest\n");
}
