//! A Python module over NumPy arrays, through ctypes and the shared library beside it.

use super::header::CODES;
use super::interface::{Library, Param};
use super::layout::{FunctionLayout, layouts};
use super::{ABI_VERSION, ExportError};
use std::fmt::Write;

/// The Python module of a library: it loads `libNAME.so` from its own directory, and needs NumPy only.
///
/// # Errors
/// A function has a parameter without a form in C.
pub fn python(library: &Library) -> Result<String, ExportError> {
    let mut text = String::new();
    write_module(library, &layouts(library)?, &mut text).map_err(|e| ExportError::Write(e.to_string()))?;
    Ok(text)
}

/// The part of the module that is the same for all libraries.
const CHECKS: &str = r#"

class Error(RuntimeError):
    """A call failed; `code` is the error number."""

    def __init__(self, code):
        super().__init__(_CODES.get(code, "error %d" % code))
        self.code = code


def _is(array, dtype):
    """Whether an array has elements of a type. NumPy has no bfloat16: ml_dtypes' or 16 unsigned bits are taken."""
    if dtype == "bfloat16":
        return array.dtype.name == "bfloat16" or array.dtype == np.uint16
    if dtype.startswith(("float8", "int4", "uint4", "float4", "float6")):
        return array.dtype.name == dtype or array.dtype == np.uint8
    return array.dtype == np.dtype(dtype)


def _pointer(array, name, dtype, shape, written, strides=None):
    """The address of an array, after checks. `strides` are in bytes; arrays without them are contiguous."""
    if not isinstance(array, np.ndarray):
        raise TypeError("`%s` is a %s; expected a numpy.ndarray" % (name, type(array).__name__))
    if not _is(array, dtype):
        raise TypeError("`%s` has elements of %s; expected %s" % (name, array.dtype, dtype))
    if array.shape != shape:
        raise ValueError("`%s` has shape %s; expected %s" % (name, array.shape, shape))
    if strides is not None:
        if any(n > 1 and s != t for n, s, t in zip(shape, array.strides, strides)):
            raise ValueError("`%s` has strides of %s bytes; expected %s" % (name, array.strides, strides))
    elif not array.flags.c_contiguous:
        raise ValueError("`%s` is not contiguous in C order; use numpy.ascontiguousarray" % name)
    if not array.dtype.isnative:
        raise TypeError("`%s` is not in the byte order of this machine" % name)
    if written and not array.flags.writeable:
        raise ValueError("`%s` is written, but the array is read-only" % name)
    return ctypes.c_void_p(array.ctypes.data)


def _bfloat16(value):
    """The bits of a number in bfloat16: rounded to odd in float32, then to the nearest."""
    if value != value:
        return 0x7fc0
    near = np.float32(value)
    bits = int(near.view(np.uint32))
    if float(near) != value:
        if abs(float(near)) > abs(value):
            bits -= 1
        bits |= 1
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def _scalar(value, name, dtype):
    """A number as C passes it, after checks."""
    if dtype == "bool":
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError("`%s` is a %s; expected a bool" % (name, type(value).__name__))
        return ctypes.c_uint8(bool(value))
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        if not isinstance(value, _numbers.Real):
            raise TypeError("`%s` is a %s; expected a number" % (name, type(value).__name__))
        value = float(value)
        with np.errstate(over="ignore"):
            if dtype == "float16":
                return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))
            if dtype == "bfloat16":
                return ctypes.c_uint16(_bfloat16(value))
        return ctypes.c_float(value) if dtype == "float32" else ctypes.c_double(value)
    if not hasattr(value, "__index__"):
        raise TypeError("`%s` is a %s; expected an integer" % (name, type(value).__name__))
    value = _operator.index(value)
    # Types that NumPy lacks are passed as their bits.
    held = np.iinfo(dtype if dtype in np.sctypeDict else np.uint8)
    if not held.min <= value <= held.max:
        raise ValueError("`%s` is %d, which no %s is" % (name, value, dtype))
    return getattr(ctypes, "c_" + held.dtype.name)(value)


def _apart(arrays, written):
    """Checks that what is written overlaps nothing else. Scalars are `None`."""
    for i in written:
        for j, other in enumerate(arrays):
            if i != j and other is not None and np.may_share_memory(arrays[i], other):
                raise ValueError("argument %d, which is written, overlaps argument %d" % (i, j))


def _done(code):
    if code != 0:
        raise Error(code)


def set_num_threads(n):
    """The number of threads that parallel loops use; they are serial by default."""
    _done(_set_num_threads(ctypes.c_int32(n)))


