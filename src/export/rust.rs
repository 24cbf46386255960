//! Rust declarations, with safe functions over slices around them.

use super::ExportError;
use super::header::CODES;
use super::interface::{Library, Param};
use super::layout::{FunctionLayout, layouts};
use super::weights::ExternalWeights;
use crate::ir::DType;
use std::fmt::Write;

/// A Rust module for a library: it declares the functions and wraps them. It needs no crate.
///
/// # Errors
/// A function has a parameter without a form in C.
pub fn rust(library: &Library) -> Result<String, ExportError> {
    let mut text = String::new();
    write_module(library, &layouts(library)?, &mut text).map_err(|e| ExportError::Write(e.to_string()))?;
    Ok(text)
}

fn write_module(library: &Library, layouts: &[FunctionLayout<'_>], out: &mut String) -> std::fmt::Result {
    writeln!(out, "// {}: functions compiled by tvmr {}.\n", library.name, env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "/// Why a call failed.\n#[derive(Clone, Copy, PartialEq, Eq, Debug)]\npub enum Error {{")?;
    for (name, _, meaning) in errors() {
        writeln!(out, "    /// {}.\n    {},", capital(meaning), camel(name))?;
    }
    writeln!(out, "    /// A slice has another length than the parameter.\n    Length,")?;
    writeln!(out, "    /// An error number of a later version.\n    Unknown(i32),\n}}\n")?;
    writeln!(out, "impl std::fmt::Display for Error {{")?;
    writeln!(out, "    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {{\n        match self {{")?;
    for (name, _, meaning) in errors() {
        writeln!(out, "            Error::{} => f.write_str({meaning:?}),", camel(name))?;
    }
    writeln!(out, "            Error::Length => f.write_str(\"a slice has another length than the parameter\"),")?;
    writeln!(out, "            Error::Unknown(code) => write!(f, \"error {{code}}\"),\n        }}\n    }}\n}}\n")?;
    writeln!(out, "impl std::error::Error for Error {{}}\n")?;
    writeln!(
        out,
        "#[allow(dead_code)]\nfn result(code: i32) -> Result<(), Error> {{\n    match code {{\n        0 => Ok(()),"
    )?;
    for (name, number, _) in errors() {
        writeln!(out, "        {number} => Err(Error::{}),", camel(name))?;
    }
    writeln!(out, "        code => Err(Error::Unknown(code)),\n    }}\n}}\n")?;
    writeln!(out, "/// Memory with the alignment of workspaces and prepared parameters.")?;
    writeln!(out, "#[allow(dead_code)]\n#[derive(Clone)]\npub struct Aligned(Vec<Line>);\n")?;
    writeln!(out, "#[allow(dead_code)]\n#[derive(Clone, Copy)]\n#[repr(C, align(64))]\nstruct Line([u8; 64]);\n")?;
    writeln!(out, "#[allow(dead_code)]\nimpl Aligned {{\n    /// Zeroed memory of at least `bytes` bytes.")?;
    writeln!(
        out,
        "    pub fn new(bytes: usize) -> Aligned {{\n        Aligned(vec![Line([0; 64]); bytes.div_ceil(64)])\n    }}\n"
    )?;
    writeln!(out, "    /// Number of bytes.\n    pub fn len(&self) -> usize {{\n        self.0.len() * 64\n    }}\n")?;
    writeln!(
        out,
        "    /// Whether there are none.\n    pub fn is_empty(&self) -> bool {{\n        self.0.is_empty()\n    }}\n}}\n"
    )?;
    declarations(library, layouts, out)?;
    if let Some(file) = &library.external_weights {
        weights(&library.prefix, file, out)?;
    }
    for layout in layouts {
        function(library, layout, out)?;
    }
    Ok(())
}

/// The error codes.
fn errors() -> impl Iterator<Item = (&'static str, i32, &'static str)> {
    CODES.iter().filter(|(_, number, _)| *number != 0).map(|&(name, number, meaning)| (name, number, meaning))
}

/// `ERROR_WEIGHTS_SIZE` as `WeightsSize`.
fn camel(name: &str) -> String {
    name.trim_start_matches("ERROR_").split('_').map(|word| capital(&word.to_ascii_lowercase())).collect()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().collect::<String>() + chars.as_str())
}

/// Name of a parameter in Rust.
fn snake(name: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
        "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
        "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super",
        "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
    ];
    let lower = name.to_ascii_lowercase();
    if KEYWORDS.contains(&lower.as_str()) { format!("{lower}_") } else { lower }
}

