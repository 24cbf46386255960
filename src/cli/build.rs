//! `tvmr build`: writes tuned native code, for programs that know nothing of tvmr.
//!
//! ```text
//! $ tvmr build matmul.tir -o build/matmul --emit shared,header,python
//! build/libmatmul.so
//! build/matmul.h
//! build/matmul.py
//! ```

use super::args::{Format, Global, Intrin, Machine, WorkDir};
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::versions::{Wanted, setting_of};
use super::{Done, output, records, setting};
use crate::codegen::CodegenOptions;
use crate::export::{self, ExportError, Kind, Library, LinkError, Measured, Version, Versions};
use crate::ir::hash::program_hash;
use crate::machine::Isa;
use crate::workload::{Setting, Workload};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Build native code of a program: an object file, libraries, headers and wrappers
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::BUILD)]
pub(super) struct Args {
    /// Program in TVMScript; `-` reads standard input
    file: PathBuf,
    /// Values of a symbolic extent, such as `n=1024` or `n=1..8,16,32`: each gets a version; may be repeated
    #[arg(long, value_name = "NAME=VALUES", value_parser = sizes)]
    bind: Vec<(String, Vec<i64>)>,
    /// Directory and name of the files, such as `build/matmul`
    #[arg(short, long, value_name = "DIR/NAME")]
    output: PathBuf,
    /// Files to write
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_values_t = [Emit::Obj, Emit::Header])]
    emit: Vec<Emit>,
    /// First part of all symbols, instead of NAME; also behind `__tvm_ffi_`
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Export no symbols of TVM-FFI
    #[arg(long)]
    no_tvm_ffi: bool,
    /// Build only this function
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Build the program as written
    #[arg(long, conflicts_with_all = ["trace", "frozen"])]
    as_written: bool,
    /// Apply this trace (Python or JSON) or schedule function, instead of the best known schedule
    #[arg(long, value_name = "FILE", conflicts_with = "frozen")]
    #[arg(help_heading = "Schedules")]
    trace: Option<PathBuf>,
    /// Seed for decisions that the trace leaves open
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::args::seed)]
    #[arg(allow_negative_numbers = true, help_heading = "Schedules")]
    seed: u64,
    #[command(flatten)]
    intrin: Intrin,
    #[command(flatten)]
    machine: Machine,
    /// Also use records of other CPUs
    #[arg(long)]
    #[arg(help_heading = "Machine")]
    any_target: bool,
    #[command(flatten)]
    work_dir: WorkDir,
    /// Fail unless every function has a record for this target
    #[arg(long)]
    #[arg(help_heading = "Database")]
    frozen: bool,
    /// Form of the list of files
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// A file that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Emit {
    /// `NAME.o`: a relocatable object
    Obj,
    /// `libNAME.a`: a static library
    Static,
    /// `libNAME.so`: a shared library; needs a linker
    Shared,
    /// `NAME.h`: declarations for C99 and C++11
    Header,
    /// `NAME.py`: functions over NumPy arrays; writes `shared` too
    Python,
    /// `NAME.rs`: declarations and safe functions for Rust
    Rust,
    /// `NAME.json`: a description of all functions
    Manifest,
}

/// The most versions that one function is built in.
const MOST_VERSIONS: usize = 1024;

/// Parses `n=1..8,16,32`.
fn sizes(text: &str) -> Result<(String, Vec<i64>), String> {
    let (name, list) = text.split_once('=').ok_or("expected `name=values`")?;
    let name = name.trim();
    if name.is_empty() {
        return Err("expected a name before `=`".to_owned());
    }
    let number = |t: &str| t.trim().parse::<i64>().map_err(|_| format!("expected an integer, found `{t}`"));
    let mut values = Vec::new();
    for part in list.split(',') {
        match part.split_once("..") {
            None => values.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
                if first > last {
                    return Err(format!("the range `{part}` is empty"));
                }
                if last.abs_diff(first) >= MOST_VERSIONS as u64 {
                    return Err(format!("the range `{part}` has more than {MOST_VERSIONS} values"));
                }
                values.extend(first..=last);
            }
        }
    }
    if let Some(twice) = values.iter().enumerate().find(|(i, v)| values[..*i].contains(v)) {
        return Err(format!("the value {} is given twice", twice.1));
    }
    Ok((name.to_owned(), values))
}

