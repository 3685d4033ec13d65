//! The parts of circuits that several queries share.

use std::collections::VecDeque;

use dbsp::operator::Generator;
use dbsp::utils::Tup2;
use dbsp::{Circuit, DBData, OrdIndexedZSet, OrdZSet, RootCircuit, Runtime, Stream, indexed_zset};

use crate::cells::Cells;
use crate::columns::Row;
use crate::input::{Input, Source};
use crate::output::{Output, Sink};
use crate::types::Money;

/// A sum of decimal numbers, which has as many bits as those of dbsp's own SQL.
pub type Sum = i128;
/// A collection of rows.
pub type Rows<D> = Stream<RootCircuit, OrdZSet<D>>;
/// A collection of pairs of a key and a value, indexed by the key.
pub type Index<K, V> = Stream<RootCircuit, OrdIndexedZSet<K, V>>;

/// A circuit under construction: its inputs, and its output.
pub struct Tables<'a> {
    circuit: &'a mut RootCircuit,
    pub sources: Vec<Box<dyn Source>>,
    pub sink: Option<Box<dyn Sink>>,
}

impl<'a> Tables<'a> {
    pub fn new(circuit: &'a mut RootCircuit) -> Self {
        Self { circuit, sources: Vec::new(), sink: None }
    }

    /// Returns some columns of a relation.
    pub fn read<D: Row + DBData>(&mut self, relation: &'static str, columns: &'static [&'static str]) -> Rows<D> {
        let (rows, handle) = self.circuit.add_input_zset();
        self.sources.push(Box::new(Input { relation, columns, handle, waiting: VecDeque::new() }));
        rows
    }

    /// Returns the only row of an aggregate without GROUP BY, which is NULL while the aggregate has no rows.
    pub fn or_null<A: DBData>(&self, aggregate: &Index<(), A>) -> Index<(), Option<A>> {
        let mut waits = Runtime::worker_index() == 0;
        let null = self.circuit.add_source(Generator::new(move || match std::mem::take(&mut waits) {
            true => indexed_zset! { () => Option<A>: () => { None => 1 } },
            false => indexed_zset! {},
        }));
        let there = aggregate.map_index(|(_, value)| ((), Some(value.clone())));
        let not_null = aggregate.map_index(|_| ((), None)).neg();
        null.sum([&there, &not_null])
    }

    /// Collects the changes of the answer. `write` writes the columns of a row.
    pub fn answer<K: DBData, V: DBData>(
        &mut self,
        rows: &Index<K, V>,
        write: impl Fn(&K, &V, &mut Cells) + Send + 'static,
    ) {
        let handle = rows.accumulate_output();
        self.sink = Some(Box::new(Output { handle, kept: Vec::new(), write }));
    }
}

/// Sums the values of each key.
pub fn sums<K: DBData>(values: &Index<K, Money>) -> Index<K, Sum> {
    // An aggregate that is zero is no row, so the number of rows is kept with a sum of 0.
    values.aggregate_linear_postprocess(|value| Tup2(Sum::from(*value), 1_i64), |Tup2(sum, _)| sum)
}