/// Names of the parameters in Rust.
fn names(layout: &FunctionLayout<'_>) -> Vec<String> {
    super::names::distinct(layout.params.iter().map(|p| snake(&p.c_name)))
}

fn declarations(library: &Library, layouts: &[FunctionLayout<'_>], out: &mut String) -> std::fmt::Result {
    let prefix = &library.prefix;
    writeln!(out, "/// The functions as they are.\npub mod raw {{\n    #![allow(dead_code)]\n")?;
    writeln!(out, "    /// One worker's part of a parallel loop.")?;
    writeln!(out, "    pub type Body = unsafe extern \"C\" fn(env: *mut u8, worker: i32) -> i32;\n")?;
    writeln!(out, "    /// Calls `body` once for each worker.")?;
    writeln!(
        out,
        "    pub type ParallelFor = unsafe extern \"C\" fn(ctx: *mut u8, n_workers: i32, body: Body, env: *mut u8) -> i32;\n"
    )?;
    writeln!(out, "    unsafe extern \"C\" {{\n        pub fn {prefix}_abi_version() -> i32;")?;
    writeln!(
        out,
        "        pub fn {prefix}_set_parallel_for(parallel_for: Option<ParallelFor>, ctx: *mut u8, n_workers: i32);"
    )?;
    if library.external_weights.is_some() {
        writeln!(out, "        pub fn {prefix}_set_weights(data: *const u8, bytes: usize) -> i32;")?;
    }
    for layout in layouts {
        let symbol = library.symbol(layout.function);
        let names = names(layout);
        let declared = |(p, name): (&Param, &String)| match (p.by_value, p.is_written()) {
            (true, _) => format!("{name}: {}", rust_type(p.dtype)),
            (false, true) => format!("{name}: *mut {}", rust_type(p.dtype)),
            (false, false) => format!("{name}: *const {}", rust_type(p.dtype)),
        };
        let pointers: Vec<String> = layout.params.iter().zip(&names).map(declared).collect();
        let sizes: Vec<String> = layout.function.c_size_names().iter().map(|n| format!("{}: i64", snake(n))).collect();
        let chosen = |run: bool| -> Vec<String> {
            let kept = pointers.iter().zip(&layout.passed).filter(|(_, (r, p))| if run { *r } else { *p });
            kept.map(|(t, _)| t.clone()).collect()
        };
        let (workspace, prepared) = (["workspace: *mut u8".to_owned()], ["prepared: *const u8".to_owned()]);
        writeln!(out, "        pub fn {symbol}({}) -> i32;", [&pointers[..], &sizes].concat().join(", "))?;
        writeln!(
            out,
            "        pub fn {symbol}_ws({}) -> i32;",
            [&pointers[..], &sizes, &workspace].concat().join(", ")
        )?;
        writeln!(out, "        pub fn {symbol}_workspace_bytes({}) -> usize;", sizes.join(", "))?;
        if layout.has_preparation() {
            let (run, prepare) = (chosen(true), chosen(false));
            let memory = ["prepared: *mut u8".to_owned()];
            writeln!(out, "        pub fn {symbol}_prepared_bytes({}) -> usize;", sizes.join(", "))?;
            writeln!(
                out,
                "        pub fn {symbol}_prepare({}) -> i32;",
                [&prepare[..], &sizes, &memory].concat().join(", ")
            )?;
            writeln!(
                out,
                "        pub fn {symbol}_run({}) -> i32;",
                [&run[..], &sizes, &prepared].concat().join(", ")
            )?;
            writeln!(
                out,
                "        pub fn {symbol}_run_ws({}) -> i32;",
                [&run[..], &sizes, &prepared, &workspace].concat().join(", ")
            )?;
        }
    }
    writeln!(out, "    }}\n}}\n")
}

fn weights(prefix: &str, file: &ExternalWeights, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "/// Passes the content of the file of weights, `{}`, once: before the first call.",
        file.file_name()
    )?;
    writeln!(out, "/// A mapping of the file serves best; the bytes must be aligned to 64.\n///")?;
    writeln!(
        out,
        "/// # Errors\n/// It is not the file that this library was built with, or others were passed before."
    )?;
    writeln!(out, "#[allow(dead_code)]\npub fn set_weights(weights: &'static [u8]) -> Result<(), Error> {{")?;
    writeln!(out, "    // SAFETY: the bytes live as long as the program, and nothing changes them.")?;
    writeln!(out, "    result(unsafe {{ raw::{prefix}_set_weights(weights.as_ptr(), weights.len()) }})\n}}\n")
}

