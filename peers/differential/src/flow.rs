//! The parts of dataflows that several queries share.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use differential_dataflow::hashable::Hashable;
use differential_dataflow::operators::ThresholdTotal;
use differential_dataflow::{AsCollection, Data, ExchangeData, VecCollection};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::Operator;
use timely::dataflow::operators::probe::Handle as Probe;
use timely::dataflow::operators::{Input as _, Probe as _, ToStream};

use crate::cells::Cells;
use crate::columns::Row;
use crate::input::{Input, Source};
use crate::output::{Output, Sink};
use crate::types::Time;

/// How many times a row occurs.
pub type Diff = isize;

/// A collection of rows, each with a difference at some times.
pub type Rows<'s, D, R = Diff> = VecCollection<'s, Time, D, R>;

/// A dataflow under construction: its inputs, and its output.
pub struct Tables<'s> {
    scope: Scope<'s, Time>,
    pub sources: Vec<Box<dyn Source>>,
    pub sink: Option<Box<dyn Sink>>,
    pub probe: Probe<Time>,
}

impl<'s> Tables<'s> {
    pub fn new(scope: Scope<'s, Time>) -> Self {
        Self { scope, sources: Vec::new(), sink: None, probe: Probe::new() }
    }

    /// Returns some columns of a relation as tuples.
    pub fn read<D: Row + Clone + 'static>(
        &mut self,
        relation: &'static str,
        columns: &'static [&'static str],
    ) -> Rows<'s, D> {
        let (handle, stream) = self.scope.new_input();
        self.sources.push(Box::new(Input { relation, columns, handle, waiting: VecDeque::new() }));
        stream.as_collection()
    }

    /// Returns a row that is there from time 0 on.
    pub fn always<D: Data, R: Clone + 'static>(&self, row: D, diff: R) -> Rows<'s, D, R> {
        let first = (self.scope.index() == 0).then_some((row, 0, diff));
        first.to_stream(self.scope).as_collection()
    }

    /// Collects the changes of the answer. `write` writes the columns of a row.
    pub fn answer<D: ExchangeData + Hashable>(&mut self, rows: Rows<'s, D>, write: impl Fn(&D, &mut Cells) + 'static) {
        let fresh = Rc::new(RefCell::new(Vec::new()));
        let collected = Rc::clone(&fresh);
        // Equal rows meet on one worker, where their changes cancel out.
        let exchange = Exchange::new(|(row, _, _): &(D, Time, Diff)| row.hashed().into());
        rows.inner
            .unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(exchange, "Collect", |_, _| {
                move |input, _| input.for_each(|_, updates| collected.borrow_mut().append(updates))
            })
            .probe_with(&self.probe);
        self.sink = Some(Box::new(Output { fresh, kept: Vec::new(), write }));
    }
}

/// Returns each row once.
///
/// `distinct_total` of version 0.25.1 never takes a row back: its threshold is 1 for a count of 0 as well.
pub fn distinct<'s, D: ExchangeData + Hashable>(rows: Rows<'s, D>) -> Rows<'s, D> {
    rows.threshold_total(|_, count| Diff::from(*count != 0))
}

/// Returns the first rows in their order, counted with their multiplicity, as ORDER BY and LIMIT do.
///
/// Rows fall into buckets by their keys. The first rows of each bucket are the candidates of the next level, which has a
/// quarter of the buckets, so a change rescans a few hundred rows instead of all. `expected` is a guess of their number.
pub fn first<'s, D: ExchangeData + Hashable>(
    mut rows: Rows<'s, D>,
    limit: Diff,
    expected: u64,
    key: impl Fn(&D) -> u32 + Clone + 'static,
) -> Rows<'s, D> {
    for buckets in levels(expected / (2 * limit as u64), 2) {
        let key = key.clone();
        rows = rows
            .map(move |row| (bucket(key(&row), buckets), row))
            .reduce_named("First", move |_, rows, first| {
                let mut left = limit;
                for (row, count) in rows {
                    if left <= 0 {
                        break;
                    }
                    first.push(((*row).clone(), left.min(*count)));
                    left -= count;
                }
            })
            .map(|(_, row)| row);
    }
    rows
}

/// Returns the rows with the smallest first part, with all ties, by levels as `first` does.
pub fn least<'s, O, D>(mut rows: Rows<'s, (O, D)>, expected: u64, key: fn(&D) -> u32) -> Rows<'s, (O, D)>
where
    O: ExchangeData + Hashable,
    D: ExchangeData + Hashable,
{
    for buckets in levels(expected / 16, 4) {
        rows = rows
            .map(move |row| (bucket(key(&row.1), buckets), row))
            .reduce_named("Least", |_, rows, least| {
                let smallest = &rows[0].0.0;
                let ties = rows.iter().take_while(|(row, _)| row.0 == *smallest);
                least.extend(ties.map(|(row, count)| ((*row).clone(), *count)));
            })
            .map(|(_, row)| row);
    }
    rows
}

/// Returns the logarithms of the numbers of buckets of all levels: each is a `shift` smaller than the one before.
fn levels(buckets: u64, shift: u32) -> impl Iterator<Item = u32> {
    let most = buckets.max(1).ilog2().next_multiple_of(shift).min(24);
    (0..=most / shift).rev().map(move |level| level * shift)
}

fn bucket(key: u32, bits: u32) -> u32 {
    let mixed = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    if bits == 0 { 0 } else { (mixed >> (64 - bits)) as u32 }
}

/// Returns the rows whose number exceeds a threshold that moves.
///
/// A number exceeds another if, for some digit, it has a larger one there, and both agree in all digits before. So a
/// row is arranged by each of its prefixes, and the threshold as well: a threshold that moves a little changes only its
/// last digits, and meets only the rows next to it. `places` are the bits behind each digit, from 0 on.
pub fn above<'s, D: ExchangeData>(
    rows: Rows<'s, (i64, D)>,
    threshold: Rows<'s, i64>,
    places: &'static [u32],
) -> Rows<'s, (i64, D)> {
    let prefixes = move |number: i64| {
        let before = move |digit: usize| places.get(digit + 1).map_or(0, |place| number >> place);
        places.iter().enumerate().map(move |(digit, place)| ((digit as u8, before(digit)), number >> place))
    };
    let rows = rows.flat_map(move |(number, row)| {
        prefixes(number).map(move |(prefix, start)| (prefix, (start, number, row.clone())))
    });
    rows.join_core(threshold.flat_map(prefixes).arrange_by_key(), |_, (start, number, row), threshold| {
        (start > threshold).then(|| (*number, row.clone()))
    })
}
