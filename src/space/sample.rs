//! Sampling candidates from a space.

use super::postproc::Postproc;
use crate::schedule::arg::Decision;
use crate::schedule::error::ScheduleError;
use crate::schedule::{Instruction, Schedule, Trace};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::sync::Arc;

/// A part of a space: a way to make schedules that differ in decisions only.
#[derive(Clone)]
pub enum Sketch {
    /// A trace whose sampling instructions have no decision.
    Trace(Trace),
    /// A user's schedule function, carried out anew for each candidate.
    Function(Arc<dyn ScheduleSource>),
}

/// Something that carries out instructions on a fresh schedule, drawing decisions from its stream: a schedule
/// function.
pub trait ScheduleSource: Send + Sync {
    /// Carries it out.
    ///
    /// # Errors
    /// If an instruction is refused, or the function itself fails; the text says where.
    fn apply(&self, sch: &mut Schedule) -> Result<(), SourceError>;
}

/// A schedule function failed on a candidate.
#[derive(Clone, PartialEq, Debug)]
pub enum SourceError {
    /// An instruction was refused.
    Schedule(ScheduleError),
    /// The function went wrong by itself.
    Function(String),
}

/// Where a candidate was lost before it was compiled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// While its decisions were applied.
    Schedule,
    /// In a postprocessor.
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

/// A candidate that came to nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct Rejection {
    /// Position of the sketch that it was sampled from, if it was sampled.
    pub sketch: Option<usize>,
    /// At which stage.
    pub stage: Stage,
    /// The primitive or postprocessor that refused.
    pub by: String,
    /// Why.
    pub message: String,
}

impl Rejection {
    /// An instruction was refused.
    pub fn of_instruction(stage: Stage, error: ScheduleError) -> Rejection {
        Rejection { sketch: None, stage, by: error.primitive.to_string(), message: error.kind.to_string() }
    }
}

/// A candidate worth trying before anything is known: a sketch with all its decisions, derived from what is known of
/// the machine.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Position of the sketch.
    pub sketch: usize,
    /// Its trace, decisions made; not postprocessed.
    pub trace: Trace,
}

/// Sketches and the postprocessors that finish what is sampled from them.
pub struct Space {
    sketches: Vec<Sketch>,
    seeds: Vec<Seed>,
    postprocs: Vec<Box<dyn Postproc>>,
}

impl Space {
    /// A space of these sketches.
    pub fn new(sketches: Vec<Sketch>, postprocs: Vec<Box<dyn Postproc>>) -> Space {
        Space { sketches, seeds: Vec::new(), postprocs }
    }

    /// With candidates that the first round should try, the most promising first.
    #[must_use]
    pub fn with_seeds(self, seeds: Vec<Seed>) -> Space {
        Space { seeds, ..self }
    }

    /// The candidates to try first.
    pub fn seeds(&self) -> &[Seed] {
        &self.seeds
    }

    /// The space of a schedule function, without postprocessors: the function has the last word.
    pub fn of_function(function: Arc<dyn ScheduleSource>) -> Space {
        Space::new(vec![Sketch::Function(function)], Vec::new())
    }

    /// The sketches.
    pub fn sketches(&self) -> &[Sketch] {
        &self.sketches
    }

    /// Does the space leave nothing to decide, so that its first sample of each sketch is all there is?
    pub fn is_empty(&self) -> bool {
        self.sketches.is_empty()
    }

    /// A candidate: a sketch drawn at random, with decisions drawn at random, postprocessed; and the sketch's position.
    /// `base` is the schedule of the program as written; all randomness comes from `rng`.
    ///
    /// # Errors
    /// If the candidate is refused; this is nothing unusual.
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

    /// A candidate of one sketch, postprocessed: its sampling instructions take these decisions as far as they fit
    /// ([`Schedule::wish`]); what is left open is drawn from `rng`.
    ///
    /// # Errors
    /// If the candidate is refused.
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
        sch.wish(decisions.iter().cloned());
        self.sample_sketch(sketch, &mut sch)?;
        Ok(sch)
    }

    /// The sketch that a trace is of. A schedule function is taken to be able to make every trace: only running it
    /// would tell.
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

    /// Carries out a sketch and the postprocessors on a schedule of the program as written; decisions come from its
    /// stream. What is carried out before a refusal stays.
    ///
    /// # Errors
    /// If the candidate is refused.
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

    /// Runs the postprocessors on a schedule, behind `enter_postproc`.
    ///
    /// # Errors
    /// If one of them refuses.
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

/// Stream `index` of a seed: candidate `index` draws from it, whatever thread makes it.
pub fn stream(seed: u64, index: u64) -> ChaCha8Rng {
    use rand_chacha::rand_core::SeedableRng;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    // One step apart from the stream that plain seeding starts at.
    rng.next_u32();
    rng
}
