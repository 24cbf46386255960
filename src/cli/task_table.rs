//! The table of functions that share the trials of a run.
//!
//! ```text
//! ID  name    FLOP  weight  GFLOP/s  of peak  of bound  latency µs  weighted µs  trials  done
//!  0  qkv   1.0e08       3     80.1     0.48      0.48      1252.3       3756.9      48
//!  1  relu  1.3e05       1      9.3     0.06      0.97        14.1         14.1      16  yes
//! 64 trials, weighted latency 3771.0 µs
//! ```
//!
//! The columns are TVM's, and the fractions of the machine's peak and of the function's roofline bound.

use crate::tune::events::TaskState;

const HEAD: [&str; 11] =
    ["ID", "name", "FLOP", "weight", "GFLOP/s", "of peak", "of bound", "latency µs", "weighted µs", "trials", "done"];
/// Whether a column holds text (aligned left) or numbers (aligned right).
const IS_TEXT: [bool; 11] = [false, true, false, false, false, false, false, false, false, false, true];

/// The table, with at most `rows` functions, without a final newline.
pub(super) fn render(tasks: &[TaskState<'_>], rows: usize) -> String {
    let mut lines: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    lines.extend(tasks.iter().take(rows).enumerate().map(|(i, t)| row(i, t)));
    let mut text = super::table::aligned(&lines, &IS_TEXT);
    if tasks.len() > rows {
        text += &format!("… and {} more\n", tasks.len() - rows);
    }
    text + &totals(tasks)
}

fn row(i: usize, task: &TaskState<'_>) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rate = task.best.filter(|_| task.flops > 0.0).map(|best| task.flops / best);
    vec![
        i.to_string(),
        task.name.to_owned(),
        exponent(task.flops),
        task.weight.to_string(),
        or_dash(rate.map(|r| format!("{:.1}", r / 1e9))),
        or_dash(rate.zip(task.peak_flops).map(|(r, peak)| format!("{:.2}", r / peak))),
        or_dash(task.bound.zip(task.best).map(|(bound, best)| format!("{:.2}", bound / best))),
        or_dash(task.best.map(micros)),
        or_dash(task.best.map(|b| micros(b * task.weight as f64))),
        task.trials.to_string(),
        if task.is_done { "yes".to_owned() } else { String::new() },
    ]
}

fn totals(tasks: &[TaskState<'_>]) -> String {
    let trials: u64 = tasks.iter().map(|t| t.trials).sum();
    let known = tasks.iter().filter(|t| t.best.is_some()).count();
    let weighted: f64 = tasks.iter().filter_map(|t| Some(t.best? * t.weight as f64)).sum();
    let of = if known < tasks.len() {
        format!(" of {known} function{}", if known == 1 { "" } else { "s" })
    } else {
        String::new()
    };
    format!("{trials} trials, weighted latency{of} {} µs", micros(weighted))
}

fn micros(secs: f64) -> String {
    format!("{:.1$}", secs * 1e6, if secs < 10e-6 { 2 } else { 1 })
}

/// A number with two significant digits and an exponent.
fn exponent(n: f64) -> String {
    if n < 1000.0 {
        return format!("{n:.0}");
    }
    let text = format!("{n:.1e}");
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{digits}e{exponent:0>2}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let qkv = TaskState {
            name: "qkv",
            weight: 3,
            flops: 1.0027e8,
            peak_flops: Some(166e9),
            best: Some(1.2523e-3),
            bound: Some(0.6e-3),
            trials: 48,
            is_done: false,
        };
        let sum = TaskState {
            name: "a_sum",
            weight: 1,
            flops: 512.0,
            peak_flops: None,
            bound: None,
            best: Some(1.25e-6),
            is_done: true,
            trials: 8,
        };
        let none = TaskState { best: None, trials: 0, ..qkv };
        let expected = "\
ID  name     FLOP  weight  GFLOP/s  of peak  of bound  latency µs  weighted µs  trials  done
 0  qkv    1.0e08       3     80.1     0.48      0.48      1252.3       3756.9      48
 1  a_sum     512       1      0.4        -         -        1.25         1.25       8  yes
 2  qkv    1.0e08       3        -        -         -           -            -       0
56 trials, weighted latency of 2 functions 3758.2 µs";
        assert_eq!(render(&[qkv, sum, none], 9), expected);
        assert!(render(&[qkv, sum], 1).contains("… and 1 more\n56 trials"));
    }
}
