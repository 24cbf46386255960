//! Compares lowered programs with the interpreter, and checks the kernels of known shapes.

use super::{LowerError, lower, lower_reference};
use crate::ir::dtype::DType;
use crate::ir::interp::{self, Arg, Tensor, Value};
use crate::ir::{Const, Func, Module};
use crate::loopir::eval::{self, Memory, memory_of};
use crate::loopir::print::print;
use crate::loopir::{Access, Kernel, Storage};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tvmr_frontend::script::{ParseOptions, parse};
use tvmr_scheduling::schedule::Schedule;

fn module(text: &str) -> Module {
    parse(text, "test.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{}", e.render(false))).module
}

/// The function after a schedule function.
fn scheduled(module: &Module, schedule: &str) -> Func {
    let mut sch = Schedule::new(module, 0);
    let function = tvmr_scheduling::schedule_function::ScheduleFunction::parse(schedule, "s.py")
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    function.apply(&mut sch).unwrap_or_else(|e| panic!("{e:?}"));
    sch.func(0).clone()
}

fn random_tensor(dtype: DType, shape: &[i64], rng: &mut ChaCha8Rng) -> Tensor {
    let values = std::iter::from_fn(|| {
        let r = (rng.next_u64() % 17) as i64 - 8;
        Some(if dtype.is_float() {
            Value::Float(r as f64 / 8.0)
        } else {
            Value::Int(if dtype.is_int() { r } else { r.abs() % if dtype == DType::Bool { 2 } else { 9 } })
        })
    });
    Tensor::from_values(dtype, shape, values)
}

fn memory(t: &Tensor) -> Memory {
    memory_of((0..t.n_elements()).map(|i| match t.get(i) {
        Value::Int(v) => Const::Int(v),
        Value::Float(v) => Const::Float(v),
    }))
}

/// Runs a function in the interpreter and a kernel in the evaluator, on the same inputs; outputs must agree.
fn compare(func: &Func, kernel: &Kernel, tolerance: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut args: Vec<Arg> = Vec::new();
    for p in &func.params {
        let b = func.arena.buffer(p.buffer.expect("a buffer"));
        let shape: Vec<i64> =
            func.arena.list(b.shape).iter().map(|&e| func.arena.as_int(e).expect("constant")).collect();
        args.push(Arg::Tensor(random_tensor(b.dtype, &shape, &mut rng)));
    }
    let mut memories: Vec<Memory> = args.iter().filter_map(Arg::tensor).map(memory).collect();
    for (m, p) in memories.iter_mut().zip(kernel.params()) {
        if p.storage == Storage::Param(Access::Out) {
            m.iter_mut().for_each(|v| *v = None);
        }
    }
    interp::run(func, &mut args, interp::Options::default()).unwrap_or_else(|e| panic!("{}", e.message(func)));
    eval::run(kernel, &mut memories).unwrap_or_else(|e| panic!("{e:?} in\n{}", print(kernel)));
    for (arg, (found, p)) in args.iter().zip(memories.iter().zip(kernel.params())) {
        let expected = memory(arg.tensor().expect("a tensor"));
        for (i, (e, f)) in expected.iter().zip(found).enumerate() {
            let right = match (e, f) {
                (Some(Const::Float(e)), Some(Const::Float(f))) => {
                    (e - f).abs() <= tolerance * (1.0 + e.abs()) || e.is_nan() && f.is_nan()
                }
                (e, f) => e == f,
            };
            assert!(right, "{}[{i}] is {f:?}, expected {e:?}, in\n{}", p.name, print(kernel));
        }
    }
}

fn check(func: &Func) -> Kernel {
    let kernel = lower(func).unwrap_or_else(|e| panic!("{e}"));
    compare(func, &kernel, 1e-6);
    let wide = lower_reference(func).unwrap_or_else(|e| panic!("{e}"));
    compare(func, &wide, 1e-4);
    kernel
}