fn function(library: &Library, layout: &FunctionLayout<'_>, out: &mut String) -> std::fmt::Result {
    let symbol = library.symbol(layout.function);
    let name = snake(&layout.function.c_name());
    let names = names(layout);
    let sizes: Vec<String> = layout.function.c_size_names().iter().map(|n| snake(n)).collect();
    let all = vec![true; layout.params.len()];
    writeln!(
        out,
        "/// `{}`, over contiguous arrays in row-major order unless strides are given.",
        layout.function.name
    )?;
    writeln!(out, "///")?;
    for (i, (n, param)) in names.iter().zip(&layout.params).enumerate() {
        let dtype = param.dtype.name();
        match &param.strides {
            _ if param.by_value => writeln!(out, "/// * `{n}`: `{dtype}`")?,
            None => writeln!(out, "/// * `{n}`: `{dtype}[{}]`", layout.shape_text(i))?,
            Some(strides) => {
                writeln!(out, "/// * `{n}`: `{dtype}[{}]` with strides `{strides:?}`", layout.shape_text(i))?;
            }
        }
    }
    writeln!(out, "///\n/// # Errors\n/// A slice has another length, or the call fails.")?;
    wrapper(&name, &symbol, layout, &names, &sizes, &all, "", out)?;
    if layout.has_preparation() {
        let prepare: Vec<bool> = layout.passed.iter().map(|p| p.1).collect();
        let run: Vec<bool> = layout.passed.iter().map(|p| p.0).collect();
        writeln!(
            out,
            "/// Prepares the constant parameters of [`{name}`], for [`{name}_run`].\n///\n/// # Errors\n/// As [`{name}`]."
        )?;
        wrapper(
            &format!("{name}_prepare"),
            &format!("{symbol}_prepare"),
            layout,
            &names,
            &sizes,
            &prepare,
            "prepare",
            out,
        )?;
        writeln!(out, "/// [`{name}`] with prepared parameters.\n///\n/// # Errors\n/// As [`{name}`].")?;
        wrapper(&format!("{name}_run"), &format!("{symbol}_run"), layout, &names, &sizes, &run, "run", out)?;
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "three functions of one form")]
fn wrapper(
    name: &str,
    symbol: &str,
    layout: &FunctionLayout<'_>,
    names: &[String],
    sizes: &[String],
    passed: &[bool],
    prepared: &str,
    out: &mut String,
) -> std::fmt::Result {
    let kept: Vec<usize> = (0..names.len()).filter(|&i| passed[i]).collect();
    let slice = |&i: &usize| {
        let (p, name, element) = (&layout.params[i], &names[i], rust_type(layout.params[i].dtype));
        match (p.by_value, p.is_written()) {
            (true, _) => format!("{name}: {element}"),
            (false, true) => format!("{name}: &mut [{element}]"),
            (false, false) => format!("{name}: &[{element}]"),
        }
    };
    let mut params: Vec<String> = kept.iter().map(slice).collect();
    params.extend(sizes.iter().map(|n| format!("{n}: i64")));
    let returns = match prepared {
        "prepare" => "Aligned",
        _ => "()",
    };
    if prepared == "run" {
        params.push("prepared: &Aligned".to_owned());
    }
    writeln!(out, "#[allow(dead_code, clippy::too_many_arguments)]")?;
    writeln!(out, "pub fn {name}({}) -> Result<{returns}, Error> {{", params.join(", "))?;
    for &i in kept.iter().filter(|&&i| !layout.params[i].by_value) {
        writeln!(
            out,
            "    if {}.len() != {} {{\n        return Err(Error::Length);\n    }}",
            names[i],
            len(layout, i, sizes)
        )?;
    }
    let mut args: Vec<String> = kept
        .iter()
        .map(|&i| match (layout.params[i].by_value, layout.params[i].is_written()) {
            (true, _) => names[i].clone(),
            (false, true) => format!("{}.as_mut_ptr()", names[i]),
            (false, false) => format!("{}.as_ptr()", names[i]),
        })
        .collect();
    args.extend(sizes.iter().cloned());
    let base = symbol.trim_end_matches("_prepare").trim_end_matches("_run");
    match prepared {
        "" => {
            writeln!(
                out,
                "    // SAFETY: the slices are as long as the parameters, and distinct where one is written."
            )?;
            writeln!(out, "    result(unsafe {{ raw::{symbol}({}) }})", args.join(", "))?;
        }
        "prepare" => {
            writeln!(out, "    // SAFETY: the function only looks at its description.")?;
            writeln!(
                out,
                "    let mut prepared = Aligned::new(unsafe {{ raw::{base}_prepared_bytes({}) }});",
                sizes.join(", ")
            )?;
            args.push("prepared.0.as_mut_ptr().cast()".to_owned());
            writeln!(out, "    // SAFETY: as above; the memory is as long as the function says.")?;
            writeln!(out, "    result(unsafe {{ raw::{symbol}({}) }})?;\n    Ok(prepared)", args.join(", "))?;
        }
        _ => {
            writeln!(out, "    // SAFETY: the function only looks at its description.")?;
            writeln!(out, "    if prepared.len() < unsafe {{ raw::{base}_prepared_bytes({}) }} {{", sizes.join(", "))?;
            writeln!(out, "        return Err(Error::Length);\n    }}")?;
            args.push("prepared.0.as_ptr().cast()".to_owned());
            writeln!(
                out,
                "    // SAFETY: the slices are as long as the parameters, and distinct where one is written."
            )?;
            writeln!(out, "    result(unsafe {{ raw::{symbol}({}) }})", args.join(", "))?;
        }
    }
    writeln!(out, "}}\n")
}

