//! Inputs: the rows of a batch wait for the clock to start.

use arrow_array::RecordBatch;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::core::input::Handle;

use crate::columns::{Row, changes};
use crate::flow::{Diff, Time};

/// Rows of a container that enters the dataflow; a whole one is moved, not copied.
const CONTAINER_ROWS: usize = 1024;

pub type Updates<D> = Vec<(D, Time, Diff)>;

/// One relation of a query, on one worker.
pub trait Source {
    fn relation(&self) -> &'static str;
    /// Makes rows of the changes in a batch. They wait for `send`.
    fn decode(&mut self, batch: &RecordBatch) -> Result<(), String>;
    /// Hands the waiting rows to the dataflow.
    fn send(&mut self);
    /// Declares that no row will have an earlier time.
    fn advance(&mut self, time: Time);
}

pub struct Input<D: Clone + 'static> {
    pub relation: &'static str,
    pub columns: &'static [&'static str],
    pub handle: Handle<Time, CapacityContainerBuilder<Updates<D>>>,
    pub waiting: Vec<Updates<D>>,
}

impl<D: Row + Clone + 'static> Source for Input<D> {
    fn relation(&self) -> &'static str {
        self.relation
    }

    fn decode(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let mut updates = changes(batch, self.relation, self.columns)?.map(|(row, time, diff)| {
            let time = Time::try_from(time).map_err(|_| format!("a time before 0: {time}"))?;
            Ok::<_, String>((row, time, diff as Diff))
        });
        loop {
            let container = updates.by_ref().take(CONTAINER_ROWS).collect::<Result<Vec<_>, _>>()?;
            if container.is_empty() {
                return Ok(());
            }
            self.waiting.push(container);
        }
    }

    fn send(&mut self) {
        for mut container in self.waiting.drain(..) {
            self.handle.send_batch(&mut container);
        }
    }

    fn advance(&mut self, time: Time) {
        self.handle.advance_to(time);
    }
}

implement_row!((A,), |a| (a,), A);
implement_row!((A, B), |a, b| (a, b), A B);
implement_row!((A, B, C), |a, b, c| (a, b, c), A B C);
implement_row!((A, B, C, D), |a, b, c, d| (a, b, c, d), A B C D);
implement_row!((A, B, C, D, E), |a, b, c, d, e| (a, b, c, d, e), A B C D E);
implement_row!((A, B, C, D, E, F), |a, b, c, d, e, f| (a, b, c, d, e, f), A B C D E F);
implement_row!((A, B, C, D, E, F, G), |a, b, c, d, e, f, g| (a, b, c, d, e, f, g), A B C D E F G);
