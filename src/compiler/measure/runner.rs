//! Measures candidates one after the other.
//!
//! [`InProcess`] runs each candidate once on poisoned outputs, compares these with the reference, takes a first look at
//! its time, and then races it against the incumbent. While the reference is still being computed, results wait for
//! their verdict and the search continues; a kernel that turns out wrong is removed, and its time is void.

use super::arguments::{Arguments, Poison};
use super::check::Mismatch;
use super::executable::{Executable, RunFailure};
use super::noise::{Advice, Monitor};
use super::race::{Finalist, Race, RaceFailure, RaceOptions, Standing, finals, race};
use super::reference::{ReferenceError, ReferenceJob};
use super::stats::{least, median};
use super::timer::Timer;
use super::timing::{self, Bench, BenchOptions};
use std::sync::Arc;
use std::time::Duration;

/// Measures candidates of some kind: compiled ones here, traces in a worker.
pub trait Runner<C> {
    /// Measures a candidate. Its failure is part of the outcome.
    fn measure(&mut self, candidate: &C) -> Outcome;

    /// The new verdicts on results that waited ([`Verdict::Waiting`]); with `wait`, all of them.
    fn settle(&mut self, wait: bool) -> Vec<Settled>;

    /// Measures the leaders of a search again, interleaved. Times within one final are comparable.
    fn finals(&mut self, candidates: &[C]) -> Vec<Outcome>;
}

/// A compiled candidate.
#[derive(Clone)]
pub struct Candidate {
    /// Hash of its program, as its name.
    pub program: u64,
    /// The executable.
    pub code: Arc<dyn Executable>,
}

/// The outcome of measuring a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// It has a valid time.
    Measured(Measurement),
    /// Its output is wrong.
    WrongResult(Box<Mismatch>),
    /// It ran longer than allowed.
    TimedOut {
        /// Time limit of a call.
        limit: Duration,
    },
    /// It failed by itself, or damaged memory that it must not write.
    RuntimeError {
        /// The error message.
        message: String,
    },
    /// It ended its process.
    Crashed {
        /// The cause of the crash, if known.
        message: String,
    },
}

/// The time of a candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// Seconds per call, for ranking: the incumbent's seconds times the ratio of the race, but at least those of the
    /// fastest batch.
    pub secs: f64,
    /// Seconds per call of every batch.
    pub batch_secs: Vec<f64>,
    /// Calls in a batch.
    pub calls: u64,
    /// The last stage of measurement that it reached.
    pub stage: Stage,
    /// Result of the race against the incumbent.
    pub standing: Option<Standing>,
    /// Whether its result is right.
    pub verdict: Verdict,
}

/// A stage of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Timed alone, without an incumbent to race against.
    Alone,
    /// Too slow at the first look to be raced; its time is from one run at most.
    FirstLook,
    /// Raced.
    Raced,
    /// Measured in a final.
    Final,
}

/// The verdict on a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It agrees with the reference.
    Right,
    /// It was not checked.
    Unchecked,
    /// The reference is still being computed; [`Runner::settle`] will tell.
    Waiting(Ticket),
}

/// Identifies a result that waits for its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket(pub u64);

/// A verdict that was delayed.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// The result it belongs to.
    pub ticket: Ticket,
    /// `Ok` if the result is right; otherwise the outcome that replaces it.
    pub result: Result<(), Outcome>,
}

/// Options of [`InProcess`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunnerOptions {
    /// Time limit of a call while there is no best time.
    pub first_limit: Duration,
    /// Fixed time limit of a call. By default it is ten times the best time, but at least 20 ms.
    pub limit: Option<Duration>,
    /// Options of races.
    pub race: RaceOptions,
    /// Number of rounds in a final.
    pub final_rounds: usize,
    /// Maximum time of a final.
    pub final_time: Duration,
    /// Options of benchmarks.
    pub bench: BenchOptions,
    /// Number of checked runs of a multi-threaded program.
    pub parallel_checks: usize,
}

