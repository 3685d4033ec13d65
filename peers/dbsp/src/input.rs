//! Inputs: the rows of a batch wait for the clock to start.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use dbsp::operator::input::{StagedBuffers, ZSetStagedBuffers};
use dbsp::utils::{Tup1, Tup2, Tup3, Tup4, Tup5, Tup6, Tup7};
use dbsp::{DBData, ZSetHandle};

use crate::columns::{Row, changes};
use crate::types::Time;

/// One relation of a query.
pub trait Source: Send {
    fn relation(&self) -> &'static str;
    /// Makes rows of changes. They wait for `send`. ends: the last times of the batches.
    fn decode(&mut self, records: &RecordBatch, ends: &[Time]) -> Result<(), String>;
    /// Hands the waiting rows of the batch with this end to the circuit.
    fn send(&mut self, end: Time);
}

pub struct Input<D> {
    pub relation: &'static str,
    pub columns: &'static [&'static str],
    pub handle: ZSetHandle<D>,
    /// The rows of batches for each worker, with the ends of the batches.
    pub waiting: VecDeque<(Time, ZSetStagedBuffers)>,
}

impl<D: Row + DBData> Source for Input<D> {
    fn relation(&self) -> &'static str {
        self.relation
    }

    fn decode(&mut self, records: &RecordBatch, ends: &[Time]) -> Result<(), String> {
        for (end, changes) in changes(records, self.relation, self.columns, ends)? {
            let rows = changes.into_iter().map(|(row, _, diff)| Tup2(row, diff));
            self.waiting.push_back((end, self.handle.stage([rows.collect()])));
        }
        Ok(())
    }

    fn send(&mut self, end: Time) {
        while self.waiting.front().is_some_and(|(of, _)| *of <= end) {
            let (_, mut rows) = self.waiting.pop_front().expect("there is a first one");
            rows.flush();
        }
    }
}

implement_row!(Tup1<A>, Tup1, A);
implement_row!(Tup2<A, B>, Tup2, A B);
implement_row!(Tup3<A, B, C>, Tup3, A B C);
implement_row!(Tup4<A, B, C, D>, Tup4, A B C D);
implement_row!(Tup5<A, B, C, D, E>, Tup5, A B C D E);
implement_row!(Tup6<A, B, C, D, E, F>, Tup6, A B C D E F);
implement_row!(Tup7<A, B, C, D, E, F, G>, Tup7, A B C D E F G);
