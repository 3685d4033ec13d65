//! Inputs: the rows of a batch wait for the clock to start.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::core::input::Handle;

use crate::columns::{Row, changes};
use crate::flow::Diff;
use crate::types::Time;

/// Rows of a container that enters the dataflow; a whole one is moved, not copied.
const CONTAINER_ROWS: usize = 1024;

pub type Updates<D> = Vec<(D, Time, Diff)>;

/// One relation of a query, on one worker.
pub trait Source {
    fn relation(&self) -> &'static str;
    /// Makes rows of changes. They wait for `send`. ends: the last times of the batches.
    fn decode(&mut self, records: &RecordBatch, ends: &[Time]) -> Result<(), String>;
    /// Hands the waiting rows of the batch with this end to the dataflow, and declares that later ones have later times.
    fn send(&mut self, end: Time);
}

pub struct Input<D: Clone + 'static> {
    pub relation: &'static str,
    pub columns: &'static [&'static str],
    pub handle: Handle<Time, CapacityContainerBuilder<Updates<D>>>,
    /// Containers of rows, each with the end of its batch.
    pub waiting: VecDeque<(Time, Updates<D>)>,
}

impl<D: Row + Clone + 'static> Source for Input<D> {
    fn relation(&self) -> &'static str {
        self.relation
    }

    fn decode(&mut self, records: &RecordBatch, ends: &[Time]) -> Result<(), String> {
        for (end, changes) in changes(records, self.relation, self.columns, ends)? {
            let mut updates = changes.into_iter().map(|(row, time, diff)| (row, time, diff as Diff)).peekable();
            while updates.peek().is_some() {
                self.waiting.push_back((end, updates.by_ref().take(CONTAINER_ROWS).collect()));
            }
        }
        Ok(())
    }

    fn send(&mut self, end: Time) {
        while self.waiting.front().is_some_and(|(of, _)| *of <= end) {
            let (_, mut rows) = self.waiting.pop_front().expect("there is a first one");
            self.handle.send_batch(&mut rows);
        }
        self.handle.advance_to(end + 1);
    }
}

implement_row!((A,), |a| (a,), A);
implement_row!((A, B), |a, b| (a, b), A B);
implement_row!((A, B, C), |a, b, c| (a, b, c), A B C);
implement_row!((A, B, C, D), |a, b, c, d| (a, b, c, d), A B C D);
implement_row!((A, B, C, D, E), |a, b, c, d, e| (a, b, c, d, e), A B C D E);
implement_row!((A, B, C, D, E, F), |a, b, c, d, e, f| (a, b, c, d, e, f), A B C D E F);
implement_row!((A, B, C, D, E, F, G), |a, b, c, d, e, f, g| (a, b, c, d, e, f, g), A B C D E F G);