impl Default for RunnerOptions {
    fn default() -> Self {
        RunnerOptions {
            first_limit: Duration::from_secs(60),
            limit: None,
            race: RaceOptions::default(),
            final_rounds: 50,
            final_time: Duration::from_millis(500),
            bench: BenchOptions::default(),
            parallel_checks: 4,
        }
    }
}

/// Minimum time limit of a call: shorter deadlines would expire in ordinary pauses of the system. Longer pauses occur
/// on busy machines, so a candidate that exceeds this limit is measured again.
const LEAST_LIMIT: Duration = Duration::from_millis(20);
/// Time limit of a call as a multiple of the best time.
const LIMIT_FACTOR: u32 = 10;
/// Maximum ratio to the best time at the first look; slower candidates are not raced.
const FIRST_LOOK: f64 = 1.5;
/// Kernels shorter than this suffer so much from cold caches that a single run says nothing.
const SHORT: Duration = Duration::from_millis(1);
/// Seconds of a run from which cold caches hardly matter.
const LONG: f64 = 5e-3;
/// Maximum ratio to the best time at the first look for such long runs.
const LONG_LOOK: f64 = 1.25;
/// Seconds from which an incumbent is not raced against clearly faster candidates.
const SLOW: f64 = 5e-3;
/// Ratio that counts as clearly faster.
const CLEARLY_FASTER: f64 = 2.0;
/// Number of batches of a program that is measured again.
const AGAIN: usize = 3;
/// Number of preparations to time.
const PREPARATIONS: usize = 5;
/// Seconds from which a candidate without an incumbent is run only once. A shorter one is run again: the first run of a
/// program that fills hundreds of megabytes waits for the system to provide them.
const ONCE: f64 = 1.0;
/// Number of batches of a candidate without an incumbent.
const ALONE: usize = 9;
/// Maximum bytes of outputs that may wait for the reference; beyond it, the runner waits for the reference.
const MAX_WAITING: usize = 512 << 20;
/// Number of kernels remembered as successors of an incumbent that turns out wrong.
const REMEMBERED: usize = 8;

/// Measures compiled candidates in this process.
///
/// The caller sets up the arguments and a timer that raises the stop flag of the executables, and pins the thread.
pub struct InProcess<T> {
    args: Arguments,
    timer: T,
    /// The reference; `None` if results are not checked.
    reference: Option<ReferenceJob>,
    options: RunnerOptions,
    /// Upper bound of every time limit.
    ceiling: Option<Duration>,
    /// The fastest candidates so far, the incumbent first.
    best: Vec<Known>,
    waiting: Vec<Waiting>,
    next_ticket: u64,
    monitor: Monitor,
    checking: Duration,
}

#[derive(Clone)]
struct Known {
    candidate: Candidate,
    secs: f64,
    ticket: Option<Ticket>,
}

struct Waiting {
    ticket: Ticket,
    outputs: Vec<Vec<u8>>,
}

impl<T: Timer> InProcess<T> {
    /// A runner. Without a reference, results are not checked.
    pub fn new(args: Arguments, timer: T, reference: Option<ReferenceJob>, options: RunnerOptions) -> InProcess<T> {
        let (best, waiting) = (Vec::new(), Vec::new());
        let (monitor, checking) = (Monitor::default(), Duration::ZERO);
        let (ceiling, next_ticket) = (None, 0);
        InProcess { args, timer, reference, options, ceiling, best, waiting, next_ticket, monitor, checking }
    }

    /// The fastest kernel so far that is not known to be wrong, and its seconds.
    pub fn incumbent(&self) -> Option<(&Candidate, f64)> {
        self.best.first().map(|k| (&k.candidate, k.secs))
    }

    /// Sets the upper bound of every time limit.
    pub fn set_ceiling(&mut self, ceiling: Option<Duration>) {
        self.ceiling = ceiling;
    }

