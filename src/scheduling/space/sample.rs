//! Samples candidates from a space.

use super::postproc::Postproc;
use super::reason::NoChoice;
use crate::schedule::arg::Decision;
use crate::schedule::error::ScheduleError;
use crate::schedule::{Instruction, Schedule, Trace};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::sync::Arc;

/// A part of a space: its schedules differ in decisions only.
#[derive(Clone)]
pub enum Sketch {
    /// A trace whose sampling instructions have no decision.
    Trace(Trace),
    /// A user's schedule function, run anew for each candidate.
    Function(Arc<dyn ScheduleSource>),
}

/// Applies instructions to a new schedule, which draws decisions from its random stream. Implemented by schedule
/// functions.
pub trait ScheduleSource: Send + Sync {
    /// Applies the instructions.
    ///
    /// # Errors
    /// If an instruction is refused, or the function itself fails; the text says where.
    fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError>;
}

/// Why a schedule function failed on a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceError {
    /// An instruction was refused.
    Schedule(ScheduleError),
    /// The function itself failed.
    Function(String),
}

/// The stage at which a candidate was rejected before compilation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Applying its decisions.
    Schedule,
    /// Running a postprocessor.
    Postproc,
}

impl Stage {
    /// The name used in records and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Schedule => "schedule",
            Stage::Postproc => "postproc",
        }
    }
}

/// A rejected candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Rejection {
    /// Position of the sketch; `None` if the candidate was not sampled.
    pub sketch: Option<usize>,
    /// Stage of the rejection.
    pub stage: Stage,
    /// Name of the primitive or postprocessor that refused.
    pub by: String,
    /// The error message.
    pub message: String,
}

impl Rejection {
    /// The rejection for a refused instruction.
    pub fn of_instruction(stage: Stage, error: ScheduleError) -> Rejection {
        Rejection { sketch: None, stage, by: error.primitive.to_string(), message: error.kind.to_string() }
    }
}

/// A candidate to try before anything is measured: a sketch with all decisions, derived from the machine's description.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Position of the sketch.
    pub sketch: usize,
    /// Its trace with all decisions; not postprocessed.
    pub trace: Trace,
}

/// Sketches, and the postprocessors that finish their samples.
pub struct Space {
    sketches: Vec<Sketch>,
    seeds: Vec<Seed>,
    no_choices: Vec<NoChoice>,
    postprocs: Vec<Box<dyn Postproc>>,
}

impl Space {
    /// A space of these sketches.
    pub fn new(sketches: Vec<Sketch>, postprocs: Vec<Box<dyn Postproc>>) -> Space {
        Space { sketches, seeds: Vec::new(), no_choices: Vec::new(), postprocs }
    }

    /// Adds candidates for the first round to try, most promising first.
    #[must_use]
    pub fn with_seeds(self, seeds: Vec<Seed>) -> Space {
        Space { seeds, ..self }
    }

    /// Adds the blocks about which no sketch decides anything.
    #[must_use]
    pub(crate) fn with_no_choices(self, no_choices: Vec<NoChoice>) -> Space {
        Space { no_choices, ..self }
    }

    /// The blocks about which no sketch decides anything, each with the reason. Empty for a schedule function.
    pub fn no_choices(&self) -> &[NoChoice] {
        &self.no_choices
    }

    /// The candidates to try first.
    pub fn seeds(&self) -> &[Seed] {
        &self.seeds
    }

    /// The space of a schedule function. It has no postprocessors: the function determines everything.
    pub fn of_function(function: Arc<dyn ScheduleSource>) -> Space {
        Space::new(vec![Sketch::Function(function)], Vec::new())
    }

    /// The sketches.
    pub fn sketches(&self) -> &[Sketch] {
        &self.sketches
    }

    /// Whether there is nothing to decide, so that each sketch has a single candidate.
    pub fn is_empty(&self) -> bool {
        self.sketches.is_empty()
    }

