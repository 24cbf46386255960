//! `tvmr import`: writes an ONNX model as text and weights.

use super::Done;
use super::args::Global;
use super::console::Console;
use super::exit::Failure;
use super::load::{self, Program};
use super::model_inputs::ModelInputs;
use super::output::write_file;
use crate::arrays::{self, ArrayError, ArrayFile};
use crate::onnx;
use crate::te_function::WorkloadChoice;
use std::path::PathBuf;

/// Write an ONNX model as text, and its weights beside it
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::IMPORT)]
pub(super) struct Args {
    /// ONNX model
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Text to write; the weights get its name with `.safetensors`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Values of symbolic extents, such as `n=1` or `n=1,m=8`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = super::args::binding)]
    bind: Vec<(String, i64)>,
    /// Shape of an input, such as `x=1,3,224,224`, which gives its symbolic extents their values; may be repeated
    #[arg(long, value_name = "NAME=EXTENTS", value_parser = super::shapes::shape)]
    shape: Vec<super::shapes::Shape>,
    /// Elements of an input, such as `axes=0,1` or `shape=shape.npy`: the input becomes a constant; may be repeated
    #[arg(long = "const", value_name = "NAME=VALUE", value_parser = super::model_inputs::constant)]
    constants: Vec<super::model_inputs::Const>,
}

pub(super) fn run(args: &Args, _global: &Global, console: Console) -> Done {
    if !onnx::is_model(&args.file) {
        let message = format!("`{}` is no ONNX model: its name does not end in `.onnx`", args.file.display());
        return Err(Failure::Usage(message, String::new()));
    }
    if args.output.extension().is_some_and(|e| e == "safetensors" || e == "onnx") {
        let help = "name the text, such as `model.tir`".to_owned();
        return Err(Failure::Usage(format!("`{}` would be overwritten", args.output.display()), help));
    }
    let (content, wanted) = (load::content(&args.file)?, WorkloadChoice::default());
    let inputs = ModelInputs::new(&args.shape, &args.constants);
    let program = Program::parse(&args.file, &args.bind, content, wanted, None, &inputs, console)?;
    let program = super::shapes::shaped(program, &args.shape)?;
    let refuse = |e: ArrayError| Failure::Usage(e.to_string(), String::new());
    let file = ArrayFile::open(&args.file).map_err(refuse)?;
    let mut weights = Vec::new();
    for (i, name) in file.names().into_iter().enumerate() {
        let is_read = |f: &crate::graph::Function| f.params.iter().any(|&p| f.value(p).name == name);
        if program.graphs().iter().any(is_read) {
            weights.push((name, file.read(i, None).map_err(refuse)?));
        }
    }
    let given: Vec<_> = weights.iter().map(|(name, array)| (*name, array)).collect();
    if !given.is_empty() {
        let failed = |e: ArrayError| Failure::Machine(e.to_string(), String::new());
        arrays::write(&args.output.with_extension("safetensors"), &given).map_err(failed)?;
    }
    write_file(&args.output, program.text.as_bytes())
}