    /// Advice about the machine, if there is any.
    pub fn advice(&self) -> Option<Advice> {
        self.monitor.advice()
    }

    /// The error of the reference computation, if it failed: then no candidate can be right.
    pub fn reference_error(&self) -> Option<&ReferenceError> {
        self.reference.as_ref()?.poll()?.as_ref().err()
    }

    /// Time spent on checking results so far, including the checked runs.
    pub fn checking_time(&self) -> Duration {
        self.checking
    }

    /// Runs a candidate once and compares its outputs, waiting for the reference if necessary. Returns the verdict.
    ///
    /// # Errors
    /// If the candidate fails or its result is wrong.
    pub fn check_only(&mut self, candidate: &Candidate) -> Result<Verdict, Outcome> {
        if let Some(job) = &self.reference {
            // A single check has no other work to do meanwhile.
            let _ = job.wait();
        }
        let (_, verdict) = self.check(candidate, self.checks_of(candidate))?;
        let Verdict::Waiting(ticket) = verdict else { return Ok(verdict) };
        let settled = self.settle(true).into_iter().find(|s| s.ticket == ticket);
        settled.map_or(Ok(Verdict::Right), |s| s.result.map(|()| Verdict::Right))
    }

    /// The arguments.
    pub fn arguments(&mut self) -> &mut Arguments {
        &mut self.args
    }

    /// Benchmarks a candidate as later commands do; gives the reported times.
    ///
    /// # Errors
    /// If the kernel failed.
    pub fn bench(&mut self, candidate: &Candidate) -> Result<Bench, RunFailure> {
        timing::bench(&*candidate.code, &mut self.args, &self.timer, &self.options.bench)
    }

    /// The minimum of a few batch times of a candidate; `None` if a call takes longer than `limit`, or fails.
    pub fn least_secs(&mut self, candidate: &Candidate, limit: Duration) -> Option<f64> {
        let code = &*candidate.code;
        let calls = timing::calibrate(code, &mut self.args, &self.timer, limit).ok()?;
        let limit = limit.saturating_mul(2);
        let batch = |_| timing::batch(code, &mut self.args, &self.timer, calls, limit).ok();
        let secs: Option<Vec<f64>> = (0..AGAIN).map(batch).collect();
        secs.map(|secs| least(&secs))
    }

    /// Seconds that a candidate's preparation takes; `None` if it has none.
    ///
    /// # Errors
    /// If the preparation failed.
    pub fn preparation(&mut self, candidate: &Candidate) -> Result<Option<f64>, RunFailure> {
        let mut secs = Vec::new();
        for _ in 0..PREPARATIONS {
            let limit = self.options.first_limit;
            secs.extend(timing::prepare(&*candidate.code, &mut self.args, &self.timer, limit)?);
        }
        Ok((!secs.is_empty()).then(|| median(&secs)))
    }

    /// Prepares a candidate, runs it so many times on poisoned outputs, and compares them each time. Returns the seconds of
    /// the fastest run, and the verdict.
    fn check(&mut self, candidate: &Candidate, runs: usize) -> Result<(f64, Verdict), Outcome> {
        self.as_checking(|runner| {
            // The preparation is not part of a call, so it gets the limit of an unknown program.
            let limit = runner.options.first_limit;
            let prepared = timing::prepare(&*candidate.code, &mut runner.args, &runner.timer, limit);
            prepared.map_err(|failure| outcome_of(failure, limit))?;
            runner.check_runs(candidate, runs)
        })
    }

