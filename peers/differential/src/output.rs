//! Outputs: the changes of the answer in memory.

use std::cell::RefCell;
use std::rc::Rc;

use arrow_array::RecordBatch;

use crate::cells::{Cells, columns};
use crate::input::Updates;

/// The changes of the answer on one worker.
pub trait Sink {
    /// Consolidates the changes since the last call, keeps them if they are wanted, and returns their number.
    fn settle(&mut self, keep: bool) -> usize;
    /// Returns all kept changes as columns, and forgets them.
    fn take(&mut self, answer: &[(String, String)]) -> Result<RecordBatch, String>;
}

pub struct Output<D, W> {
    /// The changes as the dataflow has made them.
    pub fresh: Rc<RefCell<Updates<D>>>,
    pub kept: Vec<Updates<D>>,
    /// Writes the columns of a row.
    pub write: W,
}

impl<D: Ord, W: Fn(&D, &mut Cells)> Sink for Output<D, W> {
    fn settle(&mut self, keep: bool) -> usize {
        let mut fresh = self.fresh.borrow_mut();
        consolidate(&mut fresh);
        let count = fresh.len();
        if keep && count > 0 {
            self.kept.push(std::mem::take(&mut *fresh));
        } else {
            fresh.clear();
        }
        count
    }

    fn take(&mut self, answer: &[(String, String)]) -> Result<RecordBatch, String> {
        let changes = self.kept.drain(..).flatten().map(|(row, time, diff)| (row, time, diff as i64));
        columns(answer, changes, &self.write)
    }
}

/// Adds up the changes of each row and time, and drops those that cancel out. The result is in the order of time.
fn consolidate<D: Ord>(updates: &mut Updates<D>) {
    // The changes of a key arrive in the order of time, which a stable sort makes use of.
    updates.sort_by_key(|(_, time, _)| *time);
    for changes in updates.chunk_by_mut(|(_, time1, _), (_, time2, _)| time1 == time2) {
        changes.sort_unstable_by(|(row1, _, _), (row2, _, _)| row1.cmp(row2));
    }
    updates.dedup_by(|(row, time, diff), (kept_row, kept_time, kept)| {
        let same = time == kept_time && row == kept_row;
        if same {
            *kept += *diff;
        }
        same
    });
    updates.retain(|&(_, _, diff)| diff != 0);
}
