//! Where a stage is computed: `compute_at`, `compute_inline`, `compute_root`.

use super::Mistake;
use super::axis::AxisId;
use super::stage::{Definition, StageId, Stages};
use crate::diagnostic::Span;

/// Where a stage is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attach {
    /// In loops of its own, before all that read it.
    Root,
    /// In the loop of another stage: in each of its iterations, as much as that needs.
    At(StageId, AxisId),
    /// In each expression that reads it.
    Inline,
}

impl Stages {
    /// Says where a stage is computed; the last call counts. The axis may still be replaced, which shows at the end.
    ///
    /// # Errors
    /// The stage is an input or a result, or is attached to itself.
    pub fn attach(&mut self, stage: StageId, attach: Attach, at: Span) -> Result<(), Mistake> {
        let s = self.stage(stage);
        let name = &s.name;
        if matches!(s.definition, Definition::Input(_)) && attach != Attach::Root {
            return Err(Mistake::new(format!("`{name}` is an input, which is not computed"))
                .help("copy it first: `AA = s.cache_read(A, \"local\", [C])`, then `s[AA].compute_at(…)`"));
        }
        match attach {
            Attach::At(parent, _) if parent == stage => {
                return Err(Mistake::new(format!("`{name}` cannot be computed in a loop of its own")));
            }
            Attach::At(..) | Attach::Inline if s.is_output => {
                let how = if attach == Attach::Inline { "inlined" } else { "computed in the loop of another stage" };
                return Err(Mistake::new(format!("`{name}` is a result of the program, which cannot be {how}")));
            }
            Attach::Inline if s.axes.iter().any(|&a| self.axis(a).is_reduced()) => {
                return Err(Mistake::new(format!("`{name}` is a reduction, which cannot be inlined"))
                    .help("compute it in a loop of the stage that reads it: `compute_at`"));
            }
            Attach::Root | Attach::At(..) | Attach::Inline => {}
        }
        self.stage_mut(stage).attach = (attach, at);
        Ok(())
    }

    /// Computes in the axis `to` of a stage what is computed in its axis `from`, which `to` takes the place of.
    ///
    /// # Errors
    /// None that [`Stages::attach`] has not found before.
    pub fn move_attached(&mut self, stage: StageId, from: AxisId, to: AxisId) -> Result<(), Mistake> {
        for id in self.ids() {
            let (attach, at) = self.stage(id).attach;
            if attach == Attach::At(stage, from) {
                self.attach(id, Attach::At(stage, to), at)?;
            }
        }
        Ok(())
    }
}