    /// The result of `work`, whose time counts as checking.
    fn as_checking<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let start = self.timer.now();
        let result = work(self);
        self.checking += self.timer.now().saturating_sub(start);
        result
    }

    /// Number of runs to check a program that may be the best one.
    fn checks_of(&self, candidate: &Candidate) -> usize {
        if candidate.code.threads() > 1 { self.options.parallel_checks.max(1) } else { 1 }
    }

    /// As [`InProcess::check`], of a candidate that is prepared.
    fn check_runs(&mut self, candidate: &Candidate, runs: usize) -> Result<(f64, Verdict), Outcome> {
        let limit = self.limit();
        let mut secs = f64::INFINITY;
        let mut verdict = Verdict::Unchecked;
        for run in 1..=runs {
            let reference = self.reference.as_ref().and_then(ReferenceJob::poll).and_then(|r| r.as_ref().ok());
            self.args.reset(reference.map_or(Poison::Ones, |r| Poison::Opposite(r.outputs())));
            let result = timed_run(&candidate.code, &mut self.args, &self.timer, limit);
            secs = secs.min(result.map_err(|failure| outcome_of(failure, limit))?);
            let judged = self.judge(run == runs);
            // Damage to inputs or guards stays until it is looked for.
            if run == runs || judged.is_err() {
                self.args.inspect().map_err(|damage| Outcome::RuntimeError { message: damage.to_string() })?;
            }
            // Only the outputs of the last of several runs are copied.
            verdict = judged?.unwrap_or(verdict);
        }
        Ok((secs, verdict))
    }

    /// [`InProcess::check`], repeated once if it exceeded the limit.
    fn check_again(&mut self, candidate: &Candidate) -> Result<(f64, Verdict), Outcome> {
        let runs = self.checks_of(candidate);
        match self.check(candidate, runs) {
            Err(Outcome::TimedOut { .. }) => self.check(candidate, runs),
            checked => checked,
        }
    }

    /// Compares the outputs of the last run with the reference, or copies them for later.
    fn judge(&mut self, is_last: bool) -> Result<Option<Verdict>, Outcome> {
        let Some(job) = self.reference.clone() else { return Ok(Some(Verdict::Unchecked)) };
        let waiting: usize = self.waiting.iter().flat_map(|w| &w.outputs).map(Vec::len).sum();
        // Do not wait for the reference or for intervals while there is room for copies.
        let must_wait = waiting > MAX_WAITING;
        let reference = if must_wait { Some(job.wait()) } else { job.poll() };
        let checked = reference.map(|reference| match reference {
            Ok(reference) if must_wait => Some(Ok(reference.check(&self.args))),
            Ok(reference) => reference.try_check(&self.args).map(Ok),
            Err(error) => Some(Err(error)),
        });
        match checked.flatten() {
            Some(Ok(Ok(_))) => Ok(Some(Verdict::Right)),
            Some(Ok(Err(mismatch))) => Err(Outcome::WrongResult(mismatch)),
            Some(Err(error)) => Err(Outcome::RuntimeError { message: error.to_string() }),
            None if !is_last => Ok(None),
            None => {
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                self.waiting.push(Waiting { ticket, outputs: self.args.outputs() });
                Ok(Some(Verdict::Waiting(ticket)))
            }
        }
    }

    /// The time limit of a call.
    fn limit(&self) -> Duration {
        let limit = match (self.options.limit, self.incumbent()) {
            (Some(limit), _) => limit,
            (None, None) => self.options.first_limit,
            (None, Some((_, secs))) => {
                Duration::try_from_secs_f64(secs).map_or(Duration::MAX, |best| (best * LIMIT_FACTOR).max(LEAST_LIMIT))
            }
        };
        self.ceiling.map_or(limit, |ceiling| limit.min(ceiling.max(LEAST_LIMIT)))
    }

    fn time(&mut self, candidate: &Candidate, first: f64) -> Result<Measurement, Outcome> {
        let limit = self.limit();
        let Some((incumbent, incumbent_secs)) = self.incumbent().map(|(c, secs)| (c.code.clone(), secs)) else {
            return self.time_alone(candidate, first, limit);
        };
        // A successor of an incumbent that turned out wrong. If it fails, the race says so.
        if !incumbent.is_prepared() {
            let _ = timing::prepare(&*incumbent, &mut self.args, &self.timer, self.options.first_limit);
        }
        if first >= LONG && first > incumbent_secs * LONG_LOOK {
            // A second run would cost as much again and give the same answer.
            let (secs, batch_secs, standing) = (first, vec![first], Some(Standing::Slower));
            let (stage, verdict) = (Stage::FirstLook, Verdict::Unchecked);
            return Ok(Measurement { secs, batch_secs, calls: 1, stage, standing, verdict });
        }
        let mut secs = first;
        let look_limit = Duration::try_from_secs_f64(incumbent_secs * FIRST_LOOK).unwrap_or(limit).max(SHORT);
        let (mut batch_secs, mut calls) = (vec![first], 1);
        if Duration::try_from_secs_f64(first).is_ok_and(|d| d > look_limit) {
            // The first run was cold. This one is stopped if it takes too long.
            match timed_run(&candidate.code, &mut self.args, &self.timer, look_limit) {
                Ok(look) => {
                    batch_secs.push(look);
                    secs = secs.min(look);
                }
                Err(RunFailure::Stopped) => {}
                Err(failure) => return Err(outcome_of(failure, limit)),
            }
        } else if first < SHORT.as_secs_f64() {
            // The first run was cold: calibrate a batch that is long enough for the clock.
            let calibrated = timing::calibrate(&*candidate.code, &mut self.args, &self.timer, limit);
            calls = calibrated.map_err(|failure| outcome_of(failure, limit))?;
            batch_secs.clear();
            // A single look may be delayed by the system.
            while batch_secs.len() < 2 && batch_secs.iter().all(|&look| look > incumbent_secs * FIRST_LOOK) {
                let limit = limit.saturating_mul(2);
                let look = timing::batch(&*candidate.code, &mut self.args, &self.timer, calls, limit);
                batch_secs.push(look.map_err(|failure| outcome_of(failure, limit))?);
            }
            secs = least(&batch_secs);
        }
        if secs > incumbent_secs * FIRST_LOOK {
            let standing = Some(Standing::Slower);
            let (stage, verdict) = (Stage::FirstLook, Verdict::Unchecked);
            return Ok(Measurement { secs, batch_secs, calls, stage, standing, verdict });
        }
        if incumbent_secs >= SLOW && secs * CLEARLY_FASTER <= incumbent_secs {
            // No clock drift is that large, and each pair would cost a run of the slow incumbent.
            let alone = self.time_alone(candidate, first, limit)?;
            return Ok(Measurement { standing: Some(Standing::Faster), ..alone });
        }
        let options = RaceOptions { limit: limit.saturating_mul(2), ..self.options.race };
        let ran = (first >= LONG).then_some(first);
        let (args, timer) = (&mut self.args, &self.timer);
        let raced = race((&*candidate.code, secs), (&*incumbent, incumbent_secs), ran, args, timer, &options);
        match raced {
            Ok(Race { candidate_secs, incumbent_secs: i_secs, calls, ratio, standing, .. }) => {
                self.monitor.note(&i_secs);
                // If the incumbent was delayed in most pairs, the ratio is too good to be true.
                let fastest = least(&candidate_secs);
                Ok(Measurement {
                    secs: (ratio * incumbent_secs).max(fastest),
                    batch_secs: candidate_secs,
                    calls,
                    stage: Stage::Raced,
                    standing: Some(standing),
                    verdict: Verdict::Unchecked,
                })
            }
            Err(RaceFailure::Candidate(failure)) => Err(outcome_of(failure, limit)),
            Err(RaceFailure::Incumbent(_)) => {
                // An incumbent that now fails cannot be a baseline. This is not the candidate's fault.
                self.best.remove(0);
                self.monitor.restart();
                self.time(candidate, first)
            }
        }
    }

    fn time_alone(&mut self, candidate: &Candidate, first: f64, limit: Duration) -> Result<Measurement, Outcome> {
        let failed = |failure| outcome_of(failure, limit);
        let code = &*candidate.code;
        let start = self.timer.now();
        let mut batch_secs = Vec::new();
        let mut calls = 1;
        if first >= ONCE {
            // First-touch costs are negligible in such a long run, and another one would cost as much again.
            batch_secs.push(first);
            let (secs, stage, verdict) = (first, Stage::Alone, Verdict::Unchecked);
            return Ok(Measurement { secs, batch_secs, calls, stage, standing: None, verdict });
        }
        if first < timing::MIN_BATCH.as_secs_f64() * 4.0 {
            calls = timing::calibrate(code, &mut self.args, &self.timer, limit).map_err(failed)?;
        }
        while batch_secs.len() < ALONE && (batch_secs.is_empty() || self.timer.now() - start < self.options.race.time) {
            let limit = limit.saturating_mul(2);
            batch_secs.push(timing::batch(code, &mut self.args, &self.timer, calls, limit).map_err(failed)?);
        }
        let (secs, stage, verdict) = (median(&batch_secs), Stage::Alone, Verdict::Unchecked);
        Ok(Measurement { secs, batch_secs, calls, stage, standing: None, verdict })
    }

    /// Inserts a measured candidate into the list of the best.
    fn remember(&mut self, candidate: &Candidate, m: &Measurement) {
        let ticket = match m.verdict {
            Verdict::Waiting(ticket) => Some(ticket),
            Verdict::Right | Verdict::Unchecked => None,
        };
        let known = Known { candidate: candidate.clone(), secs: m.secs, ticket };
        match m.standing {
            Some(Standing::Faster) | None => {
                self.best.insert(0, known);
                self.monitor.restart();
            }
            Some(Standing::Tie | Standing::Slower) => {
                // After the incumbent even if its seconds are lower, since it lost to the incumbent.
                let place = self.best.iter().skip(1).position(|b| b.secs > m.secs).map_or(self.best.len(), |i| i + 1);
                self.best.insert(place, known);
            }
        }
        self.best.truncate(REMEMBERED);
        // Weights may be large. The others are not run before a final.
        self.best.iter().skip(1).for_each(|known| known.candidate.code.forget_preparation());
    }

    fn try_measure(&mut self, candidate: &Candidate) -> Result<Measurement, Outcome> {
        let (first, verdict) = self.check(candidate, 1)?;
        let measurement = Measurement { verdict, ..self.time(candidate, first)? };
        // A race between threads may have stayed hidden in one cold run: a new winner is checked again, several times.
        let runs = self.checks_of(candidate);
        if measurement.standing != Some(Standing::Slower) && runs > 1 && verdict == Verdict::Right {
            self.as_checking(|runner| runner.check_runs(candidate, runs))?;
        }
        self.remember(candidate, &measurement);
        Ok(measurement)
    }
}