const MATMUL: &str = "@T.prim_func
def main(A: T.Buffer((16, 24), \"float32\"), B: T.Buffer((24, 32), \"float32\"), C: T.Buffer((16, 32), \"float32\")):
    for i, j, k in T.grid(16, 32, 24):
        with T.block(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
";

#[test]
fn matmul_as_written() {
    let module = module(MATMUL);
    let kernel = check(&module.funcs[0]);
    assert_eq!(
        print(&kernel),
        "kernel @main(A: in float32[384], B: in float32[768], C: out float32[512]) {
  for i in 16 independent {
    for j in 32 independent {
      C[i * 32 + j] = 0.0
      for k in 24 reduction {
        C[i * 32 + j] = C[i * 32 + j] + A[i * 24 + k] * B[j + k * 32]
      }
    }
  }
}
"
    );
}

#[test]
fn fused_and_split_loops() {
    let module = module(MATMUL);
    for schedule in [
        "def f(sch):
    b = sch.get_block(\"C\")
    i, j, k = sch.get_loops(b)
    f = sch.fuse(i, j)
    a, c = sch.split(f, [None, 48])
    sch.parallel(a)
    sch.vectorize(c)
",
        "def f(sch):
    b = sch.get_block(\"C\")
    i, j, k = sch.get_loops(b)
    i0, i1 = sch.split(i, [None, 5])
    j0, j1 = sch.split(j, [None, 7])
    k0, k1 = sch.split(k, [None, 9])
    sch.reorder(i0, j0, k0, i1, k1, j1)
",
        "def f(sch):
    b = sch.get_block(\"C\")
    i, j, k = sch.get_loops(b)
    k0, k1 = sch.split(k, [4, None])
    sch.reorder(k0, i, k1, j)
",
        "def f(sch):
    b = sch.get_block(\"C\")
    i, j, k = sch.get_loops(b)
    f = sch.fuse(j, k)
    sch.split(f, [None, 16])
",
        "def f(sch):
    b = sch.get_block(\"C\")
    i, j, k = sch.get_loops(b)
    k0, k1 = sch.split(k, [4, None])
    sch.reorder(i, k0, j, k1)
    sch.vectorize(j)
    sch.decompose_reduction(b, k0)
",
    ] {
        check(&scheduled(&module, schedule));
    }
}

const CHAIN: &str = "@T.prim_func
def main(A: T.Buffer((64, 64), \"float32\"), C: T.Buffer((62, 64), \"float32\")):
    B = T.alloc_buffer((64, 64))
    for i, j in T.grid(64, 64):
        with T.block(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(62, 64):
        with T.block(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 2, vj]
";

#[test]
fn producers_keep_a_tile() {
    let module = module(CHAIN);
    let kernel = check(&scheduled(
        &module,
        "def f(sch):
    c = sch.get_block(\"C\")
    i, j = sch.get_loops(c)
    i0, i1 = sch.split(i, [None, 8])
    sch.parallel(i0)
    sch.compute_at(sch.get_block(\"B\"), i0)
",
    ));
    let tile = kernel.buffers().last().expect("the scratch");
    assert_eq!((tile.1.len, tile.1.storage), (10 * 64, Storage::Scratch(crate::loopir::Placement::PerWorker)));
}

#[test]
fn strides_are_aligned_as_asked() {
    let text = "@T.prim_func
def main(A: T.Buffer((6, 10), 'float32'), C: T.Buffer((6, 8), 'float32')):
    B = T.alloc_buffer((6, 10), 'float32')
    for i, j in T.grid(6, 10):
        with T.block('B'):
            vi, vj = T.axis.remap('SS', [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j, k in T.grid(6, 8, 3):
        with T.block('C'):
            vi, vj, vk = T.axis.remap('SSR', [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + B[vi, vj + vk]
";
    let module = module(text);
    let len_of = |schedule: &str| {
        let kernel = check(&scheduled(&module, schedule));
        kernel.buffers().find(|(_, b)| !b.is_param()).map(|(_, b)| b.len)
    };
    let align = "def s(sch):\n    sch.storage_align('B', 0, 0, 16, 0)\n";
    assert_eq!(len_of("def s(sch):\n    pass\n"), Some(60));
    assert_eq!(len_of(align), Some(96));
    // The later request wins, and applies to the part of a buffer that is stored.
    let again = format!("{align}    sch.storage_align('B', 0, -2, 12, 1)\n");
    assert_eq!(len_of(&again), Some(78));
    assert_eq!(len_of(&format!("{again}    sch.compute_at('B', sch.get_loops('C')[0])\n")), Some(13));
    // A request that would not fit memory is ignored.
    assert_eq!(len_of("def s(sch):\n    sch.storage_align('B', 0, 0, 1 << 50, 0)\n"), Some(60));
}

#[test]
fn parameters_that_are_read_first_are_in_out() {
    let module = module(
        "@T.prim_func
def main(X: T.Buffer((8,), \"float32\"), Y: T.Buffer((8,), \"float32\"), Z: T.Buffer((8,), \"float32\")):
    for i in range(8):
        with T.block(\"Y\"):
            vi = T.axis.spatial(8, i)
            Y[vi] = Y[vi] + X[vi]
    for i in range(4):
        with T.block(\"Z\"):
            vi = T.axis.spatial(4, i)
            Z[vi] = X[vi]
",
    );
    let kernel = check(&module.funcs[0]);
    let access: Vec<Storage> = kernel.params().iter().map(|p| p.storage).collect();
    assert_eq!(access, [Access::In, Access::InOut, Access::InOut].map(Storage::Param));
}

#[test]
fn indirect_indices_are_checked() {
    let module = module(
        "@T.prim_func
def main(T0: T.Buffer((8, 4), \"float32\"), I: T.Buffer((6,), \"int32\"), Y: T.Buffer((6, 4), \"float32\")):
    for i, j in T.grid(6, 4):
        with T.block(\"Y\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            Y[vi, vj] = T0[T.max(0, T.min(I[vi], 7)), vj] + T.if_then_else(I[vi] < 8, T0[I[vi], vj], T.float32(0))
",
    );
    let text = print(&lower(&module.funcs[0]).expect("it lowers"));
    assert_eq!(text.matches("check").count(), 1, "{text}");
}

#[test]
fn guarded_accesses_need_no_check() {
    let module = module(
        "@T.prim_func
def main(X: T.Buffer((10,), \"float32\"), Y: T.Buffer((12,), \"float32\")):
    for i in range(12):
        with T.block(\"Y\"):
            vi = T.axis.spatial(12, i)
            Y[vi] = T.if_then_else(1 <= vi and vi < 11, X[vi - 1], T.float32(0))
",
    );
    let text = print(&check(&module.funcs[0]));
    assert!(!text.contains("check"), "{text}");
}

#[test]
fn conditions_on_memory_that_exists_take_no_branch() {
    let module = module(
        "@T.prim_func
def main(A: T.Buffer((10,), \"bool\"), B: T.Buffer((10,), \"bool\"), I: T.Buffer((10,), \"int32\"), C: T.Buffer((10,), \"bool\"), D: T.Buffer((10,), \"bool\")):
    for i in range(10):
        with T.block(\"C\"):
            vi = T.axis.spatial(10, i)
            C[vi] = A[vi] and B[vi] or A[9 - vi]
    for i in range(10):
        with T.block(\"D\"):
            vi = T.axis.spatial(10, i)
            D[vi] = 0 <= I[vi] and I[vi] < 10 and B[I[vi]]
",
    );
    let text = print(&lower(&module.funcs[0]).expect("it lowers"));
    assert!(text.contains("bitwise_or(bitwise_and("), "{text}");
    // Where a condition guards the next one, it decides.
    assert!(text.contains("&& B["), "{text}");
    check(&module.funcs[0]);
}

#[test]
fn false_promises_are_not_believed() {
    // Parallel by name, but every iteration reads what the one before wrote.
    let module = module(
        "@T.prim_func
def main(X: T.Buffer((10,), \"float32\")):
    for i in T.parallel(9):
        X[i + 1] = X[i] + T.float32(1)
",
    );
    let text = print(&check(&module.funcs[0]));
    assert!(!text.contains("parallel"), "{text}");
}

#[test]
fn what_cannot_be_lowered_says_so() {
    let module = module(
        "@T.prim_func
def main(n: T.int32, X: T.Buffer((10,), \"float32\")):
    for i in range(n):
        X[i] = T.float32(1)
",
    );
    assert_eq!(lower(&module.funcs[0]).err(), Some(LowerError::ScalarParameter("n".into())));
}

#[test]
fn every_workload_lowers() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut n = 0;
    for entry in std::fs::read_dir(dir).expect("the workloads").flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if entry.path().extension().is_none_or(|e| e != "tir") {
            continue;
        }
        let bind = [("n", 64), ("m", 48), ("k", 32)].map(|(k, v)| (k.to_string(), v)).into_iter().collect();
        let options = ParseOptions { bind, ..ParseOptions::default() };
        let name = entry.path().display().to_string();
        let parsed = parse(&text, &name, &options)
            .or_else(|_| parse(&text, &name, &ParseOptions::default()))
            .unwrap_or_else(|e| panic!("{}", e.render(false)));
        for func in &parsed.module.funcs {
            let kernel = lower(func).unwrap_or_else(|e| panic!("{name}: {e}"));
            let checks = print(&kernel).matches("check ").count();
            assert!(checks == 0 || name.contains("embedding"), "{name}:\n{}", print(&kernel));
            lower_reference(func).unwrap_or_else(|e| panic!("{name}: {e}"));
            n += 1;
        }
    }
    assert!(n >= 40, "{n}");
}

#[test]
fn a_pragma_around_loops_is_an_annotation_of_those_that_have_none() {
    let lowered = |around: &str, annotations: &str| {
        let text = format!(
            "@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 4), \"float32\")):
    {around}
    for i in T.serial(16{annotations}):
        for j in T.serial(4, annotations={{\"pragma_auto_unroll_max_step\": 2}}):
            A[i, j] = T.float32(1)
"
        );
        print(&lower(&module(&text).funcs[0]).expect("lowers"))
    };
    let annotated = lowered("pass", ", annotations={\"pragma_auto_unroll_max_step\": 16}");
    assert!(annotated.contains("hint unroll 16") && annotated.contains("hint unroll 2"), "{annotated}");
    assert_eq!(lowered("T.attr(0, \"pragma_auto_unroll_max_step\", 16)", ""), annotated);
    assert_eq!(lowered("T.attr({\"pragma_auto_unroll_max_step\": 16})", ""), annotated);
    let plain = lowered("pass", "");
    assert!(!plain.contains("hint unroll 16"), "{plain}");
    assert_eq!(lowered("T.attr(0, \"pragma_unroll_explicit\", 1)", ""), plain);
}

#[test]
fn a_limit_of_a_fused_index_limits_its_quotient() {
    // Rows of 28 as one axis of 784, in tiles of 32 with a remainder, whose loops are fused with others.
    let text = "@T.prim_func
def main(A: T.Buffer((3, 28, 28), \"float32\"), B: T.Buffer((2, 784), \"float32\")):
    for f in range(50):
        for x in range(32):
            with T.block(\"B\"):
                v0 = T.axis.spatial(2, f // 25)
                v1 = T.axis.spatial(784, f % 25 * 32 + x)
                T.where(f % 25 * 32 + x < 784)
                B[v0, v1] = A[v0, v1 // 28, v1 % 28]
";
    let kernel = check(&module(text).funcs[0]);
    assert!(!print(&kernel).contains("// 28 < 28"), "{}", print(&kernel));
    // A limit that is too high for the rows limits nothing.
    let beyond = print(&lower(&module(&text.replace("784", "800")).funcs[0]).expect("lowers"));
    assert!(beyond.contains("// 28 < 28"), "{beyond}");
}