pub(super) fn run(args: &Args, global: &Global, console: Console) -> Done {
    let stdin = |p: &PathBuf| p.as_os_str() == "-";
    if stdin(&args.file) && args.trace.as_ref().is_some_and(stdin) {
        let message = "the program and the trace cannot both come from standard input".to_string();
        return Err(Failure::Usage(message, String::new()));
    }
    let place = Place::of(&args.output)?;
    let prefix = match &args.prefix {
        None => export::c_name(&place.name),
        Some(prefix) if export::is_c_name(prefix) => prefix.clone(),
        Some(prefix) => {
            let help = format!("`{}` is one", export::c_name(prefix));
            return Err(Failure::Usage(format!("`{prefix}` is not a name in C"), help));
        }
    };
    let library = Library {
        name: place.name.clone(),
        prefix,
        ffi_prefix: args.prefix.clone().unwrap_or_default(),
        has_tvm_ffi: !args.no_tvm_ffi,
        functions: functions(args, global, console)?,
    };
    let files = write(args, &library, &place)?;
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    match args.format {
        Format::Human => console.result(&names.iter().map(|n| format!("{n}\n")).collect::<String>()),
        Format::Json => {
            let functions: Vec<_> =
                library.functions.iter().map(|f| json!({"name": f.name, "symbol": library.symbol(f)})).collect();
            console.result(&format!("{:#}\n", json!({"files": names, "functions": functions})))
        }
    }
}

/// Where files are written.
struct Place {
    directory: PathBuf,
    name: String,
}

impl Place {
    fn of(output: &Path) -> Result<Place, Failure> {
        let refuse = |why: &str| {
            let help = "name a directory and the name of the files in it, such as `-o build/matmul`".to_string();
            Err(Failure::Usage(format!("`{}` {why}", output.display()), help))
        };
        let text = output.as_os_str().to_string_lossy();
        if text.ends_with('/') || output.is_dir() {
            return refuse("is a directory");
        }
        let Some(name) = output.file_name() else { return refuse("names no file") };
        let Some(name) = name.to_str() else { return refuse("is not UTF-8") };
        let directory = output.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Place { directory, name: name.to_owned() })
    }

    fn file(&self, name: String) -> PathBuf {
        self.directory.join(name)
    }

    /// The file that `--emit` names.
    fn of_emit(&self, emit: Emit) -> PathBuf {
        let name = &self.name;
        self.file(match emit {
            Emit::Obj => format!("{name}.o"),
            Emit::Static => format!("lib{name}.a"),
            Emit::Shared => format!("lib{name}.so"),
            Emit::Header => format!("{name}.h"),
            Emit::Python => format!("{name}.py"),
            Emit::Rust => format!("{name}.rs"),
            Emit::Manifest => format!("{name}.json"),
        })
    }
}

/// The functions of a program, in a version for each choice of sizes.
fn functions(args: &Args, global: &Global, console: Console) -> Result<Vec<export::Function>, Failure> {
    let source = load::text(&args.file)?;
    let mut functions: Vec<export::Function> = Vec::new();
    let mut missing: Vec<(String, String)> = Vec::new();
    let choices = choices(&args.bind)?;
    let size_names: Vec<String> = args.bind.iter().filter(|(_, v)| v.len() > 1).map(|(n, _)| n.clone()).collect();
    for (i, choice) in choices.iter().enumerate() {
        let program = if i == 0 {
            Program::parse(&args.file, choice, source.clone(), console)?
        } else {
            Program::parse_untold(&args.file, choice, source.clone())?
        };
        let chosen = program.functions(args.func.as_deref())?;
        for &index in &chosen {
            setting::check_concrete(&program.module().funcs[index])?;
        }
        let sizes: Vec<i64> =
            choice.iter().filter(|(name, _)| size_names.contains(name)).map(|(_, value)| *value).collect();
        for version in versions(args, global, &program, &chosen, console, &mut missing)? {
            let (name, mut version) = version;
            version.sizes.clone_from(&sizes);
            match functions.iter_mut().find(|f| f.name == name) {
                Some(function) => function.versions.push(version),
                None => {
                    functions.push(export::Function { name, size_names: size_names.clone(), versions: vec![version] })
                }
            }
        }
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|(n, _)| format!("`{n}`")).collect();
        let message = format!("no record for {} on this target: {}", names.join(", "), missing[0].1);
        if args.frozen {
            return Err(Failure::Negative(message));
        }
        console.warn(&format!("{message}; built as written"));
    }
    Ok(functions.into_iter().map(without_idle_sizes).collect())
}

