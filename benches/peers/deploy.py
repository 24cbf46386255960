#!/usr/bin/env python3
"""Calls what `tvmr build` writes: compares results of all instruction sets, and times calls.

    python3 benches/peers/deploy.py TVMR [WORKLOAD…]

Needs NumPy and `apache-tvm-ffi`, and a C compiler. PyTorch and the Python package are tried where they are
installed. Each workload is built with its best record in `--work-dir`, or as written, for this CPU, for AVX2 and for every CPU, and
called with the same arrays through the generated module, through TVM-FFI, by `tvmr run` and by the package. The first result is
compared with the others: the same instruction set must give the same bits. With `--pairs N`, the time of a call in a C program is compared
with that of `tvmr bench` in N alternating pairs, with arrays that lie as there, and with arrays at multiples of 16 bytes only; with
`--threads N`, through the header's hook and the library's own threads."""

import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import tvm_ffi

try:
    import torch
except ImportError:
    torch = None
try:
    import tvmr as tvmr_package
except ImportError:
    tvmr_package = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches"))
import runs
# Relative differences that rounding explains: both sides sum in different orders.
TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-9}


def build(tvmr, program, out, emit, *options):
    """Builds a program; returns the manifest and the path of the files without their extension."""
    base = out / program.stem
    command = [tvmr, "build", program, "-o", base, "--emit", f"{emit},manifest", "--quiet", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[0]
    return json.loads(base.with_suffix(".json").read_text()), base


def module(path):
    """Imports a generated module under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"kernels_{abs(hash(str(path)))}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def arrays(params, rng):
    """Random arrays for parameters; bfloat16 as its bits."""
    made = []
    for p in params:
        shape, dtype = p["shape"], p["dtype"]
        if dtype == "bfloat16":
            made.append((rng.uniform(-1, 1, shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16))
        elif dtype.startswith("float"):
            made.append(rng.uniform(-1, 1, shape).astype(dtype))
        else:
            made.append(rng.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype))
    return made


def numbers(array, dtype):
    """The values of an array in float64."""
    if dtype == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def difference(a, b, dtype):
    """The largest difference, relative to the largest number."""
    a, b = numbers(a, dtype), numbers(b, dtype)
    if a.size == 0:
        return 0.0
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def through_ffi(base, function, args, wrap):
    """Calls a function through TVM-FFI."""
    name = function["tvm_ffi"]
    callee = getattr(tvm_ffi.load_module(str(base.parent / f"lib{base.name}.so")), name)
    callee(*[wrap(a) for a in args])


def by_run(tvmr, program, out, options, name, params, given):
    """The arrays after `tvmr run` on the same ones."""
    # A file of NumPy holds bfloat16 as two bytes without a type.
    as_stored = lambda a, p: a.view("V2") if p["dtype"] == "bfloat16" else a
    np.savez(out / "in.npz", **{p["name"]: as_stored(a, p) for p, a in zip(params, given)})
    command = [tvmr, "run", program, "--func", name, "--inputs", out / "in.npz", "--output", out / "out.npz", "--quiet"]
    chosen = options if "--as-written" in options else ["--best", *options]
    subprocess.run([*command, *chosen], check=True, capture_output=True)
    with np.load(out / "out.npz") as found:
        return [found[p["name"]].view(a.dtype) if p["name"] in found.files else a for p, a in zip(params, given)]


def by_package(program, options, name):
    """The kernel of the best record, by the Python package."""
    return tvmr_package.tune(program, trials=1, work_dir=options[-1], func=name, progress=False)[name].kernel


def check(tvmr, program, out, options):
    """Builds and calls one program in all ways; returns the number of calls and what is wrong."""
    wrong, calls = [], 0
    built = {}
    for isa in ["", "portable", "avx2"]:
        chosen = ["--isa", isa] if isa else []
        (out / (isa or "here")).mkdir(exist_ok=True)
        built[isa] = build(tvmr, program, out / (isa or "here"), "python", *options, *chosen)
    manifest, base = built[""]
    if manifest is None:
        return 0, [base]
    for function in manifest["functions"]:
        params = function["versions"][0]["params"]
        given = arrays(params, np.random.default_rng(1))
        results = {}
        for isa, (found, path) in built.items():
            if found is None:
                wrong.append(f"{isa}: {path}")
                continue
            mine = [a.copy() for a in given]
            name = function["symbol"][len(manifest["prefix"]) + 1:]
            getattr(module(path.with_suffix(".py")), name)(*mine)
            results[isa or "this CPU"] = mine
        if all(p["dtype"] != "bfloat16" for p in params):
            mine = [a.copy() for a in given]
            through_ffi(base, function, mine, tvm_ffi.from_dlpack)
            results["TVM-FFI"] = mine
            if torch is not None:
                mine = [torch.from_numpy(a.copy()) for a in given]
                through_ffi(base, function, mine, lambda tensor: tensor)
                results["PyTorch"] = [t.numpy() for t in mine]
        results["run"] = by_run(tvmr, program, out, options, function["name"], params, given)
        if tvmr_package is not None and "--as-written" not in options:
            mine = [a.copy() for a in given]
            by_package(program, options, function["name"])(*mine)
            results["package"] = mine
        first = results["this CPU"]
        for way, other in results.items():
            calls += 1
            for p, a, b in zip(params, first, other):
                # The same code gives the same bits.
                limit = TOLERANCE.get(p["dtype"], 0.0) if way in ("portable", "avx2") else 0.0
                found = difference(a, b, p["dtype"])
                if not found <= limit:
                    wrong.append(f"{function['name']}, {way}: `{p['name']}` differs by {found:.2g}")
    return calls, wrong


def call_time(callee, pointers):
    """Microseconds of a call in a loop, at least a millisecond long: the median of 21 batches."""
    def batch(n):
        begin = time.perf_counter()
        for _ in range(n):
            callee(*pointers)
        return (time.perf_counter() - begin) / n

    one = max(batch(3), 1e-7)
    n = max(1, int(1e-3 / one))
    return statistics.median(batch(n) for _ in range(21)) * 1e6


HOST = """#define _GNU_SOURCE
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const size_t bytes[] = {BYTES};
static const char kind[] = KINDS;
enum { N = sizeof bytes / sizeof *bytes, BATCHES = 41 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void fill(unsigned char *to, size_t n, char type) {
    size_t k;
    for (k = 0; k < n; k++) {
        unsigned r = (unsigned)rand();
        switch (type) {
        case 'f': ((float *)(void *)to)[k] = (float)(r % 1999) / 999.5f - 1.0f; break;
        case 'd': ((double *)(void *)to)[k] = (double)(r % 1999) / 999.5 - 1.0; break;
        case 'h': ((unsigned short *)(void *)to)[k] = (unsigned short)(0x3800 | (r & 0x3ff)); break;
        case 'w': ((int *)(void *)to)[k] = (int)(r % 5); break;
        case 'l': ((long long *)(void *)to)[k] = (long long)(r % 5); break;
        default: to[k] = (unsigned char)(r % 2); break;
        }
    }
}

/* As `tvmr bench` lays out arguments, or at multiples of 16 bytes and of no more. */
static void place(int as_in_bench, char **to) {
    const size_t large = 2u << 20;
    size_t start[N], end = 0, i;
    char *block;
    for (i = 0; i < N; i++) {
        start[i] = as_in_bench ? (end + 256 + 4095) / 4096 * 4096 + i * 576 % 4096 : (end + 63) / 64 * 64 + 80;
        end = start[i] + bytes[i];
    }
    block = mmap(NULL, end + 256 + large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block = (char *)(((size_t)block + large - 1) / large * large);
    if (as_in_bench && end >= large) {
        madvise(block, end, MADV_HUGEPAGE);
    }
    for (i = 0; i < N; i++) {
        static const char sizes[] = "fdhwl";
        static const size_t size[] = {4, 8, 2, 4, 8};
        const char *s = memchr(sizes, kind[i], 5);
        to[i] = block + start[i];
        fill((unsigned char *)to[i], bytes[i] / (s ? size[s - sizes] : 1), kind[i]);
    }
}

int main(int argc, char **argv) {
    char *a[N];
    static double took[BATCHES];
    void *workspace;
    double one;
    long n, k;
    int b;
    (void)argc;
    place(strcmp(argv[1], "bench") == 0, a);
    PREPARE
    HOOK
    workspace = aligned_alloc(64, (SYMBOL_workspace_bytes() + 127) / 64 * 64);
    if (CALL != 0) return 1;
    one = now();
    for (k = 0; k < 3; k++) CALL;
    one = (now() - one) / 3;
    n = one < 5e-4 ? (long)(1e-3 / (one + 1e-9)) + 1 : 1;
    for (b = 0; b < BATCHES; b++) {
        double begin = now();
        for (k = 0; k < n; k++) CALL;
        took[b] = (now() - begin) / (double)n;
    }
    qsort(took, BATCHES, sizeof *took, ascending);
    printf("%.9f\\n", took[BATCHES / 2] * 1e6);
    return 0;
}
"""
# The letter of a data type in HOST.
KINDS = {"float32": "f", "float64": "d", "float16": "h", "bfloat16": "h", "int32": "w", "uint32": "w", "int64": "l", "uint64": "l"}
# What runs the parallel loops of the host: with one thread nothing, else a hook that starts threads, and the library's own.
HOOKS = {
    "one thread": "",
    "header's pthreads": "PREFIX_set_parallel_for(PREFIX_parallel_for_pthreads, NULL, THREADS);",
    "library's pool": "if (PREFIX_set_num_threads(THREADS) != 0) return 1;",
}


def host(base, manifest, function, hook, threads, out):
    """Compiles a C program that times one function of a library; returns its path."""
    symbol, prefix = function["symbol"], manifest["prefix"]
    params = function["versions"][0]["params"]
    size = lambda p: {"bool": 1, "bfloat16": 2}.get(p["dtype"]) or np.dtype(p["dtype"]).itemsize
    arrays_of = lambda chosen: ", ".join(f"(void *)a[{i}]" for i, p in enumerate(params) if chosen(p))
    prepare, call = "", f"{symbol}_ws({arrays_of(lambda p: True)}, workspace)"
    if function["prepares"]:
        prepare = (f"void *prepared = aligned_alloc(64, ({symbol}_prepared_bytes() + 127) / 64 * 64);\n"
                   f"    if ({symbol}_prepare({arrays_of(lambda p: p['constant'])}, prepared) != 0) return 1;")
        call = f"{symbol}_run_ws({arrays_of(lambda p: not p['constant'])}, prepared, workspace)"
    text = HOST
    for name, value in (("HOOK", HOOKS[hook]), ("PREPARE", prepare), ("CALL", call), ("SYMBOL", symbol), ("PREFIX", prefix),
                        ("THREADS", str(threads)), ("NAME", base.name),
                        ("BYTES", ", ".join(str(size(p) * int(np.prod(p["shape"]))) for p in params)),
                        ("KINDS", json.dumps("".join(KINDS.get(p["dtype"], "b") for p in params)))):
        text = text.replace(name, value)
    # The prefix of macros is that of functions in capitals.
    macros = "".join(f"#define {prefix.upper()}_{m}\n" for m in ("SHARED", "USE_PTHREADS"))
    source = out / f"{symbol}_host.c"
    source.write_text(macros + text)
    program = out / f"{symbol}_{hook.split()[0].strip(chr(39))}"
    subprocess.run(["cc", "-std=c11", "-O2", f"-I{base.parent}", source, "-o", program, f"-L{base.parent}", f"-l{base.name}",
                    f"-Wl,-rpath,{base.parent}", "-pthread"], check=True)
    return program


def compare_times(tvmr, program, out, options, best, work_dir, pairs, threads):
    """Prints the time of a call in a C program over that in `tvmr bench`, which does not count preparations either.

    Each time is from a process of its own, since it is chance which pages of memory share places in the caches."""
    manifest, base = build(tvmr, program, out, "shared,header", *options, *(["--threads", str(threads)] if threads > 1 else []))
    if manifest is None:
        print(f"{program.stem:20} {base}")
        return
    hooks = ["one thread"] if threads == 1 else ["header's pthreads", "library's pool"]
    for function in manifest["functions"]:
        places = [("as in bench", "bench", hook) for hook in hooks]
        places.append(("16 bytes", "16", hooks[-1]))
        hosts = {hook: host(base, manifest, function, hook, threads, out) for hook in hooks}
        ratios = {place: [] for place in places}
        for _ in range(pairs):
            bench = subprocess.run(
                [tvmr, "bench", program, "--func", function["name"], "--format", "json", "--quiet", *best, "--work-dir", work_dir,
                 "--threads", str(threads)], capture_output=True, text=True, check=True)
            for place in places:
                here = subprocess.run([hosts[place[2]], place[1]], capture_output=True, text=True, check=True)
                ratios[place].append(float(here.stdout) / json.loads(bench.stdout)["us"])
        line = f"{program.stem:20} {function['name']:12}"
        for place in places:
            median, (low, high) = runs.median_with_interval(ratios[place])
            line += f"  {place[0]}{', ' + place[2] if threads > 1 else ''}: {median:.3f} ({low:.3f} to {high:.3f})"
        print(line, flush=True)


def overhead(tvmr, out):
    """Prints what a call of a function costs that does nothing."""
    program = out / "tiny.tir"
    program.write_text('@T.prim_func\ndef tiny(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):\n'
                       '    for i in range(1):\n        with T.block("B"):\n            v = T.axis.spatial(1, i)\n            B[v] = A[v]\n')
    _, base = build(tvmr, program, out, "shared,obj,header", "--as-written")
    source = out / "empty.c"
    source.write_text("int __tvm_ffi_empty(void *s, const void *a, int n, long *r) { (void)s; (void)a; (void)n; r[0] = r[1] = 0; return 0; }\n")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", out / "libempty.so", source], check=True)
    import tvm_ffi

    a, b = (tvm_ffi.from_dlpack(np.zeros(1, np.float32)) for _ in range(2))
    tiny = tvm_ffi.load_module(str(out / "libtiny.so")).tiny
    empty = tvm_ffi.load_module(str(out / "libempty.so")).empty
    pairs = [(call_time(tiny, (a, b)), call_time(empty, (a, b))) for _ in range(15)]
    print(f"call through TVM-FFI: {statistics.median(t - e for t, e in pairs) * 1e3:.0f} ns more than an empty function")
    source = out / "plain.c"
    source.write_text("""#define _POSIX_C_SOURCE 199309L
#include "tiny.h"
#include <stdio.h>
#include <time.h>
static float a[16], b[16];
int main(void) {
    double best = 1e9;
    int r, i;
    for (r = 0; r < 50; r++) {
        struct timespec s, e;
        double t;
        clock_gettime(CLOCK_MONOTONIC, &s);
        for (i = 0; i < 100000; i++) {
            tiny_tiny(a, b);
        }
        clock_gettime(CLOCK_MONOTONIC, &e);
        t = ((double)(e.tv_sec - s.tv_sec) * 1e9 + (double)(e.tv_nsec - s.tv_nsec)) / 100000;
        best = t < best ? t : best;
    }
    printf("plain call from C: %.1f ns\\n", best);
    return 0;
}
""")
    subprocess.run(["cc", "-O2", "-std=c99", f"-I{out}", source, out / "tiny.o", "-o", out / "plain"], check=True)
    print(subprocess.run([out / "plain"], capture_output=True, text=True, check=True).stdout, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tvmr", type=pathlib.Path)
    parser.add_argument("workloads", nargs="*", help="names of workloads; all that have fixed extents if left out")
    parser.add_argument("--work-dir", default="tvmr_db", help="directory of the database")
    parser.add_argument("--as-written", action="store_true", help="build programs as written")
    parser.add_argument("--pairs", type=int, default=0, help="pairs of timings for each function")
    parser.add_argument("--threads", type=int, default=1, help="threads of the kernels that are timed")
    args = parser.parse_intermixed_args()
    tvmr = args.tvmr.resolve()
    programs = sorted((ROOT / "workloads").glob("*.tir"))
    if args.workloads:
        programs = [p for p in programs if p.stem in args.workloads]
    else:
        programs = [p for p in programs if not p.stem.startswith("symbolic")]
    options = ["--as-written"] if args.as_written else ["--work-dir", args.work_dir]
    calls, mistakes = 0, 0
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory)
        for program in programs:
            n, wrong = check(tvmr, program, out, options)
            calls += n
            mistakes += len(wrong)
            for why in wrong:
                print(f"{program.stem}: {why}")
        print(f"{calls} calls of {len(programs)} programs compared, {mistakes} mistakes")
        overhead(tvmr, out)
        if args.pairs:
            for program in programs:
                compare_times(tvmr, program, out, options, [] if args.as_written else ["--best"], args.work_dir, args.pairs, args.threads)
    sys.exit(1 if mistakes or calls == 0 else 0)


if __name__ == "__main__":
    main()
