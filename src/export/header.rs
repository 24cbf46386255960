//! Headers for C99 and C++11.

use super::interface::{Library, Param};
use super::layout::{FunctionLayout, layouts};
use super::weights::ExternalWeights;
use super::{ABI_VERSION, ExportError};
use crate::ir::DType;
use crate::loopir::Access;
use std::fmt::Write;

/// The header of a library.
///
/// # Errors
/// A function has a parameter without a form in C.
pub fn header(library: &Library) -> Result<String, ExportError> {
    let mut text = String::new();
    write_header(library, &layouts(library)?, &mut text).map_err(|e| ExportError::Write(e.to_string()))?;
    Ok(text)
}

fn write_header(library: &Library, layouts: &[FunctionLayout<'_>], out: &mut String) -> std::fmt::Result {
    let prefix = &library.prefix;
    let guard = format!("{}_H", prefix.to_ascii_uppercase());
    let upper = prefix.to_ascii_uppercase();
    writeln!(out, "/* {}: functions compiled by tvmr {}. */", library.name, env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "#ifndef {guard}\n#define {guard}\n")?;
    writeln!(out, "#include <stddef.h>\n#include <stdint.h>\n")?;
    writeln!(out, "#if defined(__cplusplus)\n#define {upper}_RESTRICT __restrict\nextern \"C\" {{\n#else")?;
    writeln!(out, "#define {upper}_RESTRICT restrict\n#endif\n")?;
    writeln!(out, "#define {upper}_ABI_VERSION {ABI_VERSION}\n")?;
    writeln!(out, "/* What functions return. The numbers are fixed for good. */\nenum {{")?;
    for (name, number, meaning) in CODES {
        writeln!(out, "    {upper}_{name} = {number}, /* {meaning} */")?;
    }
    writeln!(out, "}};\n")?;
    writeln!(out, "/* The version of this interface that the object was built with: {upper}_ABI_VERSION. */")?;
    writeln!(out, "int32_t {prefix}_abi_version(void);\n")?;
    hook(prefix, &upper, out)?;
    if let Some(file) = &library.external_weights {
        weights(prefix, &upper, file, out)?;
    }
    writeln!(
        out,
        "/* Arrays are contiguous, in row-major order, unless strides (in elements) are given, and need no more than the alignment of their elements (64 bytes are\n   \
         fastest). What a function writes must not overlap its other arguments. Functions may be called by several threads at\n   \
         once. A workspace is at least NAME_workspace_bytes() bytes long and aligned to 64 bytes, and serves one call at a\n   \
         time. NaN and infinities are treated as in IEEE 754; subnormal numbers are flushed to zero unless the library was built\n   \
         with --strict-fp. The state of the floating-point unit is left as it was. */\n"
    )?;
    for layout in layouts {
        function(library, layout, &upper, out)?;
    }
    writeln!(out, "#if defined(__cplusplus)\n}}\n#endif\n\n#endif")
}

/// Error numbers with their names and meanings.
pub(super) const CODES: &[(&str, i32, &str)] = &[
    ("OK", 0, "success"),
    ("ERROR_NULL", 1, "a pointer is null"),
    ("ERROR_MISALIGNED", 2, "a pointer is not aligned to its elements, or a workspace not to 64 bytes"),
    ("ERROR_CPU", 3, "this CPU lacks the instruction set, and there is no portable version"),
    ("ERROR_MEMORY", 4, "out of memory"),
    ("ERROR_BOUNDS", 5, "the program accessed an array out of bounds"),
    ("ERROR_DIVISION", 6, "the program divided an integer by zero, or the minimum by -1"),
    ("ERROR_ASSERTION", 7, "an assertion of the program failed"),
    ("ERROR_SIZE", 8, "no version was built for these sizes"),
    ("ERROR_PARALLEL", 9, "the hook for parallel loops failed, or did not run every worker"),
    ("ERROR_WEIGHTS_MISSING", 10, "the function reads external weights, and none were set"),
    ("ERROR_WEIGHTS_MAGIC", 11, "what was passed is no file of weights"),
    ("ERROR_WEIGHTS_VERSION", 12, "the file of weights has another format version"),
    ("ERROR_WEIGHTS_ISA", 13, "the file of weights was made for another instruction set"),
    ("ERROR_WEIGHTS_MODEL", 14, "the file of weights is that of another model or build"),
    ("ERROR_WEIGHTS_SIZE", 15, "the file of weights was cut off or is too long"),
    ("ERROR_WEIGHTS_SET", 16, "other weights were set before"),
    ("ERROR_WEIGHTS_FILE", 17, "the file of weights cannot be opened or mapped"),
];

fn hook(prefix: &str, upper: &str, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "/* Parallel loops run serially unless a hook is set: it must call body(env, worker) exactly once for each worker from 0 to\n   \
         n_workers - 1, on any threads and in any order, wait for all, and return 0 if all returned 0. A null hook makes loops\n   \
         serial again. Calls that are running keep the hook that they began with. */"
    )?;
    writeln!(out, "typedef int32_t (*{prefix}_parallel_body)(void *env, int32_t worker);")?;
    writeln!(
        out,
        "typedef int32_t (*{prefix}_parallel_for)(void *ctx, int32_t n_workers, {prefix}_parallel_body body, void *env);"
    )?;
    writeln!(
        out,
        "void {prefix}_set_parallel_for({prefix}_parallel_for parallel_for, void *ctx, int32_t n_workers);\n"
    )?;
    writeln!(
        out,
        "#if defined({upper}_SHARED)\n/* In the shared library only: a pool of its own as the hook; 0 or 1 threads make loops serial. \
         Returns 0 or an error\n   number. */\nint32_t {prefix}_set_num_threads(int32_t n);\n#endif\n"
    )?;
    writeln!(
        out,
        "#if defined({upper}_USE_OPENMP)\n/* A hook for OpenMP (compile with -fopenmp):\n   \
         {prefix}_set_parallel_for({prefix}_parallel_for_openmp, NULL, omp_get_max_threads()); */\n\
         static inline int32_t {prefix}_parallel_for_openmp(void *ctx, int32_t n_workers, {prefix}_parallel_body body, void *env) {{\n    \
         int32_t failed = 0;\n    int32_t worker;\n    (void)ctx;\n\
         #pragma omp parallel for schedule(static, 1) num_threads(n_workers) reduction(| : failed)\n    \
         for (worker = 0; worker < n_workers; worker++) {{\n        failed |= body(env, worker);\n    }}\n    return failed;\n}}\n#endif\n"
    )?;
    writeln!(
        out,
        "#if defined({upper}_USE_PTHREADS)\n#include <pthread.h>\n\
         /* A hook that starts threads for each loop (link with -pthread), for loops of milliseconds and more:\n   \
         {prefix}_set_parallel_for({prefix}_parallel_for_pthreads, NULL, 4); */\n\
         typedef struct {{\n    {prefix}_parallel_body body;\n    void *env;\n    int32_t worker;\n    int32_t result;\n}} {prefix}_pthread_part;\n\n\
         static inline void *{prefix}_pthread_run(void *data) {{\n    \
         {prefix}_pthread_part *part = ({prefix}_pthread_part *)data;\n    \
         part->result = part->body(part->env, part->worker);\n    return NULL;\n}}\n\n\
         static inline int32_t {prefix}_parallel_for_pthreads(void *ctx, int32_t n_workers, {prefix}_parallel_body body, void *env) {{\n    \
         enum {{ MOST = 256 }};\n    \
         pthread_t threads[MOST];\n    {prefix}_pthread_part parts[MOST];\n    char started[MOST];\n    \
         int32_t first = 0, failed = 0, i, n;\n    (void)ctx;\n    \
         for (first = 0; first < n_workers; first += MOST) {{\n        \
         n = n_workers - first < MOST ? n_workers - first : MOST;\n        \
         for (i = 0; i < n; i++) {{\n            \
         parts[i].body = body;\n            parts[i].env = env;\n            parts[i].worker = first + i;\n            parts[i].result = 0;\n            \
         started[i] = i + 1 < n && pthread_create(&threads[i], NULL, {prefix}_pthread_run, &parts[i]) == 0;\n        }}\n        \
         for (i = 0; i < n; i++) {{\n            if (!started[i]) {{\n                {prefix}_pthread_run(&parts[i]);\n            }}\n        }}\n        \
         for (i = 0; i < n; i++) {{\n            if (started[i]) {{\n                pthread_join(threads[i], NULL);\n            }}\n            \
         failed |= parts[i].result;\n        }}\n    }}\n    return failed;\n}}\n#endif\n"
    )
}

