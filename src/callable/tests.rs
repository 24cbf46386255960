use super::*;
use crate::ir::DType;
use crate::machine::Isa;
use crate::script::{ParseOptions, parse};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const SUM: &str = "@T.prim_func
def add(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\"), C: T.Buffer((64,), \"float32\")):
    for i in range(64):
        with T.block(\"C\"):
            v = T.axis.spatial(64, i)
            C[v] = A[v] + B[v]
";

const PREPARED: &str = "@T.prim_func
def main(W: T.Buffer((64,), \"float32\"), X: T.Buffer((64,), \"float32\"), Y: T.Buffer((64,), \"float32\")):
    T.func_attr({\"layout_free_buffers\": [0]})
    P = T.alloc_buffer((64,), \"float32\")
    for i in range(64):
        with T.block(\"P\"):
            v = T.axis.spatial(64, i)
            T.block_attr({\"meta_schedule.layout_rewrite_preproc\": True})
            P[v] = W[63 - v]
    for i in T.parallel(64):
        with T.block(\"Y\"):
            v = T.axis.spatial(64, i)
            Y[v] = P[v] + X[v]
";

const STRIDED: &str = "@T.prim_func
def main(a: T.handle, B: T.Buffer((4, 4), \"int32\")):
    A = T.match_buffer(a, (4, 4), \"int32\", strides=(8, 1), elem_offset=2)
    for i, j in T.grid(4, 4):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj]
";

fn compile(text: &str, threads: u32) -> Callable {
    let parsed = parse(text, "test", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let workload = Workload::of(&parsed.module, 0);
    let setting = Setting { threads, isa: Isa::Portable, ..Setting::native() };
    Callable::compile(&workload, workload.func(), &setting, None).expect("it compiles")
}

fn floats(from: f32) -> Vec<f32> {
    (0..64u8).map(|i| from + f32::from(i)).collect()
}

#[track_caller]
fn refused(result: Result<(), CallError>, text: &str) {
    assert_eq!(result, Err(CallError::Argument(text.to_owned())));
}

#[test]
fn arrays_need_no_more_alignment_than_their_elements() {
    let add = compile(SUM, 1);
    let (a, b) = (floats(0.0), floats(1.0));
    // Each is at another distance from a cache line.
    let (mut a, mut b) = ([vec![0.0], a].concat(), [vec![0.0; 2], b].concat());
    a.reserve(1);
    b.reserve(2);
    let mut c = vec![f32::NAN; 67];
    let arrays = [ArrayRef::of(&a[1..], &[64]), ArrayRef::of(&b[2..], &[64]), ArrayRef::of_mut(&mut c[3..], &[64])];
    add.call(&arrays).expect("it runs");
    assert!((0..64).all(|i| c[i + 3] == a[i + 1] + b[i + 2]));
    assert!(c[..3].iter().all(|x| x.is_nan()));
    assert_eq!(add.outputs().collect::<Vec<_>>(), [2]);
}

#[test]
fn an_array_that_does_not_fit_is_refused() {
    let add = compile(SUM, 1);
    let (a, mut c) = (floats(0.0), floats(0.0));
    let doubles = vec![0.0f64; 64];
    let good = ArrayRef::of(&a, &[64]);
    let out = ArrayRef::of_mut(&mut c, &[64]);
    let call = |b: &ArrayRef<'_>, c: &ArrayRef<'_>| add.call(&[good.clone(), b.clone(), c.clone()]);
    assert_eq!(call(&good, &out), Ok(()));
    refused(call(&ArrayRef::of(&doubles, &[64]), &out), "argument 1 of `add`, `B`: expected float32, found float64");
    refused(call(&ArrayRef::of(&a, &[8, 8]), &out), "argument 1 of `add`, `B`: expected shape [64], found [8, 8]");
    refused(call(&good, &good), "argument 2 of `add`, `C`: it is written, but the array is read-only");
    refused(call(&out, &out), "`add` writes `C`, which overlaps `B`; pass arrays that do not overlap");
    // SAFETY: the calls are refused before anything is read.
    let raw = |data: usize, strides: Option<&[i64]>| unsafe {
        ArrayRef::from_raw(std::ptr::without_provenance_mut(data), DType::Float32, &[64], strides, false)
    };
    refused(
        call(&raw(64, Some(&[2])), &out),
        "argument 1 of `add`, `B`: expected contiguous elements, which are strides of [1] elements, found [2]",
    );
    refused(call(&raw(0, None), &out), "argument 1 of `add`, `B`: the array has no memory");
    refused(
        call(&raw(66, None), &out),
        "argument 1 of `add`, `B`: the array is not aligned to its elements of 4 bytes; copy it to memory that is",
    );
    refused(
        add.call(std::slice::from_ref(&good)),
        "`add` takes 3 arrays (`A`, `B`, `C`), or 2 without the outputs (`C`); found 1",
    );
}

#[test]
fn a_strided_parameter_takes_arrays_with_its_strides() {
    let copy = compile(STRIDED, 1);
    let a: Vec<i32> = (0..32).collect();
    let mut b = vec![0i32; 16];
    let out = ArrayRef::of_mut(&mut b, &[4, 4]);
    // SAFETY: the last element is the 28th.
    let rows = |strides: &[i64]| unsafe {
        ArrayRef::from_raw(a.as_ptr().cast_mut().cast(), DType::Int32, &[4, 4], Some(strides), false)
    };
    refused(
        copy.call(&[ArrayRef::of(&a[..16], &[4, 4]), out.clone()]),
        "argument 0 of `main`, `A`: expected strides of [8, 1] elements, found [4, 1]",
    );
    assert_eq!(copy.call(&[rows(&[8, 1]), out]), Ok(()));
    // The array is the part of the buffer behind its offset.
    assert_eq!(b, [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
}

#[test]
fn constant_parameters_are_prepared_once_and_when_asked() {
    let f = compile(PREPARED, 2);
    assert_eq!(f.constants(), [0]);
    let (w, x, mut y) = (floats(1.0), floats(0.0), floats(0.0));
    let expected = |w: &[f32]| w.iter().rev().zip(&x).map(|(w, x)| w + x).collect::<Vec<f32>>();
    let mut call = |w: &[f32]| {
        f.call(&[ArrayRef::of(w, &[64]), ArrayRef::of(&x, &[64]), ArrayRef::of_mut(&mut y, &[64])]).expect("it runs");
        y.clone()
    };
    assert_eq!(call(&w), expected(&w));
    let other = floats(7.0);
    assert_eq!(call(&other), expected(&w), "later calls do not prepare");
    f.prepare(&[ArrayRef::of(&other, &[64])]).expect("it runs");
    assert_eq!(call(&w), expected(&other));
    refused(f.prepare(&[]), "`main` takes 1 array (`W`); found 0");
}

#[test]
fn calls_of_several_threads_share_nothing() {
    let f = compile(PREPARED, 2);
    let w = floats(1.0);
    let wrong = AtomicU32::new(0);
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let (f, w, wrong) = (&f, &w, &wrong);
            s.spawn(move || {
                let x = floats(f32::from(t));
                let mut y = floats(0.0);
                for _ in 0..200 {
                    let arrays = [ArrayRef::of(w, &[64]), ArrayRef::of(&x, &[64]), ArrayRef::of_mut(&mut y, &[64])];
                    let is_right = f.call(&arrays).is_ok() && y.iter().all(|y| *y == 64.0 + f32::from(t));
                    wrong.fetch_add(u32::from(!is_right), Relaxed);
                }
            });
        }
    });
    assert_eq!(wrong.into_inner(), 0);
}

/// A forked process has no worker threads: its calls are serial, and dropping the function waits for nobody.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_process_can_call_and_drop() {
    let f = compile(PREPARED, 2);
    let (w, x, mut y) = (floats(1.0), floats(0.0), floats(0.0));
    f.call(&[ArrayRef::of(&w, &[64]), ArrayRef::of(&x, &[64]), ArrayRef::of_mut(&mut y, &[64])]).expect("it runs");
    let mut again = vec![0.0; 64];
    // SAFETY: the child calls the kernel, which allocates little, and then ends without cleaning up.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let arrays = [ArrayRef::of(&w, &[64]), ArrayRef::of(&x, &[64]), ArrayRef::of_mut(&mut again, &[64])];
        let is_right = f.call(&arrays).is_ok() && again == y;
        drop(f);
        // SAFETY: ends this process only.
        unsafe { libc::_exit(if is_right { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the child was started here.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}
