//! Tests with a library that is written in C by hand, as TVM makes them.

use super::symbols::{functions, is_library};
use super::{ForeignError, Function};
use crate::graph::libraries::{Libraries, SharedLibrary};
use crate::graph::program::Foreign;
use crate::graph::specialize::Passed;
use crate::ir::DType;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const LIBRARY: &str = r#"
#include <stdint.h>
#include <stddef.h>
typedef struct { int32_t type; uint32_t pad; void *value; } Any;
typedef struct {
    void *data; int32_t device, id, ndim; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides; uint64_t offset;
} Tensor;
void TVMFFIErrorSetRaisedFromCStr(const char *, const char *) __attribute__((weak));
void TVMFFIErrorSetRaisedFromCStrParts(const char *, const char **, int32_t);
void *(*__TVMBackendAllocWorkspace)(int32_t, int32_t, uint64_t, int32_t, int32_t);
int (*__TVMBackendFreeWorkspace)(int32_t, int32_t, void *);
int (*__TVMBackendParallelLaunch)(int (*)(int, void *, void *), void *, int);

static int body(int task, void *group, void *data) {
    int32_t n_tasks = *(int32_t *)((char *)group + 8);
    Tensor **t = data;
    for (int64_t i = task; i < t[0]->shape[0] * t[0]->shape[1]; i += n_tasks)
        ((float *)t[1]->data)[i] = 3 * ((float *)t[0]->data)[i];
    return 0;
}

/* Three times its argument, with a workspace and a parallel loop. Its name has a dot, as TVM exports it. */
int scale(void *self, const Any *args, int32_t n, Any *result) __asm__("__tvm_ffi_env.scale");
int scale(void *self, const Any *args, int32_t n, Any *result) {
    if (self || n != 2 || args[0].type != 7 || result->type != 0) return -1;
    Tensor *t[2] = {args[0].value, args[1].value};
    if (t[0]->ndim != 2 || t[0]->strides[0] != t[0]->shape[1] || t[0]->device != 1) {
        TVMFFIErrorSetRaisedFromCStr("ValueError", "expected a matrix");
        return -1;
    }
    Tensor **copy = __TVMBackendAllocWorkspace(1, 0, sizeof t, 2, 32);
    copy[0] = t[0];
    copy[1] = t[1];
    int code = __TVMBackendParallelLaunch(body, copy, 0);
    return code != 0 ? code : __TVMBackendFreeWorkspace(1, 0, copy);
}

/* The types of its arguments, as numbers. */
int __tvm_ffi_env_types(void *self, const Any *args, int32_t n, Any *result) {
    int32_t *out = ((Tensor *)args[n - 1].value)->data;
    for (int32_t i = 0; i < n - 1; i++) out[i] = 100 * ((Tensor *)args[i].value)->code + ((Tensor *)args[i].value)->bits;
    return 0;
}

/* Returns a tensor. */
int __tvm_ffi_returned(void *self, const Any *args, int32_t n, Any *result) {
    static int64_t shape[1] = {2};
    static float data[3] = {0, 5, 6};
    static Tensor tensor = {data, 1, 0, 1, 2, 32, 1, shape, NULL, 4};
    result->type = 7;
    result->value = &tensor;
    return 0;
}

int __tvm_ffi_raises(void *self, const Any *args, int32_t n, Any *result) {
    const char *parts[3] = {"Mismatched ", NULL, "shape"};
    TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 3);
    return -1;
}

int __tvm_ffi_silent(void *self, const Any *args, int32_t n, Any *result) { return 7; }
"#;

/// The library of a text in C, in a directory.
fn library(text: &str) -> (TempDir, SharedLibrary) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (source, path) = (dir.path().join("library.c"), dir.path().join("library.so"));
    std::fs::write(&source, text).expect("a source");
    let compiled = Command::new("cc").args(["-std=gnu11", "-shared", "-fPIC", "-o"]).args([&path, &source]).output();
    let compiled = compiled.expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let functions = functions(&path, &std::fs::read(&path).expect("a library")).unwrap_or_else(|e| panic!("{e}"));
    (dir, SharedLibrary { path, functions })
}

fn load(library: &SharedLibrary, name: &str, tensors: &[(DType, &[i64])]) -> Result<Function, ForeignError> {
    let libraries = Libraries { texts: Vec::new(), shared: vec![library.clone()] };
    let passed = |&(dtype, shape): &(DType, &[i64])| Passed { dtype, shape: shape.to_vec() };
    let returns = name == "returned";
    Function::load(&libraries, &Foreign { name: name.into(), tensors: tensors.iter().map(passed).collect(), returns })
}