fn weights(prefix: &str, upper: &str, file: &ExternalWeights, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "/* Weights lie in a file of their own, {} ({} bytes). Map it read-only, aligned to 64 bytes, and pass all of it once;\n   \
         it must stay mapped and unchanged as long as functions are called. Calls before return {upper}_ERROR_WEIGHTS_MISSING.\n   \
         Only the header of the file is checked. */",
        file.file_name().replace("*/", "*_/"),
        file.bytes(),
    )?;
    writeln!(out, "int32_t {prefix}_set_weights(const void *data, size_t bytes);\n")?;
    writeln!(
        out,
        "#if defined({upper}_USE_MMAP)\n\
         #include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n#include <unistd.h>\n\
         /* Maps the file of weights and passes it, on POSIX systems. */\n\
         static inline int32_t {prefix}_map_weights(const char *path) {{\n    \
         struct stat status;\n    void *data = MAP_FAILED;\n    int32_t result;\n    int file = open(path, O_RDONLY);\n    \
         if (file < 0) {{\n        return {upper}_ERROR_WEIGHTS_FILE;\n    }}\n    \
         if (fstat(file, &status) == 0 && status.st_size > 0) {{\n        \
         data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);\n    }}\n    \
         close(file);\n    \
         if (data == MAP_FAILED) {{\n        return {upper}_ERROR_WEIGHTS_FILE;\n    }}\n    \
         result = {prefix}_set_weights(data, (size_t)status.st_size);\n    \
         if (result != {upper}_OK) {{\n        munmap(data, (size_t)status.st_size);\n    }}\n    \
         return result;\n}}\n#endif\n"
    )
}

