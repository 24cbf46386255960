//! Compiles the support code of exported objects (`src/export/support`): one relocatable object for the machine that tvmr is
//! built for, which the exporter takes apart. Where objects cannot be exported, the file is empty.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/export/support");
    println!("cargo::rerun-if-changed=src/compiler/codegen/runtime/chunks.rs");
    println!("cargo::rerun-if-changed=src/compiler/codegen/runtime/math.rs");
    println!("cargo::rerun-if-changed=src/export/abi.rs");
    println!("cargo::rerun-if-changed=src/export/ffi_abi.rs");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let object = out.join("support.o");
    export_symbols(&env::var("CARGO_CFG_TARGET_OS")?);
    let (os, arch) = (env::var("CARGO_CFG_TARGET_OS")?, env::var("CARGO_CFG_TARGET_ARCH")?);
    if os != "linux" || !matches!(arch.as_str(), "x86_64" | "aarch64") {
        fs::write(object, [])?;
        return Ok(());
    }
    compile(Path::new(&env::var("CARGO_MANIFEST_DIR")?), &out, &object)
}

/// Lets shared libraries that are loaded at run time find what `src/foreign/host.rs` defines for them in the executable.
fn export_symbols(os: &str) {
    if os != "linux" {
        return;
    }
    for symbol in ["TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts"] {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={symbol}");
    }
}

/// Builds the support code as a package of its own, so that optimisation sees it and `libm` together.
fn compile(root: &Path, out: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let package = out.join("support");
    fs::create_dir_all(package.join("src"))?;
    for file in fs::read_dir(root.join("src/export/support"))? {
        let file = file?.path();
        copy(&file, &package.join("src").join(file.file_name().ok_or("a file has a name")?))?;
    }
    // Files that tvmr itself has as modules too.
    for (file, module) in [
        ("src/compiler/codegen/runtime/chunks.rs", "chunks.rs"),
        ("src/compiler/codegen/runtime/math.rs", "math.rs"),
        ("src/export/abi.rs", "abi.rs"),
        ("src/export/ffi_abi.rs", "ffi_abi.rs"),
    ] {
        copy(&root.join(file), &package.join("src").join(module))?;
    }
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let libm = locked(&lock, "libm")?;
    let version =
        libm.lines().find_map(|l| l.strip_prefix("version = ")).ok_or("libm has a version")?.trim_matches('"');
    write(
        &package.join("Cargo.toml"),
        &format!(
            "[package]\nname = \"tvmr-support\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"staticlib\"]\n\n\
             [dependencies]\nlibm = {{ version = \"={version}\", default-features = false }}\n\n[profile.release]\nopt-level = 3\ncodegen-units = 1\nlto = \"fat\"\n\
             panic = \"abort\"\n\n[workspace]\n"
        ),
    )?;
    write(
        &package.join("Cargo.lock"),
        &format!(
            "version = 4\n\n{libm}\n[[package]]\nname = \"tvmr-support\"\nversion = \"0.0.0\"\ndependencies = [\n \"libm\",\n]\n"
        ),
    )?;
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .args(["rustc", "--release", "--lib", "--locked", "--quiet", "--target", &env::var("TARGET")?])
        .arg("--target-dir")
        .arg(out.join("support-target"))
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .args(["--", "--cfg", "tvmr_support", "-C", "relocation-model=pic"])
        .arg(format!("--emit=obj={}", object.display()))
        // Settings of the surrounding build are not for this package.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .current_dir(root);
    if !cargo.status()?.success() {
        return Err("the support code of exported objects does not compile".into());
    }
    Ok(())
}

/// The entry of a package in a lock file.
fn locked<'a>(lock: &'a str, name: &str) -> Result<&'a str, Box<dyn Error>> {
    let start = lock.find(&format!("[[package]]\nname = \"{name}\"\n")).ok_or("Cargo.lock lists the package")?;
    let rest = &lock[start..];
    Ok(rest.find("\n\n").map_or(rest, |end| &rest[..end + 1]))
}

/// Copies a file if that changes anything, so that an unchanged package is not built again.
fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    write(to, &fs::read_to_string(from)?)
}

fn write(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    Ok(fs::write(path, text)?)
}