fn call(function: Result<Function, ForeignError>, tensors: &mut [&mut [u8]]) -> Result<(), String> {
    let pointers: Vec<*mut u8> = tensors.iter_mut().map(|t| t.as_mut_ptr()).collect();
    // SAFETY: the tensors of these tests have the sizes that their types state, and the functions keep to them.
    unsafe { function.unwrap_or_else(|e| panic!("{e}")).call(&pointers) }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn functions_are_called_on_tensors() {
    let (_dir, library) = library(LIBRARY);
    assert_eq!(library.functions, ["env.scale", "env_types", "raises", "returned", "silent"]);
    let f32s = |shape: &'static [i64]| (DType::Float32, shape);
    let (mut x, mut y) = (floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[0.0; 4]));
    let scale = |t: &[(DType, &[i64])]| load(&library, "env.scale", t);
    assert_eq!(call(scale(&[f32s(&[2, 2]), f32s(&[2, 2])]), &mut [&mut x, &mut y]), Ok(()));
    assert_eq!(y, floats(&[3.0, 6.0, 9.0, 12.0]));

    let raised = call(scale(&[f32s(&[4]), f32s(&[4])]), &mut [&mut x, &mut y]);
    assert_eq!(raised, Err("ValueError: expected a matrix".to_owned()));
    let mut fails = |name: &str| call(load(&library, name, &[f32s(&[4])]), &mut [&mut x]).expect_err(name);
    assert_eq!(fails("raises"), "TypeError: Mismatched shape");
    assert_eq!(fails("silent"), "it returned 7, and no message");

    let types = [DType::Bool, DType::Int64, DType::UInt8, DType::Float16, DType::BFloat16, DType::Float64];
    let mut tensors: Vec<(DType, &[i64])> = types.iter().map(|&t| (t, &[1][..])).collect();
    tensors.push((DType::Int32, &[6]));
    let (mut one, mut found) = (vec![[0; 8]; 6], [0; 24]);
    let mut all: Vec<&mut [u8]> = one.iter_mut().map(|t| &mut t[..]).collect();
    all.push(&mut found);
    assert_eq!(call(load(&library, "env.types", &tensors), &mut all), Ok(()));
    let found: Vec<i32> = found.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    assert_eq!(found, [608, 64, 108, 216, 416, 264]);
}

#[test]
fn returned_tensors_are_copied() {
    let (_dir, library) = library(LIBRARY);
    let returned = |ty: (DType, &[i64])| load(&library, "returned", &[ty]);
    let mut out = floats(&[0.0; 2]);
    assert_eq!(call(returned((DType::Float32, &[2])), &mut [&mut out]), Ok(()));
    assert_eq!(out, floats(&[5.0, 6.0]));
    for ty in [(DType::Float32, &[1, 2][..]), (DType::Int32, &[2])] {
        let error = call(returned(ty), &mut [&mut out]).expect_err("another type");
        assert!(error.starts_with("it returned a tensor of float32 [2], expected "), "{error}");
    }
}

#[test]
fn libraries_that_cannot_be_used_are_told() {
    let (dir, found) = library(LIBRARY);
    let message = |library: &SharedLibrary, name: &str| load(library, name, &[]).err().map(|e| e.0).unwrap_or_default();
    assert_eq!(message(&found, "other"), "no shared library with `other` is named by `--library`");
    let gone = SharedLibrary { path: dir.path().join("gone.so"), ..found };
    assert!(message(&gone, "raises").contains("gone.so`: No such file"), "{}", message(&gone, "raises"));
    let (_dir, needy) =
        library("void *__TVMFFIFunctionCall; int __tvm_ffi_f(void) { return __TVMFFIFunctionCall != 0; }");
    assert!(
        message(&needy, "f").contains("it calls `TVMFFIFunctionCall` of TVM's runtime"),
        "{}",
        message(&needy, "f")
    );

    let path = PathBuf::from("x.so");
    let message = |bytes: &[u8]| functions(&path, bytes).map_err(|e| e.0);
    assert!(is_library(b"\x7fELF\x02") && !is_library(b"@T.prim_func"));
    assert!(message(b"\x7fELF").is_err_and(|m| m.starts_with("`x.so` is no shared library: ")));
    let own = std::env::current_exe().and_then(std::fs::read).expect("the test itself");
    assert!(message(&own).is_err_and(|m| m.contains("exports no function of TVM-FFI")));
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/support.o"));
    assert!(functions(Path::new("a.o"), object).is_err_and(|e| e.0.contains("another ELF file")));
}
