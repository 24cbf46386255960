//! The records of a database, for TVM.

use super::errors;
use pyo3::prelude::*;
use std::path::PathBuf;
use tvmr::database::{Filter, TuningRecord};
use tvmr::machine::Target;
use tvmr::request::databases;

/// A workload: its name, its program, and its records as TVM's JSON, the fastest first.
type WorkloadRecords = (String, String, Vec<String>);

/// The workloads of a database with their valid records for this machine (or any) and a number of threads (or as many as there
/// are cores at most); and its damaged lines.
#[pyfunction]
#[pyo3(signature = (*, work_dir, threads, any_target))]
pub(crate) fn records(
    py: Python<'_>,
    work_dir: PathBuf,
    threads: Option<u32>,
    any_target: bool,
) -> PyResult<(Vec<WorkloadRecords>, Vec<String>)> {
    let db = databases::require(&work_dir).map_err(|e| errors::of_request(py, &e))?;
    let mut filter = Filter::on(&Target::native().target, threads);
    if any_target {
        filter = Filter { threads: filter.threads, ..Filter::any() };
    }
    let mut all = Vec::new();
    let mut problems: Vec<String> = db.problems().iter().map(|p| format!("{p}; the line is skipped")).collect();
    for (id, entry) in db.workloads() {
        let (best, damaged) =
            db.top_k(id, usize::MAX, &filter).map_err(|e| errors::of_request(py, &databases::failed(e)))?;
        problems.extend(damaged.iter().map(|p| format!("{p}; the record is skipped")));
        all.push((entry.name.clone(), entry.tir.clone(), best.iter().map(as_tvm).collect()));
    }
    Ok((all, problems))
}

/// A valid record as TVM's JSON.
fn as_tvm(record: &TuningRecord) -> String {
    let secs = record.secs().map(|secs| vec![secs]);
    serde_json::json!([record.trace, secs, record.target, record.args_info]).to_string()
}
