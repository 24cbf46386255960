//! Draws the pictures of the documentation.
//!
//! `cargo run --example draw_pictures` draws them from what is in the repository. With the document of a tuning run it
//! first records that run, whose database must still be where the document says. Run both commands in the root of the
//! repository:
//!
//! ```console
//! $ tvmr tune workloads/depthwise_conv2d.tir --trials 64 --seed 0 --work-dir run --format json > run.json
//! $ cargo run --example draw_pictures -- run.json
//! ```

mod pictures;

use pictures::tuning_run::TuningRun;
use pictures::{DIRECTORY, TUNING_RUN};
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use tvmr::database::{Database, Filter, Outcome, Role, TuningRecord};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = Path::new(DIRECTORY);
    if let Some(document) = std::env::args_os().nth(1) {
        let run = recorded(&std::fs::read_to_string(&document)?)?;
        std::fs::write(directory.join(TUNING_RUN), serde_json::to_string_pretty(&run)? + "\n")?;
    }
    let run = std::fs::read_to_string(directory.join(TUNING_RUN))?;
    for (file, svg) in pictures::draw_all(&run)? {
        std::fs::write(directory.join(file), svg)?;
    }
    Ok(())
}

/// The run of a document that `tvmr tune --format json` wrote, with its trials from the database.
fn recorded(document: &str) -> Result<TuningRun, Box<dyn Error>> {
    let document: Value = serde_json::from_str(document)?;
    let text = |field: &str| document[field].as_str().ok_or_else(|| format!("the document has no `{field}`"));
    let number = |field: &str| document[field].as_f64().ok_or_else(|| format!("the document has no `{field}`"));
    let integer = |field: &str| document[field].as_u64().ok_or_else(|| format!("the document has no `{field}`"));
    let rounded = |field: &str| number(field).map(thousandths);

    let database = Database::open(Path::new(text("work_dir")?))?;
    let hash = text("hash")?;
    let (workload, _) = database
        .workloads()
        .find(|(_, entry)| entry.hash.to_string() == hash)
        .ok_or_else(|| format!("the database has no workload {hash}"))?;
    let (records, _) = database.records(workload, &Filter::any())?;
    let mut trials: Vec<&TuningRecord> = records.iter().filter(|r| r.context.role == Role::Trial).collect();
    trials.sort_by_key(|r| r.context.trial);
    // The picture is one of a whole run that began with an empty database.
    let n = integer("trials")?;
    if !trials.iter().map(|r| r.context.trial).eq(1..=n) {
        return Err(format!("the database has {} trials, not one for each number up to {n}", trials.len()).into());
    }
    let us = |record: &&TuningRecord| match record.outcome {
        Outcome::Measured(_) => record.secs().map(|s| thousandths(s * 1e6)),
        Outcome::Failed(_) | Outcome::Untried => None,
    };
    Ok(TuningRun {
        workload: text("workload")?.to_owned(),
        seed: integer("seed")?,
        mcpu: document["target"]["mcpu"].as_str().unwrap_or("unknown CPU").to_owned(),
        threads: u32::try_from(integer("threads")?)?,
        elapsed_s: rounded("elapsed_s")?,
        baseline_us: rounded("baseline_us")?,
        best_us: rounded("best_us")?,
        gflops: rounded("gflops")?,
        peak_gflops: rounded("peak_gflops")?,
        trials_us: trials.iter().map(us).collect(),
    })
}

/// Rounds to three decimals, of which no more can be seen.
fn thousandths(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}
