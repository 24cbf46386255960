//! `tvmr check`: verifies files and lints them.

use super::Done;
use super::args::{Format, Global, Inputs};
use super::console::Console;
use super::exit::Failure;
use super::json;
use super::load::{self, Program};
use super::model_inputs::ModelInputs;
use crate::diagnostic::{Diagnostics, Severity};
use crate::te_function::WorkloadChoice;
use serde_json::{Value, json};
use std::path::Path;

/// Check that programs are well formed and make sense, and show all their mistakes
#[derive(clap::Args, Debug)]
#[command(after_help = super::help::CHECK)]
pub(super) struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// Function of a text with tensor expressions; not needed if there is only one workload
    #[arg(long, value_name = "NAME")]
    func: Option<String>,
    /// Arguments of a workload of tensor expressions, such as `1024,1024,float32`
    #[arg(long, value_name = "VALUES", allow_hyphen_values = true)]
    args: Option<String>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// The result for a file without errors.
struct Checked {
    name: String,
    functions: usize,
    warnings: Diagnostics,
}

pub(super) fn run(args: &Args, _global: &Global, console: Console) -> Done {
    match args.format {
        Format::Human => load::each(&args.inputs.files, console, |file| {
            let checked = check(args, file)?;
            if !checked.warnings.items.is_empty() {
                console.diagnostics(&checked.warnings);
            }
            let warnings = match checked.warnings.items.len() {
                0 => String::new(),
                1 => ", 1 warning".to_string(),
                n => format!(", {n} warnings"),
            };
            let (n, s) = (checked.functions, if checked.functions == 1 { "" } else { "s" });
            console.note(&format!("{}: {n} function{s} well formed{warnings}", checked.name));
            Ok(())
        }),
        Format::Json => {
            let (mut files, mut diagnostics, mut worst) = (Vec::new(), Vec::new(), 0);
            for path in &args.inputs.files {
                let (functions, found, code) = match check(args, path) {
                    Ok(checked) => (Some(checked.functions), json::of_diagnostics(&checked.warnings), 0),
                    Err(failure) => (None, json::of_failure(&failure), failure.code()),
                };
                let count = |severity: &str| found.iter().filter(|d: &&Value| d["severity"] == severity).count();
                let (errors, warnings) = (count("error"), count("warning"));
                files.push(json!({
                    "file": path.to_string_lossy(), "functions": functions, "errors": errors, "warnings": warnings,
                }));
                diagnostics.extend(found);
                worst = worst.max(code);
            }
            let document = json!({"exit_code": worst, "files": files, "diagnostics": diagnostics});
            console.result(&format!("{document:#}\n"))?;
            if worst == 0 { Ok(()) } else { Err(Failure::Told(worst)) }
        }
    }
}

/// # Errors
/// If the file has an error; its warnings are reported with it.
fn check(args: &Args, file: &Path) -> Result<Checked, Failure> {
    let wanted = WorkloadChoice { func: args.func.as_deref(), args: args.args.as_deref() };
    let (name, content) = (file.to_string_lossy(), load::content(file)?);
    let inputs = ModelInputs::new(&args.inputs.shape, &[]);
    let program = Program::from_content(&name, &args.inputs.bind, content, wanted, None, &inputs)?;
    let program = super::shapes::shaped(program, &args.inputs.shape)?;
    let mut found = program.parsed.warnings.clone();
    found.extend(program.lints());
    let has_errors = found.iter().any(|d| d.severity == Severity::Error);
    let found = Diagnostics::new(program.source(), found);
    match has_errors {
        true => Err(Failure::from(found)),
        false => Ok(Checked {
            name: program.name.clone(),
            functions: program.module().funcs.len() + program.graphs().len(),
            warnings: found,
        }),
    }
}
