//! Q21, suppliers who kept orders waiting: candidates are the orders with late lines of suppliers of the nation. Three
//! differences of a candidate - its own late lines, the lines of others, the late lines of others - decide whether it
//! counts, so one threshold does the work of EXISTS and NOT EXISTS.

use std::cmp::Reverse;

use differential_dataflow::operators::{CountTotal, ThresholdTotal};

use super::{Plan, plan};
use crate::flow::{distinct, first};
use crate::parameters::Parameters;
use crate::sums::Sums;
use crate::types::{Date, Key, Text, Word};

const LINE: &[&str] = &["l_orderkey", "l_suppkey", "l_commitdate", "l_receiptdate"];

const LIMIT: isize = 100;

pub fn q21(given: &Parameters) -> Result<Plan, String> {
    let nation = given.word("nation")?;
    let expected = given.rows("supplier") / 25;
    plan(move |tpch| {
        let nations = tpch
            .read::<(Key, Word)>("nation", &["n_nationkey", "n_name"])
            .flat_map(move |(key, name)| (name == nation).then_some(key));
        let suppliers = tpch
            .read::<(Key, Key, Text)>("supplier", &["s_suppkey", "s_nationkey", "s_name"])
            .map(|(supplier, nation, name)| (nation, (supplier, name)))
            .join_core(nations.arrange_by_self(), |_, (supplier, name), ()| Some((*supplier, name.clone())))
            .arrange_by_key();
        let finished = Word::of("F");
        let orders = tpch
            .read::<(Key, Word)>("orders", &["o_orderkey", "o_orderstatus"])
            .flat_map(move |(order, status)| (status == finished).then_some(order));
        let lines = tpch
            .read::<(Key, Key, Date, Date)>("lineitem", LINE)
            .map(|(order, supplier, committed, received)| (order, (supplier, committed < received)))
            .arrange_by_key();
        let candidates = lines
            .clone()
            .join_core(orders.arrange_by_self(), |order, (supplier, late), ()| late.then_some((*supplier, *order)))
            .join_core(suppliers.clone(), |supplier, order, _| Some((*order, *supplier)));
        let others = distinct(candidates.clone())
            .join_core(lines, |order, candidate, (other, late)| {
                (candidate != other).then_some(((*order, *candidate), *late))
            })
            .explode(|(candidate, late)| Some((candidate, Sums([0, 1, late.into()]))));
        let waiting = candidates
            .explode(|candidate| Some((candidate, Sums([1, 0, 0]))))
            .concat(others)
            .threshold_total(|_, Sums([own, others, late])| if *others > 0 && *late == 0 { *own as isize } else { 0 })
            .map(|(_, supplier)| supplier)
            .arrange_by_self()
            .join_core(suppliers, |_, (), name| Some(name.clone()))
            .count_total()
            .map(|(name, count)| (Reverse(count), name));
        tpch.answer(first(waiting, LIMIT, expected, |row| bucket_of(&row.1)), |(Reverse(count), name), cells| {
            cells.text(name);
            cells.integer(*count as i64);
        });
    })
}

/// Hashes a name: the names of suppliers differ in their last digits.
fn bucket_of(name: &Text) -> u32 {
    name.bytes().iter().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}