class Prepared:
    """Memory with prepared parameters."""

    def __init__(self, n_bytes):
        self._memory = np.empty(n_bytes + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self.array = self._memory[start:start + n_bytes]
        self.pointer = ctypes.c_void_p(self.array.ctypes.data)

"#;

/// The part of modules of libraries with external weights.
const WEIGHTS: &str = r#"_mapped = None


def set_weights(path=_WEIGHTS):
    """Maps the file of weights and passes it to the library, once. Without a path it is the file beside this module, which is
    mapped when the module is imported, if it is there."""
    global _mapped
    mapped = np.memmap(path, np.uint8, "r")
    _done(_set_weights(ctypes.c_void_p(mapped.ctypes.data), ctypes.c_size_t(mapped.size)))
    _mapped = mapped


if os.path.exists(_WEIGHTS):
    set_weights()

"#;

fn write_module(library: &Library, layouts: &[FunctionLayout<'_>], out: &mut String) -> std::fmt::Result {
    let prefix = &library.prefix;
    writeln!(out, "\"\"\"{}: functions compiled by tvmr {}.\"\"\"\n", library.name, env!("CARGO_PKG_VERSION"))?;
    writeln!(
        out,
        "import ctypes\nimport numbers as _numbers\nimport operator as _operator\nimport os\n\nimport numpy as np\n"
    )?;
    writeln!(
        out,
        "_library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), \"lib{}.so\"))",
        library.name
    )?;
    writeln!(out, "_CODES = {{")?;
    for (_, number, meaning) in CODES {
        writeln!(out, "    {number}: {meaning:?},")?;
    }
    writeln!(out, "}}\n")?;
    writeln!(out, "if _library.{prefix}_abi_version() != {ABI_VERSION}:")?;
    writeln!(out, "    raise ImportError(\"the library and this module are of different versions of tvmr\")")?;
    writeln!(out, "_set_num_threads = _library.{prefix}_set_num_threads")?;
    writeln!(out, "_set_num_threads.restype = ctypes.c_int32")?;
    out.push_str(CHECKS);
    if let Some(file) = &library.external_weights {
        writeln!(out, "\n_set_weights = _library.{prefix}_set_weights\n_set_weights.restype = ctypes.c_int32")?;
        writeln!(out, "_WEIGHTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), {:?})", file.file_name())?;
        out.push_str(WEIGHTS);
    }
    for layout in layouts {
        function(library, layout, out)?;
    }
    Ok(())
}

/// Names of a function's parameters in Python.
fn names(layout: &FunctionLayout<'_>) -> Vec<String> {
    super::names::distinct(layout.params.iter().map(|p| python_name(&p.c_name)))
}

fn python_name(name: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "ctypes",
        "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
        "lambda", "nonlocal", "not", "np", "or", "os", "pass", "raise", "return", "try", "while", "with", "yield",
    ];
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.to_owned() }
}

fn function(library: &Library, layout: &FunctionLayout<'_>, out: &mut String) -> std::fmt::Result {
    let symbol = library.symbol(layout.function);
    let name = python_name(&layout.function.c_name());
    let names = names(layout);
    let describe = |out: &mut String, kept: &[usize]| -> std::fmt::Result {
        for &i in kept {
            let p = &layout.params[i];
            let access = if p.is_written() { ", written" } else { "" };
            match &p.strides {
                _ if p.by_value => writeln!(out, "    {}: {}", names[i], p.dtype.name())?,
                None => writeln!(out, "    {}: {}[{}]{access}", names[i], p.dtype.name(), layout.shape_text(i))?,
                Some(strides) => {
                    let (name, dtype, shape) = (&names[i], p.dtype.name(), layout.shape_text(i));
                    writeln!(out, "    {name}: {dtype}[{shape}] with strides {strides:?}{access}")?;
                }
            }
        }
        Ok(())
    };
    let all: Vec<usize> = (0..names.len()).collect();
    writeln!(out, "\n_{name} = _library.{symbol}\n_{name}.restype = ctypes.c_int32\n\n")?;
    writeln!(out, "def {name}({}):\n    \"\"\"`{}` of", names.join(", "), layout.function.name)?;
    describe(out, &all)?;
    writeln!(out, "    \"\"\"")?;
    call(layout, &names, &all, &format!("_{name}"), "", out)?;
    if !layout.has_preparation() {
        return Ok(());
    }
    let kept = |run: bool| -> Vec<usize> {
        all.iter().copied().filter(|&i| if run { layout.passed[i].0 } else { layout.passed[i].1 }).collect()
    };
    let (run, prepare) = (kept(true), kept(false));
    let list = |kept: &[usize]| kept.iter().map(|&i| names[i].clone()).collect::<Vec<_>>().join(", ");
    for suffix in ["prepare", "run"] {
        writeln!(out, "\n_{name}_{suffix} = _library.{symbol}_{suffix}\n_{name}_{suffix}.restype = ctypes.c_int32")?;
    }
    writeln!(out, "_{name}_prepared_bytes = _library.{symbol}_prepared_bytes")?;
    writeln!(out, "_{name}_prepared_bytes.restype = ctypes.c_size_t\n\n")?;
    writeln!(
        out,
        "def {name}_prepare({}):\n    \"\"\"The constant parameters of `{name}`, prepared for `{name}_run`:",
        list(&prepare)
    )?;
    describe(out, &prepare)?;
    writeln!(out, "    \"\"\"")?;
    call(layout, &names, &prepare, &format!("_{name}_prepare"), "prepare", out)?;
    writeln!(out, "\n\ndef {name}_run({}, prepared):\n    \"\"\"`{name}` with prepared parameters, of", list(&run))?;
    describe(out, &run)?;
    writeln!(out, "    \"\"\"")?;
    call(layout, &names, &run, &format!("_{name}_run"), "run", out)
}

