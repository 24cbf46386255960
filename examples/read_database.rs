//! Lists the functions of a database with their fastest records.
//!
//! `cargo run --example read_database -- tvmr_db`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its results")]

use std::error::Error;
use std::path::PathBuf;
use tvmr::database::{Database, Filter};
use tvmr::schedule::Trace;
use tvmr::script::Dialect;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("tvmr_db"), PathBuf::from);
    let db = Database::open(&dir)?;
    println!("{} records in {}", db.n_records(), dir.display());
    for (id, entry) in db.workloads() {
        let (records, damaged) = db.top_k(id, 1, &Filter::any())?;
        for line in damaged {
            eprintln!("skipped: {line:?}");
        }
        let Some(record) = records.first() else { continue };
        println!("{}: {:.1} us", entry.name, record.secs().unwrap_or(f64::NAN) * 1e6);
        println!("{}", Trace::from_json(&record.trace)?.to_python(Dialect::Current));
    }
    Ok(())
}
