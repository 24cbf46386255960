//! Rounds of distinct candidates.

use crate::ir::hash::program_hash;
use crate::schedule::{Schedule, Trace};
use crate::space::sample::stream;
use crate::space::{Rejection, Space, Stage};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How candidates are chosen.
#[derive(Clone, PartialEq, Debug)]
pub enum Strategy {
    /// Every decision is drawn at random.
    Random,
    /// These traces, in this order, and nothing else.
    Replay(Vec<Trace>),
}

/// A program to compile and measure.
pub struct Candidate {
    /// Its number; the order of proposal.
    pub index: u64,
    /// The program with its trace.
    pub schedule: Schedule,
    /// Hash of the program's structure.
    pub program: u64,
}

/// What a round brought.
#[derive(Default)]
pub struct Round {
    /// New programs, in the order of their numbers.
    pub candidates: Vec<Candidate>,
    /// Candidates that the space refused.
    pub rejections: Vec<Rejection>,
    /// Candidates that came to a program seen before.
    pub duplicates: u64,
}

/// Proposes distinct programs.
pub struct Proposer {
    base: Schedule,
    func: usize,
    space: Space,
    strategy: Strategy,
    seed: u64,
    next: u64,
    seen: HashSet<u64>,
    fruitless: u32,
}

/// How many candidates are drawn at most in a round for each one wanted.
const DRAWS_PER_CANDIDATE: usize = 8;

/// How many are drawn at least, so that a small wish does not mistake bad luck for an exhausted space.
const MIN_DRAWS: usize = 64;

/// After so many rounds without a new program, the space counts as exhausted.
const FRUITLESS_ROUNDS: u32 = 4;

impl Proposer {
    /// A proposer for function `func` of the program that `base` is a schedule of.
    pub fn new(base: Schedule, func: usize, space: Space, strategy: Strategy, seed: u64) -> Proposer {
        Proposer { base, func, space, strategy, seed, next: 0, seen: HashSet::new(), fruitless: 0 }
    }

    /// The space that candidates come from.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Remembers a program, so that it is not proposed.
    pub fn skip(&mut self, program: u64) {
        self.seen.insert(program);
    }

    /// The number of candidates drawn so far, whatever became of them.
    pub fn n_drawn(&self) -> u64 {
        self.next
    }

    /// Has no new program come up in the last rounds?
    pub fn is_exhausted(&self) -> bool {
        match &self.strategy {
            Strategy::Random => self.fruitless >= FRUITLESS_ROUNDS,
            Strategy::Replay(traces) => self.next >= traces.len() as u64,
        }
    }

    /// Up to `want` new programs, made by `jobs` threads.
    pub fn round(&mut self, want: usize, jobs: usize) -> Round {
        let mut round = Round::default();
        let mut left = (want * DRAWS_PER_CANDIDATE).max(MIN_DRAWS);
        while round.candidates.len() < want && left > 0 && !self.is_exhausted() {
            // The batch depends on nothing but the wish, so the numbers drawn do not depend on the threads.
            let batch = self.batch((want - round.candidates.len()).min(left));
            let drawn = (batch.end - batch.start) as usize;
            if drawn == 0 {
                break;
            }
            left -= drawn;
            let first = batch.start;
            for (offset, made) in self.make(batch, jobs).into_iter().enumerate() {
                match made {
                    Ok((schedule, program)) if self.seen.insert(program) => {
                        round.candidates.push(Candidate { index: first + offset as u64, schedule, program });
                    }
                    Ok(_) => round.duplicates += 1,
                    Err(rejection) => round.rejections.push(rejection),
                }
            }
        }
        self.fruitless = if round.candidates.is_empty() { self.fruitless + 1 } else { 0 };
        round
    }

    fn batch(&mut self, n: usize) -> std::ops::Range<u64> {
        let start = self.next;
        let end = match &self.strategy {
            Strategy::Random => start + n as u64,
            Strategy::Replay(traces) => (start + n as u64).min(traces.len() as u64),
        };
        self.next = end;
        start..end
    }

    fn make(&self, batch: std::ops::Range<u64>, jobs: usize) -> Vec<Result<(Schedule, u64), Rejection>> {
        let n = (batch.end - batch.start) as usize;
        let mut made: Vec<Option<Result<(Schedule, u64), Rejection>>> = (0..n).map(|_| None).collect();
        let jobs = jobs.clamp(1, n.max(1));
        if jobs == 1 {
            return batch.map(|i| self.candidate(i)).collect();
        }
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs)
                .map(|_| {
                    scope.spawn(|| {
                        let mut mine = Vec::new();
                        loop {
                            let i = next.fetch_add(1, Ordering::Relaxed);
                            if i >= n {
                                return mine;
                            }
                            mine.push((i, self.candidate(batch.start + i as u64)));
                        }
                    })
                })
                .collect();
            for worker in workers {
                match worker.join() {
                    Ok(mine) => mine.into_iter().for_each(|(i, result)| made[i] = Some(result)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        made.into_iter().flatten().collect()
    }

    fn candidate(&self, index: u64) -> Result<(Schedule, u64), Rejection> {
        let schedule = match &self.strategy {
            Strategy::Random => self.space.sample(&self.base, stream(self.seed, index))?,
            Strategy::Replay(traces) => {
                let mut sch = self.base.clone();
                sch.set_rng(stream(self.seed, index));
                traces[index as usize].replay(&mut sch).map_err(|e| Rejection {
                    stage: Stage::Schedule,
                    by: e.error.primitive.to_string(),
                    message: e.error.kind.to_string(),
                })?;
                sch
            }
        };
        let program = program_hash(schedule.func(self.func));
        Ok((schedule, program))
    }
}