/// A function without sizes that none of its parameters depend on: its versions are all the same.
fn without_idle_sizes(function: export::Function) -> export::Function {
    let same = |v: &Version| crate::ir::equal::Equality::default().funcs(&function.versions[0].func, &v.func).is_ok();
    if function.versions.len() > 1 && function.versions.iter().all(same) {
        let mut version = function.versions[0].clone();
        version.sizes.clear();
        return export::Function { size_names: Vec::new(), versions: vec![version], ..function };
    }
    function
}

/// All choices of values: the product of the lists.
fn choices(bind: &[(String, Vec<i64>)]) -> Result<Vec<Vec<(String, i64)>>, Failure> {
    let mut all = vec![Vec::new()];
    for (name, values) in bind {
        if all.len().saturating_mul(values.len()) > MOST_VERSIONS {
            let message = format!("`--bind` asks for more than {MOST_VERSIONS} versions of each function");
            return Err(Failure::Usage(message, "give fewer values".to_string()));
        }
        all = all
            .iter()
            .flat_map(|choice: &Vec<(String, i64)>| {
                values.iter().map(move |&v| choice.iter().cloned().chain([(name.clone(), v)]).collect())
            })
            .collect();
    }
    Ok(all)
}

/// The functions of a program with fixed extents, with their schedules. Names without a record are added to `missing`.
fn versions(
    args: &Args,
    global: &Global,
    program: &Program,
    chosen: &[usize],
    console: Console,
    missing: &mut Vec<(String, String)>,
) -> Result<Vec<(String, Version)>, Failure> {
    let setting = setting::here(&args.machine, global, true, console)?;
    if args.as_written || args.trace.is_some() {
        let wanted = Wanted {
            best: false,
            trace: args.trace.as_deref(),
            func: args.func.as_deref(),
            seed: args.seed,
            intrin: &args.intrin,
            machine: &args.machine,
            work_dir: &args.work_dir,
        };
        let all = wanted.versions(global, program, chosen, &setting, console)?;
        return Ok(all
            .into_iter()
            .map(|v| (v.workload.name.to_string(), version(&v.workload, v.func, &v.setting, global, None)))
            .collect());
    }
    let intrinsics = load::intrinsics(&args.intrin)?;
    let target = load::target(&args.machine)?;
    let db = records::open(&args.work_dir.work_dir, console)?;
    let filter = records::filter(&target, &args.machine, global, args.any_target);
    let mut all = Vec::new();
    for &index in chosen {
        let workload = Workload::of(program.module(), index).with_intrinsics(intrinsics.clone());
        let name = workload.name.to_string();
        let Some(best) = records::best(&workload, db.as_ref(), &filter, 1, console)? else {
            if missing.iter().all(|(n, _)| *n != name) {
                let why = records::why_none(&workload, db.as_ref(), &args.work_dir.work_dir, &filter);
                missing.push((name.clone(), why));
            }
            let func = workload.func().clone();
            all.push((name, version(&workload, func, &setting, global, None)));
            continue;
        };
        records::say_origin(&workload, &best, &args.machine, console);
        let setting = setting_of(&best, &setting, global);
        let func = best.schedule.func(0).clone();
        all.push((name, version(&workload, func, &setting, global, best.record.secs())));
    }
    Ok(all)
}

/// A version for this CPU, and one for every CPU unless `--isa` chooses.
fn version(
    workload: &Workload,
    func: crate::ir::Func,
    setting: &Setting,
    global: &Global,
    secs: Option<f64>,
) -> Version {
    let tuned = setting.codegen();
    let portable = CodegenOptions { isa: Isa::Portable, any_cpu: true, ..tuned };
    let targets = match (tuned.isa, global.isa) {
        (Isa::Portable, _) => vec![portable],
        (_, Some(_)) => vec![tuned],
        (_, None) => vec![tuned, portable],
    };
    let measured =
        secs.map(|s| Measured { latency_us: s * 1e6, program: program_hash(&func), workload: workload.hash });
    Version { sizes: Vec::new(), func, targets: Versions(targets), measured }
}

