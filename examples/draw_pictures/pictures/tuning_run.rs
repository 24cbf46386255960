//! A tuning run: the speed of each trial and of the best so far, between the program as written and the machine's peak.

use super::canvas::{Anchor, Canvas, Font, Point, Rect};
use serde::{Deserialize, Serialize};

/// A recorded run: the example extracts it from the document and the database that `tvmr tune` wrote.
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

/// The place of a trial and of a speed in the picture.
struct Scale {
    n_trials: usize,
    /// The speed at the upper edge of the plot.
    top: f64,
}

impl Scale {
    fn x(&self, trial: usize) -> f64 {
        PLOT.x + PLOT.width * (trial as f64 - 0.5) / self.n_trials as f64
    }

    fn y(&self, speed: f64) -> f64 {
        PLOT.bottom() - PLOT.height * speed / self.top
    }
}

/// The picture as SVG.
pub(super) fn draw(run: &TuningRun) -> Result<String, String> {
    let n_trials = run.trials_us.len();
    if n_trials == 0 {
        return Err("the tuning run has no trials".to_owned());
    }
    let speeds = run.trials_us.iter().flatten().map(|&us| run.speed(us));
    let scale = Scale { n_trials, top: speeds.fold(run.peak_gflops.max(run.gflops), f64::max) * 1.06 };
    let n_failed = run.trials_us.iter().filter(|us| us.is_none()).count();
    let command = format!("tvmr tune {} --trials {n_trials} --seed {}", run.workload, run.seed);
    let threads = if run.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", run.threads) };
    let setting = format!("{}, {threads}, {:.1} s in all", run.mcpu, run.elapsed_s);

    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    canvas.text((30.0, 38.0), Anchor::Start, Font::Code, &command);
    canvas.text((WIDTH - 30.0, 38.0), Anchor::End, Font::Body, &setting);
    key(&mut canvas, n_failed > 0);
    axes(&mut canvas, &scale);
    levels(&mut canvas, run, &scale);
    trials(&mut canvas, run, &scale);
    let description = format!(
        "{n_trials} trials of `{command}` ({setting}), of which {n_failed} failed. The program as written reaches \
         {:.1} GFLOP/s, the winner of the final {:.1}, and the machine's peak is {:.1}.",
        run.speed(run.baseline_us),
        run.gflops,
        run.peak_gflops,
    );
    canvas.finish("A tuning run: the speed of each trial", &description)
}

/// The lines of the program as written and of the machine's peak, and the labels of all lines.
fn levels(canvas: &mut Canvas, run: &TuningRun, scale: &Scale) {
    let as_written = run.speed(run.baseline_us);
    for speed in [run.peak_gflops, as_written] {
        canvas.line(&[(PLOT.x, scale.y(speed)), (LABELS - 6.0, scale.y(speed))], 0.0, "bound dashed");
    }
    let share = run.gflops / run.peak_gflops;
    let mut labels = [
        (run.peak_gflops, "machine's peak".to_owned()),
        (run.gflops, format!("tuned: {share:.2} of peak")),
        (as_written, "as written".to_owned()),
    ];
    labels.sort_by(|a, b| b.0.total_cmp(&a.0));
    let places = spread(labels.each_ref().map(|(speed, _)| scale.y(*speed)));
    for ((speed, name), at) in labels.iter().zip(places) {
        let us = run.best_us * run.gflops / speed;
        let time = if us < 1000.0 { format!("{us:.1} µs") } else { format!("{:.2} ms", us / 1000.0) };
        canvas.text((LABELS, at - 3.0), Anchor::Start, Font::Name, name);
        canvas.text((LABELS, at + 13.0), Anchor::Start, Font::Body, &format!("{speed:.1} GFLOP/s, {time}"));
    }
}

/// The trials, the line of the best so far, and on it the trials that were the best, then the final.
fn trials(canvas: &mut Canvas, run: &TuningRun, scale: &Scale) {
    let mut best = f64::INFINITY;
    let mut line: Vec<Point> = Vec::new();
    let mut records: Vec<Point> = Vec::new();
    for (i, us) in run.trials_us.iter().enumerate() {
        let x = scale.x(i + 1);
        let Some(us) = *us else {
            canvas.cross((x, PLOT.bottom() - 8.0));
            continue;
        };
        let at = (x, scale.y(run.speed(us)));
        if us < best {
            best = us;
            line.extend(line.last().map(|&(_, before)| (x, before)));
            line.push(at);
            records.push(at);
        } else {
            canvas.dot(at, 3.0, "dot");
        }
    }
    let end = (FINAL, scale.y(run.gflops));
    if let Some(&(_, last)) = line.last() {
        line.extend([(PLOT.right(), last), end]);
        canvas.line(&line, 0.0, "best");
    }
    for at in records {
        canvas.dot(at, 4.0, "record");
    }
    canvas.dot(end, 6.0, "record");
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
fn axes(canvas: &mut Canvas, scale: &Scale) {
    let step = step(scale.top, 7);
    for i in 0..=(scale.top / step) as u32 {
        let speed = step * f64::from(i);
        let y = scale.y(speed);
        canvas.line(&[(PLOT.x, y), (FINAL + 10.0, y)], 0.0, "grid");
        canvas.text((PLOT.x - 8.0, y + 4.0), Anchor::End, Font::Body, &speed.to_string());
    }
    canvas.text((PLOT.x - 8.0, PLOT.y - 6.0), Anchor::Middle, Font::Body, "GFLOP/s");
    let below = PLOT.bottom() + 19.0;
    let stride = scale.n_trials.div_ceil(8).max(2);
    for trial in std::iter::once(1).chain((stride..=scale.n_trials).step_by(stride)) {
        canvas.text((scale.x(trial), below), Anchor::Middle, Font::Body, &trial.to_string());
    }
    canvas.text((PLOT.centre().0, below + 22.0), Anchor::Middle, Font::Body, "trial");
    canvas.text((FINAL, below), Anchor::Middle, Font::Body, "final");
}

/// The distance of at most `most` round numbers up to `top`: 1, 2, 5 or 10 times a power of ten.
fn step(top: f64, most: u32) -> f64 {
    let most = f64::from(most);
    let unit = 10f64.powf((top / most).log10().floor());
    [1.0, 2.0, 5.0].map(|factor| factor * unit).into_iter().find(|step| top / step <= most).unwrap_or(10.0 * unit)
}

/// Moves labels, whose places are in order, down until they do not touch.
fn spread<const N: usize>(mut places: [f64; N]) -> [f64; N] {
    const HEIGHT: f64 = 38.0;
    for i in 1..N {
        places[i] = places[i].max(places[i - 1] + HEIGHT);
    }
    places
}
