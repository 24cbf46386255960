//! Arguments that several commands share.

use super::console::Color;
use crate::graph::pass::{Context, PIPELINE};
use crate::request::Error;
use crate::request::program;
pub(super) use crate::request::setting::Threads;
use crate::script::Dialect;
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::path::PathBuf;

/// Options of every command.
#[derive(clap::Args, Debug)]
pub(super) struct Global {
    /// Print errors and results only
    #[arg(short, long, global = true)]
    #[arg(help_heading = "General options")]
    pub quiet: bool,
    /// Log more: every attempt (-v), every step (-vv); the variable RUST_LOG works as well
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    #[arg(help_heading = "General options")]
    pub verbose: u8,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(help_heading = "General options")]
    pub color: Color,
    /// Instruction set to generate code for; the best of this CPU if left out
    #[arg(long, global = true, value_name = "ISA", value_parser = isa)]
    #[arg(help_heading = "Code generation")]
    pub isa: Option<crate::machine::Isa>,
    /// Keep floating-point operations as written: no contraction, no reassociation, no reciprocals
    #[arg(long, global = true)]
    #[arg(help_heading = "Code generation")]
    pub strict_fp: bool,
}

impl Global {
    /// Starts the log that `-v` and `RUST_LOG` ask for.
    pub(super) fn start_logging(&self, color: bool) {
        use tracing_subscriber::filter::Targets;
        use tracing_subscriber::layer::SubscriberExt;
        use tracing_subscriber::util::SubscriberInitExt;
        let wanted = match self.verbose {
            0 => "off",
            1 => "tvmr=info",
            2 => "tvmr=debug",
            _ => "tvmr=trace",
        };
        if self.verbose == 0 && std::env::var_os("RUST_LOG").is_none() {
            return;
        }
        // `RUST_LOG` lists targets and levels; filters by span and field would need a regular expression engine.
        let from_environment = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
        let filter = from_environment.or_else(|| wanted.parse().ok()).unwrap_or_default();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_target(false)
            .with_ansi(color)
            .without_time();
        // Fails only if there is a subscriber already, and this is the only call.
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    }
}

/// A program, and the values of its symbolic extents.
#[derive(clap::Args, Debug)]
pub(super) struct Input {
    /// Program in TVMScript, an ONNX model, or Python with tensor expressions; `-` reads standard input
    pub file: PathBuf,
    /// Values of symbolic extents and scalars, such as `n=1024` or `n=1024,m=8`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = binding)]
    pub bind: Vec<(String, i64)>,
    /// Arguments of a workload of tensor expressions, such as `1024,1024,float32`
    #[arg(long, value_name = "VALUES", allow_hyphen_values = true)]
    pub args: Option<String>,
    #[command(flatten)]
    pub graph: GraphFiles,
}

/// What graphs refer to.
#[derive(clap::Args, Debug)]
pub(super) struct GraphFiles {
    /// Weights of a graph (`.safetensors` or `.npz`); the file beside the program with its name if left out
    #[arg(long, value_name = "FILE", help_heading = "Graphs")]
    pub weights: Option<PathBuf>,
    /// File with functions that a graph calls by name: prim_funcs, or a shared library by TVM-FFI's convention; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Graphs")]
    pub library: Vec<PathBuf>,
    /// Shape of an input of a graph, such as `x=1,3,224,224`, which gives its symbolic extents their values; may be repeated, by
    /// `build` also for the same input: each of its shapes gets a version
    #[arg(long, value_name = "NAME=EXTENTS", value_parser = super::shapes::shape, help_heading = "Graphs")]
    pub shape: Vec<super::shapes::Shape>,
    /// Elements of an input of an ONNX model, such as `axes=0,1` or `shape=shape.npy`: the input becomes a constant; may be
    /// repeated
    #[arg(long = "const", value_name = "NAME=VALUE", value_parser = super::model_inputs::constant, help_heading = "Graphs")]
    pub constants: Vec<super::model_inputs::Const>,
    /// Leave an optional pass over graphs out, to see what it changes; may be repeated
    #[arg(long, value_name = "PASS", value_parser = optional_passes(), hide_short_help = true, help_heading = "Graphs")]
    pub skip_pass: Vec<String>,
    /// [`Global::strict_fp`], on which passes over graphs depend.
    #[arg(from_global)]
    pub strict_fp: bool,
}