/// Writes the files; returns their names, in the order of `--emit`.
fn write(args: &Args, library: &Library, place: &Place) -> Result<Vec<PathBuf>, Failure> {
    let mut wanted = args.emit.clone();
    if wanted.contains(&Emit::Python) && !wanted.contains(&Emit::Shared) {
        wanted.push(Emit::Shared);
    }
    let failed = |e: ExportError| match e {
        ExportError::Lower { .. } | ExportError::Codegen { .. } => Failure::Negative(e.to_string()),
        ExportError::Collision { .. } => {
            Failure::Usage(e.to_string(), "build them into libraries of their own with `--func`".to_string())
        }
        ExportError::Param { .. } => Failure::Usage(e.to_string(), String::new()),
        ExportError::Format | ExportError::Write(_) => Failure::Machine(e.to_string(), String::new()),
    };
    // All contents are made before the first file is written.
    let needs_object = wanted.iter().any(|e| matches!(e, Emit::Obj | Emit::Static));
    let object = if needs_object { export::object(library, Kind::Linked).map_err(failed)? } else { Vec::new() };
    let mut contents: Vec<(Emit, Vec<u8>)> = Vec::new();
    for &emit in &wanted {
        if contents.iter().any(|(e, _)| *e == emit) {
            continue;
        }
        let text = |r: Result<String, ExportError>| r.map(String::into_bytes).map_err(failed);
        let bytes = match emit {
            Emit::Obj => object.clone(),
            Emit::Static => export::archive(&format!("{}.o", library.name), &object)
                .map_err(|e| Failure::Machine(format!("cannot make an archive: {e}"), String::new()))?,
            Emit::Shared => export::object(library, Kind::Shared).map_err(failed)?,
            Emit::Header => text(export::header(library))?,
            Emit::Python => text(export::python(library))?,
            Emit::Rust => text(export::rust(library))?,
            Emit::Manifest => text(export::manifest(library))?,
        };
        contents.push((emit, bytes));
    }
    if !place.directory.as_os_str().is_empty() {
        fs::create_dir_all(&place.directory).map_err(|e| {
            Failure::Machine(format!("cannot make the directory `{}`: {e}", place.directory.display()), String::new())
        })?;
    }
    let mut files = Vec::new();
    for (emit, bytes) in contents {
        let path = place.of_emit(emit);
        if emit == Emit::Shared {
            shared(library, &bytes, &path)?;
        } else {
            output::write_file(&path, &bytes)?;
        }
        files.push(path);
    }
    Ok(files)
}

/// Links a shared library beside its final place, and moves it there.
fn shared(library: &Library, object: &[u8], path: &Path) -> Done {
    let beside = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.{extension}", std::process::id()));
        PathBuf::from(name)
    };
    let (source, linked) = (beside("o"), beside("so"));
    let done = output::write_file(&source, object).and_then(|()| {
        export::link(library, &source, &linked).map_err(|e| match e {
            LinkError::Missing { .. } => {
                let help =
                    "install one (`apt install gcc` or `lld`), or use `--emit obj`, which needs none".to_string();
                Failure::Machine(e.to_string(), help)
            }
            LinkError::Failed { .. } => Failure::Machine(e.to_string(), "`$CC` names another one".to_string()),
        })?;
        let moved = fs::rename(&linked, path);
        moved.map_err(|e| Failure::Machine(format!("cannot write `{}`: {e}", path.display()), String::new()))
    });
    // The original error is reported; temporary files that cannot be removed are harmless.
    let _ = fs::remove_file(&source);
    let _ = fs::remove_file(&linked);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_and_ranges() {
        assert_eq!(sizes("n=1..4,16"), Ok(("n".to_owned(), vec![1, 2, 3, 4, 16])));
        assert_eq!(sizes("n=1..=2"), Ok(("n".to_owned(), vec![1, 2])));
        assert_eq!(sizes("n=7"), Ok(("n".to_owned(), vec![7])));
        for (text, why) in [
            ("n", "expected `name=values`"),
            ("=3", "expected a name"),
            ("n=4..1", "is empty"),
            ("n=1,1", "given twice"),
            ("n=x", "expected an integer"),
            ("n=0..100000", "more than 1024"),
        ] {
            assert!(sizes(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }

    #[test]
    fn choices_are_a_product() {
        let bind = [("n".to_owned(), vec![1, 2]), ("m".to_owned(), vec![3]), ("k".to_owned(), vec![4, 5])];
        let all = choices(&bind).expect("few");
        assert_eq!(all.len(), 4);
        assert_eq!(all[1], [("n".to_owned(), 1), ("m".to_owned(), 3), ("k".to_owned(), 5)]);
        assert_eq!(choices(&[]).expect("one"), [vec![]]);
    }
}