impl<T: Timer> Runner<Candidate> for InProcess<T> {
    fn measure(&mut self, candidate: &Candidate) -> Outcome {
        let result = match self.try_measure(candidate) {
            // A pause of the system may exceed this limit; a candidate that is really slow exceeds it again.
            Err(Outcome::TimedOut { limit }) if limit <= LEAST_LIMIT => self.try_measure(candidate),
            result => result,
        };
        match result {
            Ok(measurement) => Outcome::Measured(measurement),
            Err(outcome) => outcome,
        }
    }

    fn settle(&mut self, wait: bool) -> Vec<Settled> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let Some(job) = self.reference.clone() else { return Vec::new() };
        let Some(reference) = (if wait { Some(job.wait()) } else { job.poll() }) else { return Vec::new() };
        let mut settled = Vec::new();
        for w in std::mem::take(&mut self.waiting) {
            let specs = self.args.specs();
            let checked = match reference {
                Ok(reference) if wait => Some(Ok(reference.check_outputs(specs, &w.outputs))),
                Ok(reference) => reference.try_check_outputs(specs, &w.outputs).map(Ok),
                Err(error) => Some(Err(error)),
            };
            let result = match checked {
                Some(Ok(Ok(_))) => Ok(()),
                Some(Ok(Err(mismatch))) => Err(Outcome::WrongResult(mismatch)),
                Some(Err(error)) => Err(Outcome::RuntimeError { message: error.to_string() }),
                None => {
                    self.waiting.push(w);
                    continue;
                }
            };
            settled.push(Settled { ticket: w.ticket, result });
        }
        let is_wrong = |k: &Known| settled.iter().any(|s| Some(s.ticket) == k.ticket && s.result.is_err());
        if self.best.first().is_some_and(is_wrong) {
            self.monitor.restart();
        }
        self.best.retain(|k| !is_wrong(k));
        settled
    }

    fn finals(&mut self, candidates: &[Candidate]) -> Vec<Outcome> {
        if candidates.is_empty() {
            return Vec::new();
        }
        let limit = self.limit();
        let known = |c: &Candidate| self.best.iter().find(|k| k.candidate.program == c.program).map(|k| k.secs);
        let secs: Vec<Option<f64>> = candidates.iter().map(known).collect();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; candidates.len()];
        let mut runnable = Vec::new();
        for (i, candidate) in candidates.iter().enumerate() {
            match self.check_again(candidate) {
                Ok((first, verdict)) => runnable.push((i, secs[i].unwrap_or(first), verdict)),
                Err(outcome) => outcomes[i] = Some(outcome),
            }
        }
        if !runnable.is_empty() {
            let finalists: Vec<(&dyn Executable, f64)> =
                runnable.iter().map(|&(i, secs, _)| (&*candidates[i].code, secs)).collect();
            let options =
                RaceOptions { time: self.options.final_time, limit: limit.saturating_mul(2), ..self.options.race };
            let rounds = self.options.final_rounds;
            let results = finals(&finalists, &mut self.args, &self.timer, rounds, &options);
            let base = results.iter().find_map(|r| r.as_ref().ok()).map_or(1.0, |f| median(&f.batch_secs));
            for ((i, _, verdict), result) in runnable.into_iter().zip(results) {
                outcomes[i] = Some(match result {
                    Ok(Finalist { batch_secs, calls, ratio, .. }) => {
                        let (secs, stage) = (base * ratio, Stage::Final);
                        Outcome::Measured(Measurement { secs, batch_secs, calls, stage, standing: None, verdict })
                    }
                    Err(failure) => outcome_of(failure, limit),
                });
            }
        }
        outcomes.into_iter().map(|o| o.expect("every candidate was checked or timed")).collect()
    }
}