impl GraphFiles {
    /// What the passes over graphs need besides the graph.
    ///
    /// # Errors
    /// A library cannot be read.
    pub(super) fn context(&self) -> Result<Context, Error> {
        Ok(Context { skipped: self.skip_pass.clone(), strict_fp: self.strict_fp, ..program::library(&self.library)? })
    }
}

/// Reads the name of a pass over graphs that may be left out.
fn optional_passes() -> PossibleValuesParser {
    PIPELINE.iter().filter(|pass| pass.is_optional).map(|pass| PossibleValue::new(pass.name).help(pass.doc)).into()
}

/// Programs, and the values of their symbolic extents.
#[derive(clap::Args, Debug)]
pub(super) struct Inputs {
    /// Programs in TVMScript; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Values of symbolic extents and scalars, such as `n=1024` or `n=1024,m=8`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = binding)]
    pub bind: Vec<(String, i64)>,
    /// Shape of an input of a graph, such as `x=1,3,224,224`, which gives its symbolic extents their values; may be repeated
    #[arg(long, value_name = "NAME=EXTENTS", value_parser = super::shapes::shape)]
    pub shape: Vec<super::shapes::Shape>,
}

/// The database.
#[derive(clap::Args, Debug)]
pub(super) struct WorkDir {
    /// Directory of the database
    #[arg(long, value_name = "DIR", default_value = "tvmr_db")]
    #[arg(help_heading = "Database")]
    pub work_dir: PathBuf,
}

/// Tensor intrinsics besides the built-in ones.
#[derive(clap::Args, Debug)]
pub(super) struct Intrin {
    /// File of tensor intrinsics for `tensorize`: functions `NAME_desc` and `NAME_impl`; may be repeated
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = "Schedules")]
    pub intrin: Vec<PathBuf>,
}

/// The machine that kernels are made for.
#[derive(clap::Args, Debug)]
pub(super) struct Machine {
    /// Threads that a kernel's parallel loops use, or `all`
    #[arg(long, value_name = "N", value_parser = threads)]
    #[arg(allow_negative_numbers = true)]
    #[arg(help_heading = "Machine")]
    pub threads: Option<Threads>,
    /// Description of the machine: `native`, or a file
    #[arg(long, value_name = "TARGET", default_value = "native")]
    #[arg(help_heading = "Machine")]
    pub target: String,
}

/// Dialect of printed programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum DialectArg {
    /// `T.block`, `T.alloc_buffer`
    Classic,
    /// `T.sblock`, `T.sblock_alloc_buffer`, as in TVM 0.27
    Current,
}

impl From<DialectArg> for Dialect {
    fn from(arg: DialectArg) -> Self {
        match arg {
            DialectArg::Classic => Dialect::Classic,
            DialectArg::Current => Dialect::Current,
        }
    }
}

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Human,
    /// One JSON document
    Json,
}

fn threads(text: &str) -> Result<Threads, String> {
    match text {
        "all" => Ok(Threads::All),
        _ => match text.parse::<usize>() {
            Ok(n @ 1..=1024) => Ok(Threads::Count(n)),
            _ => Err("expected a number from 1 to 1024, or `all`".to_string()),
        },
    }
}

/// Parses the value of a symbol: `n=1024`.
pub(super) fn binding(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text.split_once('=').ok_or("expected `name=value`")?;
    let value = value.trim().parse::<i64>().map_err(|_| format!("expected an integer, found `{value}`"))?;
    let name = name.trim();
    if name.is_empty() {
        return Err("expected a name before `=`".to_string());
    }
    Ok((name.to_string(), value))
}

fn isa(text: &str) -> Result<crate::machine::Isa, String> {
    // clap's message quotes the value, so this one does not.
    let known: Vec<&str> = crate::machine::Isa::ALL.iter().map(|i| i.name()).collect();
    text.parse().map_err(|_| format!("expected one of `{}`", known.join("`, `")))
}

/// Parses the seed of a random stream.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse::<u64>().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// Parses an integer from 1 to 1,000,000,000.
pub(super) fn positive(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(n @ 1..=1_000_000_000) => Ok(n),
        _ => Err("expected a whole number from 1 to 1000000000".to_string()),
    }
}