/// The body of a function: checks, then the call.
fn call(
    layout: &FunctionLayout<'_>,
    names: &[String],
    kept: &[usize],
    callee: &str,
    prepared: &str,
    out: &mut String,
) -> std::fmt::Result {
    let sizes = &layout.function.size_names;
    // A size is read off the first extent that is equal to it.
    for (k, size) in sizes.iter().enumerate() {
        let place = kept.iter().find_map(|&i| {
            (0..layout.params[i].shape.len())
                .find(|&axis| !layout.is_fixed(i, axis) && layout.is_size(i, axis, k))
                .map(|axis| (i, axis))
        });
        match place {
            Some((i, axis)) => {
                let n = &names[i];
                writeln!(
                    out,
                    "    if not isinstance({n}, np.ndarray) or {n}.ndim != {}:\n        \
                     raise TypeError(\"`{n}` is no numpy.ndarray of {} dimensions\")\n    size_{k} = {n}.shape[{axis}]",
                    layout.params[i].shape.len(),
                    layout.params[i].shape.len(),
                )?;
            }
            None => writeln!(out, "    raise NotImplementedError(\"no array tells the size `{size}`\")")?,
        }
    }
    let shape = |i: usize| {
        let extents: Vec<String> = layout.params[i]
            .shape
            .iter()
            .enumerate()
            .map(|(axis, n)| match (layout.is_fixed(i, axis), layout.size_of(i, axis)) {
                (true, _) => n.to_string(),
                (false, Some(k)) => format!("size_{k}"),
                (false, None) => format!("{}.shape[{axis}]", names[i]),
            })
            .collect();
        match &extents[..] {
            [one] => format!("({one},)"),
            all => format!("({})", all.join(", ")),
        }
    };
    let pointer = |&i: &usize| {
        let p: &Param = &layout.params[i];
        if p.by_value {
            return format!("        _scalar({}, {:?}, {:?}),\n", names[i], p.name, p.dtype.name());
        }
        let written = if p.is_written() { "True" } else { "False" };
        let bytes = |stride: &i64| format!("{}, ", stride * p.dtype.bytes() as i64);
        let strides = p.strides.as_ref().map(|s| format!(", ({})", s.iter().map(bytes).collect::<String>()));
        let strides = strides.unwrap_or_default();
        format!(
            "        _pointer({}, {:?}, {:?}, {}, {written}{strides}),\n",
            names[i],
            p.name,
            p.dtype.name(),
            shape(i)
        )
    };
    writeln!(out, "    arguments = (")?;
    kept.iter().for_each(|i| out.push_str(&pointer(i)));
    writeln!(out, "    )")?;
    let written: Vec<String> = kept
        .iter()
        .enumerate()
        .filter(|(_, i)| layout.params[**i].is_written())
        .map(|(position, _)| position.to_string())
        .collect();
    if !written.is_empty() {
        let array = |&i: &usize| if layout.params[i].by_value { "None" } else { names[i].as_str() };
        let arrays: Vec<&str> = kept.iter().map(array).collect();
        writeln!(out, "    _apart(({},), ({},))", arrays.join(", "), written.join(", "))?;
    }
    let sizes: Vec<String> = (0..sizes.len()).map(|k| format!("ctypes.c_int64(size_{k})")).collect();
    let sizes_then = |extra: &str| {
        let all: Vec<String> = ["*arguments".to_owned()]
            .into_iter()
            .chain(sizes.iter().cloned())
            .chain((!extra.is_empty()).then(|| extra.to_owned()))
            .collect();
        all.join(", ")
    };
    match prepared {
        "prepare" => {
            writeln!(out, "    prepared = Prepared({callee}d_bytes({}))", sizes.join(", "))?;
            writeln!(out, "    _done({callee}({}))\n    return prepared\n", sizes_then("prepared.pointer"))
        }
        "run" => writeln!(out, "    _done({callee}({}))\n", sizes_then("prepared.pointer")),
        _ => writeln!(out, "    _done({callee}({}))\n", sizes_then("")),
    }
}
