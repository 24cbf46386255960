//! Finds valid positions for a block among the statements under a loop.

use super::super::error::{ErrorKind, ScheduleError};
use super::super::state::State;
use crate::ir::{BlockId, LoopId, StmtId};

/// The positions, in a list of statements, of the producers and consumers of a moved block (TVM's
/// `ProducerConsumerSplit`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProducerConsumerSplit {
    /// The first position after all producers.
    pub first: usize,
    /// The position of the first statement with a consumer, or the number of statements.
    pub last: usize,
    /// Number of producers in the list.
    pub n_producers: usize,
    /// Number of consumers in the list.
    pub n_consumers: usize,
}

impl ProducerConsumerSplit {
    /// Searches the statements `list`.
    ///
    /// # Errors
    ///
    /// If a statement with a consumer precedes or contains a producer.
    pub(crate) fn find(
        state: &State,
        at: StmtId,
        list: &[StmtId],
        producers: &[BlockId],
        consumers: &[BlockId],
    ) -> Result<Self, ScheduleError> {
        let mut split = ProducerConsumerSplit { first: 0, last: list.len(), n_producers: 0, n_consumers: 0 };
        for (position, &s) in list.iter().enumerate() {
            let blocks = match state.func.as_block(s) {
                Some(b) => vec![b],
                None => state.func.child_blocks(s),
            };
            let n_producers = blocks.iter().filter(|b| producers.contains(b)).count();
            let n_consumers = blocks.iter().filter(|b| consumers.contains(b)).count();
            if n_producers > 0 {
                split.first = position + 1;
            }
            if n_consumers > 0 {
                split.last = split.last.min(position);
            }
            split.n_producers += n_producers;
            split.n_consumers += n_consumers;
        }
        if split.first > split.last {
            let kind = ErrorKind::InsertionPointNotFound { producer: split.first - 1, consumer: split.last };
            return Err(state.error(kind, at));
        }
        Ok(split)
    }

    /// The position for `index`: the last possible for -1, the first for -2, else `index` itself.
    ///
    /// # Errors
    ///
    /// If the position is not possible.
    pub(crate) fn position(self, state: &State, at: LoopId, index: i64) -> Result<usize, ScheduleError> {
        match (index, usize::try_from(index)) {
            (-1, _) => Ok(self.last),
            (-2, _) => Ok(self.first),
            (_, Ok(i)) if (self.first..=self.last).contains(&i) => Ok(i),
            _ => {
                let allowed = format!("-1, -2 and {} to {}", self.first, self.last);
                Err(state.error(ErrorKind::InvalidIndex { index, allowed }, at))
            }
        }
    }
}
