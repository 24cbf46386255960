//! A tuning run: the speed of each trial and of the best so far, between the program as written and the machine's peak.

use super::canvas::{Anchor, Canvas, Font, Point, Rect};
use serde::{Deserialize, Serialize};

/// What is known of a run, recorded by the example from the document and the database that `tvmr tune` wrote.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct TuningRun {
    /// The file that was tuned.
    pub(crate) workload: String,
    /// The seed of the search.
    pub(crate) seed: u64,
    /// LLVM's name of the CPU.
    pub(crate) mcpu: String,
    /// Number of threads of a kernel.
    pub(crate) threads: u32,
    /// Seconds of the whole run.
    pub(crate) elapsed_s: f64,
    /// Microseconds of the program as written.
    pub(crate) baseline_us: f64,
    /// Microseconds of the winner of the final.
    pub(crate) best_us: f64,
    /// 10^9 operations per second of the winner.
    pub(crate) gflops: f64,
    /// The peak of the machine, in 10^9 operations per second.
    pub(crate) peak_gflops: f64,
    /// Microseconds of each trial; `null` if it failed.
    pub(crate) trials_us: Vec<Option<f64>>,
}

impl TuningRun {
    /// The 10^9 operations per second of a program that takes this many microseconds.
    fn speed(&self, us: f64) -> f64 {
        self.gflops * self.best_us / us
    }
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
/// The area of the trials. The final is to the right of it, then the labels of the lines.
const PLOT: Rect = Rect::new(66.0, 104.0, 562.0, 276.0);
/// The place of the final, from the left edge of the picture.
const FINAL: f64 = PLOT.x + PLOT.width + 26.0;
/// Where labels begin.
const LABELS: f64 = FINAL + 22.0;

/// The picture as SVG.
pub(super) fn draw(run: &TuningRun) -> Result<String, String> {
    let n = run.trials_us.len();
    if n == 0 {
        return Err("the tuning run has no trials".to_owned());
    }
    let top = run.peak_gflops.max(run.gflops) * 1.06;
    let y = |speed: f64| PLOT.bottom() - PLOT.height * speed / top;
    let x = |trial: usize| PLOT.x + PLOT.width * (trial as f64 - 0.5) / n as f64;

    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let command = format!("tvmr tune {} --trials {n} --seed {}", run.workload, run.seed);
    canvas.text((30.0, 38.0), Anchor::Start, Font::Code, &command);
    let failed = run.trials_us.iter().filter(|us| us.is_none()).count();
    key(&mut canvas, failed > 0);
    axes(&mut canvas, n, top, &x, &y);

    // The bounds, and the results at the end of their lines.
    let as_written = run.speed(run.baseline_us);
    for speed in [run.peak_gflops, as_written] {
        canvas.line(&[(PLOT.x, y(speed)), (LABELS - 6.0, y(speed))], 0.0, "bound dashed");
    }
    let peak_us = run.best_us * run.gflops / run.peak_gflops;
    let share = run.gflops / run.peak_gflops;
    let mut labels = [
        (y(run.peak_gflops), "machine's peak".to_owned(), label(run.peak_gflops, peak_us)),
        (y(run.gflops), format!("tuned: {share:.2} of peak"), label(run.gflops, run.best_us)),
        (y(as_written), "as written".to_owned(), label(as_written, run.baseline_us)),
    ];
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let places = spread(labels.each_ref().map(|l| l.0));
    for ((_, name, value), at) in labels.iter().zip(places) {
        canvas.text((LABELS, at - 3.0), Anchor::Start, Font::Name, name);
        canvas.text((LABELS, at + 13.0), Anchor::Start, Font::Body, value);
    }

    // The trials, those that were the best so far on top of their line.
    let mut best = f64::INFINITY;
    let mut steps: Vec<Point> = Vec::new();
    let mut records: Vec<Point> = Vec::new();
    for (i, us) in run.trials_us.iter().enumerate() {
        let trial = i + 1;
        match *us {
            None => canvas.cross((x(trial), PLOT.bottom() - 8.0)),
            Some(us) => {
                let at = (x(trial), y(run.speed(us)));
                if us < best {
                    best = us;
                    steps.extend(steps.last().map(|&(_, before)| (at.0, before)));
                    steps.push(at);
                    records.push(at);
                } else {
                    canvas.dot(at, 3.0, "dot");
                }
            }
        }
    }
    let end = (FINAL, y(run.gflops));
    if let Some(&(_, last)) = steps.last() {
        steps.extend([(PLOT.right(), last), end]);
    }
    canvas.line(&steps, 0.0, "best");
    for at in records {
        canvas.dot(at, 4.0, "record");
    }
    canvas.dot(end, 6.0, "record");

    let description = format!(
        "{n} trials of `{command}` on one machine ({}, {} in {:.1} s), {failed} of them failed. The program as written reaches \
         {as_written:.1} GFLOP/s, the first trial {}, the winner of the final {:.1}, and the machine's peak is {:.1}.",
        run.mcpu,
        threads(run.threads),
        run.elapsed_s,
        run.trials_us[0].map_or("none".to_owned(), |us| format!("{:.1}", run.speed(us))),
        run.gflops,
        run.peak_gflops,
    );
    let machine = format!("{}, {}, {:.1} s in all", run.mcpu, threads(run.threads), run.elapsed_s);
    canvas.text((WIDTH - 30.0, 38.0), Anchor::End, Font::Body, &machine);
    canvas.finish("A tuning run: speed of each trial", &description)
}

/// The meaning of dots and lines.
fn key(canvas: &mut Canvas, has_failed: bool) {
    const Y: f64 = 66.0;
    canvas.dot((36.0, Y - 4.0), 3.0, "dot");
    canvas.text((46.0, Y), Anchor::Start, Font::Body, "a trial");
    canvas.line(&[(108.0, Y - 4.0), (136.0, Y - 4.0)], 0.0, "best");
    canvas.dot((122.0, Y - 4.0), 4.0, "record");
    canvas.text((144.0, Y), Anchor::Start, Font::Body, "the best so far");
    if has_failed {
        canvas.cross((258.0, Y - 4.0));
        canvas.text((268.0, Y), Anchor::Start, Font::Body, "failed");
    }
}

/// The axes with their numbers.
fn axes(canvas: &mut Canvas, n: usize, top: f64, x: &impl Fn(usize) -> f64, y: &impl Fn(f64) -> f64) {
    let step = step(top, 7);
    let mut speed = 0.0;
    while speed <= top {
        canvas.line(&[(PLOT.x, y(speed)), (FINAL + 10.0, y(speed))], 0.0, "grid");
        canvas.text((PLOT.x - 8.0, y(speed) + 4.0), Anchor::End, Font::Body, &format!("{speed}"));
        speed += step;
    }
    canvas.text((PLOT.x - 8.0, PLOT.y - 6.0), Anchor::Middle, Font::Body, "GFLOP/s");
    let below = PLOT.bottom() + 19.0;
    let stride = step_of_trials(n);
    for trial in std::iter::once(1).chain((stride..=n).step_by(stride)) {
        canvas.text((x(trial), below), Anchor::Middle, Font::Body, &trial.to_string());
    }
    canvas.text((PLOT.centre().0, below + 22.0), Anchor::Middle, Font::Body, "trial");
    canvas.text((FINAL, below), Anchor::Middle, Font::Body, "final");
}

/// The distance of at most `most` round numbers up to `top`.
fn step(top: f64, most: u32) -> f64 {
    let mut unit = 10f64.powf((top / f64::from(most)).log10().floor());
    for factor in [2.0, 2.5, 2.0] {
        if top / unit <= f64::from(most) {
            break;
        }
        unit *= factor;
    }
    unit
}

/// The distance of about eight numbers up to `n`.
fn step_of_trials(n: usize) -> usize {
    n.div_ceil(8).max(2)
}

/// Moves places of labels, which are in order, down until they do not touch.
fn spread<const N: usize>(mut places: [f64; N]) -> [f64; N] {
    const HEIGHT: f64 = 38.0;
    for i in 1..N {
        places[i] = places[i].max(places[i - 1] + HEIGHT);
    }
    places
}

fn label(speed: f64, us: f64) -> String {
    let time = if us < 1000.0 { format!("{us:.1} µs") } else { format!("{:.2} ms", us / 1000.0) };
    format!("{speed:.1} GFLOP/s, {time}")
}

fn threads(n: u32) -> String {
    format!("{n} {}", if n == 1 { "thread" } else { "threads" })
}
