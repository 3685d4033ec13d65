//! Outputs: the changes of the answer in memory.

use arrow_array::RecordBatch;
use dbsp::typed_batch::{DynBatchReader, IndexedZSetReader, SpineSnapshot};
use dbsp::{DBData, OrdIndexedZSet, OutputHandle};

use crate::cells::{Cells, columns};
use crate::types::Time;

/// The changes of the answer.
pub trait Sink: Send {
    /// Consolidates the changes of the last batch, keeps them if they are wanted, and returns their number.
    fn settle(&mut self, time: Time, keep: bool) -> usize;
    /// Returns all kept changes as columns, and forgets them.
    fn take(&mut self, answer: &[(String, String)]) -> Result<RecordBatch, String>;
}

pub struct Output<K: DBData, V: DBData, W> {
    pub handle: OutputHandle<SpineSnapshot<OrdIndexedZSet<K, V>>>,
    /// The changes of batches, with their times.
    pub kept: Vec<(Time, OrdIndexedZSet<K, V>)>,
    /// Writes the columns of a row.
    pub write: W,
}

impl<K: DBData, V: DBData, W: Fn(&K, &V, &mut Cells) + Send> Sink for Output<K, V, W> {
    fn settle(&mut self, time: Time, keep: bool) -> usize {
        let changes = self.handle.concat().consolidate();
        let count = changes.len();
        if keep && count > 0 {
            self.kept.push((time, changes));
        }
        count
    }

    fn take(&mut self, answer: &[(String, String)]) -> Result<RecordBatch, String> {
        let kept = std::mem::take(&mut self.kept);
        let changes = kept.iter().flat_map(|(time, changes)| changes.iter().map(|(k, v, diff)| ((k, v), *time, diff)));
        columns(answer, changes, |(key, value), cells| (self.write)(key, value, cells))
    }
}
