//! Time to load a database of 100,000 records, such as tuning a convolution writes: `cargo bench --bench database`.
//!
//! The target is well under a second and under 300 MB.

#![expect(clippy::disallowed_methods, reason = "measures time")]
#![expect(clippy::print_stdout, reason = "a benchmark reports on standard output")]

use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;
use tvmr::database::{Database, Filter, RECORD_FILE, Timestamp, WorkloadEntry, WorkloadId};

const RECORDS: usize = 100_000;
const TRACE: &str = include_str!("../src/database/testdata/conv2d_trace.json");
const GOLDEN: &str = include_str!("../src/database/testdata/records_v1.jsonl");

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut db = Database::create(dir.path()).expect("a database");
    let entry = WorkloadEntry::new(4_242_424_242_424_242_424, "f", "main", Timestamp(0));
    let id = db.commit_workload(&entry, |_| true).expect("a workload");
    drop(db);
    write_records(&dir.path().join(RECORD_FILE));
    let bytes = std::fs::metadata(dir.path().join(RECORD_FILE)).expect("the table").len();
    println!("{RECORDS} records, {:.0} MB, {:.1} KB a line", bytes as f64 / 1e6, bytes as f64 / 1e3 / RECORDS as f64);
    for round in 0..5 {
        let (start, cpu) = (Instant::now(), cpu_ticks());
        let db = Database::open(dir.path()).expect("the database opens");
        let opened = start.elapsed();
        let ticks = cpu_ticks() - cpu;
        let (best, problems) = db.top_k(id, 8, &Filter::any()).expect("a query");
        assert!(best.len() == 8 && problems.is_empty() && db.problems().is_empty());
        let queried = start.elapsed();
        let counts = db.counts(WorkloadId(0), &Filter::any());
        println!(
            "round {round}: opened after {opened:.0?} ({ticks} cs of CPU), 8 best after {queried:.0?}, totals after {:.0?} ({} trials); peak memory {}",
            start.elapsed(),
            counts.trials,
            peak_memory(),
        );
    }
}

/// Writes lines like the golden ones, with a convolution's trace and twenty batches.
fn write_records(path: &Path) {
    let golden: Vec<Value> = GOLDEN.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let (valid, failed) = (&golden[1], &golden[2]);
    let trace: Value = serde_json::from_str(TRACE).expect("a trace");
    let mut out = BufWriter::new(File::create(path).expect("the table"));
    for i in 0..RECORDS {
        let mut line = if i % 10 == 3 { failed.clone() } else { valid.clone() };
        line[1][0] = trace.clone();
        let secs = 1e-3 * (1.0 + (i * 7919 % 10_007) as f64 / 997.0);
        if line[1][1].is_array() {
            line[1][1] = vec![secs].into();
            line[2]["batch_secs"] = (0..20).map(|j| secs * (1.0 + f64::from(j) / 317.0)).collect::<Vec<_>>().into();
        }
        line[2]["program"] = (i as u64 * 0x9e37_79b9_7f4a).to_string().into();
        line[2]["trial"] = i.into();
        writeln!(out, "{line}").expect("the table can be written");
    }
}

/// CPU time of this process in hundredths of a second, over all threads.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|f| f.parse::<u64>().ok()).sum()
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|l| l.strip_prefix("VmHWM:")).map_or("unknown".into(), |v| v.trim().to_owned())
}