    /// A random candidate: draws a sketch and its decisions, and postprocesses the schedule. Returns the schedule and
    /// the sketch's position. `base` is the schedule of the program as written; all randomness comes from `rng`.
    ///
    /// # Errors
    /// If the candidate is rejected, which is common.
    pub fn sample(&self, base: &Schedule, mut rng: ChaCha8Rng) -> Result<(Schedule, usize), Rejection> {
        let n = self.sketches.len() as u64;
        let index = if n > 1 { crate::schedule::primitive::sampling::below(&mut rng, n) as usize } else { 0 };
        let Some(sketch) = self.sketches.get(index) else {
            return Err(no_sketch());
        };
        let mut sch = base.clone();
        sch.set_rng(rng);
        self.sample_sketch(sketch, &mut sch).map_err(|r| Rejection { sketch: Some(index), ..r })?;
        Ok((sch, index))
    }

    /// A candidate of one sketch, postprocessed. Sampling instructions take these decisions where they are valid
    /// ([`Schedule::prefer_decisions`]); other decisions are drawn from `rng`.
    ///
    /// # Errors
    /// If the candidate is rejected.
    pub fn build(
        &self,
        base: &Schedule,
        sketch: usize,
        decisions: &[Decision],
        rng: ChaCha8Rng,
    ) -> Result<Schedule, Rejection> {
        let Some(sketch) = self.sketches.get(sketch) else { return Err(no_sketch()) };
        let mut sch = base.clone();
        sch.set_rng(rng);
        sch.prefer_decisions(decisions.iter().cloned());
        self.sample_sketch(sketch, &mut sch)?;
        Ok(sch)
    }

    /// The position of the sketch that a trace belongs to. A schedule function is assumed to produce every trace, since
    /// only running it would tell.
    pub fn sketch_of(&self, trace: &Trace) -> Option<usize> {
        let insts = &trace.insts[..trace.space_len()];
        self.sketches.iter().position(|sketch| match sketch {
            Sketch::Function(_) => true,
            Sketch::Trace(sketch) => {
                let is_like = |(a, b): (&Instruction, &Instruction)| {
                    a.kind == b.kind && a.outputs.len() == b.outputs.len() && a.args == b.args
                };
                sketch.insts.len() == insts.len() && sketch.insts.iter().zip(insts).all(is_like)
            }
        })
    }

    /// Applies a sketch and the postprocessors to a schedule of the program as written; decisions come from its random
    /// stream. Instructions before a refusal remain applied.
    ///
    /// # Errors
    /// If the candidate is rejected.
    pub fn sample_sketch(&self, sketch: &Sketch, sch: &mut Schedule) -> Result<(), Rejection> {
        match sketch {
            Sketch::Trace(trace) => {
                trace.replay(sch).map_err(|e| Rejection::of_instruction(Stage::Schedule, e.error))?
            }
            Sketch::Function(f) => f.apply(sch).map_err(|e| match e {
                SourceError::Schedule(e) => Rejection::of_instruction(Stage::Schedule, e),
                SourceError::Function(message) => {
                    let by = "schedule function".to_string();
                    Rejection { sketch: None, stage: Stage::Schedule, by, message }
                }
            })?,
        }
        self.postprocess(sch)
    }

    /// Runs the postprocessors on a schedule, after `enter_postproc`.
    ///
    /// # Errors
    /// If one of them rejects the candidate.
    pub fn postprocess(&self, sch: &mut Schedule) -> Result<(), Rejection> {
        if self.postprocs.is_empty() {
            return Ok(());
        }
        sch.enter_postproc().map_err(|e| Rejection::of_instruction(Stage::Postproc, e))?;
        for postproc in &self.postprocs {
            postproc.apply(sch).map_err(|message| Rejection {
                sketch: None,
                stage: Stage::Postproc,
                by: postproc.name().to_string(),
                message,
            })?;
        }
        Ok(())
    }
}

fn no_sketch() -> Rejection {
    Rejection {
        sketch: None,
        stage: Stage::Schedule,
        by: "space".to_string(),
        message: "the space has no sketch".to_string(),
    }
}

/// Random stream `index` of a seed. Candidate `index` draws from it, on whatever thread it is made.
pub fn stream(seed: u64, index: u64) -> ChaCha8Rng {
    use rand_chacha::rand_core::SeedableRng;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    // Advances by one step, to differ from the stream of plain seeding.
    rng.next_u32();
    rng
}