/// Runs once under a deadline; returns the seconds.
fn timed_run(
    code: &Arc<dyn Executable>,
    args: &mut Arguments,
    timer: &dyn Timer,
    limit: Duration,
) -> Result<f64, RunFailure> {
    timing::batch(&**code, args, timer, 1, limit)
}

fn outcome_of(failure: RunFailure, limit: Duration) -> Outcome {
    match failure {
        RunFailure::Stopped => Outcome::TimedOut { limit },
        RunFailure::Failed(message) => Outcome::RuntimeError { message },
    }
}

/// A runner from a closure, for tests of searches without clock or code.
pub struct MockRunner<F>(pub F);

impl<C, F: FnMut(&C) -> Outcome> Runner<C> for MockRunner<F> {
    fn measure(&mut self, candidate: &C) -> Outcome {
        (self.0)(candidate)
    }

    fn settle(&mut self, _wait: bool) -> Vec<Settled> {
        Vec::new()
    }

    fn finals(&mut self, candidates: &[C]) -> Vec<Outcome> {
        candidates.iter().map(&mut self.0).collect()
    }
}

impl Measurement {
    /// A right result that took `secs` seconds, as mock runners return it.
    pub fn right(secs: f64) -> Measurement {
        let (stage, verdict) = (Stage::Raced, Verdict::Right);
        Measurement { secs, batch_secs: vec![secs], calls: 1, stage, standing: None, verdict }
    }
}

#[cfg(test)]
mod tests;