/// Number of elements of a parameter's slice, as an expression over the sizes.
fn len(layout: &FunctionLayout<'_>, param: usize, sizes: &[String]) -> String {
    if let Some(batch) = layout.function.batch {
        return len_of_batch(layout, param, sizes, batch);
    }
    let spans = layout.shapes(param).map(|s| Param { shape: s.to_vec(), ..layout.params[param].clone() }.span());
    let lens: Vec<u64> = spans.collect();
    if lens.iter().all(|n| *n == lens[0]) {
        return lens[0].to_string();
    }
    // A table by sizes: extents need not be sizes themselves.
    let tuple =
        |values: &[String]| if values.len() == 1 { values[0].clone() } else { format!("({})", values.join(", ")) };
    let mut arms = String::new();
    for (version, n) in layout.function.versions.iter().zip(&lens) {
        let values: Vec<String> = version.sizes.iter().map(i64::to_string).collect();
        // Writing to a string cannot fail.
        let _ = write!(arms, "{} => {n}, ", tuple(&values));
    }
    format!("match {} {{ {arms}_ => return Err(Error::Size) }}", tuple(sizes))
}

/// As [`len`], for any number of samples.
fn len_of_batch(layout: &FunctionLayout<'_>, param: usize, sizes: &[String], batch: usize) -> String {
    let others = |values: &[String]| -> String {
        let kept = values.iter().enumerate().filter(|(k, _)| *k != batch).map(|(_, value)| value.clone());
        format!("({})", kept.map(|value| value + ",").collect::<String>())
    };
    let mut arms: Vec<String> = Vec::new();
    for (version, shape) in layout.function.versions.iter().zip(layout.shapes(param)) {
        let values: Vec<String> = version.sizes.iter().map(i64::to_string).collect();
        let arm = format!("{} => {}usize, ", others(&values), shape[1..].iter().product::<i64>());
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    let each = match &sizes.len() {
        1 => layout.shapes(param).next().map_or(1, |s| s[1..].iter().product::<i64>()).to_string(),
        _ => format!("match {} {{ {}_ => return Err(Error::Size) }}", others(sizes), arms.concat()),
    };
    let n = &sizes[batch];
    format!("usize::try_from({n}).map_err(|_| Error::Size)?.checked_mul({each}).ok_or(Error::Size)?")
}

/// The type of elements in Rust; halves are their bits.
fn rust_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Float16 | DType::BFloat16 | DType::UInt16 => "u16",
        DType::Float32 => "f32",
        DType::Float64 => "f64",
        DType::Int8 => "i8",
        DType::Int16 => "i16",
        DType::Int32 => "i32",
        DType::Int64 => "i64",
        DType::UInt8 | DType::Bool | DType::Float8(_) | DType::Narrow(_) => "u8",
        DType::UInt32 => "u32",
        DType::UInt64 => "u64",
        DType::Handle | DType::Str => "u8",
    }
}