fn function(library: &Library, layout: &FunctionLayout<'_>, upper: &str, out: &mut String) -> std::fmt::Result {
    let function = layout.function;
    let symbol = library.symbol(function);
    writeln!(out, "/* {}", function.name)?;
    for (i, param) in layout.params.iter().enumerate() {
        if param.by_value {
            writeln!(out, "   {}: {}, by value", param.c_name, param.dtype.name())?;
            continue;
        }
        let access = match param.access {
            Access::In => "read",
            Access::Out => "written",
            Access::InOut => "read and written",
        };
        let shape = layout.shape_text(i);
        let mut note = param.strides.as_ref().map_or(String::new(), |s| format!(", strides {s:?}"));
        note += if layout.is_constant(i) { ", constant: may be prepared once" } else { "" };
        writeln!(
            out,
            "   {}: {}[{shape}], {access}, aligned to {} byte{}{note}",
            param.c_name,
            param.dtype.name(),
            param.dtype.bytes(),
            if param.dtype.bytes() == 1 { "" } else { "s" },
        )?;
    }
    if !function.size_names.is_empty() {
        writeln!(out, "   Sizes: {}; others return {upper}_ERROR_SIZE.", super::descriptors::known_sizes(function))?;
    }
    if let Some(batch) = function.batch {
        let mut parts: Vec<i64> = function.versions.iter().map(|v| v.sizes[batch]).collect();
        parts.sort_unstable_by(|a, b| b.cmp(a));
        parts.dedup();
        let parts: Vec<String> = parts.iter().map(i64::to_string).collect();
        let name = &function.c_size_names()[batch];
        writeln!(
            out,
            "   {name} is a number of samples from 0 on, which are computed in parts of {}: a negative one returns\n   \
             {upper}_ERROR_SIZE.",
            parts.join(", ")
        )?;
    }
    if layout.has_preparation() {
        writeln!(
            out,
            "   {symbol} prepares the constant parameters in each call. To do that once, give {symbol}_prepare memory of\n   \
             {symbol}_prepared_bytes() bytes, aligned to 64, and call {symbol}_run with it."
        )?;
    }
    writeln!(out, "*/")?;
    for (i, param) in layout.params.iter().enumerate() {
        for (axis, extent) in param.shape.iter().enumerate() {
            if layout.is_fixed(i, axis) {
                writeln!(out, "#define {}_{}_DIM{axis} {extent}", symbol.to_ascii_uppercase(), param.c_name)?;
            }
        }
    }
    let restrict = format!("{upper}_RESTRICT");
    let passed = |p: &Param| {
        if p.by_value {
            return format!("{} {}", c_type(p.dtype), p.c_name);
        }
        let constant = if p.is_written() { "" } else { "const " };
        format!("{constant}{} *{restrict} {}", c_type(p.dtype), p.c_name)
    };
    let sizes: Vec<String> = function.c_size_names().iter().map(|n| format!("int64_t {n}")).collect();
    let list = |parts: &[&[String]]| {
        let all = parts.concat();
        if all.is_empty() { "void".to_owned() } else { all.join(", ") }
    };
    let all: Vec<String> = layout.params.iter().map(passed).collect();
    let workspace = ["void *workspace".to_owned()];
    writeln!(out, "int32_t {symbol}({});", list(&[&all, &sizes]))?;
    writeln!(out, "int32_t {symbol}_ws({});", list(&[&all, &sizes, &workspace]))?;
    writeln!(out, "size_t {symbol}_workspace_bytes({});", list(&[&sizes]))?;
    if layout.has_preparation() {
        let chosen = |run: bool| -> Vec<String> {
            let kept = layout.params.iter().zip(&layout.passed).filter(|(_, (r, p))| if run { *r } else { *p });
            kept.map(|(p, _)| passed(p)).collect()
        };
        let (run, prepare) = (chosen(true), chosen(false));
        let prepared = ["const void *prepared".to_owned()];
        writeln!(out, "size_t {symbol}_prepared_bytes({});", list(&[&sizes]))?;
        writeln!(out, "int32_t {symbol}_prepare({});", list(&[&prepare, &sizes, &["void *prepared".to_owned()]]))?;
        writeln!(out, "int32_t {symbol}_run({});", list(&[&run, &sizes, &prepared]))?;
        writeln!(out, "int32_t {symbol}_run_ws({});", list(&[&run, &sizes, &prepared, &workspace]))?;
    }
    writeln!(out)
}

/// The type of elements in C; halves are their bits.
fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Float16 | DType::BFloat16 | DType::UInt16 => "uint16_t",
        DType::Float32 => "float",
        DType::Float64 => "double",
        DType::Int8 => "int8_t",
        DType::Int16 => "int16_t",
        DType::Int32 => "int32_t",
        DType::Int64 => "int64_t",
        DType::UInt8 | DType::Bool | DType::Float8(_) | DType::Narrow(_) => "uint8_t",
        DType::UInt32 => "uint32_t",
        DType::UInt64 => "uint64_t",
        DType::Handle | DType::Str => "void",
    }
}
