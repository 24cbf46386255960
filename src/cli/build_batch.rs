//! Whether a function may run on parts of a batch (`tvmr build --batch-loop`).

use super::exit::Failure;
use super::load::Program;
use crate::export::Function;
use crate::graph::batch;
use crate::graph::pass::{self, Context};
use crate::request::program;

/// Checks that the samples of the batch are independent, with each choice of values of the other symbols. `told` has the values of the
/// versions, and `read` reads the program with some of them.
///
/// # Errors
/// They are not, or that is not understood; the message names the operator.
pub(super) fn check(
    symbol: &str,
    told: &[Vec<(String, i64)>],
    func: Option<&str>,
    cx: &Context,
    read: impl Fn(&[(String, i64)]) -> Result<Program, Failure>,
) -> Result<(), Failure> {
    let mut checked: Vec<Vec<(String, i64)>> = Vec::new();
    for values in told {
        let others: Vec<(String, i64)> = values.iter().filter(|(name, _)| name != symbol).cloned().collect();
        if checked.contains(&others) {
            continue;
        }
        let program = read(&others)?;
        let Some(graph) = program.graph(func)? else {
            let message = format!("`--batch-loop` is for graphs, and `{}` has none", program.name);
            return Err(Failure::Usage(message, "write the loop around its calls".to_owned()));
        };
        let mut module = program.graph_module();
        pass::run_until(&mut module, cx, "lower_operators").map_err(|found| program::mistakes(&program, found))?;
        let graph = module.functions.iter().find(|f| f.name == graph.name).ok_or_else(|| gone(symbol))?;
        batch::check(&module, graph, symbol).map_err(|why| {
            let help = "leave `--batch-loop` out: there is a version for each size that `--bind` or `--shape` gives"
                .to_owned();
            Failure::Usage(format!("`--batch-loop {symbol}`: samples may depend on each other: {why}"), help)
        })?;
        checked.push(others);
    }
    Ok(())
}

/// Checks that the versions of a function differ in the number of samples alone, which is the leading extent of all parameters. An
/// operator may do something else for a batch of one, such as remove the dimension.
///
/// # Errors
/// They differ otherwise.
pub(super) fn check_versions(symbol: &str, function: &Function) -> Result<(), Failure> {
    let Some(at) = function.batch else { return Ok(()) };
    // The shapes without the batch, by the other sizes.
    let mut known: Vec<(Vec<i64>, Vec<Vec<i64>>)> = Vec::new();
    for version in &function.versions {
        let params = version.params().map_err(|e| Failure::Usage(e.to_string(), String::new()))?;
        let mut others = version.sizes.clone();
        let n = others.remove(at);
        let samples: Option<Vec<Vec<i64>>> = params
            .iter()
            .map(|p| p.shape.split_first().filter(|(first, _)| **first == n).map(|(_, rest)| rest.to_vec()))
            .collect();
        let agrees = samples.is_some_and(|samples| match known.iter().find(|(sizes, _)| *sizes == others) {
            Some((_, first)) => *first == samples,
            None => {
                known.push((others, samples));
                true
            }
        });
        if !agrees {
            let message = format!(
                "`--batch-loop {symbol}`: the shapes of `{}` for {n} samples differ from others by more than their number",
                function.name
            );
            return Err(Failure::Usage(message, String::new()));
        }
    }
    Ok(())
}

/// The passes have removed the graph, since another one contains it.
fn gone(symbol: &str) -> Failure {
    Failure::Usage(format!("`--batch-loop {symbol}`: the graph is part of another one"), String::new())
}
